#include "backend/cpu/team.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What the thread leads. */
typedef struct team {
  int threads; /* 0: nothing yet */
  int home;    /* the leader's CPU; -1: anywhere */
  cpu_set_t allowed;
} team;

static _Thread_local team led;

/* The CPU that stands at `index` in the set. */
static int cpu_at(const cpu_set_t *set, int index) {
  int cpu = 0;
  while (cpu + 1 < CPU_SETSIZE && (!CPU_ISSET(cpu, set) || index-- > 0)) cpu++;
  return cpu;
}

/* Only a hint: where it is refused the work is right all the same. */
static void move_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

/* The leader goes to its CPU but is not held there: OpenMP lets threads go when a region needs fewer, and those it
 * makes anew begin where their maker may run. From a leader that is bound they would all pile up on its CPU. */
static void go_home(const team *t) {
  move_to(t->home);
  (void)sched_setaffinity(0, sizeof t->allowed, &t->allowed);
}

/* Teams begin at one CPU after the other, so that the parts of sessions that one thread does do not meet on one. */
static void bind_team(team *t) {
  static atomic_uint teams;
  int first = (int)(atomic_fetch_add(&teams, 1) % (unsigned)t->threads);
  cpu_set_t allowed = t->allowed;
#pragma omp parallel num_threads(t->threads)
  {
    int member = omp_get_thread_num();
    if (member > 0) move_to(cpu_at(&allowed, (first + member) % omp_get_num_threads()));
  }
  t->home = cpu_at(&allowed, first);
}

void braid_cpu_team_lead(int threads) {
  team *t = &led;
  if (t->threads != threads) {
    *t = (team){.threads = threads, .home = -1};
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    bool all = threads > 1 && omp_get_proc_bind() == omp_proc_bind_false &&
               sched_getaffinity(0, sizeof t->allowed, &t->allowed) == 0 && CPU_COUNT(&t->allowed) == threads;
    if (all) bind_team(t);
  }
  if (t->home >= 0 && sched_getcpu() != t->home) go_home(t);
}

void braid_cpu_team_leave(void) {
  (void)omp_pause_resource_all(omp_pause_soft);
}
