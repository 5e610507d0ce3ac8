/* The numbers that training in integers starts from: docs/integer-training.md, "Parameters". */
#include <math.h>

#include "base/philox.h"
#include "base/try.h"
#include "graph/integer.h"
#include "train/integer/network.h"

int64_t braid_integer_weight_places(const braid_integer_network *net, const braid_integer_layer *layer) {
  return layer->norm_node >= 0 ? net->weight_bits - 1 : layer->shift;
}

double braid_integer_gamma_unit(const braid_integer_network *net) {
  return ldexp(1, 5 - 8 + net->activation_bits - net->input_shift);
}

static braid_status create_parameter(const braid_integer_network *net, const braid_desc *like, bool turned,
                                     braid_tensor **out) {
  braid_desc desc;
  int64_t dims[BRAID_MAX_RANK];
  for (int i = 0; i < like->rank; i++) dims[i] = like->dims[turned ? like->rank - 1 - i : i];
  BRAID_TRY(braid_desc_init(&desc, net->gradient_bits == 8 ? BRAID_I8 : BRAID_I16, like->rank, dims));
  return braid_tensor_create(net->allocator, &desc, out);
}

static void put_integer(braid_tensor *tensor, int64_t i, int64_t value) {
  if (braid_tensor_desc(tensor)->dtype == BRAID_I8)
    ((int8_t *)braid_tensor_data(tensor))[i] = (int8_t)value;
  else
    ((int16_t *)braid_tensor_data(tensor))[i] = (int16_t)value;
}

static int64_t nearest(double value, int64_t bits) {
  double most = (double)braid_integer_max(bits), rounded = floor(value + 0.5);
  return isnan(rounded) ? 0 : (int64_t)fmax(-most, fmin(most, rounded));
}

static braid_status check_finite(const braid_value *value) {
  for (int64_t i = 0; i < braid_desc_count(&value->desc); i++)
    if (!isfinite(braid_tensor_get_f64(value->tensor, i)))
      return braid_fail(BRAID_NOT_FINITE, "parameter %.120s holds a number that is not finite", value->name);
  return BRAID_OK;
}

/* Are all numbers weights of a file that this training saved: integers of weight_bits, times 2^-places? */
static bool is_on_grid(const braid_integer_network *net, const braid_tensor *from, int64_t places) {
  int64_t count = braid_desc_count(braid_tensor_desc(from));
  double most = (double)braid_integer_max(net->weight_bits);
  for (int64_t i = 0; i < count; i++) {
    double value = ldexp(braid_tensor_get_f64(from, i), (int)places);
    if (value != floor(value) || fabs(value) > most) return false;
  }
  return true;
}

/* Places by which the model's numbers become integers of gradient_bits. */
static int find_places(const braid_integer_network *net, const braid_integer_layer *layer, const braid_tensor *from) {
  int64_t count = braid_desc_count(braid_tensor_desc(from)), places = braid_integer_weight_places(net, layer);
  if (is_on_grid(net, from, places)) return (int)places + net->gradient_bits - net->weight_bits;
  double most = 0;
  int c = 0;
  for (int64_t i = 0; i < count; i++) {
    most = fmax(most, fabs(braid_tensor_get_f64(from, i)));
  }
  if (most > 0 && frexp(most, &c) == 0.5) c--;
  return net->gradient_bits - 1 - c;
}

braid_status braid_integer_weight(const braid_integer_network *net, const braid_integer_layer *layer, uint64_t seed,
                                  bool drawn, braid_tensor **out) {
  const braid_value *value = &net->graph->values[layer->weight];
  *out = NULL;
  if (!drawn) BRAID_TRY(check_finite(value));
  BRAID_TRY(create_parameter(net, &value->desc, layer->transposed, out));
  int64_t count = braid_desc_count(&value->desc), bits = net->gradient_bits;
  int64_t rows = value->desc.dims[0], columns = rows ? count / rows : 0;
  uint32_t stream = braid_integer_stream(value->name);
  int places = drawn ? 0 : find_places(net, layer, value->tensor);
  for (int64_t i = 0; i < count; i++) {
    int64_t from = layer->transposed ? i % rows * columns + i / rows : i;
    uint64_t u = drawn ? braid_random_u32(seed, 0, stream, (uint64_t)i) : 0;
    put_integer(*out, i,
                drawn ? (int64_t)(u * (((uint64_t)1 << bits) - 1) >> 32) - braid_integer_max(bits)
                      : nearest(ldexp(braid_tensor_get_f64(value->tensor, from), places), bits));
  }
  return BRAID_OK;
}

/* What 1 of a given gamma or beta stands for before norm_places are taken from it. */
static double gamma_scale(const braid_integer_network *net) {
  return ldexp(1, net->gradient_bits - 2) / braid_integer_gamma_unit(net);
}

static double beta_scale(const braid_integer_network *net) {
  return ldexp(32 / braid_integer_gamma_unit(net), net->gradient_bits - 8);
}

/* The least places by which no number of the parameter needs more bits; of one that rounds up to 2^(bits - 1) the last
 * step is clipped. */
static int places_of(const braid_integer_network *net, braid_value_id id, double scale, double *size) {
  const braid_value *value = &net->graph->values[id];
  double limit = ldexp(1, net->gradient_bits - 1);
  int places = 0;
  *size = 0;
  for (int64_t i = 0; i < braid_desc_count(&value->desc); i++) {
    double number = braid_tensor_get_f64(value->tensor, i);
    if (!isfinite(number)) continue;
    *size = fmax(*size, fabs(number));
    while (ldexp(fabs(number) * scale, -places) >= limit) places++;
  }
  return places;
}

int braid_integer_find_norm_places(const braid_integer_network *net, braid_value_id *widest, double *size) {
  int places = 0;
  for (size_t i = 0; i < 2 * net->layer_count; i++) {
    const braid_integer_layer *layer = &net->layers[i / 2];
    double most;
    if (layer->norm_node < 0) continue;
    braid_value_id id = i % 2 ? layer->beta : layer->gamma;
    int needs = places_of(net, id, i % 2 ? beta_scale(net) : gamma_scale(net), &most);
    if (needs <= places) continue;
    places = needs;
    if (widest) *widest = id;
    if (size) *size = most;
  }
  return places;
}

/* `scale` is what 1 stands for, `otherwise` what is drawn. */
static braid_status channel_parameter(const braid_integer_network *net, braid_value_id id, double scale, bool drawn,
                                      int64_t otherwise, braid_tensor **out) {
  const braid_value *value = &net->graph->values[id];
  *out = NULL;
  if (!drawn) BRAID_TRY(check_finite(value));
  BRAID_TRY(create_parameter(net, &value->desc, false, out));
  for (int64_t i = 0; i < braid_desc_count(&value->desc); i++)
    put_integer(*out, i,
                drawn ? otherwise : nearest(braid_tensor_get_f64(value->tensor, i) * scale, net->gradient_bits));
  return BRAID_OK;
}

braid_status braid_integer_gamma(const braid_integer_network *net, const braid_integer_layer *layer, bool drawn,
                                 braid_tensor **out) {
  double scale = ldexp(gamma_scale(net), -net->norm_places);
  return channel_parameter(net, layer->gamma, scale, drawn, (int64_t)1 << (net->gradient_bits - 3), out);
}

braid_status braid_integer_beta(const braid_integer_network *net, const braid_integer_layer *layer, bool drawn,
                                braid_tensor **out) {
  return channel_parameter(net, layer->beta, ldexp(beta_scale(net), -net->norm_places), drawn, 0, out);
}
