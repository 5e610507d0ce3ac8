/* Counters of a context in the words of Linux's accel drivers. */
#include <inttypes.h>
#include <stdio.h>

#include "overlay/share/card.h"

int braid_share_fdinfo_of(size_t client, int cores, double priority, const braid_share_counters *c, double seconds,
                          double clock_mhz, char *text, size_t bytes) {
  double hertz = clock_mhz * 1e6;
  return snprintf(text, bytes,
                  "drm-driver:\tbraid-overlay\n"
                  "drm-client-id:\t%zu\n"
                  "drm-engine-core:\t%" PRIu64 " ns\n"
                  "drm-engine-capacity-core:\t%d\n"
                  "drm-cycles-core:\t%" PRIu64 "\n"
                  "drm-total-cycles-core:\t%" PRIu64 "\n"
                  "drm-maxfreq-core:\t%" PRIu64 " Hz\n"
                  "braid-overlay-priority:\t%g\n"
                  "braid-overlay-command-submissions:\t%" PRIu64 "\n"
                  "braid-overlay-command-completions:\t%" PRIu64 "\n"
                  "braid-overlay-migrations:\t%" PRIu64 "\n"
                  "braid-overlay-preemptions:\t%" PRIu64 "\n"
                  "braid-overlay-errors:\t%" PRIu64 "\n"
                  "braid-overlay-time-outs:\t%" PRIu64 "\n",
                  client, (uint64_t)(c->core_seconds * 1e9), cores, (uint64_t)(c->core_seconds * hertz),
                  (uint64_t)(seconds * hertz), (uint64_t)hertz, priority, c->command_submissions,
                  c->command_completions, c->migrations, c->preemptions, c->errors, c->time_outs);
}

int braid_share_fdinfo(const braid_share_card *card, size_t context, const braid_share_counters *counters,
                       const braid_share_totals *totals, double clock_mhz, char *text, size_t bytes) {
  return braid_share_fdinfo_of(context, card->cores, card->contexts[context].priority, &counters[context],
                               totals->seconds, clock_mhz, text, bytes);
}
