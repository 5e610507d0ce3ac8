/* What a ledger costs: two trainings of the same network in integers, one with a ledger, take their steps in turn, so
 * that whatever else the machine does meets both. Usage: ledger_bench [MODEL [STEPS [THREADS]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "braid/braid.h"
#include "train/trainer.h"

enum { kMostSteps = 1000, kWarm = 2 };

static void ok(braid_status status) {
  if (status == BRAID_OK) return;
  fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  exit(1);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Of all threads; on a machine that does other work, too, it moves less than what a clock shows. */
static double cpu_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

typedef struct times {
  double ms[2][kMostSteps], ratios[kMostSteps];
} times;

static void time_step(braid_trainer *trainer, double *clock, double *cpu) {
  double loss, before = cpu_ms();
  int64_t start = braid_now_ns();
  ok(braid_trainer_step(trainer, trainer->options.learning_rate, &loss));
  *clock = (double)(braid_now_ns() - start) * 1e-6;
  *cpu = cpu_ms() - before;
}

static void tell(const char *what, times *t, int steps) {
  for (int i = 0; i < steps; i++) t->ratios[i] = t->ms[1][i] / t->ms[0][i];
  double ratio = median_of(t->ratios, steps);
  printf("  %-10s without %8.2f ms, with %8.2f ms (medians); the median of the pairs' ratios is %+.2f %%\n", what,
         median_of(t->ms[0], steps), median_of(t->ms[1], steps), (ratio - 1) * 100);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "models/vgg-tile.cfg";
  int steps = argc > 2 ? atoi(argv[2]) : 20;
  static times clock_times, cpu_times;
  char ledger[] = "/tmp/braid-ledger-XXXXXX";
  braid_graph *model;
  braid_dataset *data;
  braid_trainer *trainers[2];
  braid_train_options options;
  int file = mkstemp(ledger);
  if (file < 0 || steps < 1 || steps > kMostSteps) return 2;
  close(file);
  ok(braid_model_load(NULL, path, NULL, &model));
  ok(braid_dataset_open(NULL, strstr(path, "lenet") ? "builtin:glyphs,channels=1,size=28x28" : "builtin:glyphs",
                        "train", &data));
  braid_train_options_init(&options);
  options.precision = BRAID_INT8;
  options.learning_rate = 0.125;
  options.draw_weights = true;
  options.threads = argc > 3 ? atoi(argv[3]) : 0;
  for (int with = 0; with < 2; with++) {
    options.ledger = with ? ledger : NULL;
    ok(braid_trainer_create(model, data, NULL, &options, &trainers[with]));
  }
  for (int step = -kWarm; step < steps; step++)
    for (int turn = 0; turn < 2; turn++) {
      int with = turn ^ (step & 1);
      double clock, cpu;
      time_step(trainers[with], &clock, &cpu);
      if (step < 0) continue;
      clock_times.ms[with][step] = clock;
      cpu_times.ms[with][step] = cpu;
    }
  printf("%s, %d steps of %lld samples, measured\n", path, steps, (long long)options.batch);
  tell("clock", &clock_times, steps);
  tell("processor", &cpu_times, steps);
  for (int i = 0; i < 2; i++) braid_trainer_destroy(trainers[i]);
  braid_dataset_close(data);
  braid_graph_destroy(model);
  unlink(ledger);
  return 0;
}
