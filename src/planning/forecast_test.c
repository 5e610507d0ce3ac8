/* Forecasts of policies that lack what they go by, placed by hand, and within memories. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "braid/model.h"
#include "graph/graph.h"
#include "oom.h"
#include "planning/machine.h"
#include "planning/problem.h"
#include "schedule/policy.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static braid_modelled_machine *load(const char *name) {
  braid_modelled_machine *machine;
  OK(braid_modelled_machine_load(NULL, name, &machine));
  return machine;
}

static braid_graph *step_of(const char *path, int64_t batch) {
  braid_graph *model, *step;
  OK(braid_model_load(NULL, path, NULL, &model));
  OK(braid_planning_step(model, NULL, batch, &step));
  braid_graph_destroy(model);
  return step;
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static bool is_in_file(const char *path, const char *text) {
  char line[1 << 12];
  bool found = false;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) found |= strstr(line, text) != NULL;
  assert_int_equal(fclose(file), 0);
  return found;
}

static void expect_note(const braid_graph *step, const braid_modelled_machine *machine, const char *policy, double cap,
                        const char *note) {
  braid_forecast *forecast;
  braid_forecast_options options = {.policy = policy, .cap_watts = cap};
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  if (!strstr(braid_forecast_note(forecast), note) || !*note != !*braid_forecast_note(forecast))
    fail_msg("%s: \"%s\"", policy, braid_forecast_note(forecast));
  braid_forecast_destroy(forecast);
}

/* That of a plan whose energy is known, beside offers whose energy is not. */
static void expect_bound_note(const braid_graph *step, const braid_modelled_machine *machine, bool bound,
                              const char *note) {
  braid_forecast *forecast;
  braid_forecast_options options = {.policy = "gpu-only", .bound = bound};
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  assert_true(braid_forecast_get_summary(forecast).joules > 0);
  assert_true(!*note || isnan(braid_forecast_get_summary(forecast).least_joules));
  if (strncmp(braid_forecast_note(forecast), note, strlen(note)) != 0 || !*note != !*braid_forecast_note(forecast))
    fail_msg("\"%s\"", braid_forecast_note(forecast));
  braid_forecast_destroy(forecast);
}

static void expect_placed_note(const braid_graph *step, const braid_modelled_machine *machine, const char *place) {
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "hybrid-energy", .place = place}, NULL,
                           &forecast));
  assert_string_equal(braid_forecast_note(forecast), "Placed by hand: 35 of 35 operations.");
  braid_forecast_destroy(forecast);
}

/* A policy that lacks what it goes by says so, and what it did instead. */
static void test_notes(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n"
                       "  - {name: a, class: cpu, profile: d, idle_watts: 1}\n"
                       "  - {name: b, class: fpga, profile: e}\n");
  write_file(profile, "source: s\nothers: Relu\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1}\n"
                      "  - {device: e, op: Relu, bytes: 100, ms: 1}\n"
                      "  - {device: d, op: Gemm, bytes: 100, ms: 1, average_watts: 5}\n"
                      "  - {device: e, op: Gemm, bytes: 100, ms: 1, average_watts: 5}\n");
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  expect_note(step, machine, "gpu-only", 0,
              "No device is a GPU: everything goes by the earliest end over all devices.");
  expect_note(step, machine, "cpu-only", 0, "");
  expect_note(step, machine, "heft", 0, "");
  expect_note(step, machine, "hybrid-energy", 0, "No device is a GPU: it begins with the earliest end");
  expect_note(step, machine, "hybrid-energy", 0, "operations that could be offloaded, the energy is not known both");
  expect_note(step, machine, "slack-energy", 0,
              "The idle power of b is unknown, so nothing was saved: this is what it "
              "begins with, gpu-only.");
  expect_note(step, machine, "region-clock", 0, "no clock was lowered: this is gpu-only.");
  expect_note(step, machine, "dvfs", 0, "There is no cap, so its clocks stay at the top.");
  braid_modelled_machine_destroy(machine);
  write_file(profile, "source: s\nothers: Relu\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1}\n"
                      "  - {device: e, op: Relu, bytes: 100, ms: 1}\n");
  machine = load(platform);
  expect_note(step, machine, "hybrid-energy", 0,
              "No operation's energy is known both on a device of the first one's class and on a device of another "
              "class, so none is offloaded.");
  braid_modelled_machine_destroy(machine);
  /* two GPUs whose energies are known, and a device whose are not; what is placed by hand stays for another cause */
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n"
                       "  - {name: a, class: gpu, profile: d, idle_watts: 1}\n"
                       "  - {name: c, class: gpu, profile: d, idle_watts: 1}\n"
                       "  - {name: b, class: fpga, profile: e, idle_watts: 1}\n");
  write_file(profile, "source: s\nothers: Relu\nrows:\n  - {device: e, op: Relu, bytes: 100, ms: 1}\n"
                      "  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5}\n");
  machine = load(platform);
  expect_note(step, machine, "hybrid-energy", 0,
              "No operation's energy is known both on a GPU and on a device of another class, so none is offloaded.");
  expect_placed_note(step, machine, "*=a");
  expect_bound_note(step, machine, false, "");
  expect_bound_note(step, machine, true, "The least energy is not known, since the energy of ");
  braid_modelled_machine_destroy(machine);
  machine = load("v100-s10x3");
  expect_bound_note(step, machine, true, "");
  expect_note(step, machine, "hybrid-energy", 0, "");
  expect_note(step, machine, "slack-energy", 0, "");
  expect_note(step, machine, "dvfs", 230, "");
  expect_note(step, machine, "cpu-only", 0, "No device is a CPU: everything goes by");
  expect_note(step, machine, "optimal", 0, "graphs of more than 20 operations are not searched, this has");
  braid_modelled_machine_destroy(machine);
  braid_graph_destroy(step);
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

/* A device whose idle power is unknown: its energy is, if it does nothing too, and the power of all over time; not that
 * of the device beside it. */
static void test_unknown_idle_power(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64], trace[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  snprintf(trace, sizeof trace, "%s/t.json", folder);
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n"
                       "  - {name: g, class: gpu, profile: d, idle_watts: 2}\n"
                       "  - {name: f, class: fpga, profile: d}\n");
  write_file(profile, "source: s\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5, peak_watts: 6}\n");
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  braid_forecast_device g = braid_forecast_get_device(forecast, 0), f = braid_forecast_get_device(forecast, 1);
  assert_true(g.tasks == s.tasks && f.tasks == 0 && s.seconds > 0);
  double expected = 2 * s.seconds + (5 - 2) * g.busy_seconds;
  assert_true(fabs(g.joules - expected) <= 1e-9 * expected);
  assert_true(isnan(f.joules) && isnan(s.joules) && isnan(s.idle_joules));
  for (size_t i = 0; i < braid_forecast_power_count(forecast); i++) {
    braid_forecast_power power = braid_forecast_get_power(forecast, i);
    assert_true(isnan(power.watts) && isnan(power.peak_watts));
  }
  OK(braid_forecast_save_trace(forecast, trace));
  assert_false(is_in_file(trace, "\"watts\""));
  braid_forecast_destroy(forecast);
  braid_modelled_machine_destroy(machine);
  /* without peaks the averages are still known */
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n  - {name: g, class: gpu, profile: d, idle_watts: 2}\n");
  write_file(profile, "source: s\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5}\n");
  machine = load(platform);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  braid_forecast_power power = braid_forecast_get_power(forecast, 0);
  assert_true(power.watts > 0 && isnan(power.peak_watts));
  OK(braid_forecast_save_trace(forecast, trace));
  assert_true(is_in_file(trace, "\"watts\",\"args\":{\"average\":5}") && !is_in_file(trace, "peaks"));
  braid_forecast_destroy(forecast);
  braid_modelled_machine_destroy(machine);
  braid_graph_destroy(step);
  (void)remove(platform), (void)remove(profile), (void)remove(trace), (void)remove(folder);
}

/* dvfs measures over many short steps, and a forecast is of one behind them: its power is the cap's, or its clock the
 * lowest. */
static void test_steps_repeat(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100");
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 64);
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs", .cap_watts = 60}, NULL,
                           &forecast));
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  assert_true(s.seconds < 0.02 && s.average_watts > 60); /* more than the cap even at the lowest clock */
  for (size_t i = 0; i < s.tasks; i++) assert_true(braid_forecast_get_task(forecast, i).mhz == 1110);
  braid_forecast_destroy(forecast);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs", .cap_watts = 200}, NULL,
                           &forecast));
  s = braid_forecast_get_summary(forecast);
  for (size_t i = 0; i < s.tasks; i++) assert_true(braid_forecast_get_task(forecast, i).mhz == 1530);
  braid_forecast_destroy(forecast);
  braid_graph_destroy(step);
  step = step_of(BRAID_MODELS "/vgg16.cfg", 8);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs", .cap_watts = 160}, NULL,
                           &forecast));
  assert_non_null(strstr(braid_forecast_note(forecast), "Its clocks do not settle"));
  braid_forecast_destroy(forecast);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

static bool is_near(double a, double b) {
  return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Where dvfs's steps differ, a forecast's numbers are their means and the largest peak, not those of the step that it
 * shows; `short_steps`: of which several that are alike are counted at once. */
static void expect_means(const char *model, int64_t batch, double cap, bool short_steps) {
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_graph *step = step_of(model, batch);
  braid_modelled_problem modelled;
  braid_choices choices;
  braid_arena *arena;
  braid_forecast *forecast;
  OK(braid_arena_create(NULL, &arena));
  OK(braid_modelled_problem_make(step, machine, cap, 1, arena, &modelled));
  OK(braid_problem_solve(&braid_policy_dvfs, &modelled.problem, NULL, arena, &choices));
  const braid_mean_run *mean = &choices.mean;
  braid_forecast_options options = {.policy = "dvfs", .cap_watts = cap};
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  assert_true(mean->runs > 0 && mean->longest > mean->shortest && (mean->runs > 400) == short_steps);
  assert_true(s.shown_seconds == choices.seconds.value);
  assert_true(is_near(s.seconds, mean->seconds) && is_near(s.joules, mean->joules));
  assert_true(is_near(s.idle_joules, mean->idle_joules) && is_near(s.average_watts, mean->joules / mean->seconds));
  assert_true(is_near(s.peak_watts, mean->peak_watts) && is_near(s.cap_violations, mean->violations));
  assert_true(is_near(s.seconds_above, mean->seconds_above));
  double boards = 0, all = 0;
  for (size_t d = 0; d < braid_forecast_device_count(forecast); d++) {
    assert_true(is_near(braid_forecast_get_device(forecast, d).joules, mean->device_joules[d]));
    if (modelled.problem.devices[d].class == BRAID_CLASS_FPGA) boards += modelled.problem.devices[d].idle_watts.value;
    all += modelled.problem.devices[d].idle_watts.value;
  }
  assert_true(s.idle_joules >= boards * s.seconds * (1 - 1e-9) && s.idle_joules <= all * s.seconds);
  braid_forecast_destroy(forecast);
  braid_arena_destroy(arena);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

static void test_means(void **state) {
  (void)state;
  expect_means(BRAID_MODELS "/vgg16.cfg", 8, 160, false);
  expect_means(BRAID_MODELS "/vgg-tile.cfg", 1, 170, true);
}

/* Nodes are placed by a list or by numbers: both at once are refused. What the search finds costs less, and takes no
 * longer, than the GPU alone. */
static void test_search(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_graph *step = step_of(BRAID_MODELS "/alexnet.cfg", 8);
  braid_forecast *forecast, *alone, *again;
  int devices[1000] = {0}; /* of more nodes than there are */
  braid_forecast_options both = {.policy = "heft", .place = "*=v100", .devices = devices};
  assert_int_equal(braid_forecast_create(step, machine, &both, NULL, &forecast), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "one of both is expected"));
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &alone));
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "slack-energy"}, NULL, &forecast));
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "slack-energy"}, NULL, &again));
  braid_forecast_summary summary = braid_forecast_get_summary(forecast), second = braid_forecast_get_summary(again);
  assert_true(second.joules == summary.joules && second.seconds == summary.seconds); /* wherever memory lies */
  braid_forecast_destroy(again);
  assert_true(summary.joules < braid_forecast_get_summary(alone).joules);
  assert_true(summary.seconds <= braid_forecast_get_summary(alone).seconds * (1 + 1e-9));
  braid_forecast_destroy(forecast);
  braid_forecast_destroy(alone);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

/* What slack-energy costs less than hybrid-energy, as a part of that. */
static double least_slack(const char *model, const char *platform, int64_t batch) {
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(model, batch);
  braid_forecast *slack, *hybrid;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "slack-energy"}, NULL, &slack));
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "hybrid-energy"}, NULL, &hybrid));
  double less = 1 - braid_forecast_get_summary(slack).joules / braid_forecast_get_summary(hybrid).joules;
  braid_forecast_destroy(slack);
  braid_forecast_destroy(hybrid);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
  return less;
}

/* Where whole chains gain together the search finds them: 24.3 % on average of these steps; without its thresholds it
 * would be 23.1 %. */
static void test_chains(void **state) {
  (void)state;
  double less = least_slack(BRAID_MODELS "/alexnet.cfg", "v100-s10x3", 8) +
                least_slack(BRAID_MODELS "/vgg16.cfg", "v100-s10x3", 8) +
                least_slack(BRAID_MODELS "/alexnet.cfg", "v100-s10x4", 8) +
                least_slack(BRAID_MODELS "/vgg16.cfg", "v100-s10x4", 32);
  assert_true(less / 4 > 0.235);
}

/* What draws nobody knows how much is not held to a cap, and the note says so. */
static void test_unmeasured_caps(void **state) {
  (void)state;
  static const struct {
    const char *row, *idle, *own; /* of the GPU's profile; of the other device; the GPU's cap */
    double cap;                   /* of the machine; 0: none */
    bool slowed;
    const char *note;
  } cases[] = {
      {"", "idle_watts: 30", "", 10, false, "No power is measured that has a cap, so its clocks stay at the top."},
      {", average_watts: 100, peak_watts: 100", "idle_watts: 30", "", 90, true, ""},
      {", average_watts: 100, peak_watts: 100", "", "", 90, false,
       "No power is measured that has a cap, so its clocks stay at the top."},
      {", average_watts: 100, peak_watts: 100", "", ", cap_watts: 90", 0, true, ""},
      {", average_watts: 100, peak_watts: 100", "", ", cap_watts: 90", 50, true,
       "The power of the machine is not measured, so its cap changes no clock."},
  };
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64], text[512];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(text, sizeof text,
             "source: s\nothers: Relu\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1%s}\n"
             "  - {device: slow, op: Relu, bytes: 100, ms: 9, average_watts: 100, peak_watts: 100}\n",
             cases[i].row);
    write_file(profile, text);
    snprintf(text, sizeof text,
             "name: m\nprofile: p.yaml\ndevices:\n"
             "  - {name: g, class: gpu, profile: d, idle_watts: 20%s, clocks: [{mhz: 1000, seconds: 1, watts: 1}, "
             "{mhz: 500, seconds: 1.5, watts: 0.9}]}\n"
             "  - {name: f, class: fpga, profile: slow%s%s}\n",
             cases[i].own, *cases[i].idle ? ", " : "", cases[i].idle);
    write_file(platform, text);
    braid_modelled_machine *machine = load(platform);
    braid_forecast *forecast;
    OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs", .cap_watts = cases[i].cap},
                             NULL, &forecast));
    assert_string_equal(braid_forecast_note(forecast), cases[i].note);
    size_t tasks = braid_forecast_get_summary(forecast).tasks;
    for (size_t t = 0; t < tasks; t++)
      if ((braid_forecast_get_task(forecast, t).mhz == 500) != cases[i].slowed) fail_msg("case %zu, task %zu", i, t);
    braid_forecast_destroy(forecast);
    braid_modelled_machine_destroy(machine);
  }
  braid_graph_destroy(step);
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

/* The cap of a GPU slows its clock as the machine's does, by what that GPU draws; that of another device does not, and
 * the note says so. */
static void test_device_caps_govern(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(profile, "source: s\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 100, peak_watts: 100}\n"
                      "  - {device: slow, op: Relu, bytes: 100, ms: 9, average_watts: 100, peak_watts: 100}\n");
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  static const struct {
    double cap, board; /* of the GPU, of the other device; 0: none */
    double mhz;
    const char *note;
  } cases[] = {
      {0, 0, 1000, "There is no cap, so its clocks stay at the top."},
      {0, 90, 1000, "Only devices that are no GPUs have a cap, so its clocks stay at the top."},
      {90, 0, 500, ""},
      {110, 50, 1000, ""}, /* the GPU draws 100 W, and the machine 130 W */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512], own[2][32] = {"", ""};
    if (cases[i].cap > 0) snprintf(own[0], sizeof own[0], ", cap_watts: %g", cases[i].cap);
    if (cases[i].board > 0) snprintf(own[1], sizeof own[1], ", cap_watts: %g", cases[i].board);
    snprintf(text, sizeof text,
             "name: m\nprofile: p.yaml\ndevices:\n"
             "  - {name: g, class: gpu, profile: d, idle_watts: 20%s, clocks: [{mhz: 1000, seconds: 1, watts: 1}, "
             "{mhz: 500, seconds: 1.5, watts: 0.9}]}\n"
             "  - {name: f, class: fpga, profile: slow, idle_watts: 30%s}\n",
             own[0], own[1]);
    write_file(platform, text);
    braid_modelled_machine *machine = load(platform);
    braid_forecast *forecast;
    OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "dvfs"}, NULL, &forecast));
    assert_string_equal(braid_forecast_note(forecast), cases[i].note);
    size_t tasks = braid_forecast_get_summary(forecast).tasks;
    for (size_t t = 0; t < tasks; t++)
      if (braid_forecast_get_task(forecast, t).mhz != cases[i].mhz) fail_msg("case %zu, task %zu", i, t);
    braid_forecast_destroy(forecast);
    braid_modelled_machine_destroy(machine);
  }
  braid_graph_destroy(step);
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

/* Places by a list: all policies keep them, and what they do not name is the policy's. */
static void test_place(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  static const char *const kPolicies[] = {"manual", "heft", "gpu-only", "hybrid-energy", "slack-energy"};
  for (size_t p = 0; p < sizeof kPolicies / sizeof *kPolicies; p++) {
    braid_forecast *forecast;
    braid_forecast_options options = {.policy = kPolicies[p], .place = "'*Conv'=fpga1, *Gemm=2"};
    OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
    size_t placed = 0, tasks = braid_forecast_get_summary(forecast).tasks;
    for (size_t i = 0; i < tasks; i++) {
      braid_forecast_task task = braid_forecast_get_task(forecast, i);
      bool conv = braid_text_fits("*Conv", task.node), gemm = braid_text_fits("*Gemm", task.node);
      if (conv || gemm) assert_string_equal(task.device, "fpga1"); /* number 2 */
      if (!conv && !gemm && p == 0) assert_string_equal(task.device, "gpu");
      placed += conv || gemm;
    }
    char said[128];
    snprintf(said, sizeof said, "Placed by hand: %zu of %zu operations; the policy places the others: ", placed, tasks);
    assert_true(placed > 2 && placed < tasks);
    assert_non_null(strstr(braid_forecast_note(forecast), said));
    braid_forecast_destroy(forecast);
  }
  static const struct {
    const char *place, *said;
    braid_status status;
  } cases[] = {
      {"*Conv=fpga9", "fpga9 is not among the platform's devices; these are gpu, fpga0, fpga1, fpga2", BRAID_NOT_FOUND},
      {"*Conf=gpu", "place: no node matches \"*Conf\"; the first are 0_conv", BRAID_NOT_FOUND},
      {"auto", "in a forecast the policy places", BRAID_INVALID_ARGUMENT},
      {"gpu", "expected pattern=device", BRAID_INVALID_ARGUMENT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_forecast *forecast;
    braid_forecast_options options = {.policy = "manual", .place = cases[i].place};
    assert_int_equal(braid_forecast_create(step, machine, &options, NULL, &forecast), cases[i].status);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s", braid_error_detail());
  }
  braid_modelled_machine *pair = load("v100x2");
  braid_forecast *forecast;
  braid_forecast_options other = {.policy = "manual", .place = "0/*Conv=gpu1", .replicas = 2};
  assert_int_equal(braid_forecast_create(step, pair, &other, NULL, &forecast), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "node 0/0_convolutional/Conv can't run on gpu1"));
  assert_non_null(strstr(braid_error_detail(), "gpu0 can run it"));
  other.place = "0/*Conv=gpu0,1/*Conv=gpu1";
  OK(braid_forecast_create(step, pair, &other, NULL, &forecast));
  braid_forecast_destroy(forecast);
  braid_modelled_machine_destroy(pair);
  expect_note(step, machine, "manual", 0, "Nothing is placed by hand");
  braid_modelled_machine_destroy(machine);
  braid_graph_destroy(step);
}

static braid_forecast_device device_of(const braid_graph *step, const char *platform, const char *policy, size_t index,
                                       size_t *tasks) {
  braid_modelled_machine *machine = load(platform);
  braid_forecast *forecast;
  braid_forecast_options options = {.policy = policy};
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  braid_forecast_device device = braid_forecast_get_device(forecast, index);
  *tasks = device.tasks;
  braid_forecast_destroy(forecast);
  braid_modelled_machine_destroy(machine);
  return device; /* without its name */
}

/* Parameters and states once, what replaces them not at all, and of the rest what is there at once. */
static void check_sums(const braid_graph *step, double peak) {
  double kept = 0, results = 0, replaced = 0, gradients = 0;
  for (size_t v = 0; v < step->value_count; v++) {
    const braid_value *value = &step->values[v];
    double bytes = (double)braid_desc_bytes(&value->desc);
    if (value->kind == BRAID_VALUE_RESULT || value->kind == BRAID_VALUE_INPUT) results += bytes;
    if (value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE) kept += bytes;
    if (value->kind == BRAID_VALUE_PARAMETER && value->next >= 0) gradients = fmax(gradients, bytes);
    if ((value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE) && value->next >= 0)
      replaced += bytes;
  }
  assert_true(replaced > 0 && gradients > 0);
  assert_true(peak >= kept + gradients);
  assert_true(peak < kept + results - replaced);
}

/* What a step holds: without a limit on the GPU, within one partly elsewhere, and refused where there is nothing else.
 */
static void test_memory(void **state) {
  (void)state;
  static const char *const kPolicies[] = {"gpu-only", "heft", "hybrid-energy", "region-clock", "slack-energy"};
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64], text[512];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(profile, "source: s\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 1000, ms: 1, average_watts: 50, peak_watts: 60}\n"
                      "  - {device: e, op: Relu, bytes: 1000, ms: 9, average_watts: 20, peak_watts: 30}\n");
  static const char kGpu[] = "name: m\nprofile: p.yaml\ndevices:\n"
                             "  - {name: gpu, class: gpu, profile: d, idle_watts: 1, memory_gigabytes: %.9f,\n"
                             "     link: {latency_ms: 0.1, gigabytes_per_second: 10}}\n%s";
  static const char kCpu[] = "  - {name: cpu, class: cpu, profile: e, idle_watts: 1}\n";
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 64);
  size_t tasks;
  snprintf(text, sizeof text, kGpu, 1.0, kCpu);
  write_file(platform, text);
  braid_forecast_device all = device_of(step, platform, "gpu-only", 0, &tasks);
  assert_true(all.memory_bytes == 1e9 && all.peak_memory_seconds >= 0);
  check_sums(step, all.peak_memory_bytes);
  size_t whole = tasks;
  snprintf(text, sizeof text, kGpu, all.peak_memory_bytes * 0.7e-9, kCpu);
  write_file(platform, text);
  for (size_t p = 0; p < sizeof kPolicies / sizeof *kPolicies; p++) {
    braid_forecast_device some = device_of(step, platform, kPolicies[p], 0, &tasks);
    assert_true(tasks < whole && some.peak_memory_bytes <= some.memory_bytes);
    assert_true(fabs(some.memory_bytes - 0.7 * all.peak_memory_bytes) < 2);
  }
  braid_forecast_device host = device_of(step, platform, "gpu-only", 1, &tasks);
  assert_true(tasks > 0 && isnan(host.memory_bytes) && host.peak_memory_bytes > 0);
  snprintf(text, sizeof text, kGpu, all.peak_memory_bytes * 0.7e-9, "");
  write_file(platform, text);
  braid_modelled_machine *machine = load(platform);
  braid_forecast *forecast;
  braid_forecast_options options = {.policy = "heft"};
  assert_int_equal(braid_forecast_create(step, machine, &options, NULL, &forecast), BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), "no plan was found that fits into the memories: gpu would hold "))
    fail_msg("%s", braid_error_detail());
  braid_modelled_machine_destroy(machine);
  braid_graph_destroy(step);
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

/* The exchange has no memory of its own; each GPU has the whole of its replica. */
static void test_replicas_memory(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100x2"), *one = load("v100");
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 32);
  braid_forecast *pair, *single;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only", .replicas = 2}, NULL, &pair));
  OK(braid_forecast_create(step, one, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &single));
  double alone = braid_forecast_get_device(single, 0).peak_memory_bytes;
  double first = braid_forecast_get_device(pair, 0).peak_memory_bytes;
  assert_true(alone > 0 && first >= alone && first < 2 * alone); /* and its sums of gradients */
  assert_true(braid_forecast_get_device(pair, 1).peak_memory_bytes == first);
  assert_string_equal(braid_forecast_get_device(pair, 2).name, "exchange");
  assert_true(isnan(braid_forecast_get_device(pair, 2).peak_memory_bytes));
  braid_forecast_destroy(pair);
  braid_forecast_destroy(single);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
  braid_modelled_machine_destroy(one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_notes),
      cmocka_unit_test(test_place),
      cmocka_unit_test(test_unknown_idle_power),
      cmocka_unit_test(test_steps_repeat),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_replicas_memory),
      cmocka_unit_test(test_device_caps_govern),
      cmocka_unit_test(test_unmeasured_caps),
      cmocka_unit_test(test_means),
      cmocka_unit_test(test_search),
      cmocka_unit_test(test_chains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
