/* What the tests of sessions share: an op that adds, vectors, values that are kept. */
#ifndef BRAID_RUNTIME_SESSION_FIXTURE_H
#define BRAID_RUNTIME_SESSION_FIXTURE_H

#include "braid/custom.h"
#include "braid/session.h"

#define OK(expression)                                                                                                 \
  do {                                                                                                                 \
    braid_status ok_status_ = (expression);                                                                            \
    if (ok_status_ != BRAID_OK) fail_msg("%s: %s", braid_status_text(ok_status_), braid_error_detail());               \
  } while (0)

enum { kCount = 6 };

static inline braid_status infer_same(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                                      braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static inline braid_status add(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                               const braid_custom_array *outputs, size_t output_count) {
  (void)output_count;
  float plus = (float)braid_attr_float(attrs, "plus", 0);
  for (int64_t i = 0; i < braid_desc_count(outputs[0].desc); i++) {
    float sum = plus;
    for (size_t j = 0; j < input_count; j++) sum += ((const float *)inputs[j].data)[i];
    ((float *)outputs[0].data)[i] = sum;
  }
  return BRAID_OK;
}

static const braid_custom_op kAdd = {
    .name = "test.Add", .min_inputs = 1, .max_inputs = 8, .outputs = 1, .infer = infer_same, .compute = add};

static inline braid_graph *new_graph(void) {
  braid_graph *graph;
  OK(braid_graph_create(NULL, "test", &graph));
  return graph;
}

static inline braid_desc vector_desc(void) {
  braid_desc desc;
  int64_t count = kCount;
  OK(braid_desc_init(&desc, BRAID_F32, 1, &count));
  return desc;
}

static inline braid_value_id input(braid_graph *graph, const char *name) {
  braid_value_id id;
  braid_desc desc = vector_desc();
  OK(braid_graph_add_input(graph, name, &desc, &id));
  return id;
}

static inline braid_tensor *vector(float first) {
  braid_tensor *tensor;
  braid_desc desc = vector_desc();
  OK(braid_tensor_create(NULL, &desc, &tensor));
  for (int i = 0; i < kCount; i++) ((float *)braid_tensor_data(tensor))[i] = first + (float)i;
  return tensor;
}

static inline braid_value_id kept(braid_graph *graph, const char *name, braid_value_kind kind, float first) {
  braid_tensor *tensor = vector(first);
  braid_value_id id;
  OK(braid_graph_add_tensor(graph, name, kind, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static inline braid_value_id node(braid_graph *graph, const char *op, const char *name, braid_value_id a,
                                  braid_value_id b) {
  braid_value_id inputs[2] = {a, b}, output = 0;
  OK(braid_graph_add_node(graph, op, name, inputs, b < 0 ? 1 : 2, &output, 1, NULL));
  return output;
}

static inline braid_session *open_session(const braid_graph *graph, const braid_session_options *options) {
  braid_session *session;
  OK(braid_session_create(graph, options, &session));
  return session;
}

static inline void check(const float *got, float first, float step) {
  for (int i = 0; i < kCount; i++)
    if (got[i] != first + step * (float)i) fail_msg("element %d is %g, not %g", i, got[i], first + step * (float)i);
}

static inline void check_kept(braid_session *session, const char *name, float first, float step) {
  braid_tensor *tensor = vector(-1000);
  OK(braid_session_read(session, name, tensor));
  check(braid_tensor_data(tensor), first, step);
  braid_tensor_release(tensor);
}

static const float kInput[kCount] = {0, 1, 2, 3, 4, 5};

#endif
