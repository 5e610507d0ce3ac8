#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "braid/allocator.h"
#include "log.h"

struct braid_ort_host {
  struct braid_ort_host *next;
  braid_registry *registry;
  braid_machine *machine;
  braid_ort_options options; /* those that choose the machine count */
  size_t users;
  unsigned forks; /* when it was made */
  atomic_bool lost;
};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static braid_ort_host *g_hosts; /* under g_lock: open machines of the process */

/* --- forks: the copy of a process has none of its threads, and whoever waits for one waits for ever --- */

static atomic_uint g_forks;      /* from the first process that had the library to this one */
static atomic_bool g_has_teams;  /* a machine with threads was made */
static atomic_bool g_lost_teams; /* in a process of which this is a copy */

static bool options_need_threads(const braid_ort_options *options) {
  return options->threads != 1 || strcmp(options->device, "cpu") != 0;
}

/* In the copy. Whatever held the lock is not there; the machines are those of the other process. */
static void fork_forget(void) {
  (void)pthread_mutex_init(&g_lock, NULL);
  g_hosts = NULL;
  atomic_fetch_add(&g_forks, 1);
  if (atomic_load(&g_has_teams)) atomic_store(&g_lost_teams, true);
}

static void fork_watch(void) {
  (void)pthread_atfork(NULL, NULL, fork_forget);
}

static braid_status fork_refuse(void) {
  return braid_fail(BRAID_UNSUPPORTED,
                    "this process was forked from one in which sessions had devices with threads open, and has none of "
                    "these threads. Create sessions after the fork, or all of them with the options device cpu and "
                    "threads 1");
}

bool braid_ort_host_foreign(const braid_ort_host *host) {
  return host->forks != atomic_load(&g_forks);
}

braid_status braid_ort_host_check(const braid_ort_host *host) {
  bool gone = braid_ort_host_foreign(host) && options_need_threads(&host->options);
  return gone ? fork_refuse() : BRAID_OK;
}

/* --- open and close --- */

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

/* Whether the folder is there, or can be made, and can be written to. Devices with programs make it when they have one
 * to keep, and only warn where that fails. */
static braid_status cache_check(const char *folder) {
  char path[BRAID_ORT_TEXT];
  struct stat about;
  snprintf(path, sizeof path, "%s", folder);
  while (stat(path, &about) != 0 && errno == ENOENT) { /* up to what is there */
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
      memcpy(path, slash ? "/" : ".", 2);
    else
      *slash = 0;
  }
  if (stat(path, &about) == 0 && !S_ISDIR(about.st_mode))
    errno = ENOTDIR;
  else if (access(path, W_OK | X_OK) == 0)
    return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option cache is \"%s\": %s: %s", folder, path, strerror(errno));
}

static braid_status host_fill(braid_ort_host *host, const OrtLogger *logger) {
  const braid_ort_options *options = &host->options;
  braid_log log = braid_ort_log(logger);
  braid_status status = braid_registry_create(NULL, &host->registry);
  if (status != BRAID_OK) return status;
  braid_registry_set_log(host->registry, &log);
  if (options->cache[0]) status = cache_check(options->cache);
  if (status == BRAID_OK && options->cache[0]) status = braid_registry_set_cache(host->registry, options->cache);
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
  host->forks = atomic_load(&g_forks);
  if (options_need_threads(options)) atomic_store(&g_has_teams, true);
  braid_status status = host_fill(host, logger);
  if (status == BRAID_OK)
    *out = host;
  else
    host_destroy(host);
  return status;
}

braid_status braid_ort_host_open(const braid_ort_options *options, const OrtLogger *logger, braid_ort_host **out) {
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  braid_status status = BRAID_OK;
  *out = NULL;
  (void)pthread_once(&watched, fork_watch);
  /* OpenMP goes on to wait for threads that this thread had before the fork, even for a machine made afterwards. */
  if (atomic_load(&g_lost_teams) && options_need_threads(options)) return fork_refuse();
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
  if (!host || braid_ort_host_foreign(host)) return;
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
