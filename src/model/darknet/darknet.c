#include "model/darknet/darknet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/model.h"

/* --- messages and options ----------------------------------------------------------------------------------------- */
braid_status braid_darknet_fail(const braid_darknet *net, braid_status status, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return braid_fail(status, "%s:%d: [%.40s] %s", net->cfg->path, net->section->line, net->section->type, message);
}

braid_status braid_darknet_int(const braid_darknet *net, const char *key, int64_t otherwise, int64_t low, int64_t high,
                               int64_t *out) {
  return braid_cfg_int(net->cfg, net->section, key, otherwise, low, high, out);
}

braid_status braid_darknet_float(const braid_darknet *net, const char *key, double otherwise, double *out) {
  return braid_cfg_float(net->cfg, net->section, key, otherwise, out);
}

braid_status braid_darknet_only(const braid_darknet *net, const char *key, double value) {
  const braid_cfg_option *option = braid_cfg_find(net->cfg, net->section, key);
  double given;
  if (!option || (braid_parse_f64(option->value, &given) && given == value)) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "%s:%d: [%.40s] %s=%.80s, only %g is supported", net->cfg->path, option->line,
                    net->section->type, key, option->value, value);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */
static braid_status set_attr(braid_graph *graph, braid_node_id node, const braid_darknet_attr *attr) {
  switch (attr->kind) {
  case BRAID_DARKNET_INT:
    return braid_graph_set_int(graph, node, attr->name, attr->i);
  case BRAID_DARKNET_INTS:
    return braid_graph_set_ints(graph, node, attr->name, attr->ints, attr->count);
  case BRAID_DARKNET_FLOAT:
    return braid_graph_set_float(graph, node, attr->name, attr->f);
  case BRAID_DARKNET_STRING:
    return braid_graph_set_string(graph, node, attr->name, attr->s);
  }
  return braid_fail(BRAID_INTERNAL, "attribute %s is of no known kind", attr->name);
}

braid_status braid_darknet_node(braid_darknet *net, const char *op, const braid_value_id *inputs, size_t input_count,
                                const braid_darknet_attr *attrs, size_t attr_count, braid_value_id *out) {
  char name[96];
  braid_value_id output = 0;
  braid_node_id node;
  snprintf(name, sizeof name, "%zu_%.40s/%.30s", net->index, net->section->type, op);
  BRAID_TRY(braid_graph_add_node(net->graph, op, name, inputs, input_count, &output, 1, &node));
  for (size_t i = 0; i < attr_count; i++) BRAID_TRY(set_attr(net->graph, node, &attrs[i]));
  *out = output;
  return BRAID_OK;
}

static braid_status constant(braid_darknet *net, braid_dtype dtype, int rank, int64_t count, const void *data,
                             braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, dtype, rank, &count));
  BRAID_TRY(braid_tensor_create(net->allocator, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), data, braid_desc_bytes(&desc));
  braid_status status = braid_graph_add_tensor(net->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_darknet_scalar(braid_darknet *net, double value, braid_value_id *out) {
  return constant(net, BRAID_F32, 0, 1, &(float){(float)value}, out);
}

braid_status braid_darknet_ints(braid_darknet *net, const int64_t *values, size_t count, braid_value_id *out) {
  return constant(net, BRAID_I64, 1, (int64_t)count, values, out);
}

braid_status braid_darknet_floats(braid_darknet *net, const float *values, size_t count, braid_value_id *out) {
  return constant(net, BRAID_F32, 1, (int64_t)count, values, out);
}

braid_status braid_darknet_zeros(braid_darknet *net, int64_t count, braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 1, &count));
  BRAID_TRY(braid_tensor_create(net->allocator, &desc, &tensor));
  memset(braid_tensor_data(tensor), 0, braid_desc_bytes(&desc));
  braid_status status = braid_graph_add_tensor(net->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_darknet_reshape(braid_darknet *net, braid_value_id value, int rank, const int64_t *dims,
                                   braid_value_id *out) {
  braid_value_id shape;
  BRAID_TRY(braid_darknet_ints(net, dims, (size_t)rank, &shape));
  return braid_darknet_node(net, "Reshape", (braid_value_id[]){value, shape}, 2, NULL, 0, out);
}

braid_status braid_darknet_with_scalar(braid_darknet *net, const char *op, braid_value_id value, double scalar,
                                       braid_value_id *out) {
  braid_value_id constant_value;
  BRAID_TRY(braid_darknet_scalar(net, scalar, &constant_value));
  return braid_darknet_node(net, op, (braid_value_id[]){value, constant_value}, 2, NULL, 0, out);
}

/* --- what a layer reads ------------------------------------------------------------------------------------------- */
braid_status braid_darknet_image(braid_darknet *net, braid_value_id *out) {
  const braid_darknet_output *in = &net->input;
  *out = in->value;
  if (!in->list) return BRAID_OK;
  return braid_darknet_reshape(net, in->value, 4, (int64_t[]){-1, in->c, in->h, in->w}, out);
}

braid_status braid_darknet_list(braid_darknet *net, braid_value_id *out) {
  const braid_darknet_output *in = &net->input;
  *out = in->value;
  if (in->list) return BRAID_OK;
  return braid_darknet_node(net, "Flatten", &in->value, 1, (braid_darknet_attr[]){BRAID_ATTR_I("axis", 1)}, 1, out);
}

braid_status braid_darknet_earlier(const braid_darknet *net, int64_t number, const braid_darknet_output **out) {
  int64_t index = number < 0 ? (int64_t)net->index + number : number;
  *out = NULL;
  if (index < 0 || index >= (int64_t)net->index)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "refers to layer %lld, expected one from 0 to %lld, before it",
                              (long long)index, (long long)net->index - 1);
  *out = &net->outputs[index];
  return BRAID_OK;
}

/* --- layers ------------------------------------------------------------------------------------------------------- */
/* Sorted by nothing: a dozen comparisons per layer. `output`: its result is one of the network's, wherever it stands.
 */
static const struct layer_type {
  const char *name;
  braid_darknet_layer *build; /* NULL: not supported, for the reason in `why` */
  bool output;
  const char *why;
} kTypes[] = {
    {"convolutional", braid_darknet_layer_convolutional, false, NULL},
    {"conv", braid_darknet_layer_convolutional, false, NULL},
    {"deconvolutional", braid_darknet_layer_deconvolutional, false, NULL},
    {"deconv", braid_darknet_layer_deconvolutional, false, NULL},
    {"connected", braid_darknet_layer_connected, false, NULL},
    {"conn", braid_darknet_layer_connected, false, NULL},
    {"maxpool", braid_darknet_layer_maxpool, false, NULL},
    {"max", braid_darknet_layer_maxpool, false, NULL},
    {"avgpool", braid_darknet_layer_avgpool, false, NULL},
    {"avg", braid_darknet_layer_avgpool, false, NULL},
    {"batchnorm", braid_darknet_layer_batchnorm, false, NULL},
    {"local_avgpool", braid_darknet_layer_local_avgpool, false, NULL},
    {"normalization", braid_darknet_layer_normalization, false, NULL},
    {"lrn", braid_darknet_layer_normalization, false, NULL},
    {"softmax", braid_darknet_layer_softmax, false, NULL},
    {"soft", braid_darknet_layer_softmax, false, NULL},
    {"dropout", braid_darknet_layer_dropout, false, NULL},
    {"activation", braid_darknet_layer_activation, false, NULL},
    {"logistic", braid_darknet_layer_logistic, false, NULL},
    {"l2norm", braid_darknet_layer_l2norm, false, NULL},
    {"cost", braid_darknet_layer_cost, false, NULL},
    {"empty", braid_darknet_layer_pass, false, NULL},
    {"yolo", braid_darknet_layer_yolo, true, NULL},
    {"region", braid_darknet_layer_region, true, NULL},
    {"detection", braid_darknet_layer_detection, true, NULL},
    {"route", braid_darknet_layer_route, false, NULL},
    {"shortcut", braid_darknet_layer_shortcut, false, NULL},
    {"sam", braid_darknet_layer_sam, false, NULL},
    {"scale_channels", braid_darknet_layer_scale_channels, false, NULL},
    {"upsample", braid_darknet_layer_upsample, false, NULL},
    {"reorg", braid_darknet_layer_reorg, false, NULL},
    {"crop", braid_darknet_layer_crop, false, NULL},
    {"local", braid_darknet_layer_local, false, NULL},
    {"rnn", braid_darknet_layer_rnn, false, NULL},
    {"crnn", braid_darknet_layer_crnn, false, NULL},
    {"gru", braid_darknet_layer_gru, false, NULL},
    {"lstm", braid_darknet_layer_lstm, false, NULL},
    {"embedding", braid_darknet_layer_embedding, false, NULL},
    {"layernorm", braid_darknet_layer_layernorm, false, NULL},
    {"transformer", braid_darknet_layer_transformer, false, NULL},
    {"sequence", braid_darknet_layer_sequence, false, NULL},
    {"iseg", NULL, false, "instance segmentation is a loss, not a network"},
    {"conv_lstm", NULL, false, "convolutional LSTM"},
    {"Gaussian_yolo", NULL, false, "Gaussian detection"},
    {"reorg3d", NULL, false, "its order of elements differs from [reorg]"},
};

static const struct layer_type *find_type(const char *name) {
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; i++)
    if (strcmp(kTypes[i].name, name) == 0) return &kTypes[i];
  return NULL;
}

/* Darknet's ways to take only some of a layer's weights from the file. */
static braid_status refuse_partial_weights(const braid_darknet *net) {
  BRAID_TRY(braid_darknet_only(net, "dontload", 0));
  BRAID_TRY(braid_darknet_only(net, "dontloadscales", 0));
  return braid_darknet_only(net, "numload", 0);
}

static braid_status build_layer(braid_darknet *net, braid_darknet_output *out) {
  const struct layer_type *type = find_type(net->section->type);
  if (!type) return braid_darknet_fail(net, BRAID_INVALID_FILE, "is no type of layer");
  if (!type->build) return braid_darknet_fail(net, BRAID_UNSUPPORTED, "layer: %s", type->why);
  BRAID_TRY(refuse_partial_weights(net));
  BRAID_TRY(type->build(net, out));
  BRAID_TRY(braid_darknet_check_keys(net));
  if (out->c > BRAID_DARKNET_MAX_SIZE * 64ll || out->h > BRAID_DARKNET_MAX_SIZE || out->w > BRAID_DARKNET_MAX_SIZE ||
      out->c < 1 || out->h < 1 || out->w < 1)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "gives %lld channels of %lld x %lld", (long long)out->c,
                              (long long)out->h, (long long)out->w);
  return BRAID_OK;
}

/* --- the network -------------------------------------------------------------------------------------------------- */
static braid_status build_input(braid_darknet *net) {
  int64_t c, h, w, inputs;
  net->section = &net->cfg->sections[0];
  if (strcmp(net->section->type, "net") != 0 && strcmp(net->section->type, "network") != 0)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "stands first, expected [net]");
  BRAID_TRY(braid_darknet_int(net, "channels", 0, 0, BRAID_DARKNET_MAX_SIZE, &c));
  BRAID_TRY(braid_darknet_int(net, "height", 0, 0, BRAID_DARKNET_MAX_SIZE, &h));
  BRAID_TRY(braid_darknet_int(net, "width", 0, 0, BRAID_DARKNET_MAX_SIZE, &w));
  BRAID_TRY(braid_darknet_int(net, "inputs", c * h * w, 0, INT32_MAX, &inputs));
  BRAID_TRY(braid_darknet_int(net, "time_steps", 1, 1, BRAID_DARKNET_MAX_STEPS, &net->time_steps));
  BRAID_TRY(braid_darknet_check_keys(net));
  bool image = c && h && w;
  if (!image && !inputs)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "has neither height, width and channels nor inputs");
  braid_desc desc = {.dtype = BRAID_F32, .rank = image ? 4 : 2, .dims = {-1, image ? c : inputs, h, w}};
  if (net->time_steps > 1) { /* [B, steps, ...], the steps folded into the batch for all but recurrent layers */
    desc = (braid_desc){.dtype = BRAID_F32, .rank = desc.rank + 1, .dims = {-1, net->time_steps, desc.dims[1], h, w}};
  }
  net->input = (braid_darknet_output){.c = image ? c : inputs, .h = image ? h : 1, .w = image ? w : 1, .list = !image};
  BRAID_TRY(braid_graph_add_input(net->graph, "input", &desc, &net->input.value));
  if (net->time_steps == 1) return BRAID_OK;
  int64_t folded[4] = {-1, net->input.c, net->input.h, net->input.w};
  return braid_darknet_reshape(net, net->input.value, image ? 4 : 2, folded, &net->input.value);
}

static bool is_result(const braid_darknet *net, braid_value_id value) {
  return net->graph->values[value].kind == BRAID_VALUE_RESULT;
}

static bool is_output(const braid_darknet *net, braid_value_id value) {
  for (size_t i = 0; i < net->graph->output_count; i++)
    if (net->graph->outputs[i] == value) return true;
  return false;
}

/* What a loss before the last layer is of: the scores of an auxiliary classifier, which are outputs after all others.
 */
static braid_status add_auxiliary_outputs(braid_darknet *net) {
  char name[64];
  for (size_t i = 0; i + 2 < net->cfg->count; i++) {
    braid_value_id value = net->outputs[i].value;
    if (strcmp(net->cfg->sections[i + 1].type, "cost") != 0 || is_output(net, value) || !is_result(net, value))
      continue;
    snprintf(name, sizeof name, "cost_%zu", i);
    BRAID_TRY(braid_graph_rename_value(net->graph, value, name));
    BRAID_TRY(braid_graph_add_output(net->graph, value));
  }
  return BRAID_OK;
}

/* The result of each detection layer, and of the last layer. */
static braid_status add_outputs(braid_darknet *net) {
  char name[64];
  for (size_t i = 0; i < net->cfg->count - 1; i++) {
    net->section = &net->cfg->sections[i + 1];
    const struct layer_type *type = find_type(net->section->type);
    bool last = i + 2 == net->cfg->count;
    if (!last && !type->output) continue;
    braid_value_id value = net->outputs[i].value;
    if (!is_result(net, value)) return braid_darknet_fail(net, BRAID_INVALID_FILE, "the network computes nothing");
    if (is_output(net, value)) continue; /* a loss after it passes it on */
    snprintf(name, sizeof name, "%.40s_%zu", net->section->type, i);
    BRAID_TRY(braid_graph_rename_value(net->graph, value, type->output ? name : "output"));
    BRAID_TRY(braid_graph_add_output(net->graph, value));
  }
  return add_auxiliary_outputs(net);
}

static braid_status network_build(braid_darknet *net) {
  BRAID_TRY(build_input(net));
  BRAID_TRY(braid_darknet_weights_open(net));
  if (net->cfg->count < 2) return braid_darknet_fail(net, BRAID_INVALID_FILE, "is followed by no layers");
  for (size_t i = 0; i + 1 < net->cfg->count; i++) {
    net->section = &net->cfg->sections[i + 1];
    net->index = i;
    braid_status status = build_layer(net, &net->outputs[i]);
    if (status == BRAID_NOT_FOUND) return braid_darknet_fail(net, BRAID_UNSUPPORTED, "%.300s", braid_error_detail());
    BRAID_TRY(status);
    net->input = net->outputs[i];
  }
  BRAID_TRY(braid_darknet_weights_close(net));
  braid_darknet_tell_idle(net);
  return add_outputs(net);
}

braid_status braid_darknet_import(const braid_allocator *allocator, const char *path, const char *text, size_t bytes,
                                  braid_reader *weights, uint64_t seed, const braid_log *log, braid_graph **out) {
  *out = NULL;
  braid_cfg cfg;
  braid_status status = braid_cfg_parse(allocator, path, text, bytes, &cfg);
  if (status != BRAID_OK) return status;
  braid_darknet net = {.allocator = allocator, .cfg = &cfg, .weights = weights, .seed = seed, .log = log, .mask = -1};
  braid_text_init(&net.idle, allocator);
  const char *slash = strrchr(path, '/');
  status = braid_graph_create(allocator, slash ? slash + 1 : path, &net.graph);
  net.outputs = braid_zalloc_array(allocator, cfg.count, sizeof *net.outputs);
  if (status == BRAID_OK && !net.outputs) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = network_build(&net);
  if (status == BRAID_OK)
    *out = net.graph;
  else
    braid_graph_destroy(net.graph);
  braid_free(allocator, net.outputs);
  braid_text_deinit(&net.idle);
  braid_cfg_deinit(&cfg);
  return status == BRAID_INVALID_GRAPH || status == BRAID_OUT_OF_RANGE ? BRAID_INVALID_FILE : status;
}

braid_status braid_darknet_load(const braid_allocator *allocator, const char *path, const braid_model_options *options,
                                braid_graph **out) {
  *out = NULL;
  braid_file_view view = {0};
  braid_reader *weights = NULL;
  braid_status status = braid_file_open(allocator, path, BRAID_DARKNET_MAX_CFG_BYTES, &view);
  if (status == BRAID_OK && options->weights)
    status = braid_reader_open(allocator, options->weights, BRAID_DARKNET_MAX_WEIGHTS_BYTES, &weights);
  if (status == BRAID_OK)
    status = braid_darknet_import(allocator, path, (const char *)view.data, view.bytes, weights, options->seed,
                                  options->log, out);
  braid_reader_close(weights);
  braid_file_close(&view);
  return status;
}

braid_status braid_darknet_parse(const braid_allocator *allocator, const braid_model_memory *memory,
                                 braid_graph **out) {
  braid_reader *weights = NULL;
  *out = NULL;
  if (memory->bytes > BRAID_DARKNET_MAX_CFG_BYTES)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s: larger than the %d bytes allowed", memory->name,
                      BRAID_DARKNET_MAX_CFG_BYTES);
  if (memory->weights && memory->weights_bytes > BRAID_DARKNET_MAX_WEIGHTS_BYTES)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s: weights larger than the %llu bytes allowed", memory->name,
                      BRAID_DARKNET_MAX_WEIGHTS_BYTES);
  if (memory->weights)
    BRAID_TRY(braid_reader_wrap(allocator, "weights", memory->weights, memory->weights_bytes, &weights));
  braid_status status = braid_darknet_import(allocator, memory->name, memory->data, memory->bytes, weights,
                                             memory->seed, memory->log, out);
  braid_reader_close(weights);
  return status;
}
