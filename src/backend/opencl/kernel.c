#include "backend/opencl/kernel.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/arguments.h"
#include "backend/opencl/manifest.h"
#include "backend/opencl/memory.h"
#include "backend/opencl/program.h"
#include "backend/opencl/staging.h"
#include "base/try.h"
#include "launch/widened.h"

/* Memory that arguments point at: an operand, or a piece of the workspace. */
typedef struct memory_ref {
  bool workspace;
  uint32_t index;       /* operand */
  size_t offset, bytes; /* of the workspace or operand; 0 bytes: all of it */
  braid_binding seen;   /* the binding that `memory` stands for */
  uint64_t serial;      /* of its buffer */
  cl_mem memory;        /* NULL: absent */
  bool set, changed;
} memory_ref;

typedef struct memory_argument {
  uint32_t launch, position, ref;
} memory_argument;

typedef struct own_launch {
  cl_kernel kernel;
  cl_uint dimensions;
  size_t global[3], local[3];
  bool has_local, together;
} own_launch;

struct braid_cl_prepared {
  const braid_cl_api *cl;
  const braid_allocator *allocator;
  const char *name; /* the node's */
  size_t launch_count, ref_count, argument_count;
  own_launch *launches;
  cl_command_queue
      *beside; /* for launches that run together with the one before them: the queues of all but the first */
  size_t beside_count;
  memory_ref *refs;
  memory_argument *arguments;
  cl_mem fault;            /* the word that kernels put a fault into; NULL: none has one */
  cl_int *faulted;         /* what the last run has left in it */
  braid_cl_packed *packed; /* NULL: no constant is */
};

/* --- preparing -----------------------------------------------------------------------------------------------------
 */
static bool is_memory_reference(const braid_launch_argument *argument) {
  return argument->kind == BRAID_LAUNCH_OPERAND || argument->kind == BRAID_LAUNCH_WORKSPACE;
}

static uint32_t ref_of(braid_cl_prepared *own, const braid_launch_argument *argument) {
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

static cl_int set_scalar(const braid_cl_prepared *own, const braid_launch *launch, cl_kernel kernel, cl_uint position) {
  const braid_launch_argument *argument = &launch->arguments[position];
  const braid_cl_api *cl = own->cl;
  switch (argument->kind) {
  case BRAID_LAUNCH_INT:
    return cl->SetKernelArg(kernel, position, sizeof(cl_int), &(cl_int){(cl_int)argument->integer});
  case BRAID_LAUNCH_LONG:
    return cl->SetKernelArg(kernel, position, sizeof(cl_long), &(cl_long){argument->integer});
  case BRAID_LAUNCH_FLOAT:
    return cl->SetKernelArg(kernel, position, sizeof(cl_float), &(cl_float){(cl_float)argument->real});
  case BRAID_LAUNCH_NUMBER:
    return cl->SetKernelArg(kernel, position, argument->bytes, &argument->integer);
  case BRAID_LAUNCH_VECTOR:
    return cl->SetKernelArg(kernel, position, argument->bytes, launch->vectors[argument->index]);
  case BRAID_LAUNCH_LOCAL:
    return cl->SetKernelArg(kernel, position, argument->bytes, NULL);
  case BRAID_LAUNCH_FAULT:
    return cl->SetKernelArg(kernel, position, sizeof own->fault, &own->fault);
  case BRAID_LAUNCH_OPERAND:
  case BRAID_LAUNCH_WORKSPACE:
    break;
  }
  return CL_INVALID_ARG_VALUE;
}

/* No kernel of that name, or the driver's reason. */
static braid_status create_failure(const braid_cl_device *device, const braid_launch *launch, cl_program program,
                                   cl_int code) {
  char *names = code == CL_INVALID_KERNEL_NAME ? braid_cl_program_kernels(device, program) : NULL;
  if (names)
    (void)braid_fail(BRAID_NOT_FOUND, "%s: there is no kernel %s in it, only \"%.200s\"", launch->source,
                     launch->function, names);
  else
    (void)braid_fail_prefix(braid_cl_fail(code, launch->function), "%s", launch->source);
  braid_free(NULL, names);
  return BRAID_NOT_FOUND;
}

/* Numbers are set once; memory is remembered and set when a task brings it. */
static braid_status set_arguments(braid_cl_prepared *own, const braid_launch *launch, uint32_t number,
                                  cl_kernel kernel) {
  for (cl_uint i = 0; i < launch->argument_count; i++) {
    const braid_launch_argument *argument = &launch->arguments[i];
    if (is_memory_reference(argument)) {
      own->arguments[own->argument_count++] = (memory_argument){number, i, ref_of(own, argument)};
      continue;
    }
    cl_int code = set_scalar(own, launch, kernel, i);
    if (code == CL_SUCCESS) continue;
    char what[96];
    snprintf(what, sizeof what, "argument %u of %.60s", i, launch->function);
    return braid_cl_fail(code, what);
  }
  return BRAID_OK;
}

static braid_status make_launch(const braid_cl_device *device, braid_cl_prepared *own, const braid_launch *launch) {
  cl_program program;
  BRAID_TRY(braid_cl_program_get(device, launch, &program));
  cl_int code;
  cl_kernel kernel = own->cl->CreateKernel(program, launch->function, &code);
  if (!kernel) return create_failure(device, launch, program, code);
  uint32_t number = (uint32_t)own->launch_count++;
  own_launch *ours = &own->launches[number];
  *ours = (own_launch){.kernel = kernel,
                       .dimensions = launch->dimensions,
                       .has_local = launch->local[0] != 0,
                       .together = launch->together && number};
  memcpy(ours->global, launch->global, sizeof ours->global);
  memcpy(ours->local, launch->local, sizeof ours->local);
  BRAID_TRY(braid_cl_arguments_check(device, launch, kernel));
  BRAID_TRY(set_arguments(own, launch, number, kernel));
  return braid_cl_sizes_check(device, launch, kernel);
}

/* In the C library's heap, since the driver may yet write there when a device hangs. */
static braid_status make_fault(const braid_cl_device *device, braid_cl_prepared *own) {
  own->faulted = braid_zalloc(NULL, sizeof *own->faulted);
  if (!own->faulted) return BRAID_NO_MEMORY;
  cl_int code;
  own->fault = own->cl->CreateBuffer(device->shared->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                     sizeof *own->faulted, own->faulted, &code);
  return own->fault ? BRAID_OK : braid_cl_fail(code, "memory for a fault");
}

static bool has_fault(const braid_launch_recipe *recipe) {
  for (size_t i = 0; i < recipe->launch_count; i++)
    for (size_t j = 0; j < recipe->launches[i].argument_count; j++)
      if (recipe->launches[i].arguments[j].kind == BRAID_LAUNCH_FAULT) return true;
  return false;
}

/* One for each launch of the largest group but its first. */
static braid_status make_queues(const braid_cl_device *device, braid_cl_prepared *own) {
  size_t most = 0, group = 0;
  for (size_t i = 0; i < own->launch_count; i++) {
    group = own->launches[i].together ? group + 1 : 0;
    if (group > most) most = group;
  }
  if (!most) return BRAID_OK;
  own->beside = braid_zalloc_array(own->allocator, most, sizeof *own->beside);
  if (!own->beside) return BRAID_NO_MEMORY;
  while (own->beside_count < most) {
    cl_int code;
    cl_command_queue queue = own->cl->CreateCommandQueue(device->shared->context, device->id, 0, &code);
    if (!queue) return braid_cl_fail(code, "a queue for kernels that run together");
    own->beside[own->beside_count++] = queue;
  }
  return BRAID_OK;
}

static braid_status make_all(const braid_cl_device *device, braid_cl_prepared *own, const braid_launch_recipe *recipe) {
  size_t count = 0;
  if (recipe->launch_count > BRAID_LAUNCHES) return braid_fail(BRAID_INTERNAL, "a recipe of too many launches");
  for (size_t i = 0; i < recipe->launch_count; i++) {
    if (recipe->launches[i].argument_count > BRAID_LAUNCH_ARGUMENTS)
      return braid_fail(BRAID_INTERNAL, "a launch of too many arguments");
    for (size_t j = 0; j < recipe->launches[i].argument_count; j++)
      count += is_memory_reference(&recipe->launches[i].arguments[j]);
  }
  own->refs = braid_zalloc_array(own->allocator, count, sizeof *own->refs);
  own->arguments = braid_zalloc_array(own->allocator, count, sizeof *own->arguments);
  own->launches = braid_zalloc_array(own->allocator, recipe->launch_count, sizeof *own->launches);
  braid_status status = own->refs && own->arguments && own->launches ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK && has_fault(recipe)) status = make_fault(device, own);
  for (size_t i = 0; status == BRAID_OK && i < recipe->launch_count; i++) {
    const braid_launch *launch = &recipe->launches[i];
    bool empty = false;
    if (launch->dimensions < 1 || launch->dimensions > 3)
      status = braid_fail(BRAID_INTERNAL, "%s in %u dimensions", launch->function, launch->dimensions);
    for (uint32_t d = 0; d < launch->dimensions && status == BRAID_OK; d++) empty |= launch->global[d] == 0;
    if (status == BRAID_OK && !empty) status = make_launch(device, own, launch);
  }
  return status == BRAID_OK ? make_queues(device, own) : status;
}

static braid_status plan_node(const braid_cl_device *device, const braid_launch_kernel *family,
                              const braid_node_desc *node, braid_launch_recipe *recipe, braid_cl_packed *packed) {
  if (family->foreign) return braid_cl_entry_plan(family->foreign, &device->traits, node, recipe, packed);
  return braid_launch_plan(&device->traits, family, node, recipe);
}

braid_status braid_cl_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                              braid_prepared_info *info) {
  braid_cl_device *device = self;
  const braid_launch_kernel *family = kernel->implementation;
  *prepared = NULL;
  *info = (braid_prepared_info){0};
  BRAID_TRY(braid_cl_device_status(device));
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_cl_prepared *own = braid_zalloc(device->allocator, sizeof *own);
  braid_status status = own ? BRAID_OK : BRAID_NO_MEMORY;
  if (own) *own = (braid_cl_prepared){.cl = device->cl, .allocator = device->allocator, .name = node->name};
  if (status == BRAID_OK && family->foreign && node->packed) {
    own->packed = braid_zalloc(device->allocator, sizeof *own->packed);
    status = own->packed ? BRAID_OK : BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = plan_node(device, family, node, &recipe, own->packed);
  if (status == BRAID_OK) status = make_all(device, own, &recipe);
  if (status == BRAID_OK) {
    info->workspace_bytes = recipe.workspace_bytes;
    *prepared = own;
  } else {
    braid_cl_discard(device, own);
  }
  braid_launch_recipe_deinit(&recipe);
  return status;
}

/* The recipe alone: nothing is compiled. */
braid_status braid_cl_query_kernel(void *self, const braid_kernel *kernel, const braid_node_desc *node,
                                   braid_query *out) {
  const braid_cl_device *device = self;
  *out = (braid_query){0};
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_cl_packed packed = {.count = 0};
  braid_status status = plan_node(device, kernel->implementation, node, &recipe, &packed);
  out->workspace_bytes = recipe.workspace_bytes;
  out->packing_count = (uint32_t)braid_cl_list_packings(&packed, out->packings);
  braid_launch_recipe_deinit(&recipe);
  if (status == BRAID_OK || status == BRAID_NO_MEMORY) return status;
  return braid_fail_prefix(status, "node %.120s (%s), kernel %s", node->name, node->op, kernel->name);
}

void braid_cl_discard(void *self, void *prepared) {
  braid_cl_context *shared = ((braid_cl_device *)self)->shared;
  braid_cl_prepared *own = prepared;
  if (!own) return;
  for (size_t i = 0; i < own->ref_count; i++)
    if (own->refs[i].memory) braid_cl_context_drop(shared, BRAID_CL_OBJECT_MEMORY, own->refs[i].memory);
  for (size_t i = 0; i < own->launch_count; i++)
    braid_cl_context_drop(shared, BRAID_CL_OBJECT_KERNEL, own->launches[i].kernel);
  for (size_t i = 0; i < own->beside_count; i++)
    braid_cl_context_drop(shared, BRAID_CL_OBJECT_COMMANDS, own->beside[i]);
  if (own->fault) braid_cl_context_drop(shared, BRAID_CL_OBJECT_MEMORY, own->fault);
  if (own->faulted) braid_cl_context_drop(shared, BRAID_CL_OBJECT_HOST, own->faulted);
  braid_free(own->allocator, own->refs);
  braid_free(own->allocator, own->arguments);
  braid_free(own->allocator, own->launches);
  braid_free(own->allocator, own->beside);
  braid_free(own->allocator, own->packed);
  braid_free(own->allocator, own);
}

braid_status braid_cl_pack(void *self, void *prepared, uint32_t input, const void *plain, void *packed) {
  (void)self;
  return braid_cl_pack_input(((const braid_cl_prepared *)prepared)->packed, input, plain, packed);
}

/* Kernels of a bitstream are there or not: that is known only with the recipe. */
static bool is_there(const braid_cl_device *device, const braid_launch_kernel *family, const braid_node_desc *node,
                     char *why, size_t why_bytes) {
  braid_launch_recipe recipe = {.allocator = device->allocator};
  bool possible = braid_launch_plan(&device->traits, family, node, &recipe) == BRAID_OK;
  if (!possible) snprintf(why, why_bytes, "%s", braid_error_detail());
  possible = possible && braid_cl_recipe_is_possible(device, &recipe, why, why_bytes);
  braid_launch_recipe_deinit(&recipe);
  return possible;
}

bool braid_cl_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_cl_device *device = self;
  const braid_launch_kernel *family = kernel->implementation;
  if (family->foreign) return braid_cl_entry_match(family->foreign, device, node, why, why_bytes);
  if (!braid_launch_match(&device->traits, family, node, why, why_bytes)) return false;
  return !device->bitstream || is_there(device, family, node, why, why_bytes);
}

bool braid_cl_recipe_is_possible(const braid_cl_device *device, const braid_launch_recipe *recipe, char *why,
                                 size_t why_bytes) {
  for (size_t i = 0; i < recipe->launch_count; i++)
    if (!braid_cl_program_is_possible(device, &recipe->launches[i], why, why_bytes)) return false;
  return true;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static braid_binding binding_of(const memory_ref *ref, const braid_task *task) {
  braid_binding binding = task->bindings[ref->workspace ? task->input_count + task->output_count : ref->index];
  if (!ref->workspace && !ref->bytes) return binding;
  if (binding.host) binding.host = (uint8_t *)binding.host + ref->offset;
  binding.offset += ref->offset;
  binding.bytes = ref->bytes;
  return binding;
}

static bool is_absent(const braid_binding *binding) {
  return (!binding->buffer && !binding->host) || !binding->bytes;
}

static bool is_same(const braid_binding *a, const braid_binding *b) {
  return a->host == b->host && a->bytes == b->bytes && (a->host || (a->buffer == b->buffer && a->offset == b->offset));
}

/* The memory object of another argument with the same binding (an output over its input), or a new one. */
static braid_status renew_memory(const braid_cl_device *device, braid_cl_prepared *own, memory_ref *ref,
                                 const braid_binding *binding, uint64_t serial) {
  if (ref->memory) own->cl->ReleaseMemObject(ref->memory);
  ref->memory = NULL;
  ref->set = false;
  ref->seen = *binding;
  ref->serial = serial;
  for (size_t i = 0; i < own->ref_count && !is_absent(binding); i++) {
    memory_ref *other = &own->refs[i];
    if (!other->set || !other->memory || other->serial != serial || !is_same(&other->seen, binding)) continue;
    ref->memory = other->memory;
    own->cl->RetainMemObject(ref->memory);
    break;
  }
  braid_status status = BRAID_OK;
  if (!ref->memory && !is_absent(binding)) status = braid_cl_view(device, binding, &ref->memory);
  ref->set = ref->changed = status == BRAID_OK;
  return status;
}

static braid_status bind_memory(const braid_cl_device *device, braid_cl_prepared *own, const braid_task *task) {
  bool any = false;
  for (size_t i = 0; i < own->ref_count; i++) {
    memory_ref *ref = &own->refs[i];
    braid_binding binding = binding_of(ref, task);
    uint64_t serial = !binding.host && binding.buffer ? ((braid_cl_buffer *)binding.buffer)->serial : 0;
    if (ref->set && ref->serial == serial && is_same(&ref->seen, &binding)) continue;
    braid_status status = renew_memory(device, own, ref, &binding, serial);
    if (status != BRAID_OK) return status;
    any = true;
  }
  for (size_t i = 0; any && i < own->argument_count; i++) {
    const memory_argument *argument = &own->arguments[i];
    const memory_ref *ref = &own->refs[argument->ref];
    if (!ref->changed) continue;
    cl_int code = own->cl->SetKernelArg(own->launches[argument->launch].kernel, argument->position, sizeof(cl_mem),
                                        ref->memory ? &ref->memory : NULL);
    if (code != CL_SUCCESS) {
      own->refs[argument->ref].set = false;
      return braid_cl_fail(code, "an operand as argument");
    }
  }
  for (size_t i = 0; any && i < own->ref_count; i++) own->refs[i].changed = false;
  return BRAID_OK;
}

static braid_status clear_fault(braid_cl_prepared *own, cl_command_queue queue) {
  static const cl_int kNone = 0;
  if (!own->fault || !*own->faulted) return BRAID_OK;
  cl_int code = own->cl->EnqueueWriteBuffer(queue, own->fault, CL_FALSE, 0, sizeof kNone, &kNone, 0, NULL, NULL);
  if (code != CL_SUCCESS) return braid_cl_fail(code, "enqueueing a transfer");
  *own->faulted = 0;
  return BRAID_OK;
}

/* Behind the launches, the last of which is no longer the last command then. */
static braid_status read_fault(const braid_cl_prepared *own, cl_command_queue queue, cl_event *first, cl_event *last) {
  cl_event launched = *last;
  if (!own->fault || !launched) return BRAID_OK;
  cl_int code =
      own->cl->EnqueueReadBuffer(queue, own->fault, CL_FALSE, 0, sizeof *own->faulted, own->faulted, 0, NULL, last);
  if (code != CL_SUCCESS) return braid_cl_fail(code, "enqueueing a transfer");
  if (!*first)
    *first = launched;
  else
    own->cl->ReleaseEvent(launched);
  return BRAID_OK;
}

braid_status braid_cl_find_fault(const braid_task *task) {
  const braid_cl_prepared *own = task->kind == BRAID_TASK_KERNEL ? task->prepared : NULL;
  return own && own->fault && *own->faulted ? braid_fail(BRAID_OUT_OF_RANGE, "an index is out of range") : BRAID_OK;
}

static cl_int enqueue_launch(const braid_cl_prepared *own, size_t index, cl_command_queue queue, cl_uint wait_count,
                             const cl_event *waits, cl_event *event) {
  const own_launch *launch = &own->launches[index];
  return own->cl->EnqueueNDRangeKernel(queue, launch->kernel, launch->dimensions, NULL, launch->global,
                                       launch->has_local ? launch->local : NULL, wait_count, wait_count ? waits : NULL,
                                       event);
}

/* Kernels that feed each other: the first in `queue`, each of the others in a queue of its own, begun when what is
 * before them in `queue` has ended; what comes after them there waits for all. What has begun is waited for even when
 * another could not be enqueued. */
static cl_int enqueue_group(const braid_cl_prepared *own, size_t from, size_t count, cl_command_queue queue,
                            cl_uint wait_count, const cl_event *waits, cl_event *first, cl_event *last) {
  const braid_cl_api *cl = own->cl;
  cl_event ends[BRAID_CL_ENTRY_LAUNCHES], ready = NULL;
  cl_uint begun = 0;
  cl_int code = cl->EnqueueMarkerWithWaitList(queue, wait_count, wait_count ? waits : NULL, &ready);
  if (code == CL_SUCCESS) code = enqueue_launch(own, from, queue, 0, NULL, first);
  if (code == CL_SUCCESS) code = cl->Flush(queue); /* or the others might wait for what is never sent */
  for (size_t i = 1; code == CL_SUCCESS && i < count; i++) {
    code = enqueue_launch(own, from + i, own->beside[i - 1], 1, &ready, &ends[begun]);
    begun += code == CL_SUCCESS;
    if (code == CL_SUCCESS) code = cl->Flush(own->beside[i - 1]);
  }
  cl_int joined = begun ? cl->EnqueueBarrierWithWaitList(queue, begun, ends, last) : CL_SUCCESS;
  for (cl_uint i = 0; i < begun; i++) cl->ReleaseEvent(ends[i]);
  if (ready) cl->ReleaseEvent(ready);
  return code == CL_SUCCESS ? joined : code;
}

braid_status braid_cl_launch_all(braid_cl_device *device, const braid_task *task, cl_command_queue queue,
                                 const cl_event *waits, cl_uint wait_count, cl_event *first, cl_event *last) {
  braid_cl_prepared *own = task->prepared;
  *first = *last = NULL;
  braid_status status = bind_memory(device, own, task);
  if (status == BRAID_OK) status = clear_fault(own, queue);
  for (size_t i = 0, group; status == BRAID_OK && i < own->launch_count; i += group) {
    for (group = 1; i + group < own->launch_count && own->launches[i + group].together;) group++;
    cl_uint count = i == 0 ? wait_count : 0;
    bool ends = i + group == own->launch_count;
    cl_event *begin = i == 0 && task->timing ? first : NULL, *end = ends ? last : NULL;
    cl_int code = group > 1 ? enqueue_group(own, i, group, queue, count, waits, begin, end)
                            : enqueue_launch(own, i, queue, count, waits, end ? end : begin);
    if (code != CL_SUCCESS) status = braid_cl_fail(code, "enqueueing a kernel");
  }
  return status == BRAID_OK ? read_fault(own, queue, first, last) : status;
}
