/* A daemon in its cluster; private to this folder.
 *
 *   cluster.c    its life; the keeper's thread, which alone speaks to etcd
 *   publish.c    what it says of itself
 *   leader.c     what the control node orders
 *   trust.c      who has another token, or other files
 *   silence.c    who writes nothing of itself any more, and who is the control node then
 *   peers.c      connections to other daemons, and models that stand for theirs
 *   fetch.c      files of models that are not here
 *   fetch_file.c one of them, by UCX or by Braid's protocol
 *   routes.c     to whom
 *   forward.c    requests on their way to others
 *   report.c     what it tells of all this
 *
 * Below it stand etcd.h (etcd's client, of etcd.proto), roster.h (what is known of the cluster, from etcd's keys) and
 * placement_policy.h and routing_policy.h (decisions over plain numbers, which the simulator drives too).
 *
 * The registry's lock may be held when `lock` is taken, never the other way round. */
#ifndef BRAID_SERVE_CLUSTER_NODE_H
#define BRAID_SERVE_CLUSTER_NODE_H

#include "base/thread.h"
#include "braid/client.h"
#include "serve/bulk/bulk.h"
#include "serve/cluster/cluster.h"
#include "serve/cluster/roster.h"
#include "serve/server.h"

enum {
  BRAID_CLUSTER_TTL_S = 2,           /* of leases; etcd's least with its own settings */
  BRAID_CLUSTER_RENEW_MS = 500,      /* between renewals */
  BRAID_CLUSTER_PUBLISH_MS = 500,    /* between what nodes write of themselves, */
  BRAID_CLUSTER_SILENT_MS = 1500,    /* and without which for so long they are asked only if there is no other, */
  BRAID_CLUSTER_MISTRUST_MS = 10000, /* and given nothing new for so long after that */
  BRAID_CLUSTER_MOST_SILENT = 16,    /* nodes that the control node gives up at a time */
  BRAID_CLUSTER_TICK_MS = 50,
  BRAID_CLUSTER_WORKERS = 32,    /* requests on their way at a time */
  BRAID_CLUSTER_SETTLE_MS = 1000 /* a control node waits so long for others before it places what is new */
};

/* Begins the reason of a node that has tried to fetch a model's files. */
#define BRAID_CLUSTER_UNFETCHED "its files cannot be fetched"

#define BRAID_CLUSTER_ODD                                                                                              \
  "this node's token is not that of most nodes: they refuse it, and it gets no orders; all nodes take the same token"

/* A connection to another daemon, for one tenant; shared by all that send there. */
typedef struct cluster_link {
  struct cluster_link *next;
  char address[BRAID_CLUSTER_PLACE];
  const braid_serve_tenant *tenant;
  braid_client *client;
  int users;
  bool broken; /* nobody takes it any more; the last user closes it */
} cluster_link;

/* An address that did not answer is left alone for a moment. */
typedef struct cluster_down {
  char address[BRAID_CLUSTER_PLACE];
  int64_t until_ns;
} cluster_down;

/* A request that is with another node. */
typedef struct cluster_errand {
  struct cluster_errand *next;
  char address[BRAID_CLUSTER_PLACE];
  int64_t sent_ns;
} cluster_errand;

/* How long answers from an address took beyond their time there. */
typedef struct cluster_way {
  char address[BRAID_CLUSTER_PLACE];
  double seconds;
} cluster_way;

/* Addresses that are not asked. */
typedef struct cluster_refusals {
  char addresses[BRAID_CLUSTER_COPIES][BRAID_CLUSTER_PLACE];
  size_t count;
} cluster_refusals;

/* What is measured of a model here. */
typedef struct cluster_rate {
  uint64_t done;
  double requests_per_s;
  int64_t file_bytes; /* of the model's files; -1: they are not there */
  bool said;          /* why this node cannot load it */
} cluster_rate;

/* What the control node remembers of a model's demand. */
typedef struct cluster_demand {
  char model[BRAID_CLUSTER_NAME];
  double requests_per_s;
} cluster_demand;

/* A node that was silent. */
typedef struct cluster_suspect {
  char node[BRAID_CLUSTER_NAME];
  int64_t until_ns; /* it is given nothing new; 0: nobody */
} cluster_suspect;

/* A model's files. */
typedef struct cluster_files {
  char sum[BRAID_SHA256_HEX + 1]; /* "": not known, or not there */
  bool wanted;                    /* to be fetched */
  /* --- the fetcher's, of what has failed --- */
  cluster_down sources[8]; /* that are not asked for them for a while */
  size_t source_next;
  int64_t pause_s, until_ns;        /* nothing is fetched until then */
  char tried[BRAID_SHA256_HEX + 1]; /* unless the sum is another than this, */
  struct braid_serve_files *named;  /* or of these files, which the model's own names, */
  uint64_t state;                   /* what is here is not this any more; named NULL: none are known */
  int failures;                     /* to fetch them, one after the other, */
  int64_t unable_until_ns;          /* and until when they are not fetched for that */
  char why[BRAID_CLUSTER_REASON];   /* the last one's sentence */
} cluster_files;

/* Bytes of files that have come, and how often what was to come by UCX did not. */
typedef struct cluster_carried {
  uint64_t wire, ucx, given_up;
} cluster_carried;

typedef struct cluster_counters {
  cluster_carried carried;
  uint64_t fetched, forwarded, retried, failed, taken_back, orders, etcd_lost;
} cluster_counters;

struct braid_serve_cluster {
  braid_server *server;
  const braid_serve_cluster_config *config;
  char node[BRAID_CLUSTER_NAME], address[BRAID_CLUSTER_PLACE], prefix[BRAID_CLUSTER_NAME + 16], instance[33];
  char *token, proof[BRAID_SHA256_HEX + 1];
  braid_thread keeper, describer, fetcher;
  bool keeps, describes, fetching; /* the threads are there */
  int stop;                        /* atomic: the keeper leaves, then ends */
  int ending;                      /* atomic: nothing is forwarded any more */
  int64_t end_ns;                  /* atomic: what is on its way then is refused; 0: not ending */
  char ucx[BRAID_BULK_PATH];       /* the program that carries files by UCX; "": none does */
  braid_bulk_senders *senders;     /* of it; NULL: no file is sent by UCX */
  /* --- the fetcher's --- */
  cluster_down bulk_downs[16]; /* from where nothing comes by UCX for a while */
  size_t bulk_next;
  /* --- the keeper's --- */
  braid_etcd *etcd;
  braid_etcd_follow *follow;
  bool registered_once;
  int64_t renew_ns, retry_ns, publish_ns, rated_ns, lead_ns;
  uint64_t published;      /* what stands for the states that others know of; 0: to be said again */
  int64_t orders_revision; /* of our last orders: nothing is decided before they are seen */
  int64_t joined_ns;       /* when a node was seen to come or to go last */
  size_t joined_count;
  cluster_rate *rates; /* of the configuration's models */
  cluster_demand *demands;
  size_t demand_count, demand_room;
  cluster_suspect suspects[BRAID_CLUSTER_MOST_SILENT];
  uint64_t differences; /* between nodes, that were told; 0: none */
  /* --- with the lock --- */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_cond_t fetches; /* there is something to be fetched */
  braid_cluster_roster roster;
  cluster_files *files;             /* of the configuration's models */
  int64_t lease, lease_until_ns;    /* 0: none; it is ours at least until then */
  bool leads, settled, told;        /* told: whether etcd answers has been said */
  char trouble[BRAID_SERVE_DETAIL]; /* with etcd; "": none */
  braid_serve_model **remotes;      /* of the configuration's models: who stands for those of others; NULL: nobody */
  braid_serve_statistics *remote_statistics;
  cluster_link *links;
  cluster_down downs[64];
  size_t down_next;
  cluster_errand *errands;
  cluster_way *ways;
  size_t way_count, way_room;
  braid_serve_request *queue, **queue_end;
  size_t queued, workers, idle;
  size_t worker_count;
  braid_thread threads[BRAID_CLUSTER_WORKERS];
  cluster_counters counters;
};

/* Whether our lease is certainly not over. */
bool braid_cluster_is_registered(const braid_serve_cluster *cluster);
/* "election/LEASE", without the prefix. */
void braid_cluster_candidate_key(const braid_serve_cluster *cluster, char *out, size_t room);
/* The index of a model in the configuration; its models_count: none. */
size_t braid_cluster_model_index(const braid_serve_cluster *cluster, const char *model);

/* --- publish.c: the keeper's --- */
/* What this daemon is; *out is to be freed by deinit. False: no memory. */
bool braid_cluster_describe(braid_serve_cluster *cluster, braid_cluster_member *out);
/* Measures how often models are asked for, once a second. */
void braid_cluster_rate(braid_serve_cluster *cluster, int64_t now_ns);
void braid_cluster_find_files(braid_serve_cluster *cluster);
/* The fetcher's: the model's files could not be fetched. For some seconds, more each time, this node is not able to
 * hold the model, so that the control node orders another. */
void braid_cluster_fetch_failed(braid_serve_cluster *cluster, size_t index, const char *why);
/* Whether that is so now. The lock is held. */
bool braid_cluster_is_unfetched(const braid_serve_cluster *cluster, size_t index);

/* --- leader.c: the keeper's --- */
/* Where this daemon is the control node: decides, and writes what changes. */
void braid_cluster_lead(braid_serve_cluster *cluster, int64_t now_ns);

/* --- trust.c: the lock is held, or it is the keeper that asks --- */
/* Makes the proof of our token that others compare: the token's HMAC of the cluster's name. */
void braid_cluster_prove(braid_serve_cluster *cluster);
/* Whether the node's token is another than most nodes'; whether ours is. */
bool braid_cluster_is_apart(const braid_serve_cluster *cluster, const braid_cluster_member *member);
bool braid_cluster_is_odd(const braid_serve_cluster *cluster);
/* What another node has of a model that we may take from it; NULL: nothing, or it is not one of us or has other files.
 */
const braid_cluster_holding *braid_cluster_offer(const braid_serve_cluster *cluster, const braid_cluster_member *member,
                                                 const char *model);
/* The keeper's: writes what differs into the log, once. */
void braid_cluster_tell(braid_serve_cluster *cluster);

/* --- silence.c: the lock is held, or it is the keeper that asks --- */
/* Whether it has written nothing of itself for a while, as we have. */
bool braid_cluster_is_silent(const braid_serve_cluster *cluster, const braid_cluster_member *member);
/* Whether the control node places its models elsewhere before its lease is over: it is silent, and most are not. */
bool braid_cluster_is_given_up(const braid_serve_cluster *cluster, const braid_cluster_member *member);
/* The control node: the oldest candidate whose node is not given up; NULL: there is none. */
const braid_cluster_candidate *braid_cluster_control(const braid_serve_cluster *cluster);
/* The keeper's, now and then: remembers who was silent. */
void braid_cluster_watch(braid_serve_cluster *cluster, int64_t now_ns);
/* The keeper's: whether it was silent a while ago. */
bool braid_cluster_is_suspect(const braid_serve_cluster *cluster, const char *node, int64_t now_ns);

/* --- peers.c --- */
/* A connection for the tenant; NULL, with the client's sentence: there is none. */
cluster_link *braid_cluster_link(braid_serve_cluster *cluster, const char *address, const braid_serve_tenant *tenant);
void braid_cluster_unlink(braid_serve_cluster *cluster, cluster_link *link, bool broken);
void braid_cluster_close_links(braid_serve_cluster *cluster);
void *braid_cluster_describer_main(void *cluster);
/* The registry's: what others hold. */
braid_serve_model *braid_cluster_find_elsewhere(void *cluster, const char *name, char *note, bool *out_able);
/* The lock is held. */
bool braid_cluster_is_down(const braid_serve_cluster *cluster, const char *address, int64_t now_ns);
void braid_cluster_set_down(braid_serve_cluster *cluster, const char *address);

/* --- fetch.c --- */
void *braid_cluster_fetcher_main(void *cluster);
/* Frees what the fetcher remembers, when it has ended. */
void braid_cluster_forget_files(braid_serve_cluster *cluster);

/* --- routes.c: the lock is held --- */
/* The node that answers a request for the model first, as it is expected; silent ones only if there is no other. NULL:
 * there is none. */
const braid_cluster_member *braid_cluster_choose_node(const braid_serve_cluster *cluster, const char *model,
                                                      const cluster_refusals *refusals);
/* A request goes to errand->address now, and is with us again; there_ns: that it waited and ran there, -1: it has no
 * answer. The errand is the caller's. */
void braid_cluster_errand_begin(braid_serve_cluster *cluster, cluster_errand *errand);
void braid_cluster_errand_end(braid_serve_cluster *cluster, const cluster_errand *errand, int64_t there_ns);

/* --- forward.c --- */
/* The scheduler's: takes a request for a model of others. */
void braid_cluster_forward(void *cluster, braid_serve_request *request);

#endif
