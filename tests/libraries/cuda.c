/* Passes for NVIDIA's driver: cards whose memory is the host's and whose kernels do nothing, so that loading, memory,
 * transfers, order, recordings and errors can be tested where there is no card. What it does follows the environment:
 *
 *   FAKE_CUDA_CARDS=N      how many (1)              FAKE_CUDA_VERSION=N     of CUDA (13000)
 *   FAKE_CUDA_MEMORY=N     bytes of each (1 GiB)     FAKE_CUDA_FAIL=N        the N-th launch fails for good: 719
 *   FAKE_CUDA_EVENTS=N     events that can be made   FAKE_CUDA_CAPABILITY=N  major number (9)
 *   FAKE_CUDA_NO_UPDATE=1  of graphs                 FAKE_CUDA_NO_CAPTURE=1  of graphs
 *   FAKE_CUDA_MULTIPROCESSORS=N  of each (132)       FAKE_CUDA_NO_ORDER=1  graphs have their streams' order
 *
 * After a failure for good every call that wants a context gives the same code. fake_cuda_hold stops all streams:
 * what is enqueued from then on is done by fake_cuda_go, and memory is not freed before. fake_cuda_launches counts
 * those of kernels, for the library that passes for CUPTI; fake_cuda_graphs, those of graphs; fake_cuda_host_calls, how
 * often streams were given functions of the host. A graph's steps are done in the order that is farthest from that of
 * the stream, the latest that may be next; fake_cuda_depth is how many of the graph made last wait one for the other,
 * of fake_cuda_steps.
 *
 * WITHOUT_FUNCTIONS: a library that has none of the driver's. EMULATE: one whose kernels compute, on the host. */
#ifndef WITHOUT_FUNCTIONS
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/api.h"
#ifdef EMULATE
#include "emulate.h"
#endif

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the real headers are not needed */
#define EXPORT __attribute__((visibility("default")))

enum {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNotFound = 500,
  kNotReady = 600,
  kAlreadyRegistered = 712,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kUpdateFailure = 910
};

enum { kMostShared = 232448 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t in_use;
static long launches, graphs, events, host_calls;
static braid_cuda_result broken;
static bool held; /* atomic */

static long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : otherwise;
}

/* --- cards ---------------------------------------------------------------------------------------------------------
 */
EXPORT braid_cuda_result cuInit(unsigned flags) {
  (void)flags;
  return setting("FAKE_CUDA_CARDS", 1) ? 0 : kNoDevice;
}
EXPORT braid_cuda_result cuDriverGetVersion(int *version) {
  *version = (int)setting("FAKE_CUDA_VERSION", 13000);
  return 0;
}
EXPORT braid_cuda_result cuGetErrorName(braid_cuda_result code, const char **text) {
  *text = code == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
          : code == kNoDevice     ? "CUDA_ERROR_NO_DEVICE"
                                  : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
EXPORT braid_cuda_result cuDeviceGetCount(int *count) {
  *count = (int)setting("FAKE_CUDA_CARDS", 1);
  return 0;
}
EXPORT braid_cuda_result cuDeviceGet(braid_cuda_id *device, int ordinal) {
  *device = ordinal;
  return ordinal < setting("FAKE_CUDA_CARDS", 1) ? 0 : kInvalidDevice;
}
EXPORT braid_cuda_result cuDeviceGetName(char *name, int bytes, braid_cuda_id device) {
  (void)device;
  strncpy(name, "a card that does nothing", (size_t)bytes - 1);
  return 0;
}
EXPORT braid_cuda_result cuDeviceGetAttribute(int *value, int attribute, braid_cuda_id device) {
  switch (attribute) {
  case BRAID_CUDA_PCI_DEVICE:
    *value = device;
    return 0;
  case BRAID_CUDA_MAX_THREADS_PER_BLOCK:
  case BRAID_CUDA_MAX_BLOCK_X:
    *value = 1024;
    return 0;
  case BRAID_CUDA_SHARED_PER_BLOCK:
    *value = 49152;
    return 0;
  case BRAID_CUDA_SHARED_PER_BLOCK_AT_MOST:
    *value = kMostShared;
    return 0;
  case BRAID_CUDA_MULTIPROCESSORS:
    *value = (int)setting("FAKE_CUDA_MULTIPROCESSORS", 132);
    return 0;
  case BRAID_CUDA_CAPABILITY_MAJOR:
    *value = (int)setting("FAKE_CUDA_CAPABILITY", 9);
    return 0;
  default:
    *value = 0;
    return 0;
  }
}
EXPORT braid_cuda_result cuDeviceTotalMem_v2(size_t *bytes, braid_cuda_id device) {
  (void)device;
  *bytes = (size_t)setting("FAKE_CUDA_MEMORY", 1L << 30);
  return 0;
}
static char cards[16];
static bool is_of_card(braid_cuda_context_handle context) {
  return (char *)(void *)context >= cards && (char *)(void *)context < cards + sizeof cards;
}
EXPORT braid_cuda_result cuDevicePrimaryCtxRetain(braid_cuda_context_handle *context, braid_cuda_id device) {
  *context = (braid_cuda_context_handle)(void *)&cards[device];
  return 0;
}
EXPORT braid_cuda_result cuDevicePrimaryCtxRelease_v2(braid_cuda_id device) {
  (void)device;
  return 0;
}
/* Of the calling thread. A card's context that failed for good is not made current any more; others are a program's. */
enum { kDeepest = 16 };
static _Thread_local braid_cuda_context_handle contexts[kDeepest];
static _Thread_local int depth;
EXPORT braid_cuda_result cuCtxPushCurrent_v2(braid_cuda_context_handle context) {
  if (broken && is_of_card(context)) return broken;
  if (depth == kDeepest) abort();
  contexts[depth++] = context;
  return 0;
}
EXPORT braid_cuda_result cuCtxPopCurrent_v2(braid_cuda_context_handle *context) {
  if (!depth && !broken) abort();
  if (!depth) return broken;
  *context = contexts[--depth];
  return 0;
}

/* CUDA's compiler asks for tables of its own, and does without where it gets none. */
EXPORT braid_cuda_result cuGetExportTable(const void **table, const void *id);
EXPORT braid_cuda_result cuGetExportTable(const void **table, const void *id) {
  (void)id;
  *table = NULL;
  return 1;
}

/* --- memory --------------------------------------------------------------------------------------------------------
 * A size stands before each piece. */
enum { kBefore = 256 };

/* Calls that want a current context end the program where there is none. */
#define NEED_CONTEXT                                                                                                   \
  do {                                                                                                                 \
    if (broken) return broken;                                                                                         \
    if (!depth) abort();                                                                                               \
  } while (0)

EXPORT braid_cuda_result cuMemGetInfo_v2(size_t *unused, size_t *total) {
  NEED_CONTEXT;
  (void)cuDeviceTotalMem_v2(total, 0);
  *unused = *total - in_use;
  return 0;
}
EXPORT braid_cuda_result cuMemAlloc_v2(braid_cuda_address *address, size_t bytes) {
  NEED_CONTEXT;
  size_t total;
  char *memory = NULL;
  (void)cuDeviceTotalMem_v2(&total, 0);
  pthread_mutex_lock(&lock);
  if (bytes <= total - in_use) memory = aligned_alloc(kBefore, (bytes + 2 * kBefore - 1) / kBefore * kBefore);
  if (memory) {
    in_use += bytes;
    memcpy(memory, &bytes, sizeof bytes);
    *address = (braid_cuda_address)(uintptr_t)(memory + kBefore);
  }
  pthread_mutex_unlock(&lock);
  return memory ? 0 : kOutOfMemory;
}
EXPORT braid_cuda_result cuMemFree_v2(braid_cuda_address address) {
  NEED_CONTEXT;
  size_t bytes;
  char *memory = (char *)(uintptr_t)address - kBefore;
  while (__atomic_load_n(&held, __ATOMIC_ACQUIRE)) (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  memcpy(&bytes, memory, sizeof bytes);
  pthread_mutex_lock(&lock);
  in_use -= bytes;
  pthread_mutex_unlock(&lock);
  free(memory);
  return 0;
}
EXPORT braid_cuda_result cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
  (void)flags;
  NEED_CONTEXT;
  *host = malloc(bytes);
  return *host ? 0 : kOutOfMemory;
}
EXPORT braid_cuda_result cuMemFreeHost(void *host) {
  NEED_CONTEXT;
  free(host);
  return 0;
}
EXPORT braid_cuda_result cuMemHostGetDevicePointer_v2(braid_cuda_address *address, void *host, unsigned flags) {
  (void)flags;
  *address = (braid_cuda_address)(uintptr_t)host;
  return 0;
}
/* Ranges that are registered. */
enum { kRanges = 64 };
static struct range {
  char *from;
  size_t bytes;
} ranges[kRanges];

static struct range *range_of(const void *host, size_t bytes) {
  for (size_t i = 0; i < kRanges; i++)
    if (ranges[i].bytes && ranges[i].from < (const char *)host + bytes &&
        (const char *)host < ranges[i].from + ranges[i].bytes)
      return &ranges[i];
  return NULL;
}
static bool is_within(const struct range *range, const void *host, size_t bytes) {
  return (const char *)host >= range->from && (const char *)host + bytes <= range->from + range->bytes;
}
/* What is registered in part cannot be copied. */
static bool is_copyable(const void *host, size_t bytes) {
  pthread_mutex_lock(&lock);
  const struct range *range = range_of(host, bytes);
  bool copyable = !range || is_within(range, host, bytes);
  pthread_mutex_unlock(&lock);
  return copyable;
}
EXPORT braid_cuda_result cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) {
  (void)flags;
  NEED_CONTEXT;
  pthread_mutex_lock(&lock);
  bool taken = range_of(host, bytes) != NULL;
  for (size_t i = 0; !taken && i < kRanges; i++)
    if (!ranges[i].bytes) {
      ranges[i] = (struct range){host, bytes};
      break;
    }
  pthread_mutex_unlock(&lock);
  return taken ? kAlreadyRegistered : 0;
}
EXPORT braid_cuda_result cuPointerGetAttribute(void *value, int attribute, braid_cuda_address pointer) {
  pthread_mutex_lock(&lock);
  const struct range *range = range_of((const void *)(uintptr_t)pointer, 1);
  const braid_cuda_address start = range ? (braid_cuda_address)(uintptr_t)range->from : 0;
  if (range && attribute == BRAID_CUDA_RANGE_START) memcpy(value, &start, sizeof start);
  if (range && attribute == BRAID_CUDA_RANGE_BYTES) memcpy(value, &range->bytes, sizeof range->bytes);
  pthread_mutex_unlock(&lock);
  return range ? 0 : kInvalidValue;
}
EXPORT braid_cuda_result cuMemHostUnregister(void *host) {
  NEED_CONTEXT;
  pthread_mutex_lock(&lock);
  struct range *range = range_of(host, 1);
  if (range) range->bytes = 0;
  pthread_mutex_unlock(&lock);
  return range ? 0 : kInvalidValue;
}

/* --- streams: whatever is enqueued is done at once, when streams go on, or with the graph that is captured -----------
 */
enum { kMostWaits = 64 };

typedef struct step {
  braid_cuda_host_call call; /* NULL: a copy, or a kernel */
  void *to;                  /* or the call's context */
  const void *from;
  size_t bytes;
#ifdef EMULATE
  const emulated_function *kernel; /* NULL: none */
  unsigned grid[3], block;
  uint64_t *values; /* of the arguments */
#endif
  struct step *waits[kMostWaits]; /* of a graph: for what it waits */
  size_t wait_count;
  int depth; /* steps of the longest way to it */
  bool done;
  struct step *next, *before;
} step;

struct CUgraph_st {
  step *first, *last;
  step *ends[kMostWaits]; /* for these the next one waits */
  size_t end_count;
  int references;
};
struct CUgraphExec_st {
  struct CUgraph_st *graph;
};
struct CUstream_st {
  struct CUgraph_st *captured;
};
static struct CUgraph_st waiting; /* of all streams that are held */

static void free_steps(struct CUgraph_st *list, bool all) {
  while (list->first) {
    step *next = list->first->next;
#ifdef EMULATE
    if (all) free(list->first->values);
#else
    (void)all;
#endif
    free(list->first);
    list->first = next;
  }
  list->last = NULL;
}
static void do_step(const step *one) {
  if (one->call) one->call(one->to);
#ifdef EMULATE
  if (one->kernel) {
    void *arguments[64];
    for (int i = 0; i < emulate_arguments(one->kernel); i++) arguments[i] = &one->values[i];
    emulate_launch(one->kernel, one->grid, one->block, arguments);
  }
#endif
  if (one->bytes) memmove(one->to, one->from, one->bytes);
}
static step *append_step(struct CUgraph_st *list, const step *one) {
  step *copy = malloc(sizeof *copy);
  if (!copy) return NULL;
  *copy = *one;
  copy->next = NULL;
  copy->before = list->last;
  *(list->last ? &list->last->next : &list->first) = copy;
  return list->last = copy;
}
static braid_cuda_result capture_step(struct CUgraph_st *graph, const step *one) {
  step *own = append_step(graph, one);
  if (!own) return kOutOfMemory;
  own->depth = 1;
  own->wait_count = graph->end_count;
  for (size_t i = 0; i < graph->end_count; i++) {
    own->waits[i] = graph->ends[i];
    if (own->depth <= own->waits[i]->depth) own->depth = own->waits[i]->depth + 1;
  }
  graph->ends[0] = own;
  graph->end_count = 1;
  return 0;
}
static bool is_captured(braid_cuda_stream stream) {
  return stream && stream->captured;
}
static braid_cuda_result take_step(braid_cuda_stream stream, const step *one) {
  if (is_captured(stream)) return capture_step(stream->captured, one);
  pthread_mutex_lock(&lock);
  bool waits = __atomic_load_n(&held, __ATOMIC_ACQUIRE);
  braid_cuda_result code = waits && !append_step(&waiting, one) ? kOutOfMemory : 0;
  pthread_mutex_unlock(&lock);
  if (!waits) do_step(one);
  return code;
}
static braid_cuda_result take_copy(void *to, const void *from, size_t bytes, braid_cuda_stream stream) {
  NEED_CONTEXT;
  return take_step(stream, &(step){.to = to, .from = from, .bytes = bytes});
}
EXPORT long fake_cuda_launches(void) {
  return __atomic_load_n(&launches, __ATOMIC_RELAXED);
}
EXPORT void fake_cuda_hold(void) {
  __atomic_store_n(&held, true, __ATOMIC_RELEASE);
}
EXPORT void fake_cuda_go(void) {
  pthread_mutex_lock(&lock);
  for (const step *one = waiting.first; one; one = one->next) do_step(one);
  free_steps(&waiting, false);
  __atomic_store_n(&held, false, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
}
EXPORT braid_cuda_result cuMemcpyHtoDAsync_v2(braid_cuda_address to, const void *from, size_t bytes,
                                              braid_cuda_stream stream) {
  return is_copyable(from, bytes) ? take_copy((void *)(uintptr_t)to, from, bytes, stream) : kInvalidValue;
}
EXPORT braid_cuda_result cuMemcpyDtoHAsync_v2(void *to, braid_cuda_address from, size_t bytes,
                                              braid_cuda_stream stream) {
  return is_copyable(to, bytes) ? take_copy(to, (const void *)(uintptr_t)from, bytes, stream) : kInvalidValue;
}
EXPORT braid_cuda_result cuMemcpyDtoDAsync_v2(braid_cuda_address to, braid_cuda_address from, size_t bytes,
                                              braid_cuda_stream stream) {
  return take_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream);
}
EXPORT braid_cuda_result cuStreamCreate(braid_cuda_stream *stream, unsigned flags) {
  (void)flags;
  NEED_CONTEXT;
  *stream = calloc(1, sizeof **stream);
  return *stream ? 0 : kOutOfMemory;
}
EXPORT braid_cuda_result cuStreamDestroy_v2(braid_cuda_stream stream) {
  NEED_CONTEXT;
  free(stream);
  return 0;
}
EXPORT braid_cuda_result cuStreamWaitEvent(braid_cuda_stream stream, braid_cuda_event_handle event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return broken;
}
EXPORT long fake_cuda_host_calls(void) {
  return __atomic_load_n(&host_calls, __ATOMIC_RELAXED);
}
EXPORT braid_cuda_result cuLaunchHostFunc(braid_cuda_stream stream, braid_cuda_host_call call, void *context) {
  NEED_CONTEXT;
  __atomic_add_fetch(&host_calls, 1, __ATOMIC_RELAXED);
  return take_step(stream, &(step){.call = call, .to = context});
}
EXPORT braid_cuda_result cuEventCreate(braid_cuda_event_handle *event, unsigned flags) {
  (void)flags;
  NEED_CONTEXT;
  long most = setting("FAKE_CUDA_EVENTS", -1);
  if (most >= 0 && __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED) > most) return kOutOfMemory;
  *event = malloc(1);
  return *event ? 0 : kOutOfMemory;
}
EXPORT braid_cuda_result cuEventDestroy_v2(braid_cuda_event_handle event) {
  free(event);
  return 0;
}
EXPORT braid_cuda_result cuEventRecord(braid_cuda_event_handle event, braid_cuda_stream stream) {
  (void)event, (void)stream;
  NEED_CONTEXT;
  return 0;
}
EXPORT braid_cuda_result cuEventQuery(braid_cuda_event_handle event) {
  (void)event;
  NEED_CONTEXT;
  return __atomic_load_n(&held, __ATOMIC_ACQUIRE) ? kNotReady : 0;
}
EXPORT braid_cuda_result cuEventElapsedTime(float *milliseconds, braid_cuda_event_handle start,
                                            braid_cuda_event_handle end) {
  (void)start, (void)end;
  *milliseconds = 0.001f;
  return broken;
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
EXPORT braid_cuda_result cuModuleLoadData(braid_cuda_module *module, const void *image) {
  NEED_CONTEXT;
  *module = (braid_cuda_module)(void *)strdup(image);
  return *module ? 0 : kOutOfMemory;
}
EXPORT braid_cuda_result cuModuleUnload(braid_cuda_module module) {
  NEED_CONTEXT;
  free(module);
  return 0;
}
EXPORT braid_cuda_result cuModuleGetFunction(braid_cuda_function *function, braid_cuda_module module,
                                             const char *name) {
#ifdef EMULATE
  *function = (braid_cuda_function)(void *)emulate_find((const char *)module, name);
  return *function ? 0 : kNotFound;
#else
  static char any;
  (void)module, (void)name;
  *function = (braid_cuda_function)(void *)&any;
  return 0;
#endif
}
EXPORT braid_cuda_result cuFuncSetAttribute(braid_cuda_function function, int attribute, int value) {
  (void)function;
  NEED_CONTEXT;
  return attribute == BRAID_CUDA_DYNAMIC_SHARED && value >= 0 && value <= kMostShared ? 0 : kInvalidValue;
}
EXPORT braid_cuda_result cuLaunchKernel(braid_cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                        braid_cuda_stream stream, void **arguments, void **extra) {
  (void)function, (void)block_y, (void)block_z, (void)shared, (void)stream, (void)arguments, (void)extra;
  NEED_CONTEXT;
  if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || !block_x || block_x > 1024) return 1;
  if (__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) == setting("FAKE_CUDA_FAIL", -1)) broken = kLaunchFailed;
  step one = {0};
#ifdef EMULATE
  one.kernel = (const emulated_function *)(const void *)function;
  memcpy(one.grid, (const unsigned[]){grid_x, grid_y, grid_z}, sizeof one.grid);
  one.block = block_x;
  one.values = emulate_copy(one.kernel, arguments);
  if (!one.values) return kOutOfMemory;
  braid_cuda_result code = take_step(stream, &one);
  if (!is_captured(stream) && !__atomic_load_n(&held, __ATOMIC_ACQUIRE)) free(one.values);
  return code;
#else
  return is_captured(stream) ? take_step(stream, &one) : 0; /* a kernel's failure shows at its end */
#endif
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static int graph_depth, graph_steps; /* of the graph that was made last */

static void drop_graph(struct CUgraph_st *graph) {
  if (--graph->references) return;
  free_steps(graph, true);
  free(graph);
}
static void take_graph(braid_cuda_graph_exec exec, struct CUgraph_st *graph) {
  exec->graph = graph;
  graph->references++;
  graph_depth = graph_steps = 0;
  for (const step *one = graph->first; one; one = one->next, graph_steps++)
    if (one->depth > graph_depth) graph_depth = one->depth;
}
static bool is_ready(const step *one) {
  for (size_t i = 0; i < one->wait_count; i++)
    if (!one->waits[i]->done) return false;
  return !one->done;
}
EXPORT braid_cuda_result cuStreamBeginCapture_v2(braid_cuda_stream stream, int mode) {
  (void)mode;
  NEED_CONTEXT;
  if (setting("FAKE_CUDA_NO_CAPTURE", 0)) return kCaptureUnsupported;
  stream->captured = calloc(1, sizeof *stream->captured);
  if (!stream->captured) return kOutOfMemory;
  stream->captured->references = 1;
  return 0;
}
EXPORT braid_cuda_result cuStreamEndCapture(braid_cuda_stream stream, braid_cuda_graph *graph) {
  *graph = stream->captured;
  stream->captured = NULL;
  return 0;
}
EXPORT braid_cuda_result cuStreamGetCaptureInfo_v2(braid_cuda_stream stream, int *capturing, uint64_t *id,
                                                   braid_cuda_graph *graph, const braid_cuda_node **last,
                                                   size_t *last_count) {
  (void)id, (void)graph;
  NEED_CONTEXT;
  *capturing = stream->captured != NULL;
  if (!stream->captured) return 0;
  *last = (const braid_cuda_node *)(const void *)stream->captured->ends;
  *last_count = stream->captured->end_count;
  return 0;
}
EXPORT braid_cuda_result cuStreamUpdateCaptureDependencies(braid_cuda_stream stream, braid_cuda_node *nodes,
                                                           size_t count, unsigned flags) {
  NEED_CONTEXT;
  if (setting("FAKE_CUDA_NO_ORDER", 0)) return kCaptureUnsupported;
  if (!stream->captured || count > kMostWaits || flags != BRAID_CUDA_CAPTURE_SET_DEPENDENCIES) return kInvalidValue;
  if (count) memcpy(stream->captured->ends, nodes, count * sizeof *nodes);
  stream->captured->end_count = count;
  return 0;
}
EXPORT braid_cuda_result cuGraphInstantiateWithFlags(braid_cuda_graph_exec *exec, braid_cuda_graph graph,
                                                     unsigned long long flags) {
  (void)flags;
  NEED_CONTEXT;
  *exec = malloc(sizeof **exec);
  if (!*exec) return kOutOfMemory;
  take_graph(*exec, graph);
  return 0;
}
EXPORT braid_cuda_result cuGraphExecUpdate_v2(braid_cuda_graph_exec exec, braid_cuda_graph graph,
                                              braid_cuda_update *result) {
  (void)result;
  if (setting("FAKE_CUDA_NO_UPDATE", 0)) return kUpdateFailure;
  drop_graph(exec->graph);
  take_graph(exec, graph);
  return 0;
}
EXPORT long fake_cuda_graphs(void) {
  return __atomic_load_n(&graphs, __ATOMIC_RELAXED);
}
EXPORT int fake_cuda_depth(void) {
  return graph_depth;
}
EXPORT int fake_cuda_steps(void) {
  return graph_steps;
}
/* Of the steps that may be next the last one is. */
EXPORT braid_cuda_result cuGraphLaunch(braid_cuda_graph_exec exec, braid_cuda_stream stream) {
  struct CUgraph_st *graph = exec->graph;
  step *one;
  __atomic_add_fetch(&graphs, 1, __ATOMIC_RELAXED);
  for (one = graph->first; one; one = one->next) one->done = false;
  for (;;) {
    for (one = graph->last; one && !is_ready(one);) one = one->before;
    if (!one) return broken;
    braid_cuda_result code = take_step(stream, one);
    if (code) return code;
    one->done = true;
  }
}
EXPORT braid_cuda_result cuGraphExecDestroy(braid_cuda_graph_exec exec) {
  drop_graph(exec->graph);
  free(exec);
  return 0;
}
EXPORT braid_cuda_result cuGraphDestroy(braid_cuda_graph graph) {
  drop_graph(graph);
  return 0;
}
#else
int fake_cuda_without_functions;
#endif
