/* Measuring inside: what its parts share. */
#ifndef BRAID_MEASURE_MEASURE_H
#define BRAID_MEASURE_MEASURE_H

#include "measure/meter.h"
#include "measure/subjects.h"
#include "measure/trial.h"
#include "profile/database.h"

/* What a device is now, for entries and for seeing that they are of another one. */
typedef struct braid_identity {
  char description[128], software[160];
  const char *version;
  int64_t threads; /* -1: it has none of ours */
} braid_identity;
void braid_identity_of(braid_device *device, int threads, braid_identity *out);

/* stale.c. Why an entry counts no more, in a sentence; "": it does. */
typedef struct braid_stale {
  char why[512];
} braid_stale;
void braid_entry_check(const braid_profile_entry *entry, const braid_identity *now, double most_days, braid_stale *out);
/* How many MADs lie between two times; MADs below 1 % of the older time count as 1 %, unknown ones as 5 %. */
double braid_drift(double seconds, double mad, double previous, double previous_mad);

/* link.c. Seconds of the smallest transfer, and bytes a second of large ones, on average of both ways; NAN: the device
 * works in the host's memory. */
BRAID_MUST_CHECK braid_status braid_link_measure(braid_machine *machine, const braid_allocator *allocator,
                                                 double *seconds, double *bytes_per_second);

/* platform.c: the platform file of the list's measured devices, in their order; `profile` stands in it as its profile.
 */
void braid_platform_write(const braid_profile_list *list, const char *profile, braid_text *text);

/* beside.c: an operation that runs on another device, again and again, until it is stopped. */
typedef struct braid_beside braid_beside;
/* `spec`: "OP:SIZE@DEVICE". The check writes its device, of up to 63 characters, and starts nothing. */
BRAID_MUST_CHECK braid_status braid_beside_check(const char *spec, const braid_allocator *allocator, char *device,
                                                 size_t bytes);
BRAID_MUST_CHECK braid_status braid_beside_start(braid_registry *registry, const char *spec, int threads,
                                                 const braid_allocator *allocator, braid_beside **out);
/* OK, or why it stopped by itself. NULL is allowed. */
braid_status braid_beside_stop(braid_beside *beside);
const char *braid_beside_device(const braid_beside *beside);
const char *braid_beside_name(const braid_beside *beside); /* "opencl0 MatMul medium" */

/* Sorts the values. */
double braid_median(double *values, size_t count);
/* Of the deviations from `median`; overwrites the values. */
double braid_median_deviation(double *values, size_t count, double median);

#endif
