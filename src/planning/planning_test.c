/* What platforms and profiles say, and forecasts on them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "braid/model.h"
#include "braid/session.h"
#include "oom.h"
#include "planning/machine.h"
#include "planning/problem.h"

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

/* Hype-training, Table 1: at the bytes of a row, the row comes out; between rows, something between them. */
static void test_published(void **state) {
  (void)state;
  static const struct {
    const char *device, *op, *size;
    int64_t devices;
    double ms, average, peak;
  } rows[] = {{"v100", "MatMul", "small", 1, 1.720, 206, 214},
              {"v100", "Conv2D", "large", 1, 4.088, 292, 296},
              {"stratix10", "MatMul", "large", 3, 7.932, 75, 75},
              {"stratix10", "BiasAddGrad", "medium", 1, 1.413, 78, 78},
              {"stratix10", "Transpose", "medium", 1, 0.080, 13, 13}};
  braid_modelled_machine *machine = load("v100-s10x3");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool found = false;
    for (unsigned k = 0; k < machine->profile->rows_count; k++) {
      const braid_profile_row *row = &machine->profile->rows[k];
      if (strcmp(row->device, rows[i].device) || strcmp(row->op, rows[i].op) || strcmp(row->size, rows[i].size))
        continue;
      braid_profile_row at;
      assert_true(braid_profile_at(machine->profile, row->device, row->devices, row->op, row->bytes, &at));
      assert_int_equal(row->devices, rows[i].devices);
      assert_true(fabs(at.ms - rows[i].ms) < 1e-9 && at.average_watts == rows[i].average &&
                  at.peak_watts == rows[i].peak);
      found = true;
    }
    assert_true(found);
  }
  braid_profile_row small, between, medium, beyond;
  assert_true(braid_profile_at(machine->profile, "v100", 1, "MatMul", 38.35e9 * 1.72e-3, &small));
  assert_true(braid_profile_at(machine->profile, "v100", 1, "MatMul", 100e6, &between));
  assert_true(braid_profile_at(machine->profile, "v100", 1, "MatMul", 48.05e9 * 4.137e-3, &medium));
  assert_true(between.ms > small.ms && between.ms < medium.ms && between.peak_watts > 214 && between.peak_watts < 274);
  assert_true(braid_profile_at(machine->profile, "v100", 1, "MatMul", 57.72e9 * 7.144e-3 * 2, &beyond));
  assert_true(fabs(beyond.ms - 2 * 7.144) < 0.01 && beyond.peak_watts == 302);
  assert_false(braid_profile_at(machine->profile, "v100", 2, "MatMul", 1e6, &beyond));
  assert_string_equal(braid_profile_like(machine->profile, NULL, "ConvGradFilter"), "Conv2DBackpropFilter");
  assert_string_equal(braid_profile_like(machine->profile, NULL, "Relu"), "Mul");
  braid_modelled_machine_destroy(machine);
}

/* By hand: MatMul's times are equal at 59.3 % of the way from the medium to the large row, Conv2D's at 65.5 %. */
static void test_thresholds(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_modelled_thresholds most = braid_modelled_machine_thresholds(machine);
  double matmul = log(4.137 / 3.551) / (log(7.932 / 7.144) - log(3.551 / 4.137));
  double conv = log(2.344 / 1.825) / (log(4.663 / 4.088) - log(1.825 / 2.344));
  assert_true(fabs(most.gigabytes_per_second - (60.31 + conv * (71.93 - 60.31))) < 0.01);
  assert_true(fabs(most.instructions_per_cycle - (5.549 + matmul * (5.764 - 5.549))) < 0.001);
  braid_modelled_machine_destroy(machine);
  machine = load("v100-s10x1"); /* one board is never faster: nothing is a candidate */
  most = braid_modelled_machine_thresholds(machine);
  assert_true(most.gigabytes_per_second == 0 && most.instructions_per_cycle == 0);
  braid_modelled_machine_destroy(machine);
  machine = load("v100");
  assert_true(isnan(braid_modelled_machine_thresholds(machine).gigabytes_per_second));
  braid_modelled_machine_destroy(machine);
}

/* Between a row with a number and one without it, the number is unknown; rows come before likenesses. */
static void test_between(void **state) {
  (void)state;
  static const char text[] = "source: s\nlikenesses:\n  - {op: Relu, as: Exp}\nrows:\n"
                             "  - {device: d, op: Relu, bytes: 1e3, ms: 1, average_watts: 50, peak_watts: 60}\n"
                             "  - {device: d, op: Relu, bytes: 9e6, ms: 1, average_watts: 300}\n"
                             "  - {device: d, op: Exp, bytes: 1e3, ms: 7}\n";
  braid_profile *profile;
  braid_profile_row row;
  OK(braid_profile_parse("p.yaml", text, strlen(text), &profile));
  assert_string_equal(braid_profile_like(profile, NULL, "Relu"), "Relu");
  assert_true(braid_profile_at(profile, "d", 1, "Relu", 1e5, &row));
  assert_true(isnan(row.peak_watts) && row.average_watts > 50 && row.average_watts < 300 && row.ms == 1);
  assert_true(braid_profile_at(profile, "d", 1, "Relu", 1e3, &row) && row.peak_watts == 60);
  braid_profile_free(profile);
}

#define PROFILE "source: s\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5, peak_watts: 6}\n"
#define HEAD "name: m\nprofile: p\ndevices:\n  - name: a\n    class: gpu\n    profile: d\n"
#define DEVICE "  - {name: a, class: gpu, profile: d, idle_watts: 1}\n"

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* A shared link has one bus each way for all devices of its kind; what does not fit into a memory is not offered there.
 */
static void test_links_and_memory(void **state) {
  (void)state;
  static const char kDevices[] =
      "name: m\nprofile: p.yaml\ndevices:\n"
      "  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 3, memory_gigabytes: %s,\n"
      "     link: {latency_ms: 1, gigabytes_per_second: 1, shared: %s}}\n"
      "  - {name: b, class: cpu, profile: d, idle_watts: 1}\n";
  static const char kRows[] = "source: s\nothers: Relu\nrows:\n"
                              "  - {device: d, op: Relu, bytes: 1e3, ms: 1, average_watts: 5, peak_watts: 6}\n";
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64], text[512];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(profile, kRows);
  for (int shared = 0; shared < 2; shared++)
    for (int small = 0; small < 2; small++) {
      braid_graph *graph;
      braid_modelled_machine *machine;
      braid_modelled_problem problem;
      braid_arena *arena;
      snprintf(text, sizeof text, kDevices, small ? "1e-6" : "16", shared ? "true" : "false");
      write_file(platform, text);
      OK(braid_modelled_machine_load(NULL, platform, &machine));
      graph = step_of(BRAID_MODELS "/lenet.cfg", 4);
      OK(braid_arena_create(NULL, &arena));
      OK(braid_modelled_problem_make(graph, machine, 0, 1, arena, &problem));
      const braid_problem_space *spaces = problem.problem.spaces;
      assert_int_equal(problem.problem.space_count, 4);
      for (int s = 2; s < 4; s++) {
        assert_int_equal(spaces[s].in_bus == spaces[1].in_bus, shared);
        assert_int_equal(spaces[s].out_bus == spaces[1].out_bus, shared);
      }
      size_t there = 0;
      for (size_t i = 0; i < problem.problem.offer_count; i++) there += problem.problem.offers[i].device < 3;
      assert_int_equal(small ? there < problem.problem.offer_count / 2 : there == problem.problem.offer_count / 4 * 3,
                       1);
      braid_arena_destroy(arena);
      braid_graph_destroy(graph);
      braid_modelled_machine_destroy(machine);
    }
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

static char *saved_page(const braid_forecast *forecast) {
  char path[] = "/tmp/braid-planning-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  OK(braid_forecast_save_html(forecast, "t", path));
  braid_file_view view;
  OK(braid_file_open(NULL, path, 0, &view));
  char *text = calloc(view.bytes + 1, 1);
  assert_non_null(text);
  memcpy(text, view.data, view.bytes);
  braid_file_close(&view);
  (void)remove(path);
  return text;
}

/* Nodes on devices by hand: all on the GPU is gpu-only; one elsewhere is there. */
static void test_by_hand(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 64);
  braid_forecast *forecast;
  int *devices = calloc(step->node_count, sizeof *devices);
  assert_non_null(devices);
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  double alone = braid_forecast_get_summary(forecast).seconds;
  braid_forecast_destroy(forecast);
  braid_forecast_options options = {.policy = "manual", .devices = devices};
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  assert_true(braid_forecast_get_summary(forecast).seconds == alone);
  braid_forecast_task task = braid_forecast_get_task(forecast, 3);
  char name[128];
  snprintf(name, sizeof name, "%s", task.node);
  braid_forecast_destroy(forecast);
  for (size_t n = 0; n < step->node_count; n++)
    if (strcmp(step->nodes[n].name, name) == 0) devices[n] = 2;
  OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
  size_t there = 0;
  for (size_t i = 0; i < braid_forecast_get_summary(forecast).tasks; i++) {
    task = braid_forecast_get_task(forecast, i);
    there += task.device_index == 2 && strcmp(task.node, name) == 0;
    assert_true(task.device_index == 0 || task.device_index == 2);
  }
  assert_int_equal(there, 1);
  braid_forecast_destroy(forecast);
  devices[0] = 4;
  assert_int_equal(braid_forecast_create(step, machine, &options, NULL, &forecast), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "there is no device 4"));
  free(devices);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

/* A cap of a device counts without one of the machine. */
static void test_device_cap(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n"
                       "  - {name: a, class: gpu, profile: d, idle_watts: 1, cap_watts: 5.5}\n");
  write_file(profile, "source: s\nothers: Relu\nrows:\n"
                      "  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5, peak_watts: 6}\n");
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  assert_true(s.capped && !s.cap_unknown && isnan(s.cap_watts));
  assert_true(s.cap_violations == (double)s.tasks && s.seconds_above > 0.9 * s.seconds);
  braid_forecast_destroy(forecast);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
  (void)remove(platform), (void)remove(profile), (void)remove(folder);
}

/* What the GPU runs after all was not brought to a board. */
static void test_moves_what_runs(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  braid_graph *step = step_of(BRAID_MODELS "/alexnet-branches.cfg", 256);
  double moved[2];
  for (int i = 0; i < 2; i++) {
    braid_forecast *forecast;
    size_t elsewhere = 0;
    OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = i ? "hybrid-energy" : "gpu-only"}, NULL,
                             &forecast));
    moved[i] = braid_forecast_get_summary(forecast).moving_seconds;
    for (size_t k = 0; k < braid_forecast_get_summary(forecast).tasks; k++)
      elsewhere += braid_forecast_get_task(forecast, k).device_index > 0;
    assert_int_equal(elsewhere, 0);
    braid_forecast_destroy(forecast);
  }
  assert_true(moved[0] > 0 && fabs(moved[1] - moved[0]) <= 1e-9 * moved[0]);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
}

/* The profile is beside the platform; powers that it leaves out are unknown, and stay so. */
static void test_unknown(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n" DEVICE);
  write_file(profile, "source: s\nothers: Relu\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1}\n");
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 4);
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  braid_forecast_summary s = braid_forecast_get_summary(forecast);
  assert_true(s.seconds > 0 && isnan(s.joules) && isnan(s.peak_watts) && isnan(s.average_watts) && isnan(s.cap_watts));
  assert_true(isnan(braid_forecast_get_device(forecast, 0).joules));
  size_t steps = braid_forecast_power_count(forecast);
  assert_true(steps > 1 && isnan(braid_forecast_get_power(forecast, steps - 1).watts));
  assert_true(!s.capped && !s.cap_unknown);
  char *page = saved_page(forecast);
  assert_non_null(strstr(page, "peak unknown"));
  assert_non_null(strstr(page, "Relu"));
  assert_null(strstr(page, "nan"));
  free(page);
  braid_forecast_destroy(forecast);
  /* a cap that a plan may keep or not */
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only", .cap_watts = 1}, NULL,
                           &forecast));
  s = braid_forecast_get_summary(forecast);
  assert_true(s.capped && s.cap_unknown && isnan(s.cap_violations) && isnan(s.seconds_above));
  assert_string_equal(braid_forecast_note(forecast), "");
  braid_forecast_destroy(forecast);
  braid_forecast_options capped = {.policy = "hybrid-cap", .cap_watts = 1000};
  assert_int_equal(braid_forecast_create(step, machine, &capped, NULL, &forecast), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "under the power cap"));
  braid_modelled_machine_destroy(machine);
  write_file(profile, PROFILE);
  machine = load(platform);
  assert_int_equal(
      braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast),
      BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "the profile has no rows for Conv"));
  braid_modelled_machine_destroy(machine);
  write_file(platform, "name: m\nprofile: p.yaml\ndevices:\n  - {name: c, class: cpu, profile: d}\n"
                       "  - {name: a, class: gpu, profile: e, idle_watts: 1}\n");
  assert_int_equal(braid_modelled_machine_load(NULL, platform, &machine), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "m.yaml, line 5: device a: the profile p.yaml has no rows of \"e\""));
  unlink(profile);
  assert_int_equal(braid_modelled_machine_load(NULL, platform, &machine), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "m.yaml, line 2: its profile: "));
  assert_non_null(strstr(braid_error_detail(), "p.yaml: cannot open"));
  unlink(platform);
  rmdir(folder);
  assert_int_equal(braid_modelled_machine_load(NULL, "v1000", &machine), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "v100-s10x3"));
  braid_graph_destroy(step);
}

/* A node that reads a value twice moves it once: its time is that of two tensors, not of three. */
static void test_bytes(void **state) {
  (void)state;
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y;
  braid_node_id node;
  braid_profile_row row;
  braid_forecast *forecast;
  braid_modelled_machine *machine = load("v100");
  OK(braid_graph_create(NULL, "g", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (const int64_t[]){1000, 1000}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  OK(braid_graph_add_node(graph, "Mul", "m", (braid_value_id[]){x, x}, 2, &y, 1, &node));
  OK(braid_graph_add_output(graph, y));
  OK(braid_resolve(graph));
  OK(braid_forecast_create(graph, machine, &(braid_forecast_options){.policy = "gpu-only"}, NULL, &forecast));
  braid_forecast_task task = braid_forecast_get_task(forecast, 0);
  assert_true(braid_profile_at(machine->profile, "v100", 1, "Mul", 8e6, &row));
  assert_true(fabs((task.end - task.start) * 1e3 - row.ms) < 1e-9);
  braid_forecast_destroy(forecast);
  braid_graph_destroy(graph);
  braid_modelled_machine_destroy(machine);
}

/* Of a device's ways to run an operation the fastest comes first, alone or with others; a page shows names as they
 * are. */
static void test_groups(void **state) {
  (void)state;
  char folder[] = "/tmp/braid-planning-XXXXXX", platform[64], profile[64], page[64];
  assert_non_null(mkdtemp(folder));
  snprintf(platform, sizeof platform, "%s/m.yaml", folder);
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  snprintf(page, sizeof page, "%s/page.html", folder);
  write_file(platform,
             "name: m\nprofile: p.yaml\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 6}\n");
  char rows[1024] = "source: s\nothers: <b>\nrows:\n";
  for (int k = 1; k <= 6; k++) /* 4 together are the fastest */
    snprintf(rows + strlen(rows), sizeof rows - strlen(rows),
             "  - {device: d, op: <b>, bytes: 100, ms: %d, devices: %d, average_watts: 9, peak_watts: 9}\n",
             k < 5 ? 50 - 10 * k : 60, k);
  write_file(profile, rows);
  braid_modelled_machine *machine = load(platform);
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 1);
  braid_forecast *forecast;
  OK(braid_forecast_create(step, machine, &(braid_forecast_options){.policy = "first"}, NULL, &forecast));
  assert_int_equal(braid_forecast_get_task(forecast, 0).devices, 4);
  assert_int_equal(braid_forecast_offer_count(forecast, 0), 6 + 3 + 2 + 1 + 1 + 1);
  OK(braid_forecast_save_html(forecast, "t", page));
  char text[8192] = "";
  FILE *file = fopen(page, "r");
  assert_non_null(file);
  assert_true(fread(text, 1, sizeof text - 1, file) > 100);
  fclose(file);
  assert_null(strstr(text, "<b>"));
  assert_non_null(strstr(text, "&lt;b&gt;"));
  braid_forecast_destroy(forecast);
  braid_graph_destroy(step);
  braid_modelled_machine_destroy(machine);
  unlink(platform), unlink(profile), unlink(page);
  rmdir(folder);
}

/* Whatever the policy: every operation once, energy of devices and tasks adds up, no loss of hybrid-energy, caps hold,
 * and the same inputs give the same plan. */
static void test_forecasts(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100-s10x3");
  static const char *const kModels[] = {BRAID_MODELS "/lenet.cfg", BRAID_MODELS "/alexnet-branches.cfg",
                                        BRAID_MODELS "/resnet20.cfg"};
  for (size_t m = 0; m < 3; m++) {
    braid_graph *step = step_of(kModels[m], 64);
    double baseline = 0;
    for (size_t i = 0; i < braid_planning_policy_count(); i++) {
      const char *policy = braid_planning_policy_name(i);
      braid_forecast_options options = {.policy = policy, .cap_watts = strcmp(policy, "hybrid-cap") ? 0 : 230};
      braid_forecast *forecast, *again;
      OK(braid_forecast_create(step, machine, &options, NULL, &forecast));
      OK(braid_forecast_create(step, machine, &options, NULL, &again));
      braid_forecast_summary s = braid_forecast_get_summary(forecast);
      double joules = 0, work = 0;
      for (size_t d = 0; d < braid_forecast_device_count(forecast); d++)
        joules += braid_forecast_get_device(forecast, d).joules;
      for (size_t t = 0; t < s.tasks; t++) {
        braid_forecast_task a = braid_forecast_get_task(forecast, t), b = braid_forecast_get_task(again, t);
        assert_true(!strcmp(a.node, b.node) && a.start == b.start && a.end == b.end && !strcmp(a.device, b.device));
        assert_true(a.reason[0] && a.end <= s.seconds * (1 + 1e-12));
        work += a.joules;
        size_t chosen = 0;
        for (size_t k = 0; k < braid_forecast_offer_count(forecast, t); k++)
          chosen += braid_forecast_get_offer(forecast, t, k).chosen;
        assert_int_equal(chosen, 1);
      }
      assert_true(fabs(joules - s.joules) < 1e-6 * joules && fabs(work + s.idle_joules - s.joules) < 1e-6 * joules);
      if (!strcmp(policy, "gpu-only")) baseline = s.seconds;
      if (!strcmp(policy, "hybrid-energy")) assert_true(s.seconds <= baseline * (1 + 1e-9));
      if (!strcmp(policy, "hybrid-cap")) assert_true(s.cap_violations == 0 && s.peak_watts <= 230 * (1 + 1e-9));
      braid_forecast_destroy(forecast);
      braid_forecast_destroy(again);
    }
    braid_graph_destroy(step);
  }
  braid_modelled_machine_destroy(machine);
}

static braid_status forecast_all(const braid_allocator *allocator, void *context) {
  braid_modelled_machine *machine;
  braid_status status = braid_modelled_machine_load(allocator, "v100-s10x3", &machine);
  for (size_t i = 0; i < braid_planning_policy_count() && status == BRAID_OK; i++) {
    braid_forecast *forecast;
    braid_forecast_options options = {.policy = braid_planning_policy_name(i), .cap_watts = 260};
    /* these allocate again for each schedule that they try: policy_test.c and program_test.c sweep them, on less */
    if (!strcmp(options.policy, "slack-energy") || !strcmp(options.policy, "optimal") ||
        !strcmp(options.policy, "dvfs"))
      continue;
    status = braid_forecast_create(context, machine, &options, allocator, &forecast);
    braid_forecast_destroy(forecast);
  }
  braid_modelled_machine_destroy(machine);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  braid_graph *step = step_of(BRAID_MODELS "/lenet.cfg", 2);
  (void)oom_sweep(forecast_all, step);
  braid_graph_destroy(step);
}

/* What the paper prints of its models agrees with the averages that it prints. */
static void test_published_averages(void **state) {
  (void)state;
  const braid_hybrid_model *models = braid_hybrid_models();
  const braid_hybrid_text *text = braid_hybrid_texts();
  double efficiency = 0, movement = 0, left = 0, capped = 0, throughput = 1 + text->throughput / 100;
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    efficiency += models[m].efficiency / 6;
    movement += models[m].movement / 6;
    if (m < 5) left += models[m].left_on_gpu / 5; /* of BERT-Large other operations */
    capped += 100 * (models[m].capped / models[m].dvfs - 1) / 6;
  }
  assert_true(fabs(efficiency - text->efficiency) < 0.1 && fabs(-movement - text->movement) < 0.1);
  assert_true(fabs(left - text->left_on_gpu) < 0.1 && fabs(capped - 11.3) < 0.2);
  /* efficiency is throughput by power, and of two GPUs and of one and one as well */
  assert_true(fabs(throughput / (1 + text->power / 100) - 1 - text->efficiency / 100) < 0.01);
  assert_true(fabs((1 + text->two_throughput / 100) / (1 + text->two_power / 100) - 1 - text->two_efficiency / 100) <
              0.01);
  assert_true(fabs((1 + text->against_one_power / 100) / (1 + text->against_one_throughput / 100) - 1 -
                   text->one_efficiency / 100) < 0.01);
}

/* Other numbers for what a platform assumes. */
static void test_variation(void **state) {
  (void)state;
  braid_modelled_machine *machine = load("v100x2-s10x6");
  braid_profile_row before, after;
  assert_true(braid_profile_at(machine->profile, "stratix10", 1, "MatMul", 65.96e6, &before));
  braid_modelled_machine_vary(machine, &(braid_modelled_variation){.idle_watts = 0.5,
                                                                   .link_latency = 0.25,
                                                                   .link_bandwidth = 4,
                                                                   .assumed_ms = 2,
                                                                   .device = "stratix10",
                                                                   .op = "Transpose",
                                                                   .size = "medium",
                                                                   .ms = 0.008});
  assert_true(machine->file->devices[0].idle_watts == 20.5 && machine->file->devices[1].idle_watts == 5);
  assert_true(machine->file->devices[0].link->gigabytes_per_second == 48);
  assert_true(machine->file->exchange->gigabytes_per_second == 24 && machine->file->exchange->latency_ms == 0.577);
  assert_true(braid_profile_at(machine->profile, "stratix10", 1, "MatMul", 65.96e6, &after));
  assert_true(fabs(after.ms - 2 * before.ms) < 1e-9);
  assert_true(braid_profile_at(machine->profile, "stratix10", 1, "Transpose", 7.866e4, &after) && after.ms == 0.008);
  assert_true(braid_profile_at(machine->profile, "stratix10", 3, "MatMul", 65.96e6, &after));
  assert_true(fabs(after.ms - 1.341) < 1e-9); /* published */
  braid_modelled_machine_destroy(machine);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published_averages),
      cmocka_unit_test(test_variation),
      cmocka_unit_test(test_published),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_between),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_moves_what_runs),
      cmocka_unit_test(test_device_cap),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_links_and_memory),
      cmocka_unit_test(test_forecasts),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
