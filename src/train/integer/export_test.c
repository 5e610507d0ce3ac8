/* The saved form of a normalization against docs/integer-training.md, in scalar arithmetic: also where what it rounds
 * first, h, has no more bits. */
#include "train/integer/network_fixture.h"

enum { kBatch = 32, kPixels = 3 * 32 * 32 };

/* A product and a normalization, whose result are the scores. */
static braid_graph *network_of(float gamma, float beta) {
  braid_graph *graph;
  braid_value_id x;
  ok(braid_graph_create(NULL, "norm", &graph));
  ok(braid_graph_add_input(graph, "image", &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, 3, 32, 32}}, &x));
  x = node(graph, "Flatten", &x, 1, NULL);
  x = node(graph, "MatMul",
           (braid_value_id[]){x, constant(graph, "weight", 2, (int64_t[]){kPixels, kClasses}, 0.1f, 0)}, 2, NULL);
  int64_t channels = kClasses;
  braid_value_id norm[5] = {x, constant(graph, "scale", 1, &channels, 0.1f * gamma, gamma),
                            constant(graph, "shift", 1, &channels, 0.5f * beta, beta),
                            constant(graph, "mean", 1, &channels, 0, 0),
                            constant(graph, "variance", 1, &channels, 0, 1)};
  x = node(graph, "BatchNormalization", norm, 5, NULL);
  ok(braid_graph_add_output(graph, x));
  return graph;
}

static void read_integers(braid_trainer *trainer, const char *name, int64_t *out) {
  braid_value_id id = braid_graph_find_value(trainer->step, name);
  braid_tensor *tensor;
  assert_true(id >= 0);
  ok(braid_tensor_create(NULL, &trainer->step->values[id].desc, &tensor));
  ok(braid_session_read(trainer->session, name, tensor));
  for (int64_t i = 0; i < braid_desc_count(braid_tensor_desc(tensor)); i++) out[i] = braid_tensor_get_i64(tensor, i);
  braid_tensor_release(tensor);
}

static int64_t floor_shift(int64_t v, int64_t s) {
  int64_t by = 1 << s;
  return (int64_t)(v >= 0 ? v / by : -((-v + by - 1) / by));
}

static int64_t rounded(int64_t v, int64_t s) {
  return s ? floor_shift(v + (1 << (s - 1)), s) : (int64_t)v;
}

static int64_t limited(int64_t v, int64_t most) {
  return v > most ? most : v < -most ? -most : v;
}

static int64_t width(int64_t v) {
  int64_t bits = 0;
  for (; v; v >>= 1) bits++;
  return bits;
}

/* By running statistics; *saturates: h has no more bits. */
static int64_t normalize(int64_t x, int64_t gamma, int64_t beta, int64_t mean, int64_t variance, bool *saturates) {
  int64_t square = (variance + (1 << 14)) << 16;
  int64_t root = (int64_t)sqrt((double)square);
  while (root * root > square) root--;
  while ((root + 1) * (root + 1) <= square) root++;
  int64_t b = width(root) - 1, m = ((int64_t)1 << (14 + b)) / root, places = b - 7;
  int64_t c = -rounded(mean * m, 16), h = floor_shift(x * m + c + ((int64_t)1 << (places - 1)), places);
  *saturates = h > 127 || h < -127;
  return limited(rounded(gamma * limited(h, 127) + 64 * beta, 6), 127);
}

static void run_model(braid_trainer *trainer, const float *images, float *scores) {
  braid_graph *saved;
  braid_session *session;
  braid_session_options options = {.devices = "cpu"};
  ok(braid_trainer_model(trainer, &saved));
  ok(braid_graph_set_input_shape(saved, braid_graph_input(saved, 0), 4, (int64_t[]){kBatch, 3, 32, 32}));
  ok(braid_session_create(saved, &options, &session));
  ok(braid_session_run(session, (const void *[]){images}, (void *[]){scores}));
  braid_session_destroy(session);
  braid_graph_destroy(saved);
}

/* Images of which most are far along the weights of one score. Scores differ by a step at most, for the file rounds
 * once; where h saturates they are the same. */
static void check_norm(float gamma, float beta) {
  braid_graph *graph = network_of(gamma, beta);
  braid_dataset *data = glyphs("train");
  braid_train_options options = integer_options("norm");
  braid_trainer *trainer;
  double loss;
  options.draw_weights = false;
  options.out_directory = NULL;
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  for (int i = 0; i < 10; i++) ok(braid_trainer_step(trainer, 0x1p-8, &loss));
  int64_t *weight = calloc((size_t)kPixels * kClasses, sizeof *weight);
  int64_t scale[kClasses], shift[kClasses], mean[kClasses], variance[kClasses];
  float *images = calloc((size_t)kBatch * kPixels, sizeof *images), scores[kBatch * kClasses];
  assert_true(weight && images);
  read_integers(trainer, "weight", weight);
  read_integers(trainer, "scale", scale);
  read_integers(trainer, "shift", shift);
  read_integers(trainer, "mean", mean);
  read_integers(trainer, "variance", variance);
  for (int64_t i = 0; i < kBatch * kPixels; i++) {
    int64_t image = i / kPixels, along = weight[image % kClasses * kPixels + i % kPixels];
    float noise = braid_random_uniform(kSeed, 3, 1, (uint64_t)i);
    images[i] = image < 8 ? 0.2f * noise : (image % 2 ? noise : -noise) * (along > 0 ? 1 : -1);
  }
  run_model(trainer, images, scores);
  int64_t saturated = 0, p = width((int64_t)kPixels * 127 * 127) - 15;
  for (int64_t i = 0; i < kBatch * kClasses; i++) {
    const float *image = images + i / kClasses * kPixels;
    int64_t sum = 0, channel = i % kClasses;
    bool saturates;
    for (int64_t k = 0; k < kPixels; k++)
      sum += limited((int64_t)floor((double)image[k] * 128 + 0.5), 127) * weight[channel * kPixels + k];
    int64_t y = normalize(limited(rounded(sum, p), 32767), scale[channel], shift[channel], mean[channel],
                          variance[channel], &saturates);
    double got = (double)scores[i] * 128;
    saturated += saturates;
    if (!(fabs(got - (double)y) <= (saturates ? 0 : 1)))
      fail_msg("%g instead of %lld%s", got, (long long)y, saturates ? ", where h saturates" : "");
  }
  assert_in_range(saturated, 20, kBatch * kClasses - 20);
  free(weight);
  free(images);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
}

static void test_norm(void **state) {
  (void)state;
  check_norm(0.05f, 0.1f);
  check_norm(-0.1f, -0.25f);
  check_norm(0.2f, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
