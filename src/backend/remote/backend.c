/* The table of remote devices, and how they are opened. Options: see options.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/remote/options.h"
#include "backend/remote/remote.h"
#include "base/try.h"
#include "device/kernel_index.h"

enum { kMostKernels = 16 << 20 /* bytes of their description */ };

extern const braid_backend braid_backend_remote;

/* None is known before it is named. */
static braid_status remote_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  (void)infos, (void)capacity;
  *count = 0;
  return BRAID_OK;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
/* Collectives reduce over the client's group, of which the daemon knows nothing; a program's own ops are not there. */
static bool is_usable(const braid_remote_kernel *kernel) {
  return strcmp(kernel->op, "AllReduce") != 0 && strcmp(kernel->op, BRAID_CUSTOM_KERNEL) != 0;
}

static braid_status kernel_add(remote_device *device, const braid_remote_kernel *from, uint32_t id) {
  braid_kernel *kernel = &device->kernels[device->kernel_count];
  kernel->op = braid_arena_text(device->texts, from->op, strlen(from->op));
  kernel->name = braid_arena_text(device->texts, from->name, strlen(from->name));
  if (!kernel->op || !kernel->name) return BRAID_NO_MEMORY;
  kernel->in_place = from->in_place[0];
  memcpy(kernel->in_place_more, from->in_place + 1, sizeof kernel->in_place_more);
  kernel->implementation = (const void *)(uintptr_t)id;
  device->flags[device->kernel_count] = (uint8_t)from->flags;
  device->list[device->kernel_count++] = kernel;
  return BRAID_OK;
}

static braid_status read_kernels(remote_device *device, braid_wire_reader *reader) {
  enum { kLeast = 21 };
  size_t count = braid_remote_get_count(reader, 4, BRAID_REMOTE_KERNELS_MOST, kLeast);
  device->kernels = braid_zalloc_array(device->allocator, count, sizeof *device->kernels);
  device->list = braid_zalloc_array(device->allocator, count, sizeof *device->list);
  device->flags = braid_zalloc_array(device->allocator, count, sizeof *device->flags);
  if (!device->kernels || !device->list || !device->flags) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count && !reader->wrong; i++) {
    braid_remote_kernel kernel;
    braid_remote_get_kernel(reader, &kernel);
    if (!reader->wrong && is_usable(&kernel)) BRAID_TRY(kernel_add(device, &kernel, (uint32_t)i));
  }
  const char *wrong = braid_wire_finish(reader);
  return wrong ? remote_channel_break(&device->channel, wrong) : BRAID_OK;
}

static braid_status fetch_kernels(remote_device *device) {
  braid_wire_reader reader;
  remote_begin(&device->channel, BRAID_REMOTE_KERNELS);
  braid_status status = remote_ask(&device->channel, NULL, 0, kMostKernels, NULL, &reader);
  if (status == BRAID_OK) status = read_kernels(device, &reader);
  remote_end(&device->channel);
  return status;
}

static const braid_kernel *const *remote_kernels(void *self, size_t *count) {
  const remote_device *device = self;
  *count = device->kernel_count;
  return device->list;
}

static bool remote_brought(void *self, const braid_kernel *kernel) {
  const remote_device *device = self;
  return device->flags[kernel - device->kernels] & BRAID_REMOTE_BROUGHT;
}

/* --- opening -------------------------------------------------------------------------------------------------------
 */
static void tell_counts(const remote_device *device) {
  const remote_channel *channel = &device->channel;
  if (!device->log) return;
  braid_log_write(device->log, BRAID_LOG_INFO,
                  "%s: %" PRIu64 " calls, %" PRIu64 " bytes sent, %" PRIu64 " received; %" PRIu64 " runs in %" PRIu64
                  " of these calls",
                  device->info.name, channel->messages, channel->bytes_sent, channel->bytes_received, device->runs,
                  device->run_calls);
}

static void remote_close(void *self) {
  remote_device *device = self;
  tell_counts(device);
  remote_questions_deinit(device);
  remote_channel_deinit(&device->channel);
  braid_arena_destroy(device->texts);
  braid_free(device->allocator, device->kernels);
  braid_free(device->allocator, device->list);
  braid_free(device->allocator, device->flags);
  pthread_mutex_destroy(&device->lock);
  braid_free(device->allocator, device);
}

static void device_describe(remote_device *device) {
  braid_device_info *info = &device->info;
  *info = device->description.info;
  snprintf(info->name, sizeof info->name, "remote/%.24s", device->description.info.name);
  snprintf(info->description, sizeof info->description, "%.70s at %.50s", device->description.info.description,
           device->channel.address);
}

/* The first host that has the device. What the last one said is told, after what those before it did. */
static braid_status connect_to_any(remote_device *device, const remote_options *options) {
  braid_status status = BRAID_IO;
  char said[600] = "";
  for (size_t i = 0; i < options->host_count; i++) {
    remote_channel_deinit(&device->channel);
    remote_channel_init(&device->channel);
    status = remote_channel_open(&device->channel, options->hosts[i], options, &device->description);
    if (status == BRAID_OK) return BRAID_OK;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s%.250s", used ? "; " : "", braid_error_detail());
  }
  return braid_fail(status, "%s", said);
}

static braid_status device_open(remote_device *device, const remote_options *options) {
  BRAID_TRY(connect_to_any(device, options));
  device_describe(device);
  BRAID_TRY(braid_arena_create(device->allocator, &device->texts));
  return fetch_kernels(device);
}

static braid_status remote_open(const braid_allocator *allocator, size_t index, const char *text, void **out) {
  *out = NULL;
  if (index > 0) return braid_fail(BRAID_NOT_FOUND, "remote devices are named: remote:HOST:PORT/NAME");
  remote_options *options = braid_alloc(allocator, sizeof *options);
  remote_device *device = options ? braid_zalloc(allocator, sizeof *device) : NULL;
  if (!device) {
    braid_free(allocator, options);
    return BRAID_NO_MEMORY;
  }
  device->allocator = allocator;
  pthread_mutex_init(&device->lock, NULL);
  remote_channel_init(&device->channel);
  braid_status status = remote_options_read(text, options);
  if (status == BRAID_OK) status = device_open(device, options);
  braid_free(allocator, options);
  if (status == BRAID_OK)
    *out = device;
  else
    remote_close(device);
  return status;
}

static void remote_info(void *self, braid_device_info *info) {
  *info = ((const remote_device *)self)->info;
}

static void remote_set_host(void *self, const braid_log *log, const char *cache) {
  (void)cache;
  ((remote_device *)self)->log = log;
}

static braid_status remote_status(void *self) {
  return remote_channel_check(&((const remote_device *)self)->channel);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static braid_status remote_buffer_create(void *self, size_t bytes, void **out) {
  remote_device *device = self;
  *out = NULL;
  remote_buffer *buffer = braid_zalloc(device->allocator, sizeof *buffer);
  if (!buffer) return BRAID_NO_MEMORY;
  braid_wire_reader reader;
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_BUFFER), bytes, 8);
  braid_status status = remote_ask(&device->channel, NULL, 0, 4, NULL, &reader);
  if (status == BRAID_OK) {
    *buffer = (remote_buffer){(uint32_t)braid_wire_get_number(&reader, 4), bytes};
    const char *wrong = braid_wire_finish(&reader);
    if (wrong || !buffer->id) status = remote_channel_break(&device->channel, wrong ? wrong : "a buffer of number 0");
  }
  remote_end(&device->channel);
  if (status == BRAID_OK)
    *out = buffer;
  else
    braid_free(device->allocator, buffer);
  return status;
}

static void remote_buffer_destroy(void *self, void *which) {
  remote_device *device = self;
  remote_buffer *buffer = which;
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_FREE), buffer->id, 4);
  remote_post(&device->channel);
  braid_free(device->allocator, buffer);
}

static braid_status remote_read_memory(void *self, uint64_t *out_free, uint64_t *out_total) {
  remote_device *device = self;
  braid_wire_reader reader;
  remote_begin(&device->channel, BRAID_REMOTE_MEMORY);
  braid_status status = remote_ask(&device->channel, NULL, 0, 16, NULL, &reader);
  if (status == BRAID_OK) {
    *out_free = braid_wire_get_number(&reader, 8);
    *out_total = braid_wire_get_number(&reader, 8);
    const char *wrong = braid_wire_finish(&reader);
    if (wrong) status = remote_channel_break(&device->channel, wrong);
  }
  remote_end(&device->channel);
  return status;
}

const braid_backend braid_backend_remote = {
    .abi = BRAID_DEVICE_ABI,
    .size = sizeof(braid_backend),
    .name = "remote",
    .enumerate = remote_enumerate,
    .open = remote_open,
    .close = remote_close,
    .info = remote_info,
    .kernels = remote_kernels,
    .prepare = remote_prepare,
    .discard = remote_discard,
    .buffer_create = remote_buffer_create,
    .buffer_destroy = remote_buffer_destroy,
    .queue_create = remote_queue_create,
    .queue_destroy = remote_queue_destroy,
    .submit = remote_submit,
    .match = remote_match,
    .layouts = remote_layouts,
    .read_memory = remote_read_memory,
    .status = remote_status,
    .query = remote_query,
    .pack = remote_pack,
    .brought = remote_brought,
    .record = remote_record,
    .erase = remote_erase,
    .replay = remote_replay,
    .set_host = remote_set_host,
    .addressed = true,
};
