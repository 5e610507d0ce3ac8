/* Placement that lets independent branches run side by side: list scheduling by longest remaining path (Topcuoglu et
 * al., HEFT, 2002), without measurements. What a task takes is modelled from its multiply-accumulates and bytes and the
 * device's compute units; only the proportions matter, and among parts of one device those are right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "runtime/plan.h"

/* Per compute unit and second. */
static const double kMacs = 32e9, kBytes = 8e9;
/* Between memories. */
static const double kLinkBytes = 8e9, kLinkSeconds = 10e-6, kTaskSeconds = 5e-6;

typedef struct balance {
  const braid_plan *plan;
  const braid_kernel *const *candidates; /* node x device; NULL: cannot run there */
  double *path;                          /* per node: from its start to the end of the graph */
  double *finish;                        /* per node */
  double *free_at;                       /* per device */
  braid_node_id *order;
} balance;

static size_t value_bytes(const balance *b, braid_value_id id) {
  return id < 0 ? 0 : braid_desc_bytes(&b->plan->graph->values[id].desc);
}

static double seconds_on(const balance *b, braid_node_id id, size_t device) {
  const braid_graph *graph = b->plan->graph;
  const braid_node *node = &graph->nodes[id];
  uint32_t units = b->plan->devices[device].info->compute_units;
  double bytes = 0, macs = (double)braid_graph_node_macs(graph, id);
  for (size_t i = 0; i < node->input_count; i++) bytes += (double)value_bytes(b, node->inputs[i]);
  for (size_t i = 0; i < node->output_count; i++) bytes += (double)value_bytes(b, node->outputs[i]);
  double compute = macs / kMacs, memory = bytes / kBytes;
  return kTaskSeconds + (compute > memory ? compute : memory) / (units ? units : 1);
}

static double move_seconds(size_t bytes) {
  return kLinkSeconds + (double)bytes / kLinkBytes;
}

/* The node that computes an input, through views; -1: none does. */
static braid_node_id producer(const balance *b, braid_value_id input) {
  return input < 0 ? -1 : b->plan->graph->values[b->plan->roots[input]].producer;
}

static void find_paths(balance *b) {
  const braid_plan *plan = b->plan;
  for (size_t n = plan->graph->node_count; n-- > 0;) {
    if (plan->views[n]) continue;
    const braid_node *node = &plan->graph->nodes[n];
    double sum = 0;
    size_t able = 0;
    for (size_t d = 0; d < plan->device_count; d++)
      if (b->candidates[n * plan->device_count + d]) sum += seconds_on(b, (braid_node_id)n, d), able++;
    b->path[n] += able ? sum / (double)able : 0;
    for (size_t i = 0; i < node->input_count; i++) {
      braid_node_id before = producer(b, node->inputs[i]);
      if (before >= 0 && b->path[before] < b->path[n]) b->path[before] = b->path[n];
    }
  }
}

static int by_path(const void *left, const void *right, void *context) {
  const balance *b = context;
  braid_node_id i = *(const braid_node_id *)left, k = *(const braid_node_id *)right;
  if (b->path[i] != b->path[k]) return b->path[i] > b->path[k] ? -1 : 1;
  return i < k ? -1 : i > k;
}

/* When the node could end on a device, its inputs brought there. */
static double end_on(const balance *b, braid_node_id id, size_t device) {
  const braid_plan *plan = b->plan;
  const braid_node *node = &plan->graph->nodes[id];
  double start = b->free_at[device];
  for (size_t i = 0; i < node->input_count; i++) {
    braid_value_id input = node->inputs[i];
    braid_node_id before = producer(b, input);
    bool given = input >= 0 && plan->graph->values[plan->roots[input]].kind == BRAID_VALUE_INPUT;
    if (before < 0 && !given) continue; /* parameters and constants are there already */
    int space = given ? kHostSpace : plan->devices[plan->places[before].device].space;
    bool far = space != plan->devices[device].space;
    double ready = (given ? 0 : b->finish[before]) + (far ? move_seconds(value_bytes(b, input)) : 0);
    if (ready > start) start = ready;
  }
  return start + seconds_on(b, id, device);
}

static braid_status put(balance *b, braid_node_id id) {
  const braid_plan *plan = b->plan;
  const braid_kernel *const *candidates = b->candidates + (size_t)id * plan->device_count;
  int best = -1;
  double best_end = 0;
  char why[256];
  size_t used = 0;
  for (size_t d = 0; d < plan->device_count; d++) {
    if (!candidates[d]) continue;
    double end = end_on(b, id, d);
    if (used < sizeof why)
      used += (size_t)snprintf(why + used, sizeof why - used, "%s%s: ends at %.3f ms (modelled)", used ? "; " : "",
                               plan->devices[d].label, end * 1e3);
    if (best < 0 || end < best_end) best = (int)d, best_end = end;
  }
  b->finish[id] = best_end;
  b->free_at[best] = best_end;
  braid_placement *place = &plan->places[id];
  *place = (braid_placement){.device = best, .kernel = candidates[best], .why = place->why};
  if (place->why[0]) return BRAID_OK; /* by hand, or nowhere else: the reason is known */
  place->why = braid_arena_text(plan->arena, why, strlen(why));
  return place->why ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status run(balance *b) {
  const braid_plan *plan = b->plan;
  size_t count = 0;
  find_paths(b);
  for (size_t n = 0; n < plan->graph->node_count; n++)
    if (!plan->views[n]) b->order[count++] = (braid_node_id)n;
  qsort_r(b->order, count, sizeof *b->order, by_path, b);
  for (size_t i = 0; i < count; i++) BRAID_TRY(put(b, b->order[i]));
  return BRAID_OK;
}

braid_status braid_plan_balance(braid_plan *plan, const braid_kernel *const *candidates) {
  size_t nodes = plan->graph->node_count + 1;
  balance b = {.plan = plan, .candidates = candidates};
  b.path = braid_zalloc_array(plan->allocator, nodes, sizeof *b.path);
  b.finish = braid_zalloc_array(plan->allocator, nodes, sizeof *b.finish);
  b.free_at = braid_zalloc_array(plan->allocator, plan->device_count, sizeof *b.free_at);
  b.order = braid_zalloc_array(plan->allocator, nodes, sizeof *b.order);
  braid_status status = b.path && b.finish && b.free_at && b.order ? run(&b) : BRAID_NO_MEMORY;
  braid_free(plan->allocator, b.path);
  braid_free(plan->allocator, b.finish);
  braid_free(plan->allocator, b.free_at);
  braid_free(plan->allocator, b.order);
  return status;
}
