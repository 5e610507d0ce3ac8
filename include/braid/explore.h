/* Design space exploration of an FPGA accelerator that trains in 8-bit integers, without the FPGA: the analytical model
 * of Luo et al., "Towards efficient deep neural network training by FPGA-based batch-level parallelism" (Journal of
 * Semiconductors 41(2), 2020; "the paper" below). docs/explore.md has the equations, what the paper leaves open, and
 * what was chosen.
 *
 * A chip (data of a device and its board) and a network (the passes of one training step, counted from the graph that
 * training runs) are read once; a design (tiles T_B over the batch and T_I over images, channels and filters, and a
 * clock) is then evaluated in microseconds. Objects are immutable and may be shared by threads. */
#ifndef BRAID_EXPLORE_H
#define BRAID_EXPLORE_H

#include <stddef.h>

#include "braid/graph.h"

/* --- chips ---------------------------------------------------------------------------------------------------------
 */
typedef struct braid_figure {
  double value;
  const char *source; /* where the number is from */
} braid_figure;

/* A design that somebody built with the paper's architecture on this kind of chip. */
typedef struct braid_built_design {
  double tb, ti, luts, dsps;
  const char *source;
} braid_built_design;

/* Pointers are owned by the chip. NULL: not known, which is not zero. */
typedef struct braid_chip {
  const char *name, *board, *lut_unit; /* lut_unit: what is counted as luts ("LUT" if NULL) */
  const braid_figure *luts, *dsps, *brams;
  const braid_figure *bram_bits;                             /* of one block */
  const braid_figure *bandwidth;                             /* of the memory off the chip, GB/s (10^9 bytes) */
  const braid_figure *clock;                                 /* MHz */
  const braid_figure *multiplier_dsps, *adder_dsps;          /* D_mul, D_add */
  const braid_figure *multiplier_luts, *lane_luts;           /* beta, delta: both or none */
  const braid_figure *fixed_luts, *fixed_dsps, *fixed_brams; /* of the controllers */
  const braid_built_design *built;
} braid_chip;

/* Reads a chip file (YAML), or the chip of this name among those of the library. NOT_FOUND lists these; INVALID_FILE
 * names the file, the line and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_chip_load(const braid_allocator *allocator, const char *path_or_name,
                                                        braid_chip **out);
/* The same for text in memory, called `name` in messages. */
BRAID_API BRAID_MUST_CHECK braid_status braid_chip_parse(const char *name, const void *text, size_t bytes,
                                                         braid_chip **out);
BRAID_API void braid_chip_destroy(braid_chip *chip); /* NULL is allowed */
/* The chips of the library. */
BRAID_API size_t braid_chip_count(void);
BRAID_API const char *braid_chip_name(size_t index);

/* --- networks ------------------------------------------------------------------------------------------------------
 */
typedef enum braid_tile_phase {
  BRAID_TILE_FORWARD,  /* W x A */
  BRAID_TILE_BACKWARD, /* W^T x E */
  BRAID_TILE_GRADIENT, /* E x A^T */
  BRAID_TILE_AUXILIARY,
  BRAID_TILE_PHASES
} braid_tile_phase;
/* "forward", ... */
BRAID_API const char *braid_tile_phase_name(braid_tile_phase phase);

/* One pass of a training step over the accelerator. */
typedef struct braid_tile_pass {
  size_t layer;     /* of the network */
  const char *what; /* "product", "im2col", "col2im", "quantize", or the op of the training graph */
  braid_tile_phase phase;
  /* Matrix products: C*K, F and H*W of the layer, whatever the phase. */
  int64_t depth, filters, pixels, groups;
  int64_t sums;   /* products that one result is the sum of: C*K forward, F backward, H*W of a gradient */
  bool connected; /* tiles of two dimensions (a fully connected layer) */
  bool weights;   /* one operand is shared by the batch; false: both are of each sample */
  /* Auxiliary passes. */
  double elements;                  /* values that go through the kernel: of a sample if `batched`, else of the step */
  bool batched;                     /* false: over parameters */
  double read_bytes, written_bytes; /* of the step */
} braid_tile_pass;

typedef struct braid_tile_layer {
  const char *name, *op;
} braid_tile_layer;

typedef struct braid_tile_network braid_tile_network;
/* Counts the passes of a training step on a batch. `model` is a forward graph, resolved or not, with one input, and
 * gives scores; it is not changed. UNSUPPORTED names a node whose op the paper's model has no equation for. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_network_create(const braid_graph *model, int64_t batch,
                                                                  braid_tile_network **out);
BRAID_API void braid_tile_network_destroy(braid_tile_network *network); /* NULL is allowed */
BRAID_API int64_t braid_tile_network_batch(const braid_tile_network *network);
BRAID_API size_t braid_tile_layer_count(const braid_tile_network *network);
BRAID_API braid_tile_layer braid_tile_get_layer(const braid_tile_network *network, size_t index);
BRAID_API size_t braid_tile_pass_count(const braid_tile_network *network);
BRAID_API braid_tile_pass braid_tile_get_pass(const braid_tile_network *network, size_t index);
BRAID_API double braid_tile_macs(const braid_tile_network *network); /* of the step's products */
/* Table 2 of the paper: the network of its experiments. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_paper_model(const braid_allocator *allocator, braid_graph **out);

/* --- designs -------------------------------------------------------------------------------------------------------
 */
enum { BRAID_TILE_MOST = 1 << 20 }; /* limit of T_B and T_I */
typedef struct braid_tile_design {
  int64_t tb, ti;
  double clock; /* MHz */
} braid_tile_design;

typedef enum braid_tile_limit {
  BRAID_TILE_LUTS,
  BRAID_TILE_BRAMS,
  BRAID_TILE_DSPS,
  BRAID_TILE_TRANSPOSITION, /* T_B >= T_I (Section 8.1) */
  BRAID_TILE_LIMITS
} braid_tile_limit;
BRAID_API const char *braid_tile_limit_name(braid_tile_limit limit);

typedef struct braid_tile_result {
  braid_tile_design design;
  /* Milliseconds of a step. The equations' terms, computation alone: */
  double conv_ms, connected_ms, auxiliary_ms;
  /* with the passes that the memory slows down, by wait_ms together: */
  double phase_ms[BRAID_TILE_PHASES], total_ms, wait_ms;
  /* Resources. NAN: not known. Where beta and delta are not known, the LUTs lie between these two. */
  double dsps, brams, least_luts, most_luts;
  /* Used share of each limit, by the least LUTs; above 1: broken; NAN: not known. */
  double used[BRAID_TILE_LIMITS];
  bool fits;
  bool luts_unsure;         /* the most LUTs are more than the chip has */
  braid_tile_limit binding; /* the one with the greatest share */
  /* GB/s: the paper's equations at their greatest over the layers, and the greatest that a pass asks for when its own
   * streams are counted. */
  double conv_bandwidth, connected_bandwidth, auxiliary_bandwidth, counted_bandwidth;
  bool literal_fits; /* fits, and the equations' bandwidths are within the chip's */
} braid_tile_result;

/* INVALID_ARGUMENT: a tile outside 1..BRAID_TILE_MOST or a clock that is not above 0 and finite. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_evaluate(const braid_tile_network *network, const braid_chip *chip,
                                                            const braid_tile_design *design, braid_tile_result *out);
/* Milliseconds of a layer's passes by phase, with waits for the memory. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_layer_times(const braid_tile_network *network,
                                                               const braid_chip *chip, const braid_tile_design *design,
                                                               size_t layer, double out[BRAID_TILE_PHASES]);
/* Milliseconds of one pass; *waits: those of them that the memory causes. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_pass_time(const braid_tile_network *network, const braid_chip *chip,
                                                             const braid_tile_design *design, size_t pass, double *out,
                                                             double *waits);

typedef struct braid_tile_search {
  braid_tile_result *results; /* of all designs that were tried */
  size_t count;
  size_t
      *front; /* indices of those that fit and that no other one that fits beats in time and in DSPs, fastest first */
  size_t front_count;
} braid_tile_search;
enum { BRAID_TILE_MOST_DESIGNS = 1 << 20 };
/* Every T_B of `tb` with every T_I of `ti`. NULL: every T_B that divides the batch into a number of tiles with the
 * least padding (a larger one takes the same time), every T_I up to 256. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_explore(const braid_tile_network *network, const braid_chip *chip,
                                                           const int64_t *tb, size_t tb_count, const int64_t *ti,
                                                           size_t ti_count, double clock, braid_tile_search *out);
BRAID_API void braid_tile_search_deinit(braid_tile_search *search);
/* The designs of Section 8.1, in its order; (128, 64) is the one that it removes. */
enum { BRAID_TILE_PAPER_DESIGNS = 9 };
BRAID_API braid_tile_design braid_tile_paper_design(size_t index, double clock);

/* --- what the paper publishes --------------------------------------------------------------------------------------
 */
typedef struct braid_tile_platform { /* a column of Table 3 */
  const char *platform, *framework;
  double ms, watts, joules; /* of a batch of 128 */
  double efficiency;        /* batches a joule, relative to the first */
} braid_tile_platform;
typedef struct braid_tile_accelerator { /* a row of Table 4; NAN: not published */
  const char *name, *platform, *model;
  double fpgas, kiloluts, dsps, gops, images_per_second;
  bool approximate; /* LUTs, DSPs and GOPS carry the paper's sign for "about" */
} braid_tile_accelerator;
typedef struct braid_tile_system { /* Fig. 9 */
  const char *name;
  double seconds;
} braid_tile_system;
enum { BRAID_TILE_PLATFORMS = 5, BRAID_TILE_ACCELERATORS = 6, BRAID_TILE_SYSTEMS = 3 };
BRAID_API const braid_tile_platform *braid_tile_platforms(void);
BRAID_API const braid_tile_accelerator *braid_tile_accelerators(void);
BRAID_API const braid_tile_system *braid_tile_systems(void);

/* --- drawings ------------------------------------------------------------------------------------------------------
 */
/* Time against DSPs of all designs that fit, the front and the paper's points; written atomically. `named`: results
 * that get a label. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_write_svg(const braid_allocator *allocator, const char *path,
                                                             const char *title, const braid_tile_search *search,
                                                             const braid_tile_result *named, size_t named_count);

/* A table of a page: text cells, row by row, the first row its head. */
typedef struct braid_page_table {
  const char *title, *note; /* note may be NULL */
  const char *const *cells;
  size_t columns, rows;
} braid_page_table;
/* A page of its own: the drawing (search may be NULL: none), then the tables. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tile_write_html(const braid_allocator *allocator, const char *path,
                                                              const char *title, const braid_tile_search *search,
                                                              const braid_tile_result *named, size_t named_count,
                                                              const braid_page_table *tables, size_t table_count);

#endif
