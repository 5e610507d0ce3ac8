/* ModelInfer and ModelStreamInfer: from a message to the scheduler, and from its answer to the client. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "serve/grpc/infer_write.h"

/* A request on its way: what the scheduler keeps of ours. */
typedef struct infer_pending {
  braid_grpc_call *call; /* a reference */
  braid_grpc_infer infer;
} infer_pending;

static bool is_streamed(const infer_pending *pending) {
  return pending->call->method->kind == BRAID_GRPC_STREAM;
}

static void pending_end(infer_pending *pending) {
  braid_grpc_call_release(pending->call);
  braid_free(NULL, pending);
}

/* Says why there is no answer: in a stream by a message, since others go on. */
static void pending_refuse(infer_pending *pending, braid_serve_verdict verdict, const char *detail) {
  braid_grpc_call *call = pending->call;
  bool stops = __atomic_load_n(&call->grpc->stopping, __ATOMIC_ACQUIRE) && verdict == BRAID_SERVE_CANCELLED;
  if (stops) {
    verdict = BRAID_SERVE_UNAVAILABLE;
    detail = "the daemon is stopping";
  }
  if (is_streamed(pending))
    braid_grpc_call_answer_stream(call, braid_grpc_infer_write_error(pending->infer.id, detail));
  else
    braid_grpc_call_finish(call, braid_grpc_code(verdict), detail);
  pending_end(pending);
}

/* By a thread of the scheduler. */
static void pending_done(braid_serve_request *request) {
  infer_pending *pending = request->context;
  braid_grpc_call *call = pending->call;
  if (request->verdict == BRAID_SERVE_DONE)
    braid_grpc_infer_share(&pending->infer, call->grpc->server->regions, request);
  if (request->verdict != BRAID_SERVE_DONE) {
    char detail[BRAID_SERVE_DETAIL];
    braid_serve_verdict verdict = request->verdict;
    memcpy(detail, request->detail, sizeof detail);
    braid_serve_request_destroy(request); /* first: the client may send its next as soon as it hears of this one */
    pending_refuse(pending, verdict, detail);
    return;
  }
  grpc_byte_buffer *buffer = braid_grpc_infer_write(&pending->infer, request, is_streamed(pending));
  if (is_streamed(pending)) {
    braid_grpc_call_answer_stream(call, buffer);
  } else {
    braid_grpc_call_send(call, buffer);
    braid_grpc_call_finish(call, GRPC_STATUS_OK, "");
  }
  pending_end(pending);
}

static bool pending_is_gone(braid_serve_request *request) {
  const braid_grpc_call *call = ((infer_pending *)request->context)->call;
  return braid_grpc_call_is_gone(call) || __atomic_load_n(&call->grpc->stopping, __ATOMIC_ACQUIRE);
}

/* The earlier of the call's deadline and the request's time-out. */
static int64_t pending_deadline(const infer_pending *pending) {
  int64_t deadline = pending->call->deadline_ns, timeout_us = pending->infer.timeout_us, own;
  if (!timeout_us || __builtin_mul_overflow(timeout_us, 1000, &own)) return deadline;
  own = braid_deadline_ns(own);
  if (own < 0) return deadline;
  return deadline && deadline < own ? deadline : own;
}

/* A request with all its tensors; NULL: the verdict and `detail` say why. */
static braid_serve_request *pending_request(infer_pending *pending, const braid_grpc_message *message,
                                            braid_serve_verdict *out_verdict, char *detail) {
  struct braid_server *server = pending->call->grpc->server;
  braid_grpc_infer *infer = &pending->infer;
  braid_serve_request *request = NULL;
  *out_verdict = braid_grpc_infer_read(message->wire, infer);
  if (*out_verdict != BRAID_SERVE_DONE) {
    memcpy(detail, infer->detail, BRAID_SERVE_DETAIL);
    return NULL;
  }
  *out_verdict = braid_serve_begin(server, pending->call->tenant, infer->model, infer->version, &request, detail);
  if (*out_verdict != BRAID_SERVE_DONE) return NULL;
  *out_verdict = braid_grpc_infer_fill(infer, server->regions, request);
  if (*out_verdict == BRAID_SERVE_DONE) return request;
  memcpy(detail, request->detail, BRAID_SERVE_DETAIL);
  braid_serve_request_destroy(request);
  return NULL;
}

/* Trace context (W3C) of the call's metadata. Two traceparents are none; several tracestates are one list. */
static braid_serve_trace *begin_trace(const braid_grpc_call *call) {
  braid_trace_headers headers = {0};
  braid_text state;
  size_t parents = 0;
  braid_text_init(&state, NULL);
  for (size_t i = 0; i < call->metadata.count; i++) {
    const grpc_metadata *entry = &call->metadata.metadata[i];
    const char *value = (const char *)GRPC_SLICE_START_PTR(entry->value);
    size_t bytes = GRPC_SLICE_LENGTH(entry->value);
    if (grpc_slice_str_cmp(entry->key, "traceparent") == 0) {
      headers.parent = parents++ ? NULL : value;
      headers.parent_bytes = bytes;
    } else if (grpc_slice_str_cmp(entry->key, "tracestate") == 0) {
      if (state.length) braid_text_add(&state, ",");
      braid_text_add_bytes(&state, value, bytes);
    }
  }
  headers.state = state.data;
  headers.state_bytes = state.length;
  bool streamed = call->method->kind == BRAID_GRPC_STREAM;
  braid_serve_trace *trace = braid_serve_trace_begin(
      call->grpc->server->tracer, streamed ? BRAID_TRACE_GRPC_STREAM : BRAID_TRACE_GRPC, &headers, braid_now_ns());
  braid_text_deinit(&state);
  return trace;
}

void braid_grpc_call_infer(braid_grpc_call *call, grpc_byte_buffer *buffer) {
  char detail[BRAID_SERVE_DETAIL] = "";
  braid_grpc_message message;
  braid_serve_request *request = NULL;
  infer_pending *pending = braid_zalloc(NULL, sizeof *pending);
  if (!pending) {
    grpc_byte_buffer_destroy(buffer);
    braid_grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for the request");
    return;
  }
  braid_grpc_call_retain(call);
  pending->call = call;
  braid_serve_trace *trace = begin_trace(call);
  braid_serve_verdict verdict =
      braid_grpc_message_open(buffer, (size_t)call->grpc->server->config->max_request_bytes, &message, detail);
  if (verdict == BRAID_SERVE_DONE) {
    request = pending_request(pending, &message, &verdict, detail);
    braid_grpc_message_close(&message);
  }
  if (!request) {
    braid_serve_trace_refuse(call->grpc->server->tracer, trace, pending->infer.model, call->tenant->config->name,
                             braid_serve_http_status(verdict), detail);
    braid_free(NULL, trace);
    pending_refuse(pending, verdict, detail);
    return;
  }
  request->trace = trace;
  request->deadline_ns = pending_deadline(pending);
  request->context = pending;
  request->done = pending_done;
  request->is_gone = pending_is_gone;
  braid_serve_submit(call->grpc->server->scheduler, request);
}
