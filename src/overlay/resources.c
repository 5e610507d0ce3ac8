/* What a design needs of an FPGA: memories and DSPs counted, LUTs and FFs by a model fitted to what was published. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "braid/overlay.h"

enum { kTerms = 4, kLine = 16, kBlockBytes = 8, kUltraDeep = 4096, kBlockDeep = 512 };

/* --- published -----------------------------------------------------------------------------------------------------
 */
/* Zeng et al. 2021, Table 1. Its 16 x 256 is 16 x 64 here: docs/overlay.md says why. */
typedef struct built_row {
  const char *fpga, *name, *design;
  bool recurrent, shared;
  int cores;
  double published[BRAID_OVERLAY_RESOURCES];
} built_row;

static const built_row kBuilt[] = {
    {"U200", "user budget", NULL, false, false, 0, {891e3, 1960e3, 1153, 960, 6824}},
    {"U200", "static CNN 1x8192", "cnn-1x8192", false, false, 1, {242e3, 233e3, 235, 168, 2048}},
    {"U200", "static CNN 16x512", "cnn-16x512", false, false, 16, {418e3, 390e3, 395, 307, 2048}},
    {"U200", "virtualized CNN 16x512", "cnn-16x512", false, true, 16, {436e3, 402e3, 416, 320, 2048}},
    {"U200", "static RNN 1x2048", "rnn-1x1024", true, false, 1, {124e3, 196e3, 265, 256, 1024}},
    {"U200", "static RNN 16x256", "rnn-16x64", true, false, 16, {136e3, 365e3, 300, 256, 1024}},
    {"U200", "virtualized RNN 16x256", "rnn-16x64", true, true, 16, {141e3, 370e3, 316, 256, 1024}},
    {"VU9P", "user budget", NULL, false, false, 0, {891e3, 1961e3, 1153, 960, 6824}},
    {"VU9P", "static CNN 1x8192", "cnn-1x8192", false, false, 1, {242e3, 232e3, 235, 168, 2048}},
    {"VU9P", "static CNN 16x512", "cnn-16x512", false, false, 16, {419e3, 390e3, 395, 307, 2048}},
    {"VU9P", "virtualized CNN 16x512", "cnn-16x512", false, true, 16, {436e3, 401e3, 416, 320, 2048}},
};
enum { kBuiltCount = sizeof kBuilt / sizeof *kBuilt };

/* --- LUTs and FFs --------------------------------------------------------------------------------------------------
 */
/* Of a core for convolutional networks logic grows with the cores, of one for recurrent networks hardly; flip-flops
 * grow alike in both, beside a part that does not depend on either. */
static void terms_of(braid_overlay_resource resource, const built_row *row, double out[kTerms]) {
  double dsps = row->published[BRAID_OVERLAY_DSPS], cores = row->cores;
  bool luts = resource == BRAID_OVERLAY_LUTS;
  out[0] = dsps;
  out[1] = luts ? (row->recurrent ? 0 : cores) : 1;
  out[2] = luts ? (row->recurrent ? cores : 0) : cores;
  out[3] = row->shared ? cores : 0;
}

/* Gauss elimination with the greatest pivot; right[] becomes the solution. */
static void solve(double matrix[kTerms][kTerms], double right[kTerms]) {
  for (int i = 0; i < kTerms; i++) {
    int pivot = i;
    for (int k = i + 1; k < kTerms; k++)
      if (fabs(matrix[k][i]) > fabs(matrix[pivot][i])) pivot = k;
    for (int k = 0; k < kTerms; k++) {
      double other = matrix[i][k];
      matrix[i][k] = matrix[pivot][k];
      matrix[pivot][k] = other;
    }
    double other = right[i];
    right[i] = right[pivot];
    right[pivot] = other;
    for (int row = 0; row < kTerms; row++) {
      if (row == i) continue;
      double factor = matrix[row][i] / matrix[i][i];
      for (int k = i; k < kTerms; k++) matrix[row][k] -= factor * matrix[i][k];
      right[row] -= factor * right[i];
    }
  }
  for (int i = 0; i < kTerms; i++) right[i] /= matrix[i][i];
}

static bool same_design(const built_row *a, const built_row *b) {
  return strcmp(a->design, b->design) == 0 && a->shared == b->shared;
}

/* Least squares over what was built, without rows of the design of `without` (NULL: all): the normal equations. */
static void fit_model(braid_overlay_resource resource, const built_row *without, double out[kTerms]) {
  double matrix[kTerms][kTerms] = {{0}};
  memset(out, 0, kTerms * sizeof *out);
  for (int row = 0; row < kBuiltCount; row++) {
    double terms[kTerms];
    if (!kBuilt[row].design || (without && same_design(without, &kBuilt[row]))) continue;
    terms_of(resource, &kBuilt[row], terms);
    for (int i = 0; i < kTerms; i++) {
      out[i] += terms[i] * kBuilt[row].published[resource];
      for (int k = 0; k < kTerms; k++) matrix[i][k] += terms[i] * terms[k];
    }
  }
  solve(matrix, out);
}

static double model_of(braid_overlay_resource resource, const built_row *row, const built_row *without) {
  double factors[kTerms], terms[kTerms], sum = 0;
  fit_model(resource, without, factors);
  terms_of(resource, row, terms);
  for (int i = 0; i < kTerms; i++) sum += factors[i] * terms[i];
  return sum;
}

/* --- memories ------------------------------------------------------------------------------------------------------
 */
static int64_t quotient_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static braid_overlay_memory memory_of(const char *name, int count, bool ultra, int64_t bytes, int64_t width) {
  int64_t wide = quotient_up(width, kBlockBytes), row = wide * kBlockBytes * (ultra ? kUltraDeep : kBlockDeep);
  return (braid_overlay_memory){name, count, bytes, width, ultra, wide * quotient_up(bytes, row)};
}

size_t braid_overlay_get_memories(const braid_overlay_design *d, braid_overlay_memory out[BRAID_OVERLAY_MEMORIES]) {
  size_t n = 0;
  int64_t burst = (int64_t)d->outstanding * d->burst_bytes, vector = 2 * (int64_t)d->columns;
  if (!d->recurrent) {
    out[n++] = memory_of("feature maps", d->cores, true, d->feature_bytes, (int64_t)d->pixels * d->channels_in);
    out[n++] = memory_of("weights", d->cores, true, d->weight_bytes, (int64_t)d->channels_in * d->channels_out);
    out[n++] = memory_of("sums", d->cores, false, d->sum_bytes, (int64_t)4 * d->pixels * d->channels_out);
  } else {
    out[n++] = memory_of("weights", d->cores, true, d->weight_bytes, (int64_t)2 * d->rows * d->columns);
    out[n++] = memory_of("sums", d->cores, false, d->sum_bytes, kLine); /* of a group of rows after many cycles */
    out[n++] = memory_of("vectors", d->cores, false, d->vector_bytes, vector > kLine ? vector : kLine);
  }
  out[n++] = memory_of("biases", d->cores, false, d->bias_bytes, kLine);
  out[n++] = memory_of("buffers of ports", 2 * d->cores, false, burst, d->port_bits / 8);
  out[n++] = memory_of("instructions", 1, false, d->instruction_bytes, kLine);
  return n;
}

/* --- estimates -----------------------------------------------------------------------------------------------------
 */
const char *braid_overlay_resource_name(braid_overlay_resource resource) {
  static const char *const names[] = {"LUT", "FF", "BRAM", "URAM", "DSP"};
  return names[resource];
}

/* A DSP makes two products of bytes, or one of 16 bits (sections 7.1.3 and 7.1.4). */
static double dsps_of(const braid_overlay_design *design) {
  double products = (double)braid_overlay_core_products(design);
  return design->cores * (design->recurrent ? products : ceil(products / 2));
}

void braid_overlay_estimate(const braid_overlay_design *design, bool shared, double out[BRAID_OVERLAY_RESOURCES]) {
  built_row row = {.recurrent = design->recurrent, .shared = shared, .cores = design->cores};
  memset(out, 0, BRAID_OVERLAY_RESOURCES * sizeof *out);
  out[BRAID_OVERLAY_DSPS] = row.published[BRAID_OVERLAY_DSPS] = dsps_of(design);
  out[BRAID_OVERLAY_LUTS] = model_of(BRAID_OVERLAY_LUTS, &row, NULL);
  out[BRAID_OVERLAY_FFS] = model_of(BRAID_OVERLAY_FFS, &row, NULL);
  braid_overlay_memory memories[BRAID_OVERLAY_MEMORIES];
  size_t count = braid_overlay_get_memories(design, memories);
  for (size_t i = 0; i < count; i++)
    out[memories[i].ultra ? BRAID_OVERLAY_URAMS : BRAID_OVERLAY_BRAMS] +=
        (double)memories[i].count * (double)memories[i].blocks;
}

size_t braid_overlay_built_count(void) {
  return kBuiltCount;
}

braid_status braid_overlay_get_built(size_t index, braid_overlay_built *out) {
  const built_row *row = &kBuilt[index];
  *out = (braid_overlay_built){.fpga = row->fpga, .published_name = row->name, .design = row->design};
  out->shared = row->shared;
  memcpy(out->published, row->published, sizeof out->published);
  for (int i = 0; i < BRAID_OVERLAY_RESOURCES; i++) out->estimated[i] = out->left_out[i] = NAN;
  if (!row->design) return BRAID_OK;
  const braid_overlay_design *design;
  BRAID_TRY(braid_overlay_design_load(NULL, row->design, &design));
  braid_overlay_estimate(design, row->shared, out->estimated);
  braid_overlay_design_destroy(design);
  out->left_out[BRAID_OVERLAY_LUTS] = model_of(BRAID_OVERLAY_LUTS, row, row);
  out->left_out[BRAID_OVERLAY_FFS] = model_of(BRAID_OVERLAY_FFS, row, row);
  return BRAID_OK;
}
