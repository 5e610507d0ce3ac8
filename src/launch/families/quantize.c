/* QuantizeLinear and DequantizeLinear between float32 and integers of 8 or 16 bits, with one scale or one for each
 * place of an axis: what a model that was trained in integers is saved with. */
#include <string.h>

#include "launch/families.h"
#include "launch/planner.h"
#include "tensor/narrow.h"

/* Places of a scale each, and elements within one. */
typedef struct scaling {
  bool single;
  int64_t size, inner;
} scaling;

static scaling scaling_of(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc;
  scaling s = {.single = braid_desc_count(&node->inputs[1].desc) == 1, .size = 1, .inner = 1};
  if (s.single) return s;
  int64_t axis = braid_attr_int(node->attrs, "axis", 1);
  if (axis < 0) axis += x->rank;
  s.size = x->dims[axis];
  for (int64_t i = axis + 1; i < x->rank; i++) s.inner *= x->dims[i];
  return s;
}

static bool to_integers(const braid_node_desc *node) {
  return strcmp(node->op, "QuantizeLinear") == 0;
}

static bool quantize_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool to = to_integers(node);
  braid_dtype real = to ? node->inputs[0].desc.dtype : node->outputs[0].desc.dtype;
  braid_dtype quantized = to ? node->outputs[0].desc.dtype : node->inputs[0].desc.dtype;
  if (real != BRAID_F32 || node->inputs[1].desc.dtype != BRAID_F32)
    return braid_launch_refuse(why, why_bytes, "for float32 numbers and scales");
  if (quantized != BRAID_I8 && quantized != BRAID_U8 && quantized != BRAID_I16 && quantized != BRAID_U16)
    return braid_launch_refuse(why, why_bytes, "for integers of 8 or 16 bits, not for %s", braid_dtype_name(quantized));
  if (braid_attr_int(node->attrs, "block_size", 0)) return braid_launch_refuse(why, why_bytes, "scales of blocks");
  /* 1: float32, by ONNX's numbers */
  if (to && braid_attr_int(node->attrs, "precision", 1) > 1)
    return braid_launch_refuse(why, why_bytes, "divides in float32");
  return true;
}

static braid_status plan_quantize(const braid_launch_traits *traits, const braid_node_desc *node,
                                  braid_launch_recipe *recipe) {
  braid_launch_planner p;
  scaling s = scaling_of(node);
  bool to = to_integers(node);
  braid_dtype quantized = to ? node->outputs[0].desc.dtype : node->inputs[0].desc.dtype;
  int64_t count = braid_desc_count(&node->inputs[0].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "quantize", to ? "quantize" : "dequantize");
  braid_launch_option(&p, "-DQ=%s%s%s", braid_launch_type(quantized), s.single ? " -DSINGLE" : "",
                      braid_launch_has_input(node, 2) ? " -DZEROS" : "");
  for (size_t i = 0; i < 3; i++) braid_launch_input(&p, i);
  braid_launch_output(&p, 0);
  braid_launch_index(&p, count);
  braid_launch_index(&p, s.inner);
  braid_launch_index(&p, s.size);
  if (to) {
    int64_t steps = (int64_t)1 << braid_dtype_bits(quantized);
    bool is_signed = quantized == BRAID_I8 || quantized == BRAID_I16;
    braid_launch_int(&p, is_signed ? -steps / 2 : 0);
    braid_launch_int(&p, is_signed ? steps / 2 - 1 : steps - 1);
  }
  braid_launch_range(&p, count);
  return braid_launch_plan_end(&p);
}

static const braid_launch_kernel kQuantize = {.plan = plan_quantize};

static const braid_kernel kKernels[] = {
    {.op = "DequantizeLinear", .name = "dequantize", .match = quantize_match, .implementation = &kQuantize},
    {.op = "QuantizeLinear", .name = "quantize", .match = quantize_match, .implementation = &kQuantize},
};

const braid_launch_family braid_launch_family_quantize = {kKernels, sizeof kKernels / sizeof *kKernels, false};
