#include "overlay/sim/timing.h"

#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"
#include "overlay/sim/events.h"
#include "overlay/sim/memory.h"

enum { kMostQueue = 64, kSyncCycles = 2, kMostTokens = 255, kNone = -1 };

/* --- state ---------------------------------------------------------------------------------------------------------
 */
typedef struct module_state {
  size_t waiting[kMostQueue]; /* instructions, oldest first */
  int first, count;
  bool busy, lacks; /* its next instruction lacks a token, since: */
  uint64_t since;   /* it is busy, or lacks one */
  size_t runs;
} module_state;

typedef enum core_state {
  CORE_FREE,
  CORE_RUNS,
  CORE_AT_SYSTEM,
  CORE_SYNCHRONIZES,
  CORE_STOPPED,
  CORE_ENDED
} core_state;

typedef struct core {
  core_state state;
  uint16_t epoch;     /* counts the tasks that it had */
  size_t task, index; /* which of the task's */
  const braid_instruction *instructions;
  size_t count, next; /* to be handed out */
  size_t arriving;    /* SIZE_MAX: none is on its way from the card's decoder */
  bool wants;         /* to be handed the next one */
  uint64_t raised_at; /* sync_local */
  size_t furthest;    /* behind the last instruction that compute, side or save has begun */
  size_t stops_at;    /* the tile at which it stops; SIZE_MAX: it is not to */
  module_state modules[BRAID_ISA_MODULES];
  uint8_t tokens[BRAID_ISA_MODULES][BRAID_ISA_MODULES]; /* from, to */
} core;

typedef struct task {
  braid_timing_result result;
  braid_timing_core *counts;
  int *cores;
  braid_timing_range ranges[BRAID_TIMING_SEGMENTS];
  int first_bank, banks;
  bool stops;
  braid_timing_place place;
} task;

struct braid_timing {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  braid_arena *arena; /* sentences, and what results have */
  braid_event_heap heap;
  braid_memory *memory;
  uint64_t now, decoder_free;
  bool dispatching; /* an event of the decoder is under way */
  int last_turn;
  core cores[BRAID_OVERLAY_MOST_CORES];
  task *tasks;
  size_t task_count, task_capacity;
  size_t changed; /* a task that no longer runs; SIZE_MAX: none */
  braid_status status;
};

braid_status braid_timing_create(const braid_overlay_design *design, const braid_allocator *allocator,
                                 braid_timing **out) {
  *out = NULL;
  braid_timing *t = braid_zalloc(allocator, sizeof *t);
  if (!t) return BRAID_NO_MEMORY;
  t->allocator = t->heap.allocator = allocator;
  t->design = design;
  t->changed = SIZE_MAX;
  t->last_turn = design->cores - 1;
  braid_status status = braid_arena_create(allocator, &t->arena);
  if (status == BRAID_OK) status = braid_memory_create(design, allocator, &t->heap, &t->memory);
  if (status == BRAID_OK)
    *out = t;
  else
    braid_timing_destroy(t);
  return status;
}

void braid_timing_destroy(braid_timing *t) {
  if (!t) return;
  braid_memory_destroy(t->memory);
  braid_arena_destroy(t->arena);
  braid_free(t->allocator, t->heap.items);
  braid_free(t->allocator, t->tasks);
  braid_free(t->allocator, t);
}

uint64_t braid_timing_now(const braid_timing *t) {
  return t->now;
}

/* --- cycles --------------------------------------------------------------------------------------------------------
 */
static uint64_t parts(int64_t whole, int64_t part) {
  return (uint64_t)((whole + part - 1) / part);
}

static uint64_t conv_cycles(const braid_overlay_design *d, const braid_isa_conv *c) {
  uint64_t in = c->depthwise ? 1 : parts(c->channels_in, d->channels_in);
  return in * parts(c->channels_out, d->channels_out) * (uint64_t)c->kernel_rows * (uint64_t)c->kernel_columns *
         (uint64_t)c->output_columns;
}

static uint64_t misc_cycles(const braid_overlay_design *d, const braid_isa_misc *m) {
  bool window = m->function == BRAID_ISA_MAX || m->function == BRAID_ISA_MEAN;
  uint64_t taps = window                         ? (uint64_t)m->kernel_rows * (uint64_t)m->kernel_columns
                  : m->function == BRAID_ISA_SUM ? 2
                                                 : 1;
  uint64_t lines = (uint64_t)m->groups * (uint64_t)m->output_rows * (uint64_t)m->output_columns * taps;
  return parts((int64_t)(lines * BRAID_ISA_WORD), d->side_bytes);
}

uint64_t braid_timing_cycles(const braid_overlay_design *d, const braid_instruction *in) {
  switch (in->opcode) {
  case BRAID_ISA_OP_CONV:
    return conv_cycles(d, &in->conv);
  case BRAID_ISA_OP_MISC:
    return misc_cycles(d, &in->misc);
  case BRAID_ISA_OP_MVM:
    return parts(in->mvm.rows, d->rows) * parts(in->mvm.columns, d->columns);
  case BRAID_ISA_OP_ELE:
    return parts(in->ele.length, d->side_numbers);
  default:
    return 0;
  }
}

static uint64_t operations_of(const braid_instruction *in) {
  if (in->opcode == BRAID_ISA_OP_MVM) return 2 * (uint64_t)in->mvm.rows * (uint64_t)in->mvm.columns;
  if (in->opcode != BRAID_ISA_OP_CONV) return 0;
  const braid_isa_conv *c = &in->conv;
  return 2 * (uint64_t)c->output_rows * (uint64_t)c->output_columns * (uint64_t)c->channels_out *
         (uint64_t)(c->depthwise ? 1 : c->channels_in) * (uint64_t)c->kernel_rows * (uint64_t)c->kernel_columns;
}

/* --- ends of tasks -------------------------------------------------------------------------------------------------
 */
static braid_timing_core *counts_of(braid_timing *t, const core *c) {
  return &t->tasks[c->task].counts[c->index];
}

/* What is under way for the task comes to nothing. */
static void end_task(braid_timing *t, size_t id, braid_timing_state state) {
  task *k = &t->tasks[id];
  k->result.state = state;
  k->result.ended = t->now;
  for (size_t i = 0; i < k->result.core_count; i++) {
    core *c = &t->cores[k->cores[i]];
    c->state = CORE_FREE;
    c->epoch++;
    c->wants = false;
    braid_memory_cancel(t->memory, 2 * (uint32_t)k->cores[i]);
    braid_memory_cancel(t->memory, 2 * (uint32_t)k->cores[i] + 1);
  }
  t->changed = id;
}

static void fail_task(braid_timing *t, const core *c, size_t instruction, const char *why) {
  task *k = &t->tasks[c->task];
  const braid_isa_form *form = braid_isa_form_of(c->instructions[instruction].opcode);
  k->result.why = braid_arena_format(t->arena, "core %d, instruction %zu, %s: %s", k->cores[c->index], instruction,
                                     form ? form->name : "?", why);
  if (!k->result.why) t->status = BRAID_NO_MEMORY;
  end_task(t, c->task, BRAID_TIMING_FAILED);
}

/* --- modules -------------------------------------------------------------------------------------------------------
 */
static bool takes_tokens(core *c, int module, const braid_instruction *in) {
  for (int from = 0; from < BRAID_ISA_MODULES; from++)
    if (in->wait >> from & 1 && !c->tokens[from][module]) return false;
  for (int from = 0; from < BRAID_ISA_MODULES; from++) c->tokens[from][module] -= in->wait >> from & 1;
  return true;
}

static bool start_move(braid_timing *t, core *c, size_t at, const braid_instruction *in) {
  const braid_isa_load *m = &in->load; /* SAVE has the same fields */
  const task *k = &t->tasks[c->task];
  const braid_timing_range *range = &k->ranges[m->segment];
  int physical = k->cores[c->index];
  uint64_t end = (uint64_t)m->ddr + (uint64_t)(m->planes - 1) * (uint64_t)m->ddr_plane +
                 (uint64_t)(m->rows - 1) * (uint64_t)m->ddr_row + (uint64_t)m->lines;
  if (end > range->lines) {
    const char *why = braid_arena_format(t->arena, "it addresses line %llu of segment %d, which has %llu",
                                         (unsigned long long)end - 1, m->segment, (unsigned long long)range->lines);
    fail_task(t, c, at, why ? why : "");
    return false;
  }
  braid_transfer transfer = {range->first + (uint64_t)m->ddr, m->planes, m->rows, m->lines, m->ddr_plane, m->ddr_row};
  bool writes = in->opcode == BRAID_ISA_OP_SAVE;
  braid_timing_module *counts = &counts_of(t, c)->modules[writes ? BRAID_ISA_OUT : BRAID_ISA_IN];
  uint64_t bytes = (uint64_t)m->planes * (uint64_t)m->rows * (uint64_t)m->lines * BRAID_ISA_WORD;
  counts->bytes += bytes;
  counts->moves += bytes * 8 / (uint64_t)t->design->port_bits;
  braid_memory_start(t->memory, 2 * (uint32_t)physical + writes, &transfer, k->first_bank, k->banks, c->epoch, t->now);
  return true;
}

/* Starts what the module has next, if it can. */
static void start_module(braid_timing *t, core *c, int module) {
  module_state *m = &c->modules[module];
  if (m->busy || !m->count) return;
  size_t at = m->waiting[m->first];
  if (at > c->stops_at) return;
  const braid_instruction *in = &c->instructions[at];
  braid_timing_module *counts = &counts_of(t, c)->modules[module];
  if (!takes_tokens(c, module, in)) {
    if (!m->lacks) m->since = t->now;
    m->lacks = true;
    return;
  }
  if (m->lacks) counts->waits += t->now - m->since;
  m->lacks = false;
  m->busy = true;
  m->since = t->now;
  m->runs = at;
  m->first = (m->first + 1) % kMostQueue;
  m->count--;
  counts->instructions++;
  if (module != BRAID_ISA_IN && at >= c->furthest) c->furthest = at + 1;
  if (module == BRAID_ISA_IN || module == BRAID_ISA_OUT) {
    start_move(t, c, at, in);
    return;
  }
  counts_of(t, c)->operations += operations_of(in);
  uint32_t index = (uint32_t)(c - t->cores) * BRAID_ISA_MODULES + (uint32_t)module;
  braid_event_heap_add(&t->heap, t->now + braid_timing_cycles(t->design, in), BRAID_EVENT_MODULE, index, c->epoch);
}

static bool all_idle(const core *c) {
  for (int m = 0; m < BRAID_ISA_MODULES; m++)
    if (c->modules[m].busy || c->modules[m].count) return false;
  return true;
}

/* --- SYSTEM --------------------------------------------------------------------------------------------------------
 */
static void core_goes_on(braid_timing *t, core *c);

static bool is_tile(const braid_instruction *in) {
  return in->opcode == BRAID_ISA_OP_SYSTEM && in->system.tile && !in->system.sync && !in->system.end;
}

static bool tokens_left(const core *c) {
  static const uint8_t kNothing[BRAID_ISA_MODULES][BRAID_ISA_MODULES];
  return memcmp(c->tokens, kNothing, sizeof kNothing) != 0;
}

/* All cores of a task that is to be stopped at a tile stand: those that synchronize do it again when it goes on. */
static void stop_if_all_stand(braid_timing *t, size_t id) {
  task *k = &t->tasks[id];
  for (size_t i = 0; i < k->result.core_count; i++) {
    core_state state = t->cores[k->cores[i]].state;
    if (state != CORE_STOPPED && state != CORE_SYNCHRONIZES && state != CORE_ENDED) return;
  }
  for (size_t i = 0; i < k->result.core_count; i++) {
    const core *c = &t->cores[k->cores[i]];
    k->counts[i].stopped_at = c->state == CORE_STOPPED ? c->stops_at + 1
                              : c->state == CORE_ENDED ? c->count
                                                       : c->next - 1;
    if (c->state == CORE_SYNCHRONIZES) k->counts[i].synchronizing += t->now - c->raised_at;
  }
  end_task(t, id, BRAID_TIMING_STOPPED);
}

/* Of cores that synchronize, none may have ended. */
static bool waits_for_ended(braid_timing *t, size_t id) {
  const task *k = &t->tasks[id];
  const core *waiting = NULL;
  bool ended = false;
  for (size_t i = 0; i < k->result.core_count; i++) {
    const core *c = &t->cores[k->cores[i]];
    ended |= c->state == CORE_ENDED;
    if (c->state == CORE_SYNCHRONIZES) waiting = c;
  }
  if (ended && waiting) fail_task(t, waiting, waiting->next - 1, "it waits for a core that has ended");
  return ended && waiting;
}

static bool all_are(const braid_timing *t, const task *k, core_state state) {
  for (size_t i = 0; i < k->result.core_count; i++)
    if (t->cores[k->cores[i]].state != state) return false;
  return true;
}

static void synchronize(braid_timing *t, size_t id) {
  task *k = &t->tasks[id];
  if (waits_for_ended(t, id)) return;
  if (!all_are(t, k, CORE_SYNCHRONIZES)) {
    if (k->stops && k->place == BRAID_TIMING_AT_TILE) stop_if_all_stand(t, id);
    return;
  }
  for (size_t i = 0; i < k->result.core_count; i++) {
    core *c = &t->cores[k->cores[i]];
    k->counts[i].synchronizing += t->now - c->raised_at;
    k->counts[i].stopped_at = c->next;
    c->state = CORE_RUNS;
    if (!k->stops)
      braid_event_heap_add(&t->heap, t->now + kSyncCycles, BRAID_EVENT_CORE, (uint32_t)(c - t->cores), c->epoch);
  }
  if (k->stops) end_task(t, id, BRAID_TIMING_STOPPED);
}

static void end_core(braid_timing *t, core *c) {
  task *k = &t->tasks[c->task];
  size_t id = c->task;
  c->state = CORE_ENDED;
  if (waits_for_ended(t, id)) return;
  if (all_are(t, k, CORE_ENDED))
    end_task(t, id, BRAID_TIMING_ENDED);
  else if (k->stops && k->place == BRAID_TIMING_AT_TILE)
    stop_if_all_stand(t, id);
}

static void run_system(braid_timing *t, core *c) {
  const braid_isa_system *s = &c->instructions[c->next - 1].system;
  if (is_tile(&c->instructions[c->next - 1])) { /* a place to stop at, which by itself costs nothing */
    c->state = CORE_RUNS;
    core_goes_on(t, c);
    return;
  }
  if (!all_idle(c)) return;
  if (tokens_left(c)) {
    fail_task(t, c, c->next - 1, "tokens are left that nobody took");
    return;
  }
  if (s->end) {
    end_core(t, c);
  } else if (s->sync) {
    c->state = CORE_SYNCHRONIZES;
    c->raised_at = t->now;
    synchronize(t, c->task);
  } else {
    c->state = CORE_RUNS;
    core_goes_on(t, c);
  }
}

/* The first tile behind all that compute, side and save have begun; what load has begun behind it is done in vain.
 * SIZE_MAX: the core comes to a synchronization or to its end before. */
static size_t find_tile(const core *c) {
  for (size_t i = c->furthest; i < c->count; i++) {
    if (is_tile(&c->instructions[i])) return i;
    if (c->instructions[i].opcode == BRAID_ISA_OP_SYSTEM) return SIZE_MAX;
  }
  return SIZE_MAX;
}

/* Nothing before the tile is left, and nothing runs; what waits behind it is thrown away with the task. */
static bool stands_at_tile(const core *c) {
  if (c->stops_at == SIZE_MAX || c->next <= c->stops_at || c->arriving <= c->stops_at) return false;
  for (int m = 0; m < BRAID_ISA_MODULES; m++) {
    const module_state *state = &c->modules[m];
    if (state->busy || (state->count && state->waiting[state->first] < c->stops_at)) return false;
  }
  return true;
}

/* --- dispatch ------------------------------------------------------------------------------------------------------
 */
static braid_isa_module module_of(const braid_instruction *in) {
  return braid_isa_form_of(in->opcode)->module;
}

/* Asks the card's decoder for the next instruction, if there is room for it. */
static void ask_for_next(braid_timing *t, core *c) {
  if (c->state != CORE_RUNS || c->wants || c->arriving != SIZE_MAX || c->next == c->count) return;
  if (c->next > c->stops_at) return;
  braid_isa_module module = module_of(&c->instructions[c->next]);
  int depth = t->design->queue_depth < kMostQueue ? t->design->queue_depth : kMostQueue;
  if (module != BRAID_ISA_DISPATCH && c->modules[module].count >= depth) return;
  c->wants = true;
  if (t->dispatching) return;
  t->dispatching = true;
  braid_event_heap_add(&t->heap, t->decoder_free > t->now ? t->decoder_free : t->now, BRAID_EVENT_DISPATCH, 0, 0);
}

/* The decoder takes a word a cycle; cores that want one take turns. */
static void dispatch(braid_timing *t) {
  int most = t->design->cores;
  t->dispatching = false;
  for (int i = 1; i <= most; i++) {
    int turn = (t->last_turn + i) % most;
    core *c = &t->cores[turn];
    if (!c->wants) continue;
    t->last_turn = turn;
    c->wants = false;
    c->arriving = c->next++;
    t->decoder_free = t->now + (uint64_t)braid_isa_form_of(c->instructions[c->arriving].opcode)->words;
    braid_event_heap_add(&t->heap, t->decoder_free, BRAID_EVENT_CORE, (uint32_t)turn, c->epoch);
    t->dispatching = true;
    braid_event_heap_add(&t->heap, t->decoder_free, BRAID_EVENT_DISPATCH, 0, 0);
    return;
  }
}

static void arrive(core *c) {
  if (c->arriving == SIZE_MAX) return;
  braid_isa_module module = module_of(&c->instructions[c->arriving]);
  if (module == BRAID_ISA_DISPATCH) {
    c->state = CORE_AT_SYSTEM;
  } else {
    module_state *m = &c->modules[module];
    m->waiting[(m->first + m->count++) % kMostQueue] = c->arriving;
  }
  c->arriving = SIZE_MAX;
}

/* Nothing of the core is under way, and nothing can begin. */
static bool stuck(const core *c) {
  if (c->state == CORE_ENDED || c->state == CORE_SYNCHRONIZES || c->state == CORE_STOPPED) return true;
  if (c->wants || c->arriving != SIZE_MAX || all_idle(c)) return false;
  for (int m = 0; m < BRAID_ISA_MODULES; m++)
    if (c->modules[m].busy) return false;
  return true;
}

static void find_deadlock(braid_timing *t, const core *c) {
  const task *k = &t->tasks[c->task];
  for (size_t i = 0; i < k->result.core_count; i++)
    if (!stuck(&t->cores[k->cores[i]])) return;
  for (size_t i = 0; i < k->result.core_count; i++) {
    c = &t->cores[k->cores[i]];
    for (int m = 0; m < BRAID_ISA_MODULES; m++) {
      if (!c->modules[m].count) continue;
      fail_task(t, c, c->modules[m].waiting[c->modules[m].first], "it waits for a token that nothing will give");
      return;
    }
  }
}

static void core_goes_on(braid_timing *t, core *c) {
  uint16_t epoch = c->epoch;
  for (int m = 0; m < BRAID_ISA_MODULES && c->epoch == epoch; m++) start_module(t, c, m);
  if (c->epoch != epoch) return;
  if (stands_at_tile(c)) {
    c->state = CORE_STOPPED;
    stop_if_all_stand(t, c->task);
    return;
  }
  if (c->state == CORE_AT_SYSTEM)
    run_system(t, c);
  else if (c->state == CORE_RUNS && c->next == c->count && c->arriving == SIZE_MAX && all_idle(c))
    end_core(t, c); /* it had ended when the task was stopped */
  else
    ask_for_next(t, c);
  if (c->epoch == epoch && stuck(c)) find_deadlock(t, c);
}

static void end_instruction(braid_timing *t, core *c, int module) {
  module_state *m = &c->modules[module];
  const braid_instruction *in = &c->instructions[m->runs];
  counts_of(t, c)->modules[module].busy += t->now - m->since;
  m->busy = false;
  for (int to = 0; to < BRAID_ISA_MODULES; to++) {
    if (!(in->signal >> to & 1)) continue;
    if (c->tokens[module][to] == kMostTokens) {
      fail_task(t, c, m->runs, "more than 255 tokens for a module that takes none");
      return;
    }
    c->tokens[module][to]++;
  }
  core_goes_on(t, c);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static braid_status check_program(const braid_timing *t, const braid_timing_program *p) {
  const braid_overlay_design *d = t->design;
  if (p->core < 0 || p->core >= d->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "core %d: the design has %d", p->core, d->cores);
  if (t->cores[p->core].state != CORE_FREE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "core %d has a task already", p->core);
  if (p->first > p->count) return braid_fail(BRAID_INVALID_ARGUMENT, "core %d begins behind its program", p->core);
  for (size_t i = 0; i < p->count; i++) {
    const braid_instruction *in = &p->instructions[i];
    const braid_isa_form *form = braid_isa_form_of(in->opcode);
    bool recurrent = in->opcode == BRAID_ISA_OP_MVM || in->opcode == BRAID_ISA_OP_ELE;
    bool other = in->opcode == BRAID_ISA_OP_CONV || in->opcode == BRAID_ISA_OP_MISC;
    if (!form || (d->recurrent ? other : recurrent))
      return braid_fail(BRAID_INVALID_ARGUMENT, "core %d, instruction %zu: cores of %s have no %s", p->core, i, d->name,
                        form ? form->name : "such opcode");
    if (form->module != BRAID_ISA_DISPATCH && ((in->wait | in->signal) >> form->module & 1))
      return braid_fail(BRAID_INVALID_ARGUMENT, "core %d, instruction %zu: %s waits for itself", p->core, i,
                        form->name);
    if (form->module == BRAID_ISA_DISPATCH && (in->wait | in->signal))
      return braid_fail(BRAID_INVALID_ARGUMENT, "core %d, instruction %zu: SYSTEM takes and gives no tokens", p->core,
                        i);
  }
  const braid_instruction *last = p->count ? &p->instructions[p->count - 1] : NULL;
  if (!last || last->opcode != BRAID_ISA_OP_SYSTEM || !last->system.end)
    return braid_fail(BRAID_INVALID_ARGUMENT, "core %d: a program ends with SYSTEM end=1", p->core);
  return BRAID_OK;
}

static braid_status check_task(const braid_timing *t, const braid_timing_task *from) {
  uint64_t seen = 0;
  if (!from->core_count || from->core_count > (size_t)t->design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a task of %zu cores: 1 to %d are possible", from->core_count,
                      t->design->cores);
  for (size_t i = 0; i < from->core_count; i++) {
    BRAID_TRY(check_program(t, &from->programs[i]));
    if (seen >> from->programs[i].core & 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "core %d is there twice", from->programs[i].core);
    seen |= (uint64_t)1 << from->programs[i].core;
  }
  return BRAID_OK;
}

/* At a tile all before it is done and nothing behind it: the counts follow from the program. */
static void restore_tokens(core *c) {
  for (size_t i = 0; i < c->next; i++) {
    const braid_instruction *in = &c->instructions[i];
    int own = (int)module_of(in);
    if (own == BRAID_ISA_DISPATCH) continue; /* where it waits for all, all counts are 0 */
    for (int other = 0; other < BRAID_ISA_MODULES; other++) {
      c->tokens[own][other] += in->signal >> other & 1;
      c->tokens[other][own] -= in->wait >> other & 1;
    }
  }
}

static void give_core(braid_timing *t, size_t id, size_t index, const braid_timing_program *p) {
  core *c = &t->cores[p->core];
  uint16_t epoch = c->epoch;
  task *k = &t->tasks[id];
  int first, count, end = k->first_bank + k->banks;
  braid_overlay_core_banks(t->design, p->core, &first, &count);
  memset(c, 0, sizeof *c);
  c->state = CORE_RUNS;
  c->epoch = (uint16_t)(epoch + 1);
  c->task = id;
  c->index = index;
  c->instructions = p->instructions;
  c->count = p->count;
  c->next = p->first;
  c->arriving = c->stops_at = SIZE_MAX;
  c->furthest = p->first;
  restore_tokens(c);
  k->cores[index] = p->core;
  if (!index || first < k->first_bank) k->first_bank = first;
  k->banks = (!index || first + count > end ? first + count : end) - k->first_bank;
  braid_event_heap_add(&t->heap, t->now, BRAID_EVENT_CORE, (uint32_t)p->core, c->epoch);
}

braid_status braid_timing_submit(braid_timing *t, const braid_timing_task *from, size_t *id) {
  BRAID_TRY(check_task(t, from));
  task *items = braid_grow(t->allocator, t->tasks, t->task_count, &t->task_capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  t->tasks = items;
  task *k = &items[t->task_count];
  memset(k, 0, sizeof *k);
  k->counts = braid_arena_alloc(t->arena, from->core_count * sizeof *k->counts);
  k->cores = braid_arena_alloc(t->arena, from->core_count * sizeof *k->cores);
  if (!k->counts || !k->cores) return BRAID_NO_MEMORY;
  memcpy(k->ranges, from->ranges, sizeof k->ranges);
  k->result = (braid_timing_result){.began = t->now, .cores = k->counts, .core_count = from->core_count};
  *id = t->task_count++;
  for (size_t i = 0; i < from->core_count; i++) give_core(t, *id, i, &from->programs[i]);
  if (from->most_cycles)
    braid_event_heap_add(&t->heap, t->now + from->most_cycles, BRAID_EVENT_LIMIT, (uint32_t)*id, 0);
  return t->heap.failed ? BRAID_NO_MEMORY : BRAID_OK;
}

void braid_timing_stop(braid_timing *t, size_t id, braid_timing_place place) {
  task *k = &t->tasks[id];
  if (k->result.state != BRAID_TIMING_RUNS) return;
  k->stops = true;
  k->place = place;
  if (place != BRAID_TIMING_AT_TILE) return;
  for (size_t i = 0; i < k->result.core_count; i++) {
    core *c = &t->cores[k->cores[i]];
    bool runs = c->state == CORE_RUNS || c->state == CORE_AT_SYSTEM;
    c->stops_at = runs ? find_tile(c) : SIZE_MAX;
    if (stands_at_tile(c)) c->state = CORE_STOPPED;
  }
  stop_if_all_stand(t, id);
}

braid_timing_result braid_timing_get(const braid_timing *t, size_t id) {
  return t->tasks[id].result;
}

/* --- time ----------------------------------------------------------------------------------------------------------
 */
static void end_time(braid_timing *t, size_t id) {
  task *k = &t->tasks[id];
  k->result.why =
      braid_arena_format(t->arena, "its time of %llu cycles is over", (unsigned long long)(t->now - k->result.began));
  if (!k->result.why) t->status = BRAID_NO_MEMORY;
  end_task(t, id, BRAID_TIMING_FAILED);
}

static void take_event(braid_timing *t, const braid_event *e) {
  core *c;
  switch (e->kind) {
  case BRAID_EVENT_DISPATCH:
    dispatch(t);
    return;
  case BRAID_EVENT_CORE:
    c = &t->cores[e->index];
    if (c->epoch != e->epoch) return;
    arrive(c);
    core_goes_on(t, c);
    return;
  case BRAID_EVENT_MODULE:
    c = &t->cores[e->index / BRAID_ISA_MODULES];
    if (c->epoch == e->epoch) end_instruction(t, c, (int)(e->index % BRAID_ISA_MODULES));
    return;
  case BRAID_EVENT_BANK:
    braid_memory_bank_free(t->memory, e->index, t->now);
    return;
  case BRAID_EVENT_BURST:
    c = &t->cores[e->index / 2];
    if (braid_memory_burst_done(t->memory, e->index, t->now) && c->epoch == e->epoch)
      end_instruction(t, c, e->index % 2 ? BRAID_ISA_OUT : BRAID_ISA_IN);
    return;
  default:
    end_time(t, e->index);
  }
}

braid_status braid_timing_advance(braid_timing *t, uint64_t until, size_t *id) {
  *id = SIZE_MAX;
  while (t->changed == SIZE_MAX && t->heap.count && t->heap.items[0].at <= until) {
    braid_event e = braid_event_heap_take(&t->heap);
    if (e.kind == BRAID_EVENT_LIMIT && t->tasks[e.index].result.state != BRAID_TIMING_RUNS) continue;
    t->now = e.at;
    take_event(t, &e);
    if (t->heap.failed) t->status = BRAID_NO_MEMORY;
    if (t->status != BRAID_OK) return t->status;
  }
  if (t->changed == SIZE_MAX && t->now < until && until != UINT64_MAX) t->now = until;
  *id = t->changed;
  t->changed = SIZE_MAX;
  return BRAID_OK;
}
