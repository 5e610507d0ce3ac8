/* The order of nodes: the graph's own, or that of a list of the caller's (braid_session_options.place), but
 * - the node that computes a state's next value comes after all who read the old one, so that it can write over it;
 *   where that would close a circle the wish is dropped (share.c then copies at the end);
 * - without a list, such a node comes as soon as it can, because its inputs (gradients, mostly) die with it;
 * - without a list, collectives come as soon as they can, and what takes their results after all else that is ready,
 * the updates last: so kernels run while other processes are waited for. Costs play no part, and all processes have the
 *   same order. */
#include <string.h>

#include "base/try.h"
#include "runtime/plan/patterns.h"

typedef struct order_edge {
  braid_node_id to;
  bool wish;
  int32_t next; /* edge from the same node; -1: last */
} order_edge;

typedef struct node_sorter {
  braid_plan *plan;
  int32_t *first_edge;     /* per node */
  int32_t *needs, *wishes; /* per node: edges into it not yet satisfied */
  bool *updates, *done;
  bool *late; /* per node: it takes what a collective gives */
  order_edge *edges;
  size_t edge_count;
  braid_node_id *heap;
  size_t heap_count, waiting; /* waiting: nodes that only wishes hold back */
  size_t *ranks;              /* per node: its place in the caller's list; NULL: there is none */
} node_sorter;

/* --- heap of ready nodes: by a list, or by urgency, then the graph's order
 * ----------------------------------------------------
 */
static int urgency_of(const node_sorter *sorter, braid_node_id node) {
  if (sorter->plan->graph->nodes[node].op->flags & BRAID_OP_COLLECTIVE) return 0;
  if (sorter->late[node]) return sorter->updates[node] ? 4 : 3;
  return sorter->updates[node] ? 1 : 2;
}

static bool before(const node_sorter *sorter, braid_node_id a, braid_node_id b) {
  if (sorter->ranks) {
    if (sorter->ranks[a] != sorter->ranks[b]) return sorter->ranks[a] < sorter->ranks[b];
    return a < b;
  }
  int first = urgency_of(sorter, a), second = urgency_of(sorter, b);
  return first != second ? first < second : a < b;
}

static void push(node_sorter *sorter, braid_node_id node) {
  size_t at = sorter->heap_count++;
  while (at > 0 && before(sorter, node, sorter->heap[(at - 1) / 2])) {
    sorter->heap[at] = sorter->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  sorter->heap[at] = node;
}

static braid_node_id pop(node_sorter *sorter) {
  braid_node_id top = sorter->heap[0], last = sorter->heap[--sorter->heap_count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= sorter->heap_count) break;
    if (child + 1 < sorter->heap_count && before(sorter, sorter->heap[child + 1], sorter->heap[child])) child++;
    if (!before(sorter, sorter->heap[child], last)) break;
    sorter->heap[at] = sorter->heap[child];
    at = child;
  }
  sorter->heap[at] = last;
  return top;
}

/* --- edges ---------------------------------------------------------------------------------------------------------
 */
static void add_edge(node_sorter *sorter, braid_node_id from, braid_node_id to, bool wish) {
  if (from == to) return;
  sorter->edges[sorter->edge_count] = (order_edge){to, wish, sorter->first_edge[from]};
  sorter->first_edge[from] = (int32_t)sorter->edge_count++;
  if (wish)
    sorter->wishes[to]++;
  else
    sorter->needs[to]++;
}

/* For every value: the node that overwrites it (as a state's update), or -1. */
static void find_writers(const node_sorter *sorter, braid_node_id *writers) {
  const braid_plan *plan = sorter->plan;
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; i < graph->value_count; i++) {
    writers[i] = -1;
    if (graph->values[i].next < 0) continue;
    const braid_value *next = &graph->values[plan->roots[graph->values[i].next]];
    if (next->kind != BRAID_VALUE_RESULT) continue;
    writers[i] = next->producer;
    sorter->updates[next->producer] = true;
  }
}

/* Views stand for what they are of. */
static void find_late(const node_sorter *sorter) {
  const braid_plan *plan = sorter->plan;
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t j = 0; !sorter->late[i] && j < graph->nodes[i].input_count; j++) {
      braid_value_id id = graph->nodes[i].inputs[j];
      const braid_value *root = id < 0 ? NULL : &graph->values[plan->roots[id]];
      sorter->late[i] =
          root && root->kind == BRAID_VALUE_RESULT && (graph->nodes[root->producer].op->flags & BRAID_OP_COLLECTIVE);
    }
}

static void add_edges(node_sorter *sorter, const braid_node_id *writers) {
  const braid_plan *plan = sorter->plan;
  const braid_graph *graph = plan->graph;
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    for (size_t j = 0; j < node->input_count; j++) {
      braid_value_id id = node->inputs[j];
      if (id < 0) continue;
      if (graph->values[id].kind == BRAID_VALUE_RESULT)
        add_edge(sorter, graph->values[id].producer, (braid_node_id)i, false);
      braid_node_id writer = writers[plan->roots[id]];
      if (writer >= 0) add_edge(sorter, (braid_node_id)i, writer, true);
    }
  }
}

/* --- the caller's order ---------------------------------------------------------------------------------------------
 */
/* A node that the list does not name comes before the first of those that read it, else last. */
static braid_status find_ranks(node_sorter *sorter) {
  braid_plan *plan = sorter->plan;
  const braid_graph *graph = plan->graph;
  if (!plan->sequence.ordered) return BRAID_OK;
  sorter->ranks = braid_zalloc_array(plan->allocator, graph->node_count + 1, sizeof *sorter->ranks);
  if (!sorter->ranks) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->node_count; i++) {
    size_t rank = braid_plan_patterns_rank(&plan->sequence, &graph->nodes[i]);
    sorter->ranks[i] = 2 * rank + (rank < plan->sequence.count); /* odd: the list names it */
  }
  for (size_t i = graph->node_count; i-- > 0;)
    for (size_t j = 0; j < graph->nodes[i].input_count; j++) {
      braid_value_id id = graph->nodes[i].inputs[j];
      if (id < 0 || graph->values[id].kind != BRAID_VALUE_RESULT) continue;
      size_t *rank = &sorter->ranks[graph->values[id].producer], before_reader = sorter->ranks[i] & ~(size_t)1;
      if (*rank % 2 == 0 && before_reader < *rank) *rank = before_reader;
    }
  return BRAID_OK;
}

/* --- sorting -------------------------------------------------------------------------------------------------------
 */
static void settle(node_sorter *sorter, braid_node_id node) {
  if (sorter->needs[node] || sorter->done[node]) return;
  if (sorter->wishes[node] == 0)
    push(sorter, node);
  else
    sorter->waiting++;
}

static void satisfy(node_sorter *sorter, const order_edge *edge) {
  braid_node_id to = edge->to;
  if (!edge->wish) {
    if (--sorter->needs[to] == 0) settle(sorter, to);
    return;
  }
  if (sorter->wishes[to] == 0) return; /* dropped */
  if (--sorter->wishes[to] == 0 && sorter->needs[to] == 0) {
    sorter->waiting--;
    push(sorter, to);
  }
}

/* Every ready node waits for a wish that cannot come true before it runs: the first of them goes without. */
static void drop_a_wish(node_sorter *sorter) {
  for (size_t i = 0; i < sorter->plan->graph->node_count; i++) {
    if (sorter->done[i] || sorter->needs[i] || !sorter->wishes[i]) continue;
    sorter->wishes[i] = 0;
    sorter->waiting--;
    push(sorter, (braid_node_id)i);
    return;
  }
}

static void sort(node_sorter *sorter, braid_node_id *order) {
  size_t count = sorter->plan->graph->node_count, ordered = 0;
  for (size_t i = 0; i < count; i++) settle(sorter, (braid_node_id)i);
  while (ordered < count) {
    if (!sorter->heap_count) drop_a_wish(sorter);
    braid_node_id node = pop(sorter);
    sorter->done[node] = true;
    order[ordered++] = node;
    for (int32_t e = sorter->first_edge[node]; e >= 0; e = sorter->edges[e].next) satisfy(sorter, &sorter->edges[e]);
  }
}

braid_status braid_plan_order(braid_plan *plan) {
  const braid_graph *graph = plan->graph;
  const braid_allocator *allocator = plan->allocator;
  size_t count = graph->node_count, inputs = 0;
  for (size_t i = 0; i < count; i++) inputs += graph->nodes[i].input_count;
  node_sorter sorter = {.plan = plan};
  braid_status ranked = find_ranks(&sorter);
  braid_node_id *writers = braid_zalloc_array(allocator, graph->value_count, sizeof *writers);
  sorter.first_edge = braid_zalloc_array(allocator, count, sizeof *sorter.first_edge);
  sorter.needs = braid_zalloc_array(allocator, count, sizeof *sorter.needs);
  sorter.wishes = braid_zalloc_array(allocator, count, sizeof *sorter.wishes);
  sorter.updates = braid_zalloc_array(allocator, count, sizeof *sorter.updates);
  sorter.late = braid_zalloc_array(allocator, count, sizeof *sorter.late);
  sorter.done = braid_zalloc_array(allocator, count, sizeof *sorter.done);
  sorter.heap = braid_zalloc_array(allocator, count, sizeof *sorter.heap);
  sorter.edges = braid_zalloc_array(allocator, 2 * inputs, sizeof *sorter.edges);
  bool allocated = writers && sorter.first_edge && sorter.needs && sorter.wishes && sorter.updates && sorter.late &&
                   sorter.done && sorter.heap && sorter.edges && ranked == BRAID_OK;
  if (allocated) {
    for (size_t i = 0; i < count; i++) sorter.first_edge[i] = -1;
    find_writers(&sorter, writers);
    find_late(&sorter);
    add_edges(&sorter, writers);
    sort(&sorter, plan->order);
  }
  braid_free(allocator, writers);
  braid_free(allocator, sorter.first_edge);
  braid_free(allocator, sorter.needs);
  braid_free(allocator, sorter.wishes);
  braid_free(allocator, sorter.updates);
  braid_free(allocator, sorter.late);
  braid_free(allocator, sorter.done);
  braid_free(allocator, sorter.heap);
  braid_free(allocator, sorter.edges);
  braid_free(allocator, sorter.ranks);
  return allocated ? BRAID_OK : BRAID_NO_MEMORY;
}
