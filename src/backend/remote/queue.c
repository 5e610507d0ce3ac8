/* Queues: a thread each, which waits for what tasks wait for and sends tasks to the daemon in as few messages as
 * possible. Tasks travel together up to the next that waits for something: those of a recording once, at `record`, so
 * that a replay sends no more than the bytes to be written, and gets back those that are read. */
#include <stdio.h>
#include <string.h>

#include "backend/remote/remote.h"
#include "base/clock.h"
#include "base/detail.h"
#include "base/thread.h"
#include "base/try.h"
#include "base/vector.h"
#include "device/sleep.h"

enum { kBatch = 64, kFields = 1 << 16 /* bytes of an answer beside data and times */ };

/* Tasks of a recording that run without a wait in between. */
typedef struct segment {
  size_t from, count;
  uint32_t id; /* of the daemon's recording; 0: too large for one message, and sent piece by piece */
} segment;

typedef struct recording {
  braid_task *const *tasks;
  size_t count;
  segment *segments;
  size_t segment_count, segment_room;
  struct iovec *parts; /* room for the bytes of each task */
} recording;

typedef struct remote_queue {
  remote_device *device;
  braid_timeline *timeline;
  braid_thread thread;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  braid_task *first, *last; /* link[0]: the next; link[1]: the recording that it stands for */
  bool stopping;
  struct iovec parts[kBatch]; /* the thread's */
} remote_queue;

/* --- writing tasks -------------------------------------------------------------------------------------------------
 */
static braid_remote_binding binding_of(const braid_binding *binding) {
  const remote_buffer *buffer = binding->buffer;
  if (!buffer) return (braid_remote_binding){0};
  return (braid_remote_binding){buffer->id, binding->offset, binding->bytes};
}

static const braid_binding *task_binding(const braid_task *task, size_t index) {
  switch (task->kind) {
  case BRAID_TASK_KERNEL:
    return &task->bindings[index];
  case BRAID_TASK_WRITE:
    return &task->target;
  case BRAID_TASK_READ:
    return &task->source;
  case BRAID_TASK_COPY:
    return index ? &task->target : &task->source;
  }
  return &task->source;
}

static braid_remote_task fields_of(const braid_task *task, bool recorded) {
  braid_remote_task fields = {.kind = (uint8_t)task->kind, .ports = recorded ? task->ports : 0};
  snprintf(fields.label, sizeof fields.label, "%s", task->label ? task->label : "");
  if (task->kind != BRAID_TASK_KERNEL) return fields;
  fields.prepared = ((const remote_prepared *)task->prepared)->id;
  fields.input_count = (uint16_t)task->input_count;
  fields.output_count = (uint16_t)task->output_count;
  return fields;
}

static void put_tasks(braid_wire_writer *writer, braid_task *const *tasks, size_t count, bool recorded) {
  braid_wire_put_number(writer, count, 4);
  for (size_t i = 0; i < count; i++) {
    braid_remote_task fields = fields_of(tasks[i], recorded);
    braid_remote_put_task(writer, &fields);
    size_t bindings = braid_remote_binding_count(&fields);
    for (size_t k = 0; k < bindings; k++) {
      braid_remote_binding binding = binding_of(task_binding(tasks[i], k));
      braid_remote_put_binding(writer, &binding);
    }
  }
}

/* What a run of the tasks has of its own; returns how many parts of data follow. `blob`: the constant that its one
 * WRITE writes; 0: what its WRITEs write is in the host's memory. */
static size_t put_changes(braid_wire_writer *writer, braid_task *const *tasks, size_t count, bool recorded,
                          uint32_t blob, struct iovec *parts) {
  size_t used = 0;
  bool timed = false;
  for (size_t i = 0; i < count; i++) timed |= tasks[i]->timing != NULL;
  braid_wire_put_number(writer, timed, 1);
  for (size_t i = 0; i < count; i++) {
    const braid_task *task = tasks[i];
    braid_remote_task fields = {.kind = (uint8_t)task->kind,
                                .ports = recorded ? task->ports : 0,
                                .input_count = (uint16_t)task->input_count,
                                .output_count = (uint16_t)task->output_count};
    size_t bindings = fields.ports ? braid_remote_binding_count(&fields) : 0;
    for (size_t k = 0; k < bindings; k++) {
      if (!braid_remote_is_port(&fields, k)) continue;
      braid_remote_binding binding = binding_of(task_binding(task, k));
      braid_remote_put_binding(writer, &binding);
    }
    if (task->kind != BRAID_TASK_WRITE) continue;
    braid_remote_write write = {blob ? BRAID_REMOTE_FROM_BLOB : BRAID_REMOTE_FROM_BODY, blob};
    if (!blob && task->target.bytes) parts[used++] = (struct iovec){task->host, task->target.bytes};
    braid_remote_put_write(writer, &write);
  }
  return used;
}

/* --- reading answers -----------------------------------------------------------------------------------------------
 */
/* The daemon's clock is another: the middle of its work is taken for the middle of our wait. */
static void read_timings(braid_wire_reader *reader, braid_task *const *tasks, size_t count, int64_t shift) {
  for (size_t i = 0; i < count; i++) {
    braid_timing timing;
    braid_remote_get_timing(reader, &timing);
    if (!tasks[i]->timing || reader->wrong || !timing.start_ns) continue;
    bool wrong = __builtin_sub_overflow(timing.start_ns, shift, &timing.start_ns);
    if (timing.end_ns) wrong |= __builtin_sub_overflow(timing.end_ns, shift, &timing.end_ns);
    if (wrong) continue; /* the daemon's clock is none */
    *tasks[i]->timing = timing;
  }
}

static void read_data(braid_wire_reader *reader, braid_task *const *tasks, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (tasks[i]->kind != BRAID_TASK_READ || !tasks[i]->source.bytes) continue;
    const uint8_t *data = braid_remote_get_bytes(reader, tasks[i]->source.bytes);
    if (data) memcpy(tasks[i]->host, data, tasks[i]->source.bytes);
  }
}

/* OK, or the status of the task that failed, *failed. */
static braid_status read_answer(remote_device *device, braid_wire_reader *reader, braid_task *const *tasks,
                                size_t count, int64_t sent_ns, size_t *failed) {
  braid_remote_result result;
  *failed = 0;
  const char *wrong = braid_remote_get_result(reader, &result);
  if (!wrong && result.timing_count && result.timing_count != count) wrong = "the daemon gives times of other tasks";
  if (!wrong && result.failed != BRAID_REMOTE_NONE && (result.failed >= count || result.status == BRAID_OK))
    wrong = "the daemon names a task that there is not";
  if (wrong) return remote_channel_break(&device->channel, wrong);
  int64_t before, after, shift = 0; /* numbers of the daemon's may be any */
  if (__builtin_sub_overflow(result.arrived_ns, sent_ns, &before) ||
      __builtin_sub_overflow(result.left_ns, braid_now_ns(), &after))
    return remote_channel_break(&device->channel, "the daemon's clock shows no time");
  shift = before / 2 + after / 2;
  if (result.timing_count) read_timings(reader, tasks, count, shift);
  if (result.failed == BRAID_REMOTE_NONE && result.status == BRAID_OK) read_data(reader, tasks, count);
  wrong = braid_wire_finish(reader);
  if (wrong) return remote_channel_break(&device->channel, wrong);
  if (result.failed != BRAID_REMOTE_NONE) *failed = result.failed;
  return result.status == BRAID_OK ? BRAID_OK : braid_fail(result.status, "%s", result.detail);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
/* A message and its answer. `id`: of a recording, or 0. `blob`: as in put_changes. `whole`: it goes on when the run is
 * cancelled. */
typedef struct message {
  braid_task *const *tasks;
  size_t count;
  uint32_t id, blob;
  bool whole;
  struct iovec *parts; /* room for one of each task */
} message;

static braid_status send_run(remote_device *device, const message *m, size_t *failed) {
  braid_task *const *tasks = m->tasks;
  size_t count = m->count;
  uint64_t most = kFields + count * sizeof(braid_timing);
  for (size_t i = 0; i < count; i++)
    if (tasks[i]->kind == BRAID_TASK_READ) most += tasks[i]->source.bytes;
  braid_wire_reader reader;
  braid_wire_writer *writer = remote_begin(&device->channel, m->id ? BRAID_REMOTE_REPLAY : BRAID_REMOTE_RUN);
  if (m->id)
    braid_wire_put_number(writer, m->id, 4);
  else
    put_tasks(writer, tasks, count, false);
  size_t used = put_changes(writer, tasks, count, m->id != 0, m->blob, m->parts);
  int64_t sent_ns = braid_now_ns();
  const braid_verdict *verdict = m->whole ? NULL : tasks[0]->verdict;
  braid_status status = remote_ask(&device->channel, m->parts, used, most, verdict, &reader);
  *failed = 0;
  if (status == BRAID_OK) status = read_answer(device, &reader, tasks, count, sent_ns, failed);
  remote_end(&device->channel);
  return status;
}

static void note_failure(braid_task *const *tasks, size_t failed, braid_status status) {
  braid_verdict *verdict = tasks[failed]->verdict;
  if (status == BRAID_CANCELLED && braid_verdict_cancelled(verdict)) return;
  braid_verdict_fail(verdict, tasks[failed], status == BRAID_CANCELLED ? BRAID_DEVICE_LOST : status);
}

static size_t data_bytes(const braid_task *task) {
  return task->kind == BRAID_TASK_READ ? task->source.bytes : task->kind == BRAID_TASK_WRITE ? task->target.bytes : 0;
}

/* Of one message, beside its fields. */
static size_t most_data(const remote_device *device) {
  uint64_t half = device->description.max_body / 2;
  return half < BRAID_REMOTE_CHUNK ? (size_t)half : BRAID_REMOTE_CHUNK;
}

/* A READ or WRITE that one message cannot hold, in pieces: all of them, since a task that was begun is ended. */
static braid_status send_pieces(remote_queue *queue, const braid_task *task, size_t most, size_t *calls) {
  size_t bytes = data_bytes(task), failed;
  for (size_t at = 0; at < bytes; at += most, ++*calls) {
    braid_task piece = *task, *list = &piece;
    braid_binding *binding = task->kind == BRAID_TASK_WRITE ? &piece.target : &piece.source;
    binding->offset += at;
    binding->bytes = bytes - at < most ? bytes - at : most;
    piece.host = (uint8_t *)task->host + at;
    piece.timing = NULL;
    const message m = {.tasks = &list, .count = 1, .whole = true, .parts = queue->parts};
    BRAID_TRY(send_run(queue->device, &m, &failed));
  }
  return BRAID_OK;
}

/* Whether what the task writes may be a constant that the daemon has: one of its size is looked for. */
static bool is_alone(const remote_device *device, const braid_task *task) {
  size_t bytes = data_bytes(task);
  return bytes > most_data(device) || (task->kind == BRAID_TASK_WRITE && bytes > BRAID_REMOTE_INLINE);
}

static braid_status run_alone(remote_queue *queue, braid_task *const *task, size_t *calls) {
  remote_device *device = queue->device;
  size_t most = most_data(device), failed;
  message m = {.tasks = task, .count = 1, .parts = queue->parts};
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&device->lock); /* a constant that is found stays until the message is answered */
  if ((*task)->kind == BRAID_TASK_WRITE) m.blob = remote_blob_find(device, (*task)->host, (*task)->target.bytes);
  if (m.blob) status = send_run(device, &m, &failed);
  pthread_mutex_unlock(&device->lock);
  if (!m.blob && data_bytes(*task) > most) return send_pieces(queue, *task, most, calls);
  if (!m.blob) status = send_run(device, &m, &failed);
  ++*calls;
  return status;
}

/* Tasks that wait for nothing, in as many messages as they need. Returns how many that were. */
static size_t run_list(remote_queue *queue, braid_task *const *tasks, size_t count) {
  size_t most = most_data(queue->device), at = 0, calls = 0;
  while (at < count && !braid_verdict_cancelled(tasks[at]->verdict)) {
    size_t taken = 0, bytes = 0, failed = 0;
    braid_status status;
    braid_clear_detail();
    while (at + taken < count && taken < kBatch && !is_alone(queue->device, tasks[at + taken])) {
      bytes += data_bytes(tasks[at + taken]);
      if (bytes > most) break;
      taken++;
    }
    if (taken) {
      const message m = {.tasks = tasks + at, .count = taken, .parts = queue->parts};
      status = send_run(queue->device, &m, &failed);
      calls++;
    } else {
      status = run_alone(queue, tasks + at, &calls);
      taken = 1;
    }
    if (status != BRAID_OK) note_failure(tasks + at, failed, status);
    at += taken;
  }
  return calls;
}

/* Unless the run is cancelled: what the task waits for may never come. */
static void wait_for_others(const braid_task *task) {
  for (size_t i = 0; i < task->wait_count; i++) {
    const braid_point *point = &task->waits[i];
    while (!braid_timeline_reached(point->timeline, point->value) && !braid_verdict_cancelled(task->verdict)) {
      uint32_t word = 0;
      braid_point_sleep(point, task->verdict, &word, 0, -1);
    }
  }
}

/* How many tasks from here on run without a wait in between. */
static size_t count_free(braid_task *const *tasks, size_t count) {
  size_t free = 1;
  while (free < count && !tasks[free]->wait_count) free++;
  return free;
}

/* A segment, as it was recorded or, if a task in it has been given something to wait for since, in parts. Returns how
 * many messages that took. */
static size_t run_segment(remote_queue *queue, const recording *all, const segment *s, uint64_t first) {
  size_t calls = 0;
  for (size_t at = 0, count; at < s->count; at += count) {
    braid_task *const *tasks = all->tasks + s->from + at;
    count = count_free(tasks, s->count - at);
    wait_for_others(tasks[0]);
    if (braid_verdict_cancelled(tasks[0]->verdict)) return calls;
    if (s->id && count == s->count) {
      size_t failed;
      braid_clear_detail();
      const message m = {.tasks = tasks, .count = count, .id = s->id, .parts = all->parts};
      braid_status status = send_run(queue->device, &m, &failed);
      if (status != BRAID_OK) note_failure(tasks, failed, status);
      calls++;
    } else {
      calls += run_list(queue, tasks, count);
    }
    size_t done = s->from + at + count;
    if (done < all->count) braid_timeline_raise(queue->timeline, first + done - 1);
  }
  return calls;
}

static void run_recording(remote_queue *queue, const recording *all, uint64_t first) {
  remote_device *device = queue->device;
  size_t calls = 0;
  const braid_verdict *verdict = all->tasks[0]->verdict;
  for (size_t i = 0; i < all->segment_count && !braid_verdict_cancelled(verdict); i++)
    calls += run_segment(queue, all, &all->segments[i], first);
  __atomic_fetch_add(&device->runs, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&device->run_calls, calls, __ATOMIC_RELAXED);
  braid_timeline_raise(queue->timeline, first + all->count - 1); /* from here on the recording may be gone */
}

/* Takes the first of the line, and single tasks behind it that go with it; 0: the queue ends. */
static size_t queue_take(remote_queue *queue, braid_task **tasks, recording **all) {
  size_t count = 0;
  *all = NULL;
  pthread_mutex_lock(&queue->lock);
  while (!queue->first && !queue->stopping) pthread_cond_wait(&queue->changed, &queue->lock);
  while (queue->first && count < kBatch && !*all) {
    braid_task *task = queue->first;
    if (count && (task->link[1] || task->wait_count || task->verdict != tasks[0]->verdict)) break;
    *all = task->link[1];
    tasks[count++] = task;
    queue->first = task->link[0];
  }
  if (!queue->first) queue->last = NULL;
  pthread_mutex_unlock(&queue->lock);
  return count;
}

static void *queue_main(void *context) {
  remote_queue *queue = context;
  braid_task *tasks[kBatch];
  recording *all;
  size_t count;
  while ((count = queue_take(queue, tasks, &all)) > 0) {
    uint64_t last = tasks[count - 1]->value;
    if (all) {
      run_recording(queue, all, last);
      continue;
    }
    wait_for_others(tasks[0]);
    (void)run_list(queue, tasks, count);
    braid_timeline_raise(queue->timeline, last); /* the tasks are their owners' again */
  }
  return NULL;
}

/* --- submitting ----------------------------------------------------------------------------------------------------
 */
static void queue_push(remote_queue *queue, braid_task *task, recording *all) {
  task->link[0] = NULL;
  task->link[1] = all;
  pthread_mutex_lock(&queue->lock);
  if (queue->last)
    queue->last->link[0] = task;
  else
    queue->first = task;
  queue->last = task;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}

braid_status remote_submit(void *self, braid_task *task) {
  queue_push(self, task, NULL);
  return BRAID_OK;
}

braid_status remote_replay(void *self, void *which, uint64_t first) {
  recording *all = which;
  all->tasks[0]->value = first;
  queue_push(self, all->tasks[0], all);
  return BRAID_OK;
}

/* --- recordings ----------------------------------------------------------------------------------------------------
 */
static void recording_free(remote_queue *queue, recording *all) {
  remote_device *device = queue->device;
  for (size_t i = 0; i < all->segment_count; i++) {
    if (!all->segments[i].id) continue;
    braid_wire_put_number(remote_begin(&device->channel, BRAID_REMOTE_ERASE), all->segments[i].id, 4);
    remote_post(&device->channel);
  }
  braid_free(device->allocator, all->segments);
  braid_free(device->allocator, all->parts);
  braid_free(device->allocator, all);
}

static braid_status segment_record(remote_device *device, braid_task *const *tasks, segment *s) {
  size_t bytes = 0, most = most_data(device);
  braid_wire_reader reader;
  for (size_t i = 0; i < s->count && bytes <= most; i++) {
    bytes += data_bytes(tasks[s->from + i]);
  }
  if (bytes > most || s->count > BRAID_REMOTE_TASKS) return BRAID_OK;
  put_tasks(remote_begin(&device->channel, BRAID_REMOTE_RECORD), tasks + s->from, s->count, true);
  braid_status status = remote_ask(&device->channel, NULL, 0, 4, NULL, &reader);
  if (status == BRAID_OK) {
    s->id = (uint32_t)braid_wire_get_number(&reader, 4);
    const char *wrong = braid_wire_finish(&reader);
    if (wrong || !s->id) status = remote_channel_break(&device->channel, wrong ? wrong : "a recording of number 0");
  }
  remote_end(&device->channel);
  return status;
}

static braid_status record_segments(remote_queue *queue, recording *all) {
  remote_device *device = queue->device;
  for (size_t i = 0; i < all->count; i++) {
    if (i && !all->tasks[i]->wait_count) {
      all->segments[all->segment_count - 1].count++;
      continue;
    }
    segment *segments =
        braid_grow(device->allocator, all->segments, all->segment_count, &all->segment_room, sizeof *segments);
    if (!segments) return BRAID_NO_MEMORY;
    all->segments = segments;
    segments[all->segment_count++] = (segment){.from = i, .count = 1};
  }
  for (size_t i = 0; i < all->segment_count; i++) BRAID_TRY(segment_record(device, all->tasks, &all->segments[i]));
  return BRAID_OK;
}

braid_status remote_record(void *self, braid_task *const *tasks, size_t count, void **out) {
  remote_queue *queue = self;
  const braid_allocator *allocator = queue->device->allocator;
  *out = NULL;
  if (!count) return braid_fail(BRAID_INVALID_ARGUMENT, "a recording of no tasks");
  recording *all = braid_zalloc(allocator, sizeof *all);
  if (!all) return BRAID_NO_MEMORY;
  all->tasks = tasks;
  all->count = count;
  all->parts = braid_zalloc_array(allocator, count, sizeof *all->parts);
  braid_status status = all->parts ? record_segments(queue, all) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = all;
  else
    recording_free(queue, all);
  return status;
}

void remote_erase(void *self, void *which) {
  recording_free(self, which);
}

/* --- life ----------------------------------------------------------------------------------------------------------
 */
braid_status remote_queue_create(void *self, braid_timeline *timeline, void **out) {
  remote_device *device = self;
  *out = NULL;
  remote_queue *queue = braid_zalloc(device->allocator, sizeof *queue);
  if (!queue) return BRAID_NO_MEMORY;
  queue->device = device;
  queue->timeline = timeline;
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->changed, NULL);
  braid_status status = braid_thread_start(&queue->thread, "braid remote", queue_main, queue);
  if (status == BRAID_OK) {
    *out = queue;
    return status;
  }
  pthread_mutex_destroy(&queue->lock);
  pthread_cond_destroy(&queue->changed);
  braid_free(device->allocator, queue);
  return status;
}

void remote_queue_destroy(void *self, void *which) {
  remote_queue *queue = which;
  (void)self;
  pthread_mutex_lock(&queue->lock);
  queue->stopping = true;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  braid_thread_join(&queue->thread);
  pthread_mutex_destroy(&queue->lock);
  pthread_cond_destroy(&queue->changed);
  braid_free(queue->device->allocator, queue);
}
