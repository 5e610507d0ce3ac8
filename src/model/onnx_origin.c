/* What PyTorch's exporters write down of the program that a file came from: which initializers were parameters, and the
 * modules or the calls that the nodes belong to. */
#include <string.h>

#include "base/try.h"
#include "model/onnx_import.h"

static const char *find_property(Onnx__StringStringEntryProto *const *entries, size_t count, const char *key) {
  for (size_t i = 0; i < count; i++)
    if (entries[i]->key && entries[i]->value && strcmp(entries[i]->key, key) == 0) return entries[i]->value;
  return NULL;
}

/* --- initializers --------------------------------------------------------------------------------------------------
 */
/* A list like ['val_0', 'val_12']: were only literals folded into it? */
static bool folds_literals(const char *sources) {
  for (const char *at = strchr(sources, '\''); at; at = strchr(at + 1, '\'')) {
    if (strncmp(++at, "val_", 4) != 0) return false;
    at = strchr(at, '\'');
    if (!at) return false;
  }
  return true;
}

static braid_origin read_origin(const Onnx__ValueInfoProto *info) {
  const char *kind =
      find_property(info->metadata_props, info->n_metadata_props, "pkg.torch.export.graph_signature.InputSpec.kind");
  if (kind && strcmp(kind, "PARAMETER") == 0) return BRAID_ORIGIN_PARAMETER;
  if (kind && strcmp(kind, "BUFFER") == 0) return BRAID_ORIGIN_BUFFER;
  const char *sources =
      find_property(info->metadata_props, info->n_metadata_props, "pkg.onnxscript.optimizer.folded_from");
  return sources && folds_literals(sources) ? BRAID_ORIGIN_LITERAL : BRAID_ORIGIN_UNKNOWN;
}

braid_status braid_onnx_note_origins(braid_graph *graph, const braid_onnx_scope *scope, const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_value_info; i++) {
    const Onnx__ValueInfoProto *info = proto->value_info[i];
    int64_t value;
    if (!info->name || !braid_name_map_get(scope->names, info->name, &value)) continue;
    if (graph->values[value].kind != BRAID_VALUE_CONSTANT) continue;
    graph->values[value].origin = read_origin(info);
    const char *symbol =
        find_property(info->metadata_props, info->n_metadata_props, "pkg.torch.onnx.original_node_name");
    if (!symbol) continue;
    graph->values[value].symbol = braid_graph_intern(graph, symbol, strlen(symbol));
    if (!graph->values[value].symbol) return BRAID_NO_MEMORY;
  }
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

/* TorchScript's: "/layer1/bn_1/BatchNormalization", of which "_1" numbers the second call of the module. */
static size_t path_length(const char *name) {
  const char *end = strrchr(name, '/');
  if (name[0] != '/' || !end || end == name) return 0;
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
