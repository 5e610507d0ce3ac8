/* Pieces that come. A sender announces each (UCX's rendezvous); it is fetched into its slot when the slot is free, so
 * that nobody decides but us what comes when, of how many bytes, and where to. */
#include <string.h>

#include "serve/bulk/ucx/ucx.h"

static bool is_ours(const ucx_program *p, const braid_bulk_head *head) {
  unsigned differs = 0;
  for (size_t i = 0; i < BRAID_BULK_NONCE; i++) differs |= (unsigned)(head->nonce[i] ^ p->job.nonce[i]);
  return !differs;
}

/* What is not of our file is a stranger's, and dropped. */
static ucs_status_t piece_announced(void *context, const void *header, size_t header_bytes, void *data, size_t bytes,
                                    const ucp_am_recv_param_t *param) {
  ucx_program *p = context;
  braid_bulk_head head;
  if (header_bytes != sizeof head) return UCS_OK;
  memcpy(&head, header, sizeof head);
  if (!is_ours(p, &head) || p->wrong[0]) return UCS_OK;
  uint64_t number = head.number;
  size_t place = (size_t)(number % (2 * BRAID_BULK_SLOTS));
  if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
    ucx_fail(p, "the node sends %zu bytes that it has not announced", bytes);
  else if (number < p->began || number - p->ended >= 2 * BRAID_BULK_SLOTS || p->announced[place].handle)
    ucx_fail(p, "the node announces piece %llu, where %llu to %llu were expected, each once",
             (unsigned long long)number, (unsigned long long)p->began,
             (unsigned long long)(p->ended + 2 * BRAID_BULK_SLOTS - 1));
  if (p->wrong[0]) return UCS_OK;
  p->announced[place].handle = data;
  p->announced[place].bytes = bytes;
  return UCS_INPROGRESS;
}

static void piece_came(void *request, ucs_status_t status, size_t bytes, void *context) {
  ucx_slot *slot = context;
  (void)request, (void)bytes;
  slot->status = status;
  slot->done = true;
}

void ucx_receive_begin(ucx_program *p) {
  ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                    .id = UCX_AM,
                                    .cb = piece_announced,
                                    .arg = p};
  ucp_address_t *address;
  size_t bytes;
  ucs_status_t status = ucp_worker_set_am_recv_handler(p->worker, &handler);
  if (status == UCS_OK) status = ucp_worker_get_address(p->worker, &address, &bytes);
  if (status != UCS_OK) {
    ucx_fail(p, "UCX gives no address: %s", ucs_status_string(status));
    return;
  }
  if (bytes > BRAID_BULK_ADDRESS)
    ucx_fail(p, "UCX's address has %zu bytes, and %d are carried: UCX_NET_DEVICES may name fewer devices", bytes,
             BRAID_BULK_ADDRESS);
  else if (!ucx_tell(BRAID_BULK_READY, 0, address, bytes))
    p->over = true;
  ucp_worker_release_address(p->worker, address);
}

void ucx_receive_message(ucx_program *p, const braid_bulk_message *message) {
  if (message->kind == BRAID_BULK_EXPECT) {
    p->offset = message->offset;
    p->total = message->total;
    p->count = braid_bulk_pieces(p->offset, p->total);
    p->expects = true;
  } else if (message->kind == BRAID_BULK_FREE) {
    p->freed = message->number + 1;
  }
}

static void fetch_piece(ucx_program *p, uint64_t number) {
  ucx_slot *slot = &p->slots[number % BRAID_BULK_SLOTS];
  size_t place = (size_t)(number % (2 * BRAID_BULK_SLOTS));
  size_t bytes = braid_bulk_piece_bytes(p->offset, p->total, number);
  if (p->announced[place].bytes != bytes) {
    ucx_fail(p, "the node announces piece %llu as %zu bytes, where %zu were expected", (unsigned long long)number,
             p->announced[place].bytes, bytes);
    return;
  }
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.recv_am = piece_came,
                               .user_data = slot};
  ucx_slot_begin(slot, ucp_am_recv_data_nbx(p->worker, p->announced[place].handle, slot->data, bytes, &param));
  p->announced[place].handle = NULL;
  p->began = number + 1;
}

void ucx_receive_step(ucx_program *p) {
  if (!p->expects) return;
  while (!p->wrong[0] && p->began < p->count && p->began < p->freed + BRAID_BULK_SLOTS &&
         p->announced[p->began % (2 * BRAID_BULK_SLOTS)].handle)
    fetch_piece(p, p->began);
  while (!p->wrong[0] && p->ended < p->began && p->slots[p->ended % BRAID_BULK_SLOTS].done) {
    ucs_status_t status = ucx_slot_end(&p->slots[p->ended % BRAID_BULK_SLOTS]);
    if (status != UCS_OK)
      ucx_fail(p, "piece %llu did not come: %s", (unsigned long long)p->ended, ucs_status_string(status));
    if (!p->wrong[0] && !ucx_tell(BRAID_BULK_CAME, p->ended, NULL, 0)) p->over = true;
    p->ended++;
  }
  p->whole = p->ended == p->count;
}
