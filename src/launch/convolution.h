/* What the kernels of Conv and of its gradients share: arguments of conv.cl, and flat images. */
#ifndef BRAID_LAUNCH_CONVOLUTION_H
#define BRAID_LAUNCH_CONVOLUTION_H

#include "graph/geometry.h"
#include "launch/product.h"

/* Kernels that know their taps. */
typedef enum braid_launch_taps {
  BRAID_LAUNCH_TAPS_ANY,
  BRAID_LAUNCH_TAPS_1X1,
  BRAID_LAUNCH_TAPS_3X3
} braid_launch_taps;

bool braid_launch_match_taps(const braid_window *window, braid_launch_taps taps, char *why, size_t why_bytes);
void braid_launch_add_taps(braid_launch_planner *p, braid_launch_taps taps);
/* SIZES. */
void braid_launch_add_sizes(braid_launch_planner *p, const braid_convolution *conv);
/* Are images, weights and flat images countable in what the kernels count offsets within them in? */
bool braid_launch_match_sizes(const braid_convolution *conv, char *why, size_t why_bytes);

/* Flat images (see conv.cl) of all input channels of a batch. */
typedef struct braid_launch_flat {
  bool as_it_is;    /* the input is one already */
  int64_t lines[3]; /* LINES */
  int64_t runs;     /* places from the first output of an image to its last */
  int64_t plane;    /* elements of a channel */
  int64_t total;    /* of all, with what may be read behind them */
  braid_launch_place place;
} braid_launch_flat;

/* width: elements that a run is read in. */
braid_launch_flat braid_launch_flat_of(const braid_convolution *conv, size_t input, int64_t width);
/* Windows of more taps do not go over flat images. */
enum { BRAID_LAUNCH_MOST_TAPS = 256 };
/* Reserves and launches what makes it, unless the input is one. */
void braid_launch_add_flat(braid_launch_planner *p, const braid_convolution *conv, braid_launch_taps taps,
                           braid_launch_flat *flat);
void braid_launch_add_lines(braid_launch_planner *p, const braid_launch_flat *flat);
/* Weights as panels: [groups][panels of rows][inner][width]. */
braid_launch_piece braid_launch_pack_weights(braid_launch_planner *p, const braid_convolution *conv, size_t input,
                                             const braid_launch_panel *panel);

/* A kernel of a file whose static functions FAMILY_allows, FAMILY_suits and FAMILY_plan take a `variant`: v_STEM, and
 * k_STEM that calls them with it. */
#define BRAID_LAUNCH_VARIANT(family, stem, ...)                                                                        \
  static const variant v_##stem = {__VA_ARGS__};                                                                       \
  static bool family##_allows_##stem(const braid_node_desc *node, char *why, size_t why_bytes) {                       \
    return family##_allows(v_##stem, node, why, why_bytes);                                                            \
  }                                                                                                                    \
  static bool family##_suits_##stem(const braid_launch_traits *traits, const braid_node_desc *node, char *why,         \
                                    size_t why_bytes) {                                                                \
    return family##_suits(v_##stem, traits, node, why, why_bytes);                                                     \
  }                                                                                                                    \
  static braid_status family##_plan_##stem(const braid_launch_traits *traits, const braid_node_desc *node,             \
                                           braid_launch_recipe *recipe) {                                              \
    return family##_plan(v_##stem, traits, node, recipe);                                                              \
  }                                                                                                                    \
  static const braid_launch_kernel k_##stem = {.plan = family##_plan_##stem, .match = family##_suits_##stem};

#endif
