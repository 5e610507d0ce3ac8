#include "runtime/execution/trace.h"

#include <inttypes.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

enum { kRing = 1 << 17, kFlushBytes = 1 << 16 };

typedef struct braid_trace_entry {
  int64_t start_ns, end_ns;
  uint64_t run;
  braid_step_id step;
} braid_trace_entry;

/* A step reads what one of another queue has written. */
typedef struct braid_flow {
  braid_step_id from, to;
} braid_flow;

struct braid_trace {
  const braid_plan *plan;
  const braid_allocator *allocator;
  braid_writer *writer;
  uint64_t added;
  size_t *live;      /* per step and space: planned bytes in use while it runs */
  braid_flow *flows; /* in the order of `to` */
  size_t flow_count;
  braid_trace_entry entries[kRing];
};

static void free_trace(braid_trace *trace) {
  braid_writer_abort(trace->writer);
  braid_free(trace->allocator, trace->flows);
  braid_free(trace->allocator, trace->live);
  braid_free(trace->allocator, trace);
}

/* Sums what each storage of an arena takes over its life: +bytes at its first step, -bytes after its last. */
static void count_live(const braid_plan *plan, size_t *live) {
  size_t spaces = (size_t)plan->space_count, steps = plan->steps.count;
  for (size_t i = 0; i < plan->storage_count; i++) {
    const braid_storage *storage = &plan->storages[i];
    if (storage->same_as >= 0 || storage->kind != BRAID_STORAGE_ARENA || storage->first < 0) continue;
    live[(size_t)storage->first * spaces + (size_t)storage->space] += storage->bytes;
    if ((size_t)storage->last + 1 < steps)
      live[((size_t)storage->last + 1) * spaces + (size_t)storage->space] -= storage->bytes;
  }
  for (size_t i = spaces; i < steps * spaces; i++) live[i] += live[i - spaces];
}

/* Finds the step of the same run that wrote an input last, by storages: views and results in place have one. */
static braid_status find_flows(braid_trace *trace) {
  const braid_plan *plan = trace->plan;
  size_t inputs = 0;
  for (size_t i = 0; i < plan->steps.count; i++) inputs += plan->steps.items[i].input_count;
  trace->flows = braid_zalloc_array(trace->allocator, inputs, sizeof *trace->flows);
  braid_step_id *writers = braid_zalloc_array(trace->allocator, plan->storage_count, sizeof *writers);
  if (!trace->flows || !writers) {
    braid_free(trace->allocator, writers);
    return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < plan->storage_count; i++) writers[i] = -1;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    for (size_t k = 0; k < step->input_count + step->output_count; k++) {
      if (step->instances[k] < 0) continue;
      braid_step_id *writer = &writers[braid_plan_find(plan, plan->instances[step->instances[k]].storage)];
      if (k >= step->input_count)
        *writer = (braid_step_id)i;
      else if (*writer >= 0 && plan->steps.items[*writer].queue != step->queue)
        trace->flows[trace->flow_count++] = (braid_flow){*writer, (braid_step_id)i};
    }
  }
  braid_free(trace->allocator, writers);
  return BRAID_OK;
}

braid_status braid_trace_create(const braid_plan *plan, const char *path, braid_trace **out) {
  *out = NULL;
  braid_trace *trace = braid_alloc(plan->allocator, sizeof *trace);
  if (!trace) return BRAID_NO_MEMORY;
  trace->plan = plan;
  trace->allocator = plan->allocator;
  trace->added = 0;
  trace->writer = NULL;
  trace->flows = NULL;
  trace->flow_count = 0;
  trace->live = braid_zalloc_array(plan->allocator, plan->steps.count * (size_t)plan->space_count, sizeof *trace->live);
  braid_status status = trace->live ? find_flows(trace) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_writer_open(plan->allocator, path, &trace->writer);
  if (status != BRAID_OK) {
    free_trace(trace);
    return status;
  }
  count_live(plan, trace->live);
  *out = trace;
  return BRAID_OK;
}

void braid_trace_add(braid_trace *trace, uint64_t run, braid_step_id step, int64_t start_ns, int64_t end_ns) {
  trace->entries[trace->added++ % kRing] = (braid_trace_entry){start_ns, end_ns, run, step};
}

/* --- writing -------------------------------------------------------------------------------------------------------
 * A process for the runs, and one per device with a thread per queue. Their ids begin at 1: 0 is the kernel's, and
 * viewers put it elsewhere. */
enum { kRunsProcess = 1, kRunsThread = 1 };

static int process_of(int device) {
  return kRunsProcess + 1 + device;
}

static int thread_of(int queue) {
  return 1 + queue;
}

static void add_names(const braid_trace *trace, braid_text *text) {
  const braid_plan *plan = trace->plan;
  braid_text_printf(text, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"runs\"}},\n",
                    kRunsProcess);
  for (size_t i = 0; i < plan->device_count; i++) {
    const braid_machine_device *device = &plan->devices[i];
    braid_text_printf(text,
                      "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":", process_of((int)i));
    braid_text_add_json(text, device->label);
    braid_text_add(text, device->info->modelled ? ",\"time\":\"modelled\"}},\n" : ",\"time\":\"measured\"}},\n");
  }
  static const char *const kRoles[] = {[BRAID_QUEUE_KERNELS] = "kernels",
                                       [BRAID_QUEUE_WRITES] = "writes",
                                       [BRAID_QUEUE_READS] = "reads",
                                       [BRAID_QUEUE_GROUP] = "group"};
  for (size_t q = 0; q < plan->queue_count; q++) {
    if (!plan->queues[q].used) continue;
    braid_text_printf(text,
                      "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n",
                      process_of(plan->queues[q].device), thread_of((int)q), kRoles[plan->queues[q].role]);
  }
}

static void add_step(const braid_trace *trace, const braid_trace_entry *entry, braid_text *text) {
  const braid_step *step = &trace->plan->steps.items[entry->step];
  braid_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
  braid_text_add_json(text, step->label);
  braid_text_add(text, ",\"cat\":");
  braid_text_add_json(text, step->op);
  braid_text_printf(
      text, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"kernel\":", process_of(step->device),
      thread_of(step->queue), (double)entry->start_ns / 1e3, (double)(entry->end_ns - entry->start_ns) / 1e3);
  braid_text_add_json(text, step->kernel ? step->kernel->name : "transfer");
  braid_instance_id result = step->output_count ? step->instances[step->input_count] : -1;
  if (result >= 0) {
    char shape[128], layout[BRAID_LAYOUT_TEXT];
    const braid_desc *desc = &trace->plan->instances[result].desc;
    braid_text_printf(text, ",\"output\":\"%s\",\"layout\":\"%s\"", braid_desc_format(desc, shape, sizeof shape),
                      braid_layout_format(desc->layout, desc->rank, layout, sizeof layout));
  }
  braid_text_add(text, "}}");
}

static void add_memory(const braid_trace *trace, const braid_trace_entry *entry, braid_text *text) {
  const braid_plan *plan = trace->plan;
  const braid_step *step = &plan->steps.items[entry->step];
  int space = plan->devices[step->device].space;
  size_t bytes = trace->live[(size_t)entry->step * (size_t)plan->space_count + (size_t)space];
  braid_text_printf(text, ",\n{\"ph\":\"C\",\"name\":\"memory\",\"pid\":%d,\"ts\":%.3f,\"args\":{\"bytes\":%zu}}",
                    process_of(step->device), (double)entry->start_ns / 1e3, bytes);
}

static void add_flow_end(const braid_trace *trace, const char *phase, uint64_t id, braid_step_id at, int64_t ns,
                         braid_text *text) {
  const braid_step *step = &trace->plan->steps.items[at];
  braid_text_printf(
      text, ",\n{\"ph\":%s,\"cat\":\"flow\",\"name\":\"data\",\"id\":%" PRIu64 ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
      phase, id, process_of(step->device), thread_of(step->queue), (double)ns / 1e3);
}

/* Arrows from the end of a producer to the beginning of its consumer. Viewers find a slice by a time inside it, and its
 * end is outside. */
static void add_flow(const braid_trace *trace, uint64_t id, const braid_trace_entry *from, const braid_trace_entry *to,
                     braid_text *text) {
  int64_t leaves = from->end_ns > from->start_ns ? from->end_ns - 1 : from->start_ns;
  add_flow_end(trace, "\"s\"", id, from->step, leaves, text);
  add_flow_end(trace, "\"f\",\"bp\":\"e\"", id, to->step, to->start_ns, text);
}

static braid_status flush(braid_writer *writer, braid_text *text) {
  if (text->failed) return BRAID_NO_MEMORY;
  braid_status status = braid_writer_put(writer, text->data, text->length);
  text->length = 0;
  return status;
}

static const braid_trace_entry *entry_at(const braid_trace *trace, uint64_t at) {
  return &trace->entries[at % kRing];
}

/* The entries of one run, in the plan's order, from `first` on; returns the first of the next run. `found`: per step,
 * room for its entry. */
static uint64_t add_run(const braid_trace *trace, uint64_t first, const braid_trace_entry **found, braid_text *text) {
  uint64_t run = entry_at(trace, first)->run, next = first;
  int64_t start = INT64_MAX, end = 0;
  for (size_t i = 0; i < trace->plan->steps.count; i++) found[i] = NULL;
  for (; next < trace->added && entry_at(trace, next)->run == run; next++) {
    const braid_trace_entry *entry = entry_at(trace, next);
    found[entry->step] = entry;
    if (entry->start_ns < start) start = entry->start_ns;
    if (entry->end_ns > end) end = entry->end_ns;
    add_step(trace, entry, text);
    add_memory(trace, entry, text);
  }
  for (size_t i = 0; i < trace->flow_count; i++) {
    const braid_flow *flow = &trace->flows[i];
    if (found[flow->from] && found[flow->to])
      add_flow(trace, run * trace->flow_count + i + 1, found[flow->from], found[flow->to], text);
  }
  braid_text_printf(text,
                    ",\n{\"ph\":\"X\",\"name\":\"run %" PRIu64
                    "\",\"cat\":\"run\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{}}",
                    run + 1, kRunsProcess, kRunsThread, (double)start / 1e3, (double)(end - start) / 1e3);
  return next;
}

static braid_status write_entries(const braid_trace *trace, braid_writer *writer, braid_text *text) {
  uint64_t first = trace->added > kRing ? trace->added - kRing : 0;
  const braid_trace_entry **found = braid_zalloc_array(trace->allocator, trace->plan->steps.count, sizeof(void *));
  if (!found) return BRAID_NO_MEMORY;
  braid_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  add_names(trace, text);
  braid_text_printf(text, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"forgotten\",\"args\":{\"steps\":%" PRIu64 "}}",
                    kRunsProcess, first);
  braid_status status = BRAID_OK;
  for (uint64_t i = first; i < trace->added && status == BRAID_OK;) {
    i = add_run(trace, i, found, text);
    if (text->length > kFlushBytes) status = flush(writer, text);
  }
  braid_text_add(text, "\n]}\n");
  if (status == BRAID_OK) status = flush(writer, text);
  braid_free(trace->allocator, found);
  return status;
}

braid_status braid_trace_finish(braid_trace *trace) {
  if (!trace) return BRAID_OK;
  braid_text text;
  braid_text_init(&text, trace->allocator);
  braid_status status = write_entries(trace, trace->writer, &text);
  if (status == BRAID_OK) {
    status = braid_writer_commit(trace->writer);
    trace->writer = NULL;
  }
  braid_text_deinit(&text);
  free_trace(trace);
  return status;
}
