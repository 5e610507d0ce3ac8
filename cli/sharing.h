/* Tenants of a card of the overlay, for `braid share` and `braid evaluate overlay`. */
#ifndef BRAID_CLI_SHARING_H
#define BRAID_CLI_SHARING_H

#include "cli.h"

enum { CLI_SHARING_PACKAGES = 16, CLI_SHARING_POLICIES = 16, CLI_SHARING_JOBS = 8, CLI_SHARING_TRACES = 250 };

typedef struct cli_sharing {
  const char *design, *packages[CLI_SHARING_PACKAGES];
  size_t package_count;
  bool isolation, json;
  const char *policies;         /* separated by commas; NULL: all */
  const char *trace, *schedule; /* files; NULL: random arrivals, none */
  double load;
  int64_t jobs, tenants, seed, traces; /* jobs and traces 0: the usual */
} cli_sharing;
/* Runs all trials and prints them (isolation.c). INTERNAL: a tenant computed something else, or something was left. */
braid_status cli_try_isolation(const cli_sharing *how);
/* Runs policies on traces and prints what becomes of the jobs (share_policies.c). */
braid_status cli_try_policies(const cli_sharing *how);

/* --- policies on traces (share_traffic.c) --------------------------------------------------------------------------
 */
typedef struct cli_traffic {
  const braid_overlay_costs *costs[CLI_SHARING_PACKAGES];
  size_t count;
  braid_overlay_traffic_options options; /* of the first trace; the next ones have the seeds after its */
  int64_t traces;
  FILE *schedule; /* a line of CSV for each job; NULL: nobody wants it */
} cli_traffic;
/* Means over the traces, but for `worst` and `longest_wait`, which are the greatest. CANCELLED after Ctrl-C. */
braid_status cli_run_policy(const cli_traffic *traffic, size_t policy, braid_overlay_shared *out);
void cli_head_schedule(FILE *file);
/* A text file; freed with free. NOT_FOUND, IO, and INVALID_FILE for more than 256 MiB. */
braid_status cli_read_trace(const char *path, char **out, size_t *bytes);
extern const double cli_prema_antt, cli_prema_stp, cli_prema_sla; /* published, over first come first served */

#endif
