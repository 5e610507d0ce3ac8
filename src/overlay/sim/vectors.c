/* MVM and ELE, of cores for recurrent networks. */
#include "overlay/sim/core.h"
#include "overlay/sim/numbers.h"

/* --- sigmoid and tanh -----------------------------------------------------------------------------------------------
 */
/* The upper 64 bits of a product. */
static uint64_t high_product(uint64_t a, uint64_t b) {
  uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), first = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
  uint64_t second = (a & UINT32_MAX) * (b >> 32) + (first & UINT32_MAX);
  return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32);
}

/* e^(-1/32) * 2^64, by its series; each term is cut by less than 1. */
static uint64_t decay(void) {
  uint64_t sum = 0, term = (uint64_t)1 << 59; /* 1 / 32 of 2^64: the first term, 2^64, is 0 here */
  for (uint64_t k = 2; term; k++) {
    sum = k % 2 ? sum + term : sum - term;
    term /= 32 * k;
  }
  return sum;
}

/* tanh(x) is (1 - p) / (1 + p) with p = e^(-2x), of which the error is below 2^-54: 513 cuts of 2^-64. */
void braid_overlay_tangents(int16_t out[BRAID_OVERLAY_TANGENTS]) {
  uint64_t step = decay(), power = step;
  out[0] = 0;
  for (int i = 1; i < BRAID_OVERLAY_TANGENTS; i++) {
    uint64_t above = (0 - power) >> 17, below = ((uint64_t)1 << 47) + (power >> 17); /* 1 - p, 1 + p, of 2^47 */
    uint64_t rounded = (above * 2 * 32768 + below) / (below * 2);
    out[i] = (int16_t)(rounded > INT16_MAX ? INT16_MAX : rounded);
    power = high_product(power, step);
  }
}

/* Between the numbers of the table, with 6 bits more; p is 0 .. 32768, of 4096 to 1. */
static int32_t between(const int16_t *tangents, int32_t p) {
  int32_t i = p / 64, rest = p % 64;
  return rest ? tangents[i] * (64 - rest) + tangents[i + 1] * rest : tangents[i] * 64;
}

static int32_t magnitude(int16_t x) {
  return x < 0 ? -(int32_t)x : x;
}

int16_t braid_overlay_tanh(const int16_t *tangents, int16_t x) {
  int32_t p = 2 * magnitude(x);
  int32_t y = (int32_t)braid_overlay_round(between(tangents, p > 32768 ? 32768 : p), 6);
  return (int16_t)(x < 0 ? -y : y);
}

int16_t braid_overlay_sigmoid(const int16_t *tangents, int16_t x) {
  int32_t y = (int32_t)braid_overlay_round(between(tangents, magnitude(x)), 7);
  return (int16_t)braid_overlay_clip(16384 + (x < 0 ? -y : y), INT16_MIN, INT16_MAX);
}

/* --- vectors --------------------------------------------------------------------------------------------------------
 */
static int16_t *vector_at(const braid_overlay_core *core, int32_t line) {
  return (int16_t *)(void *)(core->memories[BRAID_ISA_VECTORS] + (size_t)line * 16);
}

/* What the last line has behind the last number. */
static void clear_rest(int16_t *vector, int32_t count) {
  while (count % 8) vector[count++] = 0;
}

static int16_t narrow(int64_t x) {
  return (int16_t)braid_overlay_clip(x, INT16_MIN, INT16_MAX);
}

/* The sums of a group of `rows` rows over a group of `columns` columns, of a matrix whose rows are `pitch` apart. */
static void multiply_group(const int16_t *weights, int32_t pitch, const int16_t *vector, int32_t rows, int32_t columns,
                           int64_t *sums) {
  for (int32_t r = 0; r < rows; r++, weights += pitch) {
    int64_t sum = 0;
    for (int32_t c = 0; c < columns; c++) sum += (int32_t)weights[c] * vector[c];
    sums[r] += sum;
  }
}

/* Of 48 bits. */
static int64_t wrapped(int64_t x) {
  return (int64_t)((uint64_t)x << 16) >> 16;
}

void braid_overlay_mvm(braid_overlay_core *core, const braid_isa_mvm *mvm) {
  int32_t hp = core->design->rows, wp = core->design->columns;
  const int16_t *weights =
      (const int16_t *)(const void *)(core->memories[BRAID_ISA_WEIGHTS] + (size_t)mvm->weights * 16);
  const int32_t *biases = (const int32_t *)(const void *)(core->memories[BRAID_ISA_BIASES] + (size_t)mvm->biases * 16);
  const int16_t *vector = vector_at(core, mvm->input);
  int64_t *sums = core->wide_sums;
  for (int32_t r = 0; mvm->start && r < mvm->rows; r++) sums[r] = biases[r];
  for (int32_t r = 0; r < mvm->rows; r += hp) {
    int32_t rows = mvm->rows - r < hp ? mvm->rows - r : hp;
    for (int32_t c = 0; c < mvm->columns; c += wp, weights += (size_t)hp * (size_t)wp)
      multiply_group(weights, wp, vector + c, rows, mvm->columns - c < wp ? mvm->columns - c : wp, sums + r);
  }
  int16_t *result = vector_at(core, mvm->output);
  for (int32_t r = 0; r < mvm->rows; r++) {
    sums[r] = wrapped(sums[r]);
    if (mvm->finish) result[r] = narrow(braid_overlay_round(sums[r], mvm->shift));
  }
  if (mvm->finish) clear_rest(result, mvm->rows);
}

void braid_overlay_ele(braid_overlay_core *core, const braid_isa_ele *ele) {
  const int16_t *input = vector_at(core, ele->input), *addend = vector_at(core, ele->addend);
  int16_t *result = vector_at(core, ele->output);
  int64_t left = (int64_t)1 << ele->left, addend_left = (int64_t)1 << ele->addend_left;
  for (int32_t i = 0; i < ele->length; i++) {
    int64_t x = input[i];
    switch ((braid_isa_ele_function)ele->function) {
    case BRAID_ISA_ELE_SUM:
      x = narrow(braid_overlay_round(x * left + addend[i] * addend_left, ele->shift));
      break;
    case BRAID_ISA_ELE_PRODUCT:
      x = narrow(braid_overlay_round(x * addend[i] * left, ele->shift));
      break;
    case BRAID_ISA_ELE_SIGMOID:
      x = braid_overlay_sigmoid(core->tangents, input[i]);
      break;
    case BRAID_ISA_ELE_TANH:
      x = braid_overlay_tanh(core->tangents, input[i]);
      break;
    case BRAID_ISA_ELE_COPY:
      x = narrow(braid_overlay_round(x * left, ele->shift));
      break;
    }
    result[i] = (int16_t)x;
  }
  clear_rest(result, ele->length);
}
