#include "quantize/power.h"

#include <math.h>

int braid_power_exponent(double low, double high, double least, double most) {
  double unit = fmax(low / least, high / most);
  if (!(unit > 0)) return 0;
  int exponent;
  double mantissa = frexp(unit, &exponent); /* unit = mantissa * 2^exponent, 0.5 <= mantissa < 1 */
  if (mantissa == 0.5) exponent--;
  if (exponent > BRAID_POWER_MOST) return BRAID_POWER_MOST;
  return exponent < -BRAID_POWER_MOST ? -BRAID_POWER_MOST : exponent;
}

braid_power braid_power_begin(double low, double high, double least, double most) {
  return (braid_power){.top = braid_power_exponent(low, high, least, most), .least = least, .most = most};
}

/* Adding and taking away 1.5 * 2^23 rounds numbers below 2^22 to the nearest integer, halves to the even one. */
static const float kRounder = 12582912.0F;

static double squared_error(const float *data, int64_t count, int exponent, float least, float most) {
  float inverse = ldexpf(1, -exponent), scale = ldexpf(1, exponent);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    float q = data[i] * inverse;
    q = q < least ? least : q;
    q = q > most ? most : q;
    q = (q + kRounder) - kRounder;
    float difference = data[i] - q * scale;
    sum += (double)difference * (double)difference;
  }
  return sum;
}

void braid_power_see(braid_power *power, const float *data, int64_t count) {
  for (int c = 0; c < BRAID_POWER_CANDIDATES; c++)
    power->errors[c] += squared_error(data, count, power->top - c, (float)power->least, (float)power->most);
}

int braid_power_choose(const braid_power *power) {
  int best = 0;
  for (int c = 1; c < BRAID_POWER_CANDIDATES; c++)
    if (power->errors[c] < power->errors[best]) best = c;
  return power->top - best;
}
