/* Training beside the daemon: a gate in shared memory that the daemon opens and closes. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/channel.h"

enum { GATE_BYTES = 4096, SLICE_MS = 100, END_MS = 500 };

struct braid_client_harvest {
  braid_client *client;
  braid_client_memory *memory;
  braid_wire_gate *gate;
  pthread_mutex_t lock;
  int working; /* threads that have passed the gate and not come to it again */
};

/* The harvest whose gate this thread has passed. */
static _Thread_local const braid_client_harvest *passed;

static braid_client_status harvest_ask(braid_client *client, uint32_t memory, int64_t wait_ms) {
  client_ticket ticket;
  braid_wire_put_number(client_begin(client, BRAID_WIRE_HARVEST, &ticket), memory, 4);
  return client_finish_within(client, &ticket, wait_ms);
}

braid_client_status braid_client_harvest_begin(braid_client *client, braid_client_harvest **out) {
  *out = NULL;
  braid_client_harvest *harvest = calloc(1, sizeof *harvest);
  if (!harvest) return client_fail(BRAID_CLIENT_NO_MEMORY, "no memory to train beside");
  harvest->client = client;
  pthread_mutex_init(&harvest->lock, NULL);
  braid_client_status status = braid_client_memory_create(client, GATE_BYTES, &harvest->memory);
  if (status == BRAID_CLIENT_OK) {
    harvest->gate = braid_client_memory_data(harvest->memory);
    status = harvest_ask(client, client_memory_number(harvest->memory), client->call_ms);
  }
  if (status == BRAID_CLIENT_OK) {
    *out = harvest;
    return status;
  }
  braid_client_memory_destroy(harvest->memory);
  pthread_mutex_destroy(&harvest->lock);
  free(harvest);
  return status;
}

void braid_client_harvest_end(braid_client_harvest *harvest) {
  if (!harvest) return;
  /* a connection that is lost harvests nothing; a daemon that hangs finds out later */
  bool answers = harvest_ask(harvest->client, 0, END_MS) == BRAID_CLIENT_OK;
  client_memory_end(harvest->memory, answers ? END_MS : 0);
  pthread_mutex_destroy(&harvest->lock);
  free(harvest);
}

static void gate_sleep(uint32_t *word, int64_t ms) {
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)syscall(SYS_futex, word, FUTEX_WAIT, 0, &time, NULL, 0); /* between processes */
}

bool braid_client_is_connected(braid_client *client) {
  struct pollfd poller = {.fd = client->file, .events = POLLIN | POLLRDHUP};
  pthread_mutex_lock(&client->lock);
  bool broken = client->broken != BRAID_CLIENT_OK;
  pthread_mutex_unlock(&client->lock);
  return !broken && (poll(&poller, 1, 0) <= 0 || !(poller.revents & (POLLRDHUP | POLLHUP | POLLERR)));
}

braid_client_status braid_client_ping(braid_client *client, int64_t timeout_ms) {
  client_ticket ticket;
  braid_wire_put_text(client_begin(client, BRAID_WIRE_DROP, &ticket), ""); /* no buffer has this name */
  braid_client_status status = client_send(client, &ticket, NULL, 0, -1);
  if (status == BRAID_CLIENT_OK) status = client_await(client, &ticket, client_deadline(timeout_ms));
  client_abandon(client, &ticket);
  return status;
}

/* `works` before `open`, as the daemon writes `open` before it reads `works`: one of the two sees the other. */
static bool gate_pass(braid_client_harvest *harvest) {
  braid_wire_gate *gate = harvest->gate;
  pthread_mutex_lock(&harvest->lock);
  harvest->working += passed != harvest;
  __atomic_store_n(&gate->works, 1, __ATOMIC_SEQ_CST);
  bool open = __atomic_load_n(&gate->open, __ATOMIC_SEQ_CST);
  passed = open ? harvest : NULL;
  if (!open && !--harvest->working) __atomic_store_n(&gate->works, 0, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&harvest->lock);
  return open;
}

braid_client_status braid_client_harvest_wait(braid_client_harvest *harvest, int64_t timeout_ms) {
  int64_t deadline = client_deadline(timeout_ms);
  while (!gate_pass(harvest)) {
    if (!braid_client_is_connected(harvest->client))
      return client_fail(BRAID_CLIENT_LOST, "the daemon has closed the connection");
    int64_t left = deadline < 0 ? SLICE_MS : deadline - client_now_ms();
    if (left <= 0) return client_fail(BRAID_CLIENT_TIMEOUT, "the daemon's devices were not idle");
    gate_sleep(&harvest->gate->open, left < SLICE_MS ? left : SLICE_MS);
  }
  return BRAID_CLIENT_OK;
}
