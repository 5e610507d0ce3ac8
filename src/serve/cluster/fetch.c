/* Files of models: their sums, which others are told, and those that are not here and are to be held, from who has
 * them, to files beside, which get their names when the sum is right. */
#include "serve/cluster/fetch.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/try.h"
#include "serve/files.h"

/* --- sums ----------------------------------------------------------------------------------------------------------
 * A model's sum is that of the sums of its files. */
static braid_status sum_file(const braid_serve_cluster *cluster, const char *path, uint8_t sum[BRAID_SHA256_BYTES]) {
  braid_reader *reader;
  uint8_t piece[BRAID_SHA256_PIECE];
  braid_sha256 hash;
  BRAID_TRY(braid_reader_open(NULL, path, 0, &reader));
  braid_sha256_begin(&hash);
  braid_status status = BRAID_OK;
  size_t bytes = braid_reader_bytes(reader);
  for (size_t at = 0; at < bytes && status == BRAID_OK; at += sizeof piece) {
    size_t count = bytes - at < sizeof piece ? bytes - at : sizeof piece;
    status = braid_cluster_check_ending(cluster); /* a large file takes minutes */
    if (status == BRAID_OK) status = braid_reader_get(reader, at, piece, count);
    if (status == BRAID_OK) braid_sha256_add(&hash, piece, count);
  }
  if (status == BRAID_OK) status = braid_reader_check(reader);
  braid_reader_close(reader);
  braid_sha256_end(&hash, sum);
  return status;
}

static void sum_model(braid_serve_cluster *cluster, size_t index) {
  braid_serve_files files;
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256 all;
  char text[BRAID_SHA256_HEX + 1];
  braid_sha256_begin(&all);
  braid_status status = braid_serve_files_find(&cluster->server->config->models[index], NULL, &files);
  for (size_t i = 0; i < files.count && status == BRAID_OK; i++) {
    status = sum_file(cluster, files.paths[i], sum);
    braid_sha256_add(&all, sum, sizeof sum);
  }
  braid_serve_files_free(&files);
  if (status != BRAID_OK) return; /* not there, or being written: later */
  braid_sha256_end(&all, sum);
  braid_sha256_text(sum, sizeof sum, text);
  pthread_mutex_lock(&cluster->lock);
  memcpy(cluster->files[index].sum, text, sizeof text);
  pthread_mutex_unlock(&cluster->lock);
}

/* --- leftovers ------------------------------------------------------------------------------------------------------
 * What a daemon that was killed had fetched in part. */
static void tell_removed(braid_serve_cluster *cluster, size_t removed) {
  if (removed)
    braid_log_write(cluster->server->log, BRAID_LOG_INFO,
                    "the cluster: %zu files removed that a daemon that was killed had fetched in part", removed);
}

static size_t clean_external(const braid_serve_files *files) {
  size_t removed = 0;
  for (size_t i = files->external; i < files->count; i++) removed += braid_writer_clean(files->paths[i]);
  return removed;
}

/* --- what has failed -----------------------------------------------------------------------------------------------
 * A source that does not send is left alone for some seconds, so that another one has its turn; one with other bytes
 * than it says, and a fault that is here (a disk that is full, a file of ours that does not fit), longer each time. */
enum { SOURCE_S = 5, LEAST_S = 1, MOST_S = 256 };

static bool has_failed(const cluster_files *files, const char *address, int64_t now) {
  for (size_t i = 0; i < sizeof files->sources / sizeof *files->sources; i++)
    if (now < files->sources[i].until_ns && strcmp(files->sources[i].address, address) == 0) return true;
  return false;
}

/* Stands for what is here of the files that the model's own names: which, how long, when they were written. */
static uint64_t state_of_named(const braid_serve_files *named) {
  uint64_t state = 0;
  struct stat about;
  for (size_t i = named ? named->external : 0; named && i < named->count; i++) {
    if (stat(named->paths[i], &about) != 0) memset(&about, 0, sizeof about);
    const uint64_t parts[] = {(uint64_t)about.st_ino, (uint64_t)about.st_size, (uint64_t)about.st_mtim.tv_sec,
                              (uint64_t)about.st_mtim.tv_nsec};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
      state = (state ^ parts[k]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
  }
  return state;
}

static bool is_paused(const cluster_files *files, const char *sum) {
  return braid_now_ns() < files->until_ns && strcmp(sum, files->tried) == 0 &&
         state_of_named(files->named) == files->state;
}

static void remember_failure(cluster_files *files, const fetching *from, braid_status status, const char *sum) {
  bool theirs = status == BRAID_IO || (status == BRAID_INVALID_FILE && !from->own);
  int64_t pause_s = SOURCE_S;
  if (status != BRAID_IO) {
    files->pause_s = !files->pause_s ? LEAST_S : files->pause_s < MOST_S ? files->pause_s * 2 : MOST_S;
    pause_s = files->pause_s;
  }
  int64_t until_ns = braid_now_ns() + pause_s * INT64_C(1000000000);
  if (theirs) {
    cluster_down *source = &files->sources[files->source_next++ % (sizeof files->sources / sizeof *files->sources)];
    snprintf(source->address, sizeof source->address, "%s", from->address);
    source->until_ns = until_ns;
    return;
  }
  files->until_ns = until_ns;
  snprintf(files->tried, sizeof files->tried, "%s", sum);
  files->state = state_of_named(files->named);
}

/* The names of the last try; NULL: none. Takes what *named has. */
static void keep_named(cluster_files *files, braid_serve_files *named) {
  if (files->named) braid_serve_files_free(files->named);
  braid_free(NULL, files->named);
  files->named = named && named->count ? braid_zalloc(NULL, sizeof *named) : NULL;
  if (files->named)
    *files->named = *named;
  else if (named)
    braid_serve_files_free(named);
}

void braid_cluster_forget_files(braid_serve_cluster *cluster) {
  for (size_t i = 0; cluster->files && i < cluster->server->config->models_count; i++)
    keep_named(&cluster->files[i], NULL);
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
/* Who has the files, as it says, and has not just failed; false: nobody. */
static bool find_source(braid_serve_cluster *cluster, const char *model, const cluster_files *files, char *address,
                        char *sum) {
  bool found = false;
  int64_t now = braid_now_ns();
  pthread_mutex_lock(&cluster->lock);
  for (size_t i = 0; i < cluster->roster.member_count && !found; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, model);
    found = holding && holding->sum[0] && !has_failed(files, member->address, now) &&
            !braid_cluster_is_silent(cluster, member) && !braid_cluster_is_down(cluster, member->address, now);
    if (!found) continue;
    snprintf(address, BRAID_CLUSTER_PLACE, "%s", member->address);
    memcpy(sum, holding->sum, sizeof holding->sum);
  }
  pthread_mutex_unlock(&cluster->lock);
  return found;
}

static braid_status check_sum(const fetching *from, const fetched *files, size_t count, const char *expected) {
  uint8_t sum[BRAID_SHA256_BYTES];
  char text[BRAID_SHA256_HEX + 1];
  braid_sha256 all;
  braid_sha256_begin(&all);
  for (size_t i = 0; i < count; i++) braid_sha256_add(&all, files[i].sum, sizeof files[i].sum);
  braid_sha256_end(&all, sum);
  braid_sha256_text(sum, sizeof sum, text);
  if (strcmp(text, expected) == 0) return BRAID_OK;
  if (!from->own) return braid_fail(BRAID_INVALID_FILE, "the files that came have the sum %s, not %s", text, expected);
  return braid_fail(BRAID_INVALID_FILE,
                    "the files that came, with %zu of external data that were here already, have the sum %s, not %s; "
                    "what is here is not written over",
                    from->own, text, expected);
}

/* A file that the model names for its external data: one that is here already stays as it is, since its name is the
 * model's choice, and counts with its sum. */
static braid_status fetch_external(braid_serve_cluster *cluster, fetching *from, uint32_t file, const char *path,
                                   uint64_t most, fetched *out) {
  struct stat about;
  char folder[4096];
  if (stat(path, &about) == 0) {
    from->own++;
    out->bytes = S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
    return braid_cluster_ours(sum_file(cluster, path, out->sum));
  }
  const char *slash = strrchr(path, '/');
  if (slash && slash > path) {
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path < 4095 ? slash - path : 4095), path);
    BRAID_TRY(braid_cluster_ours(braid_make_directories(folder)));
  }
  return braid_cluster_fetch_file(cluster, from, file, path, most, out);
}

/* All but the first, which has come: its list of files is read from where it is until it has its name. */
static braid_status fetch_others(braid_serve_cluster *cluster, fetching *from, const braid_serve_files *files,
                                 uint64_t most, fetched *out) {
  for (size_t i = 1; i < files->count; i++) {
    braid_status status = i < files->external
                              ? braid_cluster_fetch_file(cluster, from, (uint32_t)i, files->paths[i], most, &out[i])
                              : fetch_external(cluster, from, (uint32_t)i, files->paths[i], most, &out[i]);
    BRAID_TRY(status);
    most -= out[i].bytes < most ? out[i].bytes : most;
  }
  return BRAID_OK;
}

static braid_status end_files(fetched *files, size_t count, braid_status status) {
  for (size_t i = count; i-- > 0;) { /* the model's own file last: with it all are there */
    if (!files[i].writer) continue;
    if (status == BRAID_OK)
      status = braid_cluster_ours(braid_writer_commit(files[i].writer));
    else
      braid_writer_abort(files[i].writer);
  }
  return status;
}

static braid_status fetch_files(braid_serve_cluster *cluster, size_t index, fetching *from, const char *sum) {
  const braid_serve_model_config *config = &cluster->server->config->models[index];
  uint64_t most = (uint64_t)cluster->config->fetch_max_bytes;
  braid_serve_files files = {0};
  fetched first = {0}, *all = NULL;
  const char *beside;
  braid_status status = braid_cluster_fetch_file(cluster, from, 0, config->path, most, &first);
  if (status == BRAID_OK) status = braid_cluster_ours(braid_writer_flush(first.writer, &beside));
  if (status == BRAID_OK) status = braid_cluster_ours(braid_serve_files_find(config, beside, &files));
  if (status == BRAID_OK) {
    all = braid_zalloc_array(NULL, files.count, sizeof *all);
    if (!all) status = BRAID_NO_MEMORY;
  }
  if (all) {
    all[0] = first;
    tell_removed(cluster, clean_external(&files));
    status = fetch_others(cluster, from, &files, most - first.bytes, all);
    if (status == BRAID_OK) status = check_sum(from, all, files.count, sum);
    status = end_files(all, files.count, status);
  } else {
    status = end_files(&first, 1, status);
  }
  keep_named(&cluster->files[index], &files);
  braid_free(NULL, all);
  return status;
}

static void count_carried(braid_serve_cluster *cluster, size_t index, const cluster_carried *carried,
                          const char *sum /* NULL: it failed */) {
  pthread_mutex_lock(&cluster->lock);
  cluster->counters.carried.wire += carried->wire;
  cluster->counters.carried.ucx += carried->ucx;
  cluster->counters.carried.given_up += carried->given_up;
  if (sum) {
    memcpy(cluster->files[index].sum, sum, sizeof cluster->files[index].sum);
    cluster->files[index].wanted = false;
    cluster->files[index].pause_s = 0;
    cluster->counters.fetched++;
  }
  pthread_mutex_unlock(&cluster->lock);
}

/* A source's fault is that of this node only where no other source is left. */
static void fetch_has_failed(braid_serve_cluster *cluster, size_t index, const fetching *from, braid_status status,
                             const char *sum, const char *why) {
  const char *name = cluster->server->config->models[index].name;
  cluster_files *files = &cluster->files[index];
  char text[BRAID_CLUSTER_REASON], other[BRAID_CLUSTER_PLACE], other_sum[BRAID_SHA256_HEX + 1];
  snprintf(text, sizeof text, "%s", why);
  braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: files of model %s from %s: %s", name,
                  from->address, why);
  remember_failure(files, from, status, sum);
  if (status == BRAID_INVALID_FILE && from->carried->ucx)
    braid_cluster_set_bulk_away(cluster, from->address); /* who knows */
  if (from->lost) braid_cluster_set_down(cluster, from->address);
  bool here = status == BRAID_OUT_OF_RANGE;
  if (here || !find_source(cluster, name, files, other, other_sum)) braid_cluster_fetch_failed(cluster, index, text);
}

static void fetch_model(braid_serve_cluster *cluster, size_t index) {
  const char *name = cluster->server->config->models[index].name;
  char address[BRAID_CLUSTER_PLACE], sum[BRAID_SHA256_HEX + 1];
  const braid_serve_tenant *tenant = NULL;
  cluster_carried carried = {0};
  for (size_t i = 0; i < cluster->server->tenant_count && !tenant; i++)
    if (braid_serve_tenant_may(&cluster->server->tenants[i], name)) tenant = &cluster->server->tenants[i];
  cluster_files *files = &cluster->files[index];
  if (!tenant || !find_source(cluster, name, files, address, sum) || is_paused(files, sum)) return;
  cluster_link *link = braid_cluster_link(cluster, address, tenant);
  fetching from = {link ? link->client : NULL, name, address, &carried, link == NULL, 0};
  int64_t began_ns = braid_now_ns();
  braid_status status = link ? fetch_files(cluster, index, &from, sum) : BRAID_IO;
  if (link) braid_cluster_unlink(cluster, link, from.lost);
  count_carried(cluster, index, &carried, status == BRAID_OK ? sum : NULL);
  if (status != BRAID_OK) {
    fetch_has_failed(cluster, index, &from, status, sum, link ? braid_error_detail() : braid_client_error());
    return;
  }
  braid_log_write(cluster->server->log, BRAID_LOG_INFO,
                  "the cluster: files of model %s have come from %s: %llu bytes by UCX, %llu by Braid's protocol, in "
                  "%.3f s",
                  name, address, (unsigned long long)carried.ucx, (unsigned long long)carried.wire,
                  (double)(braid_now_ns() - began_ns) * 1e-9);
}

/* All that can be known of before a model's own file has come. */
static void remove_leftovers(braid_serve_cluster *cluster) {
  const braid_serve_config *config = cluster->server->config;
  size_t removed = 0;
  for (size_t i = 0; cluster->config->fetch_max_bytes && i < config->models_count; i++) {
    removed += braid_writer_clean(config->models[i].path);
    if (config->models[i].weights) removed += braid_writer_clean(config->models[i].weights);
  }
  tell_removed(cluster, removed);
}

void *braid_cluster_fetcher_main(void *context) {
  braid_serve_cluster *cluster = context;
  remove_leftovers(cluster);
  struct timespec until;
  while (!__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE)) {
    for (size_t i = 0; i < cluster->server->config->models_count; i++) {
      pthread_mutex_lock(&cluster->lock);
      bool wanted = cluster->files[i].wanted, summed = cluster->files[i].sum[0];
      pthread_mutex_unlock(&cluster->lock);
      if (__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE)) break;
      if (wanted)
        fetch_model(cluster, i);
      else if (!summed)
        sum_model(cluster, i);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&cluster->lock);
    bool waits = !__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < cluster->server->config->models_count; i++) waits &= !cluster->files[i].wanted;
    if (waits) (void)pthread_cond_timedwait(&cluster->fetches, &cluster->lock, &until);
    pthread_mutex_unlock(&cluster->lock);
    if (!waits) nanosleep(&(struct timespec){0, 500000000}, NULL); /* who has the files may be down */
  }
  return NULL;
}
