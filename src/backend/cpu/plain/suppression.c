/* NonMaxSuppression. */
#include "graph/suppression.h"

#include "backend/cpu/cpu.h"
#include "base/checked.h"

static double number_or(const braid_node_desc *node, const braid_cpu_args *args, size_t index, double otherwise) {
  bool given = index < node->input_count && node->inputs[index].present && braid_desc_count(&node->inputs[index].desc);
  if (!given) return otherwise;
  return index == 2 ? (double)*(const int64_t *)args->inputs[index] : (double)*(const float *)args->inputs[index];
}

static braid_status run_suppression(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_desc *boxes = &node->inputs[0].desc, *scores = &node->inputs[1].desc;
  double most = number_or(node, args, 2, 0);
  braid_suppression s = {.boxes = args->inputs[0],
                         .scores = args->inputs[1],
                         .batch = boxes->dims[0],
                         .classes = scores->dims[1],
                         .count = boxes->dims[1],
                         .most = most < 0        ? 0
                                 : most > 0x1p40 ? INT64_C(1) << 40
                                                 : (int64_t)most,
                         .overlap = (float)number_or(node, args, 3, 0),
                         .scored = node->input_count > 4 && node->inputs[4].present,
                         .least = (float)number_or(node, args, 4, 0),
                         .centered = braid_attr_int(node->attrs, "center_point_box", 0) != 0};
  (void)state;
  (void)braid_suppress(&s, args->workspace, args->outputs[0]);
  return BRAID_OK;
}

static braid_status create_suppression(const braid_allocator *allocator, const braid_node_desc *node, void **state,
                                       braid_prepared_info *info) {
  (void)allocator;
  *state = NULL;
  if (!braid_mul_size((size_t)node->inputs[0].desc.dims[1] + 1, sizeof(int64_t), &info->workspace_bytes))
    return braid_fail(BRAID_OUT_OF_RANGE, "its workspace overflows");
  return BRAID_OK;
}

static const braid_cpu_kernel kSuppression = {.create = create_suppression, .run = run_suppression};

static const braid_kernel kKernels[] = {
    {.op = "NonMaxSuppression", .name = "ref_non_max_suppression", .implementation = &kSuppression},
};

extern const braid_cpu_table braid_cpu_plain_suppression;
const braid_cpu_table braid_cpu_plain_suppression = {kKernels, sizeof kKernels / sizeof *kKernels, NULL};
