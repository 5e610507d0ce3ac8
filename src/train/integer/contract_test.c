/* Values, errors, updates, batch normalization and loss of training in integers against docs/integer-training.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/integer/contract_fixture.h"

static uint64_t mixed(uint64_t h) {
  h = (h ^ h / 65536) * 0x7feb352d % (UINT64_C(1) << 32);
  h = (h ^ h / 32768) * 0x846ca68b % (UINT64_C(1) << 32);
  return h ^ h / 65536;
}

/* --- errors and updates --------------------------------------------------------------------------------------------
 */
static void test_scale_error(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    node_case c = {.op = "IntegerScaleError", .outputs = 2};
    bool is_long = round % 2;
    int64_t count = draw(1, 40), reach = (int64_t)1 << draw(0, is_long ? 45 : 30), bits = draw(2, 8);
    if (round < 2) reach = 0;
    void *data = operand(&c, is_long ? BRAID_I64 : BRAID_I32, 1, &count);
    wide magnitude = 0;
    for (int64_t i = 0; i < count; i++) {
      int64_t v = reach * draw(-1000, 1000) / 1000;
      if (is_long)
        ((int64_t *)data)[i] = v;
      else
        ((int32_t *)data)[i] = (int32_t)v;
      magnitude |= size_of(v);
    }
    int64_t exponent = draw(-300, 300), offset = draw(-20, 20), d = width(magnitude) - (bits - 1);
    one(&c, is_long ? BRAID_I64 : BRAID_I32, (int64_t)magnitude);
    one(&c, BRAID_I32, exponent);
    number(&c, "bits", bits);
    number(&c, "offset", offset);
    int64_t step = draw(0, 1 << 20), seed = draw(0, 1 << 30) << 20, stream = draw(0, 1 << 30);
    one(&c, BRAID_I64, step);
    number(&c, "seed", seed);
    number(&c, "stream", stream);
    run(&c);
    uint32_t key[4], counter[4] = {0, 0, (uint32_t)step, (uint32_t)stream};
    braid_philox(counter, (uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, key);
    for (int64_t i = 0; i < count; i++) {
      wide v = is_long ? ((int64_t *)data)[i] : ((int32_t *)data)[i];
      wide u = mixed((key[0] + (uint64_t)i) % (UINT64_C(1) << 32)), r = d <= 32 ? u / power(32 - d) : u * power(d - 32);
      expect(&c, 0, 1, i, clip(d > 0 ? floor_div(v + r, power(d)) : v * power(-d), bits));
    }
    expect(&c, 1, 4, 0, exponent + offset + d);
    done(&c);
  }
}

static void test_error_sum(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    node_case c = {.op = "IntegerErrorSum", .outputs = 3};
    int64_t count = draw(1, 40), x[2] = {draw(-30, 30), draw(-30, 30)};
    if (round % 4 == 0) x[1] = x[0] + draw(-1, 1) * draw(15, 18);
    for (int i = 0; i < 2; i++) {
      fill_bytes(operand(&c, BRAID_I8, 1, &count), count, round % 5 ? 0 : 1 - 2 * i);
      one(&c, BRAID_I32, x[i]);
    }
    run(&c);
    const int8_t *big = c.in[x[1] > x[0] ? 2 : 0], *small = c.in[x[1] > x[0] ? 0 : 2];
    int64_t apart = llabs(x[0] - x[1]), by = apart < 16 ? apart : 16;
    wide magnitude = 0;
    for (int64_t i = 0; i < count; i++) {
      wide sum = big[i] * power(by) + (apart > 16 ? 0 : small[i]);
      expect(&c, 0, 4, i, sum);
      magnitude |= size_of(sum);
    }
    expect(&c, 1, 4, 0, magnitude);
    expect(&c, 2, 4, 0, (x[0] > x[1] ? x[0] : x[1]) - by);
    done(&c);
  }
}

static void test_update(void **state) {
  (void)state;
  for (int round = 0; round < 80; round++) {
    node_case c = {.op = "IntegerUpdate", .outputs = 1};
    bool is_long = round % 2, is_short = round % 4 < 2;
    int64_t count = draw(1, 40), bits = is_short ? draw(8, 16) : 8, reach = (int64_t)1 << draw(0, is_long ? 46 : 30);
    if (round < 4) reach = 0;
    void *p = operand(&c, is_short ? BRAID_I16 : BRAID_I8, 1, &count);
    void *g = operand(&c, is_long ? BRAID_I64 : BRAID_I32, 1, &count);
    wide magnitude = 0;
    for (int64_t i = 0; i < count; i++) {
      int64_t v = reach * draw(-1000, 1000) / 1000, w = draw((int64_t)-most_of(bits), (int64_t)most_of(bits));
      if (is_short)
        ((int16_t *)p)[i] = (int16_t)w;
      else
        ((int8_t *)p)[i] = (int8_t)w;
      if (is_long)
        ((int64_t *)g)[i] = v;
      else
        ((int32_t *)g)[i] = (int32_t)v;
      magnitude |= size_of(v);
    }
    int64_t rate = draw(-9, 9), step = draw(0, 1 << 20), seed = draw(0, 1 << 30), stream = draw(0, 1 << 30);
    int64_t slower = draw(0, 3);
    one(&c, is_long ? BRAID_I64 : BRAID_I32, (int64_t)magnitude);
    one(&c, BRAID_I32, rate);
    one(&c, BRAID_I64, step);
    number(&c, "bits", bits);
    number(&c, "seed", seed << 20);
    number(&c, "stream", stream);
    number(&c, "slower", slower);
    run(&c);
    int64_t t = width(magnitude) - (int64_t)limit(rate, -8, 8) - (bits - 8) + slower;
    if (t > 62) t = 62;
    for (int64_t i = 0; i < count; i++) {
      uint64_t key64 = (uint64_t)seed << 20;
      uint32_t u[4], counter[4] = {(uint32_t)i / 4, 0, (uint32_t)step, (uint32_t)stream};
      uint32_t key[2] = {(uint32_t)key64, (uint32_t)(key64 >> 32)};
      braid_philox(counter, key, u);
      wide v = is_long ? ((int64_t *)g)[i] : ((int32_t *)g)[i];
      wide old = is_short ? ((int16_t *)p)[i] : ((int8_t *)p)[i];
      wide r = t <= 32 ? u[i % 4] / power(32 - t) : u[i % 4] * power(t - 32);
      wide by = t > 0 ? floor_div(v + r, power(t)) : v * power(-t);
      expect(&c, 0, is_short ? 2 : 1, i, clip(old - clip(by, bits), bits));
    }
    done(&c);
  }
}

/* --- digest --------------------------------------------------------------------------------------------------------
 */
static uint32_t digest_weight(uint64_t place) {
  uint64_t h = mixed(place & 0xffffffff);
  return (uint32_t)(h - h % 2 + 1);
}

/* Sums in another order and without the weights' tables: sample by sample, place by place. */
static void test_digest(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_I8, BRAID_U8, BRAID_I16, BRAID_I32, BRAID_I64};
  for (int round = 0; round < 60; round++) {
    node_case c = {.op = "IntegerDigest", .outputs = 1};
    int64_t dims[4] = {draw(1, 9), draw(1, 40), draw(1, 12), draw(1, 12)};
    braid_dtype dtype = kTypes[round % 5];
    int rank = (int)draw(0, 4);
    uint8_t *data = operand(&c, dtype, rank, dims);
    one(&c, BRAID_I32, draw(-100000, 100000));
    int64_t count = braid_desc_count(&c.desc[0]), places = rank > 0 ? count / dims[0] : 1;
    for (size_t i = 0; i < braid_desc_bytes(&c.desc[0]); i++) data[i] = (uint8_t)draw(0, 255);
    run(&c);
    uint32_t digest = 0;
    for (int64_t i = count; i-- > 0;) {
      int64_t v = dtype == BRAID_I8    ? (int8_t)data[i]
                  : dtype == BRAID_U8  ? data[i]
                  : dtype == BRAID_I16 ? ((int16_t *)(void *)data)[i]
                  : dtype == BRAID_I32 ? ((int32_t *)(void *)data)[i]
                                       : ((int64_t *)(void *)data)[i];
      uint32_t low = (uint32_t)v, high = dtype == BRAID_I64 ? (uint32_t)((uint64_t)v / (UINT64_C(1) << 32)) : 0;
      digest += digest_weight(2 * (uint64_t)(i % places)) * digest_weight(2 * (uint64_t)(i / places) + 1) *
                (low + 2654435761u * high);
    }
    expect(&c, 0, 4, 0, (int32_t)digest);
    expect(&c, 0, 4, 1, (int32_t)(digest_weight(0) * digest_weight(1) * (uint32_t) * (int32_t *)c.in[1]));
    done(&c);
  }
}

/* --- batch normalization -------------------------------------------------------------------------------------------
 */
typedef struct norm_case {
  int64_t batch, channels, area, bits, parameter_bits, relu;
} norm_case;

static wide root_of(wide v) {
  wide low = 0, high = power(33);
  while (high - low > 1) {
    wide middle = (low + high) / 2;
    if (middle * middle <= v)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static int64_t element(const norm_case *s, int64_t c, int64_t i) {
  return (i / s->area * s->channels + c) * s->area + i % s->area;
}

/* gamma or beta, of int8 or int16. */
static int64_t parameter_at(const node_case *c, size_t input, int64_t i) {
  return c->desc[input].dtype == BRAID_I8 ? ((const int8_t *)c->in[input])[i] : ((const int16_t *)c->in[input])[i];
}
static void draw_parameter(node_case *c, const norm_case *s, bool ends) {
  void *data = operand(c, s->parameter_bits == 8 ? BRAID_I8 : BRAID_I16, 1, &s->channels);
  int64_t most = (int64_t)most_of(s->parameter_bits);
  for (int64_t i = 0; i < s->channels; i++) {
    int64_t v = ends ? most * (draw(0, 1) * 2 - 1) : draw(-most, most);
    if (s->parameter_bits == 8)
      ((int8_t *)data)[i] = (int8_t)v;
    else
      ((int16_t *)data)[i] = (int16_t)v;
  }
}

static void check_norm(const node_case *c, const norm_case *s, bool training) {
  const int16_t *x = c->in[0];
  wide n = s->batch * s->area;
  for (int64_t ch = 0; ch < s->channels; ch++) {
    wide sum = 0, squares = 0, mean = ((int32_t *)c->in[3])[ch], variance = ((int64_t *)c->in[4])[ch];
    wide old_mean = mean, old_variance = variance;
    for (int64_t i = 0; i < n; i++) {
      wide v = x[element(s, ch, i)];
      sum += v;
      squares += v * v;
    }
    if (training) {
      mean = near(sum * power(16), n);
      variance = floor_div(squares * power(16), n) - rounded(mean * mean, 16);
      if (variance < 0) variance = 0;
      expect(c, 1, 4, ch, old_mean + rounded(mean - old_mean, 4));
      expect(c, 2, 8, ch, old_variance + rounded(variance - old_variance, 4));
    }
    wide root = root_of((variance + power(14)) * power(16));
    int64_t b = width(root) - 1, places = b - 7;
    wide m = power(14 + b) / root, shift = -rounded(mean * m, 16);
    if (training) {
      expect(c, 4, 4, ch, m);
      expect(c, 5, 4, ch, places);
    }
    for (int64_t i = 0; i < n; i++) {
      int64_t at = element(s, ch, i);
      wide inner = x[at] * m + shift;
      assert_true(size_of(inner) + power(places - 1) < power(31)); /* what the page promises */
      wide h = clip(rounded(inner, places), 8);
      wide y = parameter_at(c, 1, ch) * h + 64 * parameter_at(c, 2, ch);
      y = rounded(y, s->parameter_bits + 6 - s->bits);
      if (training) expect(c, 3, 1, at, h);
      expect(c, 0, 1, at, limit(y, s->relu ? 0 : -most_of(s->bits), most_of(s->bits)));
    }
  }
}

static norm_case draw_norm(void) {
  return (norm_case){draw(1, 5), draw(1, 4), draw(1, 9), draw(2, 8), draw(0, 1) ? 8 : draw(9, 16), draw(0, 1)};
}

static void test_batch_normalization(void **state) {
  (void)state;
  for (int round = 0; round < 80; round++) {
    bool training = round % 2, flat = round % 8 == 3;
    norm_case s = draw_norm();
    if (flat) s.area = 1;
    node_case c = {.op = "IntegerBatchNormalization", .outputs = training ? 6 : 1};
    int64_t dims[4] = {s.batch, s.channels, s.area, 1}, reach = (int64_t)1 << draw(0, 15);
    int16_t *x = operand(&c, BRAID_I16, flat ? 2 : 4, dims);
    int64_t middle = draw(-32767, 32767);
    for (int64_t i = 0; i < braid_desc_count(&c.desc[0]); i++)
      x[i] = (int16_t)(round % 5 == 0 ? 32767 * (draw(0, 1) * 2 - 1) : clip(middle + draw(-reach, reach), 16));
    draw_parameter(&c, &s, round % 3 == 0);
    draw_parameter(&c, &s, round % 3 == 0);
    int32_t *mean = operand(&c, BRAID_I32, 1, &s.channels);
    int64_t *variance = operand(&c, BRAID_I64, 1, &s.channels);
    for (int64_t i = 0; i < s.channels; i++) {
      mean[i] = (int32_t)draw(-2000000000, 2000000000);
      variance[i] = draw(0, 1000) * ((int64_t)1 << draw(0, 36));
    }
    number(&c, "bits", s.bits);
    number(&c, "parameter_bits", s.parameter_bits);
    number(&c, "relu", s.relu);
    number(&c, "training", training);
    run(&c);
    check_norm(&c, &s, training);
    done(&c);
  }
}

static void test_batch_normalization_grad(void **state) {
  (void)state;
  for (int round = 0; round < 60; round++) {
    norm_case s = draw_norm();
    node_case c = {.op = "IntegerBatchNormalizationGrad", .outputs = 7};
    int64_t dims[4] = {s.batch, s.channels, s.area, 1}, x = draw(-99, 99), n = s.batch * s.area;
    int8_t *e = operand(&c, BRAID_I8, 4, dims);
    fill_bytes(e, n * s.channels, round % 4 == 0);
    one(&c, BRAID_I32, x);
    int8_t *h = operand(&c, BRAID_I8, 4, dims);
    fill_bytes(h, n * s.channels, round % 4 == 0);
    draw_parameter(&c, &s, round % 3 == 0);
    int32_t *m = operand(&c, BRAID_I32, 1, &s.channels), *places = operand(&c, BRAID_I32, 1, &s.channels);
    wide widest = 0, magnitude = 0, gammas = 0, betas = 0;
    for (int64_t i = 0; i < s.channels; i++) {
      m[i] = (int32_t)draw(1 << 13, 1 << 14);
      places[i] = (int32_t)draw(8, 24);
      widest |= size_of(parameter_at(&c, 3, i) * m[i] * power(24 - places[i]));
    }
    number(&c, "bits", s.bits);
    number(&c, "parameter_bits", s.parameter_bits);
    run(&c);
    int64_t r = width(widest) > 10 ? width(widest) - 10 : 0;
    for (int64_t ch = 0; ch < s.channels; ch++) {
      wide by_beta = 0, by_gamma = 0, f = rounded(parameter_at(&c, 3, ch) * m[ch] * power(24 - places[ch]), r);
      for (int64_t i = 0; i < n; i++) {
        by_beta += e[element(&s, ch, i)];
        by_gamma += e[element(&s, ch, i)] * h[element(&s, ch, i)];
      }
      wide b = near(by_beta * power(8), n), g = near(by_gamma * power(3), n);
      for (int64_t i = 0; i < n; i++) {
        int64_t at = element(&s, ch, i);
        wide raw = (e[at] * power(8) - b - rounded(h[at] * g, 5)) * f;
        assert_true(size_of(raw) < power(31));
        expect(&c, 0, 4, at, raw);
        magnitude |= size_of(raw);
      }
      expect(&c, 3, 8, ch, by_gamma);
      expect(&c, 5, 8, ch, by_beta);
      gammas |= size_of(by_gamma);
      betas |= size_of(by_beta);
    }
    expect(&c, 1, 4, 0, magnitude);
    expect(&c, 2, 4, 0, x + s.bits - s.parameter_bits - 38 + r);
    expect(&c, 4, 8, 0, gammas);
    expect(&c, 6, 8, 0, betas);
    done(&c);
  }
}

/* --- values, loss
 */
static void test_values(void **state) {
  (void)state;
  for (int round = 0; round < 30; round++) {
    int64_t count = draw(1, 50), bits = draw(2, 8), relu = draw(0, 1), shift = draw(0, 14);
    node_case add = {.op = "IntegerAdd", .outputs = 1}, relus = {.op = "IntegerRelu", .outputs = 1};
    node_case grad = {.op = "IntegerReluGrad", .outputs = 1}, quantize = {.op = "IntegerQuantize", .outputs = 1};
    int8_t *a = operand(&add, BRAID_I8, 1, &count), *b = operand(&add, BRAID_I8, 1, &count);
    fill_bytes(a, count, 0);
    fill_bytes(b, count, round % 4 ? 0 : 1);
    memcpy(operand(&relus, BRAID_I8, 1, &count), a, (size_t)count);
    memcpy(operand(&grad, BRAID_I8, 1, &count), b, (size_t)count);
    memcpy(operand(&grad, BRAID_I8, 1, &count), a, (size_t)count);
    int16_t *v = operand(&quantize, BRAID_I16, 1, &count);
    for (int64_t i = 0; i < count; i++) v[i] = (int16_t)draw(-32767, 32767);
    number(&add, "bits", bits);
    number(&add, "relu", relu);
    number(&grad, "bits", bits);
    number(&quantize, "bits", bits);
    number(&quantize, "shift", shift);
    run(&add), run(&relus), run(&grad), run(&quantize);
    for (int64_t i = 0; i < count; i++) {
      expect(&add, 0, 1, i, limit(a[i] + b[i], relu ? 0 : -most_of(bits), most_of(bits)));
      expect(&relus, 0, 1, i, a[i] > 0 ? a[i] : 0);
      expect(&grad, 0, 1, i, a[i] > 0 && a[i] < most_of(bits) ? b[i] : 0);
      expect(&quantize, 0, 1, i, clip(rounded(v[i], shift), bits));
    }
    done(&add), done(&relus), done(&grad), done(&quantize);
  }
}

/* float32 to integers: halves up, the ends, what is no number. */
static void test_input(void **state) {
  (void)state;
  static const float kX[] = {0, 0.5f / 32, -0.5f / 32, 0.49999997f / 32, 1.5f / 32, -1.5f / 32,  3.96875f,
                             4, -4,        1e30f,      -1e30f,           0.0f / 1,  126.5f / 32, -126.5f / 32};
  static const int kWanted[] = {0, 1, 0, 0, 2, -1, 127, 127, -127, 127, -127, 0, 127, -126};
  int64_t count = sizeof kX / sizeof *kX + 1;
  node_case c = {.op = "IntegerInput", .outputs = 1};
  float *x = operand(&c, BRAID_F32, 1, &count);
  memcpy(x, kX, sizeof kX);
  uint32_t nan = 0x7fc00000u;
  memcpy(&x[count - 1], &nan, sizeof nan);
  number(&c, "bits", 8);
  number(&c, "shift", 5);
  run(&c);
  for (int64_t i = 0; i + 1 < count; i++) expect(&c, 0, 1, i, kWanted[i]);
  expect(&c, 0, 1, count - 1, 0);
  done(&c);
}

static void test_squared_error(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    node_case c = {.op = "IntegerSquaredError", .outputs = 3};
    int64_t dims[2] = {draw(1, 5), draw(2, 6)}, bits = draw(2, 8), hinge = draw(0, 1);
    int8_t *y = operand(&c, BRAID_I8, 2, dims);
    fill_bytes(y, dims[0] * dims[1], round % 3 - 1);
    int32_t *labels = operand(&c, BRAID_I32, 1, dims);
    for (int64_t i = 0; i < dims[0]; i++) labels[i] = (int32_t)draw(-1, dims[1]);
    number(&c, "bits", bits);
    if (hinge) number(&c, "hinge", 1);
    run(&c);
    wide loss = 0, magnitude = 0;
    for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
      bool right = labels[i / dims[1]] == i % dims[1];
      wide error = y[i] - (right ? most_of(bits) : 0);
      if (hinge) error = right ? limit(error, -power(20), 0) : limit(error, 0, power(20));
      loss += error * error;
      magnitude |= size_of(error);
      expect(&c, 1, 4, i, error);
    }
    expect(&c, 0, 8, 0, loss);
    expect(&c, 2, 4, 0, magnitude);
    done(&c);
  }
}

/* --- operands of others --------------------------------------------------------------------------------------------
 */
/* A node gives the same for a number of an operand as for the nearest within its bounds. */
static void check_limited(node_case c, size_t input, int64_t given, int64_t nearest) {
  node_case within = c;
  bool is_long = c.desc[input].dtype == BRAID_I64;
  int64_t longs[2] = {given, nearest};
  int32_t ints[2] = {(int32_t)given, (int32_t)nearest};
  c.in[input] = is_long ? (void *)&longs[0] : &ints[0];
  within.in[input] = is_long ? (void *)&longs[1] : &ints[1];
  run(&c);
  run(&within);
  for (size_t i = 0; i < c.outputs; i++) {
    assert_int_equal(c.bytes[i], within.bytes[i]);
    assert_memory_equal(c.out[i], within.out[i], c.bytes[i]);
    free(c.out[i]);
    free(within.out[i]);
  }
}

static void free_operands(node_case *c) {
  for (size_t i = 0; i < c->inputs; i++) free(c->in[i]);
}

/* A momentum and what it moves, by whole numbers of any size. */
static void test_momentum(void **state) {
  (void)state;
  for (int round = 0; round < 120; round++) {
    node_case c = {.op = "IntegerMomentum", .outputs = 2};
    bool is_long = round % 2, is_short = round % 4 < 2;
    int64_t count = draw(1, 90), bits = is_short ? draw(8, 16) : 8, reach = (int64_t)1 << draw(0, is_long ? 46 : 30);
    void *p = operand(&c, is_short ? BRAID_I16 : BRAID_I8, 1, &count);
    int16_t *m = operand(&c, BRAID_I16, 1, &count);
    void *g = operand(&c, is_long ? BRAID_I64 : BRAID_I32, 1, &count);
    for (int64_t i = 0; i < count; i++) {
      int64_t v = reach * draw(-1000, 1000) / 1000, w = draw((int64_t)-most_of(bits), (int64_t)most_of(bits));
      if (is_short)
        ((int16_t *)p)[i] = (int16_t)w;
      else
        ((int8_t *)p)[i] = (int8_t)w;
      if (is_long)
        ((int64_t *)g)[i] = v;
      else
        ((int32_t *)g)[i] = (int32_t)v;
      m[i] = (int16_t)(draw(0, 3) ? draw(-32767, 32767) : draw(-20, 20));
    }
    int64_t rate = draw(-18, 9), exponent = draw(-40, 20), place = draw(-30, 30), decay = draw(0, 3) ? draw(1, 30) : 0;
    int64_t step = draw(0, 1 << 20), seed = draw(0, 1 << 30), stream = draw(0, 1 << 30);
    one(&c, BRAID_I32, exponent);
    one(&c, BRAID_I32, rate);
    one(&c, BRAID_I64, step);
    number(&c, "bits", bits);
    number(&c, "place", place);
    number(&c, "decay", decay);
    number(&c, "seed", seed << 20);
    number(&c, "stream", stream);
    run(&c);
    int64_t eta = (int64_t)limit(rate, -16, 8), t = (int64_t)limit(place - eta - exponent, -16, 62), f = 20 - bits;
    uint64_t key64 = (uint64_t)seed << 20;
    uint32_t key[2] = {(uint32_t)key64, (uint32_t)(key64 >> 32)}, zero[4], u[4];
    braid_philox((uint32_t[]){0, 0, (uint32_t)step, (uint32_t)stream}, key, zero);
    for (int64_t i = 0; i < count; i++) {
      braid_philox((uint32_t[]){(uint32_t)i / 4, 0, (uint32_t)step, (uint32_t)stream}, key, u);
      wide w = mixed((zero[0] + (uint64_t)i) % (UINT64_C(1) << 32));
      wide v = is_long ? ((int64_t *)g)[i] : ((int32_t *)g)[i], old = is_short ? ((int16_t *)p)[i] : ((int8_t *)p)[i];
      wide r = t <= 32 ? u[i % 4] / power(32 - t) : u[i % 4] * power(t - 32), by = 36 - bits - decay + eta;
      wide q = t > 0 ? floor_div(v + r, power(t)) : v * power(-t);
      wide decayed = !decay ? 0 : by >= 0 ? old * power((int64_t)by) : floor_div(old, power((int64_t)-by));
      wide next = clip(floor_div(m[i] * power(12) * 15 + decayed + w % 65536, power(16)) + clip(q, 16), 16);
      expect(&c, 1, 2, i, next);
      expect(&c, 0, is_short ? 2 : 1, i, clip(old - floor_div(next + w / 65536 % power(f), power(f)), bits));
    }
    done(&c);
  }
}

static void test_operands_of_others(void **state) {
  (void)state;
  const int64_t kOne = 1, kRaw = ((int64_t)1 << 47) - 1, kX[] = {1, 1, 1, 1};
  node_case error = {.op = "IntegerScaleError", .outputs = 2}, update = {.op = "IntegerUpdate", .outputs = 1};
  ((int64_t *)operand(&error, BRAID_I64, 1, &kOne))[0] = 1234567;
  one(&error, BRAID_I64, (1 << 21) - 1);
  one(&error, BRAID_I32, 5);
  one(&error, BRAID_I64, 9);
  number(&error, "bits", 8);
  number(&error, "offset", 0);
  check_limited(error, 0, INT64_MAX, kRaw);
  check_limited(error, 0, INT64_MIN, -kRaw);
  check_limited(error, 1, -1, 0);
  check_limited(error, 1, INT64_MAX, kRaw);
  free_operands(&error);
  ((int8_t *)operand(&update, BRAID_I8, 1, &kOne))[0] = 3;
  ((int64_t *)operand(&update, BRAID_I64, 1, &kOne))[0] = -70000;
  one(&update, BRAID_I64, (1 << 17) - 1);
  one(&update, BRAID_I32, 3);
  one(&update, BRAID_I64, 9);
  number(&update, "bits", 8);
  number(&update, "seed", 1);
  number(&update, "stream", 2);
  number(&update, "slower", 0);
  check_limited(update, 1, INT64_MAX, kRaw);
  check_limited(update, 1, INT64_MIN, -kRaw);
  check_limited(update, 2, INT64_MIN, 0);
  check_limited(update, 3, INT32_MIN, -8);
  free_operands(&update);
  for (int training = 0; training < 2; training++) {
    node_case norm = {.op = "IntegerBatchNormalization", .outputs = training ? 6 : 1};
    ((int16_t *)operand(&norm, BRAID_I16, 4, kX))[0] = -1200;
    ((int8_t *)operand(&norm, BRAID_I8, 1, &kOne))[0] = 64;
    ((int8_t *)operand(&norm, BRAID_I8, 1, &kOne))[0] = 5;
    ((int32_t *)operand(&norm, BRAID_I32, 1, &kOne))[0] = 700;
    ((int64_t *)operand(&norm, BRAID_I64, 1, &kOne))[0] = 1 << 20;
    number(&norm, "bits", 8);
    number(&norm, "parameter_bits", 8);
    number(&norm, "training", training);
    check_limited(norm, 4, -(1 << 14), 0); /* the root of what it is added to would be 0 */
    check_limited(norm, 4, INT64_MIN, 0);
    check_limited(norm, 4, INT64_MAX, (int64_t)1 << 46);
    free_operands(&norm);
  }
  node_case gradient = {.op = "IntegerBatchNormalizationGrad", .outputs = 7};
  ((int8_t *)operand(&gradient, BRAID_I8, 4, kX))[0] = 100;
  one(&gradient, BRAID_I32, 4);
  ((int8_t *)operand(&gradient, BRAID_I8, 4, kX))[0] = -90;
  ((int8_t *)operand(&gradient, BRAID_I8, 1, &kOne))[0] = 64;
  ((int32_t *)operand(&gradient, BRAID_I32, 1, &kOne))[0] = 1 << 13;
  ((int32_t *)operand(&gradient, BRAID_I32, 1, &kOne))[0] = 12;
  number(&gradient, "bits", 8);
  number(&gradient, "parameter_bits", 8);
  check_limited(gradient, 4, INT32_MAX, 1 << 14);
  check_limited(gradient, 4, INT32_MIN, 0);
  check_limited(gradient, 5, 99, 24);
  check_limited(gradient, 5, -99, 8);
  free_operands(&gradient);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scale_error),
      cmocka_unit_test(test_error_sum),
      cmocka_unit_test(test_update),
      cmocka_unit_test(test_momentum),
      cmocka_unit_test(test_digest),
      cmocka_unit_test(test_batch_normalization),
      cmocka_unit_test(test_batch_normalization_grad),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_input),
      cmocka_unit_test(test_squared_error),
      cmocka_unit_test(test_operands_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
