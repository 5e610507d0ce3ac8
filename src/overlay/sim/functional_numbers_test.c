/* CONV, MISC, MVM and ELE against plain scalar arithmetic on arrays in their natural order. */
#include "overlay/sim/functional_fixture.h"

#include <math.h>
#include <stdio.h>

#include "overlay/sim/core.h"

/* --- numbers --------------------------------------------------------------------------------------------------------
 */
__extension__ typedef __int128 wide;

/* numerator / denominator by the definition: the nearest integer, of two the even or the higher one. */
static int64_t nearest(wide numerator, wide denominator, bool up) {
  wide q = numerator / denominator;
  while (q * denominator > numerator) q--;
  while ((q + 1) * denominator <= numerator) q++;
  wide below = numerator - q * denominator, above = (q + 1) * denominator - numerator;
  if (below < above) return (int64_t)q;
  if (above < below) return (int64_t)(q + 1);
  return (int64_t)(up || q % 2 ? q + 1 : q);
}

static wide power(int exponent) {
  return (wide)1 << exponent;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* --- CONV -----------------------------------------------------------------------------------------------------------
 */
enum { kFeatures = 2048, kWeights = 8192, kBiases = 64, kOutput = 900, kAddend = 1500, kMostChannels = 40 };
static const int kLines[] = {kFeatures, kWeights, kBiases, kFeatures};

/* Weights by channel out, channel in, row, column. */
typedef struct weights {
  int8_t of[kMostChannels][kMostChannels][4][4];
} weights;

/* One input of a convolution; several make it by partial sums. */
typedef struct part {
  braid_isa_conv conv;
  weights weights;
} part;

static int8_t input_at(const int8_t *memory, const braid_isa_conv *conv, int n, int row, int column) {
  if (row < 0 || row >= conv->input_rows || column < 0 || column >= conv->input_columns) return 0;
  int line = conv->input + n / 16 * conv->input_plane + row * conv->input_pitch + column;
  return memory[line * kLine + n % 16];
}

static int32_t sum_of(const int8_t *memory, const part *of, int c, int r, int x) {
  const braid_isa_conv *conv = &of->conv;
  int64_t sum = 0;
  for (int n = 0; n < conv->channels_in; n++) {
    if (conv->depthwise && n != c) continue;
    for (int i = 0; i < conv->kernel_rows; i++)
      for (int k = 0; k < conv->kernel_columns; k++)
        sum += (int64_t)of->weights.of[c][n][i][k] *
               input_at(memory, conv, n, conv->first_row + r * conv->stride_rows + i * conv->dilation_rows,
                        conv->first_column + x * conv->stride_columns + k * conv->dilation_columns);
  }
  return (int32_t)sum;
}

/* Appends the weights as the instruction wants them. */
static size_t lay_out(const braid_overlay_design *design, const part *of, int8_t *to) {
  const braid_isa_conv *conv = &of->conv;
  size_t at = 0;
  for (int c = 0; c < conv->channels_out; c += design->channels_out)
    for (int i = 0; i < conv->kernel_rows; i++)
      for (int k = 0; k < conv->kernel_columns; k++)
        for (int n = 0; n < (conv->depthwise ? 1 : conv->channels_in); n += design->channels_in)
          for (int co = c; co < c + design->channels_out; co++)
            for (int ci = n; ci < (conv->depthwise ? 1 : n + design->channels_in); ci++) {
              bool there = co < conv->channels_out && (conv->depthwise || ci < conv->channels_in);
              to[at++] = there ? of->weights.of[co][conv->depthwise ? co : ci][i][k] : 0;
            }
  return (at + kLine - 1) / kLine;
}

static void draw_window(braid_isa_conv *conv) {
  do {
    conv->input_rows = between(0, 9);
    conv->input_columns = between(0, 12);
    conv->input_pitch = between(0, 14);
    conv->input_plane = between(0, 140);
    conv->input = between(0, 300);
  } while (conv->input + 2 * conv->input_plane + 9 * conv->input_pitch + 12 >= kOutput);
  conv->kernel_rows = between(1, 4);
  conv->kernel_columns = between(1, 4);
  conv->stride_rows = between(1, 3);
  conv->stride_columns = between(1, 3);
  conv->dilation_rows = between(1, 3);
  conv->dilation_columns = between(1, 3);
  conv->first_row = between(-4, 3);
  conv->first_column = between(-4, 3);
}

static void draw_result(const braid_overlay_design *design, braid_isa_conv *conv) {
  conv->output_rows = between(1, design->pixels);
  conv->output_columns = between(1, 11);
  conv->output_pitch = conv->output_columns + between(0, 3);
  conv->output_plane = conv->output_rows * conv->output_pitch + between(0, 5);
  conv->output = kOutput + between(0, 9);
  conv->low = between(-128, 20);
  conv->high = between(20, 127);
  conv->channels_out = between(1, kMostChannels);
  conv->biases = between(0, 20);
  conv->shift = draw() % 8 ? between(0, 14) : between(0, 63);
  conv->half_up = (int32_t)draw() & 1;
  conv->residual = (int32_t)draw() & 1;
  conv->round_first = (int32_t)draw() & 1;
  conv->addend = draw() % 2 ? conv->output : kAddend;
  conv->sum_left = draw() % 4 ? between(0, 5) : between(0, 31);
  conv->addend_left = draw() % 4 ? between(0, 12) : between(0, 31);
  conv->add_shift = draw() % 4 ? between(0, 6) : between(0, 31);
}

static int8_t expected_result(const braid_isa_conv *conv, int64_t sum, int64_t addend) {
  int64_t y;
  if (!conv->residual) {
    y = nearest(sum, power(conv->shift), conv->half_up);
  } else if (conv->round_first) {
    y = clamp(nearest(sum, power(conv->shift), conv->half_up), -128, 127);
    y = nearest(y * power(conv->sum_left) + addend * power(conv->addend_left), power(conv->add_shift), false);
  } else {
    y = nearest(sum * power(conv->sum_left) + addend * power(conv->addend_left), power(conv->shift), conv->half_up);
  }
  return (int8_t)clamp(y, conv->low, conv->high);
}

static void convolve(int8_t *memory, const int32_t *biases, const part *parts, int count) {
  const braid_isa_conv *conv = &parts[count - 1].conv;
  int8_t before[kFeatures * kLine];
  memcpy(before, memory, sizeof before);
  for (int c = 0; c < (conv->channels_out + 15) / 16 * 16; c++)
    for (int r = 0; r < conv->output_rows; r++)
      for (int x = 0; x < conv->output_columns; x++) {
        int place = c / 16 * conv->output_plane + r * conv->output_pitch + x;
        int8_t *out = &memory[(conv->output + place) * kLine + c % 16];
        *out = 0;
        if (c >= conv->channels_out) continue;
        uint32_t sum = (uint32_t)biases[parts[0].conv.biases * 4 + c];
        for (int p = 0; p < count; p++) sum += (uint32_t)sum_of(before, &parts[p], c, r, x);
        *out = expected_result(conv, (int32_t)sum, before[(conv->addend + place) * kLine + c % 16]);
      }
}

static void try_conv(bool depthwise) {
  static const int kGroups[] = {1, 3, 8, 16, 32};
  static part parts[3];
  braid_overlay_design design = convolutional_design();
  code program = {0};
  int count = between(1, 3);
  int64_t at = 0, macs = 0;
  design.pixels = between(1, 4);
  design.channels_in = kGroups[draw() % 5];
  design.channels_out = kGroups[draw() % 4];
  design.weight_bytes = kWeights * kLine;
  world on = make_world(kLines, 4);
  fill_random(segment_of(&on, 0), kFeatures * kLine);
  fill_random(segment_of(&on, 2), kBiases * kLine);
  int32_t *biases = segment_of(&on, 2);
  for (int i = 0; i < kBiases * 4 && draw() % 8; i++) biases[i] %= 5000;
  draw_result(&design, &parts[0].conv);
  for (int p = 0; p < count; p++) {
    braid_isa_conv *conv = &parts[p].conv;
    if (p) *conv = parts[0].conv;
    draw_window(conv);
    fill_random(&parts[p].weights, sizeof parts[p].weights);
    conv->depthwise = depthwise;
    conv->channels_in = depthwise ? conv->channels_out : between(1, kMostChannels);
    conv->start = p == 0;
    conv->finish = p == count - 1;
    conv->weights = (int32_t)at;
    at += (int64_t)lay_out(&design, &parts[p], (int8_t *)segment_of(&on, 1) + at * kLine);
    macs += (int64_t)conv->output_rows * conv->output_columns * conv->kernel_rows * conv->kernel_columns *
            conv->channels_out * (depthwise ? 1 : conv->channels_in);
  }
  assert_true(at <= kWeights);
  braid_instruction in = load(BRAID_ISA_WEIGHTS, 1, 0, 0, kWeights / 2);
  in.load.rows = 2;
  in.load.ddr_row = in.load.chip_row = kWeights / 2;
  add(&program, in);
  add(&program, load(BRAID_ISA_BIASES, 2, 0, 0, kBiases));
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, kFeatures), 0, ON_COMPUTE));
  for (int p = 0; p < count; p++) {
    in = braid_isa_blank(BRAID_ISA_OP_CONV);
    in.conv = parts[p].conv;
    add(&program, tokens(in, p ? 0 : ON_LOAD, p == count - 1 ? ON_SAVE : 0));
  }
  add(&program, tokens(save(BRAID_ISA_FEATURES, 3, 0, 0, kFeatures), ON_COMPUTE, 0));
  add(&program, end());
  braid_functional_counts counts;
  run_well(&design, &program, &on, draw() % 2, &counts);
  assert_int_equal(counts.multiply_accumulates, macs);
  convolve(segment_of(&on, 0), biases, parts, count);
  assert_memory_equal(segment_of(&on, 0), segment_of(&on, 3), kFeatures * kLine);
  check_guards(&on, 4);
  drop(&program);
  free(on.start);
}

static void test_conv(void **state) {
  (void)state;
  for (int trial = 0; trial < 300; trial++) try_conv(trial % 4 == 0);
}

/* The same CONV over other weights, and over the same lines after they were loaded anew. */
static void test_other_weights(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  world on = make_world((const int[]){1, 8, 4}, 3);
  code program = {0};
  int8_t *x = segment_of(&on, 0), *w = segment_of(&on, 1), *y = segment_of(&on, 2);
  x[0] = 1;
  /* Of a group of 8 by 8 bytes, that of channel 0 in and channel c out is byte 8 c: from line 1 on that is channel 2.
   */
  for (int i = 0; i < 8; i++) w[i / 4 * 4 * kLine + i % 4 * 8] = (int8_t)(i + 1);
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, 0));
  for (int round = 0; round < 2; round++) {
    add(&program, tokens(load(BRAID_ISA_WEIGHTS, 1, 4 * round, 0, 4), round ? ON_COMPUTE : 0, ON_COMPUTE));
    for (int i = 0; i < 2; i++) {
      int shifted = i != round; /* the last one before the weights change is the first one after */
      braid_instruction in = braid_isa_blank(BRAID_ISA_OP_CONV);
      in.conv.input_rows = in.conv.input_columns = 1;
      in.conv.start = in.conv.finish = 1;
      in.conv.low = -128;
      in.conv.high = 127;
      in.conv.channels_out = 2;
      in.conv.weights = shifted;
      in.conv.output = 1 + 2 * round + shifted;
      add(&program, tokens(in, i ? 0 : ON_LOAD, !i ? 0 : round ? ON_SAVE : ON_LOAD));
    }
  }
  add(&program, tokens(save(BRAID_ISA_FEATURES, 2, 0, 1, 4), ON_COMPUTE, 0));
  add(&program, end());
  design.weight_bytes = 8 * kLine;
  run_well(&design, &program, &on, 0, NULL);
  for (int i = 0; i < 8; i++) assert_int_equal(y[i / 2 * kLine + i % 2], i + 1);
  drop(&program);
  free(on.start);
}

/* --- MISC -----------------------------------------------------------------------------------------------------------
 */
static int64_t pooled(const int8_t *memory, const braid_isa_misc *misc, int c, int r, int x) {
  bool greatest = misc->function == BRAID_ISA_MAX, first = misc->function >= BRAID_ISA_SUM;
  int64_t y = greatest ? -128 : 0;
  for (int i = 0; i < (first ? 1 : misc->kernel_rows); i++)
    for (int k = 0; k < (first ? 1 : misc->kernel_columns); k++) {
      int row = misc->first_row + r * misc->stride_rows + i * misc->dilation_rows;
      int column = misc->first_column + x * misc->stride_columns + k * misc->dilation_columns;
      if (row < 0 || row >= misc->input_rows || column < 0 || column >= misc->input_columns) continue;
      int line = misc->input + c / 16 * misc->input_plane + row * misc->input_pitch + column;
      int64_t v = memory[line * kLine + c % 16];
      y = greatest ? (v > y ? v : y) : y + v;
    }
  return y;
}

static void pool_map(int8_t *memory, const braid_isa_misc *misc) {
  int8_t before[kFeatures * kLine];
  memcpy(before, memory, sizeof before);
  for (int c = 0; c < misc->groups * 16; c++)
    for (int r = 0; r < misc->output_rows; r++)
      for (int x = 0; x < misc->output_columns; x++) {
        int place = c / 16 * misc->output_plane + r * misc->output_pitch + x;
        wide y = pooled(before, misc, c, r, x) * power(misc->left), divisor = power(misc->shift);
        if (misc->function == BRAID_ISA_SUM)
          y += before[(misc->addend + place) * kLine + c % 16] * power(misc->addend_left);
        if (misc->function == BRAID_ISA_MEAN) divisor *= misc->divisor;
        memory[(misc->output + place) * kLine + c % 16] =
            (int8_t)clamp(nearest(y, divisor, misc->half_up), misc->low, misc->high);
      }
}

static void try_misc(void) {
  braid_overlay_design design = convolutional_design();
  code program = {0};
  braid_isa_conv window = {0};
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MISC);
  braid_isa_misc *misc = &in.misc;
  draw_window(&window);
  draw_result(&design, &window);
  memcpy(misc, &window, (size_t)((char *)&misc->function - (char *)misc)); /* both begin with the same fields */
  misc->groups = between(1, 3);
  misc->function = between(0, 3);
  misc->divisor = draw() % 2 ? misc->kernel_rows * misc->kernel_columns : between(1, 65536);
  misc->addend = window.addend;
  misc->left = draw() % 4 ? between(0, 4) : between(0, 31);
  misc->addend_left = draw() % 4 ? between(0, 4) : between(0, 31);
  misc->shift = draw() % 4 ? between(0, 6) : between(0, 31);
  misc->half_up = (int32_t)draw() & 1;
  if (misc->function >= BRAID_ISA_SUM && draw() % 4 == 0) { /* in place */
    misc->stride_rows = misc->stride_columns = 1;
    misc->first_row = misc->first_column = 0;
    misc->input = misc->output;
    misc->input_plane = misc->output_plane;
    misc->input_pitch = misc->output_pitch;
  }
  world on = make_world(kLines, 4);
  fill_random(segment_of(&on, 0), kFeatures * kLine);
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, kFeatures), 0, ON_SIDE));
  add(&program, tokens(in, ON_LOAD, ON_SAVE));
  add(&program, tokens(save(BRAID_ISA_FEATURES, 3, 0, 0, kFeatures), ON_SIDE, 0));
  add(&program, end());
  run_well(&design, &program, &on, 0, NULL);
  pool_map(segment_of(&on, 0), misc);
  assert_memory_equal(segment_of(&on, 0), segment_of(&on, 3), kFeatures * kLine);
  drop(&program);
  free(on.start);
}

static void test_misc(void **state) {
  (void)state;
  for (int trial = 0; trial < 500; trial++) try_misc();
}

/* Halves of a mean and of a sum, both ways. */
static void test_halves(void **state) {
  (void)state;
  static const int8_t kIn[] = {1, 3, 5, -1, -3, -5, 2, -2};
  static const int8_t kEven[] = {0, 2, 2, 0, -2, -2, 1, -1}, kUp[] = {1, 2, 3, 0, -1, -2, 1, -1};
  braid_overlay_design design = convolutional_design();
  for (int trial = 0; trial < 4; trial++) {
    world on = make_world((const int[]){1, 1}, 2);
    code program = {0};
    braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MISC);
    memcpy(segment_of(&on, 0), kIn, sizeof kIn);
    in.misc.input_rows = in.misc.input_columns = 1;
    in.misc.low = -128;
    in.misc.high = 127;
    in.misc.function = trial % 2 ? BRAID_ISA_MEAN : BRAID_ISA_COPY;
    in.misc.divisor = trial % 2 ? 2 : 1;
    in.misc.shift = trial % 2 ? 0 : 1;
    in.misc.half_up = trial / 2;
    in.misc.output = 1;
    add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, ON_SIDE));
    add(&program, tokens(in, ON_LOAD, ON_SAVE));
    add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 1, 1), ON_SIDE, 0));
    add(&program, end());
    run_well(&design, &program, &on, 0, NULL);
    assert_memory_equal(segment_of(&on, 1), trial / 2 ? kUp : kEven, sizeof kIn);
    drop(&program);
    free(on.start);
  }
}

/* --- MVM, ELE -------------------------------------------------------------------------------------------------------
 */
enum { kVectors = 512, kMostRows = 70, kMostColumns = 90, kResult = 300 };

/* Rows of a matrix as the instruction wants them; its lines. */
static int lay_out_matrix(const braid_overlay_design *design, int16_t (*matrix)[kMostColumns], int rows, int columns,
                          int16_t *to) {
  int at = 0;
  for (int r = 0; r < rows; r += design->rows)
    for (int c = 0; c < columns; c += design->columns)
      for (int h = r; h < r + design->rows; h++)
        for (int w = c; w < c + design->columns; w++) to[at++] = h < rows && w < columns ? matrix[h][w] : 0;
  return (at + 7) / 8;
}

static void try_mvm(void) {
  static const int kHeights[] = {1, 2, 4}, kWidths[] = {1, 16, 7};
  static int16_t matrix[2][kMostRows][kMostColumns];
  static const int kRoom[] = {4096, 64, kVectors, kVectors};
  braid_overlay_design design = recurrent_design();
  code program = {0};
  design.rows = kHeights[draw() % 3];
  design.columns = kWidths[draw() % 3];
  world on = make_world(kRoom, 4);
  int16_t *vectors = segment_of(&on, 2);
  int32_t *biases = segment_of(&on, 1);
  fill_random(vectors, kVectors * kLine);
  fill_random(biases, 64 * kLine);
  fill_random(matrix, sizeof matrix);
  for (int i = 0; draw() % 4 == 0 && i < kMostRows; i++)
    for (int k = 0; k < kMostColumns; k++) matrix[0][i][k] = -32768; /* sums go far */
  add(&program, load(BRAID_ISA_WEIGHTS, 0, 0, 0, 4096));
  add(&program, load(BRAID_ISA_BIASES, 1, 0, 0, 64));
  add(&program, tokens(load(BRAID_ISA_VECTORS, 2, 0, 0, kVectors), 0, ON_COMPUTE));
  int parts = between(1, 2), rows = between(1, kMostRows), shift = between(0, 40), first_bias = between(0, 5), at = 0;
  int64_t sums[kMostRows];
  for (int r = 0; r < rows; r++) sums[r] = biases[first_bias * 4 + r];
  for (int p = 0; p < parts; p++) {
    int columns = between(1, kMostColumns), input = between(0, 200);
    braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MVM);
    in.mvm = (braid_isa_mvm){.weights = at,
                             .biases = first_bias,
                             .input = input,
                             .output = kResult,
                             .rows = rows,
                             .columns = columns,
                             .start = p == 0,
                             .finish = p == parts - 1,
                             .shift = shift};
    at += lay_out_matrix(&design, matrix[p], rows, columns, (int16_t *)segment_of(&on, 0) + at * 8);
    add(&program, tokens(in, p ? 0 : ON_LOAD, p == parts - 1 ? ON_SAVE : 0));
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c++) sums[r] += (int64_t)matrix[p][r][c] * vectors[input * 8 + c];
  }
  add(&program, tokens(save(BRAID_ISA_VECTORS, 3, 0, 0, kVectors), ON_COMPUTE, 0));
  add(&program, end());
  run_well(&design, &program, &on, 0, NULL);
  for (int r = 0; r < (rows + 7) / 8 * 8; r++)
    vectors[kResult * 8 + r] = r < rows ? (int16_t)clamp(nearest(sums[r], power(shift), false), -32768, 32767) : 0;
  assert_memory_equal(vectors, segment_of(&on, 3), kVectors * kLine);
  drop(&program);
  free(on.start);
}

static void test_mvm(void **state) {
  (void)state;
  for (int trial = 0; trial < 200; trial++) try_mvm();
}

static void try_ele(void) {
  static const int kRoom[] = {kVectors, kVectors};
  braid_overlay_design design = recurrent_design();
  code program = {0};
  world on = make_world(kRoom, 2);
  int16_t *vectors = segment_of(&on, 0), before[kVectors * 8];
  fill_random(vectors, kVectors * kLine);
  memcpy(before, vectors, sizeof before);
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_ELE);
  braid_isa_ele *ele = &in.ele;
  static const int kFunctions[] = {BRAID_ISA_ELE_SUM, BRAID_ISA_ELE_PRODUCT, BRAID_ISA_ELE_COPY};
  *ele = (braid_isa_ele){.function = kFunctions[draw() % 3],
                         .length = between(1, 700),
                         .input = between(0, 100),
                         .addend = between(100, 200),
                         .output = kResult,
                         .left = between(0, 31),
                         .addend_left = between(0, 31),
                         .shift = between(0, 63)};
  if (draw() % 3 == 0) ele->output = ele->addend = ele->input;
  add(&program, tokens(load(BRAID_ISA_VECTORS, 0, 0, 0, kVectors), 0, ON_SIDE));
  add(&program, tokens(in, ON_LOAD, ON_SAVE));
  add(&program, tokens(save(BRAID_ISA_VECTORS, 1, 0, 0, kVectors), ON_SIDE, 0));
  add(&program, end());
  run_well(&design, &program, &on, 0, NULL);
  for (int i = 0; i < (ele->length + 7) / 8 * 8; i++) {
    wide a = before[ele->input * 8 + i], b = before[ele->addend * 8 + i], y = a * power(ele->left);
    if (ele->function == BRAID_ISA_ELE_SUM) y += b * power(ele->addend_left);
    if (ele->function == BRAID_ISA_ELE_PRODUCT) y *= b;
    vectors[ele->output * 8 + i] =
        i < ele->length ? (int16_t)clamp(nearest(y, power(ele->shift), false), -32768, 32767) : 0;
  }
  assert_memory_equal(vectors, segment_of(&on, 1), kVectors * kLine);
  drop(&program);
  free(on.start);
}

static void test_ele(void **state) {
  (void)state;
  for (int trial = 0; trial < 300; trial++) try_ele();
}

/* --- sigmoid, tanh --------------------------------------------------------------------------------------------------
 */
/* The table is that of the C library's tanh, rounded; of every number, the result is close to the function and between
 * those of its neighbours. */
static void test_curves(void **state) {
  (void)state;
  enum { kAll = 65536, kChunk = 4096 };
  int16_t table[BRAID_OVERLAY_TANGENTS];
  braid_overlay_tangents(table);
  for (int i = 0; i < BRAID_OVERLAY_TANGENTS; i++) {
    long double exact = tanhl((long double)i / 64) * 32768;
    assert_int_equal(table[i], exact > 32767 ? 32767 : llroundl(exact));
  }
  braid_overlay_design design = recurrent_design();
  static const int kRoom[] = {2 * kAll / kLine, 2 * kAll / kLine};
  for (int function = BRAID_ISA_ELE_SIGMOID; function <= BRAID_ISA_ELE_TANH; function++) {
    world on = make_world(kRoom, 2);
    code program = {0};
    int16_t *in = segment_of(&on, 0), *out = segment_of(&on, 1);
    for (int i = 0; i < kAll; i++) in[i] = (int16_t)(i - 32768);
    for (int at = 0; at < kAll; at += kChunk) {
      braid_instruction ele = braid_isa_blank(BRAID_ISA_OP_ELE);
      ele.ele = (braid_isa_ele){.function = function, .length = kChunk, .output = 1000};
      add(&program, tokens(load(BRAID_ISA_VECTORS, 0, at / 8, 0, kChunk / 8), at ? ON_SIDE : 0, ON_SIDE));
      add(&program, tokens(ele, at ? ON_LOAD | ON_SAVE : ON_LOAD, at + kChunk < kAll ? ON_SAVE | ON_LOAD : ON_SAVE));
      add(&program,
          tokens(save(BRAID_ISA_VECTORS, 1, at / 8, 1000, kChunk / 8), ON_SIDE, at + kChunk < kAll ? ON_SIDE : 0));
    }
    add(&program, end());
    run_well(&design, &program, &on, 0, NULL);
    double greatest = 0;
    for (int i = 0; i < kAll; i++) {
      double x = in[i] / 2048.0, exact = function == BRAID_ISA_ELE_TANH ? tanh(x) : 1 / (1 + exp(-x));
      double error = fabs(out[i] / 32768.0 - exact);
      greatest = error > greatest ? error : greatest;
      if (i) assert_true(out[i] >= out[i - 1]);
    }
    printf("%s: greatest error %.3g, %.2f of 2^-15\n", function == BRAID_ISA_ELE_TANH ? "tanh" : "sigmoid", greatest,
           greatest * 32768);
    assert_true(greatest * 32768 < (function == BRAID_ISA_ELE_TANH ? 1.8 : 1.05));
    drop(&program);
    free(on.start);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv),  cmocka_unit_test(test_other_weights),
                                     cmocka_unit_test(test_misc),  cmocka_unit_test(test_halves),
                                     cmocka_unit_test(test_mvm),   cmocka_unit_test(test_ele),
                                     cmocka_unit_test(test_curves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
