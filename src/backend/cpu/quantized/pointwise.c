/* Sums, products and activations of bytes, element by element, and parts of a QLinearConcat: what takes one or two
 * operands is a table of 256 bytes, or a loop over both. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/quantized/bytes_isa.h"
#include "backend/cpu/quantized/scales.h"
#include "backend/cpu/spans/activation.h"

enum { kPiece = 1 << 14 }; /* elements of a task */

/* --- two operands --------------------------------------------------------------------------------------------------
 */
static bool pair_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  return braid_bytes_match(node, (const size_t[]){0, 3}, 2, 6, why, why_bytes);
}

static braid_status pair_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  braid_bytes_pair p = {.a = braid_bytes_scale_of(node, args, node->inputs[0].desc.dtype, 1),
                        .b = braid_bytes_scale_of(node, args, node->inputs[3].desc.dtype, 4),
                        .y = braid_bytes_result_of(node, args, 6)};
  bool adds = strcmp(node->op, "QLinearAdd") == 0;
  int64_t count = braid_desc_count(&node->inputs[0].desc), pieces = (count + kPiece - 1) / kPiece;
  bool one = braid_desc_count(&node->inputs[3].desc) == 1 && count > 1;
  p.a_factor = adds ? p.a.scale / p.y.scale : p.a.scale * p.b.scale / p.y.scale;
  p.b_factor = p.b.scale / p.y.scale;
  const uint8_t *a = args->inputs[0], *b = args->inputs[3];
  uint8_t *y = args->outputs[0];
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t at = piece * kPiece, some = count - at < kPiece ? count - at : kPiece;
    if (adds && one)
      BRAID_ISA_CALL(braid_bytes_add_one, &p, a + at, b, some, y + at);
    else if (adds)
      BRAID_ISA_CALL(braid_bytes_add, &p, a + at, b + at, some, y + at);
    else if (one)
      BRAID_ISA_CALL(braid_bytes_multiply_one, &p, a + at, b, some, y + at);
    else
      BRAID_ISA_CALL(braid_bytes_multiply, &p, a + at, b + at, some, y + at);
  }
  return BRAID_OK;
}

/* --- one operand ---------------------------------------------------------------------------------------------------
 */
/* y of each byte x may be, by the loops that compute the same over real numbers. */
static void make_table(const braid_bytes_scale *x, const braid_bytes_scale *y, const braid_activation *activation,
                       uint8_t table[256]) {
  float values[256];
  for (int i = 0; i < 256; i++) values[i] = (float)((x->is_signed ? (int8_t)i : i) - x->zero) * x->scale;
  if (activation && activation->entry) braid_activation_run(activation, values, 256);
  if (y->is_signed)
    BRAID_ISA_CALL(braid_quantize_i8, values, 256, y->scale, (float)y->zero, (int8_t *)table);
  else
    BRAID_ISA_CALL(braid_quantize_u8, values, 256, y->scale, (float)y->zero, table);
}

static bool one_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_activation activation;
  if (!braid_activation_read(node, &activation)) {
    snprintf(why, why_bytes, "activation %s", braid_attr_string(node->attrs, "activation", ""));
    return false;
  }
  return braid_bytes_match(node, (const size_t[]){0}, 1, 3, why, why_bytes);
}

static braid_status one_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  braid_activation activation;
  uint8_t table[256];
  braid_bytes_scale x = braid_bytes_scale_of(node, args, node->inputs[0].desc.dtype, 1);
  braid_bytes_scale y = braid_bytes_scale_of(node, args, node->outputs[0].desc.dtype, 3);
  (void)braid_activation_read(node, &activation); /* matched */
  make_table(&x, &y, &activation, table);
  int64_t count = braid_desc_count(&node->inputs[0].desc), pieces = (count + kPiece - 1) / kPiece;
  const uint8_t *from = args->inputs[0];
  uint8_t *to = args->outputs[0];
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t end = (piece + 1) * kPiece < count ? (piece + 1) * kPiece : count;
    for (int64_t i = piece * kPiece; i < end; i++) to[i] = table[from[i]];
  }
  return BRAID_OK;
}

/* --- concatenation -------------------------------------------------------------------------------------------------
 */
static bool concat_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t at = 2; at < node->input_count; at += 3)
    if (!braid_bytes_match(node, &at, 1, 0, why, why_bytes)) return false;
  return true;
}

/* Channels of images are concatenated place by place. */
static void concat_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  const braid_desc *y = &node->outputs[0].desc;
  int64_t axis = braid_attr_int(node->attrs, "axis", 0);
  bool channels = y->rank >= 3 && y->rank <= 5 && (axis == 1 || axis == 1 - y->rank);
  for (size_t i = 0; i < node->input_count; i++)
    inputs[i] = channels && i >= 2 && i % 3 == 2 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  outputs[0] = channels ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
}

/* Bytes of a shape from dimension `axis` on, in the node's layout, and how often these follow each other. */
static int64_t run_length(const braid_desc *desc, int64_t axis, bool channels, int64_t *runs) {
  int64_t length = channels ? desc->dims[1] : 1;
  for (int64_t i = axis; i < desc->rank && !channels; i++) length *= desc->dims[i];
  int64_t count = braid_desc_count(desc);
  *runs = length ? count / length : 0;
  return length;
}

static braid_status concat_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *all = &node->outputs[0].desc;
  bool channels = all->layout == BRAID_LAYOUT_BHWC;
  int64_t axis = braid_attr_int(node->attrs, "axis", 0), at = 0, runs;
  if (axis < 0) axis += all->rank;
  int64_t step = run_length(all, axis, channels, &runs);
  braid_bytes_scale y = braid_bytes_scale_of(node, args, all->dtype, 0);
  for (size_t part = 2; part < node->input_count; part += 3) {
    uint8_t table[256];
    int64_t length = run_length(&node->inputs[part].desc, axis, channels, &runs);
    braid_bytes_scale x = braid_bytes_scale_of(node, args, node->inputs[part].desc.dtype, part + 1);
    bool same = x.is_signed == y.is_signed && x.zero == y.zero && x.scale == y.scale;
    const uint8_t *from = args->inputs[part];
    uint8_t *to = (uint8_t *)args->outputs[0] + at;
    make_table(&x, &y, NULL, table);
#pragma omp parallel for schedule(static) if (runs * length > kPiece)
    for (int64_t run = 0; run < runs; run++) {
      if (same)
        memcpy(to + run * step, from + run * length, (size_t)length);
      else
        for (int64_t i = 0; i < length; i++) to[run * step + i] = table[from[run * length + i]];
    }
    at += length;
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kPair = {.run = pair_run}, kOne = {.run = one_run}, kConcat = {.run = concat_run};
static const braid_kernel kKernels[] = {
    {.op = "QLinearAdd", .name = "bytes_add", .match = pair_match, .implementation = &kPair},
    {.op = "QLinearMul", .name = "bytes_mul", .match = pair_match, .implementation = &kPair},
    {.op = "QLinearActivation",
     .name = "bytes_activation",
     .match = one_match,

     .implementation = &kOne},
    {.op = "QLinearConcat",
     .name = "bytes_concat",
     .match = concat_match,
     .layouts = concat_layouts,
     .implementation = &kConcat},
};

extern const braid_cpu_table braid_cpu_quantized_pointwise;
const braid_cpu_table braid_cpu_quantized_pointwise = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
