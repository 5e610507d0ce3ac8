/* Sessions: a graph prepared to run on devices, and its runs.
 *
 * Creating a session resolves and optimizes a copy of the graph, assigns its nodes to devices, chooses kernels and
 * layouts, plans memory and prepares kernels; a run then only submits tasks. A session consists of a machine, a plan,
 * weights and an execution (braid/machine.h), which it creates itself unless they are given in the options.
 *
 * A session is used by one thread at a time, not always the same one. run, read, write, pin, unpin and save_trace
 * return BUSY, without any effect, while another thread is in one of them; the detail names that call. Threads that run
 * concurrently use a session each. The getters (inputs, outputs, statistics, plan) may be called at any time. */
#ifndef BRAID_SESSION_H
#define BRAID_SESSION_H

#include "braid/machine.h"

/* Infers every shape, and folds what does not depend on inputs into constants (computed on the CPU). A dynamic first
 * (batch) dimension of an input becomes 1; INVALID_ARGUMENT names any other dynamic dimension. Sessions and plans do
 * this themselves; call it to inspect shapes, or before braid_graph_gradients. Input shapes can still be changed
 * afterwards (braid_graph_set_input_shape). Ids of values and nodes from before are invalid, also where they are still
 * in range: what no output depends on is removed and the rest renumbered; names stay (braid_graph_find_value). On
 * failure the graph is unchanged, but pointers obtained from it are invalid. */
BRAID_API BRAID_MUST_CHECK braid_status braid_resolve(braid_graph *graph);

typedef struct braid_session braid_session;

/* All zero is the default. */
typedef struct braid_session_options {
  const char *devices; /* device specs separated by spaces, the first is preferred; NULL: "cpu" */
  int threads;         /* CPU threads; 0: as many as the process may use */
  bool training;       /* kernels may not assume that parameters are constant */
  bool no_fusion;      /* do not fuse nodes (for debugging and comparison) */
  bool no_reuse;       /* values do not share memory (for debugging and comparison) */
  const char *trace;   /* path of a Chrome/Perfetto trace of all runs, created now, completed by save_trace or destroy.
                          NULL: none */
  /* Placement: "pattern=device pattern=device ...". A pattern of node names may contain * and ?, and is quoted if it
   * contains spaces or commas ("'conv 1, left'=cpu"); a device is given by its name or its index in `devices`; of
   * several matching patterns the first is used. Nodes placed on different devices are not fused; a fused node is
   * placed by any of its nodes' names. NOT_FOUND if a pattern matches no node; the detail lists similar names. The
   * other nodes run on the first device that has a kernel for them, or, if the list contains "auto", where a list
   * scheduler expects them to end earliest, so that independent branches run concurrently. With "ordered" in it, nodes
   * start in the order of the patterns that match them, as far as data and updates in place let them: a device runs one
   * after the other. */
  const char *place;
  bool loose_place; /* patterns that match no node are ignored, for graphs that are a part of another */
  bool explain;     /* keep all candidate kernels, for braid_session_offer */
  /* A run that takes longer is cancelled and returns TIMEOUT; the detail names the node that was running. 0 or less: no
   * limit. If that node does not end within the same time again, all further runs return DEVICE_LOST. With a limit,
   * inputs and outputs are copied, so that a late task cannot touch the caller's memory. */
  int64_t timeout_ms;
  braid_registry *registry; /* where devices are looked up; must outlive the session. NULL: the built-in backends */
  braid_machine *machine;   /* shared; devices, threads and registry are then ignored. NULL: the session's own */
  braid_weights *weights;   /* shared, of the same machine. NULL: the session's own */
  /* A plan that was made from this graph or loaded for it (braid/plan.h), else INVALID_ARGUMENT; graphs are compared as
   * for saved plans, so not by their weights, and the plan's weights are used. The plan's machine is used, and the
   * options devices, threads, training, no_fusion, no_reuse and place are ignored. NULL: the session's own. */
  braid_plan *plan;
  /* Path of a saved plan (braid/plan.h) to load instead of making a plan, on `machine` or on one made from `devices`
   * and `threads`; not together with `plan`. The options no_fusion, no_reuse, place and explain are then ignored, and a
   * plan that was made with another `training` is UNSUPPORTED. NULL: a plan is made. */
  const char *load_plan;
  const char *save_plan; /* path to which the session's plan is saved; NULL: it is not saved */
} braid_session_options;

/* options may be NULL. The graph is copied and may be destroyed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_create(const braid_graph *graph,
                                                             const braid_session_options *options, braid_session **out);
/* Completes the trace file. IO names the file. No effect without a trace. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_save_trace(braid_session *session);
/* Waits for running work, also for a call in another thread. Completes the trace if save_trace was not called, with a
 * warning in the log on failure. NULL is allowed. */
BRAID_API void braid_session_destroy(braid_session *session);

/* Runs the graph once. `inputs` and `outputs` have a pointer to host memory for each input and output of the graph, in
 * their order: PLAIN, of the size in bytes of the descriptor. Inputs and outputs must not overlap. An output pointer
 * may be NULL (not wanted), and so may `outputs`. Without a time limit, memory that is aligned to its element size is
 * used in place; else it is copied. On failure the detail names the node. The session can be used again unless a device
 * is lost. A training step that fails half way leaves parameters and states that it had begun to write: TORN, from runs
 * and from reading them, until each is written again (braid_weights_read in braid/machine.h). */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_run(braid_session *session, const void *const *inputs,
                                                          void *const *outputs);
/* Pins host memory that inputs or outputs of many runs are in (page-locked memory), which makes transfers to devices
 * with memory of their own faster; no effect for other devices. The memory must stay valid until it is unpinned or the
 * session is destroyed. NO_MEMORY; BUSY while the session runs. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_pin(braid_session *session, void *host, size_t bytes);
/* `host` is the address given to pin; OK if it is not pinned. BUSY: the memory is still pinned and must stay valid. */
BRAID_API braid_status braid_session_unpin(braid_session *session, void *host);
/* Type and shape of the graph's inputs and outputs; NULL beyond the last. */
BRAID_API size_t braid_session_input_count(const braid_session *session);
BRAID_API size_t braid_session_output_count(const braid_session *session);
BRAID_API const braid_desc *braid_session_input(const braid_session *session, size_t index);
BRAID_API const braid_desc *braid_session_output(const braid_session *session, size_t index);

/* Their names, as in the graph that the session was created from; NULL beyond the last. */
BRAID_API const char *braid_session_input_name(const braid_session *session, size_t index);
BRAID_API const char *braid_session_output_name(const braid_session *session, size_t index);

/* Copies a parameter or state, given by name, to or from a PLAIN tensor of its type and shape. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_read(braid_session *session, const char *name,
                                                           braid_tensor *tensor);
BRAID_API BRAID_MUST_CHECK braid_status braid_session_write(braid_session *session, const char *name,
                                                            const braid_tensor *tensor);

/* Gives the constants, parameters and states of `graph` that have the name of a parameter or state of the session its
 * current contents. `graph` is usually the forward graph that was cloned and extended by a loss, gradients and updates;
 * braid_model_save_onnx then saves what was trained. NOT_FOUND if no name is the same, INVALID_ARGUMENT for another
 * type or shape; on failure the graph is unchanged. */
BRAID_API BRAID_MUST_CHECK braid_status braid_session_store(braid_session *session, braid_graph *graph);

typedef struct braid_session_stats {
  size_t nodes;           /* tasks per run */
  size_t conversions;     /* of these, layout conversions and copies that Braid inserted */
  size_t arena_bytes;     /* activations and workspace, with memory reuse */
  size_t unshared_bytes;  /* the same without memory reuse */
  size_t parameter_bytes; /* parameters, states and constants, packed or not, on all devices */
  double prepare_ms;      /* measured */
} braid_session_stats;
BRAID_API braid_session_stats braid_session_get_stats(const braid_session *session);

/* The tasks of the plan in execution order, with measured times of runs so far (a sample of them). */
BRAID_API size_t braid_session_plan_count(const braid_session *session);
BRAID_API braid_plan_line braid_session_plan(const braid_session *session, size_t index);
/* The candidates for a task, as braid_plan_get_offer; none without options.explain. */
BRAID_API size_t braid_session_offer_count(const braid_session *session, size_t line);
BRAID_API braid_plan_offer braid_session_offer(const braid_session *session, size_t line, size_t index);

#endif
