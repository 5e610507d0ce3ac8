/* Input files, output files and latencies, for `braid run` and `braid bench`. */
#ifndef BRAID_CLI_VALUES_H
#define BRAID_CLI_VALUES_H

#include "cli.h"

/* Reads a .npy array or a JPEG or PNG image, recognized by their first bytes; "-" is standard input. An image is
 * converted to the channels, height and width of `wanted`; an array keeps its shape. *image: the file is an image, so
 * `preprocess` was applied. */
braid_status cli_read_value(const char *path, const char *input, const braid_desc *wanted, const char *preprocess,
                            bool *image, braid_tensor **out);
/* Whether the tensor has the type and shape of `wanted`, ignoring leading dimensions of 1. */
braid_status cli_check_value(const char *path, const char *input, const braid_desc *wanted, const braid_tensor *tensor);
/* A tensor with reproducible pseudo-random contents: floats in [-1, 1), integers in 0..3, booleans. */
braid_status cli_make_value(const braid_desc *desc, braid_tensor **out);

/* Buffers for all inputs and outputs of a session. */
typedef struct cli_buffers {
  size_t input_count, output_count;
  braid_tensor **inputs, **outputs;
  const void **input_data;
  void **output_data;
} cli_buffers;
/* Creates the outputs; inputs are NULL until the caller sets them. */
braid_status cli_buffers_create(const braid_session *session, cli_buffers *buffers);
void cli_buffers_destroy(cli_buffers *buffers);
braid_status cli_buffers_run(cli_buffers *buffers, braid_session *session);

/* Latencies of repeated runs, in milliseconds. */
typedef struct cli_latency {
  int runs;
  double median, least, p90, mean;
} cli_latency;
/* Runs twice to warm up, then `runs` times measured. CANCELLED after Ctrl-C. */
braid_status cli_measure(cli_buffers *buffers, braid_session *session, int runs, cli_latency *latency);
void cli_json_latency(cli_json *json, const char *key, const cli_latency *latency, int64_t batch);

/* What the tasks of simulated devices take in a run, one after the other, by the devices' own models. */
typedef struct cli_modelled {
  size_t tasks;           /* 0: all devices are real */
  char devices[64];       /* "overlay", or "overlay.0, overlay.1" */
  double ms, millijoules; /* NAN: unknown */
} cli_modelled;
cli_modelled cli_find_modelled(const braid_session *session);
/* A line, or key "modelled"; nothing if all devices are real. `batch`: samples in a run. */
void cli_print_modelled(const braid_session *session, int64_t batch, FILE *file, cli_json *json);
/* Whether one of the devices that are named to run on is simulated: what its runs take is then no measurement of it. */
bool cli_place_simulates(const cli_place *place);
/* Samples in a run of the session: the first dimension of its first input. */
int64_t cli_session_batch(const braid_session *session);

/* Prints the plan with its offers (explain.c), as text or, if `json` is not NULL, as key "plan". `loaded`: the path of
 * a saved plan, which has no offers; NULL: the plan was made by this process. */
void cli_print_plan(const braid_session *session, const char *loaded, FILE *file, cli_json *json);

/* Labels, one per line of a file. */
typedef struct cli_labels {
  char *text;
  char **lines;
  size_t count;
} cli_labels;
braid_status cli_labels_load(const char *path, cli_labels *labels);
void cli_labels_free(cli_labels *labels);

typedef struct cli_guess {
  int64_t index;
  double score, probability;
} cli_guess;
/* The `count` highest of `classes` scores from `offset`, highest first, without NaN; returns their number.
 * Probabilities are computed by softmax unless the scores are probabilities already. */
int64_t cli_top(const braid_tensor *scores, int64_t offset, int64_t classes, cli_guess *guesses, int64_t count);

/* --- saved plans (saved_plan.c) --- */
bool cli_is_plan(const char *path);
/* Prints a saved plan, or its differences from another. */
braid_status cli_inspect_plan(const char *path, const char *against, bool json);

#endif
