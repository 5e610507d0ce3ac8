#include "backend/cpu/plain/fft.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { kLargestRadix = 31 }; /* beyond, a convolution takes fewer operations */

static bool factor(int64_t length, braid_fft *fft) {
  static const int kFirst[] = {4, 2, 3};
  fft->count = 0;
  for (size_t i = 0; i < 3; i++)
    for (; length % kFirst[i] == 0; length /= kFirst[i]) fft->radix[fft->count++] = kFirst[i];
  for (int radix = 5; length > 1; radix += 2) {
    if (radix > kLargestRadix) return false;
    for (; length % radix == 0; length /= radix) fft->radix[fft->count++] = radix;
  }
  return true;
}

void braid_fft_choose(braid_fft *fft, int64_t length) {
  *fft = (braid_fft){.length = length};
  if (factor(length, fft)) return;
  for (fft->padded = 2; fft->padded < 2 * length - 1; fft->padded *= 2) continue;
  (void)factor(fft->padded, fft);
}

braid_status braid_fft_allocate(const braid_allocator *allocator, braid_fft *fft) {
  int64_t transformed = fft->padded ? fft->padded : fft->length;
  fft->roots = braid_zalloc_array(allocator, (size_t)transformed, 2 * sizeof(double));
  if (fft->padded) {
    fft->chirp = braid_zalloc_array(allocator, (size_t)fft->length, 2 * sizeof(double));
    fft->filter = braid_zalloc_array(allocator, (size_t)transformed, 4 * sizeof(double)); /* and room to transform it */
  }
  if (fft->roots && (!fft->padded || (fft->chirp && fft->filter))) return BRAID_OK;
  braid_fft_deinit(allocator, fft);
  return BRAID_NO_MEMORY;
}

void braid_fft_deinit(const braid_allocator *allocator, braid_fft *fft) {
  braid_free(allocator, fft->roots);
  braid_free(allocator, fft->chirp);
  braid_free(allocator, fft->filter);
  fft->roots = fft->chirp = fft->filter = NULL;
}

int64_t braid_fft_scratch(const braid_fft *fft) {
  return fft->padded ? 2 * fft->padded : fft->length;
}

/* --- by factors ----------------------------------------------------------------------------------------------------
 * A pass of radix r over r * rest * stride numbers: the transform of the r that lie `rest * stride` apart, turned. What
 * is then left are transforms of `rest`, r * stride of them side by side, in order. */
static void pass_4(const double *from, double *to, int64_t rest, int64_t stride, const double *roots) {
  int64_t apart = 2 * rest * stride;
  for (int64_t p = 0; p < rest; p++) {
    const double *turn[3] = {roots + 2 * p * stride, roots + 4 * p * stride, roots + 6 * p * stride};
    const double *a = from + 2 * p * stride;
    double *b = to + 8 * p * stride;
    for (int64_t q = 0; q < 2 * stride; q += 2) {
      double sum_re = a[q] + a[q + 2 * apart], sum_im = a[q + 1] + a[q + 2 * apart + 1];
      double odd_re = a[q + apart] + a[q + 3 * apart], odd_im = a[q + apart + 1] + a[q + 3 * apart + 1];
      double low_re = a[q] - a[q + 2 * apart], low_im = a[q + 1] - a[q + 2 * apart + 1];
      double side_re = a[q + apart + 1] - a[q + 3 * apart + 1], side_im = a[q + 3 * apart] - a[q + apart];
      double re[3] = {low_re + side_re, sum_re - odd_re, low_re - side_re};
      double im[3] = {low_im + side_im, sum_im - odd_im, low_im - side_im};
      b[q] = sum_re + odd_re;
      b[q + 1] = sum_im + odd_im;
      for (int k = 0; k < 3; k++) {
        double *out = b + q + 2 * (k + 1) * stride;
        out[0] = re[k] * turn[k][0] - im[k] * turn[k][1];
        out[1] = re[k] * turn[k][1] + im[k] * turn[k][0];
      }
    }
  }
}

/* `turn`: the roots of one of the radix, each `turn` places apart in `roots`. Numbers j and radix - j are multiplied by
 * conjugates: their sum by the real part, their difference by the imaginary one. */
static void pass_any(const double *from, double *to, int radix, int64_t rest, int64_t stride, int64_t turn,
                     const double *roots) {
  int64_t apart = 2 * rest * stride;
  for (int k = 0; k < radix; k++) {
    double w[kLargestRadix + 1]; /* to the middle one */
    for (int j = 1; 2 * j < radix; j++) memcpy(w + 2 * j, roots + 2 * (j * k % radix) * turn, 2 * sizeof *w);
    for (int64_t p = 0; p < rest; p++) {
      const double *last = roots + 2 * p * k * stride, *a = from + 2 * p * stride;
      double *b = to + 2 * (p * radix + k) * stride;
      for (int64_t q = 0; q < 2 * stride; q += 2) {
        double re = a[q], im = a[q + 1], side_re = 0, side_im = 0;
        for (int j = 1; 2 * j < radix; j++) {
          const double *x = a + q + j * apart, *y = a + q + (radix - j) * apart;
          re += w[2 * j] * (x[0] + y[0]);
          im += w[2 * j] * (x[1] + y[1]);
          side_re += w[2 * j + 1] * (x[1] - y[1]);
          side_im += w[2 * j + 1] * (x[0] - y[0]);
        }
        if (radix == 2) { /* the only even one */
          re += k ? -a[q + apart] : a[q + apart];
          im += k ? -a[q + apart + 1] : a[q + apart + 1];
        }
        re -= side_re;
        im += side_im;
        b[q] = re * last[0] - im * last[1];
        b[q + 1] = re * last[1] + im * last[0];
      }
    }
  }
}

static void run_factors(const braid_fft *fft, int64_t length, double *line, double *scratch) {
  double *from = line, *to = scratch;
  int64_t rest = length, stride = 1;
  for (int i = 0; i < fft->count; i++) {
    int radix = fft->radix[i];
    rest /= radix;
    if (radix == 4)
      pass_4(from, to, rest, stride, fft->roots);
    else
      pass_any(from, to, radix, rest, stride, length / radix, fft->roots);
    stride *= radix;
    double *done = to;
    to = from;
    from = done;
  }
  if (from != line) memcpy(line, from, (size_t)length * 2 * sizeof *line);
}

/* --- as a convolution ----------------------------------------------------------------------------------------------
 * With jk = (j^2 + k^2 - (k - j)^2) / 2, bin k is c[k] times the sum of line[j] c[j] / c[k - j], c[j] = e^(-pi i j^2 /
 * length). The backward transform is a forward one of conjugates. */
static void run_convolution(const braid_fft *fft, double *line, double *scratch) {
  const double *c = fft->chirp, *filter = fft->filter;
  double *a = scratch, *more = scratch + 2 * fft->padded;
  memset(a, 0, (size_t)fft->padded * 2 * sizeof *a);
  for (int64_t i = 0; i < 2 * fft->length; i += 2) {
    a[i] = line[i] * c[i] - line[i + 1] * c[i + 1];
    a[i + 1] = line[i] * c[i + 1] + line[i + 1] * c[i];
  }
  run_factors(fft, fft->padded, a, more);
  for (int64_t i = 0; i < 2 * fft->padded; i += 2) {
    double re = a[i] * filter[i] - a[i + 1] * filter[i + 1];
    a[i + 1] = -(a[i] * filter[i + 1] + a[i + 1] * filter[i]);
    a[i] = re;
  }
  run_factors(fft, fft->padded, a, more);
  for (int64_t i = 0; i < 2 * fft->length; i += 2) {
    line[i] = a[i] * c[i] + a[i + 1] * c[i + 1];
    line[i + 1] = a[i] * c[i + 1] - a[i + 1] * c[i];
  }
}

void braid_fft_run(const braid_fft *fft, double *line, double *scratch) {
  if (fft->padded)
    run_convolution(fft, line, scratch);
  else
    run_factors(fft, fft->length, line, scratch);
}

void braid_fft_fill(braid_fft *fft) {
  int64_t count = fft->padded ? fft->padded : fft->length;
  for (int64_t i = 0; i < count; i++) {
    double angle = 2 * M_PI * (double)i / (double)count;
    fft->roots[2 * i] = cos(angle);
    fft->roots[2 * i + 1] = -sin(angle);
  }
  if (!fft->padded) return;
  double scale = 1 / (double)fft->padded;
  for (int64_t i = 0; i < fft->length; i++) {
    double angle = M_PI * (double)(i * i % (2 * fft->length)) / (double)fft->length; /* i < 2^26 */
    fft->chirp[2 * i] = cos(angle);
    fft->chirp[2 * i + 1] = -sin(angle);
    int64_t mirrored = i ? fft->padded - i : 0;
    fft->filter[2 * i] = fft->filter[2 * mirrored] = scale * cos(angle);
    fft->filter[2 * i + 1] = fft->filter[2 * mirrored + 1] = scale * sin(angle);
  }
  run_factors(fft, fft->padded, fft->filter, fft->filter + 2 * fft->padded);
}
