/* Nodes of a graph by the model, without a device. */
#include <stdio.h>
#include <string.h>

#include "backend/manycore/cost.h"
#include "backend/manycore/options.h"
#include "backend/manycore/sw26010.h"
#include "base/try.h"
#include "braid/manycore.h"

enum { kMostEstimated = 256 };

/* The operands of a node; what the graph has no shape for is an error. */
static braid_status estimate_operands(const braid_graph *graph, const braid_value_id *values, size_t count,
                                      const char *node, braid_operand *out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (braid_operand){.present = values[i] >= 0};
    if (values[i] < 0) continue;
    out[i].desc = braid_graph_value(graph, values[i]).desc;
    if (out[i].desc.dtype == BRAID_NONE || out[i].desc.rank < 0 || braid_desc_count(&out[i].desc) < 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s: the graph is not resolved, or a shape is open", node);
  }
  return BRAID_OK;
}

static braid_status estimate_on_cores(const braid_manycore_group *group, const braid_kernel *kernel,
                                      const braid_node_desc *node, braid_manycore_estimate *out) {
  const braid_manycore_kernel *program = kernel->implementation;
  braid_manycore_plan plan;
  braid_manycore_cost cost;
  if (!program->plan(node, group, &plan, out->why, sizeof out->why)) return BRAID_OK;
  BRAID_TRY(braid_manycore_cost_count(NULL, group, kernel, &plan, &cost));
  out->on_cores = true;
  out->why[0] = '\0';
  snprintf(out->kernel, sizeof out->kernel, "%s", kernel->name);
  out->seconds = cost.seconds;
  out->computing = cost.compute_seconds;
  out->get_bytes = (double)cost.get_bytes;
  out->put_bytes = (double)cost.put_bytes;
  out->busy = cost.busy;
  return BRAID_OK;
}

static braid_status estimate(const braid_manycore_group *group, const braid_node_desc *node,
                             braid_manycore_estimate *out) {
  out->operations = braid_manycore_operations(node);
  out->management_vectors = out->seconds = braid_manycore_management_seconds(node, true);
  out->management_scalar = braid_manycore_management_seconds(node, false);
  snprintf(out->why, sizeof out->why, "the compute cores have no kernel for %.60s", node->op);
  const braid_kernel *kernel;
  for (size_t i = 0; !out->on_cores && (kernel = braid_manycore_kernel_at(i)); i++)
    if (strcmp(kernel->op, node->op) == 0) BRAID_TRY(estimate_on_cores(group, kernel, node, out));
  out->joules = braid_manycore_microjoules(out->seconds) / 1e6;
  return BRAID_OK;
}

braid_status braid_manycore_estimate_node(const braid_graph *graph, braid_node_id node, const char *options,
                                          braid_manycore_estimate *out) {
  braid_manycore_group group;
  int threads;
  *out = (braid_manycore_estimate){.on_cores = false};
  BRAID_TRY(braid_manycore_parse_options(options, &group, &threads));
  braid_node_info info = braid_graph_node(graph, node);
  size_t count = info.input_count + info.output_count;
  if (count > kMostEstimated)
    return braid_fail(BRAID_UNSUPPORTED, "node %.120s has %zu operands, more than %d", info.name, count,
                      kMostEstimated);
  braid_operand *operands = braid_zalloc_array(NULL, count, sizeof *operands);
  if (!operands) return BRAID_NO_MEMORY;
  braid_node_desc desc = {.op = info.op,
                          .name = info.name,
                          .attrs = info.attrs,
                          .input_count = info.input_count,
                          .output_count = info.output_count,
                          .inputs = operands,
                          .outputs = operands + info.input_count};
  braid_status status = estimate_operands(graph, info.inputs, info.input_count, info.name, operands);
  if (status == BRAID_OK)
    status = estimate_operands(graph, info.outputs, info.output_count, info.name, operands + info.input_count);
  if (status == BRAID_OK) status = estimate(&group, &desc, out);
  braid_free(NULL, operands);
  return status;
}

size_t braid_manycore_constants(const braid_manycore_constant **out) {
  static const char kReport[] = "Dongarra 2016", kDnn[] = "swDNN (Fang et al. 2017)",
                    kCaffe[] = "swCaffe (Li et al. 2018)";
  static const braid_manycore_constant kConstants[] = {
      {"clock of all cores", "GHz", kReport, BRAID_SW26010_HERTZ / 1e9},
      {"compute cores of a core group", "", kReport, BRAID_SW26010_CORES},
      {"scratchpad of a compute core", "bytes", kReport, BRAID_SW26010_SCRATCHPAD},
      {"multiply-adds per cycle of a compute core", "", kReport, BRAID_SW26010_LANES},
      {"multiply-adds per cycle of the management core, vectors", "", kReport, BRAID_SW26010_MANAGEMENT_MACS},
      {"the same without vectors: one in each of its two pipelines", "", kReport, BRAID_SW26010_MANAGEMENT_SCALAR},
      {"cycles between dependent multiply-adds", "", kDnn, BRAID_SW26010_LATENCY},
      {"bandwidth of gets in runs of 256 bytes, all cores", "GB/s", kDnn, 22.44},
      {"bandwidth of gets in runs of 4,096 bytes, all cores", "GB/s", kDnn, 32.05},
      {"bandwidth of puts in runs of 4,096 bytes, all cores", "GB/s", kDnn, 36.01},
      {"bytes of float32 per cycle through registers to other cores", "", kCaffe, 16},
      {"bandwidth of the management core", "GB/s", kCaffe, BRAID_SW26010_MANAGEMENT_BYTES / 1e9},
      {"power of a node under LINPACK, with its share of all else", "W", kReport, BRAID_SW26010_NODE_WATTS},
  };
  *out = kConstants;
  return sizeof kConstants / sizeof *kConstants;
}
