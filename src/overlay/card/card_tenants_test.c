/* Tenants on a card: results are those of the reference's plain loops, bit for bit, whatever was stopped, moved and
 * resized meanwhile; nothing is left of a context that is closed. */
#include "overlay/card/card_fixture.h"

#include "overlay/card/internal.h"

enum { kTrials = 40, kTenants = 3, kJobs = 6 };

static braid_card *create(const braid_overlay_design *design) {
  braid_card *card;
  braid_card_options options = {.design = design};
  ok(braid_card_create(&options, NULL, &card));
  return card;
}

/* All cores free, all memory, and what was used of it is 0. */
static void expect_clean(braid_card *card, const braid_overlay_design *design) {
  assert_int_equal(card_count(braid_card_free_cores(card)), design->cores);
  assert_int_equal(braid_card_free_bytes(card), design->bank_bytes);
  for (uint64_t b = 0; b < card->ddr_bytes; b++) assert_int_equal(card->ddr[b], 0);
}

/* --- changes ------------------------------------------------------------------------------------------------------
 */
typedef struct changes {
  uint64_t stops, preemptions, migrations, redone;
} changes;

static void expect_jobs(braid_card *card, size_t id, tenant *t, changes *sum) {
  uint64_t preemptions = 0, migrations = 0;
  for (uint64_t job = 1; job <= kJobs; job++) {
    braid_card_result r;
    ok(braid_card_wait(card, id, job, UINT64_MAX, &r));
    if (r.status != BRAID_OK) fail_msg("%s", r.why);
    if (job == kJobs) tenant_expect_right(t);
    assert_true(r.ended - r.began >= r.ran + r.switching && r.ran >= r.draining);
    sum->stops += r.switches;
    preemptions += r.preemptions;
    migrations += r.migrations;
    sum->redone += r.redone_layers;
  }
  braid_card_context context;
  ok(braid_card_get_context(card, id, &context));
  assert_int_equal(context.counters.command_completions, kJobs);
  assert_int_equal(context.counters.preemptions, preemptions);
  assert_int_equal(context.counters.migrations, migrations);
  assert_int_equal(context.counters.errors + context.counters.time_outs, 0);
  assert_int_equal(context.cores, 0);
  sum->preemptions += preemptions;
  sum->migrations += migrations;
}

/* Each runs jobs, and is given other cores at random moments, at layers and tiles. */
static void run_with_changes(tenant *tenants, const braid_overlay_design *design, changes *sum) {
  braid_card *card;
  braid_card_options options = {.design = design, .compile_seconds = 1e-8};
  ok(braid_card_create(&options, NULL, &card));
  size_t ids[kTenants];
  uint64_t sequence;
  for (int t = 0; t < kTenants; t++) {
    ids[t] = open_tenant(card, &tenants[t], draw(1, design->cores));
    tenant_reset(&tenants[t]);
    for (int job = 0; job < kJobs; job++)
      ok(braid_card_submit(card, ids[t], tenants[t].input, tenants[t].output, &sequence));
  }
  for (int i = 0; i < 150; i++) {
    size_t done;
    int which = draw(0, kTenants - 1);
    ok(braid_card_advance(card, braid_card_now(card) + (uint64_t)draw(0, 3000), &done));
    ok(braid_card_reconfigure(card, ids[which], draw(0, design->cores), (braid_card_place)draw(0, 2)));
  }
  for (int t = 0; t < kTenants; t++)
    ok(braid_card_reconfigure(card, ids[t], draw(1, design->cores), BRAID_CARD_AFTER_LAYER));
  for (int t = 0; t < kTenants; t++) expect_jobs(card, ids[t], &tenants[t], sum);
  for (int t = 0; t < kTenants; t++) braid_card_close(card, ids[t]);
  expect_clean(card, design);
  braid_card_destroy(card);
}

static void test_changes(void **state) {
  (void)state;
  changes sum = {0};
  for (int trial = 0; trial < kTrials; trial++) {
    tenant tenants[kTenants];
    draw_key = (uint64_t)trial + 1;
    draw_count = 0;
    braid_overlay_design design = trial % 4 ? draw_design() : card_design();
    design.host_gigabytes_per_second = 100;
    design.feature_bytes = 1 << 15;
    design.weight_bytes = 1 << 14;
    for (int t = 0; t < kTenants; t++)
      if (trial % 4)
        tenant_draw(&tenants[t], &design);
      else /* with several tiles for a core */
        tenant_convolutions(&tenants[t], &design, 3, draw(24, 40), draw(14, 24));
    run_with_changes(tenants, &design, &sum);
    for (int t = 0; t < kTenants; t++) tenant_free(&tenants[t]);
  }
  print_message("%llu switches, %llu preemptions, %llu migrations, %llu layers redone\n", (unsigned long long)sum.stops,
                (unsigned long long)sum.preemptions, (unsigned long long)sum.migrations,
                (unsigned long long)sum.redone);
  assert_true(sum.preemptions > 20 && sum.migrations > 20);
}

/* A share that shrinks while the task runs, at a layer and at a tile: what it takes is between that of both shares. */
static void test_shrink(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 77;
  tenant_convolutions(&t, &design, 6, 64, 28);
  uint64_t cycles[3];
  for (int place = BRAID_CARD_AFTER_TASK; place <= BRAID_CARD_AFTER_TILE; place++) {
    braid_card *card = create(&design);
    size_t id = open_tenant(card, &t, 12), done;
    uint64_t sequence;
    braid_card_result r;
    for (int job = 0; job < 2; job++) {
      tenant_reset(&t);
      ok(braid_card_submit(card, id, t.input, t.output, &sequence));
      ok(braid_card_advance(card, braid_card_now(card) + 40000, &done));
      assert_int_equal(done, SIZE_MAX);
      if (!job) ok(braid_card_reconfigure(card, id, 2, (braid_card_place)place));
      ok(braid_card_wait(card, id, sequence, UINT64_MAX, &r));
      assert_int_equal(r.status, BRAID_OK);
      tenant_expect_right(&t);
      if (!job) cycles[place] = r.ran;
      if (!job && place) assert_true(r.draining > 0);
    }
    assert_true(r.ran > cycles[place]); /* the second one has 2 cores all the time */
    braid_card_destroy(card);
  }
  assert_true(cycles[BRAID_CARD_AFTER_TASK] < cycles[BRAID_CARD_AFTER_LAYER]);
  tenant_free(&t);
}

/* --- many ---------------------------------------------------------------------------------------------------------
 */
/* 33 tenants at once, of which 16 have a core at any time, in the order in which they came; a 34th goes first. */
static void test_many(void **state) {
  (void)state;
  enum { kMany = 33 };
  braid_overlay_design design = card_design();
  tenant tenants[kMany + 1];
  size_t ids[kMany + 1], done;
  uint64_t sequence, last = 0;
  braid_card *card = create(&design);
  draw_key = 33;
  for (int i = 0; i <= kMany; i++) {
    tenant_draw(&tenants[i], &design);
    braid_card_request request = {.package = tenants[i].package, .cores = 1, .priority = i == kMany ? 9 : 1};
    ok(braid_card_open(card, &request, &ids[i]));
    tenant_reset(&tenants[i]);
    ok(braid_card_submit(card, ids[i], tenants[i].input, tenants[i].output, &sequence));
    if (i == kMany - 2) ok(braid_card_advance(card, 1, &done));
  }
  for (int i = 0; i <= kMany; i++) {
    braid_card_result r;
    ok(braid_card_wait(card, ids[i], 1, UINT64_MAX, &r));
    assert_int_equal(r.status, BRAID_OK);
    tenant_expect_right(&tenants[i]);
    if (i < kMany) assert_true(r.began >= last);
    if (i < kMany) last = r.began;
    if (i == kMany) assert_true(r.began < last);
  }
  while (true) { /* each was told of, once */
    ok(braid_card_advance(card, UINT64_MAX, &done));
    if (done == SIZE_MAX) break;
  }
  for (int i = 0; i <= kMany; i++) {
    braid_card_close(card, ids[i]);
    tenant_free(&tenants[i]);
  }
  expect_clean(card, &design);
  braid_card_destroy(card);
}

/* --- contexts -----------------------------------------------------------------------------------------------------
 */
static void test_times_out(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 5;
  tenant_convolutions(&t, &design, 4, 32, 28);
  braid_card *card = create(&design);
  braid_card_request request = {.name = "late", .package = t.package, .cores = 3, .most_cycles = 20000};
  size_t id;
  uint64_t sequence;
  braid_card_result r;
  ok(braid_card_open(card, &request, &id));
  tenant_reset(&t);
  ok(braid_card_submit(card, id, t.input, t.output, &sequence));
  assert_int_equal(braid_card_wait(card, id, sequence, 1000, &r), BRAID_TIMEOUT); /* of the wait, not of the job */
  assert_false(r.done);
  ok(braid_card_wait(card, id, sequence, UINT64_MAX, &r));
  assert_int_equal(r.status, BRAID_TIMEOUT);
  assert_int_equal(r.ran, 20000);
  assert_non_null(strstr(r.why, "its time of 20000 cycles is over"));
  tenant_expect_untouched(&t); /* no zeros, nor half of a result */
  assert_int_equal(card_count(braid_card_free_cores(card)), 16);
  /* stopped and moved in its middle, it has as much time in all */
  size_t done;
  ok(braid_card_submit(card, id, t.input, t.output, &sequence));
  ok(braid_card_advance(card, braid_card_now(card) + 10000, &done));
  ok(braid_card_reconfigure(card, id, 2, BRAID_CARD_AFTER_TILE));
  ok(braid_card_wait(card, id, sequence, UINT64_MAX, &r));
  assert_int_equal(r.status, BRAID_TIMEOUT);
  assert_true(r.draining > 0 && r.switches == 2);
  assert_int_equal(r.ran, 20000);
  braid_card_context context;
  ok(braid_card_get_context(card, id, &context));
  assert_int_equal(context.counters.time_outs, 2);
  assert_int_equal(context.counters.command_submissions, 2);
  assert_int_equal(context.counters.command_completions, 2);
  assert_int_equal(braid_card_wait(card, id, 3, 10, &r), BRAID_NOT_FOUND);
  braid_card_close(card, id);
  assert_int_equal(braid_card_wait(card, id, 1, 10, &r), BRAID_NOT_FOUND);
  expect_clean(card, &design);
  braid_card_destroy(card);
  tenant_free(&t);
}

/* Cores that are kept are at banks of their own while there are such; what can't be had is refused, and leaves nothing.
 */
static void test_kept(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 9;
  tenant_convolutions(&t, &design, 2, 32, 14);
  braid_card *card = create(&design);
  braid_card_request request = {
      .name = "kept", .package = t.package, .cores = 3, .keeps_cores = true, .bandwidth = 0.25};
  uint64_t banks = 0, sequence;
  size_t ids[5], done;
  for (int i = 0; i < 4; i++) {
    braid_card_context context;
    int first, last;
    ok(braid_card_open(card, &request, &ids[i]));
    ok(braid_card_get_context(card, ids[i], &context));
    card_banks(&design, context.cores, &first, &last);
    assert_int_equal(first, last);
    banks |= (uint64_t)1 << first;
  }
  assert_int_equal(banks, 15);
  uint64_t bytes = braid_card_free_bytes(card);
  request.cores = 5;
  assert_int_equal(braid_card_open(card, &request, &ids[4]), BRAID_BUSY);
  assert_non_null(strstr(braid_error_detail(), "kept is to keep 5 cores, and 4 are free"));
  request.cores = 2;
  request.bandwidth = 0.3; /* beside three of a quarter */
  assert_int_equal(braid_card_open(card, &request, &ids[4]), BRAID_BUSY);
  request.bandwidth = 0.25;
  assert_int_equal(braid_card_free_bytes(card), bytes);
  ok(braid_card_open(card, &request, &ids[4])); /* of two banks */
  assert_int_equal(card_count(braid_card_free_cores(card)), 2);
  tenant_reset(&t);
  ok(braid_card_submit(card, ids[4], t.input, t.output, &sequence));
  ok(braid_card_advance(card, UINT64_MAX, &done));
  assert_int_equal(done, ids[4]);
  tenant_expect_right(&t);
  assert_int_equal(card_count(braid_card_free_cores(card)), 2);
  ok(braid_card_reconfigure(card, ids[4], 4, BRAID_CARD_AFTER_LAYER));
  assert_int_equal(card_count(braid_card_free_cores(card)), 0);
  ok(braid_card_reconfigure(card, ids[4], 1, BRAID_CARD_AFTER_LAYER));
  assert_int_equal(card_count(braid_card_free_cores(card)), 3);
  assert_int_equal(braid_card_reconfigure(card, ids[4], 0, BRAID_CARD_AFTER_LAYER), BRAID_INVALID_ARGUMENT);
  for (int i = 0; i < 5; i++) braid_card_close(card, ids[i]);
  expect_clean(card, &design);
  braid_card_destroy(card);
  tenant_free(&t);
}

/* No number of contexts is too many, but memory is. */
/* What can never be had is refused, or passed over, and holds up nobody. */
static void test_promises(void **state) {
  (void)state;
  braid_overlay_design design = card_design(); /* four cores at each of four banks */
  tenant t;
  draw_key = 5;
  tenant_convolutions(&t, &design, 2, 32, 14);
  braid_card *card = create(&design);
  braid_card_request request = {.name = "promised", .package = t.package, .cores = 16, .bandwidth = 0.5};
  size_t id, kept, beside;
  uint64_t sequence;
  braid_card_result r;
  assert_int_equal(braid_card_open(card, &request, &id), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "16 cores with 0.5 of a bank each: card has that for 8"));
  request.cores = 8;
  ok(braid_card_open(card, &request, &id));
  assert_int_equal(braid_card_reconfigure(card, id, 9, BRAID_CARD_AFTER_LAYER), BRAID_INVALID_ARGUMENT);
  request.cores = 1;
  request.keeps_cores = true;
  ok(braid_card_open(card, &request, &kept)); /* of whose bank only one more core can have as much */
  ok(braid_card_submit(card, id, t.input, NULL, &sequence));
  request = (braid_card_request){.name = "beside", .package = t.package, .cores = 1};
  ok(braid_card_open(card, &request, &beside));
  ok(braid_card_submit(card, beside, t.input, t.output, &sequence));
  tenant_reset(&t);
  ok(braid_card_wait(card, beside, sequence, UINT64_MAX, &r));
  assert_int_equal(r.status, BRAID_OK);
  tenant_expect_right(&t);
  assert_int_equal(braid_card_wait(card, id, 1, UINT64_MAX, &r), BRAID_TIMEOUT);
  braid_card_close(card, kept);
  ok(braid_card_wait(card, id, 1, UINT64_MAX, &r));
  assert_int_equal(r.status, BRAID_OK);
  braid_card_close(card, id);
  braid_card_close(card, beside);
  expect_clean(card, &design);
  braid_card_destroy(card);
  tenant_free(&t);
}

/* Preempted again and again, and given another number of cores each time, a job loses a layer once, not for ever. */
static void test_comes_to_its_end(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  braid_card *card;
  braid_card_options options = {.design = &design, .times_only = true};
  braid_card_result r = {0};
  size_t id, done;
  uint64_t sequence;
  draw_key = 5;
  tenant_convolutions(&t, &design, 2, 64, 56);
  ok(braid_card_create(&options, NULL, &card));
  id = open_tenant(card, &t, 3);
  ok(braid_card_submit(card, id, NULL, NULL, &sequence));
  for (int i = 0; !r.done; i++) {
    if (i > 100) fail_msg("%llu cycles, and no end", (unsigned long long)r.ran);
    ok(braid_card_advance(card, braid_card_now(card) + 25000, &done));
    ok(braid_card_reconfigure(card, id, 0, BRAID_CARD_AFTER_TILE));
    ok(braid_card_advance(card, braid_card_now(card) + 300000, &done));
    ok(braid_card_reconfigure(card, id, 3 + i % 2, BRAID_CARD_AFTER_TILE));
    ok(braid_card_get_result(card, id, sequence, &r));
  }
  assert_int_equal(r.status, BRAID_OK);
  assert_true(r.preemptions >= 2 && r.redone_layers >= 1 && r.redone_layers <= 2);
  braid_card_destroy(card);
  tenant_free(&t);
}

static void test_memory(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 4;
  tenant_convolutions(&t, &design, 2, 32, 14);
  braid_card *card;
  braid_card_options options = {.design = &design, .bank_bytes = 200 * kCardStep};
  ok(braid_card_create(&options, NULL, &card));
  size_t ids[200], count = 0;
  braid_card_request request = {.package = t.package, .cores = 1};
  braid_status status;
  while ((status = braid_card_open(card, &request, &ids[count])) == BRAID_OK) count++;
  assert_int_equal(status, BRAID_NO_MEMORY);
  assert_non_null(strstr(braid_error_detail(), "of the card's memory; it has"));
  assert_true(count > 33);
  braid_card_close(card, ids[7]);
  ok(braid_card_open(card, &request, &ids[7]));
  assert_true(ids[7] != 7);
  for (size_t i = 0; i < count; i++) braid_card_close(card, ids[i]);
  assert_int_equal(braid_card_free_bytes(card), options.bank_bytes);
  braid_card_destroy(card);
  tenant_free(&t);
}

/* Two equal runs are equal; a context that is closed while its job runs leaves nothing. */
static void test_close(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant a, b;
  uint64_t ended[2], sequence;
  draw_key = 12;
  tenant_convolutions(&a, &design, 4, 64, 28);
  tenant_convolutions(&b, &design, 3, 48, 14);
  for (int turn = 0; turn < 2; turn++) {
    braid_card *card = create(&design);
    size_t one = open_tenant(card, &a, 16), two = open_tenant(card, &b, 5), done;
    braid_card_result r;
    tenant_reset(&b);
    ok(braid_card_submit(card, one, a.input, a.output, &sequence));
    ok(braid_card_submit(card, one, a.input, a.output, &sequence));
    ok(braid_card_submit(card, two, b.input, b.output, &sequence));
    ok(braid_card_advance(card, 25000, &done));
    assert_int_equal(done, SIZE_MAX);
    assert_int_equal(braid_card_free_cores(card), 0);
    braid_card_close(card, one);
    ok(braid_card_wait(card, two, 1, UINT64_MAX, &r));
    assert_int_equal(r.status, BRAID_OK);
    assert_int_equal(r.began, 25000);
    ended[turn] = r.ended;
    tenant_expect_right(&b);
    braid_card_close(card, two);
    expect_clean(card, &design);
    braid_card_destroy(card);
  }
  assert_int_equal(ended[0], ended[1]);
  tenant_free(&a);
  tenant_free(&b);
}

/* Whatever allocation fails: a status, and nothing leaks or hangs. */
typedef struct failing {
  size_t left;
  size_t live;
} failing;

static void *failing_alloc(void *context, size_t bytes, size_t alignment) {
  (void)alignment;
  failing *f = context;
  if (!f->left) return NULL;
  f->left--;
  f->live++;
  return aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}

static void failing_free(void *context, void *memory) {
  failing *f = context;
  f->live -= memory != NULL;
  free(memory);
}

static braid_status one_job(const braid_card_options *options, const braid_allocator *allocator, tenant *t) {
  braid_card *card;
  braid_card_request request = {.name = "swept", .package = t->package, .cores = 3};
  braid_card_result r;
  size_t id;
  uint64_t sequence;
  braid_status status = braid_card_create(options, allocator, &card);
  if (status != BRAID_OK) return status;
  status = braid_card_open(card, &request, &id);
  if (status == BRAID_OK) status = braid_card_submit(card, id, t->input, t->output, &sequence);
  if (status == BRAID_OK) status = braid_card_wait(card, id, sequence, UINT64_MAX, &r);
  if (status == BRAID_OK) status = r.status;
  braid_card_destroy(card);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  braid_card_options options = {.design = &design};
  draw_key = 21;
  tenant_convolutions(&t, &design, 1, 8, 6);
  size_t fails = 0;
  braid_status status = BRAID_NO_MEMORY;
  for (; status != BRAID_OK; fails++) {
    failing f = {.left = fails};
    braid_allocator allocator = {&f, failing_alloc, failing_free};
    tenant_reset(&t);
    status = one_job(&options, &allocator, &t);
    assert_int_equal(f.live, 0);
    if (status != BRAID_OK) assert_int_equal(status, BRAID_NO_MEMORY);
    assert_true(fails < 2000);
  }
  assert_true(fails > 20);
  tenant_expect_right(&t);
  tenant_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_changes),          cmocka_unit_test(test_shrink), cmocka_unit_test(test_many),
      cmocka_unit_test(test_times_out),        cmocka_unit_test(test_kept),   cmocka_unit_test(test_promises),
      cmocka_unit_test(test_comes_to_its_end), cmocka_unit_test(test_memory), cmocka_unit_test(test_close),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
