/* IDX, the format of MNIST: a magic number (type, rank), the dimensions, and the elements, big endian. */
#ifndef BRAID_TRAIN_IDX_H
#define BRAID_TRAIN_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

enum { BRAID_IDX_MAX_RANK = 4 };
typedef struct braid_idx {
  int rank;
  uint32_t dims[BRAID_IDX_MAX_RANK];
  const uint8_t *elements; /* within the given memory */
} braid_idx;
/* Only arrays of unsigned bytes are accepted. `name` is used in messages. */
BRAID_MUST_CHECK braid_status braid_idx_parse(const char *name, const uint8_t *data, size_t bytes, braid_idx *out);
#endif
