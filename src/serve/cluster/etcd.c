#include "serve/cluster/etcd.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "serve/cluster/etcd_channel.h"

enum { CALL_MS = 1500, ATTEMPT_MS = 500, UNPACK_BYTES = 64 << 20, PEM_BYTES = 1 << 20, PAUSE_MS = 20 };

/* --- messages ------------------------------------------------------------------------------------------------------
 */
grpc_byte_buffer *braid_etcd_pack(const ProtobufCMessage *message) {
  grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(message));
  protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

/* A short message may say that it has many parts: what they take in memory has a limit too. */
static void *bounded_alloc(void *context, size_t bytes) {
  size_t *left = context;
  if (bytes > *left) return NULL;
  *left -= bytes;
  return malloc(bytes);
}

static void bounded_free(void *context, void *data) {
  (void)context;
  free(data);
}

ProtobufCMessage *braid_etcd_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer) {
  size_t left = UNPACK_BYTES;
  ProtobufCAllocator allocator = {bounded_alloc, bounded_free, &left};
  ProtobufCMessage *message = NULL;
  grpc_byte_buffer_reader reader;
  if (grpc_byte_buffer_reader_init(&reader, buffer)) {
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    message = protobuf_c_message_unpack(type, &allocator, GRPC_SLICE_LENGTH(slice), GRPC_SLICE_START_PTR(slice));
    grpc_slice_unref(slice);
  }
  grpc_byte_buffer_destroy(buffer);
  return message;
}

gpr_timespec braid_etcd_deadline(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms > 0 ? ms : 0, GPR_TIMESPAN));
}

char *braid_etcd_prefix_end(const char *prefix) {
  char *end = strdup(prefix);
  size_t length = strlen(prefix);
  if (end && length) end[length - 1]++; /* our prefixes end in '/' */
  return end;
}

static ProtobufCBinaryData bytes_of(const char *text) {
  return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* --- endpoints -----------------------------------------------------------------------------------------------------
 */
static braid_status read_pem(const char *path, char **out) {
  braid_file_view file;
  *out = NULL;
  if (!path) return BRAID_OK;
  BRAID_TRY(braid_file_open(NULL, path, PEM_BYTES, &file));
  *out = braid_zalloc(NULL, file.bytes + 1);
  if (*out) memcpy(*out, file.data, file.bytes);
  braid_file_close(&file);
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status make_credentials(const braid_etcd_options *options, grpc_channel_credentials **out) {
  *out = NULL;
  if (!options->authority) {
    if (options->certificate || options->key)
      return braid_fail(BRAID_INVALID_ARGUMENT, "etcd: a certificate goes with the authority of etcd's own");
    *out = grpc_insecure_credentials_create();
    return BRAID_OK;
  }
  if (!options->certificate != !options->key)
    return braid_fail(BRAID_INVALID_ARGUMENT, "etcd: TLS with our own certificate takes both certificate and key");
  char *authority, *certificate = NULL, *key = NULL;
  braid_status status = read_pem(options->authority, &authority);
  if (status == BRAID_OK) status = read_pem(options->certificate, &certificate);
  if (status == BRAID_OK) status = read_pem(options->key, &key);
  if (status == BRAID_OK) {
    grpc_ssl_pem_key_cert_pair pair = {key, certificate};
    *out = grpc_ssl_credentials_create(authority, certificate ? &pair : NULL, NULL, NULL);
    if (!*out)
      status = braid_fail(BRAID_INVALID_FILE, "etcd: %s is no certificate of an authority", options->authority);
  }
  if (key) explicit_bzero(key, strlen(key));
  braid_free(NULL, authority);
  braid_free(NULL, certificate);
  braid_free(NULL, key);
  return status;
}

static grpc_channel *open_channel(const char *endpoint, grpc_channel_credentials *credentials) {
  char target[300];
  grpc_arg arguments[] = {
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = BRAID_ETCD_BYTES}},
      /* An etcd that comes back is found at once. */
      {GRPC_ARG_INTEGER, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, {.integer = 100}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, {.integer = 400}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, {.integer = 400}},
      {GRPC_ARG_INTEGER, GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, {.integer = 100}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_RETRIES, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_HTTP_PROXY, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_CHANNELZ, {.integer = 0}},
  };
  grpc_channel_args all = {sizeof arguments / sizeof *arguments, arguments};
  snprintf(target, sizeof target, "dns:///%.280s", endpoint);
  return grpc_channel_create(target, credentials, &all);
}

static braid_status add_endpoint(braid_etcd *etcd, const char *text, size_t length,
                                 grpc_channel_credentials *credentials) {
  char endpoint[256];
  int64_t port = 0;
  snprintf(endpoint, sizeof endpoint, "%.*s", length < sizeof endpoint ? (int)length : 0, text);
  const char *colon = strrchr(endpoint, ':');
  if (!colon || colon == endpoint || !braid_parse_i64(colon + 1, &port) || port < 1 || port > 65535)
    return braid_fail(BRAID_INVALID_ARGUMENT, "etcd: \"%.*s\" is no endpoint; HOST:PORT[,HOST:PORT...] is expected",
                      length < 200 ? (int)length : 200, text);
  if (etcd->count == BRAID_ETCD_ENDPOINTS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "etcd: up to %d endpoints are expected", BRAID_ETCD_ENDPOINTS);
  etcd->endpoints[etcd->count] = braid_strdup(NULL, endpoint);
  if (!etcd->endpoints[etcd->count]) return BRAID_NO_MEMORY;
  etcd->channels[etcd->count++] = open_channel(endpoint, credentials);
  return BRAID_OK;
}

/* gRPC's own messages, which it would print. */
static void no_log(gpr_log_func_args *arguments) {
  (void)arguments;
}

braid_status braid_etcd_create(const braid_etcd_options *options, braid_etcd **out) {
  grpc_channel_credentials *credentials = NULL;
  *out = NULL;
  braid_etcd *etcd = braid_zalloc(NULL, sizeof *etcd);
  if (!etcd) return BRAID_NO_MEMORY;
  gpr_set_log_function(no_log);
  grpc_init();
  etcd->call_ms = options->call_ms ? options->call_ms : CALL_MS;
  etcd->attempt_ms = options->attempt_ms ? options->attempt_ms : ATTEMPT_MS;
  braid_status status = make_credentials(options, &credentials);
  const char *at = options->endpoints;
  while (status == BRAID_OK) {
    size_t length = strcspn(at, ",");
    status = add_endpoint(etcd, at, length, credentials);
    if (!at[length]) break;
    at += length + 1;
  }
  if (credentials) grpc_channel_credentials_release(credentials);
  if (status == BRAID_OK)
    *out = etcd;
  else
    braid_etcd_destroy(etcd);
  return status;
}

void braid_etcd_destroy(braid_etcd *etcd) {
  if (!etcd) return;
  for (size_t i = 0; i < etcd->count; i++) {
    grpc_channel_destroy(etcd->channels[i]);
    braid_free(NULL, etcd->endpoints[i]);
  }
  braid_free(NULL, etcd);
  grpc_shutdown();
}

const char *braid_etcd_endpoint(const braid_etcd *etcd) {
  return etcd->endpoints[etcd->current];
}

void braid_etcd_turn(braid_etcd *etcd) {
  if (etcd->count == 1) return;
  etcd->current = (etcd->current + 1) % etcd->count;
  etcd->changes++;
}

/* --- calls ---------------------------------------------------------------------------------------------------------
 */
typedef struct method {
  const char *path;
  const ProtobufCMessageDescriptor *answer;
} method;

typedef struct outcome {
  grpc_status_code code;
  char detail[200];
  ProtobufCMessage *answer; /* where the code is OK */
} outcome;

/* One call of one endpoint: a message, and its answer. */
static void etcd_attempt(const braid_etcd *etcd, const method *m, const ProtobufCMessage *message, int64_t ms,
                         outcome *out) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
  grpc_slice path = grpc_slice_from_static_string(m->path), detail = grpc_empty_slice();
  grpc_call *call = grpc_channel_create_call(etcd->channels[etcd->current], NULL, GRPC_PROPAGATE_DEFAULTS, queue, path,
                                             NULL, braid_etcd_deadline(ms), NULL);
  grpc_metadata_array initial, trailing;
  grpc_metadata_array_init(&initial);
  grpc_metadata_array_init(&trailing);
  grpc_byte_buffer *sent = braid_etcd_pack(message), *received = NULL;
  *out = (outcome){.code = GRPC_STATUS_INTERNAL};
  grpc_op ops[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &received},
      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
       .data.recv_status_on_client = {.trailing_metadata = &trailing, .status = &out->code, .status_details = &detail}},
  };
  if (grpc_call_start_batch(call, ops, sizeof ops / sizeof *ops, out, NULL) == GRPC_CALL_OK)
    grpc_completion_queue_pluck(queue, out, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                NULL); /* ends by the call's deadline */
  snprintf(out->detail, sizeof out->detail, "%.*s",
           (int)(GRPC_SLICE_LENGTH(detail) < 199 ? GRPC_SLICE_LENGTH(detail) : 199),
           (const char *)GRPC_SLICE_START_PTR(detail));
  grpc_byte_buffer_destroy(sent);
  if (received) out->answer = braid_etcd_unpack(m->answer, received);
  if (out->code == GRPC_STATUS_OK && !out->answer) {
    out->code = GRPC_STATUS_DATA_LOSS;
    snprintf(out->detail, sizeof out->detail, "its answer is not one of etcd's");
  } else if (out->code != GRPC_STATUS_OK && out->answer) {
    protobuf_c_message_free_unpacked(out->answer, NULL);
    out->answer = NULL;
  }
  grpc_slice_unref(detail);
  grpc_metadata_array_destroy(&initial);
  grpc_metadata_array_destroy(&trailing);
  grpc_call_unref(call);
  grpc_completion_queue_shutdown(queue);
  while (grpc_completion_queue_pluck(queue, NULL, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL).type == GRPC_OP_COMPLETE) {
  }
  grpc_completion_queue_destroy(queue);
}

static bool is_passing(grpc_status_code code) { /* another endpoint may answer */
  return code == GRPC_STATUS_UNAVAILABLE || code == GRPC_STATUS_DEADLINE_EXCEEDED || code == GRPC_STATUS_CANCELLED ||
         code == GRPC_STATUS_INTERNAL || code == GRPC_STATUS_UNKNOWN || code == GRPC_STATUS_DATA_LOSS ||
         code == GRPC_STATUS_UNIMPLEMENTED;
}

static braid_status etcd_failure(const braid_etcd *etcd, const outcome *o) {
  braid_status status = o->code == GRPC_STATUS_DEADLINE_EXCEEDED    ? BRAID_TIMEOUT
                        : o->code == GRPC_STATUS_NOT_FOUND          ? BRAID_NOT_FOUND
                        : o->code == GRPC_STATUS_OUT_OF_RANGE       ? BRAID_OUT_OF_RANGE
                        : o->code == GRPC_STATUS_RESOURCE_EXHAUSTED ? BRAID_OUT_OF_RANGE
                                                                    : BRAID_IO;
  return braid_fail(status, "etcd at %s: %s (gRPC's status %d)", etcd->endpoints[etcd->current],
                    o->detail[0] ? o->detail : "no answer", (int)o->code);
}

/* Asks endpoints until one answers, or the time is over. *out is to be freed. */
static braid_status etcd_ask(braid_etcd *etcd, const method *m, const ProtobufCMessage *message,
                             ProtobufCMessage **out) {
  int64_t until = braid_now_ns() + etcd->call_ms * 1000000;
  outcome o;
  *out = NULL;
  for (size_t turns = 1;; turns++) {
    int64_t left = (until - braid_now_ns()) / 1000000;
    etcd_attempt(etcd, m, message, left < etcd->attempt_ms ? left : etcd->attempt_ms, &o);
    if (o.code == GRPC_STATUS_OK) {
      *out = o.answer;
      return BRAID_OK;
    }
    if (!is_passing(o.code)) return etcd_failure(etcd, &o);
    braid_status status = etcd_failure(etcd, &o);
    braid_etcd_turn(etcd);
    if (braid_now_ns() + PAUSE_MS * 1000000 >= until) return status;
    if (turns % etcd->count == 0) /* all were asked: they may be coming back */
      gpr_sleep_until(braid_etcd_deadline(PAUSE_MS));
  }
}

void braid_etcd_key_take(const Etcd__KeyValue *from, bool deleted, braid_etcd_key *out) {
  *out = (braid_etcd_key){.key = (const char *)from->key.data,
                          .key_bytes = from->key.len,
                          .value = from->value.len ? (const char *)from->value.data : "",
                          .value_bytes = from->value.len,
                          .create_revision = from->create_revision,
                          .mod_revision = from->mod_revision,
                          .lease = from->lease,
                          .deleted = deleted};
  if (!out->key_bytes) out->key = "";
}

void braid_etcd_keys_free(braid_etcd_keys *keys) {
  braid_free(NULL, keys->keys);
  if (keys->message) protobuf_c_message_free_unpacked(keys->message, NULL);
  *keys = (braid_etcd_keys){0};
}

braid_status braid_etcd_range(braid_etcd *etcd, const char *prefix, braid_etcd_keys *out) {
  static const method kRange = {"/etcdserverpb.KV/Range", &etcd__range_response__descriptor};
  Etcd__RangeRequest request = ETCD__RANGE_REQUEST__INIT;
  ProtobufCMessage *answer;
  *out = (braid_etcd_keys){.all = true};
  char *end = braid_etcd_prefix_end(prefix);
  if (!end) return BRAID_NO_MEMORY;
  request.key = bytes_of(prefix);
  request.range_end = bytes_of(end);
  request.limit = BRAID_ETCD_KEYS;
  braid_status status = etcd_ask(etcd, &kRange, &request.base, &answer);
  free(end);
  if (status != BRAID_OK) return status;
  const Etcd__RangeResponse *range = (Etcd__RangeResponse *)answer;
  out->message = answer;
  if (range->more || range->n_kvs > BRAID_ETCD_KEYS || !range->header) {
    bool more = range->header;
    braid_etcd_keys_free(out);
    return more ? braid_fail(BRAID_OUT_OF_RANGE, "etcd has more than %d keys under %s", BRAID_ETCD_KEYS, prefix)
                : braid_fail(BRAID_IO, "etcd at %s: a range without a revision", braid_etcd_endpoint(etcd));
  }
  out->keys = braid_zalloc_array(NULL, range->n_kvs + 1, sizeof *out->keys);
  if (!out->keys) {
    braid_etcd_keys_free(out);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < range->n_kvs; i++) braid_etcd_key_take(range->kvs[i], false, &out->keys[i]);
  out->count = range->n_kvs;
  out->revision = range->header->revision;
  return BRAID_OK;
}

static void set_compare(const braid_etcd_compare *from, Etcd__Compare *out) {
  *out = (Etcd__Compare)ETCD__COMPARE__INIT;
  out->result = ETCD__COMPARE__RESULT__EQUAL;
  out->key = bytes_of(from->key);
  if (from->modified) {
    out->target = ETCD__COMPARE__TARGET__MOD;
    out->target_union_case = ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
    out->mod_revision = from->revision;
  } else {
    out->target = ETCD__COMPARE__TARGET__CREATE;
    out->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    out->create_revision = from->revision;
  }
}

braid_status braid_etcd_transact(braid_etcd *etcd, const braid_etcd_compare *compares, size_t compare_count,
                                 const braid_etcd_op *ops, size_t op_count, bool *out_done, int64_t *out_revision) {
  static const method kTransact = {"/etcdserverpb.KV/Txn", &etcd__txn_response__descriptor};
  Etcd__Compare compare[BRAID_ETCD_OPS], *compare_list[BRAID_ETCD_OPS];
  Etcd__RequestOp op[BRAID_ETCD_OPS], *op_list[BRAID_ETCD_OPS];
  Etcd__PutRequest put[BRAID_ETCD_OPS];
  Etcd__DeleteRangeRequest removed[BRAID_ETCD_OPS];
  Etcd__TxnRequest request = ETCD__TXN_REQUEST__INIT;
  ProtobufCMessage *answer;
  *out_done = false;
  if (compare_count > BRAID_ETCD_OPS || op_count > BRAID_ETCD_OPS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "etcd: a transaction has up to %d compares and operations",
                      BRAID_ETCD_OPS);
  for (size_t i = 0; i < compare_count; i++) {
    set_compare(&compares[i], &compare[i]);
    compare_list[i] = &compare[i];
  }
  for (size_t i = 0; i < op_count; i++) {
    op[i] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
    op_list[i] = &op[i];
    if (ops[i].value) {
      put[i] = (Etcd__PutRequest)ETCD__PUT_REQUEST__INIT;
      put[i].key = bytes_of(ops[i].key);
      put[i].value = bytes_of(ops[i].value);
      put[i].lease = ops[i].lease;
      op[i].request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
      op[i].request_put = &put[i];
    } else {
      removed[i] = (Etcd__DeleteRangeRequest)ETCD__DELETE_RANGE_REQUEST__INIT;
      removed[i].key = bytes_of(ops[i].key);
      op[i].request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
      op[i].request_delete_range = &removed[i];
    }
  }
  request.n_compare = compare_count;
  request.compare = compare_list;
  request.n_success = op_count;
  request.success = op_list;
  BRAID_TRY(etcd_ask(etcd, &kTransact, &request.base, &answer));
  const Etcd__TxnResponse *done = (Etcd__TxnResponse *)answer;
  bool whole = done->header;
  *out_done = whole && done->succeeded;
  if (out_revision) *out_revision = whole ? done->header->revision : 0;
  protobuf_c_message_free_unpacked(answer, NULL);
  return whole ? BRAID_OK
               : braid_fail(BRAID_IO, "etcd at %s: a transaction without a revision", braid_etcd_endpoint(etcd));
}

/* --- leases --------------------------------------------------------------------------------------------------------
 */
braid_status braid_etcd_lease(braid_etcd *etcd, int64_t ttl_s, int64_t *out_lease, int64_t *out_ttl) {
  static const method kGrant = {"/etcdserverpb.Lease/LeaseGrant", &etcd__lease_grant_response__descriptor};
  Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;
  ProtobufCMessage *answer;
  *out_lease = *out_ttl = 0;
  request.ttl = ttl_s;
  BRAID_TRY(etcd_ask(etcd, &kGrant, &request.base, &answer));
  const Etcd__LeaseGrantResponse *grant = (Etcd__LeaseGrantResponse *)answer;
  braid_status status = BRAID_OK;
  if (grant->error[0] || !grant->id || grant->ttl < 1)
    status = braid_fail(BRAID_IO, "etcd at %s gives no lease: %.200s", braid_etcd_endpoint(etcd), grant->error);
  *out_lease = status == BRAID_OK ? grant->id : 0;
  *out_ttl = status == BRAID_OK ? grant->ttl : 0;
  protobuf_c_message_free_unpacked(answer, NULL);
  return status;
}

braid_status braid_etcd_renew(braid_etcd *etcd, int64_t lease, int64_t *out_ttl) {
  static const method kRenew = {"/etcdserverpb.Lease/LeaseKeepAlive", &etcd__lease_keep_alive_response__descriptor};
  Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
  ProtobufCMessage *answer;
  *out_ttl = 0;
  request.id = lease;
  BRAID_TRY(etcd_ask(etcd, &kRenew, &request.base, &answer)); /* a stream of one message */
  *out_ttl = ((Etcd__LeaseKeepAliveResponse *)answer)->ttl;
  protobuf_c_message_free_unpacked(answer, NULL);
  return *out_ttl > 0 ? BRAID_OK
                      : braid_fail(BRAID_NOT_FOUND, "etcd: lease %llx has expired", (unsigned long long)lease);
}

braid_status braid_etcd_revoke(braid_etcd *etcd, int64_t lease) {
  static const method kRevoke = {"/etcdserverpb.Lease/LeaseRevoke", &etcd__lease_revoke_response__descriptor};
  Etcd__LeaseRevokeRequest request = ETCD__LEASE_REVOKE_REQUEST__INIT;
  ProtobufCMessage *answer;
  request.id = lease;
  BRAID_TRY(etcd_ask(etcd, &kRevoke, &request.base, &answer));
  protobuf_c_message_free_unpacked(answer, NULL);
  return BRAID_OK;
}
