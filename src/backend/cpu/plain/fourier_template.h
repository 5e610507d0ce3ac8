/* DFT, for T: line by line, the backward transform as that of conjugates. */
static void BRAID_REF_NAME(load_line)(const dft_state *s, const T *x, double *line) {
  int64_t length = s->fft.length, taken = s->mirrored ? length / 2 + 1 : length;
  if (taken > s->from) taken = s->from;
  memset(line, 0, 2 * (size_t)length * sizeof *line);
  for (int64_t i = 0; i < taken; i++, x += s->inner * s->from_parts) {
    line[2 * i] = (double)x[0];
    if (s->from_parts == 2) line[2 * i + 1] = (double)x[1];
  }
  if (s->mirrored) unfold(line, length);
  for (int64_t i = 0; s->inverse && i < length; i++) line[2 * i + 1] = -line[2 * i + 1];
}

static void BRAID_REF_NAME(store_line)(const dft_state *s, const double *line, T *y) {
  double scale = s->inverse ? 1 / (double)s->fft.length : 1;
  for (int64_t i = 0; i < s->to; i++, y += s->inner * s->to_parts) {
    y[0] = (T)(scale * line[2 * i]);
    if (s->to_parts == 2) y[1] = (T)(s->inverse ? -scale * line[2 * i + 1] : line[2 * i + 1]);
  }
}

static void BRAID_REF_NAME(dft)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const dft_state *s = self;
#pragma omp parallel for schedule(static) num_threads(s->threads)
  for (int64_t i = 0; i < s->outer * s->inner; i++) {
    double *line = (double *)scratch + (size_t)omp_get_thread_num() * thread_numbers(s);
    int64_t outer = i / s->inner, inner = i % s->inner;
    BRAID_REF_NAME(load_line)(s, (const T *)inputs[0] + (outer * s->from * s->inner + inner) * s->from_parts, line);
    braid_fft_run(&s->fft, line, line + 2 * s->fft.length);
    BRAID_REF_NAME(store_line)(s, line, (T *)outputs[0] + (outer * s->to * s->inner + inner) * s->to_parts);
  }
}
