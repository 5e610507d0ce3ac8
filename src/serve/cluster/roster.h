/* What a daemon knows of its cluster: the keys under its prefix in etcd, read into nodes, orders and candidates.
 *
 *   nodes/NODE        of each daemon, by itself, under its lease: where it is reached, its load, its models
 *   orders/MODEL      of the control node: which nodes are to hold the model, and why
 *   election/LEASE    of each daemon, under its lease: the oldest one's daemon is the control node
 *
 * Values are JSON from elsewhere: bounded, and one that is malformed counts as none. */
#ifndef BRAID_SERVE_CLUSTER_ROSTER_H
#define BRAID_SERVE_CLUSTER_ROSTER_H

#include "base/sha256.h"
#include "base/text.h"
#include "serve/cluster/etcd.h"
#include "serve/request.h"

enum {
  BRAID_CLUSTER_NAME = 128,  /* of a node or model, with its zero */
  BRAID_CLUSTER_PLACE = 300, /* HOST:PORT */
  BRAID_CLUSTER_MEMBERS = 256,
  BRAID_CLUSTER_HOLDINGS = 256, /* models of a node */
  BRAID_CLUSTER_ORDERS = 1024,
  BRAID_CLUSTER_COPIES = 16, /* nodes of an order */
  BRAID_CLUSTER_PAUSE_MS = 1500,
  BRAID_CLUSTER_SAID = 160,                          /* bytes of a reason that are written, */
  BRAID_CLUSTER_REASON = 3 * BRAID_CLUSTER_SAID + 1, /* each of which may be no UTF-8, and become three */
  BRAID_CLUSTER_VALUE = 256 << 10                    /* bytes of a value that is read */
};

typedef enum braid_cluster_state {
  BRAID_CLUSTER_UNLOADED = 0,
  BRAID_CLUSTER_LOADING,
  BRAID_CLUSTER_READY,
  BRAID_CLUSTER_ABSENT, /* it has not its files, and would fetch them */
  BRAID_CLUSTER_UNABLE  /* it could not be loaded there, has no file, or was unloaded by the API */
} braid_cluster_state;
const char *braid_cluster_state_name(braid_cluster_state state);

/* A model of a node's configuration. */
typedef struct braid_cluster_holding {
  char model[BRAID_CLUSTER_NAME];
  braid_cluster_state state;
  int64_t bytes;         /* of its memory; while it is not loaded, of its files */
  double seconds;        /* of a run there, measured; 0: not known */
  double requests_per_s; /* of late, that it ran there */
  int64_t file_bytes;
  char sum[BRAID_SHA256_HEX + 1];    /* of its files, which are there; "": not known */
  char reason[BRAID_CLUSTER_REASON]; /* why it is not able to hold it; "" */
} braid_cluster_holding;

typedef struct braid_cluster_member {
  char name[BRAID_CLUSTER_NAME], address[BRAID_CLUSTER_PLACE], instance[33];
  char proof[BRAID_SHA256_HEX + 1]; /* of its token, the same for all that have the same */
  int64_t lease, revision;          /* revision: that made the key */
  int64_t written;                  /* that changed it last */
  int64_t seen_ns;                  /* when it was written last, as seen here; by braid_now_ns() */
  int64_t steady_ns;                /* since when it has been without a pause of BRAID_CLUSTER_PAUSE_MS */
  double busy;                      /* of late, 0 to 1 */
  int64_t waiting;                  /* requests */
  int64_t instances, memory_bytes;  /* instances: that its power cap lets run side by side */
  double idle_watts, busy_watts;    /* doing nothing, and with all of those running; busy 0: not known */
  char devices[BRAID_SERVE_DETAIL]; /* for people: "cpu: cpu, 2 instances; gpu: cuda, 1 instance" */
  braid_cluster_holding *holdings;
  size_t holding_count;
} braid_cluster_member;

typedef struct braid_cluster_order {
  char model[BRAID_CLUSTER_NAME];
  char nodes[BRAID_CLUSTER_COPIES][BRAID_CLUSTER_NAME];
  size_t node_count;
  int64_t revision;               /* that changed the key last */
  char sum[BRAID_SHA256_HEX + 1]; /* of the files that the model is; "": nobody has said yet */
  char reason[BRAID_SERVE_DETAIL];
} braid_cluster_order;

typedef struct braid_cluster_candidate {
  char key[BRAID_CLUSTER_NAME], node[BRAID_CLUSTER_NAME];
  int64_t revision; /* that made the key */
} braid_cluster_candidate;

typedef struct braid_cluster_roster {
  braid_cluster_member *members;
  size_t member_count, member_room;
  braid_cluster_order *orders;
  size_t order_count, order_room;
  braid_cluster_candidate *candidates;
  size_t candidate_count, candidate_room;
  int64_t revision; /* of the store that is seen; 0: nothing yet */
  /* Of the token that most nodes have; of as many, of those with the oldest candidate. "": there are none. */
  char proof[BRAID_SHA256_HEX + 1];
  uint64_t refused; /* keys that were malformed, or too many */
} braid_cluster_roster;

void braid_cluster_roster_deinit(braid_cluster_roster *roster);
/* Takes in what etcd says of keys with `prefix`: all of them, or changes. */
void braid_cluster_roster_apply(braid_cluster_roster *roster, const char *prefix, const braid_etcd_keys *keys);
/* NULL: there is none. */
const braid_cluster_member *braid_cluster_roster_member(const braid_cluster_roster *roster, const char *name);
const braid_cluster_order *braid_cluster_roster_order(const braid_cluster_roster *roster, const char *model);
const braid_cluster_holding *braid_cluster_member_holding(const braid_cluster_member *member, const char *model);
bool braid_cluster_order_names(const braid_cluster_order *order, const char *node);

/* Whether the files there are others than those that the model's order says. */
bool braid_cluster_roster_differs(const braid_cluster_roster *roster, const braid_cluster_holding *holding);
/* Whether it has written nothing of itself for `for_ns` while node `self` has: it hangs, or its network is gone. What
 * `self` wrote comes behind all that others wrote before, so that a pause of our own makes nobody silent. Where `self`
 * has not written steadily for twice `for_ns`, nobody is: etcd was away, and some find it again later than others. */
bool braid_cluster_roster_is_silent(const braid_cluster_roster *roster, const char *self,
                                    const braid_cluster_member *member, int64_t for_ns);

/* Values as JSON. */
void braid_cluster_member_write(const braid_cluster_member *member, braid_text *out);
void braid_cluster_order_write(const braid_cluster_order *order, braid_text *out);
/* False: the value is malformed. The member's holdings are allocated, and freed with its deinit. */
bool braid_cluster_member_read(const char *value, size_t bytes, braid_cluster_member *out);
bool braid_cluster_order_read(const char *value, size_t bytes, braid_cluster_order *out);
void braid_cluster_member_deinit(braid_cluster_member *member);

#endif
