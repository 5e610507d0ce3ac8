/* Private to etcd*.c: endpoints and their channels, and messages between protobuf-c and gRPC. */
#ifndef BRAID_SERVE_CLUSTER_ETCD_CHANNEL_H
#define BRAID_SERVE_CLUSTER_ETCD_CHANNEL_H

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include "etcd.pb-c.h"
#include "serve/cluster/etcd.h"

struct braid_etcd {
  char *endpoints[BRAID_ETCD_ENDPOINTS];
  grpc_channel *channels[BRAID_ETCD_ENDPOINTS];
  size_t count, current;
  uint64_t changes; /* how often `current` has changed */
  int64_t call_ms, attempt_ms;
};

/* Asks the next endpoint from now on. */
void braid_etcd_turn(braid_etcd *etcd);
/* A message as gRPC takes it; NULL: no memory. */
grpc_byte_buffer *braid_etcd_pack(const ProtobufCMessage *message);
/* The message of a buffer, which it takes; NULL: it is none, or too large. */
ProtobufCMessage *braid_etcd_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *buffer);
gpr_timespec braid_etcd_deadline(int64_t ms);
/* A prefix's first and last key, as ranges and watches name them: [prefix, end). The end is to be freed. */
char *braid_etcd_prefix_end(const char *prefix);
void braid_etcd_key_take(const Etcd__KeyValue *from, bool deleted, braid_etcd_key *out);

#endif
