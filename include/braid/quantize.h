/* Post-training quantization: a float model becomes one of 8-bit integers, as an ONNX graph of QuantizeLinear and
 * DequantizeLinear nodes, in the forms that Braid and ONNX Runtime compute in integers (docs/quantization.md).
 *
 * A number r is stood for by q with r = (q - zero point) * scale (Jacob et al., "Quantization and Training of Neural
 * Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018, eq. 1). Weights are int8 with zero point 0 and
 * a scale per output channel, activations are one byte with one scale and zero point per tensor, biases are int32 with
 * the product of both scales (Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference",
 * arXiv:1806.08342, 2018, sections 2 and 3). The ranges of activations are measured on samples. With `power_of_two`
 * every scale is 2^e and every zero point 0, one scale per tensor (Qiu et al., FPGA 2016, section 4.2). */
#ifndef BRAID_QUANTIZE_H
#define BRAID_QUANTIZE_H

#include "braid/data.h"
#include "braid/session.h"

/* How a range of activations follows from the numbers seen. Ranges always contain 0, which padding needs to be exact.
 */
typedef enum braid_calibration {
  BRAID_CALIBRATE_MINMAX,     /* the least and the greatest */
  BRAID_CALIBRATE_PERCENTILE, /* the middle `percentile` percent: as much is cut off at either end */
  BRAID_CALIBRATE_ENTROPY,    /* the threshold on the absolute value that loses least information, by the
                                 Kullback-Leibler divergence (Migacz, "8-bit Inference with TensorRT", GTC 2017) */
} braid_calibration;
BRAID_API const char *braid_calibration_name(braid_calibration calibration); /* "minmax" ... */

/* Where samples come from: data sets, or arrays. */
typedef struct braid_quantize_data {
  braid_dataset *calibration; /* NULL: `inputs` */
  braid_dataset *test;        /* what accuracy is measured on; NULL: `calibration` */
  /* One for each input of the model, in their order and of their types; dimension 0 counts the samples. There are no
   * labels then, and the same samples are for calibration and for the test. */
  const braid_tensor *const *inputs;
  size_t input_count;
} braid_quantize_data;

/* Called as work goes on; `phase` is a literal ("calibrating"). If it returns false, the call ends with CANCELLED. */
typedef bool braid_quantize_callback(void *context, const char *phase, int64_t done, int64_t total);

/* All zero is the default. */
typedef struct braid_quantize_options {
  braid_calibration calibration;
  double percentile;       /* above 0, at most 100; 0: 99.999 */
  bool per_tensor;         /* one scale for all weights of a layer */
  bool signed_activations; /* int8 instead of uint8 */
  bool reduce_range;       /* weights of 7 bits, -63 to 63: sums of two products then fit 16 bits, which processors
                              without VNNI instructions saturate to in ONNX Runtime. Braid does not need it */
  bool power_of_two;       /* every scale is 2^e with the least squared error, every zero point 0: per_tensor and
                              signed_activations hold then, whatever they say. For hardware that computes with shifts */
  /* Patterns ('*', '?') of names of nodes that stay in float; NOT_FOUND if one matches none. */
  const char *const *keep;
  size_t keep_count;
  int64_t samples;      /* for calibration, at most; 0: 512 */
  int64_t test_samples; /* at most; 0: 1000; fewer where the model's outputs for all of them would take more than
                           512 MiB */
  int64_t batch;        /* samples per run; 0: 32. A model of fixed batch is run with its own */
  int64_t layers;       /* how many layers are left in float, one at a time, to see what each costs: those that lose
                           most by themselves first; 0: 16; -1: none */
  uint64_t seed;        /* which samples of the data set are drawn for calibration */
  const braid_session_options *session; /* where to run; NULL: the CPU */
  braid_quantize_callback *callback;    /* NULL: none */
  void *context;
} braid_quantize_options;

/* How near a quantized model is to the float one. */
typedef struct braid_quantize_score {
  double accuracy;  /* share of samples whose class has the highest score; NAN: the samples have no classes, or not as
                       many as the model has scores */
  double agreement; /* share of samples with the same highest score as the float model; NAN: the first output is no list
                       of scores */
  double sqnr; /* 10 log10(energy of the float outputs / energy of the difference), over all outputs of type float32,
                  before a last Softmax or LogSoftmax; INFINITY: no difference */
} braid_quantize_score;

/* A convolution or product: also those that have no form over bytes, such as ConvTranspose and LSTM. */
typedef struct braid_quantize_layer {
  const char *name, *op;
  const char *why;              /* why it stays in float; NULL: it is quantized */
  double sqnr;                  /* of its result when it alone is quantized, before an activation; NAN: not quantized */
  bool tried;                   /* `without` was measured */
  braid_quantize_score without; /* of the model when this layer alone is left in float */
} braid_quantize_layer;

/* A quantized activation. */
typedef struct braid_quantize_tensor {
  const char *name;
  double least, greatest; /* seen in calibration */
  double low, high;       /* the range chosen, which contains 0 */
  float scale;
  int32_t zero_point;
} braid_quantize_tensor;

/* Everything is owned by the result. */
typedef struct braid_quantize_result {
  braid_graph *graph;            /* to be written by braid_model_save_onnx; open dimensions are those of the model */
  int64_t samples, test_samples; /* that were used */
  braid_quantize_score before;   /* the float model: its accuracy */
  braid_quantize_score after;
  braid_quantize_layer *layers; /* in the order of the model */
  size_t layer_count;
  braid_quantize_tensor *tensors;
  size_t tensor_count;
  struct braid_arena *names;
} braid_quantize_result;

/* Quantizes a model, which is not changed. Batch normalization is folded into convolutions first; then convolutions,
 * products with constant matrices and what stands between them are computed on bytes, the rest stays in float.
 *
 * NOT_FINITE: weights or, in calibration, activations that are NaN or infinite; the detail names the node. UNSUPPORTED:
 * there is no layer to quantize (with the reason for the first), or the model has conditionals. INVALID_ARGUMENT: the
 * model is quantized already, or the samples do not fit it. `result` is cleared first; release it with
 * braid_quantize_result_deinit, also after a failure. */
BRAID_API BRAID_MUST_CHECK braid_status braid_quantize(const braid_graph *model, const braid_quantize_data *data,
                                                       const braid_quantize_options *options,
                                                       braid_quantize_result *result);
BRAID_API void braid_quantize_result_deinit(braid_quantize_result *result);

#endif
