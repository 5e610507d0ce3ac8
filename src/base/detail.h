/* Error details (braid/status.h): functions that keep the detail consistent with the returned status.
 *
 * Every failure records its detail where it occurs: by braid_fail, or by braid_refuse_memory within the allocation
 * functions. So `return BRAID_NO_MEMORY` needs no detail after a failed allocation; every other status does. Backends
 * and custom ops may return a status without a detail: the detail is cleared before they are called. */
#ifndef BRAID_BASE_DETAIL_H
#define BRAID_BASE_DETAIL_H
#include "braid/status.h"
#include <stddef.h>
void braid_clear_detail(void);
/* Records that `count` times `size` bytes could not be allocated; returns NULL. */
void *braid_refuse_memory(size_t count, size_t size);
#endif
