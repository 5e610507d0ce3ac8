/* Losses for `T`; included by loss.c once for each type. */

/* --- cross entropy and likelihood ----------------------------------------------------------------------------------
 * One bundle: up to BRAID_LINES neighbouring samples, whose elements of a class lie side by side. */
typedef struct NAME(bundle) {
  const loss_state *s;
  const T *scores, *weights; /* scores: of the bundle's first sample; weights may be NULL */
  int64_t sample, lines;     /* the first sample's number, and how many there are */
  const void *labels;
} NAME(bundle);

static T NAME(weight)(const T *weights, int64_t c) {
  return weights ? weights[c] : 1;
}

/* The sum of the classes' weights of the labels, or the number of samples: what a mean divides by. */
static double NAME(total_weight)(const loss_state *s, const void *labels, const T *weights) {
  double total = 0;
  for (int64_t i = 0; i < s->batch * s->places; i++) {
    int64_t label = label_at(s, labels, i);
    if (label >= 0) total += (double)NAME(weight)(weights, label);
  }
  return total;
}

static T NAME(sum_weights)(const loss_state *s, const T *weights) {
  double sum = 0;
  for (int64_t c = 0; c < s->classes; c++) sum += (double)NAME(weight)(weights, c);
  return (T)sum;
}

/* The losses of a bundle from each sample's largest score and log of the sum of exponentials, 0 and 0 if the scores are
 * logarithms of probabilities already. */
static void NAME(bundle_losses)(const NAME(bundle) * b, const T *most, const T *logs, T *losses) {
  const loss_state *s = b->s;
  const T kept = (T)(1 - s->smoothing), spread = (T)(s->smoothing / (double)s->classes);
  for (int64_t i = 0; i < b->lines; i++) {
    int64_t label = label_at(s, b->labels, b->sample + i);
    losses[i] = label == kIgnored ? 0 : NAN;
    if (label < 0) continue;
    const T *x = b->scores + i;
    T loss = kept * NAME(weight)(b->weights, label) * (logs[i] - (x[label * s->places] - most[i])), rest = 0;
    if (spread != 0)
      for (int64_t c = 0; c < s->classes; c++)
        rest += NAME(weight)(b->weights, c) * (logs[i] - (x[c * s->places] - most[i]));
    losses[i] = loss + spread * rest;
  }
}

static void NAME(write_log_prob)(const NAME(bundle) * b, const T *most, const T *logs, T *out) {
  const loss_state *s = b->s;
  const T *x = b->scores;
  for (int64_t c = 0; c < s->classes; c++, x += s->places, out += s->places)
    for (int64_t i = 0; i < b->lines; i++) out[i] = (x[i] - most[i]) - logs[i];
}

/* Calls `each` for every bundle, in parallel. */
static void NAME(for_bundles)(const loss_state *s, const T *scores, const void *labels, const T *weights, void *context,
                              void (*each)(const NAME(bundle) * bundle, void *context)) {
  int64_t bundles = (s->places + BRAID_LINES - 1) / BRAID_LINES;
#pragma omp parallel for collapse(2) schedule(static) if (s->batch * s->classes * s->places > 1 << 13)
  for (int64_t n = 0; n < s->batch; n++)
    for (int64_t b = 0; b < bundles; b++) {
      int64_t at = b * BRAID_LINES, lines = s->places - at < BRAID_LINES ? s->places - at : BRAID_LINES;
      NAME(bundle)
      bundle = {s, scores + n * s->classes * s->places + at, weights, n * s->places + at, lines, labels};
      each(&bundle, context);
    }
}

typedef struct NAME(forward) {
  T *losses, *log_prob; /* log_prob may be NULL */
  bool likelihood;      /* the scores are logarithms of probabilities */
} NAME(forward);

static void NAME(forward_bundle)(const NAME(bundle) * b, void *context) {
  const NAME(forward) *f = context;
  const loss_state *s = b->s;
  T most[BRAID_LINES] = {0}, logs[BRAID_LINES] = {0};
  if (!f->likelihood) {
    LINES(max)(b->scores, s->classes, s->places, b->lines, most);
    LINES(exp)(b->scores, most, s->classes, s->places, b->lines, NULL, logs);
    for (int64_t i = 0; i < b->lines; i++) logs[i] = MATH(log)(logs[i]);
  }
  NAME(bundle_losses)(b, most, logs, f->losses + b->sample);
  int64_t at = b->sample / s->places * s->classes * s->places + b->sample % s->places;
  if (f->log_prob) NAME(write_log_prob)(b, most, logs, f->log_prob + at);
}

static void NAME(class_loss)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const loss_state *s = self;
  NAME(forward)
  f = {s->reduction == REDUCE_NONE ? outputs[0] : scratch, outputs[1], s->likelihood};
  NAME(for_bundles)(s, inputs[0], inputs[1], inputs[2], &f, NAME(forward_bundle));
  if (s->reduction == REDUCE_NONE) return;
  double sum = 0;
  for (int64_t i = 0; i < s->batch * s->places; i++) sum += (double)f.losses[i];
  if (s->reduction == REDUCE_MEAN) sum /= NAME(total_weight)(s, inputs[1], inputs[2]);
  *(T *)outputs[0] = (T)sum;
}

typedef struct NAME(backward) {
  const T *dloss; /* of each sample, or one */
  T scale, total; /* what dloss is multiplied by; the sum of the weights */
  T *out;
} NAME(backward);

/* One sample of a bundle, whose exponentials are in `out` already and add up to `sum`. With p the probabilities, w the
 * weights and W their sum: (1 - s) w_label (p - onehot) + s / classes (W p - w). */
static void NAME(sample_gradient)(const NAME(bundle) * b, const NAME(backward) * g, int64_t i, T sum, T *out) {
  const loss_state *s = b->s;
  int64_t label = label_at(s, b->labels, b->sample + i);
  T dloss = g->scale * g->dloss[s->reduction == REDUCE_NONE ? b->sample + i : 0];
  if (label < 0) {
    for (int64_t c = 0; c < s->classes; c++) out[c * s->places] = label == kIgnored ? 0 : NAN;
    return;
  }
  const T kept = (T)(1 - s->smoothing) * NAME(weight)(b->weights, label);
  const T spread = (T)(s->smoothing / (double)s->classes), all = dloss * (kept + spread * g->total) / sum;
  for (int64_t c = 0; c < s->classes; c++) {
    out[c * s->places] *= all;
    if (spread != 0) out[c * s->places] -= dloss * spread * NAME(weight)(b->weights, c);
  }
  out[label * s->places] -= dloss * kept;
}

static void NAME(backward_bundle)(const NAME(bundle) * b, void *context) {
  const NAME(backward) *g = context;
  const loss_state *s = b->s;
  T most[BRAID_LINES], sums[BRAID_LINES];
  T *out = g->out + b->sample / s->places * s->classes * s->places + b->sample % s->places;
  if (s->likelihood) {
    for (int64_t c = 0; c < s->classes; c++) memset(out + c * s->places, 0, (size_t)b->lines * sizeof(T));
    for (int64_t i = 0; i < b->lines; i++) sums[i] = 1;
  } else {
    LINES(max)(b->scores, s->classes, s->places, b->lines, most);
    LINES(exp)(b->scores, most, s->classes, s->places, b->lines, out, sums);
  }
  for (int64_t i = 0; i < b->lines; i++) NAME(sample_gradient)(b, g, i, sums[i], out + i);
}

static void NAME(class_loss_grad)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const loss_state *s = self;
  const T *weights = inputs[3];
  (void)scratch;
  double scale = s->reduction == REDUCE_MEAN ? 1 / NAME(total_weight)(s, inputs[2], weights) : 1;
  NAME(backward) g = {inputs[0], (T)scale, NAME(sum_weights)(s, weights), outputs[0]};
  NAME(for_bundles)(s, inputs[1], inputs[2], weights, &g, NAME(backward_bundle));
}

/* --- squared error -------------------------------------------------------------------------------------------------
 */
/* Value minus target of element i; NaN if its sample's label is none. */
static T NAME(error)(const loss_state *s, const T *values, const void *targets, int64_t i) {
  if (!s->labelled) return values[i] - ((const T *)targets)[i];
  int64_t sample = i / (s->classes * s->places) * s->places + i % s->places, c = i / s->places % s->classes;
  int64_t label = label_at(s, targets, sample);
  return label < 0 ? (T)NAN : values[i] - (c == label);
}

static double NAME(error_scale)(const loss_state *s) {
  if (s->reduction == REDUCE_MEAN) return 1 / (double)s->count;
  return s->reduction == REDUCE_HALF ? 1 / (2 * (double)s->batch) : 1;
}

static void NAME(squared_error)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const loss_state *s = self;
  double *parts = scratch, sum = 0;
  int64_t blocks = (s->count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks > 4)
  for (int64_t b = 0; b < blocks; b++) {
    int64_t end = (b + 1) * kBlock < s->count ? (b + 1) * kBlock : s->count;
    parts[b] = 0;
    for (int64_t i = b * kBlock; i < end; i++) {
      T error = NAME(error)(s, inputs[0], inputs[1], i);
      parts[b] += (double)error * (double)error;
      if (s->reduction == REDUCE_NONE) ((T *)outputs[0])[i] = error * error;
    }
  }
  if (s->reduction == REDUCE_NONE) return;
  for (int64_t b = 0; b < blocks; b++) sum += parts[b];
  *(T *)outputs[0] = (T)(sum * NAME(error_scale)(s));
}

/* Inputs: dloss, and the two of the loss, of which the first is differentiated by. */
static void NAME(squared_error_grad)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const loss_state *s = self;
  const T *dloss = inputs[0];
  const T scale = (T)(2 * NAME(error_scale)(s));
  T *out = outputs[0];
  (void)scratch;
#pragma omp parallel for schedule(static) if (s->count > 1 << 13)
  for (int64_t i = 0; i < s->count; i++)
    out[i] = scale * dloss[s->reduction == REDUCE_NONE ? i : 0] * NAME(error)(s, inputs[1], inputs[2], i);
}
