/* Any bytes are either a plan for this graph on this machine or a failure with a sentence. What stands behind the
 * header gets the digest that fits it: else nothing would be looked at. */
#include <stdlib.h>
#include <string.h>

#include "braid/plan.h"
#include "runtime/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static braid_machine *machine;
static braid_graph *graph;

static braid_status make(void) {
  braid_desc desc;
  braid_value_id at;
  braid_status status = braid_machine_create(NULL, &(braid_machine_options){.devices = "cpu:threads=1"}, &machine);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){2, 6});
  if (status == BRAID_OK) status = braid_graph_create(NULL, "net", &graph);
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &at);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Softmax", NULL, &at, 1, &at, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_set_int(graph, 0, "axis", 0);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Relu", NULL, &at, 1, &at, 1, NULL);
  return status == BRAID_OK ? braid_graph_add_output(graph, at) : status;
}

/* The plan of the graph with the input over its end, so that small changes are tried from a whole file. */
static uint8_t *mix(const uint8_t *data, size_t bytes, size_t *length) {
  enum { kHeader = 40 };
  braid_plan *plan;
  void *saved;
  if (braid_plan_create(machine, graph, NULL, &plan) != BRAID_OK ||
      braid_plan_encode(plan, graph, NULL, &saved, length) != BRAID_OK)
    abort();
  braid_plan_release(plan);
  size_t room = *length - kHeader, at = bytes > 1 ? (size_t)(data[0] | data[1] << 8) % room : 0;
  for (size_t i = 2; i < bytes && at + i - 2 < room; i++) ((uint8_t *)saved)[kHeader + at + i - 2] ^= data[i];
  braid_digest digest = braid_digest_of((uint8_t *)saved + kHeader, room);
  memcpy((uint8_t *)saved + kHeader - sizeof digest, &digest, sizeof digest);
  return saved;
}

static void try_one(const uint8_t *data, size_t bytes) {
  float x[12] = {0}, y[12];
  braid_plan *plan;
  braid_execution *execution = NULL;
  braid_status status = braid_plan_decode(machine, graph, data, bytes, &plan);
  if ((status == BRAID_OK) != (plan != NULL)) abort();
  if (status != BRAID_OK && status != BRAID_NO_MEMORY && !braid_error_detail()[0]) abort();
  if (plan && braid_execution_create(plan, NULL, &execution) == BRAID_OK &&
      braid_execution_run(execution, (const void *[]){x}, (void *[]){y}) != BRAID_OK)
    abort();
  braid_execution_destroy(execution);
  braid_plan_release(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  size_t length;
  if (!machine && make() != BRAID_OK) abort();
  try_one(data, bytes);
  uint8_t *mixed = mix(data, bytes, &length);
  try_one(mixed, length);
  braid_free(NULL, mixed);
  return 0;
}
