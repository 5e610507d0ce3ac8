/* A registry for tests: messages go to `write` (NULL: nowhere), programs are built once for all tests, in the folder
 * that ctest names. */
#ifndef BRAID_TESTS_REGISTRY_H
#define BRAID_TESTS_REGISTRY_H

#include <stdio.h>
#include <stdlib.h>

#include "braid/device.h"

static inline braid_registry *
open_test_registry(void (*write)(void *context, braid_log_level level, const char *message), void *context) {
  const char *cache = getenv("XDG_CACHE_HOME");
  char where[4096];
  braid_registry *registry;
  if (braid_registry_create(NULL, &registry) != BRAID_OK) return NULL;
  braid_registry_set_log(registry, &(braid_log){write, context});
  (void)snprintf(where, sizeof where, "%s/braid", cache ? cache : "");
  if (cache && braid_registry_set_cache(registry, where) != BRAID_OK) {
    braid_registry_destroy(registry);
    return NULL;
  }
  return registry;
}

#endif
