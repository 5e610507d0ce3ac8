/* Scales that are powers of two, with zero point 0: what hardware computes with shifts alone. No graph here.
 *
 * The rule is that of Qiu et al., "Going Deeper with Embedded FPGA Platform for Convolutional Neural Network" (FPGA
 * 2016, section 4.2), and of Angel-Eye (Guo et al., TCAD 37(1), 2018), from which the overlay's cores come: for each
 * layer's weights and for each activation the position of the binary point with the least error over the numbers
 * themselves; theirs is the sum of absolute differences, ours that of squares (Nagel et al., "A White Paper on Neural
 * Network Quantization", arXiv:2106.08295, section 3.1). Candidates are the least exponent that cuts nothing of the
 * range and the two below it. */
#ifndef BRAID_QUANTIZE_POWER_H
#define BRAID_QUANTIZE_POWER_H

#include <stdint.h>

enum { BRAID_POWER_CANDIDATES = 3 };
/* Exponents stay within this of 0, so that the product of two scales is a normal float. */
enum { BRAID_POWER_MOST = 60 };

/* Integers from `least` (below 0) to `most`. */
typedef struct braid_power {
  int top; /* the first candidate; the others are top - 1, top - 2 ... */
  double least, most;
  double errors[BRAID_POWER_CANDIDATES]; /* sums of squares */
} braid_power;

/* The least e, at most BRAID_POWER_MOST from 0, with low >= least * 2^e and high <= most * 2^e; 0 for a range of
 * nothing. `low` <= 0 <= `high`, both finite. Where numbers are too large for it, they are cut. */
int braid_power_exponent(double low, double high, double least, double most);
braid_power braid_power_begin(double low, double high, double least, double most);
/* Adds the squared differences of numbers and what stands for them with each candidate. */
void braid_power_see(braid_power *power, const float *data, int64_t count);
/* The candidate with the least error; of equal ones the largest. */
int braid_power_choose(const braid_power *power);

#endif
