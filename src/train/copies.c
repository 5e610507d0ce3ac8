#include "train/copies.h"

#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "tensor/half.h"
#include "train/update.h"

/* --- copies --------------------------------------------------------------------------------------------------------
 */
static void round_all(braid_dtype dtype, const float *from, int64_t count, uint16_t *to) {
  if (dtype == BRAID_F16)
    for (int64_t i = 0; i < count; i++) to[i] = braid_f32_to_f16(from[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = braid_f32_to_bf16(from[i]);
}

static braid_status copy_make(braid_graph *graph, braid_value_id parameter, braid_dtype dtype, braid_value_id *out) {
  const char *name = braid_update_state_name(graph, graph->values[parameter].name, braid_dtype_name(dtype));
  if (!name) return BRAID_NO_MEMORY;
  braid_desc desc = graph->values[parameter].desc;
  desc.dtype = dtype;
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  round_all(dtype, braid_tensor_const_data(graph->values[parameter].tensor), braid_desc_count(&desc),
            braid_tensor_data(tensor));
  braid_status status = braid_graph_add_tensor(graph, name, BRAID_VALUE_STATE, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static bool casts_parameter(const braid_graph *graph, const braid_node *node) {
  if (strcmp(node->op->name, "Cast") != 0) return false;
  const braid_value *from = &graph->values[node->inputs[0]], *to = &graph->values[node->outputs[0]];
  return from->kind == BRAID_VALUE_PARAMETER && from->desc.dtype == BRAID_F32 && braid_dtype_is_half(to->desc.dtype);
}

static size_t find_parameter(const braid_value_id *parameters, size_t count, braid_value_id parameter) {
  size_t i = 0;
  while (i < count && parameters[i] != parameter) i++;
  return i;
}

/* The first copy of a parameter is the one that its update follows: a model that casts to both types, or twice, keeps
 * its other casts. */
braid_status braid_copies_make(braid_graph *graph, const braid_value_id *parameters, size_t count,
                               braid_value_id *copies) {
  for (size_t i = 0; i < count; i++) copies[i] = -1;
  for (size_t n = 0; n < graph->node_count; n++) {
    const braid_node *node = &graph->nodes[n];
    if (!casts_parameter(graph, node)) continue;
    braid_value_id rounded = node->outputs[0];
    size_t i = find_parameter(parameters, count, node->inputs[0]);
    if (i == count || copies[i] >= 0) continue;
    BRAID_TRY(copy_make(graph, parameters[i], graph->values[rounded].desc.dtype, &copies[i]));
    braid_graph_replace_uses(graph, rounded, copies[i]);
  }
  return BRAID_OK;
}

/* --- the scale of the loss -----------------------------------------------------------------------------------------
 * As PyTorch's GradScaler begins, and changes it. */
static const float kFirstScale = 65536;
enum { kInterval = 2000 };

static braid_status scalar_state(braid_graph *graph, const char *stem, braid_dtype dtype, double value,
                                 braid_value_id *out) {
  const char *name = stem;
  for (int number = 2; name && braid_graph_find_value(graph, name) >= 0; number++)
    name = braid_arena_format(graph->arena, "%s~%d", stem, number);
  if (!name) return BRAID_NO_MEMORY;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, dtype, 0, NULL));
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &tensor));
  braid_tensor_set_f64(tensor, 0, value);
  braid_status status = braid_graph_add_tensor(graph, name, BRAID_VALUE_STATE, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_loss_scale_make(braid_graph *graph, braid_value_id *scale) {
  return scalar_state(graph, BRAID_LOSS_SCALE, BRAID_F32, kFirstScale, scale);
}

braid_status braid_loss_scale_update(braid_graph *graph, braid_value_id scale, braid_value_id guard,
                                     braid_value_id last) {
  braid_value_id steps, outputs[2] = {0, 0};
  braid_node_id node;
  BRAID_TRY(scalar_state(graph, BRAID_LOSS_SCALE_STEPS, BRAID_I64, 0, &steps));
  BRAID_TRY(braid_graph_add_node(graph, "LossScaleUpdate", NULL, (braid_value_id[]){scale, steps, guard, last},
                                 last < 0 ? 3 : 4, outputs, 2, &node));
  graph->nodes[node].backward = true;
  BRAID_TRY(braid_graph_set_int(graph, node, "interval", kInterval));
  BRAID_TRY(braid_graph_update_state(graph, scale, outputs[0]));
  return braid_graph_update_state(graph, steps, outputs[1]);
}
