/* Training beside the daemon: gates are open while it has nothing to do, and only then; a run waits for the power that
 * training has, but not for training that does not rest; the power cap holds. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

#include "serve/wire/wire_check.h"

static const char kConfig[] = "devices:\n"
                              "  - {name: cpu, threads: 1, instances: 2, idle_watts: 20, run_watts: 25}\n"
                              "models:\n"
                              "  - {name: lenet, path: " BRAID_MODELS "/lenet.cfg}\n"
                              "  - {name: slow, path: " BRAID_MODELS "/lenet.cfg, batch_bits: any, max_batch: 8, "
                              "delay_ms: 300}\n"
                              "tenants:\n"
                              "  - {name: ann, token: a}\n"
                              "  - {name: night, token: n, train: true}\n";

static void expect(braid_client_status got, braid_client_status wanted, const char *text) {
  if (got != wanted || (text && !strstr(braid_client_error(), text)))
    fail_msg("%d (%s), not %d (%s)", got, braid_client_error(), wanted, text ? text : "");
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static braid_client_call *submit(braid_client *client, const char *model) {
  braid_client_call *call;
  braid_client_tensor input = {.name = "input",
                               .dtype = BRAID_CLIENT_F32,
                               .rank = 4,
                               .dims = {1, 1, 28, 28},
                               .data = image[0],
                               .bytes = sizeof image[0]};
  braid_client_launch_options launch = {.model = model, .inputs = &input, .input_count = 1};
  expect(braid_client_submit(client, &launch, &call), BRAID_CLIENT_OK, NULL);
  return call;
}

static void launch(braid_client *client, const char *model) {
  braid_client_call *call = submit(client, model);
  expect(braid_client_wait(call, -1), BRAID_CLIENT_OK, NULL);
  size_t count;
  assert_memory_equal(braid_client_outputs(call, &count)[0].data, expected[0], sizeof expected[0]);
  braid_client_release(call);
}

/* The one training that the daemon knows. */
static braid_serve_harvester_view look(braid_server *server) {
  braid_serve_harvester_view view;
  double open;
  assert_true(braid_serve_harvest_look(server->harvest, 0, &view, &open));
  return view;
}

static void test_gate(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_client *asks = wire_connect(wire_address(), "a"), *trains = wire_connect(wire_address(), "n");
  braid_client_harvest *harvest, *second;
  expect(braid_client_harvest_begin(asks, &harvest), BRAID_CLIENT_FORBIDDEN, "tenant ann may not train");
  expect(braid_client_harvest_begin(trains, &harvest), BRAID_CLIENT_OK, NULL);
  expect(braid_client_harvest_begin(trains, &second), BRAID_CLIENT_INVALID, "trains already");
  assert_null(second);
  for (int round = 0; round < 3; round++) {
    expect(braid_client_harvest_wait(harvest, 1000), BRAID_CLIENT_OK, NULL);
    braid_client_call *call = submit(asks, "slow"); /* waits for company */
    while (look(server).open) wire_pause(1);
    expect(braid_client_harvest_wait(harvest, 20), BRAID_CLIENT_TIMEOUT, "not idle");
    double began = now_ms();
    expect(braid_client_harvest_wait(harvest, 5000), BRAID_CLIENT_OK, NULL); /* woken by the end of the request */
    assert_true(now_ms() - began > 100);
    expect(braid_client_wait(call, 0), BRAID_CLIENT_OK, NULL);
    braid_client_release(call);
  }
  braid_serve_harvester_view view = look(server);
  assert_string_equal(view.tenant, "night");
  assert_int_equal(view.pid, getpid());
  assert_true(view.cpu_seconds > 0 && view.seconds > 0.5);
  braid_client_harvest_end(harvest);
  expect(braid_client_harvest_begin(trains, &harvest), BRAID_CLIENT_OK, NULL); /* again */
  assert_true(braid_client_is_connected(trains));
  braid_server_destroy(server, 0);
  assert_false(braid_client_is_connected(trains));
  expect(braid_client_harvest_wait(harvest, -1), BRAID_CLIENT_OK, NULL); /* its gate stays as it was */
  braid_client_harvest_end(harvest);
  braid_client_close(trains);
  braid_client_close(asks);
}

/* A client that dies while it trains: as bytes, since the library's functions would say the end. */
static void test_connection_that_goes(void **state) {
  (void)state;
  braid_server *server = wire_start(kConfig);
  braid_wire_writer writer = {0};
  braid_serve_harvester_view view;
  double open;
  int file = raw_hello("n"), memory = memfd_create("gate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(memory >= 0 && ftruncate(memory, 4096) == 0);
  assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  braid_wire_begin(&writer, BRAID_WIRE_MEMORY, 2);
  braid_wire_put_number(&writer, 1, 4);
  braid_wire_put_number(&writer, 4096, 8);
  braid_wire_end(&writer, 0);
  raw_send_with(file, writer.data, writer.length, memory);
  raw_expect(file, 200, NULL);
  close(memory);
  braid_wire_begin(&writer, BRAID_WIRE_HARVEST, 3);
  braid_wire_put_number(&writer, 2, 4);
  raw_send(file, &writer);
  raw_expect(file, 404, "no memory 2");
  braid_wire_begin(&writer, BRAID_WIRE_HARVEST, 4);
  braid_wire_put_number(&writer, 1, 4);
  raw_send(file, &writer);
  raw_expect(file, 200, NULL);
  braid_wire_begin(&writer, BRAID_WIRE_UNMAP, 5); /* the gate keeps it */
  braid_wire_put_number(&writer, 1, 4);
  raw_send(file, &writer);
  raw_expect(file, 200, NULL);
  assert_true(look(server).open);
  close(file);
  for (int i = 0; i < 3000 && braid_serve_harvest_look(server->harvest, 0, &view, &open); i++) wire_pause(1);
  assert_false(braid_serve_harvest_look(server->harvest, 0, &view, &open));
  expect_quota(server, 1, 0);
  braid_wire_free(&writer);
  braid_server_destroy(server, 0);
}

/* --- power ---------------------------------------------------------------------------------------------------------
 */
typedef struct trainer {
  braid_client_harvest *harvest;
  int stop; /* atomic */
  int piece_ms;
} trainer;

static void *train(void *context) {
  trainer *t = context;
  while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE))
    if (braid_client_harvest_wait(t->harvest, 50) == BRAID_CLIENT_OK) wire_pause(t->piece_ms);
  return NULL;
}

static braid_server *start_capped(int watts, int training) {
  char config[2048];
  snprintf(config, sizeof config, "power_cap_watts: %d\ntraining_watts: %d\n%s", watts, training, kConfig);
  return wire_start(config);
}

/* Under a cap that does not hold training and a run together: most milliseconds of a launch in pieces of training. */
static double longest_beside(int piece_ms, int watts, double *out_peak) {
  braid_server *server = start_capped(watts, 30);
  braid_client *asks = wire_connect(wire_address(), "a"), *trains = wire_connect(wire_address(), "n");
  trainer t = {.piece_ms = piece_ms};
  pthread_t thread;
  double longest = 0;
  expect(braid_client_harvest_begin(trains, &t.harvest), BRAID_CLIENT_OK, NULL);
  assert_int_equal(pthread_create(&thread, NULL, train, &t), 0);
  for (int i = 0; i < 10; i++) {
    wire_pause(3 + i);
    double began = now_ms();
    launch(asks, "lenet");
    double took = now_ms() - began;
    longest = took > longest ? took : longest;
  }
  *out_peak = braid_serve_supply_look(server->supply).peak_watts;
  __atomic_store_n(&t.stop, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  braid_client_harvest_end(t.harvest);
  braid_client_close(trains);
  braid_client_close(asks);
  braid_server_destroy(server, 0);
  return longest;
}

static void test_runs_wait_for_training_to_rest(void **state) {
  (void)state;
  double peak;
  assert_true(longest_beside(30, 60, &peak) > 5); /* 20 + 30 + 25 do not fit */
  assert_true(peak <= 60 && peak >= 50);
  assert_true(longest_beside(2000, 60, &peak) >= 90); /* whoever does not rest is not waited for for ever */
  assert_true(peak <= 60);
  (void)longest_beside(30, 80, &peak); /* both fit */
  assert_true(peak == 75);
}

/* Two instances under a cap for one, asked by four: one at a time, and all are answered. */
static void *ask(void *context) {
  (void)context;
  braid_client *client = wire_connect(wire_address(), "a");
  for (int i = 0; i < 200; i++) launch(client, "lenet");
  braid_client_close(client);
  return NULL;
}

static void test_cap_over_instances(void **state) {
  (void)state;
  for (int watts = 45; watts <= 70; watts += 25) {
    braid_server *server = start_capped(watts, 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    braid_serve_supply_view view = braid_serve_supply_look(server->supply);
    assert_true(view.peak_watts == watts); /* 45: a run; 70: two */
    assert_true(view.now_watts == 20);
    assert_true((view.waits > 0) == (watts == 45));
    uint64_t uj = server->tenants[0].usage.energy_uj;
    assert_true(uj > 0 && (double)uj * 1e-6 < 1.01 * view.run_joules);
    braid_server_destroy(server, 0);
  }
}

/* Three devices under a cap for one run: a request that becomes late while it waits for the cap lets those behind it
 * through. */
static void test_cap_over_devices(void **state) {
  (void)state;
  static const char kThree[] =
      "power_cap_watts: 40\n"
      "devices:\n"
      "  - {name: c, threads: 1, idle_watts: 10, run_watts: 10}\n"
      "  - {name: a, threads: 1, idle_watts: 10, run_watts: 10}\n"
      "  - {name: b, threads: 1, idle_watts: 10, run_watts: 10}\n"
      "models:\n"
      "  - {name: on_c, device: c, path: " BRAID_MODELS "/lenet.cfg}\n"
      "  - {name: on_a, device: a, path: " BRAID_MODELS "/lenet.cfg, max_batch: 8, batch_bits: any}\n"
      "  - {name: on_b, device: b, path: " BRAID_MODELS "/lenet.cfg}\n";
  enum { kRowsOnA = 200 };
  braid_server *server = wire_start(kThree);
  braid_client *client = wire_connect(wire_address(), NULL);
  float *rows = calloc(kRowsOnA, sizeof image[0]);
  braid_client_tensor many = {.name = "input",
                              .dtype = BRAID_CLIENT_F32,
                              .rank = 4,
                              .dims = {kRowsOnA, 1, 28, 28},
                              .data = rows,
                              .bytes = kRowsOnA * sizeof image[0]},
                      one = many;
  one.dims[0] = 1;
  one.bytes = sizeof image[0];
  double whole_ms = 1e9; /* of the run on a, at the end of which b's request is late */
  for (int i = 0; i < 5; i++) {
    braid_client_call *call;
    double began = now_ms();
    expect(braid_client_launch(
               client, &(braid_client_launch_options){.model = "on_a", .inputs = &many, .input_count = 1}, &call),
           BRAID_CLIENT_OK, NULL);
    whole_ms = fmin(whole_ms, now_ms() - began);
    braid_client_release(call);
  }
  for (int i = 0; i < 60; i++) {
    braid_client_call *calls[3];
    braid_client_launch_options launches[] = {
        {.model = "on_a", .inputs = &many, .input_count = 1},
        {.model = "on_b", .inputs = &one, .input_count = 1, .deadline_us = (int64_t)(whole_ms * (600 + 8 * i))},
        {.model = "on_c", .inputs = &one, .input_count = 1}};
    for (int k = 0; k < 3; k++) expect(braid_client_submit(client, &launches[k], &calls[k]), BRAID_CLIENT_OK, NULL);
    expect(braid_client_wait(calls[2], 5000), BRAID_CLIENT_OK, NULL);
    braid_client_status late = braid_client_wait(calls[1], 5000);
    assert_true(late == BRAID_CLIENT_OK || late == BRAID_CLIENT_LATE || late == BRAID_CLIENT_UNAVAILABLE);
    expect(braid_client_wait(calls[0], 5000), BRAID_CLIENT_OK, NULL);
    for (int k = 0; k < 3; k++) braid_client_release(calls[k]);
  }
  assert_true(braid_serve_supply_look(server->supply).peak_watts == 40);
  free(rows);
  braid_client_close(client);
  braid_server_destroy(server, 0);
}

static int prepare(void **state) {
  compute_expected();
  return make_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gate),
      cmocka_unit_test(test_connection_that_goes),
      cmocka_unit_test(test_runs_wait_for_training_to_rest),
      cmocka_unit_test(test_cap_over_instances),
      cmocka_unit_test(test_cap_over_devices),
  };
  return skip_run_group_tests(tests, prepare, remove_folder);
}
