/* Finding cases, and what each is about. */
#include "runtime/conformance/conformance.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "model/onnx/onnx_wire.h"

enum { MAX_DEPTH = 4, MAX_CASES = 1 << 16 };

static bool ends_with(const char *text, const char *ending) {
  size_t length = strlen(text), tail = strlen(ending);
  return length >= tail && strcmp(text + length - tail, ending) == 0;
}

static bool exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* `path` starts with the directory of the cases; a case is named by what comes after it. */
static braid_status add_case(braid_cases *cases, const char *path, bool light) {
  if (cases->count >= MAX_CASES) return braid_fail(BRAID_OUT_OF_RANGE, "more than %d cases", MAX_CASES);
  braid_case *items = braid_grow(cases->allocator, cases->items, cases->count, &cases->capacity, sizeof *items);
  if (!items) return BRAID_NO_MEMORY;
  cases->items = items;
  char *model = braid_strdup(cases->allocator, path);
  if (!model) return BRAID_NO_MEMORY;
  const char *name = path + strlen(cases->directory);
  while (*name == '/') name++;
  char *shown = braid_strdup(cases->allocator, name);
  if (!shown) {
    braid_free(cases->allocator, model);
    return BRAID_NO_MEMORY;
  }
  size_t tail = strlen(light ? ".onnx" : "/model.onnx"), length = strlen(shown);
  shown[length > tail ? length - tail : 0] = 0;
  items[cases->count++] = (braid_case){.name = shown, .model = model, .light = light};
  return BRAID_OK;
}

static braid_status search(braid_cases *cases, const char *path, int depth);

static braid_status search_entry(braid_cases *cases, const char *folder, const char *entry, int depth) {
  braid_text path;
  braid_text_init(&path, cases->allocator);
  braid_text_printf(&path, "%s/%s", folder, entry);
  braid_status status = path.failed ? BRAID_NO_MEMORY : BRAID_OK;
  if (status == BRAID_OK && is_directory(path.data)) {
    status = search(cases, path.data, depth + 1);
  } else if (status == BRAID_OK && strcmp(entry, "model.onnx") == 0) {
    status = add_case(cases, path.data, false);
  } else if (status == BRAID_OK && ends_with(entry, ".onnx")) {
    braid_text output;
    braid_text_init(&output, cases->allocator);
    braid_text_add_bytes(&output, path.data, path.length - strlen(".onnx"));
    braid_text_add(&output, "_output_0.pb");
    if (output.failed)
      status = BRAID_NO_MEMORY;
    else if (exists(output.data))
      status = add_case(cases, path.data, true);
    braid_text_deinit(&output);
  }
  braid_text_deinit(&path);
  return status;
}

static braid_status search(braid_cases *cases, const char *path, int depth) {
  if (depth > MAX_DEPTH) return BRAID_OK;
  DIR *folder = opendir(path);
  if (!folder) return depth ? BRAID_OK : braid_fail(BRAID_NOT_FOUND, "%s: no such folder, or it can't be read", path);
  braid_status status = BRAID_OK;
  for (struct dirent *entry; status == BRAID_OK && (entry = readdir(folder));)
    if (entry->d_name[0] != '.') status = search_entry(cases, path, entry->d_name, depth);
  closedir(folder);
  return status;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const braid_case *)a)->name, ((const braid_case *)b)->name);
}

braid_status braid_cases_find(const braid_allocator *allocator, const char *directory, braid_cases **out) {
  *out = NULL;
  braid_cases *cases = braid_zalloc(allocator, sizeof *cases);
  if (!cases) return BRAID_NO_MEMORY;
  cases->allocator = allocator;
  cases->directory = braid_strdup(allocator, directory);
  braid_status status = cases->directory ? search(cases, directory, 0) : BRAID_NO_MEMORY;
  if (status == BRAID_OK && !cases->count)
    status = braid_fail(BRAID_NOT_FOUND, "%s: no folder in it holds a model.onnx", directory);
  if (status != BRAID_OK) {
    braid_cases_destroy(cases);
    return status;
  }
  qsort(cases->items, cases->count, sizeof *cases->items, compare_names);
  *out = cases;
  return BRAID_OK;
}

void braid_cases_destroy(braid_cases *cases) {
  if (!cases) return;
  for (size_t i = 0; i < cases->count; i++) {
    braid_free(cases->allocator, (char *)cases->items[i].name);
    braid_free(cases->allocator, cases->items[i].model);
  }
  braid_free(cases->allocator, cases->items);
  braid_free(cases->allocator, cases->directory);
  braid_free(cases->allocator, cases);
}

size_t braid_cases_count(const braid_cases *cases) {
  return cases->count;
}

const char *braid_cases_name(const braid_cases *cases, size_t index) {
  return index < cases->count ? cases->items[index].name : "";
}

/* --- what a case is about ----------------------------------------------------------------------------------------- */
/* The op of a model with one node; "" for any other. */
static braid_status only_op(const braid_allocator *allocator, const char *path, char op[48]) {
  braid_reader *file;
  op[0] = 0;
  BRAID_TRY(braid_reader_open(allocator, path, 0, &file));
  ProtobufCMessage *message = NULL;
  braid_status status = braid_onnx_unpack(allocator, &onnx__model_proto__descriptor, file, &message);
  const Onnx__ModelProto *model = (const Onnx__ModelProto *)message;
  if (status == BRAID_OK && model->graph && model->graph->n_node == 1 && model->graph->node[0]->op_type)
    snprintf(op, 48, "%.47s", model->graph->node[0]->op_type);
  if (message) {
    ProtobufCAllocator own = braid_onnx_allocator(allocator);
    protobuf_c_message_free_unpacked(message, &own);
  }
  braid_reader_close(file);
  return status;
}

/* ONNX spells ops that are functions out in others, in a folder named like the op's own case and "_expanded". */
braid_status braid_cases_op(const braid_cases *cases, size_t index, char op[64]) {
  snprintf(op, 64, "network");
  if (index >= cases->count) return BRAID_OK;
  const braid_case *item = &cases->items[index];
  const char *expanded = strstr(item->name, "_expanded");
  char own[48];
  braid_status status;
  if (expanded && !item->light) {
    braid_text path;
    braid_text_init(&path, cases->allocator);
    braid_text_printf(&path, "%s/%.*s/model.onnx", cases->directory, (int)(expanded - item->name), item->name);
    status = path.failed ? BRAID_NO_MEMORY : only_op(cases->allocator, path.data, own);
    braid_text_deinit(&path);
    if (status == BRAID_OK && own[0]) snprintf(op, 64, "%s (function)", own);
  } else {
    status = only_op(cases->allocator, item->model, own);
    if (status == BRAID_OK && own[0]) snprintf(op, 64, "%s", own);
  }
  return status == BRAID_NO_MEMORY ? status : BRAID_OK;
}
