/* Another plan for the steps to come. Where parameters stay in the memory and layout that they are in, both plans share
 * them, and the change is one of pointers; else they are copied, by way of the host. */
#include "base/clock.h"
#include "base/try.h"
#include "runtime/surface/session.h"
#include "train/trainer.h"

static braid_status make_session(braid_trainer *trainer, const char *place, braid_weights *weights,
                                 braid_session **out) {
  braid_session_options options = braid_trainer_place(trainer);
  options.training = true;
  options.loose_place = false;
  options.place = place;
  options.machine = trainer->session->plan->machine;
  options.weights = weights;
  return braid_session_create(trainer->step, &options, out);
}

static braid_status copy_kept(braid_trainer *trainer, braid_session *to) {
  for (size_t i = 0; i < trainer->step->value_count; i++) {
    const braid_value *value = &trainer->step->values[i];
    braid_tensor *tensor;
    if (!braid_value_is_kept(value)) continue;
    BRAID_TRY(braid_tensor_create(trainer->allocator, &value->desc, &tensor));
    braid_status status = braid_session_read(trainer->session, value->name, tensor);
    if (status == BRAID_OK) status = braid_session_write(to, value->name, tensor);
    braid_tensor_release(tensor);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}

/* Weights that were made for one session alone are not looked up by others. */
static bool can_share(const braid_trainer *trainer) {
  return !trainer->session->execution->weights->own;
}

braid_status braid_trainer_replace(braid_trainer *trainer, const char *place, braid_replacement *out) {
  braid_session *next = NULL;
  braid_weights *weights;
  *out = (braid_replacement){0};
  int64_t start = braid_now_ns();
  braid_status status = BRAID_UNSUPPORTED;
  if (can_share(trainer)) status = make_session(trainer, place, trainer->session->execution->weights, &next);
  if (status == BRAID_NO_MEMORY) return status;
  out->moved = status != BRAID_OK;
  if (out->moved) {
    BRAID_TRY(braid_weights_create(trainer->session->plan->machine, &weights));
    status = make_session(trainer, place, weights, &next);
    braid_weights_release(weights); /* the session keeps them */
    BRAID_TRY(status);
  }
  int64_t made = braid_now_ns();
  if (out->moved) status = copy_kept(trainer, next);
  if (status != BRAID_OK) {
    braid_session_destroy(next);
    return status;
  }
  braid_session *before = trainer->session;
  next->execution->timed = true;
  trainer->session = next;
  braid_trainer_pin_all(trainer);
  int64_t switched = braid_now_ns();
  braid_session_destroy(before);
  out->switch_seconds = (double)(switched - made) * 1e-9;
  out->prepare_seconds = (double)(braid_now_ns() - start) * 1e-9 - out->switch_seconds;
  return BRAID_OK;
}

/* --- what runs -----------------------------------------------------------------------------------------------------
 */
braid_machine *braid_trainer_machine(const braid_trainer *trainer) {
  return trainer->session->plan->machine;
}

size_t braid_trainer_task_count(const braid_trainer *trainer) {
  return trainer->session->plan->steps.count;
}

int braid_trainer_task_device(const braid_trainer *trainer, size_t task) {
  return trainer->session->plan->steps.items[task].device;
}

const char *braid_trainer_task_node(const braid_trainer *trainer, size_t task, size_t index) {
  const braid_plan *plan = trainer->session->plan;
  braid_node_id node = plan->steps.items[task].node;
  if (node < 0) return NULL;
  if (!index) return plan->graph->nodes[node].name;
  const braid_alias *alias = plan->graph->nodes[node].absorbed;
  while (alias && --index) alias = alias->next;
  return alias ? alias->name : NULL;
}

double braid_trainer_task_seconds(const braid_trainer *trainer, size_t task) {
  return braid_execution_last_seconds(trainer->session->execution, task);
}
