/* Runs: tasks from clients, checked against what they touch, and given to the device's queue. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"
#include "serve/remote/session.h"
#include "tensor/layout.h"

enum { kLeastTask = 11, kLookNs = 20000000, kCountedTask = 512 };

/* Tasks of a run, or of a recording. */
typedef struct session_run {
  braid_arena *arena; /* of what follows */
  braid_remote_task *fields;
  braid_task *tasks;
  braid_task **list;
  braid_binding *bindings;
  braid_timing *timings;
  session_prepared **prepared;
  session_buffer **buffers; /* of bindings that stay as they are; one user of each */
  size_t count, buffer_count;
  size_t read_bytes;
  braid_verdict verdict;
  void *native; /* the backend's recording; NULL: none */
  size_t counted;
  bool recorded;
} session_run;

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static void run_free(session *s, session_run *run) {
  if (run->native) s->backend->erase(s->queue.self, run->native);
  for (size_t i = 0; i < run->count && run->recorded; i++)
    if (run->prepared[i]) session_prepared_release(s, run->prepared[i]);
  for (size_t i = 0; i < run->buffer_count; i++) session_buffer_release(s, run->buffers[i]);
  if (run->counted) session_uncount(s, run->counted);
  braid_arena_destroy(run->arena);
  braid_free(NULL, run);
}

static void *take_array(session_run *run, size_t count, size_t bytes) {
  size_t total;
  return braid_mul_size(count + 1, bytes, &total) ? braid_arena_alloc(run->arena, total) : NULL;
}

static braid_status run_create(session *s, size_t count, session_run **out) {
  *out = NULL;
  session_run *run = braid_zalloc(NULL, sizeof *run);
  if (!run) return BRAID_NO_MEMORY;
  braid_status status = braid_arena_create(NULL, &run->arena);
  if (status == BRAID_OK) {
    run->fields = take_array(run, count, sizeof *run->fields);
    run->tasks = take_array(run, count, sizeof *run->tasks);
    run->list = take_array(run, count, sizeof(braid_task *));
    run->timings = take_array(run, count, sizeof *run->timings);
    run->prepared = take_array(run, count, sizeof(session_prepared *));
    bool all = run->fields && run->tasks && run->list && run->timings && run->prepared;
    status = all ? BRAID_OK : BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK)
    *out = run;
  else
    run_free(s, run);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_binding *binding_at(const braid_task *task, size_t index) {
  if (task->kind == BRAID_TASK_KERNEL) return (braid_binding *)(uintptr_t)&task->bindings[index]; /* the run's own */
  bool target = task->kind == BRAID_TASK_WRITE || (task->kind == BRAID_TASK_COPY && index);
  return (braid_binding *)(uintptr_t)(target ? &task->target : &task->source);
}

/* What a binding names; the place in it is checked later. *out_buffer (NULL: not wanted): which buffer it is. */
static braid_status read_binding(session *s, braid_wire_reader *reader, braid_binding *out,
                                 session_buffer **out_buffer) {
  braid_remote_binding given;
  braid_remote_get_binding(reader, &given);
  if (reader->wrong) return session_finish(reader);
  session_buffer *buffer = session_table_get(&s->buffers, given.buffer);
  if (given.buffer && !buffer) return braid_fail(BRAID_NOT_FOUND, "there is no buffer %u", given.buffer);
  if (out_buffer) *out_buffer = buffer;
  *out = (braid_binding){0};
  if (!buffer) return BRAID_OK;
  if (given.offset > SIZE_MAX || given.bytes > SIZE_MAX || given.offset > buffer->bytes ||
      given.bytes > buffer->bytes - given.offset) {
    *out = (braid_binding){.buffer = buffer->self, .offset = SIZE_MAX}; /* the task fails when its turn comes */
    return BRAID_OK;
  }
  *out = (braid_binding){buffer->self, NULL, (size_t)given.offset, (size_t)given.bytes};
  return BRAID_OK;
}

static braid_status read_task(session *s, braid_wire_reader *reader, session_run *run, size_t i) {
  braid_remote_task *fields = &run->fields[i];
  braid_task *task = &run->tasks[i];
  braid_remote_get_task(reader, fields);
  if (reader->wrong) return session_finish(reader);
  size_t count = braid_remote_binding_count(fields);
  if (count > (reader->bytes - reader->at) / BRAID_REMOTE_BINDING_BYTES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the message ends within a task's bindings");
  *task = (braid_task){.kind = (braid_task_kind)fields->kind, .label = fields->label, .verdict = &run->verdict};
  run->list[i] = task;
  if (task->kind == BRAID_TASK_KERNEL) {
    session_prepared *prepared = session_table_get(&s->prepared, fields->prepared);
    if (!prepared) return braid_fail(BRAID_NOT_FOUND, "there is no prepared kernel %u", fields->prepared);
    const braid_node_desc *node = &prepared->node.desc;
    if (fields->input_count != node->input_count || fields->output_count != node->output_count)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s: kernel %s was prepared for other numbers of operands", task->label,
                        prepared->kernel->name);
    run->prepared[i] = prepared;
    if (run->recorded) prepared->users++;
    task->prepared = prepared->self;
    task->input_count = fields->input_count;
    task->output_count = fields->output_count;
    task->ports = run->recorded ? fields->ports : 0;
    task->bindings = take_array(run, count, sizeof(braid_binding));
    if (!task->bindings) return BRAID_NO_MEMORY;
  } else if (run->recorded) {
    task->ports = fields->ports;
  }
  for (size_t k = 0; k < count; k++) {
    session_buffer *buffer;
    bool port = run->recorded && braid_remote_is_port(fields, k);
    braid_status status = read_binding(s, reader, binding_at(task, k), &buffer);
    if (port && status == BRAID_NOT_FOUND) continue; /* each replay says what it is */
    BRAID_TRY(status);
    if (!run->recorded || !buffer || port) continue;
    run->buffers[run->buffer_count++] = buffer;
    buffer->users++;
  }
  return BRAID_OK;
}

/* How many bindings all tasks can have at most, by the bytes of the message. */
static braid_status read_tasks(session *s, braid_wire_reader *reader, bool recorded, session_run **out) {
  size_t count = braid_remote_get_count(reader, 4, BRAID_REMOTE_TASKS, kLeastTask);
  *out = NULL;
  if (reader->wrong) return session_finish(reader);
  if (!count) return braid_fail(BRAID_INVALID_ARGUMENT, "a run of no tasks");
  size_t bindings = (reader->bytes - reader->at) / BRAID_REMOTE_BINDING_BYTES;
  size_t counted = count * kCountedTask + bindings * (sizeof(braid_binding) + sizeof(void *)) + SESSION_OVERHEAD;
  BRAID_TRY(session_count(s, counted));
  session_run *run;
  braid_status status = run_create(s, count, &run);
  if (status != BRAID_OK) {
    session_uncount(s, counted);
    return status;
  }
  run->counted = counted;
  run->recorded = recorded;
  run->buffers = recorded ? take_array(run, bindings, sizeof(session_buffer *)) : NULL;
  if (recorded && !run->buffers) status = BRAID_NO_MEMORY;
  for (size_t i = 0; i < count && status == BRAID_OK; i++) {
    status = read_task(s, reader, run, i);
    run->count = i + 1;
  }
  if (status == BRAID_OK)
    *out = run;
  else
    run_free(s, run);
  return status;
}

/* --- checking ------------------------------------------------------------------------------------------------------
 */
static bool overlap(const braid_binding *a, const braid_binding *b) {
  return a->buffer && a->buffer == b->buffer && a->bytes && b->bytes && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static size_t needed_bytes(const session_prepared *prepared, size_t operand) {
  const session_node *node = &prepared->node;
  for (uint32_t i = 0; i < prepared->query.packing_count && node->desc.packed; i++)
    if (prepared->query.packings[i].input == operand) return prepared->query.packings[i].bytes;
  return braid_desc_bytes(&node->operands[operand].desc);
}

static braid_status check_place(const session *s, const braid_binding *binding, size_t needed, size_t operand) {
  if (binding->offset == SIZE_MAX)
    return braid_fail(BRAID_OUT_OF_RANGE, "operand %zu does not lie in its buffer", operand);
  if (!binding->buffer && needed) return braid_fail(BRAID_INVALID_ARGUMENT, "operand %zu is not bound", operand);
  if (!binding->buffer) return BRAID_OK;
  if (binding->bytes < needed)
    return braid_fail(BRAID_OUT_OF_RANGE, "operand %zu has %zu bytes and needs %zu", operand, binding->bytes, needed);
  if (binding->offset & (s->info.alignment - 1))
    return braid_fail(BRAID_INVALID_ARGUMENT, "operand %zu lies at %zu, the device's alignment is %zu", operand,
                      binding->offset, s->info.alignment);
  return BRAID_OK;
}

/* An output may lie over an input where the kernel says so and both have the same elements at the same places. */
static bool may_share(const session_prepared *prepared, const braid_binding *bindings, size_t input, size_t output) {
  const session_node *node = &prepared->node;
  const braid_operand *out = &node->operands[node->desc.input_count + output];
  uint32_t bits = output == 0  ? prepared->kernel->in_place
                  : output < 4 ? prepared->kernel->in_place_more[output - 1]
                               : 0;
  return input < 32 && bits >> input & 1 &&
         bindings[input].offset == bindings[node->desc.input_count + output].offset &&
         braid_layout_same_places(&node->operands[input].desc, &out->desc);
}

/* What is written lies over nothing that is read, or written by another. */
static braid_status check_overlaps(const session_prepared *prepared, const braid_binding *bindings) {
  size_t inputs = prepared->node.desc.input_count, outputs = prepared->node.desc.output_count;
  for (size_t o = inputs; o < inputs + outputs + 1; o++) {
    for (size_t i = 0; i < o; i++) {
      if (!overlap(&bindings[o], &bindings[i])) continue;
      if (o < inputs + outputs && i < inputs && may_share(prepared, bindings, i, o - inputs)) continue;
      return braid_fail(BRAID_INVALID_ARGUMENT, "operands %zu and %zu lie over each other", i, o);
    }
  }
  return BRAID_OK;
}

static braid_status check_kernel(const session *s, const session_prepared *prepared, const braid_task *task) {
  const session_node *node = &prepared->node;
  size_t operands = node->desc.input_count + node->desc.output_count;
  braid_binding *bindings = binding_at(task, 0);
  for (size_t i = 0; i < operands; i++) {
    bool folded = i < node->desc.input_count && i < 32 && (prepared->info.constants_folded >> i & 1);
    if (!node->operands[i].present || folded)
      bindings[i] = (braid_binding){0};
    else
      BRAID_TRY(check_place(s, &bindings[i], needed_bytes(prepared, i), i));
  }
  if (!prepared->info.workspace_bytes) bindings[operands] = (braid_binding){0};
  BRAID_TRY(check_place(s, &bindings[operands], prepared->info.workspace_bytes, operands));
  return check_overlaps(prepared, bindings);
}

static braid_status check_task(const session *s, const session_run *run, size_t i) {
  const braid_task *task = &run->tasks[i];
  bool source = task->kind == BRAID_TASK_READ || task->kind == BRAID_TASK_COPY;
  bool target = task->kind == BRAID_TASK_WRITE || task->kind == BRAID_TASK_COPY;
  if (task->kind == BRAID_TASK_KERNEL) return check_kernel(s, run->prepared[i], task);
  const char *wrong = NULL;
  if ((source && task->source.offset == SIZE_MAX) || (target && task->target.offset == SIZE_MAX))
    wrong = "a transfer does not lie in its buffer";
  else if ((source && !task->source.buffer && task->source.bytes) ||
           (target && !task->target.buffer && task->target.bytes))
    wrong = "a transfer has no buffer";
  else if (task->kind == BRAID_TASK_COPY && task->target.bytes < task->source.bytes)
    wrong = "a copy does not fit its target";
  else if (task->kind == BRAID_TASK_COPY && overlap(&task->source, &task->target))
    wrong = "a copy's source and target lie over each other";
  return wrong ? braid_fail(BRAID_OUT_OF_RANGE, "%s", wrong) : BRAID_OK;
}

/* --- what changes from run to run ----------------------------------------------------------------------------------
 */
/* The task writes a constant that the client has sent. */
static braid_status read_blob(session *s, session_run *run, size_t i, const braid_remote_write *write) {
  session_blob *blob = session_blob_find(s, write->blob);
  braid_task *task = &run->tasks[i];
  if (!blob) return braid_fail(BRAID_NOT_FOUND, "there is no constant %u", write->blob);
  if (task->target.offset != SIZE_MAX && task->target.bytes != blob->bytes)
    return braid_fail(BRAID_OUT_OF_RANGE, "constant %u has %zu bytes, its place %zu", write->blob, blob->bytes,
                      task->target.bytes);
  task->host = blob->data;
  return BRAID_OK;
}

/* Bindings that are ports, and how WRITEs get their bytes; those of the body follow behind all fields. */
static braid_status read_changes(session *s, braid_wire_reader *reader, session_run *run, bool *timed) {
  size_t data = 0;
  uint64_t flag = braid_wire_get_number(reader, 1);
  if (flag > 1) braid_remote_refuse(reader, "a run is timed or not");
  *timed = flag;
  for (size_t i = 0; i < run->count && !reader->wrong; i++) {
    braid_task *task = &run->tasks[i];
    size_t count = run->recorded && run->fields[i].ports ? braid_remote_binding_count(&run->fields[i]) : 0;
    for (size_t k = 0; k < count; k++)
      if (braid_remote_is_port(&run->fields[i], k)) BRAID_TRY(read_binding(s, reader, binding_at(task, k), NULL));
    if (task->kind != BRAID_TASK_WRITE) continue;
    braid_remote_write write;
    braid_remote_get_write(reader, &write);
    task->host = NULL;
    if (!reader->wrong && write.source == BRAID_REMOTE_FROM_BLOB) BRAID_TRY(read_blob(s, run, i, &write));
  }
  if (reader->wrong) return session_finish(reader);
  run->read_bytes = 0;
  for (size_t i = 0; i < run->count; i++) {
    braid_task *task = &run->tasks[i];
    bool placed = task->kind == BRAID_TASK_WRITE && !task->host;
    if (placed) {
      task->host = (uint8_t *)(uintptr_t)reader->data + reader->at + data; /* read only */
      if (!braid_add_size(data, task->target.bytes, &data)) return braid_fail(BRAID_OUT_OF_RANGE, "too many bytes");
    }
    if (task->kind == BRAID_TASK_READ && !braid_add_size(run->read_bytes, task->source.bytes, &run->read_bytes))
      return braid_fail(BRAID_OUT_OF_RANGE, "too many bytes are to be read");
  }
  if (data > reader->bytes - reader->at)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the message ends within the bytes to be written");
  reader->at += data;
  return BRAID_OK;
}

/* The client's own part of a binding that does not lie in its buffer may still have sent bytes for it: these are
 * skipped, for the task fails. */
static braid_status skip_rest(const session_run *run, braid_wire_reader *reader) {
  for (size_t i = 0; i < run->count; i++)
    if (run->tasks[i].kind == BRAID_TASK_WRITE && run->tasks[i].target.offset == SIZE_MAX) reader->at = reader->bytes;
  return session_finish(reader);
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
/* Until the last task has ended; a client that is gone, or cancels, ends the run early. */
static void run_await(session *s, session_run *run) {
  bool told = false;
  while (braid_timeline_wait(s->queue.timeline, s->queue.last, kLookNs) != BRAID_OK) {
    if (!told && session_is_cancelled(s)) {
      told = true;
      braid_verdict_cancel(&run->verdict);
    }
  }
}

static braid_status run_submit(session *s, session_run *run, size_t count) {
  braid_status status = BRAID_OK;
  if (run->native && count == run->count) {
    pthread_mutex_lock(&s->queue.lock);
    status = braid_queue_replay_locked(&s->queue, run->native, count);
    pthread_mutex_unlock(&s->queue.lock);
  } else {
    for (size_t i = 0; i < count && status == BRAID_OK; i++) {
      status = braid_queue_submit(&s->queue, &run->tasks[i]);
      if (status != BRAID_OK) braid_verdict_fail(&run->verdict, &run->tasks[i], status);
    }
  }
  braid_queue_flush(&s->queue);
  return status;
}

/* How many tasks are right before the first that is wrong, and what is wrong with that one. */
static size_t run_check(const session *s, const session_run *run, braid_status *wrong, char detail[BRAID_WIRE_DETAIL]) {
  size_t right = 0;
  *wrong = BRAID_OK;
  detail[0] = '\0';
  braid_clear_detail();
  while (right < run->count && (*wrong = check_task(s, run, right)) == BRAID_OK) right++;
  if (*wrong != BRAID_OK) snprintf(detail, BRAID_WIRE_DETAIL, "%.500s", braid_error_detail());
  return right;
}

/* Runs the tasks before the first that is wrong, which then fails. False: cancelled before they began. */
static bool run_execute(session *s, session_run *run, bool timed, braid_remote_result *result) {
  braid_status wrong;
  char detail[BRAID_WIRE_DETAIL];
  size_t right = run_check(s, run, &wrong, detail);
  if (!session_turn_begin(s)) return false;
  int64_t began = braid_now_ns();
  braid_verdict_init(&run->verdict);
  for (size_t i = 0; i < run->count; i++) {
    run->timings[i] = (braid_timing){.energy_uj = -1};
    run->tasks[i].timing = timed ? &run->timings[i] : NULL;
  }
  braid_status submitted = right ? run_submit(s, run, right) : BRAID_OK;
  run_await(s, run);
  session_turn_end(s, began);
  braid_status status = braid_verdict_status(&run->verdict);
  if (status == BRAID_OK && submitted != BRAID_OK) status = submitted;
  *result = (braid_remote_result){.failed = BRAID_REMOTE_NONE, .status = status};
  if (status != BRAID_OK) {
    const char *said = run->verdict.status != BRAID_OK ? run->verdict.detail : braid_status_text(status);
    if (run->verdict.task) result->failed = (uint32_t)(run->verdict.task - run->tasks);
    snprintf(result->detail, sizeof result->detail, "%.500s", said);
  } else if (wrong != BRAID_OK) {
    result->status = wrong;
    result->failed = (uint32_t)right;
    memcpy(result->detail, detail, sizeof detail);
  }
  return true;
}

/* Room for what is read, behind the answer. */
static braid_status place_reads(session *s, session_run *run) {
  size_t at = 0;
  if (run->read_bytes) {
    BRAID_TRY(session_count(s, run->read_bytes));
    s->data_counted = run->read_bytes;
    s->data = braid_zalloc(NULL, run->read_bytes);
    if (!s->data) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < run->count; i++) {
    if (run->tasks[i].kind != BRAID_TASK_READ) continue;
    run->tasks[i].host = s->data ? s->data + at : NULL;
    at += run->tasks[i].source.bytes;
  }
  return BRAID_OK;
}

static braid_status run_once(session *s, braid_wire_reader *reader, session_run *run) {
  bool timed;
  braid_remote_result result;
  BRAID_TRY(read_changes(s, reader, run, &timed));
  BRAID_TRY(skip_rest(run, reader));
  BRAID_TRY(place_reads(s, run));
  if (!run_execute(s, run, timed, &result))
    return braid_fail(BRAID_CANCELLED, "cancelled while it waited for the daemon's power cap");
  if (result.status == BRAID_OK) s->data_bytes = run->read_bytes;
  result.arrived_ns = s->arrived_ns;
  result.left_ns = braid_now_ns();
  result.timing_count = timed ? (uint32_t)run->count : 0;
  braid_remote_put_result(&s->writer, &result);
  for (size_t i = 0; i < result.timing_count; i++) braid_remote_put_timing(&s->writer, &run->timings[i]);
  return BRAID_OK;
}

braid_status session_run_message(session *s, braid_wire_reader *reader) {
  session_run *run;
  BRAID_TRY(read_tasks(s, reader, false, &run));
  braid_status status = run_once(s, reader, run);
  char detail[BRAID_WIRE_DETAIL];
  snprintf(detail, sizeof detail, "%.500s", status == BRAID_OK ? "" : braid_error_detail());
  run_free(s, run);
  return status == BRAID_OK ? BRAID_OK : braid_fail(status, "%s", detail);
}

/* --- recordings ----------------------------------------------------------------------------------------------------
 */
/* Tasks without ports are checked here, for the message that brings them is then answered by what is wrong. */
static braid_status run_record(session *s, braid_wire_reader *reader, session_run *run, uint32_t *handle) {
  *handle = 0;
  BRAID_TRY(session_finish(reader));
  for (size_t i = 0; i < run->count; i++)
    if (!run->fields[i].ports) BRAID_TRY(check_task(s, run, i));
  bool steady = true; /* what a backend records of kernels is where their operands lie */
  for (size_t i = 0; i < run->count; i++) steady &= run->tasks[i].kind != BRAID_TASK_KERNEL || !run->tasks[i].ports;
  if (s->backend->record && steady && run->count > 1)
    BRAID_TRY(s->backend->record(s->queue.self, run->list, run->count, &run->native));
  *handle = session_table_add(&s->recordings, run);
  return *handle ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status session_record_message(session *s, braid_wire_reader *reader) {
  session_run *run;
  uint32_t handle;
  BRAID_TRY(read_tasks(s, reader, true, &run));
  braid_status status = run_record(s, reader, run, &handle);
  if (status == BRAID_OK) {
    braid_wire_put_number(&s->writer, handle, 4);
    return BRAID_OK;
  }
  char detail[BRAID_WIRE_DETAIL];
  snprintf(detail, sizeof detail, "%.500s", braid_error_detail());
  run_free(s, run);
  return braid_fail(status, "%s", detail);
}

braid_status session_replay_message(session *s, braid_wire_reader *reader) {
  uint64_t handle = braid_wire_get_number(reader, 4);
  session_run *run = session_table_get(&s->recordings, handle);
  if (!run) return braid_fail(BRAID_NOT_FOUND, "there is no recording %llu", (unsigned long long)handle);
  return run_once(s, reader, run);
}

braid_status session_erase_message(session *s, braid_wire_reader *reader) {
  uint64_t handle = braid_wire_get_number(reader, 4);
  BRAID_TRY(session_finish(reader));
  session_run *run = session_table_take(&s->recordings, handle);
  if (!run) return braid_fail(BRAID_NOT_FOUND, "there is no recording %llu", (unsigned long long)handle);
  run_free(s, run);
  return BRAID_OK;
}

void session_recordings_free_all(session *s) {
  for (size_t i = 0; i < s->recordings.count; i++)
    if (s->recordings.items[i]) run_free(s, s->recordings.items[i]);
  braid_free(NULL, s->recordings.items);
}
