/* What a card counts, by libraries that pass for the driver and for CUPTI (tests/libraries/cuda.c, cupti.c): what a
 * launch counts is known, so is what a profile must have. Each case has a child of its own. */
#include "backend/cuda/cuda_children.h"

#include <math.h>
#include <string.h>

#include "../../tests/libraries/cupti.h"
#include "backend/cuda/counters.h"
#include "backend/opencl/test_node.h"
#include "braid/profile.h"
#include "folder.h"
#include "planning/machine.h"
#include "profile/database.h"
#include "skip.h"

enum {
#define NUMBER(member, name, argument) k_##member,
  BRAID_CUPTI_FUNCTIONS(NUMBER)
#undef NUMBER
};

static int (*left)(void); /* sessions and ranges of CUPTI that are open */

static bool preload_cupti(const char *name) {
  void *library = preload(name);
  return library &&
         (strcmp(name, "cupti_cards.so") != 0 || braid_library_find(library, "fake_cupti_left", &left, sizeof left));
}

/* --- counting ------------------------------------------------------------------------------------------------------
 */
typedef struct work {
  test_node node;
  int calls, launches;
  braid_status then;
} work;

static braid_status do_work(void *context) {
  work *w = context;
  w->calls++;
  for (int i = 0; i < w->launches; i++)
    if (test_node_do(&w->node, &w->node.task) != BRAID_OK) return braid_verdict_status(&w->node.verdict);
  return w->then == BRAID_OK ? BRAID_OK : braid_fail(w->then, "this work fails");
}

static int begin_work(work *w, braid_registry **registry, const char *spec) {
  *w = (work){.launches = 3};
  EXPECT(preload_cupti("cupti_cards.so"));
  EXPECT(braid_registry_create(NULL, registry) == BRAID_OK);
  EXPECT(test_node_open(&w->node, *registry, spec, "Relu", 1000) == BRAID_OK);
  return 0;
}

static int end_work(work *w, braid_registry *registry) {
  test_node_close(&w->node);
  braid_registry_destroy(registry);
  EXPECT(left() == 0);
  return 0;
}

static braid_status count_work(work *w, braid_counts *counts) {
  return w->node.backend->count(w->node.self, do_work, w, counts);
}

/* Launches before and after count for nothing, and the next count begins at 0. */
static int counts_launches(void) {
  braid_registry *registry;
  work w;
  braid_counts counts;
  EXPECT(begin_work(&w, &registry, "cuda0:libraries=off") == 0);
  for (w.launches = 3; w.launches < 6; w.launches++) {
    w.calls = 0;
    EXPECT(test_node_do(&w.node, &w.node.task) == BRAID_OK);
    EXPECT(count_work(&w, &counts) == BRAID_OK);
    EXPECT(w.calls == (getenv("FAKE_CUPTI_PASSES") ? 5 : 1));
    EXPECT(counts.instructions == w.launches * FAKE_CUPTI_INSTRUCTIONS);
    EXPECT(counts.cycles == w.launches * FAKE_CUPTI_CYCLES);
    EXPECT(counts.memory_bytes == w.launches * FAKE_CUPTI_BYTES);
  }
  return end_work(&w, registry);
}

static void test_counts(void **state) {
  (void)state;
  in_child(counts_launches, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(counts_launches, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_PASSES", "5");
  in_child(counts_launches, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_VERSION", "14010"); /* CUPTI may be older */
}

/* Work that fails: its failure is what is said, and the next work is counted. */
static int counts_after_failure(void) {
  braid_registry *registry;
  work w;
  braid_counts counts;
  EXPECT(begin_work(&w, &registry, "cuda0:libraries=off") == 0);
  w.then = BRAID_OUT_OF_RANGE;
  EXPECT(count_work(&w, &counts) == BRAID_OUT_OF_RANGE && strstr(braid_error_detail(), "this work fails"));
  w.then = BRAID_OK;
  EXPECT(count_work(&w, &counts) == BRAID_OK && counts.cycles == 3 * FAKE_CUPTI_CYCLES);
  return end_work(&w, registry);
}

/* A card that is lost meanwhile: CUPTI, which may wait for it for ever, is not asked again. */
static int is_lost_while_counting(void) {
  braid_registry *registry;
  work w;
  braid_counts counts;
  EXPECT(begin_work(&w, &registry, "cuda0:libraries=off") == 0);
  EXPECT(count_work(&w, &counts) == BRAID_DEVICE_LOST);
  EXPECT(left() == 4); /* host, session, pass, range */
  EXPECT(count_work(&w, &counts) == BRAID_DEVICE_LOST && w.calls == 1);
  return 0;
}

static int never_ends(void) {
  braid_registry *registry;
  work w;
  braid_counts counts;
  EXPECT(begin_work(&w, &registry, "cuda0:libraries=off") == 0);
  EXPECT(count_work(&w, &counts) == BRAID_INTERNAL && strstr(braid_error_detail(), "is not done counting after"));
  return end_work(&w, registry);
}

static void test_failures(void **state) {
  (void)state;
  in_child(counts_after_failure, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(is_lost_while_counting, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_FAIL", "2");
  in_child(never_ends, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_PASSES", "1000");
}

/* Every function may refuse: nothing stays open, and what was expected is said. */
static braid_status expected_status;
static const char *expected_detail;
static bool expected_twice; /* a session that could not be ended bars the next one */
static int is_refused(void) {
  braid_registry *registry;
  work w;
  braid_counts counts;
  EXPECT(begin_work(&w, &registry, "cuda0:libraries=off") == 0);
  for (int i = 0; i <= expected_twice; i++)
    EXPECT(count_work(&w, &counts) == expected_status && strstr(braid_error_detail(), expected_detail));
  test_node_close(&w.node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_refusals(void **state) {
  (void)state;
  char setting[32];
  expected_status = BRAID_UNSUPPORTED;
  expected_detail = "counting is not permitted (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES): ";
  for (int function = 0; function <= k_decode; function++) {
    if (function == k_disable || function == k_host_destroy) continue; /* nobody asks how these went */
    expected_twice = function != k_pop && function != k_stop;
    snprintf(setting, sizeof setting, "%d:35", function);
    in_child(is_refused, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_REFUSE", setting);
  }
  expected_status = BRAID_BUSY;
  expected_detail = "CUPTI, the card's counters: CUPTI_ERROR_HARDWARE_BUSY";
  snprintf(setting, sizeof setting, "%d:26", k_enable);
  in_child(is_refused, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_REFUSE", setting);
  expected_status = BRAID_INTERNAL;
  expected_detail = "CUPTI, reading the counters: an unknown error";
  snprintf(setting, sizeof setting, "%d:999", k_decode);
  in_child(is_refused, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_REFUSE", setting);
}

/* --- libraries that will not do ------------------------------------------------------------------------------------
 */
static const char *library_name;
static int cannot_count(void) {
  braid_registry *registry;
  test_node node;
  braid_counts counts;
  work w = {.calls = 0};
  if (library_name) EXPECT(preload_cupti(library_name));
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, library_name ? "cuda1:libraries=off" : "cuda0:libraries=off", "Relu", 10) ==
         BRAID_OK);
  EXPECT(node.backend->count(node.self, do_work, &w, &counts) == BRAID_UNSUPPORTED && w.calls == 0);
  EXPECT(strstr(braid_error_detail(), expected_detail));
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_libraries(void **state) {
  (void)state;
  expected_detail = "libcupti has no cuptiProfilerInitialize: CUDA 12.6 or later is needed";
  library_name = "cupti_old.so";
  in_child(cannot_count, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
  expected_detail = "CUPTI, the chip's counters: CUPTI_ERROR_INVALID_CHIP_NAME";
  library_name = "cupti_cards.so";
  in_child(cannot_count, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CARDS", "2");
  expected_detail = "there is no libcupti.so.12, which reads the counters";
  library_name = NULL; /* one of 13 is too new for a driver of 12 */
  if (!dlopen("libcupti.so.12", RTLD_NOW | RTLD_LOCAL))
    in_child(cannot_count, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_VERSION", "12080");
}

/* --- profiles ------------------------------------------------------------------------------------------------------
 */
static int measure_profile(braid_profile_list *list, braid_profile_db **out) {
  braid_registry *registry;
  braid_profile_db *db;
  braid_profile_options options;
  braid_profile_report report;
  char path[64];
  snprintf(path, sizeof path, "%s/%d.db", folder, (int)getpid());
  EXPECT(preload_cupti("cupti_cards.so"));
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_profile_db_open(NULL, path, BRAID_PROFILE_WRITE, &db) == BRAID_OK);
  braid_profile_options_init(&options);
  options.devices = "cuda0:libraries=off";
  options.ops = "MatMul";
  options.sizes = "small,medium";
  options.seconds = 0.001;
  EXPECT(braid_profile_measure(registry, db, &options, &report) == BRAID_OK);
  EXPECT(report.measured == 2);
  EXPECT(braid_profile_list_create(db, NULL, list) == BRAID_OK);
  EXPECT(list->entry_count == 2);
  *out = db;
  braid_registry_destroy(registry);
  return 0;
}

/* The thresholds for candidates have what was counted: another device is the faster one at the smaller product alone.
 */
static int gives_thresholds(braid_profile_db *db, const braid_profile_list *before) {
  braid_profile_list list;
  braid_profile_threshold *thresholds;
  size_t count;
  double most = 0;
  braid_profile_device device = before->devices[0];
  device.device = "other";
  device.kind = "fpga";
  EXPECT(braid_profile_put(db, &braid_profile_device_table, &device) == BRAID_OK);
  for (size_t i = 0; i < 2; i++) {
    braid_profile_entry entry = before->entries[i];
    most = fmax(most, entry.bytes_per_second);
    entry.device = "other";
    entry.seconds *= entry.bytes > before->entries[1 - i].bytes ? 2 : 0.5;
    EXPECT(braid_profile_put(db, &braid_profile_entry_table, &entry) == BRAID_OK);
  }
  EXPECT(braid_profile_list_create(db, NULL, &list) == BRAID_OK);
  EXPECT(braid_profile_thresholds(db, &list, NULL, NULL, &thresholds, &count) == BRAID_OK && count == 1);
  EXPECT(thresholds[0].stops && thresholds[0].ever);
  EXPECT(thresholds[0].instructions_per_cycle == (double)FAKE_CUPTI_INSTRUCTIONS / FAKE_CUPTI_CYCLES);
  EXPECT(thresholds[0].gigabytes_per_second > 0 && thresholds[0].gigabytes_per_second <= most * 1.001e-9);
  braid_modelled_device devices[] = {
      {.name = "gpu", .class = "gpu", .profile = (char *)(uintptr_t)list.devices[0].device, .count = 1},
      {.name = "fpga", .class = "fpga", .profile = (char *)(uintptr_t)list.devices[1].device, .count = 1}};
  braid_profile *profile;
  EXPECT(braid_profile_from_database(db, NULL, &profile) == BRAID_OK);
  const braid_machine_file machine = {.devices = devices, .devices_count = 2};
  braid_modelled_thresholds candidates = braid_machine_thresholds(&machine, profile);
  EXPECT(candidates.gigabytes_per_second == thresholds[0].gigabytes_per_second);
  EXPECT(candidates.instructions_per_cycle == thresholds[0].instructions_per_cycle);
  braid_profile_free(profile);
  braid_free(NULL, thresholds);
  braid_profile_list_deinit(&list);
  return 0;
}

/* The bandwidth is of the counted bytes of a whole number of launches, in the time that was measured. */
static int profile_has_counts(void) {
  braid_profile_db *db;
  braid_profile_list list;
  EXPECT(measure_profile(&list, &db) == 0);
  for (size_t i = 0; i < list.entry_count; i++) {
    const braid_profile_entry *entry = &list.entries[i];
    double launches = entry->bytes_per_second * entry->seconds / FAKE_CUPTI_BYTES;
    EXPECT(entry->instructions_per_cycle == (double)FAKE_CUPTI_INSTRUCTIONS / FAKE_CUPTI_CYCLES);
    EXPECT(launches > 0.999 && launches < 8 && fabs(launches - round(launches)) < 1e-6);
    EXPECT(strstr(entry->ipc_note, "by the device's counters"));
  }
  EXPECT(gives_thresholds(db, &list) == 0);
  braid_profile_list_deinit(&list);
  braid_profile_db_close(db);
  return 0;
}

static int profile_says_why(void) {
  braid_profile_db *db;
  braid_profile_list list;
  EXPECT(measure_profile(&list, &db) == 0);
  for (size_t i = 0; i < list.entry_count; i++) {
    const braid_profile_entry *entry = &list.entries[i];
    EXPECT(isnan(entry->instructions_per_cycle) && !entry->why);
    EXPECT(fabs(entry->bytes_per_second * entry->seconds / entry->bytes - 1) < 1e-9);
    EXPECT(strstr(entry->ipc_note, expected_detail));
  }
  braid_profile_list_deinit(&list);
  braid_profile_db_close(db);
  return 0;
}

static void test_profiles(void **state) {
  (void)state;
  char setting[32];
  in_child(profile_has_counts, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  expected_detail = "counting is not permitted (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES): NVIDIA's driver lets root alone "
                    "count, or everybody where its module has NVreg_RestrictProfilingToAdminUsers=0";
  snprintf(setting, sizeof setting, "%d:35", k_start); /* where the real one says so */
  in_child(profile_says_why, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_REFUSE", setting);
  expected_detail = "the device's counters counted nothing";
  in_child(profile_says_why, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUPTI_IDLE", "1");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_libraries),
                                     cmocka_unit_test(test_profiles)};
  return skip_run_group_tests(tests, make_folder, remove_folder);
}
