/* The graph that `braid plan` plans: of a model, for inference or a training step. */
#ifndef BRAID_CLI_PLAN_GRAPH_H
#define BRAID_CLI_PLAN_GRAPH_H

#include "cli.h"

/* The models as loaded, and what is planned of them: for so many replicas. */
typedef struct cli_plan_graph {
  braid_graph *model, *discriminator, *graph;
  int64_t replicas; /* 0: there is no graph yet */
} cli_plan_graph;

/* `discriminator`: a path; NULL: none. */
braid_status cli_plan_graph_load(const cli_source *source, const char *discriminator, cli_plan_graph *out);
/* The training step of one of `replicas`, which share the batch. */
braid_status cli_plan_graph_step(const cli_source *source, int64_t batch, int64_t replicas, cli_plan_graph *g);
/* `given`: 0 leaves the model's batch. *batch: set to that of the graph, if its first input has one. */
braid_status cli_plan_graph_inference(const cli_source *source, int64_t given, int64_t *batch, cli_plan_graph *g);
void cli_plan_graph_deinit(cli_plan_graph *g); /* all zero is allowed */

#endif
