/* Profiles: times and powers of operations on devices, as data; published tables among them. A file is YAML
 * (docs/planning.md). Between its rows, times and powers are interpolated over the bytes that an operation reads and
 * writes. */
#ifndef BRAID_PLANNING_PROFILE_H
#define BRAID_PLANNING_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"

enum { BRAID_PROFILE_DEVICES = 64 }; /* that may share an operation */

/* NAN: not in the file. */
typedef struct braid_profile_row {
  char *device, *op, *size; /* size: the class that the source gives it, or NULL */
  int64_t devices;          /* that share the operation; watts are those of all of them */
  double bytes, ms, average_watts, peak_watts, gigabytes_per_second, instructions_per_cycle;
  const char *key; /* of a measured operation (profile/subject.h); NULL: the row stands for all of its size */
  /* As a file has them; NULL: it has not. */
  int64_t *shared;
  double *average, *peak, *rate, *instructions;
} braid_profile_row;

/* An operation that has no rows of its own is taken as one of the same nature. */
typedef struct braid_profile_likeness {
  char *op, *as;
} braid_profile_likeness;

/* A device was measured to be unable to run an operation: rows of others do not stand for it there. */
typedef struct braid_profile_refusal {
  const char *device, *key;
} braid_profile_refusal;

typedef struct braid_profile {
  char *source;
  char *others;         /* what every operation that is not named is taken as; NULL: it is unknown */
  double launch_ms;     /* no operation takes less */
  char **threshold_ops; /* that thresholds are found by; section 3.2 of Hype-training has MatMul and Conv2D */
  unsigned threshold_ops_count;
  braid_profile_row *rows;
  unsigned rows_count;
  braid_profile_likeness *likenesses;
  unsigned likenesses_count;
  braid_profile_refusal *refusals; /* of a database */
  unsigned refusals_count;
  struct braid_arena *arena; /* of a profile that is no file of YAML: everything in it; else NULL */
  bool keyed;                /* some row has a key */
} braid_profile;

/* INVALID_FILE names the line and what is expected; so are two rows of one op at one size on as many of one device, and
 * texts with control characters, which no database takes. */
BRAID_MUST_CHECK braid_status braid_profile_parse(const char *name, const void *text, size_t bytes,
                                                  braid_profile **out);
void braid_profile_free(braid_profile *profile); /* NULL is allowed */
/* Whether a file is a database (braid/profile.h), and reading one. */
bool braid_profile_is_database(const braid_allocator *allocator, const char *path);
struct braid_profile_db;
BRAID_MUST_CHECK braid_status braid_profile_from_database(struct braid_profile_db *db, const braid_allocator *allocator,
                                                          braid_profile **out);
BRAID_MUST_CHECK braid_status braid_profile_read_database(const braid_allocator *allocator, const char *path,
                                                          braid_profile **out);

bool braid_profile_refuses(const braid_profile *profile, const char *device, const char *key);
/* The operation whose rows stand for `op` on a kind of device (NULL: on any); NULL: none does. */
const char *braid_profile_like(const braid_profile *profile, const char *device, const char *op);
/* Whether any operation has rows for so many devices of a kind together. */
bool braid_profile_has(const braid_profile *profile, const char *device, int64_t devices);
/* What `op` (one that has rows) takes at `bytes` on `devices` devices of a kind; false: no rows. `bytes` of the result
 * are those asked for; numbers that the file does not have are NAN. */
bool braid_profile_at(const braid_profile *profile, const char *device, int64_t devices, const char *op, double bytes,
                      braid_profile_row *out);
/* The row of exactly this operation, measured; NULL: there is none. */
const braid_profile_row *braid_profile_exact(const braid_profile *profile, const char *device, int64_t devices,
                                             const char *key);

#endif
