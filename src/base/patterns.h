/* Lists that send nodes to devices by hand: "pattern=device", of which the first that matches a name counts, and
 * "auto" and "ordered", with spaces or commas between them. A pattern may hold '*' and '?', and may stand in quotes,
 * single or double, and then holds spaces and commas, too: "'conv 1, left'=cpu". */
#ifndef BRAID_BASE_PATTERNS_H
#define BRAID_BASE_PATTERNS_H

#include <stdbool.h>

#include "base/arena.h"
#include "braid/log.h"

typedef struct braid_pattern {
  const char *text;
  int device;
  bool matched; /* a name that braid_patterns_first was asked for */
} braid_pattern;

typedef struct braid_patterns {
  braid_pattern *items; /* in the arena */
  size_t count;
  bool balanced; /* "auto" is in the list */
  bool ordered;  /* "ordered" is */
} braid_patterns;

/* `list` may be NULL. A device is one of `devices`, by name or number; NOT_FOUND lists them as `whose` devices,
 * "session's" for instance. */
BRAID_MUST_CHECK braid_status braid_patterns_parse(const char *list, const char *const *devices, size_t count,
                                                   const char *whose, braid_arena *arena, braid_patterns *out);
/* The first pattern that matches a name; patterns->count: none. All that match it count as matched. */
size_t braid_patterns_first(braid_patterns *patterns, const char *name);
/* After all names of what runs: has every pattern matched? One that only matches others of the `given` names is warned
 * of; NOT_FOUND names one that matches none, and what is near it. */
BRAID_MUST_CHECK braid_status braid_patterns_check(const braid_patterns *patterns, const braid_log *log,
                                                   const char *const *given, size_t count);

#endif
