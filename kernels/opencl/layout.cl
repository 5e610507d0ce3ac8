/* A tensor rewritten in another layout, a work-item per element of the target.
 * T: an unsigned type as large as an element. C_DIM, S_DIM, B_DIM: the dimension that counts channels, places and the
 * batch; the target's innermost one is 0. NARROW: the launch has one dimension for all three, so that groups are large
 * where one is small; 32 bits count elements. */

/* Where an element lies: channels count in blocks of 16. */
#define AT(b, c, s, db, dblock, dc, ds) ((b) * (db) + ((c) / 16) * (dblock) + ((c) % 16) * (dc) + (s) * (ds))

#ifdef C_DIM
#ifdef NARROW
typedef int place_t;
#define COUNTED(d) (int)((d) == 0 ? item % n0 : (d) == 1 ? item / n0 % n1 : item / n0 / n1)
#else
typedef long place_t;
#define COUNTED(d) get_global_id(d)
#endif
__kernel void layout_convert(const __global T *x, __global T *y, long channels, long xb_, long xblock_, long xc_,
                             long xs_, long yb_, long yblock_, long yc_, long ys_, long n0_, long n1_) {
  const place_t xb = xb_, xblock = xblock_, xc = xc_, xs = xs_, yb = yb_, yblock = yblock_, yc = yc_, ys = ys_;
#ifdef NARROW
  const uint item = get_global_id(0), n0 = n0_, n1 = n1_;
#endif
  const place_t b = COUNTED(B_DIM), c = COUNTED(C_DIM), s = COUNTED(S_DIM);
  y[AT(b, c, s, yb, yblock, yc, ys)] = c < channels ? x[AT(b, c, s, xb, xblock, xc, xs)] : 0;
}
#endif

#ifdef FEW
/* Few channels put last: a work-item per place, whose neighbours read and write next to each other. */
__kernel void layout_convert_few(const __global T *x, __global T *y, long xb, long xc, long xs, long yb) {
  long s = get_global_id(0), b = get_global_id(1);
  for (int c = 0; c < FEW; c++) y[b * yb + s * FEW + c] = x[b * xb + c * xc + s * xs];
}
#endif

#ifdef SAMPLES
/* Images [channels / 16][place][sample][16], and the plain order [sample][channel][place]. */
#ifdef WHOLE
/* Bytes of one place: sixteen channels lie next to each other. */
__kernel void layout_to_samples(const __global T *x, __global T *y, long batch_, long channels_, long places_) {
  const uint item = get_global_id(0), batch = batch_, blocks = channels_ / 16;
  ((__global uint4 *)y)[item] = ((const __global uint4 *)x)[item % batch * blocks + item / batch];
}
#else
__kernel void layout_to_samples(const __global T *x, __global T *y, long batch_, long channels_, long places_) {
  uint item = get_global_id(0), batch = batch_, channels = channels_, places = places_;
  uint b = item % batch, s = item / batch % places, first = item / batch / places * 16;
  const __global T *from = x + (b * channels + first) * places + s;
  for (uint c = 0; c < 16; c++) y[item * 16 + c] = first + c < channels ? from[c * places] : 0;
}
#endif

#ifdef TURN
/* Bytes, and places in sixteens: a work-item turns 16 places of a sample's 16 channels. */
__kernel void layout_from_samples(const __global T *x, __global T *y, long batch_, long channels_, long places_) {
  const uint item = get_global_id(0), batch = batch_, channels = channels_, places = places_, runs = places / 16;
  const uint b = item % batch, first = item / batch % runs * 16, c = item / batch / runs * 16;
  const __global uint4 *from = (const __global uint4 *)x + (c / 16 * places + first) * batch + b;
  uint in[16][4];
  _Pragma("unroll") for (int s = 0; s < 16; s++) vstore4(from[s * batch], 0, in[s]);
  _Pragma("unroll") for (int k = 0; k < 16; k++) {
    if (c + k >= channels) return;
    uint out[4];
    _Pragma("unroll") for (int w = 0; w < 4; w++) {
      out[w] = 0;
      _Pragma("unroll") for (int i = 0; i < 4; i++) out[w] |= (in[4 * w + i][k / 4] >> k % 4 * 8 & 255) << i * 8;
    }
    *(__global uint4 *)(y + (b * channels + c + k) * places + first) = vload4(0, out);
  }
}
#else
__kernel void layout_from_samples(const __global T *x, __global T *y, long batch_, long channels_, long places_) {
  uint item = get_global_id(0), batch = batch_, channels = channels_, places = places_;
  uint s = item % places, padded = (channels + 15) / 16 * 16, c = item / places % padded, b = item / places / padded;
  if (c < channels) y[(b * channels + c) * places + s] = x[((c / 16 * places + s) * batch + b) * 16 + c % 16];
}
#endif
#endif

#ifdef RANK
/* Any layouts: a work-item per place of the target. X_ORDER, Y_ORDER: dimensions from the outermost to the innermost;
 * X_BLOCKS, X_BLOCK_DIMS, X_SIZES and Y's: how many blocks, of which dimensions, how large, outermost first. NARROW: 32
 * bits count elements. */
__kernel void layout_convert_any(const __global T *x, __global T *y, long d0, long d1, long d2, long d3, long d4,
                                 long d5, long d6, long d7) {
#ifdef NARROW
  typedef uint count_t;
#else
  typedef long count_t;
#endif
  const count_t dims[8] = {d0, d1, d2, d3, d4, d5, d6, d7};
  const int x_order[RANK] = {X_ORDER}, y_order[RANK] = {Y_ORDER};
  const int x_dims[2] = {X_BLOCK_DIMS}, y_dims[2] = {Y_BLOCK_DIMS}, x_sizes[2] = {X_SIZES}, y_sizes[2] = {Y_SIZES};
  count_t index[8] = {0}, unit[8] = {1, 1, 1, 1, 1, 1, 1, 1}, left = get_global_id(0), place = 0, step = 1;
  for (int i = Y_BLOCKS; i-- > 0; left /= y_sizes[i]) {
    index[y_dims[i]] += left % y_sizes[i] * unit[y_dims[i]];
    unit[y_dims[i]] *= y_sizes[i];
  }
  for (int i = RANK; i-- > 0;) {
    int d = y_order[i];
    count_t outer = (dims[d] + unit[d] - 1) / unit[d];
    index[d] += left % outer * unit[d];
    left /= outer;
  }
  int inside = 1;
  for (int d = 0; d < RANK; d++) inside &= index[d] < dims[d];
  for (int d = 0; d < 8; d++) unit[d] = 1;
  for (int i = X_BLOCKS; i-- > 0; step *= x_sizes[i]) {
    place += index[x_dims[i]] % x_sizes[i] * step;
    index[x_dims[i]] /= x_sizes[i];
    unit[x_dims[i]] *= x_sizes[i];
  }
  for (int i = RANK; i-- > 0;) {
    int d = x_order[i];
    place += index[d] * step;
    step *= (dims[d] + unit[d] - 1) / unit[d];
  }
  y[get_global_id(0)] = inside ? x[place] : 0;
}
#endif
