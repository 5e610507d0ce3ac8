#include "serve/regions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vector.h"

enum { kMost = 1024 }; /* of a tenant */

typedef struct region {
  const braid_serve_tenant *tenant;
  braid_serve_region_info info;
  int file;
} region;

struct braid_serve_regions {
  pthread_rwlock_t lock; /* for reading while a region is read or written */
  region *items;
  size_t count, capacity;
};

static braid_serve_verdict BRAID_PRINTF(3, 4)
    region_refuse(char *detail, braid_serve_verdict verdict, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, BRAID_SERVE_DETAIL, format, arguments);
  va_end(arguments);
  return verdict;
}

braid_status braid_serve_regions_create(braid_serve_regions **out) {
  *out = braid_zalloc(NULL, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  pthread_rwlock_init(&(*out)->lock, NULL);
  return BRAID_OK;
}

void braid_serve_regions_destroy(braid_serve_regions *regions) {
  if (!regions) return;
  for (size_t i = 0; i < regions->count; i++) close(regions->items[i].file);
  pthread_rwlock_destroy(&regions->lock);
  braid_free(NULL, regions->items);
  braid_free(NULL, regions);
}

static region *region_find(braid_serve_regions *regions, const braid_serve_tenant *tenant, const char *name) {
  for (size_t i = 0; i < regions->count; i++)
    if (regions->items[i].tenant == tenant && strcmp(regions->items[i].info.name, name) == 0) return &regions->items[i];
  return NULL;
}

static braid_serve_verdict open_region(const braid_serve_region_info *info, const char *prefix, int *out,
                                       char *detail) {
  const char *key = info->key;
  if (!prefix) return region_refuse(detail, BRAID_SERVE_FORBIDDEN, "the tenant may not register shared memory");
  if (strncmp(key, prefix, strlen(prefix)) != 0)
    return region_refuse(detail, BRAID_SERVE_FORBIDDEN, "the key %s does not begin with %s, as the tenant's have to",
                         key, prefix);
  if (key[0] != '/' || !key[1] || strchr(key + 1, '/') || strstr(key, ".."))
    return region_refuse(detail, BRAID_SERVE_INVALID, "the key \"%s\": a slash and a name are expected", key);
  int file = shm_open(key, O_RDWR | O_CLOEXEC, 0);
  struct stat facts;
  if (file < 0) return region_refuse(detail, BRAID_SERVE_INVALID, "shared memory %s: %s", key, strerror(errno));
  uint64_t end;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || !info->bytes ||
      __builtin_add_overflow(info->offset, info->bytes, &end) || end > (uint64_t)facts.st_size) {
    close(file);
    return region_refuse(detail, BRAID_SERVE_INVALID, "shared memory %s has %lld bytes, not %llu from %llu on", key,
                         (long long)facts.st_size, (unsigned long long)info->bytes, (unsigned long long)info->offset);
  }
  *out = file;
  return BRAID_SERVE_DONE;
}

braid_serve_verdict braid_serve_region_register(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                                const char *prefix, const braid_serve_region_info *info, char *detail) {
  int file;
  braid_serve_verdict verdict = open_region(info, prefix, &file, detail);
  if (verdict != BRAID_SERVE_DONE) return verdict;
  pthread_rwlock_wrlock(&regions->lock);
  size_t own = 0;
  for (size_t i = 0; i < regions->count; i++) own += regions->items[i].tenant == tenant;
  region *items = braid_grow(NULL, regions->items, regions->count, &regions->capacity, sizeof *items);
  if (items) regions->items = items;
  if (region_find(regions, tenant, info->name))
    verdict = region_refuse(detail, BRAID_SERVE_INVALID, "there is a region %s already", info->name);
  else if (own >= kMost)
    verdict = region_refuse(detail, BRAID_SERVE_OVER_QUOTA, "the tenant has %d regions, as many as it may", kMost);
  else if (!items)
    verdict = region_refuse(detail, BRAID_SERVE_FAILED, "no memory for one more region");
  else
    items[regions->count++] = (region){tenant, *info, file};
  pthread_rwlock_unlock(&regions->lock);
  if (verdict != BRAID_SERVE_DONE) close(file);
  return verdict;
}

braid_serve_verdict braid_serve_region_unregister(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                                  const char *name, char *detail) {
  bool found = !name;
  pthread_rwlock_wrlock(&regions->lock);
  for (size_t i = 0; i < regions->count;) {
    region *item = &regions->items[i];
    if (item->tenant != tenant || (name && strcmp(item->info.name, name) != 0)) {
      i++;
      continue;
    }
    found = true;
    close(item->file);
    *item = regions->items[--regions->count];
  }
  pthread_rwlock_unlock(&regions->lock);
  return found ? BRAID_SERVE_DONE : region_refuse(detail, BRAID_SERVE_UNKNOWN, "there is no region \"%.100s\"", name);
}

bool braid_serve_region_get(braid_serve_regions *regions, const braid_serve_tenant *tenant, size_t index,
                            braid_serve_region_info *out) {
  bool found = false;
  pthread_rwlock_rdlock(&regions->lock);
  for (size_t i = 0; i < regions->count && !found; i++) {
    found = regions->items[i].tenant == tenant && !index--;
    if (found) *out = regions->items[i].info;
  }
  pthread_rwlock_unlock(&regions->lock);
  return found;
}

/* Reads (or writes) all bytes. */
static braid_serve_verdict region_transfer(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                           const char *name, uint64_t offset, void *memory, size_t bytes, bool write,
                                           char *detail) {
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  uint64_t end;
  pthread_rwlock_rdlock(&regions->lock);
  const region *item = region_find(regions, tenant, name);
  struct stat facts;
  if (!item) {
    verdict = region_refuse(detail, BRAID_SERVE_UNKNOWN, "there is no region \"%.100s\"", name);
  } else if (__builtin_add_overflow(offset, (uint64_t)bytes, &end) || end > item->info.bytes) {
    verdict = region_refuse(detail, BRAID_SERVE_INVALID, "region %s has %llu bytes; %zu from %llu on lie outside", name,
                            (unsigned long long)item->info.bytes, bytes, (unsigned long long)offset);
  } else if (fstat(item->file, &facts) != 0 || (uint64_t)facts.st_size < item->info.offset + end) {
    verdict = region_refuse(detail, BRAID_SERVE_INVALID, "region %s: its shared memory has become smaller", name);
  }
  for (size_t done = 0; verdict == BRAID_SERVE_DONE && done < bytes;) {
    off_t at = (off_t)(item->info.offset + offset + done);
    ssize_t count = write ? pwrite(item->file, (uint8_t *)memory + done, bytes - done, at)
                          : pread(item->file, (uint8_t *)memory + done, bytes - done, at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      verdict = region_refuse(detail, BRAID_SERVE_INVALID, "region %s: %s", name,
                              count ? strerror(errno) : "its shared memory has become smaller");
    else
      done += (size_t)count;
  }
  pthread_rwlock_unlock(&regions->lock);
  return verdict;
}

braid_serve_verdict braid_serve_region_read(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                            const char *name, uint64_t offset, void *to, size_t bytes, char *detail) {
  return region_transfer(regions, tenant, name, offset, to, bytes, false, detail);
}

braid_serve_verdict braid_serve_region_write(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                             const char *name, uint64_t offset, const void *from, size_t bytes,
                                             char *detail) {
  return region_transfer(regions, tenant, name, offset, (void *)from, bytes, true, detail);
}
