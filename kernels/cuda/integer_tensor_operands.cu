/* What stands before and behind the product of integer_tensor.cu: operands in its order, and slices of its sums as
 * results. STAGE: blocks of k that it takes at a time. TILE_N: columns of a tile. */
#include "common.clh"
#include "integer.clh"
#include "tensor.cuh"
#include "tensor_bits.cuh"

#ifdef ARRANGE
/* Byte i of 16. */
inline void tensor_put(tensor_word &word, int i, int value) {
  uint &part = i < 4 ? word.x : i < 8 ? word.y : i < 12 ? word.z : word.w;
  part |= (uint)(uchar)value << i % 4 * 8;
}

/* Which column of a tile stands at place `at`: the order in which threads have them. BYTES: 16 neighbours, else four. */
inline int tensor_column(int at) {
  const int m = at % 64, j = m / 8, q = m % 8 / 2, i = m % 2;
#ifdef BYTES
  return at / 64 * 64 + 16 * q + 2 * j + i;
#else
  return at / 64 * 64 + 16 * (j / 2) + 4 * q + 2 * (j % 2) + i;
#endif
}

/* Weights [filter][channel of the group][tap] as [group][tile of columns][stage][block][column][16]. Columns are
 * filters, BACKWARD: channels. An item is a column and 16 of the others, of one tap. TAPS: of so many, which lie side by
 * side with whole blocks of channels and are loaded at once. Also clears the magnitude and the zeros that images have outside. */
KERNEL tensor_weights(IN(char) w, OUT(tensor_word) out, OUT(tensor_word) zeros, OUT(uint) magnitude, int zero_words,
                      int magnitude_words, index_t items, index_t filters, index_t channels, index_t taps,
                      index_t blocks, index_t stages, index_t tiles) {
  const index_t item = get_global_id(0);
  if (item < zero_words) zeros[item] = {0, 0, 0, 0};
  if (item < magnitude_words) magnitude[item] = 0;
  if (item >= items) return;
#ifdef BACKWARD
  const index_t columns = channels, inner = filters, column_step = taps, inner_step = channels * taps;
#else
  const index_t columns = filters, inner = channels, column_step = channels * taps, inner_step = taps;
#endif
  const int at = (int)(item % TILE_N);
#ifdef TAPS
  const index_t rest = item / TILE_N, tap = 0;
#else
  const index_t rest = item / TILE_N / taps, tap = item / TILE_N % taps;
#endif
  const index_t block = rest % blocks, tile = rest / blocks % tiles, group = rest / blocks / tiles;
  const index_t column = tile * TILE_N + tensor_column(at);
  OUT(tensor_word) to = out + (group * tiles + tile) * stages * (STAGE * TILE_N) + at;
  IN(char) from = w + group * filters * channels * taps + column * column_step + block * 16 * inner_step;
  if (block == 0 && tap == 0)
    for (index_t k = taps * blocks; k < stages * STAGE; k++) to[k * TILE_N] = {0, 0, 0, 0};
#ifdef TAPS
  uint words[4 * TAPS];
  TENSOR_EACH(t, TAPS) {
    const tensor_word word = column < columns ? ((const tensor_word *)from)[t] : tensor_word{0, 0, 0, 0};
    words[4 * t] = word.x, words[4 * t + 1] = word.y, words[4 * t + 2] = word.z, words[4 * t + 3] = word.w;
  }
  TENSOR_EACH(t, TAPS) {
    tensor_word word = {0, 0, 0, 0};
    TENSOR_EACH(b, 16) tensor_put(word, b, (int)(words[(b * TAPS + t) / 4] >> (b * TAPS + t) % 4 * 8));
    to[(t * blocks + block) * TILE_N] = word;
  }
#else
  tensor_word word = {0, 0, 0, 0};
  TENSOR_EACH(b, 16)
  if (column < columns && block * 16 + b < inner) tensor_put(word, b, from[b * inner_step + tap]);
  to[(tap * blocks + block) * TILE_N] = word;
#endif
}

/* Channels in blocks [channels / 16][place][sample][16] as samples in blocks [place][samples / 16][channel][16]. A group
 * of 256 work-items turns 16 squares of 16 x 16 bytes. Squares count samples first, then places, then channels. The
 * groups of dimension 1 are two tensors: a, b. Where `tile` is not 0, eight blocks of samples of so many channels lie side
 * by side, [place][samples / 128][channels / tile][8][tile][16]: what a stage of a tile takes is one run. Also clears, as
 * weights do. */
KERNEL tensor_turn(IN(tensor_word) a, IN(tensor_word) b, OUT(tensor_word) out_a, OUT(tensor_word) out_b,
                   OUT(tensor_word) zeros, OUT(uint) magnitude, int zero_words, int magnitude_words, index_t batch,
                   index_t places_a, index_t channels_a, index_t tile_a, index_t places_b, index_t channels_b,
                   index_t tile_b) {
  SHARED tensor_word lines[16][17];
  const bool second = get_group_id(1) > 0;
  if (!second && (index_t)get_global_id(0) < zero_words) zeros[get_global_id(0)] = {0, 0, 0, 0};
  if (!second && (index_t)get_global_id(0) < magnitude_words) magnitude[get_global_id(0)] = 0;
  const index_t places = second ? places_b : places_a, channels = second ? channels_b : channels_a;
  const index_t tile = second ? tile_b : tile_a;
  const int l = (int)get_local_id(0), mine = l / 16, line = l % 16;
  const index_t square = (index_t)get_group_id(0) * 16 + mine, sample_blocks = (batch + 15) / 16;
  const index_t squares = sample_blocks * places * (channels / 16);
  const index_t sample = square % sample_blocks, place = square / sample_blocks % places;
  const index_t block = square / sample_blocks / places, at = sample * 16 + line;
  const bool there = square < squares && at < batch;
  lines[mine][line] = there ? (second ? b : a)[(block * places + place) * batch + at] : tensor_word{0, 0, 0, 0};
  __syncthreads();
  if (square >= squares) return;
  const uchar *const bytes = (const uchar *)lines[mine] + line;
  uint words[4];
  TENSOR_EACH(i, 4)
  words[i] = bytes[64 * i] | (uint)bytes[64 * i + 16] << 8 | (uint)bytes[64 * i + 32] << 16 |
             (uint)bytes[64 * i + 48] << 24;
  const index_t channel = block * 16 + line;
  const index_t before = tile ? sample / 8 * 8 * channels + (channel / tile * 8 + sample % 8) * tile + channel % tile
                              : sample * channels + channel;
  (second ? out_b : out_a)[place * sample_blocks * channels + before] = {words[0], words[1], words[2], words[3]};
}

/* Of plain images, for few channels: what an output looks at side by side, as if it were channels; INSIDE of them, of
 * which each has TAPS_OF, TAPS_2 in a line. SAMPLES: in the order that sums over samples. An item is a word; neighbours
 * are neighbouring places, which read neighbouring elements. */
#ifdef INSIDE
KERNEL tensor_windows(IN(char) x, OUT(tensor_word) out, index_t items, index_t batch, index_t h, index_t w, index_t oh,
                      index_t ow, index_t mul1, index_t mul2, index_t step1, index_t step2, index_t begin1,
                      index_t begin2) {
  const index_t item = get_global_id(0), places = oh * ow, image = INSIDE / TAPS_OF * h * w;
  if (item >= items) return;
  const index_t place = item % places, y0 = place / ow * mul1 - begin1, x0 = place % ow * mul2 - begin2;
#ifdef SAMPLES
  const index_t padded = (INSIDE + 15) / 16 * 16, k = item / places % padded, blocks = (batch + 15) / 16;
  const index_t sample = item / places / padded * 16, to = (place * blocks + sample / 16) * padded + k;
#else
  const index_t sample = item / places % batch, k = item / places / batch * 16, to = item / places / batch * places * batch + place * batch + sample;
#endif
  tensor_word word = {0, 0, 0, 0};
  TENSOR_EACH(i, 16) {
#ifdef SAMPLES
    const index_t which = k, b = sample + i;
#else
    const index_t which = k + i, b = sample;
#endif
    const index_t tap = which % TAPS_OF, row = y0 + tap / TAPS_2 * step1, column = x0 + tap % TAPS_2 * step2;
    const bool there = which < INSIDE && b < batch && row >= 0 && row < h && column >= 0 && column < w;
    if (there) tensor_put(word, i, x[b * image + (which / TAPS_OF * h + row) * w + column]);
  }
  out[to] = word;
}
#endif
#endif

/* --- results of slices ----------------------------------------------------------------------------------------------
 * ROUNDED: Q(sum, k, shift) of type T. Else raw, of type T, with a magnitude. */
#ifdef JOIN
#ifdef FILTER
/* Sums of slices [slice][filter][tap][channel] as [filter][channel][tap]: a group takes JOIN channels of a filter, a
 * power of two that divides it; ROOM for them and their taps. */
KERNEL tensor_join(IN(int) parts, OUT(T) out, OUT(uint) magnitude, index_t part, index_t slices, index_t channels,
                   index_t taps, int shift, int least, int most) {
  SHARED T turned[ROOM];
  const index_t runs = (channels + JOIN - 1) / JOIN, filter = get_group_id(0) / runs;
  const index_t first = get_group_id(0) % runs * JOIN, some = min((index_t)JOIN, channels - first);
  const index_t c = get_local_id(0) % JOIN;
  IN(int) from = parts + filter * channels * taps + first + c;
  OUT(T) to = out + (filter * channels + first) * taps;
  tensor_bits bits = 0;
  if (c < some)
    for (index_t tap = get_local_id(0) / JOIN; tap < taps; tap += GROUP / JOIN) {
      T sum = 0;
      _Pragma("unroll 8") for (index_t s = 0; s < slices; s++) sum += from[s * part + tap * channels];
      turned[c * taps + tap] = sum;
      bits |= tensor_abs(sum);
    }
  __syncthreads();
  for (index_t i = get_local_id(0); i < some * taps; i += GROUP) to[i] = turned[i];
  tensor_add_bits(magnitude, bits);
}
#else
/* Sums of slices, element by element. */
KERNEL tensor_join(IN(int) parts, OUT(T) out, OUT(uint) magnitude, index_t part, index_t slices, int shift, int least,
                   int most) {
  const index_t i = get_global_id(0);
  long sum = 0;
  if (i < part) {
    _Pragma("unroll 4") for (index_t s = 0; s < slices; s++) sum += parts[s * part + i];
#ifdef ROUNDED
    out[i] = (T)clamp(integer_round(sum, shift), (long)least, (long)most);
#else
    out[i] = (T)sum;
#endif
  }
#ifndef ROUNDED
  tensor_add_bits(magnitude, tensor_abs((T)sum));
#endif
}
#endif
#endif
