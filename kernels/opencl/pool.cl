/* Pools over three spatial dimensions: sizes i of the input, o of the output, n of the window, strides s, dilations d,
 * padding b before and e behind (below zero: the last inputs are not looked at). X: the type of elements. */
#include "common.clh"

#ifndef X
#define X float
#endif

#define SIZES                                                                                                          \
  index_t i0, index_t i1, index_t i2, index_t o0, index_t o1, index_t o2, index_t n0, index_t n1, index_t n2,          \
      index_t s0, index_t s1, index_t s2, index_t d0, index_t d1, index_t d2, index_t b0, index_t b1, index_t b2,      \
      index_t e0, index_t e1, index_t e2

/* Window places [first, last) of an output's dimension lie within the input; of the rest is padding. */
index_t places_before(index_t origin, index_t limit, index_t d, index_t n) {
  index_t room = limit - origin, places = room > 0 ? (room + d - 1) / d : 0;
  return min(places, n);
}
#define PATCH(k, place)                                                                                                \
  const index_t x##k = (place)*s##k - b##k;                                                                            \
  const index_t first##k = places_before(x##k, 0, d##k, n##k), last##k = places_before(x##k, i##k, d##k, n##k);
#define PATCHES(o)                                                                                                     \
  PATCH(0, (o) / o2 / o1)                                                                                              \
  PATCH(1, (o) / o2 % o1)                                                                                              \
  PATCH(2, (o) % o2)
#define EACH_PLACE                                                                                                     \
  for (index_t k0 = first0; k0 < last0; k0++)                                                                          \
    for (index_t k1 = first1; k1 < last1; k1++)                                                                        \
      for (index_t k2 = first2; k2 < last2; k2++)
#define SOURCE (((x0 + k0 * d0) * i1 + x1 + k1 * d1) * i2 + x2 + k2 * d2)

/* What an average divides by. */
#ifdef INCLUDE_PAD
#define COUNTED(k) places_before(x##k, i##k + e##k, d##k, n##k)
#else
#define COUNTED(k) (last##k - first##k)
#endif
#define DIVISOR max((index_t)1, COUNTED(0) * COUNTED(1) * COUNTED(2))

/* Largest; NaN is larger than any number. The place of the first largest in its window is given in type PLACE, its index
 * in the whole input as a long, counted along the first dimension first if COLUMN_MAJOR. */
#ifdef PLACE
KERNEL max_pool(IN(X) x, OUT(X) y, OUT(long) indices, OUT(PLACE) window, SIZES, index_t total) {
  const index_t at = get_global_id(0), outputs = o0 * o1 * o2, plane = at / outputs;
  if (at >= total) return;
  PATCHES(at % outputs)
  IN(X) from = x + plane * i0 * i1 * i2;
  float most = -INFINITY;
  index_t where = 0, source = -1;
  EACH_PLACE {
    const float value = GET(X, from, SOURCE);
    if (source < 0 || value > most || (value != value && most == most)) {
      most = value;
      where = (k0 * n1 + k1) * n2 + k2;
      source = SOURCE;
    }
  }
  PUT(X, y, at, most);
#ifdef WITH_WINDOW
  window[at] = (PLACE)where;
#endif
#ifdef WITH_INDICES
  source = max(source, (index_t)0);
#ifdef COLUMN_MAJOR
  source = (source % i2 * i1 + source / i2 % i1) * i0 + source / i2 / i1;
#endif
  indices[at] = (long)plane * (i0 * i1 * i2) + source;
#endif
}
#endif

KERNEL average_pool(IN(X) x, OUT(X) y, SIZES, index_t total) {
  const index_t at = get_global_id(0), outputs = o0 * o1 * o2;
  if (at >= total) return;
  PATCHES(at % outputs)
  IN(X) from = x + at / outputs * (i0 * i1 * i2);
  float sum = 0;
  EACH_PLACE sum += GET(X, from, SOURCE);
  PUT(X, y, at, sum / (float)DIVISOR);
}

/* Gradients are gathered: an input adds up, in the order of outputs, those whose windows hold it. */
#define OUTPUTS_FROM(k, p) max((index_t)0, ((p) + b##k - (n##k - 1) * d##k + s##k - 1) / s##k)
#define OUTPUTS_TO(k, p) min(o##k, ((p) + b##k) / s##k + 1)
/* Negative numbers are divided as whole ones only where the result is not looked at. */
#define RANGE(k, p) const index_t from##k = OUTPUTS_FROM(k, p), to##k = OUTPUTS_TO(k, p);
#define EACH_OUTPUT                                                                                                    \
  for (index_t q0 = from0; q0 < to0; q0++)                                                                             \
    for (index_t q1 = from1; q1 < to1; q1++)                                                                           \
      for (index_t q2 = from2; q2 < to2; q2++)
#define GRADIENT_OF(at)                                                                                                \
  const index_t inputs = i0 * i1 * i2, outputs = o0 * o1 * o2, plane = (at) / inputs;                                  \
  const index_t p0 = (at) % inputs / i2 / i1, p1 = (at) / i2 % i1, p2 = (at) % i2;                                     \
  RANGE(0, p0)                                                                                                         \
  RANGE(1, p1)                                                                                                         \
  RANGE(2, p2)

#ifdef PLACE
KERNEL max_pool_grad(IN(X) dy, IN(PLACE) window, OUT(X) dx, SIZES, index_t total) {
  const index_t at = get_global_id(0);
  if (at >= total) return;
  GRADIENT_OF(at)
  float sum = 0;
  EACH_OUTPUT {
    const index_t o = plane * outputs + (q0 * o1 + q1) * o2 + q2, k = window[o];
    const bool mine = q0 * s0 - b0 + k / (n1 * n2) * d0 == p0 && q1 * s1 - b1 + k / n2 % n1 * d1 == p1 &&
                      q2 * s2 - b2 + k % n2 * d2 == p2;
    if (mine) sum += GET(X, dy, o);
  }
  PUT(X, dx, at, sum);
}
#endif

KERNEL average_pool_grad(IN(X) dy, OUT(X) dx, SIZES, index_t total) {
  const index_t at = get_global_id(0);
  if (at >= total) return;
  GRADIENT_OF(at)
  float sum = 0;
  EACH_OUTPUT {
    const index_t o = (q0 * o1 + q1) * o2 + q2;
    PATCHES(o)
    const index_t k0 = p0 - x0, k1 = p1 - x1, k2 = p2 - x2;
    if (k0 >= 0 && k1 >= 0 && k2 >= 0 && k0 % d0 == 0 && k1 % d1 == 0 && k2 % d2 == 0)
      sum += GET(X, dy, plane * outputs + o) * (1 / (float)DIVISOR);
  }
  PUT(X, dx, at, sum);
}

/* --- one window over everything ------------------------------------------------------------------------------------- */
KERNEL global_pool(IN(X) x, OUT(X) y, index_t planes, index_t size) {
  const index_t plane = get_global_id(0);
  if (plane >= planes) return;
  IN(X) from = x + plane * size;
#ifdef LARGEST
  float most = -INFINITY;
  for (index_t i = 0; i < size; i++) {
    const float value = GET(X, from, i);
    most = value > most || value != value ? value : most;
  }
  PUT(X, y, plane, most);
#else
  float lanes[16], sum = 0;
  index_t i = 0;
  for (int l = 0; l < 16; l++) lanes[l] = 0;
  for (; i + 16 <= size; i += 16)
    for (int l = 0; l < 16; l++) lanes[l] += GET(X, from, i + l);
  for (; i < size; i++) sum += GET(X, from, i);
  for (int l = 0; l < 16; l++) sum += lanes[l];
  PUT(X, y, plane, sum / (float)size);
#endif
}

KERNEL global_average_grad(IN(X) dy, OUT(X) dx, index_t total, index_t size) {
  const index_t at = get_global_id(0);
  if (at < total) PUT(X, dx, at, GET(X, dy, at / size) * (1 / (float)size));
}

/* Everything goes to the first of the largest. */
KERNEL global_max_grad(IN(X) dy, IN(X) x, OUT(X) dx, index_t planes, index_t size) {
  const index_t plane = get_global_id(0);
  if (plane >= planes) return;
  IN(X) from = x + plane * size;
  index_t where = 0;
  for (index_t i = 1; i < size; i++) {
    const float value = GET(X, from, i), most = GET(X, from, where);
    if (value > most || (value != value && most == most)) where = i;
  }
  for (index_t i = 0; i < size; i++) PUT(X, dx, plane * size + i, i == where ? GET(X, dy, plane) : 0);
}
