/* Backends, and the devices opened from them. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/detail.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "braid/group.h"
#include "device/kernel_index.h"
#include "device/platform.h"
#include "device/plugin.h"

#define BRAID_BACKEND(name) extern const braid_backend braid_backend_##name;
#include "backends.def"
#undef BRAID_BACKEND

static const braid_backend *const kBuiltIn[] = {
#define BRAID_BACKEND(name) &braid_backend_##name,
#include "backends.def"
#undef BRAID_BACKEND
};

struct braid_registry {
  const braid_allocator *allocator;
  braid_backend **backends; /* copies, which stay where they are */
  size_t count, capacity;
  braid_log log;
  braid_progress progress;
  braid_group *group; /* NULL: none */
  char *cache;        /* a folder; NULL: none */
  bool told;          /* atomic; that a device of it lacks something */
  braid_platform *platform;
  braid_device_info *named; /* what of the platform can be opened; NULL until somebody asks for the list */
  size_t named_count;
  void **plugins; /* handles */
  size_t plugin_count, plugin_capacity;
};

struct braid_device {
  const braid_allocator *allocator;
  const braid_backend *backend;
  void *self;
  char *cache; /* a folder of the backend's; NULL: none */
  braid_device_info info;
  braid_kernel_index kernels;
};

enum { kNameBytes = sizeof((braid_device_info *)0)->name, kOptionBytes = 512 };

/* --- plug-ins ------------------------------------------------------------------------------------------------------
 */
braid_status braid_registry_load(braid_registry *registry, const char *path) {
  void **plugins = braid_grow(registry->allocator, registry->plugins, registry->plugin_count,
                              &registry->plugin_capacity, sizeof *plugins);
  if (!plugins) return BRAID_NO_MEMORY;
  registry->plugins = plugins;
  void *handle;
  const braid_backend *backend;
  BRAID_TRY(braid_plugin_open(path, &handle, &backend));
  braid_status status = braid_registry_add(registry, backend);
  if (status == BRAID_OK) {
    plugins[registry->plugin_count++] = handle;
    return BRAID_OK;
  }
  status = braid_fail_prefix(status, "plug-in %.200s", path);
  braid_plugin_close(handle);
  return status;
}

braid_status braid_registry_load_list(braid_registry *registry, const char *list) {
  while (list && *list) {
    size_t length = strcspn(list, ":");
    char path[4096];
    if (length >= sizeof path) return braid_fail(BRAID_INVALID_ARGUMENT, "\"%.60s...\" is too long for a path", list);
    memcpy(path, list, length);
    path[length] = '\0';
    if (length) BRAID_TRY(braid_registry_load(registry, path));
    list += length + (list[length] == ':');
  }
  return BRAID_OK;
}

/* --- registry ------------------------------------------------------------------------------------------------------
 */
braid_status braid_registry_create(const braid_allocator *allocator, braid_registry **out) {
  *out = NULL;
  braid_registry *registry = braid_zalloc(allocator, sizeof *registry);
  if (!registry) return BRAID_NO_MEMORY;
  registry->allocator = allocator;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < sizeof kBuiltIn / sizeof *kBuiltIn; i++)
    status = braid_registry_add(registry, kBuiltIn[i]);
  if (status == BRAID_OK)
    *out = registry;
  else
    braid_registry_destroy(registry);
  return status;
}

void braid_registry_destroy(braid_registry *registry) {
  if (!registry) return;
  braid_platform_free(registry->platform);
  braid_free(registry->allocator, registry->cache);
  braid_free(registry->allocator, registry->named);
  for (size_t i = 0; i < registry->count; i++) braid_free(registry->allocator, registry->backends[i]);
  braid_free(registry->allocator, registry->backends);
  while (registry->plugin_count > 0) braid_plugin_close(registry->plugins[--registry->plugin_count]);
  braid_free(registry->allocator, registry->plugins);
  braid_free(registry->allocator, registry);
}

void braid_registry_set_log(braid_registry *registry, const braid_log *log) {
  registry->log = log ? *log : (braid_log){0};
}

const braid_log *braid_registry_get_log(const braid_registry *registry) {
  return registry ? &registry->log : NULL;
}

void braid_registry_set_progress(braid_registry *registry, const braid_progress *progress) {
  registry->progress = progress ? *progress : (braid_progress){0};
}

const braid_progress *braid_registry_get_progress(const braid_registry *registry) {
  return registry ? &registry->progress : NULL;
}

void braid_registry_set_group(braid_registry *registry, braid_group *group) {
  registry->group = group;
}

braid_group *braid_registry_get_group(const braid_registry *registry) {
  return registry ? registry->group : NULL;
}

braid_status braid_registry_set_cache(braid_registry *registry, const char *folder) {
  char *copy = folder ? braid_strdup(registry->allocator, folder) : NULL;
  if (folder && !copy) return BRAID_NO_MEMORY;
  braid_free(registry->allocator, registry->cache);
  registry->cache = copy;
  return BRAID_OK;
}

static const char *missing_entry(const braid_backend *backend) {
  if (!backend->name) return "name";
  if (!backend->enumerate) return "enumerate";
  if (!backend->open) return "open";
  if (!backend->close) return "close";
  if (!backend->info) return "info";
  if (!backend->kernels) return "kernels";
  if (!backend->prepare) return "prepare";
  if (!backend->discard) return "discard";
  if (!backend->buffer_create) return "buffer_create";
  if (!backend->buffer_destroy) return "buffer_destroy";
  if (!backend->queue_create) return "queue_create";
  if (!backend->queue_destroy) return "queue_destroy";
  if (!backend->submit) return "submit";
  if (backend->record && !backend->erase) return "erase (with record)";
  if (backend->record && !backend->replay) return "replay (with record)";
  if (backend->run && !backend->record) return "record (with run)";
  if (backend->claim_regions && !backend->query_region) return "query_region (with claim_regions)";
  return NULL;
}

/* The table as far as the backend has it, in one of ours. A longer one is of a later header: what it has besides is
 * optional, and not known here. */
static braid_status copy_table(const braid_backend *given, braid_backend *out) {
  static const size_t kFirst = offsetof(braid_backend, read_energy) + sizeof given->read_energy;
  if (given->abi != BRAID_DEVICE_ABI)
    return braid_fail(BRAID_UNSUPPORTED, "a backend was built for version %u of the device contract, this is %d",
                      given->abi, BRAID_DEVICE_ABI);
  size_t bytes = given->size ? given->size : kFirst;
  if (bytes < offsetof(braid_backend, buffer_map))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a backend's table says that it has %zu bytes, required entries take %zu",
                      bytes, offsetof(braid_backend, buffer_map));
  if (bytes % sizeof(void *) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a backend's table says that it has %zu bytes, which end inside an entry",
                      bytes);
  *out = (braid_backend){0};
  memcpy(out, given, bytes < sizeof *out ? bytes : sizeof *out);
  return BRAID_OK;
}

static braid_status check_table(const braid_registry *registry, const braid_backend *backend) {
  const char *missing = missing_entry(backend);
  if (missing)
    return braid_fail(BRAID_INVALID_ARGUMENT, "backend %.40s lacks the required entry %s",
                      backend->name ? backend->name : "(unnamed)", missing);
  for (size_t i = 0; i < registry->count; i++)
    if (strcmp(registry->backends[i]->name, backend->name) == 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "a backend named %.40s is registered already", backend->name);
  return BRAID_OK;
}

braid_status braid_registry_add(braid_registry *registry, const braid_backend *backend) {
  if (!backend) return braid_fail(BRAID_INVALID_ARGUMENT, "no backend given");
  braid_backend table;
  BRAID_TRY(copy_table(backend, &table));
  BRAID_TRY(check_table(registry, &table));
  braid_backend **backends =
      braid_grow(registry->allocator, registry->backends, registry->count, &registry->capacity, sizeof *backends);
  if (!backends) return BRAID_NO_MEMORY;
  registry->backends = backends;
  braid_backend *copy = braid_alloc(registry->allocator, sizeof *copy);
  if (!copy) return BRAID_NO_MEMORY;
  *copy = table;
  backends[registry->count++] = copy;
  return BRAID_OK;
}

braid_status braid_registry_load_platform(braid_registry *registry, const char *path) {
  if (registry->platform) return braid_fail(BRAID_INVALID_ARGUMENT, "%.200s: a platform file was read already", path);
  return braid_platform_load(registry->allocator, path, &registry->platform);
}

static braid_status list_backends(const braid_registry *registry, braid_device_info *infos, size_t capacity,
                                  size_t *count) {
  *count = 0;
  for (size_t i = 0; i < registry->count; i++) {
    size_t room = capacity > *count ? capacity - *count : 0, found = 0;
    braid_clear_detail();
    braid_status status = registry->backends[i]->enumerate(room ? infos + *count : NULL, room, &found);
    if (status != BRAID_OK) return braid_fail_prefix(status, "backend %s", registry->backends[i]->name);
    *count += found;
  }
  return BRAID_OK;
}

/* Opens a device of the platform, or a part of it, to see whether that can be done, and what it is then. */
static void try_named(braid_registry *registry, const braid_platform_device *from, int64_t part) {
  char name[kNameBytes];
  braid_device *device;
  if (part < 0)
    snprintf(name, sizeof name, "%s", from->name);
  else
    snprintf(name, sizeof name, "%s.%lld", from->name, (long long)part);
  if (braid_device_open(registry, name, &device) == BRAID_OK) {
    registry->named[registry->named_count++] = device->info;
    braid_device_close(device);
  } else {
    braid_log_write(&registry->log, BRAID_LOG_WARNING, "platform: %s is not listed, for it cannot be opened: %.600s",
                    name, braid_error_detail());
  }
}

static braid_status try_platform(braid_registry *registry) {
  const braid_platform *platform = registry->platform;
  size_t most = 0;
  if (!platform || registry->named) return BRAID_OK;
  for (unsigned i = 0; i < platform->devices_count; i++) most += (size_t)platform->devices[i].parts + 1;
  registry->named = braid_zalloc_array(registry->allocator, most + 1, sizeof *registry->named);
  if (!registry->named) return BRAID_NO_MEMORY;
  for (unsigned i = 0; i < platform->devices_count; i++)
    for (int64_t part = -1; part < platform->devices[i].parts; part++) try_named(registry, &platform->devices[i], part);
  return BRAID_OK;
}

braid_status braid_registry_devices(braid_registry *registry, braid_device_info *infos, size_t capacity,
                                    size_t *count) {
  BRAID_TRY(try_platform(registry));
  BRAID_TRY(list_backends(registry, infos, capacity, count));
  for (size_t i = 0; i < registry->named_count; i++, (*count)++)
    if (*count < capacity) infos[*count] = registry->named[i];
  return BRAID_OK;
}

const char *braid_registry_absence(const braid_registry *registry, size_t index, const char **why) {
  *why = NULL;
  for (size_t i = 0; i < registry->count; i++) {
    const braid_backend *backend = registry->backends[i];
    const char *sentence = backend->absence ? backend->absence() : NULL;
    if (!sentence || !sentence[0] || index-- > 0) continue;
    *why = sentence;
    return backend->name;
  }
  return NULL;
}

/* --- looking a name up ---------------------------------------------------------------------------------------------
 */
typedef struct place {
  const braid_backend *backend;
  size_t index;
} place;

/* Looks for `name` among what the backends list. Names seen go to `names` (for the message when there is none). A
 * backend that cannot enumerate is passed over: it must not stand in the way of the others. */
static braid_status find_listed(const braid_registry *registry, const char *name, braid_text *names, place *out) {
  *out = (place){NULL, 0};
  for (size_t i = 0; i < registry->count; i++) {
    const braid_backend *backend = registry->backends[i];
    size_t count = 0;
    if (backend->addressed && strcmp(backend->name, name) == 0) {
      *out = (place){backend, 0};
      return BRAID_OK;
    }
    if (backend->enumerate(NULL, 0, &count) != BRAID_OK || !count) continue;
    braid_device_info *infos = braid_zalloc_array(registry->allocator, count, sizeof *infos);
    if (!infos) return BRAID_NO_MEMORY;
    size_t capacity = count;
    braid_status status = backend->enumerate(infos, capacity, &count);
    for (size_t j = 0; status == BRAID_OK && !out->backend && j < count && j < capacity; j++) {
      if (strcmp(infos[j].name, name) == 0) *out = (place){backend, j};
      braid_text_printf(names, "%s%s", names->length ? ", " : "", infos[j].name);
    }
    braid_free(registry->allocator, infos);
    if (out->backend) return BRAID_OK;
  }
  return BRAID_OK;
}

/* "fpga0.1" with options "parts=4": fpga0 with "part=1,parts=4". False if the name has no such end. */
static bool split_share(const char *name, const char *options, char *base, char *joined) {
  const char *dot = strrchr(name, '.');
  int64_t part;
  if (!dot || !braid_parse_i64(dot + 1, &part) || part < 0) return false;
  snprintf(base, kNameBytes, "%.*s", (int)(dot - name), name);
  snprintf(joined, kOptionBytes, "part=%lld%s%s", (long long)part, *options ? "," : "", options);
  return true;
}

/* A name of the platform file: what it is made of, with its options before those given. */
static braid_status find_named(const braid_registry *registry, const char *name, char *options, braid_text *names,
                               place *out) {
  *out = (place){NULL, 0};
  int64_t part;
  const braid_platform_device *device = braid_platform_find(registry->platform, name, &part);
  if (!device) return BRAID_OK;
  char joined[kOptionBytes];
  if (!braid_platform_options(device, part, options, joined, sizeof joined))
    return braid_fail(BRAID_OUT_OF_RANGE, "device %s: its options are longer than %d bytes", name, kOptionBytes);
  memcpy(options, joined, sizeof joined);
  BRAID_TRY(find_listed(registry, device->device, names, out));
  if (out->backend) return BRAID_OK;
  return braid_fail(BRAID_NOT_FOUND, "device %s is made of %s, which is not there; there are: %s", name, device->device,
                    names->length ? names->data : "none");
}

static braid_status find_share(const braid_registry *registry, const char *name, char *options, braid_text *names,
                               place *out) {
  char base[kNameBytes], joined[kOptionBytes];
  if (!split_share(name, options, base, joined)) return BRAID_OK;
  if (strncmp(options, "part=", 5) == 0 || strstr(options, ",part="))
    return braid_fail(BRAID_INVALID_ARGUMENT, "device %s: its name says which share it is, so that part= can't", name);
  braid_text_deinit(names);
  braid_text_init(names, registry->allocator);
  braid_status status = find_listed(registry, base, names, out);
  if (out->backend) memcpy(options, joined, sizeof joined);
  return status;
}

static void add_named(const braid_platform *platform, braid_text *names) {
  for (unsigned i = 0; platform && i < platform->devices_count; i++) {
    const braid_platform_device *device = &platform->devices[i];
    braid_text_printf(names, "%s%s", names->length ? ", " : "", device->name);
    if (device->parts)
      braid_text_printf(names, ", %s.0 to %s.%lld", device->name, device->name, (long long)device->parts - 1);
  }
}

/* "; REASON" where the name is that of a backend without devices. */
static const char *absence_of(const braid_registry *registry, const char *name, char out[256]) {
  const char *backend, *why;
  out[0] = '\0';
  for (size_t i = 0; (backend = braid_registry_absence(registry, i, &why)); i++)
    if (strncmp(name, backend, strlen(backend)) == 0) snprintf(out, 256, "; %s", why);
  return out;
}

static braid_status find_place(const braid_registry *registry, const char *name, char *options, place *out) {
  braid_text names;
  char why[256];
  braid_text_init(&names, registry->allocator);
  braid_status status = find_named(registry, name, options, &names, out);
  if (status == BRAID_OK && !out->backend) status = find_listed(registry, name, &names, out);
  if (status == BRAID_OK && !out->backend) status = find_share(registry, name, options, &names, out);
  if (status == BRAID_OK && names.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK && !out->backend) {
    add_named(registry->platform, &names);
    status = braid_fail(BRAID_NOT_FOUND, "there is no device %.40s; there are: %s%s", name,
                        names.length ? names.data : "none", absence_of(registry, name, why));
  }
  braid_text_deinit(&names);
  return status;
}

/* --- devices -------------------------------------------------------------------------------------------------------
 */
static braid_status check_info(const braid_backend *backend, const braid_device_info *info) {
  size_t alignment = info->alignment, host = info->host_alignment;
  bool unified = info->memory == BRAID_MEMORY_UNIFIED;
  if (!info->name[0] || !info->max_queues || !alignment || (alignment & (alignment - 1)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "backend %s describes a device without name, queues or alignment",
                      backend->name);
  if (unified && (!backend->buffer_map || !host || (host & (host - 1)) || host > alignment))
    return braid_fail(BRAID_INVALID_ARGUMENT, "device %s has unified memory but no mapping or host alignment",
                      info->name);
  return BRAID_OK;
}

static braid_status open_at(braid_registry *registry, const char *name, const place *where, const char *options,
                            braid_device *device) {
  const braid_backend *backend = where->backend;
  braid_clear_detail();
  BRAID_TRY(backend->open(registry->allocator, where->index, *options ? options : NULL, &device->self));
  device->backend = backend;
  backend->info(device->self, &device->info);
  BRAID_TRY(check_info(backend, &device->info));
  int64_t part;
  if (braid_platform_find(registry->platform, name, &part))
    snprintf(device->info.name, sizeof device->info.name, "%s", name);
  size_t count = 0;
  const braid_kernel *const *kernels = backend->kernels(device->self, &count);
  return braid_kernel_index_init(&device->kernels, registry->allocator, kernels, count);
}

/* Tells the device of the program's group, log and cache, and the log what the device lacks: once, since the work is
 * done all the same. */
static braid_status set_host(braid_registry *registry, braid_device *device) {
  if (device->info.lacks[0] && !__atomic_exchange_n(&registry->told, true, __ATOMIC_RELAXED))
    braid_log_write(&registry->log, BRAID_LOG_WARNING, "%s: %s", device->info.name, device->info.lacks);
  if (device->backend->set_group) device->backend->set_group(device->self, registry->group);
  if (!device->backend->set_host) return BRAID_OK;
  if (registry->cache) {
    braid_text path;
    braid_text_init(&path, device->allocator);
    braid_text_printf(&path, "%s/%s", registry->cache, device->backend->name);
    device->cache = path.failed ? NULL : braid_strdup(device->allocator, path.data);
    braid_text_deinit(&path);
    if (!device->cache) return BRAID_NO_MEMORY;
  }
  device->backend->set_host(device->self, &registry->log, device->cache);
  return BRAID_OK;
}

braid_status braid_device_open(braid_registry *registry, const char *spec, braid_device **out) {
  *out = NULL;
  const char *colon = strchr(spec, ':');
  size_t name_length = colon ? (size_t)(colon - spec) : strlen(spec);
  char name[kNameBytes], options[kOptionBytes] = "";
  if (!name_length || name_length >= sizeof name || (colon && strlen(colon + 1) >= sizeof options / 2))
    return braid_fail(BRAID_INVALID_ARGUMENT, "device \"%.80s\": expected \"name\" or \"name:key=value,...\"", spec);
  memcpy(name, spec, name_length);
  name[name_length] = '\0';
  if (colon) snprintf(options, sizeof options, "%s", colon + 1);
  place where;
  BRAID_TRY(find_place(registry, name, options, &where));
  braid_device *device = braid_zalloc(registry->allocator, sizeof *device);
  if (!device) return BRAID_NO_MEMORY;
  device->allocator = registry->allocator;
  braid_status status = open_at(registry, name, &where, options, device);
  if (status == BRAID_OK) status = set_host(registry, device);
  if (status == BRAID_OK) {
    *out = device;
  } else {
    status = braid_fail_prefix(status, "device %s", name);
    braid_device_close(device);
  }
  return status;
}

void braid_device_close(braid_device *device) {
  if (!device) return;
  braid_kernel_index_deinit(&device->kernels);
  if (device->backend) device->backend->close(device->self);
  braid_free(device->allocator, device->cache);
  braid_free(device->allocator, device);
}

const braid_device_info *braid_device_get_info(const braid_device *device) {
  return &device->info;
}

const braid_backend *braid_device_backend(const braid_device *device) {
  return device->backend;
}

void *braid_device_self(const braid_device *device) {
  return device->self;
}

const braid_kernel *braid_device_find_kernel(const braid_device *device, const braid_node_desc *node, char *why,
                                             size_t why_bytes) {
  return braid_kernel_index_find(&device->kernels, device->backend, device->self, device->info.name, node, why,
                                 why_bytes);
}

size_t braid_device_visit_kernels(const braid_device *device, const braid_node_desc *node,
                                  void (*visit)(void *context, const braid_kernel *kernel, const char *why),
                                  void *context) {
  return braid_kernel_index_visit(&device->kernels, device->backend, device->self, node, visit, context);
}

const braid_kernel *braid_device_kernel(const braid_device *device, const braid_node_desc *node, const char *name) {
  return braid_kernel_index_named(&device->kernels, node, name);
}
