/* Training by a policy over two devices whose times and power are set (slow_devices.h): what is learned is that of one
 * device, a device that slows down in the middle is left, caps are kept or their violations counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/model.h"
#include "braid/steering.h"
#include "registry.h"
#include "skip.h"
#include "slow.h"
#include "steering/slow_devices.h"
#include "steering/state.h"
#include "train/trainer.h"

/* --- a training ----------------------------------------------------------------------------------------------------
 */
enum { kBatch = 64, kSteps = 40 };
static char folder[64], database[96], network[96];
static braid_registry *registry;
static char said[1 << 16]; /* by the log */

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static void hear(void *context, braid_log_level level, const char *message) {
  (void)context, (void)level;
  size_t used = strlen(said);
  snprintf(said + used, sizeof said - used, "%s\n", message);
}

/* Small, with a convolution that plans fuse with what follows it. */
static int write_network(void) {
  static const char kText[] = "[net]\nchannels=3\nheight=32\nwidth=32\n"
                              "[convolutional]\nfilters=8\nsize=3\nstride=2\npad=1\nactivation=relu\n"
                              "[convolutional]\nfilters=16\nsize=3\nstride=2\npad=1\nactivation=relu\n"
                              "[connected]\noutput=10\nactivation=linear\n[softmax]\n";
  snprintf(network, sizeof network, "%s/small.cfg", folder);
  FILE *file = fopen(network, "w");
  if (!file) return -1;
  fputs(kText, file);
  return fclose(file);
}

static int setup(void **state) {
  (void)state;
  strcpy(folder, "steering-test-XXXXXX");
  registry = open_test_registry(hear, NULL);
  if (!registry || !mkdtemp(folder)) return -1;
  snprintf(database, sizeof database, "%s/profile.db", folder);
  return braid_registry_add(registry, &kSlow) == BRAID_OK ? write_network() : -1;
}

static int teardown(void **state) {
  (void)state;
  char command[128];
  braid_registry_destroy(registry);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

typedef struct training {
  braid_graph *model;
  braid_dataset *data;
  braid_trainer *trainer;
  braid_steering *steering;
  int64_t slow_after; /* steps, when left becomes slow; 0: never */
  double slow_factor;
  int64_t
      doubled_after[2]; /* steps, when left becomes twice as slow, and right `ratio` times as slow as left; 0: never */
  double ratio;
  int64_t worse_after; /* steps, when the plan becomes worse by a part of its time between two limits; 0: never */
  double worse[2];
  int *kept; /* that plan */
  size_t events_before;
  int64_t breaks_after; /* steps, when left's sensor fails; 0: never */
  int64_t accumulate;   /* batches for a step; 0: one */
  int64_t steps;
  double loss[2 * kSteps], seconds[2 * kSteps]; /* of each step */
} training;

static void begin(training *t, const char *devices, const braid_steering_options *options) {
  braid_train_options train;
  said[0] = '\0';
  slow[0].factor = 1;
  slow[1].factor = 3;
  braid_train_options_init(&train);
  train.devices = devices;
  train.registry = registry;
  train.batch = kBatch;
  train.epochs = 1;
  train.accumulate = t->accumulate ? t->accumulate : 1;
  train.seed = 3;
  ok(braid_model_load(NULL, network, &(braid_model_options){.seed = 3}, &t->model));
  ok(braid_dataset_open(NULL, "builtin:glyphs,limit=2560", "train", &t->data));
  ok(braid_trainer_create(t->model, t->data, NULL, &train, &t->trainer));
  if (options) ok(braid_steering_create(t->trainer, options, &t->steering));
}

/* One operation goes to the other device. */
static void make_worse(training *t) {
  braid_steering *s = t->steering;
  braid_forecast_summary best, now;
  braid_replacement replaced;
  ok(braid_steering_ask(s));
  ok(braid_steering_forecast(s, s->asked.devices, &best)); /* in the order in which plans are compared */
  t->events_before = braid_steering_event_count(s);
  for (size_t n = 0; n < s->graph->node_count; n++) {
    if (s->asked.devices[n] < 0) continue;
    s->asked.devices[n] = !s->asked.devices[n];
    ok(braid_steering_forecast(s, s->asked.devices, &now));
    if (now.seconds > best.seconds * (1 + t->worse[0]) && now.seconds < best.seconds * (1 + t->worse[1])) {
      s->asked.forecast = now;
      ok(braid_steering_switch(s, -1, &replaced));
      memcpy(t->kept, s->plan.devices, s->graph->node_count * sizeof *t->kept);
      return;
    }
    s->asked.devices[n] = !s->asked.devices[n];
  }
  fail_msg("no operation makes the plan worse by %g to %g", t->worse[0], t->worse[1]);
}

static bool on_step(void *context, const braid_train_progress *progress) {
  training *t = context;
  (void)progress;
  int64_t done = braid_trainer_steps_done(t->trainer);
  if (done == t->steps) return true;
  t->loss[done - 1] = t->trainer->step_loss;
  t->seconds[done - 1] = t->trainer->step_seconds;
  t->steps = done;
  for (int i = 0; i < 2; i++) __atomic_store_n(&slow[i].used, 0, __ATOMIC_RELEASE);
  if (t->slow_after && done == t->slow_after) slow[0].factor = t->slow_factor;
  for (int i = 0; i < 2; i++)
    if (t->doubled_after[i] && done == t->doubled_after[i])
      slow[0].factor *= 2, slow[1].factor = slow[0].factor * t->ratio;
  if (t->breaks_after && done == t->breaks_after) __atomic_store_n(&slow[0].broken, 1, __ATOMIC_RELEASE);
  if (t->steering) ok(braid_steering_step(t->steering));
  if (t->worse_after && done == t->worse_after) make_worse(t);
  return true;
}

static void train(training *t) {
  ok(braid_trainer_run(t->trainer, on_step, t));
  assert_int_equal(t->steps, kSteps / (t->accumulate ? t->accumulate : 1));
}

static void end(training *t) {
  braid_steering_destroy(t->steering);
  braid_trainer_destroy(t->trainer);
  braid_dataset_close(t->data);
  braid_graph_destroy(t->model);
}

static braid_steering_options measured_options(const char *policy) {
  braid_steering_options options;
  braid_steering_options_init(&options);
  options.policy = policy;
  options.measured = database;
  options.window = 4;
  return options;
}

static void expect_losses(const training *t, const training *one) {
  for (int i = 0; i < kSteps; i++)
    if (!(fabs(t->loss[i] - one->loss[i]) <= 2e-3 * (1 + fabs(one->loss[i]))))
      fail_msg("step %d: loss %.7g, on one device %.7g", i + 1, t->loss[i], one->loss[i]);
}

static double mean_seconds(const training *t, int64_t first, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += t->seconds[first - 1 + i];
  return sum / (double)count;
}

/* How many operations an event's text has on a device. */
static long count_on(const char *text, const char *device) {
  const char *at = strstr(text, device);
  assert_non_null(at);
  return strtol(at + strlen(device), NULL, 10);
}

/* --- what is learned, and a device that slows down -----------------------------------------------------------------
 */
static void test_same_loss(void **state) {
  (void)state;
  static const char *const kPolicies[] = {"hybrid-energy", "slack-energy", "cpu-only"};
  training one = {0};
  begin(&one, "cpu", NULL);
  train(&one);
  assert_true(one.loss[kSteps - 1] < one.loss[0]);
  for (size_t i = 0; i < sizeof kPolicies / sizeof *kPolicies; i++) {
    training t = {0};
    braid_steering_options options = measured_options(kPolicies[i]);
    options.alone = i == 1 ? 4 : 0;
    begin(&t, "left right", &options);
    train(&t);
    expect_losses(&t, &one);
    assert_true(braid_steering_run_count(t.steering) >= 3); /* each device alone, and the plan */
    int64_t steps = 0;
    for (size_t k = 0; k < braid_steering_run_count(t.steering); k++) {
      braid_steering_run run = braid_steering_get_run(t.steering, k);
      assert_true(run.steps == (k < 2 ? options.alone : run.steps));
      assert_true(isnan(run.joules)); /* nothing measures it: unknown, and not 0 */
      if (run.steps > 1) assert_true(run.seconds > 0);
      steps += run.steps;
    }
    assert_int_equal(steps, kSteps);
    assert_string_equal(braid_steering_get_power(t.steering).unknown, "left, right");
    end(&t);
  }
  end(&one);
}

/* The time of operations that a plan fuses is theirs together: what a forecast has for a device alone is then what they
 * take there. */
static void test_fused(void **state) {
  (void)state;
  training t = {.accumulate = 2};
  braid_steering_options options = measured_options("cpu-only");
  options.alone = 4;
  begin(&t, "left right", &options);
  train(&t);
  double seconds = 0;
  size_t fused = 0;
  for (size_t i = 0; i < braid_trainer_task_count(t.trainer); i++) {
    if (!braid_trainer_task_node(t.trainer, i, 0)) continue;
    assert_int_equal(braid_trainer_task_device(t.trainer, i), 1);
    seconds += braid_trainer_task_seconds(t.trainer, i);
    fused += braid_trainer_task_node(t.trainer, i, 1) != NULL;
  }
  assert_true(fused > 0);
  braid_steering_run run = braid_steering_get_run(t.steering, 2);
  if (!(fabs(run.planned_seconds - 2 * seconds) <= 1e-3 * seconds))
    fail_msg("a batch, half of a step, has %g s of operations, the forecast of a step %g s", seconds,
             run.planned_seconds);
  assert_int_equal(braid_steering_event_count(t.steering), 0);
  assert_int_equal(braid_steering_corrections(t.steering), 0);
  end(&t);
}

/* Left becomes twelve times slower: what it had goes to right, which takes three times as long as left did before. */
static void test_slowed(void **state) {
  (void)state;
  training one = {0}, t = {.slow_after = 26, .slow_factor = 12};
  begin(&one, "cpu", NULL);
  train(&one);
  braid_steering_options options = measured_options("heft");
  options.window = 6;
  begin(&t, "left right", &options);
  train(&t);
  expect_losses(&t, &one);
  if (braid_steering_event_count(t.steering) != 1)
    fail_msg("%zu events: %s", braid_steering_event_count(t.steering), said);
  braid_steering_event event = braid_steering_get_event(t.steering, 0);
  assert_int_equal(event.step, 31); /* looked at every third step, and five of the last six were slow */
  assert_true(event.moved > 10);
  assert_true(count_on(event.to, "left ") < count_on(event.from, "left "));
  assert_true(count_on(event.to, "right ") > count_on(event.from, "right "));
  assert_non_null(strstr(event.reason, "left: "));
  assert_non_null(strstr(said, "operations move"));
  if (!(event.recover_seconds > 0)) fail_msg("%g s to recover: %s", event.recover_seconds, said);
  assert_true(event.steps_lost >= 0);
  assert_false(event.copied); /* one memory: both plans share the parameters */
  print_message(
      "steps of %.2f ms, then of %.2f ms; %.2f ms to prepare, %.4f ms to switch, %.3f s and %.1f steps lost\n",
      mean_seconds(&t, event.step - 2, 3) * 1e3, mean_seconds(&t, kSteps - 2, 3) * 1e3, event.prepare_seconds * 1e3,
      event.switch_seconds * 1e3, event.recover_seconds, event.steps_lost);
  end(&t);
  end(&one);
}

/* First the costs become what operations take here. Then one operation moves to the other device, so that the plan
 * takes longer by a part of its time, and both devices become twice as slow, after which what is best is what it was. A
 * plan that is worse by less than what measurements vary by stays, at the costs of now; one that is worse by much
 * more, since only some of the costs are known to have changed by then, is left. */
static void test_hardly_better(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  static const double kWorse[2][2] = {{1e-3, kLeastGain * 0.7}, {0.3, 10}};
  for (int much = 0; much < 2; much++) {
    training t = {.doubled_after = {4, 26}, .ratio = much ? 3 : 1.1, .worse_after = 18};
    memcpy(t.worse, kWorse[much], sizeof t.worse);
    braid_steering_options options = measured_options("heft");
    options.window = 6;
    options.drift = 0.2;
    begin(&t, "left right", &options);
    t.kept = malloc(t.steering->graph->node_count * sizeof *t.kept);
    train(&t);
    size_t events = braid_steering_event_count(t.steering) - t.events_before;
    if (much ? !events : events) fail_msg("%zu events: %s", events, said);
    size_t bytes = t.steering->graph->node_count * sizeof *t.kept;
    assert_int_equal(memcmp(t.kept, t.steering->plan.devices, bytes) != 0, much);
    if (!much) { /* what it promises is of now, for the plan that runs */
      size_t last = braid_steering_run_count(t.steering) - 1;
      braid_forecast_summary now;
      assert_non_null(strstr(said, "another plan would gain next to nothing"));
      ok(braid_steering_forecast(t.steering, t.kept, &now));
      assert_true(fabs(braid_steering_get_run(t.steering, last).planned_seconds - now.seconds) <= 1e-9 * now.seconds);
    }
    free(t.kept);
    end(&t);
  }
}

/* A change by the last step is too late for another plan. */
static void test_slowed_at_the_end(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  training t = {.slow_after = 35, .slow_factor = 12};
  braid_steering_options options = measured_options("heft");
  options.window = 6;
  begin(&t, "left right", &options);
  train(&t);
  assert_int_equal(braid_steering_event_count(t.steering), 0);
  assert_int_equal(braid_steering_run_count(t.steering), 3);
  end(&t);
}

/* What a device was measured to be unable to run stays away from it, though it runs others of the same operation. */
static void test_unable(void **state) {
  (void)state;
  char own[96];
  training t = {0};
  snprintf(own, sizeof own, "%s/unable.db", folder);
  braid_steering_options options = measured_options("gpu-only");
  options.measured = own;
  slow[0].refuses = true;
  begin(&t, "left right", &options);
  train(&t);
  const braid_graph *graph = t.steering->graph;
  size_t convolutions = 0, refused = 0;
  for (size_t n = 0; n < graph->node_count; n++) {
    if (strcmp(graph->nodes[n].op->name, "Conv") != 0) continue;
    bool second = graph->values[graph->nodes[n].inputs[0]].desc.dims[1] == 8;
    assert_int_equal(t.steering->placed[n], second);
    convolutions++;
    refused += second;
  }
  assert_int_equal(convolutions, 2);
  assert_int_equal(refused, 1);
  assert_null(strstr(said, "has nothing for")); /* it was tried */
  slow[0].refuses = false;
  end(&t);
}

/* --- no loss -------------------------------------------------------------------------------------------------------
 */
static void run_sql(const char *path, const char *text) {
  sqlite3 *db;
  char *why = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  int code = sqlite3_exec(db, text, NULL, NULL, &why);
  if (code != SQLITE_OK) fail_msg("%s", why);
  sqlite3_close(db);
}

/* The devices wait for each other, which no operation's time shows: together they are slower than left alone. When left
 * takes twice as long later, a plan for both would lose again, and is not tried. */
static void test_slower_than_alone(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  training t = {.slow_after = 22, .slow_factor = 2};
  braid_steering_options options = measured_options("heft");
  options.alone = 5;
  slow[0].hidden = slow[1].hidden = 5e-3;
  begin(&t, "left right", &options);
  train(&t);
  slow[0].hidden = slow[1].hidden = 0;
  if (braid_steering_event_count(t.steering) != 1)
    fail_msg("%zu events: %s", braid_steering_event_count(t.steering), said);
  braid_steering_event event = braid_steering_get_event(t.steering, 0);
  assert_int_equal(event.step, 15); /* ten steps alone, one cold one, and a window */
  if (!strstr(event.reason, "heft takes") || !strstr(event.reason, "left alone")) fail_msg("%s", event.reason);
  assert_true(count_on(event.from, "right ") > 0);
  assert_int_equal(count_on(event.to, "right "), 0);
  assert_true(event.steps_lost >= 0);
  assert_int_equal(braid_steering_run_count(t.steering), 4);
  braid_steering_run together = braid_steering_get_run(t.steering, 2), last = braid_steering_get_run(t.steering, 3);
  assert_string_equal(last.what, "left, as it is faster");
  assert_int_equal(last.steps, kSteps - 15);
  assert_true(last.seconds < together.seconds);
  assert_true(braid_steering_corrections(t.steering) > 0);
  assert_non_null(strstr(said, "would lose to one device, as one did"));
  end(&t);
}

/* A profile that was interrupted has nothing for some operations of the fast device: this is said, and measured steps
 * of that device alone make up for it. */
static void test_unfinished_profile(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  char own[96], command[256];
  snprintf(own, sizeof own, "%s/unfinished.db", folder);
  snprintf(command, sizeof command, "cp %s %s", database, own);
  assert_int_equal(system(command), 0);
  run_sql(own, "DELETE FROM entries WHERE device = 'left' AND op LIKE 'Conv%'");
  for (int i = 0; i < 2; i++) {
    training t = {0};
    braid_steering_options options = measured_options("gpu-only"); /* goes by no times */
    options.measured = NULL;
    options.profile = own;
    options.alone = i ? 5 : 0;
    options.drift = 1e6;
    slow[1].factor = 3;
    begin(&t, "left right", &options);
    train(&t);
    assert_non_null(strstr(said, "unfinished.db has nothing for"));
    assert_non_null(strstr(said, "operations on left"));
    const braid_graph *graph = t.steering->graph;
    size_t left = 0;
    for (size_t n = 0; n < graph->node_count; n++)
      left += !strncmp(graph->nodes[n].op->name, "Conv", 4) && t.steering->placed[n] == 0;
    assert_int_equal(left > 0, i);
    end(&t);
  }
}

/* --- caps ----------------------------------------------------------------------------------------------------------
 */
/* As if a meter had been there when the profile was made. */
static void set_watts(void) {
  run_sql(database, "UPDATE entries SET average_watts = 50, peak_watts = 50 WHERE device = 'left';"
                    "UPDATE entries SET average_watts = 20, peak_watts = 20 WHERE device = 'right';"
                    "UPDATE devices SET idle_watts = 5");
  for (int i = 0; i < 2; i++) slow[i].idle = 5, slow[i].watts = i ? 20 : 50;
}

static void test_capped(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  set_watts();
  metered = true;
  training t = {0};
  braid_steering_options options = measured_options("hybrid-cap");
  options.measured = NULL;
  options.profile = database;
  options.cap_watts = 40;
  begin(&t, "right left", &options); /* what plans insert, which no policy places, may be on the first */
  train(&t);
  braid_steering_power power = braid_steering_get_power(t.steering);
  assert_string_equal(power.unknown, "");
  assert_true(power.any && power.samples > 5);
  assert_int_equal(power.violations, 0); /* left, with 50 W, runs nothing */
  assert_true(power.planned_violations == 0);
  assert_true(power.peak_watts == 25);
  braid_steering_run run = braid_steering_get_run(t.steering, 2);
  assert_true(run.joules > 10 * 0.9 * run.seconds && run.joules < 25 * 1.6 * run.seconds);
  assert_true(run.planned_joules > 0);
  end(&t);
  training over = {0};
  options.policy = "gpu-only"; /* keeps no cap */
  begin(&over, "left right", &options);
  train(&over);
  power = braid_steering_get_power(over.steering);
  assert_true(power.violations > 0);
  assert_true(power.planned_violations > 0);
  assert_non_null(strstr(said, "gpu-only keeps no cap"));
  end(&over);
  metered = false;
  training unknown = {0};
  options.policy = "hybrid-cap";
  begin(&unknown, "left right", &options);
  assert_non_null(strstr(said, "the power of left, right can't be read here: of all devices the cap of 40 W holds by "
                               "the profile's peaks only"));
  assert_false(braid_steering_get_power(unknown.steering).any);
  end(&unknown);
}

/* What can't be read is left out of time as of energy: it is not 0 W. */
static void test_broken_sensor(void **state) {
  (void)state;
  skip_if_slow(); /* its threads do what those of test_slowed do */
  training t = {.breaks_after = 20};
  braid_steering_options options = measured_options("cpu-only");
  metered = true;
  slow[0].idle = slow[0].watts = 5;
  slow[1].idle = slow[1].watts = 20;
  begin(&t, "left right", &options);
  train(&t);
  braid_steering_power power = braid_steering_get_power(t.steering);
  braid_power_sums sums = braid_power_sampler_read(&t.steering->sampler);
  braid_steering_run run = braid_steering_get_run(t.steering, 2);
  if (!(fabs(power.average_watts - 25) < 1e-6)) fail_msg("%g W, expected 25", power.average_watts);
  assert_true(power.peak_watts == 25);
  assert_true(sums.count == 2 && sums.seconds[0] < sums.seconds[1]);
  assert_true(fabs(power.joules - 5 * sums.seconds[0] - 20 * sums.seconds[1]) < 1e-6);
  assert_true(run.joules > 25 * 0.5 * run.seconds);
  __atomic_store_n(&slow[0].broken, 0, __ATOMIC_RELEASE);
  metered = false;
  end(&t);
}

/* --- refusals ------------------------------------------------------------------------------------------------------
 */
static void expect_refused(const braid_steering_options *options, braid_status status, const char *detail) {
  training t = {0};
  begin(&t, "left right", NULL);
  braid_status got = braid_steering_create(t.trainer, options, &t.steering);
  if (got != status || !strstr(braid_error_detail(), detail))
    fail_msg("%s: %s, expected %s", braid_status_text(got), braid_error_detail(), detail);
  assert_null(t.steering);
  end(&t);
}

static void test_refused(void **state) {
  (void)state;
  braid_steering_options options = measured_options("hybrid-energy");
  options.policy = "nonesuch";
  options.measured = "nowhere/profile.db"; /* which is not reached */
  expect_refused(&options, BRAID_NOT_FOUND, "there is no policy \"nonesuch\"");
  options = measured_options("heft");
  options.window = 1;
  expect_refused(&options, BRAID_INVALID_ARGUMENT, "a window of 2");
  options = measured_options("heft");
  options.alone = kSteps / 2;
  expect_refused(&options, BRAID_INVALID_ARGUMENT,
                 "20 steps alone on each of 2 devices are all of the 40 that are left: none remains for heft");
  options = measured_options(NULL);
  expect_refused(&options, BRAID_INVALID_ARGUMENT, "the name of a policy");
  options = measured_options("heft");
  options.measured = NULL;
  expect_refused(&options, BRAID_INVALID_ARGUMENT, "a profile, or a path");
  options.profile = "nowhere.db";
  expect_refused(&options, BRAID_NOT_FOUND, "there is no such database");
  options = measured_options("hybrid-cap");
  options.measured = NULL;
  options.profile = database;
  options.cap_watts = 8; /* less than both do when they do nothing */
  expect_refused(&options, BRAID_UNSUPPORTED, "cap");
}

/* --- medians -------------------------------------------------------------------------------------------------------
 */
static void test_drift(void **state) {
  (void)state;
  enum { kWindow = 4 };
  braid_drift_watch drift;
  const int devices[] = {0, 0, 1};
  const double planned[] = {1, 0.01, 1};
  ok(braid_drift_init(&drift, NULL, 3, kWindow));
  double seconds;
  for (int step = 0; step < 8; step++) { /* one in four is an outlier, and a small operation scatters */
    braid_drift_add(&drift, 0, step % 4 ? 1.1 : 9);
    braid_drift_add(&drift, 1, 0.05);
    braid_drift_add(&drift, 2, 1);
    braid_drift_end_step(&drift, 2);
  }
  braid_drift_find_medians(&drift);
  assert_true(drift.medians[0] == 1.1);
  assert_false(braid_drift_judge(&drift, devices, planned, 2, 0.5).drifts);
  for (int step = 0; step < 3; step++) {
    braid_drift_add(&drift, 2, 3);
    braid_drift_end_step(&drift, 4);
  }
  braid_drift_find_medians(&drift);
  braid_drift_verdict verdict = braid_drift_judge(&drift, devices, planned, 2, 0.5);
  assert_true(verdict.drifts && verdict.device == 1 && verdict.node == 2 && verdict.factor == 3);
  assert_true(verdict.was == 1 && verdict.is == 3);
  assert_int_equal(braid_drift_onset(&drift, 2, &seconds), 3);
  assert_true(seconds == 12);
  assert_true(braid_drift_lost(12, 3, 2) == 3 && braid_drift_lost(12, 3, 6) == 0); /* these had become faster */
  assert_true(isnan(braid_drift_lost(12, 3, NAN)) && isnan(braid_drift_lost(NAN, 3, 2)));
  braid_drift_deinit(&drift);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drift),
      cmocka_unit_test(test_same_loss),
      cmocka_unit_test(test_fused),
      cmocka_unit_test(test_slowed),
      cmocka_unit_test(test_hardly_better),
      cmocka_unit_test(test_slowed_at_the_end),
      cmocka_unit_test(test_unable),
      cmocka_unit_test(test_slower_than_alone),
      cmocka_unit_test(test_unfinished_profile),
      cmocka_unit_test(test_capped),
      cmocka_unit_test(test_broken_sensor),
      cmocka_unit_test(test_refused),
  };
  return skip_run_group_tests(tests, setup, teardown);
}
