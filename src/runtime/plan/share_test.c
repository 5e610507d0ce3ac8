/* Results over inputs (share.c): the planner may share memory only between an output and an input whose elements are
 * the same memory one by one. Each graph is run with and without shared memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/custom.h"
#include "braid/session.h"
#include "skip.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kMost = 64 };

/* --- what the tests are made of ------------------------------------------------------------------------------------
 * An op whose result no planner knows anything about: memory of its own, which dies with its last reader. */
static braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status compute_same(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                 const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  memcpy(outputs[0].data, inputs[0].data, braid_desc_bytes(inputs[0].desc));
  return BRAID_OK;
}

static const braid_custom_op kFresh = {"test.Fresh", 1, 1, 1, infer_same, compute_same};

static braid_desc desc_of(braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  OK(braid_desc_init(&desc, dtype, rank, dims));
  return desc;
}

static braid_value_id add_input(braid_graph *graph, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc = desc_of(dtype, rank, dims);
  braid_value_id id;
  OK(braid_graph_add_input(graph, NULL, &desc, &id));
  return id;
}

static braid_value_id add_node(braid_graph *graph, const char *op, size_t count, const braid_value_id *inputs) {
  braid_value_id output = 0;
  OK(braid_graph_add_node(graph, op, NULL, inputs, count, &output, 1, NULL));
  return output;
}

static braid_value_id fresh(braid_graph *graph, braid_value_id value) {
  return add_node(graph, "test.Fresh", 1, &value);
}

static bool has_opencl(void) {
  braid_registry *registry;
  braid_device *device;
  OK(braid_registry_create(NULL, &registry));
  bool there = braid_device_open(registry, "opencl0", &device) == BRAID_OK;
  if (there) braid_device_close(device);
  braid_registry_destroy(registry);
  return there;
}

/* --- padding masks -------------------------------------------------------------------------------------------------
 */
/* positions [1, T] < lengths [N, 1], or the other way round: an operand of N elements of 8 bytes and a result of N * T
 * bytes, which for T = 8 is just as many. Where the operand repeats, a row's result would be written over the lengths
 * of the rows that follow. */
static void check_mask(const char *devices, const char *op, braid_dtype dtype, int64_t rows, int64_t columns,
                       bool lengths_first) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "mask", &graph));
  braid_value_id lengths = add_input(graph, dtype, 2, (int64_t[]){rows, 1});
  braid_value_id positions = add_input(graph, dtype, 2, (int64_t[]){1, columns});
  lengths = fresh(graph, lengths), positions = fresh(graph, positions);
  braid_value_id pair[2] = {lengths_first ? lengths : positions, lengths_first ? positions : lengths};
  braid_value_id mask = add_node(graph, op, 2, pair);
  OK(braid_graph_add_output(graph, mask));
  OK(braid_graph_add_output(graph, fresh(graph, mask))); /* one in the caller's memory, one in the arena */
  int64_t host[2][kMost];
  float host_f32[2][kMost];
  uint8_t got[2][kMost * kMost];
  for (int64_t i = 0; i < kMost; i++) {
    host[0][i] = i * 5 % (columns + 1), host[1][i] = i;
    host_f32[0][i] = (float)host[0][i], host_f32[1][i] = (float)host[1][i];
  }
  braid_session *session;
  OK(braid_session_create(graph, &(braid_session_options){.devices = devices}, &session));
  const void *integers[2] = {host[0], host[1]}, *floats[2] = {host_f32[0], host_f32[1]};
  OK(braid_session_run(session, dtype == BRAID_I64 ? integers : floats, (void *[]){got[0], got[1]}));
  for (int64_t i = 0; i < rows * columns; i++) {
    int64_t length = host[0][i / columns], position = i % columns;
    int64_t a = lengths_first ? length : position, b = lengths_first ? position : length;
    bool expected = strcmp(op, "Less") == 0 ? a < b : strcmp(op, "Equal") == 0 ? a == b : a >= b;
    for (int o = 0; o < 2; o++)
      if (got[o][i] != expected)
        fail_msg("%s: %s, %lld rows of %lld, output %d: element %lld is %d", devices, op, (long long)rows,
                 (long long)columns, o, (long long)i, got[o][i]);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void test_padding_masks(void **state) {
  (void)state;
  static const char *const kOps[] = {"Less", "GreaterOrEqual", "Equal"}, *const kDevices[] = {"cpu",
                                                                                              "cpu:memory=separate"};
  static const int64_t kRows[] = {1, 2, 3, 8, 33};
  for (size_t d = 0; d < 2; d++)
    for (size_t op = 0; op < 3; op++)
      for (size_t r = 0; r < 5; r++)
        for (int64_t columns = 3; columns <= 9; columns++)
          for (int first = 0; first < 2; first++) {
            check_mask(kDevices[d], kOps[op], BRAID_I64, kRows[r], columns, first);
            check_mask(kDevices[d], kOps[op], BRAID_F32, kRows[r], columns, first); /* 4 columns are as many bytes */
          }
}

static void test_padding_masks_opencl(void **state) {
  (void)state;
  if (!has_opencl()) skip_test("opencl", "there is no OpenCL device");
  for (int64_t columns = 7; columns <= 9; columns++)
    for (int first = 0; first < 2; first++) check_mask("opencl0 cpu", "Less", BRAID_I64, 33, columns, first);
}

/* --- states --------------------------------------------------------------------------------------------------------
 */
/* A state that the step which updates it reads, and others before it; and a value that a step reads twice. */
static void test_state_and_twice(void **state) {
  (void)state;
  braid_graph *graph;
  OK(braid_graph_create(NULL, "state", &graph));
  const braid_desc desc = desc_of(BRAID_I8, 2, (int64_t[]){4, 4});
  braid_tensor *tensor;
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int i = 0; i < 16; i++) ((int8_t *)braid_tensor_data(tensor))[i] = (int8_t)(i * 7 % 11);
  braid_value_id s;
  OK(braid_graph_add_tensor(graph, "s", BRAID_VALUE_STATE, tensor, &s));
  braid_value_id turned = add_node(graph, "Transpose", 1, &s);
  braid_value_id next = add_node(graph, "Sub", 2, (braid_value_id[]){s, turned});
  braid_value_id both = add_node(graph, "Sub", 2, (braid_value_id[]){next, next}); /* one input twice */
  OK(braid_graph_add_output(graph, both));
  OK(braid_graph_update_state(graph, s, next));
  braid_session *session;
  OK(braid_session_create(graph, &(braid_session_options){.training = true}, &session));
  int8_t expected[16], zero[16], now[16];
  memcpy(expected, braid_tensor_const_data(tensor), sizeof expected);
  for (int run = 0; run < 3; run++) {
    OK(braid_session_run(session, NULL, (void *[]){zero}));
    memcpy(now, expected, sizeof now);
    for (int i = 0; i < 16; i++) expected[i] = (int8_t)(now[i] - now[i % 4 * 4 + i / 4]);
    OK(braid_session_read(session, "s", tensor));
    assert_memory_equal(braid_tensor_const_data(tensor), expected, sizeof expected);
    for (int i = 0; i < 16; i++) assert_int_equal(zero[i], 0);
  }
  braid_session_destroy(session);
  braid_tensor_release(tensor);
  braid_graph_destroy(graph);
}

/* --- still shared --------------------------------------------------------------------------------------------------
 */
/* Where elements are the same memory, results do lie over their inputs: a chain needs one buffer, types or not. */
static void test_chain_needs_one_buffer(void **state) {
  (void)state;
  static const struct {
    braid_dtype from;
    const char *op;
    size_t buffers; /* of the elements' size, for Fresh and the op */
  } kChains[] = {{BRAID_F32, "Relu", 1}, {BRAID_BOOL, "Not", 1}, {BRAID_F32, "IsNaN", 2}};
  for (size_t c = 0; c < 3; c++) {
    braid_graph *graph;
    OK(braid_graph_create(NULL, "chain", &graph));
    braid_value_id x = fresh(graph, add_input(graph, kChains[c].from, 2, (int64_t[]){64, 64}));
    x = fresh(graph, add_node(graph, kChains[c].op, 1, &x));
    OK(braid_graph_add_output(graph, x));
    braid_session *session;
    OK(braid_session_create(graph, NULL, &session));
    size_t element = braid_dtype_size(kChains[c].from);
    size_t expected = 64 * 64 * (kChains[c].buffers == 1 ? element : element + 1);
    assert_int_equal(braid_session_get_stats(session).arena_bytes, expected);
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
}

int main(void) {
  if (braid_custom_op_register(&kFresh) != BRAID_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_padding_masks), cmocka_unit_test(test_padding_masks_opencl),
                                     cmocka_unit_test(test_state_and_twice),
                                     cmocka_unit_test(test_chain_needs_one_buffer)};
  return skip_run_group_tests(tests, NULL, NULL);
}
