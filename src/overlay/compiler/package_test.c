/* Packages as files, what is refused, distributions of tiles against all there are, and the code of programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/file.h"
#include "overlay/compiler/compiler_fixture.h"
#include "overlay/compiler/emit.h"

enum { kHashAt = 40, kHeader = 72 };

/* Of convolutions, a pool, a sum and a concatenation, for a design that cuts them into pieces. */
static void begin(drawn_network *n, braid_overlay_design *design) {
  draw_key = 77;
  draw_count = 0;
  drawn_begin(n, 20, 12, 14);
  for (int i = 0; i < 2; i++) draw_convolution(n, (int32_t)n->network.map_count - 1);
  draw_concat(n, 0);
  draw_pool(n, (int32_t)n->network.map_count - 1);
  draw_sum(n, (int32_t)n->network.map_count - 1);
  drawn_end(n);
  *design = draw_design();
  design->cores = 5;
  design->channels_in = design->channels_out = 16;
  design->feature_bytes = 1 << 15;
  design->weight_bytes = 1 << 14;
  design->bias_bytes = 1 << 10;
  design->sum_bytes = 1 << 14;
}

static braid_package *compiled(drawn_network *n, braid_overlay_design *design) {
  braid_package *package;
  begin(n, design);
  braid_status status = braid_package_compile(&n->network, design, NULL, &package);
  if (status != BRAID_OK) print_error("%s\n", braid_error_detail());
  assert_int_equal(status, BRAID_OK);
  return package;
}

static void assert_same_programs(const braid_package *a, const braid_package *b) {
  braid_programs of_a, of_b;
  braid_programs_init(&of_a, NULL);
  braid_programs_init(&of_b, NULL);
  for (int cores = 1; cores <= 7; cores++) {
    assert_int_equal(braid_programs_make(a, cores, 0, &of_a), BRAID_OK);
    assert_int_equal(braid_programs_gather(&of_a), BRAID_OK);
    assert_int_equal(braid_programs_make(b, cores, 0, &of_b), BRAID_OK);
    assert_int_equal(braid_programs_gather(&of_b), BRAID_OK);
    assert_true(of_a.cycles == of_b.cycles && of_a.bound == of_b.bound);
    for (int c = 0; c < cores; c++) {
      assert_int_equal(of_a.core[c].bytes, of_b.core[c].bytes);
      assert_memory_equal(of_a.core[c].code, of_b.core[c].code, of_a.core[c].bytes);
    }
  }
  braid_programs_deinit(&of_a);
  braid_programs_deinit(&of_b);
}

static void test_round_trip(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  braid_package *package = compiled(&n, &design), *again;
  braid_text file, second;
  braid_text_init(&file, NULL);
  braid_text_init(&second, NULL);
  assert_int_equal(braid_package_save(package, &file), BRAID_OK);
  assert_int_equal(braid_package_load((const uint8_t *)file.data, file.length, NULL, &again), BRAID_OK);
  assert_int_equal(braid_package_save(again, &second), BRAID_OK);
  assert_int_equal(file.length, second.length);
  assert_memory_equal(file.data, second.data, file.length);
  assert_string_equal(again->design_name, "drawn");
  assert_int_equal(again->layer_count, package->layer_count);
  assert_string_equal(again->inputs[0].name, "in");
  assert_string_equal(again->outputs[0].name, "out");
  assert_memory_equal(again->constants, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  assert_same_programs(package, again);
  uint8_t fingerprint[BRAID_SHA256_BYTES];
  braid_design_fingerprint(&design, fingerprint);
  assert_memory_equal(again->design, fingerprint, sizeof fingerprint);
  /* what tiles, estimates and bounds of stops are made of */
  braid_overlay_design others[] = {design, design, design, design, design};
  others[0].sum_bytes *= 2;
  others[1].burst_bytes *= 2;
  others[2].outstanding++;
  others[3].cores *= 2, others[3].banks *= 2;
  others[4].latency_cycles++;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    braid_design_fingerprint(&others[i], fingerprint);
    assert_memory_not_equal(again->design, fingerprint, sizeof fingerprint);
  }
  braid_text_deinit(&file);
  braid_text_deinit(&second);
  braid_package_destroy(package);
  braid_package_destroy(again);
  drawn_free(&n);
}

static void test_file(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  braid_package *package = compiled(&n, &design), *again;
  char path[] = "/tmp/braid-package-XXXXXX";
  int handle = mkstemp(path);
  assert_true(handle >= 0);
  close(handle);
  assert_int_equal(braid_package_write(package, path), BRAID_OK);
  assert_int_equal(braid_package_open(path, NULL, &again), BRAID_OK);
  assert_same_programs(package, again);
  braid_package_destroy(again);
  unlink(path);
  assert_int_equal(braid_package_open(path, NULL, &again), BRAID_NOT_FOUND);
  assert_null(again);
  assert_int_equal(braid_package_write(package, "/nowhere/at/all.bpk"), BRAID_IO);
  assert_int_equal(braid_package_open("/proc/self/comm", NULL, &again), BRAID_INVALID_FILE);
  assert_string_equal(braid_error_detail(), "/proc/self/comm: this is no package of the overlay");
  braid_package_destroy(package);
  drawn_free(&n);
}

/* Writes the checksum that the content has. */
static void sign(braid_text *file) {
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256_of(file->data + kHeader, file->length - kHeader, sum);
  memcpy(file->data + kHashAt, sum, sizeof sum);
}

/* A changed bit is refused; with the checksum made right, it is refused or read, and what is read can be used. */
static void test_changed_bits(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  braid_package *package = compiled(&n, &design), *again;
  braid_text file;
  braid_programs programs;
  int refused = 0, read = 0;
  braid_text_init(&file, NULL);
  braid_programs_init(&programs, NULL);
  assert_int_equal(braid_package_save(package, &file), BRAID_OK);
  for (size_t bit = 0; bit < 8 * file.length; bit += bit < 8 * kHeader ? 1 : 1 + (size_t)draw(0, 4000)) {
    file.data[bit / 8] ^= (char)(1 << bit % 8);
    assert_int_equal(braid_package_load((const uint8_t *)file.data, file.length, NULL, &again), BRAID_INVALID_FILE);
    assert_null(again);
    assert_true(braid_error_detail()[0] != 0);
    if (bit == 64) assert_string_equal(braid_error_detail(), "a package of version 5, 4 is read: compile it again");
    if (bit >= 8 * kHeader) {
      sign(&file);
      if (braid_package_load((const uint8_t *)file.data, file.length, NULL, &again) == BRAID_OK) {
        read++;
        assert_int_equal(braid_programs_make(again, 3, 0, &programs), BRAID_OK);
        assert_int_equal(braid_programs_gather(&programs), BRAID_OK);
        braid_package_destroy(again);
      } else {
        refused++;
      }
    }
    file.data[bit / 8] ^= (char)(1 << bit % 8);
    sign(&file);
  }
  assert_true(refused > 0 && read > 0);
  size_t first = kHeader;
  for (int i = 0; i < 8; i++) first += (size_t)(uint8_t)file.data[16 + i] << 8 * i; /* the tables */
  file.data[first] ^= 1 << 4;
  sign(&file);
  assert_int_equal(braid_package_load((const uint8_t *)file.data, file.length, NULL, &again), BRAID_INVALID_FILE);
  assert_string_equal(braid_error_detail(), "tile 0: instruction 0: core is 1; tile 0 of a tiling says 0");
  file.data[first] ^= 1 << 4;
  sign(&file);
  for (size_t length = 0; length < file.length; length += 1 + length / 16)
    assert_int_equal(braid_package_load((const uint8_t *)file.data, length, NULL, &again), BRAID_INVALID_FILE);
  braid_programs_deinit(&programs);
  braid_text_deinit(&file);
  braid_package_destroy(package);
  drawn_free(&n);
}

static void expect_refused(const braid_overlay_network *network, const braid_overlay_design *design,
                           braid_status expected, const char *part) {
  braid_package *package;
  assert_int_equal(braid_package_compile(network, design, NULL, &package), expected);
  assert_null(package);
  if (!strstr(braid_error_detail(), part)) print_error("%s\n", braid_error_detail());
  assert_non_null(strstr(braid_error_detail(), part));
}

static void test_refusals(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  begin(&n, &design);
  braid_overlay_design other = design;
  other.recurrent = true;
  expect_refused(&n.network, &other, BRAID_UNSUPPORTED, "recurrent");
  other = design;
  other.channels_in = other.channels_out = 3;
  expect_refused(&n.network, &other, BRAID_UNSUPPORTED, "whole lines");
  other = design;
  other.feature_bytes = 64;
  expect_refused(&n.network, &other, BRAID_UNSUPPORTED, "layer 0 (conv l): the memory of features");
  other = design;
  other.weight_bytes = 64;
  expect_refused(&n.network, &other, BRAID_UNSUPPORTED, "the memory of weights");
  other = design;
  other.queue_depth = 0;
  expect_refused(&n.network, &other, BRAID_INVALID_ARGUMENT, "drawn");
  n.layers[0].window.kernel_rows = n.layers[0].window.kernel_columns = 1;
  n.layers[0].window.stride_columns = 17; /* instructions say up to 16 */
  expect_refused(&n.network, &design, BRAID_UNSUPPORTED, "stride_columns is 17");
  n.layers[0].window.stride_columns = 1;
  n.layers[1].y_channel = 8;
  expect_refused(&n.network, &design, BRAID_UNSUPPORTED, "multiples of 16");
  drawn_free(&n);
}

/* --- distributions -------------------------------------------------------------------------------------------------
 */
static uint64_t least_longest(const uint64_t *cycles, int count, int cores, uint64_t *load, int at) {
  uint64_t least = UINT64_MAX;
  if (at == count) {
    uint64_t longest = 0;
    for (int c = 0; c < cores; c++) longest = load[c] > longest ? load[c] : longest;
    return longest;
  }
  for (int c = 0; c < cores; c++) {
    load[c] += cycles[at];
    uint64_t longest = least_longest(cycles, count, cores, load, at + 1);
    load[c] -= cycles[at];
    if (longest < least) least = longest;
  }
  return least;
}

static uint64_t longest_core(const uint64_t *cycles, int count, int cores, const uint8_t *core_of) {
  uint64_t load[BRAID_OVERLAY_MOST_CORES] = {0}, longest = 0;
  for (int i = 0; i < count; i++) {
    assert_true(core_of[i] < cores);
    load[core_of[i]] += cycles[i];
    if (load[core_of[i]] > longest) longest = load[core_of[i]];
  }
  return longest;
}

static void test_distributions(void **state) {
  (void)state;
  draw_key = 5;
  for (int trial = 0; trial < 300; trial++) {
    uint64_t cycles[BRAID_ASSIGN_MOST], load[BRAID_OVERLAY_MOST_CORES] = {0}, bound;
    uint8_t core_of[BRAID_ASSIGN_MOST];
    bool few = trial % 3 != 0;
    int count = few ? draw(1, 8) : draw(11, 64), cores = few ? draw(1, 4) : draw(1, 20);
    for (int i = 0; i < count; i++) cycles[i] = (uint64_t)draw(1, draw(0, 1) ? 20 : 100000);
    uint64_t longest = braid_tiles_assign(cycles, count, cores, core_of, &bound);
    assert_true(longest == longest_core(cycles, count, cores, core_of));
    assert_true(bound <= longest);
    if (few) assert_true(longest == least_longest(cycles, count, cores, load, 0));
    uint64_t sum = 0, most = 0; /* Graham: the longest first is within 4 / 3 of the best */
    for (int i = 0; i < count; i++) {
      sum += cycles[i];
      most = cycles[i] > most ? cycles[i] : most;
    }
    assert_true(bound >= most && bound >= sum / (uint64_t)cores);
    assert_true(longest <= sum / (uint64_t)cores + most);
  }
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
/* Every instruction says its core; all cores synchronize once a layer, and end once. */
static void test_programs(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  braid_package *package = compiled(&n, &design);
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  for (int cores = 1; cores <= BRAID_OVERLAY_MOST_CORES; cores += cores < 18 ? 1 : 23)
    for (size_t first = 0; first <= package->layer_count; first += 2) {
      size_t tiles = 0, drains = 0, expected = 0, instructions = 0;
      assert_int_equal(braid_programs_make(package, cores, first, &programs), BRAID_OK);
      assert_int_equal(braid_programs_gather(&programs), BRAID_OK);
      for (size_t l = first; l < package->layer_count; l++) {
        const braid_package_tiling *tiling = &package->tilings[programs.layers[l].tiling];
        for (uint32_t t = 0; t < tiling->count; t++) expected += package->tiles[tiling->first + t].count;
        if (cores == 1) assert_int_equal(tiling->kind, BRAID_TILING_WHOLE);
      }
      for (int c = 0; c < cores; c++) {
        size_t at = 0, syncs = 0;
        braid_instruction in = {0};
        while (at < programs.core[c].bytes) {
          assert_false(in.opcode == BRAID_ISA_OP_SYSTEM && in.system.end);
          assert_int_equal(braid_isa_decode(programs.core[c].code, programs.core[c].bytes, at, &in, &at), BRAID_OK);
          assert_int_equal(in.core, c);
          if (in.opcode != BRAID_ISA_OP_SYSTEM)
            instructions++;
          else if (in.system.sync)
            assert_int_equal(in.system.layer, (int)(first + syncs++));
          else if (in.system.tile)
            tiles++;
          else
            drains += !in.system.end;
        }
        assert_int_equal(in.opcode, BRAID_ISA_OP_SYSTEM);
        assert_int_equal(in.system.end, 1);
        assert_int_equal(syncs, package->layer_count - first);
      }
      assert_int_equal(instructions + tiles - drains, expected); /* with each drain goes a place to stop */
      if (cores >= design.cores) assert_int_equal(drains, 0);    /* one tile a core */
    }
  assert_int_equal(braid_programs_make(package, 0, 0, &programs), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_programs_make(package, BRAID_OVERLAY_MOST_CORES + 1, 0, &programs), BRAID_INVALID_ARGUMENT);
  assert_int_equal(braid_programs_make(package, 1, package->layer_count + 1, &programs), BRAID_INVALID_ARGUMENT);
  braid_programs_deinit(&programs);
  braid_package_destroy(package);
  drawn_free(&n);
}

/* Equations 5 and 6, and what waits for what, by hand. */
static void test_latency(void **state) {
  (void)state;
  braid_overlay_design design = {.cores = 4, .channels_in = 8, .channels_out = 8, .pixels = 4, .side_bytes = 32};
  design.port_bits = 128;
  design.bank_bits = 512;
  design.banks = 1;
  design.efficiency = 0.5;
  design.latency_cycles = 10;
  design.queue_depth = 4;
  braid_instruction items[3] = {braid_isa_blank(BRAID_ISA_OP_LOAD), braid_isa_blank(BRAID_ISA_OP_CONV),
                                braid_isa_blank(BRAID_ISA_OP_SAVE)};
  items[0].load.rows = 5;
  items[0].load.lines = 20; /* 1,600 bytes at 8 a cycle */
  items[0].signal = 1 << BRAID_ISA_COMPUTE;
  items[1].wait = 1 << BRAID_ISA_IN;
  items[1].conv.channels_in = 17; /* 3 groups */
  items[1].conv.channels_out = 16;
  items[1].conv.kernel_rows = 3;
  items[1].conv.kernel_columns = 2;
  items[1].conv.output_columns = 7;
  items[2].save.lines = 4;
  assert_int_equal(braid_instruction_cycles(&design, &items[0]), 10 + 200);
  assert_int_equal(braid_instruction_cycles(&design, &items[1]), 3 * 2 * 7 * 6);
  assert_int_equal(braid_instruction_cycles(&design, &items[2]), 10 + 8);
  assert_int_equal(braid_instructions_latency(&design, items, 3), 210 + 252); /* nothing holds up the SAVE */
  items[1].signal = 1 << BRAID_ISA_OUT;
  assert_int_equal(braid_instructions_latency(&design, items, 3), -1); /* a token is left */
  items[2].wait = 1 << BRAID_ISA_COMPUTE;
  assert_int_equal(braid_instructions_latency(&design, items, 3), 210 + 252 + 18);
  items[2].wait |= 1 << BRAID_ISA_SIDE;
  assert_int_equal(braid_instructions_latency(&design, items, 3), -1); /* for ever */
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
typedef struct failing {
  int left, in_use;
} failing;

static void *failing_allocate(void *context, size_t bytes, size_t alignment) {
  failing *f = context;
  if (f->left-- <= 0) return NULL;
  f->in_use++;
  return braid_allocator_default()->allocate(NULL, bytes, alignment);
}

static void failing_release(void *context, void *pointer) {
  failing *f = context;
  if (pointer) f->in_use--;
  braid_allocator_default()->release(NULL, pointer);
}

static void test_out_of_memory(void **state) {
  (void)state;
  drawn_network n;
  braid_overlay_design design;
  begin(&n, &design);
  for (int most = 0, done = 0; !done; most++) {
    failing f = {.left = most};
    braid_allocator allocator = {&f, failing_allocate, failing_release};
    braid_package *package;
    braid_programs programs;
    braid_programs_init(&programs, &allocator);
    braid_status status = braid_package_compile(&n.network, &design, &allocator, &package);
    if (status == BRAID_OK) {
      status = braid_programs_make(package, 3, 0, &programs);
      if (status == BRAID_OK) status = braid_programs_gather(&programs);
      done = status == BRAID_OK;
    }
    assert_true(status == BRAID_OK || status == BRAID_NO_MEMORY);
    braid_programs_deinit(&programs);
    braid_package_destroy(package);
    assert_int_equal(f.in_use, 0);
  }
  drawn_free(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_file),          cmocka_unit_test(test_changed_bits),
      cmocka_unit_test(test_refusals),   cmocka_unit_test(test_distributions), cmocka_unit_test(test_programs),
      cmocka_unit_test(test_latency),    cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
