/* The rest of the error detail (braid/status.h): what keeps it that of the failure that is reported.
 *
 * Every failure records its own detail where it arises: braid_fail with a sentence, braid_refuse_memory where memory
 * was asked for. So `return BRAID_NO_MEMORY` may stand alone after a failed allocation; no other status may. Code of
 * others (backends, custom ops) can return a bare status: the detail is cleared before it is called. */
#ifndef BRAID_BASE_DETAIL_H
#define BRAID_BASE_DETAIL_H
#include "braid/status.h"
#include <stddef.h>
void braid_clear_detail(void);
/* Records that `count` times `size` bytes could not be had; returns NULL. */
void *braid_refuse_memory(size_t count, size_t size);
#endif
