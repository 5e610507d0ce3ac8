/* Waiting without sleeping. */
#ifndef BRAID_DEVICE_PAUSE_H
#define BRAID_DEVICE_PAUSE_H

/* Pauses before a waiter asks the operating system: a few microseconds, about what going to sleep and being woken
 * costs. */
enum { kShortSpins = 200 };

static inline void braid_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#endif
