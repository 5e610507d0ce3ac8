/* A client of etcd, version 3, by its gRPC API: keys with leases, transactions, and a prefix that is followed.
 *
 * It knows several endpoints and stays with one until that one fails; then it asks the next, until the call's time is
 * over. All calls may be made again without harm: whoever needs to know whether a transaction was done compares
 * revisions in it. An object is used by one thread at a time. What etcd sends is bounded (BRAID_ETCD_BYTES of a
 * message, BRAID_ETCD_KEYS of a range); anything else is a failure with a sentence. */
#ifndef BRAID_SERVE_CLUSTER_ETCD_H
#define BRAID_SERVE_CLUSTER_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

enum {
  BRAID_ETCD_ENDPOINTS = 16,
  BRAID_ETCD_BYTES = 4 << 20, /* of a message that is taken */
  BRAID_ETCD_KEYS = 4096,     /* of a range */
  BRAID_ETCD_OPS = 64         /* compares, and operations, of a transaction */
};

typedef struct braid_etcd braid_etcd;
typedef struct braid_etcd_follow braid_etcd_follow;

typedef struct braid_etcd_options {
  const char *endpoints;                     /* "HOST:PORT[,HOST:PORT...]" */
  const char *authority, *certificate, *key; /* PEM files: TLS with that authority (NULL: no TLS), and our own pair */
  int64_t call_ms, attempt_ms;               /* of a call, and of one endpoint in it; 0: 1500, 500 */
} braid_etcd_options;

/* INVALID_ARGUMENT: the list of endpoints. Connects with the first call. */
BRAID_MUST_CHECK braid_status braid_etcd_create(const braid_etcd_options *options, braid_etcd **out);
void braid_etcd_destroy(braid_etcd *etcd); /* NULL is allowed */
/* The endpoint that answered last, or is to be asked next. */
const char *braid_etcd_endpoint(const braid_etcd *etcd);

/* A key, or what became of it. Valid as long as what it came in. */
typedef struct braid_etcd_key {
  const char *key; /* key_bytes; no NUL behind it */
  const char *value;
  size_t key_bytes, value_bytes;
  int64_t create_revision, mod_revision, lease;
  bool deleted; /* of an event: then it has no value */
} braid_etcd_key;

typedef struct braid_etcd_keys {
  braid_etcd_key *keys;
  size_t count;
  int64_t revision; /* of the store: of a range when it was read, of events the last one's */
  bool all;         /* all keys that there are (a range); else what has changed */
  void *message;    /* that they stand in */
} braid_etcd_keys;
void braid_etcd_keys_free(braid_etcd_keys *keys);

/* --- calls ---------------------------------------------------------------------------------------------------------
 * IO: no endpoint answers, or not as etcd does; TIMEOUT: none in time. */
/* All keys with the prefix. OUT_OF_RANGE: more than BRAID_ETCD_KEYS. */
BRAID_MUST_CHECK braid_status braid_etcd_range(braid_etcd *etcd, const char *prefix, braid_etcd_keys *out);

/* A transaction: all operations, if all compares hold, else none. Keys and values are the caller's. */
typedef struct braid_etcd_compare {
  const char *key;
  bool modified;    /* the revision that last changed the key, else the one that made it */
  int64_t revision; /* is this; 0: there is no such key */
} braid_etcd_compare;
typedef struct braid_etcd_op {
  const char *key, *value; /* NULL: the key is deleted */
  int64_t lease;           /* 0: none */
} braid_etcd_op;
/* NOT_FOUND: a lease that is named has expired. *out_revision (NULL: not wanted): of the store after it. */
BRAID_MUST_CHECK braid_status braid_etcd_transact(braid_etcd *etcd, const braid_etcd_compare *compares,
                                                  size_t compare_count, const braid_etcd_op *ops, size_t op_count,
                                                  bool *out_done, int64_t *out_revision);
/* *out_ttl: what etcd gives, in seconds; it has a least of its own. */
BRAID_MUST_CHECK braid_status braid_etcd_lease(braid_etcd *etcd, int64_t ttl_s, int64_t *out_lease, int64_t *out_ttl);
/* NOT_FOUND: it has expired. */
BRAID_MUST_CHECK braid_status braid_etcd_renew(braid_etcd *etcd, int64_t lease, int64_t *out_ttl);
/* Its keys go with it. NOT_FOUND: it has gone already. */
BRAID_MUST_CHECK braid_status braid_etcd_revoke(braid_etcd *etcd, int64_t lease);

/* --- following -----------------------------------------------------------------------------------------------------
 * All keys with a prefix, and then their changes, in order and without a gap: a stream that is lost is opened again
 * behind the last change that was seen, and where etcd has compacted that away, all keys come again. */
BRAID_MUST_CHECK braid_status braid_etcd_follow_create(braid_etcd *etcd, const char *prefix, braid_etcd_follow **out);
/* Before the client. NULL is allowed. */
void braid_etcd_follow_destroy(braid_etcd_follow *follow);
/* Waits up to `timeout_ms` for keys or changes; none (count 0 and not `all`): nothing has changed. A failure (as of
 * calls) leaves it as it is: the next call goes on, and asks again. */
BRAID_MUST_CHECK braid_status braid_etcd_follow_next(braid_etcd_follow *follow, int64_t timeout_ms,
                                                     braid_etcd_keys *out);

#endif
