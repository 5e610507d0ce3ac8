/* What every policy's plan holds in a space at any instant fits into it: recounted by loops over instants, on random
 * problems, and by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oom.h"
#include "schedule/memory.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

enum { kKept = 6, kUsers = 3 * kKept };

typedef struct memory {
  fixture f;
  size_t capacities[kDevices];
  braid_problem_kept kept[kKept];
  int32_t users[kUsers];
} memory;

/* --- recounting ----------------------------------------------------------------------------------------------------
 */
static int space_of_node(const fixture *f, const braid_choices *c, int32_t node) {
  return f->devices[f->offers[c->offer_of[node]].device].space;
}

static bool is_made(const fixture *f, const braid_choices *c, int32_t value) {
  return f->values[value].producer >= 0 && c->offer_of[f->values[value].producer] >= 0;
}

static bool is_read_by(const fixture *f, size_t node, int32_t value) {
  for (size_t r = 0; r < f->nodes[node].read_count; r++)
    if (f->reads[f->nodes[node].first_read + r] == value) return true;
  return false;
}

/* When the last one has read a value in a space. */
static double last_read(const fixture *f, const braid_choices *c, int32_t value, int space) {
  double last = 0;
  for (size_t n = 0; n < f->problem.node_count; n++)
    if (c->offer_of[n] >= 0 && is_read_by(f, n, value) && space_of_node(f, c, (int32_t)n) == space && c->end[n] > last)
      last = c->end[n];
  return last;
}

static bool is_at(double from, double to, double at) {
  return at == from || (from < at && at < to); /* what takes no time is there at its instant */
}

static bool is_written_over(const memory *m, int32_t value) {
  for (size_t k = 0; k < m->f.problem.kept_count; k++)
    for (size_t u = 0; u < m->kept[k].user_count && m->kept[k].next == value; u++)
      if (m->users[m->kept[k].first_user + u] == m->f.values[value].producer) return true;
  return false;
}

/* Bytes in a space other than the host's at an instant. */
static size_t count_bytes(const memory *m, const braid_choices *c, int space, double at) {
  const fixture *f = &m->f;
  size_t bytes = 0;
  for (size_t k = 0; k < f->problem.kept_count; k++) {
    bool here = false;
    for (size_t u = 0; u < m->kept[k].user_count; u++) {
      int32_t node = m->users[m->kept[k].first_user + u];
      here |= c->offer_of[node] >= 0 && space_of_node(f, c, node) == space;
    }
    bytes += here ? m->kept[k].bytes : 0;
  }
  for (int32_t v = 0; v < (int32_t)f->problem.value_count; v++) {
    double read = last_read(f, c, v, space);
    if (is_made(f, c, v) && space_of_node(f, c, f->values[v].producer) == space && !is_written_over(m, v)) {
      double to = fmax(read, c->end[f->values[v].producer]);
      for (size_t i = 0; i < c->move_count; i++)
        if (c->moves[i].value == v) to = fmax(to, c->moves[i].end);
      bytes += is_at(c->start[f->values[v].producer], to, at) ? f->values[v].bytes : 0;
    }
    for (size_t i = 0; i < c->move_count; i++)
      if (c->moves[i].value == v && c->moves[i].space == space)
        bytes += is_at(c->moves[i].start, fmax(read, c->moves[i].end), at) ? f->values[v].bytes : 0;
  }
  return bytes;
}

/* What is held grows only where a task or a transfer starts. */
static size_t count_peak(const memory *m, const braid_choices *c, int space) {
  size_t peak = count_bytes(m, c, space, 0);
  for (size_t i = 0; i < c->task_count + c->move_count; i++) {
    size_t bytes =
        count_bytes(m, c, space, i < c->task_count ? c->start[c->order[i]] : c->moves[i - c->task_count].start);
    if (bytes > peak) peak = bytes;
  }
  return peak;
}

/* All that is read in another space was brought there once, after it was made and before it is read. */
static void check_moves(const fixture *f, const braid_choices *c) {
  for (size_t n = 0; n < f->problem.node_count; n++)
    for (size_t r = 0; r < f->nodes[n].read_count; r++) {
      int32_t value = f->reads[f->nodes[n].first_read + r];
      int from = is_made(f, c, value) ? space_of_node(f, c, f->values[value].producer) : 0;
      int to = space_of_node(f, c, (int32_t)n);
      size_t found = 0;
      for (size_t i = 0; i < c->move_count; i++) {
        const braid_move *move = &c->moves[i];
        if (move->value != value || move->space != to) continue;
        found++;
        assert_true(move->start >= (is_made(f, c, value) ? c->end[f->values[value].producer] : 0));
        assert_true(fabs(move->end - move->start - braid_problem_moving(&f->problem, value, from, to)) < 1e-9);
        assert_true(move->end <= c->start[n] + 1e-12);
      }
      assert_int_equal(found, from != to);
    }
}

/* Every node that runs is in one task, where it may be. */
static void check_cover(const fixture *f, const braid_choices *c) {
  size_t running = 0, covered = 0;
  for (size_t n = 0; n < f->problem.node_count; n++) running += !f->nodes[n].idle;
  for (size_t i = 0; i < c->task_count; i++) {
    const braid_offer *offer = &f->offers[c->offer_of[c->order[i]]];
    assert_true(braid_offer_allowed(&f->problem, offer));
    for (size_t k = 0; k < offer->node_count; k++)
      assert_int_equal(c->offer_of[offer->nodes[k]], c->offer_of[c->order[i]]);
    covered += offer->node_count;
  }
  assert_int_equal(covered, running);
}

/* --- random problems -----------------------------------------------------------------------------------------------
 */
static void add_kept(memory *m) {
  fixture *f = &m->f;
  f->problem.kept = m->kept;
  f->problem.users = m->users;
  for (size_t k = 0; k < 1 + draw(kKept); k++) {
    braid_problem_kept *kept = &m->kept[f->problem.kept_count++];
    *kept = (braid_problem_kept){.name = "w", .bytes = 100 + draw(4000), .next = -1, .first_user = 3 * k};
    kept->user_count = 1 + draw(3);
    for (size_t u = 0; u < kept->user_count; u++)
      m->users[kept->first_user + u] = (int32_t)draw((uint32_t)f->problem.node_count);
    if (draw(2)) kept->next = m->users[kept->first_user + draw((uint32_t)kept->user_count)];
  }
}

static bool has_host_alone(const fixture *f, bool capped) {
  for (size_t n = 0; n < f->problem.node_count; n++) {
    bool found = f->nodes[n].idle;
    for (size_t i = 0; i < f->problem.offer_count && !found; i++) {
      const braid_offer *offer = &f->offers[i];
      found = offer->node_count == 1 && offer->nodes[0] == (int32_t)n && !f->devices[offer->device].space &&
              braid_offer_allowed(&f->problem, offer) && (!capped || braid_offer_within_caps(&f->problem, offer));
    }
    if (!found) return false;
  }
  return true;
}

typedef struct counts {
  size_t solved, tight, refused, baselines;
} counts;

static void check_fits(const memory *m, const braid_choices *c, const char *policy) {
  for (int s = 1; s < m->f.problem.space_count; s++) {
    size_t peak = count_peak(m, c, s);
    if (m->capacities[s] && peak > m->capacities[s])
      fail_msg("%s: %zu bytes in space %d of %zu", policy, peak, s, m->capacities[s]);
  }
}

static void check_peaks(const memory *m, const braid_choices *c) {
  braid_memory_peak peaks[kDevices];
  OK(braid_memory_peaks(&m->f.problem, c, NULL, peaks));
  for (int s = 1; s < m->f.problem.space_count; s++) {
    assert_int_equal(peaks[s].bytes, count_peak(m, c, s));
    assert_int_equal(peaks[s].bytes, count_bytes(m, c, s, peaks[s].at));
  }
}

/* A policy on a problem with capacities, `free` being what it does without. */
static void check_policy(memory *m, const braid_policy *policy, const braid_choices *free, braid_arena *arena,
                         counts *sum) {
  fixture *f = &m->f;
  braid_choices choices, again;
  bool tight = false;
  for (int s = 1; s < f->problem.space_count; s++)
    tight |= m->capacities[s] && count_peak(m, free, s) > m->capacities[s];
  f->problem.capacities = m->capacities;
  braid_status status = braid_problem_solve(policy, &f->problem, NULL, arena, &choices);
  if (status == BRAID_OK) {
    sum->solved++;
    sum->tight += tight;
    sum->baselines += choices.baseline;
    check_cover(f, &choices);
    check_moves(f, &choices);
    check_peaks(m, &choices);
    check_fits(m, &choices, policy->name);
    OK(braid_problem_solve(policy, &f->problem, NULL, arena, &again));
    assert_memory_equal(choices.offer_of, again.offer_of, f->problem.node_count * sizeof *again.offer_of);
    assert_memory_equal(choices.order, again.order, choices.task_count * sizeof *again.order);
    if (!tight && !choices.baseline && !choices.left_out && policy != &braid_policy_slack_energy &&
        policy != &braid_policy_optimal)
      assert_memory_equal(choices.offer_of, free->offer_of, f->problem.node_count * sizeof *again.offer_of);
  } else {
    assert_int_equal(status, BRAID_UNSUPPORTED);
    assert_true(tight);
    sum->refused++;
    if (!strstr(braid_error_detail(), "fits into the memories")) fail_msg("%s", braid_error_detail());
    if (has_host_alone(f, policy->capped) && f->problem.cap_watts.source == BRAID_UNKNOWN)
      fail_msg("%s: all could run on the host: %s", policy->name, braid_error_detail());
  }
  f->problem.capacities = NULL;
}

/* Where policies promise not to be slower than gpu-only, nor to need more energy, they are not within capacities. */
static void check_no_loss(memory *m, braid_arena *arena) {
  braid_choices alone, choices;
  m->f.problem.capacities = m->capacities;
  bool capped = m->f.problem.cap_watts.source != BRAID_UNKNOWN;
  for (size_t d = 0; d < m->f.problem.device_count; d++) capped |= m->f.devices[d].cap_watts.source != BRAID_UNKNOWN;
  bool known = !capped && braid_problem_solve(&braid_policy_gpu_only, &m->f.problem, NULL, arena, &alone) == BRAID_OK &&
               alone.seconds.source != BRAID_UNKNOWN;
  static const braid_policy *const kPolicies[] = {&braid_policy_heft, &braid_policy_hybrid_energy,
                                                  &braid_policy_region_clock, &braid_policy_slack_energy};
  for (size_t p = 0; known && p < sizeof kPolicies / sizeof *kPolicies; p++) {
    OK(braid_problem_solve(kPolicies[p], &m->f.problem, NULL, arena, &choices));
    if (choices.seconds.source == BRAID_UNKNOWN) continue;
    assert_true(choices.seconds.value <= alone.seconds.value * (1 + 1e-9));
    if (p && alone.joules.source != BRAID_UNKNOWN && choices.joules.source != BRAID_UNKNOWN)
      assert_true(choices.joules.value <= alone.joules.value * (1 + 1e-9));
  }
  m->f.problem.capacities = NULL;
}

static void test_random(void **state) {
  (void)state;
  counts sum = {0};
  memory *m = malloc(sizeof *m);
  for (uint32_t s = 0; s < 1500; s++) {
    memset(m, 0, sizeof *m);
    seed = 4242 + s;
    make_random(&m->f, s % 30 ? 24 : 8, s % 2);
    if (m->f.problem.space_count == 1) continue;
    add_kept(m);
    OK(braid_problem_check(&m->f.problem, NULL));
    braid_arena *arena;
    OK(braid_arena_create(NULL, &arena));
    braid_choices free;
    for (size_t p = 0; p < braid_policy_count(); p++) {
      const braid_policy *policy = braid_policy_at(p);
      if (policy == &braid_policy_optimal && s % 30) continue; /* its searches take long */
      if (braid_problem_solve(policy, &m->f.problem, NULL, arena, &free) != BRAID_OK) continue;
      check_moves(&m->f, &free);
      check_peaks(m, &free);
      for (int space = 1; space < m->f.problem.space_count; space++)
        m->capacities[space] = draw(8) ? count_peak(m, &free, space) * (5 + draw(7)) / 10 : 0;
      check_policy(m, policy, &free, arena, &sum);
    }
    check_no_loss(m, arena);
    braid_arena_destroy(arena);
  }
  free(m);
  print_message("%zu plans fit, %zu of them other ones than without a limit, %zu gpu-only's; %zu problems refused\n",
                sum.solved, sum.tight, sum.baselines, sum.refused);
  assert_true(sum.solved > 1500 && sum.tight > 400 && sum.refused > 100 && sum.baselines > 0);
}

/* --- by hand -------------------------------------------------------------------------------------------------------
 */
static braid_offer *offer_seconds(fixture *f, int device, int32_t node, double seconds) {
  braid_offer *offer = offer_for(f, device, &node, 1);
  offer->seconds = (braid_number){seconds, BRAID_MODELLED};
  offer->joules = (braid_number){seconds * 10, BRAID_MODELLED};
  offer->watts = (braid_number){10, BRAID_MODELLED};
  return offer;
}

/* A host "a" in space 0 and a device "b" in space 1; n0 -> n1 -> n2, and n2 reads n0's result too. A byte takes 1 us to
 * move. */
static void make_chain(memory *m, bool host) {
  fixture *f = &m->f;
  memset(m, 0, sizeof *m);
  init(f, 3, 2, 2);
  read_by(f, 0, 3), read_by(f, 1, 0), read_by(f, 2, 1), read_by(f, 2, 0);
  for (int i = 0; i < 4; i++) f->links[i] = (braid_problem_link){0, 1e6};
  f->spaces[0] = (braid_problem_space){0, -1, -1}, f->spaces[1] = (braid_problem_space){1, -1, -1};
  f->devices[0].class = BRAID_CLASS_CPU, f->devices[1].class = BRAID_CLASS_GPU;
  f->devices[0].idle_watts = f->devices[1].idle_watts = (braid_number){1, BRAID_MODELLED};
  static const size_t kBytes[] = {1000, 200, 30, 4};
  for (size_t v = 0; v < 4; v++) f->values[v].bytes = kBytes[v];
  f->values[2].wanted = true;
  for (int32_t n = 0; n < 3; n++) {
    offer_seconds(f, 1, n, 1e-3);
    if (host) offer_seconds(f, 0, n, 50e-3);
  }
  f->problem.kept = m->kept;
  f->problem.users = m->users;
  f->problem.capacities = m->capacities;
}

static size_t peak_of(const memory *m, const braid_policy *policy, braid_arena *arena, braid_choices *choices) {
  braid_memory_peak peaks[kDevices];
  OK(braid_problem_check(&m->f.problem, NULL));
  OK(braid_problem_solve(policy, &m->f.problem, NULL, arena, choices));
  OK(braid_memory_peaks(&m->f.problem, choices, NULL, peaks));
  return peaks[1].bytes;
}

static void test_peaks(void **state) {
  (void)state;
  memory *m = malloc(sizeof *m);
  braid_arena *arena;
  braid_choices choices;
  OK(braid_arena_create(NULL, &arena));
  make_chain(m, false); /* n2 runs: what n0 and n1 made, and its own; the input is gone */
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 1230);
  /* a weight of n0 and n2, and a state of n1 that its result is written over */
  m->users[0] = 0, m->users[1] = 2, m->users[2] = 1;
  m->kept[0] = (braid_problem_kept){.name = "w", .bytes = 50000, .next = -1, .first_user = 0, .user_count = 2};
  m->kept[1] = (braid_problem_kept){.name = "m", .bytes = 200, .next = 1, .first_user = 2, .user_count = 1};
  m->f.problem.kept_count = 2;
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 51230);
  m->kept[1].user_count = 0; /* its result is not: n1 does not use it, and nothing does */
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 51230);
  m->kept[1].user_count = 1, m->kept[1].next = -1;
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 51430);
  braid_arena_destroy(arena);
  free(m);
}

/* n1 runs on the host: its value comes back while n0's is still there. */
static void test_transfers(void **state) {
  (void)state;
  memory *m = malloc(sizeof *m);
  braid_arena *arena;
  braid_choices choices;
  OK(braid_arena_create(NULL, &arena));
  make_chain(m, true);
  m->f.nodes[1].fixed = 0;
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 1230);
  m->f.nodes[2].fixed = 0; /* n0's value leaves with its transfer, before n1 and n2 run */
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 1004);
  /* to a device without memory of its own: n0's value stays until n1 has ended, and n1's is there from its start on */
  m->f.nodes[2].fixed = -1;
  m->f.devices[0].space = 2, m->f.devices[0].borrows = true;
  m->f.problem.space_count = m->f.problem.kind_count = 3;
  m->f.spaces[2] = (braid_problem_space){2, -1, -1};
  for (int i = 0; i < 9; i++) m->f.links[i] = (braid_problem_link){0, 1e6};
  m->f.reads[m->f.nodes[2].first_read + 1] = 1;
  assert_int_equal(peak_of(m, &braid_policy_gpu_only, arena, &choices), 1200);
  braid_arena_destroy(arena);
  free(m);
}

/* Every policy leaves the device as far as it must, and says so; without another one it is refused by name. */
static void test_crowded_out(void **state) {
  (void)state;
  memory *m = malloc(sizeof *m);
  for (size_t p = 0; p < braid_policy_count(); p++) {
    const braid_policy *policy = braid_policy_at(p);
    const char *note;
    braid_arena *arena;
    braid_choices choices;
    OK(braid_arena_create(NULL, &arena));
    make_chain(m, true);
    m->capacities[1] = 1230;
    assert_true(peak_of(m, policy, arena, &choices) <= 1230);
    assert_int_equal(choices.crowded_out, 0);
    m->capacities[1] = 1229;
    assert_true(peak_of(m, policy, arena, &choices) <= 1229);
    OK(braid_policy_note(policy, &m->f.problem, &choices, NULL, arena, &note));
    bool crowded = policy != &braid_policy_first && policy != &braid_policy_manual && policy != &braid_policy_cpu_only;
    assert_int_equal(strstr(note, "fits into the memories") != NULL, crowded);
    if (crowded) assert_true(choices.crowded_out > 0);
    make_chain(m, false);
    m->capacities[1] = 1229;
    assert_int_equal(braid_problem_solve(policy, &m->f.problem, NULL, arena, &choices), BRAID_UNSUPPORTED);
    if (!strstr(braid_error_detail(), "b would hold 1230 bytes after ") ||
        !strstr(braid_error_detail(),
                "and has 1229 bytes; the largest are 1000 bytes of node n0, 200 bytes of node n1"))
      fail_msg("%s: %s", policy->name, braid_error_detail());
    braid_arena_destroy(arena);
  }
  free(m);
}

/* What `optimal` proves is not said of plans under a limit that left some out. */
static void test_optimal(void **state) {
  (void)state;
  memory *m = malloc(sizeof *m);
  braid_arena *arena;
  braid_choices choices;
  const char *note;
  OK(braid_arena_create(NULL, &arena));
  make_chain(m, true);
  for (size_t capacity = 1230; capacity >= 1229; capacity--) {
    m->capacities[1] = capacity;
    assert_true(peak_of(m, &braid_policy_optimal, arena, &choices) <= capacity);
    OK(braid_policy_note(&braid_policy_optimal, &m->f.problem, &choices, NULL, arena, &note));
    bool proved =
        choices.least_joules.source != BRAID_UNKNOWN && choices.joules.value <= choices.least_joules.value * (1 + 1e-6);
    if (capacity == 1229) assert_false(proved);
    if (capacity == 1229 && !strstr(note, "It is not proved to be the least: plans were left out"))
      fail_msg("%s", note);
    if (capacity == 1230) assert_null(strstr(note, "left out"));
  }
  braid_arena_destroy(arena);
  free(m);
}

static braid_status solve_all(const braid_allocator *allocator, void *context) {
  const memory *m = context;
  braid_status status = BRAID_OK;
  for (size_t p = 0; p < braid_policy_count() && status == BRAID_OK; p++) {
    braid_arena *arena;
    braid_choices choices;
    status = braid_arena_create(allocator, &arena);
    if (status == BRAID_OK) status = braid_problem_solve(braid_policy_at(p), &m->f.problem, allocator, arena, &choices);
    braid_arena_destroy(arena);
  }
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  memory *m = malloc(sizeof *m);
  make_chain(m, true);
  m->capacities[1] = 1229;
  (void)oom_sweep(solve_all, m);
  free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),      cmocka_unit_test(test_peaks),   cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_crowded_out), cmocka_unit_test(test_optimal), cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
