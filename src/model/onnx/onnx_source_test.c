/* Models in files: where external data is looked for, and what happens when a file changes while it is in use. */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "braid/model.h"
#include "braid/session.h"
#include "damage.h"
#include "folder.h"
#include "model/onnx/onnx_build.h"
#include "oom.h"

enum { COUNT = 30000 }; /* of weights: many pages */

static const char *in_folder(const char *name) {
  static char paths[4][256];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static float weight(int i) {
  return (float)(i % 1001) - 500;
}

static void put_weights(const char *name, size_t offset) {
  float *data = calloc(COUNT + offset, sizeof *data);
  assert_non_null(data);
  for (int i = 0; i < COUNT; i++) data[offset + (size_t)i] = weight(i);
  assert_int_equal(braid_file_write(NULL, in_folder(name), data, (COUNT + offset) * sizeof *data), BRAID_OK);
  free(data);
}

static void add_entry(onnx_build *build, Onnx__TensorProto *proto, const char *key, const char *value) {
  Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = build_text(build, key);
  entry->value = build_text(build, value);
  proto->external_data[proto->n_external_data++] = entry;
}

static void make_external(onnx_build *build, Onnx__TensorProto *proto, const char *location) {
  proto->has_data_location = true;
  proto->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  proto->external_data = build_new(build, 2 * sizeof(void *));
  add_entry(build, proto, "location", location);
}

static void put_model(onnx_build *build, const char *name) {
  size_t bytes;
  uint8_t *packed = build_pack(build, &bytes);
  build_end(build);
  assert_int_equal(braid_file_write(NULL, in_folder(name), packed, bytes), BRAID_OK);
  free(packed);
}

/* y = x + w; `location` NULL: the weights are in the model's own file. */
static void put_sum(const char *name, const char *location) {
  onnx_build build;
  float *data = malloc(COUNT * sizeof *data);
  assert_non_null(data);
  for (int i = 0; i < COUNT; i++) data[i] = weight(i);
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){COUNT});
  Onnx__TensorProto *w = build_tensor(&build, "w", 1, COUNT, location ? NULL : data, COUNT * sizeof *data);
  if (location) {
    make_external(&build, w, location);
    add_entry(&build, w, "offset", "40");
  }
  build.graph.initializer[build.graph.n_initializer++] = w;
  build_node(&build, &build.graph, "Add", "x w", "y");
  build_output(&build, &build.graph, "y");
  put_model(&build, name);
  free(data);
}

static void expect_sum(braid_session *session) {
  float *x = calloc(COUNT, sizeof *x), *y = calloc(COUNT, sizeof *y);
  assert_true(x && y);
  for (int i = 0; i < COUNT; i++) x[i] = (float)i;
  if (braid_session_run(session, (const void *[]){x}, (void *[]){y}) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (int i = 0; i < COUNT; i++)
    if (y[i] != x[i] + weight(i)) fail_msg("element %d is %g, not %g", i, y[i], x[i] + weight(i));
  free(x);
  free(y);
}

static braid_session *open_session(const char *name) {
  braid_graph *graph;
  braid_session *session;
  if (braid_model_load(NULL, in_folder(name), NULL, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  if (braid_session_create(graph, NULL, &session) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
  return session;
}

static void expect_good(const char *name) {
  braid_session *session = open_session(name);
  expect_sum(session);
  braid_session_destroy(session);
}

static void expect_refused(const char *name, braid_status status, const char *says) {
  braid_graph *graph;
  braid_status got = braid_model_load(NULL, in_folder(name), NULL, &graph);
  assert_null(graph);
  if (got != status || !strstr(braid_error_detail(), says))
    fail_msg("%s: \"%s\", expected %s with \"%s\"", braid_status_text(got), braid_error_detail(),
             braid_status_text(status), says);
}

/* --- where external data is --------------------------------------------------------------------------------------- */
/* A hub's cache: names in a folder per revision, contents elsewhere under their hash. */
static void test_symbolic_links(void **state) {
  (void)state;
  assert_int_equal(braid_make_directories(in_folder("hub/blobs")), BRAID_OK);
  assert_int_equal(braid_make_directories(in_folder("hub/snapshots/1/onnx")), BRAID_OK);
  put_sum("hub/blobs/a1b2", "model.onnx_data");
  put_weights("hub/blobs/c3d4", 10);
  assert_int_equal(symlink("../../../blobs/a1b2", in_folder("hub/snapshots/1/onnx/model.onnx")), 0);
  expect_refused("hub/snapshots/1/onnx/model.onnx", BRAID_NOT_FOUND, "model.onnx_data");
  assert_int_equal(symlink("../../../blobs/c3d4", in_folder("hub/snapshots/1/onnx/model.onnx_data")), 0);
  expect_good("hub/snapshots/1/onnx/model.onnx");
}

/* A link to a model whose data stands beside the model, not beside the link. */
static void test_link_to_a_model(void **state) {
  (void)state;
  assert_int_equal(braid_make_directories(in_folder("there")), BRAID_OK);
  put_sum("there/model.onnx", "model.data");
  put_weights("there/model.data", 10);
  assert_int_equal(symlink("there/model.onnx", in_folder("link.onnx")), 0);
  expect_good("link.onnx");
}

static void test_dots_in_locations(void **state) {
  (void)state;
  static const char *const kInside[] = {"w.bin", "./w.bin", "./sub/../w.bin", "a//b/../../w.bin",
                                        "no/such/../../w.bin"};
  static const char *const kOutside[] = {"../w.bin", "sub/../../w.bin", "..", "/etc/hostname", "", "./.."};
  put_weights("w.bin", 10);
  for (size_t i = 0; i < sizeof kInside / sizeof *kInside; i++) {
    put_sum("dots.onnx", kInside[i]);
    expect_good("dots.onnx");
  }
  for (size_t i = 0; i < sizeof kOutside / sizeof *kOutside; i++) {
    put_sum("dots.onnx", kOutside[i]);
    expect_refused("dots.onnx", BRAID_INVALID_FILE, "external data at");
  }
  assert_int_equal(chdir(folder), 0);
  put_sum("dots.onnx", "./w.bin"); /* and without a folder in the model's own path */
  braid_graph *graph;
  assert_int_equal(braid_model_load(NULL, "dots.onnx", NULL, &graph), BRAID_OK);
  braid_graph_destroy(graph);
}

static void test_external_data_that_is_no_file(void **state) {
  (void)state;
  assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
  alarm(10); /* ends a test that waits for a writer */
  put_sum("model.onnx", "fifo");
  expect_refused("model.onnx", BRAID_INVALID_FILE, "is a FIFO");
  put_sum("model.onnx", ".");
  expect_refused("model.onnx", BRAID_INVALID_FILE, "is a folder");
  assert_int_equal(unlink(in_folder("model.onnx")), 0);
  assert_int_equal(mkfifo(in_folder("model.onnx"), 0666), 0);
  expect_refused("model.onnx", BRAID_INVALID_FILE, "model.onnx: is a FIFO");
  alarm(0);
  assert_int_equal(unlink(in_folder("model.onnx")), 0);
}

/* Some exporters write a file for each tensor, more than a process may have open. */
static void test_a_file_for_each_tensor(void **state) {
  (void)state;
  onnx_build build;
  char name[64], inputs[64];
  enum { FILES = 40 };
  build_begin(&build, 17);
  build_input(&build, "x", 1, (int64_t[]){COUNT});
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof name, "w%d", i);
    put_weights(name, 0);
    Onnx__TensorProto *w = build_tensor(&build, name, 1, COUNT, NULL, 0);
    make_external(&build, w, name);
    build.graph.initializer[build.graph.n_initializer++] = w;
    if (i)
      snprintf(inputs, sizeof inputs, "y%d w%d", i - 1, i);
    else
      snprintf(inputs, sizeof inputs, "x w0");
    snprintf(name, sizeof name, "y%d", i);
    build_node(&build, &build.graph, "Add", inputs, name);
  }
  build_output(&build, &build.graph, name);
  put_model(&build, "many.onnx");
  struct rlimit before, few = {20, 20};
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few.rlim_max = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  braid_graph *graph;
  braid_status status = braid_model_load(NULL, in_folder("many.onnx"), NULL, &graph);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_graph_destroy(graph);
}

/* --- files that change -------------------------------------------------------------------------------------------- */
static void test_files_that_change_under_an_open_session(void **state) {
  (void)state;
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    put_sum("own.onnx", NULL);
    put_sum("external.onnx", "data");
    put_weights("data", 10);
    braid_session *own = open_session("own.onnx"), *external = open_session("external.onnx");
    damage(in_folder("own.onnx"), kind);
    damage(in_folder("external.onnx"), kind);
    damage(in_folder("data"), kind);
    expect_sum(own);
    expect_sum(external);
    braid_session_destroy(own);
    braid_session_destroy(external);
  }
}

/* Between loading and the session: the graph has its own weights too. */
static void test_files_that_change_under_a_graph(void **state) {
  (void)state;
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    braid_graph *graph;
    braid_session *session;
    put_sum("own.onnx", NULL);
    assert_int_equal(braid_model_load(NULL, in_folder("own.onnx"), NULL, &graph), BRAID_OK);
    damage(in_folder("own.onnx"), kind);
    assert_int_equal(braid_session_create(graph, NULL, &session), BRAID_OK);
    expect_sum(session);
    braid_session_destroy(session);
    braid_graph_destroy(graph);
  }
}

static void nap(void) {
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* the clock of files goes in steps */
}

/* While it is being loaded: what was opened, or a sentence. */
static void test_files_that_change_while_they_are_loaded(void **state) {
  (void)state;
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    bool gone = kind == DAMAGE_REPLACE || kind == DAMAGE_REMOVE;
    braid_onnx_source source;
    braid_graph *graph;
    put_sum("own.onnx", NULL);
    nap();
    assert_int_equal(braid_onnx_source_open(NULL, in_folder("own.onnx"), &source), BRAID_OK);
    damage(in_folder("own.onnx"), kind);
    braid_status status = braid_onnx_import(&source, &graph);
    assert_true(gone ? status == BRAID_OK : status == BRAID_INVALID_FILE || status == BRAID_IO);
    assert_non_null(strstr(gone ? "own.onnx" : braid_error_detail(), "own.onnx"));
    braid_graph_destroy(graph);
    braid_onnx_source_close(&source);
  }
}

/* Between two of its tensors. */
static void test_external_data_that_changes_while_it_is_loaded(void **state) {
  (void)state;
  static const char *const kSays[] = {"it had", "changed while it was read", NULL, NULL};
  for (damage_kind kind = 0; kind < DAMAGE_KINDS; kind++) {
    onnx_build build;
    braid_onnx_source source;
    braid_tensor *tensor;
    put_weights("data", 10);
    nap();
    build_begin(&build, 17);
    Onnx__TensorProto *w = build_tensor(&build, "w", 1, COUNT, NULL, 0);
    make_external(&build, w, "data");
    assert_int_equal(braid_file_write(NULL, in_folder("model.onnx"), "", 1), BRAID_OK);
    assert_int_equal(braid_onnx_source_open(NULL, in_folder("model.onnx"), &source), BRAID_OK);
    assert_int_equal(braid_onnx_tensor(&source, w, &tensor), BRAID_OK);
    braid_tensor_release(tensor);
    damage(in_folder("data"), kind);
    braid_status status = braid_onnx_tensor(&source, w, &tensor);
    braid_tensor_release(tensor);
    if (status == BRAID_OK) status = braid_onnx_source_check(&source);
    assert_int_equal(status, kSays[kind] ? BRAID_IO : BRAID_OK);
    if (kSays[kind]) assert_non_null(strstr(braid_error_detail(), kSays[kind]));
    braid_onnx_source_close(&source);
    build_end(&build);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_symbolic_links),
      cmocka_unit_test(test_link_to_a_model),
      cmocka_unit_test(test_dots_in_locations),
      cmocka_unit_test(test_external_data_that_is_no_file),
      cmocka_unit_test(test_a_file_for_each_tensor),
      cmocka_unit_test(test_files_that_change_under_an_open_session),
      cmocka_unit_test(test_files_that_change_under_a_graph),
      cmocka_unit_test(test_files_that_change_while_they_are_loaded),
      cmocka_unit_test(test_external_data_that_changes_while_it_is_loaded),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
