/* How a tile is cut so that its pieces fit the memories of a core: all cuts that fit are compared by the time that the
 * busiest module takes, and what comes before and after it. */
#include <string.h>

#include "overlay/compiler/tile.h"

void braid_window_span(int32_t first, int32_t count, int32_t kernel, int32_t stride, int32_t dilation, int32_t pad,
                       int32_t size, int32_t *from, int32_t *to) {
  int64_t low = (int64_t)first * stride - pad;
  int64_t high = (int64_t)(first + count - 1) * stride - pad + (int64_t)(kernel - 1) * dilation + 1;
  *from = (int32_t)(low < 0 ? 0 : low > size ? size : low);
  *to = (int32_t)(high < *from ? *from : high > size ? size : high);
}

/* The most that any `count` results see. */
static int32_t window_extent(int32_t count, int32_t kernel, int32_t stride, int32_t dilation, int32_t size) {
  int64_t extent = (int64_t)(count - 1) * stride + (int64_t)(kernel - 1) * dilation + 1;
  return extent > size ? size : (int32_t)extent;
}

int64_t braid_weight_lines(const braid_layer_work *work, int32_t channels, int32_t inputs) {
  const braid_overlay_design *design = work->design;
  int64_t taps = (int64_t)work->window.kernel_rows * work->window.kernel_columns;
  if (work->side) return 0;
  if (work->own) return (int64_t)braid_ceil(channels, work->unit) * work->unit * taps / BRAID_ISA_WORD;
  return (int64_t)braid_ceil(channels, design->channels_out) * taps * braid_ceil(inputs, design->channels_in) *
         design->channels_out * design->channels_in / BRAID_ISA_WORD;
}

int64_t braid_stop_limit(const braid_overlay_design *design) {
  return (int64_t)(40 * design->clock_mhz);
}

int64_t braid_piece_cycles(const braid_layer_work *work, int32_t rows, int32_t channels, int32_t columns,
                           int32_t inputs) {
  const braid_overlay_design *design = work->design;
  int64_t taps = (int64_t)work->window.kernel_rows * work->window.kernel_columns;
  if (work->side) {
    int64_t bytes = (int64_t)braid_ceil(channels, BRAID_OVERLAY_PLANE) * BRAID_ISA_WORD * rows * columns;
    return bytes * taps * (work->has_other ? 2 : 1) / design->side_bytes;
  }
  return (int64_t)braid_ceil(rows, design->pixels) * (work->own ? 1 : braid_ceil(inputs, design->channels_in)) *
         braid_ceil(channels, design->channels_out) * columns * taps;
}

typedef struct braid_cut_counts {
  int64_t blocks, strips, groups, parts; /* how many there are */
} braid_cut_counts;

static braid_cut_counts cut_counts(const braid_layer_work *work, const braid_layer_part *part,
                                   const braid_blocking *cut) {
  braid_cut_counts n = {.blocks = braid_ceil(part->columns, cut->columns),
                        .strips = braid_ceil(work->y.rows, cut->rows),
                        .groups = braid_ceil(part->channels, cut->channels),
                        .parts = work->own ? 1 : braid_ceil(work->in_channels, cut->inputs)};
  return n;
}

void braid_blocking_slots(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut,
                          braid_slots *out) {
  const braid_overlay_window *w = &work->window;
  braid_cut_counts n = cut_counts(work, part, cut);
  int64_t planes = braid_ceil(work->own ? cut->channels : cut->inputs, BRAID_OVERLAY_PLANE);
  int64_t rows = window_extent(cut->rows, w->kernel_rows, w->stride_rows, w->dilation_rows, work->x.rows);
  int64_t columns =
      window_extent(cut->columns, w->kernel_columns, w->stride_columns, w->dilation_columns, work->x.columns);
  out->input = planes * rows * columns;
  out->output = (int64_t)braid_ceil(cut->channels, BRAID_OVERLAY_PLANE) * cut->rows * cut->columns;
  out->weights = braid_weight_lines(work, cut->channels, cut->inputs);
  out->biases = work->side ? 0 : braid_ceil(cut->channels, 4);
  int64_t pieces = n.blocks * n.strips * n.groups;
  out->outputs = pieces > 1 ? 2 : 1;
  out->addends = work->has_other ? out->outputs : 0;
  out->inputs = n.blocks * n.strips * n.parts * (work->own ? n.groups : 1) > 1 ? 2 : 1;
  out->weight_slots = n.groups * n.parts > 1 ? 2 : 1;
}

/* The name of the memory that is too small, or NULL. */
static const char *lacking(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut) {
  const braid_overlay_design *design = work->design;
  braid_slots slots;
  braid_blocking_slots(work, part, cut, &slots);
  int64_t features = slots.input * slots.inputs + slots.output * (slots.outputs + slots.addends);
  if (features > design->feature_bytes / BRAID_ISA_WORD) return "features";
  if (work->side) return NULL;
  if (slots.weights * slots.weight_slots > design->weight_bytes / BRAID_ISA_WORD) return "weights";
  if (slots.biases * slots.weight_slots > design->bias_bytes / BRAID_ISA_WORD) return "biases";
  if (work->own || cut->inputs >= work->in_channels) return NULL;
  int64_t sums = (int64_t)cut->rows * cut->columns * braid_ceil(cut->channels, design->channels_out) *
                 design->channels_out * (int64_t)sizeof(int32_t);
  return sums > design->sum_bytes ? "sums" : NULL;
}

static int64_t tile_compute(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut) {
  const braid_overlay_design *design = work->design;
  int64_t taps = (int64_t)work->window.kernel_rows * work->window.kernel_columns;
  if (work->side) {
    int64_t bytes =
        (int64_t)braid_ceil(part->channels, BRAID_OVERLAY_PLANE) * BRAID_ISA_WORD * work->y.rows * part->columns;
    return bytes * taps * (work->has_other ? 2 : 1) / design->side_bytes;
  }
  int64_t last = work->y.rows % cut->rows;
  int64_t convs = (int64_t)(work->y.rows / cut->rows) * braid_ceil(cut->rows, design->pixels) +
                  braid_ceil((int32_t)last, design->pixels);
  int64_t inputs = work->own ? 1 : braid_ceil(work->in_channels, design->channels_in);
  return convs * inputs * braid_ceil(part->channels, design->channels_out) * part->columns * taps;
}

/* Cycles that an instruction is taken to cost by being there, so that programs stay short, which are copied and sent
 * whenever a share changes. */
enum { kInstruction = 48 };

/* LOAD, compute and SAVE work side by side but for the first LOADs and the last SAVE. */
static int64_t cut_cycles(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut) {
  const braid_overlay_design *design = work->design;
  braid_cut_counts n = cut_counts(work, part, cut);
  braid_slots slots;
  braid_blocking_slots(work, part, cut, &slots);
  bool strips_stay = cut->channels_first || n.groups == 1; /* a group's weights serve all strips */
  int64_t pieces = n.blocks * n.strips * n.groups;
  int64_t inputs = work->own ? pieces : n.blocks * n.strips;
  if (!work->own && (n.parts > 1 || (cut->channels_first && n.strips > 1))) inputs = pieces * n.parts;
  int64_t weights = work->side                    ? 0
                    : n.groups * n.parts == 1     ? 1
                    : n.parts > 1 || !strips_stay ? pieces * n.parts
                                                  : n.blocks * n.groups;
  int64_t one_input = braid_move_cycles(design, slots.input * BRAID_ISA_WORD);
  int64_t one_weights = work->side ? 0 : braid_move_cycles(design, slots.weights * BRAID_ISA_WORD);
  int64_t one_output = braid_move_cycles(design, slots.output * BRAID_ISA_WORD);
  int64_t load = inputs * one_input + weights * one_weights + (work->has_other ? pieces * one_output : 0);
  int64_t compute = tile_compute(work, part, cut);
  int64_t longest = load > compute ? load : compute;
  if (pieces * one_output > longest) longest = pieces * one_output;
  int64_t convs = work->side ? 1 : braid_ceil(cut->rows, design->pixels);
  int64_t instructions = inputs + 2 * weights + pieces * (work->has_other ? 2 : 1) + pieces * n.parts * convs;
  int64_t cycles = longest + (longest == load ? compute / pieces : one_input + one_weights) + one_output;
  return cycles + instructions * kInstruction;
}

/* Numbers of pieces that are tried: 1, 2, 3, 4, 6, 8, 12, 16 ... */
static int32_t next_count(int32_t count) {
  return count < 3 ? count + 1 : count & (count - 1) ? count / 3 * 4 : count / 2 * 3;
}

/* The best rows and channels for given columns and parts of the input; cycles < 0: none fits. */
static void choose_rows(const braid_layer_work *work, const braid_layer_part *part, braid_blocking cut,
                        braid_blocking *best, const char **lack) {
  int32_t multiple = work->side ? 1 : work->design->pixels;
  int32_t most_strips = braid_ceil(work->y.rows, multiple), units = braid_ceil(part->channels, work->unit);
  bool parts = !work->own && cut.inputs < work->in_channels;
  for (int32_t groups = 1; groups <= units * 2; groups = next_count(groups)) {
    cut.channels = braid_ceil(units, groups < units ? groups : units) * work->unit;
    if (cut.channels > part->channels) cut.channels = part->channels;
    for (int32_t strips = 1; strips <= most_strips * 2; strips = next_count(strips)) {
      cut.rows = braid_ceil(most_strips, strips < most_strips ? strips : most_strips) * multiple;
      if (cut.rows > work->y.rows) cut.rows = work->y.rows;
      if (parts && cut.rows > work->design->pixels) continue;
      const char *why = lacking(work, part, &cut);
      if (why) {
        *lack = why;
        continue;
      }
      for (int first = 0; first < (groups > 1 ? 2 : 1); first++) {
        cut.channels_first = first;
        cut.cycles = cut_cycles(work, part, &cut);
        if (best->cycles < 0 || cut.cycles < best->cycles) *best = cut;
      }
    }
  }
}

braid_status braid_blocking_choose(const braid_layer_work *work, const braid_layer_part *part, braid_blocking *out) {
  const braid_overlay_design *design = work->design;
  const char *lack = "features";
  int32_t grain = BRAID_OVERLAY_PLANE; /* of parts of the input: whole planes and whole groups */
  while (grain % design->channels_in) grain += BRAID_OVERLAY_PLANE;
  int32_t grains = work->own ? 1 : braid_ceil(work->in_channels, grain);
  braid_blocking best = {.cycles = -1};
  for (int32_t blocks = 1; blocks <= part->columns * 2; blocks *= 2) {
    braid_blocking cut = {.columns = braid_ceil(part->columns, blocks)};
    bool whole = false;
    for (int32_t parts = 1; parts <= grains * 2; parts *= 2) {
      braid_blocking found = {.cycles = -1};
      cut.inputs = work->own ? part->channels : braid_ceil(grains, parts < grains ? parts : grains) * grain;
      if (!work->own && cut.inputs > work->in_channels) cut.inputs = work->in_channels;
      /* A LOAD brings a tap's weights of all these channels as one row. */
      if (!work->own && (int64_t)braid_ceil(cut.inputs, design->channels_in) * design->channels_in *
                                design->channels_out / BRAID_ISA_WORD >
                            1 << 12) {
        lack = "weights";
        continue;
      }
      choose_rows(work, part, cut, &found, &lack);
      if (found.cycles < 0) continue;
      if (best.cycles < 0 || found.cycles < best.cycles) best = found;
      whole = parts == 1;
      break;
    }
    if (whole) break;
  }
  *out = best;
  if (best.cycles < 0)
    return braid_fail(BRAID_UNSUPPORTED, "the memory of %s of a core is too small for the smallest part of it", lack);
  return BRAID_OK;
}
