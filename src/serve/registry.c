#include "serve/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/try.h"

/* A model of the configuration. */
typedef struct slot {
  const braid_serve_model_config *config;
  braid_serve_device *device;
  braid_serve_model *model; /* while READY */
  braid_serve_state state;
  bool wanted;  /* to be loaded; else it was unloaded by the API, or is lazy and nobody asked */
  bool refused; /* unloaded by the API: no request loads it */
  bool asked;   /* loaded by the API */
  bool first;   /* to be loaded since the start, and neither loaded nor broken yet */
  char reason[BRAID_SERVE_DETAIL];
  braid_serve_statistics statistics;
  size_t bytes;
  int64_t used_ns;
  uint64_t evictions;
} slot;

struct braid_serve_registry {
  const braid_serve_config *config;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  slot *slots;
  size_t count;
  braid_thread loader;
  bool started, stop;
  braid_serve_elsewhere elsewhere; /* find NULL: nothing is */
};

static slot *find_slot(braid_serve_registry *registry, const char *name) {
  for (size_t i = 0; i < registry->count; i++)
    if (strcmp(registry->slots[i].config->name, name) == 0) return &registry->slots[i];
  return NULL;
}

/* --- the state file ------------------------------------------------------------------------------------------------
 * A line for each model that the API loaded or unloaded: "loaded NAME" or "unloaded NAME". */
static braid_status save_state(const braid_serve_registry *registry) {
  if (!registry->config->state) return BRAID_OK;
  braid_text text;
  braid_text_init(&text, NULL);
  for (size_t i = 0; i < registry->count; i++) {
    const slot *s = &registry->slots[i];
    if (s->refused || s->asked)
      braid_text_printf(&text, "%s %s\n", s->refused ? "unloaded" : "loaded", s->config->name);
  }
  braid_status status =
      text.failed ? BRAID_NO_MEMORY : braid_file_write(NULL, registry->config->state, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

static braid_status read_state(braid_serve_registry *registry) {
  enum { kMost = 1 << 20 };
  braid_file_view view;
  if (!registry->config->state) return BRAID_OK;
  braid_status status = braid_file_open(NULL, registry->config->state, kMost, &view);
  if (status == BRAID_NOT_FOUND) return BRAID_OK;
  if (status != BRAID_OK) return status;
  char line[BRAID_SERVE_NAME + 16];
  size_t number = 1;
  for (size_t at = 0; at < view.bytes && status == BRAID_OK; number++) {
    const char *text = (const char *)view.data + at, *end = memchr(text, '\n', view.bytes - at);
    size_t length = end ? (size_t)(end - text) : view.bytes - at;
    bool fits = end && length < sizeof line;
    if (fits) memcpy(line, text, length);
    line[fits ? length : 0] = '\0';
    bool loaded = strncmp(line, "loaded ", 7) == 0, unloaded = strncmp(line, "unloaded ", 9) == 0;
    if (!loaded && !unloaded) {
      status = braid_fail(BRAID_INVALID_FILE, "%s, line %zu: expected \"loaded NAME\" or \"unloaded NAME\"",
                          registry->config->state, number);
      break;
    }
    slot *s = find_slot(registry, line + (loaded ? 7 : 9));
    if (s) { /* else the configuration has it no more */
      s->wanted = s->asked = loaded;
      s->refused = unloaded;
    }
    at += length + 1;
  }
  braid_file_close(&view);
  return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------
 */
/* Unloads what nobody uses, longest unused first, until the memory of the models fits. The registry is locked; what is
 * to be released is returned through `out`. */
static size_t evict(braid_serve_registry *registry, const slot *keep, braid_serve_model **out) {
  size_t most = (size_t)registry->config->max_memory_bytes, total = 0, count = 0;
  if (!most) return 0;
  for (size_t i = 0; i < registry->count; i++)
    total += registry->slots[i].state == BRAID_SERVE_READY ? registry->slots[i].bytes : 0;
  while (total > most) {
    slot *oldest = NULL;
    for (size_t i = 0; i < registry->count; i++) {
      slot *s = &registry->slots[i];
      bool idle =
          s != keep && s->state == BRAID_SERVE_READY && __atomic_load_n(&s->model->references, __ATOMIC_ACQUIRE) == 1;
      if (idle && (!oldest || s->used_ns < oldest->used_ns)) oldest = s;
    }
    if (!oldest) break;
    out[count++] = oldest->model;
    oldest->model = NULL;
    oldest->state = BRAID_SERVE_UNLOADED;
    oldest->wanted = false;
    oldest->evictions++;
    snprintf(oldest->reason, sizeof oldest->reason, "unloaded for the memory of others; the next request loads it");
    total -= oldest->bytes;
  }
  return count;
}

static void load_slot(braid_serve_registry *registry, slot *s) {
  s->state = BRAID_SERVE_LOADING;
  pthread_mutex_unlock(&registry->lock);
  braid_serve_model *model = NULL;
  braid_status status = braid_serve_model_load(s->config, s->device, &s->statistics, &model);
  size_t bytes = model ? braid_serve_model_bytes(model) : 0;
  braid_serve_model *evicted[256];
  pthread_mutex_lock(&registry->lock);
  if (status == BRAID_OK) {
    s->model = model;
    s->bytes = bytes;
    s->state = BRAID_SERVE_READY;
    s->used_ns = braid_now_ns();
    snprintf(s->reason, sizeof s->reason, "%s",
             model->random ? "its weights are random: the configuration names none" : "");
  } else {
    s->state = BRAID_SERVE_BROKEN;
    s->wanted = false;
    snprintf(s->reason, sizeof s->reason, "%s", braid_error_detail());
  }
  s->first = false;
  size_t most = (size_t)registry->config->max_memory_bytes;
  if (status == BRAID_OK && most && bytes > most)
    snprintf(s->reason, sizeof s->reason, "it takes %zu bytes, more than max_memory_bytes alone", bytes);
  size_t count = evict(registry, s, evicted);
  pthread_cond_broadcast(&registry->changed);
  pthread_mutex_unlock(&registry->lock);
  for (size_t i = 0; i < count; i++) braid_serve_model_release(evicted[i]);
  pthread_mutex_lock(&registry->lock);
}

static void *loader_main(void *context) {
  braid_serve_registry *registry = context;
  pthread_mutex_lock(&registry->lock);
  while (!registry->stop) {
    slot *next = NULL;
    for (size_t i = 0; i < registry->count && !next; i++)
      if (registry->slots[i].wanted && registry->slots[i].state == BRAID_SERVE_UNLOADED) next = &registry->slots[i];
    if (next)
      load_slot(registry, next);
    else
      pthread_cond_wait(&registry->changed, &registry->lock);
  }
  pthread_mutex_unlock(&registry->lock);
  return NULL;
}

braid_status braid_serve_registry_create(const braid_serve_config *config, braid_serve_device *devices,
                                         braid_serve_registry **out) {
  *out = NULL;
  braid_serve_registry *registry = braid_zalloc(NULL, sizeof *registry);
  if (!registry) return BRAID_NO_MEMORY;
  registry->config = config;
  pthread_mutex_init(&registry->lock, NULL);
  pthread_cond_init(&registry->changed, NULL);
  registry->slots = braid_zalloc_array(NULL, config->models_count, sizeof *registry->slots);
  braid_status status = registry->slots ? BRAID_OK : BRAID_NO_MEMORY;
  for (size_t i = 0; i < config->models_count && status == BRAID_OK; i++) {
    slot *s = &registry->slots[registry->count++];
    s->config = &config->models[i];
    s->wanted = !s->config->lazy && !config->cluster; /* a cluster's control node says what is to be loaded */
    s->device = devices;
    while (strcmp(s->device->config->name, s->config->device) != 0) s->device++;
  }
  if (status == BRAID_OK) status = read_state(registry);
  for (size_t i = 0; i < registry->count; i++) registry->slots[i].first = registry->slots[i].wanted;
  if (status == BRAID_OK) status = braid_thread_start(&registry->loader, "braid-load", loader_main, registry);
  registry->started = status == BRAID_OK;
  if (status == BRAID_OK)
    *out = registry;
  else
    braid_serve_registry_destroy(registry);
  return status;
}

void braid_serve_registry_close(braid_serve_registry *registry) {
  pthread_mutex_lock(&registry->lock);
  registry->stop = true;
  pthread_cond_broadcast(&registry->changed);
  pthread_mutex_unlock(&registry->lock);
}

void braid_serve_registry_destroy(braid_serve_registry *registry) {
  if (!registry) return;
  braid_serve_registry_close(registry);
  if (registry->started) braid_thread_join(&registry->loader);
  for (size_t i = 0; i < registry->count; i++) braid_serve_model_release(registry->slots[i].model);
  pthread_mutex_destroy(&registry->lock);
  pthread_cond_destroy(&registry->changed);
  braid_free(NULL, registry->slots);
  braid_free(NULL, registry);
}

/* --- asking --------------------------------------------------------------------------------------------------------
 */
size_t braid_serve_registry_count(const braid_serve_registry *registry) {
  return registry->count;
}

/* What others have of a model that is not ready here; the registry is locked. */
static braid_serve_model *find_elsewhere(const braid_serve_registry *registry, const slot *s, char *note,
                                         bool *out_able) {
  const braid_serve_elsewhere *elsewhere = &registry->elsewhere;
  *note = '\0';
  *out_able = false;
  if (!elsewhere->find || s->state == BRAID_SERVE_READY) return NULL;
  return elsewhere->find(elsewhere->context, s->config->name, note, out_able);
}

static void slot_describe(const slot *s, braid_serve_entry *out) {
  *out = (braid_serve_entry){.config = s->config,
                             .state = s->state,
                             .bytes = s->state == BRAID_SERVE_READY ? s->bytes : 0,
                             .evictions = s->evictions};
  if (out->state == BRAID_SERVE_UNLOADED && s->wanted) out->state = BRAID_SERVE_LOADING;
  snprintf(out->reason, sizeof out->reason, "%s", s->reason);
  const uint64_t *from = (const uint64_t *)&s->statistics;
  uint64_t *to = (uint64_t *)&out->statistics;
  for (size_t i = 0; i < sizeof out->statistics / sizeof *to; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

bool braid_serve_registry_entry(braid_serve_registry *registry, size_t index, braid_serve_entry *out) {
  if (index >= registry->count) return false;
  pthread_mutex_lock(&registry->lock);
  slot_describe(&registry->slots[index], out);
  char note[BRAID_SERVE_DETAIL];
  bool able;
  braid_serve_model *model = find_elsewhere(registry, &registry->slots[index], note, &able);
  if (model && able) out->state = BRAID_SERVE_READY;
  if (*note) memcpy(out->reason, note, sizeof note);
  pthread_mutex_unlock(&registry->lock);
  braid_serve_model_release(model);
  return true;
}

bool braid_serve_registry_local(braid_serve_registry *registry, size_t index, braid_serve_entry *out, bool *out_refused,
                                bool *out_asked) {
  if (index >= registry->count) return false;
  pthread_mutex_lock(&registry->lock);
  slot_describe(&registry->slots[index], out);
  *out_refused = registry->slots[index].refused;
  *out_asked = registry->slots[index].asked;
  pthread_mutex_unlock(&registry->lock);
  return true;
}

void braid_serve_registry_set_elsewhere(braid_serve_registry *registry, const braid_serve_elsewhere *elsewhere) {
  pthread_mutex_lock(&registry->lock);
  registry->elsewhere = elsewhere ? *elsewhere : (braid_serve_elsewhere){0};
  pthread_mutex_unlock(&registry->lock);
}

bool braid_serve_registry_find(braid_serve_registry *registry, const char *name, braid_serve_entry *out) {
  slot *s = find_slot(registry, name); /* the list and its names do not change */
  return s && braid_serve_registry_entry(registry, (size_t)(s - registry->slots), out);
}

bool braid_serve_registry_is_settled(braid_serve_registry *registry) {
  bool settled = true;
  pthread_mutex_lock(&registry->lock);
  for (size_t i = 0; i < registry->count; i++) settled &= !registry->slots[i].first || !registry->slots[i].wanted;
  pthread_mutex_unlock(&registry->lock);
  return settled;
}

braid_status braid_serve_registry_acquire(braid_serve_registry *registry, const char *name, const char *version,
                                          braid_serve_model **out) {
  *out = NULL;
  slot *s = find_slot(registry, name);
  if (!s) return braid_fail(BRAID_NOT_FOUND, "there is no model \"%.100s\"", name);
  if (version && *version && strcmp(version, s->config->version) != 0)
    return braid_fail(BRAID_NOT_FOUND, "model %s has the version %s, not \"%.100s\"", name, s->config->version,
                      version);
  braid_status status = BRAID_OK;
  char note[BRAID_SERVE_DETAIL];
  bool able;
  pthread_mutex_lock(&registry->lock);
  if (s->state == BRAID_SERVE_READY) {
    braid_serve_model_retain(s->model);
    s->used_ns = braid_now_ns();
    *out = s->model;
  } else if ((*out = find_elsewhere(registry, s, note, &able)) || *note) {
    if (!*out) status = braid_fail(BRAID_BUSY, "model %s: %s", name, note);
  } else if (s->state == BRAID_SERVE_BROKEN) {
    status = braid_fail(BRAID_BUSY, "model %s could not be loaded: %s", name, s->reason);
  } else if (s->refused) {
    status = braid_fail(BRAID_BUSY, "model %s is unloaded", name);
  } else {
    if (!s->wanted) {
      s->wanted = true;
      pthread_cond_broadcast(&registry->changed);
    }
    status = braid_fail(BRAID_BUSY, "model %s is loading; ask again", name);
  }
  pthread_mutex_unlock(&registry->lock);
  return status;
}

braid_status braid_serve_registry_acquire_local(braid_serve_registry *registry, const char *name,
                                                braid_serve_model **out) {
  *out = NULL;
  slot *s = find_slot(registry, name);
  if (!s) return braid_fail(BRAID_NOT_FOUND, "there is no model \"%.100s\"", name);
  pthread_mutex_lock(&registry->lock);
  if (s->state == BRAID_SERVE_READY) {
    braid_serve_model_retain(s->model);
    s->used_ns = braid_now_ns();
    *out = s->model;
  }
  pthread_mutex_unlock(&registry->lock);
  return *out ? BRAID_OK : braid_fail(BRAID_BUSY, "model %s is not loaded here", name);
}

void braid_serve_registry_order(braid_serve_registry *registry, const char *name, bool wanted) {
  slot *s = find_slot(registry, name);
  braid_serve_model *model = NULL;
  if (!s) return;
  pthread_mutex_lock(&registry->lock);
  if (wanted && !s->refused && s->state == BRAID_SERVE_UNLOADED && !s->wanted) {
    s->wanted = true;
    pthread_cond_broadcast(&registry->changed);
  } else if (!wanted && !s->asked && (s->wanted || s->state == BRAID_SERVE_READY)) {
    s->wanted = false;
    if (s->state == BRAID_SERVE_READY) { /* one that loads is unloaded when it is loaded */
      model = s->model;
      s->model = NULL;
      s->state = BRAID_SERVE_UNLOADED;
      snprintf(s->reason, sizeof s->reason, "other nodes hold it");
    }
  }
  pthread_mutex_unlock(&registry->lock);
  braid_serve_model_release(model);
}

braid_status braid_serve_registry_load(braid_serve_registry *registry, const char *name) {
  slot *s = find_slot(registry, name);
  if (!s) return braid_fail(BRAID_NOT_FOUND, "there is no model \"%.100s\" in the configuration", name);
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&registry->lock);
  s->refused = false;
  s->wanted = s->asked = true;
  if (s->state == BRAID_SERVE_BROKEN) s->state = BRAID_SERVE_UNLOADED; /* another attempt */
  pthread_cond_broadcast(&registry->changed);
  while (!registry->stop && s->wanted && (s->state == BRAID_SERVE_UNLOADED || s->state == BRAID_SERVE_LOADING))
    pthread_cond_wait(&registry->changed, &registry->lock);
  if (s->state == BRAID_SERVE_READY)
    status = save_state(registry);
  else
    status = braid_fail(BRAID_INVALID_FILE, "model %s: %s", name, registry->stop ? "the daemon stops" : s->reason);
  pthread_mutex_unlock(&registry->lock);
  return status;
}

braid_status braid_serve_registry_unload(braid_serve_registry *registry, const char *name) {
  slot *s = find_slot(registry, name);
  if (!s) return braid_fail(BRAID_NOT_FOUND, "there is no model \"%.100s\" in the configuration", name);
  pthread_mutex_lock(&registry->lock);
  s->refused = true;
  s->wanted = s->asked = false;
  while (!registry->stop && s->state == BRAID_SERVE_LOADING) pthread_cond_wait(&registry->changed, &registry->lock);
  braid_serve_model *model = s->model;
  s->model = NULL;
  s->state = BRAID_SERVE_UNLOADED;
  snprintf(s->reason, sizeof s->reason, "unloaded");
  braid_status status = save_state(registry);
  pthread_cond_broadcast(&registry->changed);
  pthread_mutex_unlock(&registry->lock);
  braid_serve_model_release(model);
  return status;
}
