/* What is written can be read again, means the same, and ONNX Runtime agrees (where BRAID_PYTHON names a Python that
 * has it). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/philox.h"
#include "braid/custom.h"
#include "braid/model.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "model/darknet/darknet.h"
#include "model/onnx/onnx_build.h"
#include "model/onnx/onnx_opset.h"
#include "oom.h"
#include "skip.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/braid-export-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  static const char *const kFiles[] = {"model.onnx", "input.npy", "output.npy", "kept.onnx"};
  char path[128];
  for (size_t i = 0; i < sizeof kFiles / sizeof *kFiles; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, kFiles[i]);
    unlink(path);
  }
  return rmdir(folder);
}

static const char *in_folder(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static const char kNetwork[] = "[net]\nheight=16\nwidth=16\nchannels=3\n"
                               "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\npad=1\nactivation=leaky\n"
                               "[maxpool]\nsize=2\nstride=2\n"
                               "[convolutional]\nfilters=8\nsize=3\npad=1\ngroups=2\nactivation=stair\n"
                               "[shortcut]\nfrom=-2\nactivation=relu\n"
                               "[upsample]\nstride=2\n[route]\nlayers=-1,0\n[avgpool]\n"
                               "[dropout]\n[connected]\noutput=5\nactivation=linear\n[softmax]\n";

static braid_graph *network(void) {
  braid_graph *graph;
  braid_status status = braid_darknet_import(NULL, "net.cfg", kNetwork, strlen(kNetwork), NULL, 11, NULL, &graph);
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
  return graph;
}

static void check(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Runs the graph on numbers from a seed; the input and the output go to files, and the output is returned. `batch` 0:
 * the input's own. */
static braid_tensor *computed(const braid_graph *graph, int64_t batch, bool keep) {
  braid_session *session;
  braid_graph *copy;
  check(braid_graph_clone(graph, &copy));
  braid_value_id id = braid_graph_input(copy, 0);
  braid_desc shape = braid_graph_value(copy, id).desc;
  if (batch) {
    shape.dims[0] = batch;
    check(braid_graph_set_input_shape(copy, id, shape.rank, shape.dims));
  }
  check(braid_session_create(copy, &(braid_session_options){.threads = 1}, &session));
  braid_tensor *input, *output;
  check(braid_tensor_create(NULL, braid_session_input(session, 0), &input));
  check(braid_tensor_create(NULL, braid_session_output(session, 0), &output));
  float *data = braid_tensor_data(input);
  int64_t count = braid_desc_count(braid_tensor_desc(input));
  for (int64_t i = 0; i < count; i++) data[i] = braid_random_normal(3, 0, 0, (uint64_t)i);
  check(braid_session_run(session, (const void *const[]){data}, (void *const[]){braid_tensor_data(output)}));
  braid_session_destroy(session);
  braid_graph_destroy(copy);
  if (keep) check(braid_npy_save(in_folder("input.npy"), input));
  if (keep) check(braid_npy_save(in_folder("output.npy"), output));
  braid_tensor_release(input);
  return output;
}

/* Both give the same bits at this batch. */
static void expect_same(const braid_graph *graph, const braid_graph *again, int64_t batch) {
  braid_tensor *one = computed(graph, batch, true), *other = computed(again, batch, false);
  const braid_desc *desc = braid_tensor_desc(one);
  assert_true(braid_desc_same_shape(desc, braid_tensor_desc(other)));
  assert_memory_equal(braid_tensor_const_data(one), braid_tensor_const_data(other), braid_desc_bytes(desc));
  braid_tensor_release(one);
  braid_tensor_release(other);
}

static const char *python_with_runtime(void) {
  const char *python = getenv("BRAID_PYTHON");
  return python && *python ? python : NULL;
}

/* model.onnx gives in ONNX Runtime what `computed` left in files. */
static void expect_runtime_agrees(void) {
  char command[1024];
  snprintf(command, sizeof command, "'%s' '%s/../onnx_check.py' '%s' '%s' -- '%s'", python_with_runtime(),
           BRAID_TEST_DATA, in_folder("model.onnx"), in_folder("input.npy"), in_folder("output.npy"));
  assert_int_equal(system(command), 0);
}

static void test_round_trip(void **state) {
  (void)state;
  braid_graph *graph = network(), *again;
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  assert_int_equal(braid_graph_node_count(again), braid_graph_node_count(graph));
  for (size_t i = 0; i < braid_graph_node_count(graph); i++)
    assert_string_equal(braid_graph_node(again, (braid_node_id)i).op, braid_graph_node(graph, (braid_node_id)i).op);
  expect_same(graph, again, 0);
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
}

static void test_onnx_runtime_agrees(void **state) {
  (void)state;
  if (!python_with_runtime()) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  braid_graph *graph = network();
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  braid_tensor_release(computed(graph, 0, true));
  braid_graph_destroy(graph);
  expect_runtime_agrees();
}

/* --- what is decided by the batch ----------------------------------------------------------------------------------
 */
static void add_int64s(onnx_build *build, const char *name, const int64_t *values, int64_t count) {
  build->graph.initializer[build->graph.n_initializer++] =
      build_tensor(build, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, count, values, (size_t)count * sizeof *values);
}

static void add_tensor(onnx_build *build, const char *name, int type, int64_t count, const void *data, size_t bytes) {
  build->graph.initializer[build->graph.n_initializer++] = build_tensor(build, name, type, count, data, bytes);
}

static Onnx__GraphProto *add_branch(onnx_build *build, Onnx__NodeProto *node, const char *name) {
  Onnx__AttributeProto *attr = build_attr(build, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  attr->g = build_new(build, sizeof *attr->g);
  build_graph_init(build, attr->g);
  return attr->g;
}

/* x of [-1, 4], and n, its batch as exporters compute it. */
static void begin_open(onnx_build *build) {
  build_begin(build, 17);
  build_input(build, "x", 2, (int64_t[]){-1, 4});
  add_int64s(build, "zero", (int64_t[]){0}, 1);
  add_int64s(build, "one", (int64_t[]){1}, 1);
  add_int64s(build, "two", (int64_t[]){2}, 1);
  add_int64s(build, "sides", (int64_t[]){2, 2}, 2);
  build_node(build, &build->graph, "Shape", "x", "s");
  build_node(build, &build->graph, "Gather", "s zero", "n");
}

/* Reshapes `value` to [n, 2, 2], the output y. */
static void end_open(onnx_build *build, const char *value) {
  char inputs[64];
  Onnx__NodeProto *node = build_node(build, &build->graph, "Concat", "n sides", "shape");
  build_int(build, node, "axis", 0);
  snprintf(inputs, sizeof inputs, "%s shape", value);
  build_node(build, &build->graph, "Reshape", inputs, "y");
  build->graph.output[build->graph.n_output++] = build_value(build, "y", 1, 3, (int64_t[]){-1, 2, 2});
}

/* Saved and read again, the network takes every batch that it took, and so it does when it has been resolved. */
static void expect_any_batch(onnx_build *build) {
  braid_graph *graph, *again, *resolved;
  check(build_import(build, &graph));
  check(braid_graph_clone(graph, &resolved));
  check(braid_resolve(resolved));
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  assert_int_equal(braid_graph_value(again, braid_graph_input(again, 0)).desc.dims[0], -1);
  for (int64_t batch = 1; batch <= 4; batch++) {
    expect_same(graph, again, batch);
    expect_same(graph, resolved, batch);
    if (python_with_runtime()) expect_runtime_agrees();
  }
  braid_graph_destroy(resolved);
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
}

static void test_open_batch(void **state) {
  (void)state;
  onnx_build build;
  begin_open(&build);
  build_node(&build, &build.graph, "Neg", "x", "v");
  end_open(&build, "v");
  expect_any_batch(&build);
}

/* Open dimensions of one name would be promised to be equal, however long the names are that they are made from. */
static void test_open_dimensions_of_long_names(void **state) {
  (void)state;
  enum { kLength = 300 };
  braid_graph *graph;
  braid_value_id ids[2], out = 0;
  braid_node_id node;
  char names[2][kLength + 1], symbol[2 * kLength + 16], text[8192];
  check(braid_graph_create(NULL, "long", &graph));
  for (int i = 0; i < 2; i++) {
    memset(names[i], 'n', kLength);
    names[i][kLength - 1] = (char)('a' + i);
    names[i][kLength] = '\0';
    check(
        braid_graph_add_input(graph, names[i], &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {-1, 2}}, &ids[i]));
  }
  check(braid_graph_add_node(graph, "Concat", NULL, ids, 2, &out, 1, &node));
  check(braid_graph_set_int(graph, node, "axis", 0));
  check(braid_graph_add_output(graph, out));
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  FILE *file = fopen(in_folder("model.onnx"), "rb");
  assert_non_null(file);
  size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  for (int i = 0; i < 2; i++) {
    snprintf(symbol, sizeof symbol, "%s.0", names[i]);
    assert_non_null(memmem(text, bytes, symbol, strlen(symbol)));
  }
  braid_graph_destroy(graph);
}

/* One If in another; a branch that gives what lies outside it, and two that give the same value twice; an output that
 * nobody uses; a condition within a branch. */
static void test_branches(void **state) {
  (void)state;
  onnx_build build;
  begin_open(&build);
  build_node(&build, &build.graph, "Greater", "n one", "many");
  Onnx__NodeProto *outer = build_node(&build, &build.graph, "If", "many", "v unused w");
  Onnx__GraphProto *branch = add_branch(&build, outer, "then_branch");
  build_node(&build, branch, "Add", "x x", "a");
  build_node(&build, branch, "Greater", "n two", "more");
  Onnx__NodeProto *inner = build_node(&build, branch, "If", "more", "r");
  Onnx__GraphProto *deep = add_branch(&build, inner, "then_branch");
  build_node(&build, deep, "Exp", "a", "e");
  build_node(&build, deep, "Mul", "e x", "m");
  build_output(&build, deep, "m");
  build_output(&build, add_branch(&build, inner, "else_branch"), "a");
  build_node(&build, branch, "Neg", "x", "negative");
  build_output(&build, branch, "r");
  build_output(&build, branch, "negative");
  build_output(&build, branch, "r");
  branch = add_branch(&build, outer, "else_branch");
  build_node(&build, branch, "Abs", "x", "absolute");
  build_output(&build, branch, "absolute");
  build_output(&build, branch, "x");
  build_output(&build, branch, "x");
  build_node(&build, &build.graph, "Sub", "v w", "difference");
  build_node(&build, &build.graph, "Add", "difference v", "sum");
  end_open(&build, "sum");
  expect_any_batch(&build);
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
/* int16 out of QuantizeLinear (opset 21) and IsInf of float16 (20): the file says an opset that has them. */
static void test_types_of_later_opsets(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 21);
  build_input(&build, "x", 2, (int64_t[]){3, 4});
  add_tensor(&build, "scale", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1, (float[]){0.001f}, sizeof(float));
  add_tensor(&build, "zero", ONNX__TENSOR_PROTO__DATA_TYPE__INT16, 1, (int16_t[]){5}, sizeof(int16_t));
  build_node(&build, &build.graph, "QuantizeLinear", "x scale zero", "q");
  build_node(&build, &build.graph, "DequantizeLinear", "q scale zero", "d");
  build_int(&build, build_node(&build, &build.graph, "Cast", "d", "half"), "to", 10);
  build_node(&build, &build.graph, "IsInf", "half", "infinite");
  build_int(&build, build_node(&build, &build.graph, "Cast", "infinite", "number"), "to", 1);
  build_node(&build, &build.graph, "Add", "number d", "y");
  build_output(&build, &build.graph, "y");
  braid_graph *graph, *again;
  check(build_import(&build, &graph));
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  expect_same(graph, again, 0);
  if (python_with_runtime()) expect_runtime_agrees();
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
  braid_file_view file;
  check(braid_file_open(NULL, in_folder("model.onnx"), 0, &file));
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, file.bytes, file.data);
  assert_non_null(model);
  assert_int_equal(model->opset_import[0]->version, 21);
  onnx__model_proto__free_unpacked(model, NULL);
  braid_file_close(&file);
}

/* --- ops of other domains ------------------------------------------------------------------------------------------
 */
static braid_status infer_twice(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                                braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status compute_twice(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                  const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  const float *x = inputs[0].data;
  for (int64_t i = 0; i < braid_desc_count(inputs[0].desc); i++) ((float *)outputs[0].data)[i] = 2 * x[i];
  return BRAID_OK;
}

/* An op that the program has registered is written under its domain, and the file names the domain. */
static void test_foreign_op(void **state) {
  (void)state;
  static const braid_custom_op twice = {"test.maker.Twice", 1, 1, 1, infer_twice, compute_twice};
  check(braid_custom_op_register(&twice));
  braid_graph *graph, *again;
  braid_value_id x, y = 0;
  check(braid_graph_create(NULL, "foreign", &graph));
  check(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {3, 4}}, &x));
  for (int i = 0; i < 2; i++, x = y, y = 0) check(braid_graph_add_node(graph, twice.name, NULL, &x, 1, &y, 1, NULL));
  check(braid_graph_add_output(graph, x));
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  assert_string_equal(braid_graph_node(again, 1).op, twice.name);
  expect_same(graph, again, 0);
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
  braid_file_view file;
  check(braid_file_open(NULL, in_folder("model.onnx"), 0, &file));
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, file.bytes, file.data);
  assert_non_null(model);
  assert_int_equal(model->n_opset_import, 2);
  assert_string_equal(model->graph->node[0]->domain, "test.maker");
  assert_string_equal(model->graph->node[0]->op_type, "Twice");
  onnx__model_proto__free_unpacked(model, NULL);
  braid_file_close(&file);
}

/* A graph after make_trainable is written as what it computes when it no longer trains. */
static void test_training_form_is_left_out(void **state) {
  (void)state;
  braid_graph *graph = network(), *again;
  check(braid_graph_make_trainable(graph));
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  for (size_t i = 0; i < braid_graph_node_count(again); i++) {
    braid_node_info node = braid_graph_node(again, (braid_node_id)i);
    assert_int_equal(braid_attr_int(node.attrs, "training_mode", 0), 0);
    if (strcmp(node.op, "BatchNormalization") == 0) assert_int_equal(node.output_count, 1);
    if (strcmp(node.op, "Dropout") == 0) assert_int_equal(node.input_count, 2);
  }
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
}

static void test_nothing_half_written(void **state) {
  (void)state;
  braid_graph *graph = network();
  assert_int_not_equal(braid_model_save_onnx(graph, in_folder("missing/model.onnx")), BRAID_OK);
  assert_true(braid_error_detail()[0]);
  check(braid_model_save_onnx(graph, in_folder("kept.onnx")));
  struct stat before, after;
  assert_int_equal(stat(in_folder("kept.onnx"), &before), 0);
  braid_value_id output = braid_graph_output(graph, 0), more = 0;
  check(braid_graph_add_node(
      graph, "ConvGradInput", NULL,
      (braid_value_id[]){output, braid_graph_find_value(graph, "0_convolutional.weight"), output}, 2, &more, 1, NULL));
  check(braid_graph_add_output(graph, more));
  assert_int_equal(braid_model_save_onnx(graph, in_folder("kept.onnx")), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "ConvGradInput"));
  assert_int_equal(stat(in_folder("kept.onnx"), &after), 0);
  assert_int_equal(before.st_size, after.st_size);
  braid_graph_destroy(graph);
}

/* ONNX's VERSIONING table: readers refuse a newer IR than they know, whatever the opset. */
static void test_ir_versions(void **state) {
  (void)state;
  static const int kVersions[] = {8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14}; /* of opset 17, 18 ... */
  for (int i = 0; i < (int)(sizeof kVersions / sizeof *kVersions); i++)
    assert_int_equal(braid_onnx_ir_version(17 + i), kVersions[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ir_versions),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_onnx_runtime_agrees),
      cmocka_unit_test(test_open_batch),
      cmocka_unit_test(test_open_dimensions_of_long_names),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_types_of_later_opsets),
      cmocka_unit_test(test_foreign_op),
      cmocka_unit_test(test_training_form_is_left_out),
      cmocka_unit_test(test_nothing_half_written),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
