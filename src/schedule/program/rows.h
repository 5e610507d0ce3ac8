/* The rows of a program that it has whether exact or relaxed; for program.c. */
#ifndef BRAID_SCHEDULE_ROWS_H
#define BRAID_SCHEDULE_ROWS_H

#include "schedule/program/program.h"

/* *possible: false if it is exact and would have more than `most` terms. */
BRAID_MUST_CHECK braid_status braid_program_add_rows(braid_program *program, double idle_watts, size_t most,
                                                     bool *possible);

#endif
