#include "train/update.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/try.h"
#include "graph/onnx_dtype.h"
#include "graph/precision.h"
#include "tensor/half.h"
#include "train/copies.h"
#include "train/parallel/slice.h"
#include "train/schedule.h"

/* What building the update holds. */
typedef struct update {
  braid_graph *graph;
  const braid_train_options *options;
  braid_update_inputs in;
  braid_value_id guard;                   /* of the optimizer nodes */
  braid_value_id *parameters, *gradients; /* those that train, one gradient each */
  braid_value_id *copies;                 /* of these: 16-bit states that follow them; -1: none */
  size_t count;
  braid_value_id scale; /* of the loss; -1: none */
  bool scaled;          /* gradients still are */
  braid_slice slice;
  size_t given;               /* values that the graph had before */
  braid_value_id loss_output; /* the step's */
} update;

static braid_status update_node(const update *u, const char *op, const braid_value_id *inputs, size_t count,
                                braid_value_id *out) {
  braid_node_id node;
  braid_value_id result = 0; /* *out may be one of the inputs */
  BRAID_TRY(braid_graph_add_node(u->graph, op, NULL, inputs, count, &result, 1, &node));
  u->graph->nodes[node].backward = true;
  *out = result;
  return BRAID_OK;
}

static braid_dtype type_of(const update *u, braid_value_id value) {
  return u->graph->values[value].desc.dtype;
}

static braid_status update_cast(const update *u, braid_value_id value, braid_dtype dtype, braid_value_id *out) {
  *out = value;
  if (type_of(u, value) == dtype) return BRAID_OK;
  braid_node_id node;
  *out = 0;
  BRAID_TRY(braid_graph_add_node(u->graph, "Cast", NULL, &value, 1, out, 1, &node));
  u->graph->nodes[node].backward = true;
  BRAID_TRY(braid_graph_set_int(u->graph, node, "to", braid_dtype_to_onnx(dtype)));
  return braid_graph_infer_node(u->graph, node);
}

/* --- states --------------------------------------------------------------------------------------------------------
 */
static const char kAverage[] = "average";

const char *braid_update_state_name(braid_graph *graph, const char *parameter, const char *suffix) {
  char *name = braid_arena_format(graph->arena, "%s/%s", parameter, suffix);
  for (int number = 2; name && braid_graph_find_value(graph, name) >= 0; number++)
    name = braid_arena_format(graph->arena, "%s/%s~%d", parameter, suffix, number);
  return name;
}

/* A state of the parameter's type and shape that starts with its numbers, or with zeros. */
static braid_status add_state(braid_graph *graph, braid_value_id parameter, const char *suffix, bool copied,
                              braid_value_id *out) {
  const char *name = braid_update_state_name(graph, graph->values[parameter].name, suffix);
  if (!name) return BRAID_NO_MEMORY;
  const braid_desc desc = graph->values[parameter].desc;
  braid_tensor *start;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &start));
  if (copied)
    memcpy(braid_tensor_data(start), braid_tensor_const_data(graph->values[parameter].tensor), braid_desc_bytes(&desc));
  else
    memset(braid_tensor_data(start), 0, braid_desc_bytes(&desc));
  braid_status status = braid_graph_add_tensor(graph, name, BRAID_VALUE_STATE, start, out);
  braid_tensor_release(start);
  return status;
}

/* Of several that could be it, the last one is ours: names that the model had were passed over. */
braid_value_id braid_step_average(const braid_graph *step, const char *parameter) {
  size_t length = strlen(parameter), suffix = sizeof kAverage - 1;
  for (size_t i = step->value_count; i-- > 0;) {
    const braid_value *value = &step->values[i];
    if (value->kind != BRAID_VALUE_STATE || strncmp(value->name, parameter, length) != 0) continue;
    const char *rest = value->name + length;
    if (rest[0] == '/' && strncmp(rest + 1, kAverage, suffix) == 0 && (!rest[1 + suffix] || rest[1 + suffix] == '~'))
      return (braid_value_id)i;
  }
  return -1;
}

/* --- groups --------------------------------------------------------------------------------------------------------
 */
bool braid_parameter_is_frozen(const braid_train_options *options, const char *parameter) {
  const braid_parameter_group *group = braid_train_group(options, parameter);
  return group && group->rate == 0;
}

braid_status braid_check_groups(const braid_graph *graph, const braid_train_options *options) {
  size_t frozen = 0, parameters = 0;
  for (size_t g = 0; g < options->group_count; g++) {
    bool used = false;
    for (size_t i = 0; !used && i < graph->value_count; i++)
      used = graph->values[i].kind == BRAID_VALUE_PARAMETER &&
             braid_train_group(options, graph->values[i].name) == &options->groups[g];
    if (!used)
      return braid_fail(BRAID_NOT_FOUND,
                        "\"%.120s\" matches no parameter%s (`braid inspect MODEL --train` lists the parameters)",
                        options->groups[g].pattern, g ? " that an earlier group leaves" : "");
  }
  for (size_t i = 0; i < graph->value_count; i++) {
    if (graph->values[i].kind != BRAID_VALUE_PARAMETER) continue;
    parameters++;
    frozen += braid_parameter_is_frozen(options, graph->values[i].name);
  }
  if (frozen && frozen == parameters)
    return braid_fail(BRAID_INVALID_ARGUMENT, "all %zu parameters are frozen: nothing trains", frozen);
  return BRAID_OK;
}

/* A bias, or a scale or shift of a normalization: a parameter of one dimension, or one that an elementwise op
 * broadcasts along all others. */
static bool is_bias_or_scale(const braid_graph *graph, braid_value_id parameter) {
  const braid_desc *desc = &graph->values[parameter].desc;
  int wide = 0;
  for (int i = 0; i < desc->rank; i++) wide += desc->dims[i] != 1;
  if (desc->rank <= 1 || wide > 1) return desc->rank <= 1;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    for (size_t k = 0; !node->backward && k < node->input_count; k++)
      if (node->inputs[k] == parameter && !(node->op->flags & BRAID_OP_ELEMENTWISE)) return false;
  }
  return true;
}

static double decay_of(const update *u, braid_value_id parameter) {
  const braid_parameter_group *group = braid_train_group(u->options, u->graph->values[parameter].name);
  if (group && !isnan(group->weight_decay)) return group->weight_decay;
  return u->options->no_bias_decay && is_bias_or_scale(u->graph, parameter) ? 0 : u->options->weight_decay;
}

static braid_status rate_of(const update *u, braid_value_id parameter, braid_value_id *out) {
  const braid_parameter_group *group = braid_train_group(u->options, u->graph->values[parameter].name);
  *out = u->in.rate;
  if (!group || group->rate == 1) return BRAID_OK;
  braid_value_id factor;
  BRAID_TRY(braid_graph_add_scalar(u->graph, BRAID_F32, group->rate, &factor));
  return update_node(u, "Mul", (braid_value_id[]){u->in.rate, factor}, 2, out);
}

/* --- gradients -----------------------------------------------------------------------------------------------------
 */
/* What was summed before, or 0 in a step's first batch; whatever is not finite is gone then. */
static braid_status keep_sum(const update *u, braid_value_id sum, braid_value_id *out) {
  braid_value_id kept, zero;
  BRAID_TRY(update_cast(u, u->in.kept, type_of(u, sum), &kept));
  if (u->scale < 0) return update_node(u, "Mul", (braid_value_id[]){sum, kept}, 2, out);
  BRAID_TRY(update_cast(u, u->in.kept, BRAID_BOOL, &kept));
  BRAID_TRY(braid_graph_add_scalar(u->graph, type_of(u, sum), 0, &zero));
  return update_node(u, "Where", (braid_value_id[]){kept, sum, zero}, 3, out);
}

/* The mean over the batches of a step: each batch's loss is divided by their number, and what they give is summed in a
 * state that starts anew with the first. A division by 0 closes the guard before the last: the parameters stay. */
static braid_status accumulate_gradients(update *u) {
  BRAID_TRY(update_node(u, "Div", (braid_value_id[]){u->in.loss, u->in.last}, 2, &u->guard));
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id sum, before, gradient, after;
    BRAID_TRY(add_state(u->graph, u->parameters[i], "gradient", false, &sum));
    BRAID_TRY(keep_sum(u, sum, &before));
    BRAID_TRY(update_cast(u, u->gradients[i], type_of(u, sum), &gradient));
    BRAID_TRY(update_node(u, "Add", (braid_value_id[]){before, gradient}, 2, &after));
    BRAID_TRY(braid_graph_update_state(u->graph, sum, after));
    u->gradients[i] = after;
  }
  return BRAID_OK;
}

static braid_status clip_values(update *u) {
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id inputs[3] = {u->gradients[i]};
    braid_dtype dtype = type_of(u, inputs[0]);
    BRAID_TRY(braid_graph_add_scalar(u->graph, dtype, -u->options->clip_value, &inputs[1]));
    BRAID_TRY(braid_graph_add_scalar(u->graph, dtype, u->options->clip_value, &inputs[2]));
    BRAID_TRY(update_node(u, "Clip", inputs, 3, &u->gradients[i]));
  }
  return BRAID_OK;
}

/* Limits are of the gradients themselves, as float32. */
static braid_status unscale_gradients(update *u) {
  for (size_t i = 0; i < u->count; i++) {
    BRAID_TRY(update_cast(u, u->gradients[i], type_of(u, u->parameters[i]), &u->gradients[i]));
    if (u->scaled) BRAID_TRY(update_node(u, "Div", (braid_value_id[]){u->gradients[i], u->scale}, 2, &u->gradients[i]));
  }
  u->scaled = false;
  return BRAID_OK;
}

/* The sum of the squares of all gradients, as float32. */
static braid_status sum_squares(const update *u, braid_value_id *out) {
  braid_value_id *squares = braid_graph_arena_alloc(u->graph, u->count * sizeof *squares);
  if (!squares) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id gradient;
    braid_node_id node;
    BRAID_TRY(update_cast(u, u->gradients[i], BRAID_F32, &gradient));
    BRAID_TRY(braid_graph_add_node(u->graph, "ReduceSumSquare", NULL, &gradient, 1, &squares[i], 1, &node));
    u->graph->nodes[node].backward = true;
    BRAID_TRY(braid_graph_set_int(u->graph, node, "keepdims", 0));
    BRAID_TRY(braid_graph_infer_node(u->graph, node));
  }
  return update_node(u, "Sum", squares, u->count, out);
}

/* As PyTorch's clip_grad_norm_: all gradients times min(1, most / (norm + 1e-6)). */
static braid_status clip_norm(update *u) {
  braid_value_id norm, tiny, most, one, factor;
  BRAID_TRY(sum_squares(u, &norm));
  BRAID_TRY(update_node(u, "Sqrt", &norm, 1, &norm));
  BRAID_TRY(braid_graph_add_scalar(u->graph, BRAID_F32, 1e-6, &tiny));
  BRAID_TRY(braid_graph_add_scalar(u->graph, BRAID_F32, u->options->clip_norm, &most));
  BRAID_TRY(braid_graph_add_scalar(u->graph, BRAID_F32, 1, &one));
  BRAID_TRY(update_node(u, "Add", (braid_value_id[]){norm, tiny}, 2, &norm));
  BRAID_TRY(update_node(u, "Div", (braid_value_id[]){most, norm}, 2, &factor));
  BRAID_TRY(update_node(u, "Min", (braid_value_id[]){factor, one}, 2, &factor));
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id inputs[2] = {u->gradients[i]};
    BRAID_TRY(update_cast(u, factor, type_of(u, inputs[0]), &inputs[1]));
    BRAID_TRY(update_node(u, "Mul", inputs, 2, &u->gradients[i]));
  }
  return BRAID_OK;
}

/* --- the optimizer -------------------------------------------------------------------------------------------------
 * The loss is handed to the update as its guard: it leaves everything as it was when the loss is not finite, so that
 * the cause can be looked for, and the last checkpoint stays good. */
/* Operands without those left out at the end. */
static size_t trimmed(const braid_value_id *operands, size_t count) {
  while (operands[count - 1] < 0) count--;
  return count;
}

static braid_status add_sgd(const update *u, size_t index, braid_value_id rate) {
  const braid_train_options *options = u->options;
  braid_graph *graph = u->graph;
  bool with_momentum = options->momentum != 0;
  braid_value_id parameter = u->parameters[index], copy = u->copies[index], momentum = -1;
  braid_value_id outputs[3] = {0, with_momentum ? 0 : -1, copy < 0 ? -1 : 0};
  if (with_momentum) BRAID_TRY(add_state(graph, parameter, "momentum", false, &momentum));
  braid_value_id inputs[] = {parameter, u->gradients[index], rate, momentum, u->guard, u->scaled ? u->scale : -1, copy};
  braid_node_id node;
  BRAID_TRY(
      braid_graph_add_node(graph, "SgdUpdate", NULL, inputs, trimmed(inputs, 7), outputs, trimmed(outputs, 3), &node));
  graph->nodes[node].backward = true;
  BRAID_TRY(braid_graph_set_float(graph, node, "momentum", options->momentum));
  BRAID_TRY(braid_graph_set_float(graph, node, "weight_decay", decay_of(u, parameter)));
  BRAID_TRY(braid_graph_set_int(graph, node, "nesterov", options->nesterov));
  BRAID_TRY(braid_graph_update_state(graph, parameter, outputs[0]));
  if (copy >= 0) BRAID_TRY(braid_graph_update_state(graph, copy, outputs[2]));
  return with_momentum ? braid_graph_update_state(graph, momentum, outputs[1]) : BRAID_OK;
}

static braid_status add_adam(const update *u, size_t index, braid_value_id rate) {
  const braid_train_options *options = u->options;
  braid_graph *graph = u->graph;
  braid_value_id parameter = u->parameters[index], copy = u->copies[index], first, second;
  braid_value_id outputs[4] = {0, 0, 0, copy < 0 ? -1 : 0};
  BRAID_TRY(add_state(graph, parameter, "moment1", false, &first));
  BRAID_TRY(add_state(graph, parameter, "moment2", false, &second));
  braid_value_id inputs[] = {parameter, u->gradients[index],       rate, first, second, u->in.update,
                             u->guard,  u->scaled ? u->scale : -1, copy};
  braid_node_id node;
  BRAID_TRY(
      braid_graph_add_node(graph, "AdamUpdate", NULL, inputs, trimmed(inputs, 9), outputs, trimmed(outputs, 4), &node));
  graph->nodes[node].backward = true;
  BRAID_TRY(braid_graph_set_float(graph, node, "beta1", options->beta1));
  BRAID_TRY(braid_graph_set_float(graph, node, "beta2", options->beta2));
  BRAID_TRY(braid_graph_set_float(graph, node, "epsilon", options->epsilon));
  BRAID_TRY(braid_graph_set_float(graph, node, "weight_decay", decay_of(u, parameter)));
  BRAID_TRY(braid_graph_set_int(graph, node, "decoupled", options->optimizer == BRAID_ADAMW));
  BRAID_TRY(braid_graph_update_state(graph, parameter, outputs[0]));
  if (copy >= 0) BRAID_TRY(braid_graph_update_state(graph, copy, outputs[3]));
  BRAID_TRY(braid_graph_update_state(graph, first, outputs[1]));
  return braid_graph_update_state(graph, second, outputs[2]);
}

static braid_status add_optimizers(const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id rate;
    BRAID_TRY(rate_of(u, u->parameters[i], &rate));
    BRAID_TRY((u->options->optimizer == BRAID_SGD ? add_sgd : add_adam)(u, i, rate));
  }
  return BRAID_OK;
}

/* Where a lookahead has gone on, the parameter goes back to what it keeps, and so does its 16-bit copy. */
static braid_status go_back(const update *u, size_t index, braid_value_id went, braid_value_id kept) {
  braid_graph *graph = u->graph;
  braid_value_id parameter = u->parameters[index], copy = u->copies[index], next;
  BRAID_TRY(update_node(u, "Where", (braid_value_id[]){went, kept, graph->values[parameter].next}, 3, &next));
  graph->values[parameter].next = next;
  if (copy < 0) return BRAID_OK;
  BRAID_TRY(update_cast(u, next, type_of(u, copy), &next));
  graph->values[copy].next = next;
  return BRAID_OK;
}

/* average += weight * (parameter - average), of the parameter after its update. */
static braid_status add_averages(const update *u) {
  braid_value_id went = -1;
  if (u->options->lookahead_steps) BRAID_TRY(update_cast(u, u->in.average, BRAID_BOOL, &went));
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id parameter = u->parameters[i], now = u->graph->values[parameter].next, average, weight, by;
    BRAID_TRY(add_state(u->graph, parameter, kAverage, true, &average));
    BRAID_TRY(update_cast(u, u->in.average, type_of(u, average), &weight));
    BRAID_TRY(update_node(u, "Sub", (braid_value_id[]){now, average}, 2, &by));
    BRAID_TRY(update_node(u, "Mul", (braid_value_id[]){by, weight}, 2, &by));
    BRAID_TRY(update_node(u, "Add", (braid_value_id[]){average, by}, 2, &by));
    BRAID_TRY(braid_graph_update_state(u->graph, average, by));
    if (went >= 0) BRAID_TRY(go_back(u, i, went, by));
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* Divided by the number of batches in a step before it is differentiated, so that their gradients' sum is a mean, and
 * multiplied by the process's part of the batch, for the same reason, and by the scale, so that gradients of 16 bits do
 * not vanish. */
static braid_status scale_loss(const update *u, braid_value_id *loss) {
  *loss = u->in.loss;
  BRAID_TRY(braid_add_weight(u->graph, &u->slice, loss));
  if (u->scale >= 0) BRAID_TRY(update_node(u, "Mul", (braid_value_id[]){*loss, u->scale}, 2, loss));
  if (u->options->accumulate <= 1) return BRAID_OK;
  braid_value_id part;
  BRAID_TRY(braid_graph_add_scalar(u->graph, type_of(u, *loss), 1.0 / (double)u->options->accumulate, &part));
  return update_node(u, "Mul", (braid_value_id[]){*loss, part}, 2, loss);
}

/* A parameter that is used both as it is and rounded has two gradients. */
static braid_status join_gradients(const update *u, braid_value_id whole, braid_value_id rounded, braid_value_id *out) {
  *out = whole < 0 ? rounded : whole;
  if (whole < 0 || rounded < 0) return BRAID_OK;
  BRAID_TRY(update_cast(u, rounded, type_of(u, whole), &rounded));
  return update_node(u, "Add", (braid_value_id[]){whole, rounded}, 2, out);
}

/* A parameter that no update follows is cast where it is read. */
static braid_status drop_copy(const update *u, size_t index) {
  braid_value_id copy = u->copies[index], cast;
  if (copy < 0) return BRAID_OK;
  BRAID_TRY(update_cast(u, u->parameters[index], type_of(u, copy), &cast));
  braid_graph_replace_uses(u->graph, copy, cast);
  return braid_graph_sort(u->graph);
}

static braid_status find_gradients(update *u) {
  braid_value_id loss, *wrt = braid_graph_arena_alloc(u->graph, 4 * (u->count + 1) * sizeof *wrt);
  if (!wrt) return BRAID_NO_MEMORY;
  braid_value_id *gradients = wrt + 2 * u->count, *place_of = u->copies;
  size_t all = u->count, kept = 0;
  memcpy(wrt, u->parameters, u->count * sizeof *wrt);
  for (size_t i = 0; i < u->count; i++)
    if (place_of[i] >= 0) wrt[all++] = place_of[i];
  BRAID_TRY(scale_loss(u, &loss));
  BRAID_TRY(braid_graph_gradients(u->graph, loss, wrt, all, gradients));
  size_t next = u->count;
  for (size_t i = 0; i < u->count; i++) {
    braid_value_id rounded = u->copies[i] < 0 ? -1 : gradients[next++], gradient;
    BRAID_TRY(join_gradients(u, gradients[i], rounded, &gradient));
    if (gradient < 0) { /* the loss does not depend on it */
      BRAID_TRY(drop_copy(u, i));
      continue;
    }
    u->parameters[kept] = u->parameters[i];
    u->copies[kept] = u->copies[i];
    u->gradients[kept++] = gradient;
  }
  u->count = kept;
  return BRAID_OK;
}

/* The guard looks at gradients too: with a scale they overflow now and then, which costs the step and halves it. */
static braid_status guard_gradients(update *u) {
  if (u->scale < 0) return BRAID_OK;
  braid_value_id *looked_at = braid_graph_arena_alloc(u->graph, (u->count + 1) * sizeof *looked_at);
  if (!looked_at) return BRAID_NO_MEMORY;
  looked_at[0] = u->guard;
  memcpy(looked_at + 1, u->gradients, u->count * sizeof *looked_at);
  BRAID_TRY(update_node(u, "GradientGuard", looked_at, u->count + 1, &u->guard));
  return braid_loss_scale_update(u->graph, u->scale, u->guard, u->in.last);
}

/* 16-bit values, before gradients are built. The loss stays float32. */
static braid_status lower_step(update *u) {
  bool half = u->graph->precision == BRAID_FLOAT16, low = half || u->graph->precision == BRAID_BFLOAT16;
  BRAID_TRY(braid_graph_lower(u->graph));
  BRAID_TRY(braid_copies_make(u->graph, u->parameters, u->count, u->copies));
  if (low) BRAID_TRY(update_cast(u, u->in.loss, BRAID_F32, &u->in.loss));
  u->guard = u->in.loss;
  if (half) BRAID_TRY(braid_loss_scale_make(u->graph, &u->scale));
  u->scaled = half;
  return BRAID_OK;
}

/* The loss is the mean over the samples of all processes; it is the step's output, and the guard. */
static braid_status share_loss(update *u) {
  braid_value_id loss = u->in.loss;
  if (!u->slice.group) return BRAID_OK;
  BRAID_TRY(update_cast(u, loss, BRAID_F32, &loss));
  BRAID_TRY(braid_add_weight(u->graph, &u->slice, &loss));
  BRAID_TRY(braid_add_all_reduce(u->graph, &u->slice, "sum", &loss, 1));
  for (size_t i = 0; i < u->graph->output_count; i++)
    if (u->graph->outputs[i] == u->loss_output) u->graph->outputs[i] = loss;
  u->in.loss = u->guard = loss;
  return BRAID_OK;
}

/* Sums of all processes; of 16 bits they are summed in 32. */
static braid_status share_gradients(update *u) {
  if (!u->slice.group) return BRAID_OK;
  for (size_t i = 0; i < u->count; i++)
    if (type_of(u, u->gradients[i]) != BRAID_F64)
      BRAID_TRY(update_cast(u, u->gradients[i], BRAID_F32, &u->gradients[i]));
  BRAID_TRY(braid_add_all_reduces(u->graph, &u->slice, u->gradients, u->count));
  for (size_t i = 0; i < u->count; i++)
    if (braid_dtype_is_half(type_of(u, u->parameters[i])))
      BRAID_TRY(update_cast(u, u->gradients[i], type_of(u, u->parameters[i]), &u->gradients[i]));
  return BRAID_OK;
}

/* Running statistics of a normalization become the means of those of all processes. */
static braid_status share_statistics(update *u) {
  braid_graph *graph = u->graph;
  size_t count = 0;
  if (!u->slice.group) return BRAID_OK;
  braid_value_id *next = braid_graph_arena_alloc(graph, 2 * (u->given + 1) * sizeof *next), *states = next + u->given;
  if (!next) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < u->given; i++) {
    const braid_value *value = &graph->values[i];
    bool real = value->desc.dtype == BRAID_F32 || value->desc.dtype == BRAID_F64;
    if (value->kind == BRAID_VALUE_STATE && value->next >= 0 && braid_dtype_is_half(value->desc.dtype))
      return braid_fail(BRAID_UNSUPPORTED, "%.120s: statistics of 16 bits are not shared by several processes",
                        value->name);
    if (value->kind != BRAID_VALUE_STATE || value->next < 0 || !real) continue;
    states[count] = (braid_value_id)i;
    next[count++] = value->next;
  }
  for (size_t i = 0; i < count; i++) BRAID_TRY(braid_add_weight(graph, &u->slice, &next[i]));
  BRAID_TRY(braid_add_all_reduces(graph, &u->slice, next, count));
  for (size_t i = 0; i < count; i++) graph->values[states[i]].next = next[i];
  return BRAID_OK;
}

static braid_status build_update(update *u) {
  const braid_train_options *options = u->options;
  BRAID_TRY(lower_step(u));
  BRAID_TRY(find_gradients(u));
  BRAID_TRY(share_loss(u));
  BRAID_TRY(share_gradients(u));
  if (options->accumulate > 1) BRAID_TRY(accumulate_gradients(u));
  BRAID_TRY(guard_gradients(u));
  if (options->clip_value > 0 || options->clip_norm > 0) BRAID_TRY(unscale_gradients(u));
  if (options->clip_value > 0) BRAID_TRY(clip_values(u));
  if (options->clip_norm > 0 && u->count) BRAID_TRY(clip_norm(u));
  BRAID_TRY(add_optimizers(u));
  if (braid_keeps_parameters(options)) BRAID_TRY(add_averages(u));
  return share_statistics(u);
}

static void list_parameters(update *u) {
  for (size_t i = 0; i < u->graph->value_count; i++) {
    const braid_value *value = &u->graph->values[i];
    if (value->kind == BRAID_VALUE_PARAMETER && !braid_parameter_is_frozen(u->options, value->name))
      u->parameters[u->count++] = (braid_value_id)i;
  }
}

braid_status braid_add_update(braid_graph *graph, const braid_train_options *options,
                              const braid_update_inputs *inputs) {
  update u = {.graph = graph, .options = options, .in = *inputs, .guard = inputs->loss, .scale = -1};
  u.slice = braid_slice_of(options);
  u.loss_output = inputs->loss;
  u.given = graph->value_count;
  BRAID_TRY(braid_check_groups(graph, options));
  size_t values = graph->value_count;
  u.parameters = braid_zalloc_array(graph->allocator, values, 3 * sizeof *u.parameters);
  if (!u.parameters) return BRAID_NO_MEMORY;
  u.gradients = u.parameters + values;
  u.copies = u.gradients + values;
  list_parameters(&u);
  braid_status status = build_update(&u);
  braid_free(graph->allocator, u.parameters);
  return status;
}
