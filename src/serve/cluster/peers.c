/* Other daemons: connections to them by Braid's own protocol, and models that stand for theirs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "client/channel.h"
#include "serve/cluster/node.h"
#include "serve/wire/wire.h"

enum { CONNECT_MS = 500, DOWN_MS = 200, WELCOME = 5000 };
static const char kGreeting[] = "cluster:";

/* --- who asks ------------------------------------------------------------------------------------------------------
 * The token of a hello between daemons: "cluster:TENANT:TOKEN". */
braid_serve_tenant *braid_serve_cluster_greet(braid_serve_cluster *cluster, const char *token, bool *out_is_peer) {
  const char *tenant = token + sizeof kGreeting - 1, *colon;
  *out_is_peer = false;
  if (!cluster || strncmp(token, kGreeting, sizeof kGreeting - 1) != 0 || !(colon = strchr(tenant, ':'))) return NULL;
  uint8_t given[BRAID_SHA256_BYTES], own[BRAID_SHA256_BYTES];
  unsigned differs = 0;
  braid_sha256_of(colon + 1, strlen(colon + 1), given);
  braid_sha256_of(cluster->token, strlen(cluster->token), own);
  for (size_t i = 0; i < sizeof own; i++) differs |= (unsigned)(given[i] ^ own[i]);
  if (differs) return NULL;
  const braid_server *server = cluster->server;
  for (size_t i = 0; i < server->tenant_count; i++) {
    const char *name = server->tenants[i].config->name;
    if (strlen(name) != (size_t)(colon - tenant) || memcmp(name, tenant, strlen(name)) != 0) continue;
    *out_is_peer = true;
    return &server->tenants[i];
  }
  return NULL;
}

/* --- connections ---------------------------------------------------------------------------------------------------
 */
bool braid_cluster_is_down(const braid_serve_cluster *cluster, const char *address, int64_t now) {
  for (size_t i = 0; i < sizeof cluster->downs / sizeof *cluster->downs; i++)
    if (now < cluster->downs[i].until_ns && strcmp(cluster->downs[i].address, address) == 0) return true;
  return false;
}

void braid_cluster_set_down(braid_serve_cluster *cluster, const char *address) {
  pthread_mutex_lock(&cluster->lock);
  cluster_down *down = &cluster->downs[cluster->down_next++ % (sizeof cluster->downs / sizeof *cluster->downs)];
  snprintf(down->address, sizeof down->address, "%s", address);
  down->until_ns = braid_now_ns() + DOWN_MS * INT64_C(1000000);
  pthread_mutex_unlock(&cluster->lock);
}

static cluster_link *find_link(braid_serve_cluster *cluster, const char *address, const braid_serve_tenant *tenant) {
  cluster_link *link = cluster->links;
  while (link && (link->broken || link->tenant != tenant || strcmp(link->address, address) != 0)) link = link->next;
  if (link) link->users++;
  return link;
}

cluster_link *braid_cluster_link(braid_serve_cluster *cluster, const char *address, const braid_serve_tenant *tenant) {
  pthread_mutex_lock(&cluster->lock);
  cluster_link *link = find_link(cluster, address, tenant);
  pthread_mutex_unlock(&cluster->lock);
  if (link) return link;
  char token[WELCOME];
  snprintf(token, sizeof token, "%s%s:%s", kGreeting, tenant->config->name, cluster->token);
  braid_client_options options = {.token = token,
                                  .name = cluster->node,
                                  .connect_ms = CONNECT_MS,
                                  .call_ms = 2000,
                                  .max_answer = (uint64_t)tenant->config->max_bytes};
  if (cluster->server->relay) { /* which goes with addresses of TLS alone: the token is not said without */
    options.authority = cluster->config->node_authority;
    options.certificate = cluster->server->config->certificate;
    options.key = cluster->server->config->key;
  }
  braid_client *client;
  if (braid_client_connect(address, &options, &client) != BRAID_CLIENT_OK) return NULL;
  link = braid_zalloc(NULL, sizeof *link);
  if (!link) {
    braid_client_close(client);
    return NULL;
  }
  *link = (cluster_link){.tenant = tenant, .client = client, .users = 1};
  snprintf(link->address, sizeof link->address, "%s", address);
  pthread_mutex_lock(&cluster->lock);
  link->next = cluster->links;
  cluster->links = link;
  pthread_mutex_unlock(&cluster->lock);
  return link;
}

void braid_cluster_unlink(braid_serve_cluster *cluster, cluster_link *link, bool broken) {
  pthread_mutex_lock(&cluster->lock);
  link->broken |= broken;
  if (broken) client_break(link->client, "the node does not answer any more"); /* nor is a farewell waited for */
  bool last = --link->users == 0 && link->broken;
  if (last) {
    cluster_link **at = &cluster->links;
    while (*at != link) at = &(*at)->next;
    *at = link->next;
  }
  pthread_mutex_unlock(&cluster->lock);
  if (!last) return;
  braid_client_close(link->client);
  braid_free(NULL, link);
}

void braid_cluster_close_links(braid_serve_cluster *cluster) {
  while (cluster->links) {
    cluster_link *link = cluster->links;
    cluster->links = link->next;
    braid_client_close(link->client);
    braid_free(NULL, link);
  }
}

/* Whether what is sent there has a chance: a node is there, which the control node has not given up. The lock is held.
 */
static bool link_is_known(const braid_serve_cluster *cluster, const cluster_link *link) {
  const braid_cluster_roster *roster = &cluster->roster;
  const braid_cluster_member *member = NULL;
  for (size_t i = 0; i < roster->member_count && !member; i++)
    if (strcmp(roster->members[i].address, link->address) == 0) member = &roster->members[i];
  if (!member || !braid_cluster_is_silent(cluster, member)) return member;
  for (size_t i = 0; i < roster->order_count; i++)
    if (braid_cluster_order_names(&roster->orders[i], member->name)) return true;
  return false;
}

/* Connections to addresses where no node is any more: whoever still sends there goes on to another node at once. */
static void drop_lost(braid_serve_cluster *cluster) {
  cluster_link *dropped = NULL;
  pthread_mutex_lock(&cluster->lock);
  for (cluster_link **at = &cluster->links; *at;) {
    cluster_link *link = *at;
    bool known = link_is_known(cluster, link);
    if (!known) client_break(link->client, "its node is not there any more");
    link->broken |= !known;
    if (known || link->users) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    link->next = dropped;
    dropped = link;
  }
  pthread_mutex_unlock(&cluster->lock);
  while (dropped) {
    cluster_link *link = dropped;
    dropped = link->next;
    braid_client_close(link->client);
    braid_free(NULL, link);
  }
}

/* --- models of others ----------------------------------------------------------------------------------------------
 */
static void take_ports(const braid_client_port *from, size_t count, braid_serve_port *out) {
  for (size_t i = 0; i < count; i++) {
    snprintf(out[i].name, sizeof out[i].name, "%s", from[i].name);
    out[i].dtype = braid_wire_dtype_of((unsigned)from[i].dtype);
    out[i].rank = from[i].rank;
    for (int k = 0; k < from[i].rank; k++) out[i].dims[k] = from[i].dims[k] < 0 ? -1 : from[i].dims[k];
  }
}

/* A model without ports that stands for others'; NULL: no memory. */
static braid_serve_model *begin_remote(braid_serve_cluster *cluster, size_t index) {
  braid_server *server = cluster->server;
  braid_serve_model *model = braid_zalloc(NULL, sizeof *model);
  if (!model) return NULL;
  model->config = &server->config->models[index];
  model->device = server->devices;
  model->references = 1;
  model->remote = true;
  model->statistics = &cluster->remote_statistics[index];
  pthread_mutex_init(&model->lock, NULL);
  snprintf(model->batching, sizeof model->batching, "another node of the cluster holds it");
  return model;
}

/* With the ports of another node's; NULL: no memory, or it has none. */
static braid_serve_model *make_remote(braid_serve_cluster *cluster, size_t index, const braid_client_model *from) {
  _Static_assert((int)BRAID_CLIENT_MAX_TENSORS <= (int)BRAID_SERVE_PORTS, "its ports fit");
  _Static_assert((int)BRAID_CLIENT_MAX_RANK <= (int)BRAID_MAX_RANK, "their dimensions fit");
  if (from->state != BRAID_CLIENT_READY || !from->output_count) return NULL;
  braid_serve_model *model = begin_remote(cluster, index);
  if (!model) return NULL;
  model->max_batch = (int64_t)(from->max_batch < 64 ? from->max_batch : 64);
  model->input_count = from->input_count;
  model->output_count = from->output_count;
  take_ports(from->inputs, from->input_count, model->inputs);
  take_ports(from->outputs, from->output_count, model->outputs);
  return model;
}

/* With the ports of our own, for the time when it is not here any more. */
static braid_serve_model *make_remote_of(braid_serve_cluster *cluster, size_t index, const braid_serve_model *own) {
  braid_serve_model *model = begin_remote(cluster, index);
  if (!model) return NULL;
  model->max_batch = own->max_batch;
  model->input_count = own->input_count;
  model->output_count = own->output_count;
  memcpy(model->inputs, own->inputs, sizeof model->inputs);
  memcpy(model->outputs, own->outputs, sizeof model->outputs);
  return model;
}

static void set_remote(braid_serve_cluster *cluster, size_t index, braid_serve_model *model) {
  pthread_mutex_lock(&cluster->lock);
  braid_serve_model *old = cluster->remotes[index];
  cluster->remotes[index] = model;
  pthread_cond_broadcast(&cluster->changed);
  pthread_mutex_unlock(&cluster->lock);
  braid_serve_model_release(old);
}

/* Another node that has the model, as it was seen last; the lock is held. */
static const braid_cluster_member *find_holder(const braid_serve_cluster *cluster, const char *model) {
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, model);
    if (holding && holding->state == BRAID_CLUSTER_READY &&
        !braid_cluster_is_down(cluster, member->address, braid_now_ns()))
      return member;
  }
  return NULL;
}

/* Asks who holds it for its ports. */
static void ask_holder(braid_serve_cluster *cluster, size_t index) {
  const braid_server *server = cluster->server;
  const char *name = server->config->models[index].name;
  char address[BRAID_CLUSTER_PLACE] = "";
  const braid_serve_tenant *tenant = NULL;
  for (size_t i = 0; i < server->tenant_count && !tenant; i++)
    if (braid_serve_tenant_may(&server->tenants[i], name)) tenant = &server->tenants[i];
  pthread_mutex_lock(&cluster->lock);
  const braid_cluster_member *member = tenant ? find_holder(cluster, name) : NULL;
  if (member) snprintf(address, sizeof address, "%s", member->address);
  pthread_mutex_unlock(&cluster->lock);
  if (!member) return;
  cluster_link *link = braid_cluster_link(cluster, address, tenant);
  if (!link) {
    braid_cluster_set_down(cluster, address);
    return;
  }
  braid_client_model *models;
  size_t count;
  braid_client_status status = braid_client_models(link->client, name, &models, &count);
  braid_serve_model *model = status == BRAID_CLIENT_OK && count == 1 ? make_remote(cluster, index, models) : NULL;
  if (status == BRAID_CLIENT_OK) free(models);
  braid_cluster_unlink(
      cluster, link, status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL || status == BRAID_CLIENT_TIMEOUT);
  if (!model) {
    braid_cluster_set_down(cluster, address);
    return;
  }
  set_remote(cluster, index, model);
}

/* What is known once is known: all nodes have the same model by a name. */
static void describe_model(braid_serve_cluster *cluster, size_t index) {
  braid_serve_model *own;
  pthread_mutex_lock(&cluster->lock);
  bool known = cluster->remotes[index];
  pthread_mutex_unlock(&cluster->lock);
  if (known) return;
  const char *name = cluster->server->config->models[index].name;
  if (braid_serve_registry_acquire_local(cluster->server->registry, name, &own) != BRAID_OK) {
    ask_holder(cluster, index);
    return;
  }
  braid_serve_model *model = make_remote_of(cluster, index, own);
  braid_serve_model_release(own);
  if (model) set_remote(cluster, index, model);
}

void *braid_cluster_describer_main(void *context) {
  braid_serve_cluster *cluster = context;
  struct timespec until;
  while (!__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE)) {
    for (size_t i = 0; i < cluster->server->config->models_count; i++) describe_model(cluster, i);
    drop_lost(cluster);
    braid_bulk_senders_look(cluster->senders);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BRAID_CLUSTER_TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&cluster->lock);
    if (!__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE))
      (void)pthread_cond_timedwait(&cluster->changed, &cluster->lock, &until);
    pthread_mutex_unlock(&cluster->lock);
  }
  return NULL;
}

/* "nodes b, c hold it"; returns how many. */
static size_t name_holders(const braid_serve_cluster *cluster, const char *name, char *note) {
  size_t count = 0, used = 0;
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, name);
    if (!holding || holding->state != BRAID_CLUSTER_READY) continue;
    if (used + BRAID_CLUSTER_NAME + 2 < BRAID_SERVE_DETAIL)
      used += (size_t)snprintf(note + used, BRAID_SERVE_DETAIL - used, "%s%s", count ? ", " : "held by ", member->name);
    count++;
  }
  return count;
}

/* "a: its file is not there; b: ...", of nodes that cannot hold it; returns how many could. */
static size_t name_reasons(const braid_serve_cluster *cluster, const char *name, char *text, size_t room) {
  size_t able = 0, used = 0;
  *text = '\0';
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_member_holding(member, name);
    const char *why = braid_cluster_is_apart(cluster, member)  ? "its token is another"
                      : !holding                               ? "its configuration does not name it"
                      : holding->state == BRAID_CLUSTER_UNABLE ? holding->reason
                      : braid_cluster_roster_differs(&cluster->roster, holding)
                          ? "its files are others than the cluster's"
                          : NULL;
    able += !why;
    if (why && used < room)
      used += (size_t)snprintf(text + used, room - used, "%s%s: %s", used ? "; " : "", member->name, why);
  }
  return able;
}

/* Why nobody holds it; returns whether somebody could. */
static bool explain_nobody(const braid_serve_cluster *cluster, const char *name, bool waits, char *note) {
  const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, name);
  bool ours = order && braid_cluster_order_names(order, cluster->node);
  char reasons[BRAID_SERVE_DETAIL];
  size_t able = name_reasons(cluster, name, reasons, sizeof reasons);
  const char *also = reasons[0] ? "; " : "";
  if (braid_cluster_is_odd(cluster))
    snprintf(note, BRAID_SERVE_DETAIL, "%s", BRAID_CLUSTER_ODD);
  else if (!cluster->roster.revision)
    snprintf(note, BRAID_SERVE_DETAIL, "nothing is known of the cluster yet: %.400s", cluster->trouble);
  else if (!able && cluster->roster.member_count)
    snprintf(note, BRAID_SERVE_DETAIL, "no node can hold it: %.480s", reasons);
  else if (order && !order->node_count)
    snprintf(note, BRAID_SERVE_DETAIL, "no node is to hold it: %.240s%s%.240s", order->reason, also, reasons);
  else if (waits)
    snprintf(note, BRAID_SERVE_DETAIL, "no node holds it at the moment; requests wait for one%s%.420s", also, reasons);
  else if (!ours)
    snprintf(note, BRAID_SERVE_DETAIL, "%s%s%.420s",
             order ? "the nodes that are to hold it load it" : "no node holds it yet", also, reasons);
  return able || !cluster->roster.member_count;
}

braid_serve_model *braid_cluster_find_elsewhere(void *context, const char *name, char *note, bool *out_able) {
  braid_serve_cluster *cluster = context;
  size_t index = braid_cluster_model_index(cluster, name);
  *note = '\0';
  pthread_mutex_lock(&cluster->lock);
  braid_serve_model *model = cluster->remotes[index];
  if (model) braid_serve_model_retain(model);
  *out_able = name_holders(cluster, name, note) || explain_nobody(cluster, name, model, note);
  pthread_mutex_unlock(&cluster->lock);
  return model;
}
