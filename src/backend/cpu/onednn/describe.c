/* Which of oneDNN's implementations of an operation is taken, and for how many threads it is made. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/onednn/program.h"
#include "base/try.h"

/* Winograd's algorithm is in oneDNN twice: tiles handed out to the threads it was made for, in blocks that depend on
 * their number, or its three phases one after another by the threads that run it. It chooses the latter where threads
 * outnumber blocks. */
enum { kManyThreads = 1024 };

/* Not those that divide sums, or cut them into blocks by the number of threads: products (gemm) and what stands on
 * them. */
static bool divides_outputs(const char *name) {
  return strncmp(name, "jit", 3) == 0 && !strstr(name, "wino_2x3");
}

static bool is_reference(const char *name) {
  return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") || strstr(name, "+ref");
}

static const char *name_of(dnnl_primitive_desc_t primitive_desc) {
  const char *name = NULL;
  bool known = DNNL(primitive_desc_query)(primitive_desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name;
  return known ? name : "ref";
}

int braid_dnnl_threads_of(dnnl_primitive_desc_t primitive_desc) {
  return strstr(name_of(primitive_desc), "wino_4x3") ? kManyThreads : omp_get_max_threads();
}

int64_t braid_dnnl_pieces_of(int64_t batch, int64_t most) {
  int64_t pieces = batch < most ? batch : most;
  while (batch % pieces != 0) pieces--;
  return pieces;
}

typedef bool accepts(const char *name, const void *context);

static bool is_fast(const char *name, const void *context) {
  (void)context;
  return !is_reference(name);
}

static bool is_whole(const char *name, const void *context) {
  (void)context;
  return !is_reference(name) && divides_outputs(name);
}

static bool is_named(const char *name, const void *context) {
  return strcmp(name, context) == 0;
}

/* The first implementation that is accepted, of those there are for so many threads. */
static braid_status find(const void *op_desc, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint, int threads,
                         accepts *accept, const void *context, dnnl_primitive_desc_t *out) {
  dnnl_primitive_desc_iterator_t each;
  dnnl_primitive_desc_t found = NULL;
  int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  dnnl_status_t status = DNNL(primitive_desc_iterator_create)(&each, op_desc, attr, braid_dnnl_engine(), hint);
  if (status == dnnl_success) {
    do {
      found = DNNL(primitive_desc_iterator_fetch)(each);
      if (!found || accept(name_of(found), context)) break;
      DNNL(primitive_desc_destroy)(found);
      found = NULL;
    } while (DNNL(primitive_desc_iterator_next)(each) == dnnl_success);
    DNNL(primitive_desc_iterator_destroy)(each);
    if (!found) status = dnnl_unimplemented;
  }
  omp_set_num_threads(before);
  *out = found;
  return braid_dnnl_status(status, "a primitive's description");
}

static braid_status find_whole(const void *op_desc, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                               dnnl_primitive_desc_t *out, bool *pieces) {
  *pieces = false;
  braid_status status = find(op_desc, attr, hint, 1, is_whole, NULL, out);
  if (status == BRAID_OK) {
    dnnl_primitive_desc_t single = *out;
    const char *name = name_of(single);
    status = find(op_desc, attr, hint, braid_dnnl_threads_of(single), is_named, name, out);
    DNNL(primitive_desc_destroy)(single);
  }
  if (status != BRAID_UNSUPPORTED) return status;
  *pieces = true;
  return find(op_desc, attr, hint, 1, is_fast, NULL, out);
}

/* Attributes are needed where none are given: scratchpad memory is the caller's. */
static braid_status own_attributes(dnnl_primitive_attr_t *out) {
  dnnl_status_t status = DNNL(primitive_attr_create)(out);
  if (status == dnnl_success) {
    status = DNNL(primitive_attr_set_scratchpad_mode)(*out, dnnl_scratchpad_mode_user);
    if (status != dnnl_success) DNNL(primitive_attr_destroy)(*out);
  }
  return braid_dnnl_status(status, "attributes");
}

braid_status braid_dnnl_describe_single(const void *op_desc, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                                        dnnl_primitive_desc_t *out) {
  dnnl_primitive_attr_t own = NULL;
  if (!attr) BRAID_TRY(own_attributes(&own));
  braid_status status = find(op_desc, attr ? attr : own, hint, 1, is_fast, NULL, out);
  if (own) DNNL(primitive_attr_destroy)(own);
  return status;
}

braid_status braid_dnnl_describe_whole(const void *op_desc, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *out, bool *pieces) {
  dnnl_primitive_attr_t own = NULL;
  if (!attr) BRAID_TRY(own_attributes(&own));
  braid_status status = find_whole(op_desc, attr ? attr : own, hint, out, pieces);
  if (own) DNNL(primitive_attr_destroy)(own);
  return status;
}

/* --- activations ---------------------------------------------------------------------------------------------------
 */
typedef struct eltwise {
  dnnl_alg_kind_t kind;
  float alpha, beta;
} eltwise;

enum { kMostEltwise = 2 };

/* The node's activation as one or two of oneDNN's; 0: none. */
static int activation_of(const braid_node_desc *node, eltwise out[kMostEltwise]) {
  const char *name = braid_attr_string(node->attrs, "activation", "");
  braid_activation read;
  if (!braid_activation_read(node, &read) || !read.entry) return 0;
  float a = (float)read.params[0], b = (float)read.params[1];
  if (strcmp(name, "HardSigmoid") == 0) {
    out[0] = (eltwise){dnnl_eltwise_linear, a, b};
    out[1] = (eltwise){dnnl_eltwise_clip, 0, 1};
    return 2;
  }
  if (strcmp(name, "Relu") == 0)
    *out = (eltwise){dnnl_eltwise_relu, 0, 0};
  else if (strcmp(name, "LeakyRelu") == 0)
    *out = (eltwise){dnnl_eltwise_relu, a, 0};
  else if (strcmp(name, "Clip") == 0)
    *out = (eltwise){dnnl_eltwise_clip, a, b};
  else if (strcmp(name, "Sigmoid") == 0)
    *out = (eltwise){dnnl_eltwise_logistic, 0, 0};
  else if (strcmp(name, "Swish") == 0)
    *out = (eltwise){dnnl_eltwise_swish, a, 0};
  else if (strcmp(name, "Tanh") == 0)
    *out = (eltwise){dnnl_eltwise_tanh, 0, 0};
  /* ONNX's HardSwish is x * max(0, min(1, x / 6 + 0.5)), oneDNN's x * min(max(0, x + 3), 6) / 6: the same */
  else if (strcmp(name, "HardSwish") == 0)
    *out = (eltwise){dnnl_eltwise_hardswish, 0, 0};
  else
    return 0;
  return 1;
}

static dnnl_status_t append(const braid_node_desc *activated, bool sum, dnnl_primitive_attr_t attr) {
  dnnl_post_ops_t ops;
  dnnl_status_t status = DNNL(post_ops_create)(&ops);
  if (status != dnnl_success) return status;
  eltwise acts[kMostEltwise];
  int count = activated ? activation_of(activated, acts) : 0;
  if (sum) status = DNNL(post_ops_append_sum)(ops, 1.0f);
  for (int i = 0; i < count && status == dnnl_success; i++)
    status = DNNL(post_ops_append_eltwise)(ops, 1.0f, acts[i].kind, acts[i].alpha, acts[i].beta);
  if (status == dnnl_success) status = DNNL(primitive_attr_set_post_ops)(attr, ops);
  DNNL(post_ops_destroy)(ops);
  return status;
}

braid_status braid_dnnl_attributes(const braid_node_desc *activated, bool sum, dnnl_primitive_attr_t *out) {
  dnnl_status_t status = DNNL(primitive_attr_create)(out);
  if (status != dnnl_success) return braid_dnnl_status(status, "attributes");
  status = DNNL(primitive_attr_set_scratchpad_mode)(*out, dnnl_scratchpad_mode_user);
  if (status == dnnl_success) status = append(activated, sum, *out);
  if (status != dnnl_success) DNNL(primitive_attr_destroy)(*out);
  return braid_dnnl_status(status, "attributes");
}

#ifdef __x86_64__
static const bool kTellsInvalid = true;
#else
static const bool kTellsInvalid = false;
#endif

bool braid_dnnl_can_fuse(const braid_node_desc *node, bool sum) {
  return kTellsInvalid && !sum && braid_attr_has(node->attrs, "activation");
}

static bool same(dnnl_primitive_desc_t a, dnnl_primitive_desc_t b, dnnl_query_t what) {
  return DNNL(memory_desc_equal)(DNNL(primitive_desc_query_md)(a, what, 0), DNNL(primitive_desc_query_md)(b, what, 0));
}

bool braid_dnnl_interchangeable(dnnl_primitive_desc_t a, dnnl_primitive_desc_t b) {
  return same(a, b, dnnl_query_weights_md) && same(a, b, dnnl_query_scratchpad_md) &&
         strcmp(name_of(a), name_of(b)) == 0;
}
