/* Any bytes as messages to a session, one after the other, so that later ones meet what earlier ones have made: they
 * are done, or refused with a sentence, on a device whose kernels run. A message is its kind (one byte), its length
 * (two) and its body. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "serve/remote/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void take_message(session *s, const uint8_t **data, size_t *bytes) {
  enum { kKinds = BRAID_REMOTE_END - BRAID_REMOTE_KERNELS };
  size_t count = (size_t)(*data)[1] | (size_t)(*data)[2] << 8;
  braid_wire_header header = {.kind = (uint16_t)(BRAID_REMOTE_KERNELS + (*data)[0] % kKinds), .id = 1};
  *data += 3;
  *bytes -= 3;
  if (count > *bytes) count = *bytes;
  uint8_t *body = malloc(count ? count : 1); /* of its own: what is read behind it is seen */
  if (!body) abort();
  if (count) memcpy(body, *data, count);
  header.bytes = count;
  if (session_handle(s, &header, body)) {
    braid_wire_reader reader = {.data = s->writer.data + BRAID_WIRE_HEADER,
                                .bytes = s->writer.length - BRAID_WIRE_HEADER};
    char detail[BRAID_WIRE_DETAIL];
    braid_status status = braid_remote_get_status(&reader, detail);
    if (reader.wrong || (status != BRAID_OK && (!detail[0] || s->data_bytes))) abort();
  }
  session_drop_data(s);
  free(body);
  *data += count;
  *bytes -= count;
}

/* What a session has but its device, which is opened once: that takes longer than all messages. */
static void forget_all(session *s) {
  session_recordings_free_all(s);
  session_prepared_free_all(s);
  session_memory_free_all(s);
  s->buffers = s->prepared = s->recordings = (session_table){0};
  s->blob_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static braid_serve_tenant_config limits = {.name = (char *)"fuzz", .max_bytes = 1 << 20};
  static braid_serve_device_config config = {.name = (char *)"cpu", .device = (char *)"cpu", .threads = 1};
  static braid_serve_tenant tenant = {.config = &limits, .lock = PTHREAD_MUTEX_INITIALIZER};
  static session s = {.tenant = &tenant, .config = &config};
  static int files[2];
  if (!s.device && (socketpair(AF_UNIX, SOCK_STREAM, 0, files) != 0 || session_open_device(&s) != BRAID_OK)) abort();
  s.file = files[0];
  while (bytes >= 3) take_message(&s, &data, &bytes);
  forget_all(&s);
  if (s.counted || tenant.bytes_in_flight) abort(); /* all that was counted was given back */
  return 0;
}
