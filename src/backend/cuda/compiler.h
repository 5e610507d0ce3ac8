/* NVRTC, CUDA's compiler at run time: loaded when the program runs, like the driver. It turns kernel text of the
 * library into machine code of a generation of cards, on machines without a card too. */
#ifndef BRAID_BACKEND_CUDA_COMPILER_H
#define BRAID_BACKEND_CUDA_COMPILER_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/log.h"
#include "launch/text.h"

extern const braid_launch_text braid_cuda_texts[]; /* of kernels/cuda: the prelude, then kernels of CUDA alone */
extern const size_t braid_cuda_text_count;
/* Of those kernels or of kernels/opencl; NULL: there is none of that name. */
const braid_launch_text *braid_cuda_find_text(const char *name);

/* UNSUPPORTED: there is none that can be used, and why. */
BRAID_MUST_CHECK braid_status braid_cuda_compiler_find(void);
/* The same, for a card of this capability (90 is 9.0). */
BRAID_MUST_CHECK braid_status braid_cuda_compiler_check(int capability);
/* Does it compile for exactly this generation, with what later ones will not run? So far for 9.0. */
bool braid_cuda_compiler_knows_own(int capability);
int braid_cuda_compiler_version(void); /* 13000 is 13.0; 0: there is none */

/* Compiles a text of the library for a card of this capability (90 is 9.0), with options as "-DA=1 -DB=2". The binary,
 * which the caller frees (the C library's heap), is what the driver loads; for cards newer than the compiler it is PTX,
 * which the driver compiles. When the text does not compile, the detail holds the beginning of the compiler's log, and
 * `log` gets all of it. */
BRAID_MUST_CHECK braid_status braid_cuda_compile(const braid_log *log, const braid_launch_text *text, int capability,
                                                 const char *options, uint8_t **binary, size_t *bytes);

#endif
