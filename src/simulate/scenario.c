#include "simulate/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/detail.h"
#include "base/file.h"
#include "base/try.h"
#include "device/yaml.h"

enum { kName = 100, kWords = 64, kLooks = 100000 }; /* looks at the placement */

#define NAME(type, name) CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER, type, name, 1, kName)
#define TEXT(type, name) CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, name, 1, kName)
#define INTEGER(type, name) CYAML_FIELD_INT(#name, CYAML_FLAG_OPTIONAL, type, name)
#define NUMBER(type, name) CYAML_FIELD_FLOAT(#name, CYAML_FLAG_OPTIONAL, type, name)
#define LIST(type, name, item, least, most)                                                                            \
  CYAML_FIELD_SEQUENCE(#name, CYAML_FLAG_POINTER, type, name, item, least, most)

static const cyaml_schema_field_t kNodesFields[] = {
    NAME(braid_scenario_nodes, kind),           INTEGER(braid_scenario_nodes, count),
    INTEGER(braid_scenario_nodes, instances),   NUMBER(braid_scenario_nodes, memory_mib),
    NUMBER(braid_scenario_nodes, asleep_watts), NUMBER(braid_scenario_nodes, idle_watts),
    NUMBER(braid_scenario_nodes, busy_watts),   NUMBER(braid_scenario_nodes, load_mib_per_s),
    TEXT(braid_scenario_nodes, features),       CYAML_FIELD_END,
};
static const cyaml_schema_value_t kNodes = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_scenario_nodes, kNodesFields)};

static const cyaml_schema_field_t kTimeFields[] = {
    NAME(braid_scenario_time, kind),
    INTEGER(braid_scenario_time, rows),
    CYAML_FIELD_FLOAT("mean_ms", CYAML_FLAG_DEFAULT, braid_scenario_time, mean_ms),
    NUMBER(braid_scenario_time, deviation_ms),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kTime = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_scenario_time, kTimeFields)};

static const cyaml_schema_field_t kModelFields[] = {
    NAME(braid_scenario_model, name),
    NUMBER(braid_scenario_model, memory_mib),
    INTEGER(braid_scenario_model, max_batch),
    INTEGER(braid_scenario_model, plan_rows),
    NUMBER(braid_scenario_model, deadline_ms),
    NUMBER(braid_scenario_model, delay_ms),
    INTEGER(braid_scenario_model, least),
    INTEGER(braid_scenario_model, most),
    TEXT(braid_scenario_model, features),
    TEXT(braid_scenario_model, private_to),
    LIST(braid_scenario_model, times, &kTime, 1, BRAID_SCENARIO_KINDS * 8),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kModel = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_scenario_model, kModelFields)};

static const cyaml_strval_t kArrivals[] = {{"poisson", BRAID_ARRIVALS_POISSON},
                                           {"bursty", BRAID_ARRIVALS_BURSTY},
                                           {"even", BRAID_ARRIVALS_EVEN},
                                           {"trace", BRAID_ARRIVALS_TRACE}};
static const cyaml_schema_field_t kTenantFields[] = {
    NAME(braid_scenario_tenant, name),
    NAME(braid_scenario_tenant, model),
    NUMBER(braid_scenario_tenant, rate),
    CYAML_FIELD_ENUM("arrivals", CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, braid_scenario_tenant, arrivals, kArrivals,
                     sizeof kArrivals / sizeof *kArrivals),
    NUMBER(braid_scenario_tenant, burstiness),
    INTEGER(braid_scenario_tenant, priority),
    NUMBER(braid_scenario_tenant, deadline_ms),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kTenant = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_scenario_tenant, kTenantFields)};

static const cyaml_strval_t kWhat[] = {{"lost", BRAID_EVENT_LOST},
                                       {"back", BRAID_EVENT_BACK},
                                       {"slow", BRAID_EVENT_SLOW},
                                       {"cap", BRAID_EVENT_CAP},
                                       {"rate", BRAID_EVENT_RATE}};
static const cyaml_schema_field_t kEventFields[] = {
    CYAML_FIELD_FLOAT("at_s", CYAML_FLAG_DEFAULT, braid_scenario_event, at_s),
    CYAML_FIELD_ENUM("event", CYAML_FLAG_STRICT, braid_scenario_event, event, kWhat, sizeof kWhat / sizeof *kWhat),
    INTEGER(braid_scenario_event, node),
    INTEGER(braid_scenario_event, count),
    NUMBER(braid_scenario_event, factor),
    NUMBER(braid_scenario_event, watts),
    TEXT(braid_scenario_event, tenant),
    NUMBER(braid_scenario_event, rate),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kEvent = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_scenario_event, kEventFields)};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_FLOAT("seconds", CYAML_FLAG_DEFAULT, braid_scenario, seconds),
    INTEGER(braid_scenario, requests),
    NUMBER(braid_scenario, network_ms),
    INTEGER(braid_scenario, max_waiting),
    NUMBER(braid_scenario, period_s),
    NUMBER(braid_scenario, detect_ms),
    NUMBER(braid_scenario, notice_ms),
    NUMBER(braid_scenario, horizon_s),
    NUMBER(braid_scenario, most_busy),
    NUMBER(braid_scenario, cap_watts),
    LIST(braid_scenario, nodes, &kNodes, 1, BRAID_SCENARIO_KINDS),
    LIST(braid_scenario, models, &kModel, 1, BRAID_SCENARIO_LIST),
    LIST(braid_scenario, tenants, &kTenant, 1, BRAID_SCENARIO_LIST),
    CYAML_FIELD_SEQUENCE("events", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_scenario, events, &kEvent, 0,
                         BRAID_SCENARIO_EVENTS),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kScenario = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_scenario, kFields)};

/* --- what the schema cannot say ------------------------------------------------------------------------------------
 * Each check returns its refusal and leaves in `at` the path of what is wrong. */
typedef struct spot {
  char path[96];
} spot;

static void set_spot(spot *at, const char *list, unsigned index, const char *key) {
  if (list)
    snprintf(at->path, sizeof at->path, "%s/%u/%s", list, index, key);
  else
    snprintf(at->path, sizeof at->path, "%s", key);
}

static braid_status check_number(spot *at, const char *list, unsigned index, const char *key, double value,
                                 double least, double most) {
  set_spot(at, list, index, key);
  if (value >= least && value <= most) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s is %g, expected %g to %g", key, value, least, most);
}

static void default_integer(int64_t *value, int64_t otherwise) {
  if (!*value) *value = otherwise;
}

static void default_number(double *value, double otherwise) {
  if (*value == 0) *value = otherwise;
}

static braid_status check_whole(braid_scenario *s, spot *at) {
  default_integer(&s->requests, BRAID_SCENARIO_REQUESTS);
  default_integer(&s->max_waiting, 256);
  default_number(&s->period_s, 10);
  default_number(&s->detect_ms, 1000);
  default_number(&s->notice_ms, 1000);
  default_number(&s->horizon_s, 60);
  default_number(&s->most_busy, 0.7);
  BRAID_TRY(check_number(at, NULL, 0, "seconds", s->seconds, 1e-3, 1e6));
  BRAID_TRY(check_number(at, NULL, 0, "requests", (double)s->requests, 1, BRAID_SCENARIO_REQUESTS));
  BRAID_TRY(check_number(at, NULL, 0, "max_waiting", (double)s->max_waiting, 1, 100000));
  BRAID_TRY(check_number(at, NULL, 0, "network_ms", s->network_ms, 0, 10000));
  BRAID_TRY(check_number(at, NULL, 0, "period_s", s->period_s, s->seconds / kLooks, 1e6));
  BRAID_TRY(check_number(at, NULL, 0, "detect_ms", s->detect_ms, 0.001, 1e6));
  BRAID_TRY(check_number(at, NULL, 0, "notice_ms", s->notice_ms, 0.001, 1e6));
  BRAID_TRY(check_number(at, NULL, 0, "horizon_s", s->horizon_s, 0.001, 1e6));
  BRAID_TRY(check_number(at, NULL, 0, "most_busy", s->most_busy, 0.01, 1));
  return check_number(at, NULL, 0, "cap_watts", s->cap_watts, 0, 1e12);
}

static braid_status check_nodes(braid_scenario *s, spot *at) {
  for (unsigned i = 0; i < s->nodes_count; i++) {
    braid_scenario_nodes *n = &s->nodes[i];
    default_integer(&n->count, 1);
    default_integer(&n->instances, 1);
    for (unsigned k = 0; k < i; k++) {
      set_spot(at, "nodes", i, "kind");
      if (strcmp(n->kind, s->nodes[k].kind) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two kinds of nodes named %s", n->kind);
    }
    BRAID_TRY(check_number(at, "nodes", i, "count", (double)n->count, 1, BRAID_SCENARIO_NODES));
    BRAID_TRY(check_number(at, "nodes", i, "instances", (double)n->instances, 1, BRAID_SCENARIO_INSTANCES));
    BRAID_TRY(check_number(at, "nodes", i, "memory_mib", n->memory_mib, 0, 1e9));
    BRAID_TRY(check_number(at, "nodes", i, "asleep_watts", n->asleep_watts, 0, 1e6));
    BRAID_TRY(check_number(at, "nodes", i, "idle_watts", n->idle_watts, n->asleep_watts, 1e6));
    BRAID_TRY(check_number(at, "nodes", i, "busy_watts", n->busy_watts, n->idle_watts, 1e6));
    BRAID_TRY(check_number(at, "nodes", i, "load_mib_per_s", n->load_mib_per_s, 0, 1e9));
    s->node_count += (size_t)n->count;
    set_spot(at, "nodes", i, "count");
    if (s->node_count > BRAID_SCENARIO_NODES)
      return braid_fail(BRAID_INVALID_FILE, "more than %d nodes", BRAID_SCENARIO_NODES);
  }
  return BRAID_OK;
}

static braid_status check_times(braid_scenario *s, unsigned index, spot *at) {
  braid_scenario_model *m = &s->models[index];
  char list[40];
  snprintf(list, sizeof list, "models/%u/times", index);
  for (unsigned i = 0; i < m->times_count; i++) {
    braid_scenario_time *t = &m->times[i];
    default_integer(&t->rows, 1);
    set_spot(at, list, i, "kind");
    while (t->kind_index < s->nodes_count && strcmp(s->nodes[t->kind_index].kind, t->kind) != 0) t->kind_index++;
    if (t->kind_index == s->nodes_count)
      return braid_fail(BRAID_INVALID_FILE, "there is no kind of nodes named %s", t->kind);
    BRAID_TRY(check_number(at, list, i, "rows", (double)t->rows, 1, BRAID_SCENARIO_ROWS));
    BRAID_TRY(check_number(at, list, i, "mean_ms", t->mean_ms, 1e-3, 1e7));
    BRAID_TRY(check_number(at, list, i, "deviation_ms", t->deviation_ms, 0, 1e7));
    for (unsigned k = 0; k < i; k++)
      if (m->times[k].kind_index == t->kind_index && m->times[k].rows == t->rows)
        return braid_fail(BRAID_INVALID_FILE, "the time of %lld rows on %s is there twice", (long long)t->rows,
                          t->kind);
  }
  for (unsigned i = 0; i < m->times_count; i++) { /* each kind has a time for a run that is full */
    int64_t most = 0;
    for (unsigned k = 0; k < m->times_count; k++)
      if (m->times[k].kind_index == m->times[i].kind_index && m->times[k].rows > most) most = m->times[k].rows;
    set_spot(at, list, i, "rows");
    if (most < m->max_batch)
      return braid_fail(BRAID_INVALID_FILE, "no time of %lld rows, its max_batch, on %s", (long long)m->max_batch,
                        m->times[i].kind);
  }
  return BRAID_OK;
}

static braid_status check_models(braid_scenario *s, spot *at) {
  for (unsigned i = 0; i < s->models_count; i++) {
    braid_scenario_model *m = &s->models[i];
    default_integer(&m->max_batch, 1);
    default_integer(&m->plan_rows, 1);
    default_integer(&m->least, 1);
    for (unsigned k = 0; k < i; k++) {
      set_spot(at, "models", i, "name");
      if (strcmp(m->name, s->models[k].name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two models named %s", m->name);
    }
    BRAID_TRY(check_number(at, "models", i, "memory_mib", m->memory_mib, 0, 1e9));
    BRAID_TRY(check_number(at, "models", i, "max_batch", (double)m->max_batch, 1, BRAID_SCENARIO_ROWS));
    BRAID_TRY(check_number(at, "models", i, "plan_rows", (double)m->plan_rows, 1, (double)m->max_batch));
    BRAID_TRY(check_number(at, "models", i, "deadline_ms", m->deadline_ms, 0, 1e9));
    BRAID_TRY(check_number(at, "models", i, "delay_ms", m->delay_ms, 0, 1e6));
    BRAID_TRY(check_number(at, "models", i, "least", (double)m->least, 1, BRAID_SCENARIO_NODES));
    if (m->most)
      BRAID_TRY(check_number(at, "models", i, "most", (double)m->most, (double)m->least, BRAID_SCENARIO_NODES));
    m->tenant = SIZE_MAX;
    set_spot(at, "models", i, "private_to");
    for (unsigned t = 0; m->private_to && t < s->tenants_count; t++)
      if (strcmp(s->tenants[t].name, m->private_to) == 0) m->tenant = t;
    if (m->private_to && m->tenant == SIZE_MAX)
      return braid_fail(BRAID_INVALID_FILE, "there is no tenant named %s", m->private_to);
    BRAID_TRY(check_times(s, i, at));
  }
  return BRAID_OK;
}

static braid_status check_tenants(braid_scenario *s, spot *at) {
  double expected = 0;
  for (unsigned i = 0; i < s->tenants_count; i++) {
    braid_scenario_tenant *t = &s->tenants[i];
    default_integer(&t->priority, 5);
    default_number(&t->burstiness, 4);
    for (unsigned k = 0; k < i; k++) {
      set_spot(at, "tenants", i, "name");
      if (strcmp(t->name, s->tenants[k].name) == 0)
        return braid_fail(BRAID_INVALID_FILE, "there are two tenants named %s", t->name);
    }
    set_spot(at, "tenants", i, "model");
    while (t->model_index < s->models_count && strcmp(s->models[t->model_index].name, t->model) != 0) t->model_index++;
    if (t->model_index == s->models_count)
      return braid_fail(BRAID_INVALID_FILE, "there is no model named %s", t->model);
    const braid_scenario_model *m = &s->models[t->model_index];
    if (m->private_to && m->tenant != i)
      return braid_fail(BRAID_INVALID_FILE, "the model %s is private to %s", m->name, m->private_to);
    bool recorded = t->arrivals == BRAID_ARRIVALS_TRACE;
    BRAID_TRY(check_number(at, "tenants", i, "rate", t->rate, recorded ? 0 : 1e-6, 1e9));
    BRAID_TRY(check_number(at, "tenants", i, "burstiness", t->burstiness, 1, 1000));
    BRAID_TRY(check_number(at, "tenants", i, "priority", (double)t->priority, 1, 9));
    BRAID_TRY(check_number(at, "tenants", i, "deadline_ms", t->deadline_ms, 0, 1e9));
    default_number(&t->deadline_ms, m->deadline_ms);
    if (!recorded) expected += t->rate * s->seconds;
  }
  set_spot(at, NULL, 0, "tenants");
  if (expected > 2.0 * BRAID_SCENARIO_REQUESTS && s->requests == BRAID_SCENARIO_REQUESTS)
    return braid_fail(BRAID_INVALID_FILE, "about %.3g requests, expected at most %d; `requests` ends it earlier",
                      expected, BRAID_SCENARIO_REQUESTS);
  return BRAID_OK;
}

static braid_status check_event(braid_scenario *s, unsigned index, spot *at) {
  braid_scenario_event *e = &s->events[index];
  BRAID_TRY(check_number(at, "events", index, "at_s", e->at_s, 0, s->seconds)); /* later it would change nothing */
  switch (e->event) {
  case BRAID_EVENT_CAP:
    return check_number(at, "events", index, "watts", e->watts, 0, 1e12);
  case BRAID_EVENT_RATE:
    set_spot(at, "events", index, "tenant");
    while (e->tenant_index < s->tenants_count &&
           (!e->tenant || strcmp(s->tenants[e->tenant_index].name, e->tenant) != 0))
      e->tenant_index++;
    if (e->tenant_index == s->tenants_count)
      return braid_fail(BRAID_INVALID_FILE, "there is no tenant named %s", e->tenant ? e->tenant : "\"\"");
    if (s->tenants[e->tenant_index].arrivals == BRAID_ARRIVALS_TRACE)
      return braid_fail(BRAID_INVALID_FILE, "the requests of %s come from a trace, whose rate does not change",
                        e->tenant);
    return check_number(at, "events", index, "rate", e->rate, 1e-6, 1e9);
  default:
    default_integer(&e->count, 1);
    default_number(&e->factor, 1);
    BRAID_TRY(check_number(at, "events", index, "factor", e->factor, 0.01, 1000));
    BRAID_TRY(check_number(at, "events", index, "node", (double)e->node, 0, (double)s->node_count - 1));
    return check_number(at, "events", index, "count", (double)e->count, 1, (double)(s->node_count - (size_t)e->node));
  }
}

/* Each word of features, once. NULL where there are more than `most`. */
static bool add_words(const char *features, const char **words, size_t *lengths, size_t *count) {
  for (const char *at = features; at && *at;) {
    size_t length = strcspn(at, " "), i = 0;
    while (i < *count && (lengths[i] != length || memcmp(words[i], at, length) != 0)) i++;
    if (length && i == *count) {
      if (*count == kWords) return false;
      words[*count] = at;
      lengths[(*count)++] = length;
    }
    at += length + (at[length] == ' ');
  }
  return true;
}

static bool list_words(const braid_scenario *s, const char **words, size_t *lengths, size_t *count) {
  bool fits = true;
  *count = 0;
  for (unsigned i = 0; i < s->nodes_count; i++) fits &= add_words(s->nodes[i].features, words, lengths, count);
  for (unsigned i = 0; i < s->models_count; i++) fits &= add_words(s->models[i].features, words, lengths, count);
  return fits;
}

uint64_t braid_scenario_features(const braid_scenario *scenario, const char *features) {
  const char *words[kWords], *own[kWords];
  size_t lengths[kWords], own_lengths[kWords], count, own_count = 0;
  uint64_t bits = 0;
  (void)list_words(scenario, words, lengths, &count);
  (void)add_words(features, own, own_lengths, &own_count);
  for (size_t i = 0; i < own_count; i++)
    for (size_t k = 0; k < count; k++)
      if (lengths[k] == own_lengths[i] && memcmp(words[k], own[i], lengths[k]) == 0) bits |= UINT64_C(1) << k;
  return bits;
}

static braid_status check_words(const braid_scenario *s, spot *at) {
  const char *words[kWords];
  size_t lengths[kWords], count;
  set_spot(at, NULL, 0, "nodes");
  if (list_words(s, words, lengths, &count)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "more than %d different features", kWords);
}

static int compare_events(const void *a, const void *b) {
  const braid_scenario_event *x = a, *y = b;
  if (x->at_s != y->at_s) return x->at_s < y->at_s ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

braid_status braid_scenario_parse(const char *name, const void *text, size_t bytes, braid_scenario **out) {
  void *document;
  spot at = {""};
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kScenario, &document));
  braid_scenario *s = document;
  braid_status status = check_whole(s, &at);
  if (status == BRAID_OK) status = check_nodes(s, &at);
  if (status == BRAID_OK) status = check_models(s, &at);
  if (status == BRAID_OK) status = check_words(s, &at);
  if (status == BRAID_OK) status = check_tenants(s, &at);
  for (unsigned i = 0; status == BRAID_OK && i < s->events_count; i++) status = check_event(s, i, &at);
  if (status == BRAID_OK) {
    for (unsigned i = 0; i < s->events_count; i++) s->events[i].order = i;
    if (s->events_count > 1) qsort(s->events, s->events_count, sizeof *s->events, compare_events);
    *out = s;
    return BRAID_OK;
  }
  status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, at.path));
  braid_scenario_free(s);
  return status;
}

braid_status braid_scenario_load(const char *path, braid_scenario **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(NULL, path, BRAID_YAML_BYTES, &view));
  braid_status status = braid_scenario_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

void braid_scenario_free(braid_scenario *scenario) {
  braid_yaml_free(&kScenario, scenario);
}
