/* The host's monotonic clock. */
#ifndef BRAID_BASE_CLOCK_H
#define BRAID_BASE_CLOCK_H
#include <stdint.h>
int64_t braid_now_ns(void);
#endif
