#include "train/own_loss.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "runtime/plan/resolve.h"
#include "train/data/dataset.h"
#include "train/metrics.h"
#include "train/step.h"

/* --- the model's ends ----------------------------------------------------------------------------------------------
 */
static braid_status check_targets(const braid_value_info *value, const braid_dataset_info *info) {
  braid_dtype is = value->desc.dtype;
  bool classes = info->target == BRAID_TARGET_CLASS;
  if (classes ? is == BRAID_I64 || is == BRAID_I32 : is == BRAID_F32) return BRAID_OK;
  return braid_fail(BRAID_INVALID_GRAPH, "input %.80s takes the targets and is %s; for targets that are %s %s",
                    value->name, braid_dtype_name(is), classes ? "classes" : "labels or numbers",
                    classes ? "int64 or int32 is expected" : "float32 is expected");
}

static braid_status bind_targets(braid_graph *model, const braid_dataset_info *info, int64_t batch) {
  braid_value_id input = braid_graph_input(model, 1);
  braid_value_info value = braid_graph_value(model, input);
  BRAID_TRY(check_targets(&value, info));
  int64_t dims[BRAID_MAX_RANK], each = info->target == BRAID_TARGET_CLASS ? 1 : info->classes, left = each;
  int rank = value.desc.rank < 0 ? 1 + (info->target != BRAID_TARGET_CLASS) : value.desc.rank;
  bool fits = rank > 0;
  for (int i = 0; i < rank; i++) {
    bool open = value.desc.rank < 0 || value.desc.dims[i] < 0;
    dims[i] = i == 0 ? batch : open ? left : value.desc.dims[i];
    if (i == 0) continue;
    fits = fits && dims[i] > 0 && left % dims[i] == 0;
    if (fits) left /= dims[i];
  }
  if (fits && left == 1) return braid_graph_set_input_shape(model, input, rank, dims);
  char text[96];
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "input %.80s takes the targets and is %s; the batch first and %lld for each sample are expected",
                    value.name, braid_desc_format(&value.desc, text, sizeof text), (long long)each);
}

braid_status braid_own_loss_bind(braid_graph *model, const braid_dataset_info *info, int64_t batch) {
  if (braid_graph_input_count(model) != 2)
    return braid_fail(BRAID_INVALID_GRAPH,
                      "the model has %zu input%s; two, the samples and their targets, are expected where an output "
                      "is the loss",
                      braid_graph_input_count(model), braid_graph_input_count(model) == 1 ? "" : "s");
  BRAID_TRY(braid_bind_samples(model, info, batch));
  return bind_targets(model, info, batch);
}

static braid_status fail_outputs(const braid_graph *graph, const char *name) {
  char names[400] = "";
  for (size_t i = 0, used = 0; i < graph->output_count && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%.80s", i ? ", " : "",
                             graph->values[graph->outputs[i]].name);
  if (name) return braid_fail(BRAID_NOT_FOUND, "the model has no output %.80s; it has %s", name, names);
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the model has %zu outputs (%s); the name of the one that is the loss is expected",
                    graph->output_count, names);
}

braid_status braid_own_loss_select(braid_graph *graph, const char *name) {
  size_t at = 0;
  while (name && at < graph->output_count && strcmp(graph->values[graph->outputs[at]].name, name) != 0) at++;
  if (at == graph->output_count || (!name && graph->output_count != 1)) return fail_outputs(graph, name);
  graph->outputs[0] = graph->outputs[at];
  graph->output_count = 1;
  return BRAID_OK;
}

static braid_status add_cast(braid_graph *graph, braid_value_id from, braid_dtype to, braid_value_id *out) {
  braid_node_id cast;
  *out = 0;
  BRAID_TRY(braid_graph_add_node(graph, "Cast", NULL, &from, 1, out, 1, &cast));
  return braid_graph_set_int(graph, cast, "to", braid_dtype_to_onnx(to));
}

/* The loader gives classes as int32. */
static braid_status widen_classes(braid_graph *graph) {
  braid_value_id input = graph->inputs[1], wide = 0;
  braid_node_id cast;
  if (graph->values[input].desc.dtype != BRAID_I64) return BRAID_OK;
  graph->values[input].desc.dtype = BRAID_I32;
  BRAID_TRY(braid_graph_add_node(graph, "Cast", NULL, &input, 1, &wide, 1, &cast));
  BRAID_TRY(braid_graph_set_int(graph, cast, "to", braid_dtype_to_onnx(BRAID_I64)));
  braid_graph_replace_uses(graph, input, wide);
  graph->nodes[cast].inputs[0] = input;
  return braid_graph_sort(graph);
}

braid_status braid_own_loss_take(braid_graph *graph, braid_value_id *loss) {
  const braid_value *value = &graph->values[graph->outputs[0]];
  const braid_desc desc = value->desc;
  char text[96];
  if (!braid_dtype_is_float(desc.dtype) || desc.rank < 0 || braid_desc_count(&desc) != 1)
    return braid_fail(BRAID_INVALID_GRAPH, "output %.80s is %s; a loss is one floating-point number", value->name,
                      braid_desc_format(&desc, text, sizeof text));
  *loss = graph->outputs[0];
  graph->output_count = 0;
  if (desc.dtype != BRAID_F32) BRAID_TRY(add_cast(graph, *loss, BRAID_F32, loss));
  if (desc.rank > 0) {
    braid_value_id squeezed = 0;
    BRAID_TRY(braid_graph_add_node(graph, "Squeeze", NULL, loss, 1, &squeezed, 1, NULL));
    *loss = squeezed;
  }
  return widen_classes(graph);
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
typedef struct loss_test {
  const braid_graph *model;
  const char *output;
  braid_dataset_info info;
  const braid_session_options *options;
} loss_test;

static braid_status end_in_loss(const loss_test *t, int64_t batch, braid_graph *graph) {
  braid_value_id loss;
  BRAID_TRY(braid_own_loss_bind(graph, &t->info, batch));
  BRAID_TRY(braid_resolve_for_good(graph));
  BRAID_TRY(braid_own_loss_select(graph, t->output));
  BRAID_TRY(braid_own_loss_take(graph, &loss));
  return braid_graph_add_output(graph, loss);
}

/* `out` NULL: only whether the graph can be built. */
static braid_status open_session(const loss_test *t, int64_t batch, braid_session **out) {
  braid_graph *graph;
  if (out) *out = NULL;
  BRAID_TRY(braid_graph_clone(t->model, &graph));
  braid_status status = end_in_loss(t, batch, graph);
  if (status == BRAID_OK && out) status = braid_session_create(graph, t->options, out);
  braid_graph_destroy(graph);
  return status;
}

/* A loss is of a whole batch, so the samples that are left at the end have a session of their own. */
static braid_status check_last(const loss_test *t, int64_t batch) {
  if (t->info.views)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.200s: views is of scores, which a loss (--loss output) has not",
                      t->info.spec);
  int64_t last = t->info.samples % batch;
  braid_status status = last ? open_session(t, last, NULL) : BRAID_OK;
  if (status == BRAID_OK || status == BRAID_NO_MEMORY) return status;
  char detail[600];
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  return braid_fail(status,
                    "the last batch of the test's %lld samples has %lld, which the model does not take (%s); a batch "
                    "that leaves none, a model with an open batch, or no test is expected",
                    (long long)t->info.samples, (long long)last, detail);
}

braid_status braid_own_loss_check(const braid_graph *model, const char *output, const braid_dataset_info *test,
                                  int64_t batch) {
  const loss_test t = {.model = model, .output = output, .info = *test};
  if (test->samples >= batch) BRAID_TRY(open_session(&t, batch, NULL));
  return check_last(&t, batch);
}

static braid_status run_batch(const loss_test *t, braid_session *session, int64_t batch, const braid_batch *samples,
                              double *loss) {
  float found;
  braid_session *own = NULL;
  if (samples->count < batch) BRAID_TRY(open_session(t, samples->count, &own));
  braid_status status =
      braid_session_run(own ? own : session, (const void *[]){samples->images, samples->targets}, (void *[]){&found});
  braid_session_destroy(own);
  if (status == BRAID_OK) *loss += (double)found * (double)samples->count;
  return status;
}

static braid_status run_batches(const loss_test *t, braid_session *session, braid_loader *loader, int64_t batch,
                                braid_test_callback *callback, void *context, braid_test_result *result) {
  double loss = 0;
  for (int64_t s = 0, steps = braid_loader_steps(loader); s < steps; s++) {
    braid_batch samples;
    BRAID_TRY(braid_loader_next(loader, &samples));
    BRAID_TRY(run_batch(t, session, batch, &samples, &loss));
    result->samples += samples.count;
    if (callback && !callback(context, result->samples, t->info.samples))
      return braid_fail(BRAID_CANCELLED, "stopped after %lld of %lld samples", (long long)result->samples,
                        (long long)t->info.samples);
  }
  result->loss = loss / (double)result->samples;
  return braid_session_save_trace(session);
}

braid_status braid_test_loss(const braid_graph *model, const char *output, braid_dataset *dataset, int64_t batch,
                             const braid_session_options *options, braid_test_callback *callback, void *context,
                             braid_test_result *result) {
  const loss_test t = {model, output, braid_dataset_get_info(dataset), options};
  braid_metrics_clear(result, t.info.target, 0);
  if (batch < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "a batch of %lld; at least 1", (long long)batch);
  if (t.info.samples < 1) return braid_fail(BRAID_INVALID_ARGUMENT, "the data set %s has no samples", t.info.spec);
  if (batch > t.info.samples) batch = t.info.samples;
  braid_session *session;
  braid_loader *loader;
  BRAID_TRY(check_last(&t, batch));
  BRAID_TRY(open_session(&t, batch, &session));
  braid_loader_options loading = {.batch = batch, .keep_last = true, .threads = braid_loader_usual_threads()};
  braid_status status = braid_loader_create(dataset, &loading, 0, 0, &loader);
  if (status == BRAID_OK) {
    status = run_batches(&t, session, loader, batch, callback, context, result);
    braid_loader_destroy(loader);
  }
  braid_session_destroy(session);
  return status;
}
