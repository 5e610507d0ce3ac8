/* What a daemon tells of its cluster: for people, and for Prometheus. */
#include <stdio.h>
#include <string.h>

#include "serve/cluster/node.h"

/* What is wrong with a node, in a sentence. */
static void add_trouble(const braid_serve_cluster *cluster, const braid_cluster_member *member, braid_text *text) {
  char trouble[BRAID_SERVE_DETAIL] = "";
  size_t used = 0;
  for (size_t i = 0; i < member->holding_count && used < sizeof trouble; i++)
    if (braid_cluster_roster_differs(&cluster->roster, &member->holdings[i]))
      used += (size_t)snprintf(trouble + used, sizeof trouble - used, "%s%s",
                               used ? ", " : "it has other files than the cluster of ", member->holdings[i].model);
  for (size_t i = 0; i < member->holding_count && used + 2 < sizeof trouble; i++) {
    const braid_cluster_holding *holding = &member->holdings[i];
    if (strncmp(holding->reason, BRAID_CLUSTER_UNFETCHED, strlen(BRAID_CLUSTER_UNFETCHED)) != 0) continue;
    used += (size_t)snprintf(trouble + used, sizeof trouble - used, "%smodel %s: %s", used ? "; " : "", holding->model,
                             holding->reason);
  }
  if (braid_cluster_is_silent(cluster, member))
    snprintf(trouble, sizeof trouble, "it has written nothing of itself for more than %d ms", BRAID_CLUSTER_SILENT_MS);
  if (braid_cluster_is_apart(cluster, member))
    snprintf(trouble, sizeof trouble, "its token is not that of most nodes: it gets no orders and is sent nothing");
  braid_text_add(text, ",\"trouble\":");
  braid_text_add_json(text, trouble);
}

static void add_member(const braid_serve_cluster *cluster, const braid_cluster_member *member,
                       const braid_cluster_candidate *leader, braid_text *text) {
  size_t ready = 0;
  for (size_t i = 0; i < member->holding_count; i++) ready += member->holdings[i].state == BRAID_CLUSTER_READY;
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, member->name);
  braid_text_add(text, ",\"address\":");
  braid_text_add_json(text, member->address);
  braid_text_add(text, ",\"devices\":");
  braid_text_add_json(text, member->devices);
  braid_text_printf(text, ",\"self\":%s,\"control\":%s,\"busy\":%.4f,\"waiting\":%lld,\"instances\":%lld,\"ready\":%zu",
                    strcmp(member->name, cluster->node) == 0 ? "true" : "false",
                    leader && strcmp(member->name, leader->node) == 0 ? "true" : "false", member->busy,
                    (long long)member->waiting, (long long)member->instances, ready);
  add_trouble(cluster, member, text);
  braid_text_add(text, "}");
}

static void add_order(const braid_serve_cluster *cluster, const braid_cluster_order *order, braid_text *text) {
  braid_text_add(text, "{\"model\":");
  braid_text_add_json(text, order->model);
  braid_text_add(text, ",\"nodes\":[");
  for (size_t i = 0; i < order->node_count; i++) {
    const braid_cluster_member *member = braid_cluster_roster_member(&cluster->roster, order->nodes[i]);
    const braid_cluster_holding *holding = member ? braid_cluster_member_holding(member, order->model) : NULL;
    braid_text_add(text, i ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(text, order->nodes[i]);
    braid_text_printf(text, ",\"state\":\"%s\"}", holding ? braid_cluster_state_name(holding->state) : "lost");
  }
  braid_text_add(text, "],\"reason\":");
  braid_text_add_json(text, order->reason);
  braid_text_printf(text, ",\"sha256\":\"%s\"}", order->sum);
}

void braid_serve_cluster_report(braid_serve_cluster *cluster, braid_text *text) {
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_roster *roster = &cluster->roster;
  const braid_cluster_candidate *leader = braid_cluster_control(cluster);
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, cluster->config->name);
  braid_text_add(text, ",\"node\":");
  braid_text_add_json(text, cluster->node);
  braid_text_printf(text, ",\"registered\":%s,\"etcd\":", braid_cluster_is_registered(cluster) ? "true" : "false");
  braid_text_add_json(text, cluster->trouble[0] ? cluster->trouble : "answers");
  braid_text_add(text, ",\"trouble\":");
  braid_text_add_json(text, braid_cluster_is_odd(cluster) ? BRAID_CLUSTER_ODD : "");
  braid_text_add(text, ",\"control\":");
  braid_text_add_json(text, leader ? leader->node : "");
  braid_text_printf(text, ",\"revision\":%lld,\"nodes\":[", (long long)roster->revision);
  for (size_t i = 0; i < roster->member_count; i++) {
    if (i) braid_text_add(text, ",");
    add_member(cluster, &roster->members[i], leader, text);
  }
  braid_text_add(text, "],\"placement\":[");
  for (size_t i = 0; i < roster->order_count; i++) {
    if (i) braid_text_add(text, ",");
    add_order(cluster, &roster->orders[i], text);
  }
  const cluster_counters *counters = &cluster->counters;
  braid_text_printf(text, "],\"bulk\":\"%s\",\"fetched_bytes\":{\"ucx\":%llu,\"wire\":%llu},\"bulk_given_up\":%llu",
                    cluster->ucx[0] ? cluster->config->bulk : "wire", (unsigned long long)counters->carried.ucx,
                    (unsigned long long)counters->carried.wire, (unsigned long long)counters->carried.given_up);
  braid_text_printf(
      text,
      ",\"fetched\":%llu,\"forwarded\":%llu,\"retried\":%llu,\"failed\":%llu,\"taken_back\":%llu,\"orders\":%llu,"
      "\"malformed_keys\":%llu}",
      (unsigned long long)counters->fetched, (unsigned long long)counters->forwarded,
      (unsigned long long)counters->retried, (unsigned long long)counters->failed,
      (unsigned long long)counters->taken_back, (unsigned long long)counters->orders,
      (unsigned long long)roster->refused);
  pthread_mutex_unlock(&cluster->lock);
}

static void add_metric(braid_text *text, const char *name, const char *type, const char *help, uint64_t value) {
  braid_text_printf(text, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
                    (unsigned long long)value);
}

void braid_serve_cluster_metrics(braid_serve_cluster *cluster, braid_text *text) {
  pthread_mutex_lock(&cluster->lock);
  cluster_counters counters = cluster->counters;
  uint64_t nodes = cluster->roster.member_count, registered = braid_cluster_is_registered(cluster);
  uint64_t leads = cluster->leads && registered;
  pthread_mutex_unlock(&cluster->lock);
  add_metric(text, "braid_cluster_registered", "gauge", "Whether this node's lease in etcd is not over", registered);
  add_metric(text, "braid_cluster_control", "gauge", "Whether this node is the control node", leads);
  add_metric(text, "braid_cluster_nodes", "gauge", "Nodes that are registered, as seen here", nodes);
  add_metric(text, "braid_cluster_forwarded_total", "counter", "Requests that other nodes have answered",
             counters.forwarded);
  add_metric(text, "braid_cluster_retried_total", "counter", "Nodes that did not answer a request, which went on",
             counters.retried);
  add_metric(text, "braid_cluster_failed_total", "counter", "Requests for other nodes that were not answered",
             counters.failed);
  braid_text_printf(text,
                    "# HELP braid_cluster_fetched_bytes_total Bytes of models' files that came from other nodes\n"
                    "# TYPE braid_cluster_fetched_bytes_total counter\n"
                    "braid_cluster_fetched_bytes_total{transport=\"ucx\"} %llu\n"
                    "braid_cluster_fetched_bytes_total{transport=\"wire\"} %llu\n",
                    (unsigned long long)counters.carried.ucx, (unsigned long long)counters.carried.wire);
  add_metric(text, "braid_cluster_bulk_given_up_total", "counter",
             "Files that were to come by UCX, and came by Braid's protocol", counters.carried.given_up);
  add_metric(text, "braid_cluster_etcd_lost_total", "counter", "How often etcd did not answer any more",
             counters.etcd_lost);
}
