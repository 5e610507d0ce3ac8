/* For threads of queues: sleeping until a task may start. */
#ifndef BRAID_DEVICE_SLEEP_H
#define BRAID_DEVICE_SLEEP_H

#include "braid/device.h"

/* Returns when the point is reached, the run is cancelled (`verdict` NULL: none), *word is no longer `seen`, or
 * timeout_ns (< 0: no limit) have passed; at times for no reason. The first two change *word, which may be anybody's
 * futex, to wake. */
void braid_point_sleep(const braid_point *point, const braid_verdict *verdict, uint32_t *word, uint32_t seen,
                       int64_t timeout_ns);

#endif
