/* The scheduler's last decisions, for the page and for whoever asks. */
#ifndef BRAID_SERVE_DECISIONS_H
#define BRAID_SERVE_DECISIONS_H

#include "serve/request.h"

enum { BRAID_SERVE_DECISIONS = 256 };

/* A decision that was made. */
typedef struct braid_serve_decision {
  uint64_t number;
  int64_t at_ns; /* since the epoch */
  char model[BRAID_SERVE_NAME], tenant[BRAID_SERVE_NAME];
  braid_serve_verdict verdict;
  int64_t rows, batch;
  int64_t waited_ns, ran_ns, predicted_ns;
  braid_serve_why why;              /* where it is DONE */
  char refusal[BRAID_SERVE_DETAIL]; /* where it is not */
} braid_serve_decision;

typedef struct braid_serve_decisions braid_serve_decisions;

braid_status braid_serve_decisions_create(braid_serve_decisions **out);
void braid_serve_decisions_destroy(braid_serve_decisions *decisions); /* NULL is allowed */
/* Notes what became of the request, which has ended. Any thread. */
void braid_serve_decisions_note(braid_serve_decisions *decisions, const braid_serve_request *request);
/* The last ones, newest first; returns how many. */
size_t braid_serve_decisions_read(braid_serve_decisions *decisions, braid_serve_decision *out, size_t most);

#endif
