/* What changes of cores cost, and that they are avoided. */
#include <math.h>

#include "overlay/card/card_fixture.h"

#include "overlay/card/internal.h"

static braid_card *times_of(const braid_overlay_design *design) {
  braid_card *card;
  braid_card_options options = {.design = design, .times_only = true};
  ok(braid_card_create(&options, NULL, &card));
  return card;
}

static braid_card_result run_job(braid_card *card, size_t id) {
  uint64_t sequence;
  braid_card_result r;
  ok(braid_card_submit(card, id, NULL, NULL, &sequence));
  ok(braid_card_wait(card, id, sequence, UINT64_MAX, &r));
  assert_int_equal(r.status, BRAID_OK);
  return r;
}

static uint64_t cores_of(braid_card *card, size_t id) {
  braid_card_context context;
  ok(braid_card_get_context(card, id, &context));
  return context.cores;
}

static size_t open_kept(braid_card *card, const tenant *t, int cores) {
  braid_card_request request = {.name = "kept", .package = t->package, .cores = cores, .keeps_cores = true};
  size_t id;
  ok(braid_card_open(card, &request, &id));
  return id;
}

/* Programs that are there are not sent again, unless others had the cores. */
static void test_loaded(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 5;
  tenant_convolutions(&t, &design, 2, 32, 14);
  braid_card *card = times_of(&design);
  size_t a = open_tenant(card, &t, 4), b = open_tenant(card, &t, 16);
  braid_card_result first = run_job(card, a), second = run_job(card, a);
  assert_true(first.switching > 0 && first.switches == 1);
  assert_true(second.switching == 0 && second.switches == 0);
  (void)run_job(card, b);
  braid_card_result third = run_job(card, a);
  assert_true(third.switches == 1);
  /* not made again, but sent: 10 microseconds of latency and the bytes */
  assert_true(third.switching >= 3000 && third.switching < first.switching);
  braid_card_destroy(card);
  tenant_free(&t);
}

/* A job that is preempted at a layer, and goes on at its bank or at another one, after others had its cores. */
static braid_card_result run_preempted(const braid_overlay_design *design, const tenant *t, bool moves) {
  braid_card *card = times_of(design);
  size_t id = open_tenant(card, t, 4), kept, done;
  uint64_t sequence;
  braid_card_result r;
  ok(braid_card_submit(card, id, NULL, NULL, &sequence));
  ok(braid_card_advance(card, 40000, &done));
  assert_true(cores_of(card, id) == 0xf);
  ok(braid_card_reconfigure(card, id, 0, BRAID_CARD_AFTER_LAYER));
  ok(braid_card_advance(card, 400000, &done));
  kept = open_kept(card, t, moves ? 4 : 16);
  assert_true(cores_of(card, kept) & 0xf);
  (void)run_job(card, kept);
  if (!moves) braid_card_close(card, kept);
  ok(braid_card_reconfigure(card, id, 4, BRAID_CARD_AFTER_LAYER));
  ok(braid_card_wait(card, id, sequence, UINT64_MAX, &r));
  assert_true(r.status == BRAID_OK && r.preemptions == 1 && r.migrations == (moves ? 1 : 0));
  braid_card_destroy(card);
  return r;
}

/* Maps go along to another bank, at the speed of one. */
static void test_copies(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 5;
  tenant_convolutions(&t, &design, 4, 32, 28);
  double bytes = 0;
  for (int s = BRAID_SEGMENT_FEATURES; s < BRAID_PACKAGE_SEGMENTS; s++) bytes += (double)t.package->bytes[s];
  uint64_t copies = (uint64_t)ceil(bytes / (64 * design.efficiency));
  braid_card_result stays = run_preempted(&design, &t, false), moves = run_preempted(&design, &t, true);
  assert_int_equal(moves.switching, stays.switching + copies);
  tenant_free(&t);
}

/* It goes where it was, though others are free; kept cores are resized behind a job. */
static void test_chosen(void **state) {
  (void)state;
  braid_overlay_design design = card_design();
  tenant t;
  draw_key = 5;
  tenant_convolutions(&t, &design, 2, 32, 14);
  braid_card *card = times_of(&design);
  size_t kept = open_kept(card, &t, 4), id = open_tenant(card, &t, 4), done;
  uint64_t sequence;
  (void)run_job(card, id);
  braid_card_close(card, kept);
  braid_card_result r = run_job(card, id);
  assert_true(r.switches == 0 && r.migrations == 0);
  kept = open_kept(card, &t, 2);
  ok(braid_card_submit(card, kept, NULL, NULL, &sequence));
  ok(braid_card_advance(card, braid_card_now(card) + 20000, &done));
  ok(braid_card_reconfigure(card, kept, 5, BRAID_CARD_AFTER_TASK));
  assert_int_equal(card_count(cores_of(card, kept)), 2);
  ok(braid_card_wait(card, kept, sequence, UINT64_MAX, &r));
  assert_int_equal(card_count(cores_of(card, kept)), 5);
  braid_card_destroy(card);
  tenant_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_loaded), cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_chosen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
