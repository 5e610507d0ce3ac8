/* Models trained by others (BRAID_DATA/models), against what ONNX Runtime 1.x gives for the same numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "braid/braid.h"
#include "skip.h"

static void check(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* The test is skipped if the file is not there. */
static const char *model_path(const char *name) {
  static char path[512];
  const char *data = getenv("BRAID_DATA");
  snprintf(path, sizeof path, "%s/models/%s", data ? data : "", name);
  FILE *file = data ? fopen(path, "rb") : NULL;
  if (!file) skip_test("data", "there is no BRAID_DATA/models/%s", name);
  fclose(file);
  return path;
}

/* Voice activity: convolutions, an LSTM, and nested If nodes that shapes decide. */
static void test_silero(void **state) {
  (void)state;
  const char *path = model_path("silero-vad/silero_vad_16k_op15.onnx");
  braid_graph *graph;
  braid_session *session;
  check(braid_model_load(NULL, path, NULL, &graph));
  check(braid_graph_set_input_shape(graph, braid_graph_find_value(graph, "input"), 2, (int64_t[]){1, 576}));
  check(braid_graph_set_input_shape(graph, braid_graph_find_value(graph, "state"), 3, (int64_t[]){2, 1, 128}));
  check(braid_session_create(graph, NULL, &session));
  float sound[576], before[256] = {0}, after[256], voice;
  for (int i = 0; i < 576; i++) sound[i] = (float)(i % 32) / 32 - 0.5f;
  int64_t rate = 16000;
  check(braid_session_run(session, (const void *const[]){sound, before, &rate}, (void *const[]){&voice, after}));
  assert_true(fabsf(voice - 0.0058265030f) < 1e-6f);
  assert_true(fabsf(after[0] + 0.0383995064f) < 1e-5f);
  assert_true(fabsf(after[100] + 0.1756777912f) < 1e-5f);
  assert_true(fabsf(after[255] + 0.9468975663f) < 1e-5f);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

/* YOLO-fastest from .cfg and .weights: what should be probabilities are. */
static void test_yolo_fastest(void **state) {
  (void)state;
  char weights[512];
  const char *path = model_path("yolo-fastest/yolo-fastest-1.1.weights");
  snprintf(weights, sizeof weights, "%s", path);
  path = model_path("yolo-fastest/yolo-fastest-1.1.cfg");
  braid_graph *graph;
  braid_session *session;
  check(braid_model_load(NULL, path, &(braid_model_options){.weights = weights}, &graph));
  check(braid_session_create(graph, NULL, &session));
  enum { SIDE = 320, FIRST = 255 * 10 * 10, SECOND = 255 * 20 * 20, CELLS = 100 };
  float *picture = malloc(3 * SIDE * SIDE * sizeof(float)), *coarse = malloc(FIRST * sizeof(float));
  float *fine = malloc(SECOND * sizeof(float));
  assert_true(picture && coarse && fine);
  for (int i = 0; i < 3 * SIDE * SIDE; i++) picture[i] = 0.5f + 0.5f * sinf((float)i * 0.01f);
  check(braid_session_run(session, (const void *const[]){picture}, (void *const[]){coarse, fine}));
  for (int box = 0; box < 3; box++)
    for (int value = 0; value < 85; value++)
      for (int cell = 0; cell < CELLS; cell++) {
        float got = coarse[(box * 85 + value) * CELLS + cell];
        assert_true(isfinite(got));
        if (value >= 4) assert_true(got >= 0 && got <= 1);
      }
  free(picture);
  free(coarse);
  free(fine);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_silero), cmocka_unit_test(test_yolo_fastest)};
  return skip_run_group_tests(tests, NULL, NULL);
}
