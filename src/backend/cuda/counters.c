#include "backend/cuda/counters.h"

#include "base/detail.h"
#include "base/try.h"

/* --- what is counted -----------------------------------------------------------------------------------------------
 */
enum { kBytes, kInstructions, kCycles, kMetrics };
/* Few enough to be counted in one pass by all cards since Turing. */
static const char *metrics[kMetrics] = {
    [kBytes] = "dram__bytes.sum", [kInstructions] = "sm__inst_executed.sum", [kCycles] = "sm__cycles_active.sum"};

void braid_cuda_counters_destroy(braid_cuda_counters *counters) {
  if (!counters) return;
  braid_cupti_host_destroy destroy = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_host_destroy, host),
                                      .host = counters->host};
  if (counters->host) (void)counters->cupti->host_destroy(&destroy);
  braid_free(counters->allocator, counters->config);
  braid_free(counters->allocator, counters);
}

static braid_status make_config(braid_cuda_counters *counters, const char *chip) {
  const braid_cupti_api *cupti = counters->cupti;
  braid_cupti_host_create create = {
      .bytes = BRAID_CUPTI_BYTES(braid_cupti_host_create, host), .type = BRAID_CUPTI_RANGE_PROFILER, .chip = chip};
  BRAID_CUPTI_TRY(cupti->host_create(&create), "the chip's counters");
  counters->host = create.host;
  braid_cupti_metrics add = {
      .bytes = BRAID_CUPTI_BYTES(braid_cupti_metrics, count), .host = create.host, .names = metrics, .count = kMetrics};
  BRAID_CUPTI_TRY(cupti->add_metrics(&add), "what is to be counted");
  braid_cupti_config_size size = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_config_size, config_bytes),
                                  .host = create.host};
  BRAID_CUPTI_TRY(cupti->config_size(&size), "the size of the counters' settings");
  counters->config = braid_zalloc(counters->allocator, size.config_bytes);
  if (!counters->config) return BRAID_NO_MEMORY;
  counters->config_bytes = size.config_bytes;
  braid_cupti_config config = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_config, config),
                               .host = create.host,
                               .config_bytes = size.config_bytes,
                               .config = counters->config};
  BRAID_CUPTI_TRY(cupti->config(&config), "the counters' settings");
  return BRAID_OK;
}

braid_status braid_cuda_counters_create(const braid_allocator *allocator, const braid_cupti_api *cupti,
                                        const char *chip, braid_cuda_counters **out) {
  *out = NULL;
  braid_cuda_counters *counters = braid_zalloc(allocator, sizeof *counters);
  if (!counters) return BRAID_NO_MEMORY;
  *counters = (braid_cuda_counters){.allocator = allocator, .cupti = cupti};
  braid_status status = make_config(counters, chip);
  if (status == BRAID_OK)
    *out = counters;
  else
    braid_cuda_counters_destroy(counters);
  return status;
}

static braid_status require_counters(braid_cuda_device *device) {
  const char *why;
  if (device->counters) return BRAID_OK;
  const braid_cupti_api *cupti = braid_cupti_load(device->cuda->version, &why);
  if (!cupti) return braid_fail(BRAID_UNSUPPORTED, "%s", why);
  BRAID_TRY(braid_cupti_start());
  braid_cupti_chip chip = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_chip, name), .device = (size_t)device->id};
  BRAID_CUPTI_TRY(cupti->chip_name(&chip), "the chip's name");
  return braid_cuda_counters_create(device->allocator, cupti, chip.name ? chip.name : "", &device->counters);
}

void braid_cuda_counters_close(braid_cuda_device *device) {
  braid_cuda_counters_destroy(device->counters);
  device->counters = NULL;
}

/* --- counting ------------------------------------------------------------------------------------------------------
 */
typedef struct session {
  const braid_cuda_counters *counters;
  braid_cupti_profiler profiler;
  uint8_t *data; /* what was counted, as the library keeps it */
  size_t data_bytes;
} session;

enum { kMostPasses = 64 };

static braid_status session_prepare(session *s) {
  const braid_cupti_api *cupti = s->counters->cupti;
  braid_cupti_data_size size = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_data_size, data_bytes),
                                .profiler = s->profiler,
                                .names = metrics,
                                .count = kMetrics,
                                .ranges = 1,
                                .nodes = 1};
  BRAID_CUPTI_TRY(cupti->data_size(&size), "the size of what is counted");
  s->data = braid_zalloc(s->counters->allocator, size.data_bytes);
  if (!s->data) return BRAID_NO_MEMORY;
  s->data_bytes = size.data_bytes;
  braid_cupti_data data = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_data, data),
                           .profiler = s->profiler,
                           .data_bytes = s->data_bytes,
                           .data = s->data};
  BRAID_CUPTI_TRY(cupti->data_init(&data), "memory for what is counted");
  braid_cupti_set_config set = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_set_config, target_level),
                                .profiler = s->profiler,
                                .config_bytes = s->counters->config_bytes,
                                .config = s->counters->config,
                                .data_bytes = s->data_bytes,
                                .data = s->data,
                                .range = BRAID_CUPTI_USER_RANGE,
                                .replay = BRAID_CUPTI_USER_REPLAY,
                                .ranges = 1,
                                .levels = 1,
                                .least_level = 1,
                                .target_level = 1};
  BRAID_CUPTI_TRY(cupti->set_config(&set), "setting the counters");
  return BRAID_OK;
}

/* `run` between the two ends of a range. A lost device is asked for nothing more: the driver may never answer. */
static braid_status session_pass(const session *s, const braid_cuda_device *device, braid_status (*run)(void *),
                                 void *context, bool *complete) {
  const braid_cupti_api *cupti = s->counters->cupti;
  braid_cupti_plain plain = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_plain, profiler), .profiler = s->profiler};
  braid_cupti_push push = {
      .bytes = BRAID_CUPTI_BYTES(braid_cupti_push, name), .profiler = s->profiler, .name = "operation"};
  braid_cupti_stop stop = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_stop, complete), .profiler = s->profiler};
  BRAID_CUPTI_TRY(cupti->start(&plain), "starting the counters");
  braid_cupti_result pushed = cupti->push(&push), popped = 0;
  braid_status status = pushed ? BRAID_OK : run(context);
  if (braid_cuda_device_is_lost(device)) return status == BRAID_OK ? braid_cuda_device_status((void *)device) : status;
  if (!pushed) popped = cupti->pop(&plain);
  braid_cupti_result stopped = cupti->stop(&stop);
  BRAID_CUPTI_TRY(pushed, "the beginning of what is counted");
  if (status != BRAID_OK) return status;
  BRAID_CUPTI_TRY(popped, "the end of what is counted");
  BRAID_CUPTI_TRY(stopped, "stopping the counters");
  *complete = stop.complete != 0;
  return BRAID_OK;
}

static braid_status session_read(const session *s, braid_counts *out) {
  const braid_cupti_api *cupti = s->counters->cupti;
  double values[kMetrics] = {0};
  braid_cupti_decode decode = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_decode, dropped), .profiler = s->profiler};
  BRAID_CUPTI_TRY(cupti->decode(&decode), "reading the counters");
  if (decode.dropped) return braid_fail(BRAID_INTERNAL, "CUPTI had no room for what it counted");
  braid_cupti_evaluate evaluate = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_evaluate, values),
                                   .host = s->counters->host,
                                   .data = s->data,
                                   .data_bytes = s->data_bytes,
                                   .names = metrics,
                                   .count = kMetrics,
                                   .values = values};
  BRAID_CUPTI_TRY(cupti->evaluate(&evaluate), "what the counters mean");
  *out =
      (braid_counts){.instructions = values[kInstructions], .cycles = values[kCycles], .memory_bytes = values[kBytes]};
  return BRAID_OK;
}

static braid_status session_count(session *s, const braid_cuda_device *device, braid_status (*run)(void *),
                                  void *context, braid_counts *out) {
  bool complete = false;
  BRAID_TRY(session_prepare(s));
  for (int pass = 0; pass < kMostPasses && !complete; pass++)
    BRAID_TRY(session_pass(s, device, run, context, &complete));
  if (!complete) return braid_fail(BRAID_INTERNAL, "CUPTI is not done counting after %d runs", kMostPasses);
  return session_read(s, out);
}

/* Between two calls the card is as it always is: counters that are enabled change its clocks and its idling. */
static braid_status count_session(braid_cuda_device *device, braid_status (*run)(void *), void *context,
                                  braid_counts *out) {
  BRAID_TRY(require_counters(device));
  const braid_cupti_api *cupti = device->counters->cupti;
  braid_cupti_enable enable = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_enable, profiler), .context = device->context};
  BRAID_CUPTI_TRY(cupti->enable(&enable), "the card's counters");
  session s = {.counters = device->counters, .profiler = enable.profiler};
  braid_status status = session_count(&s, device, run, context, out);
  if (braid_cuda_device_is_lost(device)) return status; /* the library may still write to what is counted */
  braid_cupti_plain plain = {.bytes = BRAID_CUPTI_BYTES(braid_cupti_plain, profiler), .profiler = s.profiler};
  (void)cupti->disable(&plain);
  braid_free(device->allocator, s.data);
  return status;
}

braid_status braid_cuda_count(void *self, braid_status (*run)(void *context), void *context, braid_counts *out) {
  braid_cuda_device *device = self;
  *out = (braid_counts){0};
  BRAID_TRY(braid_cuda_device_status(device));
  braid_clear_detail();
  braid_cuda_enter(device);
  braid_status status = count_session(device, run, context, out);
  braid_cuda_leave(device);
  return status;
}
