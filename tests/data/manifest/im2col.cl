/* A convolution as libraries of others have it: what the filter sees becomes columns of a matrix in a workspace, and a
 * product of the filters with it the output, with the bias. The batch is the third dimension of both. */
#include "parts/window.clh"
#include <tile.clh>

/* columns: batch x (channels * kernel) x (output pixels) */
__kernel void im2col(__global const float *image, const int channels, const int height, const int width, const int kh,
                     const int kw, const int stride_h, const int stride_w, const int pad_h, const int pad_w,
                     const int out_h, const int out_w, __global float *columns) {
  const int pixel = get_global_id(0), row = get_global_id(1), b = get_global_id(2);
  const int s = row % kw, r = row / kw % kh, c = row / kw / kh;
  const int y = SEEN(pixel / out_w, stride_h, r, pad_h), x = SEEN(pixel % out_w, stride_w, s, pad_w);
  const long at = ((long)b * channels * kh * kw + row) * out_h * out_w + pixel;
  columns[at] = INSIDE(y, height) && INSIDE(x, width) ? image[(((long)b * channels + c) * height + y) * width + x] : 0;
}

/* out = filters x columns + bias; global sizes are whole tiles, so that some work-items are outside. */
__kernel void product(const uint rows, const uint columns, const uint depth, __global const float *a,
                      __global const float *b, __global const float *bias, __global float *out, __local float *rows_of_a) {
  const uint column = get_global_id(0), row = get_global_id(1), item = get_local_id(0);
  b += get_global_id(2) * (ulong)depth * columns;
  out += get_global_id(2) * (ulong)rows * columns;
  float sum = row < rows ? bias[row] : 0;
  for (uint from = 0; from < depth; from += TILE) {
    barrier(CLK_LOCAL_MEM_FENCE);
    rows_of_a[get_local_id(1) * TILE + item] = row < rows && from + item < depth ? a[row * depth + from + item] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < TILE && from + k < depth && column < columns; k++)
      sum += rows_of_a[get_local_id(1) * TILE + k] * b[(from + k) * columns + column];
  }
  if (row < rows && column < columns) out[row * columns + column] = sum;
}
