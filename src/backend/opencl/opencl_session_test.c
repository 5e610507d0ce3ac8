/* Graphs over OpenCL devices, their parts and the CPU: whatever node is placed where, the results are the CPU's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/opencl/context.h"
#include "braid/custom.h"
#include "braid/model.h"
#include "braid/session.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kCount = 1111, kNodes = 24, kGraphs = 12, kRuns = 3 };

static braid_registry *shared; /* keeps built programs for the sessions after the first */

static void need_device(void) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
}

/* --- random graphs -------------------------------------------------------------------------------------------------
 */
static uint32_t state = 20240611;

static uint32_t below(uint32_t bound) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % bound;
}

static braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status halve(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                          const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  for (int64_t i = 0; i < braid_desc_count(outputs[0].desc); i++)
    ((float *)outputs[0].data)[i] = ((const float *)inputs[0].data)[i] / 2;
  return BRAID_OK;
}

/* Only the CPU has it: graphs with it change devices. */
static const braid_custom_op kHalve = {
    .name = "test.Halve", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_same, .compute = halve};

static braid_value_id add_vector(braid_graph *graph, const char *name, bool input) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  int64_t count = kCount;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  if (input) {
    OK(braid_graph_add_input(graph, name, &desc, &id));
    return id;
  }
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int i = 0; i < kCount; i++) ((float *)braid_tensor_data(tensor))[i] = (float)((int)below(41) - 20) / 16;
  OK(braid_graph_add_tensor(graph, name, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_graph *random_graph(void) {
  static const struct {
    const char *op;
    size_t inputs;
  } kOps[] = {{"Relu", 1}, {"Neg", 1}, {"Add", 2}, {"Sub", 2}, {"Mul", 2}, {"test.Halve", 1}};
  braid_graph *graph;
  braid_value_id values[kNodes + 3];
  OK(braid_graph_create(NULL, "random", &graph));
  values[0] = add_vector(graph, "a", true);
  values[1] = add_vector(graph, "b", true);
  values[2] = add_vector(graph, "c", false);
  for (int i = 0; i < kNodes; i++) {
    char name[16];
    size_t op = below(sizeof kOps / sizeof *kOps);
    snprintf(name, sizeof name, "%s%d", strcmp(kOps[op].op, "test.Halve") == 0 ? "h" : "n", i);
    uint32_t recent = i < 6 ? 0 : (uint32_t)i - 6; /* keeps products small */
    braid_value_id inputs[2] = {values[recent + below((uint32_t)i + 3 - recent)], values[below(3)]};
    OK(braid_graph_add_node(graph, kOps[op].op, name, inputs, kOps[op].inputs, &values[i + 3], 1, NULL));
  }
  for (int i = kNodes - 4; i < kNodes; i++) OK(braid_graph_add_output(graph, values[i + 3]));
  return graph;
}

static void random_places(char *text, size_t bytes, uint32_t devices) {
  size_t used = 0;
  for (int i = 0; i < kNodes; i++)
    if (below(2)) used += (size_t)snprintf(text + used, bytes - used, "n%d=%u ", i, below(devices));
}

/* --- sessions ------------------------------------------------------------------------------------------------------
 */
static _Alignas(64) float inputs[2][kCount + 1], expected[4][kCount], got[4][kCount + 1];

static void run(braid_session *session, float *const *outputs) {
  const void *in[2] = {inputs[0], inputs[1]};
  void *out[4] = {outputs[0], outputs[1], outputs[2], outputs[3]};
  OK(braid_session_run(session, in, out));
}

static void run_on(const braid_graph *graph, const braid_session_options *options) {
  braid_session *session;
  OK(braid_session_create(graph, options, &session));
  for (int r = 0; r < kRuns; r++) {
    int shift = r == 1; /* memory that the driver cannot use where it is */
    float *outputs[4] = {got[0] + shift, got[1] + shift, got[2] + shift, got[3] + shift};
    memset(got, 0xff, sizeof got);
    run(session, outputs);
    for (int o = 0; o < 4; o++)
      for (int i = 0; i < kCount; i++)
        if (outputs[o][i] != expected[o][i])
          fail_msg("%s, placed %s: output %d[%d] is %g, not %g", options->devices, options->place, o, i, outputs[o][i],
                   expected[o][i]);
  }
  braid_session_destroy(session);
}

static void test_placements(void **unused) {
  (void)unused;
  need_device();
  static const struct {
    const char *devices;
    uint32_t count;
  } kMachines[] = {
      {"opencl0 cpu", 2},
      {"cpu opencl0", 2},
      {"opencl0:memory=separate cpu", 2},
      {"opencl0.0:parts=2 opencl0.1:parts=2 cpu", 3},
      {"opencl0.0:parts=2,memory=separate opencl0.1:parts=2,memory=separate cpu", 3},
      {"opencl0.0:parts=2,memory=separate opencl0.1:parts=2,memory=separate cpu:memory=separate", 3},
      {"opencl0:deadline_ms=60000 cpu", 2},
  };
  print_message("seed %u\n", state);
  for (int g = 0; g < kGraphs; g++) {
    braid_graph *graph = random_graph();
    for (int i = 0; i < 2 * kCount; i++) inputs[i % 2][i / 2] = (float)((int)below(33) - 16) / 8;
    braid_session *session;
    float *outputs[4] = {expected[0], expected[1], expected[2], expected[3]};
    OK(braid_session_create(graph, &(braid_session_options){.threads = 1, .no_fusion = true}, &session));
    run(session, outputs);
    braid_session_destroy(session);
    for (size_t m = 0; m < sizeof kMachines / sizeof *kMachines; m++) {
      char places[kNodes * 8] = "";
      random_places(places, sizeof places, kMachines[m].count);
      run_on(graph, &(braid_session_options){.registry = shared, .devices = kMachines[m].devices, .no_fusion = true});
      run_on(graph, &(braid_session_options){.registry = shared,
                                             .devices = kMachines[m].devices,
                                             .place = places,
                                             .loose_place = true, /* some nodes are gone, or are no n */
                                             .no_fusion = true});
    }
    braid_graph_destroy(graph);
  }
}

/* --- a model -------------------------------------------------------------------------------------------------------
 */
enum { kPixels = 3 * 32 * 32, kClasses = 10 };

static void run_model(const braid_graph *graph, const char *devices, const char *place, float *out) {
  static _Alignas(64) float picture[kPixels];
  braid_session *session;
  OK(braid_session_create(graph, &(braid_session_options){.registry = shared, .devices = devices, .place = place},
                          &session));
  for (int i = 0; i < kPixels; i++) picture[i] = (float)((i * 37) % 255) / 255;
  for (int r = 0; r < 2; r++) OK(braid_session_run(session, (const void *[]){picture}, (void *[]){out}));
  braid_session_destroy(session);
}

/* Convolutions in the layouts that each device likes, branches on different ones. */
static void test_model(void **unused) {
  (void)unused;
  need_device();
  static const struct {
    const char *devices, *place;
  } kMachines[] = {{"opencl0 cpu", NULL},
                   {"cpu opencl0", "*_shortcut*=1 1?_*=1"},
                   {"opencl0 cpu", "*_shortcut*=1 1?_*=1"},
                   {"opencl0:memory=separate cpu", "*_shortcut*=1 1?_*=1"},
                   {"cpu opencl0:memory=separate", "auto"},
                   {"opencl0.0:parts=2,memory=separate opencl0.1:parts=2,memory=separate cpu", "*_shortcut*=1 1?_*=2"}};
  braid_graph *graph;
  float reference[kClasses], result[kClasses];
  OK(braid_model_load(NULL, BRAID_TEST_DATA "/../../models/resnet20.cfg", NULL, &graph));
  run_model(graph, "cpu", NULL, reference);
  for (size_t m = 0; m < sizeof kMachines / sizeof *kMachines; m++) {
    run_model(graph, kMachines[m].devices, kMachines[m].place, result);
    for (int i = 0; i < kClasses; i++)
      if (!(fabsf(result[i] - reference[i]) <= 1e-4f))
        fail_msg("%s: class %d is %g, not %g", kMachines[m].devices, i, result[i], reference[i]);
  }
  braid_graph_destroy(graph);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* a -> Relu (first device) -> Neg (second) -> Halve (CPU). */
static braid_graph *chain(void) {
  static const char *const kOps[] = {"Relu", "Neg", "test.Halve"};
  braid_graph *graph;
  OK(braid_graph_create(NULL, "chain", &graph));
  braid_value_id value = add_vector(graph, "a", true);
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    OK(braid_graph_add_node(graph, kOps[i], name, &value, 1, &value, 1, NULL));
  }
  OK(braid_graph_add_output(graph, value));
  return graph;
}

static size_t copies_of(const char *devices) {
  braid_graph *graph = chain();
  braid_session *session;
  OK(braid_session_create(
      graph, &(braid_session_options){.registry = shared, .devices = devices, .place = "n0=0 n1=1", .no_fusion = true},
      &session));
  size_t copies = braid_session_get_stats(session).conversions;
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return copies;
}

static bool is_unified(void) {
  braid_device *device;
  OK(braid_device_open(shared, "opencl0", &device));
  bool unified = braid_device_get_info(device)->memory == BRAID_MEMORY_UNIFIED;
  braid_device_close(device);
  return unified;
}

/* Memory shared with the host: nothing is copied. */
static void test_no_copies(void **unused) {
  (void)unused;
  need_device();
  if (!is_unified()) skip_test("device", "opencl0 has memory of its own");
  assert_int_equal(copies_of("opencl0 opencl0 cpu"), 0);
  assert_int_equal(copies_of("opencl0.0:parts=2 opencl0.1:parts=2 cpu"), 0);
}

/* Parts of a card: what goes from one to the other does not pass by the host. */
static void test_copies(void **unused) {
  (void)unused;
  need_device();
  assert_int_equal(copies_of("opencl0:memory=separate opencl0:memory=separate cpu"), 3);
  assert_int_equal(copies_of("opencl0.0:parts=2,memory=separate opencl0.1:parts=2,memory=separate cpu"), 3);
  assert_int_equal(copies_of("opencl0:memory=separate opencl0:arena=1048576 cpu"), 4); /* two contexts: by the host */
}

/* A card that is full: which tensor, how much was asked for, what is left; another session then fits. */
static void test_full(void **unused) {
  (void)unused;
  need_device();
  braid_graph *graph = chain();
  braid_session *session;
  braid_session_options options = {.registry = shared, .devices = "opencl0:arena=4096 cpu", .no_fusion = true};
  assert_int_equal(braid_session_create(graph, &options, &session), BRAID_NO_MEMORY);
  const char *detail = braid_error_detail();
  if (!strstr(detail, "opencl0") || !strstr(detail, "the largest of them") || !strstr(detail, "bytes requested") ||
      !strstr(detail, "4096 free, the largest range has 4096"))
    fail_msg("the message is: %s", detail);
  options.devices = "opencl0:arena=65536 cpu";
  OK(braid_session_create(graph, &options, &session));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_placements), cmocka_unit_test(test_model), cmocka_unit_test(test_no_copies),
      cmocka_unit_test(test_copies),     cmocka_unit_test(test_full),
  };
  if (braid_custom_op_register(&kHalve) != BRAID_OK) return 1;
  shared = open_test_registry(NULL, NULL);
  int failed = shared ? skip_run_group_tests(tests, NULL, NULL) : 1;
  braid_registry_destroy(shared);
  return failed;
}
