#include "backend/opencl/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"
#include "graph/graph.h"
#include "graph/known_attrs.h"

enum { kKernels = 256, kNameBytes = 64, kTextBytes = 256, kLayers = 512 };

/* --- the file's form -----------------------------------------------------------------------------------------------
 */
#define OPTIONAL_TEXT(key, type, field)                                                                                \
  CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field, 1, kTextBytes - 1)
#define OPTIONAL_TEXTS(key, type, field, most)                                                                         \
  CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field, &kText, 1, most)

static const cyaml_schema_value_t kText = {CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, kTextBytes - 1)};
static const cyaml_schema_value_t kWhole = {CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int64_t)};

static const cyaml_schema_field_t kArgumentFields[] = {
    CYAML_FIELD_INT_PTR("in", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, in),
    CYAML_FIELD_INT_PTR("out", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, out),
    CYAML_FIELD_INT_PTR("node", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, node),
#define SCALAR(name, dtype) OPTIONAL_TEXT(#name, braid_cl_entry_argument, of_##name),
    BRAID_CL_SCALARS(SCALAR)
#undef SCALAR
        OPTIONAL_TEXT("vector", braid_cl_entry_argument, vector),
    OPTIONAL_TEXTS("values", braid_cl_entry_argument, values, 16),
    OPTIONAL_TEXT("local", braid_cl_entry_argument, local),
    OPTIONAL_TEXT("workspace", braid_cl_entry_argument, workspace),
    OPTIONAL_TEXT("name", braid_cl_entry_argument, name),
    CYAML_FIELD_BOOL("zeroed", CYAML_FLAG_OPTIONAL, braid_cl_entry_argument, zeroed),
    OPTIONAL_TEXTS("order", braid_cl_entry_argument, order, BRAID_CL_ENTRY_AXES),
    OPTIONAL_TEXTS("shape", braid_cl_entry_argument, shape, BRAID_CL_ENTRY_AXES),
    OPTIONAL_TEXT("item", braid_cl_entry_argument, item),
    OPTIONAL_TEXT("as", braid_cl_entry_argument, as),
    OPTIONAL_TEXT("frac", braid_cl_entry_argument, frac),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kArgument = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_entry_argument, kArgumentFields)};

static const cyaml_schema_field_t kLaunchFields[] = {
    CYAML_FIELD_STRING_PTR("function", CYAML_FLAG_POINTER, braid_cl_entry_launch, function, 1, kNameBytes - 1),
    OPTIONAL_TEXT("options", braid_cl_entry_launch, options),
    CYAML_FIELD_BOOL("together", CYAML_FLAG_OPTIONAL, braid_cl_entry_launch, together),
    CYAML_FIELD_SEQUENCE("arguments", CYAML_FLAG_POINTER, braid_cl_entry_launch, arguments, &kArgument, 1,
                         BRAID_LAUNCH_ARGUMENTS),
    CYAML_FIELD_SEQUENCE("global", CYAML_FLAG_POINTER, braid_cl_entry_launch, global, &kText, 1, 3),
    OPTIONAL_TEXTS("local", braid_cl_entry_launch, local, 3),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kLaunch = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_entry_launch, kLaunchFields)};

static const cyaml_schema_field_t kLayerFields[] = {
    CYAML_FIELD_STRING_PTR("node", CYAML_FLAG_POINTER, braid_cl_layer, node, 1, kTextBytes - 1),
    CYAML_FIELD_SEQUENCE("values", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_layer, values, &kWhole, 0,
                         BRAID_CL_NUMBERS),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kLayer = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, braid_cl_layer, kLayerFields)};

static const cyaml_schema_field_t kEntryFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_cl_entry, name, 1, kNameBytes - 1),
    OPTIONAL_TEXT("op", braid_cl_entry, op),
    OPTIONAL_TEXTS("chain", braid_cl_entry, chain, BRAID_CL_CHAIN),
    OPTIONAL_TEXTS("types", braid_cl_entry, types, BRAID_CL_OPERANDS),
    OPTIONAL_TEXTS("when", braid_cl_entry, when, 32),
    OPTIONAL_TEXTS("ignores", braid_cl_entry, ignores, 32),
    OPTIONAL_TEXTS("numbers", braid_cl_entry, numbers, BRAID_CL_NUMBERS),
    CYAML_FIELD_SEQUENCE("layers", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_cl_entry, layers, &kLayer, 1,
                         kLayers),
    OPTIONAL_TEXT("repeat", braid_cl_entry, repeat),
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
enum { kNowhere = -1 };

/* What is being checked: the scope of its formulas, and where it stands, for the line of a refusal. */
typedef struct checking {
  const braid_cl_entry *entry;
  braid_launch_scope scope;
  int launch, argument; /* kNowhere: not in one */
  const char *key;      /* "": all of it */
} checking;

static braid_status check_formula(checking *c, const char *key, const char *text) {
  int64_t ignored;
  c->key = key;
  return text ? braid_launch_formula(text, &c->scope, &ignored) : BRAID_OK;
}

static braid_status check_formulas(checking *c, const char *key, char *const *texts, unsigned count) {
  for (unsigned i = 0; i < count; i++) BRAID_TRY(check_formula(c, key, texts[i]));
  return BRAID_OK;
}

/* Each axis comes once whole, or once in parts of a size and once within them. */
static braid_status check_order(const braid_cl_entry_argument *a) {
  char seen[BRAID_CL_ENTRY_AXES] = "";
  int64_t sizes[BRAID_CL_ENTRY_AXES] = {0}, axes = 0;
  for (unsigned i = 0; i < a->order_count; i++) {
    int64_t axis, size;
    char part;
    if (!braid_cl_read_axis(a->order[i], &axis, &part, &size))
      return braid_fail(BRAID_INVALID_FILE,
                        "order: \"%.60s\": expected AXIS, AXIS/SIZE or AXIS%%SIZE, axes from 0 to %d", a->order[i],
                        BRAID_CL_ENTRY_AXES - 1);
    bool other_part = seen[axis] && seen[axis] != ' ' && part != ' ' && part != seen[axis] && sizes[axis] == size;
    if (seen[axis] && !other_part)
      return braid_fail(BRAID_INVALID_FILE,
                        "order: axis %lld comes twice: expected it once, or %lld/SIZE and %lld%%SIZE", (long long)axis,
                        (long long)axis, (long long)axis);
    seen[axis] = other_part ? ' ' : part;
    sizes[axis] = size;
    if (axis >= axes) axes = axis + 1;
  }
  for (int64_t axis = 0; axis < axes; axis++)
    if (seen[axis] != ' ')
      return braid_fail(BRAID_INVALID_FILE, "order: expected every axis from 0 to %lld, %lld is %s",
                        (long long)axes - 1, (long long)axis, seen[axis] ? "there in one part only" : "missing");
  return BRAID_OK;
}

static braid_status check_as(checking *c, const braid_cl_entry_argument *a) {
  c->key = "as";
  braid_dtype as = a->as ? braid_cl_find_dtype(a->as) : BRAID_F16;
  bool whole =
      as == BRAID_I8 || as == BRAID_U8 || as == BRAID_I16 || as == BRAID_U16 || as == BRAID_I32 || as == BRAID_U32;
  if (!whole && as != BRAID_F16)
    return braid_fail(BRAID_INVALID_FILE,
                      "as: \"%.60s\": expected int8, uint8, int16, uint16, int32, uint32 or float16", a->as);
  BRAID_TRY(check_formula(c, "frac", a->frac));
  if (a->frac && !whole) return braid_fail(BRAID_INVALID_FILE, "frac belongs to as: int8 and the like");
  return BRAID_OK;
}

static braid_status check_operand(checking *c, const braid_cl_entry_argument *a) {
  int64_t index = a->in ? *a->in : *a->out, node = a->node ? *a->node : 0;
  c->key = a->in ? "in" : "out";
  if (index < 0 || index >= BRAID_CL_OPERANDS)
    return braid_fail(BRAID_INVALID_FILE, "operand %lld, expected 0 to %d", (long long)index, BRAID_CL_OPERANDS - 1);
  if (a->out && *a->out && c->entry->chain)
    return braid_fail(BRAID_INVALID_FILE, "out: %lld, but of a chain only out: 0 of its last node is an output",
                      (long long)*a->out);
  c->key = "node";
  if (a->node && (!a->in || node < 0 || (size_t)node >= c->scope.node_count))
    return braid_fail(BRAID_INVALID_FILE, "node: %lld, expected 0 to %zu with in: N of a chain", (long long)node,
                      c->scope.node_count - 1);
  c->key = "order";
  BRAID_TRY(check_order(a));
  if (a->order_count && a->shape_count && a->order_count != a->shape_count)
    return braid_fail(BRAID_INVALID_FILE, "order has %u axes, shape %u", a->order_count, a->shape_count);
  BRAID_TRY(check_formulas(c, "shape", a->shape, a->shape_count));
  BRAID_TRY(check_formula(c, "item", a->item));
  return check_as(c, a);
}

/* What belongs to operands alone. */
static const char *operand_key(const braid_cl_entry_argument *a) {
  return a->order_count   ? "order"
         : a->shape_count ? "shape"
         : a->item        ? "item"
         : a->as          ? "as"
         : a->frac        ? "frac"
         : a->node        ? "node"
                          : NULL;
}

static braid_status check_number(checking *c, const char *key, const char *text, braid_dtype dtype) {
  double ignored;
  if (!braid_dtype_is_float(dtype)) return check_formula(c, key, text);
  c->key = key;
  return braid_cl_real(text, &c->scope, &ignored);
}

static braid_status check_vector(checking *c, const braid_cl_entry_argument *a) {
  uint32_t lanes;
  braid_dtype dtype = braid_cl_find_scalar(a->vector, &lanes);
  c->key = "vector";
  if (dtype == BRAID_NONE || lanes < 2)
    return braid_fail(BRAID_INVALID_FILE,
                      "vector: \"%.60s\": expected char, uchar, short, ushort, int, uint, long, ulong, float or double "
                      "with 2, 3, 4, 8 or 16 behind it",
                      a->vector);
  c->key = "values";
  if (a->values_count != 1 && a->values_count != lanes)
    return braid_fail(BRAID_INVALID_FILE, "%s with %u values: expected 1, for all, or %u", a->vector, a->values_count,
                      lanes);
  for (unsigned i = 0; i < a->values_count; i++) BRAID_TRY(check_number(c, "values", a->values[i], dtype));
  return BRAID_OK;
}

static braid_status check_argument(checking *c, const braid_cl_entry_argument *a) {
  int kinds = (a->in != NULL) + (a->out != NULL) + (a->vector != NULL) + (a->local != NULL) + (a->workspace != NULL);
#define COUNT(name, dtype) kinds += a->of_##name != NULL;
  BRAID_CL_SCALARS(COUNT)
#undef COUNT
  if (kinds != 1)
    return braid_fail(
        BRAID_INVALID_FILE,
        "expected one of in, out, char, uchar, short, ushort, int, uint, long, ulong, float, double, vector, "
        "local and workspace, there are %d",
        kinds);
  if (a->name && !a->workspace) return braid_fail(BRAID_INVALID_FILE, "name belongs to workspace");
  if (a->zeroed && !a->workspace) return braid_fail(BRAID_INVALID_FILE, "zeroed belongs to workspace");
  if (a->values && !a->vector) return braid_fail(BRAID_INVALID_FILE, "values belong to vector");
  if (a->in || a->out) return check_operand(c, a);
  if (operand_key(a)) return braid_fail(BRAID_INVALID_FILE, "%s belongs to in and out", operand_key(a));
  if (a->vector) return check_vector(c, a);
  BRAID_TRY(check_formula(c, "local", a->local));
  BRAID_TRY(check_formula(c, "workspace", a->workspace));
#define CHECK(name, dtype)                                                                                             \
  if (a->of_##name) BRAID_TRY(check_number(c, #name, a->of_##name, BRAID_##dtype));
  BRAID_CL_SCALARS(CHECK)
#undef CHECK
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

static braid_status check_launch(checking *c, const braid_cl_entry_launch *launch) {
  for (unsigned i = 0; i < launch->arguments_count; i++) {
    c->argument = (int)i;
    c->key = "";
    braid_status status = check_argument(c, &launch->arguments[i]);
    if (status == BRAID_OK) status = check_names(launch, i);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", launch->function, i);
  }
  c->argument = kNowhere;
  c->key = "together";
  if (launch->together && c->launch == 0)
    return braid_fail(BRAID_INVALID_FILE, "%s: together, but there is no launch before it", launch->function);
  c->key = "local";
  if (launch->local_count && launch->local_count != launch->global_count)
    return braid_fail(BRAID_INVALID_FILE, "%s: local has %u dimensions, global %u", launch->function,
                      launch->local_count, launch->global_count);
  BRAID_TRY(check_formulas(c, "global", launch->global, launch->global_count));
  return check_formulas(c, "local", launch->local, launch->local_count);
}

static braid_status check_step(const braid_cl_entry *entry, unsigned index, bool *optional, bool *view) {
  char op[kTextBytes];
  size_t length = strlen(entry->chain[index]);
  *optional = length && entry->chain[index][length - 1] == '?';
  snprintf(op, sizeof op, "%.*s", (int)(length - *optional), entry->chain[index]);
  const braid_op *found = braid_op_find(op);
  if (!found) return braid_fail(BRAID_INVALID_FILE, "there is no op %.60s", op);
  *view = (found->flags & BRAID_OP_VIEW) != 0;
  return BRAID_OK;
}

/* Another shape of the same memory is nothing to be computed: a chain neither begins nor ends with it. */
static braid_status check_chain(const braid_cl_entry *entry) {
  bool ends = false; /* with what is always there */
  for (unsigned i = entry->chain_count; i-- > 0;) {
    bool optional, view;
    BRAID_TRY(check_step(entry, i, &optional, &view));
    if (!i && optional) return braid_fail(BRAID_INVALID_FILE, "chain: its first node cannot be left out");
    if (view && (!i || !ends))
      return braid_fail(
          BRAID_INVALID_FILE,
          "chain: %.60s is another shape of the same memory: expected other nodes, which are not left out, "
          "before and behind it",
          entry->chain[i]);
    ends |= !optional && !view;
  }
  return BRAID_OK;
}

static bool has_attribute(const char *op, const char *name) {
  char forward[kNameBytes], names[512];
  snprintf(forward, sizeof forward, "%.*s", (int)strcspn(op, "?"), op);
  return !braid_op_attrs(forward, names, sizeof names) || braid_known_attrs_list(names, name);
}

/* A braid_launch_scope's question about an entry. */
static const char *op_without(const void *context, size_t node, const char *attribute) {
  const braid_cl_entry *entry = context;
  const char *op = entry->op ? entry->op : entry->chain[node];
  return has_attribute(op, attribute) ? NULL : op;
}

static braid_status check_ignores(const braid_cl_entry *entry) {
  for (unsigned i = 0; i < entry->ignores_count; i++) {
    const char *name = entry->ignores[i];
    bool found = entry->op && has_attribute(entry->op, name);
    for (unsigned k = 0; k < entry->chain_count; k++) found |= has_attribute(entry->chain[k], name);
    if (!found)
      return braid_fail(BRAID_INVALID_FILE, "there is no attribute %.60s of %.60s", name,
                        entry->op ? entry->op : "any node of the chain");
  }
  return BRAID_OK;
}

static bool is_number_name(const char *name) {
  static const char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  static const char kAll[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  size_t stem = strlen("node");
  bool node = strncmp(name, "node", stem) == 0 && name[stem] >= '0' && name[stem] <= '9';
  return strspn(name, kLetters) && !name[strspn(name, kAll)] && strlen(name) < kNameBytes && !node &&
         strcmp(name, "turn") != 0;
}

static braid_status check_numbers(checking *c) {
  const braid_cl_entry *entry = c->entry;
  c->key = "numbers";
  for (unsigned i = 0; i < entry->numbers_count; i++) {
    if (!is_number_name(entry->numbers[i]))
      return braid_fail(
          BRAID_INVALID_FILE,
          "numbers: \"%.60s\": expected a letter, then letters, digits and '_', and neither turn nor node0",
          entry->numbers[i]);
    for (unsigned k = 0; k < i; k++)
      if (strcmp(entry->numbers[i], entry->numbers[k]) == 0)
        return braid_fail(BRAID_INVALID_FILE, "numbers: %.60s comes twice", entry->numbers[i]);
  }
  if (entry->numbers_count && !entry->layers_count)
    return braid_fail(BRAID_INVALID_FILE, "numbers: expected layers that say what they are");
  c->key = "layers";
  for (unsigned i = 0; i < entry->layers_count; i++)
    if (entry->layers[i].values_count != entry->numbers_count)
      return braid_fail(BRAID_INVALID_FILE, "layer %.60s has %u values, expected %u, one for each of numbers",
                        entry->layers[i].node, entry->layers[i].values_count, entry->numbers_count);
  return BRAID_OK;
}

static braid_status check_entry(checking *c) {
  const braid_cl_entry *entry = c->entry;
  if (!entry->op == !entry->chain) return braid_fail(BRAID_INVALID_FILE, "expected either op or chain");
  c->key = entry->op ? "op" : "chain";
  if (entry->op && !braid_op_find(entry->op)) return braid_fail(BRAID_INVALID_FILE, "there is no op %.60s", entry->op);
  BRAID_TRY(check_chain(entry));
  c->key = "types";
  if (entry->types && entry->chain)
    return braid_fail(BRAID_INVALID_FILE, "types belong to op: all operands of a chain are float32");
  for (unsigned i = 0; i < entry->types_count; i++)
    if (braid_cl_find_dtype(entry->types[i]) == BRAID_NONE)
      return braid_fail(BRAID_INVALID_FILE, "there is no type %.60s", entry->types[i]);
  BRAID_TRY(check_numbers(c));
  c->key = "ignores";
  BRAID_TRY(check_ignores(entry));
  BRAID_TRY(check_formulas(c, "when", entry->when, entry->when_count));
  BRAID_TRY(check_formula(c, "repeat", entry->repeat));
  for (unsigned i = 0; i < entry->launches_count; i++) {
    c->launch = (int)i;
    BRAID_TRY(check_launch(c, &entry->launches[i]));
  }
  c->launch = kNowhere;
  c->key = "launches";
  if (!braid_cl_entry_gives(entry, 0)) return braid_fail(BRAID_INVALID_FILE, "no launch takes out: 0");
  return BRAID_OK;
}

static size_t line_of(const checking *c, unsigned entry, const void *text, size_t bytes) {
  char path[256];
  size_t used = (size_t)snprintf(path, sizeof path, "kernels/%u", entry);
  if (c->launch != kNowhere) used += (size_t)snprintf(path + used, sizeof path - used, "/launches/%d", c->launch);
  if (c->argument != kNowhere) used += (size_t)snprintf(path + used, sizeof path - used, "/arguments/%d", c->argument);
  if (c->key[0]) snprintf(path + used, sizeof path - used, "/%s", c->key);
  return braid_yaml_line(text, bytes, path);
}

static braid_status check_manifest(const char *name, const braid_cl_manifest_file *file, const void *text,
                                   size_t bytes) {
  if (!file->source == !file->bitstream)
    return braid_fail(BRAID_INVALID_FILE, "%.200s, line %zu: expected either source or bitstream", name,
                      braid_yaml_line(text, bytes, file->source ? "bitstream" : ""));
  for (unsigned i = 0; i < file->kernels_count; i++) {
    const char *names[BRAID_CL_NUMBERS + 1];
    checking c = {.entry = &file->kernels[i], .launch = kNowhere, .argument = kNowhere, .key = ""};
    c.scope = braid_cl_entry_scope(c.entry, names);
    c.scope.op_without = op_without;
    c.scope.context = c.entry;
    braid_status status = check_entry(&c);
    if (status != BRAID_OK)
      return braid_fail_prefix(status, "%.200s, line %zu: kernel %s", name, line_of(&c, i, text, bytes), c.entry->name);
  }
  return BRAID_OK;
}

braid_status braid_cl_manifest_parse(const char *name, const void *text, size_t bytes, braid_cl_manifest_file **out) {
  void *document;
  braid_status status = braid_yaml_parse(name, text, bytes, &kFile, &document);
  *out = document;
  if (status == BRAID_OK) status = check_manifest(name, *out, text, bytes);
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
  braid_kernel *kernels;    /* those of ops first */
  size_t op_count;
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
      full.failed ? BRAID_NO_MEMORY : braid_cl_module_open(device, full.data, bitstream, path, &manifest->module);
  braid_text_deinit(&full);
  return status == BRAID_OK ? status : braid_fail_prefix(status, "%.200s", path);
}

static braid_status read_manifest(const braid_cl_device *device, const char *path, braid_cl_manifest_file **out) {
  braid_file_view view;
  *out = NULL;
  BRAID_TRY(braid_file_open(device->allocator, path, BRAID_YAML_BYTES, &view));
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
  for (size_t i = 0; i < count; i++) manifest->op_count += manifest->file->kernels[i].op != NULL;
  size_t ops = 0, chains = manifest->op_count;
  for (size_t i = 0; i < count; i++) {
    braid_cl_entry *entry = &manifest->file->kernels[i];
    entry->module = manifest->module;
    entry->common_options = manifest->file->options;
    entry->warned = &manifest->warned[i];
    entry->device = device;
    manifest->own[i].foreign = entry;
    manifest->kernels[entry->op ? ops++ : chains++] = (braid_kernel){
        .op = entry->op ? entry->op : BRAID_REGION_OP, .name = entry->name, .implementation = &manifest->own[i]};
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
  if (!manifest) return (braid_launch_family){NULL, 0, false};
  return (braid_launch_family){manifest->kernels, manifest->op_count, false};
}

const braid_kernel *braid_cl_manifest_chain(const braid_cl_manifest *manifest, size_t *index) {
  if (!manifest || manifest->op_count + *index >= manifest->file->kernels_count) return NULL;
  return &manifest->kernels[manifest->op_count + (*index)++];
}
