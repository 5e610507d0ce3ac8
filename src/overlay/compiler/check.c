/* Tiles of files: what instructions say is looked at before any runs. */
#include "base/try.h"
#include "base/vector.h"
#include "overlay/compiler/build.h"
#include "overlay/compiler/emit.h"

/* LOAD and SAVE have the same fields. */
static braid_status check_move(const braid_package *package, const braid_instruction *in) {
  const braid_isa_load *move = &in->load;
  bool save = in->opcode == BRAID_ISA_OP_SAVE;
  if (move->segment >= BRAID_PACKAGE_SEGMENTS)
    return braid_fail(BRAID_INVALID_FILE, "segment is %d; 0 to %d are allowed", move->segment,
                      BRAID_PACKAGE_SEGMENTS - 1);
  if (save && move->segment != BRAID_SEGMENT_FEATURES && move->segment != BRAID_SEGMENT_OUTPUTS)
    return braid_fail(BRAID_INVALID_FILE, "it saves to segment %d, which may only be read", move->segment);
  int64_t room = package->bytes[move->segment] / BRAID_ISA_WORD;
  int64_t last = (int64_t)move->ddr + (int64_t)(move->planes - 1) * move->ddr_plane +
                 (int64_t)(move->rows - 1) * move->ddr_row + move->lines;
  if (last > room)
    return braid_fail(BRAID_INVALID_FILE, "it reaches line %lld of segment %d, which has %lld", (long long)last,
                      move->segment, (long long)room);
  return BRAID_OK;
}

static braid_status check_instruction(const braid_package *package, int32_t core, const braid_instruction *in) {
  if (in->core != core)
    return braid_fail(BRAID_INVALID_FILE, "core is %d; tile %d of a tiling says %d", in->core, core, core);
  switch (in->opcode) {
  case BRAID_ISA_OP_LOAD:
  case BRAID_ISA_OP_SAVE:
    return check_move(package, in);
  case BRAID_ISA_OP_CONV:
  case BRAID_ISA_OP_MISC:
    return BRAID_OK;
  default:
    if (braid_isa_is_tile(in)) return BRAID_OK;
    return braid_fail(BRAID_INVALID_FILE, "a tile has no %s", braid_isa_form_of(in->opcode)->name);
  }
}

/* What a place to stop at repeats are LOADs of the same tile: `begins` has a bit for each word of it at which one does,
 * up to byte `at`. */
static braid_status check_repeats(const braid_isa_system *place, const uint8_t *begins, size_t at) {
  int32_t words[BRAID_ISA_REPEATS];
  size_t word = at / BRAID_ISA_WORD;
  braid_isa_repeats(place, words);
  for (int r = 0; r < BRAID_ISA_REPEATS; r++) {
    if (!words[r]) continue;
    size_t load = word - (size_t)words[r];
    if ((size_t)words[r] > word || !(begins[load / 8] >> load % 8 & 1))
      return braid_fail(BRAID_INVALID_FILE, "it repeats what is no LOAD of the tile");
  }
  return BRAID_OK;
}

static braid_status read_tile(const braid_package *package, const braid_package_tile *tile, int32_t core,
                              braid_instruction *items, uint8_t *begins) {
  size_t at = 0, count = 0;
  const uint8_t *code = package->instructions + tile->at;
  while (at < tile->bytes && count < tile->count) {
    size_t begin = at, word = at / BRAID_ISA_WORD;
    BRAID_TRY(braid_isa_decode(code, tile->bytes, at, &items[count], &at));
    braid_status status = check_instruction(package, core, &items[count]);
    if (status == BRAID_OK && items[count].opcode == BRAID_ISA_OP_LOAD) begins[word / 8] |= (uint8_t)(1 << word % 8);
    if (status == BRAID_OK && braid_isa_is_tile(&items[count]))
      status = check_repeats(&items[count].system, begins, begin);
    if (status != BRAID_OK) return braid_fail_prefix(status, "instruction %zu", count);
    count++;
  }
  if (at != tile->bytes || count != tile->count)
    return braid_fail(BRAID_INVALID_FILE, "it has %s than %u instructions", at < tile->bytes ? "more" : "fewer",
                      tile->count);
  if (braid_instructions_latency(NULL, items, count) < 0)
    return braid_fail(BRAID_INVALID_FILE, "its tokens are out of balance");
  return BRAID_OK;
}

braid_status braid_package_check_tile(const braid_package *package, size_t index, int32_t core,
                                      const braid_allocator *allocator) {
  const braid_package_tile *tile = &package->tiles[index];
  if (tile->count > tile->bytes / BRAID_ISA_WORD || tile->bytes % BRAID_ISA_WORD)
    return braid_fail(BRAID_INVALID_FILE, "tile %zu: %u instructions in %u bytes", index, tile->count, tile->bytes);
  braid_instruction *items = braid_zalloc_array(allocator, (size_t)tile->count + 1, sizeof *items);
  uint8_t *begins = braid_zalloc(allocator, tile->bytes / BRAID_ISA_WORD / 8 + 1);
  braid_status status = items && begins ? read_tile(package, tile, core, items, begins) : BRAID_NO_MEMORY;
  braid_free(allocator, items);
  braid_free(allocator, begins);
  return status == BRAID_INVALID_FILE ? braid_fail_prefix(status, "tile %zu", index) : status;
}
