/* Softmax, LogSoftmax and their gradients over the middle of [outer, size, inner]: FUNCTION 0 to 3. With gradients, a
 * is the result y and b is dy: dx = y * (dy - sum(y * dy)), and for the logarithm dx = dy - exp(y) * sum(dy). The result
 * may lie over a. */
#include "common.clh"

#define LARGER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))

#if FUNCTION == 0
#define FINISH(i) exp(a[i] - most) / sum
#elif FUNCTION == 1
#define FINISH(i) (a[i] - most) - sum
#elif FUNCTION == 2
#define FINISH(i) a[i] * (b[i] - sum)
#else
#define FINISH(i) b[i] - exp(a[i]) * sum
#endif
#if FUNCTION < 2
#define TERM(i) exp(a[i] - most)
#elif FUNCTION == 2
#define TERM(i) a[i] * b[i]
#else
#define TERM(i) b[i]
#endif

KERNEL lines(GLOBAL const float *a, IN(float) b, GLOBAL float *out, index_t count, index_t size, index_t inner) {
  const index_t line = get_global_id(0), first = line / inner * size * inner + line % inner;
  if (line >= count) return;
  float most = -INFINITY, sum = 0;
  for (index_t k = 0; FUNCTION < 2 && k < size; k++) most = LARGER(a[first + k * inner], most);
  for (index_t k = 0; k < size; k++) sum += TERM(first + k * inner);
#if FUNCTION == 1
  sum = log(sum);
#endif
  for (index_t k = 0; k < size; k++) out[first + k * inner] = FINISH(first + k * inner);
}

/* A group for each line. */
float fold(float x, bool largest, local float *parts, int l) {
  parts[l] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP / 2; width > 0; width /= 2) {
    if (l < width) parts[l] = largest ? LARGER(parts[l], parts[l + width]) : parts[l] + parts[l + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float result = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return result;
}

KERNEL groups(GLOBAL const float *a, IN(float) b, GLOBAL float *out, index_t count, index_t size, index_t inner) {
  SHARED float parts[GROUP];
  const index_t line = get_group_id(0), first = line / inner * size * inner + line % inner;
  const int l = get_local_id(0);
  float most = -INFINITY, sum = 0;
#if FUNCTION < 2
  for (index_t k = l; k < size; k += GROUP) most = LARGER(a[first + k * inner], most);
  most = fold(most, true, parts, l);
#endif
  for (index_t k = l; k < size; k += GROUP) sum += TERM(first + k * inner);
  sum = fold(sum, false, parts, l);
#if FUNCTION == 1
  sum = log(sum);
#endif
  for (index_t k = l; k < size; k += GROUP) out[first + k * inner] = FINISH(first + k * inner);
}
