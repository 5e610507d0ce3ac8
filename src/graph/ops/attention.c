/* Scaled dot-product attention and rotary position embedding, as functions of other ops. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/body.h"
#include "graph/onnx_dtype.h"
#include "graph/ops/types.h"

enum { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths, kAttentionInputs };
enum { kY, kPresentKey, kPresentValue, kScores };

/* --- sizes ---------------------------------------------------------------------------------------------------------
 */
typedef struct attention {
  int64_t batch, q_heads, kv_heads, queries, keys, past, total, width, value_width;
  bool flat; /* heads are part of the last dimension */
} attention;

/* The heads and their width; of [batch, length, heads * width] or [batch, heads, length, width]. */
static braid_status read_heads(const braid_infer *infer, size_t index, const char *attr, int64_t *heads,
                               int64_t *length, int64_t *width) {
  const braid_desc *desc = braid_infer_input(infer, index);
  int64_t given = braid_attr_int(&infer->node->attrs, attr, 0);
  *length = desc->dims[desc->rank == 3 ? 1 : 2];
  if (desc->rank == 4) {
    *heads = desc->dims[1];
    *width = desc->dims[3];
    if (*heads < 1) return braid_infer_fail(infer, "input %zu has no heads", index);
    if (!given || given == *heads) return BRAID_OK;
    return braid_infer_fail(infer, "%s is %lld, input %zu has %lld heads", attr, (long long)given, index,
                            (long long)*heads);
  }
  if (given < 1 || desc->dims[2] % given)
    return braid_infer_fail(infer, "%s is %lld, which does not divide the last dimension of input %zu, %lld", attr,
                            (long long)given, index, (long long)desc->dims[2]);
  *heads = given;
  *width = desc->dims[2] / given;
  return BRAID_OK;
}

static braid_status check_dims(const braid_infer *infer, size_t index, int rank, const int64_t *dims) {
  const braid_desc *desc = braid_infer_input(infer, index);
  bool fits = desc->rank == rank;
  for (int i = 0; fits && i < rank; i++) fits = desc->dims[i] == dims[i];
  if (fits) return BRAID_OK;
  braid_desc want = {.dtype = desc->dtype, .rank = rank};
  memcpy(want.dims, dims, (size_t)rank * sizeof *dims);
  char have[128], text[128];
  return braid_infer_fail(infer, "input %zu is %s, expected %s", index, braid_desc_format(desc, have, sizeof have),
                          braid_desc_format(&want, text, sizeof text));
}

/* The mask broadcasts to [batch, heads, queries, keys]; fewer keys: the last ones are masked. */
static braid_status check_mask(const braid_infer *infer, const attention *a) {
  const braid_desc *mask = braid_infer_input(infer, kMask);
  if (!mask) return BRAID_OK;
  if (mask->dtype != BRAID_BOOL) BRAID_TRY(braid_infer_same_type(infer, kMask, kQ));
  const int64_t dims[4] = {a->batch, a->q_heads, a->queries, a->total};
  bool fits = mask->rank >= 1 && mask->rank <= 4;
  for (int i = 0; fits && i < mask->rank; i++) {
    int64_t have = mask->dims[mask->rank - 1 - i], want = dims[3 - i];
    fits = i == 0 ? have <= want : have == 1 || have == want;
  }
  if (fits) return BRAID_OK;
  char text[128];
  return braid_infer_fail(infer, "the mask, %s, does not broadcast to %lld x %lld x %lld x %lld",
                          braid_desc_format(mask, text, sizeof text), (long long)dims[0], (long long)dims[1],
                          (long long)dims[2], (long long)dims[3]);
}

static braid_status read_past(const braid_infer *infer, attention *a) {
  const braid_desc *key = braid_infer_input(infer, kPastKey), *value = braid_infer_input(infer, kPastValue);
  if (!key != !value) return braid_infer_fail(infer, "past_key and past_value come together");
  bool lengths = braid_infer_input(infer, kLengths) != NULL;
  if (lengths) {
    BRAID_TRY(braid_infer_type(infer, kLengths, BRAID_TYPE(I64)));
    BRAID_TRY(check_dims(infer, kLengths, 1, &a->batch));
    if (key) return braid_infer_fail(infer, "nonpad_kv_seqlen and past_key exclude each other");
  }
  a->total = a->keys;
  if (!key) return BRAID_OK;
  BRAID_TRY(braid_infer_same_type(infer, kPastKey, kK));
  BRAID_TRY(braid_infer_same_type(infer, kPastValue, kV));
  if (key->rank == 4) a->past = key->dims[2];
  BRAID_TRY(check_dims(infer, kPastKey, 4, (int64_t[]){a->batch, a->kv_heads, a->past, a->width}));
  BRAID_TRY(check_dims(infer, kPastValue, 4, (int64_t[]){a->batch, a->kv_heads, a->past, a->value_width}));
  a->total += a->past;
  return BRAID_OK;
}

static braid_status read_attention(const braid_infer *infer, attention *a) {
  *a = (attention){0};
  BRAID_TRY(braid_infer_type(infer, kQ, kFloat));
  BRAID_TRY(braid_infer_same_type(infer, kK, kQ));
  BRAID_TRY(braid_infer_type(infer, kV, kFloat));
  const braid_desc *q = braid_infer_input(infer, kQ), *k = braid_infer_input(infer, kK);
  const braid_desc *v = braid_infer_input(infer, kV);
  if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
    return braid_infer_fail(infer, "query, key and value have %d, %d and %d dimensions, expected 3 or 4", q->rank,
                            k->rank, v->rank);
  int64_t value_heads, values, key_width;
  a->flat = q->rank == 3;
  a->batch = q->dims[0];
  BRAID_TRY(read_heads(infer, kQ, "q_num_heads", &a->q_heads, &a->queries, &a->width));
  BRAID_TRY(read_heads(infer, kK, "kv_num_heads", &a->kv_heads, &a->keys, &key_width));
  BRAID_TRY(read_heads(infer, kV, "kv_num_heads", &value_heads, &values, &a->value_width));
  if (k->dims[0] != a->batch || v->dims[0] != a->batch)
    return braid_infer_fail(infer, "query, key and value have different batches");
  if (key_width != a->width)
    return braid_infer_fail(infer, "heads of the query are %lld wide, of the key %lld", (long long)a->width,
                            (long long)key_width);
  if (value_heads != a->kv_heads || values != a->keys)
    return braid_infer_fail(infer, "keys and values differ in heads or length");
  if (a->q_heads % a->kv_heads)
    return braid_infer_fail(infer, "%lld heads of the query are no multiple of %lld of the key", (long long)a->q_heads,
                            (long long)a->kv_heads);
  BRAID_TRY(read_past(infer, a));
  return check_mask(infer, a);
}

static braid_status check_attention_attrs(const braid_infer *infer) {
  const braid_attrs *attrs = &infer->node->attrs;
  int64_t mode = braid_attr_int(attrs, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return braid_infer_fail(infer, "qk_matmul_output_mode is %lld, expected 0 to 3", (long long)mode);
  static const char *const kWindows[] = {"left_window_size", "right_window_size"};
  for (size_t i = 0; i < 2; i++) {
    int64_t size = braid_attr_int(attrs, kWindows[i], -1);
    if (size < -1 || size > INT32_MAX)
      return braid_infer_fail(infer, "%s is %lld, expected -1 (no limit) or more", kWindows[i], (long long)size);
  }
  int64_t precision = braid_attr_int(attrs, "softmax_precision", 0);
  if (precision && !(kFloat >> braid_dtype_from_onnx(precision) & 1))
    return braid_infer_fail(infer, "softmax_precision is %lld, which is no floating-point type", (long long)precision);
  if (braid_attr_float(attrs, "scale", 0) < 0 || braid_attr_float(attrs, "softcap", 0) < 0)
    return braid_infer_fail(infer, "scale and softcap are not negative");
  return BRAID_OK;
}

static braid_status infer_attention(const braid_infer *infer) {
  attention a;
  BRAID_TRY(read_attention(infer, &a));
  BRAID_TRY(check_attention_attrs(infer));
  braid_dtype dtype = braid_infer_input(infer, kQ)->dtype, values = braid_infer_input(infer, kV)->dtype;
  int64_t width = a.q_heads * a.value_width;
  if (a.flat)
    BRAID_TRY(braid_infer_output(infer, kY, dtype, 3, (int64_t[]){a.batch, a.queries, width}));
  else
    BRAID_TRY(braid_infer_output(infer, kY, dtype, 4, (int64_t[]){a.batch, a.q_heads, a.queries, a.value_width}));
  BRAID_TRY(braid_infer_output(infer, kPresentKey, dtype, 4, (int64_t[]){a.batch, a.kv_heads, a.total, a.width}));
  BRAID_TRY(
      braid_infer_output(infer, kPresentValue, values, 4, (int64_t[]){a.batch, a.kv_heads, a.total, a.value_width}));
  return braid_infer_output(infer, kScores, dtype, 4, (int64_t[]){a.batch, a.q_heads, a.queries, a.total});
}

/* --- the mask ------------------------------------------------------------------------------------------------------
 */
/* first, first + 1 ..., as a column or a row. */
static braid_value_id numbers(braid_body *body, int64_t first, int64_t count, bool column) {
  braid_desc desc;
  braid_tensor *tensor = NULL;
  if (body->status == BRAID_OK)
    body->status = braid_desc_init(&desc, BRAID_I64, 2, column ? (int64_t[]){count, 1} : (int64_t[]){1, count});
  if (body->status == BRAID_OK) body->status = braid_tensor_create(body->graph->allocator, &desc, &tensor);
  for (int64_t i = 0; tensor && i < count; i++) ((int64_t *)braid_tensor_data(tensor))[i] = first + i;
  return tensor ? braid_body_tensor(body, tensor) : -1;
}

static braid_value_id both(braid_body *body, braid_value_id a, braid_value_id b) {
  return a < 0 ? b : braid_body_2(body, "And", a, b);
}

/* Which keys a query may see by its position, by window and by length of the sample; -1: all. */
static braid_value_id allowed_keys(braid_body *body, const attention *a) {
  const braid_attrs *attrs = braid_body_attrs(body);
  bool causal = braid_attr_int(attrs, "is_causal", 0) != 0;
  int64_t left = braid_attr_int(attrs, "left_window_size", -1), right = braid_attr_int(attrs, "right_window_size", -1);
  braid_value_id lengths = braid_body_input(body, kLengths), allowed = -1;
  if (!causal && left < 0 && right < 0 && lengths < 0) return -1;
  braid_value_id keys = numbers(body, 0, a->total, false), at = numbers(body, a->past, a->queries, true);
  if (lengths >= 0) { /* a sample's queries are its last tokens */
    lengths = braid_body_reshape(body, lengths, 4, (int64_t[]){a->batch, 1, 1, 1});
    allowed = braid_body_2(body, "Less", keys, lengths);
    at = braid_body_2(body, "Add", numbers(body, -a->queries, a->queries, true), lengths);
  }
  if (causal) allowed = both(body, allowed, braid_body_2(body, "LessOrEqual", keys, at));
  if (left >= 0)
    allowed =
        both(body, allowed, braid_body_2(body, "GreaterOrEqual", keys, braid_body_with(body, "Sub", at, (double)left)));
  if (right >= 0)
    allowed =
        both(body, allowed, braid_body_2(body, "LessOrEqual", keys, braid_body_with(body, "Add", at, (double)right)));
  return allowed;
}

/* The given mask with its last keys, which it may leave out. */
static braid_value_id whole_mask(braid_body *body, const attention *a) {
  braid_value_id mask = braid_body_input(body, kMask);
  if (mask < 0) return -1;
  const braid_desc desc = *braid_body_desc(body, mask);
  int64_t dims[BRAID_MAX_RANK], lacking = a->total - desc.dims[desc.rank - 1];
  if (lacking <= 0) return mask;
  memcpy(dims, desc.dims, sizeof dims);
  dims[desc.rank - 1] = lacking;
  braid_value_id rest = braid_body_scalar(body, desc.dtype, desc.dtype == BRAID_BOOL ? 0 : -INFINITY);
  rest = braid_body_expand_to(body, rest, desc.rank, dims);
  return braid_body_concat(body, (braid_value_id[]){mask, rest}, 2, desc.rank - 1);
}

/* What is added to the scores; -1: nothing. */
static braid_value_id score_bias(braid_body *body, const attention *a, braid_dtype dtype) {
  braid_value_id mask = whole_mask(body, a), allowed = allowed_keys(body, a);
  if (mask >= 0 && braid_body_desc(body, mask)->dtype == BRAID_BOOL) {
    allowed = both(body, allowed, mask);
    mask = -1;
  }
  if (mask >= 0) mask = braid_body_cast(body, mask, dtype);
  if (allowed < 0) return mask;
  if (mask < 0) mask = braid_body_scalar(body, dtype, 0);
  return braid_body_where(body, allowed, mask, braid_body_scalar(body, dtype, -INFINITY));
}

/* --- the op --------------------------------------------------------------------------------------------------------
 */
/* [batch, length, heads * width] as [batch, heads, length, width]. */
static braid_value_id part_heads(braid_body *body, braid_value_id x, const attention *a, int64_t heads, int64_t length,
                                 int64_t width) {
  if (!a->flat) return x;
  x = braid_body_reshape(body, x, 4, (int64_t[]){a->batch, length, heads, width});
  return braid_body_transpose(body, x, (int64_t[]){0, 2, 1, 3});
}

static braid_value_id with_past(braid_body *body, size_t index, braid_value_id x) {
  braid_value_id past = braid_body_input(body, index);
  return past < 0 ? x : braid_body_concat(body, (braid_value_id[]){past, x}, 2, 2);
}

/* Softmax, with zeros in rows of which all keys are masked. */
static braid_value_id probabilities(braid_body *body, braid_value_id scores, braid_value_id bias, braid_dtype dtype) {
  const braid_body_attr last[] = {{.name = "axis", .i = -1}, {0}};
  bool in_double = braid_dtype_from_onnx(braid_attr_int(braid_body_attrs(body), "softmax_precision", 0)) == BRAID_F64;
  braid_value_id nothing = -1, p;
  if (bias >= 0) {
    nothing = braid_body_with(body, "Equal", braid_body_reduce(body, "ReduceMax", bias, -1, true), -INFINITY);
    bias = braid_body_where(body, nothing, braid_body_scalar(body, dtype, 0), bias);
    scores = braid_body_2(body, "Add", scores, bias);
  }
  p = braid_body_cast(body, scores, in_double ? BRAID_F64 : dtype);
  p = braid_body_cast(body, braid_body_node(body, "Softmax", &p, 1, last), dtype);
  return nothing < 0 ? p : braid_body_where(body, nothing, braid_body_scalar(body, dtype, 0), p);
}

static void give_scores(braid_body *body, braid_value_id raw, braid_value_id capped, braid_value_id bias,
                        braid_value_id p) {
  int64_t mode = braid_attr_int(braid_body_attrs(body), "qk_matmul_output_mode", 0);
  if (!braid_body_wants(body, kScores)) return;
  braid_value_id biased = mode == 2 && bias >= 0 ? braid_body_2(body, "Add", capped, bias) : capped;
  braid_value_id given = mode == 0 ? raw : mode == 1 ? capped : mode == 2 ? biased : p;
  braid_body_give(body, kScores,
                  braid_body_cast(body, given, braid_body_desc(body, braid_body_input(body, kQ))->dtype));
}

/* 16-bit numbers are widened, and only results rounded. */
void braid_expand_Attention(braid_body *body) {
  attention a;
  body->status = read_attention(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &a);
  if (body->status != BRAID_OK) return;
  const braid_dtype given = braid_body_desc(body, braid_body_input(body, kQ))->dtype;
  const braid_dtype dtype = given == BRAID_F64 ? BRAID_F64 : BRAID_F32;
  double scale = braid_attr_float(braid_body_attrs(body), "scale", 0);
  double cap = braid_attr_float(braid_body_attrs(body), "softcap", 0);
  double root = sqrt(scale > 0 ? scale : 1 / sqrt((double)a.width));
  braid_value_id q = part_heads(body, braid_body_input(body, kQ), &a, a.q_heads, a.queries, a.width);
  braid_value_id k = part_heads(body, braid_body_input(body, kK), &a, a.kv_heads, a.keys, a.width);
  braid_value_id v = part_heads(body, braid_body_input(body, kV), &a, a.kv_heads, a.keys, a.value_width);
  k = with_past(body, kPastKey, k);
  v = with_past(body, kPastValue, v);
  braid_body_give(body, kPresentKey, k);
  braid_body_give(body, kPresentValue, v);
  /* Queries of heads that share keys stand below one another: keys are not repeated. */
  int64_t share = a.q_heads / a.kv_heads;
  q = braid_body_with(body, "Mul", braid_body_cast(body, q, dtype), root);
  k = braid_body_with(body, "Mul", braid_body_cast(body, k, dtype), root);
  if (share > 1) q = braid_body_reshape(body, q, 4, (int64_t[]){a.batch, a.kv_heads, share * a.queries, a.width});
  k = braid_body_transpose(body, k, (int64_t[]){0, 1, 3, 2});
  braid_value_id raw = braid_body_2(body, "MatMul", q, k), capped;
  if (share > 1) raw = braid_body_reshape(body, raw, 4, (int64_t[]){a.batch, a.q_heads, a.queries, a.total});
  capped = raw;
  if (cap > 0) {
    capped = braid_body_1(body, "Tanh", braid_body_with(body, "Div", raw, cap));
    capped = braid_body_with(body, "Mul", capped, cap);
  }
  braid_value_id bias = score_bias(body, &a, dtype), p = probabilities(body, capped, bias, dtype), y;
  give_scores(body, raw, capped, bias, p);
  y = p;
  if (share > 1) y = braid_body_reshape(body, y, 4, (int64_t[]){a.batch, a.kv_heads, share * a.queries, a.total});
  y = braid_body_2(body, "MatMul", y, braid_body_cast(body, v, dtype));
  if (share > 1) y = braid_body_reshape(body, y, 4, (int64_t[]){a.batch, a.q_heads, a.queries, a.value_width});
  if (a.flat) {
    y = braid_body_transpose(body, y, (int64_t[]){0, 2, 1, 3});
    y = braid_body_reshape(body, y, 3, (int64_t[]){a.batch, a.queries, a.q_heads * a.value_width});
  }
  braid_body_give(body, kY, braid_body_cast(body, y, given));
}

/* --- RotaryEmbedding -----------------------------------------------------------------------------------------------
 */
typedef struct rotary {
  int64_t batch, heads, length, width, turned; /* the first `turned` of a head's numbers are rotated */
  bool flat;
} rotary;

static braid_status read_rotary(const braid_infer *infer, rotary *r) {
  const braid_desc *x = braid_infer_input(infer, 0), *ids = braid_infer_input(infer, 3);
  BRAID_TRY(braid_infer_type(infer, 0, kFloat));
  if (x->rank != 3 && x->rank != 4)
    return braid_infer_fail(infer, "input 0 has %d dimensions, expected 3 or 4", x->rank);
  r->flat = x->rank == 3;
  r->batch = x->dims[0];
  BRAID_TRY(read_heads(infer, 0, "num_heads", &r->heads, &r->length, &r->width));
  r->turned = braid_attr_int(&infer->node->attrs, "rotary_embedding_dim", 0);
  if (r->turned == 0) r->turned = r->width;
  if (r->turned < 0 || r->turned > r->width || r->turned % 2)
    return braid_infer_fail(infer, "rotary_embedding_dim is %lld, heads are %lld wide: expected an even part of it",
                            (long long)r->turned, (long long)r->width);
  if (ids) {
    BRAID_TRY(braid_infer_type(infer, 3, BRAID_TYPE(I64)));
    BRAID_TRY(check_dims(infer, 3, 2, (int64_t[]){r->batch, r->length}));
  }
  for (size_t i = 1; i < 3; i++) {
    BRAID_TRY(braid_infer_same_type(infer, i, 0));
    const braid_desc *cache = braid_infer_input(infer, i);
    if (ids)
      BRAID_TRY(check_dims(infer, i, 2, (int64_t[]){cache->dims[0], r->turned / 2}));
    else
      BRAID_TRY(check_dims(infer, i, 3, (int64_t[]){r->batch, r->length, r->turned / 2}));
  }
  return BRAID_OK;
}

static braid_status infer_rotary(const braid_infer *infer) {
  rotary r;
  BRAID_TRY(read_rotary(infer, &r));
  const braid_desc *x = braid_infer_input(infer, 0);
  return braid_infer_output(infer, 0, x->dtype, x->rank, x->dims);
}

/* Cosines or sines for each token, beside all heads. */
static braid_value_id angles(braid_body *body, size_t index, const rotary *r) {
  braid_value_id cache = braid_body_input(body, index), ids = braid_body_input(body, 3);
  if (ids >= 0) cache = braid_body_2(body, "Gather", cache, ids);
  int64_t flat[4] = {r->batch, r->length, 1, r->turned / 2}, apart[4] = {r->batch, 1, r->length, r->turned / 2};
  return braid_body_reshape(body, cache, 4, r->flat ? flat : apart);
}

void braid_expand_RotaryEmbedding(braid_body *body) {
  rotary r;
  body->status = read_rotary(&(braid_infer){body->graph, &body->graph->nodes[body->node]}, &r);
  if (body->status != BRAID_OK) return;
  braid_value_id input = braid_body_input(body, 0), x = input, halves[2], rest = -1;
  const braid_desc shape = *braid_body_desc(body, x);
  if (r.flat) x = braid_body_reshape(body, x, 4, (int64_t[]){r.batch, r.length, r.heads, r.width});
  const braid_desc whole = *braid_body_desc(body, x);
  if (r.turned < r.width) {
    rest = braid_body_slice(body, x, 3, r.turned, r.width);
    x = braid_body_slice(body, x, 3, 0, r.turned);
  }
  bool interleaved = braid_attr_int(braid_body_attrs(body), "interleaved", 0) != 0;
  int64_t dims[5] = {whole.dims[0], whole.dims[1], whole.dims[2], r.turned / 2, 2};
  if (interleaved) x = braid_body_reshape(body, x, 5, dims);
  for (int64_t i = 0; i < 2; i++) {
    halves[i] = interleaved ? braid_body_slice(body, x, 4, i, i + 1)
                            : braid_body_slice(body, x, 3, i * r.turned / 2, (i + 1) * r.turned / 2);
    if (interleaved) halves[i] = braid_body_reshape(body, halves[i], 4, dims);
  }
  braid_value_id cosine = angles(body, 1, &r), sine = angles(body, 2, &r), parts[3];
  parts[0] = braid_body_2(body, "Sub", braid_body_2(body, "Mul", cosine, halves[0]),
                          braid_body_2(body, "Mul", sine, halves[1]));
  parts[1] = braid_body_2(body, "Add", braid_body_2(body, "Mul", sine, halves[0]),
                          braid_body_2(body, "Mul", cosine, halves[1]));
  parts[2] = rest;
  dims[4] = 1;
  for (size_t i = 0; interleaved && i < 2; i++) parts[i] = braid_body_reshape(body, parts[i], 5, dims);
  if (interleaved) {
    dims[3] = r.turned;
    parts[0] = braid_body_reshape(body, braid_body_concat(body, parts, 2, 4), 4, dims);
    parts[1] = rest;
  }
  size_t count = (interleaved ? 1 : 2) + (rest >= 0);
  x = count > 1 ? braid_body_concat(body, parts, count, 3) : parts[0];
  braid_body_give(body, 0, braid_body_reshape(body, x, shape.rank, shape.dims));
}

/* --- table ---------------------------------------------------------------------------------------------------------
 */
static const braid_op kOps[] = {
    {"Attention", 3, kAttentionInputs, 1, 4, BRAID_OP_FUNCTION, infer_attention, NULL, NULL},
    {"RotaryEmbedding", 3, 4, 1, 1, BRAID_OP_FUNCTION, infer_rotary, NULL, NULL},
};

extern const braid_op_family braid_ops_attention;
const braid_op_family braid_ops_attention = {kOps, sizeof kOps / sizeof *kOps};
