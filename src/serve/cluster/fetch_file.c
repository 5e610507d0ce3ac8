/* One file from another node: its first piece by Braid's own protocol, which says how long it is, and the rest by UCX
 * where both nodes have it; what is not there after that by Braid's protocol again, from where it stands. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "client/channel.h"
#include "serve/cluster/fetch.h"

enum { LOOK_MS = 100, ASK_MS = 300, STALL_MS = 5000, LAST_MS = 1000, AWAY_S = 60, LEAST_BYTES = 1 << 20 };

braid_status braid_cluster_check_ending(const braid_serve_cluster *cluster) {
  bool ending = __atomic_load_n(&cluster->ending, __ATOMIC_ACQUIRE);
  return ending ? braid_fail(BRAID_CANCELLED, "the daemon stops") : BRAID_OK;
}

static braid_status take_bytes(fetched *out, const uint8_t *bytes, size_t count) {
  BRAID_TRY(braid_cluster_ours(braid_writer_put(out->writer, bytes, count)));
  braid_sha256_add(&out->hash, bytes, count);
  out->bytes += count;
  return BRAID_OK;
}

/* What the node did not answer, or not so. */
static braid_status not_sent(fetching *from, braid_client_status sent) {
  from->lost |= sent == BRAID_CLIENT_LOST || sent == BRAID_CLIENT_PROTOCOL || sent == BRAID_CLIENT_TIMEOUT;
  return braid_fail(BRAID_IO, "%s", braid_client_error());
}

/* --- by Braid's protocol -------------------------------------------------------------------------------------------
 */
/* The next piece; the first one says the total. */
static braid_status take_piece(fetching *from, uint32_t file, uint64_t most, fetched *out) {
  client_ticket ticket;
  braid_wire_reader reader;
  braid_wire_file asked = {.file = file, .offset = out->bytes};
  snprintf(asked.model, sizeof asked.model, "%s", from->model);
  braid_wire_put_file(client_begin(from->client, BRAID_WIRE_FILE, &ticket), &asked);
  braid_client_status sent = client_send(from->client, &ticket, NULL, 0, -1);
  if (sent == BRAID_CLIENT_OK) sent = client_answer(from->client, &ticket, &reader, NULL);
  braid_status status = sent == BRAID_CLIENT_OK ? BRAID_OK : not_sent(from, sent);
  uint64_t total = status == BRAID_OK ? braid_wire_get_number(&reader, 8) : 0;
  size_t count = status == BRAID_OK && !reader.wrong ? reader.bytes - reader.at : 0;
  if (!out->bytes) out->total = total;
  if (status == BRAID_OK && !reader.wrong && !out->bytes && total > most)
    status = braid_fail(BRAID_OUT_OF_RANGE, "a file of %llu bytes, of which %llu may be fetched",
                        (unsigned long long)total, (unsigned long long)most);
  if (status == BRAID_OK && (reader.wrong || total > INT64_MAX || total != out->total || count > total - out->bytes ||
                             (!count && total > out->bytes)))
    status = braid_fail(BRAID_IO, "a file of %llu bytes, of which the node sends %zu at %llu",
                        (unsigned long long)total, count, (unsigned long long)out->bytes);
  if (status == BRAID_OK && count) status = take_bytes(out, reader.data + reader.at, count);
  client_abandon(from->client, &ticket);
  if (status == BRAID_OK) from->carried->wire += count;
  return status;
}

/* --- by UCX --------------------------------------------------------------------------------------------------------
 */
static braid_status ask_bulk(fetching *from, uint32_t file, const fetched *out, const braid_bulk_receiver *receiver) {
  client_ticket ticket;
  braid_wire_bulk bulk = {.file = {.file = file, .offset = out->bytes}, .total = out->total};
  snprintf(bulk.file.model, sizeof bulk.file.model, "%s", from->model);
  memcpy(bulk.nonce, braid_bulk_receiver_nonce(receiver), sizeof bulk.nonce);
  bulk.address = braid_bulk_receiver_address(receiver, &bulk.address_bytes);
  braid_wire_put_bulk(client_begin(from->client, BRAID_WIRE_BULK, &ticket), &bulk);
  braid_client_status sent = client_finish(from->client, &ticket);
  return sent == BRAID_CLIENT_OK ? BRAID_OK : not_sent(from, sent);
}

/* How it stands with the sender, as its node says. */
static braid_status ask_sender(fetching *from, const braid_bulk_receiver *receiver, braid_bulk_state *out) {
  client_ticket ticket;
  braid_wire_reader reader;
  char detail[BRAID_BULK_DETAIL] = "";
  *out = BRAID_BULK_UNKNOWN;
  braid_wire_writer *writer = client_begin(from->client, BRAID_WIRE_SENDING, &ticket);
  braid_wire_put(writer, braid_bulk_receiver_nonce(receiver), BRAID_WIRE_NONCE);
  braid_client_status sent = client_send(from->client, &ticket, NULL, 0, -1);
  if (sent == BRAID_CLIENT_OK) sent = client_answer(from->client, &ticket, &reader, NULL);
  if (sent == BRAID_CLIENT_OK) {
    *out = (braid_bulk_state)braid_wire_get_number(&reader, 1);
    braid_wire_get_text(&reader, detail, sizeof detail);
  }
  client_abandon(from->client, &ticket);
  if (sent != BRAID_CLIENT_OK) return not_sent(from, sent);
  if (*out == BRAID_BULK_GOING || *out == BRAID_BULK_DONE) return BRAID_OK;
  return braid_fail(BRAID_IO, "the node has stopped to send: %.200s", detail[0] ? detail : "it does not say why");
}

static int64_t since_ms(int64_t ns) {
  return (braid_now_ns() - ns) / 1000000;
}

static braid_status take_pieces(braid_serve_cluster *cluster, fetching *from, fetched *out,
                                braid_bulk_receiver *receiver, uint8_t *piece) {
  int64_t came_ns = braid_now_ns(), asked_ns = came_ns;
  while (out->bytes < out->total) {
    size_t count;
    braid_bulk_state state;
    BRAID_TRY(braid_cluster_check_ending(cluster));
    BRAID_TRY(braid_bulk_receiver_next(receiver, LOOK_MS, piece, &count));
    if (count) {
      BRAID_TRY(take_bytes(out, piece, count));
      from->carried->ucx += count;
      came_ns = asked_ns = braid_now_ns();
      continue;
    }
    if (since_ms(asked_ns) >= ASK_MS) {
      BRAID_TRY(ask_sender(from, receiver, &state));
      asked_ns = braid_now_ns();
    }
    if (since_ms(came_ns) >= STALL_MS)
      return braid_fail(BRAID_IO, "nothing has come for %d s, at %llu of %llu bytes", STALL_MS / 1000,
                        (unsigned long long)out->bytes, (unsigned long long)out->total);
  }
  return BRAID_OK;
}

/* The sender's end is not to be taken for a loss, so that the receiver stays until it has come, for a moment. */
static void await_sender(fetching *from, const braid_bulk_receiver *receiver) {
  braid_bulk_state state = BRAID_BULK_GOING;
  int64_t began_ns = braid_now_ns();
  for (bool waited = false; state == BRAID_BULK_GOING && since_ms(began_ns) < LAST_MS; waited = true) {
    if (waited) (void)poll(NULL, 0, 5);
    if (ask_sender(from, receiver, &state) != BRAID_OK) return;
  }
}

static braid_status take_rest(braid_serve_cluster *cluster, fetching *from, uint32_t file, fetched *out) {
  braid_bulk_receiver *receiver;
  BRAID_TRY(braid_bulk_receive(cluster->ucx, &cluster->ending, &receiver));
  uint8_t *piece = braid_alloc(NULL, BRAID_BULK_PIECE);
  braid_status status = piece ? braid_bulk_receiver_expect(receiver, out->bytes, out->total) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = ask_bulk(from, file, out, receiver);
  if (status == BRAID_OK) status = take_pieces(cluster, from, out, receiver, piece);
  if (status == BRAID_OK) await_sender(from, receiver);
  braid_bulk_receiver_destroy(receiver);
  braid_free(NULL, piece);
  return status;
}

/* --- which way -----------------------------------------------------------------------------------------------------
 */
static cluster_down *find_away(braid_serve_cluster *cluster, const char *address) {
  for (size_t i = 0; i < sizeof cluster->bulk_downs / sizeof *cluster->bulk_downs; i++)
    if (strcmp(cluster->bulk_downs[i].address, address) == 0) return &cluster->bulk_downs[i];
  return NULL;
}

void braid_cluster_set_bulk_away(braid_serve_cluster *cluster, const char *address) {
  cluster_down *down = find_away(cluster, address);
  if (!down)
    down = &cluster->bulk_downs[cluster->bulk_next++ % (sizeof cluster->bulk_downs / sizeof *cluster->bulk_downs)];
  snprintf(down->address, sizeof down->address, "%s", address);
  down->until_ns = braid_now_ns() + AWAY_S * INT64_C(1000000000);
}

/* Whether the rest of a file is to come by UCX. */
static bool wants_bulk(braid_serve_cluster *cluster, fetching *from, const fetched *out) {
  bool only = strcmp(cluster->config->bulk, "ucx") == 0;
  uint64_t rest = out->total - out->bytes;
  if (!cluster->ucx[0] || rest == 0 || (rest < LEAST_BYTES && !only)) return false;
  const cluster_down *down = only ? NULL : find_away(cluster, from->address);
  if (down && braid_now_ns() < down->until_ns) return false;
  return only || from->client->welcome.rights & BRAID_WIRE_HAS_BULK;
}

braid_status braid_cluster_fetch_file(braid_serve_cluster *cluster, fetching *from, uint32_t file, const char *path,
                                      uint64_t most, fetched *out) {
  bool only = strcmp(cluster->config->bulk, "ucx") == 0;
  braid_sha256_begin(&out->hash);
  BRAID_TRY(braid_cluster_ours(braid_writer_open(NULL, path, &out->writer)));
  BRAID_TRY(take_piece(from, file, most, out));
  if (wants_bulk(cluster, from, out)) {
    braid_status status = take_rest(cluster, from, file, out);
    if (status != BRAID_OK && (status != BRAID_IO || only)) return status;
    if (status != BRAID_OK) {
      braid_cluster_set_bulk_away(cluster, from->address);
      braid_log_write(cluster->server->log, BRAID_LOG_WARNING,
                      "the cluster: a file of model %s from %s by UCX: %s; its rest, from byte %llu of %llu, and what "
                      "else comes from there for %d s, comes by Braid's protocol",
                      from->model, from->address, braid_error_detail(), (unsigned long long)out->bytes,
                      (unsigned long long)out->total, AWAY_S);
      from->carried->given_up++;
      from->lost = false; /* which shows again */
    }
  }
  while (out->bytes < out->total) {
    BRAID_TRY(braid_cluster_check_ending(cluster));
    BRAID_TRY(take_piece(from, file, most, out));
  }
  braid_sha256_end(&out->hash, out->sum);
  return BRAID_OK;
}
