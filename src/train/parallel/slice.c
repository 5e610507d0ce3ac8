#include "train/parallel/slice.h"

#include "braid/group.h"

braid_slice braid_slice_of(const braid_train_options *options) {
  braid_group *group = braid_registry_get_group(options->registry);
  int64_t size = braid_group_size(group), rank = braid_group_rank(group), batch = options->batch;
  int64_t first = rank * batch / size, end = (rank + 1) * batch / size;
  return (braid_slice){size > 1 ? group : NULL, (int)rank, (int)size, batch, first, end - first};
}

braid_status braid_slice_check(const braid_train_options *options) {
  braid_slice slice = braid_slice_of(options);
  if (!slice.group) return BRAID_OK;
  if (options->batch < slice.size)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a batch of %lld for %d processes: the batch is that of all together, and each needs a sample",
                      (long long)options->batch, slice.size);
  bool weighted = options->class_weights || options->balance_classes;
  if (options->loss == BRAID_CROSS_ENTROPY && weighted)
    return braid_fail(
        BRAID_UNSUPPORTED,
        "class weights of cross entropy train in one process: the mean is over the weights of the batch's "
        "samples, of which each process knows its own");
  return BRAID_OK;
}
