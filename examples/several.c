/* Runs a model at two batch sizes at the same time, over one set of weights: several MODEL.onnx */
#include <stdio.h>
#include <stdlib.h>

#include <braid/braid.h>

/* A plan for `batch` inputs, and one execution of it. */
static braid_status make(braid_machine *machine, braid_weights *weights, const braid_graph *model, int64_t batch,
                         braid_execution **out, size_t *input_bytes, size_t *output_bytes) {
  braid_graph *graph = NULL;
  braid_plan *plan = NULL;
  braid_status status = braid_graph_clone(model, &graph);
  if (status == BRAID_OK) {
    braid_desc input = braid_graph_value(graph, braid_graph_input(graph, 0)).desc;
    input.dims[0] = batch;
    status = braid_graph_set_input_shape(graph, braid_graph_input(graph, 0), input.rank, input.dims);
  }
  if (status == BRAID_OK) status = braid_plan_create(machine, graph, NULL, &plan);
  if (status == BRAID_OK && (braid_plan_input_count(plan) != 1 || braid_plan_output_count(plan) != 1))
    status = braid_fail(BRAID_UNSUPPORTED, "the model has not one input and one output");
  if (status == BRAID_OK) status = braid_execution_create(plan, weights, out);
  if (status == BRAID_OK) *input_bytes = braid_desc_bytes(braid_plan_input(plan, 0));
  if (status == BRAID_OK) *output_bytes = braid_desc_bytes(braid_plan_output(plan, 0));
  braid_plan_release(plan); /* the execution keeps it */
  braid_graph_destroy(graph);
  return status;
}

int main(int argc, char **argv) {
  braid_graph *model = NULL;
  braid_machine *machine = NULL;
  braid_weights *weights = NULL;
  braid_execution *runs[2] = {NULL, NULL};
  void *inputs[2] = {NULL, NULL}, *outputs[2] = {NULL, NULL};
  braid_status status = braid_model_load(NULL, argc > 1 ? argv[1] : "model.onnx", NULL, &model);
  if (status == BRAID_OK) status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = braid_weights_create(machine, &weights);
  for (int i = 0; status == BRAID_OK && i < 2; i++) {
    size_t input_bytes = 0, output_bytes = 0;
    status = make(machine, weights, model, i ? 4 : 1, &runs[i], &input_bytes, &output_bytes);
    inputs[i] = calloc(1, input_bytes + 1);
    outputs[i] = calloc(1, output_bytes + 1);
  }
  for (int i = 0; status == BRAID_OK && i < 2; i++)
    status = braid_execution_submit(runs[i], (const void *[]){inputs[i]}, (void *[]){outputs[i]}, NULL, NULL);
  for (int i = 0; status == BRAID_OK && i < 2; i++) status = braid_execution_wait(runs[i], -1);
  if (status == BRAID_OK)
    printf("%g and %g over %zu bytes of weights\n", (double)*(float *)outputs[0], (double)*(float *)outputs[1],
           braid_weights_bytes(weights));
  else
    fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  for (int i = 0; i < 2; i++) {
    braid_execution_destroy(runs[i]);
    free(inputs[i]);
    free(outputs[i]);
  }
  braid_weights_release(weights);
  braid_machine_release(machine);
  braid_graph_destroy(model);
  return status != BRAID_OK;
}
