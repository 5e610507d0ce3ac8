/* The second half of infer_read.h: values, from the message or from shared memory, into the request's tensors. */
#include <string.h>

#include "serve/grpc/infer_read.h"

/* InferTensorContents: the field that values of a type are in, and their limits. */
typedef struct typed_contents {
  braid_dtype dtype;
  uint64_t field;
  const char *name;
  int64_t least, most; /* of integers in a field that is wider than they are */
} typed_contents;

static const typed_contents kTyped[] = {
    {BRAID_BOOL, 1, "bool_contents", 0, 0},
    {BRAID_I8, 2, "int_contents", INT8_MIN, INT8_MAX},
    {BRAID_I16, 2, "int_contents", INT16_MIN, INT16_MAX},
    {BRAID_I32, 2, "int_contents", INT32_MIN, INT32_MAX},
    {BRAID_I64, 3, "int64_contents", 0, 0},
    {BRAID_U8, 4, "uint_contents", 0, UINT8_MAX},
    {BRAID_U16, 4, "uint_contents", 0, UINT16_MAX},
    {BRAID_U32, 4, "uint_contents", 0, UINT32_MAX},
    {BRAID_U64, 5, "uint64_contents", 0, 0},
    {BRAID_F32, 6, "fp32_contents", 0, 0},
    {BRAID_F64, 7, "fp64_contents", 0, 0},
};
enum { LAST_TYPED = 8 }; /* bytes_contents */

/* Values that are being written into a tensor. */
typedef struct typed_target {
  braid_serve_request *request;
  const typed_contents *typed;
  const char *name;
  char *data;
  size_t size, count, filled; /* elements: bytes of one, how many there are, and are written */
} typed_target;

static braid_serve_verdict fill_miscounted(const typed_target *target) {
  return braid_serve_refuse(target->request, BRAID_SERVE_INVALID,
                            "input %s has %zu elements by its shape, not as many as in %s", target->name, target->count,
                            target->typed->name);
}

/* Numbers of a fixed width are in the message as in memory: numbers that lie together are copied together. */
static braid_serve_verdict fill_fixed(typed_target *target, braid_wire *wire, size_t bytes) {
  size_t count = bytes / target->size;
  if (bytes % target->size || count > target->count - target->filled) return fill_miscounted(target);
  if (!braid_wire_copy(wire, target->data + target->filled * target->size, bytes)) return fill_miscounted(target);
  target->filled += count;
  return BRAID_SERVE_DONE;
}

static braid_serve_verdict fill_varint(typed_target *target, braid_wire *wire) {
  uint64_t value;
  const typed_contents *typed = target->typed;
  if (!braid_wire_varint(wire, &value))
    return braid_serve_refuse(target->request, BRAID_SERVE_INVALID, "input %s: a number in %s is broken off",
                              target->name, typed->name);
  if (target->filled == target->count) return fill_miscounted(target);
  if (typed->least) value = (uint64_t)(int64_t)(int32_t)value; /* int32, as protocol buffers read it */
  if (typed->field == 4) value = (uint32_t)value;
  if (typed->dtype == BRAID_BOOL) value = value != 0;
  if (typed->most && ((int64_t)value < typed->least || (int64_t)value > typed->most))
    return braid_serve_refuse(target->request, BRAID_SERVE_INVALID, "input %s: %lld in %s is no %s", target->name,
                              (long long)value, typed->name, braid_serve_dtype_name(typed->dtype));
  memcpy(target->data + target->filled++ * target->size, &value, target->size); /* little endian */
  return BRAID_SERVE_DONE;
}

static braid_serve_verdict fill_field(typed_target *target, braid_wire *contents, braid_wire_kind kind) {
  braid_wire part;
  bool floats = target->typed->field == 6 || target->typed->field == 7;
  braid_wire_kind one = !floats ? BRAID_WIRE_VARINT : target->size == 4 ? BRAID_WIRE_32 : BRAID_WIRE_64;
  if (kind == one) return floats ? fill_fixed(target, contents, target->size) : fill_varint(target, contents);
  if (kind != BRAID_WIRE_PART || !braid_wire_part(contents, &part))
    return braid_serve_refuse(target->request, BRAID_SERVE_INVALID, "input %s: %s is not as the protocol has it",
                              target->name, target->typed->name);
  if (floats) return fill_fixed(target, &part, part.left);
  braid_serve_verdict verdict = BRAID_SERVE_DONE;
  while (part.left && verdict == BRAID_SERVE_DONE) verdict = fill_varint(target, &part);
  return verdict;
}

static braid_serve_verdict fill_typed(const braid_grpc_input *input, braid_serve_tensor *tensor,
                                      braid_serve_request *request) {
  const typed_contents *typed = NULL;
  for (size_t i = 0; i < sizeof kTyped / sizeof *kTyped; i++)
    if (kTyped[i].dtype == tensor->dtype) typed = &kTyped[i];
  if (!typed)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID,
                              "input %s: values of type %s come in raw_input_contents only", input->name, input->type);
  size_t size = braid_dtype_size(tensor->dtype);
  typed_target target = {request, typed, input->name, tensor->data, size, tensor->bytes / size, 0};
  braid_wire contents = input->contents;
  while (contents.left) {
    uint64_t field;
    braid_wire_kind kind;
    braid_serve_verdict verdict = BRAID_SERVE_DONE;
    if (!braid_wire_field(&contents, &field, &kind))
      return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: broken contents", input->name);
    if (field == typed->field)
      verdict = fill_field(&target, &contents, kind);
    else if (field <= LAST_TYPED)
      verdict = braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s of type %s has its values in %s",
                                   input->name, input->type, typed->name);
    else if (!braid_wire_skip_field(&contents, kind))
      verdict = braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: broken contents", input->name);
    if (verdict != BRAID_SERVE_DONE) return verdict;
  }
  return target.filled == target.count ? BRAID_SERVE_DONE : fill_miscounted(&target);
}

static braid_serve_verdict fill_raw(const braid_grpc_input *input, braid_wire raw, braid_serve_tensor *tensor,
                                    braid_serve_request *request) {
  if (raw.left != tensor->bytes)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID,
                              "input %s has %zu bytes by its shape, and %zu in raw_input_contents", input->name,
                              tensor->bytes, raw.left);
  if (!braid_wire_copy(&raw, tensor->data, tensor->bytes))
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: broken raw_input_contents", input->name);
  return BRAID_SERVE_DONE;
}

static braid_serve_verdict fill_shared(const braid_grpc_input *input, braid_serve_regions *regions,
                                       braid_serve_tensor *tensor, braid_serve_request *request) {
  const braid_grpc_memory *memory = &input->memory;
  if (memory->bytes != tensor->bytes)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID,
                              "input %s has %zu bytes by its shape, and a shared_memory_byte_size of %llu", input->name,
                              tensor->bytes, (unsigned long long)memory->bytes);
  return request->verdict = braid_serve_region_read(regions, request->tenant, memory->region, memory->offset,
                                                    tensor->data, tensor->bytes, request->detail);
}

/* A bool is one byte, 0 or 1, and kernels rely on it. */
static braid_serve_verdict fill_check_bools(const braid_grpc_input *input, const braid_serve_tensor *tensor,
                                            braid_serve_request *request) {
  const uint8_t *bytes = tensor->data;
  uint8_t seen = 0;
  if (tensor->dtype != BRAID_BOOL) return BRAID_SERVE_DONE;
  for (size_t i = 0; i < tensor->bytes; i++) seen |= bytes[i];
  if (seen <= 1) return BRAID_SERVE_DONE;
  return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s of type BOOL has bytes that are neither 0 nor 1",
                            input->name);
}

/* *raw: the next of raw_input_contents, which tensors in shared memory have none of. */
static braid_serve_verdict fill_input(const braid_grpc_infer *infer, const braid_grpc_input *input, size_t *raw,
                                      braid_serve_regions *regions, braid_serve_request *request) {
  braid_dtype dtype;
  braid_serve_tensor *tensor;
  if (!braid_serve_dtype_find(input->type, &dtype))
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s: no model here takes the type \"%s\"",
                              input->name, input->type);
  braid_serve_verdict verdict =
      braid_serve_request_input(request, input->name, dtype, input->rank, input->dims, &tensor);
  if (verdict != BRAID_SERVE_DONE) return verdict;
  if (input->contents.left && (input->memory.given || infer->raw_count))
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s has its values twice: in contents, and in %s",
                              input->name, input->memory.given ? "shared memory" : "raw_input_contents");
  if (input->memory.given)
    verdict = fill_shared(input, regions, tensor, request);
  else if (!infer->raw_count)
    verdict = fill_typed(input, tensor, request);
  else if (*raw < infer->raw_count)
    verdict = fill_raw(input, infer->raw[(*raw)++], tensor, request);
  else
    verdict = braid_serve_refuse(request, BRAID_SERVE_INVALID, "input %s has no raw_input_contents", input->name);
  return verdict != BRAID_SERVE_DONE ? verdict : fill_check_bools(input, tensor, request);
}

braid_serve_verdict braid_grpc_infer_fill(braid_grpc_infer *infer, braid_serve_regions *regions,
                                          braid_serve_request *request) {
  size_t raw = 0;
  request->priority = infer->priority;
  for (size_t i = 0; i < infer->output_count; i++) {
    braid_grpc_output *output = &infer->outputs[i];
    uint64_t before = request->wanted;
    braid_serve_verdict verdict = braid_serve_request_output(request, output->name, &output->port);
    if (verdict != BRAID_SERVE_DONE) return verdict;
    if (request->wanted == before)
      return braid_serve_refuse(request, BRAID_SERVE_INVALID, "output %s is asked for twice", output->name);
  }
  for (size_t i = 0; i < infer->input_count; i++) {
    braid_serve_verdict verdict = fill_input(infer, &infer->inputs[i], &raw, regions, request);
    if (verdict != BRAID_SERVE_DONE) return verdict;
  }
  if (raw < infer->raw_count)
    return braid_serve_refuse(request, BRAID_SERVE_INVALID, "%zu raw_input_contents for %zu inputs", infer->raw_count,
                              raw);
  return BRAID_SERVE_DONE;
}
