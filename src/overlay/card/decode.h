/* A core's program as the card's decoder reads it. */
#ifndef BRAID_OVERLAY_CARD_DECODE_H
#define BRAID_OVERLAY_CARD_DECODE_H

#include <stddef.h>

#include "overlay/design.h"
#include "overlay/isa/instruction.h"

/* *out: *count instructions, freed by the caller. INVALID_FILE: what docs/isa.md forbids, or the design lacks; the
 * detail names core, byte and instruction. */
BRAID_MUST_CHECK braid_status card_decode(const uint8_t *bytes, size_t size, const braid_overlay_design *design,
                                          int core, const braid_allocator *allocator, braid_instruction **out,
                                          size_t *count);

#endif
