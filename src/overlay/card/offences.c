#include "overlay/card/offences.h"

#include <string.h>

#include "base/philox.h"
#include "base/try.h"

enum { kLine = 16, kSegment = 1 << 18, kSmall = 1 << 12, kChatter = 1000 };

static const braid_overlay_offence kOffences[CARD_OFFENCES] = {
    [CARD_FOREIGN_READ] = {"foreign-read", "reads behind its memory", true},
    [CARD_FOREIGN_WRITE] = {"foreign-write", "writes behind its memory", true},
    [CARD_READ_ONLY] = {"constants", "writes to its constants", true},
    [CARD_CORRUPTED] = {"corrupted", "has instructions of random bits", true},
    [CARD_NO_SYNC] = {"no-sync", "has cores that end where the others synchronize", true},
    [CARD_NO_TOKEN] = {"no-token", "waits for a token that nothing gives", true},
    [CARD_OVERRUN] = {"overrun", "runs on when its time is over", true},
    [CARD_CUT] = {"cut", "runs a network, and its time is over in the middle", true},
    [CARD_FLOOD] = {"flood", "moves all that its ports let it", false},
    [CARD_TRICKLE] = {"trickle", "moves a line with each instruction, which all need the card's decoder", false},
    [CARD_CHATTER] = {"chatter", "has instructions that do nothing, which all need the card's decoder", false},
    [CARD_RESIZED] = {"resized", "runs a network, and gets another number of cores all the time", false},
    [CARD_CROWD] = {"crowd", "is 33 tenants at once", false},
};

size_t braid_overlay_offence_count(void) {
  return CARD_OFFENCES;
}

braid_overlay_offence braid_overlay_offence_at(size_t index) {
  return kOffences[index];
}

const char *braid_overlay_beside_name(braid_overlay_beside beside) {
  static const char *const names[] = {"own banks", "gated bank", "shared bank", "own, gated"};
  return (unsigned)beside < BRAID_OVERLAY_BESIDES ? names[beside] : "";
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
static uint8_t *offender_room(card_offender *o, int core, size_t more) {
  braid_overlay_code *program = &o->programs[core];
  if (o->failed) return NULL;
  if (program->count + more > o->capacity[core]) {
    size_t capacity = 2 * (program->count + more);
    uint8_t *bytes = braid_zalloc(o->allocator, capacity);
    if (!bytes) {
      o->failed = true;
      return NULL;
    }
    if (program->count) memcpy(bytes, o->bytes[core], program->count);
    braid_free(o->allocator, o->bytes[core]);
    o->bytes[core] = bytes;
    o->capacity[core] = capacity;
    program->bytes = bytes;
  }
  return o->bytes[core] + program->count;
}

static braid_status add_instruction(card_offender *o, int core, braid_instruction in) {
  size_t bytes;
  uint8_t *at = offender_room(o, core, (size_t)BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD);
  if (!at) return BRAID_NO_MEMORY;
  in.core = core;
  BRAID_TRY(braid_isa_encode(&in, at, &bytes));
  o->programs[core].count += bytes;
  return BRAID_OK;
}

/* A row of lines; SAVE has the same fields. */
static braid_status add_move(card_offender *o, int core, bool writes, int memory, int segment, int32_t ddr,
                             int32_t lines) {
  braid_instruction in = braid_isa_blank(writes ? BRAID_ISA_OP_SAVE : BRAID_ISA_OP_LOAD);
  braid_isa_load move = in.load;
  move.memory = memory;
  move.segment = segment;
  move.ddr = ddr;
  move.lines = lines;
  memcpy(&in.load, &move, sizeof move);
  return add_instruction(o, core, in);
}

static braid_status add_system(card_offender *o, int core, bool sync, bool end) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.sync = sync;
  in.system.end = end;
  return add_instruction(o, core, in);
}

/* The memory that both LOAD and SAVE reach, and as many of its lines as one may move. */
static int memory_of(const braid_overlay_design *design) {
  return design->recurrent ? BRAID_ISA_VECTORS : BRAID_ISA_FEATURES;
}

static int32_t most_lines(const braid_overlay_design *design) {
  int64_t lines = (design->recurrent ? design->vector_bytes : design->feature_bytes) / kLine;
  return (int32_t)(lines > 4096 ? 4096 : lines);
}

/* Reads, and writes what it read, as long as it was asked for; the two need no token of each other. */
static braid_status add_flood(card_offender *o, int core, const braid_overlay_design *design, int moves,
                              int32_t lines) {
  for (int i = 0; i < moves; i++) {
    BRAID_TRY(add_move(o, core, false, memory_of(design), BRAID_SEGMENT_FEATURES, 0, lines));
    BRAID_TRY(add_move(o, core, true, memory_of(design), BRAID_SEGMENT_OUTPUTS, 0, lines));
  }
  return BRAID_OK;
}

static braid_status add_garbage(card_offender *o, int core) {
  uint8_t *at = offender_room(o, core, kSmall);
  if (!at) return BRAID_NO_MEMORY;
  for (int i = 0; i < kSmall; i++) at[i] = (uint8_t)braid_random_u32(13, (uint64_t)core, 0, (uint64_t)i);
  o->programs[core].count += kSmall;
  return BRAID_OK;
}

static braid_status add_program(card_offender *o, card_offence offence, const braid_overlay_design *design, int core) {
  int memory = memory_of(design);
  braid_instruction in;
  switch (offence) {
  case CARD_FOREIGN_READ:
    BRAID_TRY(add_flood(o, core, design, 4, most_lines(design)));
    BRAID_TRY(add_move(o, core, false, memory, BRAID_SEGMENT_FEATURES, kSegment / kLine, 1));
    break;
  case CARD_FOREIGN_WRITE:
    BRAID_TRY(add_move(o, core, true, memory, BRAID_SEGMENT_OUTPUTS, kSegment / kLine - 1, 2));
    break;
  case CARD_READ_ONLY:
    BRAID_TRY(add_move(o, core, true, memory, BRAID_SEGMENT_CONSTANTS, 0, 1));
    break;
  case CARD_CORRUPTED:
    return add_garbage(o, core);
  case CARD_NO_SYNC:
    BRAID_TRY(add_flood(o, core, design, 2, most_lines(design)));
    if (!core) BRAID_TRY(add_system(o, core, true, false));
    break;
  case CARD_NO_TOKEN:
    in = braid_isa_blank(BRAID_ISA_OP_LOAD);
    in.load.memory = memory;
    in.wait = 1 << BRAID_ISA_COMPUTE;
    BRAID_TRY(add_instruction(o, core, in));
    break;
  case CARD_TRICKLE:
    BRAID_TRY(add_flood(o, core, design, 1500, 1));
    break;
  case CARD_CHATTER:
    in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
    in.system.tile = 1;
    for (int i = 0; i < kChatter; i++) BRAID_TRY(add_instruction(o, core, in));
    break;
  case CARD_CROWD:
    BRAID_TRY(add_flood(o, core, design, 6, most_lines(design)));
    break;
  default:
    BRAID_TRY(add_flood(o, core, design, 64, most_lines(design)));
  }
  return add_system(o, core, false, true);
}

static void offender_describe(card_offender *o) {
  o->code.programs = o->programs;
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) o->code.bytes[s] = kSegment;
  o->code.read_only[BRAID_SEGMENT_CONSTANTS] = o->code.read_only[BRAID_SEGMENT_INPUTS] = true;
}

braid_status card_offender_make(card_offender *o, card_offence offence, const braid_overlay_design *design, int cores,
                                uint64_t alone, const braid_allocator *allocator) {
  *o = (card_offender){.allocator = allocator, .cores = offence == CARD_CROWD ? 1 : cores};
  o->uses_package = offence == CARD_CUT || offence == CARD_RESIZED;
  if (offence == CARD_OVERRUN) o->most_cycles = 5000;
  if (offence == CARD_CUT) o->most_cycles = alone / 3 + 1;
  if (o->uses_package) return BRAID_OK;
  for (int c = 0; c < o->cores; c++) BRAID_TRY(add_program(o, offence, design, c));
  offender_describe(o);
  return BRAID_OK;
}

/* Lines of a memory of the core, or of its range in DDR by way of the core, to the outputs. */
static braid_status add_finds(card_offender *o, int core, const braid_overlay_design *design) {
  int32_t lines = most_lines(design), half = kSegment / kLine / 2, at = 0;
  int memory = memory_of(design);
  if (lines > half) lines = half;
  BRAID_TRY(add_move(o, core, true, memory, BRAID_SEGMENT_OUTPUTS, at, lines));
  BRAID_TRY(add_system(o, core, true, false));
  BRAID_TRY(add_move(o, core, false, memory, BRAID_SEGMENT_FEATURES, at, lines));
  BRAID_TRY(add_system(o, core, true, false));
  return add_move(o, core, true, memory, BRAID_SEGMENT_OUTPUTS, half, lines);
}

braid_status card_finder_make(card_offender *o, const braid_overlay_design *design, int cores,
                              const braid_allocator *allocator) {
  *o = (card_offender){.allocator = allocator, .cores = cores};
  for (int c = 0; c < cores; c++) {
    BRAID_TRY(add_finds(o, c, design));
    BRAID_TRY(add_system(o, c, false, true));
  }
  offender_describe(o);
  return BRAID_OK;
}

void card_offender_free(card_offender *o) {
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) braid_free(o->allocator, o->bytes[c]);
  memset(o, 0, sizeof *o);
}
