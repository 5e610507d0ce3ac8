#include "graph/geometry.h"

#include <string.h>

#include "base/checked.h"
#include "base/try.h"

static const int64_t kLargest = INT32_MAX; /* of any size, stride, pad */

typedef enum auto_pad { PAD_EXPLICIT, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER } auto_pad;

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
static int first_of(const braid_window *window) {
  return BRAID_WINDOW_RANK - window->rank;
}

/* One number per spatial dimension, in [low, kLargest]; `otherwise` for each if absent. */
static braid_status read_list(const braid_attrs *attrs, const char *name, int rank, int64_t otherwise, int64_t low,
                              int64_t *out) {
  size_t count;
  const int64_t *list = braid_attr_ints(attrs, name, &count);
  if (list && count != (size_t)rank)
    return braid_fail(BRAID_INVALID_GRAPH, "%s has %zu numbers, not one for each of %d spatial dimensions", name, count,
                      rank);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) out[i] = low > 0 ? 1 : 0;
  for (int i = 0; i < rank; i++) {
    int64_t value = list ? list[i] : otherwise;
    if (value < low || value > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "%s[%d] is %lld, not in [%lld, %lld]", name, i, (long long)value,
                        (long long)low, (long long)kLargest);
    out[BRAID_WINDOW_RANK - rank + i] = value;
  }
  return BRAID_OK;
}

static braid_status read_auto_pad(const braid_attrs *attrs, auto_pad *out) {
  const char *text = braid_attr_string(attrs, "auto_pad", "NOTSET");
  *out = PAD_EXPLICIT;
  if (strcmp(text, "NOTSET") == 0 || strcmp(text, "") == 0) return BRAID_OK;
  *out = PAD_VALID;
  if (strcmp(text, "VALID") == 0) return BRAID_OK;
  *out = PAD_SAME_UPPER;
  if (strcmp(text, "SAME_UPPER") == 0) return BRAID_OK;
  *out = PAD_SAME_LOWER;
  if (strcmp(text, "SAME_LOWER") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "auto_pad is %.40s, not NOTSET, VALID, SAME_UPPER or SAME_LOWER", text);
}

/* Pads are not negative, but for the ends that `crop` allows. */
static braid_status read_pads(const braid_attrs *attrs, bool crop, braid_window *window) {
  size_t count, rank = (size_t)window->rank;
  const int64_t *list = braid_attr_ints(attrs, "pads", &count);
  memset(window->begin, 0, sizeof window->begin);
  memset(window->end, 0, sizeof window->end);
  if (!list) return BRAID_OK;
  if (count != 2 * rank)
    return braid_fail(BRAID_INVALID_GRAPH, "pads has %zu numbers, not two for each of %zu spatial dimensions", count,
                      rank);
  for (size_t i = 0; i < count; i++) {
    int64_t low = crop && i >= rank ? -kLargest : 0;
    if (list[i] < low || list[i] > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "pads[%zu] is %lld, not in [%lld, %lld]", i, (long long)list[i],
                        (long long)low, (long long)kLargest);
    size_t at = (size_t)first_of(window) + i % rank;
    *(i < rank ? &window->begin[at] : &window->end[at]) = list[i];
  }
  return BRAID_OK;
}

static braid_status read_steps(const braid_attrs *attrs, braid_window *window) {
  BRAID_TRY(read_list(attrs, "strides", window->rank, 1, 1, window->stride));
  return read_list(attrs, "dilations", window->rank, 1, 1, window->dilation);
}

/* Even of an empty tensor, whose element count says nothing, planes can be counted. */
static braid_status check_plane(const int64_t *sizes) {
  int64_t plane = 1;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    if (!braid_mul_i64(plane, sizes[i], &plane))
      return braid_fail(BRAID_INVALID_GRAPH, "the spatial dimensions are too large");
  return BRAID_OK;
}

/* Spatial dimensions of an operand, with rank and size checked. */
static braid_status read_spatial(const braid_desc *desc, const char *what, int *rank, int64_t *out) {
  *rank = desc->rank - 2;
  if (*rank < 1 || *rank > BRAID_WINDOW_RANK)
    return braid_fail(BRAID_INVALID_GRAPH, "%s has rank %d, not 3 to 5 (batch, channels, 1 to 3 spatial dimensions)",
                      what, desc->rank);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) out[i] = 1;
  for (int i = 0; i < desc->rank; i++) {
    if (desc->dims[i] > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "dimension %d of %s is %lld, more than %lld", i, what,
                        (long long)desc->dims[i], (long long)kLargest);
    if (i >= 2) out[BRAID_WINDOW_RANK - *rank + i - 2] = desc->dims[i];
  }
  return check_plane(out);
}

/* --- windows -------------------------------------------------------------------------------------------------------
 */
static int64_t reach_of(const braid_window *window, int i) {
  return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

/* Distributes padding over both ends; an odd one goes to the end for SAME_UPPER, to the beginning for SAME_LOWER. */
static void split_pads(braid_window *window, int i, int64_t total, bool upper) {
  if (total < 0) total = 0;
  window->begin[i] = upper ? total / 2 : total - total / 2;
  window->end[i] = total - window->begin[i];
}

static braid_status resolve_dimension(braid_window *window, int i, auto_pad mode, bool ceil_mode) {
  int64_t input = window->input[i], stride = window->stride[i], reach = reach_of(window, i);
  if (mode == PAD_SAME_UPPER || mode == PAD_SAME_LOWER) {
    window->output[i] = (input + stride - 1) / stride;
    split_pads(window, i, (window->output[i] - 1) * stride + reach - input, mode == PAD_SAME_UPPER);
    return BRAID_OK;
  }
  int64_t span = input + window->begin[i] + window->end[i] - reach;
  if (span < 0)
    return braid_fail(BRAID_INVALID_GRAPH,
                      "a kernel of %lld with dilation %lld does not fit into spatial dimension %d of %lld with pads "
                      "%lld and %lld",
                      (long long)window->kernel[i], (long long)window->dilation[i], i - first_of(window),
                      (long long)input, (long long)window->begin[i], (long long)window->end[i]);
  window->output[i] = span / stride + 1;
  /* a last window that is cut off counts if it begins before the padding at the end */
  if (ceil_mode && mode == PAD_EXPLICIT && span % stride != 0 && window->output[i] * stride < input + window->begin[i])
    window->output[i]++;
  return BRAID_OK;
}

static braid_status check_reach(const braid_window *window) {
  int64_t volume = 1;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++) {
    if (reach_of(window, i) > kLargest || !braid_mul_i64(volume, window->kernel[i], &volume) || volume > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "a kernel of more than %lld elements, dilation included",
                        (long long)kLargest);
  }
  return BRAID_OK;
}

/* rank, input and kernel are set; the rest follows from the attributes. */
static braid_status resolve(const braid_attrs *attrs, bool crop, bool ceil_mode, braid_window *window) {
  auto_pad mode;
  BRAID_TRY(read_steps(attrs, window));
  BRAID_TRY(check_reach(window));
  BRAID_TRY(read_auto_pad(attrs, &mode));
  memset(window->begin, 0, sizeof window->begin);
  memset(window->end, 0, sizeof window->end);
  if (mode == PAD_EXPLICIT) BRAID_TRY(read_pads(attrs, crop, window));
  for (int i = 0; i < first_of(window); i++) window->output[i] = 1;
  for (int i = first_of(window); i < BRAID_WINDOW_RANK; i++) BRAID_TRY(resolve_dimension(window, i, mode, ceil_mode));
  return check_plane(window->output);
}

/* --- convolutions --------------------------------------------------------------------------------------------------
 */
/* Channels and kernel of weights [outputs, inputs / groups, kernel...]. */
static braid_status read_weights(const braid_attrs *attrs, const braid_desc *w, int rank, braid_convolution *out) {
  int w_rank;
  int64_t stated[BRAID_WINDOW_RANK];
  BRAID_TRY(read_spatial(w, "the weights", &w_rank, out->window.kernel));
  if (w_rank != rank)
    return braid_fail(BRAID_INVALID_GRAPH, "the weights have rank %d and the input has rank %d", w_rank + 2, rank + 2);
  out->window.rank = rank;
  out->groups = braid_attr_int(attrs, "group", 1);
  out->outputs = w->dims[0];
  if (out->groups < 1 || out->groups > kLargest || out->outputs % out->groups != 0)
    return braid_fail(BRAID_INVALID_GRAPH, "group is %lld, which does not divide the weights' first dimension, %lld",
                      (long long)out->groups, (long long)out->outputs);
  out->inputs = w->dims[1] * out->groups;
  if (out->inputs > kLargest) return braid_fail(BRAID_INVALID_GRAPH, "more than %lld channels", (long long)kLargest);
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    if (out->window.kernel[i] < 1) return braid_fail(BRAID_INVALID_GRAPH, "the weights' kernel is empty");
  if (!braid_attr_has(attrs, "kernel_shape")) return BRAID_OK;
  BRAID_TRY(read_list(attrs, "kernel_shape", rank, 1, 1, stated));
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    if (stated[i] != out->window.kernel[i])
      return braid_fail(BRAID_INVALID_GRAPH, "kernel_shape says %lld where the weights have %lld", (long long)stated[i],
                        (long long)out->window.kernel[i]);
  return BRAID_OK;
}

static braid_status check_channels(const char *what, int64_t have, int64_t want) {
  if (have == want) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "%s has %lld channels where the weights and group ask for %lld", what,
                    (long long)have, (long long)want);
}

braid_status braid_geometry_conv(const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                 braid_convolution *out) {
  memset(out, 0, sizeof *out);
  int rank;
  BRAID_TRY(read_spatial(x, "the input", &rank, out->window.input));
  BRAID_TRY(read_weights(attrs, w, rank, out));
  BRAID_TRY(check_channels("the input", x->dims[1], out->inputs));
  out->batch = x->dims[0];
  return resolve(attrs, true, false, &out->window);
}

/* Shapes of gradients must be those that the forward op would have. */
static braid_status check_gradient(const braid_desc *dy, const braid_window *window) {
  for (int i = first_of(window), j = 2; i < BRAID_WINDOW_RANK; i++, j++)
    if (dy->dims[j] != window->output[i])
      return braid_fail(BRAID_INVALID_GRAPH, "dimension %d of the output's gradient is %lld, not %lld", j,
                        (long long)dy->dims[j], (long long)window->output[i]);
  return BRAID_OK;
}

static braid_status read_required(const braid_attrs *attrs, const char *name, int rank, int64_t low, int64_t *out) {
  if (!braid_attr_has(attrs, name)) return braid_fail(BRAID_INVALID_GRAPH, "attribute %s is missing", name);
  return read_list(attrs, name, rank, low, low, out);
}

/* As read_required, for sizes: dimensions that the op does not have are one. */
static braid_status read_input_shape(const braid_attrs *attrs, int rank, int64_t *out) {
  BRAID_TRY(read_required(attrs, "input_shape", rank, 0, out));
  for (int i = 0; i < BRAID_WINDOW_RANK - rank; i++) out[i] = 1;
  return check_plane(out);
}

braid_status braid_geometry_conv_grad_input(const braid_attrs *attrs, const braid_desc *dy, const braid_desc *w,
                                            braid_convolution *out) {
  memset(out, 0, sizeof *out);
  int rank;
  BRAID_TRY(read_spatial(dy, "the output's gradient", &rank, out->window.output));
  BRAID_TRY(read_weights(attrs, w, rank, out));
  BRAID_TRY(check_channels("the output's gradient", dy->dims[1], out->outputs));
  BRAID_TRY(read_input_shape(attrs, rank, out->window.input));
  out->batch = dy->dims[0];
  BRAID_TRY(resolve(attrs, true, false, &out->window));
  return check_gradient(dy, &out->window);
}

braid_status braid_geometry_conv_grad_filter(const braid_attrs *attrs, const braid_desc *x, const braid_desc *dy,
                                             braid_convolution *out) {
  memset(out, 0, sizeof *out);
  int rank, dy_rank;
  BRAID_TRY(read_spatial(dy, "the output's gradient", &dy_rank, out->window.output));
  BRAID_TRY(read_spatial(x, "the input", &rank, out->window.input));
  if (rank != dy_rank || x->dims[0] != dy->dims[0])
    return braid_fail(BRAID_INVALID_GRAPH, "the input and the output's gradient differ in rank or batch");
  out->groups = braid_attr_int(attrs, "group", 1);
  if (out->groups < 1 || x->dims[1] % out->groups != 0 || dy->dims[1] % out->groups != 0)
    return braid_fail(BRAID_INVALID_GRAPH, "group is %lld, which does not divide %lld and %lld channels",
                      (long long)out->groups, (long long)x->dims[1], (long long)dy->dims[1]);
  out->window.rank = rank;
  out->batch = x->dims[0];
  out->inputs = x->dims[1];
  out->outputs = dy->dims[1];
  BRAID_TRY(read_required(attrs, "kernel_shape", rank, 1, out->window.kernel));
  BRAID_TRY(resolve(attrs, true, false, &out->window));
  return check_gradient(dy, &out->window);
}

/* One dimension of a transposed convolution: window.output is known, input and pads are wanted. */
static braid_status resolve_transposed(braid_window *window, int i, auto_pad mode, const int64_t *extra,
                                       const int64_t *shape) {
  int64_t full = (window->output[i] - 1) * window->stride[i] + extra[i] + reach_of(window, i);
  if (shape || mode == PAD_SAME_UPPER || mode == PAD_SAME_LOWER) {
    window->input[i] = shape ? shape[i] : window->output[i] * window->stride[i];
    split_pads(window, i, full - window->input[i], mode == PAD_SAME_UPPER);
  } else {
    window->input[i] = full - window->begin[i] - window->end[i];
  }
  if (window->output[i] < 1 || window->input[i] < 1 || window->input[i] > kLargest)
    return braid_fail(BRAID_INVALID_GRAPH, "spatial dimension %d of the output would be %lld", i - first_of(window),
                      (long long)window->input[i]);
  return BRAID_OK;
}

braid_status braid_geometry_conv_transpose(const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                           braid_convolution *out) {
  memset(out, 0, sizeof *out);
  braid_window *window = &out->window;
  int rank;
  auto_pad mode;
  int64_t extra[BRAID_WINDOW_RANK], shape[BRAID_WINDOW_RANK];
  bool has_shape = braid_attr_has(attrs, "output_shape");
  BRAID_TRY(read_spatial(x, "the input", &rank, window->output));
  BRAID_TRY(read_weights(attrs, w, rank, out));
  BRAID_TRY(check_channels("the input", x->dims[1], out->outputs));
  out->batch = x->dims[0];
  BRAID_TRY(read_steps(attrs, window));
  BRAID_TRY(check_reach(window));
  BRAID_TRY(read_auto_pad(attrs, &mode));
  if (mode == PAD_EXPLICIT) BRAID_TRY(read_pads(attrs, false, window));
  BRAID_TRY(read_list(attrs, "output_padding", rank, 0, 0, extra));
  if (has_shape) BRAID_TRY(read_list(attrs, "output_shape", rank, 1, 1, shape));
  for (int i = 0; i < first_of(window); i++) window->input[i] = 1;
  for (int i = first_of(window); i < BRAID_WINDOW_RANK; i++)
    BRAID_TRY(resolve_transposed(window, i, mode, extra, has_shape ? shape : NULL));
  return check_plane(window->input);
}

/* --- pools ---------------------------------------------------------------------------------------------------------
 */
static braid_status read_pool(const braid_attrs *attrs, braid_window *window) {
  BRAID_TRY(read_required(attrs, "kernel_shape", window->rank, 1, window->kernel));
  return resolve(attrs, false, braid_attr_int(attrs, "ceil_mode", 0) != 0, window);
}

braid_status braid_geometry_pool(const braid_attrs *attrs, const braid_desc *x, braid_window *out) {
  memset(out, 0, sizeof *out);
  BRAID_TRY(read_spatial(x, "the input", &out->rank, out->input));
  return read_pool(attrs, out);
}

braid_status braid_geometry_pool_grad(const braid_attrs *attrs, const braid_desc *dy, braid_window *out) {
  memset(out, 0, sizeof *out);
  BRAID_TRY(read_spatial(dy, "the output's gradient", &out->rank, out->output));
  BRAID_TRY(read_input_shape(attrs, out->rank, out->input));
  BRAID_TRY(read_pool(attrs, out));
  return check_gradient(dy, out);
}

braid_status braid_geometry_unpool(const braid_attrs *attrs, const braid_desc *x, braid_window *out) {
  memset(out, 0, sizeof *out);
  BRAID_TRY(read_spatial(x, "the input", &out->rank, out->output));
  BRAID_TRY(read_required(attrs, "kernel_shape", out->rank, 1, out->kernel));
  BRAID_TRY(read_steps(attrs, out));
  BRAID_TRY(read_pads(attrs, false, out));
  for (int i = 0; i < first_of(out); i++) out->input[i] = 1;
  for (int i = first_of(out); i < BRAID_WINDOW_RANK; i++) {
    out->input[i] = (out->output[i] - 1) * out->stride[i] - out->begin[i] - out->end[i] + out->kernel[i];
    if (out->input[i] < 0 || out->input[i] > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "spatial dimension %d of the output would be %lld", i - first_of(out),
                        (long long)out->input[i]);
  }
  return check_plane(out->input);
}

braid_status braid_geometry_global(const braid_desc *x, braid_window *out) {
  *out = (braid_window){1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}, {0}};
  if (x->rank < 3)
    return braid_fail(BRAID_INVALID_GRAPH, "the input has rank %d, not 3 or more (batch, channels, spatial dimensions)",
                      x->rank);
  for (int i = 2; i < x->rank; i++)
    if (!braid_mul_i64(out->input[2], x->dims[i], &out->input[2]) || out->input[2] > kLargest)
      return braid_fail(BRAID_INVALID_GRAPH, "more than %lld elements in a channel", (long long)kLargest);
  if (out->input[2] == 0) return braid_fail(BRAID_INVALID_GRAPH, "there is nothing in a channel to pool");
  out->kernel[2] = out->input[2];
  return BRAID_OK;
}
