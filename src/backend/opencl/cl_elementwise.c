/* Functions of each element: one text, the function given by an option, a work-item for a vector of elements. */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/families.h"

typedef struct function {
  const char *op;
  const char *function; /* a macro of the text */
  size_t operands;
} function;

static const function kFunctions[] = {
    {"Identity", "IDENTITY", 1}, {"Relu", "RELU", 1},    {"Neg", "NEGATE", 1},
    {"Add", "ADD", 2},           {"Sub", "SUBTRACT", 2}, {"Mul", "MULTIPLY", 2},
};

static const function *find(const char *op) {
  for (size_t i = 0; i < sizeof kFunctions / sizeof *kFunctions; i++)
    if (strcmp(kFunctions[i].op, op) == 0) return &kFunctions[i];
  return NULL;
}

static bool match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *result = &node->outputs[0].desc;
  for (size_t i = 0; i < node->input_count; i++) {
    const braid_desc *operand = &node->inputs[i].desc;
    if (operand->dtype != BRAID_F32) {
      snprintf(why, why_bytes, "float32 only, not %s", braid_dtype_name(operand->dtype));
      return false;
    }
    if (operand->layout != result->layout || !braid_desc_same_shape(operand, result)) {
      snprintf(why, why_bytes, "operands of one shape and layout only");
      return false;
    }
  }
  return true;
}

/* Elements per work-item: what the device likes; a remainder is done one by one by the last work-item. */
static uint32_t width_of(const braid_cl_traits *traits) {
  uint32_t wanted = traits->knob_simd ? traits->knob_simd : traits->vector_width, width = 1;
  while (width < 16 && width * 2 <= wanted) width *= 2;
  return width;
}

static braid_status plan(const braid_cl_traits *traits, const braid_node_desc *node, braid_cl_recipe *recipe) {
  const function *wanted = find(node->op);
  uint32_t width = width_of(traits);
  size_t count = braid_desc_bytes(&node->outputs[0].desc) / sizeof(float), position = 0;
  braid_cl_launch *launch = &recipe->launches[recipe->launch_count++];
  *launch = (braid_cl_launch){.source = "elementwise",
                              .function = "elementwise",
                              .dimensions = 1,
                              .global = {(count + width - 1) / width},
                              .argument_count = wanted->operands + 2};
  snprintf(launch->options, sizeof launch->options, "-DWIDTH=%u -DOPERANDS=%zu -DFUNCTION=%s", width, wanted->operands,
           wanted->function);
  for (; position <= wanted->operands; position++)
    launch->arguments[position] = (braid_cl_argument){.kind = BRAID_CL_OPERAND, .index = (uint32_t)position};
  launch->arguments[position] = (braid_cl_argument){.kind = BRAID_CL_LONG, .integer = (int64_t)count};
  return BRAID_OK;
}

static const braid_cl_kernel kPlan = {.plan = plan};

#define ELEMENTWISE(function, reuse)                                                                                   \
  { .op = function, .name = "cl_elementwise", .match = match, .in_place = reuse, .implementation = &kPlan }
static const braid_kernel kKernels[] = {
    ELEMENTWISE("Identity", 1), ELEMENTWISE("Relu", 1), ELEMENTWISE("Neg", 1),
    ELEMENTWISE("Add", 3),      ELEMENTWISE("Sub", 3),  ELEMENTWISE("Mul", 3),
};

const braid_cl_family braid_cl_elementwise = {kKernels, sizeof kKernels / sizeof *kKernels};
