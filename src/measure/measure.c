#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "braid/version.h"
#include "measure/operation.h"
#include "runtime/machine.h"

enum { kSpecs = 2048 };

typedef struct campaign {
  const braid_allocator *allocator;
  braid_registry *registry;
  braid_profile_db *db;
  const braid_profile_options *options;
  braid_profile_report *report;
  braid_subjects subjects;
  braid_profile_list list; /* what was there */
  braid_beside *beside;
  char specs[kSpecs];
  size_t device_count;
} campaign;

void braid_profile_options_init(braid_profile_options *options) {
  *options = (braid_profile_options){.seconds = 0.3, .most_days = 90, .drift = 8, .checks = 3};
}

/* --- devices -------------------------------------------------------------------------------------------------------
 */
/* Whether the device has a kernel for some of the operations; one that cannot be opened has none. */
static bool has_kernels(const campaign *c, const char *name) {
  braid_device *device;
  size_t count = 0;
  bool found = false;
  if (braid_device_open(c->registry, name, &device) != BRAID_OK) return false;
  const braid_kernel *const *kernels = braid_device_backend(device)->kernels(braid_device_self(device), &count);
  for (size_t i = 0; i < c->subjects.count && !found; i++)
    for (size_t k = 0; k < count && !found; k++) found = strcmp(kernels[k]->op, c->subjects.items[i].op) == 0;
  braid_device_close(device);
  return found;
}

static braid_status list_devices(campaign *c) {
  enum { kMost = 64 };
  braid_device_info infos[kMost];
  size_t count, used = 0;
  if (c->options->devices) {
    if (snprintf(c->specs, sizeof c->specs, "%s", c->options->devices) >= (int)sizeof c->specs)
      return braid_fail(BRAID_INVALID_ARGUMENT, "the list of devices is too long");
    return BRAID_OK;
  }
  BRAID_TRY(braid_registry_devices(c->registry, infos, kMost, &count));
  for (size_t i = 0; i < count && i < kMost; i++)
    if (has_kernels(c, infos[i].name) && used + sizeof infos[i].name + 1 < sizeof c->specs)
      used += (size_t)snprintf(c->specs + used, sizeof c->specs - used, "%s%s", used ? " " : "", infos[i].name);
  return used ? BRAID_OK : braid_fail(BRAID_NOT_FOUND, "no device has a kernel for any of the operations");
}

static const braid_log *log_of(const campaign *c) {
  return braid_registry_get_log(c->registry);
}

/* Energies that a counter gave which is not believed any more go too. */
static braid_status put_device(campaign *c, const char *name, braid_bench *bench, const braid_identity *identity) {
  braid_profile_device device;
  const braid_meter *meter = &bench->meter;
  char date[24];
  braid_profile_now(date);
  braid_table_clear(&braid_profile_device_table, &device);
  device.device = name;
  device.kind = bench->info->kind;
  device.description = identity->description;
  device.software = identity->software;
  device.version = identity->version;
  device.threads = identity->threads;
  device.memory = bench->info->memory == BRAID_MEMORY_SEPARATE ? "separate" : "unified";
  device.source = "measured";
  device.date = date;
  device.idle_watts = meter->refused ? NAN : meter->idle_watts;
  device.idle_watts_error = meter->refused ? NAN : meter->idle_watts_error;
  device.energy_source = meter->source;
  device.energy_note = meter->note[0] ? meter->note : NULL;
  device.window_seconds = meter->window;
  BRAID_TRY(braid_link_measure(bench->machine, c->allocator, &device.link_seconds, &device.link_bytes_per_second));
  BRAID_TRY(braid_profile_begin(c->db));
  braid_status status = braid_profile_put(c->db, &braid_profile_device_table, &device);
  if (status == BRAID_OK && meter->refused)
    status = braid_profile_run(c->db,
                               "UPDATE entries SET joules = NULL, joules_error = NULL, average_watts = NULL, "
                               "peak_watts = NULL, busy = NULL, energy_source = NULL "
                               "WHERE device = ?1 AND source = 'measured'",
                               name);
  return braid_profile_end(c->db, status);
}

/* --- entries -------------------------------------------------------------------------------------------------------
 */
static const braid_profile_entry *find_entry(const campaign *c, const char *device, const char *key,
                                             const char *beside) {
  for (size_t i = 0; i < c->list.entry_count; i++) {
    const braid_profile_entry *entry = &c->list.entries[i];
    if (strcmp(entry->key, key) == 0 && strcmp(entry->device, device) == 0 && strcmp(entry->beside, beside) == 0 &&
        strcmp(entry->source, "measured") == 0)
      return entry;
  }
  return NULL;
}

/* Both times are known. */
static void compare_times(campaign *c, const braid_profile_entry *before, braid_profile_entry *now) {
  now->previous_seconds = before->seconds;
  now->previous_date = before->date;
  now->drift = braid_drift(now->seconds, now->seconds_mad, before->seconds, before->seconds_mad);
  if (now->drift <= c->options->drift) return;
  c->report->drifting++;
  braid_log_write(log_of(c), BRAID_LOG_WARNING,
                  "%s: %s %.120s drifts: %.4g ms now, %.4g ms on %s, %.0f MADs apart (up to %g are taken)", now->device,
                  now->op, now->shapes, now->seconds * 1e3, before->seconds * 1e3, before->date, now->drift,
                  c->options->drift);
}

static braid_status measure_entry(campaign *c, braid_bench *bench, const braid_subject *subject, const char *name,
                                  const braid_identity *identity, const braid_profile_entry *before) {
  braid_profile_entry entry;
  braid_operation_texts texts;
  char date[24];
  bool refused = bench->meter.refused;
  braid_table_clear(&braid_profile_entry_table, &entry);
  entry.device = name;
  entry.devices = 1;
  entry.op = subject->op;
  entry.key = subject->key;
  entry.beside = c->beside ? braid_beside_name(c->beside) : "";
  entry.size = subject->size;
  entry.shapes = subject->shapes;
  entry.bytes = subject->bytes;
  entry.macs = subject->macs;
  entry.description = identity->description;
  entry.software = identity->software;
  entry.version = identity->version;
  entry.threads = identity->threads;
  entry.source = "measured";
  BRAID_TRY(braid_operation_measure(bench, subject, &texts, &entry));
  braid_profile_now(date);
  entry.date = date;
  if (!refused && bench->meter.refused) {
    braid_log_write(log_of(c), BRAID_LOG_WARNING, "%s: its energy is unknown: %s", name, bench->meter.note);
    BRAID_TRY(put_device(c, name, bench, identity));
  }
  if (before && !isnan(before->seconds) && !isnan(entry.seconds)) compare_times(c, before, &entry);
  BRAID_TRY(braid_profile_put(c->db, &braid_profile_entry_table, &entry));
  if (entry.why)
    c->report->unable++;
  else
    c->report->measured++;
  return BRAID_OK;
}

/* Of the entries that count, the oldest: have they changed meanwhile? */
static braid_status check_entries(campaign *c, braid_bench *bench, const char *name, const braid_identity *identity,
                                  bool *kept) {
  for (int check = 0; check < c->options->checks; check++) {
    const braid_profile_entry *oldest = NULL;
    size_t at = 0;
    for (size_t i = 0; i < c->subjects.count; i++) {
      const braid_profile_entry *entry =
          kept[i] ? find_entry(c, name, c->subjects.items[i].key, c->beside ? braid_beside_name(c->beside) : "") : NULL;
      if (!entry || isnan(entry->seconds)) continue;
      if (!oldest || strcmp(entry->date, oldest->date) < 0) oldest = entry, at = i;
    }
    if (!oldest) return BRAID_OK;
    kept[at] = false;
    bench->what = c->subjects.items[at].op;
    size_t measured = c->report->measured;
    BRAID_TRY(measure_entry(c, bench, &c->subjects.items[at], name, identity, oldest));
    c->report->measured = measured;
    c->report->checked++;
  }
  return BRAID_OK;
}

/* --- one device ----------------------------------------------------------------------------------------------------
 */
static braid_status measure_subjects(campaign *c, braid_bench *bench, const char *name, const braid_identity *identity,
                                     bool *kept) {
  for (size_t i = 0; i < c->subjects.count; i++) {
    const braid_subject *subject = &c->subjects.items[i];
    const braid_profile_entry *before =
        find_entry(c, name, subject->key, c->beside ? braid_beside_name(c->beside) : "");
    braid_stale stale = {""};
    if (before) braid_entry_check(before, identity, c->options->most_days, &stale);
    if (stale.why[0]) {
      c->report->stale++;
      braid_log_write(log_of(c), BRAID_LOG_INFO, "%s: %s %.120s is stale: %s", name, subject->op, subject->shapes,
                      stale.why);
    }
    kept[i] = before && !stale.why[0] && !c->options->again;
    bench->what = subject->op;
    BRAID_TRY(braid_bench_go_on(bench));
    if (kept[i])
      c->report->kept++;
    else /* what another driver took is no reason to speak of drift */
      BRAID_TRY(measure_entry(c, bench, subject, name, identity, stale.why[0] ? NULL : before));
    bench->done++;
  }
  return check_entries(c, bench, name, identity, kept);
}

static bool has_device(const campaign *c, const char *name, const braid_identity *identity) {
  for (size_t i = 0; i < c->list.device_count; i++) {
    const braid_profile_device *device = &c->list.devices[i];
    if (strcmp(device->device, name) != 0) continue;
    return strcmp(device->source, "measured") == 0 && device->software && device->description &&
           strcmp(device->software, identity->software) == 0 && strcmp(device->description, identity->description) == 0;
  }
  return false;
}

static braid_status check_source(const campaign *c, const char *name) {
  for (size_t i = 0; i < c->list.device_count; i++)
    if (strcmp(c->list.devices[i].device, name) == 0 && strcmp(c->list.devices[i].source, "measured") != 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%.200s has a device %.60s of another source already: %.100s",
                        c->db->path, name, c->list.devices[i].source);
  return BRAID_OK;
}

/* The meter is looked at each time, since what counts is whether it can be believed now; the rest of a device that is
 * known stays. Idle power is measured before anything runs. */
static braid_status measure_device(campaign *c, const char *name, size_t nth) {
  braid_bench bench = {.allocator = c->allocator, .options = c->options};
  braid_identity identity;
  const braid_machine_options options = {.devices = name, .threads = c->options->threads, .registry = c->registry};
  BRAID_TRY(check_source(c, name));
  BRAID_TRY(braid_machine_create(c->allocator, &options, &bench.machine));
  bench.info = bench.machine->devices[0].info;
  bench.done = nth * c->subjects.count;
  bench.total = c->device_count * c->subjects.count;
  bench.what = "idle power and transfers";
  /* Of OpenCL's CPU devices the kernels run in threads of this process, too. */
  bench.host_cycles = strcmp(bench.info->kind, "cpu") == 0;
  braid_identity_of(bench.machine->devices[0].device, c->options->threads, &identity);
  bool *kept = braid_zalloc_array(c->allocator, c->subjects.count + 1, sizeof *kept);
  braid_status status = kept ? braid_bench_go_on(&bench) : BRAID_NO_MEMORY;
  if (status == BRAID_OK && !c->beside) {
    braid_meter_init(&bench.meter, bench.machine->devices[0].device);
    status = braid_meter_measure_idle(&bench.meter);
  }
  if (status == BRAID_OK && bench.meter.refused)
    braid_log_write(log_of(c), BRAID_LOG_WARNING, "%s: its energy is unknown: %s", name, bench.meter.note);
  if (status == BRAID_OK && (!c->beside || !has_device(c, name, &identity)))
    status = put_device(c, name, &bench, &identity);
  if (status == BRAID_OK) status = measure_subjects(c, &bench, name, &identity, kept);
  braid_free(c->allocator, kept);
  braid_machine_release(bench.machine);
  return status;
}

/* --- all of them ---------------------------------------------------------------------------------------------------
 */
static braid_status start_beside(campaign *c) {
  if (!c->options->beside) return BRAID_OK;
  BRAID_TRY(braid_beside_start(c->registry, c->options->beside, c->options->threads, c->allocator, &c->beside));
  return BRAID_OK;
}

/* The next word of a list; false: there is none. */
static bool next_word(const char **at, char *out, size_t bytes) {
  *at += strspn(*at, " ");
  size_t length = strcspn(*at, " ");
  if (!length) return false;
  snprintf(out, bytes, "%.*s", (int)length, *at);
  *at += length;
  return true;
}

static braid_status check_device(braid_registry *registry, const char *name) {
  braid_device *device;
  BRAID_TRY(braid_device_open(registry, name, &device));
  braid_device_close(device);
  return BRAID_OK;
}

static bool is_beside(const campaign *c, const char *name) {
  return c->beside && strcmp(braid_beside_device(c->beside), name) == 0;
}

static braid_status measure_all(campaign *c) {
  char name[kSpecs];
  const char *at = c->specs;
  size_t nth = 0;
  while (next_word(&at, name, sizeof name)) c->device_count += !is_beside(c, name);
  if (!c->device_count)
    return braid_fail(BRAID_INVALID_ARGUMENT, "there is no device beside the one that is kept busy, %.100s",
                      c->beside ? braid_beside_device(c->beside) : c->specs);
  c->report->operations = c->device_count * c->subjects.count;
  at = c->specs;
  while (next_word(&at, name, sizeof name))
    if (!is_beside(c, name)) BRAID_TRY(measure_device(c, name, nth++));
  return BRAID_OK;
}

static braid_status list_work(campaign *c) {
  if (!(c->options->seconds > 0 && c->options->drift > 0 && c->options->most_days >= 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "seconds and MADs of a profile are above 0, and days at least 0");
  BRAID_TRY(braid_subjects_init(&c->subjects, c->allocator));
  if (c->options->graph) BRAID_TRY(braid_subjects_add_graph(&c->subjects, c->options->graph));
  if (c->options->ops) BRAID_TRY(braid_subjects_add_ops(&c->subjects, c->options->ops, c->options->sizes));
  return list_devices(c);
}

static braid_status check_work(campaign *c) {
  char name[kSpecs], beside[64] = "";
  size_t count = 0;
  if (c->options->beside) {
    BRAID_TRY(braid_beside_check(c->options->beside, c->allocator, beside, sizeof beside));
    BRAID_TRY(check_device(c->registry, beside));
  }
  BRAID_TRY(list_work(c));
  for (const char *at = c->specs; next_word(&at, name, sizeof name); count += strcmp(name, beside) != 0)
    BRAID_TRY(check_device(c->registry, name));
  return count ? BRAID_OK
               : braid_fail(BRAID_INVALID_ARGUMENT, "there is no device beside the one that is kept busy, %.100s",
                            beside);
}

braid_status braid_profile_options_check(braid_registry *registry, const braid_profile_options *options) {
  campaign c = {.registry = registry, .options = options};
  braid_status status = check_work(&c);
  braid_subjects_deinit(&c.subjects);
  return status;
}

static braid_status prepare_campaign(campaign *c) {
  BRAID_TRY(list_work(c));
  BRAID_TRY(braid_profile_list_create(c->db, c->allocator, &c->list));
  return start_beside(c);
}

braid_status braid_profile_measure(braid_registry *registry, braid_profile_db *db, const braid_profile_options *options,
                                   braid_profile_report *report) {
  *report = (braid_profile_report){0};
  campaign c = {.allocator = db->allocator, .registry = registry, .db = db, .options = options, .report = report};
  braid_status status = prepare_campaign(&c);
  if (status == BRAID_OK) status = measure_all(&c);
  char detail[512];
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  braid_status beside = braid_beside_stop(c.beside);
  braid_profile_list_deinit(&c.list);
  braid_subjects_deinit(&c.subjects);
  if (status == BRAID_OK) return beside;
  return detail[0] ? braid_fail(status, "%s", detail) : status;
}
