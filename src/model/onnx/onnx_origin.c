/* What PyTorch's exporters write down of the program that a file came from: which initializers were parameters, and the
 * modules or the calls that the nodes belong to. And what our own does, of what trained. */
#include <string.h>

#include "base/try.h"
#include "model/model.h"
#include "model/onnx/onnx_import.h"

static const char *find_property(Onnx__StringStringEntryProto *const *entries, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++)
    if (entries[i]->key && entries[i]->value && strcmp(entries[i]->key, key) == 0) return entries[i]->value;
  return NULL;
}

/* --- initializers --------------------------------------------------------------------------------------------------
 */
/* Does the program's signature ("p_weight: PARAMETER target='l1.weight'", one a line) list the name as a parameter? */
static bool lists_parameter(const char *signature, const char *name, size_t length) {
  static const char kBefore[] = "PARAMETER target='";
  for (const char *at = strstr(signature, kBefore); at; at = strstr(at, kBefore)) {
    at += sizeof kBefore - 1;
    if (strncmp(at, name, length) == 0 && at[length] == '\'') return true;
  }
  return false;
}

/* Of a list like ['val_0', 'l1.weight'], all that was folded into a constant: is a parameter among it, or are there
 * literals alone? `signature` NULL: it is not known what the parameters are. */
static braid_origin read_sources(const char *sources, const char *signature) {
  bool literals = true;
  for (const char *at = strchr(sources, '\''), *end; at; at = strchr(end + 1, '\'')) {
    end = strchr(++at, '\'');
    if (!end) return BRAID_ORIGIN_UNKNOWN;
    literals = literals && strncmp(at, "val_", 4) == 0;
    if (!literals && !signature) return BRAID_ORIGIN_UNKNOWN;
    if (signature && lists_parameter(signature, at, (size_t)(end - at))) return BRAID_ORIGIN_PARAMETER;
  }
  return literals ? BRAID_ORIGIN_LITERAL : BRAID_ORIGIN_BUFFER;
}

/* A constant that a module keeps without registering it (CONSTANT_TENSOR) is no parameter either. */
static braid_origin read_origin(const Onnx__ValueInfoProto *info, const char *signature) {
  const char *kind =
      find_property(info->metadata_props, info->n_metadata_props, "pkg.torch.export.graph_signature.InputSpec.kind");
  if (kind) return strcmp(kind, "PARAMETER") == 0 ? BRAID_ORIGIN_PARAMETER : BRAID_ORIGIN_BUFFER;
  const char *sources =
      find_property(info->metadata_props, info->n_metadata_props, "pkg.onnxscript.optimizer.folded_from");
  return sources ? read_sources(sources, signature) : BRAID_ORIGIN_UNKNOWN;
}

static braid_value *find_constant(const braid_onnx_importer *importer, const braid_onnx_scope *scope,
                                  const char *name) {
  int64_t id;
  if (!name || !braid_name_map_get(scope->names, name, &id)) return NULL;
  braid_value *value = &importer->graph->values[id];
  return value->kind == BRAID_VALUE_CONSTANT ? value : NULL;
}

static braid_status note_export(const braid_onnx_importer *importer, const braid_onnx_scope *scope) {
  const Onnx__GraphProto *graph = importer->model->graph;
  const char *signature =
      find_property(graph->metadata_props, graph->n_metadata_props, "pkg.torch.export.ExportedProgram.graph_signature");
  for (size_t i = 0; i < graph->n_value_info; i++) {
    const Onnx__ValueInfoProto *info = graph->value_info[i];
    braid_value *value = find_constant(importer, scope, info->name);
    if (!value) continue;
    value->origin = read_origin(info, signature);
    const char *symbol =
        find_property(info->metadata_props, info->n_metadata_props, "pkg.torch.onnx.original_node_name");
    if (!symbol) continue;
    value->symbol = braid_graph_intern(importer->graph, symbol, strlen(symbol));
    if (!value->symbol) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static void note_training(const braid_onnx_importer *importer, const braid_onnx_scope *scope) {
  const Onnx__ModelProto *model = importer->model;
  size_t length = strlen(BRAID_ONNX_TRAINS);
  for (size_t i = 0; i < model->n_metadata_props; i++) {
    const Onnx__StringStringEntryProto *entry = model->metadata_props[i];
    if (!entry->key || !entry->value || strncmp(entry->key, BRAID_ONNX_TRAINS, length) != 0) continue;
    braid_value *value = find_constant(importer, scope, entry->key + length);
    if (value) value->origin = strcmp(entry->value, "yes") == 0 ? BRAID_ORIGIN_TRAINED : BRAID_ORIGIN_FIXED;
  }
}

braid_status braid_onnx_note_origins(const braid_onnx_importer *importer, const braid_onnx_scope *scope) {
  BRAID_TRY(note_export(importer, scope));
  note_training(importer, scope);
  return BRAID_OK;
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* The newer exporter's: "%linear_1 : ... call_function[...](args = (%gelu, %p_b2_weight, %p_b2_bias), kwargs = {})",
 * where p_ begins the name of a parameter and b_ that of a buffer. *out is NULL where it takes none. */
static braid_status read_call(braid_graph *graph, const char *text, const char **out) {
  size_t used = 0;
  *out = NULL;
  char *call = braid_graph_arena_alloc(graph, strlen(text) + 3);
  if (!call) return BRAID_NO_MEMORY;
  for (const char *at = strchr(text, '%'); at; at = strchr(at + 1, '%')) {
    size_t name = strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (strncmp(at, "%p_", 3) != 0 && strncmp(at, "%b_", 3) != 0) continue;
    if (!used) call[used++] = ' ';
    memcpy(call + used, at + 1, name);
    used += name;
    call[used++] = ' ';
  }
  if (used) *out = call;
  return BRAID_OK;
}

/* TorchScript's: "/layer1/bn_1/BatchNormalization", of which "_1" numbers the second call of the module; "/Mul" is of
 * the network itself, whose path is "/". */
static size_t path_length(const char *name) {
  const char *end = strrchr(name, '/');
  if (name[0] != '/' || !end) return 0;
  if (end == name) return 1;
  const char *digits = end;
  while (digits[-1] >= '0' && digits[-1] <= '9') digits--;
  return (size_t)((digits < end && digits[-1] == '_' ? digits - 1 : end) - name);
}

braid_status braid_onnx_note_calls(braid_graph *graph, size_t first, const Onnx__NodeProto *node) {
  const char *text = find_property(node->metadata_props, node->n_metadata_props, "pkg.torch.onnx.fx_node");
  const char *call = NULL, *module = NULL;
  if (text) BRAID_TRY(read_call(graph, text, &call));
  size_t length = node->name ? path_length(node->name) : 0;
  if (length) module = braid_graph_intern(graph, node->name, length);
  if (length && !module) return BRAID_NO_MEMORY;
  for (size_t i = first; i < graph->node_count; i++) {
    if (!graph->nodes[i].module) graph->nodes[i].module = module;
    if (!graph->nodes[i].call) graph->nodes[i].call = call;
  }
  return BRAID_OK;
}
