/* A tensor rewritten in another layout, a work-item per element of the target.
 * T: an unsigned type as large as an element. C_DIM, S_DIM, B_DIM: the dimension of the launch that counts channels,
 * places and the batch; the target's innermost one is 0. */

/* Where an element lies: channels count in blocks of 16. */
#define AT(b, c, s, db, dblock, dc, ds) ((b) * (db) + ((c) / 16) * (dblock) + ((c) % 16) * (dc) + (s) * (ds))

__kernel void layout_convert(const __global T *x, __global T *y, long channels, long xb, long xblock, long xc, long xs,
                             long yb, long yblock, long yc, long ys) {
  long b = get_global_id(B_DIM), c = get_global_id(C_DIM), s = get_global_id(S_DIM);
  y[AT(b, c, s, yb, yblock, yc, ys)] = c < channels ? x[AT(b, c, s, xb, xblock, xc, xs)] : 0;
}
