/* Moving elements by offsets: output element (i0, i1, ...) is input element a0(i0) + a1(i1) + ..., where each axis is a
 * line, which needs no memory, or has a table. Transposing, slicing, tiling, padding and resizing by the nearest are
 * all of this form; a negative entry of a table means that the element does not come from the input and gets the fill
 * value. */
#ifndef BRAID_BACKEND_CPU_MOVEMENT_MAP_H
#define BRAID_BACKEND_CPU_MOVEMENT_MAP_H

#include "backend/cpu/cpu.h"

enum { BRAID_MAP_RANK = BRAID_MAX_RANK };

typedef struct braid_map_axis {
  int64_t count;               /* of the output */
  int64_t start, step, period; /* a line: start + i % period * step */
  int64_t *table;              /* in place of the line; else NULL */
} braid_map_axis;

typedef struct braid_map {
  int rank;
  size_t element_bytes;
  braid_map_axis axes[BRAID_MAP_RANK]; /* offsets into the input, in elements */
} braid_map;

/* A map to an output of `rank` dimensions, each of whose axes stays at 0. The caller gives the others their lines and
 * tables. */
BRAID_MUST_CHECK braid_status braid_map_create(const braid_allocator *allocator, int rank, const int64_t *dims,
                                               size_t element_bytes, braid_map **out);
/* An axis that goes on by `step` from `start`. */
void braid_map_line(braid_map *map, int axis, int64_t start, int64_t step);
/* The table of an axis, of zeros, for the caller to write; the map is destroyed if there is no memory. */
BRAID_MUST_CHECK braid_status braid_map_table(const braid_allocator *allocator, braid_map *map, int axis,
                                              int64_t **table);
void braid_map_destroy(const braid_allocator *allocator, void *map); /* also as braid_cpu_kernel.destroy */
/* `fill` points to one element; NULL: zero bytes. */
void braid_map_run(const braid_map *map, const void *from, void *to, const void *fill);
/* Row-major strides in elements. */
void braid_map_strides(const int64_t *dims, int rank, int64_t *strides);
/* Contents of a constant input as integers (int32 or int64); *count = 0 if it is absent. */
void braid_map_list(const braid_node_desc *node, size_t index, int64_t *values, size_t capacity, size_t *count);
#endif
