/* Included by unit_isa.c once for each type T. */

static void NAME(run)(const braid_unit *unit, T *x, int64_t count) {
  const T a = (T)unit->alpha, b = (T)unit->beta, clip = (T)unit->clip;
  if (clip > 0) EACH(x[i] > clip ? clip : x[i] < -clip ? -clip : x[i])
  switch (unit->kind) {
  case BRAID_UNIT_RELU:
    EACH(x[i] < 0 ? 0 : x[i])
    break;
  case BRAID_UNIT_TANH:
    EACH(TANH(x[i]))
    break;
  case BRAID_UNIT_SIGMOID:
    EACH(SIGMOID(x[i]))
    break;
  case BRAID_UNIT_AFFINE:
    EACH(a * x[i] + b)
    break;
  case BRAID_UNIT_LEAKY_RELU:
    EACH(x[i] < 0 ? a * x[i] : x[i])
    break;
  case BRAID_UNIT_THRESHOLDED_RELU:
    EACH(x[i] > a || x[i] != x[i] ? x[i] : 0)
    break;
  case BRAID_UNIT_SCALED_TANH:
    EACH(a * TANH(b * x[i]))
    break;
  case BRAID_UNIT_HARD_SIGMOID:
    EACH(UNIT_RANGE(a * x[i] + b))
    break;
  case BRAID_UNIT_ELU:
    EACH(x[i] < 0 ? a * EXPM1(x[i]) : x[i])
    break;
  case BRAID_UNIT_SOFTSIGN:
    EACH(x[i] / (1 + FABS(x[i])))
    break;
  case BRAID_UNIT_SOFTPLUS:
    EACH(SOFTPLUS(x[i]))
    break;
  }
}

/* x holds dx here. */
static void NAME(slope)(const braid_unit *unit, const T *y, T *x, int64_t count) {
  const T a = (T)unit->alpha, b = (T)unit->beta, inverse = a != 0 ? 1 / a : 0;
  switch (unit->kind) {
  case BRAID_UNIT_RELU:
    EACH(y[i] > 0 ? x[i] : 0)
    break;
  case BRAID_UNIT_TANH:
    EACH(x[i] * (1 - y[i] * y[i]))
    break;
  case BRAID_UNIT_SIGMOID:
    EACH(x[i] * (y[i] * (1 - y[i])))
    break;
  case BRAID_UNIT_AFFINE:
    EACH(x[i] * a)
    break;
  case BRAID_UNIT_LEAKY_RELU:
    EACH(y[i] < 0 ? x[i] * a : x[i])
    break;
  case BRAID_UNIT_THRESHOLDED_RELU:
    EACH(y[i] != 0 ? x[i] : 0)
    break;
  case BRAID_UNIT_SCALED_TANH:
    EACH(x[i] * (b * (a - y[i] * y[i] * inverse)))
    break;
  case BRAID_UNIT_HARD_SIGMOID:
    EACH(y[i] > 0 && y[i] < 1 ? x[i] * a : 0)
    break;
  case BRAID_UNIT_ELU:
    EACH(y[i] < 0 ? x[i] * (y[i] + a) : x[i])
    break;
  case BRAID_UNIT_SOFTSIGN:
    EACH(x[i] * (1 - FABS(y[i])) * (1 - FABS(y[i])))
    break;
  case BRAID_UNIT_SOFTPLUS:
    EACH(x[i] * -EXPM1(-y[i]))
    break;
  }
  if (unit->clip > 0) {
    T ends[2] = {(T)-unit->clip, (T)unit->clip};
    NAME(run)(unit, ends, 2);
    EACH(y[i] == ends[0] || y[i] == ends[1] ? 0 : x[i])
  }
}

void EXPORTED(braid_unit_run)(const braid_unit *unit, T *x, int64_t count) {
  NAME(run)(unit, x, count);
}

void EXPORTED(braid_unit_slope)(const braid_unit *unit, const T *y, T *dx, int64_t count) {
  NAME(slope)(unit, y, dx, count);
}
