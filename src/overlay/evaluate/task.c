/* Programs that are ready to be timed: of packages, and of LSTM layers with drawn weights. */
#include <string.h>
#include <time.h>

#include "base/try.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/evaluate/evaluate.h"
#include "overlay/recurrent/rnn_static.h"

/* Of this thread: without what others had of the processor meanwhile. */
static double processor_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static braid_status decode(braid_overlay_task *task, int core, const uint8_t *code, size_t bytes) {
  braid_instruction *instructions =
      braid_zalloc_array(task->allocator, bytes / BRAID_ISA_WORD + 1, sizeof *instructions);
  task->instructions[core] = instructions;
  if (!instructions) return BRAID_NO_MEMORY;
  for (size_t at = 0, next; at < bytes; at = next)
    BRAID_TRY(braid_isa_decode(code, bytes, at, &instructions[task->counts[core]++], &next));
  task->program_bytes[core] = (int64_t)bytes;
  task->info.program_bytes += (int64_t)bytes;
  return BRAID_OK;
}

void braid_overlay_task_destroy(braid_overlay_task *task) {
  if (!task) return;
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) braid_free(task->allocator, task->instructions[c]);
  braid_free(task->allocator, task);
}

braid_overlay_task_info braid_overlay_task_get_info(const braid_overlay_task *task) {
  return task->info;
}

/* --- packages ------------------------------------------------------------------------------------------------------
 */
/* The second time is measured: the first has to ask for memory, which whoever shares a card does once. */
static braid_status make_programs(const braid_package *package, braid_overlay_task *task) {
  braid_programs programs;
  braid_programs_init(&programs, task->allocator);
  braid_status status = braid_programs_make(package, task->info.cores, 0, &programs);
  double begin = processor_ms();
  if (status == BRAID_OK) status = braid_programs_make(package, task->info.cores, 0, &programs);
  task->info.compile_ms = processor_ms() - begin;
  if (status == BRAID_OK) status = braid_programs_gather(&programs);
  for (int c = 0; status == BRAID_OK && c < task->info.cores; c++)
    status = decode(task, c, programs.core[c].code, programs.core[c].bytes);
  braid_programs_deinit(&programs);
  return status;
}

braid_status braid_overlay_task_create(const braid_overlay_package *package, int cores,
                                       const braid_allocator *allocator, braid_overlay_task **out) {
  *out = NULL;
  if (cores < 1 || cores > BRAID_OVERLAY_MOST_CORES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; 1 to %d are allowed", cores, BRAID_OVERLAY_MOST_CORES);
  braid_overlay_task *task = braid_zalloc(allocator, sizeof *task);
  if (!task) return BRAID_NO_MEMORY;
  task->allocator = allocator;
  memcpy(task->design, package->design, sizeof task->design);
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) task->bytes[s] = package->bytes[s];
  task->info = (braid_overlay_task_info){.cores = cores, .constant_bytes = package->bytes[BRAID_SEGMENT_CONSTANTS]};
  task->info.macs = braid_overlay_package_get_info(package).macs;
  if (package->rnn) task->info.context_bytes = braid_rnn_context_bytes(package->rnn);
  braid_status status = make_programs(package, task);
  if (status == BRAID_OK)
    *out = task;
  else
    braid_overlay_task_destroy(task);
  return status;
}

/* --- LSTM ----------------------------------------------------------------------------------------------------------
 */
static void draw_numbers(float *out, size_t count, float most, uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    out[i] = ((float)(*state >> 40) * 0x1p-23F - 1) * most;
  }
}

braid_status braid_overlay_lstm_draw(const braid_allocator *allocator, int hidden, double *create_ms,
                                     braid_overlay_lstm **out) {
  uint64_t state = 1;
  *out = NULL;
  *create_ms = 0;
  if (hidden < 1 || hidden > BRAID_LSTM_MOST_SIDE)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d states; 1 to %d are allowed", hidden, BRAID_LSTM_MOST_SIDE);
  size_t count = 4 * (size_t)hidden * (size_t)hidden;
  float *numbers = braid_zalloc_array(allocator, 2 * count, sizeof *numbers);
  if (!numbers) return BRAID_NO_MEMORY;
  draw_numbers(numbers, 2 * count, 0.1F, &state);
  double begin = processor_ms();
  braid_status status = braid_lstm_create(allocator, hidden, hidden, numbers, numbers + count, NULL, 1, out);
  *create_ms = processor_ms() - begin;
  braid_free(allocator, numbers);
  return status;
}

void braid_overlay_lstm_destroy(braid_overlay_lstm *lstm) {
  braid_lstm_destroy(lstm);
}

braid_status braid_overlay_lstm_package(const braid_overlay_lstm *lstm, int steps, const braid_overlay_design *design,
                                        const braid_allocator *allocator, double *compile_ms,
                                        braid_overlay_package **out) {
  double begin = processor_ms();
  *out = NULL;
  *compile_ms = 0;
  if (!design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "%s is a design for networks of convolutions", design->name);
  if (steps < 1 || steps > BRAID_RNN_MOST_STEPS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d steps; 1 to %d are allowed", steps, BRAID_RNN_MOST_STEPS);
  BRAID_TRY(braid_rnn_compile_layer(lstm, steps, design, allocator, out));
  *compile_ms = processor_ms() - begin;
  return BRAID_OK;
}

/* --- on a card -----------------------------------------------------------------------------------------------------
 */
void braid_overlay_task_place(const braid_overlay_task *task, const braid_overlay_design *design, int core,
                              uint64_t *line, braid_placed_task *out) {
  uint64_t block = (uint64_t)design->burst_bytes / BRAID_ISA_WORD;
  out->task = (braid_timing_task){.programs = out->programs, .core_count = (size_t)task->info.cores, .code = out->code};
  for (int s = 0; s < BRAID_TIMING_SEGMENTS; s++) {
    uint64_t lines = (uint64_t)task->bytes[s] / BRAID_ISA_WORD;
    bool read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    out->task.ranges[s] = (braid_timing_range){*line, lines, read_only};
    *line += lines;
  }
  for (int c = 0; c < task->info.cores; c++) {
    bool fits = (uint64_t)task->program_bytes[c] <= braid_timing_instruction_part(design);
    *line = (*line + block - 1) / block * block;
    out->code[c] = fits ? BRAID_TIMING_RESIDENT : *line;
    *line += (uint64_t)task->program_bytes[c] / BRAID_ISA_WORD;
    out->programs[c] = (braid_timing_program){
        .core = core + c, .instructions = task->instructions[c], .count = task->counts[c], .first = 0};
  }
}
