/* Geometry of sliding windows: what Conv, its gradients, ConvTranspose and pooling mean by strides, pads, dilations and
 * auto_pad, resolved once and checked, for shape inference and for the kernels of every backend.
 *
 * Windows have one, two or three spatial dimensions; kernels see always three. Dimension i of an op of `rank`
 * dimensions stands at BRAID_WINDOW_RANK - rank + i; the entries before it are those of a dimension of one element. All
 * numbers are below 2^31, so that products of two never overflow. Rules: ONNX operator specification, opset 22. */
#ifndef BRAID_GRAPH_GEOMETRY_H
#define BRAID_GRAPH_GEOMETRY_H

#include "braid/graph.h"

enum { BRAID_WINDOW_RANK = 3 };

/* Output o looks at the inputs o * stride - begin + k * dilation, k in [0, kernel), of which those outside [0, input)
 * are padding. */
typedef struct braid_window {
  int rank; /* spatial dimensions of the op: 1 to 3 */
  int64_t input[BRAID_WINDOW_RANK], output[BRAID_WINDOW_RANK], kernel[BRAID_WINDOW_RANK];
  int64_t stride[BRAID_WINDOW_RANK], dilation[BRAID_WINDOW_RANK];
  int64_t begin[BRAID_WINDOW_RANK], end[BRAID_WINDOW_RANK]; /* pads; end < 0: the last inputs are not looked at */
} braid_window;

/* A convolution from `inputs` to `outputs` channels. A transposed convolution is described by the convolution whose
 * gradient it is: its own input is that one's output. Weights are [outputs, inputs / groups, kernel...] in both. */
typedef struct braid_convolution {
  braid_window window;
  int64_t batch, groups, inputs, outputs;
} braid_convolution;

/* All fail with INVALID_GRAPH and a sentence without the node's name. x, w and dy are operands of rank 3 to 5. */

/* Conv, FusedConv, ConvInteger, QLinearConv. */
BRAID_MUST_CHECK braid_status braid_geometry_conv(const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                                  braid_convolution *out);
/* ConvGradInput: attribute input_shape has the spatial dimensions of the result. */
BRAID_MUST_CHECK braid_status braid_geometry_conv_grad_input(const braid_attrs *attrs, const braid_desc *dy,
                                                             const braid_desc *w, braid_convolution *out);
/* ConvGradFilter: attribute kernel_shape has the spatial dimensions of the result. */
BRAID_MUST_CHECK braid_status braid_geometry_conv_grad_filter(const braid_attrs *attrs, const braid_desc *x,
                                                              const braid_desc *dy, braid_convolution *out);
BRAID_MUST_CHECK braid_status braid_geometry_conv_transpose(const braid_attrs *attrs, const braid_desc *x,
                                                            const braid_desc *w, braid_convolution *out);
/* MaxPool, AveragePool, LpPool. */
BRAID_MUST_CHECK braid_status braid_geometry_pool(const braid_attrs *attrs, const braid_desc *x, braid_window *out);
/* Their gradients: attribute input_shape has the spatial dimensions of the result. */
BRAID_MUST_CHECK braid_status braid_geometry_pool_grad(const braid_attrs *attrs, const braid_desc *dy,
                                                       braid_window *out);
/* The default shape of MaxUnpool's result, as window.input; x is window.output. */
BRAID_MUST_CHECK braid_status braid_geometry_unpool(const braid_attrs *attrs, const braid_desc *x, braid_window *out);
/* The global pools: one window over everything, all spatial dimensions (any number) taken as one. */
BRAID_MUST_CHECK braid_status braid_geometry_global(const braid_desc *x, braid_window *out);

static inline int64_t braid_window_inputs(const braid_window *window) {
  return window->input[0] * window->input[1] * window->input[2];
}
static inline int64_t braid_window_outputs(const braid_window *window) {
  return window->output[0] * window->output[1] * window->output[2];
}
static inline int64_t braid_window_volume(const braid_window *window) {
  return window->kernel[0] * window->kernel[1] * window->kernel[2];
}

#endif
