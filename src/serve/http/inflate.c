/* Bodies that clients compressed. */
#include <zlib.h>

#include "serve/http/call.h"

enum { kAnyFormat = 15 + 32, kPiece = 1 << 30 }; /* gzip or zlib, by its first bytes; zlib counts in 32 bits */

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
  size_t most = (size_t)call->server->config->max_request_bytes;
  while (code == Z_OK) {
    size_t wanted = call->bytes + 4 * packed_capacity + 1;
    if (!braid_http_reserve_body(call, wanted < most || call->bytes >= most ? wanted : most)) break;
    stream.next_out = call->body + call->bytes;
    size_t room = call->capacity - call->bytes < kPiece ? call->capacity - call->bytes : kPiece;
    stream.avail_out = (uInt)room;
    code = inflate(&stream, Z_NO_FLUSH);
    call->bytes += room - stream.avail_out;
    /* A file of gzip may be of several members (RFC 1952, 2.2), which together are the body. */
    if (code == Z_STREAM_END && stream.avail_in) code = inflateReset(&stream);
  }
  inflateEnd(&stream);
  braid_free(NULL, packed);
  braid_serve_tenant_return(call->tenant, packed_capacity);
  if (code != Z_STREAM_END && !call->status)
    braid_http_refuse(call, BRAID_SERVE_INVALID, "the body is neither gzip nor zlib, or ends too early");
  return code == Z_STREAM_END;
}
