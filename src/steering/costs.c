#include "steering/costs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "measure/measure.h"

/* --- devices -------------------------------------------------------------------------------------------------------
 */
static braid_status split_specs(braid_costs *costs, const char *specs) {
  costs->specs = braid_arena_alloc(costs->arena, (size_t)kMaxDevices * sizeof *costs->specs);
  if (!costs->specs) return BRAID_NO_MEMORY;
  for (const char *at = specs + strspn(specs, " "); *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    if (costs->device_count == kMaxDevices)
      return braid_fail(BRAID_INVALID_ARGUMENT, "more than %d devices: %.200s", kMaxDevices, specs);
    const char *spec = braid_arena_text(costs->arena, at, length);
    if (!spec) return BRAID_NO_MEMORY;
    costs->specs[costs->device_count++] = spec;
    at += length;
  }
  return BRAID_OK;
}

static braid_status refuse_device(const braid_profile_list *list, const char *spec, const char *db_path) {
  char known[160] = "none";
  size_t used = 0;
  for (size_t i = 0; i < list->device_count && used < sizeof known; i++) {
    if (strcmp(list->devices[i].source, "measured") != 0) continue;
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", list->devices[i].device);
  }
  return braid_fail(BRAID_NOT_FOUND, "%.200s has no measurements of device %.80s; those that it has are of: %s",
                    db_path, spec, known);
}

/* The list's devices that the training has, in its order. */
static braid_status pick_devices(const braid_costs *costs, const braid_profile_list *list, const char *db_path,
                                 braid_profile_device *out) {
  for (size_t d = 0; d < costs->device_count; d++) {
    size_t i = 0;
    while (i < list->device_count &&
           (strcmp(list->devices[i].device, costs->specs[d]) != 0 || strcmp(list->devices[i].source, "measured") != 0))
      i++;
    if (i == list->device_count) return refuse_device(list, costs->specs[d], db_path);
    out[d] = list->devices[i];
  }
  return BRAID_OK;
}

static braid_status make_machine(braid_costs *costs, const braid_profile_list *list, braid_profile *profile,
                                 const char *db_path) {
  braid_profile_list own = *list;
  braid_text text;
  own.device_count = costs->device_count;
  own.devices = braid_arena_alloc(costs->arena, (costs->device_count + 1) * sizeof *own.devices);
  braid_status status = own.devices ? pick_devices(costs, list, db_path, own.devices) : BRAID_NO_MEMORY;
  braid_text_init(&text, costs->allocator);
  if (status == BRAID_OK) braid_platform_write(&own, "measured", &text);
  if (status == BRAID_OK && text.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    status = braid_modelled_machine_make(costs->allocator, db_path, text.data, text.length, profile, &costs->machine);
  else
    braid_profile_free(profile);
  braid_text_deinit(&text);
  return status;
}

/* --- operations ----------------------------------------------------------------------------------------------------
 */
static braid_status find_keys(braid_costs *costs) {
  const braid_graph *graph = costs->graph;
  bool training = braid_subject_is_training(graph);
  costs->keys = braid_arena_alloc(costs->arena, (graph->node_count + 1) * sizeof *costs->keys);
  if (!costs->keys) return BRAID_NO_MEMORY;
  _Static_assert(sizeof *costs->keys == BRAID_SUBJECT_KEY, "a key fits");
  BRAID_TRY(braid_name_map_create(costs->allocator, &costs->nodes));
  for (size_t n = 0; n < graph->node_count; n++) {
    if (braid_subject_is_view(graph, &graph->nodes[n])) continue;
    BRAID_TRY(braid_subject_key(graph, &graph->nodes[n], training, costs->keys[n]));
    BRAID_TRY(braid_name_map_set(costs->nodes, graph->nodes[n].name, (int64_t)n));
  }
  return BRAID_OK;
}

/* Room for a row of each operation on each device. */
static braid_status make_room(braid_costs *costs) {
  braid_profile *profile = costs->machine->profile;
  costs->row_capacity = profile->rows_count + costs->graph->node_count * costs->device_count;
  braid_profile_row *rows = braid_arena_alloc(profile->arena, (costs->row_capacity + 1) * sizeof *rows);
  if (!rows) return BRAID_NO_MEMORY;
  memcpy(rows, profile->rows, profile->rows_count * sizeof *rows);
  profile->rows = rows;
  return BRAID_OK;
}

braid_status braid_costs_init(braid_costs *costs, const braid_allocator *allocator, const braid_graph *graph,
                              const char *specs, braid_profile_db *db, const char *db_path) {
  braid_profile_list list = {0};
  braid_profile *profile = NULL;
  *costs = (braid_costs){.allocator = allocator, .graph = graph};
  BRAID_TRY(braid_arena_create(allocator, &costs->arena));
  BRAID_TRY(split_specs(costs, specs));
  BRAID_TRY(braid_profile_list_create(db, allocator, &list));
  braid_status status = braid_profile_from_database(db, allocator, &profile);
  if (status == BRAID_OK) status = make_machine(costs, &list, profile, db_path);
  braid_profile_list_deinit(&list);
  if (status == BRAID_OK) status = find_keys(costs);
  return status == BRAID_OK ? make_room(costs) : status;
}

void braid_costs_deinit(braid_costs *costs) {
  braid_name_map_destroy(costs->nodes);
  braid_modelled_machine_destroy(costs->machine);
  braid_arena_destroy(costs->arena);
  *costs = (braid_costs){0};
}

/* --- asking and correcting -----------------------------------------------------------------------------------------
 */
int64_t braid_costs_node(const braid_costs *costs, const char *name) {
  int64_t node;
  return name && braid_name_map_get(costs->nodes, name, &node) ? node : -1;
}

/* As forecasts look an operation up: as it was measured, else by rows of its size. */
static bool find_row(const braid_costs *costs, size_t node, size_t device, braid_profile_row *out) {
  const braid_profile *profile = costs->machine->profile;
  const braid_node *at = &costs->graph->nodes[node];
  const char *like, *name = costs->specs[device];
  if (!costs->keys[node][0]) return false;
  const braid_profile_row *exact = braid_profile_exact(profile, name, 1, costs->keys[node]);
  if (exact) {
    *out = *exact;
    return true;
  }
  if (braid_profile_refuses(profile, name, costs->keys[node])) return false;
  like = braid_profile_like(profile, name, at->op->name);
  return like && braid_profile_at(profile, name, 1, like, braid_subject_bytes(costs->graph, at), out);
}

double braid_costs_get(const braid_costs *costs, size_t node, size_t device) {
  braid_profile_row row;
  return find_row(costs, node, device, &row) ? row.ms * 1e-3 : NAN;
}

double braid_costs_sum(const braid_costs *costs, size_t device) {
  double sum = 0;
  for (size_t n = 0; n < costs->graph->node_count; n++)
    if (costs->keys[n][0]) sum += braid_costs_get(costs, n, device); /* NAN stays */
  return sum;
}

size_t braid_costs_missing(const braid_costs *costs, size_t device, size_t *all, const char **first) {
  size_t missing = 0;
  *all = 0;
  for (size_t n = 0; n < costs->graph->node_count; n++) {
    if (!costs->keys[n][0]) continue;
    ++*all;
    if (!isnan(braid_costs_get(costs, n, device)) ||
        braid_profile_refuses(costs->machine->profile, costs->specs[device], costs->keys[n]))
      continue;
    if (!missing++) *first = costs->graph->nodes[n].name;
  }
  return missing;
}

/* The operation's own row; one that only others stood for, or nothing, gets its own now. */
static braid_profile_row *own_row(braid_costs *costs, size_t node, size_t device) {
  braid_profile *profile = costs->machine->profile;
  braid_profile_row made;
  for (unsigned i = 0; i < profile->rows_count; i++) {
    braid_profile_row *row = &profile->rows[i];
    if (row->key && row->devices == 1 && strcmp(row->key, costs->keys[node]) == 0 &&
        strcmp(row->device, costs->specs[device]) == 0)
      return row;
  }
  if (profile->rows_count == costs->row_capacity) return NULL;
  if (!find_row(costs, node, device, &made))
    made = (braid_profile_row){.device = (char *)(uintptr_t)costs->specs[device],
                               .devices = 1,
                               .ms = NAN,
                               .average_watts = NAN,
                               .peak_watts = NAN,
                               .gigabytes_per_second = NAN,
                               .instructions_per_cycle = NAN};
  made.key = costs->keys[node];
  made.op = (char *)(uintptr_t)costs->graph->nodes[node].op->name; /* rows of files have text that could be changed */
  made.bytes = braid_subject_bytes(costs->graph, &costs->graph->nodes[node]);
  profile->keyed = true;
  profile->rows[profile->rows_count] = made;
  return &profile->rows[profile->rows_count++];
}

/* The mean over the nodes that are the same operation as this one and were measured; < 0: this is not the first. */
static double mean_of_equals(const braid_costs *costs, size_t node, const double *seconds) {
  double sum = 0;
  size_t count = 0;
  for (size_t n = 0; n < costs->graph->node_count; n++) {
    if (seconds[n] < 0 || strcmp(costs->keys[n], costs->keys[node]) != 0) continue;
    if (n < node) return -1;
    sum += seconds[n];
    count++;
  }
  return sum / (double)count;
}

braid_status braid_costs_correct(braid_costs *costs, size_t device, const double *seconds, double factor) {
  braid_profile *profile = costs->machine->profile;
  for (unsigned i = 0; i < profile->rows_count; i++)
    if (strcmp(profile->rows[i].device, costs->specs[device]) == 0) profile->rows[i].ms *= factor;
  for (size_t n = 0; n < costs->graph->node_count; n++) {
    if (seconds[n] < 0 || !costs->keys[n][0]) continue;
    double mean = mean_of_equals(costs, n, seconds);
    if (mean < 0) continue;
    braid_profile_row *row = own_row(costs, n, device);
    if (row) row->ms = fmax(mean, 1e-9) * 1e3;
  }
  return BRAID_OK;
}
