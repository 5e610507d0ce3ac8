/* LayoutConvert: the runtime's own op, a tensor rewritten in another layout (or copied in the same). Not part of
 * models.
 *
 * The layouts of activations are strides over (batch, channel block, channel within the block of 16, place); any other
 * is gone through by tables of what each index of each dimension adds to the place. */
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
  static void put_three_last_##type(int64_t places, int64_t step, const type *restrict from, type *restrict to) {      \
    for (int64_t s = 0; s < places; s++) {                                                                             \
      to[3 * s] = from[s];                                                                                             \
      to[3 * s + 1] = from[s + step];                                                                                  \
      to[3 * s + 2] = from[s + 2 * step];                                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static void convert_block_##type(const conversion *shape, const type *from, type *to, int64_t channels) {            \
    const braid_strides *in = &shape->from, *out = &shape->to;                                                         \
    if (shape->channels == 3 && in->s == 1 && out->s == 3 && out->c == 1) {                                            \
      put_three_last_##type(shape->places, in->c, from, to);                                                           \
      return;                                                                                                          \
    }                                                                                                                  \
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

/* --- any layouts ---------------------------------------------------------------------------------------------------
 */
/* Rows of the target's innermost dimension; the others, outermost first, count the rows. */
typedef struct tables {
  int rank;
  int order[BRAID_MAX_RANK];
  int64_t rows, dims[BRAID_MAX_RANK], padded[BRAID_MAX_RANK];
  int64_t *from[BRAID_MAX_RANK], *to[BRAID_MAX_RANK];
} tables;

static void destroy(const braid_allocator *allocator, void *state) {
  braid_free(allocator, state);
}

static void fill_tables(const braid_desc *from, const braid_desc *to, tables *t, int64_t *room) {
  braid_places in = braid_places_of(from), out = braid_places_of(to);
  braid_layout_parts parts = braid_layout_take_apart(to->layout, to->rank);
  int last = parts.block_count ? parts.blocks[parts.block_count - 1].dim : parts.order[to->rank - 1], count = 0;
  *t = (tables){.rank = to->rank, .rows = 1};
  for (int i = 0; i < to->rank; i++)
    if (parts.order[i] != last) t->order[count++] = parts.order[i];
  t->order[count] = last;
  for (int d = 0; d < to->rank; d++) {
    t->dims[d] = to->dims[d];
    t->padded[d] = out.outer[d] * out.unit[d];
    if (d != last) t->rows *= t->padded[d];
    t->from[d] = room, room += t->padded[d];
    t->to[d] = room, room += t->padded[d];
    for (int64_t i = 0; i < t->padded[d]; i++) {
      t->from[d][i] = i < t->dims[d] ? braid_places_at(&in, d, i) : 0;
      t->to[d][i] = braid_places_at(&out, d, i);
    }
  }
}

/* The state: tables where the layouts need them, NULL where strides do. */
static braid_status layout_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  braid_strides ignored;
  (void)info;
  *state = NULL;
  bool image = to->rank >= 3 && braid_layout_strides(from->layout, 1, 1, 1, &ignored) &&
               braid_layout_strides(to->layout, 1, 1, 1, &ignored);
  if (image || braid_layout_same_places(from, to)) return BRAID_OK;
  braid_places out = braid_places_of(to);
  size_t count = 0;
  for (int d = 0; d < out.rank; d++) count += 2 * (size_t)(out.outer[d] * out.unit[d]);
  tables *t = braid_alloc(allocator, sizeof *t + count * sizeof(int64_t));
  if (!t) return BRAID_NO_MEMORY;
  fill_tables(from, to, t, (int64_t *)(t + 1));
  *state = t;
  return BRAID_OK;
}

/* Where a row begins. False: it is padding. */
static bool find_row(const tables *t, int64_t row, int64_t *from, int64_t *to) {
  bool inside = true;
  *from = *to = 0;
  for (int i = t->rank - 1; i-- > 0;) {
    int d = t->order[i];
    int64_t index = row % t->padded[d];
    row /= t->padded[d];
    inside &= index < t->dims[d];
    *from += t->from[d][index];
    *to += t->to[d][index];
  }
  return inside;
}

#define DEFINE_CONVERT_ROWS(type)                                                                                      \
  static void convert_rows_##type(const tables *t, const type *from, type *to) {                                       \
    int last = t->order[t->rank - 1];                                                                                  \
    const int64_t *in = t->from[last], *out = t->to[last];                                                             \
    _Pragma("omp parallel for schedule(static)") for (int64_t row = 0; row < t->rows; row++) {                         \
      int64_t first, target;                                                                                           \
      int64_t count = find_row(t, row, &first, &target) ? t->dims[last] : 0;                                           \
      for (int64_t i = 0; i < count; i++) to[target + out[i]] = from[first + in[i]];                                   \
      for (int64_t i = count; i < t->padded[last]; i++) to[target + out[i]] = 0;                                       \
    }                                                                                                                  \
  }

DEFINE_CONVERT_ROWS(uint8_t)
DEFINE_CONVERT_ROWS(uint16_t)
DEFINE_CONVERT_ROWS(uint32_t)
DEFINE_CONVERT_ROWS(uint64_t)
#undef DEFINE_CONVERT_ROWS

static void convert_any(const tables *t, size_t size, const void *from, void *to) {
  if (size == 1)
    convert_rows_uint8_t(t, from, to);
  else if (size == 2)
    convert_rows_uint16_t(t, from, to);
  else if (size == 4)
    convert_rows_uint32_t(t, from, to);
  else
    convert_rows_uint64_t(t, from, to);
}

static void convert_image(const braid_desc *from, const braid_desc *to, const void *in, void *out) {
  conversion shape = {.batch = from->dims[0], .channels = from->dims[1], .places = 1};
  for (int i = 2; i < from->rank; i++) shape.places *= from->dims[i];
  (void)braid_layout_strides(from->layout, shape.batch, shape.channels, shape.places, &shape.from);
  (void)braid_layout_strides(to->layout, shape.batch, shape.channels, shape.places, &shape.to);
  shape.pad = to->layout == BRAID_LAYOUT_BLOCKED16;
  switch (braid_dtype_size(from->dtype)) {
  case 1:
    convert_uint8_t(&shape, in, out);
    break;
  case 2:
    convert_uint16_t(&shape, in, out);
    break;
  case 4:
    convert_uint32_t(&shape, in, out);
    break;
  default:
    convert_uint64_t(&shape, in, out);
    break;
  }
}

static braid_status layout_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (state)
    convert_any(state, braid_dtype_size(to->dtype), args->inputs[0], args->outputs[0]);
  else if (braid_layout_same_places(from, to))
    copy(args->outputs[0], args->inputs[0], braid_desc_bytes(to));
  else
    convert_image(from, to, args->inputs[0], args->outputs[0]);
  return BRAID_OK;
}

static bool layout_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (from->dtype == to->dtype && braid_desc_same_shape(from, to)) return true;
  snprintf(why, why_bytes, "type or shape would change");
  return false;
}

static const braid_cpu_kernel kConvert = {.create = layout_create, .run = layout_run, .destroy = destroy};
static const braid_kernel kKernels[] = {
    {.op = "LayoutConvert", .name = "ref_layout", .match = layout_match, .implementation = &kConvert},
};

extern const braid_cpu_table braid_cpu_movement_layout;
const braid_cpu_table braid_cpu_movement_layout = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
