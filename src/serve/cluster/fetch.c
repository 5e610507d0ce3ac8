/* Files of models: their sums, which others are told, and those that are not here and are to be held, from who has
 * them: by Braid's own protocol, in pieces, to files beside, which get their names when the sum is right. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/try.h"
#include "client/channel.h"
#include "serve/cluster/node.h"

/* --- sums ----------------------------------------------------------------------------------------------------------
 * A model's sum is that of the sums of its files. */
static braid_status add_file(const char *path, braid_sha256 *all) {
  braid_reader *reader;
  uint8_t piece[BRAID_SHA256_PIECE], sum[BRAID_SHA256_BYTES];
  braid_sha256 hash;
  BRAID_TRY(braid_reader_open(NULL, path, 0, &reader));
  braid_sha256_begin(&hash);
  braid_status status = BRAID_OK;
  size_t bytes = braid_reader_bytes(reader);
  for (size_t at = 0; at < bytes && status == BRAID_OK; at += sizeof piece) {
    size_t count = bytes - at < sizeof piece ? bytes - at : sizeof piece;
    status = braid_reader_get(reader, at, piece, count);
    if (status == BRAID_OK) braid_sha256_add(&hash, piece, count);
  }
  if (status == BRAID_OK) status = braid_reader_check(reader);
  braid_reader_close(reader);
  braid_sha256_end(&hash, sum);
  braid_sha256_add(all, sum, sizeof sum);
  return status;
}

static void sum_model(braid_serve_cluster *cluster, size_t index) {
  const braid_serve_model_config *config = &cluster->server->config->models[index];
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256 all;
  char text[BRAID_SHA256_HEX + 1];
  braid_sha256_begin(&all);
  braid_status status = add_file(config->path, &all);
  if (status == BRAID_OK && config->weights) status = add_file(config->weights, &all);
  if (status != BRAID_OK) return; /* not there, or being written: later */
  braid_sha256_end(&all, sum);
  braid_sha256_text(sum, sizeof sum, text);
  pthread_mutex_lock(&cluster->lock);
  memcpy(cluster->files[index].sum, text, sizeof text);
  pthread_mutex_unlock(&cluster->lock);
}

/* --- one file ------------------------------------------------------------------------------------------------------
 */
typedef struct fetched {
  braid_writer *writer;
  uint8_t sum[BRAID_SHA256_BYTES];
  uint64_t bytes;
} fetched;

/* The piece at `offset`; *body is to be freed by client_abandon. */
static braid_status ask_piece(braid_client *client, const char *model, bool weights, uint64_t offset,
                              client_ticket *ticket, braid_wire_reader *reader) {
  braid_wire_writer *writer = client_begin(client, BRAID_WIRE_FILE, ticket);
  braid_wire_put_text(writer, model);
  braid_wire_put_number(writer, weights, 1);
  braid_wire_put_number(writer, offset, 8);
  braid_client_status status = client_send(client, ticket, NULL, 0, -1);
  if (status == BRAID_CLIENT_OK) status = client_answer(client, ticket, reader, NULL);
  return status == BRAID_CLIENT_OK ? BRAID_OK : braid_fail(BRAID_IO, "%s", braid_client_error());
}

static braid_status fetch_file(braid_serve_cluster *cluster, braid_client *client, const char *model, bool weights,
                               const char *path, uint64_t most, fetched *out) {
  braid_sha256 hash;
  braid_sha256_begin(&hash);
  BRAID_TRY(braid_writer_open(NULL, path, &out->writer));
  uint64_t first = 0; /* what the first answer said of its length */
  for (bool whole = false; !whole;) {
    client_ticket ticket;
    braid_wire_reader reader;
    if (__atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE)) return braid_fail(BRAID_CANCELLED, "the daemon stops");
    braid_status status = ask_piece(client, model, weights, out->bytes, &ticket, &reader);
    uint64_t total = status == BRAID_OK ? braid_wire_get_number(&reader, 8) : 0;
    size_t count = status == BRAID_OK && !reader.wrong ? reader.bytes - reader.at : 0;
    if (!out->bytes) first = total;
    if (status == BRAID_OK && (reader.wrong || total > most || total != first || total < out->bytes ||
                               count > total - out->bytes || (!count && total > out->bytes)))
      status = braid_fail(BRAID_IO, "a file of %llu bytes, of which the node sends %zu at %llu; %llu may be fetched",
                          (unsigned long long)total, count, (unsigned long long)out->bytes, (unsigned long long)most);
    if (status == BRAID_OK && count) {
      braid_sha256_add(&hash, reader.data + reader.at, count);
      status = braid_writer_put(out->writer, reader.data + reader.at, count);
    }
    client_abandon(client, &ticket);
    if (status != BRAID_OK) return status;
    out->bytes += count;
    whole = out->bytes == total;
  }
  braid_sha256_end(&hash, out->sum);
  return BRAID_OK;
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
/* Who has the files, as it says; false: nobody. */
static bool find_source(braid_serve_cluster *cluster, const char *model, char *address, char *sum) {
  bool found = false;
  pthread_mutex_lock(&cluster->lock);
  for (size_t i = 0; i < cluster->roster.member_count && !found; i++) {
    const braid_cluster_member *member = &cluster->roster.members[i];
    const braid_cluster_holding *holding = braid_cluster_offer(cluster, member, model);
    found = holding && holding->sum[0] && !braid_cluster_is_down(cluster, member->address, braid_now_ns());
    if (!found) continue;
    snprintf(address, BRAID_CLUSTER_PLACE, "%s", member->address);
    memcpy(sum, holding->sum, sizeof holding->sum);
  }
  pthread_mutex_unlock(&cluster->lock);
  return found;
}

static braid_status check_sum(const fetched *files, size_t count, const char *expected) {
  uint8_t sum[BRAID_SHA256_BYTES];
  char text[BRAID_SHA256_HEX + 1];
  braid_sha256 all;
  braid_sha256_begin(&all);
  for (size_t i = 0; i < count; i++) braid_sha256_add(&all, files[i].sum, sizeof files[i].sum);
  braid_sha256_end(&all, sum);
  braid_sha256_text(sum, sizeof sum, text);
  if (strcmp(text, expected) == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "the files that came have the sum %s, not %s", text, expected);
}

static braid_status fetch_files(braid_serve_cluster *cluster, size_t index, braid_client *client, const char *sum) {
  const braid_serve_model_config *config = &cluster->server->config->models[index];
  uint64_t most = (uint64_t)cluster->config->fetch_max_bytes;
  fetched files[2] = {{0}, {0}};
  size_t count = config->weights ? 2 : 1;
  braid_status status = fetch_file(cluster, client, config->name, false, config->path, most, &files[0]);
  if (status == BRAID_OK && count == 2)
    status = fetch_file(cluster, client, config->name, true, config->weights, most - files[0].bytes, &files[1]);
  if (status == BRAID_OK) status = check_sum(files, count, sum);
  for (size_t i = count; i-- > 0;) { /* the model's own file last: with it all are there */
    if (status == BRAID_OK)
      status = braid_writer_commit(files[i].writer);
    else
      braid_writer_abort(files[i].writer);
  }
  return status;
}

static void fetch_model(braid_serve_cluster *cluster, size_t index) {
  const char *name = cluster->server->config->models[index].name;
  char address[BRAID_CLUSTER_PLACE], sum[BRAID_SHA256_HEX + 1];
  const braid_serve_tenant *tenant = NULL;
  for (size_t i = 0; i < cluster->server->tenant_count && !tenant; i++)
    if (braid_serve_tenant_may(&cluster->server->tenants[i], name)) tenant = &cluster->server->tenants[i];
  if (!tenant || !find_source(cluster, name, address, sum)) return;
  cluster_link *link = braid_cluster_link(cluster, address, tenant);
  braid_status status = link ? fetch_files(cluster, index, link->client, sum) : BRAID_IO;
  if (link) braid_cluster_unlink(cluster, link, status == BRAID_IO);
  if (status != BRAID_OK) {
    braid_cluster_set_down(cluster, address);
    braid_log_write(cluster->server->log, BRAID_LOG_WARNING, "the cluster: files of model %s from %s: %s", name,
                    address, link ? braid_error_detail() : braid_client_error());
    return;
  }
  pthread_mutex_lock(&cluster->lock);
  memcpy(cluster->files[index].sum, sum, sizeof sum);
  cluster->files[index].wanted = false;
  cluster->counters.fetched++;
  pthread_mutex_unlock(&cluster->lock);
}

/* What a daemon that was killed had fetched in part. */
static void remove_leftovers(braid_serve_cluster *cluster) {
  const braid_serve_config *config = cluster->server->config;
  size_t removed = 0;
  for (size_t i = 0; cluster->config->fetch_max_bytes && i < config->models_count; i++) {
    removed += braid_writer_clean(config->models[i].path);
    if (config->models[i].weights) removed += braid_writer_clean(config->models[i].weights);
  }
  if (removed)
    braid_log_write(cluster->server->log, BRAID_LOG_INFO,
                    "the cluster: %zu files removed that a daemon that was killed had fetched in part", removed);
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
