/* What convolutional networks take on the card of 16 cores, and on single cores. */
#include <math.h>
#include <time.h>

#include "overlay_evaluation.h"

enum { kSide = 224, kAll = BRAID_OVERLAY_BY_WIDTH | BRAID_OVERLAY_BY_CHANNELS | BRAID_OVERLAY_BY_BOTH };

typedef struct cnn_study {
  cli_overlay *o;
  int needs;                                  /* of the network under way */
  const braid_overlay_design *cores, *single; /* 16 x 512, 1 x 8,192 */
  braid_graph *graph;                         /* of the network under way */
  cli_overlay_network *out;
  cli_overlay_tasks *tasks;  /* its */
  cli_overlay_tasks busiest; /* of MobileNet, which moves most for what it computes: beside others */
} cnn_study;

/* --- one package ---------------------------------------------------------------------------------------------------
 */
/* Of this thread, which alone compiles: without what others had of the processor meanwhile. */
static double processor_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static braid_status compile(const braid_graph *graph, const braid_overlay_design *design, int tilings, double *ms,
                            braid_overlay_package **out) {
  double begin = processor_ms();
  braid_status status = braid_overlay_compile_by(graph, design, tilings, NULL, NULL, out);
  if (ms) *ms = fmin(*ms, processor_ms() - begin);
  return status;
}

static braid_status alone(const braid_overlay_design *design, const braid_overlay_package *package, int cores,
                          braid_overlay_timed *out) {
  braid_overlay_task *task;
  braid_status status = braid_overlay_task_create(package, cores, NULL, &task);
  const braid_overlay_tenant tenant = {task, 0, 1};
  if (status == BRAID_OK) status = braid_overlay_time_tenants(design, &tenant, 1, out);
  braid_overlay_task_destroy(task);
  return status;
}

/* With 1, 2, 4, 8, 16 cores, by these tilings. */
static braid_status scale_cores(cnn_study *s, const braid_overlay_design *design, int tilings,
                                cli_overlay_counted *out) {
  braid_overlay_package *package;
  braid_overlay_timed timed;
  braid_status status = cli_overlay_step(s->o, "several cores");
  if (status == BRAID_OK) status = compile(s->graph, design, tilings, NULL, &package);
  if (status != BRAID_OK) return status;
  for (size_t i = 0; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++) {
    status = alone(design, package, cli_overlay_share(i), &timed);
    out->of[i] = 1 / timed.seconds;
  }
  braid_overlay_package_destroy(package);
  return status;
}

/* Single cores of as many operations a cycle as 1, 2, 4, 8, 16 of the small ones; the first one is a small one. */
static braid_status scale_single(cnn_study *s, const braid_overlay_design *large, double first,
                                 cli_overlay_counted *out) {
  braid_status status = cli_overlay_step(s->o, "single cores");
  out->of[0] = first;
  for (size_t i = 1; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++) {
    braid_overlay_package *package = NULL;
    braid_overlay_design design;
    braid_overlay_timed timed = {0};
    status = braid_overlay_divide_core(large, CLI_OVERLAY_CORES / cli_overlay_share(i), &design);
    if (status == BRAID_OK) status = compile(s->graph, &design, kAll, NULL, &package);
    if (status == BRAID_OK) status = alone(&design, package, 1, &timed);
    braid_overlay_package_destroy(package);
    out->of[i] = 1 / timed.seconds;
  }
  return status;
}

/* --- Table 2 -------------------------------------------------------------------------------------------------------
 */
static braid_status measure_dynamic(const braid_overlay_package *package, int cores, double *ms, int64_t *bytes) {
  enum { kRepeats = 20 };
  *ms = INFINITY;
  for (int i = 0; i < kRepeats; i++) {
    braid_overlay_program_info info;
    braid_status status = braid_overlay_package_share(package, cores, NULL, &info);
    if (status != BRAID_OK) return status;
    *ms = fmin(*ms, info.microseconds / 1e3);
    *bytes = info.bytes;
  }
  return BRAID_OK;
}

static braid_status measure_compilers(cnn_study *s) {
  enum { kRepeats = 3 };
  cli_overlay_network *out = s->out;
  braid_status status = cli_overlay_step(s->o, "compilers");
  out->static_ms = INFINITY;
  for (int r = 0; status == BRAID_OK && r < kRepeats; r++) {
    braid_overlay_package *package;
    status = compile(s->graph, s->cores, kAll, &out->static_ms, &package);
    for (size_t i = 0; status == BRAID_OK && r == 0 && i < BRAID_OVERLAY_SHARES; i++) {
      int64_t bytes = 0;
      status = measure_dynamic(package, cli_overlay_share(i), &out->dynamic_ms.of[i], &bytes);
      out->transfer_ms.of[i] =
          s->cores->host_latency_us / 1e3 + (double)bytes / (s->cores->host_gigabytes_per_second * 1e6);
      out->switch_ms.of[i] = out->dynamic_ms.of[i] + out->transfer_ms.of[i];
    }
    braid_overlay_package_destroy(package);
  }
  return status;
}

/* --- single tasks --------------------------------------------------------------------------------------------------
 */
static braid_status double_bandwidth(cnn_study *s) {
  braid_overlay_design cores = braid_overlay_double_bandwidth(s->cores);
  braid_overlay_design single = braid_overlay_double_bandwidth(s->single);
  braid_status status = scale_cores(s, &cores, kAll, &s->out->doubled);
  if (status == BRAID_OK) status = scale_single(s, &single, s->out->doubled.of[0], &s->out->doubled_single);
  return status;
}

static void bound(const cnn_study *s, int64_t macs) {
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) {
    braid_overlay_roofline roofline;
    braid_overlay_get_roofline(s->cores, cli_overlay_share(i), &roofline);
    s->out->bound.of[i] = roofline.operations_per_second / (2 * (double)macs);
  }
}

static braid_status profile(cnn_study *s) {
  braid_overlay_timed timed;
  const braid_overlay_tenant one = {s->tasks->of[1], 0, 1};
  braid_status status = cli_overlay_step(s->o, "profile");
  if (status == BRAID_OK) status = braid_overlay_time_tenants(s->cores, &one, 1, &timed);
  for (int u = 0; status == BRAID_OK && u < BRAID_OVERLAY_UNITS; u++) s->out->busy[u] = 100 * timed.busy[u];
  return status;
}

static braid_status scale(cnn_study *s, size_t network) {
  cli_overlay_network *out = s->out;
  bound(s, braid_overlay_task_get_info(s->tasks->of[1]).macs);
  braid_status status = scale_cores(s, s->cores, kAll, &out->ours);
  if (status == BRAID_OK)
    status = scale_cores(s, s->cores, BRAID_OVERLAY_BY_WIDTH | BRAID_OVERLAY_BY_CHANNELS, &out->optimized);
  if (status == BRAID_OK) status = scale_cores(s, s->cores, BRAID_OVERLAY_BY_WIDTH, &out->width);
  if (status == BRAID_OK) status = scale_cores(s, s->cores, BRAID_OVERLAY_BY_CHANNELS, &out->channels);
  if (status == BRAID_OK) status = scale_single(s, s->single, out->ours.of[0], &out->single);
  if (status == BRAID_OK && !isnan(braid_overlay_published_networks()[network].doubled_loss))
    status = double_bandwidth(s);
  return status;
}

static braid_status stop(cnn_study *s) {
  braid_status status = cli_overlay_step(s->o, "preemption");
  for (size_t i = 0; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++)
    status = braid_overlay_time_stops(s->cores, s->tasks->of[cli_overlay_share(i)], 997, &s->out->stops[i]);
  return status;
}

/* --- one network ---------------------------------------------------------------------------------------------------
 */
/* Whether tasks of so many cores are needed: of shares, and of what users and others have beside each other. */
static bool is_needed(int needs, int cores) {
  if ((cores & (cores - 1)) == 0) return true;
  if (needs & CLI_OVERLAY_SHARES_BANK && cores == 3) return true;
  return needs & CLI_OVERLAY_ISOLATES && (cores == 3 || cores == 6 || cores == 9 || cores == 12);
}

static braid_status make_tasks(cnn_study *s, cli_overlay_tasks *tasks) {
  braid_overlay_package *package;
  braid_status status = compile(s->graph, s->cores, kAll, NULL, &package);
  if (status != BRAID_OK) return status;
  for (int k = 1; status == BRAID_OK && k <= CLI_OVERLAY_CORES; k++)
    if (is_needed(s->needs, k)) status = braid_overlay_task_create(package, k, NULL, &tasks->of[k]);
  braid_overlay_package_destroy(package);
  return status;
}

static braid_status load(cnn_study *s, size_t network) {
  braid_status status = braid_overlay_stand_in(NULL, network, kSide, &s->graph);
  return status == BRAID_OK ? braid_resolve(s->graph) : status;
}

static braid_status isolate(cnn_study *s) {
  const cli_overlay_tasks *const others[] = {s->tasks, &s->busiest};
  braid_status status = BRAID_OK;
  if (s->needs & CLI_OVERLAY_ISOLATES) status = cli_overlay_step(s->o, "isolation");
  if (status == BRAID_OK && s->needs & CLI_OVERLAY_ISOLATES)
    status = cli_overlay_isolate(s->cores, s->tasks, others, 2, false, &s->out->cards);
  if (status == BRAID_OK && s->needs & CLI_OVERLAY_SHARES_BANK) status = cli_overlay_step(s->o, "a shared bank");
  if (status == BRAID_OK && s->needs & CLI_OVERLAY_SHARES_BANK)
    status = cli_overlay_isolate(s->cores, s->tasks, others, 2, true, &s->out->bank);
  return status;
}

static braid_status many(cnn_study *s) {
  double single = s->out->single.of[BRAID_OVERLAY_SHARES - 1];
  braid_status status = cli_overlay_step(s->o, "many tasks");
  if (status == BRAID_OK && isnan(single)) {
    braid_overlay_package *package;
    braid_overlay_timed timed;
    status = compile(s->graph, s->single, kAll, NULL, &package);
    if (status == BRAID_OK) status = alone(s->single, package, 1, &timed);
    braid_overlay_package_destroy(package);
    if (status == BRAID_OK) single = 1 / timed.seconds;
  }
  return status == BRAID_OK ? cli_overlay_many(s->cores, s->tasks, single, &s->out->multi) : status;
}

static braid_status share_card(cnn_study *s, size_t network) {
  braid_overlay_package *package = NULL;
  braid_status status = cli_overlay_step(s->o, "each number of cores");
  if (status == BRAID_OK) status = compile(s->graph, s->cores, kAll, NULL, &package);
  if (status == BRAID_OK) status = cli_overlay_time_network(s->o, network, s->cores, package);
  braid_overlay_package_destroy(package);
  return status;
}

static braid_status study(cnn_study *s, size_t network) {
  cli_overlay_tasks tasks = {{NULL}};
  int needs = s->needs = s->o->needs[network];
  s->out = &s->o->of[network];
  s->tasks = &tasks;
  braid_status status = load(s, network);
  if (status == BRAID_OK) status = make_tasks(s, &tasks);
  if (status == BRAID_OK && needs & CLI_OVERLAY_COMPILES) status = measure_compilers(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_PROFILES) status = profile(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_SCALES) status = scale(s, network);
  if (status == BRAID_OK) status = isolate(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_MANY) status = many(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_STOPS) status = stop(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_SHARES_CARD) status = share_card(s, network);
  braid_graph_destroy(s->graph);
  s->graph = NULL;
  cli_overlay_free_tasks(&tasks);
  return status;
}

braid_status cli_overlay_make_cnn(cli_overlay *o) {
  cnn_study s = {.o = o};
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++) s.needs |= o->needs[n];
  if (!s.needs) return BRAID_OK;
  braid_status status = braid_overlay_design_load(NULL, "cnn-16x512", &s.cores);
  if (status == BRAID_OK) status = braid_overlay_design_load(NULL, "cnn-1x8192", &s.single);
  if (status == BRAID_OK && s.needs & (CLI_OVERLAY_ISOLATES | CLI_OVERLAY_SHARES_BANK)) {
    status = load(&s, BRAID_OVERLAY_MOBILENET);
    if (status == BRAID_OK) status = make_tasks(&s, &s.busiest);
    braid_graph_destroy(s.graph);
    s.graph = NULL;
  }
  for (size_t n = 0; status == BRAID_OK && n < BRAID_OVERLAY_CNNS; n++)
    if (o->needs[n]) status = study(&s, n);
  cli_overlay_free_tasks(&s.busiest);
  braid_overlay_design_destroy(s.cores);
  braid_overlay_design_destroy(s.single);
  return status;
}
