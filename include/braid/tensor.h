/* Tensors: element types, descriptions (type, shape, layout) and reference-counted host tensors.
 *
 * A description's dimensions are always the logical ones in the order of the op's definition (an image batch is
 * B, C, H, W); the layout says only how they lie in memory. bool is one byte, 0 or 1. */
#ifndef BRAID_TENSOR_H
#define BRAID_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

/* X(enumerator, name, bytes, numpy type string) */
#define BRAID_DTYPE_MAP(X)                                                                                             \
  X(F32, "float32", 4, "<f4")                                                                                          \
  X(F64, "float64", 8, "<f8")                                                                                          \
  X(F16, "float16", 2, "<f2")                                                                                          \
  X(BF16, "bfloat16", 2, "<V2")                                                                                        \
  X(I8, "int8", 1, "|i1")                                                                                              \
  X(I16, "int16", 2, "<i2")                                                                                            \
  X(I32, "int32", 4, "<i4")                                                                                            \
  X(I64, "int64", 8, "<i8")                                                                                            \
  X(U8, "uint8", 1, "|u1")                                                                                             \
  X(U16, "uint16", 2, "<u2")                                                                                           \
  X(U32, "uint32", 4, "<u4")                                                                                           \
  X(U64, "uint64", 8, "<u8")                                                                                           \
  X(BOOL, "bool", 1, "|b1")

typedef enum braid_dtype {
  BRAID_NONE = 0, /* not known yet, or no tensor */
#define BRAID_DTYPE_ENUM(id, name, bytes, npy) BRAID_##id,
  BRAID_DTYPE_MAP(BRAID_DTYPE_ENUM)
#undef BRAID_DTYPE_ENUM
      BRAID_DTYPE_COUNT
} braid_dtype;

BRAID_API const char *braid_dtype_name(braid_dtype dtype); /* "none" for BRAID_NONE or anything unknown */
BRAID_API size_t braid_dtype_size(braid_dtype dtype);      /* bytes of one element; 0 for BRAID_NONE */
BRAID_API bool braid_dtype_is_float(braid_dtype dtype);    /* f16, bf16, f32, f64 */

enum { BRAID_MAX_RANK = 8, BRAID_LAYOUT_BLOCKS = 2 };

/* How the elements lie in memory, for tensors of any rank: an order of the dimensions, from the outermost to the
 * innermost, and at most two blocks, parts of a dimension that lie inside of all of them; a dimension that its blocks
 * do not divide is padded with zeros. Layouts are values: equal ones compare equal with ==. A dimension that a tensor
 * does not have is in the order as well, behind the one before it, so that one layout serves every rank: BHWC is
 * channels last for images, series and volumes. */
typedef uint64_t braid_layout;
#define BRAID_LAYOUT_PLAIN ((braid_layout)0)                         /* row-major: BCHW */
#define BRAID_LAYOUT_BHWC ((braid_layout)061317130)                  /* the second dimension innermost: channels last */
#define BRAID_LAYOUT_CHWB ((braid_layout)071317131)                  /* the first dimension innermost: batch last */
#define BRAID_LAYOUT_BLOCKED16 ((braid_layout)UINT64_C(0x110000000)) /* "aBcd16b": B, C / 16, H, W, 16 channels */

enum { BRAID_LAYOUT_TEXT = 32 }; /* bytes that hold any layout's text */
/* "plain", "BHWC", "CHWB", or the notation of oneDNN: dimensions as letters from the outermost to the innermost, in
 * capitals if they are blocked, then the blocks from the outermost to the innermost ("ABcd16b16a" has filters and
 * channels in blocks of 16, the filters innermost); a number that is no layout of this rank as "0x...". Returns
 * `buffer`. */
BRAID_API char *braid_layout_format(braid_layout layout, int rank, char *buffer, size_t bytes);
/* The same the other way; INVALID_ARGUMENT says what was expected. */
BRAID_API BRAID_MUST_CHECK braid_status braid_layout_parse(const char *text, braid_layout *out);

typedef struct braid_desc {
  braid_dtype dtype;
  int32_t rank; /* 0..BRAID_MAX_RANK; -1: unknown */
  braid_layout layout;
  int64_t dims[BRAID_MAX_RANK]; /* >= 0; in a model's inputs -1: left open by the model */
} braid_desc;

/* Makes a PLAIN description. Fails with OUT_OF_RANGE if rank or a dimension is out of bounds or the byte count
 * overflows. `dims` may be NULL for rank 0. */
BRAID_API BRAID_MUST_CHECK braid_status braid_desc_init(braid_desc *desc, braid_dtype dtype, int rank,
                                                        const int64_t *dims);
/* The same tensor in another layout. INVALID_ARGUMENT: it is no layout, or blocks a dimension that the tensor does not
 * have; OUT_OF_RANGE: the byte count overflows. */
BRAID_API BRAID_MUST_CHECK braid_status braid_desc_set_layout(braid_desc *desc, braid_layout layout);
/* Number of elements (1 for rank 0). The description must have passed braid_desc_init. */
BRAID_API int64_t braid_desc_count(const braid_desc *desc);
/* Bytes in memory, padding of the layout included. */
BRAID_API size_t braid_desc_bytes(const braid_desc *desc);
/* Same rank and dimensions (type and layout are not looked at). */
BRAID_API bool braid_desc_same_shape(const braid_desc *a, const braid_desc *b);
/* Writes "float32[1,3,224,224]" (cut to fit); returns `buffer`. */
BRAID_API char *braid_desc_format(const braid_desc *desc, char *buffer, size_t bytes);

/* A tensor in host memory. Reference counted; the count is atomic, the contents are not guarded. */
typedef struct braid_tensor braid_tensor;

/* Contents undefined. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tensor_create(const braid_allocator *allocator, const braid_desc *desc,
                                                            braid_tensor **out);
/* Refers to memory of somebody else; `release(context)` is called once with the last reference (may be NULL). On
 * failure release is not called. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tensor_wrap(const braid_allocator *allocator, const braid_desc *desc,
                                                          void *data, void (*release)(void *context), void *context,
                                                          braid_tensor **out);
BRAID_API braid_tensor *braid_tensor_retain(braid_tensor *tensor);
BRAID_API void braid_tensor_release(braid_tensor *tensor); /* NULL is allowed */
BRAID_API const braid_desc *braid_tensor_desc(const braid_tensor *tensor);
BRAID_API void *braid_tensor_data(braid_tensor *tensor);
BRAID_API const void *braid_tensor_const_data(const braid_tensor *tensor);
/* Element `index` (row-major) as double or integer, whatever the type; for reports and shape computations. */
BRAID_API double braid_tensor_get_f64(const braid_tensor *tensor, int64_t index);
BRAID_API int64_t braid_tensor_get_i64(const braid_tensor *tensor, int64_t index);
/* Sets element `index` to a value that its type can hold. */
BRAID_API void braid_tensor_set_f64(braid_tensor *tensor, int64_t index, double value);

/* NumPy .npy files, versions 1 to 3, C and Fortran order, little and big endian, into and from PLAIN tensors.
 * A malformed file: INVALID_FILE naming the file, the place and what was expected. Files are written whole or not
 * at all. `path` "-" is standard input / output. */
BRAID_API BRAID_MUST_CHECK braid_status braid_npy_load(const braid_allocator *allocator, const char *path,
                                                       braid_tensor **out);
BRAID_API BRAID_MUST_CHECK braid_status braid_npy_save(const char *path, const braid_tensor *tensor);

#endif
