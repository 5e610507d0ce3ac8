#include "backend/cpu/products/gemm_isa.h"

#include <string.h>

/* Sums, one row of the panels and a number of the left side fill the registers: 32 of 64 bytes, or 16 of 32 or 16, of
 * which a panel takes several. Vectors wider than a register would go through memory. */
#if defined __AVX512F__
enum { kRegister = 64 };
#define SHAPES(X, type)                                                                                                \
  X(type, 12, 2) X(type, 8, 3) X(type, 6, 4) X(type, 4, 6) X(type, 3, 8) X(type, 2, 8) X(type, 1, 8)
#elif defined __AVX__
enum { kRegister = 32 };
#define SHAPES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 3, 2) X(type, 2, 2) X(type, 1, 4)
#elif defined __aarch64__
enum { kRegister = 16 };
#define SHAPES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 3, 2) X(type, 2, 2) X(type, 1, 4)
#else
enum { kRegister = 16 };
#define SHAPES(X, type) X(type, 3, 1) X(type, 2, 1) X(type, 1, 2)
#endif
enum { kParts = BRAID_GEMM_PANEL_BYTES / kRegister };
/* Rows of panels that are fetched ahead, where there is time for it: tiles of few rows wait for memory, not for its
 * latency. */
enum { kAhead = 16, kAheadRows = 4 };

#define EACH_SUM(rows, vectors, statement)                                                                             \
  _Pragma("GCC unroll 12") for (int64_t r = 0; r < (rows); r++) {                                                      \
    char *out = (char *)t->result + r * t->step;                                                                       \
    _Pragma("GCC unroll 12") for (int64_t v = 0; v < (vectors); v++, out += kRegister) {                               \
      vector *sum = &sums[r * (vectors) + v];                                                                          \
      statement;                                                                                                       \
    }                                                                                                                  \
  }

/* Sums begin with what is there, so that chunks make one chain. */
#define DEFINE_TILE(name, type, rows, panels)                                                                          \
  static void name(const braid_gemm_tile *t) {                                                                         \
    typedef type vector __attribute__((vector_size(kRegister)));                                                       \
    enum { kVectors = (panels)*kParts };                                                                               \
    const vector *right = t->right;                                                                                    \
    const type *left = t->left;                                                                                        \
    int64_t count = t->count, row_step = t->row_step, column_step = t->column_step;                                    \
    int64_t panel_step = t->panel_step * kParts;                                                                       \
    vector sums[(rows)*kVectors];                                                                                      \
    if (t->accumulate)                                                                                                 \
      EACH_SUM(rows, kVectors, memcpy(sum, out, kRegister))                                                            \
    else                                                                                                               \
      EACH_SUM(rows, kVectors, *sum = (vector){0})                                                                     \
    for (int64_t k = 0; k < count; k++, left += column_step, right += kParts) {                                        \
      vector at[kVectors];                                                                                             \
      _Pragma("GCC unroll 12") for (int64_t v = 0; v < kVectors; v++) {                                                \
        at[v] = right[v / kParts * panel_step + v % kParts];                                                           \
        if ((rows) >= kAheadRows && v % kParts == 0)                                                                   \
          __builtin_prefetch(&right[v / kParts * panel_step + kAhead * kParts]);                                       \
      }                                                                                                                \
      _Pragma("GCC unroll 12") for (int64_t r = 0; r < (rows); r++) {                                                  \
        type x = left[r * row_step];                                                                                   \
        _Pragma("GCC unroll 12") for (int64_t v = 0; v < kVectors; v++) sums[r * kVectors + v] += x * at[v];           \
      }                                                                                                                \
    }                                                                                                                  \
    EACH_SUM(rows, kVectors, memcpy(out, sum, kRegister))                                                              \
  }
#define DEFINE_SHAPE(type, rows, panels)                                                                               \
  DEFINE_TILE(wide_##type##_##rows##_##panels, type, rows, panels)                                                     \
  DEFINE_TILE(narrow_##type##_##rows##_##panels, type, rows, 1)
#define LIST_SHAPE(type, rows, panels)                                                                                 \
  {rows, panels, wide_##type##_##rows##_##panels, narrow_##type##_##rows##_##panels},

SHAPES(DEFINE_SHAPE, float)
SHAPES(DEFINE_SHAPE, double)
SHAPES(DEFINE_SHAPE, uint32_t)
SHAPES(DEFINE_SHAPE, uint64_t)

braid_gemm_tile_list BRAID_ISA_NAME(braid_gemm_tiles) = {
    {{SHAPES(LIST_SHAPE, float)}},
    {{SHAPES(LIST_SHAPE, double)}},
    {{SHAPES(LIST_SHAPE, uint32_t)}},
    {{SHAPES(LIST_SHAPE, uint64_t)}},
};
