/* What a manifest can give a kernel: numbers of all types, vectors, axes in parts, items, other element types. */
#include <math.h>

#include "manifest_check.h"

/* A session on the manifest, whose kernels are in `text`. */
static braid_session *open_on(const braid_graph *graph, const char *text, const char *manifest) {
  char path[256], spec[512];
  braid_session *session;
  put("k.cl", text, strlen(text), path);
  put("k.yaml", manifest, strlen(manifest), path);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
  OK(braid_session_create(graph, &(braid_session_options){.devices = spec}, &session));
  braid_plan_line line = line_of_node(session);
  if (strcmp(line.kernel, "k") != 0) fail_msg("it does not run: %s", line.why);
  return session;
}

static void run_and_close(braid_session *session, const void *x, void *y) {
  OK(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_session_destroy(session);
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
static void test_numbers_and_vectors(void **state) {
  (void)state;
  need_device();
  static const char kText[] =
      "__kernel void f(__global const float *x, __global float *y, char a, uchar b, short c, ushort d, int e, uint f,\n"
      "    long g, ulong h, float i, double j, float4 k, uchar16 l, short3 m, char2 n, double2 o) {\n"
      "  const float all[] = {a, b, c, d, e, f, g, h, i, j, k.x, k.y, k.z, k.w, l.s0, l.sf, m.x, m.z, n.x, n.y, o.y};\n"
      "  y[get_global_id(0)] = all[get_global_id(0)];\n"
      "}\n";
  static const char kManifest[] =
      "source: k.cl\nkernels:\n  - name: k\n    op: LeakyRelu\n    launches:\n      - function: f\n        arguments:\n"
      "          - in: 0\n          - out: 0\n          - char: '-128'\n          - uchar: '255'\n"
      "          - short: '-32768'\n          - ushort: '65535'\n          - int: '-2147483647 - 1'\n"
      "          - uint: '4294967295'\n          - long: '-9007199254740992'\n          - ulong: '9007199254740992'\n"
      "          - float: '0.5'\n          - double: count(in0)\n"
      "          - {vector: float4, values: ['1.5', '-2', 'attr(alpha, 0.25)', count(in0) * 2]}\n"
      "          - {vector: uchar16, values: ['200']}\n          - {vector: short3, values: ['7', '8', '-9']}\n"
      "          - {vector: char2, values: ['-1', '-2']}\n          - {vector: double2, values: ['0', '1e-3']}\n"
      "        global: [count(in0)]\n";
  static const float kExpected[] = {-128,
                                    255,
                                    -32768,
                                    65535,
                                    -2147483648.0f,
                                    4294967296.0f,
                                    -9007199254740992.0f,
                                    9007199254740992.0f,
                                    0.5f,
                                    21,
                                    1.5f,
                                    -2,
                                    0.25f,
                                    42,
                                    200,
                                    200,
                                    7,
                                    -9,
                                    -1,
                                    -2,
                                    1e-3f};
  enum { kCount = sizeof kExpected / sizeof *kExpected };
  float x[kCount] = {0}, y[kCount];
  braid_graph *graph = unary("LeakyRelu", kCount);
  run_and_close(open_on(graph, kText, kManifest), x, y);
  for (size_t i = 0; i < kCount; i++)
    if (y[i] != kExpected[i]) fail_msg("number %zu is %g, not %g", i, (double)y[i], (double)kExpected[i]);
  braid_graph_destroy(graph);
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
enum { kItems = 3, kChannels = 6, kPlaces = 5, kAll = kItems * kChannels * kPlaces };

static braid_graph *rows_of(const char *op) {
  braid_graph *graph;
  braid_value_id y;
  OK(braid_graph_create(NULL, op, &graph));
  braid_value_id x = random_input(graph, 3, (int64_t[]){kItems, kChannels, kPlaces});
  OK(braid_graph_add_node(graph, op, "n", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static void fill(float *x) {
  for (int i = 0; i < kAll; i++) x[i] = (float)i;
}

/* Each element says where the kernel has seen it; zeros behind are seen, too. */
static void test_axes_in_parts(void **state) {
  (void)state;
  need_device();
  static const char kText[] = "__kernel void f(__global const float4 *x, __global float4 *y) {\n"
                              "  const size_t i = get_global_id(0);\n"
                              "  y[i] = x[i] + 1000 * (float4)(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);\n}\n";
  static const char kManifest[] =
      "source: k.cl\nkernels:\n  - name: k\n    op: Relu\n    launches:\n      - function: f\n        arguments:\n"
      "          - {in: 0, order: [1/4, 0, 2, 1%4]}\n          - {out: 0, order: [1/4, 0, 2, 1%4]}\n"
      "        global: ['2 * in0[0] * in0[2]']\n";
  float x[kAll], y[kAll];
  fill(x);
  braid_graph *graph = rows_of("Relu");
  run_and_close(open_on(graph, kText, kManifest), x, y);
  for (int b = 0; b < kItems; b++)
    for (int c = 0; c < kChannels; c++)
      for (int i = 0; i < kPlaces; i++) {
        int at = (b * kChannels + c) * kPlaces + i, seen = ((c / 4 * kItems + b) * kPlaces + i) * 4 + c % 4;
        if (y[at] != (float)(at + 1000 * seen)) fail_msg("element %d is %g", at, (double)y[at]);
      }
  braid_graph_destroy(graph);
}

/* An item of the batch in each turn, from its end to its beginning, as fixed point and back: what is beyond 8 bits is
 * held at their ends, ties go to the even number, NaN is 0. */
static void test_items_as_fixed_point(void **state) {
  (void)state;
  need_device();
  static const char kText[] =
      "__kernel void f(__global const char *x, __global short *y, const int turn, const int all) {\n"
      "  const size_t i = get_global_id(0);\n  y[i] = i < all ? 4 * x[i] + turn : 9999;\n}\n";
  static const char kManifest[] =
      "source: k.cl\nkernels:\n  - name: k\n    op: Relu\n    repeat: in0[0]\n    layers: [{node: x}, {node: 'n*'}]\n"
      "    launches:\n      - function: f\n        arguments:\n"
      "          - {in: 0, item: 'in0[0] - 1 - turn', as: int8, frac: '2'}\n"
      "          - {out: 0, item: 'in0[0] - 1 - turn', as: int16, frac: '4', shape: ['1', 'in0[1] + 1', 'in0[2]']}\n"
      "          - int: turn\n          - int: in0[1] * in0[2]\n        global: ['(in0[1] + 1) * in0[2]']\n";
  float x[kAll], y[kAll];
  fill(x);
  x[0] = -0.375f, x[1] = 0.125f, x[2] = NAN, x[3] = -1e9f, x[4] = 1e9f, x[5] = 31.9f;
  static const float kExpected[] = {-2, 0, 0, -128, 127, 127};
  braid_graph *graph = rows_of("Relu");
  run_and_close(open_on(graph, kText, kManifest), x, y);
  for (int i = 0; i < kAll; i++) {
    int turn = kItems - 1 - i / (kChannels * kPlaces);
    float stored = i < 6 ? kExpected[i] : fminf(4 * x[i], 127);
    if (y[i] != (4 * stored + (float)turn) / 16) fail_msg("element %d is %g", i, (double)y[i]);
  }
  braid_graph_destroy(graph);
}

static void test_half(void **state) {
  (void)state;
  need_device();
  static const char kText[] = "__kernel void f(__global const half *x, __global half *y) {\n"
                              "  vstore_half(2 * vload_half(get_global_id(0), x), get_global_id(0), y);\n}\n";
  static const char kManifest[] =
      "source: k.cl\nkernels:\n  - name: k\n    op: Relu\n    launches:\n      - function: f\n        arguments:\n"
      "          - {in: 0, as: float16}\n          - {out: 0, as: float16}\n        global: [count(in0)]\n";
  float x[kAll], y[kAll];
  fill(x);
  x[1] = 2049; /* not a float16; to the even one */
  braid_graph *graph = rows_of("Relu");
  run_and_close(open_on(graph, kText, kManifest), x, y);
  for (int i = 0; i < kAll; i++)
    if (y[i] != (i == 1 ? 4096 : 2 * x[i])) fail_msg("element %d is %g", i, (double)y[i]);
  braid_graph_destroy(graph);
}

/* --- chains --------------------------------------------------------------------------------------------------------
 */
static const char kChainText[] = "__kernel void f(__global const float *a, __global const float *b, __global const "
                                 "float *c, __global float *y, int all)\n"
                                 "{ const size_t i = get_global_id(0); y[i] = a[i] + b[i]; if (all > 0) y[i] *= c[i]; "
                                 "if (all > 1) y[i] = -y[i]; }\n";
#define CHAIN(second, third, more)                                                                                     \
  "source: k.cl\nkernels:\n  - name: k\n    chain: [Add, " second ", " third "]\n" more                                \
  "    launches:\n      - function: f\n        arguments: [in: 0, in: 1, {in: 0, node: 1}, out: 0, "                   \
  "int: 'present(node1) + present(node2)']\n        global: [count(out0)]\n"
/* where the multiplication may be missing, there is no operand of it to be given */
#define SHORT_CHAIN                                                                                                    \
  "source: k.cl\nkernels:\n  - name: k\n    chain: [Add, 'Neg?']\n    launches:\n      - function: f\n"                \
  "        arguments: [in: 0, in: 1, in: 1, out: 0, int: '2 * present(node1)']\n        global: [count(out0)]\n"

static braid_value_id step(braid_graph *graph, const char *op, const char *name, braid_value_id a, braid_value_id b) {
  braid_value_id y;
  OK(braid_graph_add_node(graph, op, name, (braid_value_id[]){a, b}, b < 0 ? 1 : 2, &y, 1, NULL));
  return y;
}

/* neg(c * (a + b)), some of whose values may be asked for as well. */
static braid_graph *sums(bool sum, bool product) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "sums", &graph));
  braid_value_id x[3];
  for (int i = 0; i < 3; i++) x[i] = random_input(graph, 2, (int64_t[]){3, 4});
  braid_value_id s = step(graph, "Add", "add", x[0], x[1]), p = step(graph, "Mul", "mul", x[2], s);
  OK(braid_graph_add_output(graph, step(graph, "Neg", "neg", p, -1)));
  if (sum) OK(braid_graph_add_output(graph, s));
  if (product) OK(braid_graph_add_output(graph, p));
  return graph;
}

static void check_sums(const char *manifest, bool sum, bool product, const char *place, size_t tasks) {
  char path[256], spec[512];
  braid_session *sessions[2];
  braid_graph *graph = sums(sum, product);
  put("k.cl", kChainText, strlen(kChainText), path);
  put("k.yaml", manifest, strlen(manifest), path);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s cpu", path);
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu"}, &sessions[0]));
  OK(braid_session_create(graph, &(braid_session_options){.devices = spec, .place = place}, &sessions[1]));
  size_t there = 0;
  for (size_t i = 0; i < braid_session_plan_count(sessions[1]); i++)
    there += strcmp(braid_session_plan(sessions[1], i).kernel, "k") == 0;
  if (there != tasks) fail_msg("%zu tasks, not %zu: %s", there, tasks, manifest);
  float *inputs[3], outputs[2][3][12];
  for (size_t i = 0; i < 3; i++) inputs[i] = random_data(braid_session_input(sessions[0], i), (uint32_t)i);
  size_t count = braid_session_output_count(sessions[0]);
  for (int k = 0; k < 2; k++) {
    OK(braid_session_run(sessions[k], (const void *const *)inputs,
                         (void *[]){outputs[k][0], outputs[k][1], outputs[k][2]}));
    braid_session_destroy(sessions[k]);
  }
  for (size_t i = 0; i < count; i++)
    for (int e = 0; e < 12; e++) assert_true(fabsf(outputs[0][i][e] - outputs[1][i][e]) <= 1e-6f);
  for (size_t i = 0; i < 3; i++) free(inputs[i]);
  braid_graph_destroy(graph);
}

static void test_chains(void **state) {
  (void)state;
  need_device();
  check_sums(CHAIN("Mul", "Neg", ""), false, false, NULL, 1);
  check_sums(CHAIN("Mul", "Neg", ""), false, false, "auto,*=opencl0", 1);
  check_sums(CHAIN("Mul", "Neg", ""), true, false, NULL, 0);    /* somebody else reads between */
  check_sums(CHAIN("Mul", "'Neg?'", ""), false, true, NULL, 1); /* the last is left out */
  check_sums(CHAIN("Mul", "'Neg?'", "    when: ['!present(node2)']\n"), false, false, NULL, 1);
  check_sums(CHAIN("Mul", "Neg", "    when: [count(node1.in0) == 13]\n"), false, false, NULL, 0);
  check_sums(CHAIN("Mul", "Neg", "    layers: [{node: mul}]\n"), false, false, NULL, 0); /* its first node's name */
  check_sums(CHAIN("Mul", "Neg", "    layers: [{node: 'a?d'}]\n"), false, false, NULL, 1);
  check_sums(CHAIN("Mul", "Neg", ""), false, false, "neg=cpu", 0); /* placed apart */
  check_sums(CHAIN("Mul", "Neg", ""), false, false, "*=cpu", 0);
  check_sums(CHAIN("Mul", "Abs", ""), false, false, NULL, 0);
  check_sums(CHAIN("Neg", "Mul", ""), false, false, NULL, 0);
  check_sums(SHORT_CHAIN, true, false, NULL, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_and_vectors),
      cmocka_unit_test(test_axes_in_parts),
      cmocka_unit_test(test_items_as_fixed_point),
      cmocka_unit_test(test_half),
      cmocka_unit_test(test_chains),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
