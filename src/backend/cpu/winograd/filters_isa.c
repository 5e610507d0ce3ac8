#include "backend/cpu/winograd/filters_isa.h"

enum { kTaps = BRAID_WINOGRAD_TAPS, kLanes = BRAID_WINOGRAD_LANES, kMaxPoints = 6 };

void BRAID_ISA_NAME(braid_winograd_transform)(const float *from, int64_t filter_stride, int64_t filters,
                                              const float (*matrix)[BRAID_WINOGRAD_TAPS], int points, float *out,
                                              int64_t next) {
  float taps[kTaps][kTaps][kLanes] = {{{0}}}, rows[kTaps][kMaxPoints][kLanes];
  for (int64_t o = 0; o < filters; o++)
    for (int k = 0; k < kTaps * kTaps; k++) taps[k / kTaps][k % kTaps][o] = from[o * filter_stride + k];
  for (int y = 0; y < kTaps; y++)
    for (int j = 0; j < points; j++)
      for (int o = 0; o < kLanes; o++)
        rows[y][j][o] = matrix[j][0] * taps[y][0][o] + matrix[j][1] * taps[y][1][o] + matrix[j][2] * taps[y][2][o];
  for (int i = 0; i < points; i++)
    for (int j = 0; j < points; j++, out += next)
      for (int o = 0; o < kLanes; o++)
        out[o] = matrix[i][0] * rows[0][j][o] + matrix[i][1] * rows[1][j][o] + matrix[i][2] * rows[2][j][o];
}
