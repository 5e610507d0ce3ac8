/* Orders, tokens, synchronization, tiles, races. */
#include "overlay/sim/functional_fixture.h"

#include "oom.h"

enum { kSeeds = 40 };

/* --- a pipeline of three modules ------------------------------------------------------------------------------------
 */
enum { kTiles = 6, kTileLines = 8, kRoom = kTiles * kTileLines, kOutputs = 2 * kTileLines };

/* The token that one tile's module gives another may be left out, where it is given and where it is taken. */
typedef struct gap {
  int from, to, tile; /* which gives it */
} gap;

static bool is_gap(const gap *out, int from, int to, int tile) {
  return out && out->from == from && out->to == to && out->tile == tile;
}

/* LOAD, MISC and SAVE of tile after tile over two buffers each: the result is the input, doubled. Returns how many
 * tokens there are, and which is which. */
static int pipeline(code *program, const gap *out, gap *tokens_of) {
  static const int kPairs[][3] = {{BRAID_ISA_IN, BRAID_ISA_SIDE, 0},
                                  {BRAID_ISA_SIDE, BRAID_ISA_OUT, 0},
                                  {BRAID_ISA_SIDE, BRAID_ISA_IN, 2},
                                  {BRAID_ISA_OUT, BRAID_ISA_SIDE, 2}};
  int count = 0;
  for (int t = 0; t < kTiles; t++) {
    int32_t wait[4] = {0}, signal[4] = {0}, buffer = t % 2 * kTileLines;
    for (int p = 0; p < 4; p++) {
      int from = kPairs[p][0], to = kPairs[p][1], later = kPairs[p][2];
      if (t >= later && !is_gap(out, from, to, t - later)) wait[to] |= 1 << from;
      if (t + later >= kTiles) continue;
      if (!is_gap(out, from, to, t)) signal[from] |= 1 << to;
      if (tokens_of) tokens_of[count] = (gap){from, to, t};
      count++;
    }
    braid_instruction in = braid_isa_blank(BRAID_ISA_OP_MISC);
    in.misc.function = BRAID_ISA_COPY;
    in.misc.input = buffer;
    in.misc.output = kOutputs + buffer;
    in.misc.input_rows = 1;
    in.misc.input_columns = in.misc.output_columns = kTileLines;
    in.misc.left = 1;
    in.misc.low = -128;
    in.misc.high = 127;
    add(program, tokens(load(BRAID_ISA_FEATURES, 0, t * kTileLines, buffer, kTileLines), wait[BRAID_ISA_IN],
                        signal[BRAID_ISA_IN]));
    add(program, tokens(in, wait[BRAID_ISA_SIDE], signal[BRAID_ISA_SIDE]));
    add(program, tokens(save(BRAID_ISA_FEATURES, 1, t * kTileLines, kOutputs + buffer, kTileLines), wait[BRAID_ISA_OUT],
                        signal[BRAID_ISA_OUT]));
  }
  add(program, end());
  return count;
}

static world pipeline_world(void) {
  world on = make_world((const int[]){kRoom, kRoom}, 2);
  int8_t *in = segment_of(&on, 0);
  for (int i = 0; i < kRoom * kLine; i++) in[i] = (int8_t)between(-60, 60);
  return on;
}

static bool doubled(const world *on) {
  const int8_t *in = segment_of(on, 0), *out = segment_of(on, 1);
  for (int i = 0; i < kRoom * kLine; i++)
    if (out[i] != 2 * in[i]) return false;
  return true;
}

static void test_orders(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  pipeline(&program, NULL, NULL);
  for (design.queue_depth = 1; design.queue_depth < 20; design.queue_depth += 6)
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = pipeline_world();
      braid_functional_counts counts;
      run_well(&design, &program, &on, seed, &counts);
      assert_true(doubled(&on));
      check_guards(&on, 2);
      assert_int_equal(counts.instructions[BRAID_ISA_OP_LOAD], kTiles);
      assert_int_equal(counts.instructions[BRAID_ISA_OP_MISC], kTiles);
      assert_int_equal(counts.instructions[BRAID_ISA_OP_SYSTEM], 1);
      assert_int_equal(counts.loaded_bytes, kRoom * kLine);
      assert_int_equal(counts.saved_bytes, kRoom * kLine);
      assert_int_equal(counts.side_operations, kRoom * kLine);
      free(on.start);
    }
  drop(&program);
}

/* Without any one of its tokens the pipeline is a race in every order, and other bits in some. */
static void test_missing_tokens(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  gap all[8 * kTiles];
  code whole = {0};
  int count = pipeline(&whole, NULL, all);
  drop(&whole);
  assert_int_equal(count, 4 * kTiles - 4);
  for (int g = 0; g < count; g++) {
    code program = {0};
    int wrong = 0;
    pipeline(&program, &all[g], NULL);
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = pipeline_world();
      braid_functional_options options = {.seed = seed, .races = true};
      assert_int_equal(run_one(&design, &program, &on, &options, NULL), BRAID_INVALID_FILE);
      assert_non_null(strstr(braid_error_detail(), "nothing orders the two"));
      options.races = false;
      assert_int_equal(run_one(&design, &program, &on, &options, NULL), BRAID_OK);
      wrong += !doubled(&on);
      free(on.start);
    }
    if (!wrong) fail_msg("no order shows that token %d of %d is missing", g, count);
    drop(&program);
  }
}

static void test_race_text(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  world on = make_world((const int[]){4, 4}, 2);
  add(&program, load(BRAID_ISA_FEATURES, 0, 0, 2, 2));
  add(&program, save(BRAID_ISA_FEATURES, 1, 0, 0, 3));
  add(&program, end());
  braid_functional_options options = {.races = true};
  assert_int_equal(run_one(&design, &program, &on, &options, NULL), BRAID_INVALID_FILE);
  assert_string_equal(braid_error_detail(), "core 0, byte 32, SAVE: reads line 2 of the feature memory, which LOAD at "
                                            "byte 0 of core 0 writes: nothing orders the two");
  drop(&program);
  free(on.start);
}

/* --- several cores --------------------------------------------------------------------------------------------------
 */
enum { kCores = 5 };

/* Each core saves its line, all synchronize, each takes that of the next one. */
static void ring(code programs[kCores], bool synchronize, bool vectors) {
  int memory = vectors ? BRAID_ISA_VECTORS : BRAID_ISA_FEATURES;
  for (int c = 0; c < kCores; c++) {
    int next = (c + 1) % kCores, own = vectors ? c : 0;
    braid_instruction sync = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
    sync.system.sync = synchronize;
    add(&programs[c], on_core(tokens(load(memory, 0, c, own, 1), 0, ON_SAVE), c));
    add(&programs[c], on_core(tokens(save(memory, 1, c, own, 1), ON_LOAD, 0), c));
    add(&programs[c], on_core(sync, c));
    if (!vectors) add(&programs[c], on_core(tokens(load(memory, 1, next, 1, 1), 0, ON_SAVE), c));
    add(&programs[c], on_core(tokens(save(memory, 2, c, vectors ? next : 1, 1), vectors ? 0 : ON_LOAD, 0), c));
    add(&programs[c], on_core(end(), c));
  }
}

static void test_cores(void **state) {
  (void)state;
  for (int variant = 0; variant < 4; variant++) {
    bool synchronize = variant % 2, vectors = variant / 2;
    braid_overlay_design design = vectors ? recurrent_design() : convolutional_design();
    code programs[kCores] = {{0}};
    braid_overlay_code texts[kCores];
    int wrong = 0;
    ring(programs, synchronize, vectors);
    for (int c = 0; c < kCores; c++) texts[c] = (braid_overlay_code){programs[c].bytes, programs[c].count};
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = make_world((const int[]){kCores, kCores, kCores}, 3);
      uint8_t *in = segment_of(&on, 0), *out = segment_of(&on, 2);
      braid_functional_options options = {.seed = seed, .races = true};
      braid_functional_counts counts;
      fill_random(in, kCores * kLine);
      braid_status status = braid_functional_once(&design, kCores, texts, &on.image, &options, NULL, &counts);
      if (synchronize) {
        if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
        assert_int_equal(counts.synchronizations, 1);
      } else {
        assert_int_equal(status, BRAID_INVALID_FILE);
        assert_non_null(strstr(braid_error_detail(), "nothing orders the two"));
        options.races = false;
        status = braid_functional_once(&design, kCores, texts, &on.image, &options, NULL, &counts);
        assert_int_equal(status, BRAID_OK);
      }
      bool right =
          memcmp(out, in + kLine, (kCores - 1) * kLine) == 0 && memcmp(out + (kCores - 1) * kLine, in, kLine) == 0;
      if (synchronize) assert_true(right);
      wrong += !right;
      free(on.start);
    }
    assert_true(synchronize || wrong);
    for (int c = 0; c < kCores; c++) drop(&programs[c]);
  }
}

/* Two cores read a line that one of them, or a third, then writes: whoever reads first. */
static void test_readers(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  for (int writer = 0; writer < 3; writer++)
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      code programs[3] = {{0}};
      braid_overlay_code texts[3];
      for (int c = 0; c < 3; c++) {
        add(&programs[c], on_core(tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, ON_SAVE), c));
        if (c == writer)
          add(&programs[c], on_core(tokens(save(BRAID_ISA_FEATURES, 0, 0, 0, 1), ON_LOAD, 0), c));
        else
          add(&programs[c], on_core(tokens(save(BRAID_ISA_FEATURES, 1, c, 0, 1), ON_LOAD, 0), c));
        add(&programs[c], on_core(end(), c));
        texts[c] = (braid_overlay_code){programs[c].bytes, programs[c].count};
      }
      world on = make_world((const int[]){1, 3}, 2);
      braid_functional_options options = {.seed = seed, .races = true};
      assert_int_equal(braid_functional_once(&design, 3, texts, &on.image, &options, NULL, NULL), BRAID_INVALID_FILE);
      assert_non_null(strstr(braid_error_detail(), "of DDR"));
      for (int c = 0; c < 3; c++) drop(&programs[c]);
      free(on.start);
    }
}

/* Core 0 reads a line; behind a sync core 1 reads it, and then it or core 2 writes it. */
static void test_later_readers(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  for (int writer = 1; writer < 3; writer++) {
    code programs[3] = {{0}};
    braid_overlay_code texts[3];
    for (int c = 0; c < 3; c++) {
      braid_instruction sync = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
      sync.system.sync = 1;
      for (int i = 0; c == 0 && i < 20; i++) add(&programs[c], load(BRAID_ISA_FEATURES, 0, 0, 0, 1));
      add(&programs[c], on_core(sync, c));
      if (c == 1) add(&programs[c], on_core(tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, ON_SAVE), c));
      if (c == 1) add(&programs[c], on_core(tokens(save(BRAID_ISA_FEATURES, 1, 1, 0, 1), ON_LOAD, 0), c));
      if (c == writer) add(&programs[c], on_core(save(BRAID_ISA_FEATURES, 0, 0, 0, 1), c));
      add(&programs[c], on_core(end(), c));
      texts[c] = (braid_overlay_code){programs[c].bytes, programs[c].count};
    }
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = make_world((const int[]){1, 3}, 2);
      braid_functional_options options = {.seed = seed, .races = true};
      braid_status status = braid_functional_once(&design, 3, texts, &on.image, &options, NULL, NULL);
      assert_int_equal(status, writer == 1 ? BRAID_OK : BRAID_INVALID_FILE);
      if (writer == 2) assert_non_null(strstr(braid_error_detail(), "of DDR"));
      free(on.start);
    }
    for (int c = 0; c < 3; c++) drop(&programs[c]);
  }
}

/* --- tiles ----------------------------------------------------------------------------------------------------------
 */
/* SYSTEM orders what is before it and behind it: no token is needed. */
static void test_system_orders(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  world on = make_world((const int[]){1, 1}, 2);
  add(&program, load(BRAID_ISA_FEATURES, 0, 0, 0, 1));
  add(&program, braid_isa_blank(BRAID_ISA_OP_SYSTEM));
  add(&program, save(BRAID_ISA_FEATURES, 1, 0, 0, 1));
  add(&program, end());
  for (uint64_t seed = 0; seed < kSeeds; seed++) {
    fill_random(segment_of(&on, 0), kLine);
    run_well(&design, &program, &on, seed, NULL);
    assert_memory_equal(segment_of(&on, 0), segment_of(&on, 1), kLine);
  }
  drop(&program);
  free(on.start);
}

/* What lies on the chip is lost at a tile, in the orders that stop there; detection finds it in all. */
static void test_tiles(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  for (int variant = 0; variant < 4; variant++) {
    code program = {0};
    bool again = variant % 2, synchronize = variant / 2;
    braid_instruction place = tile();
    place.system.sync = synchronize;
    int wrong = 0;
    add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, again || synchronize ? 0 : ON_SAVE));
    add(&program, place);
    if (again) add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, ON_SAVE));
    add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 0, 1), again || !synchronize ? ON_LOAD : 0, 0));
    add(&program, end());
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = make_world((const int[]){1, 1}, 2);
      braid_functional_options options = {.seed = seed, .races = true};
      memset(segment_of(&on, 0), 7, kLine);
      braid_status status = run_one(&design, &program, &on, &options, NULL);
      assert_int_equal(status, again ? BRAID_OK : BRAID_INVALID_FILE);
      if (!again) assert_non_null(strstr(braid_error_detail(), "LOAD at byte 0 wrote before a `tile`"));
      options.races = false;
      assert_int_equal(run_one(&design, &program, &on, &options, NULL), BRAID_OK);
      bool right = memcmp(segment_of(&on, 0), segment_of(&on, 1), kLine) == 0;
      assert_true(right || (!again && seed));
      wrong += !right;
      free(on.start);
    }
    assert_true(again ? wrong == 0 : synchronize ? wrong == kSeeds - 1 : wrong > 0 && wrong < kSeeds - 1);
    drop(&program);
  }
}

/* A tile that repeats a LOAD, and what spoils that: a name that is none, another LOAD over it, a SAVE to its source. */
static void test_repeats(void **state) {
  (void)state;
  static const char *const kWrong[] = {NULL, "repeats what is no LOAD", "that a `tile` behind it repeats",
                                       "that a `tile` behind it repeats", "repeats what is no LOAD"};
  braid_overlay_design design = convolutional_design();
  for (int variant = 0; variant < 5; variant++) {
    code program = {0};
    braid_instruction place = tile();
    place.system.repeat_b = variant == 1 ? 1 : variant == 2 ? 4 : 2;
    if (variant == 3) place.system.repeat_b = 4;
    if (variant == 4) place.system.repeat_b = 3;
    add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), 0, variant == 2 ? 0 : ON_SAVE));
    if (variant == 2) add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 1, 0, 1), 0, ON_SAVE));
    if (variant == 3) add(&program, tokens(save(BRAID_ISA_FEATURES, 0, 0, 0, 1), ON_LOAD, 0));
    if (variant == 4) add(&program, braid_isa_blank(BRAID_ISA_OP_SYSTEM)); /* of which it stands before */
    add(&program, place);
    add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 0, 1), variant == 3 ? 0 : ON_LOAD, 0));
    add(&program, end());
    for (uint64_t seed = 0; seed < kSeeds; seed++) {
      world on = make_world((const int[]){2, 1}, 2);
      braid_functional_options options = {.seed = seed, .races = true};
      memset(segment_of(&on, 0), 7, kLine);
      braid_status status = run_one(&design, &program, &on, &options, NULL);
      assert_int_equal(status, kWrong[variant] ? BRAID_INVALID_FILE : BRAID_OK);
      if (kWrong[variant] && !strstr(braid_error_detail(), kWrong[variant])) fail_msg("%s", braid_error_detail());
      if (!variant) assert_memory_equal(segment_of(&on, 0), segment_of(&on, 1), kLine);
      free(on.start);
    }
    drop(&program);
  }
}

/* A core that goes back to a tile does again what is behind it, until something is saved there. */
static void test_back(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  int again = 0;
  braid_instruction place = tile();
  place.system.repeat_a = 2;
  place.system.back = 1;
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 16), 0, ON_COMPUTE));
  add(&program, place);
  add(&program, tokens(small_conv(), ON_LOAD, 0));
  add(&program, tokens(small_conv(), 0, ON_SAVE));
  add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 100, 8), ON_COMPUTE, 0));
  add(&program, end());
  for (uint64_t seed = 0; seed < kSeeds; seed++) {
    world on = make_world((const int[]){16, 8}, 2), plain = make_world((const int[]){16, 8}, 2);
    braid_functional_options options = {.seed = seed};
    braid_functional_counts counts;
    fill_random(segment_of(&on, 0), 16 * kLine);
    memcpy(segment_of(&plain, 0), segment_of(&on, 0), 16 * kLine);
    assert_int_equal(run_one(&design, &program, &on, &options, &counts), BRAID_OK);
    assert_int_equal(run_one(&design, &program, &plain, NULL, NULL), BRAID_OK);
    assert_memory_equal(segment_of(&on, 1), segment_of(&plain, 1), 8 * kLine);
    again += counts.instructions[BRAID_ISA_OP_CONV] > 2;
    assert_int_equal(counts.instructions[BRAID_ISA_OP_SAVE], 1);
    free(on.start);
    free(plain.start);
  }
  assert_true(again > 0 && again < kSeeds - 1);
  drop(&program);
}

/* --- state ----------------------------------------------------------------------------------------------------------
 */
/* A second run finds nothing of the first. */
static void test_nothing_left(void **state) {
  (void)state;
  braid_overlay_design design = recurrent_design();
  code program = {0};
  world on = make_world((const int[]){4, 4}, 2);
  braid_functional *simulator;
  add(&program, tokens(save(BRAID_ISA_VECTORS, 1, 0, 0, 4), 0, ON_LOAD));
  add(&program, tokens(load(BRAID_ISA_VECTORS, 0, 0, 0, 4), ON_SAVE, 0));
  add(&program, end());
  braid_overlay_code text = {program.bytes, program.count};
  fill_random(segment_of(&on, 0), 4 * kLine);
  assert_int_equal(braid_functional_create(&design, 1, &text, NULL, &simulator), BRAID_OK);
  for (int run = 0; run < 3; run++) {
    uint8_t zero[4 * kLine] = {0};
    memset(segment_of(&on, 1), 1, 4 * kLine);
    assert_int_equal(braid_functional_run(simulator, &on.image, NULL, NULL), BRAID_OK);
    assert_memory_equal(segment_of(&on, 1), zero, 4 * kLine);
  }
  braid_functional_destroy(simulator);
  drop(&program);
  free(on.start);
}

/* A run that goes on finds what the last one left on the chip; the next that does not finds 0 again. */
static void test_goes_on(void **state) {
  (void)state;
  braid_overlay_design design = convolutional_design();
  code program = {0};
  world on = make_world((const int[]){1, 1}, 2);
  braid_functional *simulator;
  add(&program, tokens(save(BRAID_ISA_FEATURES, 1, 0, 0, 1), 0, ON_LOAD));
  add(&program, tokens(load(BRAID_ISA_FEATURES, 0, 0, 0, 1), ON_SAVE, 0));
  add(&program, end());
  braid_overlay_code text = {program.bytes, program.count};
  fill_random(segment_of(&on, 0), kLine);
  assert_int_equal(braid_functional_create(&design, 1, &text, NULL, &simulator), BRAID_OK);
  for (int run = 0; run < 6; run++) {
    static const uint8_t kZero[kLine];
    bool goes_on = run % 3 == 1;
    const braid_functional_options options = {.goes_on = goes_on};
    assert_int_equal(braid_functional_run(simulator, &on.image, &options, NULL), BRAID_OK);
    assert_memory_equal(segment_of(&on, 1), goes_on ? segment_of(&on, 0) : kZero, kLine);
  }
  braid_functional_destroy(simulator);
  drop(&program);
  free(on.start);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_overlay_design convolutional = convolutional_design(), recurrent = recurrent_design();
  const code *programs = context;
  world on = make_world((const int[]){64, 64}, 2);
  braid_functional_options options = {.races = true};
  braid_overlay_code text = {programs[0].bytes, programs[0].count}, other = {programs[1].bytes, programs[1].count};
  braid_status status = braid_functional_once(&convolutional, 1, &text, &on.image, &options, allocator, NULL);
  if (status == BRAID_OK) status = braid_functional_once(&recurrent, 1, &other, &on.image, &options, allocator, NULL);
  free(on.start);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  code programs[2] = {{0}};
  braid_instruction in = small_conv(), mvm = braid_isa_blank(BRAID_ISA_OP_MVM);
  in.conv.output = 60; /* between the input's planes */
  in.conv.channels_in = 17;
  in.conv.input_plane = 80;
  mvm.mvm.start = mvm.mvm.finish = 1;
  mvm.mvm.output = 1;
  add(&programs[0], in);
  add(&programs[0], end());
  add(&programs[1], mvm);
  add(&programs[1], end());
  assert_true(oom_sweep(attempt, programs) > 20);
  for (int c = 0; c < 2; c++) drop(&programs[c]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),        cmocka_unit_test(test_missing_tokens), cmocka_unit_test(test_race_text),
      cmocka_unit_test(test_cores),         cmocka_unit_test(test_readers),        cmocka_unit_test(test_later_readers),
      cmocka_unit_test(test_system_orders), cmocka_unit_test(test_tiles),          cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_back),          cmocka_unit_test(test_nothing_left),   cmocka_unit_test(test_goes_on),
      cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
