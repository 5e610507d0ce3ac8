/* Plans as data, for programs: snapshots to and from files, and as text. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "braid/plan.h"
#include "runtime/plan/restore.h"

enum { kMostFileBytes = 256 << 20, kMostDifferences = 20 };

/* --- saving and loading --------------------------------------------------------------------------------------------
 */
static braid_status plan_take(braid_plan *plan, const braid_graph *graph, braid_arena *arena, braid_snapshot *out) {
  pthread_mutex_lock(&plan->lock); /* which holds the contents of constants */
  braid_status status = braid_snapshot_take(plan, graph, arena, out);
  pthread_mutex_unlock(&plan->lock);
  return status;
}

static braid_status plan_encode(braid_plan *plan, const braid_graph *graph, braid_text *out) {
  braid_arena *arena;
  braid_snapshot snapshot;
  if (plan->regions)
    return braid_fail(BRAID_UNSUPPORTED,
                      "a plan with regions cannot be saved: what a backend compiles of it is its own");
  if (plan->input_layouts || plan->output_layouts)
    return braid_fail(BRAID_UNSUPPORTED, "a plan with layouts for its inputs or outputs cannot be saved");
  BRAID_TRY(braid_snapshot_check_given(plan, graph));
  BRAID_TRY(braid_arena_create(plan->allocator, &arena));
  braid_status status = plan_take(plan, graph, arena, &snapshot);
  if (status == BRAID_OK) status = braid_snapshot_encode(&snapshot, out);
  braid_arena_destroy(arena);
  return status;
}

/* Hands over a copy; the text itself is over. */
static braid_status text_give(braid_status status, braid_text *text, const braid_allocator *allocator, void **out,
                              size_t *bytes) {
  if (status == BRAID_OK && text->failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    uint8_t *copy = *out = braid_alloc(allocator, text->length + 1);
    if (copy) {
      memcpy(copy, text->data, text->length + 1);
      *bytes = text->length;
    } else {
      status = BRAID_NO_MEMORY;
    }
  }
  braid_text_deinit(text);
  return status;
}

braid_status braid_plan_encode(braid_plan *plan, const braid_graph *graph, const braid_allocator *allocator,
                               void **data, size_t *bytes) {
  braid_text text;
  *data = NULL;
  *bytes = 0;
  braid_text_init(&text, plan->allocator);
  return text_give(plan_encode(plan, graph, &text), &text, allocator, data, bytes);
}

braid_status braid_plan_save(braid_plan *plan, const braid_graph *graph, const char *path) {
  braid_text text;
  braid_text_init(&text, plan->allocator);
  braid_status status = plan_encode(plan, graph, &text);
  if (status == BRAID_OK) status = braid_file_write(plan->allocator, path, text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

braid_status braid_plan_decode(braid_machine *machine, const braid_graph *graph, const void *data, size_t bytes,
                               braid_plan **out) {
  braid_arena *arena;
  braid_snapshot snapshot;
  *out = NULL;
  BRAID_TRY(braid_arena_create(graph->allocator, &arena));
  braid_status status = braid_snapshot_decode(data, bytes, arena, &snapshot);
  if (status == BRAID_OK) status = braid_restore(machine, graph, &snapshot, out);
  braid_arena_destroy(arena);
  return status;
}

braid_status braid_plan_load(braid_machine *machine, const braid_graph *graph, const char *path, braid_plan **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(graph->allocator, path, kMostFileBytes, &view));
  braid_status status = braid_plan_decode(machine, graph, view.data, view.bytes, out);
  braid_file_close(&view);
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail_prefix(status, "%s", path);
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void snapshot_print(const braid_snapshot *snapshot, bool json, braid_text *out) {
  if (json)
    braid_snapshot_print_json(snapshot, out);
  else
    braid_snapshot_print_text(snapshot, out);
}

braid_status braid_plan_print(braid_plan *plan, bool json, const braid_allocator *allocator, char **text) {
  braid_arena *arena;
  braid_snapshot snapshot;
  braid_text out;
  size_t bytes;
  *text = NULL;
  BRAID_TRY(braid_arena_create(plan->allocator, &arena));
  braid_text_init(&out, plan->allocator);
  braid_status status = plan_take(plan, NULL, arena, &snapshot);
  if (status == BRAID_OK) snapshot_print(&snapshot, json, &out);
  status = text_give(status, &out, allocator, (void **)text, &bytes);
  braid_arena_destroy(arena);
  return status;
}

static void compare(const braid_snapshot *a, const braid_snapshot *b, const char *a_name, const char *b_name,
                    braid_text *out) {
  size_t count = braid_snapshot_compare(a, b, 0, BRAID_SNAPSHOT_TABLE_COUNT - 1, kMostDifferences, a_name, b_name, out);
  if (count > kMostDifferences) braid_text_printf(out, "and %zu more\n", count - kMostDifferences);
}

braid_status braid_plan_compare(braid_plan *a, braid_plan *b, const braid_allocator *allocator, char **text) {
  braid_arena *arena;
  braid_snapshot first, second;
  braid_text out;
  size_t bytes;
  *text = NULL;
  BRAID_TRY(braid_arena_create(a->allocator, &arena));
  braid_text_init(&out, a->allocator);
  braid_status status = plan_take(a, NULL, arena, &first);
  if (status == BRAID_OK) status = plan_take(b, NULL, arena, &second);
  if (status == BRAID_OK) compare(&first, &second, "in the first", "in the second", &out);
  status = text_give(status, &out, allocator, (void **)text, &bytes);
  braid_arena_destroy(arena);
  return status;
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
static braid_status file_decode(const char *path, braid_arena *arena, braid_snapshot *out) {
  braid_file_view view;
  BRAID_TRY(braid_file_open(NULL, path, kMostFileBytes, &view));
  braid_status status = braid_snapshot_decode(view.data, view.bytes, arena, out);
  braid_file_close(&view);
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail_prefix(status, "%s", path);
}

braid_status braid_plan_file_print(const char *path, bool json, const braid_allocator *allocator, char **text) {
  braid_arena *arena;
  braid_snapshot snapshot;
  braid_text out;
  size_t bytes;
  *text = NULL;
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_text_init(&out, allocator);
  braid_status status = file_decode(path, arena, &snapshot);
  if (status == BRAID_OK) snapshot_print(&snapshot, json, &out);
  status = text_give(status, &out, allocator, (void **)text, &bytes);
  braid_arena_destroy(arena);
  return status;
}

braid_status braid_plan_file_compare(const char *a, const char *b, const braid_allocator *allocator, char **text) {
  braid_arena *arena;
  braid_snapshot first, second;
  braid_text out;
  size_t bytes;
  *text = NULL;
  BRAID_TRY(braid_arena_create(allocator, &arena));
  braid_text_init(&out, allocator);
  braid_status status = file_decode(a, arena, &first);
  if (status == BRAID_OK) status = file_decode(b, arena, &second);
  char names[2][256];
  snprintf(names[0], sizeof names[0], "in %.240s", a);
  snprintf(names[1], sizeof names[1], "in %.240s", b);
  if (status == BRAID_OK) compare(&first, &second, names[0], names[1], &out);
  status = text_give(status, &out, allocator, (void **)text, &bytes);
  braid_arena_destroy(arena);
  return status;
}
