/* Plug-ins: backends in shared objects, built outside of this tree against the installed headers.
 *
 *   #include "braid/plugin.h"
 *   static const braid_backend kBackend = {
 *       .abi = BRAID_DEVICE_ABI, .size = sizeof(braid_backend), .name = "mine", ...};
 *   BRAID_PLUGIN(kBackend)
 *
 *   cc -shared -fPIC mine.c -o mine.so $(pkg-config --cflags braid)
 *   braid devices --plugin ./mine.so
 *
 * The functions of libbraid that a plug-in calls come from the program that loads it; the plug-in is not linked with
 * the library. A program linked statically exports them with -rdynamic. docs/new-device.md goes through all of it. */
#ifndef BRAID_PLUGIN_H
#define BRAID_PLUGIN_H

#include "braid/device.h"

/* The one entry point. `abi` is the BRAID_DEVICE_ABI of the program that loads it; the table handed back says its own,
 * and is refused unless they are the same. A plug-in for several versions may hand back the table that fits. */
#define BRAID_PLUGIN(backend)                                                                                          \
  BRAID_API const braid_backend *braid_plugin(uint32_t abi);                                                           \
  const braid_backend *braid_plugin(uint32_t abi) {                                                                    \
    (void)abi;                                                                                                         \
    return &(backend);                                                                                                 \
  }

#endif
