#include "launch/formula.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "graph/graph.h"
#include "launch/attribute.h"

enum { kNameBytes = 64, kDepth = 64 };

typedef struct reader {
  const char *text, *at;
  const braid_launch_scope *scope;
  int depth;
  int idle; /* > 0: reads on without a value (the side of && or || that does not count) */
} reader;

static braid_status unreadable(const reader *r, const char *expected) {
  return braid_fail(BRAID_INVALID_FILE, "formula \"%.200s\", at \"%.40s\": expected %s", r->text, r->at, expected);
}

static braid_status no_value(const reader *r, const char *why) {
  return braid_fail(BRAID_OUT_OF_RANGE, "formula \"%.200s\": %s", r->text, why);
}

static bool computes(const reader *r) {
  return r->scope->nodes && !r->idle;
}

static void skip_space(reader *r) {
  while (*r->at == ' ') r->at++;
}

/* Takes `sign` if it is next. */
static bool take_sign(reader *r, const char *sign) {
  skip_space(r);
  size_t length = strlen(sign);
  if (strncmp(r->at, sign, length) != 0) return false;
  r->at += length;
  return true;
}

static braid_status need_sign(reader *r, const char *sign) {
  if (take_sign(r, sign)) return BRAID_OK;
  char expected[8] = "\"?\"";
  expected[1] = sign[0];
  return unreadable(r, expected);
}

static braid_status read_name(reader *r, char name[kNameBytes]) {
  skip_space(r);
  size_t length = 0;
  while (isalnum((unsigned char)r->at[length]) || r->at[length] == '_') length++;
  if (!length || isdigit((unsigned char)r->at[0]) || length >= kNameBytes) return unreadable(r, "a name");
  memcpy(name, r->at, length);
  name[length] = '\0';
  r->at += length;
  return BRAID_OK;
}

static braid_status read_number(reader *r, int64_t *out) {
  *out = 0;
  if (!isdigit((unsigned char)*r->at)) return unreadable(r, "a number");
  for (; isdigit((unsigned char)*r->at); r->at++)
    if (!braid_mul_i64(*out, 10, out) || !braid_add_i64(*out, *r->at - '0', out))
      return unreadable(r, "a number of 64 bits");
  return BRAID_OK;
}

static braid_status read_either(reader *r, int64_t *out);

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
enum { kAnyNode = -1 };

/* "node2": its number; kAnyNode for other names. */
static braid_status read_node(const reader *r, const char *name, int *out) {
  char rest;
  int number;
  *out = kAnyNode;
  if (sscanf(name, "node%3d%c", &number, &rest) != 1) return BRAID_OK;
  if (number >= 0 && (size_t)number < r->scope->node_count) {
    *out = number;
    return BRAID_OK;
  }
  char expected[48];
  snprintf(expected, sizeof expected, "node0 to node%zu before this", r->scope->node_count - 1);
  return unreadable(r, expected);
}

/* Behind "node2": its ".", and the name of what is meant there. */
static braid_status read_member(reader *r, char name[kNameBytes], int *node) {
  BRAID_TRY(read_node(r, name, node));
  if (*node == kAnyNode) return BRAID_OK;
  BRAID_TRY(need_sign(r, "."));
  return read_name(r, name);
}

/* The node that an input or attribute, or an output, is of; NULL: it is not there. */
static const braid_node_desc *find_node(const reader *r, int node, bool output) {
  const braid_launch_scope *scope = r->scope;
  if (!scope->nodes) return NULL;
  if (node != kAnyNode) return scope->nodes[node];
  size_t last = scope->node_count;
  while (last > 1 && !scope->nodes[last - 1]) last--;
  return scope->nodes[output ? last - 1 : 0];
}

static void ask_attribute(const braid_launch_scope *scope, size_t node, const char *name) {
  const braid_attrs *attrs = scope->nodes[node]->attrs;
  const braid_attr *attr = braid_attrs_find(attrs, name);
  size_t index = attr ? (size_t)(attr - attrs->items) : 64;
  if (index < 64) scope->asked[node] |= UINT64_C(1) << index;
}

braid_status braid_launch_ask(const braid_launch_scope *scope, size_t node, const char *name) {
  const char *op = scope->op_without ? scope->op_without(scope->context, node, name) : NULL;
  if (op) return braid_fail(BRAID_INVALID_FILE, "there is no attribute %.60s of %.60s", name, op);
  if (!scope->asked || !scope->nodes || !scope->nodes[node]) return BRAID_OK;
  ask_attribute(scope, node, name);
  if (strcmp(name, "pads") == 0) ask_attribute(scope, node, "auto_pad");
  return BRAID_OK;
}

/* The node of an attribute, which is noted; NULL: it is not there, or nothing is computed. */
static braid_status find_asked(const reader *r, int node, const char *name, const braid_node_desc **out) {
  *out = computes(r) ? find_node(r, node, false) : NULL;
  braid_status status = braid_launch_ask(r->scope, node == kAnyNode ? 0 : (size_t)node, name);
  return status == BRAID_OK ? status : braid_fail_prefix(status, "formula \"%.200s\"", r->text);
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
/* "in0", "out1": NULL if the node has it not. */
static braid_status find_operand(const reader *r, int node, const char *name, const braid_operand **out) {
  bool input = strncmp(name, "in", 2) == 0, output = strncmp(name, "out", 3) == 0;
  const char *digit = name + (output ? 3 : 2);
  *out = NULL;
  if ((!input && !output) || !isdigit((unsigned char)digit[0]) || digit[1])
    return unreadable(r, "an operand (in0 to in9, out0 to out9) before this");
  const braid_node_desc *of = find_node(r, node, output);
  if (!of) return BRAID_OK;
  size_t index = (size_t)(digit[0] - '0');
  size_t count = output ? of->output_count : of->input_count;
  const braid_operand *operands = output ? of->outputs : of->inputs;
  if (index < count && operands[index].present) *out = &operands[index];
  return BRAID_OK;
}

static braid_status read_dimension(reader *r, int node, const char *name, int64_t *out) {
  const braid_operand *operand;
  int64_t axis;
  *out = 1;
  BRAID_TRY(find_operand(r, node, name, &operand));
  BRAID_TRY(read_either(r, &axis));
  BRAID_TRY(need_sign(r, "]"));
  if (!computes(r)) return BRAID_OK;
  if (!operand) return no_value(r, "the node has no such operand");
  if (axis < 0) axis += operand->desc.rank;
  if (axis < 0 || axis >= operand->desc.rank) return no_value(r, "the operand has no such dimension");
  *out = operand->desc.dims[axis];
  return BRAID_OK;
}

static braid_status read_operand_fact(reader *r, const char *fact, int64_t *out) {
  char name[kNameBytes];
  const braid_operand *operand;
  int node;
  bool asks_presence = strcmp(fact, "present") == 0;
  *out = 1;
  BRAID_TRY(read_name(r, name));
  BRAID_TRY(read_node(r, name, &node));
  if (asks_presence && node != kAnyNode && take_sign(r, ")")) {
    if (computes(r)) *out = find_node(r, node, false) != NULL;
    return BRAID_OK;
  }
  BRAID_TRY(read_member(r, name, &node));
  BRAID_TRY(find_operand(r, node, name, &operand));
  BRAID_TRY(need_sign(r, ")"));
  if (!computes(r)) return BRAID_OK;
  if (asks_presence) {
    *out = operand != NULL;
    return BRAID_OK;
  }
  if (!operand) return no_value(r, "the node has no such operand");
  *out = strcmp(fact, "rank") == 0 ? operand->desc.rank : braid_desc_count(&operand->desc);
  return BRAID_OK;
}

/* --- functions -----------------------------------------------------------------------------------------------------
 */
/* attr(name, otherwise) or attr(name, index, otherwise) */
static braid_status read_attribute(reader *r, int64_t *out) {
  char name[kNameBytes];
  int64_t first, otherwise, index = -1;
  int node;
  BRAID_TRY(read_name(r, name));
  BRAID_TRY(read_member(r, name, &node));
  BRAID_TRY(need_sign(r, ","));
  BRAID_TRY(read_either(r, &first));
  otherwise = first;
  if (take_sign(r, ",")) {
    BRAID_TRY(read_either(r, &otherwise));
    index = first;
    if (index < 0 && computes(r)) return no_value(r, "an element of a list is >= 0");
  }
  BRAID_TRY(need_sign(r, ")"));
  *out = otherwise;
  const braid_node_desc *of;
  BRAID_TRY(find_asked(r, node, name, &of));
  if (!of || braid_launch_attribute(of, name, index, otherwise, out) == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(BRAID_OUT_OF_RANGE, "formula \"%.200s\"", r->text);
}

/* is(name, word, otherwise) */
static braid_status read_word(reader *r, int64_t *out) {
  char name[kNameBytes], word[kNameBytes], otherwise[kNameBytes];
  int node;
  bool is = false;
  BRAID_TRY(read_name(r, name));
  BRAID_TRY(read_member(r, name, &node));
  BRAID_TRY(need_sign(r, ","));
  BRAID_TRY(read_name(r, word));
  BRAID_TRY(need_sign(r, ","));
  BRAID_TRY(read_name(r, otherwise));
  BRAID_TRY(need_sign(r, ")"));
  *out = strcmp(word, otherwise) == 0;
  const braid_node_desc *of;
  BRAID_TRY(find_asked(r, node, name, &of));
  if (!of) return BRAID_OK;
  if (braid_launch_attribute_is(of, name, word, otherwise, &is) != BRAID_OK)
    return braid_fail_prefix(BRAID_OUT_OF_RANGE, "formula \"%.200s\"", r->text);
  *out = is;
  return BRAID_OK;
}

static braid_status ceil_div(const reader *r, int64_t a, int64_t b, int64_t *out) {
  if (b <= 0 || a < 0) return no_value(r, "ceil_div and round_up are of a number >= 0 by one > 0");
  *out = a / b + (a % b != 0);
  return BRAID_OK;
}

static braid_status read_pair(reader *r, const char *name, int64_t *out) {
  int64_t a, b;
  BRAID_TRY(read_either(r, &a));
  BRAID_TRY(need_sign(r, ","));
  BRAID_TRY(read_either(r, &b));
  BRAID_TRY(need_sign(r, ")"));
  *out = 1;
  if (!computes(r)) return BRAID_OK;
  if (strcmp(name, "min") == 0) {
    *out = a < b ? a : b;
  } else if (strcmp(name, "max") == 0) {
    *out = a > b ? a : b;
  } else {
    BRAID_TRY(ceil_div(r, a, b, out));
    if (strcmp(name, "round_up") == 0 && !braid_mul_i64(*out, b, out)) return no_value(r, "overflow");
  }
  return BRAID_OK;
}

static braid_status find_number(const reader *r, const char *name, int64_t *out) {
  const braid_launch_scope *scope = r->scope;
  *out = 1;
  for (size_t i = 0; i < scope->name_count; i++) {
    if (strcmp(scope->names[i], name) != 0) continue;
    if (computes(r)) *out = scope->values[i];
    return BRAID_OK;
  }
  return unreadable(r, "the name of a number before this, or a bracket behind that of an operand or function");
}

static braid_status read_named(reader *r, int64_t *out) {
  char name[kNameBytes];
  int node;
  BRAID_TRY(read_name(r, name));
  BRAID_TRY(read_member(r, name, &node));
  if (take_sign(r, "[")) return read_dimension(r, node, name, out);
  if (node != kAnyNode) return unreadable(r, "a dimension of an operand, as in node1.in0[2]");
  if (!take_sign(r, "(")) return find_number(r, name, out);
  static const char *const kFacts[] = {"rank", "count", "present"};
  static const char *const kPairs[] = {"min", "max", "ceil_div", "round_up"};
  for (size_t i = 0; i < sizeof kFacts / sizeof *kFacts; i++)
    if (strcmp(name, kFacts[i]) == 0) return read_operand_fact(r, name, out);
  for (size_t i = 0; i < sizeof kPairs / sizeof *kPairs; i++)
    if (strcmp(name, kPairs[i]) == 0) return read_pair(r, name, out);
  if (strcmp(name, "attr") == 0) return read_attribute(r, out);
  if (strcmp(name, "is") == 0) return read_word(r, out);
  return unreadable(r, "rank, count, present, attr, is, min, max, ceil_div or round_up before this");
}

/* --- operators, from the tightest to the loosest -------------------------------------------------------------------
 */
static braid_status read_unary(reader *r, int64_t *out) {
  if (++r->depth > kDepth) return unreadable(r, "fewer brackets");
  braid_status status;
  skip_space(r);
  if (take_sign(r, "-")) {
    status = read_unary(r, out);
    if (status == BRAID_OK && !braid_sub_i64(0, *out, out)) status = no_value(r, "overflow");
  } else if (*r->at == '!' && r->at[1] != '=') {
    r->at++;
    status = read_unary(r, out);
    *out = !*out;
  } else if (take_sign(r, "(")) {
    status = read_either(r, out);
    if (status == BRAID_OK) status = need_sign(r, ")");
  } else if (isdigit((unsigned char)*r->at)) {
    status = read_number(r, out);
  } else {
    status = read_named(r, out);
  }
  r->depth--;
  return status;
}

static braid_status divide_numbers(const reader *r, char sign, int64_t a, int64_t b, int64_t *out) {
  if (b == 0) return no_value(r, "division by zero");
  if (a == INT64_MIN && b == -1) return no_value(r, "overflow");
  *out = sign == '/' ? a / b : a % b;
  return BRAID_OK;
}

static braid_status read_product(reader *r, int64_t *out) {
  BRAID_TRY(read_unary(r, out));
  for (;;) {
    char sign = take_sign(r, "*") ? '*' : take_sign(r, "/") ? '/' : take_sign(r, "%") ? '%' : '\0';
    int64_t right;
    if (!sign) return BRAID_OK;
    BRAID_TRY(read_unary(r, &right));
    if (!computes(r)) continue;
    if (sign != '*') {
      BRAID_TRY(divide_numbers(r, sign, *out, right, out));
    } else if (!braid_mul_i64(*out, right, out)) {
      return no_value(r, "overflow");
    }
  }
}

static braid_status read_sum(reader *r, int64_t *out) {
  BRAID_TRY(read_product(r, out));
  for (;;) {
    char sign = take_sign(r, "+") ? '+' : take_sign(r, "-") ? '-' : '\0';
    int64_t right;
    if (!sign) return BRAID_OK;
    BRAID_TRY(read_product(r, &right));
    if (computes(r) && !(sign == '+' ? braid_add_i64(*out, right, out) : braid_sub_i64(*out, right, out)))
      return no_value(r, "overflow");
  }
}

static braid_status read_comparison(reader *r, int64_t *out) {
  static const char *const kSigns[] = {"==", "!=", "<=", ">=", "<", ">"};
  BRAID_TRY(read_sum(r, out));
  for (size_t i = 0; i < sizeof kSigns / sizeof *kSigns; i++) {
    if (!take_sign(r, kSigns[i])) continue;
    int64_t a = *out, b;
    BRAID_TRY(read_sum(r, &b));
    const bool results[] = {a == b, a != b, a <= b, a >= b, a<b, a> b};
    *out = results[i];
    return BRAID_OK;
  }
  return BRAID_OK;
}

static braid_status read_both(reader *r, int64_t *out) {
  BRAID_TRY(read_comparison(r, out));
  while (take_sign(r, "&&")) {
    bool idle = *out == 0;
    int64_t right;
    r->idle += idle;
    BRAID_TRY(read_comparison(r, &right));
    r->idle -= idle;
    *out = *out && right;
  }
  return BRAID_OK;
}

static braid_status read_either(reader *r, int64_t *out) {
  if (++r->depth > kDepth) return unreadable(r, "fewer brackets");
  BRAID_TRY(read_both(r, out));
  while (take_sign(r, "||")) {
    bool idle = *out != 0;
    int64_t right;
    r->idle += idle;
    BRAID_TRY(read_both(r, &right));
    r->idle -= idle;
    *out = *out || right;
  }
  r->depth--;
  return BRAID_OK;
}

static braid_status read_all(reader *r, int64_t *out) {
  *out = 0;
  BRAID_TRY(read_either(r, out));
  skip_space(r);
  return *r->at ? unreadable(r, "its end") : BRAID_OK;
}

braid_status braid_launch_formula(const char *text, const braid_launch_scope *scope, int64_t *out) {
  return read_all(&(reader){.text = text, .at = text, .scope = scope}, out);
}
