/* Philox4x32-10, a counter-based random number generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * SC 2011). The counter is (seed, step, tensor, element), so the numbers are the same on every device, in any order of
 * evaluation, and after a restart. */
#ifndef BRAID_BASE_PHILOX_H
#define BRAID_BASE_PHILOX_H
#include <stdint.h>
/* Four 32-bit numbers of one counter. */
void braid_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Element `element` of stream (seed, step, tensor): 32 random bits. Four consecutive elements share a counter. */
uint32_t braid_random_u32(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element);
/* Uniform in [0, 1), 24 bits. */
float braid_random_uniform(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element);
/* Standard normal (Box-Muller over one counter). */
float braid_random_normal(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element);
/* Uniform integer in [0, bound) (64-bit multiply-shift; the bias is negligible). */
uint32_t braid_random_below(uint64_t seed, uint32_t step, uint32_t tensor, uint64_t element, uint32_t bound);
#endif
