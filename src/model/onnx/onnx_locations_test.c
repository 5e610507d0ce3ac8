/* The files that an ONNX file names: those of all tensors, wherever they are in it, each once, and none outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "folder.h"
#include "model/model.h"
#include "model/onnx/onnx_build.h"
#include "oom.h"

static char path[128];

static Onnx__TensorProto *external(onnx_build *build, const char *location) {
  Onnx__TensorProto *tensor = build_tensor(build, "t", 1, 1, NULL, 0);
  Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = build_text(build, "location");
  entry->value = build_text(build, location);
  tensor->external_data = build_new(build, sizeof(void *));
  tensor->external_data[tensor->n_external_data++] = entry;
  tensor->has_data_location = true;
  tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  return tensor;
}

static void add_initializer(onnx_build *build, Onnx__TensorProto *tensor) {
  build->graph.initializer[build->graph.n_initializer++] = tensor;
}

static Onnx__AttributeProto *add_attribute(onnx_build *build) {
  Onnx__NodeProto *node = build_node(build, &build->graph, "Constant", "", "c");
  return build_attr(build, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
}

static void write_model(onnx_build *build) {
  size_t bytes;
  uint8_t *packed = build_pack(build, &bytes);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(packed, 1, bytes, file), bytes);
  fclose(file);
  free(packed);
  build_end(build);
}

static void build_all(onnx_build *build) {
  build_begin(build, 17);
  static float kLarge[1000];
  add_initializer(build, build_tensor(build, "own", 1, 1000, kLarge, sizeof kLarge)); /* left out by the reader */
  add_initializer(build, external(build, "first.bin"));
  add_initializer(build, external(build, "./sub/../first.bin"));
  add_attribute(build)->t = external(build, "a/attribute.bin");
  Onnx__AttributeProto *list = add_attribute(build);
  list->tensors = build_new(build, 2 * sizeof(void *));
  list->tensors[list->n_tensors++] = external(build, "listed.bin");
  list->tensors[list->n_tensors++] = external(build, "first.bin");
  Onnx__GraphProto *branch = build_new(build, sizeof *branch);
  build_graph_init(build, branch);
  branch->initializer[branch->n_initializer++] = external(build, "branch.bin");
  add_attribute(build)->g = branch;
  Onnx__SparseTensorProto *sparse = build_new(build, sizeof *sparse);
  onnx__sparse_tensor_proto__init(sparse);
  sparse->values = external(build, "values.bin");
  sparse->indices = external(build, "indices.bin");
  add_attribute(build)->sparse_tensor = sparse;
  Onnx__TensorProto *inside = external(build, "not-used.bin"); /* the entry is there, its data is not outside */
  inside->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
  add_initializer(build, inside);
}

static void test_everywhere(void **state) {
  (void)state;
  static const char *const kNames[] = {"a/attribute.bin", "listed.bin", "first.bin",
                                       "branch.bin",      "values.bin", "indices.bin"};
  onnx_build build;
  braid_model_locations found;
  build_all(&build);
  write_model(&build);
  if (braid_onnx_locations(NULL, path, &found) != BRAID_OK) fail_msg("%s", braid_error_detail());
  assert_int_equal(found.count, sizeof kNames / sizeof *kNames);
  for (size_t i = 0; i < found.count; i++) assert_string_equal(found.names[i], kNames[i]);
  braid_model_locations_deinit(NULL, &found);
}

static void test_refused(void **state) {
  (void)state;
  static const char *const kWrong[] = {"../x", "/etc/passwd", "a/../../x", "", ".", "a/.."};
  onnx_build build;
  braid_model_locations found;
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++) {
    build_begin(&build, 17);
    add_initializer(&build, external(&build, "fine.bin"));
    add_initializer(&build, external(&build, kWrong[i]));
    write_model(&build);
    assert_int_equal(braid_onnx_locations(NULL, path, &found), BRAID_INVALID_FILE);
    assert_non_null(strstr(braid_error_detail(), "model.onnx: external data at"));
    braid_model_locations_deinit(NULL, &found);
  }
  FILE *file = fopen(path, "w");
  fputs("this is no model", file);
  fclose(file);
  assert_int_equal(braid_onnx_locations(NULL, path, &found), BRAID_INVALID_FILE);
  braid_model_locations_deinit(NULL, &found);
  assert_int_equal(braid_onnx_locations(NULL, "/nowhere.onnx", &found), BRAID_NOT_FOUND);
  braid_model_locations_deinit(NULL, &found);
}

static void test_many(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    onnx_build build;
    braid_model_locations found;
    build_begin(&build, 17);
    size_t count = BRAID_MODEL_MOST_LOCATIONS + (size_t)more;
    build.graph.initializer = build_new(&build, count * sizeof(void *));
    for (size_t i = 0; i < count; i++) {
      char name[32];
      snprintf(name, sizeof name, "t%zu", i);
      add_initializer(&build, external(&build, name));
    }
    write_model(&build);
    assert_int_equal(braid_onnx_locations(NULL, path, &found), more ? BRAID_INVALID_FILE : BRAID_OK);
    assert_int_equal(found.count, BRAID_MODEL_MOST_LOCATIONS);
    braid_model_locations_deinit(NULL, &found);
  }
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_model_locations found;
  braid_status status = braid_onnx_locations(allocator, path, &found);
  braid_model_locations_deinit(allocator, &found);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  onnx_build build;
  build_all(&build);
  write_model(&build);
  assert_true(oom_sweep(attempt, NULL) > 10);
}

static int set_up(void **state) {
  if (make_folder(state) != 0) return -1;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_everywhere), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_many), cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, set_up, remove_folder);
}
