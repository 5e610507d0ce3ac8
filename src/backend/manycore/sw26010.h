/* What a program would take on one core group of the SW26010, the processor of the Sunway TaihuLight: a model, with
 * figures that others have published (docs/manycore.md has them with their sources). Nothing here is fitted to the
 * speed-up that is printed beside it. */
#ifndef BRAID_BACKEND_MANYCORE_SW26010_H
#define BRAID_BACKEND_MANYCORE_SW26010_H

#include <stdbool.h>
#include <stdint.h>

/* [1] J. Dongarra, "Report on the Sunway TaihuLight System", UT-EECS-16-742, June 2016.
 * [2] J. Fang et al., "swDNN: A Library for Accelerating Deep Learning Applications on Sunway TaihuLight", IPDPS 2017.
 * [3] L. Li et al., "swCaffe: a Parallel Framework for Accelerating Deep Learning Applications on Sunway TaihuLight",
 *     CLUSTER 2018. */
enum {
  BRAID_SW26010_CORES = 64,             /* [1]: compute cores of a core group, 8 by 8 */
  BRAID_SW26010_COLUMNS = 8,            /* [1] */
  BRAID_SW26010_GROUPS = 4,             /* [1]: core groups of a processor */
  BRAID_SW26010_SCRATCHPAD = 64 * 1024, /* [1]: bytes per compute core */
  BRAID_SW26010_LANES = 4,   /* [1]: 8 flops per cycle and compute core, which is one vector of 4 multiply-adds; [3]: as
                                many in single as in double precision */
  BRAID_SW26010_LATENCY = 7, /* [2]: cycles until the sum of a multiply-add can be added to again */
};
#define BRAID_SW26010_HERTZ 1.45e9           /* [1] and the seed */
#define BRAID_SW26010_MANAGEMENT_MACS 8.0    /* [1]: 16 flops per cycle: two pipelines of vectors of 4 */
#define BRAID_SW26010_MANAGEMENT_SCALAR 2.0  /* the same pipelines without vectors */
#define BRAID_SW26010_MANAGEMENT_BYTES 9.9e9 /* [3]: bytes per second that the management core copies */
#define BRAID_SW26010_NODE_WATTS                                                                                       \
  (15.371e6 / 40960) /* [1]: under LINPACK, by the number of nodes: a processor with its                               \
                        memory, network and its share of all else */

/* Cycles of one core for transfers in runs of so many bytes, while all `cores` of the group transfer: a core has its
 * share of the group's bandwidth, a 64th or, of more cores, less, also where others are idle. It gets one of `parts`
 * parts of the bytes, whose runs are not longer than the part. */
double braid_sw26010_get_cycles(double bytes, int64_t run_bytes, int parts, int cores);
double braid_sw26010_put_cycles(double bytes, int64_t run_bytes, int cores);
/* Passing a block on to other cores by registers. [2]: 256 bits per cycle; [3]: of double precision only, so that a
 * float32 takes the place of a float64. */
double braid_sw26010_share_cycles(double bytes);
/* c[rows][columns] += a[rows][inner] * b[inner][columns], all in the scratchpad. */
double braid_sw26010_product_cycles(int64_t rows, int64_t columns, int64_t inner);
/* `vectors` vectors go through the scratchpad's port, which takes one per cycle (loads and stores), and through as many
 * arithmetic instructions beside it. */
double braid_sw26010_pass_cycles(double vectors, double accesses, double arithmetic);
/* Seconds of the management core for work that it does by itself: at least what its arithmetic takes and what its
 * memory takes, each operand moved once. */
double braid_sw26010_management_seconds(double operations, double bytes, bool vectors);
static inline double braid_sw26010_vectors(int64_t elements) {
  return (double)((elements + BRAID_SW26010_LANES - 1) / BRAID_SW26010_LANES);
}

#endif
