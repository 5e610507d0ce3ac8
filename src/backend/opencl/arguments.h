/* A launch against the kernel that it names. Kernels of somebody else and what a manifest gives them were written
 * apart: what does not fit is said here with both sides, where drivers give a bare code at best, and at worst take a
 * number for an address. */
#ifndef BRAID_BACKEND_OPENCL_ARGUMENTS_H
#define BRAID_BACKEND_OPENCL_ARGUMENTS_H

#include "backend/opencl/device.h"

/* Count, kinds and types of the arguments. Where the driver tells no types (bitstreams without them), whether it is a
 * number or memory is found by its answers to clSetKernelArg. */
BRAID_MUST_CHECK braid_status braid_cl_arguments_check(const braid_cl_device *device, const braid_launch *launch,
                                                       cl_kernel kernel);
/* Work-items, groups and local memory, once the arguments are set. */
BRAID_MUST_CHECK braid_status braid_cl_sizes_check(const braid_cl_device *device, const braid_launch *launch,
                                                   cl_kernel kernel);

#endif
