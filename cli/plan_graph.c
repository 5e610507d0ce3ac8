#include "plan_graph.h"

#include <inttypes.h>

braid_status cli_plan_graph_load(const cli_source *source, const char *discriminator, cli_plan_graph *out) {
  braid_model_options how = source->options;
  how.log = cli_log();
  how.weights = NULL;
  braid_status status = cli_load(source, &out->model);
  if (status == BRAID_OK && discriminator) status = braid_model_load(NULL, discriminator, &how, &out->discriminator);
  return status;
}

braid_status cli_plan_graph_step(const cli_source *source, int64_t batch, int64_t replicas, cli_plan_graph *g) {
  if (g->replicas == replicas) return BRAID_OK;
  braid_graph_destroy(g->graph);
  *g = (cli_plan_graph){g->model, g->discriminator, NULL, replicas};
  if (batch % replicas)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a batch of %" PRId64 " does not divide among %" PRId64 " GPUs", batch,
                      replicas);
  return cli_blame_model(source, braid_planning_step(g->model, g->discriminator, batch / replicas, &g->graph));
}

braid_status cli_plan_graph_inference(const cli_source *source, int64_t given, int64_t *batch, cli_plan_graph *g) {
  braid_status status = given ? cli_set_batch(g->model, given) : BRAID_OK;
  if (status == BRAID_OK) status = braid_resolve(g->model);
  if (status != BRAID_OK) return cli_blame_model(source, status);
  braid_desc first = braid_graph_value(g->model, braid_graph_input(g->model, 0)).desc;
  if (first.rank > 0) *batch = first.dims[0];
  if (*batch < 1)
    return cli_blame_model(source,
                           braid_fail(BRAID_INVALID_ARGUMENT,
                                      "the batch, which is the first dimension of input \"%s\", is %" PRId64
                                      ", at least 1 is expected",
                                      braid_graph_value(g->model, braid_graph_input(g->model, 0)).name, *batch));
  g->graph = g->model;
  g->model = NULL;
  g->replicas = 1;
  return BRAID_OK;
}

void cli_plan_graph_deinit(cli_plan_graph *g) {
  braid_graph_destroy(g->model);
  braid_graph_destroy(g->discriminator);
  braid_graph_destroy(g->graph);
}
