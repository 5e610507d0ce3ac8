/* The platform "FPGA" for TensorFlow's StreamExecutor. Every callback that TensorFlow checks is there: a missing one
 * ends the process. Nothing here fails at load: without hardware there are 0 devices. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

struct SP_Event_st {
  fpga_stream *stream; /* NULL: never recorded */
  uint64_t mark;
};

static fpga_device *device_of(const SP_Device *device) {
  return device->device_handle;
}

static void set_ok(TF_Status *status) {
  TF_SetStatus(status, TF_OK, "");
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static void allocate(const SP_Device *device, uint64_t size, int64_t memory_space, SP_DeviceMemoryBase *memory) {
  (void)memory_space;
  fpga_device *fpga = device_of(device);
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = fpga_memory_allocate(fpga->memory, size);
  if (!memory->opaque) { /* what is free is of other sizes */
    fpga_device_make_room(fpga);
    memory->opaque = fpga_memory_allocate(fpga->memory, size);
  }
  if (!memory->opaque) {
    fpga_caches_drop_idle(fpga);
    memory->opaque = fpga_memory_allocate(fpga->memory, size);
  }
  memory->size = memory->opaque ? size : 0;
  if (memory->opaque) return;
  char text[400];
  fpga_log(FPGA_WARNING, "%s", fpga_memory_describe(fpga, size, text, sizeof text));
}

static void deallocate(const SP_Device *device, SP_DeviceMemoryBase *memory) {
  fpga_memory_free(device_of(device)->memory, memory->opaque);
  memory->opaque = NULL;
  memory->size = 0;
}

/* Not of the device's memory: what was freed there may still be used by queued work, and the host uses this at once.
 * The nightly wheels end the process unless it is aligned to 256 bytes. */
static void *host_allocate(const SP_Device *device, uint64_t size) {
  enum { kAlignment = 256 };
  (void)device;
  return size >> 62 ? NULL : aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment);
}

static void host_deallocate(const SP_Device *device, void *memory) {
  (void)device;
  free(memory);
}

static TF_Bool allocator_stats(const SP_Device *device, SP_AllocatorStats *stats) {
  fpga_memory_stats all = fpga_memory_get_stats(device_of(device)->memory);
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->num_allocs = all.allocations;
  stats->bytes_in_use = all.used;
  stats->peak_bytes_in_use = all.peak;
  stats->largest_alloc_size = all.largest;
  stats->has_bytes_limit = all.limit != 0;
  stats->bytes_limit = all.limit;
  stats->bytes_reserved = all.reserved;
  return 1;
}

static TF_Bool memory_usage(const SP_Device *device, int64_t *free_bytes, int64_t *total) {
  fpga_memory_stats all = fpga_memory_get_stats(device_of(device)->memory);
  *total = all.limit ? all.limit : (int64_t)1 << 40;
  *free_bytes = *total - all.used;
  return 1;
}

/* --- streams and events --------------------------------------------------------------------------------------------
 */
static void create_stream(const SP_Device *device, SP_Stream *stream, TF_Status *status) {
  *stream = fpga_stream_create(device_of(device));
  if (*stream)
    set_ok(status);
  else
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory for a stream");
}

static void destroy_stream(const SP_Device *device, SP_Stream stream) {
  (void)device;
  fpga_stream_destroy(stream);
}

static void depend(SP_Stream stream, SP_Stream other, uint64_t mark, TF_Status *status) {
  if (fpga_stream_depend(stream, other, mark))
    set_ok(status);
  else
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory to let a stream wait for another");
}

static void create_dependency(const SP_Device *device, SP_Stream dependent, SP_Stream other, TF_Status *status) {
  (void)device;
  depend(dependent, other, fpga_stream_mark(other), status);
}

static void stream_status(const SP_Device *device, SP_Stream stream, TF_Status *status) {
  (void)device, (void)stream;
  set_ok(status); /* failures are told by the next kernel or copy */
}

static void create_event(const SP_Device *device, SP_Event *event, TF_Status *status) {
  (void)device;
  *event = calloc(1, sizeof **event);
  if (*event)
    set_ok(status);
  else
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory for an event");
}

static void destroy_event(const SP_Device *device, SP_Event event) {
  (void)device;
  free(event);
}

static SE_EventStatus event_status(const SP_Device *device, SP_Event event) {
  (void)device;
  if (!event->stream) return SE_EVENT_COMPLETE;
  return fpga_stream_reached(event->stream, event->mark) ? SE_EVENT_COMPLETE : SE_EVENT_PENDING;
}

static void record_event(const SP_Device *device, SP_Stream stream, SP_Event event, TF_Status *status) {
  (void)device;
  event->stream = stream;
  event->mark = fpga_stream_mark(stream);
  set_ok(status);
}

static void wait_for_event(const SP_Device *device, SP_Stream stream, SP_Event event, TF_Status *status) {
  (void)device;
  if (event->stream)
    depend(stream, event->stream, event->mark, status);
  else
    set_ok(status);
}

static void block_for_event(const SP_Device *device, SP_Event event, TF_Status *status) {
  (void)device;
  if (event->stream) fpga_stream_wait(event->stream, event->mark);
  set_ok(status);
}

/* Failures of what was queued are left to the next kernel or copy, where TensorFlow keeps the sentence: here it would
 * replace it by one of its own. */
static void block_until_done(const SP_Device *device, SP_Stream stream, TF_Status *status) {
  (void)device;
  fpga_stream_wait(stream, fpga_stream_mark(stream));
  set_ok(status);
}

static void synchronize(const SP_Device *device, TF_Status *status) {
  fpga_device_wait(device_of(device));
  set_ok(status);
}

/* --- copies --------------------------------------------------------------------------------------------------------
 */
typedef struct copy_job {
  fpga_job job;
  void *to;
  const void *from;
  uint64_t size;
  uint32_t pattern;    /* of memset32, without `from` */
  fpga_device *source; /* of a copy between devices; else NULL */
} copy_job;

static void run_copy(fpga_job *job) {
  copy_job *copy = (copy_job *)job;
  if (copy->from)
    memcpy(copy->to, copy->from, copy->size);
  else
    for (uint64_t i = 0; i < copy->size; i++) ((uint8_t *)copy->to)[i] = (uint8_t)(copy->pattern >> (i % 4 * 8));
  if (copy->source) fpga_device_pass_failure(copy->source, copy->to);
  free(copy);
}

static void put_job(SP_Stream stream, copy_job given, TF_Status *status) {
  enum { kBrief = 64 << 10 };
  set_ok(status);
  if (!given.size) return;
  copy_job *copy = malloc(sizeof *copy);
  if (!copy) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory to queue a copy");
    return;
  }
  *copy = given;
  copy->job.run = run_copy;
  fpga_stream_put(stream, &copy->job, given.size <= kBrief);
}

static void put_copy(SP_Stream stream, void *to, const void *from, uint64_t size, uint32_t pattern, TF_Status *status) {
  put_job(stream, (copy_job){.to = to, .from = from, .size = size, .pattern = pattern}, status);
}

/* Waits for what the stream has to wait for, so that a failure of it is told here. */
static void copy_to_host(const SP_Device *device, SP_Stream stream, void *to, const SP_DeviceMemoryBase *from,
                         uint64_t size, TF_Status *status) {
  fpga_stream_wait(stream, fpga_stream_mark(stream));
  set_ok(status);
  if (!fpga_device_take_failure(device_of(device), status) && size) memcpy(to, from->opaque, size);
}

static void copy_to_device(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to, const void *from,
                           uint64_t size, TF_Status *status) {
  (void)device;
  put_copy(stream, to->opaque, from, size, 0, status);
}

static void copy_between(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to,
                         const SP_DeviceMemoryBase *from, uint64_t size, TF_Status *status) {
  put_job(stream, (copy_job){.to = to->opaque, .from = from->opaque, .size = size, .source = device_of(device)},
          status);
}

static void copy_to_host_now(const SP_Device *device, void *to, const SP_DeviceMemoryBase *from, uint64_t size,
                             TF_Status *status) {
  set_ok(status);
  if (!fpga_device_take_failure(device_of(device), status) && size) memcpy(to, from->opaque, size);
}

static void copy_to_device_now(const SP_Device *device, SP_DeviceMemoryBase *to, const void *from, uint64_t size,
                               TF_Status *status) {
  (void)device;
  if (size) memcpy(to->opaque, from, size);
  set_ok(status);
}

static void copy_between_now(const SP_Device *device, SP_DeviceMemoryBase *to, const SP_DeviceMemoryBase *from,
                             uint64_t size, TF_Status *status) {
  if (size) memcpy(to->opaque, from->opaque, size);
  fpga_device_pass_failure(device_of(device), to->opaque);
  set_ok(status);
}

static void mem_zero(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to, uint64_t size,
                     TF_Status *status) {
  (void)device;
  put_copy(stream, to->opaque, NULL, size, 0, status);
}

static void mem_set(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to, uint8_t pattern, uint64_t size,
                    TF_Status *status) {
  (void)device;
  put_copy(stream, to->opaque, NULL, size, pattern * UINT32_C(0x01010101), status);
}

static void mem_set32(const SP_Device *device, SP_Stream stream, SP_DeviceMemoryBase *to, uint32_t pattern,
                      uint64_t size, TF_Status *status) {
  (void)device;
  put_copy(stream, to->opaque, NULL, size, pattern, status);
}

typedef struct callback_job {
  fpga_job job;
  SE_StatusCallbackFn call;
  void *argument;
} callback_job;

static void run_callback(fpga_job *job) {
  callback_job *callback = (callback_job *)job;
  TF_Status *status = TF_NewStatus();
  callback->call(callback->argument, status);
  TF_DeleteStatus(status);
  free(callback);
}

static TF_Bool host_callback(const SP_Device *device, SP_Stream stream, SE_StatusCallbackFn call, void *argument) {
  (void)device;
  callback_job *callback = malloc(sizeof *callback);
  if (!callback) return 0;
  *callback = (callback_job){.job.run = run_callback, .call = call, .argument = argument};
  fpga_stream_put(stream, &callback->job, true);
  return 1;
}

/* --- the platform --------------------------------------------------------------------------------------------------
 */
static void get_device_count(const SP_Platform *platform, int *count, TF_Status *status) {
  (void)platform;
  *count = (int)fpga_device_count();
  set_ok(status);
}

static void create_device(const SP_Platform *platform, SE_CreateDeviceParams *params, TF_Status *status) {
  (void)platform;
  fpga_device *fpga = fpga_device_get((size_t)params->ordinal);
  SP_Device *device = params->device;
  device->struct_size = SP_DEVICE_STRUCT_SIZE;
  device->device_handle = fpga;
  device->ordinal = params->ordinal;
  device->hardware_name = fpga ? fpga->hardware : "";
  device->device_vendor = "Braid";
  device->pci_bus_id = "";
  if (fpga)
    set_ok(status);
  else
    TF_SetStatus(status, TF_NOT_FOUND, "there is no such virtual device");
}

static void destroy_device(const SP_Platform *platform, SP_Device *device) {
  (void)platform;
  device->device_handle = NULL;
}

static void create_device_fns(const SP_Platform *platform, SE_CreateDeviceFnsParams *params, TF_Status *status) {
  (void)platform;
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  set_ok(status);
}

static void destroy_device_fns(const SP_Platform *platform, SP_DeviceFns *fns) {
  (void)platform, (void)fns;
}

static void create_executor(const SP_Platform *platform, SE_CreateStreamExecutorParams *params, TF_Status *status) {
  (void)platform;
  *params->stream_executor = (SP_StreamExecutor){.struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE,
                                                 .allocate = allocate,
                                                 .deallocate = deallocate,
                                                 .host_memory_allocate = host_allocate,
                                                 .host_memory_deallocate = host_deallocate,
                                                 .unified_memory_allocate = host_allocate,
                                                 .unified_memory_deallocate = host_deallocate,
                                                 .get_allocator_stats = allocator_stats,
                                                 .device_memory_usage = memory_usage,
                                                 .create_stream = create_stream,
                                                 .destroy_stream = destroy_stream,
                                                 .create_stream_dependency = create_dependency,
                                                 .get_stream_status = stream_status,
                                                 .create_event = create_event,
                                                 .destroy_event = destroy_event,
                                                 .get_event_status = event_status,
                                                 .record_event = record_event,
                                                 .wait_for_event = wait_for_event,
                                                 .memcpy_dtoh = copy_to_host,
                                                 .memcpy_htod = copy_to_device,
                                                 .memcpy_dtod = copy_between,
                                                 .sync_memcpy_dtoh = copy_to_host_now,
                                                 .sync_memcpy_htod = copy_to_device_now,
                                                 .sync_memcpy_dtod = copy_between_now,
                                                 .block_host_for_event = block_for_event,
                                                 .block_host_until_done = block_until_done,
                                                 .synchronize_all_activity = synchronize,
                                                 .mem_zero = mem_zero,
                                                 .memset = mem_set,
                                                 .memset32 = mem_set32,
                                                 .host_callback = host_callback};
  set_ok(status);
}

static void destroy_executor(const SP_Platform *platform, SP_StreamExecutor *executor) {
  (void)platform, (void)executor;
}

static void destroy_platform(SP_Platform *platform) {
  (void)platform;
}

static void destroy_platform_fns(SP_PlatformFns *fns) {
  (void)fns;
}

FPGA_EXPORT void SE_InitPlugin(SE_PlatformRegistrationParams *params, TF_Status *status) {
  if (!fpga_load_openmp()) {
    TF_SetStatus(status, TF_FAILED_PRECONDITION, dlerror());
    return;
  }
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = FPGA_TYPE;
  params->platform->type = FPGA_TYPE;
  params->platform->supports_unified_memory = 0;
  params->platform->use_bfc_allocator = 0;
  *params->platform_fns = (SP_PlatformFns){.struct_size = SP_PLATFORM_FNS_STRUCT_SIZE,
                                           .get_device_count = get_device_count,
                                           .create_device = create_device,
                                           .destroy_device = destroy_device,
                                           .create_device_fns = create_device_fns,
                                           .destroy_device_fns = destroy_device_fns,
                                           .create_stream_executor = create_executor,
                                           .destroy_stream_executor = destroy_executor};
  params->destroy_platform = destroy_platform;
  params->destroy_platform_fns = destroy_platform_fns;
  set_ok(status);
}

void TF_InitKernel(void) {
  fpga_run_python();
  fpga_register_kernels();
  fpga_register_variables();
}
