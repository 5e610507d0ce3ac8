/* What the static compiler and the reader of files share: the end of making a package. */
#ifndef BRAID_OVERLAY_COMPILER_BUILD_H
#define BRAID_OVERLAY_COMPILER_BUILD_H

#include "base/arena.h"
#include "overlay/compiler/package.h"

enum {
  BRAID_PACKAGE_MOST_TILINGS = 256,
  BRAID_PACKAGE_MOST_TILES = BRAID_OVERLAY_MOST_CORES /* they say cores */
};

/* Makes the SYSTEM instructions of a package that has its layers. */
BRAID_MUST_CHECK braid_status braid_package_mark(braid_package *package);
/* Finds where instructions begin, and sums of cycles, in a package that has tiles and valid code; tilings and tiles are
 * its own. */
BRAID_MUST_CHECK braid_status braid_package_measure(braid_package *package, braid_package_tiling *tilings,
                                                    braid_package_tile *tiles);
/* INVALID_FILE names the tile and the place in it. core: that its instructions have to say. */
BRAID_MUST_CHECK braid_status braid_package_check_tile(const braid_package *package, size_t tile, int32_t core,
                                                       const braid_allocator *allocator);

#endif
