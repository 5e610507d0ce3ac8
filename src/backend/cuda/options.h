/* Options of this backend: "key=value,...". */
#ifndef BRAID_BACKEND_CUDA_OPTIONS_H
#define BRAID_BACKEND_CUDA_OPTIONS_H

#include "launch/recipe.h"

typedef struct braid_cuda_options {
  uint64_t arena_bytes; /* 0: a part of the card's memory */
  uint32_t deadline_ms; /* 0: none */
  bool tf32;
  bool no_libraries, all_libraries; /* libraries=: off, all; neither: where they are faster */
  bool no_tensor, warps_only;       /* tensor=: off, mma; neither: the best that the card has */
  char cache[256];                  /* "": the program's */
  braid_launch_knobs knobs;
} braid_cuda_options;

BRAID_MUST_CHECK braid_status braid_cuda_parse_options(const char *text, braid_cuda_options *out);

#endif
