/* Making a sample's graph: sizes, types and contents are drawn, the gradient is added, and everything is computed. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "device/conformance_samples.h"

enum { kInputs = 16, kOutputs = 8, kList = 32, kWord = 40, kMostCost = 6 << 20 };

typedef struct maker {
  const braid_sample *sample;
  braid_sample_graph *out;
  int64_t sizes[26]; /* of the letters; -1: not drawn yet */
  double elements;   /* about as many as the largest operand has */
  braid_shape shape;
  size_t leads; /* "?" read so far */
  uint64_t stream;
  braid_node_id node;
} maker;

/* Where the numbers of a graph's sizes, or of one set of its contents, begin. */
static uint64_t stream_of(const braid_draw *draw, uint32_t data) {
  uint32_t tensor = (uint32_t)draw->dtype << 16 | (uint32_t)draw->size << 8 | data;
  uint64_t first = 2 * (uint64_t)draw->shape;
  return (uint64_t)braid_random_u32(draw->seed, draw->sample, tensor, first) << 32 |
         braid_random_u32(draw->seed, draw->sample, tensor, first + 1);
}

/* Uniform in [0, 1): splitmix64, because there are many. */
static double draw_unit(uint64_t *stream) {
  uint64_t z = *stream += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static braid_status misread(const maker *m, const char *at) {
  return braid_fail(BRAID_INTERNAL, "sample %s: \"%s\" at \"%s\"", m->sample->op, m->sample->inputs, at);
}

/* --- sizes ---------------------------------------------------------------------------------------------------------
 */
/* The most letters that an operand has: its elements are to be about as many as the size asks for. */
static int count_letters(const char *inputs) {
  int most = 1, here = 0;
  for (const char *at = inputs; *at; at++) {
    if (*at == '@') at += strcspn(at, " ");
    if (islower((unsigned char)*at)) here++;
    if (here > most) most = here;
    if (*at == ' ') here = 0;
    if (!*at) break;
  }
  return most;
}

static bool is_taken(const maker *m, int64_t size) {
  for (size_t i = 0; i < sizeof m->sizes / sizeof *m->sizes; i++)
    if (m->sizes[i] == size) return true;
  return false;
}

/* In the middle size no two letters are the same and none is 1, so that axes cannot be mixed up unseen. */
static int64_t letter_size(maker *m, char letter) {
  int64_t *size = &m->sizes[letter - 'a'];
  if (*size >= 0) return *size;
  const braid_draw *draw = &m->out->draw;
  double side = pow(m->elements, 1.0 / count_letters(m->sample->inputs));
  bool large = draw->size == BRAID_SAMPLE_LARGE;
  double share = draw_unit(&m->stream);
  int64_t drawn = (int64_t)(side * (large ? 0.95 + 0.3 * share : 0.5 + share) + 0.5);
  if (drawn < 1 || (!large && draw_unit(&m->stream) < 0.1)) drawn = 1;
  if (draw->size == BRAID_SAMPLE_MIDDLE)
    for (drawn = drawn < 2 ? 2 : drawn; is_taken(m, drawn);) drawn++;
  *size = drawn;
  return drawn;
}

/* The first letter of the first input is the one that is 0. */
static void draw_empty(maker *m) {
  const char *letter = m->sample->inputs + strcspn(m->sample->inputs, "abcdefghijklmnopqrstuvwxyz ");
  if (m->out->draw.size == BRAID_SAMPLE_EMPTY && islower((unsigned char)*letter)) m->sizes[*letter - 'a'] = 0;
}

/* [number][letter][+number] */
static int64_t read_size(maker *m, const char **at) {
  char *end;
  bool numbered = isdigit((unsigned char)**at) || **at == '-';
  int64_t size = numbered ? strtoll(*at, &end, 10) : 1;
  if (numbered) *at = end;
  if (islower((unsigned char)**at)) size *= letter_size(m, *(*at)++);
  if (**at == '+') {
    size += strtoll(*at + 1, &end, 10);
    *at = end;
  }
  return size;
}

/* --- contents ------------------------------------------------------------------------------------------------------
 */
static double draw_special(braid_dtype dtype, double unit) {
  double most = dtype == BRAID_F16 ? 60000 : 1e38, least = dtype == BRAID_F16 ? 1e-4 : 1e-37;
  const double kValues[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, most, -most, least};
  return kValues[(size_t)(unit * 8)];
}

static double draw_number(const braid_sample_graph *sample, const braid_leaf *leaf, braid_dtype dtype,
                          uint64_t *stream) {
  double unit = draw_unit(stream);
  bool whole = !braid_dtype_is_float(dtype), positive = leaf->range == '+';
  if (leaf->bound >= 0) return floor(positive ? unit * (double)leaf->bound : (2 * unit - 1) * (double)leaf->bound);
  if (sample->draw.size == BRAID_SAMPLE_SPECIAL && !whole && draw_unit(stream) < 0.3) return draw_special(dtype, unit);
  if (dtype == BRAID_BOOL) return unit < 0.5;
  if (leaf->range == '~') return floor(3 * unit) - (dtype == BRAID_U8 || dtype >= BRAID_U16 ? 0 : 1);
  if (leaf->range == '/') return floor((2 * unit - 1) * (dtype == BRAID_BF16 ? 200 : 600)) / (whole ? 60 : 2);
  if (leaf->range == '*') return whole ? floor((2 * unit - 1) * 0x1p40) : 400 * unit - 200;
  if (leaf->range == '#' && !whole && draw_unit(stream) < 0.1) return unit < 0.4 ? NAN : -INFINITY;
  if (leaf->range == '!' && !whole) return 8 * unit - 20000;
  if (leaf->range == ':' && !whole) return (2 * unit - 1) * (dtype == BRAID_F16 ? 1e-3 : 1e-29);
  if (positive) return whole ? 1 + floor(3 * unit) : 1.05 + 1.45 * unit;
  if (!whole) return (leaf->range == '%' ? 0.45 : 1) * (4 * unit - 2);
  return dtype >= BRAID_U8 ? floor(10 * unit) : floor(11 * unit) - 5;
}

static void fill_tensor(const braid_sample_graph *sample, const braid_leaf *leaf, braid_tensor *tensor,
                        uint64_t *stream) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  for (int64_t i = 0; i < braid_desc_count(desc); i++)
    braid_tensor_set_f64(tensor, i, draw_number(sample, leaf, desc->dtype, stream));
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
static int read_lead(maker *m, const char **at, int64_t *dims) {
  size_t lead = m->leads++;
  *at += (*at)[1] == ',' ? 2 : 1;
  memcpy(dims, m->shape.leads[lead], sizeof m->shape.leads[lead]);
  return m->shape.lead_ranks[lead];
}

static braid_status read_desc(maker *m, const char **at, braid_desc *desc) {
  int64_t dims[BRAID_MAX_RANK];
  int rank = 0;
  if (**at == '.') {
    ++*at;
  } else {
    if (**at == '?') rank = read_lead(m, at, dims);
    while (islower((unsigned char)**at) || isdigit((unsigned char)**at)) {
      if (rank == BRAID_MAX_RANK) return misread(m, *at);
      dims[rank++] = read_size(m, at);
      if (**at == ',') ++*at;
    }
  }
  braid_dtype dtype = m->out->draw.dtype;
  if (**at == '@') {
    size_t length = strcspn(*at + 1, " =<");
    dtype = BRAID_NONE;
    for (int i = BRAID_NONE + 1; i < BRAID_DTYPE_COUNT; i++) {
      const char *name = braid_dtype_name((braid_dtype)i);
      if (strlen(name) == length && memcmp(name, *at + 1, length) == 0) dtype = (braid_dtype)i;
    }
    *at += 1 + length;
  } else {
    m->out->typed = true;
  }
  if (dtype == BRAID_NONE) return misread(m, *at);
  return braid_desc_init(desc, dtype, rank, dims);
}

static braid_status add_constant(maker *m, const braid_desc *desc, const char *at, braid_value_id *out) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(NULL, desc, &tensor));
  braid_status status = BRAID_OK;
  int64_t count = braid_desc_count(desc);
  for (int64_t i = 0; i < count; i++) {
    bool number = memchr(at, '.', strcspn(at, ", ")) != NULL;
    char *end = (char *)at;
    braid_tensor_set_f64(tensor, i, number ? strtod(at, &end) : (double)read_size(m, &at));
    if (number) at = end;
    if (*at == ',') at++;
  }
  if (status == BRAID_OK) status = braid_graph_add_tensor(m->out->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* A constant whose contents are drawn, as those of a leaf are. */
static braid_status add_weights(maker *m, const braid_desc *desc, char range, int64_t bound, braid_value_id *out) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(NULL, desc, &tensor));
  fill_tensor(m->out, &(braid_leaf){-1, range, bound}, tensor, &m->stream);
  braid_status status = braid_graph_add_tensor(m->out->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status add_leaf(braid_sample_graph *out, const braid_desc *desc, char range, int64_t bound,
                             braid_value_id *id) {
  if (out->leaf_count == BRAID_SAMPLE_LEAVES) return braid_fail(BRAID_INTERNAL, "a sample has too many inputs");
  BRAID_TRY(braid_graph_add_input(out->graph, NULL, desc, id));
  out->leaves[out->leaf_count++] = (braid_leaf){*id, range, bound};
  return BRAID_OK;
}

/* Functions with a pole close by, where two right computations may differ a lot: they get numbers below one. */
static bool has_pole(const char *op) {
  static const char *const kOps[] = {"Tan", "Asin", "Acos", "Atanh"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(op, kOps[i]) == 0) return true;
  return false;
}

static braid_status add_operand(maker *m, const char *at, const braid_value_id *earlier, braid_value_id *out) {
  *out = -1;
  if (*at == '-') return BRAID_OK;
  if (*at == '^') {
    *out = earlier[at[1] - '0'];
    return BRAID_OK;
  }
  char range = has_pole(m->sample->op) ? '%' : 0;
  if (*at && strchr("+~*/!:#", *at)) range = *at++;
  braid_desc desc;
  BRAID_TRY(read_desc(m, &at, &desc));
  if (*at == '=' && at[1] != '*') return add_constant(m, &desc, at + 1, out);
  int64_t bound = -1;
  if (*at == '<') {
    at++;
    bound = read_size(m, &at);
  } else if (desc.rank == 1 && desc.dims[0] == 0 && desc.dtype == BRAID_I64) {
    return add_constant(m, &desc, "", out);
  }
  if (*at == '=' && at[1] == '*') return add_weights(m, &desc, range, bound, out);
  if (*at && *at != ' ') return misread(m, at);
  return add_leaf(m->out, &desc, range, bound, out);
}

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
static braid_status set_list(maker *m, const char *name, const char *at) {
  int64_t ints[kList];
  float floats[kList];
  size_t count = 0;
  bool numbers = memchr(at, '.', strcspn(at, "]")) != NULL;
  for (char *end; *at != ']' && count < kList; at = end + (*end == ',')) {
    floats[count] = strtof(at, &end);
    ints[count++] = strtoll(at, NULL, 10);
  }
  if (numbers) return braid_graph_set_floats(m->out->graph, m->node, name, floats, count);
  return braid_graph_set_ints(m->out->graph, m->node, name, ints, count);
}

static braid_status set_attr(maker *m, const char *at) {
  char name[kWord] = "", value[kWord] = "";
  size_t length = strcspn(at, "="), rest = strcspn(at + length + 1, " ");
  if (length >= sizeof name || rest >= sizeof value) return misread(m, at);
  memcpy(name, at, length);
  memcpy(value, at + length + 1, rest);
  braid_graph *graph = m->out->graph;
  if (*value == '[') return set_list(m, name, value + 1);
  const char *letter = value;
  if (rest == 1 && islower((unsigned char)*value))
    return braid_graph_set_int(graph, m->node, name, read_size(m, &letter));
  if (!isdigit((unsigned char)*value) && *value != '-') return braid_graph_set_string(graph, m->node, name, value);
  if (strchr(value, '.')) return braid_graph_set_float(graph, m->node, name, strtod(value, NULL));
  return braid_graph_set_int(graph, m->node, name, strtoll(value, NULL, 10));
}

/* --- the graph -----------------------------------------------------------------------------------------------------
 */
static braid_status add_node(maker *m, braid_value_id *outputs, size_t *output_count) {
  const braid_sample *sample = m->sample;
  braid_value_id inputs[kInputs];
  size_t count = 0;
  for (const char *at = sample->inputs; *at; at += strcspn(at, " "), at += *at == ' ') {
    if (count == kInputs) return misread(m, at);
    BRAID_TRY(add_operand(m, at, inputs, &inputs[count]));
    count++;
  }
  if (sample->outputs > kOutputs) return misread(m, sample->inputs);
  *output_count = sample->outputs;
  for (size_t i = 0; i < *output_count; i++) outputs[i] = 0;
  BRAID_TRY(braid_graph_add_node(m->out->graph, sample->op, NULL, inputs, count, outputs, *output_count, &m->node));
  for (const char *at = sample->attrs; *at; at += strcspn(at, " "), at += *at == ' ') BRAID_TRY(set_attr(m, at));
  return braid_graph_infer_node(m->out->graph, m->node);
}

static braid_status add_simple(braid_graph *graph, const char *op, braid_value_id a, braid_value_id b,
                               braid_value_id *out, braid_node_id *node) {
  *out = 0;
  return braid_graph_add_node(graph, op, NULL, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, out, 1, node);
}

/* The sum of the outputs, each element weighted. */
static braid_status add_loss(braid_sample_graph *out, const braid_value_id *outputs, size_t count,
                             braid_value_id *loss) {
  braid_graph *graph = out->graph;
  *loss = -1;
  for (size_t i = 0; i < count; i++) {
    braid_desc desc = graph->values[outputs[i]].desc;
    braid_value_id weights, part;
    braid_node_id node;
    if (!braid_dtype_is_float(desc.dtype)) continue;
    BRAID_TRY(add_leaf(out, &desc, 0, -1, &weights));
    BRAID_TRY(add_simple(graph, "Mul", outputs[i], weights, &part, &node));
    BRAID_TRY(add_simple(graph, "ReduceSum", part, -1, &part, &node));
    BRAID_TRY(braid_graph_set_int(graph, node, "keepdims", 0));
    if (*loss >= 0) BRAID_TRY(add_simple(graph, "Add", *loss, part, &part, &node));
    *loss = part;
  }
  return *loss < 0 ? braid_fail(BRAID_UNSUPPORTED, "no output is floating-point") : BRAID_OK;
}

static braid_status add_gradient(maker *m, const braid_value_id *outputs, size_t count) {
  braid_sample_graph *out = m->out;
  if (!out->graph->nodes[m->node].op->gradient) return braid_fail(BRAID_UNSUPPORTED, "the op has no gradient");
  braid_value_id wrt[BRAID_SAMPLE_LEAVES], gradients[BRAID_SAMPLE_LEAVES], loss;
  size_t wanted = 0;
  for (size_t i = 0; i < out->leaf_count; i++)
    if (braid_dtype_is_float(out->graph->values[out->leaves[i].value].desc.dtype)) wrt[wanted++] = out->leaves[i].value;
  BRAID_TRY(add_loss(out, outputs, count, &loss));
  return braid_graph_gradients(out->graph, loss, wrt, wanted, gradients);
}

/* --- computing -----------------------------------------------------------------------------------------------------
 */
static braid_status fill_leaf(const braid_sample_graph *sample, const braid_leaf *leaf, uint32_t data,
                              uint64_t *stream) {
  const braid_desc *desc = &sample->graph->values[leaf->value].desc;
  braid_tensor **tensor = &sample->data[data][leaf->value];
  BRAID_TRY(braid_tensor_create(NULL, desc, tensor));
  fill_tensor(sample, leaf, *tensor, stream);
  return BRAID_OK;
}

static braid_status compute_node(const braid_sample_graph *sample, const braid_node *node, uint32_t data,
                                 const braid_evaluator *evaluator) {
  const braid_tensor *inputs[kList] = {NULL};
  braid_tensor *outputs[kList] = {NULL};
  if (node->input_count > kList || node->output_count > kList)
    return braid_fail(BRAID_UNSUPPORTED, "a node has too many operands");
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0) inputs[i] = sample->data[data][node->inputs[i]];
  BRAID_TRY(evaluator->evaluate(evaluator->context, sample->graph, node, inputs, outputs));
  for (size_t i = 0; i < node->output_count; i++) {
    if (node->outputs[i] >= 0)
      sample->data[data][node->outputs[i]] = outputs[i];
    else
      braid_tensor_release(outputs[i]);
  }
  return BRAID_OK;
}

static braid_status compute(braid_sample_graph *sample, uint32_t data, const braid_evaluator *evaluator) {
  const braid_graph *graph = sample->graph;
  uint64_t stream = stream_of(&sample->draw, data);
  sample->data[data] = braid_zalloc_array(NULL, graph->value_count, sizeof *sample->data[data]);
  if (!sample->data[data]) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind != BRAID_VALUE_RESULT && graph->values[i].tensor)
      sample->data[data][i] = braid_tensor_retain(graph->values[i].tensor);
  for (size_t i = 0; i < sample->leaf_count; i++) BRAID_TRY(fill_leaf(sample, &sample->leaves[i], data, &stream));
  for (size_t i = 0; i < graph->node_count; i++) BRAID_TRY(compute_node(sample, &graph->nodes[i], data, evaluator));
  return BRAID_OK;
}

braid_status braid_sample_compute(braid_sample_graph *sample, const braid_evaluator *evaluator) {
  for (uint32_t data = 0; data < BRAID_SAMPLE_DATA; data++) BRAID_TRY(compute(sample, data, evaluator));
  return BRAID_OK;
}

static braid_status sample_make(maker *m) {
  braid_value_id outputs[kOutputs];
  size_t count;
  BRAID_TRY(braid_graph_create(NULL, "sample", &m->out->graph));
  BRAID_TRY(add_node(m, outputs, &count));
  return m->out->draw.gradient ? add_gradient(m, outputs, count) : BRAID_OK;
}

/* Multiply-accumulates, and what is written. */
static int64_t cost_of(const braid_graph *graph) {
  int64_t cost = 0;
  for (size_t i = 0; i < graph->node_count; i++) cost += braid_graph_node_macs(graph, (braid_node_id)i);
  for (size_t i = 0; i < graph->value_count; i++) cost += braid_desc_count(&graph->values[i].desc);
  return cost;
}

braid_status braid_sample_make(const braid_draw *draw, braid_sample_graph *out) {
  static const double kElements[BRAID_SAMPLE_SIZES] = {8, 500, 80000, 60, 300, 1};
  double elements = kElements[draw->size];
  size_t count;
  for (;; elements /= 2) {
    maker m = {.sample = &braid_samples(&count)[draw->sample],
               .out = out,
               .elements = elements,
               .stream = stream_of(draw, BRAID_SAMPLE_DATA)};
    *out = (braid_sample_graph){.draw = *draw};
    for (size_t i = 0; i < 26; i++) m.sizes[i] = -1;
    if (draw->size == BRAID_SAMPLE_SHAPE || braid_sample_broadcasts(m.sample)) braid_shape_draw(draw, &m.shape);
    if (draw->size == BRAID_SAMPLE_SHAPE) memcpy(m.sizes, m.shape.letters, sizeof m.sizes);
    draw_empty(&m);
    braid_status status = sample_make(&m);
    if (status == BRAID_OK && cost_of(out->graph) <= kMostCost) return BRAID_OK;
    braid_sample_free(out);
    if (status != BRAID_OK) return status;
    if (elements < 1) return braid_fail(BRAID_OUT_OF_RANGE, "sample %s costs too much", m.sample->op);
  }
}

void braid_sample_free(braid_sample_graph *sample) {
  for (uint32_t data = 0; data < BRAID_SAMPLE_DATA; data++) {
    for (size_t i = 0; sample->data[data] && i < sample->graph->value_count; i++)
      braid_tensor_release(sample->data[data][i]);
    braid_free(NULL, sample->data[data]);
    sample->data[data] = NULL;
  }
  braid_graph_destroy(sample->graph);
  sample->graph = NULL;
}
