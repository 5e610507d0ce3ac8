/* Products of matrices as parts of recipes: for Gemm and MatMul, for convolutions that are products, and for the many
 * products of recurrent cells. Which of the ways is best depends on the device and on the sizes; see matmul.cl. */
#ifndef BRAID_LAUNCH_PRODUCT_H
#define BRAID_LAUNCH_PRODUCT_H

#include "launch/tile.h"

typedef enum braid_launch_place_kind {
  BRAID_LAUNCH_INPUT,
  BRAID_LAUNCH_OUTPUT,
  BRAID_LAUNCH_PIECE
} braid_launch_place_kind;

/* An operand of the node or a piece of the workspace, from element `at` on. */
typedef struct braid_launch_place {
  braid_launch_place_kind kind;
  size_t index;
  braid_launch_piece piece;
  int64_t at;
} braid_launch_place;

/* Steps in elements: between rows (of the left matrix) or columns (of the right one), along the inner dimension, and
 * between matrices of a batch, which is counted over two dimensions. */
typedef struct braid_launch_matrix {
  braid_launch_place place;
  int64_t line, k, batch[2];
} braid_launch_matrix;

/* out = activation(alpha * left right + beta * added), or, accumulating, that plus out. */
typedef struct braid_launch_product {
  int64_t rows, columns, inner, batches;
  int64_t batch_inner; /* size of the second batch dimension; at least 1 */
  braid_launch_matrix left, right;
  braid_launch_place out;
  int64_t out_row, out_batch;
  bool has_added;
  braid_launch_place added;
  int64_t added_row, added_column;
  bool accumulate;
  double alpha, beta;
  const braid_attrs *attrs; /* of a fused node: activation and activation_params; or NULL */
} braid_launch_product;

/* Width of left panels, vectors of right ones and elements of those, by the device's registers. */
typedef struct braid_launch_panel {
  int64_t rows, vectors, width;
} braid_launch_panel;

braid_launch_panel braid_launch_panel_of(const braid_launch_traits *traits);
void braid_launch_add_panel(braid_launch_planner *p, const braid_launch_panel *panel);
/* How many left panels a work-item takes, so that there is work for all compute units. */
int64_t braid_launch_chunk(const braid_launch_traits *traits, int64_t left_panels, int64_t others);

/* Is a fused node's activation one that activation.clh knows? */
bool braid_launch_match_activation(const braid_node_desc *node, char *why, size_t why_bytes);
/* The option and numbers of a fused node's activation; attrs NULL or without one: none. */
void braid_launch_add_activation(braid_launch_planner *p, const braid_attrs *attrs);
void braid_launch_activation_numbers(const braid_attrs *attrs, double *first, double *second);

/* The product that a Gemm, FusedGemm or MatMul is. lead_rank: dimensions that its batch takes; beyond 2 the steps of
 * the batch are not known. */
braid_launch_product braid_launch_read_product(const braid_node_desc *node, int *lead_rank);

/* Does the algorithm compute products of such steps at all? Says why not. */
bool braid_launch_product_allows(braid_launch_algorithm algorithm, const braid_launch_product *product, char *why,
                                 size_t why_bytes);
/* Is it one to choose on this device? Says why not. */
bool braid_launch_product_fits(const braid_launch_traits *traits, braid_launch_algorithm algorithm,
                               const braid_launch_product *product, char *why, size_t why_bytes);
braid_launch_algorithm braid_launch_product_best(const braid_launch_traits *traits,
                                                 const braid_launch_product *product);
/* One launch; two where the inner dimension is cut into slices, three for PANELS. */
void braid_launch_add_product(braid_launch_planner *p, braid_launch_algorithm algorithm,
                              const braid_launch_product *product);
void braid_launch_add_place(braid_launch_planner *p, const braid_launch_place *place);

#endif
