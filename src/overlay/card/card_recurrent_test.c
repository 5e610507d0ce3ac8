/* A recurrent network on a card that stops it behind steps, moves and resizes it: the states are those of plain steps.
 */
#include "base/philox.h"
#include "overlay/card/card_fixture.h"
#include "overlay/recurrent/rnn_static.h"

enum { kTrials = 24, kMostHidden = 48, kSteps = 12 };

static float *draw_floats(size_t count) {
  float *out = malloc(count * sizeof *out);
  for (size_t i = 0; i < count; i++) out[i] = (float)draw(-400, 400) / 1000;
  return out;
}

static braid_lstm *draw_lstm(int inputs, int hidden) {
  size_t rows = 4 * (size_t)hidden;
  float *w = draw_floats(rows * (size_t)inputs), *r = draw_floats(rows * (size_t)hidden), *b = draw_floats(2 * rows);
  braid_lstm *lstm;
  ok(braid_lstm_create(NULL, inputs, hidden, w, r, b, 2, &lstm));
  free(w), free(r), free(b);
  return lstm;
}

static braid_overlay_design recurrent_card(bool small) {
  braid_overlay_design d = card_design();
  d.recurrent = true;
  d.clock_mhz = 200;
  d.rows = 4;
  d.columns = 4;
  d.side_numbers = 4;
  d.weight_bytes = small ? 1 << 12 : 1 << 19; /* weights are loaded in each step, or once */
  d.bias_bytes = 1 << 12;
  d.sum_bytes = 1 << 12;
  d.vector_bytes = 1 << 14;
  d.host_latency_us = 0;
  return d;
}

static void expect_states(const braid_lstm *lstm, const braid_rnn *rnn, const uint8_t *input, const uint8_t *output) {
  int16_t x[kMostHidden], h[kMostHidden] = {0}, c[kMostHidden] = {0}, got[kMostHidden];
  for (int32_t t = 0; t < kSteps; t++) {
    const braid_rnn_sequence *from = &rnn->sequences[0], *to = &rnn->sequences[1];
    memcpy(x, input + (from->line + (int64_t)t * from->pitch) * 16, (size_t)lstm->inputs * sizeof *x);
    braid_lstm_step(lstm, x, h, c);
    memcpy(got, output + braid_rnn_line_of(to, t, 0, false) * 16, (size_t)lstm->hidden * sizeof *got);
    assert_memory_equal(got, h, (size_t)lstm->hidden * sizeof *got);
  }
}

static uint8_t *draw_input(const braid_package *package, int inputs) {
  const braid_rnn_sequence *from = &package->rnn->sequences[0];
  uint8_t *input = calloc((size_t)package->bytes[2] + 1, 1);
  for (int32_t t = 0; t < kSteps; t++)
    for (int32_t i = 0; i < inputs; i++) {
      int16_t number = (int16_t)draw(-16000, 16000);
      memcpy(input + (from->line + (int64_t)t * from->pitch) * 16 + 2 * i, &number, 2);
    }
  return input;
}

static void test_steps(void **state) {
  (void)state;
  uint64_t preemptions = 0, changes = 0;
  for (int trial = 0; trial < kTrials; trial++) {
    draw_key = 100 + (uint64_t)trial;
    draw_count = 0;
    braid_overlay_design design = recurrent_card(trial % 2);
    braid_lstm *lstm = draw_lstm(draw(1, kMostHidden), draw(1, kMostHidden));
    braid_package *package;
    braid_card *card;
    braid_card_options options = {.design = &design, .compile_seconds = 1e-8};
    ok(braid_rnn_compile_layer(lstm, kSteps, &design, NULL, &package));
    ok(braid_card_create(&options, NULL, &card));
    braid_card_request request = {.name = "lstm", .package = package, .cores = draw(1, 16)};
    uint8_t *input = draw_input(package, lstm->inputs), *output = calloc((size_t)package->bytes[3] + 1, 1);
    size_t id, done = SIZE_MAX;
    uint64_t sequence;
    ok(braid_card_open(card, &request, &id));
    ok(braid_card_submit(card, id, input, output, &sequence));
    while (done == SIZE_MAX) {
      ok(braid_card_reconfigure(card, id, draw(0, 16), (braid_card_place)draw(1, 2)));
      ok(braid_card_advance(card, braid_card_now(card) + (uint64_t)draw(1, 3000), &done));
    }
    braid_card_result r;
    ok(braid_card_get_result(card, id, sequence, &r));
    if (r.status != BRAID_OK) fail_msg("%s", r.why);
    expect_states(lstm, package->rnn, input, output);
    preemptions += r.preemptions;
    changes += r.switches;
    braid_card_destroy(card);
    braid_package_destroy(package);
    braid_lstm_destroy(lstm);
    free(input);
    free(output);
  }
  print_message("%llu switches, %llu preemptions\n", (unsigned long long)changes, (unsigned long long)preemptions);
  assert_true(changes > 3 * kTrials && preemptions > 10);
}

/* --- stops that keep the number of cores ---------------------------------------------------------------------------
 */
typedef struct sequence {
  braid_overlay_design design;
  braid_lstm *lstm;
  braid_package *package;
  uint8_t *input, *output;
  int cores;
} sequence;

static void sequence_begin(sequence *s, bool small, int hidden, int cores) {
  draw_key = 1;
  draw_count = 0;
  s->design = recurrent_card(small);
  s->cores = cores;
  s->lstm = draw_lstm(24, hidden);
  ok(braid_rnn_compile_layer(s->lstm, kSteps, &s->design, NULL, &s->package));
  s->input = draw_input(s->package, 24);
  s->output = calloc((size_t)s->package->bytes[3] + 1, 1);
}

static void sequence_end(sequence *s) {
  braid_package_destroy(s->package);
  braid_lstm_destroy(s->lstm);
  free(s->input);
  free(s->output);
}

/* One that has all cores, and does nothing with them. */
static size_t open_other(braid_card *card) {
  static uint8_t bytes[16][BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD];
  static braid_overlay_code programs[16];
  braid_card_code code = {.programs = programs};
  braid_card_request request = {.name = "other", .code = &code, .cores = 16};
  size_t id;
  for (int c = 0; c < 16; c++) {
    braid_instruction end = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
    end.core = c;
    end.system.end = 1;
    programs[c].bytes = bytes[c];
    ok(braid_isa_encode(&end, bytes[c], &programs[c].count));
  }
  ok(braid_card_open(card, &request, &id));
  return id;
}

/* Stopped every so many cycles (0: never), given back its cores when others have had them, and right at the end. */
static braid_card_result run_stopped(sequence *s, uint64_t every, braid_card_place place) {
  braid_card *card;
  braid_card_options options = {.design = &s->design, .compile_seconds = 1e-8};
  ok(braid_card_create(&options, NULL, &card));
  braid_card_request request = {.name = "lstm", .package = s->package, .cores = s->cores};
  size_t id, other, done = SIZE_MAX;
  uint64_t first, meanwhile;
  braid_card_result r;
  ok(braid_card_open(card, &request, &id));
  other = open_other(card);
  memset(s->output, 0, (size_t)s->package->bytes[3]);
  ok(braid_card_submit(card, id, s->input, s->output, &first));
  for (int stops = 0;; stops++) {
    ok(braid_card_advance(card, every ? braid_card_now(card) + every : UINT64_MAX, &done));
    ok(braid_card_get_result(card, id, first, &r));
    if (r.done) break;
    ok(braid_card_reconfigure(card, id, 0, place));
    ok(braid_card_submit(card, other, NULL, NULL, &meanwhile));
    ok(braid_card_wait(card, other, meanwhile, UINT64_MAX, &r));
    ok(braid_card_reconfigure(card, id, s->cores, place));
    if (stops > 2000) fail_msg("stopped every %llu cycles it does not end", (unsigned long long)every);
  }
  if (r.status != BRAID_OK) fail_msg("%s", r.why);
  expect_states(s->lstm, s->package->rnn, s->input, s->output);
  braid_card_destroy(card);
  return r;
}

/* Inside of a step the vectors are kept, which costs their way to DDR and back. */
static void test_tiles(void **state) {
  (void)state;
  for (int cores = 1; cores <= 2; cores++) {
    sequence s;
    uint64_t inside = 0;
    sequence_begin(&s, true, 48, cores);
    braid_card_result once = run_stopped(&s, 0, BRAID_CARD_AFTER_TILE);
    uint64_t took = once.ended - once.began;
    for (int i = 1; i <= 40; i++) {
      braid_card_result r = run_stopped(&s, took * (uint64_t)i / 41, BRAID_CARD_AFTER_TILE);
      uint64_t vectors = 2 * ((2 * 3 + 7 * 6) + (uint64_t)s.design.latency_cycles); /* a line in each cycle */
      assert_true(r.redone_layers == 0);
      /* each switch takes the same, but for the vectors */
      uint64_t more = r.switching - (r.preemptions + 1) * once.switching;
      assert_true(r.switching >= (r.preemptions + 1) * once.switching && more <= r.preemptions * vectors);
      inside += more / vectors;
    }
    assert_true(inside > 40);
    sequence_end(&s);
  }
}

/* However often it is stopped, at whatever place, it comes to its end. */
static void test_comes_to_its_end(void **state) {
  (void)state;
  static const int kHidden[] = {20, 48};
  for (int trial = 0; trial < 16; trial++) {
    sequence s;
    sequence_begin(&s, trial % 2, kHidden[trial / 2 % 2], trial / 4 % 2 ? 5 : 16);
    (void)run_stopped(&s, 50 + 400 * (uint64_t)(trial / 8), trial % 3 ? BRAID_CARD_AFTER_TILE : BRAID_CARD_AFTER_LAYER);
    sequence_end(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_tiles),
                                     cmocka_unit_test(test_comes_to_its_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
