/* Vectorizable functions of float against the C library in double, over arguments spread through all bit patterns, and
 * the same bits from every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "backend/cpu/spans/spans_list.h"
#include "backend/cpu/spans/vmath.h"
#include "skip.h"
#include "slow.h"

/* Distance in units in the last place of the float nearest to `exact`. */
static double error_ulp(float value, double exact) {
  if (isnan(exact)) return isnan(value) ? 0 : INFINITY;
  if (fabs(exact) >= 0x1.ffffffp127) return isinf(value) && (value > 0) == (exact > 0) ? 0 : INFINITY;
  int exponent;
  frexp(exact, &exponent);
  double unit = exponent < -125 ? 0x1p-149 : ldexp(1, exponent - 24);
  return fabs((double)value - exact) / unit;
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double softplus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double log1p_of_positive(double x) {
  return x < 0 ? (double)NAN : log1p(x);
}

static float v_log1p_of_positive(float x) {
  return x < 0 ? NAN : braid_v_log1p(x);
}

enum { kApart = UNLESS_SLOW(2053, 16411) }; /* of all floats, one in so many */

static void accuracy(void **state) {
  (void)state;
  static const struct {
    const char *name;
    float (*fast)(float);
    double (*exact)(double);
    double bound;
  } kFunctions[] = {
      {"exp", braid_v_exp, exp, 1.0},
      {"expm1", braid_v_expm1, expm1, 1.5},
      {"log", braid_v_log, log, 1.0},
      {"log1p", v_log1p_of_positive, log1p_of_positive, 2.6},
      {"tanh", braid_v_tanh, tanh, 2.0},
      {"sigmoid", braid_v_sigmoid, sigmoid, 2.5},
      {"softplus", braid_v_softplus, softplus, 3.0},
      {"erf", braid_v_erf, erf, 1.5},
  };
  static const float kSpecial[] = {0.0f,      -0.0f,      1.0f,      -1.0f,           INFINITY,         -INFINITY,
                                   NAN,       88.72f,     88.7229f,  -87.34f,         -103.97f,         -103.98f,
                                   0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, 0.921875f,
                                   0.55f,     4.0f};
  enum { kSpecials = sizeof kSpecial / sizeof *kSpecial };
  for (size_t f = 0; f < sizeof kFunctions / sizeof *kFunctions; f++)
    for (uint64_t i = 0; i < (UINT64_C(1) << 32) / kApart + kSpecials; i++) {
      float x = i < kSpecials ? kSpecial[i] : braid_float_of_bits((uint32_t)((i - kSpecials) * kApart));
      float y = kFunctions[f].fast(x);
      double error = error_ulp(y, kFunctions[f].exact((double)x));
      if (!(error <= kFunctions[f].bound))
        fail_msg("%s(%a) is %a, off by %.2f units in the last place", kFunctions[f].name, (double)x, (double)y, error);
    }
}

static void accuracy_of_normal(void **state) {
  (void)state;
  for (uint64_t i = 0; i < (UINT64_C(1) << 32) / kApart; i++) {
    float x = braid_float_of_bits((uint32_t)(i * kApart)), y = braid_v_normal(x);
    double exact = 0.5 * erfc((double)x * -0.70710678118654752);
    if (isnan(x) ? !isnan(y) : !(fabs((double)y - exact) <= 2e-7))
      fail_msg("normal(%a) is %a, not %a", (double)x, (double)y, exact);
  }
  assert_true(braid_v_normal(INFINITY) == 1.0f && braid_v_normal(-INFINITY) == 0.0f && isnan(braid_v_normal(NAN)));
  assert_true(braid_v_normal(-5.5400004f) == 0.0f && braid_v_normal(0.0f) == 0.5f);
}

/* --- instruction sets ----------------------------------------------------------------------------------------------
 */
enum { kCount = 1021 };

static void fill(float *numbers, uint32_t salt) {
  for (uint32_t i = 0; i < kCount; i++) {
    float x = (float)((i * 2654435761u + salt * 40503u) >> 8) * 0x1p-20f - 8.0f;
    numbers[i] = i % 97 == 5 ? INFINITY : i % 89 == 7 ? -x * 1e30f : i % 83 == 9 ? x * 1e-38f : x;
  }
}

/* NaN has many bit patterns; which one comes out depends on the order of operands, which compilers may swap. */
static void hush_nans(float *numbers) {
  for (int i = 0; i < kCount; i++)
    if (isnan(numbers[i])) numbers[i] = 0.125f;
}

static void compare_sets(const braid_span_set *a, const braid_span_set *b, const char *name) {
  static float inputs[BRAID_SPAN_INPUTS][kCount], first[kCount], second[kCount];
  static const double params[] = {0.7, 0.3};
  assert_int_equal(a->count, b->count);
  for (uint32_t i = 0; i < BRAID_SPAN_INPUTS; i++) fill(inputs[i], i);
  for (size_t e = 0; e < a->count; e++) {
    bool bools = a->entries[e].flags & BRAID_SPAN_BOOL_OUT;
    braid_span span = {.in = {inputs[0], inputs[1], inputs[2], inputs[3]},
                       .step = {1, 1, 1, 1},
                       .out = first,
                       .count = kCount,
                       .params = params};
    a->entries[e].run(&span);
    span.out = second;
    b->entries[e].run(&span);
    if (!bools) hush_nans(first), hush_nans(second);
    if (memcmp(first, second, bools ? kCount : sizeof first) != 0)
      fail_msg("%s differs between baseline and %s", a->entries[e].op, name);
  }
  for (int map = BRAID_MAP_SAME; map <= BRAID_MAP_EXP; map++) {
    double x = a->sum_row(inputs[3], 80, (braid_map_kind)map, 2), y = b->sum_row(inputs[3], 80, (braid_map_kind)map, 2);
    assert_true(x == y || (isnan(x) && isnan(y)));
  }
}

static void same_bits(void **state) {
  (void)state;
  braid_isa best = braid_isa_current();
  if (best == BRAID_ISA_BASE) skip_test("cpu", "this CPU has only the baseline's instructions");
  for (braid_isa isa = BRAID_ISA_V3; isa <= best; isa++) {
    assert_true(braid_isa_limit(isa));
    compare_sets(&braid_spans_float_base, braid_spans_float(), braid_isa_name(isa));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), cmocka_unit_test(accuracy_of_normal),
                                     cmocka_unit_test(same_bits)};
  return skip_run_group_tests(tests, NULL, NULL);
}
