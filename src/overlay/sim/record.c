/* Keeps what the timing simulator tells, as timelines need it. */
#include "overlay/sim/record.h"

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"
#include "overlay/sim/package_time.h"

const char *braid_record_why(uint8_t why) {
  return why ? braid_overlay_idle_name((braid_overlay_idle)(why - 1)) : "token";
}

/* The layer of an instruction is that at whose end its core synchronizes next. */
static braid_status begin_record(void *user, const braid_timing_program *programs, int cores) {
  braid_overlay_record *r = user;
  r->now = programs;
  for (int c = 0; c < cores; c++) {
    const braid_timing_program *p = &programs[c];
    r->layer_of[c] = braid_zalloc_array(r->allocator, p->count + 1, sizeof *r->layer_of[c]);
    if (!r->layer_of[c]) return BRAID_NO_MEMORY;
    uint16_t layer = (uint16_t)(r->layer_count ? r->layer_count - 1 : 0);
    for (size_t i = p->count; i-- > 0;) {
      const braid_isa_system *s = &p->instructions[i].system;
      if (p->instructions[i].opcode == BRAID_ISA_OP_SYSTEM && s->sync && (size_t)s->layer < r->layer_count)
        layer = (uint16_t)s->layer;
      r->layer_of[c][i] = layer;
    }
  }
  return BRAID_OK;
}

static void widen_layer(braid_record_layer *layer, const braid_record_span *span) {
  if (layer->to == 0 || span->from < layer->from) layer->from = span->from;
  if (span->to > layer->to) layer->to = span->to;
}

static void hear(void *user, const braid_timing_span *told) {
  braid_overlay_record *r = user;
  bool ran = told->kind == BRAID_TIMING_SPAN_RAN;
  if (!ran && told->kind != BRAID_TIMING_SPAN_WAITED && told->kind != BRAID_TIMING_SPAN_IDLED) return;
  if (!ran && told->to - told->from < BRAID_RECORD_LEAST_STALL) return;
  if (!r->cut && r->count == r->most) {
    r->cut = true;
    r->until = told->to;
  }
  if (r->cut && told->from >= r->until) return; /* what began before is there */
  braid_record_span *spans = braid_grow(r->allocator, r->spans, r->count, &r->capacity, sizeof *spans);
  r->failed = r->failed || !spans;
  if (!spans) return;
  r->spans = spans;
  const braid_timing_program *p = &r->now[told->index];
  size_t at = told->instruction < p->count ? told->instruction : p->count - 1;
  braid_record_span made = {.from = told->from,
                            .to = told->to,
                            .instruction = (uint32_t)at,
                            .layer = r->layer_of[told->index][at],
                            .core = (uint8_t)told->core,
                            .module = (uint8_t)told->module};
  const braid_instruction *in = &p->instructions[at];
  if (ran) made.opcode = (uint8_t)in->opcode;
  if (told->kind == BRAID_TIMING_SPAN_IDLED) made.why = (uint8_t)(1 + told->cause);
  if (ran && (in->opcode == BRAID_ISA_OP_LOAD || in->opcode == BRAID_ISA_OP_SAVE))
    made.bytes = (uint64_t)in->load.planes * (uint64_t)in->load.rows * (uint64_t)in->load.lines * BRAID_ISA_WORD;
  if (ran && r->layer_count) widen_layer(&r->layers[made.layer], &made);
  spans[r->count++] = made;
}

static braid_status take_names(braid_overlay_record *r, const braid_package *package,
                               const braid_overlay_design *design) {
  r->clock_mhz = design->clock_mhz;
  r->layer_count = package->layer_count < UINT16_MAX ? package->layer_count : UINT16_MAX;
  r->layers = braid_zalloc_array(r->allocator, r->layer_count + 1, sizeof *r->layers);
  if (!r->layers) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_arena_create(r->allocator, &r->arena));
  r->design = braid_arena_format(r->arena, "%s", design->name);
  if (!r->design) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < r->layer_count; i++) {
    r->layers[i].name = braid_arena_format(r->arena, "%s", package->layers[i].name);
    if (!r->layers[i].name) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

braid_status braid_record_make(const braid_overlay_package *package, const braid_overlay_design *design, int cores,
                               size_t most, const braid_allocator *allocator, braid_overlay_simulated *simulated,
                               braid_overlay_record **out) {
  *out = NULL;
  braid_overlay_record *r = braid_zalloc(allocator, sizeof *r);
  if (!r) return BRAID_NO_MEMORY;
  r->allocator = allocator;
  r->cores = cores;
  r->most = most;
  braid_package_watch watch = {begin_record, hear, r};
  braid_status status = take_names(r, package, design);
  if (status == BRAID_OK) status = braid_package_time(package, design, cores, &watch, simulated);
  if (status == BRAID_OK && r->failed) status = BRAID_NO_MEMORY;
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) {
    braid_free(allocator, r->layer_of[c]);
    r->layer_of[c] = NULL;
  }
  r->now = NULL;
  r->cycles = (uint64_t)simulated->cycles;
  if (status == BRAID_OK)
    *out = r;
  else
    braid_overlay_record_destroy(r);
  return status;
}

braid_status braid_overlay_record_make(const braid_overlay_package *package, const braid_overlay_design *design,
                                       int cores, const braid_allocator *allocator, braid_overlay_simulated *simulated,
                                       braid_overlay_record **out) {
  return braid_record_make(package, design, cores, BRAID_OVERLAY_MOST_SPANS, allocator, simulated, out);
}

void braid_overlay_record_destroy(braid_overlay_record *r) {
  if (!r) return;
  braid_arena_destroy(r->arena);
  braid_free(r->allocator, r->layers);
  braid_free(r->allocator, r->spans);
  braid_free(r->allocator, r);
}

braid_overlay_record_info braid_overlay_record_get_info(const braid_overlay_record *r) {
  return (braid_overlay_record_info){r->count, (int64_t)(r->cut ? r->until : r->cycles), !r->cut};
}
