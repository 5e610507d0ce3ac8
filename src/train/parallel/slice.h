/* Which samples of every batch a process has, of those that train together (braid/group.h). */
#ifndef BRAID_TRAIN_PARALLEL_SLICE_H
#define BRAID_TRAIN_PARALLEL_SLICE_H

#include "braid/train.h"
#include "graph/graph.h"

/* Samples first to first + count - 1 of each batch; all of it where there is one process. */
typedef struct braid_slice {
  struct braid_group *group; /* NULL: one process */
  int rank, size;
  int64_t batch, first, count;
} braid_slice;

/* Of the group of the options' registry. */
braid_slice braid_slice_of(const braid_train_options *options);
/* INVALID_ARGUMENT or UNSUPPORTED: what does not train in several processes. */
BRAID_MUST_CHECK braid_status braid_slice_check(const braid_train_options *options);

/* reduce.c: one AllReduce node for these values of one type, which become its results; nothing where there is one
 * process. `reduction`: "sum", "max" or "or". */
BRAID_MUST_CHECK braid_status braid_add_all_reduce(braid_graph *graph, const braid_slice *slice, const char *reduction,
                                                   braid_value_id *values, size_t count);
/* The same as sums in several nodes, in the order in which the graph computes the values. */
BRAID_MUST_CHECK braid_status braid_add_all_reduces(braid_graph *graph, const braid_slice *slice,
                                                    braid_value_id *values, size_t count);
/* The process's part of a sum over samples: value * count / batch. */
BRAID_MUST_CHECK braid_status braid_add_weight(braid_graph *graph, const braid_slice *slice, braid_value_id *value);

#endif
