/* The card's memory for instructions (section 4.1.1: it "fetches the instructions from DDR, and caches them until the
 * next reconfiguration"): each core of the design has an equal part of it. A program that fits stays there; of others
 * one burst after the other is fetched while there is room for it, ahead of what is handed out, over the wires on which
 * the core reads, so that a tenant's instructions take time and bandwidth of nobody but the tenant. */
#include "overlay/sim/timing_internal.h"

uint64_t braid_timing_instruction_part(const braid_overlay_design *design) {
  return (uint64_t)(design->instruction_bytes / design->cores / BRAID_ISA_WORD * BRAID_ISA_WORD);
}

/* A burst, or half of a part that is smaller than two: an instruction may lie in both halves. */
static uint64_t most_at_once(const braid_overlay_design *design) {
  uint64_t half = braid_timing_instruction_part(design) / 2 / BRAID_ISA_WORD * BRAID_ISA_WORD;
  return half < (uint64_t)design->burst_bytes ? half : (uint64_t)design->burst_bytes;
}

static void fetch_more(braid_timing *t, timing_core *c) {
  timing_fetch *f = &c->fetch;
  if (f->asked || !f->left) return;
  const timing_task *k = &t->tasks[c->task];
  uint64_t bytes = most_at_once(t->design), burst = (uint64_t)t->design->burst_bytes;
  uint64_t to_block = burst - f->line * BRAID_ISA_WORD % burst;
  if (bytes > to_block) bytes = to_block;
  if (bytes > f->left) bytes = f->left;
  if (f->arrived - f->taken + bytes > braid_timing_instruction_part(t->design)) return;
  int64_t lines = (int64_t)(bytes / BRAID_ISA_WORD);
  braid_transfer transfer = {f->line, 1, 1, lines, lines, lines};
  f->asked = bytes;
  f->left -= bytes;
  f->line += (uint64_t)lines;
  braid_timing_counts(t, c)->fetched_bytes += bytes;
  braid_memory_start(t->memory, BRAID_MEMORY_FETCH + (uint32_t)braid_timing_index(t, c), &transfer, k->first_bank,
                     k->banks, t->now);
}

static uint64_t bytes_of(const braid_instruction *in) {
  return (uint64_t)braid_isa_form_of(in->opcode)->words * BRAID_ISA_WORD;
}

void braid_timing_fetch_begin(braid_timing *t, timing_core *c, uint64_t first_line) {
  timing_fetch *f = &c->fetch;
  *f = (timing_fetch){.on = true, .line = first_line};
  for (size_t i = 0; i < c->count; i++) {
    if (i < c->next)
      f->line += (uint64_t)braid_isa_form_of(c->instructions[i].opcode)->words;
    else
      f->left += bytes_of(&c->instructions[i]);
  }
  fetch_more(t, c);
}

bool braid_timing_fetch_has(const timing_core *c) {
  return !c->fetch.on || c->fetch.arrived >= c->fetch.taken + bytes_of(&c->instructions[c->next]);
}

void braid_timing_fetch_take(braid_timing *t, timing_core *c) {
  if (!c->fetch.on) return;
  c->fetch.taken += bytes_of(&c->instructions[c->next]);
  fetch_more(t, c);
}

void braid_timing_fetch_arrives(braid_timing *t, timing_core *c) {
  c->fetch.arrived += c->fetch.asked;
  c->fetch.asked = 0;
  fetch_more(t, c);
}
