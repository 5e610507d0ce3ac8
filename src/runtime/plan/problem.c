/* The numbers of a graph and of devices, but for the offers. */
#include <string.h>

#include "base/try.h"
#include "runtime/plan/placing.h"

/* Per compute unit and second. */
static const double kMacs = 32e9, kBytes = 8e9;
/* Between memories. */
static const double kLinkBytes = 8e9, kLinkSeconds = 10e-6;

double braid_modelled_seconds(uint32_t units, double macs, double bytes) {
  double compute = macs / kMacs, memory = bytes / kBytes;
  return (compute > memory ? compute : memory) / (units ? units : 1);
}

static braid_status describe_nodes(braid_placing *placing) {
  const braid_plan *plan = placing->plan;
  const braid_graph *graph = plan->graph;
  size_t reads = 0, count = 0;
  for (size_t n = 0; n < graph->node_count; n++) reads += graph->nodes[n].input_count;
  int32_t *list = braid_arena_alloc(placing->arena, (reads + 1) * sizeof *list);
  placing->nodes = braid_arena_alloc(placing->arena, (graph->node_count + 1) * sizeof *placing->nodes);
  placing->ids = braid_arena_alloc(placing->arena, (graph->node_count + 1) * sizeof *placing->ids);
  placing->macs = braid_arena_alloc(placing->arena, (graph->node_count + 1) * sizeof *placing->macs);
  if (!list || !placing->nodes || !placing->ids || !placing->macs) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < graph->node_count; n++) {
    const braid_node *node = &graph->nodes[n];
    braid_problem_node *out = &placing->nodes[n];
    *out = (braid_problem_node){.name = node->name, .idle = plan->views[n], .fixed = -1, .first_read = count};
    placing->ids[n] = (int32_t)n;
    if (plan->views[n]) continue;
    placing->macs[n] = (double)braid_graph_node_macs(graph, (braid_node_id)n);
    out->fixed = braid_plan_patterns_find(plan, &placing->patterns, node);
    for (size_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] < 0) continue;
      braid_value_id root = plan->roots[node->inputs[i]];
      braid_value_kind kind = graph->values[root].kind;
      bool given = kind == BRAID_VALUE_INPUT && !plan->device_io;
      if (kind != BRAID_VALUE_RESULT && !given) continue; /* it is there already, wherever it is read */
      list[count++] = root;
      out->read_count++;
    }
  }
  placing->problem.nodes = placing->nodes;
  placing->problem.node_count = graph->node_count;
  placing->problem.reads = list;
  return BRAID_OK;
}

static braid_status describe_values(braid_placing *placing) {
  const braid_plan *plan = placing->plan;
  const braid_graph *graph = plan->graph;
  braid_problem_value *values = braid_arena_alloc(placing->arena, (graph->value_count + 1) * sizeof *values);
  if (!values) return BRAID_NO_MEMORY;
  for (size_t v = 0; v < graph->value_count; v++) {
    const braid_value *value = &graph->values[v];
    values[v].producer = value->kind == BRAID_VALUE_RESULT ? value->producer : -1;
    values[v].bytes = braid_desc_bytes(&value->desc);
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    braid_value_id root = plan->roots[graph->outputs[i]];
    values[root].wanted = graph->values[root].kind == BRAID_VALUE_RESULT && !plan->device_io;
  }
  placing->problem.values = values;
  placing->problem.value_count = graph->value_count;
  return BRAID_OK;
}

static bool are_peers(const braid_machine_device *a, const braid_machine_device *b) {
  return a->backend == b->backend && a->backend->peer && a->backend->peer(b->self, a->self);
}

static const braid_machine_device *device_of_space(const braid_plan *plan, int space) {
  for (size_t d = 0; d < plan->device_count; d++)
    if (plan->devices[d].space == space) return &plan->devices[d];
  return NULL;
}

/* A device has one queue for what comes and one for what goes (instance.c, steps.c); what no peer fetches goes by way
 * of the host. */
static braid_status describe_devices(braid_placing *placing) {
  const braid_plan *plan = placing->plan;
  size_t spaces = (size_t)plan->space_count;
  braid_problem_device *devices = braid_arena_alloc(placing->arena, plan->device_count * sizeof *devices);
  braid_problem_link *links = braid_arena_alloc(placing->arena, spaces * spaces * sizeof *links);
  braid_problem_space *buses = braid_arena_alloc(placing->arena, spaces * sizeof *buses);
  if (!devices || !links || !buses) return BRAID_NO_MEMORY;
  for (size_t d = 0; d < plan->device_count; d++)
    devices[d] = (braid_problem_device){.name = plan->devices[d].label, .space = plan->devices[d].space};
  for (int from = 0; from < plan->space_count; from++) {
    bool host = from == kHostSpace;
    buses[from] =
        (braid_problem_space){.kind = from, .out_bus = host ? -1 : 2 * from, .in_bus = host ? -1 : 2 * from + 1};
    for (int to = 0; to < plan->space_count; to++) {
      if (from == to) continue;
      bool hops =
          from != kHostSpace && to != kHostSpace && !are_peers(device_of_space(plan, from), device_of_space(plan, to));
      links[(size_t)from * spaces + (size_t)to] = (braid_problem_link){.seconds = kLinkSeconds * (hops ? 2 : 1),
                                                                       .bytes_per_second = kLinkBytes / (hops ? 2 : 1)};
    }
  }
  placing->problem.devices = devices;
  placing->problem.device_count = plan->device_count;
  placing->problem.links = links;
  placing->problem.spaces = buses;
  placing->problem.space_count = placing->problem.kind_count = plan->space_count;
  placing->problem.bus_count = 2 * plan->space_count;
  return BRAID_OK;
}

braid_status braid_placing_describe(braid_placing *placing) {
  BRAID_TRY(describe_nodes(placing));
  BRAID_TRY(describe_values(placing));
  return describe_devices(placing);
}
