#include <math.h>

#include "hybrid.h"

static void json_run(cli_json *json, size_t model, const cli_hybrid_run *run) {
  const braid_forecast_summary *s = &run->summary;
  cli_json_object(json, NULL);
  cli_json_string(json, "platform", run->platform);
  cli_json_string(json, "policy", run->policy);
  cli_json_number(json, "cap_w", s->cap_watts);
  cli_json_number(json, "throughput", (double)braid_hybrid_models()[model].batch / s->seconds);
  cli_json_number(json, "modelled_ms", s->seconds * 1e3);
  cli_json_number(json, "energy_j", s->joules);
  cli_json_number(json, "average_w", s->average_watts);
  cli_json_number(json, "gpu_w", run->gpu_watts);
  cli_json_number(json, "dynamic_w", run->dynamic_watts);
  cli_json_number(json, "peak_w", s->peak_watts);
  cli_json_number(json, "cap_violations", s->cap_violations);
  cli_json_number(json, "above_cap_ms", s->seconds_above * 1e3);
  cli_json_number(json, "exposed_ms", s->exposed_seconds * 1e3);
  cli_json_number(json, "offloaded_operations_pct", run->offloaded);
  cli_json_number(json, "offloaded_time_pct", run->offloaded_time);
  cli_json_string(json, "offloaded", run->ops);
  cli_json_close(json, '}');
}

static void json_model(cli_json *json, const cli_hybrid *h, size_t m) {
  const braid_hybrid_model *p = &braid_hybrid_models()[m];
  cli_json_object(json, NULL);
  cli_json_string(json, "model", p->name);
  cli_json_integer(json, "batch", p->batch);
  cli_json_object(json, "published");
  cli_json_number(json, "offloaded_operations_pct", p->offloaded_operations);
  cli_json_number(json, "offloaded_time_pct", p->offloaded_time);
  cli_json_string(json, "offloaded", p->offloaded);
  cli_json_number(json, "efficiency_gain_pct", p->efficiency);
  cli_json_number(json, "data_movement_reduction_pct", p->movement);
  cli_json_number(json, "gpu_operations_faster_pct", p->left_on_gpu);
  cli_json_number(json, "dvfs_230w_samples_per_s", p->dvfs);
  cli_json_number(json, "hybrid_230w_samples_per_s", p->capped);
  cli_json_close(json, '}');
  cli_json_array(json, "modelled");
  for (size_t i = 0; i < CLI_HYBRID_RUNS; i++) json_run(json, m, &h->runs[m][i]);
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

static void json_text(cli_json *json) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  cli_json_object(json, "published_averages_pct");
  cli_json_number(json, "one_gpu_three_fpgas_throughput", t->throughput);
  cli_json_number(json, "one_gpu_three_fpgas_power", t->power);
  cli_json_number(json, "one_gpu_three_fpgas_efficiency", t->efficiency);
  cli_json_number(json, "two_gpus_six_fpgas_throughput", t->two_throughput);
  cli_json_number(json, "two_gpus_six_fpgas_power", t->two_power);
  cli_json_number(json, "two_gpus_six_fpgas_efficiency", t->two_efficiency);
  cli_json_number(json, "two_gpus_against_one_and_one_throughput", t->against_one_throughput);
  cli_json_number(json, "two_gpus_against_one_and_one_power", t->against_one_power);
  cli_json_number(json, "one_and_one_against_two_gpus_efficiency", t->one_efficiency);
  cli_json_number(json, "one_gpu_four_fpgas_power", t->four_power);
  cli_json_number(json, "one_gpu_four_fpgas_efficiency", t->four_efficiency);
  cli_json_close(json, '}');
}

/* `model` NULL: over all. */
static void json_variation(cli_json *json, const char *model, const cli_hybrid_variation *v) {
  cli_json_object(json, NULL);
  cli_json_string(json, "assumption", v->what);
  if (model) cli_json_string(json, "model", model);
  cli_json_number(json, "hybrid_energy_efficiency_gain_pct", v->efficiency);
  cli_json_number(json, "slack_energy_efficiency_gain_pct", v->ours);
  cli_json_number(json, "least_throughput_gain_pct", v->throughput);
  cli_json_number(json, "two_gpus_throughput_gain_pct", v->two_gpus);
  cli_json_close(json, '}');
}

/* Averages if there are all models. */
static void json_variations(cli_json *json, const cli_hybrid *h) {
  cli_json_array(json, "sensitivity");
  for (size_t i = 0; i < CLI_HYBRID_VARIATIONS; i++) {
    cli_hybrid_variation average = cli_hybrid_mean_variation(h, i);
    if (h->all) json_variation(json, NULL, &average);
    for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
      if (!h->all && h->wanted[m]) json_variation(json, braid_hybrid_models()[m].name, &h->variations[m][i]);
  }
  cli_json_close(json, ']');
  cli_json_array(json, "assumptions");
  for (size_t i = 0; i < braid_modelled_assumption_count(h->pair); i++)
    cli_json_string(json, NULL, braid_modelled_assumption(h->pair, i));
  cli_json_close(json, ']');
}

braid_status cli_hybrid_json(const cli_hybrid *h) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "source", "modelled");
  cli_json_array(&json, "models");
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
    if (h->wanted[m]) json_model(&json, h, m);
  cli_json_close(&json, ']');
  if (h->all) json_text(&json);
  json_variations(&json, h);
  cli_json_end(&json);
  return BRAID_OK;
}
