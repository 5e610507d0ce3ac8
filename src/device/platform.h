/* Platform files: names for devices with their options, and devices split into virtual ones (docs/platforms.md). The
 * idea of virtual devices defined by a configuration file is that of fGrain (Guo et al., 2021). */
#ifndef BRAID_DEVICE_PLATFORM_H
#define BRAID_DEVICE_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"

enum { BRAID_PLATFORM_PARTS = 64 };

typedef struct braid_platform_device {
  char *name;          /* without a dot */
  char *device;        /* name of the physical device */
  char *options;       /* for every part; NULL: none */
  int64_t parts;       /* 0: not split */
  char **part_options; /* additional options of part i; at most `parts` entries */
  unsigned part_options_count;
} braid_platform_device;

typedef struct braid_platform {
  braid_platform_device *devices;
  unsigned devices_count;
} braid_platform;

/* Reads and checks the file; owned by the caller. A failure names the file, the line or the device, and what was
 * expected. */
BRAID_MUST_CHECK braid_status braid_platform_load(const braid_allocator *allocator, const char *path,
                                                  braid_platform **out);
/* The same for text in memory, called `name` in messages. */
BRAID_MUST_CHECK braid_status braid_platform_parse(const char *name, const void *text, size_t bytes,
                                                   braid_platform **out);
void braid_platform_free(braid_platform *platform); /* NULL is allowed */

/* Finds the entry for `name` ("fpga0" or "fpga0.1"), or NULL; *part: index of the part, -1: the whole device. */
const braid_platform_device *braid_platform_find(const braid_platform *platform, const char *name, int64_t *part);
/* Writes the options of that part, followed by `more` (may be ""); false if they do not fit. */
bool braid_platform_options(const braid_platform_device *device, int64_t part, const char *more, char *out,
                            size_t bytes);

#endif
