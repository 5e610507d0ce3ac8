/* A claimed group of nodes: plans for the shapes it was run with, and its runs. */
#ifndef BRAID_ORT_GROUP_H
#define BRAID_ORT_GROUP_H

#include "host.h"
#include "piece.h"

typedef struct braid_ort_group braid_ort_group;

typedef struct braid_ort_group_options {
  braid_ort_host *host;   /* must outlive the group */
  braid_weights *weights; /* shared by the groups of a session */
  braid_plan_options plan;
  size_t plans; /* kept at a time */
  bool checked; /* the framework refuses inputs of other shapes than the group's are declared with */
} braid_ort_group_options;

/* Reads the group. If all of its shapes are known, its plan and first execution are made now. `places` has the index of
 * each input and then of each output of the piece among those of the framework's node. *out begins with
 * a braid_ort_compute_table, which the framework calls. */
BRAID_MUST_CHECK braid_status braid_ort_group_create(const braid_ort_group_options *options, braid_ort_view *view,
                                                     const braid_ort_piece *piece, const size_t *places,
                                                     braid_ort_group **out);
void braid_ort_group_destroy(braid_ort_group *group); /* NULL is allowed */
braid_ort_compute_table *braid_ort_group_table(braid_ort_group *group);

#endif
