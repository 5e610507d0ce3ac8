/* How choices are explained. */
#ifndef BRAID_SCHEDULE_REASONS_H
#define BRAID_SCHEDULE_REASONS_H

#include "schedule/policy.h"

extern const char braid_reason_no_other[];

/* Appends a device and when the task would end there, in milliseconds; what does not fit into `room` is left out.
 * Returns how much of the text is used then. */
size_t braid_reason_end(char *text, size_t used, size_t room, const char *device, bool known, double end);
/* What was placed later may be in the way, by transfers over the same links or by running beside it: the ends that a
 * reason names are then not those of the simulation, and it says whose they are. `finish`: the ends that were expected,
 * per node in seconds; units: the sets of nodes that were placed. */
BRAID_MUST_CHECK braid_status braid_reasons_late(const braid_choosing *choosing, const braid_choices *units,
                                                 const double *finish, braid_choices *choices);
/* That everything is on one device, with which devices it shares operations, how long that takes, and in how many
 * seconds the step ends if its tasks are spread. */
BRAID_MUST_CHECK braid_status braid_reasons_alone(const braid_choosing *choosing, size_t device, braid_number spread,
                                                  braid_choices *choices);
/* That one class of devices does everything, how long that takes, and how long it would take with the others. */
BRAID_MUST_CHECK braid_status braid_reasons_class(const braid_choosing *choosing, const char *which,
                                                  braid_number others, braid_choices *choices);
/* That a policy placed it; for plans that go on from there, in which the ends that it named may be others. */
BRAID_MUST_CHECK braid_status braid_reasons_of(const braid_choosing *choosing, const char *policy,
                                               braid_choices *choices);

#endif
