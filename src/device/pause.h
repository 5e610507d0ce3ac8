/* Busy waiting. */
#ifndef BRAID_DEVICE_PAUSE_H
#define BRAID_DEVICE_PAUSE_H

/* Iterations of busy waiting before a thread sleeps: a few microseconds, about the cost of sleeping and waking up. */
enum { kShortSpins = 200 };

static inline void braid_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#endif
