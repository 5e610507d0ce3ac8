/* The convolution that a node stands for, what oneDNN is asked for, and into which parts a pass is divided: answers
 * that follow from shapes and layouts alone. conv.c builds programs of them. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_CONVOLUTION_H
#define BRAID_BACKEND_CPU_ONEDNN_CONVOLUTION_H

#include "backend/cpu/onednn/describe.h"

typedef enum braid_dnnl_pass { BRAID_DNNL_FORWARD, BRAID_DNNL_GRAD_INPUT, BRAID_DNNL_GRAD_FILTER } braid_dnnl_pass;

typedef struct braid_dnnl_conv {
  braid_desc w; /* [filters, channels / groups, kernel...] */
  int spatial;
  int64_t groups, batch, channels, filters, pixels; /* pixels of the output */
  dnnl_dims_t strides, dilations, pad_begin, pad_end;
} braid_dnnl_conv;

/* A pass over images that lie like these. */
typedef struct braid_dnnl_problem {
  const braid_dnnl_conv *c;
  braid_dnnl_pass which;
  braid_desc x, y;
  bool training, bias, residual;
  const braid_node_desc *activated; /* its activation is part of the primitive; NULL: none is */
} braid_dnnl_problem;

braid_dnnl_pass braid_dnnl_pass_of(const braid_node_desc *node);
/* False: more than 3 spatial dimensions, or an empty tensor. */
bool braid_dnnl_conv_read(const braid_node_desc *node, braid_dnnl_pass which, braid_dnnl_conv *out);
braid_dnnl_problem braid_dnnl_conv_problem_of(const braid_node_desc *node, const braid_dnnl_conv *c);

/* --- memory --------------------------------------------------------------------------------------------------------
 */
/* Weights as oneDNN sees them, plain: groups are a dimension of their own. */
braid_md braid_dnnl_conv_plain_weights(const braid_dnnl_conv *c);
/* As they lie. False: in a layout that oneDNN does not have for them. */
bool braid_dnnl_conv_weights(const braid_dnnl_conv *c, braid_md *out);
/* `batch` images of an operand. */
bool braid_dnnl_images(const braid_desc *all, int64_t batch, braid_md *out);

/* --- layouts -------------------------------------------------------------------------------------------------------
 */
/* The layout of images y in which oneDNN has more than its slow reference; false: none. */
bool braid_dnnl_conv_best_layout(const braid_node_desc *node, const braid_dnnl_conv *c, braid_layout *out);
/* Of x, where y is in `layout`. */
braid_layout braid_dnnl_conv_image_layout(const braid_node_desc *node, braid_layout layout);
/* May weights stay in this layout? */
bool braid_dnnl_conv_takes_weights(const braid_dnnl_conv *c, braid_layout layout);
/* What to say of weights that come in layout `given`, where y is in `layout`: as they come, if oneDNN can read them. */
braid_layout braid_dnnl_conv_choose_weights(const braid_node_desc *node, const braid_dnnl_conv *c, braid_layout layout,
                                            braid_layout given);

/* --- division ------------------------------------------------------------------------------------------------------
 */
/* How a pass is run: in `parts` of the batch, side by side with one thread each, or one after another with all. */
typedef struct braid_dnnl_division {
  braid_description *one;   /* of one part */
  braid_description *fused; /* the same with the activation in it; NULL: the activation follows */
  int64_t parts;
  bool side_by_side;
} braid_dnnl_division;

/* A forward pass or an input gradient: no sum goes over the batch. */
BRAID_MUST_CHECK braid_status braid_dnnl_conv_divide(const braid_dnnl_problem *p, braid_dnnl_division *out);
/* A filter gradient: how many pieces its sum over the batch is cut into, and the description of one, which says how the
 * sum of each lies in memory. One piece where that would depend on a piece's size. */
BRAID_MUST_CHECK braid_status braid_dnnl_conv_divide_sum(const braid_dnnl_problem *p, int64_t *pieces,
                                                         braid_description **out);
/* One of those pieces, of any number of images. */
BRAID_MUST_CHECK braid_status braid_dnnl_conv_describe_piece(const braid_dnnl_problem *p, int64_t batch,
                                                             braid_description **out);

#endif
