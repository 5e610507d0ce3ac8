#include "measurement.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "braid/explore.h"
#include "statistics.h"

enum { BATCH = 128, CLASSES = 10, CHANNELS = 3, SIDE = 32 };

void cli_measurements_init(cli_measurement out[CLI_MEASUREMENTS]) {
  static const char without[] = "needs --measure";
  out[CLI_MEASURED_FLOAT] = (cli_measurement){"Braid, float32", NAN, without, 0};
  out[CLI_MEASURED_INT8] = (cli_measurement){"Braid, int8", NAN, without, 0};
  out[CLI_MEASURED_PYTORCH] = (cli_measurement){"PyTorch, float32", NAN, "needs --measure and --peer PYTHON", 0};
}

static int available_threads(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof *values, by_value);
  return cli_percentile(values, count, 50);
}

/* --- Braid ---------------------------------------------------------------------------------------------------------
 */
/* Pictures of which each is another: what they show does not change how long a step takes. */
static braid_status read_sample(void *context, int64_t index, float *pixels, int32_t *label) {
  (void)context;
  for (int64_t i = 0; i < (int64_t)CHANNELS * SIDE * SIDE; i++) pixels[i] = (float)((index * 31 + i * 7) % 255) / 255;
  *label = (int32_t)(index % CLASSES);
  return BRAID_OK;
}

typedef struct stopwatch {
  double last, *ms;
  size_t count;
  cli_progress progress;
} stopwatch;

/* From one step's end to the next one's. */
static bool step_done(void *context, const braid_train_progress *progress) {
  stopwatch *watch = context;
  double now = cli_seconds();
  if (!progress->epoch_done && !progress->to_test) {
    if (watch->last > 0) watch->ms[watch->count++] = (now - watch->last) * 1e3;
    watch->last = now;
    cli_progress_update(&watch->progress, progress->step, progress->steps, NULL);
  }
  return !cli_interrupted();
}

static braid_status time_trainer(const braid_graph *model, braid_dataset *data, braid_precision precision, int threads,
                                 int steps, stopwatch *watch) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.devices = "cpu";
  options.threads = threads;
  options.batch = BATCH;
  options.epochs = 1;
  options.precision = precision;
  if (precision == BRAID_INT8) {
    options.draw_weights = true;
    options.learning_rate = 0.125;
  } else {
    options.schedule = BRAID_CONSTANT;
    options.learning_rate = 1e-3;
  }
  braid_trainer *trainer = NULL;
  cli_place place = {.devices = "cpu"};
  braid_status status = cli_open_registry(&place);
  if (status != BRAID_OK) return status;
  options.registry = place.registry;
  status = braid_trainer_create(model, data, NULL, &options, &trainer);
  watch->ms = calloc((size_t)steps + 2, sizeof *watch->ms);
  if (status == BRAID_OK && !watch->ms) status = cli_no_memory();
  cli_progress_begin(&watch->progress, "measuring steps");
  if (status == BRAID_OK) status = braid_trainer_run(trainer, step_done, watch);
  cli_progress_end(&watch->progress);
  braid_trainer_destroy(trainer);
  cli_close_registry(&place);
  return status;
}

/* One step more for warm-up, and one that ends the epoch. */
static braid_status measure_step(braid_precision precision, int threads, int steps, cli_measurement *out) {
  braid_dataset_source source = {.name = "measurement",
                                 .samples = (int64_t)BATCH * (steps + 2),
                                 .channels = CHANNELS,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .classes = CLASSES,
                                 .read = read_sample};
  braid_graph *model = NULL;
  braid_dataset *data = NULL;
  stopwatch watch = {.last = 0};
  braid_status status = braid_tile_paper_model(NULL, &model);
  if (status == BRAID_OK) status = braid_dataset_create(NULL, &source, "train", &data);
  if (status == BRAID_OK) status = time_trainer(model, data, precision, threads, steps, &watch);
  if (status == BRAID_OK && !watch.count) status = braid_fail(BRAID_INTERNAL, "no step was measured");
  if (status == BRAID_OK) out->ms = median(watch.ms, watch.count);
  out->threads = threads;
  free(watch.ms);
  braid_dataset_close(data);
  braid_graph_destroy(model);
  return status;
}

/* --- PyTorch -------------------------------------------------------------------------------------------------------
 */
static const char script[] =
    "import sys, time, statistics, torch\n"
    "from torch import nn\n"
    "threads, steps = int(sys.argv[1]), int(sys.argv[2])\n"
    "torch.set_num_threads(threads)\n"
    "torch.manual_seed(1)\n"
    "def conv(c, f): return [nn.Conv2d(c, f, 3, padding=1), nn.ReLU()]\n"
    "net = nn.Sequential(*conv(3, 128), *conv(128, 128), nn.MaxPool2d(2), *conv(128, 256), *conv(256, 256),\n"
    "                    nn.MaxPool2d(2), *conv(256, 512), *conv(512, 512), nn.MaxPool2d(2), nn.Flatten(),\n"
    "                    nn.Linear(8192, 1024), nn.ReLU(), nn.Linear(1024, 10))\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)\n"
    "x, y = torch.rand(128, 3, 32, 32), torch.arange(128) % 10\n"
    "times = []\n"
    "for _ in range(steps + 1):\n"
    "    start = time.perf_counter()\n"
    "    optimizer.zero_grad()\n"
    "    nn.functional.cross_entropy(net(x), y).backward()\n"
    "    optimizer.step()\n"
    "    times.append(1e3 * (time.perf_counter() - start))\n"
    "print(statistics.median(times[1:]))\n";

/* Runs the interpreter; its standard error stays ours. *out: what it printed, cut to `bytes`. */
static braid_status run_python(const char *python, int threads, int steps, char *out, size_t bytes) {
  int ends[2];
  if (pipe(ends) != 0) return braid_fail(BRAID_IO, "--peer %.200s: %s", python, strerror(errno));
  char count[2][16];
  snprintf(count[0], sizeof count[0], "%d", threads);
  snprintf(count[1], sizeof count[1], "%d", steps);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (dup2(ends[1], STDOUT_FILENO) < 0) _exit(126);
    close(ends[0]);
    close(ends[1]);
    execlp(python, python, "-c", script, count[0], count[1], (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  size_t used = 0;
  for (ssize_t got; child > 0 && used + 1 < bytes; used += (size_t)got) {
    got = read(ends[0], out + used, bytes - 1 - used);
    if (got < 0 && errno == EINTR && !cli_interrupted())
      got = 0;
    else if (got <= 0)
      break;
  }
  out[used] = '\0';
  close(ends[0]);
  int state = 0;
  while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
  if (cli_interrupted()) return braid_fail(BRAID_CANCELLED, "interrupted");
  if (child < 0 || !WIFEXITED(state) || WEXITSTATUS(state) == 127)
    return braid_fail(BRAID_IO, "--peer: %.200s cannot be run", python);
  if (WEXITSTATUS(state) != 0)
    return braid_fail(BRAID_IO, "--peer: %.200s ended with code %d; it needs PyTorch", python, WEXITSTATUS(state));
  return BRAID_OK;
}

static braid_status measure_pytorch(const char *python, int threads, int steps, cli_measurement *out) {
  char text[64];
  braid_status status = run_python(python, threads, steps, text, sizeof text);
  if (status != BRAID_OK) return status;
  char *end;
  double ms = strtod(text, &end);
  if (end == text || !isfinite(ms) || ms <= 0)
    return braid_fail(BRAID_IO, "--peer: %.200s printed no time: \"%.40s\"", python, text);
  out->ms = ms;
  out->threads = threads;
  return BRAID_OK;
}

braid_status cli_measure_steps(int threads, int steps, const char *python, cli_measurement out[CLI_MEASUREMENTS]) {
  if (threads == 0) threads = available_threads();
  out[CLI_MEASURED_PYTORCH].why_not = "needs --peer PYTHON";
  braid_status status = BRAID_OK; /* the peer first: what is wrong with it is said at once */
  if (python) status = measure_pytorch(python, threads, steps, &out[CLI_MEASURED_PYTORCH]);
  if (status == BRAID_OK) status = measure_step(BRAID_FLOAT32, threads, steps, &out[CLI_MEASURED_FLOAT]);
  if (status == BRAID_OK) status = measure_step(BRAID_INT8, threads, steps, &out[CLI_MEASURED_INT8]);
  return status;
}
