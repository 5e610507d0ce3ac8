/* Tables in training: the columns' means and deviations become constants of the model, which then takes the columns as
 * they are; runs over a table that are stopped and resumed end with the same bits. */
#include "train/data/dataset.h"
#include "train/trainer_fixture.h"

enum { kRows = 200, kColumns = 3 };
static char spec[160];

static int make_table(void **state) {
  if (make_folder(state) != 0) return -1;
  char path[96];
  snprintf(path, sizeof path, "%s/table.csv", folder);
  snprintf(spec, sizeof spec, "csv:%s,target=y", path);
  FILE *file = fopen(path, "w");
  if (!file) return -1;
  fputs("small,large,same,y\n", file);
  for (int i = 0; i < kRows; i++) {
    float a = braid_random_normal(1, 0, 0, (uint64_t)i), b = braid_random_normal(1, 0, 1, (uint64_t)i);
    fprintf(file, "%.6f,%.6f,7,%s\n", 0.001 * (double)a, 1e6 + 1e5 * (double)b, a + b > 0 ? "yes" : "no");
  }
  return fclose(file);
}

static braid_dataset *open_part(const char *split) {
  braid_dataset *dataset;
  ok(braid_dataset_open(NULL, spec, split, &dataset));
  return dataset;
}

static braid_graph *linear(void) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "linear", &graph));
  ok(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 2, .dims = {-1, kColumns}}, &x));
  braid_value_id full[3] = {x, constant(graph, "full", 2, (int64_t[]){kColumns, 2}, 0.3f, 0),
                            constant(graph, "bias", 1, (int64_t[]){2}, 0, 0)};
  ok(braid_graph_add_output(graph, node(graph, "Gemm", full, 3, NULL)));
  return graph;
}

static void run_row(const braid_graph *model, const float *row, float scores[2]) {
  braid_graph *graph;
  braid_session *session;
  ok(braid_graph_clone(model, &graph));
  ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 2, (int64_t[]){1, kColumns}));
  ok(braid_session_create(graph, &(braid_session_options){.threads = 1, .registry = registry}, &session));
  ok(braid_session_run(session, (const void *[]){row}, (void *[]){scores}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* The model over columns as they are gives what the plain one gives over standardized ones. */
static void test_constants(void **state) {
  (void)state;
  braid_dataset *data = open_part("train");
  int64_t samples = braid_dataset_get_info(data).samples;
  double mean[kColumns] = {0}, deviation[kColumns] = {0};
  float row[kColumns], scores[2], expected[2];
  int32_t label;
  assert_int_equal(samples, kRows - kRows / 10);
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < samples; i++) {
      ok(braid_dataset_sample(data, i, row, &label));
      for (int c = 0; c < kColumns; c++) {
        double away = row[c] - mean[c];
        *(pass ? &deviation[c] : &mean[c]) += (pass ? away * away : (double)row[c]) / (double)samples;
      }
    }
  braid_graph *plain = linear(), *model, *again;
  ok(braid_standardize_input(plain, data, &model));
  for (int64_t i = 0; i < samples; i += 17) {
    float standard[kColumns];
    ok(braid_dataset_sample(data, i, row, &label));
    for (int c = 0; c < kColumns; c++)
      standard[c] = (float)((row[c] - mean[c]) / (deviation[c] > 1e-20 ? sqrt(deviation[c]) : 1));
    run_row(model, row, scores);
    run_row(plain, standard, expected);
    for (int k = 0; k < 2; k++) assert_float_equal(scores[k], expected[k], 1e-4);
  }
  size_t nodes = model->node_count;
  ok(braid_standardize_input(model, data, &again)); /* it is already */
  assert_int_equal(again->node_count, nodes);
  braid_graph_destroy(again);
  braid_graph_destroy(model);
  braid_graph_destroy(plain);
  braid_dataset_close(data);
}

static uint64_t train_table(braid_train_options options, stop_at *stop, braid_status expected) {
  braid_dataset *data = open_part("train"), *test = open_part("test");
  braid_graph *plain = linear(), *model;
  braid_trainer *trainer;
  ok(braid_standardize_input(plain, data, &model));
  ok(braid_trainer_create(model, data, test, &options, &trainer));
  braid_status status = braid_trainer_run(trainer, stop_after, stop);
  if (status != expected) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
  uint64_t bits = bits_of(trainer);
  braid_trainer_destroy(trainer);
  braid_graph_destroy(model);
  braid_graph_destroy(plain);
  braid_dataset_close(test);
  braid_dataset_close(data);
  return bits;
}

static void test_resume(void **state) {
  (void)state;
  uint64_t bits = 0;
  for (int threads = 1; threads <= 3; threads++) {
    char name[32];
    snprintf(name, sizeof name, "table-%d", threads);
    braid_train_options options = options_of(name);
    options.batch = 20;
    options.epochs = 6;
    options.resume = true;
    options.threads = threads;
    stop_at here = {.after = 13 * threads}, rest = {.after = -1};
    if (threads > 1) train_table(options, &here, BRAID_CANCELLED);
    uint64_t now = train_table(options, &rest, BRAID_OK);
    if (threads > 1) assert_true(now == bits);
    assert_true(rest.last.test_accuracy > 0.9);
    bits = now;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants), cmocka_unit_test(test_resume)};
  return cmocka_run_group_tests(tests, make_table, remove_folder);
}
