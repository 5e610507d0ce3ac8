/* Layers that join, move and reinterpret what earlier ones gave; detection. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "model/darknet/darknet.h"

enum { MAX_JOINED = 256 };

static braid_status image_of(braid_darknet *net, const braid_darknet_output *output, braid_value_id *out) {
  *out = output->value;
  if (!output->list) return BRAID_OK;
  return braid_darknet_reshape(net, output->value, 4, (int64_t[]){-1, output->c, output->h, output->w}, out);
}

/* Slice of one axis. */
static braid_status slice(braid_darknet *net, braid_value_id value, const int64_t *starts, const int64_t *ends,
                          const int64_t *axes, const int64_t *steps, size_t count, braid_value_id *out) {
  braid_value_id inputs[5] = {value};
  BRAID_TRY(braid_darknet_ints(net, starts, count, &inputs[1]));
  BRAID_TRY(braid_darknet_ints(net, ends, count, &inputs[2]));
  BRAID_TRY(braid_darknet_ints(net, axes, count, &inputs[3]));
  BRAID_TRY(braid_darknet_ints(net, steps, count, &inputs[4]));
  return braid_darknet_node(net, "Slice", inputs, 5, NULL, 0, out);
}

static braid_status channels(braid_darknet *net, braid_value_id value, int64_t first, int64_t count,
                             braid_value_id *out) {
  return slice(net, value, &first, &(int64_t){first + count}, &(int64_t){1}, &(int64_t){1}, 1, out);
}

/* --- route, shortcut, sam, scale_channels ------------------------------------------------------------------------- */
braid_status braid_darknet_layer_route(braid_darknet *net, braid_darknet_output *out) {
  int64_t numbers[MAX_JOINED], groups, group;
  braid_value_id values[MAX_JOINED];
  size_t count;
  BRAID_TRY(braid_cfg_ints(net->cfg, net->section, "layers", numbers, MAX_JOINED, &count));
  BRAID_TRY(braid_darknet_int(net, "groups", 1, 1, BRAID_DARKNET_MAX_SIZE, &groups));
  BRAID_TRY(braid_darknet_int(net, "group_id", 0, 0, groups - 1, &group));
  if (!count) return braid_darknet_fail(net, BRAID_INVALID_FILE, "names no layers");
  *out = (braid_darknet_output){0};
  for (size_t i = 0; i < count; i++) {
    const braid_darknet_output *from;
    BRAID_TRY(braid_darknet_earlier(net, numbers[i], &from));
    if (i && (from->h != out->h || from->w != out->w))
      return braid_darknet_fail(net, BRAID_INVALID_FILE, "layer %lld is %lld x %lld, the first is %lld x %lld",
                                (long long)numbers[i], (long long)from->h, (long long)from->w, (long long)out->h,
                                (long long)out->w);
    if (from->c % groups)
      return braid_darknet_fail(net, BRAID_INVALID_FILE, "%lld channels do not divide into %lld groups",
                                (long long)from->c, (long long)groups);
    out->h = from->h;
    out->w = from->w;
    out->c += from->c / groups;
    BRAID_TRY(image_of(net, from, &values[i]));
    if (groups > 1) BRAID_TRY(channels(net, values[i], group * (from->c / groups), from->c / groups, &values[i]));
  }
  out->value = values[0];
  if (count == 1) return BRAID_OK;
  return braid_darknet_node(net, "Concat", values, count, (braid_darknet_attr[]){BRAID_ATTR_I("axis", 1)}, 1,
                            &out->value);
}

/* Adds as much of `from` as fits: every stride-th pixel, the first channels. */
static braid_status fit(braid_darknet *net, const braid_darknet_output *from, braid_value_id *value) {
  const braid_darknet_output *to = &net->input;
  int64_t stride = from->w / to->w ? from->w / to->w : 1;
  if (from->h < to->h || from->w < to->w || (from->h / to->h ? from->h / to->h : 1) != stride)
    return braid_darknet_fail(net, BRAID_UNSUPPORTED, "adds %lld x %lld to %lld x %lld", (long long)from->h,
                              (long long)from->w, (long long)to->h, (long long)to->w);
  int64_t shared = from->c < to->c ? from->c : to->c;
  int64_t ends[3] = {shared, (to->h - 1) * stride + 1, (to->w - 1) * stride + 1};
  BRAID_TRY(
      slice(net, *value, (int64_t[]){0, 0, 0}, ends, (int64_t[]){1, 2, 3}, (int64_t[]){1, stride, stride}, 3, value));
  if (shared == to->c) return BRAID_OK;
  braid_value_id pads;
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){0, 0, 0, 0, 0, to->c - shared, 0, 0}, 8, &pads));
  return braid_darknet_node(net, "Pad", (braid_value_id[]){*value, pads}, 2, NULL, 0, value);
}

braid_status braid_darknet_layer_shortcut(braid_darknet *net, braid_darknet_output *out) {
  int64_t numbers[MAX_JOINED];
  size_t count;
  braid_value_id sum, other;
  BRAID_TRY(braid_darknet_only(net, "weights_type", 0));
  BRAID_TRY(braid_darknet_only(net, "alpha", 1));
  BRAID_TRY(braid_darknet_only(net, "beta", 1));
  BRAID_TRY(braid_cfg_ints(net->cfg, net->section, "from", numbers, MAX_JOINED, &count));
  if (!count) return braid_darknet_fail(net, BRAID_INVALID_FILE, "lacks from=");
  BRAID_TRY(braid_darknet_image(net, &sum));
  *out = net->input;
  out->list = false;
  for (size_t i = 0; i < count; i++) {
    const braid_darknet_output *from;
    BRAID_TRY(braid_darknet_earlier(net, numbers[i], &from));
    BRAID_TRY(image_of(net, from, &other));
    if (from->c != out->c || from->h != out->h || from->w != out->w) BRAID_TRY(fit(net, from, &other));
    BRAID_TRY(braid_darknet_node(net, "Add", (braid_value_id[]){sum, other}, 2, NULL, 0, &sum));
  }
  return braid_darknet_activate(net, braid_cfg_string(net->cfg, net->section, "activation", "linear"), sum,
                                &out->value);
}

static braid_status multiply(braid_darknet *net, bool broadcast, braid_darknet_output *out) {
  int64_t number;
  const braid_darknet_output *from;
  braid_value_id a, b;
  if (!braid_cfg_find(net->cfg, net->section, "from"))
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "lacks from=");
  BRAID_TRY(braid_darknet_int(net, "from", -1, INT32_MIN, INT32_MAX, &number));
  BRAID_TRY(braid_darknet_earlier(net, number, &from));
  bool same = from->c == net->input.c && from->h == net->input.h && from->w == net->input.w;
  bool fits = broadcast && from->c == net->input.c && net->input.h == 1 && net->input.w == 1;
  if (!same && !fits)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "multiplies %lld x %lld x %lld by %lld x %lld x %lld",
                              (long long)from->c, (long long)from->h, (long long)from->w, (long long)net->input.c,
                              (long long)net->input.h, (long long)net->input.w);
  BRAID_TRY(image_of(net, from, &a));
  BRAID_TRY(braid_darknet_image(net, &b));
  *out = *from;
  out->list = false;
  BRAID_TRY(braid_darknet_node(net, "Mul", (braid_value_id[]){a, b}, 2, NULL, 0, &a));
  return braid_darknet_activate(net, braid_cfg_string(net->cfg, net->section, "activation", "linear"), a, &out->value);
}

braid_status braid_darknet_layer_sam(braid_darknet *net, braid_darknet_output *out) {
  return multiply(net, false, out);
}

braid_status braid_darknet_layer_scale_channels(braid_darknet *net, braid_darknet_output *out) {
  BRAID_TRY(braid_darknet_only(net, "scale_wh", 0));
  return multiply(net, true, out);
}

/* --- upsample, reorg, crop, local --------------------------------------------------------------------------------- */
braid_status braid_darknet_layer_upsample(braid_darknet *net, braid_darknet_output *out) {
  int64_t stride;
  double scale;
  braid_value_id value, scales;
  BRAID_TRY(braid_darknet_int(net, "stride", 2, 1, BRAID_DARKNET_MAX_KERNEL, &stride));
  BRAID_TRY(braid_darknet_float(net, "scale", 1, &scale));
  BRAID_TRY(braid_darknet_image(net, &value));
  *out = (braid_darknet_output){.c = net->input.c, .h = net->input.h * stride, .w = net->input.w * stride};
  BRAID_TRY(braid_darknet_floats(net, (float[]){1, 1, (float)stride, (float)stride}, 4, &scales));
  braid_darknet_attr attrs[] = {BRAID_ATTR_S("mode", "nearest"),
                                BRAID_ATTR_S("coordinate_transformation_mode", "asymmetric"),
                                BRAID_ATTR_S("nearest_mode", "floor")};
  BRAID_TRY(braid_darknet_node(net, "Resize", (braid_value_id[]){value, -1, scales}, 3, attrs, 3, &value));
  out->value = value;
  return scale == 1 ? BRAID_OK : braid_darknet_with_scalar(net, "Mul", value, scale, &out->value);
}

/* Darknet reads its input [c, h, w] as if it were [c / s^2, h * s, w * s], takes each s x s block apart, and reads the
 * result as [c * s^2, h / s, w / s]; `reverse` puts together what this takes apart. */
static braid_status reorganize(braid_darknet *net, int64_t stride, bool reverse, braid_darknet_output *out) {
  int64_t c = net->input.c, h = net->input.h, w = net->input.w, area = stride * stride;
  if (c % area || (!reverse && (h % stride || w % stride)))
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "stride=%lld does not divide its input %lld x %lld x %lld",
                              (long long)stride, (long long)c, (long long)h, (long long)w);
  *out = reverse ? (braid_darknet_output){.c = c / area, .h = h * stride, .w = w * stride}
                 : (braid_darknet_output){.c = c * area, .h = h / stride, .w = w / stride};
  int64_t apart[6] = {-1, c / area, h, stride, w, stride}, together[6] = {-1, stride, stride, c / area, h, w};
  int64_t take_apart[6] = {0, 3, 5, 1, 2, 4}, put_together[6] = {0, 3, 4, 1, 5, 2};
  braid_value_id value;
  BRAID_TRY(braid_darknet_image(net, &value));
  BRAID_TRY(braid_darknet_reshape(net, value, 6, reverse ? together : apart, &value));
  BRAID_TRY(braid_darknet_node(net, "Transpose", &value, 1,
                               (braid_darknet_attr[]){BRAID_ATTR_L("perm", reverse ? put_together : take_apart, 6)}, 1,
                               &value));
  return braid_darknet_reshape(net, value, 4, (int64_t[]){-1, out->c, out->h, out->w}, &out->value);
}

braid_status braid_darknet_layer_reorg(braid_darknet *net, braid_darknet_output *out) {
  int64_t stride, reverse, flatten, extra;
  BRAID_TRY(braid_darknet_int(net, "stride", 1, 1, BRAID_DARKNET_MAX_KERNEL, &stride));
  BRAID_TRY(braid_darknet_int(net, "reverse", 0, 0, 1, &reverse));
  BRAID_TRY(braid_darknet_int(net, "flatten", 0, 0, 1, &flatten));
  BRAID_TRY(braid_darknet_int(net, "extra", 0, 0, BRAID_DARKNET_MAX_SIZE, &extra));
  if (flatten) return braid_darknet_only(net, "flatten", 0);
  if (!extra) return reorganize(net, stride, reverse, out);
  braid_value_id value, pads; /* the input as a list, and zeros after it */
  BRAID_TRY(braid_darknet_list(net, &value));
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){0, 0, 0, extra}, 4, &pads));
  *out = (braid_darknet_output){.c = net->input.c * net->input.h * net->input.w + extra, .h = 1, .w = 1, .list = true};
  return braid_darknet_node(net, "Pad", (braid_value_id[]){value, pads}, 2, NULL, 0, &out->value);
}

/* The middle of the picture, and [0, 1] to [-1, 1]: what [crop] does when not training. */
braid_status braid_darknet_layer_crop(braid_darknet *net, braid_darknet_output *out) {
  int64_t h, w, noadjust;
  BRAID_TRY(braid_darknet_int(net, "crop_height", 1, 1, net->input.h, &h));
  BRAID_TRY(braid_darknet_int(net, "crop_width", 1, 1, net->input.w, &w));
  BRAID_TRY(braid_darknet_int(net, "noadjust", 0, 0, 1, &noadjust));
  int64_t y = (net->input.h - h) / 2, x = (net->input.w - w) / 2;
  braid_value_id value;
  BRAID_TRY(braid_darknet_image(net, &value));
  BRAID_TRY(
      slice(net, value, (int64_t[]){y, x}, (int64_t[]){y + h, x + w}, (int64_t[]){2, 3}, (int64_t[]){1, 1}, 2, &value));
  *out = (braid_darknet_output){.value = value, .c = net->input.c, .h = h, .w = w};
  if (noadjust) return BRAID_OK;
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", value, 2, &value));
  return braid_darknet_with_scalar(net, "Sub", value, 1, &out->value);
}

/* Where each pixel of each window lies in the padded picture. */
static braid_status window_indices(braid_darknet *net, const braid_darknet_output *out, int64_t size, int64_t stride,
                                   int64_t padded_width, braid_value_id *value) {
  size_t count = (size_t)(size * size * out->h * out->w), at = 0;
  int64_t *indices = braid_zalloc_array(net->allocator, count, sizeof *indices);
  if (!indices) return BRAID_NO_MEMORY;
  for (int64_t ky = 0; ky < size; ky++)
    for (int64_t kx = 0; kx < size; kx++)
      for (int64_t y = 0; y < out->h; y++)
        for (int64_t x = 0; x < out->w; x++) indices[at++] = (y * stride + ky) * padded_width + x * stride + kx;
  braid_status status = braid_darknet_ints(net, indices, count, value);
  braid_free(net->allocator, indices);
  if (status != BRAID_OK) return status;
  return braid_darknet_reshape(net, *value, 2, (int64_t[]){size * size, out->h * out->w}, value);
}

/* A convolution with weights of its own at each place: windows as columns, one matrix product per place. */
static braid_status local_product(braid_darknet *net, const braid_darknet_output *out, int64_t size, int64_t stride,
                                  int64_t pad, braid_value_id weights, braid_value_id *result) {
  int64_t c = net->input.c, h = net->input.h + 2 * pad, w = net->input.w + 2 * pad, places = out->h * out->w;
  braid_value_id value, pads, indices;
  BRAID_TRY(braid_darknet_image(net, &value));
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){0, 0, pad, pad, 0, 0, pad, pad}, 8, &pads));
  BRAID_TRY(braid_darknet_node(net, "Pad", (braid_value_id[]){value, pads}, 2, NULL, 0, &value));
  BRAID_TRY(braid_darknet_reshape(net, value, 3, (int64_t[]){-1, c, h * w}, &value));
  BRAID_TRY(window_indices(net, out, size, stride, w, &indices));
  BRAID_TRY(braid_darknet_node(net, "Gather", (braid_value_id[]){value, indices}, 2,
                               (braid_darknet_attr[]){BRAID_ATTR_I("axis", 2)}, 1, &value));
  braid_darknet_attr places_first = BRAID_ATTR_L("perm", ((int64_t[]){3, 1, 2, 0}), 4);
  BRAID_TRY(braid_darknet_node(net, "Transpose", &value, 1, &places_first, 1, &value));
  BRAID_TRY(braid_darknet_reshape(net, value, 3, (int64_t[]){places, c * size * size, -1}, &value));
  BRAID_TRY(braid_darknet_node(net, "MatMul", (braid_value_id[]){weights, value}, 2, NULL, 0, &value));
  braid_darknet_attr batch_first = BRAID_ATTR_L("perm", ((int64_t[]){2, 1, 0}), 3);
  BRAID_TRY(braid_darknet_node(net, "Transpose", &value, 1, &batch_first, 1, &value));
  return braid_darknet_reshape(net, value, 4, (int64_t[]){-1, out->c, out->h, out->w}, result);
}

braid_status braid_darknet_layer_local(braid_darknet *net, braid_darknet_output *out) {
  int64_t filters, size, stride, pad;
  BRAID_TRY(braid_darknet_int(net, "filters", 1, 1, BRAID_DARKNET_MAX_SIZE, &filters));
  BRAID_TRY(braid_darknet_int(net, "size", 1, 1, 64, &size));
  BRAID_TRY(braid_darknet_int(net, "stride", 1, 1, BRAID_DARKNET_MAX_KERNEL, &stride));
  BRAID_TRY(braid_darknet_int(net, "pad", 0, 0, 1, &pad));
  int64_t c = net->input.c, less = pad ? 1 : size; /* as Darknet counts; right for size 3 with pad, and without */
  *out = (braid_darknet_output){
      .c = filters, .h = (net->input.h - less) / stride + 1, .w = (net->input.w - less) / stride + 1};
  if ((pad && size != 3) || net->input.h < less || net->input.w < less || out->h * out->w > BRAID_DARKNET_MAX_SIZE)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "size=%lld pad=%lld does not fit its input of %lld x %lld",
                              (long long)size, (long long)pad, (long long)net->input.h, (long long)net->input.w);
  int64_t window = c * size * size, places = out->h * out->w;
  braid_value_id bias, weights, value;
  BRAID_TRY(braid_darknet_tensor(net, "bias", 3, (int64_t[]){filters, out->h, out->w}, BRAID_FILL_ZERO, 1, &bias));
  BRAID_TRY(braid_darknet_tensor(net, "weight", 3, (int64_t[]){places, filters, window}, BRAID_FILL_UNIFORM,
                                 sqrt(2.0 / (double)window), &weights));
  BRAID_TRY(local_product(net, out, size, stride, pad, weights, &value));
  BRAID_TRY(braid_darknet_node(net, "Add", (braid_value_id[]){value, bias}, 2, NULL, 0, &value));
  return braid_darknet_activate(net, braid_cfg_string(net->cfg, net->section, "activation", "logistic"), value,
                                &out->value);
}
