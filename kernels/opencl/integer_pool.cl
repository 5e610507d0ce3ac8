/* Pools of training in integers: docs/integer-training.md. Output o of a dimension of `h` or `w` inputs looks at
 * o * S - b + k * D for k below N. A work-item makes LANES neighbours of a line. RESULT: type of an error's result. */
#include "common.clh"
#include "integer.clh"

#ifdef LANES
#define PADDING (-1000)

/* Line `line` of plane `plane`, from its place `first` on, which `length` places make up: `lines` lines a plane. */
#define FIND_LINE(lines, length)                                                                                       \
  const index_t chunks = ((length) + LANES - 1) / LANES, item = get_global_id(0);                                      \
  const index_t first = item % chunks * LANES, line = item / chunks % (lines), plane = item / chunks / (lines);        \
  const int there = (int)min((index_t)LANES, (length)-first);

/* The numbers under place (k1, k2) of the windows of LANES outputs, PADDING where there is none. */
#define LOAD_UNDER(values, k1, k2)                                                                                     \
  const index_t row = line * S1 + (k1)*D1 - b1, left = first * S2 + (k2)*D2 - b2;                                      \
  int values[LANES];                                                                                                   \
  if (row >= 0 && row < h && left >= 0 && left + (LANES - 1) * S2 < w) {                                               \
    IN(char) under = x + (plane * h + row) * w + left;                                                                 \
    for (int l = 0; l < LANES; l++) values[l] = under[l * S2];                                                         \
  } else {                                                                                                             \
    for (int l = 0; l < LANES; l++) {                                                                                  \
      const index_t column = left + l * S2;                                                                            \
      const bool inside = row >= 0 && row < h && column >= 0 && column < w;                                            \
      values[l] = inside ? x[(plane * h + row) * w + column] : PADDING;                                                \
    }                                                                                                                  \
  }

#ifdef SAMPLES
/* Images [channels / 16][place][sample][16]: a work-item makes 16 neighbours, of which a place has `line` times as many.
 * x, y: places of what is made, of which a plane has `lines` by `length`. */
#define FIND_WORDS(lines, length)                                                                                      \
  const index_t item = get_global_id(0), word = item % line, x1 = item / line % (length);                              \
  const index_t y1 = item / line / (length) % (lines), plane = item / line / (length) / (lines);
#define WORDS_AT(from, lines, length, row, column)                                                                     \
  ((GLOBAL const uint4 *)(from))[((plane * (lines) + (row)) * (length) + (column)) * line + word]
#define TAKE_APART(words, parts) const uint parts[4] = {(words).s0, (words).s1, (words).s2, (words).s3};
#define BYTE_OF(parts, i) ((int)(char)((parts)[(i) / 4] >> 8 * ((i) % 4)))
#define EACH_BYTE _Pragma("unroll") for (int i = 0; i < 16; i++)

KERNEL max_pool(IN(char) x, OUT(char) y, OUT(uchar) index, index_t planes, index_t h, index_t w, index_t oh, index_t ow,
                index_t b1, index_t b2, index_t line, index_t channels) {
  FIND_WORDS(oh, ow)
  if (plane >= planes) return;
  int best[16], place[16];
  EACH_BYTE best[i] = PADDING, place[i] = 0;
  for (int k1 = 0; k1 < N1; k1++)
    for (int k2 = 0; k2 < N2; k2++) {
      const index_t row = y1 * S1 + k1 * D1 - b1, column = x1 * S2 + k2 * D2 - b2;
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      TAKE_APART(WORDS_AT(x, h, w, row, column), parts)
      EACH_BYTE {
        const int value = BYTE_OF(parts, i);
        place[i] = value > best[i] ? k1 * N2 + k2 : place[i];
        best[i] = max(value, best[i]);
      }
    }
  uint values[4] = {0, 0, 0, 0}, places[4] = {0, 0, 0, 0};
  EACH_BYTE {
    values[i / 4] |= (uint)(uchar)(best[i] == PADDING ? 0 : best[i]) << 8 * (i % 4);
    places[i / 4] |= plane * 16 + i < channels ? (uint)place[i] << 8 * (i % 4) : 0;
  }
  vstore4(vload4(0, values), item, (GLOBAL uint *)y);
#ifdef WITH_INDEX
  vstore4(vload4(0, places), item, (GLOBAL uint *)index);
#endif
}

KERNEL average_pool(IN(char) x, OUT(char) y, index_t planes, index_t h, index_t w, index_t oh, index_t ow, index_t b1,
                    index_t b2, index_t line) {
  FIND_WORDS(oh, ow)
  if (plane >= planes) return;
  int sum[16];
  EACH_BYTE sum[i] = 0;
  for (int k1 = 0; k1 < N1; k1++)
    for (int k2 = 0; k2 < N2; k2++) {
      const index_t row = y1 * S1 + k1 * D1 - b1, column = x1 * S2 + k2 * D2 - b2;
      const bool inside = row >= 0 && row < h && column >= 0 && column < w;
      if (!inside) {
        EACH_BYTE sum[i] += PADDING;
        continue;
      }
      TAKE_APART(WORDS_AT(x, h, w, row, column), parts)
      EACH_BYTE sum[i] += BYTE_OF(parts, i);
    }
  uint values[4] = {0, 0, 0, 0};
  EACH_BYTE values[i / 4] |= (uint)(uchar)integer_near(sum[i], N1 * N2) << 8 * (i % 4);
  vstore4(vload4(0, values), item, (GLOBAL uint *)y);
}

#ifdef RESULT
/* y: result of a rectifier behind it, which passes errors below `passed`. */
KERNEL pool_grad(IN(char) e, IN(uchar) index, IN(char) y, OUT(RESULT) out, OUT(int) magnitude, int passed,
                 index_t planes, index_t h, index_t w, index_t oh, index_t ow, index_t b1, index_t b2, index_t line) {
#ifdef WITH_MAGNITUDE
  SHARED uint parts_of_group[GROUP];
#endif
  FIND_WORDS(h, w)
  int sum[16];
  EACH_BYTE sum[i] = 0;
  for (int k1 = 0; k1 < N1 && plane < planes; k1++)
    for (int k2 = 0; k2 < N2; k2++) {
      const index_t above = y1 + b1 - k1 * D1, left = x1 + b2 - k2 * D2;
      if (above < 0 || above % S1 || above / S1 >= oh || left < 0 || left % S2 || left / S2 >= ow) continue;
      TAKE_APART(WORDS_AT(e, oh, ow, above / S1, left / S2), parts)
#ifdef WITH_INDEX
      TAKE_APART(WORDS_AT(index, oh, ow, above / S1, left / S2), places)
      EACH_BYTE sum[i] += (uchar)BYTE_OF(places, i) == k1 * N2 + k2 ? BYTE_OF(parts, i) : 0;
#else
      EACH_BYTE sum[i] += BYTE_OF(parts, i);
#endif
    }
  uint bits = 0;
  if (plane < planes) {
#ifdef RESULT_CHAR
    uint values[4] = {0, 0, 0, 0};
    EACH_BYTE values[i / 4] |= (uint)(uchar)sum[i] << 8 * (i % 4);
#ifdef RECTIFIED
    TAKE_APART(((GLOBAL const uint4 *)y)[item], rectified)
    _Pragma("unroll") for (int i = 0; i < 4; i++) values[i] = pass_four(values[i], rectified[i], (uint)passed);
#endif
    vstore4(vload4(0, values), item, (GLOBAL uint *)out);
#else
    for (int i = 0; i < 4; i++) vstore4(vload4(i, sum), item * 4 + i, out);
#endif
    EACH_BYTE bits |= abs(sum[i]);
  }
#ifdef WITH_MAGNITUDE
  ADD_TO_MAGNITUDE_INT(magnitude, bits, parts_of_group)
#endif
}
#endif
#else
#ifdef PAIRS
/* Windows of one or two columns side by side, in vectors: lines are even, there is no padding beside them. A word has
 * two neighbours. */
#ifdef __ENDIAN_LITTLE__
#define IS_HIGH(k2) ((k2) == 1)
#else
#define IS_HIGH(k2) ((k2) == 0)
#endif
#define OF_PAIR(pair, k2) (as_short16(IS_HIGH(k2) ? (pair) : (pair) << (ushort)8) >> (short)8)

/* 16 outputs. */
KERNEL max_pool_pairs(IN(char) x, OUT(char) y, OUT(uchar) index, index_t planes, index_t h, index_t w, index_t oh,
                      index_t ow, index_t b1, index_t b2) {
  FIND_LINE(oh, ow)
  if (plane >= planes) return;
  short16 best = (short16)(PADDING), place = (short16)(0);
  for (int k1 = 0; k1 < N1; k1++) {
    const index_t row = line * S1 + k1 * D1 - b1;
    if (row < 0 || row >= h) continue;
    IN(char) under = x + (plane * h + row) * w + first * 2;
    ushort16 pair;
    if (there == LANES) {
      pair = vload16(0, (GLOBAL const ushort *)under);
    } else {
      ushort rest[LANES];
      for (int l = 0; l < LANES; l++) rest[l] = l < there ? ((GLOBAL const ushort *)under)[l] : 0;
      pair = vload16(0, rest);
    }
    for (int k2 = 0; k2 < N2; k2++) {
      const short16 values = OF_PAIR(pair, k2);
      place = values > best ? (short16)(k1 * N2 + k2) : place;
      best = max(values, best);
    }
  }
  best = best == (short16)(PADDING) ? (short16)(0) : best;
  char values[LANES];
  uchar places[LANES];
  vstore16(convert_char16(best), 0, values);
  vstore16(convert_uchar16(place), 0, places);
  const index_t to = (plane * oh + line) * ow + first;
  for (int l = 0; l < there; l++) y[to + l] = values[l];
#ifdef WITH_INDEX
  for (int l = 0; l < there; l++) index[to + l] = places[l];
#endif
}

/* The errors of 16 outputs of a line, into each line of inputs under them. What no window reaches gets none. */
KERNEL max_pool_pairs_grad(IN(char) e, IN(uchar) index, OUT(char) out, OUT(int) magnitude, index_t planes, index_t h,
                           index_t w, index_t oh, index_t ow, index_t b1, index_t b2) {
  FIND_LINE(h, w / 2)
  if (plane >= planes) return;
  const index_t above = line + b1, k1 = above % S1, from = (plane * oh + above / S1) * ow + first;
  const int known = k1 < N1 && above / S1 < oh ? (int)clamp(ow - first, (index_t)0, (index_t)there) : 0;
  char errors[LANES];
  uchar places[LANES];
  if (known == LANES) {
    vstore16(vload16(0, e + from), 0, errors);
    vstore16(vload16(0, index + from), 0, places);
  } else {
    for (int l = 0; l < LANES; l++) errors[l] = l < known ? e[from + l] : 0;
    for (int l = 0; l < LANES; l++) places[l] = l < known ? index[from + l] : 0;
  }
  const ushort16 error = convert_ushort16(as_uchar16(vload16(0, errors))), place = convert_ushort16(vload16(0, places));
  const ushort16 even = place == (ushort16)(k1 * N2) ? error : (ushort16)(0);
  const ushort16 odd = place == (ushort16)(N2 > 1 ? k1 * N2 + 1 : 256) ? error : (ushort16)(0);
  const ushort16 pair = IS_HIGH(1) ? even | odd << (ushort)8 : odd | even << (ushort)8;
  GLOBAL ushort *to = (GLOBAL ushort *)(out + (plane * h + line) * w + first * 2);
  if (there == LANES) {
    vstore16(pair, 0, to);
    return;
  }
  ushort rest[LANES];
  vstore16(pair, 0, rest);
  for (int l = 0; l < there; l++) to[l] = rest[l];
}
#endif

KERNEL max_pool(IN(char) x, OUT(char) y, OUT(uchar) index, index_t planes, index_t h, index_t w, index_t oh, index_t ow,
                index_t b1, index_t b2) {
  FIND_LINE(oh, ow)
  if (plane >= planes) return;
  int best[LANES], place[LANES];
  for (int l = 0; l < LANES; l++) best[l] = PADDING, place[l] = 0;
  for (int k1 = 0; k1 < N1; k1++)
    for (int k2 = 0; k2 < N2; k2++) {
      LOAD_UNDER(values, k1, k2)
      for (int l = 0; l < LANES; l++) {
        place[l] = values[l] > best[l] ? k1 * N2 + k2 : place[l];
        best[l] = max(values[l], best[l]);
      }
    }
  const index_t to = (plane * oh + line) * ow + first;
  for (int l = 0; l < there; l++) y[to + l] = (char)(best[l] == PADDING ? 0 : best[l]);
#ifdef WITH_INDEX
  for (int l = 0; l < there; l++) index[to + l] = (uchar)place[l];
#endif
}

KERNEL average_pool(IN(char) x, OUT(char) y, index_t planes, index_t h, index_t w, index_t oh, index_t ow, index_t b1,
                    index_t b2) {
  FIND_LINE(oh, ow)
  if (plane >= planes) return;
  int sum[LANES];
  for (int l = 0; l < LANES; l++) sum[l] = 0;
  for (int k1 = 0; k1 < N1; k1++)
    for (int k2 = 0; k2 < N2; k2++) {
      LOAD_UNDER(values, k1, k2)
      for (int l = 0; l < LANES; l++) sum[l] += values[l];
    }
  const index_t to = (plane * oh + line) * ow + first;
  for (int l = 0; l < there; l++) y[to + l] = (char)integer_near(sum[l], N1 * N2);
}

#ifdef RESULT
/* Gathered: a line of inputs from the lines of outputs whose windows hold it. */
KERNEL pool_grad(IN(char) e, IN(uchar) index, IN(char) y, OUT(RESULT) out, OUT(int) magnitude, int passed,
                 index_t planes, index_t h, index_t w, index_t oh, index_t ow, index_t b1, index_t b2) {
#ifdef WITH_MAGNITUDE
  SHARED uint parts[GROUP];
#endif
  FIND_LINE(h, w)
  int sum[LANES];
  for (int l = 0; l < LANES; l++) sum[l] = 0;
  const index_t reach = first + b2 - (N2 - 1) * D2, begin = reach > 0 ? (reach + S2 - 1) / S2 : 0;
  const index_t end = min(ow, (first + LANES - 1 + b2) / S2 + 1);
  for (int k1 = 0; k1 < N1 && plane < planes; k1++) {
    const index_t above = line + b1 - k1 * D1;
    if (above < 0 || above % S1 || above / S1 >= oh) continue;
    const index_t from = (plane * oh + above / S1) * ow;
    for (index_t o = begin; o < end; o++) {
      const int error = e[from + o];
      const index_t left = o * S2 - b2 - first;
#ifdef WITH_INDEX
      const int k = index[from + o];
      const index_t l = left + k % N2 * D2;
      if (k / N2 == k1 && l >= 0 && l < LANES) sum[l] += error;
#else
      for (int k2 = 0; k2 < N2; k2++) {
        const index_t l = left + k2 * D2;
        if (l >= 0 && l < LANES) sum[l] += error;
      }
#endif
    }
  }
  uint bits = 0;
  if (plane < planes)
    for (int l = 0; l < there; l++) {
#ifdef RECTIFIED
      const char value = y[(plane * h + line) * w + first + l];
      if (value <= 0 || value >= passed) sum[l] = 0;
#endif
      out[(plane * h + line) * w + first + l] = (RESULT)sum[l];
      bits |= abs(sum[l]);
    }
#ifdef WITH_MAGNITUDE
  ADD_TO_MAGNITUDE_INT(magnitude, bits, parts)
#endif
}
#endif
#endif
#endif
