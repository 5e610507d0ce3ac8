/* Constants that stand for several parameters become several constants.
 *
 * Exporters store tensors that are equal at the time of the export once: a fresh network's gammas and running variances
 * are all ones, its betas and running means all zeros, and the layers of a deep-copied stack are equal altogether. The
 * file then has one initializer with Identity nodes that carry the other names (PyTorch's TorchScript exporter), or one
 * initializer with many users (its newer exporter, and tools that remove Identity). For inference that is the same
 * network; in training, parameters that merely started equal must part. Others share a tensor because the model ties
 * its weights, and these must stay one.
 *
 * The rule. Two uses of one stored tensor are uses of one parameter if neither is a running statistic, or both are the
 * same one, and
 *
 *   under two names (through Identity): its numbers differ among themselves, and so do the two roles, as of the table
 *   of an embedding that is also the matrix of the output;
 *
 *   under one name, where the file says which parameters the two calls took (PyTorch's newer exporter): both took the
 *   one that the tensor is named after, or neither did and they share another one;
 *
 *   under one name elsewhere: both nodes belong to one module, or share another weight (a layer applied twice); or the
 *   modules differ or are not known, and its numbers differ, which no initialization by a constant makes equal.
 *
 * All others get a copy each, under the name that the Identity gave it. In a file that a training wrote all is parted
 * already: what shares a tensor there is one parameter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "graph/trainable.h"

/* One use of a stored tensor by a node that is no Identity. */
typedef struct tensor_use {
  braid_value_id root, via; /* the constant, and the name by which it is used */
  braid_node_id node;
  size_t index;
  size_t parameter; /* which of the root's parameters it is: the position of that one's first use */
} tensor_use;

typedef struct untie {
  braid_graph *graph;
  braid_value_id *roots; /* of each value that the graph came with: the constant that it names, or -1 */
  size_t value_count;    /* how many these are; copies come behind them */
  tensor_use *uses;
  size_t count, capacity;
} untie;

static const braid_node *use_node(const untie *u, const tensor_use *use) {
  return &u->graph->nodes[use->node];
}

static bool is_statistic(const untie *u, const tensor_use *use) {
  return braid_is_statistic(use_node(u, use), use->index);
}

static bool same_role(const untie *u, const tensor_use *a, const tensor_use *b) {
  const braid_op *op = use_node(u, a)->op;
  bool commutes = strcmp(op->name, "Add") == 0 || strcmp(op->name, "Mul") == 0;
  return op == use_node(u, b)->op && (a->index == b->index || commutes);
}

static bool differs_within(const untie *u, braid_value_id id) {
  braid_value_id root = id < 0 || (size_t)id >= u->value_count ? id : u->roots[id];
  return root >= 0 && !braid_tensor_is_uniform(u->graph->values[root].tensor);
}

/* Do the nodes share another constant, one with differing numbers, in the same place? */
static bool share_weight(const untie *u, const tensor_use *a, const tensor_use *b) {
  const braid_node *one = use_node(u, a), *other = use_node(u, b);
  if (one->op != other->op) return false;
  for (size_t i = 0; i < one->input_count && i < other->input_count; i++)
    if (i != a->index && one->inputs[i] == other->inputs[i] && differs_within(u, one->inputs[i])) return true;
  return false;
}

/* Is the name of `length` among those of a call (braid_node.call)? */
static bool call_takes(const char *call, const char *name, size_t length) {
  for (const char *at = call + 1; *at; at += strcspn(at, " ") + 1)
    if (strcspn(at, " ") == length && memcmp(at, name, length) == 0) return true;
  return false;
}

/* Did the two calls take the same parameter, as which `root` is stored? */
bool braid_calls_share(const braid_value *root, const char *one, const char *other) {
  const char *symbol = root->symbol ? root->symbol : "";
  bool first = call_takes(one, symbol, strlen(symbol)), second = call_takes(other, symbol, strlen(symbol));
  if (first || second) return first && second;
  for (const char *at = one + 1; *at; at += strcspn(at, " ") + 1)
    if (call_takes(other, at, strcspn(at, " "))) return true;
  return false;
}

static bool is_tied(const untie *u, const tensor_use *a, const tensor_use *b) {
  const braid_node *one = use_node(u, a), *other = use_node(u, b);
  bool uniform = !differs_within(u, a->root), same = same_role(u, a, b);
  if (is_statistic(u, a) != is_statistic(u, b) || (is_statistic(u, a) && !same)) return false;
  if (a->via != b->via) return !uniform && !same;
  if (one->call && other->call) return braid_calls_share(&u->graph->values[a->root], one->call, other->call);
  if (share_weight(u, a, b)) return true;
  return (one->module && other->module && strcmp(one->module, other->module) == 0) || !uniform;
}

/* --- the uses ------------------------------------------------------------------------------------------------------
 */
static braid_value_id find_root(const untie *u, braid_value_id id) {
  const braid_value *value = &u->graph->values[id];
  if (value->kind == BRAID_VALUE_CONSTANT) return value->tensor && braid_dtype_is_float(value->desc.dtype) ? id : -1;
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0) return -1;
  const braid_node *node = &u->graph->nodes[value->producer];
  return strcmp(node->op->name, "Identity") == 0 && node->inputs[0] >= 0 ? u->roots[node->inputs[0]] : -1;
}

static braid_status add_use(untie *u, braid_node_id node, size_t index) {
  braid_value_id via = use_node(u, &(tensor_use){.node = node})->inputs[index];
  if (via < 0 || u->roots[via] < 0) return BRAID_OK;
  braid_origin origin = u->graph->values[u->roots[via]].origin;
  if (origin == BRAID_ORIGIN_TRAINED || origin == BRAID_ORIGIN_FIXED) return BRAID_OK;
  tensor_use use = {.root = u->roots[via], .via = via, .node = node, .index = index};
  if (braid_value_never_trains(&u->graph->values[use.root]) && !is_statistic(u, &use)) return BRAID_OK;
  tensor_use *uses = braid_grow(u->graph->allocator, u->uses, u->count, &u->capacity, sizeof *uses);
  if (!uses) return BRAID_NO_MEMORY;
  u->uses = uses;
  use.parameter = u->count;
  uses[u->count++] = use;
  return BRAID_OK;
}

static braid_status list_uses(untie *u) {
  const braid_graph *graph = u->graph;
  u->roots = braid_zalloc_array(graph->allocator, graph->value_count + 1, sizeof *u->roots);
  if (!u->roots) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind != BRAID_VALUE_RESULT) u->roots[i] = find_root(u, (braid_value_id)i);
  for (size_t i = 0; i < graph->node_count; i++) { /* in topological order: an Identity's source is known */
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->output_count; j++)
      if (node->outputs[j] >= 0) u->roots[node->outputs[j]] = find_root(u, node->outputs[j]);
    for (size_t j = 0; j < node->input_count && strcmp(node->op->name, "Identity") != 0; j++)
      BRAID_TRY(add_use(u, (braid_node_id)i, j));
  }
  return BRAID_OK;
}

static int compare_uses(const void *a, const void *b) {
  const tensor_use *one = a, *other = b;
  if (one->root != other->root) return one->root < other->root ? -1 : 1;
  return one->parameter < other->parameter ? -1 : one->parameter > other->parameter;
}

/* --- the copies ----------------------------------------------------------------------------------------------------
 */
static bool is_graph_output(const braid_graph *graph, braid_value_id id) {
  for (size_t i = 0; i < graph->output_count; i++)
    if (graph->outputs[i] == id) return true;
  return false;
}

/* The name that the Identity gave it, which that hands over; else the constant's with a number. */
static braid_status name_copy(braid_graph *graph, const tensor_use *use, braid_value_id copy) {
  const char *name = graph->values[use->via].name;
  size_t room = strlen(name) + 16;
  char *other = braid_graph_arena_alloc(graph, room);
  if (!other) return BRAID_NO_MEMORY;
  bool own = use->via != use->root && !is_graph_output(graph, use->via);
  for (int number = 2;; number++) {
    snprintf(other, room, "%s~%d", name, number);
    if (braid_graph_find_value(graph, other) < 0) break;
  }
  if (!own) return braid_graph_rename_value(graph, copy, other);
  BRAID_TRY(braid_graph_rename_value(graph, use->via, other));
  return braid_graph_rename_value(graph, copy, name);
}

static braid_status add_copy(braid_graph *graph, const tensor_use *use, braid_value_id *out) {
  braid_origin origin = graph->values[use->root].origin;
  BRAID_TRY(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, graph->values[use->root].tensor, out));
  graph->values[*out].origin = origin;
  return name_copy(graph, use, *out);
}

/* The parameter that keeps the constant itself: the first by its own name that is no statistic, else the first. */
static size_t find_keeper(const untie *u, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (u->uses[i].via == u->uses[i].root && !is_statistic(u, &u->uses[i])) return u->uses[i].parameter;
  return u->uses[from].parameter;
}

/* The uses [from, to) of one constant. */
static braid_status untie_constant(untie *u, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    u->uses[i].parameter = i;
    for (size_t j = from; j < i; j++)
      if (u->uses[j].parameter == j && is_tied(u, &u->uses[i], &u->uses[j])) {
        u->uses[i].parameter = j;
        break;
      }
  }
  size_t keeper = find_keeper(u, from, to);
  for (size_t first = from; first < to; first++) {
    if (u->uses[first].parameter != first) continue;
    braid_value_id own = u->uses[first].root;
    if (first != keeper) BRAID_TRY(add_copy(u->graph, &u->uses[first], &own));
    for (size_t i = first; i < to; i++)
      if (u->uses[i].parameter == first) u->graph->nodes[u->uses[i].node].inputs[u->uses[i].index] = own;
  }
  return BRAID_OK;
}

static braid_status untie_all(untie *u) {
  BRAID_TRY(list_uses(u));
  if (u->count) qsort(u->uses, u->count, sizeof *u->uses, compare_uses);
  for (size_t from = 0, to; from < u->count; from = to) {
    for (to = from + 1; to < u->count && u->uses[to].root == u->uses[from].root;) to++;
    BRAID_TRY(untie_constant(u, from, to));
  }
  return BRAID_OK;
}

braid_status braid_graph_untie(braid_graph *graph) {
  untie u = {.graph = graph, .value_count = graph->value_count};
  braid_status status = untie_all(&u);
  braid_free(graph->allocator, u.uses);
  braid_free(graph->allocator, u.roots);
  return status;
}
