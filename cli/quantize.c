#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

static const char doc[] =
    "Quantizes a float MODEL to 8-bit integers and writes an ONNX model with QuantizeLinear and DequantizeLinear "
    "nodes, "
    "which Braid and ONNX Runtime compute in integers. The ranges of activations are measured on samples of the "
    "training part of a data set; accuracy before and after, and what each layer costs, on its test part."
    "\vWithout a data set --input gives samples as arrays (.npy, the number of samples first), one for each input of "
    "the "
    "model; the quantized model is then compared with the float one alone. FILE is replaced if it exists, once it is "
    "complete.\n"
    "\nExamples:\n"
    "  braid quantize glyphs/model.onnx --data builtin:glyphs --out glyphs-int8.onnx\n"
    "  braid quantize resnet20.onnx --out resnet20-int8.onnx --calibration entropy \\\n"
    "    --data cifar10:DIR,mean=0.485/0.456/0.406,std=0.229/0.224/0.225\n"
    "  braid quantize resnet20.onnx --out shifts.onnx --scales power-of-two --data cifar10:DIR\n"
    "  braid quantize yolo.cfg --weights yolo.weights --input pictures.npy --out yolo-int8.onnx --keep 'conv_1*'\n";

enum { MOST_KEPT = 64 };

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  cli_assignments inputs;
  const char *data, *out, *activations, *kept[MOST_KEPT];
  braid_quantize_options how;
} options;

enum {
  KEY_DATA = CLI_FIRST_KEY,
  KEY_OUT,
  KEY_CALIBRATION,
  KEY_SAMPLES,
  KEY_TEST_SAMPLES,
  KEY_BATCH,
  KEY_KEEP,
  KEY_PER_TENSOR,
  KEY_ACTIVATIONS,
  KEY_SCALES,
  KEY_REDUCE_RANGE,
  KEY_LAYERS,
  KEY_SEED
};

/* --- options -------------------------------------------------------------------------------------------------------
 */
static void parse_calibration(struct argp_state *state, char *argument, braid_quantize_options *how) {
  size_t length = strcspn(argument, ":");
  int kind = BRAID_CALIBRATE_ENTROPY;
  while (kind >= 0 && (strlen(braid_calibration_name((braid_calibration)kind)) != length ||
                       strncmp(argument, braid_calibration_name((braid_calibration)kind), length) != 0))
    kind--;
  bool number = argument[length] == ':';
  if (kind < 0 || (number && kind != BRAID_CALIBRATE_PERCENTILE))
    argp_error(state, "--calibration: minmax, percentile, percentile:P or entropy is expected, not \"%s\"", argument);
  how->calibration = (braid_calibration)kind;
  if (number) how->percentile = cli_number(state, "--calibration percentile", argument + length + 1, 50, 100);
}

static void parse_end(struct argp_state *state, const options *o) {
  if (!o->out) argp_error(state, "--out FILE is expected, for instance --out model-int8.onnx");
  if (!o->data && !o->inputs.count)
    argp_error(state, "--data SPEC is expected, for instance --data builtin:glyphs, or --input FILE.npy");
  if (o->data && o->inputs.count) argp_error(state, "--data and --input cannot be combined");
  if (o->how.power_of_two && o->activations && !o->how.signed_activations)
    argp_error(state, "--scales power-of-two and --activations uint8 cannot be combined: zero points are 0, so bytes "
                      "have a sign");
  if (o->place.trace) argp_error(state, "--trace has no effect: several graphs are run");
}

static void parse_keep(struct argp_state *state, options *o, const char *argument) {
  if (o->how.keep_count == MOST_KEPT) argp_error(state, "more than %d --keep", MOST_KEPT);
  o->kept[o->how.keep_count++] = argument;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    return 0;
  case 'i':
    cli_assign(state, &o->inputs, argument);
    return 0;
  case KEY_DATA:
    o->data = argument;
    return 0;
  case KEY_OUT:
    o->out = argument;
    return 0;
  case KEY_CALIBRATION:
    parse_calibration(state, argument, &o->how);
    return 0;
  case KEY_SAMPLES:
    o->how.samples = cli_integer(state, "--samples", argument, 1, INT64_MAX);
    return 0;
  case KEY_TEST_SAMPLES:
    o->how.test_samples = cli_integer(state, "--test-samples", argument, 1, INT64_MAX);
    return 0;
  case KEY_BATCH:
    o->how.batch = cli_integer(state, "--batch", argument, 1, 1 << 16);
    return 0;
  case KEY_KEEP:
    parse_keep(state, o, argument);
    return 0;
  case KEY_PER_TENSOR:
    o->how.per_tensor = true;
    return 0;
  case KEY_ACTIVATIONS:
    if (strcmp(argument, "uint8") != 0 && strcmp(argument, "int8") != 0)
      argp_error(state, "--activations: uint8 or int8 is expected, not \"%s\"", argument);
    o->activations = argument;
    o->how.signed_activations = argument[0] == 'i';
    return 0;
  case KEY_SCALES:
    if (strcmp(argument, "float") != 0 && strcmp(argument, "power-of-two") != 0)
      argp_error(state, "--scales: float or power-of-two is expected, not \"%s\"", argument);
    o->how.power_of_two = argument[0] == 'p';
    return 0;
  case KEY_REDUCE_RANGE:
    o->how.reduce_range = true;
    return 0;
  case KEY_LAYERS:
    o->how.layers = cli_integer(state, "--layers", argument, 0, 100000);
    if (!o->how.layers) o->how.layers = -1;
    return 0;
  case KEY_SEED:
    o->how.seed = (uint64_t)cli_integer(state, "--seed", argument, 0, INT64_MAX);
    return 0;
  case ARGP_KEY_END:
    parse_end(state, o);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* --- samples -------------------------------------------------------------------------------------------------------
 */
typedef struct samples {
  braid_dataset *calibration, *test;
  braid_tensor **arrays; /* one for each input of the model */
  size_t count;
} samples;

static braid_status open_data(const options *o, samples *s) {
  braid_status status = braid_dataset_open(NULL, o->data, "train", &s->calibration);
  if (status == BRAID_OK) status = braid_dataset_open(NULL, o->data, "test", &s->test);
  if (status == BRAID_OK && braid_dataset_get_info(s->test).augments)
    status = braid_fail(BRAID_INVALID_ARGUMENT, "--data %s: augment is for training only", o->data);
  if (status == BRAID_OK && braid_dataset_get_info(s->test).views)
    status = braid_fail(BRAID_INVALID_ARGUMENT, "--data %s: views is for braid train and braid test", o->data);
  return status;
}

static size_t find_input(const braid_graph *graph, const char *name) {
  size_t at = 0, count = braid_graph_input_count(graph);
  while (at < count && strcmp(braid_graph_value(graph, braid_graph_input(graph, at)).name, name) != 0) at++;
  return at;
}

static braid_status read_arrays(const options *o, const braid_graph *graph, samples *s) {
  s->count = braid_graph_input_count(graph);
  s->arrays = calloc(s->count + 1, sizeof *s->arrays);
  if (!s->arrays) return cli_no_memory();
  for (size_t k = 0; k < o->inputs.count; k++) {
    const char *name = o->inputs.names[k], *path = o->inputs.values[k];
    if (!name && s->count != 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "--input %s: the model has %zu inputs, say which: NAME=%s", path,
                        s->count, path);
    size_t at = name ? find_input(graph, name) : 0;
    if (at == s->count) return braid_fail(BRAID_NOT_FOUND, "--input: the model has no input named \"%s\"", name);
    if (s->arrays[at]) return braid_fail(BRAID_INVALID_ARGUMENT, "an input is given twice: --input %s", path);
    braid_status status = braid_npy_load(NULL, path, &s->arrays[at]);
    if (status != BRAID_OK) return status;
  }
  for (size_t i = 0; i < s->count; i++) {
    const char *name = braid_graph_value(graph, braid_graph_input(graph, i)).name;
    if (!s->arrays[i])
      return braid_fail(BRAID_INVALID_ARGUMENT, "input \"%s\" is missing: --input %s=FILE.npy", name, name);
  }
  return BRAID_OK;
}

static void close_samples(samples *s) {
  if (s->calibration) braid_dataset_close(s->calibration);
  if (s->test) braid_dataset_close(s->test);
  for (size_t i = 0; s->arrays && i < s->count; i++) braid_tensor_release(s->arrays[i]);
  free(s->arrays);
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void add_share(cli_table *table, double share) {
  if (isnan(share))
    cli_table_cell(table, "-");
  else
    cli_table_cell(table, "%.2f%%", 100 * share);
}

static void add_decibels(cli_table *table, double decibels) {
  if (isnan(decibels))
    cli_table_cell(table, "-");
  else if (isinf(decibels))
    cli_table_cell(table, "%s", decibels > 0 ? "exact" : "-");
  else
    cli_table_cell(table, "%.1f", decibels);
}

static void add_model(cli_table *table, const char *name, const braid_quantize_score *score) {
  cli_table_cell(table, "%s", name);
  add_share(table, score->accuracy);
  add_share(table, score->agreement);
  add_decibels(table, score->sqnr);
}

static void print_layers(const braid_quantize_result *r) {
  cli_table table;
  size_t quantized = 0, tried = 0;
  for (size_t i = 0; i < r->layer_count; i++) {
    quantized += !r->layers[i].why;
    tried += r->layers[i].tried;
  }
  char note[240];
  snprintf(note, sizeof note,
           "Own SQNR: the layer quantized alone, its result in dB. Behind it the whole model with only this layer in "
           "float%s.",
           tried < quantized ? ", for those that lose most by themselves (--layers N for more)" : "");
  cli_table_begin(&table, "Layers", note, "layer|op|own SQNR|accuracy|agreement|SQNR|SQNR gained");
  for (size_t i = 0; i < r->layer_count; i++) {
    const braid_quantize_layer *layer = &r->layers[i];
    braid_quantize_score none = {(double)NAN, (double)NAN, (double)NAN};
    const braid_quantize_score *score = layer->tried ? &layer->without : &none;
    cli_table_cell(&table, "%s", layer->name);
    cli_table_cell(&table, "%s", layer->op);
    add_decibels(&table, layer->sqnr);
    add_share(&table, score->accuracy);
    add_share(&table, score->agreement);
    add_decibels(&table, score->sqnr);
    add_decibels(&table, score->sqnr - r->after.sqnr);
  }
  cli_table_print(&table, SIZE_MAX - 1);
  cli_table_end(&table);
}

/* `same`: calibration and test have the same samples to choose from. */
static void print_text(const options *o, const braid_quantize_result *r, bool same, braid_status written) {
  size_t quantized = 0;
  for (size_t i = 0; i < r->layer_count; i++) quantized += !r->layers[i].why;
  printf("%s, quantized to %s%s\n", o->source.path, o->out, written == BRAID_OK ? "" : ", which could not be written");
  printf("  calibration  %s", braid_calibration_name(o->how.calibration));
  if (o->how.calibration == BRAID_CALIBRATE_PERCENTILE) printf(" %g", o->how.percentile ? o->how.percentile : 99.999);
  printf(", %" PRId64 " samples; tested on %" PRId64 " %s\n", r->samples, r->test_samples,
         same ? "of the same" : "others");
  printf("  layers       %zu of %zu in integers, %zu scales of activations%s\n", quantized, r->layer_count,
         r->tensor_count, o->how.power_of_two ? ", all powers of two" : "");
  for (size_t i = 0; i < r->layer_count; i++)
    if (r->layers[i].why) printf("  in float     %s (%s): %s\n", r->layers[i].name, r->layers[i].op, r->layers[i].why);
  cli_table table;
  cli_table_begin(&table, "Models", "Agreement: the same class first as in float. SQNR: of the outputs, in dB.",
                  "model|accuracy|agreement|SQNR");
  braid_quantize_score exact = {r->before.accuracy, (double)NAN, (double)NAN};
  add_model(&table, "float", &exact);
  add_model(&table, "quantized", &r->after);
  cli_table_print(&table, SIZE_MAX - 1);
  cli_table_end(&table);
  print_layers(r);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_score(cli_json *json, const char *key, const braid_quantize_score *score) {
  cli_json_object(json, key);
  cli_json_number(json, "accuracy", score->accuracy);
  cli_json_number(json, "agreement", score->agreement);
  cli_json_number(json, "sqnr_db", score->sqnr);
  cli_json_close(json, '}');
}

static void json_layers(cli_json *json, const braid_quantize_result *r) {
  cli_json_array(json, "layers");
  for (size_t i = 0; i < r->layer_count; i++) {
    const braid_quantize_layer *layer = &r->layers[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "name", layer->name);
    cli_json_string(json, "op", layer->op);
    cli_json_bool(json, "quantized", !layer->why);
    if (layer->why)
      cli_json_string(json, "why", layer->why);
    else
      cli_json_number(json, "own_sqnr_db", layer->sqnr);
    if (layer->tried) json_score(json, "without", &layer->without);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_tensors(cli_json *json, const braid_quantize_result *r) {
  cli_json_array(json, "tensors");
  for (size_t i = 0; i < r->tensor_count; i++) {
    const braid_quantize_tensor *tensor = &r->tensors[i];
    cli_json_object(json, NULL);
    cli_json_string(json, "name", tensor->name);
    cli_json_number(json, "least", tensor->least);
    cli_json_number(json, "greatest", tensor->greatest);
    cli_json_number(json, "low", tensor->low);
    cli_json_number(json, "high", tensor->high);
    cli_json_number(json, "scale", (double)tensor->scale);
    cli_json_integer(json, "zero_point", tensor->zero_point);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* False: there was no memory, and nothing was printed. */
static bool print_json(const options *o, const braid_quantize_result *r, double seconds, braid_status written) {
  cli_json json;
  if (!cli_json_begin(&json)) return false;
  cli_json_string(&json, "model", o->source.path);
  cli_json_string(&json, "out", o->out);
  cli_json_string(&json, "calibration", braid_calibration_name(o->how.calibration));
  cli_json_string(&json, "scales", o->how.power_of_two ? "power-of-two" : "float");
  cli_json_integer(&json, "samples", r->samples);
  cli_json_integer(&json, "test_samples", r->test_samples);
  cli_json_number(&json, "measured_seconds", seconds);
  json_score(&json, "float", &r->before);
  json_score(&json, "quantized", &r->after);
  json_layers(&json, r);
  json_tensors(&json, r);
  if (written != BRAID_OK) {
    cli_json_object(&json, "error");
    cli_json_string(&json, "status", braid_status_text(written));
    cli_json_string(&json, "detail", braid_error_detail());
    cli_json_close(&json, '}');
  }
  cli_json_end(&json);
  return true;
}

/* What was measured is told also where the file could not be written: `written` says how that ended. */
static void print_result(options *o, const braid_quantize_result *r, double seconds, bool same, braid_status written) {
  if (!o->common.json) {
    print_text(o, r, same, written);
  } else if (print_json(o, r, seconds, written)) {
    o->common.json = false; /* its error is told in the document */
  }
}

static bool has_one_part(const options *o, const samples *s) {
  return !s->test || braid_dataset_get_info(s->test).one_part || strstr(o->data, "split=");
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
typedef struct bar {
  cli_progress progress;
  const char *phase;
} bar;

static bool draw_progress(void *context, const char *phase, int64_t done, int64_t total) {
  bar *b = context;
  if (b->phase != phase) {
    if (b->phase) cli_progress_end(&b->progress);
    cli_progress_begin(&b->progress, phase);
    b->phase = phase;
  }
  cli_progress_update(&b->progress, done, total, NULL);
  return !cli_interrupted();
}

/* Whether a file can be made beside `path`, as the writing does before it renames it. */
static braid_status try_folder(const char *path) {
  size_t bytes = strlen(path) + sizeof ".tmp-XXXXXX";
  char *name = malloc(bytes);
  if (!name) return cli_no_memory();
  snprintf(name, bytes, "%s.tmp-XXXXXX", path);
  int file = mkstemp(name);
  int error = errno;
  if (file >= 0) {
    close(file);
    unlink(name);
  }
  free(name);
  return file >= 0 ? BRAID_OK : braid_fail(BRAID_IO, "--out %s: cannot create: %s", path, strerror(error));
}

/* Found out before anything is measured. The model that is read is not replaced by what becomes of it. Pipes and
 * devices are not opened twice. */
static braid_status check_out(const options *o) {
  struct stat in, out;
  if (strcmp(o->out, "-") == 0) return BRAID_OK;
  if (stat(o->out, &out) != 0) return try_folder(o->out);
  if (stat(o->source.path, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--out %s is the model itself: another file is expected", o->out);
  if (S_ISDIR(out.st_mode)) return braid_fail(BRAID_IO, "--out %s is a folder: a file is expected", o->out);
  return S_ISREG(out.st_mode) ? try_folder(o->out) : BRAID_OK;
}

static braid_status quantize_model(options *o, const braid_graph *graph, const samples *s) {
  braid_session_options session = cli_session_options(&o->place);
  session.loose_place = true; /* names are those of the float graph and of the quantized one */
  bar b = {.phase = NULL};
  o->how.keep = o->kept;
  o->how.session = &session;
  o->how.callback = draw_progress;
  o->how.context = &b;
  braid_quantize_data data = {s->calibration, s->test, (const braid_tensor *const *)s->arrays, s->count};
  braid_quantize_result result;
  double started = cli_seconds();
  braid_status status = braid_quantize(graph, &data, &o->how, &result);
  if (b.phase) cli_progress_end(&b.progress);
  if (status == BRAID_OK) status = cli_go_on(BRAID_OK);
  double seconds = cli_seconds() - started;
  if (status == BRAID_OK) {
    status = braid_model_save_onnx(result.graph, o->out);
    print_result(o, &result, seconds, has_one_part(o, s), status);
  }
  braid_quantize_result_deinit(&result);
  return status;
}

int cli_quantize(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"data", KEY_DATA, "SPEC", 0, "The data set, including its normalization", 0},
      {"input", 'i', "[NAME=]FILE", 0, "Samples of an input as an array, instead of --data", 0},
      {"out", KEY_OUT, "FILE", 0, "The quantized model", 0},
      {"calibration", KEY_CALIBRATION, "KIND", 0,
       "How ranges of activations are chosen: minmax (default), percentile[:P] (the middle P percent, 99.999) or "
       "entropy (least Kullback-Leibler divergence)",
       0},
      {"samples", KEY_SAMPLES, "N", 0, "Samples for calibration (default 512)", 0},
      {"test-samples", KEY_TEST_SAMPLES, "N", 0, "Samples for the comparison (default 1000)", 0},
      {"batch", KEY_BATCH, "N", 0, "Samples per run (default 32)", 0},
      {"keep", KEY_KEEP, "PATTERN", 0, "Leave nodes of matching names (with * and ?) in float (may be repeated)", 0},
      {"per-tensor", KEY_PER_TENSOR, NULL, 0, "One scale for all weights of a layer, not one per channel", 0},
      {"activations", KEY_ACTIVATIONS, "TYPE", 0, "uint8 (default) or int8", 0},
      {"scales", KEY_SCALES, "KIND", 0,
       "float (default) or power-of-two: scales are powers of two, one per tensor, activations int8, zero points 0, "
       "for "
       "hardware that computes with shifts",
       0},
      {"reduce-range", KEY_REDUCE_RANGE, NULL, 0,
       "Weights of 7 bits, for ONNX Runtime on processors without VNNI instructions", 0},
      {"layers", KEY_LAYERS, "N", 0,
       "Layers that are left in float, one at a time, to see what each costs: those that lose most by themselves "
       "(default 16; 0: none)",
       0},
      {"seed", KEY_SEED, "N", 0, "Which samples are drawn for calibration (default 0)", 0},
      {0}};
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_inference_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.data = NULL};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_graph *graph = NULL;
  samples s = {.count = 0};
  braid_status status = check_out(&o);
  if (status == BRAID_OK) status = cli_open_registry(&o.place);
  if (status == BRAID_OK) status = cli_load_to_run(&o.source, &o.place, &graph);
  if (status == BRAID_OK) status = o.data ? open_data(&o, &s) : read_arrays(&o, graph, &s);
  if (status == BRAID_OK) status = quantize_model(&o, graph, &s);
  close_samples(&s);
  braid_graph_destroy(graph);
  cli_close_registry(&o.place);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "quantize", status);
}
