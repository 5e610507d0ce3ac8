/* Batch normalization of training in integers: docs/integer-training.md, whose names these are. Channels are planes of
 * `area` elements, `n` in the whole batch. First the sums of each channel, by GROUP work-items for each part of the
 * batch; then what follows from them for the channels; then the elements. P: type of gamma and beta. */
#include "common.clh"
#include "integer.clh"

/* Sums of 32 bits over so many elements do not wrap. */
#define STRETCH 32768

#ifdef SUMS
/* FORWARD: of x and x^2; else of e and e h. parts[part][channel]: the two sums. */
KERNEL sums(IN(ELEMENT) x, IN(char) h, OUT(long) parts, index_t batch, index_t channels, index_t area, index_t images) {
  SHARED long tree[GROUP];
  const index_t channel = get_group_id(0) % channels, part = get_group_id(0) / channels;
  const index_t begin = part * images, end = min(begin + images, batch), l = get_local_id(0);
  long first = 0, second = 0;
  for (index_t b = begin; b < end; b++) {
    const index_t plane = (b * channels + channel) * area;
    for (index_t at = l; at < area; at += (index_t)STRETCH * GROUP) {
      const index_t stop = min(area, at + (index_t)STRETCH * GROUP);
      int sum = 0;
#ifdef FORWARD
      long more = 0;
      for (index_t i = at; i < stop; i += GROUP) {
        const int value = x[plane + i];
        sum += value;
        more += (long)(value * value);
      }
#else
      int more = 0;
      for (index_t i = at; i < stop; i += GROUP) {
        const int value = x[plane + i];
        sum += value;
        more += value * h[plane + i];
      }
#endif
      first += sum;
      second += more;
    }
  }
  SUM_OF_GROUP(long, first, tree)
  SUM_OF_GROUP(long, second, tree)
  if (l > 0) return;
  parts[2 * get_group_id(0)] = first;
  parts[2 * get_group_id(0) + 1] = second;
}
#endif

/* The sums of a channel. GIVEN: `parts` are those of a whole batch, of which this is a slice, the first ones of all
 * channels before the second ones. */
#ifdef GIVEN
#define ADD_PARTS(channel, first, second) const long first = parts[channel], second = parts[channels + (channel)];
#else
#define ADD_PARTS(channel, first, second)                                                                              \
  long first = 0, second = 0;                                                                                          \
  for (index_t p_ = 0; p_ < count; p_++) {                                                                             \
    first += parts[2 * (p_ * channels + channel)];                                                                     \
    second += parts[2 * (p_ * channels + channel) + 1];                                                                \
  }
#endif

#ifdef JOINED
/* A work-item for each channel: the sums as they are given. */
KERNEL join_sums(IN(long) parts, OUT(long) joined, index_t channels, index_t count) {
  const index_t channel = get_global_id(0);
  if (channel >= channels) return;
  ADD_PARTS(channel, first, second)
  joined[channel] = first;
  joined[channels + channel] = second;
}
#endif

#ifndef SIDE
#define SIDE 1
#endif
#define FIND_RUN                                                                                                       \
  const index_t item_ = (index_t)get_global_id(0) / SIDE, plane = item_ / runs, channel = plane % channels;            \
  const index_t begin = item_ % runs * run + (index_t)get_global_id(0) % SIDE;                                         \
  const index_t end = min(item_ % runs * run + run, area);

/* --- forward ------------------------------------------------------------------------------------------------------ */
#ifdef FORWARD
ulong integer_root(ulong value) {
  ulong root = 0;
  for (ulong bit = 1UL << 31; bit; bit >>= 1)
    if ((root + bit) * (root + bit) <= value) root += bit;
  return root;
}

/* A work-item for each channel: m, c and places in `found`, and the running statistics; without TRAINING those are what
 * it goes by. The new ones may lie over the old ones. */
KERNEL statistics(IN(long) parts, GLOBAL const int *mean, GLOBAL const long *variance, OUT(int) found,
                  GLOBAL int *new_mean, GLOBAL long *new_variance, OUT(int) out_m, OUT(int) out_places,
                  index_t channels, index_t count, long n) {
  const index_t channel = get_global_id(0);
  if (channel >= channels) return;
  const long old_mean = mean[channel], old_variance = clamp(variance[channel], 0L, MOST_VARIANCE);
  long mean16 = old_mean, variance16 = old_variance;
#ifdef TRAINING
  ADD_PARTS(channel, sum, squares)
  mean16 = integer_near(sum * (1 << 16), n);
  const long q = squares / n, square16 = q * (1 << 16) + (squares - q * n) * (1 << 16) / n;
  variance16 = max(0L, square16 - integer_round(mean16 * mean16, 16));
#endif
  const ulong root = integer_root(((ulong)variance16 + (1 << 14)) << 16);
  const int b = integer_width(root) - 1, m = (int)((1UL << (14 + b)) / root), places = b - 7;
  found[3 * channel] = m;
  found[3 * channel + 1] = (int)-integer_round(mean16 * m, 16);
  found[3 * channel + 2] = places;
#ifdef WITH_MEAN
  new_mean[channel] = (int)(old_mean + integer_round(mean16 - old_mean, 4));
#endif
#ifdef WITH_VARIANCE
  new_variance[channel] = old_variance + integer_round(variance16 - old_variance, 4);
#endif
#ifdef WITH_M
  out_m[channel] = m;
#endif
#ifdef WITH_PLACES
  out_places[channel] = places;
#endif
}

/* SIDE neighbouring work-items share `run` elements of a plane. 32 bits suffice: |x m| and |c| are at most 2^29. */
KERNEL elements(IN(short) x, IN(P) gamma, IN(P) beta, IN(int) found, OUT(char) y, OUT(char) h, index_t planes,
                index_t channels, index_t area, index_t run, index_t runs, int shift, int least, int most) {
  FIND_RUN
  if (plane >= planes) return;
  const int m = found[3 * channel], c = found[3 * channel + 1], places = found[3 * channel + 2];
  const int scale = gamma[channel], added = 64 * beta[channel], half_place = 1 << (places - 1), up = 1 << (shift - 1);
  for (index_t i = begin; i < end; i += SIDE) {
    const index_t at = plane * area + i;
    const int inner = clamp((x[at] * m + c + half_place) >> places, -127, 127);
    y[at] = (char)clamp((scale * inner + added + up) >> shift, least, most);
#ifdef WITH_H
    h[at] = (char)inner;
#endif
  }
}
#endif

/* --- backward ----------------------------------------------------------------------------------------------------- */
#ifdef BACKWARD
/* |F_c| has at most 15 + 14 + 16 bits. */
#define FULL_FACTOR(channel)                                                                                           \
  ((long)gamma[channel] * clamp(m[channel], 0, 1 << 14) * (1L << (24 - clamp(places[channel], 8, 24))))

/* One group: f_c, B and G of each channel in `found`, the gradients of gamma and beta with their magnitudes, and the
 * exponent. It clears the magnitude of the raw error, which the elements are added to next. */
KERNEL factors(IN(long) parts, IN(int) exponent, IN(P) gamma, IN(int) m, IN(int) places, OUT(int) found,
               OUT(int) magnitude, OUT(int) raw_exponent, OUT(long) d_gamma, OUT(ulong) gamma_magnitude,
               OUT(long) d_beta, OUT(ulong) beta_magnitude, index_t channels, index_t count, long n, int added) {
  SHARED uint tree[GROUP];
  ulong bits[3] = {0, 0, 0};
  for (index_t c = get_local_id(0); c < channels; c += GROUP) {
    ADD_PARTS(c, by_beta, by_gamma)
    bits[0] |= abs(FULL_FACTOR(c));
    bits[1] |= abs(by_gamma);
    bits[2] |= abs(by_beta);
    d_gamma[c] = by_gamma;
    d_beta[c] = by_beta;
    found[3 * c + 1] = n ? (int)integer_near(by_beta * (1 << 8), n) : 0;
    found[3 * c + 2] = n ? (int)integer_near(by_gamma * (1 << 3), n) : 0;
  }
  for (int i = 0; i < 3; i++) {
    const uint low = OR_OF_GROUP((uint)bits[i], tree), high = OR_OF_GROUP((uint)(bits[i] >> 32), tree);
    bits[i] = (ulong)high << 32 | low;
  }
  const int r = max(0, integer_width(bits[0]) - 10);
  for (index_t c = get_local_id(0); c < channels; c += GROUP) found[3 * c] = (int)integer_round(FULL_FACTOR(c), r);
  if (get_local_id(0) > 0) return;
  magnitude[0] = 0;
  raw_exponent[0] = (int)((long)exponent[0] + added + r);
  gamma_magnitude[0] = bits[1];
  beta_magnitude[0] = bits[2];
}

/* 32 bits suffice: |z| is below 2^20, |f_c| at most 2^10. */
KERNEL errors(IN(char) e, IN(char) h, IN(int) found, OUT(int) raw, OUT(int) magnitude, index_t planes, index_t channels,
              index_t area, index_t run, index_t runs) {
  SHARED uint tree[GROUP];
  FIND_RUN
  uint bits = 0;
  if (plane < planes) {
    const int f = found[3 * channel], b = found[3 * channel + 1], g = found[3 * channel + 2];
    for (index_t i = begin; i < end; i += SIDE) {
      const index_t at = plane * area + i;
      const int value = f * (e[at] * 256 - b - ((h[at] * g + 16) >> 5));
      raw[at] = value;
      bits |= abs(value);
    }
  }
  ADD_TO_MAGNITUDE_INT(magnitude, bits, tree)
}
#endif
