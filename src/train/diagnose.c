#include "train/diagnose.h"

#include <math.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"
#include "tensor/layout.h"
#include "train/checkpoint/state_copy.h"
#include "train/data/dataset.h"

static int64_t first_not_finite(const float *data, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(data[i])) return i;
  return -1;
}

/* Faster than to look for the first: compilers make vectors of it. */
bool braid_all_finite(const float *data, int64_t count) {
  enum { kExponent = 0x7f800000 };
  uint32_t other = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &data[i], sizeof bits);
    other |= (bits & kExponent) == kExponent;
  }
  return !other;
}

static braid_status not_finite(const braid_trainer *trainer, const char *what, const char *name, const char *op) {
  return braid_fail(BRAID_NOT_FINITE, "epoch %lld, step %lld: %s %.120s%s%s%s holds a number that is not finite; %s",
                    (long long)trainer->epoch + 1, (long long)trainer->epoch_step + 1, what, name, op ? " (" : "",
                    op ? op : "", op ? ")" : "",
                    trainer->options.precision == BRAID_FLOAT16
                        ? "fp16 ends at 65504, --precision bf16 has the range of float32"
                        : "a lower learning rate often helps");
}

/* The same of a value of float32 or a 16-bit type. */
static int64_t first_not_finite_of(const braid_desc *desc, const void *data) {
  int64_t count = braid_desc_count(desc);
  if (desc->dtype == BRAID_F32) return first_not_finite(data, count);
  uint16_t exponent = desc->dtype == BRAID_F16 ? 0x7c00 : 0x7f80;
  for (int64_t i = 0; i < count; i++)
    if ((((const uint16_t *)data)[i] & exponent) == exponent) return i;
  return -1;
}

static bool is_looked_at(const braid_value *value) {
  return value->desc.dtype == BRAID_F32 || value->desc.dtype == BRAID_F16 || value->desc.dtype == BRAID_BF16;
}

/* The forward nodes alone, with every float32 and 16-bit result as an output. */
static braid_status forward_with_all_outputs(const braid_graph *step, braid_graph **out) {
  *out = NULL;
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(step, &graph));
  for (size_t i = 0; i < graph->value_count; i++) graph->values[i].next = -1;
  graph->output_count = 0;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (node->backward) continue;
    for (size_t j = 0; status == BRAID_OK && j < node->output_count; j++)
      if (node->outputs[j] >= 0 && is_looked_at(&graph->values[node->outputs[j]]))
        status = braid_graph_add_output(graph, node->outputs[j]);
  }
  if (status == BRAID_OK) status = braid_graph_compact(graph);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}

/* The trainer's copy of a parameter or state, the caller's to release. NOT_FINITE if it holds such a number. */
static braid_status read_finite(braid_trainer *trainer, const braid_value *value, braid_tensor **out) {
  *out = NULL;
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(trainer->allocator, &value->desc, &tensor));
  braid_status status = braid_session_read(trainer->session, value->name, tensor);
  if (status == BRAID_OK && value->desc.dtype == BRAID_F32 &&
      !braid_all_finite(braid_tensor_const_data(tensor), braid_desc_count(&value->desc)))
    status = not_finite(trainer, "parameter", value->name, NULL);
  if (status == BRAID_OK)
    *out = tensor;
  else
    braid_tensor_release(tensor);
  return status;
}

static bool is_trained(const braid_value *value) {
  return value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
}

/* Steps in a row that changed nothing, since gradients overflowed at every scale of the loss. */
enum { kMostSkipped = 100 };

static braid_status check_scale(braid_trainer *trainer) {
  const braid_graph *step = trainer->step;
  for (size_t i = 0; i < step->node_count; i++) {
    if (strcmp(step->nodes[i].op->name, "LossScaleUpdate") != 0) continue;
    braid_tensor *steps;
    BRAID_TRY(read_finite(trainer, &step->values[step->nodes[i].inputs[1]], &steps));
    int64_t count = braid_tensor_get_i64(steps, 0);
    braid_tensor_release(steps);
    if (count <= -kMostSkipped)
      return braid_fail(BRAID_NOT_FINITE,
                        "epoch %lld, step %lld: gradients were not finite in fp16 for %llu steps in a row, whatever "
                        "the scale of the loss; --precision bf16 has the range of float32",
                        (long long)trainer->epoch + 1, (long long)trainer->epoch_step, -(unsigned long long)count);
  }
  return BRAID_OK;
}

braid_status braid_trainer_check_finite(braid_trainer *trainer) {
  BRAID_TRY(check_scale(trainer));
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    braid_tensor *tensor;
    if (!is_trained(&trainer->step->values[i]) || trainer->step->values[i].desc.dtype != BRAID_F32) continue;
    BRAID_TRY(read_finite(trainer, &trainer->step->values[i], &tensor));
    braid_tensor_release(tensor);
  }
  return BRAID_OK;
}

/* What lies between the elements of a padded layout counts as nothing. */
static braid_status check_item(void *context, const braid_state_item *item, const void *bytes) {
  const braid_trainer *trainer = context;
  if (item->desc.dtype != BRAID_F32) return BRAID_OK;
  braid_tensor *tensor = NULL;
  if (braid_desc_is_padded(&item->desc)) {
    BRAID_TRY(braid_tensor_create(trainer->allocator, &item->value->desc, &tensor));
    braid_layout_unpack(&item->desc, bytes, braid_tensor_data(tensor));
    bytes = braid_tensor_const_data(tensor);
  }
  bool finite = braid_all_finite(bytes, braid_desc_count(&item->value->desc));
  braid_tensor_release(tensor);
  return finite ? BRAID_OK : not_finite(trainer, "parameter", item->value->name, NULL);
}

braid_status braid_trainer_look(braid_trainer *trainer) {
  braid_status taken = braid_state_copy_take(trainer);
  if (taken == BRAID_NO_MEMORY)
    braid_clear_detail();
  else
    BRAID_TRY(taken);
  BRAID_TRY(check_scale(trainer));
  return braid_state_copy_visit(trainer, check_item, trainer);
}

static braid_status copy_state(braid_trainer *trainer, const braid_graph *graph, braid_session *session) {
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    braid_tensor *tensor;
    if (!is_trained(value)) continue;
    BRAID_TRY(read_finite(trainer, value, &tensor));
    braid_status status = braid_session_write(session, value->name, tensor);
    braid_tensor_release(tensor);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status look(braid_trainer *trainer, const braid_graph *graph, const braid_batch *batch,
                         braid_session *session, void **outputs) {
  BRAID_TRY(copy_state(trainer, graph, session));
  const braid_step_numbers numbers = {
      .batch = 1, .update = 1, .mixed_targets = batch->mixed_targets, .mix = batch->mix};
  const void *inputs[BRAID_STEP_MOST_INPUTS] = {batch->images, batch->targets};
  braid_step_bind(&trainer->options, &numbers, inputs);
  BRAID_TRY(braid_session_run(session, inputs, outputs));
  for (size_t i = 0; i < graph->output_count; i++) {
    const braid_value *value = &graph->values[graph->outputs[i]];
    if (first_not_finite_of(&value->desc, outputs[i]) < 0) continue;
    const braid_node *node = value->producer >= 0 ? &graph->nodes[value->producer] : NULL;
    return not_finite(trainer, "layer", node ? node->name : value->name, node ? node->op->name : NULL);
  }
  return BRAID_OK;
}

static braid_status step_run(braid_trainer *trainer, const braid_graph *graph, const braid_batch *batch) {
  braid_session_options options = braid_trainer_place(trainer);
  options.training = options.no_fusion = true;
  braid_session *session = NULL;
  void **outputs = braid_zalloc_array(trainer->allocator, graph->output_count, sizeof *outputs);
  braid_status status = outputs ? braid_session_create(graph, &options, &session) : BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < graph->output_count; i++) {
    outputs[i] = braid_alloc(trainer->allocator, braid_desc_bytes(&graph->values[graph->outputs[i]].desc));
    if (!outputs[i]) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = look(trainer, graph, batch, session, outputs);
  for (size_t i = 0; outputs && i < graph->output_count; i++) braid_free(trainer->allocator, outputs[i]);
  braid_free(trainer->allocator, outputs);
  braid_session_destroy(session);
  return status;
}

/* With mixup a sample and its partner both show what one of them holds. */
static braid_status find_sample(const braid_trainer *trainer, const braid_batch *batch, int64_t at, int64_t *index) {
  *index = batch->indices[at];
  if (!batch->mixed_targets) return BRAID_OK;
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  int64_t count = (int64_t)info.channels * info.height * info.width;
  float *pixels = braid_zalloc_array(trainer->allocator, (size_t)count, sizeof *pixels);
  void *target = braid_alloc(trainer->allocator, braid_dataset_target_bytes(trainer->train));
  braid_status status = pixels && target ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_dataset_sample(trainer->train, *index, pixels, target);
  if (status == BRAID_OK && first_not_finite(pixels, count) < 0)
    *index = batch->indices[trainer->slice.group ? trainer->slice.count + at : trainer->options.batch - 1 - at];
  braid_free(trainer->allocator, pixels);
  braid_free(trainer->allocator, target);
  return status;
}

/* Cross entropy's mean is over the weights of the batch's classes. */
static bool weighs_nothing(const braid_train_options *o, const braid_batch *batch, int64_t count) {
  if (o->loss != BRAID_CROSS_ENTROPY || !o->class_weights) return false;
  const int32_t *labels = batch->targets;
  for (int64_t i = 0; i < count; i++)
    if (o->class_weights[labels[i]] > 0) return false;
  return true;
}

braid_status braid_trainer_diagnose(braid_trainer *trainer, const braid_batch *batch) {
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  int64_t per_sample = (int64_t)info.channels * info.height * info.width, sample;
  int64_t at = first_not_finite(batch->images, trainer->slice.count * per_sample);
  long long epoch = trainer->epoch + 1, step = trainer->epoch_step + 1;
  if (at >= 0) {
    BRAID_TRY(find_sample(trainer, batch, at / per_sample, &sample));
    return braid_fail(BRAID_NOT_FINITE,
                      "epoch %lld, step %lld: sample %lld of the data set holds a number that is not finite", epoch,
                      step, (long long)sample);
  }
  if (weighs_nothing(&trainer->options, batch, trainer->slice.count))
    return braid_fail(BRAID_NOT_FINITE,
                      "epoch %lld, step %lld: the loss is 0 / 0, since all samples of the batch are of classes whose "
                      "class weight is 0; a larger batch or weights above 0 help",
                      epoch, step);
  braid_graph *graph;
  BRAID_TRY(forward_with_all_outputs(trainer->step, &graph));
  braid_status status = step_run(trainer, graph, batch);
  braid_graph_destroy(graph);
  return status;
}

braid_status braid_trainer_blame_loss(const braid_trainer *trainer) {
  return not_finite(trainer, "loss", "", NULL);
}
