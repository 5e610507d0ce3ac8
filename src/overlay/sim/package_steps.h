/* A package on some cores, a layer at a time: at the end of each layer the task may go on with another number of cores,
 * as it may on the card (docs/overlay-tenants.md). Its maps are in the image, so that whoever goes on finds them; the
 * results are the same bits whichever cores computed which layer. */
#ifndef BRAID_OVERLAY_PACKAGE_STEPS_H
#define BRAID_OVERLAY_PACKAGE_STEPS_H

#include "overlay/compiler/package.h"
#include "overlay/sim/functional.h"

/* The programs of a number of cores, in a simulator that runs them. One thread at a time. */
typedef struct braid_package_steps braid_package_steps;

/* INVALID_ARGUMENT as braid_overlay_simulate; UNSUPPORTED: a recurrent network. Package and design must outlive it. */
BRAID_MUST_CHECK braid_status braid_package_steps_create(const braid_package *package,
                                                         const braid_overlay_design *design, int cores,
                                                         const braid_allocator *allocator, braid_package_steps **out);
void braid_package_steps_destroy(braid_package_steps *steps); /* NULL is allowed */
/* Computes layers from `first` on, before `end`; both at most the package's. */
BRAID_MUST_CHECK braid_status braid_package_steps_run(braid_package_steps *steps, const braid_overlay_image *image,
                                                      size_t first, size_t end);
/* The task has left these cores: whoever runs next finds their memories 0. */
void braid_package_steps_leave(braid_package_steps *steps);

typedef struct braid_package_steps_info {
  int cores;
  size_t layers;
  const double *layer_seconds; /* modelled: the compiler's estimate of each layer (equations 5 to 9) */
  double seconds;              /* their sum */
  double transfer_seconds;     /* modelled: of the programs from the host to the card */
  double compile_microseconds; /* measured: that the dynamic compiler took to make them */
  size_t bytes;                /* of the programs */
} braid_package_steps_info;
braid_package_steps_info braid_package_steps_get_info(const braid_package_steps *steps);

#endif
