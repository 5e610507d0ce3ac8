/* Any bytes in place of TLS, to a server and to a client, and any bytes changed between the two: handshakes are refused
 * with a sentence, and what is received is what was sent, or nothing. The first byte chooses which. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SERVER, CLIENT, BETWEEN, WAYS, kMost = 100000 };

/* A pair for "localhost" that is its own authority, until 2056; nobody else's. */
static const char kCertificate[] = "-----BEGIN CERTIFICATE-----\n"
                                   "MIIBlDCCATugAwIBAgIUZjERS2tqZUaork+DjMdTYytdo9AwCgYIKoZIzj0EAwIw\n"
                                   "FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODAwNTkzN1oYDzIwNTYxMTIw\n"
                                   "MDA1OTM3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO\n"
                                   "PQMBBwNCAAS1AhqZP9Dqn/3T6y9IAUonBuoY4+6IOIoJWAc212BG0pYTlqHOwsKR\n"
                                   "pgVJcQgM07pLpdbQVNNhbMlHiRKxWFlho2kwZzAdBgNVHQ4EFgQU0R1D8OHZKj4q\n"
                                   "UrAJqdfdqEIBvCwwHwYDVR0jBBgwFoAU0R1D8OHZKj4qUrAJqdfdqEIBvCwwDwYD\n"
                                   "VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID\n"
                                   "RwAwRAIgTJYmxGJvS5QMwH9rUWgqJRAzPog28EnjHVS5lWy6A8UCIEoRNm2Py/pm\n"
                                   "VfwBxJzyOFCPNTPKqq+EDTUjVE2ScwZI\n"
                                   "-----END CERTIFICATE-----\n";
static const char kKey[] = "-----BEGIN PRIVATE KEY-----\n"
                           "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHcXjkxyPhtw8ZwYP\n"
                           "z2bHdie2cryMC/ALPwac33NDsMyhRANCAAS1AhqZP9Dqn/3T6y9IAUonBuoY4+6I\n"
                           "OIoJWAc212BG0pYTlqHOwsKRpgVJcQgM07pLpdbQVNNhbMlHiRKxWFlh\n"
                           "-----END PRIVATE KEY-----\n";

static braid_tls_context *contexts[2];

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0) abort();
}

static void make_contexts(void) {
  char folder[] = "/tmp/braid-fuzz-XXXXXX", certificate[64], key[64], why[BRAID_TLS_WHY];
  if (!mkdtemp(folder)) abort();
  snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  write_text(certificate, kCertificate);
  write_text(key, kKey);
  for (int i = 0; i < 2; i++) {
    braid_tls_files files = {i == CLIENT ? certificate : NULL, i == CLIENT ? NULL : certificate,
                             i == CLIENT ? NULL : key};
    if (!braid_tls_context_create(i == SERVER, &files, &contexts[i], why)) {
      fprintf(stderr, "%s\n", why);
      exit(1);
    }
  }
  (void)!remove(certificate);
  (void)!remove(key);
  (void)!rmdir(folder);
}

static braid_tls_stream *open_stream(int which, int file) {
  char why[BRAID_TLS_WHY];
  braid_tls_stream *stream;
  if (!braid_tls_stream_create(contexts[which], file, which == CLIENT ? "localhost" : NULL, &stream, why)) abort();
  return stream;
}

/* Goes on with the handshake until it waits; a failure has a sentence. */
static braid_tls_result shake(braid_tls_stream *stream) {
  braid_tls_result result = braid_tls_handshake(stream);
  if (result == BRAID_TLS_FAILED && !braid_tls_why(stream)[0]) abort();
  return result;
}

static void try_bytes(int which, const uint8_t *data, size_t bytes) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) abort();
  braid_tls_stream *stream = open_stream(which, pair[0]);
  braid_tls_result result = BRAID_TLS_READ;
  for (size_t at = 0; at < bytes && result == BRAID_TLS_READ; at += 1 + at) { /* in pieces that grow */
    size_t count = 1 + at < bytes - at ? 1 + at : bytes - at;
    if (send(pair[1], data + at, count, MSG_NOSIGNAL) < 0) break;
    result = shake(stream);
  }
  (void)shutdown(pair[1], SHUT_WR);
  for (int i = 0; i < 4 && result != BRAID_TLS_FAILED; i++)
    result = shake(stream);                /* after SSL 2's hello it asks twice */
  if (result != BRAID_TLS_FAILED) abort(); /* no handshake is guessed */
  if (braid_tls_receive(stream, (uint8_t[16]){0}, 16) >= 0) abort();
  braid_tls_destroy(stream);
  close(pair[0]);
  close(pair[1]);
}

/* Two sockets with the fuzzer between; `at`: bytes that have passed it. */
typedef struct wire {
  int ends[2][2]; /* of server and client: the stream's, ours */
  size_t at;
} wire;

/* Moves what there is, changed where the input says: a distance (2 bytes), what to change (1). */
static bool move(wire *w, const uint8_t **data, size_t *bytes) {
  static uint8_t buffer[65536];
  bool moved = false;
  for (int i = 0; i < 2; i++) {
    ssize_t count = recv(w->ends[i][1], buffer, sizeof buffer, 0);
    if (count <= 0) continue;
    while (*bytes >= 3) {
      size_t place = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
      if (place < w->at || place >= w->at + (size_t)count) break;
      buffer[place - w->at] ^= (*data)[2];
      *data += 3;
      *bytes -= 3;
    }
    w->at += (size_t)count;
    if (send(w->ends[!i][1], buffer, (size_t)count, MSG_NOSIGNAL) != count) abort();
    moved = true;
  }
  return moved;
}

static void try_between(const uint8_t *data, size_t bytes) {
  static uint8_t sent[20000], received[20000];
  wire w = {.at = 0};
  braid_tls_stream *streams[2];
  braid_tls_result results[2] = {BRAID_TLS_READ, BRAID_TLS_READ};
  for (int i = 0; i < 2; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, w.ends[i]) != 0) abort();
    streams[i] = open_stream(i, w.ends[i][0]);
  }
  for (int turn = 0; turn < 20; turn++) {
    for (int i = 0; i < 2; i++)
      if (results[i] == BRAID_TLS_READ) results[i] = shake(streams[i]);
    if (!move(&w, &data, &bytes)) break;
  }
  if (results[CLIENT] == BRAID_TLS_DONE) {
    size_t got = 0;
    ssize_t count = 1;
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (uint8_t)(i * 7 + i / 256);
    struct iovec parts[3] = {{sent, 1}, {sent + 1, 2000}, {sent + 2001, 17000}};
    (void)!braid_tls_send(streams[CLIENT], parts, 3);
    (void)move(&w, &data, &bytes);
    while (results[SERVER] == BRAID_TLS_READ && shake(streams[SERVER]) == BRAID_TLS_DONE)
      results[SERVER] = BRAID_TLS_DONE;
    while (results[SERVER] == BRAID_TLS_DONE && got < sizeof received && count > 0) {
      count = braid_tls_receive(streams[SERVER], received + got, sizeof received - got);
      if (count > 0) got += (size_t)count;
    }
    if (got && (got > 19001 || memcmp(sent, received, got) != 0)) abort();
  }
  for (int i = 0; i < 2; i++) {
    braid_tls_say_end(streams[i]);
    braid_tls_destroy(streams[i]);
    close(w.ends[i][0]);
    close(w.ends[i][1]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  if (!contexts[0]) make_contexts();
  if (!bytes || bytes > kMost) return 0;
  switch (*data % WAYS) {
  case BETWEEN:
    try_between(data + 1, bytes - 1);
    break;
  default:
    try_bytes(*data % WAYS, data + 1, bytes - 1);
  }
  return 0;
}
