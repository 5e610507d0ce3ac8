/* Nodes that are not as the others: with another token, and with other files under a model's name. Who shows another
 * token than most is refused by them anyway, and gets no orders; whose files are others than most nodes' is not asked
 * for that model. Both are told. */
#include <stdio.h>
#include <string.h>

#include "base/fnv.h"
#include "serve/cluster/node.h"

void braid_cluster_prove(braid_serve_cluster *cluster) {
  uint8_t mac[BRAID_SHA256_BYTES];
  braid_sha256_mac(cluster->token, strlen(cluster->token), cluster->prefix, strlen(cluster->prefix), mac);
  braid_sha256_text(mac, sizeof mac, cluster->proof);
}

bool braid_cluster_is_apart(const braid_serve_cluster *cluster, const braid_cluster_member *member) {
  return strcmp(member->proof, cluster->roster.proof) != 0;
}

bool braid_cluster_is_odd(const braid_serve_cluster *cluster) {
  return cluster->roster.proof[0] && strcmp(cluster->proof, cluster->roster.proof) != 0;
}

const braid_cluster_holding *braid_cluster_offer(const braid_serve_cluster *cluster, const braid_cluster_member *member,
                                                 const char *model) {
  if (strcmp(member->name, cluster->node) == 0 || strcmp(member->proof, cluster->proof) != 0) return NULL;
  const braid_cluster_holding *holding = braid_cluster_member_holding(member, model);
  return holding && !braid_cluster_roster_differs(&cluster->roster, holding) ? holding : NULL;
}

/* --- what is told of it --------------------------------------------------------------------------------------------
 */
static void say_apart(braid_serve_cluster *cluster, const braid_cluster_member *member) {
  if (strcmp(member->name, cluster->node) == 0)
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: %s", BRAID_CLUSTER_ODD);
  else if (!braid_cluster_is_odd(cluster))
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING,
                    "the cluster: node %s at %s has another token than most: it gets no orders and is sent nothing",
                    member->name, member->address);
}

static void say_files(braid_serve_cluster *cluster, const braid_cluster_member *member,
                      const braid_cluster_holding *holding) {
  const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, holding->model);
  braid_log_write(cluster->server->log, BRAID_LOG_WARNING,
                  "the cluster: node %s has other files of model %s (SHA-256 %.12s...) than the cluster (%.12s...): it "
                  "is not asked for that model",
                  member->name, holding->model, holding->sum, order->sum);
}

/* All that differs, as a number; `say`: and into the log. */
static uint64_t look(braid_serve_cluster *cluster, bool say) {
  const braid_cluster_roster *roster = &cluster->roster;
  uint64_t all = 0; /* in whatever order they stand */
  for (size_t i = 0; i < roster->member_count; i++) {
    const braid_cluster_member *member = &roster->members[i];
    uint64_t key = braid_fnv_mix(BRAID_FNV_START, member->instance, strlen(member->instance));
    bool apart = braid_cluster_is_apart(cluster, member);
    if (apart) all += key;
    if (apart && say) say_apart(cluster, member);
    for (size_t k = 0; k < member->holding_count; k++) {
      const braid_cluster_holding *holding = &member->holdings[k];
      if (!braid_cluster_roster_differs(roster, holding)) continue;
      uint64_t more = braid_fnv_mix(key, holding->model, strlen(holding->model));
      all += braid_fnv_mix(more, holding->sum, strlen(holding->sum));
      if (say) say_files(cluster, member, holding);
    }
  }
  return all;
}

void braid_cluster_tell(braid_serve_cluster *cluster) {
  uint64_t differences = look(cluster, false);
  if (differences && differences != cluster->differences) (void)look(cluster, true);
  cluster->differences = differences;
}
