/* The encoding of a layout in 64 bits: for each position in the order, outermost first, 3 bits: the dimension at this
 * position xor the position (so that row-major is 0); then 11 bits for each block: 8 of its size (0: none) and 3 of its
 * dimension. */
#include "tensor/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { kOrderBits = 3 * BRAID_MAX_RANK, kSizeBits = 8, kBlockBits = 11, kMostBlock = (1 << kSizeBits) - 1 };

static int dimension_at(braid_layout layout, int place) {
  return (int)(layout >> (3 * place) & 7) ^ place;
}

braid_layout_parts braid_layout_take_apart(braid_layout layout, int rank) {
  braid_layout_parts parts = {.block_count = 0};
  int count = 0;
  for (int place = 0; place < BRAID_MAX_RANK; place++)
    if (dimension_at(layout, place) < rank) parts.order[count++] = dimension_at(layout, place);
  for (uint64_t blocks = layout >> kOrderBits; blocks & kMostBlock && parts.block_count < BRAID_LAYOUT_BLOCKS;
       blocks >>= kBlockBits)
    parts.blocks[parts.block_count++] =
        (braid_block_of){(int)(blocks >> kSizeBits & 7), (int64_t)(blocks & kMostBlock)};
  return parts;
}

/* Missing dimensions are inserted after the one before them. */
static void complete_order(const braid_layout_parts *parts, int rank, int *order) {
  int count = rank;
  memcpy(order, parts->order, (size_t)rank * sizeof *order);
  for (int dim = rank; dim < BRAID_MAX_RANK; dim++) {
    int at = 0;
    while (dim > 0 && order[at] != dim - 1) at++;
    if (dim > 0) at++;
    memmove(&order[at + 1], &order[at], (size_t)(count - at) * sizeof *order);
    order[at] = dim;
    count++;
  }
}

braid_layout braid_layout_put_together(const braid_layout_parts *parts, int rank) {
  int order[BRAID_MAX_RANK];
  braid_layout layout = 0;
  complete_order(parts, rank, order);
  for (int place = 0; place < BRAID_MAX_RANK; place++) layout |= (uint64_t)(order[place] ^ place) << (3 * place);
  for (int i = 0; i < parts->block_count; i++) {
    layout |= BRAID_LAYOUT_BLOCKED(i, parts->blocks[i].dim, parts->blocks[i].size);
  }
  return layout;
}

/* Each dimension occurs once, blocks are of existing dimensions, unused bits are 0. */
static bool is_layout(braid_layout layout, int rank) {
  unsigned seen = 0;
  if (rank < 0 || rank > BRAID_MAX_RANK) return false;
  for (int place = 0; place < BRAID_MAX_RANK; place++) seen |= 1u << dimension_at(layout, place);
  if (seen != (1u << BRAID_MAX_RANK) - 1 || layout >> (kOrderBits + BRAID_LAYOUT_BLOCKS * kBlockBits)) return false;
  braid_layout_parts parts = braid_layout_take_apart(layout, rank);
  for (int i = 0; i < parts.block_count; i++)
    if (parts.blocks[i].size < 2 || parts.blocks[i].dim >= rank) return false;
  uint64_t used = kOrderBits + (uint64_t)parts.block_count * kBlockBits;
  return layout >> used == 0;
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static const struct {
  const char *name;
  braid_layout layout;
} kNamed[] = {{"plain", BRAID_LAYOUT_PLAIN}, {"BHWC", BRAID_LAYOUT_BHWC}, {"CHWB", BRAID_LAYOUT_CHWB}};
enum { kNamedCount = sizeof kNamed / sizeof *kNamed };

static bool is_blocked_in(const braid_layout_parts *parts, int dim) {
  for (int i = 0; i < parts->block_count; i++)
    if (parts->blocks[i].dim == dim) return true;
  return false;
}

char *braid_layout_format(braid_layout layout, int rank, char *buffer, size_t bytes) {
  for (int i = 0; i < kNamedCount; i++)
    if (kNamed[i].layout == layout) {
      snprintf(buffer, bytes, "%s", kNamed[i].name);
      return buffer;
    }
  if (!is_layout(layout, rank)) {
    snprintf(buffer, bytes, "0x%llx", (unsigned long long)layout);
    return buffer;
  }
  char text[BRAID_LAYOUT_TEXT];
  size_t used = 0;
  braid_layout_parts parts = braid_layout_take_apart(layout, rank);
  for (int i = 0; i < rank; i++)
    text[used++] = (char)((is_blocked_in(&parts, parts.order[i]) ? 'A' : 'a') + parts.order[i]);
  text[used] = '\0';
  for (int i = 0; i < parts.block_count; i++)
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%d%c", (int)parts.blocks[i].size, 'a' + parts.blocks[i].dim);
  snprintf(buffer, bytes, "%s", text);
  return buffer;
}

static braid_status expected(const char *text, const char *what) {
  return braid_fail(BRAID_INVALID_ARGUMENT, "layout \"%.40s\": expected %s", text, what);
}

/* Parses the letters of the order; *capitals: bit set of the dimensions that must be blocked. */
static braid_status parse_order(const char *text, braid_layout_parts *parts, int *rank, unsigned *capitals) {
  unsigned seen = 0;
  *rank = 0;
  *capitals = 0;
  for (const char *at = text; isalpha((unsigned char)*at); at++) {
    int dim = tolower((unsigned char)*at) - 'a';
    if (dim >= BRAID_MAX_RANK || seen >> dim & 1)
      return expected(text, "plain, BHWC, CHWB or each letter of a to h once");
    seen |= 1u << dim;
    if (isupper((unsigned char)*at)) *capitals |= 1u << dim;
    parts->order[(*rank)++] = dim;
  }
  if (!*rank || seen != (1u << *rank) - 1) return expected(text, "the letters from a on, without a gap");
  return BRAID_OK;
}

braid_status braid_layout_parse(const char *text, braid_layout *out) {
  *out = BRAID_LAYOUT_PLAIN;
  for (int i = 0; i < kNamedCount; i++)
    if (strcmp(text, kNamed[i].name) == 0) {
      *out = kNamed[i].layout;
      return BRAID_OK;
    }
  braid_layout_parts parts = {.block_count = 0};
  int rank;
  unsigned capitals, blocked = 0;
  braid_status status = parse_order(text, &parts, &rank, &capitals);
  if (status != BRAID_OK) return status;
  for (const char *at = text + rank; *at;) {
    char *end;
    long size = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
    if (size < 2 || size > kMostBlock || parts.block_count == BRAID_LAYOUT_BLOCKS)
      return expected(text, "at most two blocks of 2 to 255 behind the letters");
    int dim = *end - 'a';
    if (dim < 0 || dim >= rank) return expected(text, "a number and the small letter of a dimension for each block");
    parts.blocks[parts.block_count++] = (braid_block_of){dim, size};
    blocked |= 1u << dim;
    at = end + 1;
  }
  if (blocked != capitals) return expected(text, "capitals for the dimensions that are blocked, and no others");
  *out = braid_layout_put_together(&parts, rank);
  return BRAID_OK;
}

/* --- addresses -----------------------------------------------------------------------------------------------------
 */
braid_status braid_desc_set_layout(braid_desc *desc, braid_layout layout) {
  if (!is_layout(layout, desc->rank))
    return braid_fail(BRAID_INVALID_ARGUMENT, "0x%llx is not a layout of a tensor of rank %d",
                      (unsigned long long)layout, (int)desc->rank);
  braid_layout_parts parts = braid_layout_take_apart(layout, desc->rank);
  int64_t bytes = (int64_t)braid_dtype_size(desc->dtype);
  bool fits = true;
  for (int d = 0; d < desc->rank; d++) {
    int64_t padded = desc->dims[d], unit = 1;
    for (int i = 0; i < parts.block_count; i++)
      if (parts.blocks[i].dim == d) unit *= parts.blocks[i].size;
    fits = fits && braid_add_i64(padded, unit - 1, &padded);
    fits = fits && braid_mul_i64(bytes, padded / unit * unit, &bytes);
  }
  if (braid_desc_count(desc) > 0 && !fits)
    return braid_fail(BRAID_OUT_OF_RANGE, "a layout of rank %d whose size in bytes overflows", (int)desc->rank);
  desc->layout = braid_layout_put_together(&parts, desc->rank);
  return BRAID_OK;
}

braid_places braid_places_of(const braid_desc *desc) {
  braid_layout_parts parts = braid_layout_take_apart(desc->layout, desc->rank);
  braid_places p = {.rank = desc->rank, .block_count = parts.block_count};
  int64_t step = 1;
  for (int d = 0; d < p.rank; d++) p.dims[d] = desc->dims[d], p.unit[d] = 1;
  for (int i = p.block_count; i-- > 0;) {
    p.blocks[i] = parts.blocks[i];
    p.block_stride[i] = step;
    step *= p.blocks[i].size;
    p.unit[p.blocks[i].dim] *= p.blocks[i].size;
  }
  for (int i = p.rank; i-- > 0;) {
    int d = parts.order[i];
    p.outer[d] = (p.dims[d] + p.unit[d] - 1) / p.unit[d];
    p.stride[d] = step;
    step *= p.outer[d];
  }
  p.count = step;
  return p;
}

int64_t braid_places_at(const braid_places *places, int dim, int64_t index) {
  int64_t at = 0;
  for (int i = places->block_count; i-- > 0;) {
    if (places->blocks[i].dim != dim) continue;
    at += index % places->blocks[i].size * places->block_stride[i];
    index /= places->blocks[i].size;
  }
  return at + index * places->stride[dim];
}

int64_t braid_places_find(const braid_places *places, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < places->rank; d++) at += braid_places_at(places, d, index[d]);
  return at;
}

static int64_t padded_count(const braid_desc *desc) {
  return desc->rank > 0 && braid_layout_is_blocked(desc->layout) ? braid_places_of(desc).count : braid_desc_count(desc);
}

size_t braid_desc_bytes(const braid_desc *desc) {
  return (size_t)padded_count(desc) * braid_dtype_size(desc->dtype);
}

bool braid_desc_is_padded(const braid_desc *desc) {
  if (desc->rank == 0 || !braid_layout_is_blocked(desc->layout)) return false;
  braid_places places = braid_places_of(desc);
  for (int d = 0; d < desc->rank; d++)
    if (places.dims[d] % places.unit[d] != 0) return true;
  return false;
}

/* --- contents ------------------------------------------------------------------------------------------------------
 */
/* Row by row of the last dimension: the offsets of the other dimensions change once per row. */
static void rewrite(const braid_desc *desc, const uint8_t *from, uint8_t *to, bool pack) {
  size_t size = braid_dtype_size(desc->dtype);
  braid_places p = braid_places_of(desc);
  int64_t index[BRAID_MAX_RANK] = {0}, count = braid_desc_count(desc);
  int last = desc->rank - 1;
  int64_t row = desc->rank ? desc->dims[last] : 1;
  for (int64_t at = 0; at < count; at += row) {
    int64_t first = braid_places_find(&p, index);
    for (int64_t i = 0; i < row; i++) {
      size_t packed = (size_t)(first + (i ? braid_places_at(&p, last, i) : 0)) * size, plain = (size_t)(at + i) * size;
      memcpy(to + (pack ? packed : plain), from + (pack ? plain : packed), size);
    }
    for (int d = last; d-- > 0 && ++index[d] == desc->dims[d];) index[d] = 0;
  }
}

void braid_layout_pack(const braid_desc *desc, const void *plain, void *packed) {
  size_t bytes = braid_desc_bytes(desc);
  if (!bytes) return;
  if (desc->layout == BRAID_LAYOUT_PLAIN) {
    memcpy(packed, plain, bytes);
    return;
  }
  if (braid_desc_is_padded(desc)) memset(packed, 0, bytes);
  rewrite(desc, plain, packed, true);
}

void braid_layout_unpack(const braid_desc *desc, const void *packed, void *plain) {
  size_t bytes = braid_desc_bytes(desc);
  if (!bytes) return;
  if (desc->layout == BRAID_LAYOUT_PLAIN)
    memcpy(plain, packed, bytes);
  else
    rewrite(desc, packed, plain, false);
}

/* --- views ---------------------------------------------------------------------------------------------------------
 * A tensor is decomposed into factors, in the order of its dimensions; a factor has a size and a stride. A dimension is
 * one factor, or one for its outer part and one for each block. Adjacent factors that are contiguous are merged. A
 * padded dimension cannot be split: it is one factor with several parts. */
enum { kMostParts = BRAID_LAYOUT_BLOCKS + 1, kMostFactors = 4 * BRAID_MAX_RANK };

typedef struct part {
  int64_t size, stride;
} part;

typedef struct factor {
  int64_t size; /* indices */
  int count;    /* number of parts: 1, or more for a padded dimension, outermost first */
  part parts[kMostParts];
} factor;

typedef struct factors {
  int count;
  factor items[kMostFactors];
} factors;

static void add_factor(factors *list, int64_t size, int64_t stride) {
  factor *last = list->count ? &list->items[list->count - 1] : NULL;
  if (size == 1) return;
  if (last && last->count == 1 && last->parts[0].stride == stride * size) {
    last->size *= size;
    last->parts[0] = (part){last->size, stride};
    return;
  }
  list->items[list->count++] = (factor){.size = size, .count = 1, .parts = {{size, stride}}};
}

static void take_factors(const braid_desc *desc, factors *out) {
  braid_places p = braid_places_of(desc);
  out->count = 0;
  for (int d = 0; d < p.rank; d++) {
    part parts[kMostParts];
    int count = 0;
    parts[count++] = (part){p.outer[d], p.stride[d]};
    for (int i = 0; i < p.block_count; i++)
      if (p.blocks[i].dim == d) parts[count++] = (part){p.blocks[i].size, p.block_stride[i]};
    if (p.dims[d] == p.outer[d] * p.unit[d]) {
      for (int i = 0; i < count; i++) add_factor(out, parts[i].size, parts[i].stride);
      continue;
    }
    factor *whole = &out->items[out->count++];
    *whole = (factor){.size = p.dims[d], .count = count};
    memcpy(whole->parts, parts, sizeof parts);
  }
}

/* Removes the innermost factors whose product is `size` from the list; they become the parts of a dimension, outermost
 * first. False: there are none, or too many. */
static bool take_dimension(factors *list, int64_t size, part *parts, int *count) {
  factors taken = {.count = 0};
  factor *last = list->count ? &list->items[list->count - 1] : NULL;
  *count = 0;
  if (last && last->count > 1 &&
      last->size == size) { /* a padded dimension corresponds to a dimension of equal size only */
    memcpy(parts, last->parts, sizeof last->parts);
    *count = last->count;
    list->count--;
    return true;
  }
  while (size > 1) {
    last = list->count ? &list->items[list->count - 1] : NULL;
    if (!last || last->count > 1 || taken.count == kMostFactors) return false;
    int64_t some = size < last->size ? size : last->size;
    if (size % some != 0 || last->size % some != 0) return false;
    taken.items[taken.count++] = (factor){.size = some, .count = 1, .parts = {{some, last->parts[0].stride}}};
    last->parts[0].stride *= some;
    last->size /= some;
    if (last->size == 1) list->count--;
    size /= some;
  }
  factors merged = {.count = 0};
  while (taken.count-- > 0)
    add_factor(&merged, taken.items[taken.count].size, taken.items[taken.count].parts[0].stride);
  if (merged.count > kMostParts) return false;
  for (int i = 0; i < merged.count; i++) parts[(*count)++] = merged.items[i].parts[0];
  return true;
}

typedef struct placed {
  int dim;
  bool block;
  part of;
} placed;

static int by_stride(const void *a, const void *b) {
  const placed *x = a, *y = b;
  if (x->of.stride != y->of.stride) return x->of.stride > y->of.stride ? -1 : 1;
  return x->block - y->block;
}

/* Whether the parts, sorted by stride, are a layout: without gaps, outer parts before blocks. */
static bool is_dense(const placed *list, int count) {
  int64_t stride = 1;
  for (int i = count; i-- > 0;) {
    if (list[i].of.stride != stride || (i > 0 && list[i - 1].block && !list[i].block)) return false;
    stride *= list[i].of.size;
  }
  return true;
}

static bool gather_layout(placed *list, int count, int rank, braid_layout *out) {
  braid_layout_parts parts = {.block_count = 0};
  int places = 0;
  unsigned there = 0;
  qsort(list, (size_t)count, sizeof *list, by_stride);
  if (!is_dense(list, count)) return false;
  for (int i = 0; i < count; i++) {
    if (!list[i].block) {
      parts.order[places++] = list[i].dim;
      there |= 1u << list[i].dim;
      continue;
    }
    if (parts.block_count == BRAID_LAYOUT_BLOCKS || list[i].of.size > kMostBlock) return false;
    parts.blocks[parts.block_count++] = (braid_block_of){list[i].dim, list[i].of.size};
  }
  for (int dim = 0; dim < rank; dim++) { /* of size 1: its position is arbitrary, so after the one before */
    if (there >> dim & 1) continue;
    int at = 0;
    while (dim > 0 && parts.order[at] != dim - 1) at++;
    if (dim > 0) at++;
    memmove(&parts.order[at + 1], &parts.order[at], (size_t)(places - at) * sizeof *parts.order);
    parts.order[at] = dim;
    places++;
  }
  *out = braid_layout_put_together(&parts, rank);
  return true;
}

bool braid_layout_view(const braid_desc *from, const braid_desc *to, braid_layout *out) {
  *out = BRAID_LAYOUT_PLAIN;
  if (braid_dtype_size(from->dtype) != braid_dtype_size(to->dtype) || braid_desc_count(from) != braid_desc_count(to))
    return false;
  if (from->layout == BRAID_LAYOUT_PLAIN || braid_desc_count(from) == 0) return true;
  if (braid_desc_same_shape(from, to)) {
    *out = from->layout;
    return true;
  }
  factors list;
  placed placed_parts[BRAID_MAX_RANK * kMostParts];
  int count = 0;
  take_factors(from, &list);
  for (int d = to->rank; d-- > 0;) {
    part parts[kMostParts];
    int taken;
    if (!take_dimension(&list, to->dims[d], parts, &taken)) return false;
    for (int i = 0; i < taken; i++) {
      if (i > 0 && parts[i].stride >= parts[i - 1].stride) return false;
      placed_parts[count++] = (placed){d, i > 0, parts[i]};
    }
  }
  return list.count == 0 && gather_layout(placed_parts, count, to->rank, out);
}

/* Element i of both is at the same offset iff the merged lists of factors are equal. */
bool braid_layout_same_places(const braid_desc *a, const braid_desc *b) {
  if (braid_dtype_size(a->dtype) != braid_dtype_size(b->dtype)) return false;
  if (a->layout == b->layout && braid_desc_same_shape(a, b)) return true;
  if (braid_desc_count(a) != braid_desc_count(b)) return false;
  if ((a->layout == BRAID_LAYOUT_PLAIN && b->layout == BRAID_LAYOUT_PLAIN) || braid_desc_count(a) == 0) return true;
  factors x, y;
  take_factors(a, &x);
  take_factors(b, &y);
  if (x.count != y.count) return false;
  for (int i = 0; i < x.count; i++) {
    if (x.items[i].size != y.items[i].size || x.items[i].count != y.items[i].count) return false;
    for (int k = 0; k < x.items[i].count; k++)
      if (x.items[i].parts[k].size != y.items[i].parts[k].size ||
          x.items[i].parts[k].stride != y.items[i].parts[k].stride)
        return false;
  }
  return true;
}
