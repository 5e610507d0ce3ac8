#include "overlay/sim/package_steps.h"

#include "base/clock.h"
#include "base/try.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/sim/package_time.h"
#include "overlay/sim/timing.h"

struct braid_package_steps {
  const braid_allocator *allocator;
  braid_functional *simulator;
  size_t *ends; /* [core][layer]: instructions until the end of the layer */
  double *layer_seconds;
  size_t next; /* the layer before which the cores stand; 0: their memories are another task's */
  braid_package_steps_info info;
};

/* The layers of a core end where it synchronizes with the others; the last one with the program. */
static braid_status find_ends(braid_package_steps *steps, const braid_overlay_design *design, int core,
                              const braid_overlay_code *code) {
  braid_timing_program program = {0};
  size_t *ends = steps->ends + (size_t)core * steps->info.layers, layer = 0;
  braid_status status = braid_timing_read(code->bytes, code->count, design, core, steps->allocator, &program);
  for (size_t i = 0; status == BRAID_OK && i < program.count; i++) {
    const braid_instruction *in = &program.instructions[i];
    if (in->opcode != BRAID_ISA_OP_SYSTEM || !in->system.sync) continue;
    if (layer < steps->info.layers) ends[layer] = i + 1;
    layer++;
  }
  if (status == BRAID_OK && layer != steps->info.layers)
    status = braid_fail(BRAID_INTERNAL, "core %d ends %zu layers of %zu", core, layer, steps->info.layers);
  if (status == BRAID_OK) ends[steps->info.layers - 1] = program.count;
  braid_timing_program_free(&program, steps->allocator);
  return status;
}

static braid_status make_simulator(braid_package_steps *steps, const braid_overlay_design *design,
                                   braid_programs *programs) {
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  BRAID_TRY(braid_programs_gather(programs));
  for (int c = 0; c < steps->info.cores; c++) {
    code[c] = (braid_overlay_code){programs->core[c].code, programs->core[c].bytes};
    steps->info.bytes += programs->core[c].bytes;
    BRAID_TRY(find_ends(steps, design, c, &code[c]));
  }
  return braid_functional_create(design, steps->info.cores, code, steps->allocator, &steps->simulator);
}

static braid_status make_steps(braid_package_steps *steps, const braid_package *package,
                               const braid_overlay_design *design) {
  size_t layers = steps->info.layers = package->layer_count;
  steps->ends = braid_zalloc_array(steps->allocator, layers * (size_t)steps->info.cores + 1, sizeof *steps->ends);
  steps->layer_seconds = braid_zalloc_array(steps->allocator, layers + 1, sizeof *steps->layer_seconds);
  if (!steps->ends || !steps->layer_seconds) return BRAID_NO_MEMORY;
  braid_programs programs;
  braid_programs_init(&programs, steps->allocator);
  int64_t began = braid_now_ns();
  braid_status status = braid_programs_make(package, steps->info.cores, 0, &programs);
  steps->info.compile_microseconds = (double)(braid_now_ns() - began) * 1e-3;
  if (status == BRAID_OK) status = make_simulator(steps, design, &programs);
  for (size_t i = 0; status == BRAID_OK && i < layers; i++) {
    steps->layer_seconds[i] = (double)programs.layers[i].cycles / (design->clock_mhz * 1e6);
    steps->info.seconds += steps->layer_seconds[i];
  }
  steps->info.layer_seconds = steps->layer_seconds;
  steps->info.transfer_seconds =
      design->host_latency_us * 1e-6 + (double)steps->info.bytes / (design->host_gigabytes_per_second * 1e9);
  braid_programs_deinit(&programs);
  return status;
}

braid_status braid_package_steps_create(const braid_package *package, const braid_overlay_design *design, int cores,
                                        const braid_allocator *allocator, braid_package_steps **out) {
  *out = NULL;
  if (package->rnn || !package->layer_count)
    return braid_fail(BRAID_UNSUPPORTED, "a recurrent network has no layers to be run one by one");
  BRAID_TRY(braid_package_fits(package, design, cores));
  braid_package_steps *steps = braid_zalloc(allocator, sizeof *steps);
  if (!steps) return BRAID_NO_MEMORY;
  *steps = (braid_package_steps){.allocator = allocator, .info.cores = cores};
  braid_status status = make_steps(steps, package, design);
  if (status == BRAID_OK)
    *out = steps;
  else
    braid_package_steps_destroy(steps);
  return status;
}

void braid_package_steps_destroy(braid_package_steps *steps) {
  if (!steps) return;
  braid_functional_destroy(steps->simulator);
  braid_free(steps->allocator, steps->ends);
  braid_free(steps->allocator, steps->layer_seconds);
  braid_free(steps->allocator, steps);
}

braid_status braid_package_steps_run(braid_package_steps *steps, const braid_overlay_image *image, size_t first,
                                     size_t end) {
  size_t from[BRAID_OVERLAY_MOST_CORES] = {0}, to[BRAID_OVERLAY_MOST_CORES] = {0}, layers = steps->info.layers;
  if (first >= end || end > layers)
    return braid_fail(BRAID_INVALID_ARGUMENT, "layers %zu to %zu of %zu", first, end, layers);
  for (int c = 0; c < steps->info.cores; c++) {
    const size_t *ends = steps->ends + (size_t)c * layers;
    from[c] = first ? ends[first - 1] : 0;
    to[c] = ends[end - 1];
  }
  const braid_functional_options options = {.from = from, .to = to, .goes_on = first && first == steps->next};
  braid_status status = braid_functional_run(steps->simulator, image, &options, NULL);
  steps->next = status == BRAID_OK ? end : 0;
  return status;
}

void braid_package_steps_leave(braid_package_steps *steps) {
  steps->next = 0;
}

braid_package_steps_info braid_package_steps_get_info(const braid_package_steps *steps) {
  return steps->info;
}
