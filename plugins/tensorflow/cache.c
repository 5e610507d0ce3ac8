/* The programs of a kernel by shape, the one used last first. Together with the device's memory they keep to what
 * BRAID_TF_MEMORY allows: where there is no room, those that nobody is using are given back, of every kernel. */
#include <string.h>

#include "plugin.h"

enum { kMostPrograms = 64 };

static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER;
static fpga_cache *caches;

void fpga_cache_init(fpga_cache *cache) {
  pthread_mutex_init(&cache->lock, NULL);
  pthread_mutex_lock(&caches_lock);
  cache->next = caches;
  if (caches) caches->before = cache;
  caches = cache;
  pthread_mutex_unlock(&caches_lock);
}

/* Drops what comes after `link`, with the lock held. */
static void drop_behind(fpga_program **link) {
  while (*link) {
    fpga_program *old = *link;
    *link = old->next;
    fpga_program_release(old);
  }
}

void fpga_cache_deinit(fpga_cache *cache) {
  pthread_mutex_lock(&caches_lock);
  *(cache->before ? &cache->before->next : &caches) = cache->next;
  if (cache->next) cache->next->before = cache->before;
  pthread_mutex_unlock(&caches_lock);
  drop_behind(&cache->programs);
  pthread_mutex_destroy(&cache->lock);
}

fpga_program *fpga_cache_find(fpga_cache *cache, const fpga_device *device, const int64_t *key, size_t bytes) {
  for (fpga_program **link = &cache->programs; *link; link = &(*link)->next) {
    fpga_program *program = *link;
    if (program->key_bytes != bytes || program->device != device || memcmp(program->key, key, bytes) != 0) continue;
    *link = program->next;
    program->next = cache->programs;
    return cache->programs = program;
  }
  return NULL;
}

void fpga_cache_add(fpga_cache *cache, fpga_program *program) {
  program->next = cache->programs;
  cache->programs = program;
  fpga_program **link = &program->next;
  for (int i = 1; *link && i < kMostPrograms; i++) link = &(*link)->next;
  drop_behind(link);
}

/* Those of the device that only the cache has, with the lock held. */
static void drop_idle(fpga_cache *cache, const fpga_device *device) {
  for (fpga_program **link = &cache->programs; *link;) {
    fpga_program *program = *link;
    if (program->device != device || __atomic_load_n(&program->users, __ATOMIC_ACQUIRE) > 1) {
      link = &program->next;
      continue;
    }
    *link = program->next;
    fpga_program_release(program);
  }
}

void fpga_caches_drop_idle(const fpga_device *device) {
  pthread_mutex_lock(&caches_lock);
  for (fpga_cache *cache = caches; cache; cache = cache->next) {
    pthread_mutex_lock(&cache->lock);
    drop_idle(cache, device);
    pthread_mutex_unlock(&cache->lock);
  }
  pthread_mutex_unlock(&caches_lock);
}

void fpga_cache_remove(fpga_cache *cache, fpga_program *program) {
  pthread_mutex_lock(&cache->lock);
  fpga_program **link = &cache->programs;
  while (*link && *link != program) link = &(*link)->next;
  if (*link) {
    *link = program->next;
    fpga_program_release(program);
  }
  pthread_mutex_unlock(&cache->lock);
}
