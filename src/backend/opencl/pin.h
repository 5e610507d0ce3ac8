/* Host memory that transfers use again and again. A card's driver pins memory that an object of its own uses in place,
 * and copies from and to pinned memory directly (measured on an H200: 55 GB/s, 18 without). */
#ifndef BRAID_BACKEND_OPENCL_PIN_H
#define BRAID_BACKEND_OPENCL_PIN_H

#include "backend/opencl/device.h"

/* For braid_backend. What cannot be pinned is copied as before, which is no failure. */
braid_status braid_cl_host_register(void *device, void *host, size_t bytes);
/* No transfer may be using it. */
void braid_cl_host_unregister(void *device, void *host);

#endif
