#include "base/invariant.h"

#include <stdio.h>
#include <stdlib.h>

void braid_invariant_broken(const char *file, int line, const char *invariant) {
  (void)fprintf(stderr, "%s:%d: invariant violated: %s\n", file, line, invariant);
  abort();
}
