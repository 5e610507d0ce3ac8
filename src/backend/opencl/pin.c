#include "backend/opencl/pin.h"

enum { kLeastBytes = 1 << 16 }; /* pinning takes as long as copying some megabytes */

struct braid_cl_pin {
  void *host;
  cl_mem memory;
  braid_cl_pin *next;
};

braid_status braid_cl_host_register(void *self, void *host, size_t bytes) {
  braid_cl_device *device = self;
  if (bytes < kLeastBytes || device->info.memory == BRAID_MEMORY_UNIFIED || braid_cl_device_is_lost(device))
    return BRAID_OK;
  braid_cl_pin *pin = braid_zalloc(device->allocator, sizeof *pin);
  if (!pin) return BRAID_NO_MEMORY;
  cl_int code;
  pin->host = host;
  pin->memory =
      device->cl->CreateBuffer(device->shared->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, host, &code);
  if (!pin->memory) {
    braid_free(device->allocator, pin);
    return BRAID_OK;
  }
  pthread_mutex_lock(&device->lock);
  pin->next = device->pins;
  device->pins = pin;
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

void braid_cl_host_unregister(void *self, void *host) {
  braid_cl_device *device = self;
  pthread_mutex_lock(&device->lock);
  braid_cl_pin **link = &device->pins;
  while (*link && (*link)->host != host) link = &(*link)->next;
  braid_cl_pin *pin = *link;
  if (pin) *link = pin->next;
  pthread_mutex_unlock(&device->lock);
  if (!pin) return;
  braid_cl_context_drop(device->shared, BRAID_CL_OBJECT_MEMORY, pin->memory);
  braid_free(device->allocator, pin);
}
