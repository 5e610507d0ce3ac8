/* What policies cost: tasks and devices, milliseconds for a plan, and nanoseconds for each task of it. The least of
 * some plans, since others use the machine as well. `policy_bench P` measures the policy P alone. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "schedule/large_problem.h"
#include "schedule/policy.h"

static double measure(const braid_policy *policy, const braid_problem *problem, size_t *tasks) {
  double least = -1;
  int64_t start = braid_now_ns();
  for (int i = 0; i < 10 && (!i || braid_now_ns() - start < 1000000000); i++) {
    braid_arena *arena;
    braid_choices choices;
    if (braid_arena_create(NULL, &arena) != BRAID_OK) return -1;
    int64_t before = braid_now_ns();
    braid_status status = braid_problem_solve(policy, problem, NULL, arena, &choices);
    double seconds = (double)(braid_now_ns() - before) * 1e-9;
    *tasks = status == BRAID_OK ? choices.task_count : 0;
    braid_arena_destroy(arena);
    if (status != BRAID_OK) {
      fprintf(stderr, "%s: %s\n", policy->name, braid_error_detail());
      return -1;
    }
    if (least < 0 || seconds < least) least = seconds;
  }
  return least;
}

enum { kMostPolicies = 32 };

int main(int argc, char **argv) {
  static const struct {
    size_t nodes, width, devices;
  } kSizes[] = {{500, 4, 4}, {500, 50, 64}, {5000, 500, 1000}, {20000, 10000, 10000}};
  double last[kMostPolicies] = {0}; /* for the size before */
  printf("%-14s %8s %8s %10s %12s\n", "policy", "tasks", "devices", "plan ms", "ns a task");
  for (size_t s = 0; s < sizeof kSizes / sizeof *kSizes; s++) {
    large_problem large;
    if (!large_make(&large, kSizes[s].nodes, kSizes[s].width, kSizes[s].devices)) return 1;
    for (size_t p = 0; p < braid_policy_count() && p < kMostPolicies; p++) {
      const braid_policy *policy = braid_policy_at(p);
      size_t tasks;
      if (argc > 1 && strcmp(argv[1], policy->name) != 0) continue;
      if (strcmp(policy->name, "optimal") == 0) continue; /* seconds: a bound is found for each */
      if (last[p] > 0.5) continue;                        /* the next size would take minutes */
      double seconds = last[p] = measure(policy, &large.problem, &tasks);
      if (seconds < 0) continue;
      printf("%-14s %8zu %8zu %10.2f %12.0f\n", policy->name, tasks, kSizes[s].devices, seconds * 1e3,
             seconds * 1e9 / (double)tasks);
      fflush(stdout);
    }
    large_free(&large);
  }
  return 0;
}
