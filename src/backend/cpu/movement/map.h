/* Moving elements by tables: output element (i0, i1, ...) is input element t0[i0] + t1[i1] + ..., where each axis has
 * its table of offsets. Transposing, slicing, tiling, padding and resizing by the nearest are all of this form; a
 * negative entry of a table means that the element does not come from the input and gets the fill value. */
#ifndef BRAID_BACKEND_CPU_MOVEMENT_MAP_H
#define BRAID_BACKEND_CPU_MOVEMENT_MAP_H

#include "backend/cpu/cpu.h"

enum { BRAID_MAP_RANK = BRAID_MAX_RANK };

typedef struct braid_map {
  int rank;
  size_t element_bytes;
  int64_t dims[BRAID_MAP_RANK];    /* of the output */
  int64_t *tables[BRAID_MAP_RANK]; /* into the input, in elements; one allocation, the first table's */
  bool contiguous;                 /* the innermost table counts up by one: rows are copied whole */
  bool fills;                      /* some table has a negative entry */
} braid_map;

/* Makes room for the tables of an output of `rank` dimensions; the caller writes them and calls braid_map_finish. */
BRAID_MUST_CHECK braid_status braid_map_create(const braid_allocator *allocator, int rank, const int64_t *dims,
                                               size_t element_bytes, braid_map **out);
void braid_map_finish(braid_map *map);
void braid_map_destroy(const braid_allocator *allocator, void *map); /* also as braid_cpu_kernel.destroy */
/* `fill` points to one element; NULL: zero bytes. */
void braid_map_run(const braid_map *map, const void *from, void *to, const void *fill);
/* Row-major strides in elements. */
void braid_map_strides(const int64_t *dims, int rank, int64_t *strides);
/* Contents of a constant input as integers (int32 or int64); *count = 0 if it is absent. */
void braid_map_list(const braid_node_desc *node, size_t index, int64_t *values, size_t capacity, size_t *count);
#endif
