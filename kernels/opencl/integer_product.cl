/* Convolutions, their two gradients and fully connected layers of training in integers: docs/integer-training.md. All
 * are one product of matrices of bytes, and this is it:
 *
 *   sum(row, column) = sum over k of left(k, row) * right(offsets[k] + place of the column)
 *
 * An element of both is a word of 32 bits: QUAD neighbours along the inner dimension, four bytes, for instructions that
 * multiply and add four, or two shorts, for those of CPUs that take two. Sums are exact in 32 bits; where they might
 * not be, the inner dimension is cut into slices, whose sums are added in 64. Work before the product puts operands in
 * order:
 *
 *   forward             left: weights [group][channel words, taps][filters]   right: x, channels as words
 *   BACKWARD, by inputs left: weights [group][filter words, taps][channels]   right: the error, channels as words
 *   FILTER, by weights  left: the error, samples as words                     right: x, samples as words
 *
 * Channels as words are images [group][channel words][phases][batch][l1][l2]: lines hold zeros around them, split into
 * phases by the stride, and what all outputs read for one tap is one run of memory, output (y, x) of an image standing
 * at y * l2 + x of it. Zeros before a line are those behind the line before. Samples as words are [group][block
 * of channels][sample words][l1][l2][channels]: what one output reads for one tap is a run of channels. Left operands
 * are panels of rows, a step of k after the other. */
#include "common.clh"
#include "integer.clh"

#if QUAD == 4
#define WORD(from, step, there)                                                                                        \
  ((uint)(uchar)(from)[0] | ((there) > 1 ? (uint)(uchar)(from)[step] << 8 : 0) |                                       \
   ((there) > 2 ? (uint)(uchar)(from)[2 * (step)] << 16 : 0) | ((there) > 3 ? (uint)(from)[3 * (step)] << 24 : 0))
#else
#define WORD(from, step, there) ((uint)(ushort)(from)[0] | ((there) > 1 ? (uint)(from)[step] << 16 : 0))
#endif

/* --- operands in order ---------------------------------------------------------------------------------------------
 * Place q of phase r of a dimension is the input (q * mul + r - begin) / div, if that is one: div, a stride, leaves
 * zeros between the errors of neighbouring outputs. SPREAD: a work-item for each word, else for many. */
#define IMAGES                                                                                                         \
  index_t batch, index_t channels, index_t per, index_t words, index_t h, index_t w, index_t l1, index_t l2,           \
      index_t phases1, index_t phases2, index_t mul1, index_t mul2, index_t begin1, index_t begin2, index_t div1,      \
      index_t div2
#define SOURCE(d, q, r, size)                                                                                          \
  ((q)*mul##d + (r)-begin##d >= 0 && ((q)*mul##d + (r)-begin##d) % div##d == 0 &&                                      \
           ((q)*mul##d + (r)-begin##d) / div##d < (size)                                                               \
       ? ((q)*mul##d + (r)-begin##d) / div##d                                                                          \
       : -1)

#ifdef ARRANGE
/* A line of a phase: without gaps between its words it is copied, else looked up. */
void arrange_line(IN(char) from, OUT(uint) to, index_t plane, int there, index_t w, index_t l2, int r2, index_t mul2,
                  index_t begin2, index_t div2) {
  if (mul2 > 1 || div2 > 1) {
    for (index_t q = 0; q < l2; q++) {
      const index_t at = SOURCE(2, q, r2, w);
      to[q] = at >= 0 ? WORD(from + at, plane, there) : 0;
    }
    return;
  }
  const index_t first = clamp(begin2, (index_t)0, l2), last = clamp(begin2 + w, first, l2);
  IN(char) under = from - begin2;
  for (index_t q = 0; q < first; q++) to[q] = 0;
  if (there == QUAD)
    for (index_t q = first; q < last; q++) to[q] = WORD(under + q, plane, QUAD);
  else
    for (index_t q = first; q < last; q++) to[q] = WORD(under + q, plane, there);
  for (index_t q = last; q < l2; q++) to[q] = 0;
}

/* Channels as words. `items` of `images` images each, or words; behind them `tail` zeros. */
KERNEL channels_as_words(IN(char) x, OUT(uint) out, index_t items, index_t tail, index_t images, IMAGES) {
  const index_t item = get_global_id(0);
#ifdef SPREAD
  if (item >= items + tail) return;
  if (item >= items) {
    out[item] = 0;
    return;
  }
  const index_t q2 = item % l2, q1 = item / l2 % l1, first = item / l2 / l1 % batch, plane_of = item / l2 / l1 / batch;
#else
  if (item > items) return;
  const index_t runs = max((batch + images - 1) / images, (index_t)1), first = item % runs * images;
  const index_t plane_of = item / runs;
  if (item == items) {
    for (index_t i = 0; i < tail; i++) out[plane_of * batch * l1 * l2 + i] = 0;
    return;
  }
#endif
  const index_t r2 = plane_of % phases2, r1 = plane_of / phases2 % phases1, word = plane_of / phases2 / phases1 % words;
  const index_t group = plane_of / phases2 / phases1 / words, plane = h * w;
  const int there = (int)min((index_t)QUAD, per - word * QUAD);
  IN(char) from = x + (first * channels + group * per + word * QUAD) * plane;
#ifdef SPREAD
  const index_t at1 = SOURCE(1, q1, r1, h), at2 = SOURCE(2, q2, r2, w);
  out[item] = at1 >= 0 && at2 >= 0 ? WORD(from + at1 * w + at2, plane, there) : 0;
#else
  OUT(uint) to = out + (plane_of * batch + first) * l1 * l2;
  for (index_t b = first; b < min(first + images, batch); b++, from += channels * plane)
    for (index_t q1 = 0; q1 < l1; q1++, to += l2) {
      const index_t at = SOURCE(1, q1, r1, h);
      if (at >= 0)
        arrange_line(from + at * w, to, plane, there, w, l2, (int)r2, mul2, begin2, div2);
      else
        for (index_t q2 = 0; q2 < l2; q2++) to[q2] = 0;
    }
#endif
}

/* Samples as words: `words` of them, in blocks of `wide` channels, [group][block][words][l1][l2][wide], of which `per`
 * are there. There are no phases and gaps. An item is a line of all blocks, or a word. */
#define SAMPLE_BLOCK ((index_t)words * l1 * l2 * wide)
KERNEL samples_as_words(IN(char) x, OUT(uint) out, index_t items, index_t wide, IMAGES) {
  const index_t item = get_global_id(0), plane = h * w, blocks = (per + wide - 1) / wide;
  if (item >= items) return;
#ifdef SPREAD
  const index_t within = item % wide, q2 = item / wide % l2, line = item / wide / l2 % (words * l1);
  const index_t block = item / SAMPLE_BLOCK % blocks, group = item / SAMPLE_BLOCK / blocks;
#else
  const index_t line = item % (words * l1), group = item / (words * l1);
#endif
  const index_t q1 = line % l1, word = line / l1, at = q1 - begin1, step = channels * plane;
  const int there = (int)min((index_t)QUAD, batch - word * QUAD);
  IN(char) from = x + (word * QUAD * channels + group * per) * plane + at * w - begin2;
#ifdef SPREAD
  const index_t c = block * wide + within;
  const bool inside = at >= 0 && at < h && q2 >= begin2 && q2 < begin2 + w && c < per;
  out[item] = inside ? WORD(from + c * plane + q2, step, there) : 0;
#else
  const index_t first = clamp(begin2, (index_t)0, l2), last = clamp(begin2 + w, first, l2);
  for (index_t block = 0; block < blocks; block++) {
    OUT(uint) to = out + (group * blocks + block) * SAMPLE_BLOCK + line * l2 * wide;
    const index_t known = at >= 0 && at < h ? min(wide, per - block * wide) : 0;
    IN(char) under = from + block * wide * plane;
    if (last - first == 1) {
      for (index_t c = 0; c < known; c++) to[first * wide + c] = WORD(under + c * plane + first, step, there);
    } else if (there == QUAD) {
      for (index_t c = 0; c < known; c++)
        for (index_t q = first; q < last; q++) to[q * wide + c] = WORD(under + c * plane + q, step, QUAD);
    } else {
      for (index_t c = 0; c < known; c++)
        for (index_t q = first; q < last; q++) to[q * wide + c] = WORD(under + c * plane + q, step, there);
    }
    for (index_t q = 0; q < l2; q++)
      for (index_t c = q < first || q >= last ? 0 : known; c < wide; c++) to[q * wide + c] = 0;
  }
#endif
}

/* The same with what each of the outputs (l1, l2) looks at side by side, for few channels:
 * [group][words][l1][l2][wide], of which taps of `per` channels are there. mul: strides. An item is a line. */
KERNEL windows_as_words(IN(char) x, OUT(uint) out, index_t items, index_t wide, index_t taps1, index_t taps2,
                        index_t step1, index_t step2, IMAGES) {
  const index_t item = get_global_id(0), plane = h * w, step = channels * plane;
  if (item >= items) return;
  const index_t q1 = item % l1, word = item / l1 % words, group = item / l1 / words;
  const int there = (int)min((index_t)QUAD, batch - word * QUAD);
  IN(char) from = x + (word * QUAD * channels + group * per) * plane;
  OUT(uint) to = out + item * l2 * wide;
  for (index_t t = 0; t < taps1 * taps2; t++) {
    const index_t at1 = q1 * mul1 + t / taps2 * step1 - begin1, left = t % taps2 * step2 - begin2;
    for (index_t c = 0; c < per; c++)
      for (index_t q2 = 0; q2 < l2; q2++) {
        const index_t at2 = q2 * mul2 + left;
        const bool inside = at1 >= 0 && at1 < h && at2 >= 0 && at2 < w;
        to[q2 * wide + t * per + c] = inside ? WORD(from + c * plane + at1 * w + at2, step, there) : 0;
      }
  }
  for (index_t q2 = 0; q2 < l2; q2++)
    for (index_t i = taps1 * taps2 * per; i < wide; i++) to[q2 * wide + i] = 0;
}

/* Weights [filter][channel of the group][tap] as panels of `wide` rows, [group][panel][k][wide]. BACKWARD: rows are
 * channels and words of filters, else the other way round. An item is `run` words of channels of a panel, or a word. */
KERNEL pack_weights(IN(char) w, OUT(uint) out, index_t items, index_t filters, index_t channels, index_t taps,
                    index_t wide, index_t run, index_t runs) {
  const index_t item = get_global_id(0);
  if (item >= items) return;
#ifdef BACKWARD
  const index_t rows = channels, inner = filters, row_step = taps, inner_step = channels * taps;
#else
  const index_t rows = filters, inner = channels, row_step = channels * taps, inner_step = taps;
#endif
  const index_t words = (inner + QUAD - 1) / QUAD, panels = (rows + wide - 1) / wide;
#ifdef SPREAD
  const index_t r = item % wide, t = item / wide % taps, word = item / wide / taps % words;
  const index_t panel = item / wide / taps / words % panels, group = item / wide / taps / words / panels;
  IN(char) from = w + group * filters * channels * taps + (panel * wide + r) * row_step + word * QUAD * inner_step + t;
  const int there = (int)min((index_t)QUAD, inner - word * QUAD);
  out[item] = panel * wide + r < rows ? WORD(from, inner_step, there) : 0;
#else
  const index_t begin = item % runs * run, end = min(begin + run, words);
  const index_t panel = item / runs % panels, group = item / runs / panels;
  const index_t left = min(wide, rows - panel * wide);
  IN(char) first = w + group * filters * channels * taps + panel * wide * row_step;
  OUT(uint) to = out + ((group * panels + panel) * words + begin) * taps * wide;
  for (index_t word = begin; word < end; word++) {
    const int there = (int)min((index_t)QUAD, inner - word * QUAD);
    IN(char) from = first + word * QUAD * inner_step;
    for (index_t t = 0; t < taps; t++, from++, to += wide) {
      for (index_t r = 0; r < left; r++) to[r] = WORD(from + r * row_step, inner_step, there);
      for (index_t r = left; r < wide; r++) to[r] = 0;
    }
  }
#endif
}

/* Where the words of step k begin: of its channels and tap, from the first word of the group; or, of a FILTER, of its
 * samples and output. The magnitude is cleared meanwhile. */
KERNEL find_offsets(OUT(index_t) offsets, OUT(uint) magnitude, int magnitude_words, index_t count, index_t plane,
                    index_t taps2, index_t taps, index_t from1, index_t from2, index_t step1, index_t step2,
                    index_t split1, index_t split2, index_t phase1, index_t phase2, index_t line, index_t place) {
  const index_t k = get_global_id(0);
  if (k < magnitude_words) magnitude[k] = 0;
  if (k >= count) return;
  const index_t t1 = from1 + k % taps / taps2 * step1, t2 = from2 + k % taps2 * step2;
  offsets[k] =
      k / taps * plane + t1 % split1 * phase1 + t2 % split2 * phase2 + t1 / split1 * line + t2 / split2 * place;
}
#endif

/* --- results -------------------------------------------------------------------------------------------------------
 * ROUNDED: Q(sum, k, shift) of type T from `least` to `most`. Else raw, of type T, with a magnitude; or PARTS of 32
 * bits of slices. */
#ifdef ROUNDED
#define FINISHED(sum) clamp(shift > 31 ? (sum)*0 : shift > 0 ? ROUND_DOWN(sum, shift) : (sum), least, most)
#else
#define FINISHED(sum) (sum)
#endif

#ifdef JOIN_SLICES
/* A work-item for `run` results. */
KERNEL join_slices(IN(int) parts, OUT(T) out, OUT(T) magnitude, index_t count, index_t slices, index_t run, int shift,
                   int least, int most) {
#ifndef ROUNDED
  SHARED uint tree[GROUP];
#endif
  const index_t begin = (index_t)get_global_id(0) * run, end = min(begin + run, count);
  ulong bits = 0;
  for (index_t i = begin; i < end; i++) {
    long sum = 0;
    for (index_t s = 0; s < slices; s++) sum += parts[s * count + i];
#ifdef ROUNDED
    out[i] = (T)clamp(integer_round(sum, shift), (long)least, (long)most);
#else
    out[i] = (T)sum;
    bits |= abs(sum);
#endif
  }
#if !defined(ROUNDED) && defined(RAW_LONG)
  ADD_TO_MAGNITUDE_LONG(magnitude, bits, tree)
#elif !defined(ROUNDED)
  ADD_TO_MAGNITUDE_INT(magnitude, bits, tree)
#endif
}
#endif

/* A result's place: forward and by inputs that of output `o` of image b, which are `outputs`; of a FILTER of tap t of
 * channel c. Of PARTS within a slice. */
#define RESULT_OF_IMAGE(b, row, o) (((b)*groups * rows + group * rows + (row)) * outputs + (o))
#define RESULT_OF_FILTER(row, c, t) (((group * rows + (row)) * per + (c)) * taps + (t))

/* --- by tiles in local memory: T_I rows by T_B columns of the batch, as the unified GEMM kernel of DarkFPGA ------- */
#ifdef T_B
#define TILE_M T_I
#define TILE_N T_B
#define TILE_ELEMENT int

#if defined(DOT_PRODUCTS)
#define DOT(a, b, sum) ((sum) + dot_4x8packed_ss_int(as_uint(a), as_uint(b)))
#elif defined(DOT_PTX)
int dot_ptx(int a, int b, int sum) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(sum));
  return d;
}
#define DOT(a, b, sum) dot_ptx(a, b, sum)
#else
int dot_plain(char4 a, char4 b, int sum) {
  return sum + a.s0 * b.s0 + a.s1 * b.s1 + a.s2 * b.s2 + a.s3 * b.s3;
}
#define DOT(a, b, sum) dot_plain(as_char4(a), as_char4(b), sum)
#endif
#define DOT_2(l, r, s) MAKE(int2)(DOT(l, (r).s0, (s).s0), DOT(l, (r).s1, (s).s1))
#define DOT_4(l, r, s) MAKE(int4)(DOT_2(l, (r).lo, (s).lo), DOT_2(l, (r).hi, (s).hi))
#define DOT_8(l, r, s) MAKE(int8)(DOT_4(l, (r).lo, (s).lo), DOT_4(l, (r).hi, (s).hi))
#define TILE_MULTIPLY(left, right, sum) TILE_JOIN(DOT_, WORK_N)(left, right, sum)
#include "tile.clh"

#define LOAD_LEFT(row, k) ((row) < rows ? of_left[(k)*left_step + (row)] : 0)
#define LOAD_LEFT_FOUR(row, k) ((row) < left_step ? vload4(0, of_left + (k)*left_step + (row)) : (int4)(0))
#define LOAD_RIGHT(k, column) (there ? of_right[offsets[k]] : 0)
#ifdef FILTER
#define PLACE(row, column) RESULT_OF_FILTER(row, (column) % per, (column) / per)
#else
#define PLACE(row, column) RESULT_OF_IMAGE((column) / outputs, row, (column) % outputs)
#endif
#if defined(PARTS) || defined(ROUNDED)
#define STORE(row, column, sum) of_out[PLACE(row, column)] = (T)FINISHED(sum);
#else
#define STORE(row, column, sum) of_out[PLACE(row, column)] = sum, bits |= abs(sum);
#endif

/* columns: `outputs` of each image, which lie at y * l2 + x of l1 * l2; or `per` channels of each of `taps` taps.
 * left_step: of a step of k; a group's lefts are left_plane, its rights right_plane. */
SIMD_KERNEL tiles(IN(int) left, IN(int) right, IN(index_t) offsets, OUT(T) out, OUT(int) magnitude, index_t rows,
                  index_t columns, index_t inner, index_t left_step, index_t left_plane, index_t right_plane,
                  index_t groups, index_t outputs, index_t wide, index_t l1, index_t l2, index_t per, index_t taps,
                  index_t taps2, index_t step1, index_t step2, index_t slice, index_t part, int shift, int least,
                  int most) {
  TILE_MEMORY
#if !defined(PARTS) && !defined(ROUNDED)
  SHARED uint tree[GROUP];
#endif
  const uint l = get_local_id(0);
  const index_t first_column = (index_t)get_group_id(0) * TILE_N, first_row = (index_t)get_group_id(1) * TILE_M;
  const index_t group = get_group_id(2) % groups, which = get_group_id(2) / groups;
  const index_t begin = which * slice, end = min(begin + slice, inner), column = first_column + l % TILE_N;
  const bool there = column < columns;
  uint bits = 0;
  IN(int) of_left = left + group * left_plane;
#ifdef FILTER
  const index_t tap = column / per, place = (tap / taps2 * step1 * l2 + tap % taps2 * step2) * wide + column % per;
#else
  const index_t o = column % outputs, place = column / outputs * l1 * l2 + o / wide * l2 + o % wide;
#endif
  IN(int) of_right = right + group * right_plane + (there ? place : 0);
  OUT(T) of_out = out + which * part;
  TILE_PRODUCT(begin, end, rows, columns)
#if !defined(PARTS) && !defined(ROUNDED)
  ADD_TO_MAGNITUDE_INT(magnitude, bits, tree)
#endif
}
#endif

/* --- in the registers of a CPU: PANEL_M rows by PANEL_V vectors of PANEL_W columns -------------------------------- */
#ifdef PANEL_M
#define PANEL_N (PANEL_V * PANEL_W)
typedef INTEGER_JOIN(int, PANEL_W) panel_vector;
#define PANEL_LOAD INTEGER_JOIN(vload, PANEL_W)
#define PANEL_STORE INTEGER_JOIN(vstore, PANEL_W)
#define PANEL_CONVERT INTEGER_JOIN(INTEGER_JOIN(convert_, T), PANEL_W)
#define PANEL_EACH_I _Pragma("unroll") for (int i = 0; i < PANEL_M; i++)
#define PANEL_EACH_J _Pragma("unroll") for (int j = 0; j < PANEL_V; j++)

/* Two products of shorts in each lane. x86 has an instruction for it, which compilers do not find by themselves. */
#if PANEL_W == 16 && defined(__AVX512BW__)
typedef short panel_shorts __attribute__((vector_size(64)));
#define MULTIPLY_PAIRS(a, b)                                                                                           \
  __builtin_astype(__builtin_ia32_pmaddwd512(__builtin_astype(a, panel_shorts), __builtin_astype(b, panel_shorts)),    \
                   panel_vector)
#elif PANEL_W == 8 && defined(__AVX2__)
typedef short panel_shorts __attribute__((vector_size(32)));
#define MULTIPLY_PAIRS(a, b)                                                                                           \
  __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(a, panel_shorts), __builtin_astype(b, panel_shorts)),    \
                   panel_vector)
#else
#define MULTIPLY_PAIRS(a, b) (((a) << 16 >> 16) * ((b) << 16 >> 16) + ((a) >> 16) * ((b) >> 16))
#endif

/* Steps of k whose words of all rows and columns of a work-item stay in the nearest caches. */
#define STRETCH 256

/* Columns are places of the lines of all images, those between outputs too; or channels of a tap, in blocks of `wide`;
 * or, WINDOWS, taps of channels. A work-item takes PANEL_N columns of most_share taps and `chunk` panels of rows, KEPT
 * together, of a group and slice, whose sums stay in the second cache: what it reads it reads once for all of them.
 * left_panel: words of a panel. */
KERNEL panels(IN(int) left, IN(int) right, IN(index_t) offsets, OUT(T) out, OUT(int) magnitude, index_t rows,
              index_t columns, index_t inner, index_t left_panel, index_t left_plane, index_t right_block,
              index_t right_plane, index_t groups, index_t outputs, index_t wide, index_t high, index_t l1, index_t l2,
              index_t per, index_t taps, index_t taps2, index_t step1, index_t step2, index_t slice, index_t part,
              int shift, int least, int most, int chunk, int most_share) {
  const index_t group = get_global_id(2) % groups, which = get_global_id(2) / groups;
  const index_t begin = which * slice, end = min(begin + slice, inner), first = (index_t)get_global_id(1) * chunk;
  const int count = (int)min((index_t)chunk, (rows + PANEL_M - 1) / PANEL_M - first);
  uint bits = 0;
  OUT(T) of_out = out + which * part;
#ifdef FILTER
  const index_t block = get_global_id(0) % ((columns + PANEL_N - 1) / PANEL_N);
  const index_t tap = get_global_id(0) / ((columns + PANEL_N - 1) / PANEL_N) * most_share;
  const index_t c = block * PANEL_N, there = min((index_t)PANEL_N, columns - c);
  const int share = (int)min((index_t)most_share, taps - tap);
  IN(int) of_right = right + group * right_plane + block * right_block;
#define TAP_PLACE(t) (((tap + (t)) / taps2 * step1 * l2 + (tap + (t)) % taps2 * step2) * wide)
#else
  const int share = 1;
#define TAP_PLACE(t) 0
  /* Runs of outputs within the columns. */
  const index_t column = (index_t)get_global_id(0) * PANEL_N;
  index_t run_to[PANEL_N];
  int run_at[PANEL_N], run_end[PANEL_N], runs = 0;
  index_t x = column % l2, y = column / l2 % l1, b = column / l2 / l1;
  for (int at = 0; at < PANEL_N && column + at < columns;) {
    const int some = (int)min((index_t)(PANEL_N - at), l2 - x);
    if (x < wide && y < high) {
      run_at[runs] = at;
      run_end[runs] = at + (int)min((index_t)some, wide - x);
      run_to[runs++] = b * groups * rows * outputs + y * wide + x;
    }
    at += some;
    x = 0;
    if (++y == l1) y = 0, b++;
  }
  if (!runs) return;
  IN(int) of_right = right + group * right_plane + column;
#endif
  IN(int) of_left = left + group * left_plane + first * left_panel;
  panel_vector kept[KEPT][PANEL_M][PANEL_V];
  for (int n = 0; n < share * count; n++) PANEL_EACH_I PANEL_EACH_J kept[n][i][j] = (panel_vector)(0);
  for (index_t at = begin; at < end; at += STRETCH) {
    const index_t stop = min(at + STRETCH, end);
    for (int n = 0; n < share * count; n++) {
      panel_vector sums[PANEL_M][PANEL_V];
      PANEL_EACH_I PANEL_EACH_J sums[i][j] = kept[n][i][j];
      IN(int) l = of_left + n % count * left_panel + at * PANEL_M;
      IN(int) of_tap = of_right + TAP_PLACE(n / count);
      for (index_t k = at; k < stop; k++, l += PANEL_M) {
        IN(int) r = of_tap + offsets[k];
        panel_vector v[PANEL_V];
        PANEL_EACH_J v[j] = PANEL_LOAD(j, r);
        PANEL_EACH_I {
          const panel_vector a = (panel_vector)(l[i]);
          PANEL_EACH_J sums[i][j] += MULTIPLY_PAIRS(a, v[j]);
        }
      }
      PANEL_EACH_I PANEL_EACH_J kept[n][i][j] = sums[i][j];
    }
  }
  for (int n = 0; n < share * count; n++) {
    T results[PANEL_M][PANEL_N];
    PANEL_EACH_I PANEL_EACH_J PANEL_STORE(PANEL_CONVERT(FINISHED(kept[n][i][j])), j, results[i]);
    for (int i = 0; i < PANEL_M && (first + n % count) * PANEL_M + i < rows; i++) {
      const index_t row = (first + n % count) * PANEL_M + i;
#ifdef FILTER
      for (int m = 0; m < there; m++) {
#ifdef WINDOWS
        of_out[RESULT_OF_FILTER(row, (c + m) % per, (c + m) / per)] = results[i][m];
#else
        of_out[RESULT_OF_FILTER(row, c + m, tap + n / count)] = results[i][m];
#endif
        bits |= abs((int)results[i][m]);
      }
#else
      for (int run = 0; run < runs; run++) {
        OUT(T) to = of_out + (group * rows + row) * outputs + run_to[run] - run_at[run];
        for (int m = run_at[run]; m < run_end[run]; m++) to[m] = results[i][m];
#if !defined(PARTS) && !defined(ROUNDED)
        for (int m = run_at[run]; m < run_end[run]; m++) bits |= abs((int)results[i][m]);
#endif
      }
#endif
    }
  }
#if !defined(PARTS) && !defined(ROUNDED)
  if (bits) atomic_or((volatile GLOBAL uint *)magnitude, bits);
#endif
}
#endif
