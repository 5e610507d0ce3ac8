/* What the devices offer: every kernel that takes a node or a fused node. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "base/vector.h"
#include "graph/custom.h"
#include "runtime/plan/placing.h"
#include "tensor/deferred.h"

enum { kWhyBytes = 1024 };
static const double kTaskSeconds = 5e-6; /* of a task, whatever it does */

/* One question: a device and a node or a fused one. */
typedef struct question {
  braid_placing *placing;
  size_t subject;
  int device;
  const braid_fusion *fusion; /* NULL: a node alone */
  const braid_claim *claim;   /* NULL: no region */
  braid_node_desc *desc;
  const int32_t *nodes;
  size_t node_count;
  double modelled; /* seconds */
  uint32_t rank;   /* of the next kernel that takes it */
  bool taken;      /* by a kernel */
  char passed[kWhyBytes];
  size_t used;
  braid_status status;
} question;

static braid_operand operand_of(const braid_plan *plan, braid_value_id id) {
  if (id < 0) return (braid_operand){0};
  const braid_value *value = &plan->graph->values[id];
  bool constant = braid_plan_is_constant(plan, id);
  return (braid_operand){true, value->desc, constant ? braid_tensor_preview(value->tensor) : NULL};
}

static braid_status add_offer(question *q, const braid_kernel *kernel) {
  braid_placing *p = q->placing;
  const braid_allocator *allocator = p->plan->allocator;
  size_t count = p->problem.offer_count;
  braid_offer *offers = braid_grow(allocator, p->offers, count, &p->offer_capacity, sizeof *offers);
  if (!offers) return BRAID_NO_MEMORY;
  p->offers = offers;
  p->problem.offers = offers;
  braid_candidate *candidates = braid_grow(allocator, p->candidates, count, &p->candidate_capacity, sizeof *candidates);
  if (!candidates) return BRAID_NO_MEMORY;
  p->candidates = candidates;
  braid_times *times = &p->plan->machine->times;
  bool modelled = p->plan->devices[q->device].info->modelled; /* so are the times that it tells */
  braid_number_source source = modelled ? BRAID_MODELLED : BRAID_MEASURED;
  double measured = -1;
  if (braid_times_filled(times))
    measured = braid_times_find(times, q->claim ? q->claim->time_key : braid_time_key(q->device, kernel, q->desc));
  candidates[count] = (braid_candidate){kernel, q->fusion, q->claim};
  offers[count] = (braid_offer){.device = q->device,
                                .rank = q->rank++,
                                .region = q->claim != NULL,
                                .nodes = q->nodes,
                                .node_count = q->node_count,
                                .seconds = measured >= 0 ? (braid_number){measured, source}
                                                         : (braid_number){q->modelled, BRAID_MODELLED}};
  p->problem.offer_count++;
  q->taken = true;
  return BRAID_OK;
}

static braid_status add_refusal(question *q, const char *kernel, const char *why) {
  braid_placing *p = q->placing;
  if (!p->options->explain) return BRAID_OK;
  braid_refusal *refusals =
      braid_grow(p->plan->allocator, p->refusals, p->refusal_count, &p->refusal_capacity, sizeof *refusals);
  if (!refusals) return BRAID_NO_MEMORY;
  p->refusals = refusals;
  const char *text = braid_arena_text(p->plan->arena, why, strlen(why));
  if (!text) return BRAID_NO_MEMORY;
  refusals[p->refusal_count++] = (braid_refusal){q->subject, q->device, kernel, text};
  return BRAID_OK;
}

/* "kernel: reason; kernel: reason", of those passed over before the first that takes the node. */
static void pass_over(question *q, const char *kernel, const char *why) {
  if (q->taken || q->used >= kWhyBytes / 2) return;
  int wrote = snprintf(q->passed + q->used, kWhyBytes / 2 - q->used, "%s%s%s%s", q->used ? "; " : "", kernel,
                       *kernel ? ": " : "", why);
  if (wrote > 0) q->used += (size_t)wrote;
}

static void hear_kernel(void *context, const braid_kernel *kernel, const char *why) {
  question *q = context;
  if (q->status != BRAID_OK) return;
  if (why && !*why) why = "does not take this node";
  if (why) pass_over(q, kernel->name, why);
  q->status = why ? add_refusal(q, kernel->name, why) : add_offer(q, kernel);
}

/* The kernel that the user brought for a node of the set on this device, which a fused one must not take away; NULL. */
static const braid_kernel *find_brought(const question *q, int32_t *node) {
  const braid_placing *p = q->placing;
  const braid_machine_device *device = &p->plan->devices[q->device];
  if (!q->fusion || !device->backend->brought) return NULL;
  for (size_t k = 0; k < q->node_count; k++) {
    *node = q->nodes[k];
    int32_t first = p->first_offer[(size_t)*node * p->plan->device_count + (size_t)q->device];
    if (first >= 0 && device->backend->brought(device->self, p->candidates[first].kernel))
      return p->candidates[first].kernel;
  }
  return NULL;
}

/* A set is nested in or disjoint from every region of this device, or it is no offer. */
static bool crosses_region(const question *q) {
  const braid_placing *p = q->placing;
  if (!p->claims.of_node || q->node_count == 1) return false;
  const int32_t *owners = p->claims.of_node + (size_t)q->device * p->problem.node_count;
  return braid_claims_crossed(&p->claims, owners, q->nodes, q->node_count) >= 0;
}

/* The same nodes are a region of this device: what it claims stands before its kernels. */
static bool is_region(const question *q) {
  const braid_placing *p = q->placing;
  if (!p->claims.of_node || crosses_region(q)) return false;
  int32_t claim = p->claims.of_node[(size_t)q->device * p->problem.node_count + (size_t)q->nodes[0]];
  return claim && p->claims.items[claim - 1].node_count == q->node_count;
}

/* Why a device without a kernel for the op does not run the node, or not alone. */
static void say_without_kernel(const question *q, char *why, size_t bytes) {
  const braid_placing *p = q->placing;
  const braid_machine_device *device = &p->plan->devices[q->device];
  size_t cell = (size_t)q->device * p->problem.node_count + (size_t)q->nodes[0];
  bool claims = p->claims.of_node && !q->fusion;
  if (claims && p->claims.refused[cell])
    snprintf(why, bytes, "%s", p->claims.refused[cell]);
  else if (claims && p->claims.of_node[cell])
    snprintf(why, bytes, "%s runs it only within a region of several nodes", device->info->name);
  else
    snprintf(why, bytes, "%s has no kernel for %s", device->info->name, q->desc->op);
}

static braid_status ask_device(question *q) {
  braid_placing *p = q->placing;
  size_t cell = q->subject * p->plan->device_count + (size_t)q->device;
  size_t before = p->problem.offer_count;
  int32_t node;
  const braid_kernel *brought = find_brought(q, &node);
  char why[256];
  q->rank = is_region(q);
  if (brought) {
    snprintf(why, sizeof why, "%.80s has %.80s, which was brought for %s", p->nodes[node].name, brought->name,
             brought->op);
  } else if (crosses_region(q)) {
    snprintf(why, sizeof why, "parts of it belong to a region that has other nodes too");
  } else if (!braid_machine_visit_kernels(p->plan->machine, q->device, q->desc, hear_kernel, q)) {
    say_without_kernel(q, why, sizeof why);
  } else {
    why[0] = '\0';
  }
  if (why[0]) {
    pass_over(q, "", why);
    if (q->status == BRAID_OK) q->status = add_refusal(q, "", why);
  }
  BRAID_TRY(q->status);
  if (!q->fusion && p->problem.offer_count > before) p->first_offer[cell] = (int32_t)before;
  if (!q->used) return BRAID_OK;
  p->passed[cell] = braid_arena_text(p->arena, q->passed, strlen(q->passed));
  return p->passed[cell] ? BRAID_OK : BRAID_NO_MEMORY;
}

/* The device that the caller has fixed for the nodes; -1: none, -2: they are to be apart. */
static int fixed_device(const braid_placing *p, const int32_t *nodes, size_t count) {
  int fixed = -1;
  for (size_t i = 0; i < count; i++) {
    int other = p->nodes[nodes[i]].fixed;
    if (other >= 0 && fixed >= 0 && other != fixed) return -2;
    if (other >= 0) fixed = other;
  }
  return fixed;
}

static braid_status ask_devices(braid_placing *p, size_t subject, const braid_fusion *fusion, braid_node_desc *desc,
                                double bytes) {
  const int32_t *nodes = fusion ? fusion->nodes : &p->ids[subject];
  size_t count = fusion ? fusion->node_count : 1;
  double macs = 0;
  for (size_t i = 0; i < count; i++) macs += p->macs[nodes[i]];
  int fixed = fixed_device(p, nodes, count);
  for (size_t d = 0; d < p->plan->device_count; d++) {
    if (fixed != -1 && fixed != (int)d) continue;
    question q = {.placing = p,
                  .subject = subject,
                  .device = (int)d,
                  .fusion = fusion,
                  .desc = desc,
                  .nodes = nodes,
                  .node_count = count};
    q.modelled = kTaskSeconds + braid_modelled_seconds(p->plan->devices[d].info->compute_units, macs, bytes);
    BRAID_TRY(ask_device(&q));
  }
  return BRAID_OK;
}

/* --- subjects ------------------------------------------------------------------------------------------------------
 */
static double fill_operands(const braid_plan *plan, const braid_value_id *ids, size_t count, braid_operand *operands) {
  double bytes = 0;
  for (size_t i = 0; i < count; i++) {
    operands[i] = operand_of(plan, ids[i]);
    if (ids[i] >= 0) bytes += (double)braid_desc_bytes(&operands[i].desc);
  }
  return bytes;
}

static braid_status ask_about(braid_placing *p, size_t subject, const braid_fusion *fusion, braid_operand *operands) {
  const braid_plan *plan = p->plan;
  const braid_node *node = &plan->graph->nodes[fusion ? (size_t)fusion->nodes[fusion->node_count - 1] : subject];
  const braid_value_id *inputs = fusion ? fusion->inputs : node->inputs;
  size_t input_count = fusion ? fusion->input_count : node->input_count;
  bool more = fusion && fusion->output_count;
  const braid_value_id *outputs = more ? fusion->outputs : node->outputs;
  size_t output_count = more ? fusion->output_count : node->output_count;
  double bytes = fill_operands(plan, inputs, input_count, operands);
  bytes += fill_operands(plan, outputs, output_count, operands + input_count);
  braid_node_desc desc = {.op = fusion ? fusion->op : node->op->name,
                          .name = node->name,
                          .custom = fusion ? NULL : braid_custom_op_of(node->op),
                          .attrs = fusion ? &fusion->attrs : &node->attrs,
                          .input_count = input_count,
                          .output_count = output_count,
                          .inputs = operands,
                          .outputs = operands + input_count,
                          .training = plan->training};
  return ask_devices(p, subject, fusion, &desc, bytes);
}

/* --- regions -------------------------------------------------------------------------------------------------------
 */
/* What crosses the border of a region, in bytes; what is read inside of it alone costs nothing. `inside` counts per
 * value how often members read it, and is all zero before and after. */
static double border_bytes(const braid_placing *p, const braid_claim *claim, const int32_t *uses, int32_t *inside) {
  const braid_graph *graph = p->plan->graph;
  double bytes = 0;
  for (size_t k = 0; k < claim->node_count; k++) {
    const braid_node *node = &graph->nodes[claim->nodes[k]];
    for (size_t i = 0; i < node->input_count; i++) {
      braid_value_id id = node->inputs[i];
      if (id < 0 || inside[id]++) continue;
      bytes += (double)braid_desc_bytes(&graph->values[id].desc);
    }
  }
  for (size_t k = 0; k < claim->node_count; k++) {
    const braid_node *node = &graph->nodes[claim->nodes[k]];
    for (size_t i = 0; i < node->output_count; i++) {
      braid_value_id id = node->outputs[i];
      if (id < 0) continue;
      double size = (double)braid_desc_bytes(&graph->values[id].desc);
      bytes += uses[id] > inside[id] ? size : 0;
      bytes -= inside[id] ? size : 0; /* it was counted as read from outside */
    }
  }
  for (size_t k = 0; k < claim->node_count; k++) {
    const braid_node *node = &graph->nodes[claim->nodes[k]];
    for (size_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] >= 0) inside[node->inputs[i]] = 0;
  }
  return bytes;
}

static braid_status offer_regions(braid_placing *p) {
  const braid_graph *graph = p->plan->graph;
  if (!p->claims.count) return BRAID_OK;
  int32_t *uses = braid_arena_alloc(p->arena, (graph->value_count + 1) * sizeof *uses);
  int32_t *inside = braid_arena_alloc(p->arena, (graph->value_count + 1) * sizeof *inside);
  if (!uses || !inside) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_graph_count_uses(graph, uses));
  for (size_t i = 0; i < p->claims.count; i++) {
    const braid_claim *claim = &p->claims.items[i];
    double macs = 0, bytes = border_bytes(p, claim, uses, inside);
    for (size_t k = 0; k < claim->node_count; k++) macs += p->macs[claim->nodes[k]];
    question q = {.placing = p, .device = claim->device, .claim = claim, .rank = claim->rank};
    q.nodes = claim->nodes;
    q.node_count = claim->node_count;
    uint32_t units = p->plan->devices[claim->device].info->compute_units;
    q.modelled = claim->seconds >= 0 ? claim->seconds : kTaskSeconds + braid_modelled_seconds(units, macs, bytes);
    BRAID_TRY(add_offer(&q, claim->kernel));
  }
  return BRAID_OK;
}

static bool has_cpu(const braid_plan *plan) {
  for (size_t d = 0; d < plan->device_count; d++)
    if (strcmp(plan->devices[d].info->kind, "cpu") == 0) return true;
  return false;
}

/* Every node needs an offer, its own or one that has it among others. */
static braid_status check_covered(const braid_placing *p) {
  const braid_graph *graph = p->plan->graph;
  size_t devices = p->plan->device_count;
  bool *covered = braid_arena_alloc(p->arena, graph->node_count + 1);
  if (!covered) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < p->problem.offer_count; i++)
    for (size_t k = 0; k < p->offers[i].node_count; k++) covered[p->offers[i].nodes[k]] = true;
  for (size_t n = 0; n < graph->node_count; n++) {
    if (covered[n] || p->nodes[n].idle) continue;
    char why[kWhyBytes];
    braid_placing_passed(p, n, devices, why, sizeof why);
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s): no device can run it: %.600s%s", graph->nodes[n].name,
                      graph->nodes[n].op->name, why, has_cpu(p->plan) ? "" : "; the CPU is not among the devices");
  }
  return BRAID_OK;
}

void braid_placing_passed(const braid_placing *placing, size_t subject, size_t devices, char *out, size_t bytes) {
  const braid_plan *plan = placing->plan;
  size_t used = 0;
  out[0] = '\0';
  for (size_t d = 0; d < devices && used < bytes; d++) {
    const char *passed = placing->passed[subject * plan->device_count + d];
    if (!passed) continue;
    bool several = plan->device_count > 1;
    int wrote = snprintf(out + used, bytes - used, "%s%s%s%s", used ? "; " : "", several ? plan->devices[d].label : "",
                         several ? ": " : "", passed);
    if (wrote > 0) used += (size_t)wrote;
  }
}

static size_t most_operands(const braid_graph *graph) {
  size_t most = BRAID_FUSION_INPUTS;
  for (size_t n = 0; n < graph->node_count; n++) {
    size_t operands = graph->nodes[n].input_count + graph->nodes[n].output_count;
    if (operands > most) most = operands;
  }
  return most + BRAID_FUSION_INPUTS;
}

braid_status braid_placing_ask(braid_placing *placing) {
  const braid_graph *graph = placing->plan->graph;
  size_t subjects = graph->node_count + placing->fusions.count, cells, bytes;
  if (!braid_mul_size(subjects + 1, placing->plan->device_count, &cells) ||
      !braid_mul_size(cells, sizeof *placing->passed, &bytes))
    return braid_fail(BRAID_NO_MEMORY, "%zu nodes on %zu devices", subjects, placing->plan->device_count);
  placing->passed = braid_arena_alloc(placing->arena, bytes);
  placing->first_offer = braid_arena_alloc(placing->arena, cells * sizeof *placing->first_offer);
  braid_operand *operands = braid_arena_alloc(placing->arena, most_operands(graph) * sizeof *operands);
  if (!placing->passed || !placing->first_offer || !operands) return BRAID_NO_MEMORY;
  memset(placing->first_offer, -1, cells * sizeof *placing->first_offer);
  BRAID_TRY(braid_plan_claim(placing->plan, &placing->problem, placing->arena, &placing->claims));
  for (size_t n = 0; n < graph->node_count; n++)
    if (!placing->nodes[n].idle) BRAID_TRY(ask_about(placing, n, NULL, operands));
  for (size_t i = 0; i < placing->fusions.count; i++)
    BRAID_TRY(ask_about(placing, graph->node_count + i, &placing->fusions.items[i], operands));
  BRAID_TRY(offer_regions(placing));
  return check_covered(placing);
}
