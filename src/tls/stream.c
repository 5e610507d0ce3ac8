/* Streams: GnuTLS's sessions over sockets that do not block. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "tls/gnutls.h"
#include "tls/tls.h"

enum { kRecordHeader = 5, kHost = 256, kLookMs = 50 };
/* Who speaks TLS to another service of the same certificate is not let in here. */
static const char kApplication[] = "braid/1";
static const char kPriorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

struct braid_tls_stream {
  braid_tls_context *own; /* made for this stream; NULL */
  gnutls_session_t session;
  int file;
  bool server, shaken, plain, seen, ended; /* ended: the socket has */
  char host[kHost];
  gnutls_typed_vdata_st wanted[2]; /* of the other side's certificate */
  /* --- of who receives --- */
  uint8_t header[kRecordHeader]; /* of the record that comes */
  size_t header_used, body;      /* body: its bytes that are still to come */
  int64_t began_ms;
  /* --- with the lock --- */
  pthread_mutex_t lock;
  bool failed;
  bool blocked; /* a record that the socket did not take whole is to be sent first */
  int reason;   /* errno of the socket, when it failed */
  char why[BRAID_TLS_WHY];
  uint8_t stage[BRAID_TLS_RECORD]; /* small parts, put together */
};

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- the socket ----------------------------------------------------------------------------------------------------
 */
/* Where in a record the bytes that come stand: who sends half of one keeps us waiting. */
static void follow_records(braid_tls_stream *s, const uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    if (s->body) {
      size_t step = s->body < count - at ? s->body : count - at;
      s->body -= step;
      at += step;
    } else {
      if (!s->header_used) s->began_ms = now_ms();
      s->header[s->header_used++] = bytes[at++];
      if (s->header_used < kRecordHeader) continue;
      s->header_used = 0;
      s->body = (size_t)s->header[3] << 8 | s->header[4];
    }
    if (!s->body) s->began_ms = 0;
  }
}

static ssize_t stream_pull(gnutls_transport_ptr_t context, void *to, size_t bytes) {
  braid_tls_stream *s = context;
  char first;
  if (!s->seen && recv(s->file, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
    s->seen = true;
    s->plain = first == 'B'; /* of BRD1; no record of TLS begins so */
  }
  if (s->plain) {
    errno = s->reason = EPROTO;
    return -1;
  }
  ssize_t count = recv(s->file, to, bytes, MSG_DONTWAIT);
  if (count > 0) follow_records(s, to, (size_t)count);
  if (count < 0) s->reason = errno;
  if (count == 0 && bytes) s->ended = true;
  return count;
}

static ssize_t stream_push(gnutls_transport_ptr_t context, const void *from, size_t bytes) {
  braid_tls_stream *s = context;
  ssize_t count = send(s->file, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) s->reason = errno;
  return count;
}

static int stream_wait(gnutls_transport_ptr_t context, unsigned ms) {
  const braid_tls_stream *s = context;
  return poll(&(struct pollfd){.fd = s->file, .events = POLLIN}, 1, ms > INT_MAX ? -1 : (int)ms);
}

/* --- sentences -----------------------------------------------------------------------------------------------------
 */
static const char *other_side(const braid_tls_stream *s) {
  return s->server ? "the client" : "the daemon";
}

/* The first fault of a certificate. */
static void explain_certificate(braid_tls_stream *s) {
  static const struct {
    unsigned fault;
    const char *says;
  } kFaults[] = {
      {GNUTLS_CERT_REVOKED, "is revoked"},
      {GNUTLS_CERT_SIGNER_NOT_FOUND, "is by an authority that is not trusted here"},
      {GNUTLS_CERT_SIGNER_NOT_CA, "is by a certificate that is no authority's"},
      {GNUTLS_CERT_SIGNATURE_FAILURE, "has a signature that is not its authority's"},
      {GNUTLS_CERT_INSECURE_ALGORITHM, "is signed by an algorithm that is broken"},
      {GNUTLS_CERT_NOT_ACTIVATED, "is not valid yet, by the clock of this machine"},
      {GNUTLS_CERT_EXPIRED, "has expired, by the clock of this machine"},
      {GNUTLS_CERT_PURPOSE_MISMATCH, "is for another use (its extended key usage)"},
  };
  unsigned faults = tls.session_get_verify_cert_status(s->session);
  const char *says = "cannot be trusted";
  for (size_t i = 0; i < sizeof kFaults / sizeof *kFaults; i++) {
    if (!(faults & kFaults[i].fault)) continue;
    says = kFaults[i].says;
    break;
  }
  if (faults == (GNUTLS_CERT_INVALID | GNUTLS_CERT_UNEXPECTED_OWNER) || faults == GNUTLS_CERT_UNEXPECTED_OWNER)
    snprintf(s->why, sizeof s->why, "TLS: the certificate of %s is not for \"%s\"", other_side(s), s->host);
  else
    snprintf(s->why, sizeof s->why, "TLS: the certificate of %s %s", other_side(s), says);
}

static void explain(braid_tls_stream *s, int code) {
  if (s->plain && s->server) {
    snprintf(s->why, sizeof s->why, "the client speaks no TLS");
    return;
  }
  if (s->plain) {
    snprintf(s->why, sizeof s->why,
             "TLS: it answers without TLS: it has none there (\"tls:\" is to be left out), or as many connections as "
             "it may");
    return;
  }
  switch (s->ended && code == GNUTLS_E_UNEXPECTED_PACKET_LENGTH ? GNUTLS_E_PREMATURE_TERMINATION : code) {
  case GNUTLS_E_CERTIFICATE_ERROR:
  case GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR:
    explain_certificate(s);
    break;
  case GNUTLS_E_NO_CERTIFICATE_FOUND:
  case GNUTLS_E_CERTIFICATE_REQUIRED:
    snprintf(s->why, sizeof s->why, "TLS: %s shows no certificate", other_side(s));
    break;
  case GNUTLS_E_FATAL_ALERT_RECEIVED: {
    const char *name = tls.alert_get_name(tls.alert_get(s->session));
    snprintf(s->why, sizeof s->why, "TLS: %s refuses: %.200s", other_side(s), name ? name : "an alert of no name");
    break;
  }
  case GNUTLS_E_PREMATURE_TERMINATION:
    snprintf(s->why, sizeof s->why,
             s->shaken ? "TLS: the connection was cut off, %s has not said that it ends"
                       : "TLS: the connection ended within the handshake; does %s speak TLS there?",
             other_side(s));
    break;
  case GNUTLS_E_UNEXPECTED_PACKET:
  case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
  case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    snprintf(s->why, sizeof s->why, "TLS: what %s sends is no TLS", other_side(s));
    break;
  case GNUTLS_E_PULL_ERROR:
  case GNUTLS_E_PUSH_ERROR:
    snprintf(s->why, sizeof s->why, "%s", strerror(s->reason));
    break;
  case GNUTLS_E_REHANDSHAKE:
    snprintf(s->why, sizeof s->why, "TLS: %s asks for another handshake, and none is done", other_side(s));
    break;
  default:
    snprintf(s->why, sizeof s->why, "TLS: %.300s", tls.strerror(code));
  }
}

/* With the lock, or before there are threads. */
static void stream_fail(braid_tls_stream *s, int code) {
  if (s->failed) return;
  explain(s, code);
  s->failed = true;
  errno = code == GNUTLS_E_PULL_ERROR || code == GNUTLS_E_PUSH_ERROR ? s->reason : EPROTO;
}

const char *braid_tls_why(const braid_tls_stream *s) {
  return s->why;
}

bool braid_tls_is_plain(const braid_tls_stream *s) {
  return s->plain;
}

int64_t braid_tls_record_began_ms(const braid_tls_stream *s) {
  return s->began_ms;
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static bool is_numeric(const char *host) {
  uint8_t address[16];
  return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* What the other side's certificate has to say. Where a server asks for none nothing is verified, since tokens say who
 * clients are. */
static int set_verification(braid_tls_stream *s, const braid_tls_context *context) {
  size_t count = 0;
  if (!s->server) {
    s->wanted[count++] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_DNS_HOSTNAME, .data = (void *)s->host};
    if (!is_numeric(s->host)) {
      int code = tls.server_name_set(s->session, GNUTLS_NAME_DNS, s->host, strlen(s->host));
      if (code < 0) return code;
    }
  }
  const char *purpose = s->server ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER;
  s->wanted[count++] = (gnutls_typed_vdata_st){.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (void *)(uintptr_t)purpose};
  if (s->server)
    tls.certificate_server_set_request(s->session, context->asks ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_IGNORE);
  if (!s->server || context->asks) tls.session_set_verify_cert2(s->session, s->wanted, (unsigned)count, 0);
  return 0;
}

static int open_session(braid_tls_stream *s, const braid_tls_context *context) {
  unsigned flags = GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | (s->server ? GNUTLS_SERVER | GNUTLS_NO_TICKETS : GNUTLS_CLIENT);
  int code = tls.init(&s->session, flags);
  if (code < 0) {
    s->session = NULL;
    return code;
  }
  gnutls_datum_t application = {(unsigned char *)(uintptr_t)kApplication, sizeof kApplication - 1};
  if (code >= 0) code = tls.priority_set_direct(s->session, kPriorities, NULL);
  if (code >= 0) code = tls.credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, context->credentials);
  if (code >= 0) code = tls.alpn_set_protocols(s->session, &application, 1, s->server ? GNUTLS_ALPN_MANDATORY : 0);
  if (code >= 0) code = set_verification(s, context);
  tls.transport_set_ptr(s->session, s);
  tls.transport_set_pull_function(s->session, stream_pull);
  tls.transport_set_push_function(s->session, stream_push);
  tls.transport_set_pull_timeout_function(s->session, stream_wait);
  return code;
}

bool braid_tls_stream_create(const braid_tls_context *context, int file, const char *host, braid_tls_stream **out,
                             char *why) {
  *out = NULL;
  if (host && strlen(host) >= kHost) {
    snprintf(why, BRAID_TLS_WHY, "TLS: a host of at most %d bytes is expected", kHost - 1);
    return false;
  }
  braid_tls_stream *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(why, BRAID_TLS_WHY, "no memory for TLS");
    return false;
  }
  s->file = file;
  s->server = context->server;
  snprintf(s->host, sizeof s->host, "%s", host ? host : "");
  pthread_mutex_init(&s->lock, NULL);
  int code = open_session(s, context);
  if (code >= 0) {
    *out = s;
    return true;
  }
  snprintf(why, BRAID_TLS_WHY, "TLS: %.300s", tls.strerror(code));
  braid_tls_destroy(s);
  return false;
}

void braid_tls_destroy(braid_tls_stream *s) {
  if (!s) return;
  if (s->session) tls.deinit(s->session);
  braid_tls_context_destroy(s->own);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* --- the handshake -------------------------------------------------------------------------------------------------
 */
braid_tls_result braid_tls_handshake(braid_tls_stream *s) {
  int code;
  do code = s->failed ? GNUTLS_E_INVALID_SESSION : tls.handshake(s->session);
  while (code < 0 && code != GNUTLS_E_AGAIN && !tls.error_is_fatal(code));
  if (code == GNUTLS_E_AGAIN) return tls.record_get_direction(s->session) ? BRAID_TLS_WRITE : BRAID_TLS_READ;
  if (code >= 0) {
    s->shaken = true;
    return BRAID_TLS_DONE;
  }
  stream_fail(s, code);
  if (!s->plain) (void)tls.alert_send_appropriate(s->session, code);
  return BRAID_TLS_FAILED;
}

static braid_tls_result shake_within(braid_tls_stream *s, int64_t timeout_ms, const int *stop) {
  int64_t until = now_ms() + timeout_ms;
  for (;;) {
    braid_tls_result result = braid_tls_handshake(s);
    if (result != BRAID_TLS_READ && result != BRAID_TLS_WRITE) return result;
    int64_t rest = until - now_ms();
    if (rest <= 0) {
      snprintf(s->why, sizeof s->why, "TLS: the handshake was not done in time");
      return BRAID_TLS_TIMEOUT;
    }
    if (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
      snprintf(s->why, sizeof s->why, "TLS: the handshake was given up");
      return BRAID_TLS_FAILED;
    }
    if (stop && rest > kLookMs) rest = kLookMs;
    struct pollfd poller = {.fd = s->file, .events = result == BRAID_TLS_READ ? POLLIN : POLLOUT};
    (void)poll(&poller, 1, rest < INT_MAX ? (int)rest : INT_MAX);
  }
}

braid_tls_result braid_tls_open(const braid_tls_files *files, int file, const char *host, int64_t timeout_ms,
                                const int *stop, braid_tls_stream **out, char *why) {
  braid_tls_context *context;
  braid_tls_stream *s;
  *out = NULL;
  if (!braid_tls_context_create(false, files, &context, why)) return BRAID_TLS_FAILED;
  if (!braid_tls_stream_create(context, file, host, &s, why)) {
    braid_tls_context_destroy(context);
    return BRAID_TLS_FAILED;
  }
  s->own = context;
  braid_tls_result result = shake_within(s, timeout_ms, stop);
  if (result == BRAID_TLS_DONE) {
    *out = s;
    return result;
  }
  memcpy(why, s->why, sizeof s->why);
  braid_tls_destroy(s);
  return result;
}

/* --- bytes ---------------------------------------------------------------------------------------------------------
 */
/* What GnuTLS says of a record, as recv and send say it. With the lock. */
static ssize_t judge(braid_tls_stream *s, ssize_t code) {
  if (code >= 0) return code;
  if (code == GNUTLS_E_REHANDSHAKE || tls.error_is_fatal((int)code)) {
    stream_fail(s, (int)code);
    return -1;
  }
  errno = EAGAIN; /* or a warning, or a message of TLS itself */
  return -1;
}

ssize_t braid_tls_receive(braid_tls_stream *s, void *to, size_t bytes) {
  pthread_mutex_lock(&s->lock);
  ssize_t count = -1;
  if (s->failed)
    errno = EPROTO;
  else
    count = judge(s, tls.record_recv(s->session, to, bytes));
  pthread_mutex_unlock(&s->lock);
  return count;
}

/* The next bytes of the parts, at most a record of them; *out stands at them. */
static size_t gather(braid_tls_stream *s, const struct iovec *parts, size_t count, const void **out) {
  size_t used = 0;
  while (count && !parts->iov_len) parts++, count--;
  *out = count ? parts->iov_base : s->stage;
  if (!count) return 0;
  if (count == 1 || parts->iov_len >= sizeof s->stage)
    return parts->iov_len < sizeof s->stage ? parts->iov_len : sizeof s->stage;
  for (; count && used < sizeof s->stage; parts++, count--) {
    size_t rest = sizeof s->stage - used, step = parts->iov_len < rest ? parts->iov_len : rest;
    if (step) memcpy(s->stage + used, parts->iov_base, step);
    used += step;
  }
  *out = s->stage;
  return used;
}

ssize_t braid_tls_send(braid_tls_stream *s, const struct iovec *parts, size_t count) {
  pthread_mutex_lock(&s->lock);
  ssize_t sent = -1;
  if (s->failed) {
    errno = EPROTO;
  } else {
    const void *from = NULL;
    size_t bytes = s->blocked ? 0 : gather(s, parts, count, &from); /* GnuTLS has the record that was blocked */
    sent = s->blocked || bytes ? judge(s, tls.record_send(s->session, from, bytes)) : 0;
    s->blocked = sent < 0 && !s->failed;
  }
  pthread_mutex_unlock(&s->lock);
  return sent;
}

bool braid_tls_has_pending(braid_tls_stream *s) {
  pthread_mutex_lock(&s->lock);
  bool pending = !s->failed && tls.record_check_pending(s->session) > 0;
  pthread_mutex_unlock(&s->lock);
  return pending;
}

void braid_tls_say_end(braid_tls_stream *s) {
  pthread_mutex_lock(&s->lock);
  if (s->shaken && !s->failed && !s->blocked) (void)tls.bye(s->session, GNUTLS_SHUT_WR);
  pthread_mutex_unlock(&s->lock);
}
