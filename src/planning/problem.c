#include "planning/problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "planning/replicas.h"
#include "profile/subject.h"

/* kGroups: of a kind of which there are more devices, or groups that share an operation, so many are offered for each.
 */
enum { kOffers = 1 << 20, kGroups = 64 };

typedef struct maker {
  const braid_graph *graph;
  const braid_modelled_machine *machine;
  braid_arena *arena;
  braid_modelled_problem *out;
  braid_problem_node *nodes;
  braid_offer *offers;
  int32_t *ids;  /* of the nodes: an offer points here */
  int *devices;  /* 0, 1, 2 ...: an offer for several points here */
  size_t *first; /* of each kind of device: its first one */
  braid_replicas replicas;
  size_t exchange;       /* the device that adds gradients between the GPUs, where there is one */
  braid_value_id *roots; /* per value: what it is a view of */
  struct way *ways;      /* of one node on one kind of device */
  bool training;
} maker;

static braid_number modelled(double value) {
  return isnan(value) ? (braid_number){0} : (braid_number){value, BRAID_MODELLED};
}

/* --- devices and links ---------------------------------------------------------------------------------------------
 */
/* The host's memory is space 0; every device with a link has one of its own. What goes from one to another goes by way
 * of the host, at the time of both; each link carries one transfer at a time, each way. Devices of a kind that share
 * their link have the buses of the first of them. */
static braid_status make_links(maker *m, braid_problem *p) {
  bool exchanges = m->replicas.count > 1;
  size_t kinds = m->machine->file->devices_count + 1 + exchanges; /* the host's is kind 0 */
  braid_problem_link *links = braid_arena_alloc(m->arena, kinds * kinds * sizeof *links);
  braid_problem_space *spaces = braid_arena_alloc(m->arena, (size_t)p->space_count * sizeof *spaces);
  size_t *capacities = braid_arena_alloc(m->arena, (size_t)p->space_count * sizeof *capacities);
  if (!links || !spaces || !capacities) return BRAID_NO_MEMORY;
  memset(capacities, 0, (size_t)p->space_count * sizeof *capacities);
  spaces[0] = (braid_problem_space){.kind = 0, .out_bus = -1, .in_bus = -1};
  for (size_t d = 0, kind = 0; d < p->device_count; d++) {
    while (kind + 1 < m->machine->file->devices_count && m->first[kind + 1] <= d) kind++;
    int space = p->devices[d].space;
    if (exchanges && d == m->exchange) /* its time is that of the ring: nothing is brought to it */
      spaces[space] = (braid_problem_space){.kind = (int)kinds - 1, .out_bus = -1, .in_bus = -1};
    else if (space) {
      int owner = m->machine->file->devices[kind].link->shared ? p->devices[m->first[kind]].space : space;
      double bytes = m->machine->file->devices[kind].memory_gigabytes * 1e9;
      spaces[space] = (braid_problem_space){.kind = (int)kind + 1, .out_bus = 2 * owner + 1, .in_bus = 2 * owner};
      if (!isinf(bytes)) capacities[space] = (size_t)bytes;
    }
  }
  for (size_t from = 0; from < kinds; from++)
    for (size_t to = 0; to < kinds; to++) {
      double seconds = 0, per_byte = 0;
      bool free = exchanges && (from == kinds - 1 || to == kinds - 1);
      for (int end = 0; end < 2 && !free; end++) {
        size_t kind = end ? to : from;
        const braid_modelled_link *link = kind ? m->machine->file->devices[kind - 1].link : NULL;
        if (!link) continue; /* the host's own memory */
        seconds += link->latency_ms * 1e-3;
        per_byte += 1e-9 / link->gigabytes_per_second;
      }
      links[from * kinds + to] = (braid_problem_link){seconds, per_byte > 0 ? 1 / per_byte : INFINITY};
    }
  p->links = links;
  p->spaces = spaces;
  p->capacities = capacities;
  p->kind_count = (int)kinds;
  p->bus_count = 2 * p->space_count;
  return BRAID_OK;
}

static braid_status make_devices(maker *m, braid_problem *p) {
  const braid_machine_file *file = m->machine->file;
  size_t count = braid_machine_device_count(file), host = file->host_watts > 0;
  braid_problem_device *devices = braid_arena_alloc(m->arena, (count + host + 1) * sizeof *devices);
  m->devices = braid_arena_alloc(m->arena, (count + 1) * sizeof *m->devices);
  m->first = braid_arena_alloc(m->arena, (file->devices_count + 1) * sizeof *m->first);
  if (!devices || !m->devices || !m->first) return BRAID_NO_MEMORY;
  p->space_count = 1;
  for (unsigned k = 0; k < file->devices_count; k++) {
    const braid_modelled_device *kind = &file->devices[k];
    m->first[k] = p->device_count;
    for (int64_t i = 0; i < kind->count; i++) {
      size_t d = p->device_count++;
      m->devices[d] = (int)d;
      devices[d] = (braid_problem_device){.class = braid_modelled_class(kind->class),
                                          .space = kind->link ? p->space_count++ : 0,
                                          .idle_watts = modelled(kind->idle_watts),
                                          .cap_watts = modelled(kind->cap_watts),
                                          .clock_seconds = kind->clock_change_ms * 1e-3};
      if (kind->slowdown) {
        devices[d].slower_beside = modelled(kind->slowdown->beside ? *kind->slowdown->beside : NAN);
        devices[d].slower_with_traffic = modelled(kind->slowdown->traffic ? *kind->slowdown->traffic : NAN);
      }
      devices[d].name = kind->count > 1 ? braid_arena_format(m->arena, "%s%lld", kind->name, (long long)i)
                                        : braid_arena_format(m->arena, "%s", kind->name);
      if (!devices[d].name) return BRAID_NO_MEMORY;
    }
  }
  m->exchange = p->device_count;
  if (m->replicas.count > 1)
    devices[p->device_count++] = (braid_problem_device){.name = "exchange",
                                                        .class = BRAID_CLASS_OTHER,
                                                        .space = p->space_count++,
                                                        .idle_watts = modelled(0),
                                                        .borrows = true};
  if (host) /* it runs nothing, and draws power */
    devices[p->device_count++] = (braid_problem_device){.name = "host", .idle_watts = modelled(file->host_watts)};
  p->devices = devices;
  return make_links(m, p);
}

/* --- nodes and values ----------------------------------------------------------------------------------------------
 */
/* Values stand replica by replica, then the sums of buckets. */
static int32_t value_at(const maker *m, int32_t replica, braid_value_id value) {
  return (int32_t)((size_t)replica * m->graph->value_count) + value;
}

static int32_t sum_at(const maker *m, size_t bucket) {
  return (int32_t)((size_t)m->replicas.count * m->graph->value_count + bucket);
}

static void make_values_of(const maker *m, int32_t replica, braid_problem_value *values) {
  const braid_graph *graph = m->graph;
  const int32_t *position = m->replicas.position + (size_t)replica * graph->node_count;
  for (size_t v = 0; v < graph->value_count; v++) {
    const braid_value *value = &graph->values[v];
    values[v].producer = value->kind == BRAID_VALUE_RESULT ? position[value->producer] : -1;
    values[v].bytes = braid_desc_bytes(&value->desc);
  }
  for (size_t i = 0; i < graph->output_count; i++) {
    braid_value_id root = m->roots[graph->outputs[i]];
    values[root].wanted = graph->values[root].kind == BRAID_VALUE_RESULT;
  }
}

static size_t bucket_bytes(const maker *m, size_t bucket) {
  size_t sum = 0;
  for (size_t i = m->replicas.first[bucket]; i < m->replicas.first[bucket + 1]; i++)
    sum += braid_desc_bytes(&m->graph->values[m->replicas.gradients[i].value].desc);
  return sum;
}

static braid_status make_values(maker *m, braid_problem *p) {
  const braid_graph *graph = m->graph;
  size_t count = (size_t)m->replicas.count * graph->value_count + m->replicas.bucket_count;
  if (count > INT32_MAX) return braid_fail(BRAID_UNSUPPORTED, "%zu values are too many for a plan", count);
  braid_problem_value *values = braid_arena_alloc(m->arena, (count + 1) * sizeof *values);
  m->roots = braid_arena_alloc(m->arena, (graph->value_count + 1) * sizeof *m->roots);
  if (!values || !m->roots) return BRAID_NO_MEMORY;
  for (size_t v = 0; v < graph->value_count; v++) m->roots[v] = (braid_value_id)v;
  for (size_t n = 0; n < graph->node_count; n++)
    if (braid_subject_is_view(graph, &graph->nodes[n]))
      m->roots[graph->nodes[n].outputs[0]] = m->roots[graph->nodes[n].inputs[0]];
  for (int32_t r = 0; r < m->replicas.count; r++) make_values_of(m, r, values + value_at(m, r, 0));
  for (size_t e = 0; e < m->replicas.entry_count; e++) {
    const braid_replica_entry *entry = &m->replicas.entries[e];
    if (entry->node >= 0) continue;
    values[sum_at(m, (size_t)entry->bucket)] =
        (braid_problem_value){.producer = (int32_t)e, .bytes = bucket_bytes(m, (size_t)entry->bucket)};
  }
  p->values = values;
  p->value_count = count;
  return BRAID_OK;
}

/* An exchange reads the gradients of all replicas. */
static void read_bucket(const maker *m, size_t bucket, int32_t *list, size_t *count) {
  for (size_t i = m->replicas.first[bucket]; i < m->replicas.first[bucket + 1]; i++)
    for (int32_t r = 0; r < m->replicas.count; r++)
      list[(*count)++] = value_at(m, r, m->roots[m->replicas.gradients[i].value]);
}

/* Weights and states are where they are read; inputs come from the host. An update reads the sum of its bucket. */
static void read_inputs(const maker *m, const braid_replica_entry *entry, int32_t *list, size_t *count) {
  const braid_node *node = &m->graph->nodes[entry->node];
  int32_t bucket = m->replicas.bucket[entry->node];
  for (size_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] < 0) continue;
    braid_value_id root = m->roots[node->inputs[i]];
    braid_value_kind kind = m->graph->values[root].kind;
    if (i == 1 && bucket >= 0)
      list[(*count)++] = sum_at(m, (size_t)bucket);
    else if (kind == BRAID_VALUE_RESULT || kind == BRAID_VALUE_INPUT)
      list[(*count)++] = value_at(m, entry->replica, root);
  }
}

static const char *entry_name(const maker *m, const braid_replica_entry *entry) {
  if (entry->node < 0) return braid_arena_format(m->arena, "exchange/%d", entry->bucket);
  const char *name = m->graph->nodes[entry->node].name;
  return m->replicas.count > 1 ? braid_arena_format(m->arena, "%d/%s", entry->replica, name)
                               : braid_arena_text(m->arena, name, strlen(name));
}

static braid_status make_nodes(maker *m, braid_problem *p) {
  const braid_graph *graph = m->graph;
  size_t reads = 0, count = 0, entries = m->replicas.entry_count;
  for (size_t n = 0; n < graph->node_count; n++) reads += graph->nodes[n].input_count;
  reads = (reads + graph->node_count) * (size_t)m->replicas.count; /* each gradient is read once more */
  int32_t *list = braid_arena_alloc(m->arena, (reads + 1) * sizeof *list);
  m->nodes = braid_arena_alloc(m->arena, (entries + 1) * sizeof *m->nodes);
  m->ids = braid_arena_alloc(m->arena, (entries + 1) * sizeof *m->ids);
  m->out->ops = braid_arena_alloc(m->arena, (entries + 1) * sizeof *m->out->ops);
  m->out->likes = braid_arena_alloc(m->arena, (entries + 1) * sizeof *m->out->likes);
  if (!list || !m->nodes || !m->ids || !m->out->ops || !m->out->likes) return BRAID_NO_MEMORY;
  for (size_t e = 0; e < entries; e++) {
    const braid_replica_entry *entry = &m->replicas.entries[e];
    const braid_node *node = entry->node < 0 ? NULL : &graph->nodes[entry->node];
    const char *op = node ? node->op->name : "AllReduce";
    m->ids[e] = (int32_t)e;
    m->nodes[e] = (braid_problem_node){.name = entry_name(m, entry),
                                       .idle = node && braid_subject_is_view(graph, node),
                                       .fixed = -1,
                                       .first_read = count};
    m->out->ops[e] = braid_arena_text(m->arena, op, strlen(op));
    if (!m->nodes[e].name || !m->out->ops[e]) return BRAID_NO_MEMORY;
    if (!node)
      read_bucket(m, (size_t)entry->bucket, list, &count);
    else if (!m->nodes[e].idle)
      read_inputs(m, entry, list, &count);
    m->nodes[e].read_count = count - m->nodes[e].first_read;
  }
  p->nodes = m->nodes;
  p->node_count = entries;
  p->reads = list;
  return BRAID_OK;
}

/* What a value that is read is of weights and states: itself, or what it is a view of; -1: neither. */
static braid_value_id kept_root(const maker *m, braid_value_id value) {
  if (value < 0) return -1;
  braid_value_kind kind = m->graph->values[m->roots[value]].kind;
  return kind == BRAID_VALUE_RESULT || kind == BRAID_VALUE_INPUT ? -1 : m->roots[value];
}

/* Weights and states with the nodes that use them, replica by replica. */
static braid_status make_kept(maker *m, braid_problem *p) {
  const braid_graph *graph = m->graph;
  size_t values = graph->value_count, replicas = (size_t)m->replicas.count, count = 0;
  size_t *first = braid_arena_alloc(m->arena, (values + 2) * sizeof *first);
  if (!first) return BRAID_NO_MEMORY;
  memset(first, 0, (values + 2) * sizeof *first);
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; i < graph->nodes[n].input_count; i++) {
      braid_value_id root = kept_root(m, graph->nodes[n].inputs[i]);
      if (root >= 0) first[root + 2]++;
    }
  for (size_t v = 2; v < values + 2; v++) first[v] += first[v - 1];
  size_t uses = first[values + 1];
  int32_t *users = braid_arena_alloc(m->arena, (uses * replicas + 1) * sizeof *users);
  braid_problem_kept *kept = braid_arena_alloc(m->arena, (values * replicas + 1) * sizeof *kept);
  if (!users || !kept) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < graph->node_count; n++) /* moves first[v + 1] from the start of a value's users to their end */
    for (size_t i = 0; i < graph->nodes[n].input_count; i++) {
      braid_value_id root = kept_root(m, graph->nodes[n].inputs[i]);
      if (root < 0) continue;
      for (size_t r = 0; r < replicas; r++)
        users[r * uses + first[root + 1]] = m->replicas.position[r * graph->node_count + n];
      first[root + 1]++;
    }
  for (size_t v = 0; v < values; v++) {
    const braid_value *value = &graph->values[v];
    const char *name = first[v + 1] > first[v] ? braid_arena_text(m->arena, value->name, strlen(value->name)) : "";
    if (!name) return BRAID_NO_MEMORY;
    for (size_t r = 0; r < replicas && first[v + 1] > first[v]; r++)
      kept[count++] = (braid_problem_kept){
          .name = name,
          .bytes = braid_desc_bytes(&value->desc),
          .next = value->next < 0 ? -1 : value_at(m, (int32_t)r, m->roots[value->next]),
          .first_user = r * uses + first[v],
          .user_count = first[v + 1] - first[v],
      };
  }
  p->kept = kept;
  p->kept_count = count;
  p->users = users;
  return BRAID_OK;
}

/* --- offers --------------------------------------------------------------------------------------------------------
 */
/* A node whose time is looked up. */
typedef struct sought {
  const char *like; /* the operation whose rows stand for it; NULL: none */
  double bytes;
  char key[BRAID_SUBJECT_KEY]; /* "": no row has a key */
} sought;

/* A way to run a node on a kind of device: so many of them together, at one of the clocks. */
typedef struct way {
  const braid_modelled_device *kind;
  braid_profile_row row; /* at that clock */
  int clock;
  double mhz;
} way;

static int by_seconds(const void *left, const void *right) {
  const way *a = left, *b = right;
  if (a->row.ms != b->row.ms) return a->row.ms < b->row.ms ? -1 : 1;
  return a->row.devices != b->row.devices ? (a->row.devices > b->row.devices) - (a->row.devices < b->row.devices)
                                          : a->clock - b->clock;
}

/* Power above the idle power goes down with the clock. */
static double at_clock(double watts, double idle, double factor) {
  if (isnan(idle)) return factor == 1 ? watts : NAN;
  return watts > idle ? idle + (watts - idle) * factor : watts;
}

/* What is known of a node on so many devices of a kind: measured as it is, else by rows of its size. */
static bool find_row(const maker *m, const braid_modelled_device *kind, int64_t together, const sought *what,
                     braid_profile_row *out) {
  const braid_profile *profile = m->machine->profile;
  const braid_profile_row *exact =
      what->key[0] ? braid_profile_exact(profile, kind->profile, together, what->key) : NULL;
  if (exact) *out = *exact;
  if (!exact && braid_profile_refuses(profile, kind->profile, what->key)) return false;
  return exact || (what->like && braid_profile_at(profile, kind->profile, together, what->like, what->bytes, out));
}

static size_t list_ways(maker *m, const braid_modelled_device *kind, const sought *what) {
  size_t count = 0;
  for (int64_t together = 1; together <= kind->count && together <= BRAID_PROFILE_DEVICES; together++) {
    braid_profile_row row;
    if (!find_row(m, kind, together, what, &row)) continue;
    for (unsigned c = 0; c < (kind->clocks_count ? kind->clocks_count : 1); c++) {
      way *w = &m->ways[count++];
      double idle = kind->idle_watts * (double)together;
      *w = (way){.kind = kind, .row = row, .clock = (int)c, .mhz = NAN};
      if (!kind->clocks_count) continue;
      w->mhz = kind->clocks[c].mhz;
      w->row.ms *= kind->clocks[c].seconds;
      w->row.gigabytes_per_second /= kind->clocks[c].seconds;
      w->row.average_watts = at_clock(row.average_watts, idle, kind->clocks[c].watts);
      w->row.peak_watts = at_clock(row.peak_watts, idle, kind->clocks[c].watts);
    }
  }
  qsort(m->ways, count, sizeof *m->ways, by_seconds);
  return count;
}

/* The faster a way is, the earlier it stands in its device's order. */
static void add_offer(maker *m, size_t node, size_t device, const way *w, size_t rank) {
  size_t index = m->out->problem.offer_count++;
  double seconds = w->row.ms * 1e-3;
  m->out->mhz[index] = w->mhz;
  m->offers[index] = (braid_offer){
      .device = (int)device,
      .also = &m->devices[device + 1],
      .also_count = (size_t)w->row.devices - 1,
      .clock = w->clock,
      .rank = (uint32_t)rank,
      .nodes = &m->ids[node],
      .node_count = 1,
      .seconds = modelled(seconds),
      .joules = modelled(w->row.average_watts * seconds),
      .watts = modelled(w->row.peak_watts),
      .bytes_per_second = modelled(w->row.gigabytes_per_second * 1e9),
      .instructions_per_cycle = modelled(w->row.instructions_per_cycle),
  };
}

/* Groups of k devices: the first k, the next k, and so on. */
static size_t offered_groups(int64_t devices, int64_t together) {
  size_t groups = (size_t)(devices / together);
  return groups < kGroups ? groups : kGroups;
}

/* The group that is offered as number `i` for a node, of so many: half of the offered are the first ones, so that nodes
 * which follow each other may stay where they are; the others differ from node to node, so that all are used. */
static size_t group_at(size_t node, size_t i, size_t groups) {
  if (groups <= kGroups || i < kGroups / 2) return i;
  return kGroups / 2 + (node * (kGroups / 2) + i - kGroups / 2) % (groups - kGroups / 2);
}

static size_t most_offers(const maker *m) {
  const braid_machine_file *file = m->machine->file;
  size_t count = 0;
  for (unsigned k = 0; k < file->devices_count; k++) {
    size_t clocks = file->devices[k].clocks_count ? file->devices[k].clocks_count : 1;
    for (int64_t together = 1; together <= file->devices[k].count && together <= BRAID_PROFILE_DEVICES; together++)
      if (braid_profile_has(m->machine->profile, file->devices[k].profile, together))
        count += clocks * offered_groups(file->devices[k].count, together);
  }
  return count;
}

/* The devices of a kind that a replica has: a GPU of its own, and its share of the others. */
static void share_of(const maker *m, unsigned kind, int32_t replica, int64_t *from, int64_t *to) {
  const braid_machine_file *file = m->machine->file;
  *from = 0, *to = file->devices[kind].count;
  if (m->replicas.count == 1) return;
  if (braid_modelled_class(file->devices[kind].class) != BRAID_CLASS_GPU) {
    *from = file->devices[kind].count * replica / m->replicas.count;
    *to = file->devices[kind].count * (replica + 1) / m->replicas.count;
    return;
  }
  int64_t before = 0;
  for (unsigned k = 0; k < kind; k++)
    if (braid_modelled_class(file->devices[k].class) == BRAID_CLASS_GPU) before += file->devices[k].count;
  bool here = replica >= before && replica < before + *to;
  *from = here ? replica - before : 0;
  *to = here ? *from + 1 : 0;
}

static void offer_exchange(maker *m, size_t n) {
  const braid_modelled_exchange *exchange = m->machine->file->exchange;
  size_t index = m->out->problem.offer_count++;
  double bytes = (double)bucket_bytes(m, (size_t)m->replicas.entries[n].bucket);
  double seconds =
      braid_ring_seconds(m->replicas.count, bytes, exchange->latency_ms * 1e-3, exchange->gigabytes_per_second * 1e9);
  braid_number watts = modelled(exchange->watts ? *exchange->watts : NAN);
  m->out->mhz[index] = NAN;
  m->out->likes[n] = m->out->ops[n];
  m->offers[index] = (braid_offer){.device = (int)m->exchange,
                                   .also = m->devices,
                                   .nodes = &m->ids[n],
                                   .node_count = 1,
                                   .seconds = modelled(seconds),
                                   .joules = {watts.value * seconds, watts.source},
                                   .watts = watts};
}

/* Operands and results of a node: what it writes over is one of both. */
static double own_bytes(const maker *m, const braid_node *node) {
  double bytes = braid_subject_bytes(m->graph, node);
  for (size_t i = 0; i < node->input_count; i++)
    for (size_t k = 0; k < node->output_count && node->inputs[i] >= 0; k++) {
      const braid_value *value = &m->graph->values[node->inputs[i]];
      bool kept = value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE;
      if (kept && value->next >= 0 && value->next == node->outputs[k]) bytes -= (double)braid_desc_bytes(&value->desc);
    }
  return bytes;
}

static braid_status offer_node(maker *m, size_t n) {
  const braid_replica_entry *entry = &m->replicas.entries[n];
  const braid_node *node = &m->graph->nodes[entry->node];
  const braid_machine_file *file = m->machine->file;
  sought what = {.bytes = braid_subject_bytes(m->graph, node)};
  size_t before = m->out->problem.offer_count;
  double own = own_bytes(m, node);
  bool full = false;
  m->out->likes[n] = "";
  if (m->machine->profile->keyed) BRAID_TRY(braid_subject_key(m->graph, node, m->training, what.key));
  for (unsigned k = 0; k < file->devices_count; k++) {
    what.like = braid_profile_like(m->machine->profile, file->devices[k].profile, node->op->name);
    if (what.like && !m->out->likes[n][0]) m->out->likes[n] = braid_arena_text(m->arena, what.like, strlen(what.like));
    if (!m->out->likes[n]) return BRAID_NO_MEMORY;
    int64_t from, to;
    share_of(m, k, entry->replica, &from, &to);
    size_t ways = list_ways(m, &file->devices[k], &what);
    for (size_t w = 0; w < ways; w++) {
      int64_t together = m->ways[w].row.devices;
      if (own > file->devices[k].memory_gigabytes * 1e9) {
        full = true; /* also of several devices: the first one has all of it */
        continue;
      }
      for (size_t i = 0; i < offered_groups(to - from, together); i++) {
        size_t group = group_at(n, i, (size_t)((to - from) / together));
        add_offer(m, n, m->first[k] + (size_t)from + group * (size_t)together, &m->ways[w], w);
      }
    }
  }
  if (m->out->problem.offer_count > before) return BRAID_OK;
  if (full)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s: its operands and results, %.3g GB, fit into no device's memory",
                      node->name, own * 1e-9);
  return braid_fail(BRAID_UNSUPPORTED,
                    "node %.120s: the profile has no rows for %s, nor for anything that stands for it", node->name,
                    node->op->name);
}

static braid_status make_offers(maker *m, braid_problem *p) {
  size_t running = 0;
  for (size_t n = 0; n < p->node_count; n++) running += !p->nodes[n].idle;
  size_t most = running * most_offers(m) + 1;
  if (most > kOffers)
    return braid_fail(BRAID_UNSUPPORTED,
                      "%zu operations, each with %zu ways to run it: more than %d together are not planned", running,
                      most_offers(m), kOffers);
  m->ways = braid_arena_alloc(m->arena, BRAID_PROFILE_DEVICES * (size_t)BRAID_MODELLED_CLOCKS * sizeof *m->ways);
  m->offers = braid_arena_alloc(m->arena, most * sizeof *m->offers);
  m->out->mhz = braid_arena_alloc(m->arena, most * sizeof *m->out->mhz);
  if (!m->offers || !m->out->mhz || !m->ways) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < p->node_count; n++) {
    if (m->replicas.entries[n].node < 0)
      offer_exchange(m, n);
    else if (!p->nodes[n].idle)
      BRAID_TRY(offer_node(m, n));
  }
  p->offers = m->offers;
  return BRAID_OK;
}

braid_status braid_modelled_problem_make(const braid_graph *graph, const braid_modelled_machine *machine,
                                         double cap_watts, int64_t replicas, braid_arena *arena,
                                         braid_modelled_problem *out) {
  maker m = {
      .graph = graph, .machine = machine, .arena = arena, .out = out, .training = braid_subject_is_training(graph)};
  *out = (braid_modelled_problem){0};
  out->problem.cap_watts = modelled(isinf(cap_watts) ? NAN : cap_watts > 0 ? cap_watts : machine->file->cap_watts);
  out->problem.bandwidth_threshold = modelled(machine->thresholds.gigabytes_per_second * 1e9);
  out->problem.instructions_threshold = modelled(machine->thresholds.instructions_per_cycle);
  if (replicas != 1 && replicas != braid_modelled_machine_replicas(machine))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%lld replicas; %s has %lld", (long long)replicas, machine->file->name,
                      (long long)braid_modelled_machine_replicas(machine));
  double bucket = machine->file->exchange ? machine->file->exchange->bucket_megabytes * 1e6 : 0;
  BRAID_TRY(braid_replicas_make(graph, replicas, bucket, arena, &m.replicas));
  BRAID_TRY(make_devices(&m, &out->problem));
  BRAID_TRY(make_values(&m, &out->problem));
  BRAID_TRY(make_nodes(&m, &out->problem));
  BRAID_TRY(make_kept(&m, &out->problem));
  return make_offers(&m, &out->problem);
}
