/* Normalizations other than batch normalization, for `T`; included by norm.c once for each type. Tensors are PLAIN.
 * Sums are taken in double, each by one thread in one order. */

/* Sum over `count` elements of (u - u_center) * (v - v_center); `v` left out is 1. */
static double NAME(sum)(const T *u, double u_center, const T *v, double v_center, int64_t count) {
  double lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += (u[i + l] - u_center) * (v ? v[i + l] - v_center : 1);
  for (int l = 0; l < LANES; l++) sum += lane[l];
  for (; i < count; i++) sum += (u[i] - u_center) * (v ? v[i] - v_center : 1);
  return sum;
}

/* --- rows: InstanceNormalization, GroupNormalization, LayerNormalization, RMSNormalization -------------------------
 */
static void NAME(row_statistics)(const row_state *s, const T *x, double *mean, double *inverse) {
  double count = (double)s->length;
  *mean = s->centered ? NAME(sum)(x, 0, NULL, 0, s->length) / count : 0;
  *inverse = 1 / sqrt(NAME(sum)(x, *mean, x, *mean, s->length) / count + s->epsilon);
}

/* (x, scale, bias) -> y, mean, inverse */
static void NAME(row_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const row_state *s = self;
  const T *scale = inputs[1], *bias = inputs[2];
  T *means = outputs[1], *inverses = outputs[2];
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < s->rows; row++) {
    const T *x = (const T *)inputs[0] + row * s->length;
    T *y = (T *)outputs[0] + row * s->length;
    double mean, inverse;
    NAME(row_statistics)(s, x, &mean, &inverse);
    if (means) means[row] = (T)mean;
    if (inverses) inverses[row] = (T)inverse;
    T center = (T)mean, factor = (T)inverse;
    int64_t first = row % s->period * s->chunks;
    const T *own = scale + first, *add = bias ? bias + first : NULL;
    if (s->chunk == 1) {
      for (int64_t i = 0; i < s->length; i++) y[i] = (x[i] - center) * factor * own[i] + (add ? add[i] : 0);
      continue;
    }
    for (int64_t k = 0; k < s->chunks; k++) {
      T slope = factor * own[k], shift = add ? add[k] : 0;
      for (int64_t i = k * s->chunk; i < (k + 1) * s->chunk; i++) y[i] = (x[i] - center) * slope + shift;
    }
  }
}

/* One row of dx: inverse * (g - mean(g) - h * mean(g * h)) with g = dy * scale, h = (x - mean) * inverse. */
static void NAME(row_backward_x)(const row_state *s, int64_t row, const T *dy, const T *x, const T *scale, double mean,
                                 double inverse, T *dx) {
  double sum = 0, dot = 0, count = (double)s->length;
  const T *own = scale + row % s->period * s->chunks;
  for (int64_t k = 0; k < s->chunks; k++)
    for (int64_t i = k * s->chunk; i < (k + 1) * s->chunk; i++) {
      double g = (double)dy[i] * own[k];
      sum += g;
      dot += g * (x[i] - mean);
    }
  T shift = (T)(s->centered ? sum / count : 0), slope = (T)(dot * inverse * inverse / count);
  T center = (T)mean, factor = (T)inverse;
  for (int64_t k = 0; k < s->chunks; k++)
    for (int64_t i = k * s->chunk; i < (k + 1) * s->chunk; i++)
      dx[i] = factor * (dy[i] * own[k] - shift - (x[i] - center) * slope);
}

/* Sums over the rows for scale and bias elements [first, last). */
static void NAME(row_backward_scale)(const row_state *s, const T *dy, const T *x, const double *statistics,
                                     int64_t first, int64_t last, T *dscale, T *dbias) {
  double scales[BLOCK] = {0}, biases[BLOCK] = {0};
  for (int64_t row = first / s->chunks; row < s->rows; row += s->period) {
    double mean = statistics[2 * row], inverse = statistics[2 * row + 1];
    const T *pdy = dy + row * s->length + first % s->chunks * s->chunk, *px = x + (pdy - dy);
    for (int64_t c = 0; c < last - first && s->chunk == 1; c++) {
      scales[c] += pdy[c] * (px[c] - mean) * inverse;
      biases[c] += pdy[c];
    }
    for (int64_t c = 0; c < last - first && s->chunk > 1; c++) {
      scales[c] += NAME(sum)(pdy + c * s->chunk, 0, px + c * s->chunk, mean, s->chunk) * inverse;
      biases[c] += NAME(sum)(pdy + c * s->chunk, 0, NULL, 0, s->chunk);
    }
  }
  for (int64_t c = first; c < last; c++) {
    if (dscale) dscale[c] = (T)scales[c - first];
    if (dbias) dbias[c] = (T)biases[c - first];
  }
}

/* (dy, x, scale) -> dx, dscale, dbias */
static void NAME(row_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const row_state *s = self;
  const T *dy = inputs[0], *x = inputs[1], *scale = inputs[2];
  double *statistics = scratch; /* mean and inverse of each row */
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < s->rows; row++) {
    int64_t at = row * s->length;
    double *own = statistics + 2 * row;
    NAME(row_statistics)(s, x + at, &own[0], &own[1]);
    if (outputs[0]) NAME(row_backward_x)(s, row, dy + at, x + at, scale, own[0], own[1], (T *)outputs[0] + at);
  }
  if (!outputs[1] && !outputs[2]) return;
  int64_t blocks = (s->chunks + BLOCK - 1) / BLOCK; /* a block belongs to the same rows */
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < s->period * blocks; i++) {
    int64_t first = i / blocks * s->chunks + i % blocks * BLOCK, last = (i / blocks + 1) * s->chunks;
    NAME(row_backward_scale)
    (s, dy, x, statistics, first, last - first < BLOCK ? last : first + BLOCK, outputs[1], outputs[2]);
  }
}

/* --- any axes: LpNormalization, MeanVarianceNormalization ----------------------------------------------------------
 */
/* y = (x - center) * factor; of one reduced set that begins at `x`. */
static void NAME(set_statistics)(const axes_state *s, const T *x, double *center, double *factor) {
  double sum = 0, square = 0;
  *center = 0;
  if (s->kind == AXES_MEAN_VARIANCE) {
    FOR_EACH_OF_SET(s, at) sum += x[at];
    *center = sum / (double)s->set_count;
    FOR_EACH_OF_SET(s, at) square += (x[at] - *center) * (x[at] - *center);
    *factor = 1 / (sqrt(square / (double)s->set_count) + kDeviationFloor);
    return;
  }
  FOR_EACH_OF_SET(s, at) sum += s->kind == AXES_L1 ? fabs((double)x[at]) : (double)x[at] * x[at];
  double norm = s->kind == AXES_L1 ? sum : sqrt(sum);
  *factor = norm > 0 ? 1 / norm : norm; /* nothing but zeros stays so; NaN spreads */
}

static void NAME(axes_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axes_state *s = self;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t set = 0; set < s->sets; set++) {
    int64_t first = first_of_set(s, set);
    const T *x = (const T *)inputs[0] + first;
    T *y = (T *)outputs[0] + first;
    double center, factor;
    NAME(set_statistics)(s, x, &center, &factor);
    FOR_EACH_OF_SET(s, at) y[at] = (T)((x[at] - center) * factor);
  }
}

/* (dy, x). With y the forward result: L1 and L2: dx = factor * (dy - y' * sum(dy * y)), y' = sign(x) or y. Mean and
 * variance: dx = factor * (dy - mean(dy) - y * mean(dy * y) * ratio), ratio = what the floor adds to the deviation. */
static void NAME(axes_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const axes_state *s = self;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t set = 0; set < s->sets; set++) {
    int64_t first = first_of_set(s, set);
    const T *dy = (const T *)inputs[0] + first, *x = (const T *)inputs[1] + first;
    T *dx = (T *)outputs[0] + first;
    double center, factor, sum = 0, dot = 0, count = (double)s->set_count;
    NAME(set_statistics)(s, x, &center, &factor);
    FOR_EACH_OF_SET(s, at) sum += dy[at];
    FOR_EACH_OF_SET(s, at) dot += dy[at] * (x[at] - center) * factor;
    if (s->kind == AXES_MEAN_VARIANCE) {
      double deviation = 1 / factor - kDeviationFloor, slope = deviation > 0 ? dot / count / factor / deviation : 0;
      FOR_EACH_OF_SET(s, at) dx[at] = (T)(factor * (dy[at] - sum / count - (x[at] - center) * factor * slope));
      continue;
    }
    FOR_EACH_OF_SET(s, at) {
      double direction = s->kind == AXES_L2 ? x[at] * factor : (x[at] > 0) - (x[at] < 0);
      dx[at] = (T)(factor * (dy[at] - direction * dot));
    }
  }
}

/* --- LRN -----------------------------------------------------------------------------------------------------------
 */
/* sums[i] = sum over the channels [first, last) of plane element i, squared or as it is */
static void NAME(sum_window)(const T *x, int64_t plane, int64_t first, int64_t last, bool squared, T *sums) {
  memset(sums, 0, (size_t)plane * sizeof(T));
  for (int64_t c = first; c < last; c++)
    for (int64_t i = 0; i < plane; i++) sums[i] += squared ? x[c * plane + i] * x[c * plane + i] : x[c * plane + i];
}

/* y = x * (bias + alpha / size * sum of squares over the window)^-beta */
static void NAME(lrn_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const lrn_state *s = self;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t bc = 0; bc < s->batch * s->channels; bc++) {
    int64_t c = bc % s->channels, first, last;
    const T *image = (const T *)inputs[0] + (bc - c) * s->plane, *x = image + c * s->plane;
    T *y = (T *)outputs[0] + bc * s->plane;
    lrn_window(s, c, false, &first, &last);
    NAME(sum_window)(image, s->plane, first, last, true, y);
    for (int64_t i = 0; i < s->plane; i++)
      y[i] = x[i] * MATH(pow)((T)s->bias + (T)(s->alpha / s->size) * y[i], (T)-s->beta);
  }
}

/* (dy, x). With k the base of the power: dx = dy * k^-beta - 2 alpha beta / size * x * sum over the windows that see x
 * of dy * x * k^(-beta - 1). Scratch: those terms, and dy * k^-beta goes to dx first. */
static void NAME(lrn_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const lrn_state *s = self;
  const T *dy = inputs[0], *x = inputs[1];
  T *terms = scratch, *sums = terms + s->batch * s->channels * s->plane, *dx = outputs[0];
#pragma omp parallel for schedule(static)
  for (int64_t bc = 0; bc < s->batch * s->channels; bc++) {
    int64_t c = bc % s->channels, first, last, at = bc * s->plane;
    lrn_window(s, c, false, &first, &last);
    NAME(sum_window)(x + (bc - c) * s->plane, s->plane, first, last, true, sums + at);
    for (int64_t i = at; i < at + s->plane; i++) {
      T base = (T)s->bias + (T)(s->alpha / s->size) * sums[i], power = MATH(pow)(base, (T)-s->beta);
      dx[i] = dy[i] * power;
      terms[i] = dy[i] * x[i] * power / base;
    }
  }
#pragma omp parallel for schedule(static)
  for (int64_t bc = 0; bc < s->batch * s->channels; bc++) {
    int64_t c = bc % s->channels, first, last, at = bc * s->plane;
    lrn_window(s, c, true, &first, &last);
    NAME(sum_window)(terms + (bc - c) * s->plane, s->plane, first, last, false, sums + at);
    for (int64_t i = at; i < at + s->plane; i++) dx[i] -= (T)(2 * s->alpha * s->beta / s->size) * x[i] * sums[i];
  }
}
