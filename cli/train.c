#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "processes.h"
#include "train_options.h"
#include "train_tenant.h"
#include "training.h"

/* State of the progress callback. */
typedef struct watch {
  const train_options *options;
  braid_status steered; /* the first failure of a new plan, and its detail */
  char detail[512];
  cli_progress progress;
  cli_json *json; /* one object per epoch */
  braid_train_progress last;
  double first_step; /* seconds; programs for devices are built in it */
} watch;

static void print_epoch(const watch *w, const braid_train_progress *p) {
  char tested[120] = "", took[32], accuracy[32] = "";
  if (!isnan(p->accuracy)) snprintf(accuracy, sizeof accuracy, " accuracy %.2f%%", p->accuracy * 100);
  if (p->test && !p->test->classes)
    snprintf(tested, sizeof tested, ", test loss %.4f", p->test_loss);
  else if (p->test && p->test->target == BRAID_TARGET_NUMBERS)
    snprintf(tested, sizeof tested, ", test loss %.4f MAE %.4g R2 %.4f", p->test_loss, p->test->mae, p->test->r2);
  else if (p->test && p->test->target == BRAID_TARGET_LABELS)
    snprintf(tested, sizeof tested, ", test loss %.4f accuracy %.2f%% mAP %.4f", p->test_loss, p->test_accuracy * 100,
             p->test->average_precision);
  else if (p->test)
    snprintf(tested, sizeof tested, ", test loss %.4f accuracy %.2f%%", p->test_loss, p->test_accuracy * 100);
  fprintf(w->json ? stderr : stdout, "epoch %" PRId64 "/%" PRId64 "  loss %.4f%s%s  %.0f samples/s, %s left\n",
          p->epoch, p->epochs, p->loss, accuracy, tested, p->images_per_second,
          cli_format_seconds(p->ends_early ? 0 : p->seconds_left, took, sizeof took));
  if (p->ends_early)
    fprintf(w->json ? stderr : stdout, "ends early: no epoch since %" PRId64 " was better\n", p->best_epoch);
  fflush(stdout);
}

static bool on_step(void *context, const braid_train_progress *p) {
  watch *w = context;
  w->last = *p;
  if (w->first_step == 0) w->first_step = p->seconds;
  if (p->epoch_done) {
    cli_progress_end(&w->progress);
    print_epoch(w, p);
    if (w->json) {
      cli_json_object(w->json, NULL);
      cli_json_integer(w->json, "epoch", p->epoch);
      cli_json_number(w->json, "loss", p->loss);
      cli_json_number(w->json, "accuracy", p->accuracy);
      cli_json_number(w->json, "test_loss", p->test_loss);
      cli_json_number(w->json, "test_accuracy", p->test_accuracy);
      if (p->test && p->test->classes && p->test->target == BRAID_TARGET_LABELS) {
        cli_json_number(w->json, "test_exact_match", p->test->exact_match);
        cli_json_number(w->json, "test_average_precision", p->test->average_precision);
      }
      if (p->test && p->test->classes && p->test->target == BRAID_TARGET_NUMBERS) {
        cli_json_number(w->json, "test_mae", p->test->mae);
        cli_json_number(w->json, "test_r2", p->test->r2);
      }
      cli_json_number(w->json, "learning_rate", p->learning_rate);
      cli_json_number(w->json, "measured_images_per_second", p->images_per_second);
      cli_json_number(w->json, "measured_seconds", p->seconds);
      cli_json_close(w->json, '}');
    }
  } else if (p->tested) {
    w->progress.label = "testing";
    cli_progress_update(&w->progress, p->tested, p->to_test, "");
  } else {
    char note[128], left[32], accuracy[32] = "";
    w->progress.label = "training";
    if (!isnan(p->accuracy)) snprintf(accuracy, sizeof accuracy, "  accuracy %.1f%%", p->accuracy * 100);
    snprintf(note, sizeof note, "loss %.3f%s  %.0f samples/s  %s left", p->loss, accuracy, p->images_per_second,
             cli_format_seconds(p->seconds_left, left, sizeof left));
    cli_progress_update(&w->progress, p->step, p->steps, note);
  }
  if (w->options->steering.made && w->steered == BRAID_OK) {
    w->steered = braid_steering_step(w->options->steering.made);
    if (w->steered != BRAID_OK) snprintf(w->detail, sizeof w->detail, "%s", braid_error_detail());
  }
  cli_tenant_pace();
  return w->steered == BRAID_OK && !cli_interrupted();
}

/* DIR/name, allocated. */
static char *path_in(const char *directory, const char *name) {
  char *path = NULL;
  return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static void tell_results(const train_options *o) {
  FILE *file = o->common.json ? stderr : stdout;
  char *model = path_in(o->train.out_directory, "model.onnx"), *report = path_in(o->train.out_directory, "report.html");
  if (model && access(model, R_OK) == 0) fprintf(file, "trained model: %s\n", model);
  if (report && access(report, R_OK) == 0) fprintf(file, "report: %s\n", report);
  free(model);
  free(report);
}

/* --- output folder --------------------------------------------------------------------------------------------------
 * The default output folder is a new one: MODEL-DATE, MODEL-DATE-2 ... */
enum { MOST_RUNS = 100000 };

static braid_status choose_out(train_options *o) {
  const char *slash = strrchr(o->source.path, '/'), *name = slash ? slash + 1 : o->source.path;
  const char *dot = strrchr(name, '.');
  int length = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
  char day[16];
  time_t now = time(NULL);
  struct tm local;
  if (!localtime_r(&now, &local) || !strftime(day, sizeof day, "%Y-%m-%d", &local)) strcpy(day, "run");
  for (int i = 1; i <= MOST_RUNS; i++) {
    char number[16] = "", *path;
    if (i > 1) snprintf(number, sizeof number, "-%d", i);
    if (asprintf(&path, "%.*s-%s%s", length, name, day, number) < 0) return cli_no_memory();
    if (mkdir(path, 0777) == 0) {
      o->train.out_directory = o->made_out = path;
      return BRAID_OK;
    }
    int error = errno;
    if (error != EEXIST) {
      braid_status status =
          braid_fail(BRAID_IO, "%s: cannot create the folder: %s; choose one with --out", path, strerror(error));
      free(path);
      return status;
    }
    free(path);
  }
  return braid_fail(BRAID_IO, "%.*s-%s: %d folders with this name exist; choose one with --out", length, name, day,
                    MOST_RUNS);
}

static bool on_quiet_step(void *context, const braid_train_progress *p) {
  (void)context, (void)p;
  cli_tenant_pace();
  return !cli_interrupted();
}

/* Without the others nothing can be written: what was trained last may be of two steps. */
static braid_status blame_group(const train_options *o, braid_status status) {
  if (status != BRAID_DEVICE_LOST || !o->group || !o->train.out_directory) return status;
  char detail[512];
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  return braid_fail(status, "%s; --resume --out %s goes on from the newest checkpoint", detail, o->train.out_directory);
}

static braid_status run_trainer(const train_options *o, braid_trainer *trainer) {
  cli_json json;
  if (braid_group_rank(o->group)) /* process 0 tells */
    return blame_group(o, braid_trainer_run(trainer, on_quiet_step, NULL));
  watch w = {.options = o, .json = NULL};
  if (o->common.json) {
    if (!cli_json_begin(&json)) return cli_no_memory();
    w.json = &json;
    cli_json_string(&json, "model", o->source.path);
    cli_json_string(&json, "data", o->data);
    cli_json_array(&json, "epochs");
  }
  if (o->made_out)
    fprintf(o->common.json ? stderr : stdout, "results are written to %s (change with --out)\n", o->made_out);
  cli_progress_begin(&w.progress, "training");
  braid_status status = braid_trainer_run(trainer, on_step, &w);
  cli_progress_end(&w.progress);
  status = blame_group(o, status);
  if (status == BRAID_CANCELLED && w.steered != BRAID_OK)
    status = braid_fail(w.steered, "%s; the checkpoint in %s is of what was trained before", w.detail,
                        o->train.out_directory);
  if (status == BRAID_CANCELLED) {
    status = braid_fail(BRAID_CANCELLED,
                        "interrupted in epoch %" PRId64 " after step %" PRId64
                        "; a checkpoint is in %s, --resume --out %s goes on from it",
                        w.last.epoch, w.last.step, o->train.out_directory, o->train.out_directory);
  }
  /* Of a test that failed too, not where files could not be written: what is there may be an earlier epoch's. */
  if (status != BRAID_CANCELLED && status != BRAID_DEVICE_LOST && status != BRAID_IO) tell_results(o);
  int64_t samples = o->train.batch * o->train.accumulate;
  if ((status == BRAID_OK || status == BRAID_CANCELLED) && o->steering.made)
    cli_steering_print(w.json ? stderr : stdout, o->steering.made, samples);
  if (!w.json) return status;
  if (status != BRAID_OK) {
    cli_json_discard(&json);
    return status;
  }
  cli_json_close(&json, ']');
  if (o->steering.made) cli_steering_json(&json, o->steering.made, samples);
  cli_json_integer(&json, "best_epoch", w.last.best_epoch);
  cli_json_number(&json, "measured_first_step_seconds", w.first_step);
  cli_json_string(&json, "out", o->train.out_directory);
  cli_json_end(&json);
  return status;
}

/* --- which learning rate --------------------------------------------------------------------------------------------
 */
static bool on_rate(void *context, int64_t done, int64_t total, const braid_rate_point *point) {
  char note[64];
  snprintf(note, sizeof note, "rate %.2g  loss %.3f", point->rate, point->smoothed);
  cli_progress_update(context, done, total, note);
  return !cli_interrupted();
}

static void tell_rate(const train_options *o, const braid_rate_search *search) {
  cli_json json;
  if (!o->common.json) {
    if (isnan(search->suggested))
      printf("no rate from %g to %g makes the loss fall clearly; a larger batch may show one\n", o->rates.least,
             search->points[search->count - 1].rate);
    else
      printf("suggested: --lr %.2g, where the loss falls most steeply\n", search->suggested);
    printf("least smoothed loss at %.2g; %s after %zu steps\n", search->lowest, search->diverged ? "diverged" : "ended",
           search->count);
    printf("plot: %s/learning-rate.html\n", o->train.out_directory);
    return;
  }
  if (!cli_json_begin(&json)) return;
  cli_json_string(&json, "model", o->source.path);
  cli_json_string(&json, "data", o->data);
  cli_json_number(&json, "suggested", search->suggested);
  cli_json_number(&json, "lowest", search->lowest);
  cli_json_bool(&json, "diverged", search->diverged);
  cli_json_array(&json, "points");
  for (size_t i = 0; i < search->count; i++) {
    cli_json_object(&json, NULL);
    cli_json_number(&json, "learning_rate", search->points[i].rate);
    cli_json_number(&json, "loss", search->points[i].loss);
    cli_json_number(&json, "smoothed_loss", search->points[i].smoothed);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_string(&json, "out", o->train.out_directory);
  cli_json_end(&json);
}

static braid_status check_untested(const train_options *o, const braid_dataset *data) {
  if (!braid_dataset_get_info(data).views) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "--data %s: views is for testing, and has no effect with %s", o->data,
                    o->find_rate ? "--find-lr" : "--no-test");
}

static braid_status find_rate(train_options *o, const braid_graph *model, braid_dataset *data, bool *began) {
  braid_rate_search search;
  cli_progress progress;
  braid_status checked = check_untested(o, data);
  if (checked != BRAID_OK) return checked;
  if (!o->train.out_directory) {
    braid_status status = choose_out(o);
    if (status != BRAID_OK) return status;
  }
  cli_progress_begin(&progress, "finding");
  braid_status status = braid_find_rate(model, data, &o->train, &o->rates, on_rate, &progress, &search);
  cli_progress_end(&progress);
  if (status != BRAID_OK) return status;
  *began = true;
  status = braid_rate_search_save(&search, o->train.out_directory);
  if (status == BRAID_OK) tell_rate(o, &search);
  braid_rate_search_deinit(&search);
  return status;
}

/* The default is the test split of the training data; npy has none. */
static braid_status open_test(const train_options *o, const braid_dataset *data, braid_dataset **test) {
  if (!o->test && braid_dataset_get_info(data).one_part)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--data %s has no test split: give one with --test, or use --no-test",
                      o->data);
  if (o->test && braid_dataset_get_info(data).views)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--data %s: views is for testing, which --test is for", o->data);
  braid_status status = braid_dataset_open(NULL, o->test ? o->test : o->data, "test", test);
  if (status == BRAID_OK && o->test && braid_dataset_get_info(*test).augments)
    return braid_fail(BRAID_INVALID_ARGUMENT, "--test %s: augment is for training only", o->test);
  return status;
}

/* Before what all processes do at the same time; what cannot be done together is refused. */
static braid_status agree(train_options *o, braid_status status) {
  if (status == BRAID_OK && o->group && (o->steering.given || o->find_rate))
    status = braid_fail(BRAID_UNSUPPORTED, "%s is for one process, %d were started",
                        o->find_rate ? "--find-lr" : "--policy", braid_group_size(o->group));
  o->agreed = true;
  return braid_group_agree(o->group, status);
}

static braid_status train_on(train_options *o, const braid_graph *model, braid_dataset *data, bool *began) {
  braid_dataset *test = NULL;
  braid_trainer *trainer = NULL;
  braid_status status = o->no_test ? check_untested(o, data) : open_test(o, data, &test);
  bool tells = braid_group_rank(o->group) == 0;
  if (status == BRAID_OK && !o->train.out_directory && tells) status = choose_out(o);
  status = agree(o, status);
  if (status == BRAID_OK) status = braid_trainer_create(model, data, test, &o->train, &trainer);
  if (status == BRAID_OK && o->source.seed_given && braid_trainer_resumed(trainer) && tells)
    braid_log_write(cli_log(), BRAID_LOG_WARNING,
                    "--model-seed has no effect on a run that is resumed: the weights are the checkpoint's");
  if (status == BRAID_OK && tells) status = training_summarize(trainer, &o->train);
  if (status == BRAID_OK && o->steering.given)
    status = cli_steering_begin(&o->steering, trainer, o->train.out_directory);
  *began = status == BRAID_OK;
  if (status == BRAID_OK) status = run_trainer(o, trainer);
  cli_steering_end(&o->steering);
  if (trainer) braid_trainer_destroy(trainer);
  if (test) braid_dataset_close(test);
  return status;
}

/* *began: training has started, so later failures are not errors of the arguments. */
static braid_status train(train_options *o, const braid_graph *model, bool *began) {
  braid_dataset *data = NULL;
  braid_graph *fitted = NULL, *whitened = NULL, *standardized = NULL;
  braid_status status = braid_dataset_open(NULL, o->data, "train", &data);
  if (status == BRAID_OK && !o->loss_given) o->train.loss = braid_loss_of(braid_dataset_get_info(data).target);
  if (status == BRAID_OK && o->replace_head) status = braid_replace_head(model, data, o->train.seed, &fitted);
  if (fitted) model = fitted;
  if (status == BRAID_OK && o->whiten) status = braid_whiten_filters(model, data, &whitened);
  if (whitened) model = whitened;
  if (status == BRAID_OK && braid_dataset_get_info(data).table && !o->raw_columns)
    status = braid_standardize_input(model, data, &standardized);
  if (standardized) model = standardized;
  if (status == BRAID_OK && o->find_rate && o->group) status = agree(o, status);
  if (status == BRAID_OK) status = o->find_rate ? find_rate(o, model, data, began) : train_on(o, model, data, began);
  if (data) braid_dataset_close(data);
  braid_graph_destroy(standardized);
  braid_graph_destroy(whitened);
  braid_graph_destroy(fitted);
  if (o->made_out && !*began) rmdir(o->made_out); /* unless something is in it */
  return status;
}

/* Threads that are made from here on inherit it. */
static void yield_cpus(void) {
  if (sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) != 0)
    braid_log_write(cli_log(), BRAID_LOG_WARNING, "--idle: %s; training takes CPU time as any other program",
                    strerror(errno));
}

/* How many CPUs training takes beside a daemon: one is left, whose caches no training has been through, and where what
 * comes next begins at once. 0: as many as there are. */
static int leave_one_cpu(braid_registry *registry) {
  enum { MOST = 64 };
  braid_device_info infos[MOST];
  size_t count = 0;
  if (braid_registry_devices(registry, infos, MOST, &count) != BRAID_OK) return 0;
  for (size_t i = 0; i < count && i < MOST; i++) {
    int cpus = (int)infos[i].compute_units;
    if (strcmp(infos[i].name, "cpu") != 0 || cpus < 2) continue;
    braid_log_write(cli_log(), BRAID_LOG_INFO,
                    "trains on %d of %d CPUs: one is left to the daemon; --threads takes more", cpus - 1, cpus);
    return cpus - 1;
  }
  return 0;
}

int cli_train(int argc, char **argv) {
  train_options o = {.data = NULL};
  braid_train_options_init(&o.train);
  braid_rate_options_init(&o.rates);
  o.train.seed = 1;
  cli_parse_together(&train_argp, argc, argv, &o);
  o.train.threads = o.place.threads;
  o.train.trace = o.place.trace;
  o.source.options.seed = o.source.options.seed ? o.source.options.seed : o.train.seed;
  cli_catch_interrupt();
  if (o.idle) yield_cpus();
  braid_graph *model = NULL;
  braid_status status = cli_join_processes(&o.group);
  if (status == BRAID_OK && o.tenant) status = cli_tenant_begin(o.tenant, o.token);
  if (status == BRAID_OK) status = cli_open_registry(&o.place);
  bool on_cpu = !o.place.devices || strstr(o.place.devices, "cpu");
  if (status == BRAID_OK && o.tenant && on_cpu && !o.train.threads) o.train.threads = leave_one_cpu(o.place.registry);
  if (status == BRAID_OK && o.group) braid_registry_set_group(o.place.registry, o.group);
  if (status == BRAID_OK) status = cli_check_batch(&o.place, o.train.batch);
  if (status == BRAID_OK) status = cli_own_devices(o.place.registry, o.place.devices, &o.own_devices);
  o.train.registry = o.place.registry;
  o.train.devices = o.own_devices ? o.own_devices : o.place.devices;
  o.train.place = o.place.patterns;
  if (status == BRAID_OK && o.steering.given && !o.train.devices) {
    status = cli_steering_devices(&o.steering, o.place.registry);
    o.train.devices = o.steering.devices;
  }
  if (status == BRAID_OK) status = cli_load(&o.source, &model);
  bool began = false;
  if (status == BRAID_OK) {
    status = train(&o, model, &began);
    braid_graph_destroy(model);
  }
  if (!o.agreed) status = braid_group_agree(o.group, status); /* the others learn of it where they agree */
  cli_tenant_end();
  cli_close_registry(&o.place);
  free(o.made_out);
  free(o.own_devices);
  return cli_leave_processes(&o.common, "train", status, began, o.group);
}
