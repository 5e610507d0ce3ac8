/* Packages of recurrent networks from somebody else: what they say must agree with what they have. */
#include "base/sha256.h"
#include "overlay/card/card_fixture.h"
#include "overlay/recurrent/rnn_static.h"

enum { kHashAt = 40, kHeader = 72, kInputs = 12, kHidden = 20, kSteps = 3 };

static braid_package *make(void) {
  enum { kRows = 4 * kHidden };
  static float w[kRows * kInputs], r[kRows * kHidden], b[2 * kRows];
  braid_overlay_design d = card_design();
  braid_package *package;
  braid_lstm *lstm;
  d.recurrent = true;
  d.rows = d.columns = d.side_numbers = 4;
  d.vector_bytes = 1 << 14;
  for (size_t i = 0; i < sizeof w / sizeof *w; i++) w[i] = (float)draw(-400, 400) / 1000;
  for (size_t i = 0; i < sizeof r / sizeof *r; i++) r[i] = (float)draw(-400, 400) / 1000;
  ok(braid_lstm_create(NULL, kInputs, kHidden, w, r, b, 2, &lstm));
  ok(braid_rnn_compile_layer(lstm, kSteps, &d, NULL, &package));
  braid_lstm_destroy(lstm);
  return package;
}

static uint64_t get_u64(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static void put_u64(uint8_t *at, uint64_t value) {
  for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* With the checksum that it should have. NULL: it is taken. */
static void expect(uint8_t *file, size_t bytes, const char *why) {
  braid_package *package;
  braid_sha256_of(file + kHeader, bytes - kHeader, file + kHashAt);
  braid_status status = braid_package_load(file, bytes, NULL, &package);
  if (!why) {
    ok(status);
    braid_package_destroy(package);
    return;
  }
  assert_true(status == BRAID_INVALID_FILE || status == BRAID_UNSUPPORTED);
  if (!strstr(braid_error_detail(), why)) fail_msg("%s; expected %s", braid_error_detail(), why);
}

/* Tables of a changed package, saved. */
static void expect_saved(const braid_package *package, const char *why) {
  braid_text text;
  braid_text_init(&text, NULL);
  ok(braid_package_save(package, &text));
  expect((uint8_t *)text.data, text.length, why);
  braid_text_deinit(&text);
}

static void test_lengths(void **state) {
  (void)state;
  braid_package *package = make();
  braid_text text;
  braid_text_init(&text, NULL);
  ok(braid_package_save(package, &text));
  uint8_t *file = calloc(text.length + 64, 1);
  memcpy(file, text.data, text.length);
  uint64_t tables = get_u64(file + 16), constants = get_u64(file + 32);
  expect(file, text.length, NULL);
  put_u64(file + 32, constants - 16); /* fewer constants than the cells read */
  expect(file, text.length - 16, "the tables need");
  put_u64(file + 32, constants + 16);
  expect(file, text.length + 16, "the tables need");
  put_u64(file + 32, constants);
  put_u64(file + 16, tables + 4);
  memmove(file + kHeader + tables + 4, file + kHeader + tables, (size_t)constants);
  expect(file, text.length + 4, "4 bytes follow the tables");
  free(file);
  braid_text_deinit(&text);
  braid_package_destroy(package);
}

static void test_numbers(void **state) {
  (void)state;
  braid_package *package = make();
  braid_rnn rnn = *package->rnn;
  braid_rnn_sequence sequences[2] = {rnn.sequences[0], rnn.sequences[1]};
  braid_rnn_cell cells[2] = {rnn.cells[0], rnn.cells[0]};
  assert_true(rnn.sequence_count == 2 && rnn.cell_count == 1);
  braid_rnn *before = package->rnn;
  rnn.sequences = sequences;
  rnn.cells = cells;
  package->rnn = &rnn;
  expect_saved(package, NULL);
  sequences[0].exponent = 201;
  expect_saved(package, "the exponent 201; -200 to 200 are allowed");
  sequences[0].exponent = -201;
  expect_saved(package, "the exponent -201; -200 to 200 are allowed");
  sequences[0].exponent = before->sequences[0].exponent;
  rnn.cell_count = 2; /* both write one part */
  expect_saved(package, "cell 1 cannot write part 0 of sequence 1");
  rnn.cell_count = 1;
  rnn.core.vectors = 1;
  expect_saved(package, "vectors of");
  package->rnn = before;
  braid_package_destroy(package);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
