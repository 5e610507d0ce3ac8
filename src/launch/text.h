/* Kernel text: what the build puts into the library from kernels/opencl (cmake/embed.cmake). OpenCL's drivers compile
 * it as it is, CUDA's compiler behind kernels/cuda/prelude.cuh. */
#ifndef BRAID_LAUNCH_TEXT_H
#define BRAID_LAUNCH_TEXT_H

#include <stddef.h>

/* A file, by its name without ending. */
typedef struct braid_launch_text {
  const char *name;
  const char *text;
  size_t bytes;
  const char *folders[2]; /* where it includes from, its own first; NULL: nowhere, it is whole */
} braid_launch_text;

extern const braid_launch_text braid_launch_texts[];
extern const size_t braid_launch_text_count;

/* NULL: there is none of that name. */
const braid_launch_text *braid_launch_find_text(const char *name);

#endif
