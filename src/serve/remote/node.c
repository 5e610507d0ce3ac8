/* Nodes from clients: read into a graph of one node, so that the op's own rules say whether its attributes, types and
 * shapes are valid before a kernel sees it; and what kernels say of them. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "device/kernel_index.h"
#include "graph/graph.h"
#include "serve/remote/session.h"

/* What plans insert, which is no op of a graph. */
static const char kConvert[] = "LayoutConvert";
enum { kLeastOperand = 1, kLeastAttr = 4 };

static void node_deinit(session *s, session_node *node) {
  for (size_t i = 0; i < node->blob_count; i++) session_blob_release(s, node->blobs[i]);
  braid_graph_destroy(node->graph);
  braid_free(NULL, node->blobs);
  braid_free(NULL, node->operands);
  *node = (session_node){0};
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
static braid_desc plain_of(const braid_desc *desc) {
  braid_desc plain = *desc;
  plain.layout = BRAID_LAYOUT_PLAIN;
  return plain;
}

/* The tensor of a constant: a copy of what the message has, or the blob's own memory, which the node then uses. */
static braid_status read_constant(session *s, session_node *node, const braid_remote_operand *from,
                                  braid_tensor **out) {
  braid_desc plain = plain_of(&from->desc);
  size_t bytes = braid_desc_bytes(&plain);
  if (!(from->flags & BRAID_REMOTE_IS_BLOB)) {
    BRAID_TRY(braid_tensor_create(NULL, &plain, out));
    if (bytes) memcpy(braid_tensor_data(*out), from->content, bytes);
    return BRAID_OK;
  }
  session_blob *blob = session_blob_find(s, from->blob);
  if (!blob || blob->bytes != bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "constant %u is not there, or has not the %zu bytes of its tensor",
                      from->blob, bytes);
  BRAID_TRY(braid_tensor_wrap(NULL, &plain, blob->data, NULL, NULL, out));
  blob->users++;
  node->blobs[node->blob_count++] = blob;
  return BRAID_OK;
}

static braid_status add_input(session *s, session_node *node, const braid_remote_operand *from, braid_operand *operand,
                              braid_value_id *out) {
  *out = -1;
  if (!operand->present) return BRAID_OK;
  braid_desc plain = plain_of(&from->desc);
  if (!(from->flags & BRAID_REMOTE_CONSTANT)) return braid_graph_add_input(node->graph, NULL, &plain, out);
  braid_tensor *tensor;
  BRAID_TRY(read_constant(s, node, from, &tensor));
  braid_status status = braid_graph_add_tensor(node->graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  operand->constant = braid_tensor_const_data(tensor);
  braid_tensor_release(tensor); /* the graph's now */
  return status;
}

/* Larger than what the tenant may have, it is nothing that a kernel should look at. */
static braid_status check_size(const session *s, const braid_desc *desc) {
  braid_desc sized = *desc;
  if (sized.layout == BRAID_LAYOUT_ANY) sized.layout = BRAID_LAYOUT_PLAIN;
  size_t bytes = braid_desc_bytes(&sized), most = (size_t)s->tenant->config->max_bytes;
  if (bytes <= most) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "a tensor of %zu bytes; tenant %s may have %zu", bytes, s->tenant->config->name,
                    most);
}

static braid_status read_operands(session *s, braid_wire_reader *reader, session_node *node, braid_value_id *values) {
  size_t inputs = node->desc.input_count, count = inputs + node->desc.output_count;
  for (size_t i = 0; i < count; i++) {
    braid_remote_operand from;
    braid_remote_get_operand(reader, &from);
    if (reader->wrong) return session_finish(reader);
    node->operands[i] = (braid_operand){.present = from.flags != 0, .desc = from.desc};
    values[i] = from.flags ? 0 : -1;
    if (from.flags) BRAID_TRY(check_size(s, &from.desc));
    if (i < inputs)
      BRAID_TRY(add_input(s, node, &from, &node->operands[i], &values[i]));
    else if (from.flags & BRAID_REMOTE_CONSTANT)
      return braid_fail(BRAID_INVALID_ARGUMENT, "an output is no constant");
  }
  return BRAID_OK;
}

/* --- attributes ----------------------------------------------------------------------------------------------------
 * Texts of attributes may be long, and are copied by the graph. */
static const char *read_string(braid_wire_reader *reader) {
  size_t length = braid_remote_get_count(reader, 4, UINT32_MAX, 1);
  const uint8_t *bytes = braid_remote_get_bytes(reader, length);
  char *text = bytes && !memchr(bytes, 0, length) ? braid_alloc(NULL, length + 1) : NULL;
  if (!text) {
    braid_remote_refuse(reader, "a text of an attribute contains a byte of value 0");
    return NULL;
  }
  memcpy(text, bytes, length);
  text[length] = '\0';
  return text;
}

static braid_status read_text_attr(braid_wire_reader *reader, braid_graph *graph, braid_node_id id, const char *name) {
  const char *text = read_string(reader);
  if (!text) return session_finish(reader);
  braid_status status = braid_graph_set_string(graph, id, name, text);
  braid_free(NULL, (char *)(uintptr_t)text);
  return status;
}

static braid_status read_texts_attr(braid_wire_reader *reader, braid_graph *graph, braid_node_id id, const char *name) {
  size_t count = braid_remote_get_count(reader, 4, UINT32_MAX, 4), read = 0;
  const char **texts = braid_zalloc_array(NULL, count, sizeof *texts);
  if (!texts) return BRAID_NO_MEMORY;
  while (read < count && (texts[read] = read_string(reader))) read++;
  braid_status status = reader->wrong ? session_finish(reader) : braid_graph_set_strings(graph, id, name, texts, count);
  for (size_t i = 0; i < read; i++) braid_free(NULL, (char *)(uintptr_t)texts[i]);
  braid_free(NULL, texts);
  return status;
}

/* Integers and floats. */
static braid_status read_numbers_attr(braid_wire_reader *reader, braid_graph *graph, braid_node_id id, const char *name,
                                      bool floats) {
  size_t size = floats ? sizeof(float) : sizeof(int64_t);
  size_t count = braid_remote_get_count(reader, 4, UINT32_MAX, size);
  const uint8_t *bytes = braid_remote_get_bytes(reader, count * size);
  if (reader->wrong) return session_finish(reader);
  void *numbers = braid_zalloc_array(NULL, count, size);
  if (!numbers) return BRAID_NO_MEMORY;
  if (count) memcpy(numbers, bytes, count * size);
  braid_status status = floats ? braid_graph_set_floats(graph, id, name, numbers, count)
                               : braid_graph_set_ints(graph, id, name, numbers, count);
  braid_free(NULL, numbers);
  return status;
}

static braid_status read_tensor_attr(braid_wire_reader *reader, braid_graph *graph, braid_node_id id,
                                     const char *name) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_remote_get_desc(reader, false, &desc);
  const uint8_t *bytes = braid_remote_get_bytes(reader, braid_desc_bytes(&desc));
  if (reader->wrong) return session_finish(reader);
  if (desc.layout != BRAID_LAYOUT_PLAIN) return braid_fail(BRAID_INVALID_ARGUMENT, "a tensor of an attribute is plain");
  BRAID_TRY(braid_tensor_create(NULL, &desc, &tensor));
  if (braid_desc_bytes(&desc)) memcpy(braid_tensor_data(tensor), bytes, braid_desc_bytes(&desc));
  braid_status status = braid_graph_set_tensor(graph, id, name, tensor);
  braid_tensor_release(tensor);
  return status;
}

static braid_status read_attr(braid_wire_reader *reader, braid_graph *graph, braid_node_id id) {
  char name[BRAID_WIRE_NAME];
  double number;
  braid_wire_get_text(reader, name, sizeof name);
  unsigned kind = (unsigned)braid_wire_get_number(reader, 1);
  if (reader->wrong) return session_finish(reader);
  if (kind == BRAID_ATTR_INT || kind == BRAID_ATTR_FLOAT) {
    uint64_t bits = braid_wire_get_number(reader, 8);
    memcpy(&number, &bits, sizeof number);
    if (reader->wrong) return session_finish(reader);
    return kind == BRAID_ATTR_INT ? braid_graph_set_int(graph, id, name, (int64_t)bits)
                                  : braid_graph_set_float(graph, id, name, number);
  }
  if (kind == BRAID_ATTR_STRING) return read_text_attr(reader, graph, id, name);
  if (kind == BRAID_ATTR_INTS || kind == BRAID_ATTR_FLOATS)
    return read_numbers_attr(reader, graph, id, name, kind == BRAID_ATTR_FLOATS);
  if (kind == BRAID_ATTR_STRINGS) return read_texts_attr(reader, graph, id, name);
  if (kind == BRAID_ATTR_TENSOR) return read_tensor_attr(reader, graph, id, name);
  return braid_fail(BRAID_INVALID_ARGUMENT, "attribute %s is of no kind that there is", name);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
static braid_status check_outputs(const session_node *node, const braid_value_id *outputs) {
  for (size_t i = 0; i < node->desc.output_count; i++) {
    if (outputs[i] < 0) continue;
    char said[96], right[96];
    const braid_desc *given = &node->desc.outputs[i].desc, *inferred = &node->graph->values[outputs[i]].desc;
    if (inferred->dtype == BRAID_NONE || inferred->rank < 0)
      return braid_fail(BRAID_INVALID_GRAPH, "%s: the shape of output %zu does not follow from the node", node->op, i);
    if (given->dtype != inferred->dtype || !braid_desc_same_shape(given, inferred))
      return braid_fail(BRAID_INVALID_GRAPH, "%s: output %zu is given as %s, and is %s", node->op, i,
                        braid_desc_format(given, said, sizeof said), braid_desc_format(inferred, right, sizeof right));
  }
  return BRAID_OK;
}

/* From one layout to another of the same tensor. */
static braid_status check_conversion(const session_node *node, size_t attrs) {
  const braid_node_desc *desc = &node->desc;
  bool right = desc->input_count == 1 && desc->output_count == 1 && desc->inputs[0].present &&
               desc->outputs[0].present && !attrs && desc->inputs[0].desc.dtype == desc->outputs[0].desc.dtype &&
               braid_desc_same_shape(&desc->inputs[0].desc, &desc->outputs[0].desc);
  return right ? BRAID_OK : braid_fail(BRAID_INVALID_GRAPH, "%s: one tensor in two layouts is expected", kConvert);
}

static braid_status read_body(session *s, braid_wire_reader *reader, session_node *node, size_t attrs,
                              braid_value_id *values) {
  static const braid_attrs kNone;
  braid_value_id *outputs = values + node->desc.input_count;
  bool converts = strcmp(node->op, kConvert) == 0;
  const braid_op *op = converts ? NULL : braid_op_find_built_in(node->op);
  if (!converts && (!op || op->flags & BRAID_OP_COLLECTIVE))
    return braid_fail(BRAID_UNSUPPORTED, "op %s is none that a remote device has", node->op);
  BRAID_TRY(braid_graph_create(NULL, "remote", &node->graph));
  BRAID_TRY(read_operands(s, reader, node, values));
  node->desc.attrs = &kNone;
  if (converts) return check_conversion(node, attrs);
  braid_node_id id;
  BRAID_TRY(braid_graph_add_node(node->graph, node->op, NULL, values, node->desc.input_count, outputs,
                                 node->desc.output_count, &id));
  for (size_t i = 0; i < attrs; i++) BRAID_TRY(read_attr(reader, node->graph, id));
  BRAID_TRY(braid_graph_infer_node(node->graph, id));
  node->desc.attrs = &node->graph->nodes[id].attrs;
  return check_outputs(node, outputs);
}

/* Reads a node that the op's rules allow; what *node has is freed by node_deinit also after a failure. */
static braid_status node_read(session *s, braid_wire_reader *reader, session_node *node) {
  *node = (session_node){0};
  braid_node_desc *desc = &node->desc;
  braid_wire_get_text(reader, node->op, sizeof node->op);
  braid_wire_get_text(reader, node->name, sizeof node->name);
  unsigned flags = (unsigned)braid_wire_get_number(reader, 1);
  desc->threads = (uint32_t)braid_wire_get_number(reader, 4);
  size_t attrs = (size_t)braid_wire_get_number(reader, 2);
  desc->input_count = braid_remote_get_count(reader, 2, BRAID_REMOTE_OPERANDS, kLeastOperand);
  desc->output_count = braid_remote_get_count(reader, 2, BRAID_REMOTE_OPERANDS, kLeastOperand);
  if (flags > 3 || desc->threads > 1) braid_remote_refuse(reader, "a node's flags or threads are none that there are");
  if (attrs > (reader->bytes - reader->at) / kLeastAttr) braid_remote_refuse(reader, "a node has fewer attributes");
  if (reader->wrong) return session_finish(reader);
  size_t count = desc->input_count + desc->output_count;
  braid_value_id *values = braid_zalloc_array(NULL, count + 1, sizeof *values);
  node->operands = braid_zalloc_array(NULL, count + 1, sizeof *node->operands);
  node->blobs = braid_zalloc_array(NULL, count + 1, sizeof(session_blob *));
  desc->op = node->op;
  desc->name = node->name;
  desc->training = flags & 1;
  desc->packed = flags & 2;
  desc->inputs = node->operands;
  desc->outputs = node->operands ? node->operands + desc->input_count : NULL;
  braid_status status =
      values && node->operands && node->blobs ? read_body(s, reader, node, attrs, values) : BRAID_NO_MEMORY;
  braid_free(NULL, values);
  return status;
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */
braid_status session_kernels_message(session *s, braid_wire_reader *reader) {
  BRAID_TRY(session_finish(reader));
  braid_wire_put_number(&s->writer, s->kernel_count, 4);
  for (size_t i = 0; i < s->kernel_count; i++) {
    const braid_kernel *kernel = s->kernels[i];
    bool brought = s->backend->brought && s->backend->brought(s->self, kernel);
    uint32_t flags = (brought ? BRAID_REMOTE_BROUGHT : 0u) |
                     (kernel->layouts || s->backend->layouts ? BRAID_REMOTE_HAS_LAYOUTS : 0u);
    braid_remote_put_kernel(&s->writer, kernel, flags);
  }
  return BRAID_OK;
}

/* The kernel of this number, if it is for the node's op; or NULL. */
static const braid_kernel *kernel_of(const session *s, uint64_t number, const session_node *node) {
  const braid_kernel *kernel = number < s->kernel_count ? s->kernels[number] : NULL;
  return kernel && strcmp(kernel->op, node->op) == 0 ? kernel : NULL;
}

static braid_status no_kernel(uint64_t number, const session_node *node) {
  return braid_fail(BRAID_NOT_FOUND, "the device has no kernel %llu for %s", (unsigned long long)number, node->op);
}

static uint32_t number_of(const session *s, const braid_kernel *kernel) {
  uint32_t i = 0;
  while (i < s->kernel_count && s->kernels[i] != kernel) i++;
  return i;
}

typedef struct visit {
  session *s;
  size_t count;
} visit;

static void visit_kernel(void *context, const braid_kernel *kernel, const char *why) {
  visit *v = context;
  char reason[BRAID_REMOTE_WHY];
  snprintf(reason, sizeof reason, "%.250s", why ? why : "");
  braid_wire_put_number(&v->s->writer, number_of(v->s, kernel), 4);
  braid_wire_put_number(&v->s->writer, !why, 1);
  braid_wire_put_text(&v->s->writer, reason);
  v->count++;
}

static braid_status refuse_any(const session_node *node) {
  for (size_t i = 0; i < node->desc.input_count + node->desc.output_count; i++)
    if (node->operands[i].present && node->operands[i].desc.layout == BRAID_LAYOUT_ANY)
      return braid_fail(BRAID_INVALID_ARGUMENT, "a layout is left open");
  return BRAID_OK;
}

braid_status session_match_message(session *s, braid_wire_reader *reader) {
  session_node node;
  visit v = {.s = s};
  size_t at = s->writer.length;
  braid_status status = node_read(s, reader, &node);
  if (status == BRAID_OK) status = session_finish(reader);
  if (status == BRAID_OK) status = refuse_any(&node);
  if (status == BRAID_OK) {
    braid_wire_put_number(&s->writer, 0, 4);
    (void)braid_device_visit_kernels(s->device, &node.desc, visit_kernel, &v);
    for (size_t i = 0; i < 4 && !s->writer.failed; i++) s->writer.data[at + i] = (uint8_t)(v.count >> 8 * i);
  }
  node_deinit(s, &node);
  return status;
}

/* Kernels are asked for layouts of nodes that they take, which they see plain. */
static braid_status check_takes(session *s, const braid_kernel *kernel, session_node *node, bool plain) {
  size_t count = node->desc.input_count + node->desc.output_count;
  braid_layout *kept = braid_zalloc_array(NULL, count + 1, sizeof *kept);
  if (!kept) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    kept[i] = node->operands[i].desc.layout;
    if (plain) node->operands[i].desc.layout = BRAID_LAYOUT_PLAIN;
  }
  char why[BRAID_REMOTE_WHY];
  bool takes = braid_kernel_takes(s->backend, s->self, kernel, &node->desc, why, sizeof why);
  for (size_t i = 0; i < count; i++) node->operands[i].desc.layout = kept[i];
  braid_free(NULL, kept);
  return takes ? BRAID_OK : braid_fail(BRAID_UNSUPPORTED, "kernel %s: %s", kernel->name, why);
}

static bool has_layouts(const session *s, const braid_kernel *kernel) {
  return kernel->layouts || s->backend->layouts;
}

static void ask_layouts(session *s, const braid_kernel *kernel, const session_node *node, braid_layout *layouts) {
  braid_layout *outputs = layouts + node->desc.input_count;
  if (kernel->layouts) kernel->layouts(&node->desc, layouts, outputs);
  if (s->backend->layouts) s->backend->layouts(s->self, kernel, &node->desc, layouts, outputs);
}

static braid_status read_layouts(braid_wire_reader *reader, const session_node *node, braid_layout *layouts) {
  for (size_t i = 0; i < node->desc.input_count + node->desc.output_count; i++) {
    layouts[i] = braid_wire_get_number(reader, 8);
    braid_desc desc = plain_of(&node->operands[i].desc);
    if (!node->operands[i].present || layouts[i] == BRAID_LAYOUT_ANY) continue;
    BRAID_TRY(braid_desc_set_layout(&desc, layouts[i]));
  }
  return session_finish(reader);
}

braid_status session_layouts_message(session *s, braid_wire_reader *reader) {
  session_node node;
  uint64_t number = braid_wire_get_number(reader, 4);
  braid_layout *layouts = NULL;
  braid_status status = node_read(s, reader, &node);
  size_t count = node.desc.input_count + node.desc.output_count;
  const braid_kernel *kernel = status == BRAID_OK ? kernel_of(s, number, &node) : NULL;
  if (status == BRAID_OK && !kernel) status = no_kernel(number, &node);
  if (status == BRAID_OK) status = check_takes(s, kernel, &node, true);
  if (status == BRAID_OK) {
    layouts = braid_zalloc_array(NULL, count + 1, sizeof *layouts);
    status = layouts ? read_layouts(reader, &node, layouts) : BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) {
    ask_layouts(s, kernel, &node, layouts);
    for (size_t i = 0; i < count; i++) braid_wire_put_number(&s->writer, layouts[i], 8);
  }
  braid_free(NULL, layouts);
  node_deinit(s, &node);
  return status;
}

/* What a kernel is prepared for is what it says it takes, in the layouts that it asks for: asked with these it says
 * these again. */
static braid_status check_layouts(session *s, const braid_kernel *kernel, session_node *node) {
  size_t count = node->desc.input_count + node->desc.output_count;
  BRAID_TRY(refuse_any(node));
  BRAID_TRY(check_takes(s, kernel, node, has_layouts(s, kernel)));
  if (!has_layouts(s, kernel)) return BRAID_OK;
  braid_layout *layouts = braid_zalloc_array(NULL, count + 1, sizeof *layouts);
  if (!layouts) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) layouts[i] = node->operands[i].desc.layout;
  ask_layouts(s, kernel, node, layouts);
  bool same = true;
  for (size_t i = 0; i < count && same; i++) {
    braid_desc desc = plain_of(&node->operands[i].desc);
    if (!node->operands[i].present) continue;
    same = braid_desc_set_layout(&desc, layouts[i]) == BRAID_OK && desc.layout == node->operands[i].desc.layout;
  }
  braid_free(NULL, layouts);
  return same ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "kernel %s asks for other layouts", kernel->name);
}

/* A kernel and a node that it takes, and what it then needs. */
static braid_status read_kernel_node(session *s, braid_wire_reader *reader, session_node *node,
                                     const braid_kernel **kernel, braid_query *query) {
  uint64_t number = braid_wire_get_number(reader, 4);
  BRAID_TRY(node_read(s, reader, node));
  BRAID_TRY(session_finish(reader));
  *kernel = kernel_of(s, number, node);
  if (!*kernel) return no_kernel(number, node);
  BRAID_TRY(check_layouts(s, *kernel, node));
  BRAID_TRY(s->backend->query(s->self, *kernel, &node->desc, query));
  if (query->packing_count > BRAID_PACKINGS) return braid_fail(BRAID_INTERNAL, "the device packs too much");
  for (uint32_t i = 0; i < query->packing_count; i++)
    if (query->packings[i].input >= node->desc.input_count || !node->operands[query->packings[i].input].constant)
      return braid_fail(BRAID_INTERNAL, "the device packs an input that is no constant");
  return BRAID_OK;
}

braid_status session_query_message(session *s, braid_wire_reader *reader) {
  session_node node = {0};
  const braid_kernel *kernel;
  braid_query query = {0};
  braid_status status = read_kernel_node(s, reader, &node, &kernel, &query);
  if (status == BRAID_OK) {
    braid_wire_put_number(&s->writer, query.workspace_bytes, 8);
    braid_wire_put_number(&s->writer, query.packing_count, 1);
    for (uint32_t i = 0; i < query.packing_count; i++) {
      braid_wire_put_number(&s->writer, query.packings[i].input, 4);
      braid_wire_put_number(&s->writer, query.packings[i].bytes, 8);
      braid_wire_put_number(&s->writer, query.packings[i].key, 8);
    }
  }
  node_deinit(s, &node);
  return status;
}

/* --- prepared kernels ----------------------------------------------------------------------------------------------
 */
static void prepared_free(session *s, session_prepared *prepared) {
  if (prepared->self) s->backend->discard(s->self, prepared->self);
  node_deinit(s, &prepared->node);
  if (prepared->counted) session_uncount(s, prepared->counted);
  braid_free(NULL, prepared);
}

void session_prepared_release(session *s, session_prepared *prepared) {
  if (--prepared->users == 0 && prepared->dropped) prepared_free(s, prepared);
}

static braid_status prepared_make(session *s, braid_wire_reader *reader, session_prepared *prepared) {
  size_t counted = 2 * reader->bytes + SESSION_OVERHEAD; /* attributes and small constants, as a graph */
  BRAID_TRY(session_count(s, counted));
  prepared->counted = counted;
  BRAID_TRY(read_kernel_node(s, reader, &prepared->node, &prepared->kernel, &prepared->query));
  if (prepared->node.desc.packed != (prepared->query.packing_count > 0))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a kernel is prepared for packed constants if it packs any");
  braid_status status =
      s->backend->prepare(s->self, prepared->kernel, &prepared->node.desc, &prepared->self, &prepared->info);
  if (status != BRAID_OK) prepared->self = NULL;
  return status;
}

braid_status session_prepare_message(session *s, braid_wire_reader *reader) {
  session_prepared *prepared = braid_zalloc(NULL, sizeof *prepared);
  if (!prepared) return BRAID_NO_MEMORY;
  braid_status status = prepared_make(s, reader, prepared);
  uint32_t handle = status == BRAID_OK ? session_table_add(&s->prepared, prepared) : 0;
  if (status == BRAID_OK && !handle) status = BRAID_NO_MEMORY;
  if (status != BRAID_OK) {
    char detail[BRAID_WIRE_DETAIL];
    snprintf(detail, sizeof detail, "%.500s", braid_error_detail());
    prepared_free(s, prepared);
    return braid_fail(status, "%s", detail[0] ? detail : braid_status_text(status));
  }
  braid_wire_put_number(&s->writer, handle, 4);
  braid_wire_put_number(&s->writer, prepared->info.workspace_bytes, 8);
  braid_wire_put_number(&s->writer, prepared->info.constants_folded, 4);
  return BRAID_OK;
}

/* The packed form of a constant stays as another one of the client's, and is answered. */
braid_status session_pack_message(session *s, braid_wire_reader *reader) {
  uint64_t handle = braid_wire_get_number(reader, 4), input = braid_wire_get_number(reader, 4);
  uint32_t from = (uint32_t)braid_wire_get_number(reader, 4), to = (uint32_t)braid_wire_get_number(reader, 4);
  BRAID_TRY(session_finish(reader));
  session_prepared *prepared = session_table_get(&s->prepared, handle);
  const session_blob *plain = session_blob_find(s, from);
  const braid_packing *packing = NULL;
  for (uint32_t i = 0; prepared && i < prepared->query.packing_count; i++)
    if (prepared->query.packings[i].input == input) packing = &prepared->query.packings[i];
  if (!packing || !plain || plain->bytes != braid_remote_plain_bytes(&prepared->node.operands[input].desc))
    return braid_fail(BRAID_INVALID_ARGUMENT, "what is to be packed is not there, or not what the kernel packs");
  session_blob *blob;
  BRAID_TRY(session_blob_make(s, to, packing->bytes, &blob));
  void *packed = braid_zalloc(NULL, packing->bytes); /* aligned, as the contract has it */
  braid_status status = packed ? BRAID_OK : BRAID_NO_MEMORY;
  if (packed) status = s->backend->pack(s->self, prepared->self, (uint32_t)input, plain->data, packed);
  if (status == BRAID_OK) status = session_count(s, packing->bytes);
  if (status == BRAID_OK) {
    memcpy(blob->data, packed, packing->bytes);
    blob->got = blob->bytes;
    s->data = packed;
    s->data_bytes = s->data_counted = packing->bytes;
  } else {
    braid_free(NULL, packed); /* the client forgets the blob */
  }
  return status;
}

braid_status session_discard_message(session *s, braid_wire_reader *reader) {
  uint64_t handle = braid_wire_get_number(reader, 4);
  BRAID_TRY(session_finish(reader));
  session_prepared *prepared = session_table_take(&s->prepared, handle);
  if (!prepared) return braid_fail(BRAID_NOT_FOUND, "there is no prepared kernel %llu", (unsigned long long)handle);
  if (prepared->users)
    prepared->dropped = true;
  else
    prepared_free(s, prepared);
  return BRAID_OK;
}

void session_prepared_free_all(session *s) {
  for (size_t i = 0; i < s->prepared.count; i++)
    if (s->prepared.items[i]) prepared_free(s, s->prepared.items[i]);
  braid_free(NULL, s->prepared.items);
}
