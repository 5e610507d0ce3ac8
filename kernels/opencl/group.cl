/* What a transport between processes does not do itself: bitwise or of all processes' numbers, `rows` times `count` of
 * them one behind the other. */
#include "common.clh"

#define JOIN(name, type)                                                                                               \
  KERNEL name(IN(type) all, OUT(type) joined, long count, int rows) {                                                  \
    const long i = get_global_id(0);                                                                                   \
    type bits = 0;                                                                                                     \
    if (i >= count) return;                                                                                            \
    for (int row = 0; row < rows; row++) bits |= all[row * count + i];                                                 \
    joined[i] = bits;                                                                                                  \
  }
JOIN(join_ints, int)
JOIN(join_longs, long)
