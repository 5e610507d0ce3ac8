/* What the frame costs beside the kernels: a node, a run, a plan, weights of several plans, several callers. Rows of
 * what, value, unit, must and whether it holds.
 *
 *   frame_bench [--json] [--turns N] [CASE]...   cases: slope run weights callers plan failure
 *   change cancel call load train; none: all
 *
 * Every case runs in a process of its own. Times are medians of runs, and of the medians of several turns the least,
 * since the machine may have other work; a ratio is the median of the turns, in each of which both sides are measured.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/onednn/program.h"
#include "base/clock.h"
#include "braid/custom.h"
#include "braid/session.h"
#include "runtime/surface/bench_callers.h"
#include "runtime/surface/bench_chain.h"
#include "runtime/surface/bench_idle.h"
#include "runtime/surface/bench_nets.h"
#include "runtime/surface/bench_surface.h"

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

/* Of plans of some batch sizes over one set of weights, once they can run and the graph is gone. */
typedef struct weighing {
  double weights, rest; /* megabytes: packed and as they lie; of plans, kernels and executions, arenas apart */
} weighing;

static braid_status weigh(const int64_t *batches, size_t count, weighing *out) {
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
  *out = (weighing){.weights = weights ? (double)braid_weights_bytes(weights) / 1e6 : 0};
  out->rest = ((double)live_bytes - (double)before - (double)arenas) / 1e6 - out->weights;
  for (size_t i = 0; i < count; i++) braid_execution_destroy(executions[i]);
  for (size_t i = 0; i < count; i++) braid_plan_release(plans[i]);
  braid_weights_release(weights);
  braid_machine_release(machine);
  return status;
}

static braid_status case_weights(void) {
  static const int64_t kBatches[] = {1, 2, 4, 8, 16, 32};
  enum { kCount = sizeof kBatches / sizeof *kBatches };
  weighing all, one, largest = {0};
  for (size_t i = 0; i < kCount; i++) {
    BRAID_TRY(weigh(&kBatches[i], 1, &one));
    if (one.weights > largest.weights) largest = one;
  }
  BRAID_TRY(weigh(kBatches, kCount, &all));
  add_row("ResNet-50, weights of the largest of batches 1 to 32", largest.weights, "MB", NONE, 0);
  add_row("ResNet-50, weights of six batch sizes beside the largest", all.weights / largest.weights, "times", AT_MOST,
          1.1);
  add_row("ResNet-50, plans, kernels and executions of six batch sizes", all.rest, "MB", NONE, 0);
  return BRAID_OK;
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
  braid_weights *weights = NULL;
  braid_plan *plans[2] = {NULL, NULL};
  braid_execution *executions[3] = {NULL, NULL, NULL};
  int64_t ns[6];
  BRAID_TRY(bench_net_create(NULL, false, &graph));
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  ns[0] = braid_now_ns();
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plans[0]);
  for (int i = 0; i < 2; i++) {
    ns[1 + i] = braid_now_ns();
    if (status == BRAID_OK) status = braid_execution_create(plans[0], weights, &executions[i]);
  }
  ns[3] = braid_now_ns();
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plans[1]);
  ns[4] = braid_now_ns();
  if (status == BRAID_OK) status = braid_execution_create(plans[1], weights, &executions[2]);
  ns[5] = braid_now_ns();
  if (status == BRAID_OK) {
    add_row("ResNet-50, cold, from graph to plan", (double)(ns[1] - ns[0]) / 1e6, "ms", AT_MOST, 20);
    add_row("ResNet-50, cold, from graph to prepared execution", (double)(ns[2] - ns[0]) / 1e6, "ms", NONE, 0);
    add_row("... a second execution of the plan", (double)(ns[3] - ns[2]) / 1e6, "ms", NONE, 0);
    add_row("... the first of another plan of the same graph", (double)(ns[5] - ns[4]) / 1e6, "ms", NONE, 0);
  }
  for (int i = 0; i < 3; i++) braid_execution_destroy(executions[i]);
  for (int i = 0; i < 2; i++) braid_plan_release(plans[i]);
  braid_weights_release(weights);
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
      if (turns < 1 || turns > kMostTurns) return usage();
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
