/* The step of a generator against a discriminator: its losses are those of the two networks run by themselves, it fits
 * or says why not, and it leaves nothing behind without memory. networks_torch_test.c has its updates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/session.h"
#include "model/darknet/darknet.h"
#include "oom.h"
#include "train/step.h"

enum { kBatch = 5, kNoise = 3, kPixels = 2 * 6 * 6 };

static const char kGenerator[] = "[net]\ninputs=3\n"
                                 "[deconvolutional]\nfilters=4\nsize=3\nactivation=relu\n"
                                 "[deconvolutional]\nfilters=2\nsize=4\nstride=2\npadding=1\nactivation=tanh\n";
static const char kDiscriminator[] = "[net]\nchannels=2\nheight=6\nwidth=6\n"
                                     "[convolutional]\nfilters=4\nsize=4\nstride=2\npadding=1\nactivation=leaky\n"
                                     "[convolutional]\nfilters=1\nsize=3\nactivation=logistic\n";

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_graph *imported(const char *text) {
  braid_graph *graph;
  ok(braid_darknet_import(NULL, "net.cfg", text, strlen(text), NULL, 3, NULL, &graph));
  return graph;
}

static braid_train_options plain_options(void) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = kBatch;
  return options;
}

/* One run of a network with its first weights. */
static void run_alone(const char *text, const float *input, float *output) {
  braid_graph *graph = imported(text);
  braid_session *session;
  braid_value_id id = braid_graph_input(graph, 0);
  braid_desc desc = braid_graph_value(graph, id).desc;
  desc.dims[0] = kBatch;
  ok(braid_graph_set_input_shape(graph, id, desc.rank, desc.dims));
  ok(braid_session_create(graph, &(braid_session_options){.devices = "cpu"}, &session));
  ok(braid_session_run(session, (const void *[]){input}, (void *[]){output}));
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

static void assert_near(double got, double expected) {
  if (!(fabs(got - expected) <= 1e-5 * (1 + fabs(expected)))) fail_msg("%.9g, expected %.9g", got, expected);
}

static void test_losses(void **state) {
  (void)state;
  float noise[kBatch * kNoise], real[kBatch * kPixels], made[kBatch * kPixels], made_alone[kBatch * kPixels];
  float of_real[kBatch], of_made[kBatch], losses[2];
  for (int i = 0; i < kBatch * kNoise; i++) noise[i] = sinf((float)i);
  for (int i = 0; i < kBatch * kPixels; i++) real[i] = cosf((float)i);
  run_alone(kGenerator, noise, made_alone);
  run_alone(kDiscriminator, real, of_real);
  run_alone(kDiscriminator, made_alone, of_made);
  double judging = 0, deceiving = 0;
  for (int i = 0; i < kBatch; i++) {
    judging -= (log((double)of_real[i]) + log(1 - (double)of_made[i])) / kBatch;
    deceiving -= log((double)of_made[i]) / kBatch;
  }
  braid_train_options options = plain_options();
  braid_graph *generator = imported(kGenerator), *discriminator = imported(kDiscriminator), *step;
  braid_session *session;
  ok(braid_step_graph_adversarial(generator, discriminator, &options, &step));
  ok(braid_session_create(step, &(braid_session_options){.training = true, .devices = "cpu"}, &session));
  ok(braid_session_run(session, (const void *[]){noise, real, &(float){0.01f}, &(int64_t){1}},
                       (void *[]){&losses[0], &losses[1], made}));
  assert_near(losses[0], judging);
  assert_near(losses[1], deceiving);
  for (int i = 0; i < kBatch * kPixels; i++) assert_near(made[i], made_alone[i]);
  /* what it has learned of the same samples is better, on both sides of the discriminator */
  float before = losses[0];
  for (int64_t i = 2; i < 12; i++)
    ok(braid_session_run(session, (const void *[]){noise, real, &(float){0.01f}, &i},
                         (void *[]){&losses[0], &losses[1], made}));
  assert_true(losses[0] < before);
  braid_session_destroy(session);
  braid_graph_destroy(generator);
  braid_graph_destroy(discriminator);
  braid_graph_destroy(step);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *generator, *discriminator, *said;
  } cases[] = {
      {kGenerator, kGenerator, "the generator gives float32[5,2,6,6], the discriminator takes float32[5,3]"},
      {kGenerator, "[net]\nheight=6\nwidth=6\nchannels=2\n[maxpool]\nsize=2\n", "has no trainable weights"},
      {kGenerator, "[net]\nheight=6\nwidth=6\nchannels=2\n[convolutional]\nfilters=3\nsize=6\n",
       "one score for each of 5 samples is expected"},
      {kGenerator, "[net]\nheight=6\nwidth=6\nchannels=2\n[convolutional]\nsize=6\n[cost]\n[connected]\noutput=1\n",
       "the discriminator has 1 inputs and 2 outputs"},
  };
  braid_train_options options = plain_options();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_graph *generator = imported(cases[i].generator), *discriminator = imported(cases[i].discriminator), *step;
    braid_status status = braid_step_graph_adversarial(generator, discriminator, &options, &step);
    assert_true(status == BRAID_INVALID_GRAPH || status == BRAID_INVALID_ARGUMENT);
    assert_null(step);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
    braid_graph_destroy(generator);
    braid_graph_destroy(discriminator);
  }
}

static braid_status make_step(const braid_allocator *allocator, void *context) {
  braid_train_options options = plain_options();
  braid_graph *generator = NULL, *discriminator = NULL, *step = NULL;
  (void)context;
  braid_status status =
      braid_darknet_import(allocator, "g.cfg", kGenerator, strlen(kGenerator), NULL, 1, NULL, &generator);
  if (status == BRAID_OK)
    status =
        braid_darknet_import(allocator, "d.cfg", kDiscriminator, strlen(kDiscriminator), NULL, 1, NULL, &discriminator);
  if (status == BRAID_OK) status = braid_step_graph_adversarial(generator, discriminator, &options, &step);
  braid_graph_destroy(generator);
  braid_graph_destroy(discriminator);
  braid_graph_destroy(step);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(make_step, NULL) > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_losses),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
