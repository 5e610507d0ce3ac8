/* Moves of sequences and states for `T`, shared by the recurrent cells and their gradients. */

/* [step, batch, inputs] from [batch, step, inputs], or back. */
static void NAME(exchange)(int64_t outer, int64_t inner, int64_t count, const T *from, T *to) {
#pragma omp parallel for collapse(2) schedule(static) if (outer * inner * count > 1 << 16)
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++)
      memcpy(to + (i * outer + o) * count, from + (o * inner + i) * count, (size_t)count * sizeof(T));
}

/* A state [direction, batch, hidden] of the node's layout to or from [batch, hidden]. */
static void NAME(take_state)(const recurrent_state *s, int64_t d, const T *from, T *to) {
  int64_t n = s->r.hidden;
  for (int64_t b = 0; b < s->r.batch; b++)
    if (from)
      memcpy(to + b * n, from + d * s->state_direction + b * s->state_row, (size_t)n * sizeof(T));
    else
      memset(to + b * n, 0, (size_t)n * sizeof(T));
}

static void NAME(give_state)(const recurrent_state *s, int64_t d, const T *from, T *to) {
  for (int64_t b = 0; to && b < s->r.batch; b++)
    memcpy(to + d * s->state_direction + b * s->state_row, from + b * s->r.hidden, (size_t)s->r.hidden * sizeof(T));
}
