#include "backend/cpu/onednn/winograd.h"

#include <stdint.h>
#include <string.h>

#include "backend/cpu/winograd/filters_isa.h"

enum { kTaps = BRAID_WINOGRAD_TAPS, kLanes = BRAID_WINOGRAD_LANES, kRun = 16 };

static const float kPoints4[4][kTaps] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}};
static const float kPoints6[6][kTaps] = {{1.13777777777778f, 0, 0},
                                         {-0.688403361344538f, -0.430252100840336f, -0.26890756302521f},
                                         {-0.688403361344538f, 0.430252100840336f, -0.26890756302521f},
                                         {0.119514472455649f, 0.179271708683473f, 0.26890756302521f},
                                         {0.119514472455649f, -0.179271708683473f, 0.26890756302521f},
                                         {0, 0, 1}};

/* Filters lie as [filters / big / 16][point][point][channels / piece][big][piece][16] (4x4 tiles), or the same with the
 * points outermost and pieces of one channel (2x2). */
typedef struct packing {
  int points;
  const float (*matrix)[kTaps];
  int64_t filters, channels;          /* as given */
  int64_t padded, blocks, piece, big; /* channels and blocks of filters there will be */
  bool points_first;
} packing;

/* Where the first point of a block of filters and a channel goes. */
static int64_t offset_of(const packing *p, int64_t block, int64_t channel) {
  int64_t group = block / p->big, within = block % p->big;
  int64_t piece = channel / p->piece, rest = channel % p->piece;
  int64_t groups = p->points_first ? group : group * p->points * p->points;
  return (((groups * (p->padded / p->piece) + piece) * p->big + within) * p->piece + rest) * kLanes;
}

static bool read_packing(const dnnl_memory_desc_t *to, packing *out) {
  if (to->format_kind != dnnl_format_kind_wino || to->data_type != dnnl_f32) return false;
  const dnnl_wino_desc_t *wino = &to->format_desc.wino_desc;
  bool grouped = wino->wino_format == dnnl_wino_wei_aaOBiOo;
  bool small = (wino->wino_format == dnnl_wino_wei_aaOio || grouped) && wino->alpha == 4;
  bool large = wino->wino_format == dnnl_wino_wei_OBaaIBOIio && wino->alpha == 6;
  if ((!small && !large) || wino->r != kTaps || wino->oc_block != kLanes || wino->ic_block <= 0) return false;
  *out = (packing){.points = wino->alpha,
                   .matrix = small ? kPoints4 : kPoints6,
                   .padded = wino->ic,
                   .blocks = wino->oc / kLanes,
                   .piece = small ? 1 : (int64_t)wino->ic2_block * wino->ic_block,
                   .big = small && !grouped ? 1 : wino->oc2_block,
                   .points_first = small};
  return out->piece > 0 && out->big > 0 && out->padded % out->piece == 0 && out->blocks % out->big == 0 &&
         wino->oc % kLanes == 0;
}

bool braid_winograd_pack(const dnnl_memory_desc_t *to, int64_t filters, int64_t channels, const float *from,
                         float *out) {
  packing p;
  if (!read_packing(to, &p)) return false;
  p.filters = filters;
  p.channels = channels;
  int64_t next = (p.points_first ? p.blocks : p.big) * p.padded * kLanes;
  int64_t runs = (p.padded + kRun - 1) / kRun;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t block = 0; block < p.blocks; block++)
    for (int64_t run = 0; run < runs; run++) {
      int64_t first = block * kLanes, left = p.filters - first < 0 ? 0 : p.filters - first;
      for (int64_t c = run * kRun; c < (run + 1) * kRun && c < p.padded; c++) {
        const float *filter = from + (first * p.channels + c) * kTaps * kTaps;
        int64_t count = c < p.channels ? left : 0;
        BRAID_ISA_CALL(braid_winograd_transform, count ? filter : from, p.channels * kTaps * kTaps,
                       count < kLanes ? count : kLanes, p.matrix, p.points, out + offset_of(&p, block, c), next);
      }
    }
  return true;
}
