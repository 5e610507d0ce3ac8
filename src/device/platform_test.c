/* Platform files: what they name, what is refused and how it is said, and devices opened by those names. */
#include "device/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/device.h"
#include "braid/log.h"
#include "oom.h"

static const char kSplit[] = "devices:\n"
                             "  - name: fpga0\n"
                             "    device: opencl0\n"
                             "    options: memory=separate\n"
                             "    parts: 2\n"
                             "    part_options: [unroll=4, \"unroll=8,simd=2\"]\n"
                             "  - {name: card, device: \"null\", options: memory=65536}\n";

static braid_platform *parse(const char *text) {
  braid_platform *platform;
  braid_status status = braid_platform_parse("p.yaml", text, strlen(text), &platform);
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
  return platform;
}

static void test_names(void **state) {
  (void)state;
  braid_platform *platform = parse(kSplit);
  int64_t part;
  const braid_platform_device *fpga = braid_platform_find(platform, "fpga0", &part);
  assert_non_null(fpga);
  assert_int_equal(part, -1);
  assert_ptr_equal(braid_platform_find(platform, "fpga0.1", &part), fpga);
  assert_int_equal(part, 1);
  for (size_t i = 0; i < 6; i++)
    assert_null(braid_platform_find(
        platform, ((const char *[]){"fpga0.2", "fpga0.-1", "fpga0.", "fpga0.x", "fpga", "card.0"})[i], &part));
  assert_null(braid_platform_find(NULL, "fpga0", &part));
  char options[64];
  assert_true(braid_platform_options(fpga, 1, "cu=3", options, sizeof options));
  assert_string_equal(options, "part=1,parts=2,memory=separate,unroll=8,simd=2,cu=3");
  assert_true(braid_platform_options(fpga, -1, "", options, sizeof options));
  assert_string_equal(options, "memory=separate");
  assert_false(braid_platform_options(fpga, 0, "", options, 20));
  braid_platform_free(platform);
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "empty"},
      {"devices:\n", "line"},
      {"devices: []\n", "line"},
      {"devices:\n  - {device: cpu}\n", "name"},
      {"devices:\n  - {name: a}\n", "device"},
      {"devices:\n  - {name: a, device: cpu, parst: 2}\n", "parst"},
      {"devices:\n  - {name: a, device: cpu, parts: two}\n", "two"},
      {"devices:\n  - {name: a, device: cpu, parts: -1}\n", "line 2: device a: -1 parts"},
      {"devices:\n  - name: a\n    device: cpu\n    parts: 65\n", "line 4: device a: 65 parts"},
      {"devices:\n  - {name: a, device: cpu, parts: 99999999999999999999}\n", "99999999999999999999"},
      {"devices:\n  - {name: a.b, device: cpu}\n", "line 2: device name \"a.b\""},
      {"devices:\n  - {name: 1, device: cpu}\n", "line 2: device name"},
      {"devices:\n  - {name: a, device: cpu}\n  - {name: a, device: cpu}\n", "line 3: there are two devices"},
      {"devices:\n  - {name: a, device: cpu, part_options: [x=1]}\n", "line 2: device a: part_options"},
      {"devices:\n  - &x {name: a, device: cpu}\n  - *x\n", "line"},
      {"devices: [[[[[[[[[[", "line"},
      {"\x01\xff", "p.yaml"},
      {"devices:\n  - name: a\n    device: \"cpu\\0x\"\n", "a byte of value 0, line: 3"},
      {"devices:\n  - {name: a, device: cpu, \"parts\\x00\": 2}\n", "a byte of value 0, line: 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_platform *platform;
    assert_int_equal(braid_platform_parse("p.yaml", cases[i].text, strlen(cases[i].text), &platform),
                     BRAID_INVALID_FILE);
    assert_null(platform);
    print_message("%s\n", braid_error_detail());
    assert_non_null(strstr(braid_error_detail(), "p.yaml"));
    assert_true(!cases[i].text[0] || strstr(braid_error_detail(), "line"));
    assert_non_null(strstr(braid_error_detail(), cases[i].said));
  }
}

/* Within the size of files, what takes libyaml hours is refused at once. */
static void test_refused_at_once(void **state) {
  (void)state;
  static const struct {
    const char *first, *again, *said;
  } cases[] = {{"devices: ", "[", "more than 64 lists and mappings in each other, line: 1"},
               {"devices: ", "{a: ", "more than 64 lists and mappings in each other, line: 1"},
               {"devices:\n", "- ", "more than 64 lists and mappings in each other, line: 2"},
               {"devices:\n", "? ", "more than 64 lists and mappings in each other, line: 2"},
               {"%YAML 1.1\n", "%TAG !a! x\n", "no tags here that %TAG could abbreviate, line: 2"},
               {"devices: []\n--- \nx: []\n...\n", "%TAG !a! x\n", "no tags here that %TAG could abbreviate, line: 5"}};
  enum { kBytes = 1000000 };
  char *text = malloc(kBytes + 64);
  assert_non_null(text);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_platform *platform;
    size_t length = (size_t)snprintf(text, kBytes, "%s", cases[i].first), more = strlen(cases[i].again);
    for (; length < kBytes; length += more) memcpy(text + length, cases[i].again, more);
    assert_int_equal(braid_platform_parse("p.yaml", text, length, &platform), BRAID_INVALID_FILE);
    assert_non_null(strstr(braid_error_detail(), cases[i].said));
  }
  free(text);
}

static void write_text(char *path, const char *text) {
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, strlen(text)), strlen(text));
  close(file);
}

static char said[4096];

static void hear_log(void *context, braid_log_level level, const char *message) {
  (void)context, (void)level;
  size_t used = strlen(said);
  snprintf(said + used, sizeof said - used, "%s\n", message);
}

static void test_registry(void **state) {
  (void)state;
  char path[] = "/tmp/braid-platform-XXXXXX";
  write_text(path, "devices:\n  - {name: card, device: \"null\", options: memory=65536}\n"
                   "  - {name: gone, device: nothing, parts: 3}\n"
                   "  - {name: odd, device: \"null\", options: no_such_option=1}\n"
                   "  - {name: split, device: \"null\", parts: 2, part_options: [memory=4096, no_such_option=1]}\n");
  braid_registry *registry;
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  braid_registry_set_log(registry, &(braid_log){hear_log, NULL});
  size_t before, after;
  assert_int_equal(braid_registry_devices(registry, NULL, 0, &before), BRAID_OK);
  assert_int_equal(braid_registry_load_platform(registry, "/nowhere/p.yaml"), BRAID_NOT_FOUND);
  assert_int_equal(braid_registry_load_platform(registry, path), BRAID_OK);
  assert_int_equal(braid_registry_load_platform(registry, path), BRAID_INVALID_ARGUMENT);
  unlink(path);
  braid_device_info *infos = calloc(before + 2, sizeof *infos);
  assert_int_equal(braid_registry_devices(registry, infos, before + 2, &after), BRAID_OK);
  /* what cannot be opened is not listed: a device of nothing, options that the backend does not know */
  assert_int_equal(after, before + 2);
  assert_string_equal(infos[before].name, "card");
  assert_string_equal(infos[before + 1].name, "split");
  free(infos);
  assert_non_null(strstr(said, "gone.2 is not listed, for it cannot be opened: "));
  assert_non_null(strstr(said, "no_such_option"));
  braid_device *device;
  assert_int_equal(braid_device_open(registry, "card", &device), BRAID_OK);
  assert_string_equal(braid_device_get_info(device)->name, "card");
  assert_int_equal(braid_device_get_info(device)->memory_bytes, 65536);
  braid_device_close(device);
  assert_int_equal(braid_device_open(registry, "gone.1", &device), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "nothing"));
  assert_int_equal(braid_device_open(registry, "gone.3", &device), BRAID_NOT_FOUND);
  assert_non_null(strstr(braid_error_detail(), "gone.0 to gone.2"));
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_refused_at_once), cmocka_unit_test(test_registry)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
