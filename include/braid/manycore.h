/* What a node takes on one core group of Sunway's SW26010: modelled, as the device `manycore` models it
 * (docs/manycore.md), and held against what Zhao et al. published, "On Retargeting the AI Programming Framework to New
 * Hardwares" (NPC 2018, doi 10.1007/978-3-030-05677-3_4; "the paper") by `braid evaluate manycore`. */
#ifndef BRAID_MANYCORE_H
#define BRAID_MANYCORE_H

#include "braid/graph.h"

typedef struct braid_manycore_estimate {
  bool on_cores;    /* the 64 compute cores run it; else the management core does */
  char why[192];    /* why the compute cores do not; "" */
  char kernel[32];  /* of the compute cores; "" */
  double seconds;   /* of the core group: by the compute cores, or by the management core with vectors */
  double computing; /* of these on the compute core that computes longest, if transfers cost nothing; 0 */
  /* By the management core alone, at least: its arithmetic with vectors or without, or its memory, each operand moved
   * once, whichever takes longer. */
  double management_vectors, management_scalar;
  double operations;           /* multiply-adds; of other ops one per element */
  double get_bytes, put_bytes; /* through the memory controller, by the compute cores */
  double joules;               /* a quarter of the node's published power for that long */
  int busy;                    /* compute cores with a part of it */
} braid_manycore_estimate;

/* `options`: as of the device, "cores=64,scratchpad=65536", or NULL. The graph must be resolved, all shapes known. */
BRAID_API BRAID_MUST_CHECK braid_status braid_manycore_estimate_node(const braid_graph *graph, braid_node_id node,
                                                                     const char *options, braid_manycore_estimate *out);
/* The paper's four networks as Darknet files, in its order; false: there is no such one. */
enum { BRAID_MANYCORE_NETWORKS = 4 };
BRAID_API bool braid_manycore_network(size_t index, const char **name, const char **text, size_t *bytes);

/* Constants of the model, with where they come from. */
typedef struct braid_manycore_constant {
  const char *what, *unit, *source;
  double value;
} braid_manycore_constant;
BRAID_API size_t braid_manycore_constants(const braid_manycore_constant **out);

#endif
