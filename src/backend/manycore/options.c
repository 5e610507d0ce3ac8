#include "backend/manycore/options.h"

#include "backend/manycore/sw26010.h"
#include "base/try.h"
#include "launch/options.h"

enum { kMostCores = 4096, kMostThreads = 256, kLeastScratchpad = 256, kMostScratchpad = 16 << 20 };

typedef struct manycore_options {
  uint32_t cores, scratchpad, threads;
} manycore_options;

static const braid_launch_option kOptions[] = {
    {"cores", braid_launch_parse_number, offsetof(manycore_options, cores), 1, kMostCores},
    {"scratchpad", braid_launch_parse_number, offsetof(manycore_options, scratchpad), kLeastScratchpad,
     kMostScratchpad},
    {"threads", braid_launch_parse_number, offsetof(manycore_options, threads), 1, kMostThreads},
};

braid_status braid_manycore_parse_options(const char *text, braid_manycore_group *group, int *threads) {
  manycore_options options = {BRAID_SW26010_CORES, BRAID_SW26010_SCRATCHPAD, 0};
  const braid_launch_option_table table = {kOptions, sizeof kOptions / sizeof *kOptions, &options};
  BRAID_TRY(braid_launch_parse_options(text, &table, 1));
  if (options.scratchpad % BRAID_MANYCORE_ALIGNMENT)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option scratchpad=%u: expected a multiple of %d", options.scratchpad,
                      BRAID_MANYCORE_ALIGNMENT);
  /* As square a mesh as the number allows: 64 cores are 8 by 8. */
  int cores = (int)options.cores, rows = 1;
  for (int side = 1; side * side <= cores; side++)
    if (cores % side == 0) rows = side;
  *group = (braid_manycore_group){cores, rows, cores / rows, options.scratchpad};
  *threads = (int)options.threads;
  return BRAID_OK;
}
