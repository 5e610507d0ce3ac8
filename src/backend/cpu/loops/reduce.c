/* Reductions. The input is seen as a nest of kept and of reduced dimensions in the order of its memory, merged where
 * they adjoin. The innermost is reduced (rows: each result folds runs of contiguous elements) or kept (columns: rows of
 * contiguous elements are folded into a row of results, in tiles).
 *
 * What is folded into one result comes in segments, and segments in slices, whose number depends on the shape alone:
 * slices are folded side by side and merged in order, so that few results over much data keep all threads busy and the
 * bits are the same for any number of them. */
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/loops/fold.h"
#include "backend/cpu/spans/nest.h"
#include "tensor/layout.h"

enum {
  kTile = BRAID_SPAN_COLUMNS, /* results of one task in columns mode */
  kSegment = 16384,           /* elements of a segment, about */
  kSlices = 64,               /* tasks wanted */
  kPiece = 1024,              /* elements converted at a time */
  kGrain = 16384,             /* elements worth a task */
};

typedef enum finish { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_LOG, FINISH_LOG_SUM_EXP } finish;

typedef struct kind {
  const char *op;
  braid_fold_kind fold;
  braid_map_kind map;
  finish finish;
} kind;

static const kind kKinds[] = {
    {"ReduceSum", BRAID_FOLD_SUM, BRAID_MAP_SAME, FINISH_NONE},
    {"ReduceMean", BRAID_FOLD_SUM, BRAID_MAP_SAME, FINISH_MEAN},
    {"ReduceMax", BRAID_FOLD_MAX, BRAID_MAP_SAME, FINISH_NONE},
    {"ReduceMin", BRAID_FOLD_MIN, BRAID_MAP_SAME, FINISH_NONE},
    {"ReduceProd", BRAID_FOLD_PROD, BRAID_MAP_SAME, FINISH_NONE},
    {"ReduceL1", BRAID_FOLD_SUM, BRAID_MAP_ABS, FINISH_NONE},
    {"ReduceL2", BRAID_FOLD_SUM, BRAID_MAP_SQUARE, FINISH_ROOT},
    {"ReduceLogSum", BRAID_FOLD_SUM, BRAID_MAP_SAME, FINISH_LOG},
    {"ReduceLogSumExp", BRAID_FOLD_SUM, BRAID_MAP_EXP, FINISH_LOG_SUM_EXP},
    {"ReduceSumSquare", BRAID_FOLD_SUM, BRAID_MAP_SQUARE, FINISH_NONE},
};

typedef struct reduce {
  const kind *kind;
  braid_fold fold;
  braid_fold_value neutral;
  braid_dtype in, out;
  size_t in_bytes, out_bytes, fold_bytes;
  braid_convert *load, *store; /* to and from the type folded in; load NULL: the same */
  uint64_t flip;               /* uint64 is folded as int64 with the highest bit flipped where order matters */
  bool columns;
  int64_t inner;            /* length of rows, or number of results side by side */
  int64_t out_step;         /* columns: between results in the output */
  int64_t rows, row_stride; /* columns: the innermost reduced loop */
  braid_nest kept, rest;    /* the other loops, with a last one of 1: offsets in input and output; in the input */
  int64_t kept_count, rest_count, elements;
  int64_t segment, segments, slices; /* length of a segment, in rows or elements; how many per rest; slices in all */
  int64_t tiles;
} reduce;

/* --- shape ---------------------------------------------------------------------------------------------------------
 */
typedef struct loop {
  int64_t dim, in, out; /* strides */
  bool reduced;
} loop;

/* The input's dimensions in the order of its memory, neighbours of one kind merged. */
static int make_loops(const braid_node_desc *node, const bool *reduced, loop *loops) {
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t in[BRAID_MAX_RANK], out[BRAID_MAX_RANK], own[BRAID_MAX_RANK];
  int order[BRAID_MAX_RANK], count = 0, next = 0;
  braid_nest_strides(x, in);
  braid_nest_strides(y, own);
  braid_nest_order(x, order);
  for (int i = 0; i < x->rank; i++) {
    bool there = y->rank == x->rank || !reduced[i];
    out[i] = reduced[i] ? 0 : own[next];
    next += there;
  }
  for (int i = 0; i < x->rank; i++) {
    loop l = {x->dims[order[i]], in[order[i]], out[order[i]], reduced[order[i]]};
    loop *last = count ? &loops[count - 1] : NULL;
    if (l.dim == 1) continue;
    if (last && last->reduced == l.reduced && last->in == l.in * l.dim && last->out == l.out * l.dim) {
      last->dim *= l.dim;
      last->in = l.in;
      last->out = l.out;
    } else {
      loops[count++] = l;
    }
  }
  if (!count) loops[count++] = (loop){1, 1, 0, true};
  return count;
}

static void add_loop(braid_nest *nest, const loop *l) {
  nest->dims[nest->rank] = l->dim;
  nest->strides[0][nest->rank] = l->in;
  nest->strides[1][nest->rank++] = l->out;
}

static void init_shape(reduce *r, const loop *loops, int count) {
  const loop *last = &loops[count - 1];
  r->columns = !last->reduced;
  r->inner = last->dim;
  r->out_step = last->out;
  r->rows = r->row_stride = 1;
  int outer = count - 1;
  if (r->columns && outer && loops[outer - 1].reduced) {
    outer--;
    r->rows = loops[outer].dim;
    r->row_stride = loops[outer].in;
  }
  r->kept.operands = r->rest.operands = 2;
  for (int i = 0; i < outer; i++) add_loop(loops[i].reduced ? &r->rest : &r->kept, &loops[i]);
  add_loop(&r->kept, &(loop){1, 0, 0, false});
  add_loop(&r->rest, &(loop){1, 0, 0, false});
  r->kept_count = braid_nest_outer(&r->kept);
  r->rest_count = braid_nest_outer(&r->rest);
  r->tiles = r->columns ? (r->inner + kTile - 1) / kTile : 1;
  r->elements = r->rest_count * (r->columns ? r->rows : r->inner);
}

static void init_slices(reduce *r) {
  int64_t width = r->inner < kTile ? r->inner : kTile, length = r->columns ? r->rows : r->inner;
  r->segment = r->columns ? kSegment / (width ? width : 1) : kSegment;
  r->segments = (length + r->segment - 1) / r->segment;
  int64_t all = r->rest_count * r->segments, tasks = r->kept_count * r->tiles;
  int64_t per_slice = r->columns ? 1 : length >= kSegment ? 1 : kSegment / (length ? length : 1);
  r->slices = tasks ? kSlices / tasks : 1;
  if (r->slices > all / per_slice) r->slices = all / per_slice;
  if (r->slices < 1 || r->kind->finish == FINISH_LOG_SUM_EXP) r->slices = 1;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
static int64_t least(braid_dtype dtype) {
  int bits = 8 * (int)braid_dtype_size(dtype);
  switch (dtype) {
  case BRAID_I8:
  case BRAID_I16:
  case BRAID_I32:
  case BRAID_I64:
  case BRAID_U64: /* flipped */
    return INT64_MIN >> (64 - bits);
  default:
    return 0;
  }
}

static int64_t most(braid_dtype dtype) {
  int bits = 8 * (int)braid_dtype_size(dtype);
  if (dtype == BRAID_BOOL) return 1;
  if (least(dtype) < 0) return INT64_MAX >> (64 - bits);
  return (int64_t)((UINT64_C(1) << bits) - 1);
}

static braid_fold_value neutral_of(const reduce *r) {
  bool integer = r->fold.dtype == BRAID_I64;
  switch (r->fold.kind) {
  case BRAID_FOLD_PROD:
    return integer ? (braid_fold_value){.i = 1} : (braid_fold_value){.f = 1};
  case BRAID_FOLD_MAX:
    return integer ? (braid_fold_value){.i = least(r->in)} : (braid_fold_value){.f = -INFINITY};
  case BRAID_FOLD_MIN:
    return integer ? (braid_fold_value){.i = most(r->in)} : (braid_fold_value){.f = INFINITY};
  default:
    return integer ? (braid_fold_value){.i = 0} : (braid_fold_value){.f = 0};
  }
}

static void init_types(reduce *r, braid_dtype dtype) {
  bool logarithm = r->kind->finish == FINISH_LOG || r->kind->finish == FINISH_LOG_SUM_EXP;
  r->in = r->out = dtype;
  r->fold.kind = r->kind->fold;
  r->fold.map = r->kind->map;
  bool root = r->kind->finish == FINISH_ROOT; /* of integers, too: their squares would overflow where it does not */
  if (dtype == BRAID_F64 || (!braid_dtype_is_float(dtype) && (logarithm || root)))
    r->fold.dtype = BRAID_F64;
  else
    r->fold.dtype = braid_dtype_is_float(dtype) ? BRAID_F32 : BRAID_I64;
  r->in_bytes = r->out_bytes = braid_dtype_size(dtype);
  r->fold_bytes = braid_dtype_size(r->fold.dtype);
  r->load = dtype == r->fold.dtype ? NULL : braid_convert_find(dtype, r->fold.dtype);
  r->store = braid_convert_find(r->fold.dtype == BRAID_I64 ? BRAID_I64 : BRAID_F64, dtype);
  bool ordered = r->fold.kind == BRAID_FOLD_MAX || r->fold.kind == BRAID_FOLD_MIN;
  r->flip = dtype == BRAID_U64 && ordered ? UINT64_C(1) << 63 : 0;
  r->neutral = neutral_of(r);
}

static braid_status reduce_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  const braid_operand *axes = node->input_count > 1 && node->inputs[1].present ? &node->inputs[1] : NULL;
  bool reduced[BRAID_MAX_RANK];
  if (!braid_reduce_dims(node->attrs, node->inputs[0].desc.rank, axes ? axes->constant : NULL,
                         axes ? braid_desc_count(&axes->desc) : 0, reduced))
    return braid_fail(BRAID_INTERNAL, "axes that were not checked");
  reduce *r = braid_zalloc(allocator, sizeof *r);
  if (!r) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++)
    if (strcmp(kKinds[i].op, node->op) == 0) r->kind = &kKinds[i];
  loop loops[BRAID_MAX_RANK + 1];
  init_types(r, node->inputs[0].desc.dtype);
  init_shape(r, loops, make_loops(node, reduced, loops));
  init_slices(r);
  if (r->slices > 1) {
    int64_t width = r->columns ? r->inner : 1;
    info->workspace_bytes = (size_t)(r->slices * r->kept_count * width) * sizeof(braid_fold_value);
  }
  *state = r;
  return BRAID_OK;
}

static bool reduce_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (node->input_count < 2 || !node->inputs[1].present || node->inputs[1].constant ||
      braid_desc_count(&node->inputs[1].desc) == 0)
    return true;
  strncpy(why, "axes that are not constant", why_bytes - 1);
  why[why_bytes - 1] = 0;
  return false;
}

/* --- folding -------------------------------------------------------------------------------------------------------
 */
/* `rows` rows of `columns` elements, or one of `columns` in rows mode; in pieces where they are converted. */
static void fold_block(const reduce *r, const char *x, int64_t rows, int64_t columns, const braid_fold *fold,
                       const braid_fold_value *shifts, braid_fold_value *values) {
  if (!r->load && r->columns) {
    braid_fold_columns(fold, x, r->row_stride, rows, columns, shifts, values);
  } else if (!r->load) {
    braid_fold_row(fold, x, columns, shifts ? shifts->f : 0, values);
  } else {
    uint64_t piece[kPiece];
    for (int64_t i = 0; i < rows; i++)
      for (int64_t begin = 0; begin < columns; begin += kPiece) {
        int64_t count = begin + kPiece < columns ? kPiece : columns - begin;
        r->load(x + (i * r->row_stride + begin) * (int64_t)r->in_bytes, piece, count);
        for (int64_t j = 0; r->flip && j < count; j++) piece[j] ^= r->flip;
        if (r->columns)
          braid_fold_columns(fold, piece, count, 1, count, shifts, values);
        else
          braid_fold_row(fold, piece, count, shifts ? shifts->f : 0, values);
      }
  }
}

/* Segments [begin, end) of the results from column `column` on. */
static void fold_segments(const reduce *r, const char *x, int64_t column, int64_t width, int64_t begin, int64_t end,
                          const braid_fold *fold, const braid_fold_value *shifts, braid_fold_value *values) {
  braid_nest_cursor cursor;
  int64_t at = -1, length = r->columns ? r->rows : r->inner;
  for (int64_t s = begin; s < end; s++) {
    if (at < 0)
      braid_nest_seek(&r->rest, s / r->segments, &cursor);
    else if (s / r->segments != at)
      braid_nest_next(&r->rest, &cursor);
    at = s / r->segments;
    int64_t first = s % r->segments * r->segment, rest = length - first;
    int64_t count = rest < r->segment ? rest : r->segment;
    int64_t offset = cursor.offsets[0] + (r->columns ? first * r->row_stride + column : first);
    const char *from = x + offset * (int64_t)r->in_bytes;
    if (r->columns)
      fold_block(r, from, count, width, fold, shifts, values);
    else
      fold_block(r, from, 1, count, fold, shifts, values);
  }
}

static void finish_values(const reduce *r, const braid_fold_value *shifts, int64_t count, braid_fold_value *values) {
  bool integer = r->fold.dtype == BRAID_I64;
  for (int64_t j = 0; j < count; j++) {
    braid_fold_value *v = &values[j];
    switch (r->kind->finish) {
    case FINISH_MEAN:
      if (!integer)
        v->f /= (double)r->elements;
      else if (r->elements)
        v->i = r->in == BRAID_U64 ? (int64_t)((uint64_t)v->i / (uint64_t)r->elements) : v->i / r->elements;
      break;
    case FINISH_ROOT:
      v->f = sqrt(v->f);
      break;
    case FINISH_LOG:
      v->f = log(v->f);
      break;
    case FINISH_LOG_SUM_EXP:
      v->f = log(v->f) + shifts[j].f;
      break;
    default:
      if (integer) v->i ^= (int64_t)r->flip;
    }
  }
}

static void store_values(const reduce *r, const braid_fold_value *values, int64_t count, char *out) {
  uint64_t row[kTile];
  if (r->out_step == 1 || count == 1) {
    r->store(values, out, count);
    return;
  }
  r->store(values, row, count);
  for (int64_t j = 0; j < count; j++)
    memcpy(out + j * r->out_step * (int64_t)r->out_bytes, (const char *)row + (size_t)j * r->out_bytes, r->out_bytes);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static void set_neutral(const reduce *r, int64_t count, braid_fold_value *values) {
  for (int64_t j = 0; j < count; j++) values[j] = r->neutral;
}

/* A tile of results, from all that belongs to them. */
static void fold_tile(const reduce *r, const char *x, int64_t column, int64_t width, char *out) {
  braid_fold_value values[kTile], shifts[kTile];
  int64_t all = r->rest_count * r->segments;
  bool shifted = r->kind->finish == FINISH_LOG_SUM_EXP;
  if (shifted) { /* the largest element first: the exponentials of what lies below it do not overflow */
    braid_fold largest = {BRAID_FOLD_MAX, BRAID_MAP_SAME, r->fold.dtype};
    for (int64_t j = 0; j < width; j++) shifts[j].f = -INFINITY;
    fold_segments(r, x, column, width, 0, all, &largest, NULL, shifts);
    for (int64_t j = 0; j < width; j++)
      if (!isfinite(shifts[j].f)) shifts[j].f = 0;
  }
  set_neutral(r, width, values);
  fold_segments(r, x, column, width, 0, all, &r->fold, shifted ? shifts : NULL, values);
  finish_values(r, shifts, width, values);
  store_values(r, values, width, out);
}

static void run_whole(const reduce *r, const char *x, char *y) {
  int64_t work = r->elements * (r->columns && r->inner < kTile ? r->inner : r->columns ? kTile : 1);
  int64_t group = work >= kGrain || r->tiles > 1 ? 1 : kGrain / (work + 1), tasks = r->kept_count * r->tiles;
  int64_t groups = (tasks + group - 1) / group;
#pragma omp parallel for schedule(static) if (groups > 1)
  for (int64_t g = 0; g < groups; g++) {
    int64_t end = (g + 1) * group < tasks ? (g + 1) * group : tasks;
    for (int64_t t = g * group; t < end; t++) {
      braid_nest_cursor cursor;
      braid_nest_seek(&r->kept, t / r->tiles, &cursor);
      int64_t column = r->columns ? t % r->tiles * kTile : 0;
      int64_t width = !r->columns ? 1 : r->inner - column < kTile ? r->inner - column : kTile;
      char *out = y + (cursor.offsets[1] + column * r->out_step) * (int64_t)r->out_bytes;
      const char *from = x ? x + cursor.offsets[0] * (int64_t)r->in_bytes : NULL; /* NULL: an empty tensor */
      fold_tile(r, from, column, width, out);
    }
  }
}

static void merge_tile(const reduce *r, const braid_fold_value *parts, int64_t place, int64_t width, char *out) {
  braid_fold_value values[kTile];
  int64_t results = r->kept_count * (r->columns ? r->inner : 1);
  set_neutral(r, width, values);
  for (int64_t s = 0; s < r->slices; s++) braid_fold_merge(&r->fold, parts + s * results + place, width, values);
  finish_values(r, NULL, width, values);
  store_values(r, values, width, out);
}

/* A workspace holds the results of every slice. */
static void run_slices(const reduce *r, const char *x, char *y, braid_fold_value *parts) {
  int64_t breadth = r->columns ? r->inner : 1, results = r->kept_count * breadth;
  int64_t tasks = r->kept_count * r->tiles, all = r->rest_count * r->segments;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t u = 0; u < tasks * r->slices; u++) {
    int64_t t = u / r->slices, s = u % r->slices, column = r->columns ? t % r->tiles * kTile : 0;
    int64_t width = breadth - column < kTile ? breadth - column : kTile;
    braid_nest_cursor cursor;
    braid_nest_seek(&r->kept, t / r->tiles, &cursor);
    braid_fold_value values[kTile];
    set_neutral(r, width, values);
    fold_segments(r, x + cursor.offsets[0] * (int64_t)r->in_bytes, column, width, all * s / r->slices,
                  all * (s + 1) / r->slices, &r->fold, NULL, values);
    memcpy(parts + s * results + t / r->tiles * breadth + column, values, (size_t)width * sizeof *values);
  }
  for (int64_t t = 0; t < tasks; t++) {
    int64_t column = r->columns ? t % r->tiles * kTile : 0;
    int64_t width = breadth - column < kTile ? breadth - column : kTile;
    braid_nest_cursor cursor;
    braid_nest_seek(&r->kept, t / r->tiles, &cursor);
    char *out = y + (cursor.offsets[1] + column * r->out_step) * (int64_t)r->out_bytes;
    merge_tile(r, parts, t / r->tiles * breadth + column, width, out);
  }
}

static braid_status reduce_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)node;
  const reduce *r = state;
  if (r->slices > 1)
    run_slices(r, args->inputs[0], args->outputs[0], args->workspace);
  else
    run_whole(r, args->inputs[0], args->outputs[0]);
  return BRAID_OK;
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static void reduce_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  outputs[0] = BRAID_LAYOUT_PLAIN;
  if (braid_layout_is_blocked(inputs[0])) inputs[0] = BRAID_LAYOUT_PLAIN;
  if (node->input_count > 1) inputs[1] = BRAID_LAYOUT_PLAIN;
}

static const braid_cpu_kernel kReduce = {.create = reduce_create, .run = reduce_run};
#define KERNEL(name_of_op)                                                                                             \
  {                                                                                                                    \
    .op = name_of_op, .name = "ref_reduce", .match = reduce_match, .layouts = reduce_layouts,                          \
    .implementation = &kReduce                                                                                         \
  }

static const braid_kernel kKernels[] = {
    KERNEL("ReduceSum"),       KERNEL("ReduceMean"),      KERNEL("ReduceMax"), KERNEL("ReduceMin"),
    KERNEL("ReduceProd"),      KERNEL("ReduceL1"),        KERNEL("ReduceL2"),  KERNEL("ReduceLogSum"),
    KERNEL("ReduceLogSumExp"), KERNEL("ReduceSumSquare"),
};

extern const braid_cpu_table braid_cpu_loops_reduce;
const braid_cpu_table braid_cpu_loops_reduce = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
