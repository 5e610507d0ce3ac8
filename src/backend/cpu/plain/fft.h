/* Fourier transforms of one length, of complex numbers (real and imaginary part in turn) in double, in O(n log n): by
 * the length's factors (Stockham), or as a convolution (Bluestein) where one of them is a large prime. */
#ifndef BRAID_BACKEND_CPU_PLAIN_FFT_H
#define BRAID_BACKEND_CPU_PLAIN_FFT_H

#include <stdint.h>

#include "braid/allocator.h"
#include "braid/status.h"

enum { BRAID_FFT_FACTORS = 40 };

typedef struct braid_fft {
  int64_t length;
  int64_t padded;                      /* of the convolution: a power of two; 0: there is none */
  int count, radix[BRAID_FFT_FACTORS]; /* of the length, or of `padded` */
  double *roots;                       /* of one, of the length or of `padded` */
  double *chirp, *filter;              /* of the convolution: what it multiplies by, and its transformed other factor */
} braid_fft;

/* In this order: chooses, allocates the tables, computes them. `length` is from 1 to 2^26. */
void braid_fft_choose(braid_fft *fft, int64_t length);
BRAID_MUST_CHECK braid_status braid_fft_allocate(const braid_allocator *allocator, braid_fft *fft);
void braid_fft_fill(braid_fft *fft);
void braid_fft_deinit(const braid_allocator *allocator, braid_fft *fft);

/* Complex numbers of scratch memory that a transform takes: known once it is chosen. */
int64_t braid_fft_scratch(const braid_fft *fft);
/* line[k] becomes the sum of line[j] e^(-2 pi i j k / length). */
void braid_fft_run(const braid_fft *fft, double *line, double *scratch);

#endif
