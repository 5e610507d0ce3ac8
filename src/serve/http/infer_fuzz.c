/* Any body is a request within its bounds, or a refusal with a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/http/call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static braid_server *server;

static void start(void) {
  char path[] = "/tmp/braid-fuzz-XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  fputs("models:\n  - {name: m, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any}\n", file);
  fclose(file);
  if (braid_server_create(&(braid_server_options){.config = path, .port = -1}, &server) != BRAID_OK) abort();
  remove(path);
  while (!braid_server_is_ready(server)) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* The first two bytes say how much of the rest is JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char detail[BRAID_SERVE_DETAIL];
  if (!server) start();
  if (bytes < 2) return 0;
  size_t json_bytes = data[0] | (size_t)data[1] << 8;
  if (json_bytes > bytes - 2) json_bytes = bytes - 2;
  braid_http_call call = {.server = server, .tenant = server->tenants, .body = malloc(bytes - 2), .bytes = bytes - 2};
  if (!call.body && bytes > 2) return 0;
  memcpy(call.body, data + 2, bytes - 2);
  braid_text_init(&call.text, NULL);
  if (braid_serve_begin(server, call.tenant, "m", NULL, &call.request, detail) != BRAID_SERVE_DONE) abort();
  if (!braid_http_read_request(&call, json_bytes)) {
    if (call.status < 400 || call.text.length < 12) abort();
  } else {
    for (size_t i = 0; i < call.request->input_count; i++)
      if (call.request->inputs[i].bytes > bytes) abort(); /* every number was sent */
  }
  braid_serve_request_destroy(call.request);
  if (server->tenants->bytes_in_flight) abort();
  braid_text_deinit(&call.text);
  free(call.body);
  return 0;
}
