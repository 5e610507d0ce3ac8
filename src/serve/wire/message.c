/* What messages ask, but for launches: hello, lists of models, the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/remote/remote_format.h"
#include "braid/version.h"
#include "serve/remote/remote.h"
#include "serve/wire/wire.h"

static const uint8_t kDtypes[] = {
#define NUMBER(id, number, bytes, name) [BRAID_##id] = number,
    BRAID_WIRE_DTYPES(NUMBER)
#undef NUMBER
};

unsigned braid_wire_dtype(braid_dtype dtype) {
  return (size_t)dtype < sizeof kDtypes ? kDtypes[dtype] : 0;
}

braid_dtype braid_wire_dtype_of(unsigned dtype) {
  static const braid_dtype kOf[] = {
#define TYPE(id, number, bytes, name) [number] = BRAID_##id,
      BRAID_WIRE_DTYPES(TYPE)
#undef TYPE
  };
  return dtype < sizeof kOf / sizeof *kOf ? kOf[dtype] : BRAID_NONE;
}

/* --- hello ---------------------------------------------------------------------------------------------------------
 */
/* Where there are several tenants, none may take all connections. */
static bool has_room(const wire_connection *c, const braid_serve_tenant *tenant) {
  const braid_server *server = c->wire->server;
  size_t most = (size_t)server->config->max_connections, own = 0;
  if (server->tenant_count > 1) most = (most + 1) / 2;
  for (const wire_connection *other = c->wire->connections; other; other = other->next) own += other->tenant == tenant;
  return own < most;
}

static braid_serve_tenant *find_tenant(wire_connection *c, const braid_wire_header *header, const char *token) {
  braid_server *server = c->wire->server;
  braid_serve_tenant *tenant = braid_serve_cluster_greet(server->cluster, token, &c->peer);
  if (c->peer) return tenant;
  tenant = braid_serve_tenant_find(server->tenants, server->tenant_count, *token ? token : NULL);
  if (!tenant) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAUTHORIZED,
                             *token ? "the token is nobody's" : "a token is needed");
  } else if (!has_room(c, tenant)) {
    braid_wire_answer_status(c, header, BRAID_SERVE_OVER_QUOTA, "tenant %s has as many connections as it may",
                             tenant->config->name);
    return NULL;
  }
  return tenant;
}

static bool sends_bulk(const wire_connection *c) {
  return c->peer && braid_serve_cluster_senders(c->wire->server->cluster);
}

static void hello_message(wire_connection *c, const braid_wire_header *header, braid_wire_reader *reader) {
  braid_server *server = c->wire->server;
  braid_wire_hello hello;
  const char *wrong = braid_wire_get_hello(reader, &hello);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "hello: %s", wrong);
  } else if (hello.version != BRAID_WIRE_VERSION) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID,
                             "the client speaks version %u of the protocol, this daemon (%s) version %d", hello.version,
                             BRAID_VERSION, BRAID_WIRE_VERSION);
  } else {
    c->tenant = find_tenant(c, header, hello.token);
  }
  if (!c->tenant) {
    c->ended = true;
    return;
  }
  const braid_serve_tenant_config *config = c->tenant->config;
  braid_wire_welcome welcome = {.version = BRAID_WIRE_VERSION,
                                .rights = (config->admin || config->compile ? BRAID_WIRE_MAY_COMPILE : 0u) |
                                          (c->local ? BRAID_WIRE_HAS_MEMORY : 0u) |
                                          (sends_bulk(c) ? BRAID_WIRE_HAS_BULK : 0u) | BRAID_WIRE_TAKES_TRACE,
                                .max_bytes = (uint64_t)server->config->max_request_bytes};
  snprintf(welcome.server, sizeof welcome.server, "braid %s", BRAID_VERSION);
  snprintf(welcome.tenant, sizeof welcome.tenant, "%s", config->name);
  braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, BRAID_SERVE_DONE, "");
  braid_wire_put_welcome(writer, &welcome);
  braid_wire_answer_send(c, writer);
}

/* --- models --------------------------------------------------------------------------------------------------------
 */
static size_t describe_ports(const braid_serve_port *ports, size_t count, braid_wire_port *out) {
  for (size_t i = 0; i < count; i++) {
    snprintf(out[i].name, sizeof out[i].name, "%s", ports[i].name);
    out[i].dtype = (uint8_t)braid_wire_dtype(ports[i].dtype);
    out[i].rank = (uint8_t)(ports[i].rank > 0 ? ports[i].rank : 0);
    memcpy(out[i].dims, ports[i].dims, out[i].rank * sizeof *out[i].dims);
  }
  return count;
}

void braid_wire_describe(const braid_serve_model *model, braid_wire_model *out) {
  out->max_batch = (uint64_t)model->max_batch;
  out->input_count = describe_ports(model->inputs, model->input_count, out->inputs);
  out->output_count = describe_ports(model->outputs, model->output_count, out->outputs);
}

static void put_entry(wire_connection *c, braid_wire_writer *writer, const braid_serve_entry *entry) {
  static const uint8_t kStates[] = {[BRAID_SERVE_UNLOADED] = BRAID_WIRE_UNLOADED,
                                    [BRAID_SERVE_LOADING] = BRAID_WIRE_LOADING,
                                    [BRAID_SERVE_READY] = BRAID_WIRE_READY,
                                    [BRAID_SERVE_BROKEN] = BRAID_WIRE_BROKEN};
  braid_wire_model model;
  braid_serve_model *loaded = NULL;
  snprintf(model.name, sizeof model.name, "%s", entry->config->name);
  snprintf(model.version, sizeof model.version, "%s", entry->config->version);
  snprintf(model.reason, sizeof model.reason, "%s", entry->reason);
  model.state = kStates[entry->state];
  model.max_batch = model.handle = 0;
  model.input_count = model.output_count = 0;
  if (entry->state == BRAID_SERVE_READY &&
      braid_serve_registry_acquire(c->wire->server->registry, model.name, NULL, &loaded) == BRAID_OK)
    braid_wire_describe(loaded, &model);
  braid_wire_put_model(writer, &model);
  braid_serve_model_release(loaded);
}

static void list_message(wire_connection *c, const braid_wire_header *header, braid_wire_reader *reader) {
  braid_serve_registry *registry = c->wire->server->registry;
  char name[BRAID_WIRE_NAME];
  braid_serve_entry entry;
  braid_wire_get_text(reader, name, sizeof name);
  const char *wrong = braid_wire_finish(reader);
  size_t count = 0;
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "list: %s", wrong);
    return;
  }
  for (size_t i = 0; braid_serve_registry_entry(registry, i, &entry); i++)
    count += braid_serve_tenant_may(c->tenant, entry.config->name) && (!*name || strcmp(name, entry.config->name) == 0);
  if (*name && !count) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "there is no model \"%.100s\" for tenant %s", name,
                             c->tenant->config->name);
    return;
  }
  braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, BRAID_SERVE_DONE, "");
  braid_wire_put_number(writer, count, 4);
  for (size_t i = 0; braid_serve_registry_entry(registry, i, &entry); i++)
    if (braid_serve_tenant_may(c->tenant, entry.config->name) && (!*name || strcmp(name, entry.config->name) == 0))
      put_entry(c, writer, &entry);
  braid_wire_answer_send(c, writer);
}

/* --- the rest ------------------------------------------------------------------------------------------------------
 */
static void cancel_message(wire_connection *c, const braid_wire_header *header, braid_wire_reader *reader) {
  uint64_t id = braid_wire_get_number(reader, 8);
  const char *wrong = braid_wire_finish(reader);
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "cancel: %s", wrong);
  else if (braid_wire_launch_cancel(c, id))
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  else
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "no launch %llu is under way", (unsigned long long)id);
}

static bool has_calls(wire_connection *c) {
  pthread_mutex_lock(&c->lock);
  bool any = c->calls || c->out;
  pthread_mutex_unlock(&c->lock);
  return any || c->compiling;
}

/* The connection's socket goes to a session of its own, which answers; what the connection owns is freed. */
static void device_message(wire_connection *c, const braid_wire_header *header, braid_wire_reader *reader) {
  braid_server *server = c->wire->server;
  const braid_serve_device_config *device;
  char detail[BRAID_SERVE_DETAIL];
  braid_remote_open open;
  const char *wrong = braid_remote_get_open(reader, &open);
  if (!wrong && open.version == BRAID_REMOTE_VERSION && has_calls(c)) wrong = "the connection has launches under way";
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "device: %s", wrong);
    return;
  }
  if (open.version != BRAID_REMOTE_VERSION) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID,
                             "the client speaks version %u of remote devices, this daemon (%s) version %d",
                             open.version, BRAID_VERSION, BRAID_REMOTE_VERSION);
    return;
  }
  braid_serve_verdict verdict = braid_serve_remote_find(server, c->tenant, open.device, &device, detail);
  int file = verdict == BRAID_SERVE_DONE ? fcntl(c->file, F_DUPFD_CLOEXEC, 0) : -1;
  if (verdict == BRAID_SERVE_DONE && file < 0) {
    verdict = BRAID_SERVE_FAILED;
    snprintf(detail, sizeof detail, "no descriptor for a session: %s", strerror(errno));
  }
  if (verdict == BRAID_SERVE_DONE)
    verdict = braid_serve_remote_adopt(server->remote, file, c->tenant, device, header->id, detail);
  if (verdict == BRAID_SERVE_DONE) {
    c->given = c->ended = true;
    return;
  }
  if (file >= 0) close(file);
  braid_wire_answer_status(c, header, verdict, "%s", detail);
}

/* A message that fits the small buffer, whose bytes the job has to keep. */
static void compile_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  uint8_t *copy = braid_alloc(NULL, (size_t)header->bytes);
  if (!copy) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for a model");
    return;
  }
  memcpy(copy, body, (size_t)header->bytes);
  if (!braid_wire_compile_message(c, header, copy)) braid_free(NULL, copy);
}

void braid_wire_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  if ((header->kind == BRAID_WIRE_HELLO) == (c->tenant != NULL)) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAUTHORIZED,
                             c->tenant ? "there was a hello already" : "a connection begins with a hello");
    c->ended = true;
    return;
  }
  switch (header->kind) {
  case BRAID_WIRE_HELLO:
    hello_message(c, header, &reader);
    break;
  case BRAID_WIRE_LIST:
    list_message(c, header, &reader);
    break;
  case BRAID_WIRE_COMPILE:
    compile_message(c, header, body);
    break;
  case BRAID_WIRE_FORGET:
    braid_wire_forget_message(c, header, body);
    break;
  case BRAID_WIRE_DATA:
    braid_wire_data_message(c, header, body);
    break;
  case BRAID_WIRE_DROP:
    braid_wire_drop_message(c, header, body);
    break;
  case BRAID_WIRE_MEMORY:
    braid_wire_memory_message(c, header, body);
    break;
  case BRAID_WIRE_UNMAP:
    braid_wire_unmap_message(c, header, body);
    break;
  case BRAID_WIRE_CORES:
    braid_wire_cores_message(c, header, body);
    break;
  case BRAID_WIRE_RELEASE:
    braid_wire_release_message(c, header, body);
    break;
  case BRAID_WIRE_LAUNCH:
    braid_wire_launch_message(c, header, body);
    break;
  case BRAID_WIRE_FILE:
    braid_wire_file_message(c, header, body);
    break;
  case BRAID_WIRE_BULK:
    braid_wire_bulk_message(c, header, body);
    break;
  case BRAID_WIRE_SENDING:
    braid_wire_sending_message(c, header, body);
    break;
  case BRAID_WIRE_CANCEL:
    cancel_message(c, header, &reader);
    break;
  case BRAID_WIRE_HARVEST:
    braid_wire_harvest_message(c, header, body);
    break;
  case BRAID_WIRE_DEVICE:
    device_message(c, header, &reader);
    break;
  case BRAID_WIRE_CLOSE:
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
    c->ended = true;
    break;
  default:
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "clients send no message of kind %u", header->kind);
    c->ended = true;
  }
}
