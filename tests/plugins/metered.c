/* The example's device with a meter: it draws a known power while a kernel runs and another while none does, and every
 * kernel takes a known time. BRAID_METERED sets them, "key=number,...":
 *
 *   sleep_us   what a kernel takes (2000)
 *   watts      drawn while it runs (50); idle: else (10)
 *   window_us  between two updates of the energy counter (5000)
 *   counts     what the counter counts of the truth, in per cent (100)
 *   sensor     1: there is a power sensor, which tells the truth of the last four windows (1); 2: it is all there is;
 *              0: there is none
 *   driver     number of the driver's version (1)
 *   link_us    what a transfer takes (0)
 *   stuck      1: the counter does not move (0)
 *   stalls     how many kernels take stall_us longer (0), from number stall_at on (1)
 *   kernels    how many it runs before it is lost; 0: no limit (0)
 *   counters   1: it counts 300 instructions, 200 cycles and 50000 bytes of memory for each kernel, in two passes;
 *              2: it says that it may not; 3: the first time that another counts; 4: it counts no cycles; 0: it has
 * none (0) */
#include <braid/plugin.h>
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

#include <pthread.h>
#include <time.h>

typedef struct meter {
  pthread_mutex_t lock;
  double at, joules;           /* until when they are counted */
  double edge, joules_at_edge; /* of the last window */
  double edges[4], watts;      /* joules at the last edges, the mean power between them */
  int running, runs, kernels, counts;
} meter;
static meter METER = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double setting(const char *key, double otherwise) {
  const char *list = getenv("BRAID_METERED"), *at = list ? strstr(list, key) : NULL;
  return at && at[strlen(key)] == '=' ? strtod(at + strlen(key) + 1, NULL) : otherwise;
}

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double watts_now(void) {
  return METER.running ? setting("watts", 50) : setting("idle", 10);
}

/* Counts up to now, with the lock held; the counter shows what was true at the last edge of a window. */
static void count(void) {
  double now = now_seconds(), window = setting("window_us", 5000) * 1e-6, watts = watts_now();
  if (METER.at == 0) METER.at = METER.edge = now;
  while (METER.edge + window <= now) {
    METER.edge += window;
    if (METER.edge > METER.at) {
      METER.joules += watts * (METER.edge - METER.at);
      METER.at = METER.edge;
    }
    METER.joules_at_edge = METER.joules;
    METER.watts = (METER.joules - METER.edges[0]) / (4 * window);
    memmove(METER.edges, METER.edges + 1, 3 * sizeof *METER.edges);
    METER.edges[3] = METER.joules;
  }
  METER.joules += watts * (now - METER.at);
  METER.at = now;
}

static void switch_to(int running) {
  pthread_mutex_lock(&METER.lock);
  count();
  METER.running = running;
  pthread_mutex_unlock(&METER.lock);
}

static braid_status metered_energy(void *device, double *out_uj) {
  (void)device;
  pthread_mutex_lock(&METER.lock);
  count();
  *out_uj = setting("stuck", 0) > 0 ? 1 : METER.joules_at_edge * 1e6 * setting("counts", 100) / 100;
  pthread_mutex_unlock(&METER.lock);
  return setting("sensor", 1) == 2 ? BRAID_UNSUPPORTED : BRAID_OK;
}

static braid_status metered_power(void *device, double *out_watts) {
  (void)device;
  pthread_mutex_lock(&METER.lock);
  count();
  *out_watts = METER.watts;
  pthread_mutex_unlock(&METER.lock);
  return setting("sensor", 1) > 0 ? BRAID_OK : BRAID_UNSUPPORTED;
}

static void sleep_us(double us) {
  double end = now_seconds() + us * 1e-6;
  for (double left = us * 1e-6; left > 0; left = end - now_seconds()) {
    struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&time, NULL);
  }
}

static braid_status metered_task(void *context, const braid_task *task) {
  if (task->kind != BRAID_TASK_KERNEL) {
    sleep_us(setting("link_us", 0));
    return run_task(context, task);
  }
  if (setting("kernels", 0) > 0 && ++METER.runs > setting("kernels", 0))
    return braid_fail(BRAID_DEVICE_LOST, "somebody pulled the plug");
  switch_to(1);
  int late = METER.kernels++ + 1 - (int)setting("stall_at", 1);
  sleep_us(setting("sleep_us", 2000) + (late >= 0 && late < setting("stalls", 0) ? setting("stall_us", 0) : 0));
  switch_to(0);
  return BRAID_OK;
}

static braid_status metered_count(void *device, braid_status (*run)(void *context), void *context, braid_counts *out) {
  (void)device;
  int how = (int)setting("counters", 0), before = METER.kernels;
  if (how == 2) return braid_fail(BRAID_UNSUPPORTED, "metered may not count");
  if (how == 3 && !METER.counts++) return braid_fail(BRAID_BUSY, "somebody else counts");
  for (int pass = 0; pass < 2; pass++) {
    braid_status status = run(context);
    if (status != BRAID_OK) return status;
  }
  double kernels = (METER.kernels - before) / 2.0;
  *out = (braid_counts){300 * kernels, how == 4 ? 0 : 200 * kernels, 50000 * kernels};
  return BRAID_OK;
}

static braid_status metered_queue(void *device, braid_timeline *timeline, void **queue) {
  static const braid_host_queue_ops OPS = {.run = metered_task};
  return braid_host_queue_create(((tutor *)device)->allocator, "metered", &OPS, device, timeline,
                                 (braid_host_queue **)queue);
}

static void metered_info(void *device, braid_device_info *info) {
  device_info(device, info);
  snprintf(info->name, sizeof info->name, "metered");
  snprintf(info->description, sizeof info->description, "a device of known watts");
  snprintf(info->software, sizeof info->software, "metered driver %g", setting("driver", 1));
}

static braid_status metered_enumerate(braid_device_info *infos, size_t capacity, size_t *device_count) {
  braid_status status = enumerate(infos, capacity, device_count);
  if (capacity) snprintf(infos[0].name, sizeof infos[0].name, "metered");
  return status;
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  (void)abi;
  table = BACKEND;
  table.name = "metered";
  table.enumerate = metered_enumerate;
  table.info = metered_info;
  table.queue_create = metered_queue;
  table.read_energy = metered_energy;
  table.read_power = metered_power;
  if (setting("counters", 0) > 0) table.count = metered_count;
  return &table;
}
