/* Launches: from a message to a request of the scheduler, and from its end to the answer. */
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "serve/wire/wire.h"

enum { kLong = 256 << 10 }; /* bytes of inputs; the reading thread copies what is shorter itself, within some 50 us */

/* --- life of a call ------------------------------------------------------------------------------------------------
 */
static wire_call *call_create(wire_connection *c, uint64_t id, braid_serve_request *request, wire_compiled *compiled) {
  size_t outputs = request->model->output_count;
  wire_call *call = braid_zalloc(NULL, sizeof *call + outputs * sizeof *call->outputs);
  if (!call) return NULL;
  call->connection = c;
  __atomic_fetch_add(&c->references, 1, __ATOMIC_RELAXED);
  call->compiled = compiled;
  if (compiled) braid_wire_compiled_retain(compiled);
  call->request = request;
  call->id = id;
  request->context = call;
  pthread_mutex_lock(&c->lock);
  call->next = c->calls;
  if (call->next) call->next->previous = call;
  c->calls = call;
  pthread_mutex_unlock(&c->lock);
  return call;
}

/* What inputs are copied from is not needed any more. */
static void release_sources(wire_call *call) {
  for (size_t i = 0; i < call->copy_count; i++) {
    braid_wire_memory_release(call->copies[i].memory);
    braid_wire_buffer_release(call->copies[i].buffer);
  }
  call->copy_count = 0;
  braid_free(NULL, call->body);
  call->body = NULL;
  if (call->reserved) braid_serve_tenant_return(call->request->tenant, call->reserved);
  call->reserved = 0;
}

static void call_destroy(wire_call *call) {
  wire_connection *c = call->connection;
  pthread_mutex_lock(&c->lock);
  if (call->next) call->next->previous = call->previous;
  if (call->previous)
    call->previous->next = call->next;
  else
    c->calls = call->next;
  pthread_mutex_unlock(&c->lock);
  release_sources(call);
  for (size_t i = 0; i < call->output_count; i++) braid_wire_memory_release(call->outputs[i].memory);
  braid_serve_request_destroy(call->request);
  braid_wire_compiled_release(call->compiled);
  braid_free(NULL, call);
  braid_wire_connection_release(c);
}

bool braid_wire_launch_cancel(wire_connection *c, uint64_t id) {
  pthread_mutex_lock(&c->lock);
  wire_call *call = c->calls;
  while (call && call->id != id) call = call->next;
  if (call) __atomic_store_n(&call->cancelled, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&c->lock);
  return call != NULL;
}

/* --- the message ---------------------------------------------------------------------------------------------------
 */
/* Where the bytes of an input are, and what it is; false: the request is refused. *data advances. */
static bool find_input(wire_connection *c, wire_call *call, const braid_wire_tensor **tensor, const uint8_t **data,
                       wire_copy *copy) {
  const braid_wire_tensor *given = *tensor;
  if (given->place == BRAID_WIRE_BUFFER) {
    wire_buffer *buffer = braid_wire_buffer_find(c, given->buffer);
    if (!buffer) {
      braid_serve_refuse(call->request, BRAID_SERVE_UNKNOWN, "input %s: the connection has no buffer \"%.100s\"",
                         given->name, given->buffer);
      return false;
    }
    *copy = (wire_copy){.from = buffer->data, .buffer = buffer};
    *tensor = &buffer->tensor;
    return true;
  }
  if (given->place == BRAID_WIRE_SHARED) {
    wire_memory *memory = braid_wire_memory_find(c, given->memory);
    if (!memory || given->offset > memory->bytes || given->bytes > memory->bytes - given->offset) {
      braid_serve_refuse(call->request, memory ? BRAID_SERVE_INVALID : BRAID_SERVE_UNKNOWN,
                         memory ? "input %s lies outside of memory %u" : "input %s: the connection has no memory %u",
                         given->name, given->memory);
      return false;
    }
    *copy = (wire_copy){.from = memory->data + given->offset, .memory = memory};
    return true;
  }
  *copy = (wire_copy){.from = *data};
  *data += given->bytes;
  return true;
}

static bool add_input(wire_connection *c, wire_call *call, const braid_wire_tensor *given, const uint8_t **data) {
  wire_copy *copy = &call->copies[call->copy_count];
  const char *name = given->name;
  braid_serve_request *request = call->request;
  braid_serve_tensor *tensor;
  if (!find_input(c, call, &given, data, copy)) return false;
  braid_dtype dtype = braid_wire_dtype_of(given->dtype);
  if (braid_serve_request_input(request, name, dtype, given->rank, given->dims, &tensor) != BRAID_SERVE_DONE)
    return false;
  copy->to = tensor->data;
  copy->bytes = tensor->bytes;
  copy->bool_name = dtype == BRAID_BOOL ? request->model->inputs[tensor->port].name : NULL;
  if (copy->memory) braid_wire_memory_retain(copy->memory);
  if (copy->buffer) __atomic_fetch_add(&copy->buffer->references, 1, __ATOMIC_RELAXED);
  call->copy_count++;
  return true;
}

/* A client that changes its memory from here on changes nothing. False: the request is refused. */
static bool copy_inputs(wire_call *call) {
  for (size_t i = 0; i < call->copy_count; i++) {
    const wire_copy *copy = &call->copies[i];
    const uint8_t *bytes = copy->to;
    if (copy->bytes) memcpy(copy->to, copy->from, copy->bytes);
    for (size_t k = 0; copy->bool_name && k < copy->bytes; k++) {
      if (bytes[k] <= 1) continue;
      braid_serve_refuse(call->request, BRAID_SERVE_INVALID, "input %s: a byte of a BOOL is 0 or 1", copy->bool_name);
      return false;
    }
  }
  release_sources(call);
  return true;
}

static bool want_output(wire_connection *c, wire_call *call, const braid_wire_tensor *wanted) {
  braid_serve_request *request = call->request;
  size_t port;
  if (braid_serve_request_output(request, wanted->name, &port) != BRAID_SERVE_DONE) return false;
  for (size_t i = 0; i < call->output_count; i++)
    if (call->outputs[i].port == port) {
      braid_serve_refuse(request, BRAID_SERVE_INVALID, "output %s is asked for twice", wanted->name);
      return false;
    }
  wire_memory *memory = wanted->place == BRAID_WIRE_SHARED ? braid_wire_memory_find(c, wanted->memory) : NULL;
  if (wanted->place == BRAID_WIRE_SHARED) {
    const char *why = !memory             ? "the connection has no such memory"
                      : !memory->writable ? "the memory is sealed against writing"
                      : wanted->offset > memory->bytes || wanted->bytes > memory->bytes - wanted->offset
                          ? "its place lies outside of the memory"
                          : NULL;
    if (why) {
      braid_serve_refuse(request, memory ? BRAID_SERVE_INVALID : BRAID_SERVE_UNKNOWN, "output %s, memory %u: %s",
                         wanted->name, wanted->memory, why);
      return false;
    }
    braid_wire_memory_retain(memory);
  }
  call->outputs[call->output_count++] = (wire_output){port, memory, wanted->offset, wanted->bytes};
  return true;
}

static braid_serve_verdict find_model(wire_connection *c, const braid_wire_launch *launch, wire_compiled **out_compiled,
                                      braid_serve_request **out, char *detail) {
  *out_compiled = NULL;
  if (!launch->compiled) {
    braid_serve_verdict verdict =
        braid_serve_begin(c->wire->server, c->tenant, launch->model, launch->version, out, detail);
    if (verdict != BRAID_SERVE_DONE || !c->peer || !(*out)->model->remote) return verdict;
    braid_serve_request_destroy(*out);
    *out = NULL;
    snprintf(detail, BRAID_SERVE_DETAIL, "model %.100s is not loaded here", launch->model);
    return BRAID_SERVE_UNAVAILABLE;
  }
  *out = NULL;
  if (__atomic_load_n(&c->wire->server->stopping, __ATOMIC_ACQUIRE)) {
    snprintf(detail, BRAID_SERVE_DETAIL, "the daemon stops");
    return BRAID_SERVE_UNAVAILABLE;
  }
  *out_compiled = braid_wire_compiled_find(c, launch->compiled);
  if (!*out_compiled) {
    snprintf(detail, BRAID_SERVE_DETAIL, "the connection has no compiled model %llu",
             (unsigned long long)launch->compiled);
    return BRAID_SERVE_UNKNOWN;
  }
  *out = braid_serve_request_create((*out_compiled)->model, c->tenant);
  if (*out) return BRAID_SERVE_DONE;
  snprintf(detail, BRAID_SERVE_DETAIL, "no memory for a request");
  return BRAID_SERVE_FAILED;
}

/* --- the end -------------------------------------------------------------------------------------------------------
 */
static const wire_output *find_output(const wire_call *call, size_t port) {
  for (size_t i = 0; i < call->output_count; i++)
    if (call->outputs[i].port == port) return &call->outputs[i];
  return NULL;
}

/* Into shared memory, what goes there; false: an output has no room. */
static bool place_outputs(const wire_call *call) {
  braid_serve_request *request = call->request;
  for (size_t i = 0; i < request->output_count; i++) {
    const braid_serve_tensor *tensor = &request->outputs[i];
    const wire_output *wanted = find_output(call, tensor->port);
    if (!wanted || !wanted->memory) continue;
    if (tensor->bytes > wanted->bytes) {
      braid_serve_refuse(request, BRAID_SERVE_INVALID, "output %s has %zu bytes; its place in memory %u has %llu",
                         request->model->outputs[tensor->port].name, tensor->bytes, wanted->memory->number,
                         (unsigned long long)wanted->bytes);
      return false;
    }
    memcpy(wanted->memory->data + wanted->offset, tensor->data, tensor->bytes);
  }
  return true;
}

/* The fields of outputs, and the parts of the answer that are sent from where they are; returns the bytes of these. */
static uint64_t put_outputs(const wire_call *call, braid_wire_writer *writer, struct iovec *parts, size_t *part_count) {
  const braid_serve_request *request = call->request;
  uint64_t total = 0;
  for (size_t i = 0; i < request->output_count; i++) {
    const braid_serve_tensor *tensor = &request->outputs[i];
    const wire_output *wanted = find_output(call, tensor->port);
    bool shared = wanted && wanted->memory;
    braid_wire_tensor fields = {.place = shared ? BRAID_WIRE_SHARED : BRAID_WIRE_INLINE,
                                .dtype = (uint8_t)braid_wire_dtype(tensor->dtype),
                                .rank = (uint8_t)tensor->rank,
                                .bytes = tensor->bytes};
    if (shared) {
      fields.memory = wanted->memory->number;
      fields.offset = wanted->offset;
    } else {
      parts[(*part_count)++] = (struct iovec){tensor->data, tensor->bytes};
      total += tensor->bytes;
    }
    snprintf(fields.name, sizeof fields.name, "%s", request->model->outputs[tensor->port].name);
    memcpy(fields.dims, tensor->dims, fields.rank * sizeof *fields.dims);
    braid_wire_put_tensor(writer, &fields);
  }
  return total;
}

/* By a thread of the scheduler, or by ours where the request is refused at once. */
static void on_done(braid_serve_request *request) {
  wire_call *call = request->context;
  wire_connection *c = call->connection;
  if (__atomic_load_n(&c->gone, __ATOMIC_ACQUIRE)) {
    call_destroy(call);
    return;
  }
  bool done = request->verdict == BRAID_SERVE_DONE && place_outputs(call);
  char why[BRAID_SERVE_DETAIL];
  if (done) braid_serve_why_text(&request->why, request->started_ns - request->arrived_ns, why);
  struct iovec parts[1 + BRAID_SERVE_PORTS];
  size_t part_count = 1;
  uint64_t data = 0;
  braid_wire_writer writer = {0};
  braid_wire_begin(&writer, BRAID_WIRE_LAUNCH | BRAID_WIRE_REPLY, call->id);
  braid_wire_put_status(&writer, (unsigned)braid_serve_http_status(request->verdict), done ? why : request->detail);
  if (done) {
    braid_wire_put_number(&writer, (uint64_t)(request->started_ns - request->arrived_ns), 8);
    braid_wire_put_number(&writer, (uint64_t)(request->ended_ns - request->started_ns), 8);
    braid_wire_put_number(&writer, (uint64_t)request->batch, 8);
    braid_wire_put_number(&writer, request->output_count, 1);
    data = put_outputs(call, &writer, parts, &part_count);
  }
  braid_wire_end(&writer, data);
  parts[0] = (struct iovec){writer.data, writer.length};
  if (writer.failed)
    braid_wire_break_off(c);
  else
    braid_wire_send(c, parts, part_count);
  braid_wire_free(&writer);
  call_destroy(call);
}

/* The scheduler never had it. */
static void end_early(braid_serve_request *request) {
  const wire_call *call = request->context;
  braid_serve_trace_refuse(call->connection->wire->server->tracer, request->trace, request->model->config->name,
                           request->tenant->config->name, braid_serve_http_status(request->verdict), request->detail);
  on_done(request);
}

static bool is_gone(braid_serve_request *request) {
  const wire_call *call = request->context;
  return __atomic_load_n(&call->cancelled, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&call->connection->gone, __ATOMIC_ACQUIRE);
}

/* --- filling -------------------------------------------------------------------------------------------------------
 */
static void submit_call(wire_call *call, bool here) {
  braid_serve_scheduler *scheduler = call->connection->wire->server->scheduler;
  if (copy_inputs(call))
    here ? braid_serve_submit_here(scheduler, call->request) : braid_serve_submit(scheduler, call->request);
  else
    end_early(call->request);
}

void *braid_wire_filler_main(void *context) {
  struct braid_serve_wire *wire = context;
  pthread_mutex_lock(&wire->lock);
  for (;;) {
    while (!wire->filling && !__atomic_load_n(&wire->ending, __ATOMIC_ACQUIRE))
      pthread_cond_wait(&wire->changed, &wire->lock);
    wire_call *call = wire->filling;
    if (!call) break;
    wire->filling = call->after;
    if (!wire->filling) wire->filling_end = &wire->filling;
    pthread_mutex_unlock(&wire->lock);
    if (is_gone(call->request)) {
      braid_serve_refuse(call->request, BRAID_SERVE_CANCELLED, "the launch was cancelled before its inputs were read");
      end_early(call->request);
    } else {
      submit_call(call, false);
    }
    pthread_mutex_lock(&wire->lock);
  }
  pthread_mutex_unlock(&wire->lock);
  return NULL;
}

void braid_wire_filler_drop(struct braid_serve_wire *wire) {
  while (wire->filling) {
    wire_call *call = wire->filling;
    wire->filling = call->after;
    call_destroy(call);
  }
}

/* To the filling thread, with the message's body where inputs are in it. */
static void hand_over(wire_connection *c, wire_call *call, const uint8_t *body) {
  struct braid_serve_wire *wire = c->wire;
  if (c->body == body) {
    call->body = c->body;
    call->reserved = c->reserved;
    c->body = NULL;
    c->reserved = 0;
  }
  pthread_mutex_lock(&wire->lock);
  *wire->filling_end = call;
  wire->filling_end = &call->after;
  pthread_cond_broadcast(&wire->changed);
  pthread_mutex_unlock(&wire->lock);
}

static braid_serve_trace *begin_trace(braid_serve_tracer *tracer, const braid_wire_launch *launch, int64_t began) {
  braid_trace_headers headers = {.parent = launch->traceparent[0] ? launch->traceparent : NULL,
                                 .parent_bytes = strlen(launch->traceparent),
                                 .state = launch->tracestate,
                                 .state_bytes = strlen(launch->tracestate)};
  return braid_serve_trace_begin(tracer, BRAID_TRACE_WIRE, &headers, began);
}

void braid_wire_launch_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_launch *launch = &c->wire->launch;
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_serve_request *request;
  wire_compiled *compiled;
  char detail[BRAID_SERVE_DETAIL];
  int64_t began = braid_now_ns();
  const char *wrong = braid_wire_get_launch(&reader, launch);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "launch: %s", wrong);
    return;
  }
  braid_serve_tracer *tracer = c->wire->server->tracer;
  braid_serve_trace *trace = begin_trace(tracer, launch, began);
  braid_serve_verdict verdict = find_model(c, launch, &compiled, &request, detail);
  if (verdict != BRAID_SERVE_DONE) {
    braid_serve_trace_refuse(tracer, trace, launch->model, c->tenant->config->name, braid_serve_http_status(verdict),
                             detail);
    braid_free(NULL, trace);
    braid_wire_answer_status(c, header, verdict, "%s", detail);
    return;
  }
  request->trace = trace;
  wire_call *call = call_create(c, header->id, request, compiled);
  if (!call) {
    braid_serve_request_destroy(request);
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for a launch");
    return;
  }
  const uint8_t *data = launch->data;
  bool whole = true;
  size_t total = 0;
  for (size_t i = 0; i < launch->input_count && whole; i++) whole = add_input(c, call, &launch->inputs[i], &data);
  for (size_t i = 0; i < launch->output_count && whole; i++) whole = want_output(c, call, &launch->outputs[i]);
  for (size_t i = 0; i < call->copy_count; i++) total += call->copies[i].bytes;
  if (launch->timeout_us) request->deadline_ns = braid_now_ns() + (int64_t)launch->timeout_us * 1000;
  request->priority = launch->priority;
  bool here = c->wire->alone; /* once for each time that it wakes: others wait to be read */
  c->wire->alone = false;
  request->done = on_done;
  request->is_gone = is_gone;
  if (!whole)
    end_early(request);
  else if (total > kLong && (!launch->data_bytes || c->body == body)) /* else the data is in a buffer that goes on */
    hand_over(c, call, body);
  else
    submit_call(call, here);
}
