/* A layer of a network as designs for FPGAs have it: four kernels of a single work-item each, which run at the same time
 * and feed each other through channels. Numbers have 8 bits, of which some are of the fraction; memory is read in vectors
 * of VEC channels, and LANES filters are computed side by side.
 *
 *   image    channels / VEC, height, width, VEC
 *   filters  filters / LANES, channels / VEC, height, width, LANES, VEC
 *   biases   filters / LANES, LANES
 *   result   filters / LANES, height, width, LANES */
typedef char4 vec;  /* VEC */
typedef char16 set; /* LANES x VEC */
typedef char4 row;  /* LANES */
#include "channel.clh"
CHANNEL(vecs, vec)
CHANNEL(sets, set)
CHANNEL(rows, row)

/* What the window sees, filter by filter and place by place. */
__kernel void fetch(__global const vec *image, __global const set *filters, __global const row *biases, ushort height,
                    ushort width, ushort vectors, ushort groups, ushort out_height, ushort out_width, uchar size,
                    uchar stride, uchar pad, __global vecs *data, __global sets *weights, __global rows *bias) {
  for (int g = 0; g < groups; g++)
    for (int i = 0; i < out_height * out_width; i++) {
      send_rows(bias, biases[g]);
      for (int term = 0; term < vectors * size * size; term++) {
        const int v = term / (size * size), r = term / size % size, s = term % size;
        const int y = i / out_width * stride + r - pad, x = i % out_width * stride + s - pad;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        send_vecs(data, inside ? image[(v * height + y) * width + x] : (vec)0);
        send_sets(weights, filters[g * vectors * size * size + term]);
      }
    }
}

/* Half up, and within 8 bits. */
char narrow(int sum, int shift) {
  const int rounded = shift > 0 ? (sum + (1 << (shift - 1))) >> shift : sum << -shift;
  return (char)clamp(rounded, -128, 127);
}

__kernel void convolve(uint results, uint terms, uchar relu, char frac_w, char frac_din, char frac_dout,
                       __global vecs *data, __global sets *weights, __global rows *bias, __global rows *out) {
  for (uint i = 0; i < results; i++) {
    int4 sum = convert_int4(receive_rows(bias)) << (int4)frac_din;
    for (uint term = 0; term < terms; term++) {
      const int4 x = convert_int4(receive_vecs(data));
      const int16 w = convert_int16(receive_sets(weights));
      const int4 a = x * w.s0123, b = x * w.s4567, c = x * w.s89ab, d = x * w.scdef;
      sum += (int4)(a.x + a.y + a.z + a.w, b.x + b.y + b.z + b.w, c.x + c.y + c.z + c.w, d.x + d.y + d.z + d.w);
    }
    const int shift = frac_w + frac_din - frac_dout;
    const row result = (row)(narrow(sum.x, shift), narrow(sum.y, shift), narrow(sum.z, shift), narrow(sum.w, shift));
    send_rows(out, relu ? max(result, (row)0) : result);
  }
}

/* The largest of each window; the lines that windows still need are kept here. A window of 1 passes everything on. */
__kernel void pool(ushort groups, ushort height, ushort width, ushort out_height, ushort out_width, uchar size,
                   uchar stride, __global rows *in, __global rows *out) {
  row lines[MOST_WINDOW][MOST_WIDTH];
  for (int g = 0; g < groups; g++)
    for (int y = 0, next = 0; y < height; y++) {
      for (int x = 0; x < width; x++) lines[y % MOST_WINDOW][x] = receive_rows(in);
      if (next == out_height || y < next * stride + size - 1) continue;
      for (int x = 0; x < out_width; x++) {
        row most = -128;
        for (int r = 0; r < size; r++)
          for (int s = 0; s < size; s++) most = max(most, lines[(next * stride + r) % MOST_WINDOW][x * stride + s]);
        send_rows(out, most);
      }
      next++;
    }
}

__kernel void store(uint results, __global row *result, __global rows *in) {
  for (uint i = 0; i < results; i++) result[i] = receive_rows(in);
}
