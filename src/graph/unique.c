#include "graph/unique.h"

#include <string.h>

#include "tensor/half.h"

void braid_unique_init(const braid_desc *x, const void *data, const braid_attrs *attrs, braid_unique *out) {
  *out = (braid_unique){.data = data, .dtype = x->dtype, .outer = 1, .size = braid_desc_count(x), .inner = 1};
  out->sorted = braid_attr_int(attrs, "sorted", 1) != 0;
  if (!braid_attr_has(attrs, "axis")) return;
  int64_t axis = braid_attr_int(attrs, "axis", 0);
  if (axis < 0) axis += x->rank;
  out->size = x->dims[axis];
  for (int64_t i = 0; i < axis; i++) out->outer *= x->dims[i];
  for (int64_t i = axis + 1; i < x->rank; i++) out->inner *= x->dims[i];
}

/* --- order ---------------------------------------------------------------------------------------------------------
 */
static int compare_numbers(double a, double b) {
  if (a != a || b != b) return (a != a) - (b != b);
  return (a > b) - (a < b);
}

#define COMPARE(type)                                                                                                  \
  ((((const type *)data)[a] > ((const type *)data)[b]) - (((const type *)data)[a] < ((const type *)data)[b]))
static int compare_at(braid_dtype dtype, const void *data, int64_t a, int64_t b) {
  const uint16_t *half = data;
  switch (dtype) {
  case BRAID_F64:
    return compare_numbers(((const double *)data)[a], ((const double *)data)[b]);
  case BRAID_F32:
    return compare_numbers((double)((const float *)data)[a], (double)((const float *)data)[b]);
  case BRAID_F16:
    return compare_numbers((double)braid_f16_to_f32(half[a]), (double)braid_f16_to_f32(half[b]));
  case BRAID_BF16:
    return compare_numbers((double)braid_bf16_to_f32(half[a]), (double)braid_bf16_to_f32(half[b]));
  case BRAID_I64:
    return COMPARE(int64_t);
  case BRAID_I32:
    return COMPARE(int32_t);
  case BRAID_I16:
    return COMPARE(int16_t);
  case BRAID_I8:
    return COMPARE(int8_t);
  case BRAID_U64:
    return COMPARE(uint64_t);
  case BRAID_U32:
    return COMPARE(uint32_t);
  case BRAID_U16:
    return COMPARE(uint16_t);
  default:
    return COMPARE(uint8_t); /* bool, too */
  }
}
#undef COMPARE

static int compare_slices(const braid_unique *u, int64_t a, int64_t b) {
  for (int64_t o = 0; o < u->outer; o++)
    for (int64_t i = 0; i < u->inner; i++) {
      int64_t base = o * u->size * u->inner + i;
      int order = compare_at(u->dtype, u->data, base + a * u->inner, base + b * u->inner);
      if (order) return order;
    }
  return 0;
}

/* Merges runs of 1, 2, 4 ... slices; what is alike stays in the order of the tensor. The result is in `order`. */
static void sort_slices(const braid_unique *u, int64_t *order, int64_t *other) {
  int64_t *from = order, *to = other;
  for (int64_t i = 0; i < u->size; i++) order[i] = i;
  for (int64_t run = 1; run < u->size; run *= 2) {
    for (int64_t start = 0; start < u->size; start += 2 * run) {
      int64_t middle = start + run < u->size ? start + run : u->size;
      int64_t end = start + 2 * run < u->size ? start + 2 * run : u->size, a = start, b = middle;
      for (int64_t i = start; i < end; i++) {
        bool left = a < middle && (b >= end || compare_slices(u, from[a], from[b]) <= 0);
        to[i] = left ? from[a++] : from[b++];
      }
    }
    int64_t *done = to;
    to = from;
    from = done;
  }
  if (from != order) memcpy(order, from, (size_t)u->size * sizeof *order);
}

/* --- what there is -------------------------------------------------------------------------------------------------
 */
int64_t braid_unique_find(const braid_unique *u, int64_t *scratch, int64_t *first, int64_t *number, int64_t *counts) {
  int64_t *order = scratch, *other = scratch + u->size, found = 0;
  sort_slices(u, order, other);
  for (int64_t i = 0; i < u->size; i++) {
    if (i == 0 || compare_slices(u, order[i - 1], order[i]) != 0) {
      first[found] = order[i];
      counts[found++] = 0;
    }
    counts[found - 1]++;
    number[order[i]] = found - 1;
  }
  if (u->sorted) return found;
  int64_t *rank = other, *sorted_counts = order; /* of each of those found, when it comes first */
  memcpy(sorted_counts, counts, (size_t)found * sizeof *counts);
  int64_t seen = 0;
  for (int64_t i = 0; i < u->size; i++) {
    int64_t which = number[i];
    if (first[which] == i) rank[which] = seen++;
    number[i] = rank[which];
  }
  for (int64_t i = 0; i < found; i++) counts[rank[i]] = sorted_counts[i];
  for (int64_t i = u->size; i-- > 0;) first[number[i]] = i;
  return found;
}
