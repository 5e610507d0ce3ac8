/* What is written can be read again, means the same, and ONNX Runtime agrees (where BRAID_PYTHON names a Python that
 * has it). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/philox.h"
#include "braid/model.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "model/darknet.h"
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
  braid_status status = braid_darknet_import(NULL, "net.cfg", kNetwork, strlen(kNetwork), NULL, 11, &graph);
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
  return graph;
}

static void check(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Runs the graph on numbers from a seed; the input and the output go to files, and the output is returned. */
static braid_tensor *computed(const braid_graph *graph, bool keep) {
  braid_session *session;
  check(braid_session_create(graph, &(braid_session_options){.threads = 1}, &session));
  braid_tensor *input, *output;
  check(braid_tensor_create(NULL, braid_session_input(session, 0), &input));
  check(braid_tensor_create(NULL, braid_session_output(session, 0), &output));
  float *data = braid_tensor_data(input);
  int64_t count = braid_desc_count(braid_tensor_desc(input));
  for (int64_t i = 0; i < count; i++) data[i] = braid_random_normal(3, 0, 0, (uint64_t)i);
  check(braid_session_run(session, (const void *const[]){data}, (void *const[]){braid_tensor_data(output)}));
  braid_session_destroy(session);
  if (keep) check(braid_npy_save(in_folder("input.npy"), input));
  if (keep) check(braid_npy_save(in_folder("output.npy"), output));
  braid_tensor_release(input);
  return output;
}

static void test_round_trip(void **state) {
  (void)state;
  braid_graph *graph = network(), *again;
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  check(braid_model_load(NULL, in_folder("model.onnx"), NULL, &again));
  assert_int_equal(braid_graph_node_count(again), braid_graph_node_count(graph));
  for (size_t i = 0; i < braid_graph_node_count(graph); i++)
    assert_string_equal(braid_graph_node(again, (braid_node_id)i).op, braid_graph_node(graph, (braid_node_id)i).op);
  braid_tensor *one = computed(graph, false), *other = computed(again, false);
  const braid_desc *desc = braid_tensor_desc(one);
  assert_true(braid_desc_same_shape(desc, braid_tensor_desc(other)));
  assert_memory_equal(braid_tensor_const_data(one), braid_tensor_const_data(other), braid_desc_bytes(desc));
  braid_tensor_release(one);
  braid_tensor_release(other);
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
}

static void test_onnx_runtime_agrees(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  if (!python || !*python) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  braid_graph *graph = network();
  check(braid_model_save_onnx(graph, in_folder("model.onnx")));
  braid_tensor_release(computed(graph, true));
  braid_graph_destroy(graph);
  char command[1024];
  snprintf(command, sizeof command, "'%s' '%s/../onnx_check.py' '%s' '%s' -- '%s'", python, BRAID_TEST_DATA,
           in_folder("model.onnx"), in_folder("input.npy"), in_folder("output.npy"));
  assert_int_equal(system(command), 0);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_onnx_runtime_agrees),
      cmocka_unit_test(test_training_form_is_left_out),
      cmocka_unit_test(test_nothing_half_written),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
