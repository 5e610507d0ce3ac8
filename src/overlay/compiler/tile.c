/* The instructions of a tile. Its pieces follow each other; while one is computed, LOADs bring what the next one lacks
 * into the other slot, and the result of the one before is saved. A piece that takes long is computed and saved in
 * portions, and between portions or pieces stand places to stop at. */
#include "overlay/compiler/tile.h"

#include <string.h>

#include "base/try.h"

typedef struct braid_piece {
  int32_t block, strip, group, part; /* which */
  int32_t column, columns, row, rows, channel, channels, input, inputs;
  int32_t row_from, row_to, column_from, column_to; /* of the input, that are loaded */
  int32_t in_slot, weight_slot, out_slot;
  int64_t loading; /* cycles of the LOADs that it lacked, while all ports want their banks */
} braid_piece;

typedef struct braid_tile_state {
  const braid_layer_work *work;
  const braid_layer_part *tile;
  const braid_blocking *cut;
  braid_emitter *emitter;
  braid_slots slots;
  int64_t output_at, addend_at;    /* lines of the feature memory; the input is at 0 */
  bool loaded;                     /* `last` holds a piece */
  braid_piece last;                /* whose data the slots got most recently */
  int32_t rows, channels, columns; /* the most of a portion */
  int64_t stretch;                 /* cycles from one place to stop to the next, about */
  int64_t since;                   /* the last one */
} braid_tile_state;

/* Rows, columns and channels of a piece that are computed and saved together. */
typedef struct braid_portion {
  int32_t row, rows, column, columns, channel, channels;
} braid_portion;

static int32_t lesser(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static braid_piece piece_at(const braid_tile_state *state, int32_t block, int32_t strip, int32_t group, int32_t part) {
  const braid_layer_work *work = state->work;
  const braid_blocking *cut = state->cut;
  const braid_overlay_window *w = &work->window;
  braid_piece p = {.block = block, .strip = strip, .group = group, .part = part};
  p.column = state->tile->column + block * cut->columns;
  p.columns = lesser(cut->columns, state->tile->column + state->tile->columns - p.column);
  p.row = strip * cut->rows;
  p.rows = lesser(cut->rows, work->y.rows - p.row);
  p.channel = state->tile->channel + group * cut->channels;
  p.channels = lesser(cut->channels, state->tile->channel + state->tile->channels - p.channel);
  p.input = work->own ? p.channel : part * cut->inputs;
  p.inputs = work->own ? p.channels : lesser(cut->inputs, work->in_channels - p.input);
  braid_window_span(p.row, p.rows, w->kernel_rows, w->stride_rows, w->dilation_rows, w->pad_top, work->x.rows,
                    &p.row_from, &p.row_to);
  braid_window_span(p.column, p.columns, w->kernel_columns, w->stride_columns, w->dilation_columns, w->pad_left,
                    work->x.columns, &p.column_from, &p.column_to);
  return p;
}

static int64_t weights_at(const braid_tile_state *state, const braid_piece *p) {
  return p->weight_slot * state->slots.weights;
}

/* Lines of one plane of what is loaded of the input. */
static int64_t input_plane(const braid_piece *p) {
  return (int64_t)(p->row_to - p->row_from) * (p->column_to - p->column_from);
}

static braid_portion whole_of(const braid_piece *p) {
  return (braid_portion){p->row, p->rows, p->column, p->columns, p->channel, p->channels};
}

/* Lines from the first of a piece on the chip to the first of a portion. */
static int64_t portion_at(const braid_piece *p, const braid_portion *q) {
  return ((int64_t)((q->channel - p->channel) / BRAID_OVERLAY_PLANE) * p->rows + q->row - p->row) * p->columns +
         q->column - p->column;
}

static int64_t result_at(const braid_layer_map *map, const braid_portion *q) {
  return map->line + q->channel / BRAID_OVERLAY_PLANE * map->plane_lines + q->row * map->row_lines + q->column;
}

/* What a field can't hold is refused by its encoder; what int32 can't, here. */
static int32_t field(int64_t value) {
  return value < INT32_MIN || value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

/* `chip`: where the piece lies. */
static void move_result(braid_instruction *in, const braid_layer_map *map, const braid_piece *p, const braid_portion *q,
                        int64_t chip) {
  in->load.memory = BRAID_ISA_FEATURES;
  in->load.segment = map->segment;
  in->load.ddr = field(result_at(map, q));
  in->load.chip = field(chip + portion_at(p, q));
  in->load.planes = braid_ceil(q->channels, BRAID_OVERLAY_PLANE);
  in->load.rows = q->rows;
  in->load.lines = q->columns;
  in->load.ddr_plane = field(map->plane_lines);
  in->load.ddr_row = field(map->row_lines);
  in->load.chip_plane = field((int64_t)p->rows * p->columns);
  in->load.chip_row = p->columns;
}

static braid_status load_input(braid_tile_state *state, const braid_piece *p) {
  const braid_layer_map *x = &state->work->x;
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
  if (input_plane(p) == 0) return BRAID_OK;
  in.load.memory = BRAID_ISA_FEATURES;
  in.load.segment = x->segment;
  in.load.ddr =
      field(x->line + p->input / BRAID_OVERLAY_PLANE * x->plane_lines + p->row_from * x->row_lines + p->column_from);
  in.load.chip = field(p->in_slot * state->slots.input);
  in.load.planes = braid_ceil(p->inputs, BRAID_OVERLAY_PLANE);
  in.load.rows = p->row_to - p->row_from;
  in.load.lines = p->column_to - p->column_from;
  in.load.ddr_plane = field(x->plane_lines);
  in.load.ddr_row = field(x->row_lines);
  in.load.chip_plane = field(input_plane(p));
  in.load.chip_row = in.load.lines;
  return braid_emit(state->emitter, &in, 0, 1u << (BRAID_SLOT_INPUT + p->in_slot), false);
}

static braid_status load_weights(braid_tile_state *state, const braid_piece *p) {
  const braid_layer_work *work = state->work;
  const braid_overlay_design *design = work->design;
  int32_t taps = work->window.kernel_rows * work->window.kernel_columns;
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
  in.load.memory = BRAID_ISA_WEIGHTS;
  in.load.segment = BRAID_SEGMENT_CONSTANTS;
  in.load.chip = field(weights_at(state, p));
  if (work->own) {
    in.load.rows = braid_ceil(p->channels, work->unit);
    in.load.lines = work->unit * taps / BRAID_ISA_WORD;
    in.load.ddr = field(work->weights + (int64_t)(p->channel / work->unit) * in.load.lines);
    in.load.ddr_row = in.load.chip_row = in.load.lines;
  } else {
    int32_t lines = design->channels_in * design->channels_out / BRAID_ISA_WORD; /* of a group by a group */
    int32_t groups = braid_ceil(work->in_channels, design->channels_in);
    in.load.planes = braid_ceil(p->channels, design->channels_out);
    in.load.rows = taps;
    in.load.lines = braid_ceil(p->inputs, design->channels_in) * lines;
    in.load.ddr_row = groups * lines;
    in.load.ddr_plane = taps * groups * lines;
    in.load.ddr = field(work->weights + (int64_t)(p->channel / design->channels_out) * in.load.ddr_plane +
                        (int64_t)(p->input / design->channels_in) * lines);
    in.load.chip_row = in.load.lines;
    in.load.chip_plane = field((int64_t)taps * in.load.lines);
  }
  return braid_emit(state->emitter, &in, 0, 1u << (BRAID_SLOT_WEIGHTS + p->weight_slot), false);
}

static braid_status load_biases(braid_tile_state *state, const braid_piece *p) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
  in.load.memory = BRAID_ISA_BIASES;
  in.load.segment = BRAID_SEGMENT_CONSTANTS;
  in.load.ddr = field(state->work->biases + p->channel / 4);
  in.load.chip = field(p->weight_slot * state->slots.biases);
  in.load.lines = braid_ceil(p->channels, 4);
  return braid_emit(state->emitter, &in, 0, 1u << (BRAID_SLOT_BIASES + p->weight_slot), false);
}

static int32_t other_slot(int32_t slot, int32_t slots) {
  return slots > 1 ? 1 - slot : 0;
}

/* Loads what a piece needs and the slots don't hold; sets its slots. */
static braid_status prepare(braid_tile_state *state, braid_piece *p) {
  const braid_layer_work *work = state->work;
  const braid_piece *last = &state->last;
  bool first = !state->loaded;
  bool same_place = !first && p->block == last->block && p->strip == last->strip;
  bool input = !same_place || p->part != last->part || (work->own && p->group != last->group);
  bool group = first || p->group != last->group;
  bool weights = group || p->part != last->part;
  size_t from = state->emitter->count;
  p->in_slot = first ? 0 : input ? other_slot(last->in_slot, state->slots.inputs) : last->in_slot;
  p->weight_slot = first ? 0 : weights ? other_slot(last->weight_slot, state->slots.weight_slots) : last->weight_slot;
  p->out_slot = first ? 0 : !same_place || group ? other_slot(last->out_slot, state->slots.outputs) : last->out_slot;
  if (weights && !work->side) {
    BRAID_TRY(load_weights(state, p));
    BRAID_TRY(load_biases(state, p));
  }
  if (input) BRAID_TRY(load_input(state, p));
  if (work->has_other && (!same_place || group)) {
    braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
    braid_portion all = whole_of(p);
    move_result(&in, &work->other, p, &all, state->addend_at + p->out_slot * state->slots.output);
    BRAID_TRY(braid_emit(state->emitter, &in, 0, 1u << (BRAID_SLOT_ADDEND + p->out_slot), false));
  }
  p->loading = 0;
  for (size_t i = from; i < state->emitter->count; i++)
    p->loading += braid_instruction_slowest(work->design, &state->emitter->items[i]);
  state->last = *p;
  state->loaded = true;
  return BRAID_OK;
}

/* The fields that CONV and MISC begin with. */
#define F(name, bits, less, lowest, highest, text) int32_t name;
typedef struct braid_window_fields {
  BRAID_ISA_WINDOW(F)
} braid_window_fields;
#undef F

/* Sets them for a portion of a piece; the others are the layer's. */
static void set_window(const braid_tile_state *state, const braid_piece *p, const braid_portion *q,
                       braid_instruction *in) {
  const braid_layer_work *work = state->work;
  const braid_overlay_window *w = &work->window;
  int32_t row_from, row_to, column_from, column_to;
  int32_t pitch = p->column_to - p->column_from;
  braid_window_fields fields, *out = &fields;
  memcpy(out, &in->misc, sizeof *out);
  braid_window_span(q->row, q->rows, w->kernel_rows, w->stride_rows, w->dilation_rows, w->pad_top, work->x.rows,
                    &row_from, &row_to);
  braid_window_span(q->column, q->columns, w->kernel_columns, w->stride_columns, w->dilation_columns, w->pad_left,
                    work->x.columns, &column_from, &column_to);
  bool nothing = row_from == row_to || column_from == column_to;
  int64_t planes = work->own ? (q->channel - p->channel) / BRAID_OVERLAY_PLANE : 0; /* those before */
  out->input = nothing ? 0
                       : field(p->in_slot * state->slots.input + planes * input_plane(p) +
                               (int64_t)(row_from - p->row_from) * pitch + column_from - p->column_from);
  out->input_plane = nothing ? 0 : field(input_plane(p));
  out->input_pitch = nothing ? 0 : pitch;
  out->input_rows = nothing ? 0 : row_to - row_from;
  out->input_columns = nothing ? 0 : column_to - column_from;
  out->first_row = nothing ? 0 : q->row * w->stride_rows - w->pad_top - row_from;
  out->first_column = nothing ? 0 : q->column * w->stride_columns - w->pad_left - column_from;
  out->output = field(state->output_at + p->out_slot * state->slots.output + portion_at(p, q));
  out->output_plane = field((int64_t)p->rows * p->columns);
  out->output_pitch = p->columns;
  out->output_rows = q->rows;
  out->output_columns = q->columns;
  memcpy(&in->misc, out, sizeof *out); /* as well those of CONV: members of one union */
}

static uint32_t piece_reads(const braid_tile_state *state, const braid_piece *p) {
  uint32_t reads = 1u << (BRAID_SLOT_INPUT + p->in_slot);
  if (state->work->has_other) reads |= 1u << (BRAID_SLOT_ADDEND + p->out_slot);
  if (!state->work->side)
    reads |= 1u << (BRAID_SLOT_WEIGHTS + p->weight_slot) | 1u << (BRAID_SLOT_BIASES + p->weight_slot);
  return reads;
}

/* Lines from a piece's first weights to those of a channel of its result. */
static int64_t weights_before(const braid_layer_work *work, const braid_piece *p, int32_t channel) {
  return channel == p->channel ? 0 : braid_weight_lines(work, channel - p->channel, p->inputs);
}

/* `first`: of the piece's portions. */
static braid_status compute_conv(braid_tile_state *state, const braid_piece *p, const braid_portion *q, bool first,
                                 bool start, bool finish) {
  const braid_layer_work *work = state->work;
  braid_portion part = *q;
  for (part.row = q->row; part.row < q->row + q->rows; part.row += work->design->pixels) {
    braid_instruction in = work->base;
    part.rows = lesser(work->design->pixels, q->row + q->rows - part.row);
    set_window(state, p, &part, &in);
    in.conv.channels_in = work->own ? q->channels : p->inputs;
    in.conv.channels_out = q->channels;
    in.conv.weights = field(weights_at(state, p) + weights_before(work, p, q->channel));
    in.conv.biases = field(p->weight_slot * state->slots.biases + (q->channel - p->channel) / 4);
    in.conv.start = start;
    in.conv.finish = finish;
    if (work->has_other) in.conv.addend = field(in.conv.output + state->addend_at - state->output_at);
    BRAID_TRY(braid_emit(state->emitter, &in, piece_reads(state, p),
                         finish ? 1u << (BRAID_SLOT_OUTPUT + p->out_slot) : 0, !first || part.row > q->row));
  }
  return BRAID_OK;
}

/* Taps of the window at a row (or column) that count in a mean. */
static int32_t counted(int32_t at, int32_t kernel, int32_t stride, int32_t dilation, int32_t low, int32_t high,
                       int32_t pad) {
  int32_t count = 0;
  for (int32_t k = 0; k < kernel; k++) {
    int32_t from = at * stride - pad + k * dilation;
    count += from >= low && from < high;
  }
  return count;
}

static int32_t counted_rows(const braid_layer_work *work, int32_t row) {
  const braid_overlay_window *w = &work->window;
  if (!work->mean) return 1;
  return counted(row, w->kernel_rows, w->stride_rows, w->dilation_rows, work->counts_padding ? -w->pad_top : 0,
                 work->x.rows + (work->counts_padding && w->pad_bottom > 0 ? w->pad_bottom : 0), w->pad_top);
}

static int32_t counted_columns(const braid_layer_work *work, int32_t column) {
  const braid_overlay_window *w = &work->window;
  if (!work->mean) return 1;
  return counted(column, w->kernel_columns, w->stride_columns, w->dilation_columns,
                 work->counts_padding ? -w->pad_left : 0,
                 work->x.columns + (work->counts_padding && w->pad_right > 0 ? w->pad_right : 0), w->pad_left);
}

/* Rows that one MISC may do, so that those of its input fit their field. */
static int32_t most_rows(const braid_overlay_window *w) {
  int32_t rows = (1000 - w->kernel_rows * w->dilation_rows) / w->stride_rows;
  return rows < 1 ? 1 : rows;
}

/* A mean is divided by what the window counts: rows and columns for which that is the same number go together. */
static braid_status compute_misc(braid_tile_state *state, const braid_piece *p, const braid_portion *q, bool first) {
  const braid_layer_work *work = state->work;
  braid_portion part = *q;
  int32_t most = most_rows(&work->window), row_end = q->row + q->rows, column_end = q->column + q->columns;
  for (part.row = q->row; part.row < row_end; part.row += part.rows) {
    int32_t row = part.row, high = counted_rows(work, row);
    for (part.rows = 1; part.rows < most && row + part.rows < row_end && counted_rows(work, row + part.rows) == high;)
      part.rows++;
    for (part.column = q->column; part.column < column_end; part.column += part.columns) {
      int32_t column = part.column, wide = counted_columns(work, column);
      braid_instruction in = work->base;
      for (part.columns = 1;
           column + part.columns < column_end && counted_columns(work, column + part.columns) == wide;)
        part.columns++;
      set_window(state, p, &part, &in);
      in.misc.groups = braid_ceil(q->channels, BRAID_OVERLAY_PLANE);
      in.misc.divisor = high * wide;
      if (work->has_other) in.misc.addend = field(in.misc.output + state->addend_at - state->output_at);
      BRAID_TRY(
          braid_emit(state->emitter, &in, piece_reads(state, p), 1u << (BRAID_SLOT_OUTPUT + p->out_slot), !first));
      first = false;
    }
  }
  return BRAID_OK;
}

/* --- portions and places to stop at --------------------------------------------------------------------------------
 */
/* The least number of parts of `count` of which `cycles` are shared so that none has more than `most`, if that can be;
 * the size of one. */
static int32_t part_size(int32_t count, int64_t cycles, int64_t most) {
  int64_t parts = (cycles + most - 1) / most;
  return parts >= count ? 1 : parts < 2 ? count : braid_ceil(count, (int32_t)parts);
}

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Of saving so much while all ports want their banks. */
static int64_t saving_cycles(const braid_layer_work *work, int32_t rows, int32_t channels, int32_t columns) {
  int64_t lines = (int64_t)braid_ceil(channels, BRAID_OVERLAY_PLANE) * rows * columns;
  return 2 * braid_move_cycles(work->design, lines * BRAID_ISA_WORD);
}

/* Of computing so much, or of saving it, whichever is longer. */
static int64_t portion_cycles(const braid_layer_work *work, int32_t rows, int32_t channels, int32_t columns,
                              int32_t inputs) {
  return most(braid_piece_cycles(work, rows, channels, columns, inputs), saving_cycles(work, rows, channels, columns));
}

/* Until so much, which is begun while as much is saved, is saved too. */
static int64_t standing_cycles(const braid_layer_work *work, int32_t rows, int32_t channels, int32_t columns,
                               int32_t inputs) {
  return portion_cycles(work, rows, channels, columns, inputs) + saving_cycles(work, rows, channels, columns);
}

/* What of a piece is computed and saved at once: fewer rows, then channels, then columns, until it takes no longer than
 * the bound of a stop allows. Sums that stay in the core from part to part bind all of a piece. */
static void choose_portions(braid_tile_state *state, int32_t parts) {
  const braid_layer_work *work = state->work;
  const braid_blocking *cut = state->cut;
  int64_t most_cycles = braid_stop_limit(work->design) * 7 / 8; /* the rest for instructions on their way */
  int32_t step = work->side ? 1 : work->design->pixels;
  state->rows = cut->rows;
  state->channels = cut->channels;
  state->columns = cut->columns;
  if (parts > 1) return;
  int64_t cycles = standing_cycles(work, state->rows, state->channels, state->columns, cut->inputs);
  state->rows = lesser(part_size(braid_ceil(cut->rows, step), cycles, most_cycles) * step, cut->rows);
  cycles = standing_cycles(work, state->rows, state->channels, state->columns, cut->inputs);
  state->channels =
      lesser(part_size(braid_ceil(cut->channels, work->unit), cycles, most_cycles) * work->unit, cut->channels);
  cycles = standing_cycles(work, state->rows, state->channels, state->columns, cut->inputs);
  state->columns = part_size(cut->columns, cycles, most_cycles);
}

static braid_status save_portion(braid_tile_state *state, const braid_piece *p, const braid_portion *q) {
  braid_instruction save = braid_isa_blank(BRAID_ISA_OP_SAVE);
  move_result(&save, &state->work->y, p, q, state->output_at + p->out_slot * state->slots.output);
  return braid_emit(state->emitter, &save, 1u << (BRAID_SLOT_OUTPUT + p->out_slot), 0, false);
}

static braid_status stop_here(braid_tile_state *state) {
  state->since = 0;
  return braid_emit_tile(state->emitter, state->work->layer);
}

/* `q` is one portion; the next piece is prepared before the last one of a piece is computed. */
static braid_status compute_portion(braid_tile_state *state, const braid_piece *p, const braid_portion *q, bool first,
                                    int32_t parts) {
  bool finish = p->part == parts - 1;
  int64_t cycles = portion_cycles(state->work, q->rows, q->channels, q->columns, p->inputs);
  if (state->work->side)
    BRAID_TRY(compute_misc(state, p, q, first));
  else
    BRAID_TRY(compute_conv(state, p, q, first, p->part == 0, finish));
  state->since += most(cycles, first ? p->loading : 0);
  return finish ? save_portion(state, p, q) : BRAID_OK;
}

/* Computes a piece, and prepares the next one; NULL: there is none. */
static braid_status compute(braid_tile_state *state, const braid_piece *p, int32_t parts, braid_piece *next) {
  braid_portion q = whole_of(p);
  for (q.row = p->row; q.row < p->row + p->rows; q.row += q.rows) {
    q.rows = lesser(state->rows, p->row + p->rows - q.row);
    for (q.channel = p->channel; q.channel < p->channel + p->channels; q.channel += q.channels) {
      q.channels = lesser(state->channels, p->channel + p->channels - q.channel);
      for (q.column = p->column; q.column < p->column + p->columns; q.column += q.columns) {
        q.columns = lesser(state->columns, p->column + p->columns - q.column);
        bool first = q.row == p->row && q.channel == p->channel && q.column == p->column;
        bool last = q.row + q.rows == p->row + p->rows && q.channel + q.channels == p->channel + p->channels &&
                    q.column + q.columns == p->column + p->columns;
        if (last && next) BRAID_TRY(prepare(state, next));
        BRAID_TRY(compute_portion(state, p, &q, first, parts));
        if (!last) BRAID_TRY(stop_here(state));
      }
    }
  }
  if (!next || next->part > 0) return BRAID_OK;
  int64_t cycles = most(next->loading, portion_cycles(state->work, lesser(state->rows, next->rows),
                                                      lesser(state->channels, next->channels),
                                                      lesser(state->columns, next->columns), next->inputs));
  return state->since + cycles * parts > state->stretch ? stop_here(state) : BRAID_OK;
}

braid_status braid_tile_emit(const braid_layer_work *work, const braid_layer_part *part, const braid_blocking *cut,
                             braid_emitter *emitter) {
  braid_tile_state state = {.work = work, .tile = part, .cut = cut, .emitter = emitter};
  braid_piece pending; /* loaded, not computed yet */
  int32_t blocks = braid_ceil(part->columns, cut->columns), strips = braid_ceil(work->y.rows, cut->rows);
  int32_t groups = braid_ceil(part->channels, cut->channels);
  int32_t parts = work->own ? 1 : braid_ceil(work->in_channels, cut->inputs);
  int32_t outer = cut->channels_first ? groups : strips, inner = cut->channels_first ? strips : groups;
  int64_t pieces = (int64_t)blocks * strips * groups * parts;
  braid_blocking_slots(work, part, cut, &state.slots);
  state.output_at = state.slots.input * state.slots.inputs;
  state.addend_at = state.output_at + state.slots.output * state.slots.outputs;
  state.stretch = braid_stop_limit(work->design) / 2;
  choose_portions(&state, parts);
  memset(&pending, 0, sizeof pending);
  BRAID_TRY(stop_here(&state));
  for (int64_t i = 0; i < pieces; i++) {
    int32_t p = (int32_t)(i % parts), in = (int32_t)(i / parts % inner), out = (int32_t)(i / parts / inner % outer);
    int32_t block = (int32_t)(i / parts / inner / outer);
    braid_piece next = piece_at(&state, block, cut->channels_first ? in : out, cut->channels_first ? out : in, p);
    BRAID_TRY(i > 0 ? compute(&state, &pending, parts, &next) : prepare(&state, &next));
    pending = next;
  }
  return compute(&state, &pending, parts, NULL);
}
