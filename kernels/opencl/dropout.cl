/* Dropout with the bits of base/philox.h: Philox4x32-10, whose counter is (element / 4, step, stream) and key the seed. The
 * result may lie over the input. */
#include "common.clh"

uint philox(ulong seed, uint step, uint stream, ulong element) {
  uint4 c = MAKE(uint4)((uint)(element / 4), (uint)(element / 4 >> 32), step, stream);
  uint2 k = MAKE(uint2)((uint)seed, (uint)(seed >> 32));
  for (int round = 0; round < 10; round++) {
    const uint high0 = mul_hi(0xd2511f53u, c.s0), low0 = 0xd2511f53u * c.s0;
    const uint high1 = mul_hi(0xcd9e8d57u, c.s2), low1 = 0xcd9e8d57u * c.s2;
    c = MAKE(uint4)(high1 ^ c.s1 ^ k.s0, low1, high0 ^ c.s3 ^ k.s1, low0);
    k += MAKE(uint2)(0x9e3779b9u, 0xbb67ae85u);
  }
  const int which = element % 4;
  return which == 0 ? c.s0 : which == 1 ? c.s1 : which == 2 ? c.s2 : c.s3;
}

/* MODE: training_mode is an input; RATIO: so is the ratio; NUMBERED: so is the step. MASK: the mask is wanted. */
KERNEL dropout(GLOBAL const float *x, IN(float) ratios, IN(uchar) mode, IN(long) steps, GLOBAL float *y,
               OUT(uchar) mask, index_t count, int seed_low, int seed_high, int stream) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
  float ratio = 0;
  uint step = 0;
#ifdef MODE
#ifdef RATIO
  if (mode[0]) ratio = ratios[0];
#else
  if (mode[0]) ratio = 0.5f;
#endif
#endif
#ifdef NUMBERED
  step = (uint)steps[0];
#endif
  const ulong seed = (ulong)(uint)seed_high << 32 | (uint)seed_low;
  const float scale = ratio < 1 ? 1 / (1 - ratio) : 0;
  const bool kept = ratio == 0 || (float)(philox(seed, step, (uint)stream, (ulong)i) >> 8) * 0x1p-24f >= ratio;
  y[i] = kept ? x[i] * scale : 0;
#ifdef MASK
  mask[i] = kept;
#endif
}

KERNEL dropout_grad(GLOBAL const float *dy, IN(uchar) mask, GLOBAL float *dx, index_t count, float scale) {
  const index_t i = get_global_id(0);
  if (i < count) dx[i] = mask[i] ? dy[i] * scale : 0;
}
