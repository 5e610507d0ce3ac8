/* The parts of the evaluation: networks against published counts, tasks side by side against the same ones alone and
 * against the roofline, designs, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "braid/session.h"
#include "overlay/design.h"
#include "overlay/evaluate/evaluate.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static const braid_overlay_design *load(const char *name) {
  const braid_overlay_design *design;
  ok(braid_overlay_design_load(NULL, name, &design));
  return design;
}

static braid_overlay_package *compiled(size_t network, int64_t side, const braid_overlay_design *design, int tilings) {
  braid_graph *graph;
  braid_overlay_package *package;
  ok(braid_overlay_stand_in(NULL, network, side, &graph));
  ok(braid_resolve(graph));
  ok(braid_overlay_compile_by(graph, design, tilings, NULL, NULL, &package));
  braid_graph_destroy(graph);
  return package;
}

enum { kAll = BRAID_OVERLAY_BY_WIDTH | BRAID_OVERLAY_BY_CHANNELS | BRAID_OVERLAY_BY_BOTH };

/* Multiply-accumulates as the papers and PyTorch's fvcore have them: MobileNet 569 M, ResNet-50 4.09 G, Inception-v3
 * 5.71 G at 299 x 299 without its second classifier. */
static void test_networks(void **state) {
  (void)state;
  static const struct {
    size_t network;
    int64_t side, layers;
    double macs;
  } cases[] = {{BRAID_OVERLAY_MOBILENET, 224, 29, 568.7e6},
               {BRAID_OVERLAY_RESNET50, 224, 56, 4.089e9},
               {BRAID_OVERLAY_INCEPTION, 299, 109, 5.713e9}};
  const braid_overlay_design *design = load("cnn-1x8192");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_overlay_package *package = compiled(cases[i].network, cases[i].side, design, kAll);
    braid_overlay_package_info info = braid_overlay_package_get_info(package);
    assert_true(fabs((double)info.macs / cases[i].macs - 1) < 1e-3);
    assert_int_equal(info.layers, cases[i].layers);
    assert_int_equal(braid_overlay_package_port_count(package, true), 1);
    braid_overlay_package_destroy(package);
  }
  braid_overlay_design_destroy(design);
  braid_graph *graph;
  assert_int_equal(braid_overlay_stand_in(NULL, BRAID_OVERLAY_LSTM_100, 224, &graph), BRAID_INVALID_ARGUMENT);
  assert_null(graph);
}

/* --- published -----------------------------------------------------------------------------------------------------
 */
static void expect_equal(double a, double b) {
  assert_true(fabs(a - b) < 1e-9);
}

/* Table 2 as data. */
static void test_published(void **state) {
  (void)state;
  const braid_overlay_published_network *all = braid_overlay_published_networks();
  FILE *file = fopen(BRAID_PUBLISHED "/compile.csv", "r");
  char line[256], name[32];
  double n[7];
  size_t rows = 0;
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  while (fgets(line, sizeof line, file)) {
    size_t i = 0;
    assert_int_equal(
        sscanf(line, "%31[^,],%lf,%lf,%lf,%lf,%lf,%lf,%lf", name, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6]), 8);
    while (i < BRAID_OVERLAY_NETWORKS && strcmp(all[i].name, name) != 0) i++;
    assert_true(i < BRAID_OVERLAY_NETWORKS);
    expect_equal(all[i].static_ms, n[0]);
    expect_equal(all[i].dynamic_ms.low, n[1]);
    expect_equal(all[i].dynamic_ms.high, n[2]);
    expect_equal(all[i].transfer_ms.low, n[3]);
    expect_equal(all[i].transfer_ms.high, n[4]);
    expect_equal(all[i].switch_ms.low, n[5]);
    expect_equal(all[i].switch_ms.high, n[6]);
    rows++;
  }
  fclose(file);
  assert_int_equal(rows, 7);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
static void test_alone(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  braid_overlay_package *package = compiled(BRAID_OVERLAY_MOBILENET, 96, design, kAll);
  static const int kCores[] = {1, 3, 16};
  for (size_t i = 0; i < sizeof kCores / sizeof *kCores; i++) {
    braid_overlay_task *task;
    braid_overlay_timed timed;
    braid_overlay_simulated simulated;
    ok(braid_overlay_task_create(package, kCores[i], NULL, &task));
    ok(braid_overlay_time_tenants(design, &(braid_overlay_tenant){task, 0, 1}, 1, &timed));
    ok(braid_overlay_simulate(package, design, kCores[i], &simulated));
    assert_true(timed.cycles == (double)simulated.cycles && timed.seconds == simulated.seconds);
    assert_true(timed.read_bytes == (double)simulated.read_bytes);
    assert_true(timed.written_bytes == (double)simulated.written_bytes);
    assert_int_equal(braid_overlay_task_get_info(task).program_bytes, simulated.program_bytes);
    for (int u = 0; u < BRAID_OVERLAY_UNITS; u++) assert_true(fabs(timed.busy[u] - simulated.units[u].busy) < 1e-12);
    braid_overlay_task_destroy(task);
  }
  braid_overlay_package_destroy(package);
  braid_overlay_design_destroy(design);
}

/* Four at one bank take no more of it than there is, and who has a bank for itself is within 1% of being alone. */
static void test_tenants(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  braid_overlay_package *package = compiled(BRAID_OVERLAY_MOBILENET, 96, design, kAll);
  braid_overlay_task *one, *four;
  braid_overlay_timed timed[4], alone;
  double bytes = 0;
  ok(braid_overlay_task_create(package, 1, NULL, &one));
  ok(braid_overlay_task_create(package, 4, NULL, &four));
  const braid_overlay_tenant bank[] = {{one, 0, 3}, {one, 1, 3}, {one, 2, 3}, {one, 3, 0}};
  ok(braid_overlay_time_tenants(design, bank, 4, timed));
  assert_true(timed[3].cycles == 0 && timed[3].busy[0] == 0);
  for (int t = 0; t < 3; t++) bytes += (timed[t].read_bytes + timed[t].written_bytes) / timed[t].seconds;
  assert_true(bytes > 0 && bytes <= design->efficiency * design->bank_bits / 8 * design->clock_mhz * 1e6);
  const braid_overlay_tenant apart[] = {{four, 4, 1}, {four, 0, 0}, {four, 8, 0}, {one, 15, 0}};
  ok(braid_overlay_time_tenants(design, &apart[0], 1, &alone));
  ok(braid_overlay_time_tenants(design, apart, 4, timed));
  assert_true(fabs(timed[0].cycles / alone.cycles - 1) < 0.01);
  ok(braid_overlay_time_tenants(design, apart, 4, &timed[0]));
  braid_overlay_timed again[4];
  ok(braid_overlay_time_tenants(design, apart, 4, again));
  assert_memory_equal(again, timed, sizeof again);
  braid_overlay_task_destroy(one);
  braid_overlay_task_destroy(four);
  braid_overlay_package_destroy(package);
  braid_overlay_design_destroy(design);
}

static void test_refused(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  braid_overlay_package *package = compiled(BRAID_OVERLAY_MOBILENET, 64, design, kAll);
  braid_overlay_task *four, *none;
  braid_overlay_timed timed[2];
  braid_overlay_stops stops;
  ok(braid_overlay_task_create(package, 4, NULL, &four));
  const struct {
    braid_overlay_tenant tenants[2];
    const char *said;
  } cases[] = {{{{four, 0, 1}, {four, 3, 1}}, "two tenants have core 3"},
               {{{four, 0, 1}, {four, 13, 1}}, "tenant 1 has cores 13 to 16"},
               {{{four, -1, 1}, {four, 8, 1}}, "tenant 0 has cores -1 to 2"},
               {{{four, 0, 0}, {four, 8, -3}}, "none of which has a run"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(braid_overlay_time_tenants(design, cases[i].tenants, 2, timed), BRAID_INVALID_ARGUMENT);
    assert_non_null(strstr(braid_error_detail(), cases[i].said));
  }
  assert_int_equal(braid_overlay_time_tenants(design, NULL, 0, timed), BRAID_INVALID_ARGUMENT);
  braid_overlay_design small = *design;
  small.bank_bytes = 4096;
  assert_int_equal(braid_overlay_time_tenants(&small, cases[0].tenants, 1, timed), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_overlay_time_stops(design, four, 0, &stops), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_overlay_task_create(package, 0, NULL, &none), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_overlay_task_create(package, 65, NULL, &none), BRAID_INVALID_ARGUMENT);
  assert_null(none);
  braid_overlay_task_destroy(four);
  braid_overlay_package_destroy(package);
  braid_overlay_design_destroy(design);
}

static void test_stops(void **state) {
  (void)state;
  const braid_overlay_design *design = load("cnn-16x512");
  braid_overlay_package *package = compiled(BRAID_OVERLAY_MOBILENET, 96, design, kAll);
  braid_overlay_task *task;
  braid_overlay_timed timed;
  braid_overlay_stops stops;
  ok(braid_overlay_task_create(package, 4, NULL, &task));
  ok(braid_overlay_time_tenants(design, &(braid_overlay_tenant){task, 0, 1}, 1, &timed));
  ok(braid_overlay_time_stops(design, task, 500, &stops));
  assert_true(stops.count > 5 && stops.mean_us > 0 && stops.worst_us >= stops.mean_us);
  assert_true(stops.worst_us < timed.seconds * 1e6 && stops.worst_us <= 40);
  assert_true(stops.again_count > 5 && stops.again_mean_us <= stops.again_worst_us);
  ok(braid_overlay_time_stops(design, task, UINT64_C(1) << 40, &stops));
  assert_int_equal(stops.count, 0);
  braid_overlay_task_destroy(task);
  braid_overlay_package_destroy(package);
  braid_overlay_design_destroy(design);
}

/* A step is no faster than its operations and its weights allow. */
static void test_lstm(void **state) {
  (void)state;
  const braid_overlay_design *design = load("rnn-16x16");
  braid_overlay_lstm *lstm;
  double ms;
  ok(braid_overlay_lstm_draw(NULL, 100, &ms, &lstm));
  assert_true(ms > 0);
  braid_overlay_package *package;
  ok(braid_overlay_lstm_package(lstm, 1, design, NULL, &ms, &package));
  assert_true(ms > 0);
  for (int cores = 1; cores <= 16; cores *= 4) {
    braid_overlay_task *task;
    braid_overlay_timed timed;
    braid_overlay_roofline roofline;
    ok(braid_overlay_task_create(package, cores, NULL, &task));
    braid_overlay_task_info info = braid_overlay_task_get_info(task);
    assert_int_equal(info.macs, 4 * 100 * 200);
    ok(braid_overlay_time_tenants(design, &(braid_overlay_tenant){task, 0, 1}, 1, &timed));
    braid_overlay_get_roofline(design, cores, &roofline);
    assert_true(timed.seconds >= 2 * (double)info.macs / roofline.operations_per_second);
    assert_true(timed.read_bytes >= 2 * (double)info.macs);
    assert_true(timed.seconds >= timed.read_bytes / roofline.bytes_per_second);
    braid_overlay_task_destroy(task);
  }
  braid_overlay_task *task;
  braid_overlay_package *none;
  braid_overlay_timed timed;
  const braid_overlay_design *other = load("cnn-16x512");
  assert_int_equal(braid_overlay_lstm_package(lstm, 1, other, NULL, &ms, &none), BRAID_UNSUPPORTED);
  assert_int_equal(braid_overlay_lstm_package(lstm, 0, design, NULL, &ms, &none), BRAID_INVALID_ARGUMENT);
  assert_null(none);
  ok(braid_overlay_task_create(package, 1, NULL, &task));
  assert_int_equal(braid_overlay_time_tenants(other, &(braid_overlay_tenant){task, 0, 1}, 1, &timed),
                   BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "other cores"));
  braid_overlay_task_destroy(task);
  braid_overlay_package_destroy(package);
  braid_overlay_design_destroy(other);
  braid_overlay_lstm_destroy(lstm);
  assert_int_equal(braid_overlay_lstm_draw(NULL, 0, &ms, &lstm), BRAID_INVALID_ARGUMENT);
  braid_overlay_design_destroy(design);
}

/* --- designs and tilings -------------------------------------------------------------------------------------------
 */
static void test_designs(void **state) {
  (void)state;
  const braid_overlay_design *large = load("cnn-1x8192"), *small = load("cnn-16x512"), *lstm = load("rnn-1x1024");
  braid_overlay_design part;
  for (int divisor = 1; divisor <= 16; divisor *= 2) {
    ok(braid_overlay_divide_core(large, divisor, &part));
    assert_int_equal(braid_overlay_core_products(&part) * divisor, braid_overlay_core_products(large));
    assert_int_equal(part.port_bits * divisor, large->port_bits);
    ok(braid_overlay_divide_core(lstm, divisor, &part));
    assert_int_equal(braid_overlay_core_products(&part) * divisor, braid_overlay_core_products(lstm));
  }
  ok(braid_overlay_divide_core(large, 16, &part)); /* one of the small cores, but for its memories */
  assert_true(part.pixels == small->pixels && part.channels_in == small->channels_in &&
              part.channels_out == small->channels_out && part.side_bytes == small->side_bytes &&
              part.port_bits == small->port_bits);
  static const int kWrong[] = {0, -2, 3, 32};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++)
    assert_int_equal(braid_overlay_divide_core(large, kWrong[i], &part), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_overlay_divide_core(small, 2, &part), BRAID_INVALID_ARGUMENT);
  braid_overlay_roofline once, twice;
  part = braid_overlay_double_bandwidth(small);
  braid_overlay_get_roofline(small, 16, &once);
  braid_overlay_get_roofline(&part, 16, &twice);
  assert_true(fabs(twice.bytes_per_second / once.bytes_per_second - 2) < 1e-9);
  braid_overlay_design_destroy(large);
  braid_overlay_design_destroy(small);
  braid_overlay_design_destroy(lstm);
}

static void test_tilings(void **state) {
  (void)state;
  static const struct {
    int tilings;
    const char *name;
  } cases[] = {
      {BRAID_OVERLAY_BY_WIDTH, "width"}, {BRAID_OVERLAY_BY_CHANNELS, "channels"}, {BRAID_OVERLAY_BY_BOTH, "both"}};
  const braid_overlay_design *design = load("cnn-16x512");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_overlay_package *package = compiled(BRAID_OVERLAY_MOBILENET, 96, design, cases[i].tilings);
    braid_overlay_layer_share layers[64];
    braid_overlay_program_info info;
    size_t count = braid_overlay_package_get_info(package).layers, named = 0;
    assert_true(count <= sizeof layers / sizeof *layers);
    ok(braid_overlay_package_share(package, 16, layers, &info));
    for (size_t l = 0; l < count; l++) {
      bool whole = strcmp(layers[l].tiling, "whole") == 0;
      assert_true(whole || strcmp(layers[l].tiling, cases[i].name) == 0);
      named += !whole;
    }
    assert_true(named > count / 3);
    braid_overlay_package_destroy(package);
  }
  braid_overlay_design_destroy(design);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published), cmocka_unit_test(test_networks), cmocka_unit_test(test_alone),
      cmocka_unit_test(test_tenants),   cmocka_unit_test(test_refused),  cmocka_unit_test(test_stops),
      cmocka_unit_test(test_lstm),      cmocka_unit_test(test_designs),  cmocka_unit_test(test_tilings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
