#include "backend/cuda/overlap.h"

#include <string.h>

#include "base/detail.h"
#include "base/try.h"

enum { kMostLaunches = 4096, kWords = kMostLaunches / 64 };

/* What is captured between begin and end. */
typedef struct launch {
  braid_cuda_touch *touches;
  braid_cuda_node *last; /* nodes of the graph: who waits for the launch waits for these */
  uint64_t *before;      /* a bit for each launch that has ended when this one begins */
  size_t touch_count, last_count;
  bool in_turn;
} launch;

struct braid_cuda_overlap {
  const braid_cuda_api *cuda;
  braid_cuda_stream stream;
  braid_cuda_node *waits; /* of the launch at hand */
  size_t wait_count, wait_capacity;
  size_t count;
  launch launches[kMostLaunches];
};

braid_status braid_cuda_overlap_create(const braid_cuda_api *cuda, braid_cuda_stream stream, braid_cuda_overlap **out) {
  braid_cuda_overlap *overlap = *out = braid_zalloc(NULL, sizeof *overlap);
  if (!overlap) return BRAID_NO_MEMORY;
  overlap->cuda = cuda;
  overlap->stream = stream;
  return BRAID_OK;
}

void braid_cuda_overlap_destroy(braid_cuda_overlap *overlap) {
  if (!overlap) return;
  for (size_t i = 0; i < overlap->count; i++) {
    braid_free(NULL, overlap->launches[i].touches);
    braid_free(NULL, overlap->launches[i].last);
    braid_free(NULL, overlap->launches[i].before);
  }
  braid_free(NULL, overlap->waits);
  braid_free(NULL, overlap);
}

static bool touch_same(const launch *a, const launch *b) {
  for (size_t i = 0; i < a->touch_count; i++)
    for (size_t j = 0; j < b->touch_count; j++) {
      const braid_cuda_touch *x = &a->touches[i], *y = &b->touches[j];
      if ((x->writes || y->writes) && x->first < y->end && y->first < x->end) return true;
    }
  return false;
}

static bool waits_for(const braid_cuda_overlap *overlap, braid_cuda_node node) {
  for (size_t i = 0; i < overlap->wait_count; i++)
    if (overlap->waits[i] == node) return true;
  return false;
}

/* One that captured nothing is ended by those that it waits for, which may be there already. */
static braid_status add_waits(braid_cuda_overlap *overlap, const launch *other) {
  size_t count = overlap->wait_count + other->last_count;
  if (count > overlap->wait_capacity) {
    braid_cuda_node *more = braid_zalloc_array(NULL, 2 * count, sizeof *more);
    if (!more) return BRAID_NO_MEMORY;
    if (overlap->wait_count) memcpy(more, overlap->waits, overlap->wait_count * sizeof *more);
    braid_free(NULL, overlap->waits);
    overlap->waits = more;
    overlap->wait_capacity = 2 * count;
  }
  for (size_t i = 0; i < other->last_count; i++)
    if (!waits_for(overlap, other->last[i])) overlap->waits[overlap->wait_count++] = other->last[i];
  return BRAID_OK;
}

/* From the latest launch back, so that what a chosen one has waited for need not be chosen. */
static braid_status find_waits(braid_cuda_overlap *overlap, launch *own) {
  bool turn = own->in_turn;
  overlap->wait_count = 0;
  for (size_t i = overlap->count; i-- > 0;) {
    const launch *other = &overlap->launches[i];
    bool after_turn = turn && other->in_turn;
    turn = turn && !after_turn;
    if (own->before[i / 64] >> i % 64 & 1 || (!after_turn && !touch_same(own, other))) continue;
    for (size_t w = 0; w <= i / 64; w++) own->before[w] |= other->before[w];
    own->before[i / 64] |= UINT64_C(1) << i % 64;
    BRAID_TRY(add_waits(overlap, other));
  }
  return BRAID_OK;
}

braid_status braid_cuda_overlap_begin(braid_cuda_overlap *overlap, const braid_cuda_touch *touches, size_t count,
                                      bool in_turn) {
  if (overlap->count == kMostLaunches)
    return braid_fail(BRAID_UNSUPPORTED, "more than %d launches beside each other", kMostLaunches);
  launch *own = &overlap->launches[overlap->count];
  *own = (launch){.touch_count = count, .in_turn = in_turn};
  own->touches = braid_zalloc_array(NULL, count + 1, sizeof *own->touches);
  own->before = braid_zalloc_array(NULL, kWords, sizeof *own->before);
  braid_status status = own->touches && own->before ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK && count) memcpy(own->touches, touches, count * sizeof *touches);
  if (status == BRAID_OK) status = find_waits(overlap, own);
  overlap->count++;
  BRAID_TRY(status);
  BRAID_CUDA_TRY(overlap->cuda->capture_after(overlap->stream, overlap->waits, overlap->wait_count,
                                              BRAID_CUDA_CAPTURE_SET_DEPENDENCIES),
                 "the order of a graph");
  return BRAID_OK;
}

braid_status braid_cuda_overlap_end(braid_cuda_overlap *overlap) {
  launch *own = &overlap->launches[overlap->count - 1];
  const braid_cuda_node *last = NULL;
  int capturing = 0;
  BRAID_CUDA_TRY(overlap->cuda->capture_info(overlap->stream, &capturing, NULL, NULL, &last, &own->last_count),
                 "the order of a graph");
  own->last = braid_zalloc_array(NULL, own->last_count + 1, sizeof *own->last);
  if (!own->last) return BRAID_NO_MEMORY;
  if (own->last_count) memcpy(own->last, last, own->last_count * sizeof *last);
  return BRAID_OK;
}
