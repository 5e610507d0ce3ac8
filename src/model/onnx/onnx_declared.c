/* Shapes that a file declares of what nodes give. Nothing is computed from them; one that contradicts what is computed
 * is a sign of a file that was edited or made wrong, and is told. */
#include "base/text.h"
#include "base/try.h"
#include "model/onnx/onnx_import.h"

enum { kMostTold = 8 };

/* The rank differs, or a dimension that both know. */
static bool contradicts(const Onnx__TensorShapeProto *shape, const braid_desc *desc) {
  if (shape->n_dim != (size_t)desc->rank) return true;
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    bool fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0;
    if (fixed && desc->dims[i] >= 0 && dim->dim_value != desc->dims[i]) return true;
  }
  return false;
}

static void add_shape(braid_text *text, const Onnx__TensorShapeProto *shape) {
  braid_text_add(text, "[");
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    bool fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (i) braid_text_add(text, ",");
    if (fixed)
      braid_text_printf(text, "%lld", (long long)dim->dim_value);
    else
      braid_text_printf(text, "%.40s", dim->dim_param && *dim->dim_param ? dim->dim_param : "?");
  }
  braid_text_add(text, "]");
}

static braid_status tell_shape(const braid_onnx_importer *importer, const char *what, const Onnx__ValueInfoProto *info,
                               const braid_desc *desc) {
  char computed[128];
  braid_text text;
  braid_text_init(&text, importer->allocator);
  add_shape(&text, info->type->tensor_type->shape);
  bool failed = text.failed;
  if (!failed)
    braid_log_write(importer->source->log, BRAID_LOG_WARNING,
                    "%s: %s \"%.200s\" is declared as %.400s, its node gives %s", importer->source->path, what,
                    info->name, text.data, braid_desc_format(desc, computed, sizeof computed));
  braid_text_deinit(&text);
  return failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* What the nodes give, at two sizes of the batch that the file leaves open, or twice the same graph. */
typedef struct inferences {
  const braid_graph *graphs[2];
} inferences;

/* False: it is not known, or of another rank at another size. Dimensions that change with the batch are open. */
static bool find_computed(const inferences *all, const char *name, braid_desc *out) {
  for (int i = 0; i < 2; i++) {
    braid_value_id id = braid_graph_find_value(all->graphs[i], name);
    if (id < 0) return false;
    const braid_desc *desc = &all->graphs[i]->values[id].desc;
    if (desc->dtype == BRAID_NONE || desc->rank < 0 || (i > 0 && desc->rank != out->rank)) return false;
    if (i == 0) *out = *desc;
    for (int d = 0; d < desc->rank; d++)
      if (desc->dims[d] != out->dims[d]) out->dims[d] = -1;
  }
  return true;
}

/* `told`: names of values that were. */
static braid_status check_declared(const braid_onnx_importer *importer, const inferences *all, const char *what,
                                   const Onnx__ValueInfoProto *info, braid_name_map *told, size_t *count) {
  const Onnx__TypeProto *type = info->type;
  if (!info->name || !type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type->shape)
    return BRAID_OK;
  braid_desc computed;
  int64_t taken;
  if (!find_computed(all, info->name, &computed) || !contradicts(type->tensor_type->shape, &computed)) return BRAID_OK;
  if (braid_name_map_get(told, info->name, &taken)) return BRAID_OK;
  BRAID_TRY(braid_name_map_set(told, info->name, 1));
  return (*count)++ < kMostTold ? tell_shape(importer, what, info, &computed) : BRAID_OK;
}

static braid_status check_all(const braid_onnx_importer *importer, const inferences *all) {
  const Onnx__GraphProto *proto = importer->model->graph;
  braid_name_map *told;
  size_t count = 0;
  BRAID_TRY(braid_name_map_create(importer->allocator, &told));
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < proto->n_output; i++)
    status = check_declared(importer, all, "output", proto->output[i], told, &count);
  for (size_t i = 0; status == BRAID_OK && i < proto->n_value_info; i++)
    status = check_declared(importer, all, "value", proto->value_info[i], told, &count);
  if (status == BRAID_OK && count > kMostTold)
    braid_log_write(importer->source->log, BRAID_LOG_WARNING,
                    "%s: %zu more values are declared with other shapes than their nodes give", importer->source->path,
                    count - kMostTold);
  braid_name_map_destroy(told);
  return status;
}

/* What is known without computing any value, with `size` for the first dimensions that the file leaves open. */
static braid_status infer_at(const braid_onnx_importer *importer, int64_t size, braid_graph **out, bool *is_open) {
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(importer->graph, &graph));
  *is_open = false;
  for (size_t i = 0; i < graph->input_count; i++) {
    braid_desc *desc = &graph->values[graph->inputs[i]].desc;
    if (desc->rank <= 0 || desc->dims[0] >= 0) continue;
    desc->dims[0] = size;
    *is_open = true;
  }
  /* Where it ends early, for a shape that is computed or a fault that the run will tell, the rest is not known. */
  if (braid_graph_infer(graph, NULL) == BRAID_NO_MEMORY) {
    braid_graph_destroy(graph);
    return BRAID_NO_MEMORY;
  }
  *out = graph;
  return BRAID_OK;
}

/* A batch of one alone would say too much: Squeeze takes its dimension away, and a Slice is cut short. The other size
 * is one that no constant of a network has, and longer than what is usually cut off. */
braid_status braid_onnx_check_declared(const braid_onnx_importer *importer) {
  enum { kOtherSize = 8191 };
  braid_graph *single, *many = NULL;
  bool is_open;
  if (!importer->source->log) return BRAID_OK;
  BRAID_TRY(infer_at(importer, 1, &single, &is_open));
  braid_status status = is_open ? infer_at(importer, kOtherSize, &many, &is_open) : BRAID_OK;
  if (status == BRAID_OK) status = check_all(importer, &(inferences){{single, many ? many : single}});
  braid_graph_destroy(many);
  braid_graph_destroy(single);
  return status;
}
