/* A plug-in for a later version of the device contract. */
#include "braid/plugin.h"

static const braid_backend kBackend = {.abi = BRAID_DEVICE_ABI + 1, .name = "future"};
BRAID_PLUGIN(kBackend)
