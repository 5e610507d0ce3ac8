/* A shared card in virtual time, random tenants and jobs: no core is ever given twice, what runs keeps a core, who
 * waits for long is served, tenants' own cores are theirs, and every job ends. */
#include "serve/card/shared_card.h"

#include <math.h>

#include "base/philox.h"
#include "skip.h"
#include "slow.h"

enum { kTenants = 5, kModels = 3, kJobs = 400, kPlaces = 8, kTrials = UNLESS_SLOW(60, 12) };
static const int64_t kMs = 1000000;

static uint64_t key, drawn;
static int draw(int low, int high) { /* both included */
  return low + (int)(braid_random_u32(key, 0, 0, drawn++) % (uint32_t)(high - low + 1));
}

typedef struct job {
  braid_serve_card_job card; /* first */
  int place;
  int64_t next_ns, began_ns, ended_ns;
  bool waits, runs, ended, was_overdue; /* when it began */
} job;

typedef struct world {
  braid_serve_card *card;
  braid_share_model models[kModels];
  double seconds[kModels][BRAID_OVERLAY_MOST_CORES];
  char tenants[kTenants];
  job jobs[kJobs];
  size_t came, ended, most_wait;
  uint64_t ends; /* of runs */
  int64_t now;
} world;

static world w;

static void begin_world(const char *spec, bool elastic, uint64_t seed) {
  key = seed;
  drawn = 0;
  memset(&w, 0, sizeof w);
  if (braid_serve_card_create(spec, elastic, 0, &w.card) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (int m = 0; m < kModels; m++) {
    double alone = 0.001 * draw(1, 200);
    for (int k = 1; k <= w.card->cores; k++)
      w.seconds[m][k - 1] = alone * (0.1 + 0.9 / k) * (1 + 0.05 * draw(0, 1)); /* not always faster */
    w.models[m] = (braid_share_model){.name = "m", .seconds = w.seconds[m]};
  }
}

/* From the outside: which job has which core. */
static void expect_cores(void) {
  uint64_t all = 0;
  int running = 0;
  for (size_t i = 0; i < w.came; i++) {
    const job *j = &w.jobs[i];
    assert_true(j->runs == (j->card.cores != 0));
    assert_true((all & j->card.cores) == 0);
    all |= j->card.cores;
    running += j->runs;
  }
  assert_true(all == w.card->busy && running == w.card->running_count && running <= w.card->runs);
  assert_true(w.card->cores == 64 || all >> w.card->cores == 0);
}

static size_t list_waiting(braid_serve_card_job **out) {
  size_t count = 0;
  for (size_t i = 0; i < w.came; i++)
    if (w.jobs[i].waits) out[count++] = &w.jobs[i].card;
  for (size_t i = 1; i < count; i++) /* the most urgent first, as the line has them */
    for (size_t k = i; k > 0 && out[k]->priority > out[k - 1]->priority; k--) {
      braid_serve_card_job *other = out[k];
      out[k] = out[k - 1];
      out[k - 1] = other;
    }
  return count;
}

static void plan_place(job *j) {
  int cores = __builtin_popcountll(j->card.cores);
  j->next_ns = w.now + 1 + (int64_t)(j->card.model->seconds[cores - 1] / kPlaces * 1e9);
}

static int decide(void) {
  static braid_serve_card_job *waiting[kJobs];
  size_t count = list_waiting(waiting);
  assert_int_equal(braid_serve_card_decide(w.card, waiting, count, w.now), BRAID_OK);
  int all = 0;
  for (size_t i = 0; i < w.came; i++)
    if (w.jobs[i].waits || w.jobs[i].runs) all += w.jobs[i].card.target;
  assert_true(all <= w.card->cores || !w.card->elastic);
  for (size_t next; (next = braid_serve_card_next(w.card, waiting, count)) != SIZE_MAX;) {
    job *j = (job *)waiting[next];
    int cores = braid_serve_card_begin(w.card, &j->card, w.now);
    assert_true(cores >= 1 && cores <= j->card.target && cores == __builtin_popcountll(j->card.cores));
    j->waits = false;
    j->runs = true;
    j->began_ns = w.now;
    j->was_overdue = j->card.overdue;
    plan_place(j);
    expect_cores();
    memmove(&waiting[next], &waiting[next + 1], (--count - next) * sizeof *waiting);
  }
  return all;
}

static void add_job(const void *tenant, double priority) {
  job *j = &w.jobs[w.came++];
  *j = (job){.waits = true};
  j->card.model = &w.models[draw(0, kModels - 1)];
  j->card.tenant = tenant;
  j->card.priority = priority;
  j->card.arrived_ns = w.now;
  if (draw(0, 1)) j->card.deadline_ns = w.now + draw(1, 2000) * kMs;
}

static void pass(job *j) {
  bool given_back = false;
  uint64_t before = j->card.cores;
  double seconds = j->card.model->seconds[__builtin_popcountll(before) - 1] / kPlaces;
  j->place++;
  int cores = braid_serve_card_place(w.card, &j->card, (double)j->place / kPlaces, seconds, &given_back);
  assert_true(cores >= 1 && given_back == ((before & ~j->card.cores) != 0));
  expect_cores();
  if (j->place == kPlaces) {
    braid_serve_card_end(w.card, &j->card, BRAID_SERVE_CARD_DONE, w.now - j->began_ns, w.now);
    j->runs = false;
    j->ended = true;
    j->ended_ns = w.now;
    w.ended++;
    w.ends++;
    expect_cores();
  } else {
    plan_place(j);
  }
}

/* Goes on to the next place of any run, not beyond `until`. */
static bool advance(int64_t until) {
  job *next = NULL;
  for (size_t i = 0; i < w.came; i++)
    if (w.jobs[i].runs && (!next || w.jobs[i].next_ns < next->next_ns)) next = &w.jobs[i];
  if (!next || next->next_ns > until) {
    w.now = until;
    return false;
  }
  w.now = next->next_ns;
  pass(next);
  (void)decide();
  return true;
}

static void test_elastic(void **state) {
  (void)state;
  static const char *const kSpecs[] = {"overlay", "overlay:design=cnn-16x512,cores=1", "overlay:cores=3",
                                       "overlay:design=cnn-1x8192"};
  for (uint64_t trial = 0; trial < kTrials; trial++) {
    begin_world(kSpecs[trial % 4], true, 1000 + trial);
    while (w.came < kJobs) {
      int64_t until = w.now + draw(0, 60) * kMs;
      while (advance(until)) {
      }
      add_job(&w.tenants[draw(0, kTenants - 1)], draw(1, 9));
      (void)decide();
      bool idle = w.card->busy == 0, waits = false;
      for (size_t i = 0; i < w.came; i++) waits |= w.jobs[i].waits;
      assert_false(idle && waits); /* nobody waits for an idle card */
    }
    while (w.ended < kJobs) assert_true(advance(INT64_MAX));
    assert_true(w.card->busy == 0 && w.card->running_count == 0);
    for (int i = 0; i < kJobs; i++) assert_true(w.jobs[i].card.seconds > 0 && w.jobs[i].card.progress == 1);
    braid_serve_card_destroy(w.card);
  }
}

/* One request of the least priority, and urgent ones that never stop coming: after its patience it is given the next
 * core that comes free, behind those that came before it. By the policy alone it would wait on. */
static void test_starvation(void **state) {
  (void)state;
  int overdue = 0;
  for (uint64_t trial = 0; trial < 20; trial++) {
    begin_world("overlay:cores=2", true, 5000 + trial);
    for (int i = 0; i < 6; i++) add_job(&w.tenants[0], 9);
    add_job(&w.tenants[1], 0.1);
    job *poor = &w.jobs[6];
    poor->card.deadline_ns = 0;
    (void)decide();
    uint64_t overdue_ends = UINT64_MAX;
    while (!poor->ended && w.came < kJobs) {
      if (overdue_ends == UINT64_MAX && w.now >= BRAID_SERVE_CARD_PATIENCE) overdue_ends = w.ends;
      assert_true(advance(INT64_MAX));
      size_t waiting = 0;
      for (size_t i = 0; i < w.came; i++) waiting += w.jobs[i].waits;
      while (waiting++ < 6 && w.came < kJobs) { /* these come later: none is overdue before it */
        add_job(&w.tenants[0], 9);
        w.jobs[w.came - 1].card.deadline_ns = w.now + kMs;
      }
      (void)decide();
      size_t older = 6; /* that came at the same time, and before it in number */
      if (poor->waits && overdue_ends != UINT64_MAX) assert_true(w.ends - overdue_ends <= older + 1);
    }
    assert_true(poor->ended);
    overdue += poor->was_overdue;
    braid_serve_card_destroy(w.card);
  }
  assert_true(overdue > 10);
}

static void test_public(void **state) {
  (void)state;
  static const int kOwn[kTenants] = {4, 1, 6, 0, 2};
  for (uint64_t trial = 0; trial < kTrials; trial++) {
    begin_world("overlay", false, 9000 + trial);
    int extra[kTenants] = {0};
    for (int t = 0; t < kTenants; t++)
      if (kOwn[t]) assert_true(braid_serve_card_hold(w.card, &w.tenants[t], kOwn[t]));
    assert_false(braid_serve_card_hold(w.card, &w.tenants[0], 4)); /* 13 of 16 are given */
    while (w.came < kJobs || w.ended < w.came) {
      int64_t until = w.now + draw(0, 40) * kMs;
      while (advance(until)) {
      }
      int t = draw(0, kTenants - 1);
      if (w.came < kJobs && (kOwn[t] || extra[t])) add_job(&w.tenants[t], draw(1, 9));
      if (draw(0, 3) == 0 && braid_serve_card_hold(w.card, &w.tenants[t], 1)) extra[t]++;
      t = draw(0, kTenants - 1);
      if (draw(0, 3) == 0 && extra[t] && (kOwn[t] || w.came == kJobs)) {
        braid_serve_card_unhold(w.card, &w.tenants[t], 1);
        extra[t]--;
        if (t == 3 && !extra[t]) /* the line refuses what waits without cores */
          for (size_t i = 0; i < w.came; i++)
            if (w.jobs[i].waits && w.jobs[i].card.tenant == &w.tenants[3]) {
              w.jobs[i].waits = false;
              w.ended++;
            }
      }
      (void)decide();
      for (int k = 0; k < kTenants; k++) {
        assert_int_equal(braid_serve_card_held(w.card, &w.tenants[k]), kOwn[k] + extra[k]);
        int runs = 0;
        for (size_t i = 0; i < w.came; i++) runs += w.jobs[i].runs && w.jobs[i].card.tenant == &w.tenants[k];
        assert_true(runs <= 1);
      }
      for (size_t i = 0; i < w.came; i++) /* no run begins on a core of another tenant, nor takes one */
        for (int c = 0; c < w.card->cores; c++)
          if (w.jobs[i].card.cores >> c & 1)
            assert_true(!w.card->holders[c] || w.card->holders[c] == w.jobs[i].card.tenant);
    }
    assert_true(w.card->busy == 0);
    braid_serve_card_destroy(w.card);
  }
}

/* Alone a tenant's jobs take as long as beside others that flood the card. */
static int64_t last_end(bool beside) {
  begin_world("overlay", false, 77);
  assert_true(braid_serve_card_hold(w.card, &w.tenants[0], 5) && braid_serve_card_hold(w.card, &w.tenants[1], 11));
  for (int i = 0; i < 20; i++) add_job(&w.tenants[0], 1);
  for (int i = 0; i < 300 && beside; i++) add_job(&w.tenants[1], 9);
  (void)decide();
  while (w.ended < w.came) assert_true(advance(INT64_MAX));
  int64_t end = 0;
  for (int i = 0; i < 20; i++) end = w.jobs[i].ended_ns > end ? w.jobs[i].ended_ns : end;
  assert_int_equal(w.jobs[0].card.begun_with, 5);
  braid_serve_card_destroy(w.card);
  return end;
}

static void test_untouched(void **state) {
  (void)state;
  assert_true(last_end(false) > 0);
  assert_true(last_end(false) == last_end(true));
}

/* Idle cores go to whom they help, a request that comes gets some at the next place, and the urgent one gets more. */
static void test_shares(void **state) {
  (void)state;
  begin_world("overlay", true, 1);
  for (int k = 1; k <= 16; k++) w.seconds[0][k - 1] = 1.0 / k;
  add_job(&w.tenants[0], 1);
  w.jobs[0].card.model = &w.models[0];
  (void)decide();
  assert_int_equal(w.jobs[0].card.begun_with, 16);
  add_job(&w.tenants[1], 9);
  w.jobs[1].card.model = &w.models[0];
  w.jobs[1].card.deadline_ns = w.now + 100 * kMs;
  (void)decide();
  assert_true(w.jobs[1].waits && w.jobs[1].card.target > w.jobs[0].card.target && w.jobs[0].card.target >= 1);
  assert_true(advance(INT64_MAX)); /* the end of a layer */
  assert_true(w.jobs[1].runs && w.jobs[1].card.begun_with > __builtin_popcountll(w.jobs[0].card.cores));
  assert_int_equal(w.jobs[0].card.switches, 1);
  assert_true(w.jobs[1].card.kept[BRAID_SHARE_TOKENS] > w.jobs[0].card.kept[BRAID_SHARE_TOKENS]);
  char text[1024];
  braid_serve_card_fdinfo(w.card, &w.tenants[0], 7, 9, w.now, text, sizeof text);
  assert_non_null(strstr(text, "drm-client-id:\t7\n"));
  assert_non_null(strstr(text, "braid-overlay-preemptions:\t1\n"));
  char engine[64]; /* 16 cores for an eighth of a run */
  snprintf(engine, sizeof engine, "drm-engine-core:\t%.0f ns\n", 1e9 / 16 / kPlaces * 16);
  assert_non_null(strstr(text, engine));
  while (w.ended < 2) assert_true(advance(INT64_MAX));
  braid_serve_card_destroy(w.card);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *spec, *says;
  } kCases[] = {{"cpu", "is no card"},
                {"overlays", "is no card"},
                {"overlay:design=cnn-16x512,cores=17", "1 to 16"},
                {"overlay:cores=0", "cores"},
                {"overlay:part=0,parts=2", "part"},
                {"overlay:design=none-such", "none-such"},
                {"overlay:design=rnn-16x64", "recurrent"}};
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_serve_card *card;
    assert_true(braid_serve_card_create(kCases[i].spec, true, 0, &card) != BRAID_OK);
    assert_null(card);
    if (!strstr(braid_error_detail(), kCases[i].says)) fail_msg("%s: %s", kCases[i].spec, braid_error_detail());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_elastic), cmocka_unit_test(test_starvation),
                                     cmocka_unit_test(test_public),  cmocka_unit_test(test_untouched),
                                     cmocka_unit_test(test_shares),  cmocka_unit_test(test_refused)};
  return skip_run_group_tests(tests, NULL, NULL);
}
