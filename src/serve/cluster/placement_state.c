#include "serve/cluster/placement_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"

enum { kSweeps = 12 };
#define NONE BRAID_CLUSTER_NONE
static const double kSlight = 1e-9; /* of a number, taken as rounding */

braid_cluster_watts braid_cluster_node_watts(const braid_cluster_view *view, size_t node) {
  const braid_cluster_node *n = &view->problem->nodes[node];
  if (!n->power_known) return view->unknown;
  return (braid_cluster_watts){n->asleep_watts, n->idle_watts, n->busy_watts};
}

double braid_cluster_cost(const braid_cluster_view *view, size_t model, size_t node) {
  const braid_cluster_node *n = &view->problem->nodes[node];
  return view->problem->seconds[n->kind * view->problem->model_count + model] * n->slow / (double)n->instances;
}

double braid_cluster_load_joules(const braid_cluster_view *view, size_t model, size_t node) {
  const braid_cluster_node *n = &view->problem->nodes[node];
  if (n->load_bytes_per_s <= 0) return 0;
  return (double)view->problem->models[model].memory_bytes / n->load_bytes_per_s *
         braid_cluster_node_watts(view, node).busy;
}

/* --- a placement ---------------------------------------------------------------------------------------------------
 */
braid_status braid_cluster_state_init(const braid_cluster_view *view, braid_cluster_state *state) {
  const braid_cluster_problem *p = view->problem;
  *state = (braid_cluster_state){.view = view};
  state->nodes = braid_zalloc_array(view->allocator, p->node_count, sizeof *state->nodes);
  state->models = braid_zalloc_array(view->allocator, p->model_count, sizeof *state->models);
  if (!state->nodes || !state->models) {
    braid_cluster_state_deinit(state);
    return BRAID_NO_MEMORY;
  }
  for (size_t m = 0; m < p->model_count; m++) state->models[m].first = NONE;
  for (size_t i = 0; i < p->node_count; i++) {
    state->nodes[i] = (braid_cluster_node_state){.memory_left = p->nodes[i].memory_bytes, .first = NONE};
    if (p->nodes[i].alive) state->peak += braid_cluster_node_watts(view, i).asleep;
  }
  return BRAID_OK;
}

void braid_cluster_state_deinit(braid_cluster_state *state) {
  if (!state->view) return;
  braid_free(state->view->allocator, state->nodes);
  braid_free(state->view->allocator, state->models);
  braid_free(state->view->allocator, state->pool);
  *state = (braid_cluster_state){0};
}

braid_status braid_cluster_state_copy(const braid_cluster_state *from, braid_cluster_state *to) {
  const braid_cluster_problem *p = from->view->problem;
  if (to->capacity < from->count) {
    braid_cluster_held *pool = braid_zalloc_array(from->view->allocator, from->capacity, sizeof *pool);
    if (!pool) return BRAID_NO_MEMORY;
    braid_free(from->view->allocator, to->pool);
    to->pool = pool;
    to->capacity = from->capacity;
  }
  if (from->count) memcpy(to->pool, from->pool, from->count * sizeof *to->pool);
  memcpy(to->nodes, from->nodes, p->node_count * sizeof *to->nodes);
  memcpy(to->models, from->models, p->model_count * sizeof *to->models);
  to->count = from->count;
  to->peak = from->peak;
  return BRAID_OK;
}

static double waking_watts(const braid_cluster_state *state, size_t node) {
  braid_cluster_watts w = braid_cluster_node_watts(state->view, node);
  return state->view->problem->nodes[node].alive ? w.busy - w.asleep : 0;
}

bool braid_cluster_state_fits(const braid_cluster_state *state, size_t model, size_t node) {
  const braid_cluster_problem *p = state->view->problem;
  const braid_cluster_model *m = &p->models[model];
  const braid_cluster_node *n = &p->nodes[node];
  const braid_cluster_node_state *s = &state->nodes[node];
  if (!n->alive || (m->features & ~n->features) || s->memory_left < m->memory_bytes ||
      braid_cluster_cost(state->view, model, node) <= 0)
    return false;
  if (m->most && state->models[model].replicas >= m->most) return false;
  for (size_t h = s->first; h != NONE; h = state->pool[h].next_of_node) {
    const braid_cluster_held *held = &state->pool[h];
    if (held->dead) continue;
    const braid_cluster_model *other = &p->models[held->model];
    if (held->model == model || (other->tenant != m->tenant && (other->is_private || m->is_private))) return false;
  }
  return s->models || state->peak + waking_watts(state, node) <= p->cap_watts;
}

braid_status braid_cluster_state_put(braid_cluster_state *state, size_t model, size_t node, size_t present) {
  braid_cluster_held *pool =
      braid_grow(state->view->allocator, state->pool, state->count, &state->capacity, sizeof *pool);
  if (!pool) return BRAID_NO_MEMORY;
  braid_cluster_node_state *s = &state->nodes[node];
  braid_cluster_model_state *m = &state->models[model];
  state->pool = pool;
  pool[state->count] = (braid_cluster_held){
      .model = model, .node = node, .next_of_model = m->first, .next_of_node = s->first, .present = present};
  m->first = s->first = state->count++;
  m->replicas++;
  if (!s->models++) state->peak += waking_watts(state, node);
  s->memory_left -= state->view->problem->models[model].memory_bytes;
  return BRAID_OK;
}

void braid_cluster_state_set_rate(braid_cluster_state *state, size_t held, double rate) {
  braid_cluster_held *h = &state->pool[held];
  state->nodes[h->node].busy += (rate - h->rate) * braid_cluster_cost(state->view, h->model, h->node);
  state->models[h->model].rate += rate - h->rate;
  h->rate = rate;
}

void braid_cluster_state_take(braid_cluster_state *state, size_t held, braid_cluster_reason reason) {
  braid_cluster_held *h = &state->pool[held];
  braid_cluster_node_state *s = &state->nodes[h->node];
  braid_cluster_state_set_rate(state, held, 0);
  h->dead = true;
  h->reason = reason;
  s->memory_left += state->view->problem->models[h->model].memory_bytes;
  state->models[h->model].replicas--;
  if (--s->models) return;
  state->peak -= waking_watts(state, h->node);
  s->busy = 0; /* not what rounding left */
}

/* --- load ----------------------------------------------------------------------------------------------------------
 */
typedef struct basin {
  size_t held;
  double busy, cost; /* of the node without this model; for a request a second */
  double price;      /* joules of a request; 0: they are not regarded */
} basin;

static int compare_basins(const void *a, const void *b) {
  const basin *x = a, *y = b;
  if (x->price != y->price) return x->price < y->price ? -1 : 1;
  if (x->busy != y->busy) return x->busy < y->busy ? -1 : 1;
  return (x->held > y->held) - (x->held < y->held);
}

/* Water is poured into basins whose floors are how busy the nodes are without it. Returns what has no room. */
static double pour(braid_cluster_state *state, const basin *basins, size_t count, double wanted) {
  double width = 0, area = 0, level = 0, poured = 0;
  for (size_t open = 0; open < count;) { /* the level at which so many are filled: wanted = width * level - area */
    width += 1 / basins[open].cost;
    area += basins[open].busy / basins[open].cost;
    level = (wanted + area) / width;
    if (++open == count || level <= basins[open].busy) break;
  }
  level = fmin(level, state->view->problem->most_busy);
  for (size_t i = 0; i < count; i++) {
    double rate = fmax(0, level - basins[i].busy) / basins[i].cost;
    braid_cluster_state_set_rate(state, basins[i].held, rate);
    poured += rate;
  }
  return poured < wanted * (1 - kSlight) ? wanted - poured : 0;
}

/* priced: those where a request takes the fewest joules are filled first. */
static void spread_model(braid_cluster_state *state, size_t model, bool priced) {
  const braid_cluster_view *view = state->view;
  basin *basins = view->scratch;
  size_t count = 0;
  for (size_t h = state->models[model].first; h != NONE; h = state->pool[h].next_of_model) {
    const braid_cluster_held *held = &state->pool[h];
    if (held->dead) continue;
    double cost = braid_cluster_cost(view, model, held->node);
    braid_cluster_watts w = braid_cluster_node_watts(view, held->node);
    basins[count++] = (basin){h, fmax(0, state->nodes[held->node].busy - held->rate * cost), cost,
                              priced ? cost * (w.busy - w.idle) : 0};
  }
  if (count > 1) qsort(basins, count, sizeof *basins, compare_basins);
  double wanted = view->problem->models[model].requests_per_s;
  for (size_t i = 0, end; i < count; i = end) {
    end = i + 1;
    while (end < count && basins[end].price == basins[i].price) end++;
    wanted = pour(state, basins + i, end - i, wanted);
  }
  if (wanted <= 0) state->models[model].rate = view->problem->models[model].requests_per_s; /* but for rounding */
}

void braid_cluster_state_spread_model(braid_cluster_state *state, size_t model) {
  spread_model(state, model, false);
}

void braid_cluster_state_spread(braid_cluster_state *state) {
  const braid_cluster_view *view = state->view;
  for (int sweep = 0; sweep < kSweeps; sweep++) {
    double change = 0;
    for (size_t i = 0; i < view->problem->model_count; i++) {
      size_t first = state->models[view->order[i]].first;
      double before = first == NONE ? 0 : state->nodes[state->pool[first].node].busy;
      spread_model(state, view->order[i], false);
      change = fmax(change, first == NONE ? 0 : fabs(state->nodes[state->pool[first].node].busy - before));
    }
    if (change < 1e-3) break;
  }
  for (size_t i = 0; i < view->problem->model_count; i++) spread_model(state, view->order[i], true);
}

/* --- what is there -------------------------------------------------------------------------------------------------
 */
static bool fits_but_for_others(const braid_cluster_view *view, size_t model, size_t node) {
  const braid_cluster_model *m = &view->problem->models[model];
  const braid_cluster_node *n = &view->problem->nodes[node];
  return !(m->features & ~n->features) && braid_cluster_cost(view, model, node) > 0;
}

/* One of those that are there. It is put in any case, so that a dead one says why. */
static braid_status keep_one(braid_cluster_state *state, size_t index) {
  const braid_cluster_problem *p = state->view->problem;
  const braid_cluster_replica *replica = &p->present[index];
  const braid_cluster_model *m = &p->models[replica->model];
  braid_cluster_reason reason = BRAID_CLUSTER_LEAST;
  bool shared = false; /* with a tenant that does not want it */
  for (size_t h = state->nodes[replica->node].first; h != NONE; h = state->pool[h].next_of_node) {
    const braid_cluster_model *other = &p->models[state->pool[h].model];
    shared |= !state->pool[h].dead && other->tenant != m->tenant && (other->is_private || m->is_private);
  }
  if (!p->nodes[replica->node].alive)
    reason = BRAID_CLUSTER_GONE;
  else if (!fits_but_for_others(state->view, replica->model, replica->node))
    reason = BRAID_CLUSTER_UNFIT;
  else if (shared)
    reason = BRAID_CLUSTER_PRIVATE;
  else if (state->nodes[replica->node].memory_left < m->memory_bytes)
    reason = BRAID_CLUSTER_UNFIT;
  else if (m->most && state->models[replica->model].replicas >= m->most)
    reason = BRAID_CLUSTER_MOST;
  BRAID_TRY(braid_cluster_state_put(state, replica->model, replica->node, index));
  if (reason != BRAID_CLUSTER_LEAST) braid_cluster_state_take(state, state->count - 1, reason);
  return BRAID_OK;
}

/* What a model's replicas carried is where its load is spread from: what the last plan met stays met. */
static void keep_rates(braid_cluster_state *state, size_t model) {
  const braid_cluster_problem *p = state->view->problem;
  double carried = 0, wanted = p->models[model].requests_per_s;
  for (size_t h = state->models[model].first; h != NONE; h = state->pool[h].next_of_model)
    if (!state->pool[h].dead) carried += p->present[state->pool[h].present].requests_per_s;
  for (size_t h = state->models[model].first; h != NONE; h = state->pool[h].next_of_model) {
    const braid_cluster_held *held = &state->pool[h];
    if (held->dead) continue;
    double left = p->most_busy - state->nodes[held->node].busy;
    double rate = p->present[held->present].requests_per_s * fmin(1, wanted / fmax(carried, 1e-12));
    braid_cluster_state_set_rate(state, h,
                                 fmin(rate, fmax(0, left) / braid_cluster_cost(state->view, model, held->node)));
  }
}

braid_status braid_cluster_state_keep(braid_cluster_state *state) {
  const braid_cluster_problem *p = state->view->problem;
  for (int shared = 0; shared < 2; shared++) /* private models claim their nodes first */
    for (size_t i = 0; i < p->present_count; i++)
      if (p->models[p->present[i].model].is_private == !shared) BRAID_TRY(keep_one(state, i));
  for (size_t m = 0; m < p->model_count; m++) keep_rates(state, m);
  return BRAID_OK;
}

typedef struct draw {
  size_t node;
  double watts; /* for the work of the fastest kind */
} draw;

static int compare_draws(const void *a, const void *b) {
  const draw *x = a, *y = b;
  if (x->watts != y->watts) return x->watts > y->watts ? -1 : 1;
  return (x->node < y->node) - (x->node > y->node);
}

braid_status braid_cluster_state_obey_cap(braid_cluster_state *state) {
  const braid_cluster_view *view = state->view;
  const braid_cluster_problem *p = view->problem;
  size_t count = 0;
  if (state->peak <= p->cap_watts) return BRAID_OK;
  draw *draws = braid_zalloc_array(view->allocator, p->node_count, sizeof *draws);
  if (!draws) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < p->node_count; i++) {
    double times = 0;
    for (size_t h = state->nodes[i].first; h != NONE; h = state->pool[h].next_of_node)
      if (!state->pool[h].dead)
        times += braid_cluster_cost(view, state->pool[h].model, i) / view->best_seconds[state->pool[h].model];
    if (state->nodes[i].models && waking_watts(state, i) > 0)
      draws[count++] = (draw){i, waking_watts(state, i) * times / (double)state->nodes[i].models};
  }
  qsort(draws, count, sizeof *draws, compare_draws);
  for (size_t i = 0; i < count && state->peak > p->cap_watts; i++)
    for (size_t h = state->nodes[draws[i].node].first; h != NONE; h = state->pool[h].next_of_node)
      if (!state->pool[h].dead) braid_cluster_state_take(state, h, BRAID_CLUSTER_CAP);
  braid_free(view->allocator, draws);
  return BRAID_OK;
}

/* --- ranking -------------------------------------------------------------------------------------------------------
 */
static double state_watts(const braid_cluster_state *state) {
  const braid_cluster_problem *p = state->view->problem;
  double watts = 0;
  for (size_t i = 0; i < p->node_count; i++) {
    if (!p->nodes[i].alive) continue;
    braid_cluster_watts w = braid_cluster_node_watts(state->view, i);
    watts += state->nodes[i].models ? w.idle + fmin(1, state->nodes[i].busy) * (w.busy - w.idle) : w.asleep;
  }
  return watts;
}

braid_cluster_score braid_cluster_state_score(const braid_cluster_state *state) {
  const braid_cluster_view *view = state->view;
  const braid_cluster_problem *p = view->problem;
  braid_cluster_score score = {.watts = state_watts(state)};
  double kept = 0;
  for (size_t m = 0; m < p->model_count; m++) {
    const braid_cluster_model_state *s = &state->models[m];
    if (s->replicas < p->models[m].least) score.replicas += p->models[m].least - s->replicas;
    double unmet = p->models[m].requests_per_s - s->rate;
    if (unmet > kSlight * p->models[m].requests_per_s) score.unmet += unmet * fmax(view->best_seconds[m], 1e-12);
  }
  for (size_t i = 0; i < p->present_count; i++)
    if (p->nodes[p->present[i].node].alive)
      kept += braid_cluster_load_joules(view, p->present[i].model, p->present[i].node);
  for (size_t h = 0; h < state->count; h++) {
    const braid_cluster_held *held = &state->pool[h];
    if (held->dead) continue;
    double joules = braid_cluster_load_joules(view, held->model, held->node);
    if (held->present == NONE)
      score.joules += joules;
    else
      kept -= joules;
  }
  score.joules += fmax(0, kept) + p->horizon_s * score.watts;
  return score;
}

bool braid_cluster_score_before(const braid_cluster_score *a, const braid_cluster_score *b) {
  if (a->replicas != b->replicas) return a->replicas < b->replicas;
  if (fabs(a->unmet - b->unmet) > kSlight * fmax(1e-3, fmax(a->unmet, b->unmet))) return a->unmet < b->unmet;
  return a->joules < b->joules - kSlight * fabs(b->joules);
}

/* --- what all placements of a problem share ------------------------------------------------------------------------
 */
typedef struct ranked {
  size_t index, group;
  double key;
} ranked;

static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static void order_models(const braid_cluster_view *view, ranked *ranks) {
  const braid_cluster_problem *p = view->problem;
  int64_t memory = 1;
  for (size_t i = 0; i < p->node_count; i++)
    if (p->nodes[i].memory_bytes > memory) memory = p->nodes[i].memory_bytes;
  for (size_t m = 0; m < p->model_count; m++) {
    const braid_cluster_model *model = &p->models[m];
    size_t kinds = 0;
    for (size_t k = 0; k < p->kind_count; k++) {
      double seconds = p->seconds[k * p->model_count + m];
      if (seconds <= 0) continue;
      kinds++;
      if (view->best_seconds[m] == 0 || seconds < view->best_seconds[m]) view->best_seconds[m] = seconds;
    }
    double load = model->requests_per_s * view->best_seconds[m];
    double size = (double)model->memory_bytes / (double)memory;
    ranks[m] = (ranked){m,
                        model->is_private                          ? 0
                        : kinds < p->kind_count || model->features ? 1
                                                                   : 2,
                        -fmax(load, size * (double)(model->least ? model->least : 1))};
  }
  qsort(ranks, p->model_count, sizeof *ranks, compare_ranked);
  for (size_t m = 0; m < p->model_count; m++) view->order[m] = ranks[m].index;
}

static void order_nodes(const braid_cluster_view *view, ranked *ranks) {
  const braid_cluster_problem *p = view->problem;
  size_t kind = 0;
  for (size_t i = 0; i < p->node_count; i++)
    ranks[i] = (ranked){i, p->nodes[i].kind, p->nodes[i].slow / (double)p->nodes[i].instances};
  qsort(ranks, p->node_count, sizeof *ranks, compare_ranked);
  for (size_t i = 0; i < p->node_count; i++) {
    while (kind <= ranks[i].group) view->kind_begin[kind++] = i;
    view->by_kind[i] = ranks[i].index;
  }
  while (kind <= p->kind_count) view->kind_begin[kind++] = p->node_count;
}

static void count_present(const braid_cluster_view *view) {
  const braid_cluster_problem *p = view->problem;
  size_t model = 0;
  for (size_t i = 0; i < p->present_count; i++)
    while (model <= p->present[i].model) view->present_of[model++] = i;
  while (model <= p->model_count) view->present_of[model++] = p->present_count;
}

static void find_unknown_watts(braid_cluster_view *view) {
  const braid_cluster_problem *p = view->problem;
  for (size_t i = 0; i < p->node_count; i++) {
    const braid_cluster_node *n = &p->nodes[i];
    if (!n->power_known) continue;
    view->unknown.asleep = fmax(view->unknown.asleep, n->asleep_watts);
    view->unknown.idle = fmax(view->unknown.idle, n->idle_watts);
    view->unknown.busy = fmax(view->unknown.busy, n->busy_watts);
  }
}

braid_status braid_cluster_view_init(const braid_cluster_problem *problem, const braid_allocator *allocator,
                                     braid_cluster_view *view) {
  size_t most = problem->node_count > problem->model_count ? problem->node_count : problem->model_count;
  *view = (braid_cluster_view){.problem = problem, .allocator = allocator};
  view->best_seconds = braid_zalloc_array(allocator, problem->model_count, sizeof *view->best_seconds);
  view->order = braid_zalloc_array(allocator, problem->model_count, sizeof *view->order);
  view->by_kind = braid_zalloc_array(allocator, problem->node_count, sizeof *view->by_kind);
  view->kind_begin = braid_zalloc_array(allocator, problem->kind_count + 1, sizeof *view->kind_begin);
  view->present_of = braid_zalloc_array(allocator, problem->model_count + 1, sizeof *view->present_of);
  view->scratch = braid_zalloc_array(allocator, problem->node_count, sizeof(basin));
  ranked *ranks = braid_zalloc_array(allocator, most, sizeof *ranks);
  bool whole = view->best_seconds && view->order && view->by_kind && view->kind_begin && view->present_of &&
               view->scratch && ranks;
  if (whole) {
    order_models(view, ranks);
    order_nodes(view, ranks);
    count_present(view);
    find_unknown_watts(view);
  } else {
    braid_cluster_view_deinit(view);
  }
  braid_free(allocator, ranks);
  return whole ? BRAID_OK : BRAID_NO_MEMORY;
}

void braid_cluster_view_deinit(braid_cluster_view *view) {
  braid_free(view->allocator, view->best_seconds);
  braid_free(view->allocator, view->order);
  braid_free(view->allocator, view->by_kind);
  braid_free(view->allocator, view->kind_begin);
  braid_free(view->allocator, view->present_of);
  braid_free(view->allocator, view->scratch);
  *view = (braid_cluster_view){0};
}
