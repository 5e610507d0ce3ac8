/* Convolutions, their two gradients and fully connected layers of training in integers (docs/integer-training.md) on
 * tensor cores: one product of matrices of bytes whose sums have 32 bits,
 *
 *   sum(row, column) = sum over blocks k, bytes i < 16 of left[k][row][i] * right[k][column][i]
 *
 * Both sides of a tile lie in shared memory as [block of k][row or column][16 bytes], which is how these instructions
 * read them without conflicts, and the same order lies in memory, so that a tile is made of runs of rows:
 *
 *               left: rows                        right: columns                     k
 *   images      x or the error, samples           weights, packed before             taps, channels in 16s
 *   FILTER      the error, filters                x, channels of taps                places, samples in 16s
 *
 * Images are [channels / 16][place][sample][16 channels], with FILTER [place][samples / 16][channel][16 samples]. One
 * side, the *image*, is looked up: a tile of it has up to RUNS runs of rows, each of one place (FILTER: one tap), and
 * with a tap (place) of k that is where its source lies, or outside of the image. Outside there are zeros; STAGE blocks
 * of k that are outside for the whole tile are left out.
 *
 * Results: ROUNDED: Q(sum, k, shift) of type T. Else raw, of type T, with a magnitude; or PARTS of 32 bits of slices. */
#ifndef CLUSTER
#define CLUSTER 1
#endif
#include "common.clh"
#include "integer.clh"
#include "tensor.cuh"
#include "tensor_bits.cuh"
#include "tensor_instructions.cuh"

#if CLUSTER > 1
#define TENSOR_COPY_FIXED tensor_copy_to_all
#else
#define TENSOR_COPY_FIXED tensor_copy
#endif
#define TILE_M 128
#define WARP_M (TILE_M * TILE_N / 512)
#define RUNS 8
#define LISTED 1088 /* stages of a slice, at most */
#define LEFT_BYTES (TILE_M * STAGE * 16)
#define RIGHT_BYTES (TILE_N * STAGE * 16)
#define SLOT_BYTES (LEFT_BYTES + RIGHT_BYTES)

/* What all tiles share. Image: where block `b` of k's inner part, source place s and row r of group g lie is
 * b * of_block + s * of_place + g * of_group + r, in words of 16 bytes. Units are places (FILTER: taps); a tile takes
 * `rows` rows of some of them, or a part of the rows of one. */
struct tensor_geometry {
  index_t units, rows, chunks, per_tile;                 /* chunks of one's rows, or units of a tile */
  index_t blocks, all_blocks;                            /* of a tap (place); in all */
  index_t of_block, of_place, of_group;
  index_t h, w, ow, taps2, mul1, mul2, step1, step2, begin1, begin2, div1, div2;
};

/* The tile's part of the image: `runs` runs of `rows` rows, from row `first` of unit `unit` on. */
struct tensor_part {
  index_t unit, first;
  int runs, rows;
};

inline tensor_part tensor_part_of(const tensor_geometry &g, index_t tile, int most) {
  tensor_part part;
  if (g.per_tile > 0) {
    part.unit = tile * g.per_tile, part.first = 0;
    part.runs = (int)max(min(g.per_tile, g.units - part.unit), (index_t)0), part.rows = (int)g.rows;
  } else {
    part.unit = tile / g.chunks, part.first = tile % g.chunks * most;
    part.runs = part.unit < g.units, part.rows = (int)min((index_t)most, g.rows - part.first);
  }
  return part;
}

/* The source of a run for a block of k, in words, from the group's first on; -1: outside. */
inline long tensor_source(const tensor_geometry &g, const tensor_part &part, index_t k, int run) {
  const uint outer = (uint)k / (uint)g.blocks, inner = (uint)k - outer * (uint)g.blocks;
#ifdef FILTER
  const uint place = outer, tap = (uint)part.unit + run;
#else
  const uint place = (uint)part.unit + run, tap = outer;
#endif
  const uint y0 = place / (uint)g.ow, x0 = place - y0 * (uint)g.ow, t1 = tap / (uint)g.taps2;
  const uint t2 = tap - t1 * (uint)g.taps2;
  int y = (int)y0 * (int)g.mul1 + (int)t1 * (int)g.step1 - (int)g.begin1;
  int x = (int)x0 * (int)g.mul2 + (int)t2 * (int)g.step2 - (int)g.begin2;
#ifdef DIVIDED
  if (y < 0 || x < 0 || y % (int)g.div1 || x % (int)g.div2) return -1;
  y /= (int)g.div1, x /= (int)g.div2;
#endif
  if (y < 0 || y >= g.h || x < 0 || x >= g.w) return -1;
  return (long)inner * g.of_block + (long)(y * g.w + x) * g.of_place + part.first;
}

/* Has the stage something inside for one of CLUSTER tiles from `tile` on? */
inline bool tensor_inside(const tensor_geometry &g, index_t tile, int most, index_t stage) {
  TENSOR_EACH(c, CLUSTER) {
    const tensor_part part = tensor_part_of(g, tile + c, most);
    for (index_t k = stage * STAGE; k < min((stage + 1) * STAGE, g.all_blocks); k++)
      for (int run = 0; run < part.runs; run++)
        if (tensor_source(g, part, k, run) >= 0) return true;
  }
  return false;
}

/* Which stages [begin, end) are not all outside, in their order, which is the same for all groups of a cluster. A single
 * one is taken without a look. */
inline int tensor_list(const tensor_geometry &g, index_t tile, int most, index_t begin, index_t end, ushort *list,
                       int *counts) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  int all = 0;
  if (end - begin == 1) {
    if (threadIdx.x == 0) list[0] = 0;
    __syncthreads();
    return 1;
  }
  for (index_t first = begin; first < end; first += GROUP) {
    const index_t s = first + (index_t)threadIdx.x;
    const bool inside = s < end && tensor_inside(g, tile, most, s);
    const uint mask = __ballot_sync(0xffffffffu, inside);
    __syncthreads();
    if (lane == 0) counts[warp] = __popc(mask);
    __syncthreads();
    int before = all;
    for (int w = 0; w < GROUP / 32; w++) {
      if (w < warp) before += counts[w];
      all += counts[w];
    }
    if (inside) list[before + __popc(mask & ((1u << lane) - 1))] = (ushort)(s - begin);
  }
  __syncthreads();
  return all;
}

/* What is there of a tile's results, and where they go. */
struct tensor_target {
  index_t row_end, column_end;          /* of the tile's rows; columns in the matrix */
  index_t first_column, stride;         /* FILTER: of a row */
  index_t places, batch, blocks, block; /* of images: of all channels; the first of the group */
};

/* Q(sum, k, shift) by one addition: what is shifted out but for its highest bit does not count. A shift beyond 31 gives
 * 0, as 31 + 1 do. */
struct tensor_rounding {
  int before, half, least, most;
};
inline int tensor_round(int sum, const tensor_rounding &r) {
  const int value = ((sum >> r.before) + r.half) >> r.half;
  return min(max(value, r.least), r.most);
}

/* A row of the tile in memory: NULL where there is none. */
inline T *tensor_line(const tensor_target &to, const tensor_part &part, T *out, int row) {
#ifdef FILTER
  return row < to.row_end ? out + (long)row * to.stride + to.first_column : NULL;
#else
  if (row >= part.runs * part.rows) return NULL;
  const int run = part.runs > 1 ? row / part.rows : 0;
  const long line = (long)(part.unit + run) * to.batch + part.first + row - run * part.rows;
  return out + (to.block + to.first_column / 16) * (long)to.places * to.batch * 16 + line * 16;
#endif
}

/* Results of a row and 64 columns from `column` of the tile on: value 2 j + i of a thread is column 8 j + 2 q + i, q its
 * place in a quad. */
#ifndef FILTER
/* A row is a sample of a place; the weights' order has put neighbours into one thread. */
inline tensor_bits tensor_store(const tensor_target &to, const tensor_part &part, T *line, int column, int q,
                                const int *v, const tensor_rounding &r) {
  tensor_bits bits = 0;
  const long plane = (long)to.places * to.batch * 16;
  const index_t left = to.column_end - to.first_column - column;
#ifdef BYTES
  if (!line || 16 * q >= left) return 0;
  tensor_word *const at = (tensor_word *)(line + (column / 16 + q) * plane);
  TENSOR_EACH(w, (int)sizeof(T)) {
    uint words[4];
    TENSOR_EACH(i, 4) {
      words[i] = 0;
      TENSOR_EACH(k, 4 / (int)sizeof(T))
      words[i] |= ((uint)tensor_round(v[(4 * w + i) * (4 / (int)sizeof(T)) + k], r) & (sizeof(T) > 1 ? 0xffff : 0xff))
                  << 8 * (int)sizeof(T) * k;
    }
    at[w] = {words[0], words[1], words[2], words[3]};
  }
#else
  if (!line) return 0;
  TENSOR_EACH(g, 4) {
    alignas(16) T packed[4];
    TENSOR_EACH(i, 4) {
      packed[i] = (T)v[4 * g + i];
#ifndef PARTS
      bits |= tensor_abs(packed[i]);
#endif
    }
    if (16 * g >= left) continue;
    tensor_word *const at = (tensor_word *)(line + (column / 16 + g) * plane + 4 * q);
    TENSOR_EACH(i, (int)(sizeof(T) / 4)) at[i] = ((const tensor_word *)packed)[i];
  }
#endif
  return bits;
}
#else
/* A row is a filter, columns are neighbours. */
struct alignas(2 * sizeof(T)) tensor_pair {
  T x, y;
};
inline tensor_bits tensor_store(const tensor_target &to, const tensor_part &part, T *line, int column, int q,
                                const int *v, const tensor_rounding &) {
  tensor_bits bits = 0;
  const int end = part.runs * part.rows;
  const bool even = (to.stride | to.first_column | end) % 2 == 0;
  if (!line) return 0;
  TENSOR_EACH(j, 8) {
    const int c = column + 8 * j + 2 * q;
    if (c >= end) continue;
    const T x = (T)v[2 * j], y = c + 1 < end ? (T)v[2 * j + 1] : 0;
    if (even)
      *(tensor_pair *)(line + c) = {x, y};
    else {
      line[c] = x;
      if (c + 1 < end) line[c + 1] = y;
    }
#ifndef PARTS
    bits |= tensor_abs(x) | tensor_abs(y);
#endif
  }
  return bits;
}
#endif

#if CLUSTER > 1
#define OF_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#else
#define OF_CLUSTERS
#endif
/* CLUSTER groups that are neighbours in dimension 0 have the same fixed side: each of them loads a part for all.
 * Tiles of the image are in dimension 0, of the fixed side in 1, groups and slices in 2. fixed_rows: of a group, all of
 * them are fixed_all. Slices have `slice` stages. */
extern "C" __global__ void OF_CLUSTERS __launch_bounds__(GROUP, RESIDENT)
    tensor_product(IN(tensor_word) image, IN(tensor_word) fixed, IN(tensor_word) zeros, OUT(T) out,
                   OUT(uint) magnitude, index_t units, index_t rows, index_t chunks, index_t per_tile, index_t blocks_of,
                   index_t all_blocks, index_t of_block, index_t of_place, index_t of_group, index_t h, index_t w,
                   index_t ow, index_t taps2, index_t mul1, index_t mul2, index_t step1, index_t step2, index_t begin1,
                   index_t begin2, index_t div1, index_t div2, index_t fixed_rows, index_t fixed_all, index_t groups,
                   index_t stages, index_t slice, index_t places, index_t batch, index_t part_size, int shift,
                   int least, int most) {
  const tensor_geometry g = {units, rows, chunks, per_tile, blocks_of, all_blocks, of_block, of_place, of_group, h, w,
                             ow,    taps2, mul1,  mul2,     step1,     step2,      begin1,   begin2,   div1,     div2};
  DYNAMIC_SHARED(tensor_word, dynamic);
  SHARED ushort list[LISTED];
  SHARED int counts[GROUP / 32];
#ifdef WGMMA
  SHARED unsigned long long full[SLOTS], empty[SLOTS];
#else
  SHARED long sources[SLOTS][STAGE * RUNS];
#endif
  uchar *const slots = (uchar *)dynamic;
  const int l = (int)threadIdx.x, warp = l / 32, lane = l % 32, q = lane % 4;
  const index_t group = get_group_id(2) % groups, which = get_group_id(2) / groups;
  const index_t begin = which * slice, end = min(begin + slice, stages), fixed_tile = get_group_id(1);
#ifdef FILTER
  const tensor_part part = tensor_part_of(g, (index_t)get_group_id(0), TILE_N);
  const index_t first_row = fixed_tile * TILE_M;
  const int fixed_there = (int)min((index_t)TILE_M, fixed_rows - first_row);
  IN(tensor_word) of_fixed = fixed + group * fixed_rows + first_row;
  uchar *const image_side = slots + LEFT_BYTES, *const fixed_side = slots;
  const int image_lines = TILE_N;
  const tensor_target to = {fixed_there, 0, part.unit * g.rows + part.first, g.units * g.rows, 0, 0, 0, 0};
  OUT(T) of_out = out + which * part_size + (group * fixed_rows + first_row) * to.stride;
#else
  const tensor_part part = tensor_part_of(g, (index_t)get_group_id(0), TILE_M);
  IN(tensor_word) of_fixed = fixed + (long)(group * (index_t)gridDim.y + fixed_tile) * stages * (STAGE * TILE_N);
  uchar *const image_side = slots, *const fixed_side = slots + LEFT_BYTES;
  const int image_lines = TILE_M;
  const tensor_target to = {0, fixed_rows, fixed_tile * TILE_N, 0, places, batch, 0, group * ((fixed_rows + 15) / 16)};
  OUT(T) of_out = out + which * part_size;
#endif
  IN(tensor_word) of_image = image + group * g.of_group;
  const tensor_rounding rounding = {min(max(shift - 1, 0), 31), shift > 0, least, most};
  tensor_bits bits = 0;

#ifdef WGMMA
  if (l == 0) {
    TENSOR_EACH(i, SLOTS) tensor_barrier_init(&full[i], 1), tensor_barrier_init(&empty[i], (GROUP / 32 - 1) * CLUSTER);
    tensor_barrier_fence();
  }
  const index_t tile = get_group_id(0);
  const int there = tensor_list(g, tile - tile % CLUSTER, image_lines, begin, end, list, counts);
  const int rank = CLUSTER > 1 ? tensor_rank() : 0;
  if (CLUSTER > 1) tensor_meet();
  if (warp == GROUP / 32 - 1) {
    /* The last warp copies: of a block of k each run of the image, and the fixed side. Finding a source takes longer than
     * a stage: where runs are single, lanes find those of some stages at a time. */
    const bool single = part.runs == 1;
    long sources_of[STAGE * RUNS / 32];
    for (int i = 0; i < there; i++) {
      const int slot = i % SLOTS, turn = i / SLOTS, ahead = i % (32 / STAGE);
      const index_t s = begin + list[i];
      const int blocks = (int)min((index_t)STAGE, g.all_blocks - s * STAGE), items = blocks * part.runs;
      if (single && ahead == 0) {
        const int which = min(i + lane / STAGE, there - 1);
        sources_of[0] = tensor_source(g, part, (begin + list[which]) * STAGE + lane % STAGE, 0);
      } else if (!single) {
        TENSOR_EACH(n, STAGE * RUNS / 32) {
          const int item = lane + 32 * n;
          if (item < items) sources_of[n] = tensor_source(g, part, s * STAGE + item % blocks, item / blocks);
        }
      }
      if (turn) tensor_barrier_wait(&empty[slot], (turn - 1) & 1);
      uchar *const image_to = image_side + slot * SLOT_BYTES, *const fixed_to = fixed_side + slot * SLOT_BYTES;
#ifndef FILTER
      const int fixed_bytes = RIGHT_BYTES;
#else
      const int fixed_bytes = STAGE * fixed_there * 16; /* what no block of k fills counts as zero on one side */
#endif
      if (lane == 0) tensor_barrier_expect(&full[slot], fixed_bytes + items * part.rows * 16);
      __syncwarp();
#ifndef FILTER
      if (lane == 0)
        TENSOR_COPY_FIXED(fixed_to + rank * (RIGHT_BYTES / CLUSTER),
                          of_fixed + (long)s * (STAGE * TILE_N) + rank * (STAGE * TILE_N / CLUSTER),
                          RIGHT_BYTES / CLUSTER, &full[slot]);
#elif defined(WHOLE_FIXED)
      if (lane == 0)
        TENSOR_COPY_FIXED(fixed_to + rank * (LEFT_BYTES / CLUSTER),
                          of_fixed + (long)s * STAGE * fixed_all + first_row * (STAGE - 1) +
                              rank * (STAGE * TILE_M / CLUSTER),
                          LEFT_BYTES / CLUSTER, &full[slot]);
#else
      if (lane < STAGE && lane % CLUSTER == rank)
        TENSOR_COPY_FIXED(fixed_to + lane * TILE_M * 16,
                          lane < blocks ? of_fixed + (long)(s * STAGE + lane) * fixed_all : zeros, fixed_there * 16,
                          &full[slot]);
#endif
#ifdef WHOLE_IMAGE
      if (lane == ahead * STAGE && items)
        tensor_copy(image_to, of_image + sources_of[0] + part.first * (STAGE - 1), STAGE * TILE_N * 16, &full[slot]);
#else
      if (single && lane / STAGE == ahead && lane % STAGE < blocks)
        tensor_copy(image_to + lane % STAGE * image_lines * 16, sources_of[0] < 0 ? zeros : of_image + sources_of[0],
                    part.rows * 16, &full[slot]);
      if (!single) {
        TENSOR_EACH(n, STAGE * RUNS / 32) {
          const int item = lane + 32 * n;
          if (item < items)
            tensor_copy(image_to + (item % blocks * image_lines + item / blocks * part.rows) * 16,
                        sources_of[n] < 0 ? zeros : of_image + sources_of[n], part.rows * 16, &full[slot]);
        }
      }
#endif
    }
  } else {
    int sums[TILE_N / 2];
    TENSOR_EACH(i, TILE_N / 2) sums[i] = 0;
    for (int i = 0; i < there; i++) {
      const int slot = i % SLOTS;
      const uchar *const left = slots + slot * SLOT_BYTES + warp / 4 * 64 * 16;
      const uchar *const right = slots + slot * SLOT_BYTES + LEFT_BYTES;
      tensor_barrier_wait(&full[slot], i / SLOTS & 1);
      tensor_open();
      TENSOR_EACH(k, STAGE / 2)
      tensor_multiply_group<TILE_N>(sums, tensor_descriptor(left + k * 2 * TILE_M * 16, TILE_M),
                      tensor_descriptor(right + k * 2 * TILE_N * 16, TILE_N));
      tensor_close();
      if (i) {
        tensor_await<1>();
        if (CLUSTER > 1 && lane < CLUSTER)
          tensor_barrier_arrive_at(&empty[(i - 1) % SLOTS], lane);
        else if (CLUSTER == 1 && lane == 0)
          tensor_barrier_arrive(&empty[(i - 1) % SLOTS]);
      }
    }
    tensor_await<0>();
    TENSOR_EACH(h, 2) {
      T *const line = tensor_line(to, part, of_out, warp * 16 + lane / 4 + 8 * h);
      TENSOR_EACH(c, TILE_N / 64) {
        int v[16];
        TENSOR_EACH(j, 8) v[2 * j] = sums[32 * c + 4 * j + 2 * h], v[2 * j + 1] = sums[32 * c + 4 * j + 2 * h + 1];
        bits |= tensor_store(to, part, line, 64 * c, q, v, rounding);
      }
    }
  }
#else
  /* Eight warps: 32 rows by 64 columns of 128, or 16 of 64. A slot is filled while those before it are worked on. */
  const int across = TILE_N / 64, high = WARP_M, warp_row = warp / across * high;
  const int warp_column = warp % across * 64, there = tensor_list(g, get_group_id(0), image_lines, begin, end, list, counts);
  int sums[WARP_M / 16][8][4];
  TENSOR_EACH(m, high / 16) TENSOR_EACH(n, 8) TENSOR_EACH(i, 4) sums[m][n][i] = 0;
  for (int i = -(SLOTS - 1); i < there; i++) {
    const int next = i + SLOTS - 1, slot = next % SLOTS;
    if (next < there) {
      const index_t s = begin + list[next];
      const int blocks = (int)min((index_t)STAGE, g.all_blocks - s * STAGE);
      if (l < blocks * part.runs)
        sources[slot][l] = tensor_source(g, part, s * STAGE + l % blocks, l / blocks);
    }
    if (i >= 0) tensor_copy_await<SLOTS - 2>();
    __syncthreads();
    if (next < there) {
      const index_t s = begin + list[next];
      const int blocks = (int)min((index_t)STAGE, g.all_blocks - s * STAGE);
      uchar *const image_to = image_side + slot * SLOT_BYTES, *const fixed_to = fixed_side + slot * SLOT_BYTES;
      for (int item = l; item < blocks * image_lines; item += GROUP) {
        const int line = item % image_lines, block = item / image_lines, run = line / part.rows;
        const long from = run < part.runs ? sources[slot][run * blocks + block] : -1;
        tensor_copy(image_to + item * 16, of_image + (from < 0 ? 0 : from + line - run * part.rows), from >= 0);
      }
#ifdef FILTER
      for (int item = l; item < blocks * TILE_M; item += GROUP) {
        const int line = item % TILE_M;
        const bool inside = line < fixed_there;
        tensor_copy(fixed_to + item * 16,
                    of_fixed + (inside ? (long)(s * STAGE + item / TILE_M) * fixed_all + line : 0), inside);
      }
      /* what no block of k fills counts as zero on one side */
      for (int item = blocks * TILE_M + l; item < STAGE * TILE_M; item += GROUP)
        tensor_copy(fixed_to + item * 16, of_fixed, false);
#else
      for (int item = l; item < STAGE * TILE_N; item += GROUP)
        tensor_copy(fixed_to + item * 16, of_fixed + (long)s * (STAGE * TILE_N) + item, true);
#endif
    }
    tensor_copy_close();
    if (i < 0) continue;
    const uchar *const left = slots + i % SLOTS * SLOT_BYTES, *const right = left + LEFT_BYTES;
    TENSOR_EACH(k, STAGE / 2) {
      uint a[WARP_M / 16][4], b[4][4];
      TENSOR_EACH(m, high / 16)
      tensor_load(a[m], left + ((2 * k + lane / 16) * TILE_M + warp_row + 16 * m + lane % 16) * 16);
      TENSOR_EACH(n, 4)
      tensor_load(b[n], right + ((2 * k + lane / 8 % 2) * TILE_N + warp_column + 16 * n + lane / 16 * 8 + lane % 8) * 16);
      TENSOR_EACH(m, high / 16)
      TENSOR_EACH(n, 8) tensor_multiply(sums[m][n], a[m], b[n / 2] + n % 2 * 2);
    }
  }
  TENSOR_EACH(m, high / 16)
  TENSOR_EACH(h, 2) {
    int v[16];
    TENSOR_EACH(j, 8) v[2 * j] = sums[m][j][2 * h], v[2 * j + 1] = sums[m][j][2 * h + 1];
    bits |= tensor_store(to, part, tensor_line(to, part, of_out, warp_row + 16 * m + 8 * h + lane / 4), warp_column, q,
                         v, rounding);
  }
#endif
#if !defined(ROUNDED) && !defined(PARTS)
  tensor_add_bits(magnitude, bits);
#endif
#ifdef WGMMA
  if (CLUSTER > 1) tensor_meet(); /* others still arrive at barriers here */
#endif
}
