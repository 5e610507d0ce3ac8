/* Small problems whose schedules are known by hand: caps, waits, clocks, links, what is offloaded. */
#include "schedule/simulate.h"

#include <math.h>

#include "schedule/power.h"
#include "schedule/random_problem.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

static void set_offer(fixture *f, int device, int32_t node, double seconds, double watts) {
  braid_offer *offer = offer_for(f, device, (int32_t[]){node}, 1);
  offer->seconds = (braid_number){seconds, BRAID_MODELLED};
  offer->joules = (braid_number){seconds * watts, BRAID_MODELLED};
  offer->watts = (braid_number){watts, BRAID_MODELLED};
}

/* Two nodes that could run side by side: under the cap one waits for the other, and says so. The idle power counts. */
static void test_cap(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  braid_power power;
  init(&f, 2, 2, 1);
  read_by(&f, 0, 2), read_by(&f, 1, 2);
  f.devices[0].class = BRAID_CLASS_GPU, f.devices[1].class = BRAID_CLASS_FPGA;
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){10, BRAID_MODELLED};
  set_offer(&f, 0, 0, 2, 60), set_offer(&f, 1, 1, 3, 50);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c));
  assert_true(c.seconds.value == 3 && c.after[0] == -1 && c.after[1] == -1);
  assert_true(fabs(c.joules.value - (120 + 150 + 10)) < 1e-9); /* a idles for a second */
  f.problem.cap_watts = (braid_number){110, BRAID_MODELLED};
  OK(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c));
  assert_true(c.seconds.value == 3);
  f.problem.cap_watts.value = 109;
  OK(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c));
  assert_true(c.seconds.value == 5);
  OK(braid_power_of(&f.problem, &c, NULL, arena, &power));
  assert_true(power.peak_watts.value == 70 && power.violations == 0);
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  OK(braid_power_of(&f.problem, &c, NULL, arena, &power));
  assert_true(power.peak_watts.value == 110 && power.violations == 1 && power.seconds_above == 2);
  f.problem.cap_watts.value = 69; /* the first never fits */
  assert_int_equal(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c), BRAID_UNSUPPORTED);
  assert_non_null(strstr(braid_error_detail(), "node n0: no offer is left for it under the power cap"));
  f.problem.cap_watts.value = 109;
  f.offers[1].watts = (braid_number){0}; /* unknown is not nothing */
  assert_int_equal(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c), BRAID_UNSUPPORTED);
  braid_arena_destroy(arena);
}

static void expect_refused(const fixture *f, const char *said) {
  braid_arena *arena;
  braid_choices c;
  OK(braid_arena_create(NULL, &arena));
  assert_int_equal(braid_problem_solve(&braid_policy_hybrid_cap, &f->problem, NULL, arena, &c), BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), said)) fail_msg("%s, not: %s", braid_error_detail(), said);
  braid_arena_destroy(arena);
}

/* The node that a cap refuses is named, and not the first one; with the cap and what exceeds it. */
static void test_refusals(void **state) {
  (void)state;
  fixture f;
  init(&f, 3, 2, 1);
  read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 1);
  f.devices[0].name = "g", f.devices[1].name = "h";
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){20, BRAID_MODELLED};
  f.devices[0].cap_watts = f.devices[1].cap_watts = (braid_number){0};
  for (int32_t n = 0; n < 3; n++) set_offer(&f, 0, n, 1, n == 2 ? 210 : 110), set_offer(&f, 1, n, 1, 240);
  f.problem.cap_watts = (braid_number){150, BRAID_MODELLED};
  expect_refused(&f, "node n2: no offer is left for it under the power cap of 150 W: its peak on g is 210 W, and the "
                     "others' idle power 20 W");
  f.problem.cap_watts.value = 39;
  expect_refused(&f, "under the power cap of 39 W: the devices draw 40 W when they do nothing");
  f.problem.cap_watts.value = 300;
  f.devices[1].idle_watts = (braid_number){0};
  expect_refused(&f, "under the power cap of 300 W: the idle power of h is unknown");
  f.problem.cap_watts = (braid_number){0};
  f.devices[0].cap_watts = f.devices[1].cap_watts = (braid_number){150, BRAID_MODELLED};
  expect_refused(&f, "node n2: no offer is left for it under the power cap of g, 150 W: its peak there is 210 W");
  for (size_t i = 0; i < f.problem.offer_count; i++)
    if (f.offers[i].nodes[0] == 1) f.offers[i].watts = (braid_number){0};
  expect_refused(&f, "node n1: no offer is left for it under the power cap: its peak on g is unknown");
}

/* Two offers want the second node, and whichever gets it, another one has nobody: no cap is to blame. */
static void test_contested(void **state) {
  (void)state;
  fixture f;
  init(&f, 3, 2, 1);
  read_by(&f, 0, 1), read_by(&f, 1, 2);
  for (int32_t d = 0; d < 2; d++)
    offer_for(&f, d, (int32_t[]){d, d + 1}, 2)->seconds = (braid_number){1, BRAID_MODELLED};
  braid_arena *arena;
  braid_choices c;
  OK(braid_arena_create(NULL, &arena));
  assert_int_equal(braid_problem_solve(&braid_policy_first, &f.problem, NULL, arena, &c), BRAID_UNSUPPORTED);
  assert_non_null(
      strstr(braid_error_detail(),
             "n2: no offer is left for it: those that have it have other nodes as well, which run elsewhere"));
  braid_arena_destroy(arena);
}

/* Two nodes side by side, then one that reads both, whose inputs move: interference lengthens what starts beside
 * another one, or while its link is used; in proportion its energy. Unknown interference changes nothing. */
static void test_interference(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 2, 2, 1);
  read_by(&f, 0, 2), read_by(&f, 1, 2);
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){0, BRAID_MODELLED};
  set_offer(&f, 0, 0, 2, 60), set_offer(&f, 1, 1, 4, 50);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  assert_true(c.seconds.value == 4 && c.joules.value == 120 + 200);
  f.devices[0].slower_beside = (braid_number){0.5, BRAID_MODELLED};
  f.devices[1].slower_beside = (braid_number){0.25, BRAID_MODELLED};
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  /* both start at 0, and each is beside the other one, whichever is looked at first */
  assert_true(c.end[0] == 3 && c.end[1] == 5 && c.seconds.value == 5 && fabs(c.joules.value - (180 + 250)) < 1e-9);
  f.offers[0].device = 1, f.offers[1].device = 0; /* the same the other way round */
  f.devices[0].slower_beside.value = 0.25, f.devices[1].slower_beside.value = 0.5;
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  assert_true(c.end[0] == 3 && c.end[1] == 5 && c.seconds.value == 5 && fabs(c.joules.value - (180 + 250)) < 1e-9);
  f.offers[1].seconds.value = 0; /* what takes no time is beside nothing */
  OK(braid_problem_solve(&braid_policy_heft, &f.problem, NULL, arena, &c));
  assert_true(c.end[0] == 2 && c.end[1] == 0);
  f.devices[0].slower_beside = f.devices[1].slower_beside = (braid_number){0};
  f.devices[0].slower_beside.value = 1; /* of an unknown number */
  assert_int_equal(braid_problem_check(&f.problem, NULL), BRAID_INVALID_ARGUMENT);
  braid_arena_destroy(arena);
}

/* What interference makes longer occupies all devices of a task for as long: the idle power of none of them counts. */
static void test_interference_of_several(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[2] = {false};
  init(&f, 2, 3, 1);
  read_by(&f, 0, 2), read_by(&f, 1, 2);
  for (int d = 0; d < 3; d++) f.devices[d].idle_watts = (braid_number){7, BRAID_MODELLED};
  f.devices[0].slower_beside = (braid_number){0.5, BRAID_MODELLED};
  set_offer(&f, 0, 0, 2, 60), set_offer(&f, 2, 1, 3, 50);
  f.offers[0].also = (const int[]){1}, f.offers[0].also_count = 1;
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 2; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 2;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[0] == 3 && c.end[1] == 3 && c.seconds.value == 3);
  assert_true(fabs(c.joules.value - (180 + 150)) < 1e-9); /* nothing is idle in these 3 s */
  braid_arena_destroy(arena);
}

/* Beside is what computes: a task whose input or clock is still on its way counts from its beginning on. */
static void test_beside_begins(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  init(&f, 4, 2, 1);
  for (size_t n = 0; n < 4; n++) read_by(&f, n, 4);
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){0, BRAID_MODELLED};
  f.devices[0].slower_beside = f.devices[1].slower_beside = (braid_number){1, BRAID_MODELLED};
  set_offer(&f, 0, 0, 2, 10), set_offer(&f, 1, 1, 4, 10), set_offer(&f, 0, 2, 1, 10);
  set_offer(&f, 1, 3, 1, 10);
  f.offers[1].clock = 1, f.devices[1].clock_seconds = 2;
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 4; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 4;
  OK(braid_choices_play(&choosing, &c));
  /* n0 is alone until 2, when n1 begins on b and n2 on a */
  assert_true(c.end[0] == 2 && c.start[1] == 2 && c.end[1] == 10 && c.start[2] == 2 && c.end[2] == 4);
  assert_true(c.start[3] == 12 && c.seconds.value == 13);
  assert_true(fabs(c.joules.value - (20 + 80 + 20 + 10)) < 1e-9);
  braid_arena_destroy(arena);
}

/* A wait because of the cap is part of what is played in order, too. */
static void test_waits(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  init(&f, 2, 2, 1);
  read_by(&f, 0, 2), read_by(&f, 1, 2);
  set_offer(&f, 0, 0, 2, 60), set_offer(&f, 1, 1, 3, 50);
  f.problem.cap_watts = (braid_number){100, BRAID_MODELLED};
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){1, BRAID_MODELLED};
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  c.offer_of[0] = 0, c.offer_of[1] = 1;
  c.order[0] = 0, c.order[1] = 1, c.task_count = 2;
  OK(braid_simulate(&choosing, &c, NULL, true));
  assert_true(c.start[1] == 2 && c.after[1] == 0 && c.after[0] == -1);
  f.offers[1].clock = 1, f.devices[1].clock_seconds = 0.5;
  OK(braid_simulate(&choosing, &c, NULL, false)); /* the clock stays where it is, run after run */
  assert_true(c.start[1] == 0 && c.after[1] == -1 && c.steady);
  f.offers[0].device = 1; /* the device's clock changes twice in a run: once before its first task */
  OK(braid_simulate(&choosing, &c, NULL, false));
  assert_true(c.start[0] == 0.5 && c.start[1] == 3 && c.seconds.value == 6 && c.steady);
  f.offers[0].device = 0;
  /* both devices for the second one: it waits for the first, though no value passes */
  f.offers[1].also = (const int[]){0};
  f.offers[1].also_count = 1;
  OK(braid_simulate(&choosing, &c, NULL, false));
  assert_true(c.start[1] == 2 && c.seconds.value == 5);
  braid_arena_destroy(arena);
}

/* What a device sends to several others goes over its own link one by one, and so does what one receives. */
static void test_links(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  init(&f, 3, 3, 3);
  read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 0);
  for (int i = 0; i < 9; i++) f.links[i] = (braid_problem_link){0, 1000};
  for (int i = 0; i < 3; i++) f.spaces[i] = (braid_problem_space){i, i ? 2 * i + 1 : -1, i ? 2 * i : -1};
  f.problem.bus_count = 6;
  for (int d = 0; d < 3; d++) f.devices[d].space = (d + 1) % 3; /* the third is in the host's memory */
  f.values[0].bytes = 4000, f.values[3].bytes = 0;
  for (int32_t n = 0; n < 3; n++) set_offer(&f, n, n, 1, 10);
  OK(braid_problem_check(&f.problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 3; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 3;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[0] == 1 && c.start[1] == 5 && c.start[2] == 9);
  assert_true(c.moving_seconds == 8 && c.exposed_seconds == 8); /* 2 s without movement */
  /* the second device is busy for three of the eight seconds that the last value takes */
  f.offers[2].device = 1, f.offers[1].seconds.value = 3;
  f.values[1] = f.values[0], f.values[1].producer = 1, f.reads[f.nodes[1].first_read] = 3,
  f.reads[f.nodes[2].first_read] = 0;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[1] == 3 && c.start[2] == 5 && c.exposed_seconds == 2); /* 4 s */
  braid_arena_destroy(arena);
}

/* Exposed is by how much the run is longer since values move: the way of an input in, of a result back, and neither
 * where another device computes meanwhile. */
static void test_exposed(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  init(&f, 3, 2, 2);
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){0, 1000};
  f.spaces[0] = (braid_problem_space){0, -1, -1}, f.spaces[1] = (braid_problem_space){1, 1, 0};
  f.problem.bus_count = 2;
  read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 4);
  f.values[3].bytes = 2000, f.values[4].bytes = 0, f.values[0].bytes = 0;
  f.values[1].bytes = 3000, f.values[1].wanted = true;
  set_offer(&f, 1, 0, 1, 10), set_offer(&f, 1, 1, 1, 10), set_offer(&f, 0, 2, 1, 10);
  OK(braid_problem_check(&f.problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 3; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 3;
  OK(braid_choices_play(&choosing, &c)); /* in by 2, computed by 4, back by 7: 2 s without movement */
  assert_true(c.start[0] == 2 && c.end[1] == 4 && c.seconds.value == 7);
  assert_true(c.moving_seconds == 5 && c.exposed_seconds == 5);
  f.offers[2].seconds.value = 6; /* the host computes meanwhile: of 5 s one is seen */
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.seconds.value == 7 && c.moving_seconds == 5 && c.exposed_seconds == 1);
  f.offers[2].seconds.value = 8;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.seconds.value == 8 && c.exposed_seconds == 0);
  f.values[1].wanted = false, f.offers[2].seconds.value = 1; /* only the way in: the host's second is beside it */
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.seconds.value == 4 && c.moving_seconds == 2 && c.exposed_seconds == 2);
  /* a task of the same device that has nothing to do with it hides the way in */
  f.nodes[1].first_read = f.nodes[0].first_read, f.nodes[0].first_read = f.nodes[2].first_read;
  f.values[1].bytes = f.values[3].bytes = 0, f.values[4].bytes = 2000;
  c.order[0] = 1, c.order[1] = 0;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[1] == 1 && c.start[0] == 2 && c.seconds.value == 3 && c.exposed_seconds == 1);
  /* under a cap, the wait for another task's end is none for movement */
  f.values[4].bytes = 0, f.offers[2].seconds.value = 3, c.order[0] = 2, c.order[1] = 0, c.order[2] = 1;
  f.problem.cap_watts = (braid_number){15, BRAID_MODELLED};
  OK(braid_simulate(&choosing, &c, NULL, true));
  assert_true(c.seconds.value == 5 && c.exposed_seconds == 0);
  braid_arena_destroy(arena);
}

/* While a result leaves for the host, what the device starts takes half as long again. */
static void test_traffic(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  init(&f, 3, 1, 1);
  f.problem.space_count = f.problem.kind_count = 2, f.problem.bus_count = 2;
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){0, 1000};
  f.spaces[0] = (braid_problem_space){0, -1, -1}, f.spaces[1] = (braid_problem_space){1, 1, 0};
  f.devices[0].space = 1;
  f.devices[0].idle_watts = (braid_number){0, BRAID_MODELLED};
  f.devices[0].slower_with_traffic = (braid_number){0.5, BRAID_MODELLED};
  read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 1);
  f.values[3].bytes = 0;
  f.values[0].bytes = 2000, f.values[0].wanted = true; /* on its way from 1 to 3 s */
  for (int32_t n = 0; n < 3; n++) set_offer(&f, 0, n, 1, 10);
  OK(braid_problem_check(&f.problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 3; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 3;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[0] == 1 && c.end[1] == 2.5 && c.end[2] == 4 && c.joules.value == 10 + 15 + 15);
  braid_arena_destroy(arena);
}

/* A transfer that waits for another bus is not under way yet: meanwhile nothing takes longer. c's input waits from 3 s
 * on for b's way out, which is in use until 10 s; its own way in is idle until then. */
static void test_traffic_booked(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[kOffers] = {false};
  init(&f, 5, 3, 1);
  f.problem.space_count = f.problem.kind_count = 3, f.problem.bus_count = 3;
  for (int i = 0; i < 9; i++) f.links[i] = (braid_problem_link){0, 1000};
  f.spaces[0] = (braid_problem_space){0, -1, -1}, f.spaces[1] = (braid_problem_space){1, 0, -1};
  f.spaces[2] = (braid_problem_space){2, 1, 2};
  for (int d = 0; d < 3; d++) f.devices[d].space = d, f.devices[d].idle_watts = (braid_number){0, BRAID_MODELLED};
  f.devices[2].slower_with_traffic = (braid_number){1, BRAID_MODELLED};
  f.problem.value_count = 6;
  f.values[5] = (braid_problem_value){-1, 0, false};
  read_by(&f, 0, 5), read_by(&f, 1, 5), read_by(&f, 2, 5), read_by(&f, 3, 2), read_by(&f, 4, 1);
  for (int v = 0; v < 5; v++) f.values[v].bytes = 0;
  f.values[0].bytes = 9000, f.values[0].wanted = true; /* leaves b from 1 to 10 s */
  f.values[1].bytes = 5000;                            /* then from b to c, 10 to 15 s */
  for (int32_t n = 0; n < 5; n++) set_offer(&f, n < 2 ? 1 : 2, n, n == 2 ? 4 : n < 2 ? 1 : 2, 10);
  OK(braid_problem_check(&f.problem, NULL));
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  for (int32_t n = 0; n < 5; n++) c.offer_of[n] = c.order[n] = n;
  c.task_count = 5;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.end[0] == 1 && c.end[1] == 2 && c.end[2] == 4);
  assert_true(c.start[3] == 4 && c.end[3] == 6); /* not 8: its link is idle */
  assert_true(c.start[4] == 15 && c.end[4] == 17);
  /* the same beside one that is under way: what c reads comes in from 10 to 15 s, and the third starts at 12 s */
  f.offers[2].seconds.value = 12;
  OK(braid_choices_play(&choosing, &c));
  assert_true(c.start[3] == 12 && c.end[3] == 16);
  braid_arena_destroy(arena);
}

/* Section 3.3: off the critical path a node may be slower on the other device, on it it may not. */
static void test_critical_path(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 3, 2, 1);
  read_by(&f, 0, 3), read_by(&f, 1, 0), read_by(&f, 2, 3);
  f.devices[0].class = BRAID_CLASS_GPU, f.devices[1].class = BRAID_CLASS_FPGA;
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){1, BRAID_MODELLED};
  set_offer(&f, 0, 0, 10, 100);
  set_offer(&f, 0, 1, 1, 100), set_offer(&f, 1, 1, 20, 4);
  set_offer(&f, 0, 2, 1, 100), set_offer(&f, 1, 2, 3, 10);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_true(c.offer_of[0] == 0 && c.offer_of[1] == 1 && c.offer_of[2] == 4);
  assert_string_equal(c.reasons[1], "slower on another device, and on the critical path");
  assert_string_equal(c.reasons[2], "off the critical path on a slower device");
  assert_true(c.seconds.value == 11 && fabs(c.joules.value - (1000 + 100 + 30 + 8)) < 1e-9);
  /* little bandwidth on the GPU makes a candidate of what is faster elsewhere */
  f.offers[4].seconds.value = 0.5;
  f.offers[3].bytes_per_second = (braid_number){50, BRAID_MODELLED};
  f.problem.bandwidth_threshold = (braid_number){50, BRAID_MODELLED};
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_int_equal(c.offer_of[2], 3);
  f.offers[3].bytes_per_second.value = 49;
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_int_equal(c.offer_of[2], 4);
  /* and so do few instructions per cycle, whatever the bandwidth is */
  f.offers[3].bytes_per_second.value = 60;
  f.offers[3].instructions_per_cycle = (braid_number){5, BRAID_MODELLED};
  f.problem.instructions_threshold = (braid_number){5, BRAID_MODELLED};
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_int_equal(c.offer_of[2], 3);
  f.offers[3].instructions_per_cycle.value = 4.9;
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_int_equal(c.offer_of[2], 4);
  braid_arena_destroy(arena);
}

/* What would be off the critical path if nothing had to move is on it by the way there, or by that back. */
static void test_critical_way(void **state) {
  (void)state;
  static const double kWays[3][2] = {{9, 0}, {0, 9}, {0, 0}};
  for (int i = 0; i < 3; i++) {
    fixture f;
    braid_arena *arena;
    braid_choices c;
    init(&f, 4, 2, 2);
    read_by(&f, 0, 4), read_by(&f, 1, 0), read_by(&f, 2, 0), read_by(&f, 3, 2);
    for (int k = 0; k < 4; k++) f.links[k] = (braid_problem_link){kWays[i][k > 1], INFINITY};
    for (int k = 0; k < 2; k++) f.spaces[k] = (braid_problem_space){k, -1, -1};
    f.devices[0].class = BRAID_CLASS_GPU, f.devices[1].class = BRAID_CLASS_FPGA;
    f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){1, BRAID_MODELLED};
    set_offer(&f, 0, 0, 0.5, 100), set_offer(&f, 0, 1, 10, 100);
    set_offer(&f, 0, 2, 1, 100), set_offer(&f, 1, 2, 3, 10), set_offer(&f, 0, 3, 0.1, 100);
    OK(braid_arena_create(NULL, &arena));
    OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
    assert_int_equal(c.offer_of[2], i < 2 ? 2 : 3);
    if (i < 2) assert_string_equal(c.reasons[2], "slower on another device, and on the critical path");
    braid_arena_destroy(arena);
  }
}

/* What is on the host goes over a bus in the order of the plan, not in that of the nodes. */
static void test_inputs_in_order(void **state) {
  (void)state;
  for (int reverse = 0; reverse < 2; reverse++) {
    fixture f;
    braid_arena *arena;
    braid_choices c;
    bool refused[2] = {false};
    init(&f, 2, 1, 2);
    f.devices[0].space = 1;
    read_by(&f, 0, 2), read_by(&f, 1, 3);
    f.values[2].bytes = 3000, f.values[3].bytes = 1000;
    for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){0, 1000};
    for (int i = 0; i < 2; i++) f.spaces[i] = (braid_problem_space){i, -1, 1};
    set_offer(&f, 0, 0, 5, 1), set_offer(&f, 0, 1, 5, 1);
    OK(braid_arena_create(NULL, &arena));
    braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
    OK(braid_choices_init(&choosing, &c));
    c.offer_of[0] = 0, c.offer_of[1] = 1;
    c.order[0] = reverse, c.order[1] = !reverse;
    c.task_count = 2;
    OK(braid_simulate(&choosing, &c, NULL, false));
    assert_true(c.start[reverse] == (reverse ? 1 : 3) && c.seconds.value == (reverse ? 11 : 13));
    braid_arena_destroy(arena);
  }
}

/* What a task takes longer beside traffic is exposed movement: without the traffic it would not. */
static void test_exposed_traffic(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 2, 1, 2);
  f.devices[0].space = 1;
  f.devices[0].class = BRAID_CLASS_GPU;
  f.devices[0].slower_with_traffic = (braid_number){1, BRAID_MODELLED};
  read_by(&f, 0, 2), read_by(&f, 1, 3);
  f.values[2].bytes = 0, f.values[3].bytes = 1000;
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){0, 1000};
  for (int i = 0; i < 2; i++) f.spaces[i] = (braid_problem_space){i, -1, 1};
  set_offer(&f, 0, 0, 1, 1), set_offer(&f, 0, 1, 1, 1);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_first, &f.problem, NULL, arena, &c));
  assert_true(c.end[0] == 2 && c.seconds.value == 3 && c.exposed_seconds == 1);
  braid_arena_destroy(arena);
}

/* Two nodes off the critical path, but one other device: both there would take longer than the fast device alone, so
 * one of them comes back. */
static void test_taken_back(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 3, 2, 1);
  for (size_t n = 0; n < 3; n++) read_by(&f, n, 3);
  f.devices[0].class = BRAID_CLASS_GPU, f.devices[1].class = BRAID_CLASS_FPGA;
  f.devices[0].idle_watts = f.devices[1].idle_watts = (braid_number){1, BRAID_MODELLED};
  set_offer(&f, 0, 0, 10, 100);
  for (int32_t n = 1; n < 3; n++) set_offer(&f, 0, n, 1, 100), set_offer(&f, 1, n, 6.5, 2);
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
  assert_true(c.seconds.value == 11);
  assert_int_equal((f.offers[c.offer_of[1]].device == 1) + (f.offers[c.offer_of[2]].device == 1), 1);
  for (int more = 1; more < 3; more++) { /* that which saves more stays */
    f.offers[1].joules.value = more == 1 ? 150 : 100, f.offers[3].joules.value = more == 2 ? 150 : 100;
    OK(braid_problem_solve(&braid_policy_hybrid_energy, &f.problem, NULL, arena, &c));
    assert_true(f.offers[c.offer_of[more]].device == 1 && f.offers[c.offer_of[3 - more]].device == 0);
  }
  braid_arena_destroy(arena);
}

static int32_t pick_after_looking(const braid_simulation *s, int device, void *context) {
  double *moving = context;
  if (device != 1) return -1;
  *moving = braid_simulation_moving(s, &s->choosing->problem->offers[1]);
  return 1;
}

/* Operands that come over one link come one after the other, also in a rule's estimate. */
static void test_moving(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  bool refused[4] = {false};
  double moving = -1;
  init(&f, 1, 2, 2);
  read_by(&f, 0, 1), read_by(&f, 0, 2);
  f.values[1].bytes = 4000, f.values[2].bytes = 3000;
  for (int i = 0; i < 4; i++) f.links[i] = (braid_problem_link){0, 1000};
  for (int i = 0; i < 2; i++) f.spaces[i] = (braid_problem_space){i, -1, 1};
  set_offer(&f, 0, 0, 1, 1), set_offer(&f, 1, 0, 1, 1);
  OK(braid_arena_create(NULL, &arena));
  braid_choosing choosing = {.problem = &f.problem, .arena = arena, .refused = refused};
  OK(braid_choices_init(&choosing, &c));
  c.offer_of[0] = 0;
  braid_rule rule = {.order = (const int[]){0, 1}, .pick = pick_after_looking, .context = &moving};
  OK(braid_simulate(&choosing, &c, &rule, false));
  assert_true(moving == 7 && c.start[0] == 7 && c.offer_of[0] == 1);
  braid_arena_destroy(arena);
}

/* Devices that share an operation each count their share of its power against their own cap. */
static void test_device_caps(void **state) {
  (void)state;
  fixture f;
  braid_arena *arena;
  braid_choices c;
  init(&f, 1, 2, 1);
  read_by(&f, 0, 1);
  set_offer(&f, 0, 0, 1, 60);
  f.offers[0].also = (const int[]){1}, f.offers[0].also_count = 1;
  f.devices[0].cap_watts = f.devices[1].cap_watts = (braid_number){30, BRAID_MODELLED};
  OK(braid_arena_create(NULL, &arena));
  OK(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c));
  f.devices[1].cap_watts.value = 29;
  assert_int_equal(braid_problem_solve(&braid_policy_hybrid_cap, &f.problem, NULL, arena, &c), BRAID_UNSUPPORTED);
  braid_arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cap),
      cmocka_unit_test(test_interference),
      cmocka_unit_test(test_beside_begins),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_contested),
      cmocka_unit_test(test_traffic),
      cmocka_unit_test(test_traffic_booked),
      cmocka_unit_test(test_exposed),
      cmocka_unit_test(test_waits),
      cmocka_unit_test(test_links),
      cmocka_unit_test(test_critical_path),
      cmocka_unit_test(test_taken_back),
      cmocka_unit_test(test_moving),
      cmocka_unit_test(test_critical_way),
      cmocka_unit_test(test_inputs_in_order),
      cmocka_unit_test(test_exposed_traffic),
      cmocka_unit_test(test_device_caps),
      cmocka_unit_test(test_interference_of_several),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
