/* Runs a model on zeros and prints its output: inference MODEL.onnx */
#include <stdio.h>
#include <stdlib.h>

#include <braid/braid.h>

int main(int argc, char **argv) {
  braid_graph *graph = NULL;
  braid_session *session = NULL;
  braid_status status = braid_model_load(NULL, argc > 1 ? argv[1] : "model.onnx", NULL, &graph);
  if (status == BRAID_OK) status = braid_session_create(graph, NULL, &session);
  if (status == BRAID_OK && (braid_session_input_count(session) != 1 || braid_session_output_count(session) != 1))
    status = braid_fail(BRAID_UNSUPPORTED, "the model has not one input and one output");
  if (status == BRAID_OK) {
    const braid_desc *scores = braid_session_output(session, 0);
    float *input = calloc(1, braid_desc_bytes(braid_session_input(session, 0)));
    float *output = calloc(1, braid_desc_bytes(scores));
    status = braid_session_run(session, (const void *[]){input}, (void *[]){output});
    for (int64_t i = 0; status == BRAID_OK && i < braid_desc_count(scores); i++) printf("%g\n", (double)output[i]);
    free(input);
    free(output);
  }
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  return status != BRAID_OK;
}
