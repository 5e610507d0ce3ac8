/* CONV: the weights are packed as rows of 16-bit numbers, one for each channel of the result; the input under a few
 * results is gathered into such rows too; and products of rows are what compilers make fast code of. Weights stay
 * packed while the instructions that follow use the same ones. */
#include "overlay/sim/core.h"
#include "overlay/sim/numbers.h"

enum {
  kLane = 16,
  kPixels = 4,    /* results whose input is gathered together */
  kSpan = 1 << 16 /* products of bytes that 32 bits have the room for, twice */
};

typedef struct convolution {
  const braid_isa_conv *conv;
  const braid_overlay_design *design;
  const int8_t *features; /* of the core */
  const int8_t *weights;
  const int32_t *biases;
  int32_t *sums;
  int16_t *packed, *gathered;
  int64_t taps, depth, pitch; /* of a packed row: its numbers, and the same up to a multiple of 16 */
} convolution;

static int64_t up(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

static int64_t pitch_of(const braid_isa_conv *conv) {
  return up((int64_t)conv->kernel_rows * conv->kernel_columns * conv->channels_in, kLane);
}

void braid_overlay_conv_space(const braid_instruction *instruction, int64_t *packed, int64_t *gathered) {
  const braid_isa_conv *conv = &instruction->conv;
  *packed = *gathered = 0;
  if (instruction->opcode != BRAID_ISA_OP_CONV) return;
  int64_t taps = (int64_t)conv->kernel_rows * conv->kernel_columns;
  *packed = conv->depthwise ? up(conv->channels_out, kLane) * taps : pitch_of(conv) * conv->channels_out;
  *gathered = conv->depthwise ? 0 : pitch_of(conv) * kPixels;
}

int64_t braid_overlay_conv_sums(int64_t channels) {
  return kPixels * channels;
}

/* Of row `row` and column `column` of a plane; NULL: that is padding. */
static const int8_t *line_at(const braid_isa_conv *conv, const int8_t *features, int32_t plane, int32_t row,
                             int32_t column) {
  if (row < 0 || row >= conv->input_rows || column < 0 || column >= conv->input_columns) return NULL;
  size_t line = (size_t)conv->input + (size_t)plane * (size_t)conv->input_plane +
                (size_t)row * (size_t)conv->input_pitch + (size_t)column;
  return features + line * kLane;
}

/* --- all channels of the input --------------------------------------------------------------------------------------
 */
static void pack_weights(const convolution *own) {
  const braid_isa_conv *conv = own->conv;
  int64_t icp = own->design->channels_in, ocp = own->design->channels_out;
  int64_t groups = (conv->channels_in + icp - 1) / icp;
  for (int64_t c = 0; c < conv->channels_out; c++) {
    int16_t *row = own->packed + c * own->pitch;
    for (int64_t t = 0; t < own->taps; t++)
      for (int64_t g = 0; g < groups; g++) {
        const int8_t *from = own->weights + ((((c / ocp) * own->taps + t) * groups + g) * ocp + c % ocp) * icp;
        int64_t count = conv->channels_in - g * icp < icp ? conv->channels_in - g * icp : icp;
        int16_t *to = row + t * conv->channels_in + g * icp;
        for (int64_t n = 0; n < count; n++) to[n] = from[n];
      }
    for (int64_t n = own->depth; n < own->pitch; n++) row[n] = 0;
  }
}

/* The input under result (r, x), by taps, in them channels. */
static void gather(const convolution *own, int32_t r, int32_t x, int16_t *to) {
  const braid_isa_conv *conv = own->conv;
  for (int32_t i = 0; i < conv->kernel_rows; i++)
    for (int32_t k = 0; k < conv->kernel_columns; k++) {
      int32_t row = conv->first_row + r * conv->stride_rows + i * conv->dilation_rows;
      int32_t column = conv->first_column + x * conv->stride_columns + k * conv->dilation_columns;
      for (int32_t n = 0; n < conv->channels_in; n += kLane) {
        const int8_t *line = line_at(conv, own->features, n / kLane, row, column);
        int32_t count = conv->channels_in - n < kLane ? conv->channels_in - n : kLane;
        if (!line)
          memset(to, 0, (size_t)count * sizeof *to);
        else if (count == kLane)
          for (int32_t c = 0; c < kLane; c++) to[c] = line[c];
        else
          for (int32_t c = 0; c < count; c++) to[c] = line[c];
        to += count;
      }
    }
  for (int64_t n = own->depth; n < own->pitch; n++) *to++ = 0;
}

/* Products of two rows of weights with four of the input. At most kSpan numbers. */
static void multiply_span(const int16_t *w, int64_t w_pitch, const int16_t *x, int64_t x_pitch, int64_t count,
                          int32_t out[2][kPixels]) {
  const int16_t *w1 = w + w_pitch, *x1 = x + x_pitch, *x2 = x1 + x_pitch, *x3 = x2 + x_pitch;
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
  for (int64_t n = 0; n < count; n++) {
    a0 += w[n] * x[n];
    a1 += w[n] * x1[n];
    a2 += w[n] * x2[n];
    a3 += w[n] * x3[n];
    b0 += w1[n] * x[n];
    b1 += w1[n] * x1[n];
    b2 += w1[n] * x2[n];
    b3 += w1[n] * x3[n];
  }
  out[0][0] = a0, out[0][1] = a1, out[0][2] = a2, out[0][3] = a3;
  out[1][0] = b0, out[1][1] = b1, out[1][2] = b2, out[1][3] = b3;
}

/* Adds the products of up to kPixels gathered inputs to their sums, channels running fastest. */
static void multiply(const convolution *own, int pixels, uint32_t *sums) {
  const int64_t channels = own->conv->channels_out;
  for (int64_t c = 0; c < channels; c += 2) {
    bool pair = c + 1 < channels;
    for (int64_t n = 0; n < own->pitch; n += kSpan) {
      int32_t part[2][kPixels];
      int64_t count = own->pitch - n < kSpan ? own->pitch - n : kSpan;
      multiply_span(own->packed + c * own->pitch + n, pair ? own->pitch : 0, own->gathered + n, own->pitch, count,
                    part);
      for (int p = 0; p < pixels; p++) {
        sums[p * channels + c] += (uint32_t)part[0][p];
        if (pair) sums[p * channels + c + 1] += (uint32_t)part[1][p];
      }
    }
  }
}

/* --- depthwise ------------------------------------------------------------------------------------------------------
 */
/* By planes, in them taps, in them 16 channels. */
static void pack_depthwise(const convolution *own) {
  int64_t ocp = own->design->channels_out, channels = own->conv->channels_out;
  for (int64_t c = 0; c < up(channels, kLane); c++)
    for (int64_t t = 0; t < own->taps; t++)
      own->packed[(c / kLane * own->taps + t) * kLane + c % kLane] =
          c < channels ? own->weights[(c / ocp * own->taps + t) * ocp + c % ocp] : 0;
}

static void convolve_depthwise(const convolution *own, int32_t r, int32_t x, uint32_t *sums) {
  const braid_isa_conv *conv = own->conv;
  for (int32_t c = 0; c < conv->channels_out; c += kLane) {
    const int16_t *weight = own->packed + (int64_t)c * own->taps;
    int32_t part[kLane] = {0};
    for (int32_t i = 0; i < conv->kernel_rows; i++)
      for (int32_t k = 0; k < conv->kernel_columns; k++, weight += kLane) {
        const int8_t *line =
            line_at(conv, own->features, c / kLane, conv->first_row + r * conv->stride_rows + i * conv->dilation_rows,
                    conv->first_column + x * conv->stride_columns + k * conv->dilation_columns);
        if (!line) continue;
        for (int n = 0; n < kLane; n++) part[n] += line[n] * weight[n];
      }
    for (int n = 0; n < kLane && c + n < conv->channels_out; n++) sums[c + n] += (uint32_t)part[n];
  }
}

/* --- results --------------------------------------------------------------------------------------------------------
 */
static int64_t rounded(const braid_isa_conv *conv, int64_t total) {
  return conv->half_up ? braid_overlay_round_up(total, conv->shift) : braid_overlay_round(total, conv->shift);
}

static int8_t finished(const braid_isa_conv *conv, int64_t sum, int64_t addend) {
  int64_t left = (int64_t)1 << conv->sum_left, added = addend * ((int64_t)1 << conv->addend_left), total;
  if (!conv->residual)
    total = rounded(conv, sum);
  else if (conv->round_first)
    total =
        braid_overlay_round(braid_overlay_clip(rounded(conv, sum), INT8_MIN, INT8_MAX) * left + added, conv->add_shift);
  else
    total = rounded(conv, sum * left + added);
  return (int8_t)braid_overlay_clip(total, conv->low, conv->high);
}

static void finish(const convolution *own, int32_t r, int32_t x, const int32_t *sums, int8_t *features) {
  const braid_isa_conv *conv = own->conv;
  for (int32_t c = 0; c < conv->channels_out; c += kLane) {
    size_t place =
        (size_t)(c / kLane) * (size_t)conv->output_plane + (size_t)r * (size_t)conv->output_pitch + (size_t)x;
    const int8_t *addend = features + ((size_t)conv->addend + place) * kLane;
    int8_t *out = features + ((size_t)conv->output + place) * kLane;
    for (int n = 0; n < kLane; n++)
      out[n] = c + n < conv->channels_out ? finished(conv, sums[c + n], conv->residual ? addend[n] : 0) : 0;
  }
}

/* Sums begin with biases, or with what is there. */
static void begin(const convolution *own, int32_t *sums, int pixels) {
  size_t channels = (size_t)own->conv->channels_out;
  for (int p = 0; own->conv->start && p < pixels; p++)
    memcpy(sums + (size_t)p * channels, own->biases, channels * sizeof *sums);
}

static void convolve_row(const convolution *own, int32_t r, int8_t *features) {
  const braid_isa_conv *conv = own->conv;
  bool whole = conv->start && conv->finish; /* its sums need not stay */
  for (int32_t x = 0; x < conv->output_columns; x += kPixels) {
    int pixels = conv->output_columns - x < kPixels ? conv->output_columns - x : kPixels;
    size_t place = whole ? 0 : (size_t)r * (size_t)conv->output_columns + (size_t)x;
    int32_t *sums = own->sums + place * (size_t)conv->channels_out;
    begin(own, sums, pixels);
    for (int p = 0; p < pixels; p++) {
      if (conv->depthwise)
        convolve_depthwise(own, r, x + p, (uint32_t *)sums + (size_t)p * (size_t)conv->channels_out);
      else
        gather(own, r, x + p, own->gathered + p * own->pitch);
    }
    if (!conv->depthwise) multiply(own, pixels, (uint32_t *)sums);
    for (int p = 0; conv->finish && p < pixels; p++)
      finish(own, r, x + p, sums + (size_t)p * (size_t)conv->channels_out, features);
  }
}

/* Whether packed weights are those of an instruction. */
static bool packed_alike(const braid_isa_conv *a, const braid_isa_conv *b) {
  return a->weights == b->weights && a->channels_in == b->channels_in && a->channels_out == b->channels_out &&
         a->kernel_rows == b->kernel_rows && a->kernel_columns == b->kernel_columns && a->depthwise == b->depthwise;
}

void braid_overlay_conv(braid_overlay_core *core, const braid_instruction *instruction) {
  const braid_isa_conv *conv = &instruction->conv;
  int8_t *features = (int8_t *)core->memories[BRAID_ISA_FEATURES];
  convolution own = {.conv = conv,
                     .design = core->design,
                     .features = features,
                     .weights = (const int8_t *)core->memories[BRAID_ISA_WEIGHTS] + (size_t)conv->weights * 16,
                     .biases =
                         (const int32_t *)(const void *)(core->memories[BRAID_ISA_BIASES] + (size_t)conv->biases * 16),
                     .sums = core->sums,
                     .packed = core->packed,
                     .gathered = core->gathered,
                     .taps = (int64_t)conv->kernel_rows * conv->kernel_columns};
  own.depth = own.taps * conv->channels_in;
  own.pitch = up(own.depth, kLane);
  if (!core->is_packed || !packed_alike(&core->packed_for.conv, conv)) {
    if (conv->depthwise)
      pack_depthwise(&own);
    else
      pack_weights(&own);
    core->packed_for = *instruction;
    core->is_packed = true;
  }
  for (int32_t r = 0; r < conv->output_rows; r++) convolve_row(&own, r, features);
}
