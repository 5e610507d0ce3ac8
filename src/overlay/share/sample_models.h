/* Models for tests and measurements of sharing. Their latencies are made up: one core takes what ResNet-50 takes in
 * Table 3 of Zeng et al. 2021 (6.8 fps), times the model's operations over ResNet-50's; k cores are k^power times as
 * fast, the power of ResNet-50 from the same table (98.9 fps on 16), of the others guessed. Switches: from the least
 * to the greatest of Table 2, along the number of cores. Places: their layers. */
#ifndef BRAID_OVERLAY_SHARE_SAMPLE_MODELS_H
#define BRAID_OVERLAY_SHARE_SAMPLE_MODELS_H

#include <math.h>

#include "overlay/share/policy.h"

enum { SAMPLE_MODELS = 4, SAMPLE_CORES = BRAID_OVERLAY_MOST_CORES };

typedef struct sample_models {
  braid_share_model models[SAMPLE_MODELS];
  double seconds[SAMPLE_MODELS][SAMPLE_CORES], switches[SAMPLE_MODELS][SAMPLE_CORES];
} sample_models;

static inline void sample_models_make(sample_models *out) {
  static const struct {
    const char *name;
    double giga_operations, power, least_ms, most_ms;
    size_t layers;
  } kRows[SAMPLE_MODELS] = {{"vgg16", 31, 0.98, 0.45, 0.83, 21},
                            {"resnet50", 7.7, 0.966, 0.89, 1.21, 72},
                            {"inception-v3", 11.4, 0.95, 1.12, 1.70, 110},
                            {"mobilenet", 1.1, 0.8, 0.56, 0.82, 30}};
  for (size_t m = 0; m < SAMPLE_MODELS; m++) {
    for (int k = 1; k <= SAMPLE_CORES; k++) {
      double share = fmin(log2(k) / 4, 1); /* Table 2: 1 to 16 cores */
      out->seconds[m][k - 1] = kRows[m].giga_operations / 7.7 / 6.8 / pow(k, kRows[m].power);
      out->switches[m][k - 1] = 1e-3 * (kRows[m].least_ms + share * (kRows[m].most_ms - kRows[m].least_ms));
    }
    out->models[m] = (braid_share_model){.name = kRows[m].name,
                                         .seconds = out->seconds[m],
                                         .switch_seconds = out->switches[m],
                                         .place_count = kRows[m].layers - 1};
  }
}

#endif
