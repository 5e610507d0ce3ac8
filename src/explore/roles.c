/* What the values of a training graph are: of each sample, or a parameter's gradient; and which node of the forward
 * graph each backward node belongs to, so that times can be given by layer. */
#include <string.h>

#include "explore/network.h"

static bool is_named(const braid_node *node, const char *op) {
  return strcmp(node->op->name, op) == 0;
}

static bool is_product(const braid_node *node) {
  return is_named(node, "Gemm") || is_named(node, "MatMul") || is_named(node, "ConvGradFilter");
}

/* The nodes are those of a training graph, whose optimizer is plain SGD. */
static bool is_update(const braid_node *node) {
  return is_named(node, "SgdUpdate");
}

/* --- uses by forward nodes ---------------------------------------------------------------------------------------- */
static size_t count_inputs(const braid_graph *graph) {
  size_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) count += graph->nodes[i].input_count;
  return count;
}

static void link_uses(braid_tile_roles *roles) {
  const braid_graph *graph = roles->graph;
  int32_t uses = 0;
  for (size_t v = 0; v < graph->value_count; v++) roles->first_use[v] = -1;
  for (size_t i = graph->node_count; i-- > 0;) { /* backwards, so that the first node comes first */
    const braid_node *node = &graph->nodes[i];
    for (size_t k = 0; k < node->input_count && !node->backward && !is_update(node); k++) {
      braid_value_id value = node->inputs[k];
      if (value < 0) continue;
      roles->user[uses] = (braid_node_id)i;
      roles->next_use[uses] = roles->first_use[value];
      roles->first_use[value] = uses++;
    }
  }
}

/* --- owners --------------------------------------------------------------------------------------------------------
 */
/* A better owner has an op whose name the backward node's begins with (MaxPool of MaxPoolGrad), the longer the better;
 * a product may be its own kind (the Gemm of a Gemm). */
static size_t kinship(const braid_node *of, const braid_node *node) {
  size_t length = strlen(of->op->name);
  return strncmp(node->op->name, of->op->name, length) == 0 ? length + 1 : 1;
}

typedef struct candidate {
  braid_node_id node;
  size_t kinship;
} candidate;

static void consider(const braid_tile_roles *roles, braid_node_id of, const braid_node *node, candidate *best) {
  size_t kin = kinship(&roles->graph->nodes[of], node);
  if (kin > best->kinship) *best = (candidate){of, kin};
}

/* Gradients are added from the last forward node to the first, so those that hold no forward value (AveragePoolGrad)
 * are found in this order: *last is the node that was found before, and nothing after it is looked at. */
static braid_node_id next_owner(const braid_graph *graph, const braid_node *node, braid_node_id *last) {
  const char *end = strstr(node->op->name, "Grad");
  size_t length = end ? (size_t)(end - node->op->name) : 0;
  for (braid_node_id i = *last; length && i-- > 0;) {
    const char *op = graph->nodes[i].op->name;
    if (graph->nodes[i].backward || strncmp(op, node->op->name, length) != 0 || op[length]) continue;
    *last = i;
    return i;
  }
  return -1;
}

/* Of a forward value: who made it or uses it. Else by the order; else whom its maker belongs to. */
static braid_node_id find_owner(const braid_tile_roles *roles, const braid_node *node, braid_node_id *last) {
  const braid_graph *graph = roles->graph;
  candidate best = {-1, 0};
  for (size_t k = 0; k < node->input_count; k++) {
    braid_value_id value = node->inputs[k];
    if (value < 0) continue;
    const braid_value *v = &graph->values[value];
    braid_node_id maker = v->kind == BRAID_VALUE_RESULT ? v->producer : -1;
    if (maker >= 0 && !graph->nodes[maker].backward) consider(roles, maker, node, &best);
    for (int32_t use = roles->first_use[value]; use >= 0; use = roles->next_use[use])
      consider(roles, roles->user[use], node, &best);
  }
  if (best.node < 0) return next_owner(graph, node, last);
  return best.node;
}

static braid_node_id owner_of_maker(const braid_tile_roles *roles, const braid_node *node) {
  for (size_t k = 0; k < node->input_count; k++) {
    braid_value_id value = node->inputs[k];
    if (value < 0 || roles->graph->values[value].kind != BRAID_VALUE_RESULT) continue;
    braid_node_id owner = roles->owner[roles->graph->values[value].producer];
    if (owner >= 0) return owner;
  }
  return -1;
}

static void find_owners(braid_tile_roles *roles) {
  const braid_graph *graph = roles->graph;
  braid_node_id last = (braid_node_id)graph->node_count;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (!node->backward || roles->owner[i] >= 0) continue;
    roles->owner[i] = find_owner(roles, node, &last);
    if (roles->owner[i] < 0) roles->owner[i] = owner_of_maker(roles, node);
  }
}

/* --- gradients of parameters ---------------------------------------------------------------------------------------
 */
/* From what an update takes, back to the product or the sum over the batch that makes it: all of it belongs to the node
 * that uses the parameter. */
static void mark_gradient(braid_tile_roles *roles, braid_value_id value, braid_node_id owner) {
  const braid_graph *graph = roles->graph;
  for (int64_t count = braid_desc_count(&graph->values[value].desc); value >= 0;) {
    const braid_value *v = &graph->values[value];
    if (roles->gradient[value] || v->kind != BRAID_VALUE_RESULT) return;
    braid_node *node = &graph->nodes[v->producer];
    if (!node->backward) return;
    roles->gradient[value] = true;
    roles->owner[v->producer] = owner;
    if (is_product(node)) return;
    /* A sum over the batch of what a product made of each sample is part of the product (Algorithm 2, line 26). */
    braid_value_id from = node->input_count ? node->inputs[0] : -1;
    bool sums = is_named(node, "ReduceSum") && from >= 0 && graph->values[from].kind == BRAID_VALUE_RESULT &&
                is_product(&graph->nodes[graph->values[from].producer]);
    bool same = from >= 0 && braid_desc_count(&graph->values[from].desc) == count;
    if (is_named(node, "Add") && node->input_count == 2 && node->inputs[1] >= 0 &&
        braid_desc_count(&graph->values[node->inputs[1]].desc) == count)
      mark_gradient(roles, node->inputs[1], owner); /* of a parameter that is used twice */
    value = sums || same ? from : -1;
  }
}

/* The node that uses a parameter: after transposing it, which the buffers of the product do (Section 5.2). */
static braid_node_id user_of(const braid_tile_roles *roles, braid_value_id parameter) {
  for (braid_value_id value = parameter;;) {
    int32_t use = roles->first_use[value];
    if (use < 0) return -1;
    const braid_node *node = &roles->graph->nodes[roles->user[use]];
    bool passes_on = is_named(node, "Transpose") && roles->first_use[node->outputs[0]] >= 0;
    if (!passes_on) return roles->user[use];
    value = node->outputs[0];
  }
}

static void mark_gradients(braid_tile_roles *roles) {
  const braid_graph *graph = roles->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    if (!is_update(node)) continue;
    roles->owner[i] = user_of(roles, node->inputs[0]);
    mark_gradient(roles, node->inputs[1], roles->owner[i]);
  }
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
/* The images and the labels are the inputs that hold one entry of each sample. */
static void mark_batched(braid_tile_roles *roles) {
  const braid_graph *graph = roles->graph;
  for (size_t i = 0; i < graph->input_count && i < 2; i++) roles->batched[graph->inputs[i]] = true;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    bool batched = false;
    for (size_t k = 0; k < node->input_count; k++) batched |= node->inputs[k] >= 0 && roles->batched[node->inputs[k]];
    for (size_t k = 0; k < node->output_count; k++) {
      braid_value_id value = node->outputs[k];
      if (value < 0) continue;
      bool one_each = braid_desc_count(&graph->values[value].desc) % roles->batch == 0; /* the loss is not */
      roles->batched[value] = batched && one_each && !roles->gradient[value] && !is_update(node);
    }
  }
}

static braid_status roles_allocate(braid_tile_roles *roles) {
  const braid_graph *graph = roles->graph;
  size_t values = graph->value_count + 1, uses = count_inputs(graph) + 1;
  roles->batched = braid_zalloc_array(roles->allocator, values, sizeof *roles->batched);
  roles->gradient = braid_zalloc_array(roles->allocator, values, sizeof *roles->gradient);
  roles->owner = braid_zalloc_array(roles->allocator, graph->node_count + 1, sizeof *roles->owner);
  roles->first_use = braid_zalloc_array(roles->allocator, values, sizeof *roles->first_use);
  roles->next_use = braid_zalloc_array(roles->allocator, uses, sizeof *roles->next_use);
  roles->user = braid_zalloc_array(roles->allocator, uses, sizeof *roles->user);
  bool all = roles->batched && roles->gradient && roles->owner && roles->first_use && roles->next_use && roles->user;
  return all ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_tile_roles_create(const braid_graph *training, int64_t batch, braid_tile_roles *out) {
  *out = (braid_tile_roles){.graph = training, .allocator = training->allocator, .batch = batch};
  braid_status status = roles_allocate(out);
  if (status != BRAID_OK) {
    braid_tile_roles_destroy(out);
    return status;
  }
  for (size_t i = 0; i < training->node_count; i++) out->owner[i] = training->nodes[i].backward ? -1 : (braid_node_id)i;
  link_uses(out);
  mark_gradients(out);
  mark_batched(out);
  find_owners(out);
  return BRAID_OK;
}

void braid_tile_roles_destroy(braid_tile_roles *roles) {
  braid_free(roles->allocator, roles->batched);
  braid_free(roles->allocator, roles->gradient);
  braid_free(roles->allocator, roles->owner);
  braid_free(roles->allocator, roles->first_use);
  braid_free(roles->allocator, roles->next_use);
  braid_free(roles->allocator, roles->user);
}
