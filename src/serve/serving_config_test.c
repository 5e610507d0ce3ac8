/* The daemon's configuration: defaults, and what is refused with the line that has it. */
#include "serve/serving_config.h"

#include <string.h>

#include "skip.h"

static void test_defaults(void **state) {
  (void)state;
  static const char kText[] = "models:\n  - {name: a, path: a.onnx}\n";
  braid_serve_config *config;
  assert_int_equal(braid_serve_config_parse("c.yaml", kText, strlen(kText), &config), BRAID_OK);
  assert_string_equal(config->address, "127.0.0.1");
  assert_int_equal(config->port, 8000);
  assert_int_equal(config->devices_count, 1);
  assert_string_equal(config->devices[0].device, "cpu");
  assert_string_equal(config->models[0].version, "1");
  assert_string_equal(config->models[0].batch_bits, "same");
  assert_int_equal(config->tenants_count, 1);
  assert_true(config->tenants[0].admin);
  assert_true(config->tenants[0].share == 1);
  assert_int_equal(config->tenants[0].max_requests, 256);
  assert_int_equal(config->tenants[0].max_bytes, 256 << 20);
  braid_serve_config_free(config);
}

static void test_shares(void **state) {
  (void)state;
  static const char kText[] =
      "models:\n  - {name: a, path: a.onnx}\ntenants:\n"
      "  - {name: a, token: x, share: 0.5, max_requests: 7}\n  - {name: b, token: y}\n  - {name: c}\n";
  braid_serve_config *config;
  assert_int_equal(braid_serve_config_parse("c.yaml", kText, strlen(kText), &config), BRAID_OK);
  assert_true(config->tenants[1].share == 0.25 && config->tenants[2].share == 0.25);
  assert_false(config->tenants[0].admin);
  assert_int_equal(config->tenants[0].max_requests, 7);
  assert_int_equal(config->tenants[1].max_requests, 256);
  assert_null(config->tenants[0].shared_memory);
  braid_serve_config_free(config);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } kCases[] = {
      {"", "c.yaml"},
      {"port: 1\n", "models"},
      {"models: []\n", "c.yaml"},
      {"port: 70000\nmodels:\n  - {name: a, path: p}\n", "line 1: port is 70000"},
      {"models:\n  - {name: a, path: p}\n  - {name: a, path: p}\n", "line 3: there are two models named a"},
      {"models:\n  - {name: a/b, path: p}\n", "line 2: the name \"a/b\""},
      {"models:\n  - {name: a, path: p, device: gpu}\n", "no device named gpu"},
      {"models:\n  - {name: a, path: p, max_batch: 65}\n", "max_batch is 65"},
      {"models:\n  - {name: a, path: p, batch_bits: most}\n", "expected same or any"},
      {"models:\n  - {name: a, path: p, colour: red}\n", "colour"},
      {"models:\n  - {name: a, path: p, lazy: maybe}\n", "maybe"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, admin: maybe}\n", "maybe"},
      {"models:\n  - {name: a, path: p}\ndevices:\n  - {name: t, remote: far}\n", "far"},
      {"models:\n  - {name: a, path: p, deadline_ms: -1}\n", "deadline_ms is -1"},
      {"devices:\n  - name: c\n    device: overlay\n    cores: some\nmodels:\n  - {name: a, path: p}\n",
       "line 4: cores is some, expected private or public"},
      {"devices:\n  - name: c\n    device: cpu\n    cores: public\nmodels:\n  - {name: a, path: p}\n",
       "line 3: device c has cores to share"},
      {"devices:\n  - name: c\n    device: overlays\n    cores: public\nmodels:\n  - {name: a, path: p}\n",
       "line 3: device c has cores to share"},
      {"devices:\n  - {name: c, device: overlay, cores: public,\n     instances: 2}\nmodels:\n  - {name: a, path: p}\n",
       "line 3: instances is 2"},
      {"devices:\n  - {name: c, device: overlay, cores: public,\n     threads: 2}\nmodels:\n  - {name: a, path: p}\n",
       "line 3: threads is 2"},
      {"devices:\n  - {name: c, device: overlay, cores: public,\n     remote: true}\nmodels:\n  - {name: a, path: p}\n",
       "line 3: remote is true"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t,\n     cores: 2}\n",
       "line 5: cores is 2, and no device"},
      {"devices:\n  - {name: c, device: overlay, cores: public}\nmodels:\n  - {name: a, path: p}\ntenants:\n"
       "  - {name: t, cores: 65}\n",
       "line 6: cores is 65, expected 0 (the default) to 64"},
      {"devices:\n  - {name: c, device: overlay, cores: public}\nmodels:\n  - {name: a, path: p}\ntenants:\n"
       "  - {name: t, cores: -1}\n",
       "line 6: cores is -1"},
      {"wire_port: 65536\nmodels:\n  - {name: a, path: p}\n", "line 1: wire_port is 65536"},
      {"spin_us: 1001\nmodels:\n  - {name: a, path: p}\n", "line 1: spin_us is 1001"},
      {"wire_authority: c\nmodels:\n  - {name: a, path: p}\n", "line 1: wire_authority is of clients over TLS"},
      {"cluster: {node_authority: c}\nmodels:\n  - {name: a, path: p}\n", "line 1: the cluster's node_authority"},
      {"power_cap_watts: -1\nmodels:\n  - {name: a, path: p}\n", "line 1: power_cap_watts is -1"},
      {"power_cap_watts: 50\nmodels:\n  - {name: a, path: p}\n", "line 1: power_cap_watts takes run_watts"},
      {"power_cap_watts: 50\ndevices:\n  - {name: c, idle_watts: 30, run_watts: 10}\n  - {name: d, idle_watts: 15, "
       "run_watts: 5}\nmodels:\n  - {name: a, path: p}\n",
       "line 1: power_cap_watts is 50, under which device c cannot run: all devices idle take 45"},
      {"power_cap_watts: 40\ntraining_watts: 30\ndevices:\n  - {name: c, idle_watts: 15, run_watts: 5}\nmodels:\n  - "
       "{name: a, path: p}\n",
       "line 1: power_cap_watts is 40, under which training beside could never compute"},
      {"devices:\n  - {name: c, run_watts: .inf}\nmodels:\n  - {name: a, path: p}\n", "run_watts is .inf"},
      {"trace:\n  endpoint: here:4318\nmodels:\n  - {name: a, path: p}\n", "line 2: endpoint is \"here:4318\""},
      {"trace:\n  sample: 1.5\nmodels:\n  - {name: a, path: p}\n", "line 2: sample is 1.5"},
      {"trace:\n  sample: .nan\nmodels:\n  - {name: a, path: p}\n", "sample is"},
      {"trace:\n  file: f\n  file_max_bytes: 5\nmodels:\n  - {name: a, path: p}\n", "line 3: file_max_bytes is 5"},
      {"trace: {colour: red}\nmodels:\n  - {name: a, path: p}\n", "colour"},
      {"devices:\n  - {name: c, device: \"overlay:design=cnn-16x512\",\n     remote: true}\nmodels:\n  - {name: a, "
       "path: p}\n",
       "line 3: remote is true: device c is of the overlay"},
      {"devices:\n  - {name: c, device: \"overlay,cpu\", remote: true}\nmodels:\n  - {name: a, path: p}\n",
       "line 2: remote is true"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, max_requests: 0}\n",
       "line 4: max_requests is 0, expected 1 to 1048576"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, max_requests: -1}\n", "line 4: max_requests is -1"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t,\n     max_bytes: 0}\n", "line 5: max_bytes is 0"},
      {"certificate: c.pem\nmodels:\n  - {name: a, path: p}\n", "line 1: TLS takes both"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, token: x}\n  - {name: u, token: x}\n",
       "line 5: tenants t and u"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t}\n  - {name: u}\n", "both none"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, token_sha256: abc}\n", "64 lower-case"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, token: x, share: 0.7}\n  - {name: u, share: 0.4}\n",
       "1.1 together"},
      {"models:\n  - {name: a, path: p}\ntenants:\n  - {name: t, priority: 10}\n", "priority is 10"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_serve_config *config;
    braid_status status = braid_serve_config_parse("c.yaml", kCases[i].text, strlen(kCases[i].text), &config);
    if (status != BRAID_INVALID_FILE || config || !strstr(braid_error_detail(), kCases[i].says))
      fail_msg("case %zu: %s, \"%s\", not \"%s\"", i, braid_status_text(status), braid_error_detail(), kCases[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults), cmocka_unit_test(test_shares),
                                     cmocka_unit_test(test_refusals)};
  return skip_run_group_tests(tests, NULL, NULL);
}
