/* Programs of random recurrent networks have the bits of plain steps, for any design, number of cores and order that
 * tokens allow, also where a task stops behind some step and goes on with other cores; files have the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/recurrent/rnn_dynamic.h"
#include "overlay/recurrent/rnn_reference.h"
#include "overlay/recurrent/rnn_share.h"
#include "overlay/recurrent/rnn_static.h"
#include "overlay/sim/functional.h"
#include "overlay/sim/timing.h"
#include "slow.h"

enum { kMostCells = 8, kMostSequences = 8, kMostStates = 20 };

static uint64_t drawn;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static int below(int bound) {
  return (int)braid_random_below(43, 0, 0, drawn++, (uint32_t)bound);
}

/* --- networks ------------------------------------------------------------------------------------------------------
 */
typedef struct sample {
  braid_rnn_sequence sequences[kMostSequences];
  braid_rnn_state states[kMostStates];
  braid_rnn_cell cells[kMostCells];
  braid_rnn_port inputs[1 + kMostStates], outputs[3 * kMostSequences];
  braid_lstm *lstms[kMostCells];
  int16_t *numbers[kMostStates], *sequence_values[kMostSequences], *cell_values[kMostCells];
  braid_rnn_network network;
} sample;

static float *draw_floats(size_t count, double scale) {
  float *out = malloc((count + 1) * sizeof *out);
  for (size_t i = 0; i < count; i++)
    out[i] = (float)(scale * (2 * (double)braid_random_uniform(43, 1, 0, drawn++) - 1));
  return out;
}

static int16_t *draw_words(size_t count) {
  int16_t *out = malloc((count + 1) * sizeof *out);
  for (size_t i = 0; i < count; i++) out[i] = (int16_t)(below(65536) - 32768);
  return out;
}

static braid_lstm *draw_lstm(int inputs, int hidden) {
  size_t rows = 4 * (size_t)hidden;
  float *w = draw_floats(rows * (size_t)inputs, 0.4), *r = draw_floats(rows * (size_t)hidden, 0.4);
  float *b = draw_floats(2 * rows, 0.4);
  braid_lstm *lstm;
  ok(braid_lstm_create(NULL, inputs, hidden, w, r, b, 2, &lstm));
  free(w), free(r), free(b);
  return lstm;
}

static int32_t add_state(sample *s, int parts, int part, bool input) {
  braid_rnn *t = &s->network.tables;
  int32_t at = (int32_t)t->state_count++;
  s->states[at] = (braid_rnn_state){.name = "state", .parts = parts, .part = part, .exponent = -15, .input = input};
  s->numbers[at] = draw_words((size_t)(parts * part));
  if (input) s->inputs[t->input_count++] = (braid_rnn_port){"state", BRAID_RNN_STATE, at};
  return at;
}

/* Of a cell before it with as many states, or a state. */
static braid_rnn_origin draw_origin(sample *s, int hidden) {
  for (size_t i = 0; below(2) && i < s->network.tables.cell_count; i++)
    if (s->cells[i].hidden == hidden) return (braid_rnn_origin){true, (int32_t)i, 0};
  int parts = 1 + below(2), part = below(parts);
  return (braid_rnn_origin){false, add_state(s, parts, hidden, below(2)), part};
}

static void add_layer(sample *s, int directions, int hidden) {
  braid_rnn *t = &s->network.tables;
  int32_t source = (int32_t)t->sequence_count - 1 - below((int)t->sequence_count > 1 ? 2 : 1);
  int32_t into = (int32_t)t->sequence_count;
  int inputs = s->sequences[source].parts * s->sequences[source].part;
  s->sequences[into] = (braid_rnn_sequence){.name = "y", .parts = directions, .part = hidden, .exponent = -15};
  for (int d = 0; d < directions; d++) {
    size_t at = t->cell_count;
    braid_rnn_cell cell = {.name = "cell", .source = source, .into = into, .part = d, .hidden = hidden};
    cell.backwards = directions == 2 ? d : below(2);
    cell.h = draw_origin(s, hidden);
    cell.c = draw_origin(s, hidden);
    s->lstms[at] = draw_lstm(inputs, hidden);
    cell.shift = s->lstms[at]->shift;
    s->cells[at] = cell;
    t->cell_count++;
  }
  t->sequence_count++;
  if (below(2) && into < 3) return; /* without a port */
  s->outputs[t->output_count++] = (braid_rnn_port){"y", BRAID_RNN_SEQUENCE, into};
  s->outputs[t->output_count++] = (braid_rnn_port){"c", BRAID_RNN_LAST_CELL, into};
}

static sample *draw_sample(void) {
  sample *s = calloc(1, sizeof *s);
  braid_rnn *t = &s->network.tables;
  s->network.lstms = (const braid_lstm *const *)s->lstms;
  s->network.numbers = (const int16_t *const *)s->numbers;
  t->sequences = s->sequences, t->states = s->states, t->cells = s->cells;
  t->inputs = s->inputs, t->outputs = s->outputs;
  t->steps = 1 + below(9);
  t->length = 1 + below(t->steps);
  s->sequences[0] =
      (braid_rnn_sequence){.name = "x", .parts = 1, .part = 1 + below(60), .exponent = -14, .input = true};
  s->inputs[t->input_count++] = (braid_rnn_port){"x", BRAID_RNN_SEQUENCE, 0};
  t->sequence_count = 1;
  int layers = 1 + below(3), hidden = 1 + below(70);
  for (int l = 0; l < layers; l++) add_layer(s, 1 + below(2), below(2) ? hidden : 1 + below(70));
  for (size_t q = 0; q < t->sequence_count; q++)
    s->sequence_values[q] = draw_words((size_t)(t->steps * s->sequences[q].parts * s->sequences[q].part));
  for (size_t i = 0; i < t->cell_count; i++) s->cell_values[i] = draw_words((size_t)s->cells[i].hidden);
  braid_rnn_values values = {s->sequence_values, s->numbers, s->cell_values};
  ok(braid_rnn_reference(t, s->network.lstms, &values));
  return s;
}

static void free_sample(sample *s) {
  for (int i = 0; i < kMostCells; i++) {
    braid_lstm_destroy(s->lstms[i]);
    free(s->cell_values[i]);
  }
  for (int i = 0; i < kMostStates; i++) free(s->numbers[i]);
  for (int i = 0; i < kMostSequences; i++) free(s->sequence_values[i]);
  free(s);
}

/* --- designs -------------------------------------------------------------------------------------------------------
 */
static braid_overlay_design draw_design(void) {
  static const int kRows[] = {1, 4, 8, 16, 12}, kColumns[] = {1, 2, 4, 8, 3};
  static const int64_t kWeights[] = {1 << 11, 1 << 13, 1 << 15, 1 << 19};
  return (braid_overlay_design){.name = "test",
                                .recurrent = true,
                                .cores = 16,
                                .clock_mhz = 200,
                                .rows = kRows[below(5)],
                                .columns = kColumns[below(5)],
                                .side_numbers = 4,
                                .weight_bytes = kWeights[below(4)],
                                .bias_bytes = 1 << (7 + below(6)),
                                .sum_bytes = 1 << 12,
                                .vector_bytes = 1 << 14,
                                .queue_depth = 1 + below(16),
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

/* --- runs ----------------------------------------------------------------------------------------------------------
 */
static braid_overlay_image make_image(const braid_package *package) {
  braid_overlay_image image = {0};
  for (int i = 0; i < BRAID_PACKAGE_SEGMENTS; i++) {
    bool read_only = i == BRAID_SEGMENT_CONSTANTS || i == BRAID_SEGMENT_INPUTS;
    image.segments[i] = (braid_overlay_segment){image.bytes, (uint64_t)package->bytes[i], read_only};
    image.bytes += (uint64_t)(package->bytes[i] + 63) / 64 * 64;
  }
  image.ddr = aligned_alloc(64, image.bytes + 64);
  memset(image.ddr, 0, image.bytes + 64);
  memcpy(image.ddr, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  return image;
}

static int16_t *line_at(const braid_overlay_image *image, int segment, int64_t line) {
  return (int16_t *)(void *)(image->ddr + image->segments[segment].first + (uint64_t)line * 16);
}

static void fill_inputs(const sample *s, const braid_rnn *rnn, const braid_overlay_image *image) {
  const braid_rnn_sequence *x = &rnn->sequences[0];
  for (int32_t t = 0; t < rnn->steps; t++)
    memcpy(line_at(image, x->segment, x->line + (int64_t)t * x->pitch), s->sequence_values[0] + t * x->part,
           (size_t)x->part * 2);
  for (size_t i = 0; i < rnn->state_count; i++) {
    const braid_rnn_state *state = &rnn->states[i];
    for (int32_t p = 0; state->input && p < state->parts; p++)
      memcpy(line_at(image, state->segment, state->line + p * (int64_t)braid_rnn_lines(state->part)),
             s->numbers[i] + p * state->part, (size_t)state->part * 2);
  }
}

/* All hidden states, and the last cell states. */
static bool right(const sample *s, const braid_rnn *rnn, const braid_overlay_image *image) {
  for (size_t i = 0; i < rnn->cell_count; i++) {
    const braid_rnn_cell *cell = &rnn->cells[i];
    const braid_rnn_sequence *q = &rnn->sequences[cell->into];
    size_t bytes = (size_t)cell->hidden * 2;
    for (int32_t t = 0; t < rnn->length; t++)
      if (memcmp(line_at(image, q->segment, braid_rnn_line_of(q, t, cell->part, false)),
                 s->sequence_values[cell->into] + (t * q->parts + cell->part) * q->part, bytes) != 0)
        return false;
    int32_t last = braid_rnn_nth(rnn, cell, rnn->length - 1);
    if (memcmp(line_at(image, q->segment, braid_rnn_line_of(q, last, cell->part, true)), s->cell_values[i], bytes) != 0)
      return false;
  }
  return true;
}

static void run_range(const braid_package *package, const braid_overlay_design *design, int cores, size_t first,
                      size_t last, const braid_overlay_image *image, uint64_t seed, bool races) {
  braid_programs programs;
  braid_overlay_code codes[BRAID_OVERLAY_MOST_CORES];
  braid_functional_options options = {.seed = seed, .races = races};
  braid_programs_init(&programs, NULL);
  ok(braid_rnn_make(package->rnn, cores, first, last, &programs));
  for (int c = 0; c < cores; c++) codes[c] = (braid_overlay_code){programs.core[c].code, programs.core[c].bytes};
  ok(braid_functional_once(design, cores, codes, image, &options, NULL, NULL));
  braid_programs_deinit(&programs);
}

static void check_file(const braid_package *package) {
  braid_text text, again;
  braid_package *loaded;
  braid_text_init(&text, NULL);
  braid_text_init(&again, NULL);
  ok(braid_package_save(package, &text));
  ok(braid_package_load((const uint8_t *)text.data, text.length, NULL, &loaded));
  ok(braid_package_save(loaded, &again));
  assert_int_equal(text.length, again.length);
  assert_memory_equal(text.data, again.data, text.length);
  assert_memory_equal(package->bytes, loaded->bytes, sizeof package->bytes);
  braid_package_destroy(loaded);
  text.data[text.length - 1] ^= 1;
  assert_int_equal(braid_package_load((const uint8_t *)text.data, text.length, NULL, &loaded), BRAID_INVALID_FILE);
  for (size_t length = 0; length < text.length; length += 1 + length / 7)
    assert_int_equal(braid_package_load((const uint8_t *)text.data, length, NULL, &loaded), BRAID_INVALID_FILE);
  braid_text_deinit(&text);
  braid_text_deinit(&again);
}

static void run_sample(const sample *s, const braid_package *package, const braid_overlay_design *design) {
  const braid_rnn *rnn = package->rnn;
  size_t all = rnn->cell_count * (size_t)rnn->length;
  for (int order = 0; order < 4; order++) {
    braid_overlay_image image = make_image(package);
    int cores = 1 + below(16), others = 1 + below(16);
    size_t stop = order == 3 ? (size_t)below((int)all + 1) : all;
    fill_inputs(s, rnn, &image);
    run_range(package, design, cores, 0, stop, &image, (uint64_t)order, order < 2);
    if (stop < all) run_range(package, design, others, stop, all, &image, (uint64_t)order, true);
    if (!right(s, rnn, &image))
      fail_msg("%zu cells, %d x %d, %lld of weights, %lld of biases: differs on %d cores in order %d (%zu of %zu, %d)",
               rnn->cell_count, design->rows, design->columns, (long long)design->weight_bytes,
               (long long)design->bias_bytes, cores, order, stop, all, others);
    free(image.ddr);
  }
}

static void test_programs(void **state) {
  (void)state;
  const size_t least = UNLESS_SLOW(15, 5);
  size_t stay = 0, stream = 0, apart = 0, cut = 0, small = 0;
  for (int trial = 0; trial < UNLESS_SLOW(120, 40); trial++) {
    sample *s = draw_sample();
    braid_overlay_design design = draw_design();
    braid_package *package;
    braid_status status = braid_rnn_compile(&s->network, &design, NULL, &package);
    if (status == BRAID_OK) {
      const braid_rnn *rnn = package->rnn;
      braid_rnn_division one = braid_rnn_divide(rnn, &rnn->cells[0], 1), few = braid_rnn_divide(rnn, &rnn->cells[0], 5);
      stay += one.stays;
      stream += !one.stays;
      apart += few.apart;
      cut += !one.stays && braid_rnn_cut_of(rnn, &rnn->cells[0], rnn->cells[0].hidden).columns < rnn->cells[0].columns;
      run_sample(s, package, &design);
      check_file(package);
    } else {
      assert_int_equal(status, BRAID_UNSUPPORTED);
      assert_true(strstr(braid_error_detail(), "too few") || strstr(braid_error_detail(), "vectors"));
      small++;
    }
    braid_package_destroy(package);
    free_sample(s);
  }
  print_message("%zu with weights that stay, %zu with others (%zu cut by columns), %zu with rows apart on 5 cores, %zu "
                "memories too small\n",
                stay, stream, cut, apart, small);
  assert_true(stay > least && stream > least && apart > least && cut > least / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
