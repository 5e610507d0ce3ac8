/* Instruction sets. Loops that gain from wider vectors stand in files X_isa.c, which the build compiles once for every
 * set (cmake/isa.cmake) and of which the one that the processor has is called:
 *
 *   X_isa.h   BRAID_ISA_FUNCTION(void, braid_add, (float *sum, const float *x, int64_t count))
 *   X_isa.c   void BRAID_ISA_NAME(braid_add)(float *sum, const float *x, int64_t count) { ... }
 *   X.c       BRAID_ISA_CALL(braid_add, sum, x, count);
 *
 * Loops whose results are said not to depend on the set (docs/architecture.md) have no sums whose order a compiler may
 * choose. On processors without sets of their own here, what the compiler's target has is all there is: Arm's NEON is
 * part of every 64-bit Arm.
 *
 * Files X_dot_isa.c are compiled for one more set, that of dot products of bytes (BRAID_DOT_ISA_FUNCTION and so on),
 * from which nothing else gains. */
#ifndef BRAID_BACKEND_CPU_ISA_H
#define BRAID_BACKEND_CPU_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Each has what those before it have. DOTPROD: Arm's FEAT_DotProd; V3: AVX2, FMA, F16C; V4: AVX-512 F, BW, CD, DQ, VL;
 * VNNI: AVX512-VNNI. */
typedef enum braid_isa {
  BRAID_ISA_BASE,
#ifdef __aarch64__
  BRAID_ISA_DOTPROD,
#endif
  BRAID_ISA_V3,
  BRAID_ISA_V4,
  BRAID_ISA_VNNI,
  BRAID_ISA_COUNT
} braid_isa;

/* The best set that the processor has, and that braid_isa_limit allows. */
braid_isa braid_isa_current(void);
const char *braid_isa_name(braid_isa isa);
/* For tests: no better set is used from here on. Kernels made before may keep what they have. False: the processor does
 * not have it. */
bool braid_isa_limit(braid_isa most);

#define BRAID_ISA_PASTE_(name, suffix) name##_##suffix
#define BRAID_ISA_PASTE(name, suffix) BRAID_ISA_PASTE_(name, suffix)
/* In a file X_isa.c: the name for the set that it is compiled for. */
#define BRAID_ISA_NAME(name) BRAID_ISA_PASTE(name, BRAID_ISA_SUFFIX)

#ifdef __x86_64__
#define BRAID_ISA_FUNCTION(type, name, parameters)                                                                     \
  type name##_base parameters, name##_v3 parameters, name##_v4 parameters;
#define BRAID_ISA_OBJECT(type, name) extern type name##_base, name##_v3, name##_v4;
#define BRAID_ISA_PICK(base, v3, v4)                                                                                   \
  (braid_isa_current() >= BRAID_ISA_V4 ? (v4) : braid_isa_current() == BRAID_ISA_V3 ? (v3) : (base))
#define BRAID_DOT_ISA_FUNCTION(type, name, parameters)                                                                 \
  BRAID_ISA_FUNCTION(type, name, parameters)                                                                           \
  type name##_vnni parameters;
#define BRAID_DOT_ISA(name) (braid_isa_current() == BRAID_ISA_VNNI ? name##_vnni : BRAID_ISA(name))
#else
#define BRAID_ISA_FUNCTION(type, name, parameters) type name##_base parameters;
#define BRAID_ISA_OBJECT(type, name) extern type name##_base;
#define BRAID_ISA_PICK(base, v3, v4) (base)
#ifdef __aarch64__
#define BRAID_DOT_ISA_FUNCTION(type, name, parameters) type name##_base parameters, name##_dotprod parameters;
#define BRAID_DOT_ISA(name) (braid_isa_current() == BRAID_ISA_DOTPROD ? name##_dotprod : name##_base)
#else
#define BRAID_DOT_ISA_FUNCTION(type, name, parameters) BRAID_ISA_FUNCTION(type, name, parameters)
#define BRAID_DOT_ISA(name) BRAID_ISA(name)
#endif
#endif
#define BRAID_ISA(name) BRAID_ISA_PICK(name##_base, name##_v3, name##_v4)
#define BRAID_ISA_CALL(name, ...) BRAID_ISA(name)(__VA_ARGS__)
#define BRAID_DOT_ISA_CALL(name, ...) BRAID_DOT_ISA(name)(__VA_ARGS__)
#define BRAID_ISA_ADDRESS(name) BRAID_ISA_PICK(&name##_base, &name##_v3, &name##_v4)

#endif
