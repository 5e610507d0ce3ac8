#include "runtime/plan/regions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/custom.h"
#include "tensor/deferred.h"

/* --- the graph as backends see it ----------------------------------------------------------------------------------
 */
static braid_operand operand_of(const braid_plan *plan, braid_value_id id, bool preview) {
  if (id < 0) return (braid_operand){0};
  const braid_value *value = &plan->graph->values[id];
  const void *data = NULL;
  if (braid_plan_is_constant(plan, id))
    data = preview ? braid_tensor_preview(value->tensor) : braid_tensor_address(value->tensor);
  return (braid_operand){true, value->desc, data};
}

/* Describes a node; `numbers` gives the values' numbers in the view, NULL: their own. */
static braid_status view_node(const braid_plan *plan, braid_arena *arena, const braid_node *node,
                              const braid_attrs *attrs, const int32_t *numbers, bool preview,
                              braid_subgraph_node *out) {
  size_t inputs = node->input_count, count = inputs + node->output_count;
  braid_operand *operands = braid_arena_alloc(arena, (count + 1) * sizeof *operands);
  int32_t *values = braid_arena_alloc(arena, (count + 1) * sizeof *values);
  braid_node_desc *desc = braid_arena_alloc(arena, sizeof *desc);
  if (!operands || !values || !desc) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    braid_value_id id = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    operands[i] = operand_of(plan, id, preview);
    values[i] = id < 0 || !numbers ? id : numbers[id];
  }
  *desc = (braid_node_desc){.op = node->op->name,
                            .name = node->name,
                            .custom = braid_custom_op_of(node->op),
                            .attrs = attrs,
                            .input_count = inputs,
                            .output_count = node->output_count,
                            .inputs = operands,
                            .outputs = operands + inputs,
                            .training = plan->training};
  *out = (braid_subgraph_node){desc, values, values + inputs};
  return BRAID_OK;
}

static braid_status view_graph(const braid_plan *plan, braid_arena *arena, braid_subgraph *out) {
  const braid_graph *graph = plan->graph;
  braid_subgraph_node *nodes = braid_arena_alloc(arena, (graph->node_count + 1) * sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < graph->node_count; n++)
    BRAID_TRY(view_node(plan, arena, &graph->nodes[n], &graph->nodes[n].attrs, NULL, true, &nodes[n]));
  *out = (braid_subgraph){.nodes = nodes,
                          .node_count = graph->node_count,
                          .value_count = graph->value_count,
                          .inputs = graph->inputs,
                          .outputs = graph->outputs,
                          .input_count = graph->input_count,
                          .output_count = graph->output_count};
  return BRAID_OK;
}

/* --- claims --------------------------------------------------------------------------------------------------------
 */
typedef struct claiming {
  braid_plan *plan;
  const braid_problem *problem;
  braid_arena *arena;
  braid_claim_list *list;
  const braid_subgraph *view;
  int device;
  bool *in_set, *taint; /* per node */
  int32_t *numbers;     /* per value */
  braid_status status;  /* of the first claim that is broken, whatever the backend makes of it */
} claiming;

static int by_number(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
  return (a > b) - (a < b);
}

static braid_status broken(const claiming *c, const braid_kernel *kernel, const char *what, int32_t node) {
  return braid_fail(BRAID_INVALID_ARGUMENT, "device %s: a region for kernel %s %s%.120s",
                    c->plan->devices[c->device].label, kernel && kernel->name ? kernel->name : "(none)", what,
                    node >= 0 ? c->plan->graph->nodes[node].name : "");
}

/* Copies the numbers of what runs, in order. */
static braid_status read_claim(claiming *c, const uint32_t *nodes, size_t count, braid_claim *claim) {
  claim->nodes = braid_arena_alloc(c->arena, (count + 1) * sizeof *claim->nodes);
  if (!claim->nodes) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    if (nodes[i] >= c->problem->node_count) return broken(c, claim->kernel, "has a node that the graph has not", -1);
    if (!c->problem->nodes[nodes[i]].idle) claim->nodes[claim->node_count++] = (int32_t)nodes[i];
  }
  if (!claim->node_count) return broken(c, claim->kernel, "has no node that runs", -1);
  qsort(claim->nodes, claim->node_count, sizeof *claim->nodes, by_number);
  return BRAID_OK;
}

/* Counts what the set has of each claim, or takes that back. The claims of a node, from the smallest on, hold each
 * other. */
static void count_shared(const braid_claim_list *claims, const int32_t *owners, const int32_t *nodes, size_t count,
                         bool back) {
  for (size_t i = 0; i < count; i++)
    for (int32_t at = owners[nodes[i]] - 1; at >= 0; at = claims->items[at].outer) {
      braid_claim *claim = &claims->items[at];
      claim->shared = back ? 0 : claim->shared + 1;
    }
}

int32_t braid_claims_crossed(const braid_claim_list *claims, const int32_t *owners, const int32_t *nodes,
                             size_t count) {
  int32_t crossed = -1;
  count_shared(claims, owners, nodes, count, false);
  for (size_t i = 0; i < count && crossed < 0; i++)
    for (int32_t at = owners[nodes[i]] - 1; at >= 0; at = claims->items[at].outer) {
      const braid_claim *claim = &claims->items[at];
      if (claim->shared != count && claim->shared != claim->node_count) crossed = nodes[i];
    }
  count_shared(claims, owners, nodes, count, true);
  return crossed;
}

/* Among the device's claims so far, which it crosses not: those that hold it, and those that it holds. */
static void nest_claim(claiming *c, int32_t number) {
  braid_claim_list *list = c->list;
  braid_claim *claim = &list->items[number];
  int32_t *owners = list->of_node + (size_t)c->device * c->problem->node_count;
  count_shared(list, owners, claim->nodes, claim->node_count, false);
  for (int32_t at = owners[claim->nodes[0]] - 1; at >= 0 && claim->outer < 0; at = list->items[at].outer)
    if (list->items[at].shared == claim->node_count) claim->outer = at;
  for (int32_t at = claim->outer; at >= 0; at = list->items[at].outer)
    claim->rank += list->items[at].node_count == claim->node_count;
  for (size_t i = 0; i < claim->node_count; i++) {
    int32_t *at = &owners[claim->nodes[i]], inner = *at - 1;
    if (inner == claim->outer) *at = number + 1;
    if (inner == claim->outer) continue;
    while (list->items[inner].outer != claim->outer && list->items[inner].outer != number)
      inner = list->items[inner].outer;
    list->items[inner].outer = number;
  }
  count_shared(list, owners, claim->nodes, claim->node_count, true);
}

static braid_status check_claim(claiming *c, const braid_claim *claim) {
  const int32_t *owners = c->list->of_node + (size_t)c->device * c->problem->node_count;
  for (size_t i = 0; i < claim->node_count; i++) {
    int32_t node = claim->nodes[i];
    if (i && node == claim->nodes[i - 1]) return broken(c, claim->kernel, "has a node twice: ", node);
  }
  int32_t outside, crossed = braid_claims_crossed(c->list, owners, claim->nodes, claim->node_count);
  if (crossed >= 0) return broken(c, claim->kernel, "has a part of the nodes of another region: ", crossed);
  for (size_t i = 0; i < claim->node_count; i++) c->in_set[claim->nodes[i]] = true;
  bool convex = braid_problem_is_convex(c->problem, claim->nodes, claim->node_count, c->in_set, c->taint, &outside);
  for (size_t i = 0; i < claim->node_count; i++) c->in_set[claim->nodes[i]] = false;
  return convex ? BRAID_OK
                : broken(c, claim->kernel, "is not convex, between its nodes is one that it has not: ", outside);
}

static double region_seconds(const claiming *c) {
  const braid_machine_device *device = &c->plan->devices[c->device];
  double seconds = device->backend->region_seconds ? device->backend->region_seconds(device->self) : -1;
  return isfinite(seconds) ? seconds : -1;
}

static braid_status add_claim(claiming *c, const braid_kernel *kernel, const uint32_t *nodes, size_t count) {
  braid_claim claim = {.device = c->device, .kernel = kernel, .outer = -1, .seconds = region_seconds(c)};
  if (!kernel || !kernel->op || !kernel->name || strcmp(kernel->op, BRAID_REGION_OP) != 0)
    return broken(c, kernel, "names none for the op " BRAID_REGION_OP, -1);
  BRAID_TRY(read_claim(c, nodes, count, &claim));
  BRAID_TRY(check_claim(c, &claim));
  braid_claim *items =
      braid_grow(c->plan->allocator, c->list->items, c->list->count, &c->list->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  c->list->items = items;
  claim.time_key =
      braid_time_region_key(c->device, kernel, c->view, claim.nodes, claim.node_count, c->plan->roots, c->numbers);
  items[c->list->count++] = claim;
  nest_claim(c, (int32_t)c->list->count - 1);
  return BRAID_OK;
}

static braid_status hear_claim(void *context, const braid_kernel *kernel, const uint32_t *nodes, size_t count) {
  claiming *c = context;
  if (c->status == BRAID_OK) c->status = add_claim(c, kernel, nodes, count);
  return c->status;
}

static void hear_refusal(void *context, uint32_t node, const char *why) {
  claiming *c = context;
  if (node >= c->problem->node_count || !why) return;
  const char *text = braid_arena_text(c->arena, why, strlen(why));
  if (!text) c->status = BRAID_NO_MEMORY;
  c->list->refused[(size_t)c->device * c->problem->node_count + node] = text;
}

/* The caller's placement, as this device sees it. */
static void show_placement(const claiming *c) {
  for (size_t n = 0; n < c->view->node_count; n++) {
    int fixed = c->problem->nodes[n].fixed;
    braid_node_desc *desc = (braid_node_desc *)(uintptr_t)c->view->nodes[n].desc; /* of view_graph */
    desc->placed = fixed < 0 ? 0 : fixed == c->device ? 1 : -1;
  }
}

static braid_status ask_claims(claiming *c) {
  const braid_machine_device *device = &c->plan->devices[c->device];
  show_placement(c);
  pthread_mutex_lock(&c->plan->machine->lock);
  braid_status status = device->backend->claim_regions(device->self, c->view, hear_claim, c);
  if (status == BRAID_OK && device->backend->explain_regions)
    device->backend->explain_regions(device->self, hear_refusal, c);
  pthread_mutex_unlock(&c->plan->machine->lock);
  if (c->status != BRAID_OK) return c->status;
  return status == BRAID_OK ? BRAID_OK : braid_fail_prefix(status, "device %s, claiming regions", device->label);
}

braid_status braid_plan_claim(braid_plan *plan, const braid_problem *problem, braid_arena *arena,
                              braid_claim_list *out) {
  claiming c = {.plan = plan, .problem = problem, .arena = arena, .list = out};
  braid_subgraph view;
  bool any = false;
  *out = (braid_claim_list){0};
  for (size_t d = 0; d < plan->device_count; d++) any |= plan->devices[d].backend->claim_regions != NULL;
  if (!any) return BRAID_OK;
  BRAID_TRY(view_graph(plan, arena, &view));
  c.in_set = braid_arena_alloc(arena, problem->node_count + 1);
  c.taint = braid_arena_alloc(arena, problem->node_count + 1);
  out->of_node = braid_arena_alloc(arena, (problem->node_count + 1) * plan->device_count * sizeof *out->of_node);
  out->refused = braid_arena_alloc(arena, (problem->node_count + 1) * plan->device_count * sizeof *out->refused);
  c.numbers = braid_arena_alloc(arena, (view.value_count + 1) * sizeof *c.numbers);
  c.view = &view;
  if (!c.in_set || !c.taint || !c.numbers || !out->of_node || !out->refused) return BRAID_NO_MEMORY;
  for (size_t d = 0; d < plan->device_count; d++) {
    c.device = (int)d;
    if (plan->devices[d].backend->claim_regions) BRAID_TRY(ask_claims(&c));
  }
  return BRAID_OK;
}

/* --- chosen regions ------------------------------------------------------------------------------------------------
 */
/* For all regions of a plan, one after the other; marks are taken back after each. */
typedef struct maker {
  braid_plan *plan;
  int32_t *uses, *inside; /* per value: how often it is read, and by members */
  int32_t *numbers;       /* per value: its number in the region; -1: none */
  bool *member;           /* per node */
  int32_t *members;       /* with what only renames memory between them; ascending */
  braid_value_id *inputs, *outputs;
  size_t member_count, value_count, input_count, output_count;
} maker;

static braid_node_id producer_of(const maker *m, braid_value_id id) {
  const braid_value *value = &m->plan->graph->values[id];
  return value->kind == BRAID_VALUE_RESULT ? value->producer : -1;
}

static void add_member(maker *m, braid_node_id node) {
  if (m->member[node]) return;
  m->member[node] = true;
  m->members[m->member_count++] = node;
}

/* Names for the same memory that stand between two members belong to the region, too. */
static void add_views(maker *m, const braid_node *node) {
  for (size_t i = 0; i < node->input_count; i++) {
    braid_value_id id = node->inputs[i];
    braid_node_id root = id < 0 ? -1 : producer_of(m, m->plan->roots[id]);
    if (root < 0 || !m->member[root]) continue;
    for (braid_node_id at = producer_of(m, id); at != root; at = producer_of(m, m->plan->graph->nodes[at].inputs[0]))
      add_member(m, at);
  }
}

static void find_members(maker *m, const braid_claim *claim) {
  for (size_t i = 0; i < claim->node_count; i++) add_member(m, claim->nodes[i]);
  for (size_t i = 0; i < claim->node_count; i++) add_views(m, &m->plan->graph->nodes[claim->nodes[i]]);
  qsort(m->members, m->member_count, sizeof *m->members, by_number);
}

/* Numbers what members read and compute, and finds what crosses the border. */
static void number_values(maker *m) {
  const braid_graph *graph = m->plan->graph;
  for (size_t k = 0; k < m->member_count; k++) {
    const braid_node *node = &graph->nodes[m->members[k]];
    for (size_t i = 0; i < node->input_count + node->output_count; i++) {
      bool input = i < node->input_count;
      braid_value_id id = input ? node->inputs[i] : node->outputs[i - node->input_count];
      if (id < 0) continue;
      m->inside[id] += input;
      if (m->numbers[id] >= 0) continue;
      m->numbers[id] = (int32_t)m->value_count++;
      if (input) m->inputs[m->input_count++] = id;
    }
  }
  for (size_t k = 0; k < m->member_count; k++) {
    const braid_node *node = &graph->nodes[m->members[k]];
    for (size_t i = 0; i < node->output_count; i++) {
      braid_value_id id = node->outputs[i];
      if (id >= 0 && m->uses[id] > m->inside[id]) m->outputs[m->output_count++] = id;
    }
  }
}

static void forget_region(maker *m) {
  const braid_graph *graph = m->plan->graph;
  for (size_t k = 0; k < m->member_count; k++) {
    const braid_node *node = &graph->nodes[m->members[k]];
    for (size_t i = 0; i < node->input_count + node->output_count; i++) {
      braid_value_id id = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
      if (id >= 0) m->numbers[id] = -1, m->inside[id] = 0;
    }
    m->member[m->members[k]] = false;
  }
  m->member_count = m->value_count = m->input_count = m->output_count = 0;
}

static braid_status fill_region(const maker *m, braid_region *region) {
  braid_arena *arena = m->plan->arena;
  braid_subgraph_node *nodes = braid_arena_alloc(arena, m->member_count * sizeof *nodes);
  int32_t *border = braid_arena_alloc(arena, (m->input_count + m->output_count + 1) * sizeof *border);
  region->attrs = braid_arena_alloc(arena, m->member_count * sizeof *region->attrs);
  if (!nodes || !border || !region->attrs) return BRAID_NO_MEMORY;
  for (size_t k = 0; k < m->member_count; k++)
    BRAID_TRY(view_node(m->plan, arena, &m->plan->graph->nodes[m->members[k]], &region->attrs[k], m->numbers, false,
                        &nodes[k]));
  for (size_t i = 0; i < m->input_count; i++) border[i] = m->numbers[m->inputs[i]];
  for (size_t i = 0; i < m->output_count; i++) border[m->input_count + i] = m->numbers[m->outputs[i]];
  region->graph = (braid_subgraph){.nodes = nodes,
                                   .node_count = m->member_count,
                                   .value_count = m->value_count,
                                   .inputs = border,
                                   .outputs = border + m->input_count,
                                   .input_count = m->input_count,
                                   .output_count = m->output_count};
  return BRAID_OK;
}

/* From here on the graph has one node for all, in the place of the claim's last. */
static braid_status replace_nodes(maker *m, braid_node_id last, braid_region *region) {
  static const braid_op kRegion = {.name = BRAID_REGION_OP, .max_inputs = -1, .max_outputs = -1};
  braid_graph *graph = m->plan->graph;
  braid_value_id *operands = braid_graph_arena_alloc(graph, (m->input_count + m->output_count + 1) * sizeof *operands);
  if (!operands) return BRAID_NO_MEMORY;
  memcpy(operands, m->inputs, m->input_count * sizeof *operands);
  memcpy(operands + m->input_count, m->outputs, m->output_count * sizeof *operands);
  size_t input_count = m->input_count, output_count = m->output_count, member_count = m->member_count;
  for (size_t k = 0; k < member_count; k++) {
    region->attrs[k] = graph->nodes[m->members[k]].attrs;
    graph->nodes[m->members[k]].attrs = (braid_attrs){0};
  }
  region->next = m->plan->regions;
  m->plan->regions = region;
  forget_region(m); /* while its nodes still say what they read */
  for (size_t k = 0; k < member_count; k++) {
    braid_node *node = &graph->nodes[m->members[k]];
    node->input_count = node->output_count = 0;
  }
  braid_node *node = &graph->nodes[last];
  *node = (braid_node){.name = node->name,
                       .op = &kRegion,
                       .input_count = input_count,
                       .output_count = output_count,
                       .inputs = operands,
                       .outputs = operands + input_count,
                       .tag = node->tag};
  for (size_t i = 0; i < output_count; i++) graph->values[node->outputs[i]].producer = last;
  return BRAID_OK;
}

static braid_status make_region(maker *m, const braid_claim *claim, const braid_region **out) {
  braid_region *region = braid_arena_alloc(m->plan->arena, sizeof *region);
  *out = region;
  if (!region) return BRAID_NO_MEMORY;
  region->allocator = m->plan->graph->allocator;
  region->time_key = claim->time_key;
  find_members(m, claim);
  number_values(m);
  BRAID_TRY(fill_region(m, region));
  return replace_nodes(m, claim->nodes[claim->node_count - 1], region);
}

braid_status braid_plan_make_regions(braid_plan *plan, const braid_claim *const *claims, size_t count,
                                     const braid_region **out) {
  const braid_graph *graph = plan->graph;
  const braid_allocator *allocator = plan->allocator;
  maker m = {.plan = plan};
  m.uses = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *m.uses);
  m.inside = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *m.inside);
  m.numbers = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *m.numbers);
  m.inputs = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *m.inputs);
  m.outputs = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *m.outputs);
  m.member = braid_zalloc_array(allocator, graph->node_count + 1, sizeof *m.member);
  m.members = braid_zalloc_array(allocator, graph->node_count + 1, sizeof *m.members);
  braid_status status = BRAID_NO_MEMORY;
  if (m.uses && m.inside && m.numbers && m.inputs && m.outputs && m.member && m.members) {
    memset(m.numbers, -1, graph->value_count * sizeof *m.numbers);
    status = braid_graph_count_uses(graph, m.uses);
  }
  for (size_t i = 0; status == BRAID_OK && i < count; i++) status = make_region(&m, claims[i], &out[i]);
  braid_free(allocator, m.uses);
  braid_free(allocator, m.inside);
  braid_free(allocator, m.numbers);
  braid_free(allocator, m.inputs);
  braid_free(allocator, m.outputs);
  braid_free(allocator, m.member);
  braid_free(allocator, m.members);
  return status;
}

void braid_plan_free_regions(braid_plan *plan) {
  for (const braid_region *region = plan->regions; region; region = region->next)
    for (size_t n = 0; n < region->graph.node_count; n++) {
      braid_attrs *attrs = &region->attrs[n];
      for (size_t i = 0; i < attrs->count; i++)
        if (attrs->items[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(attrs->items[i].tensor);
      braid_free(region->allocator, attrs->items);
    }
}
