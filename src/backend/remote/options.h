/* What stands behind "remote:" in a device's description. */
#ifndef BRAID_BACKEND_REMOTE_OPTIONS_H
#define BRAID_BACKEND_REMOTE_OPTIONS_H

#include "backend/remote/remote_format.h"

enum { REMOTE_HOSTS = 8, REMOTE_HOST = 256, REMOTE_PATH = 1024 };

typedef struct remote_options {
  size_t host_count;
  char hosts[REMOTE_HOSTS]
            [REMOTE_HOST];      /* "unix:PATH", "HOST:PORT", "[ADDRESS]:PORT", the last two also as "tls:..." */
  char device[BRAID_WIRE_NAME]; /* "": the daemon's first */
  int64_t silence_ns;
  char token[BRAID_WIRE_TOKEN];              /* "": none */
  const char *authority, *certificate, *key; /* PEM files, in `paths`; NULL: none */
  char paths[3][REMOTE_PATH];
} remote_options;

/* "ADDRESS[|ADDRESS...]/NAME[,timeout=SECONDS][,token-file=PATH][,authority=PATH][,certificate=PATH,key=PATH]".
 * INVALID_ARGUMENT says what is expected. */
BRAID_MUST_CHECK braid_status remote_options_read(const char *text, remote_options *out);

#endif
