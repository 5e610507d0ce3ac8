/* Files that go: a few programs at a time. */
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "braid/allocator.h"
#include "serve/bulk/bulk_process.h"

typedef struct bulk_sender {
  bulk_process process; /* of one that is under way */
  uint8_t nonce[BRAID_BULK_NONCE];
  braid_bulk_state state; /* UNKNOWN: never used */
  char detail[BRAID_BULK_DETAIL];
} bulk_sender;

struct braid_bulk_senders {
  char *program;
  pthread_mutex_t lock;
  bulk_sender senders[BRAID_BULK_SENDERS];
  size_t next;                /* of those that are not under way, whose end may be forgotten first */
  braid_bulk_message message; /* with the lock */
};

braid_status braid_bulk_senders_create(const char *program, braid_bulk_senders **out) {
  *out = NULL;
  braid_bulk_senders *senders = braid_zalloc(NULL, sizeof *senders);
  if (!senders) return BRAID_NO_MEMORY;
  pthread_mutex_init(&senders->lock, NULL);
  for (size_t i = 0; i < BRAID_BULK_SENDERS; i++) senders->senders[i].process.line = -1;
  senders->program = braid_strdup(NULL, program);
  if (senders->program)
    *out = senders;
  else
    braid_bulk_senders_destroy(senders);
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

/* How it stands with one that was under way, without waiting; the lock is held. */
static void look_at(braid_bulk_senders *senders, bulk_sender *sender) {
  if (sender->state != BRAID_BULK_GOING) return;
  int heard = bulk_process_hear(&sender->process, 0, &senders->message);
  if (!heard) return;
  sender->state = heard > 0 && senders->message.kind == BRAID_BULK_SENT ? BRAID_BULK_DONE : BRAID_BULK_LOST;
  if (heard > 0 && senders->message.kind == BRAID_BULK_FAILED)
    bulk_sentence(&senders->message, sender->detail);
  else if (sender->state == BRAID_BULK_LOST)
    strcpy(sender->detail, "braid-ucx has ended");
}

/* Programs that have said how it went end by themselves, and are reaped when they have. */
static void reap(bulk_sender *sender) {
  if (sender->state > BRAID_BULK_GOING) bulk_process_end(&sender->process, 0);
}

void braid_bulk_senders_look(braid_bulk_senders *senders) {
  if (!senders) return;
  pthread_mutex_lock(&senders->lock);
  for (size_t i = 0; i < BRAID_BULK_SENDERS; i++) {
    reap(&senders->senders[i]);
    look_at(senders, &senders->senders[i]);
  }
  pthread_mutex_unlock(&senders->lock);
}

static bulk_sender *find_free(braid_bulk_senders *senders) {
  for (size_t i = 0; i < BRAID_BULK_SENDERS; i++) {
    bulk_sender *sender = &senders->senders[senders->next++ % BRAID_BULK_SENDERS];
    look_at(senders, sender);
    if (sender->state != BRAID_BULK_GOING) return sender;
  }
  return NULL;
}

static braid_status start_sender(braid_bulk_senders *senders, bulk_sender *sender, int file,
                                 const braid_bulk_request *request) {
  bulk_process_end(&sender->process, 0);
  *sender = (bulk_sender){.process.line = -1};
  BRAID_TRY(bulk_process_start(senders->program, file, &sender->process));
  braid_bulk_message *message = &senders->message;
  *message = (braid_bulk_message){.version = BRAID_BULK_VERSION,
                                  .kind = BRAID_BULK_SEND,
                                  .offset = request->offset,
                                  .total = request->total,
                                  .text_bytes = (uint32_t)request->address_bytes};
  memcpy(message->nonce, request->nonce, sizeof message->nonce);
  memcpy(message->text, request->address, request->address_bytes);
  memcpy(sender->nonce, request->nonce, sizeof sender->nonce);
  sender->state = BRAID_BULK_GOING; /* should the message not go out, it is found to be lost */
  (void)bulk_process_tell(&sender->process, message);
  return BRAID_OK;
}

braid_status braid_bulk_send(braid_bulk_senders *senders, int file, const braid_bulk_request *request) {
  if (!request->address_bytes || request->address_bytes > BRAID_BULK_ADDRESS || request->offset > request->total ||
      request->total > INT64_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "bytes from %llu to %llu, to an address of %zu bytes; up to %d are taken",
                      (unsigned long long)request->offset, (unsigned long long)request->total, request->address_bytes,
                      BRAID_BULK_ADDRESS);
  pthread_mutex_lock(&senders->lock);
  bulk_sender *sender = find_free(senders);
  braid_status status = sender ? start_sender(senders, sender, file, request)
                               : braid_fail(BRAID_BUSY, "%d files are sent by UCX already", BRAID_BULK_SENDERS);
  pthread_mutex_unlock(&senders->lock);
  return status;
}

braid_bulk_state braid_bulk_sender_state(braid_bulk_senders *senders, const uint8_t *nonce,
                                         char detail[BRAID_BULK_DETAIL]) {
  braid_bulk_state state = BRAID_BULK_UNKNOWN;
  detail[0] = '\0';
  pthread_mutex_lock(&senders->lock);
  for (size_t i = 0; i < BRAID_BULK_SENDERS; i++) {
    bulk_sender *sender = &senders->senders[i];
    if (!sender->state || memcmp(sender->nonce, nonce, sizeof sender->nonce) != 0) continue;
    look_at(senders, sender);
    state = sender->state;
    memcpy(detail, sender->detail, sizeof sender->detail);
  }
  pthread_mutex_unlock(&senders->lock);
  return state;
}

void braid_bulk_senders_destroy(braid_bulk_senders *senders) {
  if (!senders) return;
  for (size_t i = 0; i < BRAID_BULK_SENDERS; i++) bulk_process_end(&senders->senders[i].process, 0);
  pthread_mutex_destroy(&senders->lock);
  braid_free(NULL, senders->program);
  braid_free(NULL, senders);
}
