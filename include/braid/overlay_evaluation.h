/* What the evaluation of the overlay is made of (`braid evaluate overlay`, docs/overlay-evaluation.md): what was
 * published in "A Unified FPGA Virtualization Framework for General-Purpose Deep Neural Networks in the Cloud" (Zeng et
 * al. 2021, section 7; "the paper"), its networks, its single-core designs, and several tasks on one card, cycle by
 * cycle. Times of the card are modelled; only what says so is measured. */
#ifndef BRAID_OVERLAY_EVALUATION_H
#define BRAID_OVERLAY_EVALUATION_H

#include "braid/overlay.h"

/* --- published ------------------------------------------------------------------------------------------------------
 */
/* The networks of sections 7.1.3 and 7.1.4. */
enum {
  BRAID_OVERLAY_VGG16,
  BRAID_OVERLAY_RESNET50,
  BRAID_OVERLAY_INCEPTION,
  BRAID_OVERLAY_MOBILENET,
  BRAID_OVERLAY_CNNS,
  BRAID_OVERLAY_LSTM_100 = BRAID_OVERLAY_CNNS,
  BRAID_OVERLAY_LSTM_400,
  BRAID_OVERLAY_LSTM_800,
  BRAID_OVERLAY_LSTM_1500,
  BRAID_OVERLAY_NETWORKS
};
enum { BRAID_OVERLAY_SHARES = 5 }; /* of a card: 1, 2, 4, 8 and 16 cores */

typedef struct braid_overlay_span {
  double low, high; /* equal: one number; NAN: not published */
} braid_overlay_span;

typedef struct braid_overlay_published_network {
  const char *name; /* "VGG16" ... */
  int hidden;       /* states of an LSTM; 0: a convolutional network */
  /* Table 2, milliseconds: with 1, 2, 4, 8 and 16 cores */
  double static_ms;
  braid_overlay_span dynamic_ms, transfer_ms, switch_ms;
  double loss, doubled_loss;                    /* section 7.3.2, in percent; doubled: with twice the bandwidth */
  double load_share, compute_share, side_share; /* Figs. 16 and 17, in percent of the time */
  braid_overlay_span gpu_deviation;             /* Fig. 13, in percent, over shares from 25% to 75% of a V100 */
} braid_overlay_published_network;
BRAID_API const braid_overlay_published_network *braid_overlay_published_networks(void); /* BRAID_OVERLAY_NETWORKS */

/* Table 3: images of ResNet-50 in a second. */
enum { BRAID_OVERLAY_SCALINGS = 5 };
typedef struct braid_overlay_published_scaling {
  const char *name;
  double images[BRAID_OVERLAY_SHARES];
  double loss; /* percent; NAN: not published */
} braid_overlay_published_scaling;
BRAID_API const braid_overlay_published_scaling *braid_overlay_published_scalings(void);

/* The rest of section 7.3, in percent or as a quotient. */
typedef struct braid_overlay_published_text {
  braid_overlay_span cnn_deviation, lstm_deviation, bank_deviation; /* sections 7.3.1; Figs. 12 to 14 */
  braid_overlay_span gpu_deviation[3];                              /* Fig. 12: 75%, 50%, 25% of a V100 */
  braid_overlay_span cnn_over_single, cnn_over_multi;               /* section 7.3.4; Figs. 19 and 20 */
  braid_overlay_span lstm_over_single, lstm_over_multi;
  double lstm_loss; /* section 7.3.3 */
} braid_overlay_published_text;
BRAID_API const braid_overlay_published_text *braid_overlay_published_texts(void);

/* --- networks and designs -------------------------------------------------------------------------------------------
 */
/* One of the convolutional networks for pictures of `side` x `side` as its description in models/ has it, with an int8
 * stand-in for its weights: drawn numbers, and 2^-4 as the scale of every map. Layers, sizes and so times are those of
 * the network, results are not. Of several outputs the first one alone is kept (Inception-v3's second classifier is for
 * training, and does not fit maps of 224 x 224 pictures). Not resolved. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_stand_in(const braid_allocator *allocator, size_t network,
                                                               int64_t side, braid_graph **out);
/* braid_overlay_compile with these tilings alone, beside whole layers (which are left where nothing else is possible):
 * bits of BRAID_OVERLAY_BY_ ... */
enum { BRAID_OVERLAY_BY_WIDTH = 1, BRAID_OVERLAY_BY_CHANNELS = 2, BRAID_OVERLAY_BY_BOTH = 4 };
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_compile_by(const braid_graph *graph,
                                                                 const braid_overlay_design *design, int tilings,
                                                                 const braid_allocator *allocator, char **host,
                                                                 braid_overlay_package **out);
/* A single core of a `divisor`-th of a single-core design (1, 2, 4 ...): the largest of its ways of being parallel is
 * halved, again and again, its memories, its port and its bursts under way are divided. INVALID_ARGUMENT: it has
 * several cores, or can't be divided so. `out` shares the texts of `design`. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_divide_core(const braid_overlay_design *design, int divisor,
                                                                  braid_overlay_design *out);
/* The design with ports and banks that are twice as wide; it shares the texts. */
BRAID_API braid_overlay_design braid_overlay_double_bandwidth(const braid_overlay_design *design);

/* --- tasks on a card ------------------------------------------------------------------------------------------------
 */
/* Programs of some cores of a design, decoded, to be timed as often as one likes. Immutable. */
typedef struct braid_overlay_task braid_overlay_task;
/* Of a package, for as many cores like those that it was compiled for. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_task_create(const braid_overlay_package *package, int cores,
                                                                  const braid_allocator *allocator,
                                                                  braid_overlay_task **out);
/* An LSTM layer of as many inputs as states, with drawn weights. *create_ms: measured, the
 * processor time that making integers of them took. */
typedef struct braid_lstm braid_overlay_lstm;
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_lstm_draw(const braid_allocator *allocator, int hidden,
                                                                double *create_ms, braid_overlay_lstm **out);
BRAID_API void braid_overlay_lstm_destroy(braid_overlay_lstm *lstm); /* NULL is allowed */
/* A package of the layer over so many steps. *compile_ms: measured, the processor time that it took. UNSUPPORTED: the
 * design can't. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_lstm_package(const braid_overlay_lstm *lstm, int steps,
                                                                   const braid_overlay_design *design,
                                                                   const braid_allocator *allocator, double *compile_ms,
                                                                   braid_overlay_package **out);
BRAID_API void braid_overlay_task_destroy(braid_overlay_task *task); /* NULL is allowed */

typedef struct braid_overlay_task_info {
  int cores;
  int64_t program_bytes; /* of all cores: what a switch sends */
  int64_t context_bytes; /* of vectors, which a switch within a sequence sends too */
  int64_t constant_bytes;
  int64_t macs;
  double compile_ms; /* measured: processor time of making the programs, the second time */
} braid_overlay_task_info;
BRAID_API braid_overlay_task_info braid_overlay_task_get_info(const braid_overlay_task *task);

typedef struct braid_overlay_tenant {
  const braid_overlay_task *task;
  int core; /* its first; it has the ones behind it too */
  int runs; /* that are timed; 0: it is there for the others alone */
} braid_overlay_tenant;
/* Of a tenant, modelled; shares of the time of its timed runs, means over its cores. All 0 without any. */
typedef struct braid_overlay_timed {
  double cycles, seconds; /* of a run, the mean */
  double busy[BRAID_OVERLAY_UNITS], waits[BRAID_OVERLAY_UNITS], synchronizing;
  double read_bytes, written_bytes; /* of DDR, in a run */
} braid_overlay_timed;
/* All begin in cycle 0; each runs its task again and again until all have had their runs: nobody ends alone.
 * INVALID_ARGUMENT: nobody has any; a task of other cores than the design's; cores that the design lacks, or that two
 * have; more memory than the card has. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_time_tenants(const braid_overlay_design *design,
                                                                   const braid_overlay_tenant *tenants, size_t count,
                                                                   braid_overlay_timed *out);

/* How long a task, alone, goes on after it was told to stop at the next tile; modelled. */
typedef struct braid_overlay_stops {
  size_t count;
  double mean_us, worst_us;
  /* The same where it had not yet come to a further place since it went on: it comes to one, and is only then stopped,
   * so that it ends however often it is told to stop. */
  size_t again_count;
  double again_mean_us, again_worst_us;
} braid_overlay_stops;
/* Tells it so again and again through one run: each other time `period_cycles` (at least 1) after it went on, and else
 * as many after it had come to a further place. */
BRAID_API BRAID_MUST_CHECK braid_status braid_overlay_time_stops(const braid_overlay_design *design,
                                                                 const braid_overlay_task *task, uint64_t period_cycles,
                                                                 braid_overlay_stops *out);

#endif
