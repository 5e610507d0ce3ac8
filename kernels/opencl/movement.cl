/* Moving elements: T is an unsigned integer of their size. Places are offsets and steps over the dimensions n of the
 * loop, in what is read and what is written. */
#include "common.clh"

#define STEPS3(s) index_t s##0, index_t s##1, index_t s##2
#define STEPS8(s) STEPS3(s), index_t s##3, index_t s##4, index_t s##5, index_t s##6, index_t s##7
#define STEP(d)                                                                                                        \
  {                                                                                                                    \
    index_t place = rest % n##d;                                                                                       \
    rest /= n##d;                                                                                                      \
    from += place * a##d;                                                                                              \
    to += place * b##d;                                                                                                \
  }

#define MOVE(name, STEPS, ALL)                                                                                         \
  KERNEL name(IN(T) in, OUT(T) out, index_t count, index_t from, index_t to, STEPS(n), STEPS(a), STEPS(b)) {           \
    index_t i = get_global_id(0), rest = i;                                                                            \
    if (i >= count) return;                                                                                            \
    ALL                                                                                                                \
    out[to] = in[from];                                                                                                \
  }
MOVE(move3, STEPS3, STEP(2) STEP(1) STEP(0))
MOVE(move8, STEPS8, STEP(7) STEP(6) STEP(5) STEP(4) STEP(3) STEP(2) STEP(1) STEP(0))

/* Without restrict: the output may be the input. */
KERNEL copy(GLOBAL const T *in, GLOBAL T *out, index_t count) {
  index_t i = get_global_id(0);
  if (i < count) out[i] = in[i];
}

KERNEL fill(OUT(T) out, index_t count, int value) {
  index_t i = get_global_id(0);
  if (i < count) out[i] = (T)value;
}

/* Rows picked by indices of type INDEX. One out of range sets `fault`, which fails the task; what is enqueued behind it
 * finds NaN, with which a training step changes nothing. */
#ifdef INDEX
KERNEL gather(IN(T) in, IN(INDEX) indices, OUT(T) out, GLOBAL int *fault, index_t total, index_t count, index_t size,
              index_t inner) {
  index_t i = get_global_id(0);
  if (i >= total) return;
  index_t column = i % inner, which = i / inner % count, outer = i / inner / count;
  INDEX row = indices[which];
  if (row < 0) row += size;
  bool there = row >= 0 && row < size;
  out[i] = there ? in[(outer * size + row) * inner + column] : (T)-1;
  if (!there) *fault = 1;
}

/* Its gradient: each element of the result adds up, in order, the rows that were picked from its row. */
KERNEL gather_grad(IN(float) dy, IN(INDEX) indices, OUT(float) dx, GLOBAL int *fault, index_t total, index_t count,
                   index_t size, index_t inner) {
  index_t i = get_global_id(0);
  if (i >= total) return;
  index_t column = i % inner, row = i / inner % size, outer = i / inner / size;
  float sum = 0;
  for (index_t k = 0; k < count; k++) {
    INDEX at = indices[k];
    if (at < 0) at += size;
    if (at < 0 || at >= size) *fault = 1;
    if (at == row) sum += dy[(outer * count + k) * inner + column];
  }
  dx[i] = sum;
}
#endif
