#include "runtime/execution/trace.h"

#include <inttypes.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"

enum { kRing = 1 << 17, kFlushBytes = 1 << 16 };

typedef struct braid_trace_entry {
  int64_t start_ns, end_ns;
  braid_step_id step;
} braid_trace_entry;

struct braid_trace {
  const braid_plan *plan;
  const braid_allocator *allocator;
  braid_writer *writer;
  uint64_t added;
  size_t *live; /* per step and space: planned bytes in use while it runs */
  braid_trace_entry entries[kRing];
};

static void free_trace(braid_trace *trace) {
  braid_writer_abort(trace->writer);
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

braid_status braid_trace_create(const braid_plan *plan, const char *path, braid_trace **out) {
  *out = NULL;
  braid_trace *trace = braid_alloc(plan->allocator, sizeof *trace);
  if (!trace) return BRAID_NO_MEMORY;
  trace->plan = plan;
  trace->allocator = plan->allocator;
  trace->added = 0;
  trace->writer = NULL;
  trace->live = braid_zalloc_array(plan->allocator, plan->steps.count * (size_t)plan->space_count, sizeof *trace->live);
  braid_status status = trace->live ? braid_writer_open(plan->allocator, path, &trace->writer) : BRAID_NO_MEMORY;
  if (status != BRAID_OK) {
    free_trace(trace);
    return status;
  }
  count_live(plan, trace->live);
  *out = trace;
  return BRAID_OK;
}

void braid_trace_add(braid_trace *trace, braid_step_id step, int64_t start_ns, int64_t end_ns) {
  trace->entries[trace->added++ % kRing] = (braid_trace_entry){start_ns, end_ns, step};
}

/* --- writing -------------------------------------------------------------------------------------------------------
 * One process per device, one thread per queue. */
static void add_names(const braid_trace *trace, braid_text *text) {
  const braid_plan *plan = trace->plan;
  for (size_t i = 0; i < plan->device_count; i++) {
    const braid_machine_device *device = &plan->devices[i];
    braid_text_printf(text, "{\"ph\":\"M\",\"pid\":%zu,\"name\":\"process_name\",\"args\":{\"name\":", i);
    braid_text_add_json(text, device->label);
    braid_text_add(text, device->info->modelled ? ",\"time\":\"modelled\"}},\n" : ",\"time\":\"measured\"}},\n");
  }
  static const char *const kRoles[] = {
      [BRAID_QUEUE_KERNELS] = "kernels", [BRAID_QUEUE_WRITES] = "writes", [BRAID_QUEUE_READS] = "reads"};
  for (size_t q = 0; q < plan->queue_count; q++) {
    if (!plan->queues[q].used) continue;
    braid_text_printf(text,
                      "{\"ph\":\"M\",\"pid\":%d,\"tid\":%zu,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n",
                      plan->queues[q].device, q, kRoles[plan->queues[q].role]);
  }
}

static void add_step(const braid_trace *trace, const braid_trace_entry *entry, braid_text *text) {
  const braid_step *step = &trace->plan->steps.items[entry->step];
  braid_text_add(text, ",\n{\"ph\":\"X\",\"name\":");
  braid_text_add_json(text, step->label);
  braid_text_add(text, ",\"cat\":");
  braid_text_add_json(text, step->op);
  braid_text_printf(text, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"kernel\":", step->device,
                    step->queue, (double)entry->start_ns / 1e3, (double)(entry->end_ns - entry->start_ns) / 1e3);
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
                    step->device, (double)entry->start_ns / 1e3, bytes);
}

static braid_status flush(braid_writer *writer, braid_text *text) {
  if (text->failed) return BRAID_NO_MEMORY;
  braid_status status = braid_writer_put(writer, text->data, text->length);
  text->length = 0;
  return status;
}

static braid_status write_entries(const braid_trace *trace, braid_writer *writer, braid_text *text) {
  uint64_t first = trace->added > kRing ? trace->added - kRing : 0;
  braid_text_add(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  add_names(trace, text);
  braid_text_printf(text, "{\"ph\":\"M\",\"pid\":0,\"name\":\"forgotten\",\"args\":{\"steps\":%" PRIu64 "}}", first);
  for (uint64_t i = first; i < trace->added; i++) {
    const braid_trace_entry *entry = &trace->entries[i % kRing];
    add_step(trace, entry, text);
    add_memory(trace, entry, text);
    if (text->length > kFlushBytes) BRAID_TRY(flush(writer, text));
  }
  braid_text_add(text, "\n]}\n");
  return flush(writer, text);
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
