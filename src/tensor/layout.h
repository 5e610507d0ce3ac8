/* Where elements lie in each layout. A tensor is seen as (batch, channel block, channel within the block of 16, place),
 * in which every layout is a matter of strides, the blocked one included. */
#ifndef BRAID_TENSOR_LAYOUT_H
#define BRAID_TENSOR_LAYOUT_H

#include "braid/tensor.h"

enum { BRAID_LAYOUT_BLOCK = 16 };

typedef struct braid_strides {
  int64_t b, block, c, s; /* in elements */
} braid_strides;

static inline braid_strides braid_layout_strides(braid_layout layout, int64_t batch, int64_t channels, int64_t places) {
  int64_t blocks = (channels + BRAID_LAYOUT_BLOCK - 1) / BRAID_LAYOUT_BLOCK;
  switch (layout) {
  case BRAID_LAYOUT_PLAIN:
    break;
  case BRAID_LAYOUT_BHWC:
    return (braid_strides){places * channels, BRAID_LAYOUT_BLOCK, 1, channels};
  case BRAID_LAYOUT_CHWB:
    return (braid_strides){1, BRAID_LAYOUT_BLOCK * places * batch, places * batch, batch};
  case BRAID_LAYOUT_BLOCKED16:
    return (braid_strides){blocks * places * BRAID_LAYOUT_BLOCK, places * BRAID_LAYOUT_BLOCK, 1, BRAID_LAYOUT_BLOCK};
  }
  return (braid_strides){channels * places, BRAID_LAYOUT_BLOCK * places, places, 1};
}

/* Is element i of both at the same bytes when both begin at the same address? A kernel that has read element i of the
 * one may then write element i of the other there. Shapes may differ in PLAIN memory (a Reshape), where they do not
 * change the order of the elements. */
static inline bool braid_layout_same_places(const braid_desc *a, const braid_desc *b) {
  if (a->layout != b->layout || braid_dtype_size(a->dtype) != braid_dtype_size(b->dtype)) return false;
  if (a->layout != BRAID_LAYOUT_PLAIN) return braid_desc_same_shape(a, b);
  return braid_desc_count(a) == braid_desc_count(b);
}

#endif
