/* How fast UCX's program carries a file on this host, without its sum and without a disk: `bulk_bench [MB [TIMES]]`. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/bulk/bulk.h"

static uint8_t piece[BRAID_BULK_PIECE];

/* Seconds to begin, and to carry; false: it failed, with a sentence. */
static bool carry(const char *program, braid_bulk_senders *senders, int file, uint64_t total, double seconds[2]) {
  braid_bulk_receiver *receiver;
  int64_t began_ns = braid_now_ns();
  if (braid_bulk_receive(program, NULL, &receiver) != BRAID_OK) return false;
  braid_bulk_request request = {.nonce = braid_bulk_receiver_nonce(receiver), .total = total};
  request.address = braid_bulk_receiver_address(receiver, &request.address_bytes);
  seconds[0] = (double)(braid_now_ns() - began_ns) * 1e-9;
  began_ns = braid_now_ns();
  braid_status status = braid_bulk_send(senders, file, &request);
  if (status == BRAID_OK) status = braid_bulk_receiver_expect(receiver, 0, total);
  for (uint64_t bytes = 0; status == BRAID_OK && bytes < total;) {
    size_t count;
    status = braid_bulk_receiver_next(receiver, 10000, piece, &count);
    if (status == BRAID_OK && !count) status = braid_fail(BRAID_TIMEOUT, "nothing comes");
    bytes += count;
  }
  seconds[1] = (double)(braid_now_ns() - began_ns) * 1e-9;
  char detail[BRAID_BULK_DETAIL];
  for (int i = 0; i < 1000 && braid_bulk_sender_state(senders, request.nonce, detail) == BRAID_BULK_GOING; i++)
    usleep(1000);
  braid_bulk_receiver_destroy(receiver);
  braid_bulk_senders_look(senders);
  return status == BRAID_OK;
}

int main(int argc, char **argv) {
  static const char *const kTransports[] = {"tcp", "posix,cma", "posix"};
  uint64_t total = (argc > 1 ? strtoull(argv[1], NULL, 10) : 500) * 1000000;
  int times = argc > 2 ? atoi(argv[2]) : 5, file = memfd_create("bench", MFD_CLOEXEC);
  char program[BRAID_BULK_PATH];
  if (!getenv("BRAID_UCX")) setenv("BRAID_UCX", "build/braid-ucx", 1);
  braid_bulk_senders *senders = NULL;
  bool good = total && file >= 0 && braid_bulk_find(program) == BRAID_OK &&
              braid_bulk_senders_create(program, &senders) == BRAID_OK;
  for (uint64_t at = 0; good && at < total; at += sizeof piece) {
    size_t count = total - at < sizeof piece ? (size_t)(total - at) : sizeof piece;
    good = write(file, piece, count) == (ssize_t)count;
  }
  for (size_t i = 0; good && i < sizeof kTransports / sizeof *kTransports; i++) {
    setenv("UCX_TLS", kTransports[i], 1);
    printf("UCX_TLS=%s, MiB/s (seconds to an address):", kTransports[i]);
    for (int k = 0; good && k < times; k++) {
      double seconds[2];
      good = carry(program, senders, file, total, seconds);
      if (good) printf(" %.0f (%.3f)", (double)total / seconds[1] / (1 << 20), seconds[0]);
    }
    printf("\n");
  }
  braid_bulk_senders_destroy(senders);
  if (!good) fprintf(stderr, "%s\n", braid_error_detail());
  return good ? 0 : 1;
}
