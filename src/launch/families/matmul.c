/* Gemm, FusedGemm and MatMul: descriptions of products; the ways to compute one are in product.c. */
#include <string.h>

#include "launch/families.h"
#include "launch/nest.h"
#include "launch/product.h"

static bool flag(const braid_node_desc *node, const char *name) {
  return braid_attr_int(node->attrs, name, 0) != 0;
}

/* Steps of a matrix of `columns` columns; line_is_row: its lines are the product's rows. */
static void set_steps(braid_launch_matrix *matrix, int64_t columns, bool line_is_row) {
  matrix->line = line_is_row ? columns : 1;
  matrix->k = line_is_row ? 1 : columns;
}

static braid_launch_product read_gemm(const braid_node_desc *node) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc, *y = &node->outputs[0].desc;
  bool ta = flag(node, "transA"), tb = flag(node, "transB");
  braid_launch_product m = {.rows = y->dims[0],
                            .columns = y->dims[1],
                            .inner = a->dims[ta ? 0 : 1],
                            .batches = 1,
                            .batch_inner = 1,
                            .out = {.kind = BRAID_LAUNCH_OUTPUT},
                            .out_row = y->dims[1],
                            .alpha = braid_attr_float(node->attrs, "alpha", 1),
                            .beta = braid_attr_float(node->attrs, "beta", 1),
                            .attrs = strcmp(node->op, "FusedGemm") == 0 ? node->attrs : NULL};
  set_steps(&m.left, a->dims[1], !ta);
  set_steps(&m.right, b->dims[1], tb);
  m.right.place.index = 1;
  m.has_added = braid_launch_has_input(node, 2);
  if (m.has_added) {
    int64_t steps[BRAID_MAX_RANK];
    braid_launch_broadcast_steps(&node->inputs[2].desc, 2, steps);
    m.added.index = 2;
    m.added_row = steps[0];
    m.added_column = steps[1];
  }
  return m;
}

/* The leading dimensions of a product, with the steps of both operands over them in matrices. */
static braid_launch_nest lead_nest(const braid_node_desc *node) {
  braid_desc a = node->inputs[0].desc, b = node->inputs[1].desc;
  const braid_desc *y = &node->outputs[0].desc;
  bool vector_a = a.rank == 1, vector_b = b.rank == 1;
  braid_launch_nest nest = {.rank = y->rank - (vector_a ? 0 : 1) - (vector_b ? 0 : 1)};
  a.rank = vector_a ? 0 : a.rank - 2;
  b.rank = vector_b ? 0 : b.rank - 2;
  memcpy(nest.dims, y->dims, sizeof nest.dims);
  braid_launch_broadcast_steps(&a, nest.rank, nest.steps[0]);
  braid_launch_broadcast_steps(&b, nest.rank, nest.steps[1]);
  int64_t step = 1; /* of the result: keeps apart what may not merge */
  for (int i = nest.rank; i-- > 0; step *= nest.dims[i]) nest.steps[2][i] = step;
  return nest;
}

/* Without the batch's steps. */
static braid_launch_product read_matrices(const braid_node_desc *node) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc, *y = &node->outputs[0].desc;
  bool vector_a = a->rank == 1, vector_b = b->rank == 1;
  bool ta = !vector_a && flag(node, "transA"), tb = !vector_b && flag(node, "transB");
  int64_t rows_a = vector_a ? 1 : a->dims[a->rank - 2], columns_a = a->dims[a->rank - 1];
  int64_t columns_b = vector_b ? 1 : b->dims[b->rank - 1];
  braid_launch_product m = {.rows = ta ? columns_a : rows_a,
                            .inner = ta ? rows_a : columns_a,
                            .columns = vector_b ? 1
                                       : tb     ? b->dims[b->rank - 2]
                                                : columns_b,
                            .batch_inner = 1,
                            .out = {.kind = BRAID_LAUNCH_OUTPUT},
                            .alpha = braid_attr_float(node->attrs, "alpha", 1)};
  set_steps(&m.left, columns_a, !ta);
  set_steps(&m.right, columns_b, tb);
  m.right.place.index = 1;
  m.out_row = m.columns;
  m.out_batch = m.rows * m.columns;
  m.batches = m.out_batch ? braid_desc_count(y) / m.out_batch : 0;
  return m;
}

static int64_t matrix_size(const braid_desc *desc) {
  return desc->rank == 1 ? desc->dims[0] : desc->dims[desc->rank - 1] * desc->dims[desc->rank - 2];
}

static braid_launch_product read_matmul(const braid_node_desc *node, int *lead_rank) {
  braid_launch_product m = read_matrices(node);
  braid_launch_nest nest = lead_nest(node);
  braid_launch_nest_merge(&nest);
  *lead_rank = nest.rank;
  int64_t sizes[2] = {matrix_size(&node->inputs[0].desc), matrix_size(&node->inputs[1].desc)};
  braid_launch_matrix *matrices[2] = {&m.left, &m.right};
  int last = nest.rank - 1;
  m.batch_inner = nest.dims[last];
  for (int i = 0; i < 2; i++) {
    matrices[i]->batch[0] = last > 0 ? nest.steps[i][last - 1] * sizes[i] : 0;
    matrices[i]->batch[1] = nest.steps[i][last] * sizes[i];
  }
  if (m.batches > 1 && nest.rank == 1 && m.right.batch[1] == 0 && m.left.line != 1 && m.left.k == 1 &&
      m.left.batch[1] == m.rows * m.left.line) { /* one right matrix for all: the batch is more rows */
    m.rows *= m.batches;
    m.batches = m.batch_inner = 1;
    m.left.batch[1] = 0;
  }
  return m;
}

braid_launch_product braid_launch_read_product(const braid_node_desc *node, int *lead_rank) {
  *lead_rank = 1;
  return strcmp(node->op, "MatMul") == 0 ? read_matmul(node, lead_rank) : read_gemm(node);
}

static bool matmul_match(const braid_node_desc *node, braid_launch_algorithm algorithm, char *why, size_t why_bytes) {
  int lead_rank;
  if (!braid_launch_match_float(node, why, why_bytes) || !braid_launch_match_activation(node, why, why_bytes))
    return false;
  braid_launch_product m = braid_launch_read_product(node, &lead_rank);
  if (lead_rank > 2) return braid_launch_refuse(why, why_bytes, "batches broadcast over %d dimensions", lead_rank);
  return braid_launch_product_allows(algorithm, &m, why, why_bytes);
}

static bool matmul_fits(const braid_launch_traits *traits, const braid_node_desc *node,
                        braid_launch_algorithm algorithm, char *why, size_t why_bytes) {
  int lead_rank;
  braid_launch_product m = braid_launch_read_product(node, &lead_rank);
  return braid_launch_product_fits(traits, algorithm, &m, why, why_bytes);
}

static braid_status matmul_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe, braid_launch_algorithm algorithm) {
  braid_launch_planner p;
  int lead_rank;
  braid_launch_product m = braid_launch_read_product(node, &lead_rank);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_add_product(&p, algorithm, &m);
  return braid_launch_plan_end(&p);
}

#define PRODUCT_KERNEL(stem, algorithm)                                                                                \
  static bool allows_##stem(const braid_node_desc *node, char *why, size_t bytes) {                                    \
    return matmul_match(node, algorithm, why, bytes);                                                                  \
  }                                                                                                                    \
  static bool match_##stem(const braid_launch_traits *traits, const braid_node_desc *node, char *why, size_t bytes) {  \
    return matmul_fits(traits, node, algorithm, why, bytes);                                                           \
  }                                                                                                                    \
  static braid_status plan_##stem(const braid_launch_traits *traits, const braid_node_desc *node,                      \
                                  braid_launch_recipe *recipe) {                                                       \
    return matmul_plan(traits, node, recipe, algorithm);                                                               \
  }                                                                                                                    \
  static const braid_launch_kernel k_##stem = {.plan = plan_##stem, .match = match_##stem};
PRODUCT_KERNEL(vectors, BRAID_LAUNCH_VECTORS)
PRODUCT_KERNEL(large, BRAID_LAUNCH_TILES_LARGE)
PRODUCT_KERNEL(medium, BRAID_LAUNCH_TILES_MEDIUM)
PRODUCT_KERNEL(small, BRAID_LAUNCH_TILES_SMALL)
PRODUCT_KERNEL(panels, BRAID_LAUNCH_PANELS)
PRODUCT_KERNEL(rows, BRAID_LAUNCH_ROWS)
PRODUCT_KERNEL(thin_k, BRAID_LAUNCH_THIN_K)
PRODUCT_KERNEL(thin_columns, BRAID_LAUNCH_THIN_COLUMNS)
PRODUCT_KERNEL(plain, BRAID_LAUNCH_PLAIN)

/* Leading dimensions that broadcast in any way: a work-item for each result. */
static braid_status matmul_plan_any(const braid_launch_traits *traits, const braid_node_desc *node,
                                    braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_product m = read_matrices(node);
  braid_launch_nest nest = lead_nest(node);
  int64_t size_a = matrix_size(&node->inputs[0].desc), size_b = matrix_size(&node->inputs[1].desc);
  braid_launch_plan_begin(&p, traits, node, recipe);
  braid_launch_begin(&p, "matmul", "any_batches");
  braid_launch_input(&p, 0);
  braid_launch_input(&p, 1);
  braid_launch_output(&p, 0);
  const int64_t numbers[] = {braid_desc_count(&node->outputs[0].desc),
                             m.rows,
                             m.columns,
                             m.inner,
                             m.left.line,
                             m.left.k,
                             m.right.k,
                             m.right.line,
                             size_a,
                             size_b};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) braid_launch_index(&p, numbers[i]);
  braid_launch_nest_sizes(&p, &nest, BRAID_MAX_RANK);
  braid_launch_nest_steps(&p, &nest, 0, BRAID_MAX_RANK);
  braid_launch_nest_steps(&p, &nest, 1, BRAID_MAX_RANK);
  braid_launch_float(&p, m.alpha);
  braid_launch_range(&p, braid_desc_count(&node->outputs[0].desc));
  return braid_launch_plan_end(&p);
}
static const braid_launch_kernel k_any = {.plan = matmul_plan_any};

#define KERNEL(op_name, kernel, stem)                                                                                  \
  { .op = op_name, .name = kernel, .match = allows_##stem, .implementation = &k_##stem }
#define KERNELS(op_name)                                                                                               \
  KERNEL(op_name, "matmul_vectors", vectors), KERNEL(op_name, "matmul_tiles_large", large),                            \
      KERNEL(op_name, "matmul_tiles_medium", medium), KERNEL(op_name, "matmul_tiles_small", small),                    \
      KERNEL(op_name, "matmul_panels", panels), KERNEL(op_name, "matmul_rows", rows),                                  \
      KERNEL(op_name, "matmul_thin_rows", thin_k), KERNEL(op_name, "matmul_thin", thin_columns),                       \
      KERNEL(op_name, "matmul", plain)

static const braid_kernel kKernels[] = {
    KERNELS("Gemm"),
    KERNELS("FusedGemm"),
    KERNELS("MatMul"),
    {.op = "MatMul", .name = "matmul_any", .match = braid_launch_match_float, .implementation = &k_any},
};

const braid_launch_family braid_launch_family_matmul = {kKernels, sizeof kKernels / sizeof *kKernels, true};
