/* MaxPool for `T`, integers included; included by pool.c once for each type. NaN is larger than any number. */
static void NAME(max_pixel)(const pool_state *state, const T *image, int64_t o, T *y, int32_t *place) {
  const braid_window *window = &state->window;
  int64_t inner = state->view.inner;
  patch p = patch_at(window, o);
  for (int64_t i = 0; i < inner; i++) y[i] = LOWEST;
  for (int64_t i = 0; place && i < inner; i++) place[i] = 0;
  bool first = true;
  FOR_EACH_PLACE(p) {
    const T *x = image + source_of(window, &p, kd, kh, kw) * inner;
    int32_t k = (int32_t)((kd * window->kernel[1] + kh) * window->kernel[2] + kw);
    if (!place) {
      for (int64_t i = 0; i < inner; i++) y[i] = x[i] > y[i] || IS_NAN(x[i]) ? x[i] : y[i];
      continue;
    }
    for (int64_t i = 0; i < inner; i++) {
      bool better = first || x[i] > y[i] || (IS_NAN(x[i]) && !IS_NAN(y[i]));
      y[i] = better ? x[i] : y[i];
      place[i] = better ? k : place[i];
    }
    first = false;
  }
}

static void NAME(max_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const pool_state *state = self;
  int64_t places = braid_window_outputs(&state->window), from = braid_window_inputs(&state->window);
  int64_t inner = state->view.inner;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < state->view.outer; b++)
    for (int64_t o = 0; o < places; o++) {
      int64_t at = (b * places + o) * inner;
      int32_t *place = scratch && state->places ? (int32_t *)scratch + at : NULL;
      NAME(max_pixel)(state, (const T *)inputs[0] + b * from * inner, o, (T *)outputs[0] + at, place);
      if (place) give_places(state, b, o, place, outputs);
    }
}
