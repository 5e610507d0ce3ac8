/* What oneDNN 2 and 3 have in different ways, one section each; all else of this folder is written once. Version 3 made
 * memory descriptions opaque, describes operations without a structure of their own, walks through implementations in
 * place, and gave some post-operations other arguments. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_DIFFERENCES_H
#define BRAID_BACKEND_CPU_ONEDNN_DIFFERENCES_H

#include "backend/cpu/onednn/describe.h"
#include "backend/cpu/onednn/library.h"
#include "base/fnv.h"

/* A description of memory made from a braid_md, to be dropped; `ref` is what functions take. */
typedef struct made_md {
  dnnl_memory_desc_t own;
  bool made;
  braid_md_ref ref;
} made_md;

/* Whether an implementation is the one that is looked for. */
typedef bool braid_dnnl_accepts(dnnl_primitive_desc_t implementation, const void *context);

#if DNNL_VERSION_MAJOR == 2
#include "backend/cpu/onednn/winograd.h"
/* === version 2 =====================================================================================================
 */
static inline dnnl_status_t md_make(const braid_md *md, made_md *out) {
  *out = (made_md){.ref = md->chosen};
  if (md->kind == BRAID_MD_CHOSEN) return dnnl_success;
  out->ref = &out->own;
  return md->kind == BRAID_MD_STRIDED
             ? DNNL(memory_desc_init_by_strides)(&out->own, md->rank, md->dims, md->type, md->strides)
             : DNNL(memory_desc_init_by_tag)(&out->own, md->rank, md->dims, md->type, md->tag);
}

static inline void md_drop(made_md *md) {
  (void)md;
}

/* The members that tell how memory lies; what stands between them in the structure is anything. */
static inline uint64_t md_mix(uint64_t key, braid_md_ref md) {
  size_t bytes = (size_t)md->ndims * sizeof *md->dims;
  int64_t head[] = {
      md->ndims, md->data_type, md->offset0, md->format_kind, (int64_t)md->extra.flags, md->extra.compensation_mask};
  key = braid_fnv_mix(key, head, sizeof head);
  key = braid_fnv_mix(key, md->dims, bytes);
  key = braid_fnv_mix(key, md->padded_dims, bytes);
  key = braid_fnv_mix(key, md->padded_offsets, bytes);
  if (md->format_kind == dnnl_format_kind_wino) { /* all members are 4 bytes but the last */
    const dnnl_wino_desc_t *w = &md->format_desc.wino_desc;
    return braid_fnv_mix(key, w, offsetof(dnnl_wino_desc_t, size) / sizeof(int) * sizeof(int));
  }
  const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
  size_t blocks = (size_t)b->inner_nblks * sizeof *b->inner_blks;
  key = braid_fnv_mix(key, b->strides, bytes);
  key = braid_fnv_mix(key, b->inner_blks, blocks);
  return braid_fnv_mix(key, b->inner_idxs, blocks);
}

/* Version 3 has no Winograd's algorithm for float on x86-64, and so no order of filters for it. */
static inline bool pack_winograd(braid_md_ref to, int64_t filters, int64_t channels, const float *data, float *out) {
  return braid_winograd_pack(to, filters, channels, data, out);
}

typedef union op_desc {
  dnnl_convolution_desc_t convolution;
  dnnl_deconvolution_desc_t deconvolution;
  dnnl_matmul_desc_t matmul;
} op_desc;

static inline dnnl_status_t op_desc_init(const braid_dnnl_request *r, braid_md_ref x, braid_md_ref w, braid_md_ref b,
                                         braid_md_ref y, op_desc *op) {
  dnnl_prop_kind_t forward = r->training ? dnnl_forward_training : dnnl_forward_inference;
  switch (r->kind) {
  case BRAID_DNNL_CONV:
    return DNNL(dilated_convolution_forward_desc_init)(&op->convolution, forward, r->algorithm, x, w, b, y, r->strides,
                                                       r->dilations, r->begin, r->end);
  case BRAID_DNNL_CONV_GRAD_INPUT:
    return DNNL(dilated_convolution_backward_data_desc_init)(&op->convolution, r->algorithm, x, w, y, r->strides,
                                                             r->dilations, r->begin, r->end);
  case BRAID_DNNL_CONV_GRAD_FILTER:
    return DNNL(dilated_convolution_backward_weights_desc_init)(&op->convolution, r->algorithm, x, w, NULL, y,
                                                                r->strides, r->dilations, r->begin, r->end);
  case BRAID_DNNL_DECONV:
    return DNNL(dilated_deconvolution_forward_desc_init)(&op->deconvolution, forward, r->algorithm, x, w, b, y,
                                                         r->strides, r->dilations, r->begin, r->end);
  case BRAID_DNNL_MATMUL:
    return DNNL(matmul_desc_init)(&op->matmul, x, w, b, y);
  case BRAID_DNNL_REORDER:
    break;
  }
  return dnnl_invalid_arguments;
}

static inline dnnl_status_t find_implementation(const braid_dnnl_request *r, braid_md_ref x, braid_md_ref w,
                                                braid_md_ref b, braid_md_ref y, dnnl_primitive_attr_t attr,
                                                dnnl_engine_t engine, braid_dnnl_accepts *accepts, const void *context,
                                                dnnl_primitive_desc_t *out) {
  dnnl_primitive_desc_iterator_t each;
  op_desc op;
  *out = NULL;
  dnnl_status_t status = op_desc_init(r, x, w, b, y, &op);
  if (status == dnnl_success) status = DNNL(primitive_desc_iterator_create)(&each, &op, attr, engine, NULL);
  if (status != dnnl_success) return status;
  do {
    *out = DNNL(primitive_desc_iterator_fetch)(each);
    if (!*out || accepts(*out, context)) break;
    DNNL(primitive_desc_destroy)(*out);
    *out = NULL;
  } while (DNNL(primitive_desc_iterator_next)(each) == dnnl_success);
  DNNL(primitive_desc_iterator_destroy)(each);
  return *out ? dnnl_success : dnnl_unimplemented;
}

/* Of the result, before anything is added. */
static inline dnnl_status_t set_scale(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, float scale) {
  (void)ops;
  return DNNL(primitive_attr_set_output_scales)(attr, 1, 0, &scale);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops) {
  return DNNL(post_ops_append_sum)(ops, 1.0f);
}

static inline dnnl_status_t append_eltwise(dnnl_post_ops_t ops, const braid_dnnl_eltwise *e) {
  return DNNL(post_ops_append_eltwise)(ops, 1.0f, e->kind, e->alpha, e->beta);
}

#else
/* === version 3 =====================================================================================================
 */
static inline dnnl_status_t md_make(const braid_md *md, made_md *out) {
  *out = (made_md){.ref = md->chosen};
  if (md->kind == BRAID_MD_CHOSEN) return dnnl_success;
  dnnl_status_t status =
      md->kind == BRAID_MD_STRIDED
          ? DNNL(memory_desc_create_with_strides)(&out->own, md->rank, md->dims, md->type, md->strides)
          : DNNL(memory_desc_create_with_tag)(&out->own, md->rank, md->dims, md->type, md->tag);
  out->made = status == dnnl_success;
  out->ref = out->made ? out->own : NULL;
  return status;
}

static inline void md_drop(made_md *md) {
  if (md->made) (void)DNNL(memory_desc_destroy)(md->own);
  md->made = false;
}

static inline uint64_t md_mix(uint64_t key, braid_md_ref md) {
  static const dnnl_query_t kLists[] = {dnnl_query_dims, dnnl_query_padded_dims, dnnl_query_padded_offsets,
                                        dnnl_query_strides};
  static const dnnl_query_t kBlocks[] = {dnnl_query_inner_blks, dnnl_query_inner_idxs};
  int rank = 0, blocks = 0;
  dnnl_data_type_t type = dnnl_data_type_undef;
  dnnl_format_kind_t format = dnnl_format_kind_undef;
  const dnnl_dims_t *list;
  DNNL(memory_desc_query)(md, dnnl_query_ndims_s32, &rank);
  DNNL(memory_desc_query)(md, dnnl_query_data_type, &type);
  DNNL(memory_desc_query)(md, dnnl_query_format_kind, &format);
  DNNL(memory_desc_query)(md, dnnl_query_inner_nblks_s32, &blocks);
  key = braid_fnv_mix(key, (int64_t[]){rank, type, format, blocks}, 4 * sizeof(int64_t));
  for (size_t i = 0; i < sizeof kLists / sizeof *kLists; i++)
    if (DNNL(memory_desc_query)(md, kLists[i], &list) == dnnl_success)
      key = braid_fnv_mix(key, *list, (size_t)rank * sizeof **list);
  for (size_t i = 0; i < sizeof kBlocks / sizeof *kBlocks; i++)
    if (DNNL(memory_desc_query)(md, kBlocks[i], &list) == dnnl_success)
      key = braid_fnv_mix(key, *list, (size_t)blocks * sizeof **list);
  return key;
}

static inline bool pack_winograd(braid_md_ref to, int64_t filters, int64_t channels, const float *data, float *out) {
  (void)to, (void)filters, (void)channels, (void)data, (void)out;
  return false;
}

/* Gradients want the forward pass that they belong to; any implementation of it does. NULL: not a gradient. */
static inline dnnl_status_t make_hint(const braid_dnnl_request *r, braid_md_ref x, braid_md_ref w, braid_md_ref y,
                                      dnnl_primitive_attr_t attr, dnnl_engine_t engine, dnnl_primitive_desc_t *out) {
  *out = NULL;
  if (r->kind != BRAID_DNNL_CONV_GRAD_INPUT && r->kind != BRAID_DNNL_CONV_GRAD_FILTER) return dnnl_success;
  return DNNL(convolution_forward_primitive_desc_create)(out, engine, dnnl_forward_training, dnnl_convolution_direct, x,
                                                         w, NULL, y, r->strides, r->dilations, r->begin, r->end, attr);
}

static inline dnnl_status_t first_implementation(const braid_dnnl_request *r, braid_md_ref x, braid_md_ref w,
                                                 braid_md_ref b, braid_md_ref y, dnnl_primitive_attr_t attr,
                                                 dnnl_engine_t engine, dnnl_primitive_desc_t hint,
                                                 dnnl_primitive_desc_t *out) {
  dnnl_prop_kind_t forward = r->training ? dnnl_forward_training : dnnl_forward_inference;
  switch (r->kind) {
  case BRAID_DNNL_CONV:
    return DNNL(convolution_forward_primitive_desc_create)(out, engine, forward, r->algorithm, x, w, b, y, r->strides,
                                                           r->dilations, r->begin, r->end, attr);
  case BRAID_DNNL_CONV_GRAD_INPUT:
    return DNNL(convolution_backward_data_primitive_desc_create)(out, engine, r->algorithm, x, w, y, r->strides,
                                                                 r->dilations, r->begin, r->end, hint, attr);
  case BRAID_DNNL_CONV_GRAD_FILTER:
    return DNNL(convolution_backward_weights_primitive_desc_create)(
        out, engine, r->algorithm, x, w, NULL, y, r->strides, r->dilations, r->begin, r->end, hint, attr);
  case BRAID_DNNL_DECONV:
    return DNNL(deconvolution_forward_primitive_desc_create)(out, engine, forward, r->algorithm, x, w, b, y, r->strides,
                                                             r->dilations, r->begin, r->end, attr);
  case BRAID_DNNL_MATMUL:
    return DNNL(matmul_primitive_desc_create)(out, engine, x, w, b, y, attr);
  case BRAID_DNNL_REORDER:
    break;
  }
  return dnnl_invalid_arguments;
}

/* A description walks on to the next implementation itself, and needs its hint for that. */
static inline dnnl_status_t find_implementation(const braid_dnnl_request *r, braid_md_ref x, braid_md_ref w,
                                                braid_md_ref b, braid_md_ref y, dnnl_primitive_attr_t attr,
                                                dnnl_engine_t engine, braid_dnnl_accepts *accepts, const void *context,
                                                dnnl_primitive_desc_t *out) {
  dnnl_primitive_desc_t hint, each = NULL;
  *out = NULL;
  dnnl_status_t status = make_hint(r, x, w, y, attr, engine, &hint);
  if (status != dnnl_success) return status;
  status = first_implementation(r, x, w, b, y, attr, engine, hint, &each);
  if (status != dnnl_success) each = NULL;
  while (status == dnnl_success && !accepts(each, context)) status = DNNL(primitive_desc_next_impl)(each);
  if (status == dnnl_success)
    *out = each;
  else if (each)
    DNNL(primitive_desc_destroy)(each), status = dnnl_unimplemented;
  if (hint) DNNL(primitive_desc_destroy)(hint);
  return status;
}

static inline dnnl_status_t set_scale(dnnl_primitive_attr_t attr, dnnl_post_ops_t ops, float scale) {
  (void)attr;
  return DNNL(post_ops_append_eltwise)(ops, dnnl_eltwise_linear, scale, 0);
}

static inline dnnl_status_t append_sum(dnnl_post_ops_t ops) {
  return DNNL(post_ops_append_sum)(ops, 1.0f, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t append_eltwise(dnnl_post_ops_t ops, const braid_dnnl_eltwise *e) {
  bool hard =
      e->kind == dnnl_eltwise_hardswish; /* x * clip(alpha * x + beta, 0, 1), here with the numbers as arguments */
  return DNNL(post_ops_append_eltwise)(ops, e->kind, hard ? 1.0f / 6 : e->alpha, hard ? 0.5f : e->beta);
}
#endif

#endif
