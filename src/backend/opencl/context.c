#include "backend/opencl/context.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/memory.h"
#include "backend/opencl/program.h"
#include "backend/opencl/queue.h"

enum { kMaxPlatforms = 32, kMinAlignment = 64 };

/* --- enumeration ---------------------------------------------------------------------------------------------------
 */
/* Walks devices in order until the `wanted`-th; returns how many it walked past. */
static size_t walk_devices(size_t wanted, cl_platform_id *platform, cl_device_id *device) {
  const braid_cl_api *cl = braid_cl_load();
  cl_platform_id platforms[kMaxPlatforms];
  cl_uint platform_count = 0;
  size_t seen = 0;
  *device = NULL;
  if (!cl || cl->GetPlatformIDs(kMaxPlatforms, platforms, &platform_count) != CL_SUCCESS) return 0;
  for (cl_uint i = 0; i < platform_count && i < kMaxPlatforms; i++) {
    cl_device_id devices[64];
    cl_uint count = 0, room = sizeof devices / sizeof *devices;
    if (cl->GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, room, devices, &count) != CL_SUCCESS) continue;
    if (count > room) count = room;
    if (wanted - seen < count) {
      *platform = platforms[i];
      *device = devices[wanted - seen];
      return wanted;
    }
    seen += count;
  }
  return seen;
}

size_t braid_cl_count(void) {
  cl_platform_id platform;
  cl_device_id device;
  return walk_devices(SIZE_MAX, &platform, &device);
}

braid_status braid_cl_find(size_t index, cl_platform_id *platform, cl_device_id *device) {
  size_t count = walk_devices(index, platform, device);
  if (*device) return BRAID_OK;
  return braid_fail(BRAID_NOT_FOUND, "OpenCL device %zu, there are %zu", index, count);
}

/* --- what a device says --------------------------------------------------------------------------------------------
 */
uint64_t braid_cl_query(cl_device_id device, cl_device_info what) {
  union {
    cl_uint small;
    cl_ulong large;
  } value = {.large = 0};
  size_t bytes = 0;
  if (braid_cl_load()->GetDeviceInfo(device, what, sizeof value, &value, &bytes) != CL_SUCCESS) return 0;
  return bytes == sizeof value.small ? value.small : value.large;
}

void braid_cl_query_text(cl_device_id device, cl_device_info what, char *out, size_t bytes) {
  char text[1024] = "";
  if (braid_cl_load()->GetDeviceInfo(device, what, sizeof text - 1, text, NULL) != CL_SUCCESS) text[0] = '\0';
  snprintf(out, bytes, "%.*s", (int)bytes - 1, text + strspn(text, " "));
}

static const char *kind_of(uint64_t type) {
  if (type & CL_DEVICE_TYPE_CPU) return "cpu";
  if (type & CL_DEVICE_TYPE_GPU) return "gpu";
  return "fpga"; /* accelerators */
}

static size_t alignment_of(cl_device_id device) {
  size_t bits = (size_t)braid_cl_query(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN), alignment = kMinAlignment;
  while (alignment < bits / 8) alignment *= 2;
  return alignment;
}

void braid_cl_describe(cl_device_id device, size_t index, braid_device_info *info) {
  *info = (braid_device_info){.memory = braid_cl_query(device, CL_DEVICE_HOST_UNIFIED_MEMORY) ? BRAID_MEMORY_UNIFIED
                                                                                              : BRAID_MEMORY_SEPARATE,
                              .max_queues = 16,
                              .compute_units = (uint32_t)braid_cl_query(device, CL_DEVICE_MAX_COMPUTE_UNITS),
                              .memory_bytes = braid_cl_query(device, CL_DEVICE_GLOBAL_MEM_SIZE),
                              .alignment = alignment_of(device),
                              .host_alignment = kMinAlignment,
                              .measures_time = true};
  snprintf(info->name, sizeof info->name, "opencl%zu", index);
  snprintf(info->kind, sizeof info->kind, "%s", kind_of(braid_cl_query(device, CL_DEVICE_TYPE)));
  braid_cl_query_text(device, CL_DEVICE_NAME, info->description, sizeof info->description);
  if (!info->description[0]) snprintf(info->description, sizeof info->description, "OpenCL device");
  char version[88], driver[32];
  braid_cl_query_text(device, CL_DEVICE_VERSION, version, sizeof version);
  braid_cl_query_text(device, CL_DRIVER_VERSION, driver, sizeof driver);
  snprintf(info->software, sizeof info->software, "%s, driver %s", version, driver);
}

/* Four bytes at once: by Khronos' extension where packed ones are taken, or NVIDIA's instruction, whose devices tell
 * their generation (cl_nv_device_attribute_query). */
static braid_launch_dot dot_of(cl_device_id device) {
  enum { kCapabilities = 0x1073, kPacked = 1, kMajor = 0x4000, kMinor = 0x4001 };
  size_t bytes = 0;
  const braid_cl_api *cl = braid_cl_load();
  if (cl->GetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) != CL_SUCCESS || !bytes)
    return BRAID_LAUNCH_DOT_PLAIN;
  char *names = braid_zalloc(NULL, bytes + 1);
  if (!names) return BRAID_LAUNCH_DOT_PLAIN;
  (void)cl->GetDeviceInfo(device, CL_DEVICE_EXTENSIONS, bytes, names, NULL);
  bool khronos = strstr(names, "cl_khr_integer_dot_product"), nvidia = strstr(names, "cl_nv_device_attribute_query");
  braid_free(NULL, names);
  if (khronos && (braid_cl_query(device, kCapabilities) & kPacked)) return BRAID_LAUNCH_DOT_KHRONOS;
  uint64_t generation = nvidia ? 10 * braid_cl_query(device, kMajor) + braid_cl_query(device, kMinor) : 0;
  return generation >= 61 ? BRAID_LAUNCH_DOT_PTX : BRAID_LAUNCH_DOT_PLAIN;
}

void braid_cl_read_traits(cl_device_id device, braid_launch_traits *traits) {
  uint64_t type = braid_cl_query(device, CL_DEVICE_TYPE);
  *traits =
      (braid_launch_traits){.cpu = type & CL_DEVICE_TYPE_CPU,
                            .gpu = type & CL_DEVICE_TYPE_GPU,
                            .fpga = !(type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)),
                            .compute_units = (uint32_t)braid_cl_query(device, CL_DEVICE_MAX_COMPUTE_UNITS),
                            .local_bytes = (size_t)braid_cl_query(device, CL_DEVICE_LOCAL_MEM_SIZE),
                            .local_is_real = braid_cl_query(device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL,
                            .max_group = (size_t)braid_cl_query(device, CL_DEVICE_MAX_WORK_GROUP_SIZE),
                            .max_item = {1, 1, 1},
                            .vector_width = (uint32_t)braid_cl_query(device, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT),
                            .dot = dot_of(device)};
  size_t items[16] = {1, 1, 1}, bytes = 0;
  if (braid_cl_load()->GetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, &bytes) == CL_SUCCESS)
    memcpy(traits->max_item, items, sizeof traits->max_item);
}

/* --- contexts ------------------------------------------------------------------------------------------------------
 */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static braid_cl_context *contexts;

struct braid_cl_left {
  braid_cl_object kind;
  void *object;
  braid_cl_left *next;
};

static void release_object(const braid_cl_api *cl, braid_cl_object kind, void *object) {
  switch (kind) {
  case BRAID_CL_OBJECT_MEMORY:
    cl->ReleaseMemObject(object);
    break;
  case BRAID_CL_OBJECT_KERNEL:
    cl->ReleaseKernel(object);
    break;
  case BRAID_CL_OBJECT_PROGRAM:
    cl->ReleaseProgram(object);
    break;
  case BRAID_CL_OBJECT_QUEUE:
    braid_cl_queue_free(object);
    break;
  case BRAID_CL_OBJECT_COMMANDS:
    cl->ReleaseCommandQueue(object);
    break;
  case BRAID_CL_OBJECT_HOST:
    braid_free(NULL, object);
    break;
  }
}

void braid_cl_context_drop(braid_cl_context *context, braid_cl_object kind, void *object) {
  if (!__atomic_load_n(&context->lost, __ATOMIC_ACQUIRE)) {
    release_object(context->cl, kind, object);
    return;
  }
  braid_cl_left *left = braid_zalloc(NULL, sizeof *left);
  if (!left) return; /* better lost than waited for */
  *left = (braid_cl_left){kind, object, __atomic_load_n(&context->left, __ATOMIC_RELAXED)};
  while (!__atomic_compare_exchange_n(&context->left, &left->next, left, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

static void release_left(braid_cl_context *context) {
  while (context->left) {
    braid_cl_left *left = context->left;
    context->left = left->next;
    release_object(context->cl, left->kind, left->object);
    braid_free(NULL, left);
  }
}

static void context_destroy(braid_cl_context *context) {
  const braid_cl_api *cl = context->cl;
  release_left(context);
  __atomic_store_n(&context->lost, 0, __ATOMIC_RELEASE); /* no command is left to wait for: these are freed at once */
  braid_cl_programs_release(context);
  braid_cl_memory_release(context);
  if (context->context) cl->ReleaseContext(context->context);
  for (cl_uint i = 0; i < context->part_count; i++) cl->ReleaseDevice(context->parts[i]);
  braid_free(NULL, context->parts);
  pthread_mutex_destroy(&context->lock);
  braid_free(NULL, context);
}

/* Equal parts of the compute units. A device that cannot be divided is shared whole: its parts have queues and kernels
 * of their own, which is what several kernel instances of one FPGA need. */
static braid_status context_divide(braid_cl_context *context) {
  cl_uint parts = context->share.parts, units = (cl_uint)braid_cl_query(context->device, CL_DEVICE_MAX_COMPUTE_UNITS);
  cl_uint most = (cl_uint)braid_cl_query(context->device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES);
  if (parts < 2 || most < parts || units < parts) return BRAID_OK;
  cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, (cl_device_partition_property)(units / parts),
                                            0};
  cl_uint count = 0;
  if (context->cl->CreateSubDevices(context->device, equally, 0, NULL, &count) != CL_SUCCESS || count < parts)
    return BRAID_OK;
  context->parts = braid_zalloc_array(NULL, count, sizeof(cl_device_id));
  if (!context->parts) return BRAID_NO_MEMORY;
  cl_int code = context->cl->CreateSubDevices(context->device, equally, count, context->parts, NULL);
  if (code != CL_SUCCESS) return braid_cl_fail(code, "dividing the device");
  context->part_count = count;
  return BRAID_OK;
}

static braid_status context_create(const braid_cl_share *share, braid_cl_context **out) {
  *out = NULL;
  braid_cl_context *context = braid_zalloc(NULL, sizeof *context);
  if (!context) return BRAID_NO_MEMORY;
  *context = (braid_cl_context){.cl = braid_cl_load(), .share = *share, .users = 1};
  pthread_mutex_init(&context->lock, NULL);
  braid_status status = braid_cl_find(share->index, &context->platform, &context->device);
  if (status == BRAID_OK) status = context_divide(context);
  cl_device_id *devices = NULL;
  if (status == BRAID_OK) {
    devices = braid_zalloc_array(NULL, context->part_count + 1, sizeof *devices);
    status = devices ? BRAID_OK : BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) {
    devices[0] = context->device;
    for (cl_uint i = 0; i < context->part_count; i++) devices[i + 1] = context->parts[i];
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)context->platform, 0};
    cl_int code;
    context->context = context->cl->CreateContext(properties, context->part_count + 1, devices, NULL, NULL, &code);
    if (!context->context) status = braid_cl_fail(code, "no context");
    context->alignment = alignment_of(context->device);
    context->memory_bytes = braid_cl_query(context->device, CL_DEVICE_GLOBAL_MEM_SIZE);
    context->most_bytes = braid_cl_query(context->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  }
  braid_free(NULL, devices);
  if (status == BRAID_OK)
    *out = context;
  else
    context_destroy(context);
  return status;
}

static bool is_quiet(const braid_cl_context *context) {
  for (const braid_cl_left *left = context->left; left; left = left->next)
    if (left->kind == BRAID_CL_OBJECT_QUEUE && !braid_launch_queue_drained(left->object)) return false;
  return true;
}

/* Frees the contexts that nobody uses and no command comes back to. */
static void reap_contexts(void) {
  braid_cl_context **link = &contexts;
  while (*link) {
    braid_cl_context *context = *link;
    if (context->users || !is_quiet(context)) {
      link = &context->next;
    } else {
      *link = context->next;
      context_destroy(context);
    }
  }
}

static bool same_share(const braid_cl_share *a, const braid_cl_share *b) {
  return a->index == b->index && a->parts == b->parts && a->arena_bytes == b->arena_bytes;
}

braid_status braid_cl_context_acquire(const braid_cl_share *share, braid_cl_context **out) {
  *out = NULL;
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&list_lock);
  reap_contexts();
  for (braid_cl_context *context = contexts; context && !*out; context = context->next)
    if (!__atomic_load_n(&context->lost, __ATOMIC_ACQUIRE) && same_share(&context->share, share)) *out = context;
  if (*out) {
    (*out)->users++;
  } else {
    status = context_create(share, out);
    if (*out) {
      (*out)->next = contexts;
      contexts = *out;
    }
  }
  pthread_mutex_unlock(&list_lock);
  return status;
}

void braid_cl_context_release(braid_cl_context *context) {
  if (!context) return;
  pthread_mutex_lock(&list_lock);
  context->users--;
  reap_contexts();
  pthread_mutex_unlock(&list_lock);
}

void braid_cl_context_lose(braid_cl_context *context) {
  __atomic_store_n(&context->lost, 1, __ATOMIC_RELEASE);
}
