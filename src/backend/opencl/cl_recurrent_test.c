/* LSTM and its gradient against the CPU's plain ones: see opencl_check.h. */
#include "opencl_check.h"

enum {
  BIDIRECTIONAL = 1,
  REVERSE = 2,
  LENGTHS = 4,
  PEEPHOLE = 8,
  BATCH_FIRST = 16,
  FORGET = 32,
  STATES = 64,
  UNITS = 128
};

typedef struct size {
  int64_t steps, batch, inputs, hidden;
} size;

static void set_attributes(check *c, const size *s, uint32_t form) {
  static const char *const kUnits[] = {"HardSigmoid", "ScaledTanh", "Softsign", "Sigmoid", "Elu", "Affine"};
  static const float kNumbers[] = {0.2f, 1.5f, 1, 1, 0.9f, 1.1f};
  int64_t directions = form & BIDIRECTIONAL ? 2 : 1;
  const char *direction = form & BIDIRECTIONAL ? "bidirectional" : form & REVERSE ? "reverse" : "forward";
  CHECK_OK(braid_graph_set_int(c->graph, c->node, "hidden_size", s->hidden));
  CHECK_OK(braid_graph_set_string(c->graph, c->node, "direction", direction));
  CHECK_OK(braid_graph_set_int(c->graph, c->node, "layout", (form & BATCH_FIRST) != 0));
  if (form & FORGET) CHECK_OK(braid_graph_set_int(c->graph, c->node, "input_forget", 1));
  if (!(form & UNITS)) return;
  CHECK_OK(braid_graph_set_strings(c->graph, c->node, "activations", kUnits, 3 * (size_t)directions));
  CHECK_OK(braid_graph_set_floats(c->graph, c->node, "activation_alpha", kNumbers, 3));
  CHECK_OK(braid_graph_set_float(c->graph, c->node, "clip", 0.8));
}

static braid_value_id state_of(check *c, const size *s, uint32_t form) {
  int64_t d = form & BIDIRECTIONAL ? 2 : 1;
  return form & BATCH_FIRST ? check_floats(c, 3, (int64_t[]){s->batch, d, s->hidden})
                            : check_floats(c, 3, (int64_t[]){d, s->batch, s->hidden});
}

static braid_value_id sequence_of(check *c, const size *s, uint32_t form) {
  return form & BATCH_FIRST ? check_floats(c, 3, (int64_t[]){s->batch, s->steps, s->inputs})
                            : check_floats(c, 3, (int64_t[]){s->steps, s->batch, s->inputs});
}

static braid_value_id lengths_of(check *c, const size *s, uint32_t form) {
  return form & LENGTHS ? check_tensor(c, BRAID_I32, 1, &s->batch, 1, (double)s->steps + 1) : -1;
}

/* Steps behind a sequence's end keep what nobody reads: not compared. */
static void forward(const size *s, uint32_t form) {
  check c;
  int64_t d = form & BIDIRECTIONAL ? 2 : 1, n = s->hidden;
  check_begin(&c);
  braid_value_id inputs[8] = {sequence_of(&c, s, form),
                              check_tensor(&c, BRAID_F32, 3, (int64_t[]){d, 4 * n, s->inputs}, -0.4, 0.4),
                              check_tensor(&c, BRAID_F32, 3, (int64_t[]){d, 4 * n, n}, -0.3, 0.3),
                              check_floats(&c, 2, (int64_t[]){d, 8 * n}),
                              lengths_of(&c, s, form),
                              -1,
                              -1,
                              form & PEEPHOLE ? check_floats(&c, 2, (int64_t[]){d, 3 * n}) : -1};
  if (form & STATES) inputs[5] = state_of(&c, s, form);
  if (form & STATES) inputs[6] = state_of(&c, s, form);
  check_node_of(&c, "LSTM", inputs, 8, 4, form & LENGTHS ? 7 : form & FORGET ? 9 : 15);
  set_attributes(&c, s, form);
  check_end(&c, 1e-5);
}

static void backward(const size *s, uint32_t form) {
  check c;
  int64_t d = form & BIDIRECTIONAL ? 2 : 1, n = s->hidden, b = s->batch, t = s->steps;
  check_begin(&c);
  braid_value_id inputs[11] = {sequence_of(&c, s, form),
                               check_tensor(&c, BRAID_F32, 3, (int64_t[]){d, 4 * n, s->inputs}, -0.4, 0.4),
                               check_tensor(&c, BRAID_F32, 3, (int64_t[]){d, 4 * n, n}, -0.3, 0.3),
                               lengths_of(&c, s, form),
                               form & STATES ? state_of(&c, s, form) : -1,
                               form & STATES ? state_of(&c, s, form) : -1,
                               form & PEEPHOLE ? check_floats(&c, 2, (int64_t[]){d, 3 * n}) : -1,
                               check_tensor(&c, BRAID_F32, 4, (int64_t[]){d, t, b, 5 * n}, 0.05, 0.95),
                               form & BATCH_FIRST ? check_floats(&c, 4, (int64_t[]){b, t, d, n})
                                                  : check_floats(&c, 4, (int64_t[]){t, d, b, n}),
                               form & FORGET ? -1 : state_of(&c, s, form),
                               form & FORGET ? -1 : state_of(&c, s, form)};
  check_node_of(&c, "LSTMGrad", inputs, 11, 7, form & FORGET ? 0x0e : form & PEEPHOLE ? 0x7f : 0x3f);
  set_attributes(&c, s, form);
  check_end(&c, 2e-5);
}

static void test_lstm(void **state) {
  (void)state;
  static const size kSizes[] = {{5, 3, 7, 10}, {1, 1, 1, 1}, {4, 9, 20, 37}, {3, 6, 16, 32}};
  static const uint32_t kForms[] = {0,
                                    BIDIRECTIONAL | STATES,
                                    REVERSE | LENGTHS | STATES,
                                    BATCH_FIRST | PEEPHOLE | BIDIRECTIONAL | LENGTHS,
                                    FORGET | PEEPHOLE | STATES,
                                    UNITS | PEEPHOLE,
                                    UNITS | FORGET | BATCH_FIRST | REVERSE};
  for (size_t f = 0; f < sizeof kForms / sizeof *kForms; f++)
    for (size_t i = 0; i < (f < 2 ? 4 : 1); i++) {
      const size *s = &kSizes[f < 2 ? i : f % 4];
      forward(s, kForms[f]);
      backward(s, kForms[f]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lstm)};
  return skip_run_group_tests(tests, check_open, check_close);
}
