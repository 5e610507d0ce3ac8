/* The OpenCL backend, on whatever driver is here (PoCL where there is no card). */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/opencl/options.h"
#include "backend/opencl/program.h"
#include "backend/opencl/test_node.h"
#include "base/file.h"
#include "braid/conformance.h"
#include "launch/cache.h"
#include "oom.h"
#include "registry.h"
#include "skip.h"

static braid_registry *registry;

static void report(void *context, const char *name, braid_case_result result, const char *detail) {
  if (result == BRAID_CASE_FAILED) print_message("%s: FAIL %s: %s\n", (const char *)context, name, detail);
}

static void need_device(void) {
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
}

/* Opens a device or, where there is no OpenCL, skips the test. */
static braid_device *open_device(const char *spec) {
  need_device();
  braid_device *device;
  if (braid_device_open(registry, spec, &device) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  return device;
}

/* All of the suite runs in device_conformance_test; here the contract alone, and a kernel of each form. */
static void check_conformance(const char *spec) {
  static const char *const kCases[] = {"tasks", "buffer", "memory",    "transfers", "order",
                                       "waits", "queue",  "MatMul by", "Add by"};
  braid_device *device = open_device(spec);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_check_counts counts;
    braid_check_options options = {.only = kCases[i]};
    assert_int_equal(braid_device_conformance(device, &options, report, (void *)spec, &counts), BRAID_OK);
    assert_int_equal(counts.failed, 0);
    assert_true(counts.passed > 0);
  }
  braid_device_close(device);
}

/* --- conformance ---------------------------------------------------------------------------------------------------
 */
static void test_memory_of_its_own(void **state) {
  (void)state;
  check_conformance("opencl0:memory=separate");
  check_conformance("opencl0:arena=4194304");
}

static void test_parts(void **state) {
  (void)state;
  check_conformance("opencl0.0:parts=2");
  check_conformance("opencl0.1:parts=2,memory=separate");
}

/* --- options -------------------------------------------------------------------------------------------------------
 */
static void test_options(void **state) {
  (void)state;
  braid_cl_options options;
  static const char *const kWrong[] = {"parts=2",
                                       "part=1",
                                       "part=2,parts=2",
                                       "parts=0,part=0",
                                       "memory=lots",
                                       "arena=1",
                                       "arena=",
                                       "deadline_ms=0",
                                       "simd=x",
                                       "no-such=1",
                                       "deadline_ms",
                                       "bitstream=",
                                       "cache=",
                                       ",",
                                       "simd=1,,",
                                       "as=tpu",
                                       "slices=0",
                                       "tile=",
                                       "tile=64",
                                       "tile=64x64x8x8",
                                       "tile=64x64x8x8x8x8",
                                       "tile=64x64x8x3x8",
                                       "tile=64x64x0x8x8",
                                       "tile=48x64x8x8x8",
                                       "tile=64x128x8x8x16",
                                       "tile=512x64x8x8x8",
                                       "tile=32x64x8x8x8",
                                       "tile=64x64x8x8x8a",
                                       "tile=xxxx"};
  for (size_t i = 0; i < sizeof kWrong / sizeof *kWrong; i++)
    if (braid_cl_parse_options(kWrong[i], &options) != BRAID_INVALID_ARGUMENT) fail_msg("\"%s\" passes", kWrong[i]);
  assert_int_equal(
      braid_cl_parse_options("part=1,parts=2,memory=separate,arena=8192,deadline_ms=5,cu=2,simd=4,group=64,"
                             "unroll=8,cache=off,bitstream=x.aocx,as=gpu,slices=4,tile=128x64x16x8x8",
                             &options),
      BRAID_OK);
  assert_true(options.separate && options.part == 1 && options.parts == 2 && options.arena_bytes == 8192);
  assert_true(options.deadline_ms == 5 && options.knobs.units == 2 && options.knobs.simd == 4 &&
              options.knobs.group == 64);
  assert_true(options.knobs.unroll == 8 && strcmp(options.cache, "off") == 0 &&
              strcmp(options.bitstream, "x.aocx") == 0);
  assert_true(options.knobs.as_gpu && !options.knobs.as_cpu && options.knobs.slices == 4);
  assert_true(options.knobs.tile.rows == 128 && options.knobs.tile.columns == 64 && options.knobs.tile.depth == 16);
  assert_true(options.knobs.tile.work_rows == 8 && options.knobs.tile.work_columns == 8);
  assert_int_equal(braid_cl_parse_options(NULL, &options), BRAID_OK);
  assert_string_equal(options.cache, "");
  assert_int_equal(options.parts, 0);
  assert_int_equal(braid_cl_parse_options("simd=2,", &options), BRAID_OK);
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
static char folder[64];

static void make_folder(void) {
  strcpy(folder, "/tmp/braid-opencl-XXXXXX");
  assert_non_null(mkdtemp(folder));
}

/* Calls `each` with the path of every file in the folder; returns how many there are. */
static int for_files(void (*each)(const char *path)) {
  int count = 0;
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  for (struct dirent *entry; (entry = readdir(listing));) {
    char path[512];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    each(path);
    count++;
  }
  closedir(listing);
  return count;
}

static void remove_file(const char *path) {
  unlink(path);
}

static void remove_folder(void) {
  for_files(remove_file);
  rmdir(folder);
}

enum { kCount = 1003 };

/* Relu on the device gives what it should. */
static void check_relu(const char *spec) {
  test_node node;
  float x[kCount], y[kCount];
  for (int i = 0; i < kCount; i++) x[i] = (float)(i % 37 - 18);
  if (test_node_open(&node, registry, spec, "Relu", kCount) != BRAID_OK) fail_msg("%s: %s", spec, braid_error_detail());
  assert_int_equal(test_node_transfer(&node, 0, x, true), BRAID_OK);
  assert_int_equal(test_node_do(&node, &node.task), BRAID_OK);
  assert_int_equal(test_node_transfer(&node, 1, y, false), BRAID_OK);
  for (int i = 0; i < kCount; i++) assert_true(y[i] == (x[i] > 0 ? x[i] : 0));
  assert_true(node.timing.end_ns >= node.timing.start_ns && node.timing.start_ns > 0);
  test_node_close(&node);
}

static uint64_t entry_sum;

static void sum_file(const char *path) {
  braid_file_view view;
  assert_int_equal(braid_file_open(NULL, path, 0, &view), BRAID_OK);
  for (size_t i = 0; i < view.bytes; i++) entry_sum = entry_sum * 31 + view.data[i];
  braid_file_close(&view);
}

static long spoil_at;
static bool spoil_cuts;

static void spoil_file(const char *path) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, spoil_at, spoil_at < 0 ? SEEK_END : SEEK_SET), 0);
  long at = ftell(file);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 1, file);
  fclose(file);
  if (spoil_cuts) assert_int_equal(truncate(path, at), 0);
}

/* An entry that was changed anywhere is built anew, and the file is right again. */
static void test_cache(void **state) {
  (void)state;
  need_device();
  make_folder();
  char spec[128];
  snprintf(spec, sizeof spec, "opencl0:cache=%s", folder);
  check_relu(spec);
  check_relu(spec);
  static const struct {
    long at;
    bool cuts;
  } kSpoils[] = {{0, false},  {9, false},   {17, false}, {25, false}, {40, false},
                 {-1, false}, {-100, true}, {20, true},  {0, true}};
  for (size_t i = 0; i < sizeof kSpoils / sizeof *kSpoils; i++) {
    spoil_at = kSpoils[i].at;
    spoil_cuts = kSpoils[i].cuts;
    assert_int_equal(for_files(spoil_file), 1);
    entry_sum = 0;
    for_files(sum_file);
    uint64_t spoiled = entry_sum;
    check_relu(spec);
    entry_sum = 0;
    assert_int_equal(for_files(sum_file), 1);
    assert_true(entry_sum != spoiled);
  }
  remove_folder();
  snprintf(spec, sizeof spec, "opencl0:cache=/proc/nowhere");
  check_relu(spec); /* a folder that cannot be written is no error */
}

static void test_cache_entries(void **state) {
  (void)state;
  make_folder();
  const uint8_t binary[] = {1, 2, 3, 0, 255};
  size_t bytes;
  braid_launch_cache_store(NULL, folder, "key", 3, binary, sizeof binary);
  uint8_t *loaded = braid_launch_cache_load(NULL, folder, "key", 3, &bytes);
  assert_non_null(loaded);
  assert_int_equal(bytes, sizeof binary);
  assert_memory_equal(loaded, binary, bytes);
  braid_free(NULL, loaded);
  for (spoil_at = 0; spoil_at < 40; spoil_at++) {
    spoil_cuts = false;
    assert_int_equal(for_files(spoil_file), 1);
    assert_null(braid_launch_cache_load(NULL, folder, "key", 3, &bytes));
    for_files(spoil_file); /* back */
  }
  loaded = braid_launch_cache_load(NULL, folder, "key", 3, &bytes);
  assert_non_null(loaded);
  braid_free(NULL, loaded);
  remove_folder();
}

/* What the driver made of the program of the node, as a bitstream for the same device. */
static void write_bitstream(const char *path, const char *op) {
  test_node node;
  need_device();
  if (test_node_open(&node, registry, "opencl0:cache=off", op, kCount) != BRAID_OK)
    fail_msg("%s", braid_error_detail());
  const braid_cl_device *device = node.self;
  braid_launch_recipe recipe = {.launch_count = 0};
  assert_int_equal(
      ((const braid_launch_kernel *)node.kernel->implementation)->plan(&device->traits, &node.desc, &recipe), BRAID_OK);
  cl_program program;
  size_t bytes;
  if (braid_cl_program_get(device, &recipe.launches[0], &program) != BRAID_OK) fail_msg("%s", braid_error_detail());
  braid_launch_recipe_deinit(&recipe);
  uint8_t *binary = braid_cl_program_binary(device, program, &bytes);
  assert_non_null(binary);
  assert_int_equal(braid_file_write(NULL, path, binary, bytes), BRAID_OK);
  braid_free(NULL, binary);
  test_node_close(&node);
}

static void test_bitstream(void **state) {
  (void)state;
  need_device();
  make_folder();
  char path[128], spec[256];
  snprintf(path, sizeof path, "%s/relu.aocx", folder);
  write_bitstream(path, "Relu");
  snprintf(spec, sizeof spec, "opencl0:bitstream=%s", path);
  check_relu(spec);
  braid_device *device = open_device(spec);
  braid_launch launch = {.source = "elementwise", .function = "elemen"};
  char why[256];
  assert_false(braid_cl_program_is_possible(braid_device_self(device), &launch, why, sizeof why));
  assert_non_null(strstr(why, "relu.aocx has no kernel elemen, it has "));
  braid_device_close(device);
  snprintf(spec, sizeof spec, "opencl0:bitstream=%s/none.aocx", folder);
  assert_int_equal(braid_device_open(registry, spec, &device), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "none.aocx"));
  assert_int_equal(braid_file_write(NULL, path, "no program", 10), BRAID_OK);
  snprintf(spec, sizeof spec, "opencl0:bitstream=%s", path);
  assert_int_equal(braid_device_open(registry, spec, &device), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "relu.aocx"));
  remove_folder();
}

/* A kernel that does not compile: the compiler's words, with file, options and device. */
static void test_build_failure(void **state) {
  (void)state;
  braid_device *opened = open_device("opencl0:cache=off");
  braid_launch launch = {.source = "elementwise", .function = "elementwise", .options = "-DNONSENSE=1"};
  cl_program program;
  assert_int_equal(braid_cl_program_get(braid_device_self(opened), &launch, &program), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "elementwise.cl"));
  assert_non_null(strstr(braid_error_detail(), "-DNONSENSE=1"));
  assert_non_null(strstr(braid_error_detail(), "opencl0"));
  launch.source = "no-such-file";
  assert_int_equal(braid_cl_program_get(braid_device_self(opened), &launch, &program), BRAID_NOT_FOUND);
  braid_device_close(opened);
}

/* --- out of memory -------------------------------------------------------------------------------------------------
 */
static braid_status attempt(const braid_allocator *allocator, void *context) {
  braid_registry *own;
  test_node node = {0};
  braid_status status = braid_registry_create(allocator, &own);
  if (status == BRAID_OK) status = test_node_open(&node, own, context, "Add", 100);
  test_node_close(&node);
  braid_registry_destroy(own);
  return status;
}

static braid_status attempt_open(const braid_allocator *allocator, void *context) {
  braid_registry *own;
  braid_device *device = NULL;
  braid_status status = braid_registry_create(allocator, &own);
  if (status == BRAID_OK) status = braid_device_open(own, context, &device);
  braid_device_close(device);
  braid_registry_destroy(own);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  need_device();
  assert_true(oom_sweep(attempt, "opencl0") > 8);
  assert_true(oom_sweep(attempt, "opencl0:memory=separate") > 8);
  char path[128], spec[256];
  make_folder();
  snprintf(path, sizeof path, "%s/relu.aocx", folder);
  write_bitstream(path, "Relu");
  snprintf(spec, sizeof spec, "opencl0:bitstream=%s", path);
  assert_true(oom_sweep(attempt_open, spec) > 4);
  remove_folder();
}

static int set_up(void **state) {
  (void)state;
  registry = open_test_registry(NULL, NULL);
  return registry == NULL;
}

static int tear_down(void **state) {
  (void)state;
  braid_registry_destroy(registry);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory_of_its_own), cmocka_unit_test(test_parts),
      cmocka_unit_test(test_options),           cmocka_unit_test(test_cache),
      cmocka_unit_test(test_cache_entries),     cmocka_unit_test(test_bitstream),
      cmocka_unit_test(test_build_failure),     cmocka_unit_test(test_out_of_memory),
  };
  return skip_run_group_tests(tests, set_up, tear_down);
}
