/* How near products of bytes come to what the processor can do: GOP/s (a multiplication and an addition are two) of
 * products as convolutions and training steps have them, beside the rate of the dot-product instruction alone.
 *
 *   dot_bench [THREADS] */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/dot/dot.h"
#include "backend/cpu/isa.h"
#include "base/clock.h"

static const double kSeconds = 0.25;

/* --- the instruction alone -----------------------------------------------------------------------------------------
 */
#ifdef __x86_64__
enum { kChains = 24, kTurns = 1 << 15 };

#define CHAIN(number) "vpdpbusd %%zmm31, %%zmm30, %%zmm" #number "\n\t"
#define CHAINS_OF_6(a, b, c, d, e, f) CHAIN(a) CHAIN(b) CHAIN(c) CHAIN(d) CHAIN(e) CHAIN(f)

/* Sums that do not wait for each other, in registers: nothing is loaded or stored. */
__attribute__((target("avx512f,avx512vnni"))) static void peak_run(void) {
  for (int turn = 0; turn < kTurns; turn++)
    __asm__ volatile(CHAINS_OF_6(0, 1, 2, 3, 4, 5) CHAINS_OF_6(6, 7, 8, 9, 10, 11) CHAINS_OF_6(12, 13, 14, 15, 16, 17)
                         CHAINS_OF_6(18, 19, 20, 21, 22, 23)
                     :
                     :
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",
                       "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21",
                       "zmm22", "zmm23");
}

static double peak_gops(int threads) {
  int64_t start = braid_now_ns();
  double seconds;
  int64_t turns = 0;
  do {
#pragma omp parallel num_threads(threads)
    peak_run();
    turns++;
    seconds = (double)(braid_now_ns() - start) * 1e-9;
  } while (seconds < kSeconds);
  return (double)turns * threads * kTurns * kChains * 128 / seconds * 1e-9;
}
#endif

/* --- products ------------------------------------------------------------------------------------------------------
 */
static double product_gops(int64_t m, int64_t n, int64_t k) {
  size_t bytes;
  int64_t step = braid_dot_quads(k) * BRAID_DOT_QUAD;
  if (!braid_dot_packed_bytes(k, n, &bytes)) return 0;
  uint8_t *a = malloc((size_t)(m * step));
  int8_t *b = malloc((size_t)(n * k));
  void *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
  int32_t *c = malloc((size_t)(m * n) * sizeof *c);
  double seconds = 0;
  int64_t turns = 0;
  if (a && b && packed && c) {
    memset(a, 1, (size_t)(m * step));
    memset(b, 1, (size_t)(n * k));
    braid_dot_pack(b, k, n, 1, k, packed);
    braid_dot_product(a, step, m, packed, k, n, c, n);
    int64_t start = braid_now_ns();
    for (; seconds < kSeconds; turns++, seconds = (double)(braid_now_ns() - start) * 1e-9)
      braid_dot_product(a, step, m, packed, k, n, c, n);
  }
  free(a), free(b), free(packed), free(c);
  return seconds > 0 ? 2.0 * (double)(m * n * k * turns) / seconds * 1e-9 : 0;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
  static const int64_t kSizes[][3] = {{3136, 64, 64},    {3136, 64, 576},   {784, 128, 1152}, {196, 1024, 256},
                                      {49, 2048, 512},   {49, 512, 4608},   {12544, 24, 144}, {3136, 144, 24},
                                      {128, 1024, 8192}, {8192, 256, 2304}, {1, 1000, 2048}};
  if (threads < 1) return 1;
  omp_set_num_threads(threads);
  double peak = 0;
#ifdef __x86_64__
  if (braid_isa_current() == BRAID_ISA_VNNI) peak = peak_gops(threads);
#endif
  printf("%s, %d threads", braid_isa_name(braid_isa_current()), threads);
  if (peak > 0) printf(", the instruction alone: %.0f GOP/s", peak);
  printf("\n%8s %8s %8s %10s %8s\n", "rows", "columns", "inner", "GOP/s", "of peak");
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    double gops = product_gops(kSizes[i][0], kSizes[i][1], kSizes[i][2]);
    printf("%8lld %8lld %8lld %10.0f", (long long)kSizes[i][0], (long long)kSizes[i][1], (long long)kSizes[i][2], gops);
    if (peak > 0) printf(" %7.0f%%", 100 * gops / peak);
    printf("\n");
  }
  return 0;
}
