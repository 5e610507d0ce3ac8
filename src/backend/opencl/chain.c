/* Chains of nodes that one entry of a manifest covers: found in a graph, claimed as regions. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "backend/opencl/staging.h"
#include "base/try.h"

/* --- who reads what ------------------------------------------------------------------------------------------------
 */
enum { kNobody = -1, kSeveral = -2 }; /* somebody outside of the graph is one more */

typedef struct chain_search {
  const braid_subgraph *graph;
  int32_t *reader; /* per value: the only node that reads it, and it reads it once */
  bool *taken;     /* per node: in a chain already */
} chain_search;

static void add_reader(chain_search *s, int32_t value, int32_t node) {
  if (value >= 0) s->reader[value] = s->reader[value] == kNobody ? node : kSeveral;
}

static void close_search(const braid_allocator *allocator, chain_search *s) {
  braid_free(allocator, s->reader);
  braid_free(allocator, s->taken);
}

static braid_status open_search(const braid_allocator *allocator, const braid_subgraph *graph, chain_search *out) {
  *out = (chain_search){.graph = graph};
  out->reader = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *out->reader);
  out->taken = braid_zalloc_array(allocator, graph->node_count + 1, sizeof *out->taken);
  if (!out->reader || !out->taken) {
    close_search(allocator, out);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < graph->value_count; i++) out->reader[i] = kNobody;
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; i < graph->nodes[n].desc->input_count; i++)
      add_reader(out, graph->nodes[n].inputs[i], (int32_t)n);
  for (size_t i = 0; i < graph->output_count; i++) add_reader(out, graph->outputs[i], kSeveral);
  return BRAID_OK;
}

/* --- finding -------------------------------------------------------------------------------------------------------
 */
/* The nodes of a chain; steps that are left out are kNobody. */
typedef struct chain {
  int32_t nodes[BRAID_CL_CHAIN];
  size_t step_count;
} chain;

static bool is_optional(const char *step) {
  return step[strlen(step) - 1] == '?';
}

static bool is_of_op(const braid_node_desc *node, const char *step) {
  size_t length = strlen(step) - is_optional(step);
  return strlen(node->op) == length && memcmp(node->op, step, length) == 0;
}

/* Only its first output is there, and only one node reads it: that node, or kNobody. */
static int32_t next_in_chain(const chain_search *s, int32_t node) {
  const braid_subgraph_node *at = &s->graph->nodes[node];
  for (size_t i = 1; i < at->desc->output_count; i++)
    if (at->outputs[i] >= 0) return kNobody;
  int32_t value = at->desc->output_count ? at->outputs[0] : -1;
  return value >= 0 && s->reader[value] >= 0 ? s->reader[value] : kNobody;
}

/* The longest chain from a node on of the first `limit` steps; the steps behind these are left out. */
static bool find_chain(const chain_search *s, const braid_cl_entry *entry, int32_t first, size_t limit, chain *out) {
  int32_t last = first;
  out->step_count = entry->chain_count;
  out->nodes[0] = first;
  if (s->taken[first] || !is_of_op(s->graph->nodes[first].desc, entry->chain[0])) return false;
  for (size_t k = 1; k < entry->chain_count; k++) {
    int32_t next = k < limit ? next_in_chain(s, last) : kNobody;
    bool there = next >= 0 && !s->taken[next] && is_of_op(s->graph->nodes[next].desc, entry->chain[k]);
    out->nodes[k] = there ? next : kNobody;
    if (there) last = next;
    if (!there && !is_optional(entry->chain[k])) return false;
  }
  return true;
}

/* --- subjects ------------------------------------------------------------------------------------------------------
 */
/* What stands for a region that is not there yet: its inputs in the order of the nodes that read them. */
typedef struct planned_region {
  braid_node_desc desc;
  braid_operand inputs[BRAID_CL_CHAIN * BRAID_CL_OPERANDS];
} planned_region;

static bool is_inside(const chain_search *s, const chain *c, int32_t value) {
  for (size_t k = 0; k < c->step_count; k++)
    if (c->nodes[k] >= 0 && s->graph->nodes[c->nodes[k]].outputs[0] == value) return true;
  return false;
}

static int32_t last_of(const chain *c) {
  size_t k = c->step_count;
  while (c->nodes[k - 1] < 0) k--;
  return c->nodes[k - 1];
}

static void describe_chain(const chain_search *s, const braid_cl_entry *entry, const chain *c, braid_cl_subject *out) {
  *out = (braid_cl_subject){.entry = entry, .node_count = c->step_count};
  memset(out->inputs, -1, sizeof out->inputs);
  for (size_t k = 0; k < c->step_count; k++)
    if (c->nodes[k] >= 0) out->nodes[k] = s->graph->nodes[c->nodes[k]].desc;
}

static void plan_region(const chain_search *s, const chain *c, planned_region *region, braid_cl_subject *subject) {
  const braid_node_desc *last = s->graph->nodes[last_of(c)].desc;
  region->desc = (braid_node_desc){.op = BRAID_REGION_OP,
                                   .name = last->name,
                                   .attrs = last->attrs,
                                   .inputs = region->inputs,
                                   .outputs = last->outputs,
                                   .output_count = 1};
  for (size_t k = 0; k < c->step_count; k++) {
    if (c->nodes[k] < 0) continue;
    const braid_subgraph_node *node = &s->graph->nodes[c->nodes[k]];
    for (size_t i = 0; i < node->desc->input_count && i < BRAID_CL_OPERANDS; i++) {
      if (node->inputs[i] < 0 || is_inside(s, c, node->inputs[i])) continue;
      subject->inputs[k][i] = (int32_t)region->desc.input_count;
      region->inputs[region->desc.input_count++] = node->desc->inputs[i];
    }
  }
  subject->whole = &region->desc;
}

/* --- claiming ------------------------------------------------------------------------------------------------------
 */
typedef struct claimer {
  const braid_cl_device *device;
  chain_search search;
  braid_region_claim claim;
  void *context;
  const braid_kernel *kernel;
  const braid_cl_entry *entry;
  planned_region region;
  braid_cl_subject subject;
} claimer;

static braid_status claim_chain(claimer *c, const chain *found) {
  uint32_t nodes[BRAID_CL_CHAIN];
  size_t count = 0;
  for (size_t k = 0; k < found->step_count; k++) {
    if (found->nodes[k] < 0) continue;
    nodes[count++] = (uint32_t)found->nodes[k];
    c->search.taken[found->nodes[k]] = true;
  }
  return c->claim(c->context, c->kernel, nodes, count);
}

/* The longest chain from the node on that the entry takes. */
static braid_status claim_from(claimer *c, int32_t first) {
  char why[256];
  for (size_t limit = c->entry->chain_count; limit > 0; limit--) {
    chain found;
    if (!find_chain(&c->search, c->entry, first, limit, &found)) return BRAID_OK;
    if (limit < c->entry->chain_count && !c->subject.nodes[limit]) continue; /* the same as before */
    describe_chain(&c->search, c->entry, &found, &c->subject);
    c->region.desc.input_count = 0;
    plan_region(&c->search, &found, &c->region, &c->subject);
    if (braid_cl_subject_fits(&c->subject, c->device, why, sizeof why)) return claim_chain(c, &found);
    braid_log_write(c->device->log, BRAID_LOG_INFO, "%s: the chain from node %.120s to %.120s is not taken: %s",
                    c->entry->name, c->subject.nodes[0]->name, c->region.desc.name, why);
  }
  return BRAID_OK;
}

braid_status braid_cl_claim_chains(void *self, const braid_subgraph *graph, braid_region_claim claim, void *context) {
  const braid_cl_device *device = self;
  size_t index = 0;
  if (!device->manifest) return BRAID_OK;
  claimer *c = braid_zalloc(device->allocator, sizeof *c);
  if (!c) return BRAID_NO_MEMORY;
  *c = (claimer){.device = device, .claim = claim, .context = context};
  braid_status status = open_search(device->allocator, graph, &c->search);
  while (status == BRAID_OK && (c->kernel = braid_cl_manifest_chain(device->manifest, &index))) {
    c->entry = ((const braid_launch_kernel *)c->kernel->implementation)->foreign;
    for (size_t n = 0; n < graph->node_count && status == BRAID_OK; n++) status = claim_from(c, (int32_t)n);
  }
  close_search(device->allocator, &c->search);
  braid_free(device->allocator, c);
  return status;
}

/* --- regions -------------------------------------------------------------------------------------------------------
 */
static void find_inputs(const chain_search *s, const chain *c, braid_cl_subject *subject) {
  const braid_subgraph *graph = s->graph;
  for (size_t k = 0; k < c->step_count; k++) {
    if (c->nodes[k] < 0) continue;
    const braid_subgraph_node *node = &graph->nodes[c->nodes[k]];
    for (size_t i = 0; i < node->desc->input_count && i < BRAID_CL_OPERANDS; i++)
      for (size_t j = 0; node->inputs[i] >= 0 && j < graph->input_count; j++)
        if (graph->inputs[j] == node->inputs[i]) subject->inputs[k][i] = (int32_t)j;
  }
}

braid_status braid_cl_subject_of_region(const braid_cl_entry *entry, const braid_node_desc *node,
                                        braid_cl_subject *out) {
  chain_search search;
  chain found;
  BRAID_TRY(open_search(NULL, node->region, &search));
  size_t count = 0;
  bool whole = find_chain(&search, entry, 0, entry->chain_count, &found);
  for (size_t k = 0; whole && k < found.step_count; k++) count += found.nodes[k] >= 0;
  if (whole && count == node->region->node_count) {
    describe_chain(&search, entry, &found, out);
    find_inputs(&search, &found, out);
    out->whole = node;
  } else {
    whole = false;
  }
  close_search(NULL, &search);
  return whole ? BRAID_OK : braid_fail(BRAID_INTERNAL, "region %.120s is no chain of %s", node->name, entry->name);
}

braid_status braid_cl_query_chain(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                  size_t *workspace_bytes, braid_packing *packings, size_t *packing_count) {
  const braid_cl_device *device = self;
  const braid_launch_kernel *own = kernel->implementation;
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_cl_packed packed = {.count = 0};
  braid_status status = braid_cl_entry_plan(own->foreign, &device->traits, node, &recipe, &packed);
  *workspace_bytes = recipe.workspace_bytes;
  *packing_count = status == BRAID_OK ? braid_cl_list_packings(&packed, packings) : 0;
  braid_launch_recipe_deinit(&recipe);
  return status;
}
