#include <string.h>

#include "sharing.h"

static const char doc[] =
    "Several tenants on a card of the overlay, in simulated time: what becomes of their jobs under policies that say "
    "who "
    "has how many cores when, on the same traces. A job is a run of one of the networks, whose times on each number of "
    "cores the timing simulator gives; without packages these are VGG16, ResNet-50, Inception-v3 and MobileNet. With "
    "--isolation a tenant runs beside others that mean harm, each in its way; printed is what they get, and what the "
    "tenant feels of it. There is no such hardware."
    "\vExamples:\n"
    "  braid share --design cnn-16x512\n"
    "  braid share --design cnn-16x512 --policy prema,lookahead --load 2\n"
    "  braid share --design cnn-16x512 --trace AzureLLMInferenceTrace_code.csv --load 0.7 --schedule jobs.csv\n"
    "  braid share --design cnn-16x512 --jobs 2000 --traces 5 a.bpk b.bpk\n"
    "  braid share --isolation --design cnn-16x512 model.bpk\n"
    "\nPackages are of braid compile; with --isolation and without one the tenant runs six convolutions. "
    "docs/sharing.md "
    "says what is modelled.\n";

enum {
  KEY_DESIGN = CLI_FIRST_KEY,
  KEY_ISOLATION,
  KEY_POLICY,
  KEY_TRACE,
  KEY_SCHEDULE,
  KEY_LOAD,
  KEY_JOBS,
  KEY_TENANTS,
  KEY_SEED,
  KEY_TRACES
};

typedef struct options {
  cli_common common;
  cli_sharing how;
  const char *shares; /* an option given that is for policies; NULL: none */
} options;

static void check_options(const options *o, struct argp_state *state) {
  if (!o->how.design) argp_error(state, "--design is expected");
  if (o->how.isolation && o->shares) argp_error(state, "--isolation tries no policies: %s has no effect", o->shares);
  if (o->how.isolation && o->how.package_count > 1) argp_error(state, "--isolation takes one package");
}

/* Options for policies on traces; false: another one. */
static bool parse_policies(int key, char *argument, struct argp_state *state, options *o) {
  cli_sharing *how = &o->how;
  switch (key) {
  case KEY_POLICY:
    how->policies = argument;
    o->shares = "--policy";
    return true;
  case KEY_TRACE:
    how->trace = strcmp(argument, "random") == 0 ? NULL : argument;
    o->shares = "--trace";
    return true;
  case KEY_SCHEDULE:
    how->schedule = argument;
    o->shares = "--schedule";
    return true;
  case KEY_LOAD:
    how->load = cli_number(state, o->shares = "--load", argument, 0.001, 1000);
    return true;
  case KEY_JOBS:
    how->jobs = cli_integer(state, o->shares = "--jobs", argument, 1, BRAID_OVERLAY_MOST_JOBS);
    return true;
  case KEY_TENANTS:
    how->tenants = cli_integer(state, o->shares = "--tenants", argument, 1, BRAID_OVERLAY_MOST_TENANTS);
    return true;
  case KEY_SEED:
    how->seed = cli_integer(state, o->shares = "--seed", argument, 0, INT64_MAX);
    return true;
  case KEY_TRACES:
    how->traces = cli_integer(state, o->shares = "--traces", argument, 1, 100000);
    return true;
  default:
    return false;
  }
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
    return parse_policies(key, argument, state, o) ? 0 : ARGP_ERR_UNKNOWN;
  }
}

int cli_share(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"design", KEY_DESIGN, "DESIGN", 0, "A design of the library (braid compile --designs) or a .yaml file", 0},
      {"isolation", KEY_ISOLATION, NULL, 0,
       "Try what tenants can do to each other; fails where one changes what another computes", 0},
      {"policy", KEY_POLICY, "P[,P...]", 0,
       "Only these policies (default: all): fcfs, prema, seed-token, seed-token-corrected, spatial, lookahead, "
       "lookahead-urgent",
       0},
      {"trace", KEY_TRACE, "FILE", 0,
       "When jobs arrive: \"random\" (default), or as requests of a trace do "
       "(TIMESTAMP,ContextTokens,GeneratedTokens, of AzurePublicDataset), faster or slower",
       0},
      {"load", KEY_LOAD, "L", 0, "All times alone over the time in which the jobs arrive (default 1)", 0},
      {"jobs", KEY_JOBS, "N", 0, "Jobs of a trace (default 8; of a file all)", 0},
      {"tenants", KEY_TENANTS, "N", 0, "Tenants that send them (default 4)", 0},
      {"traces", KEY_TRACES, "N", 0, "Traces, of which means are printed (default 250; of a file 1)", 0},
      {"seed", KEY_SEED, "N", 0, "Of the first trace; each has the next one (default 1)", 0},
      {"schedule", KEY_SCHEDULE, "FILE", 0, "Write what became of each job under each policy, as CSV", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "[PACKAGE...]", doc, children, NULL, NULL};
  options o = {.how = {.load = 1, .tenants = 4, .seed = 1}};
  cli_parse(&argp, argc, argv, &o);
  o.how.json = o.common.json;
  cli_end_on_interrupt(&o.common, "share");
  braid_status status = o.how.isolation ? cli_try_isolation(&o.how) : cli_try_policies(&o.how);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "share", status);
}
