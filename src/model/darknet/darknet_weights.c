/* .weights: a header (version major, minor, revision; images seen), then float32 tensors without names, in the order of
 * the layers and within a layer in Darknet's own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/philox.h"
#include "base/try.h"
#include "model/darknet/darknet.h"
#include "tensor/deferred.h"
#include "tensor/read.h"

braid_status braid_darknet_weights_open(braid_darknet *net) {
  if (!net->weights) return BRAID_OK;
  size_t bytes = braid_reader_bytes(net->weights);
  int32_t version[3] = {0};
  if (bytes >= sizeof version) BRAID_TRY(braid_reader_get(net->weights, 0, version, sizeof version));
  int32_t major = version[0], minor = version[1];
  bool sane = major >= 0 && minor >= 0 && major <= 100000 && minor <= 100000;
  bool wide = major < 1000 && minor < 1000 && (int64_t)major * 10 + minor >= 2; /* images seen: 64 bits, before 32 */
  net->offset = sizeof version + (wide ? 8 : 4);
  net->transposed = major > 1000 || minor > 1000;
  if (bytes >= net->offset && sane) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: not a Darknet weights file: %zu bytes, version %d.%d",
                    braid_reader_name(net->weights), bytes, major, minor);
}

braid_status braid_darknet_weights_close(braid_darknet *net) {
  if (!net->weights) return BRAID_OK;
  size_t bytes = braid_reader_bytes(net->weights);
  if (net->offset == bytes) return braid_reader_check(net->weights);
  return braid_fail(BRAID_INVALID_FILE, "%s: has %zu bytes, the network of %s takes %zu",
                    braid_reader_name(net->weights), bytes, net->cfg->path, net->offset);
}

static braid_status take(braid_darknet *net, const braid_desc *desc, braid_tensor **out) {
  size_t bytes = braid_reader_bytes(net->weights), end;
  if (!braid_add_size(net->offset, braid_desc_bytes(desc), &end) || end > bytes)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "%s ends at byte %zu, in the middle of this layer's weights",
                              braid_reader_name(net->weights), bytes);
  BRAID_TRY(braid_tensor_read(net->allocator, net->weights, net->offset, desc, out));
  net->offset = end;
  return BRAID_OK;
}

/* --- random weights ------------------------------------------------------------------------------------------------
 * Computed when somebody asks for them: to inspect a network, or plan it, nobody has to. */
typedef struct random_weights {
  const braid_allocator *allocator;
  uint64_t seed, stream;
  int64_t count;
  braid_darknet_fill kind;
  double scale;
} random_weights;

static void random_weights_fill(void *context, const void *source, void *data) {
  (void)source;
  const random_weights *r = context;
  float *to = data;
#pragma omp parallel for schedule(static) if (r->count > 1 << 14)
  for (int64_t i = 0; i < r->count; i++) {
    double value = r->kind == BRAID_FILL_NORMAL
                       ? braid_random_normal(r->seed, 0, r->stream, (uint64_t)i)
                       : 2 * (double)braid_random_uniform(r->seed, 0, r->stream, (uint64_t)i) - 1;
    to[i] = (float)(value * r->scale);
  }
}

static void random_weights_release(void *context) {
  braid_free(((random_weights *)context)->allocator, context);
}

static braid_status make_random(const braid_darknet *net, const braid_desc *desc, braid_darknet_fill kind, double scale,
                                braid_tensor **out) {
  random_weights *r = braid_alloc(net->allocator, sizeof *r);
  if (!r) return BRAID_NO_MEMORY;
  *r = (random_weights){net->allocator, net->seed, net->tensors, braid_desc_count(desc), kind, scale};
  braid_deferred deferred = {.fill = random_weights_fill, .release = random_weights_release, .context = r};
  braid_status status = braid_tensor_defer(net->allocator, desc, &deferred, out);
  if (status != BRAID_OK) random_weights_release(r);
  return status;
}

static braid_status make_constant(const braid_darknet *net, const braid_desc *desc, float value, braid_tensor **out) {
  BRAID_TRY(braid_tensor_create(net->allocator, desc, out));
  float *to = braid_tensor_data(*out);
  for (int64_t i = 0; i < braid_desc_count(desc); i++) to[i] = value;
  return BRAID_OK;
}

static braid_status tensor_add(braid_darknet *net, const char *name, braid_tensor *tensor, braid_value_id *out) {
  char full[128];
  snprintf(full, sizeof full, "%zu_%.40s.%.60s", net->index, net->section->type, name);
  net->tensors++;
  return braid_graph_add_tensor(net->graph, full, BRAID_VALUE_CONSTANT, tensor, out);
}

static braid_status tensor_make(braid_darknet *net, const braid_desc *desc, braid_darknet_fill kind, double scale,
                                braid_tensor **out) {
  if (net->weights) return take(net, desc, out);
  if (kind == BRAID_FILL_NORMAL || kind == BRAID_FILL_UNIFORM) return make_random(net, desc, kind, scale, out);
  return make_constant(net, desc, kind == BRAID_FILL_ONE ? (float)scale : 0, out);
}

static braid_status weights_desc(const braid_darknet *net, int rank, const int64_t *dims, braid_desc *desc) {
  if (braid_desc_init(desc, BRAID_F32, rank, dims) == BRAID_OK &&
      braid_desc_bytes(desc) <= BRAID_DARKNET_MAX_WEIGHTS_BYTES)
    return BRAID_OK;
  return braid_darknet_fail(net, BRAID_INVALID_FILE, "its weights take more than %llu bytes",
                            BRAID_DARKNET_MAX_WEIGHTS_BYTES);
}

braid_status braid_darknet_tensor(braid_darknet *net, const char *name, int rank, const int64_t *dims,
                                  braid_darknet_fill kind, double scale, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(weights_desc(net, rank, dims, &desc));
  BRAID_TRY(tensor_make(net, &desc, kind, scale, &tensor));
  braid_status status = tensor_add(net, name, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status transpose(const braid_darknet *net, braid_tensor **tensor) {
  const braid_desc *from = braid_tensor_desc(*tensor);
  braid_desc desc;
  braid_tensor *turned;
  int64_t rows = from->dims[1], columns = from->dims[0];
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){rows, columns}));
  BRAID_TRY(braid_tensor_create(net->allocator, &desc, &turned));
  const float *source = braid_tensor_const_data(*tensor);
  float *to = braid_tensor_data(turned);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) to[r * columns + c] = source[c * rows + r];
  braid_tensor_release(*tensor);
  *tensor = turned;
  return BRAID_OK;
}

braid_status braid_darknet_matrix(braid_darknet *net, const char *name, int64_t rows, int64_t columns, bool transposed,
                                  double scale, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  bool turn = transposed && net->weights;
  BRAID_TRY(weights_desc(net, 2, turn ? (int64_t[]){columns, rows} : (int64_t[]){rows, columns}, &desc));
  BRAID_TRY(tensor_make(net, &desc, BRAID_FILL_UNIFORM, scale, &tensor));
  braid_status status = turn ? transpose(net, &tensor) : BRAID_OK;
  if (status == BRAID_OK) status = tensor_add(net, name, tensor, out);
  braid_tensor_release(tensor);
  return status;
}
