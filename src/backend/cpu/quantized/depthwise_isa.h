/* Filters that look at one channel each, with weights of 16 bits. */
#ifndef BRAID_BACKEND_CPU_QUANTIZED_DEPTHWISE_ISA_H
#define BRAID_BACKEND_CPU_QUANTIZED_DEPTHWISE_ISA_H

#include "backend/cpu/isa.h"

/* As braid_depthwise_place (depthwise_dot_isa.h), with weights in rows of `channels`. */
BRAID_ISA_FUNCTION(void, braid_depthwise_wide,
                   (const uint8_t *const *taps, int64_t tap_count, uint8_t flip, const int16_t *weights,
                    int64_t channels, int32_t *sums))

#endif
