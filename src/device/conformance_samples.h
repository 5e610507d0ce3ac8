/* Samples: for every op of the ops table nodes that a device's kernels are judged by. A sample says what the operands
 * look like; sizes, types and contents are drawn when its graph is made. */
#ifndef BRAID_DEVICE_CONFORMANCE_SAMPLES_H
#define BRAID_DEVICE_CONFORMANCE_SAMPLES_H

#include "graph/graph.h"

/* Inputs, parted by spaces:
 *   "4,c,2h+1"  dimensions: numbers, letters (a size drawn once for the sample), a multiple, something added; "." a
 *               number alone; "-" left out; "^0" the same value as input 0
 *   "+2,a"      numbers of at least one; "~2,a" of -1, 0 and 1; "*2,a" up to 200, or 2^40;
 *               "/2,a" multiples of a half, up to 300; else of both signs
 *   "a@int32"   of this type; without one of the type that is drawn
 *   "a@int64<b" from -b to b - 1 (with "+": from 0): indices
 *   "2@int64=0,a" a constant with these contents
 * Attributes: "axis=1 pads=[1,1] alpha=0.5 mode=edge hidden_size=h params=[0.5]". */
typedef struct braid_sample {
  const char *op, *inputs, *attrs;
  size_t outputs;
  bool forward; /* without its gradient, for which the op gives out what is not defined everywhere */
} braid_sample;

const braid_sample *braid_samples(size_t *count);
bool braid_samples_have(const char *op);

typedef enum braid_sample_size {
  BRAID_SAMPLE_TINY,
  BRAID_SAMPLE_MIDDLE,
  BRAID_SAMPLE_LARGE,   /* more than 65,536 elements where that does not cost too much */
  BRAID_SAMPLE_EMPTY,   /* one of the letters is 0 */
  BRAID_SAMPLE_SPECIAL, /* of middle size, with NaN, infinities, zeros of both signs and numbers near the ends */
  BRAID_SAMPLE_SIZES
} braid_sample_size;

typedef struct braid_draw {
  uint64_t seed;
  uint32_t sample; /* its index */
  braid_dtype dtype;
  braid_sample_size size;
  bool gradient; /* the backward nodes too */
} braid_draw;

enum { BRAID_SAMPLE_LEAVES = 32, BRAID_SAMPLE_DATA = 2 };

typedef struct braid_leaf {
  braid_value_id value;
  char range;    /* '+', '~', '*', '/', '%' (below one) or 0 */
  int64_t bound; /* of indices; -1: no indices */
} braid_leaf;

/* The graph of a sample: its node, and the nodes of its gradient. */
typedef struct braid_sample_graph {
  braid_draw draw;
  braid_graph *graph;
  braid_leaf leaves[BRAID_SAMPLE_LEAVES]; /* what a run brings along */
  size_t leaf_count;
  bool typed;                             /* an operand has the type that is drawn */
  braid_tensor **data[BRAID_SAMPLE_DATA]; /* of every value, computed by the evaluator; twice, from other leaves */
} braid_sample_graph;

/* INVALID_GRAPH: the op does not take this type or size. UNSUPPORTED: it has no gradient. */
BRAID_MUST_CHECK braid_status braid_sample_make(const braid_draw *draw, braid_sample_graph *out);
/* Draws the leaves and computes all values. UNSUPPORTED: the evaluator does not do a node. */
BRAID_MUST_CHECK braid_status braid_sample_compute(braid_sample_graph *sample, const braid_evaluator *evaluator);
void braid_sample_free(braid_sample_graph *sample);

/* Networks: graphs of several nodes with outputs, for backends that claim regions. braid_sample_compute and
 * braid_sample_free are for them too. */
size_t braid_network_count(void);
const char *braid_network_name(size_t index);
BRAID_MUST_CHECK braid_status braid_network_make(size_t index, uint64_t seed, braid_sample_graph *out);

#endif
