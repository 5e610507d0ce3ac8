#include "backend/cpu/team.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* What the thread leads. */
typedef struct team {
  int threads; /* 0: nothing yet */
  bool all;    /* as many as the CPUs of `allowed`, which nobody else places */
  bool kept;   /* each member on one CPU of its own */
  int home;    /* the leader's CPU */
  cpu_set_t allowed;
  int64_t met_ns; /* when another team was last seen at work; 0: never */
} team;

static _Thread_local team led;

/* Teams that are inside a kernel: of the process, as the CPUs are that they share. */
static atomic_int working;

/* A team stays free this long after it has met another one. */
static const int64_t kApart = 100000000;

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
  t->kept = true;
}

static void free_team(team *t) {
  cpu_set_t allowed = t->allowed;
#pragma omp parallel num_threads(t->threads)
  if (omp_get_thread_num() > 0) (void)sched_setaffinity(0, sizeof allowed, &allowed);
  t->kept = false;
}

void braid_cpu_team_begin(int threads) {
  team *t = &led;
  if (t->threads != threads) {
    *t = (team){.threads = threads};
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    t->all = threads > 1 && omp_get_proc_bind() == omp_proc_bind_false &&
             sched_getaffinity(0, sizeof t->allowed, &t->allowed) == 0 && CPU_COUNT(&t->allowed) == threads;
  }
  if (!t->all) return;
  bool alone = atomic_fetch_add(&working, 1) == 0;
  if (!alone) t->met_ns = braid_now_ns();
  if (!alone && t->kept) free_team(t);
  if (alone && !t->kept && (!t->met_ns || braid_now_ns() - t->met_ns > kApart)) bind_team(t);
  if (t->kept && sched_getcpu() != t->home) go_home(t);
}

void braid_cpu_team_end(void) {
  if (led.all) atomic_fetch_sub(&working, 1);
}

void braid_cpu_team_leave(void) {
  (void)omp_pause_resource_all(omp_pause_soft);
}
