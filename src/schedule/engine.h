/* The state of a simulation, and its memory; for simulate.c. */
#ifndef BRAID_SCHEDULE_ENGINE_H
#define BRAID_SCHEDULE_ENGINE_H

#include "schedule/arrivals.h"
#include "schedule/simulate.h"

typedef struct event {
  double at;
  uint64_t number; /* of equal times, the one that was entered first comes first */
  int32_t task;    /* that ends, or with a device begins; -1: the device is looked at again */
  int device;      /* -1: the task ends */
} event;

/* A list for each of `count` things: items[first[i]] to items[first[i + 1]]. */
typedef struct lists {
  size_t *first;
  int32_t *items;
} lists;

/* From `from` to `until` a transfer occupies a bus; `next`: the one after it on the same bus, -1: none. */
typedef struct booking {
  double from, until;
  int32_t next;
} booking;

typedef struct engine {
  braid_simulation view; /* what rules see; first, so that their calls find the rest */
  const braid_problem *problem;
  braid_choices *choices;
  const braid_rule *rule;
  bool capped;
  int32_t *task_of; /* per node: its task; -1: idle */
  size_t *waiting;  /* per task: reads of what is not computed yet */
  double *computed; /* per task: when the last of them was */
  lists readers;    /* per value: nodes */
  lists results;    /* per node: values */
  lists queues;     /* per device: its tasks in order; without a rule */
  size_t *heads;    /* per device: the next of them */
  braid_arrivals arrived;
  double *bus_free; /* per bus */
  int32_t *running, *ready;
  int32_t *awaiting; /* per device: the task whose inputs it was to be looked at again for */
  size_t ready_count;
  double *idle_since, *busy;  /* per device */
  int *clocks, *first_clocks; /* per device: now; when the run began */
  bool *dirty, *blocked;      /* per device: to be looked at; its next task waits for the cap */
  int *marked, *looking;      /* the dirty ones; those that are being looked at */
  size_t marked_count;
  size_t *ready_on; /* per device: ready tasks of its own, at the start of its part of `queues`; or that it may run */
  int *turn;        /* per device: its place in the rule's order */
  event *events;
  size_t event_count, done;
  uint64_t event_number;
  int32_t last_ended;
  double watts_before; /* the last end of a task */
  /* Interference, if any device has it: what begins at an instant is settled when that is over, so that all of it
   * counts for each, whichever was started first. */
  bool interferes;
  int32_t *begun; /* tasks that began at the present instant */
  size_t begun_count;
  size_t computing; /* devices whose tasks have begun */
  /* Transfers by their buses, for interference with them: those that are over by now are left out as they are seen. */
  bool traffic;
  booking *bookings;
  size_t booking_count;
  int32_t *first_booking, *last_booking; /* per bus; -1: none */
  double stretched;                      /* energy of what interference adds */
  /* The same schedule if nothing took time to move. Per task: when what it reads is computed, then its start, then its
   * end; what it takes; per device: since when it is idle. */
  double *unmoved, *unmoved_seconds, *unmoved_idle;
  double unmoved_end;
} engine;

/* `reads`: of all nodes. */
BRAID_MUST_CHECK braid_status braid_engine_allocate(engine *e, size_t reads);
void braid_engine_free(engine *e);
/* The tasks of every device, in the order that the choices have. */
BRAID_MUST_CHECK braid_status braid_engine_fill_queues(engine *e);
/* A transfer occupies a bus from `from` to `until`, after those that were booked before; bus -1: none. */
void braid_engine_book(engine *e, int bus, double from, double until);
/* Whether a transfer is under way on a bus now; one that is only booked is not. */
bool braid_engine_in_use(engine *e, int bus);

#endif
