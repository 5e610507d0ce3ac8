/* Remote devices: devices of a daemon (`braid serve`), opened as "remote:HOST:PORT/NAME", "remote:tls:HOST:PORT/NAME"
 * or "remote:unix:PATH/NAME" (docs/remote.md). They are devices as any other; what is here is their token. */
#ifndef BRAID_REMOTE_H
#define BRAID_REMOTE_H

#include "braid/status.h"

/* The token that daemons are told by remote devices whose description names no token-file; NULL or "": none, which is
 * the default. Copied; of the whole process, and to be called before devices are opened. The library reads no
 * environment variable for it; the braid command uses BRAID_TOKEN. INVALID_ARGUMENT: it is longer than 4096 bytes. */
BRAID_API BRAID_MUST_CHECK braid_status braid_remote_set_token(const char *token);

#endif
