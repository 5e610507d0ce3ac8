/* Trains a model for one epoch on generated pictures and saves it: training MODEL.cfg TRAINED.onnx */
#include <stdio.h>

#include <braid/braid.h>

static bool show(void *context, const braid_train_progress *now) {
  (void)context;
  if (now->epoch_done) printf("loss %.3f, accuracy %.1f%%\n", now->loss, now->accuracy * 100);
  return true;
}

int main(int argc, char **argv) {
  braid_graph *graph = NULL, *trained = NULL;
  braid_dataset *data = NULL;
  braid_trainer *trainer = NULL;
  braid_train_options options;
  braid_train_options_init(&options);
  options.epochs = 1;
  braid_status status = braid_model_load(NULL, argc > 1 ? argv[1] : "model.cfg", NULL, &graph);
  if (status == BRAID_OK) status = braid_dataset_open(NULL, "builtin:glyphs,limit=2000", "train", &data);
  if (status == BRAID_OK) status = braid_trainer_create(graph, data, NULL, &options, &trainer);
  if (status == BRAID_OK) status = braid_trainer_run(trainer, show, NULL);
  if (status == BRAID_OK) status = braid_trainer_model(trainer, &trained);
  if (status == BRAID_OK) status = braid_model_save_onnx(trained, argc > 2 ? argv[2] : "trained.onnx");
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  braid_graph_destroy(trained);
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
  braid_graph_destroy(graph);
  return status != BRAID_OK;
}
