/* Training in integers, element by element: docs/integer-training.md, whose names these are. A work-item takes LANES
 * neighbours. Results may lie over operands where the host says so. P: type of a parameter. RAW: of a raw result, with
 * RAW_LONG where that is long. */
#include "common.clh"
#include "integer.clh"

#ifndef LANES
#define LANES 4
#endif

/* LANES elements, of which `there` exist. */
#define LANES_OF(T) LANES_OF_(T)
#define LANES_OF_(T)                                                                                                   \
  typedef INTEGER_JOIN(T, LANES) T##_lanes;                                                                            \
  T##_lanes load_##T(GLOBAL const T *from, index_t there) {                                                            \
    if (there >= LANES) return INTEGER_JOIN(vload, LANES)(0, from);                                                    \
    T part[LANES];                                                                                                     \
    for (int i = 0; i < LANES; i++) part[i] = i < there ? from[i] : 0;                                                 \
    return INTEGER_JOIN(vload, LANES)(0, part);                                                                        \
  }                                                                                                                    \
  void store_##T(T##_lanes x, GLOBAL T *to, index_t there) {                                                           \
    if (there >= LANES) {                                                                                              \
      INTEGER_JOIN(vstore, LANES)(x, 0, to);                                                                           \
      return;                                                                                                          \
    }                                                                                                                  \
    T part[LANES];                                                                                                     \
    INTEGER_JOIN(vstore, LANES)(x, 0, part);                                                                           \
    for (int i = 0; i < LANES; i++)                                                                                    \
      if (i < there) to[i] = part[i];                                                                                  \
  }
LANES_OF(char)
LANES_OF(int)
#define TO_CHARS INTEGER_JOIN(convert_char, LANES)
#define TO_INTS INTEGER_JOIN(convert_int, LANES)
#define TO_UINTS INTEGER_JOIN(convert_uint, LANES)
#define LOAD_LANES(T, from) INTEGER_JOIN(load_, T)(from, there)
#define STORE_LANES(T, x, to) INTEGER_JOIN(store_, T)(x, to, there)
#define FIRST                                                                                                          \
  const index_t first = (index_t)get_global_id(0) * LANES, there = count - first;                                      \
  if (there <= 0) return;

/* Bitwise or of all lanes. */
uint or_of_lanes(INTEGER_JOIN(uint, LANES) x) {
  uint part[LANES], all = 0;
  INTEGER_JOIN(vstore, LANES)(x, 0, part);
  for (int i = 0; i < LANES; i++) all |= part[i];
  return all;
}

/* Before what adds to a magnitude of so many words. */
KERNEL clear(OUT(uint) words, int count) {
  for (int i = get_global_id(0); i < count; i += GROUP) words[i] = 0;
}

/* --- values ------------------------------------------------------------------------------------------------------- */
#ifdef INPUT
LANES_OF(float)
/* scale: a power of two, so that x * scale is exact. What is beyond 1000 either way is beyond the ends. */
KERNEL input(IN(float) x, OUT(char) a, index_t count, float scale, int most) {
  FIRST
  const float_lanes given = LOAD_LANES(float, x + first), value = fmin(fmax(given * scale, -1000.0f), 1000.0f);
  const float_lanes whole = floor(value), rest = value - whole;
  int_lanes rounded = TO_INTS(whole) + ((rest >= 0.5f) & 1);
  rounded = CHOOSE(isnan(given), (int_lanes)(0), rounded);
  STORE_LANES(char, TO_CHARS(CLIP(rounded, -most, most)), a + first);
}
#endif

#ifdef P
#ifndef P_CHAR
LANES_OF(P)
#endif
KERNEL quantize(IN(P) v, OUT(char) w, index_t count, int shift, int most) {
  FIRST
  const int_lanes value = TO_INTS(LOAD_LANES(P, v + first));
  const int_lanes rounded = shift > 0 ? ROUND_DOWN(value, shift) : value;
  STORE_LANES(char, TO_CHARS(CLIP(rounded, -most, most)), w + first);
}
#endif

KERNEL relu(GLOBAL const char *x, GLOBAL char *y, index_t count) {
  FIRST
  STORE_LANES(char, max(LOAD_LANES(char, x + first), (char_lanes)(0)), y + first);
}

/* e where 0 < y < most, else 0, of all lanes. */
#define PASS(e, y, most)                                                                                               \
  CHOOSE(((y) > (char_lanes)(0)) & ((y) < (char_lanes)((char)(most))), e, (char_lanes)(0))

#ifdef SAMPLES
/* Images in samples: a work-item takes 16 neighbours. */
KERNEL relu_grad(GLOBAL const char *e, GLOBAL const char *y, GLOBAL char *out, index_t count, int most) {
  const index_t item = get_global_id(0);
  if (item >= count / 16) return;
  const uint4 error = ((GLOBAL const uint4 *)e)[item], value = ((GLOBAL const uint4 *)y)[item];
  uint words[4];
  words[0] = pass_four(error.s0, value.s0, (uint)most), words[1] = pass_four(error.s1, value.s1, (uint)most);
  words[2] = pass_four(error.s2, value.s2, (uint)most), words[3] = pass_four(error.s3, value.s3, (uint)most);
  ((GLOBAL uint4 *)out)[item] = vload4(0, words);
}
#else
KERNEL relu_grad(GLOBAL const char *e, GLOBAL const char *y, GLOBAL char *out, index_t count, int most) {
  FIRST
  const char_lanes error = LOAD_LANES(char, e + first), value = LOAD_LANES(char, y + first);
  STORE_LANES(char, PASS(error, value, most), out + first);
}
#endif

KERNEL add(GLOBAL const char *a, GLOBAL const char *b, GLOBAL char *y, index_t count, int least, int most) {
  FIRST
  const int_lanes sum = TO_INTS(LOAD_LANES(char, a + first)) + TO_INTS(LOAD_LANES(char, b + first));
  STORE_LANES(char, TO_CHARS(CLIP(sum, least, most)), y + first);
}

/* h of the contract, of all lanes. */
INTEGER_JOIN(uint, LANES) integer_mix(INTEGER_JOIN(uint, LANES) h) {
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return h ^ h >> 16;
}

/* Of one. */
uint mix_word(uint h) {
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return h ^ h >> 16;
}

/* --- random bits -------------------------------------------------------------------------------------------------- */
#ifdef COUNTERS
/* Philox4x32-10 for COUNTERS counters from `counter` on: bits[4 * i + j] is word j of counter i. */
#if COUNTERS > 1
typedef INTEGER_JOIN(uint, COUNTERS) words;
#else
typedef uint words;
#endif
void philox(ulong seed, uint step, uint stream, ulong counter, uint bits[4 * COUNTERS]) {
  uint low[COUNTERS], high[COUNTERS], word[4][COUNTERS];
  for (int i = 0; i < COUNTERS; i++) {
    low[i] = (uint)(counter + i);
    high[i] = (uint)((counter + i) >> 32);
  }
#if COUNTERS > 1
  words c0 = INTEGER_JOIN(vload, COUNTERS)(0, low), c1 = INTEGER_JOIN(vload, COUNTERS)(0, high);
#else
  words c0 = low[0], c1 = high[0];
#endif
  words c2 = (words)(step), c3 = (words)(stream);
  uint k0 = (uint)seed, k1 = (uint)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const words high0 = mul_hi((words)(0xd2511f53u), c0), low0 = 0xd2511f53u * c0;
    const words high1 = mul_hi((words)(0xcd9e8d57u), c2), low1 = 0xcd9e8d57u * c2;
    c0 = high1 ^ c1 ^ k0, c1 = low1;
    c2 = high0 ^ c3 ^ k1, c3 = low0;
    k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
  }
#if COUNTERS > 1
  INTEGER_JOIN(vstore, COUNTERS)(c0, 0, word[0]);
  INTEGER_JOIN(vstore, COUNTERS)(c1, 0, word[1]);
  INTEGER_JOIN(vstore, COUNTERS)(c2, 0, word[2]);
  INTEGER_JOIN(vstore, COUNTERS)(c3, 0, word[3]);
#else
  word[0][0] = c0, word[1][0] = c1, word[2][0] = c2, word[3][0] = c3;
#endif
  for (int i = 0; i < COUNTERS; i++)
    for (int j = 0; j < 4; j++) bits[4 * i + j] = word[j][i];
}

/* The random bits of the first element, from which those that round errors follow; `first`: its number. */
uint first_key(long step, int seed_low, int seed_high, int stream, int first) {
  uint u[4 * COUNTERS];
  philox((ulong)(uint)seed_high << 32 | (uint)seed_low, (uint)step, (uint)stream, 0, u);
  return u[0] + (uint)first;
}
/* `key`, which all work-items of a group come by, is computed by one of them. */
#define FIND_KEY(key, step, first)                                                                                     \
  if (get_local_id(0) == 0) key = first_key((step)[0], seed_low, seed_high, stream, first);                            \
  barrier(CLK_LOCAL_MEM_FENCE);
#endif

/* --- errors ------------------------------------------------------------------------------------------------------- */
KERNEL error_sum(IN(char) a, IN(int) a_exponent, IN(char) b, IN(int) b_exponent, OUT(int) raw, OUT(int) magnitude,
                 OUT(int) exponent, index_t count) {
  SHARED uint parts[GROUP];
  const index_t first = (index_t)get_global_id(0) * LANES, there = count - first;
  const long xa = a_exponent[0], xb = b_exponent[0], more = max(xa, xb), apart = more - min(xa, xb);
  const int shift = (int)min(apart, 16L), kept = apart <= 16;
  uint bits = 0;
  if (there > 0) {
    const int_lanes ea = TO_INTS(LOAD_LANES(char, a + first)), eb = TO_INTS(LOAD_LANES(char, b + first));
    const int_lanes sum = xb > xa ? eb * (1 << shift) + ea * kept : ea * (1 << shift) + eb * kept;
    STORE_LANES(int, sum, raw + first);
    bits = or_of_lanes(abs(sum));
  }
  ADD_TO_MAGNITUDE_INT(magnitude, bits, parts)
  if (get_global_id(0) == 0) exponent[0] = (int)(more - shift);
}

#ifdef RAW
#ifdef RAW_LONG
LANES_OF(long)
#define TO_RAWS(x) INTEGER_JOIN(convert_long, LANES)(x)
#define WITHIN_RAW(x) clamp(x, -MOST_RAW, MOST_RAW)
#else
#define TO_RAWS(x) (x)
#define WITHIN_RAW(x) (x)
#endif
#ifdef MAGNITUDE
KERNEL magnitude(IN(RAW) raw, OUT(RAW) magnitude, index_t count) {
  SHARED uint parts[GROUP];
  const index_t first = (index_t)get_global_id(0) * LANES;
  ulong bits = 0;
  for (int i = 0; i < LANES; i++)
    if (first + i < count) bits |= abs(raw[first + i]);
#ifdef RAW_LONG
  ADD_TO_MAGNITUDE_LONG(magnitude, bits, parts)
#else
  ADD_TO_MAGNITUDE_INT(magnitude, (uint)bits, parts)
#endif
}
#endif

/* Rounded at random by bits that follow from the key. d is below zero for magnitudes of few bits: then numbers beyond
 * 256 are beyond `most` before they are shifted, too. */
#ifdef COUNTERS
#ifdef SAMPLES
/* Images [channels / 16][place][sample][16]: a work-item takes 16 channels, which are on their way while the key is
 * found. The key counts in the plain order. */
KERNEL scale_error(IN(RAW) raw, IN(RAW) magnitude, IN(int) exponent, IN(long) step, IN(char) y,
                   OUT(char) e, OUT(int) scaled, index_t count, int passed, int bits, int offset, int seed_low,
                   int seed_high, int stream, int key_first, index_t batch, index_t channels, index_t positions) {
  SHARED uint key;
  const index_t item = get_global_id(0), place = item / batch % positions, first = item / batch / positions * 16;
  const bool there = item < count / 16;
  RAW part[16];
  _Pragma("unroll") for (int w = 0; w < 4; w++) if (there)
      vstore4(((GLOBAL const INTEGER_JOIN(RAW, 4) *)raw)[item * 4 + w], w, part);
#ifdef RECTIFIED
  uint value_of[4];
  if (there) vstore4(((GLOBAL const uint4 *)y)[item], 0, value_of);
#endif
  FIND_KEY(key, step, key_first)
  const int width = integer_width((ulong)clamp((long)magnitude[0], 0L, MOST_RAW));
  const int d = width - (bits - 1), most = (1 << (bits - 1)) - 1;
  if (item == 0) scaled[0] = (int)((long)exponent[0] + offset + d);
  if (!there) return;
  const uint number = key + ((uint)(item % batch) * (uint)channels + (uint)first) * (uint)positions + (uint)place;
  uint words[4];
  _Pragma("unroll") for (int w = 0; w < 4; w++) {
    words[w] = 0;
    _Pragma("unroll") for (int i = 0; i < 4; i++) {
      RAW value = WITHIN_RAW(part[4 * w + i]);
      const uint u = mix_word(number + (uint)(4 * w + i) * (uint)positions);
      if (d <= 0) {
        value = clamp(value, (RAW)-256, (RAW)256) * (RAW)(1 << -d);
      } else {
#ifdef RAW_LONG
        value = (value + (d <= 32 ? (long)u >> (32 - d) : (long)u << (d - 32))) >> d;
#else
        value = (value >> d) + (((value & ((1 << d) - 1)) + (int)(u >> (32 - d))) >> d);
#endif
      }
      words[w] |= (uint)(uchar)(char)CLIP(value, (RAW)-most, (RAW)most) << 8 * i;
    }
#ifdef RECTIFIED
    words[w] = pass_four(words[w], value_of[w], (uint)passed);
#endif
  }
  vstore4(vload4(0, words), item, (GLOBAL uint *)e);
}
#else
KERNEL scale_error(IN(RAW) raw, IN(RAW) magnitude, IN(int) exponent, IN(long) step, IN(char) y, OUT(char) e,
                   OUT(int) scaled, index_t count, int passed, int bits, int offset, int seed_low, int seed_high,
                   int stream, int key_first) {
  SHARED uint key;
  FIND_KEY(key, step, key_first)
  const int width = integer_width((ulong)clamp((long)magnitude[0], 0L, MOST_RAW));
  const int d = width - (bits - 1), most = (1 << (bits - 1)) - 1;
  if (get_global_id(0) == 0) scaled[0] = (int)((long)exponent[0] + offset + d);
  FIRST
  INTEGER_JOIN(RAW, _lanes) value = WITHIN_RAW(LOAD_LANES(RAW, raw + first));
  if (d > 0) {
    uint element[LANES];
    for (int i = 0; i < LANES; i++) element[i] = key + (uint)first + i;
    const INTEGER_JOIN(uint, LANES) u = integer_mix(INTEGER_JOIN(vload, LANES)(0, element));
#ifdef RAW_LONG
    const long_lanes long_u = INTEGER_JOIN(convert_long, LANES)(u);
    value = (value + (d <= 32 ? long_u >> (32 - d) : long_u << (d - 32))) >> d;
#else
    const int_lanes below = (value & ((1 << d) - 1)) + INTEGER_JOIN(convert_int, LANES)(u >> (uint)(32 - d));
    value = (value >> d) + (below >> d); /* their sum may have 33 bits */
#endif
  } else {
    value = clamp(value, (RAW)-256, (RAW)256) * (RAW)(1 << -d);
  }
  char_lanes error = TO_CHARS(CLIP(value, (RAW)-most, (RAW)most));
#ifdef RECTIFIED
  error = PASS(error, LOAD_LANES(char, y + first), passed);
#endif
  STORE_LANES(char, error, e + first);
}
#endif
#endif
#endif

/* --- loss: one group ---------------------------------------------------------------------------------------------- */
KERNEL squared_error(IN(char) y, IN(int) labels, OUT(long) loss, OUT(int) raw, OUT(int) magnitude, index_t count,
                     index_t classes, int most) {
  SHARED uint parts[GROUP];
  SHARED long sums[GROUP];
  long sum = 0;
  uint bits = 0;
  for (index_t i = get_local_id(0); i < count; i += GROUP) {
    const bool right = i % classes == (index_t)labels[i / classes];
#ifdef HINGE
    const int error = right ? min(y[i] - most, 0) : max((int)y[i], 0);
#else
    const int error = y[i] - (right ? most : 0);
#endif
    sum += error * error;
    bits |= abs(error);
#ifdef WITH_RAW
    raw[i] = error;
#endif
  }
  bits = OR_OF_GROUP(bits, parts);
  SUM_OF_GROUP(long, sum, sums)
  if (get_local_id(0) > 0) return;
  loss[0] = sum;
#ifdef WITH_MAGNITUDE
  magnitude[0] = (int)bits;
#endif
}

/* --- update ------------------------------------------------------------------------------------------------------- */
#ifdef UPDATE
/* A few are unrolled, so that they stay in registers. */
#if COUNTERS > 1
#define EACH_OF(i, there) for (int i = 0; i < there; i++)
#else
#define EACH_OF(i, there)                                                                                              \
  _Pragma("unroll") for (int i = 0; i < 4; i++)                                                                        \
    if (i < there)
#endif
/* Neighbours from `first` on, of which `there` exist, into an array and back: four at a time where they are whole. Memory
 * objects begin where fours may. */
#define FOUR_OF(T, at) (*(GLOBAL INTEGER_JOIN(T, 4) *)(at))
#define TAKE_FOURS(T, from, parts)                                                                                     \
  if (there == 4 * COUNTERS) {                                                                                         \
    for (int i = 0; i < COUNTERS; i++)                                                                                 \
      vstore4(*(GLOBAL const INTEGER_JOIN(T, 4) *)((from) + first + 4 * i), i, parts);                                 \
  } else {                                                                                                             \
    for (int i = 0; i < there; i++) parts[i] = (from)[first + i];                                                      \
  }
#define PUT_FOURS(T, parts, to)                                                                                        \
  if (there == 4 * COUNTERS) {                                                                                         \
    for (int i = 0; i < COUNTERS; i++) FOUR_OF(T, (to) + first + 4 * i) = vload4(i, parts);                            \
  } else {                                                                                                             \
    for (int i = 0; i < there; i++) (to)[first + i] = parts[i];                                                        \
  }

/* A work-item takes 4 * COUNTERS neighbours. */
KERNEL update(GLOBAL const P *parameter, IN(RAW) gradient, IN(RAW) magnitude, IN(int) rate, IN(long) step,
              GLOBAL P *out, index_t count, int bits, int slower, int seed_low, int seed_high, int stream) {
  const index_t first = (index_t)get_global_id(0) * (4 * COUNTERS), there = min(count - first, (index_t)(4 * COUNTERS));
  if (there <= 0) return;
  const ulong seed = (ulong)(uint)seed_high << 32 | (uint)seed_low;
  const int width = integer_width((ulong)clamp((long)magnitude[0], 0L, MOST_RAW)), most = (1 << (bits - 1)) - 1;
  const int t = min(width - clamp(rate[0], -8, 8) - (bits - 8) + slower, 62);
  const int right = t <= 32 ? 32 - t : 0, left = t <= 32 ? 0 : t - 32;
  uint u[4 * COUNTERS];
  if (t > 0) philox(seed, (uint)step[0], (uint)stream, (ulong)(first / 4), u);
  EACH_OF(i, there) {
    const long g = clamp((long)gradient[first + i], -MOST_RAW, MOST_RAW);
    const long by = t > 0 ? (g + (((long)u[i] >> right) << left)) >> t : g * (1L << -min(t, 0));
    const int p = parameter[first + i] - (int)clamp(by, (long)-most, (long)most);
    out[first + i] = (P)clamp(p, -most, most);
  }
}

/* Sums of 15 * 2^12 * V, of a decayed parameter below 2^26 and of 16 random bits fit 32 bits. */
#ifdef P_CHAR
#define NARROW_DECAY 19
#else
#define NARROW_DECAY 11
#endif

/* q of the contract, by 32 bits for raw ones of 32 and t below them: the sum with r is that of what is above t and of
 * what is below. */
int momentum_step(RAW gradient, uint u, int t) {
#ifndef RAW_LONG
  if (t <= 0) return clamp(clamp(gradient, -32767, 32767) * (1 << -t), -32767, 32767);
  if (t < 32) {
    const int q = (gradient >> t) + (int)((((uint)gradient & ((1u << t) - 1)) + (u >> (32 - t))) >> t);
    return clamp(q, -32767, 32767);
  }
#endif
  const long g = clamp((long)gradient, -MOST_RAW, MOST_RAW);
  const long q = t <= 0 ? g * (1L << -t) : (g + (t <= 32 ? (long)u >> (32 - t) : (long)u << (t - 32))) >> t;
  return (int)clamp(q, -32767L, 32767L);
}

/* What is loaded is on its way while the key is found. */
KERNEL momentum(GLOBAL const P *parameter, GLOBAL const short *momentum, IN(RAW) gradient, IN(int) exponent,
                IN(int) rate, IN(long) step, GLOBAL P *out, GLOBAL short *momentum_out, index_t count, int bits,
                int place, int decay, int seed_low, int seed_high, int stream) {
  SHARED uint key;
  const index_t first = (index_t)get_global_id(0) * (4 * COUNTERS), there = min(count - first, (index_t)(4 * COUNTERS));
  P p_of[4 * COUNTERS];
  short momentum_of[4 * COUNTERS];
  RAW gradient_of[4 * COUNTERS];
  TAKE_FOURS(P, parameter, p_of)
  TAKE_FOURS(short, momentum, momentum_of)
  TAKE_FOURS(RAW, gradient, gradient_of)
  FIND_KEY(key, step, 0)
  if (there <= 0) return;
  const ulong seed = (ulong)(uint)seed_high << 32 | (uint)seed_low;
  const int most = (1 << (bits - 1)) - 1, eta = clamp(rate[0], -16, 8), f = 20 - bits;
  const int t = (int)clamp((long)place - eta - exponent[0], -16L, 62L), decay_shift = 36 - bits - decay + eta;
  uint u[4 * COUNTERS];
  if (t > 0) philox(seed, (uint)step[0], (uint)stream, (ulong)(first / 4), u);
  EACH_OF(i, there) {
    const uint w = mix_word(key + (uint)(first + i));
    const int p = p_of[i];
    int kept;
    if (!decay || decay_shift <= NARROW_DECAY) {
      const int decayed = decay ? p * (1 << max(decay_shift, 0)) >> -min(decay_shift, 0) : 0;
      kept = (15 * 4096 * momentum_of[i] + decayed + (int)(w & 0xffff)) >> 16;
    } else {
      kept = (int)((15 * 4096 * (long)momentum_of[i] + (long)p * (1L << decay_shift) + (w & 0xffff)) >> 16);
    }
    const int v = clamp(kept + momentum_step(gradient_of[i], u[i], t), -32767, 32767);
    momentum_of[i] = (short)v;
    p_of[i] = (P)clamp(p - ((v + (int)(w >> 16 & ((1u << f) - 1))) >> f), -most, most);
  }
  PUT_FOURS(short, momentum_of, momentum_out)
  PUT_FOURS(P, p_of, out)
}
#endif

/* --- digest ------------------------------------------------------------------------------------------------------- */
#ifdef NUMBER
#define DIGEST_WEIGHT(place) (mix_word((uint)(place)) | 1)

#ifdef NUMBER_LONG
#define DIGEST_NUMBER(x) ((uint)(x) + 0x9e3779b1u * (uint)((ulong)(x) >> 32))
#else
#define DIGEST_NUMBER(x) ((uint)(x))
#endif

/* A group takes `run` places of a sample; `runs` groups a sample; `first`: the number of the first sample. */
KERNEL digest(IN(NUMBER) x, OUT(uint) digests, int which, int first, index_t places, index_t run, index_t runs) {
  SHARED uint parts[GROUP];
  const index_t sample = get_group_id(0) / runs, begin = get_group_id(0) % runs * run, end = min(begin + run, places);
  IN(NUMBER) from = x + sample * places;
  uint sum = 0;
  for (index_t j = begin + (index_t)get_local_id(0); j < end; j += GROUP)
    sum += DIGEST_WEIGHT(2 * (uint)j) * DIGEST_NUMBER(from[j]);
  SUM_OF_GROUP(uint, sum, parts)
  if (get_local_id(0) == 0)
    atomic_add((volatile GLOBAL uint *)digests + which, sum * DIGEST_WEIGHT(2 * ((uint)first + (uint)sample) + 1));
}
#endif
