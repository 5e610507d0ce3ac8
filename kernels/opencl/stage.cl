/* Between a tensor and a piece of memory as a kernel of somebody else wants it: other order, axes in two parts, grown
 * with zeros, other type. A work-item has one element of the piece, whose places (up to eight numbers n) give
 * coordinates in the tensor: place k counts m steps of the axis in bits 4k of `axes`. What lies beyond the tensor's
 * sizes d is zero in the piece, and of no element of the tensor.
 *
 * T: the tensor's element, P: the piece's. FIXED: the piece holds floats as whole numbers, `scale` being two to the
 * number of their fractional bits, or the inverse on the way back; rounded to the nearest, ties to even, and held at the
 * ends of the type. HALF: the piece holds floats in 16 bits. Otherwise bits are moved as they are. */
#include "common.clh"

#define EIGHT(s) index_t s##0, index_t s##1, index_t s##2, index_t s##3, index_t s##4, index_t s##5, index_t s##6, index_t s##7

#define PLACE(k)                                                                                                       \
  {                                                                                                                    \
    index_t place = rest % n##k;                                                                                       \
    rest /= n##k;                                                                                                      \
    at[axes >> 4 * k & 7] += place * m##k;                                                                             \
  }
#define AXIS(k)                                                                                                        \
  inside = inside && at[k] < d##k;                                                                                     \
  element = element * d##k + at[k];

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)

#ifdef FIXED
#define TO_PIECE(x) ((x) == (x) ? JOIN(convert_, P, _sat_rte)((x)*scale) : (P)0)
#define FROM_PIECE(x) ((float)(x)*scale)
#else
#define TO_PIECE(x) (x)
#define FROM_PIECE(x) (x)
#endif

#ifdef HALF
#define SET_PIECE(x) vstore_half_rte(x, i, (GLOBAL half *)piece)
#define GET_PIECE vload_half(i, (GLOBAL const half *)piece)
#else
#define SET_PIECE(x) piece[i] = TO_PIECE(x)
#define GET_PIECE FROM_PIECE(piece[i])
#endif

#define FIND_ELEMENT                                                                                                   \
  index_t i = get_global_id(0), rest = i, element = 0;                                                                 \
  index_t at[8] = {0};                                                                                                 \
  bool inside = true;                                                                                                  \
  if (i >= count) return;                                                                                              \
  PLACE(7) PLACE(6) PLACE(5) PLACE(4) PLACE(3) PLACE(2) PLACE(1) PLACE(0)                                              \
  AXIS(0) AXIS(1) AXIS(2) AXIS(3) AXIS(4) AXIS(5) AXIS(6) AXIS(7)

KERNEL stage_in(IN(T) tensor, OUT(P) piece, index_t count, index_t from, int axes, float scale, EIGHT(n), EIGHT(m),
                EIGHT(d)) {
  FIND_ELEMENT
  if (inside)
    SET_PIECE(tensor[from + element]);
  else
    piece[i] = 0;
}

KERNEL stage_out(IN(P) piece, OUT(T) tensor, index_t count, index_t from, int axes, float scale, EIGHT(n), EIGHT(m),
                 EIGHT(d)) {
  FIND_ELEMENT
  if (inside) tensor[from + element] = GET_PIECE;
}
