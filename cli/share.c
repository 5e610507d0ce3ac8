#include <string.h>

#include "sharing.h"

static const char doc[] =
    "Several tenants on a card of the overlay, in simulated time. With --isolation a tenant runs beside others that "
    "mean "
    "harm, each in its way; printed is what they get, and what the tenant feels of it. There is no such hardware."
    "\vExamples:\n"
    "  braid share --isolation --design cnn-16x512\n"
    "  braid share --isolation --design cnn-16x512 model.bpk\n"
    "\nPackages are of braid compile; without one the tenant runs six convolutions. docs/sharing.md says what is "
    "modelled.\n";

enum { KEY_DESIGN = CLI_FIRST_KEY, KEY_ISOLATION };

typedef struct options {
  cli_common common;
  cli_sharing how;
} options;

static void check_options(const options *o, struct argp_state *state) {
  if (!o->how.design) argp_error(state, "--design is expected");
  if (!o->how.isolation) argp_error(state, "--isolation is expected");
  if (o->how.isolation && o->how.package_count > 1) argp_error(state, "--isolation takes one package");
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
  case KEY_ISOLATION:
    o->how.isolation = true;
    return 0;
  case ARGP_KEY_ARG:
    if (o->how.package_count == CLI_SHARING_PACKAGES)
      argp_error(state, "\"%s\": at most %d packages are expected", argument, CLI_SHARING_PACKAGES);
    o->how.packages[o->how.package_count++] = argument;
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int cli_share(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"design", KEY_DESIGN, "DESIGN", 0, "A design of the library (braid compile --designs) or a .yaml file", 0},
      {"isolation", KEY_ISOLATION, NULL, 0,
       "Try what tenants can do to each other; fails where one changes what another computes", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "[PACKAGE...]", doc, children, NULL, NULL};
  options o = {.common = {false, false}};
  cli_parse(&argp, argc, argv, &o);
  o.how.json = o.common.json;
  cli_end_on_interrupt(&o.common, "share");
  braid_status status = cli_try_isolation(&o.how);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "share", status);
}
