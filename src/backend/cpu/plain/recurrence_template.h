/* LinearAttention for T: the state of a head, keys by values, is carried from token to token in double. */
static void BRAID_REF_NAME(linear_attention)(const void *self, const void *const *inputs, void *const *outputs,
                                             void *scratch) {
  const linear_state *s = self;
  const T *q = inputs[0], *k = inputs[1], *v = inputs[2], *past = inputs[3], *decay = inputs[4], *beta = inputs[5];
  const int64_t heads = s->kv_heads, keys = s->keys, values = s->values, size = keys * values;
#pragma omp parallel for schedule(static)
  for (int64_t head = 0; head < s->batch * heads; head++) {
    const int64_t b = head / heads, h = head % heads;
    double *state = (double *)scratch + head * (size + values), *change = state + size;
    for (int64_t i = 0; i < size; i++) state[i] = past ? (double)past[head * size + i] : 0;
    for (int64_t t = 0; t < s->tokens; t++) {
      const int64_t token = b * s->tokens + t;
      const T *key = k + (token * heads + h) * keys, *value = v + (token * heads + h) * values;
      const T *gate = s->gated ? decay + token * s->decays + (s->decays == heads ? h : h * keys) : NULL;
      const double rate = s->delta ? (double)beta[token * s->betas + (s->betas == 1 ? 0 : h)] : 1;
      for (int64_t i = 0; gate && i < keys; i++) {
        double factor = exp((double)gate[s->decays == heads ? 0 : i]);
        for (int64_t j = 0; j < values; j++) state[i * values + j] *= factor;
      }
      for (int64_t j = 0; j < values; j++) {
        double known = 0;
        for (int64_t i = 0; s->delta && i < keys; i++) known += state[i * values + j] * (double)key[i];
        change[j] = rate * ((double)value[j] - known);
      }
      for (int64_t i = 0; i < keys; i++)
        for (int64_t j = 0; j < values; j++) state[i * values + j] += (double)key[i] * change[j];
      for (int64_t g = h * s->share; g < (h + 1) * s->share; g++) {
        const T *query = q + (token * heads * s->share + g) * keys;
        T *y = (T *)outputs[0] + (token * heads * s->share + g) * values;
        for (int64_t j = 0; j < values; j++) {
          double sum = 0;
          for (int64_t i = 0; i < keys; i++) sum += (double)query[i] * state[i * values + j];
          y[j] = (T)(s->scale * sum);
        }
      }
    }
    for (int64_t i = 0; outputs[1] && i < size; i++) ((T *)outputs[1])[head * size + i] = (T)state[i];
  }
}
