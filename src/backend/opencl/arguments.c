#include "backend/opencl/arguments.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "launch/planner.h"

/* A mistake in a recipe is its family's, or the manifest's. */
static braid_status mistake_of(const braid_launch *launch) {
  return launch->module ? BRAID_INVALID_FILE : BRAID_INTERNAL;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
enum { kTypeBytes = 64 };

typedef struct scalar_type {
  const char *name, *other;
  size_t bytes;
  bool is_float;
} scalar_type;

static const scalar_type kScalars[] = {
    {"char", "signed char", 1, false},   {"uchar", "unsigned char", 1, false},
    {"short", "signed short", 2, false}, {"ushort", "unsigned short", 2, false},
    {"int", "signed int", 4, false},     {"uint", "unsigned int", 4, false},
    {"long", "signed long", 8, false},   {"ulong", "unsigned long", 8, false},
    {"bool", "_Bool", 1, false},         {"half", "__fp16", 2, true},
    {"float", "float", 4, true},         {"double", "double", 8, true},
};

/* What the driver says of one argument. */
typedef struct parameter {
  char type[kTypeBytes]; /* "float4*"; of pointers the type that is pointed at is in `element` */
  cl_kernel_arg_address_qualifier space;
  bool pointer;
  uint32_t lanes;             /* of a vector; else 1 */
  const scalar_type *element; /* NULL: a type of the text's own */
} parameter;

/* The scalar type of "float", "float4", "unsigned int": the first `length` characters of a type. */
static const scalar_type *find_scalar(const char *type, size_t length, uint32_t *lanes) {
  while (length && type[length - 1] == ' ') length--;
  size_t base = length;
  while (base && isdigit((unsigned char)type[base - 1])) base--;
  *lanes = base < length ? (uint32_t)strtoul(type + base, NULL, 10) : 1;
  for (size_t i = 0; i < sizeof kScalars / sizeof *kScalars; i++)
    for (int other = 0; other < 2; other++) {
      const char *name = other ? kScalars[i].other : kScalars[i].name;
      if (strlen(name) == base && memcmp(name, type, base) == 0) return &kScalars[i];
    }
  return NULL;
}

/* False: the driver does not say. */
static bool ask_argument(const braid_cl_device *device, cl_kernel kernel, cl_uint index, parameter *out) {
  const braid_cl_api *cl = device->cl;
  *out = (parameter){.type = ""};
  if (cl->GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof out->space, &out->space, NULL) !=
          CL_SUCCESS ||
      cl->GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_NAME, sizeof out->type - 1, out->type, NULL) != CL_SUCCESS)
    return false;
  size_t length = strcspn(out->type, "*");
  out->pointer = out->type[length] == '*';
  out->element = find_scalar(out->type, length, &out->lanes);
  return out->type[0] != '\0';
}

/* --- kinds ---------------------------------------------------------------------------------------------------------
 */
/* As OpenCL C calls it. */
static const char *given_name(const braid_launch_argument *argument, char scratch[kTypeBytes]) {
  const char *number = argument->element == BRAID_F64 ? "double" : braid_launch_type(argument->element);
  switch (argument->kind) {
  case BRAID_LAUNCH_OPERAND:
  case BRAID_LAUNCH_WORKSPACE:
    return argument->element != BRAID_NONE ? braid_dtype_name(argument->element) : "workspace";
  case BRAID_LAUNCH_INT:
    return "int";
  case BRAID_LAUNCH_LONG:
    return "long";
  case BRAID_LAUNCH_FLOAT:
    return "float";
  case BRAID_LAUNCH_NUMBER:
    return number;
  case BRAID_LAUNCH_VECTOR:
    snprintf(scratch, kTypeBytes, "%s%u", number, argument->lanes);
    return scratch;
  case BRAID_LAUNCH_FAULT:
    return "a word for faults";
  case BRAID_LAUNCH_LOCAL:
    break;
  }
  return "local memory";
}

static bool is_memory_argument(const braid_launch_argument *argument) {
  return argument->kind == BRAID_LAUNCH_OPERAND || argument->kind == BRAID_LAUNCH_WORKSPACE;
}

/* Elements of the same size, and whole numbers or not on both sides. Without a name in OpenCL C for them, 16 bits of
 * floating point may be read as whole numbers. */
static bool fits_element(braid_dtype dtype, const scalar_type *type) {
  if (dtype == BRAID_NONE || !type) return true;
  size_t bytes = braid_dtype_size(dtype);
  bool as_bits = bytes == 2 && !type->is_float;
  return bytes == type->bytes && (as_bits || braid_dtype_is_float(dtype) == type->is_float);
}

static bool fits_number(const braid_launch_argument *argument, const parameter *takes) {
  if (takes->pointer || takes->space != CL_KERNEL_ARG_ADDRESS_PRIVATE || takes->lanes != argument->lanes) return false;
  if (!takes->element) return true; /* the driver knows its size */
  return takes->element->is_float == braid_dtype_is_float(argument->element) &&
         takes->element->bytes == braid_dtype_size(argument->element);
}

static bool argument_fits(const braid_launch_argument *argument, const parameter *takes) {
  bool global = takes->space == CL_KERNEL_ARG_ADDRESS_GLOBAL || takes->space == CL_KERNEL_ARG_ADDRESS_CONSTANT;
  if (is_memory_argument(argument)) return takes->pointer && global && fits_element(argument->element, takes->element);
  if (argument->kind == BRAID_LAUNCH_LOCAL) return takes->pointer && takes->space == CL_KERNEL_ARG_ADDRESS_LOCAL;
  return fits_number(argument, takes);
}

static const char *space_name(cl_kernel_arg_address_qualifier space) {
  switch (space) {
  case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    return "__global ";
  case CL_KERNEL_ARG_ADDRESS_CONSTANT:
    return "__constant ";
  case CL_KERNEL_ARG_ADDRESS_LOCAL:
    return "__local ";
  default:
    return "";
  }
}

/* No memory object at all is a value for memory, and for a number none. Memory that is not there yet is tried so here,
 * and numbers, before a driver that looks at sizes alone takes one for a memory object. */
static braid_status check_kind(const braid_cl_device *device, const braid_launch *launch, cl_kernel kernel,
                               cl_uint index) {
  const braid_launch_argument *argument = &launch->arguments[index];
  if (argument->kind == BRAID_LAUNCH_LOCAL) return BRAID_OK; /* given by its size alone: setting it says the same */
  cl_int code = device->cl->SetKernelArg(kernel, index, sizeof(cl_mem), NULL);
  if ((code == CL_SUCCESS) == is_memory_argument(argument)) return BRAID_OK;
  char scratch[kTypeBytes];
  return braid_fail(mistake_of(launch), "%s, argument %u: the manifest gives %s, the kernel takes %s", launch->function,
                    index, given_name(argument, scratch), is_memory_argument(argument) ? "no memory" : "memory");
}

braid_status braid_cl_arguments_check(const braid_cl_device *device, const braid_launch *launch, cl_kernel kernel) {
  cl_uint count = 0;
  char scratch[kTypeBytes];
  (void)device->cl->GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL);
  if (count != launch->argument_count)
    return braid_fail(mistake_of(launch), "%s takes %u arguments, the recipe has %zu", launch->function, count,
                      launch->argument_count);
  for (cl_uint i = 0; launch->module && i < count; i++) {
    parameter takes;
    if (!ask_argument(device, kernel, i, &takes))
      BRAID_TRY(check_kind(device, launch, kernel, i));
    else if (!argument_fits(&launch->arguments[i], &takes))
      return braid_fail(mistake_of(launch), "%s, argument %u: the manifest gives %s, the kernel takes %s%s",
                        launch->function, i, given_name(&launch->arguments[i], scratch), space_name(takes.space),
                        takes.type);
  }
  return BRAID_OK;
}

/* --- sizes ---------------------------------------------------------------------------------------------------------
 */
/* Of one dimension: whole groups, as large as the device takes them and the kernel was compiled for. */
static braid_status check_dimension(const braid_cl_device *device, const braid_launch *launch, uint32_t i,
                                    size_t compiled) {
  size_t local = launch->local[i], most = device->traits.max_item[i];
  if (!local || launch->global[i] % local)
    return braid_fail(mistake_of(launch), "%s: %zu work-items of dimension %u are no whole groups of %zu",
                      launch->function, launch->global[i], i, local);
  if (most && local > most)
    return braid_fail(BRAID_UNSUPPORTED, "%s: groups of %zu work-items in dimension %u, the device takes %zu",
                      launch->function, local, i, most);
  if (compiled && local != compiled)
    return braid_fail(mistake_of(launch),
                      "%s: groups of %zu work-items in dimension %u, the kernel is compiled for %zu", launch->function,
                      local, i, compiled);
  return BRAID_OK;
}

/* Some drivers count what arguments ask for among the kernel's own local memory, others (NVIDIA's) do not. */
static braid_status check_local_memory(const braid_cl_device *device, const braid_launch *launch, cl_kernel kernel) {
  cl_ulong needed = 0, asked = 0;
  size_t there = device->traits.local_bytes;
  (void)device->cl->GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof needed, &needed, NULL);
  for (size_t i = 0; i < launch->argument_count; i++)
    if (launch->arguments[i].kind == BRAID_LAUNCH_LOCAL) asked += launch->arguments[i].bytes;
  if (asked > needed) needed = asked;
  if (!there || needed <= there) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "%s: %llu bytes of local memory per group, the device has %zu", launch->function,
                    (unsigned long long)needed, there);
}

braid_status braid_cl_sizes_check(const braid_cl_device *device, const braid_launch *launch, cl_kernel kernel) {
  const braid_cl_api *cl = device->cl;
  size_t most = 0, compiled[3] = {0}, group = 1, all = 1;
  (void)cl->GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
  (void)cl->GetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof compiled, compiled,
                                   NULL);
  for (uint32_t i = 0; i < launch->dimensions; i++)
    if (!braid_mul_size(all, launch->global[i], &all))
      return braid_fail(mistake_of(launch), "%s: more work-items than can be counted", launch->function);
  if (compiled[0] && !launch->local[0])
    return braid_fail(mistake_of(launch), "%s: local is missing, the kernel is compiled for groups of %zu x %zu x %zu",
                      launch->function, compiled[0], compiled[1], compiled[2]);
  for (uint32_t i = 0; launch->local[0] && i < launch->dimensions; i++) {
    BRAID_TRY(check_dimension(device, launch, i, compiled[i]));
    group *= launch->local[i];
  }
  if (launch->local[0] && most && group > most)
    return braid_fail(BRAID_UNSUPPORTED, "%s: groups of %zu work-items, the device takes %zu", launch->function, group,
                      most);
  return check_local_memory(device, launch, kernel);
}
