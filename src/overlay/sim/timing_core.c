/* A core: its modules and their queues, tokens, SYSTEM, and where it stops (section 4.1.2). */
#include <stdio.h>
#include <string.h>

#include "overlay/sim/program.h"
#include "overlay/sim/timing_internal.h"

enum { kMostTokens = 255 };

/* --- what modules do -----------------------------------------------------------------------------------------------
 */
void braid_timing_tell(const braid_timing *t, const timing_core *c, braid_timing_span_kind kind, int module, int cause,
                       uint64_t from, size_t instruction) {
  if (!t->listener || from == t->now) return;
  braid_timing_span span = {kind,   from,  t->now,     c->task, c->index, braid_timing_index(t, c),
                            module, cause, instruction};
  t->listener(t->user, &span);
}

static int does(const timing_core *c, const timing_module *m) {
  if (m->busy) return BRAID_TIMING_DOES_RUN;
  if (m->lacks) return BRAID_TIMING_DOES_WAIT;
  return BRAID_TIMING_DOES_NOTHING + (int)(m->count ? BRAID_TIMING_IDLE_OVER : c->cause);
}

void braid_timing_account(braid_timing *t, timing_core *c, bool ends) {
  braid_timing_core *counts = braid_timing_counts(t, c);
  for (int i = 0; i < BRAID_ISA_MODULES; i++) {
    timing_module *m = &c->modules[i];
    int now = does(c, m);
    if (now == m->does && !ends) continue;
    uint64_t cycles = t->now - m->since;
    int cause = m->does - BRAID_TIMING_DOES_NOTHING;
    if (m->does == BRAID_TIMING_DOES_RUN) {
      counts->modules[i].busy += cycles;
    } else if (m->does == BRAID_TIMING_DOES_WAIT) {
      counts->modules[i].waits += cycles;
      braid_timing_tell(t, c, BRAID_TIMING_SPAN_WAITED, i, 0, m->since, m->runs);
    } else {
      counts->modules[i].idle[cause] += cycles;
      braid_timing_tell(t, c, BRAID_TIMING_SPAN_IDLED, i, cause, m->since, c->next);
    }
    m->does = now;
    m->since = t->now;
  }
}

/* --- modules -------------------------------------------------------------------------------------------------------
 */
static bool takes_tokens(timing_core *c, int module, const braid_instruction *in) {
  for (int from = 0; from < BRAID_ISA_MODULES; from++)
    if (in->wait >> from & 1 && !c->tokens[from][module]) return false;
  for (int from = 0; from < BRAID_ISA_MODULES; from++) c->tokens[from][module] -= in->wait >> from & 1;
  return true;
}

static void start_move(braid_timing *t, timing_core *c, size_t at, const braid_instruction *in) {
  const braid_isa_load *m = &in->load; /* SAVE has the same fields */
  const timing_task *k = &t->tasks[c->task];
  char why[BRAID_TIMING_WHY / 2];
  const braid_timing_range *range = &k->ranges[m->segment];
  uint64_t end = (uint64_t)m->ddr + (uint64_t)(m->planes - 1) * (uint64_t)m->ddr_plane +
                 (uint64_t)(m->rows - 1) * (uint64_t)m->ddr_row + (uint64_t)m->lines;
  if (end > range->lines) {
    snprintf(why, sizeof why, "it addresses line %llu of segment %d, which has %llu", (unsigned long long)end - 1,
             m->segment, (unsigned long long)range->lines);
    braid_timing_fail(t, c, at, why);
    return;
  }
  int64_t lines = (int64_t)m->planes * m->rows * m->lines, room = braid_overlay_memory_lines(t->design, m->memory);
  if (room && lines > room) {
    snprintf(why, sizeof why, "it moves %lld lines, and its memory on the chip has %lld", (long long)lines,
             (long long)room);
    braid_timing_fail(t, c, at, why);
    return;
  }
  if (range->read_only && in->opcode == BRAID_ISA_OP_SAVE) {
    snprintf(why, sizeof why, "it writes to segment %d, which may only be read", m->segment);
    braid_timing_fail(t, c, at, why);
    return;
  }
  braid_transfer transfer = {range->first + (uint64_t)m->ddr, m->planes, m->rows, m->lines, m->ddr_plane, m->ddr_row};
  bool writes = in->opcode == BRAID_ISA_OP_SAVE;
  braid_timing_module *counts = &braid_timing_counts(t, c)->modules[writes ? BRAID_ISA_OUT : BRAID_ISA_IN];
  uint64_t bytes = (uint64_t)lines * BRAID_ISA_WORD;
  counts->bytes += bytes;
  counts->moves += bytes * 8 / (uint64_t)t->design->port_bits;
  braid_memory_start(t->memory, 2 * (uint32_t)braid_timing_index(t, c) + writes, &transfer, k->first_bank, k->banks,
                     t->now);
}

/* Starts what the module has next, if it can. */
static void start_module(braid_timing *t, timing_core *c, int module) {
  timing_module *m = &c->modules[module];
  if (m->busy || !m->count) return;
  size_t at = m->waiting[m->first];
  if (at > c->stops_at) return;
  const braid_instruction *in = &c->instructions[at];
  m->lacks = !takes_tokens(c, module, in);
  if (m->lacks) return;
  m->busy = true;
  m->began = t->now;
  m->runs = at;
  m->first = (m->first + 1) % BRAID_TIMING_MOST_QUEUE;
  m->count--;
  braid_timing_core *counts = braid_timing_counts(t, c);
  counts->modules[module].instructions++;
  if (module != BRAID_ISA_IN && at >= c->furthest) c->furthest = at + 1;
  if (module == BRAID_ISA_OUT) c->saved = at + 1;
  if (module == BRAID_ISA_IN || module == BRAID_ISA_OUT) {
    start_move(t, c, at, in);
    return;
  }
  counts->operations += braid_timing_operations(in);
  uint32_t index = (uint32_t)braid_timing_index(t, c) * BRAID_ISA_MODULES + (uint32_t)module;
  braid_event_queue_add(&t->queue, t->now + braid_timing_cycles(t->design, in), BRAID_EVENT_MODULE, index, c->epoch);
}

/* LOADs that the tile repeats at which the core goes on: one after the other, without tokens, before all else. */
static void start_repeat(braid_timing *t, timing_core *c) {
  timing_module *m = &c->modules[BRAID_ISA_IN];
  if (m->busy) return;
  m->busy = true;
  m->began = t->now;
  m->runs = c->repeats[c->repeated];
  braid_timing_counts(t, c)->modules[BRAID_ISA_IN].instructions++;
  start_move(t, c, m->runs, &c->instructions[m->runs]);
}

static bool all_idle(const timing_core *c) {
  for (int m = 0; m < BRAID_ISA_MODULES; m++)
    if (c->modules[m].busy || c->modules[m].count) return false;
  return true;
}

void braid_timing_module_done(braid_timing *t, timing_core *c, int module) {
  timing_module *m = &c->modules[module];
  const braid_instruction *in = &c->instructions[m->runs];
  braid_timing_tell(t, c, BRAID_TIMING_SPAN_RAN, module, 0, m->began, m->runs);
  m->busy = false;
  if (c->repeated < c->repeat_count) {
    c->repeated++;
    braid_timing_core_goes_on(t, c);
    return;
  }
  for (int to = 0; to < BRAID_ISA_MODULES; to++) {
    if (!(in->signal >> to & 1)) continue;
    if (c->tokens[module][to] == kMostTokens) {
      braid_timing_fail(t, c, m->runs, "more than 255 tokens for a module that takes none");
      return;
    }
    c->tokens[module][to]++;
  }
  braid_timing_core_goes_on(t, c);
}

/* --- SYSTEM --------------------------------------------------------------------------------------------------------
 */
static bool tokens_left(const timing_core *c) {
  static const uint8_t kNothing[BRAID_ISA_MODULES][BRAID_ISA_MODULES];
  return memcmp(c->tokens, kNothing, sizeof kNothing) != 0;
}

static void run_system(braid_timing *t, timing_core *c) {
  const braid_instruction *in = &c->instructions[c->next - 1];
  if (braid_isa_is_tile(in)) { /* a place to stop at, which by itself costs nothing */
    c->state = CORE_RUNS;
    braid_timing_core_goes_on(t, c);
    return;
  }
  c->cause = BRAID_TIMING_IDLE_DRAIN;
  if (!all_idle(c)) return;
  if (tokens_left(c)) {
    braid_timing_fail(t, c, c->next - 1, "tokens are left that nobody took");
    return;
  }
  c->furthest = c->next;
  if (in->system.end) {
    braid_timing_core_ended(t, c);
  } else if (in->system.sync) {
    c->state = CORE_SYNCHRONIZES;
    c->cause = BRAID_TIMING_IDLE_SYNC;
    c->raised_at = t->now;
    braid_timing_synchronize(t, c->task);
  } else {
    c->state = CORE_RUNS;
    braid_timing_core_goes_on(t, c);
  }
}

/* The first tile behind all that compute, side and save have begun, or, with `back`, the last one before it, if save
 * has begun nothing behind it. What load has begun behind it is done in vain. SIZE_MAX: the core comes to a
 * synchronization or to its end before. */
static size_t find_tile(const timing_core *c) {
  for (size_t i = c->furthest; i-- > c->saved;) {
    const braid_instruction *in = &c->instructions[i];
    if (braid_isa_is_tile(in) && in->system.back) return i;
    if (in->opcode == BRAID_ISA_OP_SYSTEM) break;
  }
  for (size_t i = c->furthest; i < c->count; i++) {
    const braid_instruction *in = &c->instructions[i];
    if (braid_isa_is_tile(in)) return i;
    if (in->opcode == BRAID_ISA_OP_SYSTEM && (in->system.sync || in->system.end)) return SIZE_MAX;
  }
  return SIZE_MAX;
}

/* Compute, side and save have done all before the tile and run nothing; what waits behind it is thrown away with the
 * task, and so is what load does. */
static bool stands_at_tile(const timing_core *c) {
  if (c->stops_at == SIZE_MAX || c->next <= c->stops_at || c->arriving <= c->stops_at) return false;
  for (int m = BRAID_ISA_IN + 1; m < BRAID_ISA_MODULES; m++) {
    const timing_module *state = &c->modules[m];
    if (state->busy || (state->count && state->waiting[state->first] < c->stops_at)) return false;
  }
  return true;
}

int braid_timing_find_repeats(const braid_timing_program *p, size_t out[BRAID_ISA_REPEATS]) {
  int32_t words[BRAID_ISA_REPEATS];
  int count = 0;
  if (!p->first || !braid_isa_is_tile(&p->instructions[p->first - 1])) return 0;
  braid_isa_repeats(&p->instructions[p->first - 1].system, words);
  for (int r = 0; r < BRAID_ISA_REPEATS; r++) {
    size_t at = p->first - 1;
    int32_t left = words[r];
    if (!left) continue;
    while (left > 0 && at > 0) left -= braid_isa_form_of(p->instructions[--at].opcode)->words;
    if (left != 0 || p->instructions[at].opcode != BRAID_ISA_OP_LOAD) return -1;
    out[count++] = at;
  }
  return count;
}

bool braid_timing_core_has_advanced(const timing_core *c) {
  if (c->state == CORE_ENDED) return c->count > c->first;
  if (c->state == CORE_SYNCHRONIZES) return c->next - 1 > c->first;
  size_t tile = find_tile(c);
  return tile == SIZE_MAX ? c->furthest > c->first : tile >= c->first;
}

void braid_timing_core_to_stop(timing_core *c) {
  bool runs = c->state == CORE_RUNS || c->state == CORE_AT_SYSTEM;
  c->stops_at = runs ? find_tile(c) : SIZE_MAX;
  if (!stands_at_tile(c)) return;
  c->state = CORE_STOPPED;
  c->cause = BRAID_TIMING_IDLE_OVER;
}

/* --- what comes to it ----------------------------------------------------------------------------------------------
 */
/* Asks the card's decoder for the next instruction, if there is room for it. */
static void ask_for_next(braid_timing *t, timing_core *c) {
  if (c->state != CORE_RUNS || c->wants || c->arriving != SIZE_MAX) return;
  c->cause = BRAID_TIMING_IDLE_OVER;
  if (c->next == c->count || c->next > c->stops_at) return;
  c->cause = BRAID_TIMING_IDLE_DRAIN;
  if (c->repeated < c->repeat_count) return;
  braid_isa_module module = braid_isa_form_of(c->instructions[c->next].opcode)->module;
  int depth = t->design->queue_depth < BRAID_TIMING_MOST_QUEUE ? t->design->queue_depth : BRAID_TIMING_MOST_QUEUE;
  c->cause = BRAID_TIMING_IDLE_QUEUE;
  if (module != BRAID_ISA_DISPATCH && c->modules[module].count >= depth) return;
  c->cause = BRAID_TIMING_IDLE_FETCH;
  if (!braid_timing_fetch_has(c)) return;
  c->cause = BRAID_TIMING_IDLE_DECODER;
  braid_timing_want(t, c);
}

void braid_timing_core_takes(timing_core *c) {
  if (c->arriving == SIZE_MAX) return;
  braid_isa_module module = braid_isa_form_of(c->instructions[c->arriving].opcode)->module;
  if (module == BRAID_ISA_DISPATCH) {
    c->state = CORE_AT_SYSTEM;
  } else {
    timing_module *m = &c->modules[module];
    m->waiting[(m->first + m->count++) % BRAID_TIMING_MOST_QUEUE] = c->arriving;
  }
  c->arriving = SIZE_MAX;
}

/* Nothing of the core is under way, and nothing can begin. */
static bool stuck(const timing_core *c) {
  if (c->state == CORE_ENDED || c->state == CORE_SYNCHRONIZES || c->state == CORE_STOPPED) return true;
  if (c->wants || c->arriving != SIZE_MAX || all_idle(c)) return false;
  if (c->state == CORE_RUNS && c->cause == BRAID_TIMING_IDLE_FETCH) return false;
  for (int m = 0; m < BRAID_ISA_MODULES; m++)
    if (c->modules[m].busy) return false;
  return true;
}

void braid_timing_find_deadlock(braid_timing *t, const timing_core *c) {
  if (!stuck(c)) return;
  const timing_task *k = &t->tasks[c->task];
  for (size_t i = 0; i < k->result.core_count; i++)
    if (!stuck(&t->cores[k->cores[i]])) return;
  for (size_t i = 0; i < k->result.core_count; i++) {
    c = &t->cores[k->cores[i]];
    for (int m = 0; m < BRAID_ISA_MODULES; m++) {
      if (!c->modules[m].count) continue;
      braid_timing_fail(t, c, c->modules[m].waiting[c->modules[m].first],
                        "it waits for a token that nothing will give");
      return;
    }
  }
}

void braid_timing_core_goes_on(braid_timing *t, timing_core *c) {
  uint32_t epoch = c->epoch;
  if (c->repeated < c->repeat_count && c->stops_at == SIZE_MAX) start_repeat(t, c);
  for (int m = 0; m < BRAID_ISA_MODULES && c->epoch == epoch; m++) start_module(t, c, m);
  if (c->epoch != epoch) return;
  if (stands_at_tile(c)) {
    braid_timing_core_stopped(t, c);
    if (c->epoch == epoch) braid_timing_find_deadlock(t, c);
    return;
  }
  if (c->state == CORE_AT_SYSTEM)
    run_system(t, c);
  else if (c->state == CORE_RUNS && c->next == c->count && c->arriving == SIZE_MAX && all_idle(c))
    braid_timing_core_ended(t, c); /* it had ended when the task was stopped */
  else
    ask_for_next(t, c);
  if (c->epoch == epoch) braid_timing_account(t, c, false);
  if (c->epoch == epoch) braid_timing_find_deadlock(t, c);
  if (c->epoch == epoch) braid_timing_stop_cores(t, c->task);
}
