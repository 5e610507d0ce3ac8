/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear between float32 and 8-bit integers: a line of elements
 * that share a scale at a time, to the reference's bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/quantized/bytes_isa.h"
#include "graph/onnx_dtype.h"
#include "tensor/dtype.h"

enum { kPiece = 1 << 14 }; /* elements of a task */

/* x seen as [outer][size][inner], with one scale for each place of the middle; or as one line. */
typedef struct lines {
  int64_t outer, size, inner;
} lines;

static lines lines_of(const braid_node_desc *node) {
  const braid_desc *x = &node->inputs[0].desc;
  if (braid_desc_count(&node->inputs[1].desc) == 1) return (lines){1, 1, braid_desc_count(x)};
  int64_t axis = braid_attr_int(node->attrs, "axis", 1);
  if (axis < 0) axis += x->rank;
  lines l = {1, x->dims[axis], 1};
  for (int64_t i = 0; i < x->rank; i++)
    if (i != axis) *(i < axis ? &l.outer : &l.inner) *= x->dims[i];
  return l;
}

static bool quantize_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool quantizes = strcmp(node->op, "QuantizeLinear") == 0;
  braid_dtype x = node->inputs[0].desc.dtype, y = node->outputs[0].desc.dtype;
  const char *reason = NULL;
  if (!(quantizes ? x == BRAID_F32 && braid_dtype_is_byte(y) : braid_dtype_is_byte(x) && y == BRAID_F32))
    reason = "between float32 and 8-bit integers only";
  else if (node->inputs[1].desc.dtype != BRAID_F32)
    reason = "float32 scales only";
  else if (braid_attr_int(node->attrs, "block_size", 0) != 0)
    reason = "blocked scales";
  else if (braid_attr_int(node->attrs, "precision", 0) &&
           braid_dtype_from_onnx(braid_attr_int(node->attrs, "precision", 0)) != BRAID_F32)
    reason = "division in float32 only";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

/* A piece of a line, from element `at` of the tensor on. */
static void run_piece(const braid_node_desc *node, const braid_cpu_args *args, int64_t place, int64_t at,
                      int64_t count) {
  bool quantizes = node->inputs[0].desc.dtype == BRAID_F32;
  bool is_signed = (quantizes ? &node->outputs[0] : &node->inputs[0])->desc.dtype == BRAID_I8;
  float scale = ((const float *)args->inputs[1])[place];
  const void *zeros = node->input_count > 2 && node->inputs[2].present ? args->inputs[2] : NULL;
  int32_t zero = !zeros ? 0 : is_signed ? ((const int8_t *)zeros)[place] : ((const uint8_t *)zeros)[place];
  if (quantizes && is_signed)
    BRAID_ISA_CALL(braid_quantize_i8, (const float *)args->inputs[0] + at, count, scale, (float)zero,
                   (int8_t *)args->outputs[0] + at);
  else if (quantizes)
    BRAID_ISA_CALL(braid_quantize_u8, (const float *)args->inputs[0] + at, count, scale, (float)zero,
                   (uint8_t *)args->outputs[0] + at);
  else if (is_signed)
    BRAID_ISA_CALL(braid_dequantize_i8, (const int8_t *)args->inputs[0] + at, count, scale, zero,
                   (float *)args->outputs[0] + at);
  else
    BRAID_ISA_CALL(braid_dequantize_u8, (const uint8_t *)args->inputs[0] + at, count, scale, zero,
                   (float *)args->outputs[0] + at);
}

static braid_status quantize_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  lines l = lines_of(node);
  int64_t pieces = (l.inner + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static) if (l.outer * l.size * l.inner > kPiece)
  for (int64_t task = 0; task < l.outer * l.size * pieces; task++) {
    int64_t line = task / pieces, from = task % pieces * kPiece;
    int64_t count = l.inner - from < kPiece ? l.inner - from : kPiece;
    run_piece(node, args, line % l.size, line * l.inner + from, count);
  }
  return BRAID_OK;
}

static braid_status run_dynamic(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t count = braid_desc_count(&node->inputs[0].desc), pieces = (count + kPiece - 1) / kPiece;
  const float *x = args->inputs[0];
  uint8_t *y = args->outputs[0];
  float low = 0, high = 0;
#pragma omp parallel for schedule(static) reduction(min : low) reduction(max : high) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++)
    BRAID_ISA_CALL(braid_widen, x + i * kPiece, count - i * kPiece < kPiece ? count - i * kPiece : kPiece, &low, &high);
  float scale = high > low ? (high - low) / 255 : 1, zero = 0;
  if (scale > 0) zero = fminf(fmaxf(rintf(-low / scale), 0), 255);
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++) {
    int64_t some = count - i * kPiece < kPiece ? count - i * kPiece : kPiece;
    if (scale > 0)
      BRAID_ISA_CALL(braid_quantize_u8, x + i * kPiece, some, scale, zero, y + i * kPiece);
    else
      memset(y + i * kPiece, 0, (size_t)some);
  }
  *(float *)args->outputs[1] = scale;
  *(uint8_t *)args->outputs[2] = (uint8_t)zero;
  return BRAID_OK;
}

static bool match_dynamic(const braid_node_desc *node, char *why, size_t why_bytes) {
  bool single = node->inputs[0].desc.dtype == BRAID_F32;
  if (!single) snprintf(why, why_bytes, "float32 only");
  return single;
}

static const braid_cpu_kernel kDynamic = {.run = run_dynamic};
static const braid_cpu_kernel kLines = {.run = quantize_run};
static const braid_kernel kKernels[] = {
    {.op = "DynamicQuantizeLinear",
     .name = "fast_dynamic_quantize",
     .match = match_dynamic,
     .implementation = &kDynamic},
    {.op = "QuantizeLinear", .name = "fast_quantize", .match = quantize_match, .implementation = &kLines},
    {.op = "DequantizeLinear", .name = "fast_dequantize", .match = quantize_match, .implementation = &kLines},
};

extern const braid_cpu_table braid_cpu_quantized_quantize;
const braid_cpu_table braid_cpu_quantized_quantize = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
