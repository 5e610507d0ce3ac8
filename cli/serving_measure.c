/* The daemon of `braid evaluate serving`, and what is measured of it: the client stands in this process, so that both
 * share the CPUs, as a container beside a daemon would. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "braid/client.h"
#include "braid/overlay_evaluation.h"
#include "call.h"
#include "serving_evaluation.h"

enum { SIDE = 224, MOST_RUNS = 400, LEAST_RUNS = 20, WARM_UP = 3, EMPTY = 2000, BESIDE = 300 };
static const double kSeconds = 2; /* of runs of each kind, about */

typedef struct daemon_process {
  char folder[64], config[96], socket[96], tcp[32];
  pid_t process;
  FILE *out; /* what it prints */
} daemon_process;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void take_quantiles(double *times, size_t count, double *p50, double *p99) {
  qsort(times, count, sizeof *times, compare_times);
  *p50 = times[count / 2];
  *p99 = times[count * 99 / 100];
}

/* --- the daemon ----------------------------------------------------------------------------------------------------
 */
/* Two instances of one CPU device, of which a tenant may have one for itself. */
static braid_status write_config(const daemon_process *d, const cli_serving *of) {
  FILE *file = fopen(d->config, "w");
  if (!file) return braid_fail(BRAID_IO, "%s: %s", d->config, strerror(errno));
  fputs("devices:\n  - {name: cpu, threads: 1, instances: 2}\nmodels:\n", file);
  for (size_t i = 0; i < of->count; i++)
    fprintf(file, "  - {name: %s, path: %s/%s.onnx}\n", of->networks[i].name, d->folder, of->networks[i].name);
  fputs("tenants:\n  - {name: own, token: own, share: 0.5, compile: true, max_bytes: 1073741824}\n"
        "  - {name: other, token: other, share: 0.5}\n",
        file);
  return fclose(file) == 0 ? BRAID_OK : braid_fail(BRAID_IO, "%s: %s", d->config, strerror(errno));
}

static void become_daemon(const daemon_process *d, const char *path, int out, pid_t parent) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  (void)dup2(out, STDOUT_FILENO);
  (void)freopen("/dev/null", "w", stderr);
  execl(path, "braid serve", "--config", d->config, "--port", "0", "--wire-port", "0", "--socket", d->socket, "--json",
        (char *)NULL);
  _exit(127);
}

static braid_status start_daemon(daemon_process *d, const cli_serving *of) {
  char path[4096], line[1024] = "";
  int ends[2];
  braid_status status = cli_daemon_path(path, sizeof path);
  if (status == BRAID_OK) status = write_config(d, of);
  if (status != BRAID_OK) return status;
  if (pipe(ends) != 0) return braid_fail(BRAID_IO, "a pipe to the daemon: %s", strerror(errno));
  pid_t parent = getpid();
  d->process = fork();
  if (d->process == 0) become_daemon(d, path, ends[1], parent);
  close(ends[1]);
  d->out = fdopen(ends[0], "r");
  if (d->process < 0 || !d->out) return braid_fail(BRAID_NO_MEMORY, "the daemon cannot be started");
  const char *port = fgets(line, sizeof line, d->out) ? strstr(line, "\"wire_port\":") : NULL;
  if (!port) return braid_fail(BRAID_DEVICE_LOST, "the daemon, %s, ended before it listened", path);
  snprintf(d->tcp, sizeof d->tcp, "127.0.0.1:%d", atoi(port + strlen("\"wire_port\":")));
  return BRAID_OK;
}

static void stop_daemon(daemon_process *d) {
  if (d->process > 0) {
    kill(d->process, SIGKILL);
    (void)waitpid(d->process, NULL, 0);
  }
  if (d->out) fclose(d->out);
}

static braid_status daemon_connect(const daemon_process *d, bool tcp, const char *token, braid_client **out) {
  char address[128];
  braid_client_options options = {.token = token, .name = "braid evaluate"};
  snprintf(address, sizeof address, "%s%s", tcp ? "" : "unix:", tcp ? d->tcp : d->socket);
  return cli_call_status(braid_client_connect(address, &options, out));
}

static braid_status wait_for_model(braid_client *client, const char *name) {
  for (;;) {
    braid_client_model *model;
    size_t count;
    braid_status status = cli_call_status(braid_client_models(client, name, &model, &count));
    if (status != BRAID_OK) return status;
    braid_client_state state = model->state;
    status = state == BRAID_CLIENT_BROKEN ? braid_fail(BRAID_UNSUPPORTED, "model %s: %s", name, model->reason) : status;
    free(model);
    if (status != BRAID_OK || state == BRAID_CLIENT_READY) return status;
    if (cli_interrupted()) return braid_fail(BRAID_CANCELLED, "interrupted");
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
}

/* --- networks ------------------------------------------------------------------------------------------------------
 */
static braid_status choose(const char *models, cli_serving *out) {
  const braid_overlay_published_network *published = braid_overlay_published_networks();
  char list[256] = "";
  for (size_t i = 0; i < BRAID_OVERLAY_CNNS; i++) {
    const char *name = published[i].name;
    size_t length = strlen(name);
    bool chosen = !models;
    for (const char *at = models; at && !chosen; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
      chosen = strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]);
    if (chosen) out->networks[out->count++].name = name;
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", name);
  }
  size_t named = models ? 1 : out->count;
  for (const char *at = models; at && (at = strchr(at, ',')); at++) named++;
  if (named == out->count) return BRAID_OK;
  return braid_fail(BRAID_NOT_FOUND, "--model %s: names of %s are expected, separated by commas", models, list);
}

static size_t index_of(const char *name) {
  size_t i = 0;
  while (strcmp(braid_overlay_published_networks()[i].name, name) != 0) i++;
  return i;
}

/* The model in this process, by one thread, which is what an instance of the daemon has. */
static braid_status measure_local(const braid_graph *graph, cli_serving_network *network) {
  static const float zero[3 * SIDE * SIDE];
  double times[MOST_RUNS];
  size_t runs = 0;
  braid_session *session;
  braid_status status = braid_session_create(graph, &(braid_session_options){.threads = 1}, &session);
  if (status != BRAID_OK) return status;
  float *output = calloc(1, braid_desc_bytes(braid_session_output(session, 0)));
  if (!output) status = cli_no_memory();
  for (int i = 0; i < WARM_UP && status == BRAID_OK; i++)
    status = braid_session_run(session, (const void *[]){zero}, (void *[]){output});
  double began = now_us();
  while (status == BRAID_OK && runs < MOST_RUNS && (runs < LEAST_RUNS || now_us() - began < kSeconds * 1e6)) {
    double from = now_us();
    status = braid_session_run(session, (const void *[]){zero}, (void *[]){output});
    times[runs++] = now_us() - from;
    if (cli_interrupted()) status = braid_fail(BRAID_CANCELLED, "interrupted");
  }
  if (status == BRAID_OK) take_quantiles(times, runs, &network->local_us, &network->local_p99_us);
  network->tasks = braid_session_plan_count(session);
  free(output);
  braid_session_destroy(session);
  return status;
}

static braid_status make_network(const daemon_process *d, cli_serving_network *network) {
  char path[128];
  braid_graph *graph;
  braid_status status = braid_overlay_stand_in(NULL, index_of(network->name), SIDE, &graph);
  if (status != BRAID_OK) return status;
  snprintf(path, sizeof path, "%s/%s.onnx", d->folder, network->name);
  status = braid_model_save_onnx(graph, path);
  if (status == BRAID_OK) status = measure_local(graph, network);
  braid_graph_destroy(graph);
  return status;
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
typedef struct launch {
  braid_client *client;
  braid_client_memory *memory;
  braid_client_tensor input, output;
  braid_client_launch_options options;
  char *zeros, input_name[128], output_name[128];
} launch;

static braid_status launch_once(launch *l) {
  braid_client_call *call;
  braid_status status = cli_call_status(braid_client_launch(l->client, &l->options, &call));
  if (status == BRAID_OK) braid_client_release(call);
  return status;
}

static size_t port_bytes(const braid_client_port *port) {
  size_t bytes = braid_client_dtype_bytes(port->dtype);
  for (int i = 0; i < port->rank; i++) bytes *= port->dims[i] < 0 ? 1 : (size_t)port->dims[i];
  return bytes;
}

/* The set-up: as few messages as there are. */
static braid_status launch_begin(launch *l, const char *name, bool shared) {
  braid_client_model *model;
  size_t count;
  braid_status status = cli_call_status(braid_client_models(l->client, name, &model, &count));
  if (status != BRAID_OK) return status;
  const braid_client_port *in = &model->inputs[0], *out = &model->outputs[0];
  snprintf(l->input_name, sizeof l->input_name, "%s", in->name);
  snprintf(l->output_name, sizeof l->output_name, "%s", out->name);
  l->input =
      (braid_client_tensor){.name = l->input_name, .dtype = in->dtype, .rank = in->rank, .bytes = port_bytes(in)};
  for (int i = 0; i < in->rank; i++) l->input.dims[i] = in->dims[i] < 0 ? 1 : in->dims[i];
  l->output = (braid_client_tensor){.name = l->output_name};
  l->options = (braid_client_launch_options){
      .model = name, .inputs = &l->input, .outputs = &l->output, .input_count = 1, .output_count = 1};
  if (shared) {
    l->output.bytes = port_bytes(out);
    l->output.offset = (l->input.bytes + 4095) / 4096 * 4096;
    status = cli_call_status(braid_client_memory_create(l->client, l->output.offset + l->output.bytes, &l->memory));
    l->input.memory = l->output.memory = l->memory;
  } else {
    l->zeros = calloc(1, l->input.bytes);
    if (!l->zeros) status = cli_no_memory();
    l->input.data = l->zeros;
  }
  free(model);
  return status;
}

static void launch_end(launch *l) {
  braid_client_memory_destroy(l->memory);
  free(l->zeros);
  braid_client_close(l->client);
}

static braid_status launch_times(launch *l, size_t most, double *times, size_t *out_runs) {
  braid_status status = BRAID_OK;
  double began = now_us();
  *out_runs = 0;
  while (status == BRAID_OK && *out_runs < most && (*out_runs < LEAST_RUNS || now_us() - began < kSeconds * 1e6)) {
    double from = now_us();
    status = launch_once(l);
    times[(*out_runs)++] = now_us() - from;
    if (cli_interrupted()) status = braid_fail(BRAID_CANCELLED, "interrupted");
  }
  return status;
}

static braid_status measure_way(const daemon_process *d, const char *name, cli_serving_way way,
                                cli_serving_times *out) {
  double times[MOST_RUNS];
  size_t runs = 0;
  launch l = {.client = NULL};
  braid_status status = daemon_connect(d, way == CLI_SERVING_TCP, "own", &l.client);
  if (status != BRAID_OK) return status;
  status = launch_begin(&l, name, way == CLI_SERVING_SHARED);
  out->set_up = (double)braid_client_count(l.client).messages;
  for (int i = 0; i < WARM_UP && status == BRAID_OK; i++) status = launch_once(&l);
  braid_client_counters before = braid_client_count(l.client);
  if (status == BRAID_OK) status = launch_times(&l, MOST_RUNS, times, &runs);
  braid_client_counters after = braid_client_count(l.client);
  if (status == BRAID_OK) {
    take_quantiles(times, runs, &out->p50_us, &out->p99_us);
    out->launches = (double)(after.messages - before.messages) / (double)runs;
    out->sent = (double)(after.bytes_sent - before.bytes_sent) / (double)runs;
    out->received = (double)(after.bytes_received - before.bytes_received) / (double)runs;
  }
  launch_end(&l);
  return status;
}

/* A message that has an answer and asks for hardly anything: giving back a buffer that there is none of. */
static braid_status measure_empty(const daemon_process *d, bool tcp, double *out_us) {
  static double times[EMPTY];
  double p99;
  braid_client *client;
  braid_status status = daemon_connect(d, tcp, "own", &client);
  for (int i = 0; i < EMPTY && status == BRAID_OK; i++) {
    double from = now_us();
    if (braid_client_drop(client, "none") != BRAID_CLIENT_UNKNOWN)
      status = braid_fail(BRAID_DEVICE_LOST, "the daemon: %s", braid_client_error());
    times[i] = now_us() - from;
  }
  if (status == BRAID_OK) take_quantiles(times, EMPTY, out_us, &p99);
  braid_client_close(client);
  return status;
}

/* --- neighbours ----------------------------------------------------------------------------------------------------
 */
typedef struct flood {
  launch launch;
  int stop; /* atomic */
  braid_status status;
} flood;

static void *ask_always(void *context) {
  flood *f = context;
  while (f->status == BRAID_OK && !__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) f->status = launch_once(&f->launch);
  return NULL;
}

static braid_status measure_beside(launch *own, flood *other, cli_serving_neighbours *out) {
  static double times[BESIDE];
  size_t runs;
  pthread_t thread;
  braid_status status = launch_times(own, BESIDE, times, &runs);
  if (status != BRAID_OK) return status;
  take_quantiles(times, runs, &out->alone_us, &out->alone_p99_us);
  if (pthread_create(&thread, NULL, ask_always, other) != 0)
    return braid_fail(BRAID_NO_MEMORY, "no thread can be started");
  status = launch_times(own, BESIDE, times, &runs);
  __atomic_store_n(&other->stop, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  if (status == BRAID_OK) status = other->status;
  if (status == BRAID_OK) take_quantiles(times, runs, &out->beside_us, &out->beside_p99_us);
  return status;
}

static braid_status measure_neighbours(const daemon_process *d, const char *name, cli_serving_neighbours *out) {
  launch own = {.client = NULL};
  flood other = {.status = BRAID_OK};
  braid_client_cores cores;
  out->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
  braid_status status = daemon_connect(d, false, "own", &own.client);
  if (status == BRAID_OK) status = daemon_connect(d, false, "other", &other.launch.client);
  if (status == BRAID_OK) status = launch_begin(&own, name, true);
  if (status == BRAID_OK) status = launch_begin(&other.launch, name, true);
  if (status == BRAID_OK) status = cli_call_status(braid_client_request_cores(own.client, NULL, 1, &cores));
  for (int i = 0; i < WARM_UP && status == BRAID_OK; i++) status = launch_once(&own);
  if (status == BRAID_OK) status = measure_beside(&own, &other, out);
  launch_end(&own);
  launch_end(&other.launch);
  return status;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status measure_all(const daemon_process *d, cli_progress *progress, cli_serving *out) {
  braid_client *client;
  braid_status status = daemon_connect(d, false, "own", &client);
  for (size_t i = 0; i < out->count && status == BRAID_OK; i++) status = wait_for_model(client, out->networks[i].name);
  braid_client_close(client);
  if (status == BRAID_OK) status = measure_empty(d, false, &out->empty_us[CLI_SERVING_UNIX]);
  if (status == BRAID_OK) status = measure_empty(d, true, &out->empty_us[CLI_SERVING_TCP]);
  for (size_t i = 0; i < out->count && status == BRAID_OK; i++)
    for (int way = 0; way < CLI_SERVING_WAYS && status == BRAID_OK; way++) {
      cli_progress_update(progress, (int64_t)(i * CLI_SERVING_WAYS) + way, (int64_t)out->count * CLI_SERVING_WAYS,
                          out->networks[i].name);
      status = measure_way(d, out->networks[i].name, (cli_serving_way)way, &out->networks[i].ways[way]);
    }
  size_t least = 0;
  for (size_t i = 1; i < out->count; i++)
    if (out->networks[i].local_us < out->networks[least].local_us) least = i;
  if (status == BRAID_OK) status = measure_neighbours(d, out->networks[least].name, &out->neighbours);
  return status;
}

static void remove_folder(const daemon_process *d, const cli_serving *of) {
  char path[128];
  for (size_t i = 0; i < of->count; i++) {
    snprintf(path, sizeof path, "%s/%s.onnx", d->folder, of->networks[i].name);
    (void)unlink(path);
  }
  (void)unlink(d->config);
  (void)unlink(d->socket);
  (void)rmdir(d->folder);
}

braid_status cli_serving_measure(const char *models, cli_serving *out) {
  daemon_process d = {.process = -1};
  const char *temporary = getenv("TMPDIR");
  if (!temporary || !*temporary || strlen(temporary) > 40) temporary = "/tmp"; /* a socket's path is short */
  snprintf(d.folder, sizeof d.folder, "%s/braid-XXXXXX", temporary);
  braid_status status = choose(models, out);
  if (status != BRAID_OK) return status;
  if (!mkdtemp(d.folder)) return braid_fail(BRAID_IO, "%s: %s", d.folder, strerror(errno));
  snprintf(d.config, sizeof d.config, "%s/serve.yaml", d.folder);
  snprintf(d.socket, sizeof d.socket, "%s/b.sock", d.folder);
  cli_progress progress;
  cli_progress_begin(&progress, "measuring");
  for (size_t i = 0; i < out->count && status == BRAID_OK; i++) {
    cli_progress_update(&progress, (int64_t)i, (int64_t)out->count, out->networks[i].name);
    status = make_network(&d, &out->networks[i]);
  }
  if (status == BRAID_OK) status = start_daemon(&d, out);
  if (status == BRAID_OK) status = measure_all(&d, &progress, out);
  cli_progress_end(&progress);
  stop_daemon(&d);
  remove_folder(&d, out);
  return status;
}
