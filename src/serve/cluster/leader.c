/* The control node: from what the nodes say to which is to hold what (placement_policy.h), written in transactions that
 * etcd refuses to whoever is not the control node any more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fnv.h"
#include "base/vector.h"
#include "serve/cluster/node.h"
#include "serve/cluster/placement_policy.h"

enum { DECIDE_MS = 1000, WRITES = 40, FENCES = 1 + BRAID_CLUSTER_MOST_SILENT };
_Static_assert((int)WRITES + (int)FENCES <= (int)BRAID_ETCD_OPS, "they fit into a transaction");
static const int64_t kMs = 1000000;
static const double kUnknownSeconds = 1e-3; /* of a request, where nothing is measured yet */
static const double kMostBusy = 0.7, kLot = 0.02;

/* The problem with the names that its numbers stand for. */
typedef struct situation {
  braid_cluster_problem problem;
  const braid_serve_cluster *cluster;
  const char **nodes, **models; /* of the roster */
  const char **sums;            /* of each model's files, as most nodes have them; "": nobody says */
  braid_cluster_node *node_list;
  braid_cluster_model *model_list;
  double *seconds;
  braid_cluster_replica *present;
  size_t node_room, model_room;
} situation;

static void situation_free(situation *s) {
  braid_free(NULL, s->nodes);
  braid_free(NULL, s->models);
  braid_free(NULL, s->sums);
  braid_free(NULL, s->node_list);
  braid_free(NULL, s->model_list);
  braid_free(NULL, s->seconds);
  braid_free(NULL, s->present);
}

static size_t index_of(const char *const *names, size_t count, const char *name) {
  size_t at = 0;
  while (at < count && strcmp(names[at], name) != 0) at++;
  return at;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the name, if it is new; false: no memory. */
static bool add_name(const char ***names, size_t *count, size_t *room, const char *name) {
  if (index_of(*names, *count, name) < *count) return true;
  const char **grown = braid_grow(NULL, *names, *count, room, sizeof **names);
  if (!grown) return false;
  *names = grown;
  grown[(*count)++] = name;
  return true;
}

static bool is_able(const braid_cluster_holding *holding) {
  return holding && holding->state != BRAID_CLUSTER_UNABLE;
}

/* A node that may have orders; NULL: it is not there, or apart. */
static const braid_cluster_member *find_member(const braid_serve_cluster *cluster, const char *node) {
  const braid_cluster_member *member = braid_cluster_roster_member(&cluster->roster, node);
  return member && !braid_cluster_is_apart(cluster, member) ? member : NULL;
}

/* What the n-th node has of the m-th model; NULL: it cannot hold it, or has other files. */
static const braid_cluster_holding *find_able(const situation *s, size_t n, size_t m) {
  const braid_cluster_member *member = find_member(s->cluster, s->nodes[n]);
  const braid_cluster_holding *holding = member ? braid_cluster_member_holding(member, s->models[m]) : NULL;
  bool other = holding && s->sums[m][0] && holding->sum[0] && strcmp(s->sums[m], holding->sum) != 0;
  return is_able(holding) && !other ? holding : NULL;
}

/* The sum of the model's files on a node that is not apart; "": it has none. */
static const char *sum_on(const braid_serve_cluster *cluster, size_t member, const char *model) {
  const braid_cluster_member *m = &cluster->roster.members[member];
  const braid_cluster_holding *holding = braid_cluster_member_holding(m, model);
  return holding && !braid_cluster_is_apart(cluster, m) ? holding->sum : "";
}

/* The files that most nodes have; of as many, those that the order says, and else the oldest node's. */
static const char *find_sum(const braid_serve_cluster *cluster, const char *model) {
  const braid_cluster_roster *roster = &cluster->roster;
  const braid_cluster_order *order = braid_cluster_roster_order(roster, model);
  const char *best = order ? order->sum : "";
  size_t most = 0;
  int64_t oldest = INT64_MAX;
  for (size_t i = 0; i < roster->member_count; i++) {
    const char *sum = sum_on(cluster, i, model);
    size_t count = 0;
    if (!sum[0]) continue;
    for (size_t k = 0; k < roster->member_count; k++) count += strcmp(sum_on(cluster, k, model), sum) == 0;
    int64_t age = order && strcmp(order->sum, sum) == 0 ? 0 : roster->members[i].revision;
    if (count < most || (count == most && age >= oldest)) continue;
    best = sum;
    most = count;
    oldest = age;
  }
  return best;
}

/* Names of nodes that are there or that orders name, and of models that some node can hold; in alphabetical order, so
 * that the same situation is the same problem. */
static bool name_all(const braid_serve_cluster *cluster, situation *s) {
  const braid_cluster_roster *roster = &cluster->roster;
  braid_cluster_problem *p = &s->problem;
  bool whole = true;
  for (size_t i = 0; i < roster->member_count && whole; i++) {
    const braid_cluster_member *member = &roster->members[i];
    if (braid_cluster_is_apart(cluster, member)) continue;
    whole = add_name(&s->nodes, &p->node_count, &s->node_room, member->name);
    for (size_t k = 0; k < member->holding_count && whole; k++)
      if (is_able(&member->holdings[k]))
        whole = add_name(&s->models, &p->model_count, &s->model_room, member->holdings[k].model);
  }
  for (size_t i = 0; i < roster->order_count && whole; i++)
    for (size_t k = 0; k < roster->orders[i].node_count && whole; k++)
      whole = add_name(&s->nodes, &p->node_count, &s->node_room, roster->orders[i].nodes[k]);
  if (whole && p->node_count) qsort(s->nodes, p->node_count, sizeof *s->nodes, compare_names);
  if (whole && p->model_count) qsort(s->models, p->model_count, sizeof *s->models, compare_names);
  return whole;
}

/* No node sleeps: one without models draws what it draws idle. Where nobody says what nodes draw all are alike. */
static void describe_power(const situation *s, braid_cluster_node *nodes) {
  bool any = false;
  for (size_t i = 0; i < s->problem.node_count; i++) {
    const braid_cluster_member *member = find_member(s->cluster, s->nodes[i]);
    nodes[i].power_known = member && member->busy_watts > 0;
    any |= nodes[i].power_known;
    if (!nodes[i].power_known) continue;
    nodes[i].asleep_watts = nodes[i].idle_watts = member->idle_watts;
    nodes[i].busy_watts = member->busy_watts;
  }
  for (size_t i = 0; !any && i < s->problem.node_count; i++) {
    nodes[i].power_known = true;
    nodes[i].asleep_watts = nodes[i].idle_watts = 1;
    nodes[i].busy_watts = 2;
  }
}

/* One that was silent a while ago counts as lost: it is given nothing new, so that one that is merely slow does not
 * get and lose models all the time. */
static void describe_nodes(int64_t now, situation *s) {
  for (size_t i = 0; i < s->problem.node_count; i++) {
    const braid_cluster_member *member = find_member(s->cluster, s->nodes[i]);
    bool alive = member && !braid_cluster_is_suspect(s->cluster, s->nodes[i], now);
    s->node_list[i] = (braid_cluster_node){.alive = alive,
                                           .kind = i,
                                           .slow = 1,
                                           .instances = member ? (size_t)member->instances : 1,
                                           .memory_bytes = member ? member->memory_bytes : 0};
  }
  describe_power(s, s->node_list);
}

/* Demand falls slowly, so that a pause unloads nothing. */
static double demand_remember(braid_serve_cluster *cluster, const char *model, double requests_per_s) {
  cluster_demand *demand = cluster->demands;
  size_t at = 0;
  while (at < cluster->demand_count && strcmp(demand[at].model, model) != 0) at++;
  if (at == cluster->demand_count) {
    demand = braid_grow(NULL, demand, at, &cluster->demand_room, sizeof *demand);
    if (!demand) return requests_per_s;
    cluster->demands = demand;
    cluster->demand_count++;
    snprintf(demand[at].model, sizeof demand[at].model, "%s", model);
  }
  demand[at].requests_per_s = fmax(requests_per_s, demand[at].requests_per_s * 0.95);
  if (demand[at].requests_per_s < 0.01) demand[at].requests_per_s = 0;
  return demand[at].requests_per_s;
}

/* Of nodes that are as good as each other the policy takes the faster: a hash of both names makes one so, by up to
 * kLot, and another for each model, so that models spread over nodes. */
static double draw_lot(const char *node, const char *model) {
  uint64_t key = braid_fnv_mix(braid_fnv_mix(BRAID_FNV_START, node, strlen(node) + 1), model, strlen(model));
  key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd); /* MurmurHash3's finalizer: names differ in few bits */
  key = (key ^ key >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return 1 + kLot * (double)(key >> 48) / 65536;
}

static void describe_models(braid_serve_cluster *cluster, situation *s) {
  const braid_cluster_problem *p = &s->problem;
  for (size_t m = 0; m < p->model_count; m++) {
    braid_cluster_model *model = &s->model_list[m];
    double wanted = 0, longest = 0;
    *model = (braid_cluster_model){.memory_bytes = 1, .least = (size_t)cluster->config->copies};
    s->sums[m] = find_sum(cluster, s->models[m]);
    for (size_t n = 0; n < p->node_count; n++) {
      const braid_cluster_holding *holding = find_able(s, n, m);
      if (!holding) continue;
      wanted += holding->requests_per_s;
      longest = fmax(longest, holding->seconds);
      if (holding->bytes > model->memory_bytes) model->memory_bytes = holding->bytes;
    }
    for (size_t n = 0; n < p->node_count; n++) {
      const braid_cluster_holding *holding = find_able(s, n, m);
      double seconds = longest > 0 ? longest : kUnknownSeconds;
      if (holding && holding->seconds > 0) seconds = holding->seconds;
      seconds *= draw_lot(s->nodes[n], s->models[m]);
      s->seconds[n * p->model_count + m] = holding ? seconds : 0;
    }
    model->requests_per_s = demand_remember(cluster, s->models[m], wanted);
    model->most = BRAID_CLUSTER_COPIES;
  }
}

static void describe_present(const braid_cluster_roster *roster, situation *s) {
  braid_cluster_problem *p = &s->problem;
  for (size_t m = 0; m < p->model_count; m++) {
    const braid_cluster_order *order = braid_cluster_roster_order(roster, s->models[m]);
    double each = order && order->node_count ? s->model_list[m].requests_per_s / (double)order->node_count : 0;
    for (size_t n = 0; order && n < p->node_count; n++)
      if (braid_cluster_order_names(order, s->nodes[n]))
        s->present[p->present_count++] = (braid_cluster_replica){.model = m, .node = n, .requests_per_s = each};
  }
}

/* False: no memory. */
static bool situation_describe(braid_serve_cluster *cluster, situation *s) {
  braid_cluster_problem *p = &s->problem;
  *s = (situation){.cluster = cluster, .problem = {.most_busy = kMostBusy, .cap_watts = INFINITY}};
  if (!name_all(cluster, s)) return false;
  p->kind_count = p->node_count;
  s->node_list = braid_zalloc_array(NULL, p->node_count + 1, sizeof *s->node_list);
  s->model_list = braid_zalloc_array(NULL, p->model_count + 1, sizeof *s->model_list);
  s->seconds = braid_zalloc_array(NULL, p->node_count * p->model_count + 1, sizeof *s->seconds);
  s->present = braid_zalloc_array(NULL, p->model_count * BRAID_CLUSTER_COPIES + 1, sizeof *s->present);
  s->sums = braid_zalloc_array(NULL, p->model_count + 1, sizeof *s->sums);
  if (!s->sums || !s->node_list || !s->model_list || !s->seconds || !s->present) return false;
  describe_nodes(braid_now_ns(), s);
  describe_models(cluster, s);
  describe_present(&cluster->roster, s);
  p->nodes = s->node_list;
  p->models = s->model_list;
  p->seconds = s->seconds;
  p->present = s->present;
  return true;
}

/* --- orders --------------------------------------------------------------------------------------------------------
 */
static const char *name_of(const void *context, bool is_node, size_t index) {
  const situation *s = context;
  return (is_node ? s->nodes : s->models)[index];
}

/* Why the model's order is another one now: the policy's sentences of its moves, and what more copies fail at. */
static void order_explain(const situation *s, const braid_cluster_plan *plan, size_t model, char *text, size_t room) {
  size_t used = 0;
  *text = '\0';
  for (size_t i = 0; i < plan->move_count && used + 2 < room; i++) {
    if (plan->moves[i].model != model) continue;
    if (used) used += (size_t)snprintf(text + used, room - used, "; ");
    if (used >= room) break;
    braid_cluster_move_text(&plan->moves[i], name_of, s, text + used, room - used);
    used += strlen(text + used);
  }
  const braid_cluster_bounds *bounds = &plan->bounds[model];
  size_t nodes = 0; /* of those that are counted; none where nothing lacks */
  for (size_t i = 0; i < BRAID_CLUSTER_BOUNDS; i++) nodes += bounds->nodes[i];
  if (!nodes || bounds->replicas >= s->model_list[model].least || used + 2 >= room) return;
  used += (size_t)snprintf(text + used, room - used, "%s%zu of %zu copies: ", used ? "; " : "", bounds->replicas,
                           s->model_list[model].least);
  if (used < room) braid_cluster_bounds_text(bounds, text + used, room - used);
}

static bool orders_agree(const braid_cluster_order *a, const braid_cluster_order *b) {
  if (a->node_count != b->node_count) return false;
  for (size_t i = 0; i < a->node_count; i++)
    if (!braid_cluster_order_names(b, a->nodes[i])) return false;
  return true;
}

/* What a node that was silent has it keeps where nobody takes its place. */
static void keep_silent(const braid_serve_cluster *cluster, const braid_cluster_order *before, size_t copies,
                        braid_cluster_order *order) {
  int64_t now = braid_now_ns();
  for (size_t i = 0; before && i < before->node_count && order->node_count < copies; i++) {
    const char *node = before->nodes[i];
    if (braid_cluster_order_names(order, node) || !braid_cluster_is_suspect(cluster, node, now)) continue;
    if (find_member(cluster, node)) snprintf(order->nodes[order->node_count++], BRAID_CLUSTER_NAME, "%s", node);
  }
}

/* Orders that are others than those there are, up to WRITES; returns how many. */
static size_t find_changes(const braid_serve_cluster *cluster, const situation *s, const braid_cluster_plan *plan,
                           bool settled, braid_cluster_order *out) {
  const braid_cluster_roster *roster = &cluster->roster;
  size_t count = 0;
  for (size_t m = 0; m < s->problem.model_count && count < WRITES; m++) {
    const braid_cluster_order *before = braid_cluster_roster_order(roster, s->models[m]);
    braid_cluster_order *order = &out[count];
    if (!before && !settled) continue; /* nodes are still coming */
    *order = (braid_cluster_order){.revision = before ? before->revision : 0};
    snprintf(order->model, sizeof order->model, "%s", s->models[m]);
    for (size_t i = 0; i < plan->replica_count && order->node_count < BRAID_CLUSTER_COPIES; i++)
      if (plan->replicas[i].model == m)
        snprintf(order->nodes[order->node_count++], BRAID_CLUSTER_NAME, "%s", s->nodes[plan->replicas[i].node]);
    snprintf(order->sum, sizeof order->sum, "%s", s->sums[m]);
    keep_silent(cluster, before, s->model_list[m].least, order);
    bool same = before && orders_agree(before, order);
    if (same && strcmp(before->sum, order->sum) == 0) continue;
    if (same)
      memcpy(order->reason, before->reason, sizeof order->reason);
    else
      order_explain(s, plan, m, order->reason, sizeof order->reason);
    count++;
  }
  return count;
}

/* What has to be so still when orders are written: we are a candidate, and who is silent has written nothing; returns
 * how many there are. */
static size_t fence(const braid_serve_cluster *cluster, char (*keys)[300], braid_etcd_compare *out) {
  const braid_cluster_candidate *self = braid_cluster_control(cluster);
  size_t count = 0;
  snprintf(keys[0], sizeof keys[0], "%selection/%s", cluster->prefix, self->key);
  out[count++] = (braid_etcd_compare){.key = keys[0], .revision = self->revision};
  for (size_t i = 0; i < cluster->roster.member_count && count < FENCES; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    if (!braid_cluster_is_given_up(cluster, member)) continue;
    snprintf(keys[count], sizeof keys[count], "%snodes/%s", cluster->prefix, member->name);
    out[count] = (braid_etcd_compare){.key = keys[count], .modified = true, .revision = member->written};
    count++;
  }
  return count;
}

/* All of them, if we are still the control node and nobody has written meanwhile. */
static void write_orders(braid_serve_cluster *cluster, const braid_cluster_order *orders, size_t count) {
  braid_etcd_compare compares[WRITES + FENCES];
  braid_etcd_op ops[WRITES];
  char keys[WRITES + FENCES][300];
  braid_text texts[WRITES];
  bool done = false, whole = true;
  int64_t revision = 0;
  size_t fences = fence(cluster, &keys[count], &compares[count]);
  for (size_t i = 0; i < count; i++) {
    braid_text_init(&texts[i], NULL);
    braid_cluster_order_write(&orders[i], &texts[i]);
    whole &= !texts[i].failed;
    snprintf(keys[i], sizeof keys[i], "%sorders/%s", cluster->prefix, orders[i].model);
    compares[i] = (braid_etcd_compare){.key = keys[i], .modified = true, .revision = orders[i].revision};
    ops[i] = (braid_etcd_op){.key = keys[i], .value = texts[i].data};
  }
  braid_status status = whole
                            ? braid_etcd_transact(cluster->etcd, compares, count + fences, ops, count, &done, &revision)
                            : BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) braid_text_deinit(&texts[i]);
  if (status != BRAID_OK || !done) return; /* what others have written is seen first, and then decided anew */
  cluster->orders_revision = revision;
  pthread_mutex_lock(&cluster->lock);
  cluster->counters.orders += count;
  pthread_mutex_unlock(&cluster->lock);
  for (size_t i = 0; i < count; i++)
    braid_log_write(cluster->server->log, BRAID_LOG_INFO, "the cluster: model %s: %s", orders[i].model,
                    orders[i].reason);
}

static void leader_decide(braid_serve_cluster *cluster, bool settled) {
  situation s;
  braid_cluster_plan plan = {0};
  braid_cluster_order *orders = braid_zalloc_array(NULL, WRITES, sizeof *orders);
  bool ready = situation_describe(cluster, &s) && orders && s.problem.node_count && s.problem.model_count;
  if (ready && braid_cluster_place(&s.problem, NULL, &plan) == BRAID_OK) {
    size_t count = find_changes(cluster, &s, &plan, settled, orders);
    if (count) write_orders(cluster, orders, count);
    braid_cluster_plan_deinit(&plan);
  } else if (ready) {
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: nothing is placed: %s",
                    braid_error_detail());
  }
  situation_free(&s);
  braid_free(NULL, orders);
}

/* What decisions stand on, but for loads: who is there, who is silent, and what they can hold. */
static size_t count_able(const braid_serve_cluster *cluster) {
  const braid_cluster_roster *roster = &cluster->roster;
  size_t sum = roster->order_count;
  for (size_t i = 0; i < roster->member_count; i++) {
    sum = sum * 31 + (size_t)roster->members[i].revision;
    sum = sum * 3 + braid_cluster_is_given_up(cluster, &roster->members[i]);
    for (size_t k = 0; k < roster->members[i].holding_count; k++)
      sum = sum * 3 + is_able(&roster->members[i].holdings[k]);
  }
  return sum;
}

void braid_cluster_lead(braid_serve_cluster *cluster, int64_t now) {
  if (!cluster->leads || !braid_cluster_is_registered(cluster)) {
    cluster->joined_ns = now;
    return;
  }
  size_t able = count_able(cluster);
  bool news = able != cluster->joined_count;
  if (cluster->roster.revision < cluster->orders_revision) return;
  if (!news && now < cluster->lead_ns + DECIDE_MS * kMs) return;
  if (news) cluster->joined_ns = now;
  cluster->joined_count = able;
  cluster->lead_ns = now;
  leader_decide(cluster, now >= cluster->joined_ns + BRAID_CLUSTER_SETTLE_MS * kMs);
}
