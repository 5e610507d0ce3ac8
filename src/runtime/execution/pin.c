/* Host memory announced to the devices that copy from and to it: the host's arena, and the caller's. */
#include "base/detail.h"
#include "base/try.h"
#include "runtime/execution/execution.h"

/* Devices that want to know, up to `count` of them. */
static void unregister(braid_execution *execution, void *host, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const braid_machine_device *device = &execution->machine->devices[i];
    if (device->space != kHostSpace && device->backend->host_register && device->backend->host_unregister)
      device->backend->host_unregister(device->self, host);
  }
}

static braid_status announce(braid_execution *execution, void *host, size_t bytes) {
  for (size_t i = 0; i < execution->machine->device_count; i++) {
    const braid_machine_device *device = &execution->machine->devices[i];
    if (device->space == kHostSpace || !device->backend->host_register) continue;
    braid_clear_detail();
    braid_status status = device->backend->host_register(device->self, host, bytes);
    if (status == BRAID_OK) continue;
    unregister(execution, host, i);
    return braid_fail_prefix(status, "device %s: pinning memory", device->label);
  }
  return BRAID_OK;
}

braid_status braid_execution_pin(braid_execution *execution, void *host, size_t bytes) {
  if (!host || !bytes) return BRAID_OK;
  braid_pin *pin = braid_zalloc(execution->allocator, sizeof *pin);
  if (!pin) return BRAID_NO_MEMORY;
  pthread_mutex_lock(&execution->machine->lock);
  braid_status status = announce(execution, host, bytes);
  pthread_mutex_unlock(&execution->machine->lock);
  if (status != BRAID_OK) {
    braid_free(execution->allocator, pin);
    return status;
  }
  *pin = (braid_pin){.host = host, .next = execution->pins};
  execution->pins = pin;
  return BRAID_OK;
}

void braid_execution_unpin(braid_execution *execution, void *host) {
  braid_pin **link = &execution->pins;
  while (*link && (*link)->host != host) link = &(*link)->next;
  braid_pin *pin = *link;
  if (!pin) return;
  *link = pin->next;
  pthread_mutex_lock(&execution->machine->lock);
  unregister(execution, host, execution->machine->device_count);
  pthread_mutex_unlock(&execution->machine->lock);
  braid_free(execution->allocator, pin);
}
