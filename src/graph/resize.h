/* Resize as ONNX defines it, axis by axis: which elements of the input an element of the output is made of, and with
 * which weights. Shared by shape inference and kernels. */
#ifndef BRAID_GRAPH_RESIZE_H
#define BRAID_GRAPH_RESIZE_H

#include "graph/graph.h"

typedef struct braid_resize {
  int rank;
  int64_t in[BRAID_MAX_RANK], out[BRAID_MAX_RANK];
  double scale[BRAID_MAX_RANK], roi_start[BRAID_MAX_RANK], roi_end[BRAID_MAX_RANK];
} braid_resize;

/* Contents of the inputs roi, scales and sizes; NULL: left out. Returns NULL, or what is wrong with them. */
const char *braid_resize_init(braid_resize *resize, const braid_attrs *attrs, const braid_desc *x,
                              const braid_tensor *roi, const braid_tensor *scales, const braid_tensor *sizes);
/* Nothing happens along this axis. */
bool braid_resize_keeps(const braid_resize *resize, const braid_attrs *attrs, int axis);
/* Taps per output element of this axis (the same for all). */
int64_t braid_resize_taps(const braid_resize *resize, const braid_attrs *attrs, int axis);
/* Input indices and weights of output element `at`, as many as there are taps; false: it lies outside the region and
 * gets the extrapolation value. */
bool braid_resize_element(const braid_resize *resize, const braid_attrs *attrs, int axis, int64_t at, int64_t *indices,
                          double *weights);
#endif
