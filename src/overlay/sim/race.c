#include "overlay/sim/race.h"

#include "base/try.h"

enum { kModules = BRAID_ISA_MODULES, kTokens = 256, kNobody = 0xff };

/* Steps count from 1: 0 is none. Times are between two sync_global. Of the cores that read since the last one, the
 * first is kept with the steps of its modules, and one other. */
typedef struct line {
  uint32_t written, write_time, reads[kModules], read_time, other_read;
  uint32_t kept; /* of DDR: behind the last tile that repeats a LOAD of it since `read_time`, by `reader` */
  uint8_t writer, write_module, reader, other_reader; /* cores */
} line;

/* What a module knows to be done: of each module the step. */
typedef struct known {
  uint32_t steps[kModules];
} known;

typedef struct tokens {
  known given[kTokens];
  uint8_t first, count;
} tokens;

typedef struct history {
  line *lines[4]; /* by memory; the vectors are one for all */
  known modules[kModules];
  tokens pairs[kModules][kModules]; /* from, to */
} history;

struct braid_overlay_races {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  const braid_overlay_program *programs;
  int count;
  uint32_t time;
  history *cores;
  line *vectors, *ddr;
};

static bool make_lines(const braid_allocator *allocator, int64_t count, line **out) {
  if (!count) return true;
  *out = braid_zalloc_array(allocator, (size_t)count, sizeof **out);
  for (int64_t i = 0; *out && i < count; i++) (*out)[i].reader = (*out)[i].other_reader = kNobody;
  return *out != NULL;
}

braid_status braid_overlay_races_create(const braid_overlay_design *design, int cores,
                                        const braid_overlay_program *programs, int64_t ddr_lines,
                                        const braid_allocator *allocator, braid_overlay_races **out) {
  *out = NULL;
  braid_overlay_races *races = braid_zalloc(allocator, sizeof *races);
  if (!races) return braid_fail(BRAID_NO_MEMORY, "no memory for the detection of races");
  *races = (braid_overlay_races){.allocator = allocator, .design = design, .programs = programs, .count = cores};
  races->cores = braid_zalloc_array(allocator, (size_t)cores, sizeof *races->cores);
  bool made = races->cores && make_lines(allocator, ddr_lines, &races->ddr) &&
              make_lines(allocator, braid_overlay_memory_lines(design, BRAID_ISA_VECTORS), &races->vectors);
  for (int c = 0; made && c < cores; c++) {
    for (int m = 0; made && m < BRAID_ISA_VECTORS; m++)
      made = make_lines(allocator, braid_overlay_memory_lines(design, (braid_isa_memory)m), &races->cores[c].lines[m]);
    races->cores[c].lines[BRAID_ISA_VECTORS] = races->vectors;
  }
  if (!made) {
    braid_overlay_races_destroy(races);
    return braid_fail(BRAID_NO_MEMORY, "no memory for the detection of races over %lld lines of DDR",
                      (long long)ddr_lines);
  }
  *out = races;
  return BRAID_OK;
}

void braid_overlay_races_destroy(braid_overlay_races *races) {
  if (!races) return;
  for (int c = 0; races->cores && c < races->count; c++)
    for (int m = 0; m < BRAID_ISA_VECTORS; m++) braid_free(races->allocator, races->cores[c].lines[m]);
  braid_free(races->allocator, races->cores);
  braid_free(races->allocator, races->vectors);
  braid_free(races->allocator, races->ddr);
  braid_free(races->allocator, races);
}

/* --- lines ----------------------------------------------------------------------------------------------------------
 */
/* Who accesses a line. */
typedef struct access {
  braid_overlay_races *races;
  int core, module;
  uint32_t step; /* from 1 */
  bool write;
  int memory;
  int64_t index; /* of the line */
} access;

static const char *const kPlaces[] = {"the feature memory", "the weight memory", "the bias memory", "the vectors",
                                      "DDR"};

static const char *step_name(const braid_overlay_races *races, int core, uint32_t step, size_t *at) {
  const braid_overlay_step *of = &races->programs[core].steps[step - 1];
  *at = of->at;
  return braid_isa_form_of(of->instruction.opcode)->name;
}

static braid_status race(const access *own, bool other_writes, int core, uint32_t step) {
  size_t at, other_at;
  const char *name = step_name(own->races, own->core, own->step, &at);
  const char *other = step_name(own->races, core, step, &other_at);
  return braid_fail(BRAID_INVALID_FILE,
                    "core %d, byte %zu, %s: %s line %lld of %s, which %s at byte %zu of core %d %s: nothing orders "
                    "the two",
                    own->core, at, name, own->write ? "writes" : "reads", (long long)own->index, kPlaces[own->memory],
                    other, other_at, core, other_writes ? "writes" : "reads");
}

/* Whether a step of a module of the same core came before; of another core, whether sync_global did. */
static bool ordered(const access *own, int core, int module, uint32_t step, uint32_t time) {
  if (core != own->core) return time != own->races->time;
  return module == own->module || own->races->cores[core].modules[own->module].steps[module] >= step;
}

static braid_status read_line(const access *own, line *at) {
  if (at->written && !ordered(own, at->writer, at->write_module, at->written, at->write_time))
    return race(own, true, at->writer, at->written);
  const braid_overlay_step *steps = own->races->programs[own->core].steps;
  if (own->memory < BRAID_ISA_VECTORS && at->written && steps[at->written - 1].kept < steps[own->step - 1].tile) {
    size_t byte, other;
    const char *name = step_name(own->races, own->core, own->step, &byte);
    const char *writer = step_name(own->races, at->writer, at->written, &other);
    return braid_fail(BRAID_INVALID_FILE,
                      "core %d, byte %zu, %s: reads line %lld of %s, which %s at byte %zu wrote before a `tile`",
                      own->core, byte, name, (long long)own->index, kPlaces[own->memory], writer, other);
  }
  if (at->read_time != own->races->time || at->reader == kNobody) {
    if (at->reader != own->core) memset(at->reads, 0, sizeof at->reads);
    at->kept = 0;
    at->reader = (uint8_t)own->core;
    at->other_reader = kNobody;
    at->read_time = own->races->time;
  }
  if (at->reader == own->core) {
    at->reads[own->module] = own->step;
    if (own->memory == BRAID_OVERLAY_DDR && steps[own->step - 1].kept > at->kept) at->kept = steps[own->step - 1].kept;
  } else if (at->other_reader == kNobody) {
    at->other_reader = (uint8_t)own->core;
    at->other_read = own->step;
  }
  return BRAID_OK;
}

/* A tile behind this write repeats a LOAD that read the line in DDR, or brought it, before: it would bring something
 * else. */
static braid_status spoils(const access *own) {
  size_t byte;
  const char *name = step_name(own->races, own->core, own->step, &byte);
  return braid_fail(BRAID_INVALID_FILE,
                    "core %d, byte %zu, %s: writes line %lld of %s, of a LOAD that a `tile` behind it repeats",
                    own->core, byte, name, (long long)own->index, kPlaces[own->memory]);
}

static braid_status write_line(const access *own, line *at) {
  const braid_overlay_step *step = &own->races->programs[own->core].steps[own->step - 1];
  if (at->written && !ordered(own, at->writer, at->write_module, at->written, at->write_time))
    return race(own, true, at->writer, at->written);
  for (int m = 0; at->reader != kNobody && m < kModules; m++)
    if (at->reads[m] && !ordered(own, at->reader, m, at->reads[m], at->read_time))
      return race(own, false, at->reader, at->reads[m]);
  if (at->reader != kNobody && at->other_reader != kNobody &&
      !ordered(own, at->other_reader, own->module, at->other_read, at->read_time))
    return race(own, false, at->other_reader, at->other_read);
  if (own->memory == BRAID_OVERLAY_DDR && at->reader == own->core && at->kept > step->tile) return spoils(own);
  if (own->memory != BRAID_OVERLAY_DDR && at->written && at->writer == own->core &&
      own->races->programs[own->core].steps[at->written - 1].kept > step->tile)
    return spoils(own);
  *at = (line){.written = own->step,
               .write_time = own->races->time,
               .writer = (uint8_t)own->core,
               .write_module = (uint8_t)own->module,
               .reader = kNobody,
               .other_reader = kNobody};
  return BRAID_OK;
}

/* --- steps ----------------------------------------------------------------------------------------------------------
 */
static braid_status access_lines(access *own, const braid_overlay_lines *lines, int64_t segment) {
  line *all = own->memory == BRAID_OVERLAY_DDR ? own->races->ddr : own->races->cores[own->core].lines[own->memory];
  int64_t first = lines->first + (own->memory == BRAID_OVERLAY_DDR ? segment : 0);
  for (int64_t p = 0; p < lines->planes; p++)
    for (int64_t r = 0; r < lines->rows; r++)
      for (int64_t c = 0; c < lines->columns; c++) {
        own->index = first + p * lines->plane_pitch + r * lines->row_pitch + c * lines->column_pitch;
        BRAID_TRY(own->write ? write_line(own, &all[own->index]) : read_line(own, &all[own->index]));
      }
  return BRAID_OK;
}

static void learn(known *to, const known *from) {
  for (int m = 0; m < kModules; m++)
    if (from->steps[m] > to->steps[m]) to->steps[m] = from->steps[m];
}

braid_status braid_overlay_races_begin(braid_overlay_races *races, int core, uint32_t step, int64_t segment) {
  const braid_instruction *instruction = &races->programs[core].steps[step].instruction;
  history *own = &races->cores[core];
  braid_overlay_lines lines[BRAID_OVERLAY_MOST_LINES];
  access at = {.races = races, .core = core, .module = braid_overlay_module(instruction), .step = step + 1};
  for (int m = 0; m < kModules; m++) {
    if (!(instruction->wait >> m & 1)) continue;
    tokens *pair = &own->pairs[m][at.module];
    learn(&own->modules[at.module], &pair->given[pair->first++]);
    pair->count--;
  }
  own->modules[at.module].steps[at.module] = step + 1;
  int count = braid_overlay_lines_of(races->design, instruction, lines);
  for (int write = 0; write < 2; write++)
    for (int i = 0; i < count; i++) {
      if (lines[i].write != (write == 1)) continue;
      at.write = lines[i].write;
      at.memory = lines[i].memory;
      BRAID_TRY(access_lines(&at, &lines[i], segment));
    }
  return BRAID_OK;
}

void braid_overlay_races_end(braid_overlay_races *races, int core, uint32_t step) {
  const braid_instruction *instruction = &races->programs[core].steps[step].instruction;
  history *own = &races->cores[core];
  int module = braid_overlay_module(instruction);
  for (int m = 0; m < kModules; m++) {
    if (!(instruction->signal >> m & 1)) continue;
    tokens *pair = &own->pairs[module][m];
    pair->given[(uint8_t)(pair->first + pair->count++)] = own->modules[module];
  }
}

void braid_overlay_races_system(braid_overlay_races *races, int core) {
  history *own = &races->cores[core];
  known all = {{0}};
  for (int m = 0; m < kModules; m++) learn(&all, &own->modules[m]);
  for (int m = 0; m < kModules; m++) own->modules[m] = all;
}

void braid_overlay_races_sync(braid_overlay_races *races) {
  races->time++;
}
