/* GridSample and its gradient, for T; a sample is a weighted sum of pixels, the same for all channels. */
static void BRAID_REF_NAME(grid_forward)(const void *self, const void *const *inputs, void *const *outputs,
                                         void *scratch) {
  const grid_state *state = self;
  const T *x = inputs[0], *grid = inputs[1];
  T *y = outputs[0];
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < state->batch * state->points; i++) {
    grid_tap taps[kMostTaps];
    double place[kMostAxes];
    for (int d = 0; d < state->axes; d++) place[d] = (double)grid[i * state->axes + d];
    int count = grid_taps(state, place, taps, NULL);
    const T *plane = x + i / state->points * state->channels * state->plane;
    T *to = y + i / state->points * state->channels * state->points + i % state->points;
    for (int64_t c = 0; c < state->channels; c++, plane += state->plane) {
      double sum = 0;
      for (int k = 0; k < count; k++) sum += taps[k].weight * (double)plane[taps[k].at];
      to[c * state->points] = (T)sum;
    }
  }
}

/* Inputs: what flows in, x, the grid. */
static void BRAID_REF_NAME(grid_backward)(const void *self, const void *const *inputs, void *const *outputs,
                                          void *scratch) {
  const grid_state *state = self;
  const T *dy = inputs[0], *x = inputs[1], *grid = inputs[2];
  T *dx = outputs[0], *dgrid = outputs[1];
  (void)scratch;
  if (dx) memset(dx, 0, (size_t)(state->batch * state->channels * state->plane) * sizeof *dx);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < state->batch; n++) {
    for (int64_t p = 0; p < state->points; p++) {
      grid_tap taps[kMostTaps];
      double place[kMostAxes], slope[kMostAxes] = {0}, scale[kMostAxes];
      int64_t i = n * state->points + p, first = n * state->channels;
      for (int d = 0; d < state->axes; d++) place[d] = (double)grid[i * state->axes + d];
      int count = grid_taps(state, place, taps, scale);
      for (int64_t c = first; c < first + state->channels; c++) {
        double flow = (double)dy[c * state->points + p];
        for (int k = 0; k < count; k++) {
          int64_t at = c * state->plane + taps[k].at;
          if (dx) dx[at] += (T)(flow * taps[k].weight);
          for (int d = 0; d < state->axes; d++) slope[d] += flow * (double)x[at] * taps[k].slope[d];
        }
      }
      for (int d = 0; dgrid && d < state->axes; d++) dgrid[i * state->axes + d] = (T)(slope[d] * scale[d]);
    }
  }
}
