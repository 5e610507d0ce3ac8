/* System shared memory that clients registered, by name, per tenant. Regions are read and written by pread and pwrite,
 * not mapped: a client that truncates its own file would otherwise end the daemon (SIGBUS). */
#ifndef BRAID_SERVE_REGIONS_H
#define BRAID_SERVE_REGIONS_H

#include "serve/request.h"

typedef struct braid_serve_regions braid_serve_regions;
typedef struct braid_serve_region_info {
  char name[BRAID_SERVE_NAME], key[BRAID_SERVE_NAME];
  uint64_t offset, bytes;
} braid_serve_region_info;

braid_status braid_serve_regions_create(braid_serve_regions **out);
void braid_serve_regions_destroy(braid_serve_regions *regions);
/* All return a verdict, with the sentence in `detail` (BRAID_SERVE_DETAIL bytes). `prefix`: of the keys that the tenant
 * may register; NULL: none. */
braid_serve_verdict braid_serve_region_register(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                                const char *prefix, const braid_serve_region_info *info, char *detail);
/* `name` NULL: all of the tenant's. */
braid_serve_verdict braid_serve_region_unregister(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                                  const char *name, char *detail);
/* The index-th region of the tenant; false beyond the last. */
bool braid_serve_region_get(braid_serve_regions *regions, const braid_serve_tenant *tenant, size_t index,
                            braid_serve_region_info *out);
braid_serve_verdict braid_serve_region_read(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                            const char *name, uint64_t offset, void *to, size_t bytes, char *detail);
braid_serve_verdict braid_serve_region_write(braid_serve_regions *regions, const braid_serve_tenant *tenant,
                                             const char *name, uint64_t offset, const void *from, size_t bytes,
                                             char *detail);

#endif
