/* Packages as braid/overlay.h has them. */
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/overlay_evaluation.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/compiler/parts.h"
#include "overlay/isa/instruction.h"
#include "overlay/recurrent/rnn_dynamic.h"
#include "overlay/recurrent/rnn_share.h"

static void tell_refusals(const braid_graph *graph, const braid_overlay_refusal *refusals, size_t count,
                          braid_text *host) {
  for (size_t i = 0; i < count; i++) {
    braid_node_info node = braid_graph_node(graph, refusals[i].node);
    braid_text_printf(host, "%s (%s): %s\n", node.name, node.op, refusals[i].why);
  }
}

/* A line for each part but the one that is compiled: the name of its first node that computes something. */
static void tell_parts(const braid_graph *graph, const braid_overlay_parts *parts, int32_t compiled, braid_text *host) {
  for (int32_t p = 0; p < parts->part_count; p++) {
    size_t count = 0;
    braid_node_info first = {0};
    for (size_t n = 0; n < parts->node_count; n++) {
      if (p == compiled || parts->part[n] != p) continue;
      braid_node_info node = braid_graph_node(graph, (braid_node_id)n);
      if (!count++ || !strcmp(first.op, "QuantizeLinear") || !strcmp(first.op, "DequantizeLinear")) first = node;
    }
    if (count)
      braid_text_printf(host,
                        "%s (%s), %zu node%s: a package is one part of a network, and nodes of the host are between "
                        "this part and the largest one, which is compiled\n",
                        first.name, first.op, count, count == 1 ? "" : "s");
  }
}

/* That of most multiply-accumulates, of these that of most nodes. */
static int32_t find_largest(const braid_graph *graph, const braid_overlay_parts *parts) {
  int32_t largest = 0;
  double most_macs = -1;
  size_t most = 0;
  for (int32_t p = 0; p < parts->part_count; p++) {
    double macs = 0;
    size_t count = 0;
    for (size_t n = 0; n < parts->node_count; n++) {
      if (parts->part[n] != p) continue;
      macs += (double)braid_graph_node_macs(graph, (braid_node_id)n);
      count++;
    }
    if (macs < most_macs || (macs == most_macs && count <= most)) continue;
    most_macs = macs;
    most = count;
    largest = p;
  }
  return largest;
}

/* The nodes of a graph that are compiled, and what is told of the others. */
typedef struct compiling {
  const braid_graph *graph;
  const braid_overlay_design *design;
  unsigned kinds; /* of tilings */
  const braid_allocator *allocator;
  bool *takes; /* NULL: all */
  braid_overlay_refusal *refusals;
  braid_text host;
} compiling;

static braid_status compile_taken(const compiling *c, braid_overlay_package **out) {
  braid_overlay_network *network;
  BRAID_TRY(braid_overlay_lower(c->graph, c->takes, &network));
  braid_status status = braid_package_compile_by(network, c->design, c->kinds, c->allocator, out);
  braid_overlay_network_destroy(network);
  return status;
}

static braid_status fail_nothing(const compiling *c, const braid_overlay_refusal *refusals, size_t count,
                                 const char *hint) {
  if (!count) return braid_fail(BRAID_UNSUPPORTED, "the overlay can compute nothing of it");
  braid_node_info node = braid_graph_node(c->graph, refusals->node);
  return braid_fail(BRAID_UNSUPPORTED,
                    "the overlay can compute nothing of it: node %.120s (%s): %s; %zu more nodes can't either%s",
                    node.name, node.op, refusals->why, count - 1, hint);
}

/* Where a path leads from what the overlay computes over the host and back, or the design can't run a layer, no package
 * can be all of it. */
static braid_status take_largest(compiling *c) {
  braid_overlay_parts parts;
  BRAID_TRY(braid_overlay_parts_find(c->graph, c->takes, false, c->design, 1, &parts));
  int32_t largest = find_largest(c->graph, &parts);
  tell_refusals(c->graph, parts.refusals, parts.refusal_count, &c->host);
  tell_parts(c->graph, &parts, largest, &c->host);
  for (size_t n = 0; n < parts.node_count; n++) c->takes[n] = parts.part[n] == largest;
  braid_status status = parts.part_count ? BRAID_OK : fail_nothing(c, parts.refusals, parts.refusal_count, "");
  braid_overlay_parts_free(&parts);
  return status;
}

/* What the overlay can compute; lines in `host` for the others. */
static braid_status compile_part(compiling *c, braid_overlay_package **out) {
  size_t count = 0, taken = 0, nodes = braid_graph_node_count(c->graph);
  for (size_t n = 0; n < nodes; n++) c->takes[n] = true;
  BRAID_TRY(braid_overlay_select(c->graph, c->takes, c->refusals, &count));
  tell_refusals(c->graph, c->refusals, count, &c->host);
  for (size_t n = 0; n < nodes; n++) taken += c->takes[n];
  if (!taken)
    return fail_nothing(
        c, c->refusals, count,
        " (braid quantize MODEL --data SPEC --scales power-of-two --out FILE makes a model that it can)");
  braid_status status = compile_taken(c, out);
  if (status != BRAID_INVALID_ARGUMENT && status != BRAID_UNSUPPORTED) return status;
  BRAID_TRY(take_largest(c));
  return compile_taken(c, out);
}

static braid_status compile_told(compiling *c, char **host, braid_overlay_package **out) {
  size_t nodes = braid_graph_node_count(c->graph);
  c->takes = braid_zalloc_array(c->allocator, nodes + 1, sizeof *c->takes);
  c->refusals = braid_zalloc_array(c->allocator, nodes + 1, sizeof *c->refusals);
  braid_text_init(&c->host, c->allocator);
  braid_status status = c->takes && c->refusals ? compile_part(c, out) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) *host = c->host.failed ? NULL : braid_strdup(c->allocator, c->host.data);
  if (status == BRAID_OK && !*host) {
    braid_package_destroy(*out);
    *out = NULL;
    status = BRAID_NO_MEMORY;
  }
  braid_text_deinit(&c->host);
  braid_free(c->allocator, c->takes);
  braid_free(c->allocator, c->refusals);
  return status;
}

braid_status braid_overlay_compile(const braid_graph *graph, const braid_overlay_design *design,
                                   const braid_allocator *allocator, char **host, braid_overlay_package **out) {
  return braid_overlay_compile_by(
      graph, design, BRAID_OVERLAY_BY_WIDTH | BRAID_OVERLAY_BY_CHANNELS | BRAID_OVERLAY_BY_BOTH, allocator, host, out);
}

braid_status braid_overlay_compile_by(const braid_graph *graph, const braid_overlay_design *design, int tilings,
                                      const braid_allocator *allocator, char **host, braid_overlay_package **out) {
  _Static_assert(BRAID_OVERLAY_BY_WIDTH << 1 == 1 << BRAID_TILING_WIDTH &&
                     BRAID_OVERLAY_BY_CHANNELS << 1 == 1 << BRAID_TILING_CHANNELS &&
                     BRAID_OVERLAY_BY_BOTH << 1 == 1 << BRAID_TILING_BOTH,
                 "bits of both");
  *out = NULL;
  if (design->recurrent) return braid_overlay_compile_recurrent(graph, design, NULL, allocator, host, NULL, out);
  compiling c = {.graph = graph, .design = design, .kinds = (unsigned)tilings << 1, .allocator = allocator};
  if (!host) return compile_taken(&c, out);
  *host = NULL;
  return compile_told(&c, host, out);
}

braid_status braid_overlay_package_read(const braid_allocator *allocator, const char *path,
                                        braid_overlay_package **out) {
  return braid_package_open(path, allocator, out);
}

braid_status braid_overlay_package_write(const braid_overlay_package *package, const char *path) {
  return braid_package_write(package, path);
}

void braid_overlay_package_destroy(braid_overlay_package *package) {
  braid_package_destroy(package);
}

braid_status braid_overlay_package_set_steps(braid_overlay_package *package, int steps) {
  braid_rnn *rnn = package->rnn;
  if (!rnn) return braid_fail(BRAID_INVALID_ARGUMENT, "the package is of a network without steps: of feature maps");
  if (steps < 1 || steps > BRAID_RNN_MOST_STEPS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d steps; 1 to %d are allowed", steps, BRAID_RNN_MOST_STEPS);
  int32_t before = rnn->steps, length = rnn->length;
  rnn->steps = rnn->length = steps;
  braid_status status = braid_rnn_lay_out(rnn, package->bytes);
  if (status == BRAID_OK) return BRAID_OK;
  rnn->steps = before;
  rnn->length = length;
  return braid_rnn_lay_out(rnn, package->bytes) == BRAID_OK ? braid_fail(status, "%d steps are too many", steps)
                                                            : status;
}

/* A cell counts as a layer. */
static void tell_recurrent(const braid_package *package, braid_overlay_package_info *info) {
  info->layers = package->rnn->cell_count;
  info->steps = package->rnn->steps;
  info->macs = braid_rnn_macs(package->rnn);
}

braid_overlay_package_info braid_overlay_package_get_info(const braid_overlay_package *package) {
  braid_overlay_package_info info = {.design = package->design_name, .cores = package->cores};
  info.layers = package->layer_count;
  info.tiles = package->tile_count;
  for (size_t l = 0; l < package->layer_count; l++) info.macs += package->layers[l].macs;
  info.instruction_bytes = (int64_t)package->instruction_bytes;
  for (size_t t = 0; t < package->tile_count; t++)
    if ((int64_t)package->tiles[t].stop > info.stop_cycles) info.stop_cycles = (int64_t)package->tiles[t].stop;
  if (package->clock_khz) info.stop_microseconds = (double)info.stop_cycles * 1e3 / package->clock_khz;
  info.constant_bytes = package->bytes[BRAID_SEGMENT_CONSTANTS];
  info.map_bytes = package->bytes[BRAID_SEGMENT_FEATURES];
  info.input_bytes = package->bytes[BRAID_SEGMENT_INPUTS];
  info.output_bytes = package->bytes[BRAID_SEGMENT_OUTPUTS];
  if (package->rnn) tell_recurrent(package, &info);
  return info;
}

static void tell_layer(const braid_package *package, size_t index, const braid_program_layer *choice,
                       braid_overlay_layer_share *out) {
  const braid_package_layer *layer = &package->layers[index];
  const braid_package_tiling *tiling = &package->tilings[choice->tiling];
  *out = (braid_overlay_layer_share){.name = layer->name,
                                     .kind = braid_overlay_kind_name(layer->kind),
                                     .tiling = braid_tiling_name(tiling->kind),
                                     .tiles = (int)tiling->count,
                                     .macs = layer->macs,
                                     .cycles = (int64_t)choice->cycles,
                                     .bound = (int64_t)choice->bound};
}

static void tell_cell(const braid_rnn *rnn, size_t index, int cores, braid_overlay_layer_share *out) {
  const braid_rnn_cell *cell = &rnn->cells[index];
  braid_rnn_division division = braid_rnn_divide(rnn, cell, cores);
  braid_rnn_estimate estimate = braid_rnn_estimate_of(rnn, cell, &division);
  uint64_t length = (uint64_t)rnn->length;
  int tiles = 0;
  for (int c = 0; c < cores; c++) tiles += braid_rnn_part_of(rnn, cell, &division, c).row_count > 0;
  *out = (braid_overlay_layer_share){.name = cell->name,
                                     .kind = "lstm",
                                     .tiling = "rows",
                                     .tiles = tiles,
                                     .macs = braid_rnn_macs_of(rnn, index),
                                     .cycles = (int64_t)(estimate.begin + length * estimate.step),
                                     .bound = (int64_t)(estimate.begin + length * estimate.step_bound)};
}

/* Twice: the first time has to ask for memory, which whoever shares a card does once. */
static braid_status make_twice(const braid_package *package, int cores, braid_programs *programs, double *us) {
  BRAID_TRY(braid_programs_make(package, cores, 0, programs));
  int64_t begin = braid_now_ns();
  braid_status status = braid_programs_make(package, cores, 0, programs);
  *us = (double)(braid_now_ns() - begin) / 1e3;
  return status;
}

braid_status braid_overlay_package_share(const braid_overlay_package *package, int cores,
                                         braid_overlay_layer_share *layers, braid_overlay_program_info *out) {
  braid_programs programs;
  *out = (braid_overlay_program_info){0};
  braid_programs_init(&programs, NULL);
  braid_status status = make_twice(package, cores, &programs, &out->microseconds);
  if (status == BRAID_OK) {
    out->cycles = (int64_t)programs.cycles;
    out->bound = (int64_t)programs.bound;
    out->stop_cycles = (int64_t)programs.stop;
    for (int c = 0; c < cores; c++) out->bytes += (int64_t)programs.core[c].bytes;
    for (size_t i = 0; layers && package->rnn && i < package->rnn->cell_count; i++)
      tell_cell(package->rnn, i, cores, &layers[i]);
    for (size_t l = 0; layers && l < package->layer_count; l++) tell_layer(package, l, &programs.layers[l], &layers[l]);
  }
  braid_programs_deinit(&programs);
  return status;
}

static braid_status print_programs(const braid_package *package, int cores, braid_text *out) {
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  braid_status status = braid_programs_make(package, cores, 0, &programs);
  if (status == BRAID_OK) status = braid_programs_gather(&programs);
  for (int c = 0; status == BRAID_OK && c < cores; c++) {
    braid_text_printf(out, "# core %d of %d\n", c, cores);
    status = braid_isa_disassemble(programs.core[c].code, programs.core[c].bytes, out);
  }
  braid_programs_deinit(&programs);
  return status;
}

braid_status braid_overlay_package_text(const braid_overlay_package *package, int cores,
                                        const braid_allocator *allocator, char **out) {
  braid_text text;
  *out = NULL;
  braid_text_init(&text, allocator);
  if (package->rnn && !cores) cores = 1; /* it has no tiles: programs are made of its tables */
  braid_status status = cores ? print_programs(package, cores, &text) : braid_package_disassemble(package, &text);
  if (status == BRAID_OK) *out = braid_strdup(allocator, text.data);
  if (status == BRAID_OK && !*out) status = BRAID_NO_MEMORY;
  braid_text_deinit(&text);
  return status;
}
