/* The connection to a daemon's device: one message out and one answer in at a time, whichever thread asks. A daemon
 * that is silent for too long, says what is no message, or ends the connection is lost; everything fails from then on.
 */
#ifndef BRAID_BACKEND_REMOTE_CHANNEL_H
#define BRAID_BACKEND_REMOTE_CHANNEL_H

#include <pthread.h>
#include <sys/uio.h>

#include "backend/remote/options.h"
#include "backend/remote/remote_format.h"
#include "tls/tls.h"

typedef struct remote_channel {
  int file;              /* -1: none */
  braid_tls_stream *tls; /* over the file; NULL: none */
  char address[256];
  int64_t silence_ns; /* how long the daemon may say nothing */
  pthread_mutex_t lock;
  uint32_t lost; /* atomic */
  char why[512]; /* it is lost; written before `lost` */
  braid_wire_writer writer;
  uint64_t id;
  uint8_t *body; /* of the last answer */
  size_t room;
  uint64_t messages, bytes_sent, bytes_received; /* with the lock */
} remote_channel;

void remote_channel_init(remote_channel *channel);
void remote_channel_deinit(remote_channel *channel);
/* Connects to one of the hosts of the options, says hello, and asks for the device, which is described in *out. IO:
 * nobody answers there; UNSUPPORTED, NOT_FOUND, INVALID_ARGUMENT: what the daemon refuses, in its words. */
BRAID_MUST_CHECK braid_status remote_channel_open(remote_channel *channel, const char *address,
                                                  const remote_options *options, braid_remote_device *out);

/* Takes the lock and begins a message; the fields follow, then one of the next three gives the lock back. */
braid_wire_writer *remote_begin(remote_channel *channel, unsigned kind);
/* Sends it, with `parts` behind the fields, and waits for the answer, whose body has at most `most` bytes behind its
 * status; *reader stands there, until remote_end. The status is the daemon's, or DEVICE_LOST. `verdict` (NULL: none):
 * when it is cancelled, the daemon is told. The lock is kept, whatever happens: remote_end gives it back. */
BRAID_MUST_CHECK braid_status remote_ask(remote_channel *channel, const struct iovec *parts, size_t count,
                                         uint64_t most, const braid_verdict *verdict, braid_wire_reader *reader);
void remote_end(remote_channel *channel);
/* Sends it as a message that is not answered. What goes wrong is seen by the next one that is. */
void remote_post(remote_channel *channel);
/* Gives the lock back without sending anything. */
void remote_drop(remote_channel *channel);

/* DEVICE_LOST, with the reason, if it is lost. */
braid_status remote_channel_check(const remote_channel *channel);
/* What the daemon said makes no sense: it is lost. Returns DEVICE_LOST. */
braid_status remote_channel_break(remote_channel *channel, const char *why);

#endif
