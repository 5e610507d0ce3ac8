/* A matrix product as libraries of others have it: column-major, alpha and beta, sizes that are multiples of TS, the
 * sizes before the operands, both tiles in local memory that the caller brings. */
__kernel void sgemm_tn(const int M, const int N, const int K, const float alpha, const __global float *A,
                       const __global float *B, const float beta, __global float *C, __local float *At,
                       __local float *Bt) {
  const int row = get_local_id(0), col = get_local_id(1);
  const int m = TS * get_group_id(0) + row, n = TS * get_group_id(1) + col;
  float sum = 0.0f;
  for (int t = 0; t < K; t += TS) {
    At[col * TS + row] = A[(t + col) * M + m];
    Bt[col * TS + row] = B[n * K + t + row];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < TS; k++) sum += At[k * TS + row] * Bt[col * TS + k];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  C[n * M + m] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[n * M + m]);
}

/* A convolution with the channels last, and the filters too; one work-item per output element, a second launch adds the
 * bias. */
__kernel void conv_nhwc(__global const float *image, __global const float *filters, __global float *out, int height,
                        int width, int channels, int outputs, int kernel_h, int kernel_w, int stride_h, int stride_w,
                        int pad_top, int pad_left, int out_h, int out_w) {
  const int o = get_global_id(0), x = get_global_id(1) % out_w, y = get_global_id(1) / out_w, b = get_global_id(2);
  float sum = 0.0f;
  for (int r = 0; r < kernel_h; r++)
    for (int s = 0; s < kernel_w; s++) {
      const int in_y = y * stride_h + r - pad_top, in_x = x * stride_w + s - pad_left;
      if (in_y < 0 || in_y >= height || in_x < 0 || in_x >= width) continue;
      for (int c = 0; c < channels; c++)
        sum += image[((b * height + in_y) * width + in_x) * channels + c] *
               filters[((o * kernel_h + r) * kernel_w + s) * channels + c];
    }
  out[((b * out_h + y) * out_w + x) * outputs + o] = sum;
}

__kernel void add_bias(__global float *out, __global const float *bias, int outputs) {
  out[get_global_id(0)] += bias[get_global_id(0) % outputs];
}

/* y = x < 0 ? slope * x : x */
__kernel void leaky(__global const float *x, __global float *y, float slope) {
  const size_t i = get_global_id(0);
  y[i] = x[i] < 0 ? slope * x[i] : x[i];
}
