#include "braid/tensor.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/invariant.h"
#include "base/try.h"
#include "tensor/deferred.h"
#include "tensor/half.h"
#include "tensor/narrow.h"

typedef struct pending {
  pthread_mutex_t lock;
  braid_deferred deferred; /* source NULL: the contents have been computed */
  atomic_bool done;
} pending;

struct braid_tensor {
  const braid_allocator *allocator;
  uint32_t references; /* atomic */
  braid_desc desc;
  void *data;
  void (*release)(void *context); /* NULL and own data: data follows this struct in one allocation */
  void *context;
  bool owns;
  pending *pending; /* NULL: not deferred */
};

static braid_tensor *new_tensor(const braid_allocator *allocator, const braid_desc *desc) {
  braid_tensor *tensor = braid_zalloc(allocator, sizeof *tensor);
  if (!tensor) return NULL;
  tensor->allocator = allocator;
  tensor->desc = *desc;
  tensor->references = 1;
  return tensor;
}

braid_status braid_tensor_create(const braid_allocator *allocator, const braid_desc *desc, braid_tensor **out) {
  *out = NULL;
  braid_tensor *tensor = new_tensor(allocator, desc);
  if (!tensor) return BRAID_NO_MEMORY;
  tensor->data = braid_alloc(allocator, braid_desc_bytes(desc));
  tensor->owns = true;
  if (!tensor->data) {
    char text[96];
    braid_free(allocator, tensor);
    return braid_fail(BRAID_NO_MEMORY, "no room for a tensor %s", braid_desc_format(desc, text, sizeof text));
  }
  *out = tensor;
  return BRAID_OK;
}

braid_status braid_tensor_wrap(const braid_allocator *allocator, const braid_desc *desc, void *data,
                               void (*release)(void *context), void *context, braid_tensor **out) {
  *out = new_tensor(allocator, desc);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->data = data;
  (*out)->release = release;
  (*out)->context = context;
  return BRAID_OK;
}

/* --- deferred ------------------------------------------------------------------------------------------------------
 */
static void pending_end(pending *p) {
  if (p->deferred.release) p->deferred.release(p->deferred.context);
  braid_tensor_release(p->deferred.source);
  p->deferred = (braid_deferred){0};
}

static void pending_destroy(const braid_allocator *allocator, pending *p) {
  if (!p) return;
  if (p->deferred.fill) pending_end(p);
  pthread_mutex_destroy(&p->lock);
  braid_free(allocator, p);
}

static void *data_of(const braid_tensor *tensor) {
  pending *p = tensor->pending;
  if (!p || atomic_load_explicit(&p->done, memory_order_acquire)) return tensor->data;
  pthread_mutex_lock(&p->lock);
  if (p->deferred.fill) {
    const braid_tensor *source = p->deferred.source;
    p->deferred.fill(p->deferred.context, source ? braid_tensor_const_data(source) : NULL, tensor->data);
    pending_end(p);
    atomic_store_explicit(&p->done, true, memory_order_release);
  }
  pthread_mutex_unlock(&p->lock);
  return tensor->data;
}

braid_status braid_tensor_defer(const braid_allocator *allocator, const braid_desc *desc,
                                const braid_deferred *deferred, braid_tensor **out) {
  BRAID_TRY(braid_tensor_create(allocator, desc, out));
  pending *p = braid_zalloc(allocator, sizeof *p);
  if (!p) {
    braid_tensor_release(*out);
    *out = NULL;
    return BRAID_NO_MEMORY;
  }
  pthread_mutex_init(&p->lock, NULL);
  p->deferred = *deferred;
  if (p->deferred.source) braid_tensor_retain(p->deferred.source);
  (*out)->pending = p;
  return BRAID_OK;
}

const void *braid_tensor_address(const braid_tensor *tensor) {
  return tensor->data;
}

const void *braid_tensor_preview(const braid_tensor *tensor) {
  pending *p = tensor->pending;
  if (!p || atomic_load_explicit(&p->done, memory_order_acquire)) return tensor->data;
  pthread_mutex_lock(&p->lock);
  const void *data = p->deferred.source ? braid_tensor_preview(p->deferred.source) : NULL;
  pthread_mutex_unlock(&p->lock);
  return data ? data : data_of(tensor);
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */
braid_tensor *braid_tensor_retain(braid_tensor *tensor) {
  braid_references_add(&tensor->references);
  return tensor;
}

void braid_tensor_release(braid_tensor *tensor) {
  if (!tensor || !braid_references_drop(&tensor->references)) return;
  pending_destroy(tensor->allocator, tensor->pending);
  if (tensor->owns)
    braid_free(tensor->allocator, tensor->data);
  else if (tensor->release)
    tensor->release(tensor->context);
  braid_free(tensor->allocator, tensor);
}

const braid_desc *braid_tensor_desc(const braid_tensor *tensor) {
  return &tensor->desc;
}
void *braid_tensor_data(braid_tensor *tensor) {
  return data_of(tensor);
}
const void *braid_tensor_const_data(const braid_tensor *tensor) {
  return data_of(tensor);
}

double braid_tensor_get_f64(const braid_tensor *tensor, int64_t index) {
  const void *data = data_of(tensor);
  switch (tensor->desc.dtype) {
  case BRAID_F32:
    return ((const float *)data)[index];
  case BRAID_F64:
    return ((const double *)data)[index];
  case BRAID_F16:
    return braid_f16_to_f32(((const uint16_t *)data)[index]);
  case BRAID_BF16:
    return braid_bf16_to_f32(((const uint16_t *)data)[index]);
  case BRAID_U64:
    return (double)((const uint64_t *)data)[index];
  default:
    if (braid_dtype_is_narrow(tensor->desc.dtype))
      return braid_narrow_to_f64(tensor->desc.dtype, ((const uint8_t *)data)[index]);
    return (double)braid_tensor_get_i64(tensor, index);
  }
}

int64_t braid_tensor_get_i64(const braid_tensor *tensor, int64_t index) {
  const void *data = data_of(tensor);
  switch (tensor->desc.dtype) {
  case BRAID_I8:
    return ((const int8_t *)data)[index];
  case BRAID_I16:
    return ((const int16_t *)data)[index];
  case BRAID_I32:
    return ((const int32_t *)data)[index];
  case BRAID_I64:
    return ((const int64_t *)data)[index];
  case BRAID_BOOL:
  case BRAID_U8:
    return ((const uint8_t *)data)[index];
  case BRAID_U16:
    return ((const uint16_t *)data)[index];
  case BRAID_U32:
    return ((const uint32_t *)data)[index];
  case BRAID_U64:
    return (int64_t)((const uint64_t *)data)[index];
  default:
    break;
  }
  double value = braid_tensor_get_f64(tensor, index);
  if (!(value >= -0x1p63)) return INT64_MIN; /* NaN too */
  return value < 0x1p63 ? (int64_t)value : INT64_MAX;
}

/* Rounded towards zero and held within the bounds; NaN is 0. */
static int64_t nearest_whole(double value, int64_t least, int64_t most) {
  if (value != value) return 0;
  if (value <= (double)least) return least;
  return value >= (double)most ? most : (int64_t)value;
}

void braid_tensor_set_f64(braid_tensor *tensor, int64_t index, double value) {
  void *data = data_of(tensor);
  switch (tensor->desc.dtype) {
  case BRAID_F32:
    ((float *)data)[index] = (float)value;
    break;
  case BRAID_F64:
    ((double *)data)[index] = value;
    break;
  case BRAID_F16:
    ((uint16_t *)data)[index] = braid_f32_to_f16((float)value);
    break;
  case BRAID_BF16:
    ((uint16_t *)data)[index] = braid_f32_to_bf16((float)value);
    break;
  case BRAID_I8:
    ((int8_t *)data)[index] = (int8_t)nearest_whole(value, INT8_MIN, INT8_MAX);
    break;
  case BRAID_I16:
    ((int16_t *)data)[index] = (int16_t)nearest_whole(value, INT16_MIN, INT16_MAX);
    break;
  case BRAID_I32:
    ((int32_t *)data)[index] = (int32_t)nearest_whole(value, INT32_MIN, INT32_MAX);
    break;
  case BRAID_I64:
    ((int64_t *)data)[index] = nearest_whole(value, INT64_MIN, INT64_MAX);
    break;
  case BRAID_U8:
    ((uint8_t *)data)[index] = (uint8_t)nearest_whole(value, 0, UINT8_MAX);
    break;
  case BRAID_U16:
    ((uint16_t *)data)[index] = (uint16_t)nearest_whole(value, 0, UINT16_MAX);
    break;
  case BRAID_U32:
    ((uint32_t *)data)[index] = (uint32_t)nearest_whole(value, 0, UINT32_MAX);
    break;
  case BRAID_U64:
    ((uint64_t *)data)[index] = !(value > 0) ? 0 : value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
    break;
  case BRAID_BOOL:
    ((uint8_t *)data)[index] = value != 0;
    break;
  default:
    if (braid_dtype_is_narrow(tensor->desc.dtype))
      ((uint8_t *)data)[index] =
          braid_narrow_of_f64(tensor->desc.dtype, value, &(braid_narrowing){.e8m0 = BRAID_E8M0_NEAREST});
    break;
  }
}
