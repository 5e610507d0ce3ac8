/* The daemon's models by name: which there are, which are loaded, loading and unloading. */
#ifndef BRAID_SERVE_REGISTRY_H
#define BRAID_SERVE_REGISTRY_H

#include "serve/model.h"

typedef struct braid_serve_registry braid_serve_registry;

typedef struct braid_serve_entry {
  const braid_serve_model_config *config;
  braid_serve_state state;
  char reason[BRAID_SERVE_DETAIL]; /* why it is not ready; "" */
  braid_serve_statistics statistics;
  size_t bytes;       /* while loaded */
  uint64_t evictions; /* how often it left for the memory of others */
} braid_serve_entry;

/* Begins to load, in a thread of its own, all that is not lazy or that the state file says was loaded. */
braid_status braid_serve_registry_create(const braid_serve_config *config, braid_serve_device *devices,
                                         braid_serve_registry **out);
/* Calls that wait return, and nothing is loaded any more: before destroy, which calls it too. */
void braid_serve_registry_close(braid_serve_registry *registry);
void braid_serve_registry_destroy(braid_serve_registry *registry);
size_t braid_serve_registry_count(const braid_serve_registry *registry);
/* False beyond the last. */
bool braid_serve_registry_entry(braid_serve_registry *registry, size_t index, braid_serve_entry *out);
bool braid_serve_registry_find(braid_serve_registry *registry, const char *name, braid_serve_entry *out);
/* Whether what was to be loaded at the start is loaded or broken. */
bool braid_serve_registry_is_settled(braid_serve_registry *registry);
/* A reference to a loaded model. NOT_FOUND: no such model or version; BUSY: it is not ready, the detail says why. A
 * lazy one that nobody unloaded begins to load, and is BUSY until then. `version` NULL or "": any. */
braid_status braid_serve_registry_acquire(braid_serve_registry *registry, const char *name, const char *version,
                                          braid_serve_model **out);
/* Waits until it is loaded. */
braid_status braid_serve_registry_load(braid_serve_registry *registry, const char *name);
/* --- of a cluster --- */
/* Where models are that are not loaded here. Asked with the registry locked: it must not call the registry. */
typedef struct braid_serve_elsewhere {
  /* A reference to a model that stands for one of others, NULL: there is none; `note` (BRAID_SERVE_DETAIL bytes): who
   * holds it, or why nobody; `out_able`: whether somebody holds it or could. */
  braid_serve_model *(*find)(void *context, const char *name, char *note, bool *out_able);
  void *context;
} braid_serve_elsewhere;
/* From now on what is not ready here is asked for there. NULL: nothing is elsewhere any more. */
void braid_serve_registry_set_elsewhere(braid_serve_registry *registry, const braid_serve_elsewhere *elsewhere);
/* As entry and acquire, but only of what is here. `out_refused`: the API has unloaded it; `out_asked`: loaded it. */
bool braid_serve_registry_local(braid_serve_registry *registry, size_t index, braid_serve_entry *out, bool *out_refused,
                                bool *out_asked);
braid_status braid_serve_registry_acquire_local(braid_serve_registry *registry, const char *name,
                                                braid_serve_model **out);
/* Begins to load it, or unloads it, without waiting; what the API said goes before. */
void braid_serve_registry_order(braid_serve_registry *registry, const char *name, bool wanted);
/* Requests that have it go on; its memory goes with the last. */
braid_status braid_serve_registry_unload(braid_serve_registry *registry, const char *name);
#endif
