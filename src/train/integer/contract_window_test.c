/* Convolutions and pools of training in integers against docs/integer-training.md, over random windows and at the ends
 * of all ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/integer/contract_fixture.h"

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
typedef struct conv_case {
  int64_t batch, groups, channels, filters, size[2], kernel[2], stride[2], dilation[2], pads[4], out[2];
  int mode[2];
} conv_case;

static conv_case draw_conv(void) {
  conv_case s = {.batch = draw(1, 3), .groups = draw(1, 2), .channels = draw(1, 4), .filters = draw(1, 4)};
  for (int i = 0; i < 2; i++) {
    s.kernel[i] = draw(1, 3);
    s.stride[i] = draw(1, 2);
    s.dilation[i] = draw(1, 2);
    s.pads[i] = draw(0, 2), s.pads[2 + i] = draw(0, 2);
    s.size[i] = draw(5, 9);
    s.out[i] = (s.size[i] + s.pads[i] + s.pads[2 + i] - (s.kernel[i] - 1) * s.dilation[i] - 1) / s.stride[i] + 1;
    s.mode[i] = draw(0, 3) ? 0 : (int)draw(-1, 1);
  }
  return s;
}

static void conv_attrs(node_case *c, const conv_case *s) {
  list(c, "strides", 2, s->stride);
  list(c, "dilations", 2, s->dilation);
  list(c, "pads", 4, s->pads);
  number(c, "group", s->groups);
}

/* Visits every product: sample, group, filter and channel of it, output, place, and the input under them. */
typedef struct product {
  int64_t x, w, y;
} product;
typedef void visit(void *context, product p);
static void each_product(const conv_case *s, visit *v, void *context) {
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t g = 0; g < s->groups; g++)
      for (int64_t f = 0; f < s->filters; f++)
        for (int64_t c = 0; c < s->channels; c++)
          for (int64_t oy = 0; oy < s->out[0]; oy++)
            for (int64_t ox = 0; ox < s->out[1]; ox++)
              for (int64_t ky = 0; ky < s->kernel[0]; ky++)
                for (int64_t kx = 0; kx < s->kernel[1]; kx++) {
                  int64_t y = oy * s->stride[0] + ky * s->dilation[0] - s->pads[0];
                  int64_t x = ox * s->stride[1] + kx * s->dilation[1] - s->pads[1];
                  if (y < 0 || x < 0 || y >= s->size[0] || x >= s->size[1]) continue;
                  int64_t filter = g * s->filters + f, channel = g * s->channels + c;
                  v(context, (product){((n * s->groups * s->channels + channel) * s->size[0] + y) * s->size[1] + x,
                                       ((filter * s->channels + c) * s->kernel[0] + ky) * s->kernel[1] + kx,
                                       ((n * s->groups * s->filters + filter) * s->out[0] + oy) * s->out[1] + ox});
                }
}

typedef struct sums {
  const int8_t *a, *b;
  wide *into;
  int kind; /* what is summed: 0 y, 1 x, 2 w */
} sums;
static void add_product(void *context, product p) {
  sums *s = context;
  if (s->kind == 0) s->into[p.y] += s->a[p.x] * s->b[p.w];
  if (s->kind == 1) s->into[p.x] += s->a[p.y] * s->b[p.w];
  if (s->kind == 2) s->into[p.w] += s->a[p.x] * s->b[p.y];
}

static void check_raw(const node_case *c, const wide *sum, int64_t count, size_t bytes) {
  wide bits = 0;
  assert_int_equal(c->bytes[0], (size_t)count * bytes);
  for (int64_t i = 0; i < count; i++) {
    expect(c, 0, bytes, i, sum[i]);
    bits |= size_of(sum[i]);
  }
  expect(c, 1, bytes, 0, bits);
}

static void test_convolutions(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    conv_case s = draw_conv();
    int64_t x[4] = {s.batch, s.groups * s.channels, s.size[0], s.size[1]};
    int64_t w[4] = {s.groups * s.filters, s.channels, s.kernel[0], s.kernel[1]};
    int64_t y[4] = {s.batch, s.groups * s.filters, s.out[0], s.out[1]};
    const int64_t *shapes[3][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
    int kind = round % 3;
    static const char *const kOps[] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};
    node_case c = {.op = kOps[kind], .outputs = kind ? 2 : 1};
    for (int i = 0; i < 2; i++) {
      void *data = operand(&c, BRAID_I8, 4, shapes[kind][i]);
      fill_bytes(data, braid_desc_count(&c.desc[i]), s.mode[i]);
    }
    conv_attrs(&c, &s);
    if (kind == 1) list(&c, "input_shape", 2, s.size);
    if (kind == 2) list(&c, "kernel_shape", 2, s.kernel);
    int64_t bits = round % 2 ? 16 : draw(2, 8), shift = draw(0, 12), relu = draw(0, 1), count = 1;
    if (kind == 0) {
      number(&c, "bits", bits);
      number(&c, "shift", shift);
      number(&c, "relu", relu);
    }
    for (int i = 0; i < 4; i++) count *= shapes[kind][2][i];
    wide *sum = calloc((size_t)count, sizeof *sum);
    assert_non_null(sum);
    each_product(&s, add_product, &(sums){c.in[0], c.in[1], sum, kind});
    run(&c);
    if (kind)
      check_raw(&c, sum, count, 4);
    else
      for (int64_t i = 0; i < count; i++)
        expect(&c, 0, bits > 8 ? 2 : 1, i, limit(rounded(sum[i], shift), relu ? 0 : -most_of(bits), most_of(bits)));
    free(sum);
    done(&c);
  }
}

/* Layers so large that all of 127 or -127 goes beyond 32 bits: on both sides of the bound. */
static void test_extremes(void **state) {
  (void)state;
  for (int kind = 0; kind < 3; kind++)
    for (int over = 0; over < 2; over++)
      for (int sign = -1; sign < 2; sign += 2) {
        int64_t n = 133143 + over, a[2] = {2, n}, b[2] = {3, n}, flat[2][2] = {{2, n}, {n, 3}};
        static const char *const kOps[] = {"IntegerConv", "IntegerConvGradInput", "IntegerConvGradFilter"};
        node_case c = {.op = kOps[kind], .outputs = kind ? 2 : 1};
        int64_t turned[2][2] = {{n, 2}, {n, 3}};
        const int64_t *first = kind == 2 ? turned[0] : a, *second = kind == 0 ? b : kind == 1 ? flat[1] : turned[1];
        fill_bytes(operand(&c, BRAID_I8, 2, first), 2 * n, 1);
        fill_bytes(operand(&c, BRAID_I8, 2, second), 3 * n, sign);
        if (kind == 0) {
          number(&c, "bits", 16);
          number(&c, "shift", 17);
        }
        run(&c);
        wide sum = (wide)sign * 127 * 127 * n;
        for (int64_t i = 0; i < 6; i++)
          expect(&c, 0, kind ? (over ? 8 : 4) : 2, i, kind ? sum : clip(rounded(sum, 17), 16));
        if (kind) expect(&c, 1, over ? 8 : 4, 0, size_of(sum));
        done(&c);
      }
}

/* --- pools --------------------------------------------------------------------------------------------------------
 */
static void test_pools(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    bool average = round % 2;
    int64_t planes = draw(1, 3), size[2], kernel[2], stride[2], pads[4] = {0}, out[2], places;
    for (int i = 0; i < 2; i++) {
      kernel[i] = draw(1, 3);
      stride[i] = draw(1, 3);
      out[i] = draw(1, 4);
      size[i] = (out[i] - 1) * stride[i] + kernel[i];
      if (!average && kernel[i] > 1 && out[i] > 1 && draw(0, 1)) pads[i] = 1, size[i]--;
    }
    places = kernel[0] * kernel[1];
    node_case c = {.op = average ? "IntegerAveragePool" : "IntegerMaxPool", .outputs = average ? 1 : 2};
    int8_t *x = operand(&c, BRAID_I8, 4, (int64_t[]){1, planes, size[0], size[1]});
    fill_bytes(x, planes * size[0] * size[1], 0);
    if (round % 3 == 0)
      for (int64_t i = 0; i < planes * size[0] * size[1]; i++) x[i] = (int8_t)(x[i] % 2); /* ties */
    bool overlap = (kernel[0] > stride[0] && out[0] > 1) || (kernel[1] > stride[1] && out[1] > 1);
    node_case back = {.op = average ? "IntegerAveragePoolGrad" : "IntegerMaxPoolGrad", .outputs = overlap ? 2 : 1};
    int64_t count = planes * out[0] * out[1], dims[4] = {1, planes, out[0], out[1]};
    int8_t *e = operand(&back, BRAID_I8, 4, dims);
    fill_bytes(e, count, 0);
    uint8_t *index = average ? NULL : operand(&back, BRAID_U8, 4, dims);
    wide *sum = calloc((size_t)(planes * size[0] * size[1]), sizeof *sum);
    assert_non_null(sum);
    node_case *both[] = {&c, &back};
    for (int i = 0; i < 2; i++) {
      list(both[i], "kernel_shape", 2, kernel);
      list(both[i], "strides", 2, stride);
      list(both[i], "pads", 4, pads);
    }
    list(&back, "input_shape", 2, size);
    run(&c);
    for (int64_t i = 0; i < count; i++) {
      int64_t plane = i / (out[0] * out[1]), oy = i / out[1] % out[0], ox = i % out[1], at = -1, best = -1;
      wide total = 0;
      for (int64_t k = 0; k < places; k++) {
        int64_t y = oy * stride[0] + k / kernel[1] - pads[0], xx = ox * stride[1] + k % kernel[1] - pads[1];
        if (y < 0 || xx < 0) continue;
        int64_t here = (plane * size[0] + y) * size[1] + xx;
        total += x[here];
        if (average) sum[here] += e[i];
        if (at < 0 || x[here] > x[at]) at = here, best = k;
      }
      expect(&c, 0, 1, i, average ? near(total, places) : x[at]);
      if (average) continue;
      expect(&c, 1, 1, i, best);
      index[i] = (uint8_t)best;
      sum[at] += e[i];
    }
    run(&back);
    if (overlap)
      check_raw(&back, sum, planes * size[0] * size[1], 4);
    else
      for (int64_t i = 0; i < planes * size[0] * size[1]; i++) expect(&back, 0, 1, i, sum[i]);
    free(sum);
    done(&c);
    done(&back);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolutions), cmocka_unit_test(test_extremes),
                                     cmocka_unit_test(test_pools)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
