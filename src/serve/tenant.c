#include "serve/tenant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/text.h"

braid_status braid_serve_tenants_create(const braid_serve_config *config, braid_serve_tenant **out, size_t *out_count) {
  *out_count = config->tenants_count;
  *out = braid_zalloc_array(NULL, config->tenants_count, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < config->tenants_count; i++) {
    braid_serve_tenant *tenant = &(*out)[i];
    tenant->config = &config->tenants[i];
    pthread_mutex_init(&tenant->lock, NULL);
    tenant->tokens = fmax(1, tenant->config->rate);
    tenant->tokens_ns = tenant->recent_at_ns = braid_now_ns();
  }
  return BRAID_OK;
}

void braid_serve_tenants_destroy(braid_serve_tenant *tenants, size_t count) {
  for (size_t i = 0; tenants && i < count; i++) pthread_mutex_destroy(&tenants[i].lock);
  braid_free(NULL, tenants);
}

/* Hashes are compared, all digits of all tenants', so that the time says nothing of a token. */
braid_serve_tenant *braid_serve_tenant_find(braid_serve_tenant *tenants, size_t count, const char *token) {
  braid_serve_tenant *found = NULL;
  uint8_t sum[BRAID_SHA256_BYTES], own[BRAID_SHA256_BYTES];
  char text[BRAID_SHA256_HEX + 1], expected[BRAID_SHA256_HEX + 1];
  if (token) {
    braid_sha256_of(token, strlen(token), sum);
    braid_sha256_text(sum, sizeof sum, text);
  }
  for (size_t i = 0; i < count; i++) {
    const braid_serve_tenant_config *config = tenants[i].config;
    if (!config->token && !config->token_sha256) {
      if (!token || config->any) found = &tenants[i];
      continue;
    }
    if (!token) continue;
    if (config->token) {
      braid_sha256_of(config->token, strlen(config->token), own);
      braid_sha256_text(own, sizeof own, expected);
    } else {
      memcpy(expected, config->token_sha256, sizeof expected);
    }
    unsigned differs = 0;
    for (size_t k = 0; k < BRAID_SHA256_HEX; k++) differs |= (unsigned)(text[k] ^ expected[k]);
    if (!differs) found = &tenants[i];
  }
  return found;
}

bool braid_serve_tenant_may(const braid_serve_tenant *tenant, const char *model) {
  for (const char *at = tenant->config->models; *at;) {
    char pattern[BRAID_SERVE_NAME];
    size_t length = strcspn(at, " ");
    if (length && length < sizeof pattern) {
      memcpy(pattern, at, length);
      pattern[length] = '\0';
      if (braid_text_fits(pattern, model)) return true;
    }
    at += length + (at[length] == ' ');
  }
  return false;
}

static void tenant_refill(braid_serve_tenant *tenant, int64_t now) {
  double rate = tenant->config->rate;
  tenant->tokens = fmin(fmax(1, rate), tenant->tokens + rate * (double)(now - tenant->tokens_ns) * 1e-9);
  tenant->tokens_ns = now;
}

braid_serve_verdict braid_serve_tenant_enter(braid_serve_tenant *tenant, braid_serve_request *request) {
  const braid_serve_tenant_config *config = tenant->config;
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  pthread_mutex_lock(&tenant->lock);
  if (config->rate > 0) tenant_refill(tenant, braid_now_ns());
  if (tenant->in_flight >= config->max_requests) {
    verdict =
        braid_serve_refuse(request, BRAID_SERVE_OVER_QUOTA, "tenant %s has %lld requests in flight, as many as it may",
                           config->name, (long long)tenant->in_flight);
  } else if (config->rate > 0 && tenant->tokens < 1) {
    verdict = braid_serve_refuse(request, BRAID_SERVE_OVER_QUOTA, "tenant %s has sent more than %g requests a second",
                                 config->name, config->rate);
  } else {
    tenant->in_flight++;
    tenant->tokens -= config->rate > 0;
    request->counted = true;
    for (size_t i = 0; i < request->input_count; i++) tenant->usage.bytes_in += request->inputs[i].bytes;
  }
  pthread_mutex_unlock(&tenant->lock);
  return verdict;
}

bool braid_serve_tenant_reserve(braid_serve_tenant *tenant, size_t bytes) {
  size_t most = (size_t)tenant->config->max_bytes;
  pthread_mutex_lock(&tenant->lock);
  bool fits = tenant->bytes_in_flight <= most && bytes <= most - tenant->bytes_in_flight;
  if (fits) tenant->bytes_in_flight += bytes;
  pthread_mutex_unlock(&tenant->lock);
  return fits;
}

braid_serve_verdict braid_serve_tenant_take(braid_serve_tenant *tenant, braid_serve_request *request, size_t bytes) {
  bool ever = bytes <= (size_t)tenant->config->max_bytes;
  if (!ever || !braid_serve_tenant_reserve(tenant, bytes))
    return braid_serve_refuse(request, ever ? BRAID_SERVE_OVER_QUOTA : BRAID_SERVE_TOO_LARGE,
                              "%zu bytes more are over the %lld that tenant %s may have in flight", bytes,
                              (long long)tenant->config->max_bytes, tenant->config->name);
  request->bytes += bytes;
  return BRAID_SERVE_DONE;
}

void braid_serve_tenant_return(braid_serve_tenant *tenant, size_t bytes) {
  pthread_mutex_lock(&tenant->lock);
  tenant->bytes_in_flight -= bytes;
  pthread_mutex_unlock(&tenant->lock);
}

static void tenant_decay(braid_serve_tenant *tenant, int64_t now) {
  tenant->recent_ns *= exp2(-1e-9 * (double)(now - tenant->recent_at_ns));
  tenant->recent_at_ns = now;
}

/* With the lock. */
static void add_device_time(braid_serve_tenant *tenant, int64_t device_ns, double watts) {
  tenant->usage.device_ns += (uint64_t)device_ns;
  tenant->usage.energy_uj += (uint64_t)(1e-3 * watts * (double)device_ns);
  tenant_decay(tenant, braid_now_ns());
  tenant->recent_ns += (double)device_ns;
}

void braid_serve_tenant_use(braid_serve_tenant *tenant, int64_t device_ns, double watts) {
  pthread_mutex_lock(&tenant->lock);
  add_device_time(tenant, device_ns, watts);
  pthread_mutex_unlock(&tenant->lock);
}

void braid_serve_tenant_leave(braid_serve_tenant *tenant, const braid_serve_request *request, int64_t device_ns,
                              double watts) {
  braid_serve_usage *usage = &tenant->usage;
  pthread_mutex_lock(&tenant->lock);
  tenant->in_flight -= request->counted;
  usage->requests++;
  usage->done += request->verdict == BRAID_SERVE_DONE;
  usage->late += request->verdict == BRAID_SERVE_LATE;
  usage->cancelled += request->verdict == BRAID_SERVE_CANCELLED;
  usage->failed += request->verdict == BRAID_SERVE_FAILED;
  usage->refused += request->verdict != BRAID_SERVE_DONE && !request->started_ns &&
                    request->verdict != BRAID_SERVE_LATE && request->verdict != BRAID_SERVE_CANCELLED &&
                    request->verdict != BRAID_SERVE_FAILED;
  if (request->started_ns) {
    usage->wait_ns += (uint64_t)(request->started_ns - request->arrived_ns);
    add_device_time(tenant, device_ns, watts);
  }
  if (request->verdict == BRAID_SERVE_DONE) {
    usage->rows += (uint64_t)request->rows;
    for (size_t i = 0; i < request->output_count; i++) usage->bytes_out += request->outputs[i].bytes;
  }
  pthread_mutex_unlock(&tenant->lock);
}

/* A constant use of u nanoseconds a second decays to u / ln 2. */
double braid_serve_tenant_recent(braid_serve_tenant *tenant, int64_t now_ns) {
  pthread_mutex_lock(&tenant->lock);
  if (now_ns > tenant->recent_at_ns) tenant_decay(tenant, now_ns);
  double recent = tenant->recent_ns * M_LN2;
  pthread_mutex_unlock(&tenant->lock);
  return recent;
}
