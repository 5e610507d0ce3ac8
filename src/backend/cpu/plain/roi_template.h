/* RoiAlign and its gradient, for T. The largest sample is that of ONNX: of its four pixels, each times its weight. */
static void BRAID_REF_NAME(roi_axes)(const roi_state *s, const T *box, int64_t row, int64_t column, roi_axis *down,
                                     roi_axis *along) {
  *along = cell_samples(s, (double)box[0], (double)box[2], column, s->columns, s->width);
  *down = cell_samples(s, (double)box[1], (double)box[3], row, s->rows, s->height);
}

/* What a cell is of a plane. In dplane, unless NULL, `flow` is added where it comes from. */
static double BRAID_REF_NAME(roi_cell)(const roi_state *s, const T *plane, const roi_axis *down, const roi_axis *along,
                                       T *dplane, double flow) {
  double count = down->count * along->count, inside = 0, sum = 0, most = 0, weight = 0;
  int64_t place = -1; /* of the largest */
  if (!(count >= 1)) return 0;
  for (int64_t i = down->first; i < down->end; i++) {
    roi_pair row, column;
    if (!sample_pair(down, i, s->height, &row)) continue;
    for (int64_t j = along->first; j < along->end; j++) {
      if (!sample_pair(along, j, s->width, &column)) continue;
      inside++;
      for (int k = 0; k < 4; k++) {
        double share = row.weight[k / 2] * column.weight[k % 2];
        int64_t at = row.at[k / 2] * s->width + column.at[k % 2];
        double part = share * (double)plane[at];
        sum += part;
        if (dplane && !s->largest) dplane[at] += (T)(flow * share / count);
        if (place >= 0 && !(part > most)) continue;
        most = part, weight = share, place = at;
      }
    }
  }
  if (!s->largest) return sum / count;
  if (place < 0 || (inside < count && most < 0)) return 0; /* samples outside are zero */
  if (dplane) dplane[place] += (T)(flow * weight);
  return most;
}

static void BRAID_REF_NAME(roi_forward)(const void *self, const void *const *inputs, void *const *outputs,
                                        void *scratch) {
  const roi_state *s = self;
  const int64_t *images = inputs[2];
  int64_t cells = s->rows * s->columns;
  (void)scratch;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < s->count * cells; i++) {
    int64_t box = i / cells, cell = i % cells;
    roi_axis down, along;
    BRAID_REF_NAME(roi_axes)(s, (const T *)inputs[1] + 4 * box, cell / s->columns, cell % s->columns, &down, &along);
    for (int64_t c = 0; c < s->channels; c++) {
      const T *plane = (const T *)inputs[0] + (images[box] * s->channels + c) * s->height * s->width;
      ((T *)outputs[0])[(box * s->channels + c) * cells + cell] =
          (T)BRAID_REF_NAME(roi_cell)(s, plane, &down, &along, NULL, 0);
    }
  }
}

/* Inputs: what flows in, x, the boxes, the number of the image of each. Boxes overlap: a thread has channels. */
static void BRAID_REF_NAME(roi_backward)(const void *self, const void *const *inputs, void *const *outputs,
                                         void *scratch) {
  const roi_state *s = self;
  const int64_t *images = inputs[3];
  int64_t cells = s->rows * s->columns, plane = s->height * s->width;
  T *dx = outputs[0];
  (void)scratch;
  memset(dx, 0, (size_t)(s->batch * s->channels * plane) * sizeof *dx);
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < s->channels; c++)
    for (int64_t i = 0; i < s->count * cells; i++) {
      int64_t box = i / cells, cell = i % cells, at = (images[box] * s->channels + c) * plane;
      roi_axis down, along;
      BRAID_REF_NAME(roi_axes)(s, (const T *)inputs[2] + 4 * box, cell / s->columns, cell % s->columns, &down, &along);
      double flow = (double)((const T *)inputs[0])[(box * s->channels + c) * cells + cell];
      (void)BRAID_REF_NAME(roi_cell)(s, (const T *)inputs[1] + at, &down, &along, dx + at, flow);
    }
}
