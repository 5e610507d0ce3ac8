/* Plain kernels of the ops that move elements: any element type, by its size. */
#include <string.h>

#include "backend/cpu/movement/map.h"
#include "base/try.h"
#include "graph/ops/movement.h"

/* --- views -------------------------------------------------------------------------------------------------------- */
static braid_status run_copy(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  size_t bytes = braid_desc_bytes(&node->outputs[0].desc);
  if (bytes && args->outputs[0] != args->inputs[0]) memcpy(args->outputs[0], args->inputs[0], bytes);
  return BRAID_OK;
}

/* --- one input by offsets ------------------------------------------------------------------------------------------
 */
static braid_status run_map(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  braid_map_run(state, args->inputs[0], args->outputs[0], NULL);
  return BRAID_OK;
}

static braid_status new_map(const braid_allocator *allocator, const braid_node_desc *node, braid_map **map) {
  const braid_desc *y = &node->outputs[0].desc;
  return braid_map_create(allocator, y->rank, y->dims, braid_dtype_size(y->dtype), map);
}

static braid_status create_transpose(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                     braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t strides[BRAID_MAX_RANK];
  size_t count;
  const int64_t *perm = braid_attr_ints(node->attrs, "perm", &count);
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  braid_map_strides(x->dims, x->rank, strides);
  for (int d = 0; d < y->rank; d++) {
    int64_t from = perm ? perm[d] : y->rank - 1 - d;
    if (from < 0) from += y->rank;
    braid_map_line(map, d, 0, strides[from]);
  }
  *state = map;
  return BRAID_OK;
}

static void slice_of(const braid_node_desc *node, const braid_desc *x, braid_slice *slice) {
  int64_t lists[4][BRAID_MAX_RANK];
  size_t counts[4];
  for (size_t i = 0; i < 4; i++) braid_map_list(node, 1 + i, lists[i], BRAID_MAX_RANK, &counts[i]);
  (void)braid_slice_init(x, lists[0], lists[1], counts[2] ? lists[2] : NULL, counts[3] ? lists[3] : NULL, counts[0],
                         slice);
}

static braid_status create_slice(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                 braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t strides[BRAID_MAX_RANK];
  braid_slice slice;
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  slice_of(node, x, &slice);
  braid_map_strides(x->dims, x->rank, strides);
  for (int d = 0; d < y->rank; d++) braid_map_line(map, d, slice.start[d] * strides[d], slice.step[d] * strides[d]);
  *state = map;
  return BRAID_OK;
}

/* The inverse: where in dy an element of x has its gradient; nowhere: zero. */
static braid_status create_slice_grad(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                      braid_prepared_info *info) {
  (void)info;
  const braid_desc *dy = &node->inputs[0].desc, *x = &node->outputs[0].desc;
  int64_t strides[BRAID_MAX_RANK];
  braid_slice slice;
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  slice_of(node, x, &slice);
  braid_map_strides(dy->dims, dy->rank, strides);
  for (int d = 0; d < x->rank; d++) {
    int64_t *table;
    BRAID_TRY(braid_map_table(allocator, map, d, &table));
    for (int64_t i = 0; i < x->dims[d]; i++) table[i] = -1;
    for (int64_t i = 0; i < slice.count[d]; i++) table[slice.start[d] + i * slice.step[d]] = i * strides[d];
  }
  *state = map;
  return BRAID_OK;
}

/* Expand: dimensions of 1 stay at 0; Tile: they start again. Shapes are aligned at the last dimension. */
static braid_status create_repeat(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t strides[BRAID_MAX_RANK];
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  braid_map_strides(x->dims, x->rank, strides);
  for (int d = 0; d < x->rank; d++) {
    int at = y->rank - x->rank + d;
    braid_map_line(map, at, 0, x->dims[d] == 1 ? 0 : strides[d]);
    map->axes[at].period = x->dims[d];
  }
  *state = map;
  return BRAID_OK;
}

/* --- pad ---------------------------------------------------------------------------------------------------------- */
static braid_status create_pad(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                               braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  const char *mode = braid_attr_string(node->attrs, "mode", "constant");
  int64_t pads[2 * BRAID_MAX_RANK], axes[BRAID_MAX_RANK], begin[BRAID_MAX_RANK], end[BRAID_MAX_RANK];
  int64_t strides[BRAID_MAX_RANK];
  size_t count, axis_count;
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  braid_map_list(node, 1, pads, 2 * BRAID_MAX_RANK, &count);
  braid_map_list(node, 3, axes, BRAID_MAX_RANK, &axis_count);
  bool some = node->input_count > 3 && node->inputs[3].present;
  (void)braid_pad_init(x, pads, count, some ? axes : NULL, some ? axis_count : (size_t)x->rank, begin, end);
  braid_map_strides(x->dims, x->rank, strides);
  for (int d = 0; d < y->rank; d++) {
    int64_t *table;
    braid_map_line(map, d, 0, strides[d]);
    if (begin[d] == 0 && end[d] == 0) continue;
    BRAID_TRY(braid_map_table(allocator, map, d, &table));
    for (int64_t i = 0; i < y->dims[d]; i++) {
      int64_t from = braid_pad_source(mode, i, begin[d], end[d], x->dims[d]);
      table[i] = from < 0 ? -1 : from * strides[d];
    }
  }
  *state = map;
  return BRAID_OK;
}

static braid_status run_pad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const void *fill = node->input_count > 2 && node->inputs[2].present ? args->inputs[2] : NULL;
  braid_map_run(state, args->inputs[0], args->outputs[0], fill);
  return BRAID_OK;
}

/* --- depth and space ---------------------------------------------------------------------------------------------- */
/* [B, C, H, W] of the deep side and [B, c, h, w] of the wide one: `apart` are the deep side's dimensions as (B, by, bx,
 * c, H, W) or, for CRD, (B, c, by, bx, H, W). Tables over the output's own four axes add up, because each of the wide
 * side's h and w is (H, by) and (W, bx). */
static braid_status create_depth(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                 braid_prepared_info *info) {
  (void)info;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  bool to_space = strcmp(node->op, "DepthToSpace") == 0;
  bool column = strcmp(braid_attr_string(node->attrs, "mode", "DCR"), "CRD") == 0;
  const braid_desc *deep = to_space ? x : y, *wide = to_space ? y : x;
  int64_t block = braid_attr_int(node->attrs, "blocksize", 1), c = wide->dims[1];
  int64_t *tables[4] = {NULL}, strides[4], per_channel = column ? block * block : 1, per_y = column ? block : block * c;
  int64_t per_x = column ? 1 : c; /* channels of the deep side from one step of c, by and bx */
  braid_map *map;
  BRAID_TRY(new_map(allocator, node, &map));
  braid_map_strides(x->dims, 4, strides);
  braid_map_line(map, 0, 0, strides[0]);
  for (int d = 1; d < 4; d++) braid_map_line(map, d, 0, (d > 1 ? block : per_channel) * strides[d]);
  for (int d = 1; d < 4; d++)
    if ((d > 1) == to_space) BRAID_TRY(braid_map_table(allocator, map, d, &tables[d]));
  if (to_space) {
    for (int64_t i = 0; i < y->dims[2]; i++) tables[2][i] = i / block * strides[2] + i % block * per_y * strides[1];
    for (int64_t i = 0; i < y->dims[3]; i++) tables[3][i] = i / block * strides[3] + i % block * per_x * strides[1];
  } else {
    for (int64_t i = 0; i < deep->dims[1]; i++) {
      int64_t by = i / per_y % block, bx = i / per_x % block, channel = column ? i / per_channel : i % c;
      tables[1][i] = channel * strides[1] + by * strides[2] + bx * strides[3];
    }
  }
  *state = map;
  return BRAID_OK;
}

/* --- concat, split ------------------------------------------------------------------------------------------------ */
static int64_t axis_of(const braid_node_desc *node, const braid_desc *desc) {
  int64_t axis = braid_attr_int(node->attrs, "axis", 0);
  return axis < 0 ? axis + desc->rank : axis;
}

/* Steps that go around the axis, and bytes within each of its elements; channels that lie last have nothing within. */
static void around(const braid_node_desc *node, const braid_desc *whole, int64_t *outer, int64_t *inner) {
  int64_t axis = axis_of(node, whole);
  bool last = whole->layout == BRAID_LAYOUT_BHWC;
  *outer = 1;
  *inner = (int64_t)braid_dtype_size(whole->dtype);
  for (int i = 0; i < whole->rank; i++) *(i < axis || last ? outer : inner) *= i == axis ? 1 : whole->dims[i];
}

static int64_t along(const braid_node_desc *node, const braid_desc *desc) {
  return desc->dims[axis_of(node, desc)];
}

/* Where in a row each input begins, in bytes, and where the row ends. */
static braid_status create_concat(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  (void)info;
  int64_t outer, inner, *begin = braid_zalloc_array(allocator, node->input_count + 1, sizeof *begin);
  if (!begin) return BRAID_NO_MEMORY;
  around(node, &node->outputs[0].desc, &outer, &inner);
  for (size_t i = 0; i < node->input_count; i++) begin[i + 1] = begin[i] + along(node, &node->inputs[i].desc) * inner;
  *state = begin;
  return BRAID_OK;
}

static braid_status run_concat(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const int64_t *begin = state;
  int64_t outer, inner, inputs = (int64_t)node->input_count, row = begin[inputs];
  around(node, &node->outputs[0].desc, &outer, &inner);
#pragma omp parallel for schedule(static) collapse(2) if (outer * row > 1 << 16)
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inputs; i++) {
      int64_t piece = begin[i + 1] - begin[i];
      char *to = (char *)args->outputs[0] + o * row + begin[i];
      if (piece) memcpy(to, (const char *)args->inputs[i] + o * piece, (size_t)piece);
    }
  return BRAID_OK;
}

/* Whole blocks of channels follow one another in BLOCKED16 as channels do in PLAIN, so that joining and cutting at such
 * places are the same copies; with channels last they are copies of each place. `parts` share the axis of `whole`. */
static bool keeps(const braid_node_desc *node, braid_layout layout, const braid_desc *whole, const braid_operand *parts,
                  size_t count) {
  if (axis_of(node, whole) != 1 || whole->rank < 3) return false;
  if (layout == BRAID_LAYOUT_BHWC) return true;
  if (whole->rank > 5 || whole->dtype != BRAID_F32) return false;
  for (size_t i = 0; i < count; i++)
    if (!parts[i].present || parts[i].desc.dims[1] % 16 != 0) return false;
  return true;
}

/* The layout that most of what comes has is kept. */
static void concat_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  static const braid_layout kLayouts[] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BHWC};
  braid_layout layout = BRAID_LAYOUT_PLAIN;
  for (size_t l = 0; l < sizeof kLayouts / sizeof *kLayouts; l++) {
    size_t come = 0;
    for (size_t i = 0; i < node->input_count; i++) come += inputs[i] == kLayouts[l];
    if (2 * come > node->input_count &&
        keeps(node, kLayouts[l], &node->outputs[0].desc, node->inputs, node->input_count))
      layout = kLayouts[l];
  }
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = layout;
  outputs[0] = layout;
}

static void split_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool known = inputs[0] == BRAID_LAYOUT_BLOCKED16 || inputs[0] == BRAID_LAYOUT_BHWC;
  bool keep = known && keeps(node, inputs[0], &node->inputs[0].desc, node->outputs, node->output_count);
  braid_layout layout = keep ? inputs[0] : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = i == 0 ? layout : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = layout;
}

static braid_status run_split(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *whole = &node->inputs[0].desc;
  int64_t outer, inner;
  around(node, whole, &outer, &inner);
  int64_t row = along(node, whole) * inner;
  int64_t *pieces = state;
#pragma omp parallel for schedule(static) if (outer * row > 1 << 16)
  for (int64_t o = 0; o < outer; o++) {
    const char *from = (const char *)args->inputs[0] + o * row;
    for (size_t i = 0; i < node->output_count; i++) {
      if (args->outputs[i] && pieces[i]) memcpy((char *)args->outputs[i] + o * pieces[i], from, (size_t)pieces[i]);
      from += pieces[i];
    }
  }
  return BRAID_OK;
}

/* Bytes of each piece of a row: also of pieces nobody asked for, which follow from `split` or from equal shares. */
static braid_status create_split(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                 braid_prepared_info *info) {
  (void)info;
  const braid_desc *whole = &node->inputs[0].desc;
  int64_t outer, inner, size = along(node, whole), count = (int64_t)node->output_count;
  around(node, whole, &outer, &inner);
  int64_t *pieces = braid_zalloc_array(allocator, node->output_count, sizeof *pieces);
  if (!pieces) return BRAID_NO_MEMORY;
  size_t given;
  braid_map_list(node, 1, pieces, node->output_count, &given);
  int64_t each = (size + count - 1) / count;
  for (int64_t i = 0; i < count; i++) {
    int64_t left = size - i * each;
    if (!given) pieces[i] = left < 0 ? 0 : left < each ? left : each;
    pieces[i] *= inner;
  }
  *state = pieces;
  return BRAID_OK;
}

static const braid_cpu_kernel kCopy = {.run = run_copy};
static const braid_cpu_kernel kTranspose = {
    .create = create_transpose, .run = run_map, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kSlice = {
    .create = create_slice, .run = run_map, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kSliceGrad = {
    .create = create_slice_grad, .run = run_map, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kRepeat = {
    .create = create_repeat, .run = run_map, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kPad = {
    .create = create_pad, .run = run_pad, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kDepth = {
    .create = create_depth, .run = run_map, .destroy = braid_map_destroy, .moves = true};
static const braid_cpu_kernel kConcat = {.create = create_concat, .run = run_concat};
static const braid_cpu_kernel kSplit = {.create = create_split, .run = run_split};

static const braid_kernel kKernels[] = {
    {.op = "Concat", .name = "ref_concat", .layouts = concat_layouts, .implementation = &kConcat},
    {.op = "DepthToSpace", .name = "ref_depth_to_space", .implementation = &kDepth},
    {.op = "Expand", .name = "ref_expand", .implementation = &kRepeat},
    {.op = "Flatten", .name = "ref_copy", .in_place = 1, .implementation = &kCopy},
    {.op = "Identity", .name = "ref_copy", .in_place = 1, .implementation = &kCopy},
    {.op = "Pad", .name = "ref_pad", .implementation = &kPad},
    {.op = "Reshape", .name = "ref_copy", .in_place = 1, .implementation = &kCopy},
    {.op = "Slice", .name = "ref_slice", .implementation = &kSlice},
    {.op = "SliceGrad", .name = "ref_slice_grad", .implementation = &kSliceGrad},
    {.op = "SpaceToDepth", .name = "ref_space_to_depth", .implementation = &kDepth},
    {.op = "Split", .name = "ref_split", .layouts = split_layouts, .implementation = &kSplit},
    {.op = "Squeeze", .name = "ref_copy", .in_place = 1, .implementation = &kCopy},
    {.op = "Tile", .name = "ref_tile", .implementation = &kRepeat},
    {.op = "Transpose", .name = "ref_transpose", .implementation = &kTranspose},
    {.op = "Unsqueeze", .name = "ref_copy", .in_place = 1, .implementation = &kCopy},
};

extern const braid_cpu_table braid_cpu_movement_movement;
const braid_cpu_table braid_cpu_movement_movement = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
