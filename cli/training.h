/* Which constants of a model `braid train` would train, and why the others stay as they are. */
#ifndef BRAID_CLI_TRAINING_H
#define BRAID_CLI_TRAINING_H
#include "cli.h"

/* Totals, on standard error: how much trains, and how much stays fixed for which reason. `model` is as loaded. */
braid_status training_summarize(const braid_graph *model);
/* Every floating-point constant with its verdict, on standard output or (`json` not NULL) in the document. */
braid_status training_list(const braid_graph *model, cli_json *json);
#endif
