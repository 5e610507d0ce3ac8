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

/* A parameter or state as it is kept: *desc with its layout there, *bytes of it; and those bytes, by a copy without an
 * intermediate one. `host` must live as long as the session, and is copied to fastest where it is pinned
 * (braid_session_pin). For sessions without a time limit. */
BRAID_MUST_CHECK braid_status braid_session_describe_kept(braid_session *session, const char *name, braid_desc *desc,
                                                          size_t *bytes);
BRAID_MUST_CHECK braid_status braid_session_fetch_kept(braid_session *session, const char *name, void *host);

#endif
