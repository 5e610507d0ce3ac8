/* Sessions: a graph made ready to run on devices, and its runs.
 *
 * Creating a session resolves and optimizes a copy of the graph, places its nodes, chooses kernels and layouts, plans
 * memory and prepares everything; a run then only submits tasks. A session is the easy call over a machine, a plan,
 * weights and an execution (braid/machine.h), all its own unless machine or weights are given.
 *
 * A session is used by one thread at a time, which need not always be the same one. A run, a read, a write, pinning,
 * unpinning or saving the trace while one of these is under way in another thread is refused with BUSY, which names the
 * call that was there first; nothing is changed by the call that is refused. Two threads that run at the same time take
 * a session each. What a session reports (inputs, outputs, statistics, plan) may be asked for at any time. */
#ifndef BRAID_SESSION_H
#define BRAID_SESSION_H

#include "braid/machine.h"

/* Fixes every shape and folds everything that does not depend on inputs, using the CPU kernels. Inputs whose dimensions
 * are still open: a first (batch) dimension becomes 1; any other is an INVALID_ARGUMENT that names it. Called by
 * session creation; call it yourself to inspect shapes or before braid_graph_gradients. Inputs may get other shapes
 * later (braid_graph_set_input_shape). On failure the graph is what it was, with those shapes; names and lists that it
 * has given out are not valid any more. */
BRAID_API BRAID_MUST_CHECK braid_status braid_resolve(braid_graph *graph);

typedef struct braid_session braid_session;

/* All zero is the default. */
typedef struct braid_session_options {
  const char *devices; /* specs separated by spaces, first is the default place; NULL: "cpu" */
  int threads;         /* CPU threads; 0: as many as the process may use */
  bool training;       /* kernels may not assume that parameters are constant */
  bool no_fusion;      /* run the graph node by node as given (for debugging and comparison) */
  bool no_reuse;       /* every value keeps its own memory (for debugging and comparison) */
  const char *trace;   /* a Chrome/Perfetto trace of all runs, opened now, written at the end; NULL: none */
  /* Places nodes by hand: "pattern=device pattern=device ...", patterns of node names with * and ? (in quotes if they
   * hold spaces or commas: "'conv 1, left'=cpu"), the device by its name or its number in `devices`; the first that
   * matches counts. What is fused with such a node there runs with it;
   * nodes that are to be apart are not fused. What is folded into weights answers to all its names. A pattern that no
   * node of the graph matches is NOT_FOUND, with names that are near. With "auto" in the list the other nodes go where
   * they end soonest, so that independent branches run side by side, by a model of the devices' speed. Without it each
   * goes to the first device that has a kernel for it. */
  const char *place;
  bool loose_place; /* such patterns are let pass: the graph is a part of the one they were written for */
  bool explain;     /* keep what every device offered, for braid_session_offer */
  /* A run that takes longer ends with TIMEOUT and the name of the node it hangs at; 0 or less: no limit. If the node
   * then takes as long again the session is lost: further runs end with DEVICE_LOST. With a limit, inputs and outputs
   * are copied, so that a task that comes back late touches nothing of the caller's. */
  int64_t timeout_ms;
  braid_registry *registry; /* where devices are looked up, must outlive the session; NULL: the backends built in */
  braid_machine *machine;   /* shared with others; devices, threads and registry are then its. NULL: its own */
  braid_weights *weights;   /* of that machine, shared with others; NULL: its own */
  /* Made from this graph, or loaded for it (braid/plan.h), else INVALID_ARGUMENT: what saved plans compare of a graph
   * is compared, so weights are the plan's. The machine is the plan's, and so is what makes a plan here (devices,
   * threads, training, no_fusion, no_reuse, place). NULL: its own. */
  braid_plan *plan;
  /* Files of saved plans (braid/plan.h), for a session that is given no plan. Loads its plan instead of making it, on a
   * machine as `machine`, or `devices` and `threads`, say; the other options that make a plan are then the file's, and
   * nothing is explained. NULL: makes it. */
  const char *load_plan;
  const char *save_plan; /* saves the plan that it runs by; NULL: does not */
} braid_session_options;

/* options may be NULL. The graph is not changed and may be destroyed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_create(const braid_graph *graph,
                                                             const braid_session_options *options, braid_session **out);
/* Ends the trace and writes it: IO names the file. Nothing to do without one. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_save_trace(braid_session *session);
/* Waits for work under way, of a call in another thread too; writes the trace if that was not done, and warns in the
 * log if it cannot. NULL is allowed. */
BRAID_API void braid_session_destroy(braid_session *session);

/* Host memory bound to the graph's inputs and outputs, in their order: PLAIN, of exactly the bytes their descriptions
 * say. Inputs are read and outputs written only during run; they must not overlap. An output pointer may be NULL (not
 * wanted), and so may `outputs`. Memory aligned to its elements is used where it is (without a time limit), other
 * memory is copied. A failure names the node; unless a device is lost or a task hangs the session can run again, but
 * states may by then hold new values of the failed run beside old ones. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_run(braid_session *session, const void *const *inputs,
                                                          void *const *outputs);
/* Announces memory of the caller that inputs come from or outputs go to run after run: drivers of cards pin it, which
 * makes copies up to three times as fast; where nothing is gained, nothing happens. It must stay until unpinned, with
 * the address it was pinned with, or the session is destroyed. NO_MEMORY; BUSY while the session runs. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_pin(braid_session *session, void *host, size_t bytes);
/* BUSY: the memory is still pinned and must stay. Memory that is not pinned is OK. */
BRAID_API braid_status braid_session_unpin(braid_session *session, void *host);
/* What the graph's inputs and outputs are once shapes are fixed. */
BRAID_API size_t braid_session_input_count(const braid_session *session);
BRAID_API size_t braid_session_output_count(const braid_session *session);
BRAID_API const braid_desc *braid_session_input(const braid_session *session, size_t index);
BRAID_API const braid_desc *braid_session_output(const braid_session *session, size_t index);

/* Copies a PARAMETER or STATE (by name) out of, or into, the session; a PLAIN tensor of its shape and type. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_read(braid_session *session, const char *name,
                                                           braid_tensor *tensor);
BRAID_API BRAID_MUST_CHECK braid_status braid_session_write(braid_session *session, const char *name,
                                                            const braid_tensor *tensor);

typedef struct braid_session_stats {
  size_t nodes;           /* tasks per run */
  size_t conversions;     /* of them layout conversions and copies that we added */
  size_t arena_bytes;     /* activations and workspace, planned */
  size_t unshared_bytes;  /* the same without reuse: what one buffer per value would take */
  size_t parameter_bytes; /* parameters, states and constants, as they are or packed, on all devices */
  double prepare_ms;      /* measured */
} braid_session_stats;
BRAID_API braid_session_stats braid_session_get_stats(const braid_session *session);

/* One line per node of the plan, in order, with what some of the runs so far took: for --explain. */
BRAID_API size_t braid_session_plan_count(const braid_session *session);
BRAID_API braid_plan_line braid_session_plan(const braid_session *session, size_t index);
/* What was offered for it, as braid_plan_get_offer says; none without options.explain. */
BRAID_API size_t braid_session_offer_count(const braid_session *session, size_t line);
BRAID_API braid_plan_offer braid_session_offer(const braid_session *session, size_t line, size_t index);

#endif
