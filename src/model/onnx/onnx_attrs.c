#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "graph/known_attrs.h"
#include "model/onnx/onnx_import.h"

static braid_status check_kind(const braid_onnx_call *call, const braid_attr *attr) {
  const char *given, *expected;
  if (!braid_known_attr_differs(attr, false, &given, &expected)) return BRAID_OK;
  return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s is %s, expected %s", attr->name, given, expected);
}

braid_status braid_onnx_check_attrs(const braid_onnx_call *call, const Onnx__NodeProto *node) {
  bool microsoft = node->domain && strcmp(node->domain, "com.microsoft") == 0;
  if (!microsoft && node->domain && *node->domain && strcmp(node->domain, "ai.onnx") != 0) return BRAID_OK;
  const char *attrs = microsoft ? braid_known_attrs_microsoft(call->op) : braid_known_attrs(call->op, call->opset);
  for (size_t i = 0; attrs && i < node->n_attribute; i++) {
    const char *name = node->attribute[i]->name;
    if (!name || braid_known_attrs_list(attrs, name)) continue;
    char opset[40] = "", nearest[128];
    if (!microsoft) snprintf(opset, sizeof opset, " in opset %lld", (long long)call->opset);
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "has no attribute %.60s%s%s%s%s", name,
                                braid_known_attrs_nearest(attrs, name, nearest, sizeof nearest), opset,
                                *attrs ? "; there are " : "; there are none", attrs);
  }
  return BRAID_OK;
}

const Onnx__AttributeProto *braid_onnx_bound_attr(const braid_onnx_scope *scope, const char *name) {
  while (scope && !scope->function) scope = scope->parent;
  for (size_t i = 0; scope && i < scope->bound_count; i++)
    if (strcmp(scope->bound_names[i], name) == 0) return scope->bound[i];
  return NULL;
}

/* Files older than IR version 2 leave the type out. */
static int type_of(const Onnx__AttributeProto *proto) {
  if (proto->has_type && proto->type) return (int)proto->type;
  if (proto->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  if (proto->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  if (proto->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
  if (proto->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  if (proto->g) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
  if (proto->n_floats) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
  if (proto->n_ints) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  if (proto->n_strings) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
  return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

/* A byte of value 0 would end the text for us, and not for others. */
static braid_status convert_text(braid_onnx_call *call, const char *name, ProtobufCBinaryData bytes, const char **out) {
  if (bytes.len && memchr(bytes.data, 0, bytes.len))
    return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s holds a byte of value 0, text is expected",
                                name);
  *out = braid_arena_text(call->importer->arena, (const char *)bytes.data, bytes.len);
  return *out ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status convert_strings(braid_onnx_call *call, const Onnx__AttributeProto *proto, braid_attr *attr) {
  braid_arena *arena = call->importer->arena;
  const char **strings = braid_arena_alloc(arena, (proto->n_strings + 1) * sizeof *strings);
  if (!strings) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < proto->n_strings; i++)
    BRAID_TRY(convert_text(call, attr->name, proto->strings[i], &strings[i]));
  attr->kind = BRAID_ATTR_STRINGS;
  attr->count = proto->n_strings;
  attr->strings = strings;
  return BRAID_OK;
}

static braid_status convert(braid_onnx_call *call, const Onnx__AttributeProto *proto, braid_attr *attr) {
  switch (type_of(proto)) {
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
    attr->kind = BRAID_ATTR_FLOAT;
    attr->f = proto->f;
    return BRAID_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
    attr->kind = BRAID_ATTR_INT;
    attr->i = proto->i;
    return BRAID_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
    attr->kind = BRAID_ATTR_STRING;
    return convert_text(call, attr->name, proto->s, &attr->s);
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
    attr->kind = BRAID_ATTR_FLOATS;
    attr->count = proto->n_floats;
    attr->floats = proto->floats;
    return BRAID_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
    attr->kind = BRAID_ATTR_INTS;
    attr->count = proto->n_ints;
    attr->ints = proto->ints;
    return BRAID_OK;
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
    return convert_strings(call, proto, attr);
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
    if (!proto->t) return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s has no tensor", attr->name);
    attr->kind = BRAID_ATTR_TENSOR;
    return braid_onnx_tensor(call->importer->source, proto->t, &attr->tensor);
  case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR:
    if (!proto->sparse_tensor)
      return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s has no tensor", attr->name);
    attr->kind = BRAID_ATTR_TENSOR;
    return braid_onnx_sparse_tensor(call->importer->source, proto->sparse_tensor, &attr->tensor);
  default:
    return braid_onnx_call_fail(call, BRAID_UNSUPPORTED, "attribute %s is of a kind that is not carried (%d)",
                                attr->name, type_of(proto));
  }
}

braid_status braid_onnx_call_attrs(braid_onnx_call *call, const braid_onnx_scope *scope, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__AttributeProto *proto = node->attribute[i];
    if (!proto->name || !*proto->name)
      return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %zu has no name", i);
    braid_attr attr = {.name = proto->name};
    if (proto->ref_attr_name && *proto->ref_attr_name) {
      proto = braid_onnx_bound_attr(scope, proto->ref_attr_name);
      if (!proto) continue; /* the call left it out, and the function has no default */
    }
    if (proto->g || proto->n_graphs) continue;
    if (braid_onnx_call_attr(call, attr.name))
      return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s is given twice", attr.name);
    braid_status status = convert(call, proto, &attr);
    if (status == BRAID_OK) status = check_kind(call, &attr);
    if (status == BRAID_OK)
      status = braid_onnx_call_put(call, attr);
    else if (attr.kind == BRAID_ATTR_TENSOR)
      braid_tensor_release(attr.tensor);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}
