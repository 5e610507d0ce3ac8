/* Models built in memory: what is read, in which order, and with which sentence what is wrong is refused. */
#include <stdio.h>

#include "braid/session.h"
#include "model/onnx/onnx_build.h"
#include "oom.h"

static const int64_t kShape[] = {2, 3};

static braid_graph *imported(onnx_build *build) {
  braid_graph *graph;
  if (build_import(build, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return graph;
}

static void refused(onnx_build *build, braid_status status, const char *words) {
  braid_graph *graph;
  braid_status got = build_import(build, &graph);
  if (got != status || !strstr(braid_error_detail(), words) || !strstr(braid_error_detail(), "built.onnx"))
    fail_msg("%s: \"%s\", expected %s with \"%s\"", braid_status_text(got), braid_error_detail(),
             braid_status_text(status), words);
  assert_null(graph);
}

static void begin(onnx_build *build, int opset) {
  build_begin(build, opset);
  build_input(build, "x", 2, kShape);
}

/* --- structure ---------------------------------------------------------------------------------------------------- */
static void test_names_and_order(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  build_node(&build, &build.graph, "Relu", "a", "y"); /* stands before what it needs */
  build_node(&build, &build.graph, "Add", "x x", "a");
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  assert_int_equal(braid_graph_node_count(graph), 2);
  assert_string_equal(braid_graph_node(graph, 0).op, "Add");
  assert_string_equal(braid_graph_node(graph, 1).op, "Relu");
  assert_string_equal(braid_graph_value(graph, braid_graph_output(graph, 0)).name, "y");
  assert_true(braid_graph_find_value(graph, "a") >= 0);
  braid_graph_destroy(graph);
}

static void test_output_that_is_an_input(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  build_output(&build, &build.graph, "x");
  build_output(&build, &build.graph, "x");
  braid_graph *graph = imported(&build);
  assert_int_equal(braid_graph_node_count(graph), 1);
  assert_string_equal(braid_graph_node(graph, 0).op, "Identity");
  assert_int_equal(braid_graph_output_count(graph), 2);
  assert_int_equal(braid_graph_output(graph, 0), braid_graph_input(graph, 0));
  assert_string_equal(braid_graph_value(graph, braid_graph_output(graph, 0)).name, "x");
  assert_true(braid_graph_output(graph, 0) != braid_graph_output(graph, 1));
  braid_graph_destroy(graph);
}

static void test_open_dimensions(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 17);
  build_input(&build, "x", 2, (int64_t[]){-1, 5});
  build_node(&build, &build.graph, "Relu", "x", "y");
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  braid_value_info info = braid_graph_value(graph, braid_graph_input(graph, 0));
  assert_int_equal(info.desc.dims[0], -1);
  assert_int_equal(info.desc.dims[1], 5);
  braid_graph_destroy(graph);
}

/* Constants of the type of a value are added behind any number of values: what the graph has of them moves as it grows,
 * which AddressSanitizer sees. */
static void test_constants_of_a_values_type(void **state) {
  (void)state;
  for (int before = 0; before < 24; before++) {
    onnx_build build;
    char name[16];
    begin(&build, 10);
    for (int i = 0; i < before; i++) {
      snprintf(name, sizeof name, "r%d", i);
      build_node(&build, &build.graph, "Relu", "x", name);
      build_output(&build, &build.graph, name);
    }
    Onnx__NodeProto *node = build_node(&build, &build.graph, "Clip", "x", "y");
    build_float(&build, node, "min", -1);
    build_output(&build, &build.graph, "y");
    braid_graph *graph = imported(&build);
    assert_int_equal(braid_graph_node_count(graph), before + 1); /* x is of float32: nothing is cast */
    braid_graph_destroy(graph);
  }
}

/* Refused by ONNX's checker and by other run times before opset 28. */
static void test_remainders_of_reals(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 27);
  build_node(&build, &build.graph, "Mod", "x x", "y");
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "fmod is 0 and the inputs are float32, expected fmod 1 before opset 28");

  begin(&build, 28);
  build_node(&build, &build.graph, "Mod", "x x", "y");
  build_output(&build, &build.graph, "y");
  braid_graph_destroy(imported(&build));
}

static void test_malformed_structure(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  build_node(&build, &build.graph, "Add", "x b", "a");
  build_node(&build, &build.graph, "Relu", "a", "b");
  build_output(&build, &build.graph, "b");
  refused(&build, BRAID_INVALID_FILE, "cycle");

  begin(&build, 17);
  build_node(&build, &build.graph, "Relu", "x", "y");
  build_node(&build, &build.graph, "Relu", "x", "y");
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "second node gives y");

  begin(&build, 17);
  build_node(&build, &build.graph, "Relu", "x", "x");
  build_output(&build, &build.graph, "x");
  refused(&build, BRAID_INVALID_FILE, "x");

  begin(&build, 17);
  build_node(&build, &build.graph, "Relu", "nowhere", "y");
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "nothing gives its input nowhere");

  begin(&build, 17);
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "nothing gives the output \"y\"");

  begin(&build, 17);
  refused(&build, BRAID_INVALID_FILE, "no outputs");

  build_begin(&build, 17);
  build_input(&build, "x", 2, (int64_t[]){INT64_MAX, INT64_MAX});
  build_output(&build, &build.graph, "x");
  refused(&build, BRAID_INVALID_FILE, "input \"x\"");
}

static void test_unsupported(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  build_node(&build, &build.graph, "Frobnicate", "x", "y");
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_UNSUPPORTED, "node y (Frobnicate)");

  begin(&build, 17);
  build_node(&build, &build.graph, "Relu", "x", "y")->domain = build_text(&build, "com.example");
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_UNSUPPORTED, "com.example");

  begin(&build, BRAID_ONNX_MAX_OPSET + 1);
  build_output(&build, &build.graph, "x");
  refused(&build, BRAID_UNSUPPORTED, "opset");

  build_begin(&build, 17);
  build.graph.input[build.graph.n_input++] = build_value(&build, "x", 8, 2, kShape);
  build_output(&build, &build.graph, "x");
  refused(&build, BRAID_UNSUPPORTED, "STRING");
}

static void test_attribute_types(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  Onnx__NodeProto *node = build_node(&build, &build.graph, "Softmax", "x", "y");
  build_float(&build, node, "axis", 1);
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "attribute axis is a number, expected an integer");

  begin(&build, 17);
  node = build_node(&build, &build.graph, "Softmax", "x", "y");
  build_int(&build, node, "axis", 1);
  build_int(&build, node, "axis", 1);
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "given twice");

  static uint8_t text[] = "SAME_UPPER\0or not";
  begin(&build, 17);
  node = build_node(&build, &build.graph, "MaxPool", "x", "y");
  Onnx__AttributeProto *attr = build_attr(&build, node, "auto_pad", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
  attr->has_s = true;
  attr->s = (ProtobufCBinaryData){sizeof text - 1, text};
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "attribute auto_pad holds a byte of value 0");

  begin(&build, 17);
  attr = build_attr(&build, build_node(&build, &build.graph, "RNN", "x", "y"), "activations",
                    ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
  attr->n_strings = 1;
  attr->strings = build_new(&build, sizeof *attr->strings);
  attr->strings[0] = (ProtobufCBinaryData){sizeof text - 1, text};
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "attribute activations holds a byte of value 0");
}

/* What an op does not have in the file's opset is refused, not passed over. */
static void test_unknown_attributes(void **state) {
  (void)state;
  static const struct {
    int opset;
    const char *domain, *op, *attr, *says;
  } cases[] = {
      {17, "", "MaxPool", "pad",
       "node y (MaxPool): has no attribute pad (did you mean pads?) in opset 17; there are auto_pad ceil_mode"},
      {17, "ai.onnx", "Relu", "axis", "node y (Relu): has no attribute axis in opset 17; there are none"},
      {13, "", "Squeeze", "axes", "has no attribute axes in opset 13; there are none"},
      {17, "", "Upsample", "height_scale", "has no attribute height_scale in opset 17; there are mode"},
      {17, "", "Softmax", "Axis", "has no attribute Axis (did you mean axis?) in opset 17; there are axis"},
      {17, "", "Constant", "values",
       "has no attribute values (did you mean value?) in opset 17; there are sparse_value value"},
      {17, "", "If", "when", "has no attribute when in opset 17; there are else_branch then_branch"},
      {17, "com.microsoft", "QLinearAdd", "axis", "node y (QLinearAdd): has no attribute axis; there are none"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build build;
    begin(&build, cases[i].opset);
    Onnx__NodeProto *node = build_node(&build, &build.graph, cases[i].op, "x", "y");
    node->domain = build_text(&build, cases[i].domain);
    build_int(&build, node, cases[i].attr, 1);
    build_output(&build, &build.graph, "y");
    refused(&build, BRAID_INVALID_FILE, cases[i].says);
  }
  onnx_build build;
  begin(&build, 12);
  build_ints(&build, build_node(&build, &build.graph, "Unsqueeze", "x", "u"), "axes", (int64_t[]){0}, 1);
  build_int(&build, build_node(&build, &build.graph, "Relu", "u", "y"), "__note", 1);
  build_output(&build, &build.graph, "y");
  braid_graph_destroy(imported(&build));
}

/* Attributes that any op may have are counted: each is compared with those before it. */
static void test_many_attributes(void **state) {
  (void)state;
  for (int count = 1000; count <= 1001; count++) {
    onnx_build build;
    begin(&build, 17);
    Onnx__NodeProto *node = build_node(&build, &build.graph, "Relu", "x", "y");
    Onnx__AttributeProto attributes[1001], *list[1001];
    for (int i = 0; i < count; i++) {
      char name[16];
      (void)snprintf(name, sizeof name, "__%d", i);
      onnx__attribute_proto__init(list[i] = &attributes[i]);
      attributes[i].name = build_text(&build, name);
      attributes[i].has_type = attributes[i].has_i = 1;
      attributes[i].type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    }
    node->attribute = list;
    node->n_attribute = (size_t)count;
    build_output(&build, &build.graph, "y");
    if (count > 1000)
      refused(&build, BRAID_INVALID_FILE, "node y (Relu): has more than 1,000 attributes");
    else
      braid_graph_destroy(imported(&build));
  }
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */
static void test_weights_outlive_the_file(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  onnx_build build;
  float data[COUNT];
  for (int i = 0; i < COUNT; i++) data[i] = (float)i;
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){COUNT});
  build.graph.initializer[build.graph.n_initializer++] = build_tensor(&build, "w", 1, COUNT, data, sizeof data);
  build_node(&build, &build.graph, "Add", "x w", "y");
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  braid_value_info info = braid_graph_value(graph, braid_graph_find_value(graph, "w"));
  assert_int_equal(info.kind, BRAID_VALUE_CONSTANT);
  assert_memory_equal(braid_tensor_const_data(info.tensor), data, sizeof data);
  braid_graph_destroy(graph);
}

static braid_status tensor_of(onnx_build *build, const Onnx__TensorProto *proto, braid_tensor **out) {
  braid_onnx_source source;
  const braid_model_memory none = {.name = "built.onnx"};
  assert_int_equal(braid_onnx_source_wrap(NULL, &none, &source), BRAID_OK);
  braid_status status = braid_onnx_tensor(&source, proto, out);
  braid_onnx_source_close(&source);
  build_end(build);
  return status;
}

static void test_typed_fields(void **state) {
  (void)state;
  onnx_build build;
  braid_tensor *tensor;
  build_begin(&build, 17);
  Onnx__TensorProto *proto = build_tensor(&build, "t", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 3, NULL, 0);
  proto->n_int32_data = 3;
  proto->int32_data = (int32_t[]){-128, 0, 127};
  assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_OK);
  assert_int_equal(braid_tensor_get_i64(tensor, 0), -128);
  assert_int_equal(braid_tensor_get_i64(tensor, 2), 127);
  braid_tensor_release(tensor);

  build_begin(&build, 17);
  proto = build_tensor(&build, "t", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 1, NULL, 0);
  proto->n_int32_data = 1;
  proto->int32_data = (int32_t[]){256};
  assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "256"));

  build_begin(&build, 17);
  proto = build_tensor(&build, "t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64_MAX / 8, NULL, 0);
  assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_INVALID_FILE);

  build_begin(&build, 17);
  proto = build_tensor(&build, "t", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, "1234567", 7);
  assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "7 bytes"));

  build_begin(&build, 17);
  proto = build_tensor(&build, "t", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 2, "\xff\0", 2);
  assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_OK);
  assert_int_equal(*(const uint8_t *)braid_tensor_const_data(tensor), 1);
  braid_tensor_release(tensor);
}

static void test_external_data_stays_in_its_folder(void **state) {
  (void)state;
  static const char *const kOutside[] = {"../secret", "/etc/hostname", "a/../../b", ".."};
  for (size_t i = 0; i < sizeof kOutside / sizeof *kOutside; i++) {
    onnx_build build;
    braid_tensor *tensor;
    build_begin(&build, 17);
    Onnx__TensorProto *proto = build_tensor(&build, "t", 1, 1, NULL, 0);
    Onnx__StringStringEntryProto entry = ONNX__STRING_STRING_ENTRY_PROTO__INIT, *entries[] = {&entry};
    entry.key = (char *)"location";
    entry.value = (char *)kOutside[i];
    proto->has_data_location = true;
    proto->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    proto->n_external_data = 1;
    proto->external_data = entries;
    assert_int_equal(tensor_of(&build, proto, &tensor), BRAID_INVALID_FILE);
  }
}

/* --- older opsets ------------------------------------------------------------------------------------------------- */
static void test_axes_become_an_input(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 11);
  Onnx__NodeProto *node = build_node(&build, &build.graph, "Unsqueeze", "x", "y");
  build_ints(&build, node, "axes", (int64_t[]){0, 3}, 2);
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  braid_node_info info = braid_graph_node(graph, 0);
  assert_int_equal(info.input_count, 2);
  braid_value_info axes = braid_graph_value(graph, info.inputs[1]);
  assert_int_equal(braid_tensor_get_i64(axes.tensor, 1), 3);
  assert_false(braid_attr_has(info.attrs, "axes"));
  braid_graph_destroy(graph);
}

static void test_softmax_of_a_matrix(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 11);
  build_input(&build, "x", 3, (int64_t[]){2, 3, 4});
  build_node(&build, &build.graph, "Softmax", "x", "y"); /* axis 1: rows of 12 */
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  bool flattened = false;
  for (size_t i = 0; i < braid_graph_node_count(graph); i++)
    flattened = flattened || strcmp(braid_graph_node(graph, (braid_node_id)i).op, "Flatten") == 0;
  assert_true(flattened);
  braid_value_info y = braid_graph_value(graph, braid_graph_output(graph, 0));
  assert_string_equal(y.name, "y");
  braid_graph_destroy(graph);
}

static void resolves_to(onnx_build *build, size_t rank, const int64_t *dims) {
  braid_graph *graph = imported(build);
  if (braid_resolve(graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_desc desc = braid_graph_value(graph, braid_graph_output(graph, 0)).desc;
  assert_int_equal(desc.rank, rank);
  for (size_t i = 0; i < rank; i++) assert_int_equal(desc.dims[i], dims[i]);
  braid_graph_destroy(graph);
}

/* The result has the shape of the input, which in Reshape's list of dimensions 0 stands for another thing. */
static void test_nothing_in_older_forms(void **state) {
  (void)state;
  static const struct {
    int64_t dims[3], axis;
  } kCases[] = {{{0, 3, 4}, 0}, {{0, 3, 4}, 1}, {{2, 3, 0}, 1}, {{2, 0, 4}, 0}, {{2, 0, 4}, 1}, {{0, 0, 0}, 0}};
  static const char *const kOps[] = {"Softmax", "LogSoftmax", "Hardmax"};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++)
    for (size_t op = 0; op < 3; op++) {
      onnx_build build;
      build_begin(&build, 11);
      build_input(&build, "x", 3, kCases[i].dims);
      build_int(&build, build_node(&build, &build.graph, kOps[op], "x", "y"), "axis", kCases[i].axis);
      build_output(&build, &build.graph, "y");
      resolves_to(&build, 3, kCases[i].dims);
    }
  onnx_build build;
  const int64_t empty[] = {2, 0, 5}, groups = 2;
  build_begin(&build, 18);
  build_input(&build, "x", 3, empty);
  build_input(&build, "scale", 1, &groups);
  build_input(&build, "bias", 1, &groups);
  build_int(&build, build_node(&build, &build.graph, "GroupNormalization", "x scale bias", "y"), "num_groups", groups);
  build_output(&build, &build.graph, "y");
  resolves_to(&build, 3, empty);
}

/* The ratio was an attribute: of data whose type is not known while the file is read, too. */
static void test_dropout_with_attribute(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 11);
  build_input(&build, "x", 2, (int64_t[]){-1, 3});
  build_node(&build, &build.graph, "Relu", "x", "r");
  build_float(&build, build_node(&build, &build.graph, "Dropout", "r", "y"), "ratio", 0.25f);
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  braid_node_info info = braid_graph_node(graph, braid_graph_value(graph, braid_graph_output(graph, 0)).producer);
  assert_string_equal(info.op, "Dropout");
  braid_value_info ratio = braid_graph_value(graph, info.inputs[1]);
  assert_non_null(ratio.tensor);
  assert_float_equal(braid_tensor_get_f64(ratio.tensor, 0), 0.25, 0);
  braid_graph_destroy(graph);
}

static void test_broadcast_at_an_axis(void **state) {
  (void)state;
  onnx_build build;
  build_begin(&build, 6);
  build_input(&build, "x", 4, (int64_t[]){2, 3, 4, 5});
  build_input(&build, "b", 1, (int64_t[]){3});
  Onnx__NodeProto *node = build_node(&build, &build.graph, "Add", "x b", "y");
  build_int(&build, node, "broadcast", 1);
  build_int(&build, node, "axis", 1);
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  braid_value_info y = braid_graph_value(graph, braid_graph_output(graph, 0));
  assert_int_equal(y.desc.rank, 4);
  assert_int_equal(y.desc.dims[1], 3);
  braid_graph_destroy(graph);
}

/* --- functions and branches --------------------------------------------------------------------------------------- */
static Onnx__FunctionProto *add_function(onnx_build *build, const char *name, const char *inputs, const char *outputs) {
  Onnx__FunctionProto *function = build_new(build, sizeof *function);
  onnx__function_proto__init(function);
  function->domain = build_text(build, "local");
  function->name = build_text(build, name);
  function->input = build_names(build, inputs, &function->n_input);
  function->output = build_names(build, outputs, &function->n_output);
  function->node = build_new(build, BUILD_MOST * sizeof(void *));
  build->model.functions[build->model.n_functions++] = function;
  return function;
}

static void call_function(onnx_build *build, Onnx__NodeProto *node) {
  node->domain = build_text(build, "local");
}

static void test_functions_are_inlined(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  Onnx__FunctionProto *function = add_function(&build, "Leak", "a", "b");
  Onnx__NodeProto *inner = function->node[function->n_node++] = build_node_alone(&build, "LeakyRelu", "a", "t");
  Onnx__AttributeProto *reference = build_attr(&build, inner, "alpha", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
  reference->ref_attr_name = build_text(&build, "slope");
  function->node[function->n_node++] = build_node_alone(&build, "Relu", "t", "b");
  for (int i = 0; i < 2; i++) { /* twice: names inside may not clash */
    Onnx__NodeProto *node = build_node(&build, &build.graph, "Leak", i ? "m" : "x", i ? "y" : "m");
    call_function(&build, node);
    build_float(&build, node, "slope", i ? 0.25f : 0.5f);
  }
  build_output(&build, &build.graph, "y");
  braid_graph *graph = imported(&build);
  assert_int_equal(braid_graph_node_count(graph), 4);
  assert_true(braid_attr_float(braid_graph_node(graph, 0).attrs, "alpha", 0) == 0.5);
  assert_true(braid_attr_float(braid_graph_node(graph, 2).attrs, "alpha", 0) == 0.25);
  braid_graph_destroy(graph);
}

static void test_functions_that_call_themselves(void **state) {
  (void)state;
  onnx_build build;
  begin(&build, 17);
  Onnx__FunctionProto *function = add_function(&build, "Again", "a", "b");
  Onnx__NodeProto *inner = function->node[function->n_node++] = build_node_alone(&build, "Again", "a", "b");
  call_function(&build, inner);
  call_function(&build, build_node(&build, &build.graph, "Again", "x", "y"));
  build_output(&build, &build.graph, "y");
  refused(&build, BRAID_INVALID_FILE, "too deep");
}

static void add_branch(onnx_build *build, Onnx__NodeProto *node, const char *name, const char *op, const char *inputs,
                       const char *output) {
  Onnx__AttributeProto *attr = build_attr(build, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
  attr->g = build_new(build, sizeof *attr->g);
  build_graph_init(build, attr->g);
  build_node(build, attr->g, op, inputs, output);
  build_output(build, attr->g, output);
}

static void test_if_keeps_the_branch_that_is_taken(void **state) {
  (void)state;
  for (int taken = 0; taken < 2; taken++) {
    onnx_build build;
    begin(&build, 17);
    build.graph.initializer[build.graph.n_initializer++] =
        build_tensor(&build, "c", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 1, taken ? "\1" : "\0", 1);
    Onnx__NodeProto *node = build_node(&build, &build.graph, "If", "c", "y");
    add_branch(&build, node, "then_branch", "Relu", "x", "t");
    add_branch(&build, node, "else_branch", "MatMul", "x x", "e"); /* [2,3] x [2,3]: wrong, and must not matter */
    build_output(&build, &build.graph, "y");
    braid_graph *graph = imported(&build);
    braid_status status = braid_graph_infer(graph, NULL);
    assert_int_equal(status, taken ? BRAID_OK : BRAID_INVALID_GRAPH);
    if (taken) {
      assert_int_equal(braid_graph_node_count(graph), 1);
      assert_string_equal(braid_graph_node(graph, 0).op, "Relu");
    }
    braid_graph_destroy(graph);
  }
}

/* --- hostile bytes ------------------------------------------------------------------------------------------------ */
static uint8_t *sample(size_t *bytes) {
  onnx_build build;
  float data[512] = {0};
  begin(&build, 11);
  build.graph.initializer[build.graph.n_initializer++] = build_tensor(&build, "w", 1, 512, data, sizeof data);
  Onnx__NodeProto *node = build_node(&build, &build.graph, "Unsqueeze", "x", "u");
  build_ints(&build, node, "axes", (int64_t[]){0}, 1);
  build_node(&build, &build.graph, "Relu", "u", "y");
  build_node(&build, &build.graph, "Relu", "w", "z");
  build_output(&build, &build.graph, "y");
  build_output(&build, &build.graph, "z");
  uint8_t *packed = build_pack(&build, bytes);
  build_end(&build);
  return packed;
}

static void test_every_truncation(void **state) {
  (void)state;
  size_t bytes;
  uint8_t *packed = sample(&bytes);
  for (size_t length = 0; length < bytes; length++) {
    braid_graph *graph;
    braid_status status = build_import_bytes(NULL, packed, length, &graph);
    if (status == BRAID_OK) fail_msg("the first %zu of %zu bytes are accepted", length, bytes);
    assert_true(braid_error_detail()[0]);
  }
  free(packed);
}

static void test_deep_nesting(void **state) {
  (void)state;
  /* sequence(sequence(...)) as the type of an input: two messages a level, built from the inside. */
  uint8_t data[8192];
  size_t at = sizeof data;
  for (int i = 0; i < 400; i++) {
    size_t length = sizeof data - at;
    data[--at] = (uint8_t)(length >> 7);
    data[--at] = (uint8_t)(length | 0x80);
    data[--at] = i % 2 ? 0x22 : 0x0a; /* TypeProto.sequence_type, Sequence.elem_type */
  }
  static const uint8_t kOuter[] = {0x3a, 0x5a, 0x12}; /* model.graph, graph.input, value.type */
  for (int i = 2; i >= 0; i--) {
    size_t length = sizeof data - at;
    data[--at] = (uint8_t)(length >> 7);
    data[--at] = (uint8_t)(length | 0x80);
    data[--at] = kOuter[i];
  }
  braid_graph *graph;
  assert_int_equal(build_import_bytes(NULL, data + at, sizeof data - at, &graph), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "deep"));
}

typedef struct packed_model {
  uint8_t *data;
  size_t bytes;
} packed_model;

static braid_status attempt(const braid_allocator *allocator, void *context) {
  const packed_model *model = context;
  braid_graph *graph;
  braid_status status = build_import_bytes(allocator, model->data, model->bytes, &graph);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  packed_model model;
  model.data = sample(&model.bytes);
  assert_true(oom_sweep(attempt, &model) > 10);
  free(model.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_and_order),
      cmocka_unit_test(test_output_that_is_an_input),
      cmocka_unit_test(test_open_dimensions),
      cmocka_unit_test(test_remainders_of_reals),
      cmocka_unit_test(test_constants_of_a_values_type),
      cmocka_unit_test(test_malformed_structure),
      cmocka_unit_test(test_unsupported),
      cmocka_unit_test(test_attribute_types),
      cmocka_unit_test(test_unknown_attributes),
      cmocka_unit_test(test_many_attributes),
      cmocka_unit_test(test_weights_outlive_the_file),
      cmocka_unit_test(test_typed_fields),
      cmocka_unit_test(test_external_data_stays_in_its_folder),
      cmocka_unit_test(test_axes_become_an_input),
      cmocka_unit_test(test_softmax_of_a_matrix),
      cmocka_unit_test(test_nothing_in_older_forms),
      cmocka_unit_test(test_broadcast_at_an_axis),
      cmocka_unit_test(test_dropout_with_attribute),

      cmocka_unit_test(test_functions_are_inlined),
      cmocka_unit_test(test_functions_that_call_themselves),
      cmocka_unit_test(test_if_keeps_the_branch_that_is_taken),
      cmocka_unit_test(test_every_truncation),
      cmocka_unit_test(test_deep_nesting),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
