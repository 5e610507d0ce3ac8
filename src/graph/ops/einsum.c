/* Einsum: products of several tensors, summed over the labels that the result does not have, as matrix products. */
#include <string.h>

#include "base/try.h"
#include "graph/body.h"
#include "graph/ops/types.h"

enum { kMostOperands = 16, kLetters = 52, kLabels = kLetters + BRAID_MAX_RANK, kDots = kLetters };

/* The labels of an operand's dimensions: letters, and for those of an ellipsis numbers that count from its right. */
typedef struct term {
  int rank;
  int8_t labels[BRAID_MAX_RANK];
} term;

typedef struct einsum {
  size_t count;
  term operands[kMostOperands], result;
  int64_t size[kLabels]; /* 0: not seen */
  bool seen[kLabels];
} einsum;

static int letter_label(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  return letter >= 'a' && letter <= 'z' ? 26 + letter - 'a' : -1;
}

static bool has_label(const term *t, int label) {
  for (int i = 0; i < t->rank; i++)
    if (t->labels[i] == label) return true;
  return false;
}

static int label_place(const term *t, int label) {
  int i = 0;
  while (t->labels[i] != label) i++;
  return i;
}

/* --- the equation --------------------------------------------------------------------------------------------------
 */
/* A term up to `end`; `dots` is the number of dimensions that its ellipsis stands for. */
static braid_status read_term(const braid_infer *infer, const char *at, const char *end, int dots, term *t) {
  bool ellipsis = false;
  t->rank = 0;
  for (; at < end; at++) {
    if (*at == ' ') continue;
    int label = letter_label(*at), more = 1;
    if (label < 0) {
      if (end - at < 3 || memcmp(at, "...", 3) != 0 || ellipsis)
        return braid_infer_fail(infer, "equation: a term may hold letters and one ellipsis, found '%.8s'", at);
      ellipsis = true;
      more = dots;
      at += 2;
    }
    if (t->rank + more > BRAID_MAX_RANK)
      return braid_infer_fail(infer, "equation: a term of more than %d dimensions", BRAID_MAX_RANK);
    for (int i = 0; i < more; i++) t->labels[t->rank++] = (int8_t)(label < 0 ? kDots + dots - 1 - i : label);
  }
  return BRAID_OK;
}

static int letters_of(const char *at, const char *end, bool *ellipsis) {
  int letters = 0;
  *ellipsis = false;
  for (; at < end; at++) {
    letters += letter_label(*at) >= 0;
    *ellipsis |= *at == '.';
  }
  return letters;
}

static braid_status read_operand(const braid_infer *infer, size_t index, const char *at, const char *end, einsum *e,
                                 int *dots) {
  const braid_desc *x = braid_infer_input(infer, index);
  bool ellipsis;
  int letters = letters_of(at, end, &ellipsis), own = x->rank - letters;
  if (own < 0 || (own > 0 && !ellipsis))
    return braid_infer_fail(infer, "input %zu has %d dimensions, its term %.*s has %d", index, x->rank, (int)(end - at),
                            at, letters);
  if (own > *dots) *dots = own;
  term *t = &e->operands[index];
  BRAID_TRY(read_term(infer, at, end, own, t));
  for (int i = 0; i < t->rank; i++) {
    int label = t->labels[i];
    int64_t size = x->dims[i], *known = &e->size[label];
    if (e->seen[label] && size != 1 && *known != 1 && size != *known)
      return braid_infer_fail(infer, "input %zu has %lld where another has %lld under the same label", index,
                              (long long)size, (long long)*known);
    if (!e->seen[label] || *known == 1) *known = size;
    e->seen[label] = true;
  }
  return BRAID_OK;
}

/* Without an arrow: the ellipsis, then the labels that occur once, in their order. */
static braid_status imply_result(const braid_infer *infer, einsum *e, int dots) {
  int uses[kLabels] = {0};
  for (size_t i = 0; i < e->count; i++)
    for (int d = 0; d < e->operands[i].rank; d++) uses[e->operands[i].labels[d]]++;
  e->result.rank = 0;
  for (int i = 0; i < dots; i++) e->result.labels[e->result.rank++] = (int8_t)(kDots + dots - 1 - i);
  for (int label = 0; label < kLetters; label++) {
    if (uses[label] != 1) continue;
    if (e->result.rank == BRAID_MAX_RANK) return braid_infer_fail(infer, "its result has more than 8 dimensions");
    e->result.labels[e->result.rank++] = (int8_t)label;
  }
  return BRAID_OK;
}

static braid_status check_result(const braid_infer *infer, const einsum *e) {
  for (int i = 0; i < e->result.rank; i++) {
    int label = e->result.labels[i];
    if (!e->seen[label]) return braid_infer_fail(infer, "equation: the result has a label that no operand has");
    if (label_place(&e->result, label) != i) return braid_infer_fail(infer, "equation: the result repeats a label");
  }
  return BRAID_OK;
}

static braid_status read_einsum(const braid_infer *infer, einsum *e) {
  const char *equation = braid_attr_string(&infer->node->attrs, "equation", NULL);
  if (!equation) return braid_infer_fail(infer, "has no equation");
  memset(e, 0, sizeof *e);
  e->count = braid_infer_inputs(infer);
  if (e->count > kMostOperands) return braid_infer_fail(infer, "more than %d operands", kMostOperands);
  const char *arrow = strstr(equation, "->"), *stop = arrow ? arrow : equation + strlen(equation), *at = equation;
  int dots = 0;
  for (size_t i = 0; i < e->count; i++) {
    const char *end = at;
    while (end < stop && *end != ',') end++;
    if ((end == stop) != (i + 1 == e->count))
      return braid_infer_fail(infer, "equation \"%.200s\" is not of %zu operands", equation, e->count);
    BRAID_TRY(read_operand(infer, i, at, end, e, &dots));
    at = end + 1;
  }
  if (!arrow) return imply_result(infer, e, dots);
  BRAID_TRY(read_term(infer, arrow + 2, equation + strlen(equation), dots, &e->result));
  return check_result(infer, e);
}

static braid_status infer_einsum(const braid_infer *infer) {
  einsum e;
  int64_t dims[BRAID_MAX_RANK];
  BRAID_TRY(braid_infer_type(infer, 0, kNumber));
  for (size_t i = 1; i < braid_infer_inputs(infer); i++) BRAID_TRY(braid_infer_same_type(infer, i, 0));
  BRAID_TRY(read_einsum(infer, &e));
  for (int i = 0; i < e.result.rank; i++) dims[i] = e.size[e.result.labels[i]];
  return braid_infer_output(infer, 0, braid_infer_input(infer, 0)->dtype, e.result.rank, dims);
}

/* --- one operand ---------------------------------------------------------------------------------------------------
 */
typedef struct factor {
  braid_value_id value;
  term labels;
} factor;

static int64_t dim_of(const braid_body *body, const factor *f, int i) {
  return body->status == BRAID_OK ? braid_body_desc(body, f->value)->dims[i] : 1;
}

/* Dimensions in the order of `order`, a permutation of the factor's labels. */
static void reorder(braid_body *body, factor *f, const term *order) {
  int64_t perm[BRAID_MAX_RANK];
  bool same = true;
  for (int i = 0; i < order->rank; i++) {
    perm[i] = label_place(&f->labels, order->labels[i]);
    same = same && perm[i] == i;
  }
  if (!same) f->value = braid_body_transpose(body, f->value, perm);
  f->labels = *order;
}

static void drop(term *t, int at) {
  for (t->rank--; at < t->rank; at++) t->labels[at] = t->labels[at + 1];
}

static void reshape_to(braid_body *body, factor *f, const int64_t *dims) {
  f->value = braid_body_reshape(body, f->value, f->labels.rank, dims);
}

/* The diagonal of two dimensions i < j of one label, which stays where i is. */
static void take_diagonal(braid_body *body, factor *f, int i, int j) {
  int64_t n = dim_of(body, f, i), m = dim_of(body, f, j), perm[BRAID_MAX_RANK], dims[BRAID_MAX_RANK];
  int rank = f->labels.rank, used = 0;
  if (n != m) { /* one of them is 1 and stands for all */
    for (int d = 0; d < rank; d++) dims[d] = d == i || d == j ? (n > m ? n : m) : dim_of(body, f, d);
    f->value = braid_body_expand_to(body, f->value, rank, dims);
    n = n > m ? n : m;
  }
  for (int d = 0; d < rank; d++)
    if (d != i && d != j) perm[used++] = d;
  perm[used++] = i;
  perm[used++] = j;
  f->value = braid_body_transpose(body, f->value, perm);
  for (int d = 0; d < rank - 2; d++) dims[d] = dim_of(body, f, d);
  term labels = {.rank = rank - 1};
  for (int d = 0; d < rank - 1; d++) labels.labels[d] = f->labels.labels[perm[d]];
  f->labels = labels;
  dims[rank - 2] = n * n;
  reshape_to(body, f, dims);
  int64_t axis = rank - 2, start = 0, end = n * n, step = n + 1;
  braid_value_id inputs[5] = {f->value, braid_body_int64s(body, &start, 1), braid_body_int64s(body, &end, 1),
                              braid_body_int64s(body, &axis, 1), braid_body_int64s(body, &step, 1)};
  f->value = braid_body_node(body, "Slice", inputs, 5, NULL);
}

static void take_diagonals(braid_body *body, factor *f) {
  for (int i = 0; i < f->labels.rank; i++)
    for (int j = i + 1; j < f->labels.rank; j++)
      if (f->labels.labels[i] == f->labels.labels[j]) {
        take_diagonal(body, f, i, j);
        i = -1; /* labels have moved */
        break;
      }
}

/* Sums over the labels that are not in `kept`. */
static void sum_out(braid_body *body, factor *f, const bool *kept) {
  for (int i = f->labels.rank - 1; i >= 0; i--) {
    if (kept[f->labels.labels[i]]) continue;
    f->value = braid_body_reduce(body, "ReduceSum", f->value, i, false);
    drop(&f->labels, i);
  }
}

/* --- two operands --------------------------------------------------------------------------------------------------
 */
/* A dimension of 1 that the other has at full size says nothing. */
static void drop_ones(braid_body *body, factor *f, const factor *other) {
  int64_t dims[BRAID_MAX_RANK];
  for (int i = f->labels.rank - 1; i >= 0; i--) {
    int label = f->labels.labels[i];
    if (dim_of(body, f, i) != 1 || !has_label(&other->labels, label) ||
        dim_of(body, other, label_place(&other->labels, label)) == 1)
      continue;
    for (int d = 0, used = 0; d < f->labels.rank; d++)
      if (d != i) dims[used++] = dim_of(body, f, d);
    drop(&f->labels, i);
    reshape_to(body, f, dims);
  }
}

static void append(term *t, int label) {
  t->labels[t->rank++] = (int8_t)label;
}

static int64_t volume(const braid_body *body, const factor *f, int first, int count) {
  int64_t product = 1;
  for (int i = 0; i < count; i++) product *= dim_of(body, f, first + i);
  return product;
}

/* a b, summed over what both have and nothing later needs; both have `shared` and keep it. */
static void multiply(braid_body *body, factor *a, factor *b, const bool *later, bool integers) {
  term shared = {0}, summed = {0}, own_a = {0}, own_b = {0}, order;
  for (int i = 0; i < a->labels.rank; i++) {
    int label = a->labels.labels[i];
    append(!has_label(&b->labels, label) ? &own_a : later[label] ? &shared : &summed, label);
  }
  for (int i = 0; i < b->labels.rank; i++)
    if (!has_label(&a->labels, b->labels.labels[i])) append(&own_b, b->labels.labels[i]);
  if (shared.rank + own_a.rank + own_b.rank + (integers ? summed.rank : 0) > BRAID_MAX_RANK) {
    body->status = braid_fail(BRAID_UNSUPPORTED, "a product of more than %d dimensions", BRAID_MAX_RANK);
    return;
  }
  int64_t dims[BRAID_MAX_RANK];
  term result = shared;
  order = shared;
  for (int i = 0; i < own_a.rank; i++) append(&order, own_a.labels[i]), append(&result, own_a.labels[i]);
  for (int i = 0; i < summed.rank; i++) append(&order, summed.labels[i]);
  reorder(body, a, &order);
  order = shared;
  bool products = summed.rank == 0 || integers; /* element by element */
  for (int i = 0; products && i < own_b.rank; i++) append(&order, own_b.labels[i]);
  for (int i = 0; i < summed.rank; i++) append(&order, summed.labels[i]);
  for (int i = 0; !products && i < own_b.rank; i++) append(&order, own_b.labels[i]);
  reorder(body, b, &order);
  int64_t batch = volume(body, a, 0, shared.rank), rows = volume(body, a, shared.rank, own_a.rank);
  int64_t inner = volume(body, a, shared.rank + own_a.rank, summed.rank);
  int b_first = shared.rank + (products ? 0 : summed.rank);
  int64_t columns = volume(body, b, b_first, own_b.rank);
  for (int i = 0; i < shared.rank + own_a.rank; i++) dims[i] = dim_of(body, a, i);
  for (int i = 0; i < own_b.rank; i++) dims[shared.rank + own_a.rank + i] = dim_of(body, b, b_first + i);
  braid_value_id left, right;
  if (products) {
    left = braid_body_reshape(body, a->value, 4, (int64_t[]){batch, rows, 1, inner});
    right = braid_body_reshape(body, b->value, 4, (int64_t[]){batch, 1, columns, inner});
    left = braid_body_2(body, "Mul", left, right);
    if (summed.rank) left = braid_body_reduce(body, "ReduceSum", left, 3, false);
  } else {
    left = braid_body_reshape(body, a->value, 3, (int64_t[]){batch, rows, inner});
    right = braid_body_reshape(body, b->value, 3, (int64_t[]){batch, inner, columns});
    left = braid_body_2(body, "MatMul", left, right);
  }
  for (int i = 0; i < own_b.rank; i++) append(&result, own_b.labels[i]);
  a->labels = result;
  a->value = left;
  reshape_to(body, a, dims);
}

/* --- the op --------------------------------------------------------------------------------------------------------
 */
/* The labels that the result or an operand after the first `done` has. */
static void needed_later(const einsum *e, size_t done, bool *later) {
  memset(later, 0, kLabels * sizeof *later);
  for (int i = 0; i < e->result.rank; i++) later[e->result.labels[i]] = true;
  for (size_t k = done; k < e->count; k++)
    for (int i = 0; i < e->operands[k].rank; i++) later[e->operands[k].labels[i]] = true;
}

void braid_expand_Einsum(braid_body *body) {
  einsum e;
  bool later[kLabels];
  body->status = read_einsum(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &e);
  if (body->status != BRAID_OK) return;
  const braid_dtype dtype = braid_body_desc(body, braid_body_input(body, 0))->dtype;
  bool integers = !braid_dtype_is_float(dtype); /* which wrap around in any width */
  factor product = {0};
  for (size_t i = 0; i < e.count; i++) {
    factor next = {braid_body_cast(body, braid_body_input(body, i), integers ? BRAID_I64 : dtype), e.operands[i]};
    take_diagonals(body, &next);
    needed_later(&e, i + 1, later);
    if (i == 0) {
      product = next;
      sum_out(body, &product, later);
      continue;
    }
    bool kept[kLabels];
    memcpy(kept, later, sizeof kept);
    for (int d = 0; d < product.labels.rank; d++) kept[product.labels.labels[d]] = true;
    sum_out(body, &next, kept);
    drop_ones(body, &product, &next);
    drop_ones(body, &next, &product);
    if (body->status == BRAID_OK) multiply(body, &product, &next, later, integers);
    if (body->status == BRAID_OK) sum_out(body, &product, later);
  }
  if (body->status != BRAID_OK) return;
  reorder(body, &product, &e.result);
  braid_body_give(body, 0, braid_body_cast(body, product.value, dtype));
}

static const braid_op kOps[] = {
    {"Einsum", 1, -1, 1, 1, BRAID_OP_FUNCTION, infer_einsum, NULL, NULL},
};

extern const braid_op_family braid_ops_einsum;
const braid_op_family braid_ops_einsum = {kOps, sizeof kOps / sizeof *kOps};
