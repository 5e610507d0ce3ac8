#include "backend/manycore/core.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/manycore/sw26010.h"

enum { kMark = 0xA7 };

/* --- scratchpads ---------------------------------------------------------------------------------------------------
 */
size_t braid_manycore_scratchpad_bytes(const braid_manycore_group *group) {
  return group->scratchpad + 2 * BRAID_MANYCORE_MARK_BYTES;
}

uint8_t *braid_manycore_scratchpad_init(const braid_manycore_group *group, uint8_t *memory) {
  memset(memory, kMark, BRAID_MANYCORE_MARK_BYTES);
  memset(memory + BRAID_MANYCORE_MARK_BYTES, 0, group->scratchpad);
  memset(memory + BRAID_MANYCORE_MARK_BYTES + group->scratchpad, kMark, BRAID_MANYCORE_MARK_BYTES);
  return memory + BRAID_MANYCORE_MARK_BYTES;
}

static bool is_marked(const uint8_t *bytes) {
  return bytes[0] == kMark && memcmp(bytes, bytes + 1, BRAID_MANYCORE_MARK_BYTES - 1) == 0;
}

bool braid_manycore_scratchpad_check(const braid_manycore_group *group, uint8_t *scratchpad) {
  uint8_t *before = scratchpad - BRAID_MANYCORE_MARK_BYTES, *behind = scratchpad + group->scratchpad;
  if (is_marked(before) && is_marked(behind)) return true;
  memset(before, kMark, BRAID_MANYCORE_MARK_BYTES);
  memset(behind, kMark, BRAID_MANYCORE_MARK_BYTES);
  return false;
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
void braid_manycore_core_begin(braid_manycore_core *core, const braid_manycore_group *group, const char *kernel, int id,
                               uint8_t *scratchpad, const braid_manycore_operand *operands) {
  *core = (braid_manycore_core){.group = group,
                                .kernel = kernel,
                                .id = id,
                                .scratchpad = scratchpad,
                                .operands = operands,
                                .counts_only = operands == NULL,
                                .two_buffers = true,
                                .status = BRAID_OK};
#ifdef BRAID_INVARIANTS
  /* No program may count on what another one left: NaNs there would show. */
  if (!core->counts_only) memset(scratchpad, 0xFF, group->scratchpad);
#endif
}

__attribute__((format(printf, 3, 4))) static void core_fail(braid_manycore_core *core, braid_status status,
                                                            const char *format, ...) {
  if (core->status != BRAID_OK) return;
  core->status = status;
  int length = snprintf(core->detail, sizeof core->detail, "core %d of %s ", core->id, core->kernel);
  if (length < 0 || (size_t)length >= sizeof core->detail) return;
  va_list list;
  va_start(list, format);
  vsnprintf(core->detail + length, sizeof core->detail - (size_t)length, format, list);
  va_end(list);
}

float *braid_manycore_take(braid_manycore_core *core, int64_t count) {
  size_t left = core->group->scratchpad - core->used, bytes;
  if (count < 0 || (uint64_t)count > left / sizeof(float)) {
    core_fail(core, BRAID_NO_MEMORY, "takes %" PRId64 " bytes of its scratchpad, which has %zu of %zu left", count * 4,
              left, core->group->scratchpad);
    return NULL;
  }
  float *place = (float *)(void *)(core->scratchpad + core->used);
  bytes = (size_t)count * sizeof(float) + BRAID_MANYCORE_ALIGNMENT - 1;
  bytes -= bytes % BRAID_MANYCORE_ALIGNMENT;
  core->used += bytes < left ? bytes : left;
  return place;
}

/* Elements of the scratchpad from `local` on; 0: it does not lie there. */
static int64_t elements_from(const braid_manycore_core *core, const float *local) {
  uintptr_t at = (uintptr_t)local, begin = (uintptr_t)core->scratchpad, end = begin + core->group->scratchpad;
  return local && at >= begin && at < end ? (int64_t)((end - at) / sizeof(float)) : 0;
}

/* Does the block lie in its operand, and in the scratchpad? */
static bool is_allowed(braid_manycore_core *core, const float *local, const braid_manycore_block *block,
                       const char *verb) {
  int64_t last = (block->rows - 1) * block->pitch + block->run;
  if (block->pitch < 0 || last > elements_from(core, local))
    core_fail(core, BRAID_OUT_OF_RANGE, "%s %" PRId64 " x %" PRId64 " numbers outside of its scratchpad", verb,
              block->rows, block->run);
  else if (!core->counts_only) {
    int64_t elements = (int64_t)(core->operands[block->operand].bytes / sizeof(float));
    int64_t end = block->first + (block->rows - 1) * block->stride + block->run;
    if (block->first < 0 || block->stride < 0 || end > elements)
      core_fail(core, BRAID_OUT_OF_RANGE, "%s elements up to %" PRId64 " of operand %d, which has %" PRId64, verb, end,
                block->operand, elements);
  }
  return core->status == BRAID_OK;
}

/* Does what is put lie apart from what goes on being put? */
static bool is_free(braid_manycore_core *core, const float *from, const braid_manycore_block *block) {
  const float *end = from + (block->rows - 1) * block->pitch + block->run;
  if (!core->put.begin || from < core->put.begin) core->put.begin = from;
  if (!core->put.end || end > core->put.end) core->put.end = end;
  const braid_manycore_span *before = &core->put_before;
  if (core->two_buffers && before->begin && core->put.begin < before->end && core->put.end > before->begin)
    core_fail(core, BRAID_INTERNAL, "puts from where the step before still does");
  return core->status == BRAID_OK;
}

/* Runs that follow each other are one. */
static int64_t run_bytes(const braid_manycore_block *block) {
  return (block->stride == block->run ? block->rows * block->run : block->run) * (int64_t)sizeof(float);
}

static void get_block(braid_manycore_core *core, float *to, const braid_manycore_block *from) {
  if (!is_allowed(core, to, from, "gets") || core->counts_only) return;
  const float *source = (const float *)(const void *)core->operands[from->operand].data + from->first;
  for (int64_t row = 0; row < from->rows; row++)
    memcpy(to + row * from->pitch, source + row * from->stride, (size_t)from->run * sizeof(float));
}

void braid_manycore_get_blocks(braid_manycore_core *core, float *to, const braid_manycore_block *from, int64_t count,
                               int64_t stride, int64_t pitch) {
  if (from->rows <= 0 || from->run <= 0 || core->status != BRAID_OK) return;
  int64_t bytes = count * from->rows * from->run * (int64_t)sizeof(float);
  int sharers = from->sharers > 1 ? from->sharers : 1;
  core->account.get += braid_sw26010_get_cycles((double)bytes, run_bytes(from), sharers, core->group->cores);
  if (sharers > 1) core->account.compute += braid_sw26010_share_cycles((double)bytes);
  core->account.get_bytes += (bytes + sharers - 1) / sharers;
  braid_manycore_block block = *from;
  for (int64_t i = 0; i < count && core->status == BRAID_OK; i++, block.first += stride)
    get_block(core, to + i * pitch, &block);
}

void braid_manycore_get(braid_manycore_core *core, float *to, const braid_manycore_block *from) {
  braid_manycore_get_blocks(core, to, from, 1, 0, 0);
}

void braid_manycore_put(braid_manycore_core *core, const float *from, const braid_manycore_block *to) {
  if (to->rows <= 0 || to->run <= 0 || core->status != BRAID_OK || !is_allowed(core, from, to, "puts")) return;
  if (!is_free(core, from, to)) return;
  int64_t bytes = to->rows * to->run * (int64_t)sizeof(float);
  core->account.put += braid_sw26010_put_cycles((double)bytes, run_bytes(to), core->group->cores);
  core->account.put_bytes += bytes;
  if (core->counts_only) return;
  float *target = (float *)(void *)core->operands[to->operand].data + to->first;
  for (int64_t row = 0; row < to->rows; row++)
    memcpy(target + row * to->stride, from + row * to->pitch, (size_t)to->run * sizeof(float));
}

bool braid_manycore_compute(braid_manycore_core *core, double cycles, int64_t macs) {
  core->account.compute += cycles;
  core->account.computed += cycles;
  core->account.macs += macs;
  return !core->counts_only && core->status == BRAID_OK;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

void braid_manycore_step(braid_manycore_core *core) {
  braid_manycore_account *a = &core->account;
  if (core->two_buffers) {
    /* What this step gets, and what the one before the last puts, goes on while the last one computes. */
    a->total += larger(a->last_compute, a->get + a->earlier_put);
    a->last_compute = a->compute;
    a->earlier_put = a->last_put;
    a->last_put = a->put;
  } else {
    a->total += a->get + a->compute + a->put;
  }
  if (core->put.begin) core->put_before = core->put;
  core->put = (braid_manycore_span){.begin = NULL};
  a->get = a->put = a->compute = 0;
  a->steps++;
}

double braid_manycore_core_cycles(const braid_manycore_core *core) {
  const braid_manycore_account *a = &core->account;
  return a->total + larger(a->last_compute, a->earlier_put) + a->last_put + a->get + a->compute + a->put;
}
