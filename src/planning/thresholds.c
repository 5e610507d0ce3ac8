/* The thresholds of Hype-training, section 3.2: how much bandwidth, and how many instructions per cycle, an operation
 * has on the fast device where the others stop being faster at it. Each is the larger one of the operations that the
 * profile names (the paper's are MatMul and Conv2D). */
#include <math.h>
#include <string.h>

#include "planning/machine.h"

/* The row of the device alone with the fewest bytes above `bytes`; NULL: none. */
static const braid_profile_row *next_row(const braid_profile *profile, const char *device, const char *op,
                                         double bytes) {
  const braid_profile_row *next = NULL;
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const braid_profile_row *row = &profile->rows[i];
    if (row->devices != 1 || strcmp(row->device, device) != 0 || strcmp(row->op, op) != 0) continue;
    if (row->bytes > bytes && (!next || row->bytes < next->bytes)) next = row;
  }
  return next;
}

/* What the fastest group of a kind takes; INFINITY: it has no rows. */
static double least_ms(const braid_profile *profile, const char *device, int64_t count, const char *op, double bytes) {
  double least = INFINITY;
  for (int64_t together = 1; together <= count && together <= BRAID_PROFILE_DEVICES; together++) {
    braid_profile_row row;
    if (braid_profile_at(profile, device, together, op, bytes, &row) && row.ms < least) least = row.ms;
  }
  return least;
}

bool braid_profile_crossing(const braid_profile *profile, const char *fast, const char *other, int64_t others,
                            const char *op, braid_modelled_thresholds *out) {
  const braid_profile_row *below = NULL, *row = next_row(profile, fast, op, 0);
  double before = 0, bandwidth = 0, rate = 0;
  bool stops = true;
  *out = (braid_modelled_thresholds){NAN, NAN};
  if (!row) return false;
  for (; row; row = next_row(profile, fast, op, row->bytes)) {
    double now = log(least_ms(profile, other, others, op, row->bytes) / row->ms);
    stops = now > 0;
    if (below && before <= 0 && stops) {
      double share = isinf(now) ? 0 : -before / (now - before);
      bandwidth = below->gigabytes_per_second + share * (row->gigabytes_per_second - below->gigabytes_per_second);
      rate = below->instructions_per_cycle + share * (row->instructions_per_cycle - below->instructions_per_cycle);
    }
    below = row;
    before = now;
  }
  if (stops) *out = (braid_modelled_thresholds){bandwidth, rate};
  return stops;
}

/* False: there is no such place, or the profile has not counted what the fast device does there. */
static bool raise_thresholds(const braid_profile *profile, const char *fast, const braid_modelled_device *other,
                             const char *op, braid_modelled_thresholds *out) {
  braid_modelled_thresholds at;
  if (!braid_profile_crossing(profile, fast, other->profile, other->count, op, &at)) return false;
  if (isnan(at.gigabytes_per_second) || isnan(at.instructions_per_cycle)) return false;
  out->gigabytes_per_second = fmax(out->gigabytes_per_second, at.gigabytes_per_second);
  out->instructions_per_cycle = fmax(out->instructions_per_cycle, at.instructions_per_cycle);
  return true;
}

braid_modelled_thresholds braid_machine_thresholds(const braid_machine_file *file, const braid_profile *profile) {
  static const braid_modelled_thresholds kNone = {NAN, NAN};
  braid_modelled_thresholds found = {0};
  const braid_modelled_device *fast = NULL;
  bool any = false;
  for (unsigned d = file->devices_count; d-- > 0;)
    if (braid_modelled_class(file->devices[d].class) == BRAID_CLASS_GPU) fast = &file->devices[d];
  for (unsigned d = 0; fast && d < file->devices_count; d++)
    for (unsigned i = 0; i < profile->threshold_ops_count; i++) {
      const braid_modelled_device *other = &file->devices[d];
      if (braid_modelled_class(other->class) == BRAID_CLASS_GPU) continue;
      if (!raise_thresholds(profile, fast->profile, other, profile->threshold_ops[i], &found)) return kNone;
      any = true;
    }
  return any ? found : kNone;
}
