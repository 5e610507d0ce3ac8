/* Would the machine run a node, before shapes are known? */
#ifndef BRAID_ORT_PROBE_H
#define BRAID_ORT_PROBE_H

#include "braid/machine.h"
#include "view.h"

/* What is known of the contents of a value when a plan is made for the shapes of a run. */
typedef enum braid_ort_class {
  BRAID_ORT_DATA = 0, /* nothing */
  BRAID_ORT_SHAPED,   /* they follow from constants and shapes */
  BRAID_ORT_GIVEN,    /* small inputs of the whole graph, and what follows from them: a plan per contents */
} braid_ort_class;

/* The most elements of an input whose contents a plan may be made for, and of one of real numbers (scales). */
enum { BRAID_ORT_GIVEN_MAX = 64, BRAID_ORT_GIVEN_REALS = 8 };
/* The most bytes of contents that follow from shapes and determine others: a group may get them from another one. */
enum { BRAID_ORT_CONTENTS = 4096 };

/* Whether a value of this type and size may be one whose contents plans are made for: a number or a short list, as
 * shapes, axes and scales are. */
bool braid_ort_may_be_given(braid_dtype dtype, int rank, const int64_t *dims);

/* OK: the machine would run the node. Else the detail says why not. `classes` are those of the view's values. */
BRAID_MUST_CHECK braid_status braid_ort_probe_node(braid_ort_view *view, int node, const braid_ort_class *classes,
                                                   braid_machine *machine, const braid_plan_options *options);

#endif
