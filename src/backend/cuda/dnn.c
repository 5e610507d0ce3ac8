#include "backend/cuda/dnn.h"

#include <dlfcn.h>
#include <string.h>

#include "backend/cuda/compiler.h"
#include "backend/cuda/few_channels.h"
#include "base/detail.h"
#include "base/library.h"
#include "base/try.h"
#include "graph/geometry.h"
#include "graph/precision.h"
#include "launch/families.h"
#include "launch/planner.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 * As NVIDIA's "cuDNN API" has its convolutions. */
typedef int dnn_code;
typedef void *dnn_handle, *dnn_tensor, *dnn_filter, *dnn_convolution, *dnn_activation;

typedef struct dnn_found { /* cudnnConvolutionFwdAlgoPerf_t and its likes */
  int algorithm;
  dnn_code status;
  float time;
  size_t memory;
  int determinism, math;
  int reserved[3];
} dnn_found;

enum {
  kFloat = 0, /* CUDNN_DATA_FLOAT */
  kFloat16 = 2,
  kBfloat16 = 9,
  kNchw = 0, /* CUDNN_TENSOR_NCHW */
  kNhwc = 1,
  kCrossCorrelation = 1,
  kTensorMath = 1, /* CUDNN_TENSOR_OP_MATH: for operands of 16 bits; those of float32 are rounded to TF32 */
  kFmaMath = 3,
  kDeterministic = 1,
  kRelu = 1, /* CUDNN_ACTIVATION_RELU */
  kIdentity = 5,
  kPropagateNan = 1,
  kPrecomputedGemm = 1, /* CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM */
  kWinogradForward = 7, /* CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, and those of the gradients */
  kWinogradGradient = 5,
  kWinogradBatch = 8,
  kBatchOfFloat = 8,
  kWinogradOutputs = 4096,
  kMostAlgorithms = 16,
};
static const size_t kMostWorkspace = (size_t)2 << 30;

typedef struct dnn_api {
  size_t (*version)(void);
  dnn_code (*create)(dnn_handle *handle);
  dnn_code (*destroy)(dnn_handle handle);
  dnn_code (*set_stream)(dnn_handle handle, braid_cuda_stream stream);
  dnn_code (*tensor_create)(dnn_tensor *tensor);
  dnn_code (*tensor_destroy)(dnn_tensor tensor);
  dnn_code (*tensor_set)(dnn_tensor tensor, int type, int rank, const int *dims, const int *steps);
  dnn_code (*filter_create)(dnn_filter *filter);
  dnn_code (*filter_destroy)(dnn_filter filter);
  dnn_code (*filter_set)(dnn_filter filter, int type, int format, int rank, const int *dims);
  dnn_code (*conv_create)(dnn_convolution *conv);
  dnn_code (*conv_destroy)(dnn_convolution conv);
  dnn_code (*conv_set)(dnn_convolution conv, int rank, const int *pads, const int *strides, const int *dilations,
                       int mode, int type);
  dnn_code (*conv_groups)(dnn_convolution conv, int groups);
  dnn_code (*conv_math)(dnn_convolution conv, int math);
  dnn_code (*activation_create)(dnn_activation *activation);
  dnn_code (*activation_destroy)(dnn_activation activation);
  dnn_code (*activation_set)(dnn_activation activation, int mode, int nan, double coefficient);
  dnn_code (*forward_find)(dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_convolution conv, dnn_tensor y, int room,
                           int *count, dnn_found *found);
  dnn_code (*forward_bytes)(dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_convolution conv, dnn_tensor y,
                            int algorithm, size_t *bytes);
  dnn_code (*forward)(dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_filter of_w,
                      const void *w, dnn_convolution conv, int algorithm, void *workspace, size_t bytes,
                      const void *beta, dnn_tensor of_y, void *y);
  dnn_code (*fused)(dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_filter of_w,
                    const void *w, dnn_convolution conv, int algorithm, void *workspace, size_t bytes, const void *beta,
                    dnn_tensor of_z, const void *z, dnn_tensor of_bias, const void *bias, dnn_activation activation,
                    dnn_tensor of_y, void *y);
  dnn_code (*data_find)(dnn_handle handle, dnn_filter w, dnn_tensor dy, dnn_convolution conv, dnn_tensor dx, int room,
                        int *count, dnn_found *found);
  dnn_code (*data)(dnn_handle handle, const void *alpha, dnn_filter of_w, const void *w, dnn_tensor of_dy,
                   const void *dy, dnn_convolution conv, int algorithm, void *workspace, size_t bytes, const void *beta,
                   dnn_tensor of_dx, void *dx);
  dnn_code (*weights_find)(dnn_handle handle, dnn_tensor x, dnn_tensor dy, dnn_convolution conv, dnn_filter dw,
                           int room, int *count, dnn_found *found);
  dnn_code (*weights)(dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x, dnn_tensor of_dy,
                      const void *dy, dnn_convolution conv, int algorithm, void *workspace, size_t bytes,
                      const void *beta, dnn_filter of_dw, void *dw);
} dnn_api;

struct braid_cuda_dnn {
  dnn_api api;
  pthread_mutex_t lock; /* of the handle, which has one stream at a time */
  dnn_handle handle;
  void *library;
};

static const char *const kLibraries[] = {"libcudnn.so.9", "libcudnn.so.8"};

static bool dnn_find_functions(void *library, dnn_api *api) {
  const braid_library_function functions[] = {
      {"cudnnGetVersion", &api->version},
      {"cudnnCreate", &api->create},
      {"cudnnDestroy", &api->destroy},
      {"cudnnSetStream", &api->set_stream},
      {"cudnnCreateTensorDescriptor", &api->tensor_create},
      {"cudnnDestroyTensorDescriptor", &api->tensor_destroy},
      {"cudnnSetTensorNdDescriptor", &api->tensor_set},
      {"cudnnCreateFilterDescriptor", &api->filter_create},
      {"cudnnDestroyFilterDescriptor", &api->filter_destroy},
      {"cudnnSetFilterNdDescriptor", &api->filter_set},
      {"cudnnCreateConvolutionDescriptor", &api->conv_create},
      {"cudnnDestroyConvolutionDescriptor", &api->conv_destroy},
      {"cudnnSetConvolutionNdDescriptor", &api->conv_set},
      {"cudnnSetConvolutionGroupCount", &api->conv_groups},
      {"cudnnSetConvolutionMathType", &api->conv_math},
      {"cudnnCreateActivationDescriptor", &api->activation_create},
      {"cudnnDestroyActivationDescriptor", &api->activation_destroy},
      {"cudnnSetActivationDescriptor", &api->activation_set},
      {"cudnnGetConvolutionForwardAlgorithm_v7", &api->forward_find},
      {"cudnnGetConvolutionForwardWorkspaceSize", &api->forward_bytes},
      {"cudnnConvolutionForward", &api->forward},
      {"cudnnConvolutionBiasActivationForward", &api->fused},
      {"cudnnGetConvolutionBackwardDataAlgorithm_v7", &api->data_find},
      {"cudnnConvolutionBackwardData", &api->data},
      {"cudnnGetConvolutionBackwardFilterAlgorithm_v7", &api->weights_find},
      {"cudnnConvolutionBackwardFilter", &api->weights},
  };
  return !braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
}

void braid_cuda_dnn_open(braid_cuda_device *device) {
  braid_cuda_dnn *dnn = braid_zalloc(NULL, sizeof *dnn);
  if (!dnn) return;
  for (size_t i = 0; !dnn->library && i < sizeof kLibraries / sizeof *kLibraries; i++)
    dnn->library = dlopen(kLibraries[i], RTLD_NOW | RTLD_LOCAL);
  if (dnn->library && dnn_find_functions(dnn->library, &dnn->api) && !dnn->api.create(&dnn->handle)) {
    pthread_mutex_init(&dnn->lock, NULL);
    device->dnn = dnn;
    return;
  }
  braid_free(NULL, dnn);
}

void braid_cuda_dnn_close(braid_cuda_device *device) {
  if (!device->dnn) return;
  (void)device->dnn->api.destroy(device->dnn->handle);
  pthread_mutex_destroy(&device->dnn->lock);
  braid_free(NULL, device->dnn);
  device->dnn = NULL;
}

size_t braid_cuda_dnn_version(const braid_cuda_device *device) {
  return device->dnn ? device->dnn->api.version() : 0;
}

static braid_status fail_dnn(dnn_code code, const char *what) {
  return braid_fail(code / 1000 == 3 ? BRAID_UNSUPPORTED : BRAID_INTERNAL, "cuDNN, %s: code %d", what, code);
}

#define DNN_TRY(call, what)                                                                                            \
  do {                                                                                                                 \
    dnn_code try_code_ = (call);                                                                                       \
    if (try_code_) return fail_dnn(try_code_, what);                                                                   \
  } while (0)

/* --- geometry ------------------------------------------------------------------------------------------------------
 */
typedef enum direction { kForward, kByInputs, kByWeights } direction;

static bool read_convolution(direction to, const braid_node_desc *node, braid_convolution *conv) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc;
  return (to == kForward    ? braid_geometry_conv(node->attrs, a, b, conv)
          : to == kByInputs ? braid_geometry_conv_grad_input(node->attrs, a, b, conv)
                            : braid_geometry_conv_grad_filter(node->attrs, a, b, conv)) == BRAID_OK;
}

/* cuDNN pads both ends alike; what it then leaves out at the end must be what is left out here. */
static bool match_window(const braid_window *w, char *why, size_t why_bytes) {
  for (int d = 0; d < BRAID_WINDOW_RANK; d++) {
    int64_t seen = (w->kernel[d] - 1) * w->dilation[d] + 1, room = w->input[d] + 2 * w->begin[d] - seen;
    if (w->begin[d] < 0 || room < 0 || room / w->stride[d] + 1 != w->output[d])
      return braid_launch_refuse(why, why_bytes, "pads that differ between the ends");
  }
  return true;
}

/* --- preparing -----------------------------------------------------------------------------------------------------
 */
/* How operands lie: two spatial dimensions (`first` 1) where the third is one of one element. */
typedef struct dnn_form {
  int type, first;
  bool channels_last;
} dnn_form;

typedef struct dnn_state {
  dnn_form form;
  dnn_tensor x, y, bias;
  dnn_filter w;
  dnn_convolution conv;
  dnn_activation activation;
  int algorithm;
  size_t workspace_bytes;
  bool fused, has_added;
} dnn_state;

/* What tensor cores read: numbers of 16 bits with the channels of a place side by side. */
static bool is_channels_last(const braid_node_desc *node) {
  return braid_dtype_is_half(node->inputs[0].desc.dtype) && node->inputs[0].desc.rank == 4;
}

static dnn_form form_of(const braid_node_desc *node, const braid_window *w) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  bool two = w->input[0] == 1 && w->output[0] == 1 && w->kernel[0] == 1 && w->begin[0] == 0;
  return (dnn_form){.type = dtype == BRAID_F16    ? kFloat16
                            : dtype == BRAID_BF16 ? kBfloat16
                                                  : kFloat,
                    .first = two,
                    .channels_last = is_channels_last(node)};
}

static braid_status make_tensor(const dnn_api *api, const dnn_form *form, int64_t batch, int64_t channels,
                                const int64_t *spatial, dnn_tensor *out) {
  int dims[5], steps[5], rank = 5 - form->first, step = 1;
  dims[0] = (int)batch;
  dims[1] = (int)channels;
  for (int d = form->first; d < BRAID_WINDOW_RANK; d++) dims[2 + d - form->first] = spatial ? (int)spatial[d] : 1;
  if (form->channels_last) {
    steps[1] = 1;
    step = dims[1];
  }
  for (int i = rank; i-- > 0;) {
    if (form->channels_last && i == 1) continue;
    steps[i] = step;
    step *= dims[i];
  }
  DNN_TRY(api->tensor_create(out), "a tensor");
  DNN_TRY(api->tensor_set(*out, form->type, rank, dims, steps), "a tensor");
  return BRAID_OK;
}

static braid_status make_weights(const dnn_api *api, const dnn_form *form, const braid_convolution *conv,
                                 dnn_filter *out) {
  int dims[5] = {(int)conv->outputs, (int)(conv->inputs / conv->groups)};
  for (int d = form->first; d < BRAID_WINDOW_RANK; d++) dims[2 + d - form->first] = (int)conv->window.kernel[d];
  DNN_TRY(api->filter_create(out), "weights");
  DNN_TRY(api->filter_set(*out, form->type, form->channels_last ? kNhwc : kNchw, 5 - form->first, dims), "weights");
  return BRAID_OK;
}

static braid_status make_convolution(const dnn_api *api, const braid_convolution *conv, int first, bool tensor_cores,
                                     dnn_convolution *out) {
  const braid_window *w = &conv->window;
  int pads[BRAID_WINDOW_RANK], strides[BRAID_WINDOW_RANK], dilations[BRAID_WINDOW_RANK];
  for (int d = first; d < BRAID_WINDOW_RANK; d++) {
    pads[d - first] = (int)w->begin[d];
    strides[d - first] = (int)w->stride[d];
    dilations[d - first] = (int)w->dilation[d];
  }
  DNN_TRY(api->conv_create(out), "a convolution");
  DNN_TRY(api->conv_set(*out, BRAID_WINDOW_RANK - first, pads, strides, dilations, kCrossCorrelation, kFloat),
          "a convolution");
  DNN_TRY(api->conv_groups(*out, (int)conv->groups), "groups");
  DNN_TRY(api->conv_math(*out, tensor_cores ? kTensorMath : kFmaMath), "arithmetic");
  return BRAID_OK;
}

static bool is_usable(const dnn_found *found) {
  return !found->status && found->determinism == kDeterministic && found->memory <= kMostWorkspace;
}

/* Of those that give the same bits every time the first, for they are listed by how long they should take. But of a
 * convolution by 3 x 3 taps in float32 the list puts sums of products before Winograd's algorithm, which takes less
 * than half as many operations. */
static const dnn_found *best_of(const dnn_found *found, int count, direction to, bool winograd) {
  const dnn_found *best = NULL;
  int wanted = to == kForward ? kWinogradForward : kWinogradGradient;
  for (int i = 0; i < count; i++) {
    if (!is_usable(&found[i])) continue;
    if (winograd && found[i].algorithm == wanted) return &found[i];
    if (!best) best = &found[i];
  }
  return best;
}

/* Measured on an H100 for VGG16: with images one at a time it takes 1.7 times as long as what the list has, with 32 a
 * third. */
static bool is_for_winograd(const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  bool many = conv->batch >= kWinogradBatch && conv->batch * braid_window_outputs(w) >= kWinogradOutputs;
  bool fits = many && w->kernel[0] == 1 && conv->groups == 1 && conv->inputs >= 16 && conv->outputs >= 16;
  for (int d = 1; d < BRAID_WINDOW_RANK; d++)
    fits = fits && w->kernel[d] == 3 && w->stride[d] == 1 && w->dilation[d] == 1;
  return fits;
}

static braid_status choose_algorithm(const braid_cuda_dnn *dnn, direction to, bool winograd, dnn_state *state) {
  const dnn_api *api = &dnn->api;
  dnn_found found[kMostAlgorithms];
  int count = 0;
  dnn_code code =
      to == kForward
          ? api->forward_find(dnn->handle, state->x, state->w, state->conv, state->y, kMostAlgorithms, &count, found)
      : to == kByInputs
          ? api->data_find(dnn->handle, state->w, state->y, state->conv, state->x, kMostAlgorithms, &count, found)
          : api->weights_find(dnn->handle, state->x, state->y, state->conv, state->w, kMostAlgorithms, &count, found);
  const dnn_found *best = code ? NULL : best_of(found, count, to, winograd);
  if (best) {
    state->algorithm = best->algorithm;
    state->workspace_bytes = best->memory;
    return BRAID_OK;
  }
  return code ? fail_dnn(code, "looking for an algorithm")
              : braid_fail(BRAID_UNSUPPORTED, "cuDNN has no algorithm that gives the same bits every time");
}

/* With an activation that does nothing cuDNN takes this algorithm alone. */
static braid_status choose_fused(const braid_cuda_dnn *dnn, dnn_state *state) {
  state->algorithm = kPrecomputedGemm;
  DNN_TRY(dnn->api.forward_bytes(dnn->handle, state->x, state->w, state->conv, state->y, kPrecomputedGemm,
                                 &state->workspace_bytes),
          "the algorithm for fused convolutions");
  if (state->workspace_bytes > kMostWorkspace)
    return braid_fail(BRAID_UNSUPPORTED, "cuDNN's algorithm for fused convolutions takes %zu bytes beside",
                      state->workspace_bytes);
  return BRAID_OK;
}

static braid_status make_fused(const dnn_api *api, const braid_node_desc *node, const braid_convolution *conv,
                               dnn_state *state) {
  int mode = braid_attr_has(node->attrs, "activation") ? kRelu : kIdentity;
  DNN_TRY(api->activation_create(&state->activation), "an activation");
  DNN_TRY(api->activation_set(state->activation, mode, kPropagateNan, 0), "an activation");
  return make_tensor(api, &state->form, 1, conv->outputs, NULL, &state->bias);
}

static bool allows_tf32(const braid_cuda_device *device, const braid_node_desc *node) {
  return device->tf32 || braid_allows_tf32(node->attrs);
}

static braid_status make_state(const braid_cuda_device *device, direction to, const braid_node_desc *node,
                               dnn_state *state) {
  const dnn_api *api = &device->dnn->api;
  braid_convolution conv;
  if (!read_convolution(to, node, &conv)) return braid_fail(BRAID_INTERNAL, "a convolution that was not matched");
  const dnn_form *form = &state->form;
  state->form = form_of(node, &conv.window);
  bool single = form->type == kFloat && !allows_tf32(device, node);
  state->fused = to == kForward && braid_launch_has_input(node, 2);
  state->has_added = to == kForward && braid_launch_has_input(node, 3);
  BRAID_TRY(make_tensor(api, form, conv.batch, conv.inputs, conv.window.input, &state->x));
  BRAID_TRY(make_tensor(api, form, conv.batch, conv.outputs, conv.window.output, &state->y));
  BRAID_TRY(make_weights(api, form, &conv, &state->w));
  BRAID_TRY(make_convolution(api, &conv, form->first, !single, &state->conv));
  if (state->fused) BRAID_TRY(make_fused(api, node, &conv, state));
  bool identity = state->fused && !braid_attr_has(node->attrs, "activation");
  return identity ? choose_fused(device->dnn, state)
                  : choose_algorithm(device->dnn, to, single && is_for_winograd(&conv), state);
}

static void dnn_discard(const braid_cuda_device *device, void *which) {
  const dnn_api *api = &device->dnn->api;
  dnn_state *state = which;
  dnn_tensor tensors[] = {state->x, state->y, state->bias};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    if (tensors[i]) (void)api->tensor_destroy(tensors[i]);
  if (state->w) (void)api->filter_destroy(state->w);
  if (state->conv) (void)api->conv_destroy(state->conv);
  if (state->activation) (void)api->activation_destroy(state->activation);
  braid_free(NULL, state);
}

static braid_status prepare_direction(const braid_cuda_device *device, direction to, const braid_node_desc *node,
                                      void **out, size_t *workspace_bytes) {
  dnn_state *state = braid_zalloc(NULL, sizeof *state);
  if (!state) return BRAID_NO_MEMORY;
  pthread_mutex_lock(&device->dnn->lock);
  braid_cuda_enter(device);
  braid_status status = make_state(device, to, node, state);
  braid_cuda_leave(device);
  pthread_mutex_unlock(&device->dnn->lock);
  *out = status == BRAID_OK ? state : NULL;
  *workspace_bytes = state->workspace_bytes;
  if (status != BRAID_OK) dnn_discard(device, state);
  return status;
}

static braid_status forward_prepare(braid_cuda_device *device, const braid_node_desc *node, void **state,
                                    size_t *workspace_bytes) {
  return prepare_direction(device, kForward, node, state, workspace_bytes);
}

static braid_status by_inputs_prepare(braid_cuda_device *device, const braid_node_desc *node, void **state,
                                      size_t *workspace_bytes) {
  return prepare_direction(device, kByInputs, node, state, workspace_bytes);
}

static braid_status by_weights_prepare(braid_cuda_device *device, const braid_node_desc *node, void **state,
                                       size_t *workspace_bytes) {
  return prepare_direction(device, kByWeights, node, state, workspace_bytes);
}

/* --- matching ------------------------------------------------------------------------------------------------------
 */
/* Only cuDNN knows what it has an algorithm for. */
static bool match_library(const braid_cuda_device *device, direction to, const braid_node_desc *node, char *why,
                          size_t why_bytes) {
  void *state = NULL;
  size_t bytes;
  if (prepare_direction(device, to, node, &state, &bytes) != BRAID_OK) {
    (void)braid_launch_refuse(why, why_bytes, "%s", braid_error_detail());
    braid_clear_detail();
    return false;
  }
  dnn_discard(device, state);
  return true;
}

/* Measured on an H100 in float32: with images one at a time own kernels take 0.5 (ResNet-50), 0.74 (MobileNet v2) and
 * 0.83 (VGG16) of the time, with 8 the same, with 32 cuDNN's take 0.78 and 0.34. */
static bool is_slower(const braid_cuda_device *device, direction to, const braid_node_desc *node,
                      const braid_convolution *conv) {
  bool single = node->inputs[0].desc.dtype == BRAID_F32 && !allows_tf32(device, node);
  return to == kForward && single && !device->all_libraries && conv->batch < kBatchOfFloat;
}

/* Measured on an H100 for MobileNet v2 in float16 with 32 images: cuDNN's kernels for one channel in a group took 0.45
 * to 0.74 ms in its three largest layers, which read and write what takes 0.03 ms. */
static bool is_own(const braid_cuda_device *device, direction to, const braid_node_desc *node,
                   const braid_convolution *conv) {
  char why[256];
  if (to == kByWeights || conv->groups != conv->inputs || device->all_libraries) return false;
  if (!braid_launch_family_depthwise.kernels->match(node, why, sizeof why)) return false;
  bool compiles = braid_cuda_compiler_check(device->capability) == BRAID_OK;
  braid_clear_detail();
  return compiles;
}

/* cuDNN 9.14 gives an algorithm for it, and a workspace, and then refuses to run it (float16, 16 groups of one channel,
 * 3 x 3, on an H200). */
static bool is_refused_late(direction to, const braid_node_desc *node, const braid_convolution *conv) {
  return to == kByInputs && conv->groups > 1 && braid_dtype_is_half(node->inputs[0].desc.dtype) &&
         (conv->inputs / conv->groups % 8 || conv->outputs / conv->groups % 8);
}

static bool has_large(const braid_operand *operands, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (operands[i].present && braid_desc_count(&operands[i].desc) > INT32_MAX / 2) return true;
  return false;
}

static bool match_convolution(const braid_cuda_device *device, direction to, const braid_node_desc *node, char *why,
                              size_t why_bytes) {
  braid_convolution conv;
  if (!device->dnn) return braid_launch_refuse(why, why_bytes, "there is no cuDNN");
  if (!braid_launch_match_real(node, why, why_bytes)) return false;
  if (!read_convolution(to, node, &conv)) return braid_launch_refuse(why, why_bytes, "geometry");
  if (conv.batch < 1 || conv.inputs < 1 || conv.outputs < 1 || braid_window_volume(&conv.window) < 1 ||
      braid_window_inputs(&conv.window) < 1 || braid_window_outputs(&conv.window) < 1)
    return braid_launch_refuse(why, why_bytes, "an empty operand");
  if (has_large(node->inputs, node->input_count) || has_large(node->outputs, node->output_count))
    return braid_launch_refuse(why, why_bytes, "an operand of more than 2^30 elements");
  if (is_slower(device, to, node, &conv))
    return braid_launch_refuse(why, why_bytes, "fewer than %d images in float32: own kernels are faster",
                               (int)kBatchOfFloat);
  if (is_refused_late(to, node, &conv))
    return braid_launch_refuse(why, why_bytes,
                               "16 bits and groups of other than eights of channels: cuDNN's kernel fails");
  if (to != kByInputs && !device->all_libraries && braid_cuda_few_channels_takes(device, node))
    return braid_launch_refuse(why, why_bytes, "few channels in 16 bits: own kernels have tensor cores for them");
  if (is_own(device, to, node, &conv))
    return braid_launch_refuse(why, why_bytes, "one channel in a group in 16 bits: own kernels are faster");
  return match_window(&conv.window, why, why_bytes) && match_library(device, to, node, why, why_bytes);
}

static bool forward_match(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes) {
  const char *activation = braid_attr_string(node->attrs, "activation", NULL);
  if (activation && strcmp(activation, "Relu") != 0)
    return braid_launch_refuse(why, why_bytes, "activation %.40s", activation);
  bool bias = braid_launch_has_input(node, 2);
  if (!bias && (activation || braid_launch_has_input(node, 3)))
    return braid_launch_refuse(why, why_bytes, "something is fused to it, and no bias");
  return match_convolution(device, kForward, node, why, why_bytes);
}

static bool by_inputs_match(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes) {
  return match_convolution(device, kByInputs, node, why, why_bytes);
}

static bool by_weights_match(const braid_cuda_device *device, const braid_node_desc *node, char *why,
                             size_t why_bytes) {
  return match_convolution(device, kByWeights, node, why, why_bytes);
}

/* Images and filters of 16 bits lie channels last; the bias is a row. */
void braid_cuda_dnn_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  bool last = is_channels_last(node);
  for (size_t i = 0; i < node->input_count; i++) {
    bool image = node->inputs[i].present && node->inputs[i].desc.rank == 4;
    inputs[i] = last && image ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
  }
  outputs[0] = last ? BRAID_LAYOUT_BHWC : BRAID_LAYOUT_PLAIN;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static const float kOne = 1, kZero = 0;

static void *operand_of(const braid_cuda_call *call, size_t i) {
  return (void *)(uintptr_t)call->operands[i];
}

static dnn_code call_forward(const braid_cuda_dnn *dnn, const dnn_state *s, const braid_cuda_call *call) {
  void *y = operand_of(call, call->input_count), *workspace = (void *)(uintptr_t)call->workspace;
  if (!s->fused)
    return dnn->api.forward(dnn->handle, &kOne, s->x, operand_of(call, 0), s->w, operand_of(call, 1), s->conv,
                            s->algorithm, workspace, s->workspace_bytes, &kZero, s->y, y);
  return dnn->api.fused(dnn->handle, &kOne, s->x, operand_of(call, 0), s->w, operand_of(call, 1), s->conv, s->algorithm,
                        workspace, s->workspace_bytes, s->has_added ? &kOne : &kZero, s->y,
                        s->has_added ? operand_of(call, 3) : y, s->bias, operand_of(call, 2), s->activation, s->y, y);
}

static dnn_code call_by_inputs(const braid_cuda_dnn *dnn, const dnn_state *s, const braid_cuda_call *call) {
  return dnn->api.data(dnn->handle, &kOne, s->w, operand_of(call, 1), s->y, operand_of(call, 0), s->conv, s->algorithm,
                       (void *)(uintptr_t)call->workspace, s->workspace_bytes, &kZero, s->x,
                       operand_of(call, call->input_count));
}

static dnn_code call_by_weights(const braid_cuda_dnn *dnn, const dnn_state *s, const braid_cuda_call *call) {
  return dnn->api.weights(dnn->handle, &kOne, s->x, operand_of(call, 0), s->y, operand_of(call, 1), s->conv,
                          s->algorithm, (void *)(uintptr_t)call->workspace, s->workspace_bytes, &kZero, s->w,
                          operand_of(call, call->input_count));
}

static braid_status enqueue_direction(const braid_cuda_device *device,
                                      dnn_code (*run)(const braid_cuda_dnn *, const dnn_state *,
                                                      const braid_cuda_call *),
                                      const void *state, const braid_cuda_call *call) {
  braid_cuda_dnn *dnn = device->dnn;
  pthread_mutex_lock(&dnn->lock);
  dnn_code code = dnn->api.set_stream(dnn->handle, call->stream);
  if (!code) code = run(dnn, state, call);
  pthread_mutex_unlock(&dnn->lock);
  return code ? fail_dnn(code, "a convolution") : BRAID_OK;
}

static braid_status forward_enqueue(braid_cuda_device *device, void *state, const braid_cuda_call *call) {
  return enqueue_direction(device, call_forward, state, call);
}

static braid_status by_inputs_enqueue(braid_cuda_device *device, void *state, const braid_cuda_call *call) {
  return enqueue_direction(device, call_by_inputs, state, call);
}

static braid_status by_weights_enqueue(braid_cuda_device *device, void *state, const braid_cuda_call *call) {
  return enqueue_direction(device, call_by_weights, state, call);
}

const braid_cuda_library_kernel braid_cuda_dnn_forward = {
    .match = forward_match, .prepare = forward_prepare, .discard = dnn_discard, .enqueue = forward_enqueue};
const braid_cuda_library_kernel braid_cuda_dnn_by_inputs = {
    .match = by_inputs_match, .prepare = by_inputs_prepare, .discard = dnn_discard, .enqueue = by_inputs_enqueue};
const braid_cuda_library_kernel braid_cuda_dnn_by_weights = {
    .match = by_weights_match, .prepare = by_weights_prepare, .discard = dnn_discard, .enqueue = by_weights_enqueue};
