/* Adding steps and instances to a plan: between the stages that build it. */
#ifndef BRAID_RUNTIME_STEPS_H
#define BRAID_RUNTIME_STEPS_H

#include "runtime/plan/plan.h"

/* An instance in a given storage, or in a new one. `listed`: it stands for the value from now on; unlisted ones are for
 * a single purpose. */
BRAID_MUST_CHECK braid_status braid_plan_add_instance(braid_plan *plan, braid_value_id value, int space,
                                                      braid_layout layout, braid_storage_id storage, bool listed,
                                                      braid_instance_id *out);
BRAID_MUST_CHECK braid_status braid_plan_new_instance(braid_plan *plan, braid_value_id value, int space,
                                                      braid_layout layout, braid_storage_kind kind, bool listed,
                                                      braid_instance_id *out);

BRAID_MUST_CHECK braid_status braid_plan_append(braid_plan *plan, bool setup, braid_step *step);
BRAID_MUST_CHECK braid_status braid_plan_add_conversion(braid_plan *plan, int device, braid_instance_id from,
                                                        braid_instance_id to, bool setup);
/* Is the other layout the same memory, or does a device that works in the space have a kernel that converts to it? */
bool braid_plan_converts(const braid_plan *plan, int space, const braid_desc *from, braid_layout layout);
BRAID_MUST_CHECK braid_status braid_plan_add_transfer(braid_plan *plan, braid_step_kind kind, int device,
                                                      braid_instance_id from, braid_instance_id to);

/* Is the step a transfer of an input of the graph, in another queue than kernels? */
bool braid_step_brings_input(const braid_plan *plan, const braid_step *step);
/* Is it a transfer of an output to the host, in another queue than kernels, which no other step touches there? Once
 * storages have their lives. */
bool braid_step_sends_output(const braid_plan *plan, const braid_step *step);
/* Is a transfer so small that waiting for it takes longer? */
bool braid_step_moves_little(const braid_plan *plan, const braid_step *step);

#endif
