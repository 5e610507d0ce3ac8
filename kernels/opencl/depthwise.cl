/* Convolutions with one channel in a group, of images whose channels lie last: [batch, height, width, channels], of which
 * there are a multiple of eight. X: the type of elements. TAPS_Y, TAPS_X, STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X: the
 * window; weights are [channels, TAPS_Y, TAPS_X]. */
#include "common.clh"
#include "activation.clh"

#define TAPS (TAPS_Y * TAPS_X)
#define UNROLL _Pragma("unroll")

#ifdef FORWARD
/* A group has LANES times eight channels, whose weights it keeps in local memory; its rows of work-items each have RUN
 * outputs side by side, in DOWN lines one after the other, so that most of what a line reads is still near from the line
 * before. What a line of outputs reads of a line of the image is loaded at once, without branches between the loads;
 * outside of the image it is 0. */
#define ROWS (GROUP / LANES)
#define SEEN ((RUN - 1) * STRIDE_X + (TAPS_X - 1) * DILATION_X + 1)
#define TAP_AT(tap, half, lane) ((((tap)*2 + (half)) * LANES + (lane)) * 4)

KERNEL depthwise(IN(X) x, IN(X) w, IN(X) bias, OUT(X) y, float p, float q, index_t units, index_t channels,
                 index_t height, index_t width, index_t lines, index_t columns, index_t runs, index_t strips, int above,
                 int left) {
  SHARED float taps[TAPS * 8 * LANES] __attribute__((aligned(16)));
  const int l = get_local_id(0), lane = l % LANES;
  const index_t block = (index_t)get_group_id(1) * LANES * 8, c = block + lane * 8;
  const index_t unit = (index_t)get_group_id(0) * ROWS + l / LANES;
  for (int i = l; i < TAPS * 8 * LANES && block * TAPS + i < channels * TAPS; i += GROUP) {
    const int k = i / TAPS;
    taps[TAP_AT(i % TAPS, k % 8 / 4, k / 8) + k % 4] = GET(X, w, block * TAPS + i);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l >= ROWS * LANES || unit >= units || c >= channels) return;
  const index_t first = unit % runs * RUN, from = first * STRIDE_X - left, image = unit / runs / strips;
  float shift[8], seen[SEEN][8], sums[RUN][8];
  for (int k = 0; k < 8; k++) shift[k] = 0;
#ifdef BIAS
  GET_EIGHT(X, bias, c, shift)
#endif
  for (int down = 0; down < DOWN; down++) {
    const index_t line = unit / runs % strips * DOWN + down;
    if (line >= lines) break;
    UNROLL for (int o = 0; o < RUN; o++)
      for (int k = 0; k < 8; k++) sums[o][k] = shift[k];
    UNROLL for (int ty = 0; ty < TAPS_Y; ty++) {
      const index_t row = line * STRIDE_Y + ty * DILATION_Y - above;
      const bool within = row >= 0 && row < height;
      GLOBAL const X *at = x + ((image * height + row) * width + from) * channels + c;
      UNROLL for (int s = 0; s < SEEN; s++)
        GET_EIGHT_IF(X, within && from + s >= 0 && from + s < width, at, s * channels, seen[s])
      UNROLL for (int tx = 0; tx < TAPS_X; tx++) {
        const float4 low = *(local const float4 *)(taps + TAP_AT(ty * TAPS_X + tx, 0, lane));
        const float4 high = *(local const float4 *)(taps + TAP_AT(ty * TAPS_X + tx, 1, lane));
        const float tap[8] = {low.s0, low.s1, low.s2, low.s3, high.s0, high.s1, high.s2, high.s3};
        UNROLL for (int o = 0; o < RUN; o++)
          UNROLL for (int k = 0; k < 8; k++) sums[o][k] += seen[o * STRIDE_X + tx * DILATION_X][k] * tap[k];
      }
    }
    UNROLL for (int o = 0; o < RUN; o++) {
      if (first + o >= columns) continue;
      UNROLL for (int k = 0; k < 8; k++) sums[o][k] = ACTIVATE(sums[o][k]);
      PUT_EIGHT(X, y, ((image * lines + line) * columns + first + o) * channels + c, sums[o])
    }
  }
}
#endif

#ifdef BACKWARD
/* Weights of few taps stay in registers. */
#if TAPS <= 9
#define WEIGHT(k, tap) weights[(k)*TAPS + (tap)]
#else
#define WEIGHT(k, tap) GET(X, w, (c + (k)) * TAPS + (tap))
#endif

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
