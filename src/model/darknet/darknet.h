/* Darknet's .cfg and .weights: what the parts of the importer share.
 *
 * darknet_cfg.c        the text: sections of key=value lines
 * darknet_keys.c       which keys a section may have
 * darknet_weights.c    the .weights file, or random numbers in its place
 * darknet.c            layers in order, the table of layer types, outputs
 * darknet_layers.c     convolutions, pooling, normalization, softmax, detection
 * darknet_blocks.c     joining and moving layers: route, shortcut, upsample, reorg, crop, local
 * darknet_recurrent.c  rnn, crnn, gru, lstm, unrolled
 * darknet_attention.c  embedding, layernorm, transformer, sequence, which Darknet does not have
 * Meaning of the layers: Darknet's own source (inference), J. Redmon; AlexeyAB's for what only his cfg files use. */
#ifndef BRAID_MODEL_DARKNET_H
#define BRAID_MODEL_DARKNET_H

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "braid/log.h"
#include "graph/graph.h"

enum {
  BRAID_DARKNET_MAX_CFG_BYTES = 4 << 20,
  BRAID_DARKNET_MAX_LAYERS = 1 << 14,
  BRAID_DARKNET_MAX_SIZE = 1 << 20,   /* of filters, outputs, height, width ... */
  BRAID_DARKNET_MAX_KERNEL = 1 << 10, /* size, stride, padding */
  BRAID_DARKNET_MAX_STEPS = 1 << 13,  /* time_steps */
  BRAID_DARKNET_MAX_KEYS = 48,        /* that one type of layer reads */
};
#define BRAID_DARKNET_MAX_WEIGHTS_BYTES (16ull << 30)

typedef struct braid_cfg_option {
  const char *key, *value;
  int line;
} braid_cfg_option;

typedef struct braid_cfg_section {
  const char *type; /* without brackets */
  int line;
  braid_cfg_option *options;
  size_t count, capacity;
} braid_cfg_section;

typedef struct braid_cfg {
  const braid_allocator *allocator;
  const char *path; /* for messages */
  braid_arena *arena;
  braid_cfg_section *sections;
  size_t count, capacity;
  const char *asked[BRAID_DARKNET_MAX_KEYS]; /* keys looked for in the section that was looked into last */
  size_t asked_count;
  const braid_cfg_section *asked_of;
} braid_cfg;

/* INVALID_FILE with path and line. The bytes need not be terminated. */
BRAID_MUST_CHECK braid_status braid_cfg_parse(const braid_allocator *allocator, const char *path, const char *text,
                                              size_t bytes, braid_cfg *out);
void braid_cfg_deinit(braid_cfg *cfg);
/* NULL: none. What is asked for is remembered: it is what a section of this type knows. */
const braid_cfg_option *braid_cfg_find(braid_cfg *cfg, const braid_cfg_section *section, const char *key);
/* `otherwise` if absent; INVALID_FILE with path and line if it is no integer in [low, high]. */
BRAID_MUST_CHECK braid_status braid_cfg_int(braid_cfg *cfg, const braid_cfg_section *section, const char *key,
                                            int64_t otherwise, int64_t low, int64_t high, int64_t *out);
BRAID_MUST_CHECK braid_status braid_cfg_float(braid_cfg *cfg, const braid_cfg_section *section, const char *key,
                                              double otherwise, double *out);
const char *braid_cfg_string(braid_cfg *cfg, const braid_cfg_section *section, const char *key, const char *otherwise);
/* "a,b,c" into at most `capacity` integers; *count = 0 if absent. */
BRAID_MUST_CHECK braid_status braid_cfg_ints(braid_cfg *cfg, const braid_cfg_section *section, const char *key,
                                             int64_t *values, size_t capacity, size_t *count);

/* What a layer hands to the next: an image [B, c, h, w], or a list [B, c] with h = w = 1. */
typedef struct braid_darknet_output {
  braid_value_id value;
  int64_t c, h, w;
  bool list;
} braid_darknet_output;

typedef struct braid_darknet {
  const braid_allocator *allocator;
  braid_cfg *cfg;
  braid_graph *graph;
  braid_reader *weights; /* NULL: random */
  size_t offset;         /* in the weights */
  bool transposed;       /* connected weights stand [inputs, outputs] */
  uint64_t seed;
  const braid_log *log; /* NULL: none */
  uint32_t tensors;     /* made so far: the stream of the next random one */
  int64_t time_steps;
  braid_value_id mask;              /* added to the scores of attention: [B, 1, 1, time_steps]; -1: none */
  const braid_cfg_section *section; /* the layer being built */
  size_t index;                     /* of it, from 0 after [net] */
  braid_text idle;                  /* keys so far that have no effect, each after a blank */
  braid_darknet_output *outputs;    /* of the layers so far */
  braid_darknet_output input;       /* of this layer */
} braid_darknet;

/* "PATH:LINE: [TYPE] " and the message. */
BRAID_MUST_CHECK braid_status braid_darknet_fail(const braid_darknet *net, braid_status status, const char *format, ...)
    BRAID_PRINTF(3, 4);
BRAID_MUST_CHECK braid_status braid_darknet_int(const braid_darknet *net, const char *key, int64_t otherwise,
                                                int64_t low, int64_t high, int64_t *out);
BRAID_MUST_CHECK braid_status braid_darknet_float(const braid_darknet *net, const char *key, double otherwise,
                                                  double *out);
/* UNSUPPORTED if the key is there with another value. */
BRAID_MUST_CHECK braid_status braid_darknet_only(const braid_darknet *net, const char *key, double value);

/* --- keys: once a section has been built from what it was asked for ----------------------------------------------- */
/* INVALID_FILE with the line of a key that nobody knows, or that counts and is given twice with two values. */
BRAID_MUST_CHECK braid_status braid_darknet_check_keys(braid_darknet *net);
/* Those without effect, in one line of the log. */
void braid_darknet_tell_idle(const braid_darknet *net);

/* --- weights ------------------------------------------------------------------------------------------------------ */
BRAID_MUST_CHECK braid_status braid_darknet_weights_open(braid_darknet *net);
/* INVALID_FILE unless every byte has been read. */
BRAID_MUST_CHECK braid_status braid_darknet_weights_close(braid_darknet *net);
typedef enum braid_darknet_fill {
  BRAID_FILL_ZERO,
  BRAID_FILL_ONE,
  BRAID_FILL_NORMAL,
  BRAID_FILL_UNIFORM
} braid_darknet_fill;
/* The next tensor of the file, or one filled at random times `scale`; a constant of the graph named
 * "<layer>.<name>". */
BRAID_MUST_CHECK braid_status braid_darknet_tensor(braid_darknet *net, const char *name, int rank, const int64_t *dims,
                                                   braid_darknet_fill fill, double scale, braid_value_id *out);
/* The same for a matrix the file may hold transposed: the value is always [rows, columns]. */
BRAID_MUST_CHECK braid_status braid_darknet_matrix(braid_darknet *net, const char *name, int64_t rows, int64_t columns,
                                                   bool transposed, double scale, braid_value_id *out);

/* --- nodes -------------------------------------------------------------------------------------------------------- */
typedef struct braid_darknet_attr {
  const char *name;
  enum { BRAID_DARKNET_INT, BRAID_DARKNET_INTS, BRAID_DARKNET_FLOAT, BRAID_DARKNET_STRING } kind;
  int64_t i;
  double f;
  const char *s;
  const int64_t *ints;
  size_t count;
} braid_darknet_attr;
#define BRAID_ATTR_I(key, value)                                                                                       \
  { .name = key, .kind = BRAID_DARKNET_INT, .i = value }
#define BRAID_ATTR_F(key, value)                                                                                       \
  { .name = key, .kind = BRAID_DARKNET_FLOAT, .f = value }
#define BRAID_ATTR_S(key, value)                                                                                       \
  { .name = key, .kind = BRAID_DARKNET_STRING, .s = value }
#define BRAID_ATTR_L(key, list, n)                                                                                     \
  { .name = key, .kind = BRAID_DARKNET_INTS, .ints = list, .count = n }

BRAID_MUST_CHECK braid_status braid_darknet_node(braid_darknet *net, const char *op, const braid_value_id *inputs,
                                                 size_t input_count, const braid_darknet_attr *attrs, size_t attr_count,
                                                 braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_scalar(braid_darknet *net, double value, braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_ints(braid_darknet *net, const int64_t *values, size_t count,
                                                 braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_floats(braid_darknet *net, const float *values, size_t count,
                                                   braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_zeros(braid_darknet *net, int64_t count, braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_reshape(braid_darknet *net, braid_value_id value, int rank,
                                                    const int64_t *dims, braid_value_id *out);
/* value op scalar */
BRAID_MUST_CHECK braid_status braid_darknet_with_scalar(braid_darknet *net, const char *op, braid_value_id value,
                                                        double scalar, braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_activate(braid_darknet *net, const char *name, braid_value_id value,
                                                     braid_value_id *out);
/* The layer's input as [B, c, h, w] or [B, c * h * w]. */
BRAID_MUST_CHECK braid_status braid_darknet_image(braid_darknet *net, braid_value_id *out);
BRAID_MUST_CHECK braid_status braid_darknet_list(braid_darknet *net, braid_value_id *out);
/* An earlier layer by its number in the file (negative: counted back from this one). */
BRAID_MUST_CHECK braid_status braid_darknet_earlier(const braid_darknet *net, int64_t number,
                                                    const braid_darknet_output **out);

/* A convolution or fully connected layer with its weights, in the file's order, applied to any number of inputs: once,
 * or at each step of a recurrent layer. */
typedef struct braid_darknet_dense {
  braid_value_id weights, bias, scale, mean, variance; /* the last three -1 without batch normalization */
  const char *activation;
  bool convolution;
  int64_t groups, size_x, size_y, stride_x, stride_y, padding_x, padding_y, dilation;
} braid_darknet_dense;
BRAID_MUST_CHECK braid_status braid_darknet_connected(braid_darknet *net, const char *prefix, int64_t inputs,
                                                      int64_t outputs, const char *activation, bool normalize,
                                                      braid_darknet_dense *out);
/* The geometry in `out` (groups, size, stride, padding, dilation) is set by the caller. */
BRAID_MUST_CHECK braid_status braid_darknet_convolution(braid_darknet *net, const char *prefix, int64_t channels,
                                                        int64_t filters, const char *activation, bool normalize,
                                                        bool flipped, braid_darknet_dense *out);
BRAID_MUST_CHECK braid_status braid_darknet_apply(braid_darknet *net, const braid_darknet_dense *dense,
                                                  braid_value_id value, braid_value_id *out);

/* --- layers: each builds net->section from net->input into *out --------------------------------------------------- */
typedef braid_status braid_darknet_layer(braid_darknet *net, braid_darknet_output *out);
braid_darknet_layer braid_darknet_layer_convolutional, braid_darknet_layer_deconvolutional,
    braid_darknet_layer_connected, braid_darknet_layer_maxpool, braid_darknet_layer_avgpool,
    braid_darknet_layer_batchnorm, braid_darknet_layer_normalization, braid_darknet_layer_softmax,
    braid_darknet_layer_dropout, braid_darknet_layer_activation, braid_darknet_layer_pass, braid_darknet_layer_yolo,
    braid_darknet_layer_region, braid_darknet_layer_detection, braid_darknet_layer_route, braid_darknet_layer_shortcut,
    braid_darknet_layer_sam, braid_darknet_layer_scale_channels, braid_darknet_layer_upsample,
    braid_darknet_layer_reorg, braid_darknet_layer_crop, braid_darknet_layer_local, braid_darknet_layer_rnn,
    braid_darknet_layer_crnn, braid_darknet_layer_gru, braid_darknet_layer_lstm, braid_darknet_layer_logistic,
    braid_darknet_layer_l2norm, braid_darknet_layer_local_avgpool, braid_darknet_layer_embedding,
    braid_darknet_layer_layernorm, braid_darknet_layer_transformer, braid_darknet_layer_sequence,
    braid_darknet_layer_cost;

/* The text of a .cfg (for files: braid_darknet_load in model.h). `weights` may be NULL: random from `seed`. */
BRAID_MUST_CHECK braid_status braid_darknet_import(const braid_allocator *allocator, const char *path, const char *text,
                                                   size_t bytes, braid_reader *weights, uint64_t seed,
                                                   const braid_log *log, braid_graph **out);
#endif
