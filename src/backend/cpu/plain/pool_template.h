/* Pools, for `T`; included by pool.c once for each type. Tensors are [outer][places][inner], so that the inner
 * loop runs over channels where these lie last. */

static void NAME(average_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  const braid_window *window = &state->window;
  int64_t places = braid_window_outputs(window), from = braid_window_inputs(window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++)
    for (int64_t o = 0; o < places; o++) {
      patch p = patch_at(window, o);
      T *y = (T *)outputs[0] + (b * places + o) * inner;
      for (int64_t i = 0; i < inner; i++) y[i] = 0;
      FOR_EACH_PLACE(p) {
        const T *x = (const T *)inputs[0] + (b * from + source_of(window, &p, kd, kh, kw)) * inner;
        for (int64_t i = 0; i < inner; i++) y[i] += x[i];
      }
      T count = (T)divisor_of(state, &p);
      for (int64_t i = 0; i < inner; i++) y[i] /= count;
    }
}

static void NAME(average_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  const braid_window *window = &state->window;
  int64_t places = braid_window_outputs(window), to = braid_window_inputs(window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++) {
    T *image = (T *)outputs[0] + b * to * inner;
    memset(image, 0, (size_t)(to * inner) * sizeof(T));
    for (int64_t o = 0; o < places; o++) {
      patch p = patch_at(window, o);
      const T *dy = (const T *)inputs[0] + (b * places + o) * inner;
      T share = 1 / (T)divisor_of(state, &p);
      FOR_EACH_PLACE(p) {
        T *dx = image + source_of(window, &p, kd, kh, kw) * inner;
        for (int64_t i = 0; i < inner; i++) dx[i] += dy[i] * share;
      }
    }
  }
}

/* |x| to the power of p */
static T NAME(power)(T x, int64_t p) {
  x = MATH(fabs)(x);
  if (p == 1) return x;
  return p == 2 ? x * x : MATH(pow)(x, (T)p);
}

static void NAME(lp_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  const braid_window *window = &state->window;
  int64_t places = braid_window_outputs(window), from = braid_window_inputs(window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++)
    for (int64_t o = 0; o < places; o++) {
      patch p = patch_at(window, o);
      T *y = (T *)outputs[0] + (b * places + o) * inner;
      for (int64_t i = 0; i < inner; i++) y[i] = 0;
      FOR_EACH_PLACE(p) {
        const T *x = (const T *)inputs[0] + (b * from + source_of(window, &p, kd, kh, kw)) * inner;
        for (int64_t i = 0; i < inner; i++) y[i] += NAME(power)(x[i], state->p);
      }
      for (int64_t i = 0; i < inner && state->p > 1; i++)
        y[i] = state->p == 2 ? MATH(sqrt)(y[i]) : MATH(pow)(y[i], 1 / (T)state->p);
    }
}

/* (dy, x, y): dx = dy * sign(x) * (|x| / y)^(p - 1), 0 where y is 0 */
static void NAME(lp_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  const braid_window *window = &state->window;
  int64_t places = braid_window_outputs(window), to = braid_window_inputs(window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++) {
    T *image = (T *)outputs[0] + b * to * inner;
    memset(image, 0, (size_t)(to * inner) * sizeof(T));
    for (int64_t o = 0; o < places; o++) {
      patch p = patch_at(window, o);
      const T *dy = (const T *)inputs[0] + (b * places + o) * inner;
      const T *y = (const T *)inputs[2] + (b * places + o) * inner;
      FOR_EACH_PLACE(p) {
        int64_t at = source_of(window, &p, kd, kh, kw) * inner;
        const T *x = (const T *)inputs[1] + b * to * inner + at;
        for (int64_t i = 0; i < inner; i++)
          if (y[i] > 0 && x[i] != 0)
            image[at + i] += MATH(copysign)(NAME(power)(x[i] / y[i], state->p - 1), x[i]) * dy[i];
      }
    }
  }
}

/* (dy, window) */
static void NAME(max_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  const braid_window *window = &state->window;
  int64_t places = braid_window_outputs(window), to = braid_window_inputs(window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++) {
    T *image = (T *)outputs[0] + b * to * inner;
    memset(image, 0, (size_t)(to * inner) * sizeof(T));
    for (int64_t o = 0; o < places; o++) {
      patch p = patch_at(window, o);
      for (int64_t i = 0; i < inner; i++) {
        int64_t at = (b * places + o) * inner + i;
        int64_t k = state->small ? ((const uint8_t *)inputs[1])[at] : ((const int32_t *)inputs[1])[at];
        int64_t from = source_at(state, p.origin, k);
        if (from >= 0) image[from * inner + i] += ((const T *)inputs[0])[at];
      }
    }
  }
}

/* (dy, x): everything goes to the first of the largest */
static void NAME(global_max_backward)(const void *self, const void *const *inputs, void *const *outputs,
                                      void *scratch) {
  const pool_state *state = self;
  int64_t places = braid_window_inputs(&state->window), inner = state->view.inner;
  (void)scratch;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++)
    for (int64_t i = 0; i < inner; i++) {
      const T *x = (const T *)inputs[1] + b * places * inner + i;
      T *dx = (T *)outputs[0] + b * places * inner + i;
      int64_t best = 0;
      for (int64_t s = 0; s < places; s++) {
        if (x[s * inner] > x[best * inner] || (isnan(x[s * inner]) && !isnan(x[best * inner]))) best = s;
        dx[s * inner] = 0;
      }
      dx[best * inner] = ((const T *)inputs[0])[b * inner + i];
    }
}

/* (x, indices); indices that lie nowhere are left out. */
static void NAME(unpool_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const unpool_state *state = self;
  const int64_t *indices = inputs[1];
  (void)scratch;
  int64_t count = state->planes * state->result[0] * state->result[1] * state->result[2];
  memset(outputs[0], 0, (size_t)count * sizeof(T));
  for (int64_t i = 0; i < state->pooled; i++) {
    int64_t at = unpooled_place(state, indices[i]);
    if (at >= 0) ((T *)outputs[0])[at] = ((const T *)inputs[0])[i];
  }
}

/* (dy, indices) */
static void NAME(unpool_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const unpool_state *state = self;
  const int64_t *indices = inputs[1];
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < state->pooled; i++) {
    int64_t at = unpooled_place(state, indices[i]);
    ((T *)outputs[0])[i] = at >= 0 ? ((const T *)inputs[0])[at] : 0;
  }
}
