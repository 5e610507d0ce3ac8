/* What a request of a client costs beyond one of the same process: a session alone, a request submitted to the
 * scheduler in this process, and by libbraid-client over a Unix socket with shared memory, over it with tensors inline,
 * and over TCP and TLS (of a second daemon, with certificates by openssl). The ways take turns, so that what else the
 * machine does meets all of them.
 *
 *   wire_bench [MODEL [ROUNDS [SPIN_US]]]   default: models/lenet.cfg, 40 rounds of 100 requests each way, 0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "braid/client.h"
#include "braid/model.h"
#include "braid/session.h"
#include "serve/server.h"

enum { kRequests = 100, kWarmUp = 50, kWays = 6 };
static const char *const kNames[kWays] = {"session",      "in process",  "unix, shared memory",
                                          "unix, inline", "TCP, inline", "TLS, inline"};

typedef struct way {
  braid_client *client;
  braid_client_memory *memory;
  braid_client_tensor input, output;
  braid_client_launch_options launch;
} way;

typedef struct setup {
  braid_server *server, *secure; /* secure: with TLS */
  braid_session *session;
  char name[128];
  void *input;
  float *output;
  size_t input_bytes, output_bytes;
  int rank;
  int64_t dims[BRAID_CLIENT_MAX_RANK];
  way ways[kWays];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done;
  double *times[kWays];
  size_t count;
} setup;

static void give_up(const char *what, const char *why) {
  fprintf(stderr, "wire_bench: %s: %s\n", what, why);
  exit(1);
}

static void check(braid_status status, const char *what) {
  if (status != BRAID_OK) give_up(what, braid_error_detail());
}

static void check_client(braid_client_status status, const char *what) {
  if (status != BRAID_CLIENT_OK) give_up(what, braid_client_error());
}

/* --- one request each way ------------------------------------------------------------------------------------------
 */
static void on_done(braid_serve_request *request) {
  setup *s = request->context;
  pthread_mutex_lock(&s->lock);
  s->done = true;
  pthread_cond_signal(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static void run_in_process(setup *s) {
  braid_serve_request *request;
  braid_serve_tensor *tensor;
  char detail[BRAID_SERVE_DETAIL];
  if (braid_serve_begin(s->server, s->server->tenants, "model", NULL, &request, detail) != BRAID_SERVE_DONE)
    give_up("in process", detail);
  if (braid_serve_request_input(request, s->name, BRAID_F32, s->rank, s->dims, &tensor) != BRAID_SERVE_DONE)
    give_up("in process", request->detail);
  memcpy(tensor->data, s->input, s->input_bytes);
  request->context = s;
  request->done = on_done;
  s->done = false;
  braid_serve_submit(s->server->scheduler, request);
  pthread_mutex_lock(&s->lock);
  while (!s->done) pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  if (request->verdict != BRAID_SERVE_DONE) give_up("in process", request->detail);
  memcpy(s->output, request->outputs[0].data, s->output_bytes);
  braid_serve_request_destroy(request);
}

static void run_client(setup *s, way *w) {
  braid_client_call *call;
  size_t count;
  if (w->memory) memcpy(braid_client_memory_data(w->memory), s->input, s->input_bytes);
  check_client(braid_client_launch(w->client, &w->launch, &call), "launch");
  memcpy(s->output, braid_client_outputs(call, &count)[0].data, s->output_bytes);
  braid_client_release(call);
}

static void run_once(setup *s, int way_index) {
  memset(s->output, 0, s->output_bytes);
  if (way_index == 0)
    check(braid_session_run(s->session, (const void *[]){s->input}, (void *[]){s->output}), "session");
  else if (way_index == 1)
    run_in_process(s);
  else
    run_client(s, &s->ways[way_index]);
}

/* --- set-up --------------------------------------------------------------------------------------------------------
 */
static void open_session(setup *s, const char *model) {
  braid_graph *graph;
  check(braid_model_load(NULL, model, NULL, &graph), model);
  check(braid_session_create(graph, &(braid_session_options){.threads = 1}, &s->session), model);
  braid_graph_destroy(graph);
  const braid_desc *in = braid_session_input(s->session, 0);
  s->input_bytes = braid_desc_bytes(in);
  s->output_bytes = braid_desc_bytes(braid_session_output(s->session, 0));
  s->rank = in->rank;
  memcpy(s->dims, in->dims, sizeof s->dims);
  s->input = calloc(1, s->input_bytes);
  s->output = calloc(1, s->output_bytes);
  for (size_t i = 0; i < s->input_bytes / sizeof(float); i++) ((float *)s->input)[i] = (float)(i % 17) / 17;
}

/* `tls`: with the certificate that is made here. */
static braid_server *open_server(const char *model, const char *folder, int spin_us, bool tls, const char *socket) {
  char path[128], command[512];
  braid_server *server;
  snprintf(path, sizeof path, "%s/serve.yaml", folder);
  snprintf(command, sizeof command,
           "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s/key.pem -out %s/cert.pem "
           "-days 2 -subj /CN=bench -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
           folder, folder);
  if (tls && system(command) != 0) give_up("openssl", "it makes no certificate");
  FILE *file = fopen(path, "w");
  if (tls) fprintf(file, "certificate: %s/cert.pem\nkey: %s/key.pem\n", folder, folder);
  fprintf(file, "spin_us: %d\ndevices:\n  - {name: cpu, threads: 1}\nmodels:\n  - {name: model, path: \"%s\"}\n",
          spin_us, model);
  fclose(file);
  braid_server_options options = {.config = path, .port = -1, .wire_port = -1, .socket = socket};
  check(braid_server_create(&options, &server), "daemon");
  while (!braid_server_is_ready(server)) nanosleep(&(struct timespec){0, 1000000}, NULL);
  remove(path);
  return server;
}

static void open_way(setup *s, int index, const char *address, bool shared, int spin_us, const char *authority) {
  way *w = &s->ways[index];
  check_client(
      braid_client_connect(address, &(braid_client_options){.spin_us = spin_us, .authority = authority}, &w->client),
      address);
  w->input = (braid_client_tensor){
      .name = s->name, .dtype = BRAID_CLIENT_F32, .rank = s->rank, .data = s->input, .bytes = s->input_bytes};
  memcpy(w->input.dims, s->dims, sizeof s->dims);
  w->launch = (braid_client_launch_options){.model = "model", .inputs = &w->input, .input_count = 1};
  braid_client_model *model;
  size_t count;
  check_client(braid_client_models(w->client, "model", &model, &count), "models");
  snprintf(s->name, sizeof s->name, "%s", model->inputs[0].name);
  if (shared) {
    size_t offset = (s->input_bytes + 63) / 64 * 64;
    check_client(braid_client_memory_create(w->client, offset + s->output_bytes, &w->memory), "memory");
    w->input.memory = w->memory;
    static char name[128];
    snprintf(name, sizeof name, "%s", model->outputs[0].name);
    w->output = (braid_client_tensor){.name = name, .memory = w->memory, .offset = offset, .bytes = s->output_bytes};
    w->launch.outputs = &w->output;
    w->launch.output_count = 1;
  }
  free(model);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(setup *s, int rounds) {
  double loads[1] = {0}, in_process = 0;
  (void)getloadavg(loads, 1);
  printf("%d requests each way, %zu bytes in, %zu out; load %.2f\n%-22s %9s %9s %9s %12s\n", rounds * kRequests,
         s->input_bytes, s->output_bytes, loads[0], "us", "p10", "median", "p99", "over in process");
  for (int i = 0; i < kWays; i++) {
    qsort(s->times[i], s->count, sizeof(double), compare);
    double median = s->times[i][s->count / 2];
    if (i == 1) in_process = median;
    printf("%-22s %9.1f %9.1f %9.1f", kNames[i], s->times[i][s->count / 10], median, s->times[i][s->count * 99 / 100]);
    if (i > 1)
      printf(" %12.1f\n", median - in_process);
    else
      printf("\n");
  }
}

int main(int argc, char **argv) {
  static setup s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  const char *model = argc > 1 ? argv[1] : BRAID_MODELS "/lenet.cfg";
  int rounds = argc > 2 ? atoi(argv[2]) : 40, spin_us = argc > 3 ? atoi(argv[3]) : 0;
  char folder[] = "/tmp/braid-bench-XXXXXX", path[108], address[128];
  if (rounds < 1 || !mkdtemp(folder)) give_up("arguments", "a model and a number of rounds are expected");
  open_session(&s, model);
  snprintf(path, sizeof path, "%s/braid.sock", folder);
  s.server = open_server(model, folder, spin_us, false, path);
  snprintf(address, sizeof address, "unix:%s", path);
  open_way(&s, 2, address, true, spin_us, NULL);
  open_way(&s, 3, address, false, spin_us, NULL);
  snprintf(address, sizeof address, "127.0.0.1:%d", braid_server_wire_port(s.server));
  open_way(&s, 4, address, false, spin_us, NULL);
  snprintf(path, sizeof path, "%s/tls.sock", folder);
  s.secure = open_server(model, folder, spin_us, true, path);
  snprintf(address, sizeof address, "tls:127.0.0.1:%d", braid_server_wire_port(s.secure));
  snprintf(path, sizeof path, "%s/cert.pem", folder);
  open_way(&s, 5, address, false, spin_us, path);
  for (int i = 0; i < kWays; i++) s.times[i] = calloc((size_t)rounds * kRequests, sizeof(double));
  float *first = calloc(1, s.output_bytes);
  run_once(&s, 0);
  memcpy(first, s.output, s.output_bytes);
  for (int round = -1; round < rounds; round++)
    for (int i = 0; i < kWays; i++)
      for (int k = 0; k < (round < 0 ? kWarmUp : kRequests); k++) {
        int64_t began = braid_now_ns();
        run_once(&s, i);
        if (round >= 0) s.times[i][round * kRequests + k] = (double)(braid_now_ns() - began) * 1e-3;
        if (memcmp(first, s.output, s.output_bytes) != 0) give_up(kNames[i], "other bits than the session");
      }
  s.count = (size_t)rounds * kRequests;
  report(&s, rounds);
  for (int i = 2; i < kWays; i++) {
    braid_client_memory_destroy(s.ways[i].memory);
    braid_client_close(s.ways[i].client);
    free(s.times[i]);
  }
  braid_server_destroy(s.server, 0);
  braid_server_destroy(s.secure, 0);
  remove(path);
  snprintf(path, sizeof path, "%s/key.pem", folder);
  remove(path);
  braid_session_destroy(s.session);
  (void)rmdir(folder);
  free(first);
  free(s.input);
  free(s.output);
  free(s.times[0]);
  free(s.times[1]);
  return 0;
}
