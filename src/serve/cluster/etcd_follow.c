/* Following a prefix: etcd's Watch, a stream that is opened again where it was left. */
#include <grpc/byte_buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "serve/cluster/etcd_channel.h"

enum { PAUSE_MS = 100, OPEN_MS = 1000 };

struct braid_etcd_follow {
  braid_etcd *etcd;
  char *prefix, *end;
  int64_t next;     /* the revision that is to come next; 0: all keys are to be read first */
  int64_t retry_ns; /* not opened again before; by braid_now_ns() */
  /* --- the stream; NULL: there is none --- */
  grpc_completion_queue *queue;
  grpc_call *call;
  uint64_t changes; /* the client's when it was opened: it goes with its endpoint */
  int64_t opened_ns;
  bool created; /* etcd has said so */
  grpc_metadata_array initial, trailing;
  grpc_byte_buffer *received;
  grpc_status_code code;
  grpc_slice detail;
};

/* Tags of batches. */
static char kBegin, kRead, kStatus;

braid_status braid_etcd_follow_create(braid_etcd *etcd, const char *prefix, braid_etcd_follow **out) {
  *out = NULL;
  braid_etcd_follow *follow = braid_zalloc(NULL, sizeof *follow);
  if (!follow) return BRAID_NO_MEMORY;
  follow->etcd = etcd;
  follow->prefix = braid_strdup(NULL, prefix);
  follow->end = braid_etcd_prefix_end(prefix);
  if (follow->prefix && follow->end) {
    *out = follow;
    return BRAID_OK;
  }
  braid_etcd_follow_destroy(follow);
  return BRAID_NO_MEMORY;
}

static void close_stream(braid_etcd_follow *follow) {
  if (!follow->queue) return;
  grpc_call_cancel(follow->call, NULL);
  grpc_call_unref(follow->call);
  grpc_completion_queue_shutdown(follow->queue);
  while (grpc_completion_queue_next(follow->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_completion_queue_destroy(follow->queue);
  if (follow->received) grpc_byte_buffer_destroy(follow->received);
  grpc_slice_unref(follow->detail);
  grpc_metadata_array_destroy(&follow->initial);
  grpc_metadata_array_destroy(&follow->trailing);
  follow->queue = NULL;
  follow->received = NULL;
  follow->retry_ns = braid_now_ns() + PAUSE_MS * INT64_C(1000000);
}

void braid_etcd_follow_destroy(braid_etcd_follow *follow) {
  if (!follow) return;
  close_stream(follow);
  braid_free(NULL, follow->prefix);
  free(follow->end);
  braid_free(NULL, follow);
}

static void read_on(braid_etcd_follow *follow) {
  grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &follow->received};
  (void)grpc_call_start_batch(follow->call, &op, 1, &kRead, NULL);
}

/* The stream stays open: its end is not sent. */
static void open_stream(braid_etcd_follow *follow) {
  Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
  Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
  braid_etcd *etcd = follow->etcd;
  create.key = (ProtobufCBinaryData){strlen(follow->prefix), (uint8_t *)follow->prefix};
  create.range_end = (ProtobufCBinaryData){strlen(follow->end), (uint8_t *)follow->end};
  create.start_revision = follow->next;
  request.request_union_case = ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
  request.create_request = &create;
  grpc_byte_buffer *sent = braid_etcd_pack(&request.base);
  follow->queue = grpc_completion_queue_create_for_next(NULL);
  follow->call = grpc_channel_create_call(etcd->channels[etcd->current], NULL, GRPC_PROPAGATE_DEFAULTS, follow->queue,
                                          grpc_slice_from_static_string("/etcdserverpb.Watch/Watch"), NULL,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array_init(&follow->initial);
  grpc_metadata_array_init(&follow->trailing);
  follow->detail = grpc_empty_slice();
  follow->changes = etcd->changes;
  follow->opened_ns = braid_now_ns();
  follow->created = false;
  /* A member that has lost the others ends the stream instead of saying nothing. */
  grpc_metadata leader = {.key = grpc_slice_from_static_string("hasleader"),
                          .value = grpc_slice_from_static_string("true")};
  grpc_op begin[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA, .data.send_initial_metadata = {.count = 1, .metadata = &leader}},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = sent},
      {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &follow->initial},
  };
  grpc_op end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                 .data.recv_status_on_client = {.trailing_metadata = &follow->trailing,
                                                .status = &follow->code,
                                                .status_details = &follow->detail}};
  (void)grpc_call_start_batch(follow->call, begin, sizeof begin / sizeof *begin, &kBegin, NULL);
  (void)grpc_call_start_batch(follow->call, &end, 1, &kStatus, NULL);
  read_on(follow);
  grpc_byte_buffer_destroy(sent);
}

/* --- what comes ----------------------------------------------------------------------------------------------------
 */
static braid_status take_events(braid_etcd_follow *follow, Etcd__WatchResponse *response, braid_etcd_keys *out) {
  if (!response->n_events) {
    protobuf_c_message_free_unpacked(&response->base, NULL);
    return BRAID_OK;
  }
  out->message = response;
  out->keys = braid_zalloc_array(NULL, response->n_events, sizeof *out->keys);
  if (!out->keys) {
    braid_etcd_keys_free(out);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < response->n_events; i++) {
    const Etcd__Event *event = response->events[i];
    if (!event->kv) continue;
    braid_etcd_key_take(event->kv, event->type == ETCD__EVENT__TYPE__DELETE, &out->keys[out->count]);
    if (event->kv->mod_revision >= follow->next && event->kv->mod_revision < INT64_MAX)
      follow->next = event->kv->mod_revision + 1;
    out->count++;
  }
  out->revision = follow->next - 1;
  return BRAID_OK;
}

/* A message of the stream. */
static braid_status take_message(braid_etcd_follow *follow, braid_etcd_keys *out) {
  Etcd__WatchResponse *response =
      (Etcd__WatchResponse *)braid_etcd_unpack(&etcd__watch_response__descriptor, follow->received);
  follow->received = NULL;
  if (!response) {
    close_stream(follow);
    braid_etcd_turn(follow->etcd);
    return braid_fail(BRAID_IO, "etcd at %s: a watch's answer is not one of etcd's", braid_etcd_endpoint(follow->etcd));
  }
  follow->created = true;
  if (response->canceled) {
    if (response->compact_revision) follow->next = 0; /* what has changed meanwhile is not to be had any more */
    bool compacted = response->compact_revision;
    braid_status status = compacted ? BRAID_OK
                                    : braid_fail(BRAID_IO, "etcd at %s ends a watch: %.200s",
                                                 braid_etcd_endpoint(follow->etcd), response->cancel_reason);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    close_stream(follow);
    if (compacted) follow->retry_ns = 0;
    return status;
  }
  if (response->created && response->header && response->header->revision < follow->next - 1) {
    follow->next = 0; /* a store that is younger than what we know: it has lost its data, or this member is behind */
    protobuf_c_message_free_unpacked(&response->base, NULL);
    close_stream(follow);
    follow->retry_ns = 0;
    return BRAID_OK;
  }
  read_on(follow);
  return take_events(follow, response, out);
}

static braid_status lose_stream(braid_etcd_follow *follow) {
  char detail[200];
  size_t length = GRPC_SLICE_LENGTH(follow->detail);
  grpc_status_code code = follow->code;
  snprintf(detail, sizeof detail, "%.*s", (int)(length < sizeof detail ? length : sizeof detail - 1),
           (const char *)GRPC_SLICE_START_PTR(follow->detail));
  close_stream(follow);
  if (code == GRPC_STATUS_RESOURCE_EXHAUSTED) follow->next = 0; /* too much at once */
  const char *endpoint = braid_etcd_endpoint(follow->etcd);
  braid_etcd_turn(follow->etcd);
  return braid_fail(BRAID_IO, "etcd at %s: the watch is lost: %s (gRPC's status %d)", endpoint, detail, (int)code);
}

/* Until something comes, or the time is over. */
static braid_status poll_stream(braid_etcd_follow *follow, gpr_timespec until, braid_etcd_keys *out) {
  while (!out->count && follow->queue) {
    grpc_event event = grpc_completion_queue_next(follow->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE) break;
    if (event.tag == &kStatus) return lose_stream(follow);
    if (event.tag == &kRead && event.success && follow->received) BRAID_TRY(take_message(follow, out));
  }
  return BRAID_OK;
}

braid_status braid_etcd_follow_next(braid_etcd_follow *follow, int64_t timeout_ms, braid_etcd_keys *out) {
  gpr_timespec until = braid_etcd_deadline(timeout_ms);
  int64_t now = braid_now_ns();
  *out = (braid_etcd_keys){0};
  if (follow->queue && follow->changes != follow->etcd->changes) { /* its endpoint has failed others */
    close_stream(follow);
    follow->retry_ns = 0;
  }
  if (follow->queue && !follow->created && now - follow->opened_ns > OPEN_MS * INT64_C(1000000)) {
    close_stream(follow);
    braid_etcd_turn(follow->etcd);
    return braid_fail(BRAID_TIMEOUT, "etcd at %s does not begin a watch", braid_etcd_endpoint(follow->etcd));
  }
  if (!follow->queue && now < follow->retry_ns) {
    gpr_timespec retry = braid_etcd_deadline((follow->retry_ns - now) / 1000000 + 1);
    gpr_sleep_until(gpr_time_cmp(retry, until) < 0 ? retry : until);
    if (braid_now_ns() < follow->retry_ns) return BRAID_OK;
  }
  if (!follow->next) {
    BRAID_TRY(braid_etcd_range(follow->etcd, follow->prefix, out));
    follow->next = out->revision > 0 && out->revision < INT64_MAX ? out->revision + 1 : 1;
    if (!follow->queue) open_stream(follow);
    return BRAID_OK;
  }
  if (!follow->queue) open_stream(follow);
  return poll_stream(follow, until, out);
}
