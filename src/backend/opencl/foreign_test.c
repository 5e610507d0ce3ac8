/* Kernels of somebody else, as a stranger writes them (tests/data/manifest): several launches with a workspace between
 * them, text in several files, and everything in which a manifest and its kernels can disagree. */
#include <dirent.h>
#include <sys/stat.h>

#include "backend/opencl/test_node.h"
#include "base/file.h"
#include "braid/log.h"
#include "manifest_check.h"
#include "registry.h"

static const char *const kMemories[] = {"", "memory=separate,"};
enum { kMemoryCount = sizeof kMemories / sizeof *kMemories };

/* --- workspaces ----------------------------------------------------------------------------------------------------
 */
static braid_value_id constant(braid_graph *graph, int rank, const int64_t *dims, float value) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) ((float *)braid_tensor_data(tensor))[i] = value;
  OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

/* out NULL: it is the graph's output, of filters that are inputs; else it is given there, of filters that are constant.
 */
static braid_graph *convolution(int64_t batch, bool activated, braid_value_id *out) {
  braid_graph *graph;
  braid_node_id node;
  OK(braid_graph_create(NULL, "convolution", &graph));
  braid_value_id y,
      inputs[3] = {random_input(graph, 4, (int64_t[]){batch, 3, 13, 10}),
                   random_input(graph, 4, (int64_t[]){11, 3, 3, 2}), random_input(graph, 1, (int64_t[]){11})};
  if (out)
    inputs[1] = constant(graph, 4, (int64_t[]){11, 3, 3, 2}, 0.5f), inputs[2] = constant(graph, 1, &(int64_t){11}, 1);
  OK(braid_graph_add_node(graph, "Conv", "n", inputs, 3, &y, 1, &node));
  OK(braid_graph_set_ints(graph, node, "strides", (int64_t[]){2, 1}, 2));
  OK(braid_graph_set_ints(graph, node, "pads", (int64_t[]){1, 0, 2, 1}, 4));
  if (activated) OK(braid_graph_add_node(graph, "Relu", "relu", &y, 1, &y, 1, NULL));
  if (out)
    *out = y;
  else
    OK(braid_graph_add_output(graph, y));
  return graph;
}

static void test_im2col_and_product(void **state) {
  (void)state;
  need_device();
  static const int64_t kBatches[] = {1, 2, 7};
  for (size_t i = 0; i < sizeof kBatches / sizeof *kBatches; i++)
    for (int m = 0; m < kMemoryCount; m++) {
      char device[512];
      braid_graph *graph = convolution(kBatches[i], i == 1, NULL); /* a fused kernel of ours does not take it away */
      snprintf(device, sizeof device, "opencl0:%smanifest=%s cpu", kMemories[m],
               BRAID_TEST_DATA "/manifest/im2col.yaml");
      compare(graph, device, "im2col_product");
      braid_graph_destroy(graph);
    }
}

/* Padding that the node leaves to auto_pad is what the manifest's formulas see as pads. */
static void test_automatic_padding(void **state) {
  (void)state;
  need_device();
  static const char *const kWays[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
  for (size_t i = 0; i < sizeof kWays / sizeof *kWays; i++) {
    braid_graph *graph;
    braid_node_id node;
    OK(braid_graph_create(NULL, "padded", &graph));
    braid_value_id y,
        inputs[3] = {random_input(graph, 4, (int64_t[]){2, 3, 12, 9}), random_input(graph, 4, (int64_t[]){5, 3, 3, 2}),
                     random_input(graph, 1, (int64_t[]){5})};
    OK(braid_graph_add_node(graph, "Conv", "n", inputs, 3, &y, 1, &node));
    OK(braid_graph_set_ints(graph, node, "strides", (int64_t[]){2, 1}, 2));
    OK(braid_graph_set_string(graph, node, "auto_pad", kWays[i]));
    OK(braid_graph_add_output(graph, y));
    compare(graph, "opencl0:manifest=" BRAID_TEST_DATA "/manifest/im2col.yaml cpu", "im2col_product");
    braid_graph_destroy(graph);
  }
}

/* A convolution with a normalization and a rectifier behind it: folding leaves a convolution, and fusing does not take
 * it away from the kernel that was brought for it, wherever it is placed and whatever stands beside it. */
static void test_convolution_in_a_network(void **state) {
  (void)state;
  need_device();
  static const struct {
    const char *devices, *place;
    bool taken;
  } cases[] = {
      {"opencl0:%s", NULL, true},
      {"opencl0:%s cpu", NULL, true},
      {"opencl0:%s cpu", "n*=opencl0,relu=cpu", true},
      {"opencl0:%s", "auto", true},
      {"cpu opencl0:%s", "n*=opencl0", true},
      {"cpu opencl0:%s", "n*=opencl0,auto", true},
      {"cpu opencl0:%s", "n*=cpu", false},
      {"cpu opencl0:%s", NULL, false},
  };
  const int64_t channels = 11;
  braid_value_id x, y;
  braid_graph *graph = convolution(2, false, &x);
  const braid_value_id operands[5] = {x, constant(graph, 1, &channels, 1.5f), constant(graph, 1, &channels, 0.25f),
                                      constant(graph, 1, &channels, -0.5f), constant(graph, 1, &channels, 2)};
  OK(braid_graph_add_node(graph, "BatchNormalization", "normal", operands, 5, &y, 1, NULL));
  OK(braid_graph_add_node(graph, "Relu", "relu", &y, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char devices[512];
    braid_session *session;
    snprintf(devices, sizeof devices, cases[i].devices, "manifest=" BRAID_TEST_DATA "/manifest/im2col.yaml");
    OK(braid_session_create(graph, &(braid_session_options){.devices = devices, .place = cases[i].place}, &session));
    bool taken = false;
    for (size_t k = 0; k < braid_session_plan_count(session); k++)
      taken |= strcmp(braid_session_plan(session, k).kernel, "im2col_product") == 0;
    if (taken != cases[i].taken) fail_msg("%s, %s", devices, cases[i].place ? cases[i].place : "");
    braid_session_destroy(session);
  }
  braid_graph_destroy(graph);
}

static void test_two_pass_softmax(void **state) {
  (void)state;
  need_device();
  static const int64_t kBatches[] = {1, 3, 64};
  for (size_t i = 0; i < sizeof kBatches / sizeof *kBatches; i++)
    for (int m = 0; m < kMemoryCount; m++) {
      char device[512];
      braid_graph *graph;
      braid_value_id y;
      OK(braid_graph_create(NULL, "softmax", &graph));
      braid_value_id x = random_input(graph, 3, (int64_t[]){kBatches[i], 5, 36});
      OK(braid_graph_add_node(graph, "Softmax", "n", &x, 1, &y, 1, NULL));
      OK(braid_graph_add_output(graph, y));
      snprintf(device, sizeof device, "opencl0:%smanifest=%s", kMemories[m], BRAID_TEST_DATA "/manifest/softmax.yaml");
      compare(graph, device, "two_pass_softmax");
      braid_graph_destroy(graph);
    }
}

/* --- text in several files -----------------------------------------------------------------------------------------
 */
#define MANIFEST(file, function, arguments, sizes)                                                                     \
  file "\nkernels:\n  - name: k\n    op: Relu\n    launches:\n      - {function: " function                            \
       ", arguments: [in: 0, out: "                                                                                    \
       "0" arguments "], " sizes "}\n"

static void put_text(const char *name, const char *text, char path[256]) {
  put(name, text, strlen(text), path);
}

/* What the kernel of folder/scale/m.yaml makes of 1. */
static float scaled(const char *options) {
  char path[256], manifest[1024], spec[1024];
  snprintf(manifest, sizeof manifest,
           "source: scale.cl\n%skernels:\n  - name: scale\n    op: Relu\n    launches:\n"
           "      - {function: scale, arguments: [in: 0, out: 0], global: [count(in0)]}\n",
           options);
  put_text("with a blank/m.yaml", manifest, path);
  snprintf(spec, sizeof spec, "opencl0:cache=%s/cache,manifest=%s/link/m.yaml", folder, folder);
  braid_graph *graph = unary("Relu", 1);
  braid_session *session;
  float x = 1, y = 0;
  OK(braid_session_create(graph, &(braid_session_options){.devices = spec, .no_fusion = true}, &session));
  assert_string_equal(line_of_node(session).kernel, "scale");
  OK(braid_session_run(session, (const void *[]){&x}, (void *[]){&y}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return y;
}

static int kept_programs(void) {
  char path[256];
  int count = 0;
  snprintf(path, sizeof path, "%s/cache", folder);
  DIR *cache = opendir(path);
  for (struct dirent *entry; cache && (entry = readdir(cache));) count += strstr(entry->d_name, ".program") != NULL;
  if (cache) closedir(cache);
  return count;
}

static void make_subfolder(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void test_included_text_changes(void **state) {
  (void)state;
  need_device();
  char path[256], link[256], options[512];
  make_subfolder("with a blank");
  make_subfolder("with a blank/parts");
  make_subfolder("elsewhere");
  snprintf(path, sizeof path, "%s/with a blank", folder);
  snprintf(link, sizeof link, "%s/link", folder);
  assert_int_equal(symlink(path, link), 0);
  put_text("with a blank/scale.cl",
           "#include \"parts/scale.clh\"\n"
           "__kernel void scale(__global const float *x, __global float *y) { y[0] = SCALE * x[0]; }\n",
           path);
  /* an include of an include, beside it */
  put_text("with a blank/parts/scale.clh", "  #  include \\\n \"number.clh\"\n#define SCALE NUMBER\n", path);
  put_text("with a blank/parts/number.clh", "#define NUMBER 2\n", path);
  assert_float_equal(scaled(""), 2, 0);
  assert_int_equal(kept_programs(), 1);
  put_text("with a blank/parts/number.clh", "#define NUMBER 3\n", path);
  assert_float_equal(scaled(""), 3, 0);
  assert_int_equal(kept_programs(), 2);
  put_text("with a blank/parts/number.clh", "#define NUMBER 2\n", path); /* as it was: the first is still good */
  assert_float_equal(scaled(""), 2, 0);
  assert_int_equal(kept_programs(), 2);
  /* where -I says; both files of that name count, since only the compiler knows which one it takes */
  put_text("with a blank/parts/scale.clh", "#include <other.clh>\n", path);
  put_text("elsewhere/other.clh", "#define SCALE 5\n", path);
  snprintf(options, sizeof options, "options: -I %s/elsewhere\n", folder);
  assert_float_equal(scaled(options), 5, 0);
  put_text("elsewhere/other.clh", "#define SCALE 6\n", path);
  assert_float_equal(scaled(options), 6, 0);
  put_text("with a blank/other.clh", "#define SCALE 7\n", path);
  assert_float_equal(scaled(options), 7, 0);
  assert_int_equal(kept_programs(), 5);
}

/* What folder/NAME/m.yaml makes of 1: its text includes from both of its folders. */
static float moved(const char *name, const char *number) {
  char path[256], file[64], spec[1024];
  make_subfolder(name);
  snprintf(file, sizeof file, "%s/text", name);
  make_subfolder(file);
  snprintf(file, sizeof file, "%s/text/moved.cl", name);
  put_text(file,
           "#include \"own.clh\"\n#include \"number.clh\"\n"
           "__kernel void f(__global const float *x, __global float *y) { y[0] = OWN * NUMBER * x[0]; }\n",
           path);
  snprintf(file, sizeof file, "%s/text/own.clh", name);
  put_text(file, "#define OWN 10\n", path);
  snprintf(file, sizeof file, "%s/number.clh", name);
  put_text(file, number, path);
  snprintf(file, sizeof file, "%s/m.yaml", name);
  put_text(file, MANIFEST("source: text/moved.cl", "f", "", "global: ['1']"), path);
  snprintf(spec, sizeof spec, "opencl0:cache=%s/cache,manifest=%s", folder, path);
  braid_graph *graph = unary("Relu", 1);
  braid_session *session;
  float x = 1, y = 0;
  OK(braid_session_create(graph, &(braid_session_options){.devices = spec, .no_fusion = true}, &session));
  OK(braid_session_run(session, (const void *[]){&x}, (void *[]){&y}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return y;
}

/* Files that moved make the program that is kept; other files of the same names do not. */
static void test_moved_text(void **state) {
  (void)state;
  need_device();
  int before = kept_programs();
  assert_float_equal(moved("here", "#define NUMBER 2\n"), 20, 0);
  assert_int_equal(kept_programs(), before + 1);
  assert_float_equal(moved("there", "#define NUMBER 2\n"), 20, 0);
  assert_int_equal(kept_programs(), before + 1);
  assert_float_equal(moved("other", "#define NUMBER 3\n"), 30, 0);
  assert_int_equal(kept_programs(), before + 2);
}

/* Beside the manifest, where the text lies elsewhere. */
static void test_included_beside_the_manifest(void **state) {
  (void)state;
  need_device();
  char path[256], spec[300];
  make_subfolder("sub");
  put_text("sub/beside.cl",
           "#include \"sizes.clh\"\n__kernel void f(__global const float *x, __global float *y) { y[0] = "
           "SIZE * x[0]; }\n",
           path);
  put_text("sizes.clh", "#define SIZE 7\n", path);
  put_text("beside.yaml", MANIFEST("source: sub/beside.cl", "f", "", "global: ['1']"), path);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
  braid_graph *graph = unary("Relu", 1);
  braid_session *session;
  float x = 1, y = 0;
  OK(braid_session_create(graph, &(braid_session_options){.devices = spec}, &session));
  OK(braid_session_run(session, (const void *[]){&x}, (void *[]){&y}));
  assert_float_equal(y, 7, 0);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* What only the preprocessor knows is compiled each time and not kept. */
static void test_unknown_includes_are_not_kept(void **state) {
  (void)state;
  need_device();
  static const char kMacro[] = "#define NAME \"named.clh\"\n#include NAME\n";
  static const char kAsked[] = "#if __has_include(\"absent.clh\")\n#include \"absent.clh\"\n#else\n"
                               "#include \"named.clh\"\n#endif\n";
  static const char kInactive[] = "#if 0\n#include \"absent.clh\"\n#endif\n#include \"named.clh\"\n";
  /* a carriage return alone: one line or two, as the compiler likes */
  static const char kReturn[] = "#include \"named.clh\"\r#include \"named.clh\"\n";
  static const char *const kHeaders[] = {kMacro, kAsked, kInactive, kReturn};
  char path[256];
  int before = kept_programs();
  for (size_t i = 0; i < sizeof kHeaders / sizeof *kHeaders; i++)
    for (int number = 8; number < 10; number++) {
      char text[64];
      put_text("with a blank/parts/scale.clh", kHeaders[i], path);
      snprintf(text, sizeof text, "#define SCALE %d\n", number);
      put_text("with a blank/parts/named.clh", text, path);
      assert_float_equal(scaled(""), number, 0);
    }
  assert_int_equal(kept_programs(), before);
}

/* --- manifests against kernels -------------------------------------------------------------------------------------
 */
static const char kKernels[] =
    "typedef float real;\n"
    "__kernel void memory(__global const float *x, __global float *y) { y[0] = x[0]; }\n"
    "__kernel void whole(__global const int *x, __global float *y) { y[0] = x[0]; }\n"
    "__kernel void bytes(__global const uchar4 *x, __global float *y) { y[0] = x[0].x; }\n"
    "__kernel void number(__global const float *x, __global float *y, int n) { y[0] = x[0] + n; }\n"
    "__kernel void small(__global const float *x, __global float *y, short n) { y[0] = x[0] + n; }\n"
    "__kernel void wide(__global const float *x, __global float *y, ulong n) { y[0] = x[0] + n; }\n"
    "__kernel void vector(__global const float *x, __global float *y, int4 n) { y[0] = x[0] + n.x; }\n"
    "__kernel void own(__global const float *x, __global real *y, real n) { y[0] = x[0] + n; }\n"
    "__kernel void shared(__global const float *x, __global float *y, __local float *l) { l[0] = y[0] = x[0]; }\n"
    "__kernel __attribute__((reqd_work_group_size(2, 1, 1)))\n"
    "void pairs(__global const float *x, __global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }\n";

#define TEXT(function, arguments) MANIFEST("source: a.cl", function, arguments, "global: ['1']")
#define SIZES(function, sizes) MANIFEST("source: a.cl", function, "", sizes)

/* Opens a session on the manifest; what it, or the plan's line for the node, says. */
static braid_registry *registry_of_said; /* NULL: sessions have their own */

static const char *said_of(const char *manifest, char said[1024]) {
  char path[256], spec[300];
  put_text("m.yaml", manifest, path);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
  braid_graph *graph = unary("Relu", 4);
  braid_session *session = NULL;
  braid_status status =
      braid_session_create(graph, &(braid_session_options){.devices = spec, .registry = registry_of_said}, &session);
  braid_plan_line line = status == BRAID_OK ? line_of_node(session) : (braid_plan_line){.why = braid_error_detail()};
  snprintf(said, 1024, "%s%s", status == BRAID_OK && strcmp(line.kernel, "k") == 0 ? "it runs " : "", line.why);
  print_message("%s\n", said);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return said;
}

static void test_disagreements_in_text(void **state) {
  (void)state;
  need_device();
  static const struct {
    const char *manifest, *said;
  } cases[] = {
      {TEXT("memory", ""), "it runs"},
      {TEXT("memory", ", int: '1'"), "memory takes 2 arguments, the recipe has 3"},
      {TEXT("whole", ""), "whole, argument 0: the manifest gives float32, the kernel takes __global int*"},
      {TEXT("bytes", ""), "bytes, argument 0: the manifest gives float32, the kernel takes __global uchar4*"},
      {TEXT("number", ", int: '1'"), "it runs"},
      {TEXT("number", ", long: '1'"), "number, argument 2: the manifest gives long, the kernel takes int"},
      {TEXT("number", ", float: '1'"), "number, argument 2: the manifest gives float, the kernel takes int"},
      {TEXT("number", ", in: 0"), "number, argument 2: the manifest gives float32, the kernel takes int"},
      {TEXT("number", ", workspace: '4'"), "number, argument 2: the manifest gives workspace, the kernel takes int"},
      {TEXT("number", ", local: '4'"), "number, argument 2: the manifest gives local memory, the kernel takes int"},
      {TEXT("small", ", int: '1'"), "small, argument 2: the manifest gives int, the kernel takes short"},
      {TEXT("small", ", short: '1'"), "it runs"},
      {TEXT("small", ", ushort: '1'"), "it runs"},
      {TEXT("small", ", uchar: '1'"), "small, argument 2: the manifest gives uchar, the kernel takes short"},
      {TEXT("number", ", {vector: int2, values: ['1']}"),
       "number, argument 2: the manifest gives int2, the kernel takes int"},
      {TEXT("vector", ", {vector: int4, values: ['1']}"), "it runs"},
      {TEXT("vector", ", {vector: int8, values: ['1']}"),
       "vector, argument 2: the manifest gives int8, the kernel takes int4"},
      {TEXT("vector", ", {vector: float4, values: ['1']}"),
       "vector, argument 2: the manifest gives float4, the kernel takes int4"},
      {TEXT("wide", ", long: '1'"), "it runs"},
      {TEXT("wide", ", int: '1'"), "wide, argument 2: the manifest gives int, the kernel takes ulong"},
      {TEXT("vector", ", int: '1'"), "vector, argument 2: the manifest gives int, the kernel takes int4"},
      {TEXT("own", ", float: '1'"), "it runs"},
      {TEXT("own", ", in: 0"), "own, argument 2: the manifest gives float32, the kernel takes real"},
      {TEXT("shared", ", local: '4'"), "it runs"},
      {TEXT("shared", ", workspace: '4'"), "the manifest gives workspace, the kernel takes __local float*"},
      {TEXT("shared", ", long: '4'"), "the manifest gives long, the kernel takes __local float*"},
      {TEXT("shared", ", local: '2000000000'"), "2000000000 bytes of local memory per group, the device has"},
      {TEXT("absent", ""), "there is no kernel absent in it, only \"memory;whole;"},
      {SIZES("memory", "global: ['0']"), "\"0\" is 0, expected 1 to"},
      {SIZES("memory", "global: [count(in0) - 5]"), "is -1, expected 1 to"},
      {SIZES("memory", "global: ['8', '8'], local: ['3', '1']"),
       "8 work-items of dimension 0 are no whole groups of 3"},
      {SIZES("memory", "global: ['8'], local: ['0']"), "\"0\" is 0, expected 1 to"},
      {SIZES("memory", "global: ['1048576'], local: ['1048576']"), "groups of 1048576 work-items"},
      {SIZES("memory", "global: ['4294967296', '4294967296']"), "more work-items than can be counted"},
      {SIZES("pairs", "global: ['4'], local: ['2']"), "it runs"},
      {SIZES("pairs", "global: ['4'], local: ['4']"),
       "groups of 4 work-items in dimension 0, the kernel is compiled for 2"},
      {SIZES("pairs", "global: ['4']"), "local is missing, the kernel is compiled for groups of 2 x 1 x 1"},
      {MANIFEST("source: broken.cl", "f", "", "global: ['1']"), "broken.cl does not build for"},
      {MANIFEST("source: a.cl\noptions: -cl-no-such-option", "memory", "", "global: ['1']"), "-cl-no-such-option"},
      {TEXT("shared", ", workspace: '4', workspace: '4'"), "workspace \"\" is argument 2 already"},
      {TEXT("shared", ", {workspace: '4', name: a}, {workspace: '4', name: a}"),
       "workspace \"a\" is argument 2 already"},
      {TEXT("shared", ", {int: '4', name: a}"), "name belongs to workspace"},
  };
  char path[256], said[1024];
  put_text("a.cl", kKernels, path);
  put_text("broken.cl", "__kernel void f(__global float *x) { y = 0; }\n", path);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!strstr(said_of(cases[i].manifest, said), cases[i].said))
      fail_msg("case %zu says \"%s\", expected \"%s\"", i, said, cases[i].said);
}

/* The error detail has the beginning of a compiler's log, the log of the registry all of it. */
static bool heard_last;

static void hear_compiler(void *context, braid_log_level level, const char *message) {
  (void)context, (void)level;
  heard_last |= strstr(message, "the_last_of_the_unknown_words") != NULL;
}

static void test_whole_compiler_log(void **state) {
  (void)state;
  need_device();
  char text[4096], path[256], said[1024];
  size_t used = (size_t)snprintf(text, sizeof text, "__kernel void f(__global float *x) {\n");
  for (int i = 0; i < 14; i++)
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "  unknown_word_that_is_long_enough_to_fill_it_%d = 0;\n", i);
  snprintf(text + used, sizeof text - used, "  the_last_of_the_unknown_words = 0;\n}\n");
  put_text("long.cl", text, path);
  registry_of_said = open_test_registry(hear_compiler, NULL);
  assert_non_null(registry_of_said);
  said_of(MANIFEST("source: long.cl", "f", "", "global: ['1']"), said);
  braid_registry_destroy(registry_of_said);
  registry_of_said = NULL;
  assert_non_null(strstr(said, "unknown_word_that_is_long_enough_to_fill_it_0"));
  assert_null(strstr(said, "the_last_of_the_unknown_words"));
  assert_true(heard_last);
}

/* A bitstream's kernels may tell no types: the driver's answers to arguments must do then. */
static cl_int CL_API_CALL tell_nothing(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what, size_t bytes,
                                       void *value, size_t *needed) {
  (void)kernel, (void)index, (void)what, (void)bytes, (void)value, (void)needed;
  return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
}

/* Prepares the manifest's kernel for a Relu under such a driver. */
static braid_status prepare_untold(const char *manifest) {
  char path[256], spec[300], why[256];
  put_text("m.yaml", manifest, path);
  snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
  braid_registry *registry;
  test_node node = {0};
  OK(braid_registry_create(NULL, &registry));
  OK(braid_device_open(registry, spec, &node.device));
  braid_cl_device *device = braid_device_self(node.device);
  braid_cl_api front = *device->cl;
  front.GetKernelArgInfo = tell_nothing;
  device->cl = &front;
  test_node_describe(&node, "Relu", 4);
  const braid_kernel *kernel = braid_device_find_kernel(node.device, &node.desc, why, sizeof why);
  assert_non_null(kernel);
  assert_string_equal(kernel->name, "k");
  braid_prepared_info info;
  const braid_backend *backend = braid_device_backend(node.device);
  braid_status status = backend->prepare(device, kernel, &node.desc, &node.prepared, &info);
  if (status == BRAID_OK) backend->discard(device, node.prepared);
  device->cl = braid_cl_load();
  braid_device_close(node.device);
  braid_registry_destroy(registry);
  return status;
}

static void test_disagreements_untold(void **state) {
  (void)state;
  need_device();
  static const struct {
    const char *manifest, *said; /* NULL: it is taken */
  } cases[] = {
      {TEXT("memory", ""), NULL},
      {TEXT("number", ", int: '1'"), NULL},
      {TEXT("own", ", float: '1'"), NULL},
      {TEXT("shared", ", local: '4'"), NULL},
      {TEXT("number", ", long: '1'"), "argument 2 of number: CL_INVALID_ARG_SIZE"},
      {TEXT("small", ", int: '1'"), "argument 2 of small: CL_INVALID_ARG_SIZE"},
      {TEXT("number", ", in: 0"), "number, argument 2: the manifest gives float32, the kernel takes no memory"},
      {TEXT("own", ", workspace: '8'"), "own, argument 2: the manifest gives workspace, the kernel takes no memory"},
      {TEXT("number", ", local: '4'"), "argument 2 of number: CL_INVALID_ARG"},
      {"source: a.cl\nkernels:\n  - name: k\n    op: Relu\n    launches:\n"
       "      - {function: memory, arguments: [out: 0, long: '8'], global: ['1']}\n",
       "memory, argument 1: the manifest gives long, the kernel takes memory"},
  };
  char path[256];
  put_text("a.cl", kKernels, path);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_status status = prepare_untold(cases[i].manifest);
    if (status != BRAID_OK) print_message("%s\n", braid_error_detail());
    if (cases[i].said ? status == BRAID_OK || !strstr(braid_error_detail(), cases[i].said) : status != BRAID_OK)
      fail_msg("case %zu, expected \"%s\"", i, cases[i].said ? cases[i].said : "nothing");
  }
}

/* The page shows manifests that tests run. */
static void test_documented_manifests(void **state) {
  (void)state;
  static const char *const kNames[] = {"im2col", "pipeline"};
  braid_file_view page, manifest;
  OK(braid_file_open(NULL, BRAID_TEST_DATA "/../../docs/manifest.md", 1 << 20, &page));
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s/manifest/%s.yaml", BRAID_TEST_DATA, kNames[i]);
    OK(braid_file_open(NULL, path, 1 << 20, &manifest));
    if (!memmem(page.data, page.bytes, manifest.data, manifest.bytes)) fail_msg("docs/manifest.md has not %s", path);
    braid_file_close(&manifest);
  }
  braid_file_close(&page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_im2col_and_product),
      cmocka_unit_test(test_two_pass_softmax),
      cmocka_unit_test(test_automatic_padding),
      cmocka_unit_test(test_convolution_in_a_network),
      cmocka_unit_test(test_included_text_changes),
      cmocka_unit_test(test_unknown_includes_are_not_kept),
      cmocka_unit_test(test_disagreements_in_text),
      cmocka_unit_test(test_disagreements_untold),
      cmocka_unit_test(test_whole_compiler_log),
      cmocka_unit_test(test_documented_manifests),
      cmocka_unit_test(test_included_beside_the_manifest),
      cmocka_unit_test(test_moved_text),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
