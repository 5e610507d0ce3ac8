/* Bodies that clients compressed. */
#include <zlib.h>

#include "serve/http/call.h"

enum { kAnyFormat = 15 + 32 }; /* gzip or zlib, by its first bytes */

bool braid_http_inflate(braid_http_call *call) {
  z_stream stream = {.next_in = call->body, .avail_in = (uInt)call->bytes};
  uint8_t *packed = call->body;
  size_t packed_capacity = call->capacity;
  if (inflateInit2(&stream, kAnyFormat) != Z_OK) {
    braid_http_refuse(call, BRAID_SERVE_FAILED, "no memory to unpack the body");
    return false;
  }
  call->body = NULL;
  call->bytes = call->capacity = 0;
  int code = Z_OK;
  while (code == Z_OK && braid_http_reserve_body(call, call->bytes + 4 * packed_capacity + 1)) {
    stream.next_out = call->body + call->bytes;
    stream.avail_out = (uInt)(call->capacity - call->bytes);
    code = inflate(&stream, Z_NO_FLUSH);
    call->bytes = call->capacity - stream.avail_out;
  }
  inflateEnd(&stream);
  braid_free(NULL, packed);
  braid_serve_tenant_return(call->tenant, packed_capacity);
  if (code != Z_STREAM_END && !call->status)
    braid_http_refuse(call, BRAID_SERVE_INVALID, "the body is neither gzip nor zlib, or ends too early");
  return code == Z_STREAM_END;
}
