/* Memory of the functional simulator's cores, and their programs, read and checked. */
#include "base/try.h"
#include "overlay/sim/functional_internal.h"

enum { kLineBytes = 16 };

static void *take(const braid_functional *sim, int64_t bytes) {
  return braid_zalloc(sim->allocator, (size_t)bytes);
}

static braid_status make_core(braid_functional *sim, int index) {
  braid_overlay_core *core = &sim->cores[index];
  const braid_overlay_program *program = &sim->programs[index];
  int64_t packed = 0, gathered = 0, channels = 0, rows = 0;
  for (size_t i = 0; i < program->count; i++) {
    const braid_instruction *instruction = &program->steps[i].instruction;
    int64_t p, g;
    braid_overlay_conv_space(instruction, &p, &g);
    if (p > packed) packed = p;
    if (g > gathered) gathered = g;
    if (instruction->opcode == BRAID_ISA_OP_CONV && instruction->conv.channels_out > channels)
      channels = instruction->conv.channels_out;
    if (instruction->opcode == BRAID_ISA_OP_MVM && instruction->mvm.rows > rows) rows = instruction->mvm.rows;
  }
  core->design = &sim->design;
  core->tangents = sim->tangents;
  core->memories[BRAID_ISA_VECTORS] = sim->vectors;
  bool made = true;
  for (int m = 0; m < BRAID_ISA_VECTORS; m++) {
    int64_t lines = braid_overlay_memory_lines(&sim->design, (braid_isa_memory)m);
    made = made && (!lines || (core->memories[m] = take(sim, lines * kLineBytes)) != NULL);
  }
  if (channels) {
    int64_t sums = braid_overlay_conv_sums(channels);
    if (sums < sim->design.sum_bytes / 4) sums = sim->design.sum_bytes / 4;
    made = made && (core->sums = take(sim, sums * (int64_t)sizeof *core->sums)) != NULL &&
           (core->packed = take(sim, packed * (int64_t)sizeof *core->packed)) != NULL &&
           (core->gathered = take(sim, gathered * (int64_t)sizeof *core->gathered)) != NULL;
  }
  if (rows) made = made && (core->wide_sums = take(sim, rows * (int64_t)sizeof *core->wide_sums)) != NULL;
  return made ? BRAID_OK : braid_fail(BRAID_NO_MEMORY, "no memory for core %d of the overlay", index);
}

static braid_status make(braid_functional *sim, const braid_overlay_code *programs) {
  int64_t vectors = braid_overlay_memory_lines(&sim->design, BRAID_ISA_VECTORS);
  size_t cores = (size_t)sim->count;
  sim->programs = braid_zalloc_array(sim->allocator, cores, sizeof *sim->programs);
  sim->cores = braid_zalloc_array(sim->allocator, cores, sizeof *sim->cores);
  sim->places = braid_zalloc_array(sim->allocator, cores, sizeof *sim->places);
  if (vectors) sim->vectors = take(sim, vectors * kLineBytes);
  if (!sim->programs || !sim->cores || !sim->places || (vectors && !sim->vectors))
    return braid_fail(BRAID_NO_MEMORY, "no memory for %d cores of the overlay", sim->count);
  for (int c = 0; c < sim->count; c++) {
    braid_status status = braid_overlay_program_read(programs[c].bytes, programs[c].count, &sim->design, c,
                                                     sim->allocator, &sim->programs[c]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "core %d", c);
    BRAID_TRY(make_core(sim, c));
  }
  braid_overlay_tangents(sim->tangents);
  return BRAID_OK;
}

braid_status braid_functional_create(const braid_overlay_design *design, int cores, const braid_overlay_code *programs,
                                     const braid_allocator *allocator, braid_functional **out) {
  *out = NULL;
  BRAID_TRY(braid_overlay_design_check(design));
  if (cores < 1 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; 1 to %d are allowed", cores, BRAID_OVERLAY_MOST_CORES);
  braid_functional *sim = braid_zalloc(allocator, sizeof *sim);
  if (!sim) return braid_fail(BRAID_NO_MEMORY, "no memory for a simulator of the overlay");
  sim->allocator = allocator;
  sim->design = *design;
  sim->design.name = sim->design.summary = NULL; /* the caller's */
  sim->design.sources = NULL;
  sim->count = cores;
  braid_status status = make(sim, programs);
  if (status == BRAID_OK)
    *out = sim;
  else
    braid_functional_destroy(sim);
  return status;
}

void braid_functional_destroy(braid_functional *sim) {
  if (!sim) return;
  for (int c = 0; sim->cores && c < sim->count; c++) {
    for (int m = 0; m < BRAID_ISA_VECTORS; m++) braid_free(sim->allocator, sim->cores[c].memories[m]);
    braid_free(sim->allocator, sim->cores[c].sums);
    braid_free(sim->allocator, sim->cores[c].wide_sums);
    braid_free(sim->allocator, sim->cores[c].packed);
    braid_free(sim->allocator, sim->cores[c].gathered);
  }
  for (int c = 0; sim->programs && c < sim->count; c++) braid_overlay_program_free(&sim->programs[c]);
  braid_free(sim->allocator, sim->programs);
  braid_free(sim->allocator, sim->cores);
  braid_free(sim->allocator, sim->places);
  braid_free(sim->allocator, sim->vectors);
  braid_free(sim->allocator, sim);
}
