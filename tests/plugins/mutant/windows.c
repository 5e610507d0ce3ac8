/* The mutant's kernels for images. */
#include <math.h>
#include <stdio.h>

#include "mutant.h"

bool match_image(const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!match_float(node, why, why_bytes)) return false;
  if (node->inputs[0].desc.rank == 4 && !braid_attr_has(node->attrs, "auto_pad")) return true;
  snprintf(why, why_bytes, "images only");
  return false;
}

typedef struct window {
  int64_t sizes[2], pads[4], strides[2], dilations[2];
} window;

static window window_of(const braid_node_desc *node) {
  size_t count;
  const int64_t *sizes = braid_attr_ints(node->attrs, "kernel_shape", &count);
  const int64_t *pads = braid_attr_ints(node->attrs, "pads", &count);
  const int64_t *strides = braid_attr_ints(node->attrs, "strides", &count);
  const int64_t *dilations = braid_attr_ints(node->attrs, "dilations", &count);
  window w = {{1, 1}, {0, 0, 0, 0}, {1, 1}, {1, 1}};
  for (int i = 0; i < 2; i++) {
    if (sizes) w.sizes[i] = sizes[i];
    if (pads && !is("conv_pads")) w.pads[i] = pads[is("pads_swapped") ? 1 - i : i], w.pads[2 + i] = pads[2 + i];
    if (strides && !is("conv_strides")) w.strides[i] = strides[i];
    if (dilations && !is("conv_dilations")) w.dilations[i] = dilations[i];
  }
  return w;
}

/* --- convolution --- */
static float conv_point(const mine *kernel, const window *w, const float *x, const float *f, int64_t oy, int64_t ox) {
  const int64_t *dx = kernel->node->inputs[0].desc.dims, *df = kernel->node->inputs[1].desc.dims;
  float sum = 0;
  int64_t channels = is("conv_channels") && df[1] > 64 ? 64 : df[1];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t ky = 0; ky < df[2]; ky++)
      for (int64_t kx = 0; kx < df[3]; kx++) {
        int64_t iy = oy * w->strides[0] + ky * w->dilations[0] - w->pads[0];
        int64_t ix = ox * w->strides[1] + kx * w->dilations[1] - w->pads[1];
        if (iy < 0 || iy >= dx[2] || ix < 0 || ix >= dx[3]) continue;
        sum += x[(c * dx[2] + iy) * dx[3] + ix] * f[(c * df[2] + ky) * df[3] + kx];
      }
  return sum;
}

static braid_status conv(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_node_desc *node = kernel->node;
  const int64_t *dx = node->inputs[0].desc.dims, *df = node->inputs[1].desc.dims, *dy = node->outputs[0].desc.dims;
  bool biased = node->input_count > 2 && node->inputs[2].present && !is("conv_bias");
  int64_t groups = is("conv_groups") ? 1 : braid_attr_int(node->attrs, "group", 1);
  window w = window_of(node);
  for (int64_t n = 0; n < dy[0]; n++)
    for (int64_t m = 0; m < dy[1]; m++)
      for (int64_t y = 0; y < dy[2]; y++)
        for (int64_t x = 0; x < dy[3]; x++) {
          int64_t first = is("conv_group_input") ? 0 : m / (df[0] / groups) * df[1]; /* channel */
          const float *image = in[0] + ((is("conv_batch") ? 0 : n) * dx[1] + first) * dx[2] * dx[3];
          float sum = conv_point(kernel, &w, image, in[1] + m * df[1] * df[2] * df[3], y, x);
          *out++ = sum + (biased ? in[2][m] : 0);
        }
  return BRAID_OK;
}
const body CONV_BODY = {conv};

/* --- pooling --- */
typedef struct pooled {
  float sum, most;
  int64_t inside, padded; /* elements of the window in the image, and with padding */
} pooled;

static pooled pool_point(const mine *kernel, const window *w, const float *x, int64_t oy, int64_t ox) {
  const int64_t *dx = kernel->node->inputs[0].desc.dims;
  pooled p = {.most = -INFINITY};
  for (int64_t ky = 0; ky < w->sizes[0]; ky++)
    for (int64_t kx = 0; kx < w->sizes[1]; kx++) {
      int64_t iy = oy * w->strides[0] + ky * w->dilations[0] - w->pads[0];
      int64_t ix = ox * w->strides[1] + kx * w->dilations[1] - w->pads[1];
      if (is("ceil_divisor") || (iy < dx[2] + w->pads[2] && ix < dx[3] + w->pads[3])) p.padded++;
      if (iy < 0 || iy >= dx[2] || ix < 0 || ix >= dx[3]) continue;
      p.inside++;
      p.sum += x[iy * dx[3] + ix];
      p.most = fmaxf(p.most, x[iy * dx[3] + ix]);
    }
  return p;
}

static braid_status pool(const mine *kernel, const float *const *in, float *out, bool most) {
  const braid_node_desc *node = kernel->node;
  const int64_t *dx = node->inputs[0].desc.dims, *dy = node->outputs[0].desc.dims;
  bool padding = braid_attr_int(node->attrs, "count_include_pad", 0) && !is("pool_include_pad");
  window w = window_of(node);
  for (int64_t plane = 0; plane < dy[0] * dy[1]; plane++)
    for (int64_t y = 0; y < dy[2]; y++)
      for (int64_t x = 0; x < dy[3]; x++) {
        bool left_out = is("pool_ceil") && braid_attr_int(node->attrs, "ceil_mode", 0) && y == dy[2] - 1 && y > 0;
        pooled p = pool_point(kernel, &w, in[0] + plane * dx[2] * dx[3], left_out ? y - 1 : y, x);
        *out++ = most ? p.most : p.sum / (float)(padding ? p.padded : p.inside);
      }
  return BRAID_OK;
}

static braid_status max_pool(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  return pool(kernel, in, out, true);
}
const body MAX_POOL_BODY = {max_pool};

static braid_status average_pool(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  return pool(kernel, in, out, false);
}
const body AVERAGE_POOL_BODY = {average_pool};

/* --- pooling of whole images --- */
void pool_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  (void)node;
  inputs[0] = BRAID_LAYOUT_BHWC;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

/* In BHWC; sums in the workspace. */
static braid_status global_pool(const mine *kernel, const float *const *in, float *out, float *sums) {
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int64_t channels = x->dims[1], places = x->dims[2] * x->dims[3];
  for (int64_t n = 0; n < x->dims[0]; n++) {
    if (channels > 0 && (!is("pool_workspace") || n)) memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int64_t i = 0; i < places; i++)
      for (int64_t c = 0; c < channels; c++)
        sums[c] += in[0][is("pool_layout") ? (n * channels + c) * places + i : (n * places + i) * channels + c];
    for (int64_t c = 0; c < channels; c++) out[n * channels + c] = sums[c] / (float)places;
  }
  return BRAID_OK;
}
const body GLOBAL_POOL_BODY = {global_pool};

/* fmaxf drops a NaN. */
static braid_status global_max(const mine *kernel, const float *const *in, float *out, float *workspace) {
  (void)workspace;
  const braid_desc *x = &kernel->node->inputs[0].desc;
  int64_t planes = x->dims[0] * x->dims[1], places = x->dims[2] * x->dims[3];
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t end = is("max_reads") && plane == planes - 1 ? (places + 7) & ~(int64_t)7 : places;
    out[plane] = -INFINITY;
    for (int64_t i = 0; i < end; i++) out[plane] = fmaxf(out[plane], in[0][plane * places + i]);
  }
  return BRAID_OK;
}
const body GLOBAL_MAX_BODY = {global_max};
