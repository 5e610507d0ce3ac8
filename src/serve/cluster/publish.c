/* What a daemon says of itself: its load, and of each model how it stands here. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/cluster/node.h"
#include "serve/files.h"

static const int64_t kSecond = 1000000000;
enum { FETCH_LEAST_S = 2, FETCH_MOST_S = 64, FETCH_DOUBLINGS = 5 }; /* until it is tried again */
_Static_assert(FETCH_LEAST_S << FETCH_DOUBLINGS == FETCH_MOST_S, "it doubles up to the most");

/* Bytes of a model's files; -1: one is missing. */
static int64_t file_bytes(const braid_serve_model_config *config) {
  struct stat about;
  braid_serve_files files;
  int64_t bytes = 0;
  if (stat(config->path, &about) != 0) return -1;
  bool there = braid_serve_files_find(config, NULL, &files) == BRAID_OK;
  for (size_t i = 0; i < files.count && there; i++) {
    there = stat(files.paths[i], &about) == 0;
    if (there) bytes += about.st_size;
  }
  braid_serve_files_free(&files);
  return there ? bytes : -1;
}

void braid_cluster_find_files(braid_serve_cluster *cluster) {
  const braid_serve_config *config = cluster->server->config;
  for (size_t i = 0; i < config->models_count; i++) cluster->rates[i].file_bytes = file_bytes(&config->models[i]);
}

/* --- files that do not come ----------------------------------------------------------------------------------------
 */
void braid_cluster_fetch_failed(braid_serve_cluster *cluster, size_t index, const char *why) {
  cluster_files *files = &cluster->files[index];
  pthread_mutex_lock(&cluster->lock);
  int doublings = files->failures < FETCH_DOUBLINGS ? files->failures : FETCH_DOUBLINGS;
  files->failures = doublings + 1;
  files->unable_until_ns = braid_now_ns() + ((int64_t)FETCH_LEAST_S << doublings) * kSecond;
  files->wanted = false; /* until it is ordered then */
  snprintf(files->why, sizeof files->why, BRAID_CLUSTER_UNFETCHED ": %.*s", BRAID_CLUSTER_SAID, why);
  pthread_mutex_unlock(&cluster->lock);
}

bool braid_cluster_is_unfetched(const braid_serve_cluster *cluster, size_t index) {
  return braid_now_ns() < cluster->files[index].unable_until_ns;
}

static void forget_failures(braid_serve_cluster *cluster, size_t index) {
  pthread_mutex_lock(&cluster->lock);
  cluster->files[index].failures = 0;
  cluster->files[index].unable_until_ns = 0;
  pthread_mutex_unlock(&cluster->lock);
}

/* --- load and files -----------------------------------------------------------------------------------------------
 */
void braid_cluster_rate(braid_serve_cluster *cluster, int64_t now) {
  braid_serve_entry entry;
  bool refused, asked;
  double passed_s = (double)(now - cluster->rated_ns) / (double)kSecond;
  if (passed_s < 1) return;
  for (size_t i = 0; braid_serve_registry_local(cluster->server->registry, i, &entry, &refused, &asked); i++) {
    cluster_rate *rate = &cluster->rates[i];
    double lately = (double)(entry.statistics.done - rate->done) / passed_s;
    rate->requests_per_s = cluster->rated_ns ? (rate->requests_per_s + lately) / 2 : 0;
    if (rate->requests_per_s < 1e-3) rate->requests_per_s = 0;
    rate->done = entry.statistics.done;
    if (rate->file_bytes >= 0) continue;
    rate->file_bytes = file_bytes(entry.config); /* it may come */
    if (rate->file_bytes >= 0) forget_failures(cluster, i);
  }
  cluster->rated_ns = now;
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
/* Whether another node has the model's files, and they are not too many bytes for us. */
static bool may_fetch(const braid_serve_cluster *cluster, const char *model) {
  for (size_t i = 0; i < cluster->roster.member_count; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, model);
    if (holding && holding->sum[0] && holding->file_bytes <= cluster->config->fetch_max_bytes) return true;
  }
  return false;
}

static braid_cluster_state state_of(const braid_serve_cluster *cluster, const braid_serve_entry *entry, bool refused,
                                    int64_t bytes, bool unfetched) {
  if (entry->state == BRAID_SERVE_READY) return BRAID_CLUSTER_READY;
  if (!refused && bytes < 0 && !unfetched && may_fetch(cluster, entry->config->name)) return BRAID_CLUSTER_ABSENT;
  if (refused || entry->state == BRAID_SERVE_BROKEN || bytes < 0) return BRAID_CLUSTER_UNABLE;
  return entry->state == BRAID_SERVE_LOADING ? BRAID_CLUSTER_LOADING : BRAID_CLUSTER_UNLOADED;
}

/* Why it cannot be held here. */
static void describe_unable(const braid_serve_cluster *cluster, const braid_serve_entry *entry, bool refused,
                            const char *unfetched, char *out) {
  const char *why = refused                              ? "the API has unloaded it"
                    : entry->state == BRAID_SERVE_BROKEN ? entry->reason
                    : unfetched                          ? unfetched
                    : cluster->config->fetch_max_bytes > 0
                        ? "its file is not there, nor on a node that it may be fetched from"
                        : "its file is not there, and fetch_max_bytes allows to fetch none";
  snprintf(out, BRAID_CLUSTER_REASON, "%.*s", BRAID_CLUSTER_SAID, why);
}

/* Of an instance for a request, as measured; requests that share a run share its time. */
static double seconds_of(const braid_serve_statistics *counts) {
  if (!counts->done) return 0;
  double run_s = (double)counts->compute_ns / (double)counts->done * 1e-9;
  return counts->runs < counts->done ? run_s * (double)counts->runs / (double)counts->done : run_s;
}

static int64_t memory_of(const braid_serve_config *config) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (config->max_memory_bytes) return config->max_memory_bytes;
  return pages > 0 && page > 0 ? (int64_t)pages * page : INT64_C(1) << 40;
}

/* "cpu: cpu, 2 instances; gpu: cuda, 1 instance" */
static void describe_devices(const braid_server *server, char *text, size_t room) {
  size_t used = 0;
  for (size_t i = 0; i < server->device_count && used < room; i++) {
    const braid_serve_device *device = &server->devices[i];
    used += (size_t)snprintf(text + used, room - used, "%s%.40s: %.80s, %zu instance%s", i ? "; " : "",
                             device->config->name, device->config->device, device->instance_count,
                             device->instance_count == 1 ? "" : "s");
  }
}

/* Instances that the power cap lets run side by side, those of the first devices first, and what they draw then. */
static void describe_power(const braid_server *server, braid_cluster_member *out) {
  double idle = 0, busy, cap = server->config->power_cap_watts;
  bool known = server->device_count > 0;
  for (size_t i = 0; i < server->device_count; i++) {
    idle += server->devices[i].config->idle_watts;
    known &= server->devices[i].config->run_watts > 0;
    out->instances += (int64_t)server->devices[i].instance_count;
  }
  if (!known) return;
  busy = idle;
  out->instances = 0;
  for (size_t i = 0; i < server->device_count; i++)
    for (size_t k = 0; k < server->devices[i].instance_count; k++) {
      double then = busy + server->devices[i].config->run_watts;
      if (cap > 0 && then > cap) break;
      busy = then;
      out->instances++;
    }
  out->idle_watts = idle;
  out->busy_watts = busy;
}

bool braid_cluster_describe(braid_serve_cluster *cluster, braid_cluster_member *out) {
  braid_server *server = cluster->server;
  braid_serve_entry entry;
  bool refused, asked;
  *out = (braid_cluster_member){.memory_bytes = memory_of(server->config)};
  out->holdings = braid_zalloc_array(NULL, server->config->models_count, sizeof *out->holdings);
  if (!out->holdings) return false;
  snprintf(out->name, sizeof out->name, "%s", cluster->node);
  snprintf(out->address, sizeof out->address, "%s", cluster->address);
  snprintf(out->instance, sizeof out->instance, "%s", cluster->instance);
  memcpy(out->proof, cluster->proof, sizeof out->proof);
  describe_devices(server, out->devices, sizeof out->devices);
  describe_power(server, out);
  for (size_t i = 0; i < server->device_count; i++) {
    braid_serve_load load = braid_serve_scheduler_load(server->scheduler, i);
    out->waiting += load.waiting;
    out->busy += load.busy / (double)server->device_count;
  }
  for (size_t i = 0; braid_serve_registry_local(server->registry, i, &entry, &refused, &asked); i++) {
    const cluster_rate *rate = &cluster->rates[i];
    braid_cluster_holding *holding = &out->holdings[out->holding_count++];
    snprintf(holding->model, sizeof holding->model, "%s", entry.config->name);
    pthread_mutex_lock(&cluster->lock);
    const char *unfetched =
        rate->file_bytes < 0 && braid_cluster_is_unfetched(cluster, i) ? cluster->files[i].why : NULL;
    holding->state = state_of(cluster, &entry, refused, rate->file_bytes, unfetched);
    if (holding->state == BRAID_CLUSTER_UNABLE) describe_unable(cluster, &entry, refused, unfetched, holding->reason);
    if (rate->file_bytes >= 0) memcpy(holding->sum, cluster->files[i].sum, sizeof holding->sum);
    pthread_mutex_unlock(&cluster->lock);
    holding->bytes = entry.bytes ? (int64_t)entry.bytes : rate->file_bytes < 0 ? 0 : rate->file_bytes;
    holding->seconds = seconds_of(&entry.statistics);
    holding->requests_per_s = rate->requests_per_s;
    holding->file_bytes = rate->file_bytes < 0 ? 0 : rate->file_bytes;
  }
  return true;
}
