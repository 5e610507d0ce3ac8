/* Det and its gradient, for T. Scratch memory: the matrix, the adjugate, the cofactors, the two permutations. */
static double BRAID_REF_NAME(det_begin)(const det_state *state, const T *x, double *a, int64_t *rows) {
  for (int64_t i = 0; i < state->order * state->order; i++) a[i] = (double)x[i];
  return eliminate(a, state->order, rows, rows + state->order);
}

static void BRAID_REF_NAME(det_forward)(const void *self, const void *const *inputs, void *const *outputs,
                                        void *scratch) {
  const det_state *state = self;
  int64_t order = state->order;
  double *a = scratch;
  for (int64_t m = 0; m < state->count; m++) {
    double product = BRAID_REF_NAME(det_begin)(state, (const T *)inputs[0] + m * order * order, a,
                                               (int64_t *)(a + 3 * order * order));
    for (int64_t i = 0; i < order; i++) product *= a[i * order + i];
    ((T *)outputs[0])[m] = (T)product;
  }
}

static void BRAID_REF_NAME(det_backward)(const void *self, const void *const *inputs, void *const *outputs,
                                         void *scratch) {
  const det_state *state = self;
  int64_t order = state->order, size = order * order;
  double *a = scratch;
  int64_t *rows = (int64_t *)(a + 3 * size);
  for (int64_t m = 0; m < state->count; m++) {
    double sign = BRAID_REF_NAME(det_begin)(state, (const T *)inputs[1] + m * size, a, rows);
    double scale = sign * (double)((const T *)inputs[0])[m];
    if (order) cofactors(a, order, rows, rows + order, scale, a + size, a + 2 * size);
    for (int64_t i = 0; i < size; i++) ((T *)outputs[0])[m * size + i] = (T)a[2 * size + i];
  }
}
