/* The memory of a task of a package: its image of DDR, what is put into it, and what comes out. */
#ifndef BRAID_OVERLAY_PACKAGE_RUN_H
#define BRAID_OVERLAY_PACKAGE_RUN_H

#include "overlay/compiler/package.h"
#include "overlay/sim/functional.h"

/* The constants, the rest 0. The caller frees image->ddr, which is NULL after a failure (NO_MEMORY). */
BRAID_MUST_CHECK braid_status braid_package_make_image(const braid_package *package, const braid_allocator *allocator,
                                                       braid_overlay_image *image);
/* One input, in the types and shapes of braid_overlay_run; INVALID_ARGUMENT as there. `index` below the port count. */
BRAID_MUST_CHECK braid_status braid_package_put_input(const braid_package *package, size_t index,
                                                      const braid_tensor *tensor, const braid_overlay_image *image);
/* One output, a new tensor as of braid_overlay_run. */
BRAID_MUST_CHECK braid_status braid_package_get_output(const braid_package *package, size_t index,
                                                       const braid_overlay_image *image,
                                                       const braid_allocator *allocator, braid_tensor **out);

#endif
