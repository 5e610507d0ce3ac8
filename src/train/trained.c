/* The trained model: the forward graph with what its parameters have become. */
#include "base/try.h"
#include "graph/trainable.h"
#include "train/checkpoint/persist.h"
#include "train/schedule.h"
#include "train/trainer.h"
#include "train/update.h"

/* So that another training of the saved model trains the same. Of what the step's graph does not hold (an If's other
 * branch, sources of what was folded) only what can never train is settled. */
static void note_what_trained(braid_value *value, braid_value_kind kind, bool in_step) {
  if (kind == BRAID_VALUE_PARAMETER)
    value->origin = BRAID_ORIGIN_TRAINED;
  else if (in_step || braid_value_never_trains(value))
    value->origin = BRAID_ORIGIN_FIXED;
}

/* The parameter or state that stands behind a value of the model. */
static const char *source_of(const braid_trainer *trainer, const braid_value *value, braid_value_kind kind) {
  braid_value_id average = braid_keeps_parameters(&trainer->options) && kind == BRAID_VALUE_PARAMETER
                               ? braid_step_average(trainer->step, value->name)
                               : -1;
  return average < 0 ? value->name : trainer->step->values[average].name;
}

braid_status braid_trainer_model_of(const braid_trainer *trainer, braid_integer_read *read, void *context,
                                    braid_graph **out) {
  *out = NULL;
  braid_graph *graph;
  if (trainer->integers) return braid_integer_export(trainer->integers, read, context, out);
  BRAID_TRY(braid_graph_clone(trainer->model, &graph));
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < graph->value_count; i++) {
    braid_value *value = &graph->values[i];
    braid_value_id id = value->tensor ? braid_graph_find_value(trainer->step, value->name) : -1;
    braid_value_kind kind = id < 0 ? BRAID_VALUE_CONSTANT : trainer->step->values[id].kind;
    note_what_trained(value, kind, id >= 0);
    if (kind != BRAID_VALUE_PARAMETER && kind != BRAID_VALUE_STATE) continue;
    braid_tensor *tensor;
    status = read(context, source_of(trainer, value, kind), &tensor);
    if (status != BRAID_OK) break;
    braid_tensor_release(value->tensor);
    value->tensor = tensor;
  }
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}

static braid_status read_value(void *context, const char *name, braid_tensor **out) {
  braid_trainer *trainer = context;
  *out = NULL;
  braid_value_id id = braid_graph_find_value(trainer->step, name);
  if (id < 0) return braid_fail(BRAID_NOT_FOUND, "%.120s is not in the training graph", name);
  return braid_kept_read(trainer, &trainer->step->values[id], out);
}

braid_status braid_trainer_model(braid_trainer *trainer, braid_graph **out) {
  return braid_trainer_model_of(trainer, read_value, trainer, out);
}
