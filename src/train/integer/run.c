#include "train/integer/run.h"

#include "base/try.h"
#include "train/data/dataset.h"
#include "train/integer/network.h"

braid_status braid_integer_build(braid_trainer *trainer) {
  braid_dataset_info info = braid_dataset_get_info(trainer->train);
  const braid_spec *spec = braid_dataset_spec(trainer->train);
  if (info.target != BRAID_TARGET_CLASS)
    return braid_fail(BRAID_UNSUPPORTED, "training in integers is for classes; %.200s has other targets", info.spec);
  bool normalized = spec->means || spec->stds;
  BRAID_TRY(braid_integer_network_create(trainer->model, &info, &trainer->options, normalized, &trainer->integers));
  if (!normalized)
    braid_log_write(trainer->log, BRAID_LOG_INFO,
                    "the samples are taken as they are; deep networks learn better in integers from samples with a "
                    "mean of 0 and a deviation of 1 (mean= and std= of the data)");
  if (trainer->integers->biases)
    braid_log_write(trainer->log, BRAID_LOG_INFO,
                    "%zu biases of convolutions and products are left out: training in integers has none",
                    trainer->integers->biases);
  return braid_integer_step(trainer->integers, &trainer->options, trainer->recorded ? &trainer->digests : NULL,
                            &trainer->step);
}

static braid_status read_value(void *context, const char *name, braid_tensor **out) {
  braid_trainer *trainer = context;
  *out = NULL;
  braid_value_id id = braid_graph_find_value(trainer->step, name);
  if (id < 0) return braid_fail(BRAID_NOT_FOUND, "%.120s is not in the training graph", name);
  BRAID_TRY(braid_tensor_create(trainer->allocator, &trainer->step->values[id].desc, out));
  braid_status status = braid_session_read(trainer->session, name, *out);
  if (status == BRAID_OK) return BRAID_OK;
  braid_tensor_release(*out);
  *out = NULL;
  return status;
}

braid_status braid_integer_trained(braid_trainer *trainer, braid_graph **out) {
  return braid_integer_export(trainer->integers, read_value, trainer, out);
}
