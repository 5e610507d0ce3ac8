/* Copies, barriers and products by NVIDIA's instructions ("Parallel Thread Execution ISA"). EMULATED: they are
 * functions of somebody else. WGMMA: Hopper's, else those since Ampere. CLUSTER: groups that load together. TILE_N: columns
 * of a product. */
#ifndef EMULATED
inline uint tensor_shared(const void *at) {
  return (uint)__cvta_generic_to_shared(at);
}
#endif
#ifdef WGMMA
/* Hopper: copies by the copy engine, in order of barriers in shared memory; products by warpgroups, right from there. */
#ifndef EMULATED
inline void tensor_barrier_init(unsigned long long *barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(tensor_shared(barrier)), "r"(count) : "memory");
}
inline void tensor_barrier_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;" ::: "memory");
}
inline void tensor_barrier_expect(unsigned long long *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(tensor_shared(barrier)), "r"(bytes)
               : "memory");
}
inline void tensor_barrier_arrive(unsigned long long *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tensor_shared(barrier)) : "memory");
}
inline void tensor_barrier_wait(unsigned long long *barrier, int parity) {
  asm volatile("{\n\t.reg .pred done;\n\tagain:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}" ::"r"(
                   tensor_shared(barrier)),
               "r"(parity)
               : "memory");
}
/* To the same place in all groups of the cluster, for their barriers. */
inline void tensor_copy_to_all(void *to, const void *from, int bytes, unsigned long long *barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
          "r"(tensor_shared(to)),
      "l"(from), "r"(bytes), "r"(tensor_shared(barrier)), "h"((ushort)((1 << CLUSTER) - 1))
      : "memory");
}
inline int tensor_rank() {
  uint rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
inline void tensor_barrier_arrive_at(unsigned long long *barrier, int rank) {
  asm volatile("{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}" ::"r"(tensor_shared(barrier)),
               "r"(rank)
               : "memory");
}
inline void tensor_meet() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
inline void tensor_copy(void *to, const void *from, int bytes, unsigned long long *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   tensor_shared(to)),
               "l"(from), "r"(bytes), "r"(tensor_shared(barrier))
               : "memory");
}
inline void tensor_open() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
inline void tensor_close() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int left>
inline void tensor_await() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
#define S4(i) "+r"(s[i]), "+r"(s[i + 1]), "+r"(s[i + 2]), "+r"(s[i + 3])
#define S16(i) S4(i), S4(i + 4), S4(i + 8), S4(i + 12)
#define S64(i) S16(i), S16(i + 16), S16(i + 32), S16(i + 48)
#define N8(a) "%" #a "0, %" #a "1, %" #a "2, %" #a "3, %" #a "4, %" #a "5, %" #a "6, %" #a "7, %" #a "8, %" #a "9, "
#define N_0_29 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " N8(1) N8(2)
/* 64 rows by `columns`, which are TILE_N, 32 bytes of k. */
template <int columns>
inline void tensor_multiply_group(int *s, unsigned long long left, unsigned long long right) {
#if TILE_N == 64
  asm volatile("{\n\twgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" N_0_29 "%30, %31}, %32, %33, 1;\n\t}"
               : S16(0), S16(16)
               : "l"(left), "l"(right));
#elif TILE_N == 128
  asm volatile("{\n\twgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" N_0_29 N8(3) N8(4)
                   N8(5) "%60, %61, %62, %63}, %64, %65, 1;\n\t}"
               : S64(0)
               : "l"(left), "l"(right));
#else
  asm volatile("{\n\twgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" N_0_29 N8(3) N8(4) N8(5) N8(6) N8(7) N8(8)
                   N8(9) N8(10) N8(11) "%120, %121, %122, %123, %124, %125, %126, %127}, %128, %129, 1;\n\t}"
               : S64(0), S64(64)
               : "l"(left), "l"(right));
#endif
}
#endif
/* Of [block of k][line][16] with `lines` lines: matrices of 8 lines lie 128 bytes apart, those of the next block
 * lines * 16. */
inline unsigned long long tensor_descriptor(const void *at, int lines) {
  return (unsigned long long)((tensor_shared(at) & 0x3ffff) >> 4) | (unsigned long long)lines << 16 |
         (unsigned long long)8 << 32;
}
#elif !defined(EMULATED)
/* Since Ampere: words copied one by one without registers in between, products by warps. */
/* `there`: else zeros. */
inline void tensor_copy(void *to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tensor_shared(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
inline void tensor_copy_close() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int left>
inline void tensor_copy_await() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
inline void tensor_load(uint *out, const void *line) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(tensor_shared(line))
               : "memory");
}
/* The same with each matrix turned: lines of memory are columns of registers. */
inline void tensor_load_turned(uint *out, const void *line) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(tensor_shared(line))
               : "memory");
}
/* 16 rows by 8 columns, 32 bytes of k. */
inline void tensor_multiply(int *s, const uint *left, const uint *right) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}
/* 16 rows by 8 columns, 16 of k. And two results as one word, the first in its lower half; _relu: 0 in place of what is
 * below. */
#define MULTIPLY_HALVES(name, type)                                                                                    \
  inline void name(float *s, const uint *left, const uint *right) {                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "                      \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                       \
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                                      \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));              \
  }
MULTIPLY_HALVES(tensor_multiply_bf16, "bf16")
MULTIPLY_HALVES(tensor_multiply_fp16, "f16")
#define PAIR_HALVES(name, type)                                                                                        \
  inline uint name(float first, float second) {                                                                        \
    uint pair;                                                                                                         \
    asm("cvt.rn" type ".f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));                                      \
    return pair;                                                                                                       \
  }
PAIR_HALVES(tensor_pair_bf16, ".bf16x2")
PAIR_HALVES(tensor_pair_fp16, ".f16x2")
PAIR_HALVES(tensor_pair_relu_bf16, ".relu.bf16x2")
PAIR_HALVES(tensor_pair_relu_fp16, ".relu.f16x2")
/* Four words to memory at once; a compiler may else cut a struct's store into four. */
inline void tensor_store(void *to, const uint *from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
/* Asks for what will be read, a multiple of 16 bytes, on its way to the cache that all groups share: that takes no
 * registers. Hopper's copy engine does it, cards before it read without. */
inline void tensor_prefetch(const void *from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#endif
}
#endif
