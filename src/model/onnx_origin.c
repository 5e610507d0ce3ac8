/* What PyTorch's exporters write down of the program that a file came from: which initializers were parameters, and the
 * modules that the nodes belong to. */
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

void braid_onnx_note_origins(braid_graph *graph, const braid_onnx_scope *scope, const Onnx__GraphProto *proto) {
  for (size_t i = 0; i < proto->n_value_info; i++) {
    const Onnx__ValueInfoProto *info = proto->value_info[i];
    int64_t value;
    if (!info->name || !braid_name_map_get(scope->names, info->name, &value)) continue;
    if (graph->values[value].kind == BRAID_VALUE_CONSTANT) graph->values[value].origin = read_origin(info);
  }
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */
/* The newer exporter: "['', 'layer1', 'layer1.bn', 'batch_norm_3']", of which the last entry is the call. */
static size_t scopes_length(const char *scopes) {
  const char *end = strrchr(scopes, ',');
  return scopes[0] == '[' && end ? (size_t)(end - scopes) : 0;
}

/* TorchScript's: "/layer1/bn_1/BatchNormalization", of which "_1" numbers the second call of the module. */
static size_t path_length(const char *name) {
  const char *end = strrchr(name, '/');
  if (name[0] != '/' || !end || end == name) return 0;
  const char *digits = end;
  while (digits[-1] >= '0' && digits[-1] <= '9') digits--;
  return (size_t)((digits < end && digits[-1] == '_' ? digits - 1 : end) - name);
}

braid_status braid_onnx_note_module(braid_graph *graph, size_t first, const Onnx__NodeProto *node) {
  const char *module = find_property(node->metadata_props, node->n_metadata_props, "pkg.torch.onnx.name_scopes");
  size_t length = module ? scopes_length(module) : 0;
  if (!length) {
    module = node->name ? node->name : "";
    length = path_length(module);
  }
  if (!length || first == graph->node_count) return BRAID_OK;
  const char *own = braid_graph_intern(graph, module, length);
  if (!own) return BRAID_NO_MEMORY;
  for (size_t i = first; i < graph->node_count; i++)
    if (!graph->nodes[i].module) graph->nodes[i].module = own;
  return BRAID_OK;
}
