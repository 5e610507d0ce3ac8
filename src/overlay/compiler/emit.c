#include "overlay/compiler/emit.h"

#include <string.h>

#include "base/try.h"
#include "base/vector.h"

void braid_emitter_init(braid_emitter *emitter, const braid_allocator *allocator) {
  memset(emitter, 0, sizeof *emitter);
  emitter->allocator = allocator;
}

void braid_emitter_deinit(braid_emitter *emitter) {
  braid_free(emitter->allocator, emitter->items);
  braid_free(emitter->allocator, emitter->uses);
  memset(emitter, 0, sizeof *emitter);
}

void braid_emitter_clear(braid_emitter *emitter) {
  emitter->count = 0;
  memset(emitter->writer, 0, sizeof emitter->writer);
  memset(emitter->readers, 0, sizeof emitter->readers);
  memset(emitter->waited, 0, sizeof emitter->waited);
}

static int module_of(const braid_instruction *instruction) {
  switch (instruction->opcode) {
  case BRAID_ISA_OP_LOAD:
    return BRAID_ISA_IN;
  case BRAID_ISA_OP_SAVE:
    return BRAID_ISA_OUT;
  case BRAID_ISA_OP_CONV:
  case BRAID_ISA_OP_MVM:
    return BRAID_ISA_COMPUTE;
  default:
    return BRAID_ISA_SIDE;
  }
}

static void raise_to(size_t *newest, size_t position) {
  if (position > *newest) *newest = position;
}

static braid_instruction *append(braid_emitter *emitter, const braid_instruction *instruction, uint32_t reads,
                                 uint32_t writes) {
  void *items = braid_grow(emitter->allocator, emitter->items, emitter->count, &emitter->capacity, sizeof *instruction);
  if (items) emitter->items = items;
  void *uses =
      braid_grow(emitter->allocator, emitter->uses, emitter->count, &emitter->use_capacity, sizeof *emitter->uses);
  if (uses) emitter->uses = uses;
  if (!items || !uses) return NULL;
  emitter->uses[emitter->count] = (braid_emitted){(uint16_t)reads, (uint16_t)writes};
  braid_instruction *added = &emitter->items[emitter->count++];
  *added = *instruction;
  return added;
}

braid_status braid_emit_tile(braid_emitter *emitter, int32_t layer) {
  braid_instruction tile = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  tile.system.tile = 1;
  tile.system.layer = layer;
  return append(emitter, &tile, 0, 0) ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_emit(braid_emitter *emitter, const braid_instruction *instruction, uint32_t reads, uint32_t writes,
                        bool more) {
  size_t after[BRAID_ISA_MODULES] = {0};
  int module = module_of(instruction);
  braid_instruction *added = append(emitter, instruction, reads, writes);
  if (!added) return BRAID_NO_MEMORY;
  for (int slot = 0; slot < BRAID_SLOTS; slot++) {
    bool written = writes >> slot & 1;
    if (!written && !(reads >> slot & 1)) continue;
    if (written && more) {
      emitter->writer[slot] = emitter->count;
      continue;
    }
    size_t writer = emitter->writer[slot];
    if (writer) raise_to(&after[module_of(&emitter->items[writer - 1])], writer);
    for (int m = 0; written && m < BRAID_ISA_MODULES; m++) raise_to(&after[m], emitter->readers[slot][m]);
    if (written) {
      emitter->writer[slot] = emitter->count;
      memset(emitter->readers[slot], 0, sizeof emitter->readers[slot]);
    } else {
      emitter->readers[slot][module] = emitter->count;
    }
  }
  for (int m = 0; m < BRAID_ISA_MODULES; m++) {
    if (m == module || after[m] <= emitter->waited[m][module]) continue;
    emitter->waited[m][module] = after[m];
    emitter->items[after[m] - 1].signal |= 1 << module;
    added->wait |= 1 << m;
  }
  return BRAID_OK;
}

/* --- latency -------------------------------------------------------------------------------------------------------
 */
static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Bytes a cycle where so many ports for each core share the banks. */
static double port_rate(const braid_overlay_design *design, int ports) {
  double bits = (double)design->bank_bits * design->banks / design->cores / ports;
  if (bits > design->port_bits) bits = design->port_bits;
  return bits * design->efficiency / 8;
}

int64_t braid_move_cycles(const braid_overlay_design *design, int64_t bytes) {
  return design->latency_cycles + (int64_t)((double)bytes / port_rate(design, 1) + 0.999999);
}

/* LOAD and SAVE have the same fields. Rows that follow each other are moved as one; short ones are bursts of their own,
 * of which `outstanding` are under way. */
static int64_t move_time(const braid_overlay_design *design, const braid_isa_load *move, int ports) {
  int64_t rows = move->rows, planes = move->planes, lines = move->lines;
  if (rows == 1 || move->ddr_row == lines) lines *= rows, rows = 1;
  if (rows == 1 && (planes == 1 || move->ddr_plane == lines)) lines *= planes, planes = 1;
  int64_t bytes = lines * BRAID_ISA_WORD, bursts = planes * rows;
  if (design->burst_bytes > 0) bursts *= divide_up(bytes, design->burst_bytes);
  bytes *= planes * rows;
  double moved = (double)bytes / port_rate(design, ports);
  if (design->outstanding > 0) {
    double waited =
        ((double)bursts * design->latency_cycles + (double)bytes * 8 / design->port_bits) / design->outstanding;
    if (waited > moved) moved = waited;
  }
  return design->latency_cycles + (int64_t)(moved + 0.999999);
}

static int64_t cycles_of(const braid_overlay_design *design, const braid_instruction *in, int ports) {
  switch (in->opcode) {
  case BRAID_ISA_OP_LOAD:
  case BRAID_ISA_OP_SAVE:
    return move_time(design, &in->load, ports);
  case BRAID_ISA_OP_CONV: {
    int64_t groups = in->conv.depthwise ? 1 : divide_up(in->conv.channels_in, design->channels_in);
    return groups * divide_up(in->conv.channels_out, design->channels_out) * in->conv.output_columns *
           in->conv.kernel_rows * in->conv.kernel_columns;
  }
  default: {
    int64_t taps =
        (int64_t)in->misc.kernel_rows * in->misc.kernel_columns * (in->misc.function == BRAID_ISA_SUM ? 2 : 1);
    int64_t bytes = (int64_t)in->misc.groups * BRAID_ISA_WORD * in->misc.output_rows * in->misc.output_columns;
    return divide_up(bytes * taps, design->side_bytes);
  }
  }
}

int64_t braid_instruction_cycles(const braid_overlay_design *design, const braid_instruction *in) {
  return cycles_of(design, in, 1);
}

int64_t braid_instruction_slowest(const braid_overlay_design *design, const braid_instruction *in) {
  return cycles_of(design, in, 2);
}

enum { kMostTokens = 255, kMostQueue = 256 };

/* Tokens that are under way, with the time of each, for each pair of modules; and when instructions started that may
 * still fill a queue. */
typedef struct braid_flow {
  int64_t tokens[BRAID_ISA_MODULES][BRAID_ISA_MODULES][kMostTokens + 1];
  uint32_t given[BRAID_ISA_MODULES][BRAID_ISA_MODULES], taken[BRAID_ISA_MODULES][BRAID_ISA_MODULES];
  int64_t free_at[BRAID_ISA_MODULES], started[BRAID_ISA_MODULES][kMostQueue];
  uint32_t run[BRAID_ISA_MODULES];
} braid_flow;

/* In the order of the program: whoever gives a token stands before who takes it. */
int64_t braid_instructions_latency(const braid_overlay_design *design, const braid_instruction *items, size_t count) {
  braid_flow flow;
  int64_t issued = 0, last = 0;
  uint32_t depth = design && design->queue_depth < kMostQueue ? (uint32_t)design->queue_depth : 0;
  memset(flow.given, 0, sizeof flow.given);
  memset(flow.taken, 0, sizeof flow.taken);
  memset(flow.free_at, 0, sizeof flow.free_at);
  memset(flow.run, 0, sizeof flow.run);
  for (size_t i = 0; i < count; i++) {
    const braid_instruction *in = &items[i];
    if (braid_isa_is_tile(in)) continue;
    int m = module_of(in);
    if (depth && flow.run[m] >= depth && flow.started[m][(flow.run[m] - depth) % kMostQueue] > issued)
      issued = flow.started[m][(flow.run[m] - depth) % kMostQueue];
    int64_t start = flow.free_at[m] > issued ? flow.free_at[m] : issued;
    for (int other = 0; other < BRAID_ISA_MODULES; other++) {
      if (!(in->wait >> other & 1)) continue;
      if (other == m || flow.taken[other][m] == flow.given[other][m]) return -1;
      int64_t at = flow.tokens[other][m][flow.taken[other][m]++ % (kMostTokens + 1)];
      if (at > start) start = at;
    }
    int64_t done = start + (design ? braid_instruction_cycles(design, in) : 1);
    flow.started[m][flow.run[m]++ % kMostQueue] = start;
    flow.free_at[m] = done;
    if (done > last) last = done;
    for (int other = 0; other < BRAID_ISA_MODULES; other++) {
      if (!(in->signal >> other & 1)) continue;
      if (other == m || flow.given[m][other] - flow.taken[m][other] == kMostTokens) return -1;
      flow.tokens[m][other][flow.given[m][other]++ % (kMostTokens + 1)] = done;
    }
  }
  return memcmp(flow.given, flow.taken, sizeof flow.given) == 0 ? last : -1;
}
