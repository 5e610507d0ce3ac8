#include "backend/cuda/nccl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/compiler.h"
#include "backend/cuda/program.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/detail.h"
#include "base/fnv.h"
#include "base/library.h"
#include "base/try.h"
#include "braid/group.h"
#include "launch/planner.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 * As NVIDIA's "NCCL API" has it. */
typedef int nccl_code;
typedef void *nccl_communicator;

typedef struct nccl_id { /* ncclUniqueId */
  char bytes[128];
} nccl_id;

enum {
  kInt32 = 2, /* ncclDataType_t */
  kInt64 = 4,
  kFloat32 = 7,
  kFloat64 = 8,
  kSum = 0, /* ncclRedOp_t */
  kMax = 2,
  kInProgress = 7, /* ncclResult_t */
};

typedef struct nccl_api {
  const char *(*error_text)(nccl_code code);
  nccl_code (*make_id)(nccl_id *id);
  nccl_code (*join)(nccl_communicator *out, int size, nccl_id id, int rank);
  nccl_code (*abort)(nccl_communicator communicator);
  nccl_code (*asynchronous)(nccl_communicator communicator, nccl_code *code);
  nccl_code (*group_start)(void);
  nccl_code (*group_end)(void);
  nccl_code (*all_reduce)(const void *from, void *to, size_t count, int type, int reduction,
                          nccl_communicator communicator, braid_cuda_stream stream);
  nccl_code (*all_gather)(const void *from, void *to, size_t count, int type, nccl_communicator communicator,
                          braid_cuda_stream stream);
} nccl_api;

enum { kWhyBytes = 200 };

struct braid_cuda_nccl {
  nccl_api api;
  struct braid_group *group;
  pthread_mutex_t lock; /* of joining, which the first AllReduce that is looked at begins */
  bool tried;
  nccl_communicator communicator; /* NULL: there is none; why says so */
  char why[kWhyBytes];
  uint64_t watched_ns;      /* atomic: when it was last asked how things are */
  braid_cuda_stream stream; /* atomic: of the queue for collectives; NULL: none was enqueued */
};

static bool nccl_find_functions(void *library, nccl_api *api) {
  const braid_library_function functions[] = {
      {"ncclGetErrorString", &api->error_text},
      {"ncclGetUniqueId", &api->make_id},
      {"ncclCommInitRank", &api->join},
      {"ncclCommAbort", &api->abort},
      {"ncclCommGetAsyncError", &api->asynchronous},
      {"ncclGroupStart", &api->group_start},
      {"ncclGroupEnd", &api->group_end},
      {"ncclAllReduce", &api->all_reduce},
      {"ncclAllGather", &api->all_gather},
  };
  return !braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
}

static braid_status fail_nccl(const braid_cuda_nccl *nccl, nccl_code code, const char *what) {
  return braid_fail(code == 1 ? BRAID_DEVICE_LOST : BRAID_INTERNAL, "NCCL, %s: %s", what, nccl->api.error_text(code));
}

/* The library stays: its threads may be about. */
static braid_status open_library(braid_cuda_nccl *nccl) {
  char why[160];
  void *library = braid_library_open("libnccl.so.2", why, sizeof why);
  if (!library) return braid_fail(BRAID_NOT_FOUND, "there is no libnccl.so.2: %s", why);
  if (!nccl_find_functions(library, &nccl->api)) return braid_fail(BRAID_UNSUPPORTED, "libnccl.so.2 lacks a function");
  return BRAID_OK;
}

/* --- joining -------------------------------------------------------------------------------------------------------
 */
/* The same for two processes that have one card of one machine, never 0. */
static int64_t number_of_card(const braid_cuda_device *device) {
  char text[320] = "", host[256] = "";
  int place[3] = {0};
  (void)gethostname(host, sizeof host - 1);
  (void)device->cuda->device_attribute(&place[0], BRAID_CUDA_PCI_DOMAIN, device->id);
  (void)device->cuda->device_attribute(&place[1], BRAID_CUDA_PCI_BUS, device->id);
  (void)device->cuda->device_attribute(&place[2], BRAID_CUDA_PCI_DEVICE, device->id);
  int length = snprintf(text, sizeof text, "%s %d %d %d", host, place[0], place[1], place[2]);
  return (int64_t)(braid_fnv_mix(BRAID_FNV_START, text, (size_t)length) >> 2 | 1);
}

/* NCCL takes a card from one process alone, and may wait for ever where it gets one from two. */
static braid_status check_cards(const braid_cuda_device *device, struct braid_group *group) {
  size_t size = (size_t)braid_group_size(group);
  int64_t *cards = braid_zalloc_array(NULL, size, sizeof *cards);
  braid_status status = braid_group_agree(group, cards ? BRAID_OK : BRAID_NO_MEMORY);
  if (status == BRAID_OK) {
    cards[braid_group_rank(group)] = number_of_card(device);
    status = braid_group_all_reduce(group, cards, size, BRAID_I64, BRAID_REDUCE_MAX);
  }
  for (size_t i = 0; status == BRAID_OK && i < size; i++)
    for (size_t k = 0; status == BRAID_OK && k < i; k++)
      if (cards[i] == cards[k])
        status = braid_fail(BRAID_UNSUPPORTED,
                            "processes %zu and %zu have the same card, and NCCL wants one for each (--device cuda "
                            "gives each process its own)",
                            k, i);
  braid_free(NULL, cards);
  return status;
}

/* By what process 0 calls the group. */
static braid_status name_group(const braid_cuda_nccl *nccl, nccl_id *id) {
  nccl_code code = braid_group_rank(nccl->group) ? 0 : nccl->api.make_id(id);
  if (code) return fail_nccl(nccl, code, "naming the group");
  return BRAID_OK;
}

static braid_status join_cards(braid_cuda_nccl *nccl, nccl_id id) {
  BRAID_TRY(braid_group_broadcast(nccl->group, &id, sizeof id, 0));
  nccl_code code =
      nccl->api.join(&nccl->communicator, braid_group_size(nccl->group), id, braid_group_rank(nccl->group));
  if (code) nccl->communicator = NULL;
  return code ? fail_nccl(nccl, code, "joining the cards") : BRAID_OK;
}

/* Whether the step went well in all processes; where it did not, `nccl` says why in one that knows. */
static bool all_well(braid_cuda_nccl *nccl, braid_status status) {
  int32_t failed = status != BRAID_OK;
  if (failed && !nccl->why[0]) snprintf(nccl->why, sizeof nccl->why, "%s", braid_error_detail());
  if (braid_group_all_reduce(nccl->group, &failed, 1, BRAID_I32, BRAID_REDUCE_MAX) != BRAID_OK) failed = 1;
  if (failed && !nccl->why[0]) snprintf(nccl->why, sizeof nccl->why, "NCCL failed in another process");
  braid_clear_detail();
  return !failed;
}

/* A process that has failed before it came here says so at this place. */
static void join_group(braid_cuda_device *device) {
  braid_cuda_nccl *nccl = device->nccl;
  nccl->tried = true;
  if (braid_group_agree(nccl->group, BRAID_OK) != BRAID_OK) {
    snprintf(nccl->why, sizeof nccl->why, "%s", braid_error_detail());
    return;
  }
  nccl_id id = {{0}};
  braid_cuda_enter(device);
  bool ready = all_well(nccl, open_library(nccl)) && all_well(nccl, check_cards(device, nccl->group)) &&
               all_well(nccl, name_group(nccl, &id)); /* one that fails would leave the others waiting in NCCL */
  if (ready && !all_well(nccl, join_cards(nccl, id)) && nccl->communicator) {
    (void)nccl->api.abort(nccl->communicator);
    nccl->communicator = NULL;
  }
  braid_cuda_leave(device);
}

void braid_cuda_set_group(void *self, struct braid_group *group) {
  braid_cuda_device *device = self;
  if (braid_group_size(group) < 2) return;
  device->nccl = braid_zalloc(NULL, sizeof *device->nccl);
  if (!device->nccl) return;
  device->nccl->group = group;
  pthread_mutex_init(&device->nccl->lock, NULL);
}

void braid_cuda_nccl_close(braid_cuda_device *device) {
  if (!device->nccl) return;
  /* ncclCommDestroy would wait for the other processes, who may be waiting for this one. */
  if (device->nccl->communicator) (void)device->nccl->api.abort(device->nccl->communicator);
  pthread_mutex_destroy(&device->nccl->lock);
  braid_free(NULL, device->nccl);
  device->nccl = NULL;
}

/* --- waiting -------------------------------------------------------------------------------------------------------
 */
void braid_cuda_nccl_watch(braid_cuda_device *device, braid_cuda_stream stream) {
  static const uint64_t kPauseNs = 100000000;
  braid_cuda_nccl *nccl = device->nccl;
  nccl_code code = 0;
  if (!nccl || !nccl->communicator || __atomic_load_n(&nccl->stream, __ATOMIC_ACQUIRE) != stream) return;
  uint64_t now = (uint64_t)braid_now_ns(), last = __atomic_load_n(&nccl->watched_ns, __ATOMIC_RELAXED);
  if (now - last < kPauseNs) return;
  if (!__atomic_compare_exchange_n(&nccl->watched_ns, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  bool failed = nccl->api.asynchronous(nccl->communicator, &code) || (code && code != kInProgress);
  if (!failed && !braid_group_gives_up(nccl->group)) return;
  braid_log_write(device->log, BRAID_LOG_WARNING, "%s: %s", device->info.name,
                  failed ? nccl->api.error_text(code) : "the other processes' cards do not answer");
  braid_cuda_device_lose(device);
}

/* --- the kernel ----------------------------------------------------------------------------------------------------
 */
typedef struct nccl_state {
  size_t count; /* operands */
  size_t elements[BRAID_CUDA_OPERANDS / 2];
  int type, reduction;
  size_t element_bytes;
  braid_cuda_function join; /* of bitwise or, which NCCL has not: all processes' operands, joined; NULL: not needed */
} nccl_state;

enum { kGroup = 256 };

static bool is_or(const braid_node_desc *node) {
  return braid_attr_string(node->attrs, "reduction", "sum")[0] == 'o';
}

static int type_of(braid_dtype dtype) {
  switch (dtype) {
  case BRAID_I32:
    return kInt32;
  case BRAID_I64:
    return kInt64;
  case BRAID_F32:
    return kFloat32;
  default:
    return kFloat64;
  }
}

static bool nccl_match(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!device->nccl) return braid_launch_refuse(why, why_bytes, "there are no other processes");
  pthread_mutex_lock(&device->nccl->lock);
  if (!device->nccl->tried) join_group((braid_cuda_device *)device);
  pthread_mutex_unlock(&device->nccl->lock);
  if (!device->nccl->communicator) return braid_launch_refuse(why, why_bytes, "%s", device->nccl->why);
  for (size_t i = 0; i < node->input_count; i++)
    if (node->outputs[i].desc.dtype == BRAID_NONE)
      return braid_launch_refuse(why, why_bytes, "a sum that nobody takes");
  if (node->input_count > BRAID_CUDA_OPERANDS / 2)
    return braid_launch_refuse(why, why_bytes, "more than %d operands", BRAID_CUDA_OPERANDS / 2);
  if (is_or(node) && braid_cuda_compiler_check(device->capability) != BRAID_OK) {
    snprintf(why, why_bytes, "%s", braid_error_detail());
    return false;
  }
  return true;
}

/* Any order of elements, the same behind as before. */
static void nccl_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++) outputs[i] = inputs[i];
}

static size_t operand_bytes(const braid_node_desc *node, size_t i) {
  return braid_desc_bytes(&node->inputs[i].desc);
}

/* Room for all processes' operands, one behind the other. */
static braid_status gathered_bytes(const braid_cuda_device *device, const braid_node_desc *node, size_t *bytes) {
  size_t all = 0, size = (size_t)braid_group_size(device->nccl->group);
  for (size_t i = 0; i < node->input_count; i++) {
    size_t rows;
    if (!braid_mul_size(operand_bytes(node, i), size, &rows) || !braid_add_size(all, rows, &all))
      return braid_fail(BRAID_OUT_OF_RANGE, "its operands together overflow");
  }
  *bytes = all;
  return BRAID_OK;
}

static braid_status nccl_prepare(braid_cuda_device *device, const braid_node_desc *node, void **out,
                                 size_t *workspace_bytes) {
  braid_dtype dtype = node->inputs[0].desc.dtype;
  nccl_state *state = braid_zalloc(device->allocator, sizeof *state);
  *out = state;
  if (!state) return BRAID_NO_MEMORY;
  *state = (nccl_state){.count = node->input_count,
                        .type = type_of(dtype),
                        .reduction = braid_attr_string(node->attrs, "reduction", "sum")[0] == 's' ? kSum : kMax,
                        .element_bytes = braid_dtype_size(dtype)};
  for (size_t i = 0; i < node->input_count; i++) state->elements[i] = operand_bytes(node, i) / state->element_bytes;
  if (!is_or(node)) return BRAID_OK;
  BRAID_TRY(gathered_bytes(device, node, workspace_bytes));
  braid_launch *launch = braid_zalloc(device->allocator, sizeof *launch);
  if (!launch) return BRAID_NO_MEMORY;
  launch->source = "group";
  launch->function = dtype == BRAID_I32 ? "join_ints" : "join_longs";
  snprintf(launch->options, sizeof launch->options, "-DGROUP=%d", kGroup);
  braid_status status = braid_cuda_program_find(device, launch, "", &state->join);
  braid_free(device->allocator, launch);
  return status;
}

static void nccl_discard(const braid_cuda_device *device, void *state) {
  braid_free(device->allocator, state);
}

static const void *pointer_of(braid_cuda_address address) {
  return (const void *)(uintptr_t)address;
}

/* One message for all operands: NCCL puts together what is between the start and the end of a group. */
static nccl_code reduce_all(const braid_cuda_nccl *nccl, const nccl_state *state, const braid_cuda_call *call) {
  nccl_code code = nccl->api.group_start(), ended;
  if (code) return code;
  for (size_t i = 0; !code && i < state->count; i++) {
    braid_cuda_address to = call->operands[state->count + i];
    if (!state->elements[i]) continue;
    code = nccl->api.all_reduce(pointer_of(call->operands[i]), (void *)(uintptr_t)to, state->elements[i], state->type,
                                state->reduction, nccl->communicator, call->stream);
  }
  ended = nccl->api.group_end();
  return code ? code : ended;
}

static nccl_code gather_all(const braid_cuda_nccl *nccl, const nccl_state *state, const braid_cuda_call *call) {
  size_t size = (size_t)braid_group_size(nccl->group), offset = 0;
  nccl_code code = nccl->api.group_start(), ended;
  if (code) return code;
  for (size_t i = 0; !code && i < state->count; i++) {
    if (!state->elements[i]) continue;
    code = nccl->api.all_gather(pointer_of(call->operands[i]), (void *)(uintptr_t)(call->workspace + offset),
                                state->elements[i], state->type, nccl->communicator, call->stream);
    offset += state->elements[i] * state->element_bytes * size;
  }
  ended = nccl->api.group_end();
  return code ? code : ended;
}

static braid_status join_all(const braid_cuda_device *device, const nccl_state *state, const braid_cuda_call *call) {
  braid_cuda_address from = call->workspace;
  int32_t rows = braid_group_size(device->nccl->group);
  for (size_t i = 0; i < state->count; i++) {
    int64_t count = (int64_t)state->elements[i];
    braid_cuda_address to = call->operands[state->count + i];
    void *arguments[] = {&from, &to, &count, &rows};
    size_t groups = ((size_t)count + kGroup - 1) / kGroup;
    if (!count) continue;
    BRAID_CUDA_TRY(
        device->cuda->launch(state->join, (unsigned)groups, 1, 1, kGroup, 1, 1, 0, call->stream, arguments, NULL),
        "launching a kernel");
    from += (size_t)count * state->element_bytes * (size_t)rows;
  }
  return BRAID_OK;
}

static braid_status nccl_enqueue(braid_cuda_device *device, void *which, const braid_cuda_call *call) {
  const nccl_state *state = which;
  __atomic_store_n(&device->nccl->stream, call->stream, __ATOMIC_RELEASE);
  nccl_code code = state->join ? gather_all(device->nccl, state, call) : reduce_all(device->nccl, state, call);
  if (code) return fail_nccl(device->nccl, code, "reducing over the cards");
  return state->join ? join_all(device, state, call) : BRAID_OK;
}

static const braid_cuda_library_kernel kNccl = {
    .match = nccl_match, .prepare = nccl_prepare, .discard = nccl_discard, .enqueue = nccl_enqueue};
static const braid_launch_kernel kAllReduce = {.foreign = &kNccl};
static const braid_kernel kKernels[] = {
    {.op = "AllReduce",
     .name = "nccl_all_reduce",
     .layouts = nccl_layouts,
     .in_place = 1u << 0,
     .implementation = &kAllReduce},
};
const braid_launch_family braid_cuda_nccl_family = {kKernels, sizeof kKernels / sizeof *kKernels, false};
