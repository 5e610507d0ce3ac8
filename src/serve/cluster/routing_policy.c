#include "serve/cluster/routing_policy.h"

#include <stdlib.h>

#include "base/detail.h"
#include "base/try.h"
#include "serve/cluster/placement_policy.h"

#define NONE BRAID_CLUSTER_NONE
#define NEVER INT64_MAX

/* What is known of some of a model's replicas: none of them ends a request before `end` or now + `service`. */
typedef struct bound {
  int64_t end, service;
} bound;

/* The replicas of a model, those with the shortest service first: the leaves of a tree of bounds, whose root is item 1
 * and whose leaves begin at `width`. */
typedef struct grove {
  size_t begin, count; /* of its leaves in `leaves` */
  size_t width, tree;  /* a power of two; where its bounds begin */
} grove;

typedef struct leaf {
  size_t model, node;
  int64_t service;
  bool closed;
} leaf;

struct braid_cluster_router {
  const braid_allocator *allocator;
  grove *groves;
  leaf *leaves;
  bound *bounds;
  int64_t *free_ns;   /* of each node */
  size_t *node_begin; /* positions in node_leaves */
  size_t *node_leaves;
  size_t node_count, model_count;
};

static int64_t sum(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_add_overflow(a, b, &result) ? NEVER : result;
}

static int compare_leaves(const void *a, const void *b) {
  const leaf *x = a, *y = b;
  if (x->model != y->model) return x->model < y->model ? -1 : 1;
  if (x->service != y->service) return x->service < y->service ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

static bound lower(bound a, bound b) {
  return (bound){a.end < b.end ? a.end : b.end, a.service < b.service ? a.service : b.service};
}

static void set_leaf(braid_cluster_router *router, size_t index) {
  const leaf *l = &router->leaves[index];
  const grove *g = &router->groves[l->model];
  bound *tree = router->bounds + g->tree;
  int64_t free_ns = router->free_ns[l->node];
  size_t at = g->width + index - g->begin;
  tree[at] = (bound){free_ns == NEVER || l->closed ? NEVER : sum(free_ns, l->service), l->service};
  for (at /= 2; at; at /= 2) tree[at] = lower(tree[2 * at], tree[2 * at + 1]);
}

/* --- making one ----------------------------------------------------------------------------------------------------
 */
static braid_status check_targets(const braid_cluster_target *targets, size_t count, size_t node_count,
                                  size_t model_count) {
  for (size_t i = 0; i < count; i++) {
    const braid_cluster_target *t = &targets[i];
    if (t->model >= model_count || t->node >= node_count || t->service_ns < 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "target %zu: there is no such model or node, or its time is negative",
                        i);
    if (i && (t[-1].model > t->model || (t[-1].model == t->model && t[-1].node >= t->node)))
      return braid_fail(BRAID_INVALID_ARGUMENT, "target %zu: expected them by model and then node", i);
  }
  return BRAID_OK;
}

/* Places the trees; returns how many bounds they have. */
static size_t lay_out(braid_cluster_router *router, const braid_cluster_target *targets, size_t count) {
  size_t at = 0, bounds = 0;
  for (size_t m = 0; m < router->model_count; m++) {
    grove *g = &router->groves[m];
    g->begin = at;
    while (at < count && targets[at].model == m) at++;
    g->count = at - g->begin;
    g->width = 1;
    while (g->width < g->count) g->width *= 2;
    g->tree = bounds;
    bounds += 2 * g->width;
  }
  return bounds;
}

static void list_nodes(braid_cluster_router *router, size_t count) {
  for (size_t i = 0; i < count; i++) router->node_begin[router->leaves[i].node + 1]++;
  for (size_t n = 0; n < router->node_count; n++) router->node_begin[n + 1] += router->node_begin[n];
  for (size_t i = count; i-- > 0;) { /* each begin is moved to its end and back */
    size_t node = router->leaves[i].node;
    router->node_leaves[--router->node_begin[node + 1]] = i;
  }
  for (size_t n = 0; n < router->node_count; n++) router->node_begin[n] = router->node_begin[n + 1];
  router->node_begin[router->node_count] = count;
}

braid_status braid_cluster_router_create(const braid_cluster_target *targets, size_t count, size_t node_count,
                                         size_t model_count, const braid_allocator *allocator,
                                         braid_cluster_router **out) {
  *out = NULL;
  BRAID_TRY(check_targets(targets, count, node_count, model_count));
  braid_cluster_router *router = braid_zalloc(allocator, sizeof *router);
  if (!router) return BRAID_NO_MEMORY;
  *router = (braid_cluster_router){.allocator = allocator, .node_count = node_count, .model_count = model_count};
  router->groves = braid_zalloc_array(allocator, model_count, sizeof *router->groves);
  router->leaves = braid_zalloc_array(allocator, count, sizeof *router->leaves);
  router->free_ns = braid_zalloc_array(allocator, node_count, sizeof *router->free_ns);
  router->node_begin = braid_zalloc_array(allocator, node_count + 1, sizeof *router->node_begin);
  router->node_leaves = braid_zalloc_array(allocator, count, sizeof *router->node_leaves);
  bool whole = router->groves && router->leaves && router->free_ns && router->node_begin && router->node_leaves;
  size_t bounds = whole ? lay_out(router, targets, count) : 0;
  if (whole) router->bounds = braid_zalloc_array(allocator, bounds, sizeof *router->bounds);
  if (!router->bounds) {
    braid_cluster_router_destroy(router);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < count; i++)
    router->leaves[i] = (leaf){targets[i].model, targets[i].node, targets[i].service_ns, false};
  if (count > 1) qsort(router->leaves, count, sizeof *router->leaves, compare_leaves);
  list_nodes(router, count);
  for (size_t i = 0; i < bounds; i++) router->bounds[i] = (bound){NEVER, NEVER};
  for (size_t i = 0; i < count; i++) set_leaf(router, i);
  *out = router;
  return BRAID_OK;
}

void braid_cluster_router_destroy(braid_cluster_router *router) {
  if (!router) return;
  braid_free(router->allocator, router->groves);
  braid_free(router->allocator, router->leaves);
  braid_free(router->allocator, router->bounds);
  braid_free(router->allocator, router->free_ns);
  braid_free(router->allocator, router->node_begin);
  braid_free(router->allocator, router->node_leaves);
  braid_free(router->allocator, router);
}

/* --- using it ------------------------------------------------------------------------------------------------------
 */
void braid_cluster_router_set_free(braid_cluster_router *router, size_t node, int64_t free_ns) {
  if (router->free_ns[node] == free_ns) return;
  router->free_ns[node] = free_ns;
  for (size_t i = router->node_begin[node]; i < router->node_begin[node + 1]; i++)
    set_leaf(router, router->node_leaves[i]);
}

int64_t braid_cluster_router_free(const braid_cluster_router *router, size_t node) {
  return router->free_ns[node];
}

void braid_cluster_router_open(braid_cluster_router *router, size_t model, size_t node, bool open) {
  for (size_t i = router->node_begin[node]; i < router->node_begin[node + 1]; i++) {
    leaf *l = &router->leaves[router->node_leaves[i]];
    if (l->model != model || l->closed == !open) continue;
    l->closed = !open;
    set_leaf(router, router->node_leaves[i]);
  }
}

typedef struct seeking {
  const braid_cluster_router *router;
  const grove *grove;
  int64_t now;
  const size_t *refused;
  size_t refused_count;
  braid_cluster_route best;
} seeking;

static int64_t earliest(const seeking *s, size_t at) {
  const bound *b = &s->router->bounds[s->grove->tree + at];
  int64_t idle = sum(s->now, b->service);
  return b->end > idle ? b->end : idle;
}

/* Looks through the part of the tree below `at`, the half that promises more first. */
static void seek(seeking *s, size_t at) {
  if (earliest(s, at) >= s->best.end_ns) return;
  if (at < s->grove->width) {
    size_t first = 2 * at + (earliest(s, 2 * at + 1) < earliest(s, 2 * at));
    seek(s, first);
    seek(s, first ^ 1);
    return;
  }
  size_t node = s->router->leaves[s->grove->begin + at - s->grove->width].node;
  for (size_t i = 0; i < s->refused_count; i++)
    if (s->refused[i] == node) return;
  s->best = (braid_cluster_route){node, earliest(s, at)};
}

braid_cluster_route braid_cluster_choose(const braid_cluster_router *router, size_t model, int64_t now_ns,
                                         int64_t deadline_ns, const size_t *refused, size_t refused_count) {
  seeking s = {router, &router->groves[model], now_ns, refused, refused_count, {NONE, NEVER}};
  seek(&s, 1);
  if (deadline_ns && s.best.end_ns > deadline_ns) s.best.node = NONE;
  return s.best;
}
