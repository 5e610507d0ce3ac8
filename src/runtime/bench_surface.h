/* What the surface costs, for frame_bench: a call of one op. */
#ifndef BRAID_RUNTIME_BENCH_SURFACE_H
#define BRAID_RUNTIME_BENCH_SURFACE_H

#include "base/clock.h"
#include "base/try.h"
#include "braid/op.h"

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

#endif
