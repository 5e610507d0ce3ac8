/* braid conformance: runs ONNX's backend tests in worker processes, so that a crash or a hang fails only one case.
 * Workers take cases from a shared counter and write their reports to one pipe. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "braid/conformance.h"
#include "cli.h"

enum { MAX_JOBS = 256, CASE_SECONDS = 300 };

typedef struct worker_slot {
  pid_t pid;
  atomic_long current; /* index of its current case; -1: none */
} worker_slot;

typedef struct shared_state {
  atomic_long next;
  worker_slot slots[MAX_JOBS];
} shared_state;

typedef struct case_record {
  long index;
  braid_case_report report;
} case_record;

typedef struct op_row {
  const char *op;
  size_t passed, failed, unsupported;
  const char *reason; /* of the first that did not pass */
} op_row;

typedef struct conformance {
  cli_common common;
  const char *directory, *op, *name;
  int jobs;
  braid_cases *cases;
  size_t *chosen, count; /* cases selected by the filters */
  braid_case_report *reports;
  bool *reported;
  shared_state *shared;
  int pipe[2];
} conformance;

/* --- options ------------------------------------------------------------------------------------------------------ */
static const struct argp_option kOptions[] = {
    {"op", 'o', "NAME", 0, "Only cases of this op (\"Conv\", \"Gelu (function)\", \"network\")", 0},
    {"case", 'c', "TEXT", 0, "Only cases whose name contains TEXT", 0},
    {"jobs", 'j', "N", 0, "Number of worker processes (default: one per CPU)", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state) {
  conformance *run = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &run->common;
    return 0;
  case 'o':
    run->op = text;
    return 0;
  case 'c':
    run->name = text;
    return 0;
  case 'j':
    run->jobs = (int)cli_integer(state, "--jobs", text, 1, MAX_JOBS);
    return 0;
  case ARGP_KEY_ARG:
    if (run->directory) argp_error(state, "one directory at a time");
    run->directory = text;
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "which directory?");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- workers ------------------------------------------------------------------------------------------------------ */
static void work(conformance *run, worker_slot *slot) {
  for (;;) {
    long at = atomic_fetch_add(&run->shared->next, 1);
    if (at >= (long)run->count) _exit(0);
    atomic_store(&slot->current, at);
    alarm(CASE_SECONDS);
    case_record record = {.index = at};
    if (braid_cases_run(run->cases, run->chosen[at], &record.report) == BRAID_NO_MEMORY)
      snprintf(record.report.reason, sizeof record.report.reason, "out of memory");
    if (write(run->pipe[1], &record, sizeof record) != sizeof record) _exit(1);
    atomic_store(&slot->current, -1);
  }
}

static bool start(conformance *run, int slot) {
  fflush(NULL);
  pid_t pid = fork();
  atomic_store(&run->shared->slots[slot].current, -1);
  if (pid == 0) {
    signal(SIGINT, SIG_DFL);
    work(run, &run->shared->slots[slot]);
  }
  run->shared->slots[slot].pid = pid;
  return pid > 0;
}

static void keep(conformance *run, const case_record *record) {
  if (record->index < 0 || record->index >= (long)run->count) return;
  run->reports[record->index] = record->report;
  run->reported[record->index] = true;
}

static void drain(conformance *run, int timeout_ms) {
  struct pollfd ready = {.fd = run->pipe[0], .events = POLLIN};
  case_record record;
  while (poll(&ready, 1, timeout_ms) > 0 && (ready.revents & POLLIN)) {
    if (read(run->pipe[0], &record, sizeof record) != sizeof record) return;
    keep(run, &record);
    timeout_ms = 0;
  }
}

/* Handles the end of a worker, at the end of the list or within a case. Returns whether another was started. */
static bool worker_ended(conformance *run, int slot, int status) {
  long at = atomic_load(&run->shared->slots[slot].current);
  run->shared->slots[slot].pid = 0;
  drain(run, 0);
  if (at < 0 || at >= (long)run->count || run->reported[at]) return false;
  braid_case_report *report = &run->reports[at];
  *report = (braid_case_report){.result = BRAID_CASE_FAILED};
  if (braid_cases_op(run->cases, run->chosen[at], report->op) != BRAID_OK)
    snprintf(report->op, sizeof report->op, "network");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    snprintf(report->reason, sizeof report->reason, "timed out after %d s", CASE_SECONDS);
  else
    snprintf(report->reason, sizeof report->reason, "the process ended: %s",
             WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
  run->reported[at] = true;
  return start(run, slot);
}

static size_t done(const conformance *run) {
  size_t count = 0;
  for (size_t i = 0; i < run->count; i++) count += run->reported[i];
  return count;
}

static void supervise(conformance *run) {
  cli_progress progress;
  int alive = 0;
  cli_progress_begin(&progress, "conformance");
  for (int i = 0; i < run->jobs; i++) alive += start(run, i);
  while (alive && !cli_interrupted()) {
    int status;
    drain(run, 50);
    cli_progress_update(&progress, (int64_t)done(run), (int64_t)run->count, NULL);
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
      for (int i = 0; i < run->jobs; i++)
        if (run->shared->slots[i].pid == pid && !worker_ended(run, i, status)) alive--;
  }
  for (int i = 0; alive && i < run->jobs; i++)
    if (run->shared->slots[i].pid > 0) kill(run->shared->slots[i].pid, SIGKILL);
  while (waitpid(-1, NULL, 0) > 0) continue;
  cli_progress_end(&progress);
}

/* --- results ------------------------------------------------------------------------------------------------------ */
static const char *const kResults[] = {"passed", "failed", "unsupported"};

static int compare_rows(const void *a, const void *b) {
  return strcmp(((const op_row *)a)->op, ((const op_row *)b)->op);
}

/* One row per op, sorted; the last one, with op NULL, holds the totals. */
static op_row *tabulate(const conformance *run, size_t *out_count) {
  op_row *rows = calloc(run->count + 1, sizeof *rows);
  size_t count = 0;
  for (size_t i = 0; rows && i < run->count; i++) {
    const braid_case_report *report = &run->reports[i];
    size_t at = 0;
    while (at < count && strcmp(rows[at].op, report->op) != 0) at++;
    if (at == count) rows[count++].op = report->op;
    for (int k = 0; k < 2; k++) {
      op_row *row = k ? &rows[run->count] : &rows[at];
      row->passed += report->result == BRAID_CASE_PASSED;
      row->failed += report->result == BRAID_CASE_FAILED;
      row->unsupported += report->result == BRAID_CASE_UNSUPPORTED;
      if (!row->reason && report->result != BRAID_CASE_PASSED) row->reason = report->reason;
    }
  }
  if (rows) qsort(rows, count, sizeof *rows, compare_rows);
  *out_count = count;
  return rows;
}

static void print_table(const conformance *run, const op_row *rows, size_t count) {
  printf("%-34s %7s %7s %12s  %s\n", "op", "passed", "failed", "unsupported", "first reason");
  for (size_t i = 0; i < count; i++)
    printf("%-34s %7zu %7zu %12zu  %.100s\n", rows[i].op, rows[i].passed, rows[i].failed, rows[i].unsupported,
           rows[i].reason ? rows[i].reason : "");
  for (size_t i = 0; i < run->count; i++) {
    const braid_case_report *report = &run->reports[i];
    if (report->result == BRAID_CASE_FAILED || (run->common.verbose && report->result != BRAID_CASE_PASSED))
      printf("%s: %s: %s\n", kResults[report->result], braid_cases_name(run->cases, run->chosen[i]), report->reason);
  }
  const op_row *total = &rows[run->count];
  printf("%zu cases: %zu passed, %zu failed, %zu unsupported\n", run->count, total->passed, total->failed,
         total->unsupported);
}

static void print_json(const conformance *run, const op_row *rows, size_t count) {
  cli_json json;
  if (!cli_json_begin(&json)) return;
  const op_row *total = &rows[run->count];
  cli_json_string(&json, "directory", run->directory);
  cli_json_integer(&json, "cases", (int64_t)run->count);
  cli_json_integer(&json, "passed", (int64_t)total->passed);
  cli_json_integer(&json, "failed", (int64_t)total->failed);
  cli_json_integer(&json, "unsupported", (int64_t)total->unsupported);
  cli_json_array(&json, "ops");
  for (size_t i = 0; i < count; i++) {
    cli_json_object(&json, NULL);
    cli_json_string(&json, "op", rows[i].op);
    cli_json_integer(&json, "passed", (int64_t)rows[i].passed);
    cli_json_integer(&json, "failed", (int64_t)rows[i].failed);
    cli_json_integer(&json, "unsupported", (int64_t)rows[i].unsupported);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_array(&json, "results");
  for (size_t i = 0; i < run->count; i++) {
    const braid_case_report *report = &run->reports[i];
    cli_json_object(&json, NULL);
    cli_json_string(&json, "case", braid_cases_name(run->cases, run->chosen[i]));
    cli_json_string(&json, "op", report->op);
    cli_json_string(&json, "result", kResults[report->result]);
    cli_json_string(&json, "reason", report->reason);
    cli_json_integer(&json, "bound", report->bound);
    cli_json_number(&json, "measured_ms", report->run_ms);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_end(&json);
}

/* --- the command -------------------------------------------------------------------------------------------------- */
static bool matches(const conformance *run, size_t index) {
  char op[64];
  if (run->name && !strstr(braid_cases_name(run->cases, index), run->name)) return false;
  if (!run->op) return true;
  return braid_cases_op(run->cases, index, op) == BRAID_OK && strcmp(op, run->op) == 0;
}

static bool cases_prepare(conformance *run) {
  size_t all = braid_cases_count(run->cases);
  run->chosen = calloc(all, sizeof *run->chosen);
  run->reports = calloc(all, sizeof *run->reports);
  run->reported = calloc(all, sizeof *run->reported);
  run->shared = mmap(NULL, sizeof *run->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run->shared == MAP_FAILED) run->shared = NULL;
  if (!run->chosen || !run->reports || !run->reported || !run->shared || pipe(run->pipe) != 0) return false;
  for (size_t i = 0; i < all; i++)
    if (matches(run, i)) run->chosen[run->count++] = i;
  if (run->jobs > (int)run->count) run->jobs = (int)run->count;
  return true;
}

static int report(conformance *run) {
  size_t count;
  op_row *rows = tabulate(run, &count);
  if (!rows) return CLI_FAILED;
  if (run->common.json)
    print_json(run, rows, count);
  else
    print_table(run, rows, count);
  int code = rows[run->count].failed ? CLI_FAILED : CLI_OK;
  free(rows);
  return code;
}

int cli_conformance(int argc, char **argv) {
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {
      kOptions,
      parse,
      "DIR",
      "Runs the ONNX backend tests below DIR (model.onnx with test_data_set_*) and counts, per op, what passed, "
      "failed, "
      "and is not supported.\vExit code 1 if any case failed.\n\nExample:\n  braid conformance --op Conv "
      "onnx/backend/test/data",
      children,
      NULL,
      NULL};
  conformance run = {.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), .pipe = {-1, -1}};
  if (run.jobs < 1) run.jobs = 1;
  if (run.jobs > MAX_JOBS) run.jobs = MAX_JOBS;
  cli_parse(&argp, argc, argv, &run);
  cli_start_log(&run.common);
  braid_status status = braid_cases_find(NULL, run.directory, &run.cases);
  if (status != BRAID_OK) return cli_fail(&run.common, "conformance", status);
  cli_catch_interrupt();
  int code = CLI_FAILED;
  if (!cases_prepare(&run)) {
    code = cli_fail_text(&run.common, "conformance", CLI_FAILED, "can't start: %s", strerror(errno));
  } else if (!run.count) {
    code = cli_fail_text(&run.common, "conformance", CLI_USAGE, "%s: no case matches", run.directory);
  } else {
    supervise(&run);
    code = cli_interrupted() ? cli_fail_text(&run.common, "conformance", CLI_INTERRUPTED,
                                             "interrupted after %zu of %zu cases", done(&run), run.count)
                             : report(&run);
  }
  if (run.shared) munmap(run.shared, sizeof *run.shared);
  for (int i = 0; i < 2; i++)
    if (run.pipe[i] >= 0) close(run.pipe[i]);
  free(run.chosen);
  free(run.reports);
  free(run.reported);
  braid_cases_destroy(run.cases);
  return code;
}
