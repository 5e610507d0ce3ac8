/* Distributed tracing: what became of sampled requests, as OpenTelemetry's spans, to a collector and to a file.
 *
 *   trace_context.c  the headers
 *   tracer.c         requests' places in traces; records wait here, in bounded memory, for the exporting thread
 *   otlp.c           records as OTLP's JSON: a span of the request with its decision, and of its parts
 *   export.c         the thread: JSON to the file and to the collector
 *   trace_file.c, post.c (libcurl; without_post.c in its place)
 *   settings.c       what configuration and environment say
 *
 * A front end gives a request its place (braid_serve_trace_begin); the scheduler and the forwarder add to it; when the
 * request has ended a record is copied, under a lock that is held for no more than that. Where the exporting thread
 * does not keep up, records are dropped and counted: no request waits for it. Functions take a tracer that is NULL: the
 * daemon exports nothing, and only hands contexts on. */
#ifndef BRAID_SERVE_TRACE_TRACER_H
#define BRAID_SERVE_TRACE_TRACER_H

#include "braid/log.h"
#include "serve/request.h"
#include "serve/serving_config.h"
#include "serve/trace/trace_context.h"

typedef struct braid_serve_tracer braid_serve_tracer;

/* Which front end a request came by. */
typedef enum braid_trace_protocol {
  BRAID_TRACE_HTTP,
  BRAID_TRACE_GRPC,
  BRAID_TRACE_GRPC_STREAM,
  BRAID_TRACE_WIRE
} braid_trace_protocol;

/* A request's headers, as they came; not copied. */
typedef struct braid_trace_headers {
  const char *parent; /* traceparent; NULL: none */
  size_t parent_bytes;
  const char *state; /* tracestate; NULL: none */
  size_t state_bytes;
} braid_trace_headers;

/* A request's place in a trace. Owned by the request (braid_serve_request.trace). */
struct braid_serve_trace {
  braid_trace_protocol protocol;
  bool recorded;               /* its spans are exported by this daemon */
  braid_trace_context context; /* its trace; its own span where it is recorded, else the caller's, to be handed on */
  uint8_t parent[BRAID_TRACE_SPAN]; /* the caller's span; zeros: it begins the trace */
  char state[BRAID_TRACE_STATE];
  int64_t began_ns;                         /* it began to arrive, by braid_now_ns() */
  int64_t device_began_ns, device_ended_ns; /* of its run alone, without what is put together and apart; 0: unknown */
  bool shared;                              /* its run is also of other requests, and is this span: */
  uint8_t batch_trace[BRAID_TRACE_ID], batch_span[BRAID_TRACE_SPAN];
};

typedef struct braid_tracer_counts {
  uint64_t exported;       /* spans that the collector took, or that are in the file where there is none */
  uint64_t dropped_full;   /* records of requests, batches and forwards: no room was left */
  uint64_t dropped_failed; /* records that a collector did not take */
  uint64_t failures;       /* posts without success */
} braid_tracer_counts;

/* By the configuration's `trace` and OpenTelemetry's environment variables (docs/tracing.md). *out NULL and OK: neither
 * asks for anything. INVALID_ARGUMENT, IO, UNSUPPORTED: the configuration asks for what cannot be; what the environment
 * alone asks for is left out with a warning. config and log must outlive it. */
BRAID_MUST_CHECK braid_status braid_serve_tracer_create(const braid_serve_config *config, const braid_log *log,
                                                        braid_serve_tracer **out);
/* Exports what it has, for two seconds at most. When nobody uses it any more. */
void braid_serve_tracer_destroy(braid_serve_tracer *tracer);
braid_tracer_counts braid_serve_tracer_count(braid_serve_tracer *tracer);

/* The place of a request that came at began_ns; NULL: it has none, or there is no memory for one. Freed with
 * braid_free(NULL, ...), or given to a request. A caller's context decides whether it is sampled; without one the
 * configured part is. */
braid_serve_trace *braid_serve_trace_begin(braid_serve_tracer *tracer, braid_trace_protocol protocol,
                                           const braid_trace_headers *headers, int64_t began_ns);
/* These requests run together from now on, and have done so (before they are finished). */
void braid_serve_trace_run(braid_serve_tracer *tracer, braid_serve_request *requests);
void braid_serve_trace_ran(braid_serve_tracer *tracer, const braid_serve_request *requests);
/* The device ran them in this time. */
void braid_serve_trace_device(braid_serve_request *requests, int64_t began_ns, int64_t ended_ns);
/* The request has its verdict, by the scheduler. */
void braid_serve_trace_end(braid_serve_tracer *tracer, const braid_serve_request *request);
/* A request that the front end refused by this HTTP status before the scheduler had it. */
void braid_serve_trace_refuse(braid_serve_tracer *tracer, const braid_serve_trace *trace, const char *model,
                              const char *tenant, int status, const char *detail);

/* --- to another node -----------------------------------------------------------------------------------------------
 */
/* One attempt to have another node run a request. */
typedef struct braid_trace_forward {
  char parent[BRAID_TRACE_PARENT]; /* the traceparent that goes along; "": none */
  const char *state;               /* the tracestate; NULL: none */
  uint8_t span[BRAID_TRACE_SPAN];
  int64_t began_ns;
} braid_trace_forward;
void braid_serve_trace_forward_begin(const braid_serve_request *request, braid_trace_forward *out);
/* `failure`: why the node gave no answer; NULL: it gave one. */
void braid_serve_trace_forward_end(braid_serve_tracer *tracer, const braid_serve_request *request,
                                   const braid_trace_forward *forward, const char *node, const char *address,
                                   const char *failure);

#endif
