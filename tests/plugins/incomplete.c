/* A plug-in that lacks required calls. */
#include "braid/plugin.h"

static const braid_backend kBackend = {.abi = BRAID_DEVICE_ABI, .name = "incomplete"};
BRAID_PLUGIN(kBackend)
