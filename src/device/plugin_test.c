/* Plug-ins: the example's works like any backend, every other kind is refused with a sentence. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "braid/conformance.h"
#include "braid/session.h"
#include "oom.h"

static braid_registry *new_registry(void) {
  braid_registry *registry;
  if (braid_registry_create(NULL, &registry) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return registry;
}

static void print_failure(void *context, const char *name, braid_case_result result, const char *detail) {
  (void)context;
  if (result == BRAID_CASE_FAILED) print_message("%s: %s\n", name, detail);
}

/* The example, and the example built against a header whose table ends earlier. */
static void check_conformance(const char *path, size_t table_bytes) {
  braid_registry *registry = new_registry();
  if (braid_registry_load(registry, path) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_device *device;
  braid_check_counts counts;
  assert_int_equal(braid_device_open(registry, "tutor", &device), BRAID_OK);
  assert_int_equal(braid_device_backend(device)->size, table_bytes);
  assert_int_equal(braid_device_conformance(device, NULL, print_failure, NULL, &counts), BRAID_OK);
  assert_int_equal(counts.failed, 0);
  assert_true(counts.not_claimed > 200); /* ops that the example does not know do not count as passed */
  braid_device_close(device);
  braid_registry_destroy(registry);
}

static void test_conformance(void **state) {
  (void)state;
  check_conformance(BRAID_PLUGIN_FOLDER "/plugin.so", sizeof(braid_backend));
}

static void test_older_table(void **state) {
  (void)state;
  check_conformance(BRAID_PLUGIN_FOLDER "/older.so", offsetof(braid_backend, query));
}

/* A table is read as far as it says, not beyond: this one ends where memory ends. What is missing is NULL. */
static void test_table_sizes(void **state) {
  (void)state;
  extern const braid_backend braid_backend_null;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = sizeof(braid_backend);
  uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED && whole <= page);
  assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
  const struct {
    size_t there;
    uint32_t said;
    braid_status status;
  } cases[] = {
      {whole, (uint32_t)whole, BRAID_OK},
      {offsetof(braid_backend, query), 0, BRAID_OK}, /* before there was a size */
      {offsetof(braid_backend, read_power), offsetof(braid_backend, read_power), BRAID_OK},
      {offsetof(braid_backend, submit), offsetof(braid_backend, submit), BRAID_INVALID_ARGUMENT},
      {whole, 3, BRAID_INVALID_ARGUMENT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_backend table = braid_backend_null;
    table.name = "edge";
    table.size = cases[i].said;
    braid_registry *registry = new_registry();
    uint8_t *at = pages + page - cases[i].there;
    memcpy(at, &table, cases[i].there);
    assert_int_equal(braid_registry_add(registry, (const braid_backend *)(void *)at), cases[i].status);
    braid_registry_destroy(registry);
  }
  assert_int_equal(munmap(pages, 2 * page), 0);
}

/* A table of a later header is longer; what it has at its end is not known here. */
static void test_longer_table(void **state) {
  (void)state;
  extern const braid_backend braid_backend_null;
  struct {
    braid_backend table;
    void *later[4];
  } longer = {.table = braid_backend_null};
  longer.table.name = "later";
  longer.table.size = sizeof longer;
  braid_registry *registry = new_registry();
  assert_int_equal(braid_registry_add(registry, &longer.table), BRAID_OK);
  braid_registry_destroy(registry);
}

/* relu(x * x) + x, of which the plug-in's device can do everything. */
static void test_session(void **state) {
  (void)state;
  braid_registry *registry = new_registry();
  assert_int_equal(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/plugin.so"), BRAID_OK);
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y;
  assert_int_equal(braid_graph_create(NULL, "g", &graph), BRAID_OK);
  assert_int_equal(braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){2, 2}), BRAID_OK);
  assert_int_equal(braid_graph_add_input(graph, "x", &desc, &x), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, "MatMul", NULL, (braid_value_id[]){x, x}, 2, &y, 1, NULL), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, "Relu", NULL, &y, 1, &y, 1, NULL), BRAID_OK);
  assert_int_equal(braid_graph_add_node(graph, "Add", NULL, (braid_value_id[]){y, x}, 2, &y, 1, NULL), BRAID_OK);
  assert_int_equal(braid_graph_add_output(graph, y), BRAID_OK);
  braid_session *session;
  braid_session_options options = {.devices = "tutor cpu", .registry = registry};
  if (braid_session_create(graph, &options, &session) != BRAID_OK) fail_msg("%s", braid_error_detail());
  for (size_t i = 0; i < braid_session_plan_count(session); i++)
    assert_string_equal(braid_session_plan(session, i).device, "tutor");
  float in[4] = {1, -2, 3, 1}, out[4];
  assert_int_equal(braid_session_run(session, (const void *[]){in}, (void *[]){out}), BRAID_OK);
  assert_memory_equal(out, ((float[4]){1, -2, 9, 1}), sizeof out);
  braid_session_destroy(session);
  braid_graph_destroy(graph);
  braid_registry_destroy(registry);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *path;
    braid_status status;
    const char *said;
  } cases[] = {
      {BRAID_PLUGIN_FOLDER "/future.so", BRAID_UNSUPPORTED, "version 5"},
      {BRAID_PLUGIN_FOLDER "/incomplete.so", BRAID_INVALID_ARGUMENT, "enumerate"},
      {BRAID_PLUGIN_FOLDER "/absent.so", BRAID_UNSUPPORTED, "no backend"},
      {BRAID_PLUGIN_FOLDER "/other.so", BRAID_INVALID_FILE, "braid_plugin"},
      {BRAID_PLUGIN_FOLDER "/nowhere.so", BRAID_NOT_FOUND, "nowhere.so"},
      {BRAID_TEST_DATA "/platform/split.yaml", BRAID_INVALID_FILE, "split.yaml"},
      {"plugin.so", BRAID_INVALID_ARGUMENT, "slash"},
  };
  braid_registry *registry = new_registry();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(braid_registry_load(registry, cases[i].path), cases[i].status);
    print_message("%s\n", braid_error_detail());
    assert_non_null(strstr(braid_error_detail(), cases[i].said));
  }
  assert_int_equal(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/plugin.so"), BRAID_OK);
  assert_int_equal(braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/plugin.so"), BRAID_INVALID_ARGUMENT);
  assert_non_null(strstr(braid_error_detail(), "registered already"));
  braid_registry_destroy(registry);
}

/* The command reads BRAID_PLUGINS, the library does not. */
static void test_list(void **state) {
  (void)state;
  assert_int_equal(setenv("BRAID_PLUGINS", "/nowhere/x.so", 1), 0);
  braid_registry *registry = new_registry();
  assert_int_equal(unsetenv("BRAID_PLUGINS"), 0);
  assert_int_equal(braid_registry_load_list(registry, NULL), BRAID_OK);
  assert_int_equal(braid_registry_load_list(registry, ":" BRAID_PLUGIN_FOLDER "/plugin.so:"), BRAID_OK);
  braid_device *device;
  assert_int_equal(braid_device_open(registry, "tutor", &device), BRAID_OK);
  braid_device_close(device);
  braid_registry_destroy(registry);
  registry = new_registry();
  assert_int_equal(braid_registry_load_list(registry, BRAID_PLUGIN_FOLDER "/plugin.so:/nowhere/x.so"), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "/nowhere/x.so"));
  braid_registry_destroy(registry);
}

static braid_status load(const braid_allocator *allocator, void *context) {
  (void)context;
  braid_registry *registry;
  braid_status status = braid_registry_create(allocator, &registry);
  if (status != BRAID_OK) return status;
  status = braid_registry_load(registry, BRAID_PLUGIN_FOLDER "/plugin.so");
  braid_registry_destroy(registry);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_true(oom_sweep(load, NULL) >= 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance), cmocka_unit_test(test_older_table),
                                     cmocka_unit_test(test_table_sizes), cmocka_unit_test(test_longer_table),
                                     cmocka_unit_test(test_session),     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_list),        cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
