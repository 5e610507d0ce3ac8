/* DFT along one axis, in double. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/plain/fft.h"
#include "backend/cpu/plain/float.h"
#include "base/try.h"

/* Lines along an axis; `parts` of a number: 1 real, 2 complex. */
typedef struct dft_state {
  braid_ref_float base;
  int64_t outer, inner, from, to; /* from, to: numbers of a line */
  int from_parts, to_parts, threads;
  bool inverse, mirrored; /* mirrored: the input is the half of a symmetric line */
  braid_fft fft;
} dft_state;

static int64_t known_number(const braid_operand *operand) {
  return operand->desc.dtype == BRAID_I32 ? *(const int32_t *)operand->constant : *(const int64_t *)operand->constant;
}

static bool is_given(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

static bool match_dft(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 1; i < 3; i++)
    if (is_given(node, i) && !node->inputs[i].constant) {
      snprintf(why, why_bytes, "input %zu is not known before the run", i);
      return false;
    }
  return braid_ref_match_float(node, why, why_bytes);
}

/* The half of a symmetric line as a whole: the other half is conjugated, and two numbers are their own. */
static void unfold(double *line, int64_t length) {
  line[1] = 0;
  if (length % 2 == 0) line[length + 1] = 0;
  for (int64_t i = length / 2 + 1; i < length; i++) {
    line[2 * i] = line[2 * (length - i)];
    line[2 * i + 1] = -line[2 * (length - i) + 1];
  }
}

/* Of scratch memory, for each thread. */
static size_t thread_numbers(const dft_state *s) {
  return 2 * (size_t)(s->fft.length + braid_fft_scratch(&s->fft));
}

#define T float
#define BRAID_REF_NAME(name) name##_f32
#include "backend/cpu/plain/fourier_template.h"
#undef T
#undef BRAID_REF_NAME
#define T double
#define BRAID_REF_NAME(name) name##_f64
#include "backend/cpu/plain/fourier_template.h"
#undef T
#undef BRAID_REF_NAME

static braid_status init_dft(const braid_node_desc *node, void *self) {
  dft_state *s = self;
  const braid_desc *x = &node->inputs[0].desc, *y = &node->outputs[0].desc;
  int64_t axis = is_given(node, 2) ? known_number(&node->inputs[2]) : -2;
  if (axis < 0) axis += x->rank;
  s->outer = s->inner = 1;
  for (int64_t i = 0; i < axis; i++) s->outer *= x->dims[i];
  for (int64_t i = axis + 1; i < x->rank - 1; i++) s->inner *= x->dims[i];
  s->inverse = braid_attr_int(node->attrs, "inverse", 0) != 0;
  s->mirrored = s->inverse && braid_attr_int(node->attrs, "onesided", 0) != 0;
  s->from = x->dims[axis];
  s->to = y->dims[axis];
  s->from_parts = (int)x->dims[x->rank - 1];
  s->to_parts = (int)y->dims[y->rank - 1];
  int64_t lines = s->outer * s->inner;
  s->threads = node->threads == 1 ? 1 : omp_get_max_threads();
  if (s->threads > lines) s->threads = lines ? (int)lines : 1;
  braid_fft_choose(&s->fft, is_given(node, 1) ? known_number(&node->inputs[1])
                            : s->mirrored     ? 2 * (s->from - 1)
                                              : s->from);
  s->base.scratch_bytes = (size_t)s->threads * thread_numbers(s) * sizeof(double);
  return BRAID_OK;
}

/* --- the kernel ----------------------------------------------------------------------------------------------------
 */
static void destroy_dft(const braid_allocator *allocator, void *self) {
  dft_state *s = self;
  braid_fft_deinit(allocator, &s->fft);
  braid_free(allocator, s);
}

static braid_status create_dft(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                               braid_prepared_info *info) {
  static const braid_ref_op op = {sizeof(dft_state), init_dft, dft_f32, dft_f64};
  BRAID_TRY(braid_ref_create(allocator, node, &op, state, info));
  dft_state *s = *state;
  braid_status status = braid_fft_allocate(allocator, &s->fft);
  if (status == BRAID_OK) return BRAID_OK;
  braid_free(allocator, s);
  *state = NULL;
  return status;
}

static braid_status finish_dft(void *self) {
  dft_state *s = self;
  braid_fft_fill(&s->fft);
  return BRAID_OK;
}

static const braid_cpu_kernel kDft = {
    .create = create_dft, .run = braid_ref_run, .destroy = destroy_dft, .finish = finish_dft};

static const braid_kernel kKernels[] = {
    {.op = "DFT", .name = "ref_dft", .match = match_dft, .implementation = &kDft},
};

extern const braid_cpu_table braid_cpu_plain_fourier;
const braid_cpu_table braid_cpu_plain_fourier = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
