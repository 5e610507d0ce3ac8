/* Storages in common: a state and its update, a result and the input it is computed over.
 *
 * The rule for both: a step may compute an output over one of its inputs only if element i of the two is the same
 * memory (braid_layout_same_places) and the kernel allows that input (braid_kernel.in_place); never over another
 * output. */
#include "base/try.h"
#include "runtime/plan/plan.h"
#include "tensor/layout.h"

typedef struct step_span {
  braid_plan *plan;
  braid_step_id step;
} step_span;

static void touch(void *context, braid_storage_id id, bool writes) {
  (void)writes;
  step_span *span = context;
  braid_storage *storage = &span->plan->storages[id];
  if (storage->first < 0) storage->first = span->step;
  storage->last = span->step;
}

/* First and last step of every storage. */
static void find_spans(braid_plan *plan) {
  for (size_t i = 0; i < plan->storage_count; i++) plan->storages[i].first = plan->storages[i].last = -1;
  for (size_t i = 0; i < plan->steps.count; i++)
    braid_step_visit(plan, &plan->steps.items[i], touch, &(step_span){plan, (braid_step_id)i});
}

static braid_storage_id storage_of(const braid_plan *plan, braid_instance_id instance) {
  return instance < 0 ? -1 : braid_plan_find(plan, plan->instances[instance].storage);
}

static uint32_t in_place_inputs(const braid_step *step, size_t output) {
  if (!step->kernel || output > 3) return 0;
  return output == 0 ? step->kernel->in_place : step->kernel->in_place_more[output - 1];
}

static bool may_overwrite_input(const braid_plan *plan, const braid_step *step, size_t output, size_t input) {
  const braid_instance *from = &plan->instances[step->instances[input]];
  const braid_instance *to = &plan->instances[step->instances[step->input_count + output]];
  return input < 32 && (in_place_inputs(step, output) >> input & 1) && braid_layout_same_places(&from->desc, &to->desc);
}

/* May the step write `output` over `target`, as far as its own operands go? */
static bool may_overwrite(const braid_plan *plan, const braid_step *step, size_t output, braid_storage_id target) {
  for (size_t i = 0; i < step->input_count; i++)
    if (storage_of(plan, step->instances[i]) == target && !may_overwrite_input(plan, step, output, i)) return false;
  for (size_t i = 0; i < step->output_count; i++)
    if (i != output && storage_of(plan, step->instances[step->input_count + i]) == target) return false;
  return true;
}

static int output_in(const braid_plan *plan, const braid_step *step, braid_storage_id storage) {
  for (size_t i = 0; i < step->output_count; i++)
    if (storage_of(plan, step->instances[step->input_count + i]) == storage) return (int)i;
  return -1;
}

/* `from` becomes part of `into`. */
static void merge(braid_plan *plan, braid_storage_id from, braid_storage_id into) {
  braid_storage *lost = &plan->storages[from], *kept = &plan->storages[into];
  lost->same_as = into;
  if (lost->last > kept->last) kept->last = lost->last;
  if (kept->first < 0 || (lost->first >= 0 && lost->first < kept->first)) kept->first = lost->first;
  if (lost->kind != BRAID_STORAGE_OUTPUT) return;
  kept->kind = lost->kind; /* the input is computed in the caller's memory, too */
  kept->index = lost->index;
}

/* --- states --------------------------------------------------------------------------------------------------------
 */
/* Can the update be computed straight into the state? Only if everybody else is done with the old value by then. */
static bool can_update_in_place(const braid_plan *plan, braid_storage_id update_id, braid_storage_id state_id) {
  const braid_storage *update = &plan->storages[update_id], *state = &plan->storages[state_id];
  if (plan->no_reuse || update->kind != BRAID_STORAGE_ARENA || update->first < 0 || update->space != state->space ||
      update->bytes != state->bytes || state->last > update->first)
    return false;
  const braid_step *step = &plan->steps.items[update->first];
  int output = output_in(plan, step, update_id);
  return output >= 0 && (state->last < update->first || may_overwrite(plan, step, (size_t)output, state_id));
}

static braid_status share_states(braid_plan *plan) {
  size_t values = plan->graph->value_count;
  bool *copies = braid_zalloc_array(plan->allocator, values, sizeof *copies);
  if (!copies) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < values; i++) {
    if (plan->updates[i] < 0) continue;
    braid_storage_id update = storage_of(plan, plan->updates[i]);
    braid_storage_id state = storage_of(plan, plan->first_instance[i]);
    if (can_update_in_place(plan, update, state))
      merge(plan, update, state);
    else
      copies[i] = true;
  }
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < values; i++)
    if (copies[i]) status = braid_plan_add_copy(plan, "update", plan->updates[i], plan->first_instance[i]);
  braid_free(plan->allocator, copies);
  return status;
}

/* --- in place ------------------------------------------------------------------------------------------------------
 */
/* The input that dies in this step and whose memory the output may take; -1: none. */
static braid_storage_id find_dying(const braid_plan *plan, braid_step_id position, size_t output) {
  const braid_step *step = &plan->steps.items[position];
  const braid_storage *result =
      braid_plan_storage(plan, plan->instances[step->instances[step->input_count + output]].storage);
  for (size_t i = 0; i < step->input_count; i++) {
    braid_storage_id id = storage_of(plan, step->instances[i]);
    if (id < 0) continue;
    const braid_storage *input = &plan->storages[id];
    if (input->kind == BRAID_STORAGE_ARENA && input->last == position && input->space == result->space &&
        input->bytes == result->bytes && input != result && may_overwrite(plan, step, output, id))
      return id;
  }
  return -1;
}

static void share_in_place(braid_plan *plan) {
  for (size_t s = 0; s < plan->steps.count; s++) {
    const braid_step *step = &plan->steps.items[s];
    for (size_t i = 0; i < step->output_count; i++) {
      braid_storage_id result = storage_of(plan, step->instances[step->input_count + i]);
      if (result < 0 || plan->storages[result].first != (braid_step_id)s) continue;
      braid_storage_kind kind = plan->storages[result].kind;
      if (kind != BRAID_STORAGE_ARENA && kind != BRAID_STORAGE_OUTPUT) continue;
      braid_storage_id dying = find_dying(plan, (braid_step_id)s, i);
      if (dying >= 0) merge(plan, result, dying);
    }
  }
}

braid_status braid_plan_share(braid_plan *plan) {
  for (size_t i = 0; i < plan->storage_count; i++)
    if (plan->storages[i].kind == BRAID_STORAGE_ARENA || plan->storages[i].kind == BRAID_STORAGE_OUTPUT)
      plan->unshared_bytes += plan->storages[i].bytes;
  find_spans(plan);
  BRAID_TRY(share_states(plan));
  find_spans(plan);
  if (!plan->no_reuse) share_in_place(plan);
  return BRAID_OK;
}
