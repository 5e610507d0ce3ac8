/* Several executions in flight from several threads beside one caller, for frame_bench. */
#ifndef BRAID_RUNTIME_BENCH_CALLERS_H
#define BRAID_RUNTIME_BENCH_CALLERS_H

#include <pthread.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "braid/machine.h"
#include "runtime/surface/bench_nets.h"
#include "runtime/surface/bench_rows.h"

enum { kCallers = 4, kInFlight = 2, kCallerRuns = 64, kPixels = 3 * 224 * 224 };

typedef struct caller {
  braid_execution *executions[kInFlight];
  int in_flight, runs;
  double ms[kCallerRuns];
  braid_status status;
} caller;

/* Keeps its executions in flight by turns. */
static void *call_repeatedly(void *context) {
  static float image[kPixels];
  caller *own = context;
  float scores[kInFlight][1000];
  int64_t started[kInFlight];
  for (int i = 0; own->status == BRAID_OK && i < own->runs + own->in_flight; i++) {
    int which = i % own->in_flight;
    braid_execution *execution = own->executions[which];
    if (i >= own->in_flight) {
      own->status = braid_execution_wait(execution, -1);
      own->ms[i - own->in_flight] = (double)(braid_now_ns() - started[which]) / 1e6;
    }
    if (i >= own->runs || own->status != BRAID_OK) continue;
    started[which] = braid_now_ns();
    own->status = braid_execution_submit(execution, (const void *[]){image}, (void *[]){scores[which]}, NULL, NULL);
  }
  return NULL;
}

/* Pictures per second of `count` callers at the same time. */
static braid_status call_all(caller *callers, int count, double *rate) {
  pthread_t threads[kCallers];
  int64_t start = braid_now_ns(), pictures = 0;
  int started = 0;
  while (started < count && !pthread_create(&threads[started], NULL, call_repeatedly, &callers[started])) started++;
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    pictures += callers[i].runs;
    BRAID_TRY(callers[i].status);
  }
  *rate = (double)pictures / ((double)(braid_now_ns() - start) / 1e9);
  return started == count ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status make_callers(caller *callers, int count, int in_flight, int runs) {
  braid_graph *graph;
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_weights *weights = NULL;
  BRAID_TRY(bench_net_create(NULL, true, &graph));
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  for (int i = 0; i < count; i++) {
    callers[i] = (caller){.in_flight = in_flight, .runs = runs};
    for (int k = 0; status == BRAID_OK && k < in_flight; k++)
      status = braid_execution_create(plan, weights, &callers[i].executions[k]);
  }
  braid_weights_release(weights);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
  return status;
}

static void free_callers(caller *callers, int count) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < callers[i].in_flight; k++) braid_execution_destroy(callers[i].executions[k]);
}

static braid_status case_callers(void) {
  static caller one[1], many[kCallers];
  static double latencies[kCallers * kCallerRuns];
  static double ratios[kMostTurns];
  double alone = 0, late = 0, rate;
  braid_status status = make_callers(one, 1, 1, kCallerRuns);
  if (status == BRAID_OK) status = make_callers(many, kCallers, kInFlight, kCallerRuns / kCallers);
  for (int turn = -1; status == BRAID_OK && turn < turns; turn++) { /* the first warms */
    double together = 0;
    status = call_all(one, 1, &rate);
    if (status == BRAID_OK) status = call_all(many, kCallers, &together);
    if (status != BRAID_OK || turn < 0) continue;
    if (rate > alone) alone = rate;
    ratios[turn] = together / rate;
    int count = 0;
    for (int i = 0; i < kCallers; i++)
      for (int k = 0; k < many[i].runs; k++) latencies[count++] = many[i].ms[k];
    (void)median(latencies, count); /* sorts */
    double p99 = latencies[count * 99 / 100];
    if (turn == 0 || p99 < late) late = p99;
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  if (status == BRAID_OK) {
    add_row("MobileNet v2, one caller", alone, "pictures/s", NONE, 0);
    add_row("8 executions in flight, 4 threads, beside one caller", median(ratios, turns), "times", AT_LEAST, 0.97);
    add_row("... 99th percentile", late, "ms", NONE, 0);
    add_row("... peak memory of all 9 executions", (double)usage.ru_maxrss / 1e3, "MB", NONE, 0);
  }
  free_callers(one, 1);
  free_callers(many, kCallers);
  return status;
}

#endif
