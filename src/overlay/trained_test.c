/* Networks that training in integers saved: layers of the overlay, which give the scores that Braid computes from the
 * file; with normalizations those parts that are integers. */
#include "overlay/reference.h"
#include "train/integer/network_fixture.h"

static braid_graph *train_network(bool norms) {
  braid_graph *graph = integer_network(norms), *saved;
  braid_train_options options = integer_options("overlay");
  braid_dataset *data = glyphs("train");
  braid_trainer *trainer;
  options.out_directory = NULL;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  ok(braid_trainer_run(trainer, NULL, NULL));
  ok(braid_trainer_model(trainer, &saved));
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
  return saved;
}

/* Halves go up in convolutions, products and means, and the sum is of maps; every score the same. */
static void test_scores(void **state) {
  (void)state;
  enum { IMAGES = 64, PIXELS = 3 * 32 * 32 };
  braid_graph *graph = train_network(false);
  ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 4, (int64_t[]){IMAGES, 3, 32, 32}));
  ok(braid_resolve(graph));
  braid_overlay_network *network;
  ok(braid_overlay_lower(graph, NULL, &network));
  int up = 0, means = 0;
  for (size_t i = 0; i < network->layer_count; i++) {
    up += network->layers[i].half_up;
    means += network->layers[i].kind == BRAID_OVERLAY_MEAN && network->layers[i].half_up;
  }
  assert_true(up >= 5 && means == 1);
  assert_true(network->input_count == 1 && network->output_count == 1 && network->inputs[0].low == -127);
  const braid_overlay_map *out = &network->maps[network->outputs[0].map];
  float *x = malloc(sizeof(float) * IMAGES * PIXELS), *theirs = malloc(sizeof(float) * IMAGES * kClasses);
  for (int i = 0; i < IMAGES * PIXELS; i++) x[i] = (float)((i * 7919 + i / 13 * 31) % 2001 - 1000) / 400;
  braid_session *session;
  ok(braid_session_create(graph, NULL, &session));
  ok(braid_session_run(session, (const void *[]){x}, (void *[]){theirs}));
  braid_session_destroy(session);
  assert_int_equal(braid_overlay_map_bytes(out), kClasses);
  int different = 0, distinct = 0;
  for (int n = 0; n < IMAGES; n++) {
    int8_t bytes[PIXELS], scores[kClasses];
    float ours[kClasses];
    braid_overlay_read_port(network, &network->inputs[0], x + n * PIXELS, bytes);
    ok(braid_overlay_reference(network, (const int8_t *const[]){bytes}, (int8_t *const[]){scores}, NULL));
    braid_overlay_dequantize(scores, kClasses, out->exponent, ours);
    for (int i = 0; i < kClasses; i++) {
      different += ours[i] != theirs[n * kClasses + i];
      distinct += ours[i] != ours[0];
    }
  }
  assert_int_equal(different, 0);
  assert_true(distinct > IMAGES);
  free(x);
  free(theirs);
  braid_overlay_network_destroy(network);
  braid_graph_destroy(graph);
}

/* A normalization is no integer op: it is refused by name, what is around it is taken. */
static void test_normalizations(void **state) {
  (void)state;
  braid_graph *graph = train_network(true);
  ok(braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), 4, (int64_t[]){2, 3, 32, 32}));
  ok(braid_resolve(graph));
  bool *takes = malloc(graph->node_count);
  braid_overlay_refusal *refusals = calloc(graph->node_count, sizeof *refusals);
  size_t count, norms = 0, products = 0;
  memset(takes, 1, graph->node_count);
  ok(braid_overlay_select(graph, takes, refusals, &count));
  for (size_t i = 0; i < count; i++) {
    const char *op = graph->nodes[refusals[i].node].op->name;
    assert_true(refusals[i].why[0] && !takes[refusals[i].node]);
    norms += strcmp(op, "BatchNormalization") == 0 && strstr(refusals[i].why, "no such op");
  }
  for (size_t i = 0; i < graph->node_count; i++) products += takes[i] && strcmp(graph->nodes[i].op->name, "Gemm") == 0;
  assert_int_equal(norms, 2);
  assert_int_equal(products, 2);
  free(takes);
  free(refusals);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scores), cmocka_unit_test(test_normalizations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
