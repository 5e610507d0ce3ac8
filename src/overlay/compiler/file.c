/* Packages as files, little endian:
 *
 *   8 bytes "BRAIDBPK", uint32 version, uint32 kind, uint64 bytes of the tables, of the instructions, of the constants,
 *   SHA-256 of what follows; the tables, the instructions, the constants.
 *
 * Kind 1 is a recurrent network, whose tables rnn_file.c has; it has no instructions. Else 0, and the tables are:
 * fingerprint of the design (32 bytes), its name, cores, bytes of four segments, and after the number of
 * each: maps, inputs, outputs, layers, tilings, tiles. A text is its length and its bytes. */
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "overlay/compiler/build.h"
#include "overlay/compiler/bytes.h"
#include "overlay/compiler/emit.h"
#include "overlay/recurrent/rnn_file.h"

enum { kVersion = 4, kHeader = 8 + 4 + 4 + 3 * 8 + BRAID_SHA256_BYTES, kHashAt = kHeader - BRAID_SHA256_BYTES };
enum { kMostLayers = 1 << 16, kMostSide = BRAID_OVERLAY_MOST_SIDE };
static const char kMagic[8] = {'B', 'R', 'A', 'I', 'D', 'B', 'P', 'K'};

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static void put_ports(braid_text *out, const braid_package_port *ports, size_t count) {
  put_u32(out, count);
  for (size_t i = 0; i < count; i++) {
    put_text(out, ports[i].name);
    put_u32(out, ports[i].map);
    put_u32(out, ports[i].real);
    put_u32(out, (uint32_t)ports[i].low);
    put_u32(out, (uint32_t)ports[i].high);
  }
}

static void put_tables(const braid_package *package, braid_text *out) {
  braid_text_add_bytes(out, package->design, sizeof package->design);
  put_text(out, package->design_name);
  put_u32(out, (uint64_t)package->cores);
  put_u32(out, (uint64_t)package->clock_khz);
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) put_u64(out, (uint64_t)package->bytes[s]);
  put_u32(out, package->map_count);
  for (size_t m = 0; m < package->map_count; m++) {
    const braid_package_map *map = &package->maps[m];
    put_text(out, map->name);
    put_u32(out, (uint64_t)map->channels);
    put_u32(out, (uint64_t)map->rows);
    put_u32(out, (uint64_t)map->columns);
    put_u32(out, (uint32_t)map->exponent);
    put_u32(out, (uint64_t)map->segment);
    put_u64(out, (uint64_t)map->line);
  }
  put_ports(out, package->inputs, package->input_count);
  put_ports(out, package->outputs, package->output_count);
  put_u32(out, package->layer_count);
  for (size_t l = 0; l < package->layer_count; l++) {
    put_text(out, package->layers[l].name);
    put_u32(out, (uint64_t)package->layers[l].kind);
    put_u32(out, package->layers[l].count);
    put_u64(out, (uint64_t)package->layers[l].macs);
  }
  put_u32(out, package->tiling_count);
  for (size_t t = 0; t < package->tiling_count; t++) {
    put_u32(out, (uint64_t)package->tilings[t].kind);
    put_u32(out, package->tilings[t].count);
  }
  put_u32(out, package->tile_count);
  for (size_t t = 0; t < package->tile_count; t++) {
    put_u32(out, package->tiles[t].bytes);
    put_u32(out, package->tiles[t].count);
    put_u64(out, package->tiles[t].cycles);
    put_u64(out, package->tiles[t].stop);
  }
}

/* Header and tables; the rest follows as it is. */
static braid_status put_front(const braid_package *package, braid_text *out) {
  braid_sha256 hash;
  uint8_t sum[BRAID_SHA256_BYTES] = {0};
  size_t begin = out->length;
  braid_text tables;
  braid_text_init(&tables, out->allocator);
  if (package->rnn)
    braid_rnn_put_tables(package, &tables);
  else
    put_tables(package, &tables);
  braid_text_add_bytes(out, kMagic, sizeof kMagic);
  put_u32(out, kVersion);
  put_u32(out, package->rnn != NULL);
  put_u64(out, tables.length);
  put_u64(out, package->instruction_bytes);
  put_u64(out, (uint64_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  braid_text_add_bytes(out, sum, sizeof sum);
  braid_text_add_bytes(out, tables.data, tables.length);
  bool failed = tables.failed || out->failed;
  braid_text_deinit(&tables);
  if (failed) return BRAID_NO_MEMORY;
  braid_sha256_begin(&hash);
  braid_sha256_add(&hash, out->data + begin + kHeader, out->length - begin - kHeader);
  braid_sha256_add(&hash, package->instructions, package->instruction_bytes);
  braid_sha256_add(&hash, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  braid_sha256_end(&hash, sum);
  memcpy(out->data + begin + kHashAt, sum, sizeof sum);
  return BRAID_OK;
}

braid_status braid_package_save(const braid_package *package, braid_text *out) {
  BRAID_TRY(put_front(package, out));
  braid_text_add_bytes(out, package->instructions, package->instruction_bytes);
  braid_text_add_bytes(out, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  return out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

braid_status braid_package_write(const braid_package *package, const char *path) {
  braid_writer *writer = NULL;
  braid_text front;
  braid_text_init(&front, NULL);
  braid_status status = put_front(package, &front);
  if (status == BRAID_OK) status = braid_writer_open(NULL, path, &writer);
  if (status == BRAID_OK) status = braid_writer_put(writer, front.data, front.length);
  if (status == BRAID_OK) status = braid_writer_put(writer, package->instructions, package->instruction_bytes);
  if (status == BRAID_OK)
    status = braid_writer_put(writer, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  if (status == BRAID_OK)
    status = braid_writer_commit(writer);
  else
    braid_writer_abort(writer);
  braid_text_deinit(&front);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status get_maps(braid_bytes *in, braid_package *package) {
  void *items;
  BRAID_TRY(get_items(in, "maps", 32, sizeof(braid_package_map), kMostItems, &items, &package->map_count));
  braid_package_map *maps = items;
  package->maps = maps;
  for (size_t m = 0; m < package->map_count; m++) {
    braid_package_map *map = &maps[m];
    uint32_t exponent = 0;
    BRAID_TRY(get_text(in, "the name of a map", &map->name));
    BRAID_TRY(get_i32(in, "channels", 1, kMostSide, &map->channels));
    BRAID_TRY(get_i32(in, "rows", 1, kMostSide, &map->rows));
    BRAID_TRY(get_i32(in, "columns", 1, kMostSide, &map->columns));
    BRAID_TRY(get_u32(in, "the exponent of a scale", 0, UINT32_MAX, &exponent));
    map->exponent = (int32_t)exponent;
    if (map->exponent < -1024 || map->exponent > 1024)
      return braid_fail(BRAID_INVALID_FILE, "map %zu: the exponent of its scale is %d", m, map->exponent);
    BRAID_TRY(get_i32(in, "the segment of a map", BRAID_SEGMENT_FEATURES, BRAID_SEGMENT_OUTPUTS, &map->segment));
    BRAID_TRY(get_i64(in, "the line of a map", INT64_MAX / 32, &map->line));
    int64_t planes = (map->channels + BRAID_OVERLAY_PLANE - 1) / BRAID_OVERLAY_PLANE;
    int64_t room = package->bytes[map->segment] / BRAID_ISA_WORD, lines = planes * map->rows * map->columns;
    if (map->line > room || lines > room - map->line)
      return braid_fail(BRAID_INVALID_FILE, "map %zu, %s: its lines %lld to %lld are not in its segment of %lld", m,
                        map->name, (long long)map->line, (long long)(map->line + lines), (long long)room);
  }
  return BRAID_OK;
}

static braid_status get_ports(braid_bytes *in, const char *what, size_t maps, const braid_package_port **out,
                              size_t *count) {
  void *items;
  BRAID_TRY(get_items(in, what, 20, sizeof(braid_package_port), kMostItems, &items, count));
  braid_package_port *ports = items;
  *out = ports;
  if (*count && !maps) return braid_fail(BRAID_INVALID_FILE, "%s without maps", what);
  for (size_t i = 0; i < *count; i++) {
    uint32_t real = 0, low = 0, high = 0;
    BRAID_TRY(get_text(in, "the name of a port", &ports[i].name));
    BRAID_TRY(get_u32(in, "a map", 0, (uint32_t)maps - 1, &ports[i].map));
    BRAID_TRY(get_u32(in, "whether it is float32", 0, 1, &real));
    BRAID_TRY(get_u32(in, "the least value", 0, UINT32_MAX, &low));
    BRAID_TRY(get_u32(in, "the greatest value", 0, UINT32_MAX, &high));
    ports[i] = (braid_package_port){ports[i].map, real, (int32_t)low, (int32_t)high, ports[i].name};
    if (ports[i].low < -128 || ports[i].high > 127 || ports[i].low > ports[i].high)
      return braid_fail(BRAID_INVALID_FILE, "%s: number %zu is clipped to %d .. %d", what, i, ports[i].low,
                        ports[i].high);
  }
  return BRAID_OK;
}

/* What goes in lies in the segment for that; what comes out in that for outputs, unless it is an input as well. */
static braid_status check_ports(const braid_package *package) {
  bool *goes_in = braid_arena_alloc(package->arena, package->map_count + 1);
  if (!goes_in) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < package->input_count; i++) {
    const braid_package_map *map = &package->maps[package->inputs[i].map];
    goes_in[package->inputs[i].map] = true;
    if (map->segment != BRAID_SEGMENT_INPUTS)
      return braid_fail(BRAID_INVALID_FILE, "input %zu, %s, lies in segment %d; inputs lie in %d", i, map->name,
                        map->segment, BRAID_SEGMENT_INPUTS);
  }
  for (size_t o = 0; o < package->output_count; o++) {
    const braid_package_map *map = &package->maps[package->outputs[o].map];
    if (map->segment != BRAID_SEGMENT_OUTPUTS && !goes_in[package->outputs[o].map])
      return braid_fail(BRAID_INVALID_FILE, "output %zu, %s, lies in segment %d; outputs lie in %d", o, map->name,
                        map->segment, BRAID_SEGMENT_OUTPUTS);
  }
  return BRAID_OK;
}

/* Tilings of layers, and tiles of tilings, are counted one behind the other. */
static braid_status get_layers(braid_bytes *in, braid_package *package, uint64_t *tilings) {
  void *items;
  BRAID_TRY(get_items(in, "layers", 20, sizeof(braid_package_layer), kMostLayers, &items, &package->layer_count));
  braid_package_layer *layers = items;
  package->layers = layers;
  *tilings = 0;
  for (size_t l = 0; l < package->layer_count; l++) {
    uint32_t kind = 0;
    BRAID_TRY(get_text(in, "the name of a layer", &layers[l].name));
    BRAID_TRY(get_u32(in, "the kind of a layer", 0, BRAID_OVERLAY_KINDS - 1, &kind));
    BRAID_TRY(get_u32(in, "the number of tilings", 1, BRAID_PACKAGE_MOST_TILINGS, &layers[l].count));
    BRAID_TRY(get_i64(in, "multiply-accumulates", INT64_MAX >> 17, &layers[l].macs));
    layers[l].kind = (braid_overlay_kind)kind;
    layers[l].first = (uint32_t)*tilings;
    *tilings += layers[l].count;
  }
  return BRAID_OK;
}

static braid_status get_tilings(braid_bytes *in, braid_package *package, uint64_t expected, uint64_t *tiles,
                                braid_package_tiling **out) {
  void *items;
  BRAID_TRY(get_items(in, "tilings", 8, sizeof(braid_package_tiling), kMostItems, &items, &package->tiling_count));
  braid_package_tiling *tilings = items;
  package->tilings = *out = tilings;
  *tiles = 0;
  if (package->tiling_count != expected)
    return braid_fail(BRAID_INVALID_FILE, "%zu tilings; the layers have %llu", package->tiling_count,
                      (unsigned long long)expected);
  for (size_t t = 0; t < package->tiling_count; t++) {
    uint32_t kind = 0;
    BRAID_TRY(get_u32(in, "the kind of a tiling", 0, BRAID_TILING_KINDS - 1, &kind));
    BRAID_TRY(get_u32(in, "the number of tiles", 1, BRAID_PACKAGE_MOST_TILES, &tilings[t].count));
    tilings[t].kind = (braid_tiling_kind)kind;
    tilings[t].first = (uint32_t)*tiles;
    *tiles += tilings[t].count;
  }
  for (size_t l = 0; l < package->layer_count; l++) {
    const braid_package_tiling *first = &tilings[package->layers[l].first];
    if (first->kind != BRAID_TILING_WHOLE || first->count != 1)
      return braid_fail(BRAID_INVALID_FILE, "layer %zu: its first tiling is not one tile of all of it", l);
  }
  return BRAID_OK;
}

static braid_status get_tiles(braid_bytes *in, braid_package *package, uint64_t expected, braid_package_tile **out) {
  void *items;
  uint64_t at = 0;
  BRAID_TRY(get_items(in, "tiles", 24, sizeof(braid_package_tile), kMostItems, &items, &package->tile_count));
  braid_package_tile *tiles = items;
  package->tiles = *out = tiles;
  if (package->tile_count != expected)
    return braid_fail(BRAID_INVALID_FILE, "%zu tiles; the tilings have %llu", package->tile_count,
                      (unsigned long long)expected);
  for (size_t t = 0; t < package->tile_count; t++) {
    int64_t cycles = 0, stop = 0;
    BRAID_TRY(get_u32(in, "the bytes of a tile", 0, UINT32_MAX, &tiles[t].bytes));
    BRAID_TRY(get_u32(in, "the instructions of a tile", 0, UINT32_MAX, &tiles[t].count));
    BRAID_TRY(get_i64(in, "the cycles of a tile", INT64_MAX >> 24, &cycles)); /* so that sums of all fit */
    BRAID_TRY(get_i64(in, "the cycles until a tile stands", INT64_MAX >> 24, &stop));
    tiles[t].cycles = (uint64_t)cycles;
    tiles[t].stop = (uint64_t)stop;
    tiles[t].at = at;
    at += tiles[t].bytes;
  }
  if (at != package->instruction_bytes)
    return braid_fail(BRAID_INVALID_FILE, "%zu bytes of instructions; the tiles have %llu", package->instruction_bytes,
                      (unsigned long long)at);
  return BRAID_OK;
}

static braid_status get_tables(braid_bytes *in, braid_package *package, braid_package_tiling **out_tilings,
                               braid_package_tile **out_tiles) {
  uint64_t tilings = 0, tiles = 0;
  int64_t constants = package->bytes[BRAID_SEGMENT_CONSTANTS];
  if (in->count < BRAID_SHA256_BYTES)
    return braid_fail(BRAID_INVALID_FILE, "the tables have only %zu bytes", in->count);
  memcpy(package->design, in->data, BRAID_SHA256_BYTES);
  in->at = BRAID_SHA256_BYTES;
  BRAID_TRY(get_text(in, "the name of the design", &package->design_name));
  BRAID_TRY(get_i32(in, "cores", 1, BRAID_OVERLAY_MOST_CORES, &package->cores));
  BRAID_TRY(get_i32(in, "the clock in kHz", 1, 10000000, &package->clock_khz));
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    BRAID_TRY(get_i64(in, "the bytes of a segment", (int64_t)BRAID_ISA_WORD << 28, &package->bytes[s]));
    if (package->bytes[s] % BRAID_ISA_WORD)
      return braid_fail(BRAID_INVALID_FILE, "segment %d has %lld bytes; they must be whole lines of %d", s,
                        (long long)package->bytes[s], BRAID_ISA_WORD);
  }
  if (package->bytes[BRAID_SEGMENT_CONSTANTS] != constants)
    return braid_fail(BRAID_INVALID_FILE, "%lld bytes of constants; the tables say %lld", (long long)constants,
                      (long long)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  BRAID_TRY(get_maps(in, package));
  BRAID_TRY(get_ports(in, "inputs", package->map_count, &package->inputs, &package->input_count));
  BRAID_TRY(get_ports(in, "outputs", package->map_count, &package->outputs, &package->output_count));
  BRAID_TRY(check_ports(package));
  BRAID_TRY(get_layers(in, package, &tilings));
  BRAID_TRY(get_tilings(in, package, tilings, &tiles, out_tilings));
  BRAID_TRY(get_tiles(in, package, tiles, out_tiles));
  if (in->at != in->count) return braid_fail(BRAID_INVALID_FILE, "%zu bytes follow the tables", in->count - in->at);
  return BRAID_OK;
}

/* Splits the file; INVALID_FILE also where the checksum is another one. */
static braid_status split(const uint8_t *data, size_t bytes, braid_bytes *tables, braid_package *package,
                          const uint8_t **rest, bool *recurrent) {
  braid_bytes header = {.data = data, .count = kHashAt};
  uint64_t part[3] = {0};
  uint8_t sum[BRAID_SHA256_BYTES];
  uint32_t word = 0;
  if (bytes < kHeader || memcmp(data, kMagic, sizeof kMagic) != 0)
    return braid_fail(BRAID_INVALID_FILE, "this is no package of the overlay");
  header.at = sizeof kMagic;
  BRAID_TRY(get_u32(&header, "the version of the format", 0, UINT32_MAX, &word));
  if (word != kVersion)
    return braid_fail(BRAID_INVALID_FILE, "a package of version %u, %d is read: compile it again", word, kVersion);
  BRAID_TRY(get_u32(&header, "the kind of package", 0, 1, &word));
  *recurrent = word == 1;
  uint64_t left = bytes - kHeader;
  for (int p = 0; p < 3; p++) {
    BRAID_TRY(get_number(&header, "the length of a part", 8, 0, left, &part[p]));
    left -= part[p];
  }
  if (left) return braid_fail(BRAID_INVALID_FILE, "%llu bytes follow the package", (unsigned long long)left);
  braid_sha256_of(data + kHeader, bytes - kHeader, sum);
  if (memcmp(sum, data + kHashAt, sizeof sum) != 0)
    return braid_fail(BRAID_INVALID_FILE, "the checksum is not that of its content");
  tables->data = data + kHeader;
  tables->count = (size_t)part[0];
  package->instruction_bytes = (size_t)part[1];
  package->bytes[BRAID_SEGMENT_CONSTANTS] = (int64_t)part[2];
  *rest = data + kHeader + part[0];
  return BRAID_OK;
}

static braid_status load_into(const uint8_t *data, size_t bytes, const braid_allocator *allocator,
                              braid_package *package) {
  braid_bytes tables = {.arena = package->arena};
  const uint8_t *rest = NULL;
  braid_package_tiling *tilings = NULL;
  braid_package_tile *tiles = NULL;
  bool recurrent = false;
  BRAID_TRY(split(data, bytes, &tables, package, &rest, &recurrent));
  if (recurrent) return braid_rnn_get_tables(&tables, rest, package);
  BRAID_TRY(get_tables(&tables, package, &tilings, &tiles));
  size_t constants = (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS];
  uint8_t *code = braid_arena_alloc(package->arena, package->instruction_bytes + BRAID_PACKAGE_SLACK);
  uint8_t *copy = braid_arena_alloc(package->arena, constants + 1);
  if (!code || !copy) return BRAID_NO_MEMORY;
  memcpy(code, rest, package->instruction_bytes);
  memcpy(copy, rest + package->instruction_bytes, constants);
  package->instructions = code;
  package->constants = copy;
  for (size_t t = 0; t < package->tiling_count; t++)
    for (uint32_t i = 0; i < tilings[t].count; i++)
      BRAID_TRY(braid_package_check_tile(package, tilings[t].first + i, (int32_t)i, allocator));
  BRAID_TRY(braid_package_measure(package, tilings, tiles));
  return braid_package_mark(package);
}

braid_status braid_package_load(const uint8_t *data, size_t bytes, const braid_allocator *allocator,
                                braid_package **out) {
  braid_arena *arena;
  *out = NULL;
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_package *package = braid_arena_alloc(arena, sizeof *package);
  braid_status status = BRAID_NO_MEMORY;
  if (package) {
    package->arena = arena;
    status = load_into(data, bytes, allocator, package);
  }
  if (status == BRAID_OK)
    *out = package;
  else
    braid_arena_destroy(arena);
  return status;
}

braid_status braid_package_open(const char *path, const braid_allocator *allocator, braid_package **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(allocator, path, 0, &view));
  braid_status status = braid_package_load(view.data, view.bytes, allocator, out);
  braid_file_close(&view);
  return status == BRAID_INVALID_FILE ? braid_fail_prefix(status, "%s", path) : status;
}
