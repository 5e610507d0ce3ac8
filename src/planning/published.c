/* What Hype-training publishes of its evaluation (section 5), as numbers, and the training steps of its six networks.
 */
#include <string.h>

#include "base/try.h"
#include "braid/model.h"
#include "planning/machine.h"

static const braid_hybrid_model kModels[BRAID_HYBRID_MODELS] = {
    {"AlexNet", 256, 22.22, 36.05, "MatMul Conv2D Relu Mul AddN MaxPool", 40.5, 15.4, 22.1, 5666, 6313},
    {"ResNet50", 256, 27.78, 41.84, "MatMul BatchNorm L2Loss Conv2D Relu Mul", 46.2, 12.3, 15.8, 904, 1077},
    {"VGG16", 256, 27.78, 23.33, "MatMul BiasAdd Conv2D Relu Mul", 35.6, 4.8, 15.6, 741, 775},
    {"InceptionV3", 256, 23.81, 38.75, "MatMul Transpose Conv2D Relu ReluGrad Mul", 59.7, 18.9, 21.7, 757, 882},
    {"DCGAN", 256, 17.54, 24.31, "MatMul Transpose Conv2D Relu Mul", 40.9, 5.6, 13.7, 2641, 2928},
    {"BERT-Large", 10, 19.32, 25.16, "MatMul Add Norm Mul Transpose Softmax", 43.2, 9.7, 17.1, 35, 37},
};

const braid_hybrid_model *braid_hybrid_models(void) {
  return kModels;
}

static const braid_hybrid_text kText = {
    .throughput = 10.1,
    .power = -23.3,
    .efficiency = 44.3,
    .movement = -11.1,
    .left_on_gpu = 17.8,
    .two_throughput = 11.2,
    .two_efficiency = 46.6,
    .two_power = -24.1,
    .against_one_throughput = 85.1,
    .against_one_power = 124,
    .one_efficiency = 20.9,
    .four_power = -14.2,
    .four_efficiency = 40.4,
    .violations_250 = 127459,
    .violations_210 = 306811,
};

const braid_hybrid_text *braid_hybrid_texts(void) {
  return &kText;
}

static const braid_hybrid_kernel kKernels[BRAID_HYBRID_KERNELS] = {
    {"MatMul", 1, 8, 256, 256, 2.595, 17.9, 0},    {"MatMul", 2, 4, 256, 128, 3.480, 20.95, 0},
    {"MatMul", 1, 16, 128, 128, 4.188, 49.09, 0},  {"MatMul", 2, 1, 128, 64, 9.594, 81.81, 210},
    {"MatMul", 4, 2, 64, 64, 16.515, 142.57, 241}, {"Conv2D", 2, 4, 64, 64, 2.532, 19.34, 0},
    {"Conv2D", 1, 8, 64, 32, 5.154, 26.47, 0},     {"Conv2D", 2, 16, 32, 32, 8.134, 55.88, 0},
    {"Conv2D", 4, 4, 32, 16, 11.173, 61.48, 0},    {"Conv2D", 4, 8, 16, 8, 18.576, 128.94, 0},
    {"MaxPool", 3, 8, 256, 256, 0.284, 30.62, 0},  {"MaxPool", 2, 4, 128, 64, 0.793, 74.7, 0},
    {"MaxPool", 2, 16, 128, 32, 1.396, 88.33, 0},  {"MaxPool", 1, 8, 64, 32, 2.275, 130.89, 0},
    {"MaxPool", 4, 1, 32, 1, 2.768, 148.42, 0},
};

const braid_hybrid_kernel *braid_hybrid_kernels(void) {
  return kKernels;
}

/* --- networks ------------------------------------------------------------------------------------------------------
 */
static braid_status load_text(const braid_allocator *allocator, const char *name, braid_graph **out) {
  for (size_t i = 0; i < braid_network_text_count; i++) {
    const braid_planning_file *file = &braid_network_texts[i];
    if (strcmp(file->name, name) != 0) continue;
    return braid_model_parse(
        allocator,
        &(braid_model_memory){
            .data = file->text, .bytes = file->bytes, .format = BRAID_MODEL_DARKNET, .name = file->name},
        out);
  }
  *out = NULL;
  return braid_fail(BRAID_INTERNAL, "the library lacks %s", name);
}

braid_status braid_hybrid_step(const braid_allocator *allocator, size_t model, int64_t batch, braid_graph **out) {
  static const char *const kFiles[BRAID_HYBRID_MODELS] = {"alexnet",      "resnet50",        "vgg16",
                                                          "inception-v3", "dcgan-generator", "bert-large"};
  braid_graph *graph = NULL, *discriminator = NULL;
  *out = NULL;
  if (model >= BRAID_HYBRID_MODELS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "there are %d models", BRAID_HYBRID_MODELS);
  BRAID_TRY(load_text(allocator, kFiles[model], &graph));
  braid_status status = BRAID_OK;
  if (strcmp(kFiles[model], "dcgan-generator") == 0)
    status = load_text(allocator, "dcgan-discriminator", &discriminator);
  if (status == BRAID_OK) status = braid_planning_step(graph, discriminator, batch, out);
  braid_graph_destroy(discriminator);
  braid_graph_destroy(graph);
  return status;
}
