/* Forecasts: a network on a modelled machine, placed by a policy, in virtual time. Nothing runs; all times, powers and
 * energies are modelled, from a profile of operations (docs/planning.md). */
#ifndef BRAID_PLANNING_H
#define BRAID_PLANNING_H

#include "braid/graph.h"

/* A machine described by a platform file: its devices and their profile. */
typedef struct braid_modelled_machine braid_modelled_machine;
/* `path_or_name`: a file whose name ends in .yaml, or one that the library has (NOT_FOUND lists them). INVALID_FILE
 * names the file, the line and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_modelled_machine_load(const braid_allocator *allocator,
                                                                    const char *path_or_name,
                                                                    braid_modelled_machine **out);
BRAID_API void braid_modelled_machine_destroy(braid_modelled_machine *machine); /* NULL is allowed */
BRAID_API const char *braid_modelled_machine_name(const braid_modelled_machine *machine);
/* On how many GPUs a training step runs side by side, each with a part of the batch, as the file's `exchange` of
 * gradients says; 1 without one. */
BRAID_API int64_t braid_modelled_machine_replicas(const braid_modelled_machine *machine);
/* Other numbers for what its file assumes, to see what results depend on; all are factors, 1: as it is. */
typedef struct braid_modelled_variation {
  double idle_watts, link_latency, link_bandwidth;
  double assumed_ms;              /* of the profile's rows of size "assumed" */
  const char *device, *op, *size; /* one of its rows; NULL: none */
  double ms;                      /* what it then takes, no factor */
} braid_modelled_variation;
BRAID_API void braid_modelled_machine_vary(braid_modelled_machine *machine, const braid_modelled_variation *variation);
/* What its file assumes since nobody published it. */
BRAID_API size_t braid_modelled_assumption_count(const braid_modelled_machine *machine);
BRAID_API const char *braid_modelled_assumption(const braid_modelled_machine *machine, size_t index);

/* What an operation has on the GPU at most to be a candidate of hybrid-energy: where the other devices stop being
 * faster at the operations that the profile names for it. NAN: there is no such filter. */
typedef struct braid_modelled_thresholds {
  double gigabytes_per_second, instructions_per_cycle;
} braid_modelled_thresholds;
BRAID_API braid_modelled_thresholds braid_modelled_machine_thresholds(const braid_modelled_machine *machine);

/* The names of the policies, and what each does in one sentence. */
BRAID_API size_t braid_planning_policy_count(void);
BRAID_API const char *braid_planning_policy_name(size_t index);
BRAID_API const char *braid_planning_policy_summary(size_t index);
/* Whether its plans, without a cap, are no slower than everything on the fastest devices, by the same numbers. */
BRAID_API bool braid_planning_policy_no_loss(size_t index);
/* NOT_FOUND says which there are. */
BRAID_API BRAID_MUST_CHECK braid_status braid_planning_policy_check(const char *name);

/* A training step of `model` (resolved or not) for a batch, as the trainer runs it by default: what is to be forecast
 * for training. For inference it is the resolved model. Where each place of a sample has scores of its own ([batch,
 * classes, ...]), each has a class; auxiliary classifiers of a .cfg count with their share. With a `discriminator`
 * (else NULL), which takes what the model gives, the step trains both against each other. */
BRAID_API BRAID_MUST_CHECK braid_status braid_planning_step(const braid_graph *model, const braid_graph *discriminator,
                                                            int64_t batch, braid_graph **out);

typedef struct braid_forecast_options {
  const char *policy;
  double cap_watts; /* for the machine; 0: as its file says; INFINITY: none */
  /* The graph is the training step of one of so many replicas, each on a GPU of its own with its share of the other
   * devices; 0 and 1: of the whole machine. Else braid_modelled_machine_replicas. */
  int64_t replicas;
  bool bound; /* find least_joules too: takes longer than most policies */
  /* Where nodes are by hand, whatever the policy: "pattern=device pattern=device ...", as in braid_session_options, by
   * names of nodes (of replicas "0/NODE") and of the platform's devices; "auto" and "ordered" are refused. NOT_FOUND: a
   * pattern that matches no node, a device that the platform does not have; UNSUPPORTED: a node that can't run there.
   * NULL: none. */
  const char *place;
  /* The same by numbers, of a graph that is not replicated: the index of the device that runs each node, -1: any
   * may. NULL: any may run any. Not together with `place`. */
  const int *devices;
} braid_forecast_options;

typedef struct braid_forecast braid_forecast;
/* The graph must be resolved; it may be destroyed afterwards, as the machine may. NOT_FOUND: no such policy.
 * UNSUPPORTED names a node that no device can run, or not under the cap, or a device whose memory is too small for
 * every plan that was found, with the bytes and what takes most of them. */
BRAID_API BRAID_MUST_CHECK braid_status braid_forecast_create(const braid_graph *graph,
                                                              const braid_modelled_machine *machine,
                                                              const braid_forecast_options *options,
                                                              const braid_allocator *allocator, braid_forecast **out);
BRAID_API void braid_forecast_destroy(braid_forecast *forecast); /* NULL is allowed */

/* NAN: unknown. */
typedef struct braid_forecast_summary {
  double seconds, joules, average_watts;
  /* Of the step whose operations, busy times, transfers and power over time a forecast has. It is `seconds` but where
   * steps differ (`dvfs`): that, the energies, violations and `seconds_above` are then their means, and the peak is the
   * largest, as the note says. */
  double shown_seconds;
  double peak_watts; /* the largest sum of the peaks of what runs at the same time */
  double
      least_joules; /* no plan costs less that takes no longer than this one, proved; NAN: unknown, or not asked for */
  double idle_joules;   /* of them: what devices draw while they do nothing */
  double cap_watts;     /* NAN: none */
  double seconds_above; /* in which that sum, or the peak of a device, is above its cap; NAN: unknown */
  bool capped;          /* the machine or one of its devices has a cap */
  /* Operations at whose start it, or that of a device, exceeds its cap; those that start at one instant are added one
   * by one, so that of two that only together exceed it one counts. NAN: unknown, since some peak is and the others
   * exceed no cap; with `cap_unknown` and a number there may be more. */
  double cap_violations;
  bool cap_unknown; /* a peak is unknown that may exceed a cap */
  /* Of transfers, in total; and by how much the step is longer because of them, those of inputs and to the host at the
   * end included: the same operations in the same order end so much earlier if nothing takes time to move. Where
   * operations slow down each other it is an estimate: they stay as slow as they are in the step with transfers. */
  double moving_seconds, exposed_seconds;
  /* Whether the platform says of any device how much longer operations take beside others or beside transfers, and of
   * how many devices it leaves one of these out; the times there are in so far those of operations alone. */
  bool interference;
  size_t without_interference;
  double idle_watts; /* of all devices together, doing nothing */
  size_t tasks, nodes;
  double policy_seconds; /* measured: what the policy itself took on this machine */
} braid_forecast_summary;
BRAID_API braid_forecast_summary braid_forecast_get_summary(const braid_forecast *forecast);

/* What the policy did instead where the platform lacks what it goes by, for instance a GPU, or energies that are known,
 * and how much is placed by hand: sentences; "": nothing to say. The forecast's. */
BRAID_API const char *braid_forecast_note(const braid_forecast *forecast);

typedef struct braid_forecast_device {
  const char *name;
  double busy_seconds;
  double joules; /* of its operations and of its idle time; NAN: its idle power or an operation's energy is unknown */
  size_t tasks;
  /* What the plan holds at most at once in the memory that the device works in (the host's, of all devices that share
   * it, inputs and outputs included), and after how many seconds it first does; NAN: it has none, as an exchange. */
  double peak_memory_bytes, peak_memory_seconds;
  double memory_bytes; /* how much fits in there; NAN: no limit */
} braid_forecast_device;
BRAID_API size_t braid_forecast_device_count(const braid_forecast *forecast);
BRAID_API braid_forecast_device braid_forecast_get_device(const braid_forecast *forecast, size_t index);

typedef struct braid_forecast_task {
  const char *node, *op;
  const char *like;   /* the published operation whose rows stand for it */
  const char *device; /* the first of `devices` */
  size_t device_index, devices;
  double mhz;       /* NAN: the device has no clock states */
  bool lower_clock; /* than the device's highest */
  double start, end, joules, peak_watts;
  const char *reason;
  const char *after; /* the node whose end it waits for because of the cap; NULL: none */
} braid_forecast_task;
/* In the order of their starts. */
BRAID_API braid_forecast_task braid_forecast_get_task(const braid_forecast *forecast, size_t index);
/* What could have run a task: the offers of all devices, with a policy that keeps caps those within them. */
typedef struct braid_forecast_offer {
  const char *device;
  size_t devices;
  double mhz, seconds, joules, peak_watts;
  bool chosen;
} braid_forecast_offer;
BRAID_API size_t braid_forecast_offer_count(const braid_forecast *forecast, size_t task);
BRAID_API braid_forecast_offer braid_forecast_get_offer(const braid_forecast *forecast, size_t task, size_t index);

/* Power from a time on (seconds), until the next step. NAN: unknown, both where some device's idle power is, the peaks
 * where some operation's is, the averages from an operation on whose energy is. */
typedef struct braid_forecast_power {
  double from, watts, peak_watts;
} braid_forecast_power;
BRAID_API size_t braid_forecast_power_count(const braid_forecast *forecast);
BRAID_API braid_forecast_power braid_forecast_get_power(const braid_forecast *forecast, size_t index);

/* The timeline, written atomically: for Perfetto or chrome://tracing (JSON), or as a page of its own (HTML), with power
 * over time below it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_forecast_save_trace(const braid_forecast *forecast, const char *path);
BRAID_API BRAID_MUST_CHECK braid_status braid_forecast_save_html(const braid_forecast *forecast, const char *title,
                                                                 const char *path);

/* Where a forecast has every node, and in which order they start, written atomically as a text that sessions can run
 * by, and of which batch (in samples, at least 1; 0: not said) it is; `what` it is of stands in a comment. Clocks are
 * not kept, since runs set none: the text says how many nodes have a lower one in the forecast. UNSUPPORTED names a
 * node for which a device is not enough: on several together. The devices must be those of the machine that runs it,
 * which is not checked here. */
BRAID_API BRAID_MUST_CHECK braid_status braid_forecast_save_placement(const braid_forecast *forecast, const char *what,
                                                                      int64_t batch, const char *path);
/* `devices` and `place` of session options. */
typedef struct braid_placement {
  const braid_allocator *allocator;
  char *devices, *place;
  int64_t batch;   /* samples of the forecast; 0: the file does not say */
  int64_t clocked; /* nodes that have a lower clock in the forecast, which runs do not set */
} braid_placement;
/* Whether a file that begins with these bytes (20 or more) is one. */
BRAID_API bool braid_placement_is(const void *bytes, size_t count);
/* INVALID_FILE names the file, the line and what was expected, also of a file that was cut, that names a node twice, or
 * of another format: one of format 1 does not say how many nodes it has. */
BRAID_API BRAID_MUST_CHECK braid_status braid_placement_load(const braid_allocator *allocator, const char *path,
                                                             braid_placement *out);
BRAID_API BRAID_MUST_CHECK braid_status braid_placement_parse(const braid_allocator *allocator, const char *name,
                                                              const void *text, size_t bytes, braid_placement *out);
BRAID_API void braid_placement_deinit(braid_placement *placement); /* all zero is allowed */

/* --- the evaluation of Hype-training --------------------------------------------------------------------------------
 * He, Liu, Li et al., "Enabling energy-efficient DNN training on hybrid GPU-FPGA accelerators" (ICS 2021), section 5:
 * what it publishes as numbers, in percent where nothing else is said. */
enum { BRAID_HYBRID_MODELS = 6, BRAID_HYBRID_KERNELS = 15 };
typedef struct braid_hybrid_model {
  const char *name;
  int64_t batch;
  double offloaded_operations, offloaded_time; /* Table 2: shares of all operations and of their time */
  const char *offloaded;                       /* which */
  double efficiency, movement, left_on_gpu;    /* Fig. 5: samples per joule gained, transfers less, operations faster */
  double dvfs, capped;                         /* Table 3: samples/s under 230 W */
} braid_hybrid_model;
BRAID_API const braid_hybrid_model *braid_hybrid_models(void);
/* A training step of one of them (DCGAN's is that of both networks). */
BRAID_API BRAID_MUST_CHECK braid_status braid_hybrid_step(const braid_allocator *allocator, size_t model, int64_t batch,
                                                          braid_graph **out);

/* Averages that the text gives: changes in percent. */
typedef struct braid_hybrid_text {
  double throughput, power, efficiency, movement, left_on_gpu; /* section 5.2: 1 V100 + 3 S10 against 1 V100 */
  double two_throughput, two_efficiency, two_power;            /* section 5.3: 2 V100 + 6 S10 against 2 V100 */
  double against_one_throughput, against_one_power;            /* 2 V100 against 1 V100 + 1 S10 */
  double one_efficiency;                                       /* the other way round */
  double four_power, four_efficiency;                          /* 1 V100 + 4 S10 against 1 V100 */
  double violations_250, violations_210; /* section 5.4, of frequency scaling: the most, VGG16's and ResNet50's */
} braid_hybrid_text;
BRAID_API const braid_hybrid_text *braid_hybrid_texts(void);

/* Table 4. MHz: 0 where it is not given. */
typedef struct braid_hybrid_kernel {
  const char *op;
  int compute_units, simd, group, unroll;
  double ms, indicator, mhz;
} braid_hybrid_kernel;
BRAID_API const braid_hybrid_kernel *braid_hybrid_kernels(void);

#endif
