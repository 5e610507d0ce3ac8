/* Power and energy of a card, by NVML. */
#ifndef BRAID_BACKEND_CUDA_POWER_H
#define BRAID_BACKEND_CUDA_POWER_H

#include "braid/status.h"

braid_status braid_cuda_read_power(void *device, double *watts);
braid_status braid_cuda_read_energy(void *device, double *microjoules);

#endif
