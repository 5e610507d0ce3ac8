/* Darknet files: every .cfg of the collection (BRAID_DATA), the ones in models/, and small ones with what is wrong with
 * them. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/log.h"
#include "braid/model.h"
#include "braid/session.h"
#include "model/darknet/darknet.h"
#include "oom.h"
#include "skip.h"

static const braid_log *test_log; /* NULL: none */

static braid_status import(const char *text, braid_graph **out) {
  return braid_darknet_import(NULL, "net.cfg", text, strlen(text), NULL, 7, test_log, out);
}

static braid_graph *imported(const char *text) {
  braid_graph *graph;
  if (import(text, &graph) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return graph;
}

static void refused(const char *text, braid_status status, const char *words) {
  braid_graph *graph;
  braid_status got = import(text, &graph);
  if (got != status || !strstr(braid_error_detail(), words))
    fail_msg("%s: \"%s\", expected %s with \"%s\"", braid_status_text(got), braid_error_detail(),
             braid_status_text(status), words);
  assert_null(graph);
}

#define NET "[net]\nheight=8\nwidth=8\nchannels=4\n"
#define WORDS "[net]\ninputs=1\ntime_steps=3\n"

static void test_errors_name_the_line(void **state) {
  (void)state;
  refused("", BRAID_INVALID_FILE, "empty");
  refused("height=8\n", BRAID_INVALID_FILE, "net.cfg:1:");
  refused("# x\n\n[convolutional]\n", BRAID_INVALID_FILE, "net.cfg:3:");
  refused("[net]\n", BRAID_INVALID_FILE, "height, width and channels");
  refused(NET, BRAID_INVALID_FILE, "no layers");
  refused(NET "[convolutional]\nfilters=x\n", BRAID_INVALID_FILE, "net.cfg:6: [convolutional] filters=x");
  refused(NET "[convolutional]\nfilters=99999999\n", BRAID_INVALID_FILE, "net.cfg:6:");
  refused(NET "[convolutional]\nsize=9\n", BRAID_INVALID_FILE, "net.cfg:5:");
  refused(NET "[convolutional]\nfilters\n", BRAID_INVALID_FILE, "key=value");
  refused(NET "[convolutional\nfilters=2\n", BRAID_INVALID_FILE, "[section]");
  refused(NET "[nonsense]\n", BRAID_INVALID_FILE, "is no type of layer");
  refused(NET "[maxpool]\n[route]\nlayers=1\n", BRAID_INVALID_FILE, "net.cfg:6: [route]");
  refused(NET "[maxpool]\n[shortcut]\nfrom=-2\n", BRAID_INVALID_FILE, "[shortcut]");
  refused(NET "[softmax]\ntree=a.tree\n", BRAID_UNSUPPORTED, "net.cfg:6: [softmax] tree=a.tree");
  refused(NET "[convolutional]\nbinary=1\n", BRAID_UNSUPPORTED, "binary=1");
  refused(NET "[convolutional]\nactivation=strange\n", BRAID_UNSUPPORTED, "activation=strange");
  refused(NET "[conv_lstm]\n", BRAID_UNSUPPORTED, "convolutional LSTM");
  refused(NET "[yolo]\nclasses=3\nnum=1\n", BRAID_INVALID_FILE, "channels");
  refused(NET "[transformer]\nheads=3\n", BRAID_INVALID_FILE, "net.cfg:5: [transformer] a step of 256 does not");
  refused(NET "[transformer]\nprobability=1\n", BRAID_INVALID_FILE, "probability is not in [0, 1)");
  refused(NET "[embedding]\nclasses=5\n", BRAID_INVALID_FILE, "takes 1 numbers a step, its input has 256");
  refused(WORDS "[embedding]\n", BRAID_INVALID_FILE, "net.cfg:4: [embedding] lacks classes=");
  refused(WORDS "[embedding]\nclasses=5\npositions=2\n", BRAID_INVALID_FILE, "positions=2, [net] has time_steps=3");
  refused(NET "[maxpool]\n[cost]\nscale=0.4\n[avgpool]\n[cost]\nscale=0.3\n[avgpool]\n", BRAID_UNSUPPORTED,
          "net.cfg:9: [cost] scale=0.3 before the last layer");
}

/* Text ends at no byte of value 0, wherever it stands. */
static void test_zero_bytes(void **state) {
  (void)state;
  static const char kText[] = NET "[maxpool]\nsize=2\n";
  for (size_t i = 0; i < sizeof kText; i++) {
    char text[sizeof kText + 1], place[64];
    int line = 1;
    memcpy(text, kText, i);
    text[i] = '\0';
    memcpy(text + i + 1, kText + i, sizeof kText - 1 - i);
    for (size_t k = 0; k < i; k++) line += text[k] == '\n';
    snprintf(place, sizeof place, "net.cfg:%d: holds a byte", line);
    braid_graph *graph;
    assert_int_equal(braid_darknet_import(NULL, "net.cfg", text, sizeof kText, NULL, 7, NULL, &graph),
                     BRAID_INVALID_FILE);
    if (!strstr(braid_error_detail(), place)) fail_msg("%zu: %s", i, braid_error_detail());
  }
}

/* Every key is read, or known to have no effect here, or refused. */
static void test_keys(void **state) {
  (void)state;
  static const char *const kSections[] = {
      "[convolutional]\n%s=1\n",
      "[deconvolutional]\n%s=1\n",
      "[connected]\n%s=1\n",
      "[local]\n%s=1\n",
      "[maxpool]\n%s=1\n",
      "[avgpool]\n%s=1\n",
      "[local_avgpool]\n%s=1\n",
      "[layernorm]\n%s=1\n",
      "[transformer]\n%s=1\n",
      "[sequence]\n%s=1\n",
      "[batchnorm]\n%s=1\n",
      "[normalization]\n%s=1\n",
      "[softmax]\n%s=1\n",
      "[dropout]\n%s=1\n",
      "[maxpool]\n[activation]\n%s=1\n",
      "[logistic]\n%s=1\n",
      "[l2norm]\n%s=1\n",
      "[maxpool]\n[cost]\n%s=1\n",
      "[crop]\n%s=1\n",
      "[upsample]\n%s=1\n",
      "[reorg]\n%s=1\n",
      "[rnn]\n%s=1\n",
      "[crnn]\n%s=1\n",
      "[gru]\n%s=1\n",
      "[lstm]\n%s=1\n",
      "[maxpool]\n[route]\nlayers=0\n%s=1\n",
      "[maxpool]\n[sam]\nfrom=0\n%s=1\n",
      "[maxpool]\n[shortcut]\nfrom=0\n%s=1\n",
      "[maxpool]\n[scale_channels]\nfrom=0\n%s=1\n",
      "[convolutional]\nfilters=6\n[yolo]\nclasses=1\n%s=1\n",
      "[convolutional]\nfilters=6\n[region]\nclasses=1\n%s=1\n",
      "[connected]\noutput=3\n[detection]\nclasses=1\nside=1\n%s=1\n",
  };
  for (size_t i = 0; i < sizeof kSections / sizeof *kSections; i++) {
    char text[256] = NET;
    braid_graph *graph;
    snprintf(text + strlen(NET), sizeof text - strlen(NET), kSections[i], "qqqqqqqq");
    refused(text, BRAID_INVALID_FILE, "has no key \"qqqqqqqq\"");
    if (strstr(braid_error_detail(), "mean")) fail_msg("%s", braid_error_detail());
    snprintf(text + strlen(NET), sizeof text - strlen(NET), kSections[i], "stopbackward"); /* of training alone */
    if (import(text, &graph) != BRAID_OK) fail_msg("%s: %s", kSections[i], braid_error_detail());
    braid_graph_destroy(graph);
  }
  refused(NET "hight=9\n[maxpool]\n", BRAID_INVALID_FILE,
          "net.cfg:5: [net] has no key \"hight\", did you mean \"height\"?");
  refused(NET "[convolutional]\nsise=3\n", BRAID_INVALID_FILE,
          "net.cfg:6: [convolutional] has no key \"sise\", did you mean \"size\"?");
  refused(NET "[convolutional]\nSize=3\n", BRAID_INVALID_FILE, "did you mean \"size\"?");
  refused(NET "[yolo]\n", BRAID_INVALID_FILE, "channels");
  refused(NET "[convolutional]\nfilters=6\n[yolo]\nclasses=1\nanchor=1,2\n", BRAID_INVALID_FILE,
          "net.cfg:9: [yolo] has no key \"anchor\", did you mean \"anchors\"?");
  refused(NET "[maxpool]\nanchors=1,2\n", BRAID_INVALID_FILE, "net.cfg:6: [maxpool] has no key \"anchors\"");
}

/* Known, and of an effect that is not supported here. */
static void test_keys_that_change_the_network(void **state) {
  (void)state;
  static const char *const kTexts[] = {
      "[convolutional]\ncoordconv=1\n",
      "[convolutional]\ndontload=1\n",
      "[connected]\nnumload=2\n",
      "[deconvolutional]\ngroups=2\n",
      "[crnn]\nsize=5\npad=1\n",
      "[maxpool]\nmaxpool_zero_nonmax=1\n",
      "[maxpool]\n[shortcut]\nfrom=0\nalpha=0.5\n",
  };
  for (size_t i = 0; i < sizeof kTexts / sizeof *kTexts; i++) {
    char text[256];
    snprintf(text, sizeof text, NET "%s", kTexts[i]);
    refused(text, BRAID_UNSUPPORTED, "is supported");
  }
  braid_graph_destroy(imported(NET "[maxpool]\n[shortcut]\nfrom=0\nalpha=1.0\nbeta=1\n"));
  braid_graph *graph = imported(NET "[crnn]\noutput_filters=5\nhidden_filters=3\n");
  braid_value_id id = braid_graph_find_value(graph, "0_crnn.output.weight");
  assert_int_equal(braid_graph_value(graph, id).desc.dims[0], 5);
  assert_int_equal(braid_graph_value(graph, id).desc.dims[1], 3);
  braid_graph_destroy(graph);
}

/* Darknet goes by the first of two; what both say is no contradiction. */
static void test_keys_given_twice(void **state) {
  (void)state;
  refused(NET "[convolutional]\nsize=3\nstride=1\nsize=5\n", BRAID_INVALID_FILE,
          "net.cfg:8: [convolutional] size=5, but line 6 says size=3");
  refused(NET "width=9\n[maxpool]\n", BRAID_INVALID_FILE, "net.cfg:5: [net] width=9, but line 3 says width=8");
  braid_graph_destroy(imported(NET "width=8\nbatch=1\nbatch=64\n[maxpool]\n"));
}

static void test_values(void **state) {
  (void)state;
  refused(NET "[convolutional]\nsize=3x\n", BRAID_INVALID_FILE, "net.cfg:6: [convolutional] size=3x");
  refused(NET "[convolutional]\nsize=3 # three\n", BRAID_INVALID_FILE, "net.cfg:6:");
  refused(NET "[convolutional]\nsize=\n", BRAID_INVALID_FILE, "net.cfg:6:");
  refused(NET "[convolutional]\nsize=3.5\n", BRAID_INVALID_FILE, "net.cfg:6:");
  refused(NET "[dropout]\nprobability=.5.5\n", BRAID_INVALID_FILE, "net.cfg:6:");
  refused(NET "[maxpool]\n[route]\nlayers=0,\n", BRAID_INVALID_FILE, "net.cfg:7:");
  refused(NET "[convolutional]\nactivation=leakyy\n", BRAID_UNSUPPORTED,
          "net.cfg:5: [convolutional] activation=leakyy");
}

static void hear(void *context, braid_log_level level, const char *message) {
  assert_int_equal(level, BRAID_LOG_INFO);
  strcat(context, message);
  strcat(context, "\n");
}

/* What has no effect is said, once a file and each key once. */
static void test_idle_keys_are_told(void **state) {
  (void)state;
  char heard[1024] = "";
  const braid_log log = {hear, heard};
  test_log = &log;
  braid_graph_destroy(imported(NET "batch=1\nsubdivisions=2\nbatch=3\n[cost]\ntype=sse\n[cost]\ntype=L1\n[maxpool]\n"));
  braid_graph_destroy(imported(NET "[maxpool]\n"));
  test_log = NULL;
  assert_string_equal(heard, "net.cfg: without effect here: batch subdivisions type\n");
}

static void assert_output(braid_graph *graph, size_t index, int rank, const int64_t *dims) {
  assert_int_equal(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 4, (int64_t[]){2, 4, 8, 8}),
                   BRAID_OK);
  if (braid_graph_infer(graph, NULL) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_value_info info = braid_graph_value(graph, braid_graph_output(graph, index));
  assert_int_equal(info.desc.rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(info.desc.dims[i], dims[i]);
}

static void test_shapes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int rank;
    int64_t dims[4];
  } kCases[] = {
      {NET "[convolutional]\nfilters=6\nsize=3\nstride=2\npad=1\n", 4, {2, 6, 4, 4}},
      {NET "[maxpool]\nsize=2\nstride=2\n", 4, {2, 4, 4, 4}},
      {NET "[maxpool]\nsize=2\nstride=1\n", 4, {2, 4, 8, 8}},
      {NET "[maxpool]\nsize=3\nstride=2\n", 4, {2, 4, 4, 4}},
      {NET "[maxpool]\nsize=5\nstride=1\n", 4, {2, 4, 8, 8}},
      {NET "[maxpool]\nsize=3\nstride=2\npadding=0\n", 4, {2, 4, 3, 3}},
      {NET "[local_avgpool]\nsize=3\nstride=2\npadding=0\n", 4, {2, 4, 3, 3}},
      {NET "[local_avgpool]\nsize=3\nstride=1\n", 4, {2, 4, 8, 8}},
      {NET "[convolutional]\nfilters=6\nsize_x=5\nsize_y=1\npad=1\n", 4, {2, 6, 8, 8}},
      {NET "[convolutional]\nfilters=6\nsize=3\nsize_x=5\n", 4, {2, 6, 6, 4}},
      {NET "[deconvolutional]\nfilters=6\nsize_x=4\nsize_y=2\nstride=2\n", 4, {2, 6, 16, 18}},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_graph *graph = imported(kCases[i].text);
    assert_output(graph, 0, kCases[i].rank, kCases[i].dims);
    braid_graph_destroy(graph);
  }
}

static void test_random_weights_follow_the_seed(void **state) {
  (void)state;
  static const char kText[] = NET "[convolutional]\nfilters=3\nsize=3\n[convolutional]\nfilters=3\nsize=1\n";
  braid_graph *graphs[3];
  for (uint64_t i = 0; i < 3; i++)
    assert_int_equal(braid_darknet_import(NULL, "net.cfg", kText, strlen(kText), NULL, i / 2, NULL, &graphs[i]),
                     BRAID_OK);
  const float *weights[3];
  for (int i = 0; i < 3; i++) {
    braid_value_id id = braid_graph_find_value(graphs[i], "0_convolutional.weight");
    assert_true(id >= 0);
    weights[i] = braid_tensor_const_data(braid_graph_value(graphs[i], id).tensor);
  }
  assert_memory_equal(weights[0], weights[1], 3 * 4 * 9 * sizeof(float));
  assert_memory_not_equal(weights[0], weights[2], 3 * 4 * 9 * sizeof(float));
  for (int i = 0; i < 3; i++) braid_graph_destroy(graphs[i]);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */
enum { CONV_FLOATS = 2 * 4 + 2 * 4 * 9, CONNECTED_FLOATS = 3 + 3 * 2 * 8 * 8, HEADER = 5 };

static const char kWeighted[] = NET "[convolutional]\nbatch_normalize=1\nfilters=2\nsize=3\npad=1\n"
                                    "[connected]\noutput=3\n";

static braid_status with_weights(int32_t major, int32_t minor, size_t floats, braid_graph **out) {
  size_t wide = major * 10 + minor >= 2 && major < 1000 && minor < 1000 ? HEADER : HEADER - 1;
  float *file = calloc(floats + wide, sizeof *file);
  assert_non_null(file);
  memcpy(file, (int32_t[]){major, minor, 0}, 3 * sizeof(int32_t));
  for (size_t i = 0; i < floats; i++) file[wide + i] = (float)i;
  braid_reader *weights;
  assert_int_equal(braid_reader_wrap(NULL, "net.weights", file, (floats + wide) * sizeof *file, &weights), BRAID_OK);
  braid_status status = braid_darknet_import(NULL, "net.cfg", kWeighted, strlen(kWeighted), weights, 0, NULL, out);
  braid_reader_close(weights);
  free(file);
  return status;
}

static double element(const braid_graph *graph, const char *name, int64_t index) {
  braid_value_id id = braid_graph_find_value(graph, name);
  if (id < 0) fail_msg("there is no value %s", name);
  return braid_tensor_get_f64(braid_graph_value(graph, id).tensor, index);
}

static void test_weights_in_darknets_order(void **state) {
  (void)state;
  for (int transposed = 0; transposed < 2; transposed++) {
    braid_graph *graph;
    if (with_weights(transposed ? 1001 : 0, 2, CONV_FLOATS + CONNECTED_FLOATS, &graph) != BRAID_OK)
      fail_msg("%s", braid_error_detail());
    assert_true(element(graph, "0_convolutional.bias", 1) == 1);
    assert_true(element(graph, "0_convolutional.scale", 0) == 2);
    assert_true(element(graph, "0_convolutional.mean", 0) == 4);
    assert_true(element(graph, "0_convolutional.variance", 1) == 7);
    assert_true(element(graph, "0_convolutional.weight", 0) == 8);
    assert_true(element(graph, "1_connected.bias", 0) == CONV_FLOATS);
    assert_true(element(graph, "1_connected.weight", 1) == CONV_FLOATS + 3 + (transposed ? 3 : 1));
    braid_graph_destroy(graph);
  }
}

static void test_weights_of_the_wrong_length(void **state) {
  (void)state;
  braid_graph *graph;
  assert_int_equal(with_weights(0, 2, CONV_FLOATS + CONNECTED_FLOATS - 1, &graph), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "net.weights ends"));
  assert_int_equal(with_weights(0, 2, CONV_FLOATS + CONNECTED_FLOATS + 1, &graph), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "the network of net.cfg takes"));
  assert_int_equal(with_weights(-5, 2, CONV_FLOATS + CONNECTED_FLOATS, &graph), BRAID_INVALID_FILE);
}

/* --- files -------------------------------------------------------------------------------------------------------- */
/* Every shape from the input to the outputs. */
static void check_shapes(braid_graph *graph, const char *path) {
  braid_value_id input = braid_graph_input(graph, 0);
  braid_desc desc = braid_graph_value(graph, input).desc;
  desc.dims[0] = 2;
  assert_int_equal(braid_graph_set_input_shape(graph, input, desc.rank, desc.dims), BRAID_OK);
  if (braid_graph_infer(graph, NULL) != BRAID_OK) fail_msg("%s: %s", path, braid_error_detail());
}

static size_t import_folder(const char *folder, size_t *unsupported) {
  DIR *directory = opendir(folder);
  size_t read = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    const char *ending = strrchr(entry->d_name, '.');
    if (!ending || strcmp(ending, ".cfg") != 0) continue;
    char path[512];
    snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
    braid_graph *graph;
    braid_status status = braid_model_load(NULL, path, NULL, &graph);
    if (status == BRAID_UNSUPPORTED) {
      print_message("[   note   ] %s\n", braid_error_detail());
      assert_non_null(strstr(braid_error_detail(), ".cfg:"));
      ++*unsupported;
    } else if (status != BRAID_OK) {
      fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
    } else {
      check_shapes(graph, path);
    }
    braid_graph_destroy(graph);
    read++;
  }
  if (directory) closedir(directory);
  return read;
}

static void test_our_own_networks(void **state) {
  (void)state;
  size_t unsupported = 0;
  assert_true(import_folder(BRAID_TEST_DATA "/../../models", &unsupported) >= 5);
  assert_int_equal(unsupported, 0);
}

/* Parameters and multiply-accumulates as Caffe's bvlc_alexnet has them, in both forms. */
static void test_alexnet_has_its_published_size(void **state) {
  (void)state;
  static const char *const kForms[] = {"alexnet.cfg", "alexnet-branches.cfg"};
  for (size_t form = 0; form < sizeof kForms / sizeof *kForms; form++) {
    char path[512];
    snprintf(path, sizeof path, "%s/../../models/%s", BRAID_TEST_DATA, kForms[form]);
    braid_graph *graph;
    assert_int_equal(braid_model_load(NULL, path, NULL, &graph), BRAID_OK);
    check_shapes(graph, path);
    int64_t parameters = 0, macs = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
      const braid_node *node = &graph->nodes[i];
      macs += braid_graph_node_macs(graph, (braid_node_id)i);
      if (strcmp(node->op->name, "Conv") != 0 && strcmp(node->op->name, "Gemm") != 0) continue;
      for (size_t k = 1; k < node->input_count; k++)
        parameters += braid_desc_count(&graph->values[node->inputs[k]].desc);
    }
    assert_int_equal(parameters, 60965224);
    assert_int_equal(macs, 2 * INT64_C(724406816)); /* of two samples */
    braid_graph_destroy(graph);
  }
}

static void test_darknets_own_networks(void **state) {
  (void)state;
  char folder[512];
  const char *data = getenv("BRAID_DATA");
  snprintf(folder, sizeof folder, "%s/models/darknet/cfg", data ? data : "");
  size_t unsupported = 0, read = data ? import_folder(folder, &unsupported) : 0;
  if (!read) skip_test("data", "there is no BRAID_DATA/models/darknet/cfg");
  print_message("[   note   ] %zu networks, %zu of them not supported\n", read, unsupported);
  assert_true(unsupported <= 3);
}

static void test_yolo_fastest(void **state) {
  (void)state;
  char cfg[512], weights[512];
  const char *data = getenv("BRAID_DATA");
  snprintf(cfg, sizeof cfg, "%s/models/yolo-fastest/yolo-fastest-1.1.cfg", data ? data : "");
  snprintf(weights, sizeof weights, "%s/models/yolo-fastest/yolo-fastest-1.1.weights", data ? data : "");
  FILE *there = data ? fopen(cfg, "r") : NULL;
  if (!there) skip_test("data", "there is no BRAID_DATA/models/yolo-fastest");
  fclose(there);
  braid_graph *graph;
  if (braid_model_load(NULL, cfg, &(braid_model_options){.weights = weights}, &graph) != BRAID_OK)
    fail_msg("%s", braid_error_detail());
  assert_int_equal(braid_graph_output_count(graph), 2); /* every byte of the weights was read */
  braid_graph_destroy(graph);
}

/* --- fresh memory --------------------------------------------------------------------------------------------------
 */
typedef struct filling_allocator {
  braid_allocator allocator;
  float number; /* what fresh memory holds */
} filling_allocator;

static void *allocate_filled(void *context, size_t bytes, size_t alignment) {
  const filling_allocator *filling = context;
  const braid_allocator *heap = braid_allocator_default();
  float *memory = heap->allocate(heap->context, bytes, alignment);
  for (size_t i = 0; memory && i < bytes / sizeof *memory; i++) memory[i] = filling->number;
  return memory;
}

static void release_filled(void *context, void *pointer) {
  (void)context;
  const braid_allocator *heap = braid_allocator_default();
  heap->release(heap->context, pointer);
}

/* Two convolutions, of which the second's normalization is folded into its weights. */
static void run_filled(float number, float out[8]) {
  static const char kText[] = "[net]\nheight=16\nwidth=16\nchannels=8\n"
                              "[convolutional]\nfilters=16\nsize=3\npad=1\nactivation=relu\n"
                              "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\npad=1\nactivation=linear\n"
                              "[avgpool]\n";
  static float x[8 * 16 * 16];
  filling_allocator filling = {.number = number};
  filling.allocator = (braid_allocator){&filling, allocate_filled, release_filled};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
  braid_graph *graph;
  braid_session *session;
  assert_int_equal(braid_darknet_import(&filling.allocator, "net.cfg", kText, sizeof kText - 1, NULL, 7, NULL, &graph),
                   BRAID_OK);
  if (braid_session_create(graph, &(braid_session_options){.devices = "cpu"}, &session) != BRAID_OK)
    fail_msg("%s", braid_error_detail());
  assert_int_equal(braid_session_run(session, (const void *[]){x}, (void *[]){out}), BRAID_OK);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* Random weights are computed late. Kernels that look at weights when they are chosen must not see what stood in their
 * memory before: ones would pass for filters of 8 bits. */
static void test_fresh_memory_decides_nothing(void **state) {
  (void)state;
  float right[8], out[8];
  run_filled(0.1F, right);
  run_filled(1, out);
  assert_memory_equal(out, right, sizeof right);
  run_filled(NAN, out);
  assert_memory_equal(out, right, sizeof right);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_graph *graph;
  braid_status status = braid_darknet_import(allocator, "net.cfg", context, strlen(context), NULL, 7, NULL, &graph);
  braid_graph_destroy(graph);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt, (void *)NET "[convolutional]\nfilters=2\nsize=3\nactivation=leaky\n[maxpool]\n") > 10);
  assert_true(oom_sweep(attempt, (void *)WORDS "[embedding]\nclasses=5\npositions=3\npadding=0\noutput=4\n"
                                               "[transformer]\nheads=2\nprobability=.1\n[sequence]\n") > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors_name_the_line),
      cmocka_unit_test(test_zero_bytes),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_keys_that_change_the_network),
      cmocka_unit_test(test_keys_given_twice),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_idle_keys_are_told),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_random_weights_follow_the_seed),
      cmocka_unit_test(test_weights_in_darknets_order),
      cmocka_unit_test(test_weights_of_the_wrong_length),
      cmocka_unit_test(test_our_own_networks),
      cmocka_unit_test(test_alexnet_has_its_published_size),
      cmocka_unit_test(test_darknets_own_networks),
      cmocka_unit_test(test_yolo_fastest),
      cmocka_unit_test(test_fresh_memory_decides_nothing),
      cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
