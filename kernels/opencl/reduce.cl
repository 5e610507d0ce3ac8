/* Reductions. Results are counted over two kept dimensions, what is folded into one over two reduced ones, each with
 * its step in the input; slices of the reduced ones may be folded side by side, each into a result of its own, and
 * those by a second launch. The order never depends on scheduling: runs are folded in order, then the runs' results.
 *
 * MAP(x) is folded by FOLD(a, b) from NEUTRAL on, and a whole result x becomes FINISH(x); `shift` is the number that
 * MAP and FINISH know as s, one for each result, if SHIFTED. */
#include "common.clh"

#define LARGER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

#define RUN 256
#define LANES 16

/* What so many runs have been folded into: a sum keeps what its roundings have lost. */
typedef struct {
  float value, lost;
} folded;

void fold_in(folded *f, float run) {
#ifdef SUM
  float sum = f->value + run, shared = sum - f->value;
  float lost = (f->value - (sum - shared)) + (run - shared);
  f->value = sum;
  if (lost == lost) f->lost += lost;
#else
  f->value = FOLD(f->value, run);
#endif
}

#ifdef SHIFTED
#define SHIFT shift[result]
#else
#define SHIFT 0
#endif

#define ARGUMENTS                                                                                                      \
  IN(float) in, IN(float) shift, OUT(float) out, index_t results, index_t kept_inner, index_t kept_step0,              \
      index_t kept_step1, index_t reduced, index_t reduced_inner, index_t step0, index_t step1, index_t slice,         \
      index_t slices, float scale

#define FIRST_PLACE ((result / kept_inner) * kept_step0 + (result % kept_inner) * kept_step1)
#define PLACE(r) (first + ((r) / reduced_inner) * step0 + ((r) % reduced_inner) * step1)
#define STORE(x) out[which * results + result] = slices == 1 ? (FINISH((x))) : (x)

/* A work-item for each result and slice. */
KERNEL fold_items(ARGUMENTS) {
  index_t item = get_global_id(0), result = item % results, which = item / results;
  if (which >= slices) return;
  const float s = SHIFT;
  index_t first = FIRST_PLACE, begin = which * slice, end = min(begin + slice, reduced);
  folded total = {NEUTRAL, 0};
  for (index_t r = begin; r < end;) {
    index_t inner = r % reduced_inner, stop = min(end, r + min((index_t)RUN, reduced_inner - inner));
    IN(float) x = in + PLACE(r);
    float run = NEUTRAL;
#ifndef FPGA /* which would have 16 units; others load while they wait for loads */
#pragma unroll 16
#endif
    for (; r < stop; r++, x += step1) run = FOLD(run, MAP((*x)));
    fold_in(&total, run);
  }
  STORE(total.value + total.lost);
}

/* The same where the reduced elements lie side by side, in lanes. */
KERNEL fold_rows(ARGUMENTS) {
  index_t item = get_global_id(0), result = item % results, which = item / results;
  if (which >= slices) return;
  const float s = SHIFT;
  index_t first = FIRST_PLACE, begin = which * slice, end = min(begin + slice, reduced);
  folded total = {NEUTRAL, 0};
  for (index_t r = begin; r < end;) {
    index_t inner = r % reduced_inner, stop = min(end, r + min((index_t)(RUN * LANES), reduced_inner - inner));
    IN(float) x = in + PLACE(r);
    float lanes[LANES], run = NEUTRAL;
    for (int l = 0; l < LANES; l++) lanes[l] = NEUTRAL;
    for (; r + LANES <= stop; r += LANES, x += LANES)
      for (int l = 0; l < LANES; l++) lanes[l] = FOLD(lanes[l], MAP((x[l])));
    for (; r < stop; r++, x++) run = FOLD(run, MAP((*x)));
    for (int l = 0; l < LANES; l++) run = FOLD(run, lanes[l]);
    fold_in(&total, run);
  }
  STORE(total.value + total.lost);
}

/* A group for each result and slice, whose work-items take turns. */
KERNEL fold_groups(ARGUMENTS) {
  SHARED float parts[GROUP];
  index_t group = get_group_id(0), result = group % results, which = group / results;
  const int l = get_local_id(0);
  const float s = SHIFT;
  index_t first = FIRST_PLACE, begin = which * slice, end = min(begin + slice, reduced);
  folded total = {NEUTRAL, 0};
  for (index_t r = begin + l; r < end; r += GROUP) fold_in(&total, MAP((in[PLACE(r)])));
  parts[l] = total.value + total.lost;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = GROUP / 2; width > 0; width /= 2) {
    if (l < width) parts[l] = FOLD(parts[l], parts[l + width]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) STORE(parts[0]);
}

/* Any number of dimensions, a work-item for each result: k, their sizes and steps of the kept ones, r of the reduced. */
#define EIGHT(s) index_t s##0, index_t s##1, index_t s##2, index_t s##3, index_t s##4, index_t s##5, index_t s##6, index_t s##7
#define STEP(at, rest, n, step)                                                                                        \
  at += rest % n * step;                                                                                               \
  rest /= n;
#define WALK(at, rest, n, s)                                                                                           \
  STEP(at, rest, n##7, s##7)                                                                                           \
  STEP(at, rest, n##6, s##6)                                                                                           \
  STEP(at, rest, n##5, s##5)                                                                                           \
  STEP(at, rest, n##4, s##4)                                                                                           \
  STEP(at, rest, n##3, s##3)                                                                                           \
  STEP(at, rest, n##2, s##2)                                                                                           \
  STEP(at, rest, n##1, s##1)                                                                                           \
  STEP(at, rest, n##0, s##0)

KERNEL fold_any(IN(float) in, IN(float) shift, OUT(float) out, index_t results, index_t reduced, float scale, EIGHT(n),
                EIGHT(k), EIGHT(m), EIGHT(r)) {
  index_t result = get_global_id(0);
  if (result >= results) return;
  const float s = SHIFT;
  index_t first = 0, rest = result;
  WALK(first, rest, n, k)
  folded total = {NEUTRAL, 0};
  for (index_t i = 0; i < reduced; i++) {
    index_t place = first, left = i;
    WALK(place, left, m, r)
    fold_in(&total, MAP((in[place])));
  }
  float x = total.value + total.lost;
  out[result] = FINISH((x));
}
