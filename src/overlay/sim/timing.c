#include "overlay/sim/timing_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "base/vector.h"

enum { kSyncCycles = 2, kLeastPart = 64 };

braid_status braid_timing_create(const braid_overlay_design *design, const braid_allocator *allocator,
                                 braid_timing **out) {
  *out = NULL;
  braid_timing *t = braid_zalloc(allocator, sizeof *t);
  if (!t) return BRAID_NO_MEMORY;
  t->allocator = t->queue.allocator = allocator;
  t->design = design;
  t->changed = SIZE_MAX;
  t->limit = UINT64_MAX;
  t->last_turn = design->cores - 1;
  braid_status status = braid_memory_create(design, allocator, &t->queue, &t->memory);
  if (status == BRAID_OK)
    *out = t;
  else
    braid_timing_destroy(t);
  return status;
}

void braid_timing_destroy(braid_timing *t) {
  if (!t) return;
  braid_memory_destroy(t->memory);
  for (size_t i = 0; i < t->task_count; i++) braid_free(t->allocator, t->tasks[i].counts);
  braid_event_queue_deinit(&t->queue);
  braid_free(t->allocator, t->tasks);
  braid_free(t->allocator, t);
}

uint64_t braid_timing_now(const braid_timing *t) {
  return t->now;
}

uint64_t braid_timing_bank_busy(const braid_timing *t, int bank) {
  return braid_memory_bank_busy(t->memory, (uint32_t)bank);
}

void braid_timing_listen(braid_timing *t, braid_timing_listener *listener, void *user) {
  t->listener = listener;
  t->user = user;
}

/* --- ends of tasks -------------------------------------------------------------------------------------------------
 */
/* The task that runs whose time is over first. */
static void find_limit(braid_timing *t) {
  t->limit = UINT64_MAX;
  for (int i = 0; i < t->design->cores; i++) {
    const timing_core *c = &t->cores[i];
    if (c->state == CORE_FREE) continue;
    uint64_t limit = t->tasks[c->task].limit;
    if (limit > t->limit || (limit == t->limit && c->task >= t->limited)) continue;
    t->limit = limit;
    t->limited = c->task;
  }
}

/* What is under way for the task comes to nothing. */
static void end_task(braid_timing *t, size_t id, braid_timing_state state) {
  timing_task *k = &t->tasks[id];
  k->result.state = state;
  k->result.ended = t->now;
  for (size_t i = 0; i < k->result.core_count; i++) {
    timing_core *c = &t->cores[k->cores[i]];
    uint32_t core = (uint32_t)k->cores[i];
    braid_timing_account(t, c, true);
    if (!i) braid_timing_tell(t, c, BRAID_TIMING_SPAN_TASK, 0, (int)state, k->result.began, 0);
    c->state = CORE_FREE;
    c->epoch++;
    c->wants = false;
    t->own_slots &= ~((uint64_t)1 << core);
    braid_memory_cancel(t->memory, 2 * core);
    braid_memory_cancel(t->memory, 2 * core + 1);
    braid_memory_cancel(t->memory, BRAID_MEMORY_FETCH + core);
  }
  find_limit(t);
  t->changed = id;
}

void braid_timing_fail(braid_timing *t, const timing_core *c, size_t instruction, const char *why) {
  timing_task *k = &t->tasks[c->task];
  const braid_isa_form *form = braid_isa_form_of(c->instructions[instruction].opcode);
  snprintf(k->why, BRAID_TIMING_WHY, "core %d, instruction %zu, %s: %s", k->cores[c->index], instruction,
           form ? form->name : "?", why);
  k->result.why = k->why;
  end_task(t, c->task, BRAID_TIMING_FAILED);
}

/* --- synchronization -----------------------------------------------------------------------------------------------
 */
static void end_wait(braid_timing *t, timing_core *c) {
  braid_timing_counts(t, c)->synchronizing += t->now - c->raised_at;
  braid_timing_tell(t, c, BRAID_TIMING_SPAN_SYNCHRONIZED, 0, 0, c->raised_at, c->next - 1);
}

/* All cores of a task that is to be stopped at a tile stand: those that synchronize do it again when it goes on. */
static void stop_if_all_stand(braid_timing *t, size_t id) {
  timing_task *k = &t->tasks[id];
  for (size_t i = 0; i < k->result.core_count; i++) {
    timing_core_state state = t->cores[k->cores[i]].state;
    if (state != CORE_STOPPED && state != CORE_SYNCHRONIZES && state != CORE_ENDED) return;
  }
  for (size_t i = 0; i < k->result.core_count; i++) {
    timing_core *c = &t->cores[k->cores[i]];
    k->counts[i].stopped_at = c->state == CORE_STOPPED ? c->stops_at + 1
                              : c->state == CORE_ENDED ? c->count
                                                       : c->next - 1;
    if (c->state == CORE_SYNCHRONIZES) end_wait(t, c);
  }
  end_task(t, id, BRAID_TIMING_STOPPED);
}

/* Of cores that synchronize, none may have ended. */
static bool waits_for_ended(braid_timing *t, size_t id) {
  const timing_task *k = &t->tasks[id];
  const timing_core *waiting = NULL;
  bool ended = false;
  for (size_t i = 0; i < k->result.core_count; i++) {
    const timing_core *c = &t->cores[k->cores[i]];
    ended |= c->state == CORE_ENDED;
    if (c->state == CORE_SYNCHRONIZES) waiting = c;
  }
  if (ended && waiting) braid_timing_fail(t, waiting, waiting->next - 1, "it waits for a core that has ended");
  return ended && waiting;
}

static bool all_are(const braid_timing *t, const timing_task *k, timing_core_state state) {
  for (size_t i = 0; i < k->result.core_count; i++)
    if (t->cores[k->cores[i]].state != state) return false;
  return true;
}

/* Cores of recurrent networks also meet before the first step and within steps, under the number of the step: there a
 * task that is to stop goes on, since it would begin the step again. */
static bool ends_layer(const timing_core *c) {
  int32_t layer = c->instructions[c->next - 1].system.layer;
  for (size_t i = c->next; i < c->count; i++) {
    const braid_instruction *in = &c->instructions[i];
    if (in->opcode == BRAID_ISA_OP_SYSTEM && in->system.sync) return in->system.layer != layer;
  }
  return true;
}

void braid_timing_synchronize(braid_timing *t, size_t id) {
  timing_task *k = &t->tasks[id];
  if (waits_for_ended(t, id)) return;
  if (!all_are(t, k, CORE_SYNCHRONIZES)) {
    if (k->stops && k->place == BRAID_TIMING_AT_TILE) stop_if_all_stand(t, id);
    return;
  }
  bool stops = k->stops && ends_layer(&t->cores[k->cores[0]]);
  k->cores_stop = false; /* those that are to stop at a tile look for it behind this place */
  for (size_t i = 0; i < k->result.core_count; i++) {
    timing_core *c = &t->cores[k->cores[i]];
    end_wait(t, c);
    k->counts[i].stopped_at = c->next;
    c->state = CORE_RUNS;
    if (!stops)
      braid_event_queue_add(&t->queue, t->now + kSyncCycles, BRAID_EVENT_CORE, (uint32_t)braid_timing_index(t, c),
                            c->epoch);
  }
  if (stops) end_task(t, id, BRAID_TIMING_STOPPED);
}

void braid_timing_core_ended(braid_timing *t, timing_core *c) {
  timing_task *k = &t->tasks[c->task];
  size_t id = c->task;
  c->state = CORE_ENDED;
  c->cause = BRAID_TIMING_IDLE_OVER;
  if (waits_for_ended(t, id)) return;
  if (all_are(t, k, CORE_ENDED))
    end_task(t, id, BRAID_TIMING_ENDED);
  else if (k->stops && k->place == BRAID_TIMING_AT_TILE)
    stop_if_all_stand(t, id);
}

void braid_timing_core_stopped(braid_timing *t, timing_core *c) {
  c->state = CORE_STOPPED;
  c->cause = BRAID_TIMING_IDLE_OVER;
  braid_timing_account(t, c, false);
  stop_if_all_stand(t, c->task);
}

/* --- the decoder ---------------------------------------------------------------------------------------------------
 */
/* Where so many words have passed in slots that no core has for itself; a slot is a cycle, and cores have them in turn.
 */
static uint64_t after_shared(const braid_timing *t, int words) {
  uint64_t at = t->now;
  for (; words; at++) words -= !(t->own_slots >> at % (uint64_t)t->design->cores & 1);
  return at;
}

/* In the slots of the core itself, whatever others want. */
static uint64_t after_own(const braid_timing *t, const timing_core *c, int words) {
  uint64_t cores = (uint64_t)t->design->cores, index = (uint64_t)braid_timing_index(t, c);
  return t->now + (index + cores - t->now % cores) % cores + (uint64_t)(words - 1) * cores + 1;
}

/* The core's next instruction is on its way. Returns when it is there. */
static uint64_t hand_out(braid_timing *t, timing_core *c) {
  uint32_t index = (uint32_t)braid_timing_index(t, c);
  c->wants = false;
  braid_timing_fetch_take(t, c);
  c->arriving = c->next++;
  int words = braid_isa_form_of(c->instructions[c->arriving].opcode)->words;
  uint64_t at = t->own_slots >> index & 1 ? after_own(t, c, words) : after_shared(t, words);
  braid_event_queue_add(&t->queue, at, BRAID_EVENT_CORE, index, c->epoch);
  return at;
}

void braid_timing_want(braid_timing *t, timing_core *c) {
  if (t->own_slots >> braid_timing_index(t, c) & 1) {
    (void)hand_out(t, c);
    return;
  }
  c->wants = true;
  if (t->dispatching) return;
  t->dispatching = true;
  braid_event_queue_add(&t->queue, t->decoder_free > t->now ? t->decoder_free : t->now, BRAID_EVENT_DISPATCH, 0, 0);
}

/* The decoder takes a word a cycle; cores that want one take turns. Those with a gate have a share of it too. */
static void dispatch(braid_timing *t) {
  int most = t->design->cores;
  t->dispatching = false;
  for (int i = 1; i <= most; i++) {
    int turn = (t->last_turn + i) % most;
    timing_core *c = &t->cores[turn];
    if (!c->wants) continue;
    t->last_turn = turn;
    t->decoder_free = hand_out(t, c);
    t->dispatching = true;
    braid_event_queue_add(&t->queue, t->decoder_free, BRAID_EVENT_DISPATCH, 0, 0);
    return;
  }
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
  size_t repeats[BRAID_ISA_REPEATS];
  if (braid_timing_find_repeats(p, repeats) < 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "core %d, instruction %zu: SYSTEM repeats what is no LOAD", p->core,
                      p->first - 1);
  return BRAID_OK;
}

static braid_status check_task(const braid_timing *t, const braid_timing_task *from) {
  uint64_t seen = 0;
  if (!from->core_count || from->core_count > (size_t)t->design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a task of %zu cores: 1 to %d are possible", from->core_count,
                      t->design->cores);
  if (from->code && braid_timing_instruction_part(t->design) < kLeastPart)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s keeps %llu bytes of instructions for a core: %d are needed",
                      t->design->name, (unsigned long long)braid_timing_instruction_part(t->design), kLeastPart);
  for (size_t i = 0; i < from->core_count; i++) {
    BRAID_TRY(check_program(t, &from->programs[i]));
    if (seen >> from->programs[i].core & 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "core %d is there twice", from->programs[i].core);
    seen |= (uint64_t)1 << from->programs[i].core;
  }
  return BRAID_OK;
}

/* At a tile all before it is done and nothing behind it: the counts follow from the program. */
static void restore_tokens(timing_core *c) {
  for (size_t i = 0; i < c->next; i++) {
    const braid_instruction *in = &c->instructions[i];
    int own = (int)braid_isa_form_of(in->opcode)->module;
    if (own == BRAID_ISA_DISPATCH) continue; /* where it waits for all, all counts are 0 */
    for (int other = 0; other < BRAID_ISA_MODULES; other++) {
      c->tokens[own][other] += in->signal >> other & 1;
      c->tokens[other][own] -= in->wait >> other & 1;
    }
  }
}

static void give_core(braid_timing *t, size_t id, size_t index, const braid_timing_program *p) {
  timing_core *c = &t->cores[p->core];
  uint32_t epoch = c->epoch;
  timing_task *k = &t->tasks[id];
  braid_memory_gate(t->memory, p->core, k->gate, k->gate_owner, t->now);
  int first, count, end = k->first_bank + k->banks;
  braid_overlay_core_banks(t->design, p->core, &first, &count);
  memset(c, 0, sizeof *c);
  if (k->gate) t->own_slots |= (uint64_t)1 << p->core;
  c->state = CORE_RUNS;
  c->epoch = epoch + 1;
  c->task = id;
  c->index = index;
  c->instructions = p->instructions;
  c->count = p->count;
  c->first = c->next = p->first;
  c->arriving = c->stops_at = SIZE_MAX;
  c->furthest = c->saved = p->first;
  c->repeat_count = braid_timing_find_repeats(p, c->repeats);
  if (p->first && braid_isa_is_tile(&p->instructions[p->first - 1]))
    c->furthest = c->saved = p->first - 1; /* it stands there already, and may go back to it */
  c->cause = BRAID_TIMING_IDLE_DECODER;
  for (int m = 0; m < BRAID_ISA_MODULES; m++) {
    c->modules[m].does = BRAID_TIMING_DOES_NOTHING + (int)c->cause;
    c->modules[m].since = t->now;
  }
  restore_tokens(c);
  k->cores[index] = p->core;
  if (!index || first < k->first_bank) k->first_bank = first;
  k->banks = (!index || first + count > end ? first + count : end) - k->first_bank;
  braid_event_queue_add(&t->queue, t->now, BRAID_EVENT_CORE, (uint32_t)p->core, c->epoch);
}

/* A number that no task has, and room for what its result has. */
static braid_status get_task(braid_timing *t, size_t cores, size_t *id) {
  timing_task *items = braid_grow(t->allocator, t->tasks, t->task_count, &t->task_capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  t->tasks = items;
  braid_timing_core *counts = braid_zalloc(t->allocator, cores * (sizeof *counts + sizeof(int)) + BRAID_TIMING_WHY);
  if (!counts) return BRAID_NO_MEMORY;
  *id = t->unused ? t->unused - 1 : t->task_count++;
  timing_task *k = &t->tasks[*id];
  if (t->unused) t->unused = k->next_unused;
  *k = (timing_task){.counts = counts, .cores = (int *)(void *)(counts + cores)};
  k->why = (char *)(k->cores + cores);
  return BRAID_OK;
}

void braid_timing_forget(braid_timing *t, size_t id) {
  timing_task *k = &t->tasks[id];
  BRAID_ASSERT(k->counts && k->result.state != BRAID_TIMING_RUNS);
  braid_free(t->allocator, k->counts);
  *k = (timing_task){.result.state = BRAID_TIMING_FAILED, .next_unused = t->unused};
  t->unused = id + 1;
  if (t->changed == id) t->changed = SIZE_MAX;
}

braid_status braid_timing_submit(braid_timing *t, const braid_timing_task *from, size_t *id) {
  BRAID_TRY(check_task(t, from));
  BRAID_TRY(get_task(t, from->core_count, id));
  timing_task *k = &t->tasks[*id];
  memcpy(k->ranges, from->ranges, sizeof k->ranges);
  k->gate = from->gate;
  k->gate_owner = from->gate_owner;
  k->limit = from->most_cycles && from->most_cycles < UINT64_MAX - t->now ? t->now + from->most_cycles : UINT64_MAX;
  k->result = (braid_timing_result){.began = t->now, .cores = k->counts, .core_count = from->core_count};
  for (size_t i = 0; i < from->core_count; i++) give_core(t, *id, i, &from->programs[i]);
  for (size_t i = 0; from->code && i < from->core_count; i++)
    if (from->code[i] != BRAID_TIMING_RESIDENT)
      braid_timing_fetch_begin(t, &t->cores[from->programs[i].core], from->code[i]);
  find_limit(t);
  return t->queue.failed ? BRAID_NO_MEMORY : BRAID_OK;
}

bool braid_timing_has_advanced(const braid_timing *t, size_t id) {
  const timing_task *k = &t->tasks[id];
  for (size_t i = 0; i < k->result.core_count; i++)
    if (braid_timing_core_has_advanced(&t->cores[k->cores[i]])) return true;
  return false;
}

void braid_timing_stop_cores(braid_timing *t, size_t id) {
  timing_task *k = &t->tasks[id];
  if (!k->stops || k->place != BRAID_TIMING_AT_TILE || k->cores_stop) return;
  if (!braid_timing_has_advanced(t, id)) return;
  k->cores_stop = true;
  for (size_t i = 0; i < k->result.core_count; i++) {
    timing_core *c = &t->cores[k->cores[i]];
    braid_timing_core_to_stop(c);
    braid_timing_account(t, c, false);
  }
  stop_if_all_stand(t, id);
  if (t->tasks[id].result.state == BRAID_TIMING_RUNS) braid_timing_find_deadlock(t, &t->cores[k->cores[0]]);
}

void braid_timing_stop(braid_timing *t, size_t id, braid_timing_place place) {
  timing_task *k = &t->tasks[id];
  if (k->result.state != BRAID_TIMING_RUNS || k->cores_stop) return;
  k->stops = true;
  k->place = place;
  braid_timing_stop_cores(t, id);
}

void braid_timing_cancel(braid_timing *t, size_t id) {
  if (t->tasks[id].result.state != BRAID_TIMING_RUNS) return;
  t->tasks[id].result.why = "it was cancelled";
  end_task(t, id, BRAID_TIMING_FAILED);
}

braid_timing_result braid_timing_get(const braid_timing *t, size_t id) {
  return t->tasks[id].result;
}

/* --- time ----------------------------------------------------------------------------------------------------------
 */
static void end_time(braid_timing *t, size_t id) {
  timing_task *k = &t->tasks[id];
  snprintf(k->why, BRAID_TIMING_WHY, "its time of %llu cycles is over", (unsigned long long)(t->now - k->result.began));
  k->result.why = k->why;
  end_task(t, id, BRAID_TIMING_FAILED);
}

static void end_burst(braid_timing *t, const braid_event *e) {
  bool fetched = e->index >= BRAID_MEMORY_FETCH;
  timing_core *c = &t->cores[fetched ? e->index - BRAID_MEMORY_FETCH : e->index / 2];
  if (!braid_memory_burst_done(t->memory, e->index, t->now)) return;
  if (!fetched) {
    braid_timing_module_done(t, c, e->index % 2 ? BRAID_ISA_OUT : BRAID_ISA_IN);
    return;
  }
  braid_timing_fetch_arrives(t, c);
  if (c->cause == BRAID_TIMING_IDLE_FETCH) braid_timing_core_goes_on(t, c);
}

static void take_event(braid_timing *t, const braid_event *e) {
  timing_core *c;
  switch (e->kind) {
  case BRAID_EVENT_DISPATCH:
    dispatch(t);
    return;
  case BRAID_EVENT_CORE:
    c = &t->cores[e->index];
    if (c->epoch != e->epoch) return;
    braid_timing_core_takes(c);
    braid_timing_core_goes_on(t, c);
    return;
  case BRAID_EVENT_MODULE:
    c = &t->cores[e->index / BRAID_ISA_MODULES];
    if (c->epoch == e->epoch) braid_timing_module_done(t, c, (int)(e->index % BRAID_ISA_MODULES));
    return;
  case BRAID_EVENT_BANK:
    braid_memory_bank_free(t->memory, e->index, t->now);
    return;
  case BRAID_EVENT_GATE:
    braid_memory_gate_opens(t->memory, e->index, e->epoch, t->now);
    return;
  case BRAID_EVENT_BURST:
    end_burst(t, e);
  }
}

braid_status braid_timing_advance(braid_timing *t, uint64_t until, size_t *id) {
  *id = SIZE_MAX;
  while (t->changed == SIZE_MAX) {
    uint64_t at = braid_event_queue_next(&t->queue);
    if (t->limit <= at && t->limit <= until && t->limit != UINT64_MAX) {
      t->now = t->limit;
      end_time(t, t->limited);
      break;
    }
    if (at == UINT64_MAX || at > until) break;
    braid_event e = braid_event_queue_take(&t->queue);
    t->now = e.at;
    if (!t->queue.failed) take_event(t, &e);
    if (t->queue.failed) t->status = BRAID_NO_MEMORY;
    if (t->status != BRAID_OK) return t->status;
  }
  if (t->changed == SIZE_MAX && t->now < until && until != UINT64_MAX) t->now = until;
  *id = t->changed;
  t->changed = SIZE_MAX;
  return BRAID_OK;
}
