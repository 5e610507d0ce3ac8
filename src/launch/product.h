/* Products of matrices as parts of recipes: for Gemm and MatMul, for convolutions that are products, and for the many
 * products of recurrent cells. Which of the ways is best depends on the device and on the sizes; see matmul.cl. */
#ifndef BRAID_BACKEND_OPENCL_PRODUCT_H
#define BRAID_BACKEND_OPENCL_PRODUCT_H

#include "launch/tile.h"

typedef enum braid_cl_place_kind { BRAID_CL_INPUT, BRAID_CL_OUTPUT, BRAID_CL_PIECE } braid_cl_place_kind;

/* An operand of the node or a piece of the workspace, from element `at` on. */
typedef struct braid_cl_place {
  braid_cl_place_kind kind;
  size_t index;
  braid_cl_piece piece;
  int64_t at;
} braid_cl_place;

/* Steps in elements: between rows (of the left matrix) or columns (of the right one), along the inner dimension, and
 * between matrices of a batch, which is counted over two dimensions. */
typedef struct braid_cl_matrix {
  braid_cl_place place;
  int64_t line, k, batch[2];
} braid_cl_matrix;

/* out = activation(alpha * left right + beta * added), or, accumulating, that plus out. */
typedef struct braid_cl_product {
  int64_t rows, columns, inner, batches;
  int64_t batch_inner; /* size of the second batch dimension; at least 1 */
  braid_cl_matrix left, right;
  braid_cl_place out;
  int64_t out_row, out_batch;
  bool has_added;
  braid_cl_place added;
  int64_t added_row, added_column;
  bool accumulate;
  double alpha, beta;
  const braid_attrs *attrs; /* of a fused node: activation and activation_params; or NULL */
} braid_cl_product;

/* Width of left panels, vectors of right ones and elements of those, by the device's registers. */
typedef struct braid_cl_panel {
  int64_t rows, vectors, width;
} braid_cl_panel;

braid_cl_panel braid_cl_panel_of(const braid_cl_traits *traits);
void braid_cl_add_panel(braid_cl_planner *p, const braid_cl_panel *panel);
/* How many left panels a work-item takes, so that there is work for all compute units. */
int64_t braid_cl_chunk(const braid_cl_traits *traits, int64_t left_panels, int64_t others);

/* Is a fused node's activation one that activation.clh knows? */
bool braid_cl_match_activation(const braid_node_desc *node, char *why, size_t why_bytes);
/* The option and numbers of a fused node's activation; attrs NULL or without one: none. */
void braid_cl_add_activation(braid_cl_planner *p, const braid_attrs *attrs);
void braid_cl_activation_numbers(const braid_attrs *attrs, double *first, double *second);

/* Does `way` compute products of such steps at all? Says why not. */
bool braid_cl_product_allows(braid_cl_way way, const braid_cl_product *product, char *why, size_t why_bytes);
/* Is it one to choose on this device? Says why not. */
bool braid_cl_product_fits(const braid_cl_traits *traits, braid_cl_way way, const braid_cl_product *product, char *why,
                           size_t why_bytes);
braid_cl_way braid_cl_product_best(const braid_cl_traits *traits, const braid_cl_product *product);
/* One launch; two where the inner dimension is cut into slices, three for PANELS. */
void braid_cl_add_product(braid_cl_planner *p, braid_cl_way way, const braid_cl_product *product);
void braid_cl_add_place(braid_cl_planner *p, const braid_cl_place *place);

#endif
