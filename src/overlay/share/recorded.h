/* Requests of the Azure traces of 2023 (AzurePublicDataset, CC-BY; Patel et al., "Splitwise", ISCA 2024): text with the
 * header TIMESTAMP,ContextTokens,GeneratedTokens. */
#ifndef BRAID_OVERLAY_SHARE_RECORDED_H
#define BRAID_OVERLAY_SHARE_RECORDED_H

#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

enum { BRAID_SHARE_TRACE_ROWS = 1000000 };
typedef struct braid_share_recorded {
  double seconds; /* after the first */
  uint64_t tokens;
  size_t row;
} braid_share_recorded;

/* *out: as many as *out_count, by time, freed with the allocator. INVALID_FILE with the line: malformed, times that go
 * back, or more than BRAID_SHARE_TRACE_ROWS requests. */
BRAID_MUST_CHECK braid_status braid_share_recorded_parse(const char *text, size_t length,
                                                         const braid_allocator *allocator, braid_share_recorded **out,
                                                         size_t *out_count);

#endif
