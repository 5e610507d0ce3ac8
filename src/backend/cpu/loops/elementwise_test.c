/* Elementwise kernels against plain loops over indices: random broadcasts up to rank 8, layouts, all types; corner
 * cases of integers; conversions; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/prepared.h"
#include "backend/cpu/spans/convert.h"
#include "backend/cpu/spans/nest.h"
#include "backend/cpu/tables.h"
#include "base/philox.h"
#include "braid/session.h"
#include "graph/graph.h"

#include "oom.h"
#include "slow.h"
#include "tensor/layout.h"

static const braid_layout kLayouts[] = {BRAID_LAYOUT_PLAIN,
                                        BRAID_LAYOUT_BHWC,
                                        BRAID_LAYOUT_CHWB,
                                        BRAID_LAYOUT_BLOCKED16,
                                        BRAID_LAYOUT_BLOCKED(0, 1, 4),
                                        BRAID_LAYOUT_BLOCKED(0, 0, 3) | BRAID_LAYOUT_BLOCKED(1, 2, 5)};

enum { kSeed = 411, kMost = 100000 };
static uint32_t draws;

static int64_t draw(int64_t low, int64_t high) { /* both ends included */
  return low + braid_random_below(kSeed, 0, 0, draws++, (uint32_t)(high - low + 1));
}

/* --- running a kernel ----------------------------------------------------------------------------------------------
 */
typedef struct run {
  const char *op, *name;
  braid_attrs attrs;
  int count;
  braid_desc in[5], out;
  const void *x[5];
} run;

static const braid_kernel *find(const braid_node_desc *node) {
  static const braid_kernel **kernels;
  static size_t count;
  char why[200];
  if (!kernels) assert_int_equal(braid_cpu_list_kernels(NULL, true, &kernels, &count), BRAID_OK);
  for (size_t i = 0; i < count; i++)
    if (strcmp(kernels[i]->op, node->op) == 0 && (!kernels[i]->match || kernels[i]->match(node, why, sizeof why)))
      return kernels[i];
  fail_msg("no kernel for %s", node->op);
  return NULL;
}

static braid_status run_with(const braid_allocator *allocator, const run *r, void *y) {
  braid_operand inputs[5], output = {true, r->out, NULL};
  for (int i = 0; i < r->count; i++) inputs[i] = (braid_operand){true, r->in[i], NULL};
  braid_node_desc node = {.op = r->op,
                          .name = "node",
                          .attrs = &r->attrs,
                          .input_count = (size_t)r->count,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
  braid_cpu_prepared *prepared;
  braid_prepared_info info;
  braid_status status = braid_cpu_prepare(allocator, find(&node), &node, &prepared, &info);
  if (status != BRAID_OK) return status;
  for (int i = 0; i < r->count; i++) prepared->inputs[i] = r->x[i];
  prepared->outputs[0] = y;
  status = braid_cpu_run(prepared, NULL);
  braid_cpu_discard(prepared);
  return status;
}

static void run_kernel(const run *r, void *y) {
  assert_int_equal(run_with(NULL, r, y), BRAID_OK);
}

static braid_desc make(braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  assert_int_equal(braid_desc_init(&desc, dtype, rank, dims), BRAID_OK);
  return desc;
}

/* --- broadcasting --------------------------------------------------------------------------------------------------
 */
static double plain(const char *op, const double *v, int count) {
  if (strcmp(op, "Sub") == 0) return v[0] - v[1];
  if (strcmp(op, "Mul") == 0) return v[0] * v[1];
  if (strcmp(op, "Less") == 0) return v[0] < v[1];
  if (strcmp(op, "Where") == 0) return v[0] != 0 ? v[1] : v[2];
  double result = v[0];
  for (int i = 1; i < count; i++) result = strcmp(op, "Max") == 0 ? fmax(result, v[i]) : result + v[i];
  return strcmp(op, "Mean") == 0 ? result / count : result;
}

static braid_dtype in_type(const char *op, int index, braid_dtype dtype) {
  return strcmp(op, "Where") == 0 && index == 0 ? BRAID_BOOL : dtype;
}

/* Layouts that the kernel agrees with where some operands have one, most often the same. */
static void choose_layouts(run *r) {
  braid_operand inputs[5], output = {true, r->out, NULL};
  braid_layout layouts[5], out_layout = BRAID_LAYOUT_PLAIN, most = kLayouts[draw(0, 5)];
  for (int i = 0; i < r->count; i++) {
    inputs[i] = (braid_operand){true, r->in[i], NULL};
    layouts[i] = r->in[i].rank < 3 ? BRAID_LAYOUT_PLAIN : draw(0, 3) ? most : kLayouts[draw(0, 5)];
  }
  braid_node_desc node = {.op = r->op,
                          .attrs = &r->attrs,
                          .input_count = (size_t)r->count,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
  find(&node)->layouts(&node, layouts, &out_layout);
  r->out.layout = out_layout;
  for (int i = 0; i < r->count; i++) r->in[i].layout = layouts[i];
}

/* Random dimensions, and operands that broadcast to them. */
static void make_shapes(run *r, braid_dtype dtype) {
  int rank = (int)draw(0, BRAID_MAX_RANK), full = (int)draw(0, r->count - 1);
  int64_t dims[BRAID_MAX_RANK], left = draw(0, 9) == 0 ? kMost : 400;
  for (int i = 0; i < rank; i++) {
    dims[i] = draw(0, 3) == 0 ? 1 : draw(1, left < 60 || i + 1 == rank ? left : 60);
    left /= dims[i];
  }
  r->out = make(strcmp(r->op, "Less") == 0 ? BRAID_BOOL : dtype, rank, dims);
  for (int i = 0; i < r->count; i++) {
    int own = i == full ? rank : (int)draw(0, rank);
    int64_t part[BRAID_MAX_RANK];
    for (int k = 0; k < own; k++) part[k] = i != full && draw(0, 2) == 0 ? 1 : dims[rank - own + k];
    r->in[i] = make(in_type(r->op, i, dtype), own, part);
  }
  if (rank >= 3) choose_layouts(r);
}

static int64_t offset_of(const braid_desc *desc, const braid_desc *shape, const int64_t *at) {
  braid_places places = braid_places_of(desc);
  int64_t index[BRAID_MAX_RANK];
  for (int i = 0; i < desc->rank; i++) index[i] = desc->dims[i] == 1 ? 0 : at[shape->rank - desc->rank + i];
  return braid_places_find(&places, index);
}

static int64_t size_of(const braid_desc *desc) {
  return (int64_t)(braid_desc_bytes(desc) / braid_dtype_size(desc->dtype));
}

/* Also: what is no element is zero. */
static void compare(const run *r, double *const *x, double *y) {
  int64_t at[BRAID_MAX_RANK] = {0}, count = braid_desc_count(&r->out);
  for (int64_t n = 0; n < count; n++) {
    double v[5];
    for (int i = 0; i < r->count; i++) v[i] = x[i][offset_of(&r->in[i], &r->out, at)];
    double expected = plain(r->op, v, r->count), *got = &y[offset_of(&r->out, &r->out, at)];
    if (fabs(*got - expected) > 1e-6)
      fail_msg("%s of %s: element %lld is %g, not %g (draw %u)", r->op, braid_dtype_name(r->in[1].dtype), (long long)n,
               *got, expected, draws);
    *got = 0;
    for (int i = r->out.rank; i-- > 0 && ++at[i] == r->out.dims[i];) at[i] = 0;
  }
  for (int64_t i = 0; i < size_of(&r->out); i++) assert_true(y[i] == 0);
}

/* Random numbers; zeros where there is no element. */
static void fill(const run *r, int index, double *x) {
  const braid_desc *desc = &r->in[index];
  bool condition = desc->dtype == BRAID_BOOL;
  int64_t scale = strcmp(r->op, "Mean") == 0 ? r->count : 1, at[BRAID_MAX_RANK] = {0}, count = braid_desc_count(desc);
  for (int64_t n = 0; n < count; n++) {
    x[offset_of(desc, desc, at)] = condition ? (double)draw(0, 1) : (double)(draw(0, 6) * scale) + (index == 0 ? 7 : 0);
    for (int i = desc->rank; i-- > 0 && ++at[i] == desc->dims[i];) at[i] = 0;
  }
}

static void check_broadcast(const char *op, int operands, braid_dtype dtype) {
  run r = {.op = op, .count = operands};
  make_shapes(&r, dtype);
  double *x[5] = {NULL}, *y = braid_zalloc_array(NULL, (size_t)size_of(&r.out), sizeof *y);
  void *typed[5], *result = braid_zalloc(NULL, braid_desc_bytes(&r.out));
  for (int i = 0; i < operands; i++) {
    int64_t count = size_of(&r.in[i]);
    x[i] = braid_zalloc_array(NULL, (size_t)count, sizeof *x[i]);
    typed[i] = braid_zalloc(NULL, braid_desc_bytes(&r.in[i]));
    fill(&r, i, x[i]);
    braid_convert_find(BRAID_F64, r.in[i].dtype)(x[i], typed[i], count);
    r.x[i] = typed[i];
  }
  run_kernel(&r, result);
  braid_convert_find(r.out.dtype, BRAID_F64)(result, y, size_of(&r.out));
  compare(&r, x, y);
  for (int i = 0; i < operands; i++) {
    braid_free(NULL, x[i]);
    braid_free(NULL, typed[i]);
  }
  braid_free(NULL, y);
  braid_free(NULL, result);
}

static void broadcasts(void **state) {
  (void)state;
  for (int n = 0; n < UNLESS_SLOW(25, 8); n++)
    for (braid_dtype dtype = BRAID_F32; dtype < BRAID_BOOL; dtype++) {
      check_broadcast("Sub", 2, dtype);
      check_broadcast("Mul", 2, dtype);
      check_broadcast("Less", 2, dtype);
      check_broadcast("Where", 3, dtype);
      check_broadcast("Max", (int)draw(2, 5), dtype);
      if (braid_dtype_is_float(dtype)) {
        check_broadcast("Sum", (int)draw(2, 5), dtype);
        check_broadcast("Mean", 4, dtype);
      }
    }
}

/* Padding channels of blocks stay zero. */
static void blocks(void **state) {
  (void)state;
  enum { kBytes = 2 * 2 * 3 * 3 * 16 };
  static float x[kBytes], y[kBytes];
  run r = {.op = "Add", .count = 2};
  r.in[0] = r.in[1] = r.out = make(BRAID_F32, 4, (int64_t[]){2, 20, 3, 3});
  r.in[0].layout = r.in[1].layout = r.out.layout = BRAID_LAYOUT_BLOCKED16;
  assert_int_equal(braid_desc_bytes(&r.out), sizeof y);
  for (int i = 0; i < kBytes; i++) x[i] = i / (16 * 9) % 2 && i % 16 >= 4 ? 0 : (float)i;
  r.x[0] = r.x[1] = x;
  run_kernel(&r, y);
  for (int i = 0; i < kBytes; i++) assert_true(y[i] == 2 * x[i]);
}

static void block_layouts(void **state) {
  (void)state;
  static const struct {
    const char *op;
    int64_t channels;
    braid_layout expected;
  } kCases[] = {{"Relu", 20, BRAID_LAYOUT_BLOCKED16}, {"Exp", 20, BRAID_LAYOUT_PLAIN},
                {"Exp", 32, BRAID_LAYOUT_BLOCKED16},  {"Sigmoid", 8, BRAID_LAYOUT_PLAIN},
                {"Tanh", 8, BRAID_LAYOUT_BLOCKED16},  {"HardSigmoid", 8, BRAID_LAYOUT_PLAIN}};
  const braid_attrs none = {0};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_operand x = {true, make(BRAID_F32, 4, (int64_t[]){1, kCases[i].channels, 2, 2}), NULL}, y = x;
    braid_node_desc node = {
        .op = kCases[i].op, .attrs = &none, .input_count = 1, .output_count = 1, .inputs = &x, .outputs = &y};
    braid_layout in = BRAID_LAYOUT_BLOCKED16, out = BRAID_LAYOUT_PLAIN;
    find(&node)->layouts(&node, &in, &out);
    assert_int_equal(in, kCases[i].expected);
    assert_int_equal(out, kCases[i].expected);
  }
}

/* A factor for each channel, as of squeeze and excitation, lies with the image in blocks; what is repeated over padded
 * channels does not. */
static void block_factors(void **state) {
  (void)state;
  static const struct {
    const char *op;
    int64_t channels, factors;
    braid_layout image, factor; /* expected */
  } kCases[] = {{"Mul", 20, 20, BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_BLOCKED16},
                {"Mul", 32, 32, BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_PLAIN},
                {"Mul", 20, 1, BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_PLAIN},
                {"Mul", 32, 1, BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_PLAIN},
                {"Div", 20, 20, BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_PLAIN},
                {"Add", 32, 1, BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_PLAIN}};
  const braid_attrs none = {0};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_operand x[2] = {{true, make(BRAID_F32, 4, (int64_t[]){2, kCases[i].channels, 3, 3}), NULL},
                          {true, make(BRAID_F32, 4, (int64_t[]){2, kCases[i].factors, 1, 1}), NULL}};
    braid_operand y = x[0];
    braid_node_desc node = {
        .op = kCases[i].op, .attrs = &none, .input_count = 2, .output_count = 1, .inputs = x, .outputs = &y};
    braid_layout in[2] = {BRAID_LAYOUT_BLOCKED16, BRAID_LAYOUT_PLAIN}, out = BRAID_LAYOUT_PLAIN;
    find(&node)->layouts(&node, in, &out);
    assert_int_equal(in[0], kCases[i].image);
    assert_int_equal(in[1], kCases[i].factor);
    assert_int_equal(out, kCases[i].image);
  }
}

/* --- corner cases --------------------------------------------------------------------------------------------------
 */
#define PAIR(op_name, dtype, T, a, b, expected)                                                                        \
  do {                                                                                                                 \
    run r = {.op = op_name, .count = 2, .x = {(T[]){a}, (T[]){b}}, .attrs = attrs};                                    \
    r.in[0] = r.in[1] = r.out = make(dtype, 0, NULL);                                                                  \
    T y;                                                                                                               \
    run_kernel(&r, &y);                                                                                                \
    if (y != (T)(expected)) fail_msg("%s(%s, %s) is not %s", op_name, #a, #b, #expected);                              \
  } while (0)

static void integers(void **state) {
  (void)state;
  braid_attrs attrs = {0};
  PAIR("Div", BRAID_I32, int32_t, INT32_MIN, -1, INT32_MIN);
  PAIR("Div", BRAID_I64, int64_t, INT64_MIN, -1, INT64_MIN);
  PAIR("Div", BRAID_I8, int8_t, -128, -1, -128);
  PAIR("Div", BRAID_I32, int32_t, 7, 0, 0);
  PAIR("Div", BRAID_U64, uint64_t, UINT64_MAX, UINT64_MAX, 1);
  PAIR("Div", BRAID_I32, int32_t, -7, 2, -3);
  PAIR("Mod", BRAID_I32, int32_t, -7, 3, 2);
  PAIR("Mod", BRAID_I32, int32_t, 7, -3, -2);
  PAIR("Mod", BRAID_I64, int64_t, INT64_MIN, -1, 0);
  PAIR("Mod", BRAID_U8, uint8_t, 200, 0, 0);
  PAIR("Mod", BRAID_F32, float, -4.25f, 2, 1.75f);
  PAIR("Mod", BRAID_F64, double, 4.25, -2, -1.75);
  PAIR("Mod", BRAID_F32, float, 1, -INFINITY, -INFINITY);
  PAIR("Add", BRAID_I32, int32_t, INT32_MAX, 1, INT32_MIN);
  PAIR("Mul", BRAID_I64, int64_t, INT64_MAX, 2, -2);
  PAIR("Mul", BRAID_U16, uint16_t, 65535, 65535, 1);
  PAIR("Pow", BRAID_I64, int64_t, 3, 39, 4052555153018976267);
  PAIR("Pow", BRAID_I32, int32_t, -2, 31, INT32_MIN);
  PAIR("Pow", BRAID_I32, int32_t, 2, -1, 0);
  PAIR("Pow", BRAID_I32, int32_t, -1, -3, -1);
  PAIR("Pow", BRAID_I32, int32_t, 0, 0, 1);
  PAIR("Max", BRAID_U64, uint64_t, UINT64_MAX, 1, UINT64_MAX);
  braid_attr fmod_attr = {.name = "fmod", .kind = BRAID_ATTR_INT, .count = 1, .i = 1};
  attrs = (braid_attrs){&fmod_attr, 1, 1};
  PAIR("Mod", BRAID_I32, int32_t, -7, 3, -1);
  PAIR("Mod", BRAID_I32, int32_t, 7, -3, 1);
  PAIR("Mod", BRAID_F32, float, -4.3f, 2.1f, fmodf(-4.3f, 2.1f));
  braid_attr left = {.name = "direction", .kind = BRAID_ATTR_STRING, .count = 1, .s = "LEFT"};
  attrs = (braid_attrs){&left, 1, 1};
  PAIR("BitShift", BRAID_U8, uint8_t, 255, 3, 248);
  PAIR("BitShift", BRAID_U32, uint32_t, 1, 32, 0);
  PAIR("BitShift", BRAID_U64, uint64_t, 1, 63, UINT64_C(1) << 63);
  left.s = "RIGHT";
  PAIR("BitShift", BRAID_U64, uint64_t, UINT64_MAX, 64, 0);
  PAIR("BitShift", BRAID_U16, uint16_t, 0x8000, 15, 1);
  PAIR("BitShift", BRAID_I8, int8_t, -8, 1, -4);
  PAIR("BitShift", BRAID_I8, int8_t, -8, 8, -1);
  PAIR("BitShift", BRAID_I8, int8_t, 4, -1, 0);
  PAIR("BitShift", BRAID_I32, int32_t, INT32_MIN, 31, -1);
  PAIR("BitShift", BRAID_I64, int64_t, INT64_MIN, 63, -1);
  PAIR("BitShift", BRAID_I64, int64_t, -1, INT64_MIN, -1);
  left.s = "LEFT";
  PAIR("BitShift", BRAID_I8, int8_t, 64, 1, -128);
  PAIR("BitShift", BRAID_I32, int32_t, -1, 32, 0);
  PAIR("BitShift", BRAID_I64, int64_t, 1, 63, INT64_MIN);
}

static float one(const char *op, float x) {
  run r = {.op = op, .count = 1, .x = {&x}};
  r.in[0] = r.out = make(BRAID_F32, 0, NULL);
  float y;
  run_kernel(&r, &y);
  return y;
}

static void special_floats(void **state) {
  (void)state;
  braid_attrs attrs = {0};
  static const char *const kKeepNan[] = {"Relu", "Tanh",  "Sigmoid",   "Exp",       "Erf",         "Gelu",
                                         "Abs",  "Sign",  "Elu",       "HardSwish", "HardSigmoid", "Softplus",
                                         "Mish", "Swish", "LeakyRelu", "Selu"};
  for (size_t i = 0; i < sizeof kKeepNan / sizeof *kKeepNan; i++)
    if (!isnan(one(kKeepNan[i], NAN))) fail_msg("%s(NaN) is not NaN", kKeepNan[i]);
  assert_true(one("Softplus", INFINITY) == INFINITY && one("Softplus", -INFINITY) == 0);
  assert_true(one("Sigmoid", -200) == 0 && one("Sigmoid", 200) == 1);
  assert_true(one("Round", 2.5f) == 2 && one("Round", -1.5f) == -2);
  assert_true(one("Log", 0) == -INFINITY && isnan(one("Log", -1)));
  assert_true(one("Mish", 100) == 100 && one("Gelu", -40) == 0);
  run r = {.op = "Min", .count = 2, .x = {(float[]){1}, (float[]){NAN}}, .attrs = attrs};
  r.in[0] = r.in[1] = r.out = make(BRAID_F32, 0, NULL);
  float y;
  run_kernel(&r, &y);
  assert_true(isnan(y));
  r.x[0] = r.x[1];
  r.x[1] = (float[]){1};
  run_kernel(&r, &y);
  assert_true(isnan(y));
}

/* --- conversions ---------------------------------------------------------------------------------------------------
 */
static void convert_one(braid_dtype from, const void *x, braid_dtype to, void *y) {
  run r = {.op = "Cast", .count = 1, .x = {x}};
  r.in[0] = make(from, 0, NULL);
  r.out = make(to, 0, NULL);
  run_kernel(&r, y);
}

#define CAST(from, T, x, to, U, expected)                                                                              \
  do {                                                                                                                 \
    U y;                                                                                                               \
    convert_one(from, (T[]){x}, to, &y);                                                                               \
    if (y != (U)(expected)) fail_msg("%s from %s to %s is not %s", #x, #from, #to, #expected);                         \
  } while (0)

static void conversions(void **state) {
  (void)state;
  CAST(BRAID_F32, float, 3.99f, BRAID_I32, int32_t, 3);
  CAST(BRAID_F32, float, -3.99f, BRAID_I8, int8_t, -3);
  CAST(BRAID_F32, float, 300, BRAID_U8, uint8_t, 255);
  CAST(BRAID_F32, float, -1, BRAID_U64, uint64_t, 0);
  CAST(BRAID_F32, float, INFINITY, BRAID_I64, int64_t, INT64_MAX);
  CAST(BRAID_F64, double, -INFINITY, BRAID_I16, int16_t, INT16_MIN);
  CAST(BRAID_F64, double, NAN, BRAID_I32, int32_t, 0);
  CAST(BRAID_F64, double, 2147483647.5, BRAID_I32, int32_t, INT32_MAX);
  CAST(BRAID_F64, double, 0x1p63, BRAID_U64, uint64_t, UINT64_C(1) << 63);
  CAST(BRAID_F32, float, NAN, BRAID_BOOL, uint8_t, 1);
  CAST(BRAID_F32, float, -0.0f, BRAID_BOOL, uint8_t, 0);
  CAST(BRAID_F32, float, 1e-30f, BRAID_BOOL, uint8_t, 1);
  CAST(BRAID_I64, int64_t, 0x1ff, BRAID_I8, int8_t, -1);
  CAST(BRAID_I32, int32_t, -1, BRAID_U32, uint32_t, UINT32_MAX);
  CAST(BRAID_I32, int32_t, 256, BRAID_BOOL, uint8_t, 1);
  CAST(BRAID_U64, uint64_t, UINT64_MAX, BRAID_F32, float, 0x1p64f);
  CAST(BRAID_BOOL, uint8_t, 1, BRAID_F16, uint16_t, 0x3c00);
  CAST(BRAID_F32, float, 70000, BRAID_F16, uint16_t, 0x7c00);
  CAST(BRAID_F32, float, 1.00390625f, BRAID_BF16, uint16_t, 0x3f80); /* a tie, to even */
  /* between two ties: rounding to float first would land on the tie */
  CAST(BRAID_F64, double, 1.0 + 0x1p-11 + 0x1p-40, BRAID_F16, uint16_t, 0x3c01);
  CAST(BRAID_F64, double, 1.0 + 0x1p-11 - 0x1p-40, BRAID_F16, uint16_t, 0x3c00);
  CAST(BRAID_F64, double, -1.0 - 0x1p-8 - 0x1p-40, BRAID_BF16, uint16_t, 0xbf81);
  CAST(BRAID_F64, double, 1e300, BRAID_F16, uint16_t, 0x7c00);
  CAST(BRAID_F16, uint16_t, 0x0001, BRAID_F64, double, 0x1p-24);
}

/* Every half, through the vectors and the tail alike. */
static void halves(void **state) {
  (void)state;
  enum { kCount = 65536 + 5 };
  static uint16_t halves[kCount], back[kCount];
  static float wide[kCount];
  for (int i = 0; i < kCount; i++) halves[i] = (uint16_t)i;
  for (int brain = 0; brain < 2; brain++) {
    braid_dtype half = brain ? BRAID_BF16 : BRAID_F16;
    braid_convert_find(half, BRAID_F32)(halves, wide, kCount);
    braid_convert_find(BRAID_F32, half)(wide, back, kCount);
    for (int i = 0; i < kCount; i++)
      if (isnan(wide[i]))
        assert_int_equal(back[i] & 0x7c00, 0x7c00);
      else
        assert_int_equal(back[i], halves[i]);
  }
}

/* --- refusals and memory -------------------------------------------------------------------------------------------
 */
static void refuse(const char *op, const braid_desc *descs, size_t count, const char *expected) {
  braid_graph *graph;
  braid_value_id inputs[4], y = 0;
  braid_node_id node;
  assert_int_equal(braid_graph_create(NULL, "g", &graph), BRAID_OK);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(braid_graph_add_input(graph, NULL, &descs[i], &inputs[i]), BRAID_OK);
  braid_status status = braid_graph_add_node(graph, op, op, inputs, count, &y, 1, &node);
  if (status == BRAID_OK) status = braid_graph_infer_node(graph, node);
  assert_int_equal(status, BRAID_INVALID_GRAPH);
  if (!strstr(braid_error_detail(), expected)) fail_msg("%s: says \"%s\"", op, braid_error_detail());
  braid_graph_destroy(graph);
}

static void refusals(void **state) {
  (void)state;
  braid_desc f = make(BRAID_F32, 2, (int64_t[]){2, 3}), g = make(BRAID_F32, 1, (int64_t[]){4});
  braid_desc i = make(BRAID_I32, 2, (int64_t[]){2, 3}), b = make(BRAID_BOOL, 1, (int64_t[]){3});
  refuse("Add", (braid_desc[]){f, g}, 2, "does not broadcast");
  refuse("Add", (braid_desc[]){f, i}, 2, "input 0 is float32, input 1 int32");
  refuse("Add", (braid_desc[]){b, b}, 2, "input 0 is bool, which the op does not take");
  refuse("And", (braid_desc[]){f, f}, 2, "input 0 is float32");
  refuse("Exp", (braid_desc[]){i}, 1, "input 0 is int32");
  refuse("Mod", (braid_desc[]){b, b}, 2, "input 0 is bool");
  refuse("Where", (braid_desc[]){b, f, i}, 3, "input 1 is float32, input 2 int32");
  refuse("PRelu", (braid_desc[]){make(BRAID_F32, 1, (int64_t[]){3}), f}, 2, "does not broadcast to the input");
  refuse("Clip", (braid_desc[]){f, g}, 2, "bound 1 has 4 elements");
  refuse("BitShift", (braid_desc[]){f, f}, 2, "input 0 is float32");
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  float y[6];
  return run_with(allocator, context, y);
}

static void out_of_memory(void **state) {
  (void)state;
  static const char *const kOps[] = {"Add", "Sum", "Mean", "Max"};
  float x[6] = {0};
  for (size_t i = 0; i < 4; i++) {
    run r = {.op = kOps[i], .count = 2, .x = {x, x}};
    r.in[0] = r.in[1] = r.out = make(BRAID_F32, 2, (int64_t[]){2, 3});
    oom_sweep(attempt, &r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broadcasts),    cmocka_unit_test(blocks),   cmocka_unit_test(block_layouts),
      cmocka_unit_test(block_factors), cmocka_unit_test(integers), cmocka_unit_test(special_floats),
      cmocka_unit_test(conversions),   cmocka_unit_test(halves),   cmocka_unit_test(refusals),
      cmocka_unit_test(out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
