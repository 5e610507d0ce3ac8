#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "braid/allocator.h"
#include "log.h"

struct braid_ort_host {
  struct braid_ort_host *next;
  braid_registry *registry;
  braid_machine *machine;
  braid_ort_options options; /* those that choose the machine count */
  size_t users;
  atomic_bool lost;
};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static braid_ort_host *g_hosts; /* under g_lock: open machines of the process */

static bool host_serves(braid_ort_host *host, const braid_ort_options *options) {
  return !atomic_load(&host->lost) && host->options.threads == options->threads &&
         strcmp(host->options.device, options->device) == 0 && strcmp(host->options.platform, options->platform) == 0 &&
         strcmp(host->options.plugins, options->plugins) == 0 && strcmp(host->options.cache, options->cache) == 0;
}

static void host_destroy(braid_ort_host *host) {
  braid_machine_release(host->machine);
  braid_registry_destroy(host->registry);
  braid_free(NULL, host);
}

static braid_status host_fill(braid_ort_host *host, const OrtLogger *logger) {
  const braid_ort_options *options = &host->options;
  braid_log log = braid_ort_log(logger);
  braid_status status = braid_registry_create(NULL, &host->registry);
  if (status != BRAID_OK) return status;
  braid_registry_set_log(host->registry, &log);
  if (options->cache[0]) status = braid_registry_set_cache(host->registry, options->cache);
  if (status == BRAID_OK && options->plugins[0]) status = braid_registry_load_list(host->registry, options->plugins);
  if (status == BRAID_OK && options->platform[0])
    status = braid_registry_load_platform(host->registry, options->platform);
  if (status != BRAID_OK) return status;
  braid_machine_options machine = {options->device, options->threads, host->registry};
  return braid_machine_create(NULL, &machine, &host->machine);
}

static braid_status host_create(const braid_ort_options *options, const OrtLogger *logger, braid_ort_host **out) {
  braid_ort_host *host = braid_zalloc(NULL, sizeof *host);
  if (!host) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a machine");
  host->options = *options;
  host->users = 1;
  braid_status status = host_fill(host, logger);
  if (status == BRAID_OK)
    *out = host;
  else
    host_destroy(host);
  return status;
}

braid_status braid_ort_host_open(const braid_ort_options *options, const OrtLogger *logger, braid_ort_host **out) {
  braid_status status = BRAID_OK;
  *out = NULL;
  pthread_mutex_lock(&g_lock);
  for (braid_ort_host *host = g_hosts; host && !*out; host = host->next)
    if (host_serves(host, options)) *out = host;
  if (*out) {
    (*out)->users++;
  } else {
    status = host_create(options, logger, out);
    if (status == BRAID_OK) {
      (*out)->next = g_hosts;
      g_hosts = *out;
    }
  }
  pthread_mutex_unlock(&g_lock);
  return status;
}

void braid_ort_host_close(braid_ort_host *host) {
  if (!host) return;
  pthread_mutex_lock(&g_lock);
  bool last = --host->users == 0;
  for (braid_ort_host **link = &g_hosts; last && *link; link = &(*link)->next) {
    if (*link != host) continue;
    *link = host->next;
    break;
  }
  pthread_mutex_unlock(&g_lock);
  if (last) host_destroy(host);
}

braid_machine *braid_ort_host_machine(const braid_ort_host *host) {
  return host->machine;
}

void braid_ort_host_lost(braid_ort_host *host) {
  atomic_store(&host->lost, true);
}
