/* What the kernels for tensor cores share. */
struct alignas(16) tensor_word {
  uint x, y, z, w;
};
#define TENSOR_EACH(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)
