/* Machines, plans, weights and executions: the objects that a session (braid/session.h) consists of, for programs that
 * share them between models, batch sizes or threads.
 *
 *   machine    the opened devices of a program and their queues
 *   plan       a graph scheduled on a machine: device, kernel, layouts, memory and order of every node; immutable
 *   weights    parameters, states and packed constants, stored once for all plans that share them
 *   execution  the activations and tasks of a run of a plan; several executions may run concurrently
 *
 * Machines, plans and weights are reference counted and may be used by any thread; each holds references to the objects
 * it was made from. release drops one reference (NULL is allowed). An execution is used by one thread at a time, except
 * for cancel, which any thread may call. */
#ifndef BRAID_MACHINE_H
#define BRAID_MACHINE_H

#include "braid/device.h"

/* --- machine -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_machine braid_machine;

/* All zero is the default. */
typedef struct braid_machine_options {
  const char *devices;      /* device specs separated by spaces, the first is preferred; NULL: "cpu" */
  int threads;              /* CPU threads; 0: as many as the process may use */
  braid_registry *registry; /* where devices are looked up; must outlive the machine. NULL: the built-in backends */
} braid_machine_options;

/* options may be NULL. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_create(const braid_allocator *allocator,
                                                             const braid_machine_options *options, braid_machine **out);
BRAID_API braid_machine *braid_machine_retain(braid_machine *machine);
BRAID_API void braid_machine_release(braid_machine *machine);

/* --- plan ----------------------------------------------------------------------------------------------------------
 */
typedef struct braid_plan braid_plan;

/* All zero is the default. The fields have the meaning of those of braid_session_options. */
typedef struct braid_plan_options {
  /* Parameters are read from the weights at each run, so a plan for evaluation gives what they are trained to; else
   * they are constants with the graph's values, whatever the weights have under their names. */
  bool training;
  bool no_fusion, no_reuse;
  const char *place;
  bool loose_place;
  /* Inputs are in the memory of the device that reads them first, outputs in that of the device that computes them, to
   * be bound to buffers there (braid/buffer.h); else both are in host memory. */
  bool device_io;
  bool explain; /* keep all candidate kernels, for braid_plan_get_offer */
  /* A training plan chooses the layouts in which parameters and states are stored. If its executions will use weights
   * that another plan is using already, set them here: their layouts are then kept. NULL: none. */
  struct braid_weights *weights;
  /* Runs are made in the thread that calls braid_execution_run, where all tasks are for one queue of a device that
   * works in the host's memory and the queue is idle: for programs that keep a thread for each device. Small plans do
   * so in any case. */
  bool callers_thread;
  /* The layouts in which the caller's memory of inputs and outputs lies, one for each of the graph's; NULL: all PLAIN.
   * Kernels read and write that memory in place where they can work in the layout, else it is converted in each run.
   * Layouts with blocks are INVALID_ARGUMENT. Descriptors of ports and buffers stay PLAIN: the size is the same. Such a
   * plan cannot be saved. */
  const braid_layout *input_layouts, *output_layouts;
} braid_plan_options;

/* Makes a plan without preparing kernels. The graph is copied and may be destroyed. options may be NULL. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_create(braid_machine *machine, const braid_graph *graph,
                                                          const braid_plan_options *options, braid_plan **out);
BRAID_API braid_plan *braid_plan_retain(braid_plan *plan);
BRAID_API void braid_plan_release(braid_plan *plan);

/* The graph's inputs and outputs; NULL beyond the last. */
BRAID_API size_t braid_plan_input_count(const braid_plan *plan);
BRAID_API size_t braid_plan_output_count(const braid_plan *plan);
BRAID_API const braid_desc *braid_plan_input(const braid_plan *plan, size_t index);
BRAID_API const braid_desc *braid_plan_output(const braid_plan *plan, size_t index);

/* One task of a run, in execution order. Strings are owned by the plan. */
typedef struct braid_plan_line {
  const char *node, *op, *device, *kernel;
  const char *why;  /* the rejected candidates with reasons, else why it was chosen; "" for tasks that Braid inserted */
  double median_us; /* measured in a session's runs (braid_session_plan); < 0: not measured */
  /* The device is simulated: its time and energy are modelled, not measured, and say nothing of this machine. */
  bool modelled;
  double energy_uj; /* of the last run that was timed, microjoules; < 0: unknown */
} braid_plan_line;
BRAID_API size_t braid_plan_line_count(const braid_plan *plan);
BRAID_API braid_plan_line braid_plan_get_line(const braid_plan *plan, size_t index);
/* One candidate for a task: a kernel of a device that could have run it, or the reason why it cannot. Only with
 * braid_plan_options.explain. Strings are owned by the plan. */
typedef struct braid_plan_offer {
  const char *device;
  const char *kernel; /* "": the device has no kernel for the op */
  const char *op;     /* of a fused node: the op that replaces several */
  const char *nodes;  /* the nodes it computes: "conv1", "conv1 + relu1", or the first and last of more */
  const char *why;    /* why the kernel cannot run the node, or was not chosen, or was chosen */
  double us;          /* estimated time; < 0: unknown */
  bool measured;      /* `us` was measured in earlier executions on this machine; else it is modelled */
  bool able, chosen;
} braid_plan_offer;
BRAID_API size_t braid_plan_offer_count(const braid_plan *plan, size_t line);
BRAID_API braid_plan_offer braid_plan_get_offer(const braid_plan *plan, size_t line, size_t index);
/* Bytes of activations and workspace. Executions of a plan share this memory if all tasks are in one queue, as on one
 * CPU; otherwise each allocates it. */
BRAID_API size_t braid_plan_arena_bytes(const braid_plan *plan);
/* Frees the contents of constants that exist packed in the weights. Call it when no other weights will be used with the
 * plan: executions with weights that do not have these constants are UNSUPPORTED from then on. */
BRAID_API void braid_plan_drop_data(braid_plan *plan);

/* --- weights -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_weights braid_weights;

/* Makes an empty store. What a plan needs is added when its first execution is created, from the plan's graph.
 * Parameters and states are identified by name and stored once; constants of equal contents are stored once per device
 * and packed form. */
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_create(braid_machine *machine, braid_weights **out);
BRAID_API braid_weights *braid_weights_retain(braid_weights *weights);
BRAID_API void braid_weights_release(braid_weights *weights);
/* Copies a parameter or state of training plans from or to a PLAIN tensor of its type and shape. read waits for
 * executions that write the weights; write waits also for those that read them.
 *
 * TORN: a run or a call that was writing it failed, or was cancelled, before all was written. What its tasks had begun
 * to write may be of two steps, or half written; neither read nor any run uses it until it has been written again. A
 * run that ends before its first update begins, or after its last one, leaves the weights intact, on devices that tell
 * which tasks they have started (the CPU; `marks_begun` in braid/device.h). On others (OpenCL) all that was submitted
 * counts as begun, so a run that fails or is cancelled there tears whatever it updates. */
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_read(braid_weights *weights, const char *name,
                                                           braid_tensor *tensor);
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_write(braid_weights *weights, const char *name,
                                                            const braid_tensor *tensor);
/* On all devices, with the constants that kernels read where the graph has them. */
BRAID_API size_t braid_weights_bytes(const braid_weights *weights);

/* --- execution -----------------------------------------------------------------------------------------------------
 */
typedef struct braid_execution braid_execution;

/* Prepares the plan's kernels that the machine's executions do not have yet, and adds to the weights what the plan
 * needs and they do not have. weights may be NULL: the execution then has its own. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_create(braid_plan *plan, braid_weights *weights,
                                                               braid_execution **out);
/* Cancels a run in flight and waits for its end. NULL is allowed. */
BRAID_API void braid_execution_destroy(braid_execution *execution);

/* Starts a run and returns. `inputs` and `outputs` are as for braid_session_run; the library uses the memory they point
 * to until the run ends. Executions over the same weights exclude each other as readers (inference, evaluation) and
 * writers (training), in the order of submission: submit blocks until the earlier runs that conflict have ended;
 * DEVICE_LOST if one of these cannot end because its device is lost. TORN: see braid_weights_read. BUSY: the previous
 * run is still in flight, or has outputs that wait has still to copy (braid/buffer.h). After a failure none of the
 * run's tasks is running or will run, unless it is DEVICE_LOST. If a device refused its part, tasks of others may have
 * run before: outputs are undefined then, and weights that these tasks had begun to write are TORN; after any other
 * failure no task has been started. The status of a run that was not waited for is discarded when the next one starts.
 *
 * on_done (may be NULL) is called once for each submit that returns OK, after the run has ended and its outputs are
 * complete: by a thread of the library, or by one that is in a call of it, before that returns: this submit, or
 * whichever thread works on the same device. If a lost device does not end a run, the call that abandons it (wait or
 * destroy) calls on_done. It must be short, and must not submit, wait for or destroy objects of the library. Another
 * thread may submit the next run, wait or destroy as soon as on_done has been called; these calls block until it
 * returns. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_submit(braid_execution *execution, const void *const *inputs,
                                                               void *const *outputs,
                                                               void (*on_done)(void *context, braid_status status),
                                                               void *context);
/* Waits for the end of the run and returns its status: that of the first task that failed, whose node the detail names.
 * TIMEOUT after timeout_ns (< 0: no limit): the run is still in flight, or its outputs are still being copied.
 * DEVICE_LOST: a device does not respond and its tasks may never end; the execution cannot be used again. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_wait(braid_execution *execution, int64_t timeout_ns);
/* Cancels the tasks that have not started and lets the running ones finish; the run then ends with CANCELLED. No effect
 * if it has ended. Any thread. */
BRAID_API void braid_execution_cancel(braid_execution *execution);
/* Submit and wait. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_run(braid_execution *execution, const void *const *inputs,
                                                            void *const *outputs);

#endif
