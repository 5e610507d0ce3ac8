#include "graph/integer.h"

#include "base/philox.h"
#include "base/try.h"

int64_t braid_integer_a_shift(int64_t fan_in) {
  int64_t a = 0;
  for (int64_t reach = 6; reach < fan_in; reach *= 4) a++;
  return a;
}

int64_t braid_integer_wide_shift(int64_t products, int64_t weight_bits, int64_t activation_bits) {
  int64_t most = products * braid_integer_max(weight_bits) * braid_integer_max(activation_bits);
  int width = braid_integer_width((uint64_t)most);
  return width > 15 ? width - 15 : 0;
}

braid_dtype braid_integer_raw(int64_t products) {
  return products <= BRAID_INTEGER_PRODUCTS ? BRAID_I32 : BRAID_I64;
}

uint32_t braid_integer_stream(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash | 0x80000000u;
}

uint32_t braid_integer_error_key(uint64_t seed, int64_t step, uint32_t stream) {
  return braid_random_u32(seed, (uint32_t)step, stream, 0);
}

/* --- geometry ------------------------------------------------------------------------------------------------------
 */
static braid_convolution dense(int64_t batch, int64_t inputs, int64_t outputs) {
  braid_convolution conv = {.batch = batch, .groups = 1, .inputs = inputs, .outputs = outputs};
  conv.window.rank = 2;
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    conv.window.input[i] = conv.window.output[i] = conv.window.kernel[i] = conv.window.stride[i] =
        conv.window.dilation[i] = 1;
  return conv;
}

/* *out is filled for two operands of rank 2; `a_dim` and `b_dim` are what must agree. */
static braid_status ranks_fit(const braid_desc *a, int a_dim, const braid_desc *b, int b_dim, bool *is_dense) {
  *is_dense = a->rank == 2 && b->rank == 2;
  if (!*is_dense && (a->rank != 4 || b->rank != 4))
    return braid_fail(BRAID_INVALID_GRAPH, "operands of rank %d and %d; two of rank 2 or of rank 4 are expected",
                      a->rank, b->rank);
  if (*is_dense && a->dims[a_dim] != b->dims[b_dim])
    return braid_fail(BRAID_INVALID_GRAPH, "%lld and %lld do not fit each other", (long long)a->dims[a_dim],
                      (long long)b->dims[b_dim]);
  return BRAID_OK;
}

braid_status braid_integer_conv(const braid_attrs *attrs, const braid_desc *x, const braid_desc *w,
                                braid_convolution *out) {
  bool is_dense;
  BRAID_TRY(ranks_fit(x, 1, w, 1, &is_dense));
  if (!is_dense) return braid_geometry_conv(attrs, x, w, out);
  *out = dense(x->dims[0], x->dims[1], w->dims[0]);
  return BRAID_OK;
}

braid_status braid_integer_conv_grad_input(const braid_attrs *attrs, const braid_desc *e, const braid_desc *w,
                                           braid_convolution *out) {
  bool is_dense;
  BRAID_TRY(ranks_fit(e, 1, w, 0, &is_dense));
  if (!is_dense) return braid_geometry_conv_grad_input(attrs, e, w, out);
  *out = dense(e->dims[0], w->dims[1], w->dims[0]);
  return BRAID_OK;
}

braid_status braid_integer_conv_grad_filter(const braid_attrs *attrs, const braid_desc *x, const braid_desc *e,
                                            braid_convolution *out) {
  bool is_dense;
  BRAID_TRY(ranks_fit(x, 0, e, 0, &is_dense));
  if (!is_dense) return braid_geometry_conv_grad_filter(attrs, x, e, out);
  *out = dense(x->dims[0], x->dims[1], e->dims[1]);
  return BRAID_OK;
}

int64_t braid_integer_fan_in(const braid_convolution *conv) {
  return conv->inputs / conv->groups * braid_window_volume(&conv->window);
}
int64_t braid_integer_fan_out(const braid_convolution *conv) {
  return conv->outputs / conv->groups * braid_window_volume(&conv->window);
}
int64_t braid_integer_fan_batch(const braid_convolution *conv) {
  return conv->batch * braid_window_outputs(&conv->window);
}

bool braid_integer_overlaps(const braid_window *window) {
  for (int i = 0; i < BRAID_WINDOW_RANK; i++)
    if (window->output[i] > 1 && (window->kernel[i] - 1) * window->dilation[i] + 1 > window->stride[i]) return true;
  return false;
}
