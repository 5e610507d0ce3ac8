/* Convolutions by 3 x 3 taps of stride 1 with constant filters, by Winograd's F(4x4, 3x3): 36 products of matrices
 * (tiles x channels by channels x filters) instead of sums over 9 taps for each of 16 results, so a quarter of the
 * multiplications. Relative errors are near 1e-6 of the largest result, where sums over taps have 2e-7. Tiles mix their
 * places: an infinity or NaN in one reaches all 16 results.
 *
 * Images lie with channels last, or in blocks of 16. Tiles are numbered through the batch and gone through in chunks
 * whose points fit the last-level cache; then each thread takes some tiles and some panels of filters at a time, whose
 * products stay in its own cache until they have become results. The order of all sums follows from shapes alone. */
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/products/gemm_isa.h"
#include "backend/cpu/spans/activation.h"
#include "backend/cpu/winograd/filters_isa.h"
#include "backend/cpu/winograd/tiles_isa.h"
#include "base/checked.h"
#include "base/fnv.h"
#include "graph/geometry.h"
#include "tensor/layout.h"

enum {
  kPoints = BRAID_WINOGRAD_POINTS,
  kSide = BRAID_WINOGRAD_SIDE,
  kResult = BRAID_WINOGRAD_RESULT,
  kGroup = BRAID_WINOGRAD_GROUP,
  kPanel = BRAID_GEMM_PANEL_BYTES / sizeof(float),
  kUnitTiles = 24, /* of a thread at a time */
  kUnitPanels = 4,
  kChunk = 256, /* channels that are gone through with a tile of products in registers */
  /* Of an image: with fewer, reading filters four times as large takes longer than the rest. It is the same for every
   * batch, so that plans of several batches share their filters. */
  kLeastResults = 64,
  kShortBits = 8
};
static const size_t kMostPointBytes = (size_t)4 << 20; /* of a chunk of tiles */
static const size_t kWayBytes = 4096; /* of the first-level cache: rows so far apart push each other out */
static const float kFilterPoints[kSide][BRAID_WINOGRAD_TAPS] = {
    {1.13777777777778f, 0, 0},
    {-0.688403361344538f, -0.430252100840336f, -0.26890756302521f},
    {-0.688403361344538f, 0.430252100840336f, -0.26890756302521f},
    {0.119514472455649f, 0.179271708683473f, 0.26890756302521f},
    {0.119514472455649f, -0.179271708683473f, 0.26890756302521f},
    {0, 0, 1}};

typedef struct image {
  int64_t sample, row, pixel, block; /* steps in floats; block: of 16 channels */
} image;

typedef struct winograd {
  braid_convolution conv;
  image x, y;
  int64_t across, tiles, chunk_tiles; /* tiles in a row of a sample, in the batch, of which points are kept */
  int64_t panels, row;                /* row: floats from tile to tile of one point */
  int64_t padding;                    /* channels of the last block of results that are no filters */
  braid_activation activation;
  bool relu;                          /* the activation is that, done on the way */
  size_t products_at, products_bytes; /* in the workspace; of each thread */
} winograd;

/* --- preparation ---------------------------------------------------------------------------------------------------
 */
static bool is_float(const braid_operand *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (list[i].present && list[i].desc.dtype != BRAID_F32) return false;
  return true;
}

static const char *reason_against(const braid_node_desc *node, braid_convolution *conv) {
  braid_activation activation;
  if (!is_float(node->inputs, node->input_count) || !is_float(node->outputs, 1)) return "float32 only";
  if (node->inputs[0].desc.rank != 4) return "two spatial dimensions only";
  if (!node->inputs[1].constant) return "constant filters only";
  if (braid_geometry_conv(node->attrs, &node->inputs[0].desc, &node->inputs[1].desc, conv) != BRAID_OK)
    return "its geometry";
  const braid_window *w = &conv->window;
  for (int i = 1; i < BRAID_WINDOW_RANK; i++)
    if (w->kernel[i] != BRAID_WINOGRAD_TAPS || w->stride[i] != 1 || w->dilation[i] != 1)
      return "3 x 3 taps without strides or dilations only";
  if (conv->groups != 1) return "one group only";
  if (conv->inputs % kGroup != 0 || conv->outputs % kGroup != 0) return "multiples of 8 channels and filters only";
  if (braid_window_outputs(w) < kLeastResults) return "fewer than 64 results of a filter in an image";
  if (!braid_activation_read(node, &activation)) return "its activation";
  return NULL;
}

/* Are all filters bytes times one power of two, as in networks that were quantized so? Sums over taps of such, and of
 * images that are so too, are exact in float32, those of points are not. Others are told at the first number or two. */
static bool are_short(const float *filters, int64_t count) {
  int high = INT_MIN, low = INT_MAX;
  for (int64_t i = 0; i < count && (high == INT_MIN || high - low <= kShortBits); i++) {
    int exponent;
    uint32_t digits = (uint32_t)fabsf(frexpf(filters[i], &exponent) * 0x1p24f);
    if (!digits || !isfinite(filters[i])) continue;
    int least = exponent - 24 + __builtin_ctz(digits);
    high = exponent > high ? exponent : high;
    low = least < low ? least : low;
  }
  return high != INT_MIN && high - low <= kShortBits;
}

static bool conv_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_convolution conv;
  const char *reason = reason_against(node, &conv);
  if (!reason && are_short(node->inputs[1].constant, braid_desc_count(&node->inputs[1].desc)))
    reason = "filters of 8 bits, whose sums over taps are exact";
  if (reason) snprintf(why, why_bytes, "%s", reason);
  return !reason;
}

/* As the images come, if that is one of the two; else channels last, as oneDNN's convolutions for such processors. */
static void conv_layouts(const braid_node_desc *node, braid_layout *inputs, braid_layout *outputs) {
  braid_layout layout = inputs[0] == BRAID_LAYOUT_BLOCKED16 ? BRAID_LAYOUT_BLOCKED16 : BRAID_LAYOUT_BHWC;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = i == 0 || i == 3 ? layout : BRAID_LAYOUT_PLAIN;
  outputs[0] = layout;
}

static image image_of(const braid_desc *desc) {
  braid_strides steps = {0};
  (void)braid_layout_strides(desc->layout, desc->dims[0], desc->dims[1], desc->dims[2] * desc->dims[3], &steps);
  return (image){steps.b, steps.s * desc->dims[3], steps.s, steps.block};
}

static bool plan_workspace(winograd *c, size_t *bytes) {
  size_t row = (size_t)c->conv.inputs * sizeof(float), tile, points;
  if (row % kWayBytes == 0) row += BRAID_GEMM_PANEL_BYTES;
  c->row = (int64_t)(row / sizeof(float));
  if (!braid_mul_size(row, kPoints, &tile)) return false;
  c->chunk_tiles = (int64_t)(kMostPointBytes / tile) / kUnitTiles * kUnitTiles;
  if (c->chunk_tiles < kUnitTiles) c->chunk_tiles = kUnitTiles;
  if (c->chunk_tiles > c->tiles) c->chunk_tiles = c->tiles;
  c->products_bytes = (size_t)kPoints * kUnitTiles * kUnitPanels * BRAID_GEMM_PANEL_BYTES;
  if (!braid_mul_size(tile, (size_t)c->chunk_tiles, &points) || !braid_add_size(points, 63, &points)) return false;
  c->products_at = points & ~(size_t)63;
  return braid_mul_size(c->products_bytes, (size_t)omp_get_max_threads(), bytes) &&
         braid_add_size(*bytes, c->products_at, bytes);
}

static braid_status conv_create(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                braid_prepared_info *info) {
  winograd *c = *state = braid_zalloc(allocator, sizeof *c);
  if (!c) return BRAID_NO_MEMORY;
  const char *reason = reason_against(node, &c->conv);
  const int64_t *out = c->conv.window.output;
  (void)braid_activation_read(node, &c->activation);
  c->relu = c->activation.entry && strcmp(braid_attr_string(node->attrs, "activation", ""), "Relu") == 0;
  c->x = image_of(&node->inputs[0].desc);
  c->y = image_of(&node->outputs[0].desc);
  c->across = (out[2] + kResult - 1) / kResult;
  c->tiles = c->conv.batch * ((out[1] + kResult - 1) / kResult) * c->across;
  c->panels = (c->conv.outputs + kPanel - 1) / kPanel;
  if (node->outputs[0].desc.layout == BRAID_LAYOUT_BLOCKED16) c->padding = c->panels * kPanel - c->conv.outputs;
  if (!reason && plan_workspace(c, &info->workspace_bytes)) return BRAID_OK;
  braid_free(allocator, c);
  *state = NULL;
  return braid_fail(reason ? BRAID_INTERNAL : BRAID_OUT_OF_RANGE, "%s", reason ? reason : "its workspace overflows");
}

/* --- filters -------------------------------------------------------------------------------------------------------
 * [filters / 16][points][channels][16]
 */
static void conv_list_packings(const void *state, braid_query *query) {
  const winograd *c = state;
  const int64_t shape[] = {kPoints, c->conv.inputs, c->conv.outputs};
  size_t bytes = (size_t)(c->panels * kPoints * c->conv.inputs) * BRAID_GEMM_PANEL_BYTES;
  query->packings[query->packing_count++] =
      (braid_packing){1, bytes, braid_fnv_mix(BRAID_FNV_START, shape, sizeof shape)};
}

static braid_status conv_pack(const braid_node_desc *node, void *state, uint32_t input, const void *plain,
                              void *packed) {
  const winograd *c = state;
  (void)node, (void)input;
  int64_t channels = c->conv.inputs, taps = BRAID_WINOGRAD_TAPS * BRAID_WINOGRAD_TAPS;
#pragma omp parallel for schedule(static)
  for (int64_t panel = 0; panel < c->panels; panel++) {
    int64_t first = panel * kPanel, left = c->conv.outputs - first;
    const float *from = (const float *)plain + first * channels * taps;
    float *out = (float *)packed + panel * kPoints * channels * kPanel;
    for (int64_t channel = 0; channel < channels; channel++)
      BRAID_ISA_CALL(braid_winograd_transform, from + channel * taps, channels * taps, left < kPanel ? left : kPanel,
                     kFilterPoints, kSide, out + channel * kPanel, channels * kPanel);
  }
  return BRAID_OK;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
/* Where a tile's first result stands. */
typedef struct place {
  int64_t sample, row, column;
} place;

static place place_of(const winograd *c, int64_t tile) {
  int64_t down = (c->conv.window.output[1] + kResult - 1) / kResult;
  return (place){tile / c->across / down, tile / c->across % down * kResult, tile % c->across * kResult};
}

static void take_tile(const winograd *c, const float *x, int64_t tile, float *points, int64_t step) {
  const braid_window *w = &c->conv.window;
  place at = place_of(c, tile);
  braid_winograd_source from = {.channels = c->conv.inputs, .block_step = c->x.block};
  for (int i = 0; i < kPoints; i++) {
    int64_t row = at.row - w->begin[1] + i / kSide, column = at.column - w->begin[2] + i % kSide;
    bool inside = row >= 0 && row < w->input[1] && column >= 0 && column < w->input[2];
    from.at[i] = inside ? x + at.sample * c->x.sample + row * c->x.row + column * c->x.pixel : NULL;
  }
  BRAID_ISA_CALL(braid_winograd_source_tile, &from, points, step);
}

/* One point of `tiles` tiles and `panels` panels of filters. */
static void multiply(const winograd *c, const float *points, const float *filters, int64_t tiles, int64_t panels,
                     float *products) {
  const braid_gemm_shape *shapes = BRAID_ISA(braid_gemm_tiles)[0].shapes;
  int64_t channels = c->conv.inputs;
  for (int64_t first = 0; first < channels; first += kChunk) {
    braid_gemm_tile t = {.row_step = c->row,
                         .column_step = 1,
                         .count = channels - first < kChunk ? channels - first : kChunk,
                         .step = (int64_t)kUnitPanels * BRAID_GEMM_PANEL_BYTES,
                         .accumulate = first > 0};
    for (int64_t panel = 0; panel < panels; panel++) {
      const braid_gemm_shape *shape = shapes;
      t.right = filters + (panel * kPoints * channels + first) * kPanel;
      for (int64_t tile = 0; tile < tiles; tile += shape->rows) {
        while (shape->rows > tiles - tile) shape++;
        t.left = points + tile * c->row + first;
        t.result = products + (tile * kUnitPanels + panel) * kPanel;
        shape->narrow(&t);
      }
    }
  }
}

static const float *input_of(const braid_node_desc *node, const braid_cpu_args *args, size_t index) {
  return index < node->input_count ? args->inputs[index] : NULL;
}

static void give_tile(const braid_node_desc *node, const winograd *c, const braid_cpu_args *args, int64_t tile,
                      int64_t panel, int64_t panels, const float *products) {
  const int64_t *out = c->conv.window.output;
  const float *bias = input_of(node, args, 2), *residual = input_of(node, args, 3);
  bool others = c->activation.entry && !c->relu;
  place at = place_of(c, tile);
  int64_t first = at.sample * c->y.sample + at.row * c->y.row + at.column * c->y.pixel;
  int64_t rows = out[1] - at.row, columns = out[2] - at.column;
  braid_winograd_target to = {.row_step = c->y.row,
                              .pixel_step = c->y.pixel,
                              .rows = rows < kResult ? (int)rows : kResult,
                              .columns = columns < kResult ? (int)columns : kResult,
                              .relu = c->relu};
  for (int64_t p = panel; p < panel + panels; p++, products += kPanel) {
    int64_t offset = first + p * c->y.block, left = c->conv.outputs - p * kPanel;
    to.filters = left < kPanel ? (int)left : kPanel;
    to.y = (float *)args->outputs[0] + offset;
    to.bias = bias ? bias + p * kPanel : NULL;
    to.residual = residual ? residual + offset : NULL;
    BRAID_ISA_CALL(braid_winograd_target_tile, products, (int64_t)kUnitTiles * kUnitPanels * kPanel, &to);
    for (int i = 0; i < to.rows * to.columns && (others || to.filters < kPanel); i++) {
      float *y = to.y + i / to.columns * to.row_step + i % to.columns * to.pixel_step;
      if (others) braid_activation_run(&c->activation, y, to.filters);
      if (to.filters < kPanel) memset(y + to.filters, 0, (size_t)c->padding * sizeof *y);
    }
  }
}

/* Panels of filters from `panel` on, of the tiles from `tile` on: all points, then the results. */
static void run_unit(const braid_node_desc *node, const winograd *c, const braid_cpu_args *args, const float *points,
                     int64_t base, int64_t tile, int64_t tiles, int64_t panel, float *products) {
  int64_t panels = c->panels - panel < kUnitPanels ? c->panels - panel : kUnitPanels;
  const float *filters = (const float *)args->inputs[1] + panel * kPoints * c->conv.inputs * kPanel;
  for (int64_t p = 0; p < kPoints; p++)
    multiply(c, points + (p * c->chunk_tiles + tile) * c->row, filters + p * c->conv.inputs * kPanel, tiles, panels,
             products + p * kUnitTiles * kUnitPanels * kPanel);
  for (int64_t i = 0; i < tiles; i++)
    give_tile(node, c, args, base + tile + i, panel, panels, products + i * kUnitPanels * kPanel);
}

static braid_status conv_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const winograd *c = state;
  float *points = args->workspace;
  int64_t step = c->chunk_tiles * c->row, groups = (c->panels + kUnitPanels - 1) / kUnitPanels;
  for (int64_t base = 0; base < c->tiles; base += c->chunk_tiles) {
    int64_t tiles = c->tiles - base < c->chunk_tiles ? c->tiles - base : c->chunk_tiles;
#pragma omp parallel for schedule(static)
    for (int64_t tile = 0; tile < tiles; tile++)
      take_tile(c, args->inputs[0], base + tile, points + tile * c->row, step);
    int64_t units = (tiles + kUnitTiles - 1) / kUnitTiles;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t group = 0; group < groups; group++)
      for (int64_t unit = 0; unit < units; unit++) {
        int64_t left = tiles - unit * kUnitTiles;
        char *own = (char *)args->workspace + c->products_at + (size_t)omp_get_thread_num() * c->products_bytes;
        run_unit(node, c, args, points, base, unit * kUnitTiles, left < kUnitTiles ? left : kUnitTiles,
                 group * kUnitPanels, (float *)own);
      }
  }
  return BRAID_OK;
}

static const braid_cpu_kernel kConv = {
    .create = conv_create, .run = conv_run, .list_packings = conv_list_packings, .pack = conv_pack};

static const braid_kernel kKernels[] = {
    {.op = "Conv", .name = "winograd_conv", .match = conv_match, .layouts = conv_layouts, .implementation = &kConv},
    {.op = "FusedConv",
     .name = "winograd_conv",
     .match = conv_match,
     .layouts = conv_layouts,
     .in_place = 1u << 3, /* the residual */
     .implementation = &kConv},
};

/* With AVX-512 oneDNN has this algorithm, and faster. */
static bool is_needed(void) {
  return braid_isa_current() < BRAID_ISA_V4;
}

static const braid_cpu_library kNeed = {.load = is_needed};

const braid_cpu_table braid_cpu_winograd_conv = {kKernels, sizeof kKernels / sizeof *kKernels, &kNeed};
