/* What may follow the device's name: cores=N, scratchpad=BYTES, threads=N. */
#ifndef BRAID_BACKEND_MANYCORE_OPTIONS_H
#define BRAID_BACKEND_MANYCORE_OPTIONS_H

#include "backend/manycore/core.h"

/* threads: 0, if it is not given. `text` may be NULL. */
BRAID_MUST_CHECK braid_status braid_manycore_parse_options(const char *text, braid_manycore_group *group, int *threads);

#endif
