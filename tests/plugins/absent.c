/* A plug-in that has nothing for this version of the device contract. */
#include "braid/plugin.h"

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  (void)abi;
  return NULL;
}
