/* Networks from their descriptions, with drawn int8 weights. */
#include <string.h>

#include "base/try.h"
#include "braid/model.h"
#include "braid/overlay_evaluation.h"
#include "graph/graph.h"
#include "overlay/design.h"
#include "overlay/evaluate/evaluate.h"

/* Of the float graph's values: where the stand-in has them as real numbers, and quantized and dequantized. */
typedef struct stand_in {
  const braid_graph *from;
  braid_graph *to;
  braid_value_id *real, *dequantized;
  bool *wanted; /* nodes that the output depends on */
  uint64_t state;
} stand_in;

enum { kMapExponent = -4, kWeightExponent = -7 };

static braid_status load_text(const braid_allocator *allocator, size_t network, braid_graph **out) {
  static const char *const kFiles[BRAID_OVERLAY_CNNS] = {"vgg16", "resnet50", "inception-v3", "mobilenet"};
  for (size_t i = 0; i < braid_overlay_network_file_count; i++) {
    const braid_overlay_file *file = &braid_overlay_network_files[i];
    if (strcmp(file->name, kFiles[network]) != 0) continue;
    braid_model_memory memory = {
        .data = file->text, .bytes = file->bytes, .format = BRAID_MODEL_DARKNET, .name = file->name};
    return braid_model_parse(allocator, &memory, out);
  }
  return braid_fail(BRAID_INTERNAL, "the library lacks %s", kFiles[network]);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static braid_status add_step(stand_in *s, const char *op, braid_value_id x, double scale, braid_value_id *out) {
  braid_value_id inputs[3] = {x, -1, -1};
  BRAID_TRY(braid_graph_add_scalar(s->to, BRAID_F32, scale, &inputs[1]));
  BRAID_TRY(braid_graph_add_scalar(s->to, BRAID_I8, 0, &inputs[2]));
  *out = 0;
  braid_node_id id;
  return braid_graph_add_node(s->to, op, NULL, inputs, 3, out, 1, &id);
}

/* The value as a node that is computed on bytes wants it. */
static braid_status get_map(stand_in *s, braid_value_id value, braid_value_id *out) {
  const double scale = 1.0 / (1 << -kMapExponent);
  braid_value_id bytes;
  if (s->dequantized[value] < 0) {
    BRAID_TRY(add_step(s, "QuantizeLinear", s->real[value], scale, &bytes));
    BRAID_TRY(add_step(s, "DequantizeLinear", bytes, scale, &s->dequantized[value]));
  }
  *out = s->dequantized[value];
  return BRAID_OK;
}

static braid_status add_weights(stand_in *s, braid_value_id value, braid_value_id *out) {
  braid_value_info info = braid_graph_value(s->from, value);
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id constant;
  BRAID_TRY(braid_desc_init(&desc, BRAID_I8, info.desc.rank, info.desc.dims));
  BRAID_TRY(braid_tensor_create(s->to->allocator, &desc, &tensor));
  uint8_t *bytes = braid_tensor_data(tensor);
  for (size_t i = 0; i < braid_desc_bytes(&desc); i++) {
    s->state = s->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    bytes[i] = (uint8_t)(s->state >> 56);
  }
  braid_status status = braid_graph_add_tensor(s->to, NULL, BRAID_VALUE_CONSTANT, tensor, &constant);
  braid_tensor_release(tensor);
  BRAID_TRY(status);
  return add_step(s, "DequantizeLinear", constant, 1.0 / (1 << -kWeightExponent), out);
}

/* The same node over maps, with drawn weights and without biases, which change no time. */
static braid_status copy_node(stand_in *s, const braid_node_info *node, bool weighted) {
  enum { kMostInputs = 16 };
  braid_value_id inputs[kMostInputs], out = 0;
  braid_node_id id;
  size_t count = weighted ? 2 : node->input_count;
  if (count > kMostInputs) return braid_fail(BRAID_INTERNAL, "%s has %zu inputs", node->name, node->input_count);
  for (size_t i = 0; i < count; i++)
    BRAID_TRY(weighted && i ? add_weights(s, node->inputs[i], &inputs[i]) : get_map(s, node->inputs[i], &inputs[i]));
  BRAID_TRY(braid_graph_add_node(s->to, node->op, node->name, inputs, count, &out, 1, &id));
  for (size_t a = 0; a < node->attrs->count; a++) BRAID_TRY(braid_attrs_copy(s->to, id, &node->attrs->items[a]));
  s->real[node->outputs[0]] = out;
  return BRAID_OK;
}

static bool is_one_of(const char *op, const char *const *ops) {
  for (; *ops; ops++)
    if (strcmp(op, *ops) == 0) return true;
  return false;
}

static braid_status add_node(stand_in *s, braid_node_id index) {
  static const char *const weighted[] = {"Conv", "Gemm", NULL};
  static const char *const folded[] = {"BatchNormalization", "Dropout", "Softmax", NULL};
  static const char *const copied[] = {"MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Add", NULL};
  braid_node_info node = braid_graph_node(s->from, index);
  braid_value_id x = node.inputs[0], y = node.outputs[0], out = 0;
  braid_node_id id;
  if (is_one_of(node.op, weighted)) return copy_node(s, &node, true);
  if (is_one_of(node.op, copied)) return copy_node(s, &node, false);
  if (is_one_of(node.op, folded)) {
    s->real[y] = s->real[x];
    s->dequantized[y] = s->dequantized[x];
    return BRAID_OK;
  }
  if (strcmp(node.op, "Relu") == 0) {
    BRAID_TRY(braid_graph_add_node(s->to, "Relu", node.name, &s->real[x], 1, &out, 1, &id));
    s->real[y] = out;
    return BRAID_OK;
  }
  if (strcmp(node.op, "Flatten") == 0) {
    BRAID_TRY(get_map(s, x, &x));
    BRAID_TRY(braid_graph_add_node(s->to, "Flatten", node.name, &x, 1, &out, 1, &id));
    s->real[y] = s->dequantized[y] = out;
    return BRAID_OK;
  }
  return braid_fail(BRAID_INTERNAL, "the stand-in knows no %s", node.op);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static void want(stand_in *s, braid_value_id value) {
  braid_node_id producer = braid_graph_value(s->from, value).producer;
  if (producer < 0) return;
  s->wanted[producer] = true;
  for (braid_node_id n = producer; n >= 0; n--) {
    braid_node_info node = braid_graph_node(s->from, n);
    for (size_t i = 0; s->wanted[n] && i < node.input_count; i++) {
      braid_node_id before = node.inputs[i] < 0 ? -1 : braid_graph_value(s->from, node.inputs[i]).producer;
      if (before >= 0) s->wanted[before] = true;
    }
  }
}

static braid_status convert(stand_in *s, int64_t side) {
  braid_desc desc;
  const int64_t dims[] = {1, 3, side, side};
  braid_value_id last;
  for (size_t v = 0; v < braid_graph_value_count(s->from); v++) s->real[v] = s->dequantized[v] = -1;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 4, dims));
  BRAID_TRY(braid_graph_add_input(s->to, "image", &desc, &s->real[braid_graph_input(s->from, 0)]));
  want(s, braid_graph_output(s->from, 0));
  for (size_t n = 0; n < braid_graph_node_count(s->from); n++)
    if (s->wanted[n]) BRAID_TRY(add_node(s, (braid_node_id)n));
  BRAID_TRY(get_map(s, braid_graph_output(s->from, 0), &last));
  return braid_graph_add_output(s->to, last);
}

static braid_status stand_in_for(const braid_graph *from, int64_t side, braid_graph *to) {
  size_t values = braid_graph_value_count(from), nodes = braid_graph_node_count(from);
  stand_in s = {.from = from, .to = to, .state = 1};
  s.real = braid_zalloc_array(to->allocator, values + 1, sizeof *s.real);
  s.dequantized = braid_zalloc_array(to->allocator, values + 1, sizeof *s.dequantized);
  s.wanted = braid_zalloc_array(to->allocator, nodes + 1, sizeof *s.wanted);
  braid_status status = s.real && s.dequantized && s.wanted ? convert(&s, side) : BRAID_NO_MEMORY;
  braid_free(to->allocator, s.real);
  braid_free(to->allocator, s.dequantized);
  braid_free(to->allocator, s.wanted);
  return status;
}

braid_status braid_overlay_stand_in(const braid_allocator *allocator, size_t network, int64_t side, braid_graph **out) {
  braid_graph *from = NULL, *to = NULL;
  *out = NULL;
  if (network >= BRAID_OVERLAY_CNNS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "there are %d convolutional networks", BRAID_OVERLAY_CNNS);
  BRAID_TRY(load_text(allocator, network, &from));
  braid_status status = braid_graph_create(allocator, braid_overlay_published_networks()[network].name, &to);
  if (status == BRAID_OK) status = stand_in_for(from, side, to);
  braid_graph_destroy(from);
  if (status == BRAID_OK)
    *out = to;
  else
    braid_graph_destroy(to);
  return status;
}
