#include "serve/harvest.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "serve/wire/wire_format.h"

static const int64_t kTurnPatience = 1000000000; /* of what runs beside the scheduler: nanoseconds */
static const int64_t kPatience = 100000000;      /* with training that does not rest: nanoseconds */
enum { kTurnLook = 500000 };                     /* nanoseconds */

struct braid_serve_harvest {
  braid_serve_supply *supply;
  int active;           /* requests that wait or run; atomic */
  int count;            /* harvesters; atomic */
  pthread_mutex_t lock; /* of what follows */
  braid_serve_harvester *first;
  bool open;    /* gates are */
  bool powered; /* training counts in the supply */
  int64_t powered_ns, opened_ns, closed_ns;
  double open_seconds;
};

static void set_gate(braid_wire_gate *gate, bool open) {
  __atomic_store_n(&gate->open, open, __ATOMIC_SEQ_CST);
  if (open) braid_futex_wake_shared(&gate->open);
}

/* Training that is to rest: once all do, or have had their time, its power is free. */
static void gates_settle(braid_serve_harvest *harvest, int64_t now) {
  bool works = false;
  if (!harvest->powered || harvest->open) return;
  for (braid_serve_harvester *h = harvest->first; h; h = h->next)
    works |= __atomic_load_n(&h->gate->works, __ATOMIC_SEQ_CST) != 0;
  if (works && now - harvest->closed_ns < kPatience) return;
  harvest->powered = false;
  braid_serve_supply_end_training(harvest->supply, now - harvest->powered_ns);
}

/* Opens or closes all gates as it is right now. */
static void gates_look(braid_serve_harvest *harvest) {
  int64_t now = braid_now_ns();
  bool open = harvest->first && !__atomic_load_n(&harvest->active, __ATOMIC_SEQ_CST);
  if (open && !harvest->powered) {
    open = harvest->powered = braid_serve_supply_begin_training(harvest->supply);
    harvest->powered_ns = now;
  }
  if (open != harvest->open) {
    harvest->open = open;
    if (open)
      harvest->opened_ns = now;
    else
      harvest->open_seconds += 1e-9 * (double)(now - harvest->opened_ns);
    if (!open) harvest->closed_ns = now;
    for (braid_serve_harvester *h = harvest->first; h; h = h->next) set_gate(h->gate, open);
  }
  gates_settle(harvest, now);
}

void braid_serve_harvest_add(braid_serve_harvest *harvest, braid_serve_harvester *harvester) {
  pthread_mutex_lock(&harvest->lock);
  harvester->began_ns = braid_now_ns();
  harvester->next = harvest->first;
  harvest->first = harvester;
  __atomic_add_fetch(&harvest->count, 1, __ATOMIC_SEQ_CST);
  set_gate(harvester->gate, harvest->open);
  gates_look(harvest);
  pthread_mutex_unlock(&harvest->lock);
}

void braid_serve_harvest_remove(braid_serve_harvest *harvest, braid_serve_harvester *harvester) {
  pthread_mutex_lock(&harvest->lock);
  braid_serve_harvester **link = &harvest->first;
  while (*link != harvester) link = &(*link)->next;
  *link = harvester->next;
  __atomic_sub_fetch(&harvest->count, 1, __ATOMIC_SEQ_CST);
  gates_look(harvest);
  pthread_mutex_unlock(&harvest->lock);
}

static void gates_look_if_any(braid_serve_harvest *harvest) {
  if (!__atomic_load_n(&harvest->count, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&harvest->lock);
  gates_look(harvest);
  pthread_mutex_unlock(&harvest->lock);
}

void braid_serve_harvest_enter(braid_serve_harvest *harvest) {
  if (__atomic_fetch_add(&harvest->active, 1, __ATOMIC_SEQ_CST) == 0) gates_look_if_any(harvest);
}

void braid_serve_harvest_leave(braid_serve_harvest *harvest) {
  if (__atomic_sub_fetch(&harvest->active, 1, __ATOMIC_SEQ_CST) == 0) gates_look_if_any(harvest);
}

static void look_after_sample(void *context) {
  gates_look_if_any(context);
}

braid_status braid_serve_harvest_create(braid_serve_supply *supply, braid_serve_harvest **out) {
  braid_serve_harvest *harvest = braid_zalloc(NULL, sizeof *harvest);
  *out = harvest;
  if (!harvest) return BRAID_NO_MEMORY;
  harvest->supply = supply;
  pthread_mutex_init(&harvest->lock, NULL);
  braid_serve_supply_watch(supply, look_after_sample, harvest);
  return BRAID_OK;
}

void braid_serve_harvest_destroy(braid_serve_harvest *harvest) {
  if (!harvest) return;
  braid_serve_supply_watch(harvest->supply, NULL, NULL);
  pthread_mutex_destroy(&harvest->lock);
  braid_free(NULL, harvest);
}

bool braid_serve_harvest_lingers(braid_serve_harvest *harvest) {
  pthread_mutex_lock(&harvest->lock);
  gates_settle(harvest, braid_now_ns());
  bool lingers = harvest->powered;
  pthread_mutex_unlock(&harvest->lock);
  return lingers;
}

bool braid_serve_harvest_turn_begin(braid_serve_harvest *harvest, size_t device, bool (*cancelled)(void *context),
                                    void *context) {
  int64_t began = braid_now_ns();
  braid_serve_harvest_enter(harvest);
  for (;;) {
    (void)braid_serve_harvest_lingers(harvest); /* training that rests by now uses no power any more */
    int rank = braid_now_ns() - began > kTurnPatience ? 0 : INT_MAX;
    if (braid_serve_supply_begin_beside(harvest->supply, device, rank, began)) return true;
    if (cancelled && cancelled(context)) break;
    nanosleep(&(struct timespec){0, kTurnLook}, NULL);
  }
  braid_serve_supply_withdraw_beside(harvest->supply);
  braid_serve_harvest_leave(harvest);
  return false;
}

void braid_serve_harvest_turn_end(braid_serve_harvest *harvest, size_t device, int64_t ran_ns) {
  braid_serve_supply_end(harvest->supply, device, ran_ns);
  braid_serve_harvest_leave(harvest);
}

/* User and system time of a process, by /proc. */
static double cpu_seconds(pid_t pid) {
  char path[64], line[1024];
  unsigned long user, system;
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  FILE *file = pid > 0 ? fopen(path, "re") : NULL;
  if (!file) return NAN;
  char *read = fgets(line, sizeof line, file);
  fclose(file);
  char *after = read ? strrchr(line, ')') : NULL; /* the name may contain anything */
  if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    return NAN;
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

bool braid_serve_harvest_look(braid_serve_harvest *harvest, size_t index, braid_serve_harvester_view *out,
                              double *out_seconds) {
  int64_t now = braid_now_ns();
  pthread_mutex_lock(&harvest->lock);
  braid_serve_harvester *h = harvest->first;
  while (h && index--) h = h->next;
  *out_seconds = harvest->open_seconds + (harvest->open ? 1e-9 * (double)(now - harvest->opened_ns) : 0);
  if (h) {
    *out = (braid_serve_harvester_view){
        .pid = h->pid, .open = harvest->open, .seconds = 1e-9 * (double)(now - h->began_ns)};
    snprintf(out->tenant, sizeof out->tenant, "%s", h->tenant->config->name);
  }
  pthread_mutex_unlock(&harvest->lock);
  if (h) out->cpu_seconds = cpu_seconds(out->pid);
  return h != NULL;
}
