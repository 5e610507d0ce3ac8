/* The paper's networks, from models/. */
#ifndef BRAID_BACKEND_MANYCORE_NETWORKS_H
#define BRAID_BACKEND_MANYCORE_NETWORKS_H

#include <stddef.h>

typedef struct braid_manycore_file {
  const char *name; /* without its ending */
  const char *text;
  size_t bytes;
} braid_manycore_file;
extern const braid_manycore_file braid_manycore_network_files[];
extern const size_t braid_manycore_network_file_count;

#endif
