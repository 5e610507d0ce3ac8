/* Built programs in files, so that a program is compiled once per machine and not once per process. An entry holds its
 * whole key (device, driver, options, text) and a checksum; one that does not agree in every bit is as good as none. */
#ifndef BRAID_LAUNCH_CACHE_H
#define BRAID_LAUNCH_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/log.h"

/* The entry of `key`, which the caller frees (the C library's heap); NULL: there is none to be trusted. */
uint8_t *braid_launch_cache_load(const braid_log *log, const char *folder, const char *key, size_t key_bytes,
                                 size_t *bytes);
/* Written whole or not at all. A folder that cannot be written is a message to the log: a cache may be missing. */
void braid_launch_cache_store(const braid_log *log, const char *folder, const char *key, size_t key_bytes,
                              const uint8_t *binary, size_t bytes);

#endif
