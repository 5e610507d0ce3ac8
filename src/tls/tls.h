/* TLS 1.2 and 1.3 for Braid's own protocol: a socket that is connected becomes a stream, whose functions take the place
 * of recv and send. It never blocks. The other side is always verified, by its certificate: there is no option not to.
 *
 * GnuTLS does the work, and is loaded when the first context is made, so that programs which speak no TLS neither load
 * nor need it. This room stands on libc alone: libbraid-client has it, remote devices have it, and the daemon has it
 * (serve/wire/relay.h). */
#ifndef BRAID_TLS_TLS_H
#define BRAID_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
  BRAID_TLS_WHY = 512,     /* bytes of a sentence */
  BRAID_TLS_RECORD = 16384 /* of what a record carries at most: who receives with so much room leaves nothing pending */
};

typedef struct braid_tls_context braid_tls_context;
typedef struct braid_tls_stream braid_tls_stream;

typedef enum braid_tls_result {
  BRAID_TLS_DONE,
  BRAID_TLS_READ,  /* when the socket can be read it goes on, */
  BRAID_TLS_WRITE, /* when it can be written */
  BRAID_TLS_FAILED,
  BRAID_TLS_TIMEOUT
} braid_tls_result;

/* PEM files. */
typedef struct braid_tls_files {
  const char *authority; /* who signs for the other side. NULL: of a client, the system's authorities; of a server,
                            clients show no certificate */
  const char *certificate, *key; /* our own, both or none; a server has them */
} braid_tls_files;

/* Reads the files, which are not needed afterwards. False: `why` (of TLS_WHY bytes) says which is wrong, or that there
 * is no GnuTLS. */
bool braid_tls_context_create(bool server, const braid_tls_files *files, braid_tls_context **out, char *why);
void braid_tls_context_destroy(braid_tls_context *context); /* after its streams. NULL is allowed */

/* A stream over a connected socket, which stays the caller's and outlives it. `host`: of a client, whom the certificate
 * has to name, a name or a numeric address; NULL of a server. */
bool braid_tls_stream_create(const braid_tls_context *context, int file, const char *host, braid_tls_stream **out,
                             char *why);
/* A client's stream, with a context of its own and the handshake done. FAILED, TIMEOUT: `why` is the sentence. FAILED
 * too within 50 ms of *stop (atomic; NULL: never) being other than 0. */
braid_tls_result braid_tls_open(const braid_tls_files *files, int file, const char *host, int64_t timeout_ms,
                                const int *stop, braid_tls_stream **out, char *why);
void braid_tls_destroy(braid_tls_stream *stream); /* says nothing to the other side. NULL is allowed */

/* Goes on with the handshake as far as the socket lets it. FAILED: braid_tls_why() says why, and the other side is told
 * by an alert. By one thread; what follows may be called by one that sends and one that receives at a time. */
braid_tls_result braid_tls_handshake(braid_tls_stream *stream);
/* As recv with MSG_DONTWAIT. 0: the other side has said that it sends nothing more. A socket that ends without that is
 * a failure, as a record that was changed is: -1, where errno is not EAGAIN, and braid_tls_why(). */
ssize_t braid_tls_receive(braid_tls_stream *stream, void *to, size_t bytes);
/* Sends up to a record of the parts; returns how many bytes. As sendmsg with MSG_DONTWAIT, but that after EAGAIN the
 * same bytes have to be sent next. */
ssize_t braid_tls_send(braid_tls_stream *stream, const struct iovec *parts, size_t count);
/* Whether there is something to receive that poll() does not see, since it has left the socket. */
bool braid_tls_has_pending(braid_tls_stream *stream);
/* Says that nothing more is sent, if the socket takes that at once. */
void braid_tls_say_end(braid_tls_stream *stream);

/* Why the last function that failed did; "" before. */
const char *braid_tls_why(const braid_tls_stream *stream);
/* Whether the other side's first bytes were Braid's protocol without TLS. */
bool braid_tls_is_plain(const braid_tls_stream *stream);
/* When the record began that has come in part (CLOCK_MONOTONIC); 0: none has. Of the thread that receives. */
int64_t braid_tls_record_began_ms(const braid_tls_stream *stream);

#endif
