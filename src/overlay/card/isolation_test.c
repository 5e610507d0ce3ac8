/* Whatever a tenant's program does, others compute the same bits in the same time, and nothing is left of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "braid/overlay_evaluation.h"
#include "braid/overlay_tenants.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static const char *expected_why(const char *offence) {
  static const char *const kWhy[][2] = {{"foreign-read", "addresses line 16384 of segment 1, which has 16384"},
                                        {"foreign-write", "addresses line 16384 of segment 3, which has 16384"},
                                        {"constants", "writes to segment 0, which may only be read"},
                                        {"corrupted", "core 0: byte 0"},
                                        {"no-sync", "waits for a core that has ended"},
                                        {"no-token", "waits for a token that nothing will give"},
                                        {"overrun", "its time of 5000 cycles is over"},
                                        {"cut", "cycles is over"}};
  for (size_t i = 0; i < sizeof kWhy / sizeof *kWhy; i++)
    if (strcmp(kWhy[i][0], offence) == 0) return kWhy[i][1];
  return "";
}

static void test_all(void **state) {
  (void)state;
  const braid_overlay_design *design;
  ok(braid_overlay_design_load(NULL, "cnn-16x512", &design));
  for (size_t o = 0; o < braid_overlay_offence_count(); o++)
    for (int beside = 0; beside < BRAID_OVERLAY_BESIDES; beside++) {
      braid_overlay_trial trial;
      braid_overlay_offence offence = braid_overlay_offence_at(o);
      ok(braid_overlay_try_isolation(design, NULL, o, (braid_overlay_beside)beside, &trial));
      print_message("%-14s %-12s %2d %2d cores, %4lld times: %.3f %%, gates %.2f %%, %s%s%s\n", offence.name,
                    braid_overlay_beside_name((braid_overlay_beside)beside), trial.cores, trial.offender_cores,
                    (long long)trial.offences, 100 * trial.deviation, 100 * trial.gate_cost,
                    trial.same_bits ? "" : "OTHER BITS ", trial.clean ? "" : "NOT CLEAN ", trial.why);
      assert_true(trial.same_bits);
      assert_true(trial.clean);
      assert_true(trial.offences > 0);
      assert_int_equal(trial.status != BRAID_OK, offence.fails);
      assert_non_null(strstr(trial.why, expected_why(offence.name)));
      if (beside != BRAID_OVERLAY_SHARED_BANK) assert_true(trial.deviation < 0.01);
    }
  braid_overlay_design_destroy(design);
}

/* The decoder is the card's: a network of few instructions that take little time feels others at other banks, too,
 * which need it all the time. With a promise it does not. */
static void test_decoder(void **state) {
  (void)state;
  const braid_overlay_design *design;
  braid_overlay_lstm *lstm;
  braid_overlay_package *package;
  double ms;
  ok(braid_overlay_design_load(NULL, "rnn-16x64", &design));
  ok(braid_overlay_lstm_draw(NULL, 100, &ms, &lstm));
  ok(braid_overlay_lstm_package(lstm, 20, design, NULL, &ms, &package));
  for (size_t o = 0; o < braid_overlay_offence_count(); o++) {
    braid_overlay_trial without, with;
    if (strcmp(braid_overlay_offence_at(o).name, "chatter")) continue;
    ok(braid_overlay_try_isolation(design, package, o, BRAID_OVERLAY_OWN_BANKS, &without));
    ok(braid_overlay_try_isolation(design, package, o, BRAID_OVERLAY_OWN_GATED, &with));
    print_message("LSTM beside chatter: %.3f %% without a promise, %.3f %% with one, which costs %.2f %%\n",
                  100 * without.deviation, 100 * with.deviation, 100 * with.gate_cost);
    assert_true(without.deviation > 0.01);
    assert_true(with.deviation < 0.001);
    assert_true(without.same_bits && with.same_bits && without.clean && with.clean);
  }
  braid_overlay_package_destroy(package);
  braid_overlay_lstm_destroy(lstm);
  braid_overlay_design_destroy(design);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_decoder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
