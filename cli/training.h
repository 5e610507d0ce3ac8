/* Which constants of a model `braid train` would train, and why not the others. */
#ifndef BRAID_CLI_TRAINING_H
#define BRAID_CLI_TRAINING_H
#include "cli.h"

/* Prints totals on standard error: what is trained, and what is not for which reason. */
braid_status training_summarize(const braid_trainer *trainer, const braid_train_options *options);
/* Lists every floating-point constant, on standard output or (`json` not NULL) in the document. */
braid_status training_list(const braid_graph *model, cli_json *json);
#endif
