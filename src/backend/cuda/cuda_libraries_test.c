/* Kernels that are those of CUDA's libraries, by libraries that pass for them (tests/libraries/cudalibraries.c): what
 * is taken and refused, a step that is made of them and its graphs, memory that training pins, and cards of several
 * processes that are joined by NCCL. */
#include "backend/cuda/cuda_children.h"

#include <string.h>

#include "backend/cuda/device.h"
#include "backend/opencl/test_node.h"
#include "braid/model.h"
#include "device/group/thread_group.h"
#include "runtime/surface/session.h"
#include "skip.h"
#include "train/step.h"
#include "train/trainer.h"

/* --- cuBLASLt and cuDNN --------------------------------------------------------------------------------------------
 */
static braid_operand operand(int rank, const int64_t *dims) {
  braid_operand out = {.present = true, .desc = {.dtype = BRAID_F32, .rank = rank}};
  memcpy(out.desc.dims, dims, (size_t)rank * sizeof *dims);
  return out;
}

/* Does the kernel of this name take the node? The last operand is its output. */
static bool takes(braid_device *device, const char *name, const char *op, const braid_operand *operands, size_t count,
                  char why[256]) {
  static const struct braid_attrs kNoAttributes;
  const braid_backend *backend = braid_device_backend(device);
  void *self = braid_device_self(device);
  size_t kernels;
  const braid_kernel *const *list = backend->kernels(self, &kernels);
  const braid_node_desc node = {.op = op,
                                .name = "test",
                                .attrs = &kNoAttributes,
                                .input_count = count - 1,
                                .output_count = 1,
                                .inputs = operands,
                                .outputs = &operands[count - 1]};
  snprintf(why, 256, "there is no %s", name);
  for (size_t i = 0; i < kernels; i++)
    if (strstr(list[i]->name, name) && strcmp(list[i]->op, op) == 0)
      return (!list[i]->match || list[i]->match(&node, why, 256)) && backend->match(self, list[i], &node, why, 256);
  return false;
}

static const int64_t kSquare[] = {4, 4}, kMaps[] = {8, 4, 8, 8}, kPoints[] = {4, 4, 1, 1}, kRow[] = {4},
                     kWide[] = {8, 1, 4096, 4096}, kMany[] = {64, 1, 1, 1}, kHuge[] = {8, 64, 4096, 4096};

static bool preload_libraries(void) {
  return preload("cudalibraries_blas.so") && preload("cudalibraries_dnn.so");
}

/* Products and convolutions are taken, but not operands that cuDNN cannot count. */
static int uses_libraries(void) {
  const braid_operand product[] = {operand(2, kSquare), operand(2, kSquare), operand(2, kSquare)};
  const braid_operand fused[] = {operand(4, kMaps), operand(4, kPoints), operand(1, kRow), operand(4, kMaps)};
  const braid_operand huge[] = {operand(4, kWide), operand(4, kMany), operand(4, kHuge)};
  char why[256];
  braid_registry *registry;
  braid_device *device;
  EXPECT(preload_libraries());
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_OK);
  EXPECT(strstr(braid_device_get_info(device)->software, ", cuBLASLt 13.0, cuDNN 9.19"));
  EXPECT(takes(device, "cublas", "MatMul", product, 3, why));
  EXPECT(takes(device, "cudnn", "FusedConv", fused, 4, why));
  EXPECT(!takes(device, "cudnn", "Conv", huge, 3, why) && strstr(why, "more than 2^30 elements"));
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

/* What a library has no algorithm for, or none that is modest, is refused before anything is prepared. */
static int lacks_algorithms(void) {
  const braid_operand product[] = {operand(2, kSquare), operand(2, kSquare), operand(2, kSquare)};
  const braid_operand fused[] = {operand(4, kMaps), operand(4, kPoints), operand(1, kRow), operand(4, kMaps)};
  char why[256];
  braid_registry *registry;
  braid_device *device;
  setenv("FAKE_CUDNN_WORKSPACE", "4294967296", 1);
  setenv("FAKE_CUBLASLT_VERSION", "12103", 1);
  setenv("FAKE_CUDNN_VERSION", "8907", 1);
  EXPECT(preload_libraries());
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_OK);
  EXPECT(strstr(braid_device_get_info(device)->software, ", cuBLASLt 11.11, cuDNN 8.9"));
  EXPECT(!takes(device, "cublas", "MatMul", product, 3, why) && strstr(why, "no way to compute the product"));
  EXPECT(!takes(device, "cudnn", "FusedConv", fused, 4, why) && strstr(why, "4294967296 bytes"));
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

/* A training step in bfloat16: every convolution and product is a library's but for the first layer's, images stay
 * channels last between them, and casts are those of the samples and of the scores. */
static int trains_in_halves(void) {
  braid_registry *registry;
  braid_graph *model, *step;
  braid_session *session;
  braid_train_options options;
  size_t libraries = 0, few = 0, conversions = 0, casts = 0, widened = 0, on_cpu = 0;
  EXPECT(preload_libraries());
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_model_load(NULL, BRAID_MODELS "/glyphs.cfg", NULL, &model) == BRAID_OK);
  braid_train_options_init(&options);
  options.batch = 16;
  options.precision = BRAID_BFLOAT16;
  EXPECT(braid_step_graph_alone(model, &options, &step) == BRAID_OK);
  braid_session_options on = {.devices = "cuda0 cpu", .training = true, .registry = registry};
  EXPECT(braid_session_create(step, &on, &session) == BRAID_OK);
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    libraries += !strncmp(line.kernel, "cudnn_", 6) || !strncmp(line.kernel, "cublas_", 7);
    few += strstr(line.kernel, "few_channels") != NULL;
    conversions += !strcmp(line.op, "LayoutConvert");
    casts += !strcmp(line.op, "Cast");
    widened += strstr(line.kernel, "wide_") != NULL;
    on_cpu += strncmp(line.device, "cuda", 4) != 0 && line.kernel[0];
  }
  EXPECT(libraries == 12 && few == 2 && !on_cpu);
  EXPECT(conversions == 1 && casts == 2); /* of samples, and of scores */
  EXPECT(widened == 1);                   /* the gradient of the last bias, a few numbers */
  braid_session_destroy(session);
  braid_graph_destroy(step);
  braid_graph_destroy(model);
  braid_registry_destroy(registry);
  return 0;
}

/* Samples, numbers, scores and the copy of the state lie in pinned memory: no function of the host holds up the stream,
 * and the copy is what sessions give by name. */
static int trains_pinned(void) {
  braid_registry *registry;
  braid_graph *model;
  braid_dataset *data;
  braid_trainer *trainer;
  braid_train_options options;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_model_load(NULL, BRAID_MODELS "/glyphs.cfg", NULL, &model) == BRAID_OK);
  EXPECT(braid_dataset_open(NULL, "builtin:glyphs,limit=128", "train", &data) == BRAID_OK);
  braid_train_options_init(&options);
  options.batch = 32;
  options.devices = "cuda0 cpu";
  options.registry = registry;
  EXPECT(braid_trainer_create(model, data, NULL, &options, &trainer) == BRAID_OK);
  long before = host_calls();
  for (int i = 0; i < 3; i++) EXPECT(braid_trainer_run_step(trainer, 0.01) == BRAID_OK);
  EXPECT(braid_state_copy_take(trainer) == BRAID_OK);
  EXPECT(host_calls() == before);
  for (size_t i = 0; i < trainer->state_copy.count; i++) {
    const braid_value *value = trainer->state_copy.items[i].value;
    braid_tensor *read, *copied;
    EXPECT(braid_tensor_create(NULL, &value->desc, &read) == BRAID_OK);
    EXPECT(braid_session_read(trainer->session, value->name, read) == BRAID_OK);
    EXPECT(braid_state_copy_tensor(NULL, &trainer->state_copy, i, &copied) == BRAID_OK);
    EXPECT(!memcmp(braid_tensor_const_data(copied), braid_tensor_const_data(read), braid_desc_bytes(&value->desc)));
    braid_tensor_release(copied);
    braid_tensor_release(read);
  }
  EXPECT(host_calls() > before); /* what a session gives by name goes through other memory */
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(model);
  braid_registry_destroy(registry);
  return 0;
}

/* --- graphs of a training step -------------------------------------------------------------------------------------
 * Up to the last kernel of those that make the loss and the scores, which go to the host while the second graph runs.
 * Nothing else of a step is waited for in between, so all of it is handed to the driver at once, before any of it has
 * ended. */
static braid_precision step_precision;

static int submits_held_step(braid_trainer *trainer) {
  const void *inputs[BRAID_STEP_MOST_INPUTS] = {trainer->batch.images, trainer->batch.targets};
  void *outputs[BRAID_STEP_OUTPUTS] = {&trainer->room->loss, trainer->scores};
  braid_execution *execution = trainer->session->execution;
  braid_step_bind(&trainer->options, &trainer->room->numbers, inputs);
  long before = graph_launches();
  hold_streams();
  EXPECT(braid_execution_submit(execution, inputs, outputs, NULL, NULL) == BRAID_OK);
  EXPECT(graph_launches() == before + 2);
  EXPECT(braid_execution_wait(execution, 0) == BRAID_TIMEOUT);
  go_on();
  EXPECT(braid_execution_wait(execution, -1) == BRAID_OK);
  return 0;
}

/* Have the calls of both libraries since the last time, as many each or more, run in their order? */
static int expect_order(int least) {
  static const char *const kNames[] = {"cudalibraries_blas.so", "cudalibraries_dnn.so"};
  for (size_t i = 0; i < 2; i++) {
    void *library = preload(kNames[i]);
    int (*calls)(void), (*in_order)(void);
    void (*reset)(void);
    EXPECT(library && braid_library_find(library, "fake_library_calls", &calls, sizeof calls));
    EXPECT(braid_library_find(library, "fake_library_in_order", &in_order, sizeof in_order));
    EXPECT(braid_library_find(library, "fake_library_reset", &reset, sizeof reset));
    EXPECT(calls() >= least && in_order());
    reset();
  }
  return 0;
}

static int trains_in_two_graphs(void) {
  enum { kTimed = 16, kSteps = 3 };
  const double kRate = 0.0078125; /* a power of two, which integers want */
  braid_registry *registry;
  braid_graph *model;
  braid_dataset *data;
  braid_trainer *trainer;
  braid_train_options options;
  double loss;
  EXPECT(preload_libraries());
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_model_load(NULL, BRAID_MODELS "/glyphs.cfg", NULL, &model) == BRAID_OK);
  EXPECT(braid_dataset_open(NULL, "builtin:glyphs,limit=512", "train", &data) == BRAID_OK);
  braid_train_options_init(&options);
  options.batch = 16;
  options.precision = step_precision;
  options.learning_rate = kRate;
  options.draw_weights = step_precision == BRAID_INT8;
  options.devices = "cuda0";
  options.registry = registry;
  EXPECT(braid_trainer_create(model, data, NULL, &options, &trainer) == BRAID_OK);
  /* The first steps are timed, task by task, and the next one is captured. */
  for (int i = 0; i < kTimed; i++) EXPECT(braid_trainer_step(trainer, kRate, &loss) == BRAID_OK);
  EXPECT(graph_launches() == 0);
  EXPECT(expect_order(0) == 0);
  EXPECT(braid_trainer_step(trainer, kRate, &loss) == BRAID_OK);
  EXPECT(expect_order(step_precision == BRAID_BFLOAT16 ? 3 : 0) == 0);
  long graphs = graph_launches(), kernels = kernel_launches();
  for (int i = 0; i < kSteps; i++) EXPECT(braid_trainer_step(trainer, kRate, &loss) == BRAID_OK);
  EXPECT(graph_launches() == graphs + 2 * kSteps && kernel_launches() == kernels); /* no kernel is alone */
  EXPECT(submits_held_step(trainer) == 0);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(model);
  braid_registry_destroy(registry);
  return 0;
}

/* --- several processes, which are threads here ---------------------------------------------------------------------
 */
static const char *const *cards_of_members; /* the device of each */
static const char *expected_why;            /* "": they join */

static int reduces_over_cards(braid_group *group, void *context) {
  const braid_operand sums[] = {operand(1, kRow), operand(1, kRow)};
  char why[256];
  braid_registry *registry;
  braid_device *device;
  (void)context;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  braid_registry_set_group(registry, group);
  EXPECT(braid_device_open(registry, cards_of_members[braid_group_rank(group)], &device) == BRAID_OK);
  for (int again = 0; again < 2; again++) {
    bool taken = takes(device, "nccl", "AllReduce", sums, 2, why);
    EXPECT(taken == !expected_why[0]);
    EXPECT(taken || strstr(why, expected_why));
  }
  EXPECT(braid_group_barrier(group) == BRAID_OK);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

static int joins(const char *const *cards, const char *why) {
  cards_of_members = cards;
  expected_why = why;
  return thread_world_run(2, reduces_over_cards, NULL);
}

static int has_no_library(void) {
  static const char *const kOwn[] = {"cuda0", "cuda1"};
  if (dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) return 0; /* it is installed here */
  return joins(kOwn, "there is no libnccl.so.2");
}

static int has_own_cards(void) {
  static const char *const kOwn[] = {"cuda0", "cuda1"}, *const kSame[] = {"cuda1", "cuda1"};
  EXPECT(preload("cudalibraries_nccl.so"));
  EXPECT(joins(kOwn, "") == 0);
  EXPECT(joins(kSame, "processes 0 and 1 have the same card") == 0);
  return 0;
}

/* What one process alone meets is the end of it for all. */
static int fails_in_one(void) {
  static const char *const kOwn[] = {"cuda0", "cuda1"};
  EXPECT(preload("cudalibraries_nccl.so"));
  setenv("FAKE_NCCL_FAIL", "1", 1);
  EXPECT(joins(kOwn, "NCCL") == 0);
  setenv("FAKE_NCCL_NAMELESS", "1", 1);
  EXPECT(joins(kOwn, "NCCL") == 0);
  return 0;
}

static int has_failed_before(braid_group *group, void *context) {
  const braid_operand sums[] = {operand(1, kRow), operand(1, kRow)};
  char why[256];
  braid_registry *registry;
  braid_device *device;
  (void)context;
  if (braid_group_rank(group))
    return braid_group_agree(group, braid_fail(BRAID_IO, "no such file")) == BRAID_IO ? 0 : __LINE__;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  braid_registry_set_group(registry, group);
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_OK);
  EXPECT(!takes(device, "nccl", "AllReduce", sums, 2, why) && strstr(why, "process 1: no such file"));
  EXPECT(braid_group_agree(group, BRAID_OK) == BRAID_IO);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

static int hears_of_failures(void) {
  EXPECT(preload("cudalibraries_nccl.so"));
  return thread_world_run(2, has_failed_before, NULL);
}

static void test_processes(void **state) {
  (void)state;
  in_child(has_no_library, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
  in_child(has_own_cards, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
  in_child(fails_in_one, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
  in_child(hears_of_failures, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
}

/* --- few channels in 16 bits ---------------------------------------------------------------------------------------
 */
typedef struct few_form {
  const char *options;
  braid_dtype dtype;
  int64_t channels, filters;
  bool library, own;   /* whose kernel takes it */
  const char *refused; /* a part of what the own one says otherwise, or cuDNN's */
} few_form;

static int few_try(const few_form *form, const char *op) {
  const int64_t x[] = {8, form->channels, 8, 8}, w[] = {form->filters, form->channels, 1, 1},
                y[] = {8, form->filters, 8, 8};
  braid_operand operands[] = {operand(4, x), operand(4, w), operand(4, y)};
  char why[256], own[256], spec[64] = "cuda0";
  braid_registry *registry;
  braid_device *device;
  for (int i = 0; i < 3; i++) operands[i].desc.dtype = form->dtype;
  if (form->options) snprintf(spec, sizeof spec, "cuda0:%s", form->options);
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_device_open(registry, spec, &device) == BRAID_OK);
  EXPECT(takes(device, "cudnn", op, operands, 3, why) == form->library);
  EXPECT(form->library || strstr(why, "few channels in 16 bits"));
  EXPECT(takes(device, "few_channels", op, operands, 3, own) == form->own);
  EXPECT(form->own || strstr(own, form->refused));
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

/* cuDNN leaves them to own kernels where these are, unless all of its own are asked for. */
static int leaves_few_channels(void) {
  static const few_form kFew[] = {
      {NULL, BRAID_BF16, 3, 128, false, true, NULL},
      {NULL, BRAID_F16, 4, 8, false, true, NULL},
      {"libraries=all", BRAID_BF16, 3, 128, true, true, NULL},
      {"tensor=off", BRAID_BF16, 3, 128, true, false, "tensor=off"},
      {"tensor=mma", BRAID_BF16, 3, 128, false, true, NULL},
      {NULL, BRAID_F32, 3, 128, true, false, "16 bits"},
      {NULL, BRAID_BF16, 5, 128, true, false, "at most 4 channels"},
      {NULL, BRAID_BF16, 3, 12, true, false, "12 filters"},
  };
  EXPECT(preload_libraries());
  for (size_t i = 0; i < sizeof kFew / sizeof *kFew; i++) {
    EXPECT(few_try(&kFew[i], "Conv") == 0);
    EXPECT(few_try(&kFew[i], "FusedConv") == 0);
  }
  return 0;
}

static void test_libraries(void **state) {
  (void)state;
  in_child(uses_libraries, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(trains_in_halves, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(leaves_few_channels, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(lacks_algorithms, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUBLASLT_COUNT", "0");
}

static void test_pinned(void **state) {
  (void)state;
  in_child(trains_pinned, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
}

static void test_graphs(void **state) {
  static const braid_precision kPrecisions[] = {BRAID_FLOAT32, BRAID_BFLOAT16, BRAID_INT8};
  (void)state;
  for (size_t i = 0; i < sizeof kPrecisions / sizeof *kPrecisions; i++) {
    step_precision = kPrecisions[i];
    in_child(trains_in_two_graphs, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_libraries), cmocka_unit_test(test_pinned),
                                     cmocka_unit_test(test_graphs), cmocka_unit_test(test_processes)};
  return skip_run_group_tests(tests, NULL, NULL);
}
