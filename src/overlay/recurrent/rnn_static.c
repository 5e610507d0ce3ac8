#include "overlay/recurrent/rnn_static.h"

#include <string.h>

#include "base/arena.h"
#include "base/try.h"

enum { kPieceMicroseconds = 15 };

static int64_t core_lines(int64_t bytes) {
  return bytes / BRAID_ISA_WORD;
}

static braid_rnn_core core_of(const braid_overlay_design *d) {
  double bits = (double)d->bank_bits * d->banks / d->cores; /* of its bank, shared with others */
  if (bits > d->port_bits) bits = d->port_bits;
  braid_rnn_core core = {.rows = d->rows, .columns = d->columns, .side = d->side_numbers};
  core.weights = core_lines(d->weight_bytes);
  core.biases = core_lines(d->bias_bytes);
  core.vectors = core_lines(d->vector_bytes);
  core.sums = d->sum_bytes;
  core.queue = d->queue_depth;
  core.latency = d->latency_cycles;
  core.line_parts = (int32_t)(1024 * 8 * BRAID_ISA_WORD / (bits * d->efficiency));
  core.piece_cycles = (int32_t)(kPieceMicroseconds * d->clock_mhz);
  return core;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
/* A copy of `count` items in the arena. */
static void *copy_items(braid_arena *arena, const void *items, size_t count, size_t size) {
  void *copy = braid_arena_alloc(arena, (count + 1) * size);
  if (copy && count) memcpy(copy, items, count * size);
  return copy;
}

static bool copy_name(braid_arena *arena, const char **name) {
  *name = braid_arena_text(arena, *name, strlen(*name));
  return *name != NULL;
}

static bool copy_ports(braid_arena *arena, braid_rnn_port **ports, size_t count) {
  bool copied = (*ports = copy_items(arena, *ports, count, sizeof **ports)) != NULL;
  for (size_t i = 0; copied && i < count; i++) copied = copy_name(arena, &(*ports)[i].name);
  return copied;
}

static braid_status copy_tables(braid_arena *arena, const braid_rnn *from, braid_rnn *out) {
  *out = *from;
  out->sequences = copy_items(arena, from->sequences, from->sequence_count, sizeof *out->sequences);
  out->states = copy_items(arena, from->states, from->state_count, sizeof *out->states);
  out->cells = copy_items(arena, from->cells, from->cell_count, sizeof *out->cells);
  bool copied = out->sequences && out->states && out->cells;
  for (size_t i = 0; copied && i < out->sequence_count; i++) copied = copy_name(arena, &out->sequences[i].name);
  for (size_t i = 0; copied && i < out->state_count; i++) copied = copy_name(arena, &out->states[i].name);
  for (size_t i = 0; copied && i < out->cell_count; i++) copied = copy_name(arena, &out->cells[i].name);
  copied = copied && copy_ports(arena, &out->inputs, out->input_count);
  return copied && copy_ports(arena, &out->outputs, out->output_count) ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
/* A row of a gate as the vector of x and h has it: parts filled to lines. */
static void spread_row(const braid_rnn_cell *cell, const braid_rnn_sequence *source, const int16_t *row, int16_t *out) {
  int32_t pitch = braid_rnn_lines(source->part) * BRAID_RNN_LINE;
  for (int32_t p = 0; p < source->parts; p++, row += source->part)
    memcpy(out + p * pitch, row, (size_t)source->part * sizeof *row);
  memcpy(out + cell->x_lines * BRAID_RNN_LINE, row, (size_t)cell->hidden * sizeof *row);
}

/* Groups of HP rows, in them groups of WP columns, in them HP times WP numbers (docs/isa.md). */
static void pack_cell(const braid_rnn *rnn, const braid_rnn_cell *cell, const braid_lstm *lstm, int16_t *row,
                      uint8_t *constants) {
  size_t hp = (size_t)rnn->core.rows, wp = (size_t)rnn->core.columns, padded = (size_t)cell->padded;
  size_t width = (size_t)(lstm->inputs + lstm->hidden);
  for (size_t gate = 0; gate < BRAID_RNN_GATES; gate++) {
    int16_t *weights =
        (int16_t *)(void *)(constants + (size_t)(cell->weights + (int64_t)gate * cell->gate_lines) * BRAID_ISA_WORD);
    for (size_t r = 0; r < (size_t)cell->hidden; r++) {
      spread_row(cell, &rnn->sequences[cell->source], lstm->weights + (gate * (size_t)cell->hidden + r) * width, row);
      int16_t *out = weights + r / hp * hp * padded + r % hp * wp;
      for (size_t c = 0; c < padded; c += wp, out += hp * wp) memcpy(out, row + c, wp * sizeof *row);
    }
    memcpy(constants + (size_t)(cell->biases + (int64_t)gate * cell->gate_biases) * BRAID_ISA_WORD,
           lstm->biases + gate * (size_t)cell->hidden, (size_t)cell->hidden * sizeof *lstm->biases);
  }
}

static void pack_state(const braid_rnn_state *state, const int16_t *numbers, uint8_t *constants) {
  size_t pitch = (size_t)braid_rnn_lines(state->part) * BRAID_ISA_WORD, part = (size_t)state->part;
  for (size_t p = 0; p < (size_t)state->parts; p++)
    memcpy(constants + (size_t)state->line * BRAID_ISA_WORD + p * pitch, numbers + p * part, part * sizeof *numbers);
}

static braid_status pack_all(const braid_rnn_network *network, const braid_rnn *rnn, braid_package *package) {
  int64_t bytes = package->bytes[BRAID_SEGMENT_CONSTANTS];
  uint8_t *constants = braid_arena_alloc(package->arena, (size_t)bytes + 1);
  if (!constants) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < rnn->state_count; i++)
    if (!rnn->states[i].input) pack_state(&rnn->states[i], network->numbers[i], constants);
  for (size_t i = 0; i < rnn->cell_count; i++) {
    int16_t *row = braid_arena_alloc(package->arena, (size_t)rnn->cells[i].padded * sizeof *row);
    if (!row) return BRAID_NO_MEMORY;
    pack_cell(rnn, &rnn->cells[i], network->lstms[i], row, constants);
  }
  package->constants = constants;
  return BRAID_OK;
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
static braid_status compile_into(const braid_rnn_network *network, const braid_overlay_design *design,
                                 braid_package *package) {
  braid_rnn *rnn = braid_arena_alloc(package->arena, sizeof *rnn);
  if (!rnn) return BRAID_NO_MEMORY;
  BRAID_TRY(copy_tables(package->arena, &network->tables, rnn));
  rnn->core = core_of(design);
  braid_design_fingerprint(design, package->design);
  package->design_name = braid_arena_text(package->arena, design->name, strlen(design->name));
  if (!package->design_name) return BRAID_NO_MEMORY;
  package->cores = design->cores;
  package->rnn = rnn;
  braid_status status = braid_rnn_lay_out(rnn, package->bytes);
  if (status != BRAID_OK) return braid_fail_prefix(status, "%s", design->name);
  return pack_all(network, rnn, package);
}

braid_status braid_rnn_compile(const braid_rnn_network *network, const braid_overlay_design *design,
                               const braid_allocator *allocator, braid_package **out) {
  braid_arena *arena;
  *out = NULL;
  if (!design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "%s: its cores are for convolutional networks", design->name);
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_package *package = braid_arena_alloc(arena, sizeof *package);
  braid_status status = BRAID_NO_MEMORY;
  if (package) {
    package->arena = arena;
    status = compile_into(network, design, package);
  }
  if (status == BRAID_OK)
    *out = package;
  else
    braid_arena_destroy(arena);
  return status;
}

braid_status braid_rnn_compile_layer(const braid_lstm *lstm, int32_t steps, const braid_overlay_design *design,
                                     const braid_allocator *allocator, braid_package **out) {
  static const int16_t kZeros[BRAID_LSTM_MOST_SIDE];
  const int16_t *numbers[] = {kZeros, kZeros};
  braid_rnn_sequence sequences[] = {
      {.name = "x", .parts = 1, .part = lstm->inputs, .exponent = lstm->x_exponent, .input = true},
      {.name = "y", .parts = 1, .part = lstm->hidden, .exponent = BRAID_LSTM_HIDDEN_EXPONENT}};
  braid_rnn_state states[] = {{.name = "h", .parts = 1, .part = lstm->hidden, .exponent = BRAID_LSTM_HIDDEN_EXPONENT},
                              {.name = "c", .parts = 1, .part = lstm->hidden, .exponent = BRAID_LSTM_CELL_EXPONENT}};
  braid_rnn_cell cell = {.name = "lstm", .into = 1, .hidden = lstm->hidden, .shift = lstm->shift, .c = {.index = 1}};
  braid_rnn_port inputs[] = {{"x", BRAID_RNN_SEQUENCE, 0}}, outputs[] = {{"y", BRAID_RNN_SEQUENCE, 1}};
  braid_rnn_network network = {.lstms = &lstm, .numbers = numbers};
  network.tables = (braid_rnn){.steps = steps, .length = steps, .sequences = sequences, .states = states};
  network.tables.cells = &cell;
  network.tables.inputs = inputs;
  network.tables.outputs = outputs;
  network.tables.sequence_count = network.tables.state_count = 2;
  network.tables.cell_count = network.tables.input_count = network.tables.output_count = 1;
  return braid_rnn_compile(&network, design, allocator, out);
}
