/* Integers of docs/integer-training.md written down once more, with divisions instead of shifts and in 128 bits, and
 * single nodes run by one, two and three threads: for the tests that hold every op of training in integers to the page.
 */
#ifndef BRAID_TRAIN_INTEGER_CONTRACT_H
#define BRAID_TRAIN_INTEGER_CONTRACT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "braid/session.h"
#include "graph/graph.h"

__extension__ typedef __int128 wide;

/* --- the text ------------------------------------------------------------------------------------------------------
 */
static inline wide power(int64_t of) {
  wide value = 1;
  while (of-- > 0) value *= 2;
  return value;
}
static inline wide floor_div(wide a, wide b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline wide rounded(wide v, int64_t shift) {
  return shift <= 0 ? v * power(-shift) : floor_div(v + power(shift) / 2, power(shift));
}
static inline wide most_of(int64_t bits) {
  return power(bits - 1) - 1;
}
static inline wide limit(wide v, wide low, wide high) {
  return v < low ? low : v > high ? high : v;
}
static inline wide clip(wide v, int64_t bits) {
  return limit(v, -most_of(bits), most_of(bits));
}
static inline wide near(wide a, wide n) {
  return floor_div(2 * a + n, 2 * n);
}
static inline int64_t width(wide v) {
  int64_t bits = 0;
  while (power(bits) <= v) bits++;
  return bits;
}
static inline wide size_of(wide v) {
  return v < 0 ? -v : v;
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
enum { kMost = 8 };

typedef struct node_case {
  const char *op;
  size_t inputs, outputs;
  braid_desc desc[kMost];
  void *in[kMost], *out[kMost];
  size_t bytes[kMost];
  struct {
    const char *name;
    int64_t values[4];
    size_t count; /* 0: one integer */
  } attrs[kMost];
  size_t attr_count;
} node_case;

static inline void *operand(node_case *c, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc *desc = &c->desc[c->inputs];
  assert_int_equal(braid_desc_init(desc, dtype, rank, dims), BRAID_OK);
  c->in[c->inputs] = calloc(braid_desc_bytes(desc) + 8, 1);
  assert_non_null(c->in[c->inputs]);
  return c->in[c->inputs++];
}
static inline void one(node_case *c, braid_dtype dtype, int64_t value) {
  void *data = operand(c, dtype, 0, NULL);
  if (dtype == BRAID_I64) *(int64_t *)data = value;
  if (dtype == BRAID_I32) *(int32_t *)data = (int32_t)value;
}
static inline void number(node_case *c, const char *name, int64_t value) {
  c->attrs[c->attr_count].name = name;
  c->attrs[c->attr_count++].values[0] = value;
}
static inline void list(node_case *c, const char *name, size_t count, const int64_t *values) {
  c->attrs[c->attr_count].name = name;
  c->attrs[c->attr_count].count = count;
  memcpy(c->attrs[c->attr_count++].values, values, count * sizeof *values);
}

static inline void run_by(node_case *c, int threads, bool first) {
  braid_graph *graph;
  braid_session *session;
  braid_value_id in[kMost], out[kMost] = {0};
  braid_node_id node;
  assert_int_equal(braid_graph_create(NULL, "node", &graph), BRAID_OK);
  for (size_t i = 0; i < c->inputs; i++)
    assert_int_equal(braid_graph_add_input(graph, NULL, &c->desc[i], &in[i]), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, c->op, "node", in, c->inputs, out, c->outputs, &node), BRAID_OK);
  for (size_t i = 0; i < c->attr_count; i++)
    assert_int_equal(c->attrs[i].count
                         ? braid_graph_set_ints(graph, node, c->attrs[i].name, c->attrs[i].values, c->attrs[i].count)
                         : braid_graph_set_int(graph, node, c->attrs[i].name, c->attrs[i].values[0]),
                     BRAID_OK);
  for (size_t i = 0; i < c->outputs; i++) assert_int_equal(braid_graph_add_output(graph, out[i]), BRAID_OK);
  braid_session_options options = {.devices = "cpu", .threads = threads};
  braid_status status = braid_session_create(graph, &options, &session);
  if (status != BRAID_OK) fail_msg("%s: %s", c->op, braid_error_detail());
  void *results[kMost];
  for (size_t i = 0; i < c->outputs; i++) {
    c->bytes[i] = braid_desc_bytes(braid_session_output(session, i));
    results[i] = calloc(c->bytes[i] + 8, 1);
    assert_non_null(results[i]);
  }
  status = braid_session_run(session, (const void *const *)c->in, results);
  if (status != BRAID_OK) fail_msg("%s: %s", c->op, braid_error_detail());
  for (size_t i = 0; i < c->outputs; i++) {
    if (first)
      c->out[i] = results[i];
    else if (memcmp(c->out[i], results[i], c->bytes[i]) != 0)
      fail_msg("%s: output %zu differs by %d threads", c->op, i, threads);
    if (!first) free(results[i]);
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static inline void run(node_case *c) {
  for (int threads = 1; threads <= 3; threads++) run_by(c, threads, threads == 1);
}
static inline void done(node_case *c) {
  for (size_t i = 0; i < c->inputs; i++) free(c->in[i]);
  for (size_t i = 0; i < c->outputs; i++) free(c->out[i]);
}

/* An element of an output that should be so many bytes each. */
static inline int64_t got(const node_case *c, size_t output, size_t bytes, int64_t i) {
  assert_true((size_t)(i + 1) * bytes <= c->bytes[output]);
  const void *data = c->out[output];
  return bytes == 1   ? ((const int8_t *)data)[i]
         : bytes == 2 ? ((const int16_t *)data)[i]
         : bytes == 4 ? ((const int32_t *)data)[i]
                      : ((const int64_t *)data)[i];
}
static inline void expect(const node_case *c, size_t output, size_t bytes, int64_t i, wide wanted) {
  if (got(c, output, bytes, i) != (int64_t)wanted)
    fail_msg("%s: output %zu, element %lld is %lld; %lld is right", c->op, output, (long long)i,
             (long long)got(c, output, bytes, i), (long long)wanted);
}

static uint64_t drawn;
static inline int64_t draw(int64_t low, int64_t high) {
  return low + braid_random_below(2026, 1, 1, drawn++, (uint32_t)(high - low + 1));
}
/* Random, or at one of the ends everywhere. */
static inline void fill_bytes(void *data, int64_t count, int mode) {
  for (int64_t i = 0; i < count; i++) ((int8_t *)data)[i] = (int8_t)(mode ? 127 * mode : draw(-127, 127));
}

#endif
