/* Softmax over the last axis in two launches: each row's largest element and sum, then each element. */
__kernel void row_facts(__global const float *x, const long columns, __global float *largest, __global float *sums) {
  const size_t row = get_global_id(0);
  float most = -INFINITY, sum = 0;
  for (long i = 0; i < columns; i++) most = fmax(most, x[row * columns + i]);
  for (long i = 0; i < columns; i++) sum += exp(x[row * columns + i] - most);
  largest[row] = most;
  sums[row] = sum;
}

/* The same numbers in the other order, and as one array of a type of its own. */
typedef struct facts {
  float x;
} facts;

__kernel void normalize_rows(__global const facts *sums, __constant float *largest, __global const float4 *x,
                             __global float4 *y, const ulong columns) {
  const size_t i = get_global_id(0), row = i * 4 / columns;
  y[i] = exp(x[i] - largest[row]) / sums[row].x;
}
