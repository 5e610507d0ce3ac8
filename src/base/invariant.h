/* Assertions of invariants between our own functions; input is never asserted. They are compiled in with
 * BRAID_INVARIANTS (CMake; on in sanitizer and debug builds, so in the tests of CI), and not evaluated without. A
 * violation aborts the program. */
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

/* Atomic reference counts. The caller of add holds a reference. */
static inline void braid_references_add(uint32_t *references) {
  uint32_t before = __atomic_fetch_add(references, 1, __ATOMIC_RELAXED);
  BRAID_ASSERT(before > 0 && before < UINT32_MAX);
  (void)before;
}

/* Returns true if it dropped the last reference. */
static inline bool braid_references_drop(uint32_t *references) {
  uint32_t before = __atomic_fetch_sub(references, 1, __ATOMIC_ACQ_REL);
  BRAID_ASSERT(before > 0);
  return before == 1;
}

#endif
