/* Host memory announced to the devices that copy from and to it: the host's arena, and the caller's. */
#include "base/detail.h"
#include "base/try.h"
#include "runtime/session.h"

/* Devices that want to know, up to `count` of them. */
static void unregister(braid_session *session, void *host, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const braid_plan_device *device = &session->plan.devices[i];
    if (device->space != kHostSpace && device->backend->host_register && device->backend->host_unregister)
      device->backend->host_unregister(device->self, host);
  }
}

static braid_status announce(braid_session *session, void *host, size_t bytes) {
  for (size_t i = 0; i < session->plan.device_count; i++) {
    const braid_plan_device *device = &session->plan.devices[i];
    if (device->space == kHostSpace || !device->backend->host_register) continue;
    braid_clear_detail();
    braid_status status = device->backend->host_register(device->self, host, bytes);
    if (status == BRAID_OK) continue;
    unregister(session, host, i);
    return braid_fail_prefix(status, "device %s: pinning memory", device->label);
  }
  return BRAID_OK;
}

braid_status braid_session_add_pin(braid_session *session, void *host, size_t bytes) {
  if (!host || !bytes) return BRAID_OK;
  braid_pin *pin = braid_zalloc(session->allocator, sizeof *pin);
  if (!pin) return BRAID_NO_MEMORY;
  braid_status status = announce(session, host, bytes);
  if (status != BRAID_OK) {
    braid_free(session->allocator, pin);
    return status;
  }
  *pin = (braid_pin){.host = host, .next = session->pins};
  session->pins = pin;
  return BRAID_OK;
}

void braid_session_remove_pin(braid_session *session, void *host) {
  braid_pin **link = &session->pins;
  while (*link && (*link)->host != host) link = &(*link)->next;
  braid_pin *pin = *link;
  if (!pin) return;
  *link = pin->next;
  unregister(session, host, session->plan.device_count);
  braid_free(session->allocator, pin);
}

braid_status braid_session_pin(braid_session *session, void *host, size_t bytes) {
  BRAID_TRY(braid_session_enter(session, "braid_session_pin"));
  braid_status status = braid_session_add_pin(session, host, bytes);
  braid_session_leave(session);
  return status;
}

braid_status braid_session_unpin(braid_session *session, void *host) {
  BRAID_TRY(braid_session_enter(session, "braid_session_unpin"));
  braid_session_remove_pin(session, host);
  braid_session_leave(session);
  return BRAID_OK;
}
