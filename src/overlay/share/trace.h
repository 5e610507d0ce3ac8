/* Jobs for a card: drawn at random as PREMA's multi-tasked workloads are, or one for each request of a recorded trace.
 * Each job has a context of its own, so that no job waits for another by order alone. */
#ifndef BRAID_OVERLAY_SHARE_TRACE_H
#define BRAID_OVERLAY_SHARE_TRACE_H

#include "overlay/share/card.h"
#include "overlay/share/recorded.h"

typedef struct braid_share_trace {
  braid_share_submission *jobs; /* by arrival; job j is of context j */
  braid_share_context *contexts;
  size_t count;
  const braid_allocator *allocator;
} braid_share_trace;

typedef struct braid_share_trace_options {
  const braid_share_model *models;
  size_t model_count;
  int cores; /* of the card */
  size_t tenants;
  uint64_t seed;
  /* The sum of all times alone over the time in which the jobs arrive: > 0. */
  double load;
  double latency_times; /* a job may take so many times its time alone; 0: no deadline */
} braid_share_trace_options;

/* `count` jobs: model, tenant, priority (1, 3 or 9) and arrival uniform. */
BRAID_MUST_CHECK braid_status braid_share_trace_random(const braid_share_trace_options *options, size_t count,
                                                       const braid_allocator *allocator, braid_share_trace *out);

/* Requests of the Azure traces of 2023 (AzurePublicDataset, CC-BY; Patel et al., "Splitwise", ISCA 2024): text with the
 * header TIMESTAMP,ContextTokens,GeneratedTokens. They arrive as recorded, faster or slower so that the load is the
 * options'. What they asked for were language models: here the requests with the fewest tokens run the model that is
 * fastest alone, and so on, each model as often as the others; tenant and priority are drawn. INVALID_FILE with the
 * line: malformed, times that go back, or more than BRAID_SHARE_TRACE_ROWS requests. */
BRAID_MUST_CHECK braid_status braid_share_trace_parse(const braid_share_trace_options *options, const char *text,
                                                      size_t length, const braid_allocator *allocator,
                                                      braid_share_trace *out);
void braid_share_trace_deinit(braid_share_trace *trace);

#endif
