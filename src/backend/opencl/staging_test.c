/* Constants that kernels of somebody else take in another order, size or type: packed on the host, once, they are what
 * the device's copying kernel makes of the same operand as an input, bit for bit; and runs copy nothing of them. */
#include "manifest_check.h"
#include "registry.h"
#include "runtime/machine.h"

/* --- a driver in front of the driver, that counts ------------------------------------------------------------------
 */
static const braid_cl_api *real;
static braid_cl_api front;
static size_t kernels, writes, written_bytes, reads, copies;

static cl_int CL_API_CALL count_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                       const size_t *offset, const size_t *global, const size_t *local,
                                       cl_uint wait_count, const cl_event *waits, cl_event *event) {
  kernels++;
  return real->EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, wait_count, waits, event);
}

static cl_int CL_API_CALL count_write(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                      size_t bytes, const void *host, cl_uint wait_count, const cl_event *waits,
                                      cl_event *event) {
  writes++;
  written_bytes += bytes;
  return real->EnqueueWriteBuffer(queue, memory, blocking, offset, bytes, host, wait_count, waits, event);
}

static cl_int CL_API_CALL count_read(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset,
                                     size_t bytes, void *host, cl_uint wait_count, const cl_event *waits,
                                     cl_event *event) {
  reads++;
  return real->EnqueueReadBuffer(queue, memory, blocking, offset, bytes, host, wait_count, waits, event);
}

static cl_int CL_API_CALL count_copy(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                     size_t to_offset, size_t bytes, cl_uint wait_count, const cl_event *waits,
                                     cl_event *event) {
  copies++;
  return real->EnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, wait_count, waits, event);
}

static void put_in_front(const braid_machine *machine) {
  braid_cl_device *device = machine->devices[0].self;
  real = braid_cl_load();
  front = *real;
  front.EnqueueNDRangeKernel = count_kernel;
  front.EnqueueWriteBuffer = count_write;
  front.EnqueueReadBuffer = count_read;
  front.EnqueueCopyBuffer = count_copy;
  device->cl = &front;
}

/* --- forms ---------------------------------------------------------------------------------------------------------
 */
/* The bits of the first n elements of c, then those of all of `plain`, then zeros. */
static const char kText[] =
    "typedef T element;\n"
    "typedef uint word;\n"
    "__kernel void show(__global const element *c, __global const float *x, __global word *y, int n) {\n"
    "  int i = get_global_id(0);\n"
    "  y[i] = i < n ? (word)c[i] : 0;\n"
    "}\n"
    "__kernel void show_both(__global const element *c, __global const word *plain, __global word *y, int n) {\n"
    "  int i = get_global_id(0);\n"
    "  y[i] = i < n ? (word)c[i] : i < n + 30 ? plain[i - n] : 0;\n"
    "}\n";

enum { kFilters = 3, kRows = 5, kColumns = 2, kCount = kFilters * kRows * kColumns, kBatch = 16 };

typedef struct form {
  const char *type, *takes; /* of the kernel's elements; the argument's keys behind "in: 1" */
  int count;                /* of the piece */
  const char *function, *second;
  const char *repeat;
  bool stays; /* it is copied in every run: elements of it are taken in turns */
} form;

#define FORM(type, takes, count)                                                                                       \
  { type, takes, count, "show", "in: 0", "'1'", false }

static const form kForms[] = {
    FORM("uint", "order: [2, 0, 1]", kCount),
    FORM("uint", "order: [0/4, '1', '2', 0%4]", 40),
    FORM("uint", "order: ['1', 0/2, '2', 0%2], shape: ['6', '3', '2', '2']", 72),
    FORM("uint", "shape: ['4', '6', '3']", 72),
    FORM("char", "as: int8, frac: '3'", kCount),
    FORM("uchar", "as: uint8, frac: '-1', order: [2/2, 0, 1, 2%2]", kCount),
    FORM("short", "as: int16, frac: '7'", kCount),
    FORM("ushort", "as: uint16, frac: '9'", kCount),
    FORM("int", "as: int32, frac: '24'", kCount),
    FORM("uint", "as: uint32, frac: '28', order: [1, 2, 0]", kCount),
    FORM("ushort", "as: float16, shape: ['3', '5', '4']", 60),
    {"char", "as: int8, frac: '3'", kCount, "show_both", "in: 1", "'1'", false},
    {"short", "as: int16, frac: '2', order: [2, 1, 0]", kCount, "show_both", "in: 1", "'1'", false},
    {"short", "as: int16, item: turn", kRows *kColumns, "show", "in: 0", "'in1[0]'", true},
};

static void write_manifest(const form *f, const char *chain, char path[256]) {
  char text[1024];
  put("show.cl", kText, strlen(kText), path);
  snprintf(text, sizeof text,
           "source: show.cl\nkernels:\n  - {name: show, %s, repeat: %s, launches: [{function: %s, options: -DT=%s, "
           "arguments: [{in: 1, %s}, {%s}, {out: 0}, {int: '%d'}], global: [count(out0)]}]}\n",
           chain, f->repeat, f->function, f->type, f->takes, f->second, f->count);
  put("show.yaml", text, strlen(text), path);
}

static void make_values(float c[kCount]) {
  static const float kSpecial[] = {INFINITY, -INFINITY, -0.0f,    0.5f,    1.5f,     2.5f,   -0.5f,    -2.5f,
                                   3e38f,    -3e38f,    15.9375f, 15.94f,  -16,      -16.1f, 65519.9f, 65520,
                                   1e-7f,    -3e-8f,    NAN,      0.0625f, 0.03125f, 7.5e7f};
  float *random = random_data(&(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {kCount}}, 3);
  for (int i = 0; i < kCount; i++) c[i] = i < (int)(sizeof kSpecial / sizeof *kSpecial) ? kSpecial[i] : 20 * random[i];
  free(random);
}

/* y = x + c, the node "n"; c is a constant or an input. */
static braid_graph *make_sum(const float c[kCount], bool constant, bool activated) {
  braid_graph *graph;
  braid_tensor *tensor;
  braid_desc desc;
  braid_value_id inputs[2], y;
  static const int64_t kDims[] = {kBatch, kFilters, kRows, kColumns};
  OK(braid_graph_create(NULL, "sum", &graph));
  inputs[0] = random_input(graph, 4, kDims);
  if (constant) {
    OK(braid_desc_init(&desc, BRAID_F32, 3, kDims + 1));
    OK(braid_tensor_create(NULL, &desc, &tensor));
    memcpy(braid_tensor_data(tensor), c, kCount * sizeof *c);
    OK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &inputs[1]));
    braid_tensor_release(tensor);
  } else {
    inputs[1] = random_input(graph, 3, kDims + 1);
  }
  OK(braid_graph_add_node(graph, "Add", "n", inputs, 2, &y, 1, NULL));
  if (activated) OK(braid_graph_add_node(graph, "Relu", "relu", &y, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

static braid_registry *registry;

/* Runs it twice; what is counted is of the second run. */
static void run_twice(const char *spec, const braid_graph *graph, const float *c, uint32_t y[kBatch * kCount]) {
  braid_machine *machine;
  braid_plan *plan;
  braid_execution *execution;
  float *x = random_data(&(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {kBatch * kCount}}, 1);
  OK(braid_machine_create(NULL, &(braid_machine_options){.devices = spec, .registry = registry}, &machine));
  put_in_front(machine);
  OK(braid_plan_create(machine, graph, NULL, &plan));
  bool foreign = false;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++)
    foreign = foreign || strcmp(braid_plan_get_line(plan, i).kernel, "show") == 0;
  assert_true(foreign);
  OK(braid_execution_create(plan, NULL, &execution));
  for (int run = 0; run < 2; run++) {
    kernels = writes = written_bytes = reads = copies = 0;
    memset(y, 0xff, kBatch * kCount * sizeof *y);
    OK(braid_execution_run(execution, (const void *[]){x, c}, (void *[]){y}));
  }
  free(x);
  braid_execution_destroy(execution);
  braid_plan_release(plan);
  braid_machine_release(machine);
}

/* Which of NaN's bits a conversion keeps is the device's own. */
static bool is_half_nan(uint32_t bits) {
  return (bits & 0x7fff) > 0x7c00;
}

static void check_form(const form *f, const char *memory, bool chained) {
  static uint32_t packed[kBatch * kCount], copied[kBatch * kCount];
  char path[256], spec[512];
  float c[kCount];
  bool separate = memory[0], is_half = strstr(f->takes, "float16");
  make_values(c);
  write_manifest(f, chained ? "chain: [Add, Relu]" : "op: Add", path);
  snprintf(spec, sizeof spec, "opencl0:%smanifest=%s", memory, path);
  braid_graph *constant = make_sum(c, true, chained), *input = make_sum(c, false, chained);
  run_twice(spec, input, c, copied);
  assert_int_equal(kernels, f->stays ? 2 * kFilters : 2);
  run_twice(spec, constant, NULL, packed);
  assert_int_equal(kernels, f->stays ? 2 * kFilters : 1);
  if (separate) assert_int_equal(written_bytes, kBatch * kCount * sizeof(float)); /* x */
  assert_int_equal(writes, separate);
  assert_int_equal(reads, separate);
  assert_int_equal(copies, 0);
  for (int i = 0; i < kBatch * kCount; i++)
    if (packed[i] != copied[i] && !(is_half && is_half_nan(packed[i]) && is_half_nan(copied[i])))
      fail_msg("%s, %s: element %d is %#x packed, %#x copied", f->type, f->takes, i, packed[i], copied[i]);
  bool any = false;
  for (int i = 0; i < kBatch * kCount; i++) any = any || packed[i];
  assert_true(any);
  braid_graph_destroy(constant);
  braid_graph_destroy(input);
}

static void test_packed_as_copied(void **state) {
  (void)state;
  need_device();
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; i++) {
    check_form(&kForms[i], "", false);
    check_form(&kForms[i], "memory=separate,", false);
  }
}

static void test_packed_for_chain(void **state) {
  (void)state;
  need_device();
  check_form(&kForms[4], "", true);
  check_form(&kForms[12], "memory=separate,", true);
}

/* A constant of which a launch takes two pieces: the axes of each in order, and its sizes. */
typedef struct pair {
  form form;
  int order[2][3], size[2][3];
} pair;

static const int kSizes[] = {kFilters, kRows, kColumns};

/* Element i of the piece, of which the elements behind the constant's are zeros. */
static uint32_t piece_element(const pair *p, int piece, const float c[kCount], int i) {
  int at[3];
  for (int axis = 2; axis >= 0; i /= p->size[piece][axis--]) at[p->order[piece][axis]] = i % p->size[piece][axis];
  uint32_t bits = 0;
  if (at[0] < kSizes[0] && at[1] < kSizes[1] && at[2] < kSizes[2])
    memcpy(&bits, &c[(at[0] * kRows + at[1]) * kColumns + at[2]], sizeof bits);
  return bits;
}

/* Pieces that differ in one thing alone are two: in order, and in size. */
static void test_two_pieces(void **state) {
  (void)state;
  need_device();
  static const pair kPairs[] = {
      {{"uint", "order: [2, 0, 1], shape: ['5', '5', '5']", 125, "show_both",
        "in: 1, order: [1, 2, 0], shape: ['5', '5', '5']", "'1'", false},
       {{2, 0, 1}, {1, 2, 0}},
       {{5, 5, 5}, {5, 5, 5}}},
      {{"uint", "shape: ['3', '5', '4']", 60, "show_both", "in: 1, shape: ['3', '5', '3']", "'1'", false},
       {{0, 1, 2}, {0, 1, 2}},
       {{3, 5, 4}, {3, 5, 3}}}};
  static uint32_t y[kBatch * kCount];
  char path[256], spec[512];
  float c[kCount];
  make_values(c);
  for (size_t k = 0; k < sizeof kPairs / sizeof *kPairs; k++) {
    const pair *p = &kPairs[k];
    write_manifest(&p->form, "op: Add", path);
    snprintf(spec, sizeof spec, "opencl0:manifest=%s", path);
    for (int constant = 0; constant < 2; constant++) {
      braid_graph *graph = make_sum(c, constant, false);
      run_twice(spec, graph, c, y);
      for (int i = 0; i < p->form.count + kCount; i++)
        assert_int_equal(y[i],
                         i < p->form.count ? piece_element(p, 0, c, i) : piece_element(p, 1, c, i - p->form.count));
      braid_graph_destroy(graph);
    }
  }
}

static int set_up(void **state) {
  registry = open_test_registry(NULL, NULL);
  return registry ? make_folder(state) : -1;
}

static int tear_down(void **state) {
  braid_registry_destroy(registry);
  return remove_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed_as_copied), cmocka_unit_test(test_packed_for_chain),
                                     cmocka_unit_test(test_two_pieces)};
  return skip_run_group_tests(tests, set_up, tear_down);
}
