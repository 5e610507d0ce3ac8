/* The CPU as a device: unified memory, one thread per queue that runs tasks in order, OpenMP inside kernels.
 *
 * Options: threads=N, the threads of each kernel; memory=separate, which hides the memory from the runtime, so that
 * transfers and waits across devices can be tried without a card. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/energy.h"
#include "backend/cpu/prepared.h"
#include "backend/cpu/tables.h"
#include "backend/cpu/team.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/thread.h"
#include "braid/host_queue.h"

enum { kAlignment = 64, kHostAlignment = 1, kMaxQueues = 16, kMaxThreads = 1024 };
static const size_t kHugePage = (size_t)2 << 20;

typedef struct cpu_device {
  const braid_allocator *allocator;
  int threads;
  braid_memory_kind memory;
  const braid_kernel **kernels;
  size_t kernel_count;
  braid_cpu_energy *energy;  /* NULL: unknown */
  struct braid_group *group; /* NULL: none */
} cpu_device;

typedef struct cpu_buffer {
  uint8_t *data;
  size_t bytes;
} cpu_buffer;

extern const braid_backend braid_backend_cpu;

/* --- opening -------------------------------------------------------------------------------------------------------
 */
/* "model name : ..." of /proc/cpuinfo; left as it is where there is no such line (not every architecture has one). */
static void read_model_name(char *out, size_t bytes) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "model name", 10) != 0) continue;
    const char *value = strchr(line, ':');
    if (!value) break;
    value += 1 + strspn(value + 1, " \t");
    snprintf(out, bytes, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  fclose(file);
}

/* 0: unknown. */
static uint64_t physical_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

/* What the process may use, or less if OMP_NUM_THREADS says so. */
static int default_threads(void) {
  int cpus = braid_cpu_count(), openmp = omp_get_max_threads();
  return openmp < cpus ? openmp : cpus;
}

static void device_describe(braid_device_info *info, int threads, braid_memory_kind memory) {
  *info = (braid_device_info){.name = "cpu",
                              .kind = "cpu",
                              .description = "CPU",
                              .memory = memory,
                              .max_queues = kMaxQueues,
                              .compute_units = (uint32_t)threads,
                              .memory_bytes = physical_bytes(),
                              .alignment = kAlignment,
                              .host_alignment = kHostAlignment,
                              .measures_time = true};
  read_model_name(info->description, sizeof info->description);
}

static braid_status cpu_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) device_describe(&infos[0], default_threads(), BRAID_MEMORY_UNIFIED);
  return BRAID_OK;
}

static braid_status parse_option(cpu_device *device, const char *option) {
  int64_t threads;
  if (strncmp(option, "threads=", 8) == 0) {
    if (!braid_parse_i64(option + 8, &threads) || threads < 1 || threads > kMaxThreads)
      return braid_fail(BRAID_INVALID_ARGUMENT, "option %.60s: expected 1 to %d threads", option, kMaxThreads);
    device->threads = (int)threads;
  } else if (strcmp(option, "memory=separate") == 0) {
    device->memory = BRAID_MEMORY_SEPARATE;
  } else if (strcmp(option, "memory=unified") != 0) {
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %.60s: expected threads=N or memory=unified|separate", option);
  }
  return BRAID_OK;
}

static braid_status parse_options(cpu_device *device, const char *options) {
  while (options && *options) {
    size_t length = strcspn(options, ",");
    char option[64];
    if (length >= sizeof option) return braid_fail(BRAID_INVALID_ARGUMENT, "option %.60s... is too long", options);
    memcpy(option, options, length);
    option[length] = '\0';
    braid_status status = parse_option(device, option);
    if (status != BRAID_OK) return status;
    options += length + (options[length] == ',');
  }
  return BRAID_OK;
}

static void cpu_close(void *self) {
  cpu_device *device = self;
  braid_cpu_energy_destroy(device->energy);
  braid_free(device->allocator, device->kernels);
  braid_free(device->allocator, device);
  braid_cpu_leave_libraries();
}

static braid_status cpu_open(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "there is one CPU device");
  cpu_device *device = braid_zalloc(allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  braid_cpu_enter_libraries();
  *device = (cpu_device){.allocator = allocator, .threads = default_threads(), .memory = BRAID_MEMORY_UNIFIED};
  braid_status status = parse_options(device, options);
  if (status == BRAID_OK) status = braid_cpu_list_kernels(allocator, false, &device->kernels, &device->kernel_count);
  if (status == BRAID_OK) status = braid_cpu_energy_create(allocator, BRAID_CPU_POWERCAP, &device->energy);
  if (status == BRAID_OK)
    *out = device;
  else
    cpu_close(device);
  return status;
}

static void cpu_info(void *self, braid_device_info *info) {
  const cpu_device *device = self;
  device_describe(info, device->threads, device->memory);
  braid_cpu_describe_libraries(info);
}

static void cpu_set_group(void *self, struct braid_group *group) {
  ((cpu_device *)self)->group = group;
}

static const braid_kernel *const *cpu_kernels(void *self, size_t *count) {
  const cpu_device *device = self;
  *count = device->kernel_count;
  return device->kernels;
}

static braid_status cpu_read_energy(void *self, double *out_uj) {
  return braid_cpu_energy_read(((cpu_device *)self)->energy, out_uj);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 * Large buffers are asked for in huge pages: activations are walked through whole, and page misses cost. */
static braid_status cpu_buffer_create(void *self, size_t bytes, void **out) {
  const cpu_device *device = self;
  *out = NULL;
  uint64_t most = physical_bytes(); /* the heap may promise more than there is */
  if (most && bytes > most)
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested, the machine has %llu", bytes, (unsigned long long)most);
  const braid_allocator *allocator = device->allocator ? device->allocator : braid_allocator_default();
  cpu_buffer *buffer = braid_zalloc(allocator, sizeof *buffer);
  if (!buffer) return BRAID_NO_MEMORY;
  bool large = bytes >= 2 * kHugePage;
  buffer->bytes = bytes;
  buffer->data = allocator->allocate(allocator->context, bytes ? bytes : 1, large ? kHugePage : kAlignment);
  if (!buffer->data) {
    braid_free(allocator, buffer);
    return braid_fail(BRAID_NO_MEMORY, "%zu bytes requested", bytes);
  }
  if (large) (void)madvise(buffer->data, bytes & ~(kHugePage - 1), MADV_HUGEPAGE); /* a wish; small pages work too */
  *out = buffer;
  return BRAID_OK;
}

static void cpu_buffer_destroy(void *self, void *buffer) {
  const braid_allocator *allocator = ((cpu_device *)self)->allocator;
  braid_free(allocator, ((cpu_buffer *)buffer)->data);
  braid_free(allocator, buffer);
}

static void *cpu_buffer_map(void *self, void *buffer) {
  (void)self;
  return ((cpu_buffer *)buffer)->data;
}

static bool has_room(const braid_binding *binding) {
  const cpu_buffer *buffer = binding->buffer;
  size_t end;
  return buffer && braid_add_size(binding->offset, binding->bytes, &end) && end <= buffer->bytes;
}

/* NULL: it is not given, or does not lie in its buffer. */
static uint8_t *locate(const braid_binding *binding) {
  if (binding->host) return binding->host;
  return has_room(binding) ? ((cpu_buffer *)binding->buffer)->data + binding->offset : NULL;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 * Kernels that divide their work when they are made must see the number of threads they will run with. */
static int threads_for(const cpu_device *device, const braid_node_desc *node) {
  return node->threads == 1 ? 1 : device->threads;
}

static braid_status cpu_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                                braid_prepared_info *info) {
  const cpu_device *device = self;
  int before = omp_get_max_threads();
  omp_set_num_threads(threads_for(device, node));
  braid_cpu_prepared *own;
  braid_status status = braid_cpu_prepare(device->allocator, kernel, node, &own, info);
  omp_set_num_threads(before);
  if (status == BRAID_OK) own->group = device->group;
  *prepared = own;
  return status;
}

static void cpu_discard(void *self, void *prepared) {
  (void)self;
  braid_cpu_discard(prepared);
}

static braid_status cpu_query(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_query *out) {
  const cpu_device *device = self;
  int before = omp_get_max_threads();
  omp_set_num_threads(threads_for(device, node));
  braid_status status = braid_cpu_query(device->allocator, kernel, node, out);
  omp_set_num_threads(before);
  return status;
}

static braid_status cpu_pack(void *self, void *prepared, uint32_t input, const void *plain, void *packed) {
  (void)self;
  const braid_cpu_prepared *own = prepared;
  if (own->kernel->pack) {
    braid_status status = own->kernel->pack(own->node, own->state, input, plain, packed);
    braid_cpu_team_leave(); /* large constants are packed by a team, which only queues may keep */
    return status;
  }
  return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s (%s) packs nothing", own->node->name, own->node->op);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static braid_status run_kernel(const braid_task *task) {
  braid_cpu_prepared *prepared = task->prepared;
  const braid_binding *bindings = task->bindings;
  for (size_t i = 0; i <= task->input_count + task->output_count; i++)
    if (bindings[i].buffer && !locate(&bindings[i]))
      return braid_fail(BRAID_OUT_OF_RANGE, "operand %zu of %zu bytes at offset %zu does not lie in its buffer", i,
                        bindings[i].bytes, bindings[i].offset);
  for (size_t i = 0; i < task->input_count; i++) prepared->inputs[i] = locate(&bindings[i]);
  bindings += task->input_count;
  for (size_t i = 0; i < task->output_count; i++) prepared->outputs[i] = locate(&bindings[i]);
  return braid_cpu_run(prepared, locate(&bindings[task->output_count]));
}

static braid_status transfer(void *to, const void *from, size_t bytes) {
  if (!to || !from) return braid_fail(BRAID_OUT_OF_RANGE, "a transfer of %zu bytes does not fit", bytes);
  memmove(to, from, bytes);
  return BRAID_OK;
}

/* By as many threads as are set, which for a kernel are those it was prepared for. */
static braid_status run_here(void *context, const braid_task *task) {
  const braid_binding *source = &task->source, *target = &task->target;
  (void)context;
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_kernel(task);
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

/* In the queue's thread, which leads the device's team. */
static braid_status run_queued(void *context, const braid_task *task) {
  const cpu_device *device = context;
  const braid_cpu_prepared *prepared = task->prepared;
  if (task->kind != BRAID_TASK_KERNEL || prepared->kernel->waits) return run_here(context, task);
  bool alone = device->threads > 1 && prepared->node->threads == 1;
  braid_cpu_team_begin(device->threads);
  if (alone) omp_set_num_threads(1);
  braid_status status = run_here(context, task);
  if (alone) omp_set_num_threads(device->threads);
  braid_cpu_team_end();
  return status;
}

static const braid_host_queue_ops kQueueOps = {.run = run_queued};

static braid_status cpu_queue_create(void *self, braid_timeline *timeline, void **queue) {
  const cpu_device *device = self;
  braid_cpu_team_leave(); /* the one that prepared */
  return braid_host_queue_create(device->allocator, "braid cpu", &kQueueOps, self, timeline,
                                 (braid_host_queue **)queue);
}

static void cpu_queue_destroy(void *self, void *queue) {
  (void)self;
  braid_host_queue_destroy(queue);
}

static braid_status cpu_submit(void *queue, braid_task *task) {
  return braid_host_queue_submit(queue, task);
}

static braid_status cpu_record(void *queue, braid_task *const *tasks, size_t count, void **recording) {
  return braid_host_queue_record(queue, tasks, count, recording);
}

static void cpu_erase(void *queue, void *recording) {
  braid_host_queue_erase(queue, recording);
}

static braid_status cpu_replay(void *queue, void *recording, uint64_t first) {
  return braid_host_queue_replay(queue, recording, first);
}

static void cpu_run(void *queue, void *recording, uint64_t first) {
  int before = omp_get_max_threads();
  omp_set_num_threads(1); /* the caller's own setting, put back below */
  braid_host_queue_run(queue, recording, first, run_here, NULL);
  omp_set_num_threads(before);
}

static bool cpu_peer(void *self, void *other) {
  (void)self, (void)other;
  return true;
}

const braid_backend braid_backend_cpu = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "cpu",
    .enumerate = cpu_enumerate,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .kernels = cpu_kernels,
    .prepare = cpu_prepare,
    .discard = cpu_discard,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .submit = cpu_submit,
    .buffer_map = cpu_buffer_map,
    .peer = cpu_peer,
    .read_energy = cpu_read_energy,
    .query = cpu_query,
    .pack = cpu_pack,
    .run = cpu_run,
    .record = cpu_record,
    .erase = cpu_erase,
    .replay = cpu_replay,
    .concurrent_prepare = true,
    .marks_begun = true,
    .shares_prepared = true,
    .set_group = cpu_set_group,
};
