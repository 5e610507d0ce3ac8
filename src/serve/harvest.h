/* Training beside the daemon, in processes of its own (`braid train --tenant`): they compute while no request waits or
 * runs, and rest otherwise. Each has a page of memory that it shares with the daemon (braid_wire_gate): the daemon
 * opens and closes it, and training looks at it before each of its tasks. */
#ifndef BRAID_SERVE_HARVEST_H
#define BRAID_SERVE_HARVEST_H

#include <sys/types.h>

#include "serve/supply.h"
#include "serve/tenant.h"

typedef struct braid_serve_harvest braid_serve_harvest;

/* A training; the caller's memory, between add and remove. The first three are the caller's to set. */
typedef struct braid_serve_harvester {
  struct braid_wire_gate *gate;
  braid_serve_tenant *tenant;
  pid_t pid; /* 0: unknown */
  struct braid_serve_harvester *next;
  int64_t began_ns;
} braid_serve_harvester;

typedef struct braid_serve_harvester_view {
  char tenant[BRAID_SERVE_NAME];
  pid_t pid;
  bool open;
  double seconds;     /* since it came */
  double cpu_seconds; /* that its process has used since it began, as the kernel says; NAN: unknown */
} braid_serve_harvester_view;

braid_status braid_serve_harvest_create(braid_serve_supply *supply, braid_serve_harvest **out);
void braid_serve_harvest_destroy(braid_serve_harvest *harvest); /* without harvesters; NULL is allowed */
void braid_serve_harvest_add(braid_serve_harvest *harvest, braid_serve_harvester *harvester);
void braid_serve_harvest_remove(braid_serve_harvest *harvest, braid_serve_harvester *harvester);
/* A request has come, or has ended. */
void braid_serve_harvest_enter(braid_serve_harvest *harvest);
void braid_serve_harvest_leave(braid_serve_harvest *harvest);
/* For what runs on a device beside the scheduler (trials of models, remote devices): training rests, and the power cap
 * has room, behind all that waits for it, and after a second before it. False: `cancelled` (asked now and then; NULL:
 * never) says that it is not to run. */
bool braid_serve_harvest_turn_begin(braid_serve_harvest *harvest, size_t device, bool (*cancelled)(void *context),
                                    void *context);
void braid_serve_harvest_turn_end(braid_serve_harvest *harvest, size_t device, int64_t ran_ns);
/* Whether training that had to rest still uses power: a run that waits for the cap asks again soon. Training that does
 * not rest within 100 ms is not waited for. */
bool braid_serve_harvest_lingers(braid_serve_harvest *harvest);
/* The index-th; false beyond the last. *out_seconds: for which gates were open, since the daemon began. */
bool braid_serve_harvest_look(braid_serve_harvest *harvest, size_t index, braid_serve_harvester_view *out,
                              double *out_seconds);

#endif
