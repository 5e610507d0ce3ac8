/* Training steps of small networks of the kinds that models/ has, from their descriptions, against PyTorch: losses and
 * every parameter after the step, where BRAID_PYTHON names a Python that has it (tests/oracle/networks.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "braid/session.h"
#include "model/darknet/darknet.h"
#include "skip.h"
#include "tensor/npy.h"
#include "train/step.h"

enum { kBatch = 6 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static const char kBranches[] = "[net]\nchannels=3\nheight=9\nwidth=8\n"
                                "[convolutional]\nbatch_normalize=1\nfilters=4\nsize_x=5\nsize_y=1\npad=1\n"
                                "activation=leaky\nslope=0.2\n"
                                "[local_avgpool]\nsize=3\nstride=1\n"
                                "[convolutional]\nfilters=4\nsize_x=1\nsize_y=3\npad=1\nactivation=relu\n"
                                "[local_avgpool]\nsize=5\nstride=2\npadding=0\n"
                                "[connected]\noutput=5\nactivation=linear\n"
                                "[softmax]\n"
                                "[cost]\nscale=0.4\n"
                                "[route]\nlayers=-5\n"
                                "[avgpool]\n"
                                "[connected]\noutput=5\nactivation=linear\n"
                                "[softmax]\n";
static const char kSequence[] = "[net]\ninputs=2\ntime_steps=6\n"
                                "[embedding]\nclasses=11\nsegments=2\npositions=8\npadding=0\noutput=8\n"
                                "[layernorm]\n"
                                "[transformer]\nlayers=2\nheads=2\nhidden=12\n"
                                "[connected]\noutput=2\nactivation=linear\n"
                                "[sequence]\n"
                                "[softmax]\nspatial=1\n";
static const char kGenerator[] = "[net]\ninputs=3\n"
                                 "[deconvolutional]\nbatch_normalize=1\nfilters=4\nsize=3\nactivation=relu\n"
                                 "[deconvolutional]\nfilters=2\nsize=4\nstride=2\npadding=1\nactivation=tanh\n";
static const char kDiscriminator[] = "[net]\nchannels=2\nheight=6\nwidth=6\n"
                                     "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=4\nstride=2\npadding=1\n"
                                     "activation=leaky\nslope=0.2\n"
                                     "[convolutional]\nfilters=1\nsize=3\nactivation=logistic\n";

static braid_graph *imported(const char *text, uint64_t seed) {
  braid_graph *graph;
  ok(braid_darknet_import(NULL, "net.cfg", text, strlen(text), NULL, seed, NULL, &graph));
  return graph;
}

static void save(const char *folder, const char *kind, const char *name, const braid_tensor *tensor) {
  char path[512];
  int start = snprintf(path, sizeof path, "%s/", folder);
  snprintf(path + start, sizeof path - (size_t)start, "%s.%s.npy", kind, name);
  for (char *at = path + start; *at; at++)
    if (*at == '/') *at = '-';
  ok(braid_npy_save(path, tensor));
}

static braid_tensor *of_desc(const braid_desc *desc) {
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, desc, &tensor));
  return tensor;
}

static void save_parameters(const char *folder, const char *kind, const braid_graph *step, braid_session *session) {
  for (size_t i = 0; i < step->value_count; i++) {
    if (step->values[i].kind != BRAID_VALUE_PARAMETER) continue;
    braid_tensor *tensor = of_desc(&step->values[i].desc);
    ok(braid_session_read(session, step->values[i].name, tensor));
    save(folder, kind, step->values[i].name, tensor);
    braid_tensor_release(tensor);
  }
}

/* What input `index` of the step gets: numbers in (-1, 1), or whole ones below `below`; scalars are the rate and 1. */
static braid_tensor *make_input(const braid_desc *desc, size_t index, int64_t below) {
  braid_tensor *tensor = of_desc(desc);
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    double random = (double)braid_random_uniform(5, 0, (uint32_t)index, (uint64_t)i);
    if (desc->rank == 0)
      braid_tensor_set_f64(tensor, i, desc->dtype == BRAID_F32 ? 0.25 : 1);
    else
      braid_tensor_set_f64(tensor, i, below ? (double)(int64_t)(random * (double)below) : 2 * random - 1);
  }
  return tensor;
}

/* Ids of words, the last two of every sample padding, and of segments. */
static void make_words(braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  for (int64_t i = 0; i < braid_desc_count(desc); i++) {
    int64_t place = i / 2 % desc->dims[1];
    double word = 1 + (double)(i * 7 % 10);
    braid_tensor_set_f64(tensor, i, i % 2 ? (double)(place > 2) : place < desc->dims[1] - 2 ? word : 0);
  }
}

/* Runs a step once and has Python compare. `words`: input 0 is ids. */
static void compare(const char *kind, braid_graph *step, size_t losses, int64_t classes, bool words) {
  const char *python = getenv("BRAID_PYTHON");
  char folder[] = "/tmp/braid-networks-XXXXXX", command[1024];
  braid_session *session;
  assert_non_null(mkdtemp(folder));
  ok(braid_session_create(step, &(braid_session_options){.training = true, .devices = "cpu"}, &session));
  save_parameters(folder, "before", step, session);
  braid_tensor *inputs[BRAID_STEP_MOST_INPUTS], *outputs[3];
  const void *in[BRAID_STEP_MOST_INPUTS];
  void *out[3];
  for (size_t i = 0; i < braid_session_input_count(session); i++) {
    char name[24];
    const braid_desc *desc = braid_session_input(session, i);
    inputs[i] = make_input(desc, i, desc->dtype == BRAID_I32 ? classes : 0);
    if (words && i == 0) make_words(inputs[i]);
    snprintf(name, sizeof name, "%zu", i);
    save(folder, "input", name, inputs[i]);
    in[i] = braid_tensor_const_data(inputs[i]);
  }
  for (size_t i = 0; i < braid_session_output_count(session); i++) {
    outputs[i] = of_desc(braid_session_output(session, i));
    out[i] = braid_tensor_data(outputs[i]);
  }
  ok(braid_session_run(session, in, out));
  for (size_t i = 0; i < losses; i++) save(folder, "loss", i ? "1" : "0", outputs[i]);
  save_parameters(folder, "after", step, session);
  for (size_t i = 0; i < braid_session_input_count(session); i++) braid_tensor_release(inputs[i]);
  for (size_t i = 0; i < braid_session_output_count(session); i++) braid_tensor_release(outputs[i]);
  braid_session_destroy(session);
  braid_graph_destroy(step);
  snprintf(command, sizeof command, "'%s' '%s/../oracle/networks.py' %s '%s'", python, BRAID_TEST_DATA, kind, folder);
  int differ = system(command);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  assert_int_equal(system(command), 0);
  assert_int_equal(differ, 0);
}

static braid_train_options plain_options(void) {
  braid_train_options options;
  braid_train_options_init(&options);
  options.batch = kBatch;
  options.momentum = options.weight_decay = 0;
  return options;
}

static void alone(const char *kind, const char *text, int64_t classes, bool words, braid_precision precision) {
  braid_train_options options = plain_options();
  options.precision = precision;
  braid_graph *model = imported(text, 3), *step;
  ok(braid_step_graph_alone(model, &options, &step));
  braid_graph_destroy(model);
  compare(kind, step, 1, classes, words);
}

static void need_torch(void) {
  const char *python = getenv("BRAID_PYTHON");
  char text[1024];
  snprintf(text, sizeof text, "'%s' -c 'import torch' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(text) != 0) skip_test("peers", "BRAID_PYTHON names no Python with torch");
}

static void test_branches_and_auxiliary(void **state) {
  (void)state;
  need_torch();
  alone("branches", kBranches, 5, false, BRAID_FLOAT32);
}

static void test_halves(void **state) {
  (void)state;
  need_torch();
  alone("branches-bf16", kBranches, 5, false, BRAID_BFLOAT16);
  alone("branches-fp16", kBranches, 5, false, BRAID_FLOAT16);
}

static void test_sequence(void **state) {
  (void)state;
  need_torch();
  alone("sequence", kSequence, 6, true, BRAID_FLOAT32);
}

static void test_adversarial(void **state) {
  (void)state;
  need_torch();
  braid_train_options options = plain_options();
  braid_graph *generator = imported(kGenerator, 3), *discriminator = imported(kDiscriminator, 4), *step;
  ok(braid_step_graph_adversarial(generator, discriminator, &options, &step));
  braid_graph_destroy(generator);
  braid_graph_destroy(discriminator);
  compare("adversarial", step, 2, 0, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_branches_and_auxiliary),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_sequence),
      cmocka_unit_test(test_adversarial),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
