/* Choosing and accumulating along an axis. Elements of any type are compared by keys: 64-bit numbers in the same order,
 * the better the larger. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/spans/convert.h"
#include "tensor/half.h"

enum { kTile = 256, kGrain = 16384 };

/* A tensor as outer x size x inner, `size` along the axis. */
typedef struct lines {
  int64_t outer, size, inner;
} lines;

static lines lines_of(const braid_desc *desc, int64_t axis) {
  lines l = {1, 1, 1};
  if (axis < 0) axis += desc->rank;
  for (int i = 0; i < desc->rank; i++) *(i < axis ? &l.outer : i == axis ? &l.size : &l.inner) *= desc->dims[i];
  return l;
}

/* --- keys ----------------------------------------------------------------------------------------------------------
 */
/* Floating-point bits as integers in the order of the numbers; both zeros are one; NaN is above all. */
static inline uint64_t float_key(float x) {
  uint32_t bits = braid_bits_of_float(x + 0.0f);
  return x != x ? UINT64_MAX : (bits >> 31 ? ~bits : bits | 0x80000000u);
}

static inline uint64_t double_key(double x) {
  uint64_t bits;
  x += 0.0;
  memcpy(&bits, &x, sizeof bits);
  return x != x ? UINT64_MAX : (bits >> 63 ? ~bits : bits | UINT64_C(1) << 63);
}

#define SIGNED_KEY(x) ((uint64_t)(int64_t)(x) ^ UINT64_C(1) << 63)
#define F16_KEY(x) float_key(braid_f16_to_f32(x))
#define BF16_KEY(x) float_key(braid_bf16_to_f32(x))
#define UNSIGNED_KEY(x) ((uint64_t)(x))
#define KEYS(dtype, T, key)                                                                                            \
  case dtype:                                                                                                          \
    for (int64_t i = 0; i < count; i++) keys[i] = key(((const T *)x)[i * stride]);                                     \
    break;

/* `stride` in elements. smallest: the smaller is the better; a NaN is then the worst, or the best if nan_first. */
static void make_keys(braid_dtype dtype, const void *x, int64_t stride, int64_t count, bool smallest, bool nan_first,
                      uint64_t *keys) {
  switch (dtype) {
    KEYS(BRAID_F32, float, float_key)
    KEYS(BRAID_F64, double, double_key)
    KEYS(BRAID_F16, uint16_t, F16_KEY)
    KEYS(BRAID_BF16, uint16_t, BF16_KEY)
    KEYS(BRAID_I8, int8_t, SIGNED_KEY)
    KEYS(BRAID_I16, int16_t, SIGNED_KEY)
    KEYS(BRAID_I32, int32_t, SIGNED_KEY)
    KEYS(BRAID_I64, int64_t, SIGNED_KEY)
    KEYS(BRAID_U16, uint16_t, UNSIGNED_KEY)
    KEYS(BRAID_U32, uint32_t, UNSIGNED_KEY)
    KEYS(BRAID_U64, uint64_t, UNSIGNED_KEY)
  default:
    for (int64_t i = 0; i < count; i++) keys[i] = ((const uint8_t *)x)[i * stride];
  }
  bool nan_stays = nan_first && braid_dtype_is_float(dtype);
  for (int64_t i = 0; smallest && i < count; i++) keys[i] = nan_stays && keys[i] == UINT64_MAX ? keys[i] : ~keys[i];
}

/* --- ArgMax and ArgMin ---------------------------------------------------------------------------------------------
 */
typedef struct argument {
  lines lines;
  braid_dtype dtype;
  size_t bytes;
  bool smallest, last;
} argument;

static braid_status create_argument(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                    braid_prepared_info *info) {
  (void)info;
  argument *a = braid_zalloc(allocator, sizeof *a);
  if (!a) return BRAID_NO_MEMORY;
  a->lines = lines_of(&node->inputs[0].desc, braid_attr_int(node->attrs, "axis", 0));
  a->dtype = node->inputs[0].desc.dtype;
  a->bytes = braid_dtype_size(a->dtype);
  a->smallest = strcmp(node->op, "ArgMin") == 0;
  a->last = braid_attr_int(node->attrs, "select_last_index", 0) != 0;
  *state = a;
  return BRAID_OK;
}

static void argument_line(const argument *a, const char *x, int64_t *out) {
  uint64_t keys[kTile], best = 0;
  int64_t index = 0;
  for (int64_t begin = 0; begin < a->lines.size; begin += kTile) {
    int64_t count = begin + kTile < a->lines.size ? kTile : a->lines.size - begin;
    make_keys(a->dtype, x + begin * (int64_t)a->bytes, 1, count, a->smallest, true, keys);
    for (int64_t i = 0; i < count; i++)
      if (keys[i] > best || (a->last && keys[i] == best)) {
        best = keys[i];
        index = begin + i;
      }
  }
  *out = index;
}

static void argument_tile(const argument *a, const char *x, int64_t width, int64_t *out) {
  uint64_t keys[kTile], best[kTile];
  for (int64_t j = 0; j < width; j++) best[j] = 0, out[j] = 0;
  for (int64_t i = 0; i < a->lines.size; i++) {
    make_keys(a->dtype, x + i * a->lines.inner * (int64_t)a->bytes, 1, width, a->smallest, true, keys);
    for (int64_t j = 0; j < width; j++) {
      bool better = keys[j] > best[j] || (a->last && keys[j] == best[j]);
      best[j] = better ? keys[j] : best[j];
      out[j] = better ? i : out[j];
    }
  }
}

static braid_status run_argument(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  const argument *a = state;
  const lines *l = &a->lines;
  const char *x = args->inputs[0];
  int64_t *out = args->outputs[0], tiles = (l->inner + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (l->outer * l->size * l->inner > kGrain)
  for (int64_t t = 0; t < l->outer * tiles; t++) {
    int64_t o = t / tiles, column = t % tiles * kTile;
    int64_t width = column + kTile < l->inner ? kTile : l->inner - column;
    const char *from = x + (o * l->size * l->inner + column) * (int64_t)a->bytes;
    if (l->inner == 1)
      argument_line(a, from, out + o);
    else
      argument_tile(a, from, width, out + o * l->inner + column);
  }
  return BRAID_OK;
}

/* --- TopK ----------------------------------------------------------------------------------------------------------
 * A heap of the k best so far with the worst of them on top; sorted at the end. Among equals the first comes first. */
typedef struct candidate {
  uint64_t key;
  int64_t index;
} candidate;

typedef struct top {
  lines lines;
  int64_t k, tasks;
  braid_dtype dtype;
  size_t bytes;
  bool smallest;
} top;

static braid_status create_top(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                               braid_prepared_info *info) {
  enum { kTasks = 32 };
  top *t = braid_zalloc(allocator, sizeof *t);
  if (!t) return BRAID_NO_MEMORY;
  int64_t axis = braid_attr_int(node->attrs, "axis", -1);
  t->lines = lines_of(&node->inputs[0].desc, axis);
  const braid_operand *result = node->outputs[0].present ? &node->outputs[0] : &node->outputs[1];
  t->k = lines_of(&result->desc, axis).size;
  t->dtype = node->inputs[0].desc.dtype;
  t->bytes = braid_dtype_size(t->dtype);
  t->smallest = !braid_attr_int(node->attrs, "largest", 1);
  int64_t count = t->lines.outer * t->lines.inner;
  t->tasks = count < kTasks ? count : kTasks;
  info->workspace_bytes =
      (size_t)t->tasks * ((size_t)t->k * sizeof(candidate) + (size_t)t->lines.size * sizeof(uint64_t));
  *state = t;
  return BRAID_OK;
}

static inline bool worse(candidate a, candidate b) {
  return a.key < b.key || (a.key == b.key && a.index > b.index);
}

static void sink(candidate *heap, int64_t count, int64_t at) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && worse(heap[child + 1], heap[child])) child++;
    if (!worse(heap[child], heap[at])) return;
    candidate moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
  }
}

static void choose(const uint64_t *keys, int64_t size, candidate *heap, int64_t k) {
  if (k == 0) return;
  for (int64_t i = 0; i < k; i++) heap[i] = (candidate){keys[i], i};
  for (int64_t i = k / 2; i-- > 0;) sink(heap, k, i);
  for (int64_t i = k; i < size; i++) {
    if (keys[i] <= heap[0].key) continue; /* of equal ones the earlier is there already */
    heap[0] = (candidate){keys[i], i};
    sink(heap, k, 0);
  }
  for (int64_t end = k; end-- > 1;) { /* the worst to the end */
    candidate worst = heap[0];
    heap[0] = heap[end];
    heap[end] = worst;
    sink(heap, end, 0);
  }
}

static braid_status run_top(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  const top *t = state;
  const lines *l = &t->lines;
  const char *x = args->inputs[0];
  char *values = args->outputs[0];
  int64_t *indices = node->output_count > 1 ? args->outputs[1] : NULL, count = l->outer * l->inner;
  candidate *heaps = args->workspace;
  uint64_t *keys = (uint64_t *)(void *)(heaps + t->tasks * t->k);
#pragma omp parallel for schedule(static) if (count * l->size > kGrain)
  for (int64_t task = 0; task < t->tasks; task++)
    for (int64_t line = task; line < count; line += t->tasks) {
      candidate *heap = heaps + task * t->k;
      uint64_t *own = keys + task * l->size;
      int64_t o = line / l->inner, column = line % l->inner;
      const char *from = x + (o * l->size * l->inner + column) * (int64_t)t->bytes;
      make_keys(t->dtype, from, l->inner, l->size, t->smallest, false, own);
      choose(own, l->size, heap, t->k);
      for (int64_t i = 0; i < t->k; i++) {
        int64_t to = (o * t->k + i) * l->inner + column;
        if (indices) indices[to] = heap[i].index;
        if (values)
          memcpy(values + to * (int64_t)t->bytes, from + heap[i].index * l->inner * (int64_t)t->bytes, t->bytes);
      }
    }
  return BRAID_OK;
}

static braid_status run_top_gradient(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  int64_t axis = braid_attr_int(node->attrs, "axis", -1);
  lines from = lines_of(&node->inputs[0].desc, axis), to = lines_of(&node->outputs[0].desc, axis);
  size_t bytes = braid_dtype_size(node->outputs[0].desc.dtype);
  const char *dy = args->inputs[0];
  const int64_t *indices = args->inputs[1];
  char *dx = args->outputs[0];
  memset(dx, 0, braid_desc_bytes(&node->outputs[0].desc));
  for (int64_t i = 0; i < from.outer * from.size * from.inner; i++) {
    int64_t column = i % from.inner, o = i / from.inner / from.size, index = indices[i];
    if (index < 0 || index >= to.size)
      return braid_fail(BRAID_OUT_OF_RANGE, "index %lld is outside [0, %lld)", (long long)index, (long long)to.size);
    memcpy(dx + ((o * to.size + index) * to.inner + column) * (int64_t)bytes, dy + i * (int64_t)bytes, bytes);
  }
  return BRAID_OK;
}

/* --- CumSum and CumProd --------------------------------------------------------------------------------------------
 * Accumulated in double or, wrapping, in int64. */
typedef union number {
  double f;
  int64_t i;
} number;

typedef struct scan {
  braid_convert *load, *store;
  size_t bytes;
  bool integer, product, exclusive, reverse;
} scan;

static braid_status create_scan(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  (void)info;
  scan *s = braid_zalloc(allocator, sizeof *s);
  if (!s) return BRAID_NO_MEMORY;
  braid_dtype dtype = node->inputs[0].desc.dtype;
  s->integer = !braid_dtype_is_float(dtype);
  s->load = braid_convert_find(dtype, s->integer ? BRAID_I64 : BRAID_F64);
  s->store = braid_convert_find(s->integer ? BRAID_I64 : BRAID_F64, dtype);
  s->bytes = braid_dtype_size(dtype);
  s->product = strcmp(node->op, "CumProd") == 0;
  s->exclusive = braid_attr_int(node->attrs, "exclusive", 0) != 0;
  s->reverse = braid_attr_int(node->attrs, "reverse", 0) != 0;
  *state = s;
  return BRAID_OK;
}

/* x becomes the result so far, which takes x in. */
static inline void accumulate(const scan *s, number *so_far, number *x) {
  number next = *so_far;
  if (s->integer && s->product)
    next.i = (int64_t)((uint64_t)next.i * (uint64_t)x->i);
  else if (s->integer)
    next.i = (int64_t)((uint64_t)next.i + (uint64_t)x->i);
  else
    next.f = s->product ? next.f * x->f : next.f + x->f;
  *x = s->exclusive ? *so_far : next;
  *so_far = next;
}

static void begin_scan(const scan *s, int64_t width, number *so_far) {
  for (int64_t j = 0; j < width; j++) {
    if (s->integer)
      so_far[j].i = s->product;
    else
      so_far[j].f = s->product;
  }
}

/* One contiguous line, in pieces. */
static void scan_line(const scan *s, const char *x, char *y, int64_t size) {
  number piece[kTile], so_far[1];
  begin_scan(s, 1, so_far);
  for (int64_t done = 0; done < size; done += kTile) {
    int64_t count = done + kTile < size ? kTile : size - done, at = s->reverse ? size - done - count : done;
    s->load(x + at * (int64_t)s->bytes, piece, count);
    for (int64_t i = 0; i < count; i++) accumulate(s, so_far, &piece[s->reverse ? count - 1 - i : i]);
    s->store(piece, y + at * (int64_t)s->bytes, count);
  }
}

/* Lines side by side. */
static void scan_tile(const scan *s, const lines *l, const char *x, char *y, int64_t width) {
  number row[kTile], so_far[kTile];
  begin_scan(s, width, so_far);
  for (int64_t i = 0; i < l->size; i++) {
    int64_t at = (s->reverse ? l->size - 1 - i : i) * l->inner * (int64_t)s->bytes;
    s->load(x + at, row, width);
    for (int64_t j = 0; j < width; j++) accumulate(s, &so_far[j], &row[j]);
    s->store(row, y + at, width);
  }
}

/* The lines along the axis that input `index` holds. */
static braid_status lines_at_run(const braid_node_desc *node, const braid_cpu_args *args, size_t index, lines *out) {
  const braid_desc *desc = &node->inputs[0].desc;
  const void *held = args->inputs[index];
  int64_t axis = node->inputs[index].desc.dtype == BRAID_I32 ? *(const int32_t *)held : *(const int64_t *)held;
  if (axis < -desc->rank || axis >= desc->rank)
    return braid_fail(BRAID_OUT_OF_RANGE, "axis %lld is outside [%d, %d)", (long long)axis, -desc->rank, desc->rank);
  *out = lines_of(desc, axis);
  return BRAID_OK;
}

static braid_status run_scan(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const scan *s = state;
  lines l;
  braid_status status = lines_at_run(node, args, 1, &l);
  if (status != BRAID_OK) return status;
  int64_t tiles = (l.inner + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (l.outer * l.size * l.inner > kGrain)
  for (int64_t t = 0; t < l.outer * tiles; t++) {
    int64_t column = t % tiles * kTile, width = column + kTile < l.inner ? kTile : l.inner - column;
    int64_t offset = (t / tiles * l.size * l.inner + column) * (int64_t)s->bytes;
    const char *x = (const char *)args->inputs[0] + offset;
    char *y = (char *)args->outputs[0] + offset;
    if (l.inner == 1)
      scan_line(s, x, y, l.size);
    else
      scan_tile(s, &l, x, y, width);
  }
  return BRAID_OK;
}

/* --- CumProdGrad ---------------------------------------------------------------------------------------------------
 * y_i is the product of all x_k with k <= i (k < i if exclusive), so dx_j is the product of all x_k with k < j, times
 * the sum over the y_i that x_j is part of of dy_i and the x_k between j and i. That sum runs from the end of the line,
 * and nothing is divided: zeros need no case of their own. */
typedef struct scan_gradient {
  braid_convert *load, *store;
  size_t bytes;
  int64_t tasks, longest; /* lines at work at once, and their elements at most: the axis is known at the run */
  bool exclusive, reverse;
} scan_gradient;

static braid_status create_scan_gradient(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                         braid_prepared_info *info) {
  enum { kTasks = 32 };
  scan_gradient *s = braid_zalloc(allocator, sizeof *s);
  if (!s) return BRAID_NO_MEMORY;
  const braid_desc *desc = &node->inputs[0].desc;
  for (int i = 0; i < desc->rank; i++) s->longest = desc->dims[i] > s->longest ? desc->dims[i] : s->longest;
  s->tasks = kTasks;
  s->load = braid_convert_find(desc->dtype, BRAID_F64);
  s->store = braid_convert_find(BRAID_F64, desc->dtype);
  s->bytes = braid_dtype_size(desc->dtype);
  s->exclusive = braid_attr_int(node->attrs, "exclusive", 0) != 0;
  s->reverse = braid_attr_int(node->attrs, "reverse", 0) != 0;
  info->workspace_bytes = (size_t)s->tasks * 2 * (size_t)s->longest * sizeof(double);
  *state = s;
  return BRAID_OK;
}

/* Elements of a line lie `stride` bytes apart; `x` and `sums` have room for all of them. */
static void scan_gradient_line(const scan_gradient *s, const char *dy_line, const char *x_line, char *dx_line,
                               int64_t size, int64_t stride, double *x, double *sums) {
  double carried = 0, product = 1;
  for (int64_t i = size - 1; i >= 0; i--) {
    int64_t at = (s->reverse ? size - 1 - i : i) * stride;
    double dy;
    s->load(dy_line + at, &dy, 1);
    s->load(x_line + at, &x[i], 1);
    sums[i] = s->exclusive ? carried : dy + carried;
    carried = s->exclusive ? dy + x[i] * carried : x[i] * sums[i];
  }
  for (int64_t i = 0; i < size; i++) {
    double dx = product * sums[i];
    s->store(&dx, dx_line + (s->reverse ? size - 1 - i : i) * stride, 1);
    product *= x[i];
  }
}

static braid_status run_scan_gradient(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const scan_gradient *s = state;
  const char *dy = args->inputs[0], *x = args->inputs[1];
  char *dx = args->outputs[0];
  double *room = args->workspace;
  lines l;
  braid_status status = lines_at_run(node, args, 2, &l);
  if (status != BRAID_OK) return status;
  int64_t count = l.outer * l.inner, stride = l.inner * (int64_t)s->bytes;
#pragma omp parallel for schedule(static) if (count * l.size > kGrain)
  for (int64_t task = 0; task < s->tasks; task++)
    for (int64_t line = task; line < count; line += s->tasks) {
      int64_t offset = (line / l.inner * l.size * l.inner + line % l.inner) * (int64_t)s->bytes;
      double *own = room + task * 2 * s->longest;
      scan_gradient_line(s, dy + offset, x + offset, dx + offset, l.size, stride, own, own + s->longest);
    }
  return BRAID_OK;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_cpu_kernel kArgument = {.create = create_argument, .run = run_argument};
static const braid_cpu_kernel kTop = {.create = create_top, .run = run_top};
static const braid_cpu_kernel kTopGradient = {.run = run_top_gradient};
static const braid_cpu_kernel kScan = {.create = create_scan, .run = run_scan};
static const braid_cpu_kernel kScanGradient = {.create = create_scan_gradient, .run = run_scan_gradient};

static const braid_kernel kKernels[] = {
    {.op = "ArgMax", .name = "ref_argument", .implementation = &kArgument},
    {.op = "ArgMin", .name = "ref_argument", .implementation = &kArgument},
    {.op = "TopK", .name = "ref_top", .implementation = &kTop},
    {.op = "TopKGrad", .name = "ref_top_gradient", .implementation = &kTopGradient},
    {.op = "CumSum", .name = "ref_scan", .in_place = 1, .implementation = &kScan},
    {.op = "CumProd", .name = "ref_scan", .in_place = 1, .implementation = &kScan},
    {.op = "CumProdGrad", .name = "ref_scan_gradient", .implementation = &kScanGradient},
};

extern const braid_cpu_table braid_cpu_loops_select;
const braid_cpu_table braid_cpu_loops_select = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
