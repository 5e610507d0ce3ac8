/* Single ops: whether a machine runs them, and calls of them. */
#include <math.h>
#include <stdio.h>

#include "base/try.h"
#include "braid/op.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/execution/execution_fixture.h"
#include "runtime/machine.h"
#include "skip.h"
#include "tensor/deferred.h"

static braid_operand operand(braid_dtype dtype, int rank, const int64_t *dims, const void *constant) {
  braid_operand made = {.present = true, .constant = constant};
  OK(braid_desc_init(&made.desc, dtype, rank, dims));
  return made;
}

static void expect_refusal(braid_status status, braid_status expected, const char *sentence) {
  if (status != expected || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s: %s", braid_status_text(status), braid_error_detail(), braid_status_text(expected),
             sentence);
}

/* --- would you run this op? ----------------------------------------------------------------------------------------
 */
typedef struct answers {
  size_t takes, refuses;
  char first[64]; /* the kernel that takes it first */
} answers;

static void note(void *context, const braid_op_candidate *candidate) {
  answers *a = context;
  if (!candidate->why && !a->takes++)
    snprintf(a->first, sizeof a->first, "%s %s", candidate->device, candidate->kernel);
  if (candidate->why) a->refuses++;
}

static void test_supported(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu cpu:memory=separate");
  answers a = {0};
  braid_desc result;
  const braid_operand inputs[] = {operand(BRAID_F32, 4, (int64_t[]){1, 16, 8, 8}, NULL),
                                  operand(BRAID_F32, 4, (int64_t[]){8, 16, 3, 3}, NULL)};
  braid_op_use use = {.op = "Conv", .inputs = inputs, .input_count = 2};
  OK(braid_machine_supports(machine, &use, note, &a, &result));
  assert_int_equal(result.dims[1], 8);
  assert_int_equal(result.dims[3], 6);
  assert_true(a.takes >= 2); /* on two devices at least */
  assert_memory_equal(a.first, "cpu ", 4);
  size_t both = a.takes;
  a = (answers){0};
  use.device = "cpu#1";
  OK(braid_machine_supports(machine, &use, note, &a, NULL));
  assert_int_equal(2 * a.takes, both);
  assert_memory_equal(a.first, "cpu#1 ", 6);
  /* What it says is what a plan does. */
  const int64_t kPads[] = {1, 1, 1, 1};
  const braid_attr attrs[] = {{.name = "pads", .kind = BRAID_ATTR_INTS, .ints = kPads, .count = 4}};
  use.attrs = attrs;
  use.attr_count = 1;
  OK(braid_machine_supports(machine, &use, NULL, NULL, &result));
  assert_int_equal(result.dims[3], 8);
  braid_machine_release(machine);
}

/* Whoever is told of a kernel may use the machine at once. */
typedef struct trying {
  braid_machine *machine;
  size_t ran;
} trying;

static void try_it(void *context, const braid_op_candidate *candidate) {
  trying *t = context;
  braid_desc desc;
  braid_buffer *in, *out = NULL;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
  OK(braid_buffer_create(t->machine, candidate->device, &desc, &in));
  braid_op_call call = {
      .op = "Relu", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1, .device = candidate->device};
  OK(braid_machine_call(t->machine, &call));
  braid_buffer_release(in);
  braid_buffer_release(out);
  t->ran++;
}

static void test_used_while_asked(void **state) {
  (void)state;
  trying t = {.machine = open_machine("cpu cpu:memory=separate")};
  const braid_operand input = operand(BRAID_F32, 1, (int64_t[]){4}, NULL);
  OK(braid_machine_supports(t.machine, &(braid_op_use){.op = "Relu", .inputs = &input, .input_count = 1}, try_it, &t,
                            NULL));
  assert_true(t.ran >= 2);
  braid_machine_release(t.machine);
}

static void test_contents(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  const int64_t kShape[] = {2, -1};
  braid_operand inputs[] = {operand(BRAID_F32, 1, (int64_t[]){6}, NULL), operand(BRAID_I64, 1, (int64_t[]){2}, NULL)};
  braid_op_use use = {.op = "Reshape", .inputs = inputs, .input_count = 2};
  braid_desc result;
  expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, &result), BRAID_INVALID_GRAPH,
                 "input 1 may have to be given as a constant");
  inputs[1].constant = kShape;
  OK(braid_machine_supports(machine, &use, NULL, NULL, &result));
  assert_int_equal(result.dims[1], 3);
  braid_machine_release(machine);
}

/* No device has a kernel for it, and none is needed: a call computes it, too. */
static void test_folded(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_operand input = operand(BRAID_F32, 3, (int64_t[]){2, 3, 4}, NULL);
  answers a = {0};
  braid_desc result;
  braid_op_use use = {.op = "Shape", .inputs = &input, .input_count = 1};
  OK(braid_machine_supports(machine, &use, note, &a, &result));
  assert_int_equal(a.takes, 0);
  assert_int_equal(result.dtype, BRAID_I64);
  assert_int_equal(result.dims[0], 3);
  use.op = "Size";
  OK(braid_machine_supports(machine, &use, NULL, NULL, &result));
  assert_int_equal(result.rank, 0);
  braid_machine_release(machine);
}

static void test_not_supported(void **state) {
  (void)state;
  braid_machine *machine = open_machine("null");
  answers a = {0};
  braid_operand inputs[] = {operand(BRAID_F32, 1, (int64_t[]){6}, NULL), operand(BRAID_F32, 1, (int64_t[]){5}, NULL)};
  braid_op_use use = {.op = "Relu", .inputs = inputs, .input_count = 1};
  expect_refusal(braid_machine_supports(machine, &use, note, &a, NULL), BRAID_UNSUPPORTED,
                 "no device can run Relu: null");
  assert_int_equal(a.takes, 0);
  use.op = "Rellu";
  assert_int_equal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_NOT_FOUND);
  use.op = "Add";
  use.input_count = 2;
  assert_int_equal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_INVALID_GRAPH);
  use.input_count = 1;
  assert_int_not_equal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_OK);
  use.device = "gpu9";
  expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_NOT_FOUND, "gpu9");
  const braid_attr wrong[] = {{.name = "axis", .kind = (braid_attr_kind)99}};
  use = (braid_op_use){.op = "Relu", .inputs = inputs, .input_count = 1, .attrs = wrong, .attr_count = 1};
  expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT, "attribute 0");
  use = (braid_op_use){.op = "Relu", .inputs = inputs, .input_count = 1};
  inputs[0].desc.layout = ~(braid_layout)0;
  expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT, "layout 0xffff");
  inputs[0].desc.rank = 1000;
  expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_OUT_OF_RANGE, "rank 1000");
  braid_machine_release(machine);
}

/* --- calls ---------------------------------------------------------------------------------------------------------
 */
static braid_buffer *new_buffer(braid_machine *machine, const char *device, int rank, const int64_t *dims,
                                const float *data) {
  braid_desc desc;
  braid_buffer *buffer;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_buffer_create(machine, device, &desc, &buffer));
  if (data) OK(braid_buffer_write(buffer, data, braid_desc_bytes(&desc), -1));
  return buffer;
}

static void relu_on(const char *devices) {
  enum { COUNT = 16 };
  braid_machine *machine = open_machine(devices);
  float x[COUNT], y[COUNT];
  fill(x, COUNT, 3);
  braid_buffer *in = new_buffer(machine, "0", 1, (int64_t[]){COUNT}, x), *out = NULL;
  braid_op_call call = {.op = "Relu", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
  for (int turn = 0; turn < 3; turn++) {
    OK(braid_machine_call(machine, &call)); /* the first makes the output */
    OK(braid_buffer_read(out, y, sizeof y, -1));
    for (int i = 0; i < COUNT; i++) assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
    fill(x, COUNT, 11 + turn);
    OK(braid_buffer_write(in, x, sizeof x, -1));
  }
  assert_string_equal(braid_buffer_device(out), braid_buffer_device(in));
  braid_call_stats stats = braid_machine_call_stats(machine);
  assert_int_equal(stats.kept, 1);
  assert_int_equal(stats.misses, 1);
  assert_int_equal(stats.hits, 2);
  braid_buffer_release(in);
  braid_buffer_release(out);
  assert_int_equal(machine->references, 1); /* what is kept does not keep the machine */
  braid_machine_release(machine);
}

static void test_calls(void **state) {
  (void)state;
  relu_on("cpu");
  relu_on("cpu:memory=separate");
}

/* Of nothing there is nothing to make, however large the other dimensions are. */
static void test_results_of_no_elements(void **state) {
  (void)state;
  const int64_t kShape[] = {0, INT64_C(1) << 40, INT64_C(1) << 40}, kPads[] = {0, 0, 0, 0, INT64_C(1) << 40, 0};
  const float one = 1;
  const braid_operand given[] = {operand(BRAID_F32, 1, (int64_t[]){1}, &one),
                                 operand(BRAID_I64, 1, (int64_t[]){3}, kShape)};
  const braid_operand padded[] = {operand(BRAID_F32, 3, (int64_t[]){0, 1, 1}, NULL),
                                  operand(BRAID_I64, 1, (int64_t[]){6}, kPads)};
  const braid_operand turned[] = {operand(BRAID_F32, 3, kShape, NULL)};
  const braid_op_use uses[] = {{.op = "Expand", .inputs = given, .input_count = 2},
                               {.op = "Pad", .inputs = padded, .input_count = 2},
                               {.op = "Transpose", .inputs = turned, .input_count = 1}};
  braid_machine *machine = open_machine("cpu");
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
    answers a = {0};
    braid_desc result;
    OK(braid_machine_supports(machine, &uses[i], note, &a, &result));
    assert_true(a.takes > 0);
    assert_int_equal(braid_desc_count(&result), 0);
  }
  braid_machine_release(machine);
}

static void test_calls_on_opencl(void **state) {
  (void)state;
  braid_machine *machine;
  if (braid_machine_create(NULL, &(braid_machine_options){.devices = "opencl0"}, &machine) != BRAID_OK)
    skip_test("opencl", "there is no OpenCL device");
  braid_machine_release(machine);
  relu_on("opencl0");
}

/* Attributes, shapes and constants tell calls apart. */
static void test_what_calls_depend_on(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
  braid_desc axes_desc;
  OK(braid_desc_init(&axes_desc, BRAID_I64, 1, (int64_t[]){1}));
  int64_t axis = 0;
  braid_buffer *in = new_buffer(machine, NULL, 2, (int64_t[]){2, 3}, x), *axes, *out = NULL;
  OK(braid_buffer_wrap(machine, &axes_desc, &axis, NULL, NULL, &axes));
  braid_attr keep = {.name = "keepdims", .kind = BRAID_ATTR_INT, .i = 0};
  braid_op_call call = {.op = "ReduceSum",
                        .attrs = &keep,
                        .attr_count = 1,
                        .inputs = (braid_buffer *[]){in, axes},
                        .input_count = 2,
                        .outputs = &out,
                        .output_count = 1};
  expect_refusal(braid_machine_call(machine, &call), BRAID_UNSUPPORTED, "input 1 may have to be given as a constant");
  assert_null(out);
  call.constants = 2;
  OK(braid_machine_call(machine, &call));
  OK(braid_buffer_read(out, y, 12, -1));
  assert_true(y[0] == 5 && y[1] == 7 && y[2] == 9);
  expect_refusal((axis = 1, braid_machine_call(machine, &call)), BRAID_INVALID_ARGUMENT, "the buffer is float32[3]");
  braid_buffer_release(out);
  out = NULL;
  OK(braid_machine_call(machine, &call));
  OK(braid_buffer_read(out, y, 8, -1));
  assert_true(y[0] == 6 && y[1] == 15);
  braid_buffer_release(out);
  out = NULL;
  keep.i = 1;
  OK(braid_machine_call(machine, &call));
  assert_int_equal(braid_buffer_desc(out)->rank, 2);
  assert_int_equal(braid_machine_call_stats(machine).kept, 3);
  braid_buffer_release(out);
  braid_buffer_release(in);
  braid_buffer_release(axes);
  braid_machine_release(machine);
}

/* What an op would pass over is refused. */
static void test_attributes_it_does_not_have(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  const int64_t kTwo[] = {2, 2};
  const braid_operand inputs[] = {operand(BRAID_F32, 4, (int64_t[]){1, 16, 8, 8}, NULL),
                                  operand(BRAID_F32, 4, (int64_t[]){8, 16, 3, 3}, NULL)};
  const struct {
    const char *op;
    size_t inputs;
    braid_attr attr;
    const char *sentence;
  } kWrong[] = {
      {"Conv", 2, {.name = "strides", .kind = BRAID_ATTR_INT, .i = 2}, "strides is an integer, expected integers"},
      {"Conv",
       2,
       {.name = "stride", .kind = BRAID_ATTR_INTS, .ints = kTwo, .count = 2},
       "has no attribute stride (did you mean strides?); there are auto_pad "},
      {"LeakyRelu", 1, {.name = "alpha", .kind = BRAID_ATTR_INT, .i = 2}, "alpha is an integer, expected a number"},
      {"Clip", 1, {.name = "max", .kind = BRAID_ATTR_FLOAT, .f = 2}, "has no attribute max; there are none"},
      {"Cast", 1, {.name = "to", .kind = BRAID_ATTR_STRING, .s = "DOUBLE"}, "to is a string, expected an integer"},
  };
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    const braid_op_use use = {.op = kWrong[i].op,
                              .inputs = inputs,
                              .input_count = kWrong[i].inputs,
                              .attrs = &kWrong[i].attr,
                              .attr_count = 1};
    expect_refusal(braid_machine_supports(machine, &use, NULL, NULL, NULL), BRAID_INVALID_GRAPH, kWrong[i].sentence);
  }
  braid_buffer *x = new_buffer(machine, NULL, 1, kTwo, (float[]){-1, 1}), *y = NULL;
  const braid_op_call call = {.op = "LeakyRelu",
                              .attrs = &kWrong[2].attr,
                              .attr_count = 1,
                              .inputs = &x,
                              .input_count = 1,
                              .outputs = &y,
                              .output_count = 1};
  expect_refusal(braid_machine_call(machine, &call), BRAID_INVALID_GRAPH, kWrong[2].sentence);
  braid_buffer_release(x);
  braid_machine_release(machine);
}

/* A tensor that was an attribute is the caller's again after the call. */
static void test_a_tensor_as_attribute(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu");
  braid_desc desc;
  braid_tensor *value;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){64}));
  for (int turn = 0; turn < 3; turn++) {
    braid_buffer *out = NULL;
    OK(braid_tensor_create(NULL, &desc, &value));
    for (int i = 0; i < 64; i++) ((float *)braid_tensor_data(value))[i] = 1;
    const braid_attr attr = {.name = "value", .kind = BRAID_ATTR_TENSOR, .tensor = value};
    OK(braid_machine_call(
        machine,
        &(braid_op_call){.op = "Constant", .attrs = &attr, .attr_count = 1, .outputs = &out, .output_count = 1}));
    for (int i = 0; i < 64; i++) {
      assert_true(((float *)braid_buffer_host(out))[i] == 1);
      ((float *)braid_tensor_data(value))[i] = 2;
    }
    braid_tensor_release(value);
    braid_buffer_release(out);
  }
  assert_int_equal(braid_machine_call_stats(machine).kept, 1);
  braid_machine_release(machine);
}

static void fill_with(void *context, const void *source, void *data) {
  for (int i = 0; i < 64; i++) ((float *)data)[i] = *(const float *)context + ((const float *)source)[i];
}

/* Calls are told apart by the numbers that a tensor will have, not by where they come from. */
static void test_a_deferred_tensor_as_attribute(void **state) {
  (void)state;
  static float added[] = {1, 2, 1};
  braid_machine *machine = open_machine("cpu");
  braid_desc desc;
  braid_tensor *source, *value;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){64}));
  OK(braid_tensor_create(NULL, &desc, &source));
  memset(braid_tensor_data(source), 0, 64 * sizeof(float));
  for (int turn = 0; turn < 3; turn++) {
    braid_buffer *out = NULL;
    OK(braid_tensor_defer(NULL, &desc, &(braid_deferred){fill_with, NULL, &added[turn], source}, &value));
    const braid_attr attr = {.name = "value", .kind = BRAID_ATTR_TENSOR, .tensor = value};
    OK(braid_machine_call(
        machine,
        &(braid_op_call){.op = "Constant", .attrs = &attr, .attr_count = 1, .outputs = &out, .output_count = 1}));
    assert_true(*(float *)braid_buffer_host(out) == added[turn]);
    braid_tensor_release(value);
    braid_buffer_release(out);
  }
  assert_int_equal(braid_machine_call_stats(machine).kept, 2);
  braid_tensor_release(source);
  braid_machine_release(machine);
}

static void test_calls_that_are_refused(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu"), *other = open_machine("cpu");
  braid_buffer *a = new_buffer(machine, NULL, 1, (int64_t[]){4}, NULL),
               *b = new_buffer(machine, NULL, 1, (int64_t[]){3}, NULL),
               *foreign = new_buffer(other, NULL, 1, (int64_t[]){4}, NULL), *out = NULL;
  braid_op_call call = {
      .op = "Add", .inputs = (braid_buffer *[]){a, b}, .input_count = 2, .outputs = &out, .output_count = 1};
  assert_int_equal(braid_machine_call(machine, &call), BRAID_INVALID_GRAPH);
  call.inputs = (braid_buffer *[]){a, foreign};
  expect_refusal(braid_machine_call(machine, &call), BRAID_INVALID_ARGUMENT, "input 1 is of another machine");
  call.inputs = (braid_buffer *[]){a, a};
  call.outputs = &a;
  expect_refusal(braid_machine_call(machine, &call), BRAID_INVALID_ARGUMENT, "overlaps");
  call.outputs = &out;
  call.op = "NoSuchOp";
  assert_int_equal(braid_machine_call(machine, &call), BRAID_NOT_FOUND);
  call.op = "Add";
  call.device = "7";
  assert_int_equal(braid_machine_call(machine, &call), BRAID_NOT_FOUND);
  call.device = "";
  assert_int_equal(braid_machine_call(machine, &call), BRAID_NOT_FOUND);
  const braid_attr nothing = {
      .name = "names", .kind = BRAID_ATTR_STRINGS, .count = 1, .strings = (const char *[]){NULL}};
  call.attrs = &nothing;
  call.attr_count = 1;
  expect_refusal(braid_machine_call(machine, &call), BRAID_INVALID_ARGUMENT, "no string 0");
  call.attr_count = 0;
  call.output_count = 0;
  expect_refusal(braid_machine_call(machine, &call), BRAID_INVALID_ARGUMENT, "0 outputs");
  assert_null(out);
  assert_int_equal(braid_machine_call_stats(machine).kept, 0 + 1); /* Add of a and a */
  braid_buffer_release(a);
  braid_buffer_release(b);
  braid_buffer_release(foreign);
  braid_machine_release(machine);
  braid_machine_release(other);
}

/* More shapes than are kept: the oldest go, and come back. */
static void test_the_cache_is_bounded(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:threads=1");
  for (int round = 0; round < 2; round++)
    for (int64_t count = 1; count <= 300; count++) {
      float x[300];
      fill(x, (size_t)count, 2);
      braid_buffer *in = new_buffer(machine, NULL, 1, &count, x), *out = NULL;
      braid_op_call call = {.op = "Neg", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
      OK(braid_machine_call(machine, &call));
      assert_true(*(float *)braid_buffer_host(out) == -x[0]);
      braid_buffer_release(in);
      braid_buffer_release(out);
    }
  braid_call_stats stats = braid_machine_call_stats(machine);
  assert_int_equal(stats.kept, 256);
  assert_int_equal(stats.misses, 600);
  assert_int_equal(machine->references, 1);
  braid_machine_release(machine);
}

enum { kThreads = 4, kCalls = 200 };

typedef struct caller {
  pthread_t thread;
  braid_machine *machine;
  int number, wrong;
} caller;

/* Products whose sizes other threads use too, so that they take instances of the same entries. */
static void *call_often(void *context) {
  caller *own = context;
  for (int i = 0; i < kCalls; i++) {
    int64_t n = 4 + i % 7;
    float x[100];
    for (int k = 0; k < n * n; k++) x[k] = (float)(own->number + 1);
    braid_buffer *in = new_buffer(own->machine, NULL, 2, (int64_t[]){n, n}, x), *out = NULL;
    braid_op_call call = {
        .op = "MatMul", .inputs = (braid_buffer *[]){in, in}, .input_count = 2, .outputs = &out, .output_count = 1};
    float expected = (float)n * (float)(own->number + 1) * (float)(own->number + 1);
    if (braid_machine_call(own->machine, &call) != BRAID_OK)
      own->wrong++;
    else
      for (int k = 0; k < n * n; k++) own->wrong += ((float *)braid_buffer_host(out))[k] != expected;
    braid_buffer_release(in);
    braid_buffer_release(out);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  caller callers[kThreads];
  braid_machine *machine = open_machine("cpu:threads=1");
  for (int i = 0; i < kThreads; i++) {
    callers[i] = (caller){.machine = machine, .number = i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < kThreads; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  assert_int_equal(braid_machine_call_stats(machine).kept, 7);
  assert_int_equal(machine->references, 1);
  braid_machine_release(machine);
}

static void test_a_convolution_by_hand(void **state) {
  (void)state;
  static float image[kImage];
  float y[kFilters * kSide * kSide], w[kFilters * kChannels * 9];
  fill(image, kImage, 4);
  fill(w, sizeof w / sizeof *w, 6);
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_buffer *x = new_buffer(machine, NULL, 4, (int64_t[]){1, kChannels, kSide, kSide}, image),
               *filter = new_buffer(machine, NULL, 4, (int64_t[]){kFilters, kChannels, 3, 3}, w), *out = NULL;
  const int64_t kPads[] = {1, 1, 1, 1};
  braid_attr pads = {.name = "pads", .kind = BRAID_ATTR_INTS, .ints = kPads, .count = 4};
  braid_op_call call = {.op = "Conv",
                        .attrs = &pads,
                        .attr_count = 1,
                        .inputs = (braid_buffer *[]){x, filter},
                        .input_count = 2,
                        .outputs = &out,
                        .output_count = 1};
  OK(braid_machine_call(machine, &call));
  OK(braid_buffer_read(out, y, sizeof y, -1));
  for (int f = 0; f < kFilters; f++) /* by hand, in the middle, where no padding is */
    for (int at = 0; at < 2; at++) {
      double sum = 0;
      int row = 3 + at, column = 2 + at;
      for (int c = 0; c < kChannels; c++)
        for (int k = 0; k < 9; k++)
          sum += (double)w[(f * kChannels + c) * 9 + k] *
                 image[(c * kSide + row + k / 3 - 1) * kSide + column + k % 3 - 1];
      assert_true(fabs(sum - (double)y[(f * kSide + row) * kSide + column]) < 1e-3);
    }
  braid_buffer_release(x);
  braid_buffer_release(filter);
  braid_buffer_release(out);
  braid_machine_release(machine);
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_machine *machine;
  float x[4] = {-1, 2, -3, 4};
  braid_buffer *in = NULL, *out = NULL;
  braid_desc desc;
  OK(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4}));
  BRAID_TRY(braid_machine_create(allocator, &(braid_machine_options){.devices = context, .threads = 1}, &machine));
  braid_operand input = {.present = true, .desc = desc};
  braid_op_use use = {.op = "Relu", .inputs = &input, .input_count = 1};
  braid_op_call call = {.op = "Relu", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
  braid_status status = braid_machine_supports(machine, &use, NULL, NULL, NULL);
  if (status == BRAID_OK) status = braid_buffer_wrap(machine, &desc, x, NULL, NULL, &in);
  for (int i = 0; status == BRAID_OK && i < 2; i++) status = braid_machine_call(machine, &call);
  braid_buffer_release(in);
  braid_buffer_release(out);
  braid_machine_release(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  static char kCard[] = "cpu:memory=separate,threads=1", kHost[] = "cpu:threads=1";
  oom_sweep(attempt, kCard);
  oom_sweep(attempt, kHost);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_supported),
      cmocka_unit_test(test_used_while_asked),
      cmocka_unit_test(test_contents),
      cmocka_unit_test(test_folded),
      cmocka_unit_test(test_not_supported),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_results_of_no_elements),
      cmocka_unit_test(test_calls_on_opencl),
      cmocka_unit_test(test_what_calls_depend_on),
      cmocka_unit_test(test_attributes_it_does_not_have),
      cmocka_unit_test(test_a_tensor_as_attribute),
      cmocka_unit_test(test_a_deferred_tensor_as_attribute),
      cmocka_unit_test(test_calls_that_are_refused),
      cmocka_unit_test(test_the_cache_is_bounded),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_a_convolution_by_hand),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
