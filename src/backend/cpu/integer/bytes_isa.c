#include "backend/cpu/integer/bytes_isa.h"

#include "graph/integer.h"

void BRAID_ISA_NAME(braid_integer_rectify)(const int8_t *x, int64_t count, int8_t *y) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

void BRAID_ISA_NAME(braid_integer_pass_within)(const int8_t *e, const int8_t *y, int64_t count, int32_t most,
                                               int8_t *to) {
  int8_t end = (int8_t)most;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] = ((y[i] > 0) & (y[i] < end)) ? e[i] : 0;
}

void BRAID_ISA_NAME(braid_integer_add_bytes)(const int8_t *a, const int8_t *b, int64_t count, int32_t low, int32_t high,
                                             int8_t *y) {
  int16_t least = (int16_t)low, most = (int16_t)high;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    int16_t sum = (int16_t)(a[i] + b[i]);
    y[i] = (int8_t)(sum > most ? most : sum < least ? least : sum);
  }
}

uint32_t BRAID_ISA_NAME(braid_integer_sum_errors)(const int8_t *large, const int8_t *small, int64_t count, int apart,
                                                  int32_t kept, int32_t *raw) {
  uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
  for (int64_t i = 0; i < count; i++) {
    int32_t v = large[i] * ((int32_t)1 << apart) + (small[i] & kept);
    raw[i] = v;
    bits |= (uint32_t)(v < 0 ? -v : v);
  }
  return bits;
}

/* round(v, shift) without a number above 32 bits: the floor and the highest bit that it drops. */
#define DEFINE_SCALE(name, type)                                                                                       \
  void BRAID_ISA_NAME(name)(const type *v, int64_t count, int shift, int32_t most, int8_t *to) {                       \
    int32_t half = shift > 0;                                                                                          \
    int below = shift > 0 ? shift - 1 : 0;                                                                             \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                          \
      int32_t value = v[i], rounded = (value >> shift) + ((value >> below) & half);                                    \
      to[i] = (int8_t)(rounded > most ? most : rounded < -most ? -most : rounded);                                     \
    }                                                                                                                  \
  }
DEFINE_SCALE(braid_integer_scale_i8, int8_t)
DEFINE_SCALE(braid_integer_scale_i16, int16_t)
#undef DEFINE_SCALE

/* r is added to the bits that the shift drops, and what that carries to the rest: 32 bits suffice. `offsets` are those
 * of the elements' numbers from `first`. */
static inline void scale_randomly(const int32_t *v, int64_t count, uint32_t first, const uint32_t *offsets, int d,
                                  int32_t most, int8_t *to) {
  uint32_t dropped = ((uint32_t)1 << d) - 1;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    uint32_t u = braid_integer_mix(first + offsets[i]);
    int32_t rounded = (v[i] >> d) + (int32_t)((((uint32_t)v[i] & dropped) + (u >> (32 - d))) >> d);
    to[i] = (int8_t)(rounded > most ? most : rounded < -most ? -most : rounded);
  }
}

/* As many elements at a time as vectors of bytes hold: several rows where these are short. */
void BRAID_ISA_NAME(braid_integer_scale_randomly)(const int32_t *v, int64_t rows, int64_t length, uint32_t first,
                                                  uint32_t step, int d, int32_t most, int8_t *to) {
  enum { kTogether = 64 };
  uint32_t offsets[kTogether];
  if (length > 0 && kTogether % length == 0) {
    for (int64_t i = 0; i < kTogether; i++) offsets[i] = (uint32_t)(i / length) + (uint32_t)(i % length) * step;
    int64_t some = kTogether / length;
    for (; rows >= some; rows -= some, first += (uint32_t)some, v += kTogether, to += kTogether)
      scale_randomly(v, kTogether, first, offsets, d, most, to);
  }
  for (int64_t i = 0; i < kTogether; i++) offsets[i] = (uint32_t)i * step;
  for (; rows > 0; rows--, first++, v += length, to += length)
    for (int64_t i = 0; i < length; i += kTogether)
      scale_randomly(v + i, length - i < kTogether ? length - i : kTogether, first + (uint32_t)i * step, offsets, d,
                     most, to + i);
}

/* --- update --------------------------------------------------------------------------------------------------------
 */
/* Philox4x32-10 (base/philox.h) of as many counters at once as there are draws of four. */
void BRAID_ISA_NAME(braid_integer_draw)(uint64_t seed, uint32_t step, uint32_t stream, uint64_t first, uint32_t *u) {
  enum { kCounters = BRAID_INTEGER_DRAWS / 4 };
  uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int i = 0; i < kCounters; i++) {
    uint64_t counter = first / 4 + (uint64_t)i;
    c0[i] = (uint32_t)counter, c1[i] = (uint32_t)(counter >> 32), c2[i] = step, c3[i] = stream;
  }
  for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
#pragma omp simd
    for (int i = 0; i < kCounters; i++) {
      uint64_t p0 = (uint64_t)0xd2511f53u * c0[i], p1 = (uint64_t)0xcd9e8d57u * c2[i];
      c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = (uint32_t)p1;
      c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = (uint32_t)p0;
    }
  for (int i = 0; i < kCounters; i++)
    u[4 * i] = c0[i], u[4 * i + 1] = c1[i], u[4 * i + 2] = c2[i], u[4 * i + 3] = c3[i];
}

/* (g + r) >> t, in 32 bits as above. */
#define DEFINE_UPDATE(name, type)                                                                                      \
  void BRAID_ISA_NAME(name)(const type *p, const int32_t *g, const uint32_t *u, int64_t count, int t, int32_t most,    \
                            type *to) {                                                                                \
    uint32_t dropped = ((uint32_t)1 << t) - 1;                                                                         \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                          \
      uint32_t carry = (((uint32_t)g[i] & dropped) + (u[i] >> (32 - t))) >> t;                                         \
      int32_t by = (g[i] >> t) + (int32_t)carry;                                                                       \
      int32_t value = p[i] - (by > most ? most : by < -most ? -most : by);                                             \
      to[i] = (type)(value > most ? most : value < -most ? -most : value);                                             \
    }                                                                                                                  \
  }
DEFINE_UPDATE(braid_integer_update_i8, int8_t)
DEFINE_UPDATE(braid_integer_update_i16, int16_t)
#undef DEFINE_UPDATE

/* --- momentum ------------------------------------------------------------------------------------------------------
 */
/* What a gradient adds to a momentum. */
static void add_gradient(const int32_t *g, const uint32_t *u, int64_t count, int t, int32_t *q) {
  enum { kMost = 32767 };
  uint32_t dropped = t > 0 ? ((uint32_t)1 << t) - 1 : 0;
  if (t > 0)
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      uint32_t carry = (((uint32_t)g[i] & dropped) + (u[i] >> (32 - t))) >> t;
      int32_t by = (g[i] >> t) + (int32_t)carry;
      q[i] = by > kMost ? kMost : by < -kMost ? -kMost : by;
    }
  else
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      int32_t by = (g[i] > kMost ? kMost : g[i] < -kMost ? -kMost : g[i]) * (1 << -t);
      q[i] = by > kMost ? kMost : by < -kMost ? -kMost : by;
    }
}

#define DEFINE_MOMENTUM(name, type)                                                                                    \
  void BRAID_ISA_NAME(name)(const braid_integer_momentum *m, const type *p, const int16_t *v, const int32_t *g,        \
                            const uint32_t *u, int64_t count, type *to, int16_t *v_to) {                               \
    int32_t q[BRAID_INTEGER_DRAWS], most = m->most;                                                                    \
    uint32_t mask = ((uint32_t)1 << m->f) - 1, key = m->key;                                                           \
    int left = m->decay_shift > 0 ? m->decay_shift : 0, right = m->decay_shift < 0 ? -m->decay_shift : 0, f = m->f;    \
    int64_t kept = m->decays ? -1 : 0;                                                                                 \
    add_gradient(g, u, count, m->t, q);                                                                                \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) {                                                          \
      uint32_t w = braid_integer_mix(key + (uint32_t)i);                                                               \
      int64_t decay = (p[i] * ((int64_t)1 << left) >> right) & kept;                                                   \
      int64_t sum = ((15 * 4096 * (int64_t)v[i] + decay + (w & 0xffff)) >> 16) + q[i];                                 \
      int32_t next = (int32_t)(sum > 32767 ? 32767 : sum < -32767 ? -32767 : sum);                                     \
      int32_t value = p[i] - ((next + (int32_t)(w >> 16 & mask)) >> f);                                                \
      v_to[i] = (int16_t)next;                                                                                         \
      to[i] = (type)(value > most ? most : value < -most ? -most : value);                                             \
    }                                                                                                                  \
  }
DEFINE_MOMENTUM(braid_integer_momentum_i8, int8_t)
DEFINE_MOMENTUM(braid_integer_momentum_i16, int16_t)
#undef DEFINE_MOMENTUM
