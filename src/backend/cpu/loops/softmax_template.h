/* Included by softmax.c once for each type T. All functions work on `lines` lines at once, see lines.h; `first` is
 * the place of the first line's first element. */

static void NAME(softmax_lines)(const axis_state *s, const T *const *inputs, T *out, int64_t first, int64_t lines) {
  const T *x = inputs[0] + first;
  T most[BRAID_LINES], sums[BRAID_LINES], *y = out + first;
  LINES(max)(x, s->size, s->inner, lines, most);
  LINES(exp)(x, most, s->size, s->inner, lines, y, sums);
  if (s->inner == 1) {
    for (int64_t k = 0; k < s->size; k++) y[k] /= sums[0];
    return;
  }
  for (int64_t k = 0; k < s->size; k++, y += s->inner)
    for (int64_t i = 0; i < lines; i++) y[i] /= sums[i];
}

static void NAME(log_softmax_lines)(const axis_state *s, const T *const *inputs, T *out, int64_t first, int64_t lines) {
  const T *x = inputs[0] + first;
  T most[BRAID_LINES], sums[BRAID_LINES], *y = out + first;
  LINES(max)(x, s->size, s->inner, lines, most);
  LINES(exp)(x, most, s->size, s->inner, lines, NULL, sums);
  for (int64_t i = 0; i < lines; i++) sums[i] = MATH(log)(sums[i]);
  if (s->inner == 1) {
    for (int64_t k = 0; k < s->size; k++) y[k] = (x[k] - most[0]) - sums[0];
    return;
  }
  for (int64_t k = 0; k < s->size; k++, y += s->inner, x += s->inner)
    for (int64_t i = 0; i < lines; i++) y[i] = (x[i] - most[i]) - sums[i];
}

/* One at the first of the largest, else zero. */
static void NAME(hardmax_lines)(const axis_state *s, const T *const *inputs, T *out, int64_t first, int64_t lines) {
  for (int64_t i = first; i < first + lines; i++) {
    const T *x = inputs[0] + i;
    int64_t most = 0;
    for (int64_t k = 1; k < s->size; k++)
      if (x[k * s->inner] > x[most * s->inner]) most = k;
    for (int64_t k = 0; k < s->size; k++) out[i + k * s->inner] = k == most;
  }
}

/* Inputs: y, dy. dx = y * (dy - sum(y * dy)). */
static void NAME(softmax_grad_lines)(const axis_state *s, const T *const *inputs, T *out, int64_t first,
                                     int64_t lines) {
  const T *y = inputs[0] + first, *dy = inputs[1] + first;
  T sums[BRAID_LINES], *dx = out + first;
  LINES(dot)(y, dy, s->size, s->inner, lines, sums);
  if (s->inner == 1) {
    for (int64_t k = 0; k < s->size; k++) dx[k] = y[k] * (dy[k] - sums[0]);
    return;
  }
  for (int64_t k = 0; k < s->size; k++, y += s->inner, dy += s->inner, dx += s->inner)
    for (int64_t i = 0; i < lines; i++) dx[i] = y[i] * (dy[i] - sums[i]);
}

/* Inputs: y, dy. dx = dy - exp(y) * sum(dy). */
static void NAME(log_softmax_grad_lines)(const axis_state *s, const T *const *inputs, T *out, int64_t first,
                                         int64_t lines) {
  const T *y = inputs[0] + first, *dy = inputs[1] + first;
  T sums[BRAID_LINES], unused[BRAID_LINES], zeros[BRAID_LINES] = {0}, *dx = out + first;
  LINES(dot)(dy, NULL, s->size, s->inner, lines, sums);
  LINES(exp)(y, zeros, s->size, s->inner, lines, dx, unused);
  if (s->inner == 1) {
    for (int64_t k = 0; k < s->size; k++) dx[k] = dy[k] - dx[k] * sums[0];
    return;
  }
  for (int64_t k = 0; k < s->size; k++, dy += s->inner, dx += s->inner)
    for (int64_t i = 0; i < lines; i++) dx[i] = dy[i] - dx[i] * sums[i];
}

/* All lines, in bundles: BRAID_LINES neighbours, or one if their elements are neighbours themselves. */
static void NAME(for_bundles)(const axis_state *s, const void *const *inputs, T *out,
                              void (*lines)(const axis_state *, const T *const *, T *, int64_t, int64_t)) {
  const T *operands[2] = {inputs[0], inputs[1]};
  int64_t bundles = (s->inner + BRAID_LINES - 1) / BRAID_LINES;
#pragma omp parallel for collapse(2) schedule(static) if (s->outer * s->size * s->inner > 1 << 13)
  for (int64_t o = 0; o < s->outer; o++)
    for (int64_t b = 0; b < bundles; b++) {
      int64_t at = b * BRAID_LINES, count = s->inner - at < BRAID_LINES ? s->inner - at : BRAID_LINES;
      lines(s, operands, out, o * s->size * s->inner + at, count);
    }
}

#define DEFINE(stem)                                                                                                   \
  static void NAME(stem)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {           \
    (void)scratch;                                                                                                     \
    NAME(for_bundles)(self, inputs, outputs[0], NAME(stem##_lines));                                                   \
  }
DEFINE(softmax)
DEFINE(log_softmax)
DEFINE(hardmax)
DEFINE(softmax_grad)
DEFINE(log_softmax_grad)
#undef DEFINE
