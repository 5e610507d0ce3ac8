/* Helpers for the functions that describe an op of TensorFlow as a graph of ours. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin.h"

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
const fpga_attr *fpga_attr_find(const fpga_attr *attrs, const char *name) {
  for (; attrs->name; attrs++)
    if (strcmp(attrs->name, name) == 0) return attrs->count < 0 ? NULL : attrs;
  return NULL;
}

int64_t fpga_attr_int(const fpga_attr *attrs, const char *name, int64_t otherwise) {
  const fpga_attr *attr = fpga_attr_find(attrs, name);
  return attr ? attr->i : otherwise;
}

float fpga_attr_float(const fpga_attr *attrs, const char *name, float otherwise) {
  const fpga_attr *attr = fpga_attr_find(attrs, name);
  return attr ? attr->f : otherwise;
}

const char *fpga_attr_string(const fpga_attr *attrs, const char *name, const char *otherwise) {
  const fpga_attr *attr = fpga_attr_find(attrs, name);
  return attr ? attr->s : otherwise;
}

bool fpga_attr_is(const fpga_attr *attrs, const char *name, const char *value) {
  return strcmp(fpga_attr_string(attrs, name, ""), value) == 0;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
static const struct {
  TF_DataType tf;
  braid_dtype ours;
} kTypes[] = {{TF_FLOAT, BRAID_F32}, {TF_DOUBLE, BRAID_F64}, {TF_HALF, BRAID_F16},   {TF_BFLOAT16, BRAID_BF16},
              {TF_INT8, BRAID_I8},   {TF_INT16, BRAID_I16},  {TF_INT32, BRAID_I32},  {TF_INT64, BRAID_I64},
              {TF_UINT8, BRAID_U8},  {TF_UINT16, BRAID_U16}, {TF_UINT32, BRAID_U32}, {TF_UINT64, BRAID_U64},
              {TF_BOOL, BRAID_BOOL}};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

braid_dtype fpga_dtype(TF_DataType type) {
  for (int i = 0; i < kTypeCount; i++)
    if (kTypes[i].tf == type) return kTypes[i].ours;
  return BRAID_NONE;
}

TF_DataType fpga_tf_dtype(braid_dtype dtype) {
  for (int i = 0; i < kTypeCount; i++)
    if (kTypes[i].ours == dtype) return kTypes[i].tf;
  return TF_FLOAT;
}

/* --- failures ------------------------------------------------------------------------------------------------------
 */
void fpga_fail(fpga_build *b, braid_status status, const char *format, ...) {
  char text[400];
  va_list arguments;
  if (b->status != BRAID_OK) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  b->status = braid_fail(status, "%s", text);
}

static bool build_try(fpga_build *b, braid_status status) {
  if (b->status == BRAID_OK) b->status = status;
  return b->status == BRAID_OK;
}

/* --- inputs --------------------------------------------------------------------------------------------------------
 */
int64_t fpga_host_count(const fpga_build *b, size_t input) {
  return braid_desc_count(&b->inputs[input].desc);
}

int64_t fpga_host_int(fpga_build *b, size_t input, int64_t index) {
  const fpga_input *in = &b->inputs[input];
  if (input >= b->input_count || !in->host || index < 0 || index >= fpga_host_count(b, input)) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu has no element %lld in host memory", input, (long long)index);
    return 0;
  }
  if (in->desc.dtype == BRAID_I64) return ((const int64_t *)in->host)[index];
  if (in->desc.dtype == BRAID_I32) return ((const int32_t *)in->host)[index];
  fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu is %s: expected int32 or int64", input,
            braid_dtype_name(in->desc.dtype));
  return 0;
}

static braid_value_id add_port(fpga_build *b, size_t index, const braid_desc *desc, braid_layout layout) {
  braid_value_id value = -1;
  if (b->status != BRAID_OK) return -1;
  if (b->port_count == FPGA_MAX_OPERANDS) {
    fpga_fail(b, BRAID_OUT_OF_RANGE, "more than %d operands", FPGA_MAX_OPERANDS);
    return -1;
  }
  if (!build_try(b, braid_graph_add_input(b->graph, NULL, desc, &value))) return -1;
  b->ports[b->port_count] = (int)index;
  b->port_layouts[b->port_count++] = layout;
  return value;
}

braid_value_id fpga_in(fpga_build *b, size_t index) {
  if (index >= b->input_count) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu is missing", index);
    return -1;
  }
  fpga_input *in = &b->inputs[index];
  if (in->value >= 0 || b->status != BRAID_OK) return in->value;
  return in->value = add_port(b, index, &in->desc, BRAID_LAYOUT_PLAIN);
}

static braid_layout parse_layout(fpga_build *b, const char *text) {
  braid_layout layout = BRAID_LAYOUT_PLAIN;
  if (text) (void)build_try(b, braid_layout_parse(text, &layout));
  return layout;
}

braid_value_id fpga_in_as(fpga_build *b, size_t index, int rank, const int64_t *dims, const char *layout) {
  braid_desc desc;
  braid_layout order = parse_layout(b, layout);
  if (index >= b->input_count) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu is missing", index);
    return -1;
  }
  if (b->status != BRAID_OK || !build_try(b, braid_desc_init(&desc, b->inputs[index].desc.dtype, rank, dims)))
    return -1;
  if (braid_desc_count(&desc) != braid_desc_count(&b->inputs[index].desc)) {
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu has %lld elements: expected %lld", index,
              (long long)braid_desc_count(&b->inputs[index].desc), (long long)braid_desc_count(&desc));
    return -1;
  }
  return add_port(b, index, &desc, order);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
void fpga_nodes(fpga_build *b, const char *op, size_t count, const braid_value_id *inputs, size_t outputs,
                braid_value_id *out) {
  if (b->status == BRAID_OK)
    (void)build_try(b, braid_graph_add_node(b->graph, op, NULL, inputs, count, out, outputs, &b->node));
}

braid_value_id fpga_node(fpga_build *b, const char *op, size_t count, const braid_value_id *inputs) {
  braid_value_id out = 0;
  fpga_nodes(b, op, count, inputs, 1, &out);
  return b->status == BRAID_OK ? out : -1;
}

void fpga_set_int(fpga_build *b, const char *name, int64_t value) {
  if (b->status == BRAID_OK) (void)build_try(b, braid_graph_set_int(b->graph, b->node, name, value));
}

void fpga_set_float(fpga_build *b, const char *name, double value) {
  if (b->status == BRAID_OK) (void)build_try(b, braid_graph_set_float(b->graph, b->node, name, value));
}

void fpga_set_ints(fpga_build *b, const char *name, const int64_t *values, size_t count) {
  if (b->status == BRAID_OK) (void)build_try(b, braid_graph_set_ints(b->graph, b->node, name, values, count));
}

void fpga_set_string(fpga_build *b, const char *name, const char *value) {
  if (b->status == BRAID_OK) (void)build_try(b, braid_graph_set_string(b->graph, b->node, name, value));
}

static braid_value_id add_constant(fpga_build *b, braid_tensor *tensor) {
  braid_value_id value = -1;
  (void)build_try(b, braid_graph_add_tensor(b->graph, NULL, BRAID_VALUE_CONSTANT, tensor, &value));
  braid_tensor_release(tensor);
  return b->status == BRAID_OK ? value : -1;
}

braid_value_id fpga_scalar(fpga_build *b, braid_dtype dtype, double number) {
  braid_desc desc;
  braid_tensor *tensor;
  if (b->status != BRAID_OK || !build_try(b, braid_desc_init(&desc, dtype, 0, NULL)) ||
      !build_try(b, braid_tensor_create(NULL, &desc, &tensor)))
    return -1;
  braid_tensor_set_f64(tensor, 0, number);
  return add_constant(b, tensor);
}

braid_value_id fpga_ints(fpga_build *b, const int64_t *values, size_t count) {
  braid_desc desc;
  braid_tensor *tensor;
  int64_t dims[] = {(int64_t)count};
  if (b->status != BRAID_OK || !build_try(b, braid_desc_init(&desc, BRAID_I64, 1, dims)) ||
      !build_try(b, braid_tensor_create(NULL, &desc, &tensor)))
    return -1;
  if (count) memcpy(braid_tensor_data(tensor), values, count * sizeof *values);
  return add_constant(b, tensor);
}

braid_value_id fpga_reshape(fpga_build *b, braid_value_id value, int rank, const int64_t *dims) {
  braid_value_id shape = fpga_ints(b, dims, (size_t)rank);
  braid_value_id out = FPGA_NODE(b, "Reshape", value, shape);
  fpga_set_int(b, "allowzero", 1);
  return out;
}

braid_value_id fpga_cast(fpga_build *b, braid_value_id value, braid_dtype dtype) {
  static const struct {
    braid_dtype dtype;
    int onnx;
  } kOnnx[] = {{BRAID_F32, 1},  {BRAID_U8, 2},   {BRAID_I8, 3},   {BRAID_U16, 4},  {BRAID_I16, 5},
               {BRAID_I32, 6},  {BRAID_I64, 7},  {BRAID_BOOL, 9}, {BRAID_F16, 10}, {BRAID_F64, 11},
               {BRAID_U32, 12}, {BRAID_U64, 13}, {BRAID_BF16, 16}};
  if (b->status != BRAID_OK || fpga_desc(b, value).dtype == dtype) return value;
  for (size_t i = 0; i < sizeof kOnnx / sizeof *kOnnx; i++) {
    if (kOnnx[i].dtype != dtype) continue;
    braid_value_id out = FPGA_NODE(b, "Cast", value);
    fpga_set_int(b, "to", kOnnx[i].onnx);
    return out;
  }
  fpga_fail(b, BRAID_UNSUPPORTED, "a conversion to %s", braid_dtype_name(dtype));
  return -1;
}

braid_desc fpga_desc(fpga_build *b, braid_value_id value) {
  if (b->status == BRAID_OK) {
    braid_desc desc = braid_graph_value(b->graph, value).desc;
    if (desc.dtype != BRAID_NONE && desc.rank >= 0) return desc;
    /* What does not fit together is told when the graph is resolved. */
    if (build_try(b, braid_graph_add_output(b->graph, value)) && build_try(b, braid_resolve(b->graph)))
      fpga_fail(b, BRAID_UNSUPPORTED, "a shape depends on contents that are not in host memory");
  }
  return (braid_desc){.dtype = BRAID_F32};
}

/* --- outputs -------------------------------------------------------------------------------------------------------
 */
void fpga_out_as(fpga_build *b, size_t index, braid_value_id value, int rank, const int64_t *dims, const char *layout) {
  braid_desc desc = fpga_desc(b, value);
  fpga_output *out = &b->outputs[index];
  if (b->status != BRAID_OK || index >= b->output_count) return;
  *out = (fpga_output){.rank = rank, .dtype = fpga_tf_dtype(desc.dtype)};
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= out->dims[i] = dims[i];
  if (count != braid_desc_count(&desc)) {
    char text[128];
    fpga_fail(b, BRAID_INTERNAL, "output %zu is %s, which has not the %lld elements wanted", index,
              braid_desc_format(&desc, text, sizeof text), (long long)count);
    return;
  }
  b->results[index] = value;
  b->result_layouts[index] = parse_layout(b, layout);
  b->given[index] = true;
}

void fpga_out(fpga_build *b, size_t index, braid_value_id value) {
  braid_desc desc = fpga_desc(b, value);
  fpga_out_as(b, index, value, desc.rank, desc.dims, NULL);
}

void fpga_out_shared(fpga_build *b, size_t index, size_t input, int rank, const int64_t *dims) {
  fpga_output *out = &b->outputs[index];
  *out = (fpga_output){.rank = rank, .dtype = fpga_tf_dtype(b->inputs[input].desc.dtype)};
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= out->dims[i] = dims[i];
  if (count != braid_desc_count(&b->inputs[input].desc))
    fpga_fail(b, BRAID_INVALID_ARGUMENT, "input %zu has %lld elements, not %lld", input,
              (long long)braid_desc_count(&b->inputs[input].desc), (long long)count);
  b->share[index] = (int)input;
  b->given[index] = true;
}
