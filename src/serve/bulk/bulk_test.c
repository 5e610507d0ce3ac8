/* Files by UCX between two of its programs, as two daemons would have it: of all sizes, over TCP and shared memory,
 * with either side lost in the middle, with senders that announce other than they should, and with programs and
 * strangers that talk nonsense. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "serve/bulk/ucx/ucx.h"
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
      if (piece[i] != byte_at(offset + *out_bytes + i))
        fail_msg("byte %zu of the piece at %llu", i, (unsigned long long)*out_bytes);
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

/* --- loss ----------------------------------------------------------------------------------------------------------
 */
/* The braid-ucx that this process has started, of which there is one; 0: none. Numbers of processes begin again. */
static pid_t pid_of_program(void) {
  pid_t found = 0;
  DIR *all = opendir("/proc");
  assert_non_null(all);
  for (struct dirent *entry; !found && (entry = readdir(all));) {
    char path[300];
    pid_t parent = 0;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    FILE *file = isdigit((unsigned char)entry->d_name[0]) ? fopen(path, "r") : NULL;
    if (!file) continue;
    if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == getpid())
      found = (pid_t)strtol(entry->d_name, NULL, 10);
    fclose(file);
  }
  closedir(all);
  return found;
}

static void test_receiver_lost(void **state) {
  (void)state;
  enum { BYTES = 200 * MIB };
  braid_bulk_senders *senders;
  char detail[BRAID_BULK_DETAIL];
  size_t count;
  int file = make_file(BYTES);
  braid_bulk_receiver *receiver = start_receiver();
  uint8_t nonce[BRAID_BULK_NONCE];
  memcpy(nonce, braid_bulk_receiver_nonce(receiver), sizeof nonce);
  assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
  braid_bulk_request request = request_of(receiver, 0, BYTES);
  send_file(senders, file, &request);
  assert_int_equal(braid_bulk_receiver_expect(receiver, 0, BYTES), BRAID_OK);
  for (int i = 0; i < 10; i++) assert_int_equal(braid_bulk_receiver_next(receiver, 5000, piece, &count), BRAID_OK);
  int64_t began = braid_now_ns();
  braid_bulk_receiver_destroy(receiver); /* does not wait for the rest */
  assert_true(braid_now_ns() - began < INT64_C(500000000));
  assert_int_equal(await_state(senders, nonce, detail), BRAID_BULK_LOST);
  assert_true(detail[0]);
  braid_bulk_senders_destroy(senders);
  close(file);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, nor a zombie */
}

static void test_file_becomes_shorter(void **state) {
  (void)state;
  braid_bulk_senders *senders;
  char detail[BRAID_BULK_DETAIL];
  int file = make_file(3 * MIB);
  braid_bulk_receiver *receiver = start_receiver();
  assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
  braid_bulk_request request = request_of(receiver, 0, 5 * MIB);
  send_file(senders, file, &request);
  assert_int_equal(await_state(senders, request.nonce, detail), BRAID_BULK_LOST);
  assert_non_null(strstr(detail, "shorter than it was"));
  braid_bulk_receiver_destroy(receiver);
  braid_bulk_senders_destroy(senders);
  close(file);
}

static void test_bounds(void **state) {
  (void)state;
  braid_bulk_senders *senders;
  braid_bulk_receiver *receivers[BRAID_BULK_SENDERS + 1], *receiver;
  static uint8_t address[BRAID_BULK_ADDRESS + 1];
  int file = make_file(MIB), stop = 1;
  assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
  for (size_t i = 0; i <= BRAID_BULK_SENDERS; i++) {
    receivers[i] = start_receiver(); /* that expects nothing, so that nobody's file comes to an end */
    braid_bulk_request request = request_of(receivers[i], 0, MIB);
    assert_int_equal(braid_bulk_send(senders, file, &request), i < BRAID_BULK_SENDERS ? BRAID_OK : BRAID_BUSY);
  }
  for (size_t i = 0; i <= BRAID_BULK_SENDERS; i++) braid_bulk_receiver_destroy(receivers[i]);
  braid_bulk_request wrong = {.nonce = address, .address = address, .address_bytes = sizeof address, .total = 1};
  assert_int_equal(braid_bulk_send(senders, file, &wrong), BRAID_INVALID_ARGUMENT);
  wrong.address_bytes = 100;
  wrong.total = UINT64_MAX;
  assert_int_equal(braid_bulk_send(senders, file, &wrong), BRAID_INVALID_ARGUMENT);
  wrong.total = 1, wrong.offset = 2;
  assert_int_equal(braid_bulk_send(senders, file, &wrong), BRAID_INVALID_ARGUMENT);
  braid_bulk_senders_destroy(senders);
  assert_int_equal(braid_bulk_receive(program, &stop, &receiver), BRAID_CANCELLED);
  assert_int_equal(braid_bulk_receive("/nowhere/braid-ucx", NULL, &receiver), BRAID_IO);
  assert_null(receiver);
  close(file);
}

/* --- what the program gets -----------------------------------------------------------------------------------------
 */
static void test_nothing_is_passed_on(void **state) {
  (void)state;
  char path[64], text[65536];
  int file = open("/dev/null", O_RDONLY), high = dup2(file, 50); /* that exec does not close */
  setenv("BRAID_CLUSTER_TOKEN", "a-secret-of-ours", 1);
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=a-secret-of-ours", 1);
  setenv("UCX_HANDLE_ERRORS", "bt,freeze", 1);
  setenv("UCX_NET_DEVICES", "all", 1);
  braid_bulk_receiver *receiver = start_receiver();
  pid_t pid = pid_of_program();
  assert_int_not_equal(pid, 0);
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  FILE *environment = fopen(path, "r");
  assert_non_null(environment);
  size_t bytes = fread(text, 1, sizeof text, environment);
  fclose(environment);
  assert_null(memmem(text, bytes, "a-secret-of-ours", 16));
  assert_null(memmem(text, bytes, "freeze", 6));
  assert_non_null(memmem(text, bytes, "UCX_HANDLE_ERRORS=none", 22));
  assert_non_null(memmem(text, bytes, "UCX_NET_DEVICES=all", 19));
  assert_non_null(memmem(text, bytes, "PATH=", 5));
  snprintf(path, sizeof path, "/proc/%d/fd/50", pid);
  assert_int_equal(access(path, F_OK), -1);
  braid_bulk_receiver_destroy(receiver);
  assert_int_equal(kill(pid, 0), -1);
  unsetenv("BRAID_CLUSTER_TOKEN");
  unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
  unsetenv("UCX_HANDLE_ERRORS");
  unsetenv("UCX_NET_DEVICES");
  close(high);
  close(file);
}

/* --- hostile senders -----------------------------------------------------------------------------------------------
 * Programs of another hand, that speak UCX. */
typedef enum hostility { STRANGER, UNANNOUNCED, TWICE, FAR, LONG, SHORT } hostility;

static void hostile_send(ucp_worker_h worker, ucp_ep_h endpoint, const braid_bulk_head *head, size_t head_bytes,
                         size_t bytes, unsigned flags) {
  static uint8_t data[BRAID_BULK_PIECE + 1];
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
  ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, UCX_AM, head, head_bytes, data, bytes, &param);
  for (int i = 0; i < 200 && UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
    if (!ucp_worker_progress(worker)) (void)poll(NULL, 0, 1);
}

static void hostile_lost(void *context, ucp_ep_h endpoint, ucs_status_t status) {
  (void)context, (void)endpoint, (void)status;
}

static void hostile_main(const braid_bulk_request *to, hostility how) {
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
  ucp_worker_params_t of_worker = {0};
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_ep_h endpoint;
  ucp_ep_params_t of_endpoint = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                               UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                 .address = (const ucp_address_t *)(const void *)to->address,
                                 .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                 .err_handler.cb = hostile_lost};
  if (ucp_init(&params, NULL, &context) != UCS_OK || ucp_worker_create(context, &of_worker, &worker) != UCS_OK ||
      ucp_ep_create(worker, &of_endpoint, &endpoint) != UCS_OK)
    _exit(2);
  static braid_bulk_head head;
  memcpy(head.nonce, to->nonce, sizeof head.nonce);
  switch (how) {
  case STRANGER:
    head.nonce[15] ^= 1;
    for (int i = 0; i < 50; i++) {
      head.number = (uint64_t)i;
      hostile_send(worker, endpoint, &head, sizeof head, 5000, UCP_AM_SEND_FLAG_EAGER);
      hostile_send(worker, endpoint, &head, sizeof head, BRAID_BULK_PIECE, UCP_AM_SEND_FLAG_RNDV);
      hostile_send(worker, endpoint, &head, 3, 9, UCP_AM_SEND_FLAG_EAGER);
      hostile_send(worker, endpoint, NULL, 0, 0, 0);
    }
    break;
  case UNANNOUNCED:
    hostile_send(worker, endpoint, &head, sizeof head, 5000, UCP_AM_SEND_FLAG_EAGER);
    break;
  case TWICE:
    head.number = 3; /* which waits for the pieces before */
    hostile_send(worker, endpoint, &head, sizeof head, BRAID_BULK_PIECE, UCP_AM_SEND_FLAG_RNDV);
    hostile_send(worker, endpoint, &head, sizeof head, BRAID_BULK_PIECE, UCP_AM_SEND_FLAG_RNDV);
    break;
  case FAR:
    head.number = UINT64_MAX;
    hostile_send(worker, endpoint, &head, sizeof head, BRAID_BULK_PIECE, UCP_AM_SEND_FLAG_RNDV);
    break;
  case LONG:
    hostile_send(worker, endpoint, &head, sizeof head, BRAID_BULK_PIECE + 1, UCP_AM_SEND_FLAG_RNDV);
    break;
  case SHORT:
    hostile_send(worker, endpoint, &head, sizeof head, 1, UCP_AM_SEND_FLAG_RNDV);
    break;
  }
  _exit(0);
}

static void start_hostile(const braid_bulk_request *to, hostility how, pid_t *out) {
  *out = fork();
  if (*out == 0) hostile_main(to, how);
  assert_true(*out > 0);
}

static void test_hostile_senders(void **state) {
  (void)state;
  static const struct {
    hostility how;
    const char *says;
  } kCases[] = {{UNANNOUNCED, "that it has not announced"},
                {TWICE, "each once"},
                {FAR, "announces piece 18446744073709551615, where 0 to 15 were expected"},
                {LONG, "announces piece 0 as 1048577 bytes, where 1048576 were expected"},
                {SHORT, "announces piece 0 as 1 bytes"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_bulk_receiver *receiver = start_receiver();
    braid_bulk_request request = request_of(receiver, 0, 10 * MIB);
    uint64_t bytes;
    pid_t pid;
    assert_int_equal(braid_bulk_receiver_expect(receiver, 0, 10 * MIB), BRAID_OK);
    start_hostile(&request, kCases[i].how, &pid);
    assert_int_equal(take_all(receiver, 0, 10 * MIB, &bytes), BRAID_IO);
    if (!strstr(braid_error_detail(), kCases[i].says)) fail_msg("%s", braid_error_detail());
    assert_int_equal(bytes, 0);
    braid_bulk_receiver_destroy(receiver);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
}

/* Whoever does not know the nonce changes nothing. */
static void test_strangers(void **state) {
  (void)state;
  enum { BYTES = 30 * MIB + 5 };
  braid_bulk_senders *senders;
  uint64_t bytes;
  pid_t pid;
  int file = make_file(BYTES);
  braid_bulk_receiver *receiver = start_receiver();
  braid_bulk_request request = request_of(receiver, 0, BYTES);
  start_hostile(&request, STRANGER, &pid);
  nanosleep(&(struct timespec){0, 300000000}, NULL);
  assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
  send_file(senders, file, &request);
  assert_int_equal(braid_bulk_receiver_expect(receiver, 0, BYTES), BRAID_OK);
  if (take_all(receiver, 0, BYTES, &bytes) != BRAID_OK) fail_msg("%s", braid_error_detail());
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  braid_bulk_receiver_destroy(receiver);
  braid_bulk_senders_destroy(senders);
  close(file);
}

/* --- hostile programs ----------------------------------------------------------------------------------------------
 * This program in braid-ucx's place: what it says is checked as what anybody says. */
static int fake_main(const char *how) {
  static braid_bulk_message message;
  braid_bulk_message heard;
  if (strcmp(how, "ends") == 0) return 0;
  if (recv(BRAID_BULK_LINE, &heard, sizeof heard, 0) <= 0) return 1;
  message = (braid_bulk_message){.version = BRAID_BULK_VERSION, .kind = BRAID_BULK_READY, .text_bytes = 10};
  memcpy(message.text, "bad\n\033[1m!", 10);
  size_t bytes = braid_bulk_message_bytes(10);
  if (strcmp(how, "version") == 0) message.version++;
  if (strcmp(how, "kind") == 0) message.kind = 99;
  if (strcmp(how, "early") == 0) message.kind = BRAID_BULK_CAME;
  if (strcmp(how, "length") == 0) message.text_bytes = UINT32_MAX;
  if (strcmp(how, "short") == 0) bytes = 5;
  if (strcmp(how, "nothing") == 0) message.text_bytes = 0, bytes = braid_bulk_message_bytes(0);
  if (strcmp(how, "fails") == 0) message.kind = BRAID_BULK_FAILED;
  (void)!send(BRAID_BULK_LINE, &message, bytes, MSG_NOSIGNAL);
  message.text_bytes = 0;
  message.kind = BRAID_BULK_CAME;
  if (strcmp(how, "order") == 0) message.number = 1;
  if (strcmp(how, "flood") == 0)
    while (send(BRAID_BULK_LINE, &message, braid_bulk_message_bytes(0), MSG_NOSIGNAL) >= 0) message.number++;
  (void)!send(BRAID_BULK_LINE, &message, braid_bulk_message_bytes(0), MSG_NOSIGNAL);
  return recv(BRAID_BULK_LINE, &heard, sizeof heard, 0) < 0;
}

static void test_hostile_programs(void **state) {
  (void)state;
  static const struct {
    const char *how;
    braid_status begins;
    const char *says;
  } kCases[] = {{"ends", BRAID_IO, "has ended"},       {"version", BRAID_IO, "has ended"},
                {"kind", BRAID_IO, "has ended"},       {"early", BRAID_IO, "makes no sense here"},
                {"length", BRAID_IO, "has ended"},     {"short", BRAID_IO, "has ended"},
                {"nothing", BRAID_IO, "no sense"},     {"fails", BRAID_IO, "UCX: bad??[1m!"},
                {"order", BRAID_OK, "makes no sense"}, {"flood", BRAID_OK, NULL}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_bulk_receiver *receiver;
    size_t count = 0;
    setenv("UCX_BULK_FAKE", kCases[i].how, 1);
    braid_status status = braid_bulk_receive("/proc/self/exe", NULL, &receiver);
    if (status != kCases[i].begins) fail_msg("%s: %d, %s", kCases[i].how, status, braid_error_detail());
    if (status == BRAID_OK) {
      assert_int_equal(braid_bulk_receiver_expect(receiver, 0, 20 * MIB), BRAID_OK);
      for (int k = 0; status == BRAID_OK && k < 20; k++)
        status = braid_bulk_receiver_next(receiver, 2000, piece, &count);
      if (kCases[i].says) assert_int_equal(status, BRAID_IO);
      braid_bulk_receiver_destroy(receiver);
    }
    if (kCases[i].says && !strstr(braid_error_detail(), kCases[i].says))
      fail_msg("%s: %s", kCases[i].how, braid_error_detail());
  }
  unsetenv("UCX_BULK_FAKE");
}

/* --- rubbish on its ports ------------------------------------------------------------------------------------------
 */
static bool owns_socket(pid_t pid, unsigned long inode) {
  for (int i = 0; i < 64; i++) {
    char path[64], link[64], wanted[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, i);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length <= 0) continue;
    link[length] = '\0';
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    if (strcmp(link, wanted) == 0) return true;
  }
  return false;
}

/* Sends random bytes to each TCP port that the process listens on; returns how many ports there are. */
static int throw_rubbish(pid_t pid, unsigned seed) {
  char line[512];
  int ports = 0;
  FILE *file = fopen("/proc/net/tcp", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    unsigned port, kind;
    unsigned long inode;
    if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &port, &kind, &inode) != 3) continue;
    if (kind != 10 || !owns_socket(pid, inode)) continue;
    ports++;
    for (int turn = 0; turn < 4; turn++) {
      uint8_t rubbish[4096];
      struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      for (size_t i = 0; i < sizeof rubbish; i++) rubbish[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
      if (connect(handle, (struct sockaddr *)&to, sizeof to) == 0)
        (void)!send(handle, rubbish, sizeof rubbish, MSG_NOSIGNAL);
      close(handle);
    }
  }
  fclose(file);
  return ports;
}

/* It may cost the program its life, or not; the daemon hears of it, and has wrong bytes at no time. */
static void test_rubbish(void **state) {
  (void)state;
  enum { BYTES = 20 * MIB };
  setenv("UCX_TLS", "tcp", 1);
  int file = make_file(BYTES);
  for (unsigned seed = 1; seed <= 5; seed++) {
    braid_bulk_senders *senders;
    uint64_t bytes;
    braid_bulk_receiver *receiver = start_receiver();
    braid_bulk_request request = request_of(receiver, 0, BYTES);
    assert_true(throw_rubbish(pid_of_program(), seed) > 0);
    assert_int_equal(braid_bulk_senders_create(program, &senders), BRAID_OK);
    send_file(senders, file, &request);
    braid_status status = braid_bulk_receiver_expect(receiver, 0, BYTES);
    if (status == BRAID_OK) status = take_all(receiver, 0, BYTES, &bytes);
    if (status != BRAID_OK && status != BRAID_IO) fail_msg("seed %u: %s", seed, braid_error_detail());
    braid_bulk_receiver_destroy(receiver);
    braid_bulk_senders_destroy(senders);
  }
  close(file);
  unsetenv("UCX_TLS");
}

static int set_up(void **state) {
  const char *given = BRAID_UCX_PROGRAM;
  snprintf(program, sizeof program, "%s", given);
  return make_folder(state);
}

int main(int argc, char **argv) {
  const char *fake = argc && strcmp(argv[0], "braid-ucx") == 0 ? getenv("UCX_BULK_FAKE") : NULL;
  if (fake) return fake_main(fake);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_tcp),
      cmocka_unit_test(test_shared_memory),
      cmocka_unit_test(test_receiver_lost),
      cmocka_unit_test(test_file_becomes_shorter),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_nothing_is_passed_on),
      cmocka_unit_test(test_hostile_senders),
      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_hostile_programs),
      cmocka_unit_test(test_rubbish),
  };
  return skip_run_group_tests(tests, set_up, remove_folder);
}
