#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static const char doc[] =
    "Runs MODEL (.onnx, or Darknet .cfg with --weights) once on arrays (.npy) or an image (JPEG, PNG), and prints or "
    "saves the outputs. The kind of an input file is recognized by its first bytes; \"-\" is standard input."
    "\vExamples:\n"
    "  braid run resnet20.onnx --input cat.png --top 3 \\\n"
    "    --preprocess mean=0.485/0.456/0.406,std=0.229/0.224/0.225\n"
    "  braid run squeezenet1.0.onnx --input dog.jpg --labels names.txt \\\n"
    "    --preprocess scale=1,order=bgr,mean=104/117/123\n"
    "  braid run model.onnx --input ids=ids.npy --input mask=m.npy --output - > y.npy\n"
    "  braid run model.onnx --input x.npy --bench 100 --explain\n"
    "  braid run model.onnx --input x.npy --save-plan model.plan\n"
    "  braid run model.onnx --input x.npy --plan model.plan\n";

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  cli_assignments inputs, outputs;
  const char *labels, *preprocess;
  int64_t top;
  int bench;
  bool explain;
} options;

enum { KEY_TOP = CLI_FIRST_KEY, KEY_LABELS, KEY_BENCH, KEY_PREPROCESS, KEY_EXPLAIN };

/* Text is printed on standard error if an array is written to standard output. */
static FILE *text_file(const options *o) {
  for (size_t i = 0; i < o->outputs.count; i++) {
    if (strcmp(o->outputs.values[i], "-") == 0) return stderr;
  }
  return stdout;
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
  case 'o':
    cli_assign(state, &o->outputs, argument);
    return 0;
  case KEY_TOP:
    o->top = cli_integer(state, "--top", argument, 1, 1000);
    return 0;
  case KEY_LABELS:
    o->labels = argument;
    return 0;
  case KEY_PREPROCESS:
    o->preprocess = argument;
    return 0;
  case KEY_BENCH:
    o->bench = (int)cli_integer(state, "--bench", argument, 1, 1000000);
    return 0;
  case KEY_EXPLAIN:
    o->explain = true;
    return 0;
  case ARGP_KEY_END:
    if (!o->inputs.count) argp_error(state, "an --input is expected");
    if (o->common.json && text_file(o) == stderr) {
      argp_error(state, "--output - cannot be combined with --json: both use standard output");
    }
    if (o->labels && !o->top) o->top = 5;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* Whether `given` is a shape that sets dynamic dimensions of `input` and agrees with the others. */
static bool shape_is_dynamic(const braid_desc *input, const braid_desc *given) {
  bool open = input->rank < 0;
  for (int i = 0; i < input->rank && input->rank == given->rank; i++) {
    if (input->dims[i] >= 0 && input->dims[i] != given->dims[i]) return false;
    open = open || input->dims[i] < 0;
  }
  return open;
}

/* The file given for an input. */
static const char *path_of(const options *o, const char *input) {
  for (size_t k = 0; k < o->inputs.count; k++) {
    if (!o->inputs.names[k] || strcmp(o->inputs.names[k], input) == 0) {
      return strcmp(o->inputs.values[k], "-") == 0 ? "standard input" : o->inputs.values[k];
    }
  }
  return "the file";
}

/* Reads every input, and sets the model's dynamic dimensions to those of the arrays. */
static braid_status read_inputs(const options *o, braid_graph *graph, braid_tensor **tensors, size_t count) {
  bool images = false;
  for (size_t k = 0; k < o->inputs.count; k++) {
    const char *name = o->inputs.names[k], *path = o->inputs.values[k];
    size_t at = 0;
    bool image;
    if (!name && count != 1) {
      return braid_fail(BRAID_INVALID_ARGUMENT, "--input %s: the model has %zu inputs, say which: NAME=%s", path, count,
                        path);
    }
    while (name && at < count && strcmp(braid_graph_value(graph, braid_graph_input(graph, at)).name, name) != 0) at++;
    if (at == count) {
      return braid_fail(BRAID_NOT_FOUND, "--input: the model has no input named \"%s\"", name);
    }
    braid_value_id id = braid_graph_input(graph, at);
    braid_value_info input = braid_graph_value(graph, id);
    if (tensors[at]) return braid_fail(BRAID_INVALID_ARGUMENT, "input \"%s\" is given twice", input.name);
    braid_status status = cli_read_value(path, input.name, &input.desc, o->preprocess, &image, &tensors[at]);
    if (status != BRAID_OK) return status;
    images = images || image;
    if (shape_is_dynamic(&input.desc, braid_tensor_desc(tensors[at]))) {
      const braid_desc *given = braid_tensor_desc(tensors[at]);
      status = braid_graph_set_input_shape(graph, id, given->rank, given->dims);
      if (status != BRAID_OK) return braid_fail_prefix(status, "%s", path);
    }
  }
  if (o->preprocess && !images)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--preprocess %s has no effect on arrays, only on images", o->preprocess);
  for (size_t i = 0; i < count; i++) {
    if (tensors[i]) continue;
    return braid_fail(BRAID_INVALID_ARGUMENT, "input \"%s\" is missing: --input %s=FILE",
                      braid_graph_value(graph, braid_graph_input(graph, i)).name,
                      braid_graph_value(graph, braid_graph_input(graph, i)).name);
  }
  return BRAID_OK;
}

static const char *output_name(const braid_graph *graph, size_t index) {
  return braid_graph_value(graph, braid_graph_output(graph, index)).name;
}

/* The output that the k-th --output asks for: an index, or the number of outputs if there is none. */
static size_t find_output(const options *o, const braid_graph *graph, size_t k) {
  size_t at = 0, count = braid_graph_output_count(graph);
  const char *name = o->outputs.names[k];
  while (name && at < count && strcmp(output_name(graph, at), name) != 0) at++;
  return at;
}

static braid_status check_outputs(const options *o, const braid_graph *graph) {
  for (size_t k = 0; k < o->outputs.count; k++) {
    if (find_output(o, graph, k) < braid_graph_output_count(graph)) continue;
    return braid_fail(BRAID_NOT_FOUND, "--output: the model has no output named \"%s\"",
                      o->outputs.names[k] ? o->outputs.names[k] : "");
  }
  return BRAID_OK;
}

static braid_status save_outputs(const options *o, const braid_graph *graph, const cli_buffers *buffers) {
  for (size_t k = 0; k < o->outputs.count; k++) {
    braid_status status = braid_npy_save(o->outputs.values[k], buffers->outputs[find_output(o, graph, k)]);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

/* Number of classes: dimension 1, if all following ones are 1. */
static int64_t class_count(const braid_desc *desc) {
  if (desc->rank == 1) return desc->dims[0];
  if (desc->rank < 2) return 0;
  for (int i = 2; i < desc->rank; i++) {
    if (desc->dims[i] != 1) return 0;
  }
  return desc->dims[1];
}

static braid_status print_top(const options *o, const braid_tensor *scores, const cli_labels *labels, FILE *file,
                              cli_json *json) {
  const braid_desc *desc = braid_tensor_desc(scores);
  int64_t classes = class_count(desc), samples = desc->rank > 1 ? desc->dims[0] : 1;
  char text[96];
  if (classes < 1) {
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "--top: the first output is %s, scores of shape [samples,classes] are "
                      "expected",
                      braid_desc_format(desc, text, sizeof text));
  }
  if (o->labels && labels->count < (size_t)classes) {
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu labels, the model has %" PRId64 " classes", o->labels, labels->count,
                      classes);
  }
  int64_t count = o->top < classes ? o->top : classes;
  cli_guess guesses[1000];
  if (json) cli_json_array(json, "top");
  for (int64_t sample = 0; sample < samples; sample++) {
    int64_t used = cli_top(scores, sample * classes, classes, guesses, count);
    if (samples > 1 && !json) fprintf(file, "sample %" PRId64 "\n", sample);
    if (json) cli_json_array(json, NULL);
    if (used < count)
      fprintf(stderr, "braid run: %" PRId64 " of the %" PRId64 " highest scores of sample %" PRId64 " are NaN\n",
              count - used, count, sample);
    for (int64_t i = 0; i < used; i++) {
      const char *label = o->labels ? labels->lines[guesses[i].index] : "";
      if (!json) {
        fprintf(file, "%6.2f%%  %5" PRId64 "  %s\n", guesses[i].probability * 100, guesses[i].index, label);
        continue;
      }
      cli_json_object(json, NULL);
      cli_json_integer(json, "class", guesses[i].index);
      if (o->labels) cli_json_string(json, "label", label);
      cli_json_number(json, "score", guesses[i].score);
      cli_json_number(json, "probability", guesses[i].probability);
      cli_json_close(json, '}');
    }
    if (json) cli_json_close(json, ']');
  }
  if (json) cli_json_close(json, ']');
  return BRAID_OK;
}

static void print_outputs(const braid_graph *graph, const cli_buffers *buffers, FILE *file, cli_json *json) {
  enum { SHOWN = 6 };
  if (json) cli_json_array(json, "outputs");
  for (size_t k = 0; k < buffers->output_count; k++) {
    const braid_tensor *tensor = buffers->outputs[k];
    const braid_desc *desc = braid_tensor_desc(tensor);
    int64_t count = braid_desc_count(desc);
    double least = INFINITY, most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++) {
      double value = braid_tensor_get_f64(tensor, i);
      least = fmin(least, value), most = fmax(most, value), sum += value;
    }
    double mean = count ? sum / (double)count : NAN;
    if (least > most) least = most = NAN; /* no element is a number */
    if (json) {
      cli_json_object(json, NULL);
      cli_json_string(json, "name", output_name(graph, k));
      cli_json_string(json, "type", braid_dtype_name(desc->dtype));
      cli_json_dims(json, "shape", desc);
      cli_json_number(json, "least", least);
      cli_json_number(json, "most", most);
      cli_json_number(json, "mean", mean);
      cli_json_close(json, '}');
      continue;
    }
    char text[96];
    fprintf(file, "%s %s", output_name(graph, k), braid_desc_format(desc, text, sizeof text));
    if (count) fprintf(file, "  least %g  mean %g  most %g\n ", least, mean, most);
    for (int64_t i = 0; i < count && i < SHOWN; i++) fprintf(file, " %.7g", braid_tensor_get_f64(tensor, i));
    fprintf(file, "%s\n", count > SHOWN ? " ..." : "");
  }
  if (json) cli_json_close(json, ']');
}

static braid_status print_all(const options *o, const braid_graph *graph, const cli_buffers *buffers,
                              const braid_session *session, const cli_latency *latency, FILE *file, cli_json *json) {
  braid_status status = BRAID_OK;
  cli_labels labels = {0};
  if (o->labels) status = cli_labels_load(o->labels, &labels);
  if (status == BRAID_OK && (json || !o->top)) print_outputs(graph, buffers, file, json);
  if (status == BRAID_OK && o->top) status = print_top(o, buffers->outputs[0], &labels, file, json);
  if (status == BRAID_OK && o->explain) cli_print_plan(session, o->place.plan, file, json);
  if (status == BRAID_OK) cli_print_modelled(session, cli_session_batch(session), file, json);
  if (status == BRAID_OK && o->bench) {
    if (json)
      cli_json_latency(json, "measured_ms", latency, 1);
    else
      fprintf(file, "%d runs, measured%s: median %.3f ms, least %.3f, 90th percentile %.3f\n", latency->runs,
              cli_find_modelled(session).tasks ? " with the simulation" : "", latency->median, latency->least,
              latency->p90);
  }
  cli_labels_free(&labels);
  return status;
}

static braid_status show(const options *o, const braid_graph *graph, const cli_buffers *buffers,
                         const braid_session *session, const cli_latency *latency) {
  if (!o->common.json) return print_all(o, graph, buffers, session, latency, text_file(o), NULL);
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "model", o->source.path);
  braid_status status = print_all(o, graph, buffers, session, latency, NULL, &json);
  if (status == BRAID_OK)
    cli_json_end(&json);
  else
    cli_json_discard(&json);
  return status;
}

static braid_status run_session(const options *o, const braid_graph *graph, braid_session *session,
                                braid_tensor **tensors) {
  cli_buffers buffers;
  cli_latency latency = {0};
  braid_status status = cli_buffers_create(session, &buffers);
  for (size_t i = 0; i < buffers.input_count && status == BRAID_OK; i++) {
    const char *name = braid_graph_value(graph, braid_graph_input(graph, i)).name;
    status = cli_check_value(path_of(o, name), name, braid_session_input(session, i), tensors[i]);
    if (status == BRAID_OK) buffers.inputs[i] = braid_tensor_retain(tensors[i]);
  }
  if (status == BRAID_OK) {
    if (o->bench) cli_catch_interrupt(); /* to say how many of its runs there were */
    status = o->bench ? cli_measure(&buffers, session, o->bench, &latency) : cli_buffers_run(&buffers, session);
  }
  cli_catch_interrupt(); /* what is written from here on is written whole */
  if (status == BRAID_OK) status = braid_session_save_trace(session);
  if (status == BRAID_OK) status = save_outputs(o, graph, &buffers);
  if (status == BRAID_OK) status = show(o, graph, &buffers, session, &latency);
  cli_buffers_destroy(&buffers);
  return status;
}

static braid_status run_model(const options *o, braid_graph *graph) {
  size_t count = braid_graph_input_count(graph);
  braid_tensor **tensors = calloc(count + 1, sizeof *tensors);
  if (!tensors) return cli_no_memory();
  braid_session *session = NULL;
  braid_session_options place = cli_session_options(&o->place);
  place.explain = o->explain;
  braid_status status = check_outputs(o, graph);
  if (status == BRAID_OK) status = read_inputs(o, graph, tensors, count);
  if (status == BRAID_OK) status = cli_blame_model(&o->source, braid_session_create(graph, &place, &session));
  if (status == BRAID_OK) status = cli_check_session_batch(&o->place, session);
  if (status == BRAID_OK) status = run_session(o, graph, session, tensors);
  if (session) braid_session_destroy(session);
  for (size_t i = 0; i < count; i++) braid_tensor_release(tensors[i]);
  free(tensors);
  return status;
}

int cli_run(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"input", 'i', "[NAME=]FILE", 0, "An input; NAME may be omitted if the model has one", 0},
      {"preprocess", KEY_PREPROCESS, "KEYS", 0,
       "Normalization of an image: mean=R/G/B,std=R/G/B,scale=X,order=bgr (default: pixel / 255)", 0},
      {"output", 'o', "[NAME=]FILE", 0, "Save an output (without NAME the first) as .npy", 0},
      {"top", KEY_TOP, "K", 0, "Print the K classes with the highest scores of the first output", 0},
      {"labels", KEY_LABELS, "FILE", 0, "Names of the classes, one per line (implies --top 5)", 0},
      {"bench", KEY_BENCH, "N", 0, "Run N times and print the latency", 0},
      {"explain", KEY_EXPLAIN, NULL, 0,
       "Print the plan: device and kernel of each node, all candidates with their times, and the reason of the choice",
       0},
      {0}};
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_planned_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.top = 0};
  cli_parse(&argp, argc, argv, &o);
  cli_end_on_interrupt(&o.common, "run");
  braid_graph *graph = NULL;
  braid_status status = cli_open_registry(&o.place);
  if (status == BRAID_OK) status = cli_load_to_run(&o.source, &o.place, &graph);
  if (status == BRAID_OK) status = run_model(&o, graph);
  braid_graph_destroy(graph);
  cli_close_registry(&o.place);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "run", status);
}
