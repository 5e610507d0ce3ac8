/* LSTM layers of the sizes of Zeng et al. 2021 (section 7.1.4) with random weights: what the compilers take (measured)
 * and what a sequence takes (modelled), on designs of 16 cores and on single ones of the same size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "overlay/recurrent/rnn_dynamic.h"
#include "overlay/recurrent/rnn_static.h"

enum { kRepeats = 50 };

static void must(braid_status status) {
  if (status == BRAID_OK) return;
  fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  exit(1);
}

static float *random_floats(size_t count, double scale) {
  float *out = malloc(count * sizeof *out);
  if (!out) exit(1);
  for (size_t i = 0; i < count; i++) out[i] = (float)(scale * (2 * (double)braid_random_uniform(59, 0, 0, i) - 1));
  return out;
}

static double ms_since(int64_t begin) {
  return (double)(braid_now_ns() - begin) / 1e6;
}

/* The fastest of some, in microseconds. */
static double make_us(const braid_package *package, int cores) {
  double best = INFINITY;
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  for (int i = 0; i < kRepeats; i++) {
    int64_t begin = braid_now_ns();
    must(braid_programs_make(package, cores, 0, &programs));
    best = fmin(best, ms_since(begin) * 1e3);
  }
  braid_programs_deinit(&programs);
  return best;
}

static int64_t cycles_on(const braid_package *package, const braid_overlay_design *design, int cores,
                         int64_t *estimate) {
  braid_overlay_simulated simulated;
  must(braid_overlay_simulate(package, design, cores, &simulated));
  if (estimate) *estimate = simulated.estimate;
  return simulated.cycles;
}

/* The mean of what k cores lose against k times one core, over all numbers of them. */
static double mean_loss(const braid_package *package, const braid_overlay_design *design) {
  double sum = 0, one = (double)cycles_on(package, design, 1, NULL);
  for (int k = 1; k <= design->cores; k++) sum += 1 - one / (double)cycles_on(package, design, k, NULL) / k;
  return sum / design->cores;
}

static void measure_design(const braid_lstm *lstm, const char *many, const char *single, int steps) {
  const braid_overlay_design *design, *large;
  braid_package *package, *whole;
  must(braid_overlay_design_load(NULL, many, &design));
  must(braid_overlay_design_load(NULL, single, &large));
  int64_t begin = braid_now_ns(), estimate;
  must(braid_rnn_compile_layer(lstm, steps, design, NULL, &package));
  double ms = ms_since(begin);
  must(braid_rnn_compile_layer(lstm, steps, large, NULL, &whole));
  int64_t one = cycles_on(package, design, 1, NULL), all = cycles_on(package, design, design->cores, &estimate);
  int64_t of_single = cycles_on(whole, large, 1, NULL);
  printf("%6d %6d  %-10s %9.1f %9.1f %9.1f %11lld %11lld %8.2f %+8.1f%% %11lld %8.2f %7.2f%%\n", lstm->hidden, steps,
         many, ms, make_us(package, 1), make_us(package, design->cores), (long long)one, (long long)all,
         (double)one / (double)all, 100 * ((double)all / (double)estimate - 1), (long long)of_single,
         (double)of_single / (double)all, 100 * mean_loss(package, design));
  braid_package_destroy(package);
  braid_package_destroy(whole);
  braid_overlay_design_destroy(design);
  braid_overlay_design_destroy(large);
}

int main(void) {
  static const int sizes[] = {100, 400, 800, 1500}, lengths[] = {1, 25};
  printf("%6s %6s  %-10s %9s %9s %9s %11s %11s %8s %9s %11s %8s %8s\n", "hidden", "steps", "design", "static ms",
         "1, us", "16, us", "1 core", "16 cores", "speed-up", "estimate", "single core", "against", "loss");
  for (size_t l = 0; l < 2; l++)
    for (size_t s = 0; s < 4; s++) {
      size_t hidden = (size_t)sizes[s], numbers = 4 * hidden * hidden;
      float *w = random_floats(numbers, 1 / sqrt(sizes[s]));
      braid_lstm *lstm;
      int64_t begin = braid_now_ns();
      must(braid_lstm_create(NULL, sizes[s], sizes[s], w, w, NULL, 4, &lstm));
      if (l == 0) printf("%6d rounded to 16 bits in %.1f ms\n", sizes[s], ms_since(begin));
      measure_design(lstm, "rnn-16x1", "rnn-1x16", lengths[l]);
      measure_design(lstm, "rnn-16x16", "rnn-1x256", lengths[l]);
      measure_design(lstm, "rnn-16x64", "rnn-1x1024", lengths[l]);
      braid_lstm_destroy(lstm);
      free(w);
    }
  return 0;
}
