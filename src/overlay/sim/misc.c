/* MISC: pooling, sums of maps, copies. */
#include "overlay/sim/core.h"
#include "overlay/sim/numbers.h"

enum { kLane = 16 };

typedef struct pool {
  const braid_isa_misc *misc;
  const int8_t *plane; /* of the input */
  int32_t tap_rows, tap_columns;
} pool;

/* The line of the input under a tap of a result, or NULL: it lies outside. */
static const int8_t *tap(const pool *p, int32_t r, int32_t x, int32_t i, int32_t k) {
  const braid_isa_misc *misc = p->misc;
  int32_t row = misc->first_row + r * misc->stride_rows + i * misc->dilation_rows;
  int32_t column = misc->first_column + x * misc->stride_columns + k * misc->dilation_columns;
  if (row < 0 || row >= misc->input_rows || column < 0 || column >= misc->input_columns) return NULL;
  return p->plane + ((size_t)row * (size_t)misc->input_pitch + (size_t)column) * kLane;
}

static void take_window(const pool *p, int32_t r, int32_t x, int32_t values[kLane]) {
  bool greatest = p->misc->function == BRAID_ISA_MAX;
  for (int lane = 0; lane < kLane; lane++) values[lane] = greatest ? -128 : 0;
  for (int32_t i = 0; i < p->tap_rows; i++)
    for (int32_t k = 0; k < p->tap_columns; k++) {
      const int8_t *line = tap(p, r, x, i, k);
      if (!line) continue;
      if (greatest)
        for (int lane = 0; lane < kLane; lane++) values[lane] = line[lane] > values[lane] ? line[lane] : values[lane];
      else
        for (int lane = 0; lane < kLane; lane++) values[lane] += line[lane];
    }
}

void braid_overlay_misc(braid_overlay_core *core, const braid_instruction *instruction) {
  const braid_isa_misc *misc = &instruction->misc;
  int8_t *features = (int8_t *)core->memories[BRAID_ISA_FEATURES];
  bool windows = misc->function == BRAID_ISA_MAX || misc->function == BRAID_ISA_MEAN;
  bool sum = misc->function == BRAID_ISA_SUM;
  int64_t left = (int64_t)1 << misc->left, addend_left = (int64_t)1 << misc->addend_left;
  int64_t divisor = misc->function == BRAID_ISA_MEAN ? ((int64_t)1 << misc->shift) * misc->divisor : 0;
  for (int32_t g = 0; g < misc->groups; g++) {
    pool p = {.misc = misc,
              .plane = features + ((size_t)misc->input + (size_t)g * (size_t)misc->input_plane) * kLane,
              .tap_rows = windows ? misc->kernel_rows : 1,
              .tap_columns = windows ? misc->kernel_columns : 1};
    for (int32_t r = 0; r < misc->output_rows; r++)
      for (int32_t x = 0; x < misc->output_columns; x++) {
        size_t place = (size_t)g * (size_t)misc->output_plane + (size_t)r * (size_t)misc->output_pitch + (size_t)x;
        const int8_t *addend = features + ((size_t)misc->addend + place) * kLane;
        int8_t *out = features + ((size_t)misc->output + place) * kLane;
        int32_t values[kLane];
        take_window(&p, r, x, values);
        for (int lane = 0; lane < kLane; lane++) {
          int64_t total = values[lane] * left + (sum ? addend[lane] * addend_left : 0);
          total = divisor         ? braid_overlay_round_division(total, divisor, misc->half_up)
                  : misc->half_up ? braid_overlay_round_up(total, misc->shift)
                                  : braid_overlay_round(total, misc->shift);
          out[lane] = (int8_t)braid_overlay_clip(total, misc->low, misc->high);
        }
      }
  }
}
