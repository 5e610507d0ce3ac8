#include "serve/grpc/infer_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An entry of a map<string, InferParameter>. */
typedef struct infer_parameter {
  char key[32]; /* "" where it is longer than any that we know */
  bool is_number, is_text;
  int64_t number; /* bool, int64, uint64; the last up to INT64_MAX */
  braid_wire text;
} infer_parameter;

/* What the parameters of a message are for. */
typedef bool parameter_use(braid_grpc_infer *infer, void *owner, const infer_parameter *parameter);

BRAID_PRINTF(2, 3) static bool infer_refuse(braid_grpc_infer *infer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(infer->detail, sizeof infer->detail, format, arguments);
  va_end(arguments);
  return false;
}

static bool infer_broken(braid_grpc_infer *infer, const char *what) {
  return infer_refuse(infer, "%s is not a message as the protocol has it", what);
}

/* A field that holds a string, copied. */
static bool read_text(braid_grpc_infer *infer, braid_wire *wire, braid_wire_kind kind, const char *what, char *to,
                      size_t room) {
  if (kind == BRAID_WIRE_PART && braid_wire_string(wire, to, room)) return true;
  return infer_refuse(infer, "%s must be a string of at most %zu bytes", what, room - 1);
}

/* InferParameter. */
static bool read_value(braid_wire value, infer_parameter *out) {
  uint64_t number, field;
  braid_wire_kind kind;
  while (value.left) {
    if (!braid_wire_field(&value, &field, &kind)) return false;
    bool counts = field == 1 || field == 2 || field == 5;
    if (counts && kind == BRAID_WIRE_VARINT) {
      if (!braid_wire_varint(&value, &number)) return false;
      out->is_number = field != 5 || number <= INT64_MAX;
      out->number = (int64_t)number;
    } else if (field == 3 && kind == BRAID_WIRE_PART) {
      if (!braid_wire_part(&value, &out->text)) return false;
      out->is_text = true;
    } else if (!braid_wire_skip_field(&value, kind)) {
      return false;
    }
  }
  return true;
}

static bool read_parameter(braid_grpc_infer *infer, braid_wire *wire, braid_wire_kind kind, parameter_use *use,
                           void *owner) {
  infer_parameter parameter = {0};
  braid_wire entry, part;
  uint64_t field;
  if (kind != BRAID_WIRE_PART || !braid_wire_part(wire, &entry)) return infer_broken(infer, "a parameter");
  while (entry.left) {
    if (!braid_wire_field(&entry, &field, &kind)) return infer_broken(infer, "a parameter");
    bool ours = (field == 1 || field == 2) && kind == BRAID_WIRE_PART;
    if (!(ours ? braid_wire_part(&entry, &part) : braid_wire_skip_field(&entry, kind)))
      return infer_broken(infer, "a parameter");
    if (!ours) continue;
    if (field == 2) {
      if (!read_value(part, &parameter)) return infer_broken(infer, "a parameter's value");
      continue;
    }
    size_t length = part.left < sizeof parameter.key ? part.left : 0;
    parameter.key[length] = '\0';
    if (!braid_wire_copy(&part, parameter.key, length)) return infer_broken(infer, "a parameter's name");
  }
  return use(infer, owner, &parameter);
}

/* Shared memory of inputs and outputs. */
static bool use_memory(braid_grpc_infer *infer, braid_grpc_memory *memory, const infer_parameter *parameter,
                       bool *out_used) {
  *out_used = true;
  if (!strcmp(parameter->key, "shared_memory_region")) {
    braid_wire text = parameter->text;
    size_t length = text.left;
    if (!parameter->is_text || length >= sizeof memory->region || !braid_wire_copy(&text, memory->region, length))
      return infer_refuse(infer, "shared_memory_region must be a string of at most %zu bytes",
                          sizeof memory->region - 1);
    memory->region[length] = '\0';
    memory->given = true;
    return true;
  }
  uint64_t *number = NULL;
  if (!strcmp(parameter->key, "shared_memory_offset")) number = &memory->offset;
  if (!strcmp(parameter->key, "shared_memory_byte_size")) number = &memory->bytes;
  *out_used = number;
  if (!number) return true;
  if (!parameter->is_number || parameter->number < 0)
    return infer_refuse(infer, "%s must be a whole number of bytes", parameter->key);
  *number = (uint64_t)parameter->number;
  return true;
}

static bool use_of_input(braid_grpc_infer *infer, void *owner, const infer_parameter *parameter) {
  bool used;
  return use_memory(infer, &((braid_grpc_input *)owner)->memory, parameter, &used);
}

static bool use_of_output(braid_grpc_infer *infer, void *owner, const infer_parameter *parameter) {
  bool used;
  if (!use_memory(infer, &((braid_grpc_output *)owner)->memory, parameter, &used)) return false;
  if (!used && !strcmp(parameter->key, "classification") && (!parameter->is_number || parameter->number))
    return infer_refuse(infer, "classification of outputs is not supported: ask for the output itself");
  return true;
}

static bool use_of_request(braid_grpc_infer *infer, void *owner, const infer_parameter *parameter) {
  (void)owner;
  if (!strcmp(parameter->key, "timeout")) {
    if (!parameter->is_number || parameter->number < 0)
      return infer_refuse(infer, "timeout must be a whole number of microseconds");
    infer->timeout_us = parameter->number;
  } else if (!strcmp(parameter->key, "priority")) {
    if (!parameter->is_number || parameter->number < 0 || parameter->number > 9)
      return infer_refuse(infer, "priority must be 1, the most urgent, to 9, or 0 for the tenant's");
    infer->priority = (int)parameter->number;
  } else if (!strcmp(parameter->key, "explain")) {
    infer->explain = parameter->is_number && parameter->number;
  } else if (!strcmp(parameter->key, "sequence_id")) {
    return infer_refuse(infer, "sequences are not supported: models keep nothing from one request to the next");
  }
  return true;
}

/* Packed or not. */
static bool read_shape(braid_grpc_infer *infer, braid_wire *wire, braid_wire_kind kind, braid_grpc_input *input) {
  braid_wire part;
  uint64_t value;
  if (kind == BRAID_WIRE_VARINT) { /* one dimension */
    part = *wire;
    if (!braid_wire_varint(wire, &value)) return infer_broken(infer, "a shape");
    part.left -= wire->left;
  } else if (kind != BRAID_WIRE_PART || !braid_wire_part(wire, &part)) {
    return infer_broken(infer, "a shape");
  }
  while (part.left) {
    if (!braid_wire_varint(&part, &value)) return infer_broken(infer, "a shape");
    if (input->rank == BRAID_MAX_RANK)
      return infer_refuse(infer, "a shape has more than %d dimensions", BRAID_MAX_RANK);
    input->dims[input->rank++] = (int64_t)value;
  }
  return true;
}

static bool read_input(braid_grpc_infer *infer, braid_wire *wire) {
  braid_wire message;
  uint64_t field;
  braid_wire_kind kind;
  if (infer->input_count == BRAID_SERVE_PORTS) return infer_refuse(infer, "more than %d inputs", BRAID_SERVE_PORTS);
  braid_grpc_input *input = &infer->inputs[infer->input_count++];
  if (!braid_wire_part(wire, &message)) return infer_broken(infer, "an input");
  while (message.left) {
    if (!braid_wire_field(&message, &field, &kind)) return infer_broken(infer, "an input");
    bool good;
    switch (field) {
    case 1:
      good = read_text(infer, &message, kind, "an input's name", input->name, sizeof input->name);
      break;
    case 2:
      good = read_text(infer, &message, kind, "an input's datatype", input->type, sizeof input->type);
      break;
    case 3:
      good = read_shape(infer, &message, kind, input);
      break;
    case 4:
      good = read_parameter(infer, &message, kind, use_of_input, input);
      break;
    case 5:
      if (input->contents.left) return infer_refuse(infer, "input %s has its contents twice", input->name);
      good = (kind == BRAID_WIRE_PART && braid_wire_part(&message, &input->contents)) ||
             infer_broken(infer, "an input's contents");
      break;
    default:
      good = braid_wire_skip_field(&message, kind) || infer_broken(infer, "an input");
    }
    if (!good) return false;
  }
  return true;
}

static bool read_output(braid_grpc_infer *infer, braid_wire *wire) {
  braid_wire message;
  uint64_t field;
  braid_wire_kind kind;
  if (infer->output_count == BRAID_SERVE_PORTS) return infer_refuse(infer, "more than %d outputs", BRAID_SERVE_PORTS);
  braid_grpc_output *output = &infer->outputs[infer->output_count++];
  if (!braid_wire_part(wire, &message)) return infer_broken(infer, "an output");
  while (message.left) {
    if (!braid_wire_field(&message, &field, &kind)) return infer_broken(infer, "an output");
    bool good;
    if (field == 1)
      good = read_text(infer, &message, kind, "an output's name", output->name, sizeof output->name);
    else if (field == 2)
      good = read_parameter(infer, &message, kind, use_of_output, output);
    else
      good = braid_wire_skip_field(&message, kind) || infer_broken(infer, "an output");
    if (!good) return false;
  }
  return true;
}

static bool read_raw(braid_grpc_infer *infer, braid_wire *wire) {
  if (infer->raw_count == BRAID_SERVE_PORTS)
    return infer_refuse(infer, "more than %d raw_input_contents", BRAID_SERVE_PORTS);
  return braid_wire_part(wire, &infer->raw[infer->raw_count++]) || infer_broken(infer, "raw_input_contents");
}

static bool read_field(braid_grpc_infer *infer, braid_wire *message, uint64_t field, braid_wire_kind kind) {
  if (field >= 4 && field <= 7 && kind != BRAID_WIRE_PART) return infer_broken(infer, "a ModelInferRequest");
  switch (field) {
  case 1:
    return read_text(infer, message, kind, "model_name", infer->model, sizeof infer->model);
  case 2:
    return read_text(infer, message, kind, "model_version", infer->version, sizeof infer->version);
  case 3:
    return read_text(infer, message, kind, "id", infer->id, sizeof infer->id);
  case 4:
    return read_parameter(infer, message, kind, use_of_request, NULL);
  case 5:
    return read_input(infer, message);
  case 6:
    return read_output(infer, message);
  case 7:
    return read_raw(infer, message);
  default:
    return braid_wire_skip_field(message, kind) || infer_broken(infer, "a ModelInferRequest");
  }
}

braid_serve_verdict braid_grpc_infer_read(braid_wire message, braid_grpc_infer *infer) {
  uint64_t field;
  braid_wire_kind kind;
  memset(infer, 0, sizeof *infer);
  while (message.left) {
    bool good = braid_wire_field(&message, &field, &kind) || infer_broken(infer, "a ModelInferRequest");
    if (!good || !read_field(infer, &message, field, kind)) return BRAID_SERVE_INVALID;
  }
  return BRAID_SERVE_DONE;
}
