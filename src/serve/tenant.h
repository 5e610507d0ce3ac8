/* Tenants: who may use the daemon, how much of it, and what they have used. */
#ifndef BRAID_SERVE_TENANT_H
#define BRAID_SERVE_TENANT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/request.h"
#include "serve/serving_config.h"

/* Counters since the daemon began, read and written atomically. */
typedef struct braid_serve_usage {
  uint64_t requests, done, refused, failed, late, cancelled;
  uint64_t rows, bytes_in, bytes_out;
  uint64_t device_ns, wait_ns; /* of a run its share by rows */
  uint64_t energy_uj;          /* modelled: of its device time, above idle */
} braid_serve_usage;

struct braid_serve_tenant {
  const braid_serve_tenant_config *config;
  pthread_mutex_t lock; /* of what follows */
  braid_serve_usage usage;
  int64_t in_flight;
  size_t bytes_in_flight;
  double tokens; /* of the rate's bucket */
  int64_t tokens_ns;
  double recent_ns; /* device time of late, decaying by half each second: what shares are judged by */
  int64_t recent_at_ns;
};

braid_status braid_serve_tenants_create(const braid_serve_config *config, braid_serve_tenant **out, size_t *out_count);
void braid_serve_tenants_destroy(braid_serve_tenant *tenants, size_t count);
/* The tenant of a token, compared in constant time with all; NULL: nobody's. `token` NULL: the tenant without a token,
 * if there is one. */
braid_serve_tenant *braid_serve_tenant_find(braid_serve_tenant *tenants, size_t count, const char *token);
bool braid_serve_tenant_may(const braid_serve_tenant *tenant, const char *model);
/* Counts a request of `bytes` in flight; OVER_QUOTA, with the request's sentence, where the tenant has too many. */
braid_serve_verdict braid_serve_tenant_enter(braid_serve_tenant *tenant, braid_serve_request *request);
/* Takes `bytes` more of the tenant's quota for a request that is being read. */
braid_serve_verdict braid_serve_tenant_take(braid_serve_tenant *tenant, braid_serve_request *request, size_t bytes);
/* What was taken comes back when the request is freed: until then its inputs and results are in flight. The same
 * without a request; false where the tenant has not so much left. */
bool braid_serve_tenant_reserve(braid_serve_tenant *tenant, size_t bytes);
void braid_serve_tenant_return(braid_serve_tenant *tenant, size_t bytes);
/* The request has ended; `device_ns`: its part of the run's time, by rows, at so many watts. */
void braid_serve_tenant_leave(braid_serve_tenant *tenant, const braid_serve_request *request, int64_t device_ns,
                              double watts);
/* Device time beside requests: of devices that are used from elsewhere. */
void braid_serve_tenant_use(braid_serve_tenant *tenant, int64_t device_ns, double watts);
/* Device nanoseconds of late, a second's average. */
double braid_serve_tenant_recent(braid_serve_tenant *tenant, int64_t now_ns);

/* How many of `count` instances or cores its share lets it hold. */
static inline size_t braid_serve_share_of(const braid_serve_tenant *tenant, size_t count) {
  return (size_t)(tenant->config->share * (double)count + 1e-9);
}

#endif
