#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const char doc[] =
    "Runs the ONNX backend tests below DIR (model.onnx with test_data_set_*), several at a time, and counts per op "
    "what "
    "passed, failed, and is not supported, with the reasons."
    "\vExamples:\n"
    "  braid conformance onnx/backend/test/data/node\n"
    "  braid conformance --only conv --all onnx/backend/test/data\n"
    "  braid conformance --json onnx/backend/test/data > result.json\n"
    "\nThe exit code is 1 if a case fails; cases that are not supported do not count as failed.\n";

typedef struct options {
  cli_common common;
  const char *directory, *only;
  bool all;
  int jobs;
} options;

enum { KEY_ONLY = 1, KEY_ALL };

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_ONLY:
    o->only = argument;
    return 0;
  case KEY_ALL:
    o->all = true;
    return 0;
  case 'j':
    o->jobs = (int)cli_integer(state, "--jobs", argument, 1, 1024);
    return 0;
  case ARGP_KEY_ARG:
    if (o->directory) argp_error(state, "one directory is expected, \"%s\" is a second", argument);
    o->directory = argument;
    return 0;
  case ARGP_KEY_END:
    if (!o->directory) argp_error(state, "a directory of test cases is expected");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* What the workers share: they take the next case each, and write its own report. */
typedef struct work {
  const braid_cases *cases;
  const size_t *chosen;
  size_t count;
  braid_case_report *reports;
  atomic_size_t next, done;
  atomic_int status;
} work;

static void *run_cases(void *context) {
  work *w = context;
  for (;;) {
    size_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->count || atomic_load(&w->status) != BRAID_OK || cli_interrupted()) return NULL;
    braid_status status = braid_cases_run(w->cases, w->chosen[i], &w->reports[i]);
    if (status != BRAID_OK) atomic_store(&w->status, (int)status);
    atomic_fetch_add(&w->done, 1);
  }
}

/* Signals stay with the main thread, which draws the progress. */
static braid_status run_all(work *w, int jobs) {
  pthread_t threads[1024];
  sigset_t all, before;
  int started = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (started < jobs && pthread_create(&threads[started], NULL, run_cases, w) == 0) started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) return braid_fail(BRAID_NO_MEMORY, "cannot start a thread");
  cli_progress progress;
  cli_progress_begin(&progress, "cases");
  while (atomic_load(&w->done) < w->count && atomic_load(&w->status) == BRAID_OK && !cli_interrupted()) {
    cli_progress_update(&progress, (int64_t)atomic_load(&w->done), (int64_t)w->count, NULL);
    usleep(20000);
  }
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  cli_progress_end(&progress);
  if (cli_interrupted()) return braid_fail(BRAID_CANCELLED, "interrupted after %zu of %zu cases", w->done, w->count);
  return (braid_status)atomic_load(&w->status);
}

typedef struct tally {
  const char *op;
  size_t results[3]; /* by braid_case_result */
} tally;

static int compare_tally(const void *a, const void *b) {
  return strcmp(((const tally *)a)->op, ((const tally *)b)->op);
}

/* Counts by op, sorted; at most `count` entries. */
static size_t make_tallies(const braid_case_report *reports, size_t count, tally *tallies) {
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < used && strcmp(tallies[at].op, reports[i].op) != 0) at++;
    if (at == used) tallies[used++] = (tally){.op = reports[i].op};
    tallies[at].results[reports[i].result]++;
  }
  qsort(tallies, used, sizeof *tallies, compare_tally);
  return used;
}

static void print_text(const options *o, const work *w, const tally *tallies, size_t ops, const size_t total[3]) {
  printf("%-36s %7s %7s %12s\n", "op", "passed", "failed", "unsupported");
  for (size_t i = 0; i < ops; i++) {
    printf("%-36s %7zu %7zu %12zu\n", tallies[i].op, tallies[i].results[BRAID_CASE_PASSED],
           tallies[i].results[BRAID_CASE_FAILED], tallies[i].results[BRAID_CASE_UNSUPPORTED]);
  }
  printf("%-36s %7zu %7zu %12zu\n", "all", total[BRAID_CASE_PASSED], total[BRAID_CASE_FAILED],
         total[BRAID_CASE_UNSUPPORTED]);
  for (size_t i = 0; i < w->count; i++) {
    const braid_case_report *r = &w->reports[i];
    if (r->result == BRAID_CASE_PASSED || (r->result == BRAID_CASE_UNSUPPORTED && !o->all)) continue;
    printf("%s %s: %s\n", r->result == BRAID_CASE_FAILED ? "FAILED" : "unsupported",
           braid_cases_name(w->cases, w->chosen[i]), r->reason);
  }
}

static void print_json(cli_json *json, const work *w, const tally *tallies, size_t ops, const size_t total[3]) {
  static const char *const words[] = {"passed", "failed", "unsupported"};
  for (int k = 0; k < 3; k++) cli_json_integer(json, words[k], (int64_t)total[k]);
  cli_json_array(json, "ops");
  for (size_t i = 0; i < ops; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "op", tallies[i].op);
    for (int k = 0; k < 3; k++) cli_json_integer(json, words[k], (int64_t)tallies[i].results[k]);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_array(json, "cases");
  for (size_t i = 0; i < w->count; i++) {
    cli_json_object(json, NULL);
    cli_json_string(json, "name", braid_cases_name(w->cases, w->chosen[i]));
    cli_json_string(json, "op", w->reports[i].op);
    cli_json_string(json, "result", words[w->reports[i].result]);
    if (w->reports[i].result != BRAID_CASE_PASSED) cli_json_string(json, "reason", w->reports[i].reason);
    cli_json_integer(json, "bound", w->reports[i].bound);
    cli_json_number(json, "measured_ms", w->reports[i].run_ms);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static braid_status run_chosen(const options *o, const braid_cases *cases, size_t *failed) {
  size_t all = braid_cases_count(cases), count = 0;
  size_t *chosen = calloc(all, sizeof *chosen);
  braid_case_report *reports = calloc(all, sizeof *reports);
  tally *tallies = calloc(all, sizeof *tallies);
  braid_status status = chosen && reports && tallies ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; i < all && status == BRAID_OK; i++) {
    if (!o->only || strstr(braid_cases_name(cases, i), o->only)) chosen[count++] = i;
  }
  if (status == BRAID_OK && !count) {
    status = braid_fail(BRAID_NOT_FOUND, "none of the %zu cases below %s has \"%s\" in its name", all, o->directory,
                        o->only);
  }
  work w = {.cases = cases, .chosen = chosen, .count = count, .reports = reports};
  if (status == BRAID_OK) status = run_all(&w, o->jobs);
  if (status == BRAID_OK) {
    size_t total[3] = {0};
    for (size_t i = 0; i < count; i++) total[reports[i].result]++;
    *failed = total[BRAID_CASE_FAILED];
    size_t ops = make_tallies(reports, count, tallies);
    cli_json json;
    if (!o->common.json) {
      print_text(o, &w, tallies, ops, total);
    } else if (cli_json_begin(&json)) {
      print_json(&json, &w, tallies, ops, total);
      cli_json_end(&json);
    }
  }
  free(chosen);
  free(reports);
  free(tallies);
  return status;
}

int cli_conformance(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"only", KEY_ONLY, "TEXT", 0, "Only cases with this text in their name", 0},
      {"all", KEY_ALL, NULL, 0, "List the unsupported cases too, each with its reason", 0},
      {"jobs", 'j', "N", 0, "Cases at a time (default: one per CPU)", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "DIR", doc, children, NULL, NULL};
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  options o = {.jobs = cpus > 0 && cpus <= 1024 ? (int)cpus : 1};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  cli_catch_interrupt();
  braid_cases *cases;
  size_t failed = 0;
  braid_status status = braid_cases_find(NULL, o.directory, &cases);
  if (status == BRAID_OK) status = run_chosen(&o, cases, &failed);
  braid_cases_destroy(cases);
  if (status != BRAID_OK) return cli_fail(&o.common, "conformance", status);
  return failed ? CLI_FAILED : CLI_OK;
}
