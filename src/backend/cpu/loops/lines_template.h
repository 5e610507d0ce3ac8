/* Included by lines_isa.c once for each type T. */

/* Neighbours first, so that the order is that of a tree. */
static T NAME(sum_lanes)(T *lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
  return lanes[0];
}

void EXPORTED(braid_lines_max)(const T *x, int64_t count, int64_t step, int64_t lines, T *most) {
  if (step == 1 && lines == 1) {
    T lanes[kLanes];
    int64_t k = 0;
    for (int i = 0; i < kLanes; i++) lanes[i] = x[0];
    for (; k + kLanes <= count; k += kLanes) {
      const T *part = x + k;
      SIMD(int i = 0; i < kLanes; i++) lanes[i] = part[i] > lanes[i] || lanes[i] != lanes[i] ? part[i] : lanes[i];
    }
    for (int i = 0; k < count; k++, i++) lanes[i] = x[k] > lanes[i] || lanes[i] != lanes[i] ? x[k] : lanes[i];
    for (int i = 1; i < kLanes; i++) lanes[0] = lanes[i] > lanes[0] || lanes[0] != lanes[0] ? lanes[i] : lanes[0];
    most[0] = lanes[0];
    return;
  }
  for (int64_t i = 0; i < lines; i++) most[i] = x[i];
  for (int64_t k = 1; k < count; k++) {
    const T *row = x + k * step;
    SIMD(int64_t i = 0; i < lines; i++) most[i] = row[i] > most[i] || most[i] != most[i] ? row[i] : most[i];
  }
}

void EXPORTED(braid_lines_exp)(const T *x, const T *most, int64_t count, int64_t step, int64_t lines, T *y, T *sums) {
  if (step == 1 && lines == 1) {
    T lanes[kLanes] = {0}, part[kLanes], shift = most[0];
    int64_t whole = count - count % kLanes;
    for (int64_t k = 0; k < whole; k += kLanes) {
      SIMD(int i = 0; i < kLanes; i++) part[i] = EXP(x[k + i] - shift);
      SIMD(int i = 0; i < kLanes; i++) lanes[i] += part[i];
      if (y) memcpy(y + k, part, sizeof part);
    }
    SIMD(int64_t i = 0; i < count - whole; i++) part[i] = EXP(x[whole + i] - shift);
    for (int64_t i = 0; i < count - whole; i++) lanes[i] += part[i];
    if (y && count > whole) memcpy(y + whole, part, (size_t)(count - whole) * sizeof(T));
    sums[0] = NAME(sum_lanes)(lanes);
    return;
  }
  for (int64_t i = 0; i < lines; i++) sums[i] = 0;
  for (int64_t k = 0; k < count; k++) {
    T part[BRAID_LINES];
    const T *row = x + k * step;
    SIMD(int64_t i = 0; i < lines; i++) part[i] = EXP(row[i] - most[i]);
    SIMD(int64_t i = 0; i < lines; i++) sums[i] += part[i];
    if (y) memcpy(y + k * step, part, (size_t)lines * sizeof(T));
  }
}

void EXPORTED(braid_lines_dot)(const T *a, const T *b, int64_t count, int64_t step, int64_t lines, T *sums) {
  if (step == 1 && lines == 1) {
    T lanes[kLanes] = {0};
    for (int64_t k = 0; k < count; k += kLanes) {
      int64_t width = count - k < kLanes ? count - k : kLanes;
      if (width == kLanes && b)
        SIMD(int i = 0; i < kLanes; i++) lanes[i] += a[k + i] * b[k + i];
      else
        for (int64_t i = 0; i < width; i++) lanes[i] += b ? a[k + i] * b[k + i] : a[k + i];
    }
    sums[0] = NAME(sum_lanes)(lanes);
    return;
  }
  for (int64_t i = 0; i < lines; i++) sums[i] = 0;
  for (int64_t k = 0; k < count; k++) {
    const T *left = a + k * step, *right = b ? b + k * step : NULL;
    if (right)
      SIMD(int64_t i = 0; i < lines; i++) sums[i] += left[i] * right[i];
    else
      SIMD(int64_t i = 0; i < lines; i++) sums[i] += left[i];
  }
}
