/* What programs of recurrent networks are like: places to stop at where weights are streamed, gates that are computed
 * by one instruction where the decoder would take longer. And designs whose memories are too small are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "overlay/recurrent/rnn_dynamic.h"
#include "overlay/recurrent/rnn_static.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* A core's part of its bank is its port, 128 bits, so that a line takes one cycle. */
static braid_overlay_design make_design(void) {
  return (braid_overlay_design){.name = "test",
                                .recurrent = true,
                                .cores = 16,
                                .clock_mhz = 200,
                                .rows = 8,
                                .columns = 4,
                                .side_numbers = 4,
                                .weight_bytes = 1 << 18,
                                .bias_bytes = 1 << 14,
                                .sum_bytes = 1 << 12,
                                .vector_bytes = 1 << 14,
                                .queue_depth = 16,
                                .instruction_bytes = 1 << 20,
                                .port_bits = 128,
                                .bank_bits = 512,
                                .banks = 4,
                                .bank_bytes = (int64_t)1 << 30,
                                .burst_bytes = 256,
                                .outstanding = 8,
                                .latency_cycles = 40,
                                .efficiency = 1,
                                .host_gigabytes_per_second = 1};
}

static braid_package *make_package(const braid_overlay_design *design, int inputs, int hidden, int steps) {
  size_t rows = 4 * (size_t)hidden;
  float *w = calloc(rows * (size_t)inputs, sizeof *w), *r = calloc(rows * (size_t)hidden, sizeof *r);
  float *b = calloc(2 * rows, sizeof *b);
  for (size_t i = 0; i < rows * (size_t)inputs; i++) w[i] = (float)(i % 17) / 16 - 0.5F;
  braid_lstm *lstm;
  braid_package *package;
  ok(braid_lstm_create(NULL, inputs, hidden, w, r, b, 2, &lstm));
  ok(braid_rnn_compile_layer(lstm, steps, design, NULL, &package));
  braid_lstm_destroy(lstm);
  free(w), free(r), free(b);
  return package;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
typedef struct tables {
  braid_rnn_sequence sequences[2];
  braid_rnn_state states[1];
  braid_rnn_cell cells[1];
  braid_rnn rnn;
} tables;

/* One cell of so many inputs and as many states. */
static void make_tables(tables *t, int32_t side) {
  *t = (tables){
      .sequences = {{.name = "x", .parts = 1, .part = side, .input = true}, {.name = "y", .parts = 1, .part = side}},
      .states = {{.name = "s", .parts = 1, .part = side}},
      .cells = {{.name = "cell", .into = 1, .hidden = side}}};
  t->rnn = (braid_rnn){.steps = 1, .length = 1, .sequences = t->sequences, .states = t->states, .cells = t->cells};
  t->rnn.core = (braid_rnn_core){.rows = 8,
                                 .columns = 4,
                                 .side = 4,
                                 .weights = 1 << 14,
                                 .biases = 1 << 10,
                                 .vectors = 1 << 10,
                                 .sums = 1 << 12,
                                 .queue = 1,
                                 .latency = 1,
                                 .line_parts = 1024,
                                 .piece_cycles = 3000};
  t->rnn.sequence_count = 2;
  t->rnn.state_count = t->rnn.cell_count = 1;
}

static void expect_laid_out(tables *t, braid_status expected, const char *part) {
  int64_t bytes[BRAID_PACKAGE_SEGMENTS];
  braid_status status = braid_rnn_lay_out(&t->rnn, bytes);
  if (status != expected || (part && !strstr(braid_error_detail(), part)))
    fail_msg("\"%s\" is expected: %s, %s", part ? part : "", braid_status_text(status), braid_error_detail());
}

/* Rows that do not fit half of the memory are cut by columns: their sums, 6 bytes of each row, have to stay between
 * pieces, and rows have to be whole lines. */
static void test_room(void **state) {
  tables t;
  (void)state;
  make_tables(&t, 64);
  t.rnn.core.weights = 64; /* a group of rows has 8 * 128 * 2 bytes, 128 lines */
  t.rnn.core.sums = 48;
  expect_laid_out(&t, BRAID_OK, NULL);
  t.rnn.core.sums = 47;
  expect_laid_out(&t, BRAID_UNSUPPORTED, "47 bytes for sums are too few for 8 rows");
  t.rnn.core.sums = 1 << 12;
  t.rnn.core.rows = 1, t.rnn.core.columns = 3; /* 129 columns of one row */
  expect_laid_out(&t, BRAID_UNSUPPORTED, "rows of 258 bytes cannot be cut");
  t.rnn.core.columns = 4;
  expect_laid_out(&t, BRAID_OK, NULL);
  make_tables(&t, 128);
  t.rnn.core.rows = 1024, t.rnn.core.columns = 128; /* a step of columns has 16,384 lines, a row of LOAD 4,096 */
  t.rnn.core.sums = 6 * 1024;
  t.rnn.core.weights = 2 * 16384;
  expect_laid_out(&t, BRAID_UNSUPPORTED, "rows of 524288 bytes cannot be cut");
  make_tables(&t, 4096);
  t.rnn.core.rows = 1024, t.rnn.core.columns = 8; /* 2^20 lines from row to row, which its field does not say */
  t.rnn.core.sums = 6 * 1024;
  t.rnn.core.vectors = 1 << 13;
  expect_laid_out(&t, BRAID_UNSUPPORTED, "rows of 16777216 bytes cannot be cut");
}

/* By hand: lines of 128 bits at a port, or a part of a bank, of so many. */
static void test_line_time(void **state) {
  (void)state;
  const struct {
    int bank_bits;
    double efficiency;
    int32_t parts;
  } cases[] = {{512, 1, 1024}, {4096, 1, 1024}, {256, 1, 2048}, {512, 0.5, 2048}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_overlay_design design = make_design();
    design.bank_bits = cases[i].bank_bits;
    design.efficiency = cases[i].efficiency;
    braid_package *package = make_package(&design, 8, 8, 1);
    assert_int_equal(package->rnn->core.line_parts, cases[i].parts);
    assert_int_equal(package->rnn->core.piece_cycles, 15 * 200);
    braid_package_destroy(package);
  }
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
/* What stands in a core's program. */
typedef struct counts {
  size_t sums, steps, step_tiles, tiles;
  int64_t most_lines; /* of weights, loaded between two places to stop at */
} counts;

static counts count_program(const braid_program *program) {
  counts n = {0};
  int64_t lines = 0;
  bool begun = false; /* the first meeting is before the first step */
  for (size_t at = 0; at < program->bytes;) {
    braid_instruction in;
    ok(braid_isa_decode(program->code, program->bytes, at, &in, &at));
    n.sums += in.opcode == BRAID_ISA_OP_MVM;
    if (in.opcode == BRAID_ISA_OP_LOAD && in.load.memory == BRAID_ISA_WEIGHTS)
      lines += (int64_t)in.load.planes * in.load.rows * in.load.lines;
    if (lines > n.most_lines) n.most_lines = lines;
    if (in.opcode != BRAID_ISA_OP_SYSTEM) continue;
    if (in.system.sync) {
      n.steps += begun;
      n.step_tiles += begun && in.system.tile;
      begun = true;
    }
    n.tiles += braid_isa_is_tile(&in);
    if (in.system.tile) lines = 0;
  }
  return n;
}

/* A matrix of 1 MB in a memory of 256 KB comes anew in each step. Half of the memory would be 8,192 lines, or cycles:
 * pieces take 15 microseconds, 3,000 cycles, and a core stands between any two of them. */
static void test_streamed(void **state) {
  (void)state;
  enum { kSteps = 5 };
  braid_overlay_design design = make_design();
  braid_package *package = make_package(&design, 256, 256, kSteps);
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  ok(braid_rnn_make(package->rnn, 1, 0, kSteps, &programs));
  counts n = count_program(&programs.core[0]);
  assert_int_equal(n.steps, kSteps);
  assert_int_equal(n.step_tiles, kSteps);
  assert_int_equal(n.tiles, n.sums - kSteps); /* rows are whole: one between two pieces of a step */
  assert_true(n.most_lines > 1500 && n.most_lines <= 3000);
  braid_programs_deinit(&programs);
  braid_package_destroy(package);
}

/* Eight states of each of 16 cores, whose sums take 40 cycles: an instruction for each gate would keep the decoder busy
 * for longer, so that all four are one but in the first step, in which weights come. Such steps are no places. */
static void test_joined(void **state) {
  (void)state;
  enum { kSteps = 6 };
  braid_overlay_design design = make_design();
  braid_package *package = make_package(&design, 32, 128, kSteps);
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  programs.stop = 1000; /* as programs of tiles that stood there left it */
  ok(braid_rnn_make(package->rnn, 16, 0, kSteps, &programs));
  assert_true(programs.stop == 0);
  for (int c = 0; c < 16; c++) {
    counts n = count_program(&programs.core[c]);
    assert_int_equal(n.sums, 4 + kSteps - 1);
    assert_int_equal(n.steps, kSteps);
    assert_int_equal(n.step_tiles + n.tiles, 0);
  }
  braid_programs_deinit(&programs);
  braid_package_destroy(package);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_room),
      cmocka_unit_test(test_line_time),
      cmocka_unit_test(test_streamed),
      cmocka_unit_test(test_joined),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
