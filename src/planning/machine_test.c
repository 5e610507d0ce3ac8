/* Platform and profile files that are refused, with the line and what was allowed. */
#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "planning/machine.h"

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    if ((call) != BRAID_OK) fail_msg("%s: %s", #call, braid_error_detail());                                           \
  } while (0)

#define PROFILE "source: s\nrows:\n  - {device: d, op: Relu, bytes: 100, ms: 1, average_watts: 5, peak_watts: 6}\n"
#define HEAD "name: m\nprofile: p\ndevices:\n  - name: a\n    class: gpu\n    profile: d\n"
#define DEVICE "  - {name: a, class: gpu, profile: d, idle_watts: 1}\n"

static void test_refused_platforms(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"name: m\n", "m.yaml: key profile is missing in the file, line: 1"},
      {"name: m\nprofile: p\ndevices: []\n", "(line: 3"},
      {"name: m\nprofile: p\ndevices:\n", "devices is empty, a list is expected, line: 3"},
      {"name: m\nprofile: p\ndevices: {a: 1}\n", "devices is keys with values, a list is expected, line: 3"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a}\n", "key class is missing in devices, line: 4"},
      {"name: m\nprofile: p\ndevices:\n  - a\n", "devices is a, keys with values are expected, line: 4"},
      {HEAD "    link: {}\n", "key gigabytes_per_second is missing in link, line: 7"},
      {HEAD "    link:\n", "link is empty, keys with values are expected, line: 7"},
      {HEAD "    link: [1]\n", "link is a list, keys with values are expected, line: 7"},
      {HEAD "    idle_watts: 1\n    memory_gigabytes: 4\n",
       "line 8: device a: memory_gigabytes, and no link: it works in the host's memory, which has no limit"},
      {HEAD "    clocks:\n      - {mhz: 1000, seconds: 1, watts: 1}\n      - {mhz: 800, seconds: 1, watts: 0.9}\n"
            "      - {mhz: 500, seconds: 0.5, watts: 0.5}\n",
       "line 10: seconds is 0.5 at 500 MHz and 1 at 800 MHz: a lower clock is no faster than a higher one"},
      {"name: m\nprofile: p\ndevices:\n" DEVICE DEVICE, "line 5: there are two devices named a"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: tpu, profile: d, idle_watts: 1}\n",
       "line 4: class \"tpu\""},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: -1}\n", "idle_watts is -1"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 50000}\n",
       "50000 of them, 1 to 16384 are expected"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: nan}\n", "idle_watts is nan"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a.b, class: gpu, profile: d, idle_watts: 1}\n",
       "device name \"a.b\""},
      {"name: m\nprofile: p\nvolts: 3\ndevices:\n" DEVICE, "Unexpected key: volts"},
      {"name: m\nprofile: p\ncap_watts: -3\ndevices:\n" DEVICE, "line 3: cap_watts is -3"},
      {"name: m\nprofile: p\ncap_watts: 0\ndevices:\n" DEVICE, "line 3: cap_watts is 0, a number from 0.001"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, cap_watts: 0}\n",
       "line 4: cap_watts is 0"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 0}\n",
       "line 4: device a: 0 of them, 1 to 16384 are expected"},
      {"name: m\nprofile: p\ndevices:\n  - {name: a, class: gpu, profile: d, idle_watts: 1, memory_gigabytes: 0}\n",
       "line 4: memory_gigabytes is 0"},
      {"name: m\nprofile: p\nexchange: {gigabytes_per_second: 1, bucket_megabytes: 0}\ndevices:\n"
       "  - {name: a, class: gpu, profile: d, idle_watts: 1, count: 2}\n",
       "line 3: bucket_megabytes is 0"},
      {"name: m\nprofile: p\ndevices:\n  - name: a\n    class: gpu\n    profile: d\n    idle_watts: 1\n    clocks:\n"
       "      - {mhz: 1000, seconds: 1, watts: 1}\n      - {mhz: 1200, seconds: 1, watts: 1}\n",
       "line 10: clocks go from the highest"},
      {"name: m\nprofile: p\ndevices:\n  - name: a\n    class: gpu\n    profile: d\n    idle_watts: 1\n    clocks:\n"
       "      - {mhz: 1000, seconds: 2, watts: 1}\n",
       "the first clock is the profile's"},
      {"name: m\nprofile: p\ndevices:\n  - name: a\n    class: gpu\n    profile: d\n    idle_watts: 1\n"
       "    link: {gigabytes_per_second: 0}\n",
       "line 8: gigabytes_per_second is 0"},
      {HEAD "    count: 1e3\n", "count is 1e3, a whole number without a 0 before its digits is expected, line: 7"},
      {HEAD "    count: 2.9\n", "count is 2.9, a whole number"},
      {HEAD "    count: 3x\n", "count is 3x, a whole number"},
      {HEAD "    count: 010\n", "count is 010, a whole number"},
      {HEAD "    count: 0x10\n", "count is 0x10, a whole number"},
      {HEAD "    count: 1e99\n", "count is 1e99, a whole number"},
      {HEAD "    count:\n", "count is empty, a whole number"},
      {HEAD "    idle_watts: 41W\n", "idle_watts is 41W, a number is expected, line: 7"},
      {HEAD "    idle_watts: 0x29\n", "idle_watts is 0x29, a number"},
      {HEAD "    idle_watts: 4,1\n", "idle_watts is 4,1, a number"},
      {HEAD "    idle_watts: 1e999\n", "idle_watts is 1e999, a number"},
      {HEAD "    clocks:\n      - {mhz: 1000, seconds: 1, watts: 1/2}\n",
       "watts is 1/2, a number is expected, line: 8"},
      {HEAD "    idle_watts: 4\n    idel_watts: 1\n",
       "Unexpected key: idel_watts, line: 8; there are name, class, profile, count, idle_watts, "},
      {HEAD "    idle_watts: 4\n    idle_watts: 1\n", "key idle_watts comes twice, line: 8"},
      {"name: \"e\\e[31mred\"\nprofile: p\ndevices:\n" DEVICE, "a text holds control characters, line: 1"},
      {"name: m\nprofile: p\ndevices:\n  - &d {name: a, class: gpu, profile: d}\n",
       "no anchors and aliases here, line: 4"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_machine_file *file;
    assert_int_equal(braid_machine_file_parse("m.yaml", cases[i].text, strlen(cases[i].text), &file),
                     BRAID_INVALID_FILE);
    assert_null(file);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
}

static void test_refused_profiles(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 0, ms: 1}\n", "line 3: bytes is 0"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: -1}\n", "ms is -1"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: inf}\n", "ms is inf"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1, average_watts: 9, peak_watts: 8}\n",
       "below the average"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1, devices: 65}\n", "65 devices"},
      {"source: s\nothers: Mul\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1}\n", "line 2: \"Mul\" has no rows"},
      {"source: s\nlikenesses:\n  - {op: A, as: B}\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1}\n",
       "\"B\" has no rows"},
      {"source: s\nrows: []\n", "(line: 2"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1}\n", "p.yaml: key ms is missing in rows, line: 3"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1, devices: 0}\n",
       "line 3: 0 devices, 1 to 64 are expected"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1, average_watts: 0}\n",
       "line 3: average_watts is 0"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1, gigabytes_per_second: 1e8}\n",
       "line 3: gigabytes_per_second is 1e+08"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1k, ms: 1}\n", "bytes is 1k, a number is expected, line: 3"},
      {"source: s\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1}\n  - {device: d, op: Relu, bytes: 2, ms: 1}\n"
       "  - {device: d, op: Relu, devices: 2, bytes: 1, ms: 1}\n  - {device: d, op: Relu, bytes: 1.0, ms: 2}\n",
       "line 6: line 3 has a row of Relu on 1 d at 1 bytes already"},
      {"source: s\nrows:\n  - {device: \"a\\e[31m\", op: Relu, bytes: 1, ms: 1}\n", "control characters, line: 3"},
      {"source: s\nrows:\n  - {device: \"a\\tb\", op: Relu, bytes: 1, ms: 1}\n", "line 3: a text holds control"},
      {"source: s\nlikenesses:\n  - {op: \"A\\nB\", as: Relu}\nrows:\n  - {device: d, op: Relu, bytes: 1, ms: 1}\n",
       "line 3: a text holds control"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_profile *profile;
    assert_int_equal(braid_profile_parse("p.yaml", cases[i].text, strlen(cases[i].text), &profile), BRAID_INVALID_FILE);
    assert_null(profile);
    if (!strstr(braid_error_detail(), cases[i].said)) fail_msg("%s: %s", cases[i].said, braid_error_detail());
  }
}

/* What an operation draws has the idle power in it: of all devices that share it. */
static void test_idle_power(void **state) {
  (void)state;
  static const char rows[] = PROFILE "  - {device: d, devices: 2, op: Relu, bytes: 100, ms: 1, average_watts: 9}\n";
  static const struct {
    const char *text, *said;
  } cases[] = {
      {HEAD "    idle_watts: 4.5\n", NULL},
      {HEAD "    idle_watts: 4.6\n",
       "line 7: device a: idle_watts is 4.6, more than the 9 W that Relu draws at 100 bytes "
       "on 2 of them"},
      {HEAD "    count: 2\n    idle_watts: 50\n", "line 8: device a: idle_watts is 50, more than the 5 W that Relu"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    braid_profile *profile;
    braid_modelled_machine *machine;
    OK(braid_profile_parse("p.yaml", rows, strlen(rows), &profile));
    braid_status status =
        braid_modelled_machine_make(NULL, "m.yaml", cases[i].text, strlen(cases[i].text), profile, &machine);
    braid_modelled_machine_destroy(machine);
    assert_int_equal(status, cases[i].said ? BRAID_INVALID_FILE : BRAID_OK);
    if (cases[i].said && !strstr(braid_error_detail(), cases[i].said)) fail_msg("%s", braid_error_detail());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused_platforms),
      cmocka_unit_test(test_refused_profiles),
      cmocka_unit_test(test_idle_power),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
