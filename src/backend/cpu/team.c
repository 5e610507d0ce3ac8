#include "backend/cpu/team.h"

#include <omp.h>
#include <sched.h>

/* The CPU that stands at `index` in the set; -1: fewer are in it. */
static int cpu_at(const cpu_set_t *set, int index) {
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, set) && index-- == 0) return cpu;
  return -1;
}

void braid_cpu_team_lead(int threads) {
  omp_set_num_threads(threads);
  cpu_set_t allowed;
  if (threads < 2 || sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) != threads) return;
#pragma omp parallel num_threads(threads)
  {
    int cpu = cpu_at(&allowed, omp_get_thread_num());
    cpu_set_t one;
    CPU_ZERO(&one);
    if (cpu >= 0) {
      CPU_SET(cpu, &one);
      (void)sched_setaffinity(0, sizeof one, &one); /* a hint: without it the work is right all the same */
    }
  }
}

void braid_cpu_team_leave(void) {
  (void)omp_pause_resource_all(omp_pause_soft);
}
