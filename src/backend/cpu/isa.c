#include "backend/cpu/isa.h"

#include <stdatomic.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

static const int kUnknown = -1;
static atomic_int current = -1;

static braid_isa isa_find(void) {
#ifdef __x86_64__
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
            __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  bool vnni = v4 && __builtin_cpu_supports("avx512vnni");
  return vnni ? BRAID_ISA_VNNI : v4 ? BRAID_ISA_V4 : v3 ? BRAID_ISA_V3 : BRAID_ISA_BASE;
#elif defined __aarch64__
  enum { kDotProd = 1 << 20 }; /* HWCAP_ASIMDDP of Linux's asm/hwcap.h */
  return getauxval(AT_HWCAP) & kDotProd ? BRAID_ISA_DOTPROD : BRAID_ISA_BASE;
#else
  return BRAID_ISA_BASE;
#endif
}

braid_isa braid_isa_current(void) {
  int isa = atomic_load_explicit(&current, memory_order_relaxed);
  if (isa != kUnknown) return (braid_isa)isa;
  isa = (int)isa_find();
  atomic_store_explicit(&current, isa, memory_order_relaxed);
  return (braid_isa)isa;
}

const char *braid_isa_name(braid_isa isa) {
  static const char *const kNames[BRAID_ISA_COUNT] = {"baseline",
#ifdef __aarch64__
                                                      "Arm with DotProd",
#endif
                                                      "x86-64-v3", "x86-64-v4", "x86-64-v4 with VNNI"};
  return kNames[isa];
}

bool braid_isa_limit(braid_isa most) {
  if (most > isa_find()) return false;
  atomic_store_explicit(&current, (int)most, memory_order_relaxed);
  return true;
}
