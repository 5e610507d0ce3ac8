/* A network and a data set of one's own: two spirals, told apart by a perceptron that is built here. It is trained and
 * saved: own TRAINED.onnx */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

enum { SAMPLES = 2000, HIDDEN = 32 };

/* A point of one of the spirals. The same index always gives the same sample. */
static braid_status read_point(void *context, int64_t index, float *xy, int32_t *label) {
  (void)context;
  double t = 0.5 + 3.5 * (double)(index / 2) / (SAMPLES / 2), side = index % 2 ? 1 : -1;
  xy[0] = (float)(side * t * cos(2 * t) / 4);
  xy[1] = (float)(side * t * sin(2 * t) / 4);
  *label = (int32_t)(index % 2);
  return BRAID_OK;
}

/* A parameter with small random numbers, or zeros. */
static braid_status add_parameter(braid_graph *graph, const char *name, int rank, const int64_t *dims, float scale,
                                  braid_value_id *out) {
  braid_desc desc;
  braid_tensor *tensor = NULL;
  braid_status status = braid_desc_init(&desc, BRAID_F32, rank, dims);
  if (status == BRAID_OK) status = braid_tensor_create(NULL, &desc, &tensor);
  for (int64_t i = 0; status == BRAID_OK && i < braid_desc_count(&desc); i++)
    ((float *)braid_tensor_data(tensor))[i] = scale * ((float)rand() / (float)RAND_MAX * 2 - 1);
  if (status == BRAID_OK) status = braid_graph_add_tensor(graph, name, BRAID_VALUE_PARAMETER, tensor, out);
  braid_tensor_release(tensor);
  return status;
}

/* Relu(x w + b), or without Relu. */
static braid_status add_layer(braid_graph *graph, const char *name, int64_t from, int64_t to, bool relu,
                              braid_value_id *x) {
  char weight[32], bias[32];
  braid_value_id inputs[3] = {*x, -1, -1}, y = 0, active = 0;
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  float scale = (float)sqrt(6.0 / (double)from);
  braid_status status = add_parameter(graph, weight, 2, (int64_t[]){from, to}, scale, &inputs[1]);
  if (status == BRAID_OK) status = add_parameter(graph, bias, 1, &to, 0, &inputs[2]);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Gemm", name, inputs, 3, &y, 1, NULL);
  if (status == BRAID_OK && relu) status = braid_graph_add_node(graph, "Relu", NULL, &y, 1, &active, 1, NULL);
  *x = relu ? active : y;
  return status;
}

static braid_status build(braid_graph **out) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x = 0;
  braid_status status = braid_graph_create(NULL, "spirals", &graph);
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, 2});
  desc.dims[0] = -1; /* any batch */
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "point", &desc, &x);
  if (status == BRAID_OK) status = add_layer(graph, "first", 2, HIDDEN, true, &x);
  if (status == BRAID_OK) status = add_layer(graph, "second", HIDDEN, HIDDEN, true, &x);
  if (status == BRAID_OK) status = add_layer(graph, "third", HIDDEN, 2, false, &x);
  if (status == BRAID_OK) status = braid_graph_rename_value(graph, x, "scores");
  if (status == BRAID_OK) status = braid_graph_add_output(graph, x);
  *out = graph;
  return status;
}

static bool watch(void *context, const braid_train_progress *now) {
  if (now->epoch_done) *(double *)context = now->accuracy;
  return true;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"left", "right"};
  const braid_dataset_source source = {.name = "spirals",
                                       .samples = SAMPLES,
                                       .channels = 1,
                                       .height = 1,
                                       .width = 2,
                                       .classes = 2,
                                       .class_names = names,
                                       .read = read_point};
  braid_graph *graph = NULL, *trained = NULL;
  braid_dataset *data = NULL;
  braid_trainer *trainer = NULL;
  braid_session *session = NULL;
  braid_train_options options;
  double accuracy = 0;
  braid_train_options_init(&options);
  options.optimizer = BRAID_ADAM;
  options.learning_rate = 0.01;
  options.batch = 50;
  options.epochs = 15;
  braid_status status = build(&graph);
  if (status == BRAID_OK) status = braid_dataset_create(NULL, &source, NULL, &data);
  if (status == BRAID_OK) status = braid_trainer_create(graph, data, NULL, &options, &trainer);
  if (status == BRAID_OK) status = braid_trainer_run(trainer, watch, &accuracy);
  if (status == BRAID_OK) status = braid_trainer_model(trainer, &trained);
  if (status == BRAID_OK) status = braid_model_save_onnx(trained, argc > 1 ? argv[1] : "spirals.onnx");
  if (status == BRAID_OK) status = braid_session_create(trained, NULL, &session);
  if (status == BRAID_OK) {
    printf("accuracy %.1f%%; from %s to %s\n", accuracy * 100, braid_session_input_name(session, 0),
           braid_session_output_name(session, 0));
    if (accuracy < 0.95) status = braid_fail(BRAID_INTERNAL, "the spirals were not told apart");
  }
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  braid_session_destroy(session);
  braid_graph_destroy(trained);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
  return status != BRAID_OK;
}
