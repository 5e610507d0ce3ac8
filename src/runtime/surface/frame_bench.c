/* What the frame costs beside the kernels: a node, a run, a plan, weights of several plans, several callers. Rows of
 * what, value, unit, must and whether it holds.
 *
 *   frame_bench [--json] [--turns N] [CASE]...   cases: slope run weights callers plan failure
 *   change cancel call load train; none: all
 *
 * Every case runs in a process of its own. Times are medians of runs, and of the medians of several turns the least,
 * since the machine may have other work; a ratio is that of the best turns of both sides, measured in turn. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/onednn/program.h"
#include "base/clock.h"
#include "braid/custom.h"
#include "braid/session.h"
#include "runtime/surface/bench_idle.h"
#include "runtime/surface/bench_nets.h"
#include "runtime/surface/bench_surface.h"

enum { kMostRows = 32, kTurns = 7, kMostRuns = 2000, kTimedRuns = 17 };

/* --- rows ----------------------------------------------------------------------------------------------------------
 */
typedef enum bound { NONE, AT_MOST, AT_LEAST } bound;

typedef struct row {
  char what[96], unit[16];
  double value, must;
  bound limit;
} row;

/* In memory that the cases' processes share with the first. */
static struct results {
  row rows[kMostRows];
  size_t count;
} * results;

static int turns = kTurns;

static void add_row(const char *what, double value, const char *unit, bound limit, double must) {
  if (results->count == kMostRows) return;
  row *r = &results->rows[results->count++];
  *r = (row){.value = value, .must = must, .limit = limit};
  snprintf(r->what, sizeof r->what, "%s", what);
  snprintf(r->unit, sizeof r->unit, "%s", unit);
}

static bool holds(const row *r) {
  return r->limit == AT_MOST ? r->value <= r->must : r->value >= r->must;
}

static double median(double *values, int count) {
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
      double value = values[k];
      values[k] = values[k - 1];
      values[k - 1] = value;
    }
  return values[count / 2];
}

/* --- a node that does next to nothing ------------------------------------------------------------------------------
 */
static int64_t failed_at; /* by the clock; the node fails when it is -1 */

static braid_status infer(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                          braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status compute(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                            const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  *(float *)outputs[0].data = *(const float *)inputs[0].data;
  if (failed_at >= 0) return BRAID_OK;
  failed_at = braid_now_ns();
  return BRAID_INTERNAL;
}

static const braid_custom_op kTrivial = {
    .name = "bench.Trivial", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer, .compute = compute};

/* --- chains --------------------------------------------------------------------------------------------------------
 */
static braid_registry *registry; /* with the idle device */

/* A chain of `nodes` nodes over one number. *out is NULL or to be destroyed, also on failure. */
static braid_status make_graph(int nodes, braid_graph **out) {
  braid_value_id at = -1;
  braid_desc desc;
  *out = NULL;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 1, &(int64_t){1}));
  BRAID_TRY(braid_graph_create(NULL, "chain", out));
  BRAID_TRY(braid_graph_add_input(*out, "x", &desc, &at));
  for (int i = 0; i < nodes; i++) BRAID_TRY(braid_graph_add_node(*out, "bench.Trivial", NULL, &at, 1, &at, 1, NULL));
  return braid_graph_add_output(*out, at);
}

static braid_status make_chain(const char *device, int nodes, braid_session **out) {
  braid_graph *graph;
  braid_status status = make_graph(nodes, &graph);
  braid_session_options options = {.devices = device, .threads = 1, .registry = registry};
  if (status == BRAID_OK) status = braid_session_create(graph, &options, out);
  braid_graph_destroy(graph);
  return status;
}

static braid_status run_chain(braid_session *session, int64_t *ns) {
  float input = 1, output;
  int64_t start = braid_now_ns();
  braid_status status = braid_session_run(session, (const void *[]){&input}, (void *[]){&output});
  *ns = braid_now_ns() - start;
  return status;
}

/* The median of `count` runs, each after a pause. The first are timed by the device, and do not count. */
static braid_status time_chain(braid_session *session, int count, int64_t pause_ns, double *us) {
  static double times[kMostRuns];
  for (int i = -count / 10 - kTimedRuns; i < count; i++) {
    int64_t ns;
    if (pause_ns) nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    BRAID_TRY(run_chain(session, &ns));
    if (i >= 0) times[i] = (double)ns / 1e3;
  }
  *us = median(times, count);
  return BRAID_OK;
}

/* --- slope ---------------------------------------------------------------------------------------------------------
 */
static braid_status measure_slope(const char *device, double must) {
  static const int kNodes[] = {1, 101, 10001};
  enum { kSizes = sizeof kNodes / sizeof *kNodes };
  braid_session *sessions[kSizes] = {NULL};
  double best[kSizes] = {0};
  char what[96];
  braid_status status = BRAID_OK;
  for (int i = 0; status == BRAID_OK && i < kSizes; i++) status = make_chain(device, kNodes[i], &sessions[i]);
  for (int turn = 0; turn < turns; turn++) {
    double us[kSizes];
    for (int i = 0; status == BRAID_OK && i < kSizes; i++)
      status = time_chain(sessions[i], kNodes[i] > 1000 ? 21 : 201, 0, &us[i]);
    for (int i = 1; status == BRAID_OK && i < kSizes; i++) {
      double slope = (us[i] - us[0]) / (kNodes[i] - kNodes[0]);
      if (turn == 0 || slope < best[i]) best[i] = slope;
    }
  }
  for (int i = 1; status == BRAID_OK && i < kSizes; i++) {
    snprintf(what, sizeof what, "slope per node, replayed, untimed, 1 to %d nodes, %s", kNodes[i],
             strcmp(device, "cpu") == 0 ? device : "a device that does nothing");
    add_row(what, best[i], "us", AT_MOST, must);
  }
  for (int i = 0; i < kSizes; i++) braid_session_destroy(sessions[i]);
  return status;
}

static braid_status case_slope(void) {
  BRAID_TRY(measure_slope("idle", 0.05));
  return measure_slope("cpu", 0.3);
}

/* --- a run of one node ---------------------------------------------------------------------------------------------
 */
static braid_status case_run(void) {
  enum { kSessions = 10 };
  static const char *const kWhat[] = {"a run of one node, hot", "the same after a pause of 1 ms",
                                      "the same hot, ten sessions alive", "the same after 1 ms, ten sessions alive"};
  braid_session *sessions[kSessions] = {NULL};
  double best[4] = {0};
  braid_status status = make_chain("cpu", 1, &sessions[0]);
  for (int state = 0; state < 2; state++) {
    for (int turn = 0; turn < turns; turn++)
      for (int pause = 0; status == BRAID_OK && pause < 2; pause++) {
        double us = 0;
        status = time_chain(sessions[0], pause ? 200 : kMostRuns, pause ? 1000000 : 0, &us);
        double *least = &best[2 * state + pause];
        if (turn == 0 || us < *least) *least = us;
      }
    for (int i = 1; state == 0 && status == BRAID_OK && i < kSessions; i++) {
      int64_t ns;
      status = make_chain("cpu", 1, &sessions[i]);
      if (status == BRAID_OK) status = run_chain(sessions[i], &ns);
    }
  }
  for (int i = 0; status == BRAID_OK && i < 4; i++) add_row(kWhat[i], best[i], "us", AT_MOST, i % 2 ? 4 : 1.5);
  for (int i = 0; i < kSessions; i++) braid_session_destroy(sessions[i]);
  return status;
}

/* --- a run that fails ----------------------------------------------------------------------------------------------
 */
static braid_status case_failure(void) {
  braid_session *session = NULL;
  double times[kTurns * 4];
  int count = turns < kTurns ? turns * 4 : kTurns * 4;
  braid_status status = make_chain("cpu", 1000, &session);
  for (int i = 0; status == BRAID_OK && i < count; i++) {
    int64_t ns;
    status = run_chain(session, &ns); /* warm */
    if (status != BRAID_OK) break;
    failed_at = -1;
    if (run_chain(session, &ns) != BRAID_INTERNAL) status = braid_fail(BRAID_INTERNAL, "a failing run passes");
    times[i] = (double)(braid_now_ns() - failed_at) / 1e3;
  }
  if (status == BRAID_OK)
    add_row("1,000 nodes whose first fails, until the run returns", median(times, count), "us", AT_MOST, 100);
  braid_session_destroy(session);
  return status;
}

/* --- weights -------------------------------------------------------------------------------------------------------
 * Counted: what the library asks its allocator for. */
static uint64_t live_bytes; /* atomic */

static void *count_allocate(void *context, size_t bytes, size_t alignment) {
  (void)context;
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes)) return NULL;
  __atomic_add_fetch(&live_bytes, malloc_usable_size(memory), __ATOMIC_RELAXED);
  return memory;
}

static void count_release(void *context, void *memory) {
  (void)context;
  if (memory) __atomic_sub_fetch(&live_bytes, malloc_usable_size(memory), __ATOMIC_RELAXED);
  free(memory);
}

static const braid_allocator kCounting = {.allocate = count_allocate, .release = count_release};

/* Bytes beside the arenas once plans of these batch sizes can run over one set of weights and the graph is gone. */
static braid_status weigh(const int64_t *batches, size_t count, double *megabytes) {
  braid_graph *graph, *copy;
  braid_machine *machine = NULL;
  braid_weights *weights = NULL;
  braid_plan *plans[8] = {NULL};
  braid_execution *executions[8] = {NULL};
  uint64_t before = live_bytes, arenas = 0;
  BRAID_TRY(bench_net_create(&kCounting, false, &graph));
  braid_status status = braid_machine_create(&kCounting, NULL, &machine);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    status = braid_graph_clone(graph, &copy);
    if (status != BRAID_OK) break;
    status = braid_graph_set_input_shape(copy, braid_graph_input(copy, 0), 4, (int64_t[]){batches[i], 3, 224, 224});
    if (status == BRAID_OK) status = braid_plan_create(machine, copy, NULL, &plans[i]);
    braid_graph_destroy(copy);
    if (status == BRAID_OK) status = braid_execution_create(plans[i], weights, &executions[i]);
    if (status != BRAID_OK) break;
    braid_plan_drop_data(plans[i]);
    arenas += braid_plan_arena_bytes(plans[i]);
  }
  braid_graph_destroy(graph);
  *megabytes = ((double)live_bytes - (double)before - (double)arenas) / 1e6;
  for (size_t i = 0; i < count; i++) braid_execution_destroy(executions[i]);
  for (size_t i = 0; i < count; i++) braid_plan_release(plans[i]);
  braid_weights_release(weights);
  braid_machine_release(machine);
  return status;
}

static braid_status case_weights(void) {
  static const int64_t kBatches[] = {1, 2, 4, 8, 16, 32};
  enum { kCount = sizeof kBatches / sizeof *kBatches };
  double all, one, largest = 0;
  for (size_t i = 0; i < kCount; i++) {
    BRAID_TRY(weigh(&kBatches[i], 1, &one));
    if (one > largest) largest = one;
  }
  BRAID_TRY(weigh(kBatches, kCount, &all));
  add_row("ResNet-50, the largest of batches 1 to 32, beside the arena", largest, "MB", NONE, 0);
  add_row("ResNet-50, six batch sizes beside the largest, arenas apart", all / largest, "times", AT_MOST, 1.1);
  return BRAID_OK;
}

/* --- callers -------------------------------------------------------------------------------------------------------
 */
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
  double alone = 0, beside = 0, late = 0, rate;
  braid_status status = make_callers(one, 1, 1, kCallerRuns);
  if (status == BRAID_OK) status = make_callers(many, kCallers, kInFlight, kCallerRuns / kCallers);
  for (int turn = -1; status == BRAID_OK && turn < turns; turn++) { /* the first warms */
    double together = 0;
    status = call_all(one, 1, &rate);
    if (status == BRAID_OK) status = call_all(many, kCallers, &together);
    if (status != BRAID_OK || turn < 0) continue;
    if (rate > alone) alone = rate;
    if (together > beside) beside = together;
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
    add_row("8 executions in flight, 4 threads, beside one caller", beside / alone, "times", AT_LEAST, 0.97);
    add_row("... 99th percentile", late, "ms", NONE, 0);
    add_row("... peak memory of all 9 executions", (double)usage.ru_maxrss / 1e3, "MB", NONE, 0);
  }
  free_callers(one, 1);
  free_callers(many, kCallers);
  return status;
}

/* --- a call of one op ----------------------------------------------------------------------------------------------
 */
static braid_status case_call(void) {
  static double times[kMostRuns];
  double first = 0, best = 0;
  for (int turn = 0; turn < turns; turn++) {
    BRAID_TRY(bench_call(&first, times, kMostRuns));
    double us = median(times, kMostRuns);
    if (turn == 0 || us < best) best = us;
  }
  add_row("a call of Relu on 16 numbers, prepared before", best, "us", AT_MOST, 1.5);
  add_row("... the first time", first, "us", NONE, 0);
  return BRAID_OK;
}

static braid_status case_load(void) {
  double times[kTurns * 4];
  size_t bytes;
  int count = turns < kTurns ? turns * 4 : kTurns * 4;
  BRAID_TRY(bench_load(times, count, &bytes));
  add_row("loading a saved plan of ResNet-50, parsing excluded", median(times, count), "ms", AT_MOST, 2);
  add_row("... its bytes", (double)bytes / 1e3, "kB", NONE, 0);
  return BRAID_OK;
}

/* --- two plans over the same weights -------------------------------------------------------------------------------
 */
/* Of one node, and of two: what a run takes when the one before was of the other plan. */
static braid_status case_change(void) {
  enum { kCount = 401 };
  static double times[kCount];
  braid_machine *machine = NULL;
  braid_weights *weights = NULL;
  braid_plan *plans[2] = {NULL, NULL};
  braid_execution *executions[2] = {NULL, NULL};
  float input = 1, output;
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  for (int i = 0; status == BRAID_OK && i < 2; i++) {
    braid_graph *graph;
    status = make_graph(i + 1, &graph);
    if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plans[i]);
    braid_graph_destroy(graph);
    if (status == BRAID_OK) status = braid_execution_create(plans[i], weights, &executions[i]);
  }
  for (int i = 0; status == BRAID_OK && i < kCount; i++) {
    int64_t start = braid_now_ns();
    status = braid_execution_run(executions[i % 2], (const void *[]){&input}, (void *[]){&output});
    times[i] = (double)(braid_now_ns() - start) / 1e3;
  }
  if (status == BRAID_OK)
    add_row("a run after one of another plan over the same weights", median(times, kCount), "us", AT_MOST, 50);
  for (int i = 0; i < 2; i++) braid_execution_destroy(executions[i]);
  for (int i = 0; i < 2; i++) braid_plan_release(plans[i]);
  braid_weights_release(weights);
  braid_machine_release(machine);
  return status;
}

/* --- a run that is cancelled ---------------------------------------------------------------------------------------
 */
static braid_status case_cancel(void) {
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  braid_graph *graph = NULL;
  double times[kTurns * 4];
  int count = turns < kTurns ? turns * 4 : kTurns * 4;
  float input = 1, output;
  braid_status status = make_graph(1000, &graph);
  if (status == BRAID_OK) status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  for (int i = 0; status == BRAID_OK && i < count; i++) {
    status = braid_execution_submit(execution, (const void *[]){&input}, (void *[]){&output}, NULL, NULL);
    int64_t start = braid_now_ns();
    braid_execution_cancel(execution);
    if (status == BRAID_OK) status = braid_execution_wait(execution, -1);
    times[i] = (double)(braid_now_ns() - start) / 1e3;
    if (status == BRAID_CANCELLED) status = BRAID_OK;
  }
  if (status == BRAID_OK)
    add_row("cancel of a run of 1,000 nodes, until it returns", median(times, count), "us", AT_MOST, 100);
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
  return status;
}

/* --- a cold plan ---------------------------------------------------------------------------------------------------
 */
static braid_status case_plan(void) {
  braid_graph *graph;
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  BRAID_TRY(bench_net_create(NULL, false, &graph));
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  int64_t start = braid_now_ns();
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  int64_t planned = braid_now_ns();
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  int64_t ready = braid_now_ns();
  if (status == BRAID_OK) {
    add_row("ResNet-50, cold, from graph to plan", (double)(planned - start) / 1e6, "ms", AT_MOST, 20);
    add_row("ResNet-50, cold, from graph to prepared execution", (double)(ready - start) / 1e6, "ms", NONE, 0);
  }
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
  return status;
}

/* --- training ------------------------------------------------------------------------------------------------------
 */
enum { kTrainSteps = 3 };

/* Layout conversions of parameters, states and gradients in a plan. */
static size_t count_weight_conversions(const braid_plan *plan, const char *const *names, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++) {
    braid_plan_line line = braid_plan_get_line(plan, i);
    for (size_t k = 0; k < count && strcmp(line.op, "LayoutConvert") == 0; k++)
      found += strstr(line.node, names[k]) != NULL;
  }
  return found;
}

static braid_status run_training(const braid_plan *plan, braid_execution *execution, double *share) {
  const braid_desc *desc = braid_plan_input(plan, 0);
  float *image = braid_zalloc(NULL, braid_desc_bytes(desc)), loss;
  uint64_t before_ns, after_ns, before, after;
  braid_status status = image ? BRAID_OK : BRAID_NO_MEMORY;
  for (int64_t i = 0; image && i < braid_desc_count(desc); i++) image[i] = (float)(i % 17) / 17;
  if (status == BRAID_OK) status = braid_execution_run(execution, (const void *[]){image}, (void *[]){&loss});
  before = braid_dnnl_conversions(&before_ns);
  int64_t begun_ns = braid_now_ns();
  for (int i = 0; status == BRAID_OK && i < kTrainSteps; i++)
    status = braid_execution_run(execution, (const void *[]){image}, (void *[]){&loss});
  int64_t took_ns = braid_now_ns() - begun_ns;
  after = braid_dnnl_conversions(&after_ns);
  *share = took_ns > 0 ? 100 * (double)(after_ns - before_ns) / (double)took_ns : 0;
  add_row("VGG-like step, batch 128", (double)took_ns / 1e6 / kTrainSteps, "ms", NONE, 0);
  add_row("VGG-like step, conversions inside of kernels", (double)(after - before) / kTrainSteps, "", NONE, 0);
  braid_free(NULL, image);
  return status;
}

static braid_status case_train(void) {
  static const char *const kNames[] = {"weight", "grad"};
  bench_net net;
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_execution *execution = NULL;
  double share = 0;
  braid_status status = bench_net_vgg(&net, NULL);
  if (status == BRAID_OK) status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK)
    status = braid_plan_create(machine, net.graph, &(braid_plan_options){.training = true}, &plan);
  if (status == BRAID_OK) status = braid_execution_create(plan, NULL, &execution);
  if (status == BRAID_OK) status = run_training(plan, execution, &share);
  if (status == BRAID_OK) {
    add_row("VGG-like step, conversions of weights between layouts", (double)count_weight_conversions(plan, kNames, 2),
            "", AT_MOST, 0);
    add_row("VGG-like step, what kernels convert inside", share, "%", AT_MOST, 2);
  }
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(net.graph);
  return status;
}

/* --- processes -----------------------------------------------------------------------------------------------------
 */
static const struct bench_case {
  const char *name;
  braid_status (*measure)(void);
  bool cold; /* a process per turn, of which the best counts */
} kCases[] = {{"slope", case_slope, false},     {"run", case_run, false},       {"weights", case_weights, false},
              {"callers", case_callers, false}, {"plan", case_plan, true},      {"failure", case_failure, false},
              {"change", case_change, false},   {"cancel", case_cancel, false}, {"call", case_call, false},
              {"load", case_load, false},       {"train", case_train, true}};
enum { kCaseCount = sizeof kCases / sizeof *kCases };

static bool run_process(const struct bench_case *c) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    braid_status status = braid_custom_op_register(&kTrivial);
    if (status == BRAID_OK) status = braid_registry_create(NULL, &registry);
    if (status == BRAID_OK) status = braid_registry_add(registry, &kIdleBackend);
    if (status == BRAID_OK) status = c->measure();
    if (status != BRAID_OK)
      (void)fprintf(stderr, "%s: %s: %s\n", c->name, braid_status_text(status), braid_error_detail());
    _exit(status != BRAID_OK);
  }
  int code = 1;
  return child > 0 && waitpid(child, &code, 0) == child && code == 0;
}

static bool run_case(const struct bench_case *c) {
  row best[kMostRows];
  size_t first = results->count;
  bool done = run_process(c);
  memcpy(best, results->rows, sizeof best);
  for (int turn = 1; c->cold && done && turn < turns; turn++) {
    results->count = first;
    done = run_process(c);
    for (size_t i = first; i < results->count; i++)
      if (results->rows[i].value < best[i].value) best[i].value = results->rows[i].value;
  }
  memcpy(results->rows, best, sizeof best);
  return done;
}

/* --- output --------------------------------------------------------------------------------------------------------
 */
static void format_must(const row *r, char *text, size_t bytes) {
  snprintf(text, bytes, "%s%g", r->limit == AT_MOST ? "<= " : ">= ", r->must);
}

static void print_text(void) {
  char must[32];
  for (size_t i = 0; i < results->count; i++) {
    const row *r = &results->rows[i];
    format_must(r, must, sizeof must);
    printf("%-62s %10.3f %-10s", r->what, r->value, r->unit);
    if (r->limit != NONE) printf(" must be %-8s %s", must, holds(r) ? "ok" : "NOT YET");
    printf("\n");
  }
}

static void print_json(void) {
  char must[32];
  printf("{\"rows\": [");
  for (size_t i = 0; i < results->count; i++) {
    const row *r = &results->rows[i];
    format_must(r, must, sizeof must);
    printf("%s\n  {\"what\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", i ? "," : "", r->what, r->value, r->unit);
    if (r->limit == NONE)
      printf("\"must\": null, \"ok\": null}");
    else
      printf("\"must\": \"%s\", \"ok\": %s}", must, holds(r) ? "true" : "false");
  }
  printf("\n]}\n");
}

static int usage(void) {
  (void)fprintf(stderr, "frame_bench [--json] [--turns 1..99] [CASE]...   cases:");
  for (size_t c = 0; c < kCaseCount; c++) (void)fprintf(stderr, " %s", kCases[c].name);
  (void)fprintf(stderr, "\n");
  return 2;
}

int main(int argc, char **argv) {
  bool json = false, wanted[kCaseCount] = {false}, any = false, done = true;
  for (int i = 1; i < argc; i++) {
    size_t c = 0;
    if (strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (strcmp(argv[i], "--turns") == 0) {
      turns = i + 1 < argc ? atoi(argv[++i]) : 0;
      if (turns < 1 || turns > 99) return usage();
    } else {
      while (c < kCaseCount && strcmp(argv[i], kCases[c].name) != 0) c++;
      if (c == kCaseCount) return usage();
      wanted[c] = any = true;
    }
  }
  results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == MAP_FAILED) return 1;
  for (size_t c = 0; c < kCaseCount; c++)
    if (!any || wanted[c]) done &= run_case(&kCases[c]);
  if (json)
    print_json();
  else
    print_text();
  return !done;
}
