/* Nodes as questions to the daemon: which kernels take one, in which layouts, with what memory; and kernels prepared
 * for them. Equal questions are asked once: they carry the op's name in place of the node's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/remote/remote.h"
#include "base/detail.h"
#include "base/siphash.h"
#include "base/try.h"
#include "graph/graph.h"

enum { kMostAnswer = 1 << 20, kMostAnswers = 1 << 15, kFirstRoom = 256 };

/* --- writing a node ------------------------------------------------------------------------------------------------
 */
static void put_short(braid_wire_writer *writer, const char *text) {
  char cut[BRAID_WIRE_NAME];
  snprintf(cut, sizeof cut, "%s", text);
  braid_wire_put_text(writer, cut);
}

static braid_status put_operands(remote_device *device, braid_wire_writer *writer, const braid_operand *operands,
                                 size_t count) {
  for (size_t i = 0; i < count; i++) {
    const braid_operand *operand = &operands[i];
    size_t bytes = operand->present && operand->constant ? braid_remote_plain_bytes(&operand->desc) : 0;
    uint32_t blob = 0;
    if (bytes > BRAID_REMOTE_INLINE) BRAID_TRY(remote_blob_get(device, operand->constant, bytes, &blob));
    braid_remote_put_operand(writer, operand, blob);
  }
  return BRAID_OK;
}

/* Into device->question, with the device's lock; constants that the daemon does not have yet are sent before. */
static braid_status put_node(remote_device *device, const braid_node_desc *node, bool named) {
  braid_wire_writer *writer = &device->question;
  size_t attrs = node->attrs ? node->attrs->count : 0;
  if (node->custom || node->region) return braid_fail(BRAID_UNSUPPORTED, "remote devices take ops of ONNX alone");
  if (node->input_count > BRAID_REMOTE_OPERANDS || node->output_count > BRAID_REMOTE_OPERANDS)
    return braid_fail(BRAID_UNSUPPORTED, "a remote device's nodes have up to %d inputs", BRAID_REMOTE_OPERANDS);
  device->stamp++;
  put_short(writer, node->op);
  put_short(writer, named && node->name ? node->name : node->op);
  braid_wire_put_number(writer, (node->training ? 1u : 0u) | (node->packed ? 2u : 0u), 1);
  braid_wire_put_number(writer, node->threads, 4);
  braid_wire_put_number(writer, attrs, 2);
  braid_wire_put_number(writer, node->input_count, 2);
  braid_wire_put_number(writer, node->output_count, 2);
  BRAID_TRY(put_operands(device, writer, node->inputs, node->input_count));
  BRAID_TRY(put_operands(device, writer, node->outputs, node->output_count));
  for (size_t i = 0; i < attrs; i++) braid_remote_put_attr(writer, &node->attrs->items[i]);
  return writer->failed ? braid_fail(BRAID_NO_MEMORY, "no memory for a message") : BRAID_OK;
}

/* --- answers that are remembered -----------------------------------------------------------------------------------
 */
static void answers_clear(remote_device *device) {
  for (size_t i = 0; i < device->answer_room; i++) free(device->answers[i].bytes);
  braid_free(device->allocator, device->answers);
  device->answers = NULL;
  device->answer_count = device->answer_room = 0;
}

void remote_questions_deinit(remote_device *device) {
  answers_clear(device);
  braid_free(device->allocator, device->blobs);
  braid_wire_free(&device->question);
}

/* The place of this question, or the free one where it belongs; there is one. */
static remote_answer *answer_place(remote_answer *answers, size_t room, const uint64_t hash[2]) {
  size_t at = (size_t)hash[0] & (room - 1);
  while (answers[at].bytes && (answers[at].hash[0] != hash[0] || answers[at].hash[1] != hash[1]))
    at = (at + 1) & (room - 1);
  return &answers[at];
}

static bool answers_grow(remote_device *device) {
  if (device->answer_count >= kMostAnswers) answers_clear(device);
  if (device->answer_room && device->answer_count < device->answer_room / 2) return true;
  size_t room = device->answer_room ? 2 * device->answer_room : kFirstRoom;
  remote_answer *answers = braid_zalloc_array(device->allocator, room, sizeof *answers);
  if (!answers) return false;
  for (size_t i = 0; i < device->answer_room; i++)
    if (device->answers[i].bytes) *answer_place(answers, room, device->answers[i].hash) = device->answers[i];
  braid_free(device->allocator, device->answers);
  device->answers = answers;
  device->answer_room = room;
  return true;
}

static remote_answer *answer_keep(remote_device *device, const uint64_t hash[2], const uint8_t *bytes, size_t count) {
  if (!answers_grow(device)) return NULL;
  uint8_t *copy = malloc(count + 1);
  if (!copy) {
    (void)braid_refuse_memory(1, count);
    return NULL;
  }
  memcpy(copy, bytes, count);
  remote_answer *place = answer_place(device->answers, device->answer_room, hash);
  *place = (remote_answer){.hash = {hash[0], hash[1]}, .bytes = copy, .count = count};
  device->answer_count++;
  return place;
}

/* The answer to device->question, as it was when it was asked first. *reader stands in it while the lock is held. */
static braid_status question_ask(remote_device *device, unsigned kind, braid_wire_reader *reader) {
  braid_wire_writer *question = &device->question;
  uint64_t hash[2];
  braid_wire_put_number(question, kind, 2); /* behind its fields, and not sent */
  if (question->failed) return braid_fail(BRAID_NO_MEMORY, "no memory for a message");
  braid_siphash(question->data, question->length, hash);
  question->length -= 2;
  remote_answer *known =
      device->answer_room ? answer_place(device->answers, device->answer_room, hash) : (remote_answer *)NULL;
  if (!known || !known->bytes) {
    remote_begin(&device->channel, kind);
    struct iovec part = {question->data, question->length};
    braid_status status = remote_ask(&device->channel, &part, 1, kMostAnswer, NULL, reader);
    known = NULL;
    if (status == BRAID_OK) known = answer_keep(device, hash, reader->data + reader->at, reader->bytes - reader->at);
    remote_end(&device->channel);
    if (!known) return status == BRAID_OK ? BRAID_NO_MEMORY : status;
  }
  *reader = (braid_wire_reader){.data = known->bytes, .bytes = known->count};
  return BRAID_OK;
}

static braid_status malformed(remote_device *device, const braid_wire_reader *reader) {
  const char *wrong = braid_wire_finish(reader);
  return wrong ? remote_channel_break(&device->channel, wrong) : BRAID_OK;
}

static braid_wire_writer *question_begin(remote_device *device) {
  pthread_mutex_lock(&device->lock);
  device->question.length = 0;
  device->question.failed = false;
  return &device->question;
}

/* --- questions -----------------------------------------------------------------------------------------------------
 */
/* What the answer says of this kernel. */
static bool read_match(braid_wire_reader *reader, uint32_t id, char *why, size_t why_bytes) {
  size_t count = braid_remote_get_count(reader, 4, BRAID_REMOTE_KERNELS_MOST, 7);
  char reason[BRAID_REMOTE_WHY];
  for (size_t i = 0; i < count && !reader->wrong; i++) {
    uint32_t kernel = (uint32_t)braid_wire_get_number(reader, 4);
    bool takes = braid_wire_get_number(reader, 1);
    braid_wire_get_text(reader, reason, sizeof reason);
    if (kernel != id || reader->wrong) continue;
    snprintf(why, why_bytes, "%s", takes ? "" : reason);
    return takes;
  }
  snprintf(why, why_bytes, "the daemon says nothing of this kernel");
  return false;
}

bool remote_match(void *self, const braid_kernel *kernel, const braid_node_desc *node, char *why, size_t why_bytes) {
  remote_device *device = self;
  braid_wire_reader reader;
  bool takes = false;
  (void)question_begin(device);
  braid_status status = put_node(device, node, false);
  if (status == BRAID_OK) status = question_ask(device, BRAID_REMOTE_MATCH, &reader);
  if (status == BRAID_OK)
    takes = read_match(&reader, remote_kernel_id(kernel), why, why_bytes);
  else
    snprintf(why, why_bytes, "%s", braid_error_detail());
  pthread_mutex_unlock(&device->lock);
  return takes;
}

/* A kernel that asks for no layouts has all plain. */
void remote_layouts(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                    braid_layout *outputs) {
  remote_device *device = self;
  size_t count = node->input_count + node->output_count;
  bool has = device->flags[kernel - device->kernels] & BRAID_REMOTE_HAS_LAYOUTS;
  braid_wire_reader reader;
  braid_wire_writer *writer = question_begin(device);
  braid_wire_put_number(writer, remote_kernel_id(kernel), 4);
  braid_status status = has ? put_node(device, node, false) : BRAID_OK;
  for (size_t i = 0; i < count && has; i++)
    braid_wire_put_number(writer, i < node->input_count ? inputs[i] : outputs[i - node->input_count], 8);
  if (status == BRAID_OK && has) status = question_ask(device, BRAID_REMOTE_LAYOUTS, &reader);
  for (size_t i = 0; i < count; i++) {
    braid_layout layout = has && status == BRAID_OK ? braid_wire_get_number(&reader, 8) : BRAID_LAYOUT_PLAIN;
    *(i < node->input_count ? &inputs[i] : &outputs[i - node->input_count]) = layout;
  }
  if (has && status == BRAID_OK) (void)!malformed(device, &reader);
  pthread_mutex_unlock(&device->lock);
}

static void read_query(braid_wire_reader *reader, const braid_node_desc *node, braid_query *out) {
  out->workspace_bytes = (size_t)braid_wire_get_number(reader, 8);
  out->packing_count = (uint32_t)braid_remote_get_count(reader, 1, BRAID_PACKINGS, 20);
  for (uint32_t i = 0; i < out->packing_count; i++) {
    braid_packing *packing = &out->packings[i];
    packing->input = (uint32_t)braid_wire_get_number(reader, 4);
    packing->bytes = (size_t)braid_wire_get_number(reader, 8);
    packing->key = braid_wire_get_number(reader, 8);
    if (packing->input >= node->input_count || !node->inputs[packing->input].constant)
      braid_remote_refuse(reader, "the daemon packs an input that is no constant");
  }
}

braid_status remote_query(void *self, const braid_kernel *kernel, const braid_node_desc *node, braid_query *query) {
  remote_device *device = self;
  braid_wire_reader reader;
  *query = (braid_query){0};
  braid_wire_put_number(question_begin(device), remote_kernel_id(kernel), 4);
  braid_status status = put_node(device, node, false);
  if (status == BRAID_OK) status = question_ask(device, BRAID_REMOTE_QUERY, &reader);
  if (status == BRAID_OK) {
    read_query(&reader, node, query);
    status = malformed(device, &reader);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* --- prepared kernels ----------------------------------------------------------------------------------------------
 */
static remote_prepared *prepared_create(const remote_device *device, const braid_node_desc *node) {
  remote_prepared *made =
      braid_zalloc(device->allocator, sizeof *made + 2 * node->input_count * sizeof *made->plain_bytes);
  if (!made) return NULL;
  made->input_count = node->input_count;
  made->packed_bytes = made->plain_bytes + node->input_count;
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && node->inputs[i].constant)
      made->plain_bytes[i] = braid_remote_plain_bytes(&node->inputs[i].desc);
  return made;
}

/* How large what it packs is, is asked again: the answer is remembered. */
static braid_status read_packings(remote_device *device, const braid_kernel *kernel, const braid_node_desc *node,
                                  remote_prepared *out) {
  braid_query query = {0};
  if (!node->packed) return BRAID_OK;
  BRAID_TRY(remote_query(device, kernel, node, &query));
  for (uint32_t i = 0; i < query.packing_count; i++)
    out->packed_bytes[query.packings[i].input] = query.packings[i].bytes;
  return BRAID_OK;
}

static braid_status read_prepared(remote_device *device, braid_wire_reader *reader, remote_prepared *out,
                                  braid_prepared_info *info) {
  out->id = (uint32_t)braid_wire_get_number(reader, 4);
  info->workspace_bytes = (size_t)braid_wire_get_number(reader, 8);
  info->constants_folded = (uint32_t)braid_wire_get_number(reader, 4);
  const char *wrong = braid_wire_finish(reader);
  return wrong ? remote_channel_break(&device->channel, wrong) : BRAID_OK;
}

braid_status remote_prepare(void *self, const braid_kernel *kernel, const braid_node_desc *node, void **prepared,
                            braid_prepared_info *info) {
  remote_device *device = self;
  *prepared = NULL;
  remote_prepared *made = prepared_create(device, node);
  if (!made) return BRAID_NO_MEMORY;
  braid_wire_reader reader;
  braid_status status = read_packings(device, kernel, node, made);
  braid_wire_put_number(question_begin(device), remote_kernel_id(kernel), 4);
  if (status == BRAID_OK) status = put_node(device, node, true);
  if (status == BRAID_OK) {
    remote_begin(&device->channel, BRAID_REMOTE_PREPARE);
    struct iovec part = {device->question.data, device->question.length};
    status = remote_ask(&device->channel, &part, 1, kMostAnswer, NULL, &reader);
    if (status == BRAID_OK) status = read_prepared(device, &reader, made, info);
    remote_end(&device->channel);
  }
  pthread_mutex_unlock(&device->lock);
  if (status == BRAID_OK)
    *prepared = made;
  else
    braid_free(device->allocator, made);
  return status;
}

void remote_discard(void *self, void *prepared) {
  remote_device *device = self;
  remote_prepared *made = prepared;
  braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_DISCARD), made->id, 4);
  remote_post(&device->channel);
  braid_free(device->allocator, made);
}

/* --- packed constants ----------------------------------------------------------------------------------------------
 * The daemon packs what it has, and keeps the packed form as well: it comes here, as the contract has it, but need not
 * be sent back when it is written to the device. */
braid_status remote_pack(void *self, void *prepared, uint32_t input, const void *plain, void *packed) {
  remote_device *device = self;
  const remote_prepared *made = prepared;
  if (input >= made->input_count || !made->plain_bytes[input] || !made->packed_bytes[input])
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %" PRIu32 " is no constant that is packed", input);
  size_t bytes = made->packed_bytes[input];
  uint32_t blob, packed_blob = 0;
  pthread_mutex_lock(&device->lock);
  device->stamp++;
  braid_status status = remote_blob_get(device, plain, made->plain_bytes[input], &blob);
  if (status == BRAID_OK) status = remote_blob_reserve(device, bytes, &packed_blob);
  if (status == BRAID_OK) {
    braid_wire_reader reader;
    braid_wire_writer *writer = remote_begin(&device->channel, BRAID_REMOTE_PACK);
    braid_wire_put_number(writer, made->id, 4);
    braid_wire_put_number(writer, input, 4);
    braid_wire_put_number(writer, blob, 4);
    braid_wire_put_number(writer, packed_blob, 4);
    status = remote_ask(&device->channel, NULL, 0, bytes, NULL, &reader);
    const uint8_t *data = status == BRAID_OK ? braid_remote_get_bytes(&reader, bytes) : NULL;
    if (data) memcpy(packed, data, bytes);
    if (status == BRAID_OK) status = malformed(device, &reader);
    remote_end(&device->channel);
  }
  if (status == BRAID_OK) remote_blob_keep(device, packed_blob, packed, bytes);
  if (status != BRAID_OK && packed_blob) status = remote_blob_abandon(device, packed_blob, status);
  pthread_mutex_unlock(&device->lock);
  return status;
}
