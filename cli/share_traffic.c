/* Policies that share a card, each on the same traces. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sharing.h"

/* Choi and Rhu, HPCA 2020, on their own accelerator with their own networks. */
const double cli_prema_antt = 7.8, cli_prema_stp = 1.4, cli_prema_sla = 4.8;

/* --- one policy ----------------------------------------------------------------------------------------------------
 */
static void add_trace(const braid_overlay_shared *one, double share, braid_overlay_shared *mean) {
  mean->jobs += one->jobs;
  mean->antt += share * one->antt;
  mean->urgent_antt += share * one->urgent_antt;
  mean->stp += share * one->stp;
  mean->fairness += share * one->fairness;
  for (size_t l = 0; l < sizeof one->within / sizeof *one->within; l++) mean->within[l] += share * one->within[l];
  mean->deadlines += share * one->deadlines;
  mean->p99 += share * one->p99;
  mean->p99_seconds += share * one->p99_seconds;
  mean->worst = fmax(mean->worst, one->worst);
  mean->longest_wait = fmax(mean->longest_wait, one->longest_wait);
  mean->seconds += share * one->seconds;
  mean->switching += share * one->switching;
  mean->idle += share * one->idle;
}

void cli_head_schedule(FILE *file) {
  fputs("policy,seed,job,network,tenant,priority,arrival_s,start_s,end_s,alone_s,executed_s,switched_s,waited_s,"
        "switches,preemptions\n",
        file);
}

/* A name of a file may have a comma. */
static void write_quoted(FILE *file, const char *text) {
  fputc('"', file);
  for (; *text; text++) {
    if (*text == '"') fputc('"', file);
    fputc(*text, file);
  }
  fputc('"', file);
}

static void write_jobs(const cli_traffic *t, size_t policy, uint64_t seed, const braid_overlay_shared_job *jobs,
                       size_t count) {
  for (size_t j = 0; j < count; j++) {
    const braid_overlay_shared_job *job = &jobs[j];
    fprintf(t->schedule, "%s,%llu,%zu,", braid_overlay_policy_at(policy).name, (unsigned long long)seed, j);
    write_quoted(t->schedule, braid_overlay_costs_get_info(t->costs[job->network]).name);
    fprintf(t->schedule, ",%zu,%g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%llu,%llu\n", job->tenant, job->priority,
            job->arrival, job->start, job->end, job->alone, job->executed, job->switched, job->waited,
            (unsigned long long)job->switches, (unsigned long long)job->preemptions);
  }
}

static braid_status run_trace(const cli_traffic *t, const braid_overlay_traffic_options *options, size_t policy,
                              braid_overlay_shared *out) {
  braid_overlay_traffic *traffic;
  braid_status status = braid_overlay_traffic_create(t->costs, t->count, options, NULL, &traffic);
  if (status != BRAID_OK) return status;
  size_t count = braid_overlay_traffic_jobs(traffic);
  braid_overlay_shared_job *jobs = t->schedule ? calloc(count, sizeof *jobs) : NULL;
  if (t->schedule && !jobs) status = cli_no_memory();
  if (status == BRAID_OK) status = braid_overlay_share(traffic, policy, NULL, jobs, out);
  if (status == BRAID_OK && jobs) write_jobs(t, policy, options->seed, jobs, count);
  free(jobs);
  braid_overlay_traffic_destroy(traffic);
  return status;
}

braid_status cli_run_policy(const cli_traffic *traffic, size_t policy, braid_overlay_shared *out) {
  braid_overlay_traffic_options options = traffic->options;
  braid_status status = BRAID_OK;
  *out = (braid_overlay_shared){0};
  for (int64_t r = 0; status == BRAID_OK && r < traffic->traces; r++, options.seed++) {
    braid_overlay_shared one;
    status = run_trace(traffic, &options, policy, &one);
    if (status == BRAID_OK) add_trace(&one, 1 / (double)traffic->traces, out);
    status = cli_go_on(status);
  }
  return status;
}

/* --- recorded traces -----------------------------------------------------------------------------------------------
 */
enum { kMostTraceBytes = 256 << 20 };

static braid_status read_all(FILE *file, const char *path, char **out, size_t *bytes) {
  for (size_t room = 1 << 20; room <= kMostTraceBytes; room *= 2) {
    char *more = realloc(*out, room);
    if (!more) return cli_no_memory();
    *out = more;
    *bytes += fread(more + *bytes, 1, room - *bytes, file);
    if (ferror(file)) return braid_fail(BRAID_IO, "%s: %s", path, strerror(errno));
    if (*bytes < room) return BRAID_OK;
  }
  return braid_fail(BRAID_INVALID_FILE, "%s: more than %d MiB", path, kMostTraceBytes >> 20);
}

braid_status cli_read_trace(const char *path, char **out, size_t *bytes) {
  *out = NULL;
  *bytes = 0;
  FILE *file = fopen(path, "rb");
  if (!file) return braid_fail(errno == ENOENT ? BRAID_NOT_FOUND : BRAID_IO, "%s: %s", path, strerror(errno));
  braid_status status = read_all(file, path, out, bytes);
  fclose(file);
  return status;
}
