/* Layouts taken apart: where the elements of a tensor lie, and which shapes and layouts are the same memory. */
#ifndef BRAID_TENSOR_LAYOUT_H
#define BRAID_TENSOR_LAYOUT_H

#include "braid/tensor.h"

/* A block: `size` indices of dimension `dim` that lie together. */
typedef struct braid_block_of {
  int dim;
  int64_t size;
} braid_block_of;

/* A layout as lists. */
typedef struct braid_layout_parts {
  int order[BRAID_MAX_RANK]; /* dimensions, outermost first */
  int block_count;
  braid_block_of blocks[BRAID_LAYOUT_BLOCKS]; /* outermost first */
} braid_layout_parts;

/* Block number `place` (0 outermost) as part of a layout's number: of dimension `dim`, `size` indices. For constants.
 */
#define BRAID_LAYOUT_BLOCKED(place, dim, size) ((braid_layout)((size) | (dim) << 8) << (24 + 11 * (place)))

/* Those of `rank` dimensions. */
braid_layout_parts braid_layout_take_apart(braid_layout layout, int rank);
/* The layout of these parts; the order is of `rank` dimensions. */
braid_layout braid_layout_put_together(const braid_layout_parts *parts, int rank);

/* Rewrites plain memory in the layout of `desc`, padding zero, and back. One element after another: for what is read
 * and written from outside; kernels convert between steps. */
void braid_layout_pack(const braid_desc *desc, const void *plain, void *packed);
void braid_layout_unpack(const braid_desc *desc, const void *packed, void *plain);

static inline bool braid_layout_is_blocked(braid_layout layout) {
  return layout >> 24 != 0;
}

/* Where elements lie, in elements: index i of dimension d is i / unit[d] * stride[d], plus, for each block of d, the
 * part of i that falls into it times the block's stride. */
typedef struct braid_places {
  int rank, block_count;
  int64_t dims[BRAID_MAX_RANK], stride[BRAID_MAX_RANK];
  int64_t unit[BRAID_MAX_RANK];  /* indices in a step of `stride`: the product of the dimension's blocks */
  int64_t outer[BRAID_MAX_RANK]; /* steps, the padded last one included */
  braid_block_of blocks[BRAID_LAYOUT_BLOCKS];
  int64_t block_stride[BRAID_LAYOUT_BLOCKS];
  int64_t count; /* elements in memory, padding included */
} braid_places;

braid_places braid_places_of(const braid_desc *desc);
/* What index `index` of a dimension adds to the place of an element. Indices may reach into the padding. */
int64_t braid_places_at(const braid_places *places, int dim, int64_t index);
/* The place of the element with these indices. */
int64_t braid_places_find(const braid_places *places, const int64_t *index);
/* Are there elements in memory that belong to no index? */
bool braid_desc_is_padded(const braid_desc *desc);

/* The one rule of what is the same memory without moving data. The elements of `from`, in row-major order, are those of
 * a tensor of shape `to` (its layout is not looked at): is there a layout in which that tensor is the same bytes? Sizes
 * of elements must be equal. A padded dimension stays whole. */
bool braid_layout_view(const braid_desc *from, const braid_desc *to, braid_layout *out);
/* Is element i of both at the same bytes when both begin at the same address? A kernel that has read element i of the
 * one may then write element i of the other there. */
bool braid_layout_same_places(const braid_desc *a, const braid_desc *b);
/* And are these bytes all that either needs? Then the one is the other. */
static inline bool braid_layout_same_memory(const braid_desc *a, const braid_desc *b) {
  return braid_layout_same_places(a, b) && braid_desc_bytes(a) == braid_desc_bytes(b);
}

/* --- images: tensors seen as (batch, channels in blocks of 16, places) ---------------------------------------------
 * The layouts that activations have most often are strides in this view, for any rank of 3 and more. */
enum { BRAID_LAYOUT_BLOCK = 16 };

typedef struct braid_strides {
  int64_t b, block, c, s; /* in elements */
} braid_strides;

/* False: the layout is not one of PLAIN, BHWC, CHWB and BLOCKED16. */
static inline bool braid_layout_strides(braid_layout layout, int64_t batch, int64_t channels, int64_t places,
                                        braid_strides *out) {
  int64_t blocks = (channels + BRAID_LAYOUT_BLOCK - 1) / BRAID_LAYOUT_BLOCK;
  if (layout == BRAID_LAYOUT_PLAIN)
    *out = (braid_strides){channels * places, BRAID_LAYOUT_BLOCK * places, places, 1};
  else if (layout == BRAID_LAYOUT_BHWC)
    *out = (braid_strides){places * channels, BRAID_LAYOUT_BLOCK, 1, channels};
  else if (layout == BRAID_LAYOUT_CHWB)
    *out = (braid_strides){1, BRAID_LAYOUT_BLOCK * places * batch, places * batch, batch};
  else if (layout == BRAID_LAYOUT_BLOCKED16)
    *out = (braid_strides){blocks * places * BRAID_LAYOUT_BLOCK, places * BRAID_LAYOUT_BLOCK, 1, BRAID_LAYOUT_BLOCK};
  else
    return false;
  return true;
}

#endif
