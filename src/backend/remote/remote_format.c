#include "backend/remote/remote_format.h"

#include <stdio.h>
#include <string.h>

void braid_remote_refuse(braid_wire_reader *reader, const char *why) {
  if (!reader->wrong) reader->wrong = why;
  reader->at = reader->bytes;
}

const uint8_t *braid_remote_get_bytes(braid_wire_reader *reader, uint64_t bytes) {
  if (bytes > reader->bytes - reader->at) {
    braid_remote_refuse(reader, "the message ends within its data");
    return NULL;
  }
  reader->at += (size_t)bytes;
  return reader->data + reader->at - bytes;
}

size_t braid_remote_get_count(braid_wire_reader *reader, size_t bytes, size_t most, size_t least) {
  uint64_t count = braid_wire_get_number(reader, bytes);
  if (count <= most && count <= (reader->bytes - reader->at) / least) return (size_t)count;
  braid_remote_refuse(reader, count > most ? "a count is over its limit" : "a count is more than the message holds");
  return 0;
}

const char *braid_remote_get_header(const uint8_t *bytes, braid_wire_header *out) {
  braid_wire_reader reader = {.data = bytes, .bytes = BRAID_WIRE_HEADER};
  uint64_t magic = braid_wire_get_number(&reader, 4);
  out->kind = (uint16_t)braid_wire_get_number(&reader, 2);
  uint64_t reserved = braid_wire_get_number(&reader, 2);
  out->id = braid_wire_get_number(&reader, 8);
  out->bytes = braid_wire_get_number(&reader, 8);
  unsigned kind = out->kind & ~(unsigned)BRAID_WIRE_REPLY;
  if (magic != BRAID_WIRE_MAGIC) return "this is no message of Braid's protocol: it begins with BRD1";
  if (kind < BRAID_REMOTE_KERNELS || kind >= BRAID_REMOTE_END) return "a device has no message of this kind";
  return reserved ? "the reserved field of the header is not 0" : NULL;
}

braid_status braid_remote_get_status(braid_wire_reader *reader, char detail[BRAID_WIRE_DETAIL]) {
  uint64_t status = braid_wire_get_number(reader, 2);
  braid_wire_get_text(reader, detail, BRAID_WIRE_DETAIL);
  return status <= BRAID_TORN && !reader->wrong ? (braid_status)status : BRAID_INTERNAL;
}

/* --- the device ----------------------------------------------------------------------------------------------------
 */
void braid_remote_put_open(braid_wire_writer *writer, const braid_remote_open *open) {
  braid_wire_put_number(writer, open->version, 4); /* stays first in all versions */
  braid_wire_put_text(writer, open->device);
}

const char *braid_remote_get_open(braid_wire_reader *reader, braid_remote_open *out) {
  out->device[0] = '\0';
  out->version = (uint32_t)braid_wire_get_number(reader, 4);
  if (out->version != BRAID_REMOTE_VERSION) return reader->wrong; /* what follows is another version's */
  braid_wire_get_text(reader, out->device, sizeof out->device);
  return braid_wire_finish(reader);
}

void braid_remote_put_device(braid_wire_writer *writer, const braid_remote_device *device) {
  const braid_device_info *info = &device->info;
  braid_wire_put_text(writer, info->name);
  braid_wire_put_text(writer, info->kind);
  braid_wire_put_text(writer, info->description);
  braid_wire_put_text(writer, info->software);
  braid_wire_put_text(writer, info->lacks);
  braid_wire_put_number(writer, info->compute_units, 4);
  braid_wire_put_number(writer, info->memory_bytes, 8);
  braid_wire_put_number(writer, info->alignment, 8);
  braid_wire_put_number(writer, (info->measures_time ? 1u : 0u) | (info->modelled ? 2u : 0u), 1);
  braid_wire_put_number(writer, device->max_body, 8);
  braid_wire_put_number(writer, device->max_bytes, 8);
}

const char *braid_remote_get_device(braid_wire_reader *reader, braid_remote_device *out) {
  enum { kMostAlignment = 1 << 20 };
  braid_device_info *info = &out->info;
  *info = (braid_device_info){.memory = BRAID_MEMORY_SEPARATE, .max_queues = 1};
  braid_wire_get_text(reader, info->name, sizeof info->name);
  braid_wire_get_text(reader, info->kind, sizeof info->kind);
  braid_wire_get_text(reader, info->description, sizeof info->description);
  braid_wire_get_text(reader, info->software, sizeof info->software);
  braid_wire_get_text(reader, info->lacks, sizeof info->lacks);
  info->compute_units = (uint32_t)braid_wire_get_number(reader, 4);
  info->memory_bytes = braid_wire_get_number(reader, 8);
  uint64_t alignment = braid_wire_get_number(reader, 8);
  unsigned flags = (unsigned)braid_wire_get_number(reader, 1);
  info->alignment = (size_t)alignment;
  info->measures_time = flags & 1;
  info->modelled = flags & 2;
  out->max_body = braid_wire_get_number(reader, 8);
  out->max_bytes = braid_wire_get_number(reader, 8);
  if (!alignment || alignment > kMostAlignment || (alignment & (alignment - 1)))
    braid_remote_refuse(reader, "the device's alignment is no power of two up to 1 MiB");
  if (out->max_body < BRAID_WIRE_SMALL) braid_remote_refuse(reader, "the daemon takes no messages of 16 KiB");
  if (flags > 3) braid_remote_refuse(reader, "there is no such property of a device");
  return braid_wire_finish(reader);
}

void braid_remote_put_kernel(braid_wire_writer *writer, const braid_kernel *kernel, uint32_t flags) {
  braid_wire_put_text(writer, kernel->op);
  braid_wire_put_text(writer, kernel->name);
  braid_wire_put_number(writer, kernel->in_place, 4);
  for (size_t i = 0; i < 3; i++) braid_wire_put_number(writer, kernel->in_place_more[i], 4);
  braid_wire_put_number(writer, flags, 1);
}

void braid_remote_get_kernel(braid_wire_reader *reader, braid_remote_kernel *out) {
  braid_wire_get_text(reader, out->op, sizeof out->op);
  braid_wire_get_text(reader, out->name, sizeof out->name);
  for (size_t i = 0; i < 4; i++) out->in_place[i] = (uint32_t)braid_wire_get_number(reader, 4);
  out->flags = (uint32_t)braid_wire_get_number(reader, 1);
  if (!out->op[0] || !out->name[0]) braid_remote_refuse(reader, "a kernel has no op or no name");
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
void braid_remote_put_desc(braid_wire_writer *writer, const braid_desc *desc) {
  braid_wire_put_number(writer, (unsigned)desc->dtype, 1);
  braid_wire_put_number(writer, (unsigned)desc->rank, 1);
  braid_wire_put_number(writer, desc->layout, 8);
  for (int i = 0; i < desc->rank; i++) braid_wire_put_number(writer, (uint64_t)desc->dims[i], 8);
}

void braid_remote_get_desc(braid_wire_reader *reader, bool any, braid_desc *out) {
  unsigned dtype = (unsigned)braid_wire_get_number(reader, 1), rank = (unsigned)braid_wire_get_number(reader, 1);
  braid_layout layout = braid_wire_get_number(reader, 8);
  int64_t dims[BRAID_MAX_RANK] = {0};
  *out = (braid_desc){.dtype = BRAID_U8};
  if (rank > BRAID_MAX_RANK || dtype == BRAID_NONE || dtype >= BRAID_DTYPE_COUNT) {
    braid_remote_refuse(reader, "a tensor has no such type, or more than 8 dimensions");
    return;
  }
  for (unsigned i = 0; i < rank; i++) dims[i] = (int64_t)braid_wire_get_number(reader, 8);
  if (reader->wrong) return;
  if (braid_desc_init(out, (braid_dtype)dtype, (int)rank, dims) != BRAID_OK) {
    *out = (braid_desc){.dtype = BRAID_U8};
    braid_remote_refuse(reader, "a tensor's dimensions are negative, or too large");
  } else if (any && layout == BRAID_LAYOUT_ANY) {
    out->layout = layout;
  } else if (braid_desc_set_layout(out, layout) != BRAID_OK) {
    out->layout = BRAID_LAYOUT_PLAIN;
    braid_remote_refuse(reader, "a tensor's layout is none, or not for its shape");
  }
}

size_t braid_remote_plain_bytes(const braid_desc *desc) {
  braid_desc plain = *desc;
  plain.layout = BRAID_LAYOUT_PLAIN;
  return braid_desc_bytes(&plain);
}

void braid_remote_put_operand(braid_wire_writer *writer, const braid_operand *operand, uint32_t blob) {
  unsigned flags = !operand->present ? 0u
                                     : BRAID_REMOTE_PRESENT | (operand->constant ? BRAID_REMOTE_CONSTANT : 0u) |
                                           (blob ? BRAID_REMOTE_IS_BLOB : 0u);
  braid_wire_put_number(writer, flags, 1);
  if (!flags) return;
  braid_remote_put_desc(writer, &operand->desc);
  if (blob)
    braid_wire_put_number(writer, blob, 4);
  else if (operand->constant)
    braid_wire_put(writer, operand->constant, braid_remote_plain_bytes(&operand->desc));
}

void braid_remote_get_operand(braid_wire_reader *reader, braid_remote_operand *out) {
  *out = (braid_remote_operand){.flags = (uint8_t)braid_wire_get_number(reader, 1)};
  if (!out->flags) return;
  bool constant = out->flags & BRAID_REMOTE_CONSTANT, blob = out->flags & BRAID_REMOTE_IS_BLOB;
  if (out->flags > 7 || !(out->flags & BRAID_REMOTE_PRESENT) || (blob && !constant)) {
    braid_remote_refuse(reader, "an operand's flags contradict each other");
    return;
  }
  braid_remote_get_desc(reader, true, &out->desc);
  if (reader->wrong) return;
  if (blob)
    out->blob = (uint32_t)braid_wire_get_number(reader, 4);
  else if (constant)
    out->content = braid_remote_get_bytes(reader, braid_remote_plain_bytes(&out->desc));
}

static void put_string(braid_wire_writer *writer, const char *text) {
  size_t length = strlen(text);
  braid_wire_put_number(writer, length, 4);
  braid_wire_put(writer, text, length);
}

void braid_remote_put_attr(braid_wire_writer *writer, const braid_attr *attr) {
  braid_wire_put_text(writer, attr->name);
  braid_wire_put_number(writer, (unsigned)attr->kind, 1);
  uint64_t bits;
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    braid_wire_put_number(writer, (uint64_t)attr->i, 8);
    break;
  case BRAID_ATTR_FLOAT:
    memcpy(&bits, &attr->f, sizeof bits);
    braid_wire_put_number(writer, bits, 8);
    break;
  case BRAID_ATTR_STRING:
    put_string(writer, attr->s);
    break;
  case BRAID_ATTR_INTS:
    braid_wire_put_number(writer, attr->count, 4);
    for (size_t i = 0; i < attr->count; i++) braid_wire_put_number(writer, (uint64_t)attr->ints[i], 8);
    break;
  case BRAID_ATTR_FLOATS:
    braid_wire_put_number(writer, attr->count, 4);
    braid_wire_put(writer, attr->floats, attr->count * sizeof *attr->floats);
    break;
  case BRAID_ATTR_STRINGS:
    braid_wire_put_number(writer, attr->count, 4);
    for (size_t i = 0; i < attr->count; i++) put_string(writer, attr->strings[i]);
    break;
  case BRAID_ATTR_TENSOR:
    braid_remote_put_desc(writer, braid_tensor_desc(attr->tensor));
    braid_wire_put(writer, braid_tensor_const_data(attr->tensor), braid_desc_bytes(braid_tensor_desc(attr->tensor)));
    break;
  }
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
void braid_remote_put_binding(braid_wire_writer *writer, const braid_remote_binding *binding) {
  braid_wire_put_number(writer, binding->buffer, 4);
  braid_wire_put_number(writer, binding->offset, 8);
  braid_wire_put_number(writer, binding->bytes, 8);
}

void braid_remote_get_binding(braid_wire_reader *reader, braid_remote_binding *out) {
  out->buffer = (uint32_t)braid_wire_get_number(reader, 4);
  out->offset = braid_wire_get_number(reader, 8);
  out->bytes = braid_wire_get_number(reader, 8);
}

void braid_remote_put_task(braid_wire_writer *writer, const braid_remote_task *task) {
  braid_wire_put_number(writer, task->kind, 1);
  braid_wire_put_text(writer, task->label);
  braid_wire_put_number(writer, task->ports, 8);
  if (task->kind != BRAID_TASK_KERNEL) return;
  braid_wire_put_number(writer, task->prepared, 4);
  braid_wire_put_number(writer, task->input_count, 2);
  braid_wire_put_number(writer, task->output_count, 2);
}

void braid_remote_get_task(braid_wire_reader *reader, braid_remote_task *out) {
  out->kind = (uint8_t)braid_wire_get_number(reader, 1);
  braid_wire_get_text(reader, out->label, sizeof out->label);
  out->ports = braid_wire_get_number(reader, 8);
  out->prepared = 0;
  out->input_count = out->output_count = 0;
  if (out->kind > BRAID_TASK_COPY) braid_remote_refuse(reader, "there is no kind of task of this number");
  if (out->kind != BRAID_TASK_KERNEL) return;
  out->prepared = (uint32_t)braid_wire_get_number(reader, 4);
  out->input_count = (uint16_t)braid_wire_get_number(reader, 2);
  out->output_count = (uint16_t)braid_wire_get_number(reader, 2);
  if (out->input_count > BRAID_REMOTE_OPERANDS || out->output_count > BRAID_REMOTE_OPERANDS)
    braid_remote_refuse(reader, "a task has too many operands");
}

size_t braid_remote_binding_count(const braid_remote_task *task) {
  if (task->kind == BRAID_TASK_KERNEL) return (size_t)task->input_count + task->output_count + 1;
  return task->kind == BRAID_TASK_COPY ? 2 : 1;
}

bool braid_remote_is_port(const braid_remote_task *task, size_t binding) {
  return task->ports >> (binding < 63 ? binding : 63) & 1;
}

void braid_remote_put_write(braid_wire_writer *writer, const braid_remote_write *write) {
  braid_wire_put_number(writer, write->source, 1);
  if (write->source == BRAID_REMOTE_FROM_BLOB) braid_wire_put_number(writer, write->blob, 4);
}

void braid_remote_get_write(braid_wire_reader *reader, braid_remote_write *out) {
  *out = (braid_remote_write){.source = (uint8_t)braid_wire_get_number(reader, 1)};
  if (out->source > BRAID_REMOTE_FROM_BLOB) braid_remote_refuse(reader, "a write's bytes come from nowhere");
  if (out->source == BRAID_REMOTE_FROM_BLOB) out->blob = (uint32_t)braid_wire_get_number(reader, 4);
}

void braid_remote_put_result(braid_wire_writer *writer, const braid_remote_result *result) {
  braid_wire_put_number(writer, (uint64_t)result->arrived_ns, 8);
  braid_wire_put_number(writer, (uint64_t)result->left_ns, 8);
  braid_wire_put_number(writer, result->failed, 4);
  braid_wire_put_status(writer, (unsigned)result->status, result->detail);
  braid_wire_put_number(writer, result->timing_count, 4);
}

const char *braid_remote_get_result(braid_wire_reader *reader, braid_remote_result *out) {
  enum { kTimingBytes = 24 };
  out->arrived_ns = (int64_t)braid_wire_get_number(reader, 8);
  out->left_ns = (int64_t)braid_wire_get_number(reader, 8);
  out->failed = (uint32_t)braid_wire_get_number(reader, 4);
  out->status = braid_remote_get_status(reader, out->detail);
  out->timing_count = (uint32_t)braid_remote_get_count(reader, 4, BRAID_REMOTE_TASKS, kTimingBytes);
  return reader->wrong;
}

void braid_remote_put_timing(braid_wire_writer *writer, const braid_timing *timing) {
  uint64_t bits;
  memcpy(&bits, &timing->energy_uj, sizeof bits);
  braid_wire_put_number(writer, (uint64_t)timing->start_ns, 8);
  braid_wire_put_number(writer, (uint64_t)timing->end_ns, 8);
  braid_wire_put_number(writer, bits, 8);
}

void braid_remote_get_timing(braid_wire_reader *reader, braid_timing *out) {
  out->start_ns = (int64_t)braid_wire_get_number(reader, 8);
  out->end_ns = (int64_t)braid_wire_get_number(reader, 8);
  uint64_t bits = braid_wire_get_number(reader, 8);
  memcpy(&out->energy_uj, &bits, sizeof bits);
}
