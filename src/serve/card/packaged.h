/* What a card runs: a package, from a file of `braid compile` or compiled when it is loaded, with what it takes on each
 * number of cores, and tasks of it. The package with its weights is there once; programs are made for a number of cores
 * when a task first has so many, and kept. */
#ifndef BRAID_SERVE_PACKAGED_H
#define BRAID_SERVE_PACKAGED_H

#include <pthread.h>

#include "overlay/share/policy.h"
#include "overlay/sim/package_run.h"
#include "overlay/sim/package_steps.h"

enum { BRAID_SERVE_KEPT_STEPS = 24, BRAID_SERVE_KEPT_IMAGES = 16 };

typedef struct braid_serve_packaged {
  const braid_overlay_design *design; /* the card's, which outlives it */
  int cores;
  braid_overlay_package *package;
  /* Modelled: Latency(k, n) of section 5.1.2, the compiler's estimate, and what a switch takes. */
  double seconds[BRAID_OVERLAY_MOST_CORES], switch_seconds[BRAID_OVERLAY_MOST_CORES];
  braid_share_model model; /* points to these */
  pthread_mutex_t lock;    /* of what follows: what no task has now */
  braid_package_steps *steps[BRAID_SERVE_KEPT_STEPS];
  size_t step_count; /* the last one was used last */
  uint8_t *images[BRAID_SERVE_KEPT_IMAGES];
  size_t image_count;
} braid_serve_packaged;

/* Of a file, or of a graph whose shapes are known (all of it: UNSUPPORTED names the first node that the card lacks).
 * INVALID_ARGUMENT, UNSUPPORTED: it is not for the design's cores. */
BRAID_MUST_CHECK braid_status braid_serve_packaged_open(const char *path, const braid_overlay_design *design, int cores,
                                                        braid_serve_packaged **out);
BRAID_MUST_CHECK braid_status braid_serve_packaged_compile(const braid_graph *graph, const braid_overlay_design *design,
                                                           int cores, braid_serve_packaged **out);
void braid_serve_packaged_destroy(braid_serve_packaged *packaged); /* NULL is allowed; no task is left */
size_t braid_serve_packaged_bytes(braid_serve_packaged *packaged); /* of the package, and of what is kept */

/* --- tasks: one image -----------------------------------------------------------------------------------------------
 */
typedef struct braid_serve_task {
  braid_serve_packaged *packaged;
  braid_overlay_image image;
  braid_package_steps *steps;
  size_t layer, layers;        /* the next one; all */
  uint64_t compiles;           /* programs that were not kept */
  double compile_microseconds; /* measured: of making them */
  double transfer_seconds;     /* modelled: of the programs to the card, once for each number of cores that it had */
} braid_serve_task;

/* Memory for it, and programs for so many cores. `inputs` as of braid_overlay_run; the caller's. */
BRAID_MUST_CHECK braid_status braid_serve_task_begin(braid_serve_packaged *packaged, int cores,
                                                     braid_tensor *const *inputs, braid_serve_task *out);
/* It goes on with so many cores. */
BRAID_MUST_CHECK braid_status braid_serve_task_switch(braid_serve_task *task, int cores);
/* Computes the next layer; *seconds: modelled, on its cores. Below `layers`. */
BRAID_MUST_CHECK braid_status braid_serve_task_step(braid_serve_task *task, double *seconds);
/* The share of its time that is done, by the model on its cores. */
double braid_serve_task_progress(const braid_serve_task *task);
/* After a begin, also one that failed. */
void braid_serve_task_end(braid_serve_task *task);

#endif
