/* Which virtual devices there are: those of a platform file (BRAID_TF_PLATFORM), or a list (BRAID_TF_DEVICES), or one
 * on the CPU. Each has a machine of its own, so that they run at the same time. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static struct {
  pthread_once_t once;
  braid_registry *registry;
  fpga_device *devices[FPGA_MAX_DEVICES];
  size_t count;
} all = {.once = PTHREAD_ONCE_INIT};

/* Newer wheels have neither the header nor the function. */
__attribute__((weak)) void TF_Log(int level, const char *format, ...);

void fpga_log(fpga_log_level level, const char *format, ...) {
  char text[1200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (TF_Log) {
    TF_Log((int)level, "braid: %s", text);
    return;
  }
  const char *least = getenv("TF_CPP_MIN_LOG_LEVEL");
  if (!least || (long)level >= strtol(least, NULL, 10)) fprintf(stderr, "%c braid: %s\n", "IWEF"[level], text);
}

static void log_library(void *context, braid_log_level level, const char *message) {
  (void)context;
  if (level == BRAID_LOG_WARNING) fpga_log(FPGA_WARNING, "%s", message);
}

TF_Code fpga_code_of(braid_status status) {
  switch (status) {
  case BRAID_OK:
    return TF_OK;
  case BRAID_NO_MEMORY:
    return TF_RESOURCE_EXHAUSTED;
  case BRAID_INVALID_ARGUMENT:
  case BRAID_INVALID_GRAPH:
  case BRAID_OUT_OF_RANGE:
    return TF_INVALID_ARGUMENT;
  case BRAID_UNSUPPORTED:
    return TF_UNIMPLEMENTED;
  case BRAID_DEVICE_LOST:
    return TF_UNAVAILABLE;
  case BRAID_TIMEOUT:
    return TF_DEADLINE_EXCEEDED;
  default:
    return TF_INTERNAL;
  }
}

/* --- which there are -----------------------------------------------------------------------------------------------
 */
static bool is_set(const char *variable) {
  const char *text = getenv(variable);
  return text && *text && strcmp(text, "0") != 0;
}

static int64_t memory_limit(void) {
  const char *text = getenv("BRAID_TF_MEMORY");
  if (!text || !*text) return 0;
  char *end;
  long long bytes = strtoll(text, &end, 10);
  if (*end == '\0' && bytes > 0) return bytes;
  fpga_log(FPGA_WARNING, "BRAID_TF_MEMORY is \"%s\": expected bytes of each device; there is no limit", text);
  return 0;
}

static void device_close(fpga_device *device) {
  braid_machine_release(device->machine);
  fpga_memory_destroy(device->memory);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

bool fpga_device_is_cpu(const char *spec) {
  return strncmp(spec, "cpu", 3) == 0 && (spec[3] == '\0' || spec[3] == ':' || spec[3] == '.');
}

static braid_status device_open(const char *spec, fpga_device **out) {
  fpga_device *device = *out = calloc(1, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  pthread_mutex_init(&device->lock, NULL);
  snprintf(device->spec, sizeof device->spec, "%s", spec);
  snprintf(device->hardware, sizeof device->hardware, "Braid %s", spec);
  device->memory = fpga_memory_create(memory_limit());
  /* What the device has no kernel for runs on the CPU behind it, and is told: TensorFlow can't take back an op. */
  char list[sizeof device->spec + 8];
  snprintf(list, sizeof list, "%s%s", device->spec,
           fpga_device_is_cpu(spec) || is_set("BRAID_TF_STRICT") ? "" : " cpu");
  braid_machine_options options = {.devices = list, .registry = all.registry};
  braid_status status = BRAID_NO_MEMORY;
  if (device->memory) status = braid_machine_create(NULL, &options, &device->machine);
  if (status == BRAID_OK) return BRAID_OK;
  device_close(device);
  *out = NULL;
  return status;
}

static void device_add(const char *spec) {
  fpga_device *device;
  if (all.count == FPGA_MAX_DEVICES) {
    fpga_log(FPGA_WARNING, "%s is left out: there are %d devices already", spec, FPGA_MAX_DEVICES);
    return;
  }
  if (strlen(spec) >= sizeof device->spec) {
    fpga_log(FPGA_WARNING, "device \"%.60s...\" is left out: its text is longer than 255 bytes", spec);
    return;
  }
  if (device_open(spec, &device) != BRAID_OK) {
    fpga_log(FPGA_WARNING, "device %s is left out: %s", spec, braid_error_detail());
    return;
  }
  device->ordinal = (int)all.count;
  all.devices[all.count++] = device;
}

static void add_list(const char *list) {
  char spec[1024];
  while (*list) {
    size_t length = strcspn(list, " \t\n");
    if (length && length < sizeof spec) {
      memcpy(spec, list, length);
      spec[length] = '\0';
      device_add(spec);
    } else if (length) {
      fpga_log(FPGA_WARNING, "device \"%.60s...\" is left out: its text is longer than 255 bytes", list);
    }
    list += length;
    list += strspn(list, " \t\n");
  }
}

/* Is `name` divided, so that its parts "name.0" and so on are listed too? */
static bool has_parts(const braid_device_info *infos, size_t count, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < count; i++)
    if (strncmp(infos[i].name, name, length) == 0 && infos[i].name[length] == '.') return true;
  return false;
}

/* The devices that the file adds to those of the backends. */
static void add_platform(const char *path) {
  size_t before, count;
  if (braid_registry_devices(all.registry, NULL, 0, &before) != BRAID_OK ||
      braid_registry_load_platform(all.registry, path) != BRAID_OK ||
      braid_registry_devices(all.registry, NULL, 0, &count) != BRAID_OK) {
    fpga_log(FPGA_WARNING, "there are no devices: %s", braid_error_detail());
    return;
  }
  braid_device_info *infos = calloc(count + 1, sizeof *infos);
  if (infos && braid_registry_devices(all.registry, infos, count, &count) == BRAID_OK)
    for (size_t i = before; i < count; i++)
      if (!has_parts(infos, count, infos[i].name)) device_add(infos[i].name);
  free(infos);
  if (!all.count) fpga_log(FPGA_WARNING, "no device of %s can be opened", path);
}

/* Does the list have a device that is not the CPU? */
static bool names_others(const char *list) {
  while (list && *list) {
    list += strspn(list, " \t\n");
    if (*list && !fpga_device_is_cpu(list) && strncmp(list, "cpu ", 4) != 0) return true;
    list += strcspn(list, " \t\n");
  }
  return false;
}

/* TensorFlow loads this library for itself alone; backends of BRAID_PLUGINS look for the library's functions in it. */
static void find_symbols(void) {
  Dl_info info;
  if (getenv("BRAID_PLUGINS") && dladdr((void *)(uintptr_t)find_symbols, &info) && info.dli_fname)
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static void find_devices(void) {
  const char *platform = getenv("BRAID_TF_PLATFORM"), *list = getenv("BRAID_TF_DEVICES");
  if (braid_registry_create(NULL, &all.registry) != BRAID_OK) {
    fpga_log(FPGA_ERROR, "there are no devices: %s", braid_error_detail());
    return;
  }
  braid_registry_set_log(all.registry, &(braid_log){.write = log_library});
  find_symbols();
  if ((platform && *platform) || names_others(list)) fpga_load_drivers();
  if (braid_registry_load_list(all.registry, getenv("BRAID_PLUGINS")) != BRAID_OK)
    fpga_log(FPGA_WARNING, "BRAID_PLUGINS: %s", braid_error_detail());
  if (platform && *platform && list && braid_registry_load_platform(all.registry, platform) != BRAID_OK)
    fpga_log(FPGA_WARNING, "BRAID_TF_PLATFORM: %s", braid_error_detail());
  if (list)
    add_list(list);
  else if (platform && *platform)
    add_platform(platform);
  else
    device_add("cpu");
}

size_t fpga_device_count(void) {
  pthread_once(&all.once, find_devices);
  return all.count;
}

fpga_device *fpga_device_get(size_t ordinal) {
  return ordinal < fpga_device_count() ? all.devices[ordinal] : NULL;
}

/* A line for each, for braid_tensorflow.devices(). Returns the bytes of all of it, as snprintf does. */
size_t braid_tf_devices(char *text, size_t bytes) {
  size_t used = 0;
  if (bytes) text[0] = '\0';
  for (size_t i = 0; i < fpga_device_count(); i++) {
    size_t room = used < bytes ? bytes - used : 0;
    used += (size_t)snprintf(room ? text + used : NULL, room, "%s\n", all.devices[i]->spec);
  }
  return used;
}

void fpga_device_make_room(fpga_device *device) {
  if (fpga_stream_is_job()) return;
  fpga_device_wait(device);
  fpga_memory_trim(device->memory);
}

char *fpga_memory_describe(const fpga_device *device, uint64_t wanted, char *text, size_t bytes) {
  fpga_memory_stats stats = fpga_memory_get_stats(device->memory);
  char limit[64] = "the machine has no more";
  if (stats.limit) snprintf(limit, sizeof limit, "BRAID_TF_MEMORY allows %lld", (long long)stats.limit);
  snprintf(text, bytes, "FPGA:%d (%s) is out of memory: %llu bytes requested, %lld in use, %lld by prepared ops, %s",
           device->ordinal, device->spec, (unsigned long long)wanted, (long long)stats.used, (long long)stats.held,
           limit);
  return text;
}

/* --- failures of queued work ---------------------------------------------------------------------------------------
 */
void fpga_device_fail(fpga_device *device, TF_Code code, const char *detail) {
  pthread_mutex_lock(&device->lock);
  if (!device->failed) {
    device->code = code;
    snprintf(device->detail, sizeof device->detail, "%s", detail);
    __atomic_store_n(&device->failed, true, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&device->lock);
}

void fpga_device_pass_failure(fpga_device *from, const void *address) {
  if (!__atomic_load_n(&from->failed, __ATOMIC_ACQUIRE)) return;
  char text[FPGA_DETAIL];
  pthread_mutex_lock(&from->lock);
  bool failed = from->failed;
  TF_Code code = from->code;
  snprintf(text, sizeof text, "%s", from->detail);
  pthread_mutex_unlock(&from->lock);
  for (size_t i = 0; failed && i < all.count; i++)
    if (all.devices[i] != from && fpga_memory_has(all.devices[i]->memory, address))
      fpga_device_fail(all.devices[i], code, text);
}

bool fpga_device_take_failure(fpga_device *device, TF_Status *status) {
  if (!__atomic_load_n(&device->failed, __ATOMIC_ACQUIRE)) return false;
  pthread_mutex_lock(&device->lock);
  bool failed = device->failed;
  if (failed) {
    char text[FPGA_DETAIL + 64];
    snprintf(text, sizeof text, "%s", device->detail);
    TF_SetStatus(status, device->code, text);
  }
  device->failed = false;
  pthread_mutex_unlock(&device->lock);
  return failed;
}
