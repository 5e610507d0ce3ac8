/* Nodes that hang (SIGSTOP, a frozen virtual machine) write nothing of themselves any more, long before their lease is
 * over. The control node may place their models elsewhere then, and the next candidate may stand in for a control node
 * that is silent: every transaction so made compares that the silent nodes have not written meanwhile, and the orders'
 * revisions, so that a node that wakes up finds orders that it can follow, and undoes none. */
#include <string.h>

#include "base/clock.h"
#include "serve/cluster/node.h"

static const int64_t kMs = 1000000;

bool braid_cluster_is_silent(const braid_serve_cluster *cluster, const braid_cluster_member *member) {
  return braid_cluster_roster_is_silent(&cluster->roster, cluster->node, member, BRAID_CLUSTER_SILENT_MS * kMs);
}

/* Of many that are silent at once the fault is more likely etcd's or ours, and their leases tell. */
static bool most_write(const braid_serve_cluster *cluster) {
  size_t silent = 0;
  for (size_t i = 0; i < cluster->roster.member_count; i++)
    silent += braid_cluster_is_silent(cluster, &cluster->roster.members[i]);
  return silent <= BRAID_CLUSTER_MOST_SILENT && 2 * silent <= cluster->roster.member_count;
}

bool braid_cluster_is_given_up(const braid_serve_cluster *cluster, const braid_cluster_member *member) {
  return braid_cluster_is_silent(cluster, member) && most_write(cluster);
}

const braid_cluster_candidate *braid_cluster_control(const braid_serve_cluster *cluster) {
  const braid_cluster_roster *roster = &cluster->roster;
  const braid_cluster_candidate *first = NULL;
  for (size_t i = 0; i < roster->candidate_count; i++) {
    const braid_cluster_candidate *candidate = &roster->candidates[i];
    const braid_cluster_member *member = braid_cluster_roster_member(roster, candidate->node);
    if (member && (braid_cluster_is_given_up(cluster, member) || braid_cluster_is_apart(cluster, member))) continue;
    if (!first || candidate->revision < first->revision) first = candidate;
  }
  return first;
}

bool braid_cluster_is_suspect(const braid_serve_cluster *cluster, const char *node, int64_t now) {
  for (size_t i = 0; i < BRAID_CLUSTER_MOST_SILENT; i++)
    if (now < cluster->suspects[i].until_ns && strcmp(cluster->suspects[i].node, node) == 0) return true;
  return false;
}

/* The node's place among the suspects, or the one that is forgotten first. */
static cluster_suspect *find_suspect(braid_serve_cluster *cluster, const char *node) {
  cluster_suspect *oldest = cluster->suspects;
  for (size_t i = 0; i < BRAID_CLUSTER_MOST_SILENT; i++) {
    cluster_suspect *suspect = &cluster->suspects[i];
    if (strcmp(suspect->node, node) == 0) return suspect;
    if (suspect->until_ns < oldest->until_ns) oldest = suspect;
  }
  return oldest;
}

void braid_cluster_watch(braid_serve_cluster *cluster, int64_t now) {
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    if (!braid_cluster_is_given_up(cluster, member)) continue;
    if (!braid_cluster_is_suspect(cluster, member->name, now))
      braid_log_write(cluster->server->log, BRAID_LOG_WARNING,
                      "the cluster: node %s has written nothing of itself for %d ms; what it holds may go elsewhere",
                      member->name, BRAID_CLUSTER_SILENT_MS);
    cluster_suspect *suspect = find_suspect(cluster, member->name);
    memcpy(suspect->node, member->name, sizeof suspect->node);
    suspect->until_ns = now + BRAID_CLUSTER_MISTRUST_MS * kMs;
  }
}
