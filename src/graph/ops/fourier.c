/* Fourier transforms: DFT; of short parts of a signal (STFT), a function of it; and the weights that sum up a spectrum
 * by pitch. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/body.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/movement.h"
#include "graph/ops/types.h"

enum { kLongestTransform = 1 << 26, kMostPitches = 1 << 20 };

/* One number that must be known before the run; left out: `otherwise`. */
static braid_status known_number(const braid_infer *infer, size_t index, const char *what, int64_t otherwise,
                                 int64_t *out) {
  size_t count;
  *out = otherwise;
  if (!braid_infer_input(infer, index)) return BRAID_OK;
  BRAID_TRY(braid_infer_ints(infer, index, what, out, 1, &count));
  return count == 1 ? BRAID_OK : braid_infer_fail(infer, "%s is not one number", what);
}

static braid_status check_length(const braid_infer *infer, int64_t length) {
  if (length >= 1 && length <= kLongestTransform) return BRAID_OK;
  return braid_infer_fail(infer, "a transform of %lld numbers, expected 1 to %d", (long long)length, kLongestTransform);
}

/* --- DFT -----------------------------------------------------------------------------------------------------------
 */
typedef struct dft {
  int64_t length;
  int axis, parts; /* parts: 1 real, 2 complex numbers */
  bool inverse, onesided;
} dft;

static braid_status read_dft(const braid_infer *infer, dft *d) {
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t axis;
  d->inverse = braid_attr_int(&infer->node->attrs, "inverse", 0) != 0;
  d->onesided = braid_attr_int(&infer->node->attrs, "onesided", 0) != 0;
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  d->parts = x->rank ? (int)x->dims[x->rank - 1] : 0;
  if (x->rank < 2 || (d->parts != 1 && d->parts != 2))
    return braid_infer_fail(infer, "the last dimension is no real or complex number, 1 or 2");
  if (d->onesided && d->parts != (d->inverse ? 2 : 1))
    return braid_infer_fail(infer, "onesided, of %s numbers", d->parts == 1 ? "real" : "complex");
  BRAID_TRY(known_number(infer, 2, "axis", -2, &axis));
  BRAID_TRY(braid_infer_axis(infer, axis, x->rank, &d->axis));
  if (d->axis == x->rank - 1) return braid_infer_fail(infer, "the axis is that of real and imaginary parts");
  int64_t given = x->dims[d->axis];
  BRAID_TRY(known_number(infer, 1, "dft_length", d->onesided && d->inverse ? 2 * (given - 1) : given, &d->length));
  return check_length(infer, d->length);
}

static braid_status infer_dft(const braid_infer *infer) {
  int64_t dims[BRAID_MAX_RANK];
  dft d;
  BRAID_TRY(read_dft(infer, &d));
  const braid_desc *x = braid_infer_input(infer, 0);
  memcpy(dims, x->dims, sizeof dims);
  dims[d.axis] = d.onesided && !d.inverse ? d.length / 2 + 1 : d.length;
  dims[x->rank - 1] = d.onesided && d.inverse ? 1 : 2;
  return braid_infer_output(infer, 0, x->dtype, x->rank, dims);
}

/* Of a symmetric line each number but the first, and the middle one, stands for two. */
static braid_status mirrored_weights(braid_gradient_context *context, const braid_desc *x, const dft *d,
                                     braid_value_id *out) {
  braid_desc desc = {.dtype = x->dtype, .rank = x->rank};
  braid_tensor *tensor;
  for (int i = 0; i < x->rank; i++) desc.dims[i] = i == d->axis ? d->length / 2 + 1 : 1;
  BRAID_TRY(braid_tensor_create(context->graph->allocator, &desc, &tensor));
  for (int64_t i = 0; i < desc.dims[d->axis]; i++)
    braid_tensor_set_f64(tensor, i, (i == 0 || 2 * i == d->length ? 1 : 2) / (double)d->length);
  braid_status status = braid_graph_add_tensor(context->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* The transform is linear: its adjoint is the one in the other direction, scaled the other way. Numbers that were cut
 * off get zeros, zeros that were added and imaginary parts that there were not are cut off. */
static braid_status dft_gradient(braid_gradient_context *context) {
  braid_node *forward = &context->graph->nodes[context->node];
  const braid_desc x = context->graph->values[forward->inputs[0]].desc;
  dft d;
  BRAID_TRY(read_dft(&(braid_infer){context->graph, forward}, &d));
  bool halved = d.onesided && d.inverse;
  braid_value_id inputs[3] = {braid_gradient_of_output(context, 0)}, factors[2], pads, gradient;
  braid_node_id node;
  BRAID_TRY(braid_gradient_ints(context, &d.length, 1, &inputs[1]));
  BRAID_TRY(braid_gradient_ints(context, &(int64_t){d.axis}, 1, &inputs[2]));
  BRAID_TRY(braid_gradient_node(context, "DFT", inputs, 3, &factors[0], &node));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "inverse", !d.inverse));
  BRAID_TRY(braid_graph_set_int(context->graph, node, "onesided", halved));
  BRAID_TRY(braid_graph_infer_node(context->graph, node));
  double scale = d.inverse ? 1 / (double)d.length : (double)d.length;
  if (halved)
    BRAID_TRY(mirrored_weights(context, &x, &d, &factors[1]));
  else
    BRAID_TRY(braid_gradient_scalar(context, x.dtype, scale, &factors[1]));
  BRAID_TRY(braid_gradient_node(context, "Mul", factors, 2, &gradient, NULL));
  int64_t ends[2 * BRAID_MAX_RANK] = {0}, have = halved ? d.length / 2 + 1 : d.length;
  ends[x.rank + d.axis] = x.dims[d.axis] - have;
  ends[2 * x.rank - 1] = d.parts - 2;
  if (ends[x.rank + d.axis] || ends[2 * x.rank - 1]) {
    BRAID_TRY(braid_gradient_ints(context, ends, 2 * (size_t)x.rank, &pads));
    BRAID_TRY(braid_gradient_node(context, "Pad", (braid_value_id[]){gradient, pads}, 2, &gradient, NULL));
  }
  return braid_gradient_give(context, 0, gradient);
}

/* --- STFT ----------------------------------------------------------------------------------------------------------
 */
typedef struct stft {
  int64_t step, length, frames;
  bool onesided;
} stft;

static braid_status read_stft(const braid_infer *infer, stft *s) {
  const braid_desc *x = braid_infer_input(infer, 0), *window = braid_infer_input(infer, 2);
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  if (x->rank < 2 || x->rank > 3 || (x->rank == 3 && x->dims[2] != 1 && x->dims[2] != 2))
    return braid_infer_fail(infer, "the signal is not batch x length, or x 1 or 2 behind that");
  if (window) {
    BRAID_TRY(braid_infer_same_type(infer, 2, 0));
    if (window->rank != 1) return braid_infer_fail(infer, "the window is no list");
  }
  if (!window && !braid_infer_input(infer, 3)) return braid_infer_fail(infer, "neither window nor frame_length");
  BRAID_TRY(known_number(infer, 1, "frame_step", 0, &s->step));
  BRAID_TRY(known_number(infer, 3, "frame_length", window ? window->dims[0] : 0, &s->length));
  BRAID_TRY(check_length(infer, s->length));
  if (s->step < 1 || s->length > x->dims[1])
    return braid_infer_fail(infer, "frames of %lld every %lld of a signal of %lld", (long long)s->length,
                            (long long)s->step, (long long)x->dims[1]);
  if (window && window->dims[0] != s->length)
    return braid_infer_fail(infer, "a window of %lld for frames of %lld", (long long)window->dims[0],
                            (long long)s->length);
  s->frames = (x->dims[1] - s->length) / s->step + 1;
  s->onesided = braid_attr_int(&infer->node->attrs, "onesided", 1) != 0;
  if (s->onesided && x->rank == 3 && x->dims[2] == 2) return braid_infer_fail(infer, "onesided, of complex numbers");
  return BRAID_OK;
}

static braid_status infer_stft(const braid_infer *infer) {
  stft s;
  BRAID_TRY(read_stft(infer, &s));
  const braid_desc *x = braid_infer_input(infer, 0);
  int64_t bins = s.onesided ? s.length / 2 + 1 : s.length;
  return braid_infer_output(infer, 0, x->dtype, 4, (int64_t[]){x->dims[0], s.frames, bins, 2});
}

/* Which numbers of the signal each frame has; context: the length of a frame, and the step to the next. */
static double frame_place(int64_t at, const double *context) {
  int64_t length = (int64_t)context[0];
  return (double)(at / length) * context[1] + (double)(at % length);
}

void braid_expand_STFT(braid_body *body) {
  stft s;
  body->status = read_stft(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &s);
  if (body->status != BRAID_OK) return;
  const braid_body_attr second[] = {{.name = "axis", .i = 1}, {0}};
  const braid_body_attr sides[] = {{.name = "onesided", .i = s.onesided}, {0}};
  const braid_desc places = {.dtype = BRAID_I64, .rank = 2, .dims = {s.frames, s.length}};
  braid_value_id x = braid_body_input(body, 0), window = braid_body_input(body, 2);
  const braid_desc signal = *braid_body_desc(body, x);
  if (signal.rank == 2) x = braid_body_reshape(body, x, 3, (int64_t[]){signal.dims[0], signal.dims[1], 1});
  braid_value_id list = braid_body_tabulate(body, &places, frame_place, (double[]){(double)s.length, (double)s.step});
  braid_value_id frames = braid_body_node(body, "Gather", (braid_value_id[]){x, list}, 2, second);
  if (window >= 0)
    frames = braid_body_2(body, "Mul", frames, braid_body_reshape(body, window, 2, (int64_t[]){s.length, 1}));
  braid_value_id axis = braid_body_scalar(body, BRAID_I64, 2);
  braid_body_give(body, 0, braid_body_node(body, "DFT", (braid_value_id[]){frames, -1, axis}, 3, sides));
}

/* --- MelWeightMatrix -----------------------------------------------------------------------------------------------
 * Triangles over a spectrum, whose corners lie at equal steps of pitch. */
typedef struct mel {
  int64_t pitches, bins, length, rate;
  double low, high; /* mel */
} mel;

/* The bin in which corner `i` lies. */
static double mel_corner(const mel *m, int64_t i) {
  double pitch = m->low + (double)i * (m->high - m->low) / (double)(m->pitches + 2);
  return floor((double)(m->length + 1) * 700 * expm1(pitch / 2595 * log(10)) / (double)m->rate);
}

static braid_status known_frequency(const braid_infer *infer, size_t index, double *out) {
  BRAID_TRY(braid_infer_type(infer, index, kFloat));
  const braid_tensor *known = braid_infer_constant(infer, index);
  if (!known || braid_desc_count(braid_tensor_desc(known)) != 1)
    return braid_infer_fail(infer, "input %zu is not one number that is known before the run", index);
  double hertz = braid_tensor_get_f64(known, 0);
  if (!(hertz >= 0 && hertz < 1e15)) return braid_infer_fail(infer, "a frequency of %g Hz", hertz);
  *out = 2595 * log1p(hertz / 700) / log(10);
  return BRAID_OK;
}

static braid_status read_mel(const braid_infer *infer, mel *m) {
  static const char *const kNames[3] = {"num_mel_bins", "dft_length", "sample_rate"};
  int64_t numbers[3];
  for (size_t i = 0; i < 3; i++) {
    if (!braid_infer_input(infer, i)) return braid_infer_fail(infer, "%s is missing", kNames[i]);
    BRAID_TRY(known_number(infer, i, kNames[i], 0, &numbers[i]));
    if (numbers[i] < 1 || numbers[i] > kLongestTransform)
      return braid_infer_fail(infer, "%s is %lld, expected 1 to %d", kNames[i], (long long)numbers[i],
                              kLongestTransform);
  }
  *m = (mel){.pitches = numbers[0], .length = numbers[1], .rate = numbers[2], .bins = numbers[1] / 2 + 1};
  if (m->pitches > kMostPitches) return braid_infer_fail(infer, "more than %d pitches", kMostPitches);
  BRAID_TRY(known_frequency(infer, 3, &m->low));
  BRAID_TRY(known_frequency(infer, 4, &m->high));
  if (m->high < m->low) return braid_infer_fail(infer, "the frequencies end before they begin");
  if (mel_corner(m, m->pitches) >= (double)m->bins || mel_corner(m, m->pitches + 1) > (double)m->bins)
    return braid_infer_fail(infer, "frequencies beyond the %lld of the spectrum", (long long)m->bins);
  return BRAID_OK;
}

static braid_status infer_mel(const braid_infer *infer) {
  mel m;
  int64_t to = braid_attr_int(&infer->node->attrs, "output_datatype", 1);
  braid_dtype dtype = braid_dtype_from_onnx(to);
  if (!(kNumber >> dtype & 1))
    return braid_infer_fail(infer, "output_datatype is %s (%lld)", braid_onnx_dtype_name(to), (long long)to);
  BRAID_TRY(read_mel(infer, &m));
  return braid_infer_output(infer, 0, dtype, 2, (int64_t[]){m.bins, m.pitches});
}

void braid_expand_MelWeightMatrix(braid_body *body) {
  mel m;
  braid_tensor *tensor;
  const braid_desc desc = *braid_body_output_desc(body);
  body->status = read_mel(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &m);
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, &desc, &tensor);
  if (body->status != BRAID_OK) return;
  memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
  for (int64_t i = 0; i < m.pitches; i++) {
    int64_t low = (int64_t)mel_corner(&m, i), top = (int64_t)mel_corner(&m, i + 1),
            end = (int64_t)mel_corner(&m, i + 2);
    for (int64_t j = low; j < top; j++)
      braid_tensor_set_f64(tensor, j * m.pitches + i, (double)(j - low) / (double)(top - low));
    braid_tensor_set_f64(tensor, top * m.pitches + i, 1);
    for (int64_t j = top + 1; j < end; j++)
      braid_tensor_set_f64(tensor, j * m.pitches + i, (double)(end - j) / (double)(end - top));
  }
  braid_body_give(body, 0, braid_body_tensor(body, tensor));
}

static const braid_op kOps[] = {
    {"DFT", 1, 3, 1, 1, 0, infer_dft, NULL, dft_gradient},
    {"MelWeightMatrix", 5, 5, 1, 1, BRAID_OP_FUNCTION, infer_mel, NULL, NULL},
    {"STFT", 2, 4, 1, 1, BRAID_OP_FUNCTION, infer_stft, NULL, NULL},
};

extern const braid_op_family braid_ops_fourier;
const braid_op_family braid_ops_fourier = {kOps, sizeof kOps / sizeof *kOps};
