/* How fast the functional simulator computes: the convolutions of ResNet-50 at 224 x 224, each as CONVs of PP rows over
 * all of its channels, on one thread of this machine; and products of matrices and vectors. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "overlay/sim/functional.h"

enum { kLine = 16, kMemory = 1 << 24, kMostCode = 1 << 16 };

/* A convolution of so many layers: square maps and kernels. */
typedef struct layer {
  int count, channels_in, channels_out, in, kernel, stride;
} layer;

static const layer kLayers[] = {
    {1, 3, 64, 224, 7, 2},     {1, 64, 64, 56, 1, 1},    {3, 64, 64, 56, 3, 1},    {4, 64, 256, 56, 1, 1},
    {2, 256, 64, 56, 1, 1},    {1, 256, 128, 56, 1, 1},  {1, 128, 128, 56, 3, 2},  {4, 128, 512, 28, 1, 1},
    {1, 256, 512, 56, 1, 2},   {3, 512, 128, 28, 1, 1},  {3, 128, 128, 28, 3, 1},  {1, 512, 256, 28, 1, 1},
    {1, 256, 256, 28, 3, 2},   {6, 256, 1024, 14, 1, 1}, {1, 512, 1024, 28, 1, 2}, {5, 1024, 256, 14, 1, 1},
    {5, 256, 256, 14, 3, 1},   {1, 1024, 512, 14, 1, 1}, {1, 512, 512, 14, 3, 2},  {3, 512, 2048, 7, 1, 1},
    {1, 1024, 2048, 14, 1, 2}, {2, 2048, 512, 7, 1, 1},  {2, 512, 512, 7, 3, 1},   {1, 2048, 1000, 1, 1, 1},
};

static size_t assemble(const layer *of, int rows, uint8_t *code) {
  size_t at = 0, length;
  int out = (of->in + of->stride - 1) / of->stride, lines = of->in * of->in * ((of->channels_in + 15) / 16);
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_CONV), last = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.conv = (braid_isa_conv){.input_plane = of->in * of->in,
                             .input_pitch = of->in,
                             .input_rows = of->in,
                             .input_columns = of->in,
                             .first_column = -(of->kernel / 2),
                             .kernel_rows = of->kernel,
                             .kernel_columns = of->kernel,
                             .stride_rows = of->stride,
                             .stride_columns = of->stride,
                             .dilation_rows = 1,
                             .dilation_columns = 1,
                             .output_plane = out * out,
                             .output_pitch = out,
                             .output_columns = out,
                             .low = -128,
                             .high = 127,
                             .channels_in = of->channels_in,
                             .channels_out = of->channels_out,
                             .start = 1,
                             .finish = 1,
                             .shift = 10};
  for (int row = 0; row < out; row += rows) {
    in.conv.first_row = row * of->stride - of->kernel / 2;
    in.conv.output = lines + row * out;
    in.conv.output_rows = out - row < rows ? out - row : rows;
    if (braid_isa_encode(&in, code + at, &length) != BRAID_OK) abort();
    at += length;
  }
  last.system.end = 1;
  if (braid_isa_encode(&last, code + at, &length) != BRAID_OK) abort();
  return at + length;
}

/* Runs a program of one core; seconds, or less than 0 after printing what failed. */
static double measure(const braid_overlay_design *design, const uint8_t *code, size_t bytes, bool races,
                      braid_functional_counts *counts) {
  braid_overlay_code text = {code, bytes};
  braid_overlay_image image = {0};
  braid_functional_options options = {.races = races};
  braid_functional *simulator;
  double seconds = -1;
  if (braid_functional_create(design, 1, &text, NULL, &simulator) == BRAID_OK) {
    int64_t began = braid_now_ns();
    if (braid_functional_run(simulator, &image, &options, counts) == BRAID_OK)
      seconds = (double)(braid_now_ns() - began) / 1e9;
    braid_functional_destroy(simulator);
  }
  if (seconds < 0) fprintf(stderr, "%s\n", braid_error_detail());
  return seconds;
}

static bool measure_convolutions(uint8_t *code, bool races) {
  braid_overlay_design design = {.pixels = 4,
                                 .channels_in = 8,
                                 .channels_out = 8,
                                 .feature_bytes = kMemory,
                                 .weight_bytes = kMemory,
                                 .bias_bytes = 1 << 16,
                                 .queue_depth = 8};
  double total = 0, macs = 0;
  for (size_t l = 0; l < sizeof kLayers / sizeof *kLayers; l++) {
    const layer *of = &kLayers[l];
    braid_functional_counts counts;
    double seconds = measure(&design, code, assemble(of, design.pixels, code), races, &counts);
    if (seconds < 0) return false;
    if (!races)
      printf("%d x %4d -> %4d, %3d, %d x %d: %6.2f G multiply-accumulates/s\n", of->count, of->channels_in,
             of->channels_out, of->in, of->kernel, of->kernel, (double)counts.multiply_accumulates / seconds / 1e9);
    total += of->count * seconds;
    macs += of->count * (double)counts.multiply_accumulates;
  }
  printf("ResNet-50's convolutions%s: %.2f G multiply-accumulates in %.2f s\n", races ? ", looked at for races" : "",
         macs / 1e9, total);
  return true;
}

static bool measure_matrix(uint8_t *code) {
  enum { kSize = 1500, kTimes = 20 };
  braid_overlay_design design = {.recurrent = true,
                                 .rows = 8,
                                 .columns = 8,
                                 .weight_bytes = kMemory,
                                 .bias_bytes = 1 << 16,
                                 .vector_bytes = 1 << 16,
                                 .queue_depth = 8};
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MVM), last = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  braid_functional_counts counts;
  size_t at = 0, length;
  in.mvm = (braid_isa_mvm){.output = 1000, .rows = kSize, .columns = kSize, .start = 1, .finish = 1};
  last.system.end = 1;
  for (int i = 0; i <= kTimes; i++, at += length)
    if (braid_isa_encode(i < kTimes ? &in : &last, code + at, &length) != BRAID_OK) abort();
  double seconds = measure(&design, code, at, false, &counts);
  printf("matrix of %d x %d times vector: %.2f G multiply-accumulates/s\n", kSize, kSize,
         (double)counts.multiply_accumulates / seconds / 1e9);
  return seconds >= 0;
}

int main(void) {
  static uint8_t code[kMostCode];
  return measure_convolutions(code, false) && measure_convolutions(code, true) && measure_matrix(code) ? 0 : 1;
}
