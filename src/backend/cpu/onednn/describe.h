/* Descriptions of oneDNN's primitives: what is asked for, in plain numbers, and what oneDNN has for it.
 *
 * Describing takes oneDNN some 50 microseconds, as long as many a small network runs, and a node is described when its
 * kernel is looked for, asked for layouts, queried and prepared. So descriptions are kept, by what was asked, as long
 * as a CPU device is open: equal nodes, other plans and executions find them. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_DESCRIBE_H
#define BRAID_BACKEND_CPU_ONEDNN_DESCRIBE_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn/library.h"
#include "tensor/layout.h"

/* --- memory --------------------------------------------------------------------------------------------------------
 */
typedef enum braid_md_kind { BRAID_MD_STRIDED, BRAID_MD_TAGGED, BRAID_MD_CHOSEN } braid_md_kind;

/* How an operand lies in memory. A value; members that its kind does not use are 0. */
typedef struct braid_md {
  braid_md_kind kind;
  int rank;
  dnnl_data_type_t type;
  dnnl_format_tag_t tag;
  dnnl_dims_t dims, strides;
  braid_md_ref chosen; /* oneDNN's own: lives as long as the description that it is from */
} braid_md;

/* Layouts in which oneDNN has the weights of convolutions: filters and channels in blocks, filters alone where there
 * are few channels, or groups of one filter and one channel. */
#define BRAID_DNNL_16I16O (BRAID_LAYOUT_BLOCKED(0, 1, 16) | BRAID_LAYOUT_BLOCKED(1, 0, 16))
#define BRAID_DNNL_16O16I (BRAID_LAYOUT_BLOCKED(0, 0, 16) | BRAID_LAYOUT_BLOCKED(1, 1, 16))
#define BRAID_DNNL_8I8O (BRAID_LAYOUT_BLOCKED(0, 1, 8) | BRAID_LAYOUT_BLOCKED(1, 0, 8))
#define BRAID_DNNL_8O8I (BRAID_LAYOUT_BLOCKED(0, 0, 8) | BRAID_LAYOUT_BLOCKED(1, 1, 8))
#define BRAID_DNNL_I16O (BRAID_LAYOUT_BHWC | BRAID_LAYOUT_BLOCKED(0, 0, 16))
#define BRAID_DNNL_I8O (BRAID_LAYOUT_BHWC | BRAID_LAYOUT_BLOCKED(0, 0, 8))
#define BRAID_DNNL_16G BRAID_LAYOUT_BLOCKED(0, 0, 16)
#define BRAID_DNNL_8G BRAID_LAYOUT_BLOCKED(0, 0, 8)

/* An operand as it is. False for types, ranks or layouts that oneDNN does not have. Rank 0 becomes one element. */
bool braid_md_of(const braid_desc *desc, braid_md *out);
/* Float32 weights of `groups` groups, which are a dimension of their own for oneDNN. */
bool braid_md_of_groups(const braid_desc *desc, int64_t groups, braid_md *out);
braid_md braid_md_strided(int rank, const int64_t *dims, const int64_t *strides); /* float32 */
braid_md braid_md_plain(int rank, const int64_t *dims);                           /* row-major float32 */
/* The same shape as oneDNN likes it best. */
braid_md braid_md_any(const braid_md *shape);
size_t braid_md_bytes(const braid_md *md);
bool braid_md_equal(const braid_md *a, const braid_md *b);
/* A number that tells memory that lies differently. */
uint64_t braid_md_mix(uint64_t key, const braid_md *md);
/* Packs filters for a Winograd convolution of oneDNN; false, and nothing is done: `to` is something else. */
bool braid_md_pack_winograd(const braid_md *from, const braid_md *to, const float *data, float *out);
dnnl_status_t braid_md_memory(const braid_md *md, void *data, dnnl_memory_t *out);

/* --- requests ------------------------------------------------------------------------------------------------------
 */
typedef enum braid_dnnl_kind {
  BRAID_DNNL_CONV,
  BRAID_DNNL_CONV_GRAD_INPUT,
  BRAID_DNNL_CONV_GRAD_FILTER,
  BRAID_DNNL_DECONV,
  BRAID_DNNL_MATMUL,
  BRAID_DNNL_REORDER
} braid_dnnl_kind;

typedef struct braid_dnnl_eltwise {
  dnnl_alg_kind_t kind;
  float alpha, beta;
} braid_dnnl_eltwise;

enum { BRAID_DNNL_ELTWISE = 2 };

/* Compared byte by byte: begins as braid_dnnl_request_of makes it. */
typedef struct braid_dnnl_request {
  braid_dnnl_kind kind;
  dnnl_alg_kind_t algorithm; /* convolutions */
  braid_md x, w, b, y;       /* images or the left matrix, weights or the right one, bias (rank 0: none), result */
  dnnl_dims_t strides, dilations, begin, end;
  float scale;  /* products: of the result */
  int training; /* forward passes: a backward one may follow */
  int sum;      /* onto what stands in the destination */
  int eltwise_count;
  braid_dnnl_eltwise eltwise[BRAID_DNNL_ELTWISE];
} braid_dnnl_request;

void braid_dnnl_request_of(braid_dnnl_kind kind, braid_dnnl_request *out);
/* Puts the node's activation into the primitive. */
void braid_dnnl_fuse(const braid_node_desc *node, braid_dnnl_request *request);
/* May a primitive have the node's activation in it? Not where NaN would be lost for good: it must be possible to tell
 * that there was one, and to compute the result again, which a sum in place is not. */
bool braid_dnnl_can_fuse(const braid_node_desc *node, bool sum);

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
/* Constant, and shared: reference counted. */
typedef struct braid_description braid_description;

/* UNSUPPORTED if oneDNN has no fast implementation: only its reference, or none. */
/* For one thread, to be run in a group. */
BRAID_MUST_CHECK braid_status braid_describe_single(const braid_dnnl_request *request, braid_description **out);
/* For all threads, if there is an implementation whose results do not depend on their number. Else *pieces is set, and
 * *out is as from braid_describe_single: the work is to be divided by the caller. The choice does not depend on the
 * number of threads. */
BRAID_MUST_CHECK braid_status braid_describe_whole(const braid_dnnl_request *request, braid_description **out,
                                                   bool *pieces);
BRAID_MUST_CHECK braid_status braid_describe_reorder(const braid_md *from, const braid_md *to, braid_description **out);
braid_description *braid_description_retain(const braid_description *description);
void braid_description_release(braid_description *description); /* NULL is allowed */

/* dnnl_query_weights_md and the like. */
braid_md braid_description_md(const braid_description *description, dnnl_query_t which);
/* Do both take the same memory, by the same implementation? */
bool braid_description_interchangeable(const braid_description *a, const braid_description *b);
/* A convolution that multiplies matrices. Its activations are code of oneDNN's compiler, not of its own, and need not
 * note that they have met NaN: oneDNN 3's Sigmoid makes 0 of it and says nothing. */
bool braid_description_multiplies(const braid_description *convolution);
/* The primitive, for one thread or for those it was described for. */
dnnl_status_t braid_description_make(const braid_description *description, bool single, dnnl_primitive_t *out);

/* What is kept is let go of with the last user. For braid_cpu_library. */
void braid_descriptions_enter(void);
void braid_descriptions_leave(void);
/* For tests: how many descriptions were asked of oneDNN so far. */
uint64_t braid_descriptions_made(void);

/* Pieces of a batch, all of the same size: as many as divide it, up to `most`. */
int64_t braid_dnnl_pieces_of(int64_t batch, int64_t most);

/* The engine of this process; NULL if oneDNN cannot make one. */
dnnl_engine_t braid_dnnl_engine(void);
braid_status braid_dnnl_status(dnnl_status_t status, const char *what);

#endif
