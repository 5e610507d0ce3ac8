#include "overlay/compiler/parts.h"

#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/try.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/compiler/package.h"

/* What stands together in one part: nodes between which a real number goes that is not yet quantized. A number that
 * several nodes dequantize at once may part them or not. */
enum { kJoinShared, kJoinAlone, kJoinNothing, kJoins };

typedef struct finder {
  const braid_graph *graph;
  const braid_overlay_design *design;
  int cores;
  braid_overlay_parts *out;
  bool *takes, *set; /* nodes that the overlay may get; of one part */
  int32_t *group;    /* of each node: another of its group, in the end the first */
  int32_t *level;    /* of each node, of a group that of its first */
  int32_t *readers;  /* of each node: how many taken nodes read what it computes */
  int join;
} finder;

static braid_node_id producer_of(const braid_graph *graph, braid_value_id id) {
  return id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT ? graph->values[id].producer : -1;
}

/* --- groups --------------------------------------------------------------------------------------------------------
 */
static int32_t group_of(const finder *f, int32_t node) {
  while (f->group[node] != node) node = f->group[node];
  return node;
}

static bool joins(const finder *f, int32_t from, braid_value_id value) {
  if (f->join == kJoinNothing || f->graph->values[value].desc.dtype != BRAID_F32) return false;
  bool shared = f->readers[from] > 1 && strcmp(f->graph->nodes[from].op->name, "DequantizeLinear") == 0;
  return f->join == kJoinShared || !shared;
}

static void find_groups(finder *f) {
  const braid_graph *graph = f->graph;
  for (size_t n = 0; n < graph->node_count; n++) f->readers[n] = 0, f->group[n] = (int32_t)n;
  for (int pass = 0; pass < 2; pass++)
    for (size_t n = 0; n < graph->node_count; n++)
      for (size_t i = 0; f->takes[n] && i < graph->nodes[n].input_count; i++) {
        braid_node_id from = producer_of(graph, graph->nodes[n].inputs[i]);
        if (from < 0 || !f->takes[from]) continue;
        if (!pass)
          f->readers[from]++;
        else if (joins(f, from, graph->nodes[n].inputs[i]))
          f->group[group_of(f, (int32_t)n)] = group_of(f, from);
      }
}

/* --- levels --------------------------------------------------------------------------------------------------------
 * The level of a node is how often a path to it has left the overlay and come back, at the most: nodes of one level are
 * convex. */
static int32_t level_after(const finder *f, int32_t node) {
  const braid_node *at = &f->graph->nodes[node];
  int32_t level = f->takes[node] ? 0 : -1;
  for (size_t i = 0; i < at->input_count; i++) {
    braid_node_id from = producer_of(f->graph, at->inputs[i]);
    if (from < 0) continue;
    int32_t before = f->takes[from] ? f->level[group_of(f, from)] : f->level[from];
    int32_t here = before + (f->takes[node] && !f->takes[from]);
    if (here > level) level = here;
  }
  return level;
}

/* False: a group waits for itself. */
static bool find_levels(finder *f) {
  size_t count = f->graph->node_count;
  for (size_t n = 0; n < count; n++) f->level[n] = -1;
  bool changed = true;
  for (size_t pass = 0; changed && pass <= count; pass++) {
    changed = false;
    for (size_t n = 0; n < count; n++) {
      int32_t at = f->takes[n] ? group_of(f, (int32_t)n) : (int32_t)n, level = level_after(f, (int32_t)n);
      if (level <= f->level[at]) continue;
      if (level > (int32_t)count) return false;
      f->level[at] = level;
      changed = true;
    }
  }
  return !changed;
}

static void find_parts(finder *f) {
  braid_overlay_parts *out = f->out;
  for (f->join = kJoinShared; f->join < kJoins; f->join++) {
    find_groups(f);
    if (find_levels(f)) break;
  }
  out->part_count = 0;
  for (size_t n = 0; n < f->graph->node_count; n++) {
    out->part[n] = f->takes[n] ? f->level[group_of(f, (int32_t)n)] : -1;
    if (out->part[n] >= out->part_count) out->part_count = out->part[n] + 1;
  }
}

/* --- what a part needs ---------------------------------------------------------------------------------------------
 */
static void refuse(finder *f, braid_node_id node, const char *why) {
  if (!f->takes[node]) return;
  braid_overlay_refusal *refusal = &f->out->refusals[f->out->refusal_count++];
  f->takes[node] = false;
  refusal->node = node;
  snprintf(refusal->why, sizeof refusal->why, "%s", why);
}

static braid_status select_nodes(finder *f, bool *changed) {
  braid_overlay_parts *out = f->out;
  size_t refused = 0;
  BRAID_TRY(braid_overlay_select(f->graph, f->set, out->refusals + out->refusal_count, &refused));
  for (size_t i = 0; i < refused; i++) f->takes[out->refusals[out->refusal_count + i].node] = false;
  out->refusal_count += refused;
  *changed = refused > 0;
  return BRAID_OK;
}

/* The node of the first layer that the design can't run, with the reason; -1: it can run all. */
static braid_node_id find_unable(const finder *f, const braid_overlay_network *network) {
  for (size_t l = 0; l < network->layer_count; l++)
    if (braid_package_can(network, l, f->design) == BRAID_UNSUPPORTED) return network->layers[l].node;
  return -1;
}

/* By the compiler's estimate for the cores. */
static braid_status estimate_part(const finder *f, const braid_package *package, int64_t batch, double *out) {
  braid_programs programs;
  braid_programs_init(&programs, f->graph->allocator);
  braid_status status = braid_programs_make(package, f->cores, 0, &programs);
  double image = (double)programs.cycles / (f->design->clock_mhz * 1e6);
  *out = braid_package_task_seconds(package, f->design, batch, image);
  braid_programs_deinit(&programs);
  return status;
}

static braid_status check_design(finder *f, int32_t part, bool *changed) {
  braid_overlay_network *network = NULL;
  braid_package *package = NULL;
  braid_node_id unable = -1;
  braid_status status = braid_overlay_lower(f->graph, f->set, &network);
  if (status == BRAID_OK) status = braid_package_compile(network, f->design, f->graph->allocator, &package);
  if (status == BRAID_OK) status = estimate_part(f, package, network->batch, &f->out->seconds[part]);
  if (status == BRAID_UNSUPPORTED && network) unable = find_unable(f, network);
  braid_package_destroy(package);
  braid_overlay_network_destroy(network);
  if (status != BRAID_UNSUPPORTED) return status;
  *changed = true;
  if (unable >= 0) {
    refuse(f, unable, braid_error_detail());
    return BRAID_OK;
  }
  for (size_t n = 0; n < f->graph->node_count; n++) /* they can't stand together, whatever the reason is */
    if (f->set[n]) refuse(f, (braid_node_id)n, braid_error_detail());
  return BRAID_OK;
}

static braid_status check_part(finder *f, int32_t part, bool *changed) {
  bool any = false, less = false;
  for (size_t n = 0; n < f->graph->node_count; n++) any |= f->set[n] = f->takes[n] && f->out->part[n] == part;
  if (!any) return BRAID_OK;
  BRAID_TRY(select_nodes(f, &less));
  for (size_t n = 0; n < f->graph->node_count; n++) {
    if (!f->takes[n] || f->out->part[n] != part || f->set[n]) continue;
    f->takes[n] = false; /* it only hands numbers through */
    less = true;
  }
  *changed |= less;
  return less ? BRAID_OK : check_design(f, part, changed);
}

/* --- borders -------------------------------------------------------------------------------------------------------
 * What quantizes for the overlay, and dequantizes for others, is left to these: bytes cross the border then, and who
 * computes over bytes may fuse it. */
static bool is_op(const finder *f, size_t node, const char *op) {
  return strcmp(f->graph->nodes[node].op->name, op) == 0;
}

static bool is_output(const braid_graph *graph, braid_value_id value) {
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == value) return true;
  return false;
}

static const char *reason_of(const finder *f, size_t node) {
  for (size_t i = 0; i < f->out->refusal_count; i++)
    if (f->out->refusals[i].node == (braid_node_id)node) return f->out->refusals[i].why;
  return "it is placed elsewhere";
}

/* Leaves the node to the device of its neighbour, which is what one would like to know of. */
static void leave_border(finder *f, size_t node, size_t neighbour) {
  char why[sizeof f->out->refusals->why];
  const braid_node *other = &f->graph->nodes[neighbour];
  snprintf(why, sizeof why, "it stands beside %.30s (%.24s), which can't run there: %.60s", other->name,
           other->op->name, reason_of(f, neighbour));
  refuse(f, (braid_node_id)node, why);
}

/* `other`: of each node, one that is not taken and reads what it computes; -1: none. `f->readers`: how many taken ones
 * do. */
static bool trim_borders(finder *f, int32_t *other) {
  const braid_graph *graph = f->graph;
  size_t before = f->out->refusal_count;
  for (size_t n = 0; n < graph->node_count; n++) other[n] = -1, f->readers[n] = 0;
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; i < graph->nodes[n].input_count; i++) {
      braid_node_id from = producer_of(graph, graph->nodes[n].inputs[i]);
      if (from >= 0 && f->takes[n]) f->readers[from]++;
      if (from >= 0 && !f->takes[n]) other[from] = (int32_t)n;
    }
  for (size_t n = 0; n < graph->node_count; n++) {
    const braid_node *node = &graph->nodes[n];
    if (!f->takes[n] || node->input_count < 1 || node->output_count < 1) continue;
    braid_node_id from = producer_of(graph, node->inputs[0]);
    bool leaves = other[n] >= 0 && !f->readers[n] && !is_output(graph, node->outputs[0]);
    if (is_op(f, n, "QuantizeLinear") && from >= 0 && !f->takes[from]) leave_border(f, n, (size_t)from);
    if (is_op(f, n, "DequantizeLinear") && leaves) leave_border(f, n, (size_t)other[n]);
  }
  return f->out->refusal_count > before;
}

static braid_status find_all(finder *f, const bool *wanted, bool trim) {
  bool changed = true;
  for (size_t n = 0; n < f->graph->node_count; n++) f->set[n] = f->takes[n] = wanted[n];
  BRAID_TRY(select_nodes(f, &changed));
  memcpy(f->takes, f->set, f->graph->node_count * sizeof *f->takes);
  do {
    changed = false;
    find_parts(f);
    for (int32_t p = 0; p < f->out->part_count; p++) BRAID_TRY(check_part(f, p, &changed));
    if (!changed && trim) changed = trim_borders(f, f->level);
  } while (changed);
  return BRAID_OK;
}

braid_status braid_overlay_parts_find(const braid_graph *graph, const bool *wanted, bool trim,
                                      const braid_overlay_design *design, int cores, braid_overlay_parts *out) {
  const braid_allocator *allocator = graph->allocator;
  size_t room = graph->node_count + 1;
  finder f = {.graph = graph, .design = design, .cores = cores, .out = out};
  *out = (braid_overlay_parts){.allocator = allocator, .node_count = graph->node_count};
  f.takes = braid_zalloc_array(allocator, room, sizeof *f.takes);
  f.set = braid_zalloc_array(allocator, room, sizeof *f.set);
  f.group = braid_zalloc_array(allocator, room, sizeof *f.group);
  f.level = braid_zalloc_array(allocator, room, sizeof *f.level);
  f.readers = braid_zalloc_array(allocator, room, sizeof *f.readers);
  out->part = braid_zalloc_array(allocator, room, sizeof *out->part);
  out->seconds = braid_zalloc_array(allocator, room, sizeof *out->seconds);
  out->refusals = braid_zalloc_array(allocator, room, sizeof *out->refusals);
  bool all = f.takes && f.set && f.group && f.level && f.readers && out->part && out->seconds && out->refusals;
  braid_status status = all ? find_all(&f, wanted, trim) : BRAID_NO_MEMORY;
  braid_free(allocator, f.takes);
  braid_free(allocator, f.set);
  braid_free(allocator, f.group);
  braid_free(allocator, f.level);
  braid_free(allocator, f.readers);
  if (status != BRAID_OK) braid_overlay_parts_free(out);
  return status;
}

void braid_overlay_parts_free(braid_overlay_parts *parts) {
  braid_free(parts->allocator, parts->part);
  braid_free(parts->allocator, parts->seconds);
  braid_free(parts->allocator, parts->refusals);
  *parts = (braid_overlay_parts){0};
}
