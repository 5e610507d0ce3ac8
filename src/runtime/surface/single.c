#include "runtime/surface/single.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/try.h"
#include "base/vector.h"
#include "device/kernel_index.h"
#include "graph/custom.h"
#include "runtime/plan/resolve.h"

enum { kWhyBytes = 1024 };

/* --- the graph -----------------------------------------------------------------------------------------------------
 */
static braid_status add_constant(braid_graph *graph, const braid_operand *operand, braid_value_id *out) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(graph->allocator, &operand->desc, &tensor));
  if (braid_desc_bytes(&operand->desc))
    memcpy(braid_tensor_data(tensor), operand->constant, braid_desc_bytes(&operand->desc));
  braid_status status = braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

static braid_status add_operand(braid_graph *graph, const braid_operand *operand, size_t index, braid_value_id *out) {
  char name[32], layout[BRAID_LAYOUT_TEXT];
  braid_desc desc;
  *out = -1;
  if (!operand->present) return BRAID_OK;
  braid_status status = braid_desc_init(&desc, operand->desc.dtype, operand->desc.rank, operand->desc.dims);
  if (status != BRAID_OK) return braid_fail_prefix(status, "input %zu", index);
  if (operand->desc.layout != BRAID_LAYOUT_PLAIN)
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %zu is in layout %s, expected plain", index,
                      braid_layout_format(operand->desc.layout, desc.rank, layout, sizeof layout));
  if (operand->constant) return add_constant(graph, operand, out);
  snprintf(name, sizeof name, "input %zu", index);
  return braid_graph_add_input(graph, name, &desc, out);
}

/* Says of shapes, axes and sizes that came without contents that these would help. */
static braid_status hint_at_constants(const braid_op_use *use, braid_status status) {
  for (size_t i = 0; i < use->input_count; i++) {
    const braid_operand *input = &use->inputs[i];
    bool list = input->present && input->desc.rank <= 1 && !braid_dtype_is_float(input->desc.dtype);
    char detail[1024];
    if (!list || input->constant) continue;
    snprintf(detail, sizeof detail, "%s", braid_error_detail());
    return braid_fail(status, "%.900s; input %zu may have to be given as a constant", detail, i);
  }
  return status;
}

static braid_status check_outputs(const braid_graph *graph, const braid_op_use *use) {
  const braid_node *node = &graph->nodes[0];
  for (size_t i = 0; i < node->output_count; i++) {
    const braid_desc *desc = &graph->values[node->outputs[i]].desc;
    bool known = desc->dtype != BRAID_NONE && desc->rank >= 0;
    for (int d = 0; known && d < desc->rank; d++) known = desc->dims[d] >= 0;
    if (known) continue;
    return hint_at_constants(use, braid_fail(BRAID_INVALID_GRAPH,
                                             "%.120s: the shape of result %zu is not known before "
                                             "the run",
                                             use->op, i));
  }
  return BRAID_OK;
}

braid_status braid_single_check(const char *op, const braid_attr *attrs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const braid_attr *attr = &attrs[i];
    bool listed = attr->kind == BRAID_ATTR_INTS || attr->kind == BRAID_ATTR_FLOATS || attr->kind == BRAID_ATTR_STRINGS;
    bool pointed = attr->kind == BRAID_ATTR_STRING || attr->kind == BRAID_ATTR_TENSOR;
    if (!attr->name || (unsigned)attr->kind > BRAID_ATTR_TENSOR || ((pointed || (listed && attr->count)) && !attr->s))
      return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: attribute %zu has no name, no known kind or no value", op, i);
    for (size_t k = 0; attr->kind == BRAID_ATTR_STRINGS && k < attr->count; k++)
      if (!attr->strings[k])
        return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: attribute %zu has no string %zu", op, i, k);
  }
  return BRAID_OK;
}

/* A tensor is the caller's to write again, and the graph may be kept: it has a copy, as of inputs with contents. */
static braid_status add_attr(braid_graph *graph, braid_node_id node, const braid_attr *attr) {
  if (attr->kind != BRAID_ATTR_TENSOR) return braid_attrs_copy(graph, node, attr);
  const braid_desc *desc = braid_tensor_desc(attr->tensor);
  braid_attr own = *attr;
  BRAID_TRY(braid_tensor_create(graph->allocator, desc, &own.tensor));
  if (braid_desc_bytes(desc))
    memcpy(braid_tensor_data(own.tensor), braid_tensor_const_data(attr->tensor), braid_desc_bytes(desc));
  braid_status status = braid_attrs_copy(graph, node, &own);
  braid_tensor_release(own.tensor);
  return status;
}

static braid_status single_build(braid_graph *graph, const braid_op_use *use, braid_value_id *values) {
  size_t outputs = use->output_count ? use->output_count : 1;
  braid_node_id id;
  BRAID_TRY(braid_single_check(use->op, use->attrs, use->attr_count));
  for (size_t i = 0; i < use->input_count; i++) BRAID_TRY(add_operand(graph, &use->inputs[i], i, &values[i]));
  BRAID_TRY(
      braid_graph_add_node(graph, use->op, use->op, values, use->input_count, values + use->input_count, outputs, &id));
  for (size_t i = 0; i < use->attr_count; i++) BRAID_TRY(add_attr(graph, id, &use->attrs[i]));
  braid_status status = braid_graph_infer_node(graph, id);
  if (status != BRAID_OK) return hint_at_constants(use, status);
  for (size_t i = 0; i < outputs; i++) BRAID_TRY(braid_graph_add_output(graph, values[use->input_count + i]));
  return check_outputs(graph, use);
}

braid_status braid_single_graph(const braid_allocator *allocator, const braid_op_use *use, braid_graph **out) {
  size_t count;
  *out = NULL;
  if (!use->op) return braid_fail(BRAID_INVALID_ARGUMENT, "no op is given");
  if (!braid_add_size(use->input_count, use->output_count, &count) || count > INT16_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s with %zu inputs and %zu outputs", use->op, use->input_count,
                      use->output_count);
  braid_value_id *values = braid_zalloc_array(allocator, count + 1, sizeof *values);
  braid_status status = values ? braid_graph_create(allocator, use->op, out) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = single_build(*out, use, values);
  braid_free(allocator, values);
  if (status == BRAID_OK) return BRAID_OK;
  braid_graph_destroy(*out);
  *out = NULL;
  return status;
}

braid_status braid_single_device(const braid_machine *machine, const char *name, int *out) {
  *out = -1;
  return name ? braid_machine_find(machine, name, out) : BRAID_OK;
}

/* --- candidates ----------------------------------------------------------------------------------------------------
 */
typedef struct answer {
  const braid_kernel *kernel;
  bool takes;
  char why[256];
} answer;

typedef struct asking {
  const braid_allocator *allocator;
  const char *label;
  void (*candidate)(void *context, const braid_op_candidate *candidate);
  void *context;
  answer *answers; /* of one device */
  size_t count, capacity;
  bool found, no_memory;
  char why[kWhyBytes];
  size_t used;
} asking;

static void note(asking *a, const char *kernel, const char *why) {
  if (a->used >= sizeof a->why) return;
  int wrote = snprintf(a->why + a->used, sizeof a->why - a->used, "%s%s%s%s: %s", a->used ? "; " : "", a->label,
                       kernel ? ", " : "", kernel ? kernel : "", why);
  if (wrote > 0) a->used += (size_t)wrote;
}

static void collect_answer(void *context, const braid_kernel *kernel, const char *why) {
  asking *a = context;
  answer *answers = braid_grow(a->allocator, a->answers, a->count, &a->capacity, sizeof *answers);
  if (!answers) {
    a->no_memory = true;
    return;
  }
  a->answers = answers;
  answer *own = &answers[a->count++];
  *own = (answer){.kernel = kernel, .takes = !why};
  if (why) snprintf(own->why, sizeof own->why, "%s", why[0] ? why : "does not take it");
}

static void report_answers(asking *a) {
  for (size_t i = 0; i < a->count; i++) {
    const answer *own = &a->answers[i];
    if (!own->takes) note(a, own->kernel->name, own->why);
    a->found |= own->takes;
    if (a->candidate)
      a->candidate(a->context, &(braid_op_candidate){a->label, own->kernel->name, own->takes ? NULL : own->why});
  }
  if (!a->count) note(a, NULL, "no kernel for this op");
}

/* The kernels are asked with the machine locked; the caller's function may use the machine. */
static braid_status single_ask(braid_machine *machine, int device, const braid_node_desc *desc, asking *a) {
  for (size_t i = 0; i < machine->device_count; i++) {
    if (device >= 0 && (size_t)device != i) continue;
    a->label = machine->devices[i].label;
    a->count = 0;
    pthread_mutex_lock(&machine->lock);
    (void)braid_device_visit_kernels(machine->devices[i].device, desc, collect_answer, a);
    pthread_mutex_unlock(&machine->lock);
    if (a->no_memory) return BRAID_NO_MEMORY;
    report_answers(a);
  }
  return BRAID_OK;
}

/* What follows from shapes and constants alone is folded, as in every plan, and takes no kernel. */
static braid_status check_able(const asking *a, braid_graph *graph, const char *op) {
  if (a->found) return BRAID_OK;
  braid_status status = braid_resolve_for_good(graph);
  if (status == BRAID_NO_MEMORY || (status == BRAID_OK && !graph->node_count)) return status;
  return braid_fail(BRAID_UNSUPPORTED, "no device can run %.120s: %.800s", op, a->why);
}

static braid_status ask_node(braid_machine *machine, const braid_op_use *use, const braid_graph *graph, int device,
                             asking *a) {
  const braid_node *node = &graph->nodes[0];
  size_t count = node->input_count + node->output_count;
  braid_operand *operands = braid_zalloc_array(machine->allocator, count, sizeof *operands);
  if (!operands) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < node->input_count; i++) operands[i] = use->inputs[i];
  for (size_t i = 0; i < node->output_count; i++)
    operands[node->input_count + i] = (braid_operand){true, graph->values[node->outputs[i]].desc, NULL};
  braid_node_desc desc = {.op = node->op->name,
                          .name = node->name,
                          .custom = braid_custom_op_of(node->op),
                          .attrs = &node->attrs,
                          .input_count = node->input_count,
                          .output_count = node->output_count,
                          .inputs = operands,
                          .outputs = operands + node->input_count};
  braid_status status = single_ask(machine, device, &desc, a);
  braid_free(machine->allocator, operands);
  return status;
}

braid_status braid_machine_supports(braid_machine *machine, const braid_op_use *use,
                                    void (*candidate)(void *context, const braid_op_candidate *candidate),
                                    void *context, braid_desc *outputs) {
  int device;
  braid_graph *graph;
  asking a = {.allocator = machine->allocator, .candidate = candidate, .context = context};
  BRAID_TRY(braid_single_device(machine, use->device, &device));
  BRAID_TRY(braid_single_graph(machine->allocator, use, &graph));
  const braid_node *node = &graph->nodes[0];
  for (size_t i = 0; outputs && i < node->output_count; i++) outputs[i] = graph->values[node->outputs[i]].desc;
  braid_status status = ask_node(machine, use, graph, device, &a);
  if (status == BRAID_OK) status = check_able(&a, graph, use->op);
  braid_free(a.allocator, a.answers);
  braid_graph_destroy(graph);
  return status;
}
