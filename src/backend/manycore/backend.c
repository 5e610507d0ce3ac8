/* A core group of a many-core processor, as Sunway's: a management core and 64 compute cores with a scratchpad each, on
 * the host's memory. Convolutions, products, sums, pools, Relu, Softmax and normalizations are computed by the compute
 * cores, in programs that get, compute and put tiles (kernel.h); everything else by the management core, with the CPU's
 * kernels in one thread. Cores are threads of this machine; times and energies are those of a model of the SW26010
 * (sw26010.h): modelled, none of them is of the machine that this runs on.
 *
 * Options: cores=N, scratchpad=BYTES, threads=N. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "backend/manycore/cost.h"
#include "backend/manycore/options.h"
#include "backend/manycore/sw26010.h"
#include "backend/manycore/team.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/try.h"
#include "braid/host_queue.h"

enum { kAlignment = 64, kMaxQueues = 4 };
typedef struct manycore_device {
  const braid_allocator *allocator;
  braid_manycore_group group;
  int threads;
  braid_manycore_team *team;
  const braid_kernel **kernels; /* those of the compute cores, then the CPU's */
  size_t kernel_count, core_kernel_count;
  pthread_mutex_t lock; /* of what follows, and of the cores: they run one task at a time */
  int64_t free_ns;      /* when the last task ends, modelled, by the host's clock */
  double microjoules;
} manycore_device;

typedef struct manycore_buffer {
  uint8_t *data;
  size_t bytes;
} manycore_buffer;

/* A kernel made ready: a program and its plan, or a kernel of the CPU's. */
typedef struct manycore_prepared {
  const braid_node_desc *node;
  const braid_kernel *kernel;
  braid_manycore_plan plan;
  double seconds;
  braid_cpu_prepared *management; /* NULL: compute cores run it */
} manycore_prepared;

extern const braid_backend braid_backend_manycore;

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
/* Ops whose parts the compute cores run are not fused: the management core would run the whole. */
static bool is_fused(const braid_kernel *kernel) {
  return strcmp(kernel->op, "FusedConv") == 0 || strcmp(kernel->op, "FusedGemm") == 0 ||
         strcmp(kernel->op, "FusedMatMul") == 0;
}

static braid_status list_kernels(manycore_device *device) {
  const braid_kernel **references;
  size_t reference_count, count = 0;
  braid_status status = braid_cpu_list_kernels(device->allocator, true, &references, &reference_count);
  while (braid_manycore_kernel_at(count)) count++;
  if (status == BRAID_OK) {
    device->kernels = braid_zalloc_array(device->allocator, count + reference_count, sizeof *device->kernels);
    if (!device->kernels) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) {
    while (device->kernel_count < count) {
      device->kernels[device->kernel_count] = braid_manycore_kernel_at(device->kernel_count);
      device->kernel_count++;
    }
    device->core_kernel_count = device->kernel_count;
    for (size_t k = 0; k < reference_count; k++)
      if (!is_fused(references[k])) device->kernels[device->kernel_count++] = references[k];
  }
  braid_free(device->allocator, references);
  return status;
}

static bool runs_on_cores(const manycore_device *device, const braid_kernel *kernel) {
  for (size_t k = 0; k < device->core_kernel_count; k++)
    if (device->kernels[k] == kernel) return true;
  return false;
}

static const braid_kernel *const *manycore_kernels(void *self, size_t *count) {
  const manycore_device *device = self;
  *count = device->kernel_count;
  return device->kernels;
}

static bool manycore_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why,
                           size_t why_bytes) {
  const manycore_device *device = self;
  braid_manycore_plan plan;
  if (!runs_on_cores(device, kernel)) return true;
  return ((const braid_manycore_kernel *)kernel->implementation)->plan(node, &device->group, &plan, why, why_bytes);
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static void describe_group(const braid_manycore_group *group, braid_device_info *info) {
  *info = (braid_device_info){.name = "manycore",
                              .kind = "manycore",
                              .memory = BRAID_MEMORY_UNIFIED,
                              .max_queues = kMaxQueues,
                              .compute_units = (uint32_t)group->cores,
                              .alignment = kAlignment,
                              .host_alignment = 1,
                              .measures_time = true,
                              .modelled = true};
  snprintf(info->description, sizeof info->description,
           "simulated: a management core and %d x %d compute cores, scratchpads of %zu bytes", group->rows,
           group->columns, group->scratchpad);
}

static braid_status manycore_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (!capacity) return BRAID_OK;
  braid_manycore_group group;
  int threads;
  BRAID_TRY(braid_manycore_parse_options(NULL, &group, &threads));
  describe_group(&group, &infos[0]);
  return BRAID_OK;
}

static void manycore_close(void *self) {
  manycore_device *device = self;
  braid_manycore_team_destroy(device->team);
  pthread_mutex_destroy(&device->lock);
  braid_free(device->allocator, device->kernels);
  braid_free(device->allocator, device);
}

static braid_status manycore_open(const braid_allocator *allocator, size_t index, const char *text, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one manycore device; its cores are an option");
  braid_manycore_group group;
  int threads;
  BRAID_TRY(braid_manycore_parse_options(text, &group, &threads));
  manycore_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  device->allocator = allocator;
  device->group = group;
  device->threads = threads ? threads : braid_cpu_count();
  pthread_mutex_init(&device->lock, NULL);
  braid_status status = list_kernels(device);
  if (status == BRAID_OK)
    status = braid_manycore_team_create(allocator, &device->group, device->threads, &device->team);
  if (status == BRAID_OK)
    *out = device;
  else
    manycore_close(device);
  return status;
}

static void manycore_info(void *self, braid_device_info *info) {
  describe_group(&((const manycore_device *)self)->group, info);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status manycore_buffer_create(void *self, size_t bytes, void **out) {
  const manycore_device *device = self;
  const braid_allocator *allocator = device->allocator ? device->allocator : braid_allocator_default();
  *out = NULL;
  manycore_buffer *buffer = braid_zalloc(allocator, sizeof *buffer);
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

static void manycore_buffer_destroy(void *self, void *buffer) {
  const manycore_device *device = self;
  braid_free(device->allocator, ((manycore_buffer *)buffer)->data);
  braid_free(device->allocator, buffer);
}

static void *manycore_buffer_map(void *self, void *buffer) {
  (void)self;
  return ((manycore_buffer *)buffer)->data;
}

/* NULL: it is not given, or does not lie in its buffer. */
static uint8_t *locate(const braid_binding *binding) {
  const manycore_buffer *buffer = binding->buffer;
  size_t end;
  if (buffer && (!braid_add_size(binding->offset, binding->bytes, &end) || end > buffer->bytes)) return NULL;
  if (binding->host) return binding->host;
  return buffer ? buffer->data + binding->offset : NULL;
}

/* --- preparing -----------------------------------------------------------------------------------------------------
 */
static void manycore_discard(void *self, void *which) {
  const manycore_device *device = self;
  manycore_prepared *prepared = which;
  braid_cpu_discard(prepared->management);
  braid_free(device->allocator, prepared);
}

static braid_status prepare_program(const manycore_device *device, manycore_prepared *prepared) {
  char why[256] = "";
  braid_manycore_cost cost;
  const braid_manycore_kernel *program = prepared->kernel->implementation;
  if (!program->plan(prepared->node, &device->group, &prepared->plan, why, sizeof why))
    return braid_fail(BRAID_UNSUPPORTED, "%s: %s", prepared->kernel->name, why);
  BRAID_TRY(braid_manycore_cost_count(device->allocator, &device->group, prepared->kernel, &prepared->plan, &cost));
  prepared->seconds = cost.seconds;
  return BRAID_OK;
}

/* The management core is one thread. */
static braid_status prepare_management(const manycore_device *device, manycore_prepared *prepared,
                                       braid_prepared_info *info) {
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  braid_status status =
      braid_cpu_prepare(device->allocator, prepared->kernel, prepared->node, &prepared->management, info);
  omp_set_num_threads(before);
  prepared->seconds = braid_manycore_management_seconds(prepared->node, true);
  return status;
}

static braid_status manycore_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                                     braid_prepared_info *info) {
  const manycore_device *device = self;
  *out = NULL;
  *info = (braid_prepared_info){0};
  manycore_prepared *prepared = braid_zalloc(device->allocator, sizeof *prepared);
  if (!prepared) return BRAID_NO_MEMORY;
  prepared->node = node;
  prepared->kernel = kernel;
  braid_status status =
      runs_on_cores(device, kernel) ? prepare_program(device, prepared) : prepare_management(device, prepared, info);
  if (status == BRAID_OK)
    *out = prepared;
  else
    manycore_discard(self, prepared);
  return status;
}

static braid_status manycore_query(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                   braid_query *out) {
  const manycore_device *device = self;
  *out = (braid_query){0};
  if (runs_on_cores(device, kernel)) return BRAID_OK;
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  braid_status status = braid_cpu_query(device->allocator, kernel, node, out);
  omp_set_num_threads(before);
  return status;
}

static braid_status manycore_pack(void *self, void *which, uint32_t input, const void *plain, void *packed) {
  (void)self;
  const manycore_prepared *prepared = which;
  const braid_cpu_prepared *own = prepared->management;
  if (own && own->kernel->pack) return own->kernel->pack(own->node, own->state, input, plain, packed);
  return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s (%s) packs nothing", prepared->node->name, prepared->node->op);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
/* Modelled time begins when the task does and the cores are free, and never overlaps that of another task. */
static void charge_task(manycore_device *device, const braid_task *task, double seconds, int64_t begin_ns) {
  int64_t start = begin_ns > device->free_ns ? begin_ns : device->free_ns;
  device->free_ns = start + llround(seconds * 1e9);
  device->microjoules += braid_manycore_microjoules(seconds);
  if (!task->timing) return;
  task->timing->start_ns = start;
  task->timing->end_ns = device->free_ns > start ? device->free_ns : start + 1;
  task->timing->energy_uj = braid_manycore_microjoules(seconds);
}

static braid_status run_program(const manycore_device *device, const manycore_prepared *prepared,
                                const braid_task *task) {
  enum { kFew = 16 };
  braid_manycore_operand operands[kFew];
  size_t count = task->input_count + task->output_count;
  if (count > kFew) return braid_fail(BRAID_UNSUPPORTED, "%zu operands", count);
  for (size_t i = 0; i < count; i++) {
    uint8_t *data = locate(&task->bindings[i]);
    operands[i] = (braid_manycore_operand){data, data ? task->bindings[i].bytes : 0};
  }
  return braid_manycore_team_run(device->team, prepared->kernel, &prepared->plan, operands);
}

static braid_status run_management(const manycore_prepared *prepared, const braid_task *task) {
  braid_cpu_prepared *own = prepared->management;
  const braid_binding *bindings = task->bindings;
  for (size_t i = 0; i < task->input_count; i++) own->inputs[i] = locate(&bindings[i]);
  bindings += task->input_count;
  for (size_t i = 0; i < task->output_count; i++) own->outputs[i] = locate(&bindings[i]);
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  braid_status status = braid_cpu_run(own, locate(&bindings[task->output_count]));
  omp_set_num_threads(before);
  return status;
}

static braid_status run_kernel(manycore_device *device, const braid_task *task) {
  const manycore_prepared *prepared = task->prepared;
  for (size_t i = 0; i <= task->input_count + task->output_count; i++)
    if (task->bindings[i].buffer && !locate(&task->bindings[i]))
      return braid_fail(BRAID_OUT_OF_RANGE, "operand %zu of %zu bytes at offset %zu does not lie in its buffer", i,
                        task->bindings[i].bytes, task->bindings[i].offset);
  int64_t begin_ns = braid_now_ns();
  pthread_mutex_lock(&device->lock);
  braid_status status = prepared->management ? run_management(prepared, task) : run_program(device, prepared, task);
  if (status == BRAID_OK) charge_task(device, task, prepared->seconds, begin_ns);
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* The management core copies, which reads all bytes and writes them. */
static braid_status transfer(manycore_device *device, const braid_task *task, void *to, const void *from,
                             size_t bytes) {
  if (!to || !from) return braid_fail(BRAID_OUT_OF_RANGE, "a transfer of %zu bytes does not fit", bytes);
  int64_t begin_ns = braid_now_ns();
  memmove(to, from, bytes);
  pthread_mutex_lock(&device->lock);
  charge_task(device, task, braid_sw26010_management_seconds(0, 2.0 * (double)bytes, true), begin_ns);
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

static braid_status manycore_run(void *context, const braid_task *task) {
  const braid_binding *source = &task->source, *target = &task->target;
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_kernel(context, task);
  case BRAID_TASK_WRITE:
    return transfer(context, task, locate(target), task->host, target->bytes);
  case BRAID_TASK_READ:
    return transfer(context, task, task->host, locate(source), source->bytes);
  case BRAID_TASK_COPY:
    return target->bytes < source->bytes
               ? braid_fail(BRAID_OUT_OF_RANGE, "%zu bytes do not fit into %zu", source->bytes, target->bytes)
               : transfer(context, task, locate(target), locate(source), source->bytes);
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

static const braid_host_queue_ops kQueueOps = {.run = manycore_run};

static braid_status manycore_queue_create(void *self, braid_timeline *timeline, void **queue) {
  manycore_device *device = self;
  return braid_host_queue_create(device->allocator, "braid manycore", &kQueueOps, device, timeline,
                                 (braid_host_queue **)queue);
}

static void manycore_queue_destroy(void *self, void *queue) {
  (void)self;
  braid_host_queue_destroy(queue);
}

static braid_status manycore_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static braid_status manycore_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(queue, tasks, count, recording);
}

static void manycore_erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status manycore_replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

static bool manycore_peer(void *self, void *other) {
  (void)self, (void)other;
  return true;
}

/* What its tasks took; between them virtual time stands still. */
static braid_status manycore_read_energy(void *self, double *out_uj) {
  manycore_device *device = self;
  pthread_mutex_lock(&device->lock);
  *out_uj = device->microjoules;
  pthread_mutex_unlock(&device->lock);
  return BRAID_OK;
}

const braid_backend braid_backend_manycore = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "manycore",
    .enumerate = manycore_enumerate,
    .open = manycore_open,
    .close = manycore_close,
    .info = manycore_info,
    .kernels = manycore_kernels,
    .prepare = manycore_prepare,
    .discard = manycore_discard,
    .buffer_create = manycore_buffer_create,
    .buffer_destroy = manycore_buffer_destroy,
    .queue_create = manycore_queue_create,
    .queue_destroy = manycore_queue_destroy,
    .submit = manycore_submit,
    .buffer_map = manycore_buffer_map,
    .match = manycore_match,
    .peer = manycore_peer,
    .read_energy = manycore_read_energy,
    .query = manycore_query,
    .pack = manycore_pack,
    .record = manycore_record,
    .erase = manycore_erase,
    .replay = manycore_replay,
    .marks_begun = true,
    .shares_prepared = true,
};
