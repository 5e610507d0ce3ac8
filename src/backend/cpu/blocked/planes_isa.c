#include "backend/cpu/blocked/planes_isa.h"

#include <math.h>
#include <string.h>

enum { kLanes = BRAID_BLOCKED_LANES };

/* Rows or columns of kernel places that lie inside the input for output `o` of dimension `i`. */
typedef struct span {
  int64_t origin, first, last;
} span;

static span span_of(const braid_window *w, int i, int64_t o) {
  span s = {.origin = o * w->stride[i] - w->begin[i]};
  for (s.first = 0; s.first < w->kernel[i] && s.origin + s.first * w->dilation[i] < 0;) s.first++;
  for (s.last = w->kernel[i]; s.last > s.first && s.origin + (s.last - 1) * w->dilation[i] >= w->input[i];) s.last--;
  return s;
}

static int64_t source_of(const braid_window *w, const span *rows, const span *columns, int64_t kh, int64_t kw) {
  return (rows->origin + kh * w->dilation[1]) * w->input[2] + columns->origin + kw * w->dilation[2];
}

/* How many lanes of a plane may be touched: in blocks all of them, with channels last those that are its channels. */
static int lanes_of(const braid_blocked_pool *p, int64_t used) {
  return p->stride == kLanes || used >= kLanes ? kLanes : (int)used;
}

/* --- maxima --------------------------------------------------------------------------------------------------------
 */
static inline void take_larger(const float *x, float *y, int32_t *place, int32_t k, int lanes) {
#pragma omp simd
  for (int i = 0; i < lanes; i++) {
    bool better = x[i] > y[i] || x[i] != x[i]; /* NaN is larger than any number */
    y[i] = better ? x[i] : y[i];
    place[i] = better ? k : place[i];
  }
}

/* `lanes` is a constant where this is called with one, for the compiler to unroll. */
static inline void max_row(const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used, int lanes, float *y,
                           uint8_t *window) {
  const braid_window *w = &p->w;
  span rows = span_of(w, 1, oh);
  for (int64_t ow = 0; ow < w->output[2]; ow++) {
    span columns = span_of(w, 2, ow);
    float best[kLanes];
    int32_t place[kLanes];
    for (int i = 0; i < kLanes; i++) best[i] = -INFINITY;
    for (int i = 0; i < kLanes; i++) place[i] = (int32_t)(rows.first * w->kernel[2] + columns.first);
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = columns.first; kw < columns.last; kw++)
        take_larger(x + source_of(w, &rows, &columns, kh, kw) * p->stride, best, place,
                    (int32_t)(kh * w->kernel[2] + kw), lanes);
    for (int64_t i = used; i < lanes; i++) best[i] = 0, place[i] = 0;
    int64_t at = (oh * w->output[2] + ow) * p->stride;
    memcpy(y + at, best, (size_t)lanes * sizeof *best);
    for (int i = 0; window && i < lanes; i++) window[at + i] = (uint8_t)place[i];
  }
}

/* Vectors are no wider than a register: comparisons of wider ones go lane by lane. */
#if defined __AVX512F__
enum { kRegister = 64 };
#elif defined __AVX__
enum { kRegister = 32 };
#else
enum { kRegister = 16 };
#endif
enum { kParts = kLanes * sizeof(float) / kRegister };
typedef float braid_part __attribute__((vector_size(kRegister)));
typedef int32_t braid_part_bits __attribute__((vector_size(kRegister)));

static inline braid_part larger(braid_part x, braid_part y) {
  braid_part_bits better = (x > y) | (x != x); /* NaN is larger than any number */
  return (braid_part)(((braid_part_bits)x & better) | ((braid_part_bits)y & ~better));
}

/* Of `parts` registers of lanes, without places: the maxima stay in them. A constant where it is called with one. */
static inline void max_row_alone(const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used, int parts,
                                 float *y) {
  const braid_window *w = &p->w;
  span rows = span_of(w, 1, oh);
  for (int64_t ow = 0; ow < w->output[2]; ow++) {
    span columns = span_of(w, 2, ow);
    braid_part best[kParts];
    for (int i = 0; i < parts; i++) best[i] = (braid_part){0} - INFINITY;
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = columns.first; kw < columns.last; kw++) {
        const char *from = (const char *)(x + source_of(w, &rows, &columns, kh, kw) * p->stride);
        for (int i = 0; i < parts; i++) {
          braid_part part;
          memcpy(&part, from + i * kRegister, kRegister);
          best[i] = larger(part, best[i]);
        }
      }
    float *to = y + (oh * w->output[2] + ow) * p->stride;
    memcpy(to, best, (size_t)parts * kRegister);
    for (int64_t i = used; parts == (int)kParts && i < kLanes; i++) to[i] = 0;
  }
}

void BRAID_ISA_NAME(braid_blocked_max_row)(const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used,
                                           float *y, uint8_t *window) {
  int lanes = lanes_of(p, used);
  int whole = (int)kRegister / (int)sizeof(float);
  if (lanes == kLanes && !window)
    max_row_alone(p, x, oh, used, kParts, y);
  else if (lanes % whole == 0 && !window)
    max_row_alone(p, x, oh, used, lanes / whole, y);
  else if (lanes == kLanes)
    max_row(p, x, oh, used, kLanes, y, window);
  else
    max_row(p, x, oh, used, lanes, y, window);
}

static void clear_plane(const braid_blocked_pool *p, int lanes, float *dx) {
  int64_t places = braid_window_inputs(&p->w);
  if (p->stride == kLanes)
    memset(dx, 0, (size_t)(places * kLanes) * sizeof *dx);
  else
    for (int64_t i = 0; i < places; i++) memset(dx + i * p->stride, 0, (size_t)lanes * sizeof *dx);
}

/* dx of one plane: at every place of the kernel, dy where the maximum was there. */
static inline void max_grad_plane(const braid_blocked_pool *p, const float *dy, const uint8_t *window, int lanes,
                                  float *dx) {
  const braid_window *w = &p->w;
  for (int64_t oh = 0; oh < w->output[1]; oh++) {
    span rows = span_of(w, 1, oh);
    for (int64_t ow = 0; ow < w->output[2]; ow++, dy += p->stride, window += p->stride) {
      span columns = span_of(w, 2, ow);
      for (int64_t kh = rows.first; kh < rows.last; kh++)
        for (int64_t kw = columns.first; kw < columns.last; kw++) {
          float *target = dx + source_of(w, &rows, &columns, kh, kw) * p->stride;
          const uint8_t k = (uint8_t)(kh * w->kernel[2] + kw);
#pragma omp simd
          for (int i = 0; i < lanes; i++) target[i] += window[i] == k ? dy[i] : 0;
        }
    }
  }
}

void BRAID_ISA_NAME(braid_blocked_max_grad_plane)(const braid_blocked_pool *p, const float *dy, const uint8_t *window,
                                                  int64_t used, float *dx) {
  int lanes = lanes_of(p, used);
  clear_plane(p, lanes, dx);
  if (lanes == kLanes)
    max_grad_plane(p, dy, window, kLanes, dx);
  else
    max_grad_plane(p, dy, window, lanes, dx);
}

/* --- averages ------------------------------------------------------------------------------------------------------
 */
/* What an average divides by; a window that is all padding has the average 0. */
static float share_of(const braid_blocked_pool *p, const span *rows, const span *columns) {
  const braid_window *w = &p->w;
  int64_t count = (rows->last - rows->first) * (columns->last - columns->first);
  if (p->include_pad) {
    const span *spans[2] = {rows, columns};
    count = 1;
    for (int i = 0; i < 2; i++) {
      int64_t room = w->input[1 + i] + w->end[1 + i] - spans[i]->origin, dilation = w->dilation[1 + i];
      int64_t places = (room + dilation - 1) / dilation;
      count *= places < w->kernel[1 + i] ? places : w->kernel[1 + i];
    }
  }
  return count > 0 ? 1.0f / (float)count : 1.0f;
}

static inline void average_row(const braid_blocked_pool *p, const float *x, int64_t oh, int lanes, float *y) {
  const braid_window *w = &p->w;
  span rows = span_of(w, 1, oh);
  for (int64_t ow = 0; ow < w->output[2]; ow++) {
    span columns = span_of(w, 2, ow);
    float sum[kLanes] = {0};
    for (int64_t kh = rows.first; kh < rows.last; kh++)
      for (int64_t kw = columns.first; kw < columns.last; kw++) {
        const float *from = x + source_of(w, &rows, &columns, kh, kw) * p->stride;
#pragma omp simd
        for (int i = 0; i < lanes; i++) sum[i] += from[i];
      }
    float share = share_of(p, &rows, &columns), *to = y + (oh * w->output[2] + ow) * p->stride;
    for (int i = 0; i < lanes; i++) to[i] = sum[i] * share;
  }
}

void BRAID_ISA_NAME(braid_blocked_average_row)(const braid_blocked_pool *p, const float *x, int64_t oh, int64_t used,
                                               float *y) {
  int lanes = lanes_of(p, used);
  if (lanes == kLanes)
    average_row(p, x, oh, kLanes, y);
  else
    average_row(p, x, oh, lanes, y);
}

static inline void average_grad_plane(const braid_blocked_pool *p, const float *dy, int lanes, float *dx) {
  const braid_window *w = &p->w;
  for (int64_t oh = 0; oh < w->output[1]; oh++) {
    span rows = span_of(w, 1, oh);
    for (int64_t ow = 0; ow < w->output[2]; ow++, dy += p->stride) {
      span columns = span_of(w, 2, ow);
      float share = share_of(p, &rows, &columns);
      for (int64_t kh = rows.first; kh < rows.last; kh++)
        for (int64_t kw = columns.first; kw < columns.last; kw++) {
          float *target = dx + source_of(w, &rows, &columns, kh, kw) * p->stride;
#pragma omp simd
          for (int i = 0; i < lanes; i++) target[i] += dy[i] * share;
        }
    }
  }
}

void BRAID_ISA_NAME(braid_blocked_average_grad_plane)(const braid_blocked_pool *p, const float *dy, int64_t used,
                                                      float *dx) {
  int lanes = lanes_of(p, used);
  clear_plane(p, lanes, dx);
  if (lanes == kLanes)
    average_grad_plane(p, dy, kLanes, dx);
  else
    average_grad_plane(p, dy, lanes, dx);
}

/* --- bias and normalization ----------------------------------------------------------------------------------------
 */
void BRAID_ISA_NAME(braid_blocked_add_plane)(const float *dy, int64_t places, double *sums) {
  float part[4][kLanes] = {{0}};
  int64_t s = 0;
  for (; s + 4 <= places; s += 4, dy += 4 * kLanes)
    for (int p = 0; p < 4; p++)
#pragma omp simd
      for (int i = 0; i < kLanes; i++) part[p][i] += dy[p * kLanes + i];
  for (; s < places; s++, dy += kLanes)
    for (int i = 0; i < kLanes; i++) part[0][i] += dy[i];
  for (int i = 0; i < kLanes; i++) sums[i] += (double)(part[0][i] + part[1][i]) + (part[2][i] + part[3][i]);
}

/* Of x, or of (x - center)^2. */
void BRAID_ISA_NAME(braid_blocked_sum_plane)(const float *x, int64_t plane, const float *center, double *out) {
  float part[2][kLanes] = {{0}};
  for (int64_t s = 0; s < plane; s++, x += kLanes) {
    float *to = part[s & 1];
#pragma omp simd
    for (int i = 0; i < kLanes; i++) to[i] += center ? (x[i] - center[i]) * (x[i] - center[i]) : x[i];
  }
  for (int i = 0; i < kLanes; i++) out[i] = (double)part[0][i] + part[1][i];
}

/* Does y = x * a + b, behind a Relu, pass its error on? Not so without `gate`. */
static inline float passed(float dy, float x, const braid_blocked_gate *gate, int i) {
  return gate && x * gate->a[i] + gate->b[i] <= 0 ? 0 : dy;
}

static inline void sum_products(const float *dy, const float *x, int64_t plane, const float *center,
                                const braid_blocked_gate *gate, double *sums, double *products) {
  float part[kLanes] = {0}, product[kLanes] = {0};
  for (int64_t s = 0; s < plane; s++, x += kLanes, dy += kLanes)
#pragma omp simd
    for (int i = 0; i < kLanes; i++) {
      float d = passed(dy[i], x[i], gate, i);
      part[i] += d;
      product[i] += d * (x[i] - center[i]);
    }
  for (int i = 0; i < kLanes; i++) {
    sums[i] = part[i];
    products[i] = product[i];
  }
}

void BRAID_ISA_NAME(braid_blocked_sum_products)(const float *dy, const float *x, int64_t plane, const float *center,
                                                const braid_blocked_gate *gate, double *sums, double *products) {
  if (gate)
    sum_products(dy, x, plane, center, gate, sums, products);
  else
    sum_products(dy, x, plane, center, NULL, sums, products);
}

void BRAID_ISA_NAME(braid_blocked_scale_plane_relu)(const float *x, int64_t plane, const float *a, const float *b,
                                                    float *y) {
  for (int64_t s = 0; s < plane; s++, x += kLanes, y += kLanes)
#pragma omp simd
    for (int i = 0; i < kLanes; i++) {
      float v = x[i] * a[i] + b[i];
      y[i] = v < 0 ? 0 : v;
    }
}

void BRAID_ISA_NAME(braid_blocked_scale_plane)(const float *x, int64_t plane, const float *a, const float *b,
                                               float *y) {
  for (int64_t s = 0; s < plane; s++, x += kLanes, y += kLanes)
#pragma omp simd
    for (int i = 0; i < kLanes; i++) y[i] = x[i] * a[i] + b[i];
}

void BRAID_ISA_NAME(braid_blocked_scale_place)(const float *x, int64_t channels, const float *a, const float *b,
                                               float *y) {
#pragma omp simd
  for (int64_t i = 0; i < channels; i++) y[i] = x[i] * a[i] + b[i];
}

static inline void mix_plane(const float *dy, const float *x, int64_t plane, const float *a, const float *b,
                             const float *c, const braid_blocked_gate *gate, float *dx) {
  for (int64_t s = 0; s < plane; s++, x += kLanes, dy += kLanes, dx += kLanes)
#pragma omp simd
    for (int i = 0; i < kLanes; i++) dx[i] = passed(dy[i], x[i], gate, i) * a[i] + x[i] * b[i] + c[i];
}

void BRAID_ISA_NAME(braid_blocked_mix_plane)(const float *dy, const float *x, int64_t plane, const float *a,
                                             const float *b, const float *c, const braid_blocked_gate *gate,
                                             float *dx) {
  if (gate)
    mix_plane(dy, x, plane, a, b, c, gate, dx);
  else
    mix_plane(dy, x, plane, a, b, c, NULL, dx);
}
