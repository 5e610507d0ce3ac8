/* Included by ref_softmax.c once for each type T; NAME(stem) names the functions, MATH(function) the C library's. */

static void NAME(softmax)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axis_state *s = self;
  const T *x = inputs[0];
  T *y = outputs[0];
  (void)scratch;
#pragma omp parallel for collapse(2)
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->size * s->inner + i, step = s->inner;
      T most = x[base], sum = 0;
      for (int64_t k = 1; k < s->size; k++) most = x[base + k * step] > most ? x[base + k * step] : most;
      for (int64_t k = 0; k < s->size; k++) sum += y[base + k * step] = MATH(exp)(x[base + k * step] - most);
      for (int64_t k = 0; k < s->size; k++) y[base + k * step] /= sum;
    }
}

static void NAME(log_softmax)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axis_state *s = self;
  const T *x = inputs[0];
  T *y = outputs[0];
  (void)scratch;
#pragma omp parallel for collapse(2)
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->size * s->inner + i, step = s->inner;
      T most = x[base], sum = 0;
      for (int64_t k = 1; k < s->size; k++) most = x[base + k * step] > most ? x[base + k * step] : most;
      for (int64_t k = 0; k < s->size; k++) sum += MATH(exp)(x[base + k * step] - most);
      sum = MATH(log)(sum);
      for (int64_t k = 0; k < s->size; k++) y[base + k * step] = x[base + k * step] - most - sum;
    }
}

/* One at the first of the largest, else zero. */
static void NAME(hardmax)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axis_state *s = self;
  const T *x = inputs[0];
  T *y = outputs[0];
  (void)scratch;
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->size * s->inner + i, step = s->inner;
      int64_t most = 0;
      for (int64_t k = 1; k < s->size; k++)
        if (x[base + k * step] > x[base + most * step]) most = k;
      for (int64_t k = 0; k < s->size; k++) y[base + k * step] = k == most;
    }
}

/* Inputs: y, dy. dx = y * (dy - sum(y * dy)). */
static void NAME(softmax_grad)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axis_state *s = self;
  const T *y = inputs[0], *dy = inputs[1];
  T *dx = outputs[0];
  (void)scratch;
#pragma omp parallel for collapse(2)
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->size * s->inner + i, step = s->inner;
      T sum = 0;
      for (int64_t k = 0; k < s->size; k++) sum += y[base + k * step] * dy[base + k * step];
      for (int64_t k = 0; k < s->size; k++) dx[base + k * step] = y[base + k * step] * (dy[base + k * step] - sum);
    }
}

/* Inputs: y, dy. dx = dy - exp(y) * sum(dy). */
static void NAME(log_softmax_grad)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axis_state *s = self;
  const T *y = inputs[0], *dy = inputs[1];
  T *dx = outputs[0];
  (void)scratch;
#pragma omp parallel for collapse(2)
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t i = 0; i < s->inner; i++) {
      const int64_t base = o * s->size * s->inner + i, step = s->inner;
      T sum = 0;
      for (int64_t k = 0; k < s->size; k++) sum += dy[base + k * step];
      for (int64_t k = 0; k < s->size; k++)
        dx[base + k * step] = dy[base + k * step] - MATH(exp)(y[base + k * step]) * sum;
    }
}
