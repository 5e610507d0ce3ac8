/* The model against values computed by hand, against what the paper prints (tests/data/explore), and by properties:
 * nothing is faster than its multipliers allow, a better chip is never slower, hostile sizes stay numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "braid/explore.h"
#include "braid/model.h"
#include "oom.h"

#define CHECK(expression)                                                                                              \
  do {                                                                                                                 \
    if ((expression) != BRAID_OK) fail_msg("%s", braid_error_detail());                                                \
  } while (0)
#define NEAR(value, expected, most) assert_true(fabs((value) - (expected)) <= (most))

static braid_chip *chip_of(const char *name) {
  braid_chip *chip;
  CHECK(braid_chip_load(NULL, name, &chip));
  return chip;
}

static braid_tile_network *paper_network(int64_t batch) {
  braid_graph *graph;
  braid_tile_network *network;
  CHECK(braid_tile_paper_model(NULL, &graph));
  CHECK(braid_tile_network_create(graph, batch, &network));
  braid_graph_destroy(graph);
  return network;
}

static braid_graph *parse_cfg(const braid_allocator *allocator, const char *text) {
  braid_graph *graph = NULL;
  CHECK(braid_model_parse(
      allocator, &(braid_model_memory){.data = text, .bytes = strlen(text), .format = BRAID_MODEL_DARKNET}, &graph));
  return graph;
}

static braid_tile_result evaluate(const braid_tile_network *network, const braid_chip *chip, int64_t tb, int64_t ti,
                                  double clock) {
  braid_tile_result result;
  CHECK(braid_tile_evaluate(network, chip, &(braid_tile_design){tb, ti, clock}, &result));
  return result;
}

static double sum_elements(const braid_tile_network *network, const char *what) {
  double sum = 0;
  for (size_t i = 0; i < braid_tile_pass_count(network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(network, i);
    if (strcmp(pass.what, what) == 0 && pass.batched) sum += pass.elements;
  }
  return sum;
}

static size_t count_passes(const braid_tile_network *network, const char *what) {
  size_t count = 0;
  for (size_t i = 0; i < braid_tile_pass_count(network); i++)
    count += strcmp(braid_tile_get_pass(network, i).what, what) == 0;
  return count;
}

/* --- the paper's network -------------------------------------------------------------------------------------------
 */
static FILE *data_file(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/explore/%s", BRAID_TEST_DATA, name);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  return file;
}

/* The forward products are the rows of Table 2, in their order. */
static void test_table_2(void **state) {
  (void)state;
  braid_tile_network *network = paper_network(128);
  FILE *file = data_file("tile_network.csv");
  char line[256];
  size_t at = 0, rows = 0;
  assert_non_null(fgets(line, sizeof line, file));
  while (fgets(line, sizeof line, file)) {
    char name[32] = "";
    long long batch, channels, filters, height = 1, width = 1, kernel = 1;
    int fields = sscanf(line, "%31[^,],%lld,%lld,%lld,%lld,%lld,%lld", name, &batch, &channels, &filters, &height,
                        &width, &kernel);
    if (strncmp(name, "conv", 4) != 0 && strncmp(name, "fc", 2) != 0) continue;
    braid_tile_pass pass = {.what = ""};
    while (strcmp(pass.what, "product") != 0) pass = braid_tile_get_pass(network, at++);
    assert_int_equal(pass.phase, BRAID_TILE_FORWARD);
    assert_int_equal(batch, braid_tile_network_batch(network));
    assert_int_equal(pass.connected, fields == 4);
    assert_int_equal(pass.depth, channels * kernel * kernel);
    assert_int_equal(pass.filters, filters);
    assert_int_equal(pass.pixels, height * width);
    assert_int_equal(pass.groups, 1);
    rows++;
  }
  assert_int_equal(rows, 8);
  fclose(file);
  braid_tile_network_destroy(network);
}

/* What a result is the sum of sets how often results leave: of the last layer's errors, 10 numbers filled up to T_I. */
static void test_sums(void **state) {
  (void)state;
  braid_tile_network *network = paper_network(128);
  braid_chip *chip = chip_of("xcvu9p");
  size_t backward = 0;
  for (size_t i = 0; i < braid_tile_pass_count(network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(network, i);
    if (strcmp(pass.what, "product") != 0) continue;
    backward += pass.phase == BRAID_TILE_BACKWARD;
    int64_t sums[] = {pass.depth, pass.filters, pass.pixels};
    assert_int_equal(pass.sums, sums[pass.phase]);
    if (pass.connected) assert_int_equal(pass.depth * pass.filters, pass.filters == 10 ? 10240 : 8192 * 1024);
    if (pass.connected) assert_true(pass.filters == 10 || pass.filters == 1024);
  }
  assert_int_equal(backward, 7);
  braid_tile_result r = evaluate(network, chip, 128, 32, 200);
  NEAR(r.conv_bandwidth, (128 * 8 + 128 * 32 / 128.0 * 32 + 8) * 200e6 / 8e9, 1e-9);
  NEAR(r.connected_bandwidth, (128 * 8 + 128 * 32 / 32.0 * 32 + 32 * 8) * 200e6 / 8e9, 1e-9);
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
}

/* 284.4 ms of convolutions (285.1 with the first layer's backward product, which no step needs), 3.95 ms of connected
 * layers; three passes over the columns of all convolutions would take 38.0 ms, two over their results 4.6. */
static void test_published_point(void **state) {
  (void)state;
  braid_tile_network *network = paper_network(128);
  braid_chip *chip = chip_of("xcvu9p");
  braid_tile_result r = evaluate(network, chip, 128, 32, 200);
  NEAR(r.conv_ms, 284.43, 0.01);
  NEAR(r.connected_ms, 3.947, 0.001);
  double first = 128.0 * 32 * 128 * 1024 / (128 * 32 * 200e3);
  NEAR(r.conv_ms + first, 285.08, 0.01);
  NEAR(sum_elements(network, "im2col") / 2 / 200e3, 12.672, 0.001);
  NEAR(sum_elements(network, "Relu") / 200e3, 2.299, 0.001);
  /* im2col forward and for the gradients; col2im of all but the first layer. */
  NEAR(sum_elements(network, "im2col"), 2 * 2534400.0, 0);
  NEAR(sum_elements(network, "col2im"), 2534400.0 - 27648, 0);
  assert_int_equal(count_passes(network, "im2col"), 12);
  assert_int_equal(count_passes(network, "col2im"), 5);
  assert_int_equal(count_passes(network, "MaxPool"), 3);
  assert_int_equal(count_passes(network, "MaxPoolGrad"), 3);
  assert_int_equal(count_passes(network, "Flatten"), 1); /* from frames to rows, and back */
  assert_int_equal(count_passes(network, "Reshape"), 1);
  assert_int_equal(count_passes(network, "update"), 16);
  assert_int_equal(count_passes(network, "quantize"), 7 + 16);
  NEAR(r.conv_ms + r.connected_ms + r.auxiliary_ms + r.wait_ms, r.total_ms, 1e-9);
  NEAR(r.total_ms / 331 - 1, 0.06, 0.01); /* the deviation is what it is */
  NEAR(r.auxiliary_bandwidth, 102.4, 1e-9);
  for (size_t i = 0; i < braid_tile_pass_count(network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(network, i);
    if (strcmp(pass.what, "quantize") != 0 || !pass.batched) continue;
    NEAR(pass.read_bytes + pass.written_bytes, 5 * 128 * pass.elements, 0); /* 128 GB/s: int32 to int8 */
  }
  assert_false(r.literal_fits);
  assert_true(r.fits);
  NEAR(r.dsps, 4096, 0);
  NEAR(r.brams, ceil((4.0 * 128 * 1024 * 16 + 4 * 1024 * 8) / 36864), 0);
  NEAR(r.least_luts, 480000, 0);
  NEAR(r.most_luts, 480000, 0);
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
}

/* By T_B x T_I, then by T_B; (128, 64) is removed for its DSPs. */
static void test_figure_8(void **state) {
  (void)state;
  braid_tile_network *network = paper_network(128);
  braid_chip *chip = chip_of("xcvu9p");
  static const int64_t order[][2] = {{128, 64}, {128, 32}, {64, 64}, {128, 16}, {64, 32},
                                     {64, 16},  {32, 32},  {32, 16}, {16, 16}};
  double before = 0;
  for (size_t i = 0; i < 9; i++) {
    braid_tile_result r = evaluate(network, chip, order[i][0], order[i][1], 200);
    assert_true(r.total_ms > before);
    before = r.total_ms;
    assert_int_equal(r.fits, i > 0);
    if (!i) assert_int_equal(r.binding, BRAID_TILE_DSPS);
  }
  for (size_t i = 0; i < BRAID_TILE_PAPER_DESIGNS; i++) {
    braid_tile_design design = braid_tile_paper_design(i, 200);
    size_t found = 0;
    for (size_t k = 0; k < 9; k++) found += design.tb == order[k][0] && design.ti == order[k][1];
    assert_int_equal(found, 1);
  }
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
}

static void test_table_3(void **state) {
  (void)state;
  FILE *file = data_file("tile_platforms.csv");
  char line[256];
  assert_non_null(fgets(line, sizeof line, file));
  for (size_t i = 0; i < BRAID_TILE_PLATFORMS; i++) {
    double ms, watts, joules;
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(sscanf(line, "%*[^,],%*[^,],%lf,%lf,%lf", &ms, &watts, &joules), 3);
    const braid_tile_platform *p = &braid_tile_platforms()[i];
    assert_true(p->ms == ms && p->watts == watts && p->joules == joules);
    NEAR(p->efficiency * joules / 8712, 1, 0.01); /* as printed, from the joules as printed */
  }
  fclose(file);
  assert_true(braid_tile_systems()[0].seconds == 65.37 && braid_tile_systems()[1].seconds == 3.66);
  NEAR(128 / 0.331, braid_tile_accelerators()[BRAID_TILE_ACCELERATORS - 1].images_per_second, 0.05);
}

/* An empty field was not published. */
static void test_table_4(void **state) {
  (void)state;
  FILE *file = data_file("tile_accelerators.csv");
  char line[256];
  assert_non_null(fgets(line, sizeof line, file));
  for (size_t i = 0; i < BRAID_TILE_ACCELERATORS; i++) {
    const braid_tile_accelerator *a = &braid_tile_accelerators()[i];
    const double values[] = {a->fpgas, a->kiloluts, a->dsps, a->gops, a->images_per_second};
    assert_non_null(fgets(line, sizeof line, file));
    char *rest = line;
    (void)strsep(&rest, ",");
    for (size_t k = 0; k < 5; k++) {
      const char *field = strsep(&rest, ",");
      assert_non_null(field);
      bool empty = *field == '\0' || *field == '\n';
      if (empty) assert_true(isnan(values[k]));
      if (!empty) assert_true(values[k] == strtod(field, NULL));
    }
  }
  fclose(file);
}

/* --- by hand -------------------------------------------------------------------------------------------------------
 */
static const char small_net[] = "[net]\nchannels=3\nheight=5\nwidth=5\n"
                                "[convolutional]\nfilters=4\nsize=3\nstride=1\npad=1\nactivation=linear\n"
                                "[convolutional]\nfilters=6\nsize=1\nstride=1\nactivation=relu\n"
                                "[connected]\noutput=2\nactivation=linear\n";

/* Batch 3, T_B = 2, T_I = 4: C*K = 27 -> 28, 25 pixels -> 28, batch 3 -> 4. */
static void test_by_hand(void **state) {
  (void)state;
  braid_graph *graph = parse_cfg(NULL, small_net);
  braid_tile_network *network;
  CHECK(braid_tile_network_create(graph, 3, &network));
  braid_chip *chip = chip_of("xcvu9p");
  braid_tile_result r = evaluate(network, chip, 2, 4, 1); /* 1 MHz: a thousand cycles a ms */
  double first = 4 * 28 * 4 * 28 / 8.0, second = 4 * 4 * 8 * 28 / 8.0, connected = 4 * 152 * 4 / 8.0;
  NEAR(r.conv_ms * 1e3, 2 * first + 3 * second, 1e-9); /* no error leaves the first layer */
  NEAR(r.connected_ms * 1e3, 3 * connected, 1e-9);
  NEAR(braid_tile_macs(network), 3 * (2.0 * 27 * 4 * 25 + 3.0 * 4 * 6 * 25 + 3.0 * 150 * 2), 0);
  assert_int_equal(count_passes(network, "im2col"), 2); /* none for the kernel of one element */
  assert_int_equal(count_passes(network, "col2im"), 0);
  NEAR(sum_elements(network, "im2col"), 2 * 27 * 25, 0);
  NEAR(r.dsps, 8, 0);
  NEAR(r.brams, 1, 0);
  assert_false(r.fits); /* T_B < T_I */
  assert_int_equal(r.binding, BRAID_TILE_TRANSPOSITION);
  NEAR(r.auxiliary_bandwidth, 2 * 2 * 2 / 1e3, 1e-12); /* 8 bytes a cycle */
  double sum = 0;
  for (size_t i = 0; i < braid_tile_layer_count(network); i++) {
    double ms[BRAID_TILE_PHASES];
    CHECK(braid_tile_layer_times(network, chip, &r.design, i, ms));
    for (int k = 0; k < BRAID_TILE_PHASES; k++) sum += ms[k];
  }
  NEAR(sum, r.total_ms, 1e-9);
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
  braid_graph_destroy(graph);
}

/* LUTs between the two ends of all coefficients that are not negative and give the design that was built; with beta and
 * delta, their sum. */
static void test_luts(void **state) {
  (void)state;
  static const char text[] = "name: c\nluts: {value: 1000, source: s}\ndsps: {value: 10, source: s}\n"
                             "brams: {value: 50, source: s}\nbram_bits: {value: 36864, source: s}\n"
                             "multiplier_dsps: {value: 0.5, source: s}\nadder_dsps: {value: 1, source: s}\n"
                             "multiplier_luts: {value: 10, source: s}\nlane_luts: {value: 5, source: s}\n"
                             "fixed_luts: {value: 7, source: s}\nfixed_dsps: {value: 2, source: s}\n";
  braid_tile_network *network = paper_network(4);
  braid_chip *chip, *built = chip_of("xcvu9p");
  CHECK(braid_chip_parse("c.yaml", text, strlen(text), &chip));
  braid_tile_result r = evaluate(network, chip, 16, 8, 200);
  NEAR(r.least_luts, 16 * 8 * 10 + 16 * 5 + 7, 0);
  NEAR(r.most_luts, r.least_luts, 0);
  NEAR(r.dsps, 16 * 8 / 2 + 16 * 3 + 16 + 2, 0); /* log2(8) = 3 levels of adders */
  assert_false(r.fits);
  assert_int_equal(r.binding, BRAID_TILE_DSPS);
  r = evaluate(network, built, 64, 16, 200);
  NEAR(r.least_luts, 480000 / 4, 0);
  NEAR(r.most_luts, 480000, 0);
  r = evaluate(network, built, 256, 32, 200);
  NEAR(r.least_luts, 480000, 0);
  NEAR(r.most_luts, 960000, 0);
  braid_chip_destroy(chip);
  braid_chip_destroy(built);
  braid_tile_network_destroy(network);
}

/* --- properties ----------------------------------------------------------------------------------------------------
 */
static int64_t draw(uint64_t seed, uint64_t index, int64_t most) {
  uint32_t out[4];
  braid_philox((uint32_t[4]){(uint32_t)index, 0, 0, 0}, (uint32_t[2]){(uint32_t)seed, 0}, out);
  return 1 + (int64_t)out[0] % most;
}

static void test_properties(void **state) {
  (void)state;
  const uint64_t seed = 11;
  print_message("seed %llu\n", (unsigned long long)seed);
  braid_tile_network *network = paper_network(96);
  braid_chip *chip = chip_of("xcvu9p"), *fast = chip_of("alveo-u280"), *open = chip_of("stratix10-gx2800");
  for (uint64_t i = 0; i < 400; i++) {
    int64_t tb = draw(seed, 4 * i, 200), ti = draw(seed, 4 * i + 1, 100);
    double clock = (double)draw(seed, 4 * i + 2, 500);
    braid_tile_result r = evaluate(network, chip, tb, ti, clock);
    double products = r.conv_ms + r.connected_ms;
    double ideal = braid_tile_macs(network) / ((double)tb * (double)ti * clock * 1e3);
    assert_true(products >= ideal * (1 - 1e-12));
    assert_true(r.total_ms >= (products + r.auxiliary_ms) * (1 - 1e-12));
    /* A faster clock, and a faster memory, are never slower. */
    assert_true(evaluate(network, chip, tb, ti, clock * 1.5).total_ms <= r.total_ms * (1 + 1e-12));
    assert_true(evaluate(network, fast, tb, ti, clock).total_ms <= r.total_ms * (1 + 1e-12));
    braid_tile_result without = evaluate(network, open, tb, ti, clock);
    assert_true(without.wait_ms == 0 && isnan(without.least_luts));
    assert_true(without.total_ms <= r.total_ms * (1 + 1e-12));
    /* As many tiles over the batch take as long, whatever their size; twice as many lanes are not slower. */
    int64_t tiles = (96 + tb - 1) / tb, least = (96 + tiles - 1) / tiles;
    braid_tile_result narrow = evaluate(network, chip, least, ti, clock);
    NEAR(narrow.conv_ms, r.conv_ms, 1e-9 * r.conv_ms);
    assert_true(evaluate(network, chip, 2 * tb, ti, clock).conv_ms <= r.conv_ms * (1 + 1e-12));
    /* Larger tiles take no less of the chip. */
    braid_tile_result wider = evaluate(network, chip, tb + 1, ti, clock),
                      deeper = evaluate(network, chip, tb, ti + 1, clock);
    assert_true(wider.dsps >= r.dsps && wider.brams >= r.brams && wider.most_luts >= r.most_luts);
    assert_true(deeper.dsps >= r.dsps && deeper.brams >= r.brams && deeper.least_luts >= r.least_luts);
  }
  /* Tiles that divide everything waste nothing, and twice the tile halves the time. */
  for (int64_t ti = 1; ti <= 64; ti *= 2) {
    braid_tile_result small = evaluate(network, chip, 32, ti, 200), large = evaluate(network, chip, 96, ti, 200);
    NEAR(small.conv_ms / large.conv_ms, 3, 1e-9);
  }
  braid_chip_destroy(chip);
  braid_chip_destroy(fast);
  braid_chip_destroy(open);
  braid_tile_network_destroy(network);
}

static void test_hostile_sizes(void **state) {
  (void)state;
  braid_graph *graph = parse_cfg(NULL, small_net);
  braid_tile_network *network;
  braid_chip *chip = chip_of("vu9p");
  braid_tile_result r;
  CHECK(braid_tile_network_create(graph, BRAID_TILE_MOST, &network));
  static const int64_t sizes[] = {1, 3, BRAID_TILE_MOST - 1, BRAID_TILE_MOST};
  for (size_t i = 0; i < 16; i++) {
    r = evaluate(network, chip, sizes[i / 4], sizes[i % 4], 1e-200);
    assert_true(isfinite(r.total_ms) && r.total_ms > 0 && isfinite(r.brams) && isfinite(r.dsps));
  }
  static const struct {
    int64_t tb, ti;
    double clock;
  } refused[] = {{0, 1, 1}, {1, 0, 1},  {-1, 1, 1},  {1, INT64_MAX, 1}, {INT64_MIN, 1, 1},
                 {1, 1, 0}, {1, 1, -5}, {1, 1, NAN}, {1, 1, INFINITY},  {BRAID_TILE_MOST + 1, 1, 1}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    braid_tile_design design = {refused[i].tb, refused[i].ti, refused[i].clock};
    assert_int_equal(braid_tile_evaluate(network, chip, &design, &r), BRAID_INVALID_ARGUMENT);
  }
  braid_tile_network_destroy(network);
  static const int64_t batches[] = {0, -1, BRAID_TILE_MOST + 1, INT64_MAX};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(braid_tile_network_create(graph, batches[i], &network), BRAID_INVALID_ARGUMENT);
    assert_null(network);
  }
  braid_chip_destroy(chip);
  braid_graph_destroy(graph);
}

/* --- the search ----------------------------------------------------------------------------------------------------
 */
static void test_search(void **state) {
  (void)state;
  braid_tile_network *network = paper_network(100);
  braid_chip *chip = chip_of("xcvu9p");
  braid_tile_search search;
  CHECK(braid_tile_explore(network, chip, NULL, 0, NULL, 0, 200, &search));
  assert_true(search.front_count > 10);
  for (size_t i = 0; i < search.count; i++) { /* the front, by its definition */
    const braid_tile_result *r = &search.results[i];
    bool beaten = !r->fits, listed = false;
    for (size_t k = 0; k < search.count && !beaten; k++) {
      const braid_tile_result *other = &search.results[k];
      beaten = other->fits && other->total_ms <= r->total_ms && other->dsps <= r->dsps &&
               (other->total_ms < r->total_ms || other->dsps < r->dsps || k < i);
    }
    for (size_t k = 0; k < search.front_count; k++) listed |= search.front[k] == i;
    assert_int_equal(listed, !beaten);
  }
  /* No T_B that was left out is faster on the products than one that was tried. */
  const braid_tile_result *best = &search.results[search.front[0]];
  for (int64_t tb = 1; tb <= 120; tb++)
    for (int64_t ti = 1; ti <= 80; ti++) {
      braid_tile_result r = evaluate(network, chip, tb, ti, 200);
      if (r.fits) assert_true(r.conv_ms + r.connected_ms >= (best->conv_ms + best->connected_ms) * (1 - 1e-12));
    }
  braid_tile_search_deinit(&search);
  CHECK(braid_tile_explore(network, chip, (int64_t[]){7}, 1, (int64_t[]){3, 5}, 2, 200, &search));
  assert_int_equal(search.count, 2);
  assert_int_equal(search.results[1].design.ti, 5);
  braid_tile_search_deinit(&search);
  assert_int_equal(braid_tile_explore(network, chip, (int64_t[]){0}, 1, NULL, 0, 200, &search), BRAID_INVALID_ARGUMENT);
  assert_null(search.results);
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
}

/* --- other networks ------------------------------------------------------------------------------------------------
 */
static void test_layers(void **state) {
  (void)state;
  braid_graph *graph = parse_cfg(NULL, "[net]\nchannels=4\nheight=6\nwidth=6\n"
                                       "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=1\npad=1\n"
                                       "activation=relu\n"
                                       "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\ngroups=4\n"
                                       "activation=relu6\n"
                                       "[shortcut]\nfrom=-2\nactivation=relu\n"
                                       "[avgpool]\n[connected]\noutput=3\nactivation=linear\n[softmax]\n");
  braid_tile_network *network;
  CHECK(braid_tile_network_create(graph, 2, &network));
  assert_int_equal(count_passes(network, "statistics"), 2); /* before the normalization, and before its gradient */
  assert_int_equal(count_passes(network, "Add"), 2);        /* of the residual, and of its errors */
  assert_int_equal(count_passes(network, "ClipGrad"), 1);
  assert_int_equal(count_passes(network, "GlobalAveragePoolGrad"), 1);
  bool grouped = false;
  for (size_t i = 0; i < braid_tile_pass_count(network); i++) {
    braid_tile_pass pass = braid_tile_get_pass(network, i);
    const char *layer = braid_tile_get_layer(network, pass.layer).op;
    if (strcmp(pass.what, "product") == 0) assert_true(strcmp(layer, "Conv") == 0 || strcmp(layer, "Gemm") == 0);
    if (strcmp(pass.what, "ReluGrad") == 0) assert_string_equal(layer, "Relu");
    if (strcmp(pass.what, "ClipGrad") == 0) assert_string_equal(layer, "Clip");
    if (strcmp(pass.what, "GlobalAveragePoolGrad") == 0) assert_string_equal(layer, "GlobalAveragePool");
    if (strcmp(pass.what, "BatchNormalizationGrad") == 0) assert_string_equal(layer, "BatchNormalization");
    if (strcmp(pass.what, "BiasGrad") == 0) {
      NEAR(pass.read_bytes, 2 * 8 * 36, 0);
      NEAR(pass.written_bytes, 8 * 4, 0); /* 32 bits a channel */
    }
    if (pass.groups == 4) {
      grouped = true;
      assert_int_equal(pass.depth, 18);
      assert_int_equal(pass.filters, 2);
    }
  }
  assert_true(grouped);
  braid_tile_network_destroy(network);
  braid_graph_destroy(graph);
}

/* An op that computes products of its own is refused by name. */
static void test_unsupported(void **state) {
  (void)state;
  braid_graph *graph;
  braid_tile_network *network;
  braid_desc desc;
  braid_value_id inputs[3], outputs[1] = {0};
  CHECK(braid_graph_create(NULL, "net", &graph));
  CHECK(braid_desc_init(&desc, BRAID_F32, 3, (int64_t[]){2, 1, 3}));
  CHECK(braid_graph_add_input(graph, "x", &desc, &inputs[0]));
  static const int64_t shapes[2][3] = {{1, 16, 3}, {1, 16, 4}};
  for (int i = 0; i < 2; i++) {
    braid_tensor *tensor;
    CHECK(braid_desc_init(&desc, BRAID_F32, 3, shapes[i]));
    CHECK(braid_tensor_create(NULL, &desc, &tensor));
    CHECK(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_PARAMETER, tensor, &inputs[1 + i]));
    braid_tensor_release(tensor);
  }
  braid_node_id node;
  CHECK(braid_graph_add_node(graph, "LSTM", "memory", inputs, 3, outputs, 1, &node));
  CHECK(braid_graph_set_int(graph, node, "hidden_size", 4));
  CHECK(braid_graph_add_output(graph, outputs[0]));
  assert_int_equal(braid_tile_network_create(graph, 2, &network), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "node memory (LSTM)"));
  assert_null(network);
  braid_graph_destroy(graph);
}

static braid_status attempt_network(const braid_allocator *allocator, void *context) {
  braid_graph *graph = NULL;
  braid_tile_network *network = NULL;
  braid_status status = braid_model_parse(
      allocator, &(braid_model_memory){.data = context, .bytes = strlen(context), .format = BRAID_MODEL_DARKNET},
      &graph);
  if (status == BRAID_OK) status = braid_tile_network_create(graph, 2, &network);
  braid_tile_network_destroy(network);
  braid_graph_destroy(graph);
  return status;
}

static braid_status attempt_page(const braid_allocator *allocator, void *context) {
  const braid_tile_search *search = context;
  return braid_tile_write_svg(allocator, "/dev/null", "t", search, search->results, 1);
}

static void test_no_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(attempt_network, (void *)(uintptr_t)small_net) > 10);
  braid_tile_network *network = paper_network(4);
  braid_chip *chip = chip_of("vu9p");
  braid_tile_search search;
  CHECK(braid_tile_explore(network, chip, NULL, 0, (int64_t[]){2, 4}, 2, 200, &search));
  assert_true(oom_sweep(attempt_page, &search) > 2);
  braid_tile_search_deinit(&search);
  braid_chip_destroy(chip);
  braid_tile_network_destroy(network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table_2),     cmocka_unit_test(test_published_point),
      cmocka_unit_test(test_sums),        cmocka_unit_test(test_figure_8),
      cmocka_unit_test(test_table_3),     cmocka_unit_test(test_table_4),
      cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_luts),
      cmocka_unit_test(test_properties),  cmocka_unit_test(test_hostile_sizes),
      cmocka_unit_test(test_search),      cmocka_unit_test(test_layers),
      cmocka_unit_test(test_unsupported), cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
