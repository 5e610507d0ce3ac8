#include "profile/subject.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

bool braid_subject_is_training(const braid_graph *graph) {
  for (size_t v = 0; v < graph->value_count; v++) {
    const braid_value *value = &graph->values[v];
    if ((value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE) && value->next >= 0) return true;
  }
  return false;
}

bool braid_subject_is_view(const braid_graph *graph, const braid_node *node) {
  if (!(node->op->flags & BRAID_OP_VIEW) || node->inputs[0] < 0 || node->output_count != 1) return false;
  const braid_desc *from = &graph->values[node->inputs[0]].desc, *to = &graph->values[node->outputs[0]].desc;
  return from->dtype == to->dtype && braid_desc_count(from) == braid_desc_count(to);
}

double braid_subject_bytes(const braid_graph *graph, const braid_node *node) {
  double sum = 0;
  for (size_t i = 0; i < node->input_count; i++) {
    bool again = node->inputs[i] < 0;
    for (size_t k = 0; k < i && !again; k++) again = node->inputs[k] == node->inputs[i];
    if (!again) sum += (double)braid_desc_bytes(&graph->values[node->inputs[i]].desc);
  }
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) sum += (double)braid_desc_bytes(&graph->values[node->outputs[i]].desc);
  return sum;
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void add_dims(braid_text *out, const braid_desc *desc) {
  for (int i = 0; i < desc->rank; i++) braid_text_printf(out, "%s%" PRId64, i ? "x" : "", desc->dims[i]);
  if (desc->rank == 0) braid_text_add(out, "scalar");
}

static void add_values(braid_text *out, const braid_attr *attr, char between) {
  for (size_t i = 0; i < attr->count; i++) {
    if (i) braid_text_add_bytes(out, &between, 1);
    if (attr->kind == BRAID_ATTR_INTS) braid_text_printf(out, "%" PRId64, attr->ints[i]);
    if (attr->kind == BRAID_ATTR_FLOATS) braid_text_printf(out, "%.9g", (double)attr->floats[i]);
    if (attr->kind == BRAID_ATTR_STRINGS) braid_text_add(out, attr->strings[i]);
  }
}

static void add_attr(braid_text *out, const braid_attr *attr, char between) {
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    braid_text_printf(out, "%" PRId64, attr->i);
    break;
  case BRAID_ATTR_FLOAT:
    braid_text_printf(out, "%.17g", attr->f);
    break;
  case BRAID_ATTR_STRING:
    braid_text_add(out, attr->s);
    break;
  case BRAID_ATTR_TENSOR:
    add_dims(out, braid_tensor_desc(attr->tensor));
    break;
  case BRAID_ATTR_INTS:
  case BRAID_ATTR_FLOATS:
  case BRAID_ATTR_STRINGS:
    add_values(out, attr, between);
    break;
  }
}

/* What a tool wrote on the node changes nothing, and what a seed is neither. */
static bool is_of_work(const braid_attr *attr) {
  return strncmp(attr->name, "__", 2) != 0 && strcmp(attr->name, "seed") != 0 && strcmp(attr->name, "stream") != 0;
}

static int by_name(const void *left, const void *right, void *context) {
  const braid_attrs *attrs = context;
  return strcmp(attrs->items[*(const uint32_t *)left].name, attrs->items[*(const uint32_t *)right].name);
}

static braid_status sort_attrs(const braid_graph *graph, const braid_attrs *attrs, uint32_t **out) {
  *out = braid_zalloc_array(graph->allocator, attrs->count + 1, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < attrs->count; i++) (*out)[i] = (uint32_t)i;
  qsort_r(*out, attrs->count, sizeof **out, by_name, (void *)(uintptr_t)attrs);
  return BRAID_OK;
}

/* --- keys ----------------------------------------------------------------------------------------------------------
 */
/* Weights are constants for inference; a state that the node itself changes is written in place. */
static char kind_letter(const braid_value *value) {
  switch (value->kind) {
  case BRAID_VALUE_CONSTANT:
    return 'c';
  case BRAID_VALUE_PARAMETER:
  case BRAID_VALUE_STATE:
    return 'w';
  case BRAID_VALUE_RESULT:
  case BRAID_VALUE_INPUT:
    break;
  }
  return 'v';
}

static void add_operands(braid_text *text, const braid_graph *graph, const braid_value_id *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (ids[i] < 0) {
      braid_text_add(text, "|-");
      continue;
    }
    const braid_value *value = &graph->values[ids[i]];
    size_t same = i; /* an operand that comes twice is read once */
    for (size_t k = 0; k < i && same == i; k++)
      if (ids[k] == ids[i]) same = k;
    braid_text_printf(text, "|%c %zu %s ", kind_letter(value), i - same, braid_dtype_name(value->desc.dtype));
    add_dims(text, &value->desc);
  }
}

braid_status braid_subject_key(const braid_graph *graph, const braid_node *node, bool training,
                               char out[BRAID_SUBJECT_KEY]) {
  braid_text text;
  uint32_t *order;
  uint8_t sum[BRAID_SHA256_BYTES];
  out[0] = '\0';
  braid_status status = sort_attrs(graph, &node->attrs, &order);
  if (status != BRAID_OK) return status;
  braid_text_init(&text, graph->allocator);
  braid_text_printf(&text, "%s%s", node->op->name, training ? " in training" : "");
  for (size_t i = 0; i < node->attrs.count; i++) {
    const braid_attr *attr = &node->attrs.items[order[i]];
    if (!is_of_work(attr)) continue;
    braid_text_printf(&text, "|%d %s=", (int)attr->kind, attr->name);
    add_attr(&text, attr, ' ');
  }
  add_operands(&text, graph, node->inputs, node->input_count);
  braid_text_add(&text, "|->");
  add_operands(&text, graph, node->outputs, node->output_count);
  braid_sha256_of(text.data, text.length, sum);
  braid_sha256_text(sum, (BRAID_SUBJECT_KEY - 1) / 2, out);
  if (text.failed) status = BRAID_NO_MEMORY;
  braid_text_deinit(&text);
  braid_free(graph->allocator, order);
  return status;
}

void braid_subject_shapes(const braid_graph *graph, const braid_node *node, braid_text *out) {
  enum { kShown = 6 };
  for (int side = 0; side < 2; side++) {
    const braid_value_id *ids = side ? node->outputs : node->inputs;
    size_t count = side ? node->output_count : node->input_count, shown = count < kShown ? count : kShown;
    if (side) braid_text_add(out, " ->");
    for (size_t i = 0; i < shown; i++) {
      if (i || side) braid_text_add(out, " ");
      if (ids[i] < 0) {
        braid_text_add(out, "-");
        continue;
      }
      const braid_desc *desc = &graph->values[ids[i]].desc;
      add_dims(out, desc);
      if (desc->dtype != BRAID_F32) braid_text_printf(out, ":%s", braid_dtype_name(desc->dtype));
    }
    if (shown < count) braid_text_printf(out, " and %zu more", count - shown);
  }
  static const char *const kTold[] = {"strides", "pads", "dilations", "group", "kernel_shape", "perm", "axis"};
  for (size_t i = 0; i < sizeof kTold / sizeof *kTold; i++) {
    const braid_attr *attr = braid_attrs_find(&node->attrs, kTold[i]);
    if (!attr) continue;
    braid_text_printf(out, ", %s ", attr->name);
    add_attr(out, attr, ' ');
  }
}
