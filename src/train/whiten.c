/* The filters of a first convolution from the data: the principal directions of its patches, each scaled so that what
 * it gives has a variance of 1 (LeCun et al., "Efficient BackProp", 1998, on inputs without correlation; as frozen
 * first layer Page, "How to Train Your ResNet", 2019). */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "train/data/dataset.h"
#include "train/step.h"

/* As many patches as tell the directions of a few hundred numbers well, of samples all over the data set. */
enum { kMostSamples = 2048, kMostPatches = 512, kMostNumbers = 512, kSweeps = 60 };
/* Of the mean variance of a patch's numbers: so much is added to each direction's, so that noise is not blown up. */
static const double kFloor = 5e-4;

/* A patch: `channels` planes of height x width numbers, which lie apart by the convolution's dilations. */
typedef struct patches {
  int channels, height, width, step_y, step_x;
  size_t numbers; /* of a patch */
  double *mean;
  double *covariance; /* numbers x numbers */
  double *directions; /* eigenvectors, one a row; then their eigenvalues */
  double *variances;
} patches;

/* --- the convolution ------------------------------------------------------------------------------------------------
 */
/* The one node that reads the samples. */
static braid_status find_first_conv(const braid_graph *graph, braid_node_id *out) {
  braid_value_id input = braid_graph_input(graph, 0);
  size_t readers = 0;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++) {
      if (graph->nodes[i].inputs[k] != input) continue;
      *out = (braid_node_id)i;
      readers++;
    }
  if (readers == 1 && braid_node_is(&graph->nodes[*out], "Conv")) return BRAID_OK;
  if (readers == 1)
    return braid_fail(BRAID_UNSUPPORTED,
                      "the model begins with %.80s, a %s: a Conv that reads the samples is expected to be whitened "
                      "(mean= and std= of the data set normalize them before)",
                      graph->nodes[*out].name, graph->nodes[*out].op->name);
  return braid_fail(BRAID_UNSUPPORTED,
                    "%zu operands are the samples: one Conv that reads them is expected to be whitened", readers);
}

static size_t count_uses(const braid_graph *graph, braid_value_id value) {
  size_t uses = 0;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; k < graph->nodes[i].input_count; k++) uses += graph->nodes[i].inputs[k] == value;
  return uses;
}

static braid_status describe_patches(const braid_graph *graph, const braid_node *conv, const braid_dataset_info *info,
                                     patches *p) {
  const braid_value *filters = &graph->values[conv->inputs[1]];
  const braid_desc *desc = &filters->desc;
  const braid_attr *dilations = braid_attrs_find(&conv->attrs, "dilations");
  if (!filters->tensor || filters->kind == BRAID_VALUE_RESULT || desc->dtype != BRAID_F32 || desc->rank != 4 ||
      braid_attr_int(&conv->attrs, "group", 1) != 1 || count_uses(graph, conv->inputs[1]) != 1)
    return braid_fail(BRAID_UNSUPPORTED,
                      "%.80s can't be whitened: one group of float32 filters of two dimensions that it alone uses is "
                      "expected",
                      conv->name);
  p->step_y = dilations && dilations->count == 2 ? (int)dilations->ints[0] : 1;
  p->step_x = dilations && dilations->count == 2 ? (int)dilations->ints[1] : 1;
  int64_t numbers = desc->dims[1] * desc->dims[2] * desc->dims[3];
  bool fits = desc->dims[1] == info->channels && (desc->dims[2] - 1) * p->step_y < info->height &&
              (desc->dims[3] - 1) * p->step_x < info->width;
  if (!fits || numbers > kMostNumbers)
    return braid_fail(BRAID_UNSUPPORTED,
                      "%.80s can't be whitened: it has filters of %lldx%lldx%lld numbers; at most %d altogether are "
                      "expected, of the data's %d channels, inside of pictures of %dx%d",
                      conv->name, (long long)desc->dims[1], (long long)desc->dims[2], (long long)desc->dims[3],
                      kMostNumbers, info->channels, info->height, info->width);
  p->channels = info->channels;
  p->height = (int)desc->dims[2];
  p->width = (int)desc->dims[3];
  p->numbers = (size_t)numbers;
  return BRAID_OK;
}

/* --- statistics ----------------------------------------------------------------------------------------------------
 */
static void add_patch(patches *p, const float *pixels, int height, int width, int top, int left, double *patch) {
  size_t n = p->numbers, at = 0;
  for (int c = 0; c < p->channels; c++)
    for (int y = 0; y < p->height; y++)
      for (int x = 0; x < p->width; x++)
        patch[at++] = pixels[((ptrdiff_t)c * height + top + y * p->step_y) * width + left + x * p->step_x];
  for (size_t i = 0; i < n; i++) {
    p->mean[i] += patch[i];
    for (size_t k = 0; k <= i; k++) p->covariance[i * n + k] += patch[i] * patch[k];
  }
}

/* Patches of one sample, evenly spread where they are many; returns how many. */
static int64_t add_sample(patches *p, const braid_dataset_info *info, const float *pixels, double *patch) {
  int64_t wide = info->width - (int64_t)(p->width - 1) * p->step_x;
  int64_t all = wide * (info->height - (int64_t)(p->height - 1) * p->step_y);
  int64_t taken = all < kMostPatches ? all : kMostPatches;
  for (int64_t i = 0; i < taken; i++) {
    int64_t at = i * all / taken;
    add_patch(p, pixels, info->height, info->width, (int)(at / wide), (int)(at % wide), patch);
  }
  return taken;
}

static void finish_covariance(patches *p, int64_t count) {
  size_t n = p->numbers;
  for (size_t i = 0; i < n; i++) p->mean[i] /= (double)count;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k <= i; k++)
      p->covariance[k * n + i] = p->covariance[i * n + k] =
          p->covariance[i * n + k] / (double)count - p->mean[i] * p->mean[k];
}

static braid_status measure_patches(patches *p, const braid_dataset *dataset) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  const braid_allocator *allocator = braid_dataset_allocator(dataset);
  size_t floats = (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  int64_t samples = info.samples < kMostSamples ? info.samples : kMostSamples, count = 0;
  float *pixels = braid_zalloc_array(allocator, floats, sizeof *pixels);
  float *scratch = braid_zalloc_array(allocator, braid_dataset_scratch(dataset), sizeof *scratch);
  void *target = braid_zalloc(allocator, braid_dataset_target_bytes(dataset));
  double *patch = braid_zalloc_array(allocator, p->numbers, sizeof *patch);
  braid_status status = pixels && scratch && target && patch ? BRAID_OK : BRAID_NO_MEMORY;
  for (int64_t i = 0; status == BRAID_OK && i < samples; i++) {
    int64_t index = (int64_t)((double)i * (double)info.samples / (double)samples);
    status = braid_dataset_read(dataset, index, NULL, scratch, pixels, target);
    if (status == BRAID_OK) count += add_sample(p, &info, pixels, patch);
  }
  if (status == BRAID_OK) finish_covariance(p, count);
  braid_free(allocator, patch);
  braid_free(allocator, target);
  braid_free(allocator, scratch);
  braid_free(allocator, pixels);
  return status;
}

/* --- directions ----------------------------------------------------------------------------------------------------
 */
/* Turns rows and columns i and k of the covariance, and the directions, so that [i][k] becomes 0. */
static void rotate(patches *p, size_t i, size_t k) {
  size_t n = p->numbers;
  double *a = p->covariance, *v = p->directions, off = a[i * n + k];
  double theta = (a[k * n + k] - a[i * n + i]) / (2 * off);
  double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1), s = t * c;
  for (size_t j = 0; j < n; j++) {
    double one = a[j * n + i], other = a[j * n + k];
    a[j * n + i] = c * one - s * other;
    a[j * n + k] = s * one + c * other;
  }
  for (size_t j = 0; j < n; j++) {
    double one = a[i * n + j], other = a[k * n + j];
    a[i * n + j] = c * one - s * other;
    a[k * n + j] = s * one + c * other;
    one = v[i * n + j], other = v[k * n + j];
    v[i * n + j] = c * one - s * other;
    v[k * n + j] = s * one + c * other;
  }
}

/* Jacobi's method: eigenvectors and eigenvalues of the covariance. */
static void find_directions(patches *p) {
  size_t n = p->numbers;
  double trace = 0;
  for (size_t i = 0; i < n; i++) {
    p->directions[i * n + i] = 1;
    trace += p->covariance[i * n + i];
  }
  for (int sweep = 0; sweep < kSweeps; sweep++) {
    size_t turned = 0;
    for (size_t i = 0; i < n; i++)
      for (size_t k = i + 1; k < n; k++) {
        if (!(fabs(p->covariance[i * n + k]) > 1e-15 * trace)) continue;
        rotate(p, i, k);
        turned++;
      }
    if (!turned) break;
  }
  for (size_t i = 0; i < n; i++) p->variances[i] = fmax(p->covariance[i * n + i], 0);
}

/* Of greatest variance among those that are left; it is then taken. */
static size_t next_direction(const patches *p, bool *taken) {
  size_t best = p->numbers;
  for (size_t i = 0; i < p->numbers; i++)
    if (!taken[i] && (best == p->numbers || p->variances[i] > p->variances[best])) best = i;
  taken[best] = true;
  return best;
}

/* Filter 2i is the direction of i-th greatest variance, 2i + 1 its opposite; what is beyond stays. */
static braid_status write_filters(const patches *p, braid_tensor *filters) {
  size_t n = p->numbers, count = (size_t)braid_tensor_desc(filters)->dims[0];
  float *out = braid_tensor_data(filters);
  double mean = 0;
  bool taken[kMostNumbers] = {false};
  for (size_t i = 0; i < n; i++) mean += p->variances[i] / (double)n;
  if (!(mean > 0) || !isfinite(mean))
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "the samples' patches do not differ, or are not finite: nothing to whiten");
  for (size_t f = 0; f < count && f < 2 * n; f += 2) {
    size_t of = next_direction(p, taken), largest = 0;
    const double *direction = p->directions + of * n;
    for (size_t i = 1; i < n; i++)
      if (fabs(direction[i]) > fabs(direction[largest])) largest = i;
    double scale = copysign(1 / sqrt(p->variances[of] + kFloor * mean), direction[largest]);
    for (size_t i = 0; i < n; i++) {
      out[f * n + i] = (float)(scale * direction[i]);
      if (f + 1 < count) out[(f + 1) * n + i] = (float)(-scale * direction[i]);
    }
  }
  return BRAID_OK;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status whiten(braid_graph *graph, const braid_dataset *dataset) {
  braid_dataset_info info = braid_dataset_get_info(dataset);
  braid_node_id node = -1;
  patches p = {.numbers = 0};
  BRAID_TRY(find_first_conv(graph, &node));
  BRAID_TRY(describe_patches(graph, &graph->nodes[node], &info, &p));
  braid_value *value = &graph->values[graph->nodes[node].inputs[1]];
  size_t n = p.numbers;
  braid_tensor *filters;
  BRAID_TRY(braid_tensor_create(graph->allocator, &value->desc, &filters));
  memcpy(braid_tensor_data(filters), braid_tensor_const_data(value->tensor), braid_desc_bytes(&value->desc));
  p.mean = braid_zalloc_array(graph->allocator, 2 * n * n + 2 * n, sizeof *p.mean);
  p.covariance = p.mean ? p.mean + n : NULL;
  p.directions = p.mean ? p.covariance + n * n : NULL;
  p.variances = p.mean ? p.directions + n * n : NULL;
  braid_status status = p.mean ? measure_patches(&p, dataset) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    find_directions(&p);
    status = write_filters(&p, filters);
  }
  if (status == BRAID_OK) {
    braid_tensor_release(value->tensor);
    value->tensor = braid_tensor_retain(filters);
  }
  braid_tensor_release(filters);
  braid_free(graph->allocator, p.mean);
  return status;
}

braid_status braid_whiten_filters(const braid_graph *model, braid_dataset *dataset, braid_graph **out) {
  *out = NULL;
  braid_graph *graph;
  BRAID_TRY(braid_graph_clone(model, &graph));
  braid_status status = braid_graph_unresolve(graph);
  if (status == BRAID_OK && !graph->input_count) status = braid_fail(BRAID_INVALID_GRAPH, "the model has no input");
  if (status == BRAID_OK) status = whiten(graph, dataset);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}
