#include "serve/cluster/placement_add.h"

#include <math.h>

#include "base/try.h"

#define NONE BRAID_CLUSTER_NONE
/* Nodes of a kind that are looked at before all are; the least part of a node's time that is worth a replica. */
enum { kLookedAt = 64 };
static const double kWorth = 0.05, kSlight = 1e-9;

/* An awake node, with the part of its time that is left, on the scale of its kind. */
typedef struct room {
  double left;
  size_t node;
} room;

/* Of each kind: a heap of awake nodes, those with most time left on top, in the kind's part of `rooms`; how far the
 * sleeping ones have been used up; and how far the model's present replicas have been looked at. */
typedef struct adder {
  braid_cluster_state *state;
  braid_cluster_adding how;
  room *rooms;
  size_t *room_count, *asleep_at, *present_at;
} adder;

size_t braid_cluster_find_present(const braid_cluster_view *view, size_t model, size_t node) {
  size_t low = view->present_of[model], high = view->present_of[model + 1];
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (view->problem->present[middle].node < node)
      low = middle + 1;
    else
      high = middle;
  }
  return low < view->present_of[model + 1] && view->problem->present[low].node == node ? low : NONE;
}

/* --- heaps ---------------------------------------------------------------------------------------------------------
 */
static double room_left(const adder *a, size_t node) {
  const braid_cluster_node *n = &a->state->view->problem->nodes[node];
  return (a->state->view->problem->most_busy - a->state->nodes[node].busy) * (double)n->instances / n->slow;
}

static bool room_before(const room *x, const room *y) {
  return x->left > y->left || (x->left == y->left && x->node < y->node);
}

static void room_push(adder *a, size_t kind, size_t node) {
  room *heap = a->rooms + a->state->view->kind_begin[kind], item = {room_left(a, node), node};
  size_t at = a->room_count[kind]++;
  while (at && room_before(&item, &heap[(at - 1) / 2])) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = item;
}

static size_t room_pop(adder *a, size_t kind) {
  room *heap = a->rooms + a->state->view->kind_begin[kind];
  size_t top = heap[0].node, count = --a->room_count[kind], at = 0;
  room item = heap[count];
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && room_before(&heap[child + 1], &heap[child])) child++;
    if (!room_before(&heap[child], &item)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
  return top;
}

/* --- offers --------------------------------------------------------------------------------------------------------
 */
typedef struct offer {
  size_t node;
  double price, cost; /* watts for a request a second; of equals the faster, and then the lower node */
} offer;

/* What a replica has to have room for, to be worth it. */
static double least_rate(const braid_cluster_problem *p, double wanted, double cost) {
  return fmin(wanted, kWorth * p->most_busy / cost);
}

static void consider(const adder *a, size_t model, double wanted, size_t node, offer *best) {
  const braid_cluster_view *view = a->state->view;
  const braid_cluster_problem *p = view->problem;
  if (node == a->how.except || !braid_cluster_state_fits(a->state, model, node)) return;
  bool asleep = !a->state->nodes[node].models;
  double cost = braid_cluster_cost(view, model, node), price = 0;
  double left = fmax(0, p->most_busy - a->state->nodes[node].busy) / cost, rate = fmin(wanted, left);
  if (rate < least_rate(p, wanted, cost)) return;
  if (wanted <= 0) rate = 1;
  if (a->how.filled && wanted > 0) rate = left;
  braid_cluster_watts w = braid_cluster_node_watts(view, node);
  if (a->how.by_peak) {
    if (asleep) price = (w.busy - w.asleep) / rate;
  } else {
    if (asleep) price = (w.idle - w.asleep) / rate;
    if (wanted > 0) price += cost * (w.busy - w.idle);
    if (p->horizon_s > 0 && braid_cluster_find_present(view, model, node) == NONE)
      price += braid_cluster_load_joules(view, model, node) / (p->horizon_s * rate);
  }
  bool better = best->node == NONE || price < best->price * (1 - kSlight);
  if (!better && price <= best->price * (1 + kSlight))
    better = cost < best->cost || (cost == best->cost && node < best->node);
  if (better) *best = (offer){node, price, cost};
}

/* Those that are awake, with most time left first. */
static void consider_awake(adder *a, size_t kind, size_t model, double wanted, offer *best) {
  const braid_cluster_view *view = a->state->view;
  size_t aside[kLookedAt], count = 0, before = best->node;
  while (a->room_count[kind] && count < kLookedAt && best->node == before) {
    const room *top = a->rooms + view->kind_begin[kind];
    double rate = top->left / view->problem->seconds[kind * view->problem->model_count + model];
    if (rate < least_rate(view->problem, wanted, braid_cluster_cost(view, model, top->node)))
      break; /* nor the others */
    size_t node = room_pop(a, kind);
    aside[count++] = node;
    consider(a, model, wanted, node, best);
  }
  while (count) room_push(a, kind, aside[--count]);
}

/* The fastest of those that sleep. */
static void consider_asleep(adder *a, size_t kind, size_t model, double wanted, offer *best) {
  const braid_cluster_view *view = a->state->view;
  size_t end = view->kind_begin[kind + 1], looked = 0, before = best->node;
  size_t *begin = &a->asleep_at[kind];
  while (*begin < end &&
         (a->state->nodes[view->by_kind[*begin]].models || !view->problem->nodes[view->by_kind[*begin]].alive))
    (*begin)++;
  for (size_t i = *begin; i < end && looked < kLookedAt && best->node == before; i++) {
    size_t node = view->by_kind[i];
    if (a->state->nodes[node].models || !view->problem->nodes[node].alive) continue;
    looked++;
    consider(a, model, wanted, node, best);
  }
}

/* The next one of the kind that has the model now. */
static void consider_present(adder *a, size_t kind, size_t model, double wanted, offer *best) {
  const braid_cluster_problem *p = a->state->view->problem;
  size_t *at = &a->present_at[kind], end = a->state->view->present_of[model + 1];
  while (*at < end && (p->nodes[p->present[*at].node].kind != kind ||
                       !braid_cluster_state_fits(a->state, model, p->present[*at].node)))
    (*at)++;
  if (*at < end) consider(a, model, wanted, p->present[*at].node, best);
}

static size_t find_node(adder *a, size_t model, double wanted) {
  const braid_cluster_problem *p = a->state->view->problem;
  offer best = {.node = NONE};
  for (size_t k = 0; k < p->kind_count; k++) {
    if (p->seconds[k * p->model_count + model] <= 0) continue;
    consider_present(a, k, model, wanted, &best);
    consider_awake(a, k, model, wanted, &best);
    consider_asleep(a, k, model, wanted, &best);
  }
  for (size_t i = 0; best.node == NONE && i < p->node_count; i++) consider(a, model, wanted, i, &best);
  return best.node;
}

static braid_status add_model(adder *a, size_t model) {
  braid_cluster_state *state = a->state;
  const braid_cluster_problem *p = state->view->problem;
  const braid_cluster_model *m = &p->models[model];
  const braid_cluster_model_state *s = &state->models[model];
  for (size_t k = 0; k < p->kind_count; k++) a->present_at[k] = state->view->present_of[model];
  for (;;) {
    double unmet = m->requests_per_s - s->rate;
    if (unmet <= kSlight * m->requests_per_s) unmet = 0;
    if ((unmet == 0 && s->replicas >= m->least) || (m->most && s->replicas >= m->most)) return BRAID_OK;
    size_t node = find_node(a, model, unmet);
    if (node == NONE && unmet > 0 && s->replicas < m->least) node = find_node(a, model, unmet = 0);
    if (node == NONE) return BRAID_OK;
    bool asleep = !state->nodes[node].models;
    double left = fmax(0, p->most_busy - state->nodes[node].busy) / braid_cluster_cost(state->view, model, node);
    BRAID_TRY(braid_cluster_state_put(state, model, node, braid_cluster_find_present(state->view, model, node)));
    braid_cluster_state_set_rate(state, state->count - 1, fmin(unmet, left));
    if (asleep) room_push(a, p->nodes[node].kind, node);
  }
}

braid_status braid_cluster_state_add(braid_cluster_state *state, braid_cluster_adding how) {
  const braid_cluster_view *view = state->view;
  const braid_cluster_problem *p = view->problem;
  adder a = {.state = state, .how = how};
  a.rooms = braid_zalloc_array(view->allocator, p->node_count, sizeof *a.rooms);
  a.room_count = braid_zalloc_array(view->allocator, p->kind_count, sizeof *a.room_count);
  a.asleep_at = braid_zalloc_array(view->allocator, p->kind_count, sizeof *a.asleep_at);
  a.present_at = braid_zalloc_array(view->allocator, p->kind_count, sizeof *a.present_at);
  braid_status status = a.rooms && a.room_count && a.asleep_at && a.present_at ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    for (size_t k = 0; k < p->kind_count; k++) a.asleep_at[k] = view->kind_begin[k];
    for (size_t i = 0; i < p->node_count; i++)
      if (state->nodes[i].models) room_push(&a, p->nodes[i].kind, i);
    for (size_t i = 0; status == BRAID_OK && i < p->model_count; i++)
      status = add_model(&a, view->order[(how.first + i) % p->model_count]);
  }
  braid_free(view->allocator, a.rooms);
  braid_free(view->allocator, a.room_count);
  braid_free(view->allocator, a.asleep_at);
  braid_free(view->allocator, a.present_at);
  return status;
}
