/* The training step of two networks against each other (Goodfellow et al. 2014): a generator turns random numbers into
 * samples, a discriminator tells them from the data's. Both learn from one run of both, as where a framework runs their
 * two optimizers together: the discriminator by the samples of the data and by the generator's, the generator by how
 * far its samples are taken for data. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "braid/model.h"
#include "graph/graph.h"
#include "runtime/plan/resolve.h"
#include "train/step.h"
#include "train/update.h"

static const char kPrefix[] = "discriminator/"; /* of the names of all that is the discriminator's */

/* --- one network in another ----------------------------------------------------------------------------------------
 */
typedef struct appended {
  braid_graph *graph;
  const braid_graph *from;
  braid_value_id *ids; /* per value of `from`: what it is in the graph; -1: not there yet */
} appended;

static braid_status prefixed_name(braid_graph *graph, const char *name, const char **out) {
  char text[512];
  if (strlen(name) + sizeof kPrefix > sizeof text)
    return braid_fail(BRAID_OUT_OF_RANGE, "the name %.40s... is longer than %zu bytes", name,
                      sizeof text - sizeof kPrefix);
  memcpy(text, kPrefix, sizeof kPrefix - 1);
  strcpy(text + sizeof kPrefix - 1, name);
  *out = braid_graph_intern(graph, text, strlen(text));
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status append_tensors(appended *a) {
  for (size_t i = 0; i < a->from->value_count; i++) {
    const braid_value *value = &a->from->values[i];
    const char *name;
    a->ids[i] = -1;
    if (!value->tensor) continue;
    BRAID_TRY(prefixed_name(a->graph, value->name, &name));
    BRAID_TRY(braid_graph_add_tensor(a->graph, name, value->kind, value->tensor, &a->ids[i]));
    a->graph->values[a->ids[i]].fixed = value->fixed;
  }
  return BRAID_OK;
}

static braid_status append_node(const appended *a, const braid_node *node, bool states) {
  braid_value_id inputs[16], outputs[16];
  braid_node_id id;
  const char *name;
  if (node->input_count > 16 || node->output_count > 16)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s has more than 16 inputs or outputs", node->name);
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = node->inputs[i] < 0 ? -1 : a->ids[node->inputs[i]];
  size_t count = states || strcmp(node->op->name, "BatchNormalization") != 0 ? node->output_count : 1;
  for (size_t i = 0; i < count; i++) outputs[i] = node->outputs[i] < 0 ? -1 : 0;
  BRAID_TRY(prefixed_name(a->graph, node->name, &name));
  BRAID_TRY(braid_graph_add_node(a->graph, node->op->name, name, inputs, node->input_count, outputs, count, &id));
  for (size_t i = 0; i < node->attrs.count; i++) BRAID_TRY(braid_attrs_copy(a->graph, id, &node->attrs.items[i]));
  for (size_t i = 0; i < count; i++)
    if (node->outputs[i] >= 0) a->ids[node->outputs[i]] = outputs[i];
  return BRAID_OK;
}

/* The network's nodes once more, for `input`; `states`: running statistics follow what goes through these. */
static braid_status append_nodes(const appended *a, braid_value_id input, bool states, braid_value_id *score) {
  a->ids[a->from->inputs[0]] = input;
  for (size_t i = 0; i < a->from->node_count; i++) BRAID_TRY(append_node(a, &a->from->nodes[i], states));
  for (size_t i = 0; states && i < a->from->value_count; i++)
    if (a->from->values[i].tensor && a->from->values[i].next >= 0)
      BRAID_TRY(braid_graph_update_state(a->graph, a->ids[i], a->ids[a->from->values[i].next]));
  *score = a->ids[a->from->outputs[0]];
  return BRAID_OK;
}

/* --- losses --------------------------------------------------------------------------------------------------------
 */
/* The score before a final Sigmoid, which the losses contain. */
static braid_value_id before_sigmoid(const braid_graph *graph, braid_value_id score) {
  braid_value_id value = score;
  while (graph->values[value].kind == BRAID_VALUE_RESULT) {
    const braid_node *node = &graph->nodes[graph->values[value].producer];
    if (strcmp(node->op->name, "Sigmoid") == 0) return node->inputs[0];
    if (!(node->op->flags & BRAID_OP_VIEW)) return score;
    value = node->inputs[0];
  }
  return score;
}

/* The mean of softplus(-score) for samples to be taken for data, of softplus(score) for others: -log of the probability
 * that the discriminator gives what is right. */
static braid_status add_log_loss(braid_graph *graph, braid_value_id score, bool real, braid_value_id *loss) {
  braid_value_id value = before_sigmoid(graph, score), each = 0;
  braid_node_id node;
  if (real) BRAID_TRY(braid_graph_add_node(graph, "Neg", NULL, &value, 1, &each, 1, NULL));
  if (real) value = each;
  each = *loss = 0;
  BRAID_TRY(braid_graph_add_node(graph, "Softplus", NULL, &value, 1, &each, 1, NULL));
  BRAID_TRY(braid_graph_add_node(graph, "ReduceMean", NULL, &each, 1, loss, 1, &node));
  return braid_graph_set_int(graph, node, "keepdims", 0);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* Trainable, its input of `batch` samples; one input and one output. */
static braid_status prepare_network(const braid_graph *model, const char *what, int64_t batch, braid_graph **out) {
  *out = NULL;
  if (braid_graph_input_count(model) != 1 || braid_graph_output_count(model) != 1)
    return braid_fail(BRAID_INVALID_GRAPH, "the %s has %zu inputs and %zu outputs; one of each is expected", what,
                      braid_graph_input_count(model), braid_graph_output_count(model));
  braid_value_id input = braid_graph_input(model, 0);
  braid_desc desc = braid_graph_value(model, input).desc;
  if (desc.rank < 1) return braid_fail(BRAID_INVALID_GRAPH, "the input of the %s has no dimension for the batch", what);
  desc.dims[0] = batch;
  BRAID_TRY(braid_graph_clone(model, out));
  braid_status status = braid_graph_unresolve(*out);
  if (status == BRAID_OK) status = braid_graph_make_trainable(*out);
  if (status == BRAID_OK) status = braid_graph_set_input_shape(*out, braid_graph_input(*out, 0), desc.rank, desc.dims);
  return status;
}

static braid_status check_ends(const braid_graph *graph, braid_value_id made, braid_value_id data, braid_value_id score,
                               int64_t batch) {
  const braid_desc *a = &graph->values[made].desc, *b = &graph->values[data].desc;
  char left[96], right[96];
  bool same =
      a->rank == b->rank && a->dtype == b->dtype && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
  if (!same)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the generator gives %s, the discriminator takes %s",
                      braid_desc_format(a, left, sizeof left), braid_desc_format(b, right, sizeof right));
  if (braid_desc_count(&graph->values[score].desc) == batch) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the discriminator gives %s; one score for each of %lld samples is expected",
                    braid_desc_format(&graph->values[score].desc, left, sizeof left), (long long)batch);
}

static braid_status add_scalar_input(braid_graph *graph, const char *name, braid_dtype dtype, braid_value_id *out) {
  return braid_graph_add_input(graph, name, &(braid_desc){.dtype = dtype}, out);
}

/* Those of one network learn by its loss: the other's are frozen. */
static braid_status update_network(braid_graph *graph, const braid_train_options *options, bool discriminator,
                                   braid_update_inputs *in) {
  braid_train_options own = *options;
  braid_parameter_group groups[2] = {{"discriminator/*", discriminator, NAN}, {"*", !discriminator, NAN}};
  own.groups = groups;
  own.group_count = 2;
  return braid_add_update(graph, &own, in);
}

static braid_status join_networks(appended *a, const braid_train_options *options) {
  braid_graph *graph = a->graph;
  braid_value_id data, made = graph->outputs[0], real, taken, fake, told, loss = 0;
  braid_update_inputs in = {.kept = -1, .last = -1, .average = -1};
  braid_value_id input = a->from->inputs[0];
  BRAID_TRY(braid_graph_add_input(graph, "samples", &a->from->values[input].desc, &data));
  BRAID_TRY(append_tensors(a));
  BRAID_TRY(append_nodes(a, data, true, &real));
  BRAID_TRY(append_nodes(a, made, false, &fake));
  graph->output_count = 0;
  braid_value_id ends[] = {real, fake, made};
  for (size_t i = 0; i < 3; i++) BRAID_TRY(braid_graph_add_output(graph, ends[i]));
  BRAID_TRY(braid_resolve_for_good(graph));
  real = graph->outputs[0], fake = graph->outputs[1], made = graph->outputs[2], data = graph->inputs[1];
  BRAID_TRY(check_ends(graph, made, data, fake, options->batch));
  BRAID_TRY(add_scalar_input(graph, "learning_rate", BRAID_F32, &in.rate));
  BRAID_TRY(add_scalar_input(graph, "step", BRAID_I64, &in.update));
  BRAID_TRY(add_log_loss(graph, real, true, &told));
  BRAID_TRY(add_log_loss(graph, fake, false, &taken));
  BRAID_TRY(
      braid_graph_add_node(graph, "Add", "discriminator_loss", (braid_value_id[]){told, taken}, 2, &loss, 1, NULL));
  in.loss = loss;
  BRAID_TRY(add_log_loss(graph, fake, true, &taken));
  graph->output_count = 0;
  BRAID_TRY(braid_graph_add_output(graph, loss));
  BRAID_TRY(braid_graph_add_output(graph, taken));
  BRAID_TRY(braid_graph_add_output(graph, made));
  BRAID_TRY(update_network(graph, options, true, &in));
  in.loss = taken;
  return update_network(graph, options, false, &in);
}

braid_status braid_step_graph_adversarial(const braid_graph *generator, const braid_graph *discriminator,
                                          const braid_train_options *options, braid_graph **out) {
  braid_graph *made = NULL, *judge = NULL;
  *out = NULL;
  braid_status status = prepare_network(generator, "generator", options->batch, &made);
  if (status == BRAID_OK) status = prepare_network(discriminator, "discriminator", options->batch, &judge);
  if (status == BRAID_OK) {
    appended a = {made, judge, braid_zalloc_array(made->allocator, judge->value_count + 1, sizeof *a.ids)};
    status = a.ids ? join_networks(&a, options) : BRAID_NO_MEMORY;
    braid_free(made->allocator, a.ids);
  }
  braid_graph_destroy(judge);
  if (status == BRAID_OK)
    *out = made;
  else
    braid_graph_destroy(made);
  return status;
}
