/* CUDA's backend by a library that passes for NVIDIA's driver (tests/libraries/cuda.c): what it says where it can't be
 * used, memory, transfers, order, recordings, and a card that fails. A driver is loaded once in a program, so each case
 * has a child of its own. Kernels are judged on a card, by the programs that judge OpenCL's (bench/gpu.py). */
#include "backend/cuda/cuda_children.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/bounce.h"
#include "backend/cuda/compiler.h"
#include "backend/cuda/memory.h"
#include "backend/opencl/test_node.h"
#include "base/library.h"
#include "base/philox.h"
#include "braid/conformance.h"
#include "braid/model.h"
#include "launch/queue.h"
#include "skip.h"
#include "train/step.h"

/* --- no driver that will do ----------------------------------------------------------------------------------------
 */
static const char *expected_sentence;

static int sees_no_card(void) {
  braid_registry *registry;
  braid_device *device;
  size_t count = 0;
  const char *name, *why = "", *told;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_backend_cuda.enumerate(NULL, 0, &count) == BRAID_OK && count == 0);
  for (size_t i = 0; (name = braid_registry_absence(registry, i, &told)); i++)
    if (strcmp(name, "cuda") == 0) why = told;
  EXPECT(strstr(why, expected_sentence));
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_NOT_FOUND);
  EXPECT(strstr(braid_error_detail(), expected_sentence));
  braid_registry_destroy(registry);
  return 0;
}

static void test_absent(void **state) {
  (void)state;
  expected_sentence = "there is no libcuda.so.1";
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) in_child(sees_no_card, NULL, NULL, NULL, NULL);
  expected_sentence = "libcuda.so.1 has no cuInit";
  in_child(sees_no_card, "cuda_empty.so", NULL, NULL, NULL);
  expected_sentence = "is of CUDA 11.8, 12.0 or later is needed";
  in_child(sees_no_card, "cuda_cards.so", NULL, "FAKE_CUDA_VERSION", "11080");
  expected_sentence = "finds no GPU";
  in_child(sees_no_card, "cuda_cards.so", NULL, "FAKE_CUDA_CARDS", "0");
}

/* --- cards ---------------------------------------------------------------------------------------------------------
 */
static int sees_two_cards(void) {
  braid_registry *registry;
  braid_device *device;
  const char *why;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  for (size_t i = 0; braid_registry_absence(registry, i, &why); i++) EXPECT(!strstr(why, "NVIDIA"));
  EXPECT(braid_device_open(registry, "cuda1", &device) == BRAID_OK);
  const braid_device_info *info = braid_device_get_info(device);
  EXPECT(strcmp(info->name, "cuda1") == 0 && strcmp(info->kind, "gpu") == 0 && info->compute_units == 132);
  EXPECT(strstr(info->software, "CUDA 13.0"));
  braid_device_close(device);
  EXPECT(braid_device_open(registry, "cuda2", &device) == BRAID_NOT_FOUND);
  EXPECT(braid_device_open(registry, "cuda0:memory=unified", &device) == BRAID_INVALID_ARGUMENT);
  EXPECT(strstr(braid_error_detail(), "a card's memory is separate"));
  EXPECT(braid_device_open(registry, "cuda0:as=cpu", &device) == BRAID_INVALID_ARGUMENT);
  EXPECT(braid_device_open(registry, "cuda0:tf32=maybe", &device) == BRAID_INVALID_ARGUMENT);
  EXPECT(strstr(braid_error_detail(), "expected on or off"));
  EXPECT(braid_device_open(registry, "cuda0:libraries=some", &device) == BRAID_INVALID_ARGUMENT);
  EXPECT(strstr(braid_error_detail(), "expected on, off or all"));
  EXPECT(braid_device_open(registry, "cuda0:deadline=1", &device) == BRAID_INVALID_ARGUMENT);
  braid_registry_destroy(registry);
  return 0;
}

static void test_cards(void **state) {
  (void)state;
  in_child(sees_two_cards, "cuda_cards.so", NULL, "FAKE_CUDA_CARDS", "2");
}

/* A card of 64 MiB: what does not fit is refused with numbers, and what fits is had afterwards. */
static int runs_out_of_memory(void) {
  braid_registry *registry;
  braid_device *device;
  void *buffer, *other;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_OK);
  const braid_backend *backend = braid_device_backend(device);
  void *self = braid_device_self(device);
  EXPECT(backend->buffer_create(self, 100 << 20, &buffer) == BRAID_NO_MEMORY);
  EXPECT(strstr(braid_error_detail(), "104857600 bytes requested") && strstr(braid_error_detail(), "of 67108864 free"));
  EXPECT(backend->buffer_create(self, 50 << 20, &buffer) == BRAID_OK);
  EXPECT(backend->buffer_create(self, 50 << 20, &other) == BRAID_NO_MEMORY);
  backend->buffer_destroy(self, buffer);
  EXPECT(backend->buffer_create(self, 50 << 20, &buffer) == BRAID_OK);
  backend->buffer_destroy(self, buffer);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return 0;
}

static void test_memory(void **state) {
  (void)state;
  in_child(runs_out_of_memory, "cuda_cards.so", NULL, "FAKE_CUDA_MEMORY", "67108864");
}

/* Memory of which somebody else has pinned a part is copied like any other; where it is all of it, as pinned memory. */
static int pins_twice(void) {
  enum { kBytes = 1 << 18 };
  static float data[kBytes / sizeof(float)];
  braid_registry *registry;
  test_node node;
  const braid_cuda_api *driver = braid_cuda_load();
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", kBytes / sizeof(float)) == BRAID_OK);
  braid_cuda_device *device = node.self;
  EXPECT(driver && driver->context_push(device->context) == 0);
  EXPECT(driver->host_register(data, kBytes / 2, 0) == 0);
  EXPECT(node.backend->host_register(node.self, data, kBytes) == BRAID_OK);
  EXPECT(!braid_cuda_is_pinned(device, data, kBytes));
  EXPECT(test_node_transfer(&node, 0, data, true) == BRAID_OK);
  node.backend->host_unregister(node.self, data);
  EXPECT(node.backend->host_register(node.self, data, kBytes / 2) == BRAID_OK);
  EXPECT(braid_cuda_is_pinned(device, data, kBytes / 2));
  node.backend->host_unregister(node.self, data);
  EXPECT(driver->host_unregister(data) == 0); /* not by us */
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_pins(void **state) {
  (void)state;
  in_child(pins_twice, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
}

/* --- the contract --------------------------------------------------------------------------------------------------
 * What the suite asks of transfers, order, ends and recordings, which needs no kernel. That submit returns before a
 * task is done is nothing that this driver can show: it does everything at once. */
static void count_failure(void *context, const char *name, braid_case_result result, const char *detail) {
  if (result != BRAID_CASE_FAILED) return;
  fprintf(stderr, "%s: %s\n", name, detail);
  ++*(int *)context;
}

static int keeps_the_contract(void) {
  static const char *const kCases[] = {
      "description", "unknown option",  "buffers",          "out of memory",  "memory comes back",
      "transfers",   "bounds",          "order of a queue", "kinds of tasks", "several threads",
      "waits",       "queues in turns", "timeline",         "done is done",   "host memory",
      "failed task", "cancel",          "timing",           "replay",         "destroying"};
  braid_registry *registry;
  braid_device *device;
  int failed = 0;
  size_t passed_over = 0; /* a sanitizer's malloc does not count, so that one case has nothing to look at */
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(braid_device_open(registry, "cuda0", &device) == BRAID_OK);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    braid_check_counts counts;
    const braid_check_options options = {.only = kCases[i]};
    EXPECT(braid_device_conformance(device, &options, count_failure, &failed, &counts) == BRAID_OK);
    EXPECT(counts.passed + counts.not_claimed > 0 && counts.failed == 0 && !counts.stopped);
    passed_over += counts.passed == 0;
  }
  EXPECT(passed_over <= 1);
  braid_device_close(device);
  braid_registry_destroy(registry);
  return failed != 0;
}

static void test_contract(void **state) {
  (void)state;
  in_child(keeps_the_contract, "cuda_cards.so", NULL, NULL, NULL);
  in_child(keeps_the_contract, "cuda_cards.so", NULL, "FAKE_CUDA_NO_UPDATE", "1");
}

/* --- recordings ----------------------------------------------------------------------------------------------------
 */
enum { kRecorded = BRAID_LAUNCH_WINDOW + 100 };

static int replay_to_end(test_node *node, void *recording, braid_task *const *list, size_t count, bool held) {
  braid_verdict_init(&node->verdict);
  if (held) hold_streams();
  pthread_mutex_lock(&node->queue.lock);
  EXPECT(braid_queue_replay_locked(&node->queue, recording, count) == BRAID_OK);
  pthread_mutex_unlock(&node->queue.lock);
  if (held) go_on();
  EXPECT(braid_queue_wait(&node->queue, list[count - 1], -1) == BRAID_OK);
  return 0;
}

/* More tasks than may be in flight, as one graph: its first tasks have ended before the last are issued. */
static int replays_long_graph(void) {
  static braid_task tasks[kRecorded];
  static braid_task *list[kRecorded];
  const float from = 3;
  float to = 0;
  braid_registry *registry;
  test_node node;
  void *recording;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1) == BRAID_OK);
  EXPECT(test_node_transfer(&node, 0, (void *)&from, true) == BRAID_OK);
  for (size_t i = 0; i < kRecorded; i++) {
    tasks[i] = (braid_task){.kind = BRAID_TASK_COPY,
                            .label = "copy",
                            .source = node.bindings[0],
                            .target = node.bindings[1],
                            .verdict = &node.verdict};
    list[i] = &tasks[i];
  }
  EXPECT(node.backend->record(node.queue.self, list, kRecorded, &recording) == BRAID_OK);
  for (int run = 0; run < 2; run++) EXPECT(replay_to_end(&node, recording, list, kRecorded, true) == 0);
  EXPECT(test_node_transfer(&node, 1, &to, false) == BRAID_OK && to == from);
  node.backend->erase(node.queue.self, recording);
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_long_graph(void **state) {
  (void)state;
  in_child(replays_long_graph, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(replays_long_graph, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_NO_CAPTURE", "1");
}

enum { kCopies = 300, kRoom = 256, kDrawn = 20 };

/* Copies of pieces from anywhere to anywhere, as graphs whose steps are done in another order: the same memory. */
static int copies_beside_each_other(void) {
  static braid_task tasks[kCopies];
  static braid_task *list[kCopies];
  static float wanted[2][kRoom], got[2][kRoom];
  int depth = 0;
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", kRoom) == BRAID_OK);
  for (int round = 0; round < kDrawn; round++) {
    void *recording;
    for (int i = 0; i < 2 * kRoom; i++) wanted[i / kRoom][i % kRoom] = (float)i;
    for (size_t b = 0; b < 2; b++) EXPECT(test_node_transfer(&node, b, wanted[b], true) == BRAID_OK);
    for (size_t i = 0; i < kCopies; i++) {
      const uint32_t most = round % 2 ? 64 : 4;
      uint32_t drawn[4];
      for (uint32_t k = 0; k < 4; k++) drawn[k] = braid_random_below(1, (uint32_t)round, k, i, k ? kRoom - most : most);
      size_t count = 1 + drawn[0], from = drawn[1], to = drawn[2], side = drawn[3] % 2;
      braid_binding source = node.bindings[side], target = node.bindings[!side];
      source.offset += from * sizeof(float), target.offset += to * sizeof(float);
      source.bytes = target.bytes = count * sizeof(float);
      memcpy(&wanted[!side][to], &wanted[side][from], source.bytes);
      tasks[i] = (braid_task){
          .kind = BRAID_TASK_COPY, .label = "copy", .source = source, .target = target, .verdict = &node.verdict};
      list[i] = &tasks[i];
    }
    EXPECT(node.backend->record(node.queue.self, list, kCopies, &recording) == BRAID_OK);
    EXPECT(replay_to_end(&node, recording, list, kCopies, false) == 0);
    for (size_t b = 0; b < 2; b++) EXPECT(test_node_transfer(&node, b, got[b], false) == BRAID_OK);
    EXPECT(memcmp(got, wanted, sizeof got) == 0);
    if (graph_depth() > depth) depth = graph_depth();
    EXPECT(getenv("FAKE_CUDA_NO_ORDER") ? graph_depth() == kCopies : graph_depth() < kCopies);
    node.backend->erase(node.queue.self, recording);
  }
  EXPECT(depth > 10);
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_overlap(void **state) {
  (void)state;
  in_child(copies_beside_each_other, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
  in_child(copies_beside_each_other, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_NO_ORDER", "1");
}

/* --- small transfers -----------------------------------------------------------------------------------------------
 */
enum { kSmall = 1000, kRounds = 40 };

static void give_task(braid_task *task, braid_task_kind kind, test_node *node, void *host) {
  braid_binding binding = node->bindings[0];
  *task = (braid_task){.kind = kind, .label = "transfer", .host = host, .verdict = &node->verdict};
  if (kind == BRAID_TASK_WRITE)
    task->target = binding;
  else
    task->source = binding;
}

/* None asks the driver to call back, unless more are in flight than there are buffers. Numbers go from the host to the
 * card and back to the next place of the host, from where they go on by a task that is submitted before that has ended.
 */
static int passes_small_ones_on(void) {
  static float places[kRounds + 1][kSmall];
  static braid_task tasks[2 * kRounds];
  long (*calls)(void);
  braid_registry *registry;
  test_node node;
  EXPECT(braid_library_find(card_driver, "fake_cuda_host_calls", &calls, sizeof calls));
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", kSmall) == BRAID_OK);
  braid_verdict_init(&node.verdict);
  for (int i = 0; i < kSmall; i++) places[0][i] = (float)(i + 1);
  for (int i = 0; i < kRounds; i++) {
    give_task(&tasks[2 * i], BRAID_TASK_WRITE, &node, places[i]);
    give_task(&tasks[2 * i + 1], BRAID_TASK_READ, &node, places[i + 1]);
  }
  hold_streams();
  for (int i = 0; i < 2 * kRounds; i++) EXPECT(braid_queue_submit(&node.queue, &tasks[i]) == BRAID_OK);
  go_on();
  EXPECT(braid_queue_wait(&node.queue, &tasks[2 * kRounds - 1], -1) == BRAID_OK);
  EXPECT(memcmp(places[kRounds], places[0], sizeof places[0]) == 0);
  EXPECT(calls() == 0);
  float number[kSmall], seen[kSmall] = {0};
  for (int i = 0; i < kSmall; i++) number[i] = 5;
  hold_streams();
  for (int i = 0; i < kRounds; i++) {
    give_task(&tasks[i], BRAID_TASK_WRITE, &node, number);
    EXPECT(braid_queue_submit(&node.queue, &tasks[i]) == BRAID_OK);
  }
  go_on();
  EXPECT(braid_queue_wait(&node.queue, &tasks[kRounds - 1], -1) == BRAID_OK);
  EXPECT(calls() == kRounds - BRAID_CUDA_BOUNCE_BUFFERS); /* for which there was no buffer */
  EXPECT(test_node_transfer(&node, 0, seen, false) == BRAID_OK && memcmp(seen, number, sizeof seen) == 0);
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_small(void **state) {
  (void)state;
  in_child(passes_small_ones_on, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
}

/* --- a card that fails ---------------------------------------------------------------------------------------------
 */
/* The second launch fails for good: its task and all after it end with DEVICE_LOST, and nothing waits for ever. */
static int is_lost(void) {
  braid_registry *registry;
  test_node node;
  void *buffer;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_OK);
  EXPECT(test_node_do(&node, &node.task) == BRAID_OK);
  EXPECT(node.backend->status(node.self) == BRAID_OK);
  EXPECT(test_node_do(&node, &node.task) == BRAID_DEVICE_LOST);
  EXPECT(strstr(node.verdict.detail, "CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT(test_node_do(&node, &node.task) == BRAID_DEVICE_LOST);
  EXPECT(node.backend->status(node.self) == BRAID_DEVICE_LOST);
  EXPECT(node.backend->buffer_create(node.self, 16, &buffer) == BRAID_DEVICE_LOST);
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_lost(void **state) {
  (void)state;
  in_child(is_lost, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_FAIL", "2");
}

enum { kGoneBytes = 1 << 16, kBesideBytes = 100 << 20 /* more than the arena has */ };

/* The context that a program has made current stays so, also where the card's cannot be made current any more. */
static int leaves_context(void) {
  static char own;
  const braid_cuda_context_handle mine = (braid_cuda_context_handle)(void *)&own;
  braid_cuda_context_handle current = NULL;
  braid_registry *registry;
  test_node node;
  void *buffer;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_OK);
  const braid_cuda_api *cuda = braid_cuda_load();
  EXPECT(cuda && cuda->context_push(mine) == 0);
  EXPECT(node.backend->buffer_create(node.self, 16, &buffer) == BRAID_OK);
  EXPECT(cuda->launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0); /* which fails for good */
  EXPECT(node.backend->buffer_create(node.self, kBesideBytes, &buffer) == BRAID_DEVICE_LOST);
  EXPECT(node.backend->status(node.self) == BRAID_DEVICE_LOST);
  EXPECT(cuda->context_pop(&current) == 0 && current == mine);
  return 0;
}

static void test_context(void **state) {
  (void)state;
  in_child(leaves_context, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_FAIL", "1");
}

/* As is_lost, where the next thing that the driver refuses is an event. */
static int is_lost_without_event(void) {
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_OK);
  for (int i = 0; i < 2; i++) {
    braid_verdict verdict;
    braid_verdict_init(&verdict);
    braid_task task = node.task;
    task.verdict = &verdict;
    EXPECT(braid_queue_submit(&node.queue, &task) == BRAID_OK);
    EXPECT(braid_queue_wait(&node.queue, &task, -1) == BRAID_DEVICE_LOST);
    EXPECT(node.backend->status(node.self) == BRAID_DEVICE_LOST);
  }
  return 0;
}

/* A kernel that does not end is given up while another thread waits in the driver to free memory, and what the device
 * holds goes without waiting for the kernel. A copy that comes when it ends after all finds the host's memory gone. */
static void *free_buffer(void *context) {
  test_node *node = context;
  node->backend->buffer_destroy(node->self, node->buffers[1]);
  return NULL;
}

static int gives_up(void) {
  braid_registry *registry;
  test_node node;
  pthread_t thread;
  void *beside;
  char *host = mmap(NULL, kGoneBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(host != MAP_FAILED);
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off,deadline_ms=300", "Relu", kGoneBytes / 4) == BRAID_OK);
  node.backend->buffer_destroy(node.self, node.buffers[1]);
  EXPECT(node.backend->buffer_create(node.self, kBesideBytes, &node.buffers[1]) == BRAID_OK);
  EXPECT(node.backend->buffer_create(node.self, kBesideBytes, &beside) == BRAID_OK);
  node.bindings[1].buffer = node.buffers[1];
  braid_verdict_init(&node.verdict);
  braid_task write = {.kind = BRAID_TASK_WRITE,
                      .label = "transfer",
                      .target = node.bindings[0],
                      .host = host,
                      .verdict = &node.verdict};
  hold_streams();
  EXPECT(braid_queue_submit(&node.queue, &node.task) == BRAID_OK);
  EXPECT(braid_queue_submit(&node.queue, &write) == BRAID_OK);
  EXPECT(pthread_create(&thread, NULL, free_buffer, &node) == 0);
  EXPECT(braid_queue_wait(&node.queue, &node.task, -1) == BRAID_DEVICE_LOST);
  EXPECT(braid_queue_wait(&node.queue, &write, -1) == BRAID_DEVICE_LOST);
  munmap(host, kGoneBytes);
  node.backend->buffer_destroy(node.self, beside);
  go_on();
  EXPECT(pthread_join(thread, NULL) == 0);
  node.buffers[1] = NULL;
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_given_up(void **state) {
  (void)state;
  in_child(gives_up, "cuda_cards.so", "nvrtc_any.so", NULL, NULL);
}

/* Nothing is begun whose end could not be told. */
static int has_no_event(void) {
  const float from = 3;
  float to = 0;
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1) == BRAID_OK);
  EXPECT(test_node_transfer(&node, 0, (void *)&from, true) == BRAID_OK);
  EXPECT(test_node_transfer(&node, 0, &to, false) == BRAID_OK && to == from);
  to = 0;
  braid_task task = {
      .kind = BRAID_TASK_READ, .label = "transfer", .source = node.bindings[0], .host = &to, .verdict = &node.verdict};
  braid_verdict_init(&node.verdict);
  EXPECT(braid_queue_do(&node.queue, &task, -1) == BRAID_NO_MEMORY);
  EXPECT(to == 0 && node.backend->status(node.self) == BRAID_OK);
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_no_event(void **state) {
  (void)state;
  in_child(is_lost_without_event, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_FAIL", "1");
  in_child(has_no_event, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_EVENTS", "2");
}

static int needs_a_compiler(void) {
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_UNSUPPORTED);
  EXPECT(strstr(braid_error_detail(), "libnvrtc"));
  EXPECT(strstr(braid_device_get_info(node.device)->lacks, "libnvrtc"));
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_no_compiler(void **state) {
  (void)state;
  if (braid_cuda_compiler_find() != BRAID_OK) in_child(needs_a_compiler, "cuda_cards.so", NULL, NULL, NULL);
}

/* A card that is older than all that the compiler knows: found before anything is prepared. */
static int is_too_old(void) {
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_UNSUPPORTED);
  EXPECT(!node.kernel && strstr(braid_error_detail(), "knows no card of compute capability 7.0"));
  EXPECT(strstr(braid_device_get_info(node.device)->lacks, "knows no card of compute capability 7.0"));
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

/* Code that the compiler does not hand over is not loaded. */
static int gets_no_code(void) {
  braid_registry *registry;
  test_node node;
  EXPECT(braid_registry_create(NULL, &registry) == BRAID_OK);
  EXPECT(test_node_open(&node, registry, "cuda0:libraries=off", "Relu", 1000) == BRAID_INTERNAL);
  EXPECT(strstr(braid_error_detail(), "gives no code"));
  test_node_close(&node);
  braid_registry_destroy(registry);
  return 0;
}

static void test_compiler(void **state) {
  (void)state;
  in_child(is_too_old, "cuda_cards.so", "nvrtc_any.so", "FAKE_CUDA_CAPABILITY", "7");
  in_child(gets_no_code, "cuda_cards.so", "nvrtc_any.so", "FAKE_NVRTC_NO_CODE", "1");
}

int main(void) {
  /* The last one loads a compiler that is installed, which children would inherit. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_absent),   cmocka_unit_test(test_cards),      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_pins),     cmocka_unit_test(test_contract),   cmocka_unit_test(test_long_graph),
      cmocka_unit_test(test_overlap),  cmocka_unit_test(test_small),      cmocka_unit_test(test_lost),
      cmocka_unit_test(test_context),  cmocka_unit_test(test_given_up),   cmocka_unit_test(test_no_event),
      cmocka_unit_test(test_compiler), cmocka_unit_test(test_no_compiler)};
  return skip_run_group_tests(tests, NULL, NULL);
}
