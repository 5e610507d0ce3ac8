/* Batch normalization for `T`; included by batch_norm.c once for each type.
 *
 * Sums over a channel are taken in double, in one order for each channel: over all rows in lanes of channels if these
 * lie last, else plane by plane. */

/* out[c] = sum over channel c of (u - u_center[c]) * (v - v_center[c]); a center left out is 0, `v` left out is 1 */
static void NAME(sum_block)(const batch_state *s, const T *u, const double *u_center, const T *v,
                            const double *v_center, int64_t first, int64_t count, double *out) {
  for (int64_t i = 0; i < count; i++) out[first + i] = 0;
  for (int64_t row = 0; row < s->rows; row++) {
    const T *pu = u + row * s->channels + first, *pv = v ? v + row * s->channels + first : NULL;
    for (int64_t i = 0; i < count; i++) {
      double left = pu[i] - (u_center ? u_center[first + i] : 0);
      double right = pv ? pv[i] - (v_center ? v_center[first + i] : 0) : 1;
      out[first + i] += left * right;
    }
  }
}

static double NAME(sum_planes)(const batch_state *s, const T *u, double u_center, const T *v, double v_center,
                               int64_t c) {
  double sum = 0;
  for (int64_t b = 0; b < s->batch; b++) {
    const T *pu = u + (b * s->channels + c) * s->plane, *pv = v ? v + (b * s->channels + c) * s->plane : NULL;
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= s->plane; i += LANES)
      for (int l = 0; l < LANES; l++) lane[l] += (pu[i + l] - u_center) * (pv ? pv[i + l] - v_center : 1);
    for (int l = 0; l < LANES; l++) sum += lane[l];
    for (; i < s->plane; i++) sum += (pu[i] - u_center) * (pv ? pv[i] - v_center : 1);
  }
  return sum;
}

static void NAME(sum_channels)(const batch_state *s, const T *u, const double *u_center, const T *v,
                               const double *v_center, double *out) {
  if (s->last) {
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < s->channels; first += BLOCK) NAME(sum_block)
    (s, u, u_center, v, v_center, first, s->channels - first < BLOCK ? s->channels - first : BLOCK, out);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < s->channels; c++)
    out[c] = NAME(sum_planes)(s, u, u_center ? u_center[c] : 0, v, v_center ? v_center[c] : 0, c);
}

/* y = p * u + q * (v - center) + r with one p, q, center and r per channel; `u` left out is 0 */
static void NAME(combine)(const batch_state *s, const T *u, const T *p, const T *v, const T *q, const T *center,
                          const T *r, T *y) {
  if (s->last) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < s->rows; row++) {
      const T *pu = u ? u + row * s->channels : NULL, *pv = v + row * s->channels;
      T *py = y + row * s->channels;
      if (pu)
        for (int64_t c = 0; c < s->channels; c++) py[c] = p[c] * pu[c] + (q[c] * (pv[c] - center[c]) + r[c]);
      else
        for (int64_t c = 0; c < s->channels; c++) py[c] = q[c] * (pv[c] - center[c]) + r[c];
    }
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t bc = 0; bc < s->batch * s->channels; bc++) {
    int64_t c = bc % s->channels;
    const T *pu = u ? u + bc * s->plane : NULL, *pv = v + bc * s->plane;
    T *py = y + bc * s->plane, scale = q[c], middle = center[c], shift = r[c];
    if (pu)
      for (int64_t i = 0; i < s->plane; i++) py[i] = p[c] * pu[i] + (scale * (pv[i] - middle) + shift);
    else
      for (int64_t i = 0; i < s->plane; i++) py[i] = scale * (pv[i] - middle) + shift;
  }
}

/* Statistics of the batch, and what the running ones become. */
static void NAME(batch_statistics)(const batch_state *s, const void *const *inputs, void *const *outputs, double *mean,
                                   double *inverse) {
  const T *x = inputs[0], *old_mean = inputs[3], *old_variance = inputs[4];
  T *new_mean = outputs[1], *new_variance = outputs[2], *saved_mean = outputs[3], *saved_inverse = outputs[4];
  double keep = s->momentum, count = (double)s->rows;
  NAME(sum_channels)(s, x, NULL, NULL, NULL, mean);
  for (int64_t c = 0; c < s->channels; c++) mean[c] /= count;
  NAME(sum_channels)(s, x, mean, x, mean, inverse);
  for (int64_t c = 0; c < s->channels; c++) {
    double variance = inverse[c] / count;
    inverse[c] = 1 / sqrt(variance + s->epsilon);
    if (new_mean) new_mean[c] = (T)(old_mean[c] * keep + mean[c] * (1 - keep));
    if (new_variance) new_variance[c] = (T)(old_variance[c] * keep + variance * (1 - keep));
    if (saved_mean) saved_mean[c] = (T)mean[c];
    if (saved_inverse) saved_inverse[c] = (T)inverse[c];
  }
}

/* (x, scale, bias, mean, variance) */
static void NAME(batch_forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const batch_state *s = self;
  const T *scale = inputs[1], *bias = inputs[2];
  double *mean = scratch, *inverse = mean + s->channels;
  T *factor = (T *)(inverse + s->channels), *center = factor + s->channels;
  if (s->training) NAME(batch_statistics)(s, inputs, outputs, mean, inverse);
  for (int64_t c = 0; c < s->channels; c++) {
    if (!s->training) mean[c] = ((const T *)inputs[3])[c];
    if (!s->training) inverse[c] = 1 / sqrt(((const T *)inputs[4])[c] + s->epsilon);
    factor[c] = (T)(scale[c] * inverse[c]);
    center[c] = (T)mean[c];
  }
  NAME(combine)(s, NULL, NULL, inputs[0], factor, center, bias, outputs[0]);
  T *y = outputs[0];
#pragma omp parallel for schedule(static) if (s->relu)
  for (int64_t i = 0; i < (s->relu ? s->rows * s->channels : 0); i++) y[i] = y[i] < 0 ? 0 : y[i];
}

/* What of dy counts behind a Relu: where the normalized x, factor * (x - center) + bias, is above 0. */
static void NAME(mask)(const batch_state *s, const T *dy, const T *x, const T *factor, const T *center, const T *bias,
                       T *masked) {
  NAME(combine)(s, NULL, NULL, x, factor, center, bias, masked);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < s->rows * s->channels; i++) masked[i] = masked[i] <= 0 ? 0 : dy[i];
}

/* (dy, x, scale, mean, spread; with a Relu, bias) -> dx, dscale, dbias. With h = (x - mean) * inverse and N elements in
 * a channel: dx = scale * inverse * (dy - dbias / N - h * dscale / N), without the last two terms where the statistics
 * were given.
 */
static void NAME(batch_backward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const batch_state *s = self;
  const T *dy = inputs[0], *x = inputs[1], *scale = inputs[2], *given = inputs[3], *spread = inputs[4];
  double *mean = scratch, *dscale = mean + s->channels, *dbias = dscale + s->channels;
  T *p = (T *)(dbias + s->channels), *q = p + s->channels, *center = q + s->channels, *r = center + s->channels;
  for (int64_t c = 0; c < s->channels; c++) mean[c] = given[c];
  if (s->relu) {
    T *masked = (T *)(mean + 7 * s->channels);
    for (int64_t c = 0; c < s->channels; c++) {
      p[c] = (T)(scale[c] * (s->training ? spread[c] : 1 / sqrt(spread[c] + s->epsilon)));
      center[c] = given[c];
    }
    NAME(mask)(s, dy, x, p, center, inputs[5], masked);
    dy = masked;
  }
  if (s->training || outputs[1]) NAME(sum_channels)(s, dy, NULL, x, mean, dscale);
  if (s->training || outputs[2]) NAME(sum_channels)(s, dy, NULL, NULL, NULL, dbias);
  for (int64_t c = 0; c < s->channels; c++) {
    double inverse = s->training ? spread[c] : 1 / sqrt(spread[c] + s->epsilon), count = (double)s->rows;
    if (outputs[1]) ((T *)outputs[1])[c] = (T)(dscale[c] * inverse);
    if (outputs[2]) ((T *)outputs[2])[c] = (T)dbias[c];
    p[c] = (T)(scale[c] * inverse);
    center[c] = given[c];
    q[c] = s->training ? (T)(-scale[c] * inverse * inverse * inverse * dscale[c] / count) : 0;
    r[c] = s->training ? (T)(-scale[c] * inverse * dbias[c] / count) : 0;
  }
  if (outputs[0]) NAME(combine)(s, dy, p, x, q, center, r, outputs[0]);
}
