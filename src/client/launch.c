/* Launches, waited for at once or later. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/channel.h"

struct braid_client_call {
  braid_client *client;
  client_ticket ticket;
  bool read; /* the answer has been: */
  braid_client_status status;
  char why[BRAID_WIRE_DETAIL];
  braid_client_times times;
  size_t output_count;
  braid_client_tensor *outputs; /* of the answer */
  char (*names)[BRAID_WIRE_NAME];
  size_t memory_count;
  braid_client_memory *memories[BRAID_CLIENT_MAX_TENSORS]; /* that wanted outputs are in */
};

/* --- the message ---------------------------------------------------------------------------------------------------
 */
static void fill_trace(braid_client *client, const braid_client_launch_options *from) {
  braid_wire_launch *launch = &client->launch;
  const char *parent = from->traceparent ? from->traceparent : "", *state = from->tracestate ? from->tracestate : "";
  bool taken = client->welcome.rights & BRAID_WIRE_TAKES_TRACE && strlen(parent) < sizeof launch->traceparent;
  snprintf(launch->traceparent, sizeof launch->traceparent, "%.127s", taken ? parent : "");
  snprintf(launch->tracestate, sizeof launch->tracestate, "%.512s",
           taken && strlen(state) < sizeof launch->tracestate ? state : "");
}

static braid_client_status fill_launch(braid_client *client, const braid_client_launch_options *from,
                                       struct iovec *parts, size_t *part_count) {
  braid_wire_launch *launch = &client->launch;
  const char *model = from->model ? from->model : "", *version = from->version ? from->version : "";
  if (from->input_count > BRAID_WIRE_PORTS || from->output_count > BRAID_WIRE_PORTS)
    return client_fail(BRAID_CLIENT_ARGUMENT, "up to %d inputs and outputs are launched", BRAID_WIRE_PORTS);
  if (strlen(model) >= sizeof launch->model || strlen(version) >= sizeof launch->version)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a model's name and version have up to %d bytes", BRAID_WIRE_NAME - 1);
  if (from->deadline_us < 0 || from->priority < 0 || from->priority > 9)
    return client_fail(BRAID_CLIENT_ARGUMENT, "a deadline of 0 or more and a priority of 0 to 9 are expected");
  strcpy(launch->model, model);
  strcpy(launch->version, version);
  launch->compiled = from->compiled;
  launch->timeout_us = (uint64_t)from->deadline_us;
  launch->priority = (uint8_t)from->priority;
  fill_trace(client, from);
  launch->input_count = from->input_count;
  launch->output_count = from->output_count;
  braid_client_status status = BRAID_CLIENT_OK;
  struct iovec none;
  for (size_t i = 0; i < from->input_count && status == BRAID_CLIENT_OK; i++) {
    status = client_tensor(client, &from->inputs[i], false, &launch->inputs[i], &parts[*part_count]);
    *part_count += launch->inputs[i].place == BRAID_WIRE_INLINE;
  }
  for (size_t i = 0; i < from->output_count && status == BRAID_CLIENT_OK; i++)
    status = client_tensor(client, &from->outputs[i], true, &launch->outputs[i], &none);
  return status;
}

braid_client_status braid_client_submit(braid_client *client, const braid_client_launch_options *launch,
                                        braid_client_call **out) {
  struct iovec parts[BRAID_WIRE_PORTS];
  size_t part_count = 0;
  *out = NULL;
  braid_client_call *call = calloc(1, sizeof *call);
  if (!call) return client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for a launch");
  call->client = client;
  braid_wire_writer *writer = client_begin(client, BRAID_WIRE_LAUNCH, &call->ticket);
  braid_client_status status = fill_launch(client, launch, parts, &part_count);
  if (status == BRAID_CLIENT_OK) {
    for (size_t i = 0; i < launch->output_count; i++)
      if (launch->outputs[i].memory) call->memories[call->memory_count++] = launch->outputs[i].memory;
    braid_wire_put_launch(writer, &client->launch);
    status = client_send(client, &call->ticket, parts, part_count, -1);
  } else {
    pthread_mutex_unlock(&client->send_lock); /* that client_begin took */
  }
  if (status == BRAID_CLIENT_OK) {
    pthread_mutex_lock(&client->lock);
    client->counters.launch_messages++;
    pthread_mutex_unlock(&client->lock);
    *out = call;
    return status;
  }
  client_abandon(client, &call->ticket);
  free(call);
  return status;
}

/* --- the answer ----------------------------------------------------------------------------------------------------
 */
static braid_client_memory *find_memory(const braid_client_call *call, uint32_t number) {
  for (size_t i = 0; i < call->memory_count; i++)
    if (client_memory_number(call->memories[i]) == number) return call->memories[i];
  return NULL;
}

static braid_client_status take_outputs(braid_client_call *call, const braid_wire_result *result) {
  call->outputs = calloc(result->output_count + 1, sizeof *call->outputs);
  call->names = calloc(result->output_count + 1, sizeof *call->names);
  if (!call->outputs || !call->names) return client_fail(BRAID_CLIENT_NO_MEMORY, "no memory for outputs");
  const uint8_t *data = result->data;
  for (size_t i = 0; i < result->output_count; i++) {
    const braid_wire_tensor *from = &result->outputs[i];
    braid_client_tensor *to = &call->outputs[i];
    memcpy(call->names[i], from->name, sizeof call->names[i]);
    *to = (braid_client_tensor){.name = call->names[i],
                                .dtype = (braid_client_dtype)from->dtype,
                                .rank = from->rank,
                                .bytes = (size_t)from->bytes};
    memcpy(to->dims, from->dims, from->rank * sizeof *to->dims);
    if (from->place == BRAID_WIRE_INLINE) {
      to->data = data;
      data += from->bytes;
      continue;
    }
    to->memory = find_memory(call, from->memory);
    to->offset = (size_t)from->offset;
    size_t room = to->memory ? client_memory_bytes(to->memory) : 0;
    if (to->offset > room || to->bytes > room - to->offset)
      return client_fail(BRAID_CLIENT_PROTOCOL, "output %s lies outside of the memory that it was wanted in", to->name);
    to->data = (const uint8_t *)braid_client_memory_data(to->memory) + to->offset;
  }
  call->output_count = result->output_count;
  return BRAID_CLIENT_OK;
}

static braid_client_status read_answer(braid_client_call *call) {
  braid_wire_reader reader;
  braid_wire_result result;
  braid_client_status status = client_status(&call->ticket, &reader, NULL);
  if (status != BRAID_CLIENT_OK) return status;
  const char *wrong = braid_wire_get_result(&reader, &result);
  if (wrong) return client_fail(BRAID_CLIENT_PROTOCOL, "the daemon's result: %s", wrong);
  call->times = (braid_client_times){result.waited_ns, result.ran_ns, result.batch};
  status = take_outputs(call, &result);
  if (status != BRAID_CLIENT_OK) return status;
  pthread_mutex_lock(&call->client->lock);
  call->client->counters.launches++;
  pthread_mutex_unlock(&call->client->lock);
  return status;
}

braid_client_status braid_client_wait(braid_client_call *call, int64_t timeout_ms) {
  if (!call->read) {
    braid_client_status status = client_await(call->client, &call->ticket, client_deadline(timeout_ms));
    if (status == BRAID_CLIENT_TIMEOUT) return status;
    if (status == BRAID_CLIENT_OK) status = read_answer(call);
    call->read = true;
    call->status = status;
    if (status != BRAID_CLIENT_OK) snprintf(call->why, sizeof call->why, "%.511s", braid_client_error());
  }
  return call->status == BRAID_CLIENT_OK ? BRAID_CLIENT_OK : client_fail(call->status, "%s", call->why);
}

braid_client_status braid_client_cancel(braid_client_call *call) {
  client_ticket ticket;
  if (call->read) return BRAID_CLIENT_OK;
  braid_wire_put_number(client_begin(call->client, BRAID_WIRE_CANCEL, &ticket), call->ticket.id, 8);
  braid_client_status status = client_finish(call->client, &ticket);
  return status == BRAID_CLIENT_UNKNOWN ? BRAID_CLIENT_OK : status; /* it has ended meanwhile */
}

/* Nobody waits for an answer to this. */
static void send_cancel(braid_client_call *call) {
  client_ticket ticket;
  braid_wire_put_number(client_begin(call->client, BRAID_WIRE_CANCEL, &ticket), call->ticket.id, 8);
  (void)client_send(call->client, &ticket, NULL, 0, -1);
  client_abandon(call->client, &ticket);
}

void client_cancel_soon(braid_client_call *call) {
  struct pollfd poller = {.fd = call->client->file, .events = POLLOUT};
  if (!call->read && poll(&poller, 1, 0) == 1 && poller.revents == POLLOUT) send_cancel(call);
}

void braid_client_release(braid_client_call *call) {
  if (!call) return;
  braid_client *client = call->client;
  pthread_mutex_lock(&client->lock);
  bool under_way = !call->ticket.done && client->broken == BRAID_CLIENT_OK;
  pthread_mutex_unlock(&client->lock);
  if (under_way) send_cancel(call);
  client_abandon(client, &call->ticket);
  free(call->outputs);
  free(call->names);
  free(call);
}

braid_client_status braid_client_launch(braid_client *client, const braid_client_launch_options *launch,
                                        braid_client_call **out) {
  braid_client_call *call;
  *out = NULL;
  braid_client_status status = braid_client_submit(client, launch, &call);
  if (status != BRAID_CLIENT_OK) return status;
  status = braid_client_wait(call, client->call_ms);
  if (status == BRAID_CLIENT_OK) {
    *out = call;
    return status;
  }
  char why[BRAID_WIRE_DETAIL];
  snprintf(why, sizeof why, "%.511s", braid_client_error());
  braid_client_release(call);
  return client_fail(status, "%s", why);
}

const braid_client_tensor *braid_client_outputs(const braid_client_call *call, size_t *out_count) {
  *out_count = call->output_count;
  return call->outputs;
}

braid_client_times braid_client_call_times(const braid_client_call *call) {
  return call->times;
}
