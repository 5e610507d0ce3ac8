/* What the surface costs, for frame_bench: a call of one op, loading a saved plan. */
#ifndef BRAID_RUNTIME_BENCH_SURFACE_H
#define BRAID_RUNTIME_BENCH_SURFACE_H

#include "base/clock.h"
#include "base/try.h"
#include "braid/op.h"
#include "braid/plan.h"
#include "runtime/surface/bench_nets.h"

/* Relu of 16 numbers on the CPU: the first call, which prepares, and `count` more in microseconds each. */
static inline braid_status bench_call(double *first_us, double *times_us, int count) {
  braid_machine *machine;
  braid_desc desc;
  braid_buffer *in = NULL, *out = NULL;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){16}));
  BRAID_TRY(braid_machine_create(NULL, NULL, &machine));
  braid_status status = braid_buffer_create(machine, NULL, &desc, &in);
  if (status == BRAID_OK) status = braid_buffer_create(machine, NULL, &desc, &out);
  if (status == BRAID_OK) status = braid_buffer_write(in, (float[16]){-1, 1}, 16 * sizeof(float), -1);
  braid_op_call call = {.op = "Relu", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
  for (int i = -1; status == BRAID_OK && i < count; i++) {
    int64_t start = braid_now_ns();
    status = braid_machine_call(machine, &call);
    *(i < 0 ? first_us : &times_us[i]) = (double)(braid_now_ns() - start) / 1e3;
  }
  braid_buffer_release(in);
  braid_buffer_release(out);
  braid_machine_release(machine);
  return status;
}

/* Loading the plan of ResNet-50 on the CPU from memory, `count` times in milliseconds each. */
static inline braid_status bench_load(double *times_ms, int count, size_t *bytes) {
  braid_machine *machine = NULL;
  braid_graph *graph = NULL;
  braid_plan *plan = NULL;
  void *data = NULL;
  BRAID_TRY(bench_net_create(NULL, false, &graph));
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK) status = braid_plan_encode(plan, graph, NULL, &data, bytes);
  for (int i = 0; status == BRAID_OK && i < count; i++) {
    braid_plan *loaded;
    int64_t start = braid_now_ns();
    status = braid_plan_decode(machine, graph, data, *bytes, &loaded);
    times_ms[i] = (double)(braid_now_ns() - start) / 1e6;
    braid_plan_release(loaded);
  }
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_machine_release(machine);
  braid_graph_destroy(graph);
  return status;
}

#endif
