/* LayoutConvert: the runtime's own op, a tensor rewritten in another layout (or copied in the same). Not part of
 * models.
 *
 * A tensor is seen as (batch, channel block, channel within the block of 16, place), in which every layout is a matter
 * of strides, the blocked one included. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "tensor/layout.h"

enum { kBlock = BRAID_LAYOUT_BLOCK };

typedef struct conversion {
  int64_t batch, channels, places;
  braid_strides from, to;
  bool pad; /* the target has padding channels to be zeroed */
} conversion;

/* One channel block of one image: the inner loop runs over channels, so that the 16 rows read (or written) go along
 * together and the other side is contiguous for BHWC and BLOCKED16. */
#define DEFINE_CONVERT(type)                                                                                           \
  static void convert_block_##type(const conversion *shape, const type *from, type *to, int64_t channels) {            \
    const braid_strides *in = &shape->from, *out = &shape->to;                                                         \
    for (int64_t s = 0; s < shape->places; s++) {                                                                      \
      for (int64_t c = 0; c < channels; c++) to[s * out->s + c * out->c] = from[s * in->s + c * in->c];                \
      for (int64_t c = channels; shape->pad && c < kBlock; c++) to[s * out->s + c * out->c] = 0;                       \
    }                                                                                                                  \
  }                                                                                                                    \
  static void convert_##type(const conversion *shape, const void *from, void *to) {                                    \
    int64_t blocks = (shape->channels + kBlock - 1) / kBlock;                                                          \
    _Pragma("omp parallel for collapse(2)") for (int64_t b = 0; b < shape->batch; b++) for (int64_t k = 0; k < blocks; \
                                                                                            k++) {                     \
      int64_t left = shape->channels - k * kBlock;                                                                     \
      convert_block_##type(shape, (const type *)from + b * shape->from.b + k * shape->from.block,                      \
                           (type *)to + b * shape->to.b + k * shape->to.block, left < kBlock ? left : kBlock);         \
    }                                                                                                                  \
  }

DEFINE_CONVERT(uint8_t)
DEFINE_CONVERT(uint16_t)
DEFINE_CONVERT(uint32_t)
DEFINE_CONVERT(uint64_t)
#undef DEFINE_CONVERT

static void copy(void *to, const void *from, size_t bytes) {
  static const size_t kChunk = (size_t)1 << 20;
  if (bytes <= kChunk) {
    memcpy(to, from, bytes);
    return;
  }
  size_t chunks = (bytes + kChunk - 1) / kChunk;
#pragma omp parallel for
  for (size_t i = 0; i < chunks; i++) {
    size_t start = i * kChunk, left = bytes - start;
    memcpy((uint8_t *)to + start, (const uint8_t *)from + start, left < kChunk ? left : kChunk);
  }
}

static braid_status run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (from->layout == to->layout || from->rank < 3) {
    copy(args->outputs[0], args->inputs[0], braid_desc_bytes(to));
    return BRAID_OK;
  }
  conversion shape = {.batch = from->dims[0], .channels = from->dims[1], .places = 1};
  for (int i = 2; i < from->rank; i++) shape.places *= from->dims[i];
  shape.from = braid_layout_strides(from->layout, shape.batch, shape.channels, shape.places);
  shape.to = braid_layout_strides(to->layout, shape.batch, shape.channels, shape.places);
  shape.pad = to->layout == BRAID_LAYOUT_BLOCKED16;
  switch (braid_dtype_size(from->dtype)) {
  case 1:
    convert_uint8_t(&shape, args->inputs[0], args->outputs[0]);
    break;
  case 2:
    convert_uint16_t(&shape, args->inputs[0], args->outputs[0]);
    break;
  case 4:
    convert_uint32_t(&shape, args->inputs[0], args->outputs[0]);
    break;
  default:
    convert_uint64_t(&shape, args->inputs[0], args->outputs[0]);
    break;
  }
  return BRAID_OK;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (from->dtype == to->dtype && braid_desc_same_shape(from, to)) return true;
  snprintf(why, why_bytes, "type or shape would change");
  return false;
}

static const braid_cpu_kernel kConvert = {.run = run};
static const braid_kernel kKernels[] = {
    {.op = "LayoutConvert", .name = "ref_layout", .match = match, .implementation = &kConvert},
};

extern const braid_cpu_table braid_cpu_movement_layout;
const braid_cpu_table braid_cpu_movement_layout = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
