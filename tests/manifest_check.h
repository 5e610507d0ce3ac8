/* What the tests of manifests share: files in a folder of the test's own, and a graph of one node on the CPU and by a
 * kernel of a manifest. */
#ifndef BRAID_TESTS_MANIFEST_CHECK_H
#define BRAID_TESTS_MANIFEST_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/opencl/manifest.h"
#include "base/philox.h"
#include "braid/session.h"
#include "folder.h"
#include "graph/graph.h"
#include "skip.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static inline void need_device(void) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */

static inline void put(const char *name, const void *bytes, size_t count, char path[256]) {
  snprintf(path, 256, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

/* --- whole nodes ---------------------------------------------------------------------------------------------------
 */
static inline braid_value_id random_input(braid_graph *graph, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, rank, dims));
  OK(braid_graph_add_input(graph, NULL, &desc, &id));
  return id;
}

static inline float *random_data(const braid_desc *desc, uint32_t stream) {
  int64_t count = braid_desc_count(desc);
  float *data = malloc((size_t)count * sizeof *data + 1);
  for (int64_t i = 0; i < count; i++) data[i] = 2 * braid_random_uniform(31, 0, stream, (uint64_t)i) - 1;
  return data;
}

/* The plan's line for the node "n"; on memory of its own transfers stand around it. */
static inline braid_plan_line line_of_node(const braid_session *session) {
  size_t i = 0;
  while (i + 1 < braid_session_plan_count(session) && strcmp(braid_session_plan(session, i).node, "n") != 0) i++;
  return braid_session_plan(session, i);
}

/* Runs the graph on the CPU and on the device, where `kernel` is expected for the node "n", whatever could be fused. */
static inline void compare(const braid_graph *graph, const char *device, const char *kernel) {
  braid_session *sessions[2];
  OK(braid_session_create(graph, &(braid_session_options){.devices = "cpu", .no_fusion = true}, &sessions[0]));
  OK(braid_session_create(graph, &(braid_session_options){.devices = device}, &sessions[1]));
  braid_plan_line line = line_of_node(sessions[1]);
  if (strcmp(line.kernel, kernel) != 0) fail_msg("%s does not run: %s", kernel, line.why);
  float *inputs[4] = {NULL}, *outputs[2];
  for (size_t i = 0; i < braid_session_input_count(sessions[0]); i++)
    inputs[i] = random_data(braid_session_input(sessions[0], i), (uint32_t)i);
  int64_t count = braid_desc_count(braid_session_output(sessions[0], 0));
  for (int i = 0; i < 2; i++) {
    outputs[i] = calloc((size_t)count, sizeof(float));
    OK(braid_session_run(sessions[i], (const void *const *)inputs, (void *[]){outputs[i]}));
    OK(braid_session_run(sessions[i], (const void *const *)inputs, (void *[]){outputs[i]}));
  }
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(outputs[0][i] - outputs[1][i]) <= 1e-4f * (1 + fabsf(outputs[0][i]))))
      fail_msg("%s: element %lld is %g, not %g", kernel, (long long)i, (double)outputs[1][i], (double)outputs[0][i]);
  for (int i = 0; i < 4; i++) free(inputs[i]);
  for (int i = 0; i < 2; i++) {
    free(outputs[i]);
    braid_session_destroy(sessions[i]);
  }
}

/* y = op(x) of `count` floats; the node "n". */
static inline braid_graph *unary(const char *op, int64_t count) {
  braid_graph *graph;
  braid_value_id y;
  OK(braid_graph_create(NULL, op, &graph));
  braid_value_id x = random_input(graph, 1, &count);
  OK(braid_graph_add_node(graph, op, "n", &x, 1, &y, 1, NULL));
  OK(braid_graph_add_output(graph, y));
  return graph;
}

#endif
