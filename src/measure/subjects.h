/* What is measured: operations, each in a graph of its own. */
#ifndef BRAID_MEASURE_SUBJECTS_H
#define BRAID_MEASURE_SUBJECTS_H

#include "base/arena.h"
#include "profile/subject.h"

typedef struct braid_subject {
  const braid_graph *graph; /* that the node is in */
  braid_node_id node;
  const char *size; /* "small" ...; NULL: of a model */
  const char *op, *shapes;
  char key[BRAID_SUBJECT_KEY];
  double bytes, macs;
  bool training;
} braid_subject;

typedef struct braid_subjects {
  const braid_allocator *allocator;
  braid_arena *arena;
  braid_subject *items;
  size_t count, capacity;
  braid_graph **graphs; /* that were made for them */
  size_t graph_count, graph_capacity;
} braid_subjects;

BRAID_MUST_CHECK braid_status braid_subjects_init(braid_subjects *subjects, const braid_allocator *allocator);
void braid_subjects_deinit(braid_subjects *subjects);
/* The operations of a resolved graph that run, equal ones once. The graph must stay. */
BRAID_MUST_CHECK braid_status braid_subjects_add_graph(braid_subjects *subjects, const braid_graph *graph);
/* sizes.c: the operations of a list ("MatMul,Conv"; "all") at sizes of a list ("small,large"; NULL: all three).
 * INVALID_ARGUMENT lists what there is. */
BRAID_MUST_CHECK braid_status braid_subjects_add_ops(braid_subjects *subjects, const char *ops, const char *sizes);
BRAID_MUST_CHECK braid_status braid_subjects_add(braid_subjects *subjects, const braid_graph *graph, braid_node_id node,
                                                 const char *size);
/* A graph of the node alone: what others compute is an input, constants and weights are as they are. */
BRAID_MUST_CHECK braid_status braid_subject_extract(const braid_subject *subject, braid_graph **out);

#endif
