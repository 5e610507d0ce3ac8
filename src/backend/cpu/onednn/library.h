/* oneDNN as it is found when the program runs: loaded, never linked. Its library takes as long to load as small
 * commands take altogether, so that waits until a CPU device is opened; without it the CPU runs its own kernels. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_LIBRARY_H
#define BRAID_BACKEND_CPU_ONEDNN_LIBRARY_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "backend/cpu/cpu.h"

/* The functions that we use: of version 2 or 3, whichever the header is of. differences.h has what is not the same. */
#if DNNL_VERSION_MAJOR == 2
#define BRAID_DNNL_VERSION_FUNCTIONS(X)                                                                                \
  X(memory_desc_init_by_tag)                                                                                           \
  X(memory_desc_init_by_strides)                                                                                       \
  X(primitive_attr_set_output_scales)                                                                                  \
  X(primitive_desc_iterator_create)                                                                                    \
  X(primitive_desc_iterator_fetch)                                                                                     \
  X(primitive_desc_iterator_next)                                                                                      \
  X(primitive_desc_iterator_destroy)                                                                                   \
  X(dilated_convolution_forward_desc_init)                                                                             \
  X(dilated_convolution_backward_data_desc_init)                                                                       \
  X(dilated_convolution_backward_weights_desc_init)                                                                    \
  X(dilated_deconvolution_forward_desc_init)                                                                           \
  X(matmul_desc_init)
typedef const dnnl_memory_desc_t *braid_md_ref;
#else
#define BRAID_DNNL_VERSION_FUNCTIONS(X)                                                                                \
  X(memory_desc_create_with_tag)                                                                                       \
  X(memory_desc_create_with_strides)                                                                                   \
  X(memory_desc_destroy)                                                                                               \
  X(memory_desc_query)                                                                                                 \
  X(primitive_desc_next_impl)                                                                                          \
  X(convolution_forward_primitive_desc_create)                                                                         \
  X(convolution_backward_data_primitive_desc_create)                                                                   \
  X(convolution_backward_weights_primitive_desc_create)                                                                \
  X(deconvolution_forward_primitive_desc_create)                                                                       \
  X(matmul_primitive_desc_create)
typedef const_dnnl_memory_desc_t braid_md_ref;
#endif

#define BRAID_DNNL_FUNCTIONS(X)                                                                                        \
  BRAID_DNNL_VERSION_FUNCTIONS(X)                                                                                      \
  X(engine_create)                                                                                                     \
  X(stream_create)                                                                                                     \
  X(stream_wait)                                                                                                       \
  X(stream_destroy)                                                                                                    \
  X(memory_create)                                                                                                     \
  X(memory_destroy)                                                                                                    \
  X(memory_set_data_handle)                                                                                            \
  X(memory_desc_get_size)                                                                                              \
  X(memory_desc_equal)                                                                                                 \
  X(primitive_attr_create)                                                                                             \
  X(primitive_attr_destroy)                                                                                            \
  X(primitive_attr_set_scratchpad_mode)                                                                                \
  X(primitive_attr_set_post_ops)                                                                                       \
  X(post_ops_create)                                                                                                   \
  X(post_ops_destroy)                                                                                                  \
  X(post_ops_append_sum)                                                                                               \
  X(post_ops_append_eltwise)                                                                                           \
  X(primitive_desc_destroy)                                                                                            \
  X(primitive_desc_query)                                                                                              \
  X(primitive_desc_query_md)                                                                                           \
  X(reorder_primitive_desc_create)                                                                                     \
  X(primitive_create)                                                                                                  \
  X(primitive_destroy)                                                                                                 \
  X(primitive_execute)                                                                                                 \
  X(set_jit_profiling_flags)                                                                                           \
  X(version)

typedef struct braid_dnnl_api {
#define BRAID_DNNL_MEMBER(name) __typeof__(&dnnl_##name) name;
  BRAID_DNNL_FUNCTIONS(BRAID_DNNL_MEMBER)
#undef BRAID_DNNL_MEMBER
} braid_dnnl_api;

/* Loads the library at the first call; false: it is not there, or not the one we were built for. */
bool braid_dnnl_load(void);
/* The same, for the tables of kernels. */
extern const braid_cpu_library braid_dnnl_library;

/* DNNL(memory_create)(...) is dnnl_memory_create(...); only after braid_dnnl_load. */
extern braid_dnnl_api braid_dnnl_functions;
#define DNNL(name) (braid_dnnl_functions.name)

#endif
