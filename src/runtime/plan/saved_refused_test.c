/* Saved plans that are refused: for another machine, another graph, other constants that decided; damaged files. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "braid/session.h"
#include "oom.h"
#include "runtime/plan/saved_fixture.h"
#include "runtime/plan/snapshot.h"

static void refuse(const char *devices, braid_graph *graph, const void *data, size_t bytes, const char *sentence) {
  braid_machine *machine = open_machine(devices);
  braid_plan *plan;
  braid_status status = braid_plan_decode(machine, graph, data, bytes, &plan);
  if (status != BRAID_UNSUPPORTED || plan || !strstr(braid_error_detail(), sentence))
    fail_msg("%s: %s, expected %s", braid_status_text(status), braid_error_detail(), sentence);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

static braid_graph *half_graph(braid_precision precision) {
  braid_graph *graph = conv_graph(1);
  OK(braid_graph_set_precision(graph, precision));
  return graph;
}

static braid_graph *pooled(int64_t side) {
  braid_graph *graph = conv_graph(1);
  braid_node_id node_id = 0; /* the convolution */
  OK(braid_graph_set_ints(graph, node_id, "strides", (int64_t[]){side, side}, 2));
  return graph;
}

/* An output beside the others. */
static braid_graph *with_scalar(float number) {
  braid_graph *graph = conv_graph(1);
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  OK(braid_desc_init(&desc, BRAID_F32, 0, NULL));
  OK(braid_tensor_create(NULL, &desc, &tensor));
  *(float *)braid_tensor_data(tensor) = number;
  OK(braid_graph_add_tensor(graph, "number", BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  OK(braid_graph_add_output(graph, node(graph, "Mul", (braid_value_id[]){braid_graph_input(graph, 0), id}, 2)));
  return graph;
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  void *data, *scaled;
  size_t bytes, scaled_bytes;
  braid_graph *graph = conv_graph(1), *other = with_scalar(2), *tripled = with_scalar(3);
  braid_machine *machine = open_machine("cpu:threads=2");
  braid_plan *plan = plan_of(machine, graph, NULL), *scaled_plan = plan_of(machine, other, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_plan_encode(scaled_plan, other, NULL, &scaled, &scaled_bytes));
  const char *kSame = "cpu:threads=2";
  refuse(kSame, conv_graph(2), data, bytes, "value x of the model: shape is [1,16,8,8] in the file, [2,16,8,8] here");
  refuse(kSame, pooled(2), data, bytes, "shape is [1,32,6,6] in the file, [1,32,3,3] here; and more differs");
  refuse(kSame, half_graph(BRAID_BFLOAT16), data, bytes, "precision is float32 in the file, bf16 here");
  refuse(kSame, with_scalar(2), data, bytes, "in the file");
  OK(braid_plan_decode(machine, tripled, scaled, scaled_bytes, &loaded)); /* a factor decides nothing */
  braid_plan_release(loaded);
  refuse("cpu:threads=1", conv_graph(1), data, bytes, "device cpu: threads is 2 in the file, 1 here");
  refuse("cpu:threads=2 cpu:threads=2", conv_graph(1), data, bytes, "1 devices in the file, 2 here");
  refuse("cpu:threads=2,memory=separate", conv_graph(1), data, bytes, "separate_memory is no in the file, yes here");
  braid_free(NULL, data);
  braid_free(NULL, scaled);
  braid_plan_release(plan);
  braid_plan_release(scaled_plan);
  braid_graph_destroy(graph);
  braid_graph_destroy(other);
  braid_graph_destroy(tripled);
  braid_machine_release(machine);
}

/* Constants that a shape or a choice came from are the plan's, few or many, folded or not. */
static void test_constants_that_decide(void **state) {
  (void)state;
  void *data;
  size_t bytes;
  braid_graph *graph = narrow_graph(0.1f, 6, 4);
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graph, NULL);
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  refuse("cpu", narrow_graph(0.1f, 5, 4), data, bytes, "contents is [6] in the file, [5] here");
  refuse("cpu", narrow_graph(0.1f, 6, 2), data, bytes, "in the file");
  /* with nothing else that differs: as many numbers, of which only the product is read */
  braid_graph *turned = narrow_graph(0.1f, 6, 4);
  for (size_t i = 0; i < braid_graph_value_count(turned); i++) {
    braid_value_info value = braid_graph_value(turned, (braid_value_id)i);
    if (value.kind == BRAID_VALUE_CONSTANT && value.desc.dtype == BRAID_I64)
      if (braid_tensor_get_i64(value.tensor, 0) == 4)
        *(int64_t *)braid_tensor_data((braid_tensor *)(uintptr_t)value.tensor) = -4; /* the same square */
  }
  refuse("cpu", turned, data, bytes, "contents is [4] in the file, [-4] here");
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* A graph that has been resolved, and whose input has got a shape since, has the constants that it had before. */
static void test_a_graph_with_another_shape(void **state) {
  (void)state;
  void *data;
  size_t bytes;
  braid_graph *const graphs[] = {narrow_graph(0.1f, 6, 4), narrow_graph(0.3f, 6, 4), narrow_graph(0.1f, 5, 4),
                                 narrow_graph(0.2f, 6, 4)},
                     *fresh = graphs[3];
  for (int i = 0; i < 4; i++) {
    if (i < 3) OK(braid_resolve(graphs[i]));
    OK(braid_graph_set_input_shape(graphs[i], braid_graph_input(graphs[i], 0), 4, (int64_t[]){1, 1, 2, 8}));
  }
  braid_machine *machine = open_machine("cpu");
  braid_plan *plan = plan_of(machine, graphs[0], NULL), *loaded;
  OK(braid_plan_encode(plan, graphs[0], NULL, &data, &bytes));
  OK(braid_plan_decode(machine, graphs[1], data, bytes, &loaded));
  braid_plan_release(loaded);
  OK(braid_plan_decode(machine, fresh, data, bytes, &loaded));
  braid_plan_release(loaded);
  refuse("cpu", graphs[2], data, bytes, "contents is");
  braid_free(NULL, data);
  braid_plan_release(plan);
  braid_graph_destroy(graphs[0]);
  braid_graph_destroy(graphs[1]);
  braid_graph_destroy(fresh);
  braid_machine_release(machine);
}

/* Rows that do not fit together are shown too. */
static void show_rows(const void *data, size_t bytes) {
  braid_arena *arena;
  braid_snapshot snapshot;
  OK(braid_arena_create(NULL, &arena));
  if (braid_snapshot_decode(data, bytes, arena, &snapshot) == BRAID_OK) {
    braid_text text;
    braid_text_init(&text, NULL);
    braid_snapshot_print_text(&snapshot, &text);
    braid_snapshot_print_json(&snapshot, &text);
    (void)braid_snapshot_compare(&snapshot, &snapshot, 0, BRAID_SNAPSHOT_TABLE_COUNT - 1, 1, "", "", &text);
    assert_false(text.failed);
    braid_text_deinit(&text);
  }
  braid_arena_destroy(arena);
}

/* Bytes of a file that is not what was saved; `whole`: with a digest that fits them. */
static void test_damaged(void **state) {
  (void)state;
  enum { kHeader = 40 };
  static float x[kImage];
  float y[kClasses];
  void *saved;
  size_t bytes;
  braid_graph *graph = conv_graph(1);
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_plan *plan = plan_of(machine, graph, NULL), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &saved, &bytes));
  size_t loads = 0;
  for (size_t at = 0; at < bytes; at += at < kHeader ? 1 : 7) {
    assert_int_not_equal(braid_plan_decode(machine, graph, saved, at, &loaded), BRAID_OK);
    for (int whole = 0; whole < 2; whole++) {
      uint8_t *copy = malloc(bytes);
      assert_non_null(copy);
      memcpy(copy, saved, bytes);
      copy[at] ^= (uint8_t)(1 + at % 255);
      if (whole) {
        braid_digest digest = braid_digest_of(copy + kHeader, bytes - kHeader);
        memcpy(copy + kHeader - sizeof digest, &digest, sizeof digest);
      }
      show_rows(copy, bytes);
      braid_status status = braid_plan_decode(machine, graph, copy, bytes, &loaded);
      bool allowed = status == BRAID_INVALID_FILE || status == BRAID_UNSUPPORTED || status == BRAID_NO_MEMORY ||
                     (whole && status == BRAID_OK);
      if (!allowed) fail_msg("byte %zu: %s: %s", at, braid_status_text(status), braid_error_detail());
      if (status == BRAID_OK) { /* a reason or a name; or something that kernels do not agree with */
        braid_execution *execution;
        loads++;
        if (braid_execution_create(loaded, NULL, &execution) == BRAID_OK)
          OK(braid_execution_run(execution, (const void *[]){x}, (void *[]){y}));
        braid_execution_destroy(execution);
      }
      braid_plan_release(loaded);
      free(copy);
    }
  }
  assert_true(loads < bytes / 20);
  braid_free(NULL, saved);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* --- a plan that belongs to a graph with other ends ----------------------------------------------------------------
 */
typedef enum ends { ENDS_AS_GIVEN, ENDS_WIDE, ENDS_EXCHANGED, ENDS_MORE, ENDS_COUNT } ends;

/* y = |x| and z = -x, 4 numbers each; or y twice as long, both in the other order, or one output more. */
static braid_graph *graph_with_ends(ends which) {
  braid_graph *graph;
  braid_value_id x, y;
  braid_node_id id;
  braid_desc desc;
  OK(braid_graph_create(NULL, "ends", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, 4}));
  OK(braid_graph_add_input(graph, "x", &desc, &x));
  y = x;
  if (which == ENDS_WIDE) {
    OK(braid_graph_add_node(graph, "Concat", NULL, (braid_value_id[]){x, x}, 2, &y, 1, &id));
    OK(braid_graph_set_int(graph, id, "axis", 1));
  }
  y = node(graph, "Abs", &y, 1);
  braid_value_id z = node(graph, "Neg", &x, 1);
  OK(braid_graph_rename_value(graph, y, "y"));
  OK(braid_graph_rename_value(graph, z, "z"));
  OK(braid_graph_add_output(graph, which == ENDS_EXCHANGED ? z : y));
  OK(braid_graph_add_output(graph, which == ENDS_EXCHANGED ? y : z));
  if (which == ENDS_MORE) OK(braid_graph_add_output(graph, node(graph, "Neg", &y, 1)));
  return graph;
}

/* The file says that it was made for the graph that is given, and holds the plan of another. */
static void test_other_ends(void **state) {
  (void)state;
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_graph *given = graph_with_ends(ENDS_AS_GIVEN);
  braid_plan *plan = plan_of(machine, given, NULL);
  for (ends which = ENDS_AS_GIVEN; which < ENDS_COUNT; which++) {
    braid_graph *other = graph_with_ends(which);
    braid_plan *others = plan_of(machine, other, NULL), *loaded = NULL;
    void *data[2];
    size_t bytes[2];
    braid_arena *arena;
    braid_snapshot saved[2];
    OK(braid_arena_create(NULL, &arena));
    OK(braid_plan_encode(plan, given, NULL, &data[0], &bytes[0]));
    OK(braid_plan_encode(others, other, NULL, &data[1], &bytes[1]));
    for (int i = 0; i < 2; i++) OK(braid_snapshot_decode(data[i], bytes[i], arena, &saved[i]));
    saved[1].given_values = saved[0].given_values;
    saved[1].given_nodes = saved[0].given_nodes;
    saved[1].given_attributes = saved[0].given_attributes;
    braid_plan_row *row = (braid_plan_row *)saved[1].plan.items;
    row->given_inputs = ((braid_plan_row *)saved[0].plan.items)->given_inputs;
    row->given_outputs = ((braid_plan_row *)saved[0].plan.items)->given_outputs;
    braid_text forged;
    braid_text_init(&forged, NULL);
    OK(braid_snapshot_encode(&saved[1], &forged));
    braid_execution *execution = NULL;
    braid_status status = braid_plan_decode(machine, given, forged.data, forged.length, &loaded);
    if (status == BRAID_OK) status = braid_execution_create(loaded, NULL, &execution);
    assert_int_equal(status, which == ENDS_AS_GIVEN ? BRAID_OK : BRAID_INVALID_FILE);
    if (status != BRAID_OK) assert_non_null(strstr(braid_error_detail(), "output"));
    braid_execution_destroy(execution);
    braid_plan_release(loaded);
    braid_text_deinit(&forged);
    braid_arena_destroy(arena);
    for (int i = 0; i < 2; i++) braid_free(NULL, data[i]);
    braid_plan_release(others);
    braid_graph_destroy(other);
  }
  braid_plan_release(plan);
  braid_graph_destroy(given);
  braid_machine_release(machine);
}

/* --- layouts that the kernel does not ask for ----------------------------------------------------------------------
 * The CPU, whose Relu wants its operands as `wanted` says. */
extern const braid_backend braid_backend_cpu;
static braid_layout wanted;

static void fussy_layouts(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                          braid_layout *outputs) {
  (void)device, (void)kernel;
  if (strcmp(node->op, "Relu") == 0) inputs[0] = outputs[0] = wanted;
}

static void fussy_info(void *self, braid_device_info *out) {
  braid_backend_cpu.info(self, out);
  strcpy(out->name, "fussy");
}

static braid_status fussy_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (capacity) strcpy(infos[0].name, "fussy");
  return status;
}

static braid_machine *open_fussy(const char *devices, braid_registry **registry) {
  static braid_backend fussy;
  braid_machine *machine;
  fussy = braid_backend_cpu;
  fussy.name = "fussy";
  fussy.info = fussy_info;
  fussy.enumerate = fussy_enumerate;
  fussy.layouts = fussy_layouts;
  OK(braid_registry_create(NULL, registry));
  OK(braid_registry_add(*registry, &fussy));
  const braid_machine_options options = {.registry = *registry, .devices = devices};
  OK(braid_machine_create(NULL, &options, &machine));
  return machine;
}

static void test_other_layouts(void **state) {
  (void)state;
  braid_registry *registry;
  braid_machine *machine = open_fussy("fussy", &registry);
  braid_graph *graph = conv_graph(1);
  static const braid_layout kWanted[] = {BRAID_LAYOUT_PLAIN, BRAID_LAYOUT_BHWC};
  for (int planned = 0; planned < 2; planned++) {
    void *saved;
    size_t bytes;
    wanted = kWanted[planned];
    braid_plan *plan = plan_of(machine, graph, &(braid_plan_options){.no_fusion = true});
    OK(braid_plan_encode(plan, graph, NULL, &saved, &bytes));
    for (int asked = 0; asked < 2; asked++) {
      braid_plan *loaded;
      braid_execution *execution;
      wanted = kWanted[asked];
      OK(braid_plan_decode(machine, graph, saved, bytes, &loaded));
      braid_status status = braid_execution_create(loaded, NULL, &execution);
      assert_int_equal(status, asked == planned ? BRAID_OK : BRAID_UNSUPPORTED);
      if (status != BRAID_OK) assert_non_null(strstr(braid_error_detail(), "in other layouts"));
      braid_execution_destroy(execution);
      braid_plan_release(loaded);
    }
    braid_free(NULL, saved);
    braid_plan_release(plan);
  }
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

/* A file of some ten megabytes is shown at once, although each wait names a step by its queue and number there. */
static void test_many_waits(void **state) {
  (void)state;
  enum { kQueues = 3, kSteps = 100000, kWaits = 1000000 };
  braid_machine *machine = open_machine("cpu:threads=1");
  braid_graph *graph = conv_graph(1);
  braid_plan *plan = plan_of(machine, graph, NULL);
  braid_arena *arena;
  braid_snapshot saved;
  braid_text text;
  void *data;
  size_t bytes;
  OK(braid_plan_encode(plan, graph, NULL, &data, &bytes));
  OK(braid_arena_create(NULL, &arena));
  OK(braid_snapshot_decode(data, bytes, arena, &saved));
  braid_step_row *rows = braid_zalloc_array(NULL, kSteps, sizeof *rows);
  int64_t *waits = braid_zalloc_array(NULL, 2 * kWaits, sizeof *waits);
  assert_true(rows && waits);
  for (int i = 0; i < kSteps; i++)
    rows[i] = (braid_step_row){.node = -1, .value = -1, .queue = i % kQueues, .label = "", .op = "", .kernel = ""};
  rows[5 * kQueues + 1].label = "the sixth of the second";
  rows[kSteps - 1].label = "the last";
  waits[0] = 1;
  waits[1] = 5;
  waits[2] = (kSteps - 1) % kQueues;
  waits[3] = (kSteps - 1) / kQueues;
  for (int i = 2; i < kWaits; i++) {
    waits[2 * i] = i % (kQueues + 2) - 1;
    waits[2 * i + 1] = i % 2 ? INT64_MAX - i : -i;
  }
  waits[4] = 1;
  waits[5] = kSteps / kQueues + 1; /* its queue has fewer */
  rows[0].waits = (braid_snapshot_list){waits, 2 * kWaits};
  saved.steps = (braid_rows){rows, kSteps};
  braid_text_init(&text, NULL);
  braid_snapshot_print_text(&saved, &text);
  assert_false(text.failed);
  const char *first =
      strstr(text.data, "  waits    for the sixth of the second on cpu\n  waits    for the last on cpu\n");
  assert_non_null(first);
  assert_null(strstr(strstr(first, "the last"), "  waits "));
  braid_text_deinit(&text);
  braid_free(NULL, rows);
  braid_free(NULL, waits);
  braid_free(NULL, data);
  braid_arena_destroy(arena);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
}

/* Small inputs are brought before anything else, so that conversions stand elsewhere in a plan than where they were
 * made: they are found all the same, and in their order. */
static void test_conversions_behind_inputs(void **state) {
  (void)state;
  enum { kInputs = 3 };
  braid_registry *registry;
  braid_machine *machine = open_fussy("fussy:memory=separate", &registry);
  braid_graph *graph;
  braid_desc desc;
  braid_value_id y = -1;
  void *saved;
  size_t bytes, conversions = 0;
  wanted = BRAID_LAYOUT_BHWC;
  OK(braid_graph_create(NULL, "inputs", &graph));
  OK(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){2, 3, 4, 5}));
  for (int i = 0; i < kInputs; i++) {
    char name[8];
    braid_value_id x;
    (void)snprintf(name, sizeof name, "x%d", i);
    OK(braid_graph_add_input(graph, name, &desc, &x));
    x = node(graph, "Relu", &x, 1);
    y = i ? node(graph, "Add", (braid_value_id[]){x, y}, 2) : x;
  }
  OK(braid_graph_add_output(graph, y));
  braid_plan *plan = plan_of(machine, graph, &(braid_plan_options){.no_fusion = true}), *loaded;
  for (size_t i = 0; i < plan->steps.count; i++) {
    assert_true((plan->steps.items[i].kind == BRAID_STEP_WRITE) == (i < kInputs));
    conversions += strcmp(plan->steps.items[i].op, "LayoutConvert") == 0;
  }
  assert_true(conversions >= kInputs);
  OK(braid_plan_encode(plan, graph, NULL, &saved, &bytes));
  OK(braid_plan_decode(machine, graph, saved, bytes, &loaded));
  expect_same(plan, loaded);
  braid_free(NULL, saved);
  braid_plan_release(loaded);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

/* A conversion on a device that does not reach the memory in which its operands are. */
static void test_other_memory(void **state) {
  (void)state;
  braid_registry *registry;
  braid_machine *machine = open_fussy("fussy cpu:memory=separate", &registry);
  braid_graph *graph = conv_graph(1);
  void *saved;
  size_t bytes, conversions = 0;
  wanted = BRAID_LAYOUT_BHWC;
  braid_plan *plan = plan_of(machine, graph, &(braid_plan_options){.no_fusion = true}), *loaded;
  OK(braid_plan_encode(plan, graph, NULL, &saved, &bytes));
  braid_arena *arena;
  braid_snapshot snapshot;
  OK(braid_arena_create(NULL, &arena));
  OK(braid_snapshot_decode(saved, bytes, arena, &snapshot));
  braid_step_row *steps = (braid_step_row *)snapshot.steps.items;
  for (size_t i = 0; i < snapshot.steps.count; i++) {
    if (steps[i].node >= 0 || strcmp(steps[i].op, "LayoutConvert") != 0) continue;
    steps[i].device = 1;
    conversions++;
  }
  assert_true(conversions > 0);
  braid_text forged;
  braid_text_init(&forged, NULL);
  OK(braid_snapshot_encode(&snapshot, &forged));
  assert_int_equal(braid_plan_decode(machine, graph, forged.data, forged.length, &loaded), BRAID_INVALID_FILE);
  if (!strstr(braid_error_detail(), "does not fit the rest")) fail_msg("%s", braid_error_detail());
  braid_text_deinit(&forged);
  braid_arena_destroy(arena);
  braid_free(NULL, saved);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  braid_machine_release(machine);
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_constants_that_decide),
      cmocka_unit_test(test_a_graph_with_another_shape),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_other_ends),
      cmocka_unit_test(test_other_layouts),
      cmocka_unit_test(test_other_memory),
      cmocka_unit_test(test_conversions_behind_inputs),
      cmocka_unit_test(test_many_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
