#include "train_tenant.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "braid/client.h"
#include "braid/host_queue.h"
#include "call.h"

/* A daemon that does not answer MISSES pings in a row, some six seconds, hangs. */
enum { SLICE_MS = 100, LOOK_MS = 1000, CONNECT_MS = 2000, PING_MS = 500, MISSES = 4 };

/* One in a process. */
static struct {
  const char *address, *token;
  pthread_rwlock_t lock; /* of the next two: whoever waits reads; the watcher writes, and is not starved */
  braid_client *client;
  braid_client_harvest *harvest; /* NULL: there is no daemon now */
  pthread_t watcher;
  bool watches;
  pthread_mutex_t stop_lock;
  pthread_cond_t stopped;
  bool stop;
} tenant = {.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
            .stop_lock = PTHREAD_MUTEX_INITIALIZER,
            .stopped = PTHREAD_COND_INITIALIZER};

static braid_client_status tenant_connect(braid_client **client, braid_client_harvest **harvest) {
  braid_client_options options = {
      .token = tenant.token, .name = "braid train", .connect_ms = CONNECT_MS, .call_ms = CONNECT_MS};
  *harvest = NULL;
  braid_client_status status = braid_client_connect(tenant.address, &options, client);
  if (status == BRAID_CLIENT_OK) status = braid_client_harvest_begin(*client, harvest);
  if (status != BRAID_CLIENT_OK) {
    braid_client_close(*client);
    *client = NULL;
  }
  return status;
}

static void tenant_wait(void *context) {
  (void)context;
  braid_client_status status = BRAID_CLIENT_TIMEOUT;
  while (status == BRAID_CLIENT_TIMEOUT && !cli_interrupted()) {
    pthread_rwlock_rdlock(&tenant.lock);
    status = tenant.harvest ? braid_client_harvest_wait(tenant.harvest, SLICE_MS) : BRAID_CLIENT_LOST;
    pthread_rwlock_unlock(&tenant.lock);
  }
}

void cli_tenant_pace(void) {
  if (tenant.watches) tenant_wait(NULL);
}

static bool sleep_until_stop(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LOOK_MS / 1000;
  pthread_mutex_lock(&tenant.stop_lock);
  if (!tenant.stop) (void)pthread_cond_timedwait(&tenant.stopped, &tenant.stop_lock, &until);
  bool stop = tenant.stop;
  pthread_mutex_unlock(&tenant.stop_lock);
  return stop;
}

static void tenant_take(braid_client *client, braid_client_harvest *harvest) {
  pthread_rwlock_wrlock(&tenant.lock);
  braid_client *old = tenant.client;
  braid_client_harvest *old_harvest = tenant.harvest;
  tenant.client = client;
  tenant.harvest = harvest;
  pthread_rwlock_unlock(&tenant.lock);
  braid_client_harvest_end(old_harvest);
  braid_client_close(old);
}

/* Notices that the daemon has gone or hangs, and finds it again. */
static void *watch(void *context) {
  int misses = 0;
  (void)context;
  while (!sleep_until_stop()) {
    braid_client *client;
    braid_client_harvest *harvest;
    bool connected = tenant.harvest && braid_client_is_connected(tenant.client);
    misses = connected && braid_client_ping(tenant.client, PING_MS) == BRAID_CLIENT_TIMEOUT ? misses + 1 : 0;
    if (connected && misses < MISSES) continue;
    if (tenant.harvest) {
      braid_log_write(cli_log(), BRAID_LOG_WARNING,
                      "%s: the daemon %s; training goes on in CPU time that nothing else wants until it is back",
                      tenant.address, misses ? "does not answer" : "has gone");
      tenant_take(NULL, NULL);
    }
    misses = 0;
    if (tenant_connect(&client, &harvest) != BRAID_CLIENT_OK) continue;
    braid_log_write(cli_log(), BRAID_LOG_WARNING, "%s: the daemon is back; training is its tenant again",
                    tenant.address);
    tenant_take(client, harvest);
  }
  return NULL;
}

braid_status cli_tenant_begin(const char *address, const char *token) {
  const char *given = token ? token : getenv("BRAID_TOKEN");
  tenant.address = address;
  tenant.token = given && *given ? given : NULL;
  braid_client_status status = tenant_connect(&tenant.client, &tenant.harvest);
  if (status != BRAID_CLIENT_OK) return cli_call_status(status);
  if (pthread_create(&tenant.watcher, NULL, watch, NULL) != 0) {
    tenant_take(NULL, NULL);
    return braid_fail(BRAID_NO_MEMORY, "no thread can be started that watches the daemon");
  }
  tenant.watches = true;
  braid_host_queue_set_pace(tenant_wait, NULL);
  return BRAID_OK;
}

void cli_tenant_end(void) {
  if (!tenant.watches) return;
  braid_host_queue_set_pace(NULL, NULL);
  pthread_mutex_lock(&tenant.stop_lock);
  tenant.stop = true;
  pthread_cond_signal(&tenant.stopped);
  pthread_mutex_unlock(&tenant.stop_lock);
  pthread_join(tenant.watcher, NULL);
  tenant.watches = false;
  tenant_take(NULL, NULL);
}
