/* Asserts of what must hold between our own functions, whatever we are given; input is never asserted. They are
 * compiled in with BRAID_INVARIANTS (CMake; on with sanitizers and in debug builds, so in the tests of CI), where a
 * broken one ends the program, and are not evaluated without. */
#ifndef BRAID_BASE_INVARIANT_H
#define BRAID_BASE_INVARIANT_H

#include <stdbool.h>
#include <stdint.h>

_Noreturn void braid_invariant_broken(const char *file, int line, const char *invariant);

#ifdef BRAID_INVARIANTS
#define BRAID_ASSERTED true
#define BRAID_ASSERT(invariant) ((invariant) ? (void)0 : braid_invariant_broken(__FILE__, __LINE__, #invariant))
#else
#define BRAID_ASSERTED false
#define BRAID_ASSERT(invariant) ((void)sizeof((invariant) ? 1 : 0))
#endif

/* References to an object, by any thread: who counts them has one. */
static inline void braid_references_add(uint32_t *references) {
  uint32_t before = __atomic_fetch_add(references, 1, __ATOMIC_RELAXED);
  BRAID_ASSERT(before > 0 && before < UINT32_MAX);
  (void)before;
}

/* True: that was the last one. */
static inline bool braid_references_drop(uint32_t *references) {
  uint32_t before = __atomic_fetch_sub(references, 1, __ATOMIC_ACQ_REL);
  BRAID_ASSERT(before > 0);
  return before == 1;
}

#endif
