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

braid_status braid_emit(braid_emitter *emitter, const braid_instruction *instruction, uint32_t reads, uint32_t writes) {
  size_t after[BRAID_ISA_MODULES] = {0};
  int module = module_of(instruction);
  void *items = braid_grow(emitter->allocator, emitter->items, emitter->count, &emitter->capacity, sizeof *instruction);
  if (!items) return BRAID_NO_MEMORY;
  emitter->items = items;
  braid_instruction *added = &emitter->items[emitter->count++];
  *added = *instruction;
  for (int slot = 0; slot < BRAID_SLOTS; slot++) {
    bool written = writes >> slot & 1;
    if (!written && !(reads >> slot & 1)) continue;
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

int64_t braid_move_cycles(const braid_overlay_design *design, int64_t bytes) {
  double bits = (double)design->bank_bits * design->banks / design->cores; /* of its bank, shared with others */
  if (bits > design->port_bits) bits = design->port_bits;
  return design->latency_cycles + (int64_t)((double)bytes * 8 / (bits * design->efficiency) + 0.999999);
}

int64_t braid_instruction_cycles(const braid_overlay_design *design, const braid_instruction *in) {
  switch (in->opcode) {
  case BRAID_ISA_OP_LOAD: /* and SAVE below: the same fields */
  case BRAID_ISA_OP_SAVE:
    return braid_move_cycles(design, (int64_t)in->load.planes * in->load.rows * in->load.lines * BRAID_ISA_WORD);
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
