/* A forward graph as layers of integers: what the training graph (integer/step.c) and the saved model
 * (integer/export.c) are both built from. docs/integer-training.md says what each layer computes. */
#ifndef BRAID_TRAIN_INTEGER_NETWORK_H
#define BRAID_TRAIN_INTEGER_NETWORK_H

#include "braid/train.h"
#include "graph/graph.h"
#include "train/integer/digests.h"

/* The version of docs/integer-training.md that is computed. */
enum { BRAID_INTEGER_CONTRACT = 4 };

typedef enum braid_integer_kind {
  BRAID_INTEGER_CONV, /* or fully connected; a batch normalization after it belongs to it */
  BRAID_INTEGER_RELU,
  BRAID_INTEGER_MAX_POOL,
  BRAID_INTEGER_AVERAGE_POOL,
  BRAID_INTEGER_ADD,
  BRAID_INTEGER_RESHAPE,
} braid_integer_kind;

/* Values are those of `graph`. -1: there is none. */
typedef struct braid_integer_layer {
  braid_integer_kind kind;
  braid_node_id node, norm_node;
  size_t in[2], out; /* tensors of the network */
  braid_value_id weight, gamma, beta, mean, variance;
  bool transposed; /* the model stores inputs x outputs */
  bool frozen;     /* its weight */
  bool relu;       /* of the layer's result */
  int64_t shift;   /* of its sums */
  int64_t a_shift; /* its weights stand for W * 2^-(weight_bits - 1 + a_shift) */
  int64_t pooled;  /* positions of a pool's window */
} braid_integer_layer;

typedef struct braid_integer_network {
  const braid_allocator *allocator;
  braid_graph *graph; /* resolved, of a fixed batch */
  braid_integer_layer *layers;
  size_t layer_count;
  braid_desc *tensors;    /* 0: the input; shapes of the graph's values */
  braid_value_id *values; /* the graph's values that the tensors are */
  bool *trained;          /* does a tensor depend on a parameter that is not frozen? */
  size_t tensor_count;
  braid_value_id *biases; /* left out */
  size_t bias_count;
  size_t scores; /* the tensor, before a final softmax */
  int weight_bits, activation_bits, gradient_bits, error_bits;
  int input_shift;
  int norm_places; /* given gammas and betas are divided by 2^this, to fit gradient_bits */
} braid_integer_network;

/* `model` is not changed. `normalized`: the samples are, by a mean and a deviation. UNSUPPORTED names the first node
 * that has no form in integers, and why. */
BRAID_MUST_CHECK braid_status braid_integer_network_create(const braid_graph *model, const braid_dataset_info *info,
                                                           const braid_train_options *options, bool normalized,
                                                           braid_integer_network **out);
void braid_integer_network_destroy(braid_integer_network *network); /* NULL is allowed */

/* The least norm_places for the model's gammas and betas; *widest is the largest of them, if it is not 0. */
int braid_integer_find_norm_places(const braid_integer_network *network, braid_value_id *widest, double *size);
/* What training starts from, of gradient_bits: weights as F,C,... (parameters.c), gamma, beta; the caller's to release.
 * `drawn`: not from the model's numbers. NOT_FINITE: one of these is infinite or NaN. */
BRAID_MUST_CHECK braid_status braid_integer_weight(const braid_integer_network *network,
                                                   const braid_integer_layer *layer, uint64_t seed, bool drawn,
                                                   braid_tensor **out);
BRAID_MUST_CHECK braid_status braid_integer_gamma(const braid_integer_network *network,
                                                  const braid_integer_layer *layer, bool drawn, braid_tensor **out);
BRAID_MUST_CHECK braid_status braid_integer_beta(const braid_integer_network *network, const braid_integer_layer *layer,
                                                 bool drawn, braid_tensor **out);
/* In files a weight W stands for W * 2^-(this), and a normalized activation of deviation 1 times gamma for this. */
int64_t braid_integer_weight_places(const braid_integer_network *network, const braid_integer_layer *layer);
double braid_integer_gamma_unit(const braid_integer_network *network);
/* The ending of the names of constants that only make a file round as we do. */
#define BRAID_INTEGER_ROUNDING ".rounding"

/* The training graph, with inputs and outputs as in train/step.h but an int32 rate, the exponent of a power of two.
 * `digests`, empty but for its allocator, is filled, and their vector is a third output; NULL: there is none. */
BRAID_MUST_CHECK braid_status braid_integer_step(const braid_integer_network *network,
                                                 const braid_train_options *options, braid_integer_digests *digests,
                                                 braid_graph **out);
/* Gives the current contents of a parameter or state of the training graph; the caller's to release. */
typedef braid_status braid_integer_read(void *context, const char *name, braid_tensor **out);
/* The trained network as a float graph of QuantizeLinear and DequantizeLinear, batch open. */
BRAID_MUST_CHECK braid_status braid_integer_export(const braid_integer_network *network, braid_integer_read *read,
                                                   void *context, braid_graph **out);
/* The rate of an epoch (from 0) by WAGE's schedule, and of a step (from 0) by a cosine: powers of two. */
double braid_integer_wage_rate(double first, int64_t epoch, int64_t epochs);
double braid_integer_cosine_rate(double first, int64_t step, int64_t steps);
/* A power of two within the rule's bounds? */
bool braid_integer_rate_is_valid(braid_optimizer rule, double rate);
/* The exponent of 1/2 that is nearest to a weight decay, from 1 to 30; 0: there is none. */
int braid_integer_decay(double weight_decay);
/* A state of a step that is the momentum of a parameter? */
bool braid_integer_is_momentum(const braid_graph *step, const braid_value *value);
#endif
