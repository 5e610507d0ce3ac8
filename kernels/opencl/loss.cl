/* Losses over scores [batch, classes, places], with labels of type LABEL, or values and targets. LIKELIHOOD: scores are
 * logarithms of probabilities. IGNORES: samples of label `ignored` do not count; any other label that is no class gives
 * NaN. WEIGHTED: classes have weights. MEAN: over the weights of the labels; NONE: each sample by itself. */
#include "common.clh"

#define LARGER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))

#ifdef WEIGHTED
#define WEIGHT(c) weights[c]
#else
#define WEIGHT(c) 1.0f
#endif
#ifdef IGNORES
#define IS_IGNORED(label) ((long)(label) == ignored)
#else
#define IS_IGNORED(label) false
#endif
#define IS_CLASS(label) ((label) >= 0 && (label) < classes)

#ifdef LABEL
/* Losses of samples, and what they count in a mean. */
KERNEL class_loss(IN(float) scores, IN(LABEL) labels, IN(float) weights, OUT(float) losses, OUT(float) counts,
                  OUT(float) log_prob, index_t samples, index_t classes, index_t places, float kept, float spread,
                  long ignored) {
  const index_t i = get_global_id(0);
  if (i >= samples) return;
  const index_t first = i / places * classes * places + i % places;
  const LABEL label = labels[i];
  float most = 0, logarithm = 0;
#ifndef LIKELIHOOD
  most = -INFINITY;
  for (index_t c = 0; c < classes; c++) most = LARGER(scores[first + c * places], most);
  for (index_t c = 0; c < classes; c++) logarithm += exp(scores[first + c * places] - most);
  logarithm = log(logarithm);
#endif
  float loss = IS_IGNORED(label) ? 0 : NAN, count = 0;
  if (!IS_IGNORED(label) && IS_CLASS(label)) {
    float rest = 0;
    count = WEIGHT(label);
    loss = kept * count * (logarithm - (scores[first + label * places] - most));
    for (index_t c = 0; spread != 0 && c < classes; c++)
      rest += WEIGHT(c) * (logarithm - (scores[first + c * places] - most));
    loss += spread * rest;
  }
  losses[i] = loss;
#ifndef NONE
  counts[i] = count;
#endif
#ifdef LOG_PROB
  for (index_t c = 0; c < classes; c++) log_prob[first + c * places] = (scores[first + c * places] - most) - logarithm;
#endif
}

/* What the labels count. */
KERNEL label_counts(IN(LABEL) labels, IN(float) weights, OUT(float) counts, index_t samples, index_t classes,
                    long ignored) {
  const index_t i = get_global_id(0);
  if (i < samples) counts[i] = !IS_IGNORED(labels[i]) && IS_CLASS(labels[i]) ? WEIGHT(labels[i]) : 0;
}

/* With p the probabilities, w the weights and W their sum: kept w_label (p - onehot) + spread (W p - w), times scale and
 * the loss's gradient, divided, in a mean, by the sum of counts. */
KERNEL class_loss_grad(IN(float) dloss, IN(float) scores, IN(LABEL) labels, IN(float) weights, IN(float) counted,
                       OUT(float) out, index_t samples, index_t classes, index_t places, float kept, float spread,
                       long ignored) {
  const index_t i = get_global_id(0);
  if (i >= samples) return;
  const index_t first = i / places * classes * places + i % places;
  const LABEL label = labels[i];
  if (IS_IGNORED(label) || !IS_CLASS(label)) {
    for (index_t c = 0; c < classes; c++) out[first + c * places] = IS_IGNORED(label) ? 0 : NAN;
    return;
  }
#ifdef NONE
  const float flow = dloss[i];
#elif defined(MEAN)
  const float flow = dloss[0] * (1 / counted[0]);
#else
  const float flow = dloss[0];
#endif
  const float own = kept * WEIGHT(label);
#ifdef LIKELIHOOD
  for (index_t c = 0; c < classes; c++) out[first + c * places] = c == label ? -flow * own : 0;
#else
  float most = -INFINITY, sum = 0, all = 0;
  for (index_t c = 0; c < classes; c++) most = LARGER(scores[first + c * places], most);
  for (index_t c = 0; c < classes; c++) {
    sum += exp(scores[first + c * places] - most);
    all += WEIGHT(c);
  }
  const float factor = flow * (own + spread * all) / sum;
  for (index_t c = 0; c < classes; c++)
    out[first + c * places] =
        exp(scores[first + c * places] - most) * factor - flow * (spread * WEIGHT(c) + (c == label ? own : 0));
#endif
}
#endif

/* out = the sum of a * scale, divided by that of b if DIVIDED. One group, whose size is any; the order is always
 * the same. */
void add_in(float *sum, float *lost, float x) {
  const float next = *sum + x, shared = next - *sum;
  *lost += (*sum - (next - shared)) + (x - shared);
  *sum = next;
}
KERNEL sum_all(IN(float) a, IN(float) b, OUT(float) out, index_t count, float scale) {
  SHARED float parts[2][GROUP];
  const int l = get_local_id(0);
  float sum = 0, lost = 0, other = 0, other_lost = 0;
  for (index_t i = l; i < count; i += GROUP) {
    add_in(&sum, &lost, a[i]);
#ifdef DIVIDED
    add_in(&other, &other_lost, b[i]);
#endif
  }
  parts[0][l] = lost == lost ? sum + lost : sum;
  parts[1][l] = other_lost == other_lost ? other + other_lost : other;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP, left; width > 1; width = left) {
    left = (width + 1) / 2;
    if (l < width - left) {
      parts[0][l] += parts[0][l + left];
      parts[1][l] += parts[1][l + left];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l > 0) return;
#ifdef DIVIDED
  out[0] = parts[0][0] * scale / parts[1][0];
#else
  out[0] = parts[0][0] * scale;
#endif
}

/* --- squared error ----------------------------------------------------------------------------------------------------
 * Value minus target; with labels, whose one-hot vectors are meant, NaN if one is none. */
#ifdef LABEL
#define TARGET LABEL
#define ERROR(i)                                                                                                       \
  (IS_IGNORED(targets[SAMPLE(i)]) || !IS_CLASS(targets[SAMPLE(i)])                                                     \
       ? NAN                                                                                                           \
       : values[i] - ((i) / places % classes == targets[SAMPLE(i)]))
#define SAMPLE(i) ((i) / (classes * places) * places + (i) % places)
#else
#define TARGET float
#define ERROR(i) (values[i] - targets[i])
#endif

/* Each error's square, or sums of `run` of them in order. */
KERNEL squared_error(IN(float) values, IN(TARGET) targets, OUT(float) out, index_t count, index_t run, index_t classes,
                     index_t places, long ignored) {
  const index_t part = get_global_id(0), begin = part * run, end = min(begin + run, count);
  if (begin >= count) return;
  float sum = 0;
  for (index_t i = begin; i < end; i++) {
    const float error = ERROR(i);
    sum += error * error;
  }
  out[part] = sum;
}

KERNEL squared_error_grad(IN(float) dloss, IN(float) values, IN(TARGET) targets, OUT(float) out, index_t count,
                          float scale, index_t classes, index_t places, long ignored) {
  const index_t i = get_global_id(0);
  if (i >= count) return;
#ifdef NONE
  const float flow = dloss[i];
#else
  const float flow = dloss[0];
#endif
  out[i] = scale * flow * ERROR(i);
}
