/* Programs: kernel text compiled for a card and loaded. One is built once per device, text and options, by one thread
 * while others wait for it, kept until the device is closed, and beyond that in files (launch/cache.h). */
#ifndef BRAID_BACKEND_CUDA_PROGRAM_H
#define BRAID_BACKEND_CUDA_PROGRAM_H

#include "backend/cuda/device.h"

/* The kernel that the launch names. */
BRAID_MUST_CHECK braid_status braid_cuda_program_find(braid_cuda_device *device, const braid_launch *launch,
                                                      const char *more_options, braid_cuda_function *out);
void braid_cuda_programs_release(braid_cuda_device *device); /* with the device */

#endif
