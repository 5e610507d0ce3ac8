/* Designs that the evaluation compares with, and that are in no file. */
#include "braid/overlay_evaluation.h"

#include "base/try.h"

/* The largest is halved; of equal ones the first. */
static void halve_largest(int *const *ways, int count) {
  int largest = 0;
  for (int i = 1; i < count; i++)
    if (*ways[i] > *ways[largest]) largest = i;
  *ways[largest] /= 2;
}

static int64_t part_of(int64_t bytes, int divisor) {
  int64_t lines = bytes / 16 / divisor;
  return 16 * (lines > 0 ? lines : 1);
}

braid_status braid_overlay_divide_core(const braid_overlay_design *design, int divisor, braid_overlay_design *out) {
  *out = *design;
  if (design->cores != 1)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s has %d cores, not one", design->name, design->cores);
  if (divisor < 1 || divisor & (divisor - 1) || design->port_bits / divisor < 128)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s cannot be divided by %d: a power of two that leaves a port of 128 bits", design->name,
                      divisor);
  int *const convolutional[] = {&out->pixels, &out->channels_in, &out->channels_out};
  int *const recurrent[] = {&out->rows, &out->columns};
  for (int left = divisor; left > 1; left /= 2)
    halve_largest(design->recurrent ? recurrent : convolutional, design->recurrent ? 2 : 3);
  if (design->recurrent)
    out->side_numbers = out->rows;
  else
    out->side_bytes = out->pixels * out->channels_in;
  out->sources = NULL;
  out->port_bits /= divisor;
  out->outstanding = out->outstanding / divisor < 8 ? 8 : out->outstanding / divisor;
  out->weight_bytes = part_of(design->weight_bytes, divisor);
  out->bias_bytes = part_of(design->bias_bytes, divisor);
  out->sum_bytes = part_of(design->sum_bytes, divisor);
  if (!design->recurrent) out->feature_bytes = part_of(design->feature_bytes, divisor);
  return BRAID_OK;
}

braid_overlay_design braid_overlay_double_bandwidth(const braid_overlay_design *design) {
  braid_overlay_design out = *design;
  out.sources = NULL;
  out.port_bits *= 2;
  out.bank_bits *= 2;
  return out;
}
