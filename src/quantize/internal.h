/* What the parts of this room share: the prepared graph, which nodes are computed on bytes, samples, measurements. */
#ifndef BRAID_QUANTIZE_INTERNAL_H
#define BRAID_QUANTIZE_INTERNAL_H

#include "braid/quantize.h"
#include "graph/graph.h"
#include "quantize/range.h"

/* --- samples (feed.c) ----------------------------------------------------------------------------------------------
 */
typedef struct braid_feed {
  braid_dataset *dataset; /* NULL: arrays */
  const braid_tensor *const *inputs;
  size_t input_count;
  int64_t samples; /* that are taken */
  bool shuffle;    /* of a data set: drawn by `seed`, else the first ones */
  uint64_t seed;
} braid_feed;

typedef struct braid_feed_batch {
  const void *const *inputs; /* as for braid_session_run */
  const int32_t *labels;     /* NULL: there are none */
  int64_t first, count;      /* samples before, and in this batch; the others of the batch repeat one of them */
} braid_feed_batch;

/* The batch that the model fixes, else `wanted`, at most as many as there are samples. */
int64_t braid_feed_batch_of(const braid_feed *feed, const braid_graph *graph, int64_t wanted);
/* Gives the graph's inputs the shapes of such a batch. INVALID_ARGUMENT, INVALID_GRAPH: the samples do not fit. */
BRAID_MUST_CHECK braid_status braid_feed_bind(const braid_feed *feed, braid_graph *graph, int64_t batch);
/* Calls `take` for every batch until all samples were given. */
typedef braid_status braid_feed_take(void *context, const braid_feed_batch *batch);
BRAID_MUST_CHECK braid_status braid_feed_run(const braid_feed *feed, const braid_graph *bound, int64_t batch,
                                             braid_feed_take *take, void *context);

/* --- the float graph (prepare.c) -----------------------------------------------------------------------------------
 */
/* A copy of the model in which weights are constants and normalizations folded. Its values have the types and shapes of
 * a batch of the feed, but its inputs those of the model: it is not resolved, and open dimensions stay open. */
BRAID_MUST_CHECK braid_status braid_quantize_prepare(const braid_graph *model, const braid_feed *feed, int64_t batch,
                                                     braid_graph **out);

/* --- what a file says of the outputs (declare.c) -------------------------------------------------------------------
 */
/* Gives the outputs of `graph`, which was emitted from `prepared`, types and shapes for every input that `graph` takes.
 */
BRAID_MUST_CHECK braid_status braid_quantize_declare(const braid_graph *model, const braid_graph *prepared,
                                                     braid_graph *graph);

/* --- which nodes (select.c) ----------------------------------------------------------------------------------------
 */
typedef enum braid_quantize_role {
  BRAID_ROLE_FLOAT,
  BRAID_ROLE_LAYER,  /* Conv, Gemm, MatMul with constant weights */
  BRAID_ROLE_BETWEEN /* what can be computed on bytes between them */
} braid_quantize_role;

typedef struct braid_selection {
  const braid_allocator *allocator;
  const braid_graph *graph;
  braid_quantize_role *role; /* of each node; ROLE_FLOAT unless it is computed on bytes */
  braid_value_id *result;    /* of each node on bytes: what is quantized behind it (a Relu or Clip is taken in) */
  braid_value_id *root;      /* of each value: the value with the same scale, itself or one before; -1: not quantized */
  bool *of_bytes;            /* of each quantized value: a node on bytes computes it, so all readers get bytes */
  int32_t *uses;
} braid_selection;

/* Whether the node is a convolution or product, recurrent ones included; *why: NULL, or why it cannot be quantized. */
bool braid_select_is_layer(const braid_graph *graph, const braid_node *node, const char **why);
/* `kept`: of each node, whether it stays in float. With `power_of_two` for hardware that joins any number of parts. */
BRAID_MUST_CHECK braid_status braid_select(const braid_graph *graph, const bool *kept, bool power_of_two,
                                           braid_selection *out);
void braid_select_deinit(braid_selection *selection);
/* Dimension of a layer's weights along which there is one scale each. */
int braid_select_axis(const braid_node *node);

/* --- weights (weights.c) -------------------------------------------------------------------------------------------
 */
typedef struct braid_quantized_weights {
  braid_tensor *weights, *scale, *zero_point;  /* int8; float32 and int8 of the channels, or of one number */
  braid_tensor *bias, *bias_scale, *bias_zero; /* int32, float32, int32; NULL: there is no bias */
} braid_quantized_weights;
/* NOT_FINITE names the layer. `x_scale`: of the operand. Release with braid_quantized_weights_deinit. */
BRAID_MUST_CHECK braid_status braid_quantize_weights(const braid_graph *graph, const braid_node *layer, float x_scale,
                                                     const braid_quantize_options *options,
                                                     braid_quantized_weights *out);
void braid_quantized_weights_deinit(braid_quantized_weights *weights);

/* --- calibration (observe.c) ---------------------------------------------------------------------------------------
 */
typedef struct braid_scale {
  double least, greatest, low, high;
  float scale;
  int32_t zero_point;
} braid_scale;

typedef struct braid_work {
  const braid_allocator *allocator;
  braid_quantize_options options; /* with the defaults in their places */
  braid_session_options session;
  braid_feed calibration, test;
  braid_graph *graph;   /* prepared */
  bool *kept;           /* of its nodes */
  braid_scale *scales;  /* of its values, those that are roots of the whole selection */
  braid_value_id *root; /* of its values, of the whole selection */
} braid_work;

BRAID_MUST_CHECK braid_status braid_work_progress(const braid_work *work, const char *phase, int64_t done,
                                                  int64_t total);
/* Runs the float graph over the calibration samples and fills work->scales. NOT_FINITE names node and value. */
BRAID_MUST_CHECK braid_status braid_observe(braid_work *work, const braid_selection *selection);

/* --- the quantized graph (emit.c) ----------------------------------------------------------------------------------
 */
BRAID_MUST_CHECK braid_status braid_quantize_emit(const braid_work *work, const braid_selection *selection,
                                                  braid_graph **out);
/* The float graph with a second node beside every layer on bytes, of quantized operands; outputs are pairs of the
 * layer's result and its second. */
BRAID_MUST_CHECK braid_status braid_quantize_emit_pairs(const braid_work *work, const braid_selection *selection,
                                                        braid_graph **out);

/* --- measurements (measure.c) --------------------------------------------------------------------------------------
 */
typedef struct braid_reference braid_reference; /* the float model's outputs for the test samples */
BRAID_MUST_CHECK braid_status braid_reference_create(braid_work *work, braid_reference **out);
void braid_reference_destroy(braid_reference *reference);
int64_t braid_reference_samples(const braid_reference *reference);
double braid_reference_accuracy(const braid_reference *reference);
/* Runs a quantized graph over the same samples. `phase` and `done` of `total` are what is shown meanwhile. */
BRAID_MUST_CHECK braid_status braid_reference_score(const braid_reference *reference, const braid_graph *quantized,
                                                    const char *phase, int64_t done, int64_t total,
                                                    braid_quantize_score *out);
/* What each layer on bytes loses by itself: decibels, in the order of the nodes. */
BRAID_MUST_CHECK braid_status braid_measure_layers(const braid_work *work, const braid_selection *selection,
                                                   double *sqnr);

/* 10 log10(signal / noise); INFINITY without noise. */
double braid_decibels(double signal, double noise);

/* --- outputs of a run (outputs.c) ----------------------------------------------------------------------------------
 */
/* A session with memory for its outputs. */
typedef struct braid_probe {
  const braid_allocator *allocator;
  braid_session *session;
  void **outputs;
  size_t output_count;
} braid_probe;
/* Creates a session of a graph for batches of `*batch` of the feed. With `limit` (bytes; 0: none) the batch is made
 * smaller until the outputs take no more than that. */
BRAID_MUST_CHECK braid_status braid_probe_create(const braid_work *work, const braid_feed *feed,
                                                 const braid_graph *graph, size_t limit, int64_t *batch,
                                                 braid_probe *out);
void braid_probe_destroy(braid_probe *probe);
/* How many elements of output `index` belong to the first `count` samples of a batch. */
int64_t braid_probe_valid(const braid_probe *probe, size_t index, int64_t count, int64_t batch);

#endif
