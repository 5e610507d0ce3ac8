/* How kernels of the compute cores are written: one file per family in kernels/, each with a table of braid_kernel
 * whose `implementation` is a braid_manycore_kernel.
 *
 * A kernel sizes its tiles when it is planned, so that a tile, its buffers and its result fit into a scratchpad, by a
 * search over what fits for what the model (sw26010.h) says is fastest. Its program is then run once by every core,
 * which finds its tiles by its number. Every element of a result is computed by one core, and sums run in the order of
 * the inner dimension whatever the tiles are: bits depend neither on tiles nor on the number of cores or threads. */
#ifndef BRAID_BACKEND_MANYCORE_KERNEL_H
#define BRAID_BACKEND_MANYCORE_KERNEL_H

#include "backend/manycore/core.h"
#include "braid/device.h"

enum { BRAID_MANYCORE_PLAN_BYTES = 1024 };
typedef union braid_manycore_plan {
  char bytes[BRAID_MANYCORE_PLAN_BYTES];
  int64_t aligned;
} braid_manycore_plan;

typedef struct braid_manycore_kernel {
  /* Sizes tiles for the node; false, with a sentence in `why`, if it is not one for this kernel, or if no tile fits. */
  bool (*plan)(const braid_node_desc *node, const braid_manycore_group *group, void *plan, char *why, size_t why_bytes);
  void (*run)(braid_manycore_core *core, const void *plan); /* the program of one core */
  int64_t (*macs)(const void *plan);                        /* of the node; NULL: one operation per element */
} braid_manycore_kernel;

/* The kernels of the compute cores. */
typedef struct braid_manycore_table {
  const braid_kernel *kernels;
  size_t count;
} braid_manycore_table;
extern const braid_manycore_table braid_manycore_products, braid_manycore_convolutions, braid_manycore_pools,
    braid_manycore_elements, braid_manycore_norms, braid_manycore_softmaxes;

/* All of them, numbered from 0; NULL: there are no more. */
const braid_kernel *braid_manycore_kernel_at(size_t index);

/* --- what their plans share ----------------------------------------------------------------------------------------
 */
/* All operands that are there are float32 and PLAIN; else the reason. */
bool braid_manycore_all_float(const braid_node_desc *node, char *why, size_t why_bytes);
__attribute__((format(printf, 3, 4))) bool braid_manycore_refuse(char *why, size_t why_bytes, const char *format, ...);
static inline int64_t braid_manycore_quotient(int64_t a, int64_t b) { /* rounded up */
  return (a + b - 1) / b;
}
static inline int64_t braid_manycore_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t braid_manycore_max(int64_t a, int64_t b) {
  return a > b ? a : b;
}
/* Elements that `count` float32 take in a scratchpad. */
static inline int64_t braid_manycore_room(int64_t count) {
  enum { kStep = BRAID_MANYCORE_ALIGNMENT / sizeof(float) };
  return (count + kStep - 1) / kStep * kStep;
}

/* A grid of tiles over cores: core (r, c) has the tiles of rows r, r + rows, ... and of columns c, c + columns, ..., so
 * that the cores of a row work on the same rows of the result, and those of a column on the same columns. */
typedef struct braid_manycore_grid {
  int rows, columns; /* of cores */
} braid_manycore_grid;
enum { BRAID_MANYCORE_GRIDS = 3 };
/* The mesh itself, all cores in one row, and all in one column. */
void braid_manycore_grids(const braid_manycore_group *group, braid_manycore_grid grids[BRAID_MANYCORE_GRIDS]);

#endif
