/* What the files of `braid call` share: call.c (options, lists), call_launch.c (launches). */
#ifndef BRAID_CLI_CALL_H
#define BRAID_CLI_CALL_H

#include "braid/client.h"
#include "cli.h"

enum { CLI_CALL_ADDRESSES = 64 };

typedef struct call_options {
  cli_common common;
  const char *address, *model, *token, *authority, *certificate, *key;
  cli_assignments inputs, outputs;
  bool list, in_line, compile;
  int64_t deadline_us, timeout_ms;
  int priority, repeat;
  uint32_t cores; /* asked for, of cores_device ("": the first), for the time of the call; 0: none */
  char cores_device[128];
  int64_t batch; /* rows of a launch, spread over daemons; 0: one launch */
} call_options;

/* A launch, with what goes in and comes out. */
typedef struct cli_call_state {
  braid_client *client;
  braid_client_model *model;
  braid_tensor *arrays[CLI_MAX_ASSIGNMENTS];
  braid_client_tensor inputs[CLI_MAX_ASSIGNMENTS], outputs[BRAID_CLIENT_MAX_TENSORS];
  braid_client_launch_options options;
  braid_client_memory *memory;
  braid_client_call *call; /* the last */
  double *times;           /* of repeated ones, in milliseconds, sorted */
  int runs;
  bool shared;
  braid_client_cores cores;   /* held until the connection ends */
  double calls_per_inference; /* of the repeated ones */
} cli_call_state;

/* The status as the command's, with the sentence. */
braid_status cli_call_status(braid_client_status status);
/* Whether an output goes to standard output, where then no text goes. */
bool cli_call_writes_output(const call_options *o);
/* The model's description, which names its ports. */
braid_status cli_call_find_model(const call_options *o, cli_call_state *l);
/* An array (.npy) becomes an input of the model; `name` NULL: its only one. */
braid_status cli_call_read_input(cli_call_state *l, const char *name, const char *path);
/* Saves those that are asked for; prints the beginning of one, as text or into `json`. */
braid_status cli_call_save_outputs(const call_options *o, const braid_client_tensor *outputs, size_t count);
braid_status cli_call_show_output(FILE *file, cli_json *json, const braid_client_tensor *output);
/* --batch: the rows of the inputs are launched a few at a time, over all daemons of the address (call_batch.c). */
braid_status cli_call_batch(const call_options *o, const braid_client_options *connection);
/* Reads inputs, launches, and prints and saves outputs. */
braid_status cli_call_launch(const call_options *o, braid_client *client);

#endif
