/* Training as a tenant of a daemon on this machine: it computes while the daemon has nothing to run. */
#ifndef BRAID_CLI_TRAIN_TENANT_H
#define BRAID_CLI_TRAIN_TENANT_H

#include "cli.h"

/* Connects, as `braid call` does, and has all tasks of this process wait for the daemon from then on; call it before
 * devices are opened. `token` NULL: BRAID_TOKEN of the environment. A daemon that goes is waited for no longer, and
 * looked for until it is back. */
braid_status cli_tenant_begin(const char *address, const char *token);
/* Waits until the daemon's devices are idle, where there is a daemon: between steps, for devices whose tasks do not
 * wait by themselves. */
void cli_tenant_pace(void);
void cli_tenant_end(void);

#endif
