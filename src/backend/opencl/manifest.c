#include "backend/opencl/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"
#include "graph/graph.h"
#include "launch/formula.h"

enum { kKernels = 256, kNameBytes = 64, kTextBytes = 256, kOperands = 32 };

/* --- the file's form -----------------------------------------------------------------------------------------------
 */
#define OPTIONAL_TEXT(key, type, field)                                                                                \
  CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field, 1, kTextBytes - 1)
#define OPTIONAL_TEXTS(key, type, field, most)                                                                         \
  CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field, &kText, 1, most)

static const cyaml_schema_value_t kText = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, kTextBytes - 1)};
static const cyaml_schema_value_t kAxis = {CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int64_t)};

static const cyaml_schema_field_t kArgumentFields[] = {
    CYAML_FIELD_INT_PTR("in", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, in),
    CYAML_FIELD_INT_PTR("out", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, out),
    OPTIONAL_TEXT("int", braid_cl_entry_argument, integer),
    OPTIONAL_TEXT("long", braid_cl_entry_argument, wide),
    OPTIONAL_TEXT("float", braid_cl_entry_argument, real),
    OPTIONAL_TEXT("local", braid_cl_entry_argument, local),
    OPTIONAL_TEXT("workspace", braid_cl_entry_argument, workspace),
    OPTIONAL_TEXT("name", braid_cl_entry_argument, name),
    CYAML_FIELD_SEQUENCE("order", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, order, &kAxis, 1,
                         BRAID_CL_ENTRY_AXES),
    OPTIONAL_TEXTS("shape", braid_cl_entry_argument, shape, BRAID_CL_ENTRY_AXES),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kArgument = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_entry_argument, kArgumentFields)};

static const cyaml_schema_field_t kLaunchFields[] = {
    CYAML_FIELD_STRING_PTR("function", CYAML_FLAG_POINTER, braid_cl_entry_launch, function, 1, kNameBytes - 1),
    OPTIONAL_TEXT("options", braid_cl_entry_launch, options),
    CYAML_FIELD_SEQUENCE("arguments", CYAML_FLAG_POINTER, braid_cl_entry_launch, arguments, &kArgument, 1,
                         BRAID_LAUNCH_ARGUMENTS),
    CYAML_FIELD_SEQUENCE("global", CYAML_FLAG_POINTER, braid_cl_entry_launch, global, &kText, 1, 3),
    OPTIONAL_TEXTS("local", braid_cl_entry_launch, local, 3),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kLaunch = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_entry_launch, kLaunchFields)};

static const cyaml_schema_field_t kEntryFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_cl_entry, name, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("op", CYAML_FLAG_POINTER, braid_cl_entry, op, 1, kNameBytes - 1),
    OPTIONAL_TEXTS("types", braid_cl_entry, types, kOperands),
    OPTIONAL_TEXTS("when", braid_cl_entry, when, 32),
    CYAML_FIELD_SEQUENCE("launches", CYAML_FLAG_POINTER, braid_cl_entry, launches, &kLaunch, 1,
                         BRAID_CL_ENTRY_LAUNCHES),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kEntry = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_entry, kEntryFields)};

static const cyaml_schema_field_t kFields[] = {
    OPTIONAL_TEXT("source", braid_cl_manifest_file, source),
    OPTIONAL_TEXT("bitstream", braid_cl_manifest_file, bitstream),
    OPTIONAL_TEXT("options", braid_cl_manifest_file, options),
    CYAML_FIELD_SEQUENCE("kernels", CYAML_FLAG_POINTER, braid_cl_manifest_file, kernels, &kEntry, 1, kKernels),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kFile = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_cl_manifest_file, kFields)};

/* --- what the form cannot say --------------------------------------------------------------------------------------
 */
static braid_status check_formulas(char *const *texts, unsigned count) {
  for (unsigned i = 0; i < count; i++) BRAID_TRY(braid_launch_formula_check(texts[i]));
  return BRAID_OK;
}

static braid_status check_operand(const braid_cl_entry_argument *a) {
  int64_t index = a->in ? *a->in : *a->out;
  if (index < 0 || index >= kOperands)
    return braid_fail(BRAID_INVALID_FILE, "operand %lld, expected 0 to %d", (long long)index, kOperands - 1);
  uint32_t seen = 0;
  for (unsigned i = 0; i < a->order_count; i++) {
    if (a->order[i] < 0 || a->order[i] >= a->order_count || (seen >> a->order[i] & 1))
      return braid_fail(BRAID_INVALID_FILE, "order: expected every axis from 0 to %u once", a->order_count - 1);
    seen |= 1u << a->order[i];
  }
  if (a->order_count && a->shape_count && a->order_count != a->shape_count)
    return braid_fail(BRAID_INVALID_FILE, "order has %u axes, shape %u", a->order_count, a->shape_count);
  return check_formulas(a->shape, a->shape_count);
}

static braid_status check_argument(const braid_cl_entry_argument *a) {
  char *const formulas[] = {a->integer, a->wide, a->local, a->workspace};
  int kinds = (a->in != NULL) + (a->out != NULL) + (a->real != NULL);
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    kinds += formulas[i] != NULL;
    if (formulas[i]) BRAID_TRY(braid_launch_formula_check(formulas[i]));
  }
  if (kinds != 1)
    return braid_fail(BRAID_INVALID_FILE,
                      "expected one of in, out, int, long, float, local and workspace, there are %d", kinds);
  double ignored;
  if (a->real) BRAID_TRY(braid_cl_real(a->real, NULL, &ignored));
  if (a->name && !a->workspace) return braid_fail(BRAID_INVALID_FILE, "name belongs to workspace");
  if (a->in || a->out) return check_operand(a);
  if (a->order_count || a->shape_count) return braid_fail(BRAID_INVALID_FILE, "order and shape belong to in and out");
  return BRAID_OK;
}

/* Two arguments that point at the same bytes are rarely meant. */
static braid_status check_names(const braid_cl_entry_launch *launch, unsigned index) {
  const braid_cl_entry_argument *a = &launch->arguments[index];
  for (unsigned i = 0; a->workspace && i < index; i++) {
    const braid_cl_entry_argument *b = &launch->arguments[i];
    if (b->workspace && strcmp(braid_cl_workspace_name(a), braid_cl_workspace_name(b)) == 0)
      return braid_fail(BRAID_INVALID_FILE,
                        "workspace \"%.60s\" is argument %u already: expected a name of its own (name: ...)",
                        braid_cl_workspace_name(a), i);
  }
  return BRAID_OK;
}

static braid_status check_launch(const braid_cl_entry_launch *launch) {
  for (unsigned i = 0; i < launch->arguments_count; i++) {
    braid_status status = check_argument(&launch->arguments[i]);
    if (status == BRAID_OK) status = check_names(launch, i);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", launch->function, i);
  }
  if (launch->local_count && launch->local_count != launch->global_count)
    return braid_fail(BRAID_INVALID_FILE, "%s: local has %u dimensions, global %u", launch->function,
                      launch->local_count, launch->global_count);
  BRAID_TRY(check_formulas(launch->global, launch->global_count));
  return check_formulas(launch->local, launch->local_count);
}

static bool is_type(const char *name) {
  for (int i = BRAID_NONE + 1; i < BRAID_DTYPE_COUNT; i++)
    if (strcmp(braid_dtype_name((braid_dtype)i), name) == 0) return true;
  return false;
}

static braid_status check_entry(const braid_cl_entry *entry) {
  if (!braid_op_find(entry->op)) return braid_fail(BRAID_INVALID_FILE, "there is no op %s", entry->op);
  for (unsigned i = 0; i < entry->types_count; i++)
    if (!is_type(entry->types[i])) return braid_fail(BRAID_INVALID_FILE, "there is no type %.60s", entry->types[i]);
  BRAID_TRY(check_formulas(entry->when, entry->when_count));
  for (unsigned i = 0; i < entry->launches_count; i++) BRAID_TRY(check_launch(&entry->launches[i]));
  if (!braid_cl_entry_gives(entry, 0)) return braid_fail(BRAID_INVALID_FILE, "no launch takes out: 0");
  return BRAID_OK;
}

static braid_status check_manifest(const char *name, const braid_cl_manifest_file *file) {
  if (!file->source == !file->bitstream)
    return braid_fail(BRAID_INVALID_FILE, "%.200s: expected either source or bitstream", name);
  for (unsigned i = 0; i < file->kernels_count; i++) {
    braid_status status = check_entry(&file->kernels[i]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%.200s: kernel %s", name, file->kernels[i].name);
  }
  return BRAID_OK;
}

braid_status braid_cl_manifest_parse(const char *name, const void *text, size_t bytes, braid_cl_manifest_file **out) {
  void *document;
  braid_status status = braid_yaml_parse(name, text, bytes, &kFile, &document);
  *out = document;
  if (status == BRAID_OK) status = check_manifest(name, *out);
  if (status == BRAID_OK) return BRAID_OK;
  braid_cl_manifest_free(*out);
  *out = NULL;
  return status;
}

void braid_cl_manifest_free(braid_cl_manifest_file *file) {
  braid_yaml_free(&kFile, file);
}

/* --- on a device ---------------------------------------------------------------------------------------------------
 */
struct braid_cl_manifest {
  braid_cl_manifest_file *file;
  braid_cl_module *module;
  braid_launch_kernel *own; /* per kernel */
  braid_kernel *kernels;
  atomic_bool *warned; /* per kernel */
};

/* A path in the manifest starts from the manifest's folder. */
static braid_status open_module(braid_cl_device *device, const char *path, braid_cl_manifest *manifest) {
  bool bitstream = manifest->file->bitstream != NULL;
  const char *name = bitstream ? manifest->file->bitstream : manifest->file->source;
  const char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
  braid_text full;
  braid_text_init(&full, device->allocator);
  if (slash) braid_text_add_bytes(&full, path, (size_t)(slash + 1 - path));
  braid_text_add(&full, name);
  braid_status status =
      full.failed ? BRAID_NO_MEMORY : braid_cl_module_open(device, full.data, bitstream, &manifest->module);
  braid_text_deinit(&full);
  return status == BRAID_OK ? status : braid_fail_prefix(status, "%.200s", path);
}

static braid_status read_manifest(const braid_cl_device *device, const char *path, braid_cl_manifest_file **out) {
  static const size_t kMostBytes = (size_t)1 << 20;
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(device->allocator, path, kMostBytes, &view));
  braid_status status = braid_cl_manifest_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

braid_status braid_cl_manifest_load(braid_cl_device *device, const char *path) {
  braid_cl_manifest *manifest = device->manifest = braid_zalloc(device->allocator, sizeof *manifest);
  if (!manifest) return BRAID_NO_MEMORY;
  BRAID_TRY(read_manifest(device, path, &manifest->file));
  BRAID_TRY(open_module(device, path, manifest));
  size_t count = manifest->file->kernels_count;
  manifest->own = braid_zalloc_array(device->allocator, count, sizeof *manifest->own);
  manifest->kernels = braid_zalloc_array(device->allocator, count, sizeof *manifest->kernels);
  manifest->warned = braid_zalloc_array(device->allocator, count, sizeof *manifest->warned);
  if (!manifest->own || !manifest->kernels || !manifest->warned) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    braid_cl_entry *entry = &manifest->file->kernels[i];
    entry->module = manifest->module;
    entry->common_options = manifest->file->options;
    entry->warned = &manifest->warned[i];
    manifest->own[i].foreign = entry;
    manifest->kernels[i] = (braid_kernel){.op = entry->op, .name = entry->name, .implementation = &manifest->own[i]};
  }
  return BRAID_OK;
}

void braid_cl_manifest_release(braid_cl_device *device) {
  braid_cl_manifest *manifest = device->manifest;
  if (!manifest) return;
  braid_cl_module_close(device, manifest->module);
  braid_cl_manifest_free(manifest->file);
  braid_free(device->allocator, manifest->own);
  braid_free(device->allocator, manifest->kernels);
  braid_free(device->allocator, manifest->warned);
  braid_free(device->allocator, manifest);
  device->manifest = NULL;
}

braid_launch_family braid_cl_manifest_family(const braid_cl_manifest *manifest) {
  if (!manifest) return (braid_launch_family){NULL, 0};
  return (braid_launch_family){manifest->kernels, manifest->file->kernels_count};
}
