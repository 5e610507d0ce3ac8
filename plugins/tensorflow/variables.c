/* Updates of variables. TensorFlow's own AssignSub and AssignAdd work on the host's side at once, whatever is queued
 * for the device. Wheels that export the functions of kernels_experimental.h let us register kernels that are queued
 * like others; in the rest the part in Python turns these ops into assignments, and what reaches us all the same is
 * refused: it would read values that are not there yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* Declared here, and weak: most wheels of tensorflow-cpu do not have it. */
__attribute__((weak)) void TF_AssignUpdateVariable(TF_OpKernelContext *context, int input_index, int value_index,
                                                   int op, int is_variant,
                                                   void (*copy)(TF_OpKernelContext *, TF_Tensor *, TF_Tensor *),
                                                   void (*update)(TF_OpKernelContext *, TF_Tensor *, TF_Tensor *, int),
                                                   TF_Status *status);

static bool asynchronous; /* atomic */

bool fpga_is_asynchronous(void) {
  return __atomic_load_n(&asynchronous, __ATOMIC_RELAXED);
}

/* Called by the part in Python once variables are updated by assignments. */
void braid_tf_updates_are_assignments(void) {
  const char *text = getenv("BRAID_TF_SYNCHRONOUS");
  if (text && *text && strcmp(text, "0") != 0) return;
  __atomic_store_n(&asynchronous, true, __ATOMIC_RELAXED);
}

/* --- with the functions --------------------------------------------------------------------------------------------
 */
typedef struct update_job {
  fpga_job job;
  int op; /* 0 add, 1 subtract; 2 copy */
  TF_DataType type;
  void *to;
  const void *from;
  int64_t count;
} update_job;

#define UPDATE(type)                                                                                                   \
  static void update_##type(const update_job *u) {                                                                     \
    type *to = u->to;                                                                                                  \
    const type *from = u->from;                                                                                        \
    for (int64_t i = 0; i < u->count; i++) to[i] = u->op ? to[i] - from[i] : to[i] + from[i];                          \
  }
UPDATE(float)
UPDATE(double)
UPDATE(int64_t)

static void run_update(fpga_job *job) {
  update_job *u = (update_job *)job;
  if (u->op == 2)
    memcpy(u->to, u->from, (size_t)u->count);
  else if (u->type == TF_FLOAT)
    update_float(u);
  else if (u->type == TF_DOUBLE)
    update_double(u);
  else
    update_int64_t(u);
  free(u);
}

static void queue_update(TF_OpKernelContext *context, TF_Tensor *to, TF_Tensor *from, int op) {
  TF_Status *status = TF_NewStatus();
  fpga_stream *stream = TF_GetStream(context, status);
  update_job *u = TF_GetCode(status) == TF_OK ? malloc(sizeof *u) : NULL;
  if (u) {
    int64_t count = op == 2 ? (int64_t)TF_TensorByteSize(from) : TF_TensorElementCount(from);
    *u = (update_job){.job.run = run_update,
                      .op = op,
                      .type = TF_TensorType(to),
                      .to = TF_TensorData(to),
                      .from = TF_TensorData(from),
                      .count = count};
    fpga_stream_put(stream, &u->job, count < 16 << 10);
    if (!fpga_is_asynchronous()) fpga_stream_wait(stream, fpga_stream_mark(stream));
  } else {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "there is no memory to queue an update");
    TF_OpKernelContext_Failure(context, status);
  }
  TF_DeleteStatus(status);
  TF_DeleteTensor(to);
  TF_DeleteTensor(from);
}

static void update_copy(TF_OpKernelContext *context, TF_Tensor *source, TF_Tensor *dest) {
  queue_update(context, dest, source, 2);
}

static void update_apply(TF_OpKernelContext *context, TF_Tensor *tensor, TF_Tensor *value, int op) {
  queue_update(context, tensor, value, op);
}

static void update_variable(TF_OpKernelContext *context, int op) {
  TF_Status *status = TF_NewStatus();
  TF_AssignUpdateVariable(context, 0, 1, op, 0, update_copy, update_apply, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

static void compute_add(void *self, TF_OpKernelContext *context) {
  (void)self;
  update_variable(context, 0);
}

static void compute_sub(void *self, TF_OpKernelContext *context) {
  (void)self;
  update_variable(context, 1);
}

/* --- without ------------------------------------------------------------------------------------------------------ */
static void compute_refused(void *self, TF_OpKernelContext *context) {
  (void)self;
  TF_Status *status = TF_NewStatus();
  TF_SetStatus(status, TF_UNIMPLEMENTED,
               "this TensorFlow computes AssignSubVariableOp and AssignAddVariableOp on the host, which does not wait "
               "for " FPGA_TYPE
               " devices: use v.assign(v - x), as the methods of tf.Variable do, or set BRAID_TF_SYNCHRONOUS=1");
  TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

static void *create_update(TF_OpKernelConstruction *context) {
  (void)context;
  return NULL;
}

static void delete_update(void *self) {
  (void)self;
}

static void register_update(const char *op, TF_DataType type, void (*compute)(void *, TF_OpKernelContext *)) {
  TF_Status *status = TF_NewStatus();
  TF_KernelBuilder *builder = TF_NewKernelBuilder(op, FPGA_TYPE, create_update, compute, delete_update);
  TF_KernelBuilder_TypeConstraint(builder, "dtype", type, status);
  TF_KernelBuilder_HostMemory(builder, "resource");
  if (TF_GetCode(status) == TF_OK)
    TF_RegisterKernelBuilder(op, builder, status);
  else
    TF_DeleteKernelBuilder(builder);
  if (TF_GetCode(status) != TF_OK) fpga_log(FPGA_WARNING, "%s is not registered: %s", op, TF_Message(status));
  TF_DeleteStatus(status);
}

void fpga_register_variables(void) {
  static const TF_DataType kTypes[] = {TF_FLOAT, TF_DOUBLE, TF_INT64}, kRefused[] = {TF_HALF, TF_BFLOAT16};
  bool functions = TF_AssignUpdateVariable != NULL;
  if (functions) braid_tf_updates_are_assignments();
  if (!fpga_is_asynchronous()) return; /* TensorFlow's own kernels are right then */
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; i++) {
    register_update("AssignAddVariableOp", kTypes[i], functions ? compute_add : compute_refused);
    register_update("AssignSubVariableOp", kTypes[i], functions ? compute_sub : compute_refused);
  }
  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; i++) {
    register_update("AssignAddVariableOp", kRefused[i], compute_refused);
    register_update("AssignSubVariableOp", kRefused[i], compute_refused);
  }
}
