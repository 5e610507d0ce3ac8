/* Adam's and AdamW's updates against the same in long double, on any device. Two things are held: each update by
 * itself, from the very moments it read, to a few roundings; and the moments after thousands of updates, against a run
 * that never rounded, so that an error too small to be seen in one update cannot pile up. For tests only. */
#ifndef BRAID_TESTS_ADAMCHECK_H
#define BRAID_TESTS_ADAMCHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "braid/session.h"

enum { ADAMCHECK_COUNT = 64, ADAMCHECK_STEPS = 4000, ADAMCHECK_SEED = 20250107, ADAMCHECK_ULPS = 8 };

typedef struct adamcheck {
  const char *names[3]; /* parameter, moments */
  float now[3][ADAMCHECK_COUNT];
  long double exact[3][ADAMCHECK_COUNT], rate, beta1, beta2, epsilon, decay;
  bool decoupled;
} adamcheck;

static inline void adamcheck_ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static inline braid_tensor *adamcheck_tensor(const void *data) {
  braid_desc desc;
  braid_tensor *tensor;
  adamcheck_ok(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){ADAMCHECK_COUNT}));
  adamcheck_ok(braid_tensor_create(NULL, &desc, &tensor));
  memcpy(braid_tensor_data(tensor), data, ADAMCHECK_COUNT * sizeof(float));
  return tensor;
}

/* The graph of one update: inputs gradient, rate and step, output the parameter before it. */
static inline braid_graph *adamcheck_graph(const adamcheck *a) {
  braid_graph *graph;
  braid_desc list, number, count;
  braid_value_id in[6], out[3] = {0}, before = 0;
  braid_node_id node;
  adamcheck_ok(braid_graph_create(NULL, "adam", &graph));
  adamcheck_ok(braid_desc_init(&list, BRAID_F32, 1, (int64_t[]){ADAMCHECK_COUNT}));
  adamcheck_ok(braid_desc_init(&number, BRAID_F32, 0, NULL));
  adamcheck_ok(braid_desc_init(&count, BRAID_I64, 0, NULL));
  adamcheck_ok(braid_graph_add_input(graph, "gradient", &list, &in[1]));
  adamcheck_ok(braid_graph_add_input(graph, "rate", &number, &in[2]));
  adamcheck_ok(braid_graph_add_input(graph, "step", &count, &in[5]));
  for (int i = 0; i < 3; i++) {
    braid_tensor *tensor = adamcheck_tensor(a->now[i]);
    adamcheck_ok(braid_graph_add_tensor(graph, a->names[i], i ? BRAID_VALUE_STATE : BRAID_VALUE_PARAMETER, tensor,
                                        &in[i ? 2 + i : 0]));
    braid_tensor_release(tensor);
  }
  adamcheck_ok(braid_graph_add_node(graph, "Neg", NULL, in, 1, &before, 1, NULL));
  adamcheck_ok(braid_graph_add_output(graph, before));
  adamcheck_ok(braid_graph_add_node(graph, "AdamUpdate", NULL, in, 6, out, 3, &node));
  adamcheck_ok(braid_graph_set_float(graph, node, "beta1", (double)a->beta1));
  adamcheck_ok(braid_graph_set_float(graph, node, "beta2", (double)a->beta2));
  adamcheck_ok(braid_graph_set_float(graph, node, "epsilon", (double)a->epsilon));
  adamcheck_ok(braid_graph_set_float(graph, node, "weight_decay", (double)a->decay));
  adamcheck_ok(braid_graph_set_int(graph, node, "decoupled", a->decoupled));
  for (int i = 0; i < 3; i++) adamcheck_ok(braid_graph_update_state(graph, in[i ? 2 + i : 0], out[i]));
  return graph;
}

/* One update of parameter, first and second moment; gives the size of what the parameter moved by, for the bound. */
static inline long double adamcheck_update(const adamcheck *a, long double *x[3], long double g, int step) {
  long double shrink = a->decoupled ? a->rate * a->decay : 0, moved;
  long double coupled = a->decoupled ? 0 : a->decay * *x[0];
  long double most = a->beta1 * fabsl(*x[1]) + (1 - a->beta1) * (fabsl(g) + fabsl(coupled));
  g += coupled;
  *x[1] = a->beta1 * *x[1] + (1 - a->beta1) * g;
  *x[2] = a->beta2 * *x[2] + (1 - a->beta2) * g * g;
  long double root = sqrtl(*x[2] / (1 - powl(a->beta2, step))) + a->epsilon;
  moved = a->rate / (1 - powl(a->beta1, step)) / root;
  most = most * moved + fabsl(shrink * *x[0]);
  *x[0] -= shrink * *x[0] + moved * *x[1];
  return most;
}

static inline void adamcheck_step(adamcheck *a, braid_session *session, int step) {
  float gradient[ADAMCHECK_COUNT], before[ADAMCHECK_COUNT], was[3][ADAMCHECK_COUNT], rate = (float)a->rate;
  int64_t number = step;
  for (int i = 0; i < ADAMCHECK_COUNT; i++)
    gradient[i] = (0.3f + braid_random_normal(ADAMCHECK_SEED, 1, (uint32_t)step, (uint64_t)i)) * (float)(i + 1) / 16;
  memcpy(was, a->now, sizeof was);
  adamcheck_ok(braid_session_run(session, (const void *const[]){gradient, &rate, &number}, (void *const[]){before}));
  for (int k = 0; k < 3; k++) {
    braid_tensor *tensor = adamcheck_tensor(a->now[k]);
    adamcheck_ok(braid_session_read(session, a->names[k], tensor));
    memcpy(a->now[k], braid_tensor_data(tensor), sizeof a->now[k]);
    braid_tensor_release(tensor);
  }
  for (int i = 0; i < ADAMCHECK_COUNT; i++) {
    long double one[3] = {was[0][i], was[1][i], was[2][i]};
    long double moved = adamcheck_update(a, (long double *[]){&one[0], &one[1], &one[2]}, gradient[i], step);
    long double bound = FLT_EPSILON * (fabsl(one[0]) / 2 + ADAMCHECK_ULPS * moved);
    if (fabsl(a->now[0][i] - one[0]) > bound)
      fail_msg("step %d, element %d: %.9g, expected %.12Lg within %.3Lg", step, i, (double)a->now[0][i], one[0], bound);
    adamcheck_update(a, (long double *[]){&a->exact[0][i], &a->exact[1][i], &a->exact[2][i]}, gradient[i], step);
  }
}

static inline void adamcheck_updates(const braid_session_options *options, bool decoupled, double beta1, double beta2,
                                     int steps) {
  adamcheck a = {.names = {"p", "m", "v"}, .rate = 0.001f, .beta1 = beta1, .beta2 = beta2, .epsilon = 1e-8};
  a.decay = 0.01;
  a.decoupled = decoupled;
  for (int i = 0; i < ADAMCHECK_COUNT; i++) {
    a.now[0][i] = braid_random_normal(ADAMCHECK_SEED, 2, 0, (uint64_t)i);
    a.exact[0][i] = a.now[0][i];
  }
  braid_graph *graph = adamcheck_graph(&a);
  braid_session *session;
  adamcheck_ok(braid_session_create(graph, options, &session));
  for (int step = 1; step <= steps; step++) adamcheck_step(&a, session, step);
  long double off1 = 0, off2 = 0; /* means with their sign: what rounds both ways cancels */
  for (int i = 0; i < ADAMCHECK_COUNT; i++) {
    off1 += (a.now[1][i] - a.exact[1][i]) / sqrtl(a.exact[2][i]) / ADAMCHECK_COUNT;
    off2 += (a.now[2][i] - a.exact[2][i]) / a.exact[2][i] / ADAMCHECK_COUNT;
  }
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  if (fabsl(off1) > 2e-7L || fabsl(off2) > 1e-6L)
    fail_msg("after %d updates the moments are off by %.2Lg and %.2Lg of what they measure", steps, off1, off2);
}

/* Both decays, with the betas that are usual, and with small ones, as for adversarial networks. */
static inline void adamcheck_run(const braid_session_options *options) {
  static const double kSmall[][2] = {{0, 0.99}, {0.25, 0.5}, {0.5, 0.25}};
  for (int decoupled = 0; decoupled < 2; decoupled++) {
    adamcheck_updates(options, decoupled, 0.9, 0.999, ADAMCHECK_STEPS);
    for (size_t i = 0; i < sizeof kSmall / sizeof *kSmall; i++)
      adamcheck_updates(options, decoupled, kSmall[i][0], kSmall[i][1], ADAMCHECK_STEPS / 20);
  }
}

#endif
