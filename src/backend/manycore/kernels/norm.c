/* BatchNormalization of inference: each core takes some channels of an image, or pieces of one. */
#include <math.h>
#include <string.h>

#include "backend/manycore/kernel.h"
#include "backend/manycore/sw26010.h"

enum { kX, kScale, kBias, kMean, kVariance, kY, kParameters = 4 };

typedef struct norm_plan {
  int64_t batch, channels, plane;
  int64_t block, piece; /* channels of a tile, or 1; elements of a channel */
  int64_t blocks, pieces;
  float epsilon;
  bool two_buffers;
} norm_plan;

static bool norm_tile(norm_plan *p, int64_t elements, int buffers) {
  int64_t each = elements / buffers;
  /* Whole channels, or pieces of one. */
  int64_t room = each - kParameters * 16;
  if (room < 16) return false;
  p->piece = braid_manycore_min(p->plane, room / 16 * 16);
  p->block = 1;
  while (p->piece == p->plane && p->block < p->channels &&
         braid_manycore_room(2 * p->block * p->plane) + kParameters * braid_manycore_room(2 * p->block) <= each)
    p->block *= 2;
  p->two_buffers = buffers == 2;
  return true;
}

static bool norm_plan_init(const braid_node_desc *node, const braid_manycore_group *group, void *out, char *why,
                           size_t why_bytes) {
  norm_plan *p = out;
  const braid_desc *x = &node->inputs[0].desc;
  if (!braid_manycore_all_float(node, why, why_bytes)) return false;
  if (braid_attr_int(node->attrs, "training_mode", 0) || (node->output_count > 1 && node->outputs[1].present))
    return braid_manycore_refuse(why, why_bytes, "compute cores normalize by running statistics, not in training mode");
  if (x->rank < 2) return braid_manycore_refuse(why, why_bytes, "compute cores take rank 2 or more, not %d", x->rank);
  *p = (norm_plan){.batch = x->dims[0], .channels = x->dims[1], .plane = 1};
  for (int i = 2; i < x->rank; i++) p->plane *= x->dims[i];
  p->epsilon = (float)braid_attr_float(node->attrs, "epsilon", 1e-5);
  if (p->batch * p->channels * p->plane == 0) return true;
  int64_t elements = (int64_t)(group->scratchpad / sizeof(float));
  if (!norm_tile(p, elements, 2) && !norm_tile(p, elements, 1))
    return braid_manycore_refuse(why, why_bytes,
                                 "a channel's parameters and 64 bytes of it do not fit into a "
                                 "scratchpad of %zu bytes",
                                 group->scratchpad);
  /* Smaller tiles where cores would have none. */
  while (p->block > 1 && p->batch * braid_manycore_quotient(p->channels, p->block) < group->cores) p->block /= 2;
  while (p->block == 1 && p->piece > 64 &&
         p->batch * p->channels * braid_manycore_quotient(p->plane, p->piece) < group->cores)
    p->piece = braid_manycore_room(braid_manycore_quotient(p->piece, 2));
  p->blocks = braid_manycore_quotient(p->channels, p->block);
  p->pieces = braid_manycore_quotient(p->plane, p->piece);
  return true;
}

static void normalize(const norm_plan *p, float *x, float *const *parameters, int64_t channels, int64_t run) {
  for (int64_t c = 0; c < channels; c++) {
    float factor = parameters[0][c] / sqrtf(parameters[3][c] + p->epsilon);
    float mean = parameters[2][c], bias = parameters[1][c];
    for (int64_t i = 0; i < run; i++) x[c * run + i] = factor * (x[c * run + i] - mean) + bias;
  }
}

static void norm_run(braid_manycore_core *core, const void *plan) {
  const norm_plan *p = plan;
  float *x[2] = {NULL}, *parameters[2][kParameters] = {{NULL}};
  core->two_buffers = p->two_buffers;
  if (!p->blocks) return;
  for (int b = 0; b <= p->two_buffers; b++) {
    if (!(x[b] = braid_manycore_take(core, p->block * p->piece))) return;
    for (int k = 0; k < kParameters; k++)
      if (!(parameters[b][k] = braid_manycore_take(core, p->block))) return;
  }
  int64_t turn = 0;
  for (int64_t item = core->id; item < p->batch * p->blocks * p->pieces; item += core->group->cores, turn++) {
    int64_t piece = item % p->pieces, channel = item / p->pieces % p->blocks * p->block;
    int64_t image = item / p->pieces / p->blocks, first = piece * p->piece;
    int64_t channels = braid_manycore_min(p->block, p->channels - channel);
    int64_t run = braid_manycore_min(p->piece, p->plane - first);
    int b = p->two_buffers ? (int)(turn & 1) : 0;
    braid_manycore_block block = {kX, (image * p->channels + channel) * p->plane + first, channels, run, p->plane, run,
                                  1};
    braid_manycore_get(core, x[b], &block);
    for (int k = 0; k < kParameters; k++)
      braid_manycore_get(core, parameters[b][k],
                         &(braid_manycore_block){kScale + k, channel, 1, channels, channels, channels, 1});
    double vectors = (double)channels * braid_sw26010_vectors(run);
    if (braid_manycore_compute(core, braid_sw26010_pass_cycles(vectors, 2, 2), 0))
      normalize(p, x[b], parameters[b], channels, run);
    block.operand = kY;
    braid_manycore_put(core, x[b], &block);
    braid_manycore_step(core);
  }
}

_Static_assert(sizeof(norm_plan) <= BRAID_MANYCORE_PLAN_BYTES, "a plan holds it");
static const braid_manycore_kernel kNorm = {norm_plan_init, norm_run, NULL};
static const braid_kernel kKernels[] = {
    {.op = "BatchNormalization", .name = "core_batch_norm", .in_place = 1, .implementation = &kNorm},
};
const braid_manycore_table braid_manycore_norms = {kKernels, sizeof kKernels / sizeof *kKernels};
