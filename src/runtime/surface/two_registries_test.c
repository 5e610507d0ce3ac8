/* Two registries in one process, as two libraries have them that know nothing of each other: what one's machines say
 * and keep goes where that one says, and the environment says nothing. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "braid/session.h"
#include "skip.h"

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

/* What one of them hears. */
typedef struct listener {
  size_t messages;
  char last[512];
} listener;

static void listen(void *context, braid_log_level level, const char *message) {
  listener *own = context;
  (void)level;
  own->messages++;
  snprintf(own->last, sizeof own->last, "%s", message);
}

static braid_registry *open_registry(listener *own, const char *cache) {
  braid_registry *registry;
  ok(braid_registry_create(NULL, &registry));
  braid_registry_set_log(registry, &(braid_log){listen, own});
  ok(braid_registry_set_cache(registry, cache));
  return registry;
}

/* y = Relu(x), with a name for patterns of places. */
static braid_graph *relu(void) {
  braid_graph *graph;
  braid_desc desc;
  braid_value_id x, y = 0;
  ok(braid_graph_create(NULL, "relu", &graph));
  ok(braid_desc_init(&desc, BRAID_F32, 1, (int64_t[]){64}));
  ok(braid_graph_add_input(graph, "x", &desc, &x));
  ok(braid_graph_add_node(graph, "Identity", "left out", &x, 1, &y, 1, NULL));
  ok(braid_graph_add_node(graph, "Relu", "relu", &y, 1, &y, 1, NULL));
  ok(braid_graph_add_output(graph, y));
  return graph;
}

/* --- a backend that tells where it may speak and keep things -------------------------------------------------------
 */
typedef struct told {
  const void *device;
  const braid_log *log;
  char cache[128];
} told;
static told tell[4];
static size_t told_count;
static braid_backend loud;

static void loud_set_host(void *device, const braid_log *log, const char *cache) {
  told *own = &tell[told_count++];
  *own = (told){.device = device, .log = log};
  if (cache) snprintf(own->cache, sizeof own->cache, "%s", cache);
  braid_log_write(log, BRAID_LOG_INFO, "%s is open", "loud");
}

static braid_status loud_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  *count = 1;
  if (capacity) infos[0] = (braid_device_info){.name = "loud", .kind = "test", .alignment = 64};
  return BRAID_OK;
}

/* The null backend's table with entries of its own. */
static void add_loud(braid_registry *registry) {
  braid_device *null;
  ok(braid_device_open(registry, "null", &null));
  loud = *braid_device_backend(null);
  braid_device_close(null);
  loud.name = "loud";
  loud.enumerate = loud_enumerate;
  loud.set_host = loud_set_host;
  ok(braid_registry_add(registry, &loud));
}

static void test_backends_are_told(void **state) {
  (void)state;
  static const char *const kCaches[] = {"/nowhere/first", NULL, "/nowhere/third"};
  setenv("XDG_CACHE_HOME", "/nowhere/of/the/environment", 1);
  listener heard[3] = {{0}};
  told_count = 0;
  for (size_t i = 0; i < 3; i++) {
    braid_registry *registry = open_registry(&heard[i], kCaches[i]);
    braid_device *device;
    add_loud(registry);
    size_t before = heard[i].messages;
    ok(braid_device_open(registry, "loud", &device));
    assert_int_equal(told_count, i + 1);
    assert_ptr_equal(tell[i].device, braid_device_self(device));
    assert_int_equal(heard[i].messages, before + 1);
    assert_string_equal(heard[i].last, "loud is open");
    char expected[64] = "";
    if (kCaches[i]) snprintf(expected, sizeof expected, "%s/loud", kCaches[i]);
    assert_string_equal(tell[i].cache, expected);
    assert_ptr_equal(tell[i].log, braid_registry_get_log(registry));
    braid_device_close(device);
    braid_registry_destroy(registry);
  }
  assert_null(braid_registry_get_log(NULL));
  braid_log_write(NULL, BRAID_LOG_WARNING, "nobody hears %d", 1);
}

/* --- messages of the runtime ---------------------------------------------------------------------------------------
 */
static void test_sessions_speak_to_their_own(void **state) {
  (void)state;
  listener heard[2] = {{0}};
  braid_registry *registries[2];
  braid_graph *graph = relu();
  for (int i = 0; i < 2; i++) registries[i] = open_registry(&heard[i], NULL);
  for (int run = 0; run < 6; run++) {
    int own = run % 3 == 0;
    braid_session *session;
    size_t before[2] = {heard[0].messages, heard[1].messages};
    ok(braid_session_create(graph, &(braid_session_options){.place = "'left out'=cpu", .registry = registries[own]},
                            &session));
    braid_session_destroy(session);
    assert_true(heard[own].messages > before[own]);
    assert_non_null(strstr(heard[own].last, "\"left out\" places nothing"));
    assert_int_equal(heard[!own].messages, before[!own]);
  }
  braid_session *session; /* one of no registry says nothing to either */
  size_t before = heard[0].messages + heard[1].messages;
  ok(braid_session_create(graph, &(braid_session_options){.place = "'left out'=cpu"}, &session));
  braid_session_destroy(session);
  assert_int_equal(heard[0].messages + heard[1].messages, before);
  for (int i = 0; i < 2; i++) braid_registry_destroy(registries[i]);
  braid_graph_destroy(graph);
}

/* --- built programs ------------------------------------------------------------------------------------------------
 */
static size_t count_files(const char *folder) {
  size_t count = 0;
  DIR *open = opendir(folder);
  if (!open) return 0;
  for (struct dirent *entry; (entry = readdir(open));) count += entry->d_name[0] != '.';
  closedir(open);
  return count;
}

static bool run_relu(braid_registry *registry, const char *devices) {
  braid_graph *graph = relu();
  braid_session *session;
  float x[64] = {-1, 2}, y[64];
  braid_status status =
      braid_session_create(graph, &(braid_session_options){.devices = devices, .registry = registry}, &session);
  braid_graph_destroy(graph);
  if (status == BRAID_NOT_FOUND) return false;
  ok(status);
  ok(braid_session_run(session, (const void *[]){x}, (void *[]){y}));
  assert_true(y[0] == 0 && y[1] == 2);
  braid_session_destroy(session);
  return true;
}

static void test_two_caches(void **state) {
  (void)state;
  char root[] = "/tmp/braid-caches-XXXXXX", folders[3][64], command[128];
  assert_non_null(mkdtemp(root));
  for (int i = 0; i < 3; i++) snprintf(folders[i], sizeof folders[i], "%s/%c/opencl", root, "abe"[i]);
  char environment[64];
  snprintf(environment, sizeof environment, "%s/e", root);
  setenv("XDG_CACHE_HOME", environment, 1);
  setenv("HOME", environment, 1);
  listener heard[2] = {{0}};
  bool there = true;
  for (int i = 0; there && i < 2; i++) {
    char cache[64];
    snprintf(cache, sizeof cache, "%s/%c", root, "ab"[i]);
    braid_registry *registry = open_registry(&heard[i], cache);
    there = run_relu(registry, "opencl0");
    if (there) assert_true(count_files(folders[i]) > 0);
    if (there && i == 0) assert_int_equal(count_files(folders[1]), 0);
    braid_registry_destroy(registry);
  }
  size_t kept = count_files(folders[0]);
  if (there) assert_true(run_relu(NULL, "opencl0")); /* of no registry: kept nowhere */
  assert_int_equal(count_files(folders[0]), kept);
  assert_int_equal(count_files(environment) + count_files(folders[2]), 0);
  snprintf(command, sizeof command, "rm -r %s", root);
  assert_int_equal(system(command), 0);
  if (!there) skip_test("opencl", "there is no OpenCL device");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_backends_are_told),
      cmocka_unit_test(test_sessions_speak_to_their_own),
      cmocka_unit_test(test_two_caches),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
