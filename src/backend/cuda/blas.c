#include "backend/cuda/blas.h"

#include <dlfcn.h>
#include <string.h>

#include "base/detail.h"
#include "base/library.h"
#include "base/try.h"
#include "graph/precision.h"
#include "launch/product.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 * As NVIDIA's "cuBLASLt API" has it. */
typedef int blas_code;
typedef void *blas_handle, *blas_desc, *blas_layout, *blas_preference;

typedef struct blas_algorithm {
  uint64_t data[8];
} blas_algorithm;

typedef struct blas_found { /* cublasLtMatmulHeuristicResult_t */
  blas_algorithm algorithm;
  size_t workspace_bytes;
  blas_code state;
  float waves;
  int reserved[4];
} blas_found;

enum {
  kFloat32 = 0,      /* CUDA_R_32F */
  kFloat16 = 2,      /* CUDA_R_16F */
  kBfloat16 = 14,    /* CUDA_R_16BF */
  kCompute32F = 68,  /* CUBLAS_COMPUTE_32F */
  kComputeTf32 = 77, /* CUBLAS_COMPUTE_32F_FAST_TF32 */
  kTransposeA = 3,   /* CUBLASLT_MATMUL_DESC_ ... */
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kEpilogueBias = 4, /* CUBLASLT_EPILOGUE_BIAS */
  kBatchCount = 5,   /* CUBLASLT_MATRIX_LAYOUT_ ... */
  kBatchStride = 6,
  kMostWorkspace = 1, /* CUBLASLT_MATMUL_PREF_ ... */
  kReductions = 3,
  kOrderedReductions = 2 | 4, /* none that adds in place, in whatever order */
  kWorkspaceBytes = 32 << 20,
};

typedef struct blas_api {
  size_t (*version)(void);
  blas_code (*create)(blas_handle *handle);
  blas_code (*destroy)(blas_handle handle);
  blas_code (*desc_create)(blas_desc *desc, int compute, int scale);
  blas_code (*desc_destroy)(blas_desc desc);
  blas_code (*desc_set)(blas_desc desc, int attribute, const void *value, size_t bytes);
  blas_code (*layout_create)(blas_layout *layout, int type, uint64_t rows, uint64_t columns, int64_t step);
  blas_code (*layout_destroy)(blas_layout layout);
  blas_code (*layout_set)(blas_layout layout, int attribute, const void *value, size_t bytes);
  blas_code (*preference_create)(blas_preference *preference);
  blas_code (*preference_destroy)(blas_preference preference);
  blas_code (*preference_set)(blas_preference preference, int attribute, const void *value, size_t bytes);
  blas_code (*heuristic)(blas_handle handle, blas_desc desc, blas_layout a, blas_layout b, blas_layout c, blas_layout d,
                         blas_preference preference, int room, blas_found *found, int *count);
  blas_code (*matmul)(blas_handle handle, blas_desc desc, const void *alpha, const void *a, blas_layout of_a,
                      const void *b, blas_layout of_b, const void *beta, const void *c, blas_layout of_c, void *d,
                      blas_layout of_d, const blas_algorithm *algorithm, void *workspace, size_t bytes,
                      braid_cuda_stream stream);
} blas_api;

struct braid_cuda_blas {
  blas_api api;
  blas_handle handle;
  void *library;
};

static const char *const kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"};

static bool blas_find_functions(void *library, blas_api *api) {
  const braid_library_function functions[] = {
      {"cublasLtGetVersion", &api->version},
      {"cublasLtCreate", &api->create},
      {"cublasLtDestroy", &api->destroy},
      {"cublasLtMatmulDescCreate", &api->desc_create},
      {"cublasLtMatmulDescDestroy", &api->desc_destroy},
      {"cublasLtMatmulDescSetAttribute", &api->desc_set},
      {"cublasLtMatrixLayoutCreate", &api->layout_create},
      {"cublasLtMatrixLayoutDestroy", &api->layout_destroy},
      {"cublasLtMatrixLayoutSetAttribute", &api->layout_set},
      {"cublasLtMatmulPreferenceCreate", &api->preference_create},
      {"cublasLtMatmulPreferenceDestroy", &api->preference_destroy},
      {"cublasLtMatmulPreferenceSetAttribute", &api->preference_set},
      {"cublasLtMatmulAlgoGetHeuristic", &api->heuristic},
      {"cublasLtMatmul", &api->matmul},
  };
  return !braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
}

void braid_cuda_blas_open(braid_cuda_device *device) {
  braid_cuda_blas *blas = braid_zalloc(NULL, sizeof *blas);
  if (!blas) return;
  for (size_t i = 0; !blas->library && i < sizeof kLibraries / sizeof *kLibraries; i++)
    blas->library = dlopen(kLibraries[i], RTLD_NOW | RTLD_LOCAL);
  if (blas->library && blas_find_functions(blas->library, &blas->api) && !blas->api.create(&blas->handle)) {
    device->blas = blas;
    return;
  }
  braid_free(NULL, blas); /* the library stays: its threads may be about */
}

void braid_cuda_blas_close(braid_cuda_device *device) {
  if (!device->blas) return;
  (void)device->blas->api.destroy(device->blas->handle);
  braid_free(NULL, device->blas);
  device->blas = NULL;
}

size_t braid_cuda_blas_version(const braid_cuda_device *device) {
  return device->blas ? device->blas->api.version() : 0;
}

static braid_status fail_blas(blas_code code, const char *what) {
  braid_status status = code == 15 ? BRAID_UNSUPPORTED : code == 3 ? BRAID_NO_MEMORY : BRAID_INTERNAL;
  return braid_fail(status, "cuBLASLt, %s: code %d", what, code);
}

#define BLAS_TRY(call, what)                                                                                           \
  do {                                                                                                                 \
    blas_code try_code_ = (call);                                                                                      \
    if (try_code_) return fail_blas(try_code_, what);                                                                  \
  } while (0)

/* --- matching ------------------------------------------------------------------------------------------------------
 */
/* The batch as one dimension: its step of a matrix. False: it takes two. */
static bool batch_step(const braid_launch_product *m, const braid_launch_matrix *matrix, int64_t *step) {
  *step = m->batch_inner == 1 ? matrix->batch[0] : matrix->batch[1];
  return m->batch_inner == m->batches || m->batch_inner == 1 || matrix->batch[0] == matrix->batch[1] * m->batch_inner;
}

/* What is added is a number for each column, or a whole matrix. */
static bool is_bias(const braid_launch_product *m) {
  return m->has_added && m->added_row == 0 && m->added_column == 1 && m->beta == 1;
}

static bool match_product(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes) {
  int lead_rank;
  int64_t step;
  if (!device->blas) return braid_launch_refuse(why, why_bytes, "there is no cuBLASLt");
  if (!braid_launch_match_real(node, why, why_bytes)) return false;
  if (braid_attr_has(node->attrs, "activation"))
    return braid_launch_refuse(why, why_bytes, "an activation behind the product");
  braid_launch_product m = braid_launch_read_product(node, &lead_rank);
  if (lead_rank > 2) return braid_launch_refuse(why, why_bytes, "batches broadcast over %d dimensions", lead_rank);
  if (m.rows < 1 || m.columns < 1 || m.inner < 1 || m.batches < 1)
    return braid_launch_refuse(why, why_bytes, "an empty matrix");
  if (m.batches > INT32_MAX) return braid_launch_refuse(why, why_bytes, "more than 2^31 matrices");
  if (!batch_step(&m, &m.left, &step) || !batch_step(&m, &m.right, &step))
    return braid_launch_refuse(why, why_bytes, "batches of two dimensions");
  if ((m.left.line != 1 && m.left.k != 1) || (m.right.line != 1 && m.right.k != 1))
    return braid_launch_refuse(why, why_bytes, "neither lines nor columns lie side by side");
  if (m.has_added && !is_bias(&m) && (m.added_column != 1 || m.added_row < m.columns || m.batches > 1))
    return braid_launch_refuse(why, why_bytes, "what is added is neither a row nor a matrix");
  return true;
}

/* --- preparing -----------------------------------------------------------------------------------------------------
 */
typedef struct blas_state {
  pthread_mutex_t lock; /* of desc, which holds the bias' address */
  blas_desc desc;
  blas_layout left, right, added, out;
  blas_algorithm algorithm;
  size_t workspace_bytes;
  int type; /* of all elements; sums are float32 */
  float alpha, beta;
  bool bias, has_added;
} blas_state;

/* A matrix as cuBLAS sees it, by columns: `rows` of them lie side by side. */
static braid_status make_layout(const blas_api *api, int type, int64_t rows, int64_t columns, int64_t step,
                                int64_t batches, int64_t batch, blas_layout *out) {
  int32_t count = (int32_t)batches;
  if (step < rows) step = rows; /* of one column */
  BLAS_TRY(api->layout_create(out, type, (uint64_t)rows, (uint64_t)columns, step), "a matrix");
  BLAS_TRY(api->layout_set(*out, kBatchCount, &count, sizeof count), "a batch");
  BLAS_TRY(api->layout_set(*out, kBatchStride, &batch, sizeof batch), "a batch");
  return BRAID_OK;
}

/* Our rows are its columns, so it computes the transposed product: out' = right' left'. */
static braid_status make_layouts(const blas_api *api, const braid_launch_product *m, blas_state *state) {
  int64_t left_batch, right_batch;
  (void)batch_step(m, &m->left, &left_batch);
  (void)batch_step(m, &m->right, &right_batch);
  int32_t turn_right = m->right.line != 1, turn_left = m->left.k != 1;
  BLAS_TRY(api->desc_set(state->desc, kTransposeA, &turn_right, sizeof turn_right), "a product");
  BLAS_TRY(api->desc_set(state->desc, kTransposeB, &turn_left, sizeof turn_left), "a product");
  BRAID_TRY(make_layout(api, state->type, turn_right ? m->inner : m->columns, turn_right ? m->columns : m->inner,
                        turn_right ? m->right.line : m->right.k, m->batches, right_batch, &state->right));
  BRAID_TRY(make_layout(api, state->type, turn_left ? m->rows : m->inner, turn_left ? m->inner : m->rows,
                        turn_left ? m->left.k : m->left.line, m->batches, left_batch, &state->left));
  BRAID_TRY(make_layout(api, state->type, m->columns, m->rows, m->out_row, m->batches, m->out_batch, &state->out));
  if (state->has_added && !state->bias)
    return make_layout(api, state->type, m->columns, m->rows, m->added_row, 1, 0, &state->added);
  return BRAID_OK;
}

static braid_status choose_algorithm(const braid_cuda_blas *blas, blas_state *state) {
  const blas_api *api = &blas->api;
  blas_preference preference;
  blas_found found;
  int count = 0;
  uint64_t most = kWorkspaceBytes;
  uint32_t reductions = kOrderedReductions;
  BLAS_TRY(api->preference_create(&preference), "a preference");
  (void)api->preference_set(preference, kMostWorkspace, &most, sizeof most);
  (void)api->preference_set(preference, kReductions, &reductions, sizeof reductions);
  blas_layout added = state->added ? state->added : state->out;
  blas_code code = api->heuristic(blas->handle, state->desc, state->right, state->left, added, state->out, preference,
                                  1, &found, &count);
  (void)api->preference_destroy(preference);
  if (!code && count) code = found.state;
  if (code || !count) return fail_blas(code ? code : 15, "no way to compute the product");
  state->algorithm = found.algorithm;
  state->workspace_bytes = found.workspace_bytes;
  return BRAID_OK;
}

static void blas_discard(const braid_cuda_device *device, void *which) {
  const blas_api *api = &device->blas->api;
  blas_state *state = which;
  blas_layout layouts[] = {state->left, state->right, state->added, state->out};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i]) (void)api->layout_destroy(layouts[i]);
  if (state->desc) (void)api->desc_destroy(state->desc);
  pthread_mutex_destroy(&state->lock);
  braid_free(NULL, state);
}

static int type_of(braid_dtype dtype) {
  return dtype == BRAID_F16 ? kFloat16 : dtype == BRAID_BF16 ? kBfloat16 : kFloat32;
}

static braid_status make_state(const braid_cuda_device *device, const braid_node_desc *node,
                               const braid_launch_product *m, blas_state *state) {
  const blas_api *api = &device->blas->api;
  int32_t epilogue = kEpilogueBias;
  state->type = type_of(node->inputs[0].desc.dtype);
  bool tf32 = state->type == kFloat32 && (device->tf32 || braid_allows_tf32(node->attrs));
  state->alpha = (float)m->alpha;
  state->bias = is_bias(m);
  state->has_added = m->has_added;
  state->beta = m->has_added && !state->bias ? (float)m->beta : 0;
  BLAS_TRY(api->desc_create(&state->desc, tf32 ? kComputeTf32 : kCompute32F, kFloat32), "a product");
  if (state->bias) BLAS_TRY(api->desc_set(state->desc, kEpilogue, &epilogue, sizeof epilogue), "a row to add");
  BRAID_TRY(make_layouts(api, m, state));
  return choose_algorithm(device->blas, state);
}

static braid_status prepare_product(const braid_cuda_device *device, const braid_node_desc *node, void **out,
                                    size_t *workspace_bytes) {
  int lead_rank;
  braid_launch_product m = braid_launch_read_product(node, &lead_rank);
  blas_state *state = braid_zalloc(NULL, sizeof *state);
  if (!state) return BRAID_NO_MEMORY;
  pthread_mutex_init(&state->lock, NULL);
  braid_cuda_enter(device);
  braid_status status = make_state(device, node, &m, state);
  braid_cuda_leave(device);
  *out = status == BRAID_OK ? state : NULL;
  *workspace_bytes = state->workspace_bytes;
  if (status != BRAID_OK) blas_discard(device, state);
  return status;
}

static braid_status blas_prepare(braid_cuda_device *device, const braid_node_desc *node, void **out,
                                 size_t *workspace_bytes) {
  return prepare_product(device, node, out, workspace_bytes);
}

/* Only cuBLASLt knows what it has an algorithm for. */
static bool blas_match(const braid_cuda_device *device, const braid_node_desc *node, char *why, size_t why_bytes) {
  void *state;
  size_t bytes;
  if (!match_product(device, node, why, why_bytes)) return false;
  if (prepare_product(device, node, &state, &bytes) != BRAID_OK) {
    (void)braid_launch_refuse(why, why_bytes, "%s", braid_error_detail());
    braid_clear_detail();
    return false;
  }
  blas_discard(device, state);
  return true;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
static void *pointer_of(braid_cuda_address address) {
  return (void *)(uintptr_t)address;
}

static braid_status blas_enqueue(braid_cuda_device *device, void *which, const braid_cuda_call *call) {
  blas_state *state = which;
  const blas_api *api = &device->blas->api;
  void *bias = pointer_of(call->operands[2]), *to = pointer_of(call->operands[call->input_count]);
  blas_code code = 0;
  pthread_mutex_lock(&state->lock);
  if (state->bias) code = api->desc_set(state->desc, kBiasPointer, &bias, sizeof bias);
  if (!code)
    code = api->matmul(device->blas->handle, state->desc, &state->alpha, pointer_of(call->operands[1]), state->right,
                       pointer_of(call->operands[0]), state->left, &state->beta, state->added ? bias : to,
                       state->added ? state->added : state->out, to, state->out, &state->algorithm,
                       pointer_of(call->workspace), state->workspace_bytes, call->stream);
  pthread_mutex_unlock(&state->lock);
  return code ? fail_blas(code, "a product") : BRAID_OK;
}

const braid_cuda_library_kernel braid_cuda_blas_product = {
    .match = blas_match, .prepare = blas_prepare, .discard = blas_discard, .enqueue = blas_enqueue};
