/* What a kernel costs on a chip, and its Fmax, by a model: an assumption, see docs/explore.md. */
#include <math.h>

#include "braid/explore.h"

/* Words that a lane reads from local memory in a cycle. */
static int operands_of(braid_kernel_op op) {
  return op == BRAID_KERNEL_MAX_POOL ? 1 : 2;
}

/* Local memory of a compute unit, in blocks: of each operand two tiles (one is filled while the other is read) of
 * group x unroll floats, and as many blocks as the lanes of a cycle need, of which each serves two. */
static double local_blocks(const braid_chip *chip, braid_kernel_op op, const braid_kernel_design *d) {
  double bits = 2 * (double)d->group * (double)d->unroll * 32;
  double room = ceil(bits / chip->bram_bits->value), ports = ceil((double)d->simd * (double)d->unroll / 2);
  return operands_of(op) * fmax(room, ports);
}

void braid_kernel_use(const braid_chip *chip, braid_kernel_op op, const braid_kernel_design *d, int64_t kernels,
                      double out[BRAID_KERNEL_RESOURCES]) {
  for (int i = 0; i < BRAID_KERNEL_RESOURCES; i++) out[i] = NAN;
  if (!chip || !chip->kernel) return;
  const braid_kernel_costs *c = chip->kernel;
  double units = (double)kernels * (double)d->units, lanes = units * (double)d->simd * (double)d->unroll;
  bool compares = op == BRAID_KERNEL_MAX_POOL;
  double luts = c->shell_luts->value + units * c->unit_luts->value +
                lanes * (compares ? c->compare_luts->value : c->mac_luts->value);
  double dsps = c->shell_dsps->value + (compares ? 0 : lanes * c->mac_dsps->value);
  double brams = c->shell_brams->value + units * (c->unit_brams->value + local_blocks(chip, op, d));
  out[BRAID_KERNEL_LUTS] = luts / chip->luts->value;
  out[BRAID_KERNEL_DSPS] = dsps / chip->dsps->value;
  out[BRAID_KERNEL_BRAMS] = brams / chip->brams->value;
}

double braid_kernel_model_fmax(const braid_chip *chip, braid_kernel_op op, const braid_kernel_design *design,
                               int64_t kernels) {
  if (!chip || !chip->kernel) return NAN;
  double used[BRAID_KERNEL_RESOURCES], most = 0;
  braid_kernel_design alone = *design;
  alone.group = 1;
  braid_kernel_use(chip, op, &alone, kernels, used);
  for (int i = 0; i < BRAID_KERNEL_RESOURCES; i++) most = fmax(most, used[i]);
  most = fmin(most, 1);
  double empty = chip->kernel->fmax_empty->value, full = chip->kernel->fmax_full->value;
  return empty + (full - empty) * most;
}
