/* Matrix products by oneDNN: Gemm, MatMul and their fused forms.
 *
 * Operands stay as they lie; a transposition is a pair of strides. Constant weights are packed where many rows pass
 * over them: on ViT's layers (197 rows) that is up to twice as fast. For few rows, as in a classifier's last layers,
 * packing gains nothing, and so those weights need no second copy.
 *
 * A product is cut into pieces of its result, never of its sums, each for one thread (program.h says why). */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/onednn/program.h"
#include "base/try.h"

enum { kPackRows = 48, kMostPieces = 16, kLeastRows = 32, kLeastColumns = 64 };
static const double kLeastWork = 1 << 18; /* multiply-accumulates of a piece */

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
                 .bias = has_bias(node),
                 .alpha = (float)braid_attr_float(node->attrs, "alpha", 1)};
  if (p->bias && p->alpha != 1) return refuse(why, why_bytes, "a bias with alpha other than 1");
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

/* --- pieces --------------------------------------------------------------------------------------------------------
 */
/* Parts of the batch, of the rows and of the columns. */
typedef struct cuts {
  int64_t batch, rows, columns;
} cuts;

/* Halves what is longest in units of its least length, until there are enough pieces or they are small. */
static cuts cuts_of(const product *p) {
  cuts c = {1, 1, 1};
  double work = (double)(p->batch * p->rows) * (double)(p->columns * p->inner);
  while (c.batch * c.rows * c.columns < kMostPieces && work / 2 >= kLeastWork) {
    int64_t rows = p->rows / (c.rows * 2 * kLeastRows), columns = p->columns / (c.columns * 2 * kLeastColumns);
    if (c.batch * 2 <= p->batch)
      c.batch *= 2;
    else if (rows > 0 && rows >= columns)
      c.rows *= 2;
    else if (columns > 0)
      c.columns *= 2;
    else
      break;
    work /= 2;
  }
  return c;
}

typedef struct span {
  int64_t first, count;
} span;

/* Part `index` of `parts`, whose bounds are multiples of `unit`. */
static span part_of(int64_t total, int64_t parts, int64_t index, int64_t unit) {
  int64_t units = (total + unit - 1) / unit, first = units * index / parts * unit,
          end = units * (index + 1) / parts * unit;
  return (span){first, (end < total ? end : total) - first};
}

/* One of the operands: [batch, rows, columns], stored transposed or not. */
typedef struct matrix {
  int64_t batch, rows, columns;
  bool transposed;
} matrix;

static int64_t stride_down(const matrix *m) {
  return m->transposed ? 1 : m->columns;
}

static int64_t stride_across(const matrix *m) {
  return m->transposed ? m->rows : 1;
}

/* A part of a matrix as it lies, and where it begins, in bytes. A batch of one is a matrix. */
static size_t part_md(const matrix *m, span batch, span rows, span columns, braid_md *out) {
  bool one = batch.count == 1;
  int64_t down = stride_down(m), across = stride_across(m), plane = m->rows * m->columns;
  dnnl_dims_t dims = {one ? rows.count : batch.count, one ? columns.count : rows.count, one ? 0 : columns.count};
  dnnl_dims_t strides = {one ? down : plane, one ? across : down, one ? 0 : across};
  *out = braid_md_strided(one ? 2 : 3, dims, strides);
  return (size_t)(batch.first * plane + rows.first * down + columns.first * across) * sizeof(float);
}

/* --- building ------------------------------------------------------------------------------------------------------
 */
enum { A, B, BIAS, Y, OPERANDS };

typedef struct builder {
  braid_dnnl *program;
  const braid_node_desc *node;
  product p;
  cuts cuts;
  matrix matrices[OPERANDS];
  int whole[OPERANDS]; /* memories */
  bool fuses;          /* the activation into the primitives */
} builder;

typedef struct piece {
  span batch, rows, columns;
  braid_md descs[OPERANDS];
  size_t offsets[OPERANDS];
} piece;

static void read_piece(const builder *b, int64_t i, int64_t r, int64_t c, piece *out) {
  const product *p = &b->p;
  const span inner = {0, p->inner}, one = {0, 1};
  out->batch = part_of(p->batch, b->cuts.batch, i, 1);
  out->rows = part_of(p->rows, b->cuts.rows, r, kLeastRows);
  out->columns = part_of(p->columns, b->cuts.columns, c, kLeastColumns);
  const span images = out->batch;
  out->offsets[A] = part_md(&b->matrices[A], images, out->rows, inner, &out->descs[A]);
  out->offsets[B] = part_md(&b->matrices[B], p->batched_b ? images : one, inner, out->columns, &out->descs[B]);
  out->offsets[BIAS] = part_md(&b->matrices[BIAS], one, one, out->columns, &out->descs[BIAS]);
  if (images.count > 1) out->descs[BIAS] = braid_md_plain(3, (int64_t[]){1, 1, out->columns.count});
  out->offsets[Y] = part_md(&b->matrices[Y], images, out->rows, out->columns, &out->descs[Y]);
}

static braid_status matmul_describe(const builder *b, const piece *part, bool fused, braid_description **out) {
  braid_dnnl_request r;
  braid_dnnl_request_of(BRAID_DNNL_MATMUL, &r);
  r.x = part->descs[A];
  r.w = packs(b->node, &b->p) ? braid_md_any(&part->descs[B]) : part->descs[B];
  if (b->p.bias) r.b = part->descs[BIAS];
  r.y = part->descs[Y];
  r.scale = b->p.alpha;
  if (fused) braid_dnnl_fuse(b->node, &r);
  return braid_describe_single(&r, out);
}

/* A piece's part of b: as it lies, or packed. */
static braid_status bind_weights(builder *b, const piece *part, const braid_description *description, int *out) {
  if (!packs(b->node, &b->p)) return braid_dnnl_part(b->program, b->whole[B], &part->descs[B], part->offsets[B], out);
  return braid_dnnl_packed(b->program, 1, &part->descs[B], part->offsets[B], description, out);
}

static braid_status add_step(builder *b, const piece *part, int weights, const braid_description *description,
                             const braid_description *unfused) {
  const int kArgs[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
  braid_dnnl_arg args[OPERANDS];
  size_t count = 0;
  for (int i = 0; i < OPERANDS; i++) {
    if (i == BIAS && !b->p.bias) continue;
    args[count] = (braid_dnnl_arg){kArgs[i], weights};
    if (i != B)
      BRAID_TRY(braid_dnnl_part(b->program, b->whole[i], &part->descs[i], part->offsets[i], &args[count].memory));
    count++;
  }
  BRAID_TRY(braid_dnnl_step(b->program, description, args, count));
  return braid_dnnl_activate(b->program, b->node, args[count - 1].memory, unfused);
}

/* `weights`: the memory of this column's part of b; -1: not there yet. */
static braid_status add_piece(builder *b, const piece *part, int *weights) {
  braid_description *plain = NULL, *fused = NULL;
  BRAID_TRY(matmul_describe(b, part, false, &plain));
  if (b->fuses && matmul_describe(b, part, true, &fused) == BRAID_OK &&
      !braid_description_interchangeable(plain, fused)) {
    braid_description_release(fused);
    fused = NULL;
  }
  braid_status status = BRAID_OK;
  if (*weights < 0) status = bind_weights(b, part, plain, weights);
  if (status == BRAID_OK) status = add_step(b, part, *weights, fused ? fused : plain, fused ? plain : NULL);
  braid_description_release(fused);
  braid_description_release(plain);
  return status;
}

static void start(const braid_node_desc *node, const product *p, builder *b) {
  *b = (builder){.node = node, .p = *p, .cuts = cuts_of(p), .fuses = braid_dnnl_can_fuse(node, false)};
  b->matrices[A] = (matrix){p->batch, p->rows, p->inner, p->transposed_a};
  b->matrices[B] = (matrix){p->batched_b ? p->batch : 1, p->inner, p->columns, p->transposed_b};
  b->matrices[BIAS] = (matrix){1, 1, p->columns, false};
  b->matrices[Y] = (matrix){p->batch, p->rows, p->columns, false};
}

/* Whole operands, for their addresses; packed weights have their own. */
static braid_status bind_operands(builder *b) {
  const product *p = &b->p;
  const braid_dnnl_place kPlaces[] = {BRAID_DNNL_INPUT, BRAID_DNNL_INPUT, BRAID_DNNL_INPUT, BRAID_DNNL_OUTPUT};
  const size_t kIndices[] = {0, 1, 2, 0};
  for (int i = 0; i < OPERANDS; i++) {
    const matrix *m = &b->matrices[i];
    braid_md desc;
    if ((i == BIAS && !p->bias) || (i == B && packs(b->node, p))) continue;
    part_md(m, (span){0, m->batch}, (span){0, m->rows}, (span){0, m->columns}, &desc);
    BRAID_TRY(braid_dnnl_memory(b->program, &desc, kPlaces[i], kIndices[i], &b->whole[i]));
  }
  return BRAID_OK;
}

static braid_status matmul_build(builder *b) {
  BRAID_TRY(bind_operands(b));
  braid_dnnl_begin_group(b->program);
  for (int64_t i = 0; i < b->cuts.batch; i++)
    for (int64_t c = 0; c < b->cuts.columns; c++) {
      int weights = -1;
      for (int64_t r = 0; r < b->cuts.rows; r++) {
        piece part;
        read_piece(b, i, r, c, &part);
        if (!packs(b->node, &b->p)) weights = -1;
        BRAID_TRY(add_piece(b, &part, &weights));
      }
    }
  braid_dnnl_end_group(b->program);
  return BRAID_OK;
}

static braid_status matmul_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                  braid_prepared_info *info) {
  *state = NULL;
  product p;
  char why[64];
  if (!read_product(node, &p, why, sizeof why))
    return braid_fail(BRAID_INTERNAL, "a matrix product that was matched cannot be read: %s", why);
  builder b;
  start(node, &p, &b);
  braid_status status = braid_dnnl_create(allocator, &b.program);
  if (status == BRAID_OK) status = matmul_build(&b);
  if (status != BRAID_OK) {
    braid_dnnl_destroy(allocator, b.program);
    return status;
  }
  info->workspace_bytes = braid_dnnl_workspace(b.program);
  *state = b.program;
  return BRAID_OK;
}

static bool matmul_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  product p;
  if (!braid_dnnl_all_f32(node, why, why_bytes) || !read_product(node, &p, why, why_bytes)) return false;
  if (p.batch * p.rows * p.columns == 0 || p.inner == 0) return refuse(why, why_bytes, "an empty operand");
  braid_activation activation;
  if (!braid_activation_read(node, &activation)) return refuse(why, why_bytes, "this activation");
  builder b;
  braid_description *description;
  piece first;
  start(node, &p, &b);
  read_piece(&b, 0, 0, 0, &first);
  bool fast = matmul_describe(&b, &first, false, &description) == BRAID_OK;
  if (fast) braid_description_release(description);
  return fast || refuse(why, why_bytes, "oneDNN has no fast product of this shape");
}

static const braid_cpu_kernel kProduct = {.create = matmul_create, BRAID_DNNL_KERNEL};

static const braid_kernel kKernels[] = {
    {.op = "Gemm", .name = "dnnl_matmul", .match = matmul_match, .implementation = &kProduct},
    {.op = "FusedGemm", .name = "dnnl_matmul", .match = matmul_match, .implementation = &kProduct},
    {.op = "MatMul", .name = "dnnl_matmul", .match = matmul_match, .implementation = &kProduct},
    {.op = "FusedMatMul", .name = "dnnl_matmul", .match = matmul_match, .implementation = &kProduct},
};

const braid_cpu_table braid_cpu_onednn_matmul = {kKernels, sizeof kKernels / sizeof *kKernels, &braid_dnnl_library};
