#include "train/integer/run.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/try.h"
#include "train/data/dataset.h"
#include "train/integer/network.h"

/* Biases that are drawn are zeros: nothing is lost with them. */
static braid_status tell_biases(const braid_trainer *trainer) {
  enum { kNamed = 8 };
  const braid_integer_network *net = trainer->integers;
  if (!net->bias_count) return BRAID_OK;
  braid_text names;
  braid_text_init(&names, trainer->allocator);
  for (size_t i = 0; i < net->bias_count && i < kNamed; i++)
    braid_text_printf(&names, "%s%.120s", i ? ", " : "", net->graph->values[net->biases[i]].name);
  if (net->bias_count > kNamed) braid_text_printf(&names, " and %zu more", net->bias_count - kNamed);
  bool failed = names.failed;
  if (!failed)
    braid_log_write(trainer->log, trainer->options.draw_weights ? BRAID_LOG_INFO : BRAID_LOG_WARNING,
                    "%zu bias%s of convolutions and products %s left out, since training in integers has none: %s",
                    net->bias_count, net->bias_count == 1 ? "" : "es", net->bias_count == 1 ? "is" : "are", names.data);
  braid_text_deinit(&names);
  return failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* The grid of the activations takes some places from every gamma of 1; what more is taken, activations lose. */
static void tell_norm_places(const braid_trainer *trainer) {
  const braid_integer_network *net = trainer->integers;
  if (!net->norm_places) return;
  double size = 0;
  braid_value_id widest = -1;
  braid_integer_find_norm_places(net, &widest, &size);
  int lost = net->norm_places + ilogb(braid_integer_gamma_unit(net)) - 1;
  char more[64] = "";
  if (lost > 0) snprintf(more, sizeof more, "; activations behind them have %d bit%s less", lost, lost > 1 ? "s" : "");
  braid_log_write(trainer->log, lost > 0 ? BRAID_LOG_WARNING : BRAID_LOG_INFO,
                  "all gammas and betas of batch normalizations are divided by 2^%d, since %.120s has numbers up to "
                  "%.6g: the network keeps its direction, not its scale%s",
                  net->norm_places, net->graph->values[widest].name, size, more);
}

braid_status braid_integer_build(braid_trainer *trainer) {
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  const braid_spec *spec = braid_dataset_spec(trainer->train);
  if (info.target != BRAID_TARGET_CLASS)
    return braid_fail(BRAID_UNSUPPORTED, "training in integers is for classes; %.200s has other targets", info.spec);
  bool normalized = spec->means || spec->stds;
  BRAID_TRY(braid_integer_network_create(trainer->model, &info, &trainer->options, normalized, &trainer->integers));
  if (!normalized)
    braid_log_write(trainer->log, BRAID_LOG_INFO,
                    "the samples are taken as they are; deep networks learn better in integers from samples with a "
                    "mean of 0 and a deviation of 1 (mean= and std= of the data)");
  BRAID_TRY(tell_biases(trainer));
  tell_norm_places(trainer);
  return braid_integer_step(trainer->integers, &trainer->options, trainer->recorded ? &trainer->digests : NULL,
                            &trainer->step);
}

/* Of a bias that is a constant of the model; NO_MEMORY alone can happen. */
static braid_status add_bias(braid_graph *graph, const braid_value *bias) {
  braid_value_id id;
  if (!bias->tensor || braid_graph_find_value(graph, bias->name) >= 0) return BRAID_OK;
  BRAID_TRY(braid_graph_add_tensor(graph, bias->name, BRAID_VALUE_CONSTANT, bias->tensor, &id));
  graph->values[id].fixed = "a bias: training in integers has none";
  return BRAID_OK;
}

braid_status braid_integer_parameters(const braid_trainer *trainer, braid_graph **out) {
  const braid_integer_network *net = trainer->integers;
  BRAID_TRY(braid_graph_clone(trainer->step, out));
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < trainer->step->value_count; i++) /* momentums are the rule's, and not the network's */
    if (braid_integer_is_momentum(trainer->step, &trainer->step->values[i]))
      (*out)->values[i].kind = BRAID_VALUE_CONSTANT;
  for (size_t i = 0; status == BRAID_OK && i < net->bias_count; i++)
    status = add_bias(*out, &net->graph->values[net->biases[i]]);
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(*out);
  *out = NULL;
  return status;
}
