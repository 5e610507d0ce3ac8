/* The example's device with other kernels (mutant/kernels.c, shapes.c, windows.c, bytes.c) and queues
 * (mutant/queues.c), on memory of its own or (BRAID_MUTANT_MEMORY=unified) on the host's: all of it right unless
 * BRAID_MUTANT names a fault of mutants.def. The conformance suite passes the one and must fail all the others. */
#include "mutant/mutant.h"
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

static const char *fault = "";
static bool is_unified;

bool is(const char *name) {
  return strcmp(fault, name) == 0;
}

/* --- where operands lie --- */
static void *host_of(const braid_binding *binding, bool kernel) {
  bool twice = is("host_offset") || (kernel && is("kernel_host_offset"));
  if (is("host_alone") && kernel && !binding->buffer) return NULL;
  if (is("host_aligned") && kernel && (uintptr_t)binding->host % (2 * sizeof(float))) return NULL;
  return (uint8_t *)binding->host + (twice && binding->buffer ? binding->offset : 0);
}

static void *find(const braid_binding *binding, bool kernel) {
  const buffer *in = binding->buffer;
  if (is_unified && binding->host && (!in || locate(binding))) return host_of(binding, kernel);
  if (is_unified && is("buffer_alone") && in) return in->data;
  uint8_t *found = locate(binding);
  if (found && is("offset_16")) found = in->data + (binding->offset & 0xffff);
  if (found && is("offset_4k")) found = in->data + (binding->offset & ~(size_t)4095);
  if (!found && in && (is("bounds") || (kernel && is("kernel_bounds")))) return in->data;
  return found;
}

/* Nobody frees it. */
void mutant_keep_some(void) {
  static void *kept;
  void **more = malloc(64);
  if (!more) return;
  *more = kept;
  kept = more;
}

static void *map(void *device, void *which) {
  static uint8_t copy[1 << 20];
  (void)device;
  return is("map_copy") ? copy : ((buffer *)which)->data;
}

static braid_status create(void *device, size_t bytes, void **out) {
  static uint8_t *common;
  tutor *self = device;
  braid_status status = buffer_create(device, bytes, out);
  if (status != BRAID_OK && is("full")) return braid_fail(BRAID_INTERNAL, "something went wrong");
  if (status != BRAID_OK && is("full_pointer")) *out = device;
  if (status != BRAID_OK) return status;
  buffer *made = *out;
  if (is("map_alignment")) {
    braid_free(self->allocator, made->data);
    made->data = (uint8_t *)braid_alloc(self->allocator, bytes + ALIGNMENT) + 4;
  }
  if (is("host_offset") || is("kernel_host_offset")) { /* room for what they do wrong */
    braid_free(self->allocator, made->data);
    made->data = braid_alloc(self->allocator, 2 * bytes + ALIGNMENT);
  }
  if (is("overlap") && bytes <= 16 << 20) {
    if (!common) common = braid_alloc(NULL, 32 << 20);
    made->data = common;
  }
  return BRAID_OK;
}

static void destroy(void *device, void *which) {
  tutor *self = device;
  buffer *gone = which;
  if (is("leak")) self->in_use += gone->bytes;
  if (is("leak_part")) self->in_use += gone->bytes / 16;
  if (is("buffer_leak")) mutant_keep_some();
  if (is("map_alignment")) gone->data -= 4;
  if (is("overlap") && gone->bytes <= 16 << 20) gone->data = NULL;
  buffer_destroy(device, which);
}

/* --- tasks --- */
static braid_status run_mine(const braid_task *task) {
  mine *kernel = task->prepared;
  const float *in[16] = {NULL};
  if (task->input_count > 16) return BRAID_INTERNAL;
  for (size_t i = 0; i < task->input_count; i++) {
    const braid_binding *binding = &task->bindings[i];
    if (!binding->buffer && !binding->host) continue; /* absent, or folded */
    in[i] = find(binding, true);
    if (!in[i]) return outside(binding->bytes);
  }
  float *out = find(&task->bindings[task->input_count], true);
  float *workspace = find(&task->bindings[task->input_count + 1], true);
  if (!out) return outside(task->bindings[task->input_count].bytes);
  if (mutant_needs_workspace(kernel) && !workspace) return outside(0);
  kernel->runs++;
  if ((is("third_run") && kernel->runs == 3) || (is("run_100") && kernel->runs == 100)) return BRAID_OK;
  if (is("run_256") && kernel->runs % 256 == 0) return BRAID_OK;
  braid_status status = kernel->run(kernel, in, out, workspace);
  if (is("relu_stale")) mutant_make_stale(kernel, out);
  return status;
}

/* A write that is done with the task after it. */
static struct {
  void *target;
  const void *host;
  size_t bytes;
} late;

bool mutant_is_outside(const braid_binding *binding) {
  return !locate(binding);
}

static braid_status write_to(const braid_task *task) {
  uint8_t *target = find(&task->target, false);
  size_t bytes = task->target.bytes;
  if (!target) return outside(bytes);
  if (is("bounds") && !locate(&task->target)) return BRAID_OK;
  if (is("write_odd")) bytes &= ~(size_t)3;
  if (is("write_1m") && bytes > 1 << 20) bytes = 1 << 20;
  if (is("write_late") && bytes >= 4 << 20) {
    late.target = target;
    late.host = task->host;
    late.bytes = bytes;
    return BRAID_OK;
  }
  memcpy(target, task->host, bytes);
  const buffer *in = task->target.buffer;
  if (is("write_spill") && in)
    for (size_t i = bytes; i < ((bytes + 15) & ~(size_t)15) && task->target.offset + i < in->bytes; i++) target[i] = 0;
  return BRAID_OK;
}

static braid_status read_from(const braid_task *task) {
  uint8_t *source = find(&task->source, false);
  size_t bytes = task->source.bytes;
  if (!source) return outside(bytes);
  if (is("bounds") && !locate(&task->source)) return BRAID_OK;
  if (is("read_64k") && bytes > 64 << 10) bytes = 64 << 10;
  if (is("read_offset")) source = ((buffer *)task->source.buffer)->data;
  memcpy(task->host, source, bytes);
  return BRAID_OK;
}

static braid_status copy_over(const braid_task *task) {
  if (!task->source.buffer && !task->source.host) return BRAID_OK;
  uint8_t *source = find(&task->source, false), *target = find(&task->target, false);
  size_t bytes = task->source.bytes;
  if (!source || !target || task->target.bytes < bytes) return outside(bytes);
  if (is("bounds") && (!locate(&task->source) || !locate(&task->target))) return BRAID_OK;
  if (is("copy_offset")) target = ((buffer *)task->target.buffer)->data;
  if (is("copy_within") && task->source.buffer == task->target.buffer) return BRAID_OK;
  if (is("copy_length") && task->source.buffer == task->target.buffer && bytes > 4096) bytes = 4096;
  memmove(target, source, bytes);
  return BRAID_OK;
}

braid_status mutant_run(const braid_task *task) {
  if (late.bytes) memcpy(late.target, late.host, late.bytes);
  late.bytes = 0;
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return run_mine(task);
  case BRAID_TASK_WRITE:
    return write_to(task);
  case BRAID_TASK_READ:
    return read_from(task);
  case BRAID_TASK_COPY:
    return copy_over(task);
  }
  return braid_fail(BRAID_UNSUPPORTED, "task kind %d", (int)task->kind);
}

/* --- the device --- */
static void dress(braid_device_info *info) {
  snprintf(info->name, sizeof info->name, "mutant");
  if (!is_unified) return;
  info->memory = BRAID_MEMORY_UNIFIED;
  info->host_alignment = 1;
}

static braid_status look(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = enumerate(infos, capacity, count);
  if (capacity) dress(&infos[0]);
  return status;
}

static void tell(void *device, braid_device_info *info) {
  device_info(device, info);
  dress(info);
}

static braid_status enter(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  return open_device(allocator, index, is("option") ? NULL : options, out);
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  const char *name = getenv("BRAID_MUTANT"), *memory = getenv("BRAID_MUTANT_MEMORY");
  (void)abi;
  if (name) fault = name;
  is_unified = memory && strcmp(memory, "unified") == 0;
  table = BACKEND;
  table.name = "mutant";
  table.enumerate = look;
  table.open = enter;
  table.info = tell;
  table.kernels = mutant_kernels;
  table.prepare = mutant_prepare;
  table.discard = mutant_discard;
  table.buffer_create = create;
  table.buffer_destroy = destroy;
  table.buffer_map = map;
  table.queue_create = mutant_queue_create;
  table.submit = mutant_submit;
  if (is("query_workspace")) table.query = mutant_query;
  table.record = mutant_record;
  table.erase = mutant_erase;
  table.replay = mutant_replay;
  if (is_unified) table.run = mutant_run_here;
  return &table;
}
