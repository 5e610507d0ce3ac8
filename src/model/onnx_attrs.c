#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "model/onnx_import.h"

/* The type ONNX gives each attribute, over all its ops. Sorted by name. An attribute that is not here (of an op we do
 * not have) is passed on as it is; one of several types in different ops ("value", "to") is checked by its adapter. */
static const struct attr_type {
  const char *name;
  braid_attr_kind kind;
} kTypes[] = {
    {"activation_alpha", BRAID_ATTR_FLOATS},
    {"activation_beta", BRAID_ATTR_FLOATS},
    {"activations", BRAID_ATTR_STRINGS},
    {"align_corners", BRAID_ATTR_INT},
    {"allowzero", BRAID_ATTR_INT},
    {"alpha", BRAID_ATTR_FLOAT},
    {"antialias", BRAID_ATTR_INT},
    {"approximate", BRAID_ATTR_STRING},
    {"auto_pad", BRAID_ATTR_STRING},
    {"axes", BRAID_ATTR_INTS},
    {"axis", BRAID_ATTR_INT},
    {"batch_axis", BRAID_ATTR_INT},
    {"batch_dims", BRAID_ATTR_INT},
    {"beta", BRAID_ATTR_FLOAT},
    {"bias", BRAID_ATTR_FLOAT},
    {"block_size", BRAID_ATTR_INT},
    {"blocksize", BRAID_ATTR_INT},
    {"broadcast", BRAID_ATTR_INT},
    {"ceil_mode", BRAID_ATTR_INT},
    {"clip", BRAID_ATTR_FLOAT},
    {"coordinate_transformation_mode", BRAID_ATTR_STRING},
    {"count_include_pad", BRAID_ATTR_INT},
    {"cubic_coeff_a", BRAID_ATTR_FLOAT},
    {"detect_negative", BRAID_ATTR_INT},
    {"detect_positive", BRAID_ATTR_INT},
    {"dilations", BRAID_ATTR_INTS},
    {"direction", BRAID_ATTR_STRING},
    {"dtype", BRAID_ATTR_INT},
    {"end", BRAID_ATTR_INT},
    {"ends", BRAID_ATTR_INTS},
    {"epsilon", BRAID_ATTR_FLOAT},
    {"equation", BRAID_ATTR_STRING},
    {"exclude_outside", BRAID_ATTR_INT},
    {"exclusive", BRAID_ATTR_INT},
    {"extrapolation_value", BRAID_ATTR_FLOAT},
    {"fmod", BRAID_ATTR_INT},
    {"gamma", BRAID_ATTR_FLOAT},
    {"group", BRAID_ATTR_INT},
    {"hidden_size", BRAID_ATTR_INT},
    {"ignore_index", BRAID_ATTR_INT},
    {"input_forget", BRAID_ATTR_INT},
    {"is_test", BRAID_ATTR_INT},
    {"keep_aspect_ratio_policy", BRAID_ATTR_STRING},
    {"keepdims", BRAID_ATTR_INT},
    {"kernel_shape", BRAID_ATTR_INTS},
    {"lambd", BRAID_ATTR_FLOAT},
    {"largest", BRAID_ATTR_INT},
    {"layout", BRAID_ATTR_INT},
    {"linear_before_reset", BRAID_ATTR_INT},
    {"max", BRAID_ATTR_FLOAT},
    {"min", BRAID_ATTR_FLOAT},
    {"mode", BRAID_ATTR_STRING},
    {"momentum", BRAID_ATTR_FLOAT},
    {"nearest_mode", BRAID_ATTR_STRING},
    {"noop_with_empty_axes", BRAID_ATTR_INT},
    {"num_groups", BRAID_ATTR_INT},
    {"num_outputs", BRAID_ATTR_INT},
    {"output_dtype", BRAID_ATTR_INT},
    {"output_height", BRAID_ATTR_INT},
    {"output_padding", BRAID_ATTR_INTS},
    {"output_shape", BRAID_ATTR_INTS},
    {"output_width", BRAID_ATTR_INT},
    {"padding_mode", BRAID_ATTR_STRING},
    {"pads", BRAID_ATTR_INTS},
    {"perm", BRAID_ATTR_INTS},
    {"ratio", BRAID_ATTR_FLOAT},
    {"reduction", BRAID_ATTR_STRING},
    {"reverse", BRAID_ATTR_INT},
    {"round_mode", BRAID_ATTR_STRING},
    {"sampling_ratio", BRAID_ATTR_INT},
    {"saturate", BRAID_ATTR_INT},
    {"select_last_index", BRAID_ATTR_INT},
    {"size", BRAID_ATTR_INT},
    {"sorted", BRAID_ATTR_INT},
    {"spatial", BRAID_ATTR_INT},
    {"spatial_scale", BRAID_ATTR_FLOAT},
    {"split", BRAID_ATTR_INTS},
    {"start", BRAID_ATTR_INT},
    {"starts", BRAID_ATTR_INTS},
    {"stash_type", BRAID_ATTR_INT},
    {"storage_order", BRAID_ATTR_INT},
    {"strides", BRAID_ATTR_INTS},
    {"time_axis", BRAID_ATTR_INT},
    {"training_mode", BRAID_ATTR_INT},
    {"transA", BRAID_ATTR_INT},
    {"transB", BRAID_ATTR_INT},
    {"upper", BRAID_ATTR_INT},
};

static const char *const kKindNames[] = {
    [BRAID_ATTR_INT] = "an integer",  [BRAID_ATTR_FLOAT] = "a number", [BRAID_ATTR_STRING] = "a string",
    [BRAID_ATTR_INTS] = "integers",   [BRAID_ATTR_FLOATS] = "numbers", [BRAID_ATTR_STRINGS] = "strings",
    [BRAID_ATTR_TENSOR] = "a tensor",
};

static int compare_type(const void *key, const void *row) {
  return strcmp(key, ((const struct attr_type *)row)->name);
}

static braid_status check_type(const braid_onnx_call *call, const braid_attr *attr) {
  const struct attr_type *type =
      bsearch(attr->name, kTypes, sizeof kTypes / sizeof *kTypes, sizeof *kTypes, compare_type);
  if (!type || type->kind == attr->kind) return BRAID_OK;
  return braid_onnx_call_fail(call, BRAID_INVALID_FILE, "attribute %s is %s, expected %s", attr->name,
                              kKindNames[attr->kind], kKindNames[type->kind]);
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
    if (status == BRAID_OK) status = check_type(call, &attr);
    if (status == BRAID_OK)
      status = braid_onnx_call_put(call, attr);
    else if (attr.kind == BRAID_ATTR_TENSOR)
      braid_tensor_release(attr.tensor);
    BRAID_TRY(status);
  }
  return BRAID_OK;
}
