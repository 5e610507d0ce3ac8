#include "overlay/recurrent/lstm_program.h"

#include <string.h>

#include "base/try.h"
#include "base/vector.h"

enum { kGates = 4, kLine = 8 /* numbers */, kMostLines = 4096 /* of a row of LOAD */ };
enum { WAIT_IN = 1 << BRAID_ISA_IN, WAIT_COMPUTE = 1 << BRAID_ISA_COMPUTE, WAIT_SIDE = 1 << BRAID_ISA_SIDE };
enum { TO_IN = WAIT_IN, TO_OUT = 1 << BRAID_ISA_OUT, TO_COMPUTE = WAIT_COMPUTE, TO_SIDE = WAIT_SIDE };

/* A part of a gate's matrix that is on the chip at once. */
typedef struct part {
  int32_t gate, row, rows, column, columns; /* rows of the gate's; columns of the padded input */
  bool starts, finishes;                    /* a sum; both: all columns */
  size_t weights_at, biases_at;             /* lines of the constants */
  size_t weight_lines, bias_lines;
} part;

typedef struct share {
  int32_t first, units; /* hidden states of a core */
  part *parts;
  size_t count, capacity;
  size_t weight_lines, bias_lines; /* of all */
} share;

typedef struct builder {
  const braid_lstm *lstm;
  const braid_overlay_design *design;
  braid_lstm_program *out;
  share shares[BRAID_OVERLAY_MOST_CORES];
  int32_t x_lines, h_lines, columns; /* of a step's vector: x, filled to lines, then h */
} builder;

static int32_t over(int64_t whole, int64_t divisor) {
  return (int32_t)((whole + divisor - 1) / divisor);
}

static size_t lines_of(size_t bytes) {
  return (bytes + BRAID_ISA_WORD - 1) / BRAID_ISA_WORD;
}

/* --- vectors -------------------------------------------------------------------------------------------------------
 * In lines: two times x and h, which steps take turns at, then cells and four gates. */
static int32_t x_at(const builder *b, int turn) {
  return turn * (b->x_lines + b->h_lines);
}

static int32_t h_at(const builder *b, int turn) {
  return x_at(b, turn) + b->x_lines;
}

static int32_t cells_at(const builder *b) {
  return 2 * (b->x_lines + b->h_lines);
}

static int32_t gate_at(const builder *b, int gate) {
  return cells_at(b) + (1 + gate) * b->h_lines;
}

static int64_t vector_lines(const builder *b) {
  return gate_at(b, kGates);
}

/* --- parts ---------------------------------------------------------------------------------------------------------
 */
static size_t weight_lines(const builder *b, int32_t rows, int32_t columns) {
  size_t numbers = (size_t)over(rows, b->design->rows) * (size_t)b->design->rows *
                   (size_t)over(columns, b->design->columns) * (size_t)b->design->columns;
  return lines_of(numbers * sizeof(int16_t));
}

static int32_t common_multiple(int32_t a, int32_t b) {
  int32_t x = a, y = b;
  while (y) {
    int32_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

static braid_status add_part(builder *b, share *s, const part *made) {
  part *items = braid_grow(b->out->allocator, s->parts, s->count, &s->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  s->parts = items;
  items[s->count] = *made;
  items[s->count].weight_lines = weight_lines(b, made->rows, made->columns);
  items[s->count].bias_lines = made->starts ? lines_of((size_t)made->rows * sizeof(int32_t)) : 0;
  s->weight_lines += items[s->count].weight_lines;
  s->bias_lines += items[s->count].bias_lines;
  s->count++;
  return BRAID_OK;
}

/* The rows of a gate in parts that fit `weights` and `biases` lines. */
static braid_status divide_gate(builder *b, share *s, int32_t gate, size_t weights, size_t biases) {
  int32_t group = common_multiple(b->design->rows, kLine), step = common_multiple(b->design->columns, kLine);
  int32_t rows = s->units, columns;
  while (rows > group && (weight_lines(b, rows, b->columns) > weights || lines_of((size_t)rows * 4) > biases))
    rows = (over(rows, group) - 1) * group;
  columns = b->columns;
  if (weight_lines(b, rows, columns) > weights) /* one group of rows, then, by parts of its columns */
    columns = (int32_t)(weights * BRAID_ISA_WORD / sizeof(int16_t) / (size_t)group) / step * step;
  bool stays = columns < b->columns;
  if (columns < 1 || lines_of((size_t)rows * 4) > biases || (stays && (int64_t)6 * group > b->design->sum_bytes))
    return braid_fail(BRAID_UNSUPPORTED,
                      "%s: %lld bytes for weights, %lld for biases and %lld for sums of a core are too few for %d rows "
                      "of an LSTM of %d inputs and %d states",
                      b->design->name, (long long)b->design->weight_bytes, (long long)b->design->bias_bytes,
                      (long long)b->design->sum_bytes, group, b->lstm->inputs, b->lstm->hidden);
  for (int32_t row = 0; row < s->units; row += rows)
    for (int32_t column = 0; column < b->columns; column += columns) {
      part made = {.gate = gate, .row = row, .column = column};
      made.rows = s->units - row < rows ? s->units - row : rows;
      made.columns = b->columns - column < columns ? b->columns - column : columns;
      made.starts = column == 0;
      made.finishes = column + made.columns == b->columns;
      BRAID_TRY(add_part(b, s, &made));
    }
  return BRAID_OK;
}

static braid_status divide_share(builder *b, share *s, size_t weights, size_t biases) {
  s->count = 0;
  s->weight_lines = s->bias_lines = 0;
  for (int32_t gate = 0; gate < kGates && s->units; gate++) BRAID_TRY(divide_gate(b, s, gate, weights, biases));
  return BRAID_OK;
}

/* States by groups of rows, and of lines of vectors, evenly. */
static void share_out(builder *b) {
  int32_t group = over(b->design->rows, kLine) * kLine, groups = over(b->lstm->hidden, group), first = 0;
  for (int i = 0; i < b->out->cores; i++) {
    int32_t end = (int32_t)((int64_t)groups * (i + 1) / b->out->cores) * group;
    if (end > b->lstm->hidden) end = b->lstm->hidden;
    b->shares[i].first = first;
    b->shares[i].units = end - first;
    first = end;
  }
}

/* All of it on the chip, if that fits on every core; else halves that take turns. */
static braid_status divide_all(builder *b) {
  size_t weights = (size_t)b->design->weight_bytes / BRAID_ISA_WORD;
  size_t biases = (size_t)b->design->bias_bytes / BRAID_ISA_WORD;
  b->out->weights_stay = true;
  for (int i = 0; i < b->out->cores; i++) {
    const share *s = &b->shares[i];
    size_t lines = kGates * weight_lines(b, s->units, b->columns);
    size_t more = kGates * lines_of((size_t)s->units * 4);
    b->out->weights_stay &= lines <= weights && more <= biases;
  }
  for (int i = 0; i < b->out->cores; i++)
    BRAID_TRY(b->out->weights_stay ? divide_share(b, &b->shares[i], weights, biases)
                                   : divide_share(b, &b->shares[i], weights / 2, biases / 2));
  return BRAID_OK;
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
static int16_t weight_at(const builder *b, int32_t gate, int32_t unit, int32_t column) {
  const braid_lstm *l = b->lstm;
  const int16_t *row = l->weights + ((size_t)gate * (size_t)l->hidden + (size_t)unit) * (size_t)(l->inputs + l->hidden);
  if (column < l->inputs) return row[column];
  column -= b->x_lines * kLine;
  return column < 0 ? 0 : row[l->inputs + column];
}

static void pack_part(const builder *b, const share *s, const part *p) {
  int32_t hp = b->design->rows, wp = b->design->columns;
  int16_t *out = (int16_t *)(void *)(b->out->constants + p->weights_at * BRAID_ISA_WORD);
  for (int32_t r = 0; r < p->rows; r += hp)
    for (int32_t c = 0; c < p->columns; c += wp)
      for (int32_t i = 0; i < hp * wp; i++, out++) {
        int32_t row = r + i / wp, column = c + i % wp;
        if (row < p->rows && column < p->columns)
          *out = weight_at(b, p->gate, s->first + p->row + row, p->column + column);
      }
  if (p->starts)
    memcpy(b->out->constants + p->biases_at * BRAID_ISA_WORD,
           b->lstm->biases + (size_t)p->gate * (size_t)b->lstm->hidden + (size_t)(s->first + p->row),
           (size_t)p->rows * sizeof(int32_t));
}

static braid_status make_constants(builder *b) {
  size_t lines = 0;
  for (int i = 0; i < b->out->cores; i++)
    for (size_t k = 0; k < b->shares[i].count; k++) {
      part *p = &b->shares[i].parts[k];
      p->weights_at = lines;
      p->biases_at = lines + p->weight_lines;
      lines = p->biases_at + p->bias_lines;
    }
  if (lines >= (size_t)1 << 28)
    return braid_fail(BRAID_UNSUPPORTED, "weights of %zu lines: an address has 28 bits", lines);
  b->out->constant_bytes = lines * BRAID_ISA_WORD;
  b->out->constants = braid_zalloc_array(b->out->allocator, lines + 1, BRAID_ISA_WORD);
  if (!b->out->constants) return BRAID_NO_MEMORY;
  for (int i = 0; i < b->out->cores; i++)
    for (size_t k = 0; k < b->shares[i].count; k++) pack_part(b, &b->shares[i], &b->shares[i].parts[k]);
  return BRAID_OK;
}

/* --- instructions --------------------------------------------------------------------------------------------------
 */
static braid_status emit_instruction(builder *b, int core, const braid_instruction *in) {
  braid_lstm_code *code = &b->out->codes[core];
  uint8_t words[BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD];
  braid_instruction own = *in;
  size_t bytes;
  own.core = core;
  BRAID_TRY(braid_isa_encode(&own, words, &bytes));
  for (size_t i = 0; i < bytes; i += BRAID_ISA_WORD, code->words++) {
    uint8_t *grown = braid_grow(b->out->allocator, code->bytes, code->words, &code->capacity, BRAID_ISA_WORD);
    if (!grown) return BRAID_NO_MEMORY;
    code->bytes = grown;
    memcpy(grown + code->words * BRAID_ISA_WORD, words + i, BRAID_ISA_WORD);
  }
  return BRAID_OK;
}

/* So many lines one behind the other; rows of LOAD have a limit. */
static braid_status emit_move(builder *b, int core, bool saves, braid_isa_memory memory, int segment, size_t ddr,
                              size_t chip, size_t lines, int wait, int signal) {
  while (lines) {
    size_t rows = lines / kMostLines ? lines / kMostLines : 1, length = lines < kMostLines ? lines : kMostLines;
    if (rows > kMostLines) rows = kMostLines;
    braid_instruction in = braid_isa_blank(saves ? BRAID_ISA_OP_SAVE : BRAID_ISA_OP_LOAD);
    in.load.memory = memory;
    in.load.segment = segment;
    in.load.ddr = (int32_t)ddr;
    in.load.chip = (int32_t)chip;
    in.load.rows = (int32_t)rows;
    in.load.lines = (int32_t)length;
    in.load.ddr_row = in.load.chip_row = rows > 1 ? (int32_t)length : 0;
    ddr += rows * length, chip += rows * length, lines -= rows * length;
    in.wait = wait;
    in.signal = lines ? 0 : signal;
    wait = 0;
    BRAID_TRY(emit_instruction(b, core, &in));
  }
  return BRAID_OK;
}

static braid_status emit_sync(builder *b, int core, int layer, bool end) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.sync = !end;
  in.system.end = end;
  in.system.layer = layer % (1 << 16);
  return emit_instruction(b, core, &in);
}

static braid_status emit_load(builder *b, int core, const part *p, size_t weights, size_t biases, int wait,
                              int signal) {
  if (p->starts) {
    BRAID_TRY(emit_move(b, core, false, BRAID_ISA_BIASES, BRAID_LSTM_CONSTANTS, p->biases_at, biases, p->bias_lines,
                        wait, 0));
    wait = 0;
  }
  return emit_move(b, core, false, BRAID_ISA_WEIGHTS, BRAID_LSTM_CONSTANTS, p->weights_at, weights, p->weight_lines,
                   wait, signal);
}

static braid_status emit_mvm(builder *b, int core, int turn, const part *p, size_t weights, size_t biases, int wait,
                             int signal) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MVM);
  in.wait = wait;
  in.signal = signal;
  in.mvm.weights = (int32_t)weights;
  in.mvm.biases = (int32_t)biases;
  in.mvm.input = x_at(b, turn) + p->column / kLine;
  in.mvm.output = gate_at(b, p->gate) + (b->shares[core].first + p->row) / kLine;
  in.mvm.rows = p->rows;
  in.mvm.columns = p->columns;
  in.mvm.start = p->starts;
  in.mvm.finish = p->finishes;
  in.mvm.shift = b->lstm->shift;
  return emit_instruction(b, core, &in);
}

/* The sums of all gates, of the core's own states. Behind a gate's last part side may begin with it. */
static braid_status emit_sums(builder *b, int core, int turn) {
  const share *s = &b->shares[core];
  size_t half = (size_t)b->design->weight_bytes / BRAID_ISA_WORD / 2, weights = 0, biases = 0;
  size_t bias_half = (size_t)b->design->bias_bytes / BRAID_ISA_WORD / 2;
  for (size_t i = 0; i < s->count; i++) {
    const part *p = &s->parts[i];
    bool last = i + 1 == s->count || s->parts[i + 1].gate != p->gate;
    int signal = last ? TO_SIDE : 0, wait = 0;
    if (!b->out->weights_stay) {
      weights = i % 2 * half, biases = i % 2 * bias_half;
      BRAID_TRY(emit_load(b, core, p, weights, biases, i < 2 ? 0 : WAIT_COMPUTE, TO_COMPUTE));
      wait = WAIT_IN;
      if (i + 2 < s->count) signal |= TO_IN;
    }
    BRAID_TRY(emit_mvm(b, core, turn, p, weights, biases, wait, signal));
    weights += p->weight_lines, biases += p->bias_lines; /* where all of them stay */
  }
  return BRAID_OK;
}

static braid_status emit_ele(builder *b, int core, braid_isa_ele_function function, int32_t input, int32_t addend,
                             int32_t output, int shift, int wait, int signal) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_ELE);
  int32_t line = b->shares[core].first / kLine;
  in.wait = wait;
  in.signal = signal;
  in.ele.function = function;
  in.ele.length = b->shares[core].units;
  in.ele.input = input + line;
  in.ele.addend = addend + line;
  in.ele.output = output + line;
  in.ele.shift = shift;
  return emit_instruction(b, core, &in);
}

/* As braid_lstm_step has them, on the core's own states. */
static braid_status emit_gates(builder *b, int core, int turn) {
  const int kProduct = -BRAID_LSTM_HIDDEN_EXPONENT, kAdded = BRAID_LSTM_CELL_EXPONENT - 2 * BRAID_LSTM_HIDDEN_EXPONENT;
  int32_t i = gate_at(b, BRAID_LSTM_INPUT), o = gate_at(b, BRAID_LSTM_OUTPUT), f = gate_at(b, BRAID_LSTM_FORGET);
  int32_t g = gate_at(b, BRAID_LSTM_CELL), c = cells_at(b), h = h_at(b, !turn);
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_SIGMOID, i, 0, i, 0, WAIT_COMPUTE, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_SIGMOID, o, 0, o, 0, WAIT_COMPUTE, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_SIGMOID, f, 0, f, 0, WAIT_COMPUTE, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_PRODUCT, c, f, c, kProduct, 0, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_TANH, g, 0, g, 0, WAIT_COMPUTE, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_PRODUCT, i, g, i, kAdded, 0, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_SUM, c, i, c, 0, 0, 0));
  BRAID_TRY(emit_ele(b, core, BRAID_ISA_ELE_TANH, c, 0, g, 0, 0, 0));
  return emit_ele(b, core, BRAID_ISA_ELE_PRODUCT, o, g, h, kProduct, 0, TO_OUT);
}

static braid_status emit_input(builder *b, int step) {
  return emit_move(b, 0, false, BRAID_ISA_VECTORS, BRAID_LSTM_INPUTS, (size_t)step * (size_t)b->x_lines,
                   (size_t)x_at(b, step % 2), (size_t)b->x_lines, 0, 0);
}

static braid_status emit_step(builder *b, int core, int step) {
  const share *s = &b->shares[core];
  int turn = step % 2;
  if (core == 0 && step + 1 < b->out->steps) BRAID_TRY(emit_input(b, step + 1));
  if (s->units) {
    size_t line = (size_t)(s->first / kLine), lines = (size_t)over(s->units, kLine);
    BRAID_TRY(emit_sums(b, core, turn));
    BRAID_TRY(emit_gates(b, core, turn));
    BRAID_TRY(emit_move(b, core, true, BRAID_ISA_VECTORS, BRAID_LSTM_OUTPUTS, (size_t)step * (size_t)b->h_lines + line,
                        (size_t)h_at(b, !turn) + line, lines, WAIT_SIDE, 0));
  }
  return emit_sync(b, core, step, false);
}

static braid_status emit_core(builder *b, int core) {
  const share *s = &b->shares[core];
  size_t weights = 0, biases = 0;
  if (core == 0) BRAID_TRY(emit_input(b, 0));
  for (size_t i = 0; i < s->count && b->out->weights_stay; i++) {
    BRAID_TRY(emit_load(b, core, &s->parts[i], weights, biases, 0, 0));
    weights += s->parts[i].weight_lines, biases += s->parts[i].bias_lines;
  }
  BRAID_TRY(emit_sync(b, core, 0, false));
  for (int step = 0; step < b->out->steps; step++) BRAID_TRY(emit_step(b, core, step));
  return emit_sync(b, core, b->out->steps, true);
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
static braid_status check_room(const builder *b, int steps, int cores) {
  const braid_overlay_design *d = b->design;
  if (!d->recurrent) return braid_fail(BRAID_UNSUPPORTED, "%s: its cores are for convolutional networks", d->name);
  if (steps < 1 || cores < 1 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%d steps on %d cores: at least one step, and 1 to %d cores, are expected", steps, cores,
                      BRAID_OVERLAY_MOST_CORES);
  if (vector_lines(b) * BRAID_ISA_WORD > d->vector_bytes || vector_lines(b) > 1 << 14)
    return braid_fail(
        BRAID_UNSUPPORTED, "%s: vectors of an LSTM of %d inputs and %d states take %lld bytes, there are %lld", d->name,
        b->lstm->inputs, b->lstm->hidden, (long long)vector_lines(b) * BRAID_ISA_WORD, (long long)d->vector_bytes);
  if ((int64_t)steps * (b->x_lines + b->h_lines) >= 1 << 28)
    return braid_fail(BRAID_UNSUPPORTED, "a sequence of %d steps: inputs and outputs have too many lines", steps);
  return BRAID_OK;
}

static braid_status build_program(builder *b) {
  braid_lstm_program *out = b->out;
  BRAID_TRY(check_room(b, out->steps, out->cores));
  out->codes = braid_zalloc_array(out->allocator, (size_t)out->cores, sizeof *out->codes);
  if (!out->codes) return BRAID_NO_MEMORY;
  out->step_input_bytes = (size_t)b->x_lines * BRAID_ISA_WORD;
  out->step_output_bytes = (size_t)b->h_lines * BRAID_ISA_WORD;
  out->input_bytes = out->step_input_bytes * (size_t)out->steps;
  out->output_bytes = out->step_output_bytes * (size_t)out->steps;
  out->context_bytes = (size_t)(b->x_lines + 2 * b->h_lines) * BRAID_ISA_WORD; /* x, h and c */
  share_out(b);
  BRAID_TRY(divide_all(b));
  BRAID_TRY(make_constants(b));
  for (int core = 0; core < out->cores; core++) BRAID_TRY(emit_core(b, core));
  return BRAID_OK;
}

braid_status braid_lstm_compile(const braid_lstm *lstm, int steps, const braid_overlay_design *design, int cores,
                                const braid_allocator *allocator, braid_lstm_program **out) {
  *out = NULL;
  braid_lstm_program *made = braid_zalloc(allocator, sizeof *made);
  builder *b = made ? braid_zalloc(allocator, sizeof *b) : NULL;
  if (!b) {
    braid_free(allocator, made);
    return BRAID_NO_MEMORY;
  }
  *made = (braid_lstm_program){.allocator = allocator, .cores = cores, .steps = steps};
  *b = (builder){.lstm = lstm, .design = design, .out = made};
  b->x_lines = over(lstm->inputs, kLine);
  b->h_lines = over(lstm->hidden, kLine);
  b->columns = b->x_lines * kLine + lstm->hidden;
  braid_status status = build_program(b);
  for (int i = 0; i < BRAID_OVERLAY_MOST_CORES; i++) braid_free(allocator, b->shares[i].parts);
  braid_free(allocator, b);
  if (status == BRAID_OK)
    *out = made;
  else
    braid_lstm_program_destroy(made);
  return status;
}

void braid_lstm_program_destroy(braid_lstm_program *program) {
  if (!program) return;
  for (int i = 0; i < program->cores && program->codes; i++) braid_free(program->allocator, program->codes[i].bytes);
  braid_free(program->allocator, program->codes);
  braid_free(program->allocator, program->constants);
  braid_free(program->allocator, program);
}
