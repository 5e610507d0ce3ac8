/* Files that come: the program puts pieces into memory that it shares with us, from which they are copied out before
 * anything is made of them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/allocator.h"
#include "serve/bulk/bulk_process.h"

enum { READY_MS = 5000, LOOK_MS = 50, PATIENCE_MS = 1500 };

struct braid_bulk_receiver {
  bulk_process process;
  uint8_t *data; /* the slots, shared with the program */
  uint8_t nonce[BRAID_BULK_NONCE];
  size_t address_bytes;
  uint64_t offset, total, came; /* came: pieces */
  braid_bulk_message message;   /* the last one of the program */
  uint8_t address[BRAID_BULK_ADDRESS];
};

static size_t slots_bytes(void) {
  return (size_t)BRAID_BULK_SLOTS * BRAID_BULK_PIECE;
}

/* What the program says instead of what it should. */
static braid_status say_wrong(const braid_bulk_receiver *receiver, int heard) {
  char detail[BRAID_BULK_DETAIL];
  if (heard < 0) return braid_fail(BRAID_IO, "braid-ucx has ended");
  if (receiver->message.kind != BRAID_BULK_FAILED)
    return braid_fail(BRAID_IO, "braid-ucx says what makes no sense here (message %u, piece %llu)",
                      receiver->message.kind, (unsigned long long)receiver->message.number);
  bulk_sentence(&receiver->message, detail);
  return braid_fail(BRAID_IO, "UCX: %s", detail);
}

static braid_status await_address(braid_bulk_receiver *receiver, const int *stop) {
  int64_t until = braid_now_ns() + READY_MS * INT64_C(1000000);
  int heard = 0;
  while (!heard) {
    if (stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE)) return braid_fail(BRAID_CANCELLED, "the daemon stops");
    if (braid_now_ns() > until) return braid_fail(BRAID_IO, "braid-ucx has no address after %d s", READY_MS / 1000);
    heard = bulk_process_hear(&receiver->process, LOOK_MS, &receiver->message);
  }
  if (heard < 0 || receiver->message.kind != BRAID_BULK_READY || !receiver->message.text_bytes)
    return say_wrong(receiver, heard);
  receiver->address_bytes = receiver->message.text_bytes;
  memcpy(receiver->address, receiver->message.text, receiver->address_bytes);
  return BRAID_OK;
}

/* Sealed, so that the program cannot make it shorter under us. */
static braid_status start_receiver(braid_bulk_receiver *receiver, const char *program) {
  int file = memfd_create("braid-bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || ftruncate(file, (off_t)slots_bytes()) != 0 ||
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int reason = errno;
    if (file >= 0) close(file);
    return braid_fail(BRAID_IO, "no memory for pieces: %s", strerror(reason));
  }
  receiver->data = mmap(NULL, slots_bytes(), PROT_READ, MAP_SHARED, file, 0);
  if (receiver->data == MAP_FAILED) receiver->data = NULL;
  braid_status status =
      receiver->data ? bulk_process_start(program, file, &receiver->process) : braid_fail(BRAID_NO_MEMORY, "no memory");
  close(file);
  return status;
}

braid_status braid_bulk_receive(const char *program, const int *stop, braid_bulk_receiver **out) {
  *out = NULL;
  braid_bulk_receiver *receiver = braid_zalloc(NULL, sizeof *receiver);
  if (!receiver) return BRAID_NO_MEMORY;
  receiver->process.line = -1;
  braid_status status = getrandom(receiver->nonce, sizeof receiver->nonce, 0) == sizeof receiver->nonce
                            ? start_receiver(receiver, program)
                            : braid_fail(BRAID_IO, "the system has no random bytes");
  if (status == BRAID_OK) {
    receiver->message = (braid_bulk_message){.version = BRAID_BULK_VERSION, .kind = BRAID_BULK_RECEIVE};
    memcpy(receiver->message.nonce, receiver->nonce, sizeof receiver->nonce);
    (void)bulk_process_tell(&receiver->process, &receiver->message); /* one that has ended is found out below */
    status = await_address(receiver, stop);
  }
  if (status == BRAID_OK)
    *out = receiver;
  else
    braid_bulk_receiver_destroy(receiver);
  return status;
}

const uint8_t *braid_bulk_receiver_address(const braid_bulk_receiver *receiver, size_t *out_bytes) {
  *out_bytes = receiver->address_bytes;
  return receiver->address;
}

const uint8_t *braid_bulk_receiver_nonce(const braid_bulk_receiver *receiver) {
  return receiver->nonce;
}

static braid_status tell(braid_bulk_receiver *receiver, braid_bulk_kind kind, uint64_t number) {
  braid_bulk_message *message = &receiver->message;
  *message = (braid_bulk_message){.version = BRAID_BULK_VERSION,
                                  .kind = kind,
                                  .number = number,
                                  .offset = receiver->offset,
                                  .total = receiver->total};
  return bulk_process_tell(&receiver->process, message) ? BRAID_OK : braid_fail(BRAID_IO, "braid-ucx does not listen");
}

braid_status braid_bulk_receiver_expect(braid_bulk_receiver *receiver, uint64_t offset, uint64_t total) {
  if (offset > total || total > INT64_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "no bytes from %llu to %llu", (unsigned long long)offset,
                      (unsigned long long)total);
  receiver->offset = offset;
  receiver->total = total;
  return tell(receiver, BRAID_BULK_EXPECT, 0);
}

braid_status braid_bulk_receiver_next(braid_bulk_receiver *receiver, int timeout_ms, void *to, size_t *out_bytes) {
  uint64_t number = receiver->came;
  *out_bytes = 0;
  if (number == braid_bulk_pieces(receiver->offset, receiver->total))
    return braid_fail(BRAID_INVALID_ARGUMENT, "all of the file has come");
  int heard = bulk_process_hear(&receiver->process, timeout_ms, &receiver->message);
  if (!heard) return BRAID_OK;
  if (heard < 0 || receiver->message.kind != BRAID_BULK_CAME || receiver->message.number != number)
    return say_wrong(receiver, heard);
  size_t bytes = braid_bulk_piece_bytes(receiver->offset, receiver->total, number);
  memcpy(to, receiver->data + (size_t)(number % BRAID_BULK_SLOTS) * BRAID_BULK_PIECE, bytes);
  receiver->came++;
  *out_bytes = bytes;
  /* After the last one the program ends by itself. */
  bool last = receiver->came == braid_bulk_pieces(receiver->offset, receiver->total);
  return last ? BRAID_OK : tell(receiver, BRAID_BULK_FREE, number);
}

void braid_bulk_receiver_destroy(braid_bulk_receiver *receiver) {
  if (!receiver) return;
  bool whole = receiver->total && receiver->came == braid_bulk_pieces(receiver->offset, receiver->total);
  bulk_process_end(&receiver->process, whole ? PATIENCE_MS : 0);
  if (receiver->data) (void)munmap(receiver->data, slots_bytes());
  braid_free(NULL, receiver);
}
