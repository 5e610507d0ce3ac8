#include "serve/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/try.h"
#include "serve/cluster/node.h"

enum { CALL_MS = 1000, ATTEMPT_MS = 400, RETRY_MS = 200, LEAST_TOKEN = 16 };
static const int64_t kMs = 1000000;

bool braid_cluster_is_registered(const braid_serve_cluster *cluster) {
  return cluster->lease && braid_now_ns() < cluster->lease_until_ns;
}

void braid_cluster_candidate_key(const braid_serve_cluster *cluster, char *out, size_t room) {
  snprintf(out, room, "election/%llx", (unsigned long long)cluster->lease);
}

size_t braid_cluster_model_index(const braid_serve_cluster *cluster, const char *model) {
  const braid_serve_config *config = cluster->server->config;
  size_t at = 0;
  while (at < config->models_count && strcmp(config->models[at].name, model) != 0) at++;
  return at;
}

/* --- etcd ----------------------------------------------------------------------------------------------------------
 */
static void set_trouble(braid_serve_cluster *cluster, const char *text) {
  pthread_mutex_lock(&cluster->lock);
  bool news = !cluster->told || !cluster->trouble[0] != !text[0];
  cluster->told = true;
  snprintf(cluster->trouble, sizeof cluster->trouble, "%s", text);
  if (news && text[0]) cluster->counters.etcd_lost++;
  pthread_mutex_unlock(&cluster->lock);
  if (news && text[0])
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: %s; what is held is served on", text);
  else if (news)
    braid_log_write(cluster->server->log, BRAID_LOG_INFO, "the cluster: etcd answers");
}

static void set_lease(braid_serve_cluster *cluster, int64_t lease, int64_t until_ns) {
  pthread_mutex_lock(&cluster->lock);
  cluster->lease = lease;
  cluster->lease_until_ns = until_ns;
  if (!lease) cluster->leads = false;
  pthread_cond_broadcast(&cluster->changed);
  pthread_mutex_unlock(&cluster->lock);
}

static void key_of(const braid_serve_cluster *cluster, const char *name, char *out, size_t room) {
  snprintf(out, room, "%s%s", cluster->prefix, name);
}

static void node_renew(braid_serve_cluster *cluster, int64_t now) {
  int64_t ttl;
  if (!cluster->lease || now < cluster->renew_ns) return;
  cluster->renew_ns = now + BRAID_CLUSTER_RENEW_MS * kMs;
  braid_status status = braid_etcd_renew(cluster->etcd, cluster->lease, &ttl);
  if (status == BRAID_OK) {
    set_lease(cluster, cluster->lease, now + ttl * 1000 * kMs); /* from when it was asked for */
    set_trouble(cluster, "");
  } else if (status == BRAID_NOT_FOUND) {
    set_lease(cluster, 0, 0);
  } else {
    set_trouble(cluster, braid_error_detail());
  }
}

/* Somebody has our name: who was started later has it, once; a daemon that is under way does not fight. */
static braid_status clear_name(braid_serve_cluster *cluster) {
  const braid_cluster_member *member = braid_cluster_roster_member(&cluster->roster, cluster->node);
  if (!member) return BRAID_OK;
  if (cluster->registered_once && strcmp(member->instance, cluster->instance) != 0)
    return braid_fail(BRAID_BUSY, "another daemon, at %s, is registered as node %s", member->address, cluster->node);
  braid_status status = member->lease ? braid_etcd_revoke(cluster->etcd, member->lease) : BRAID_OK;
  return status == BRAID_NOT_FOUND ? BRAID_OK : status;
}

/* Writes what this daemon is; `first`: with its candidate's key. */
static braid_status write_self(braid_serve_cluster *cluster, bool first, int64_t lease) {
  char node_key[300], candidate[64], candidate_key[300];
  braid_cluster_member self;
  braid_text text;
  bool done = false;
  if (!braid_cluster_describe(cluster, &self)) return BRAID_NO_MEMORY;
  braid_text_init(&text, NULL);
  braid_cluster_member_write(&self, &text);
  braid_cluster_member_deinit(&self);
  snprintf(node_key, sizeof node_key, "%snodes/%s", cluster->prefix, cluster->node);
  snprintf(candidate, sizeof candidate, "election/%llx", (unsigned long long)lease);
  key_of(cluster, candidate, candidate_key, sizeof candidate_key);
  braid_etcd_compare absent = {.key = node_key};
  braid_etcd_op ops[] = {{node_key, text.data, lease}, {candidate_key, cluster->node, lease}};
  braid_status status =
      text.failed ? BRAID_NO_MEMORY
                  : braid_etcd_transact(cluster->etcd, &absent, first ? 1 : 0, ops, first ? 2 : 1, &done, NULL);
  braid_text_deinit(&text);
  if (status == BRAID_OK && !done) status = braid_fail(BRAID_BUSY, "node %s is still registered", cluster->node);
  return status;
}

static void node_join(braid_serve_cluster *cluster, int64_t now) {
  int64_t lease = 0, ttl;
  if (cluster->lease || !cluster->roster.revision || now < cluster->retry_ns) return;
  cluster->retry_ns = now + RETRY_MS * kMs;
  braid_status status = clear_name(cluster);
  if (status == BRAID_OK) status = braid_etcd_lease(cluster->etcd, BRAID_CLUSTER_TTL_S, &lease, &ttl);
  if (status == BRAID_OK) status = write_self(cluster, true, lease);
  if (status != BRAID_OK) {
    set_trouble(cluster, braid_error_detail());
    if (lease && braid_etcd_revoke(cluster->etcd, lease) != BRAID_OK) return; /* it ends by itself */
    return;
  }
  cluster->registered_once = true;
  cluster->renew_ns = now + BRAID_CLUSTER_RENEW_MS * kMs;
  set_lease(cluster, lease, now + ttl * 1000 * kMs);
  set_trouble(cluster, "");
}

/* What has changed of us: states at once, numbers each second. */
static void node_publish(braid_serve_cluster *cluster, int64_t now) {
  if (!cluster->lease) return;
  uint64_t states = 1;
  braid_serve_entry entry;
  bool refused, asked;
  for (size_t i = 0; braid_serve_registry_local(cluster->server->registry, i, &entry, &refused, &asked); i++)
    states = states * 31 + (uint64_t)entry.state * 2 + refused;
  static const int64_t kPeriod = BRAID_CLUSTER_PUBLISH_MS * INT64_C(1000000);
  if (states == cluster->published && now < cluster->publish_ns + kPeriod) return;
  cluster->publish_ns = now;
  braid_status status = write_self(cluster, false, cluster->lease);
  cluster->published = status == BRAID_OK ? states : 0;
  if (status == BRAID_NOT_FOUND) set_lease(cluster, 0, 0);
}

static void node_follow(braid_serve_cluster *cluster) {
  braid_etcd_keys keys;
  braid_status status = braid_etcd_follow_next(cluster->follow, BRAID_CLUSTER_TICK_MS, &keys);
  if (status != BRAID_OK) {
    if (!cluster->lease || !braid_cluster_is_registered(cluster)) set_trouble(cluster, braid_error_detail());
    return;
  }
  if (keys.count || keys.all) {
    char own[64];
    braid_cluster_candidate_key(cluster, own, sizeof own);
    pthread_mutex_lock(&cluster->lock);
    braid_cluster_roster_apply(&cluster->roster, cluster->prefix, &keys);
    const braid_cluster_candidate *leader = braid_cluster_control(cluster);
    cluster->leads = leader && cluster->lease && strcmp(leader->key, own + strlen("election/")) == 0;
    pthread_cond_broadcast(&cluster->changed);
    pthread_mutex_unlock(&cluster->lock);
    braid_cluster_watch(cluster, braid_now_ns());
    braid_cluster_tell(cluster);
  }
  braid_etcd_keys_free(&keys);
}

/* --- what is to be held --------------------------------------------------------------------------------------------
 */
/* Whether one that is to hold the model does, so that we need not any more. */
static bool is_held(const braid_serve_cluster *cluster, const braid_cluster_order *order) {
  for (size_t i = 0; i < order->node_count; i++) {
    const braid_cluster_member *member = braid_cluster_roster_member(&cluster->roster, order->nodes[i]);
    const braid_cluster_holding *holding = member ? braid_cluster_member_holding(member, order->model) : NULL;
    if (holding && holding->state == BRAID_CLUSTER_READY && !braid_cluster_is_silent(cluster, member)) return true;
  }
  return order->node_count == 0;
}

/* Whether requests for the model can be read here. */
static bool is_known(braid_serve_cluster *cluster, size_t index) {
  pthread_mutex_lock(&cluster->lock);
  bool known = cluster->remotes[index];
  pthread_mutex_unlock(&cluster->lock);
  return known;
}

/* Whether no node can hold it: nobody waits for that. */
static bool is_hopeless(const braid_serve_cluster *cluster, const char *model) {
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_holding *holding = braid_cluster_member_holding(&cluster->roster.members[i], model);
    if (holding && holding->state != BRAID_CLUSTER_UNABLE) return false;
  }
  return cluster->roster.member_count > 0;
}

static void want_files(braid_serve_cluster *cluster, size_t index) {
  pthread_mutex_lock(&cluster->lock);
  bool here = cluster->files[index].sum[0]; /* they came a moment ago */
  if (!here && !cluster->files[index].wanted && cluster->config->fetch_max_bytes) {
    cluster->files[index].wanted = true;
    pthread_cond_broadcast(&cluster->fetches);
  }
  pthread_mutex_unlock(&cluster->lock);
}

/* Once, until it can. */
static void say_unable(braid_serve_cluster *cluster, size_t index, const braid_serve_entry *entry, bool ours) {
  cluster_rate *rate = &cluster->rates[index];
  bool missing = ours && rate->file_bytes < 0 && !cluster->config->fetch_max_bytes;
  bool unable = entry->state == BRAID_SERVE_BROKEN || missing;
  if (unable && !rate->said)
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: model %s cannot be loaded here: %s",
                    entry->config->name,
                    missing ? "its file is not there, and fetch_max_bytes allows to fetch none" : entry->reason);
  rate->said = unable;
}

/* Loads and unloads what the orders say. While etcd is away the last ones hold. */
static void node_obey(braid_serve_cluster *cluster) {
  braid_serve_registry *registry = cluster->server->registry;
  braid_serve_entry entry;
  bool refused, asked, settled = cluster->lease != 0;
  if (!cluster->roster.revision) return;
  for (size_t i = 0; braid_serve_registry_local(registry, i, &entry, &refused, &asked); i++) {
    const braid_cluster_order *order = braid_cluster_roster_order(&cluster->roster, entry.config->name);
    bool ours = order && braid_cluster_order_names(order, cluster->node);
    say_unable(cluster, i, &entry, ours);
    if (ours && cluster->rates[i].file_bytes < 0)
      want_files(cluster, i);
    else if (ours)
      braid_serve_registry_order(registry, entry.config->name, true);
    else if (order && entry.state == BRAID_SERVE_READY && !asked && is_held(cluster, order))
      braid_serve_registry_order(registry, entry.config->name, false);
    bool here = refused || entry.state == BRAID_SERVE_READY || entry.state == BRAID_SERVE_BROKEN;
    settled &= is_hopeless(cluster, entry.config->name) || (order && (ours ? here : is_known(cluster, i)));
  }
  pthread_mutex_lock(&cluster->lock);
  cluster->settled = (cluster->settled || settled) && !braid_cluster_is_odd(cluster);
  pthread_mutex_unlock(&cluster->lock);
}

static void *keeper_main(void *context) {
  braid_serve_cluster *cluster = context;
  while (!__atomic_load_n(&cluster->stop, __ATOMIC_ACQUIRE)) {
    node_follow(cluster);
    int64_t now = braid_now_ns();
    node_renew(cluster, now);
    braid_cluster_rate(cluster, now);
    node_join(cluster, now);
    node_publish(cluster, now);
    braid_cluster_lead(cluster, now);
    node_obey(cluster);
  }
  /* Others learn at once that this node goes. */
  if (cluster->lease && braid_etcd_revoke(cluster->etcd, cluster->lease) != BRAID_OK)
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: %s; the lease ends by itself",
                    braid_error_detail());
  set_lease(cluster, 0, 0);
  return NULL;
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
/* Where others reach the wire protocol. */
static braid_status set_address(braid_serve_cluster *cluster) {
  const braid_serve_config *config = cluster->server->config;
  const char *given = cluster->config->address ? cluster->config->address : config->address;
  char host[256];
  bool any = strcmp(given, "0.0.0.0") == 0 || strcmp(given, "::") == 0;
  int port = braid_server_wire_port(cluster->server);
  if (!port)
    return braid_fail(BRAID_INVALID_ARGUMENT, "cluster: other daemons reach this one by wire_port, which is not set");
  if (any && gethostname(host, sizeof host - 1) != 0) return braid_fail(BRAID_IO, "the host has no name");
  if (any) host[sizeof host - 1] = '\0';
  if (any) given = host;
  const char *colon = strrchr(given, ':');
  bool has_port = colon && (strchr(given, ':') == colon || colon[-1] == ']');
  bool bare = colon && !has_port && given[0] != '['; /* IPv6 */
  const char *scheme = cluster->server->relay ? "tls:" : "";
  if (has_port)
    snprintf(cluster->address, sizeof cluster->address, "%s%.280s", scheme, given);
  else
    snprintf(cluster->address, sizeof cluster->address, bare ? "%s[%.270s]:%d" : "%s%.270s:%d", scheme, given, port);
  return BRAID_OK;
}

static braid_status set_names(braid_serve_cluster *cluster) {
  const braid_serve_cluster_config *config = cluster->config;
  const char *token = config->token ? config->token : getenv("BRAID_CLUSTER_TOKEN");
  uint8_t random[16];
  char host[BRAID_CLUSTER_NAME] = "";
  if (!config->etcd) return braid_fail(BRAID_INVALID_ARGUMENT, "cluster: etcd's endpoints are not said");
  if (!token || strlen(token) < LEAST_TOKEN)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "cluster: daemons know each other by a token of at least %d bytes: `token`, or "
                      "BRAID_CLUSTER_TOKEN of the environment",
                      LEAST_TOKEN);
  cluster->token = braid_strdup(NULL, token);
  if (!cluster->token) return BRAID_NO_MEMORY;
  if (!config->node) (void)gethostname(host, sizeof host - 1);
  snprintf(cluster->node, sizeof cluster->node, "%s", config->node ? config->node : host);
  if (!cluster->node[0]) return braid_fail(BRAID_INVALID_ARGUMENT, "cluster: the node has no name");
  snprintf(cluster->prefix, sizeof cluster->prefix, "/braid/%.100s/", config->name);
  braid_cluster_prove(cluster);
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return braid_fail(BRAID_IO, "the system has no random bytes");
  braid_sha256_text(random, sizeof random, cluster->instance);
  return BRAID_OK;
}

static braid_status make_room(braid_serve_cluster *cluster) {
  size_t count = cluster->server->config->models_count;
  cluster->remotes = braid_zalloc_array(NULL, count, sizeof *cluster->remotes);
  cluster->remote_statistics = braid_zalloc_array(NULL, count, sizeof *cluster->remote_statistics);
  cluster->rates = braid_zalloc_array(NULL, count, sizeof *cluster->rates);
  cluster->files = braid_zalloc_array(NULL, count, sizeof *cluster->files);
  return cluster->remotes && cluster->remote_statistics && cluster->rates && cluster->files ? BRAID_OK
                                                                                            : BRAID_NO_MEMORY;
}

/* Where files may be fetched by UCX, its program is looked for; without it they travel by Braid's own protocol, and so
 * they do where that has TLS, which UCX has not. */
static braid_status find_bulk(braid_serve_cluster *cluster) {
  const char *bulk = cluster->config->bulk;
  bool secure = cluster->server->config->certificate != NULL;
  if (strcmp(bulk, "wire") == 0 || (secure && strcmp(bulk, "auto") == 0)) return BRAID_OK;
  if (secure)
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING,
                    "cluster: bulk is ucx: files of models travel in the clear, though the nodes have TLS");
  braid_status status = braid_bulk_find(cluster->ucx);
  if (status == BRAID_OK) return braid_bulk_senders_create(cluster->ucx, &cluster->senders);
  cluster->ucx[0] = '\0';
  return strcmp(bulk, "ucx") == 0 ? braid_fail_prefix(status, "cluster: bulk is ucx") : BRAID_OK;
}

struct braid_bulk_senders *braid_serve_cluster_senders(const braid_serve_cluster *cluster) {
  return cluster ? cluster->senders : NULL;
}

static braid_status open_cluster(braid_serve_cluster *cluster) {
  const braid_serve_cluster_config *config = cluster->config;
  braid_etcd_options options = {.endpoints = config->etcd,
                                .authority = config->authority,
                                .certificate = config->certificate,
                                .key = config->key,
                                .call_ms = CALL_MS,
                                .attempt_ms = ATTEMPT_MS};
  BRAID_TRY(set_names(cluster));
  BRAID_TRY(make_room(cluster));
  BRAID_TRY(find_bulk(cluster));
  BRAID_TRY(braid_etcd_create(&options, &cluster->etcd));
  BRAID_TRY(braid_etcd_follow_create(cluster->etcd, cluster->prefix, &cluster->follow));
  braid_cluster_find_files(cluster);
  snprintf(cluster->trouble, sizeof cluster->trouble, "etcd has not answered yet");
  braid_serve_scheduler_set_forwarder(cluster->server->scheduler,
                                      &(braid_serve_forwarder){braid_cluster_forward, cluster});
  braid_serve_registry_set_elsewhere(cluster->server->registry,
                                     &(braid_serve_elsewhere){braid_cluster_find_elsewhere, cluster});
  return BRAID_OK;
}

braid_status braid_serve_cluster_create(braid_server *server, braid_serve_cluster **out) {
  *out = NULL;
  braid_serve_cluster *cluster = braid_zalloc(NULL, sizeof *cluster);
  if (!cluster) return BRAID_NO_MEMORY;
  cluster->server = server;
  cluster->config = server->config->cluster;
  cluster->queue_end = &cluster->queue;
  pthread_mutex_init(&cluster->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&cluster->changed, &monotonic);
  pthread_cond_init(&cluster->fetches, &monotonic);
  pthread_condattr_destroy(&monotonic);
  braid_status status = open_cluster(cluster);
  if (status == BRAID_OK)
    *out = cluster;
  else
    braid_serve_cluster_destroy(cluster);
  return status;
}

braid_status braid_serve_cluster_start(braid_serve_cluster *cluster) {
  BRAID_TRY(set_address(cluster));
  BRAID_TRY(braid_thread_start(&cluster->keeper, "braid-cluster", keeper_main, cluster));
  cluster->keeps = true;
  BRAID_TRY(braid_thread_start(&cluster->describer, "braid-peers", braid_cluster_describer_main, cluster));
  cluster->describes = true;
  BRAID_TRY(braid_thread_start(&cluster->fetcher, "braid-fetch", braid_cluster_fetcher_main, cluster));
  cluster->fetching = true;
  return BRAID_OK;
}

void braid_serve_cluster_leave(braid_serve_cluster *cluster) {
  if (!cluster) return;
  __atomic_store_n(&cluster->stop, 1, __ATOMIC_RELEASE);
  if (cluster->keeps) braid_thread_join(&cluster->keeper);
  cluster->keeps = false;
}

void braid_serve_cluster_end(braid_serve_cluster *cluster, int64_t grace_ns) {
  if (!cluster) return;
  braid_serve_cluster_leave(cluster);
  __atomic_store_n(&cluster->end_ns, braid_now_ns() + grace_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&cluster->ending, 1, __ATOMIC_RELEASE);
  pthread_mutex_lock(&cluster->lock);
  pthread_cond_broadcast(&cluster->changed);
  pthread_cond_broadcast(&cluster->fetches);
  pthread_mutex_unlock(&cluster->lock);
  if (cluster->describes) braid_thread_join(&cluster->describer);
  if (cluster->fetching) braid_thread_join(&cluster->fetcher);
  cluster->describes = cluster->fetching = false;
  for (size_t i = 0; i < cluster->worker_count; i++) braid_thread_join(&cluster->threads[i]);
  cluster->worker_count = 0;
}

void braid_serve_cluster_destroy(braid_serve_cluster *cluster) {
  if (!cluster) return;
  braid_serve_cluster_end(cluster, 0);
  if (cluster->server->registry) braid_serve_registry_set_elsewhere(cluster->server->registry, NULL);
  braid_cluster_close_links(cluster);
  braid_etcd_follow_destroy(cluster->follow);
  braid_etcd_destroy(cluster->etcd);
  braid_cluster_roster_deinit(&cluster->roster);
  for (size_t i = 0; cluster->remotes && i < cluster->server->config->models_count; i++)
    braid_serve_model_release(cluster->remotes[i]);
  braid_bulk_senders_destroy(cluster->senders);
  braid_free(NULL, cluster->remotes);
  braid_free(NULL, cluster->remote_statistics);
  braid_free(NULL, cluster->rates);
  braid_free(NULL, cluster->files);
  braid_free(NULL, cluster->demands);
  braid_free(NULL, cluster->ways);
  if (cluster->token) explicit_bzero(cluster->token, strlen(cluster->token));
  braid_free(NULL, cluster->token);
  pthread_mutex_destroy(&cluster->lock);
  pthread_cond_destroy(&cluster->changed);
  pthread_cond_destroy(&cluster->fetches);
  braid_free(NULL, cluster);
}

bool braid_serve_cluster_is_settled(braid_serve_cluster *cluster) {
  pthread_mutex_lock(&cluster->lock);
  bool settled = cluster->settled;
  pthread_mutex_unlock(&cluster->lock);
  return settled;
}
