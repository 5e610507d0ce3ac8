/* The training graph of a model for which there is no data set: its samples are what its input takes. */
#include "base/checked.h"
#include "base/try.h"
#include "braid/model.h"
#include "graph/graph.h"
#include "train/step.h"

/* Values of a sample, and how many scores the model gives for it: what a data set would say. */
static braid_status describe_data(const braid_graph *model, int64_t batch, braid_dataset_info *info, int64_t *places) {
  if (braid_graph_input_count(model) != 1 || braid_graph_output_count(model) < 1)
    return braid_fail(BRAID_INVALID_GRAPH,
                      "the model has %zu inputs and %zu outputs; one input and scores are expected",
                      braid_graph_input_count(model), braid_graph_output_count(model));
  braid_desc desc = braid_graph_value(model, braid_graph_input(model, 0)).desc;
  int64_t values = 1;
  for (int i = 1; i < desc.rank; i++)
    if (desc.dims[i] < 1 || !braid_mul_i64(values, desc.dims[i], &values) || values > INT32_MAX)
      return braid_fail(BRAID_INVALID_ARGUMENT, "dimension %d of the model's input is %lld: set it with its shape", i,
                        (long long)desc.dims[i]);
  *info = (braid_dataset_info){.spec = "", .channels = 1, .height = 1, .width = (int)values};
  braid_graph *resolved;
  BRAID_TRY(braid_graph_clone(model, &resolved));
  braid_status status = braid_bind_input(resolved, info, batch);
  if (status == BRAID_OK) status = braid_resolve(resolved);
  if (status == BRAID_OK) {
    braid_desc scores = braid_graph_value(resolved, braid_graph_output(resolved, 0)).desc;
    int64_t classes = scores.rank > 0 ? braid_desc_count(&scores) / batch : 0;
    if (classes < 1 || classes > INT32_MAX || scores.dims[0] != batch)
      status = braid_fail(BRAID_INVALID_GRAPH, "the model's first output does not hold scores of each sample");
    *places = scores.rank > 2 && status == BRAID_OK ? classes / scores.dims[1] : 1;
    info->classes = (int)(classes / *places);
  }
  braid_graph_destroy(resolved);
  return status;
}

braid_status braid_step_graph_alone(const braid_graph *model, const braid_train_options *options, braid_graph **out) {
  braid_dataset_info info;
  *out = NULL;
  int64_t places = 1;
  BRAID_TRY(describe_data(model, options->batch, &info, &places));
  return braid_step_graph_of_places(model, &info, places, options, out);
}
