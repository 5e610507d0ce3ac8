#include "overlay/compiler/dynamic.h"

#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "overlay/compiler/build.h"
#include "overlay/isa/instruction.h"
#include "overlay/recurrent/rnn_dynamic.h"

void braid_programs_init(braid_programs *programs, const braid_allocator *allocator) {
  memset(programs, 0, sizeof *programs);
  programs->allocator = allocator;
}

void braid_programs_deinit(braid_programs *programs) {
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) {
    braid_free(programs->allocator, programs->core[c].pieces);
    braid_free(programs->allocator, programs->core[c].own);
    braid_free(programs->allocator, programs->core[c].code);
  }
  braid_free(programs->allocator, programs->layers);
  memset(programs, 0, sizeof *programs);
}

/* --- choice --------------------------------------------------------------------------------------------------------
 */
typedef struct braid_layer_choice {
  braid_program_layer layer;
  uint8_t core_of[BRAID_ASSIGN_MOST];
} braid_layer_choice;

static void try_tiling(const braid_package *package, uint32_t index, int cores, braid_layer_choice *out) {
  const braid_package_tiling *tiling = &package->tilings[index];
  uint64_t cycles[BRAID_ASSIGN_MOST], bound;
  uint8_t core_of[BRAID_ASSIGN_MOST];
  for (uint32_t i = 0; i < tiling->count; i++) cycles[i] = package->tiles[tiling->first + i].cycles;
  uint64_t longest = braid_tiles_assign(cycles, (int)tiling->count, cores, core_of, &bound);
  if (longest >= out->layer.cycles) return;
  out->layer = (braid_program_layer){.tiling = index, .cycles = longest, .bound = bound};
  memcpy(out->core_of, core_of, tiling->count);
}

/* What no distribution is faster than: the longest tile, an equal share of the sum, and as many of the shortest as some
 * core must have. */
static uint64_t least_cycles(const braid_package_tiling *tiling, int cores) {
  uint64_t mean = tiling->sum / (uint64_t)cores, least = tiling->longest > mean ? tiling->longest : mean;
  uint64_t several = (tiling->count + (uint64_t)cores - 1) / (uint64_t)cores * tiling->shortest;
  return several > least ? several : least;
}

/* The tilings by what they take at least, the least first, until none could be faster than the best. */
static void choose_tiling(const braid_package *package, const braid_package_layer *layer, int cores,
                          braid_layer_choice *out) {
  uint32_t count = cores == 1 ? 1 : layer->count;
  uint64_t least[BRAID_PACKAGE_MOST_TILINGS];
  for (uint32_t t = 0; t < count; t++) least[t] = least_cycles(&package->tilings[layer->first + t], cores);
  out->layer.cycles = UINT64_MAX;
  for (;;) {
    uint32_t next = 0;
    for (uint32_t t = 1; t < count; t++)
      if (least[t] < least[next]) next = t;
    if (least[next] >= out->layer.cycles) return;
    least[next] = UINT64_MAX;
    try_tiling(package, layer->first + next, cores, out);
  }
}

/* --- code ----------------------------------------------------------------------------------------------------------
 */
/* The next `bytes` of the program, to be written at *to; BRAID_PACKAGE_SLACK bytes behind may be, too. */
static braid_status add_own(const braid_allocator *allocator, braid_program *program, size_t bytes, uint8_t **to) {
  if (program->own_capacity - program->own_bytes < bytes + BRAID_PACKAGE_SLACK) {
    size_t capacity = 2 * program->own_capacity + bytes + BRAID_PACKAGE_SLACK;
    uint8_t *own = braid_alloc(allocator, capacity);
    if (!own) return BRAID_NO_MEMORY;
    if (program->own_bytes) memcpy(own, program->own, program->own_bytes);
    braid_free(allocator, program->own);
    program->own = own;
    program->own_capacity = capacity;
  }
  *to = program->own + program->own_bytes;
  program->own_bytes += bytes;
  return BRAID_OK;
}

/* package: where the bytes are; NULL: own ones. */
static braid_status add_piece(const braid_allocator *allocator, braid_program *program, const uint8_t *package,
                              size_t bytes) {
  braid_program_piece *last = program->piece_count ? &program->pieces[program->piece_count - 1] : NULL;
  program->bytes += bytes;
  if (last && !last->package && !package) {
    last->bytes += bytes;
    return BRAID_OK;
  }
  braid_program_piece *pieces =
      braid_grow(allocator, program->pieces, program->piece_count, &program->piece_capacity, sizeof *pieces);
  if (!pieces) return BRAID_NO_MEMORY;
  program->pieces = pieces;
  pieces[program->piece_count++] = (braid_program_piece){package, bytes};
  return BRAID_OK;
}

/* Copies instructions that say another core: `change` is what differs in the first bytes of each, where the core stands
 * in bits 4 to 9. As many bytes as the longest instruction has are copied of each, without a branch. */
static void copy_changed(const uint8_t *restrict from, const uint8_t *restrict words, size_t count, uint64_t change,
                         uint8_t *restrict to) {
  for (size_t i = 0; i < count; i++) {
    size_t bytes = (size_t)words[i] * BRAID_ISA_WORD;
    uint64_t first[2];
    memcpy(first, from, sizeof first);
    first[0] ^= change;
    memcpy(to, first, sizeof first);
    memcpy(to + sizeof first, from + sizeof first, (size_t)BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD - sizeof first);
    from += bytes;
    to += bytes;
  }
}

/* Tile `index` of its tiling, whose instructions say that core. */
static braid_status append_tile(braid_programs *programs, int core, const braid_package *package,
                                const braid_package_tile *tile, uint32_t index) {
  braid_program *program = &programs->core[core];
  const uint8_t *from = package->instructions + tile->at;
  uint8_t *to, change[sizeof(uint64_t)] = {0};
  uint32_t differs = (index ^ (uint32_t)core) << 4;
  if (!differs) return add_piece(programs->allocator, program, from, tile->bytes);
  uint64_t word;
  change[0] = (uint8_t)differs, change[1] = (uint8_t)(differs >> 8);
  memcpy(&word, change, sizeof word);
  BRAID_TRY(add_own(programs->allocator, program, tile->bytes, &to));
  copy_changed(from, package->words + tile->first, tile->count, word, to);
  return add_piece(programs->allocator, program, NULL, tile->bytes);
}

/* SYSTEM instructions, of one word each. */
static braid_status append_marks(braid_programs *programs, int core, const uint8_t *marks, size_t bytes) {
  braid_program *program = &programs->core[core];
  uint8_t *to;
  BRAID_TRY(add_own(programs->allocator, program, bytes, &to));
  memcpy(to, marks, bytes);
  for (size_t at = 0; at < bytes; at += BRAID_ISA_WORD) {
    to[at] |= (uint8_t)(core << 4);
    to[at + 1] |= (uint8_t)(core >> 4);
  }
  return add_piece(programs->allocator, program, NULL, bytes);
}

static braid_status append_layer(const braid_package *package, size_t index, const braid_layer_choice *choice,
                                 braid_programs *programs) {
  const braid_package_tiling *tiling = &package->tilings[choice->layer.tiling];
  const braid_package_marks *marks = &package->marks[index];
  bool busy[BRAID_OVERLAY_MOST_CORES] = {false};
  for (uint32_t i = 0; i < tiling->count; i++) {
    int core = choice->core_of[i];
    if (busy[core]) BRAID_TRY(append_marks(programs, core, marks->tile, sizeof marks->tile));
    busy[core] = true;
    const braid_package_tile *tile = &package->tiles[tiling->first + i];
    if (tile->stop > programs->stop) programs->stop = tile->stop;
    BRAID_TRY(append_tile(programs, core, package, tile, i));
  }
  for (int c = 0; c < programs->cores; c++) BRAID_TRY(append_marks(programs, c, marks->sync, sizeof marks->sync));
  return BRAID_OK;
}

braid_status braid_programs_make(const braid_package *package, int cores, size_t first, braid_programs *programs) {
  if (package->rnn)
    return braid_rnn_make(package->rnn, cores, first, package->rnn->cell_count * (size_t)package->rnn->length,
                          programs);
  if (cores < 1 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; 1 to %d are allowed", cores, BRAID_OVERLAY_MOST_CORES);
  if (first > package->layer_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "layer %zu of %zu", first, package->layer_count);
  if (programs->layer_capacity < package->layer_count) {
    braid_program_layer *layers = braid_zalloc_array(programs->allocator, package->layer_count, sizeof *layers);
    if (!layers) return BRAID_NO_MEMORY;
    braid_free(programs->allocator, programs->layers);
    programs->layers = layers;
    programs->layer_capacity = package->layer_count;
  }
  programs->cores = cores;
  programs->cycles = programs->bound = programs->stop = 0;
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++)
    programs->core[c].bytes = programs->core[c].piece_count = programs->core[c].own_bytes = 0;
  if (package->layer_count) memset(programs->layers, 0, package->layer_count * sizeof *programs->layers);
  for (size_t i = first; i < package->layer_count; i++) {
    braid_layer_choice choice;
    choose_tiling(package, &package->layers[i], cores, &choice);
    BRAID_TRY(append_layer(package, i, &choice, programs));
    programs->layers[i] = choice.layer;
    programs->cycles += choice.layer.cycles;
    programs->bound += choice.layer.bound;
  }
  for (int c = 0; c < cores; c++) BRAID_TRY(append_marks(programs, c, package->end, sizeof package->end));
  return BRAID_OK;
}

braid_status braid_programs_gather(braid_programs *programs) {
  for (int c = 0; c < programs->cores; c++) {
    braid_program *program = &programs->core[c];
    const uint8_t *own = program->own;
    if (!program->piece_count) continue;
    if (program->capacity < program->bytes) {
      braid_free(programs->allocator, program->code);
      program->capacity = 0;
      program->code = braid_alloc(programs->allocator, program->bytes);
      if (!program->code) return BRAID_NO_MEMORY;
      program->capacity = program->bytes;
    }
    uint8_t *to = program->code;
    for (size_t i = 0; i < program->piece_count; i++) {
      const braid_program_piece *piece = &program->pieces[i];
      memcpy(to, piece->package ? piece->package : own, piece->bytes);
      if (!piece->package) own += piece->bytes;
      to += piece->bytes;
    }
  }
  return BRAID_OK;
}
