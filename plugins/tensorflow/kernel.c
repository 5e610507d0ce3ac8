/* Kernels of TensorFlow: their attributes, their programs by shape, and the launch of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin.h"

enum { kMostOps = 256, kKeyWords = 192, kMostConstantBytes = 64 << 10 };

typedef struct fpga_kernel {
  const fpga_op *op;
  size_t index; /* of the op, for its counter */
  char name[128];
  fpga_attr attrs[FPGA_MAX_ATTRS + 1];
  bool host_known;                     /* atomic, from the first call on */
  pthread_mutex_t lock;                /* of what follows, until it is known */
  uint8_t host[FPGA_MAX_OPERANDS / 8]; /* bit i: input i is in host memory */
  fpga_cache cache;
} fpga_kernel;

/* --- counters ------------------------------------------------------------------------------------------------------
 */
static const char *op_names[kMostOps];
static size_t op_count;
static struct { uint64_t calls, ns; } counters[FPGA_MAX_DEVICES][kMostOps];
static int busy_now, busy_most; /* devices that work at the same time */

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Runs a program and counts it. */
static braid_status run_counted(fpga_program *program, size_t op, const void *const *inputs, void *const *outputs) {
  uint64_t start = now_ns();
  int busy = __atomic_add_fetch(&busy_now, 1, __ATOMIC_RELAXED), most = __atomic_load_n(&busy_most, __ATOMIC_RELAXED);
  while (busy > most &&
         !__atomic_compare_exchange_n(&busy_most, &most, busy, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  braid_status status = fpga_program_run(program, inputs, outputs);
  __atomic_sub_fetch(&busy_now, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters[program->device->ordinal][op].calls, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters[program->device->ordinal][op].ns, now_ns() - start, __ATOMIC_RELAXED);
  return status;
}

int braid_tf_most_at_once(void) {
  return __atomic_load_n(&busy_most, __ATOMIC_RELAXED);
}

static size_t count_op(const char *name) {
  for (size_t i = 0; i < op_count; i++)
    if (strcmp(op_names[i], name) == 0) return i;
  if (op_count == kMostOps) return kMostOps - 1;
  op_names[op_count] = name;
  return op_count++;
}

/* Lines "device op calls nanoseconds" of what was run since the process began, for braid_tensorflow.calls(). Returns
 * the bytes of all of it, as snprintf does. */
size_t braid_tf_calls(char *text, size_t bytes) {
  size_t used = 0;
  for (size_t d = 0; d < FPGA_MAX_DEVICES; d++)
    for (size_t i = 0; i < op_count; i++) {
      uint64_t count = __atomic_load_n(&counters[d][i].calls, __ATOMIC_RELAXED);
      if (!count) continue;
      size_t room = used < bytes ? bytes - used : 0;
      used += (size_t)snprintf(room ? text + used : NULL, room, "%zu %s %llu %llu\n", d, op_names[i],
                               (unsigned long long)count,
                               (unsigned long long)__atomic_load_n(&counters[d][i].ns, __ATOMIC_RELAXED));
    }
  return used;
}

/* --- making a kernel -----------------------------------------------------------------------------------------------
 */
static void read_attr(TF_OpKernelConstruction *context, fpga_attr *attr, TF_Status *status) {
  TF_DataType type;
  TF_Bool flag;
  int32_t size = 0, total = 0;
  char *values[4], storage[512];
  size_t lengths[4];
  switch (attr->kind) {
  case FPGA_INT:
    TF_OpKernelConstruction_GetAttrInt64(context, attr->name, &attr->i, status);
    break;
  case FPGA_FLOAT:
    TF_OpKernelConstruction_GetAttrFloat(context, attr->name, &attr->f, status);
    break;
  case FPGA_BOOL:
    TF_OpKernelConstruction_GetAttrBool(context, attr->name, &flag, status);
    attr->i = flag;
    break;
  case FPGA_TYPE_ATTR:
    TF_OpKernelConstruction_GetAttrType(context, attr->name, &type, status);
    attr->i = (int64_t)type;
    break;
  case FPGA_STRING:
    TF_OpKernelConstruction_GetAttrString(context, attr->name, attr->s, sizeof attr->s - 1, status);
    break;
  case FPGA_INTS:
    TF_OpKernelConstruction_GetAttrSize(context, attr->name, &size, &total, status);
    if (size > FPGA_MAX_LIST) size = FPGA_MAX_LIST;
    attr->count = size;
    if (TF_GetCode(status) == TF_OK && size > 0)
      TF_OpKernelConstruction_GetAttrInt64List(context, attr->name, attr->ints, size, status);
    break;
  case FPGA_STRINGS:
    TF_OpKernelConstruction_GetAttrSize(context, attr->name, &size, &total, status);
    if (TF_GetCode(status) != TF_OK || size <= 0 || size > 4 || total > (int)sizeof storage) break;
    TF_OpKernelConstruction_GetAttrStringList(context, attr->name, values, lengths, size, storage, sizeof storage,
                                              status);
    for (int i = 0; TF_GetCode(status) == TF_OK && i < size; i++)
      snprintf(attr->strings[i], sizeof attr->strings[i], "%.*s", (int)lengths[i], values[i]);
    attr->count = size;
    break;
  }
}

typedef struct attr_name {
  char text[48];
  fpga_attr_kind kind;
} attr_name;

static const struct {
  const char *text;
  fpga_attr_kind kind;
} kKinds[] = {{"int", FPGA_INT},       {"float", FPGA_FLOAT}, {"bool", FPGA_BOOL},      {"type", FPGA_TYPE_ATTR},
              {"string", FPGA_STRING}, {"ints", FPGA_INTS},   {"strings", FPGA_STRINGS}};

/* The names of "strides:ints padding:string" live as long as the process: the table of ops has them. */
static size_t split_attrs(const char *list, attr_name *names) {
  size_t count = 0;
  while (list && *list && count < FPGA_MAX_ATTRS) {
    char kind[16] = "";
    int used = 0;
    if (sscanf(list, "%47[^:]:%15s%n", names[count].text, kind, &used) < 2) break;
    for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; i++)
      if (strcmp(kKinds[i].text, kind) == 0) names[count].kind = kKinds[i].kind;
    count++;
    list += used;
    while (*list == ' ') list++;
  }
  return count;
}

static void read_attrs(TF_OpKernelConstruction *context, const char *list, fpga_attr *attrs, TF_Status *status) {
  attr_name names[FPGA_MAX_ATTRS];
  size_t count = split_attrs(list, names);
  for (size_t i = 0; i < count && TF_GetCode(status) == TF_OK; i++) {
    attrs[i] = (fpga_attr){.name = strdup(names[i].text), .kind = names[i].kind};
    if (!attrs[i].name) {
      TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory for a kernel");
      return;
    }
    if (TF_OpKernelConstruction_HasAttr(context, attrs[i].name, status))
      read_attr(context, &attrs[i], status);
    else
      attrs[i].count = -1;
  }
}

static void kernel_delete(void *self) {
  fpga_kernel *kernel = self;
  if (!kernel) return;
  fpga_cache_deinit(&kernel->cache);
  for (fpga_attr *attr = kernel->attrs; attr->name; attr++) free((char *)attr->name);
  pthread_mutex_destroy(&kernel->lock);
  free(kernel);
}

static void *kernel_create(const fpga_op *op, size_t index, TF_OpKernelConstruction *context) {
  TF_Status *status = TF_NewStatus();
  fpga_kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel) {
    *kernel = (fpga_kernel){.op = op, .index = index};
    pthread_mutex_init(&kernel->lock, NULL);
    fpga_cache_init(&kernel->cache);
    TF_StringView name = TF_OpKernelConstruction_GetName(context);
    snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)(name.len < 120 ? name.len : 120), name.data);
    read_attrs(context, op->attrs, kernel->attrs, status);
    braid_status refused = BRAID_OK;
    if (TF_GetCode(status) == TF_OK && op->refuse) refused = op->refuse(kernel->attrs);
    if (refused != BRAID_OK) {
      (void)braid_fail_prefix(refused, "%s (%s) on " FPGA_TYPE, kernel->name, op->name);
      TF_SetStatus(status, fpga_code_of(refused), braid_error_detail());
    }
  } else {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory for a kernel");
  }
  if (TF_GetCode(status) != TF_OK) {
    TF_OpKernelConstruction_Failure(context, status);
    kernel_delete(kernel);
    kernel = NULL;
  }
  TF_DeleteStatus(status);
  return kernel;
}

/* --- programs by shape ---------------------------------------------------------------------------------------------
 */
typedef struct launch {
  fpga_kernel *kernel;
  TF_OpKernelContext *context;
  TF_Status *status;
  fpga_stream *stream;
  fpga_device *device;
  size_t input_count;
  TF_Tensor *inputs[FPGA_MAX_OPERANDS];
  const void *from[FPGA_MAX_OPERANDS];
  void *to[FPGA_MAX_OPERANDS];
  size_t key_words;
  int64_t key[kKeyWords];
  int64_t *long_key; /* of constants that need more; else NULL */
} launch;

static void launch_fail(launch *l, TF_Code code, const char *detail) {
  TF_SetStatus(l->status, code, detail);
}

static void launch_refuse(launch *l, braid_status status) {
  char text[FPGA_DETAIL + 256];
  snprintf(text, sizeof text, "%s: %.*s", l->kernel->name, FPGA_DETAIL, braid_error_detail());
  launch_fail(l, fpga_code_of(status), text);
}

static void find_host(launch *l, int count) {
  fpga_kernel *kernel = l->kernel;
  pthread_mutex_lock(&kernel->lock);
  for (int i = 0; i < count && !kernel->host_known; i++)
    if (TF_IsHostMemoryInput(l->context, i, l->status)) kernel->host[i / 8] |= (uint8_t)(1 << i % 8);
  __atomic_store_n(&kernel->host_known, true, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&kernel->lock);
}

static bool is_host(const fpga_kernel *kernel, size_t input) {
  return kernel->host[input / 8] >> input % 8 & 1;
}

static bool take_inputs(launch *l) {
  fpga_kernel *kernel = l->kernel;
  int count = TF_NumInputs(l->context);
  if (count > FPGA_MAX_OPERANDS || TF_NumOutputs(l->context) > FPGA_MAX_OPERANDS) {
    launch_fail(l, TF_UNIMPLEMENTED, "more than 1024 operands");
    return false;
  }
  for (int i = 0; i < count; i++) {
    TF_GetInput(l->context, i, &l->inputs[i], l->status);
    if (TF_GetCode(l->status) != TF_OK) return false;
    l->input_count = (size_t)i + 1;
    l->from[i] = TF_TensorData(l->inputs[i]);
  }
  if (!__atomic_load_n(&kernel->host_known, __ATOMIC_ACQUIRE)) find_host(l, count);
  return true;
}

/* Reductions take more dimensions than our tensors have: the gradient of a tile has two for each of its own. */
static int most_dims(const fpga_op *op) {
  return op->host && strcmp(op->host, "reduction_indices") == 0 ? FPGA_MAX_WIDE : BRAID_MAX_RANK;
}

/* Types and shapes of all inputs, and the contents of those in host memory. */
static bool make_key(launch *l) {
  size_t used = 0, room = kKeyWords;
  int64_t *key = l->key;
  for (size_t i = 0; i < l->input_count; i++) {
    const TF_Tensor *tensor = l->inputs[i];
    bool host = is_host(l->kernel, i);
    int rank = TF_NumDims(tensor);
    size_t bytes = host ? TF_TensorByteSize(tensor) : 0, words = 1 + (size_t)rank + (bytes + 7) / 8;
    if (rank > most_dims(l->kernel->op)) {
      launch_fail(l, TF_UNIMPLEMENTED,
                  rank > FPGA_MAX_WIDE ? "a tensor of more than 16 dimensions" : "a tensor of more than 8 dimensions");
      return false;
    }
    if (bytes > kMostConstantBytes) {
      launch_fail(l, TF_UNIMPLEMENTED, "a shape or list of more than 64 KiB");
      return false;
    }
    if (used + words > room) {
      int64_t *longer = malloc((2 * room + words) * sizeof *longer);
      if (longer) memcpy(longer, key, used * sizeof *longer);
      free(l->long_key);
      l->long_key = key = longer;
      room = 2 * room + words;
      if (!longer) {
        launch_fail(l, TF_RESOURCE_EXHAUSTED, "there is no memory for a kernel");
        return false;
      }
    }
    key[used++] = (int64_t)TF_TensorType(tensor) << 8 | rank << 1 | host;
    for (int d = 0; d < rank; d++) key[used++] = TF_Dim(tensor, d);
    if (bytes) {
      key[used + (bytes + 7) / 8 - 1] = 0;
      memcpy(&key[used], l->from[i], bytes);
      used += (bytes + 7) / 8;
    }
  }
  l->key_words = used;
  return true;
}

static const int64_t *key_of(const launch *l) {
  return l->long_key ? l->long_key : l->key;
}

static fpga_program *make_program(launch *l) {
  fpga_build *build = calloc(1, sizeof *build);
  fpga_program *program = NULL;
  braid_status status = build ? BRAID_OK : braid_fail(BRAID_NO_MEMORY, "there is no memory for a kernel");
  if (build) {
    build->attrs = l->kernel->attrs;
    build->input_count = l->input_count;
    build->output_count = (size_t)TF_NumOutputs(l->context);
    build->divisor = -1;
    for (size_t i = 0; i < build->output_count; i++) build->share[i] = -1;
  }
  for (size_t i = 0; build && i < l->input_count && status == BRAID_OK; i++) {
    const TF_Tensor *tensor = l->inputs[i];
    const int64_t count = TF_TensorElementCount(tensor);
    fpga_input *input = &build->inputs[i];
    *input = (fpga_input){.host = is_host(l->kernel, i) ? l->from[i] : NULL, .value = -1, .rank = TF_NumDims(tensor)};
    for (int d = 0; d < input->rank; d++) input->dims[d] = TF_Dim(tensor, d);
    bool wide = input->rank > BRAID_MAX_RANK;
    status = braid_desc_init(&input->desc, fpga_dtype(TF_TensorType(tensor)), wide ? 1 : input->rank,
                             wide ? &count : input->dims);
  }
  if (status == BRAID_OK) status = fpga_program_create(l->device, l->kernel->op, build, &program);
  free(build);
  if (status == BRAID_OK) {
    size_t bytes = l->key_words * sizeof *l->key;
    program->key = malloc(bytes + 1);
    program->key_bytes = bytes;
    program->bytes += (int64_t)bytes;
    if (program->key) {
      memcpy(program->key, key_of(l), bytes);
      return program;
    }
    fpga_program_release(program);
    status = braid_fail(BRAID_NO_MEMORY, "there is no memory for a kernel");
  }
  launch_refuse(l, status);
  return NULL;
}

/* Programs are in the device's limit of memory. */
static bool count_program(launch *l, fpga_program *program) {
  fpga_memory *memory = l->device->memory;
  bool fits = fpga_memory_hold(memory, program->bytes);
  if (!fits) {
    fpga_device_make_room(l->device);
    fits = fpga_memory_hold(memory, program->bytes);
  }
  if (!fits) {
    fpga_caches_drop_idle(l->device);
    fits = fpga_memory_hold(memory, program->bytes);
  }
  program->counted = fits;
  if (fits) return true;
  char text[FPGA_DETAIL];
  launch_fail(l, TF_RESOURCE_EXHAUSTED, fpga_memory_describe(l->device, (uint64_t)program->bytes, text, sizeof text));
  return false;
}

/* The program for these shapes, with a reference for the caller; NULL after a failure. */
static fpga_program *get_program(launch *l) {
  fpga_cache *cache = &l->kernel->cache;
  pthread_mutex_lock(&cache->lock);
  fpga_program *program = fpga_cache_find(cache, l->device, key_of(l), l->key_words * sizeof *l->key);
  bool made = !program && (program = make_program(l));
  if (made) fpga_cache_add(cache, program);
  if (program) __atomic_add_fetch(&program->users, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&cache->lock);
  if (!made || count_program(l, program)) return program;
  fpga_cache_remove(cache, program);
  fpga_program_release(program);
  return NULL;
}

/* --- launching -----------------------------------------------------------------------------------------------------
 */
static bool give_shared(launch *l, const fpga_program *program, int index) {
  const fpga_output *output = &program->outputs[index];
  TF_Tensor *view = TF_AllocateTensor(output->dtype, (const int64_t[]){0}, 1, 0);
  if (!view) return false;
  TF_TensorBitcastFrom(l->inputs[program->share[index]], output->dtype, view, output->dims, output->rank, l->status);
  if (TF_GetCode(l->status) == TF_OK) TF_SetOutput(l->context, index, view, l->status);
  TF_DeleteTensor(view);
  return TF_GetCode(l->status) == TF_OK;
}

static bool make_outputs(launch *l, const fpga_program *program) {
  for (size_t i = 0; i < program->output_count; i++) {
    const fpga_output *output = &program->outputs[i];
    if (program->share[i] >= 0) {
      if (!give_shared(l, program, (int)i)) return false;
      continue;
    }
    TF_Tensor *tensor = TF_AllocateOutput(l->context, (int)i, output->dtype, output->dims, output->rank,
                                          program->output_bytes[i], l->status);
    if (TF_GetCode(l->status) == TF_OK) l->to[i] = TF_TensorData(tensor);
    if (tensor) TF_DeleteTensor(tensor);
    if (TF_GetCode(l->status) == TF_OK) continue;
    char text[FPGA_DETAIL], device[300];
    snprintf(text, sizeof text, "%.250s; %s", TF_Message(l->status),
             fpga_memory_describe(l->device, program->output_bytes[i], device, sizeof device));
    if (TF_GetCode(l->status) == TF_RESOURCE_EXHAUSTED) launch_fail(l, TF_RESOURCE_EXHAUSTED, text);
    return false;
  }
  return true;
}

typedef struct run_job {
  fpga_job job;
  fpga_program *program;
  size_t op;
  char name[128];
  size_t input_count;
  void *pointers[]; /* inputs, outputs */
} run_job;

static void run_queued(fpga_job *job) {
  run_job *run = (run_job *)job;
  fpga_program *program = run->program;
  braid_status status =
      run_counted(program, run->op, (const void *const *)run->pointers, run->pointers + run->input_count);
  if (status != BRAID_OK) {
    char text[800];
    snprintf(text, sizeof text, "FPGA:%d (%s): %.127s: %.300s", program->device->ordinal, program->device->spec,
             run->name, braid_error_detail());
    fpga_device_fail(program->device, fpga_code_of(status), text);
  }
  fpga_program_release(program);
  free(run);
}

static void launch_queued(launch *l, fpga_program *program) {
  run_job *run = malloc(sizeof *run + (l->input_count + program->output_count) * sizeof(void *));
  if (!run) {
    launch_fail(l, TF_RESOURCE_EXHAUSTED, "there is no memory to queue a kernel");
    return;
  }
  run->job = (fpga_job){.run = run_queued};
  run->program = program;
  run->op = l->kernel->index;
  run->input_count = l->input_count;
  __atomic_add_fetch(&program->users, 1, __ATOMIC_RELAXED);
  memcpy(run->name, l->kernel->name, sizeof run->name);
  memcpy(run->pointers, l->from, l->input_count * sizeof *run->pointers);
  memcpy(run->pointers + l->input_count, l->to, program->output_count * sizeof *run->pointers);
  fpga_stream_put(l->stream, &run->job, false);
  if (fpga_is_asynchronous()) return;
  fpga_stream_wait(l->stream, fpga_stream_mark(l->stream));
  (void)fpga_device_take_failure(l->device, l->status);
}

static void launch_program(launch *l, fpga_program *program) {
  if (!make_outputs(l, program)) return;
  if (program->nothing) {
    __atomic_fetch_add(&counters[l->device->ordinal][l->kernel->index].calls, 1, __ATOMIC_RELAXED);
    return;
  }
  if (program->brief && fpga_stream_enter(l->stream)) {
    braid_status status = run_counted(program, l->kernel->index, l->from, l->to);
    if (status != BRAID_OK) launch_refuse(l, status);
    fpga_stream_leave(l->stream);
    return;
  }
  launch_queued(l, program);
}

static void kernel_compute(void *self, TF_OpKernelContext *context) {
  launch l;
  l.kernel = self;
  l.context = context;
  l.status = TF_NewStatus();
  l.input_count = 0;
  l.long_key = NULL;
  l.stream = TF_GetStream(context, l.status);
  if (TF_GetCode(l.status) == TF_OK && l.stream) {
    l.device = fpga_stream_device(l.stream);
    if (!fpga_device_take_failure(l.device, l.status) && take_inputs(&l) && make_key(&l)) {
      fpga_program *program = get_program(&l);
      if (program) launch_program(&l, program);
      fpga_program_release(program);
    }
  }
  for (size_t i = 0; i < l.input_count; i++) TF_DeleteTensor(l.inputs[i]);
  if (TF_GetCode(l.status) != TF_OK) TF_OpKernelContext_Failure(context, l.status);
  TF_DeleteStatus(l.status);
  free(l.long_key);
}

/* --- registration --------------------------------------------------------------------------------------------------
 * TensorFlow's function that makes a kernel is not told for which op: each op of the tables has a function of its own.
 */
static struct {
  const fpga_op *op;
  size_t index;
} registered[kMostOps];
static size_t registered_count;

#define CREATE_ONE(n)                                                                                                  \
  static void *create_##n(TF_OpKernelConstruction *context) {                                                          \
    return kernel_create(registered[n].op, registered[n].index, context);                                              \
  }
#define NAME_ONE(n) create_##n,
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
/* clang-format off */
#define NUMBERS(X)                                                                                                     \
  TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9) TEN(X, 10) TEN(X, 11)      \
  TEN(X, 12) TEN(X, 13) TEN(X, 14) TEN(X, 15) TEN(X, 16) TEN(X, 17) TEN(X, 18) TEN(X, 19)
/* clang-format on */
NUMBERS(CREATE_ONE)
static void *(*const kCreate[])(TF_OpKernelConstruction *) = {NUMBERS(NAME_ONE)};
enum { kFirst = 10, kCreateCount = sizeof kCreate / sizeof *kCreate };

static const struct {
  const char *name;
  TF_DataType type;
} kTypeNames[] = {{"float", TF_FLOAT}, {"double", TF_DOUBLE}, {"half", TF_HALF},   {"bfloat16", TF_BFLOAT16},
                  {"int8", TF_INT8},   {"int16", TF_INT16},   {"int32", TF_INT32}, {"int64", TF_INT64},
                  {"uint8", TF_UINT8}, {"uint16", TF_UINT16}, {"bool", TF_BOOL}};
enum { kTypeNameCount = sizeof kTypeNames / sizeof *kTypeNames };

typedef struct constraint {
  char attr[32];
  TF_DataType types[kTypeNameCount];
  int count;
} constraint;

/* "T=float,double U=int64" */
static int split_types(const char *list, constraint *out) {
  int count = 0;
  while (list && *list && count < 2) {
    char names[160];
    int used = 0;
    constraint *c = &out[count];
    *c = (constraint){.count = 0};
    if (sscanf(list, "%31[^=]=%159[^ ]%n", c->attr, names, &used) < 2) break;
    for (char *save, *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
      for (int i = 0; i < kTypeNameCount; i++)
        if (strcmp(kTypeNames[i].name, name) == 0) c->types[c->count++] = kTypeNames[i].type;
    count++;
    list += used;
    while (*list == ' ') list++;
  }
  return count;
}

static void register_one(const fpga_op *op, size_t slot, const constraint *constraints, int count, const int *at) {
  TF_Status *status = TF_NewStatus();
  TF_KernelBuilder *builder = TF_NewKernelBuilder(op->name, FPGA_TYPE, kCreate[slot], kernel_compute, kernel_delete);
  for (int i = 0; i < count && TF_GetCode(status) == TF_OK; i++)
    TF_KernelBuilder_TypeConstraint(builder, constraints[i].attr, constraints[i].types[at[i]], status);
  char names[128];
  snprintf(names, sizeof names, "%s", op->host ? op->host : "");
  for (char *save, *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
    TF_KernelBuilder_HostMemory(builder, name);
  if (TF_GetCode(status) == TF_OK)
    TF_RegisterKernelBuilder(op->name, builder, status);
  else
    TF_DeleteKernelBuilder(builder);
  if (TF_GetCode(status) != TF_OK) fpga_log(FPGA_WARNING, "%s is not registered: %s", op->name, TF_Message(status));
  TF_DeleteStatus(status);
}

static void register_op(const fpga_op *op) {
  constraint constraints[2];
  int count = split_types(op->types, constraints), at[2];
  if (registered_count == kCreateCount) {
    fpga_log(FPGA_ERROR, "%s is not registered: there is room for %d ops", op->name, kCreateCount);
    return;
  }
  size_t slot = registered_count++;
  registered[kFirst + slot].op = op;
  registered[kFirst + slot].index = count_op(op->name);
  for (at[0] = 0; at[0] < (count > 0 ? constraints[0].count : 1); at[0]++)
    for (at[1] = 0; at[1] < (count > 1 ? constraints[1].count : 1); at[1]++)
      register_one(op, slot, constraints, count, at);
}

void fpga_register_kernels(void) {
  const fpga_op *const kTables[] = {fpga_ops_elementwise, fpga_ops_gradients,  fpga_ops_products, fpga_ops_windows,
                                    fpga_ops_norms,       fpga_ops_reductions, fpga_ops_movement, fpga_ops_shapes};
  for (size_t t = 0; t < sizeof kTables / sizeof *kTables; t++)
    for (const fpga_op *op = kTables[t]; op->name; op++) register_op(op);
}
