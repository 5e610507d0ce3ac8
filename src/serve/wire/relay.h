/* TLS for the daemon's end of Braid's protocol: two threads stand between connections from the network and the thread
 * that serves them, which sees the other end of a socketpair with the plain bytes. One does handshakes, whose
 * arithmetic holds nobody up but other handshakes; one carries what comes after.
 *
 * Limits are those of who has the plain end: closing it ends the connection, whatever state TLS is in, so connections
 * count, and those that say nothing are late, as all others. The relay itself cuts off who stops within a record. */
#ifndef BRAID_SERVE_WIRE_RELAY_H
#define BRAID_SERVE_WIRE_RELAY_H

#include "braid/status.h"
#include "tls/tls.h"

typedef struct braid_tls_relay braid_tls_relay;

/* TLS by these files, which are read now. INVALID_FILE: which is wrong; UNSUPPORTED: built without GnuTLS. receive_ns:
 * in which a record has to arrive whole. */
BRAID_MUST_CHECK braid_status braid_tls_relay_create(const braid_tls_files *files, int64_t receive_ns,
                                                     braid_tls_relay **out);
/* Takes a connected socket that does not block; *out_plain, the caller's, does not block either. On failure the socket
 * stays the caller's. Any thread. */
BRAID_MUST_CHECK braid_status braid_tls_relay_adopt(braid_tls_relay *relay, int network, int *out_plain);
/* After the plain ends are closed: what was written to them goes out, if that takes no more than a second. NULL is
 * allowed. */
void braid_tls_relay_destroy(braid_tls_relay *relay);

#endif
