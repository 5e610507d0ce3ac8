/* Layers of sequences that Darknet does not have: embedding, layernorm, transformer, sequence. As in its recurrent
 * layers, the steps ([net] time_steps) of a sample stand in the batch dimension, [B * steps, ...]. A transformer is
 * that of Vaswani et al. 2017 as BERT has it (Devlin et al. 2019): attention, then a perceptron at each step, each
 * followed by dropout, the sum with what went in, and layer normalization. */
#include <math.h>
#include <stdio.h>

#include "base/try.h"
#include "model/darknet/darknet.h"

static const double kDeviation = 0.02; /* of random embeddings, as in BERT */

enum { MAX_LAYERS = 1 << 10 };

static braid_status pair(braid_darknet *net, const char *op, braid_value_id a, braid_value_id b, braid_value_id *out) {
  return braid_darknet_node(net, op, (braid_value_id[]){a, b}, 2, NULL, 0, out);
}

static braid_status permute(braid_darknet *net, braid_value_id value, const int64_t perm[4], braid_value_id *out) {
  return braid_darknet_node(net, "Transpose", &value, 1, (braid_darknet_attr[]){BRAID_ATTR_L("perm", perm, 4)}, 1, out);
}

static braid_status drop(braid_darknet *net, braid_value_id value, double ratio, braid_value_id *out) {
  braid_value_id scalar;
  *out = value;
  if (ratio == 0) return BRAID_OK;
  BRAID_TRY(braid_darknet_scalar(net, ratio, &scalar));
  return pair(net, "Dropout", value, scalar, out);
}

static braid_status ratio_of(braid_darknet *net, double *out) {
  BRAID_TRY(braid_darknet_float(net, "probability", 0, out));
  return *out >= 0 && *out < 1 ? BRAID_OK : braid_darknet_fail(net, BRAID_INVALID_FILE, "probability is not in [0, 1)");
}

static braid_status normalize(braid_darknet *net, const char *prefix, int64_t count, double epsilon,
                              braid_value_id value, braid_value_id *out) {
  char name[64];
  braid_value_id inputs[3] = {value};
  snprintf(name, sizeof name, "%sscale", prefix);
  BRAID_TRY(braid_darknet_tensor(net, name, 1, &count, BRAID_FILL_ONE, 1, &inputs[1]));
  snprintf(name, sizeof name, "%sbias", prefix);
  BRAID_TRY(braid_darknet_tensor(net, name, 1, &count, BRAID_FILL_ZERO, 1, &inputs[2]));
  return braid_darknet_node(net, "LayerNormalization", inputs, 3,
                            (braid_darknet_attr[]){BRAID_ATTR_I("axis", -1), BRAID_ATTR_F("epsilon", epsilon)}, 2, out);
}

/* Over what a step has. */
braid_status braid_darknet_layer_layernorm(braid_darknet *net, braid_darknet_output *out) {
  double epsilon;
  braid_value_id value;
  BRAID_TRY(braid_darknet_float(net, "epsilon", 1e-12, &epsilon));
  BRAID_TRY(braid_darknet_list(net, &value));
  *out = (braid_darknet_output){.c = net->input.c * net->input.h * net->input.w, .h = 1, .w = 1, .list = true};
  return normalize(net, "", out->c, epsilon, value, &out->value);
}

/* --- embedding ---------------------------------------------------------------------------------------------------- */
/* Column `at` of the ids [B * steps, columns]. */
static braid_status ids_at(braid_darknet *net, braid_value_id ids, int64_t at, braid_value_id *out) {
  braid_value_id index;
  BRAID_TRY(braid_darknet_ints(net, &at, 1, &index));
  BRAID_TRY(braid_darknet_node(net, "Gather", (braid_value_id[]){ids, index}, 2,
                               (braid_darknet_attr[]){BRAID_ATTR_I("axis", 1)}, 1, out));
  return braid_darknet_reshape(net, *out, 1, (int64_t[]){-1}, out);
}

static braid_status look_up(braid_darknet *net, const char *name, int64_t rows, int64_t width, braid_value_id ids,
                            braid_value_id *out) {
  braid_value_id table;
  BRAID_TRY(braid_darknet_tensor(net, name, 2, (int64_t[]){rows, width}, BRAID_FILL_NORMAL, kDeviation, &table));
  return pair(net, "Gather", table, ids, out);
}

/* The first `steps` rows of a table, added to each sample's steps. */
static braid_status add_positions(braid_darknet *net, int64_t rows, int64_t width, braid_value_id *sum) {
  braid_value_id table, slice[4];
  if (rows < net->time_steps)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "positions=%lld, [net] has time_steps=%lld", (long long)rows,
                              (long long)net->time_steps);
  BRAID_TRY(braid_darknet_tensor(net, "positions", 2, (int64_t[]){rows, width}, BRAID_FILL_NORMAL, kDeviation, &table));
  slice[0] = table;
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){0}, 1, &slice[1]));
  BRAID_TRY(braid_darknet_ints(net, &net->time_steps, 1, &slice[2]));
  BRAID_TRY(braid_darknet_ints(net, (int64_t[]){0}, 1, &slice[3]));
  BRAID_TRY(braid_darknet_node(net, "Slice", slice, 4, NULL, 0, &table));
  BRAID_TRY(braid_darknet_reshape(net, *sum, 3, (int64_t[]){-1, net->time_steps, width}, sum));
  BRAID_TRY(pair(net, "Add", *sum, table, sum));
  return braid_darknet_reshape(net, *sum, 2, (int64_t[]){-1, width}, sum);
}

/* -10000 where a step's id is `padding`: attention then gives it no weight, as in BERT. */
static braid_status mask_padding(braid_darknet *net, braid_value_id ids, int64_t padding) {
  braid_value_id same, value;
  BRAID_TRY(braid_darknet_ints(net, &padding, 1, &value));
  BRAID_TRY(pair(net, "Equal", ids, value, &same));
  BRAID_TRY(braid_darknet_node(net, "Cast", &same, 1, (braid_darknet_attr[]){BRAID_ATTR_I("to", 1)}, 1, &value));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", value, -10000, &value));
  return braid_darknet_reshape(net, value, 4, (int64_t[]){-1, 1, 1, net->time_steps}, &net->mask);
}

/* Ids, then those of segments where there are such: rows of tables, and one for each position, summed. */
braid_status braid_darknet_layer_embedding(braid_darknet *net, braid_darknet_output *out) {
  int64_t rows, segments, positions, width, padding;
  BRAID_TRY(braid_darknet_int(net, "classes", 0, 1, INT32_MAX, &rows));
  BRAID_TRY(braid_darknet_int(net, "segments", 0, 0, BRAID_DARKNET_MAX_SIZE, &segments));
  BRAID_TRY(braid_darknet_int(net, "positions", 0, 0, BRAID_DARKNET_MAX_SIZE, &positions));
  BRAID_TRY(braid_darknet_int(net, "output", 1, 1, BRAID_DARKNET_MAX_SIZE, &width));
  BRAID_TRY(braid_darknet_int(net, "padding", -1, -1, INT32_MAX, &padding));
  if (!rows) return braid_darknet_fail(net, BRAID_INVALID_FILE, "lacks classes=");
  int64_t columns = net->input.c * net->input.h * net->input.w;
  if (columns != 1 + (segments > 0))
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "takes %d numbers a step, its input has %lld",
                              1 + (segments > 0), (long long)columns);
  braid_value_id all, ids, value, other;
  BRAID_TRY(braid_darknet_list(net, &all));
  BRAID_TRY(braid_darknet_node(net, "Cast", &all, 1, (braid_darknet_attr[]){BRAID_ATTR_I("to", 7)}, 1, &all));
  BRAID_TRY(ids_at(net, all, 0, &ids));
  BRAID_TRY(look_up(net, "weight", rows, width, ids, &value));
  if (segments) {
    braid_value_id segment;
    BRAID_TRY(ids_at(net, all, 1, &segment));
    BRAID_TRY(look_up(net, "segments", segments, width, segment, &other));
    BRAID_TRY(pair(net, "Add", value, other, &value));
  }
  if (positions) BRAID_TRY(add_positions(net, positions, width, &value));
  if (padding >= 0) BRAID_TRY(mask_padding(net, ids, padding));
  *out = (braid_darknet_output){.value = value, .c = width, .h = 1, .w = 1, .list = true};
  return BRAID_OK;
}

/* --- transformer -------------------------------------------------------------------------------------------------- */
typedef struct transformer {
  int64_t width, heads, hidden;
  double ratio, epsilon;
  const char *activation;
  int64_t layer; /* of those in this section */
} transformer;

/* "LAYER.NAME", for the names of tensors. */
static const char *named(char buffer[40], const transformer *t, const char *name) {
  snprintf(buffer, 40, "%lld.%s.", (long long)t->layer, name);
  return buffer;
}

static braid_status project(braid_darknet *net, const transformer *t, const char *name, int64_t inputs, int64_t outputs,
                            const char *activation, braid_value_id value, braid_value_id *out) {
  char prefix[40];
  braid_darknet_dense dense;
  BRAID_TRY(braid_darknet_connected(net, named(prefix, t, name), inputs, outputs, activation, false, &dense));
  return braid_darknet_apply(net, &dense, value, out);
}

/* A projection, its heads apart: [B, heads, steps, width / heads], or with the last two turned. */
static braid_status project_heads(braid_darknet *net, const transformer *t, const char *name, bool turned,
                                  braid_value_id value, braid_value_id *out) {
  int64_t apart[4] = {-1, net->time_steps, t->heads, t->width / t->heads};
  BRAID_TRY(project(net, t, name, t->width, t->width, "linear", value, out));
  BRAID_TRY(braid_darknet_reshape(net, *out, 4, apart, out));
  return permute(net, *out, turned ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3}, out);
}

static braid_status attend(braid_darknet *net, const transformer *t, braid_value_id value, braid_value_id *out) {
  braid_value_id query, key, content, scores;
  BRAID_TRY(project_heads(net, t, "query", false, value, &query));
  BRAID_TRY(project_heads(net, t, "key", true, value, &key));
  BRAID_TRY(project_heads(net, t, "value", false, value, &content));
  BRAID_TRY(pair(net, "MatMul", query, key, &scores));
  BRAID_TRY(braid_darknet_with_scalar(net, "Mul", scores, 1 / sqrt((double)(t->width / t->heads)), &scores));
  if (net->mask >= 0) BRAID_TRY(pair(net, "Add", scores, net->mask, &scores));
  BRAID_TRY(
      braid_darknet_node(net, "Softmax", &scores, 1, (braid_darknet_attr[]){BRAID_ATTR_I("axis", -1)}, 1, &scores));
  BRAID_TRY(drop(net, scores, t->ratio, &scores));
  BRAID_TRY(pair(net, "MatMul", scores, content, &scores));
  BRAID_TRY(permute(net, scores, (int64_t[]){0, 2, 1, 3}, &scores));
  BRAID_TRY(braid_darknet_reshape(net, scores, 2, (int64_t[]){-1, t->width}, &scores));
  return project(net, t, "output", t->width, t->width, "linear", scores, out);
}

/* What a part gives, with dropout, added to what went into it, and normalized. */
static braid_status add_and_normalize(braid_darknet *net, const transformer *t, const char *name, braid_value_id before,
                                      braid_value_id value, braid_value_id *out) {
  char prefix[40];
  BRAID_TRY(drop(net, value, t->ratio, &value));
  BRAID_TRY(pair(net, "Add", value, before, &value));
  return normalize(net, named(prefix, t, name), t->width, t->epsilon, value, out);
}

static braid_status add_layer(braid_darknet *net, const transformer *t, braid_value_id *value) {
  braid_value_id inner;
  BRAID_TRY(attend(net, t, *value, &inner));
  BRAID_TRY(add_and_normalize(net, t, "attention", *value, inner, value));
  BRAID_TRY(project(net, t, "hidden", t->width, t->hidden, t->activation, *value, &inner));
  BRAID_TRY(project(net, t, "result", t->hidden, t->width, "linear", inner, &inner));
  return add_and_normalize(net, t, "perceptron", *value, inner, value);
}

braid_status braid_darknet_layer_transformer(braid_darknet *net, braid_darknet_output *out) {
  transformer t = {.width = net->input.c * net->input.h * net->input.w};
  int64_t layers;
  BRAID_TRY(braid_darknet_int(net, "layers", 1, 1, MAX_LAYERS, &layers));
  BRAID_TRY(braid_darknet_int(net, "heads", 1, 1, BRAID_DARKNET_MAX_SIZE, &t.heads));
  BRAID_TRY(braid_darknet_int(net, "hidden", t.width < BRAID_DARKNET_MAX_SIZE / 4 ? 4 * t.width : t.width, 1,
                              BRAID_DARKNET_MAX_SIZE, &t.hidden));
  BRAID_TRY(braid_darknet_float(net, "epsilon", 1e-12, &t.epsilon));
  BRAID_TRY(ratio_of(net, &t.ratio));
  t.activation = braid_cfg_string(net->cfg, net->section, "activation", "gelu");
  if (t.width % t.heads)
    return braid_darknet_fail(net, BRAID_INVALID_FILE, "a step of %lld does not divide into %lld heads",
                              (long long)t.width, (long long)t.heads);
  *out = (braid_darknet_output){.c = t.width, .h = 1, .w = 1, .list = true};
  BRAID_TRY(braid_darknet_list(net, &out->value));
  for (; t.layer < layers; t.layer++) BRAID_TRY(add_layer(net, &t, &out->value));
  return BRAID_OK;
}

/* The steps of a sample side by side: an image of time_steps channels, each a column of what a step has. */
braid_status braid_darknet_layer_sequence(braid_darknet *net, braid_darknet_output *out) {
  *out = (braid_darknet_output){.c = net->time_steps, .h = net->input.c * net->input.h * net->input.w, .w = 1};
  return braid_darknet_reshape(net, net->input.value, 4, (int64_t[]){-1, out->c, out->h, 1}, &out->value);
}
