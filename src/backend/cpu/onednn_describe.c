/* Which of oneDNN's implementations of an operation is taken, and for how many threads it is made. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/dnnl.h"
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
