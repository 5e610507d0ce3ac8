/* Sessions of remote devices, as the daemon's other rooms see them. */
#ifndef BRAID_SERVE_REMOTE_REMOTE_H
#define BRAID_SERVE_REMOTE_REMOTE_H

#include "serve/server.h"

enum { BRAID_SERVE_SESSIONS = 32 };

BRAID_MUST_CHECK braid_status braid_serve_remote_start(braid_server *server, struct braid_serve_remote **out);
void braid_serve_remote_stop(struct braid_serve_remote *remote); /* ends all sessions; NULL is allowed */
/* The device of this name that is offered ("": the first), if the tenant may use it: DONE, or the sentence. */
braid_serve_verdict braid_serve_remote_find(const braid_server *server, const braid_serve_tenant *tenant,
                                            const char *name, const braid_serve_device_config **out,
                                            char detail[BRAID_SERVE_DETAIL]);
/* A connection becomes a session, which answers message `id` when its device is open. The file is the session's if this
 * returns DONE. */
braid_serve_verdict braid_serve_remote_adopt(struct braid_serve_remote *remote, int file, braid_serve_tenant *tenant,
                                             const braid_serve_device_config *device, uint64_t id,
                                             char detail[BRAID_SERVE_DETAIL]);

#endif
