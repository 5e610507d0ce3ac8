/* Pieces of a file, announced to a receiver that fetches them as it likes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "serve/bulk/ucx/ucx.h"

static void receiver_lost(void *context, ucp_ep_h endpoint, ucs_status_t status) {
  (void)endpoint;
  ucx_fail(context, "the receiver is lost: %s", ucs_status_string(status));
}

static void piece_sent(void *request, ucs_status_t status, void *context) {
  ucx_slot *slot = context;
  (void)request;
  slot->status = status;
  slot->done = true;
}

void ucx_send_begin(ucx_program *p) {
  p->offset = p->job.offset;
  p->total = p->job.total;
  p->count = braid_bulk_pieces(p->offset, p->total);
  ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                          UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                            .address = (const ucp_address_t *)(const void *)p->job.text,
                            .err_mode = UCP_ERR_HANDLING_MODE_NONE,
                            .err_handler = {.cb = receiver_lost, .arg = p}};
  ucs_status_t status = ucp_ep_create(p->worker, &params, &p->endpoint);
  if (status != UCS_OK) ucx_fail(p, "the receiver cannot be reached: %s", ucs_status_string(status));
}

/* The file may have become shorter. */
static bool read_piece(ucx_program *p, uint64_t number, uint8_t *to, size_t bytes) {
  uint64_t at = p->offset + number * BRAID_BULK_PIECE;
  for (size_t used = 0; used < bytes;) {
    ssize_t count = pread(BRAID_BULK_DATA, to + used, bytes - used, (off_t)(at + used));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ucx_fail(p, "the file cannot be read at %llu: %s", (unsigned long long)(at + used),
               count ? strerror(errno) : "it is shorter than it was");
      return false;
    }
    used += (size_t)count;
  }
  return true;
}

static void announce_piece(ucx_program *p, uint64_t number) {
  ucx_slot *slot = &p->slots[number % BRAID_BULK_SLOTS];
  size_t bytes = braid_bulk_piece_bytes(p->offset, p->total, number);
  if (!read_piece(p, number, slot->data, bytes)) return;
  slot->head.number = number;
  memcpy(slot->head.nonce, p->job.nonce, sizeof slot->head.nonce);
  ucp_request_param_t param = {.op_attr_mask =
                                   UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
                               .flags = UCP_AM_SEND_FLAG_RNDV,
                               .cb.send = piece_sent,
                               .user_data = slot};
  ucx_slot_begin(slot, ucp_am_send_nbx(p->endpoint, UCX_AM, &slot->head, sizeof slot->head, slot->data, bytes, &param));
  p->began = number + 1;
}

void ucx_send_step(ucx_program *p) {
  while (!p->wrong[0] && p->ended < p->began && p->slots[p->ended % BRAID_BULK_SLOTS].done) {
    ucs_status_t status = ucx_slot_end(&p->slots[p->ended % BRAID_BULK_SLOTS]);
    if (status != UCS_OK)
      ucx_fail(p, "piece %llu was not taken: %s", (unsigned long long)p->ended, ucs_status_string(status));
    p->ended++;
  }
  while (!p->wrong[0] && p->began < p->count && p->began < p->ended + BRAID_BULK_SLOTS) announce_piece(p, p->began);
  if (p->ended == p->count) p->over = true;
}
