#include "overlay/compiler/package.h"

#include <string.h>

#include "base/try.h"
#include "overlay/compiler/build.h"
#include "overlay/isa/instruction.h"

const char *braid_tiling_name(braid_tiling_kind kind) {
  static const char *const kNames[BRAID_TILING_KINDS] = {"whole", "width", "channels", "both"};
  return (unsigned)kind < BRAID_TILING_KINDS ? kNames[kind] : "";
}

void braid_design_fingerprint(const braid_overlay_design *design, uint8_t out[BRAID_SHA256_BYTES]) {
  braid_sha256 hash;
  const int64_t numbers[] = {
      BRAID_ISA_VERSION,
      design->recurrent,
      design->pixels,
      design->channels_in,
      design->channels_out,
      design->side_bytes,
      design->rows,
      design->columns,
      design->side_numbers,
      design->feature_bytes,
      design->weight_bytes,
      design->bias_bytes,
      design->sum_bytes,
      design->vector_bytes,
      design->queue_depth,
      design->port_bits,
      design->cores,
      design->burst_bytes,
      design->outstanding,
      (int64_t)design->bank_bits * design->banks / design->cores,
      design->latency_cycles,
      (int64_t)(design->efficiency * 1e6),
      (int64_t)(design->clock_mhz * 1e3),
  };
  braid_sha256_begin(&hash);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    uint8_t bytes[8];
    for (int b = 0; b < 8; b++) bytes[b] = (uint8_t)((uint64_t)numbers[i] >> (8 * b));
    braid_sha256_add(&hash, bytes, sizeof bytes);
  }
  braid_sha256_end(&hash, out);
}

void braid_package_destroy(braid_package *package) {
  if (package) braid_arena_destroy(package->arena); /* which holds the package itself */
}

static braid_status mark(int32_t layer, bool sync, bool tile, bool end, uint8_t out[BRAID_ISA_WORD]) {
  uint8_t words[BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD];
  size_t bytes;
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.layer = layer;
  in.system.sync = sync;
  in.system.tile = tile;
  in.system.end = end;
  BRAID_TRY(braid_isa_encode(&in, words, &bytes));
  memcpy(out, words, BRAID_ISA_WORD);
  return BRAID_OK;
}

braid_status braid_package_mark(braid_package *package) {
  braid_package_marks *marks = braid_arena_alloc(package->arena, (package->layer_count + 1) * sizeof *marks);
  if (!marks) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < package->layer_count; i++) {
    BRAID_TRY(mark((int32_t)i, false, false, false, marks[i].tile));
    BRAID_TRY(mark((int32_t)i, false, true, false, marks[i].tile + BRAID_ISA_WORD));
    BRAID_TRY(mark((int32_t)i, true, true, false, marks[i].sync));
  }
  package->marks = marks;
  return mark(package->layer_count ? (int32_t)package->layer_count - 1 : 0, false, false, true, package->end);
}

static void measure_tiling(braid_package_tiling *tiling, const braid_package_tile *tiles) {
  tiling->sum = tiling->longest = 0;
  tiling->shortest = UINT64_MAX;
  for (uint32_t i = 0; i < tiling->count; i++) {
    uint64_t cycles = tiles[tiling->first + i].cycles;
    tiling->sum += cycles;
    if (cycles > tiling->longest) tiling->longest = cycles;
    if (cycles < tiling->shortest) tiling->shortest = cycles;
  }
}

braid_status braid_package_measure(braid_package *package, braid_package_tiling *tilings, braid_package_tile *tiles) {
  uint64_t count = 0;
  for (size_t t = 0; t < package->tile_count; t++) count += tiles[t].count;
  uint8_t *words = braid_arena_alloc(package->arena, count + 1);
  if (!words) return BRAID_NO_MEMORY;
  count = 0;
  for (size_t t = 0; t < package->tile_count; t++) {
    const uint8_t *code = package->instructions + tiles[t].at;
    tiles[t].first = count;
    for (uint32_t i = 0; i < tiles[t].count; i++) {
      words[count] = (uint8_t)braid_isa_form_of(code[0] & 15)->words;
      code += words[count++] * BRAID_ISA_WORD;
    }
  }
  for (size_t t = 0; t < package->tiling_count; t++) measure_tiling(&tilings[t], tiles);
  package->words = words;
  return BRAID_OK;
}

braid_status braid_package_disassemble(const braid_package *package, braid_text *out) {
  for (size_t l = 0; l < package->layer_count; l++) {
    const braid_package_layer *layer = &package->layers[l];
    for (uint32_t t = 0; t < layer->count; t++) {
      const braid_package_tiling *tiling = &package->tilings[layer->first + t];
      for (uint32_t i = 0; i < tiling->count; i++) {
        const braid_package_tile *tile = &package->tiles[tiling->first + i];
        braid_text_printf(
            out, "# layer %zu %s %s, by %s, tile %u of %u: %u instructions, %llu cycles, at most %llu to a stop\n", l,
            braid_overlay_kind_name(layer->kind), layer->name, braid_tiling_name(tiling->kind), i + 1, tiling->count,
            tile->count, (unsigned long long)tile->cycles, (unsigned long long)tile->stop);
        BRAID_TRY(braid_isa_disassemble(package->instructions + tile->at, tile->bytes, out));
      }
    }
  }
  return out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

double braid_package_task_seconds(const braid_package *package, const braid_overlay_design *design, int64_t images,
                                  double image_seconds) {
  double moved =
      (double)images * (double)(package->bytes[BRAID_SEGMENT_INPUTS] + package->bytes[BRAID_SEGMENT_OUTPUTS]);
  return (double)images * image_seconds + 2e-6 * design->host_latency_us +
         moved / (1e9 * design->host_gigabytes_per_second);
}
