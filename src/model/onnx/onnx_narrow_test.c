/* Narrow types in files: packed and not, in every place where ONNX keeps numbers; what is malformed; what is written.
 */
#include "base/file.h"
#include "braid/model.h"
#include "braid/session.h"
#include "folder.h"
#include "graph/graph.h"
#include "graph/onnx_dtype.h"
#include "model/onnx/onnx_build.h"
#include "skip.h"

static const struct {
  int number, bits;
} kTypes[] = {{17, 8}, {18, 8}, {19, 8}, {20, 8}, {21, 4}, {22, 4}, {23, 4}, {24, 8}, {25, 2}, {26, 2}};
enum { TYPES = sizeof kTypes / sizeof *kTypes, MOST = 5000 };

typedef enum storage { RAW, LISTED, EXTERNAL, STORAGES } storage;

static const char *in_folder(const char *name) {
  static char paths[4][256];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void check(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

static uint8_t code_of(size_t i, int bits) {
  return (uint8_t)((i * 7 + i / 50 + 3) % 251 & ((1u << bits) - 1));
}

/* As onnx.proto says: the first number in the lowest bits. */
static size_t pack(size_t count, int bits, uint8_t *packed) {
  memset(packed, 0, MOST);
  for (size_t i = 0; i < count; i++)
    packed[i * (size_t)bits / 8] |= (uint8_t)(code_of(i, bits) << i * (size_t)bits % 8);
  return (count * (size_t)bits + 7) / 8;
}

static void add_entry(onnx_build *build, Onnx__TensorProto *proto, const char *key, const char *value) {
  Onnx__StringStringEntryProto *entry = build_new(build, sizeof *entry);
  onnx__string_string_entry_proto__init(entry);
  entry->key = build_text(build, key);
  entry->value = build_text(build, value);
  proto->external_data[proto->n_external_data++] = entry;
}

/* y = Identity(w), w of `count` numbers said to be in `bytes` bytes. */
static void begin_constant(onnx_build *build, int number, storage form, int64_t count, const uint8_t *packed,
                           size_t bytes) {
  build_begin(build, 25);
  Onnx__TensorProto *w = build_tensor(build, "w", number, count, form == RAW ? packed : NULL, bytes);
  build->graph.initializer[build->graph.n_initializer++] = w;
  if (form == LISTED) {
    w->n_int32_data = bytes;
    w->int32_data = build_new(build, (bytes + 1) * sizeof *w->int32_data);
    for (size_t i = 0; i < bytes; i++) w->int32_data[i] = packed[i];
  } else if (form == EXTERNAL) {
    uint8_t data[MOST + 3] = {0};
    memcpy(data + 3, packed, bytes);
    check(braid_file_write(NULL, in_folder("w.bin"), data, bytes + 3));
    w->has_data_location = true;
    w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->external_data = build_new(build, 2 * sizeof(void *));
    add_entry(build, w, "location", "w.bin");
    add_entry(build, w, "offset", "3");
  }
  build_node(build, &build->graph, "Identity", "w", "y");
  build_output(build, &build->graph, "y");
}

/* From a file, in which long contents are found instead of read. */
static braid_status load(onnx_build *build, braid_graph **out) {
  size_t bytes;
  uint8_t *packed = build_pack(build, &bytes);
  build_end(build);
  check(braid_file_write(NULL, in_folder("model.onnx"), packed, bytes));
  free(packed);
  return braid_model_load(NULL, in_folder("model.onnx"), NULL, out);
}

static const braid_tensor *constant_of(const braid_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->value_count; i++)
    if (graph->values[i].name && strcmp(graph->values[i].name, name) == 0) return graph->values[i].tensor;
  return NULL;
}

static void test_forms(void **state) {
  (void)state;
  static const size_t kCounts[] = {0, 1, 2, 3, 4, 5, 15, MOST};
  uint8_t packed[MOST];
  for (size_t t = 0; t < TYPES; t++)
    for (int form = 0; form < STORAGES; form++)
      for (size_t c = 0; c < sizeof kCounts / sizeof *kCounts; c++) {
        onnx_build build;
        braid_graph *graph;
        size_t count = kCounts[c], bytes = pack(count, kTypes[t].bits, packed);
        begin_constant(&build, kTypes[t].number, (storage)form, (int64_t)count, packed, bytes);
        check(load(&build, &graph));
        const braid_tensor *w = constant_of(graph, "w");
        assert_non_null(w);
        assert_int_equal(braid_tensor_desc(w)->dtype, braid_dtype_from_onnx(kTypes[t].number));
        const uint8_t *codes = braid_tensor_const_data(w);
        for (size_t i = 0; i < count; i++) assert_int_equal(codes[i], code_of(i, kTypes[t].bits));
        braid_graph_destroy(graph);
      }
}

static void test_hostile(void **state) {
  (void)state;
  uint8_t packed[MOST];
  braid_graph *graph;
  onnx_build build;
  for (size_t t = 0; t < TYPES; t++) {
    size_t bytes = pack(15, kTypes[t].bits, packed);
    const size_t wrong[] = {0, bytes - 1, bytes + 1, kTypes[t].bits < 8 ? 15 : 30};
    for (int form = 0; form < STORAGES; form++)
      for (size_t i = 0; i < 4; i++) {
        if (form == EXTERNAL && wrong[i] > bytes) continue; /* a file may go on */
        begin_constant(&build, kTypes[t].number, (storage)form, 15, packed, wrong[i]);
        assert_int_equal(load(&build, &graph), BRAID_INVALID_FILE);
      }
    const int64_t huge[] = {-1, (int64_t)1 << 40, (int64_t)1 << 62, INT64_MAX};
    for (size_t i = 0; i < 4; i++) {
      begin_constant(&build, kTypes[t].number, RAW, huge[i], packed, bytes);
      assert_int_equal(load(&build, &graph), BRAID_INVALID_FILE);
    }
    const int32_t outside[] = {-1, 256, INT32_MIN};
    for (size_t i = 0; i < 3; i++) {
      begin_constant(&build, kTypes[t].number, LISTED, 15, packed, bytes);
      build.graph.initializer[0]->int32_data[1] = outside[i];
      assert_int_equal(load(&build, &graph), BRAID_INVALID_FILE);
    }
  }
}

/* Only what moves bytes, and converts, takes narrow types; the sentence says which op does not. */
static void expect_refused(onnx_build *build, const char *says) {
  braid_graph *graph;
  braid_status status = build_import(build, &graph);
  if (status == BRAID_OK) status = braid_resolve(graph);
  braid_graph_destroy(graph);
  assert_int_not_equal(status, BRAID_OK);
  if (!strstr(braid_error_detail(), says)) fail_msg("\"%s\" does not say \"%s\"", braid_error_detail(), says);
}

static void test_other_ops(void **state) {
  (void)state;
  static const char *const kOps[] = {"Add", "Neg", "Concat", "Relu", "ReduceMax", "Equal", "MatMul"};
  uint8_t packed[MOST];
  onnx_build build;
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++) {
    begin_constant(&build, 22, RAW, 15, packed, pack(15, 4, packed));
    bool one = strcmp(kOps[i], "Neg") == 0 || strcmp(kOps[i], "Relu") == 0 || strcmp(kOps[i], "ReduceMax") == 0;
    Onnx__NodeProto *node = build_node(&build, &build.graph, kOps[i], one ? "w" : "w w", "z");
    if (strcmp(kOps[i], "Concat") == 0) build_int(&build, node, "axis", 0);
    build_output(&build, &build.graph, "z");
    expect_refused(&build, "input 0 is int4, which the op does not take");
  }
  begin_constant(&build, 2, RAW, 1, packed, 1);
  build_int(&build, build_node(&build, &build.graph, "EyeLike", "m", "z"), "dtype", 17);
  build.graph.input[build.graph.n_input++] = build_value(&build, "m", 1, 2, (int64_t[]){3, 3});
  build_output(&build, &build.graph, "z");
  expect_refused(&build, "output 0 is float8e4m3fn, which the op does not give");
  begin_constant(&build, 22, RAW, 15, packed, pack(15, 4, packed));
  build_int(&build, build_node(&build, &build.graph, "BitCast", "w", "z"), "to", 3);
  build_output(&build, &build.graph, "z");
  expect_refused(&build, "int4 and int8 differ in size");
}

/* --- what is written ------------------------------------------------------------------------------------------------
 * A number of each type, moved and then cast to float32, is added to x; the sum is y. */
static void build_sum(onnx_build *build) {
  static const char *const kMoves[] = {"Identity", "Transpose", "Flatten"};
  uint8_t packed[MOST];
  char w[16], moved[16], wide[16], inputs[64], sum[16] = "x";
  build_begin(build, 25);
  build_input(build, "x", 2, (int64_t[]){1, 15});
  for (size_t t = 0; t < TYPES; t++) {
    int number = kTypes[t].number;
    snprintf(w, sizeof w, "w%d", number);
    snprintf(moved, sizeof moved, "m%d", number);
    snprintf(wide, sizeof wide, "f%d", number);
    pack(15, kTypes[t].bits, packed);
    if (number == 24) /* powers of two that other numbers can be added to */
      for (int i = 0; i < 15; i++) packed[i] = (uint8_t)(120 + i);
    else if (kTypes[t].bits == 8) /* no NaN */
      for (int i = 0; i < 15; i++) packed[i] &= 0x5f;
    Onnx__TensorProto *tensor = build_tensor(build, w, number, 15, packed, (size_t)(15 * kTypes[t].bits + 7) / 8);
    tensor->n_dims = 2;
    tensor->dims = build_new(build, 2 * sizeof *tensor->dims);
    tensor->dims[0] = t % 3 == 1 ? 15 : 1;
    tensor->dims[1] = t % 3 == 1 ? 1 : 15;
    build->graph.initializer[build->graph.n_initializer++] = tensor;
    build_node(build, &build->graph, kMoves[t % 3], w, moved);
    build_int(build, build_node(build, &build->graph, "Cast", moved, wide), "to", 1);
    snprintf(inputs, sizeof inputs, "%s %s", sum, wide);
    if (t + 1 < TYPES)
      snprintf(sum, sizeof sum, "s%d", number);
    else
      strcpy(sum, "y");
    build_node(build, &build->graph, "Add", inputs, sum);
  }
  build->graph.output[build->graph.n_output++] = build_value(build, "y", 1, 2, (int64_t[]){1, 15});
}

static void run_sum(const braid_graph *graph, float *y) {
  float x[15];
  braid_session *session;
  for (int i = 0; i < 15; i++) x[i] = (float)i / 8;
  check(braid_session_create(graph, NULL, &session));
  check(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  braid_session_destroy(session);
  braid_tensor *tensor;
  braid_desc desc;
  check(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){1, 15}));
  float *const data[] = {x, y};
  for (int i = 0; i < 2; i++) {
    check(braid_tensor_wrap(NULL, &desc, data[i], NULL, NULL, &tensor));
    check(braid_npy_save(in_folder(i ? "y.npy" : "x.npy"), tensor));
    braid_tensor_release(tensor);
  }
}

static void test_round_trip(void **state) {
  (void)state;
  onnx_build build;
  braid_graph *graph, *again;
  float one[15], other[15];
  build_sum(&build);
  check(build_import(&build, &graph));
  check(braid_model_save_onnx(graph, in_folder("saved.onnx")));
  check(braid_model_load(NULL, in_folder("saved.onnx"), NULL, &again));
  assert_int_equal(braid_graph_node_count(again), braid_graph_node_count(graph));
  for (size_t t = 0; t < TYPES; t++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", kTypes[t].number);
    const braid_tensor *a = constant_of(graph, name), *b = constant_of(again, name);
    assert_true(a && b && braid_tensor_desc(a)->dtype == braid_tensor_desc(b)->dtype);
    assert_memory_equal(braid_tensor_const_data(a), braid_tensor_const_data(b), 15);
  }
  run_sum(graph, one);
  run_sum(again, other);
  assert_memory_equal(one, other, sizeof one);
  braid_graph_destroy(graph);
  braid_graph_destroy(again);
}

static void test_onnx_agrees(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  if (!python || !*python) skip_test("peers", "BRAID_PYTHON names no Python with onnx");
  onnx_build build;
  braid_graph *graph;
  float y[15];
  char command[1024];
  build_sum(&build);
  check(build_import(&build, &graph));
  check(braid_model_save_onnx(graph, in_folder("saved.onnx")));
  run_sum(graph, y);
  braid_graph_destroy(graph);
  snprintf(command, sizeof command, "'%s' '%s/../onnx_check.py' --reference '%s' '%s' -- '%s'", python, BRAID_TEST_DATA,
           in_folder("saved.onnx"), in_folder("x.npy"), in_folder("y.npy"));
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),      cmocka_unit_test(test_hostile),     cmocka_unit_test(test_other_ops),
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_onnx_agrees),
  };
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
