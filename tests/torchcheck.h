/* Results and gradients against PyTorch, in double, where BRAID_PYTHON names a Python that has it. For tests only.
 *
 *   torchcheck t;
 *   torchcheck_open(&t);                       skips the test where there is none
 *   gradcheck g; ... build a graph ...
 *   torchcheck_case(&t, &g, &y, 1, "(F.relu(x0),)");
 *   torchcheck_close(&t);                      runs tests/oracle/torch_check.py over all cases
 *
 * The expression is Python over x0, x1 ..., the check's inputs in their order, and gives a tuple of outputs. Inputs
 * that are not differentiated by stand last. */
#ifndef BRAID_TESTS_TORCHCHECK_H
#define BRAID_TESTS_TORCHCHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gradcheck.h"
#include "skip.h"

typedef struct torchcheck {
  const char *python;
  char folder[32];
  FILE *list;
  size_t number;
} torchcheck;

static inline void torchcheck_open(torchcheck *t) {
  char text[1024];
  *t = (torchcheck){.python = getenv("BRAID_PYTHON"), .folder = "/tmp/braid-torch-XXXXXX"};
  snprintf(text, sizeof text, "'%s' -c 'import torch' 2>/dev/null", t->python ? t->python : "");
  if (!t->python || !*t->python || system(text) != 0) skip_test("peers", "BRAID_PYTHON names no Python with torch");
  assert_non_null(mkdtemp(t->folder));
  snprintf(text, sizeof text, "%s/cases.txt", t->folder);
  t->list = fopen(text, "w");
  assert_non_null(t->list);
}

static inline void torchcheck_save(const torchcheck *t, const gradcheck *g, const char *what, size_t index,
                                   const braid_tensor *tensor) {
  char path[512];
  snprintf(path, sizeof path, "%s/%zu_%s_%zu.npy", t->folder, t->number, what, index);
  gradcheck_ok(g, braid_npy_save(path, tensor));
}

/* Destroys the check. */
static inline void torchcheck_case(torchcheck *t, gradcheck *g, const braid_value_id *outputs, size_t count,
                                   const char *expression) {
  size_t inputs = g->count, wanted = 0;
  for (size_t i = 0; i < inputs; i++) {
    torchcheck_save(t, g, "input", i, g->tensors[i]);
    wanted += !g->constant[i];
  }
  gradcheck_differentiate(g, outputs, count, NULL);
  for (size_t i = 0; i < count; i++) gradcheck_ok(g, braid_graph_add_output(g->graph, outputs[i]));
  braid_graph *result = gradcheck_evaluate(g);
  for (size_t i = 0; i < count; i++) torchcheck_save(t, g, "weight", i, g->tensors[inputs + i]);
  for (size_t i = 0; i < wanted; i++) torchcheck_save(t, g, "gradient", i, gradcheck_output(g, result, 1 + i));
  for (size_t i = 0; i < count; i++) torchcheck_save(t, g, "output", i, gradcheck_output(g, result, 1 + wanted + i));
  fprintf(t->list, "%zu %zu %zu %zu %s\n", t->number++, inputs, wanted, count, expression);
  braid_graph_destroy(result);
  gradcheck_destroy(g);
}

static inline void torchcheck_close(torchcheck *t) {
  char text[1024];
  assert_int_equal(fclose(t->list), 0);
  snprintf(text, sizeof text, "'%s' '%s/../oracle/torch_check.py' '%s'", t->python, BRAID_TEST_DATA, t->folder);
  int differ = system(text);
  snprintf(text, sizeof text, "rm -r '%s'", t->folder);
  assert_int_equal(system(text), 0);
  assert_int_equal(differ, 0);
}

#endif
