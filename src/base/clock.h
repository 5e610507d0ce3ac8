/* The host's monotonic clock. */
#ifndef BRAID_BASE_CLOCK_H
#define BRAID_BASE_CLOCK_H
#include <stdint.h>
int64_t braid_now_ns(void);
int64_t braid_thread_ns(void); /* that the calling thread had a CPU for */
/* The time at which a wait of timeout_ns ends; -1: never (timeout_ns < 0, or the sum overflows). */
int64_t braid_deadline_ns(int64_t timeout_ns);
#endif
