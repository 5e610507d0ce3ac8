/* Elementwise ops: which span computes a node, over what. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/spans/convert.h"
#include "backend/cpu/spans/pass.h"
#include "tensor/layout.h"

/* --- the span of a node --------------------------------------------------------------------------------------------
 */
static bool is(const braid_node_desc *node, const char *op) {
  return strcmp(node->op, op) == 0;
}

/* Attributes that choose between functions, as part of the name. */
static const char *span_name(const braid_node_desc *node) {
  bool tanh_form = strcmp(braid_attr_string(node->attrs, "approximate", "none"), "tanh") == 0;
  if (is(node, "Gelu") && tanh_form) return "GeluTanh";
  if (is(node, "GeluGrad") && tanh_form) return "GeluTanhGrad";
  if (is(node, "Mod") && braid_attr_int(node->attrs, "fmod", 0)) return "Fmod";
  if (is(node, "Sum") || is(node, "Mean")) return "Add";
  if (!is(node, "BitShift")) return node->op;
  return strcmp(braid_attr_string(node->attrs, "direction", ""), "LEFT") == 0 ? "ShiftLeft" : "ShiftRight";
}

/* Computes in the operands' type where there is a span for it, 16-bit floating-point types in float, and integers that
 * have none in double. A power is computed in double if either operand is double, or the exponent alone a fraction. */
static const braid_span_entry *find_span(const braid_node_desc *node) {
  const char *name = span_name(node);
  braid_dtype dtype = node->inputs[is(node, "Where") ? 1 : 0].desc.dtype;
  if (is(node, "Pow")) {
    braid_dtype exponent = node->inputs[1].desc.dtype;
    if (exponent == BRAID_F64 || (braid_dtype_is_float(exponent) && !braid_dtype_is_float(dtype))) dtype = BRAID_F64;
  }
  const braid_span_entry *entry = braid_spans_find(name, dtype);
  if (!entry && braid_dtype_is_float(dtype)) entry = braid_spans_find(name, BRAID_F32);
  return entry ? entry : braid_spans_find(name, BRAID_F64);
}

static bool elementwise_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (find_span(node)) return true;
  snprintf(why, why_bytes, "no %s of %s", node->op, braid_dtype_name(node->inputs[0].desc.dtype));
  return false;
}

static void read_params(const braid_node_desc *node, double *params) {
  if (is(node, "IsInf")) {
    params[0] = braid_attr_int(node->attrs, "detect_positive", 1) != 0;
    params[1] = braid_attr_int(node->attrs, "detect_negative", 1) != 0;
  }
#define BRAID_UNARY_ATTRIBUTES(op, p, p_default, q, q_default)                                                         \
  if (is(node, #op) || is(node, #op "Grad")) {                                                                         \
    const char *const names[] = {p, q};                                                                                \
    params[0] = braid_attr_float(node->attrs, names[0], p_default);                                                    \
    params[1] = names[1] ? braid_attr_float(node->attrs, names[1], q_default) : 0;                                     \
  }
#include "graph/ops/unary.def"
#undef BRAID_UNARY_ATTRIBUTES
}

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* Has an element for each of the output's in every dimension that `layout` has in blocks. */
static bool has_blocks(const braid_desc *desc, const braid_desc *out, braid_layout layout) {
  braid_layout_parts parts = braid_layout_take_apart(layout, out->rank);
  bool has = desc->rank == out->rank;
  for (int i = 0; has && i < parts.block_count; i++)
    has = desc->dims[parts.blocks[i].dim] == out->dims[parts.blocks[i].dim];
  return has;
}

/* Blocks are padded with zeros, which have to stay zeros. */
static bool keeps_zero(const braid_node_desc *node, braid_layout layout) {
  const braid_span_entry *entry = find_span(node);
  const double zeros[1] = {0};
  double result[1] = {0}, params[2] = {0};
  if (node->output_count < 1 || node->inputs[0].desc.dtype != BRAID_F32 || entry->flags) return false;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && !has_blocks(&node->inputs[i].desc, &node->outputs[0].desc, layout)) return false;
  read_params(node, params);
  braid_span span = {.in = {zeros, zeros, zeros, zeros}, .out = result, .count = 1, .params = params};
  entry->run(&span);
  float value;
  memcpy(&value, result, sizeof value);
  return value == 0;
}

/* The output as it lies in `layout`. */
static braid_desc output_in(const braid_node_desc *node, braid_layout layout) {
  braid_desc out = node->outputs[0].desc;
  out.layout = layout;
  return out;
}

/* Everything of the output's shape lies as the first input does that is not PLAIN. An input that is repeated lies so
 * too where it has the output's padding or lies in blocks already, and else is PLAIN. */
static void elementwise_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_layout chosen = BRAID_LAYOUT_PLAIN;
  for (size_t i = node->input_count; i-- > 0;)
    if (node->inputs[i].present && inputs[i] != BRAID_LAYOUT_PLAIN &&
        braid_desc_same_shape(&node->inputs[i].desc, &node->outputs[0].desc))
      chosen = inputs[i];
  braid_desc out = output_in(node, chosen);
  if (braid_desc_is_padded(&out) && !keeps_zero(node, chosen)) out.layout = chosen = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++) {
    const braid_desc *desc = &node->inputs[i].desc;
    if (!node->inputs[i].present) continue;
    bool blocked = braid_layout_is_blocked(inputs[i]) && has_blocks(desc, &out, chosen);
    if (braid_desc_same_shape(desc, &out) || blocked || braid_desc_is_padded(&out))
      inputs[i] = chosen;
    else if (braid_layout_is_blocked(inputs[i]))
      inputs[i] = BRAID_LAYOUT_PLAIN;
  }
  outputs[0] = chosen;
}

/* --- one span ------------------------------------------------------------------------------------------------------
 */
static void take_input(const braid_node_desc *node, size_t index, braid_pass_operand *operand) {
  operand->source = (int)index;
  operand->desc = node->inputs[index].desc;
}

static braid_status finish(const braid_node_desc *node, braid_pass *pass) {
  if (braid_pass_init(pass, &node->outputs[0].desc)) return BRAID_OK;
  return braid_fail(BRAID_INTERNAL, "its operands' layouts do not go together");
}

static bool is_present(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

static braid_status create_single(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  (void)info;
  braid_pass *pass = braid_zalloc(allocator, sizeof *pass);
  if (!pass) return BRAID_NO_MEMORY;
  pass->entry = find_span(node);
  read_params(node, pass->params);
  bool clip = is(node, "Clip"), clip_gradient = is(node, "ClipGrad");
  pass->input_count = clip ? 3 : clip_gradient ? 4 : (int)node->input_count;
  for (int i = 0; i < pass->input_count; i++) {
    if (is_present(node, (size_t)i)) {
      take_input(node, (size_t)i, &pass->inputs[i]);
    } else { /* a bound left out */
      pass->inputs[i].source = BRAID_PASS_CONSTANT;
      pass->inputs[i].constant = i == pass->input_count - 2 ? -INFINITY : INFINITY;
    }
  }
  braid_status status = finish(node, pass);
  if (status == BRAID_OK)
    *state = pass;
  else
    braid_free(allocator, pass);
  return status;
}

static braid_status run_single(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  braid_pass_run(state, args->inputs, args->outputs[0]);
  return BRAID_OK;
}

/* --- any number of operands ----------------------------------------------------------------------------------------
 * x0 op x1, then the output op x2, and so on; a mean is divided by the count at the end. A single operand is copied by
 * an op that changes nothing: max(x, x). */
typedef struct chain {
  int count;
  braid_pass passes[];
} chain;

static braid_status init_link(const braid_node_desc *node, chain *c, size_t index) {
  braid_pass *pass = &c->passes[c->count++];
  pass->entry = find_span(node);
  pass->input_count = 2;
  if (index == 1) {
    take_input(node, 0, &pass->inputs[0]);
  } else {
    pass->inputs[0].source = BRAID_PASS_OUTPUT;
    pass->inputs[0].desc = node->outputs[0].desc;
  }
  take_input(node, index, &pass->inputs[1]);
  return finish(node, pass);
}

static braid_status init_copy(const braid_node_desc *node, chain *c) {
  braid_pass *pass = &c->passes[c->count++];
  pass->entry = braid_spans_find("Max", find_span(node)->dtype);
  pass->input_count = 2;
  take_input(node, 0, &pass->inputs[0]);
  take_input(node, 0, &pass->inputs[1]);
  return finish(node, pass);
}

static braid_status init_mean(const braid_node_desc *node, chain *c) {
  braid_pass *pass = &c->passes[c->count++];
  pass->entry = braid_spans_find("Div", find_span(node)->dtype);
  pass->input_count = 2;
  pass->inputs[0].source = BRAID_PASS_OUTPUT;
  pass->inputs[0].desc = node->outputs[0].desc;
  pass->inputs[1].source = BRAID_PASS_CONSTANT;
  pass->inputs[1].constant = (double)node->input_count;
  return finish(node, pass);
}

static braid_status create_chain(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                 braid_prepared_info *info) {
  (void)info;
  chain *c = braid_zalloc(allocator, sizeof *c + (node->input_count + 1) * sizeof *c->passes);
  if (!c) return BRAID_NO_MEMORY;
  braid_status status = node->input_count == 1 ? init_copy(node, c) : BRAID_OK;
  for (size_t i = 1; status == BRAID_OK && i < node->input_count; i++) status = init_link(node, c, i);
  if (status == BRAID_OK && is(node, "Mean") && node->input_count > 1) status = init_mean(node, c);
  if (status == BRAID_OK)
    *state = c;
  else
    braid_free(allocator, c);
  return status;
}

static braid_status run_chain(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  const chain *c = state;
  for (int i = 0; i < c->count; i++) braid_pass_run(&c->passes[i], args->inputs, args->outputs[0]);
  return BRAID_OK;
}

/* The result overwrites an operand in place only where every operand is read before: with two of them. */
static bool match_pair(const braid_node_desc *node, char *why, size_t why_bytes) {
  return node->input_count <= 2 && elementwise_match(node, why, why_bytes);
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
typedef struct cast {
  braid_convert *convert; /* NULL: one of the types is narrow */
  braid_narrow_convert narrow;
  int64_t count;
  size_t from_bytes, to_bytes;
} cast;

static braid_status create_cast(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  cast *c = braid_zalloc(allocator, sizeof *c);
  if (!c) return BRAID_NO_MEMORY;
  bool bits = is(node, "BitCast") && to->dtype != BRAID_BOOL; /* any other byte than 0 is still true */
  bool narrow = braid_dtype_is_narrow(from->dtype) || braid_dtype_is_narrow(to->dtype);
  const char *mode = braid_attr_string(node->attrs, "round_mode", "up");
  braid_narrowing how = {.wraps = true,
                         .overflows = !braid_attr_int(node->attrs, "saturate", 1),
                         .e8m0 = strcmp(mode, "up") == 0     ? BRAID_E8M0_UP
                                 : strcmp(mode, "down") == 0 ? BRAID_E8M0_DOWN
                                                             : BRAID_E8M0_NEAREST};
  if (bits || from->dtype == to->dtype || !narrow)
    c->convert = braid_convert_find(from->dtype, bits ? from->dtype : to->dtype);
  else
    braid_narrow_convert_init(&c->narrow, from->dtype, to->dtype, &how);
  c->from_bytes = braid_dtype_size(from->dtype);
  c->to_bytes = braid_dtype_size(to->dtype);
  c->count = (int64_t)(braid_desc_bytes(from) / c->from_bytes);
  *state = c;
  return BRAID_OK;
}

static braid_status run_cast(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  enum { kPiece = 32768 };
  const cast *c = state;
  const char *from = args->inputs[0];
  char *to = args->outputs[0];
  int64_t pieces = (c->count + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    int64_t begin = i * kPiece, count = begin + kPiece < c->count ? kPiece : c->count - begin;
    const char *source = from + begin * (int64_t)c->from_bytes;
    char *target = to + begin * (int64_t)c->to_bytes;
    if (c->convert)
      c->convert(source, target, count);
    else
      braid_narrow_convert_run(&c->narrow, source, target, count);
  }
  return BRAID_OK;
}

static void cast_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool e8m0 = node->inputs[0].desc.dtype == BRAID_F8E8M0 || node->outputs[0].desc.dtype == BRAID_F8E8M0;
  if (e8m0) inputs[0] = BRAID_LAYOUT_PLAIN;                  /* it has no zero, which padding is */
  if (node->input_count > 1) inputs[1] = BRAID_LAYOUT_PLAIN; /* CastLike: not looked at */
  outputs[0] = inputs[0];
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kSingle = {.create = create_single, .run = run_single};
static const braid_cpu_kernel kChain = {.create = create_chain, .run = run_chain};
static const braid_cpu_kernel kCast = {.create = create_cast, .run = run_cast};

#define SINGLE(op_name, places)                                                                                        \
  {                                                                                                                    \
    .op = op_name, .name = "ref_elementwise", .match = elementwise_match, .layouts = elementwise_layouts,              \
    .in_place = places, .implementation = &kSingle                                                                     \
  }
#define CHAIN(op_name)                                                                                                 \
  {.op = op_name,                                                                                                      \
   .name = "ref_pair",                                                                                                 \
   .match = match_pair,                                                                                                \
   .layouts = elementwise_layouts,                                                                                     \
   .in_place = 3,                                                                                                      \
   .implementation = &kChain},                                                                                         \
  {                                                                                                                    \
    .op = op_name, .name = "ref_variadic", .match = elementwise_match, .layouts = elementwise_layouts,                 \
    .implementation = &kChain                                                                                          \
  }
#define CAST(op_name)                                                                                                  \
  { .op = op_name, .name = "ref_cast", .layouts = cast_layouts, .in_place = 1, .implementation = &kCast }

static const braid_kernel kKernels[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient) SINGLE(#op, 1), SINGLE(#op "Grad", 3),
#include "graph/ops/unary.def"
#undef BRAID_UNARY
    SINGLE("Neg", 1),
    SINGLE("Sign", 1),
    SINGLE("Floor", 1),
    SINGLE("Ceil", 1),
    SINGLE("Round", 1),
    SINGLE("IsNaN", 0),
    SINGLE("IsInf", 0),
    SINGLE("Not", 1),
    SINGLE("BitwiseNot", 1),
    SINGLE("Clip", 1),
    SINGLE("ClipGrad", 3),
    SINGLE("Add", 3),
    SINGLE("AddRelu", 3),
    SINGLE("AddReluGrad", 7),
    SINGLE("Sub", 3),
    SINGLE("Mul", 3),
    SINGLE("Div", 3),
    SINGLE("Pow", 3),
    SINGLE("Mod", 3),
    SINGLE("PRelu", 3),
    SINGLE("PReluGrad", 7),
    SINGLE("PowGradBase", 7),
    SINGLE("PowGradExponent", 7),
    SINGLE("Equal", 3),
    SINGLE("Less", 3),
    SINGLE("LessOrEqual", 3),
    SINGLE("Greater", 3),
    SINGLE("GreaterOrEqual", 3),
    SINGLE("And", 3),
    SINGLE("Or", 3),
    SINGLE("Xor", 3),
    SINGLE("BitwiseAnd", 3),
    SINGLE("BitwiseOr", 3),
    SINGLE("BitwiseXor", 3),
    SINGLE("BitShift", 3),
    SINGLE("Where", 7),
    CHAIN("Sum"),
    CHAIN("Mean"),
    CHAIN("Max"),
    CHAIN("Min"),
    CAST("Cast"),
    CAST("CastLike"),
    CAST("BitCast"),
};

extern const braid_cpu_table braid_cpu_loops_elementwise;
const braid_cpu_table braid_cpu_loops_elementwise = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
