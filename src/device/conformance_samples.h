/* Samples: for every op of the ops table nodes that a device's kernels are judged by. A sample says what the operands
 * look like; sizes, types and contents are drawn when its graph is made. */
#ifndef BRAID_DEVICE_CONFORMANCE_SAMPLES_H
#define BRAID_DEVICE_CONFORMANCE_SAMPLES_H

#include "graph/graph.h"

/* Inputs, parted by spaces:
 *   "4,c,2h+1"  dimensions: numbers, letters (a size drawn once for the sample), a multiple, something added; "." a
 *               number alone; "-" left out; "^0" the same value as input 0
 *   "?,m,k"     leading dimensions that broadcast against those of the other operands with "?"
 *   "+2,a"      numbers of at least one; "~2,a" of -1, 0 and 1; "*2,a" up to 200, or 2^40;
 *               "/2,a" multiples of a half, up to 300; "!2,a" around -20,000; ":2,a" below 1e-29;
 *               "#2,a" of both signs, and some -infinity or NaN; else of both signs
 *   "a@int32"   of this type; without one of the type that is drawn
 *   "a@int64<b" from -b to b - 1 (with "+": from 0): indices
 *   "2@int64=0,a" a constant with these contents; "a,b=*" one whose contents are drawn like those of other operands
 * Attributes: "axis=1 pads=[1,1] alpha=0.5 mode=edge hidden_size=h params=[0.5]". */
typedef struct braid_sample {
  const char *op, *inputs, *attrs;
  size_t outputs;
  bool forward; /* without its gradient, for which the op gives out what is not defined everywhere */
  bool swept;   /* each letter in turn is also 0, 1, and just below and beyond the sizes of tiles and vectors */
} braid_sample;

const braid_sample *braid_samples(size_t *count);
bool braid_samples_have(const char *op);

typedef enum braid_sample_size {
  BRAID_SAMPLE_TINY,
  BRAID_SAMPLE_MIDDLE,
  BRAID_SAMPLE_LARGE,   /* more than 65,536 elements where that does not cost too much */
  BRAID_SAMPLE_EMPTY,   /* one of the letters is 0 */
  BRAID_SAMPLE_SPECIAL, /* of middle size, with NaN, infinities, zeros of both signs and numbers near the ends */
  BRAID_SAMPLE_SHAPE,   /* one of the sample's list of shapes */
  BRAID_SAMPLE_SIZES
} braid_sample_size;

typedef struct braid_draw {
  uint64_t seed;
  uint32_t sample; /* its index */
  braid_dtype dtype;
  braid_sample_size size;
  bool gradient;  /* the backward nodes too */
  uint32_t shape; /* BRAID_SAMPLE_SHAPE: which one */
} braid_draw;

enum { BRAID_SAMPLE_LEAVES = 32, BRAID_SAMPLE_DATA = 2 };

typedef struct braid_leaf {
  braid_value_id value;
  char range;    /* '+', '~', '*', '/', '!', ':', '#', '%' (below one) or 0 */
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

/* How many shapes a sample lists: 0 unless it has a "?" or is swept. */
uint32_t braid_sample_shapes(const braid_sample *sample);
bool braid_sample_broadcasts(const braid_sample *sample); /* has a "?" */

enum { BRAID_SHAPE_LEADS = 3 };
typedef struct braid_shape {
  int64_t letters[26];
  int64_t leads[BRAID_SHAPE_LEADS][BRAID_MAX_RANK]; /* in the place of each "?" */
  int lead_ranks[BRAID_SHAPE_LEADS];
} braid_shape;
void braid_shape_draw(const braid_draw *draw, braid_shape *out);

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
