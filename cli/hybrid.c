#include "hybrid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *platform, *policy;
} kRuns[CLI_HYBRID_CAPS] = {
    {"v100", "gpu-only"},
    {"v100-s10x3", "hybrid-energy"},
    {"v100-s10x3", "slack-energy"},
    {"v100x2", "gpu-only"},
    {"v100x2-s10x6", "hybrid-energy"},
    {"v100x2-s10x6", "slack-energy"},
    {"v100-s10x1", "hybrid-energy"},
    {"v100-s10x1", "slack-energy"},
    {"v100-s10x2", "hybrid-energy"},
    {"v100-s10x2", "slack-energy"},
    {"v100-s10x4", "hybrid-energy"},
    {"v100-s10x4", "slack-energy"},
};

double cli_hybrid_cap(size_t index) {
  static const double kCaps[] = {210, 230, 250};
  return kCaps[index];
}

/* --- ratios, in percent --------------------------------------------------------------------------------------------
 */
double cli_hybrid_gain(double a, double b) {
  return b > 0 ? 100 * (a / b - 1) : NAN;
}

double cli_hybrid_throughput(const cli_hybrid_run *run, const cli_hybrid_run *base) {
  return cli_hybrid_gain(base->summary.seconds, run->summary.seconds);
}

double cli_hybrid_efficiency(const cli_hybrid_run *run, const cli_hybrid_run *base) {
  return cli_hybrid_gain(base->summary.joules, run->summary.joules);
}

double cli_hybrid_power(const cli_hybrid_run *run, const cli_hybrid_run *base) {
  return cli_hybrid_gain(run->summary.average_watts, base->summary.average_watts);
}

/* --- one forecast --------------------------------------------------------------------------------------------------
 */
static bool is_gpu(const char *device) {
  return strncmp(device, "gpu", 3) == 0;
}

/* What a task takes on a GPU at the least; its own time where no GPU can run it. */
static double seconds_on_gpu(const braid_forecast *forecast, size_t task) {
  double least = NAN;
  for (size_t i = 0; i < braid_forecast_offer_count(forecast, task); i++) {
    braid_forecast_offer offer = braid_forecast_get_offer(forecast, task, i);
    if (is_gpu(offer.device)) least = fmin(least, offer.seconds);
  }
  return least;
}

enum { MOST_KINDS = 64 };
typedef struct kind {
  const char *name;
  double seconds;
} kind;

static int by_seconds(const void *left, const void *right) {
  const kind *a = left, *b = right;
  return a->seconds != b->seconds ? (a->seconds < b->seconds ? 1 : -1) : strcmp(a->name, b->name);
}

static void add_kind(kind *kinds, size_t *count, const char *name, double seconds) {
  size_t i = 0;
  while (i < *count && strcmp(kinds[i].name, name) != 0) i++;
  if (i == *count && i == MOST_KINDS) return;
  if (i == *count) kinds[(*count)++] = (kind){name, 0};
  kinds[i].seconds += seconds;
}

static void count_offloaded(const braid_forecast *forecast, cli_hybrid_run *run) {
  kind kinds[MOST_KINDS];
  size_t count = 0, used = 0;
  double all = 0, moved = 0, number = 0, tasks = 0;
  for (size_t i = 0; i < run->summary.tasks; i++) {
    braid_forecast_task task = braid_forecast_get_task(forecast, i);
    double seconds = seconds_on_gpu(forecast, i);
    if (isnan(seconds)) continue; /* an exchange */
    all += seconds, tasks++;
    if (is_gpu(task.device)) continue;
    moved += seconds, number++;
    add_kind(kinds, &count, task.op, seconds);
  }
  run->offloaded = tasks > 0 ? 100 * number / tasks : 0;
  run->offloaded_time = all > 0 ? 100 * moved / all : 0;
  qsort(kinds, count, sizeof *kinds, by_seconds);
  for (size_t i = 0; i < count && used < sizeof run->ops; i++)
    used += (size_t)snprintf(run->ops + used, sizeof run->ops - used, "%s%s", i ? " " : "", kinds[i].name);
}

static braid_status forecast_run(const braid_graph *graph, const braid_modelled_machine *machine, const char *policy,
                                 double cap, int64_t replicas, cli_hybrid_run *out) {
  braid_forecast_options options = {.policy = policy, .cap_watts = cap > 0 ? cap : INFINITY, .replicas = replicas};
  braid_forecast *forecast;
  braid_status status = braid_forecast_create(graph, machine, &options, NULL, &forecast);
  if (status != BRAID_OK) return status;
  out->policy = policy;
  out->summary = braid_forecast_get_summary(forecast);
  double gpus = 0;
  for (size_t d = 0; d < braid_forecast_device_count(forecast); d++) {
    braid_forecast_device device = braid_forecast_get_device(forecast, d);
    if (is_gpu(device.name)) gpus += device.joules;
  }
  out->gpu_watts = gpus / out->summary.seconds;
  out->dynamic_watts = out->summary.average_watts - out->summary.idle_watts;
  count_offloaded(forecast, out);
  braid_forecast_destroy(forecast);
  return BRAID_OK;
}

/* --- all of a model ------------------------------------------------------------------------------------------------
 */
/* The step of one replica; `graphs` keeps those of one and of two. */
static braid_status step_for(size_t model, int64_t batch, int64_t replicas, braid_graph *graphs[2], braid_graph **out) {
  braid_graph **graph = &graphs[replicas - 1];
  braid_status status = *graph ? BRAID_OK : braid_hybrid_step(NULL, model, batch / replicas, graph);
  *out = *graph;
  return status;
}

static braid_status forecast_on(size_t model, int64_t batch, const char *platform, const char *policy, double cap,
                                const braid_modelled_variation *variation, braid_graph *graphs[2],
                                cli_hybrid_run *out) {
  braid_modelled_machine *machine;
  braid_graph *graph;
  braid_status status = braid_modelled_machine_load(NULL, platform, &machine);
  if (status != BRAID_OK) return status;
  if (variation) braid_modelled_machine_vary(machine, variation);
  int64_t replicas = braid_modelled_machine_replicas(machine);
  status = step_for(model, batch, replicas, graphs, &graph);
  out->platform = platform;
  if (status == BRAID_OK) status = forecast_run(graph, machine, policy, cap, replicas, out);
  braid_modelled_machine_destroy(machine);
  return status;
}

static braid_status forecast_model(size_t model, braid_graph *graphs[2], cli_hybrid_run runs[CLI_HYBRID_RUNS]) {
  int64_t batch = braid_hybrid_models()[model].batch;
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < CLI_HYBRID_CAPS && status == BRAID_OK; i++)
    status = forecast_on(model, batch, kRuns[i].platform, kRuns[i].policy, 0, NULL, graphs, &runs[i]);
  for (size_t i = 0; i < 6 && status == BRAID_OK; i++)
    status = forecast_on(model, batch, i % 2 ? "v100-s10x3" : "v100", i % 2 ? "hybrid-cap" : "dvfs",
                         cli_hybrid_cap(i / 2), NULL, graphs, &runs[CLI_HYBRID_CAPS + i]);
  return status;
}

/* --- what results depend on ----------------------------------------------------------------------------------------
 */
static const struct {
  const char *what;
  int64_t less; /* the batch is divided by that */
  braid_modelled_variation v;
} kVariations[CLI_HYBRID_VARIATIONS] = {
    {"as declared", 1, {1, 1, 1, 1, NULL, NULL, NULL, 0}},
    {"links with a quarter of the latency and four times the bandwidth", 1, {1, 0.25, 4, 1, NULL, NULL, NULL, 0}},
    {"no idle power", 1, {0, 1, 1, 1, NULL, NULL, NULL, 0}},
    {"assumed times (streaming, fewer boards) halved", 1, {1, 1, 1, 0.5, NULL, NULL, NULL, 0}},
    {"assumed times doubled", 1, {1, 1, 1, 2, NULL, NULL, NULL, 0}},
    {"Transpose, medium, on the FPGA 0.008 ms, not 0.080", 1, {1, 1, 1, 1, "stratix10", "Transpose", "medium", 0.008}},
    {"an eighth of the batch (BERT-Large: 2 samples)", 8, {1, 1, 1, 1, NULL, NULL, NULL, 0}},
};

static int64_t batch_of(size_t model, int64_t less) {
  int64_t batch = braid_hybrid_models()[model].batch / less;
  return batch < 2 ? 2 : batch;
}

/* `graphs` are those of the whole batch. */
static braid_status vary_model(size_t model, size_t index, braid_graph *graphs[2], cli_hybrid_variation *out) {
  static const char *const kCompared[4][2] = {
      {"v100", "gpu-only"}, {"v100-s10x3", "hybrid-energy"}, {"v100-s10x3", "slack-energy"}, {"v100x2", "gpu-only"}};
  braid_graph *smaller[2] = {NULL, NULL};
  cli_hybrid_run runs[4];
  int64_t less = kVariations[index].less, batch = batch_of(model, less);
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < 4 && status == BRAID_OK; i++)
    status = forecast_on(model, batch, kCompared[i][0], kCompared[i][1], 0, &kVariations[index].v,
                         less == 1 ? graphs : smaller, &runs[i]);
  for (size_t i = 0; i < 2; i++) braid_graph_destroy(smaller[i]);
  if (status != BRAID_OK) return status;
  *out = (cli_hybrid_variation){.what = kVariations[index].what,
                                .efficiency = cli_hybrid_efficiency(&runs[1], &runs[0]),
                                .ours = cli_hybrid_efficiency(&runs[2], &runs[0]),
                                .throughput = cli_hybrid_throughput(&runs[1], &runs[0]),
                                .two_gpus = cli_hybrid_throughput(&runs[3], &runs[0])};
  return BRAID_OK;
}

static braid_status evaluate_model(cli_hybrid *h, size_t model) {
  braid_graph *graphs[2] = {NULL, NULL};
  braid_status status = forecast_model(model, graphs, h->runs[model]);
  for (size_t i = 0; i < CLI_HYBRID_VARIATIONS && status == BRAID_OK; i++)
    status = vary_model(model, i, graphs, &h->variations[model][i]);
  for (size_t i = 0; i < 2; i++) braid_graph_destroy(graphs[i]);
  return status;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
braid_status cli_hybrid_select(const char *models, cli_hybrid *out) {
  const braid_hybrid_model *all = braid_hybrid_models();
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) out->wanted[m] = !models;
  for (const char *at = models; at;) { /* a comma asks for one more name */
    size_t length = strcspn(at, ","), m = 0;
    while (m < BRAID_HYBRID_MODELS && (strlen(all[m].name) != length || strncmp(all[m].name, at, length) != 0)) m++;
    if (m == BRAID_HYBRID_MODELS)
      return braid_fail(BRAID_NOT_FOUND,
                        "--model: there is no \"%.*s\"; there are AlexNet, ResNet50, VGG16, InceptionV3, DCGAN and "
                        "BERT-Large",
                        (int)length, at);
    out->wanted[m] = true;
    at = at[length] ? at + length + 1 : NULL;
  }
  out->all = true;
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) out->all &= out->wanted[m];
  return BRAID_OK;
}

braid_status cli_hybrid_make(cli_hybrid *h) {
  braid_status status = braid_modelled_machine_load(NULL, "v100-s10x3", &h->machine);
  if (status == BRAID_OK) status = braid_modelled_machine_load(NULL, "v100x2-s10x6", &h->pair);
  for (size_t m = 0; m < BRAID_HYBRID_MODELS && status == BRAID_OK; m++)
    if (h->wanted[m]) status = evaluate_model(h, m);
  return status;
}

cli_hybrid_variation cli_hybrid_mean_variation(const cli_hybrid *h, size_t index) {
  cli_hybrid_variation sum = {.what = kVariations[index].what, .throughput = NAN};
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    const cli_hybrid_variation *v = &h->variations[m][index];
    sum.efficiency += v->efficiency / BRAID_HYBRID_MODELS;
    sum.ours += v->ours / BRAID_HYBRID_MODELS;
    sum.two_gpus += v->two_gpus / BRAID_HYBRID_MODELS;
    sum.throughput = fmin(sum.throughput, v->throughput);
  }
  return sum;
}

void cli_hybrid_end(cli_hybrid *h) {
  braid_modelled_machine_destroy(h->machine);
  braid_modelled_machine_destroy(h->pair);
}
