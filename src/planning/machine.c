#include "planning/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"

enum {
  kBucketMegabytes = 25, /* as in PyTorch's DistributedDataParallel */
  kDevices = 64,
  kCount = 16384,
  kNameBytes = 24,
  kTextBytes = 1024,
  kPathBytes = 4096
};

static const cyaml_schema_field_t kClockFields[] = {
    CYAML_FIELD_FLOAT("mhz", CYAML_FLAG_DEFAULT, braid_modelled_clock, mhz),
    CYAML_FIELD_FLOAT("seconds", CYAML_FLAG_DEFAULT, braid_modelled_clock, seconds),
    CYAML_FIELD_FLOAT("watts", CYAML_FLAG_DEFAULT, braid_modelled_clock, watts),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kClock = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_modelled_clock, kClockFields)};

static const cyaml_schema_field_t kLinkFields[] = {
    CYAML_FIELD_FLOAT("latency_ms", CYAML_FLAG_OPTIONAL, braid_modelled_link, latency_ms),
    CYAML_FIELD_FLOAT("gigabytes_per_second", CYAML_FLAG_DEFAULT, braid_modelled_link, gigabytes_per_second),
    CYAML_FIELD_BOOL("shared", CYAML_FLAG_OPTIONAL, braid_modelled_link, shared),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kSlowdownFields[] = {
    CYAML_FIELD_FLOAT_PTR("beside", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_slowdown, beside),
    CYAML_FIELD_FLOAT_PTR("traffic", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_slowdown, traffic),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kExchangeFields[] = {
    CYAML_FIELD_FLOAT("latency_ms", CYAML_FLAG_OPTIONAL, braid_modelled_exchange, latency_ms),
    CYAML_FIELD_FLOAT("gigabytes_per_second", CYAML_FLAG_DEFAULT, braid_modelled_exchange, gigabytes_per_second),
    CYAML_FIELD_FLOAT_PTR("bucket_megabytes", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_exchange,
                          bucket),
    CYAML_FIELD_FLOAT_PTR("watts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_exchange, watts),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kDeviceFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_modelled_device, name, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("class", CYAML_FLAG_POINTER, braid_modelled_device, class, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("profile", CYAML_FLAG_POINTER, braid_modelled_device, profile, 1, kNameBytes - 1),
    CYAML_FIELD_INT_PTR("count", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, counted),
    CYAML_FIELD_FLOAT_PTR("idle_watts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, idle),
    CYAML_FIELD_FLOAT_PTR("cap_watts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, cap),
    CYAML_FIELD_FLOAT_PTR("memory_gigabytes", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, memory),
    CYAML_FIELD_FLOAT("clock_change_ms", CYAML_FLAG_OPTIONAL, braid_modelled_device, clock_change_ms),
    CYAML_FIELD_MAPPING_PTR("link", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, link, kLinkFields),
    CYAML_FIELD_MAPPING_PTR("slowdown", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, slowdown,
                            kSlowdownFields),
    CYAML_FIELD_SEQUENCE("clocks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_modelled_device, clocks, &kClock, 1,
                         BRAID_MODELLED_CLOCKS),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kDevice = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_modelled_device, kDeviceFields)};

static const cyaml_schema_value_t kAssumption = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, kTextBytes - 1)};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_machine_file, name, 1, kTextBytes - 1),
    CYAML_FIELD_STRING_PTR("profile", CYAML_FLAG_POINTER, braid_machine_file, profile, 1, kTextBytes - 1),
    CYAML_FIELD_SEQUENCE("assumptions", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_machine_file, assumptions,
                         &kAssumption, 0, kDevices),
    CYAML_FIELD_FLOAT("host_watts", CYAML_FLAG_OPTIONAL, braid_machine_file, host_watts),
    CYAML_FIELD_FLOAT_PTR("cap_watts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_machine_file, cap),
    CYAML_FIELD_MAPPING_PTR("exchange", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_machine_file, exchange,
                            kExchangeFields),
    CYAML_FIELD_SEQUENCE("devices", CYAML_FLAG_POINTER, braid_machine_file, devices, &kDevice, 1, kDevices),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kFile = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_machine_file, kFields)};

/* --- checking: *path leads to what is refused ----------------------------------------------------------------------
 */
typedef struct place {
  char path[96];
} place;

static braid_status check_number(const char *key, double value, double least) {
  if (value >= least && value < 1e9) return BRAID_OK; /* not of NAN */
  return braid_fail(BRAID_INVALID_FILE, "%s is %g, a number from %g to 1e9 is expected", key, value, least);
}

/* What the file leaves out is `otherwise`. */
static braid_status read_optional(const char *key, const double *given, double least, double otherwise, double *out) {
  *out = given ? *given : otherwise;
  return given ? check_number(key, *given, least) : BRAID_OK;
}

braid_device_class braid_modelled_class(const char *name) {
  static const char *const kClasses[] = {"other", "cpu", "gpu", "fpga"};
  for (int i = 0; i < 4; i++)
    if (strcmp(name, kClasses[i]) == 0) return (braid_device_class)i;
  return BRAID_CLASS_OTHER;
}

static braid_status check_clocks(const braid_modelled_device *device, unsigned index, place *at) {
  for (unsigned i = 0; i < device->clocks_count; i++) {
    const braid_modelled_clock *clock = &device->clocks[i];
    snprintf(at->path, sizeof at->path, "devices/%u/clocks/%u", index, i);
    BRAID_TRY(check_number("mhz", clock->mhz, 1e-3));
    BRAID_TRY(check_number("seconds", clock->seconds, 1e-3));
    BRAID_TRY(check_number("watts", clock->watts, 1e-3));
    if (i && clock->seconds < device->clocks[i - 1].seconds)
      return braid_fail(BRAID_INVALID_FILE,
                        "seconds is %g at %g MHz and %g at %g MHz: a lower clock is no faster than a higher one",
                        clock->seconds, clock->mhz, device->clocks[i - 1].seconds, device->clocks[i - 1].mhz);
    if (i ? clock->mhz >= device->clocks[i - 1].mhz : clock->seconds != 1 || clock->watts != 1)
      return braid_fail(BRAID_INVALID_FILE, i ? "clocks go from the highest to the lowest"
                                              : "the first clock is the profile's: its seconds and watts are 1");
  }
  return BRAID_OK;
}

static braid_status check_device(braid_machine_file *file, unsigned index, place *at) {
  braid_modelled_device *device = &file->devices[index];
  snprintf(at->path, sizeof at->path, "devices/%u/name", index);
  if (strspn(device->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(device->name))
    return braid_fail(BRAID_INVALID_FILE, "device name \"%s\": letters, digits, '_' and '-' are expected",
                      device->name);
  for (unsigned k = 0; k < file->devices_count; k++) { /* several of a kind are numbered: gpu0, gpu1 */
    const char *name = file->devices[k].name;
    size_t length = strlen(name),
           digits = strspn(device->name + (strlen(device->name) < length ? 0 : length), "0123456789");
    bool same = k < index && strcmp(name, device->name) == 0;
    bool several = file->devices[k].counted && *file->devices[k].counted > 1;
    bool numbered = k != index && several && strncmp(name, device->name, length) == 0 && digits &&
                    strlen(device->name) == length + digits;
    if (same || numbered) return braid_fail(BRAID_INVALID_FILE, "there are two devices named %s", device->name);
  }
  snprintf(at->path, sizeof at->path, "devices/%u/class", index);
  if (braid_modelled_class(device->class) == BRAID_CLASS_OTHER && strcmp(device->class, "other") != 0)
    return braid_fail(BRAID_INVALID_FILE, "class \"%s\": cpu, gpu, fpga or other is expected", device->class);
  snprintf(at->path, sizeof at->path, "devices/%u/count", index);
  device->count = device->counted ? *device->counted : 1;
  if (device->count < 1 || device->count > kCount)
    return braid_fail(BRAID_INVALID_FILE, "device %s: %lld of them, 1 to %d are expected", device->name,
                      (long long)device->count, kCount);
  snprintf(at->path, sizeof at->path, "devices/%u/idle_watts", index);
  device->idle_watts = device->idle ? *device->idle : NAN;
  if (device->idle) BRAID_TRY(check_number("idle_watts", *device->idle, 0));
  snprintf(at->path, sizeof at->path, "devices/%u/cap_watts", index);
  BRAID_TRY(read_optional("cap_watts", device->cap, 1e-3, NAN, &device->cap_watts));
  snprintf(at->path, sizeof at->path, "devices/%u/memory_gigabytes", index);
  BRAID_TRY(read_optional("memory_gigabytes", device->memory, 1e-6, INFINITY, &device->memory_gigabytes));
  if (device->memory && !device->link)
    return braid_fail(BRAID_INVALID_FILE,
                      "device %s: memory_gigabytes, and no link: it works in the host's memory, which has no limit",
                      device->name);
  snprintf(at->path, sizeof at->path, "devices/%u/clock_change_ms", index);
  BRAID_TRY(check_number("clock_change_ms", device->clock_change_ms, 0));
  snprintf(at->path, sizeof at->path, "devices/%u/link", index);
  if (device->link) {
    BRAID_TRY(check_number("latency_ms", device->link->latency_ms, 0));
    BRAID_TRY(check_number("gigabytes_per_second", device->link->gigabytes_per_second, 1e-6));
  }
  snprintf(at->path, sizeof at->path, "devices/%u/slowdown", index);
  if (device->slowdown) {
    if (device->slowdown->beside) BRAID_TRY(check_number("beside", *device->slowdown->beside, 0));
    if (device->slowdown->traffic) BRAID_TRY(check_number("traffic", *device->slowdown->traffic, 0));
  }
  return check_clocks(device, index, at);
}

size_t braid_machine_device_count(const braid_machine_file *file) {
  size_t count = 0;
  for (unsigned i = 0; i < file->devices_count; i++) count += (size_t)file->devices[i].count;
  return count;
}

int64_t braid_machine_gpu_count(const braid_machine_file *file) {
  int64_t count = 0;
  for (unsigned i = 0; i < file->devices_count; i++)
    if (braid_modelled_class(file->devices[i].class) == BRAID_CLASS_GPU) count += file->devices[i].count;
  return count;
}

static braid_status check_exchange(braid_machine_file *file, place *at) {
  braid_modelled_exchange *exchange = file->exchange;
  snprintf(at->path, sizeof at->path, "exchange");
  if (!exchange) return BRAID_OK;
  BRAID_TRY(check_number("latency_ms", exchange->latency_ms, 0));
  BRAID_TRY(check_number("gigabytes_per_second", exchange->gigabytes_per_second, 1e-6));
  BRAID_TRY(read_optional("bucket_megabytes", exchange->bucket, 1e-6, kBucketMegabytes, &exchange->bucket_megabytes));
  if (exchange->watts) BRAID_TRY(check_number("watts", *exchange->watts, 0));
  if (braid_machine_gpu_count(file) > 1) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "an exchange of gradients, and not more than one GPU");
}

static braid_status check_file(braid_machine_file *file, place *at) {
  for (unsigned i = 0; i < file->devices_count; i++) BRAID_TRY(check_device(file, i, at));
  BRAID_TRY(check_exchange(file, at));
  snprintf(at->path, sizeof at->path, "cap_watts");
  BRAID_TRY(read_optional("cap_watts", file->cap, 1e-3, NAN, &file->cap_watts));
  snprintf(at->path, sizeof at->path, "host_watts");
  BRAID_TRY(check_number("host_watts", file->host_watts, 0));
  snprintf(at->path, sizeof at->path, "devices");
  if (braid_machine_device_count(file) > kCount)
    return braid_fail(BRAID_INVALID_FILE, "%zu devices, at most %d are expected", braid_machine_device_count(file),
                      kCount);
  return BRAID_OK;
}

braid_status braid_machine_file_parse(const char *name, const void *text, size_t bytes, braid_machine_file **out) {
  void *document;
  place at;
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kFile, &document));
  braid_status status = check_file(document, &at);
  if (status == BRAID_OK) {
    *out = document;
    return BRAID_OK;
  }
  status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, at.path));
  braid_machine_file_free(document);
  return status;
}

void braid_machine_file_free(braid_machine_file *file) {
  braid_yaml_free(&kFile, file);
}

/* --- a machine: the file and its profile ---------------------------------------------------------------------------
 */
static const braid_planning_file *find_text(const braid_planning_file *texts, size_t count, const char *name) {
  size_t length = strlen(name);
  if (length > 5 && strcmp(name + length - 5, ".yaml") == 0) length -= 5;
  for (size_t i = 0; i < count; i++)
    if (strlen(texts[i].name) == length && strncmp(texts[i].name, name, length) == 0) return &texts[i];
  return NULL;
}

/* Every device has rows in the profile. */
static braid_status check_profiles(const braid_modelled_machine *machine, place *at) {
  for (unsigned d = 0; d < machine->file->devices_count; d++) {
    bool found = false;
    for (unsigned i = 0; i < machine->profile->rows_count && !found; i++)
      found = strcmp(machine->profile->rows[i].device, machine->file->devices[d].profile) == 0;
    snprintf(at->path, sizeof at->path, "devices/%u/profile", d);
    if (!found)
      return braid_fail(BRAID_INVALID_FILE, "device %s: the profile %.200s has no rows of \"%s\"",
                        machine->file->devices[d].name, machine->file->profile, machine->file->devices[d].profile);
  }
  return BRAID_OK;
}

/* What an operation draws has the idle power in it. A file whose idle power is the larger one is mistaken; what was
 * measured may lie below it by the error of both, but not all of it. */
static braid_status check_idle(const braid_modelled_machine *machine, unsigned index, place *at) {
  const braid_modelled_device *device = &machine->file->devices[index];
  const braid_profile *profile = machine->profile;
  const braid_profile_row *below = NULL;
  bool above = false;
  for (unsigned i = 0; i < profile->rows_count; i++) {
    const braid_profile_row *row = &profile->rows[i];
    if (isnan(row->average_watts) || strcmp(row->device, device->profile) != 0) continue;
    bool is_below = row->average_watts < device->idle_watts * (double)row->devices; /* not of NAN */
    if (is_below && !below) below = row;
    above |= !is_below;
  }
  if (!below || (profile->arena && above)) return BRAID_OK;
  snprintf(at->path, sizeof at->path, "devices/%u/idle_watts", index);
  return braid_fail(
      BRAID_INVALID_FILE,
      "device %s: idle_watts is %g, more than the %g W that %s draws at %g bytes on %lld of them; what an "
      "operation draws has the idle power in it",
      device->name, device->idle_watts, below->average_watts, below->op, below->bytes, (long long)below->devices);
}

static braid_status check_machine(const braid_modelled_machine *machine, const char *name, const void *text,
                                  size_t bytes) {
  place at = {""};
  braid_status status = check_profiles(machine, &at);
  for (unsigned d = 0; d < machine->file->devices_count && status == BRAID_OK; d++)
    status = check_idle(machine, d, &at);
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, at.path));
}

/* `file`: of the platform, to say where it names what cannot be opened. */
static braid_status load_profile_beside(braid_modelled_machine *machine, const char *path,
                                        const braid_file_view *file) {
  char beside[kPathBytes];
  const char *slash = strrchr(path, '/');
  int folder = slash && machine->file->profile[0] != '/' ? (int)(slash - path) + 1 : 0;
  braid_file_view view;
  if (snprintf(beside, sizeof beside, "%.*s%s", folder, path, machine->file->profile) >= (int)sizeof beside)
    return braid_fail(BRAID_INVALID_FILE, "%.200s: the path of its profile is too long", path);
  if (braid_profile_is_database(machine->allocator, beside))
    return braid_profile_read_database(machine->allocator, beside, &machine->profile);
  braid_status status = braid_file_open(machine->allocator, beside, BRAID_YAML_BYTES, &view);
  if (status == BRAID_NO_MEMORY) return status;
  if (status != BRAID_OK)
    return braid_fail_prefix(status, "%.200s, line %zu: its profile", path,
                             braid_yaml_line(file->data, file->bytes, "profile"));
  status = braid_profile_parse(beside, view.data, view.bytes, &machine->profile);
  braid_file_close(&view);
  return status;
}

static braid_status load_named(braid_modelled_machine *machine, const char *name) {
  const braid_planning_file *text = find_text(braid_platform_texts, braid_platform_text_count, name);
  if (!text) {
    char list[512] = "";
    for (size_t i = 0, used = 0; i < braid_platform_text_count && used < sizeof list; i++)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", braid_platform_texts[i].name);
    return braid_fail(BRAID_NOT_FOUND,
                      "there is no platform \"%.100s\"; there are %s, and files whose names end in .yaml", name, list);
  }
  BRAID_TRY(braid_machine_file_parse(text->name, text->text, text->bytes, &machine->file));
  const char *slash = strrchr(machine->file->profile, '/');
  const char *profile = slash ? slash + 1 : machine->file->profile;
  const braid_planning_file *rows = find_text(braid_profile_texts, braid_profile_text_count, profile);
  if (!rows) return braid_fail(BRAID_NOT_FOUND, "%s: there is no profile \"%.100s\"", name, machine->file->profile);
  BRAID_TRY(braid_profile_parse(rows->name, rows->text, rows->bytes, &machine->profile));
  return check_machine(machine, name, text->text, text->bytes);
}

static bool is_path(const char *name) {
  const char *dot = strrchr(name, '.');
  return strchr(name, '/') || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

static braid_status load(braid_modelled_machine *machine, const char *name) {
  braid_file_view view;
  if (!is_path(name)) return load_named(machine, name);
  BRAID_TRY(braid_file_open(machine->allocator, name, BRAID_YAML_BYTES, &view));
  braid_status status = braid_machine_file_parse(name, view.data, view.bytes, &machine->file);
  if (status == BRAID_OK) status = load_profile_beside(machine, name, &view);
  if (status == BRAID_OK) status = check_machine(machine, name, view.data, view.bytes);
  braid_file_close(&view);
  return status;
}

static braid_status finish_load(braid_modelled_machine *machine, braid_status status, braid_modelled_machine **out) {
  if (status != BRAID_OK) {
    braid_modelled_machine_destroy(machine);
    return status;
  }
  machine->thresholds = braid_machine_thresholds(machine->file, machine->profile);
  *out = machine;
  return BRAID_OK;
}

braid_status braid_modelled_machine_load(const braid_allocator *allocator, const char *path_or_name,
                                         braid_modelled_machine **out) {
  *out = NULL;
  braid_modelled_machine *machine = braid_zalloc(allocator, sizeof *machine);
  if (!machine) return BRAID_NO_MEMORY;
  machine->allocator = allocator;
  return finish_load(machine, load(machine, path_or_name), out);
}

braid_status braid_modelled_machine_make(const braid_allocator *allocator, const char *name, const void *text,
                                         size_t bytes, braid_profile *profile, braid_modelled_machine **out) {
  *out = NULL;
  braid_modelled_machine *machine = braid_zalloc(allocator, sizeof *machine);
  if (!machine) {
    braid_profile_free(profile);
    return BRAID_NO_MEMORY;
  }
  machine->allocator = allocator;
  machine->profile = profile;
  braid_status status = braid_machine_file_parse(name, text, bytes, &machine->file);
  if (status == BRAID_OK) status = check_machine(machine, name, text, bytes);
  return finish_load(machine, status, out);
}

braid_modelled_thresholds braid_modelled_machine_thresholds(const braid_modelled_machine *machine) {
  return machine->thresholds;
}

void braid_modelled_machine_destroy(braid_modelled_machine *machine) {
  if (!machine) return;
  braid_machine_file_free(machine->file);
  braid_profile_free(machine->profile);
  braid_free(machine->allocator, machine);
}

const char *braid_modelled_machine_name(const braid_modelled_machine *machine) {
  return machine->file->name;
}

void braid_modelled_machine_vary(braid_modelled_machine *machine, const braid_modelled_variation *v) {
  for (unsigned i = 0; i < machine->file->devices_count; i++) {
    braid_modelled_device *device = &machine->file->devices[i];
    device->idle_watts *= v->idle_watts;
    if (!device->link) continue;
    device->link->latency_ms *= v->link_latency;
    device->link->gigabytes_per_second *= v->link_bandwidth;
  }
  if (machine->file->exchange) {
    machine->file->exchange->latency_ms *= v->link_latency;
    machine->file->exchange->gigabytes_per_second *= v->link_bandwidth;
  }
  for (unsigned i = 0; i < machine->profile->rows_count; i++) {
    braid_profile_row *row = &machine->profile->rows[i];
    if (!row->size) continue;
    if (strcmp(row->size, "assumed") == 0) row->ms *= v->assumed_ms;
    bool named = v->op && strcmp(row->op, v->op) == 0 && strcmp(row->device, v->device) == 0;
    if (named && strcmp(row->size, v->size) == 0) row->ms = v->ms;
  }
}

int64_t braid_modelled_machine_replicas(const braid_modelled_machine *machine) {
  return machine->file->exchange ? braid_machine_gpu_count(machine->file) : 1;
}

size_t braid_modelled_assumption_count(const braid_modelled_machine *machine) {
  return machine->file->assumptions_count;
}

const char *braid_modelled_assumption(const braid_modelled_machine *machine, size_t index) {
  return machine->file->assumptions[index];
}
