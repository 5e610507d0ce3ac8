#include "designs.h"

static const char doc[] =
    "Shows designs of the overlay, an accelerator for FPGAs that runs networks by instructions and is shared by "
    "tenants: "
    "what a design computes and moves a second, what it needs of an FPGA, by estimate, and which of its figures nobody "
    "published. There is no such hardware; all figures are modelled."
    "\vExamples:\n"
    "  braid compile --designs\n"
    "  braid compile --design cnn-16x512 --show\n"
    "  braid compile --design mine.yaml --show --chip alveo-u250 --json\n"
    "\ndocs/overlay.md describes the overlay, the keys of design files and the estimate.\n";

enum { KEY_DESIGN = CLI_FIRST_KEY, KEY_DESIGNS, KEY_SHOW, KEY_CHIP };

typedef struct options {
  cli_common common;
  const char *design, *chip; /* chip NULL: all of the library */
  bool designs, show;
} options;

static void check_options(const options *o, struct argp_state *state) {
  if (o->designs && (o->design || o->show || o->chip))
    argp_error(state, "--designs goes without --design, --show and --chip");
  if (!o->designs && !o->design) argp_error(state, "--design or --designs is expected");
  if (o->design && !o->show) argp_error(state, "--show is expected");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_DESIGN:
    o->design = argument;
    return 0;
  case KEY_DESIGNS:
    o->designs = true;
    return 0;
  case KEY_SHOW:
    o->show = true;
    return 0;
  case KEY_CHIP:
    o->chip = argument;
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "\"%s\": no argument is expected", argument);
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int cli_compile(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"design", KEY_DESIGN, "DESIGN", 0, "A design of the library (--designs lists them) or a .yaml file", 0},
      {"show", KEY_SHOW, NULL, 0, "Print its roofline, its resources beside those of chips, and its figures", 0},
      {"chip", KEY_CHIP, "CHIP", 0, "With --show: this chip alone, of the library or a .yaml file", 0},
      {"designs", KEY_DESIGNS, NULL, 0, "List the designs of the library", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, NULL, doc, children, NULL, NULL};
  options o = {.common = {false, false}};
  cli_parse(&argp, argc, argv, &o);
  braid_status status = o.designs ? cli_design_list(o.common.json) : cli_design_show(o.design, o.chip, o.common.json);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "compile", status);
}
