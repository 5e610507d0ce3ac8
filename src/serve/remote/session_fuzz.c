/* Any bytes as messages to a session, one after the other, so that later ones meet what earlier ones have made: they
 * are done, or refused with a sentence, on a device whose kernels run. A message is its kind (one byte), its length
 * (two) and its body. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_serve_tenant_config limits = {.name = (char *)"fuzz", .max_bytes = 1 << 20};
  braid_serve_device_config config = {.name = (char *)"cpu", .device = (char *)"cpu", .threads = 1};
  braid_serve_tenant tenant = {.config = &limits};
  int files[2];
  pthread_mutex_init(&tenant.lock, NULL);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, files) != 0) abort();
  session s = {.tenant = &tenant, .config = &config, .file = files[0]};
  if (session_open_device(&s) != BRAID_OK) abort();
  while (bytes >= 3) take_message(&s, &data, &bytes);
  session_close_device(&s);
  if (s.counted || tenant.bytes_in_flight) abort(); /* all that was counted was given back */
  braid_wire_free(&s.writer);
  close(files[0]);
  close(files[1]);
  pthread_mutex_destroy(&tenant.lock);
  return 0;
}
