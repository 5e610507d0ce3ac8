/* Where a team's threads may run, on machines made up: the calls that ask and set it are ours, and a thread begins with
 * the CPUs of the one that made it, as in Linux. */
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/cpu/team.h"
#include "skip.h"

/* --- the machine ---------------------------------------------------------------------------------------------------
 */
static _Thread_local cpu_set_t own;
static _Thread_local int current = -1;

static void allow(const cpu_set_t *set) {
  own = *set;
  if (current >= 0 && CPU_ISSET(current, set)) return;
  for (current = 0; !CPU_ISSET(current, set);) current++;
}

int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set) {
  (void)thread;
  assert_int_equal(bytes, sizeof own);
  *set = own;
  return 0;
}

int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set) {
  assert_int_equal(thread, 0);
  assert_int_equal(bytes, sizeof own);
  allow(set);
  return 0;
}

int sched_getcpu(void) {
  return current;
}

typedef struct start {
  void *(*entry)(void *);
  void *context;
  cpu_set_t set;
} start;

static void *begin(void *context) {
  start s = *(start *)context;
  free(context);
  allow(&s.set);
  return s.entry(s.context);
}

/* Seen by the OpenMP runtime, a shared library. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*entry)(void *), void *context) {
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  void *symbol = dlsym(RTLD_NEXT, "pthread_create");
  memcpy(&real, &symbol, sizeof real);
  start *s = malloc(sizeof *s);
  *s = (start){entry, context, own};
  return real(thread, attributes, begin, s);
}

/* --- tests ---------------------------------------------------------------------------------------------------------
 */
enum { kMost = 64 };

typedef struct trial {
  cpu_set_t machine;
  int threads, shrunk; /* a region of fewer threads in between; 0: none */
  int moved_to;        /* the leader finds itself there afterwards; -1: not */
  cpu_set_t members[kMost];
  int leader_at;
} trial;

static void ask_members(trial *t) {
#pragma omp parallel num_threads(t->threads)
  t->members[omp_get_thread_num()] = own;
}

static void *lead(void *context) {
  trial *t = context;
  allow(&t->machine);
  omp_set_dynamic(1); /* as OMP_DYNAMIC has it */
  braid_cpu_team_begin(t->threads);
  assert_false(omp_get_dynamic());
  ask_members(t);
  if (t->shrunk) {
    int members = 0;
#pragma omp parallel num_threads(t->shrunk) reduction(+ : members)
    members++;
    assert_int_equal(members, t->shrunk);
    usleep(20000); /* the others are gone */
    ask_members(t);
  }
  braid_cpu_team_end();
  if (t->moved_to >= 0) current = t->moved_to;
  braid_cpu_team_begin(t->threads);
  t->leader_at = current;
  braid_cpu_team_end();
  return NULL;
}

/* A queue's thread. */
static void run(trial *t) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, lead, t), 0);
  pthread_join(thread, NULL);
}

static cpu_set_t cpus(const char *list) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (; *list; list++) CPU_SET((size_t)(*list - '0'), &set);
  return set;
}

/* How many threads are held on one CPU, each on another and within the machine; the rest may run anywhere in it. */
static int count_bound(const trial *t) {
  cpu_set_t taken;
  CPU_ZERO(&taken);
  int bound = 0;
  for (int i = 0; i < t->threads; i++) {
    cpu_set_t shared;
    CPU_AND(&shared, &taken, &t->members[i]);
    if (CPU_EQUAL(&t->members[i], &t->machine)) continue;
    assert_int_equal(CPU_COUNT(&t->members[i]), 1);
    assert_int_equal(CPU_COUNT(&shared), 0);
    CPU_AND(&shared, &t->machine, &t->members[i]);
    assert_int_equal(CPU_COUNT(&shared), 1);
    CPU_OR(&taken, &taken, &t->members[i]);
    bound++;
  }
  if (t->threads > 1 && bound) assert_false(CPU_ISSET(t->leader_at, &taken));
  return bound;
}

static void test_a_cpu_each(void **state) {
  (void)state;
  static const char *const kMachines[] = {"01", "012", "01234567", "236", "47"};
  for (size_t i = 0; i < sizeof kMachines / sizeof *kMachines; i++) {
    trial t = {.machine = cpus(kMachines[i]), .threads = (int)strlen(kMachines[i]), .moved_to = -1};
    run(&t);
    assert_int_equal(count_bound(&t), t.threads - 1);
    assert_true(CPU_EQUAL(&t.members[0], &t.machine)); /* what the leader makes anew begins there */
  }
}

/* A region of fewer threads lets the others go; those made anew do not pile up on the leader's CPU. */
static void test_threads_made_anew(void **state) {
  (void)state;
  for (int shrunk = 2; shrunk < 8; shrunk++) {
    trial t = {.machine = cpus("01234567"), .threads = 8, .shrunk = shrunk, .moved_to = -1};
    run(&t);
    assert_true(count_bound(&t) >= shrunk - 1);
  }
}

static void test_leader_returns(void **state) {
  (void)state;
  trial first = {.machine = cpus("0123"), .threads = 4, .moved_to = -1}, second = first;
  run(&first);
  run(&second);
  assert_int_not_equal(first.leader_at, second.leader_at); /* teams begin at different CPUs */
  for (int cpu = 0; cpu < 4; cpu++) {
    trial t = {.machine = cpus("0123"), .threads = 4, .moved_to = cpu};
    run(&t);
    assert_int_equal(count_bound(&t), 3);
  }
}

/* Fewer threads than CPUs, or more: the system knows better where they go. */
static void test_left_alone(void **state) {
  (void)state;
#ifdef __clang__
  skip_test("libgomp", "clang's OpenMP keeps other teams");
#endif
  for (int threads = 1; threads <= 6; threads++) {
    trial t = {.machine = cpus("1357"), .threads = threads, .moved_to = -1};
    if (threads == 4) continue;
    run(&t);
    assert_int_equal(count_bound(&t), 0);
  }
}

/* --- two teams -----------------------------------------------------------------------------------------------------
 */
typedef struct pair {
  trial trials[2];
  int bound[5]; /* threads kept on CPUs, of the team that was asked then */
  pthread_barrier_t step;
} pair;

typedef struct member {
  pair *pair;
  int index;
} member;

static int ask_bound(trial *t) {
  t->leader_at = current;
  ask_members(t);
  return count_bound(t);
}

/* The second team begins a kernel within one of the first's, which ends and begins the next within that. */
static void *work_together(void *context) {
  member *m = context;
  pair *p = m->pair;
  trial *t = &p->trials[m->index];
  allow(&t->machine);
  if (m->index == 0) {
    braid_cpu_team_begin(t->threads);
    p->bound[0] = ask_bound(t);
    pthread_barrier_wait(&p->step);
    pthread_barrier_wait(&p->step);
    braid_cpu_team_end();
    braid_cpu_team_begin(t->threads);
    p->bound[2] = ask_bound(t);
    braid_cpu_team_end();
    pthread_barrier_wait(&p->step);
    pthread_barrier_wait(&p->step);
  } else {
    pthread_barrier_wait(&p->step);
    braid_cpu_team_begin(t->threads);
    p->bound[1] = ask_bound(t);
    pthread_barrier_wait(&p->step);
    pthread_barrier_wait(&p->step);
    braid_cpu_team_end();
    pthread_barrier_wait(&p->step);
    return NULL;
  }
  braid_cpu_team_begin(t->threads);
  p->bound[3] = ask_bound(t);
  braid_cpu_team_end();
  usleep(150000);
  braid_cpu_team_begin(t->threads);
  p->bound[4] = ask_bound(t);
  braid_cpu_team_end();
  return NULL;
}

/* Teams that work at the same time are not kept on CPUs, where they would wait for each other; one that is alone is. */
static void test_two_at_work(void **state) {
  (void)state;
#ifdef __clang__
  skip_test("libgomp", "clang's OpenMP keeps other teams");
#endif
  static const char *const kMachines[] = {"01", "0123", "36"};
  for (size_t i = 0; i < sizeof kMachines / sizeof *kMachines; i++) {
    pair p = {.trials = {{.machine = cpus(kMachines[i]), .threads = (int)strlen(kMachines[i])}}};
    p.trials[1] = p.trials[0];
    member members[2] = {{&p, 0}, {&p, 1}};
    pthread_t threads[2];
    assert_int_equal(pthread_barrier_init(&p.step, NULL, 2), 0);
    for (int k = 0; k < 2; k++) assert_int_equal(pthread_create(&threads[k], NULL, work_together, &members[k]), 0);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&p.step);
    assert_int_equal(p.bound[0], p.trials[0].threads - 1);       /* alone */
    for (int k = 1; k < 4; k++) assert_int_equal(p.bound[k], 0); /* with another, and right after */
    assert_int_equal(p.bound[4], p.trials[0].threads - 1);       /* alone again */
  }
}

int main(void) {
  cpu_set_t all = cpus("01234567");
  allow(&all);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_cpu_each),     cmocka_unit_test(test_threads_made_anew),
      cmocka_unit_test(test_leader_returns), cmocka_unit_test(test_left_alone),
      cmocka_unit_test(test_two_at_work),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
