/* Design space exploration of an FPGA accelerator that trains in 8-bit integers, without the FPGA: the analytical model
 * of Luo et al., "Towards efficient deep neural network training by FPGA-based batch-level parallelism" (Journal of
 * Semiconductors 41(2), 2020; "the paper" below). docs/explore.md has the equations, what the paper leaves open, and
 * what was chosen.
 *
 * A chip (data of a device and its board) and a network (the passes of one training step, counted from the graph that
 * training runs) are read once; a design (tiles T_B over the batch and T_I over images, channels and filters, and a
 * clock) is then evaluated in microseconds. Objects are immutable and may be shared by threads.
 *
 * And, in the last section, the search over configurations of OpenCL kernels for FPGAs (He et al. 2021, see there). */
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

/* What kernels that an OpenCL compiler makes cost on this chip, for braid_kernel_explore; docs/explore.md has the
 * equations. A lane multiplies and adds, or compares, one pair of floats a cycle; luts as the chip counts them. */
typedef struct braid_kernel_costs {
  const braid_figure *mac_dsps, *mac_luts;                   /* of a lane that multiplies and adds */
  const braid_figure *compare_luts;                          /* of a lane that compares */
  const braid_figure *unit_luts, *unit_brams;                /* of a compute unit, without its lanes and local memory */
  const braid_figure *shell_luts, *shell_dsps, *shell_brams; /* of the board's own logic */
  const braid_figure *fmax_empty, *fmax_full;                /* MHz, where nothing and where all of the chip is used */
} braid_kernel_costs;

/* Pointers are owned by the chip. NULL: not known, which is not zero. */
typedef struct braid_chip {
  const char *name, *board, *lut_unit; /* lut_unit: what is counted as luts ("LUT" if NULL) */
  const braid_figure *luts, *dsps, *brams;
  const braid_figure *bram_bits;                    /* of one block */
  const braid_figure *ffs, *urams;                  /* UltraRAM: blocks of 288 Kb; for designs of the overlay */
  const braid_figure *bandwidth;                    /* of the memory off the chip, GB/s (10^9 bytes) */
  const braid_figure *clock;                        /* MHz */
  const braid_figure *multiplier_dsps, *adder_dsps; /* D_mul, D_add */
  const braid_figure *multiplier_luts, *lane_luts;  /* beta, delta: both or none */
  const braid_figure *fixed_luts, *fixed_dsps, *fixed_brams; /* of the controllers */
  const braid_built_design *built;
  const braid_kernel_costs *kernel;
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

/* --- kernels of an OpenCL compiler for FPGAs -----------------------------------------------------------------------
 * The latency indicator (LI) of He et al., "Enabling energy-efficient DNN training on hybrid GPU-FPGA accelerators"
 * (Hype-training, ICS 2021; Section 3.3, Equation 1; "the paper" in this section): how the
 * configurations of a kernel (compute units, SIMD width, work-group size, unrolling) rank without being built.
 *
 *   LI = 1024 * work / (work_group_size * Fmax)       Fmax in Hz; smaller is faster
 *
 * The factor 1024 is not in the paper's equation, but it is what makes its two examples come out. `work` is the
 * product's number of multiply-accumulates; those of Conv and MaxPool (comparisons) are ours, since the paper prints
 * none. docs/explore.md says what else is chosen. */
typedef enum braid_kernel_op {
  BRAID_KERNEL_MATMUL,
  BRAID_KERNEL_CONV,
  BRAID_KERNEL_MAX_POOL,
  BRAID_KERNEL_OPS
} braid_kernel_op;
BRAID_API const char *braid_kernel_op_name(braid_kernel_op op); /* "MatMul", "Conv", "MaxPool" */

/* dims: of a product rows, inner, columns; of the others the input's batch, channels, height, width. filters, window
 * (its side), stride and pad (at each border) are not of products; filters is of Conv alone. */
typedef struct braid_kernel_problem {
  braid_kernel_op op;
  int64_t dims[4], filters, window, stride, pad;
} braid_kernel_problem;
/* Multiply-accumulates, or comparisons of MaxPool: one for each element of each window. INVALID_ARGUMENT names the size
 * that is not possible; OUT_OF_RANGE: more than 2^62. */
BRAID_API BRAID_MUST_CHECK braid_status braid_kernel_work(const braid_kernel_problem *problem, double *out);

/* The paper's classes of sizes (its Section 3.2), by the product's three dimensions; of Conv those of the product that
 * it is: filters, channels times window, results of a filter. Small: all above 256 and below 1024. Medium: all from
 * 1024 to below 4096. Large: any above 4096. Sizes of 256 and less, of exactly 4096, mixtures of small and medium, and
 * MaxPool have no class. */
typedef enum braid_kernel_size_class {
  BRAID_KERNEL_SMALL,
  BRAID_KERNEL_MEDIUM,
  BRAID_KERNEL_LARGE,
  BRAID_KERNEL_NO_CLASS
} braid_kernel_size_class;
BRAID_API braid_kernel_size_class braid_kernel_classify(const braid_kernel_problem *problem);
BRAID_API const char *braid_kernel_size_class_name(braid_kernel_size_class size_class); /* "small", ..., "no class" */

/* fmax_mhz and group above 0. */
BRAID_API double braid_kernel_latency_indicator(double work, int64_t group, double fmax_mhz);

typedef struct braid_kernel_design {
  int64_t units, simd, group, unroll;
} braid_kernel_design;

enum {
  BRAID_KERNEL_CHOICES = 16,
  BRAID_KERNEL_MOST = 1 << 16,
  BRAID_KERNEL_MOST_UNROLL = 4096,
  BRAID_KERNEL_MOST_COMBINATIONS = 1 << 20
};
/* Every one of units, simd and groups with every unrolling from 1 to most_unroll. Ascending, each once, from 1 to
 * BRAID_KERNEL_MOST. */
typedef struct braid_kernel_space {
  int64_t units[BRAID_KERNEL_CHOICES], simd[BRAID_KERNEL_CHOICES], groups[BRAID_KERNEL_CHOICES], most_unroll;
  size_t unit_count, simd_count, group_count;
} braid_kernel_space;
/* The paper's numbers of choices, 4 x 5 x 4 x 256 = 20,480 for a product; which values they are is read from its Table
 * 4, which has all units (1 to 4), all powers of two up to 16 as SIMD widths and three or four work-group sizes. */
BRAID_API braid_kernel_space braid_kernel_paper_space(braid_kernel_op op);
BRAID_API size_t braid_kernel_space_count(const braid_kernel_space *space);

/* --- Fmax --- */
/* A configuration whose Fmax somebody measured or a tool estimated; it does not depend on the work-group. */
typedef struct braid_fmax_point {
  int64_t units, simd, unroll;
  double mhz;       /* NAN: not known */
  bool too_large;   /* a report says that it does not fit */
  const char *file; /* where it is from; owned by the table */
  size_t line;      /* of the file; of YAML the number of the point; 0: of no single one */
} braid_fmax_point;
typedef struct braid_fmax_table braid_fmax_table;
BRAID_API BRAID_MUST_CHECK braid_status braid_fmax_table_create(const braid_allocator *allocator,
                                                                braid_fmax_table **out);
BRAID_API void braid_fmax_table_destroy(braid_fmax_table *table); /* NULL is allowed */
/* Adds a file's points. CSV: a first line that names the columns compute_units, simd_width, unroll and fmax_mhz (others
 * are passed over; # begins a comment), or YAML (a name that ends in .yaml or .yml): a list `points` of mappings of
 * these keys. "hype-training": the paper's two points. INVALID_FILE names the file, the line and what was expected,
 * also where a configuration comes twice with another Fmax. On failure the table is as before. */
BRAID_API BRAID_MUST_CHECK braid_status braid_fmax_table_load(braid_fmax_table *table, const char *path_or_name);
BRAID_API BRAID_MUST_CHECK braid_status braid_fmax_table_parse(braid_fmax_table *table, const char *name,
                                                               const void *text, size_t bytes);
/* INVALID_ARGUMENT: outside of 1..BRAID_KERNEL_MOST, an Fmax that is not NAN and not within 0.001..100000 MHz, or
 * another one than before. `file` is copied. */
BRAID_API BRAID_MUST_CHECK braid_status braid_fmax_table_add(braid_fmax_table *table, const braid_fmax_point *point);
BRAID_API size_t braid_fmax_table_count(const braid_fmax_table *table);
/* By units, SIMD width, unrolling. */
BRAID_API const braid_fmax_point *braid_fmax_table_get(const braid_fmax_table *table, size_t index);
BRAID_API const braid_fmax_point *braid_fmax_table_find(const braid_fmax_table *table, int64_t units, int64_t simd,
                                                        int64_t unroll); /* NULL: none */

/* What a vendor's tool says of one kernel. NAN: nothing. Shares are of what the chip has: above 1, it does not fit. */
typedef struct braid_vendor_report {
  const char *format; /* which of the formats below */
  double fmax_mhz;
  double logic, dsps, rams;
} braid_vendor_report;
/* Reads, by its contents: acl_quartus_report.txt of the Intel FPGA SDK for OpenCL ("Kernel fmax: 241.03"); its summary
 * of estimates (aoc -rtl -report: shares alone); AMD's NAME.xclbin.info (the achieved frequency of the kernel's clock);
 * a timing summary of Vivado (1000 / (period - WNS) of the kernel's clock); a log of v++ that lowered the kernel's
 * clock. INVALID_FILE names the file, the line and what was expected; any text is safe. */
BRAID_API BRAID_MUST_CHECK braid_status braid_vendor_report_parse(const char *name, const void *text, size_t bytes,
                                                                  braid_vendor_report *out);
BRAID_API BRAID_MUST_CHECK braid_status braid_vendor_report_load(const braid_allocator *allocator, const char *path,
                                                                 braid_vendor_report *out);

/* --- the search --- */
/* Where Fmax is looked up: in the table, then, if `model`, by the chip's costs. */
typedef struct braid_kernel_sources {
  const braid_chip *chip;        /* NULL, or without costs: whether a kernel fits is known from the table alone */
  const braid_fmax_table *table; /* NULL: none */
  bool model;                    /* needs a chip with costs */
  int64_t kernels;               /* of the same size that share the chip, beside its shell; 0: one */
} braid_kernel_sources;

enum { BRAID_KERNEL_LUTS, BRAID_KERNEL_DSPS, BRAID_KERNEL_BRAMS, BRAID_KERNEL_RESOURCES };
typedef struct braid_kernel_result {
  braid_kernel_design design;
  double fmax_mhz, li;
  bool from_table;                     /* false: the model's Fmax */
  double used[BRAID_KERNEL_RESOURCES]; /* modelled share of the chip; NAN: no costs */
} braid_kernel_result;

/* Modelled shares of the chip that `kernels` kernels of this design and the shell use, by BRAID_KERNEL_LUTS and so on;
 * NAN without costs. None of them falls where any of the four parameters rises. */
BRAID_API void braid_kernel_use(const braid_chip *chip, braid_kernel_op op, const braid_kernel_design *design,
                                int64_t kernels, double out[BRAID_KERNEL_RESOURCES]);
/* Modelled Fmax in MHz: an assumption, linear in the largest of these shares between fmax_empty and fmax_full. The
 * work-group counts as the smallest, as Fmax does not depend on it. NAN without costs. */
BRAID_API double braid_kernel_model_fmax(const braid_chip *chip, braid_kernel_op op, const braid_kernel_design *design,
                                         int64_t kernels);

/* How many combinations were left after each stage. */
typedef struct braid_kernel_search {
  size_t all, fitting, known, distinct; /* known: of which Fmax is known */
  size_t fit_checks;                    /* how often binary search asked whether a kernel fits */
  braid_kernel_result *results;         /* the distinct ones, by LI, smallest first */
} braid_kernel_search;
/* Stages: 1. what does not fit is left out, by binary search over unrolling (a kernel with more of everything does not
 * fit either, by the model and where a report said so); 2. what has no known Fmax; 3. of those of one work-group size
 * whose Fmax is less than 10% below another's, all but the fastest. INVALID_ARGUMENT: an empty or unsorted space,
 * one of more than BRAID_KERNEL_MOST_COMBINATIONS, work that is not above 0, or `model` without costs. */
BRAID_API BRAID_MUST_CHECK braid_status braid_kernel_explore(const braid_allocator *allocator, braid_kernel_op op,
                                                             double work, const braid_kernel_space *space,
                                                             const braid_kernel_sources *sources,
                                                             braid_kernel_search *out);
BRAID_API void braid_kernel_search_deinit(const braid_allocator *allocator, braid_kernel_search *search);

/* --- how two rankings agree --- */
/* Spearman's coefficient (ties share the mean of their ranks) and Kendall's tau-b. NAN: all of one side are equal, or
 * fewer than two. NO_MEMORY. */
BRAID_API BRAID_MUST_CHECK braid_status braid_rank_correlation(const braid_allocator *allocator, const double *a,
                                                               const double *b, size_t count, double *spearman,
                                                               double *kendall);

/* Table 4 of the paper. */
typedef struct braid_kernel_row {
  braid_kernel_op op;
  braid_kernel_design design;
  double ms, li;
  double fmax_mhz; /* printed in Section 3.3; NAN: not published */
} braid_kernel_row;
enum { BRAID_KERNEL_ROWS = 15 };
BRAID_API const braid_kernel_row *braid_kernel_paper_rows(void);

#endif
