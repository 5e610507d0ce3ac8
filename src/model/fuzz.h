/* For the fuzz targets of this folder: an allocator with a budget, so that a header which promises gigabytes is
 * NO_MEMORY and not a killed process, and what every target checks of a loader's answer. */
#ifndef BRAID_MODEL_FUZZ_H
#define BRAID_MODEL_FUZZ_H

#include <stdlib.h>

#include "graph/graph.h"

typedef struct fuzz_budget {
  braid_allocator allocator;
  size_t left;
} fuzz_budget;

/* The size of a block stands before it, in room that keeps the alignment. */
static inline void *fuzz_allocate(void *context, size_t bytes, size_t alignment) {
  fuzz_budget *budget = context;
  if (alignment < 64) alignment = 64;
  if (bytes > budget->left) return NULL;
  const braid_allocator *heap = braid_allocator_default();
  char *block = heap->allocate(heap->context, bytes + alignment, alignment);
  if (!block) return NULL;
  budget->left -= bytes;
  *(size_t *)(void *)block = bytes;
  *(size_t *)(void *)(block + alignment - sizeof(size_t)) = alignment;
  return block + alignment;
}

static inline void fuzz_release(void *context, void *pointer) {
  fuzz_budget *budget = context;
  if (!pointer) return;
  size_t alignment = *(size_t *)(void *)((char *)pointer - sizeof(size_t));
  char *block = (char *)pointer - alignment;
  budget->left += *(size_t *)(void *)block;
  braid_allocator_default()->release(braid_allocator_default()->context, block);
}

static inline void fuzz_budget_init(fuzz_budget *budget, size_t bytes) {
  *budget = (fuzz_budget){{budget, fuzz_allocate, fuzz_release}, bytes};
}

/* Either a graph that can be inferred (or not) without harm, or a failure with a sentence; nothing is left behind. */
static inline void fuzz_check(fuzz_budget *budget, size_t bytes, braid_status status, braid_graph *graph) {
  if ((status == BRAID_OK) != (graph != NULL)) abort();
  if (status != BRAID_OK && status != BRAID_NO_MEMORY && !braid_error_detail()[0]) abort();
  if (graph) (void)!braid_graph_infer(graph, NULL);
  braid_graph_destroy(graph);
  if (budget->left != bytes) abort();
}

#endif
