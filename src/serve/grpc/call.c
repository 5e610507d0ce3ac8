#include "serve/grpc/call.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

enum { TOKEN_BYTES = 4096 };

/* --- life -----------------------------------------------------------------------------------------------------------
 */
void braid_grpc_call_retain(braid_grpc_call *call) {
  __atomic_add_fetch(&call->references, 1, __ATOMIC_RELAXED);
}

bool braid_grpc_call_find(braid_grpc_call *call) {
  int references = __atomic_load_n(&call->references, __ATOMIC_RELAXED);
  while (references)
    if (__atomic_compare_exchange_n(&call->references, &references, references + 1, true, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return true;
  return false;
}

static void free_outgoing(braid_grpc_outgoing *outgoing) {
  while (outgoing) {
    braid_grpc_outgoing *next = outgoing->next;
    grpc_byte_buffer_destroy(outgoing->buffer);
    braid_free(NULL, outgoing);
    outgoing = next;
  }
}

static void free_call(braid_grpc_call *call) {
  free_outgoing(call->first);
  free_outgoing(call->sent);
  if (call->received) grpc_byte_buffer_destroy(call->received);
  grpc_slice_unref(call->detail);
  grpc_metadata_array_destroy(&call->metadata);
  grpc_call_details_destroy(&call->details);
  if (call->call) grpc_call_unref(call->call);
  pthread_mutex_destroy(&call->lock);
  braid_free(NULL, call->watched_service);
  braid_free(NULL, call);
}

/* The server's end waits until the count is 0, so the count goes down last. */
void braid_grpc_call_release(braid_grpc_call *call) {
  if (__atomic_sub_fetch(&call->references, 1, __ATOMIC_ACQ_REL)) return;
  braid_serve_grpc *grpc = call->grpc;
  pthread_mutex_lock(&grpc->lock);
  if (call->next) call->next->previous = call->previous;
  if (call->previous)
    call->previous->next = call->next;
  else
    grpc->calls = call->next;
  pthread_mutex_unlock(&grpc->lock);
  free_call(call);
  pthread_mutex_lock(&grpc->lock);
  grpc->call_count--;
  pthread_cond_broadcast(&grpc->changed);
  pthread_mutex_unlock(&grpc->lock);
}

void braid_grpc_call_await(braid_serve_grpc *grpc) {
  braid_grpc_call *call = braid_zalloc(NULL, sizeof *call);
  if (!call) return; /* those that wait already are enough to go on with */
  call->grpc = grpc;
  call->references = 1;
  call->detail = grpc_empty_slice();
  pthread_mutex_init(&call->lock, NULL);
  for (int i = 0; i < BRAID_GRPC_EVENTS; i++) call->tags[i] = (braid_grpc_tag){call, (braid_grpc_event)i};
  grpc_call_details_init(&call->details);
  grpc_metadata_array_init(&call->metadata);
  grpc_call_error error = grpc_server_request_call(grpc->listener, &call->call, &call->details, &call->metadata,
                                                   grpc->queue, grpc->queue, &call->tags[BRAID_GRPC_BEGUN]);
  if (error != GRPC_CALL_OK) free_call(call);
}

/* --- in -------------------------------------------------------------------------------------------------------------
 */
/* Starts a batch that the call is kept for. With the lock held. */
static bool start_batch(braid_grpc_call *call, const grpc_op *ops, size_t count, braid_grpc_event event) {
  braid_grpc_call_retain(call);
  if (grpc_call_start_batch(call->call, ops, count, &call->tags[event], NULL) == GRPC_CALL_OK) return true;
  __atomic_sub_fetch(&call->references, 1, __ATOMIC_RELAXED); /* never the last: the caller has one */
  return false;
}

/* With the lock held. */
static void read_message(braid_grpc_call *call) {
  grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received};
  call->reading = start_batch(call, &op, 1, BRAID_GRPC_READ);
  call->broken |= !call->reading;
}

/* "Bearer TOKEN" of the header `authorization`: whose it is. A header that is something else is nobody's. */
static braid_serve_tenant *find_tenant(const braid_grpc_call *call, bool *out_has_token) {
  static const char kKey[] = "authorization", kScheme[] = "bearer ";
  const struct braid_server *server = call->grpc->server;
  char token[TOKEN_BYTES + 1];
  *out_has_token = false;
  for (size_t i = 0; i < call->metadata.count && !*out_has_token; i++) {
    const grpc_metadata *entry = &call->metadata.metadata[i];
    size_t length = GRPC_SLICE_LENGTH(entry->value), scheme = sizeof kScheme - 1;
    const char *value = (const char *)GRPC_SLICE_START_PTR(entry->value);
    if (GRPC_SLICE_LENGTH(entry->key) != sizeof kKey - 1 ||
        memcmp(GRPC_SLICE_START_PTR(entry->key), kKey, sizeof kKey - 1) != 0)
      continue;
    *out_has_token = true;
    if (length < scheme || strncasecmp(value, kScheme, scheme) != 0 || length - scheme > TOKEN_BYTES) return NULL;
    memcpy(token, value + scheme, length - scheme);
    token[length - scheme] = '\0';
  }
  braid_serve_tenant *tenant =
      braid_serve_tenant_find(server->tenants, server->tenant_count, *out_has_token ? token : NULL);
  explicit_bzero(token, sizeof token);
  return tenant;
}

static int64_t find_deadline(const grpc_call_details *details) {
  gpr_timespec never = gpr_inf_future(details->deadline.clock_type);
  if (gpr_time_cmp(details->deadline, never) == 0) return 0;
  gpr_timespec left = gpr_time_sub(details->deadline, gpr_now(details->deadline.clock_type));
  double ns = (double)left.tv_sec * 1e9 + left.tv_nsec;
  if (ns > 1e18) return 0;
  return braid_now_ns() + (ns > 1 ? (int64_t)ns : 1);
}

static bool is_watch(const braid_grpc_call *call) {
  return call->method && call->method->kind == BRAID_GRPC_WATCHED;
}

/* False: too many are open. */
static bool count_call(braid_grpc_call *call) {
  braid_serve_grpc *grpc = call->grpc;
  size_t watches = 0;
  pthread_mutex_lock(&grpc->lock);
  for (const braid_grpc_call *other = is_watch(call) ? grpc->calls : NULL; other; other = other->next)
    watches += is_watch(other);
  bool fits = grpc->call_count < BRAID_GRPC_CALLS && watches < BRAID_GRPC_WATCHES;
  grpc->call_count++;
  call->next = grpc->calls;
  if (call->next) call->next->previous = call;
  grpc->calls = call;
  pthread_mutex_unlock(&grpc->lock);
  return fits;
}

/* Why a call is not read; OK: it is. */
static grpc_status_code judge_call(braid_grpc_call *call, bool fits, const char **out_why) {
  bool has_token;
  *out_why = "there is no such method";
  if (!call->method) return GRPC_STATUS_UNIMPLEMENTED;
  *out_why = "too many calls are open";
  if (!fits) return GRPC_STATUS_RESOURCE_EXHAUSTED;
  *out_why = "the daemon is stopping";
  if (__atomic_load_n(&call->grpc->stopping, __ATOMIC_ACQUIRE)) return GRPC_STATUS_UNAVAILABLE;
  if (call->method->for_all) return GRPC_STATUS_OK;
  call->tenant = find_tenant(call, &has_token);
  *out_why = has_token ? "the token is nobody's" : "a token is needed: authorization: Bearer TOKEN";
  return call->tenant ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED;
}

/* Only what a tenant sends is received. */
static void begin_call(braid_grpc_call *call) {
  call->method = braid_grpc_method_find((const char *)GRPC_SLICE_START_PTR(call->details.method),
                                        GRPC_SLICE_LENGTH(call->details.method));
  bool fits = count_call(call);
  const char *why;
  braid_grpc_call_await(call->grpc);
  call->deadline_ns = find_deadline(&call->details);
  grpc_status_code code = judge_call(call, fits, &why);
  grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->cancelled};
  pthread_mutex_lock(&call->lock);
  call->broken = !start_batch(call, &close, 1, BRAID_GRPC_CLOSED);
  if (code == GRPC_STATUS_OK) {
    if (call->method->kind != BRAID_GRPC_STREAM)
      call->receive_by_ns = braid_deadline_ns((int64_t)(call->grpc->server->config->receive_ms * 1e6));
    read_message(call);
  }
  pthread_mutex_unlock(&call->lock);
  if (code != GRPC_STATUS_OK) braid_grpc_call_finish(call, code, why);
  braid_grpc_call_release(call);
}

/* The client's end of messages. */
static void end_messages(braid_grpc_call *call) {
  pthread_mutex_lock(&call->lock);
  call->ended = true;
  bool idle = !call->streamed;
  pthread_mutex_unlock(&call->lock);
  if (call->method->kind != BRAID_GRPC_STREAM)
    braid_grpc_call_finish(call, GRPC_STATUS_INVALID_ARGUMENT, "the call came without a message");
  else if (idle)
    braid_grpc_call_finish(call, GRPC_STATUS_OK, "");
}

/* Reads a stream on, unless too many of its requests or answers wait. True: it is over. With the lock held. */
static bool stream_on(braid_grpc_call *call) {
  if (!call->method || call->method->kind != BRAID_GRPC_STREAM || call->broken || call->finishing) return false;
  if (!call->reading && !call->taking && !call->ended && call->streamed < BRAID_GRPC_STREAMED && !call->first)
    read_message(call);
  return call->ended && !call->streamed;
}

static void take_message(braid_grpc_call *call, bool success) {
  pthread_mutex_lock(&call->lock);
  grpc_byte_buffer *buffer = call->received;
  call->received = NULL;
  call->reading = false;
  call->receive_by_ns = 0;
  bool wanted = success && !call->finishing;
  if (wanted && buffer) {
    call->streamed++;
    call->taking = true;
  }
  pthread_mutex_unlock(&call->lock);
  if (!wanted || !buffer) {
    if (buffer) grpc_byte_buffer_destroy(buffer);
    if (wanted) end_messages(call);
    return;
  }
  switch (call->method->kind) {
  case BRAID_GRPC_ANSWERED:
  case BRAID_GRPC_WATCHED:
    braid_grpc_method_ask(call, buffer);
    break;
  case BRAID_GRPC_WORKED:
    braid_grpc_worker_take(call, buffer);
    break;
  case BRAID_GRPC_INFERRED:
  case BRAID_GRPC_STREAM:
    braid_grpc_call_infer(call, buffer);
    break;
  }
  pthread_mutex_lock(&call->lock);
  call->taking = false; /* a stream's requests go to the scheduler in their order */
  bool over = stream_on(call);
  pthread_mutex_unlock(&call->lock);
  if (over) braid_grpc_call_finish(call, GRPC_STATUS_OK, "");
}

/* --- out ------------------------------------------------------------------------------------------------------------
 */
/* Starts the next batch, unless one is on its way: a message, and the status with the last. With the lock held. */
static void send_next(braid_grpc_call *call) {
  grpc_op ops[3] = {0};
  size_t count = 0;
  if (call->sending || call->broken || call->finished || braid_grpc_call_is_gone(call)) return;
  braid_grpc_outgoing *message = call->first;
  bool last = call->finishing && (!message || !message->next);
  if (!message && !last) return;
  if (!call->begun) ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
  if (message) {
    call->first = message->next;
    message->next = NULL;
    call->sent = message;
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = message->buffer;
  }
  if (last) {
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = call->status;
    ops[count++].data.send_status_from_server.status_details = &call->detail;
  }
  call->begun = true;
  call->finished = last;
  call->sending = start_batch(call, ops, count, BRAID_GRPC_SENT);
  call->broken |= !call->sending;
}

void braid_grpc_call_send(braid_grpc_call *call, grpc_byte_buffer *buffer) {
  braid_grpc_outgoing *outgoing = buffer ? braid_zalloc(NULL, sizeof *outgoing) : NULL;
  if (!outgoing) {
    if (buffer) grpc_byte_buffer_destroy(buffer);
    braid_grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for the answer");
    return;
  }
  outgoing->buffer = buffer;
  pthread_mutex_lock(&call->lock);
  if (call->first)
    call->last->next = outgoing;
  else
    call->first = outgoing;
  call->last = outgoing;
  bool wanted = !call->finishing;
  /* A call that ends with one message sends both together (braid_grpc_call_finish). */
  if (wanted && (call->method->kind == BRAID_GRPC_STREAM || call->method->kind == BRAID_GRPC_WATCHED)) send_next(call);
  pthread_mutex_unlock(&call->lock);
}

void braid_grpc_call_finish(braid_grpc_call *call, grpc_status_code status, const char *detail) {
  pthread_mutex_lock(&call->lock);
  if (!call->finishing) {
    call->finishing = true;
    call->status = status;
    call->detail = grpc_slice_from_copied_string(detail);
    send_next(call);
  }
  pthread_mutex_unlock(&call->lock);
}

void braid_grpc_call_answer_stream(braid_grpc_call *call, grpc_byte_buffer *buffer) {
  braid_grpc_call_send(call, buffer);
  pthread_mutex_lock(&call->lock);
  call->streamed--;
  bool over = stream_on(call);
  pthread_mutex_unlock(&call->lock);
  if (over) braid_grpc_call_finish(call, GRPC_STATUS_OK, "");
}

static void message_sent(braid_grpc_call *call, bool success) {
  pthread_mutex_lock(&call->lock);
  braid_grpc_outgoing *sent = call->sent;
  call->sent = NULL;
  call->sending = false;
  call->broken |= !success;
  send_next(call);
  bool over = stream_on(call);
  pthread_mutex_unlock(&call->lock);
  free_outgoing(sent);
  if (over) braid_grpc_call_finish(call, GRPC_STATUS_OK, "");
}

/* --- events ---------------------------------------------------------------------------------------------------------
 */
void braid_grpc_call_event(braid_grpc_call *call, braid_grpc_event event, bool success) {
  switch (event) {
  case BRAID_GRPC_BEGUN: /* its reference is the first one */
    if (success)
      begin_call(call);
    else
      free_call(call);
    return;
  case BRAID_GRPC_CLOSED:
    if (call->cancelled) __atomic_store_n(&call->gone, 1, __ATOMIC_RELEASE);
    break;
  case BRAID_GRPC_READ:
    take_message(call, success);
    break;
  case BRAID_GRPC_SENT:
    message_sent(call, success);
    break;
  case BRAID_GRPC_EVENTS:
    break;
  }
  braid_grpc_call_release(call);
}

bool braid_grpc_call_is_gone(const braid_grpc_call *call) {
  return __atomic_load_n(&call->gone, __ATOMIC_ACQUIRE);
}

void braid_grpc_call_look(braid_grpc_call *call, int64_t now_ns) {
  pthread_mutex_lock(&call->lock);
  bool late = call->receive_by_ns > 0 && now_ns > call->receive_by_ns;
  bool watches = call->watching && !call->first && !call->finishing;
  pthread_mutex_unlock(&call->lock);
  if (late) braid_grpc_call_finish(call, GRPC_STATUS_DEADLINE_EXCEEDED, "the request did not arrive whole in time");
  if (watches) braid_grpc_method_watch(call);
}
