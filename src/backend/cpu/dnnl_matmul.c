/* Matrix products by oneDNN: Gemm, FusedGemm and MatMul.
 *
 * Operands stay as they lie; a transposition is a pair of strides. Constant weights are packed where many rows pass
 * over them: on ViT's layers (197 rows) that is up to twice as fast. For few rows, as in a classifier's last layers,
 * packing gains nothing, and so those weights need no second copy. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/dnnl.h"
#include "base/try.h"

enum { kPackRows = 48 };

/* y[batch, rows, columns] = alpha * a[batch, rows, inner] * b[batch or 1, inner, columns] (+ bias[columns]) */
typedef struct product {
  int64_t batch, rows, inner, columns;
  bool batched_b, transposed_a, transposed_b, bias;
  float alpha;
} product;

static bool refuse(char *why, size_t why_bytes, const char *reason) {
  snprintf(why, why_bytes, "%s", reason);
  return false;
}

static bool has_bias(const braid_node_desc *node) {
  return node->input_count > 2 && node->inputs[2].present;
}

static bool read_gemm(const braid_node_desc *node, product *p, char *why, size_t why_bytes) {
  const braid_desc *a = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  bool ta = braid_attr_int(node->attrs, "transA", 0) != 0, tb = braid_attr_int(node->attrs, "transB", 0) != 0;
  *p = (product){.batch = 1,
                 .rows = y->dims[0],
                 .columns = y->dims[1],
                 .inner = a->dims[ta ? 0 : 1],
                 .transposed_a = ta,
                 .transposed_b = tb,
                 .bias = has_bias(node),
                 .alpha = (float)braid_attr_float(node->attrs, "alpha", 1)};
  if (!p->bias) return true;
  const braid_desc *c = &node->inputs[2].desc;
  if (p->alpha != 1 || braid_attr_float(node->attrs, "beta", 1) != 1)
    return refuse(why, why_bytes, "C with alpha or beta other than 1");
  if (c->rank < 1 || c->dims[c->rank - 1] != p->columns || (c->rank == 2 && c->dims[0] != 1))
    return refuse(why, why_bytes, "C other than one number a column");
  return true;
}

/* Folds the leading dimensions: into rows if b is one matrix, else into the batch if both sides' are equal. */
static bool read_matmul(const braid_node_desc *node, product *p, char *why, size_t why_bytes) {
  const braid_desc *a = &node->inputs[0].desc, *b = &node->inputs[1].desc;
  if (a->rank < 2 || b->rank < 2) return refuse(why, why_bytes, "vectors");
  bool ta = braid_attr_int(node->attrs, "transA", 0) != 0, tb = braid_attr_int(node->attrs, "transB", 0) != 0;
  *p = (product){.batch = 1,
                 .rows = a->dims[a->rank - (ta ? 1 : 2)],
                 .inner = a->dims[a->rank - (ta ? 2 : 1)],
                 .columns = b->dims[b->rank - (tb ? 2 : 1)],
                 .transposed_a = ta,
                 .transposed_b = tb,
                 .alpha = (float)braid_attr_float(node->attrs, "alpha", 1)};
  int64_t lead = 1;
  for (int i = 0; i < a->rank - 2; i++) lead *= a->dims[i];
  if (b->rank == 2 && !ta) {
    p->rows *= lead;
    return true;
  }
  if (a->rank != b->rank) return refuse(why, why_bytes, "broadcast leading dimensions");
  for (int i = 0; i < a->rank - 2; i++)
    if (a->dims[i] != b->dims[i]) return refuse(why, why_bytes, "broadcast leading dimensions");
  p->batch = lead;
  p->batched_b = true;
  return true;
}

static bool read_product(const braid_node_desc *node, product *p, char *why, size_t why_bytes) {
  bool matmul = strcmp(node->op, "MatMul") == 0 || strcmp(node->op, "FusedMatMul") == 0;
  return (matmul ? read_matmul : read_gemm)(node, p, why, why_bytes);
}

static bool packs(const braid_node_desc *node, const product *p) {
  return node->inputs[1].constant && !p->batched_b && p->rows >= kPackRows;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  product p;
  if (!braid_dnnl_all_f32(node, why, why_bytes) || !read_product(node, &p, why, why_bytes)) return false;
  if (p.batch * p.rows * p.columns == 0 || p.inner == 0) return refuse(why, why_bytes, "an empty operand");
  if (!braid_dnnl_has_activation(node)) return refuse(why, why_bytes, "this activation");
  return true;
}

/* A [batch, rows, columns] operand, stored transposed or not. */
static void operand_desc(int64_t batch, int64_t rows, int64_t columns, bool transposed, dnnl_memory_desc_t *out) {
  bool one = batch == 1;
  int64_t down = transposed ? 1 : columns, across = transposed ? rows : 1;
  dnnl_dims_t dims = {one ? rows : batch, one ? columns : rows, one ? 0 : columns};
  dnnl_dims_t strides = {one ? down : rows * columns, one ? across : down, one ? 0 : across};
  DNNL(memory_desc_init_by_strides)(out, one ? 2 : 3, dims, dnnl_f32, strides);
}

static braid_status describe(const braid_node_desc *node, const product *p, dnnl_memory_desc_t descs[4],
                             dnnl_primitive_desc_t *out) {
  operand_desc(p->batch, p->rows, p->inner, p->transposed_a, &descs[0]);
  operand_desc(p->batched_b ? p->batch : 1, p->inner, p->columns, p->transposed_b, &descs[1]);
  operand_desc(1, 1, p->columns, false, &descs[2]);
  if (p->batch > 1) braid_dnnl_plain(3, (int64_t[]){1, 1, p->columns}, &descs[2]);
  operand_desc(p->batch, p->rows, p->columns, false, &descs[3]);
  dnnl_memory_desc_t b = descs[1];
  if (packs(node, p))
    BRAID_TRY(braid_dnnl_status(DNNL(memory_desc_init_by_tag)(&b, b.ndims, b.dims, dnnl_f32, dnnl_format_tag_any),
                                "packed weights"));
  dnnl_matmul_desc_t op;
  BRAID_TRY(braid_dnnl_status(DNNL(matmul_desc_init)(&op, &descs[0], &b, p->bias ? &descs[2] : NULL, &descs[3]),
                              "a matrix product"));
  dnnl_primitive_attr_t attr;
  BRAID_TRY(braid_dnnl_attributes(node, false, &attr));
  dnnl_status_t scaled = p->alpha == 1 ? dnnl_success : DNNL(primitive_attr_set_output_scales)(attr, 1, 0, &p->alpha);
  braid_status status = braid_dnnl_status(scaled, "alpha");
  if (status == BRAID_OK) status = braid_dnnl_describe(&op, attr, NULL, out);
  DNNL(primitive_attr_destroy)(attr);
  return status;
}

/* b as it lies, or packed now. */
static braid_status bind_weights(braid_dnnl *program, const braid_node_desc *node, const product *p,
                                 const dnnl_memory_desc_t *given, dnnl_primitive_desc_t pd, braid_prepared_info *info,
                                 int *out) {
  const dnnl_memory_desc_t *wanted = DNNL(primitive_desc_query_md)(pd, dnnl_query_weights_md, 0);
  if (!packs(node, p) || DNNL(memory_desc_equal)(given, wanted))
    return braid_dnnl_memory(program, given, BRAID_DNNL_INPUT, 1, out);
  BRAID_TRY(braid_dnnl_memory(program, wanted, BRAID_DNNL_OWN, 0, out));
  info->constants_folded |= 1u << 1;
  return braid_dnnl_pack(program, given, node->inputs[1].constant, *out);
}

static braid_status build(braid_dnnl *program, const braid_node_desc *node, const product *p,
                          const dnnl_memory_desc_t descs[4], dnnl_primitive_desc_t pd, braid_prepared_info *info) {
  int a, b, c, y;
  braid_dnnl_arg args[4];
  size_t count = 0;
  braid_status status = braid_dnnl_memory(program, &descs[0], BRAID_DNNL_INPUT, 0, &a);
  if (status == BRAID_OK) status = bind_weights(program, node, p, &descs[1], pd, info, &b);
  if (status == BRAID_OK) status = braid_dnnl_memory(program, &descs[3], BRAID_DNNL_OUTPUT, 0, &y);
  if (status == BRAID_OK && p->bias) {
    status = braid_dnnl_memory(program, &descs[2], BRAID_DNNL_INPUT, 2, &c);
    args[count++] = (braid_dnnl_arg){DNNL_ARG_BIAS, c};
  }
  if (status != BRAID_OK) {
    DNNL(primitive_desc_destroy)(pd);
    return status;
  }
  args[count++] = (braid_dnnl_arg){DNNL_ARG_SRC, a};
  args[count++] = (braid_dnnl_arg){DNNL_ARG_WEIGHTS, b};
  args[count++] = (braid_dnnl_arg){DNNL_ARG_DST, y};
  return braid_dnnl_step(program, pd, args, count);
}

static braid_status create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                           braid_prepared_info *info) {
  *state = NULL;
  product p;
  char why[64];
  if (!read_product(node, &p, why, sizeof why))
    return braid_fail(BRAID_INTERNAL, "a matrix product that was matched cannot be read: %s", why);
  dnnl_memory_desc_t descs[4];
  dnnl_primitive_desc_t pd;
  braid_dnnl *program = NULL;
  BRAID_TRY(describe(node, &p, descs, &pd));
  braid_status status = braid_dnnl_create(allocator, &program);
  if (status == BRAID_OK)
    status = build(program, node, &p, descs, pd, info);
  else
    DNNL(primitive_desc_destroy)(pd);
  if (status != BRAID_OK) {
    braid_dnnl_destroy(allocator, program);
    return status;
  }
  info->workspace_bytes = braid_dnnl_workspace(program);
  *state = program;
  return BRAID_OK;
}

static const braid_cpu_kernel kProduct = {create, braid_dnnl_run, braid_dnnl_destroy};

static const braid_kernel kKernels[] = {
    {.op = "Gemm", .name = "dnnl_matmul", .match = match, .implementation = &kProduct},
    {.op = "FusedGemm", .name = "dnnl_matmul", .match = match, .implementation = &kProduct},
    {.op = "MatMul", .name = "dnnl_matmul", .match = match, .implementation = &kProduct},
    {.op = "FusedMatMul", .name = "dnnl_matmul", .match = match, .implementation = &kProduct},
};

const braid_cpu_table braid_cpu_dnnl_matmul = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
