/* Sanitizers and emulators make everything take up to thirty times as long (tests/CMakeLists.txt defines BRAID_SLOW for
 * them): there a test may take some of its cases, or be left out where it looks for nothing that these find.
 *
 *   for (int i = 0; i < 180; i += UNLESS_SLOW(1, 11))
 *   skip_if_slow();   inside a test, with skip.h, which says more: does not return */
#ifndef BRAID_TESTS_SLOW_H
#define BRAID_TESTS_SLOW_H

#ifdef BRAID_SLOW
#define UNLESS_SLOW(value, slow) (slow)
#define skip_if_slow() skip_test("speed", "it takes too long under a sanitizer or an emulator")
#else
#define UNLESS_SLOW(value, slow) (value)
#define skip_if_slow() (void)0
#endif

#endif
