/* Built without GnuTLS's headers: no context can be made, and so no stream. */
#include <stdio.h>

#include "tls/tls.h"

bool braid_tls_context_create(bool server, const braid_tls_files *files, braid_tls_context **out, char *why) {
  (void)server;
  (void)files;
  *out = NULL;
  snprintf(why, BRAID_TLS_WHY, "this Braid was built without GnuTLS (Debian: libgnutls28-dev), so it speaks no TLS");
  return false;
}

braid_tls_result braid_tls_open(const braid_tls_files *files, int file, const char *host, int64_t timeout_ms,
                                const int *stop, braid_tls_stream **out, char *why) {
  braid_tls_context *context;
  (void)file;
  (void)host;
  (void)timeout_ms;
  (void)stop;
  *out = NULL;
  (void)braid_tls_context_create(false, files, &context, why);
  return BRAID_TLS_FAILED;
}

bool braid_tls_stream_create(const braid_tls_context *context, int file, const char *host, braid_tls_stream **out,
                             char *why) {
  (void)context;
  (void)file;
  (void)host;
  *out = NULL;
  snprintf(why, BRAID_TLS_WHY, "there is no TLS");
  return false;
}

void braid_tls_context_destroy(braid_tls_context *context) {
  (void)context;
}

void braid_tls_destroy(braid_tls_stream *stream) {
  (void)stream;
}

braid_tls_result braid_tls_handshake(braid_tls_stream *stream) {
  (void)stream;
  return BRAID_TLS_FAILED;
}

ssize_t braid_tls_receive(braid_tls_stream *stream, void *to, size_t bytes) {
  (void)stream;
  (void)to;
  (void)bytes;
  return -1;
}

ssize_t braid_tls_send(braid_tls_stream *stream, const struct iovec *parts, size_t count) {
  (void)stream;
  (void)parts;
  (void)count;
  return -1;
}

bool braid_tls_has_pending(braid_tls_stream *stream) {
  (void)stream;
  return false;
}

void braid_tls_say_end(braid_tls_stream *stream) {
  (void)stream;
}

const char *braid_tls_why(const braid_tls_stream *stream) {
  (void)stream;
  return "there is no TLS";
}

bool braid_tls_is_plain(const braid_tls_stream *stream) {
  (void)stream;
  return false;
}

int64_t braid_tls_record_began_ms(const braid_tls_stream *stream) {
  (void)stream;
  return 0;
}
