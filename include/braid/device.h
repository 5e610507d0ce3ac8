/* The device contract: what a backend implements so that the runtime can drive its devices.
 *
 * A backend is a static const table (braid_backend, at the end). The runtime opens its devices, allocates buffers,
 * asks it to prepare kernels for the nodes placed on it, and submits tasks to its queues. Everything after prepare is
 * asynchronous: submit returns at once, tasks of one queue run in the order of submission (first in, first out, not
 * preempted), a task first waits for the points it names (of any device), and raises its queue's timeline when it is
 * done, has failed or was cancelled: not before all that it reads has been read and all that it writes can be read by
 * others. No call of the steady state (submit, run, waits, read_power, read_energy) allocates or takes a lock shared by
 * devices. flush, read_energy, status and what is said of timelines and verdicts may be called from any thread, submit
 * by one thread at a time for each queue; everything else on one device by one thread at a time, except prepare where
 * the backend allows it.
 *
 * Source: the calls of Zhao et al., "On Retargeting the AI Programming Framework to New Hardwares" (NPC 2018,
 * doi 10.1007/978-3-030-05677-3_4): initialize, allocate/free, copy both ways, describe and commit a task, status
 * query; docs/new-device.md maps them one by one. backend/null is the smallest backend that passes the conformance
 * suite. */
#ifndef BRAID_DEVICE_H
#define BRAID_DEVICE_H

#include "braid/graph.h"

enum { BRAID_DEVICE_ABI = 4 };

/* --- timelines -----------------------------------------------------------------------------------------------------
 * When: a timeline is a 64-bit count that only grows and is never reset. Every queue has one. A task has a value on the
 * timeline of its queue and raises it to that value when it has ended, be it done, failed or cancelled; tasks, threads
 * and calls wait until a timeline has reached a value. Whether what they waited for went well is not a timeline's to
 * say but a verdict's. Any thread, unless it says otherwise. */
typedef struct braid_timeline braid_timeline;

typedef struct braid_point {
  braid_timeline *timeline;
  uint64_t value;
} braid_point;

BRAID_API BRAID_MUST_CHECK braid_status braid_timeline_create(const braid_allocator *allocator,
                                                              braid_timeline **out); /* at 0 */
/* Once nobody raises it or waits for it any more: after its queue. NULL is allowed. */
BRAID_API void braid_timeline_destroy(braid_timeline *timeline);
BRAID_API uint64_t braid_timeline_value(const braid_timeline *timeline);
BRAID_API bool braid_timeline_reached(const braid_timeline *timeline, uint64_t value);
/* Blocks until the value is reached: OK, or TIMEOUT after timeout_ns (< 0: no limit). */
BRAID_API braid_status braid_timeline_wait(braid_timeline *timeline, uint64_t value, int64_t timeout_ns);
/* For whom the timeline belongs to, a queue or the host, one thread at a time. A value that is reached changes nothing.
 * Who sees the value sees what was written before. */
BRAID_API void braid_timeline_raise(braid_timeline *timeline, uint64_t value);

/* A call when a value is reached, in the memory of who asks for it: nothing is allocated. `call` comes once, from the
 * thread that raises the timeline or, where the value is reached already, from inside of notify; it must be short. The
 * notice is left alone from notify until then. */
typedef struct braid_notice {
  void (*call)(struct braid_notice *notice);
  uint64_t value; /* the timeline's own, as what follows */
  struct braid_notice *next;
} braid_notice;
BRAID_API void braid_timeline_notify(braid_timeline *timeline, uint64_t value, braid_notice *notice);

/* For backends that chain their own native events: whose queue the timeline is. Set in queue_create, by the backend
 * that knows `owner`, and asked when a task waits; get returns NULL for the queue of another owner. */
BRAID_API void braid_timeline_set_native(braid_timeline *timeline, const void *owner, void *native);
BRAID_API void *braid_timeline_get_native(const braid_timeline *timeline, const void *owner);

/* --- verdicts ------------------------------------------------------------------------------------------------------
 * Whether: how a run ended. One for all tasks of the run, on however many queues, in memory of who submits them. */
enum { BRAID_VERDICT_DETAIL = 512 };
typedef struct braid_task braid_task;

typedef struct braid_verdict {
  uint32_t cancel, failures; /* atomic */
  braid_status status;       /* atomic; of the task that failed first, written after what follows; OK: none has */
  const braid_task *task;
  char detail[BRAID_VERDICT_DETAIL]; /* its sentence, or "" */
} braid_verdict;

BRAID_API void braid_verdict_init(braid_verdict *verdict); /* before each run */
/* Tasks that are not running will not be run, whatever they wait for. Any thread, any time. */
BRAID_API void braid_verdict_cancel(braid_verdict *verdict);
BRAID_API bool braid_verdict_cancelled(const braid_verdict *verdict);
/* For backends: the task has failed. Of several the first counts. Takes over the calling thread's error detail, and
 * cancels the rest of the run. Comes before the timeline is raised. */
BRAID_API void braid_verdict_fail(braid_verdict *verdict, const braid_task *task, braid_status status);
/* Once the tasks have ended: OK, the failure (its sentence is the error detail), or CANCELLED. */
BRAID_API braid_status braid_verdict_status(const braid_verdict *verdict);

/* --- nodes as a kernel sees them -----------------------------------------------------------------------------------
 */
typedef struct braid_operand {
  bool present;    /* false: an optional input or output left out; the rest is then undefined */
  braid_desc desc; /* with the layout it will have in memory */
  /* Inputs: the fixed contents in host memory (PLAIN whatever desc.layout says), else NULL. Final in prepare; in match
   * and layouts a convolution's weights may be shown as they were before a normalization was folded into them. */
  const void *constant;
} braid_operand;

struct braid_subgraph;

typedef struct braid_node_desc {
  const char *op, *name;
  const braid_attrs *attrs;
  size_t input_count, output_count;
  const braid_operand *inputs, *outputs;
  bool training;    /* part of a training graph: a backward pass may follow */
  uint32_t threads; /* of the host that the kernel may use: 1, or as many as the device has (0) */
  bool packed; /* constants that braid_backend.query lists are bound in packed form; else prepare takes them over */
  const struct braid_custom_op *custom; /* the program's own op (braid/custom.h); NULL: one that Braid has */
  /* Of a region, whose op is BRAID_REGION_OP: what is in it; else NULL. */
  const struct braid_subgraph *region;
} braid_node_desc;

#define BRAID_LAYOUT_ANY (~(braid_layout)0) /* no layout: the question which a kernel would like */

/* --- regions: sets of nodes that a backend runs whole --------------------------------------------------------------
 * For devices that compile a part of a graph at once: an overlay, an inference chip whose library has no kernels. The
 * backend looks at a graph and claims sets of its nodes (braid_backend.claim_regions). A set that is chosen becomes one
 * node with op "Region" and runs as one task by the kernel that the claim names; query_region, prepare, pack and
 * discard are asked about it as about any other. Its operands are what crosses its border: inputs, constants among
 * them, and every value that somebody outside needs. */
#define BRAID_REGION_OP "Region"

typedef struct braid_subgraph_node {
  const braid_node_desc *desc;     /* of a region that is prepared, constants are where the region's operands say */
  const int32_t *inputs, *outputs; /* the value of each operand of desc; -1: left out */
} braid_subgraph_node;

/* A whole graph, to be claimed from, or a region. Nodes come after those that they read. */
typedef struct braid_subgraph {
  const braid_subgraph_node *nodes;
  size_t node_count, value_count;
  const int32_t *inputs, *outputs; /* values; of a region, those of its operands */
  size_t input_count, output_count;
} braid_subgraph;

/* One implementation of one op for a backend's devices. Tables of kernels are searched in order: the first that matches
 * is taken, so the best stands first and the plain reference last. */
typedef struct braid_kernel {
  const char *op;
  const char *name; /* "dnnl_conv", "ref_conv": shown by --explain and in traces */
  /* Can it run this node? If not, says why in `why`. NULL: always. Layouts in `node` are to be looked at only if
   * `layouts` is NULL (then all must be PLAIN unless the kernel accepts others here). */
  bool (*match)(const braid_node_desc *node, char *why, size_t why_bytes);
  /* Optional: the layouts the kernel wants for a node it matches; entries start as the ones the producers deliver
   * (inputs) and PLAIN, or what the reader of a gradient would like (outputs). NULL: everything PLAIN. The runtime
   * converts where producer and consumer differ.
   * A parameter that is trained can be kept in the layout that its heaviest reader likes best: the runtime asks for
   * that with BRAID_LAYOUT_ANY in place of what is delivered, and looks at that input's entry of the answer alone; one
   * that is left as it is means plain. */
  void (*layouts)(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);
  /* Bit i set: the kernel bears it that output 0 is the same memory as input i, whatever other inputs lie there too (if
   * their bits are set). The memory planner decides where; it only ever does so where element i of both is the same
   * memory: the same number and size of elements, though not necessarily the same type. */
  uint32_t in_place;
  uint32_t in_place_more[3];  /* the same for outputs 1, 2 and 3 */
  const void *implementation; /* the backend's own */
} braid_kernel;

/* Claims the nodes with these numbers, in any order. They must be convex (no path leaves them and comes back) and not
 * be in another claim of the device. A new shape for the same memory (Reshape, Flatten ...) between two of them comes
 * along by itself. INVALID_ARGUMENT for a claim that is none: the plan then ends with its sentence. */
typedef braid_status (*braid_region_claim)(void *context, const braid_kernel *kernel, const uint32_t *nodes,
                                           size_t count);

typedef struct braid_prepared_info {
  size_t workspace_bytes;    /* scratch memory the task needs while it runs, handed over as the last binding */
  uint32_t constants_folded; /* bit i: constant input i was taken over (packed); run gets no binding for it */
} braid_prepared_info;

/* A constant input that a kernel wants in a form of its own. Packed once, it is shared by all whose packing has the
 * same key: nodes, plans, executions on one device. */
enum { BRAID_PACKINGS = 4 };
typedef struct braid_packing {
  uint32_t input;
  size_t bytes; /* of the packed form */
  uint64_t key; /* what the packed form depends on besides the constant: equal keys, equal bytes */
} braid_packing;

/* What is known of a kernel for a node before it is prepared. */
typedef struct braid_query {
  size_t workspace_bytes; /* as prepare will say */
  uint32_t packing_count;
  braid_packing packings[BRAID_PACKINGS];
} braid_query;

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
/* Where an operand lies. Both NULL: it is absent, or was folded into the prepared kernel.
 *
 *   memory of its own: `bytes` from `offset` of `buffer`; `host` is NULL.
 *   unified memory, one of three:
 *     buffer, offset          the same
 *     host                    an address of any host memory, aligned to info.host_alignment and to its elements
 *     buffer, offset, host    both say the same place: host is buffer_map(buffer) + offset. The offset is in it already
 *                             and must not be added again
 *
 * Bounds of buffers are the backend's to check: a task whose binding with a buffer does not lie in it fails, and
 * touches nothing. Where there is an address alone, there is nothing to check. */
typedef struct braid_binding {
  void *buffer;
  void *host; /* unified memory only; wins over buffer and offset */
  size_t offset, bytes;
} braid_binding;

typedef enum braid_task_kind {
  BRAID_TASK_KERNEL,
  BRAID_TASK_WRITE, /* host memory to buffer */
  BRAID_TASK_READ,  /* buffer to host memory */
  BRAID_TASK_COPY,  /* buffer to buffer */
} braid_task_kind;

typedef struct braid_timing {
  int64_t start_ns, end_ns; /* the host's monotonic clock, or the device's converted to it; 0, 0: not measured */
  double energy_uj;         /* < 0: unknown */
} braid_timing;

/* Owned by the caller and left alone by it from submit until its value is reached. */
struct braid_task {
  braid_task_kind kind;
  const char *label; /* for traces and error details */
  /* KERNEL: inputs, then outputs, then the workspace (absent if none). A prepared kernel runs in one task at a time. */
  void *prepared;
  const braid_binding *bindings;
  size_t input_count, output_count;
  /* WRITE: host to target; READ: source to host; COPY: source to target. The bytes are those of source, or of target
   * for WRITE. */
  braid_binding source, target;
  void *source_device; /* COPY: the device that holds the source, if it is another (see peer); else NULL */
  void *host;
  /* Reached before the task starts. They are of tasks that were submitted before, or of the host's own timelines; in a
   * replay also of tasks of the same run that are still to be submitted. */
  const braid_point *waits;
  size_t wait_count;
  /* What its queue's timeline is raised to when it has ended. The first task of a queue has 1, and each one more than
   * the one submitted before it. */
  uint64_t value;
  /* The run's: a task that fails says so there; one that is not running when the run is cancelled, or another task of
   * it has failed, is not run, whatever it still waits for. Never NULL. */
  braid_verdict *verdict;
  braid_timing *timing; /* filled before the timeline is raised; NULL: nobody asks, leave it out if measuring costs */
  /* Of recorded tasks (braid_backend.record): somebody waits for this value before the last; and bit i says that where
   * binding i lies (of COPY: source 0, target 1) may change from replay to replay, bit 63 for all from 63 on. */
  bool awaited;
  uint64_t ports;
  void *link[2]; /* for the queue while the task is in it */
};

/* --- devices -------------------------------------------------------------------------------------------------------
 */
typedef enum braid_memory_kind {
  BRAID_MEMORY_UNIFIED,  /* kernels work on any host memory (binding.host), buffers are mapped: nothing is copied */
  BRAID_MEMORY_SEPARATE, /* data gets there and back by WRITE, READ and COPY tasks */
} braid_memory_kind;

typedef struct braid_device_info {
  char name[32];         /* "cpu", "opencl0", "fpga0.1": unique in a registry */
  char kind[16];         /* "cpu", "gpu", "fpga", ... */
  char description[128]; /* the maker's name for it */
  braid_memory_kind memory;
  uint32_t max_queues;    /* queues that run side by side */
  uint32_t compute_units; /* cores, multiprocessors, kernel instances; 0: unknown */
  uint64_t memory_bytes;  /* 0: unknown. What there is, not a promise that buffers end there: drivers make room late */
  size_t alignment;       /* of buffers and of offsets in bindings; a power of two */
  size_t host_alignment;  /* of binding.host (unified memory), 1: that of its elements; a power of two <= alignment */
  bool measures_time;     /* fills timings in */
  bool modelled;          /* time and energy are modelled, not measured */
  /* Known once the device is open, empty where there is nothing to say: the library or driver that its kernels stand
   * on, with its version; what it does without, at a price, with the reason and what to install. */
  char software[128], lacks[256];
} braid_device_info;

typedef struct braid_backend {
  uint32_t abi; /* BRAID_DEVICE_ABI; stays first */
  /* sizeof(braid_backend) where the backend was compiled: entries are only ever added at the end, and those behind the
   * backend's own end are NULL. 0: it ends with read_energy, as tables did before there was a size. */
  uint32_t size;
  const char *name;

  /* --- required --- */
  /* Writes up to `capacity` descriptions; *count is how many devices there are. None found is OK with 0. */
  braid_status (*enumerate)(braid_device_info *infos, size_t capacity, size_t *count);
  /* `options`: "key=value,..." or NULL; an unknown key is INVALID_ARGUMENT. *device is the backend's own. */
  braid_status (*open)(const braid_allocator *allocator, size_t index, const char *options, void **device);
  void (*close)(void *device); /* all queues, buffers and prepared kernels are gone by then */
  void (*info)(void *device, braid_device_info *info);
  const braid_kernel *const *(*kernels)(void *device, size_t *count); /* best first for each op */
  /* Gets a kernel ready for a node: makes its program, packs constants. May take long; never called in steady state.
   * `node` and what it points to stay as they are until discard, except the constants' contents. */
  braid_status (*prepare)(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                          braid_prepared_info *info);
  void (*discard)(void *device, void *prepared); /* before the buffers it was bound to are destroyed */
  braid_status (*buffer_create)(void *device, size_t bytes,
                                void **buffer); /* contents undefined; NO_MEMORY when full */
  void (*buffer_destroy)(void *device, void *buffer);
  /* `timeline` is the queue's to raise, and at 0; it is destroyed after the queue. */
  braid_status (*queue_create)(void *device, braid_timeline *timeline, void **queue);
  void (*queue_destroy)(void *device, void *queue); /* waits for what was submitted */
  /* Takes the task and returns at once, whatever the task waits for and however long it takes. A failure to take it is
   * returned, and its value is the next task's; a failure while running goes to its verdict. */
  braid_status (*submit)(void *queue, braid_task *task);

  /* --- optional; NULL: the default in brackets --- */
  /* The host address of the buffer's first byte, aligned to info.alignment: the memory that kernels work on, not a
   * copy, the same for as long as the buffer lives. Unified memory only, else not called. [required there] */
  void *(*buffer_map)(void *device, void *buffer);
  /* Tells the device to start on what was submitted, for drivers that batch. [submit has done so] */
  void (*flush)(void *queue);
  /* As in braid_kernel and asked after it, for kernels that come from data (a manifest, a bitstream) or that depend on
   * the device found. [no objection; the kernel's own] */
  bool (*match)(void *device, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes);
  void (*layouts)(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                  braid_layout *outputs);
  /* May a COPY on this device read buffers of `other`, a device of the same backend? [no: by way of the host] */
  bool (*peer)(void *device, void *other);
  /* Announces host memory that transfers will use again and again (pinning). [nothing to do] */
  braid_status (*host_register)(void *device, void *host, size_t bytes);
  void (*host_unregister)(void *device, void *host);
  braid_status (*read_memory)(void *device, uint64_t *out_free, uint64_t *out_total); /* [unknown] */
  braid_status (*read_power)(void *device, double *out_watts);         /* by a sensor. [unknown, which is not zero] */
  braid_status (*read_temperature)(void *device, double *out_celsius); /* [unknown] */
  braid_status (*status)(void *device);                                /* [OK] DEVICE_LOST once the device is gone */
  bool concurrent_prepare; /* several threads may call prepare at once. [one at a time] */
  /* Microjoules that the device has used since it was opened, by a counter that only grows. Whoever wants watts keeps
   * the value and the time of his own last reading, so readers do not disturb each other. [unknown] */
  braid_status (*read_energy)(void *device, double *out_uj);
  /* What prepare will say of the kernel, without preparing it: quick, and without a look at the contents of a constant
   * that is to be packed (others, such as axes, may be looked at). Where node.packed is set, prepare folds nothing and
   * looks at no such contents either. Any thread. [prepare, and discard again] */
  braid_status (*query)(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query);
  /* Writes the packed form of an input that query lists to `packed`: host memory of the bytes that query says, aligned
   * to info.alignment or to 64 bytes, whichever is less. `plain` is the constant, `prepared` was prepared with
   * node.packed. [required with packings] */
  braid_status (*pack)(void *device, void *prepared, uint32_t input, const void *plain, void *packed);
  /* As replay, in the calling thread: the last value is reached when it returns. Only on a queue whose timeline has
   * reached the value before `first`, tasks without waits, on unified memory, whose kernels were prepared with
   * node.threads 1. Others may be submitted meanwhile, and run afterwards. [never] */
  void (*run)(void *queue, void *recording, uint64_t first);
  /* Was the kernel brought by the user (a manifest, a bitstream), rather than by the backend? Then it is taken for its
   * op although a fused kernel of the device could take the node in. [no] */
  bool (*brought)(void *device, const braid_kernel *kernel);
  /* Takes the tasks of a plan that go to this queue, in order and with one verdict, to be run again and again. Tasks,
   * and what they point to, stay as they are until erase, but for what a run changes: the verdict, values of waits,
   * `timing`, `host` of WRITE and READ, and where ports lie. [tasks are submitted one by one, run by run] */
  braid_status (*record)(void *queue, braid_task *const *tasks, size_t count, void **recording);
  void (*erase)(void *queue, void *recording); /* not while it runs [required with record] */
  /* Runs the tasks as if each had been submitted, with the values from `first` on; once one has failed, or the run is
   * cancelled, no other is begun. The timeline may stand still meanwhile, but for tasks that are awaited: the last
   * value is reached when all have ended. One replay of a recording at a time. [required with record] */
  braid_status (*replay)(void *queue, void *recording, uint64_t first);
  /* Claims regions of a graph by calling `claim` for each; `kernel` need not be in the list of kernels, its op is
   * BRAID_REGION_OP, and its layouts and in_place count as ever. The graph is gone when the call returns. [none] */
  braid_status (*claim_regions)(void *device, const braid_subgraph *graph, braid_region_claim claim, void *context);
  /* As query, for a region: `packings` has room for one per input, and prepare folds nothing. What is not packed is
   * bound as it lies. [required with claim_regions] */
  braid_status (*query_region)(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                               size_t *workspace_bytes, braid_packing *packings, size_t *packing_count);
} braid_backend;

/* --- registry ------------------------------------------------------------------------------------------------------
 * A registry holds backends and opens devices by name. braid_registry_create registers the backends built in. */
typedef struct braid_registry braid_registry;
typedef struct braid_device braid_device;

BRAID_API BRAID_MUST_CHECK braid_status braid_registry_create(const braid_allocator *allocator, braid_registry **out);
BRAID_API void braid_registry_destroy(braid_registry *registry); /* every device must be closed */
/* Checks the table (ABI, size, required entries) and adds a copy of it; what it points to must outlive the registry. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_add(braid_registry *registry, const braid_backend *backend);
/* Loads a plug-in (braid/plugin.h), a shared object, and adds its backend; it is unloaded with the registry. NOT_FOUND,
 * INVALID_FILE or UNSUPPORTED (another version of the contract) name the file and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load(braid_registry *registry, const char *path);
/* Loads several, ':' between their paths, as the command does with what BRAID_PLUGINS says. NULL is allowed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load_list(braid_registry *registry, const char *paths);
/* Reads a platform file (docs/platforms.md): names for devices with options, and devices split into virtual ones, which
 * are then listed and opened like any other. At most one per registry. NOT_FOUND, IO or INVALID_FILE name the file, the
 * line and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load_platform(braid_registry *registry, const char *path);
/* Descriptions of all devices of all backends, then those of the platform file that can be opened, which is tried once
 * for all calls; call with capacity 0 to learn the count. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_devices(braid_registry *registry, braid_device_info *infos,
                                                               size_t capacity, size_t *count);
/* Opens "name" or "name:key=value,...". NOT_FOUND lists the names there are. A name that no backend lists but that ends
 * in a dot and a number ("fpga0.1:parts=4") opens a share of the device before the dot: its backend gets
 * "part=1,parts=4". */
BRAID_API BRAID_MUST_CHECK braid_status braid_device_open(braid_registry *registry, const char *spec,
                                                          braid_device **out);
BRAID_API void braid_device_close(braid_device *device);
BRAID_API const braid_device_info *braid_device_get_info(const braid_device *device);
BRAID_API const braid_backend *braid_device_backend(const braid_device *device); /* the registry's copy of the table */
BRAID_API void *braid_device_self(const braid_device *device);                   /* the backend's own device */

/* The first kernel of the device that matches `node`, or NULL. `why` gets the reason of every candidate passed over
 * ("dnnl_conv: no float64; ..."), "" if there was none, or that the device has no kernel for the op. */
BRAID_API const braid_kernel *braid_device_find_kernel(const braid_device *device, const braid_node_desc *node,
                                                       char *why, size_t why_bytes);

#endif
