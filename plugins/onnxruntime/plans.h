/* The plans of a group: one for each combination of input shapes it was run with, and of the contents of those inputs
 * that shapes follow from. A bounded number is kept, the most recently used ones. Any thread. */
#ifndef BRAID_ORT_PLANS_H
#define BRAID_ORT_PLANS_H

#include "braid/graph.h"
#include "braid/machine.h"

/* What a run was given. */
typedef struct braid_ort_call {
  struct braid_ort_call *next;
  const void **inputs;  /* data of every input */
  const void **left;    /* data of those that are inputs of the plan: the others are constants of it */
  const int64_t **dims; /* of every input; valid during the call */
  size_t *ranks;        /* how many those are */
  void **outputs;
  unsigned char *key; /* dimensions of all inputs, then contents of the bound ones */
  size_t key_bytes;
} braid_ort_call;

typedef struct braid_ort_plan {
  struct braid_ort_plan *next; /* most recently used first */
  unsigned char *key;
  size_t key_bytes, users;
  bool kept; /* in the list: freed by its last user if not */
  braid_plan *plan;
  braid_execution **idle; /* executions that no caller uses */
  size_t idle_count, idle_capacity;
} braid_ort_plan;

typedef struct braid_ort_plans braid_ort_plans;

typedef struct braid_ort_plans_options {
  braid_machine *machine;
  braid_weights *weights;
  braid_plan_options plan;
  size_t limit;
} braid_ort_plans_options;

/* Takes over `graph`, the group with its open dimensions. */
BRAID_MUST_CHECK braid_status braid_ort_plans_create(const braid_ort_plans_options *options, braid_graph *graph,
                                                     braid_ort_plans **out);
void braid_ort_plans_destroy(braid_ort_plans *plans); /* NULL is allowed */
/* All shapes are known: makes the plan. `only`: runs have no others, what these would need is dropped. OK without a
 * plan if shapes follow from the contents of inputs, which the first run brings. */
BRAID_MUST_CHECK braid_status braid_ort_plans_settle(braid_ort_plans *plans, bool only);

/* A call's memory, with room for the group's inputs and outputs. */
BRAID_MUST_CHECK braid_status braid_ort_plans_call(braid_ort_plans *plans, braid_ort_call **out);
/* Finds or makes the plan for what the call was given (inputs, dims), and takes an execution of it that nobody uses.
 * The error says what the shapes were. */
BRAID_MUST_CHECK braid_status braid_ort_plans_take(braid_ort_plans *plans, braid_ort_call *call, braid_ort_plan **plan,
                                                   braid_execution **execution);
/* Gives all back; plan and execution may be NULL. An execution that must not be used again is destroyed by the caller,
 * who gives NULL. */
void braid_ort_plans_give(braid_ort_plans *plans, braid_ort_call *call, braid_ort_plan *plan,
                          braid_execution *execution);

size_t braid_ort_plans_input_count(const braid_ort_plans *plans);
int braid_ort_plans_input_rank(const braid_ort_plans *plans, size_t index); /* -1: any */

#endif
