/* Trainings beside: a connection whose client computes while the daemon's devices are idle (serve/harvest.h). */
#include <sys/socket.h>

#include "serve/wire/wire.h"

/* The process at the other end, as the kernel says; 0: unknown. */
static pid_t peer_of(wire_connection *c) {
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  pthread_mutex_lock(&c->lock);
  bool known = c->file >= 0 && getsockopt(c->file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  pthread_mutex_unlock(&c->lock);
  return known ? peer.pid : 0;
}

void braid_wire_harvest_end(wire_connection *c) {
  if (!c->gate) return;
  braid_serve_harvest_remove(c->wire->server->harvest, &c->harvester);
  braid_wire_memory_release(c->gate);
  c->gate = NULL;
}

void braid_wire_harvest_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  uint32_t number = (uint32_t)braid_wire_get_number(&reader, 4);
  const char *wrong = braid_wire_finish(&reader);
  wire_memory *memory = wrong ? NULL : braid_wire_memory_find(c, number);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "harvest: %s", wrong);
  } else if (!number) {
    braid_wire_harvest_end(c);
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  } else if (!c->tenant->config->train) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FORBIDDEN,
                             "tenant %s may not train beside the daemon; its `train` in the configuration says so",
                             c->tenant->config->name);
  } else if (c->gate) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "the connection trains already");
  } else if (!memory) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "the connection has no memory %u", number);
  } else if (!memory->writable || memory->bytes < sizeof(braid_wire_gate)) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID,
                             "memory %u: a gate takes %zu bytes that the daemon may write", number,
                             sizeof(braid_wire_gate));
  } else {
    braid_wire_memory_retain(memory);
    c->gate = memory;
    c->harvester = (braid_serve_harvester){.gate = (void *)memory->data, .tenant = c->tenant, .pid = peer_of(c)};
    braid_serve_harvest_add(c->wire->server->harvest, &c->harvester);
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  }
}
