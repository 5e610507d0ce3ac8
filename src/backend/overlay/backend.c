/* The overlay as a device: a card of a design (docs/overlay.md), simulated. It has no kernels for single nodes; of a
 * graph in int8 it claims regions, whose results are those of the functional simulator, bit for bit, and whose times
 * and energies are those of the timing simulator: modelled, none of them is of the machine that this runs on.
 *
 * Operands lie in the host's memory (unified). The driver, which is on the host, quantizes and arranges them for the
 * card; the modelled time of a task contains moving them there and back. Options: design=NAME or a file, cores=N,
 * memory=BYTES, part=I,parts=N. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/overlay/region.h"
#include "backend/overlay/view.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/host_queue.h"
#include "launch/options.h"
#include "overlay/compiler/parts.h"

enum { kAlignment = 64, kMaxQueues = 4 };
static const char kDefaultDesign[] = "cnn-16x512";

typedef struct overlay_options {
  char design[192];
  uint32_t cores, part, parts; /* 0: all; of `parts` equal shares of the cores */
  uint64_t memory_bytes;       /* 0: all of the card's */
} overlay_options;

typedef struct overlay_device {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  char name[32];
  int cores, shares; /* of the share's cores, all or some; equal shares of the card */
  uint64_t memory_bytes;
  braid_overlay_parts parts; /* of the graph that regions were claimed of last */
  double claimed_seconds;    /* of the region that is being claimed */
  const char *hint;          /* why nothing of it can be run; "": something can */
  pthread_mutex_t lock;      /* of the card: it runs one task at a time; of what follows */
  uint64_t used_bytes;
  int64_t free_ns;    /* when its last task ends, modelled, by the host's clock */
  double microjoules; /* NAN: unknown */
} overlay_device;

typedef struct overlay_buffer {
  uint8_t *data;
  size_t bytes;
} overlay_buffer;

extern const braid_backend braid_backend_overlay;

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static braid_status parse_bytes(const braid_launch_option *option, const char *value, void *field) {
  int64_t bytes;
  if (!braid_parse_i64(value, &bytes) || bytes < option->least)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected bytes, at least %lld", option->key, value,
                      (long long)option->least);
  *(uint64_t *)field = (uint64_t)bytes;
  return BRAID_OK;
}

static const braid_launch_option kOptions[] = {
    {"design", braid_launch_parse_path, offsetof(overlay_options, design), 0, sizeof((overlay_options *)NULL)->design},
    {"cores", braid_launch_parse_number, offsetof(overlay_options, cores), 1, BRAID_OVERLAY_MOST_CORES},
    {"memory", parse_bytes, offsetof(overlay_options, memory_bytes), 4096, INT64_MAX},
    {"part", braid_launch_parse_number, offsetof(overlay_options, part), 0, BRAID_OVERLAY_MOST_CORES - 1},
    {"parts", braid_launch_parse_number, offsetof(overlay_options, parts), 1, BRAID_OVERLAY_MOST_CORES},
};

static void describe_card(const braid_overlay_design *design, int cores, uint64_t memory_bytes,
                          braid_device_info *info) {
  *info = (braid_device_info){.name = "overlay",
                              .kind = "fpga",
                              .memory = BRAID_MEMORY_UNIFIED,
                              .max_queues = kMaxQueues,
                              .compute_units = (uint32_t)cores,
                              .memory_bytes = memory_bytes,
                              .alignment = kAlignment,
                              .host_alignment = 1,
                              .measures_time = true,
                              .modelled = true};
  snprintf(info->description, sizeof info->description, "simulated: %d of %d cores of %.60s, %g MHz", cores,
           design->cores, design->name, design->clock_mhz);
}

static uint64_t card_bytes(const braid_overlay_design *design) {
  return (uint64_t)design->banks * (uint64_t)design->bank_bytes;
}

static braid_status overlay_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (!capacity) return BRAID_OK;
  const braid_overlay_design *design;
  BRAID_TRY(braid_overlay_design_load(NULL, kDefaultDesign, &design));
  describe_card(design, design->cores, card_bytes(design), &infos[0]);
  braid_overlay_design_destroy(design);
  return BRAID_OK;
}

static braid_status choose_cores(const overlay_options *options, const braid_overlay_design *design, int *cores) {
  *cores = design->cores;
  if (options->part != UINT32_MAX && !options->parts)
    return braid_fail(BRAID_INVALID_ARGUMENT, "part=%u of how many? expected parts=N too", options->part);
  if (options->parts) {
    if (options->part >= options->parts)
      return braid_fail(BRAID_INVALID_ARGUMENT, "parts=%u: expected a part from 0 to %u, as in overlay.0:parts=%u",
                        options->parts, options->parts - 1, options->parts);
    *cores /= (int)options->parts;
    if (!*cores)
      return braid_fail(BRAID_INVALID_ARGUMENT, "parts=%u: %s has %d cores", options->parts, design->name,
                        design->cores);
  }
  if ((int)options->cores > *cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "cores=%u: %s%s has 1 to %d", options->cores,
                      options->parts ? "a part of " : "", design->name, *cores);
  if (options->cores) *cores = (int)options->cores;
  return BRAID_OK;
}

static braid_status set_up(overlay_device *device, const overlay_options *options) {
  BRAID_TRY(braid_overlay_design_load(device->allocator, options->design, &device->design));
  const braid_overlay_design *design = device->design;
  if (design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED,
                      "design=%s: its cores are for recurrent networks, the device runs those for "
                      "convolutional ones (braid compile --designs lists them)",
                      options->design);
  BRAID_TRY(choose_cores(options, design, &device->cores));
  device->shares = options->parts ? (int)options->parts : 1;
  uint64_t most = card_bytes(design) / (options->parts ? options->parts : 1);
  if (options->memory_bytes > most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "memory=%llu: a card of %s has %llu bytes of DDR%s",
                      (unsigned long long)options->memory_bytes, design->name, (unsigned long long)most,
                      options->parts ? " for a part" : "");
  device->memory_bytes = options->memory_bytes ? options->memory_bytes : most;
  if (options->parts)
    snprintf(device->name, sizeof device->name, "overlay.%u", options->part);
  else
    snprintf(device->name, sizeof device->name, "overlay");
  return BRAID_OK;
}

static void overlay_close(void *self) {
  overlay_device *device = self;
  braid_overlay_parts_free(&device->parts);
  braid_overlay_design_destroy(device->design);
  pthread_mutex_destroy(&device->lock);
  braid_free(device->allocator, device);
}

static braid_status overlay_open(const braid_allocator *allocator, size_t index, const char *text, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one overlay; its designs are an option");
  overlay_options options = {.part = UINT32_MAX};
  snprintf(options.design, sizeof options.design, "%s", kDefaultDesign);
  const braid_launch_option_table table = {kOptions, sizeof kOptions / sizeof *kOptions, &options};
  BRAID_TRY(braid_launch_parse_options(text, &table, 1));
  overlay_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  *device = (overlay_device){.allocator = allocator, .hint = ""};
  pthread_mutex_init(&device->lock, NULL);
  braid_status status = set_up(device, &options);
  if (status == BRAID_OK)
    *out = device;
  else
    overlay_close(device);
  return status;
}

static void overlay_info(void *self, braid_device_info *info) {
  const overlay_device *device = self;
  describe_card(device->design, device->cores, device->memory_bytes, info);
  memcpy(info->name, device->name, sizeof info->name);
}

static const braid_kernel *const *overlay_kernels(void *self, size_t *count) {
  (void)self;
  *count = 0;
  return NULL;
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status overlay_buffer_create(void *self, size_t bytes, void **out) {
  const overlay_device *device = self;
  const braid_allocator *allocator = device->allocator ? device->allocator : braid_allocator_default();
  overlay_buffer *buffer = braid_zalloc(allocator, sizeof *buffer);
  *out = NULL;
  if (!buffer) return BRAID_NO_MEMORY;
  buffer->bytes = bytes;
  buffer->data = allocator->allocate(allocator->context, bytes ? bytes : 1, kAlignment);
  if (buffer->data) {
    *out = buffer;
    return BRAID_OK;
  }
  braid_free(allocator, buffer);
  return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", bytes);
}

static void overlay_buffer_destroy(void *self, void *buffer) {
  const overlay_device *device = self;
  braid_free(device->allocator, ((overlay_buffer *)buffer)->data);
  braid_free(device->allocator, buffer);
}

static void *overlay_buffer_map(void *self, void *buffer) {
  (void)self;
  return ((overlay_buffer *)buffer)->data;
}

static braid_status overlay_read_memory(void *self, uint64_t *out_free, uint64_t *out_total) {
  overlay_device *device = self;
  pthread_mutex_lock(&device->lock);
  *out_free = device->memory_bytes - device->used_bytes;
  pthread_mutex_unlock(&device->lock);
  *out_total = device->memory_bytes;
  return BRAID_OK;
}

/* NULL: it is not given, or does not lie in its buffer. */
static uint8_t *locate(const braid_binding *binding) {
  const overlay_buffer *buffer = binding->buffer;
  size_t end;
  if (binding->host) return binding->host;
  if (!buffer || !braid_add_size(binding->offset, binding->bytes, &end) || end > buffer->bytes) return NULL;
  return buffer->data + binding->offset;
}

/* --- regions -------------------------------------------------------------------------------------------------------
 */
static const braid_kernel kRegion = {.op = BRAID_REGION_OP, .name = "overlay"};

static bool is_op(const braid_subgraph *graph, size_t node, const char *op) {
  return strcmp(graph->nodes[node].desc->op, op) == 0;
}

/* A graph of real numbers alone is not quantized yet; one whose scales are others was quantized in another way. */
static const char *find_hint(const braid_subgraph *graph) {
  bool quantized = false, recurrent = false;
  for (size_t n = 0; n < graph->node_count; n++) {
    quantized |= is_op(graph, n, "QuantizeLinear");
    recurrent |= is_op(graph, n, "LSTM");
  }
  if (recurrent && !quantized)
    return "as a device the overlay runs convolutional networks in int8; LSTM layers are compiled and simulated (braid "
           "compile MODEL --design rnn-16x64 --out FILE.bpk, braid simulate)";
  return quantized ? ""
                   : "the overlay computes int8, and nothing here is quantized (braid quantize MODEL --data SPEC "
                     "--scales power-of-two --out FILE makes such a model)";
}

typedef struct claiming {
  overlay_device *device;
  const braid_subgraph *shown;
  braid_graph *view;
  bool *wanted;    /* per node */
  uint32_t *nodes; /* of a region */
  braid_region_claim claim;
  void *context;
} claiming;

static braid_status claim_part(const claiming *c, const braid_overlay_parts *parts, int32_t part) {
  size_t count = 0;
  for (size_t n = 0; n < parts->node_count; n++)
    if (parts->part[n] == part) c->nodes[count++] = (uint32_t)n;
  c->device->claimed_seconds = parts->seconds[part];
  return count ? c->claim(c->context, &kRegion, c->nodes, count) : BRAID_OK;
}

/* Where the caller has placed some nodes of a part here and some nowhere, what is placed here is claimed by itself,
 * too, if all of it can stand so: the rest may go to another device. */
static braid_status claim_placed(const claiming *c, int32_t part) {
  const braid_overlay_parts *whole = &c->device->parts;
  braid_overlay_parts placed;
  size_t some = 0, all = 0, left = 0;
  for (size_t n = 0; n < whole->node_count; n++) {
    all += whole->part[n] == part;
    some += c->wanted[n] = whole->part[n] == part && c->shown->nodes[n].desc->placed > 0;
  }
  if (!some || some == all) return BRAID_OK;
  BRAID_TRY(braid_overlay_parts_find(c->view, c->wanted, false, c->device->design, c->device->cores, &placed));
  for (size_t n = 0; n < placed.node_count; n++) left += placed.part[n] >= 0;
  braid_status status = BRAID_OK;
  for (int32_t p = 0; status == BRAID_OK && left == some && p < placed.part_count; p++)
    status = claim_part(c, &placed, p);
  braid_overlay_parts_free(&placed);
  return status;
}

static braid_status claim_parts(claiming *c) {
  overlay_device *device = c->device;
  BRAID_TRY(braid_overlay_view_create(device->allocator, c->shown, NULL, &c->view));
  c->wanted = braid_zalloc_array(device->allocator, c->shown->node_count + 1, sizeof *c->wanted);
  c->nodes = braid_zalloc_array(device->allocator, c->shown->node_count + 1, sizeof *c->nodes);
  if (!c->wanted || !c->nodes) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < c->shown->node_count; n++) c->wanted[n] = c->shown->nodes[n].desc->placed >= 0;
  BRAID_TRY(braid_overlay_parts_find(c->view, c->wanted, true, device->design, device->cores, &device->parts));
  for (int32_t p = 0; p < device->parts.part_count; p++) {
    BRAID_TRY(claim_part(c, &device->parts, p));
    BRAID_TRY(claim_placed(c, p));
  }
  return BRAID_OK;
}

static braid_status overlay_claim_regions(void *self, const braid_subgraph *graph, braid_region_claim claim,
                                          void *context) {
  overlay_device *device = self;
  claiming c = {.device = device, .shown = graph, .claim = claim, .context = context};
  braid_overlay_parts_free(&device->parts);
  device->hint = "";
  if (graph->node_count && graph->nodes[0].desc->training) return BRAID_OK;
  device->hint = find_hint(graph);
  braid_status status = claim_parts(&c);
  braid_overlay_view_destroy(c.view);
  braid_free(device->allocator, c.wanted);
  braid_free(device->allocator, c.nodes);
  return status;
}

static void overlay_explain_regions(void *self, braid_region_refusal tell, void *context) {
  const overlay_device *device = self;
  const braid_overlay_parts *parts = &device->parts;
  for (size_t i = 0; i < parts->refusal_count; i++)
    tell(context, (uint32_t)parts->refusals[i].node, device->hint[0] ? device->hint : parts->refusals[i].why);
}

static double overlay_region_seconds(void *self) {
  return ((const overlay_device *)self)->claimed_seconds;
}

static braid_status overlay_query_region(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                         size_t *workspace_bytes, braid_packing *packings, size_t *packing_count) {
  (void)self, (void)kernel, (void)node, (void)packings;
  *workspace_bytes = *packing_count = 0;
  return BRAID_OK;
}

static braid_status take_memory(overlay_device *device, uint64_t bytes) {
  pthread_mutex_lock(&device->lock);
  uint64_t left = device->memory_bytes - device->used_bytes;
  if (bytes <= left) device->used_bytes += bytes;
  pthread_mutex_unlock(&device->lock);
  if (bytes <= left) return BRAID_OK;
  return braid_fail(BRAID_NO_MEMORY,
                    "weights and maps of the region take %llu bytes of the card's memory, of which %llu of %llu are "
                    "free",
                    (unsigned long long)bytes, (unsigned long long)left, (unsigned long long)device->memory_bytes);
}

static braid_status overlay_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                    void **prepared, braid_prepared_info *info) {
  overlay_device *device = self;
  braid_overlay_region *region;
  (void)kernel;
  *prepared = NULL;
  *info = (braid_prepared_info){0};
  const braid_overlay_share share = {device->design, device->cores, device->shares};
  BRAID_TRY(braid_overlay_region_create(device->allocator, &share, node, &region));
  braid_status status = take_memory(device, braid_overlay_region_bytes(region));
  if (status == BRAID_OK)
    *prepared = region;
  else
    braid_overlay_region_destroy(region);
  return status;
}

static void overlay_discard(void *self, void *prepared) {
  overlay_device *device = self;
  pthread_mutex_lock(&device->lock);
  device->used_bytes -= braid_overlay_region_bytes(prepared);
  pthread_mutex_unlock(&device->lock);
  braid_overlay_region_destroy(prepared);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
/* Modelled time begins when the task does and the card is free, and never overlaps that of another task. */
static void charge(overlay_device *device, const braid_task *task, int64_t begin_ns) {
  braid_overlay_cost cost = braid_overlay_region_cost(task->prepared);
  int64_t start = begin_ns > device->free_ns ? begin_ns : device->free_ns;
  device->free_ns = start + llround(cost.seconds * 1e9);
  device->microjoules += cost.microjoules;
  if (!task->timing) return;
  task->timing->start_ns = start;
  task->timing->end_ns = device->free_ns > start ? device->free_ns : start + 1;
  task->timing->energy_uj = isnan(cost.microjoules) ? -1 : cost.microjoules;
}

static braid_status run_region(overlay_device *device, const braid_task *task) {
  enum { kFew = 16 };
  size_t count = task->input_count + task->output_count;
  void *few[kFew], **operands = count <= kFew ? few : braid_zalloc_array(device->allocator, count, sizeof *operands);
  if (!operands) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < count && status == BRAID_OK; i++) {
    const braid_binding *binding = &task->bindings[i];
    operands[i] = locate(binding);
    if (binding->buffer && !operands[i])
      status = braid_fail(BRAID_OUT_OF_RANGE, "operand %zu of %zu bytes at offset %zu does not lie in its buffer", i,
                          binding->bytes, binding->offset);
  }
  if (status == BRAID_OK) {
    int64_t begin_ns = braid_now_ns();
    pthread_mutex_lock(&device->lock);
    status = braid_overlay_region_run(task->prepared, operands, task->verdict);
    if (status == BRAID_OK) charge(device, task, begin_ns);
    pthread_mutex_unlock(&device->lock);
  }
  if (operands != few) braid_free(device->allocator, operands);
  return status;
}

static braid_status transfer(void *to, const void *from, size_t bytes) {
  if (!to || !from) return braid_fail(BRAID_OUT_OF_RANGE, "a transfer of %zu bytes does not fit", bytes);
  memmove(to, from, bytes);
  return BRAID_OK;
}

static braid_status overlay_run(void *context, const braid_task *task) {
  const braid_binding *source = &task->source, *target = &task->target;
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_region(context, task);
  case BRAID_TASK_WRITE:
    return transfer(locate(target), task->host, target->bytes);
  case BRAID_TASK_READ:
    return transfer(task->host, locate(source), source->bytes);
  case BRAID_TASK_COPY:
    return target->bytes < source->bytes
               ? braid_fail(BRAID_OUT_OF_RANGE, "%zu bytes do not fit into %zu", source->bytes, target->bytes)
               : transfer(locate(target), locate(source), source->bytes);
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

static const braid_host_queue_ops kQueueOps = {.run = overlay_run};

static braid_status overlay_queue_create(void *self, braid_timeline *timeline, void **queue) {
  overlay_device *device = self;
  return braid_host_queue_create(device->allocator, "braid overlay", &kQueueOps, device, timeline,
                                 (braid_host_queue **)queue);
}

static void overlay_queue_destroy(void *self, void *queue) {
  (void)self;
  braid_host_queue_destroy(queue);
}

static braid_status overlay_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static braid_status overlay_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(queue, tasks, count, recording);
}

static void overlay_erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status overlay_replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

static bool overlay_peer(void *self, void *other) {
  (void)self, (void)other;
  return true;
}

/* What its tasks took; between them virtual time stands still. */
static braid_status overlay_read_energy(void *self, double *out_uj) {
  overlay_device *device = self;
  const braid_overlay_design *design = device->design;
  pthread_mutex_lock(&device->lock);
  *out_uj = device->microjoules;
  pthread_mutex_unlock(&device->lock);
  if (!isnan(design->idle_watts + design->picojoules_per_operation + design->picojoules_per_ddr_byte)) return BRAID_OK;
  *out_uj = 0;
  return braid_fail(BRAID_UNSUPPORTED, "design %s has no figures of its power", design->name);
}

const braid_backend braid_backend_overlay = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "overlay",
    .enumerate = overlay_enumerate,
    .open = overlay_open,
    .close = overlay_close,
    .info = overlay_info,
    .kernels = overlay_kernels,
    .prepare = overlay_prepare,
    .discard = overlay_discard,
    .buffer_create = overlay_buffer_create,
    .buffer_destroy = overlay_buffer_destroy,
    .queue_create = overlay_queue_create,
    .queue_destroy = overlay_queue_destroy,
    .submit = overlay_submit,
    .buffer_map = overlay_buffer_map,
    .peer = overlay_peer,
    .read_memory = overlay_read_memory,
    .read_energy = overlay_read_energy,
    .record = overlay_record,
    .erase = overlay_erase,
    .replay = overlay_replay,
    .claim_regions = overlay_claim_regions,
    .query_region = overlay_query_region,
    .explain_regions = overlay_explain_regions,
    .region_seconds = overlay_region_seconds,
    .marks_begun = true,
    .shares_prepared = true,
};
