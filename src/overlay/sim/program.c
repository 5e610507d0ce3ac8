#include "overlay/sim/program.h"

#include "base/try.h"
#include "base/vector.h"

static const char *const kMemories[] = {"feature", "weight", "bias", "vector", "DDR"};
static const char *const kModules[] = {"load", "save", "compute", "side"};

const char *braid_overlay_memory_name(int memory) {
  return kMemories[memory];
}

braid_isa_module braid_overlay_module(const braid_instruction *instruction) {
  return braid_isa_form_of(instruction->opcode)->module;
}

int64_t braid_overlay_memory_lines(const braid_overlay_design *design, braid_isa_memory memory) {
  switch (memory) {
  case BRAID_ISA_FEATURES:
    return design->recurrent ? 0 : design->feature_bytes / 16;
  case BRAID_ISA_WEIGHTS:
    return design->weight_bytes / 16;
  case BRAID_ISA_BIASES:
    return design->bias_bytes / 16;
  case BRAID_ISA_VECTORS:
    return design->recurrent ? design->vector_bytes / 16 : 0;
  }
  return 0;
}

/* --- designs --------------------------------------------------------------------------------------------------------
 */
enum { kMostParallel = 1 << 16, kMostMemory = 1 << 24 /* bytes: what 20 bits of lines address */ };

static braid_status design_number(const char *what, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "the design's %s is %lld; %lld to %lld are allowed", what, (long long)value,
                    (long long)lowest, (long long)highest);
}

braid_status braid_overlay_design_check(const braid_overlay_design *design) {
  if (design->recurrent) {
    BRAID_TRY(design_number("HP", design->rows, 1, kMostParallel));
    BRAID_TRY(design_number("WP", design->columns, 1, kMostParallel));
    BRAID_TRY(design_number("memory of vectors, in bytes,", design->vector_bytes, 16, kMostMemory));
  } else {
    BRAID_TRY(design_number("PP", design->pixels, 1, kMostParallel));
    BRAID_TRY(design_number("ICP", design->channels_in, 1, kMostParallel));
    BRAID_TRY(design_number("OCP", design->channels_out, 1, kMostParallel));
    BRAID_TRY(design_number("feature memory, in bytes,", design->feature_bytes, 16, kMostMemory));
  }
  BRAID_TRY(design_number("weight memory, in bytes,", design->weight_bytes, 16, kMostMemory));
  BRAID_TRY(design_number("bias memory, in bytes,", design->bias_bytes, 16, kMostMemory));
  BRAID_TRY(design_number("memory of sums, in bytes,", design->sum_bytes, 0, kMostMemory));
  return design_number("queue_depth", design->queue_depth, 1, kMostParallel);
}

/* --- one instruction ------------------------------------------------------------------------------------------------
 */
static int64_t up(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit;
}

/* Whether two rows of a write overlap. */
static bool written_twice(const braid_overlay_lines *lines) {
  int64_t rows = lines->rows, row = rows > 1 ? lines->row_pitch : 0, length = lines->columns;
  if (rows > 1 && row < length) return true;
  /* Of planes that are p apart, the rows that are nearest to each other. */
  for (int64_t p = 1; p < lines->planes; p++) {
    int64_t apart = p * lines->plane_pitch;
    if (apart >= (rows - 1) * row + length) return false;
    int64_t q = row ? apart / row : 0;
    for (int64_t other = q; other <= q + 1 && other < rows; other++) {
      int64_t distance = apart - other * row;
      if ((distance < 0 ? -distance : distance) < length) return true;
    }
  }
  return false;
}

/* Whether a line of `read` is one of `written`. Where the read has more lines than its memory, which takes lines more
 * than once, all between its first and last count. */
static braid_status meets(const braid_overlay_lines *read, const braid_overlay_lines *written, int64_t memory,
                          const braid_allocator *allocator, bool *out) {
  int64_t first = read->first, last = braid_overlay_lines_last(read);
  *out = false;
  if (last < written->first || braid_overlay_lines_last(written) < first) return BRAID_OK;
  bool exact = read->planes * read->rows * read->columns <= 4 * memory;
  uint8_t *marks = braid_zalloc(allocator, (size_t)memory);
  if (!marks) return braid_fail(BRAID_NO_MEMORY, "no memory for the marks of %lld lines", (long long)memory);
  if (!exact) memset(marks + first, 1, (size_t)(last - first + 1));
  for (int64_t p = 0; exact && p < read->planes; p++)
    for (int64_t r = 0; r < read->rows; r++)
      for (int64_t c = 0; c < read->columns; c++)
        marks[first + p * read->plane_pitch + r * read->row_pitch + c * read->column_pitch] = 1;
  for (int64_t p = 0; p < written->planes && !*out; p++)
    for (int64_t r = 0; r < written->rows && !*out; r++)
      *out = memchr(marks + written->first + p * written->plane_pitch + r * written->row_pitch, 1,
                    (size_t)written->columns) != NULL;
  braid_free(allocator, marks);
  return BRAID_OK;
}

/* What is touched lies in the memories, is written once, and is not read besides. */
static braid_status check_lines(const braid_overlay_design *design, const braid_instruction *instruction,
                                const braid_allocator *allocator) {
  braid_overlay_lines lines[BRAID_OVERLAY_MOST_LINES];
  int count = braid_overlay_lines_of(design, instruction, lines);
  const char *name = braid_isa_form_of(instruction->opcode)->name;
  const braid_overlay_lines *written = NULL;
  for (int i = 0; i < count; i++) {
    int memory = lines[i].memory;
    if (lines[i].write) written = &lines[i];
    if (memory != BRAID_OVERLAY_DDR) {
      int64_t last = braid_overlay_lines_last(&lines[i]);
      int64_t size = braid_overlay_memory_lines(design, (braid_isa_memory)memory);
      if (!size)
        return braid_fail(BRAID_INVALID_FILE, "%s: a core of this design has no %s memory", name, kMemories[memory]);
      if (last >= size)
        return braid_fail(BRAID_INVALID_FILE, "%s: %s line %lld of the %s memory; it has %lld", name,
                          lines[i].write ? "writes" : "reads", (long long)last, kMemories[memory], (long long)size);
    }
    if (lines[i].write && written_twice(&lines[i]))
      return braid_fail(BRAID_INVALID_FILE, "%s: its planes or rows overlap in the %s memory, where it writes", name,
                        kMemories[memory]);
  }
  for (int i = 0; written && i < count; i++) {
    bool meet;
    if (lines[i].write || lines[i].in_place || lines[i].memory != written->memory) continue;
    BRAID_TRY(meets(&lines[i], written, braid_overlay_memory_lines(design, (braid_isa_memory)written->memory),
                    allocator, &meet));
    if (meet)
      return braid_fail(BRAID_INVALID_FILE, "%s: writes lines of the %s memory that it reads", name,
                        kMemories[written->memory]);
  }
  return BRAID_OK;
}

static braid_status check_header(const braid_overlay_design *design, int core, const braid_instruction *instruction) {
  const braid_isa_form *form = braid_isa_form_of(instruction->opcode);
  bool recurrent = form->opcode == BRAID_ISA_OP_MVM || form->opcode == BRAID_ISA_OP_ELE;
  bool convolutional = form->opcode == BRAID_ISA_OP_CONV || form->opcode == BRAID_ISA_OP_MISC;
  if (instruction->core != core)
    return braid_fail(BRAID_INVALID_FILE, "%s: is for core %d, in the program of core %d", form->name,
                      instruction->core, core);
  if ((recurrent && !design->recurrent) || (convolutional && design->recurrent))
    return braid_fail(BRAID_INVALID_FILE, "%s: cores of this design are for %s networks", form->name,
                      design->recurrent ? "recurrent" : "convolutional");
  if (form->module == BRAID_ISA_DISPATCH && (instruction->wait || instruction->signal))
    return braid_fail(BRAID_INVALID_FILE, "%s: wait and signal must be 0", form->name);
  if (form->module != BRAID_ISA_DISPATCH && (instruction->wait | instruction->signal) >> form->module & 1)
    return braid_fail(BRAID_INVALID_FILE, "%s: %s tokens of %s, its own module", form->name,
                      instruction->wait >> form->module & 1 ? "waits for" : "gives", kModules[form->module]);
  return BRAID_OK;
}

static braid_status check_fields(const braid_overlay_design *design, const braid_instruction *instruction) {
  const braid_isa_conv *conv = &instruction->conv;
  const char *name = braid_isa_form_of(instruction->opcode)->name;
  if (instruction->opcode == BRAID_ISA_OP_CONV) {
    if (conv->output_rows > design->pixels)
      return braid_fail(BRAID_INVALID_FILE, "CONV: output_rows is %d; 1 to %d, PP of the design, are allowed",
                        conv->output_rows, design->pixels);
    if (conv->depthwise && conv->channels_in != conv->channels_out)
      return braid_fail(BRAID_INVALID_FILE, "CONV: depthwise, with %d channels in and %d out; they must be equal",
                        conv->channels_in, conv->channels_out);
  }
  if (instruction->opcode == BRAID_ISA_OP_CONV || instruction->opcode == BRAID_ISA_OP_MISC) {
    braid_overlay_window window = braid_overlay_window_of(instruction);
    if (window.low > window.high)
      return braid_fail(BRAID_INVALID_FILE, "%s: low is %d, above high, which is %d", name, window.low, window.high);
  }
  if (instruction->opcode == BRAID_ISA_OP_SYSTEM) {
    const braid_isa_system *system = &instruction->system;
    bool repeats = system->repeat_a || system->repeat_b || system->repeat_c || system->repeat_d;
    if ((system->back || repeats) && !braid_isa_is_tile(instruction))
      return braid_fail(BRAID_INVALID_FILE, "SYSTEM: only a tile without sync and end goes back or repeats");
    if (system->back && design->recurrent)
      return braid_fail(BRAID_INVALID_FILE, "SYSTEM: cores for recurrent networks do not go back");
  }
  return BRAID_OK;
}

static int64_t work_of(const braid_instruction *instruction) {
  const braid_isa_conv *conv = &instruction->conv;
  const braid_isa_misc *misc = &instruction->misc;
  const braid_isa_load *move = &instruction->load;
  switch ((braid_isa_opcode)instruction->opcode) {
  case BRAID_ISA_OP_CONV:
    return (int64_t)conv->output_rows * conv->output_columns * conv->kernel_rows * conv->kernel_columns *
           conv->channels_out * (conv->depthwise ? 1 : conv->channels_in);
  case BRAID_ISA_OP_MISC: {
    bool pools = misc->function == BRAID_ISA_MAX || misc->function == BRAID_ISA_MEAN;
    return (int64_t)misc->output_rows * misc->output_columns * misc->groups * 16 *
           (pools ? misc->kernel_rows * misc->kernel_columns : 1);
  }
  case BRAID_ISA_OP_LOAD:
  case BRAID_ISA_OP_SAVE:
    return (int64_t)move->planes * move->rows * move->lines * 16;
  case BRAID_ISA_OP_MVM:
    return (int64_t)instruction->mvm.rows * instruction->mvm.columns;
  case BRAID_ISA_OP_ELE:
    return instruction->ele.length;
  case BRAID_ISA_OP_SYSTEM:
    break;
  }
  return 0;
}

/* --- sums that are left from CONV to CONV, from MVM to MVM ----------------------------------------------------------
 */
typedef struct sums {
  bool left;
  size_t at; /* of the instruction that left them */
  int32_t rows, columns, channels;
} sums;

static braid_status check_sums(const braid_overlay_design *design, const braid_overlay_step *step, sums *kept) {
  const braid_instruction *instruction = &step->instruction;
  const braid_isa_conv *conv = &instruction->conv;
  const braid_isa_mvm *mvm = &instruction->mvm;
  bool convolves = instruction->opcode == BRAID_ISA_OP_CONV;
  if (instruction->opcode == BRAID_ISA_OP_SYSTEM) {
    if (kept->left && (instruction->system.end || instruction->system.tile))
      return braid_fail(BRAID_INVALID_FILE, "SYSTEM: the sums that byte %zu left are not finished", kept->at);
    return BRAID_OK;
  }
  if (!convolves && instruction->opcode != BRAID_ISA_OP_MVM) return BRAID_OK;
  const char *name = convolves ? "CONV" : "MVM";
  sums own = {.left = !(convolves ? conv->finish : mvm->finish),
              .at = step->at,
              .rows = convolves ? conv->output_rows : 1,
              .columns = convolves ? conv->output_columns : 1,
              .channels = convolves ? conv->channels_out : mvm->rows};
  if (convolves ? conv->start : mvm->start) {
    if (kept->left)
      return braid_fail(BRAID_INVALID_FILE, "%s: starts, but the sums that byte %zu left are not finished", name,
                        kept->at);
  } else {
    if (!kept->left)
      return braid_fail(BRAID_INVALID_FILE, "%s: does not start, and no sums are left to go on from", name);
    if (kept->rows != own.rows || kept->columns != own.columns || kept->channels != own.channels)
      return braid_fail(BRAID_INVALID_FILE,
                        "%s: goes on from sums of %d rows, %d columns and %d channels that byte %zu left; it has %d, "
                        "%d and %d",
                        name, kept->rows, kept->columns, kept->channels, kept->at, own.rows, own.columns, own.channels);
  }
  int64_t group = convolves ? design->channels_out : design->rows;
  int64_t bytes = own.rows * (int64_t)own.columns * up(own.channels, group) * group * (convolves ? 4 : 6);
  if (own.left && bytes > design->sum_bytes)
    return braid_fail(BRAID_INVALID_FILE, "%s: leaves %lld bytes of sums; the memory for them has %lld", name,
                      (long long)bytes, (long long)design->sum_bytes);
  *kept = own;
  return BRAID_OK;
}

/* --- programs -------------------------------------------------------------------------------------------------------
 */
static braid_status read_step(const uint8_t *bytes, size_t count, const braid_overlay_design *design, int core,
                              const braid_allocator *allocator, braid_overlay_step *step, sums *kept, size_t *next) {
  size_t at = step->at;
  BRAID_TRY(braid_isa_decode(bytes, count, at, &step->instruction, next));
  braid_status status = check_header(design, core, &step->instruction);
  if (status == BRAID_OK) status = check_fields(design, &step->instruction);
  if (status == BRAID_OK) status = check_sums(design, step, kept);
  if (status == BRAID_OK) status = check_lines(design, &step->instruction, allocator);
  if (status != BRAID_OK) return braid_fail_prefix(status, "byte %zu", at);
  step->work = work_of(&step->instruction);
  return BRAID_OK;
}

/* --- tiles ----------------------------------------------------------------------------------------------------------
 */
/* The step that begins so many words before another; the count of steps: none does. */
static uint32_t step_before(const braid_overlay_program *program, uint32_t step, int32_t words) {
  size_t back = (size_t)words * BRAID_ISA_WORD, at = program->steps[step].at;
  uint32_t low = 0, high = step;
  if (back > at) return (uint32_t)program->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (program->steps[middle].at < at - back)
      low = middle + 1;
    else
      high = middle;
  }
  return program->steps[low].at == at - back ? low : (uint32_t)program->count;
}

int braid_overlay_repeats(const braid_overlay_program *program, uint32_t tile, uint32_t out[BRAID_ISA_REPEATS]) {
  int32_t words[BRAID_ISA_REPEATS];
  int count = 0;
  braid_isa_repeats(&program->steps[tile].instruction.system, words);
  for (int i = 0; i < BRAID_ISA_REPEATS; i++)
    if (words[i]) out[count++] = step_before(program, tile, words[i]);
  return count;
}

/* Each repeats LOADs behind the last SYSTEM that waits, which is before step `from`. */
static braid_status link_tiles(braid_overlay_program *program) {
  uint32_t from = 0;
  for (uint32_t i = 0; i < program->count; i++) {
    uint32_t repeated[BRAID_ISA_REPEATS];
    const braid_instruction *instruction = &program->steps[i].instruction;
    if (instruction->opcode != BRAID_ISA_OP_SYSTEM) {
      program->steps[i].kept = program->steps[i].tile;
      continue;
    }
    if (!braid_isa_is_tile(instruction)) from = i + 1;
    int count = braid_overlay_repeats(program, i, repeated);
    for (int r = 0; r < count; r++) {
      if (repeated[r] < from || repeated[r] >= i || program->steps[repeated[r]].instruction.opcode != BRAID_ISA_OP_LOAD)
        return braid_fail(BRAID_INVALID_FILE,
                          "byte %zu: SYSTEM: repeats what is no LOAD behind the last SYSTEM that waits",
                          program->steps[i].at);
      braid_overlay_step *load = &program->steps[repeated[r]];
      if (load->kept == program->steps[i].tile) load->kept++;
    }
  }
  return BRAID_OK;
}

static void link_modules(braid_overlay_program *program) {
  uint32_t next[BRAID_ISA_MODULES + 1], tiles = 0;
  for (size_t i = 0; i < program->count; i++) {
    const braid_instruction *instruction = &program->steps[i].instruction;
    program->steps[i].tile = tiles;
    if (instruction->opcode == BRAID_ISA_OP_SYSTEM && instruction->system.tile) tiles++;
  }
  for (int m = 0; m <= BRAID_ISA_MODULES; m++) next[m] = (uint32_t)program->count;
  for (size_t i = program->count; i-- > 0;) {
    braid_isa_module module = braid_overlay_module(&program->steps[i].instruction);
    program->steps[i].next = next[module];
    next[module] = (uint32_t)i;
  }
}

braid_status braid_overlay_program_read(const uint8_t *bytes, size_t count, const braid_overlay_design *design,
                                        int core, const braid_allocator *allocator, braid_overlay_program *out) {
  sums kept = {0};
  bool ended = false;
  *out = (braid_overlay_program){.allocator = allocator};
  if (count / BRAID_ISA_WORD >= UINT32_MAX)
    return braid_fail(BRAID_INVALID_FILE, "a program has fewer than 2^32 words, this one %zu", count / BRAID_ISA_WORD);
  for (size_t at = 0; at < count && !ended;) {
    braid_overlay_step *steps = braid_grow(allocator, out->steps, out->count, &out->capacity, sizeof *steps);
    if (!steps) return braid_fail(BRAID_NO_MEMORY, "no memory for the instructions of a program of %zu bytes", count);
    out->steps = steps;
    braid_overlay_step *step = &steps[out->count];
    step->at = at;
    BRAID_TRY(read_step(bytes, count, design, core, allocator, step, &kept, &at));
    out->count++;
    ended = step->instruction.opcode == BRAID_ISA_OP_SYSTEM && step->instruction.system.end;
    if (ended && at < count)
      return braid_fail(BRAID_INVALID_FILE, "byte %zu: something follows the end at byte %zu", at, step->at);
  }
  if (!ended) return braid_fail(BRAID_INVALID_FILE, "byte %zu: the program stops without an end", count);
  link_modules(out);
  return link_tiles(out);
}

void braid_overlay_program_free(braid_overlay_program *program) {
  braid_free(program->allocator, program->steps);
  *program = (braid_overlay_program){0};
}
