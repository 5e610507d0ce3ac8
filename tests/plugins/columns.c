/* The example's device, whose products want a constant right matrix with its columns in blocks of four, and the other
 * operands plain. It has no kernel that converts. */
#include <braid/plugin.h>
#undef BRAID_PLUGIN
#define BRAID_PLUGIN(backend)
#include "../../examples/plugin.c"

enum { BLOCK = 4 };

static void run_blocked(const braid_node_desc *node, const float *const *inputs, float *output) {
  int64_t rows = node->outputs[0].desc.dims[0], columns = node->outputs[0].desc.dims[1];
  int64_t inner = node->inputs[0].desc.dims[1], blocks = (columns + BLOCK - 1) / BLOCK;
  memset(output, 0, (size_t)(rows * columns) * sizeof *output);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < inner; k++)
      for (int64_t c = 0; c < columns; c++)
        output[r * columns + c] += inputs[0][r * inner + k] * inputs[1][(k * blocks + c / BLOCK) * BLOCK + c % BLOCK];
}

static void columns_layouts(void *device, const braid_kernel *kernel, const braid_node_desc *node, braid_layout *inputs,
                            braid_layout *outputs) {
  (void)device, (void)kernel;
  for (size_t i = 0; i < node->input_count; i++) inputs[i] = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < node->output_count; i++) outputs[i] = BRAID_LAYOUT_PLAIN;
  braid_layout blocks;
  bool product = strcmp(node->op, "MatMul") == 0 && node->inputs[1].constant;
  if (product && braid_layout_parse("aB4b", &blocks) == BRAID_OK) inputs[1] = blocks;
}

static braid_status columns_prepare(void *device, const braid_kernel *kernel, const braid_node_desc *node, void **out,
                                    braid_prepared_info *info) {
  braid_status status = prepare(device, kernel, node, out, info);
  bool blocked = strcmp(node->op, "MatMul") == 0 && node->inputs[1].desc.layout != BRAID_LAYOUT_PLAIN;
  if (status == BRAID_OK && blocked) ((prepared *)*out)->run = run_blocked;
  return status;
}

static void describe_columns(braid_device_info *info) {
  snprintf(info->name, sizeof info->name, "columns");
}

static void columns_info(void *device, braid_device_info *info) {
  device_info(device, info);
  describe_columns(info);
}

static braid_status columns_enumerate(braid_device_info *infos, size_t capacity, size_t *count) {
  braid_status status = enumerate(infos, capacity, count);
  if (capacity) describe_columns(&infos[0]);
  return status;
}

BRAID_API const braid_backend *braid_plugin(uint32_t abi);
const braid_backend *braid_plugin(uint32_t abi) {
  static braid_backend table;
  (void)abi;
  table = BACKEND;
  table.name = "columns";
  table.enumerate = columns_enumerate;
  table.info = columns_info;
  table.prepare = columns_prepare;
  table.layouts = columns_layouts;
  return &table;
}
