/* Tensors: element types, descriptors (type, shape, layout) and reference-counted tensors in host memory.
 *
 * The dimensions of a descriptor are the logical ones, in the order of the op's definition (a batch of images is B, C,
 * H, W; B is the batch, N in other libraries); the layout gives their order in memory. A bool is one byte, 0 or 1. */
#ifndef BRAID_TENSOR_H
#define BRAID_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/allocator.h"

/* X(enumerator, name, bytes, numpy type string); those that ops compute in */
#define BRAID_WIDE_DTYPE_MAP(X)                                                                                        \
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

/* Those that numbers are only stored in: float8 and float4 (ONNX's names: bits of exponent and fraction; FN: no
 * infinity, UZ: no negative zero either), and integers of 4 and 2 bits. One element is one byte in memory, as in
 * Python's ml_dtypes: the code in its low bits, zeros above. ONNX files pack 2 or 4 of the small ones into a byte. */
#define BRAID_NARROW_DTYPE_MAP(X)                                                                                      \
  X(F8E4M3FN, "float8e4m3fn", 1, "<V1")                                                                                \
  X(F8E4M3FNUZ, "float8e4m3fnuz", 1, "<V1")                                                                            \
  X(F8E5M2, "float8e5m2", 1, "<V1")                                                                                    \
  X(F8E5M2FNUZ, "float8e5m2fnuz", 1, "<V1")                                                                            \
  X(F8E8M0, "float8e8m0", 1, "<V1")                                                                                    \
  X(F4E2M1, "float4e2m1", 1, "<V1")                                                                                    \
  X(U4, "uint4", 1, "<V1")                                                                                             \
  X(I4, "int4", 1, "<V1")                                                                                              \
  X(U2, "uint2", 1, "<V1")                                                                                             \
  X(I2, "int2", 1, "<V1")

#define BRAID_DTYPE_MAP(X) BRAID_WIDE_DTYPE_MAP(X) BRAID_NARROW_DTYPE_MAP(X)

typedef enum braid_dtype {
  BRAID_NONE = 0, /* not known yet, or no tensor */
#define BRAID_DTYPE_ENUM(id, name, bytes, npy) BRAID_##id,
  BRAID_DTYPE_MAP(BRAID_DTYPE_ENUM)
#undef BRAID_DTYPE_ENUM
      BRAID_DTYPE_COUNT
} braid_dtype;

BRAID_API const char *braid_dtype_name(braid_dtype dtype); /* "none" for BRAID_NONE or anything unknown */
BRAID_API size_t braid_dtype_size(braid_dtype dtype);      /* bytes of one element; 0 for BRAID_NONE */
BRAID_API bool braid_dtype_is_float(braid_dtype dtype);    /* f16, bf16, f32, f64: no narrow one */
/* float8, float4, and integers of 4 and 2 bits. They are moved as they are, and Cast, CastLike, QuantizeLinear and
 * DequantizeLinear convert them; no other op takes them. */
BRAID_API bool braid_dtype_is_narrow(braid_dtype dtype);

enum { BRAID_MAX_RANK = 8, BRAID_LAYOUT_BLOCKS = 2 };

/* Memory layout of a tensor of any rank: an order of the dimensions from the outermost to the innermost, and at most
 * two inner blocks (oneDNN's blocked formats). A dimension that its block size does not divide is padded with zeros.
 * Layouts are plain values: equal layouts compare equal with ==. The order also contains the dimensions that a tensor
 * does not have, and these are ignored, so one value serves every rank: BHWC is channels last for sequences (B, C, W),
 * images and volumes. */
typedef uint64_t braid_layout;
#define BRAID_LAYOUT_PLAIN ((braid_layout)0)                         /* row-major: BCHW for images */
#define BRAID_LAYOUT_BHWC ((braid_layout)061317130)                  /* dimension 1 innermost: channels last */
#define BRAID_LAYOUT_CHWB ((braid_layout)071317131)                  /* dimension 0 innermost: batch last */
#define BRAID_LAYOUT_BLOCKED16 ((braid_layout)UINT64_C(0x110000000)) /* "aBcd16b": B, C / 16, H, W, 16 channels */

enum { BRAID_LAYOUT_TEXT = 32 }; /* buffer size for the text of any layout */
/* Writes "plain", "BHWC", "CHWB", or oneDNN's format tag: dimensions as letters from the outermost to the innermost, in
 * capitals if they are blocked, then the blocks from the outermost to the innermost ("ABcd16b16a": filters and channels
 * in blocks of 16, filters innermost). A value that is not a layout of this rank is written as "0x...". Returns
 * `buffer`. */
BRAID_API char *braid_layout_format(braid_layout layout, int rank, char *buffer, size_t bytes);
/* The inverse of braid_layout_format. INVALID_ARGUMENT if `text` is not a layout. */
BRAID_API BRAID_MUST_CHECK braid_status braid_layout_parse(const char *text, braid_layout *out);

typedef struct braid_desc {
  braid_dtype dtype;
  int32_t rank; /* 0..BRAID_MAX_RANK; -1: unknown */
  braid_layout layout;
  int64_t dims[BRAID_MAX_RANK]; /* >= 0; -1 in inputs of a model: dynamic */
} braid_desc;

/* Makes a PLAIN descriptor. OUT_OF_RANGE if the rank or a dimension is out of bounds, or the byte count overflows.
 * `dims` may be NULL for rank 0. */
BRAID_API BRAID_MUST_CHECK braid_status braid_desc_init(braid_desc *desc, braid_dtype dtype, int rank,
                                                        const int64_t *dims);
/* Sets the layout. INVALID_ARGUMENT: the value is not a layout, or it blocks a dimension that the tensor does not have.
 * OUT_OF_RANGE: the padded byte count overflows. */
BRAID_API BRAID_MUST_CHECK braid_status braid_desc_set_layout(braid_desc *desc, braid_layout layout);
/* Number of elements (1 for rank 0). The descriptor must come from braid_desc_init. */
BRAID_API int64_t braid_desc_count(const braid_desc *desc);
/* Bytes in memory, including the padding of the layout. */
BRAID_API size_t braid_desc_bytes(const braid_desc *desc);
/* Same rank and dimensions; type and layout are ignored. */
BRAID_API bool braid_desc_same_shape(const braid_desc *a, const braid_desc *b);
/* Writes "float32[1,3,224,224]" (truncated to fit); returns `buffer`. */
BRAID_API char *braid_desc_format(const braid_desc *desc, char *buffer, size_t bytes);

/* A tensor in host memory. Reference counted, atomically; access to the contents is not synchronized. */
typedef struct braid_tensor braid_tensor;

/* Contents undefined. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tensor_create(const braid_allocator *allocator, const braid_desc *desc,
                                                            braid_tensor **out);
/* A tensor over the caller's memory, which is not copied. `release(context)` (may be NULL) is called once, when the
 * last reference is released; not if braid_tensor_wrap fails. */
BRAID_API BRAID_MUST_CHECK braid_status braid_tensor_wrap(const braid_allocator *allocator, const braid_desc *desc,
                                                          void *data, void (*release)(void *context), void *context,
                                                          braid_tensor **out);
BRAID_API braid_tensor *braid_tensor_retain(braid_tensor *tensor);
BRAID_API void braid_tensor_release(braid_tensor *tensor); /* NULL is allowed */
BRAID_API const braid_desc *braid_tensor_desc(const braid_tensor *tensor);
BRAID_API void *braid_tensor_data(braid_tensor *tensor);
BRAID_API const void *braid_tensor_const_data(const braid_tensor *tensor);
/* Element `index` (row-major, bounds not checked) of a PLAIN tensor, converted from its type; slow, for reports and
 * shape computations. */
BRAID_API double braid_tensor_get_f64(const braid_tensor *tensor, int64_t index);
BRAID_API int64_t braid_tensor_get_i64(const braid_tensor *tensor, int64_t index);
/* Sets element `index`. Integer types take the value rounded towards zero, their nearest where it is beyond them, and 0
 * for NaN. float8 and float4 take their nearest, ties to even, and their largest where it is beyond them. */
BRAID_API void braid_tensor_set_f64(braid_tensor *tensor, int64_t index, double value);

/* NumPy .npy files, versions 1 to 3, C and Fortran order, little and big endian, as PLAIN tensors. INVALID_FILE for a
 * malformed file names the place and what was expected. Files are written atomically. `path` "-" is standard input or
 * output. Narrow types are written as ml_dtypes writes them: bytes of one type, "|V1", that the file has no name for
 * (float8e5m2 has "<V1"). What is read from "|V1" is uint8, the codes; see braid_tensor_as. */
BRAID_API BRAID_MUST_CHECK braid_status braid_npy_load(const braid_allocator *allocator, const char *path,
                                                       braid_tensor **out);
BRAID_API BRAID_MUST_CHECK braid_status braid_npy_save(const char *path, const braid_tensor *tensor);

#endif
