/* The overlay: an accelerator for FPGAs that runs networks by instructions, shared by tenants, after "A Unified FPGA
 * Virtualization Framework for General-Purpose Deep Neural Networks in the Cloud" (Zeng et al. 2021; "the paper"
 * below). docs/overlay.md describes it, docs/isa.md its instructions. There is no such hardware: it is simulated. */
#ifndef BRAID_OVERLAY_H
#define BRAID_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"
#include "braid/graph.h"
#include "braid/status.h"
#include "braid/tensor.h"

enum { BRAID_OVERLAY_MOST_CORES = 64, BRAID_OVERLAY_MOST_BANKS = 16 };

/* --- designs -------------------------------------------------------------------------------------------------------
 */
/* A design of the overlay: what a core can do, how many there are, and what they share (sections 2.3, 2.4, 4 and 7.1 of
 * the paper). Designs are data: files of YAML (docs/overlay.md), of which some are in the library (platforms/overlay).
 * What the other kind of core has is 0. Immutable; threads may share it. */
typedef struct braid_overlay_design {
  const char *name, *summary;
  bool recurrent; /* cores run MVM and ELE; else CONV and MISC */
  int cores;
  double clock_mhz;

  /* of a core for convolutional networks: multiply-accumulates a cycle are their product (equation 2, half of it) */
  int pixels, channels_in, channels_out; /* PP, ICP, OCP: rows of a result, channels in, channels out at once */
  int side_bytes;                        /* that MISC takes in a cycle */
  /* of a core for recurrent networks (equation 4) */
  int rows, columns; /* HP, WP */
  int side_numbers;  /* that ELE takes in a cycle */

  /* memories of a core, in bytes, whole lines of 16 */
  int64_t feature_bytes, weight_bytes, bias_bytes;
  int64_t sum_bytes;    /* sums that stay from CONV to CONV (4 bytes each), or MVM to MVM (6) */
  int64_t vector_bytes; /* for all cores of a tenant */

  int queue_depth;           /* instructions that wait before a module */
  int64_t instruction_bytes; /* that the card keeps of all tenants */

  /* memory of the card */
  int port_bits, bank_bits, banks; /* of a core's port, of a bank's; braid_overlay_core_banks says where a core is */
  int64_t bank_bytes;
  int burst_bytes;    /* what the bus equalizer splits a request into (section 4.3.1) */
  int outstanding;    /* such parts of one port that may be under way */
  int latency_cycles; /* of a part, from its being asked for to its first byte */
  double efficiency;  /* of a bank: the share of its cycles that carry data (equation 6) */
  double host_gigabytes_per_second, host_latency_us; /* from the host to the card: instructions, contexts */

  /* modelled power; NAN: nobody says */
  double idle_watts, picojoules_per_operation, picojoules_per_ddr_byte;

  const char *const *sources; /* of its figures, in their order, NULL for what it lacks; NULL: it is from no file */
} braid_overlay_design;

/* Designs of the library; `index` below the count, the names sorted. */
BRAID_API size_t braid_overlay_design_count(void);
BRAID_API const char *braid_overlay_design_name(size_t index);
/* One of these, or a file (a name with a '/' or an ending .yaml or .yml). NOT_FOUND lists those that there are. Freed
 * with braid_overlay_design_destroy. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_design_load(const braid_allocator *allocator,
                                                                  const char *path_or_name,
                                                                  const braid_overlay_design **out);
/* Of a text in memory; `name` is for errors. INVALID_FILE names the line and what is allowed. Any text is safe. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_design_parse(const braid_allocator *allocator, const char *name,
                                                                   const void *text, size_t bytes,
                                                                   const braid_overlay_design **out);
BRAID_API void braid_overlay_design_destroy(const braid_overlay_design *design); /* of load or parse, or NULL */

/* A number of a design, as its file has it. */
typedef struct braid_overlay_figure {
  const char *key, *text; /* its name in files, what it is */
  double value;
  const char *source; /* NULL: not from a file */
  bool assumed;       /* nobody published it: its source begins with "assumed" */
} braid_overlay_figure;
enum { BRAID_OVERLAY_FIGURES = 29 };
/* False: designs of this kind have no such figure, or this one does not say it. `index` < BRAID_OVERLAY_FIGURES. */
BRAID_API bool braid_overlay_design_figure(const braid_overlay_design *design, size_t index, braid_overlay_figure *out);

/* --- what follows from a design -------------------------------------------------------------------------------------
 */
/* Multiply-accumulates of one core in a cycle (half of equations 2 and 4). */
BRAID_API int64_t braid_overlay_core_products(const braid_overlay_design *design);
/* The banks that a core's port is at: cores are spread over the banks in their order, and a core has several, between
 * which its addresses take turns, where there are fewer cores than banks. */
BRAID_API void braid_overlay_core_banks(const braid_overlay_design *design, int core, int *first, int *count);

/* The roofline (section 2.3, Figure 3) of the first `cores` cores. A port reads and writes at the same time, as AXI's
 * do (section 4.3), each as wide as it is; a bank does one of both. */
typedef struct braid_overlay_roofline {
  double operations_per_second;    /* two for a multiply-accumulate */
  double bytes_per_second;         /* that their ports read and write, at most what efficiency leaves of their banks */
  double one_way_bytes_per_second; /* that they read, or write */
  double turning_point;            /* operations a byte: what has fewer waits for the memory */
} braid_overlay_roofline;
BRAID_API void braid_overlay_get_roofline(const braid_overlay_design *design, int cores, braid_overlay_roofline *out);

/* --- resources ------------------------------------------------------------------------------------------------------
 */
typedef enum braid_overlay_resource {
  BRAID_OVERLAY_LUTS,
  BRAID_OVERLAY_FFS,
  BRAID_OVERLAY_BRAMS, /* blocks of 36 Kb */
  BRAID_OVERLAY_URAMS, /* blocks of 288 Kb */
  BRAID_OVERLAY_DSPS,
  BRAID_OVERLAY_RESOURCES
} braid_overlay_resource;
BRAID_API const char *braid_overlay_resource_name(braid_overlay_resource resource);

/* An estimate of what a design needs of an FPGA of AMD's UltraScale+ family. DSPs and memories are counted from what
 * the design has; LUTs and FFs are a linear model, fitted by least squares to Table 1 of the paper, which has six
 * different designs: anything far from them is a guess. `shared`: with what tenants share the cores by (the first level
 * of dispatch, the context switch), as every design of several cores has here. docs/overlay.md has the terms. */
BRAID_API void braid_overlay_estimate(const braid_overlay_design *design, bool shared,
                                      double out[BRAID_OVERLAY_RESOURCES]);

/* A memory on the chip, and the blocks that it takes: as many side by side as its width needs, of 64 bits each (the
 * rest of 72 is for parity), as many of such rows as its bytes fill. */
typedef struct braid_overlay_memory {
  const char *name;
  int count;                  /* how many of them */
  int64_t bytes, width_bytes; /* of one; what it takes or gives in a cycle */
  bool ultra;                 /* blocks of 288 Kb (4,096 deep), else of 36 Kb (512 deep) */
  int64_t blocks;             /* of one */
} braid_overlay_memory;
enum { BRAID_OVERLAY_MEMORIES = 8 };
/* Returns how many there are, at most BRAID_OVERLAY_MEMORIES. Buffers of ports are among them: a port's bursts under
 * way, to read and to write. Of vectors there is one for each core, since each may be a tenant's (section 4.2.3). */
BRAID_API size_t braid_overlay_get_memories(const braid_overlay_design *design,
                                            braid_overlay_memory out[BRAID_OVERLAY_MEMORIES]);

/* A row of Table 1: what was built, and what the estimate says of the same. */
typedef struct braid_overlay_built {
  const char *fpga, *published_name; /* as the paper writes it */
  const char *design;                /* of the library; NULL: what the platform leaves to users ("user budget") */
  bool shared;
  double published[BRAID_OVERLAY_RESOURCES];
  /* NAN for a user budget. Left out: by a model fitted without this row and others of the same design; of LUTs and FFs,
   * NAN for the rest, which are not fitted. */
  double estimated[BRAID_OVERLAY_RESOURCES], left_out[BRAID_OVERLAY_RESOURCES];
} braid_overlay_built;
BRAID_API size_t braid_overlay_built_count(void);
/* NO_MEMORY. `index` below the count. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_get_built(size_t index, braid_overlay_built *out);

/* --- packages -------------------------------------------------------------------------------------------------------
 */
/* A network compiled for the cores of one design, for any number of them (docs/overlay.md, section 5 of the paper).
 * Immutable; threads may share it. */
typedef struct braid_package braid_overlay_package;

/* Of a resolved graph whose integers have scales that are powers of two (`braid quantize --scales power-of-two`).
 * `host` NULL: of all nodes; UNSUPPORTED names the first one that the overlay can't compute, and why. Else of the
 * part that it can, and *host has a line for each other node, which is left to the host, with the reason; freed with
 * braid_free. Where a path leads out of that part and back, or the design can't run a layer, it is the largest set of
 * its nodes without, by multiply-accumulates, and *host has a line for each other set too. UNSUPPORTED also where
 * nothing is left, or, with `host` NULL, the design can't run a layer. The package needs neither graph nor design any
 * more. For designs of recurrent cores this is braid_overlay_compile_recurrent without options. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_compile(const braid_graph *graph,
                                                              const braid_overlay_design *design,
                                                              const braid_allocator *allocator, char **host,
                                                              braid_overlay_package **out);
/* How a recurrent network's numbers of 16 bits are chosen. All 0: inputs are at most 4. */
typedef struct braid_overlay_recurrent_options {
  double greatest;             /* magnitude of an input; larger ones are clipped. 0: as in `samples`, or 4 */
  const braid_tensor *samples; /* float32 whose last dimension is the numbers of a step: sequences, one behind the
                                  other, as long as the network's; where that has one step, which may stand for any
                                  number, as long as the second of four dimensions says, else at most 32 steps. NULL:
                                  none */
} braid_overlay_recurrent_options;
/* How far it is from the same network in double precision, of which so many sequences were computed. */
typedef struct braid_overlay_recurrent_error {
  double greatest; /* as it was chosen */
  bool assumed;    /* nobody said it */
  bool random;     /* sequences were of random numbers up to `greatest`; else samples */
  int64_t sequences;
  int steps;                    /* of each */
  int64_t numbers, clipped;     /* hidden states compared; inputs beyond `greatest` */
  double most, mean, most_cell; /* greatest error of a hidden state, root of the mean square; of a last cell state */
} braid_overlay_recurrent_error;
/* As braid_overlay_compile, for a design of recurrent cores: LSTM nodes of float32, one sequence at a time; the steps
 * are those of the graph's shapes. `options` NULL: all 0. *error (NULL: not asked for) is measured meanwhile.
 * INVALID_ARGUMENT also: samples that don't fit the network's input, or are not finite. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_compile_recurrent(
    const braid_graph *graph, const braid_overlay_design *design, const braid_overlay_recurrent_options *options,
    const braid_allocator *allocator, char **host, braid_overlay_recurrent_error *error, braid_overlay_package **out);
/* A file, which may be anybody's: INVALID_FILE names the place. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_package_read(const braid_allocator *allocator, const char *path,
                                                                   braid_overlay_package **out);
/* Writes the file, or none. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_package_write(const braid_overlay_package *package,
                                                                    const char *path);
BRAID_API void braid_overlay_package_destroy(braid_overlay_package *package); /* NULL is allowed */
/* Sets how many steps the sequences of a recurrent network have, all of which are computed; before anybody else uses
 * the package. INVALID_ARGUMENT: it is none of a recurrent network, or steps are not within 1 .. 2^20; UNSUPPORTED:
 * sequences of so many don't fit a segment. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_package_set_steps(braid_overlay_package *package, int steps);

typedef struct braid_overlay_package_info {
  const char *design;
  int cores; /* of the design: numbers of cores for which there are tilings */
  size_t layers, tiles;
  int64_t macs; /* multiply-accumulates of an image, or of a sequence */
  int steps;    /* of a sequence; 0: of feature maps */
  int64_t instruction_bytes, constant_bytes, map_bytes, input_bytes, output_bytes;
  /* A core that is to be given away stands at a tile after so long, at most, while banks serve the ports of all cores
   * alike, and if it has come to a further place since its task went on; 0: it is not known (recurrent networks). */
  int64_t stop_cycles;
  double stop_microseconds;
} braid_overlay_package_info;
BRAID_API braid_overlay_package_info braid_overlay_package_get_info(const braid_overlay_package *package);

/* How cores share a layer. */
typedef struct braid_overlay_layer_share {
  const char *name, *kind, *tiling; /* "whole", "width", "channels", "both"; of recurrent networks "rows" */
  int tiles;
  int64_t macs;
  int64_t cycles; /* of the longest core, estimated (equations 5 and 6) */
  int64_t bound;  /* no distribution of these tiles has less */
} braid_overlay_layer_share;
typedef struct braid_overlay_program_info {
  int64_t cycles, bound; /* sums over the layers */
  int64_t bytes;         /* of the programs of all cores */
  int64_t stop_cycles;   /* until a core that is to be given away stands at a tile, at most; 0: it is not known */
  double microseconds;   /* that making them took */
} braid_overlay_program_info;
/* Makes the programs of 1 .. BRAID_OVERLAY_MOST_CORES cores. `layers`: NULL, or room for as many as the package has. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_package_share(const braid_overlay_package *package, int cores,
                                                                    braid_overlay_layer_share *layers,
                                                                    braid_overlay_program_info *out);
/* The instructions as text: of all tiles (cores 0), or of the programs of so many cores. Freed with braid_free. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_package_text(const braid_overlay_package *package, int cores,
                                                                   const braid_allocator *allocator, char **out);

/* --- simulation -----------------------------------------------------------------------------------------------------
 * Of one task alone on the first `cores` cores of a card, 1 .. the design's. INVALID_ARGUMENT: another number of
 * cores, a package of another kind of core, or one that needs more memory than the card has. */
typedef enum braid_overlay_unit {
  BRAID_OVERLAY_LOAD,
  BRAID_OVERLAY_SAVE,
  BRAID_OVERLAY_CONV_MVM,
  BRAID_OVERLAY_MISC_ELE,
  BRAID_OVERLAY_UNITS
} braid_overlay_unit;
BRAID_API const char *braid_overlay_unit_name(braid_overlay_unit unit); /* "load" ...; "" for others */

/* Why a unit has no instruction. */
typedef enum braid_overlay_idle {
  BRAID_OVERLAY_IDLE_FETCH,   /* the core's next one is not in the card's memory for instructions yet */
  BRAID_OVERLAY_IDLE_DECODER, /* the card's decoder has not handed it out */
  BRAID_OVERLAY_IDLE_QUEUE,   /* the next one is for another unit, whose queue is full */
  BRAID_OVERLAY_IDLE_DRAIN,   /* the core waits for its other units */
  BRAID_OVERLAY_IDLE_SYNC,    /* the core waits for others */
  BRAID_OVERLAY_IDLE_OVER,    /* the core is at the end of its program */
  BRAID_OVERLAY_IDLES
} braid_overlay_idle;
BRAID_API const char *braid_overlay_idle_name(braid_overlay_idle idle); /* "fetch" ...; "" for others */

/* Shares of the time, means over the cores. busy, waits and idle are all of it; carries, latency and turns are all of
 * what load and save are busy, and 0 for the others. */
typedef struct braid_overlay_unit_time {
  double busy;                      /* an instruction runs */
  double waits;                     /* one is there and lacks a token */
  double idle[BRAID_OVERLAY_IDLES]; /* none is there */
  double carries, latency, turns;   /* at the port's width; to the first byte; for a turn at port or bank */
} braid_overlay_unit_time;

/* By the figures of a design. Those without one (MISC, ELE, memories on the chip apart) are in that for operations. */
typedef struct braid_overlay_energy {
  double idle, operations, read, written, fetched; /* J: power without work, DDR by what it was used for */
} braid_overlay_energy;

/* What the programs of an image take, cycle by cycle. Modelled, but for the last two. */
typedef struct braid_overlay_simulated {
  int64_t cycles, estimate; /* simulated, and what the compiler expected */
  double seconds;           /* `cycles` at the design's clock */
  braid_overlay_unit_time units[BRAID_OVERLAY_UNITS];
  double synchronizing;              /* the share that cores wait for each other */
  int64_t read_bytes, written_bytes; /* of DDR */
  int banks;
  double bank_busy[BRAID_OVERLAY_MOST_BANKS]; /* of the card: shares of the time that bursts keep each */
  int64_t fetched_bytes;                      /* of DDR: instructions, which don't fit the card's memory */
  int64_t operations;                         /* that the cores did, two for a multiply-accumulate, padding too */
  double operations_per_second;               /* of the network: its multiply-accumulates, two operations each */
  double bound_per_second;                    /* the roofline at these bytes */
  double joules;                              /* of the card; NAN: the design lacks a figure of its power */
  braid_overlay_energy energy;                /* its parts, each NAN for itself */
  int64_t program_bytes;                      /* of all cores */
  double transfer_seconds;                    /* of them from the host to the card, once for each change of cores */
  double compile_microseconds;                /* measured: that the dynamic compiler took */
  double host_seconds;                        /* measured: of a CPU, that the simulator took */
} braid_overlay_simulated;
/* Also INVALID_FILE: the card refuses the programs, the detail says why. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_simulate(const braid_overlay_package *package,
                                                               const braid_overlay_design *design, int cores,
                                                               braid_overlay_simulated *out);

/* What every unit of every core did, and when: instructions, and stalls of at least 16 cycles. */
typedef struct braid_overlay_record braid_overlay_record;
enum { BRAID_OVERLAY_MOST_SPANS = 400000 };
/* As braid_overlay_simulate; *out keeps the first BRAID_OVERLAY_MOST_SPANS that end. Needs neither package nor design
 * any more. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_record_make(const braid_overlay_package *package,
                                                                  const braid_overlay_design *design, int cores,
                                                                  const braid_allocator *allocator,
                                                                  braid_overlay_simulated *simulated,
                                                                  braid_overlay_record **out);
BRAID_API void braid_overlay_record_destroy(braid_overlay_record *record); /* NULL is allowed */
typedef struct braid_overlay_record_info {
  size_t spans;
  int64_t until; /* what began before this cycle is there: the last one, if it is whole */
  bool whole;
} braid_overlay_record_info;
BRAID_API braid_overlay_record_info braid_overlay_record_get_info(const braid_overlay_record *record);
/* For Perfetto or chrome://tracing: a process for each core, a thread for each unit, layers, bytes of DDR. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_record_save_trace(const braid_overlay_record *record,
                                                                        const char *path);
/* A page of its own, to zoom into. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_record_save_html(const braid_overlay_record *record,
                                                                       const char *title, const char *path);

/* What goes into a network, or comes out of it: numbers q that stand for q * 2^exponent. */
typedef struct braid_overlay_port_info {
  const char *name; /* of the model's value, which is float32 if `real`; the model's own come first, in its order */
  int32_t channels, rows, columns, exponent;
  bool real; /* the network has float32 there, else int8 */
  int bits; /* of a number: 8, or 16 of recurrent networks: then `channels` is the numbers of a step, `columns` steps */
} braid_overlay_port_info;
BRAID_API size_t braid_overlay_package_port_count(const braid_overlay_package *package, bool outputs);
/* `index` below the count. */
BRAID_API braid_overlay_port_info braid_overlay_package_get_port(const braid_overlay_package *package, bool outputs,
                                                                 size_t index);

typedef struct braid_overlay_run_options {
  uint64_t seed; /* of an adversarial order of modules and cores, as tokens allow; 0: a plain one */
  bool races;    /* fail with INVALID_FILE where two accesses to one line are ordered by nothing; slower */
} braid_overlay_run_options;
/* Computes one image, bit for bit, without time. `inputs`: of each port float32 (if it is real; rounded to the nearest
 * q, halves to the even one, and clipped) or int8 (q itself), in the shape channels, rows, columns; dimensions of 1
 * count nowhere, and one dimension of all numbers will do. `outputs`: as many as there are, created as float32 (real)
 * or int8 of 1, channels, rows, columns. Recurrent networks have float32, or int16 in place of int8, of steps, 1,
 * numbers of a step (last states: directions, 1, numbers); all NULL after a failure. `options` NULL: all 0.
 * INVALID_ARGUMENT names an input that has another type or shape, or NaN. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_run(const braid_overlay_package *package,
                                                          const braid_overlay_design *design, int cores,
                                                          const braid_overlay_run_options *options,
                                                          braid_tensor *const *inputs, const braid_allocator *allocator,
                                                          braid_tensor **outputs);

#endif
