/* The braid command: one file per subcommand. It uses the public headers only.
 *
 * Rules that all subcommands keep: results go to standard output, everything else (progress, warnings, errors) to
 * standard error; with --json exactly one document is printed on standard output, also on failure. The exit code is 0
 * on success, 1 if the operation failed, 2 for invalid options, models or data, and 130 after Ctrl-C. */
#ifndef BRAID_CLI_CLI_H
#define BRAID_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "braid/braid.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* X(name, what it does in one line), in the order of `braid --help`. */
#define CLI_COMMANDS(X)                                                                                                \
  X(train, "train a network on a data set")                                                                            \
  X(audit, "compute steps of a training's ledger again, and find the first difference")                                \
  X(test, "measure a network's accuracy and loss on a data set")                                                       \
  X(run, "run a model on arrays or an image")                                                                          \
  X(quantize, "make a model of 8-bit integers from a float one")                                                       \
  X(compile, "compile a network for the overlay, an accelerator that runs it by instructions")                         \
  X(simulate, "simulate a compiled network on the overlay, or a cluster that serves models")                           \
  X(share, "share a card of the overlay among tenants: policies on traces, and trials of their isolation")             \
  X(inspect, "list a model's nodes, shapes, parameters and memory, or draw it")                                        \
  X(serve, "serve models to tenants over HTTP and gRPC")                                                               \
  X(call, "launch a model of a daemon, and measure its latency")                                                       \
  X(bench, "measure the latency of a model and of each node")                                                          \
  X(profile, "measure what operations take on each device, for forecasts")                                             \
  X(plan, "forecast time, power and energy of a network on a modelled machine")                                        \
  X(devices, "list the available devices, or test one")                                                                \
  X(conformance, "run ONNX's backend tests")                                                                           \
  X(explore, "explore designs of an FPGA accelerator, or of one kernel for it")                                        \
  X(evaluate, "hold a model of ours against what was published and what is measured")

#define CLI_DECLARE(name, summary) int cli_##name(int argc, char **argv);
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

/* --- options that several commands share (options.c) --- */
/* Keys of long options, of a command and of those that it shares. Above the characters: argp takes a key that is one
 * for the option's short form. */
enum { CLI_FIRST_KEY = 0x100, CLI_FIRST_SHARED_KEY = 0x1000 };
/* Whether --json is among the arguments. */
bool cli_wants_json(int argc, char **argv);
/* argp_parse; with --json among the arguments a usage error is also a document on standard output. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

typedef struct cli_common {
  bool json, verbose;
} cli_common;
extern const struct argp cli_common_argp; /* --json --verbose; input: cli_common */

enum { CLI_MAX_PLUGINS = 16 };
typedef struct cli_place {
  const char *devices, *patterns, *platform, *trace, *plan, *save_plan, *plugins[CLI_MAX_PLUGINS];
  size_t plugin_count;
  int threads;
  bool no_fusion;
  braid_precision precision;  /* of the models that cli_load_to_run loads */
  braid_registry *registry;   /* between open and close */
  const char *placement_file; /* of `placement`; NULL: none */
  braid_placement placement;  /* that `plan` names, after open: `devices` and `patterns` are then from it */
} cli_place;
extern const struct argp cli_place_argp;     /* --device --place --platform --plugin --threads --trace */
extern const struct argp cli_inference_argp; /* ... and --no-fusion; training fuses nothing */
extern const struct argp cli_planned_argp;   /* ... and --plan --save-plan --precision, for commands that run a model */
/* The first option given that says where or how to run; NULL: none. */
const char *cli_place_given(const cli_place *place);
/* Whether a file is a plan of `braid plan --save`. */
bool cli_is_placement(const char *path);
/* NULL: it is not known why it could not be. */
const char *cli_why_unreadable(const char *path);
/* NOT_FOUND: a device that the forecast uses is none of this machine. */
braid_status cli_check_forecast(const braid_forecast *forecast);
/* INVALID_ARGUMENT if --plan is of `braid plan --save`, and of another batch than `batch`, or than the session's, which
 * is the first dimension of its first input. */
braid_status cli_check_batch(const cli_place *place, int64_t batch);
braid_status cli_check_session_batch(const cli_place *place, const braid_session *session);
void cli_add_plugin(struct argp_state *state, cli_place *place, const char *path);
/* The built-in backends, plug-ins and the platform file; what a plan of `braid plan --save` says. */
braid_status cli_open_registry(cli_place *place);
void cli_close_registry(cli_place *place); /* after all sessions were destroyed */
braid_session_options cli_session_options(const cli_place *place);

enum { CLI_MAX_ASSIGNMENTS = 32 };
/* Repeated NAME=VALUE or VALUE (name NULL). Text is owned by argv, which is changed. */
typedef struct cli_assignments {
  const char *names[CLI_MAX_ASSIGNMENTS], *values[CLI_MAX_ASSIGNMENTS];
  size_t count;
} cli_assignments;
void cli_assign(struct argp_state *state, cli_assignments *list, char *text);

typedef struct cli_source {
  const char *path;
  braid_model_options options;
  bool seed_given;
  cli_assignments shapes;
} cli_source;
extern const struct argp cli_source_argp; /* MODEL --weights --model-seed --shape; input: cli_source */
/* Loads the model and sets the input shapes given by --shape; the graph is not resolved. */
braid_status cli_load(const cli_source *source, braid_graph **out);
/* The same, for commands that run the model: meanwhile a thread opens the CPU device, if it is used, so that its
 * libraries load in parallel. */
braid_status cli_load_to_run(const cli_source *source, const cli_place *place, braid_graph **out);
/* The first dimension of every input becomes the batch. */
braid_status cli_set_batch(braid_graph *graph, int64_t batch);
/* Returns `status`; for errors of the model its path is put before the detail. */
braid_status cli_blame_model(const cli_source *source, braid_status status);

/* Numeric option arguments: end the program with a message and code 2 if they are malformed or out of range. */
int64_t cli_integer(struct argp_state *state, const char *option, const char *text, int64_t least, int64_t most);
/* Whether the argument is output or output:NAME, which is not empty; *name is NULL without one. */
bool cli_output_loss(struct argp_state *state, const char *argument, const char **name);
double cli_number(struct argp_state *state, const char *option, const char *text, double least, double most);

/* Prints the policies of forecasts and what they do (policies.c); returns the exit code. */
int cli_list_policies(bool json);

/* --- ending (report.c) --- */
/* Prints the failure (braid_error_detail()) on standard error, with --json also as the document; returns the exit code.
 */
int cli_fail(const cli_common *common, const char *command, braid_status status);
int cli_exit_code(braid_status status); /* that of cli_fail */
/* NO_MEMORY with its detail, for failures of malloc. */
braid_status cli_no_memory(void);
/* As cli_fail, for a failure detected by the command itself; printf format. */
int cli_fail_text(const cli_common *common, const char *command, int code, const char *format, ...) BRAID_PRINTF(4, 5);
void cli_start_log(const cli_common *common);
void cli_mute_log(void);
void cli_log_inform(void);      /* what is no warning is shown too: of a daemon, whose log is read later */
const braid_log *cli_log(void); /* silent until the log is started */
/* Prints {"error": {"status": ..., "detail": ...}} on standard output. */
void cli_print_error_json(const char *kind, const char *detail);
/* Names come from files, which may hold anything: what a terminal would not print, or would obey, is written as \xNN.
 */
void cli_print_escaped(FILE *file, const char *text);
/* Ctrl-C: the first sets the flag, the second ends the program at once. */
void cli_catch_interrupt(void);
/* Ctrl-C ends the program at once, as cli_fail would end it with "interrupted": while nothing is half written. */
void cli_end_on_interrupt(const cli_common *common, const char *command);
bool cli_interrupted(void);
/* `status`, or CANCELLED if Ctrl-C came meanwhile. */
braid_status cli_go_on(braid_status status);

/* --- terminals (terminal.c) --- */
/* Standard output and error break lines between words from now on where they are terminals; `json`: not the output. */
void cli_fit_terminal(bool json);
/* Breaks the lines of a text between words, and words that have no room in a line of their own. */
void cli_print_wrapped(FILE *file, const char *text, size_t width);
size_t cli_columns(FILE *terminal);
FILE *cli_bars(void);    /* standard error, for what moves in its line */
bool cli_can_draw(void); /* is it a terminal that knows how to clear a line (TERM)? */

/* --- progress on a terminal (report.c) --- */
typedef struct cli_progress {
  double started, drawn; /* seconds */
  bool terminal, shown;
  const char *label;
} cli_progress;
double cli_seconds(void);
void cli_progress_begin(cli_progress *progress, const char *label);
/* Draws a bar once two seconds have passed, ten times a second at most; `note` may be NULL. */
void cli_progress_update(cli_progress *progress, int64_t done, int64_t total, const char *note);
void cli_progress_end(cli_progress *progress);
const braid_progress *cli_prepare_progress(void); /* a bar while kernels are prepared */
/* Writes "1h02m", "3m07s" or "12s". */
char *cli_format_seconds(double seconds, char *buffer, size_t bytes);
/* Writes "12.3 MiB". */
char *cli_format_bytes(double bytes_count, char *buffer, size_t bytes);
/* Writes 1234567 as "1.23 M". */
char *cli_format_count(double count, char *buffer, size_t bytes);

/* Length of the UTF-8 sequence at `s`, 0 if it is invalid: names in models are arbitrary bytes. */
size_t cli_utf8_length(const unsigned char *s);

/* --- JSON (json.c): one document, collected and printed at the end --- */
typedef struct cli_json {
  FILE *file;
  char *text;
  size_t bytes;
  bool first;
} cli_json;
bool cli_json_begin(cli_json *json);                   /* opens the outermost object */
void cli_json_object(cli_json *json, const char *key); /* key NULL: in an array */
void cli_json_array(cli_json *json, const char *key);
void cli_json_close(cli_json *json, char bracket); /* '}' or ']' */
void cli_json_string(cli_json *json, const char *key, const char *value);
void cli_json_integer(cli_json *json, const char *key, int64_t value);
void cli_json_number(cli_json *json, const char *key, double value); /* whole: all its digits; not finite: null */
void cli_json_bool(cli_json *json, const char *key, bool value);
void cli_json_dims(cli_json *json, const char *key, const braid_desc *desc);
void cli_json_discard(cli_json *json); /* instead of end */
/* Closes the outermost object and prints the document; false if it could not be printed. */
bool cli_json_end(cli_json *json);

#endif
