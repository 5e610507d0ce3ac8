#include "train/step.h"

#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "graph/trainable.h"
#include "runtime/plan/resolve.h"
#include "train/loss.h"
#include "train/own_loss.h"
#include "train/parallel/slice.h"
#include "train/schedule.h"
#include "train/update.h"

/* --- the model's ends ----------------------------------------------------------------------------------------------
 */
/* Whether `dims` with some neighbours merged are `merged`: every product of leading dimensions of `merged` is one of
 * `dims`. Both are sizes of as many numbers. */
static bool merges_to(const int64_t *dims, int rank, const int64_t *merged, int merged_rank) {
  int64_t have = 1, want = 1;
  for (int i = 0, at = 0; i < merged_rank; i++) {
    want *= merged[i];
    while (have < want && at < rank) have *= dims[at++];
    if (have != want) return false;
  }
  return true;
}

braid_status braid_bind_samples(braid_graph *model, const braid_dataset_info *info, int64_t batch) {
  braid_value_id input = braid_graph_input(model, 0);
  braid_value_info value = braid_graph_value(model, input);
  if (value.desc.dtype != BRAID_F32)
    return braid_fail(BRAID_INVALID_GRAPH, "input %.80s is %s; float32 is expected", value.name,
                      braid_dtype_name(value.desc.dtype));
  int64_t dims[BRAID_MAX_RANK], given[4] = {batch, info->channels, info->height, info->width};
  int rank = value.desc.rank < 1 ? 4 : value.desc.rank;
  int64_t per_sample = 1;
  for (int i = 0; i < rank; i++) {
    bool open = value.desc.rank < 1 || value.desc.dims[i] < 0;
    if (open && rank != 4 && i > 0)
      return braid_fail(BRAID_INVALID_GRAPH, "input %.80s has an open dimension %d that the data does not decide",
                        value.name, i);
    dims[i] = i == 0 ? batch : open ? given[i] : value.desc.dims[i];
    if (i > 0 && !braid_mul_i64(per_sample, dims[i], &per_sample))
      return braid_fail(BRAID_OUT_OF_RANGE, "input %.80s: its size overflows", value.name);
  }
  /* A sample is given as it lies in memory: of an image as B,H,W,C the count is right and every pixel at another place.
   */
  const int64_t *sample = given + 1;
  bool fits = rank > 1 && per_sample == sample[0] * sample[1] * sample[2] &&
              (merges_to(sample, 3, dims + 1, rank - 1) || merges_to(dims + 1, rank - 1, sample, 3));
  if (!fits) {
    char text[96];
    braid_desc wanted = value.desc;
    memcpy(wanted.dims, dims, (size_t)rank * sizeof *dims);
    return braid_fail(
        BRAID_INVALID_ARGUMENT,
        "input %.80s is %s, the batch first; samples of %d x %d x %d (channels, height, width) do not have "
        "this shape, nor become it where neighbouring dimensions are merged or split",
        value.name, braid_desc_format(&wanted, text, sizeof text), info->channels, info->height, info->width);
  }
  return braid_graph_set_input_shape(model, input, rank, dims);
}

braid_status braid_bind_input(braid_graph *model, const braid_dataset_info *info, int64_t batch) {
  if (braid_graph_input_count(model) == 1) return braid_bind_samples(model, info, batch);
  return braid_fail(BRAID_INVALID_GRAPH,
                    "the model has %zu inputs; one, the images, is expected (two where an output is the loss)",
                    braid_graph_input_count(model));
}

/* Whether a node turns logits of the targets into probabilities: over the classes, or for each label. */
static bool is_activation(const braid_graph *graph, const braid_node *node, const braid_dataset_info *info) {
  if (info->target == BRAID_TARGET_LABELS) return strcmp(node->op->name, "Sigmoid") == 0;
  if (info->target != BRAID_TARGET_CLASS) return false;
  if (strcmp(node->op->name, "Softmax") != 0 && strcmp(node->op->name, "LogSoftmax") != 0) return false;
  const braid_desc *desc = &graph->values[node->inputs[0]].desc;
  int64_t axis = braid_attr_int(&node->attrs, "axis", -1);
  axis += axis < 0 ? desc->rank : 0;
  return axis > 0 && axis < desc->rank && desc->dims[axis] == info->classes;
}

/* The last activation that gives `value`, through nodes that only cast or reshape; else NULL. */
static const braid_node *last_activation(const braid_graph *graph, braid_value_id value,
                                         const braid_dataset_info *info) {
  while (value >= 0 && graph->values[value].kind == BRAID_VALUE_RESULT) {
    const braid_node *node = &graph->nodes[graph->values[value].producer];
    if (is_activation(graph, node, info)) return node;
    bool casts = strcmp(node->op->name, "Cast") == 0 && braid_dtype_is_float(graph->values[value].desc.dtype);
    if (!casts && !(node->op->flags & BRAID_OP_VIEW)) return NULL;
    value = node->inputs[0];
  }
  return NULL;
}

static braid_status cast_scores(braid_graph *graph, braid_value_id *scores) {
  if (graph->values[*scores].desc.dtype == BRAID_F32) return BRAID_OK;
  braid_value_id input = *scores;
  braid_node_id cast;
  *scores = 0;
  BRAID_TRY(braid_graph_add_node(graph, "Cast", NULL, &input, 1, scores, 1, &cast));
  return braid_graph_set_int(graph, cast, "to", braid_dtype_to_onnx(BRAID_F32));
}

static braid_status move_classes_last(braid_graph *graph, int rank, braid_value_id *scores) {
  int64_t order[BRAID_MAX_RANK] = {0};
  braid_value_id input = *scores;
  braid_node_id node;
  for (int i = 1; i < rank; i++) order[i] = i + 1 < rank ? i + 1 : 1;
  *scores = 0;
  BRAID_TRY(braid_graph_add_node(graph, "Transpose", NULL, &input, 1, scores, 1, &node));
  return braid_graph_set_ints(graph, node, "perm", order, (size_t)rank);
}

/* Of one of the outputs. `places`: classes stand in dimension 1, and a sample has so many places, each with a class of
 * its own; the scores are those of [batch * places, classes]. */
static braid_status scores_of(braid_graph *graph, size_t output, const braid_dataset_info *info, int64_t places,
                              bool before_activation, braid_value_id *out, braid_score_kind *kind) {
  *kind = BRAID_SCORES_PLAIN;
  braid_value_id scores = braid_graph_output(graph, output);
  const braid_desc desc = graph->values[scores].desc;
  if (desc.rank < 1 || desc.dims[0] < 1)
    return braid_fail(BRAID_INVALID_GRAPH, "output %.80s has no batch dimension", graph->values[scores].name);
  int64_t classes = braid_desc_count(&desc) / desc.dims[0] / places;
  if (classes != info->classes)
    return braid_fail(
        BRAID_INVALID_ARGUMENT,
        "output %.80s has %lld scores a sample, the data set has %d classes; braid_replace_head (braid train "
        "--replace-head) fits the last layer to the data",
        graph->values[scores].name, (long long)classes, info->classes);
  const braid_node *activation = last_activation(graph, scores, info);
  if (activation && before_activation)
    scores = activation->inputs[0];
  else if (activation)
    *kind = activation->op->name[0] == 'L' ? BRAID_SCORES_LOG_PROBABILITIES : BRAID_SCORES_PROBABILITIES;
  int rank = graph->values[scores].desc.rank;
  BRAID_TRY(cast_scores(graph, &scores));
  *out = scores;
  if (rank == 2) return BRAID_OK;
  if (places > 1) BRAID_TRY(move_classes_last(graph, desc.rank, &scores));
  braid_value_id inputs[2] = {scores};
  BRAID_TRY(braid_graph_add_int64s(graph, (int64_t[]){desc.dims[0] * places, classes}, 2, &inputs[1]));
  *out = 0;
  return braid_graph_add_node(graph, "Reshape", NULL, inputs, 2, out, 1, NULL);
}

braid_status braid_scores(braid_graph *graph, const braid_dataset_info *info, bool before_activation,
                          braid_value_id *out, braid_score_kind *kind) {
  if (braid_graph_output_count(graph) < 1) return braid_fail(BRAID_INVALID_GRAPH, "the model has no output");
  return scores_of(graph, 0, info, 1, before_activation, out, kind);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status add_input(braid_graph *graph, const char *name, braid_dtype dtype, int rank, const int64_t *dims,
                              braid_value_id *out) {
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, rank, dims));
  return braid_graph_add_input(graph, braid_graph_find_value(graph, name) < 0 ? name : NULL, &desc, out);
}

static braid_status add_targets(braid_graph *graph, const char *name, const braid_dataset_info *info, int64_t batch,
                                braid_value_id *out) {
  bool classes = info->target == BRAID_TARGET_CLASS;
  return add_input(graph, name, classes ? BRAID_I32 : BRAID_F32, classes ? 1 : 2, (int64_t[]){batch, info->classes},
                   out);
}

/* Streams of random numbers below this are the loader's. */
enum { kFirstDropoutStream = 1 << 16, kMostHeads = 8 };

/* The number of a process's first element: that of the whole batch's, where the samples are the first dimension; else
 * one beyond all of lower ranks. */
static int64_t first_element(const braid_slice *slice, const braid_desc *desc) {
  int64_t count = braid_desc_count(desc);
  bool samples = desc->rank > 0 && desc->dims[0] % slice->count == 0;
  return samples ? count / slice->count * slice->first : (int64_t)slice->rank << 40;
}

/* Every Dropout learns which step it is in, draws from a stream of its own, and takes the run's seed unless the model
 * gives it one. */
static braid_status number_dropouts(braid_graph *graph, const braid_train_options *options, braid_value_id number) {
  braid_slice slice = braid_slice_of(options);
  for (size_t i = 0; i < graph->node_count; i++) {
    braid_node *node = &graph->nodes[i];
    if (strcmp(node->op->name, "Dropout") != 0 || node->input_count != 3) continue;
    braid_value_id *inputs = braid_graph_arena_alloc(graph, 4 * sizeof *inputs);
    if (!inputs) return BRAID_NO_MEMORY;
    memcpy(inputs, node->inputs, 3 * sizeof *inputs);
    inputs[3] = number;
    node->inputs = inputs;
    node->input_count = 4;
    if (!braid_attr_has(&node->attrs, "seed"))
      BRAID_TRY(braid_graph_set_int(graph, (braid_node_id)i, "seed", (int64_t)options->seed));
    BRAID_TRY(braid_graph_set_int(graph, (braid_node_id)i, "stream", kFirstDropoutStream + (int64_t)i));
    int64_t first = slice.rank ? first_element(&slice, &graph->values[node->inputs[0]].desc) : 0;
    if (first) BRAID_TRY(braid_graph_set_int(graph, (braid_node_id)i, "first", first));
  }
  return BRAID_OK;
}

static braid_status check_output(const braid_graph *graph) {
  if (!graph->output_count) return braid_fail(BRAID_INVALID_GRAPH, "the model has no output");
  const braid_value *output = &graph->values[graph->outputs[0]];
  if (braid_dtype_is_float(output->desc.dtype)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "output %.80s is %s; floating-point scores are expected", output->name,
                    braid_dtype_name(output->desc.dtype));
}

static braid_status make_trainable(braid_graph *graph, bool own_loss) {
  bool more = graph->auxiliary_share > 0 && !own_loss;
  if (graph->output_count > 1 && !more)
    graph->output_count = 1; /* what the loss does not depend on has no next value */
  return own_loss ? braid_graph_make_loss_trainable(graph) : braid_graph_make_trainable(graph);
}

/* The loss among the outputs is chosen in what the graph was before it was resolved, which is what trains. */
static braid_status select_loss(braid_graph *graph, const braid_train_options *options) {
  if (!options || options->loss != BRAID_OUTPUT_LOSS) return BRAID_OK;
  BRAID_TRY(braid_graph_unresolve(graph));
  return braid_own_loss_select(graph, options->loss_output);
}

braid_status braid_trainable_copy_for(const braid_graph *model, const braid_train_options *options, braid_graph **out) {
  BRAID_TRY(braid_graph_clone(model, out));
  braid_status status = select_loss(*out, options);
  if (status == BRAID_OK) status = make_trainable(*out, options && options->loss == BRAID_OUTPUT_LOSS);
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(*out);
  *out = NULL;
  return status;
}

braid_status braid_trainable_copy(const braid_graph *model, braid_graph **out) {
  return braid_trainable_copy_for(model, NULL, out);
}

/* The scalars that only some options need, after those that every step has. */
static braid_status add_more_inputs(braid_graph *graph, const braid_train_options *options, braid_update_inputs *in) {
  if (options->accumulate > 1) {
    BRAID_TRY(add_input(graph, "update", BRAID_I64, 0, NULL, &in->update));
    BRAID_TRY(add_input(graph, "kept", BRAID_F32, 0, NULL, &in->kept));
    BRAID_TRY(add_input(graph, "last", BRAID_F32, 0, NULL, &in->last));
  }
  return braid_keeps_parameters(options) ? add_input(graph, "average_weight", BRAID_F32, 0, NULL, &in->average)
                                         : BRAID_OK;
}

size_t braid_step_bind(const braid_train_options *options, const braid_step_numbers *numbers,
                       const void *inputs[BRAID_STEP_MOST_INPUTS]) {
  size_t count = 2;
  inputs[count++] = options->precision == BRAID_INT8 ? (const void *)&numbers->rate_exponent : &numbers->rate;
  inputs[count++] = &numbers->batch;
  if (options->accumulate > 1) {
    inputs[count++] = &numbers->update;
    inputs[count++] = &numbers->kept;
    inputs[count++] = &numbers->last;
  }
  if (braid_keeps_parameters(options)) inputs[count++] = &numbers->average;
  if (options->mixup > 0) {
    inputs[count++] = numbers->mixed_targets;
    inputs[count++] = &numbers->mix;
  }
  return count;
}

/* share * loss of the first targets + (1 - share) * loss of the others. */
static braid_status mix_losses(braid_graph *graph, const braid_dataset_info *info, const braid_train_options *options,
                               const braid_loss_inputs *in, braid_value_id *loss) {
  braid_value_id targets, mix, other, by = 0;
  if (options->mixup <= 0) return BRAID_OK;
  BRAID_TRY(add_targets(graph, "mixed_labels", info, braid_slice_of(options).count, &targets));
  BRAID_TRY(add_input(graph, "mix", BRAID_F32, 0, NULL, &mix));
  BRAID_TRY(braid_loss_add(graph, options, info->target, in, targets, &other));
  BRAID_TRY(braid_graph_add_node(graph, "Sub", NULL, (braid_value_id[]){*loss, other}, 2, &by, 1, NULL));
  BRAID_TRY(braid_graph_add_node(graph, "Mul", NULL, (braid_value_id[]){by, mix}, 2, &by, 1, NULL));
  *loss = 0;
  return braid_graph_add_node(graph, "Add", NULL, (braid_value_id[]){other, by}, 2, loss, 1, NULL);
}

static braid_status add_scalars(braid_graph *graph, const braid_train_options *options, braid_update_inputs *in) {
  BRAID_TRY(add_input(graph, "learning_rate", BRAID_F32, 0, NULL, &in->rate));
  BRAID_TRY(add_input(graph, "step", BRAID_I64, 0, NULL, &in->update));
  braid_value_id number = in->update;
  BRAID_TRY(add_more_inputs(graph, options, in));
  return number_dropouts(graph, options, number);
}

/* Adds the losses of auxiliary classifiers, of the same targets. */
static braid_status add_auxiliary(braid_graph *graph, const braid_dataset_info *info,
                                  const braid_train_options *options, const braid_value_id *scores, size_t count,
                                  braid_value_id targets, braid_value_id *loss) {
  braid_value_id share, sum = *loss;
  if (!count) return BRAID_OK;
  BRAID_TRY(braid_graph_add_scalar(graph, BRAID_F32, graph->auxiliary_share, &share));
  for (size_t i = 0; i < count; i++) {
    braid_loss_inputs losses;
    braid_value_id other, part = 0, before = sum;
    BRAID_TRY(braid_loss_prepare(graph, options, scores[i], &losses));
    BRAID_TRY(braid_loss_add(graph, options, info->target, &losses, targets, &other));
    BRAID_TRY(braid_graph_add_node(graph, "Mul", NULL, (braid_value_id[]){other, share}, 2, &part, 1, NULL));
    sum = 0;
    BRAID_TRY(braid_graph_add_node(graph, "Add", NULL, (braid_value_id[]){before, part}, 2, &sum, 1, NULL));
  }
  *loss = sum;
  return BRAID_OK;
}

/* Of a bound graph: the loss of its scores and the data set's targets. */
static braid_status build_loss(braid_graph *graph, const braid_dataset_info *info, int64_t places,
                               const braid_train_options *options, braid_update_inputs *in) {
  BRAID_TRY(make_trainable(graph, false));
  BRAID_TRY(braid_resolve_for_good(graph));
  BRAID_TRY(check_output(graph));
  braid_value_id scores[kMostHeads], targets;
  braid_loss_inputs losses;
  braid_score_kind kind;
  size_t heads = graph->output_count;
  bool entropy = options->loss == BRAID_CROSS_ENTROPY || options->loss == BRAID_BINARY_CROSS_ENTROPY;
  if (heads > kMostHeads || (heads > 1 && places > 1))
    return braid_fail(BRAID_UNSUPPORTED, "%zu auxiliary classifiers, at most %d of whole samples train", heads - 1,
                      kMostHeads - 1);
  for (size_t i = 0; i < heads; i++) BRAID_TRY(scores_of(graph, i, info, places, entropy, &scores[i], &kind));
  graph->output_count = 0; /* the training step gives the loss and the scores instead */
  BRAID_TRY(add_targets(graph, "labels", info, braid_slice_of(options).count * places, &targets));
  BRAID_TRY(add_scalars(graph, options, in));
  BRAID_TRY(braid_loss_prepare(graph, options, scores[0], &losses));
  BRAID_TRY(braid_loss_add(graph, options, info->target, &losses, targets, &in->loss));
  BRAID_TRY(mix_losses(graph, info, options, &losses, &in->loss));
  BRAID_TRY(add_auxiliary(graph, info, options, scores + 1, heads - 1, targets, &in->loss));
  BRAID_TRY(braid_graph_add_output(graph, in->loss));
  return braid_graph_add_output(graph, scores[0]);
}

/* Of a bound graph: the loss that it computes itself. */
static braid_status take_own_loss(braid_graph *graph, const braid_train_options *options, braid_update_inputs *in) {
  BRAID_TRY(braid_own_loss_select(graph, options->loss_output));
  BRAID_TRY(make_trainable(graph, true));
  BRAID_TRY(braid_resolve_for_good(graph));
  BRAID_TRY(add_scalars(graph, options, in));
  BRAID_TRY(braid_own_loss_take(graph, &in->loss));
  return braid_graph_add_output(graph, in->loss);
}

static braid_status step_build(braid_graph *graph, const braid_dataset_info *info, int64_t places,
                               const braid_train_options *options) {
  BRAID_TRY(braid_loss_check(options, info));
  if (options->precision != BRAID_FLOAT32) BRAID_TRY(braid_graph_set_precision(graph, options->precision));
  braid_update_inputs in = {.kept = -1, .last = -1, .average = -1};
  int64_t batch = braid_slice_of(options).count;
  if (options->loss == BRAID_OUTPUT_LOSS) {
    BRAID_TRY(braid_own_loss_bind(graph, info, batch));
    BRAID_TRY(take_own_loss(graph, options, &in));
  } else {
    BRAID_TRY(braid_bind_input(graph, info, batch));
    BRAID_TRY(build_loss(graph, info, places, options, &in));
  }
  return braid_add_update(graph, options, &in);
}

braid_status braid_step_graph_of_places(const braid_graph *model, const braid_dataset_info *info, int64_t places,
                                        const braid_train_options *options, braid_graph **out) {
  *out = NULL;
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  braid_status status = step_build(graph, info, places, options);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}

braid_status braid_step_graph(const braid_graph *model, const braid_dataset_info *info,
                              const braid_train_options *options, braid_graph **out) {
  return braid_step_graph_of_places(model, info, 1, options, out);
}
