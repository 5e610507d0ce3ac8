/* Samples with their targets, and the names of files for those that are pictures: what a table (table.c) and COCO's
 * annotations (coco.c) make. */
#ifndef BRAID_TRAIN_LISTING_H
#define BRAID_TRAIN_LISTING_H
#include "train/data/dataset.h"

typedef struct braid_listing {
  const braid_allocator *allocator;
  braid_target_kind kind;
  size_t samples, name_count;
  const char **files; /* samples; NULL: there are none */
  const char **names; /* of the classes, labels or numbers */
  int32_t *labels;    /* samples; for classes */
  float *values;      /* samples x names; for labels and numbers */
} braid_listing;

/* Room for `samples`, of which none is there yet; kind and names are. */
BRAID_MUST_CHECK braid_status braid_listing_reserve(braid_listing *list, size_t samples, bool files);
void braid_listing_target(const braid_listing *list, size_t sample, void *target);
void braid_listing_deinit(braid_listing *list); /* also of one that is cleared but for its allocator */

/* Pictures of a CSV file: a column with their files (columns=; the first), and their targets (target=; all others). */
BRAID_MUST_CHECK braid_status braid_table_list(const braid_allocator *allocator, const braid_spec *spec,
                                               const char *path, braid_listing *out);

/* Pictures of COCO's annotations (coco.c), by spec->path. */
BRAID_MUST_CHECK braid_status braid_coco_list(const braid_allocator *allocator, const braid_spec *spec,
                                              braid_listing *out);
/* The same from memory, as labels or classes. */
BRAID_MUST_CHECK braid_status braid_coco_parse(const braid_allocator *allocator, const char *name, const uint8_t *data,
                                               size_t bytes, braid_target_kind kind, braid_listing *out);
#endif
