/* Files by UCX between two of its programs, as two daemons would have it: of all sizes, over TCP and shared memory, with
 * either side lost in the middle, with senders that announce other than they should, and with programs and strangers
 * that talk nonsense. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "folder.h"
#include "serve/bulk/bulk_process.h"
#include "skip.h"

enum { MIB = 1 << 20, WAIT_MS = 20000 };

static char program[BRAID_BULK_PATH];
static uint8_t piece[BRAID_BULK_PIECE];

/* --- one file ------------------------------------------------------------------------------------------------------
 */
static uint8_t byte_at(uint64_t offset) {
  return (uint8_t)(offset * 31 + (offset >> 13) * 7 + 5);
}

static int make_file(uint64_t bytes) {
  char path[128];
  snprintf(path, sizeof path, "%s/file", folder);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  for (uint64_t at = 0; at < bytes;) {
    size_t count = bytes - at < sizeof piece ? (size_t)(bytes - at) : sizeof piece;
    for (size_t i = 0; i < count; i++) piece[i] = byte_at(at + i);
    assert_int_equal(write(file, piece, count), count);
    at += count;
  }
  return file;
}

static braid_bulk_receiver *start_receiver(void) {
  braid_bulk_receiver *receiver;
  if (braid_bulk_receive(program, NULL, &receiver) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return receiver;
}

static braid_bulk_request request_of(const braid_bulk_receiver *receiver, uint64_t offset, uint64_t total) {
  braid_bulk_request request = {.nonce = braid_bulk_receiver_nonce(receiver), .offset = offset, .total = total};
  request.address = braid_bulk_receiver_address(receiver, &request.address_bytes);
  return request;
}

static void send_file(braid_bulk_senders *senders, int file, const braid_bulk_request *request) {
  if (braid_bulk_send(senders, file, request) != BRAID_OK) fail_msg("%s", braid_error_detail());
}

/* What comes until all is there or something is wrong. *out_bytes: that came, and were right. */
static braid_status take_all(braid_bulk_receiver *receiver, uint64_t offset, uint64_t total, uint64_t *out_bytes) {
  int64_t until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
  *out_bytes = 0;
  while (offset + *out_bytes < total) {
    size_t count;
    braid_status status = braid_bulk_receiver_next(receiver, 100, piece, &count);
    if (status != BRAID_OK) return status;
    for (size_t i = 0; i < count; i++)
      if (piece[i] != byte_at(offset + *out_bytes + i)) fail_msg("byte %zu of piece at %llu", i, (unsigned long long)*out_bytes);
    *out_bytes += count;
    if (count) until = braid_now_ns() + WAIT_MS * INT64_C(1000000);
    if (braid_now_ns() > until) return braid_fail(BRAID_TIMEOUT, "nothing came");
  }
  return BRAID_OK;
}

static braid_bulk_state await_state(braid_bulk_senders *senders, const uint8_t *nonce, char *detail) {
  braid_bulk_state state;
  for (int i = 0; (state = braid_bulk_sender_state(senders, nonce, detail)) == BRAID_BULK_GOING && i < WAIT_MS; i++)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  return state;
}

static void carry(uint64_t offset, uint64_t total) {
  braid_bulk_senders *senders;
  char detail[BRAID_BULK_DETAIL];
  uint64_t bytes;
  int file = make_file(total);
  braid_bulk_receiver *receiver = start_receiver();
  assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
  braid_bulk_request request = request_of(receiver, offset, total);
  send_file(senders, file, &request);
  assert_int_equal(braid_bulk_receiver_expect(receiver, offset, total), BRAID_OK);
  if (take_all(receiver, offset, total, &bytes) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(bytes, total - offset);
  braid_bulk_state state = await_state(senders, request.nonce, detail);
  if (state != BRAID_BULK_DONE) fail_msg("the sender: state %d, %s", state, detail);
  braid_bulk_receiver_destroy(receiver);
  braid_bulk_senders_look(senders);
  braid_bulk_senders_destroy(senders);
  close(file);
}

static void carry_sizes(void) {
  carry(0, 1);
  carry(5, 6);
  carry(0, BRAID_BULK_PIECE);
  carry(7, BRAID_BULK_PIECE + 8);
  carry(262144, 3 * BRAID_BULK_PIECE - 1);
  carry(0, UINT64_C(40) * MIB + 12345);
}

static void test_sizes(void **state) {
  (void)state;
  carry_sizes();
}

static void test_tcp(void **state) {
  (void)state;
  setenv("UCX_TLS", "tcp", 1);
  carry_sizes();
  carry(0, UINT64_C(300) * MIB + 1);
  unsetenv("UCX_TLS");
}

static void test_shared_memory(void **state) {
  (void)state;
  setenv("UCX_TLS", "posix,self,tcp", 1);
  carry_sizes();
  carry(0, UINT64_C(300) * MIB + 1);
  unsetenv("UCX_TLS");
}

static int set_up(void **state) {
  const char *given = BRAID_UCX_PROGRAM;
  snprintf(program, sizeof program, "%s", given);
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes), cmocka_unit_test(test_tcp), cmocka_unit_test(test_shared_memory),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
