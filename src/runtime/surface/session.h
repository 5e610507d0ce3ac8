/* Sessions inside: a machine, a plan, weights and an execution, each its own unless the caller gave it. */
#ifndef BRAID_RUNTIME_SESSION_H
#define BRAID_RUNTIME_SESSION_H

#include "braid/session.h"
#include "runtime/execution/execution.h"

struct braid_session {
  const braid_allocator *allocator;
  const char *busy; /* atomic: the public call under way; NULL: none */
  braid_plan *plan;
  braid_execution *execution;
  double prepare_ms;
};

/* Where the host may read a parameter or state as it lies, plain, until the next run or write; NULL: read a copy
 * (braid_session_read, which also says what is wrong). For sessions whose weights nobody else uses. */
const void *braid_session_look(braid_session *session, const char *name);

#endif
