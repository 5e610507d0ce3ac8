/* W3C trace context (https://www.w3.org/TR/trace-context/): the headers `traceparent` and `tracestate`, read and
 * written. They come from outside: what breaks the specification's rules is ignored, never an error. */
#ifndef BRAID_SERVE_TRACE_CONTEXT_H
#define BRAID_SERVE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BRAID_TRACE_ID = 16,     /* bytes of a trace's id */
  BRAID_TRACE_SPAN = 8,    /* of a span's */
  BRAID_TRACE_PARENT = 56, /* of a traceparent of version 00 with its zero */
  BRAID_TRACE_STATE = 513  /* of a tracestate that is handed on, with its zero */
};

/* What a traceparent says. */
typedef struct braid_trace_context {
  uint8_t trace[BRAID_TRACE_ID], span[BRAID_TRACE_SPAN]; /* span: the caller's */
  bool sampled;                                          /* the caller records spans of it */
} braid_trace_context;

/* False: the `bytes` bytes of text are no traceparent, which is as if there were none. Versions above 00 are read as
 * far as 00 goes. */
bool braid_trace_parse(const char *text, size_t bytes, braid_trace_context *out);
/* The same as a traceparent of version 00. */
void braid_trace_format(const braid_trace_context *context, char out[BRAID_TRACE_PARENT]);
/* Copies a tracestate, one of several headers joined by commas, to `out`: "" where it breaks the rules (more than 32
 * members, a key twice, forbidden characters). Of one that is too long, members of more than 128 bytes are left out,
 * then those at the end. */
void braid_trace_state(const char *text, size_t bytes, char out[BRAID_TRACE_STATE]);
/* Random, never all zeros. */
void braid_trace_new_trace(uint8_t out[BRAID_TRACE_ID]);
void braid_trace_new_span(uint8_t out[BRAID_TRACE_SPAN]);
/* Whether a trace is among the `ratio` (0 to 1) of all that are sampled: every service says the same of one id. */
bool braid_trace_is_sampled(const uint8_t trace[BRAID_TRACE_ID], double ratio);
/* Lower-case hexadecimal digits of `count` bytes, with a zero behind them. */
void braid_trace_hex(const uint8_t *bytes, size_t count, char *out);

#endif
