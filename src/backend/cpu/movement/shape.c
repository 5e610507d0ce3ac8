/* Kernels of ops that make tensors out of shapes and numbers. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "tensor/half.h"

static void shape_fill(void *to, int64_t count, const void *element, size_t bytes) {
  for (int64_t i = 0; i < count; i++) memcpy((char *)to + i * (int64_t)bytes, element, bytes);
}

static braid_status run_constant_of_shape(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  static const float zero = 0;
  (void)state;
  const braid_desc *y = &node->outputs[0].desc;
  braid_tensor *value = braid_attr_tensor(node->attrs, "value");
  shape_fill(args->outputs[0], braid_desc_count(y), value ? braid_tensor_const_data(value) : &zero,
             braid_dtype_size(y->dtype));
  return BRAID_OK;
}

static braid_status run_constant(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  size_t bytes = braid_desc_bytes(&node->outputs[0].desc);
  if (bytes) memcpy(args->outputs[0], braid_tensor_const_data(braid_attr_tensor(node->attrs, "value")), bytes);
  return BRAID_OK;
}

/* start + i * delta, computed in the type (in float for the 16-bit ones). */
static braid_status run_range(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const void *start = args->inputs[0], *delta = args->inputs[2];
  int64_t count = node->outputs[0].desc.dims[0];
  void *to = args->outputs[0];
#define RANGE(type, from, back)                                                                                        \
  for (int64_t i = 0; i < count; i++)                                                                                  \
    ((type *)to)[i] = (type)back(from(*(const type *)start) + from(*(const type *)delta) * i);                         \
  return BRAID_OK
  switch (node->outputs[0].desc.dtype) {
  case BRAID_F32:
    RANGE(float, (float), (float));
  case BRAID_F64:
    RANGE(double, (double), (double));
  case BRAID_F16:
    RANGE(uint16_t, braid_f16_to_f32, braid_f32_to_f16);
  case BRAID_BF16:
    RANGE(uint16_t, braid_bf16_to_f32, braid_f32_to_bf16);
  case BRAID_I16:
    RANGE(int16_t, (int64_t), (int16_t));
  case BRAID_I32:
    RANGE(int32_t, (int64_t), (int32_t));
  case BRAID_I64:
    RANGE(int64_t, (int64_t), (int64_t));
  default:
    return braid_fail(BRAID_UNSUPPORTED, "Range of %s", braid_dtype_name(node->outputs[0].desc.dtype));
  }
#undef RANGE
}

static braid_status run_eye(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  const braid_desc *y = &node->outputs[0].desc;
  int64_t k = braid_attr_int(node->attrs, "k", 0);
  size_t bytes = braid_dtype_size(y->dtype);
  uint64_t one = 1; /* little endian: also the narrower integers */
  float f32 = 1;
  double f64 = 1;
  uint16_t half = y->dtype == BRAID_F16 ? braid_f32_to_f16(1) : braid_f32_to_bf16(1);
  const void *element = &one;
  if (y->dtype == BRAID_F32) element = &f32;
  if (y->dtype == BRAID_F64) element = &f64;
  if (y->dtype == BRAID_F16 || y->dtype == BRAID_BF16) element = &half;
  if (braid_desc_bytes(y)) memset(args->outputs[0], 0, braid_desc_bytes(y));
  for (int64_t row = 0; row < y->dims[0]; row++) {
    bool inside = k > INT32_MIN && k < INT32_MAX && row + k >= 0 && row + k < y->dims[1];
    if (inside) memcpy((char *)args->outputs[0] + (row * y->dims[1] + row + k) * (int64_t)bytes, element, bytes);
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kConstantOfShape = {.run = run_constant_of_shape};
static const braid_cpu_kernel kConstant = {.run = run_constant};
static const braid_cpu_kernel kRange = {.run = run_range};
static const braid_cpu_kernel kEye = {.run = run_eye};
static const braid_kernel kKernels[] = {
    {.op = "Constant", .name = "ref_constant", .implementation = &kConstant},
    {.op = "ConstantOfShape", .name = "ref_constant_of_shape", .implementation = &kConstantOfShape},
    {.op = "EyeLike", .name = "ref_eye_like", .implementation = &kEye},
    {.op = "Range", .name = "ref_range", .implementation = &kRange},
};

extern const braid_cpu_table braid_cpu_movement_shape;
const braid_cpu_table braid_cpu_movement_shape = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
