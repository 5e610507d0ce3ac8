/* From a forward graph as imported to one that can be trained.
 *
 * Which constants are parameters: ONNX does not say. Where the exporter does (PyTorch's newer one notes of each
 * initializer whether it was a parameter or a buffer, and our own what trained), that counts. Elsewhere a
 * floating-point initializer is a parameter if the loss can have a gradient by it, unless it looks like something else:
 * a mask, a single number that the exporter computed, the normalization of the input, a table of numbers by which
 * features are multiplied, or, where the graph computes its loss, a number of the loss. Each reason has a sentence,
 * kept with the value and shown to the user. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/trainable.h"

/* --- what a constant looks like ------------------------------------------------------------------------------------
 */
static bool has_prefix(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_number(const char *text) {
  return *text && text[strspn(text, "0123456789")] == '\0';
}

bool braid_name_is_made_up(const char *name) {
  static const char *const kPrefixes[] = {"onnx::", "/", "const_fold_opt"};
  static const char *const kNumbered[] = {"", "v_", "val_"};
  for (size_t i = 0; i < sizeof kPrefixes / sizeof *kPrefixes; i++)
    if (has_prefix(name, kPrefixes[i])) return true;
  for (size_t i = 0; i < sizeof kNumbered / sizeof *kNumbered; i++)
    if (has_prefix(name, kNumbered[i]) && is_number(name + strlen(kNumbered[i]))) return true;
  return false;
}

bool braid_tensor_is_uniform(const braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  size_t bytes = braid_desc_bytes(desc), one = braid_dtype_size(desc->dtype);
  const uint8_t *data = braid_tensor_const_data(tensor);
  return bytes <= one || memcmp(data, data + one, bytes - one) == 0;
}

/* Numbers that hide what they are added to, or zeros and ones that choose. Too slow for every weight. */
static bool holds_mask(const braid_tensor *tensor) {
  enum { HIDES = -10000 };
  int64_t count = braid_desc_count(braid_tensor_desc(tensor)), zeros = 0, ones = 0;
  for (int64_t i = 0; i < count; i++) {
    double x = braid_tensor_get_f64(tensor, i);
    if (!isfinite(x) || x <= HIDES) return true;
    zeros += x == 0;
    ones += x == 1;
  }
  return zeros && ones && zeros + ones == count;
}

static bool is_noted_parameter(const braid_value *value) {
  return value->origin == BRAID_ORIGIN_PARAMETER || value->origin == BRAID_ORIGIN_TRAINED;
}

const char *braid_value_never_trains(const braid_value *value) {
  if (is_noted_parameter(value)) return NULL;
  if (value->origin == BRAID_ORIGIN_FIXED) return "fixed in the training that wrote the file";
  if (value->origin == BRAID_ORIGIN_BUFFER) return "a buffer, says the exporter";
  if (value->origin == BRAID_ORIGIN_LITERAL) return "a literal of the model's code (a Constant node)";
  bool single = braid_desc_count(&value->desc) == 1;
  return single && braid_name_is_made_up(value->name) ? "a single number without a name" : NULL;
}

/* --- what its uses make of it --------------------------------------------------------------------------------------
 */
bool braid_is_statistic(const braid_node *node, size_t index) {
  return (index == 3 || index == 4) && strcmp(node->op->name, "BatchNormalization") == 0;
}

typedef struct op_inputs {
  const char *op;
  uint32_t inputs; /* bit i for input i */
} op_inputs;

/* Inputs that say how an op works, not what it works on. */
static const op_inputs kSettings[] = {
    {"Clip", 0x6},
    {"Pad", 0x4},
    {"Dropout", 0x6},
    {"Resize", 0xe},
    {"QuantizeLinear", 0x6},
    {"Range", 0x7},
    {"OneHot", 0x4},
    {"CastLike", 0x2},
    {"DequantizeLinear", 0x6},
    {"NonMaxSuppression", 0x18},
    {"RoiAlign", 0x2},
    {"MelWeightMatrix", 0x18},
    {NULL, 0},
};

/* Sines of positions and windows, which are computed. */
static const op_inputs kTables[] = {{"RotaryEmbedding", 0x6}, {"STFT", 0x4}, {NULL, 0}};

/* First states of layers that hand one on, and caches. */
static const op_inputs kStarts[] = {
    {"LSTM", 0x60},      {"GRU", 0x20},           {"RNN", 0x20}, {"CausalConvWithState", 0x8},
    {"Attention", 0x30}, {"TensorScatter", 0x01}, {NULL, 0},
};

static bool is_among(const op_inputs *list, const braid_node *node, size_t index) {
  for (; list->op; list++)
    if (strcmp(node->op->name, list->op) == 0) return index < 32 && list->inputs >> index & 1;
  return false;
}

/* A function's nodes have its gradients. */
static bool has_gradient(const braid_node *node) {
  return node->op->gradient || node->op->flags & BRAID_OP_FUNCTION;
}

/* Is it subtracted from the graph's input, or what is left then divided by it? */
static bool normalizes_input(const braid_graph *graph, const braid_node *node, size_t index) {
  bool divides = strcmp(node->op->name, "Div") == 0;
  if (index != 1 || (!divides && strcmp(node->op->name, "Sub") != 0)) return false;
  braid_value_id id = node->inputs[0];
  while (id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT && graph->values[id].producer >= 0) {
    const braid_node *before = &graph->nodes[graph->values[id].producer];
    bool subtracts = strcmp(before->op->name, "Sub") == 0, casts = strcmp(before->op->name, "Cast") == 0;
    if (!(divides && subtracts) && !casts && !(before->op->flags & BRAID_OP_VIEW)) return false;
    id = before->inputs[0];
  }
  return id >= 0 && graph->values[id].kind == BRAID_VALUE_INPUT;
}

/* More than one dimension with more than one element, as no scale of channels or features has. */
static bool is_table(const braid_desc *desc) {
  int wide = 0;
  for (int i = 0; i < desc->rank; i++) wide += desc->dims[i] > 1;
  return wide > 1;
}

static bool multiplies(const braid_node *node) {
  const char *op = node->op->name;
  return strcmp(op, "Mul") == 0 || strcmp(op, "Div") == 0 || strcmp(op, "Sub") == 0;
}

static bool is_mask(const braid_node *node, size_t index, const braid_value *value) {
  static const op_inputs kMasks[] = {{"Where", ~(uint32_t)0}, {"Attention", 0x8}, {NULL, 0}};
  bool elementwise = node->op->flags & (BRAID_OP_ELEMENTWISE | BRAID_OP_VIEW);
  return (elementwise || is_among(kMasks, node, index)) && holds_mask(value->tensor);
}

static const char *why_use_is_fixed(const braid_graph *graph, const braid_node *node, size_t index) {
  const braid_value *value = &graph->values[node->inputs[index]];
  bool passes_on = strcmp(node->op->name, "IfBranch") == 0; /* gone once its condition is known */
  if (!has_gradient(node) && !passes_on) return "feeds only what has no gradient";
  if (is_among(kSettings, node, index)) return "a setting of its node";
  if (is_noted_parameter(value)) return NULL;
  bool made_up = braid_name_is_made_up(value->name);
  if (is_among(kTables, node, index)) return "a table of positions, or a window";
  if (made_up && is_among(kStarts, node, index)) return "the first state of a layer, without a name";
  if (is_mask(node, index, value)) return "a mask";
  if (normalizes_input(graph, node, index)) return "normalizes the input";
  if (made_up && multiplies(node) && is_table(&value->desc)) return "a table that the exporter computed";
  return NULL;
}

/* --- parameters and states -----------------------------------------------------------------------------------------
 */
static bool is_float_constant(const braid_value *value) {
  return value->kind == BRAID_VALUE_CONSTANT && value->tensor && braid_dtype_is_float(value->desc.dtype);
}

/* What a quantized file, or one that training in integers saved, has in place of a weight. */
static bool is_integer_weight(const braid_node *node, size_t index, const braid_value *value) {
  braid_dtype dtype = value->desc.dtype;
  return value->kind == BRAID_VALUE_CONSTANT && value->tensor && (dtype == BRAID_I8 || dtype == BRAID_U8) &&
         index == 0 && strcmp(node->op->name, "DequantizeLinear") == 0;
}

/* Files whose every weight is a Constant node: there these are what initializers are elsewhere. */
static void adopt_literals(braid_graph *graph) {
  for (size_t i = 0; i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    bool initializer = is_float_constant(value) && value->origin != BRAID_ORIGIN_LITERAL;
    if (initializer && braid_desc_count(&value->desc) > 1) return;
  }
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].origin == BRAID_ORIGIN_LITERAL) graph->values[i].origin = BRAID_ORIGIN_UNKNOWN;
}

/* Which nodes an output needs; nodes are sorted. */
static void mark_needed(const braid_graph *graph, bool *values, bool *nodes) {
  for (size_t i = 0; i < graph->output_count; i++) values[graph->outputs[i]] = true;
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->output_count; j++)
      if (node->outputs[j] >= 0 && values[node->outputs[j]]) nodes[i] = true;
    for (size_t j = 0; j < node->input_count && nodes[i]; j++)
      if (node->inputs[j] >= 0) values[node->inputs[j]] = true;
  }
}

/* What is known of a graph's values and nodes. */
typedef struct findings {
  bool *needed, *decided;   /* values */
  bool *samples, *targets;  /* values that depend on these inputs, by more than their shapes */
  bool *to_network;         /* values from which the network is computed */
  bool *nodes, *of_network; /* nodes: needed; computing on samples without targets, or something for such nodes */
  bool has_targets;         /* the second input takes them, and the output is the loss */
} findings;

static bool any_of(const bool *marks, const braid_value_id *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (values[i] >= 0 && marks[values[i]]) return true;
  return false;
}

static void mark_all(bool *marks, const braid_value_id *values, size_t count, bool mark) {
  for (size_t i = 0; i < count; i++)
    if (values[i] >= 0 && mark) marks[values[i]] = true;
}

/* In a graph that computes its loss, the network ends and the loss begins where the targets are joined. A shape says
 * nothing of either. */
static void mark_network(const braid_graph *graph, findings *f) {
  f->samples[graph->inputs[0]] = f->targets[graph->inputs[1]] = true;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (strcmp(node->op->name, "Shape") == 0 || strcmp(node->op->name, "Size") == 0) continue;
    mark_all(f->samples, node->outputs, node->output_count, any_of(f->samples, node->inputs, node->input_count));
    mark_all(f->targets, node->outputs, node->output_count, any_of(f->targets, node->inputs, node->input_count));
  }
  for (size_t i = graph->node_count; i-- > 0;) {
    const braid_node *node = &graph->nodes[i];
    bool before = !any_of(f->targets, node->outputs, node->output_count);
    f->of_network[i] = f->nodes[i] && before &&
                       (any_of(f->samples, node->outputs, node->output_count) ||
                        any_of(f->to_network, node->outputs, node->output_count));
    mark_all(f->to_network, node->inputs, node->input_count, f->of_network[i]);
  }
}

static const char *why_loss_is_fixed(const braid_graph *graph, const findings *f, size_t node, size_t index) {
  if (!f->has_targets || f->of_network[node] || is_noted_parameter(&graph->values[graph->nodes[node].inputs[index]]))
    return NULL;
  return "a number of the loss: the samples meet the targets before it";
}

/* One use of a constant: it is a parameter as soon as one use makes it one. */
static void judge_use(braid_graph *graph, const findings *f, size_t at, size_t index) {
  const braid_node *node = &graph->nodes[at];
  braid_value_id id = node->inputs[index];
  if (id < 0) return;
  braid_value *value = &graph->values[id];
  if (is_integer_weight(node, index, value)) value->fixed = "integers of 8 bits: --precision int8 alone trains them";
  if (!is_float_constant(value)) return;
  if (braid_is_statistic(node, index)) {
    value->kind = BRAID_VALUE_STATE;
    return;
  }
  const char *why = braid_value_never_trains(value);
  if (!why) why = why_use_is_fixed(graph, node, index);
  if (!why) why = why_loss_is_fixed(graph, f, at, index);
  if (!f->decided[id] || !why) value->fixed = why;
  f->decided[id] = true;
}

/* Who builds a graph with parameters says what trains: there is nothing to be found out about its constants. */
static size_t count_declared(const braid_graph *graph) {
  size_t declared = 0;
  for (size_t i = 0; i < graph->value_count; i++) declared += graph->values[i].kind == BRAID_VALUE_PARAMETER;
  return declared;
}

static braid_status promote(braid_graph *graph, findings *f) {
  size_t declared = count_declared(graph), promoted = declared, integers = 0;
  mark_needed(graph, f->needed, f->nodes);
  if (f->has_targets) mark_network(graph, f);
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; j < graph->nodes[i].input_count && f->nodes[i]; j++) judge_use(graph, f, i, j);
  for (size_t i = 0; i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    integers += value->fixed && !braid_dtype_is_float(value->desc.dtype);
    if (!is_float_constant(value)) continue;
    if (declared) value->fixed = "a constant of a graph that has parameters of its own";
    if (!f->decided[i] && !value->fixed) value->fixed = "no output that trains depends on it";
    if (value->fixed) continue;
    value->kind = BRAID_VALUE_PARAMETER;
    promoted++;
  }
  if (!promoted)
    return braid_fail(BRAID_INVALID_GRAPH, "graph %.120s has no trainable weights%s", graph->name,
                      f->has_targets ? ": none that samples meet before their targets"
                      : integers     ? ": they are integers of 8 bits, which --precision int8 alone trains"
                                     : "");
  return BRAID_OK;
}

/* --- the two modes -------------------------------------------------------------------------------------------------
 */
/* What a normalization of batches handed on as its new statistics are the old ones. */
static braid_status settle_batch_norm(braid_graph *graph, braid_node_id id) {
  for (size_t i = 1; i < graph->nodes[id].output_count && i < 3; i++) {
    braid_value_id output = graph->nodes[id].outputs[i], same = 0;
    if (output < 0) continue;
    BRAID_TRY(braid_graph_add_node(graph, "Identity", NULL, &graph->nodes[id].inputs[2 + i], 1, &same, 1, NULL));
    braid_graph_replace_uses(graph, output, same);
  }
  graph->nodes[id].output_count = 1;
  return braid_graph_set_int(graph, id, "training_mode", 0);
}

static braid_status leave_training(braid_graph *graph) {
  size_t count = graph->node_count;
  for (size_t i = 0; i < count; i++) {
    braid_node *node = &graph->nodes[i];
    if (strcmp(node->op->name, "Dropout") == 0 && node->input_count > 2) node->input_count = 2;
    if (strcmp(node->op->name, "BatchNormalization") == 0 && braid_attr_int(&node->attrs, "training_mode", 0))
      BRAID_TRY(settle_batch_norm(graph, (braid_node_id)i));
  }
  return braid_graph_sort(graph);
}

/* Adds the outputs running_mean and running_var and lets them become the states' next values. A normalization that is
 * applied more than once goes on each time from what the time before made of them; nodes come in topological order. */
static braid_status train_batch_norm(braid_graph *graph, braid_node_id id) {
  braid_node *node = &graph->nodes[id];
  braid_value_id *outputs = braid_graph_arena_alloc(graph, 3 * sizeof *outputs);
  if (!outputs) return BRAID_NO_MEMORY;
  outputs[0] = node->outputs[0];
  for (int i = 1; i < 3; i++) {
    BRAID_TRY(braid_graph_add_value(graph, NULL, BRAID_VALUE_RESULT, &outputs[i]));
    graph->values[outputs[i]].producer = id;
  }
  node->outputs = outputs;
  node->output_count = 3;
  BRAID_TRY(braid_graph_set_int(graph, id, "training_mode", 1));
  for (int i = 1; i < 3; i++) {
    braid_value_id *statistic = &graph->nodes[id].inputs[2 + i], state = *statistic;
    if (graph->values[state].kind != BRAID_VALUE_STATE) continue;
    if (graph->values[state].next >= 0) *statistic = graph->values[state].next;
    graph->values[state].next = -1;
    BRAID_TRY(braid_graph_update_state(graph, state, outputs[i]));
  }
  return BRAID_OK;
}

static braid_status train_dropout(braid_graph *graph, braid_node_id id) {
  braid_node *node = &graph->nodes[id];
  braid_value_id *inputs = braid_graph_arena_alloc(graph, 3 * sizeof *inputs);
  if (!inputs) return BRAID_NO_MEMORY;
  inputs[0] = node->inputs[0];
  inputs[1] = node->input_count > 1 ? node->inputs[1] : -1;
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_BOOL, 0, NULL));
  braid_tensor *yes;
  BRAID_TRY(braid_tensor_create(graph->allocator, &desc, &yes));
  *(uint8_t *)braid_tensor_data(yes) = 1;
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, yes, &inputs[2]);
  braid_tensor_release(yes);
  if (status != BRAID_OK) return status;
  node = &graph->nodes[id];
  node->inputs = inputs;
  node->input_count = 3;
  return BRAID_OK;
}

braid_status braid_graph_prepare_training(braid_graph *graph) {
  BRAID_TRY(braid_graph_unresolve(graph));
  BRAID_TRY(braid_graph_begin_change(graph));
  BRAID_TRY(leave_training(graph));
  adopt_literals(graph);
  BRAID_TRY(braid_graph_tie(graph));
  return braid_graph_untie(graph);
}

static braid_status find_parameters(braid_graph *graph, bool has_targets) {
  size_t values = graph->value_count, nodes = graph->node_count;
  bool *marks = braid_zalloc_array(graph->allocator, 5 * values + 2 * nodes, sizeof *marks);
  if (!marks) return BRAID_NO_MEMORY;
  findings f = {.needed = marks,
                .decided = marks + values,
                .samples = marks + 2 * values,
                .targets = marks + 3 * values,
                .to_network = marks + 4 * values,
                .nodes = marks + 5 * values,
                .of_network = marks + 5 * values + nodes,
                .has_targets = has_targets};
  braid_status status = promote(graph, &f);
  braid_free(graph->allocator, marks);
  return status;
}

static braid_status make_trainable(braid_graph *graph, bool has_targets) {
  BRAID_TRY(braid_graph_prepare_training(graph));
  BRAID_TRY(find_parameters(graph, has_targets));
  for (size_t i = 0; i < graph->node_count; i++) {
    const char *op = graph->nodes[i].op->name;
    if (strcmp(op, "BatchNormalization") == 0) BRAID_TRY(train_batch_norm(graph, (braid_node_id)i));
    if (strcmp(op, "Dropout") == 0) BRAID_TRY(train_dropout(graph, (braid_node_id)i));
  }
  return BRAID_OK;
}

braid_status braid_graph_make_trainable(braid_graph *graph) {
  return make_trainable(graph, false);
}

braid_status braid_graph_make_loss_trainable(braid_graph *graph) {
  return make_trainable(graph, braid_graph_input_count(graph) > 1);
}
