/* The gradient of integer weights: for each place of the kernel a product of bytes (../dot) whose inner dimension is
 * batch times positions, taken in blocks. Errors are turned once, so that a filter's errors of a block stand side by
 * side (lifted by 128, as the left side of ../dot wants them); of the other operand, four places at a time become the
 * quads of a panel, straight from the image: strides, pads and dilations are only other addresses. Where channels are
 * few the columns are those of all places of the kernel: the windows are laid out as rows first (rows.h), then four
 * rows become a quad. Sums of a block are added to those of a task in 32 or 64 bits; a task has one place of the kernel
 * and one strip of channels. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/dot/dot.h"
#include "backend/cpu/integer/lines_isa.h"
#include "backend/cpu/integer/quads_isa.h"
#include "backend/cpu/integer/rows.h"
#include "backend/cpu/integer/turn.h"
#include "base/checked.h"
#include "base/try.h"

/* kBlock: positions. Rows of turned errors are further apart, by a cache line, than a power of two: those of a tile
 * would share a few sets of the cache. */
enum { kBlock = 1024, kLine = 64, kLift = 128, kTasksPerLane = 4, kMostGathered = 256 };

typedef struct integer_filter {
  const braid_node_desc *node;
  braid_convolution conv;
  int64_t channels, filters;             /* of a group */
  bool gathered;                         /* rows of windows are laid out first */
  int64_t columns, places, row_step;     /* channels and places of the kernel; gathered, all of them and one; a row */
  braid_integer_sweeps sweeps;           /* gathered: of the forward pass */
  int64_t positions, blocks, block;      /* block: positions of one, a multiple of a quad */
  int64_t turned_step;                   /* bytes of a filter's errors in a block */
  int64_t volume, strips, tasks, splits; /* splits: parts of the blocks, each with tasks of its own */
  int64_t lanes;
  bool is_wide;
  size_t rows_at, panel_bytes, lane_at, lane_bytes, zeros_at; /* in the workspace */
} integer_filter;

static void filter_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  inputs[0] = inputs[1] = node->inputs[0].desc.rank > 2 ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
}

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static size_t sum_bytes(const integer_filter *p) {
  return p->is_wide ? sizeof(int64_t) : sizeof(int32_t);
}

static bool place_all(integer_filter *p, braid_prepared_info *info) {
  size_t turned, sums, lanes, at;
  p->panel_bytes = (size_t)p->block * BRAID_DOT_COLUMNS;
  p->rows_at = p->panel_bytes;
  if (p->gathered) p->panel_bytes += (size_t)(p->block * p->row_step);
  if (!braid_mul_size((size_t)(p->turned_step * p->blocks), (size_t)p->conv.outputs, &turned) ||
      !braid_mul_size((size_t)p->filters * BRAID_DOT_COLUMNS, sum_bytes(p), &sums) ||
      !braid_add_size(sums, p->panel_bytes + kLine, &p->lane_bytes))
    return false;
  p->lane_bytes &= ~(size_t)(kLine - 1);
  p->lane_at = (turned + kLine - 1) & ~(size_t)(kLine - 1);
  /* A line of padding, and the lifted ones that sum a panel's columns. */
  size_t zeros = (size_t)p->channels + (size_t)p->block;
  return braid_mul_size(p->lane_bytes, (size_t)p->lanes, &lanes) && braid_add_size(p->lane_at, lanes, &at) &&
         (p->zeros_at = at, braid_add_size(at, zeros, &info->workspace_bytes));
}

static void filter_destroy(const braid_allocator *allocator, void *state) {
  integer_filter *p = state;
  if (p) braid_integer_sweeps_deinit(allocator, &p->sweeps);
  braid_free(allocator, p);
}

/* Columns of a panel come in units: of few channels most would be empty. */
static void choose_columns(integer_filter *p) {
  int64_t volume = p->volume, all = p->channels * volume;
  p->gathered = p->conv.groups == 1 && volume > 1 && p->channels < BRAID_DOT_UNIT && all <= kMostGathered;
  p->columns = p->gathered ? all : p->channels;
  p->places = p->gathered ? 1 : volume;
  p->row_step = (p->columns + BRAID_DOT_UNIT - 1) / BRAID_DOT_UNIT * BRAID_DOT_UNIT;
  p->strips = (p->columns + BRAID_DOT_COLUMNS - 1) / BRAID_DOT_COLUMNS;
}

static braid_status filter_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  *state = NULL;
  braid_convolution conv;
  BRAID_TRY(braid_integer_conv_grad_filter(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, &conv));
  integer_filter *p = braid_zalloc(allocator, sizeof *p);
  if (!p) return BRAID_NO_MEMORY;
  *p = (integer_filter){.node = node, .conv = conv, .lanes = omp_get_max_threads()};
  p->channels = conv.inputs / conv.groups;
  p->filters = conv.outputs / conv.groups;
  p->positions = conv.batch * braid_window_outputs(&conv.window);
  p->block = p->positions < kBlock ? braid_dot_quads(p->positions) * BRAID_DOT_QUAD : kBlock;
  p->blocks = p->block ? (p->positions + p->block - 1) / p->block : 0;
  p->turned_step = p->block + kLine;
  p->volume = braid_window_volume(&conv.window);
  choose_columns(p);
  p->tasks = conv.groups * p->strips * p->places;
  p->splits = p->tasks ? (kTasksPerLane * p->lanes + p->tasks - 1) / p->tasks : 1;
  if (p->tasks >= 2 * p->lanes || p->lanes == 1) p->splits = 1;
  if (p->splits > p->blocks) p->splits = p->blocks ? p->blocks : 1;
  p->is_wide = node->outputs[0].desc.dtype == BRAID_I64;
  braid_status status = BRAID_OK;
  if (p->gathered) status = braid_integer_sweeps_init(allocator, &p->conv.window, false, true, &p->sweeps);
  if (status == BRAID_OK && !place_all(p, info)) status = braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  if (status == BRAID_OK)
    *state = p;
  else
    filter_destroy(allocator, p);
  return status;
}

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
typedef struct filter_job {
  const integer_filter *p;
  const braid_cpu_args *args;
  uint8_t *turned;
  const int8_t *zeros;
  const uint8_t *lifted;
} filter_job;

static int64_t block_size(const integer_filter *p, int64_t block) {
  int64_t left = p->positions - block * p->block;
  return left < p->block ? left : p->block;
}

static void turn_errors(const filter_job *j) {
  const integer_filter *p = j->p;
  const int8_t *e = j->args->inputs[1];
  int64_t all = p->conv.outputs;
#pragma omp parallel for schedule(static) num_threads((int)p->lanes)
  for (int64_t block = 0; block < p->blocks; block++) {
    uint8_t *to = j->turned + block * all * p->turned_step;
    int64_t size = block_size(p, block);
    braid_integer_turn(e + block * p->block * all, all, size, all, to, p->turned_step);
    /* The last quad is read whole; the panel has zeros there. */
    for (int64_t f = 0; f < all && size % BRAID_DOT_QUAD; f++)
      memset(to + f * p->turned_step + size, kLift, (size_t)(BRAID_DOT_QUAD - size % BRAID_DOT_QUAD));
  }
}

/* Walks over the positions of the errors: the channels that lie under one place of the kernel. */
typedef struct filter_walk {
  const int8_t *image, *zeros;
  int64_t image_step, row, column;       /* of the input; row < 0 or beyond: padding */
  int64_t x, y, first_row, first_column; /* position in the errors; where its image and its line start in the input */
} filter_walk;

static filter_walk walk_from(const filter_job *j, int64_t position, int64_t place, int64_t channel) {
  const braid_window *v = &j->p->conv.window;
  int64_t y = position / v->output[2] % v->output[1], x = position % v->output[2];
  filter_walk w = {.zeros = j->zeros, .image_step = v->input[1] * v->input[2] * j->p->conv.inputs, .x = x, .y = y};
  w.image = (const int8_t *)j->args->inputs[0] + position / v->output[2] / v->output[1] * w.image_step + channel;
  w.first_row = place / v->kernel[2] * v->dilation[1] - v->begin[1];
  w.first_column = place % v->kernel[2] * v->dilation[2] - v->begin[2];
  w.row = w.first_row + y * v->stride[1];
  w.column = w.first_column + x * v->stride[2];
  return w;
}

static const int8_t *walk_on(filter_walk *w, const braid_window *v, int64_t channels) {
  bool inside = w->row >= 0 && w->row < v->input[1] && w->column >= 0 && w->column < v->input[2];
  const int8_t *at = inside ? w->image + (w->row * v->input[2] + w->column) * channels : w->zeros;
  w->column += v->stride[2];
  if (++w->x < v->output[2]) return at;
  w->x = 0, w->column = w->first_column, w->row += v->stride[1];
  if (++w->y == v->output[1]) w->y = 0, w->row = w->first_row, w->image += w->image_step;
  return at;
}

/* Quads of positions on one line of which none is padding, up to `most`: walked over at once. The first channel of the
 * first position, and bytes to the next. */
static int64_t walk_quads(filter_walk *w, const braid_window *v, int64_t channels, int64_t most, const int8_t **at,
                          int64_t *step) {
  int64_t every = v->stride[2], inside = w->column < v->input[2] ? (v->input[2] - 1 - w->column) / every + 1 : 0;
  int64_t left = v->output[2] - 1 - w->x; /* the last of a line is for walk_on, which goes to the next */
  int64_t quads = (inside < left ? inside : left) / BRAID_DOT_QUAD;
  if (quads > most) quads = most;
  if (w->row < 0 || w->row >= v->input[1] || w->column < 0 || quads <= 0) return 0;
  *at = w->image + (w->row * v->input[2] + w->column) * channels;
  *step = every * channels;
  w->x += quads * BRAID_DOT_QUAD;
  w->column += quads * BRAID_DOT_QUAD * every;
  return quads;
}

/* The panels of one strip: units of columns, each with all quads of the block. */
static void lay_panel(const filter_job *j, int64_t block, int64_t place, int64_t channel, int64_t columns,
                      int8_t *panel) {
  const integer_filter *p = j->p;
  const braid_window window = p->conv.window;
  int64_t size = block_size(p, block), quads = braid_dot_quads(size), unit = quads * BRAID_DOT_QUAD * BRAID_DOT_UNIT;
  filter_walk walk = walk_from(j, block * p->block, place, channel);
  for (int64_t q = 0; q < quads; q++, panel += BRAID_DOT_QUAD * BRAID_DOT_UNIT) {
    const int8_t *places[BRAID_DOT_QUAD], *at = NULL;
    int64_t step = 0, whole = walk_quads(&walk, &window, p->conv.inputs, quads - 1 - q, &at, &step);
    if (whole > 0) BRAID_ISA_CALL(braid_integer_quad_line, at, step, whole, columns, panel, unit);
    panel += whole * BRAID_DOT_QUAD * BRAID_DOT_UNIT;
    q += whole;
    for (int i = 0; i < BRAID_DOT_QUAD; i++)
      places[i] = q * BRAID_DOT_QUAD + i < size ? walk_on(&walk, &window, p->conv.inputs) : j->zeros;
    braid_integer_quads(places, columns, panel, unit);
  }
}

/* The same from rows of windows, of which columns `column` and on are taken; to the end of their unit, what stands
 * there is no column of the result. */
static void lay_gathered(const filter_job *j, int64_t block, int64_t column, int64_t columns, uint8_t *rows,
                         int8_t *panel) {
  const integer_filter *p = j->p;
  const braid_window *v = &p->conv.window;
  int64_t size = block_size(p, block), quads = braid_dot_quads(size), unit = quads * BRAID_DOT_QUAD * BRAID_DOT_UNIT;
  braid_integer_rows source = {.images = j->args->inputs[0],
                               .height = v->input[1],
                               .width = v->input[2],
                               .pixel = p->channels,
                               .channels = p->channels,
                               .sweep = &p->sweeps.sweeps[0]};
  braid_integer_lay_rows(&source, block * p->block, size, rows, p->row_step);
  memset(rows + size * p->row_step, 0, (size_t)((quads * BRAID_DOT_QUAD - size) * p->row_step));
  columns = (columns + BRAID_DOT_UNIT - 1) / BRAID_DOT_UNIT * BRAID_DOT_UNIT;
  BRAID_ISA_CALL(braid_integer_quad_line, (const int8_t *)rows + column, p->row_step, quads, columns, panel, unit);
}

typedef struct filter_task {
  int64_t group, channel, columns, place; /* channel: the first column */
  void *sums;                             /* of each filter, BRAID_DOT_COLUMNS of them */
} filter_task;

static void add_block(const filter_job *j, const filter_task *t, int64_t block, const int8_t *panel) {
  const integer_filter *p = j->p;
  int64_t size = block_size(p, block), places[BRAID_DOT_ROWS];
  int32_t offsets[BRAID_DOT_COLUMNS], sums[BRAID_DOT_ROWS * BRAID_DOT_COLUMNS];
  const uint8_t *a = j->turned + (block * p->conv.outputs + t->group * p->filters) * p->turned_step;
  braid_dot_tile(j->lifted, 0, 1, panel, size, t->columns, offsets);
  for (int64_t f = 0; f < p->filters; f += BRAID_DOT_ROWS) {
    int64_t rows = p->filters - f < BRAID_DOT_ROWS ? p->filters - f : BRAID_DOT_ROWS;
    for (int64_t r = 0; r < rows; r++) places[r] = (f + r) * BRAID_DOT_COLUMNS;
    braid_dot_tile(a + f * p->turned_step, p->turned_step, rows, panel, size, t->columns, sums);
    braid_integer_tile tile = {sums, offsets, places, rows, t->columns};
    if (p->is_wide)
      BRAID_ISA_CALL(braid_integer_add_wide, &tile, t->sums);
    else
      BRAID_ISA_CALL(braid_integer_add, &tile, t->sums);
  }
}

/* Where column c of a task belongs within its filter. */
static inline int64_t result_at(const integer_filter *p, const filter_task *t, int64_t c) {
  int64_t column = t->channel + c;
  if (!p->gathered) return column * p->volume + t->place;
  return column % p->channels * p->volume + column / p->channels;
}

/* Adds a task's sums to the result, or stores them; gives their OR of magnitudes, which counts if they are stored. */
#define DEFINE_DELIVER(name, type, unsigned_type)                                                                      \
  static uint64_t name(const integer_filter *p, const filter_task *t, bool add, type *raw) {                           \
    uint64_t bits = 0;                                                                                                 \
    for (int64_t f = 0; f < p->filters; f++) {                                                                         \
      const type *sums = (const type *)t->sums + f * BRAID_DOT_COLUMNS;                                                \
      type *filter = raw + (t->group * p->filters + f) * p->channels * p->volume;                                      \
      for (int64_t c = 0; c < t->columns; c++) {                                                                       \
        type *to = filter + result_at(p, t, c);                                                                        \
        *to = add ? (type)((unsigned_type)*to + (unsigned_type)sums[c]) : sums[c];                                     \
        bits |= sums[c] < 0 ? 0 - (unsigned_type)sums[c] : (unsigned_type)sums[c];                                     \
      }                                                                                                                \
    }                                                                                                                  \
    return bits;                                                                                                       \
  }
DEFINE_DELIVER(deliver, int32_t, uint32_t)
DEFINE_DELIVER(deliver_wide, int64_t, uint64_t)
#undef DEFINE_DELIVER

static uint64_t run_task(const filter_job *j, int64_t number, int64_t split) {
  const integer_filter *p = j->p;
  char *lane = (char *)j->args->workspace + p->lane_at + (size_t)omp_get_thread_num() * p->lane_bytes;
  filter_task t = {.place = number % p->places, .group = number / p->places / p->strips, .sums = lane + p->panel_bytes};
  t.channel = number / p->places % p->strips * BRAID_DOT_COLUMNS;
  t.columns = p->columns - t.channel < BRAID_DOT_COLUMNS ? p->columns - t.channel : BRAID_DOT_COLUMNS;
  if (p->gathered) memset(lane + p->rows_at, 0, (size_t)(p->block * p->row_step));
  memset(t.sums, 0, (size_t)p->filters * BRAID_DOT_COLUMNS * sum_bytes(p));
  for (int64_t b = split * p->blocks / p->splits; b < (split + 1) * p->blocks / p->splits; b++) {
    if (p->gathered)
      lay_gathered(j, b, t.channel, t.columns, (uint8_t *)lane + p->rows_at, (int8_t *)lane);
    else
      lay_panel(j, b, t.place, t.group * p->channels + t.channel, t.columns, (int8_t *)lane);
    add_block(j, &t, b, (const int8_t *)lane);
  }
  uint64_t bits = 0;
  void *raw = j->args->outputs[0];
  if (p->splits == 1) return p->is_wide ? deliver_wide(p, &t, false, raw) : deliver(p, &t, false, raw);
#pragma omp critical(braid_integer_filter)
  bits = p->is_wide ? deliver_wide(p, &t, true, raw) : deliver(p, &t, true, raw);
  return bits;
}

/* Where several tasks added to a sum. */
static uint64_t find_magnitude(const braid_desc *desc, const void *raw) {
  uint64_t bits = 0;
  int64_t count = braid_desc_count(desc);
  for (int64_t i = 0; i < count; i++) {
    int64_t value = desc->dtype == BRAID_I64 ? ((const int64_t *)raw)[i] : ((const int32_t *)raw)[i];
    bits |= (uint64_t)(value < 0 ? -value : value);
  }
  return bits;
}

static braid_status filter_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const integer_filter *p = state;
  char *workspace = args->workspace;
  filter_job j = {.p = p,
                  .args = args,
                  .turned = (uint8_t *)workspace,
                  .zeros = (const int8_t *)(workspace + p->zeros_at),
                  .lifted = (const uint8_t *)(workspace + p->zeros_at + p->channels)};
  memset(workspace + p->zeros_at, 0, (size_t)p->channels);
  memset(workspace + p->zeros_at + p->channels, kLift, (size_t)p->block);
  const braid_desc *raw = &node->outputs[0].desc;
  if (p->splits > 1) memset(args->outputs[0], 0, braid_desc_bytes(raw));
  turn_errors(&j);
  uint64_t bits = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : bits) num_threads((int)p->lanes)
  for (int64_t i = 0; i < p->tasks * p->splits; i++) bits |= run_task(&j, i / p->splits, i % p->splits);
  if (p->splits > 1) bits = find_magnitude(raw, args->outputs[0]);
  braid_integer_set_magnitude(raw, bits, args->outputs[1]);
  return BRAID_OK;
}

static const braid_cpu_kernel kFilter = {.create = filter_create, .run = filter_run, .destroy = filter_destroy};

static const braid_kernel kKernels[] = {
    {.op = "IntegerConvGradFilter",
     .name = "dot_integer_conv_grad_filter",
     .layouts = filter_layouts,
     .implementation = &kFilter},
};

extern const braid_cpu_table braid_cpu_integer_filter;
const braid_cpu_table braid_cpu_integer_filter = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
