#include "overlay/compiler/stops.h"

#include <string.h>

#include "base/try.h"

enum { kSlotsOfOutput = 3u << BRAID_SLOT_OUTPUT, kMostTokens = 255 };

static int words_of(const braid_instruction *in) {
  return braid_isa_form_of(in->opcode)->words;
}

/* --- what is repeated ----------------------------------------------------------------------------------------------
 */
/* The slots that are read behind each tile before they are written: into its `reads`. */
static void find_live(braid_emitter *e) {
  uint32_t live = 0;
  for (size_t i = e->count; i-- > 0;) {
    braid_emitted *use = &e->uses[i];
    if (braid_isa_is_tile(&e->items[i]))
      use->reads = (uint16_t)live;
    else if (e->items[i].opcode == BRAID_ISA_OP_LOAD)
      live &= ~(uint32_t)use->writes;
    else /* what computing writes is all written before it is read */
      live = (live & ~(uint32_t)use->writes) | use->reads;
  }
}

typedef struct braid_last_loads {
  int64_t at[BRAID_SLOTS]; /* words before the LOAD that wrote a slot last; -1: none */
} braid_last_loads;

/* Sets what a tile repeats. False: it can't say that. */
static bool set_repeats(const braid_last_loads *last, uint32_t live, int64_t words, braid_isa_system *tile) {
  int32_t *const out[BRAID_ISA_REPEATS] = {&tile->repeat_a, &tile->repeat_b, &tile->repeat_c, &tile->repeat_d};
  int count = 0;
  if (live & kSlotsOfOutput) return false;
  for (int slot = 0; slot < BRAID_SLOTS; slot++) {
    if (!(live >> slot & 1)) continue;
    if (count == BRAID_ISA_REPEATS || last->at[slot] < 0 || words - last->at[slot] >= 1 << 16) return false;
    *out[count++] = (int32_t)(words - last->at[slot]);
  }
  return true;
}

/* Keeps the tiles that can say what they repeat. */
static void keep_tiles(braid_emitter *e) {
  braid_last_loads last;
  int64_t words = 0;
  size_t kept = 0;
  for (int slot = 0; slot < BRAID_SLOTS; slot++) last.at[slot] = -1;
  for (size_t i = 0; i < e->count; i++) {
    braid_instruction *in = &e->items[i];
    if (braid_isa_is_tile(in) && !set_repeats(&last, e->uses[i].reads, words, &in->system)) continue;
    for (int slot = 0; in->opcode == BRAID_ISA_OP_LOAD && slot < BRAID_SLOTS; slot++)
      if (e->uses[i].writes >> slot & 1) last.at[slot] = words;
    words += words_of(in);
    e->items[kept] = *in;
    e->uses[kept++] = e->uses[i];
  }
  e->count = kept;
}

/* --- how long it takes ---------------------------------------------------------------------------------------------
 */
/* Tokens of each pair of modules that are under way, with the time at which each was given. */
typedef struct braid_waits {
  uint32_t given[BRAID_ISA_MODULES][BRAID_ISA_MODULES], taken[BRAID_ISA_MODULES][BRAID_ISA_MODULES];
  int64_t at[BRAID_ISA_MODULES][BRAID_ISA_MODULES][kMostTokens + 1];
  int64_t free_at[BRAID_ISA_MODULES];
} braid_waits;

/* When the instruction is done, if it is handed out at `issued`. */
static int64_t run_one(braid_waits *w, const braid_overlay_design *design, const braid_instruction *in,
                       int64_t issued) {
  int m = (int)braid_isa_form_of(in->opcode)->module;
  int64_t start = w->free_at[m] > issued ? w->free_at[m] : issued;
  for (int other = 0; other < BRAID_ISA_MODULES; other++) {
    if (!(in->wait >> other & 1)) continue;
    int64_t at = w->at[other][m][w->taken[other][m]++ % (kMostTokens + 1)];
    if (at > start) start = at;
  }
  w->free_at[m] = start + braid_instruction_slowest(design, in);
  for (int other = 0; other < BRAID_ISA_MODULES; other++)
    if (in->signal >> other & 1) w->at[m][other][w->given[m][other]++ % (kMostTokens + 1)] = w->free_at[m];
  return w->free_at[m];
}

/* At the beginning of a stretch all is done but the last SAVE, which begins; the decoder serves all cores in turn. */
static int64_t stretch_cycles(braid_waits *w, const braid_overlay_design *design, const braid_instruction *items,
                              size_t count, int64_t saving) {
  int64_t issued = 0, last = saving;
  memset(w->at, 0, sizeof w->at);
  memset(w->free_at, 0, sizeof w->free_at);
  w->free_at[BRAID_ISA_OUT] = saving;
  for (int m = 0; m < BRAID_ISA_MODULES; m++) /* the newest of these may be the last SAVE's */
    if (w->given[BRAID_ISA_OUT][m] > w->taken[BRAID_ISA_OUT][m])
      w->at[BRAID_ISA_OUT][m][(w->given[BRAID_ISA_OUT][m] - 1) % (kMostTokens + 1)] = saving;
  for (size_t i = 0; i < count; i++) {
    issued += (int64_t)words_of(&items[i]) * design->cores;
    int64_t done = run_one(w, design, &items[i], issued);
    if (items[i].opcode != BRAID_ISA_OP_LOAD && done > last) last = done;
  }
  return last;
}

/* Of a core that goes back: what compute runs is done, and the SAVE before; behind the first SAVE it goes on. */
static int64_t back_cycles(const braid_overlay_design *design, const braid_instruction *items, size_t count,
                           int64_t saving) {
  int64_t longest = 0, rest = 0;
  bool saves = false;
  for (size_t i = 0; i < count; i++) {
    int64_t cycles = braid_instruction_slowest(design, &items[i]);
    saves = saves || items[i].opcode == BRAID_ISA_OP_SAVE;
    if (saves)
      rest += cycles;
    else if (items[i].opcode != BRAID_ISA_OP_LOAD && cycles > longest)
      longest = cycles;
  }
  longest = longest > saving ? longest : saving;
  return longest > rest ? longest : rest;
}

static int64_t bound_stretches(braid_emitter *e, const braid_overlay_design *design, int64_t limit, braid_waits *w) {
  int64_t most = 0, saving = 0;
  for (size_t from = 0, to; from < e->count; from = to) {
    bool tile = braid_isa_is_tile(&e->items[from]);
    size_t first = from + tile;
    for (to = first; to < e->count && !braid_isa_is_tile(&e->items[to]);) to++;
    int64_t cycles = stretch_cycles(w, design, &e->items[first], to - first, saving);
    if (tile && cycles > limit) {
      int64_t back = back_cycles(design, &e->items[first], to - first, saving);
      e->items[from].system.back = back < cycles;
      if (back < cycles) cycles = back;
    }
    if (cycles > most) most = cycles;
    for (size_t i = first; i < to; i++)
      if (e->items[i].opcode == BRAID_ISA_OP_SAVE) saving = braid_instruction_slowest(design, &e->items[i]);
  }
  return most;
}

braid_status braid_stops_place(braid_emitter *e, const braid_overlay_design *design, int64_t limit, int64_t *cycles) {
  braid_waits *waits = braid_zalloc(e->allocator, sizeof *waits);
  if (!waits) return BRAID_NO_MEMORY;
  find_live(e);
  keep_tiles(e);
  *cycles = bound_stretches(e, design, limit, waits);
  braid_free(e->allocator, waits);
  if (e->count && braid_isa_is_tile(&e->items[0]) && !e->items[0].system.back) {
    e->count--;
    memmove(e->items, e->items + 1, e->count * sizeof *e->items);
    memmove(e->uses, e->uses + 1, e->count * sizeof *e->uses);
  }
  return BRAID_OK;
}
