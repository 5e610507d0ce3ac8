/* Which node a request is sent to: by routing_policy.h, as in the simulator, from what the nodes say of themselves
 * twice a second, what we have sent them since, and how long the way there and back was.
 *
 * A deadline is not the choice's: the node itself decides whether it can be made, by newer numbers than ours. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/vector.h"
#include "serve/cluster/node.h"
#include "serve/cluster/placement_policy.h"
#include "serve/cluster/routing_policy.h"

static const double kUnknownSeconds = 1e-3; /* of a request, where nothing is measured yet */
static const double kWayPart = 1.0 / 8;     /* that the last way counts */

/* --- ways ----------------------------------------------------------------------------------------------------------
 */
static cluster_way *find_way(const braid_serve_cluster *cluster, const char *address) {
  for (size_t i = 0; i < cluster->way_count; i++)
    if (strcmp(cluster->ways[i].address, address) == 0) return &cluster->ways[i];
  return NULL;
}

static void learn_way(braid_serve_cluster *cluster, const char *address, double seconds) {
  cluster_way *way = find_way(cluster, address);
  if (way) {
    way->seconds += kWayPart * (seconds - way->seconds);
    return;
  }
  size_t at = cluster->way_count;
  if (at == BRAID_CLUSTER_MEMBERS) at = cluster->way_count = 0; /* of nodes that were: all are learned anew */
  way = braid_grow(NULL, cluster->ways, at, &cluster->way_room, sizeof *way);
  if (!way) return;
  cluster->ways = way;
  way[cluster->way_count++] = (cluster_way){.seconds = seconds};
  snprintf(way[at].address, sizeof way[at].address, "%s", address);
}

void braid_cluster_errand_begin(braid_serve_cluster *cluster, cluster_errand *errand) {
  errand->sent_ns = braid_now_ns();
  errand->next = cluster->errands;
  cluster->errands = errand;
}

void braid_cluster_errand_end(braid_serve_cluster *cluster, const cluster_errand *errand, int64_t there_ns) {
  cluster_errand **at = &cluster->errands;
  while (*at != errand) at = &(*at)->next;
  *at = errand->next;
  int64_t way_ns = braid_now_ns() - errand->sent_ns - there_ns;
  if (there_ns >= 0) learn_way(cluster, errand->address, way_ns > 0 ? (double)way_ns * 1e-9 : 0);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* Of a request there of those that it has had of late; of `model` where it has had none. */
static double usual_seconds(const braid_cluster_member *member, double model_s) {
  double requests = 0, seconds = 0;
  for (size_t i = 0; i < member->holding_count; i++) {
    const braid_cluster_holding *holding = &member->holdings[i];
    if (!(holding->seconds > 0)) continue;
    requests += holding->requests_per_s;
    seconds += holding->requests_per_s * holding->seconds;
  }
  return requests > 0 ? seconds / requests : model_s;
}

/* When one of its instances is through with what the node has. It has what it said, less what it has done since, and
 * what we have sent since; and no less than what we wait for. */
static int64_t free_ns(const braid_serve_cluster *cluster, const braid_cluster_member *member, double seconds,
                       int64_t now) {
  double instances = (double)member->instances, waiting = (double)member->waiting, sent = 0, ours = 0;
  for (const cluster_errand *errand = cluster->errands; errand; errand = errand->next) {
    if (strcmp(errand->address, member->address) != 0) continue;
    ours += seconds;
    if (errand->sent_ns > member->seen_ns) sent += seconds;
  }
  double had = (waiting > 0 ? waiting + instances : member->busy * instances) * usual_seconds(member, seconds);
  had -= (double)(now - member->seen_ns) * 1e-9 * instances;
  double work = (had > 0 ? had : 0) + sent;
  if (work < ours) work = ours;
  work -= (instances - 1) * seconds; /* fewer than there are instances keep nobody waiting */
  return work > 0 ? now + (int64_t)(work / instances * 1e9) : now;
}

typedef struct targets {
  const braid_cluster_member *members[BRAID_CLUSTER_MEMBERS];
  braid_cluster_target list[BRAID_CLUSTER_MEMBERS];
  int64_t free_ns[BRAID_CLUSTER_MEMBERS];
  size_t count;
} targets;

/* Another node that holds the model and may be asked. */
static const braid_cluster_holding *find_holding(const braid_serve_cluster *cluster, const char *model,
                                                 const braid_cluster_member *member, const cluster_refusals *refusals,
                                                 int64_t now) {
  const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, model);
  if (!holding || holding->state != BRAID_CLUSTER_READY || braid_cluster_is_down(cluster, member->address, now))
    return NULL;
  for (size_t i = 0; i < refusals->count; i++)
    if (strcmp(refusals->addresses[i], member->address) == 0) return NULL;
  return holding;
}

/* Of those that are silent, or that are not. */
static void find_targets(const braid_serve_cluster *cluster, const char *model, const cluster_refusals *refusals,
                         bool silent, int64_t now, targets *out) {
  const braid_cluster_roster *roster = &cluster->roster;
  double longest = 0;
  out->count = 0;
  for (size_t i = 0; i < roster->member_count; i++) {
    const braid_cluster_member *member = &roster->members[i];
    const braid_cluster_holding *holding = find_holding(cluster, model, member, refusals, now);
    if (holding && holding->seconds > longest) longest = holding->seconds;
    if (holding && braid_cluster_is_silent(cluster, member) == silent) out->members[out->count++] = member;
  }
  for (size_t i = 0; i < out->count; i++) {
    const cluster_way *way = find_way(cluster, out->members[i]->address);
    double seconds = braid_cluster_member_holding(out->members[i], model)->seconds;
    if (!(seconds > 0)) seconds = longest > 0 ? longest : kUnknownSeconds;
    double whole = seconds + (way ? way->seconds : 0);
    out->free_ns[i] = free_ns(cluster, out->members[i], seconds, now);
    out->list[i] = (braid_cluster_target){.model = 0, .node = i, .service_ns = (int64_t)(whole * 1e9)};
  }
}

const braid_cluster_member *braid_cluster_choose_node(const braid_serve_cluster *cluster, const char *model,
                                                      const cluster_refusals *refusals) {
  int64_t now = braid_now_ns();
  targets t;
  braid_cluster_router *router;
  find_targets(cluster, model, refusals, false, now, &t);
  if (!t.count) find_targets(cluster, model, refusals, true, now, &t);
  if (!t.count || braid_cluster_router_create(t.list, t.count, t.count, 1, NULL, &router) != BRAID_OK) return NULL;
  for (size_t i = 0; i < t.count; i++) braid_cluster_router_set_free(router, i, t.free_ns[i]);
  braid_cluster_route route = braid_cluster_choose(router, 0, now, 0, NULL, 0);
  braid_cluster_router_destroy(router);
  return route.node == BRAID_CLUSTER_NONE ? NULL : t.members[route.node];
}
