/* Values that cross between devices of which one has no kernel that converts layouts: what is computed is what the CPU
 * alone computes, and the conversion is done where somebody has a kernel for it. */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "braid/session.h"

extern const braid_backend braid_backend_cpu;

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
}

/* --- devices -------------------------------------------------------------------------------------------------------
 */
/* The CPU with some of its kernels, in the plain layout alone; "far" has memory of its own. */
static const char *kept; /* " Relu Add ": ops that they have kernels for */

static bool is_in(const char *list, const char *op) {
  char name[64];
  snprintf(name, sizeof name, " %s ", op);
  return strstr(list, name) != NULL;
}

static void limited_info(void *self, braid_device_info *out) {
  braid_backend_cpu.info(self, out);
  strcpy(out->name, out->memory == BRAID_MEMORY_SEPARATE ? "far" : "limited");
}

static braid_status limited_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (capacity) strcpy(infos[0].name, "limited");
  return status;
}

static braid_status far_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = braid_backend_cpu.enumerate(infos, capacity, count);
  if (capacity) strcpy(infos[0].name, "far");
  return status;
}

static braid_status far_open(const braid_allocator *allocator, size_t index, const char *options, void **out) {
  (void)options;
  return braid_backend_cpu.open(allocator, index, "memory=separate", out);
}

/* Without those that need another layout. */
static const braid_kernel *const *limited_kernels(void *self, size_t *count) {
  static braid_kernel plain[256];
  static const braid_kernel *kernels[256];
  size_t all;
  const braid_kernel *const *from = braid_backend_cpu.kernels(self, &all);
  *count = 0;
  for (size_t i = 0; i < all && *count < 256; i++) {
    if (!is_in(kept, from[i]->op) || (from[i]->layouts && strncmp(from[i]->name, "dnnl_", 5) == 0)) continue;
    plain[*count] = *from[i];
    plain[*count].layouts = NULL;
    kernels[*count] = &plain[*count];
    ++*count;
  }
  return kernels;
}

static braid_registry *make_registry(const char *ops) {
  static braid_backend limited, far;
  braid_registry *registry;
  kept = ops;
  limited = braid_backend_cpu;
  limited.name = "limited";
  limited.enumerate = limited_enumerate;
  limited.kernels = limited_kernels;
  limited.info = limited_info;
  limited.layouts = NULL;
  far = limited;
  far.name = "far";
  far.enumerate = far_enumerate;
  far.open = far_open;
  ok(braid_registry_create(NULL, &registry));
  ok(braid_registry_add(registry, &limited));
  ok(braid_registry_add(registry, &far));
  return registry;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
enum { kBatch = 2, kSide = 6, kClasses = 3, kMost = kBatch * 24 * kSide * kSide };

static braid_value_id constant(braid_graph *graph, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor;
  braid_value_id id;
  ok(braid_desc_init(&desc, BRAID_F32, rank, dims));
  ok(braid_tensor_create(NULL, &desc, &tensor));
  float *data = braid_tensor_data(tensor);
  for (int64_t i = 0; i < braid_desc_count(&desc); i++) data[i] = (float)(i * 7 % 11 - 5) / 16;
  ok(braid_graph_add_tensor(graph, NULL, BRAID_VALUE_CONSTANT, tensor, &id));
  braid_tensor_release(tensor);
  return id;
}

static braid_value_id add(braid_graph *graph, const char *op, const char *name, const braid_value_id *inputs,
                          size_t count) {
  braid_value_id out;
  ok(braid_graph_add_node(graph, op, name, inputs, count, &out, 1, NULL));
  return out;
}

static braid_graph *begin(int64_t channels, braid_value_id *x) {
  braid_graph *graph;
  braid_desc desc;
  ok(braid_graph_create(NULL, "border", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 4, (int64_t[]){kBatch, channels, kSide, kSide}));
  ok(braid_graph_add_input(graph, "x", &desc, x));
  return graph;
}

/* Convolutions, which like other layouts, between ops that take part on the other device: of one operand, of two that
 * come from different devices, and of a constant. Then a view and matrices. */
static braid_graph *make_network(int64_t c) {
  braid_value_id x;
  braid_graph *graph = begin(c, &x);
  braid_value_id map = constant(graph, 4, (int64_t[]){kBatch, c, kSide, kSide});
  braid_value_id flat = constant(graph, 2, (int64_t[]){c * kSide * kSide, kClasses});
  braid_value_id w = constant(graph, 4, (int64_t[]){c, c, 1, 1}), v = constant(graph, 4, (int64_t[]){c, c, 1, 1});
  braid_value_id first = add(graph, "Conv", "conv0", (braid_value_id[]){x, w}, 2);
  braid_value_id relu = add(graph, "Relu", "relu0", &first, 1);
  braid_value_id second = add(graph, "Conv", "conv1", (braid_value_id[]){relu, v}, 2);
  braid_value_id sum = add(graph, "Add", "sum", (braid_value_id[]){second, x}, 2);
  sum = add(graph, "Add", "shortcut", (braid_value_id[]){relu, sum}, 2);
  sum = add(graph, "Add", "map", (braid_value_id[]){sum, map}, 2);
  braid_value_id out = add(graph, "Relu", "relu1", &sum, 1);
  ok(braid_graph_add_output(graph, out));
  out = add(graph, "Flatten", "flat", &out, 1);
  out = add(graph, "MatMul", "classes", (braid_value_id[]){out, flat}, 2);
  ok(braid_graph_add_output(graph, out));
  return graph;
}

typedef struct result {
  float map[kMost], classes[kBatch * kClasses];
} result;

static void run(const braid_graph *graph, const char *ops, const char *devices, const char *place, bool no_fusion,
                result *out) {
  static float x[kMost];
  braid_registry *registry = make_registry(ops);
  braid_session *session;
  for (int i = 0; i < kMost; i++) x[i] = (float)(i * 37 % 101 - 50) / 64;
  memset(out, 0, sizeof *out);
  if (braid_session_create(
          graph,
          &(braid_session_options){.devices = devices, .place = place, .registry = registry, .no_fusion = no_fusion},
          &session) != BRAID_OK)
    fail_msg("kernels \"%s\" on \"%s\", place \"%s\": %s", ops, devices, place ? place : "", braid_error_detail());
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    assert_false(strcmp(line.op, "LayoutConvert") == 0 && strncmp(line.device, "cpu", 3) != 0);
  }
  ok(braid_session_run(session, (const void *const[]){x}, (void *const[]){out->map, out->classes}));
  braid_session_destroy(session);
  braid_registry_destroy(registry);
}

static void compare(const result *out, const result *expected, const char *devices) {
  for (int i = 0; i < kMost; i++)
    if (out->map[i] - expected->map[i] > 1e-4f || expected->map[i] - out->map[i] > 1e-4f)
      fail_msg("%s: element %d is %g, not %g", devices, i, (double)out->map[i], (double)expected->map[i]);
  for (int i = 0; i < kBatch * kClasses; i++) assert_float_equal(out->classes[i], expected->classes[i], 1e-3f);
}

/* Channels that blocks of 16 divide, and such that leave padding. */
static void test_networks(void **state) {
  (void)state;
  static const int64_t kChannels[] = {8, 16, 24};
  static const char *const kOps[] = {" Relu ", " Add ", " Relu Add ", " Relu Add MatMul ", " MatMul ", " Conv Relu "};
  static const struct {
    const char *devices, *place;
  } kMachines[] = {{"far cpu", NULL},
                   {"limited cpu", NULL},
                   {"limited cpu:memory=separate", NULL},
                   {"far cpu:memory=separate", NULL},
                   {"cpu far", "relu0=far"},
                   {"cpu far", "relu*=far"},
                   {"cpu:memory=separate limited", "relu1=limited"}};
  static result expected, out;
  for (size_t c = 0; c < sizeof kChannels / sizeof *kChannels; c++) {
    braid_graph *graph = make_network(kChannels[c]);
    run(graph, "", "cpu", NULL, true, &expected);
    for (size_t o = 0; o < sizeof kOps / sizeof *kOps; o++)
      for (size_t m = 0; m < sizeof kMachines / sizeof *kMachines; m++)
        for (int fused = 0; fused < 2; fused++) {
          if (kMachines[m].place && !is_in(kOps[o], "Relu")) continue;
          run(graph, kOps[o], kMachines[m].devices, kMachines[m].place, !fused, &out);
          compare(&out, &expected, kMachines[m].devices);
        }
    braid_graph_destroy(graph);
  }
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
enum { kRows = 3, kInner = 5, kColumns = 6, kScores = 4 };

/* Products; the first one's matrix is read by a sum too, which wants it plain. */
static braid_graph *make_products(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x;
  ok(braid_graph_create(NULL, "products", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){kRows, kInner}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  braid_value_id w = constant(graph, 2, (int64_t[]){kInner, kColumns}),
                 v = constant(graph, 2, (int64_t[]){kColumns, kScores});
  braid_value_id y = add(graph, "MatMul", "first", (braid_value_id[]){x, w}, 2);
  y = add(graph, "Relu", "relu", &y, 1);
  y = add(graph, "MatMul", "second", (braid_value_id[]){y, v}, 2);
  ok(braid_graph_add_output(graph, y));
  y = add(graph, "MatMul", "wide", (braid_value_id[]){x, w}, 2);
  y = add(graph, "MatMul", "back", (braid_value_id[]){y, v}, 2);
  ok(braid_graph_add_output(graph, y));
  y = add(graph, "Add", "sum", (braid_value_id[]){add(graph, "Relu", "matrix", &w, 1), w}, 2);
  y = add(graph, "MatMul", "late", (braid_value_id[]){x, y}, 2);
  ok(braid_graph_add_output(graph, y));
  return graph;
}

static void run_products(const braid_graph *graph, const braid_session_options *options,
                         float out[3][kRows * kColumns]) {
  braid_session *session;
  float x[kRows * kInner];
  for (int i = 0; i < kRows * kInner; i++) x[i] = (float)(i * 7 % 11 - 5) / 8;
  ok(braid_session_create(graph, options, &session));
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    assert_string_not_equal(braid_session_plan(session, i).op, "LayoutConvert");
  for (int i = 0; i < 2; i++)
    ok(braid_session_run(session, (const void *const[]){x}, (void *const[]){out[0], out[1], out[2]}));
  braid_session_destroy(session);
}

/* A device that wants constants in a layout of its own and cannot convert gets them so: they are rewritten on the host
 * before they are uploaded, whether it is alone, beside a device that reads them plain, or reads them plain itself. */
static void test_constants(void **state) {
  (void)state;
  static const char *const kDevices[] = {"columns", "columns cpu", "columns cpu:memory=separate", "cpu columns"};
  static const char *const kPlaces[] = {NULL, "late=cpu,second=cpu", "first=cpu", "first=columns,back=columns"};
  braid_graph *graph = make_products();
  braid_registry *registry;
  ok(braid_registry_create(NULL, &registry));
  ok(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/columns.so"));
  static float expected[3][kRows * kColumns], out[3][kRows * kColumns];
  run_products(graph, &(braid_session_options){.devices = "cpu", .registry = registry}, expected);
  for (size_t i = 0; i < sizeof kDevices / sizeof *kDevices; i++) {
    braid_session_options options = {.devices = kDevices[i], .place = kPlaces[i], .registry = registry};
    run_products(graph, &options, out);
    for (int k = 0; k < 3; k++)
      for (int e = 0; e < kRows * kColumns; e++) assert_float_equal(out[k][e], expected[k][e], 1e-5f);
  }
  braid_registry_destroy(registry);
  braid_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks), cmocka_unit_test(test_constants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
