/* Convolutions, for `T`; included by conv.c once for each type. Tensors are PLAIN.
 *
 * Every sum is taken in one fixed order by one thread, so results do not depend on the number of threads. */

/* y[o] += w * x[o * stride], o < count */
static void NAME(add_scaled)(T *restrict y, const T *restrict x, T w, int64_t count, int64_t stride) {
  if (stride == 1)
    for (int64_t o = 0; o < count; o++) y[o] += w * x[o];
  else
    for (int64_t o = 0; o < count; o++) y[o] += w * x[o * stride];
}

/* x[o * stride] += w * y[o], o < count */
static void NAME(scatter_scaled)(T *restrict x, const T *restrict y, T w, int64_t count, int64_t stride) {
  if (stride == 1)
    for (int64_t o = 0; o < count; o++) x[o] += w * y[o];
  else
    for (int64_t o = 0; o < count; o++) x[o * stride] += w * y[o];
}

/* Sum of x[o * stride] * y[o] in a fixed number of lanes. */
static double NAME(dot)(const T *restrict x, const T *restrict y, int64_t count, int64_t stride) {
  T lane[LANES] = {0};
  int64_t o = 0;
  if (stride == 1)
    for (; o + LANES <= count; o += LANES)
      for (int l = 0; l < LANES; l++) lane[l] += x[o + l] * y[o + l];
  double sum = 0;
  for (int l = 0; l < LANES; l++) sum += lane[l];
  for (; o < count; o++) sum += (double)x[o * stride] * y[o];
  return sum;
}

static double NAME(total)(const T *x, int64_t count) {
  T lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
  double sum = 0;
  for (int l = 0; l < LANES; l++) sum += lane[l];
  for (; i < count; i++) sum += x[i];
  return sum;
}

/* One row of one output channel: all kernel places and input channels. */
static void NAME(forward_row)(const braid_convolution *conv, const T *x, const T *w, int64_t d, int64_t h, T *y) {
  const braid_window *window = &conv->window;
  int64_t channels = conv->inputs / conv->groups, plane = braid_window_inputs(window);
  int64_t volume = braid_window_volume(window);
  const int64_t *size = window->input, *kernel = window->kernel;
  for (int64_t kw = 0; kw < kernel[2]; kw++) {
    span across = span_of(window, 2, kw);
    if (across.first == across.last) continue;
    for (int64_t c = 0; c < channels; c++)
      for (int64_t kd = 0; kd < kernel[0]; kd++)
        for (int64_t kh = 0; kh < kernel[1]; kh++) {
          int64_t id = place_of(window, 0, d, kd), ih = place_of(window, 1, h, kh);
          if (id < 0 || id >= size[0] || ih < 0 || ih >= size[1]) continue;
          const T *row = x + c * plane + (id * size[1] + ih) * size[2] + across.first * window->stride[2] + across.at;
          NAME(add_scaled)
          (y + across.first, row, w[c * volume + (kd * kernel[1] + kh) * kernel[2] + kw], across.last - across.first,
           window->stride[2]);
        }
  }
}

static void NAME(activate)(const conv_state *state, T *y, int64_t count) {
  T a = (T)state->params[0], b = (T)state->params[1];
  switch (state->activation) {
  case ACTIVATION_NONE:
    break;
  case ACTIVATION_RELU:
    for (int64_t i = 0; i < count; i++) y[i] = y[i] < 0 ? 0 : y[i];
    break;
  case ACTIVATION_LEAKY_RELU:
    for (int64_t i = 0; i < count; i++) y[i] = y[i] < 0 ? a * y[i] : y[i];
    break;
  case ACTIVATION_CLIP:
    for (int64_t i = 0; i < count; i++) y[i] = y[i] < a ? a : y[i];
    for (int64_t i = 0; i < count; i++) y[i] = y[i] > b ? b : y[i];
    break;
  case ACTIVATION_SIGMOID:
    for (int64_t i = 0; i < count; i++) y[i] = 1 / (1 + MATH(exp)(-y[i]));
    break;
  case ACTIVATION_TANH:
    for (int64_t i = 0; i < count; i++) y[i] = MATH(tanh)(y[i]);
    break;
  case ACTIVATION_HARD_SIGMOID:
    for (int64_t i = 0; i < count; i++) {
      T v = a * y[i] + b;
      y[i] = v < 0 ? 0 : v > 1 ? 1 : v;
    }
    break;
  case ACTIVATION_SWISH:
    for (int64_t i = 0; i < count; i++) y[i] /= 1 + MATH(exp)(-a * y[i]);
    break;
  case ACTIVATION_GELU:
    for (int64_t i = 0; i < count; i++) y[i] *= (T)0.5 * MATH(erfc)(-y[i] * (T)0.70710678118654752);
    break;
  case ACTIVATION_HARD_SWISH:
    for (int64_t i = 0; i < count; i++) y[i] *= MATH(fmax)(0, MATH(fmin)(1, y[i] / 6 + (T)0.5));
    break;
  }
}

/* Inputs: x, w, bias, what is added before the activation. */
static void NAME(forward)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const conv_state *state = self;
  const braid_convolution *conv = &state->conv;
  const braid_window *window = &conv->window;
  const T *x = inputs[0], *w = inputs[1], *bias = inputs[2], *added = inputs[3];
  int64_t channels = conv->inputs / conv->groups, per_group = conv->outputs / conv->groups;
  int64_t rows = window->output[0] * window->output[1], width = window->output[2];
  (void)scratch;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t bo = 0; bo < conv->batch * conv->outputs; bo++)
    for (int64_t row = 0; row < rows; row++) {
      int64_t o = bo % conv->outputs, b = bo / conv->outputs;
      const T *image = x + (b * conv->inputs + o / per_group * channels) * braid_window_inputs(window);
      T *y = (T *)outputs[0] + (bo * rows + row) * width;
      for (int64_t i = 0; i < width; i++) y[i] = bias ? bias[o] : 0;
      NAME(forward_row)
      (conv, image, w + o * channels * braid_window_volume(window), row / window->output[1], row % window->output[1],
       y);
      for (int64_t i = 0; added && i < width; i++) y[i] += added[(bo * rows + row) * width + i];
      NAME(activate)(state, y, width);
    }
}

/* Adds what one output channel sends back to one input channel. */
static void NAME(backward_plane)(const braid_window *window, const T *dy, const T *w, T *dx) {
  const int64_t *size = window->input, *out = window->output, *kernel = window->kernel;
  for (int64_t kw = 0; kw < kernel[2]; kw++) {
    span across = span_of(window, 2, kw);
    if (across.first == across.last) continue;
    for (int64_t kd = 0; kd < kernel[0]; kd++)
      for (int64_t kh = 0; kh < kernel[1]; kh++) {
        span deep = span_of(window, 0, kd), down = span_of(window, 1, kh);
        T weight = w[(kd * kernel[1] + kh) * kernel[2] + kw];
        for (int64_t d = deep.first; d < deep.last; d++)
          for (int64_t h = down.first; h < down.last; h++) {
            int64_t id = d * window->stride[0] + deep.at, ih = h * window->stride[1] + down.at;
            T *row = dx + (id * size[1] + ih) * size[2] + across.first * window->stride[2] + across.at;
            NAME(scatter_scaled)
            (row, dy + (d * out[1] + h) * out[2] + across.first, weight, across.last - across.first, window->stride[2]);
          }
      }
  }
}

/* ConvGradInput(dy, w), and ConvTranspose(x, w, bias), which is the same with a bias. */
static void NAME(backward_input)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const conv_state *state = self;
  const braid_convolution *conv = &state->conv;
  const braid_window *window = &conv->window;
  const T *dy = inputs[0], *w = inputs[1], *bias = inputs[2];
  int64_t channels = conv->inputs / conv->groups, per_group = conv->outputs / conv->groups;
  int64_t plane = braid_window_inputs(window), volume = braid_window_volume(window);
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t bi = 0; bi < conv->batch * conv->inputs; bi++) {
    int64_t i = bi % conv->inputs, b = bi / conv->inputs, group = i / channels;
    T *dx = (T *)outputs[0] + bi * plane;
    for (int64_t s = 0; s < plane; s++) dx[s] = bias ? bias[i] : 0;
    for (int64_t o = group * per_group; o < (group + 1) * per_group; o++) NAME(backward_plane)
    (window, dy + (b * conv->outputs + o) * braid_window_outputs(window), w + (o * channels + i % channels) * volume,
     dx);
  }
}

/* One weight: sums over the batch and all places of the output. */
static double NAME(filter_weight)(const braid_convolution *conv, const T *x, const T *dy, const int64_t *k) {
  const braid_window *window = &conv->window;
  const int64_t *size = window->input, *out = window->output;
  int64_t image = conv->inputs * braid_window_inputs(window), result = conv->outputs * braid_window_outputs(window);
  span deep = span_of(window, 0, k[0]), down = span_of(window, 1, k[1]), across = span_of(window, 2, k[2]);
  double sum = 0;
  if (across.first == across.last) return 0;
  for (int64_t b = 0; b < conv->batch; b++)
    for (int64_t d = deep.first; d < deep.last; d++)
      for (int64_t h = down.first; h < down.last; h++) {
        int64_t id = d * window->stride[0] + deep.at, ih = h * window->stride[1] + down.at;
        const T *row = x + b * image + (id * size[1] + ih) * size[2] + across.first * window->stride[2] + across.at;
        sum += NAME(dot)(row, dy + b * result + (d * out[1] + h) * out[2] + across.first, across.last - across.first,
                         window->stride[2]);
      }
  return sum;
}

/* ConvGradFilter(x, dy) */
static void NAME(backward_filter)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const conv_state *state = self;
  const braid_convolution *conv = &state->conv;
  const braid_window *window = &conv->window;
  int64_t channels = conv->inputs / conv->groups, per_group = conv->outputs / conv->groups;
  int64_t volume = braid_window_volume(window);
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t oi = 0; oi < conv->outputs * channels; oi++) {
    int64_t o = oi / channels, i = o / per_group * channels + oi % channels;
    const T *x = (const T *)inputs[0] + i * braid_window_inputs(window);
    const T *dy = (const T *)inputs[1] + o * braid_window_outputs(window);
    for (int64_t k = 0; k < volume; k++) {
      int64_t across = window->kernel[2], slab = across * window->kernel[1];
      int64_t at[BRAID_WINDOW_RANK] = {k / slab, k / across % window->kernel[1], k % across};
      ((T *)outputs[0])[oi * volume + k] = (T)NAME(filter_weight)(conv, x, dy, at);
    }
  }
}

/* BiasGrad(dy) */
static void NAME(backward_bias)(const void *self, const void *const *inputs, void *const *outputs, void *scratch) {
  const bias_state *state = self;
  const T *dy = inputs[0];
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < state->channels; c++) {
    double sum = 0;
    for (int64_t b = 0; b < state->batch; b++)
      sum += NAME(total)(dy + (b * state->channels + c) * state->plane, state->plane);
    ((T *)outputs[0])[c] = (T)sum;
  }
}
