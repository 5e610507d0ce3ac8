/* Random networks that ONNX Runtime's quantizer made (Q/DQ and QLinear; int8 and uint8; per tensor and per channel)
 * give what ONNX Runtime computes: in units of the output's scale, nearly all the same. Where BRAID_PYTHON names a
 * Python that has ONNX Runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "braid/model.h"
#include "braid/session.h"
#include "braid/tensor.h"
#include "folder.h"
#include "skip.h"

enum { kNets = 24, kOutputs = 20 };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static braid_tensor *load(int number, const char *what) {
  char path[128];
  braid_tensor *tensor;
  snprintf(path, sizeof path, "%s/%d_%s.npy", folder, number, what);
  ok(braid_npy_load(NULL, path, &tensor));
  return tensor;
}

/* Differences of a network's outputs in units; how many there are of one or more. */
static int run_net(int number, double *most) {
  char path[128];
  float results[kOutputs];
  braid_graph *graph;
  braid_session *session;
  snprintf(path, sizeof path, "%s/%d.onnx", folder, number);
  ok(braid_model_load(NULL, path, NULL, &graph));
  ok(braid_session_create(graph, NULL, &session));
  braid_tensor *x = load(number, "x"), *y = load(number, "y"), *unit = load(number, "unit");
  ok(braid_session_run(session, (const void *[]){braid_tensor_const_data(x)}, (void *[]){results}));
  int integers = 0, off = 0;
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    integers += strstr(braid_session_plan(session, i).op, "QLinear") != NULL;
  assert_true(integers > 0);
  for (int i = 0; i < kOutputs; i++) {
    double difference = fabs(results[i] - ((const float *)braid_tensor_const_data(y))[i]);
    difference /= ((const float *)braid_tensor_const_data(unit))[0];
    off += difference > 0.5;
    if (difference > *most) *most = difference;
  }
  braid_tensor_release(x), braid_tensor_release(y), braid_tensor_release(unit);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return off;
}

static void networks_of_the_quantizer(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  char command[1024];
  snprintf(command, sizeof command, "'%s' -c 'import onnxruntime.quantization' 2>/dev/null", python ? python : "");
  if (!python || !*python || system(command) != 0) skip_test("peers", "BRAID_PYTHON names no Python with onnxruntime");
  snprintf(command, sizeof command, "'%s' '%s/../oracle/quantized_nets.py' '%s' %d >/dev/null 2>&1", python,
           BRAID_TEST_DATA, folder, kNets);
  assert_int_equal(system(command), 0);
  int off = 0;
  double most = 0;
  for (int i = 0; i < kNets; i++) {
    double here = 0;
    int differ = run_net(i, &here);
    if (here > 2.5) fail_msg("network %d differs by %.1f units", i, here);
    off += differ;
    most = fmax(most, here);
  }
  print_message("%d of %d outputs differ, by %.1f units at most\n", off, kNets * kOutputs, most);
  assert_true(off * 10 <= kNets * kOutputs);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(networks_of_the_quantizer)};
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
