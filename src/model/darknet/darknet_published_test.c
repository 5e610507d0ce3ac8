/* The networks of models/ that others published: their trained parameters, exactly, and multiply-accumulates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/model.h"
#include "braid/session.h"
#include "graph/graph.h"

typedef struct published {
  const char *file;
  int64_t parameters, added; /* added: biases that Darknet's layers have and the published network lacks */
  double macs;               /* of one sample; 0: none published */
  const char *source;
} published;

static const published kPublished[] = {
    {"alexnet", 60965224, 0, 0.724e9, "Caffe's bvlc_alexnet; Sze et al. 2017, Table II: 724 M"},
    {"vgg16", 138357544, 0, 15.47e9, "torchvision VGG16_Weights: num_params, _ops"},
    {"resnet50", 25557032, 0, 4.089e9, "torchvision ResNet50_Weights: num_params, _ops"},
    {"inception-v3", 27161264, 0, 5.713e9,
     "torchvision Inception_V3_Weights: num_params with the auxiliary classifier, "
     "_ops without it"},
    {"dcgan-generator", 3576704, 3, 0, "the generator of PyTorch's example dcgan; one bias a colour more"},
    {"dcgan-discriminator", 2765568, 65, 0, "its discriminator; 64 biases and one more"},
    {"bert-large", 334094338, 0, 0, "transformers, BertForQuestionAnswering of bert-large-uncased"},
};

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void path_of(const char *name, char path[512]) {
  snprintf(path, 512, "%s/../../models/%s.cfg", BRAID_TEST_DATA, name);
}

static void set_batch_of_one(braid_graph *graph) {
  braid_value_id input = braid_graph_input(graph, 0);
  braid_desc desc = braid_graph_value(graph, input).desc;
  desc.dims[0] = 1;
  ok(braid_graph_set_input_shape(graph, input, desc.rank, desc.dims));
  ok(braid_graph_infer(graph, NULL));
}

static double macs_of(braid_graph *graph) {
  double sum = 0;
  set_batch_of_one(graph);
  for (size_t i = 0; i < braid_graph_node_count(graph); i++)
    sum += (double)braid_graph_node_macs(graph, (braid_node_id)i);
  return sum;
}

static int64_t parameters_of(braid_graph *graph) {
  int64_t sum = 0;
  ok(braid_graph_make_trainable(graph));
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].kind == BRAID_VALUE_PARAMETER) sum += braid_desc_count(&graph->values[i].desc);
  return sum;
}

static void test_parameters(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kPublished / sizeof *kPublished; i++) {
    const published *p = &kPublished[i];
    char path[512];
    braid_graph *graph;
    path_of(p->file, path);
    ok(braid_model_load(NULL, path, NULL, &graph));
    int64_t parameters = parameters_of(graph);
    braid_graph_destroy(graph);
    if (parameters != p->parameters + p->added)
      fail_msg("%s: %lld parameters, expected %lld and %lld more (%s)", p->file, (long long)parameters,
               (long long)p->parameters, (long long)p->added, p->source);
  }
}

static void test_multiply_accumulates(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kPublished / sizeof *kPublished; i++) {
    const published *p = &kPublished[i];
    char path[512];
    braid_graph *graph;
    if (p->macs == 0) continue;
    path_of(p->file, path);
    ok(braid_model_load(NULL, path, NULL, &graph));
    graph->output_count = 1; /* auxiliary classifiers are not counted */
    ok(braid_graph_compact(graph));
    double macs = macs_of(graph);
    braid_graph_destroy(graph);
    if (fabs(macs / p->macs - 1) > 0.002) fail_msg("%s: %.5g, expected %.5g (%s)", p->file, macs, p->macs, p->source);
  }
}

/* ELECTRA (Clark et al. 2020), Table 1: a sequence of 128 through BERT-Large is 7.9e10 floating-point operations, a
 * multiplication and an addition being two. */
static void test_bert_at_128(void **state) {
  (void)state;
  char path[512], text[4096];
  path_of("bert-large", path);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  char *steps = strstr(text, "time_steps=384");
  assert_non_null(steps);
  memcpy(steps, "time_steps=128", strlen("time_steps=128"));
  braid_graph *graph;
  ok(braid_model_parse(
      NULL, &(braid_model_memory){.name = "bert.cfg", .data = text, .bytes = length, .format = BRAID_MODEL_DARKNET},
      &graph));
  double operations = 2 * macs_of(graph);
  braid_graph_destroy(graph);
  if (fabs(operations / 7.9e10 - 1) > 0.005) fail_msg("%.5g operations", operations);
}

/* Forward operations of the seed's six networks, layer by layer as their papers draw them. */
static void test_layers(void **state) {
  (void)state;
  static const struct {
    const char *file, *op;
    size_t count;
  } kCounts[] = {
      {"alexnet", "Conv", 5},
      {"alexnet", "Gemm", 3},
      {"vgg16", "Conv", 13},
      {"vgg16", "Gemm", 3},
      {"vgg16", "MaxPool", 5},
      {"resnet50", "Conv", 53},
      {"resnet50", "Add", 16},
      {"inception-v3", "Conv", 96},
      {"inception-v3", "Concat", 11},
      {"inception-v3", "AveragePool", 10},
      {"inception-v3", "Gemm", 2},
      {"dcgan-generator", "ConvTranspose", 5},
      {"dcgan-discriminator", "Conv", 5},
      {"bert-large", "Gemm", 6 * 24 + 1},
      {"bert-large", "MatMul", 2 * 24},
      {"bert-large", "LayerNormalization", 2 * 24 + 1},
      {"bert-large", "Softmax", 24 + 1},
      {"bert-large", "Gelu", 24},
  };
  for (size_t i = 0; i < sizeof kCounts / sizeof *kCounts; i++) {
    char path[512];
    braid_graph *graph;
    size_t count = 0;
    path_of(kCounts[i].file, path);
    ok(braid_model_load(NULL, path, NULL, &graph));
    for (size_t n = 0; n < graph->node_count; n++) count += strcmp(graph->nodes[n].op->name, kCounts[i].op) == 0;
    braid_graph_destroy(graph);
    if (count != kCounts[i].count)
      fail_msg("%s: %zu of %s, expected %zu", kCounts[i].file, count, kCounts[i].op, kCounts[i].count);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parameters),
      cmocka_unit_test(test_multiply_accumulates),
      cmocka_unit_test(test_bert_at_128),
      cmocka_unit_test(test_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
