/* Plug-ins: backends in shared objects, built against the installed headers.
 *
 *   #include "braid/plugin.h"
 *   static const braid_backend kBackend = {
 *       .abi = BRAID_DEVICE_ABI, .size = sizeof(braid_backend), .name = "mine", ...};
 *   BRAID_PLUGIN(kBackend)
 *
 *   cc -shared -fPIC mine.c -o mine.so $(pkg-config --cflags braid)
 *   braid devices --plugin ./mine.so
 *
 * A plug-in is not linked with libbraid: the functions of the library that it calls are those of the program that loads
 * it. A program that links libbraid statically exports them with -rdynamic. See docs/new-device.md. */
#ifndef BRAID_PLUGIN_H
#define BRAID_PLUGIN_H

#include "braid/device.h"

/* Defines the entry point of a plug-in, which returns its table. `abi` is the BRAID_DEVICE_ABI of the program that
 * loads it; a table with another value is refused. A plug-in that supports several versions writes the function itself
 * and returns the matching table. */
#define BRAID_PLUGIN(backend)                                                                                          \
  BRAID_API const braid_backend *braid_plugin(uint32_t abi);                                                           \
  const braid_backend *braid_plugin(uint32_t abi) {                                                                    \
    (void)abi;                                                                                                         \
    return &(backend);                                                                                                 \
  }

#endif
