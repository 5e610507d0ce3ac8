/* LinearAttention: attention by a recurrent state. */
#include <string.h>

#include "base/try.h"
#include "graph/ops/types.h"

enum { kQuery, kKey, kValue, kPast, kDecay, kBeta, kInputs };

/* The last dimension of a [batch, tokens, width] operand. */
static braid_status read_width(const braid_infer *infer, size_t index, int64_t *width) {
  const braid_desc *desc = braid_infer_input(infer, index), *query = braid_infer_input(infer, kQuery);
  BRAID_TRY(braid_infer_same_type(infer, index, kQuery));
  if (desc->rank != 3 || desc->dims[0] != query->dims[0] || desc->dims[1] != query->dims[1])
    return braid_infer_fail(infer, "input %zu is not of the query's batch and tokens", index);
  *width = desc->dims[2];
  return BRAID_OK;
}

static braid_status check_gates(const braid_infer *infer, const char *rule, int64_t heads, int64_t keys) {
  static const char *const kNames[] = {"decay", "beta"};
  bool needs[2] = {strstr(rule, "gated") != NULL, strstr(rule, "delta") != NULL};
  for (size_t i = 0; i < 2; i++) {
    int64_t width;
    bool given = braid_infer_input(infer, kDecay + i) != NULL;
    if (given != needs[i])
      return braid_infer_fail(infer, "update_rule %s %s %s", rule, needs[i] ? "needs" : "has no", kNames[i]);
    if (!given) continue;
    BRAID_TRY(read_width(infer, kDecay + i, &width));
    if (width != heads && width != (i == 0 ? heads * keys : 1))
      return braid_infer_fail(infer, "%s is %lld wide, for %lld heads of keys of %lld", kNames[i], (long long)width,
                              (long long)heads, (long long)keys);
  }
  return BRAID_OK;
}

static braid_status infer_linear_attention(const braid_infer *infer) {
  const braid_attrs *attrs = &infer->node->attrs;
  const char *rule = braid_attr_string(attrs, "update_rule", "gated_delta");
  const braid_desc *query = braid_infer_input(infer, kQuery), *past = braid_infer_input(infer, kPast);
  int64_t heads = braid_attr_int(attrs, "kv_num_heads", 0), q_heads = braid_attr_int(attrs, "q_num_heads", 0);
  int64_t widths[3];
  BRAID_TRY(braid_infer_type(infer, kQuery, kFloat));
  if (strcmp(rule, "linear") != 0 && strcmp(rule, "gated") != 0 && strcmp(rule, "delta") != 0 &&
      strcmp(rule, "gated_delta") != 0)
    return braid_infer_fail(infer, "update_rule is \"%.40s\", expected linear, gated, delta or gated_delta", rule);
  if (heads < 1 || q_heads < 1 || q_heads % heads)
    return braid_infer_fail(infer, "%lld heads of the query and %lld of the key, expected a multiple",
                            (long long)q_heads, (long long)heads);
  for (size_t i = 0; i < 3; i++) BRAID_TRY(read_width(infer, i, &widths[i]));
  int64_t keys = widths[kQuery] / q_heads, values = widths[kValue] / heads;
  if (widths[kQuery] % q_heads || widths[kKey] != keys * heads || widths[kValue] % heads)
    return braid_infer_fail(infer, "widths %lld, %lld and %lld of query, key and value do not fit the heads",
                            (long long)widths[0], (long long)widths[1], (long long)widths[2]);
  const int64_t state[4] = {query->dims[0], heads, keys, values};
  if (past) {
    BRAID_TRY(braid_infer_type(infer, kPast, kFloat));
    if (past->rank != 4 || memcmp(past->dims, state, sizeof state) != 0)
      return braid_infer_fail(infer, "past_state is not %lld x %lld x %lld x %lld", (long long)state[0],
                              (long long)state[1], (long long)state[2], (long long)state[3]);
  }
  BRAID_TRY(check_gates(infer, rule, heads, keys));
  BRAID_TRY(
      braid_infer_output(infer, 0, query->dtype, 3, (int64_t[]){query->dims[0], query->dims[1], q_heads * values}));
  return braid_infer_output(infer, 1, past ? past->dtype : query->dtype, 4, state);
}

static const braid_op kOps[] = {
    {"LinearAttention", 3, kInputs, 1, 2, 0, infer_linear_attention, NULL, NULL},
};

extern const braid_op_family braid_ops_linear_attention;
const braid_op_family braid_ops_linear_attention = {kOps, sizeof kOps / sizeof *kOps};
