#include "designs.h"
#include "packages.h"

static const char doc[] =
    "Compiles a network for the overlay, an accelerator for FPGAs that runs networks by instructions and is shared by "
    "tenants, or shows what its designs are: what one computes and moves a second, what it needs of an FPGA, by "
    "estimate, and which of its figures nobody published. There is no such hardware; all figures are modelled."
    "\vExamples:\n"
    "  braid compile --designs\n"
    "  braid compile --design cnn-16x512 --show\n"
    "  braid compile --design mine.yaml --show --chip alveo-u250 --json\n"
    "  braid compile model.onnx --design cnn-16x512 --out model.bpk\n"
    "  braid compile model.bpk --cores 4\n"
    "  braid compile model.bpk --cores 4 --disassemble\n"
    "  braid compile lstm.onnx --design rnn-16x64 --input samples.npy --out lstm.bpk\n"
    "  braid compile lstm.bpk --cores 4 --steps 100\n"
    "\nThe model is one of 8-bit integers whose scales are powers of two (braid quantize --scales power-of-two); for "
    "recurrent designs (rnn-...) one with LSTM nodes in float, which become integers of 16 bits here. A package (.bpk) "
    "has what is needed for the instructions of any number of cores. docs/overlay.md describes the overlay, the keys "
    "of "
    "design files, the estimates and the compilers, docs/overlay-recurrent.md recurrent networks.\n";

enum {
  KEY_DESIGN = CLI_FIRST_KEY,
  KEY_DESIGNS,
  KEY_SHOW,
  KEY_CHIP,
  KEY_OUT,
  KEY_CORES,
  KEY_DISASSEMBLE,
  KEY_SAMPLES,
  KEY_RANGE,
  KEY_SHAPE,
  KEY_STEPS
};

typedef struct options {
  cli_common common;
  const char *design, *chip; /* chip NULL: all of the library */
  const char *model, *out, *samples;
  double greatest;
  int cores, steps; /* 0: not given */
  cli_assignments shapes;
  bool designs, show, disassemble;
} options;

static void check_options(const options *o, struct argp_state *state) {
  if (o->designs && (o->design || o->show || o->chip))
    argp_error(state, "--designs goes without --design, --show and --chip");
  bool compiles = o->out || o->cores || o->disassemble;
  if (o->model && (o->designs || o->show || o->chip))
    argp_error(state, "%s: --designs, --show and --chip go without a model", o->model);
  if (!o->model && (compiles || o->steps))
    argp_error(state, "--out, --cores, --steps and --disassemble need a model or a package");
  bool chooses = o->samples || o->greatest > 0 || o->shapes.count;
  if (chooses && (!o->model || cli_names_package(o->model)))
    argp_error(state, "--input, --range and --shape need a model that is not compiled yet");
  if (o->disassemble && o->common.json) argp_error(state, "--disassemble prints text: it goes without --json");
  if (o->model && cli_names_package(o->model) && (o->design || o->out))
    argp_error(state, "%s: a package is compiled already; --design and --out go with a model", o->model);
  if (o->model && cli_names_package(o->model)) return;
  if (o->model && !o->design) argp_error(state, "--design is expected");
  if (!o->designs && !o->design) argp_error(state, "--design or --designs is expected");
  if (o->design && !o->show && !o->model) argp_error(state, "--show is expected");
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
  case KEY_OUT:
    o->out = argument;
    return 0;
  case KEY_CORES:
    o->cores = (int)cli_integer(state, "--cores", argument, 1, BRAID_OVERLAY_MOST_CORES);
    return 0;
  case KEY_SAMPLES:
    o->samples = argument;
    return 0;
  case KEY_RANGE:
    o->greatest = cli_number(state, "--range", argument, 1e-9, 1e9);
    return 0;
  case KEY_SHAPE:
    cli_assign(state, &o->shapes, argument);
    return 0;
  case KEY_STEPS:
    o->steps = (int)cli_integer(state, "--steps", argument, 1, 1 << 20);
    return 0;
  case KEY_DISASSEMBLE:
    o->disassemble = true;
    return 0;
  case ARGP_KEY_ARG:
    if (o->model) argp_error(state, "\"%s\": one model is expected", argument);
    o->model = argument;
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
      {"out", KEY_OUT, "FILE", 0, "Write the package of the model", 0},
      {"cores", KEY_CORES, "N", 0, "Print how so many cores share each layer", 0},
      {"disassemble", KEY_DISASSEMBLE, NULL, 0, "Print the instructions of all tiles, or with --cores of programs", 0},
      {"input", KEY_SAMPLES, "FILE", 0,
       "Recurrent: samples of the input (.npy, sequences of steps, the numbers of a step last), which its scale "
       "follows "
       "from and the error is measured on",
       0},
      {"range", KEY_RANGE, "R", 0, "Recurrent: the greatest magnitude of an input (default: the samples', or 4)", 0},
      {"steps", KEY_STEPS, "N", 0, "Recurrent: sequences of so many steps (default: as in the model)", 0},
      {"shape", KEY_SHAPE, "[NAME=]DIMS", 0, "Set the shape of an input, for instance 25,1,40", 0},
      {"designs", KEY_DESIGNS, NULL, 0, "List the designs of the library", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "[MODEL]", doc, children, NULL, NULL};
  options o = {.common = {false, false}};
  cli_parse(&argp, argc, argv, &o);
  cli_compilation how = {.model = o.model, .design = o.design, .out = o.out, .samples = o.samples};
  how.greatest = o.greatest;
  how.shapes = o.shapes;
  how.cores = o.cores;
  how.steps = o.steps;
  how.disassemble = o.disassemble;
  how.json = o.common.json;
  braid_status status = o.model     ? cli_compile_model(&how)
                        : o.designs ? cli_design_list(o.common.json)
                                    : cli_design_show(o.design, o.chip, o.common.json);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "compile", status);
}
