/* Any bytes as the answers of a daemon, each with the header that is expected: what a device does with them stays
 * within them, and ends. An answer is its length (two bytes) and its body; the calls come in a fixed order. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/remote/remote.h"
#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
extern const braid_backend braid_backend_remote;

typedef struct answers {
  const uint8_t *data;
  size_t bytes;
  int peer;
  remote_device *device;
} answers;

/* Puts the next answer before the question is asked: it fits the socket. */
static void feed(answers *a, unsigned kind) {
  size_t count = a->bytes < 2 ? 0 : (size_t)a->data[0] | (size_t)(a->data[1] & 0x3f) << 8;
  size_t skip = a->bytes < 2 ? a->bytes : 2;
  if (count > a->bytes - skip) count = a->bytes - skip;
  braid_wire_writer writer = {0};
  braid_wire_begin(&writer, kind | BRAID_WIRE_REPLY, a->device->channel.id + 1);
  braid_wire_put(&writer, a->data + skip, count);
  braid_wire_end(&writer, 0);
  if (writer.failed) abort();
  (void)!send(a->peer, writer.data, writer.length, MSG_DONTWAIT | MSG_NOSIGNAL);
  braid_wire_free(&writer);
  a->data += skip + count;
  a->bytes -= skip + count;
  char drained[4096]; /* what was asked is nothing to us */
  while (recv(a->peer, drained, sizeof drained, MSG_DONTWAIT) > 0) continue;
}

/* A question with constants to be packed, and what is prepared and packed if the answers say so. */
static void ask_about_node(answers *a) {
  static const float kWeights[16];
  braid_operand operands[3] = {{.present = true}, {.present = true, .constant = kWeights}, {.present = true}};
  static const braid_attrs kNone;
  for (int i = 0; i < 3; i++)
    if (braid_desc_init(&operands[i].desc, BRAID_F32, 2, (int64_t[]){4, 4}) != BRAID_OK) abort();
  braid_node_desc node = {.op = "MatMul",
                          .name = "m",
                          .attrs = &kNone,
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = operands,
                          .outputs = operands + 2};
  braid_layout layouts[3] = {0};
  char why[256];
  braid_query query;
  braid_prepared_info info;
  void *prepared;
  remote_device *device = a->device;
  feed(a, BRAID_REMOTE_MATCH);
  (void)remote_match(device, &device->kernels[0], &node, why, sizeof why);
  feed(a, BRAID_REMOTE_LAYOUTS);
  remote_layouts(device, &device->kernels[0], &node, layouts, layouts + 2);
  feed(a, BRAID_REMOTE_QUERY);
  if (remote_query(device, &device->kernels[0], &node, &query) != BRAID_OK) return;
  if (query.packing_count > BRAID_PACKINGS) abort();
  node.packed = query.packing_count > 0;
  feed(a, BRAID_REMOTE_PREPARE);
  if (remote_prepare(device, &device->kernels[0], &node, &prepared, &info) == BRAID_OK)
    remote_discard(device, prepared);
}

static void run_tasks(answers *a) {
  uint8_t got[64], sent[64] = {1};
  braid_timeline *timeline;
  void *queue, *buffer;
  braid_verdict verdict;
  braid_timing timing = {0};
  feed(a, BRAID_REMOTE_BUFFER);
  if (braid_backend_remote.buffer_create(a->device, sizeof got, &buffer) != BRAID_OK) return;
  braid_verdict_init(&verdict);
  const braid_binding place = {.buffer = buffer, .bytes = sizeof got};
  braid_task tasks[2] = {{.kind = BRAID_TASK_WRITE, .target = place, .host = sent},
                         {.kind = BRAID_TASK_READ, .source = place, .host = got, .timing = &timing}};
  for (int i = 0; i < 2; i++) tasks[i].verdict = &verdict;
  if (braid_timeline_create(NULL, &timeline) != BRAID_OK) abort();
  feed(a, BRAID_REMOTE_RECORD);
  if (remote_queue_create(a->device, timeline, &queue) != BRAID_OK) abort();
  braid_task *list[2] = {&tasks[0], &tasks[1]};
  void *recording;
  if (remote_record(queue, list, 2, &recording) == BRAID_OK) {
    feed(a, BRAID_REMOTE_REPLAY);
    if (remote_replay(queue, recording, 1) != BRAID_OK) abort();
    if (braid_timeline_wait(timeline, 2, -1) != BRAID_OK) abort();
    remote_erase(queue, recording);
  }
  remote_queue_destroy(a->device, queue);
  braid_timeline_destroy(timeline);
  braid_backend_remote.buffer_destroy(a->device, buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  int files[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files) != 0) abort();
  remote_device *device = braid_zalloc(NULL, sizeof *device);
  braid_kernel kernels[1] = {{.op = "MatMul", .name = "fuzz"}};
  uint8_t flags[1] = {BRAID_REMOTE_HAS_LAYOUTS};
  if (!device) abort();
  remote_channel_init(&device->channel);
  pthread_mutex_init(&device->lock, NULL);
  device->channel.file = files[0];
  device->channel.silence_ns = 1000000;
  device->kernels = kernels;
  device->flags = flags;
  device->kernel_count = 1;
  device->description = (braid_remote_device){.max_body = 1 << 20, .max_bytes = 1 << 20};
  answers a = {data, bytes, files[1], device};
  ask_about_node(&a);
  run_tasks(&a);
  braid_remote_device described;
  braid_wire_reader reader = {.data = a.data, .bytes = a.bytes};
  if (!braid_remote_get_device(&reader, &described) &&
      (described.info.alignment & (described.info.alignment - 1) || !described.info.alignment))
    abort();
  close(files[1]);
  remote_questions_deinit(device);
  remote_channel_deinit(&device->channel);
  pthread_mutex_destroy(&device->lock);
  braid_free(NULL, device);
  return 0;
}
