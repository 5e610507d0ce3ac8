/* Magnitudes of results in the kernels for bytes. RAW_LONG: T, the type of results, is long. */
#ifdef RAW_LONG
typedef unsigned long long tensor_bits;
#else
typedef uint tensor_bits;
#endif

/* Adds the bits of a warp's results to a magnitude. */
inline uint tensor_or(uint bits) {
  TENSOR_EACH(i, 5) bits |= __shfl_xor_sync(0xffffffffu, bits, 16 >> i);
  return bits;
}
inline void tensor_add_bits(OUT(uint) magnitude, tensor_bits bits) {
  TENSOR_EACH(i, (int)(sizeof bits / sizeof(uint))) {
    const uint part = tensor_or((uint)((unsigned long long)bits >> 32 * i));
    if (threadIdx.x % 32 == 0 && (part & ~((volatile uint *)magnitude)[i])) atomicOr(magnitude + i, part);
  }
}
inline tensor_bits tensor_abs(T x) {
  return x < 0 ? -(tensor_bits)x : (tensor_bits)x;
}
