/* The static compiler (section 5.1 of Zeng et al. 2021): for each layer the tile that is all of it, and for each number
 * of cores the tilings by width, by channels and by both of so many tiles, of which those are kept that some number of
 * cores is fastest with, by the latencies of their tiles. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"
#include "overlay/compiler/build.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/compiler/layout.h"
#include "overlay/compiler/stops.h"

enum { kAllKinds = (1 << BRAID_TILING_KINDS) - 1 };

typedef struct braid_tiling_draft {
  braid_tiling_kind kind;
  int count, wide; /* tiles, tiles side by side */
  uint64_t cycles[BRAID_PACKAGE_MOST_TILES];
  braid_blocking cuts[BRAID_PACKAGE_MOST_TILES];
  bool kept;
} braid_tiling_draft;

typedef struct braid_compiler {
  const braid_overlay_network *network;
  const braid_overlay_design *design;
  const braid_allocator *allocator;
  unsigned kinds; /* bits by braid_tiling_kind: tilings that a layer may have beside the whole */
  braid_package *package;
  braid_ddr_layout layout;
  braid_emitter emitter;
  braid_text code; /* bytes of all instructions */
  braid_package_tiling *tilings;
  braid_package_tile *tiles;
  size_t tiling_count, tiling_capacity, tile_count, tile_capacity;
  braid_tiling_draft *drafts; /* of one layer */
  size_t draft_count, draft_capacity;
} braid_compiler;

/* Part i of `count` nearly equal parts of `size`, in multiples of `unit`, the larger ones first. */
static void divide_evenly(int32_t size, int32_t unit, int count, int i, int32_t *from, int32_t *length) {
  int32_t units = braid_ceil(size, unit), each = units / count, more = units % count;
  int32_t first = each * i + (i < more ? i : more), last = first + each + (i < more);
  *from = first * unit;
  *length = (last * unit < size ? last * unit : size) - *from;
}

static braid_layer_part part_of(const braid_layer_work *work, const braid_tiling_draft *draft, int i) {
  braid_layer_part part;
  divide_evenly(work->y.columns, 1, draft->wide, i % draft->wide, &part.column, &part.columns);
  divide_evenly(work->out_channels, work->unit, draft->count / draft->wide, i / draft->wide, &part.channel,
                &part.channels);
  return part;
}

/* As a tile of the same size before was cut. */
static bool cut_known(const braid_layer_work *work, braid_tiling_draft *draft, int i, const braid_layer_part *part) {
  for (int before = i - 1; before >= 0; before--) {
    braid_layer_part other = part_of(work, draft, before);
    if (other.columns != part->columns || other.channels != part->channels) continue;
    draft->cuts[i] = draft->cuts[before];
    return true;
  }
  return false;
}

/* Cuts each tile, and finds its latency. */
static braid_status draft_tiles(braid_compiler *c, const braid_layer_work *work, braid_tiling_draft *draft) {
  for (int i = 0; i < draft->count; i++) {
    braid_layer_part part = part_of(work, draft, i);
    if (!cut_known(work, draft, i, &part)) BRAID_TRY(braid_blocking_choose(work, &part, &draft->cuts[i]));
    braid_emitter_clear(&c->emitter);
    BRAID_TRY(braid_tile_emit(work, &part, &draft->cuts[i], &c->emitter));
    int64_t cycles = braid_instructions_latency(c->design, c->emitter.items, c->emitter.count);
    if (cycles < 0)
      return braid_fail(BRAID_INTERNAL, "tile %d of %d by %s has tokens that are out of balance", i, draft->count,
                        braid_tiling_name(draft->kind));
    draft->cycles[i] = (uint64_t)cycles;
  }
  return BRAID_OK;
}

static braid_tiling_kind kind_of(int count, int wide) {
  return count == 1      ? BRAID_TILING_WHOLE
         : wide == count ? BRAID_TILING_WIDTH
         : wide == 1     ? BRAID_TILING_CHANNELS
                         : BRAID_TILING_BOTH;
}

static braid_status add_draft(braid_compiler *c, const braid_layer_work *work, int count, int wide) {
  void *drafts = braid_grow(c->allocator, c->drafts, c->draft_count, &c->draft_capacity, sizeof *c->drafts);
  if (!drafts) return BRAID_NO_MEMORY;
  c->drafts = drafts;
  braid_tiling_draft *draft = &c->drafts[c->draft_count++];
  draft->kind = kind_of(count, wide);
  draft->count = count;
  draft->wide = wide;
  draft->kept = count == 1;
  return draft_tiles(c, work, draft);
}

/* Keeps, for each number of cores, the draft whose longest core is shortest. */
static void keep_best(braid_compiler *c) {
  for (int cores = 2; cores <= c->package->cores; cores++) {
    braid_tiling_draft *best = NULL;
    uint64_t shortest = UINT64_MAX;
    for (size_t d = 0; d < c->draft_count; d++) {
      uint8_t core_of[BRAID_ASSIGN_MOST];
      uint64_t bound, longest = braid_tiles_assign(c->drafts[d].cycles, c->drafts[d].count, cores, core_of, &bound);
      if (longest >= shortest) continue;
      shortest = longest;
      best = &c->drafts[d];
    }
    if (best) best->kept = true;
  }
}

/* Its instructions say core `core`. */
static braid_status write_tile(braid_compiler *c, uint64_t cycles, int core) {
  int64_t stop;
  BRAID_TRY(braid_stops_place(&c->emitter, c->design, braid_stop_limit(c->design), &stop));
  braid_package_tile *tiles = braid_grow(c->allocator, c->tiles, c->tile_count, &c->tile_capacity, sizeof *tiles);
  if (!tiles) return BRAID_NO_MEMORY;
  c->tiles = tiles;
  braid_package_tile *tile = &c->tiles[c->tile_count++];
  tile->at = c->code.length;
  tile->cycles = cycles;
  tile->stop = (uint64_t)stop;
  tile->count = (uint32_t)c->emitter.count;
  for (size_t i = 0; i < c->emitter.count; i++) {
    uint8_t words[BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD];
    size_t bytes;
    c->emitter.items[i].core = core;
    braid_status status = braid_isa_encode(&c->emitter.items[i], words, &bytes);
    if (status == BRAID_INVALID_ARGUMENT) status = braid_fail(BRAID_UNSUPPORTED, "%s", braid_error_detail());
    BRAID_TRY(status);
    braid_text_add_bytes(&c->code, words, bytes);
  }
  if (c->code.failed) return BRAID_NO_MEMORY;
  if (c->code.length - tile->at > UINT32_MAX)
    return braid_fail(BRAID_OUT_OF_RANGE, "a tile has more than 4 GiB of code");
  tile->bytes = (uint32_t)(c->code.length - tile->at);
  return BRAID_OK;
}

static braid_status write_tiling(braid_compiler *c, const braid_layer_work *work, const braid_tiling_draft *draft) {
  braid_package_tiling *tilings =
      braid_grow(c->allocator, c->tilings, c->tiling_count, &c->tiling_capacity, sizeof *tilings);
  if (!tilings) return BRAID_NO_MEMORY;
  c->tilings = tilings;
  c->tilings[c->tiling_count++] =
      (braid_package_tiling){.kind = draft->kind, .first = (uint32_t)c->tile_count, .count = (uint32_t)draft->count};
  for (int i = 0; i < draft->count; i++) {
    braid_layer_part part = part_of(work, draft, i);
    braid_emitter_clear(&c->emitter);
    BRAID_TRY(braid_tile_emit(work, &part, &draft->cuts[i], &c->emitter));
    BRAID_TRY(write_tile(c, draft->cycles[i], i));
  }
  return BRAID_OK;
}

static braid_status compile_layer(braid_compiler *c, const braid_layer_work *work) {
  int32_t units = braid_ceil(work->out_channels, work->unit);
  c->draft_count = 0;
  for (int count = 1; count <= c->package->cores; count++)
    for (int wide = 1; wide <= count; wide++)
      if (count % wide == 0 && wide <= work->y.columns && count / wide <= units && c->kinds >> kind_of(count, wide) & 1)
        BRAID_TRY(add_draft(c, work, count, wide));
  keep_best(c);
  for (size_t d = 0; d < c->draft_count; d++)
    if (c->drafts[d].kept) BRAID_TRY(write_tiling(c, work, &c->drafts[d]));
  return BRAID_OK;
}

static braid_status name_layer(const braid_overlay_network *network, size_t index, braid_status status) {
  const braid_overlay_layer *layer = &network->layers[index];
  if (status != BRAID_UNSUPPORTED) return status;
  return braid_fail_prefix(status, "layer %zu (%s %s)", index, braid_overlay_kind_name(layer->kind), layer->name);
}

static braid_status check_design(const braid_overlay_design *design) {
  if (design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "%s is a design for recurrent networks; this one is of convolutions",
                      design->name);
  if (design->pixels < 1 || design->channels_in < 1 || design->channels_out < 1 || design->side_bytes < 1 ||
      design->cores < 1 || design->cores > BRAID_OVERLAY_MOST_CORES || design->queue_depth < 1 ||
      design->port_bits < 1 || design->bank_bits < 1 || design->banks < 1 || design->latency_cycles < 0 ||
      !(design->efficiency > 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "the design %s is none that could compute", design->name);
  if (design->channels_in * design->channels_out % BRAID_ISA_WORD || design->channels_in > 1024 ||
      design->channels_out > 1024)
    return braid_fail(BRAID_UNSUPPORTED,
                      "%s: channels in times channels out are %d; weights take whole lines of %d bytes", design->name,
                      design->channels_in * design->channels_out, BRAID_ISA_WORD);
  return BRAID_OK;
}

static const char *copy_name(braid_arena *arena, const char *name) {
  return name ? braid_arena_text(arena, name, strlen(name)) : "";
}

static braid_status write_ports(braid_arena *arena, const braid_overlay_port *from, size_t count,
                                const braid_package_port **out, size_t *out_count) {
  braid_package_port *ports = braid_arena_alloc(arena, (count + 1) * sizeof *ports);
  *out = ports;
  *out_count = count;
  if (!ports) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const char *name = copy_name(arena, from[i].name);
    if (!name) return BRAID_NO_MEMORY;
    ports[i] = (braid_package_port){(uint32_t)from[i].map, from[i].real, from[i].low, from[i].high, name};
  }
  return BRAID_OK;
}

/* The package's tables but for tiles. */
static braid_status write_tables(braid_compiler *c, braid_package_layer *layers, size_t layer_count) {
  const braid_overlay_network *network = c->network;
  braid_package *package = c->package;
  braid_arena *arena = package->arena;
  braid_package_map *maps = braid_arena_alloc(arena, (network->map_count + 1) * sizeof *maps);
  if (!maps) return BRAID_NO_MEMORY;
  BRAID_TRY(write_ports(arena, network->inputs, network->input_count, &package->inputs, &package->input_count));
  BRAID_TRY(write_ports(arena, network->outputs, network->output_count, &package->outputs, &package->output_count));
  for (size_t m = 0; m < network->map_count; m++) {
    const braid_overlay_map *from = &network->maps[m];
    maps[m] = (braid_package_map){.name = copy_name(arena, from->name),
                                  .channels = from->channels,
                                  .rows = from->rows,
                                  .columns = from->columns,
                                  .exponent = from->exponent,
                                  .segment = c->layout.maps[m].segment,
                                  .line = c->layout.maps[m].line};
    if (!maps[m].name) return BRAID_NO_MEMORY;
  }
  package->maps = maps;
  package->layers = layers;
  package->map_count = network->map_count;
  package->layer_count = layer_count;
  return braid_package_mark(package);
}

static void *arena_copy(braid_arena *arena, const void *from, size_t bytes) {
  void *to = braid_arena_alloc(arena, bytes + BRAID_PACKAGE_SLACK);
  if (to && bytes) memcpy(to, from, bytes);
  return to;
}

static braid_status write_code(braid_compiler *c) {
  braid_package *package = c->package;
  braid_package_tile *tiles = arena_copy(package->arena, c->tiles, c->tile_count * sizeof *c->tiles);
  package->tiles = tiles;
  braid_package_tiling *tilings = arena_copy(package->arena, c->tilings, c->tiling_count * sizeof *c->tilings);
  package->tilings = tilings;
  package->instructions = arena_copy(package->arena, c->code.data, c->code.length);
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) package->bytes[s] = c->layout.lines[s] * BRAID_ISA_WORD;
  uint8_t *constants = braid_arena_alloc(package->arena, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS] + 1);
  if (!tilings || !tiles || !package->instructions || !constants) return BRAID_NO_MEMORY;
  braid_constants_fill(c->network, c->design, &c->layout, constants);
  package->constants = constants;
  package->tiling_count = c->tiling_count;
  package->tile_count = c->tile_count;
  package->instruction_bytes = c->code.length;
  return braid_package_measure(package, tilings, tiles);
}

static braid_status compile(braid_compiler *c) {
  const braid_overlay_network *network = c->network;
  braid_arena *arena = c->package->arena;
  braid_package_layer *layers = braid_arena_alloc(arena, (network->layer_count + 1) * sizeof *layers);
  size_t count = 0;
  if (!layers) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_ddr_layout_make(network, c->design, arena, &c->layout));
  for (size_t i = 0; i < network->layer_count; i++) {
    braid_layer_work work;
    size_t first = c->tiling_count;
    const char *name = network->layers[i].name ? network->layers[i].name : "";
    if (c->layout.skipped[i]) continue;
    braid_status status = braid_layer_work_of(network, c->design, &c->layout, i, &work);
    work.layer = (int32_t)(count < 1 << 16 ? count : 0);
    if (status == BRAID_OK) status = compile_layer(c, &work);
    BRAID_TRY(name_layer(network, i, status));
    layers[count] = (braid_package_layer){.name = braid_arena_text(arena, name, strlen(name)),
                                          .kind = network->layers[i].kind,
                                          .first = (uint32_t)first,
                                          .count = (uint32_t)(c->tiling_count - first),
                                          .macs = braid_overlay_macs(network, &network->layers[i])};
    if (!layers[count++].name) return BRAID_NO_MEMORY;
  }
  if (count > 1 << 16) return braid_fail(BRAID_OUT_OF_RANGE, "%zu layers; at most %d have a number", count, 1 << 16);
  BRAID_TRY(write_tables(c, layers, count));
  return write_code(c);
}

static braid_status package_new(const braid_overlay_design *design, const braid_allocator *allocator,
                                braid_package **out) {
  braid_arena *arena;
  const char *name = design->name ? design->name : "";
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_package *package = braid_arena_alloc(arena, sizeof *package);
  if (package) {
    package->arena = arena;
    package->design_name = braid_arena_text(arena, name, strlen(name));
    package->cores = design->cores;
    package->clock_khz = (int32_t)lrint(design->clock_mhz * 1e3);
  }
  if (!package || !package->design_name) {
    braid_arena_destroy(arena);
    return BRAID_NO_MEMORY;
  }
  braid_design_fingerprint(design, package->design);
  *out = package;
  return BRAID_OK;
}

typedef braid_status compiler_job(braid_compiler *c, size_t layer);

static braid_status compile_all(braid_compiler *c, size_t layer) {
  (void)layer;
  return compile(c);
}

static braid_status try_layer(braid_compiler *c, size_t layer) {
  braid_layer_work work;
  BRAID_TRY(braid_ddr_layout_make(c->network, c->design, c->package->arena, &c->layout));
  if (c->layout.skipped[layer]) return BRAID_OK;
  braid_status status = braid_layer_work_of(c->network, c->design, &c->layout, layer, &work);
  return status == BRAID_OK ? compile_layer(c, &work) : status;
}

static braid_status with_compiler(braid_compiler *c, compiler_job *job, size_t layer) {
  BRAID_TRY(check_design(c->design));
  BRAID_TRY(package_new(c->design, c->allocator, &c->package));
  braid_emitter_init(&c->emitter, c->allocator);
  braid_text_init(&c->code, c->allocator);
  braid_status status = job(c, layer);
  braid_free(c->allocator, c->tilings);
  braid_free(c->allocator, c->tiles);
  braid_free(c->allocator, c->drafts);
  braid_text_deinit(&c->code);
  braid_emitter_deinit(&c->emitter);
  return status;
}

braid_status braid_package_compile(const braid_overlay_network *network, const braid_overlay_design *design,
                                   const braid_allocator *allocator, braid_package **out) {
  return braid_package_compile_by(network, design, kAllKinds, allocator, out);
}

braid_status braid_package_compile_by(const braid_overlay_network *network, const braid_overlay_design *design,
                                      unsigned kinds, const braid_allocator *allocator, braid_package **out) {
  braid_compiler c = {.network = network, .design = design, .allocator = allocator};
  c.kinds = kinds | 1U << BRAID_TILING_WHOLE;
  braid_status status = with_compiler(&c, compile_all, 0);
  *out = status == BRAID_OK ? c.package : NULL;
  if (status != BRAID_OK) braid_package_destroy(c.package);
  return status;
}

braid_status braid_package_can(const braid_overlay_network *network, size_t layer, const braid_overlay_design *design) {
  braid_compiler c = {.network = network, .design = design, .kinds = kAllKinds};
  braid_status status = with_compiler(&c, try_layer, layer);
  braid_package_destroy(c.package);
  return status;
}
