/* Events as the library's own rooms see them: in storage of their owner, so that a session keeps its thousands in one
 * array. Everybody else uses braid_event_create. */
#ifndef BRAID_DEVICE_EVENT_H
#define BRAID_DEVICE_EVENT_H

#include "braid/device.h"

struct braid_event {
  uint32_t state; /* bits of event.c, atomic; the futex waiters sleep on */
  braid_status status;
  braid_timing timing;
  const void *native_owner;
  void *native;
  void (*call)(void *context, braid_status status);
  void *context;
  char *detail; /* of a failure; NULL: none */
  const braid_allocator *allocator;
};

void braid_event_init(braid_event *event, const braid_allocator *allocator);
void braid_event_deinit(braid_event *event);

#endif
