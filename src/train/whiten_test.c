/* What whitens: over all patches of the data the results of the first convolution have a variance of 1 and no
 * correlation, in the order of the data's own variances, and every second one is the opposite of the one before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "graph/graph.h"
#include "train/trainer.h"

enum { kSamples = 60, kChannels = 2, kHeight = 9, kWidth = 8, kRows = 2, kColumns = 3, kStep = 2, kSeed = 3 };
enum { kPatch = kChannels * kRows * kColumns, kFloats = kChannels * kHeight * kWidth };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* Smooth pictures, far from 0, whose channels have to do with each other. */
static braid_status read_sample(void *context, int64_t index, float *pixels, int32_t *label) {
  float level = braid_random_normal(kSeed, 0, 1, (uint64_t)index);
  for (int i = 0; i < kFloats; i++) {
    float noise = braid_random_normal(kSeed, 1, 1, (uint64_t)(index * kFloats + i));
    float before = i > 0 ? pixels[i - 1] - 5 : 0;
    pixels[i] = 5 + (context ? 0 : 1) * (0.7f * before + 0.3f * noise + (i < kFloats / 2 ? 1 : -2) * level);
  }
  *label = 0;
  return BRAID_OK;
}

static braid_dataset *open_data(bool flat) {
  static int is_flat;
  const braid_dataset_source source = {.name = "pictures",
                                       .samples = kSamples,
                                       .channels = kChannels,
                                       .height = kHeight,
                                       .width = kWidth,
                                       .classes = 1,
                                       .read = read_sample,
                                       .context = flat ? &is_flat : NULL};
  braid_dataset *dataset;
  ok(braid_dataset_create(NULL, &source, "augment=flip", &dataset));
  return dataset;
}

static braid_graph *network(int64_t filters, const char *first) {
  braid_graph *graph;
  braid_value_id x, w;
  braid_node_id id;
  braid_desc desc;
  braid_tensor *tensor;
  ok(braid_graph_create(NULL, "first", &graph));
  ok(braid_graph_add_input(graph, "x",
                           &(braid_desc){.dtype = BRAID_F32, .rank = 4, .dims = {-1, kChannels, kHeight, kWidth}}, &x));
  if (first) ok(braid_graph_add_node(graph, first, NULL, &x, 1, &x, 1, NULL));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){filters, kChannels, kRows, kColumns}));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) braid_tensor_set_f64(tensor, i, 0.25);
  ok(braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, tensor, &w));
  braid_tensor_release(tensor);
  braid_value_id result = 0;
  ok(braid_graph_add_node(graph, "Conv", NULL, (braid_value_id[]){x, w}, 2, &result, 1, &id));
  ok(braid_graph_set_ints(graph, id, "dilations", (int64_t[]){1, kStep}, 2));
  ok(braid_graph_add_output(graph, result));
  return graph;
}

/* Filters of the whitened network: filters x kPatch. */
static float *whiten(int64_t filters) {
  braid_dataset *dataset = open_data(false);
  braid_graph *graph = network(filters, NULL), *out;
  ok(braid_whiten_filters(graph, dataset, &out));
  size_t bytes = (size_t)filters * kPatch * sizeof(float);
  float *copy = malloc(bytes);
  memcpy(copy, braid_tensor_const_data(out->values[braid_graph_find_value(out, "w")].tensor), bytes);
  assert_true(*(const float *)braid_tensor_const_data(graph->values[braid_graph_find_value(graph, "w")].tensor) ==
              0.25f);
  braid_graph_destroy(out);
  braid_graph_destroy(graph);
  braid_dataset_close(dataset);
  return copy;
}

static double apply(const float *filter, const float *pixels, int top, int left) {
  double sum = 0;
  for (int c = 0, at = 0; c < kChannels; c++)
    for (int y = 0; y < kRows; y++)
      for (int x = 0; x < kColumns; x++)
        sum += (double)filter[at++] * (double)pixels[(c * kHeight + top + y) * kWidth + left + x * kStep];
  return sum;
}

/* The square of a direction's length: 1 / its variance. */
static double length_of(const float *filters, int direction) {
  double sum = 0;
  for (int i = 0; i < kPatch; i++) sum += pow((double)filters[2 * direction * kPatch + i], 2);
  return sum;
}

static void test_whitens(void **state) {
  (void)state;
  float *filters = whiten(2 * kPatch + 1), pixels[kFloats];
  double mean[kPatch] = {0}, square[kPatch][kPatch] = {{0}}, count = 0;
  int32_t label;
  for (int64_t i = 0; i < kSamples; i++) {
    ok(read_sample(NULL, i, pixels, &label));
    for (int top = 0; top <= kHeight - kRows; top++)
      for (int left = 0; left <= kWidth - 1 - (kColumns - 1) * kStep; left++, count++)
        for (int f = 0; f < kPatch; f++) {
          double one = apply(filters + (ptrdiff_t)(2 * f) * kPatch, pixels, top, left);
          mean[f] += one;
          for (int g = 0; g <= f; g++)
            square[f][g] += one * apply(filters + (ptrdiff_t)(2 * g) * kPatch, pixels, top, left);
        }
  }
  double before = 0, floor = 0; /* what is added to the variance of each direction: 0.0005 of their mean */
  for (int f = 0; f < kPatch; f++) floor += 1 / length_of(filters, f) / kPatch / 1.0005 * 0.0005;
  for (int f = 0; f < kPatch; f++) {
    double length = length_of(filters, f);
    for (int i = 0; i < kPatch; i++) {
      assert_true(filters[(2 * f + 1) * kPatch + i] == -filters[2 * f * kPatch + i]);
    }
    assert_true(length >= before); /* the less a direction varies, the more it is scaled */
    before = length;
    for (int g = 0; g <= f; g++) {
      double covariance = square[f][g] / count - mean[f] * mean[g] / (count * count);
      if (!(fabs(covariance - (f == g ? 1 - floor * length : 0)) < 1e-4))
        fail_msg("directions %d and %d: covariance %.6g", f, g, covariance);
    }
  }
  for (int i = 0; i < kPatch; i++) assert_true(filters[2 * kPatch * kPatch + i] == 0.25f); /* beyond all directions */
  free(filters);
}

/* Fewer filters are the first ones. */
static void test_fewer(void **state) {
  (void)state;
  float *all = whiten(2 * kPatch), *few = whiten(5);
  assert_memory_equal(all, few, 5 * kPatch * sizeof *all);
  free(few);
  free(all);
}

static void test_refused(void **state) {
  (void)state;
  braid_dataset *data = open_data(false), *flat = open_data(true), *glyphs;
  braid_graph *graph = network(4, NULL), *late = network(4, "Relu"), *out;
  ok(braid_dataset_open(NULL, "builtin:glyphs", "train", &glyphs));
  assert_int_equal(braid_whiten_filters(late, data, &out), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "a Relu: a Conv that reads the samples is expected"));
  assert_int_equal(braid_whiten_filters(graph, glyphs, &out), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "filters of 2x2x3 numbers; at most 512 altogether are expected, of the "
                                               "data's 3 channels"));
  assert_int_equal(braid_whiten_filters(graph, flat, &out), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "patches do not differ"));
  assert_null(out);
  braid_graph_destroy(late);
  braid_graph_destroy(graph);
  braid_dataset_close(glyphs);
  braid_dataset_close(flat);
  braid_dataset_close(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whitens), cmocka_unit_test(test_fewer),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
