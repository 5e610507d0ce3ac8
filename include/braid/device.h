/* The device contract: the interface between the runtime and a backend, which drives one kind of device.
 *
 * A backend is a static const table of functions (braid_backend, at the end). The runtime opens its devices, allocates
 * buffers, has it prepare kernels for the nodes that are placed on it, and submits tasks to its queues. Execution is
 * asynchronous: submit returns at once. The tasks of one queue run in order of submission (first in, first out, without
 * preemption). A task first waits for its points (of timelines of any device). When it has ended (done, failed or
 * cancelled) it raises the timeline of its queue; by then it has read all of its inputs, and all of its results are
 * visible to others.
 *
 * submit, replay, run, waits, read_power and read_energy neither allocate nor, unless a thread has to sleep, take a
 * lock that devices share. Threads: flush, query, read_power, read_energy, status and the functions of timelines and
 * verdicts may be called by any thread; submit by one thread at a time for each queue; all other functions by one
 * thread at a time for each device, except prepare where concurrent_prepare is set.
 *
 * The contract covers the device functions of Zhao et al., "On Retargeting the AI Programming Framework to New
 * Hardwares" (NPC 2018, doi 10.1007/978-3-030-05677-3_4); docs/new-device.md has the correspondence. src/backend/null
 * is the smallest backend that passes the conformance suite. */
#ifndef BRAID_DEVICE_H
#define BRAID_DEVICE_H

#include "braid/graph.h"
#include "braid/log.h"

enum { BRAID_DEVICE_ABI = 4 };

/* --- timelines -----------------------------------------------------------------------------------------------------
 * A timeline (a timeline semaphore in Vulkan) is a 64-bit counter that only increases. Every queue has one. Each task
 * has a value, and the queue raises its timeline to that value when the task has ended, whether it succeeded or not;
 * tasks, threads and callbacks wait until a timeline has reached a value. A timeline carries no status: see verdicts.
 * The functions may be called by any thread unless stated otherwise. */
typedef struct braid_timeline braid_timeline;

typedef struct braid_point {
  braid_timeline *timeline;
  uint64_t value;
} braid_point;

BRAID_API BRAID_MUST_CHECK braid_status braid_timeline_create(const braid_allocator *allocator,
                                                              braid_timeline **out); /* starts at 0 */
/* No thread may still use it; a queue's timeline is destroyed after the queue. NULL is allowed. */
BRAID_API void braid_timeline_destroy(braid_timeline *timeline);
BRAID_API uint64_t braid_timeline_value(const braid_timeline *timeline);
BRAID_API bool braid_timeline_reached(const braid_timeline *timeline, uint64_t value);
/* Blocks until the timeline has reached the value: OK, or TIMEOUT after timeout_ns (< 0: no limit). */
BRAID_API braid_status braid_timeline_wait(braid_timeline *timeline, uint64_t value, int64_t timeout_ns);
/* For the owner of the timeline (a queue, or the host), one thread at a time. No effect if the value is reached
 * already. A release operation: a thread that observes the value sees all writes made before. */
BRAID_API void braid_timeline_raise(braid_timeline *timeline, uint64_t value);

/* A callback for the moment when a timeline reaches a value. `call` is called once, by the thread that raises the
 * timeline or, if the value is reached already, within braid_timeline_notify; it must be short. The memory is the
 * caller's, and must stay valid and unchanged until then; nothing is allocated. */
typedef struct braid_notice {
  void (*call)(struct braid_notice *notice);
  uint64_t value; /* this and the next field are used by the timeline */
  struct braid_notice *next;
} braid_notice;
BRAID_API void braid_timeline_notify(braid_timeline *timeline, uint64_t value, braid_notice *notice);

/* For backends whose driver can wait for the events of its own queues: attaches the native queue to its timeline. Set
 * in queue_create; read when a task waits for a point. `owner` identifies the backend or driver context; get returns
 * NULL if the timeline has another owner. */
BRAID_API void braid_timeline_set_native(braid_timeline *timeline, const void *owner, void *native);
BRAID_API void *braid_timeline_get_native(const braid_timeline *timeline, const void *owner);

/* --- verdicts ------------------------------------------------------------------------------------------------------
 * The result of a run: one verdict for all tasks of the run, on all queues. Its memory is the caller's. */
enum { BRAID_VERDICT_DETAIL = 512 };
typedef struct braid_task braid_task;

typedef struct braid_verdict {
  uint32_t cancel, failures; /* atomic */
  braid_status status; /* atomic; of the first task that failed, written after the fields below; OK: none has failed */
  const braid_task *task;
  char detail[BRAID_VERDICT_DETAIL]; /* its error detail, or "" */
} braid_verdict;

BRAID_API void braid_verdict_init(braid_verdict *verdict); /* call before each run */
/* Cancels the tasks that are not running yet, including waiting ones. Any thread, at any time. */
BRAID_API void braid_verdict_cancel(braid_verdict *verdict);
BRAID_API bool braid_verdict_cancelled(const braid_verdict *verdict);
/* For backends: records that a task has failed, with the calling thread's error detail, and cancels the rest of the
 * run. Of several failures the first is kept. Call it before raising the timeline. */
BRAID_API void braid_verdict_fail(braid_verdict *verdict, const braid_task *task, braid_status status);
/* After all tasks have ended: OK, the status of the first failure (and its error detail), or CANCELLED. */
BRAID_API braid_status braid_verdict_status(const braid_verdict *verdict);

/* --- nodes, as kernels see them ------------------------------------------------------------------------------------
 */
typedef struct braid_operand {
  bool present;    /* false: an omitted optional input or output; the other fields are then undefined */
  braid_desc desc; /* with its layout in memory */
  /* Of constant inputs: the contents in host memory, PLAIN regardless of desc.layout; else NULL. In `match` and
   * `layouts` the weights of a convolution may be those before a normalization is folded into them; in `prepare` they
   * are final. */
  const void *constant;
} braid_operand;

struct braid_subgraph;
struct braid_group;

typedef struct braid_node_desc {
  const char *op, *name;
  const braid_attrs *attrs;
  size_t input_count, output_count;
  const braid_operand *inputs, *outputs;
  bool training;    /* part of a training graph */
  uint32_t threads; /* host threads that the kernel may use: 1, or 0 for all threads of the device */
  bool packed; /* the constants that braid_backend.query lists are bound in packed form; else prepare copies them */
  const struct braid_custom_op *custom; /* a custom op (braid/custom.h); else NULL */
  /* The contents of a region (op BRAID_REGION_OP); else NULL. */
  const struct braid_subgraph *region;
  /* In claim_regions: > 0: the caller has placed the node on this device; < 0: on another one, so that no region with
   * it will be chosen; 0: on none. */
  int placed;
} braid_node_desc;

#define BRAID_LAYOUT_ANY (~(braid_layout)0) /* stands for "any layout" in `layouts` */

/* --- regions: subgraphs that a backend runs as one task ------------------------------------------------------------
 * For devices that compile a part of a graph as a whole (graph compilers, FPGA overlays, inference accelerators). The
 * backend is given a graph and claims sets of its nodes (braid_backend.claim_regions; "partitioning" or "delegation" in
 * other frameworks). A chosen set becomes one node with op "Region", which runs as one task by the kernel named in the
 * claim; query_region, prepare, pack and discard are called for it. Its inputs, constants included, and outputs are the
 * values that cross the border of the set. */
#define BRAID_REGION_OP "Region"

typedef struct braid_subgraph_node {
  const braid_node_desc *desc;     /* when a region is prepared, constants are in the operands of the region */
  const int32_t *inputs, *outputs; /* the value of each operand of desc; -1: omitted */
} braid_subgraph_node;

/* A whole graph, given to claim_regions, or a region. Nodes are in topological order. */
typedef struct braid_subgraph {
  const braid_subgraph_node *nodes;
  size_t node_count, value_count;
  const int32_t *inputs, *outputs; /* values; of a region: its operands */
  size_t input_count, output_count;
} braid_subgraph;

/* An implementation of one op. The kernels of a device are ordered from the best to the reference implementation; the
 * first that matches a node is preferred. */
typedef struct braid_kernel {
  const char *op;
  const char *name; /* "dnnl_conv", "ref_conv": shown by --explain and in traces */
  /* Whether the kernel can run this node; if not, writes the reason to `why`. NULL: always. The layouts in `node` are
   * valid only if `layouts` is NULL; all must then be PLAIN, unless the kernel accepts others here. */
  bool (*match)(const braid_node_desc *node, char *why, size_t why_bytes);
  /* Optional: sets the layouts that the kernel needs for a node that it matches. On entry, inputs have the layouts that
   * their producers deliver, outputs are PLAIN or, for gradients, the layout that their reader prefers. NULL:
   * everything is PLAIN. The runtime converts where producer and consumer differ.
   * Trained parameters are stored in the layout preferred by the kernel that spends the most time on them: the runtime
   * asks for it with BRAID_LAYOUT_ANY as the layout of that input, and uses the answer for that input only; left
   * unchanged it means PLAIN. */
  void (*layouts)(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs);
  /* Bit i: output 0 may be in the same memory as input i (and as other inputs whose bits are set). The memory planner
   * uses this only where element k of both is at the same address: the same number and size of elements, not
   * necessarily the same type. */
  uint32_t in_place;
  uint32_t in_place_more[3];  /* the same for outputs 1, 2 and 3 */
  const void *implementation; /* for the backend */
} braid_kernel;

/* Claims the nodes with these indices, in any order. The set must be convex (no path leaves it and returns), and nested
 * in or disjoint from every other claim of the device; of claims for the same nodes the first is preferred. Nodes
 * between them that only change the shape (Reshape, Flatten ...) are included automatically. INVALID_ARGUMENT for an
 * invalid claim; planning then fails with its detail. */
typedef braid_status (*braid_region_claim)(void *context, const braid_kernel *kernel, const uint32_t *nodes,
                                           size_t count);

/* Tells why the device does not run this node, in one sentence, which is copied. */
typedef void (*braid_region_refusal)(void *context, uint32_t node, const char *why);

typedef struct braid_prepared_info {
  size_t workspace_bytes;    /* temporary memory that the task needs, passed as the last binding */
  uint32_t constants_folded; /* bit i: constant input i has been copied (packed) into the prepared kernel and is not
                                bound in tasks */
} braid_prepared_info;

/* A constant input that a kernel needs in a format of its own. It is packed once per device and key, and shared by all
 * nodes, plans and executions whose packing has the same key. */
enum { BRAID_PACKINGS = 4 };
typedef struct braid_packing {
  uint32_t input;
  size_t bytes; /* size of the packed form */
  uint64_t key; /* identifies the format: equal constants with equal keys have equal packed forms */
} braid_packing;

/* What a kernel needs for a node, known without preparing it. */
typedef struct braid_query {
  size_t workspace_bytes; /* as in braid_prepared_info */
  uint32_t packing_count;
  braid_packing packings[BRAID_PACKINGS];
} braid_query;

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
/* The memory of an operand. `buffer` and `host` NULL: it is omitted, or was folded into the prepared kernel.
 *
 *   separate memory: `bytes` bytes at `offset` in `buffer`; `host` is NULL.
 *   unified memory, one of three:
 *     buffer, offset          as for separate memory
 *     host                    any host memory, aligned to info.host_alignment and to the element size
 *     buffer, offset, host    the same memory twice: host is buffer_map(buffer) + offset; do not add the offset
 *
 * The backend checks bounds: a task with a binding that exceeds its buffer fails and touches no memory. A binding with
 * only an address cannot be checked. */
typedef struct braid_binding {
  void *buffer;
  void *host; /* unified memory only; takes precedence over buffer and offset */
  size_t offset, bytes;
} braid_binding;

typedef enum braid_task_kind {
  BRAID_TASK_KERNEL,
  BRAID_TASK_WRITE, /* host memory to buffer */
  BRAID_TASK_READ,  /* buffer to host memory */
  BRAID_TASK_COPY,  /* buffer to buffer, also within one: source and target do not overlap */
} braid_task_kind;

typedef struct braid_timing {
  int64_t start_ns, end_ns; /* in the host's monotonic clock; 0, 0: not measured */
  double energy_uj;         /* < 0: unknown */
} braid_timing;

/* Owned by the caller; valid and unchanged from submit until the timeline has reached its value. */
struct braid_task {
  braid_task_kind kind;
  const char *label; /* for traces and error details */
  /* KERNEL: bindings of inputs, then outputs, then the workspace (both NULL if none). A prepared kernel is used by one
   * running task at a time (see shares_prepared). */
  void *prepared;
  const braid_binding *bindings;
  size_t input_count, output_count;
  /* WRITE: host to target; READ: source to host; COPY: source to target. The size is source.bytes, for WRITE
   * target.bytes. */
  braid_binding source, target;
  void *source_device; /* COPY: the device of the source if it is another one (see peer); else NULL */
  void *host;
  /* Points that must be reached before the task starts: of tasks submitted before, or of timelines of the host; in a
   * replay also of tasks of the same run that are submitted later. */
  const braid_point *waits;
  size_t wait_count;
  /* The value to which the queue raises its timeline when the task has ended: 1 for the first task of a queue, and one
   * more for each further task. */
  uint64_t value;
  /* The verdict of the run, never NULL. A task that fails records it there. A task is skipped, without waiting, if the
   * run has been cancelled or another task of it has failed before it starts. */
  braid_verdict *verdict;
  braid_timing *timing; /* written before the timeline is raised; NULL: not needed */
  /* Of recorded tasks (braid_backend.record). awaited: another queue or the host waits for this value, so the timeline
   * must be raised to it before the recording ends. ports, bit i: the memory of binding i (of COPY: 0 source, 1 target)
   * may change from replay to replay; bit 63 is for all bindings from 63 on. */
  bool awaited;
  uint64_t ports;
  void *link[2]; /* for use by the queue */
};

/* --- devices -------------------------------------------------------------------------------------------------------
 */
typedef enum braid_memory_kind {
  BRAID_MEMORY_UNIFIED,  /* kernels access host memory (binding.host), and buffers are mapped: nothing is copied */
  BRAID_MEMORY_SEPARATE, /* data is transferred by WRITE, READ and COPY tasks */
} braid_memory_kind;

typedef struct braid_device_info {
  char name[32];         /* "cpu", "opencl0", "fpga0.1": unique in a registry */
  char kind[16];         /* "cpu", "gpu", "fpga", ... */
  char description[128]; /* vendor's name */
  braid_memory_kind memory;
  uint32_t max_queues;    /* queues that execute concurrently */
  uint32_t compute_units; /* cores, multiprocessors, kernel instances; 0: unknown */
  uint64_t memory_bytes;  /* total memory; 0: unknown */
  size_t alignment;       /* of buffers and of offsets in bindings; a power of two */
  size_t
      host_alignment; /* of binding.host (unified memory): a power of two <= alignment; 1: the element size is enough */
  bool measures_time; /* fills in braid_task.timing */
  bool modelled;      /* times and energy are modelled, not measured */
  /* Set when the device is open, may be "". software: the library or driver that its kernels use, with its version.
   * lacks: an optional library that is missing and makes it slower, why, and what to install. */
  char software[128], lacks[256];
} braid_device_info;

/* What a device's own counters counted. */
typedef struct braid_counts {
  double instructions, cycles; /* of all compute units, cycles while they had work: their ratio is one unit's rate */
  double memory_bytes;         /* read from and written to the device's memory, behind its caches */
} braid_counts;

typedef struct braid_backend {
  uint32_t abi; /* BRAID_DEVICE_ABI; stays first */
  /* sizeof(braid_backend) when the backend was compiled. Entries are only added at the end; those that an older backend
   * does not have are NULL. 0: a table that ends with read_energy. */
  uint32_t size;
  const char *name;

  /* --- required --- */
  /* Writes up to `capacity` infos; *count is the number of devices. OK with 0 if there are none. */
  braid_status (*enumerate)(braid_device_info *infos, size_t capacity, size_t *count);
  /* `options`: "key=value,..." or NULL; INVALID_ARGUMENT for an unknown key. *device is the backend's handle. */
  braid_status (*open)(const braid_allocator *allocator, size_t index, const char *options, void **device);
  void (*close)(void *device); /* after all of its queues, buffers and prepared kernels were destroyed */
  void (*info)(void *device, braid_device_info *info);
  const braid_kernel *const *(*kernels)(void *device, size_t *count); /* best first for each op */
  /* Prepares a kernel for a node: compiles, chooses algorithms, packs constants. May take long; not called during runs.
   * `node` and what it points to stay valid until discard, except the contents of constants. */
  braid_status (*prepare)(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                          braid_prepared_info *info);
  void (*discard)(void *device, void *prepared); /* before the buffers of its tasks are destroyed (shares_prepared: any
                                                    time after its tasks) */
  braid_status (*buffer_create)(void *device, size_t bytes, void **buffer); /* contents undefined */
  void (*buffer_destroy)(void *device, void *buffer);
  /* The queue raises `timeline`, which starts at 0 and is destroyed after the queue. */
  braid_status (*queue_create)(void *device, braid_timeline *timeline, void **queue);
  void (*queue_destroy)(void *device, void *queue); /* waits for all submitted tasks */
  /* Enqueues the task and returns without waiting. If it fails, the task was not enqueued and its value is reused for
   * the next task; failures during execution are recorded in its verdict. */
  braid_status (*submit)(void *queue, braid_task *task);

  /* --- optional; NULL means the default in brackets --- */
  /* The host address of the buffer's first byte, aligned to info.alignment: the memory that kernels access, not a copy,
   * constant for the lifetime of the buffer. Called for unified memory only. [required for unified memory] */
  void *(*buffer_map)(void *device, void *buffer);
  /* Starts execution of the submitted tasks, for drivers that batch them. [submit starts them] */
  void (*flush)(void *queue);
  /* As in braid_kernel, called after it, for kernels that are described by data (a manifest, a bitstream) or depend on
   * the device. [true; those of braid_kernel] */
  bool (*match)(void *device, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes);
  void (*layouts)(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                  braid_layout *outputs);
  /* Whether a COPY on this device can read buffers of `other`, a device of the same backend. [no: copies go through the
   * host] */
  bool (*peer)(void *device, void *other);
  /* Pins host memory that many transfers will use. [no effect] */
  braid_status (*host_register)(void *device, void *host, size_t bytes);
  void (*host_unregister)(void *device, void *host);
  braid_status (*read_memory)(void *device, uint64_t *out_free, uint64_t *out_total); /* [unknown] */
  braid_status (*read_power)(void *device, double *out_watts);         /* from a sensor. [unknown, which is not 0] */
  braid_status (*read_temperature)(void *device, double *out_celsius); /* [unknown] */
  braid_status (*status)(void *device);                                /* DEVICE_LOST if the device is lost. [OK] */
  bool concurrent_prepare; /* several threads may call prepare at once. [one at a time] */
  /* Energy in microjoules that the device has used since it was opened: a counter that only increases. Callers compute
   * power from two readings of their own, so they do not affect each other. [unknown] */
  braid_status (*read_energy)(void *device, double *out_uj);
  /* What prepare would return for the kernel, without preparing it: fast, and without reading the contents of constants
   * that are packed (others, such as axes, may be read). If node.packed is set, prepare folds no constants and does not
   * read these contents either. Any thread. [prepare and discard] */
  braid_status (*query)(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query);
  /* Packs an input that query lists. `packed`: host memory of the size given by query, aligned to min(info.alignment,
   * 64). `plain` is the constant; `prepared` was prepared with node.packed. [required if query lists packings] */
  braid_status (*pack)(void *device, void *prepared, uint32_t input, const void *plain, void *packed);
  /* As replay, in the calling thread; the last value is reached when it returns. Called only if the timeline has
   * reached first - 1, for tasks without waits, on unified memory, with kernels prepared for node.threads = 1. Tasks
   * that are submitted meanwhile run afterwards. [not called] */
  void (*run)(void *queue, void *recording, uint64_t first);
  /* Whether the kernel comes from the user (a manifest, a bitstream) and not from the backend. Nodes that it can run
   * are then not fused on this device. [no] */
  bool (*brought)(void *device, const braid_kernel *kernel);
  /* Records the tasks of a plan for this queue, in order and with one verdict, to be replayed many times (a CUDA graph,
   * a Vulkan command buffer). The tasks and what they point to are valid and unchanged until erase, except the verdict,
   * values of waits, `timing`, `host` of WRITE and READ, and the memory of ports. [tasks are submitted one by one in
   * each run] */
  braid_status (*record)(void *queue, braid_task *const *tasks, size_t count, void **recording);
  void (*erase)(void *queue, void *recording); /* not during a replay. [required with record] */
  /* Runs the tasks as if they were submitted with the values first, first + 1, ...; after a failure or cancellation no
   * further task is started. The timeline need not be raised for each task, only for those that are awaited and at the
   * end. One replay of a recording at a time. [required with record] */
  braid_status (*replay)(void *queue, void *recording, uint64_t first);
  /* Claims regions of a graph by calling `claim` for each. The kernel of a claim has op BRAID_REGION_OP and need not be
   * in the list of kernels; its `layouts` and `in_place` are used as usual. `graph` is valid during the call only. [no
   * regions] */
  braid_status (*claim_regions)(void *device, const braid_subgraph *graph, braid_region_claim claim, void *context);
  /* As query, for a region; `packings` has space for one per input. prepare folds no constants: those that are not
   * packed are bound in plain form. [required with claim_regions] */
  braid_status (*query_region)(void *device, const braid_kernel *kernel, const braid_node_desc *node,
                               size_t *workspace_bytes, braid_packing *packings, size_t *packing_count);
  /* Does a task's timing, where it has one, tell whether the task was run? start_ns is then not 0 once it has begun,
   * even if it fails, and is left as it was if it never does; a braid_host_queue does that. A run that fails tears
   * those weights that its tasks had begun to write. [no: whatever was submitted may have begun] */
  bool marks_begun;
  /* Whether a prepared kernel keeps no state of a task between submit and the task's start, nor from task to task. The
   * runtime then shares one among equal nodes and among executions: several of its tasks may be in one queue, buffers
   * that it was bound to may be destroyed before it, and pack may be called at any time. node.name is the op's name.
   * [one prepared kernel for each node of each execution] */
  bool shares_prepared;
  /* Called once, after open: the log for messages of the device, and the folder in which this backend may cache what it
   * builds (NULL: none; it need not exist). Both are valid until close. [no messages, no cache] */
  void (*set_host)(void *device, const braid_log *log, const char *cache);
  /* Calls `tell` for nodes that are in none of the regions that the device has claimed in the last call of
   * claim_regions, after which it is called. The reasons are shown by --explain, and where no device runs a node. [the
   * device has no kernel for its op] */
  void (*explain_regions)(void *device, braid_region_refusal tell, void *context);
  /* Called by `claim`, in a call of claim_regions: seconds that a task of the region being claimed takes, as the
   * backend models it; below 0: unknown. Measured times, where there are any, count more. [the runtime's model] */
  double (*region_seconds)(void *device);
  /* Why enumerate finds no device: a sentence for people, which stays valid; NULL or "": there is nothing to say, or
   * there are some. [nothing to say] */
  const char *(*absence)(void);
  /* Called once, after open: the group of processes that AllReduce nodes on this device reduce over (braid/group.h);
   * NULL: none, they copy. It is valid until close. The runtime gives these nodes to a queue of their own where the
   * device has two or more, so that they run beside its other kernels. [no kernel of the device is an AllReduce] */
  void (*set_group)(void *device, struct braid_group *group);
  /* Whether its devices are named by their options and not listed by enumerate: the backend's own name opens device 0,
   * whatever its options say ("remote:HOST:PORT/NAME"). [no] */
  bool addressed;
  /* Counts what the device does while `run` runs, which submits tasks and waits until they have ended. It is called
   * several times where the hardware cannot count everything at once, and must do the same each time; its failure is
   * returned. What others do on the device is counted, too. UNSUPPORTED: nothing can be counted here, the detail says
   * why. Costs nothing before the first call. [nothing is counted] */
  braid_status (*count)(void *device, braid_status (*run)(void *context), void *context, braid_counts *out);
  /* Replays run tasks of one queue beside each other where neither touches memory that the other writes. In plans that
   * update states, as training steps do, the runtime then uses a value's memory for another only so many steps of the
   * plan after the last that needs it, since tasks that share memory wait for each other; unless the arena is then
   * larger than an eighth of the device's memory. [0: tasks of a queue run one after the other] */
  uint32_t lingers;
} braid_backend;

/* --- registry ------------------------------------------------------------------------------------------------------
 * A registry has the available backends and opens devices by name. braid_registry_create adds the built-in backends. */
typedef struct braid_registry braid_registry;
typedef struct braid_device braid_device;

BRAID_API BRAID_MUST_CHECK braid_status braid_registry_create(const braid_allocator *allocator, braid_registry **out);
BRAID_API void braid_registry_destroy(braid_registry *registry); /* all of its devices must be closed */
/* The log (copied) of all objects that use the registry: devices, machines, sessions, trainers. NULL, the default: no
 * messages. Call it before devices are opened. */
BRAID_API void braid_registry_set_log(braid_registry *registry, const braid_log *log);
BRAID_API const braid_log *braid_registry_get_log(const braid_registry *registry); /* NULL if registry is NULL */
/* Who is told (copied) while kernels of plans on this registry's devices are prepared. NULL, the default: nobody. Call
 * it before machines and sessions are made. */
BRAID_API void braid_registry_set_progress(braid_registry *registry, const braid_progress *progress);
BRAID_API const braid_progress *braid_registry_get_progress(const braid_registry *registry); /* NULL if registry is */
/* The folder in which devices opened afterwards cache what they build (OpenCL programs), each backend in a subfolder of
 * its name. NULL, the default: no cache, programs are built in every process. The library reads no environment
 * variables for this; the braid command uses $XDG_CACHE_HOME/braid or ~/.cache/braid. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_set_cache(braid_registry *registry, const char *folder);
/* Checks the table (ABI, size, required entries) and adds a copy of it. What it points to must outlive the registry. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_add(braid_registry *registry, const braid_backend *backend);
/* Loads a plug-in (braid/plugin.h) and adds its backend; it is unloaded with the registry. NOT_FOUND, INVALID_FILE or
 * UNSUPPORTED (another version of the contract) name the file and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load(braid_registry *registry, const char *path);
/* Loads several plug-ins, their paths separated by ':' (the format of BRAID_PLUGINS). NULL is allowed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load_list(braid_registry *registry, const char *paths);
/* Reads a platform file (docs/platforms.md), which defines names for devices with options and splits devices into
 * virtual ones; these are then listed and opened like others. At most one per registry. NOT_FOUND, IO or INVALID_FILE
 * name the file, the line and what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_load_platform(braid_registry *registry, const char *path);
/* Writes the infos of all devices of all backends, then of those of the platform file that can be opened (tried once,
 * in the first call). With capacity 0 only *count is set. */
BRAID_API BRAID_MUST_CHECK braid_status braid_registry_devices(braid_registry *registry, braid_device_info *infos,
                                                               size_t capacity, size_t *count);
/* The name of the `index`-th backend that says why it has no devices, and the sentence in *why; NULL beyond the last.
 */
BRAID_API const char *braid_registry_absence(const braid_registry *registry, size_t index, const char **why);
/* Opens "name" or "name:key=value,...". NOT_FOUND lists the available names. A name that ends in a dot and a number and
 * that no backend lists ("fpga0.1:parts=4") opens a part of the device before the dot: its backend gets
 * "part=1,parts=4". */
BRAID_API BRAID_MUST_CHECK braid_status braid_device_open(braid_registry *registry, const char *spec,
                                                          braid_device **out);
BRAID_API void braid_device_close(braid_device *device);
BRAID_API const braid_device_info *braid_device_get_info(const braid_device *device);
BRAID_API const braid_backend *braid_device_backend(const braid_device *device); /* the registry's copy of its table */
BRAID_API void *braid_device_self(const braid_device *device);                   /* the backend's handle */

/* The first kernel of the device that matches `node`, or NULL. `why` receives the reasons of the kernels that do not
 * match ("dnnl_conv: no float64; ..."), or "" if there are none; if the device has no kernel for the op it says so. */
BRAID_API const braid_kernel *braid_device_find_kernel(const braid_device *device, const braid_node_desc *node,
                                                       char *why, size_t why_bytes);

#endif
