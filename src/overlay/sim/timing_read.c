/* Programs for the timing simulator, from bytes. */
#include "overlay/sim/program.h"
#include "overlay/sim/timing.h"

braid_status braid_timing_read(const uint8_t *bytes, size_t count, const braid_overlay_design *design, int core,
                               const braid_allocator *allocator, braid_timing_program *out) {
  braid_overlay_program read = {0};
  *out = (braid_timing_program){.core = core};
  braid_status status = braid_overlay_program_read(bytes, count, design, core, allocator, &read);
  braid_instruction *instructions =
      status == BRAID_OK ? braid_zalloc_array(allocator, read.count + 1, sizeof *instructions) : NULL;
  if (status == BRAID_OK && !instructions) status = BRAID_NO_MEMORY;
  for (size_t i = 0; status == BRAID_OK && i < read.count; i++) instructions[i] = read.steps[i].instruction;
  if (status == BRAID_OK) *out = (braid_timing_program){core, instructions, read.count, 0};
  braid_overlay_program_free(&read);
  return status;
}

void braid_timing_program_free(braid_timing_program *program, const braid_allocator *allocator) {
  braid_free(allocator, (void *)(uintptr_t)program->instructions);
  *program = (braid_timing_program){0};
}
