/* Filters packed for Winograd convolutions, against oneDNN's own conversion: whatever its convolutions ask for here. */
#include "backend/cpu/onednn/winograd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/philox.h"
#include "skip.h"

typedef struct shape {
  int64_t batch, channels, filters, height, width;
} shape;

/* oneDNN divides its work by sizes: these give every order of filters it has, padded channels and filters too. */
static const shape kShapes[] = {{1, 64, 64, 56, 56},    {1, 64, 256, 13, 13},   {1, 70, 90, 13, 13},
                                {16, 512, 512, 14, 14}, {16, 128, 100, 12, 12}, {1, 3, 64, 200, 200},
                                {1, 96, 72, 9, 40},     {8, 100, 130, 28, 28},  {1, 1, 1, 8, 8},
                                {4, 33, 17, 20, 20},    {16, 256, 384, 13, 13}};
enum { kShapeCount = sizeof kShapes / sizeof *kShapes };

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void ok(dnnl_status_t status) {
  assert_int_equal(status, dnnl_success);
}

/* What oneDNN's Winograd convolution wants its filters to be; false: it has none for this shape or this CPU. */
static bool wanted(const shape *s, dnnl_memory_desc_t *out) {
  dnnl_memory_desc_t x, w, y;
  ok(dnnl_memory_desc_init_by_tag(&x, 4, (dnnl_dims_t){s->batch, s->channels, s->height, s->width}, dnnl_f32,
                                  dnnl_nChw16c));
  ok(dnnl_memory_desc_init_by_tag(&w, 4, (dnnl_dims_t){s->filters, s->channels, 3, 3}, dnnl_f32, dnnl_format_tag_any));
  ok(dnnl_memory_desc_init_by_tag(&y, 4, (dnnl_dims_t){s->batch, s->filters, s->height, s->width}, dnnl_f32,
                                  dnnl_nChw16c));
  dnnl_convolution_desc_t op;
  const dnnl_dims_t ones = {1, 1};
  ok(dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_winograd, &x, &w, NULL, &y, ones,
                                        ones, ones));
  dnnl_primitive_desc_t pd;
  if (dnnl_primitive_desc_create(&pd, &op, NULL, engine, NULL) != dnnl_success) return false;
  *out = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  ok(dnnl_primitive_desc_destroy(pd));
  return out->format_kind == dnnl_format_kind_wino;
}

static void convert(const dnnl_memory_desc_t *from, void *data, const dnnl_memory_desc_t *to, void *out) {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t reorder;
  dnnl_memory_t source, target;
  ok(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL));
  ok(dnnl_primitive_create(&reorder, pd));
  ok(dnnl_memory_create(&source, from, engine, data));
  ok(dnnl_memory_create(&target, to, engine, out));
  ok(dnnl_primitive_execute(reorder, stream, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}}));
  ok(dnnl_stream_wait(stream));
  dnnl_memory_destroy(source);
  dnnl_memory_destroy(target);
  dnnl_primitive_destroy(reorder);
  dnnl_primitive_desc_destroy(pd);
}

static bool check(const shape *s) {
  dnnl_memory_desc_t from, to;
  if (!wanted(s, &to)) return false;
  ok(dnnl_memory_desc_init_by_tag(&from, 4, (dnnl_dims_t){s->filters, s->channels, 3, 3}, dnnl_f32, dnnl_oihw));
  size_t count = (size_t)(s->filters * s->channels * 9), bytes = dnnl_memory_desc_get_size(&to);
  float *data = malloc(count * sizeof *data), *expected = aligned_alloc(64, bytes), *got = aligned_alloc(64, bytes);
  assert_true(data && expected && got);
  for (size_t i = 0; i < count; i++) data[i] = (float)(braid_random_below(7, 0, 0, i, 4096)) / 4096 - 0.5f;
  for (size_t i = 0; i < bytes / sizeof *got; i++) expected[i] = got[i] = NAN;
  convert(&from, data, &to, expected);
  assert_true(braid_winograd_pack(&to, s->filters, s->channels, data, got));
  for (size_t i = 0; i < bytes / sizeof *got; i++)
    if (!(fabsf(got[i] - expected[i]) <= 4e-7f) && !(isnan(got[i]) && isnan(expected[i])))
      fail_msg("%lld channels, %lld filters, order %d: element %zu is %g, oneDNN has %g", (long long)s->channels,
               (long long)s->filters, (int)to.format_desc.wino_desc.wino_format, i, (double)got[i],
               (double)expected[i]);
  free(data), free(expected), free(got);
  return true;
}

static void test_as_onednn_packs(void **state) {
  (void)state;
  int checked = 0;
  for (int i = 0; i < kShapeCount; i++) checked += check(&kShapes[i]);
  printf("%d of %d shapes have a Winograd convolution on this CPU\n", checked, kShapeCount);
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) assert_int_equal(checked, kShapeCount);
#endif
  if (!checked) skip_test("cpu", "oneDNN has no Winograd convolution for this CPU");
}

/* Row i of G: (1, p, p^2) / ((p - q) (p - r) ...) for the interpolation points p, q, r ..., and (0, 0, 1) for infinity
 * (Lavin & Gray 2016). For 2x2 tiles the first row has the other sign. */
static void interpolation_row(int points, int i, double row[3]) {
  static const double kSmall[] = {0, 1, -1}, kLarge[] = {0, 0.625, -0.625, 1.5, -1.5};
  const double *at = points == 4 ? kSmall : kLarge;
  double scale = points == 4 && i == 0 ? -1 : 1;
  row[0] = row[1] = 0, row[2] = 1;
  if (i == points - 1) return;
  for (int k = 0; k < points - 1; k++)
    if (k != i) scale /= at[i] - at[k];
  for (int k = 0; k < 3; k++) row[k] = scale * pow(at[i], k);
}

/* Point (i, j) of G g G^T in double. */
static double transformed(int points, int i, int j, const float *g) {
  double left[3], right[3], sum = 0;
  interpolation_row(points, i, left);
  interpolation_row(points, j, right);
  for (int k = 0; k < 9; k++) sum += left[k / 3] * g[k] * right[k % 3];
  return sum;
}

/* On any CPU: 20 filters of 3 channels, padded to 32 and 4, in the two orders whose names say where all lies. */
static void check_arithmetic(bool large) {
  enum { FILTERS = 20, CHANNELS = 3, PADDED = 32, WIDE = 4 };
  const int points = large ? 6 : 4;
  static float filters[FILTERS * CHANNELS * 9], got[6 * 6 * PADDED * WIDE];
  dnnl_memory_desc_t to = {.format_kind = dnnl_format_kind_wino, .data_type = dnnl_f32};
  to.format_desc.wino_desc = (dnnl_wino_desc_t){.wino_format = large ? dnnl_wino_wei_OBaaIBOIio : dnnl_wino_wei_aaOio,
                                                .r = 3,
                                                .alpha = points,
                                                .ic = WIDE,
                                                .oc = PADDED,
                                                .ic_block = large ? 2 : WIDE,
                                                .oc_block = 16,
                                                .ic2_block = 1,
                                                .oc2_block = large ? 2 : 1};
  for (int i = 0; i < FILTERS * CHANNELS * 9; i++)
    filters[i] = (float)(braid_random_below(7, 1, 0, (uint64_t)i, 4096)) / 4096 - 0.5f;
  assert_true(braid_winograd_pack(&to, FILTERS, CHANNELS, filters, got));
  for (int i = 0; i < points; i++)
    for (int j = 0; j < points; j++)
      for (int c = 0; c < WIDE; c++)
        for (int o = 0; o < PADDED; o++) {
          int block = o / 16, lane = o % 16, point = i * points + j;
          int at = large ? (((point * 2 + c / 2) * 2 + block) * 2 + c % 2) * 16 + lane
                         : ((point * 2 + block) * WIDE + c) * 16 + lane;
          bool there = o < FILTERS && c < CHANNELS;
          double wanted = there ? transformed(points, i, j, &filters[(o * CHANNELS + c) * 9]) : 0;
          if (!(fabs(got[at] - wanted) <= 4e-7))
            fail_msg("%d points, (%d, %d), channel %d, filter %d is %g, not %g", points, i, j, c, o, (double)got[at],
                     wanted);
        }
}

static void test_arithmetic(void **state) {
  (void)state;
  check_arithmetic(false);
  check_arithmetic(true);
}

static void test_others_are_left_alone(void **state) {
  (void)state;
  dnnl_memory_desc_t to;
  float filters[9] = {0}, out[9];
  ok(dnnl_memory_desc_init_by_tag(&to, 4, (dnnl_dims_t){1, 1, 3, 3}, dnnl_f32, dnnl_oihw));
  assert_false(braid_winograd_pack(&to, 1, 1, filters, out));
  to.format_kind = dnnl_format_kind_wino;
  to.format_desc.wino_desc = (dnnl_wino_desc_t){
      .wino_format = dnnl_wino_wei_aaOIoi, .r = 3, .alpha = 4, .ic = 16, .oc = 16, .ic_block = 16, .oc_block = 16};
  assert_false(braid_winograd_pack(&to, 1, 1, filters, out));
}

static int start(void **state) {
  (void)state;
  return dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
         dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success;
}

static int stop(void **state) {
  (void)state;
  dnnl_stream_destroy(stream);
  dnnl_engine_destroy(engine);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_onednn_packs), cmocka_unit_test(test_arithmetic),
                                     cmocka_unit_test(test_others_are_left_alone)};
  return skip_run_group_tests(tests, start, stop);
}
