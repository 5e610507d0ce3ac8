/* Training in 16 bits: runs come close to float32's, go on with the same bits, and survive gradients that overflow. */
#include "tensor/half.h"
#include "train/data/dataset.h"
#include "train/diagnose.h"
#include "train/trainer_fixture.h"

static const struct {
  braid_precision precision;
  const char *name;
} kHalves[] = {{BRAID_BFLOAT16, "bf16"}, {BRAID_FLOAT16, "fp16"}};
enum { kHalfCount = sizeof kHalves / sizeof *kHalves };

static void test_curves(void **state) {
  (void)state;
  stop_at whole = {.after = -1};
  braid_train_options options = options_of("float32");
  options.epochs = 4;
  train(options, &whole, BRAID_OK);
  for (size_t i = 0; i < kHalfCount; i++) {
    stop_at half = {.after = -1};
    options = options_of(kHalves[i].name);
    options.epochs = 4;
    options.precision = kHalves[i].precision;
    train(options, &half, BRAID_OK);
    assert_float_equal(half.first_loss, whole.first_loss, 0.01 * whole.first_loss);
    assert_float_equal(half.last_loss, whole.last_loss, 0.03 * whole.last_loss);
    assert_true(half.last_loss < half.first_loss);
  }
}

/* TF32 is a wish, which the CPU does not have. */
static void test_tf32(void **state) {
  (void)state;
  stop_at never = {.after = -1};
  braid_train_options options = options_of("exact");
  uint64_t bits = train(options, &never, BRAID_OK);
  options = options_of("tf32");
  options.precision = BRAID_TF32;
  never = (stop_at){.after = -1};
  assert_true(train(options, &never, BRAID_OK) == bits);
}

static braid_train_options everything(const char *name, braid_precision precision, bool adam) {
  static const braid_parameter_group kGroups[] = {{"w", 0, NAN}, {"f*", 0.5, 0.01}};
  braid_train_options options = options_of(name);
  options.precision = precision;
  options.optimizer = adam ? BRAID_ADAMW : BRAID_SGD;
  options.learning_rate = adam ? 0.002 : 0.05;
  if (adam) return options;
  options.accumulate = 3;
  options.clip_norm = 0.5;
  options.average_decay = 0.75;
  options.groups = kGroups;
  options.group_count = 2;
  return options;
}

static void test_resume(void **state) {
  (void)state;
  for (int which = 0; which < 2 * kHalfCount; which++) {
    char whole[32], parts[32];
    braid_precision precision = kHalves[which / 2].precision;
    snprintf(whole, sizeof whole, "whole-%d", which);
    snprintf(parts, sizeof parts, "parts-%d", which);
    stop_at never = {.after = -1}, here = {.after = 4};
    uint64_t bits = train(everything(whole, precision, which & 1), &never, BRAID_OK);
    braid_train_options again = everything(parts, precision, which & 1);
    again.resume = true;
    again.threads = 2;
    train(again, &here, BRAID_CANCELLED);
    never = (stop_at){.after = -1};
    assert_true(train(again, &never, BRAID_OK) == bits);
  }
}

static void test_other_precision(void **state) {
  (void)state;
  stop_at here = {.after = 3};
  braid_train_options options = options_of("other");
  options.precision = BRAID_BFLOAT16;
  train(options, &here, BRAID_CANCELLED);
  options.precision = BRAID_FLOAT16;
  options.resume = true;
  braid_graph *graph = network();
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  assert_int_equal(braid_trainer_create(graph, data, NULL, &options, &trainer), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "precision was bf16, is fp16"));
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

/* A checkpoint whose scale of the loss no step can come from. */
static void test_hostile_scale(void **state) {
  (void)state;
  static const double kScales[] = {0, -1, NAN, INFINITY, 65536};
  for (size_t i = 0; i < sizeof kScales / sizeof *kScales; i++) {
    braid_graph *graph = network();
    braid_dataset *data = glyphs("train");
    braid_train_options options = options_of("hostile");
    options.precision = BRAID_FLOAT16;
    options.resume = false;
    braid_trainer *trainer;
    braid_tensor *scale;
    braid_desc desc;
    ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
    ok(braid_desc_init(&desc, BRAID_F32, 0, NULL));
    ok(braid_tensor_create(NULL, &desc, &scale));
    braid_tensor_set_f64(scale, 0, kScales[i]);
    ok(braid_session_write(trainer->session, "loss_scale", scale));
    ok(braid_trainer_save(trainer));
    bool found;
    braid_status status = braid_trainer_load(trainer, &found);
    assert_true(found);
    assert_int_equal(status, kScales[i] == 65536 ? BRAID_OK : BRAID_INVALID_ARGUMENT);
    if (status != BRAID_OK) assert_non_null(strstr(braid_error_detail(), "loss_scale"));
    braid_tensor_release(scale);
    braid_trainer_destroy(trainer);
    braid_dataset_close(data);
    braid_graph_destroy(graph);
  }
}

/* --- inside a run --------------------------------------------------------------------------------------------------
 */
typedef struct run {
  braid_graph *graph;
  braid_dataset *data;
  braid_trainer *trainer;
} run;

static run open_run_with(braid_precision precision, float first_weights, int64_t lookahead_steps) {
  run r = {.graph = network(), .data = glyphs("train")};
  braid_train_options options = options_of("");
  options.out_directory = NULL;
  options.precision = precision;
  options.lookahead_steps = lookahead_steps;
  braid_value_id w = braid_graph_find_value(r.graph, "w");
  float *weights = braid_tensor_data(r.graph->values[w].tensor);
  for (int64_t i = 0; i < braid_desc_count(&r.graph->values[w].desc); i++) weights[i] *= first_weights;
  ok(braid_trainer_create(r.graph, r.data, NULL, &options, &r.trainer));
  return r;
}

static run open_run(braid_precision precision, float first_weights) {
  return open_run_with(precision, first_weights, 0);
}

static void close_run(run *r) {
  braid_trainer_destroy(r->trainer);
  braid_dataset_close(r->data);
  braid_graph_destroy(r->graph);
}

static braid_tensor *read_value(const run *r, const char *name) {
  braid_value_id id = braid_graph_find_value(r->trainer->step, name);
  braid_tensor *tensor;
  assert_true(id >= 0);
  ok(braid_tensor_create(NULL, &r->trainer->step->values[id].desc, &tensor));
  ok(braid_session_read(r->trainer->session, name, tensor));
  return tensor;
}

/* The copy that products read is the master, rounded; what only BatchNormalization reads has none. */
static void test_copies(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * kHalfCount; i++) {
    run r = open_run_with(kHalves[i / 2].precision, 1,
                          i % 2 ? 3 : 0); /* the third step ends where a lookahead went back to */
    bool bf16 = kHalves[i / 2].precision == BRAID_BFLOAT16;
    double loss;
    for (int step = 0; step < 3; step++) ok(braid_trainer_step(r.trainer, 0.05, &loss));
    braid_tensor *master = read_value(&r, "w"), *copy = read_value(&r, bf16 ? "w/bfloat16" : "w/float16");
    const float *from = braid_tensor_const_data(master);
    const uint16_t *to = braid_tensor_const_data(copy);
    for (int64_t k = 0; k < braid_desc_count(braid_tensor_desc(master)); k++)
      assert_int_equal(to[k], bf16 ? braid_f32_to_bf16(from[k]) : braid_f32_to_f16(from[k]));
    assert_true(braid_graph_find_value(r.trainer->step, bf16 ? "scale/bfloat16" : "scale/float16") < 0);
    assert_int_equal(braid_graph_find_value(r.trainer->step, "loss_scale") >= 0, !bf16);
    braid_tensor_release(master);
    braid_tensor_release(copy);
    close_run(&r);
  }
}

/* A scale beyond what fp16 holds: steps change nothing and halve it until gradients are finite. */
static void test_overflow(void **state) {
  (void)state;
  run r = open_run(BRAID_FLOAT16, 1);
  braid_tensor *scale = read_value(&r, "loss_scale"), *before = read_value(&r, "full");
  assert_true(braid_tensor_get_f64(scale, 0) == 65536);
  braid_tensor_set_f64(scale, 0, 0x1p40);
  ok(braid_session_write(r.trainer->session, "loss_scale", scale));
  double loss;
  int skipped = 0;
  for (bool moved = false; !moved && skipped < 60; skipped += !moved) {
    double was = braid_tensor_get_f64(scale, 0);
    ok(braid_trainer_step(r.trainer, 0.05, &loss));
    assert_true(isfinite(loss));
    braid_tensor *after = read_value(&r, "full"), *steps = read_value(&r, "loss_scale/steps");
    braid_tensor_release(scale);
    scale = read_value(&r, "loss_scale");
    moved = memcmp(braid_tensor_const_data(after), braid_tensor_const_data(before),
                   braid_desc_bytes(braid_tensor_desc(before))) != 0;
    assert_true(braid_tensor_get_f64(scale, 0) == (moved ? was : was / 2));
    assert_int_equal(braid_tensor_get_i64(steps, 0), moved ? 1 : -skipped - 1);
    braid_tensor_release(after);
    braid_tensor_release(steps);
  }
  assert_in_range(skipped, 10, 40);
  braid_tensor_release(scale);
  braid_tensor_release(before);
  close_run(&r);
}

static int64_t step_from(const run *r, double scale, int64_t steps, double *next) {
  braid_tensor *number = read_value(r, "loss_scale"), *count = read_value(r, "loss_scale/steps");
  braid_tensor_set_f64(number, 0, scale);
  *(int64_t *)braid_tensor_data(count) = steps;
  ok(braid_session_write(r->trainer->session, "loss_scale", number));
  ok(braid_session_write(r->trainer->session, "loss_scale/steps", count));
  braid_tensor_release(number);
  braid_tensor_release(count);
  double loss;
  ok(braid_trainer_step(r->trainer, 0.05, &loss));
  number = read_value(r, "loss_scale"), count = read_value(r, "loss_scale/steps");
  *next = braid_tensor_get_f64(number, 0);
  steps = braid_tensor_get_i64(count, 0);
  braid_tensor_release(number);
  braid_tensor_release(count);
  return steps;
}

/* Counts that no run comes to, but a checkpoint may say. */
static void test_counts_at_their_ends(void **state) {
  (void)state;
  run r = open_run(BRAID_FLOAT16, 1);
  double next;
  assert_true(step_from(&r, 256, INT64_MAX, &next) == 0 && next == 512);
  assert_true(step_from(&r, 256, 1998, &next) == 1999 && next == 256);
  assert_true(step_from(&r, 256, 1999, &next) == 0 && next == 512);
  assert_true(step_from(&r, 256, INT64_MIN, &next) == 1 && next == 256);
  assert_true(step_from(&r, 0x1p60, -1, &next) == -2 && next == 0x1p59);
  assert_true(step_from(&r, 0x1p60, -98, &next) == -99);
  ok(braid_trainer_check_finite(r.trainer));
  assert_true(step_from(&r, 0x1p60, -99, &next) == -100); /* docs/training.md says how many end a run */
  assert_int_equal(braid_trainer_check_finite(r.trainer), BRAID_NOT_FINITE);
  assert_true(step_from(&r, 0x1p60, INT64_MIN, &next) == INT64_MIN && next == 0x1p59);
  assert_int_equal(braid_trainer_check_finite(r.trainer), BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "for 9223372036854775808 steps in a row"));
  close_run(&r);
}

/* Activations beyond 65504 are another matter: the run ends, and is told of the type that holds them. */
static void test_too_large(void **state) {
  (void)state;
  double loss;
  run r = open_run(BRAID_FLOAT16, 5e4f);
  assert_int_equal(braid_trainer_step(r.trainer, 0.05, &loss), BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "--precision bf16"));
  close_run(&r);
  r = open_run(BRAID_BFLOAT16, 5e4f);
  ok(braid_trainer_step(r.trainer, 0.05, &loss));
  close_run(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_curves),        cmocka_unit_test(test_tf32),
                                     cmocka_unit_test(test_resume),        cmocka_unit_test(test_other_precision),
                                     cmocka_unit_test(test_hostile_scale), cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_overflow),      cmocka_unit_test(test_counts_at_their_ends),
                                     cmocka_unit_test(test_too_large)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
