/* Decoding of layouts, addresses of elements, and views: which shapes and layouts describe the same memory. */
#ifndef BRAID_TENSOR_LAYOUT_H
#define BRAID_TENSOR_LAYOUT_H

#include "braid/tensor.h"

/* A block: `size` consecutive indices of dimension `dim`. */
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

/* The bits of block number `place` (0: outermost) of a layout, for constants. */
#define BRAID_LAYOUT_BLOCKED(place, dim, size) ((braid_layout)((size) | (dim) << 8) << (24 + 11 * (place)))

/* Decodes a layout for `rank` dimensions. */
braid_layout_parts braid_layout_take_apart(braid_layout layout, int rank);
/* Encodes a layout; the order has `rank` dimensions. */
braid_layout braid_layout_put_together(const braid_layout_parts *parts, int rank);

/* Converts plain memory to the layout of `desc`, with zero padding, and back. Element by element, for transfers from
 * and to the user; during runs kernels convert. */
void braid_layout_pack(const braid_desc *desc, const void *plain, void *packed);
void braid_layout_unpack(const braid_desc *desc, const void *packed, void *plain);

static inline bool braid_layout_is_blocked(braid_layout layout) {
  return layout >> 24 != 0;
}

/* Offsets in elements: index i of dimension d contributes i / unit[d] * stride[d] plus, for each block of d, the index
 * within the block times the block's stride. */
typedef struct braid_places {
  int rank, block_count;
  int64_t dims[BRAID_MAX_RANK], stride[BRAID_MAX_RANK];
  int64_t unit[BRAID_MAX_RANK];  /* product of the dimension's block sizes */
  int64_t outer[BRAID_MAX_RANK]; /* size of the outer part, rounded up */
  braid_block_of blocks[BRAID_LAYOUT_BLOCKS];
  int64_t block_stride[BRAID_LAYOUT_BLOCKS];
  int64_t count; /* elements in memory, including padding */
} braid_places;

braid_places braid_places_of(const braid_desc *desc);
/* The contribution of index `index` of a dimension to the offset of an element. Indices may be in the padding. */
int64_t braid_places_at(const braid_places *places, int dim, int64_t index);
/* The offset of the element with these indices. */
int64_t braid_places_find(const braid_places *places, const int64_t *index);
/* Whether the layout pads a dimension; the sizes of the others, which may be 0, do not count. */
bool braid_desc_is_padded(const braid_desc *desc);

/* The single definition of a view (no data is moved). The elements of `from`, in row-major order, are those of a tensor
 * of shape `to` (whose layout is ignored): true if a layout exists in which that tensor has the same bytes. Element
 * sizes must be equal. A padded dimension is not split. */
bool braid_layout_view(const braid_desc *from, const braid_desc *to, braid_layout *out);
/* Whether element i of both has the same address if both tensors start at the same address, so that a kernel may
 * compute in place. */
bool braid_layout_same_places(const braid_desc *a, const braid_desc *b);
/* As above, and both have the same size in memory: each is a view of the other. */
static inline bool braid_layout_same_memory(const braid_desc *a, const braid_desc *b) {
  return braid_layout_same_places(a, b) && braid_desc_bytes(a) == braid_desc_bytes(b);
}

/* --- images: tensors seen as (batch, channels in blocks of 16, places) ---------------------------------------------
 * The most frequent layouts of activations are strides in this view, for any rank >= 3. */
enum { BRAID_LAYOUT_BLOCK = 16 };

typedef struct braid_strides {
  int64_t b, block, c, s; /* in elements */
} braid_strides;

/* False if the layout is not PLAIN, BHWC, CHWB or BLOCKED16. */
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
