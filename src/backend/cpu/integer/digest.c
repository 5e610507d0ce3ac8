/* IntegerDigest: weights of a stretch of places are made once and serve all samples. The stretches follow the order in
 * memory, which is that of the samples with their channels first or last; the result is that of the plain order. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/integer/digest_isa.h"
#include "graph/integer.h"
#include "tensor/layout.h"

enum { kStretch = 1 << 12, kFew = 1 << 14 };

static void digest_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  for (size_t i = 0; i < node->input_count; i++)
    if (inputs[i] != BRAID_LAYOUT_BHWC || node->inputs[i].desc.rank < 3) inputs[i] = BRAID_LAYOUT_PLAIN;
  outputs[0] = BRAID_LAYOUT_PLAIN;
}

/* How a tensor lies in memory: samples of `lines` lines of `length` places, which are `step` apart in the plain order;
 * line l begins at place l * apart. */
typedef struct lie {
  const void *data;
  braid_dtype dtype;
  int64_t samples, places, lines, length;
  uint64_t first; /* the number of the first sample */
  uint64_t step, apart;
} lie;

static lie lie_of(const braid_desc *desc, const void *data, uint64_t first) {
  int64_t samples = desc->rank > 0 ? desc->dims[0] : 1, count = braid_desc_count(desc);
  int64_t places = samples > 0 ? count / samples : 0;
  lie at = {data, desc->dtype, samples, places, 1, places, first, 1, 0};
  if (desc->layout == BRAID_LAYOUT_BHWC && desc->dims[1] > 0) {
    at.length = desc->dims[1];
    at.lines = places / at.length;
    at.step = (uint64_t)at.lines;
    at.apart = 1;
  }
  return at;
}

/* The weights of memory's places first to first + count - 1 of a sample. */
static void stretch_weights(const lie *at, int64_t first, int64_t count, uint32_t *w) {
  for (int64_t done = 0; done < count;) {
    int64_t line = (first + done) / at->length, within = (first + done) % at->length;
    int64_t some = at->length - within < count - done ? at->length - within : count - done;
    BRAID_ISA_CALL(braid_integer_digest_weights, (uint64_t)line * at->apart + (uint64_t)within * at->step, at->step,
                   some, w + done);
    done += some;
  }
}

static uint32_t number_at(const lie *at, int64_t i) {
  switch (at->dtype) {
  case BRAID_I8:
    return (uint32_t)(int32_t)((const int8_t *)at->data)[i];
  case BRAID_U8:
    return ((const uint8_t *)at->data)[i];
  case BRAID_I16:
    return (uint32_t)(int32_t)((const int16_t *)at->data)[i];
  case BRAID_I32:
    return ((const uint32_t *)at->data)[i];
  default:
    return braid_integer_digest_fold(((const int64_t *)at->data)[i]);
  }
}

static void digest_rows(const lie *at, int64_t from, const uint32_t *w, int64_t count, uint32_t *sums) {
  if (at->dtype == BRAID_I8)
    BRAID_ISA_CALL(braid_integer_digest_i8, (const int8_t *)at->data + from, at->places, w, count, sums);
  else if (at->dtype == BRAID_U8)
    BRAID_ISA_CALL(braid_integer_digest_u8, (const uint8_t *)at->data + from, at->places, w, count, sums);
  else
    BRAID_ISA_CALL(braid_integer_digest_i16, (const int16_t *)at->data + from, at->places, w, count, sums);
}

/* Of memory's places first to first + count - 1 of all samples. */
static uint32_t digest_stretch(const lie *at, int64_t first, int64_t count) {
  uint32_t w[kStretch], digest = 0;
  stretch_weights(at, first, count, w);
  bool narrow = at->dtype != BRAID_I32 && at->dtype != BRAID_I64;
  int64_t b = 0;
  for (; narrow && b + BRAID_DIGEST_ROWS <= at->samples; b += BRAID_DIGEST_ROWS) {
    uint32_t sums[BRAID_DIGEST_ROWS] = {0};
    digest_rows(at, b * at->places + first, w, count, sums);
    for (int r = 0; r < BRAID_DIGEST_ROWS; r++)
      digest += sums[r] * braid_integer_digest_weight(2 * (at->first + (uint64_t)(b + r)) + 1);
  }
  for (; b < at->samples; b++) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += w[i] * number_at(at, b * at->places + first + i);
    digest += sum * braid_integer_digest_weight(2 * (at->first + (uint64_t)b) + 1);
  }
  return digest;
}

static braid_status run_digest(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  (void)state;
  uint64_t first_sample = (uint64_t)braid_attr_int(node->attrs, "first", 0);
  for (size_t i = 0; i < node->input_count; i++) {
    lie at = lie_of(&node->inputs[i].desc, args->inputs[i], first_sample);
    uint32_t digest = 0;
    bool many = at.samples * at.places > kFew;
#pragma omp parallel for schedule(static) reduction(+ : digest) if (many)
    for (int64_t first = 0; first < at.places; first += kStretch)
      digest += digest_stretch(&at, first, at.places - first < kStretch ? at.places - first : kStretch);
    ((uint32_t *)args->outputs[0])[i] = digest;
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kDigest = {.run = run_digest};

static const braid_kernel kKernels[] = {
    {.op = "IntegerDigest", .name = "vector_integer_digest", .layouts = digest_layouts, .implementation = &kDigest},
};

extern const braid_cpu_table braid_cpu_integer_digest;
const braid_cpu_table braid_cpu_integer_digest = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
