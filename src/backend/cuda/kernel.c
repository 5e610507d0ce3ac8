#include "backend/cuda/kernel.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/compiler.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/program.h"
#include "base/try.h"
#include "launch/planner.h"
#include "launch/widened.h"

/* CUDA counts that many groups in the second and third dimension, and more than any memory holds in the first. */
static const size_t kMostGroups = 65535, kMostFirst = 0x7fffffff;

/* Memory that arguments point at: an operand, or a piece of the workspace. */
typedef struct memory_ref {
  bool workspace;
  uint32_t index;       /* operand */
  size_t offset, bytes; /* of the workspace or operand; 0 bytes: all of it */
} memory_ref;

/* Of one launch, in the kernel's order. */
typedef struct own_argument {
  enum { kValue, kMemory, kFault } kind;
  uint64_t value; /* its first bytes */
  uint32_t ref;
} own_argument;

typedef struct own_launch {
  braid_cuda_function function;
  unsigned grid[3], block, shared_bytes;
  size_t first, count; /* arguments */
} own_launch;

typedef struct braid_cuda_prepared {
  const braid_allocator *allocator;
  const braid_cuda_library_kernel *library; /* NULL: launches */
  void *state;                              /* the library's */
  size_t workspace_bytes;
  size_t launch_count, ref_count, argument_count;
  own_launch *launches;
  memory_ref *refs;
  own_argument *arguments;
  bool faults;
} braid_cuda_prepared;

/* --- preparing -----------------------------------------------------------------------------------------------------
 */
static uint32_t ref_of(braid_cuda_prepared *own, const braid_launch_argument *argument) {
  memory_ref ref = {
      .workspace = argument->kind == BRAID_LAUNCH_WORKSPACE, .offset = argument->offset, .bytes = argument->bytes};
  if (!ref.workspace) ref.index = argument->index;
  for (uint32_t i = 0; i < own->ref_count; i++) {
    const memory_ref *other = &own->refs[i];
    if (other->workspace == ref.workspace && other->index == ref.index && other->offset == ref.offset &&
        other->bytes == ref.bytes)
      return i;
  }
  own->refs[own->ref_count] = ref;
  return (uint32_t)own->ref_count++;
}

static braid_status add_argument(braid_cuda_prepared *own, const braid_launch *launch,
                                 const braid_launch_argument *argument) {
  own_argument *out = &own->arguments[own->argument_count++];
  float real = (float)argument->real;
  *out = (own_argument){.kind = kValue};
  switch (argument->kind) {
  case BRAID_LAUNCH_OPERAND:
  case BRAID_LAUNCH_WORKSPACE:
    out->kind = kMemory;
    out->ref = ref_of(own, argument);
    return BRAID_OK;
  case BRAID_LAUNCH_INT:
    memcpy(&out->value, &(int32_t){(int32_t)argument->integer}, sizeof(int32_t));
    return BRAID_OK;
  case BRAID_LAUNCH_LONG:
  case BRAID_LAUNCH_NUMBER:
    memcpy(&out->value, &argument->integer, sizeof out->value);
    return BRAID_OK;
  case BRAID_LAUNCH_FLOAT:
    memcpy(&out->value, &real, sizeof real);
    return BRAID_OK;
  case BRAID_LAUNCH_FAULT:
    out->kind = kFault;
    own->faults = true;
    return BRAID_OK;
  case BRAID_LAUNCH_VECTOR:
  case BRAID_LAUNCH_LOCAL:
    break;
  }
  return braid_fail(BRAID_INTERNAL, "%s takes an argument that is for kernels of manifests", launch->function);
}

/* Where the choice is the driver's: whole groups of so many work-items. */
static size_t free_group(size_t items) {
  size_t group = 256;
  while (items % group) group /= 2;
  return group;
}

/* Groups in each dimension, all in the first where CUDA does not count that many in the others; `options` then tells
 * the kernel. */
static braid_status size_launch(const braid_cuda_device *device, const braid_launch *launch, own_launch *out,
                                char options[64]) {
  size_t groups[3] = {1, 1, 1}, first = launch->local[0] ? launch->local[0] : free_group(launch->global[0]);
  options[0] = '\0';
  for (uint32_t i = 0; i < launch->dimensions; i++) {
    size_t local = i ? launch->local[0] ? launch->local[i] : 1 : first;
    if (!local || launch->global[i] % local || (i && local != 1))
      return braid_fail(BRAID_INTERNAL, "%s: %zu work-items of dimension %u in groups of %zu", launch->function,
                        launch->global[i], i, local);
    groups[i] = launch->global[i] / local;
  }
  if (first > device->traits.max_group)
    return braid_fail(BRAID_UNSUPPORTED, "%s: groups of %zu work-items, the device takes %zu", launch->function, first,
                      device->traits.max_group);
  if (groups[1] > kMostGroups || groups[2] > kMostGroups) {
    snprintf(options, 64, " -DGRID_Y=%zu -DGRID_Z=%zu", groups[1], groups[2]);
    if (groups[1] > kMostFirst || groups[2] > kMostFirst || groups[1] * groups[2] > kMostFirst) groups[0] = SIZE_MAX;
    if (groups[0] <= kMostFirst) groups[0] *= groups[1] * groups[2];
    groups[1] = groups[2] = 1;
  }
  if (groups[0] > kMostFirst)
    return braid_fail(BRAID_UNSUPPORTED, "%s: more groups of work-items than CUDA counts", launch->function);
  for (int i = 0; i < 3; i++) out->grid[i] = (unsigned)groups[i];
  out->block = (unsigned)first;
  return BRAID_OK;
}

/* More local memory than every card has must be asked for. */
static braid_status allow_shared(const braid_cuda_device *device, const own_launch *launch) {
  if (!launch->shared_bytes) return BRAID_OK;
  braid_cuda_enter(device);
  braid_cuda_result code =
      device->cuda->function_set(launch->function, BRAID_CUDA_DYNAMIC_SHARED, (int)launch->shared_bytes);
  braid_cuda_leave(device);
  return code ? braid_cuda_fail(code, "local memory of a kernel") : BRAID_OK;
}

static braid_status make_launch(braid_cuda_device *device, braid_cuda_prepared *own, const braid_launch *launch) {
  own_launch *out = &own->launches[own->launch_count];
  char options[64];
  *out = (own_launch){.first = own->argument_count, .count = launch->argument_count};
  BRAID_TRY(size_launch(device, launch, out, options));
  for (size_t i = 0; i < launch->argument_count; i++) BRAID_TRY(add_argument(own, launch, &launch->arguments[i]));
  BRAID_TRY(braid_cuda_program_find(device, launch, options, &out->function));
  out->shared_bytes = (unsigned)launch->local_bytes;
  BRAID_TRY(allow_shared(device, out));
  own->launch_count++;
  return BRAID_OK;
}

static bool is_empty(const braid_launch *launch) {
  for (uint32_t i = 0; i < launch->dimensions; i++)
    if (!launch->global[i]) return true;
  return false;
}

static braid_status make_all(braid_cuda_device *device, braid_cuda_prepared *own, const braid_launch_recipe *recipe) {
  size_t count = 0;
  for (size_t i = 0; i < recipe->launch_count; i++) count += recipe->launches[i].argument_count;
  own->refs = braid_zalloc_array(own->allocator, count + 1, sizeof *own->refs);
  own->arguments = braid_zalloc_array(own->allocator, count + 1, sizeof *own->arguments);
  own->launches = braid_zalloc_array(own->allocator, recipe->launch_count + 1, sizeof *own->launches);
  if (!own->refs || !own->arguments || !own->launches) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < recipe->launch_count; i++)
    if (!is_empty(&recipe->launches[i])) BRAID_TRY(make_launch(device, own, &recipe->launches[i]));
  return BRAID_OK;
}

static braid_status plan_and_make(braid_cuda_device *device, braid_cuda_prepared *own,
                                  const braid_launch_kernel *family, const braid_node_desc *node) {
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_status status = braid_launch_plan(&device->traits, family, node, &recipe);
  if (status == BRAID_OK) status = make_all(device, own, &recipe);
  own->workspace_bytes = recipe.workspace_bytes;
  braid_launch_recipe_deinit(&recipe);
  return status;
}

braid_status braid_cuda_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                                braid_prepared_info *info) {
  braid_cuda_device *device = self;
  const braid_launch_kernel *family = kernel->implementation;
  *prepared = NULL;
  *info = (braid_prepared_info){0};
  BRAID_TRY(braid_cuda_device_status(device));
  braid_cuda_prepared *own = braid_zalloc(device->allocator, sizeof *own);
  if (!own) return BRAID_NO_MEMORY;
  own->allocator = device->allocator;
  own->library = family->foreign;
  braid_status status = own->library ? own->library->prepare(device, node, &own->state, &own->workspace_bytes)
                                     : plan_and_make(device, own, family, node);
  if (status == BRAID_OK) {
    info->workspace_bytes = own->workspace_bytes;
    *prepared = own;
  } else {
    braid_cuda_discard(device, own);
  }
  return status;
}

/* The recipe alone: nothing is compiled. */
static braid_status query_recipe(const braid_cuda_device *device, const braid_launch_kernel *family,
                                 const braid_node_desc *node, size_t *workspace_bytes) {
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_status status = braid_launch_plan(&device->traits, family, node, &recipe);
  *workspace_bytes = recipe.workspace_bytes;
  braid_launch_recipe_deinit(&recipe);
  return status;
}

static braid_status query_library(braid_cuda_device *device, const braid_cuda_library_kernel *library,
                                  const braid_node_desc *node, size_t *workspace_bytes) {
  void *state = NULL;
  braid_status status = library->prepare(device, node, &state, workspace_bytes);
  if (state) library->discard(device, state);
  return status;
}

braid_status braid_cuda_query_kernel(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                     braid_query *out) {
  braid_cuda_device *device = self;
  const braid_launch_kernel *family = kernel->implementation;
  *out = (braid_query){0};
  braid_status status = family->foreign ? query_library(device, family->foreign, node, &out->workspace_bytes)
                                        : query_recipe(device, family, node, &out->workspace_bytes);
  if (status == BRAID_OK || status == BRAID_NO_MEMORY) return status;
  return braid_fail_prefix(status, "node %.120s (%s), kernel %s", node->name, node->op, kernel->name);
}

void braid_cuda_discard(void *self, void *prepared) {
  braid_cuda_prepared *own = prepared;
  if (!own) return;
  if (own->state) own->library->discard(self, own->state);
  braid_free(own->allocator, own->refs);
  braid_free(own->allocator, own->arguments);
  braid_free(own->allocator, own->launches);
  braid_free(own->allocator, own);
}

bool braid_cuda_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why,
                      size_t why_bytes) {
  const braid_cuda_device *device = self;
  const braid_launch_kernel *family = kernel->implementation;
  if (family->foreign) return ((const braid_cuda_library_kernel *)family->foreign)->match(device, node, why, why_bytes);
  if (braid_cuda_compiler_check(device->capability) != BRAID_OK) {
    snprintf(why, why_bytes, "%s", braid_error_detail());
    return false;
  }
  /* Apart they are the libraries' kernels, which read 16 bits. */
  if (family->widens && strncmp(node->op, "Fused", 5) == 0 && (device->dnn || device->blas))
    return braid_launch_refuse(why, why_bytes, "its parts are faster, by cuDNN and cuBLASLt");
  return braid_launch_match(&device->traits, family, node, why, why_bytes);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static const braid_binding *workspace_of(const braid_task *task) {
  return &task->bindings[task->input_count + task->output_count];
}

/* Inputs are read, all else may be written. */
static braid_status locate(const braid_binding *binding, bool writes, braid_cuda_touch *out) {
  BRAID_TRY(braid_cuda_locate(binding, &out->first));
  out->end = out->first ? out->first + binding->bytes : 0;
  out->writes = writes;
  return BRAID_OK;
}

static braid_status locate_ref(const memory_ref *ref, const braid_task *task, braid_cuda_touch *out) {
  braid_binding binding = ref->workspace ? *workspace_of(task) : task->bindings[ref->index];
  if (ref->bytes) {
    binding.offset += ref->offset;
    binding.bytes = ref->bytes;
  }
  return locate(&binding, ref->workspace || ref->index >= task->input_count, out);
}

static braid_status call_library(braid_cuda_device *device, const braid_cuda_prepared *own, const braid_task *task,
                                 braid_cuda_stream stream, braid_cuda_overlap *overlap) {
  braid_cuda_call call = {.stream = stream, .input_count = task->input_count, .workspace_bytes = own->workspace_bytes};
  size_t count = task->input_count + task->output_count;
  braid_cuda_touch touches[BRAID_CUDA_OPERANDS + 1] = {0};
  if (count > BRAID_CUDA_OPERANDS) return braid_fail(BRAID_INTERNAL, "%s: too many operands", task->label);
  for (size_t i = 0; i < count; i++) {
    BRAID_TRY(locate(&task->bindings[i], i >= task->input_count, &touches[i]));
    call.operands[i] = touches[i].first;
  }
  if (own->workspace_bytes) {
    braid_binding workspace = *workspace_of(task);
    if (workspace.bytes < own->workspace_bytes) workspace.bytes = own->workspace_bytes;
    BRAID_TRY(locate(&workspace, true, &touches[count]));
    call.workspace = touches[count].first;
  }
  if (overlap) BRAID_TRY(braid_cuda_overlap_begin(overlap, touches, count + 1, true));
  BRAID_TRY(own->library->enqueue(device, own->state, &call));
  return overlap ? braid_cuda_overlap_end(overlap) : BRAID_OK;
}

static braid_status begin_launch(const braid_cuda_prepared *own, const own_launch *launch,
                                 const braid_cuda_touch *located, braid_cuda_overlap *overlap) {
  braid_cuda_touch touches[BRAID_LAUNCH_ARGUMENTS];
  size_t count = 0;
  for (size_t i = 0; i < launch->count; i++) {
    const own_argument *argument = &own->arguments[launch->first + i];
    if (argument->kind == kMemory) touches[count++] = located[argument->ref];
  }
  return braid_cuda_overlap_begin(overlap, touches, count, false);
}

/* The driver takes over the arguments' values when it is called. */
static braid_cuda_result enqueue_launch(const braid_cuda_device *device, const braid_cuda_prepared *own,
                                        const own_launch *launch, const braid_cuda_touch *located,
                                        braid_cuda_stream stream, braid_cuda_address fault) {
  uint64_t values[BRAID_LAUNCH_ARGUMENTS];
  void *pointers[BRAID_LAUNCH_ARGUMENTS];
  for (size_t i = 0; i < launch->count; i++) {
    const own_argument *argument = &own->arguments[launch->first + i];
    values[i] = argument->kind == kValue    ? argument->value
                : argument->kind == kMemory ? located[argument->ref].first
                                            : fault;
    pointers[i] = &values[i];
  }
  return device->cuda->launch(launch->function, launch->grid[0], launch->grid[1], launch->grid[2], launch->block, 1, 1,
                              launch->shared_bytes, stream, pointers, NULL);
}

enum { kRefsAtOnce = 64 };

braid_status braid_cuda_launch_all(braid_cuda_device *device, const braid_task *task, braid_cuda_stream stream,
                                   braid_cuda_address fault, braid_cuda_overlap *overlap) {
  const braid_cuda_prepared *own = task->prepared;
  braid_cuda_touch few[kRefsAtOnce], *located = few;
  if (own->library) return call_library(device, own, task, stream, overlap);
  if (own->ref_count > kRefsAtOnce) located = braid_zalloc_array(NULL, own->ref_count, sizeof *located);
  if (!located) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < own->ref_count; i++)
    status = locate_ref(&own->refs[i], task, &located[i]);
  for (size_t i = 0; status == BRAID_OK && i < own->launch_count; i++) {
    const own_launch *launch = &own->launches[i];
    if (overlap) status = begin_launch(own, launch, located, overlap);
    braid_cuda_result code = status == BRAID_OK ? enqueue_launch(device, own, launch, located, stream, fault) : 0;
    if (code) status = braid_cuda_fail(code, "launching a kernel");
    if (overlap && status == BRAID_OK) status = braid_cuda_overlap_end(overlap);
  }
  if (located != few) braid_free(NULL, located);
  return status;
}

bool braid_cuda_may_fault(const braid_task *task) {
  return task->kind == BRAID_TASK_KERNEL && ((const braid_cuda_prepared *)task->prepared)->faults;
}
