/* Places to stop at in tiles written by hand: which of them stay, what they repeat, and how long a core takes to stand
 * there, against times added up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/compiler/stops.h"

enum { kCores = 16, kLatency = 60, kNoLimit = 1 << 30 };
enum { kMoveWords = 2, kConvWords = 3, kTileWords = 1 }; /* docs/isa.md */
enum {
  kInput = 1 << BRAID_SLOT_INPUT,
  kOutput = 1 << BRAID_SLOT_OUTPUT,
  kWeights = 1 << BRAID_SLOT_WEIGHTS,
};

/* A core's part of its bank, halved for what is read and written, is 64 bits, so that a line takes two cycles. */
static const braid_overlay_design kDesign = {.name = "test",
                                             .cores = kCores,
                                             .clock_mhz = 300,
                                             .pixels = 4,
                                             .channels_in = 8,
                                             .channels_out = 8,
                                             .side_bytes = 32,
                                             .queue_depth = 16,
                                             .port_bits = 128,
                                             .bank_bits = 512,
                                             .banks = 4,
                                             .burst_bytes = 1024,
                                             .outstanding = 8,
                                             .latency_cycles = kLatency,
                                             .efficiency = 1};

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static int64_t move_cycles(int lines) {
  return kLatency + 2 * lines;
}

static void put_move(braid_emitter *e, braid_isa_opcode opcode, int lines, uint32_t slots) {
  braid_instruction in = braid_isa_blank(opcode);
  in.load.lines = lines; /* SAVE has the same fields */
  ok(braid_emit(e, &in, opcode == BRAID_ISA_OP_SAVE ? slots : 0, opcode == BRAID_ISA_OP_LOAD ? slots : 0, false));
}

static void put_load(braid_emitter *e, int lines, uint32_t slots) {
  put_move(e, BRAID_ISA_OP_LOAD, lines, slots);
}

static void put_save(braid_emitter *e, int lines, uint32_t slots) {
  put_move(e, BRAID_ISA_OP_SAVE, lines, slots);
}

/* One cycle for each column. */
static void put_conv(braid_emitter *e, int cycles, uint32_t reads, uint32_t writes) {
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_CONV);
  in.conv.output_columns = cycles;
  in.conv.channels_in = in.conv.channels_out = 8;
  in.conv.kernel_rows = in.conv.kernel_columns = 1;
  ok(braid_emit(e, &in, reads, writes, false));
}

static void put_tile(braid_emitter *e) {
  ok(braid_emit_tile(e, 3));
}

static int64_t place(braid_emitter *e, int64_t limit) {
  int64_t cycles = -1;
  ok(braid_stops_place(e, &kDesign, limit, &cycles));
  return cycles;
}

static size_t count_tiles(const braid_emitter *e) {
  size_t count = 0;
  for (size_t i = 0; i < e->count; i++) count += braid_isa_is_tile(&e->items[i]);
  return count;
}

/* The nth tile that is left. */
static const braid_isa_system *nth_tile(const braid_emitter *e, int n) {
  for (size_t i = 0; i < e->count; i++)
    if (braid_isa_is_tile(&e->items[i]) && n-- == 0) return &e->items[i].system;
  fail_msg("there are not so many tiles");
  return NULL;
}

static void expect_repeats(const braid_emitter *e, int tile, int a, int b, int c, int d) {
  int32_t got[BRAID_ISA_REPEATS];
  braid_isa_repeats(nth_tile(e, tile), got);
  assert_true(got[0] == a && got[1] == b && got[2] == c && got[3] == d);
}

/* --- what stays ----------------------------------------------------------------------------------------------------
 */
/* What is read behind a place is loaded again, and nothing else. */
static void test_repeats(void **state) {
  braid_emitter e;
  (void)state;
  braid_emitter_init(&e, NULL);
  put_load(&e, 1, kInput);
  put_load(&e, 1, kWeights);
  put_tile(&e);
  put_conv(&e, 1, kInput | kWeights, kOutput);
  put_save(&e, 1, kOutput);
  put_tile(&e);
  put_conv(&e, 1, kWeights, kOutput);
  put_save(&e, 1, kOutput);
  put_tile(&e);
  (void)place(&e, kNoLimit);
  assert_int_equal(count_tiles(&e), 3);
  expect_repeats(&e, 0, 2 * kMoveWords, kMoveWords, 0, 0);
  expect_repeats(&e, 1, kMoveWords + kTileWords + kConvWords + kMoveWords, 0, 0, 0);
  expect_repeats(&e, 2, 0, 0, 0, 0);
  braid_emitter_clear(&e);
  put_load(&e, 1, kInput);
  put_tile(&e);
  put_load(&e, 1, kWeights); /* is loaded behind the place anyway */
  put_conv(&e, 1, kInput | kWeights, kOutput);
  (void)place(&e, kNoLimit);
  expect_repeats(&e, 0, kMoveWords, 0, 0, 0);
  braid_emitter_deinit(&e);
}

/* Results that are not saved yet are on the chip alone; what no LOAD wrote, or more than four did, can't be repeated.
 */
static void test_taken_out(void **state) {
  static const uint32_t kSlots[] = {1, 2, 4, 8, kWeights};
  braid_emitter e;
  (void)state;
  braid_emitter_init(&e, NULL);
  put_conv(&e, 1, 0, kOutput);
  put_tile(&e);
  put_save(&e, 1, kOutput);
  put_tile(&e);
  (void)place(&e, kNoLimit);
  assert_int_equal(e.count, 3);
  assert_true(braid_isa_is_tile(&e.items[2]));
  braid_emitter_clear(&e);
  put_load(&e, 1, kOutput);
  put_conv(&e, 1, kOutput, kOutput); /* to load again would undo this */
  put_tile(&e);
  put_save(&e, 1, kOutput);
  (void)place(&e, kNoLimit);
  assert_int_equal(count_tiles(&e), 0);
  for (int loads = 4; loads <= 5; loads++) {
    uint32_t all = 0;
    braid_emitter_clear(&e);
    for (int i = 0; i < loads; i++) put_load(&e, 1, kSlots[i]), all |= kSlots[i];
    put_tile(&e);
    put_conv(&e, 1, all, kOutput);
    (void)place(&e, kNoLimit);
    assert_int_equal(count_tiles(&e), loads == 4);
    if (loads == 4) expect_repeats(&e, 0, 8, 6, 4, 2);
  }
  braid_emitter_clear(&e);
  put_load(&e, 1, kWeights);
  put_tile(&e);
  put_conv(&e, 1, kWeights | kInput, kOutput);
  (void)place(&e, kNoLimit);
  assert_int_equal(count_tiles(&e), 0);
  braid_emitter_deinit(&e);
}

/* A field of 16 bits says how far back a LOAD is. */
static void test_far(void **state) {
  (void)state;
  for (int saves = 32766; saves <= 32767; saves++) {
    braid_emitter e;
    braid_emitter_init(&e, NULL);
    put_load(&e, 1, kInput);
    for (int i = 0; i < saves; i++) put_save(&e, 1, 0);
    put_tile(&e);
    put_conv(&e, 1, kInput, kOutput);
    (void)place(&e, kNoLimit);
    assert_int_equal(count_tiles(&e), saves == 32766);
    if (saves == 32766) expect_repeats(&e, 0, (1 << 16) - 2, 0, 0, 0);
    braid_emitter_deinit(&e);
  }
}

/* --- how long it takes ---------------------------------------------------------------------------------------------
 */
/* The SAVE before a place may just have begun; what waits for it waits all its time. */
static void test_last_save(void **state) {
  braid_emitter e;
  (void)state;
  braid_emitter_init(&e, NULL);
  put_conv(&e, 500, 0, kOutput);
  put_save(&e, 1000, kOutput);
  put_tile(&e);
  put_conv(&e, 1500, 0, kOutput);
  put_save(&e, 1000, kOutput);
  assert_int_equal(place(&e, kNoLimit), move_cycles(1000) + 1500 + move_cycles(1000));
  braid_emitter_deinit(&e);
}

/* One decoder hands out the instructions of all cores, a word in a cycle. */
static void test_decoder(void **state) {
  braid_emitter e;
  (void)state;
  braid_emitter_init(&e, NULL);
  for (int i = 0; i < 40; i++) put_conv(&e, 1, 0, kOutput);
  assert_int_equal(place(&e, kNoLimit), 40 * kConvWords * kCores + 1);
  braid_emitter_deinit(&e);
}

/* Beyond the limit a core goes back: what computes is done, or all behind the first SAVE, one after the other. The
 * place with which the tile begins stays for that, and only for that. */
static void test_back(void **state) {
  (void)state;
  for (int back = 0; back <= 1; back++) {
    braid_emitter e;
    braid_emitter_init(&e, NULL);
    put_tile(&e);
    put_conv(&e, 3000, 0, kOutput);
    put_save(&e, 100, kOutput);
    put_conv(&e, 3000, 0, kOutput);
    put_save(&e, 100, kOutput);
    int64_t forward = kConvWords * kCores + 2 * (3000 + move_cycles(100));
    assert_int_equal(place(&e, back ? 100 : kNoLimit), back ? 3000 + 2 * move_cycles(100) : forward);
    assert_int_equal(e.count, 4 + back);
    assert_int_equal(count_tiles(&e), back);
    if (back) assert_true(nth_tile(&e, 0)->back);
    braid_emitter_deinit(&e);
  }
}

/* Where going back takes no less, a core goes on: with loads behind the first SAVE, or while the SAVE before runs. */
static void test_back_is_longer(void **state) {
  braid_emitter e;
  (void)state;
  braid_emitter_init(&e, NULL);
  put_conv(&e, 10, 0, kOutput);
  put_save(&e, 10, kOutput);
  put_tile(&e);
  put_save(&e, 1000, 0);
  put_load(&e, 2000, kInput);
  assert_int_equal(place(&e, 100), move_cycles(10) + move_cycles(1000));
  assert_int_equal(count_tiles(&e), 1);
  assert_false(nth_tile(&e, 0)->back);
  braid_emitter_clear(&e);
  put_conv(&e, 10, 0, kOutput);
  put_save(&e, 1000, kOutput);
  put_tile(&e);
  put_conv(&e, 5, 0, kOutput << 1); /* the other half: it does not wait for the SAVE */
  assert_int_equal(place(&e, 100), (kConvWords + kMoveWords) * kCores + move_cycles(1000)); /* the first SAVE's end */
  assert_int_equal(count_tiles(&e), 1);
  assert_false(nth_tile(&e, 0)->back);
  braid_emitter_deinit(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_repeats),        cmocka_unit_test(test_taken_out), cmocka_unit_test(test_far),
      cmocka_unit_test(test_last_save),      cmocka_unit_test(test_decoder),   cmocka_unit_test(test_back),
      cmocka_unit_test(test_back_is_longer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
