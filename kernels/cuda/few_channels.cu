/* Convolutions of images of 16 bits with one to four channels, and the gradient of their weights, on tensor cores: such
 * images are the first of a network, where the inner dimension, the channels of all taps, is that of one or two
 * instructions. The result, or its gradient, is then nearly all that is read and written, and goes between memory and
 * registers in words of 16 bytes.
 *
 * Images and weights lie channels last: [batch, HEIGHT, WIDTH, CHANNELS], [FILTERS, TAPS_Y, TAPS_X, CHANNELS], results
 * [batch, LINES, COLUMNS, FILTERS]. X: the type of elements, bf16 or fp16; sums are of float. A *place* is one of
 * batch * LINES * COLUMNS; FILTERS is a multiple of eight. STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X: of the window;
 * ABOVE and LEFT: lines and columns of padding before the image. What is behind it follows from the sizes.
 *
 * What the windows of places look at (im2col) is made in shared memory by one thread for each place, one line of PITCH
 * words. Products are of 16 rows, 8 columns and 16 of the inner dimension; a thread of a warp is `eighth` = lane / 4
 * and `fourth` = lane % 4 in them ("Parallel Thread Execution ISA", mma.m16n8k16). */
#include "common.clh"
#include "tensor.cuh"
#include "tensor_instructions.cuh"

#define INNER (TAPS_Y * TAPS_X * CHANNELS)
#if defined(FILTER) && INNER > 32
#define STEPS 4 /* two parts of the same size */
#else
#define STEPS ((INNER + 15) / 16)
#endif
#define PITCH (2 * STEPS + 1) /* odd: eight lines that are read at once lie in different banks */
#define MULTIPLY(s, left, right) JOINED(tensor_multiply_, X)(s, left, right)

#ifndef JOIN
/* The line of a place: the channels of its taps in the order of weights; zeros outside of the image, behind the last
 * tap, and for places that are not there. */
inline void few_gather(const ushort *x, int place, int places, tensor_word *line) {
  const uint row = (uint)place / COLUMNS, sample = row / LINES;
  const int y0 = (int)(row % LINES) * STRIDE_Y - ABOVE, x0 = (int)((uint)place % COLUMNS) * STRIDE_X - LEFT;
  const ushort *const first = x + (((long)sample * HEIGHT + y0) * WIDTH + x0) * CHANNELS;
  uint pairs[8 * STEPS];
  TENSOR_EACH(i, 8 * STEPS) pairs[i] = 0;
  TENSOR_EACH(ty, TAPS_Y) {
    const int at_y = y0 + ty * DILATION_Y;
    const bool line_inside = place < places && at_y >= 0 && at_y < HEIGHT;
    TENSOR_EACH(tx, TAPS_X) {
      const int at_x = x0 + tx * DILATION_X;
      const bool inside = line_inside && at_x >= 0 && at_x < WIDTH;
      TENSOR_EACH(c, CHANNELS) {
        const int k = (ty * TAPS_X + tx) * CHANNELS + c;
        const uint value = inside ? first[((long)ty * DILATION_Y * WIDTH + tx * DILATION_X) * CHANNELS + c] : 0;
        pairs[k / 2] |= value << 16 * (k % 2);
      }
    }
  }
  TENSOR_EACH(i, 2 * STEPS) {
    const tensor_word word = {pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]};
    line[i] = word;
  }
}
#endif

#ifdef FORWARD
/* BLOCK filters at a time. Columns of the products stand for filters in such an order that the eight results which a
 * thread has of a row, two of each of four products, are neighbours: filter 8 * fourth + 2 * product + i of 32. */
#define BLOCK 128
#ifdef RELU
#define PAIR JOINED(tensor_pair_relu_, X)
#else
#define PAIR JOINED(tensor_pair_, X)
#endif

inline int few_column(int filter) {
  return filter / 32 * 32 + filter % 8 / 2 * 8 + filter % 32 / 8 * 2 + filter % 2;
}

/* [column][PITCH]: zeros behind the last tap and for filters that are not there. */
inline void few_stage_weights(const ushort *w, int filters, tensor_word *weights) {
  const tensor_word *from = (const tensor_word *)w, zeros = {0, 0, 0, 0};
  for (int i = (int)threadIdx.x; i < BLOCK * PITCH; i += GROUP) weights[i] = zeros;
  __syncthreads();
  for (int i = (int)threadIdx.x; i < filters * INNER / 8; i += GROUP) {
    const tensor_word word = from[i];
    const uint pairs[4] = {word.x, word.y, word.z, word.w};
    TENSOR_EACH(k, 8) {
      const uint at = 8 * (uint)i + k, filter = at / INNER;
      ((ushort *)(weights + few_column((int)filter) * PITCH))[at - filter * INNER] =
          (ushort)(pairs[k / 2] >> 16 * (k % 2));
    }
  }
}

/* What sums begin with: of two filters, as the two rows of a thread have them. */
struct alignas(16) tensor_start {
  float x, y, z, w;
};
inline void few_stage_starts(const ushort *bias, int filters, tensor_start *starts) {
  for (int i = (int)threadIdx.x; i < BLOCK / 2; i += GROUP) {
    float a = 0, b = 0;
#ifdef BIAS
    if (2 * i < filters) a = GET(X, bias, 2 * i), b = GET(X, bias, 2 * i + 1);
#endif
    const tensor_start start = {a, b, a, b};
    starts[i] = start;
  }
}

/* 32 places by 32 filters of a warp, from the starts that all places have. */
inline void few_multiply(uint (*left)[STEPS][4], const tensor_word *weights, const tensor_start *starts,
                         float (*sums)[4][4]) {
  const int lane = (int)threadIdx.x % 32;
  TENSOR_EACH(n, 4) {
    const tensor_start start = starts[4 * (lane % 4) + n];
    TENSOR_EACH(m, 2) {
      sums[m][n][0] = start.x, sums[m][n][1] = start.y;
      sums[m][n][2] = start.z, sums[m][n][3] = start.w;
    }
  }
  TENSOR_EACH(step, STEPS) {
    TENSOR_EACH(half, 2) {
      uint right[4];
      tensor_load(right, weights + (16 * half + lane / 16 * 8 + lane % 8) * PITCH + 2 * step + lane / 8 % 2);
      TENSOR_EACH(m, 2) {
        MULTIPLY(sums[m][2 * half], left[m][step], right);
        MULTIPLY(sums[m][2 * half + 1], left[m][step], right + 2);
      }
    }
  }
}

/* A warp takes 32 places at a time, and begins the next ones when it has written their results, whatever the others
 * do. `groups`: in the first dimension; they share all places. */
extern "C" __global__ void __launch_bounds__(GROUP, RESIDENT)
    few_channels(IN(X) x, IN(X) w, IN(X) bias, OUT(X) y, index_t places, index_t groups) {
  SHARED tensor_word images[GROUP * PITCH], weights[BLOCK * PITCH];
  SHARED tensor_start starts[BLOCK / 2];
  const int lane = (int)threadIdx.x % 32, begin = (int)threadIdx.x - lane, first = (int)get_group_id(1) * BLOCK;
  const int some = min(BLOCK, FILTERS - first);
  tensor_word *const own = images + begin * PITCH;
  few_stage_weights(w + (long)first * INNER, some, weights);
  few_stage_starts(bias + first, some, starts);
  __syncthreads();
  for (int tile = (int)get_group_id(0) * GROUP + begin; tile < (int)places; tile += (int)groups * GROUP) {
    uint rows[2][STEPS][4];
    few_gather(x, tile + lane, (int)places, own + lane * PITCH);
    __syncwarp();
    TENSOR_EACH(m, 2) {
      TENSOR_EACH(step, STEPS)
      tensor_load(rows[m][step], own + (16 * m + lane % 16) * PITCH + 2 * step + lane / 16);
    }
    __syncwarp();
    X *to = y + (long)(tile + lane / 4) * FILTERS + first + 8 * (lane % 4);
    _Pragma("unroll 1") for (int c = 0; c < some; c += 32, to += 32) {
      float sums[2][4][4];
      few_multiply(rows, weights + c * PITCH, starts + c / 2, sums);
      const int end = c + 8 * (lane % 4) < some ? (int)places - tile - lane / 4 : 0;
      TENSOR_EACH(part, 4) { /* 8 places */
        const int m = part / 2, i = part % 2 * 2;
        uint pairs[4];
        TENSOR_EACH(n, 4)
        pairs[n] = PAIR(sums[m][n][i], sums[m][n][i + 1]);
        if (8 * part < end) tensor_store(to + 8 * part * FILTERS, pairs);
      }
    }
  }
}
#endif

#ifdef FILTER
/* The gradient of weights: sum over places of dy[place][filter] * x[place][inner]. A warp multiplies 64 filters by one
 * of PARTS parts of the inner dimension; those of a group take HALVES times 64 filters, both parts and, as SPLITS, the
 * places that the group has made lines of. */
#define PARTS (STEPS > 2 ? 2 : 1)
#define WAYS (HALVES * PARTS)
#define SPLITS (GROUP / 32 / WAYS)
#define RUN (GROUP / SPLITS)      /* places of a warp, of GROUP */
#define TILES (STEPS / PARTS * 2) /* columns in eights */
#define WAY_SUMS (64 * 8 * TILES)
#define SUMS_OF(m, n, i) (((m) * TILES + (n)) * 4 + (i))

/* Eight filters of the places 0, 1, 8 and 9 of the `count` that are there. */
inline void few_load_errors(tensor_word *words, const ushort *from, int count) {
  TENSOR_EACH(i, 4) {
    const int place = i % 2 + i / 2 * 8;
    const tensor_word zeros = {0, 0, 0, 0};
    words[i] = place < count ? *(const tensor_word *)(from + place * FILTERS) : zeros;
  }
}

/* As rows of four products: rows `eighth` and `eighth` + 8 of product m are the filters 8 * eighth + 2 * m and the one
 * behind it, so that a thread needs of others nothing. */
inline void few_turn_errors(uint (*left)[4], const tensor_word *words) {
  TENSOR_EACH(i, 2) { /* pairs of places */
    const tensor_word a = words[2 * i], b = words[2 * i + 1];
    const uint one[4] = {a.x, a.y, a.z, a.w}, other[4] = {b.x, b.y, b.z, b.w};
    TENSOR_EACH(m, 4) {
      left[m][2 * i] = __byte_perm(one[m], other[m], 0x5410);
      left[m][2 * i + 1] = __byte_perm(one[m], other[m], 0x7632);
    }
  }
}

/* Sums of all SPLITS, always in this order, of [way][SUMS_OF][lane]. */
inline void few_add_splits(float (*sums)[TILES][4], float *to, int split) {
  for (int turn = 0; turn < SPLITS; turn++) {
    __syncthreads();
    if (turn != split) continue;
    TENSOR_EACH(m, 4) {
      TENSOR_EACH(n, TILES) {
        TENSOR_EACH(i, 4) {
          float *const at = to + 32 * SUMS_OF(m, n, i);
          *at = turn ? *at + sums[m][n][i] : sums[m][n][i];
        }
      }
    }
  }
  __syncthreads();
}

/* Where few_add_splits has put a result of the group. */
inline int few_place_of(int filter, int k) {
  const int way = filter / 64 + k / (8 * TILES) * HALVES, n = k / 8 % TILES;
  const int lane = filter % 64 / 8 * 4 + k % 8 / 2;
  return way * WAY_SUMS + 32 * SUMS_OF(filter % 8 / 2, n, filter % 2 * 2 + k % 2) + lane;
}

/* A group of the first dimension sums `slice` places, a multiple of GROUP, to [slices][FILTERS][INNER]. */
extern "C" __global__ void __launch_bounds__(GROUP, RESIDENT)
    few_channels_grad_filter(IN(X) x, IN(X) dy, OUT(float) parts, index_t places, index_t slice) {
  SHARED tensor_word images[GROUP * PITCH]; /* then the sums, which are no more: STEPS * HALVES * 4 KiB */
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, way = warp % WAYS, split = warp / WAYS;
  const int first = (int)get_group_id(1) * HALVES * 64, filter = first + way % HALVES * 64 + lane / 4 * 8;
  const int begin = (int)get_group_id(0) * (int)slice, end = min(begin + (int)slice, (int)places);
  const int mine = split * RUN + lane % 4 * 2, count = filter < FILTERS ? end - mine : 0;
  dy += (long)mine * FILTERS + filter;
  float sums[4][TILES][4];
  tensor_word errors[4];
  TENSOR_EACH(m, 4) {
    TENSOR_EACH(n, TILES) {
      TENSOR_EACH(i, 4) sums[m][n][i] = 0;
    }
  }
  for (int tile = begin; tile < end; tile += GROUP) {
    const ushort *from = dy + (long)tile * FILTERS;
    if (threadIdx.x == 0) tensor_prefetch(from - first, min(GROUP, end - tile) * FILTERS * 2);
    __syncthreads();
    few_gather(x, tile + (int)threadIdx.x, (int)places, images + threadIdx.x * PITCH);
    __syncthreads();
    few_load_errors(errors, from, count - tile);
    _Pragma("unroll 1") for (int step = 0; step < RUN / 16; step++) {
      const int next = 16 * (step + 1);
      const tensor_word *of_step =
          images + (split * RUN + 16 * step + lane % 16) * PITCH + way / HALVES * TILES + lane / 16;
      uint rows[4][4];
      few_turn_errors(rows, errors);
      if (next < RUN) few_load_errors(errors, from += 16 * FILTERS, count - tile - next);
      TENSOR_EACH(pair, TILES / 2) {
        uint right[4];
        tensor_load_turned(right, of_step + 2 * pair);
        TENSOR_EACH(m, 4) {
          MULTIPLY(sums[m][2 * pair], rows[m], right);
          MULTIPLY(sums[m][2 * pair + 1], rows[m], right + 2);
        }
      }
    }
  }
  float *const all = (float *)images;
  few_add_splits(sums, all + way * WAY_SUMS + lane, split);
  for (int i = (int)threadIdx.x; i < HALVES * 64 * INNER; i += GROUP)
    if (first + i / INNER < FILTERS)
      parts[((long)get_group_id(0) * FILTERS + first) * INNER + i] = all[few_place_of(i / INNER, i % INNER)];
}
#endif

#ifdef JOIN
/* The sum of all slices: 32 results of a group, whose warps take every so many slices, and then the warps' sums, both
 * in the same order every time. */
KERNEL few_channels_join(IN(float) parts, OUT(X) dw, index_t results, index_t slices) {
  SHARED float sums[GROUP];
  const index_t result = (index_t)get_group_id(0) * 32 + threadIdx.x % 32;
  float sum = 0;
  if (result < results) {
    _Pragma("unroll 8") for (index_t s = threadIdx.x / 32; s < slices; s += GROUP / 32)
      sum += parts[(long)s * results + result];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || result >= results) return;
  TENSOR_EACH(warp, GROUP / 32 - 1) sum += sums[32 * (warp + 1) + threadIdx.x];
  PUT(X, dw, result, sum);
}
#endif
