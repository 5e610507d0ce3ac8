/* Functions of corresponding elements. The expressions stand in the tables below and in graph/ops/unary.def; a kernel
 * is one of three loops around them: all operands of one shape or single numbers, broadcast in up to three dimensions
 * (after merging), broadcast in any number. */
#include <string.h>

#include "base/try.h"
#include "launch/families.h"
#include "launch/nest.h"

/* --- expressions ---------------------------------------------------------------------------------------------------
 */
typedef struct expression {
  const char *op, *text;
  const char *names[3]; /* of the operands */
} expression;

static const expression kExpressions[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient) {#op, #forward, {"x"}}, {#op "Grad", #gradient, {"d", "v"}},
#include "graph/ops/unary.def"
#undef BRAID_UNARY
    {"Neg", "-x", {"x"}},
    {"Sign", "x>0?1:x<0?-1:x", {"x"}},
    {"Floor", "floor(x)", {"x"}},
    {"Ceil", "ceil(x)", {"x"}},
    {"Round", "rint(x)", {"x"}},
    {"Not", "!x", {"x"}},
    {"IsNaN", "x!=x", {"x"}},
    {"IsInf", "(p!=0&&x==INFINITY)||(q!=0&&x==-INFINITY)", {"x"}},
    {"Add", "a+b", {"a", "b"}},
    {"AddRelu", "a+b<0?0:a+b", {"a", "b"}},
    {"Sub", "a-b", {"a", "b"}},
    {"Mul", "a*b", {"a", "b"}},
    {"Div", "a/b", {"a", "b"}},
    {"Pow", "power(a,b)", {"a", "b"}},
    {"PRelu", "a<0?a*b:a", {"a", "b"}},
    {"Equal", "a==b", {"a", "b"}},
    {"Less", "a<b", {"a", "b"}},
    {"LessOrEqual", "a<=b", {"a", "b"}},
    {"Greater", "a>b", {"a", "b"}},
    {"GreaterOrEqual", "a>=b", {"a", "b"}},
    {"And", "a&&b", {"a", "b"}},
    {"Or", "a||b", {"a", "b"}},
    {"Xor", "!a!=!b", {"a", "b"}},
    {"Max", "LARGER(a,b)", {"a", "b"}},
    {"Min", "SMALLER(a,b)", {"a", "b"}},
    {"Sum", "a+b", {"a", "b"}},
    {"Mean", "(a+b)*p", {"a", "b"}},
    {"Where", "c?a:b", {"c", "a", "b"}},
    {"AddReluGrad", "v<=0?0:a+b", {"a", "b", "v"}},
    {"PReluGrad", "a>0?d:d*b", {"d", "a", "b"}},
    {"PowGradBase", "b==0?0:d*b*power(a,b-1)", {"d", "a", "b"}},
    {"PowGradExponent", "a==0&&b>=0?0:d*pow(a,b)*LOG(a)", {"d", "a", "b"}},
};

/* What an attribute, the types or left-out operands choose. */
enum { FORM_GELU_TANH, FORM_GELU_TANH_GRAD, FORM_LOW, FORM_HIGH, FORM_BOTH, FORM_COPY, FORM_TO_BOOL };
static const expression kForms[] = {
    [FORM_GELU_TANH] = {"Gelu", "x*SIGMOID(TWICE_U(x))", {"x"}},
    [FORM_GELU_TANH_GRAD] =
        {"GeluGrad",
         "d*SIGMOID(TWICE_U(v))*(1+v*SIGMOID(-TWICE_U(v))*((T)1.5957691216057308+(T)0.21406444881780074*v*v))",
         {"d", "v"}},
    [FORM_LOW] = {"Clip", "x<low?low:x", {"x", "low"}},
    [FORM_HIGH] = {"Clip", "x>high?high:x", {"x", "high"}},
    [FORM_BOTH] = {"Clip", "x<low?(low>high?high:low):x>high?high:x", {"x", "low", "high"}},
    [FORM_COPY] = {"Cast", "x", {"x"}},
    [FORM_TO_BOOL] = {"Cast", "x!=0", {"x"}},
};

static const expression *elementwise_find(const char *op) {
  for (size_t i = 0; i < sizeof kExpressions / sizeof *kExpressions; i++)
    if (strcmp(kExpressions[i].op, op) == 0) return &kExpressions[i];
  return NULL;
}

static bool is_op(const braid_node_desc *node, const char *op) {
  return strcmp(node->op, op) == 0;
}

/* A node as this family sees it: an expression over some of the inputs. */
typedef struct elementwise {
  const expression *expression;
  size_t count;
  size_t inputs[3];
  braid_dtype of, computed; /* the operands'; T */
  double p, q;
} elementwise;

static bool is_chain(const braid_node_desc *node) {
  return is_op(node, "Sum") || is_op(node, "Mean") || is_op(node, "Max") || is_op(node, "Min");
}

static void choose_clip(const braid_node_desc *node, elementwise *e) {
  bool low = braid_launch_has_input(node, 1), high = braid_launch_has_input(node, 2);
  e->expression = &kForms[low && high ? FORM_BOTH : low ? FORM_LOW : high ? FORM_HIGH : FORM_COPY];
  e->count = 1;
  if (low) e->inputs[e->count++] = 1;
  if (high) e->inputs[e->count++] = 2;
}

static void choose_expression(const braid_node_desc *node, elementwise *e) {
  bool tanh_form = strcmp(braid_attr_string(node->attrs, "approximate", "none"), "tanh") == 0;
  e->count = is_chain(node) ? 2 : is_op(node, "CastLike") ? 1 : node->input_count;
  for (size_t i = 0; i < 3; i++) e->inputs[i] = i;
  if (is_op(node, "Clip")) {
    choose_clip(node, e);
  } else if (is_op(node, "Cast") || is_op(node, "CastLike") || (is_chain(node) && node->input_count == 1)) {
    e->expression = &kForms[node->outputs[0].desc.dtype == BRAID_BOOL ? FORM_TO_BOOL : FORM_COPY];
    e->count = 1;
  } else if (is_op(node, "Gelu") || is_op(node, "GeluGrad")) {
    e->expression =
        tanh_form ? &kForms[is_op(node, "Gelu") ? FORM_GELU_TANH : FORM_GELU_TANH_GRAD] : elementwise_find(node->op);
  } else {
    e->expression = elementwise_find(node->op);
  }
}

typedef struct numbers {
  const char *op, *p, *q;
  double p_default, q_default;
} numbers;

static const numbers kNumbers[] = {
#define BRAID_UNARY_ATTRIBUTES(op, p, p_default, q, q_default)                                                         \
  {#op, p, q, p_default, q_default}, {#op "Grad", p, q, p_default, q_default},
#include "graph/ops/unary.def"
#undef BRAID_UNARY_ATTRIBUTES
};

static void choose_numbers(const braid_node_desc *node, elementwise *e) {
  if (is_op(node, "IsInf")) {
    e->p = braid_attr_int(node->attrs, "detect_positive", 1) != 0;
    e->q = braid_attr_int(node->attrs, "detect_negative", 1) != 0;
  }
  for (size_t i = 0; i < sizeof kNumbers / sizeof *kNumbers; i++) {
    const numbers *n = &kNumbers[i];
    if (!is_op(node, n->op)) continue;
    e->p = braid_attr_float(node->attrs, n->p, n->p_default);
    e->q = n->q ? braid_attr_float(node->attrs, n->q, n->q_default) : 0;
  }
}

static elementwise elementwise_describe(const braid_node_desc *node) {
  elementwise e = {.of = node->inputs[is_op(node, "Where") ? 1 : 0].desc.dtype};
  e.computed = braid_dtype_is_half(e.of) ? BRAID_F32 : e.of;
  choose_expression(node, &e);
  choose_numbers(node, &e);
  return e;
}

/* --- matching ------------------------------------------------------------------------------------------------------
 */
/* Does C compute `op` of integers as ONNX means it? */
static bool is_for_integers(const char *op) {
  static const char *const kOps[] = {
      "Add",   "Sub",  "Mul",      "Max", "Min", "Clip", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
      "Where", "Cast", "CastLike", "Neg", "Not", "And",  "Or",    "Xor"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(kOps[i], op) == 0) return true;
  return false;
}

static bool is_cast(const braid_node_desc *node) {
  return is_op(node, "Cast") || is_op(node, "CastLike");
}

static bool elementwise_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const elementwise e = elementwise_describe(node);
  const braid_dtype to = node->outputs[0].desc.dtype;
  if (!braid_launch_type(e.computed) || !braid_launch_element_type(to))
    return braid_launch_refuse(why, why_bytes, "%s is not computed in",
                               braid_dtype_name(braid_launch_element_type(to) ? e.computed : to));
  if (e.computed != BRAID_F32 && !is_for_integers(node->op))
    return braid_launch_refuse(why, why_bytes, "for float32, not for %s", braid_dtype_name(e.computed));
  if (is_cast(node) && e.computed == BRAID_F32 && !braid_launch_is_real(to) && to != BRAID_BOOL)
    return braid_launch_refuse(why, why_bytes, "casts from float32 to an integer saturate, which OpenCL leaves open");
  if (is_cast(node) && to == BRAID_BF16 && e.computed != BRAID_F32 && braid_dtype_size(e.computed) > 2)
    return braid_launch_refuse(why, why_bytes, "casts from %s to bfloat16 would round twice",
                               braid_dtype_name(e.computed));
  for (size_t i = 0; i < e.count; i++) {
    const braid_operand *input = &node->inputs[e.inputs[i]];
    if (!input->present) return braid_launch_refuse(why, why_bytes, "input %zu is left out", e.inputs[i]);
    bool condition = is_op(node, "Where") && i == 0;
    if (!condition && input->desc.dtype != e.of)
      return braid_launch_refuse(why, why_bytes, "operands of different types");
  }
  if (is_chain(node) && node->input_count > BRAID_LAUNCHES + 1)
    return braid_launch_refuse(why, why_bytes, "%zu operands, at most %d", node->input_count, BRAID_LAUNCHES + 1);
  return true;
}

/* Operands of a step: inputs of the node, or what the output holds so far. */
enum { kSoFar = -1 };

static const braid_desc *operand_desc(const braid_node_desc *node, const elementwise *e, int first, size_t i) {
  return i == 0 && first == kSoFar ? &node->outputs[0].desc : &node->inputs[e->inputs[i]].desc;
}

static bool is_flat_step(const braid_node_desc *node, const elementwise *e, int first) {
  for (size_t i = 0; i < e->count; i++) {
    const braid_desc *desc = operand_desc(node, e, first, i);
    if (braid_desc_count(desc) != 1 && braid_desc_count(desc) != braid_desc_count(&node->outputs[0].desc)) return false;
  }
  return true;
}

static braid_launch_nest nest_of(const braid_node_desc *node, const elementwise *e, int first) {
  const braid_desc *out = &node->outputs[0].desc;
  braid_launch_nest nest = {.rank = out->rank};
  memcpy(nest.dims, out->dims, sizeof nest.dims);
  for (size_t i = 0; i < e->count; i++)
    braid_launch_broadcast_steps(operand_desc(node, e, first, i), out->rank, nest.steps[i]);
  braid_launch_nest_merge(&nest);
  return nest;
}

/* The widest loop that a node needs: 0 flat, else the number of dimensions. */
static int widest(const braid_node_desc *node) {
  int most = 0;
  elementwise e = elementwise_describe(node);
  for (size_t step = 0; step == 0 || (is_chain(node) && step + 1 < node->input_count); step++) {
    int first = step ? kSoFar : 0;
    if (step) e.inputs[1] = step + 1;
    if (is_flat_step(node, &e, first)) continue;
    braid_launch_nest nest = nest_of(node, &e, first);
    if (nest.rank > most) most = nest.rank;
  }
  return most;
}

static bool elementwise_match_flat(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!elementwise_match(node, why, why_bytes)) return false;
  if (widest(node) == 0) return true;
  return braid_launch_refuse(why, why_bytes, "operands are broadcast");
}

static bool elementwise_match_three(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!elementwise_match(node, why, why_bytes)) return false;
  int rank = widest(node);
  if (rank <= 3) return true;
  return braid_launch_refuse(why, why_bytes, "operands are broadcast over %d dimensions, more than 3", rank);
}

/* --- planning ------------------------------------------------------------------------------------------------------
 */
/* Expressions go to the compiler as an option, which a space would end. */
static void add_expression(braid_launch_planner *p, const char *text) {
  char packed[512];
  size_t length = 0;
  for (; *text && length + 1 < sizeof packed; text++)
    if (*text != ' ') packed[length++] = *text;
  packed[length] = 0;
  braid_launch_option(p, "-DEXPRESSION=%s", packed);
}

static void elementwise_add_operand(braid_launch_planner *p, const elementwise *e, int first, size_t i) {
  if (i == 0 && first == kSoFar)
    braid_launch_output(p, 0);
  else
    braid_launch_input(p, e->inputs[i]);
}

/* Are all operands floats of the output's size or single ones, some of them of 16 bits? Then eight go at a time. */
static bool is_for_eight(const braid_node_desc *node, const elementwise *e, int first) {
  bool half = braid_dtype_is_half(node->outputs[0].desc.dtype),
       real = braid_launch_is_real(node->outputs[0].desc.dtype);
  for (size_t i = 0; i < e->count; i++) {
    braid_dtype dtype = operand_desc(node, e, first, i)->dtype;
    half |= braid_dtype_is_half(dtype);
    real &= braid_launch_is_real(dtype);
  }
  return half && real;
}

/* width: dimensions of the loop; 0: flat. */
static void elementwise_plan_step(braid_launch_planner *p, const elementwise *e, int first, int width) {
  const braid_node_desc *node = p->node;
  const braid_desc *out = &node->outputs[0].desc;
  int64_t count = braid_desc_count(out);
  bool eight = width == 0 && is_for_eight(node, e, first);
  braid_launch_begin(p, "elementwise",
                     eight        ? "flat_eight"
                     : width == 0 ? "flat"
                     : width == 3 ? "broadcast3"
                                  : "broadcast8");
  braid_launch_option(p, "-cl-single-precision-constant -DARITY=%zu -DT=%s -DTO=%s", e->count,
                      braid_launch_type(e->computed), braid_launch_element_type(out->dtype));
  if (eight) braid_launch_option(p, "-DEIGHT%s", p->traits->aligned ? " -DALIGNED" : "");
  for (size_t i = 0; i < e->count; i++) {
    const braid_desc *desc = operand_desc(node, e, first, i);
    braid_launch_option(p, "-DT%zu=%s -DV%zu=%s -DE%zu=%d", i, braid_launch_element_type(desc->dtype), i,
                        e->expression->names[i], i, braid_desc_count(desc) == 1 && width == 0 ? 0 : 1);
    elementwise_add_operand(p, e, first, i);
  }
  add_expression(p, e->expression->text);
  braid_launch_output(p, 0);
  braid_launch_float(p, e->p);
  braid_launch_float(p, e->q);
  braid_launch_index(p, count);
  if (width) {
    braid_launch_nest nest = nest_of(node, e, first);
    braid_launch_nest_sizes(p, &nest, width);
    for (size_t i = 0; i < e->count; i++) braid_launch_nest_steps(p, &nest, (int)i, width);
  }
  braid_launch_range(p, eight ? braid_launch_ceil_div(count, 8) : count);
}

/* Chains: x0 op x1, then that op x2, and so on. A mean is scaled with the last step. */
static braid_status elementwise_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                     braid_launch_recipe *recipe, int width) {
  braid_launch_planner p;
  elementwise e = elementwise_describe(node);
  braid_launch_plan_begin(&p, traits, node, recipe);
  size_t steps = is_chain(node) && node->input_count > 1 ? node->input_count - 1 : 1;
  for (size_t step = 0; step < steps; step++) {
    if (step) e.inputs[1] = step + 1;
    e.p = is_op(node, "Mean") && e.count > 1 ? (step + 1 == steps ? 1.0 / (double)node->input_count : 1) : e.p;
    elementwise_plan_step(&p, &e, step ? kSoFar : 0, width);
  }
  return braid_launch_plan_end(&p);
}

static braid_status elementwise_plan_flat(const braid_launch_traits *traits, const braid_node_desc *node,
                                          braid_launch_recipe *recipe) {
  return elementwise_plan(traits, node, recipe, 0);
}
static braid_status elementwise_plan_three(const braid_launch_traits *traits, const braid_node_desc *node,
                                           braid_launch_recipe *recipe) {
  return elementwise_plan(traits, node, recipe, 3);
}
static braid_status elementwise_plan_any(const braid_launch_traits *traits, const braid_node_desc *node,
                                         braid_launch_recipe *recipe) {
  return elementwise_plan(traits, node, recipe, BRAID_MAX_RANK);
}

static const braid_launch_kernel kFlat = {.plan = elementwise_plan_flat}, kThree = {.plan = elementwise_plan_three},
                                 kAny = {.plan = elementwise_plan_any};

/* An operand whose elements are the output's memory is read at the place that is written. */
#define KERNELS(op_name)                                                                                               \
  {.op = op_name, .name = "flat", .match = elementwise_match_flat, .in_place = 7, .implementation = &kFlat},           \
      {.op = op_name,                                                                                                  \
       .name = "broadcast3",                                                                                           \
       .match = elementwise_match_three,                                                                               \
       .in_place = 7,                                                                                                  \
       .implementation = &kThree},                                                                                     \
  {                                                                                                                    \
    .op = op_name, .name = "broadcast", .match = elementwise_match, .in_place = 7, .implementation = &kAny             \
  }
/* The result is of another size than the operand, whatever its type. */
#define KERNELS_APART(op_name)                                                                                         \
  {.op = op_name, .name = "flat", .match = elementwise_match_flat, .implementation = &kFlat},                          \
      {.op = op_name, .name = "broadcast3", .match = elementwise_match_three, .implementation = &kThree}, {            \
    .op = op_name, .name = "broadcast", .match = elementwise_match, .implementation = &kAny                            \
  }
#define CHAINS(op_name)                                                                                                \
  {.op = op_name, .name = "flat", .match = elementwise_match_flat, .in_place = 1, .implementation = &kFlat},           \
      {.op = op_name,                                                                                                  \
       .name = "broadcast3",                                                                                           \
       .match = elementwise_match_three,                                                                               \
       .in_place = 1,                                                                                                  \
       .implementation = &kThree},                                                                                     \
  {                                                                                                                    \
    .op = op_name, .name = "broadcast", .match = elementwise_match, .in_place = 1, .implementation = &kAny             \
  }

static const braid_kernel kKernels[] = {
#define BRAID_UNARY(op, types, reads, forward, gradient) KERNELS(#op), KERNELS(#op "Grad"),
#include "graph/ops/unary.def"
#undef BRAID_UNARY
    KERNELS("Neg"),
    KERNELS("Sign"),
    KERNELS("Floor"),
    KERNELS("Ceil"),
    KERNELS("Round"),
    KERNELS("Not"),
    KERNELS_APART("IsNaN"),
    KERNELS_APART("IsInf"),
    KERNELS("Clip"),
    KERNELS("Cast"),
    KERNELS("CastLike"),
    KERNELS("Add"),
    KERNELS("AddRelu"),
    KERNELS("AddReluGrad"),
    KERNELS("Sub"),
    KERNELS("Mul"),
    KERNELS("Div"),
    KERNELS("Pow"),
    KERNELS("PRelu"),
    KERNELS("Equal"),
    KERNELS("Less"),
    KERNELS("LessOrEqual"),
    KERNELS("Greater"),
    KERNELS("GreaterOrEqual"),
    KERNELS("And"),
    KERNELS("Or"),
    KERNELS("Xor"),
    KERNELS("Where"),
    KERNELS("PReluGrad"),
    KERNELS("PowGradBase"),
    KERNELS("PowGradExponent"),
    CHAINS("Sum"),
    CHAINS("Mean"),
    CHAINS("Max"),
    CHAINS("Min"),
};

const braid_launch_family braid_launch_family_elementwise = {kKernels, sizeof kKernels / sizeof *kKernels, false};
