#include "serve/cluster/roster.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/vector.h"

enum { kDepth = 6 }; /* of JSON's brackets: jansson's parser recurses */

static const char *const kStates[] = {"unloaded", "loading", "ready", "absent", "unable"};

const char *braid_cluster_state_name(braid_cluster_state state) {
  return kStates[state];
}

/* --- values --------------------------------------------------------------------------------------------------------
 */
/* Brackets deeper than ours are none of ours. */
static bool value_is_deep(const char *value, size_t bytes) {
  size_t depth = 0;
  for (size_t i = 0; i < bytes; i++) {
    depth += value[i] == '{' || value[i] == '[';
    depth -= depth && (value[i] == '}' || value[i] == ']');
    if (depth > kDepth) return true;
  }
  return false;
}

static json_t *value_parse(const char *value, size_t bytes) {
  if (!bytes || bytes > BRAID_CLUSTER_VALUE || value_is_deep(value, bytes)) return NULL;
  json_t *root = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
  if (root && json_is_object(root)) return root;
  json_decref(root);
  return NULL;
}

/* Of letters, digits, '_', '-' and '.': names of nodes and models become keys. */
static bool is_name(const char *name) {
  static const char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return *name && name[0] != '.' && name[strspn(name, kLetters)] == '\0';
}

static bool is_hexadecimal(const char *text) {
  return text[strspn(text, "0123456789abcdef")] == '\0';
}

static bool read_text(const json_t *object, const char *key, char *out, size_t room) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_string(value) || json_string_length(value) >= room) return false;
  snprintf(out, room, "%s", json_string_value(value));
  return strlen(out) == json_string_length(value);
}

static bool read_count(const json_t *object, const char *key, int64_t most, int64_t *out) {
  const json_t *value = json_object_get(object, key);
  *out = json_is_integer(value) ? json_integer_value(value) : -1;
  return *out >= 0 && *out <= most;
}

static bool read_number(const json_t *object, const char *key, double most, double *out) {
  const json_t *value = json_object_get(object, key);
  *out = json_is_number(value) ? json_number_value(value) : -1;
  return *out >= 0 && *out <= most;
}

static bool read_holding(const json_t *object, braid_cluster_holding *out) {
  char state[16];
  size_t at = 0;
  if (!read_text(object, "name", out->model, sizeof out->model) || !is_name(out->model) ||
      !read_text(object, "state", state, sizeof state) || !read_count(object, "bytes", INT64_C(1) << 50, &out->bytes) ||
      !read_number(object, "seconds", 1e6, &out->seconds) ||
      !read_number(object, "requests_per_s", 1e9, &out->requests_per_s) ||
      !read_count(object, "file_bytes", INT64_C(1) << 50, &out->file_bytes) ||
      !read_text(object, "sha256", out->sum, sizeof out->sum) || !is_hexadecimal(out->sum) ||
      !read_text(object, "reason", out->reason, sizeof out->reason))
    return false;
  while (at < sizeof kStates / sizeof *kStates && strcmp(kStates[at], state) != 0) at++;
  out->state = (braid_cluster_state)at;
  return at < sizeof kStates / sizeof *kStates;
}

static bool read_member(const json_t *root, braid_cluster_member *out) {
  const json_t *models = json_object_get(root, "models"), *item;
  size_t index;
  if (!read_text(root, "address", out->address, sizeof out->address) ||
      !read_text(root, "instance", out->instance, sizeof out->instance) || !is_hexadecimal(out->instance) ||
      !read_text(root, "token_proof", out->proof, sizeof out->proof) || !is_hexadecimal(out->proof) ||
      !read_number(root, "busy", 1, &out->busy) || !read_count(root, "waiting", INT64_C(1) << 40, &out->waiting) ||
      !read_count(root, "instances", 4096, &out->instances) || out->instances < 1 ||
      !read_number(root, "idle_watts", 1e7, &out->idle_watts) ||
      !read_number(root, "busy_watts", 1e7, &out->busy_watts) ||
      (out->busy_watts > 0 && out->busy_watts < out->idle_watts) ||
      !read_text(root, "devices", out->devices, sizeof out->devices) ||
      !read_count(root, "memory_bytes", INT64_C(1) << 50, &out->memory_bytes) || !json_is_array(models) ||
      json_array_size(models) > BRAID_CLUSTER_HOLDINGS)
    return false;
  out->holdings = braid_zalloc_array(NULL, json_array_size(models) + 1, sizeof *out->holdings);
  if (!out->holdings) return false;
  json_array_foreach(models, index, item) {
    braid_cluster_holding *holding = &out->holdings[out->holding_count];
    if (!read_holding(item, holding) || braid_cluster_member_holding(out, holding->model)) return false;
    out->holding_count++;
  }
  return true;
}

bool braid_cluster_member_read(const char *value, size_t bytes, braid_cluster_member *out) {
  *out = (braid_cluster_member){0};
  json_t *root = value_parse(value, bytes);
  bool read = root && read_member(root, out);
  json_decref(root);
  if (!read) braid_cluster_member_deinit(out);
  return read;
}

void braid_cluster_member_deinit(braid_cluster_member *member) {
  braid_free(NULL, member->holdings);
  *member = (braid_cluster_member){0};
}

bool braid_cluster_order_read(const char *value, size_t bytes, braid_cluster_order *out) {
  *out = (braid_cluster_order){0};
  json_t *root = value_parse(value, bytes);
  const json_t *nodes = json_object_get(root, "nodes"), *item;
  size_t index;
  bool read = json_is_array(nodes) && json_array_size(nodes) <= BRAID_CLUSTER_COPIES &&
              read_text(root, "reason", out->reason, sizeof out->reason) &&
              read_text(root, "sha256", out->sum, sizeof out->sum) && is_hexadecimal(out->sum);
  json_array_foreach(nodes, index, item) {
    const char *name = json_string_value(item);
    read = read && name && strlen(name) < BRAID_CLUSTER_NAME && is_name(name) && !braid_cluster_order_names(out, name);
    if (!read) break;
    snprintf(out->nodes[out->node_count++], BRAID_CLUSTER_NAME, "%s", name);
  }
  json_decref(root);
  return read;
}

void braid_cluster_member_write(const braid_cluster_member *member, braid_text *out) {
  braid_text_add(out, "{\"address\":");
  braid_text_add_json(out, member->address);
  braid_text_add(out, ",\"devices\":");
  braid_text_add_json(out, member->devices);
  braid_text_printf(out,
                    ",\"instance\":\"%s\",\"token_proof\":\"%s\",\"busy\":%.3f,\"waiting\":%lld,\"instances\":%lld,"
                    "\"memory_bytes\":%lld,"
                    "\"idle_watts\":%.9g,\"busy_watts\":%.9g,"
                    "\"models\":[",
                    member->instance, member->proof, member->busy, (long long)member->waiting,
                    (long long)member->instances, (long long)member->memory_bytes, member->idle_watts,
                    member->busy_watts);
  for (size_t i = 0; i < member->holding_count; i++) {
    const braid_cluster_holding *holding = &member->holdings[i];
    braid_text_add(out, i ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(out, holding->model);
    braid_text_printf(out,
                      ",\"state\":\"%s\",\"bytes\":%lld,\"seconds\":%.9g,\"requests_per_s\":%.4g,\"file_bytes\":%lld,"
                      "\"sha256\":\"%s\",\"reason\":",
                      kStates[holding->state], (long long)holding->bytes, holding->seconds, holding->requests_per_s,
                      (long long)holding->file_bytes, holding->sum);
    braid_text_add_json(out, holding->reason);
    braid_text_add(out, "}");
  }
  braid_text_add(out, "]}");
}

void braid_cluster_order_write(const braid_cluster_order *order, braid_text *out) {
  braid_text_add(out, "{\"nodes\":[");
  for (size_t i = 0; i < order->node_count; i++) {
    if (i) braid_text_add(out, ",");
    braid_text_add_json(out, order->nodes[i]);
  }
  braid_text_add(out, "],\"reason\":");
  braid_text_add_json(out, order->reason);
  braid_text_printf(out, ",\"sha256\":\"%s\"}", order->sum);
}

/* --- finding -------------------------------------------------------------------------------------------------------
 */
static size_t find_member(const braid_cluster_roster *roster, const char *name) {
  size_t at = 0;
  while (at < roster->member_count && strcmp(roster->members[at].name, name) != 0) at++;
  return at;
}

static size_t find_order(const braid_cluster_roster *roster, const char *model) {
  size_t at = 0;
  while (at < roster->order_count && strcmp(roster->orders[at].model, model) != 0) at++;
  return at;
}

const braid_cluster_member *braid_cluster_roster_member(const braid_cluster_roster *roster, const char *name) {
  size_t at = find_member(roster, name);
  return at < roster->member_count ? &roster->members[at] : NULL;
}

const braid_cluster_order *braid_cluster_roster_order(const braid_cluster_roster *roster, const char *model) {
  size_t at = find_order(roster, model);
  return at < roster->order_count ? &roster->orders[at] : NULL;
}

const braid_cluster_holding *braid_cluster_member_holding(const braid_cluster_member *member, const char *model) {
  for (size_t i = 0; i < member->holding_count; i++)
    if (strcmp(member->holdings[i].model, model) == 0) return &member->holdings[i];
  return NULL;
}

bool braid_cluster_order_names(const braid_cluster_order *order, const char *node) {
  for (size_t i = 0; i < order->node_count; i++)
    if (strcmp(order->nodes[i], node) == 0) return true;
  return false;
}

bool braid_cluster_roster_is_silent(const braid_cluster_roster *roster, const char *self,
                                    const braid_cluster_member *member, int64_t for_ns) {
  const braid_cluster_member *own = braid_cluster_roster_member(roster, self);
  return own && own->steady_ns <= own->seen_ns - 2 * for_ns && member->seen_ns < own->seen_ns - for_ns;
}

bool braid_cluster_roster_differs(const braid_cluster_roster *roster, const braid_cluster_holding *holding) {
  const braid_cluster_order *order = braid_cluster_roster_order(roster, holding->model);
  return order && order->sum[0] && holding->sum[0] && strcmp(order->sum, holding->sum) != 0;
}

/* --- changes -------------------------------------------------------------------------------------------------------
 */
static void drop_member(braid_cluster_roster *roster, size_t at) {
  if (at >= roster->member_count) return;
  braid_cluster_member_deinit(&roster->members[at]);
  roster->members[at] = roster->members[--roster->member_count];
}

static void drop_order(braid_cluster_roster *roster, size_t at) {
  if (at < roster->order_count) roster->orders[at] = roster->orders[--roster->order_count];
}

static void drop_candidate(braid_cluster_roster *roster, const char *key) {
  for (size_t i = 0; i < roster->candidate_count; i++)
    if (strcmp(roster->candidates[i].key, key) == 0) {
      roster->candidates[i] = roster->candidates[--roster->candidate_count];
      return;
    }
}

static void roster_clear(braid_cluster_roster *roster) {
  while (roster->member_count) drop_member(roster, 0);
  roster->order_count = roster->candidate_count = 0;
}

void braid_cluster_roster_deinit(braid_cluster_roster *roster) {
  roster_clear(roster);
  braid_free(NULL, roster->members);
  braid_free(NULL, roster->orders);
  braid_free(NULL, roster->candidates);
  *roster = (braid_cluster_roster){0};
}

/* Room for one more; NULL: no memory, or as many as there may be. */
static void *list_grow(void **items, size_t count, size_t *room, size_t bytes, size_t most) {
  if (count >= most) return NULL;
  void *grown = braid_grow(NULL, *items, count, room, bytes);
  if (grown) *items = grown;
  return grown;
}

static bool put_member(braid_cluster_roster *roster, const char *name, const braid_etcd_key *key) {
  braid_cluster_member member;
  if (!is_name(name) || !braid_cluster_member_read(key->value, key->value_bytes, &member)) {
    drop_member(roster, find_member(roster, name));
    return false;
  }
  snprintf(member.name, sizeof member.name, "%.127s", name);
  member.lease = key->lease;
  member.seen_ns = member.steady_ns = braid_now_ns();
  member.revision = key->create_revision;
  member.written = key->mod_revision;
  size_t at = find_member(roster, name);
  if (at == roster->member_count &&
      !list_grow((void **)&roster->members, at, &roster->member_room, sizeof member, BRAID_CLUSTER_MEMBERS)) {
    braid_cluster_member_deinit(&member);
    return false;
  }
  const braid_cluster_member *before = at < roster->member_count ? &roster->members[at] : NULL;
  if (before && member.seen_ns - before->seen_ns < BRAID_CLUSTER_PAUSE_MS * INT64_C(1000000))
    member.steady_ns = before->steady_ns;
  if (before)
    braid_cluster_member_deinit(&roster->members[at]);
  else
    roster->member_count++;
  roster->members[at] = member;
  return true;
}

static bool put_order(braid_cluster_roster *roster, const char *model, const braid_etcd_key *key) {
  braid_cluster_order order;
  bool read = is_name(model) && braid_cluster_order_read(key->value, key->value_bytes, &order);
  if (!read) order = (braid_cluster_order){.reason = "the order in etcd is malformed"}; /* to be written anew */
  if (!is_name(model)) return false;
  snprintf(order.model, sizeof order.model, "%.127s", model);
  order.revision = key->mod_revision;
  size_t at = find_order(roster, model);
  if (at == roster->order_count) {
    if (!list_grow((void **)&roster->orders, at, &roster->order_room, sizeof order, BRAID_CLUSTER_ORDERS)) return false;
    roster->order_count++;
  }
  roster->orders[at] = order;
  return read;
}

static bool put_candidate(braid_cluster_roster *roster, const char *name, const braid_etcd_key *key) {
  braid_cluster_candidate candidate = {.revision = key->create_revision};
  snprintf(candidate.key, sizeof candidate.key, "%.127s", name);
  if (key->value_bytes >= sizeof candidate.node) return false;
  memcpy(candidate.node, key->value, key->value_bytes);
  if (!is_name(candidate.node)) return false;
  drop_candidate(roster, name);
  if (!list_grow((void **)&roster->candidates, roster->candidate_count, &roster->candidate_room, sizeof candidate,
                 BRAID_CLUSTER_MEMBERS))
    return false;
  roster->candidates[roster->candidate_count++] = candidate;
  return true;
}

/* One key; false: it is malformed, or there is no room for it. */
static bool apply_key(braid_cluster_roster *roster, const char *name, const braid_etcd_key *key) {
  if (strncmp(name, "nodes/", 6) == 0) {
    if (!key->deleted) return put_member(roster, name + 6, key);
    drop_member(roster, find_member(roster, name + 6));
  } else if (strncmp(name, "orders/", 7) == 0) {
    if (!key->deleted) return put_order(roster, name + 7, key);
    drop_order(roster, find_order(roster, name + 7));
  } else if (strncmp(name, "election/", 9) == 0) {
    if (!key->deleted) return put_candidate(roster, name + 9, key);
    drop_candidate(roster, name + 9);
  } else {
    return false;
  }
  return true;
}

/* Nodes of that token, and the oldest of their candidates; INT64_MAX: there is none. */
static size_t count_proof(const braid_cluster_roster *roster, const char *proof, int64_t *out_oldest) {
  size_t count = 0;
  *out_oldest = INT64_MAX;
  for (size_t i = 0; i < roster->member_count; i++) count += strcmp(roster->members[i].proof, proof) == 0;
  for (size_t i = 0; i < roster->candidate_count; i++) {
    const braid_cluster_candidate *candidate = &roster->candidates[i];
    const braid_cluster_member *member = braid_cluster_roster_member(roster, candidate->node);
    if (member && strcmp(member->proof, proof) == 0 && candidate->revision < *out_oldest)
      *out_oldest = candidate->revision;
  }
  return count;
}

static void find_proof(braid_cluster_roster *roster) {
  const char *best = roster->member_count ? roster->members[0].proof : "";
  int64_t oldest = 0, other_oldest;
  size_t count = 0, other;
  for (size_t i = 1; i < roster->member_count; i++) { /* all have the same, but for a mistake */
    const char *proof = roster->members[i].proof;
    if (strcmp(proof, best) == 0) continue;
    if (!count) count = count_proof(roster, best, &oldest);
    other = count_proof(roster, proof, &other_oldest);
    if (other < count || (other == count && other_oldest >= oldest)) continue;
    best = proof;
    count = other;
    oldest = other_oldest;
  }
  snprintf(roster->proof, sizeof roster->proof, "%s", best);
}

void braid_cluster_roster_apply(braid_cluster_roster *roster, const char *prefix, const braid_etcd_keys *keys) {
  size_t skip = strlen(prefix);
  if (keys->all) roster_clear(roster);
  for (size_t i = 0; i < keys->count; i++) {
    const braid_etcd_key *key = &keys->keys[i];
    char name[BRAID_CLUSTER_NAME];
    size_t length = key->key_bytes >= skip && memcmp(key->key, prefix, skip) == 0 ? key->key_bytes - skip : SIZE_MAX;
    bool fits = length < BRAID_CLUSTER_NAME && !memchr(key->key + skip, 0, length);
    if (fits) {
      memcpy(name, key->key + skip, length);
      name[length] = '\0';
    }
    roster->refused += !fits || !apply_key(roster, name, key);
  }
  find_proof(roster);
  if (keys->all || keys->revision > roster->revision) roster->revision = keys->revision;
}
