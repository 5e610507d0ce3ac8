/* Small inputs are brought to their devices before anything is computed. Labels, rates and numbers of steps are read in
 * the middle of a training step: a kernel that waits for one there ends a recording's graph, which takes longer than
 * the transfer. At the front they stand behind the inputs that are needed first, and whoever waits for one waits for
 * all (hazard.c). */
#include <string.h>

#include "base/try.h"
#include "runtime/plan/steps.h"

static size_t count_leading(const braid_plan *plan) {
  size_t count = 0;
  while (count < plan->steps.count && braid_step_brings_input(plan, &plan->steps.items[count])) count++;
  return count;
}

static bool is_moved(const braid_plan *plan, const braid_step *step) {
  return braid_step_brings_input(plan, step) && braid_step_moves_little(plan, step);
}

/* What stays keeps its order, and so does what is moved. Steps have no numbers yet that anything refers to. */
braid_status braid_plan_bring_early(braid_plan *plan) {
  size_t front = count_leading(plan), count = plan->steps.count, moved = 0, kept = front;
  braid_step *steps = plan->steps.items;
  for (size_t i = front; i < count; i++) moved += is_moved(plan, &steps[i]);
  if (!moved) return BRAID_OK;
  braid_step *others = braid_zalloc_array(plan->allocator, count, sizeof *others);
  if (!others) return BRAID_NO_MEMORY;
  memcpy(others, steps, count * sizeof *others);
  for (size_t i = front; i < count; i++) steps[is_moved(plan, &others[i]) ? front++ : moved + kept++] = others[i];
  braid_free(plan->allocator, others);
  return BRAID_OK;
}
