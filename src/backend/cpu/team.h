/* OpenMP teams. Every thread that meets a parallel region leads a team of its own, and an OpenMP runtime that counts
 * more threads than CPUs lets idle ones sleep at once, which makes every parallel region pay for waking them (measured
 * on two cores: twice the time of a MobileNet). So only the thread of a queue keeps a team; others give theirs back. */
#ifndef BRAID_BACKEND_CPU_TEAM_H
#define BRAID_BACKEND_CPU_TEAM_H

/* For the thread of a queue, around every kernel: its parallel regions have `threads` threads from now on, whatever the
 * load of the machine (OMP_DYNAMIC).
 *
 * If that is every CPU the process may use, and no other such team is at work, each thread is kept on a CPU of its own,
 * since a woken thread may otherwise share its waker's CPU for milliseconds. Teams that work at the same time are left
 * to the system: kept on CPUs, threads of two would wait for each other on one CPU while another is idle. If there are
 * fewer threads (an option, a quota), or OMP_PROC_BIND places them, all stay as they are. */
void braid_cpu_team_begin(int threads);
void braid_cpu_team_end(void);
/* For any other thread, when no more work that may have parallel regions is near. */
void braid_cpu_team_leave(void);
#endif
