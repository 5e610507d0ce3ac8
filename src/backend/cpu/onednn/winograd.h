/* Filters for oneDNN's Winograd convolutions: G g G^T in the order its kernels want. oneDNN's own conversion is a
 * scalar loop, some sixty times slower; on VGG16 that is most of what making a session costs.
 *
 * Source: Lavin & Gray 2016, section 4.1 (F(2x2, 3x3)); F(4x4, 3x3) with oneDNN's interpolation points. */
#ifndef BRAID_BACKEND_CPU_ONEDNN_WINOGRAD_H
#define BRAID_BACKEND_CPU_ONEDNN_WINOGRAD_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

/* Packs float32 filters [filters, channels, 3, 3] as `to` describes. False, and nothing is done, for descriptions that
 * are not known here. */
bool braid_winograd_pack(const dnnl_memory_desc_t *to, int64_t filters, int64_t channels, const float *from,
                         float *out);

#endif
