#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "values.h"

static const char doc[] =
    "Measures the accuracy and loss of MODEL on the test part of a data set, precision, recall, F1, the area under the "
    "ROC curve and the average precision of each class, and shows which classes it confuses. Of numbers that are "
    "predicted it measures squared and absolute errors and R2."
    "\vSPEC is KIND:PATH[,key=value...], with KIND one of cifar10, cifar100, idx, images, npy, csv, coco and builtin "
    "(builtin:glyphs needs no files). Keys: split mean std scale order size channels limit seed, of csv target "
    "columns targets header, and views: flip, shift or flip+shift, whose scores are means over a sample, its flipped "
    "picture, and pictures shifted by a pixel.\n"
    "\nExamples:\n"
    "  braid test glyphs/model.onnx --data builtin:glyphs\n"
    "  braid test resnet20.onnx --at-least 0.91 \\\n"
    "    --data cifar10:DIR,mean=0.485/0.456/0.406,std=0.229/0.224/0.225\n"
    "  braid test mnist-8.onnx --data idx:DIR,scale=1 --json\n";

typedef struct options {
  cli_common common;
  cli_place place;
  cli_source source;
  const char *data, *loss_output;
  bool own_loss;         /* an output is the loss; its name, or NULL for the only one */
  const char *of_scores; /* the last option given that is of scores, which a loss has not */
  int64_t batch;
  int worst, top; /* top is 0 where it was not asked for */
  double at_least;
} options;

enum { KEY_DATA = CLI_FIRST_KEY, KEY_BATCH, KEY_WORST, KEY_AT_LEAST, KEY_TOP, KEY_LOSS };

static error_t parse(int key, char *argument, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->source;
    state->child_inputs[1] = &o->place;
    state->child_inputs[2] = &o->common;
    return 0;
  case KEY_DATA:
    o->data = argument;
    return 0;
  case KEY_BATCH:
    o->batch = cli_integer(state, "--batch", argument, 1, 1 << 16);
    return 0;
  case KEY_WORST:
    o->of_scores = "--worst";
    o->worst = (int)cli_integer(state, "--worst", argument, 0, 1000000);
    return 0;
  case KEY_TOP:
    o->of_scores = "--top";
    o->top = (int)cli_integer(state, "--top", argument, 1, 1000000);
    return 0;
  case KEY_AT_LEAST:
    o->of_scores = "--at-least";
    o->at_least = cli_number(state, "--at-least", argument, 0, 1);
    return 0;
  case KEY_LOSS:
    o->own_loss = true;
    if (!cli_output_loss(state, argument, &o->loss_output))
      argp_error(state, "--loss: output or output:NAME is expected, not \"%s\"", argument);
    return 0;
  case ARGP_KEY_END:
    if (!o->data) argp_error(state, "--data SPEC is expected, for instance --data builtin:glyphs");
    if (o->own_loss && o->of_scores) argp_error(state, "%s is of scores, which --loss output has not", o->of_scores);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static bool draw_progress(void *context, int64_t done, int64_t total) {
  cli_progress_update(context, done, total, NULL);
  return !cli_interrupted();
}

static const char *class_name(const braid_dataset_info *info, int index, char *buffer, size_t bytes) {
  if (info->class_names && index >= 0 && index < info->classes) return info->class_names[index];
  snprintf(buffer, bytes, "%d", index);
  return buffer;
}

enum { MOST_CLASSES = 20, DEFAULT_TOP = 5 };

static void print_classes(const braid_dataset_info *info, const braid_test_result *r) {
  char name[16];
  if (r->classes > MOST_CLASSES) return;
  printf("\n%-12s %9s %9s %9s %9s %9s %9s\n", "class", "samples", "precision", "recall", "F1", "AUC", "AP");
  for (int i = 0; i < r->classes; i++) {
    const braid_class_result *of = &r->per_class[i];
    printf("%-12.12s %9" PRId64 " %9.4f %9.4f %9.4f %9.4f %9.4f\n", class_name(info, i, name, sizeof name), of->samples,
           of->precision, of->recall, of->f1, of->auc, of->average_precision);
  }
}

static void print_confusion(const braid_dataset_info *info, const braid_test_result *r) {
  char name[16];
  int classes = r->classes;
  if (classes > MOST_CLASSES) {
    printf("%d classes: --json gives each and the confusion matrix\n", classes);
    return;
  }
  printf("\n%-12s", "truth\\guess");
  for (int k = 0; k < classes; k++) printf(" %6.6s", class_name(info, k, name, sizeof name));
  printf(" %8s\n", "right");
  for (int i = 0; i < classes; i++) {
    int64_t all = r->per_class[i].samples;
    printf("%-12.12s", class_name(info, i, name, sizeof name));
    for (int k = 0; k < classes; k++) {
      int64_t count = r->confusion[i * classes + k];
      if (count)
        printf(" %6" PRId64, count);
      else
        printf(" %6s", ".");
    }
    printf(" %7.2f%%\n", all ? (double)r->confusion[i * classes + i] / (double)all * 100 : 0);
  }
}

static void print_worst(const options *o, const braid_dataset_info *info, const braid_test_result *r) {
  char truth[16], guess[16];
  bool classes = r->target == BRAID_TARGET_CLASS;
  if (r->worst_count && o->worst)
    printf("\n%s, highest loss first (sample number)\n", r->per_number ? "samples" : "misclassified");
  for (int64_t i = 0; i < r->worst_count && i < o->worst; i++) {
    printf("%8" PRId64 "  ", r->worst_index[i]);
    if (classes)
      printf("%s taken for %s, ", class_name(info, r->worst_label[i], truth, sizeof truth),
             r->worst_guess[i] < 0 ? "none" : class_name(info, r->worst_guess[i], guess, sizeof guess));
    printf("loss %.3f\n", r->worst_loss[i]);
  }
}

static void print_numbers(const braid_dataset_info *info, const braid_test_result *r) {
  printf("  MSE %.6g  MAE %.6g  R2 %.4f (means over the numbers)\n", r->mse, r->mae, r->r2);
  printf("\n%-16s %12s %12s %9s\n", "number", "MSE", "MAE", "R2");
  for (int i = 0; i < r->classes && i < MOST_CLASSES; i++)
    printf("%-16.16s %12.6g %12.6g %9.4f\n", info->class_names[i], r->per_number[i].squared_error,
           r->per_number[i].absolute_error, r->per_number[i].r2);
  if (r->classes > MOST_CLASSES) printf("%d numbers: --json gives each\n", r->classes);
}

static void print_text(const options *o, const braid_dataset_info *info, const braid_test_result *r, double seconds) {
  printf("%s on %s\n", o->source.path, info->spec);
  printf("  samples   %" PRId64 " (measured%s %.0f samples/s)\n", r->samples,
         cli_place_simulates(&o->place) ? " with the simulation" : "", (double)r->samples / seconds);
  if (!r->classes) {
    printf("  loss      %.6g\n", r->loss);
    return;
  }
  if (r->target == BRAID_TARGET_NUMBERS) {
    print_numbers(info, r);
    print_worst(o, info, r);
    return;
  }
  bool labels = r->target == BRAID_TARGET_LABELS;
  printf("  accuracy  %.2f%%%s\n", r->accuracy * 100, labels ? " of all labels" : "");
  if (labels) printf("  exact     %.2f%% (samples of which all labels are right)\n", r->exact_match * 100);
  int top = o->top ? o->top : DEFAULT_TOP;
  if (!labels && r->classes > top) printf("  top %-4d  %.2f%%\n", top, braid_test_top(r, top) * 100);
  printf("  loss      %.4f\n", r->loss);
  printf("  precision %.4f  recall %.4f  F1 %.4f  AUC %.4f  AP %.4f (means over classes)\n", r->precision, r->recall,
         r->f1, r->auc, r->average_precision);
  print_classes(info, r);
  if (r->confusion) print_confusion(info, r);
  print_worst(o, info, r);
}

static void json_classes(cli_json *json, const braid_test_result *r) {
  cli_json_array(json, "per_class");
  for (int i = 0; i < r->classes; i++) {
    cli_json_object(json, NULL);
    cli_json_integer(json, "samples", r->per_class[i].samples);
    cli_json_integer(json, "guessed", r->per_class[i].guessed);
    cli_json_number(json, "precision", r->per_class[i].precision);
    cli_json_number(json, "recall", r->per_class[i].recall);
    cli_json_number(json, "f1", r->per_class[i].f1);
    cli_json_number(json, "auc", r->per_class[i].auc);
    cli_json_number(json, "average_precision", r->per_class[i].average_precision);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_numbers(cli_json *json, const braid_test_result *r) {
  cli_json_array(json, "per_number");
  for (int i = 0; i < r->classes; i++) {
    cli_json_object(json, NULL);
    cli_json_number(json, "mse", r->per_number[i].squared_error);
    cli_json_number(json, "mae", r->per_number[i].absolute_error);
    cli_json_number(json, "r2", r->per_number[i].r2);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void json_confusion(cli_json *json, const braid_test_result *r) {
  cli_json_array(json, "confusion");
  for (int i = 0; i < r->classes; i++) {
    cli_json_array(json, NULL);
    for (int k = 0; k < r->classes; k++) cli_json_integer(json, NULL, r->confusion[i * r->classes + k]);
    cli_json_close(json, ']');
  }
  cli_json_close(json, ']');
}

static void print_json(const options *o, const braid_dataset_info *info, const braid_test_result *r, double seconds) {
  cli_json json;
  char name[16];
  if (!cli_json_begin(&json)) return;
  cli_json_string(&json, "model", o->source.path);
  cli_json_string(&json, "data", info->spec);
  cli_json_integer(&json, "samples", r->samples);
  cli_json_integer(&json, "unscored", r->unscored);
  cli_json_number(&json, "accuracy", r->accuracy);
  cli_json_number(&json, "top5", r->top5);
  cli_json_integer(&json, "k", o->top ? o->top : DEFAULT_TOP);
  cli_json_number(&json, "top_k", braid_test_top(r, o->top ? o->top : DEFAULT_TOP));
  cli_json_number(&json, "loss", r->loss);
  cli_json_number(&json, "precision", r->precision);
  cli_json_number(&json, "recall", r->recall);
  cli_json_number(&json, "f1", r->f1);
  cli_json_number(&json, "auc", r->auc);
  cli_json_number(&json, "average_precision", r->average_precision);
  cli_json_number(&json, "exact_match", r->exact_match);
  cli_json_number(&json, "mse", r->mse);
  cli_json_number(&json, "mae", r->mae);
  cli_json_number(&json, "r2", r->r2);
  cli_json_number(&json, "measured_images_per_second", (double)r->samples / seconds);
  cli_json_bool(&json, "simulated", cli_place_simulates(&o->place));
  cli_json_array(&json, "classes");
  for (int i = 0; i < r->classes; i++) cli_json_string(&json, NULL, class_name(info, i, name, sizeof name));
  cli_json_close(&json, ']');
  if (r->per_class) json_classes(&json, r);
  if (r->per_number) json_numbers(&json, r);
  if (r->confusion) json_confusion(&json, r);
  cli_json_array(&json, "worst");
  for (int64_t i = 0; i < r->worst_count && i < o->worst; i++) {
    cli_json_object(&json, NULL);
    cli_json_integer(&json, "sample", r->worst_index[i]);
    if (r->target == BRAID_TARGET_CLASS) {
      cli_json_integer(&json, "label", r->worst_label[i]);
      if (r->worst_guess[i] >= 0) cli_json_integer(&json, "guess", r->worst_guess[i]);
    }
    cli_json_number(&json, "loss", r->worst_loss[i]);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_end(&json);
}

static braid_status test_model(const options *o, const braid_graph *graph, braid_dataset *dataset, double *accuracy) {
  braid_target_kind target = braid_dataset_get_info(dataset).target;
  if (o->top && target != BRAID_TARGET_CLASS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--top is of classes of which one is right; the targets are %s",
                      target == BRAID_TARGET_LABELS ? "labels" : "numbers");
  if (o->at_least > 0 && target == BRAID_TARGET_NUMBERS)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "--at-least is of the accuracy, which numbers that are predicted have not");
  braid_status status = cli_check_batch(&o->place, o->batch);
  if (status != BRAID_OK) return status;
  braid_session_options place = cli_session_options(&o->place);
  braid_test_result result = {0};
  cli_progress progress;
  cli_progress_begin(&progress, "testing");
  status = o->own_loss
               ? braid_test_loss(graph, o->loss_output, dataset, o->batch, &place, draw_progress, &progress, &result)
               : braid_test(graph, dataset, o->batch, &place, draw_progress, &progress, &result);
  cli_progress_end(&progress);
  if (status == BRAID_OK) {
    braid_dataset_info info = braid_dataset_get_info(dataset);
    double seconds = cli_seconds() - progress.started;
    *accuracy = result.accuracy;
    if (o->common.json)
      print_json(o, &info, &result, seconds);
    else
      print_text(o, &info, &result, seconds);
    if (result.unscored)
      fprintf(stderr,
              "braid test: scores of %" PRId64 " of %" PRId64 " samples, the first of them sample %" PRId64
              ", are NaN: these are never right\n",
              result.unscored, result.samples, result.first_unscored);
  }
  braid_test_result_deinit(&result);
  return status;
}

int cli_test(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"data", KEY_DATA, "SPEC", 0, "The data set, including its normalization", 0},
      {"batch", KEY_BATCH, "N", 0, "Samples per run (default 100)", 0},
      {"worst", KEY_WORST, "N", 0, "List the N misclassified samples with the highest loss (default 5)", 0},
      {"top", KEY_TOP, "K", 0, "How many of the highest scores count as top (default 5)", 0},
      {"loss", KEY_LOSS, "output[:NAME]", 0,
       "An output of the model is the loss, and its second input takes the targets: measure the mean loss alone", 0},
      {"at-least", KEY_AT_LEAST, "X", 0, "Exit with code 1 if the accuracy is below X (0..1)", 0},
      {0}};
  static const struct argp_child children[] = {
      {&cli_source_argp, 0, NULL, 0}, {&cli_planned_argp, 0, NULL, 0}, {&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "MODEL", doc, children, NULL, NULL};
  options o = {.batch = 100, .worst = 5};
  cli_parse(&argp, argc, argv, &o);
  cli_catch_interrupt();
  braid_graph *graph = NULL;
  braid_dataset *dataset = NULL;
  double accuracy = 0;
  braid_status status = cli_open_registry(&o.place);
  if (status == BRAID_OK) status = cli_load_to_run(&o.source, &o.place, &graph);
  if (status == BRAID_OK) status = braid_dataset_open(NULL, o.data, "test", &dataset);
  if (status == BRAID_OK && braid_dataset_get_info(dataset).augments)
    status = braid_fail(BRAID_INVALID_ARGUMENT, "--data %s: augment is for training only", o.data);
  if (status == BRAID_OK) status = test_model(&o, graph, dataset, &accuracy);
  if (dataset) braid_dataset_close(dataset);
  braid_graph_destroy(graph);
  cli_close_registry(&o.place);
  if (status != BRAID_OK) return cli_fail(&o.common, "test", status);
  if (!(accuracy < o.at_least)) return CLI_OK;
  fprintf(stderr, "braid test: accuracy %.4f is below --at-least %.4f\n", accuracy, o.at_least);
  return CLI_FAILED;
}
