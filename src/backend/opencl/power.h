/* Power and energy of this backend's devices: of NVIDIA's cards, by launch/nvml.h. OpenCL itself tells neither. */
#ifndef BRAID_BACKEND_OPENCL_POWER_H
#define BRAID_BACKEND_OPENCL_POWER_H

#include "backend/opencl/device.h"

/* read_power and read_energy of the device contract. UNSUPPORTED: nothing tells them of this device, or it is a part.
 */
BRAID_MUST_CHECK braid_status braid_cl_read_power(void *device, double *watts);
BRAID_MUST_CHECK braid_status braid_cl_read_energy(void *device, double *microjoules);

#endif
