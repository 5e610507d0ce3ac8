/* How long cores take to stand when a task is to be given away at random times, beside the bound that the compiler
 * states, and what places to stop cost who is never stopped: ResNet-50, VGG16 and MobileNet v1 of 224 x 224.
 *
 *   build/bench/stops_bench [stops] */
#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"
#include "overlay/compiler/bench_networks.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/sim/timing.h"

typedef struct bench_task {
  braid_timing_program programs[BRAID_OVERLAY_MOST_CORES];
  braid_timing_task task;
} bench_task;

static void bench_task_make(bench_task *b, const braid_package *package, const braid_programs *made) {
  uint64_t first = 0;
  b->task = (braid_timing_task){.programs = b->programs, .core_count = (size_t)made->cores};
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    uint64_t lines = (uint64_t)package->bytes[s] / 16;
    b->task.ranges[s] = (braid_timing_range){.first = first, .lines = lines};
    first += lines;
  }
  for (int c = 0; c < made->cores; c++) {
    const braid_program *from = &made->core[c];
    braid_instruction *items = calloc(from->bytes / 16 + 1, sizeof *items);
    size_t count = 0;
    for (size_t at = 0, next; at < from->bytes; at = next)
      if (braid_isa_decode(from->code, from->bytes, at, &items[count++], &next) != BRAID_OK) break;
    b->programs[c] = (braid_timing_program){.core = c, .instructions = items, .count = count};
  }
}

typedef struct bench_stop {
  uint64_t cycles; /* from when the task is told to stop until it stands */
  uint64_t again;  /* the same where it is told so as soon as it has gone on; 0: it came to its end */
  uint64_t whole;  /* of the task, stopped once */
} bench_stop;

static braid_timing_result advance(braid_timing *t, size_t id) {
  size_t done;
  if (braid_timing_advance(t, UINT64_MAX, &done) != BRAID_OK) abort();
  return braid_timing_get(t, id);
}

/* The rest of a task that was stopped. */
static size_t go_on(braid_timing *t, bench_task *rest, braid_timing_result r) {
  size_t id;
  rest->task.programs = rest->programs;
  for (size_t c = 0; c < r.core_count; c++) rest->programs[c].first = r.cores[c].stopped_at;
  if (braid_timing_submit(t, &rest->task, &id) != BRAID_OK) abort();
  return id;
}

/* The task is told to stop in cycle `stop`; 0: never. `twice`: again as soon as it has gone on. */
static bench_stop run(const braid_overlay_design *design, bench_task *b, uint64_t stop, bool twice) {
  bench_stop out = {0};
  braid_timing *t;
  size_t id, done;
  if (braid_timing_create(design, NULL, &t) != BRAID_OK || braid_timing_submit(t, &b->task, &id) != BRAID_OK) abort();
  if (braid_timing_advance(t, stop ? stop : UINT64_MAX, &done) != BRAID_OK) abort();
  bench_task rest = *b;
  for (int times = 0; done == SIZE_MAX && times < 1 + twice; times++) {
    uint64_t from = braid_timing_now(t);
    braid_timing_stop(t, id, BRAID_TIMING_AT_TILE);
    braid_timing_result r = advance(t, id);
    *(times ? &out.again : &out.cycles) = r.ended - from;
    if (r.state != BRAID_TIMING_STOPPED) break;
    id = go_on(t, &rest, r);
  }
  if (braid_timing_get(t, id).state == BRAID_TIMING_RUNS) advance(t, id);
  if (braid_timing_get(t, id).state != BRAID_TIMING_ENDED) abort();
  out.whole = braid_timing_now(t);
  braid_timing_destroy(t);
  return out;
}

static int bench(const braid_package *package, const braid_overlay_design *design, int cores, int stops) {
  braid_programs made;
  bench_task b;
  braid_programs_init(&made, NULL);
  if (braid_programs_make(package, cores, 0, &made) != BRAID_OK || braid_programs_gather(&made) != BRAID_OK) return 1;
  bench_task_make(&b, package, &made);
  uint64_t alone = run(design, &b, 0, false).whole, longest = 0, sum = 0, lost = 0, most_lost = 0, again = 0;
  for (int i = 0; i < stops; i++) {
    uint64_t at = 1 + braid_random_u32(1, 0, 0, (uint64_t)i) % (alone - 1);
    bench_stop once = run(design, &b, at, false), twice = run(design, &b, at, true);
    uint64_t more = once.whole > alone ? once.whole - alone : 0;
    if (once.cycles > longest) longest = once.cycles;
    if (twice.again > again) again = twice.again;
    sum += once.cycles;
    lost += more;
    if (more > most_lost) most_lost = more;
  }
  double us = 1 / design->clock_mhz;
  printf(
      "  %2d cores: %9.0f us an image; stands after %6.2f us on average, %6.2f at most; bound %6.2f (%llu cycles); as "
      "soon as it goes on %6.2f at most; a stop costs %6.2f us, %6.2f at most\n",
      cores, (double)alone * us, (double)sum * us / stops, (double)longest * us, (double)made.stop * us,
      (unsigned long long)made.stop, (double)again * us, (double)lost * us / stops, (double)most_lost * us);
  for (int c = 0; c < cores; c++) free((void *)(uintptr_t)b.programs[c].instructions);
  int failed = longest > made.stop;
  braid_programs_deinit(&made);
  return failed;
}

static int bench_design(const char *name, int stops) {
  static const int kCores[] = {1, 4, 16};
  const braid_overlay_design *design;
  int failed = 0;
  if (braid_overlay_design_load(NULL, name, &design) != BRAID_OK) return 1;
  for (int m = 0; m < BENCH_MODELS; m++) {
    bench_network *n = bench_network_create(&bench_models[m]);
    braid_package *package;
    if (!n || braid_package_compile(&n->network, design, NULL, &package) != BRAID_OK) return 1;
    printf("%s on %s\n", bench_models[m].name, name);
    for (size_t k = 0; k < sizeof kCores / sizeof *kCores && kCores[k] <= design->cores; k++)
      failed += bench(package, design, kCores[k], stops);
    braid_package_destroy(package);
    bench_network_destroy(n);
  }
  braid_overlay_design_destroy(design);
  return failed;
}

int main(int argc, char **argv) {
  int stops = argc > 1 ? atoi(argv[1]) : 50;
  int failed = bench_design("cnn-16x512", stops) + bench_design("cnn-1x8192", stops);
  if (failed) printf("%d took longer than their bound\n", failed);
  return failed != 0;
}
