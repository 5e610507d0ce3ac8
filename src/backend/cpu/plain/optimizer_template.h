/* Optimizer steps for parameters of type T, computed in C; included by optimizer.c once for each type. LOAD and
 * STORE convert between the two. Outputs may be the inputs that they replace. */

#define EACH _Pragma("omp parallel for simd schedule(static) if (parallel : count > 1 << 14)")

static void NAME(sgd)(const step *s, int64_t count, const T *p, const T *g, const T *m, T *p_out, T *m_out) {
  const C rate = (C)s->rate, momentum = (C)s->momentum, decay = (C)s->decay;
  if (!m_out) {
    EACH for (int64_t i = 0; i < count; i++) {
      C value = LOAD(p[i]);
      p_out[i] = STORE(value - rate * (LOAD(g[i]) + decay * value));
    }
    return;
  }
  const C from_gradient = s->nesterov ? 1 : 0, from_kept = s->nesterov ? momentum : 1;
  EACH for (int64_t i = 0; i < count; i++) {
    C value = LOAD(p[i]), gradient = LOAD(g[i]) + decay * value, kept = momentum * LOAD(m[i]) + gradient;
    m_out[i] = STORE(kept);
    p_out[i] = STORE(value - rate * (from_gradient * gradient + from_kept * kept));
  }
}

/* The moment `old` with `now` in it, which has weight `rest`: by a part of the distance between the two, so that a mean
 * of what does not change is that value. Written as beta * old + (1 - beta) * now with both factors rounded to float,
 * factors that no longer sum to 1, it settles beside it (the second moment by 1.3e-5 for beta2 = 0.999). It starts from
 * the one with the larger weight: digits of the other may be lost in the distance. */
#define MEAN(old, now, rest)                                                                                           \
  ((rest) <= (C)0.5 ? (old) + (rest) * ((now) - (old)) : (now) + (1 - (rest)) * ((old) - (now)))

/* So is the decay of AdamW a part that is taken off: 1 - rate * decay keeps few of its digits. */
static void NAME(adam)(const step *s, int64_t count, const T *p, const T *g, const T *m, const T *v, T *p_out, T *m_out,
                       T *v_out) {
  const C rest1 = (C)(1 - s->beta1), rest2 = (C)(1 - s->beta2), epsilon = (C)s->epsilon;
  const C rate = (C)(s->rate / s->correction1), root2 = (C)s->root2;
  const C coupled = s->decoupled ? 0 : (C)s->decay, decoupled = s->decoupled ? (C)(s->rate * s->decay) : 0;
  EACH for (int64_t i = 0; i < count; i++) {
    C value = LOAD(p[i]), gradient = LOAD(g[i]) + coupled * value, first = LOAD(m[i]), second = LOAD(v[i]);
    first = MEAN(first, gradient, rest1);
    second = MEAN(second, gradient * gradient, rest2);
    m_out[i] = STORE(first);
    v_out[i] = STORE(second);
    p_out[i] = STORE(value - (decoupled * value + rate * first / (ROOT(second) / root2 + epsilon)));
  }
}

/* --- those of ONNX -------------------------------------------------------------------------------------------------
 */
static void NAME(onnx_momentum)(const step *s, int64_t count, const T *x, const T *g, const T *v, T *x_out, T *v_out) {
  const C rate = (C)s->rate, alpha = (C)s->beta1, beta = (C)s->beta2, norm = (C)s->decay;
  const C from_gradient = s->nesterov ? 1 : 0, from_kept = s->nesterov ? alpha : 1;
  EACH for (int64_t i = 0; i < count; i++) {
    C value = LOAD(x[i]), gradient = norm * value + LOAD(g[i]), kept = alpha * LOAD(v[i]) + beta * gradient;
    v_out[i] = STORE(kept);
    x_out[i] = STORE(value - rate * (from_gradient * gradient + from_kept * kept));
  }
}

static void NAME(onnx_adagrad)(const step *s, int64_t count, const T *x, const T *g, const T *h, T *x_out, T *h_out) {
  const C rate = (C)s->rate, epsilon = (C)s->epsilon, norm = (C)s->decay;
  EACH for (int64_t i = 0; i < count; i++) {
    C value = LOAD(x[i]), gradient = norm * value + LOAD(g[i]), sum = LOAD(h[i]) + gradient * gradient;
    h_out[i] = STORE(sum);
    x_out[i] = STORE(value - rate * gradient / (ROOT(sum) + epsilon));
  }
}

static void NAME(onnx_adam)(const step *s, int64_t count, const T *x, const T *g, const T *v, const T *h, T *x_out,
                            T *v_out, T *h_out) {
  const C rate = (C)s->rate, epsilon = (C)s->epsilon, norm = (C)s->decay;
  const C shrink = (C)s->shrink, rest1 = (C)(1 - s->beta1), rest2 = (C)(1 - s->beta2);
  EACH for (int64_t i = 0; i < count; i++) {
    C value = LOAD(x[i]), gradient = norm * value + LOAD(g[i]), first = LOAD(v[i]), second = LOAD(h[i]);
    first = MEAN(first, gradient, rest1);
    second = MEAN(second, gradient * gradient, rest2);
    v_out[i] = STORE(first);
    h_out[i] = STORE(second);
    x_out[i] = STORE(shrink * (value - rate * first / (ROOT(second) + epsilon)));
  }
}

/* operands: parameter, gradient, states; results: parameter, states. */
static void NAME(run)(const step *s, int64_t count, const void *const *operands, void *const *results) {
  switch (s->kind) {
  case STEP_SGD:
    NAME(sgd)(s, count, operands[0], operands[1], operands[2], results[0], results[1]);
    return;
  case STEP_ADAM:
    NAME(adam)(s, count, operands[0], operands[1], operands[2], operands[3], results[0], results[1], results[2]);
    return;
  case STEP_ONNX_MOMENTUM:
    NAME(onnx_momentum)(s, count, operands[0], operands[1], operands[2], results[0], results[1]);
    return;
  case STEP_ONNX_ADAGRAD:
    NAME(onnx_adagrad)(s, count, operands[0], operands[1], operands[2], results[0], results[1]);
    return;
  case STEP_ONNX_ADAM:
    NAME(onnx_adam)(s, count, operands[0], operands[1], operands[2], operands[3], results[0], results[1], results[2]);
    return;
  }
}

#undef EACH
#undef MEAN
