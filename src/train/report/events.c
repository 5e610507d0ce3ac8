/* The format: TFRecord framing (length, masked CRC-32C of it, data, masked CRC-32C) around protocol buffers `Event` of
 * tensorflow/core/util/event.proto. Of those messages only four fields are needed, so they are encoded here by hand. */
#include "train/report/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/try.h"

struct braid_events {
  const braid_allocator *allocator;
  int file;
  int64_t bytes;      /* of whole records, in the file */
  braid_text pending; /* records that follow */
  char path[4096];
  uint32_t crc_table[256];
};

/* --- framing -------------------------------------------------------------------------------------------------------
 */
static void fill_crc_table(uint32_t *table) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0x82f63b78u ^ (crc >> 1) : crc >> 1; /* Castagnoli, reflected */
    table[i] = crc;
  }
}

static uint32_t masked_crc(const braid_events *events, const uint8_t *data, size_t bytes) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; i++) crc = events->crc_table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* All of it, or NO_MEMORY and nothing: the next one may find memory. */
static braid_status put_record(braid_events *events, const uint8_t *data, size_t bytes) {
  uint8_t head[12], tail[4];
  uint64_t length = bytes;
  size_t before = events->pending.length;
  memcpy(head, &length, 8);
  uint32_t crc = masked_crc(events, head, 8);
  memcpy(head + 8, &crc, 4);
  crc = masked_crc(events, data, bytes);
  memcpy(tail, &crc, 4);
  braid_text_add_bytes(&events->pending, head, sizeof head);
  braid_text_add_bytes(&events->pending, data, bytes);
  braid_text_add_bytes(&events->pending, tail, sizeof tail);
  if (!events->pending.failed) return BRAID_OK;
  events->pending.length = before;
  events->pending.failed = false;
  return BRAID_NO_MEMORY;
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */
enum { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5, kMaxTag = 128, kMaxMessage = 256 };

typedef struct message {
  uint8_t data[kMaxMessage];
  size_t bytes;
} message;

static void put_varint(message *m, uint64_t value) {
  do {
    m->data[m->bytes++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
}

static void put_key(message *m, unsigned field, unsigned type) {
  put_varint(m, field << 3 | type);
}

static void put_bytes(message *m, unsigned field, const void *data, size_t bytes) {
  put_key(m, field, kBytes);
  put_varint(m, bytes);
  memcpy(m->data + m->bytes, data, bytes);
  m->bytes += bytes;
}

static message begin_event(int64_t step) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  message m = {.bytes = 0};
  put_key(&m, 1, kFixed64);
  memcpy(m.data + m.bytes, &wall_time, 8);
  m.bytes += 8;
  if (step) {
    put_key(&m, 2, kVarint);
    put_varint(&m, (uint64_t)step);
  }
  return m;
}

braid_status braid_events_scalar(braid_events *events, int64_t step, const char *tag, double value) {
  size_t length = strlen(tag);
  if (length > kMaxTag) return braid_fail(BRAID_INVALID_ARGUMENT, "a tag of %zu characters", length);
  message v = {.bytes = 0}, summary = {.bytes = 0}, event = begin_event(step);
  float single = (float)value;
  put_bytes(&v, 1, tag, length);
  put_key(&v, 2, kFixed32);
  memcpy(v.data + v.bytes, &single, 4);
  v.bytes += 4;
  put_bytes(&summary, 1, v.data, v.bytes);
  put_bytes(&event, 5, summary.data, summary.bytes);
  return put_record(events, event.data, event.bytes);
}

/* --- file ----------------------------------------------------------------------------------------------------------
 */
static braid_status put_header(braid_events *events, int64_t resumed_at) {
  static const char kFormat[] = "brain.Event:2";
  message event = begin_event(0);
  put_bytes(&event, 3, kFormat, sizeof kFormat - 1);
  BRAID_TRY(put_record(events, event.data, event.bytes));
  if (resumed_at == 0) return BRAID_OK;
  message start = begin_event(resumed_at);
  static const uint8_t kSessionStart[] = {1 << 3 | kVarint, 1}; /* SessionLog.status = START */
  put_bytes(&start, 7, kSessionStart, sizeof kSessionStart);
  return put_record(events, start.data, start.bytes);
}

/* Whole records or nothing: a reader stops at one that is torn. What was not written is tried again the next time. */
static bool put_pending(braid_events *events) {
  for (size_t done = 0; done < events->pending.length;) {
    ssize_t put = pwrite(events->file, events->pending.data + done, events->pending.length - done,
                         (off_t)events->bytes + (off_t)done);
    if (put > 0) done += (size_t)put;
    if (put > 0 || (put < 0 && errno == EINTR)) continue;
    int error = errno;
    (void)!ftruncate(events->file, (off_t)events->bytes);
    errno = error;
    return false;
  }
  events->bytes += (int64_t)events->pending.length;
  braid_text_deinit(&events->pending);
  return true;
}

braid_status braid_events_open(const braid_allocator *allocator, const char *directory, int64_t resumed_at,
                               braid_events **out) {
  *out = NULL;
  braid_events *events = braid_zalloc(allocator, sizeof *events);
  if (!events) return BRAID_NO_MEMORY;
  events->allocator = allocator;
  fill_crc_table(events->crc_table);
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  snprintf(events->path, sizeof events->path, "%s/events.out.tfevents.%010lld.%s.%d", directory, (long long)time(NULL),
           host, (int)getpid());
  braid_text_init(&events->pending, allocator);
  events->file = open(events->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  braid_status status = BRAID_OK;
  if (events->file < 0)
    status = braid_fail(BRAID_IO, "%s: %s", events->path, strerror(errno));
  else
    status = put_header(events, resumed_at);
  if (status == BRAID_OK)
    *out = events;
  else
    braid_events_close(events);
  return status;
}

braid_status braid_events_flush(braid_events *events) {
  if (put_pending(events)) return BRAID_OK;
  return braid_fail(BRAID_IO, "%s: cannot write: %s", events->path, strerror(errno));
}

void braid_events_close(braid_events *events) {
  if (!events) return;
  if (events->file >= 0) {
    (void)put_pending(events);
    close(events->file);
  }
  braid_text_deinit(&events->pending);
  braid_free(events->allocator, events);
}
