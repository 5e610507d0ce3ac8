#include "base/philox.h"
#include "base/try.h"
#include "overlay/sim/functional_internal.h"

enum { kModules = BRAID_ISA_MODULES, kMostTokens = 255, kLineBytes = 16 };
static const char *const kModuleNames[] = {"load", "save", "compute", "side"};

/* --- instructions ---------------------------------------------------------------------------------------------------
 */
static const braid_overlay_step *step_of(const braid_functional *sim, int core, uint32_t step) {
  return &sim->programs[core].steps[step];
}

static braid_status fail_at(const braid_functional *sim, braid_status status, int core, uint32_t step) {
  const braid_overlay_step *at = step_of(sim, core, step);
  return braid_fail_prefix(status, "core %d, byte %zu, %s", core, at->at,
                           braid_isa_form_of(at->instruction.opcode)->name);
}

/* The first line of its segment in the image, if the tenant may do what it asks for there. */
static braid_status check_range(const braid_functional *sim, int core, uint32_t step, int64_t *first) {
  const braid_instruction *instruction = &step_of(sim, core, step)->instruction;
  bool save = instruction->opcode == BRAID_ISA_OP_SAVE;
  int32_t index = save ? instruction->save.segment : instruction->load.segment;
  const braid_overlay_segment *segment = &sim->image->segments[index];
  braid_overlay_lines lines[BRAID_OVERLAY_MOST_LINES];
  (void)braid_overlay_lines_of(&sim->design, instruction, lines);
  int64_t last = braid_overlay_lines_last(&lines[0]), size = (int64_t)(segment->bytes / kLineBytes);
  braid_status status = BRAID_OK;
  if (last >= size)
    status = braid_fail(BRAID_OUT_OF_RANGE, "%s line %lld of segment %d, which has %lld", save ? "writes" : "reads",
                        (long long)last, index, (long long)size);
  else if (save && segment->read_only)
    status = braid_fail(BRAID_OUT_OF_RANGE, "writes to segment %d, which may only be read", index);
  *first = (int64_t)(segment->first / kLineBytes);
  return status == BRAID_OK ? status : fail_at(sim, status, core, step);
}

/* LOAD and SAVE: copies rows of lines between DDR and the chip. */
static void move(braid_functional *sim, int core_index, const braid_instruction *instruction, int64_t segment) {
  braid_overlay_core *core = &sim->cores[core_index];
  braid_overlay_lines lines[BRAID_OVERLAY_MOST_LINES];
  (void)braid_overlay_lines_of(&sim->design, instruction, lines);
  uint8_t *ddr = sim->image->ddr + (segment + lines[0].first) * kLineBytes;
  uint8_t *chip = core->memories[lines[1].memory] + lines[1].first * kLineBytes;
  size_t bytes = (size_t)lines[0].columns * kLineBytes;
  uint64_t *moved = lines[0].write ? &sim->counts.saved_bytes : &sim->counts.loaded_bytes;
  for (int64_t p = 0; p < lines[0].planes; p++)
    for (int64_t r = 0; r < lines[0].rows; r++) {
      uint8_t *far = ddr + (p * lines[0].plane_pitch + r * lines[0].row_pitch) * kLineBytes;
      uint8_t *near = chip + (p * lines[1].plane_pitch + r * lines[1].row_pitch) * kLineBytes;
      if (lines[0].write)
        memcpy(far, near, bytes);
      else
        memcpy(near, far, bytes);
    }
  *moved += (uint64_t)(lines[0].planes * lines[0].rows) * bytes;
  if (lines[1].write && lines[1].memory == BRAID_ISA_WEIGHTS) core->is_packed = false;
}

static void execute(braid_functional *sim, int index, const braid_overlay_step *step, int64_t segment) {
  const braid_instruction *instruction = &step->instruction;
  braid_overlay_core *core = &sim->cores[index];
  switch ((braid_isa_opcode)instruction->opcode) {
  case BRAID_ISA_OP_LOAD:
  case BRAID_ISA_OP_SAVE:
    move(sim, index, instruction, segment);
    break;
  case BRAID_ISA_OP_CONV:
    braid_overlay_conv(core, instruction);
    sim->counts.multiply_accumulates += (uint64_t)step->work;
    break;
  case BRAID_ISA_OP_MVM:
    braid_overlay_mvm(core, &instruction->mvm);
    sim->counts.multiply_accumulates += (uint64_t)step->work;
    break;
  case BRAID_ISA_OP_MISC:
    braid_overlay_misc(core, instruction);
    sim->counts.side_operations += (uint64_t)step->work;
    break;
  case BRAID_ISA_OP_ELE:
    braid_overlay_ele(core, &instruction->ele);
    sim->counts.side_operations += (uint64_t)step->work;
    break;
  case BRAID_ISA_OP_SYSTEM:
    break;
  }
}

/* Counts an instruction; TIMEOUT: it is beyond a limit. */
static braid_status count_step(braid_functional *sim, int core, uint32_t step) {
  const braid_overlay_step *at = step_of(sim, core, step);
  const braid_functional_options *options = &sim->options;
  if (options->most_instructions && sim->done >= options->most_instructions)
    return fail_at(sim,
                   braid_fail(BRAID_TIMEOUT, "is beyond the limit of %llu instructions",
                              (unsigned long long)options->most_instructions),
                   core, step);
  if (options->most_work && (uint64_t)at->work > options->most_work - sim->work)
    return fail_at(sim,
                   braid_fail(BRAID_TIMEOUT, "is beyond the limit of %llu operations and bytes",
                              (unsigned long long)options->most_work),
                   core, step);
  sim->done++;
  sim->work += (uint64_t)at->work;
  sim->counts.instructions[at->instruction.opcode]++;
  return BRAID_OK;
}

/* The head of a module's queue, whose tokens are there: from beginning to end. */
static braid_status run_head(braid_functional *sim, int core, int module) {
  braid_functional_place *own = &sim->places[core];
  uint32_t step = own->queues[module].head;
  const braid_overlay_step *at = step_of(sim, core, step);
  int64_t segment = 0;
  BRAID_TRY(count_step(sim, core, step));
  if (module == BRAID_ISA_IN || module == BRAID_ISA_OUT) BRAID_TRY(check_range(sim, core, step, &segment));
  for (int m = 0; m < kModules; m++)
    if (at->instruction.wait >> m & 1) own->tokens[m][module]--;
  if (sim->races) BRAID_TRY(braid_overlay_races_begin(sim->races, core, step, segment));
  execute(sim, core, at, segment);
  for (int m = 0; m < kModules; m++) {
    if (!(at->instruction.signal >> m & 1)) continue;
    if (own->tokens[module][m] == kMostTokens)
      return fail_at(sim, braid_fail(BRAID_INVALID_FILE, "gives %s a token more than %d", kModuleNames[m], kMostTokens),
                     core, step);
    own->tokens[module][m]++;
  }
  if (sim->races) braid_overlay_races_end(sim->races, core, step);
  if (module == BRAID_ISA_OUT) own->saved = step + 1;
  own->queues[module].head = at->next;
  own->queues[module].waiting--;
  return BRAID_OK;
}

/* --- dispatch -------------------------------------------------------------------------------------------------------
 */
static uint32_t draw(braid_functional *sim) {
  return braid_random_u32(sim->options.seed, 0, 0, sim->drawn++);
}

static bool idle(const braid_functional_place *own) {
  for (int m = 0; m < kModules; m++)
    if (own->queues[m].waiting) return false;
  return true;
}

/* Another task had the core meanwhile; its memories are cleared for the one that comes. */
static void forget(braid_functional *sim, int core) {
  for (int m = 0; m < BRAID_ISA_VECTORS; m++) {
    int64_t lines = braid_overlay_memory_lines(&sim->design, (braid_isa_memory)m);
    if (lines) memset(sim->cores[core].memories[m], 0, (size_t)lines * kLineBytes);
  }
  sim->cores[core].is_packed = false;
}

/* Where a core goes on at a tile all before is done and nothing behind it: tokens follow from the program. */
static void count_tokens(const braid_functional *sim, int core, uint32_t steps) {
  braid_functional_place *own = &sim->places[core];
  memset(own->tokens, 0, sizeof own->tokens);
  for (uint32_t i = 0; i < steps; i++) {
    const braid_instruction *in = &sim->programs[core].steps[i].instruction;
    int module = (int)braid_overlay_module(in);
    if (module == BRAID_ISA_DISPATCH) continue;
    for (int other = 0; other < kModules; other++) {
      own->tokens[module][other] += in->signal >> other & 1;
      own->tokens[other][module] -= in->wait >> other & 1;
    }
  }
}

/* The LOADs that a tile names, on a core that goes on there. */
static braid_status repeat_loads(braid_functional *sim, int core, uint32_t tile) {
  uint32_t loads[BRAID_ISA_REPEATS];
  int count = braid_overlay_repeats(&sim->programs[core], tile, loads);
  for (int i = 0; i < count; i++) {
    int64_t segment;
    BRAID_TRY(count_step(sim, core, loads[i]));
    BRAID_TRY(check_range(sim, core, loads[i], &segment));
    execute(sim, core, step_of(sim, core, loads[i]), segment);
  }
  return BRAID_OK;
}

/* In the adversarial order, where races are not looked for, a core goes back to a tile at some time or another, once.
 */
static braid_status go_back(braid_functional *sim, int core) {
  braid_functional_place *own = &sim->places[core];
  bool can = !sim->races && own->tile && own->saved <= own->tile && !own->stands && !own->ended;
  can = can && step_of(sim, core, own->tile - 1)->instruction.system.back;
  for (int m = 0; m < kModules; m++) can = can && !(own->queues[m].waiting && own->queues[m].head < own->tile);
  if (!can || draw(sim) % 8) return BRAID_OK;
  forget(sim, core);
  for (int m = 0; m < kModules; m++) own->queues[m].waiting = 0;
  count_tokens(sim, core, own->tile);
  own->dispatch = own->tile;
  own->stops = kUndecided;
  own->tile = 0;
  return repeat_loads(sim, core, own->dispatch - 1);
}

/* A tile that is nothing else. In the adversarial order the core is given away at some: all that is before it is done,
 * and the memories are lost. *passed: dispatch goes on. */
static braid_status pass_tile(braid_functional *sim, int core, bool *passed) {
  braid_functional_place *own = &sim->places[core];
  if (sim->options.seed && !own->stops) own->stops = draw(sim) % 2 ? kStops : kPasses;
  *passed = own->stops != kStops || idle(own);
  if (!*passed) return BRAID_OK;
  BRAID_TRY(count_step(sim, core, own->dispatch));
  if (own->stops == kStops) {
    forget(sim, core);
    BRAID_TRY(repeat_loads(sim, core, own->dispatch));
  }
  own->stops = kUndecided;
  own->tile = ++own->dispatch;
  return BRAID_OK;
}

/* SYSTEM, when its core has nothing left. */
static braid_status run_system(braid_functional *sim, int core) {
  braid_functional_place *own = &sim->places[core];
  const braid_isa_system *system = &step_of(sim, core, own->dispatch)->instruction.system;
  BRAID_TRY(count_step(sim, core, own->dispatch));
  for (int from = 0; from < kModules; from++)
    for (int to = 0; to < kModules; to++)
      if (own->tokens[from][to])
        return fail_at(sim,
                       braid_fail(BRAID_INVALID_FILE, "%d tokens of %s for %s are left", own->tokens[from][to],
                                  kModuleNames[from], kModuleNames[to]),
                       core, own->dispatch);
  own->tile = 0;
  if (sim->races) braid_overlay_races_system(sim->races, core);
  if (system->tile && sim->options.seed) forget(sim, core);
  if (system->sync)
    own->stands = true;
  else
    own->ended = system->end;
  if (!own->stands && !own->ended) own->dispatch++;
  return BRAID_OK;
}

/* Hands out what it can. *moved: it did something. */
static braid_status dispatch(braid_functional *sim, int core, bool *moved) {
  braid_functional_place *own = &sim->places[core];
  while (!own->stands && !own->ended) {
    if (own->dispatch >= own->stop) { /* it was stopped there, or has ended before */
      own->ended = idle(own);
      if (!own->ended) return BRAID_OK;
      *moved = true;
      continue;
    }
    const braid_instruction *instruction = &step_of(sim, core, own->dispatch)->instruction;
    int module = braid_overlay_module(instruction);
    if (braid_isa_is_tile(instruction)) {
      bool passed;
      BRAID_TRY(pass_tile(sim, core, &passed));
      if (!passed) return BRAID_OK;
    } else if (module == BRAID_ISA_DISPATCH) {
      if (!idle(own)) return BRAID_OK;
      BRAID_TRY(run_system(sim, core));
    } else {
      if (own->queues[module].waiting == sim->design.queue_depth) return BRAID_OK;
      if (!own->queues[module].waiting++) own->queues[module].head = own->dispatch;
      own->dispatch++;
    }
    *moved = true;
  }
  return BRAID_OK;
}

/* When all cores stand, they go on. */
static bool synchronize(braid_functional *sim) {
  for (int c = 0; c < sim->count; c++)
    if (!sim->places[c].stands) return false;
  for (int c = 0; c < sim->count; c++) {
    braid_functional_place *own = &sim->places[c];
    own->stands = false;
    own->ended = step_of(sim, c, own->dispatch)->instruction.system.end;
    if (!own->ended) own->dispatch++;
  }
  sim->counts.synchronizations++;
  if (sim->races) braid_overlay_races_sync(sim->races);
  return true;
}

/* --- orders ---------------------------------------------------------------------------------------------------------
 */
static int32_t missing(const braid_functional *sim, int core, int module) {
  const braid_functional_place *own = &sim->places[core];
  int32_t wait = step_of(sim, core, own->queues[module].head)->instruction.wait, lacks = 0;
  for (int m = 0; m < kModules; m++)
    if (wait >> m & 1 && !own->tokens[m][module]) lacks |= 1 << m;
  return lacks;
}

static bool ready(const braid_functional *sim, int core, int module) {
  return sim->places[core].queues[module].waiting && !missing(sim, core, module);
}

/* In the order of the program, as far as tokens let it. -1: nothing is ready. */
static int first_ready(const braid_functional *sim, int core) {
  const braid_functional_place *own = &sim->places[core];
  int best = -1;
  for (int m = 0; m < kModules; m++)
    if (ready(sim, core, m) && (best < 0 || own->queues[m].head < own->queues[best].head)) best = m;
  return best;
}

/* Core by core, each as far as it can go. */
static braid_status pass_plain(braid_functional *sim, bool *moved) {
  for (int c = 0; c < sim->count; c++) {
    BRAID_TRY(dispatch(sim, c, moved));
    for (int m = first_ready(sim, c); m >= 0; m = first_ready(sim, c)) {
      BRAID_TRY(run_head(sim, c, m));
      *moved = true;
      BRAID_TRY(dispatch(sim, c, moved));
    }
  }
  return BRAID_OK;
}

static void draw_priorities(braid_functional *sim) {
  for (int c = 0; c < sim->count; c++)
    for (int m = 0; m < kModules; m++) sim->places[c].priorities[m] = draw(sim);
}

/* One instruction: of those that may begin, that of the highest priority. Priorities that stay long starve a module. */
static braid_status pass_adversarial(braid_functional *sim, bool *moved) {
  int core = -1, module = 0;
  if (sim->shuffle && draw(sim) % sim->shuffle == 0) draw_priorities(sim);
  for (int c = 0; c < sim->count; c++) {
    BRAID_TRY(go_back(sim, c));
    BRAID_TRY(dispatch(sim, c, moved));
    for (int m = 0; m < kModules; m++)
      if (ready(sim, c, m) && (core < 0 || sim->places[c].priorities[m] > sim->places[core].priorities[module]))
        core = c, module = m;
  }
  if (core < 0) return BRAID_OK;
  *moved = true;
  return run_head(sim, core, module);
}

/* --- runs -----------------------------------------------------------------------------------------------------------
 */
static braid_status module_stuck(const braid_functional *sim, int core, int module) {
  const braid_functional_place *own = &sim->places[core];
  const braid_overlay_step *held = step_of(sim, core, own->dispatch);
  int32_t lacks = missing(sim, core, module);
  int from = 0;
  while (!(lacks >> from & 1)) from++;
  int full = braid_overlay_module(&held->instruction);
  braid_status status = braid_fail(BRAID_INVALID_FILE, "waits for a token of %s that never comes", kModuleNames[from]);
  if (own->stops == kStops)
    status =
        braid_fail(BRAID_INVALID_FILE,
                   "waits for a token of %s that nothing before the `tile` at byte %zu gives: no task can stop there",
                   kModuleNames[from], held->at);
  else if (full != BRAID_ISA_DISPATCH)
    status = braid_fail(BRAID_INVALID_FILE,
                        "waits for a token of %s that never comes; the queue of %s is full, which holds up byte %zu",
                        kModuleNames[from], kModuleNames[full], held->at);
  return fail_at(sim, status, core, own->queues[module].head);
}

/* Nothing can go on: a module that waits for a token, or a core for one that has ended. */
static braid_status stuck(const braid_functional *sim) {
  for (int c = 0; c < sim->count; c++) {
    const braid_functional_place *own = &sim->places[c];
    int first = -1;
    for (int m = 0; m < kModules; m++)
      if (own->queues[m].waiting && (first < 0 || own->queues[m].head < own->queues[first].head)) first = m;
    if (first >= 0) return module_stuck(sim, c, first);
  }
  int stands = 0, ended = 0;
  while (!sim->places[stands].stands) stands++;
  while (!sim->places[ended].ended) ended++;
  return fail_at(sim, braid_fail(BRAID_INVALID_FILE, "waits for sync_global, and core %d has ended", ended), stands,
                 sim->places[stands].dispatch);
}

static bool all_ended(const braid_functional *sim) {
  for (int c = 0; c < sim->count; c++)
    if (!sim->places[c].ended) return false;
  return true;
}

static braid_status check_image(const braid_overlay_image *image) {
  for (int s = 0; s < BRAID_OVERLAY_SEGMENTS; s++) {
    const braid_overlay_segment *segment = &image->segments[s];
    if (segment->first % kLineBytes || segment->bytes % kLineBytes)
      return braid_fail(BRAID_INVALID_ARGUMENT, "segment %d is %llu bytes from byte %llu; both are multiples of %d", s,
                        (unsigned long long)segment->bytes, (unsigned long long)segment->first, kLineBytes);
    if (segment->bytes > image->bytes || segment->first > image->bytes - segment->bytes)
      return braid_fail(BRAID_INVALID_ARGUMENT, "segment %d is %llu bytes from byte %llu; the image has %llu", s,
                        (unsigned long long)segment->bytes, (unsigned long long)segment->first,
                        (unsigned long long)image->bytes);
  }
  return BRAID_OK;
}

/* Where a part of a task begins, its LOADs are repeated if that is behind a tile. */
static braid_status place_core(braid_functional *sim, int core) {
  const braid_overlay_program *program = &sim->programs[core];
  braid_functional_place *own = &sim->places[core];
  const size_t *from = sim->options.from, *to = sim->options.to;
  own->stop = (uint32_t)(to && to[core] < program->count ? to[core] : program->count);
  own->dispatch = (uint32_t)(from && from[core] < own->stop ? from[core] : from ? own->stop : 0);
  count_tokens(sim, core, own->dispatch);
  if (!own->dispatch || !braid_isa_is_tile(&step_of(sim, core, own->dispatch - 1)->instruction)) return BRAID_OK;
  own->tile = own->dispatch;
  return repeat_loads(sim, core, own->dispatch - 1);
}

static void copy_vectors(braid_functional *sim, bool leaves) {
  size_t bytes = (size_t)braid_overlay_memory_lines(&sim->design, BRAID_ISA_VECTORS) * kLineBytes;
  uint8_t *kept = sim->options.vectors;
  if (kept && bytes)
    memcpy(leaves ? kept : sim->vectors, leaves ? sim->vectors : kept, bytes);
  else if (bytes && !leaves)
    memset(sim->vectors, 0, bytes);
}

/* As a task finds the cores: memories 0 unless it goes on there, no tokens. */
static braid_status clear(braid_functional *sim) {
  static const uint32_t kShuffles[] = {0, 1, 8, 64};
  for (int c = 0; c < sim->count && !sim->options.goes_on; c++) forget(sim, c);
  memset(sim->places, 0, (size_t)sim->count * sizeof *sim->places);
  copy_vectors(sim, false);
  sim->counts = (braid_functional_counts){0};
  sim->done = sim->work = sim->drawn = 0;
  if (sim->options.seed) {
    sim->shuffle = kShuffles[draw(sim) % 4];
    draw_priorities(sim);
  }
  for (int c = 0; c < sim->count; c++) BRAID_TRY(place_core(sim, c));
  return BRAID_OK;
}

static braid_status run_to_end(braid_functional *sim) {
  while (!all_ended(sim)) {
    bool moved = false;
    BRAID_TRY(sim->options.seed ? pass_adversarial(sim, &moved) : pass_plain(sim, &moved));
    if (!synchronize(sim) && !moved) return stuck(sim);
  }
  return BRAID_OK;
}

braid_status braid_functional_run(braid_functional *sim, const braid_overlay_image *image,
                                  const braid_functional_options *options, braid_functional_counts *counts) {
  if (counts) *counts = (braid_functional_counts){0};
  BRAID_TRY(check_image(image));
  sim->image = image;
  sim->options = options ? *options : (braid_functional_options){0};
  BRAID_TRY(clear(sim));
  if (sim->options.races)
    BRAID_TRY(braid_overlay_races_create(&sim->design, sim->count, sim->programs, (int64_t)(image->bytes / kLineBytes),
                                         sim->allocator, &sim->races));
  braid_status status = run_to_end(sim);
  braid_overlay_races_destroy(sim->races);
  sim->races = NULL;
  copy_vectors(sim, true);
  if (counts) *counts = sim->counts;
  return status;
}

braid_status braid_functional_once(const braid_overlay_design *design, int cores, const braid_overlay_code *programs,
                                   const braid_overlay_image *image, const braid_functional_options *options,
                                   const braid_allocator *allocator, braid_functional_counts *counts) {
  braid_functional *sim;
  if (counts) *counts = (braid_functional_counts){0};
  BRAID_TRY(braid_functional_create(design, cores, programs, allocator, &sim));
  braid_status status = braid_functional_run(sim, image, options, counts);
  braid_functional_destroy(sim);
  return status;
}
