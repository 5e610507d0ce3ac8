/* What LSTM layers take on cards for recurrent networks. A query is one step. */
#include <math.h>

#include "overlay_evaluation.h"

typedef struct lstm_study {
  cli_overlay *o;
  int needs;                                  /* of the network under way */
  const braid_overlay_design *cores, *single; /* 16 x 16, 1 x 256 */
  braid_overlay_lstm *lstm;
  braid_overlay_package *package; /* for `cores` */
  cli_overlay_network *out;
  cli_overlay_tasks *tasks;
  cli_overlay_tasks busiest; /* of LSTM_1500 */
} lstm_study;

enum { kSteps = 1 };

static braid_status alone(const braid_overlay_package *package, const braid_overlay_design *design, int cores,
                          braid_overlay_timed *out) {
  braid_overlay_task *task;
  braid_status status = braid_overlay_task_create(package, cores, NULL, &task);
  const braid_overlay_tenant tenant = {task, 0, 1};
  if (status == BRAID_OK) status = braid_overlay_time_tenants(design, &tenant, 1, out);
  braid_overlay_task_destroy(task);
  return status;
}

static braid_status on_single(const braid_overlay_lstm *lstm, const braid_overlay_design *design,
                              braid_overlay_timed *out) {
  braid_overlay_package *package;
  double ms;
  braid_status status = braid_overlay_lstm_package(lstm, kSteps, design, NULL, &ms, &package);
  if (status == BRAID_OK) status = alone(package, design, 1, out);
  braid_overlay_package_destroy(package);
  return status;
}

/* Queries a second with 1, 2, 4, 8, 16 cores, and of single cores with as many multipliers; shares with 16 cores. */
static braid_status scale(const braid_overlay_lstm *lstm, const braid_overlay_design *cores,
                          const braid_overlay_design *large, cli_overlay_counted *ours, cli_overlay_counted *single,
                          double busy[BRAID_OVERLAY_UNITS]) {
  braid_overlay_package *package;
  double ms;
  braid_status status = braid_overlay_lstm_package(lstm, kSteps, cores, NULL, &ms, &package);
  for (size_t i = 0; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++) {
    braid_overlay_design design;
    braid_overlay_timed timed = {0};
    status = alone(package, cores, cli_overlay_share(i), &timed);
    if (status != BRAID_OK) break;
    ours->of[i] = 1 / timed.seconds;
    for (int u = 0; u < BRAID_OVERLAY_UNITS; u++) busy[u] = 100 * timed.busy[u];
    single->of[i] = ours->of[i]; /* one of the small cores */
    if (i == 0) continue;
    status = braid_overlay_divide_core(large, CLI_OVERLAY_CORES / cli_overlay_share(i), &design);
    if (status == BRAID_OK) status = on_single(lstm, &design, &timed);
    single->of[i] = 1 / timed.seconds;
  }
  braid_overlay_package_destroy(package);
  return status;
}

static braid_status measure_dynamic(const braid_overlay_package *package, int cores, double *ms) {
  enum { kRepeats = 20 };
  *ms = INFINITY;
  for (int r = 0; r < kRepeats; r++) {
    braid_overlay_program_info info;
    braid_status status = braid_overlay_package_share(package, cores, NULL, &info);
    if (status != BRAID_OK) return status;
    *ms = fmin(*ms, info.microseconds / 1e3);
  }
  return BRAID_OK;
}

static braid_status measure_compilers(lstm_study *s) {
  cli_overlay_network *out = s->out;
  braid_status status = cli_overlay_step(s->o, "compilers");
  for (size_t i = 0; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++) {
    braid_overlay_task_info info = braid_overlay_task_get_info(s->tasks->of[cli_overlay_share(i)]);
    status = measure_dynamic(s->package, cli_overlay_share(i), &out->dynamic_ms.of[i]);
    out->transfer_ms.of[i] = s->cores->host_latency_us / 1e3 + (double)(info.program_bytes + info.context_bytes) /
                                                                   (s->cores->host_gigabytes_per_second * 1e6);
    out->switch_ms.of[i] = out->dynamic_ms.of[i] + out->transfer_ms.of[i];
  }
  return status;
}

static bool is_needed(int needs, int cores) {
  if ((cores & (cores - 1)) == 0) return true;
  return needs & CLI_OVERLAY_ISOLATES && (cores == 3 || cores == 6 || cores == 9 || cores == 12);
}

static braid_status make_tasks(lstm_study *s, cli_overlay_tasks *tasks) {
  braid_status status = BRAID_OK;
  for (int k = 1; status == BRAID_OK && k <= CLI_OVERLAY_CORES; k++)
    if (is_needed(s->needs, k)) status = braid_overlay_task_create(s->package, k, NULL, &tasks->of[k]);
  return status;
}

static braid_status isolate(lstm_study *s) {
  const cli_overlay_tasks *const others[] = {s->tasks, &s->busiest};
  braid_status status = cli_overlay_step(s->o, "isolation");
  return status == BRAID_OK ? cli_overlay_isolate(s->cores, s->tasks, others, 2, false, &s->out->cards) : status;
}

static braid_status many(lstm_study *s) {
  braid_overlay_timed timed = {0};
  braid_status status = cli_overlay_step(s->o, "many tasks");
  if (status == BRAID_OK) status = on_single(s->lstm, s->single, &timed);
  return status == BRAID_OK ? cli_overlay_many(s->cores, s->tasks, 1 / timed.seconds, &s->out->multi) : status;
}

/* The layer, and its package; *ms: of both. */
static braid_status load(lstm_study *s, size_t network, double *ms) {
  int hidden = braid_overlay_published_networks()[network].hidden;
  double compile_ms = 0;
  braid_status status = braid_overlay_lstm_draw(NULL, hidden, ms, &s->lstm);
  if (status == BRAID_OK)
    status = braid_overlay_lstm_package(s->lstm, kSteps, s->cores, NULL, &compile_ms, &s->package);
  *ms += compile_ms;
  return status;
}

static void unload(lstm_study *s) {
  braid_overlay_lstm_destroy(s->lstm);
  braid_overlay_package_destroy(s->package);
  s->lstm = NULL;
  s->package = NULL;
}

static braid_status study(lstm_study *s, size_t network) {
  cli_overlay_tasks tasks = {{NULL}};
  int needs = s->needs = s->o->needs[network];
  s->out = &s->o->of[network];
  s->tasks = &tasks;
  braid_status status = load(s, network, &s->out->static_ms);
  if (status == BRAID_OK) status = make_tasks(s, &tasks);
  if (status == BRAID_OK && needs & CLI_OVERLAY_COMPILES) status = measure_compilers(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_SCALES) status = cli_overlay_step(s->o, "cores");
  if (status == BRAID_OK && needs & CLI_OVERLAY_SCALES)
    status = scale(s->lstm, s->cores, s->single, &s->out->ours, &s->out->single, s->out->busy);
  if (status == BRAID_OK && needs & CLI_OVERLAY_ISOLATES) status = isolate(s);
  if (status == BRAID_OK && needs & CLI_OVERLAY_MANY) status = many(s);
  unload(s);
  cli_overlay_free_tasks(&tasks);
  return status;
}

/* Fig. 18 */
static braid_status multipliers(lstm_study *s) {
  static const char *const kDesigns[CLI_OVERLAY_DESIGNS][2] = {
      {"rnn-16x1", "rnn-1x16"}, {"rnn-16x16", "rnn-1x256"}, {"rnn-16x64", "rnn-1x1024"}};
  double ms;
  braid_status status = load(s, BRAID_OVERLAY_LSTM_100, &ms);
  for (size_t d = 0; status == BRAID_OK && d < CLI_OVERLAY_DESIGNS; d++) {
    const braid_overlay_design *cores = NULL, *single = NULL;
    cli_overlay_lstm *out = &s->o->multipliers[d];
    status = cli_overlay_step(s->o, "multipliers");
    if (status == BRAID_OK) status = braid_overlay_design_load(NULL, kDesigns[d][0], &cores);
    if (status == BRAID_OK) status = braid_overlay_design_load(NULL, kDesigns[d][1], &single);
    if (status == BRAID_OK) status = scale(s->lstm, cores, single, &out->ours, &out->single, out->busy);
    braid_overlay_design_destroy(cores);
    braid_overlay_design_destroy(single);
  }
  unload(s);
  return status;
}

braid_status cli_overlay_make_lstm(cli_overlay *o) {
  lstm_study s = {.o = o};
  double ms;
  for (size_t n = BRAID_OVERLAY_CNNS; n < BRAID_OVERLAY_NETWORKS; n++) s.needs |= o->needs[n];
  if (!s.needs) return BRAID_OK;
  braid_status status = braid_overlay_design_load(NULL, "rnn-16x16", &s.cores);
  if (status == BRAID_OK) status = braid_overlay_design_load(NULL, "rnn-1x256", &s.single);
  if (status == BRAID_OK && s.needs & CLI_OVERLAY_ISOLATES) {
    status = load(&s, BRAID_OVERLAY_LSTM_1500, &ms);
    if (status == BRAID_OK) status = make_tasks(&s, &s.busiest);
    unload(&s);
  }
  for (size_t n = BRAID_OVERLAY_CNNS; status == BRAID_OK && n < BRAID_OVERLAY_NETWORKS; n++)
    if (o->needs[n] & ~CLI_OVERLAY_MULTIPLIERS) status = study(&s, n);
  if (status == BRAID_OK && o->needs[BRAID_OVERLAY_LSTM_100] & CLI_OVERLAY_MULTIPLIERS) status = multipliers(&s);
  cli_overlay_free_tasks(&s.busiest);
  braid_overlay_design_destroy(s.cores);
  braid_overlay_design_destroy(s.single);
  return status;
}
