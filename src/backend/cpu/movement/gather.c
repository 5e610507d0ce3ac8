/* Plain kernels of the ops that pick elements by indices. An index out of range fails the run. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/movement/map.h"
#include "base/try.h"
#include "tensor/half.h"

static int64_t index_at(const braid_operand *operand, const void *data, int64_t i) {
  return operand->desc.dtype == BRAID_I32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

/* -size..size-1 to 0..size-1; -1 if out of range. */
static int64_t wrapped(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

static braid_status out_of_range(void) {
  return braid_fail(BRAID_OUT_OF_RANGE, "an index is out of range");
}

static int axis_of(const braid_node_desc *node, int64_t otherwise, int rank) {
  int64_t axis = braid_attr_int(node->attrs, "axis", otherwise);
  return (int)(axis < 0 ? axis + rank : axis);
}

static int64_t product(const int64_t *dims, int from, int to) {
  int64_t result = 1;
  for (int i = from; i < to; i++) result *= dims[i];
  return result;
}

/* --- Gather, GatherGrad ------------------------------------------------------------------------------------------- */
static braid_status run_gather(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc;
  int axis = axis_of(node, 0, x->rank);
  int64_t outer = product(x->dims, 0, axis), size = x->dims[axis], count = braid_desc_count(&node->inputs[1].desc);
  int64_t inner = product(x->dims, axis + 1, x->rank) * (int64_t)braid_dtype_size(x->dtype);
  const char *from = args->inputs[0];
  char *to = args->outputs[0];
  atomic_bool bad = false;
#pragma omp parallel for schedule(static) if (outer * count * inner > 1 << 16)
  for (int64_t i = 0; i < outer * count; i++) {
    int64_t place = wrapped(index_at(&node->inputs[1], args->inputs[1], i % count), size);
    if (place < 0)
      atomic_store(&bad, true);
    else
      memcpy(to + i * inner, from + (i / count * size + place) * inner, (size_t)inner);
  }
  return atomic_load(&bad) ? out_of_range() : BRAID_OK;
}

static void add_row(void *to, const void *from, int64_t count, braid_dtype dtype) {
  for (int64_t i = 0; i < count; i++) {
    switch (dtype) {
    case BRAID_F32:
      ((float *)to)[i] += ((const float *)from)[i];
      break;
    case BRAID_F64:
      ((double *)to)[i] += ((const double *)from)[i];
      break;
    case BRAID_F16:
      ((uint16_t *)to)[i] =
          braid_f32_to_f16(braid_f16_to_f32(((uint16_t *)to)[i]) + braid_f16_to_f32(((const uint16_t *)from)[i]));
      break;
    default:
      ((uint16_t *)to)[i] =
          braid_f32_to_bf16(braid_bf16_to_f32(((uint16_t *)to)[i]) + braid_bf16_to_f32(((const uint16_t *)from)[i]));
      break;
    }
  }
}

/* Rows are added in the order of the indices, whatever the number of threads: each thread has its own columns. */
static braid_status run_gather_grad(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  enum { COLUMNS = 64 };
  const braid_desc *dx = &node->outputs[0].desc;
  int axis = axis_of(node, 0, dx->rank);
  int64_t outer = product(dx->dims, 0, axis), size = dx->dims[axis], inner = product(dx->dims, axis + 1, dx->rank);
  int64_t count = braid_desc_count(&node->inputs[1].desc), bytes = (int64_t)braid_dtype_size(dx->dtype);
  int64_t blocks = (inner + COLUMNS - 1) / COLUMNS;
  for (int64_t i = 0; i < count; i++)
    if (wrapped(index_at(&node->inputs[1], args->inputs[1], i), size) < 0) return out_of_range();
  if (braid_desc_bytes(dx)) memset(args->outputs[0], 0, braid_desc_bytes(dx));
#pragma omp parallel for schedule(static) if (outer * count * inner > 1 << 14)
  for (int64_t task = 0; task < outer * blocks; task++) {
    int64_t o = task / blocks, column = task % blocks * COLUMNS;
    int64_t width = inner - column < COLUMNS ? inner - column : COLUMNS;
    for (int64_t i = 0; i < count; i++) {
      int64_t place = wrapped(index_at(&node->inputs[1], args->inputs[1], i), size);
      add_row((char *)args->outputs[0] + ((o * size + place) * inner + column) * bytes,
              (const char *)args->inputs[0] + ((o * count + i) * inner + column) * bytes, width, dx->dtype);
    }
  }
  return BRAID_OK;
}

/* --- combining an element with an update -------------------------------------------------------------------------- */
typedef enum reduction { REPLACE, ADD, MULTIPLY, MINIMUM, MAXIMUM } reduction;

static reduction reduction_of(const braid_node_desc *node) {
  const char *name = braid_attr_string(node->attrs, "reduction", "none");
  if (strcmp(name, "add") == 0) return ADD;
  if (strcmp(name, "mul") == 0) return MULTIPLY;
  if (strcmp(name, "min") == 0) return MINIMUM;
  return strcmp(name, "max") == 0 ? MAXIMUM : REPLACE;
}

/* Integers wrap around, in the unsigned type of their size (`wide`). */
#define DEFINE_COMBINE(type, wide)                                                                                     \
  static type combine_##type(type a, type b, reduction how) {                                                          \
    switch (how) {                                                                                                     \
    case ADD:                                                                                                          \
      return (type)((wide)a + (wide)b);                                                                                \
    case MULTIPLY:                                                                                                     \
      return (type)((wide)a * (wide)b);                                                                                \
    case MINIMUM:                                                                                                      \
      return b < a ? b : a;                                                                                            \
    case MAXIMUM:                                                                                                      \
      return b > a ? b : a;                                                                                            \
    default:                                                                                                           \
      return b;                                                                                                        \
    }                                                                                                                  \
  }
DEFINE_COMBINE(float, float)
DEFINE_COMBINE(double, double)
DEFINE_COMBINE(int8_t, uint32_t)
DEFINE_COMBINE(uint8_t, uint32_t)
DEFINE_COMBINE(int16_t, uint32_t)
DEFINE_COMBINE(uint16_t, uint32_t)
DEFINE_COMBINE(int32_t, uint32_t)
DEFINE_COMBINE(uint32_t, uint32_t)
DEFINE_COMBINE(int64_t, uint64_t)
DEFINE_COMBINE(uint64_t, uint64_t)
#undef DEFINE_COMBINE

#define COMBINE(type)                                                                                                  \
  {                                                                                                                    \
    type *target = (type *)to + i;                                                                                     \
    *target = combine_##type(*target, ((const type *)from)[k], how);                                                   \
    return;                                                                                                            \
  }

/* Element i of `to` with element k of `from`. */
static void combine(void *to, int64_t i, const void *from, int64_t k, braid_dtype dtype, reduction how) {
  uint16_t *half = (uint16_t *)to + i,
           other = dtype == BRAID_F16 || dtype == BRAID_BF16 ? ((const uint16_t *)from)[k] : 0;
  switch (dtype) {
  case BRAID_F32:
    COMBINE(float)
  case BRAID_F64:
    COMBINE(double)
  case BRAID_F16:
    *half = braid_f32_to_f16(combine_float(braid_f16_to_f32(*half), braid_f16_to_f32(other), how));
    return;
  case BRAID_BF16:
    *half = braid_f32_to_bf16(combine_float(braid_bf16_to_f32(*half), braid_bf16_to_f32(other), how));
    return;
  case BRAID_I8:
    COMBINE(int8_t)
  case BRAID_I16:
    COMBINE(int16_t)
  case BRAID_U16:
    COMBINE(uint16_t)
  case BRAID_I32:
    COMBINE(int32_t)
  case BRAID_U32:
    COMBINE(uint32_t)
  case BRAID_I64:
    COMBINE(int64_t)
  case BRAID_U64:
    COMBINE(uint64_t)
  default:
    COMBINE(uint8_t)
  }
}
#undef COMBINE

static void put(void *to, int64_t i, const void *from, int64_t k, braid_dtype dtype, reduction how) {
  size_t bytes = braid_dtype_size(dtype);
  if (how == REPLACE)
    memcpy((char *)to + i * (int64_t)bytes, (const char *)from + k * (int64_t)bytes, bytes);
  else
    combine(to, i, from, k, dtype, how);
}

/* --- GatherElements, ScatterElements ------------------------------------------------------------------------------ */
/* The data element that element `i` of the indices (of shape `small`) means: its own place, but for `axis`. */
static int64_t element_place(const int64_t *strides, const braid_desc *small, int64_t i, int axis, int64_t index) {
  int64_t place = index * strides[axis];
  for (int d = small->rank - 1; d >= 0; d--) {
    if (d != axis) place += i % small->dims[d] * strides[d];
    i /= small->dims[d];
  }
  return place;
}

static braid_status run_gather_elements(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc, *small = &node->inputs[1].desc;
  int axis = axis_of(node, 0, x->rank);
  int64_t strides[BRAID_MAX_RANK], count = braid_desc_count(small);
  braid_map_strides(x->dims, x->rank, strides);
  atomic_bool bad = false;
#pragma omp parallel for schedule(static) if (count > 1 << 14)
  for (int64_t i = 0; i < count; i++) {
    int64_t index = wrapped(index_at(&node->inputs[1], args->inputs[1], i), x->dims[axis]);
    if (index < 0)
      atomic_store(&bad, true);
    else
      put(args->outputs[0], i, args->inputs[0], element_place(strides, small, i, axis, index), x->dtype, REPLACE);
  }
  return atomic_load(&bad) ? out_of_range() : BRAID_OK;
}

static void start_from_data(const braid_node_desc *node, const braid_cpu_args *args) {
  size_t bytes = braid_desc_bytes(&node->outputs[0].desc);
  if (bytes && args->outputs[0] != args->inputs[0]) memcpy(args->outputs[0], args->inputs[0], bytes);
}

/* One after the other: places may repeat. */
static braid_status run_scatter_elements(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc, *small = &node->inputs[1].desc;
  int axis = axis_of(node, 0, x->rank);
  int64_t strides[BRAID_MAX_RANK], count = braid_desc_count(small);
  reduction how = reduction_of(node);
  braid_map_strides(x->dims, x->rank, strides);
  start_from_data(node, args);
  for (int64_t i = 0; i < count; i++) {
    int64_t index = wrapped(index_at(&node->inputs[1], args->inputs[1], i), x->dims[axis]);
    if (index < 0) return out_of_range();
    put(args->outputs[0], element_place(strides, small, i, axis, index), args->inputs[2], i, x->dtype, how);
  }
  return BRAID_OK;
}

/* --- GatherND, ScatterND ------------------------------------------------------------------------------------------ */
/* Where tuple `i` points, in elements of the data from dimension `first` on; -1: out of range. */
static int64_t tuple_place(const braid_node_desc *node, const void *indices, int64_t i, int first) {
  const braid_desc *x = &node->inputs[0].desc, *desc = &node->inputs[1].desc;
  int64_t strides[BRAID_MAX_RANK], place = 0, tuple = desc->dims[desc->rank - 1];
  braid_map_strides(x->dims, x->rank, strides);
  for (int64_t d = 0; d < tuple; d++) {
    int64_t index = wrapped(index_at(&node->inputs[1], indices, i * tuple + d), x->dims[first + d]);
    if (index < 0) return -1;
    place += index * strides[first + d];
  }
  return place;
}

static braid_status run_gather_nd(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc, *desc = &node->inputs[1].desc;
  int batch = (int)braid_attr_int(node->attrs, "batch_dims", 0);
  int64_t tuple = desc->dims[desc->rank - 1], batches = product(x->dims, 0, batch);
  int64_t tuples = product(desc->dims, 0, desc->rank - 1), each = batches ? tuples / batches : 0;
  int64_t whole = product(x->dims, batch, x->rank), row = product(x->dims, batch + (int)tuple, x->rank);
  int64_t bytes = (int64_t)braid_dtype_size(x->dtype);
  for (int64_t i = 0; i < tuples; i++) {
    int64_t place = tuple_place(node, args->inputs[1], i, batch);
    if (place < 0) return out_of_range();
    memcpy((char *)args->outputs[0] + i * row * bytes,
           (const char *)args->inputs[0] + (i / each * whole + place) * bytes, (size_t)(row * bytes));
  }
  return BRAID_OK;
}

static braid_status run_scatter_nd(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc, *desc = &node->inputs[1].desc;
  int64_t tuple = desc->dims[desc->rank - 1], tuples = product(desc->dims, 0, desc->rank - 1);
  int64_t row = product(x->dims, (int)tuple, x->rank);
  reduction how = reduction_of(node);
  start_from_data(node, args);
  for (int64_t i = 0; i < tuples; i++) {
    int64_t place = tuple_place(node, args->inputs[1], i, 0);
    if (place < 0) return out_of_range();
    for (int64_t k = 0; k < row; k++) put(args->outputs[0], place + k, args->inputs[2], i * row + k, x->dtype, how);
  }
  return BRAID_OK;
}

/* --- OneHot, Trilu, ReverseSequence ------------------------------------------------------------------------------- */
static double number_at(const braid_operand *operand, const void *data, int64_t i) {
  switch (operand->desc.dtype) {
  case BRAID_F32:
    return (double)((const float *)data)[i];
  case BRAID_F64:
    return ((const double *)data)[i];
  case BRAID_F16:
    return (double)braid_f16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_BF16:
    return (double)braid_bf16_to_f32(((const uint16_t *)data)[i]);
  case BRAID_I8:
    return ((const int8_t *)data)[i];
  case BRAID_I16:
    return ((const int16_t *)data)[i];
  case BRAID_U16:
    return ((const uint16_t *)data)[i];
  case BRAID_I32:
    return ((const int32_t *)data)[i];
  case BRAID_U32:
    return ((const uint32_t *)data)[i];
  case BRAID_I64:
    return (double)((const int64_t *)data)[i];
  case BRAID_U64:
    return (double)((const uint64_t *)data)[i];
  default:
    return ((const uint8_t *)data)[i];
  }
}

/* Indices outside [-depth, depth) give a row of the off value. */
static braid_status run_one_hot(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *y = &node->outputs[0].desc;
  int axis = axis_of(node, -1, y->rank);
  int64_t depth = y->dims[axis], outer = product(y->dims, 0, axis), inner = product(y->dims, axis + 1, y->rank);
  int64_t bytes = (int64_t)braid_dtype_size(y->dtype);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      double given = number_at(&node->inputs[0], args->inputs[0], o * inner + i);
      int64_t hot = given >= -(double)depth && given < (double)depth ? wrapped((int64_t)given, depth) : -1;
      for (int64_t d = 0; d < depth; d++)
        memcpy((char *)args->outputs[0] + ((o * depth + d) * inner + i) * bytes,
               (const char *)args->inputs[2] + (d == hot) * bytes, (size_t)bytes);
    }
  return BRAID_OK;
}

static braid_status run_trilu(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *y = &node->outputs[0].desc;
  bool upper = braid_attr_int(node->attrs, "upper", 1);
  bool shifted = node->input_count > 1 && node->inputs[1].present;
  int64_t rows = y->dims[y->rank - 2], columns = y->dims[y->rank - 1], bytes = (int64_t)braid_dtype_size(y->dtype);
  int64_t k = shifted ? index_at(&node->inputs[1], args->inputs[1], 0) : 0, all = product(y->dims, 0, y->rank - 1);
  k = k < -rows ? -rows : k > columns ? columns : k;
#pragma omp parallel for schedule(static) if (all * columns > 1 << 14)
  for (int64_t r = 0; r < all; r++) {
    int64_t edge = r % rows + k + (upper ? 0 : 1); /* first column of the upper part, or behind the lower one */
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    int64_t first = upper ? edge : 0, behind = upper ? columns : edge;
    char *to = (char *)args->outputs[0] + r * columns * bytes;
    const char *from = (const char *)args->inputs[0] + r * columns * bytes;
    memset(to, 0, (size_t)(first * bytes));
    memmove(to + first * bytes, from + first * bytes, (size_t)((behind - first) * bytes));
    memset(to + behind * bytes, 0, (size_t)((columns - behind) * bytes));
  }
  return BRAID_OK;
}

static braid_status run_reverse_sequence(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc;
  bool time_first = braid_attr_int(node->attrs, "time_axis", 0) == 0;
  int64_t times = x->dims[time_first ? 0 : 1], batch = x->dims[time_first ? 1 : 0];
  int64_t row = product(x->dims, 2, x->rank) * (int64_t)braid_dtype_size(x->dtype);
  const int64_t *lengths = args->inputs[1];
  for (int64_t b = 0; b < batch; b++) {
    if (lengths[b] < 0 || lengths[b] > times) return out_of_range();
    for (int64_t t = 0; t < times; t++) {
      int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
      int64_t to_row = time_first ? t * batch + b : b * times + t;
      int64_t from_row = time_first ? from * batch + b : b * times + from;
      memcpy((char *)args->outputs[0] + to_row * row, (const char *)args->inputs[0] + from_row * row, (size_t)row);
    }
  }
  return BRAID_OK;
}

/* --- NonZero, Compress -------------------------------------------------------------------------------------------- */
static braid_status run_non_zero(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc;
  int64_t count = braid_desc_count(x), found = 0, columns = node->outputs[0].desc.dims[1];
  int64_t *to = args->outputs[0];
  for (int64_t i = 0; i < count && found < columns; i++) {
    if (number_at(&node->inputs[0], args->inputs[0], i) == 0) continue;
    int64_t rest = i;
    for (int d = x->rank - 1; d >= 0; d--) {
      to[d * columns + found] = rest % x->dims[d];
      rest /= x->dims[d];
    }
    if (!x->rank) to[found] = 0;
    found++;
  }
  return BRAID_OK;
}

static braid_status run_compress(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *x = &node->inputs[0].desc;
  bool whole = !braid_attr_has(node->attrs, "axis");
  int axis = whole ? 0 : axis_of(node, 0, x->rank);
  int64_t outer = whole ? 1 : product(x->dims, 0, axis), size = whole ? braid_desc_count(x) : x->dims[axis];
  int64_t inner = (whole ? 1 : product(x->dims, axis + 1, x->rank)) * (int64_t)braid_dtype_size(x->dtype);
  int64_t given = node->inputs[1].desc.dims[0];
  const uint8_t *condition = args->inputs[1];
  char *to = args->outputs[0];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < given; i++) {
      if (!condition[i]) continue;
      memcpy(to, (const char *)args->inputs[0] + (o * size + i) * inner, (size_t)inner);
      to += inner;
    }
  return BRAID_OK;
}

#define KERNEL(name) static const braid_cpu_kernel k_##name = {.run = run_##name};
KERNEL(compress)
KERNEL(gather)
KERNEL(gather_elements)
KERNEL(gather_grad)
KERNEL(gather_nd)
KERNEL(non_zero)
KERNEL(one_hot)
KERNEL(reverse_sequence)
KERNEL(scatter_elements)
KERNEL(scatter_nd)
KERNEL(trilu)
#undef KERNEL

static const braid_kernel kKernels[] = {
    {.op = "Compress", .name = "ref_compress", .implementation = &k_compress},
    {.op = "Gather", .name = "ref_gather", .implementation = &k_gather},
    {.op = "GatherElements", .name = "ref_gather_elements", .implementation = &k_gather_elements},
    {.op = "GatherGrad", .name = "ref_gather_grad", .implementation = &k_gather_grad},
    {.op = "GatherND", .name = "ref_gather_nd", .implementation = &k_gather_nd},
    {.op = "NonZero", .name = "ref_non_zero", .implementation = &k_non_zero},
    {.op = "OneHot", .name = "ref_one_hot", .implementation = &k_one_hot},
    {.op = "ReverseSequence", .name = "ref_reverse_sequence", .implementation = &k_reverse_sequence},
    {.op = "ScatterElements", .name = "ref_scatter_elements", .in_place = 1, .implementation = &k_scatter_elements},
    {.op = "ScatterND", .name = "ref_scatter_nd", .in_place = 1, .implementation = &k_scatter_nd},
    {.op = "Trilu", .name = "ref_trilu", .in_place = 1, .implementation = &k_trilu},
};

extern const braid_cpu_table braid_cpu_movement_gather;
const braid_cpu_table braid_cpu_movement_gather = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
