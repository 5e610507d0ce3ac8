/* Convolutions with one channel in a group, of images whose channels lie last: [batch, height, width, channels], of which
 * there are a multiple of eight. X: the type of elements. A work-item has eight channels of RUN outputs of a line: what
 * it loads of a line of the image goes to all of them. TAPS_Y, TAPS_X, STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X: the
 * window; weights are [channels, TAPS_Y, TAPS_X]. */
#include "common.clh"
#include "activation.clh"

#define TAPS (TAPS_Y * TAPS_X)
#define SEEN ((RUN - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X + 1)
#define UNROLL _Pragma("unroll")

/* Weights of few taps stay in registers. */
#if TAPS <= 9
#define WEIGHT(k, tap) weights[(k)*TAPS + (tap)]
#else
#define WEIGHT(k, tap) GET(X, w, (c + (k)) * TAPS + (tap))
#endif

#ifdef FORWARD
KERNEL depthwise(IN(X) x, IN(X) w, IN(X) bias, OUT(X) y, float p, float q, index_t total, index_t channels,
                 index_t height, index_t width, index_t lines, index_t columns, index_t runs, int above, int left) {
  const index_t item = get_global_id(0), eights = channels / 8;
  if (item >= total) return;
  const index_t c = item % eights * 8, first = item / eights % runs * RUN, line = item / eights / runs % lines;
  const index_t image = item / eights / runs / lines;
  float sums[RUN][8], at[8];
#if TAPS <= 9
  float weights[8 * TAPS];
  UNROLL for (int t = 0; t < TAPS; t++) GET_EIGHT(X, w, c * TAPS + 8 * t, (weights + 8 * t))
#endif
  for (int k = 0; k < 8; k++) at[k] = 0;
#ifdef BIAS
  GET_EIGHT(X, bias, c, at)
#endif
  UNROLL for (int o = 0; o < RUN; o++)
    for (int k = 0; k < 8; k++) sums[o][k] = at[k];
  UNROLL for (int ty = 0; ty < TAPS_Y; ty++) {
    const index_t row = line * STRIDE_Y + ty * DILATION_Y - above;
    if (row < 0 || row >= height) continue;
    UNROLL for (int seen = 0; seen < SEEN; seen++) {
      const index_t column = first * STRIDE_X + seen - left;
      if (column < 0 || column >= width) continue;
      GET_EIGHT(X, x, ((image * height + row) * width + column) * channels + c, at)
      UNROLL for (int o = 0; o < RUN; o++) {
        const int from = seen - o * STRIDE_X;
        if (from < 0 || from % DILATION_X || from / DILATION_X >= TAPS_X) continue;
        UNROLL for (int k = 0; k < 8; k++) sums[o][k] += at[k] * WEIGHT(k, ty * TAPS_X + from / DILATION_X);
      }
    }
  }
  UNROLL for (int o = 0; o < RUN; o++) {
    if (first + o >= columns) continue;
    for (int k = 0; k < 8; k++) at[k] = ACTIVATE(sums[o][k]);
    PUT_EIGHT(X, y, ((image * lines + line) * columns + first + o) * channels + c, at)
  }
}
#endif

#ifdef BACKWARD
/* The gradient of the input: a work-item gathers eight channels of one place from the outputs that read it. */
KERNEL depthwise_grad_input(IN(X) dy, IN(X) w, OUT(X) dx, index_t total, index_t channels, index_t height,
                            index_t width, index_t lines, index_t columns, int above, int left) {
  const index_t item = get_global_id(0), eights = channels / 8;
  if (item >= total) return;
  const index_t c = item % eights * 8, column = item / eights % width, row = item / eights / width % height;
  const index_t image = item / eights / width / height;
  float sum[8], at[8];
#if TAPS <= 9
  float weights[8 * TAPS];
  UNROLL for (int t = 0; t < TAPS; t++) GET_EIGHT(X, w, c * TAPS + 8 * t, (weights + 8 * t))
#endif
  for (int k = 0; k < 8; k++) sum[k] = 0;
  UNROLL for (int ty = 0; ty < TAPS_Y; ty++) {
    const index_t down = row + above - ty * DILATION_Y, line = down / STRIDE_Y;
    if (down < 0 || line * STRIDE_Y != down || line >= lines) continue;
    UNROLL for (int tx = 0; tx < TAPS_X; tx++) {
      const index_t across = column + left - tx * DILATION_X, out = across / STRIDE_X;
      if (across < 0 || out * STRIDE_X != across || out >= columns) continue;
      GET_EIGHT(X, dy, ((image * lines + line) * columns + out) * channels + c, at)
      UNROLL for (int k = 0; k < 8; k++) sum[k] += at[k] * WEIGHT(k, ty * TAPS_X + tx);
    }
  }
  PUT_EIGHT(X, dx, item / eights * channels + c, sum)
}
#endif
