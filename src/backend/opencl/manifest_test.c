/* Manifests: kernels that are not ours in form, against the CPU; from text and from a bitstream; and everything that a
 * file can get wrong. */
#include "manifest_check.h"
#include "registry.h"

static const char kManifest[] = BRAID_TEST_DATA "/manifest/gemm.yaml";

/* --- whole nodes ---------------------------------------------------------------------------------------------------
 */
static braid_graph *product(int64_t rows, int64_t inner, int64_t columns) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "product", &graph));
  braid_value_id y, inputs[2] = {random_input(graph, 2, (int64_t[]){rows, inner}),
                                 random_input(graph, 2, (int64_t[]){inner, columns})};
  OK(braid_graph_add_node(graph, "MatMul", "n", inputs, 2, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static void test_padded_product(void **state) {
  (void)state;
  need_device();
  static const int64_t kSizes[][3] = {{8, 8, 8}, {13, 21, 5}, {1, 1, 1}, {33, 7, 64}};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    braid_graph *graph = product(kSizes[i][0], kSizes[i][1], kSizes[i][2]);
    char device[512];
    snprintf(device, sizeof device, "opencl0:manifest=%s", kManifest);
    compare(graph, device, "their_gemm");
    snprintf(device, sizeof device, "opencl0:memory=separate,manifest=%s", kManifest);
    compare(graph, device, "their_gemm");
    braid_graph_destroy(graph);
  }
}

static braid_graph *convolution(bool dilated, bool bias) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "convolution", &graph));
  braid_value_id y, inputs[3] = {random_input(graph, 4, (int64_t[]){2, 3, 9, 11}),
                                 random_input(graph, 4, (int64_t[]){5, 3, 3, 2}), -1};
  if (bias) inputs[2] = random_input(graph, 1, (int64_t[]){5});
  braid_node_id node;
  OK(braid_graph_add_node(graph, "Conv", "n", inputs, bias ? 3 : 2, &y, 1, &node));
  OK(braid_graph_set_ints(graph, node, "strides", (int64_t[]){2, 1}, 2));
  OK(braid_graph_set_ints(graph, node, "pads", (int64_t[]){1, 0, 2, 1}, 4));
  if (dilated) OK(braid_graph_set_ints(graph, node, "dilations", (int64_t[]){2, 1}, 2));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static void test_other_layout(void **state) {
  (void)state;
  need_device();
  char device[512];
  snprintf(device, sizeof device, "opencl0:manifest=%s cpu", kManifest);
  braid_graph *graph = convolution(false, true);
  compare(graph, device, "their_conv");
  braid_graph_destroy(graph);
}

/* A node for which the conditions do not hold goes elsewhere, and the plan says why. */
static void test_conditions(void **state) {
  (void)state;
  need_device();
  char device[512];
  snprintf(device, sizeof device, "opencl0:manifest=%s cpu", kManifest);
  for (int i = 0; i < 2; i++) {
    braid_graph *graph = convolution(i == 0, i == 0);
    braid_session *session;
    OK(braid_session_create(graph, &(braid_session_options){.devices = device, .no_fusion = true}, &session));
    braid_plan_line line = line_of_node(session);
    assert_string_not_equal(line.kernel, "their_conv");
    assert_non_null(strstr(line.why, i == 0 ? "not attr(dilations" : "present(in2)"));
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
}

static braid_graph *leaky(int64_t count, double alpha) {
  braid_graph *graph;
  braid_node_id node;
  braid_value_id y;
  OK(braid_graph_create(NULL, "leaky", &graph));
  braid_value_id x = random_input(graph, 1, &count);
  OK(braid_graph_add_node(graph, "LeakyRelu", "n", &x, 1, &y, 1, &node));
  OK(braid_graph_set_float(graph, node, "alpha", alpha));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static void test_attribute(void **state) {
  (void)state;
  need_device();
  char device[512];
  braid_graph *graph = leaky(100, 0.3);
  snprintf(device, sizeof device, "opencl0:manifest=%s", kManifest);
  compare(graph, device, "their_leaky");
  braid_graph_destroy(graph);
}

/* Neither kernels nor conditions know of the attribute: they would compute as if it were not there. */
static void test_unread_attributes(void **state) {
  (void)state;
  need_device();
  static const char kText[] = "__kernel void f(__global const float *x, __global float *y) { y[get_global_id(0)] = "
                              "x[get_global_id(0)]; }\n";
  static const struct {
    const char *more, *why; /* NULL: it is taken */
  } cases[] = {
      {"", "no formula looks at LeakyRelu's attribute alpha"},
      {"    ignores: [alpha]\n", NULL},
      {"    when: ['attr(alpha, 1) == 1']\n", "not attr(alpha, 1) == 1"},
      {"    when: ['attr(alpha, 2) == 2']\n", NULL},
      {"    when: ['1 || attr(alpha, 2)']\n", NULL},
  };
  char path[256], spec[300];
  put("a.cl", kText, sizeof kText - 1, path);
  braid_graph *graph = leaky(16, 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    int length =
        snprintf(text, sizeof text,
                 "source: a.cl\nkernels:\n  - name: k\n    op: LeakyRelu\n%s    launches:\n      - {function: f, "
                 "arguments: [in: 0, out: 0], global: ['16']}\n",
                 cases[i].more);
    put("m.yaml", text, (size_t)length, path);
    snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
    braid_session *session;
    OK(braid_session_create(graph, &(braid_session_options){.devices = spec}, &session));
    braid_plan_line line = line_of_node(session);
    if ((strcmp(line.kernel, "k") == 0) != !cases[i].why) fail_msg("case %zu: %s, %s", i, line.kernel, line.why);
    if (cases[i].why && !strstr(line.why, cases[i].why)) fail_msg("case %zu: %s", i, line.why);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* A number for `float` may be an attribute of either kind. */
static void test_numbers(void **state) {
  (void)state;
  braid_graph *graph;
  braid_node_id node;
  braid_value_id y = 0;
  double number;
  OK(braid_graph_create(NULL, "numbers", &graph));
  braid_value_id x = random_input(graph, 1, (int64_t[]){4});
  OK(braid_graph_add_node(graph, "LRN", "n", &x, 1, &y, 1, &node));
  OK(braid_graph_set_float(graph, node, "alpha", 0.25));
  OK(braid_graph_set_int(graph, node, "size", -3));
  const braid_node_desc desc = {.op = "LRN", .attrs = braid_graph_node(graph, node).attrs};
  const braid_launch_scope scope = {.nodes = (const braid_node_desc *const[]){&desc}, .node_count = 1};
  static const struct {
    const char *text;
    double value;
  } kCases[] = {{"0.5", 0.5},
                {"attr(alpha, 2)", 0.25},
                {"attr(size, 2)", -3},
                {"attr(missing, 2)", 2},
                {" attr ( node0.alpha , 2 ) ", 0.25},
                {"attr(size, 2) * 2", -6},
                {"3 / 2", 1}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    OK(braid_cl_real(kCases[i].text, &scope, &number));
    assert_true(number == kCases[i].value);
  }
  braid_graph_destroy(graph);
}

/* A kernel that does not give all that the node gives does not fit: the rest would be whatever lies in memory. */
static void test_outputs(void **state) {
  (void)state;
  need_device();
  static const char kText[] =
      "source: pool.cl\nkernels:\n  - name: their_pool\n    op: MaxPool\n"
      "    types: [float32, float32, int64]\n    ignores: [kernel_shape, strides]\n    launches:\n"
      "      - {function: f, arguments: [in: 0, out: 0], global: ['1']}\n";
  static const char kCode[] = "__kernel void f(__global const float *x, __global float *y) { y[0] = x[0]; }\n";
  char path[256], device[300];
  put("pool.cl", kCode, sizeof kCode - 1, path);
  put("pool.yaml", kText, sizeof kText - 1, path);
  snprintf(device, sizeof device, "opencl0:manifest=%s cpu", path);
  for (size_t outputs = 1; outputs <= 2; outputs++) {
    braid_graph *graph;
    braid_session *session;
    braid_node_id node;
    braid_value_id y[2] = {0, 0};
    OK(braid_graph_create(NULL, "pool", &graph));
    braid_value_id x = random_input(graph, 4, (int64_t[]){1, 1, 2, 2});
    OK(braid_graph_add_node(graph, "MaxPool", "n", &x, 1, y, outputs, &node));
    OK(braid_graph_set_ints(graph, node, "kernel_shape", (int64_t[]){2, 2}, 2));
    for (size_t i = 0; i < outputs; i++) OK(braid_graph_add_output(graph, y[i]));
    OK(braid_session_create(graph, &(braid_session_options){.devices = device}, &session));
    braid_plan_line line = line_of_node(session);
    if (outputs == 1) assert_string_equal(line.kernel, "their_pool");
    if (outputs == 2) assert_non_null(strstr(line.why, "no launch takes out: 1"));
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
/* The driver's own binary of the text stands for a vendor's bitstream. */
static void test_bitstream(void **state) {
  (void)state;
  need_device();
  braid_registry *registry;
  braid_device *device;
  OK(braid_registry_create(NULL, &registry));
  OK(braid_device_open(registry, "opencl0:cache=off", &device));
  braid_cl_module *module;
  OK(braid_cl_module_open(braid_device_self(device), BRAID_TEST_DATA "/manifest/gemm.cl", false, kManifest, &module));
  static braid_launch launch;
  launch = (braid_launch){.module = module, .function = "leaky", .options = "-DTS=8"};
  cl_program program;
  OK(braid_cl_program_get(braid_device_self(device), &launch, &program));
  size_t bytes;
  uint8_t *binary = braid_cl_program_binary(braid_device_self(device), program, &bytes);
  assert_non_null(binary);
  char path[256], spec[300];
  put("their.aocx", binary, bytes, path);
  braid_free(NULL, binary);
  braid_cl_module_close(braid_device_self(device), module);
  braid_device_close(device);
  braid_registry_destroy(registry);
  static const char kText[] = "bitstream: their.aocx\n"
                              "kernels:\n"
                              "  - name: theirs\n"
                              "    op: LeakyRelu\n"
                              "    ignores: [alpha]\n"
                              "    launches:\n"
                              "      - function: leaky\n"
                              "        arguments: [in: 0, out: 0, float: '0.5']\n"
                              "        global: [count(in0)]\n";
  put("bitstream.yaml", kText, sizeof kText - 1, path);
  braid_graph *graph = leaky(50, 0.5);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
  compare(graph, spec, "theirs");
  braid_graph_destroy(graph);
}

#define ENTRY(more) "source: a.cl\nkernels:\n  - name: k\n    op: Relu\n" more
#define LAUNCH(arguments, more)                                                                                        \
  ENTRY("    launches:\n      - {function: f, arguments: [" arguments "], global: ['1']" more "}\n")

#define CHAIN(ops, more)                                                                                               \
  "source: a.cl\nkernels:\n  - name: k\n    chain: " ops "\n" more                                                     \
  "    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: ['1']}\n"

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "empty"},
      {"kernels: []\n", "line"},
      {"source: a.cl\n", "kernels"},
      {"kernels:\n  - {name: k, op: Relu, launches: [{function: f, arguments: [in: 0], global: ['1']}]}\n",
       "either source or bitstream"},
      {ENTRY(""), "launches"},
      {ENTRY("    lunches: 3\n"), "lunches"},
      {"source: a.cl\nkernels:\n  - {name: k, op: Rleu, launches: [{function: f, arguments: [in: 0], global: "
       "['1']}]}\n",
       "no op Rleu"},
      {LAUNCH("in: x", ""), "x"},
      {LAUNCH("in: -1", ""), "operand -1"},
      {LAUNCH("{in: 0, out: 0}", ""), "there are 2"},
      {LAUNCH("{}", ""), "there are 0"},
      {LAUNCH("int: '1 +'", ""), "formula"},
      {LAUNCH("{int: '1', order: [0]}", ""), "belongs to in and out"},
      {LAUNCH("{in: 0, order: [0, 0]}", ""), "once"},
      {LAUNCH("{in: 0, order: [0, 1], shape: ['1']}", ""), "order has 2"},
      {LAUNCH("in: 0", ", local: ['1', '1']"), "local has 2"},
      {LAUNCH("out: 0, float: 1e-5x", ""), "1e-5x"},
      {LAUNCH("out: 0, float: 'attr(alpha)'", ""), "attr(alpha)"},
      {LAUNCH("in: 0, in: 0", ""), "no launch takes out: 0"},
      {ENTRY("    types: [float31]\n    launches:\n      - {function: f, arguments: [in: 0], global: ['1']}\n"),
       "float31"},
      {ENTRY("    ignores: [alpha]\n    launches:\n      - {function: f, arguments: [out: 0], global: ['1']}\n"),
       "line 5: kernel k: there is no attribute alpha of Relu"},
      {ENTRY("    when: ['attr(alpha, 1) == 1']\n    launches:\n      - {function: f, arguments: [in: 0], global: "
             "['1']}\n"),
       "line 5: kernel k: formula \"attr(alpha, 1) == 1\": there is no attribute alpha of Relu"},
      {LAUNCH("out: 0, float: 'attr(alpha, 0.5)'", ""), "there is no attribute alpha of Relu"},
      {ENTRY("    when: ['rank(in0']\n    launches:\n      - {function: f, arguments: [in: 0], global: ['1']}\n"),
       "line 5: kernel k: formula \"rank(in0\""},
      {LAUNCH("in: 0, out: 0, in: 0,\n          {int: '1', in: 0}", ""), "line 7: kernel k: f, argument 3"},
      {LAUNCH("{in: 0, order: [0/4]}", ""), "0 is there in one part only"},
      {LAUNCH("{in: 0, order: [0/4, 0%8]}", ""), "axis 0 comes twice"},
      {LAUNCH("{in: 0, order: [0/4, 0%4, 0%4]}", ""), "axis 0 comes twice"},
      {LAUNCH("{in: 0, order: [0/0, 0%0]}", ""), "expected AXIS, AXIS/SIZE or AXIS%SIZE"},
      {LAUNCH("{in: 0, order: [8]}", ""), "axes from 0 to 7"},
      {LAUNCH("{in: 0, order: [-1]}", ""), "expected AXIS"},
      {LAUNCH("{in: 0, order: [0, 2]}", ""), "1 is missing"},
      {LAUNCH("{in: 0, as: int7}", ""), "expected int8, uint8"},
      {LAUNCH("{in: 0, as: float32}", ""), "or float16"},
      {LAUNCH("{in: 0, as: float16, frac: '3'}", ""), "frac belongs to"},
      {LAUNCH("{in: 0, frac: '3'}", ""), "frac belongs to"},
      {LAUNCH("{in: 0, as: int8, frac: '1 <'}", ""), "formula"},
      {LAUNCH("{in: 0, item: turn}", ""), "the name of a number"},
      {LAUNCH("{in: 0, node: 1}", ""), "node: 1, expected 0 to 0"},
      {LAUNCH("{out: 0, node: 0}", ""), "node: 0"},
      {LAUNCH("{int: '1', item: '0'}", ""), "item belongs to in and out"},
      {LAUNCH("{int: '1', zeroed: true}", ""), "zeroed belongs to workspace"},
      {LAUNCH("{int: '1', values: ['1']}", ""), "values belong to vector"},
      {LAUNCH("{vector: float5, values: ['1']}", ""), "with 2, 3, 4, 8 or 16"},
      {LAUNCH("{vector: float, values: ['1']}", ""), "with 2, 3, 4, 8 or 16"},
      {LAUNCH("{vector: half4, values: ['1']}", ""), "expected char, uchar"},
      {LAUNCH("{vector: float4, values: ['1', '2']}", ""), "expected 1, for all, or 4"},
      {LAUNCH("{vector: float4}", ""), "0 values"},
      {LAUNCH("{vector: int2, values: ['1', '0.5']}", ""), "formula"},
      {LAUNCH("out: 0", ", together: true"), "there is no launch before it"},
      {CHAIN("[Add, Rleu]", ""), "line 4: kernel k: there is no op Rleu"},
      {CHAIN("['Add?', Relu]", ""), "its first node cannot be left out"},
      {CHAIN("[Relu, Flatten]", ""), "Flatten is another shape"},
      {CHAIN("[Relu, Flatten, 'Gemm?']", ""), "Flatten is another shape"},
      {CHAIN("['?']", ""), "there is no op"},
      {CHAIN("[]", ""), "line"},
      {CHAIN("[Add, Relu]", "    op: Add\n"), "either op or chain"},
      {CHAIN("[Add, Relu]", "    types: [float32]\n"), "line 5: kernel k: types belong to op"},
      {CHAIN("[Add, Relu]", "    when: ['node2.in0[0] == 1']\n"), "node0 to node1"},
      {CHAIN("[Add, Relu]", "    numbers: [a]\n"), "expected layers"},
      {CHAIN("[Add, Relu]", "    numbers: [a, a]\n    layers: [{node: x, values: [1, 2]}]\n"), "a comes twice"},
      {CHAIN("[Add, Relu]", "    numbers: [turn]\n    layers: [{node: x, values: [1]}]\n"), "neither turn"},
      {CHAIN("[Add, Relu]", "    numbers: [node0]\n    layers: [{node: x, values: [1]}]\n"), "nor node0"},
      {CHAIN("[Add, Relu]", "    numbers: ['a b']\n    layers: [{node: x, values: [1]}]\n"), "expected a letter"},
      {CHAIN("[Add, Relu]", "    numbers: [a]\n    layers: [{node: x, values: [1, 2]}]\n"), "2 values, expected 1"},
      {CHAIN("[Add, Relu]", "    numbers: [a]\n    layers: [{node: x, values: [z]}]\n"), "line: 6"},
      {CHAIN("[Add, Relu]", "    repeat: b\n"), "the name of a number"},
      {"source: a.cl\nkernels:\n  - name: k\n    launches: [{function: f, arguments: [out: 0], global: ['1']}]\n",
       "line 3: kernel k: expected either op or chain"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_cl_manifest_file *file;
    braid_status status = braid_cl_manifest_parse("m.yaml", cases[i].text, strlen(cases[i].text), &file);
    print_message("%s\n", braid_error_detail());
    assert_int_equal(status, BRAID_INVALID_FILE);
    assert_null(file);
    assert_non_null(strstr(braid_error_detail(), "m.yaml"));
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("expected \"%s\"", cases[i].said);
    assert_true(!cases[i].text[0] || strstr(braid_error_detail(), "line"));
  }
}

/* What only shows when a node is there, or the driver is asked. */
static void test_refused_later(void **state) {
  (void)state;
  need_device();
  static const struct {
    const char *manifest, *said;
  } cases[] = {
      {ENTRY("    launches:\n      - {function: absent, arguments: [in: 0, out: 0], global: ['1']}\n"), "absent"},
      {"source: nowhere.cl\nkernels:\n  - {name: k, op: Relu, launches: [{function: f, arguments: [out: 0], global: "
       "['1']}]}\n",
       "nowhere.cl"},
      {LAUNCH("out: 0", ""), "takes 2 arguments"},
      {LAUNCH("in: 0, {out: 0, shape: ['1']}", ""), "expected 4"},
      {LAUNCH("in: 3, out: 0", ""), "in 3 is not there"},
      {LAUNCH("out: 0, int: 9999999999", ""), "9999999999"},
      {LAUNCH("out: 0, uchar: '-1'", ""), "\"-1\" is -1, expected 0 to 255"},
      {LAUNCH("out: 0, {vector: char2, values: ['128']}", ""), "expected -128 to 127"},
      {LAUNCH("out: 0, {in: 0, order: [0, 1]}", ""), "has axis 1, the operand has 1"},
      {LAUNCH("out: 0, {in: 0, item: '4'}", ""), "\"4\" is 4, expected 0 to 3"},
      {LAUNCH("out: 0, {in: 0, as: int8, frac: '65'}", ""), "expected -64 to 64"},
      {LAUNCH("out: 0, {in: 0, order: [0/2, 0%2], shape: ['2', '3']}", ""), "\"3\" is 3, expected 2 to 2"},
      {ENTRY(
           "    repeat: '1000000'\n    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: ['1']}\n"),
       "expected 1 to 1024"},
      {ENTRY("    layers: [{node: other}]\n    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: "
             "['1']}\n"),
       "none of its layers is named n"},
      {LAUNCH("out: 0, in: 0, {vector: float2, values: ['1']}", ""), "f takes 2 arguments, the recipe has 3"},
  };
  static const char kText[] = "__kernel void f(__global const float *x, __global float *y) { y[0] = x[0]; }\n"
                              "__kernel void g(int x) {}\n";
  char text[256], path[256], spec[300];
  put("a.cl", kText, sizeof kText - 1, text);
  braid_graph *graph = unary("Relu", 4);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put("m.yaml", cases[i].manifest, strlen(cases[i].manifest), path);
    snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
    braid_session *session = NULL;
    braid_status status = braid_session_create(graph, &(braid_session_options){.devices = spec}, &session);
    const char *said = status == BRAID_OK ? line_of_node(session).why : braid_error_detail();
    print_message("%s\n", said);
    if (!strstr(said, cases[i].said)) fail_msg("expected \"%s\"", cases[i].said);
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

/* --- formulas without a value --------------------------------------------------------------------------------------
 */
static int warnings;
static char warning[512];

static void hear(void *context, braid_log_level level, const char *message) {
  (void)context;
  if (level != BRAID_LOG_WARNING || !strstr(message, "manifest")) return;
  warnings++;
  snprintf(warning, sizeof warning, "%s", message);
}

/* In a condition and in a size, for two nodes: one warning for each kernel. */
static void test_without_value(void **state) {
  (void)state;
  need_device();
  static const char kText[] = "__kernel void f(__global const float *x, __global float *y) { y[0] = x[0]; }\n";
  static const char *const manifests[] = {
      ENTRY("    when: ['in0[5] == 1']\n    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: "
            "['1']}\n"),
      ENTRY("    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: ['in0[5]']}\n"),
      ENTRY("    when: ['rank(in0) == 5']\n    launches:\n      - {function: f, arguments: [in: 0, out: 0], global: "
            "['in0[5]']}\n"),
  };
  char text[256], path[256], spec[300];
  put("a.cl", kText, sizeof kText - 1, text);
  braid_graph *graph = unary("Relu", 4);
  braid_value_id y, x = braid_graph_output(graph, 0);
  OK(braid_graph_add_node(graph, "Relu", "second", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  braid_registry *own = open_test_registry(hear, NULL);
  assert_non_null(own);
  for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) {
    put("m.yaml", manifests[i], strlen(manifests[i]), path);
    snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
    braid_session *session;
    warnings = 0;
    OK(braid_session_create(graph, &(braid_session_options){.devices = spec, .registry = own}, &session));
    assert_int_equal(warnings, i < 2 ? 1 : 0); /* a condition that does not hold is none */
    if (warnings && (!strstr(warning, "kernel k is passed over") || !strstr(warning, "in0[5]")))
      fail_msg("%s", warning);
    braid_session_destroy(session);
  }
  braid_registry_destroy(own);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_padded_product),    cmocka_unit_test(test_other_layout),  cmocka_unit_test(test_conditions),
      cmocka_unit_test(test_attribute),         cmocka_unit_test(test_bitstream),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_refused_later),     cmocka_unit_test(test_numbers),       cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_unread_attributes), cmocka_unit_test(test_without_value),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
