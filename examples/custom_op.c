/* An op that Braid does not have: registered, used in a graph, and run. It computes x * x * x, element by element. */
#include <stdio.h>

#include <braid/braid.h>

static braid_status cube_infer(const braid_attrs *attrs, const braid_desc *const *inputs, size_t input_count,
                               braid_desc *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  if (inputs[0]->dtype != BRAID_F32) return braid_fail(BRAID_UNSUPPORTED, "Cube takes float32 only");
  outputs[0] = *inputs[0];
  return BRAID_OK;
}

static braid_status cube_compute(const braid_attrs *attrs, const braid_custom_array *inputs, size_t input_count,
                                 const braid_custom_array *outputs, size_t output_count) {
  (void)attrs, (void)input_count, (void)output_count;
  const float *x = inputs[0].data;
  float *y = outputs[0].data;
  for (int64_t i = 0; i < braid_desc_count(inputs[0].desc); i++) y[i] = x[i] * x[i] * x[i];
  return BRAID_OK;
}

static const braid_custom_op cube = {.name = "example.Cube",
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .outputs = 1,
                                     .infer = cube_infer,
                                     .compute = cube_compute};

int main(void) {
  const float input[4] = {1, 2, 3, -4};
  float output[4] = {0};
  braid_graph *graph = NULL;
  braid_session *session = NULL;
  braid_desc desc;
  braid_value_id x, y = 0;
  braid_status status = braid_custom_op_register(&cube);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){4});
  if (status == BRAID_OK) status = braid_graph_create(NULL, "cubes", &graph);
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &desc, &x);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, cube.name, "cube", &x, 1, &y, 1, NULL);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, y);
  if (status == BRAID_OK) status = braid_session_create(graph, NULL, &session);
  if (status == BRAID_OK) status = braid_session_run(session, (const void *[]){input}, (void *[]){output});
  for (int i = 0; status == BRAID_OK && i < 4; i++) printf("%g cubed is %g\n", (double)input[i], (double)output[i]);
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return status != BRAID_OK;
}
