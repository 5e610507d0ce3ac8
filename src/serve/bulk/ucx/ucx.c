#include "serve/bulk/ucx/ucx.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kPollMs = 100, kIdleMs = 10000, kLastMs = 1000 };

void ucx_fail(ucx_program *p, const char *format, ...) {
  va_list arguments;
  if (p->wrong[0]) return;
  va_start(arguments, format);
  vsnprintf(p->wrong, sizeof p->wrong, format, arguments);
  va_end(arguments);
}

bool ucx_tell(braid_bulk_kind kind, uint64_t number, const void *text, size_t text_bytes) {
  static braid_bulk_message message;
  message = (braid_bulk_message){.version = BRAID_BULK_VERSION, .kind = kind, .number = number};
  if (text_bytes > sizeof message.text) text_bytes = sizeof message.text;
  message.text_bytes = (uint32_t)text_bytes;
  if (text_bytes) memcpy(message.text, text, text_bytes);
  return send(BRAID_BULK_LINE, &message, braid_bulk_message_bytes(text_bytes), MSG_NOSIGNAL) >= 0;
}

void ucx_slot_begin(ucx_slot *slot, ucs_status_ptr_t request) {
  slot->request = UCS_PTR_IS_PTR(request) ? request : NULL;
  if (slot->request) return; /* its callback says when it is done */
  slot->done = true;
  slot->status = UCS_PTR_STATUS(request);
}

ucs_status_t ucx_slot_end(ucx_slot *slot) {
  if (slot->request) ucp_request_free(slot->request);
  slot->request = NULL;
  slot->done = false;
  return slot->status;
}

/* --- the line ------------------------------------------------------------------------------------------------------
 */
/* 1: a message; 0: there is none now; -1: the daemon is not there any more, or says nothing that is known here. */
static int hear(braid_bulk_message *out, int flags) {
  ssize_t count = recv(BRAID_BULK_LINE, out, sizeof *out, flags);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  size_t bytes = count > 0 ? (size_t)count : 0;
  bool good = bytes >= braid_bulk_message_bytes(0) && out->version == BRAID_BULK_VERSION &&
              bytes == braid_bulk_message_bytes(out->text_bytes);
  return good ? 1 : -1;
}

/* --- UCX -----------------------------------------------------------------------------------------------------------
 */
static bool open_ucx(ucx_program *p, int *out_event) {
  ucp_config_t *config;
  ucs_status_t status = ucp_config_read(NULL, NULL, &config);
  if (status == UCS_OK) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    status = ucp_init(&params, config, &p->context);
    ucp_config_release(config);
  }
  if (status == UCS_OK) {
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    status = ucp_worker_create(p->context, &params, &p->worker);
  }
  if (status == UCS_OK) status = ucp_worker_get_efd(p->worker, out_event);
  if (status != UCS_OK) ucx_fail(p, "UCX cannot be used here: %s", ucs_status_string(status));
  return status == UCS_OK;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Sleeps until UCX or the daemon has something. */
static void await(const ucx_program *p, int event) {
  if (ucp_worker_arm(p->worker) != UCS_OK) return; /* there is something already */
  struct pollfd files[] = {{.fd = event, .events = POLLIN}, {.fd = BRAID_BULK_LINE, .events = POLLIN}};
  (void)poll(files, 2, kPollMs);
}

/* Until it is over; false: the daemon is not there any more. A receiver that has all stays until the daemon lets it go,
 * which knows when the sender has heard of it. */
static bool carry(ucx_program *p, int event) {
  bool sends = p->job.kind == BRAID_BULK_SEND;
  uint64_t ended = 0;
  int64_t moved_ms = now_ms();
  while (!p->over && !p->wrong[0]) {
    braid_bulk_message message;
    while (ucp_worker_progress(p->worker)) continue;
    int heard = hear(&message, MSG_DONTWAIT);
    if (heard < 0) return p->whole;
    if (heard && !sends) ucx_receive_message(p, &message);
    if (sends)
      ucx_send_step(p);
    else
      ucx_receive_step(p);
    if (p->ended != ended) moved_ms = now_ms();
    ended = p->ended;
    if (sends && now_ms() - moved_ms > kIdleMs)
      ucx_fail(p, "nothing has been taken for %d s, at piece %llu", kIdleMs / 1000, (unsigned long long)ended);
    if (!heard && !p->over && !p->wrong[0]) await(p, event);
  }
  return true;
}

/* What UCX still has to say to the other side, for a while. */
static void finish(const ucx_program *p) {
  ucp_request_param_t none = {0};
  ucs_status_ptr_t request =
      p->endpoint ? ucp_ep_close_nbx(p->endpoint, &none) : ucp_worker_flush_nbx(p->worker, &none);
  int64_t until = now_ms() + kLastMs;
  while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS && now_ms() < until)
    if (!ucp_worker_progress(p->worker)) (void)poll(NULL, 0, 1);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static bool make_room(ucx_program *p) {
  size_t bytes = (size_t)BRAID_BULK_SLOTS * BRAID_BULK_PIECE;
  bool sends = p->job.kind == BRAID_BULK_SEND;
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, sends ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
                    sends ? -1 : BRAID_BULK_DATA, 0);
  if (data == MAP_FAILED) ucx_fail(p, "no memory for pieces: %s", strerror(errno));
  for (size_t i = 0; i < BRAID_BULK_SLOTS && data != MAP_FAILED; i++)
    p->slots[i].data = (uint8_t *)data + i * BRAID_BULK_PIECE;
  return data != MAP_FAILED;
}

static bool is_line(void) {
  int type;
  socklen_t bytes = sizeof type;
  return getsockopt(BRAID_BULK_LINE, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char **argv) {
  static ucx_program program;
  ucx_program *p = &program;
  (void)argv;
  if (argc > 1 || !is_line()) {
    fputs("braid-ucx is started by braid-serve, to carry files by UCX (docs/cluster.md)\n", stderr);
    return 2;
  }
  (void)close_range(BRAID_BULK_DATA + 1, ~0U, 0);
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  if (hear(&p->job, 0) != 1) return 0;
  int event = -1;
  if (make_room(p) && open_ucx(p, &event)) {
    if (p->job.kind == BRAID_BULK_SEND)
      ucx_send_begin(p);
    else
      ucx_receive_begin(p);
    if (!carry(p, event)) _exit(0); /* whatever is under way is nobody's any more */
  }
  if (p->wrong[0]) {
    (void)ucx_tell(BRAID_BULK_FAILED, 0, p->wrong, strlen(p->wrong));
    while (hear(&p->job, 0) == 1) continue;
    _exit(1);
  }
  finish(p);
  if (p->job.kind == BRAID_BULK_SEND) (void)ucx_tell(BRAID_BULK_SENT, 0, NULL, 0);
  ucp_worker_destroy(p->worker);
  ucp_cleanup(p->context);
  /* What the daemon has said and nobody has read would cost it our last words (ECONNRESET). */
  while (hear(&p->job, 0) == 1) continue;
  return 0;
}
