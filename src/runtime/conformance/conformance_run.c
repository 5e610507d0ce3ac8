/* Running one case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/model.h"
#include "braid/session.h"
#include "graph/graph.h"
#include "runtime/conformance/conformance.h"
#include "runtime/plan/resolve.h"

enum { MAX_TENSORS = 256, BIND_NONE = 0, BIND_INTEGERS = 1, BIND_ALL = 2 };

typedef struct tensor_list {
  braid_tensor *items[MAX_TENSORS];
  size_t count;
} tensor_list;

static void list_release(tensor_list *list) {
  for (size_t i = 0; i < list->count; i++) braid_tensor_release(list->items[i]);
  list->count = 0;
}

/* PREFIX0.pb, PREFIX1.pb ... until one is not there. */
static braid_status list_load(const braid_allocator *allocator, const char *prefix, tensor_list *list) {
  char path[4096];
  struct stat info;
  while (list->count < MAX_TENSORS) {
    int length = snprintf(path, sizeof path, "%s%zu.pb", prefix, list->count);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0) return BRAID_OK;
    BRAID_TRY(braid_onnx_tensor_load(allocator, path, &list->items[list->count]));
    list->count++;
  }
  return braid_fail(BRAID_OUT_OF_RANGE, "%s*: more than %d tensors", prefix, MAX_TENSORS);
}

/* The ramp that ONNX's runner feeds to the `light` networks; open dimensions are 1. */
static braid_status ramp(const braid_allocator *allocator, const braid_desc *declared, braid_tensor **out) {
  braid_desc desc;
  int64_t dims[BRAID_MAX_RANK];
  if (declared->rank < 0 || declared->dtype != BRAID_F32)
    return braid_fail(BRAID_UNSUPPORTED, "an input that is not float32 of a known rank");
  for (int i = 0; i < declared->rank; i++) dims[i] = declared->dims[i] < 0 ? 1 : declared->dims[i];
  BRAID_TRY(braid_desc_init(&desc, declared->dtype, declared->rank, dims));
  BRAID_TRY(braid_tensor_create(allocator, &desc, out));
  float *data = braid_tensor_data(*out);
  int64_t count = braid_desc_count(&desc);
  for (int64_t i = 0; i < count; i++) data[i] = (float)((double)i / (double)count);
  return BRAID_OK;
}

static braid_status give_inputs(braid_graph *graph, const tensor_list *inputs, int bind) {
  size_t count = braid_graph_input_count(graph);
  if (inputs->count != count)
    return braid_fail(BRAID_INVALID_FILE, "%zu inputs are given, the model takes %zu", inputs->count, count);
  braid_value_id ids[MAX_TENSORS];
  for (size_t i = 0; i < count; i++) ids[i] = braid_graph_input(graph, i);
  for (size_t i = 0; i < count; i++) {
    const braid_desc *desc = braid_tensor_desc(inputs->items[i]);
    braid_value_info info = braid_graph_value(graph, ids[i]);
    if (desc->dtype != info.desc.dtype)
      return braid_fail(BRAID_INVALID_FILE, "input %s is given as %s, the model takes %s", info.name,
                        braid_dtype_name(desc->dtype), braid_dtype_name(info.desc.dtype));
    bool constant = bind == BIND_ALL || (bind == BIND_INTEGERS && !braid_dtype_is_float(desc->dtype));
    BRAID_TRY(constant ? braid_graph_bind_input(graph, ids[i], inputs->items[i])
                       : braid_graph_set_input_shape(graph, ids[i], desc->rank, desc->dims));
  }
  return BRAID_OK;
}

static braid_status compare_outputs(const braid_desc *const *descs, void *const *data, size_t count,
                                    const tensor_list *expected) {
  if (expected->count > count)
    return braid_fail(BRAID_INVALID_GRAPH, "gives %zu outputs, expected %zu", count, expected->count);
  for (size_t i = 0; i < expected->count; i++) {
    braid_status status = braid_case_compare(expected->items[i], descs[i], data[i]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "output %zu", i);
  }
  return BRAID_OK;
}

/* Everything was folded: the outputs are constants. */
static braid_status compare_constants(const braid_graph *graph, const tensor_list *expected) {
  const braid_desc *descs[MAX_TENSORS];
  void *data[MAX_TENSORS];
  size_t count = braid_graph_output_count(graph);
  for (size_t i = 0; i < count; i++) {
    const braid_value *value = &graph->values[graph->outputs[i]];
    descs[i] = &value->desc;
    data[i] = braid_tensor_data(value->tensor);
  }
  return compare_outputs(descs, data, count, expected);
}

static braid_status run_session(braid_session *session, const braid_graph *graph, const tensor_list *inputs,
                                const tensor_list *expected) {
  const void *in[MAX_TENSORS];
  void *out[MAX_TENSORS] = {NULL};
  const braid_desc *descs[MAX_TENSORS];
  size_t count = braid_session_output_count(session), given = 0;
  if (count > MAX_TENSORS) return braid_fail(BRAID_UNSUPPORTED, "%zu outputs", count);
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < inputs->count && given < graph->input_count; i++)
    if (inputs->items[i]) in[given++] = braid_tensor_const_data(inputs->items[i]);
  for (size_t i = 0; i < count; i++) {
    descs[i] = braid_session_output(session, i);
    out[i] = braid_alloc(graph->allocator, braid_desc_bytes(descs[i]));
    if (!out[i]) status = BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) status = braid_session_run(session, in, out);
  if (status == BRAID_OK) status = compare_outputs(descs, out, count, expected);
  for (size_t i = 0; i < count; i++) braid_free(graph->allocator, out[i]);
  return status;
}

static bool all_outputs_known(const braid_graph *graph) {
  for (size_t i = 0; i < graph->output_count; i++)
    if (!graph->values[graph->outputs[i]].tensor) return false;
  return graph->output_count > 0 && graph->output_count <= MAX_TENSORS;
}

/* Nodes whose values are random numbers: those of another generator than the one that made the expected values. */
static bool is_random(const braid_graph *graph) {
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    bool dropout = strcmp(node->op->name, "Dropout") == 0 && node->input_count > 2 && node->inputs[2] >= 0;
    if (dropout || (node->op->flags & BRAID_OP_RANDOM)) return true;
  }
  return false;
}

/* The inputs that are still the caller's, in order: those bound are gone. */
static void remaining(const tensor_list *all, int bind, tensor_list *left) {
  left->count = 0;
  for (size_t i = 0; i < all->count && bind != BIND_ALL; i++)
    if (bind == BIND_NONE || braid_dtype_is_float(braid_tensor_desc(all->items[i])->dtype))
      left->items[left->count++] = all->items[i];
}

/* *prepared: the graph could be made to run, so that a failure is an answer and not a question of binding. */
static braid_status attempt(const braid_graph *model, const tensor_list *inputs, const tensor_list *expected, int bind,
                            bool *prepared) {
  braid_graph *graph = NULL;
  braid_session *session = NULL;
  *prepared = false;
  BRAID_TRY(braid_graph_clone(model, &graph));
  braid_status status = give_inputs(graph, inputs, bind);
  if (status == BRAID_OK) status = braid_resolve_for_good(graph);
  if (status == BRAID_OK && all_outputs_known(graph)) {
    *prepared = true;
    status = compare_constants(graph, expected);
  } else if (status == BRAID_OK) {
    status = braid_session_create(graph, &(braid_session_options){.threads = 1}, &session);
    if (status == BRAID_OK) {
      tensor_list left;
      *prepared = true;
      remaining(inputs, bind, &left);
      status = run_session(session, graph, &left, expected);
    }
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return status;
}

static braid_status run_set(const braid_graph *model, const tensor_list *inputs, const tensor_list *expected,
                            int *bound) {
  bool integers = false, prepared;
  for (size_t i = 0; i < inputs->count; i++)
    integers = integers || !braid_dtype_is_float(braid_tensor_desc(inputs->items[i])->dtype);
  braid_status status = attempt(model, inputs, expected, BIND_NONE, &prepared);
  *bound = BIND_NONE;
  if (prepared || status == BRAID_NO_MEMORY || !inputs->count) return status;
  if (integers) {
    *bound = BIND_INTEGERS;
    status = attempt(model, inputs, expected, BIND_INTEGERS, &prepared);
    if (prepared || status == BRAID_NO_MEMORY) return status;
  }
  *bound = BIND_ALL;
  return attempt(model, inputs, expected, BIND_ALL, &prepared);
}

static braid_status run_light(const braid_cases *cases, const braid_case *item, const braid_graph *model, int *bound) {
  tensor_list inputs = {0}, expected = {0};
  braid_text prefix;
  braid_text_init(&prefix, cases->allocator);
  braid_text_add_bytes(&prefix, item->model, strlen(item->model) - strlen(".onnx"));
  braid_text_add(&prefix, "_output_");
  braid_status status = prefix.failed ? BRAID_NO_MEMORY : list_load(cases->allocator, prefix.data, &expected);
  size_t count = braid_graph_input_count(model);
  if (count > MAX_TENSORS) status = braid_fail(BRAID_UNSUPPORTED, "%zu inputs", count);
  for (size_t i = 0; status == BRAID_OK && i < count; i++) {
    braid_value_info info = braid_graph_value(model, braid_graph_input(model, i));
    status = ramp(cases->allocator, &info.desc, &inputs.items[i]);
    if (status == BRAID_OK) inputs.count++;
  }
  if (status == BRAID_OK) status = run_set(model, &inputs, &expected, bound);
  list_release(&inputs);
  list_release(&expected);
  braid_text_deinit(&prefix);
  return status;
}

static braid_status run_folder(const braid_cases *cases, const braid_case *item, const braid_graph *model, int *bound) {
  size_t sets = 0;
  braid_status status = BRAID_OK;
  for (; status == BRAID_OK; sets++) {
    char prefix[4096];
    struct stat info;
    int folder = (int)(strlen(item->model) - strlen("/model.onnx"));
    int length = snprintf(prefix, sizeof prefix, "%.*s/test_data_set_%zu", folder, item->model, sets);
    if (length < 0 || (size_t)length + 32 > sizeof prefix || stat(prefix, &info) != 0) break;
    tensor_list inputs = {0}, expected = {0};
    strcpy(prefix + length, "/input_");
    status = list_load(cases->allocator, prefix, &inputs);
    strcpy(prefix + length, "/output_");
    if (status == BRAID_OK) status = list_load(cases->allocator, prefix, &expected);
    if (status == BRAID_OK) status = run_set(model, &inputs, &expected, bound);
    list_release(&inputs);
    list_release(&expected);
  }
  if (!sets) return braid_fail(BRAID_UNSUPPORTED, "no test_data_set_0 beside the model");
  return status;
}

static braid_status run_case(const braid_cases *cases, const braid_case *item, int *bound) {
  braid_graph *model;
  BRAID_TRY(braid_model_load(cases->allocator, item->model, NULL, &model));
  braid_status status = item->light ? run_light(cases, item, model, bound) : run_folder(cases, item, model, bound);
  if (status == BRAID_INVALID_GRAPH && is_random(model) && strstr(braid_error_detail(), "values differ"))
    status = braid_fail(BRAID_UNSUPPORTED, "random numbers of another generator (types and shapes agree)");
  braid_graph_destroy(model);
  return status;
}

/* Messages name the file; a report names the case already. */
static const char *without_path(const char *message, const char *path) {
  size_t length = strlen(path);
  return strncmp(message, path, length) == 0 && message[length] == ':' ? message + length + 2 : message;
}

braid_status braid_cases_run(const braid_cases *cases, size_t index, braid_case_report *report) {
  *report = (braid_case_report){.result = BRAID_CASE_FAILED};
  if (index >= cases->count) return braid_fail(BRAID_INVALID_ARGUMENT, "case %zu of %zu", index, cases->count);
  const braid_case *item = &cases->items[index];
  BRAID_TRY(braid_cases_op(cases, index, report->op));
  int64_t start = braid_now_ns();
  braid_status status = run_case(cases, item, &report->bound);
  report->run_ms = (double)(braid_now_ns() - start) / 1e6;
  if (status == BRAID_NO_MEMORY) return status;
  if (status != BRAID_OK)
    snprintf(report->reason, sizeof report->reason, "%s",
             braid_error_detail()[0] ? without_path(braid_error_detail(), item->model) : braid_status_text(status));
  report->result = status == BRAID_OK            ? BRAID_CASE_PASSED
                   : status == BRAID_UNSUPPORTED ? BRAID_CASE_UNSUPPORTED
                                                 : BRAID_CASE_FAILED;
  return BRAID_OK;
}
