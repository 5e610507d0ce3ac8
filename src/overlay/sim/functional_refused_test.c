/* Every way in which a program may be wrong: a sentence with core, byte and instruction. */
#include "overlay/sim/functional_fixture.h"

enum { kSeeds = 40 };

static void expect(const braid_overlay_design *design, code *program, braid_status status, const char *detail) {
  world on = make_world((const int[]){64, 64, 0, 16}, 4);
  on.image.segments[3].read_only = true;
  for (uint64_t seed = 0; seed < 4; seed++) {
    braid_functional_options options = {.seed = seed, .most_instructions = 2000, .most_work = 1 << 20};
    assert_int_equal(run_one(design, program, &on, &options, NULL), status);
    if (!strstr(braid_error_detail(), detail)) fail_msg("%s\nexpected: %s", braid_error_detail(), detail);
  }
  check_guards(&on, 4);
  drop(program);
  free(on.start);
}

/* One instruction and the end. */
static void expect_one(const braid_overlay_design *design, braid_instruction in, braid_status status,
                       const char *detail) {
  code program = {0};
  add(&program, in);
  add(&program, end());
  expect(design, &program, status, detail);
}

static void test_conv_refused(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  braid_instruction in = small_conv();
  in.conv.output_rows = 5;
  expect_one(&design, in, BRAID_INVALID_FILE, "core 0: byte 0: CONV: output_rows is 5; 1 to 4, PP of the design,");
  in = small_conv();
  in.conv.low = 5;
  in.conv.high = 4;
  expect_one(&design, in, BRAID_INVALID_FILE, "low is 5, above high, which is 4");
  in = small_conv();
  in.conv.depthwise = 1;
  in.conv.channels_in = 3;
  expect_one(&design, in, BRAID_INVALID_FILE, "depthwise, with 3 channels in and 1 out");
  in = small_conv();
  in.conv.input = 2041;
  expect_one(&design, in, BRAID_INVALID_FILE, "reads line 2048 of the feature memory; it has 2048");
  in.conv.input = 2040; /* its last tap lies on the last line */
  expect_one(&design, in, BRAID_OK, "");
  in = small_conv();
  in.conv.output = 2041;
  expect_one(&design, in, BRAID_INVALID_FILE, "writes line 2048 of the feature memory; it has 2048");
  in = small_conv();
  in.conv.weights = 2045; /* a group of 8 by 8 takes four lines */
  expect_one(&design, in, BRAID_INVALID_FILE, "reads line 2048 of the weight memory; it has 2048");
  in = small_conv();
  in.conv.biases = 64;
  expect_one(&design, in, BRAID_INVALID_FILE, "reads line 64 of the bias memory; it has 64");
  in = small_conv();
  in.conv.output = 7;
  expect_one(&design, in, BRAID_INVALID_FILE, "writes lines of the feature memory that it reads");
  in = small_conv();
  in.conv.residual = 1;
  in.conv.addend = 101;
  expect_one(&design, in, BRAID_INVALID_FILE, "writes lines of the feature memory that it reads");
  in.conv.addend = 100;
  expect_one(&design, in, BRAID_OK, "");
  in = small_conv();
  in.conv.output_pitch = 3;
  expect_one(&design, in, BRAID_INVALID_FILE, "its planes or rows overlap in the feature memory, where it writes");
  in = small_conv();
  in.conv.channels_out = 17;
  in.conv.output_plane = 7;
  expect_one(&design, in, BRAID_INVALID_FILE, "its planes or rows overlap");
  in.conv.output_plane = 4;
  in.conv.output_pitch = 8; /* planes between rows */
  expect_one(&design, in, BRAID_OK, "");
}

static void test_sums_refused(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  braid_instruction first = small_conv(), second = small_conv();
  code program = {0};
  second.conv.start = 0;
  expect_one(&design, second, BRAID_INVALID_FILE, "CONV: does not start, and no sums are left to go on from");
  first.conv.finish = 0;
  expect_one(&design, first, BRAID_INVALID_FILE, "byte 48: SYSTEM: the sums that byte 0 left are not finished");
  add(&program, first);
  expect_one(&design, small_conv(), BRAID_OK, "");
  add(&program, small_conv());
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE,
         "byte 48: CONV: starts, but the sums that byte 0 left are not finished");
  add(&program, first);
  add(&program, tile());
  expect(&design, &program, BRAID_INVALID_FILE, "byte 48: SYSTEM: the sums that byte 0 left are not finished");
  add(&program, first);
  second.conv.output_columns = 3;
  add(&program, second);
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE,
         "goes on from sums of 2 rows, 4 columns and 1 channels that byte 0 left; it has 2, 3 and 1");
  design.sum_bytes = 2 * 4 * 8 * 4 - 1; /* a group of 8 channels, 4 bytes each */
  add(&program, first);
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE, "leaves 256 bytes of sums; the memory for them has 255");
  braid_overlay_design recurrent = recurrent_design();
  braid_instruction mvm = braid_isa_blank(BRAID_ISA_OP_MVM);
  recurrent.sum_bytes = 4 * 6 - 1;
  mvm.mvm.start = 1;
  mvm.mvm.rows = 3; /* of groups of 2, 6 bytes each */
  expect_one(&recurrent, mvm, BRAID_INVALID_FILE, "MVM: leaves 24 bytes of sums; the memory for them has 23");
}

static void test_refused(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design(), recurrent = recurrent_design();
  braid_instruction in = small_conv();
  code program = {0};
  expect_one(&recurrent, small_conv(), BRAID_INVALID_FILE, "cores of this design are for recurrent networks");
  expect_one(&design, braid_isa_blank(BRAID_ISA_OP_ELE), BRAID_INVALID_FILE, "are for convolutional networks");
  expect_one(&design, load(BRAID_ISA_VECTORS, 0, 0, 0, 1), BRAID_INVALID_FILE, "has no vector memory");
  expect_one(&recurrent, load(BRAID_ISA_FEATURES, 0, 0, 0, 1), BRAID_INVALID_FILE, "has no feature memory");
  expect_one(&design, on_core(in, 3), BRAID_INVALID_FILE, "is for core 3, in the program of core 0");
  expect_one(&design, tokens(in, ON_COMPUTE, 0), BRAID_INVALID_FILE, "waits for tokens of compute, its own module");
  expect_one(&design, tokens(in, 0, ON_COMPUTE), BRAID_INVALID_FILE, "gives tokens of compute, its own module");
  expect_one(&design, tokens(tile(), ON_LOAD, 0), BRAID_INVALID_FILE, "SYSTEM: wait and signal must be 0");
  in = load(BRAID_ISA_FEATURES, 0, 0, 0, 4);
  in.load.rows = 3;
  in.load.ddr_row = 0; /* the same lines again and again */
  in.load.chip_row = 4;
  expect_one(&design, in, BRAID_OK, "");
  in.load.chip_row = 3;
  expect_one(&design, in, BRAID_INVALID_FILE, "overlap in the feature memory, where it writes");
  in = save(BRAID_ISA_FEATURES, 0, 0, 0, 4);
  in.save.planes = 2;
  in.save.ddr_plane = 3;
  expect_one(&design, in, BRAID_INVALID_FILE, "overlap in the DDR memory, where it writes");
  in = braid_isa_blank(BRAID_ISA_OP_MISC);
  in.misc.function = BRAID_ISA_COPY;
  in.misc.groups = 2;
  in.misc.input_rows = in.misc.input_columns = in.misc.output_columns = 1;
  in.misc.input_plane = 4;
  in.misc.output_plane = 4;
  expect_one(&design, in, BRAID_OK, "");
  in.misc.output_plane = 8; /* one plane is where it was, the other one is not */
  expect_one(&design, in, BRAID_INVALID_FILE, "MISC: writes lines of the feature memory that it reads");
  in = braid_isa_blank(BRAID_ISA_OP_MVM);
  in.mvm.columns = 20;
  in.mvm.start = in.mvm.finish = 1;
  expect_one(&recurrent, in, BRAID_INVALID_FILE, "MVM: writes lines of the vector memory that it reads");
  in.mvm.output = 2;
  expect_one(&recurrent, in, BRAID_INVALID_FILE, "MVM: writes lines of the vector memory that it reads");
  in.mvm.output = 3;
  expect_one(&recurrent, in, BRAID_OK, "");
  add(&program, small_conv());
  expect(&design, &program, BRAID_INVALID_FILE, "core 0: byte 48: the program stops without an end");
  add(&program, end());
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE, "byte 16: something follows the end at byte 0");
  add(&program, small_conv());
  program.count -= 5;
  expect(&design, &program, BRAID_INVALID_FILE, "byte 0: CONV has 48 bytes, 43 are left");
}

static void test_run_refused(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  braid_instruction in = load(BRAID_ISA_FEATURES, 0, 60, 0, 5);
  expect_one(&design, in, BRAID_OUT_OF_RANGE, "core 0, byte 0, LOAD: reads line 64 of segment 0, which has 64");
  expect_one(&design, load(BRAID_ISA_FEATURES, 2, 0, 0, 1), BRAID_OUT_OF_RANGE, "line 0 of segment 2, which has 0");
  expect_one(&design, load(BRAID_ISA_FEATURES, 7, (1 << 28) - 1, 0, 1), BRAID_OUT_OF_RANGE, "segment 7, which has 0");
  expect_one(&design, save(BRAID_ISA_FEATURES, 1, 64, 0, 1), BRAID_OUT_OF_RANGE, "writes line 64 of segment 1");
  expect_one(&design, save(BRAID_ISA_FEATURES, 3, 0, 0, 1), BRAID_OUT_OF_RANGE, "segment 3, which may only be read");
  expect_one(&design, tokens(small_conv(), 0, ON_SAVE), BRAID_INVALID_FILE,
             "core 0, byte 48, SYSTEM: 1 tokens of compute for save are left");
  expect_one(&design, tokens(small_conv(), ON_LOAD, 0), BRAID_INVALID_FILE,
             "core 0, byte 0, CONV: waits for a token of load that never comes");
  for (int i = 0; i < 256; i++) add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, ON_SIDE));
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE, "core 0, byte 8160, LOAD: gives side a token more than 255");
  for (int i = 0; i < 9; i++) add(&program, tokens(small_conv(), ON_LOAD, 0));
  for (int i = 0; i < 9; i++) add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 200, 1), 0, ON_COMPUTE));
  add(&program, end());
  expect(&design, &program, BRAID_INVALID_FILE,
         "core 0, byte 0, CONV: waits for a token of load that never comes; the queue of compute is full, which holds "
         "up byte 384");
  for (int i = 0; i < 2001; i++) add(&program, load(BRAID_ISA_FEATURES, 0, 0, 0, 1));
  add(&program, end());
  expect(&design, &program, BRAID_TIMEOUT, "core 0, byte 64000, LOAD: is beyond the limit of 2000 instructions");
  design.pixels = 8;
  for (int i = 0; i < 4; i++) {
    in = small_conv();
    in.conv.output_rows = 8;
    in.conv.output_columns = 100;
    in.conv.output_pitch = 100;
    in.conv.kernel_rows = in.conv.kernel_columns = 20;
    add(&program, in);
  }
  add(&program, end());
  expect(&design, &program, BRAID_TIMEOUT, "byte 144, CONV: is beyond the limit of 1048576 operations and bytes");
}

/* A token that comes from behind a tile: a task that was stopped there would never go on. */
static void test_tile_without_stop(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  world on = make_world((const int[]){4, 4}, 2);
  int stopped = 0;
  add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 0, 1), ON_LOAD, 0));
  add(&program, tile());
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 1, 1), 0, ON_SAVE));
  add(&program, end());
  for (uint64_t seed = 0; seed < kSeeds; seed++) {
    braid_functional_options options = {.seed = seed};
    if (run_one(&design, &program, &on, &options, NULL) == BRAID_OK) continue;
    assert_string_equal(braid_error_detail(), "core 0, byte 0, SAVE: waits for a token of load that nothing before the "
                                              "`tile` at byte 32 gives: no task can stop there");
    stopped++;
  }
  assert_true(stopped > 0 && stopped < kSeeds);
  drop(&program);
  free(on.start);
}

static void test_cores_refused(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  world on = make_world((const int[]){4}, 1);
  code programs[2] = {{0}};
  braid_instruction sync = tile();
  sync.system.sync = 1;
  add(&programs[0], sync);
  add(&programs[0], end());
  add(&programs[1], on_core(end(), 1));
  braid_overlay_code texts[2];
  for (int c = 0; c < 2; c++) texts[c] = (braid_overlay_code){programs[c].bytes, programs[c].count};
  assert_int_equal(braid_functional_once(&design, 2, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_FILE);
  assert_string_equal(braid_error_detail(), "core 0, byte 0, SYSTEM: waits for sync_global, and core 1 has ended");
  assert_int_equal(braid_functional_once(&design, 0, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_functional_once(&design, 65, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT);
  on.image.segments[5] = (braid_overlay_segment){.first = on.image.bytes, .bytes = kLine};
  assert_int_equal(braid_functional_once(&design, 1, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "segment 5 is 16 bytes from byte 96; the image has 96"));
  on.image.segments[5] = (braid_overlay_segment){.first = 8, .bytes = kLine};
  assert_int_equal(braid_functional_once(&design, 1, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT);
  on.image.segments[5] = (braid_overlay_segment){0};
  design.channels_out = 0;
  assert_int_equal(braid_functional_once(&design, 1, texts, &on.image, NULL, NULL, NULL), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "the design's OCP is 0"));
  for (int c = 0; c < 2; c++) drop(&programs[c]);
  free(on.start);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv_refused),      cmocka_unit_test(test_sums_refused),
                                     cmocka_unit_test(test_refused),           cmocka_unit_test(test_run_refused),
                                     cmocka_unit_test(test_tile_without_stop), cmocka_unit_test(test_cores_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
