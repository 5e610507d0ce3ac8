/* Machines, plans, weights and executions: what a session (braid/session.h) is made of, for programs that share them.
 *
 *   machine    the opened devices and their queues, for all threads of a program
 *   plan       a graph placed on a machine: device, kernel, layouts, memory and order of every node. It is made without
 *              preparing anything, never changes, and any number of executions run it
 *   weights    parameters, states, and what kernels have packed from constants: once per device and form, for all plans
 *              that share them (batch sizes, training and evaluation, callers)
 *   execution  a run of a plan in flight: its activations and tasks. Several may be in flight of one plan and of
 * several
 *
 * Machines, plans and weights may be used by any thread, and are reference counted: each keeps what it stands on, and
 * release lets go of one reference (NULL is allowed). An execution is used by one thread at a time, but for cancel. */
#ifndef BRAID_MACHINE_H
#define BRAID_MACHINE_H

#include "braid/device.h"

/* --- machine -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_machine braid_machine;

/* All zero is the default. */
typedef struct braid_machine_options {
  const char *devices;      /* specs separated by spaces, first is the default place; NULL: "cpu" */
  int threads;              /* CPU threads; 0: as many as the process may use */
  braid_registry *registry; /* where devices are looked up, must outlive the machine; NULL: the backends built in */
} braid_machine_options;

/* options may be NULL. */
BRAID_API BRAID_MUST_CHECK braid_status braid_machine_create(const braid_allocator *allocator,
                                                             const braid_machine_options *options, braid_machine **out);
BRAID_API braid_machine *braid_machine_retain(braid_machine *machine);
BRAID_API void braid_machine_release(braid_machine *machine);

/* --- plan ----------------------------------------------------------------------------------------------------------
 */
typedef struct braid_plan braid_plan;

/* All zero is the default. The fields mean what those of braid_session_options mean. */
typedef struct braid_plan_options {
  bool training; /* parameters are read from the weights at each run; else they are constants, as the graph has them */
  bool no_fusion, no_reuse;
  const char *place;
  bool loose_place;
  /* Inputs and outputs lie where they are read first and where they are computed, to be bound to buffers there
   * (braid/buffer.h); else in host memory. */
  bool device_io;
  bool explain; /* keep what every device offered, for braid_plan_get_offer */
  /* A plan that trains decides in which layouts parameters and states are kept. If its executions will use weights
   * that another plan has decided for, these are named here, and are taken as they are. */
  struct braid_weights *weights;
} braid_plan_options;

/* Plans a copy of the graph, which may be destroyed. options may be NULL. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_create(braid_machine *machine, const braid_graph *graph,
                                                          const braid_plan_options *options, braid_plan **out);
BRAID_API braid_plan *braid_plan_retain(braid_plan *plan);
BRAID_API void braid_plan_release(braid_plan *plan);

/* The graph's inputs and outputs; NULL beyond the last. */
BRAID_API size_t braid_plan_input_count(const braid_plan *plan);
BRAID_API size_t braid_plan_output_count(const braid_plan *plan);
BRAID_API const braid_desc *braid_plan_input(const braid_plan *plan, size_t index);
BRAID_API const braid_desc *braid_plan_output(const braid_plan *plan, size_t index);

/* One line per task of a run, in order. Strings are owned by the plan. */
typedef struct braid_plan_line {
  const char *node, *op, *device, *kernel;
  const char *why;  /* the candidates passed over and their reasons, else what decided; "" of what the plan adds */
  double median_us; /* of a session's runs (braid_session_plan); < 0: not measured */
} braid_plan_line;
BRAID_API size_t braid_plan_line_count(const braid_plan *plan);
BRAID_API braid_plan_line braid_plan_get_line(const braid_plan *plan, size_t index);
/* One way in which a device could have run the task of a line, or why it could not. With braid_plan_options.explain;
 * else there are none. Strings are owned by the plan. */
typedef struct braid_plan_offer {
  const char *device;
  const char *kernel; /* "": the device has none for the op */
  const char *op;     /* of a fused node that of what would take the place of several */
  const char *nodes;  /* what it computes: a node, "conv1 + relu1", or the first and last of more */
  const char *why;    /* why the kernel does not take the node, or was not taken; what decided, if it was */
  double us;          /* what it would take, < 0: unknown */
  bool measured;      /* by earlier executions on this machine; else modelled */
  bool able, chosen;
} braid_plan_offer;
BRAID_API size_t braid_plan_offer_count(const braid_plan *plan, size_t line);
BRAID_API braid_plan_offer braid_plan_get_offer(const braid_plan *plan, size_t line, size_t index);
/* Bytes of activations and workspace that each execution allocates. */
BRAID_API size_t braid_plan_arena_bytes(const braid_plan *plan);
/* Lets go of the contents of constants that weights hold in another form: call it when no other weights will be used
 * with the plan. An execution with weights that lack them is refused with UNSUPPORTED from then on. */
BRAID_API void braid_plan_drop_data(braid_plan *plan);

/* --- weights -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_weights braid_weights;

/* Empty: what a plan needs is added when its first execution is made, from the graph that the plan was made of.
 * Parameters and states are known by name and exist once; constants that are equal exist once per device and form. */
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_create(braid_machine *machine, braid_weights **out);
BRAID_API braid_weights *braid_weights_retain(braid_weights *weights);
BRAID_API void braid_weights_release(braid_weights *weights);
/* Copies a parameter or state of training plans (PLAIN, of its type and shape) out or in. Waits for executions that
 * write, and write waits for those that read too. */
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_read(braid_weights *weights, const char *name,
                                                           braid_tensor *tensor);
BRAID_API BRAID_MUST_CHECK braid_status braid_weights_write(braid_weights *weights, const char *name,
                                                            const braid_tensor *tensor);
BRAID_API size_t braid_weights_bytes(const braid_weights *weights); /* on all devices */

/* --- execution -----------------------------------------------------------------------------------------------------
 */
typedef struct braid_execution braid_execution;

/* Prepares the plan's kernels and brings the weights what they lack. weights: NULL: of its own. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_create(braid_plan *plan, braid_weights *weights,
                                                               braid_execution **out);
/* Cancels what is in flight and waits for its end. NULL is allowed. */
BRAID_API void braid_execution_destroy(braid_execution *execution);

/* Starts a run and returns. `inputs` and `outputs` are as for braid_session_run; what they point at stays the run's
 * until it ends. An execution that writes weights (training) waits here until those before it that use them have ended,
 * and one that reads what others write too, in the order in which they came; DEVICE_LOST if one before it is on a
 * device that is lost, which does not end its tasks. BUSY: the last run is in flight, or it has outputs that are moved
 * when it is waited for (braid/buffer.h). On any failure nothing is in flight. How any other run ended that was not
 * waited for is forgotten when the next one starts.
 *
 * on_done (may be NULL) is called once for each submit that returns OK, when the run has ended and its outputs are
 * there, by a thread of the library or, when that is before submit returns, perhaps by the caller's; of a run that a
 * lost device does not end, by the call that gives it up: wait or destroy. It must be short, and must not submit, wait
 * for or destroy anything of the library. Another thread may submit the next run, wait or destroy as soon as it is
 * called: that waits until on_done has returned. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_submit(braid_execution *execution, const void *const *inputs,
                                                               void *const *outputs,
                                                               void (*on_done)(void *context, braid_status status),
                                                               void *context);
/* Waits for the end of the run and says how it ended: the first task that failed, with a sentence that names its node.
 * TIMEOUT after timeout_ns (< 0: no limit): it is still in flight, or its outputs are on their way. DEVICE_LOST: a
 * device is gone, with tasks that may never end; the execution cannot be used again. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_wait(braid_execution *execution, int64_t timeout_ns);
/* Tasks that have not started will not; the running ones finish. The run then ends with CANCELLED, unless it had ended.
 * Any thread. */
BRAID_API void braid_execution_cancel(braid_execution *execution);
/* Submit and wait. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_run(braid_execution *execution, const void *const *inputs,
                                                            void *const *outputs);

#endif
