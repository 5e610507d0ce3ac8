/* What the files of `braid call` share: call.c (options, lists), call_launch.c (launches). */
#ifndef BRAID_CLI_CALL_H
#define BRAID_CLI_CALL_H

#include "braid/client.h"
#include "cli.h"

typedef struct call_options {
  cli_common common;
  const char *address, *model, *token;
  cli_assignments inputs, outputs;
  bool list, in_line, compile;
  int64_t deadline_us, timeout_ms;
  int priority, repeat;
} call_options;

/* The status as the command's, with the sentence. */
braid_status cli_call_status(braid_client_status status);
/* Whether an output goes to standard output, where then no text goes. */
bool cli_call_writes_output(const call_options *o);
/* Reads inputs, launches, and prints and saves outputs. */
braid_status cli_call_launch(const call_options *o, braid_client *client);

#endif
