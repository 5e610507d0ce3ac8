#include "backend/cuda/record.h"

#include "backend/cuda/kernel.h"
#include "backend/cuda/memory.h"
#include "base/detail.h"
#include "base/try.h"

typedef struct recording recording;

/* Tasks `first` to first + count - 1, as one graph or one by one. */
typedef struct segment {
  size_t first, count;
  braid_cuda_graph_exec exec; /* NULL: not captured yet */
  bool in_turn;               /* its launches go one after the other */
  bool broken;                /* cannot be captured */
  braid_cuda_event *end;      /* of the last replay, held until the next; NULL: its tasks went one by one */
} segment;

/* Of a task: link[1] while it is replayed. */
typedef struct item {
  recording *all;
  segment *segment;
  size_t index;
  braid_cuda_address *seen; /* where its bindings lay when it was captured; NULL: they never change */
} item;

struct recording {
  braid_cuda_queue *queue;
  braid_task *const *tasks;
  size_t count, segment_count;
  item *items;
  segment *segments;
  braid_cuda_address *seen;
  uint32_t *faults; /* a word for each task; NULL: none has a kernel that may find one */
  braid_cuda_address fault_address;
};

/* --- recording -----------------------------------------------------------------------------------------------------
 */
static bool is_graphable(const braid_task *task) {
  return task->kind == BRAID_TASK_KERNEL || (task->kind == BRAID_TASK_COPY && !task->source_device);
}

/* Does the task begin another segment than the one before it is in? */
static bool begins_segment(const recording *all, size_t i) {
  const braid_task *task = all->tasks[i], *before = i ? all->tasks[i - 1] : NULL;
  return !before || !is_graphable(task) || !is_graphable(before) || task->wait_count || before->awaited;
}

static size_t binding_count(const braid_task *task) {
  return task->kind == BRAID_TASK_KERNEL ? task->input_count + task->output_count + 1 : 2;
}

static const braid_binding *binding_at(const braid_task *task, size_t i) {
  if (task->kind == BRAID_TASK_KERNEL) return &task->bindings[i];
  return i ? &task->target : &task->source;
}

static braid_status make_items(recording *all) {
  size_t seen = 0;
  bool faults = false;
  all->items = braid_zalloc_array(NULL, all->count, sizeof *all->items);
  all->segments = braid_zalloc_array(NULL, all->count, sizeof *all->segments);
  for (size_t i = 0; i < all->count; i++) {
    seen += all->tasks[i]->ports ? binding_count(all->tasks[i]) : 0;
    faults |= braid_cuda_may_fault(all->tasks[i]);
  }
  all->seen = braid_zalloc_array(NULL, seen + 1, sizeof *all->seen);
  if (!all->items || !all->segments || !all->seen) return BRAID_NO_MEMORY;
  seen = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (begins_segment(all, i)) all->segments[all->segment_count++] = (segment){.first = i};
    segment *in = &all->segments[all->segment_count - 1];
    in->count++;
    all->items[i] = (item){.all = all, .segment = in, .index = i};
    if (!all->tasks[i]->ports) continue;
    all->items[i].seen = all->seen + seen;
    seen += binding_count(all->tasks[i]);
  }
  if (!faults) return BRAID_OK;
  return braid_cuda_make_words(all->queue->device, all->count, &all->faults, &all->fault_address);
}

braid_status braid_cuda_record(void *which, braid_task *const *tasks, size_t count, void **out) {
  braid_cuda_queue *queue = which;
  *out = NULL;
  if (!count) return braid_fail(BRAID_INVALID_ARGUMENT, "a recording of no tasks");
  recording *all = braid_zalloc(NULL, sizeof *all);
  if (!all) return BRAID_NO_MEMORY;
  *all = (recording){.queue = queue, .tasks = tasks, .count = count};
  braid_cuda_enter(queue->device);
  braid_status status = make_items(all);
  braid_cuda_leave(queue->device);
  if (status == BRAID_OK)
    *out = all;
  else
    braid_cuda_erase(queue, all);
  return status;
}

/* The first tasks may have ended, and let go of the event, before the last are issued. */
static void release_ends(recording *all) {
  for (size_t i = 0; i < all->segment_count; i++) {
    braid_cuda_event *end = all->segments[i].end;
    if (end) all->queue->base.driver->release(&all->queue->base, end);
    all->segments[i].end = NULL;
  }
}

static void free_handles(const recording *all) {
  const braid_cuda_device *device = all->queue->device;
  braid_cuda_enter(device);
  for (size_t i = 0; i < all->segment_count; i++)
    if (all->segments[i].exec) (void)device->cuda->graph_exec_destroy(all->segments[i].exec);
  if (all->faults) (void)device->cuda->host_free(all->faults);
  braid_cuda_leave(device);
}

void braid_cuda_erase(void *which, void *recorded) {
  const braid_cuda_queue *queue = which;
  recording *all = recorded;
  release_ends(all);
  if (!braid_cuda_device_is_lost(queue->device)) free_handles(all);
  braid_free(NULL, all->items);
  braid_free(NULL, all->segments);
  braid_free(NULL, all->seen);
  braid_free(NULL, all);
}

braid_status braid_cuda_replay(void *which, void *recorded, uint64_t first) {
  recording *all = recorded;
  release_ends(all);
  for (size_t i = 0; i < all->count; i++) {
    all->tasks[i]->value = first + i;
    all->tasks[i]->link[1] = &all->items[i];
  }
  /* Once the last is submitted all may be gone. */
  braid_task *const *tasks = all->tasks;
  for (size_t i = 0, count = all->count; i < count; i++) BRAID_TRY(braid_launch_queue_submit(which, tasks[i]));
  return BRAID_OK;
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static braid_cuda_address fault_of(const recording *all, size_t index) {
  return all->faults ? all->fault_address + index * sizeof *all->faults : 0;
}

/* Are ports where they were? If not, notes where they are. */
static bool note_ports(const recording *all, const segment *in) {
  bool same = true;
  for (size_t i = in->first; i < in->first + in->count; i++) {
    const item *own = &all->items[i];
    for (size_t b = 0; own->seen && b < binding_count(all->tasks[i]); b++) {
      const braid_binding *binding = binding_at(all->tasks[i], b);
      const braid_cuda_buffer *buffer = binding->buffer;
      braid_cuda_address address = buffer ? buffer->address + binding->offset : 0;
      same = same && own->seen[b] == address;
      own->seen[b] = address;
    }
  }
  return same;
}

static braid_status capture_tasks(const recording *all, const segment *in, braid_cuda_overlap *overlap,
                                  braid_cuda_graph *graph) {
  braid_cuda_queue *queue = all->queue;
  const braid_cuda_api *cuda = queue->device->cuda;
  *graph = NULL;
  BRAID_CUDA_TRY(cuda->stream_capture(queue->capture, BRAID_CUDA_CAPTURE_RELAXED), "beginning a graph");
  braid_status status = BRAID_OK;
  for (size_t i = in->first; status == BRAID_OK && i < in->first + in->count; i++)
    status = braid_cuda_enqueue_task(queue, all->tasks[i], queue->capture, fault_of(all, i), overlap);
  braid_cuda_result code = cuda->stream_captured(queue->capture, graph);
  if (status == BRAID_OK && code) status = braid_cuda_fail(code, "a graph");
  if (status != BRAID_OK && *graph) {
    (void)cuda->graph_destroy(*graph);
    *graph = NULL;
  }
  return status;
}

/* Launches beside each other or, where that cannot be had, one after the other. */
static braid_status capture_segment(const recording *all, segment *in, braid_cuda_graph *graph) {
  const braid_cuda_queue *queue = all->queue;
  braid_cuda_overlap *overlap = NULL;
  if (in->in_turn) return capture_tasks(all, in, NULL, graph);
  braid_status status = braid_cuda_overlap_create(queue->device->cuda, queue->capture, &overlap);
  if (status == BRAID_OK) status = capture_tasks(all, in, overlap, graph);
  braid_cuda_overlap_destroy(overlap);
  if (status == BRAID_OK || status == BRAID_DEVICE_LOST) return status;
  in->in_turn = true;
  braid_log_write(queue->device->log, BRAID_LOG_DEBUG, "%s: %zu tasks from %.60s on run one after the other: %s",
                  queue->device->info.name, in->count, all->tasks[in->first]->label, braid_error_detail());
  braid_clear_detail();
  return capture_tasks(all, in, NULL, graph);
}

/* The graph as it is to be launched: the one there is with other memory, or a new one. */
static braid_status renew_segment(const recording *all, segment *in) {
  const braid_cuda_api *cuda = all->queue->device->cuda;
  braid_cuda_graph graph;
  braid_cuda_update update = {0};
  BRAID_TRY(capture_segment(all, in, &graph));
  if (in->exec && cuda->graph_update(in->exec, graph, &update)) {
    (void)cuda->graph_exec_destroy(in->exec);
    in->exec = NULL;
  }
  braid_cuda_result code = in->exec ? 0 : cuda->graph_instantiate(&in->exec, graph, 0);
  (void)cuda->graph_destroy(graph);
  if (code) in->exec = NULL;
  return code ? braid_cuda_fail(code, "making a graph") : BRAID_OK;
}

/* Nobody wants to know how long one of its tasks takes, and none of them fails where it is enqueued. */
static bool is_ready(const recording *all, segment *in) {
  if (in->count < 2 || in->broken) return false;
  for (size_t i = in->first; i < in->first + in->count; i++)
    if (all->tasks[i]->timing) return false;
  bool same = note_ports(all, in);
  if (in->exec && same) return true;
  if (renew_segment(all, in) == BRAID_OK) return true;
  in->broken = true;
  braid_log_write(all->queue->device->log, BRAID_LOG_WARNING, "%s: %zu tasks from %.60s on run one by one: %s",
                  all->queue->device->info.name, in->count, all->tasks[in->first]->label, braid_error_detail());
  braid_clear_detail();
  return false;
}

static bool launch_segment(const recording *all, segment *in) {
  braid_cuda_queue *queue = all->queue;
  const braid_cuda_api *cuda = queue->device->cuda;
  braid_cuda_event *end;
  if (!is_ready(all, in)) return false;
  if (braid_cuda_event_take(queue, false, &end) != BRAID_OK) {
    braid_clear_detail();
    return false;
  }
  for (size_t i = in->first; all->faults && i < in->first + in->count; i++) all->faults[i] = 0;
  braid_cuda_result code = cuda->graph_launch(in->exec, queue->stream);
  if (!code) code = cuda->event_record(end->handle, queue->stream);
  if (code) {
    queue->base.driver->release(&queue->base, end);
    return false;
  }
  in->end = end;
  return true;
}

bool braid_cuda_replay_task(braid_cuda_queue *queue, const braid_task *task, braid_cuda_event **end) {
  const item *own = task->link[1];
  segment *in = own ? own->segment : NULL;
  if (!in) return false;
  if (own->index == in->first && !launch_segment(own->all, in)) return false;
  if (!in->end) return false;
  queue->base.driver->retain(&queue->base, in->end);
  *end = in->end;
  return true;
}

uint32_t *braid_cuda_replay_fault(const braid_task *task) {
  const item *own = task->link[1];
  return own && own->all->faults && own->segment->end ? &own->all->faults[own->index] : NULL;
}
