#include <string.h>

#include "simulation.h"

static const char doc[] =
    "Simulates a network on the overlay: a package of braid compile, alone on cores of a card. Prints what an image "
    "takes, modelled cycle by cycle, beside what the compiler expected and the roofline; with --input what it "
    "computes, "
    "bit for bit. There is no such hardware. `braid simulate cluster` simulates a cluster that serves models; "
    "`braid simulate cluster --help` describes it."
    "\vExamples:\n"
    "  braid simulate model.bpk --design cnn-16x512\n"
    "  braid simulate model.bpk --design cnn-16x512 --cores all\n"
    "  braid simulate model.bpk --design cnn-16x512 --cores 4 --input image.npy --output scores.npy\n"
    "  braid simulate model.bpk --design cnn-16x512 --cores 4 --check\n"
    "  braid simulate model.bpk --design cnn-16x512 --cores 4 --timeline model.html\n"
    "  braid simulate lstm.bpk --design rnn-16x64 --steps 100 --cores all\n"
    "\nInputs are .npy files of one image, channels, rows, columns, in float32, or in int8 as the package has them; of "
    "recurrent networks of one sequence, steps, 1, numbers of a step, in float32 or int16. "
    "docs/overlay.md says what is modelled.\n";

enum { KEY_DESIGN = CLI_FIRST_KEY, KEY_CORES, KEY_INPUT, KEY_OUTPUT, KEY_CHECK, KEY_TIMELINE, KEY_TRACE, KEY_STEPS };

typedef struct options {
  cli_common common;
  cli_simulation how;
} options;

static void check_options(const options *o, struct argp_state *state) {
  if (!o->how.package) argp_error(state, "a package is expected: a .bpk file of braid compile");
  if (!o->how.design) argp_error(state, "--design is expected");
  if (o->how.all && (o->how.inputs.count || o->how.outputs.count || o->how.check || o->how.timeline || o->how.trace))
    argp_error(state, "--cores all goes without --input, --output, --check, --timeline and --trace");
  if (o->how.outputs.count && !o->how.inputs.count) argp_error(state, "--output needs --input");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_DESIGN:
    o->how.design = argument;
    return 0;
  case KEY_CORES:
    o->how.all = strcmp(argument, "all") == 0;
    o->how.cores = o->how.all ? 0 : (int)cli_integer(state, "--cores", argument, 1, BRAID_OVERLAY_MOST_CORES);
    return 0;
  case KEY_INPUT:
    cli_assign(state, &o->how.inputs, argument);
    return 0;
  case KEY_OUTPUT:
    cli_assign(state, &o->how.outputs, argument);
    return 0;
  case KEY_STEPS:
    o->how.steps = (int)cli_integer(state, "--steps", argument, 1, 1 << 20);
    return 0;
  case KEY_CHECK:
    o->how.check = true;
    return 0;
  case KEY_TIMELINE:
    o->how.timeline = argument;
    return 0;
  case KEY_TRACE:
    o->how.trace = argument;
    return 0;
  case ARGP_KEY_ARG:
    if (o->how.package) argp_error(state, "\"%s\": one package is expected", argument);
    o->how.package = argument;
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int cli_simulate(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"design", KEY_DESIGN, "DESIGN", 0, "A design of the library (braid compile --designs) or a .yaml file", 0},
      {"cores", KEY_CORES, "N|all", 0, "On so many cores; all: a table of 1, 2, 4 ... (default: as many as there are)",
       0},
      {"input", KEY_INPUT, "[NAME=]FILE", 0, "Compute the results of this input, an .npy file", 0},
      {"output", KEY_OUTPUT, "[NAME=]FILE", 0, "Write this output as .npy", 0},
      {"steps", KEY_STEPS, "N", 0, "Recurrent networks: sequences of so many steps (default: the package's)", 0},
      {"check", KEY_CHECK, NULL, 0,
       "Compute in adversarial orders too, look for races, and compare the results (without --input: of random inputs)",
       0},
      {"timeline", KEY_TIMELINE, "FILE", 0, "Write what each unit of each core did and when, as a page (.html)", 0},
      {"trace", KEY_TRACE, "FILE", 0, "Write it for Perfetto or chrome://tracing (.json)", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "PACKAGE", doc, children, NULL, NULL};
  options o = {.common = {false, false}};
  if (argc > 1 && strcmp(argv[1], "cluster") == 0) {
    static char title[] = "braid simulate cluster";
    argv[1] = title; /* argp prints it in its messages */
    return cli_simulate_cluster(argc - 1, argv + 1);
  }
  cli_parse(&argp, argc, argv, &o);
  o.how.json = o.common.json;
  cli_end_on_interrupt(&o.common, "simulate");
  braid_status status = cli_simulate_package(&o.how);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "simulate", status);
}
