/* Inference requests, whatever protocol they come by.
 *
 * A front end (http/, grpc/, wire/) makes a request for a model and a tenant, gives it input tensors, and submits it
 * to the scheduler (scheduler.h), which checks, admits, batches and runs it, and calls `done` once. From submit until
 * `done` the request belongs to the scheduler; before and after, to the front end. */
#ifndef BRAID_SERVE_REQUEST_H
#define BRAID_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/tensor.h"
#include "serve/card/shared_card.h"

typedef struct braid_serve_model braid_serve_model;
typedef struct braid_serve_tenant braid_serve_tenant;
typedef struct braid_serve_trace braid_serve_trace; /* trace/tracer.h */

enum { BRAID_SERVE_DETAIL = 512, BRAID_SERVE_PORTS = 64, BRAID_SERVE_NAME = 128 };

/* What became of a request. Front ends translate it: HTTP's status, gRPC's code. */
typedef enum braid_serve_verdict {
  BRAID_SERVE_DONE = 0,
  BRAID_SERVE_INVALID,      /* 400: names, types, shapes, sizes */
  BRAID_SERVE_UNAUTHORIZED, /* 401: no token, or one that nobody has */
  BRAID_SERVE_FORBIDDEN,    /* 403: the tenant may not use this model or memory */
  BRAID_SERVE_UNKNOWN,      /* 404: no such model, version or region */
  BRAID_SERVE_TOO_LARGE,    /* 413 */
  BRAID_SERVE_OVER_QUOTA,   /* 429: the tenant's requests or bytes in flight, or its rate */
  BRAID_SERVE_CANCELLED,    /* 499: the client has gone */
  BRAID_SERVE_FAILED,       /* 500: a device or the memory failed */
  BRAID_SERVE_UNAVAILABLE,  /* 503: not ready, stopping, or the deadline cannot be met: refused before it cost anything
                             */
  BRAID_SERVE_LATE          /* 504: admitted, and then its time was over */
} braid_serve_verdict;

/* A tensor of a request: PLAIN, its rows one after the other. */
typedef struct braid_serve_tensor {
  size_t port; /* index of the model's input or output */
  braid_dtype dtype;
  int rank;
  int64_t dims[BRAID_MAX_RANK];
  void *data; /* `bytes` bytes, aligned to 64; owned by the request (braid_serve_request_room) */
  size_t bytes;
} braid_serve_tensor;

/* Why a request ran when it did. */
typedef struct braid_serve_why {
  size_t waiting;     /* requests, this among them */
  size_t instance;    /* of the device */
  size_t together;    /* requests of its run; 0: it did not run */
  int64_t rows;       /* of its run */
  int rank;           /* its priority */
  bool along;         /* it was taken into the run of a more urgent one */
  bool over_share;    /* its tenant had used more than its share */
  const char *device; /* the configuration's */
  /* --- on a card; card_cores 0: it is none --- */
  int cores, card_cores; /* that it began with; that there are */
  int running;           /* runs, this among them */
  double tokens;         /* of Algorithm 1, when it began */
  bool alone, overdue;   /* cores of its tenant alone; it was given one for having waited long */
  unsigned switches;     /* changes of its cores while it ran */
  double card_ms;        /* modelled: it ran */
  double transfer_ms;    /* modelled: its programs went to the card, for each number of cores that it had */
  double compile_us;     /* measured: of making those programs that were not kept */
} braid_serve_why;

typedef struct braid_serve_request {
  /* --- set by the front end --- */
  braid_serve_model *model;   /* a reference, dropped by braid_serve_request_destroy */
  braid_serve_tenant *tenant; /* of the daemon */
  int64_t deadline_ns;        /* by braid_now_ns(); 0: the model's, or none */
  int priority;               /* 0: the tenant's; else 1 is the most urgent, 9 the least, no better than the tenant's */
  uint64_t wanted;            /* bits of outputs that are wanted */
  braid_serve_tensor inputs[BRAID_SERVE_PORTS];
  size_t input_count;
  void (*done)(struct braid_serve_request *request);    /* by a thread of the scheduler; short, must not wait */
  bool (*is_gone)(struct braid_serve_request *request); /* whether the client has gone; NULL: not known */
  void *context;                                        /* the front end's */
  braid_serve_trace *trace;                             /* its place in a trace, owned; NULL: it has none */
  /* --- set by the scheduler --- */
  braid_serve_verdict verdict;
  char detail[BRAID_SERVE_DETAIL];
  braid_serve_tensor outputs[BRAID_SERVE_PORTS];
  size_t output_count;
  int64_t arrived_ns, started_ns, ended_ns; /* by braid_now_ns() */
  int64_t predicted_ns;                     /* from arrival to end, at admission */
  int64_t rows, batch; /* of this request; of the run that it was part of, with what filled it up */
  braid_serve_why why; /* it ran when it did */
  /* --- the scheduler's own --- */
  braid_serve_card_job card;
  struct braid_serve_request *next;
  int64_t due_ns;
  bool pushed;  /* back, by a more urgent one that came later */
  size_t bytes; /* counted against the tenant's quota */
  bool counted; /* among the tenant's requests in flight */
} braid_serve_request;

/* All zero but the two; takes a reference to the model. NULL when out of memory. */
braid_serve_request *braid_serve_request_create(braid_serve_model *model, braid_serve_tenant *tenant);
/* NULL is allowed. */
void braid_serve_request_destroy(braid_serve_request *request);
/* Its own priority, no better than its tenant's: 1 to 9. */
int braid_serve_request_priority(const braid_serve_request *request);
/* Records the verdict with its sentence (printf); returns it. */
braid_serve_verdict braid_serve_refuse(braid_serve_request *request, braid_serve_verdict verdict, const char *format,
                                       ...) BRAID_PRINTF(3, 4);
/* Adds the input `name` of this shape and gives it memory: INVALID where the model has no such input, it came before,
 * or its type or shape does not fit; OVER_QUOTA before memory is taken that the tenant may not have. *out: its tensor,
 * with `bytes` bytes of `data` to fill. */
braid_serve_verdict braid_serve_request_input(braid_serve_request *request, const char *name, braid_dtype dtype,
                                              int rank, const int64_t *dims, braid_serve_tensor **out);
/* Asks for the output `name`; none asked for: all. INVALID where the model has no such output. */
braid_serve_verdict braid_serve_request_output(braid_serve_request *request, const char *name, size_t *out_port);

/* KServe's names of types: "FP32", "INT64", ... NULL: there is none. */
const char *braid_serve_dtype_name(braid_dtype dtype);
bool braid_serve_dtype_find(const char *name, braid_dtype *out);
/* The same as a sentence; `waited_ns` from its arrival. */
void braid_serve_why_text(const braid_serve_why *why, int64_t waited_ns, char out[BRAID_SERVE_DETAIL]);
/* A verdict as HTTP's status. */
int braid_serve_http_status(braid_serve_verdict verdict);

#endif
