/* Models that clients bring: read, tried and planned by a thread of their own, since that takes seconds. A handle is of
 * one connection and goes with it. */
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "braid/model.h"
#include "serve/wire/wire.h"

wire_compiled *braid_wire_compiled_find(const wire_connection *c, uint64_t handle) {
  wire_compiled *compiled = c->compiled;
  while (compiled && compiled->handle != handle) compiled = compiled->next;
  return compiled;
}

void braid_wire_compiled_retain(wire_compiled *compiled) {
  __atomic_fetch_add(&compiled->references, 1, __ATOMIC_RELAXED);
}

void braid_wire_compiled_release(wire_compiled *compiled) {
  if (!compiled || __atomic_sub_fetch(&compiled->references, 1, __ATOMIC_ACQ_REL)) return;
  braid_serve_model_release(compiled->model);
  braid_serve_tenant_return(compiled->tenant, compiled->bytes);
  braid_free(NULL, compiled);
}

/* --- by the compiling thread ---------------------------------------------------------------------------------------
 */
static void refuse_job(wire_job *job, braid_serve_verdict verdict, const char *what) {
  job->verdict = verdict;
  snprintf(job->detail, sizeof job->detail, "%.400s", what);
}

static void compile_job(wire_job *job) {
  wire_compiled *compiled = job->compiled;
  braid_model_memory memory = {.data = job->data, .bytes = job->bytes, .name = compiled->name};
  braid_graph *graph;
  braid_status status = braid_model_parse(NULL, &memory, &graph);
  if (status == BRAID_OK)
    status = braid_serve_model_make(&compiled->config, job->device, &compiled->statistics, graph, &compiled->model);
  if (status != BRAID_OK) {
    bool ours = status == BRAID_NO_MEMORY || status == BRAID_INTERNAL || status == BRAID_DEVICE_LOST;
    refuse_job(job, ours ? BRAID_SERVE_FAILED : BRAID_SERVE_INVALID, braid_error_detail());
    return;
  }
  size_t bytes = braid_serve_model_bytes(compiled->model);
  if (braid_serve_tenant_reserve(compiled->tenant, bytes)) {
    compiled->bytes = bytes;
    return;
  }
  char detail[BRAID_SERVE_DETAIL];
  snprintf(detail, sizeof detail,
           "the model takes %zu bytes of memory, which are over the %lld that tenant %s may have", bytes,
           (long long)compiled->tenant->config->max_bytes, compiled->tenant->config->name);
  refuse_job(job, BRAID_SERVE_OVER_QUOTA, detail);
}

/* The oldest job of another tenant than `last`, else the oldest: tenants with many models take turns with others. The
 * list begins with the newest. */
static wire_job *take_job(struct braid_serve_wire *wire, const braid_serve_tenant *last) {
  wire_job **chosen = NULL;
  for (wire_job **link = &wire->jobs; *link; link = &(*link)->next)
    if (!chosen || (*link)->compiled->tenant != last || (*chosen)->compiled->tenant == last) chosen = link;
  wire_job *job = *chosen;
  *chosen = job->next;
  return job;
}

void *braid_wire_compiler_main(void *context) {
  struct braid_serve_wire *wire = context;
  const braid_serve_tenant *last = NULL;
  pthread_mutex_lock(&wire->lock);
  for (;;) {
    while (!wire->jobs && !__atomic_load_n(&wire->ending, __ATOMIC_ACQUIRE))
      pthread_cond_wait(&wire->changed, &wire->lock);
    if (__atomic_load_n(&wire->ending, __ATOMIC_ACQUIRE)) break;
    wire_job *job = take_job(wire, last);
    last = job->compiled->tenant;
    pthread_mutex_unlock(&wire->lock);
    if (!__atomic_load_n(&job->connection->gone, __ATOMIC_ACQUIRE)) compile_job(job);
    pthread_mutex_lock(&wire->lock);
    job->next = wire->finished;
    wire->finished = job;
    (void)eventfd_write(wire->wake, 1);
  }
  pthread_mutex_unlock(&wire->lock);
  return NULL;
}

/* --- by the reading thread -----------------------------------------------------------------------------------------
 */
static void job_free(wire_job *job) {
  if (job->reserved) braid_serve_tenant_return(job->compiled->tenant, job->reserved);
  braid_wire_compiled_release(job->compiled);
  braid_wire_connection_release(job->connection);
  braid_free(NULL, job->body);
  braid_free(NULL, job);
}

static void answer_job(wire_job *job) {
  wire_connection *c = job->connection;
  wire_compiled *compiled = job->compiled;
  c->compiling = false;
  braid_wire_writer *writer = braid_wire_answer(c, BRAID_WIRE_COMPILE, job->id, job->verdict, job->detail);
  if (job->verdict == BRAID_SERVE_DONE) {
    braid_wire_model model;
    memcpy(model.name, compiled->name, sizeof model.name);
    snprintf(model.version, sizeof model.version, "1");
    snprintf(model.reason, sizeof model.reason, "%s", compiled->model->batching);
    model.state = BRAID_WIRE_READY;
    model.handle = compiled->handle;
    braid_wire_describe(compiled->model, &model);
    braid_wire_put_model(writer, &model);
    braid_wire_compiled_retain(compiled);
    compiled->next = c->compiled;
    c->compiled = compiled;
  }
  braid_wire_answer_send(c, writer);
}

void braid_wire_compile_finish(struct braid_serve_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  wire_job *jobs = wire->finished;
  wire->finished = NULL;
  pthread_mutex_unlock(&wire->lock);
  while (jobs) {
    wire_job *job = jobs;
    jobs = job->next;
    if (!__atomic_load_n(&job->connection->gone, __ATOMIC_ACQUIRE)) answer_job(job);
    job_free(job);
  }
}

void braid_wire_compile_drop(struct braid_serve_wire *wire) {
  wire_job **lists[] = {&wire->jobs, &wire->finished};
  for (size_t i = 0; i < 2; i++)
    while (*lists[i]) {
      wire_job *job = *lists[i];
      *lists[i] = job->next;
      job_free(job);
    }
}

static braid_serve_device *find_device(braid_server *server, const char *name) {
  for (size_t i = 0; i < server->device_count; i++)
    if (!*name || strcmp(server->devices[i].config->name, name) == 0) return &server->devices[i];
  return NULL;
}

static wire_job *job_create(wire_connection *c, const braid_wire_compile *compile, braid_serve_device *device) {
  wire_job *job = braid_zalloc(NULL, sizeof *job);
  wire_compiled *compiled = job ? braid_zalloc(NULL, sizeof *compiled) : NULL;
  if (!compiled) {
    braid_free(NULL, job);
    return NULL;
  }
  compiled->tenant = c->tenant;
  compiled->handle = ++c->wire->handles;
  compiled->references = 1;
  snprintf(compiled->name, sizeof compiled->name, "%s", compile->name[0] ? compile->name : "compiled");
  compiled->config = (braid_serve_model_config){.name = compiled->name,
                                                .version = (char *)"1",
                                                .device = device->config->name,
                                                .max_batch = (int64_t)compile->max_batch,
                                                .batch_bits = (char *)"same"};
  __atomic_fetch_add(&c->references, 1, __ATOMIC_RELAXED);
  *job = (wire_job){.connection = c, .compiled = compiled, .device = device, .detail = ""};
  return job;
}

bool braid_wire_compile_message(wire_connection *c, const braid_wire_header *header, uint8_t *body) {
  struct braid_serve_wire *wire = c->wire;
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_wire_compile compile;
  size_t count = 0;
  for (const wire_compiled *other = c->compiled; other; other = other->next) count++;
  const char *wrong = braid_wire_get_compile(&reader, &compile);
  braid_serve_device *device = wrong ? NULL : find_device(wire->server, compile.device);
  wire_job *job = NULL;
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "compile: %s", wrong);
  else if (!c->tenant->config->admin && !c->tenant->config->compile)
    braid_wire_answer_status(c, header, BRAID_SERVE_FORBIDDEN, "tenant %s may not bring models (compile: true)",
                             c->tenant->config->name);
  else if (!device)
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "there is no device \"%.100s\"", compile.device);
  else if (c->compiling || count == BRAID_WIRE_COMPILED)
    braid_wire_answer_status(c, header, BRAID_SERVE_OVER_QUOTA,
                             c->compiling ? "the connection has a model that is being compiled"
                                          : "the connection has %zu compiled models, as many as it may",
                             count);
  else if (!(job = job_create(c, &compile, device)))
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for a model");
  if (!job) return false;
  job->id = header->id;
  job->body = body;
  job->reserved = c->reserved;
  job->data = compile.data;
  job->bytes = compile.data_bytes;
  c->compiling = true;
  pthread_mutex_lock(&wire->lock);
  job->next = wire->jobs;
  wire->jobs = job;
  pthread_cond_broadcast(&wire->changed);
  pthread_mutex_unlock(&wire->lock);
  return true;
}

void braid_wire_forget_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  uint64_t handle = braid_wire_get_number(&reader, 8);
  const char *wrong = braid_wire_finish(&reader);
  wire_compiled **link = &c->compiled;
  while (*link && (*link)->handle != handle) link = &(*link)->next;
  wire_compiled *compiled = *link;
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "forget: %s", wrong);
  } else if (!compiled) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "the connection has no compiled model %llu",
                             (unsigned long long)handle);
  } else {
    *link = compiled->next;
    braid_wire_compiled_release(compiled);
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  }
}
