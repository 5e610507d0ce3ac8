#include "backend/overlay/region.h"

#include <math.h>
#include <string.h>

#include "backend/overlay/view.h"
#include "base/try.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/sim/functional.h"

/* An operand of the node that is a map of the package. */
typedef struct region_port {
  size_t operand;
  braid_package_map map;
  bool real; /* float32, else int8 */
  int32_t low, high;
} region_port;

struct braid_overlay_region {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  int cores;
  int64_t batch;
  braid_overlay_package *package;
  region_port *inputs, *outputs;
  size_t input_count, output_count;
  braid_functional *simulator;
  braid_overlay_image image;
  braid_overlay_cost cost;
};

/* --- making --------------------------------------------------------------------------------------------------------
 */
static braid_status find_operand(const braid_node_desc *node, braid_value_id value, bool output, size_t *operand) {
  const braid_subgraph *graph = node->region;
  const int32_t *values = output ? graph->outputs : graph->inputs;
  size_t count = output ? graph->output_count : graph->input_count;
  for (size_t i = 0; i < count; i++) {
    if (values[i] != value) continue;
    *operand = output ? node->input_count + i : i;
    return BRAID_OK;
  }
  return braid_fail(BRAID_INTERNAL, "the region has no operand for a map that crosses its border");
}

static braid_status make_ports(braid_overlay_region *region, const braid_node_desc *node,
                               const braid_overlay_network *network, bool output) {
  const braid_overlay_port *ports = output ? network->outputs : network->inputs;
  const braid_package_port *packed = output ? region->package->outputs : region->package->inputs;
  size_t count = output ? network->output_count : network->input_count;
  region_port *made = braid_zalloc_array(region->allocator, count + 1, sizeof *made);
  *(output ? &region->outputs : &region->inputs) = made;
  *(output ? &region->output_count : &region->input_count) = count;
  if (!made) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    made[i] = (region_port){
        .map = region->package->maps[packed[i].map], .real = ports[i].real, .low = ports[i].low, .high = ports[i].high};
    BRAID_TRY(find_operand(node, ports[i].value, output, &made[i].operand));
  }
  if (output && count != node->output_count)
    return braid_fail(BRAID_INTERNAL, "the region has %zu outputs, of which %zu are maps", node->output_count, count);
  return BRAID_OK;
}

static braid_status compile_region(braid_overlay_region *region, const braid_node_desc *node) {
  braid_graph *view;
  braid_overlay_network *network = NULL;
  BRAID_TRY(braid_overlay_view_create(region->allocator, node->region, node->inputs, &view));
  braid_status status = braid_overlay_lower(view, NULL, &network);
  if (status == BRAID_OK) status = braid_package_compile(network, region->design, region->allocator, &region->package);
  if (status == BRAID_OK) status = make_ports(region, node, network, false);
  if (status == BRAID_OK) status = make_ports(region, node, network, true);
  if (status == BRAID_OK) region->batch = network->batch;
  braid_overlay_network_destroy(network);
  braid_overlay_view_destroy(view);
  return status;
}

static braid_status make_simulator(braid_overlay_region *region) {
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  braid_programs programs;
  braid_programs_init(&programs, region->allocator);
  braid_status status = braid_programs_make(region->package, region->cores, 0, &programs);
  if (status == BRAID_OK) status = braid_programs_gather(&programs);
  for (int c = 0; status == BRAID_OK && c < region->cores; c++)
    code[c] = (braid_overlay_code){programs.core[c].code, programs.core[c].bytes};
  if (status == BRAID_OK)
    status = braid_functional_create(region->design, region->cores, code, region->allocator, &region->simulator);
  braid_programs_deinit(&programs);
  return status;
}

static braid_status make_image(braid_overlay_region *region) {
  const braid_overlay_package *package = region->package;
  braid_overlay_image *image = &region->image;
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    bool read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    image->segments[s] = (braid_overlay_segment){image->bytes, (uint64_t)package->bytes[s], read_only};
    image->bytes += (uint64_t)package->bytes[s];
  }
  image->ddr = braid_zalloc_array(region->allocator, image->bytes + 1, 1);
  if (!image->ddr) return BRAID_NO_MEMORY;
  memcpy(image->ddr, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  return BRAID_OK;
}

/* The card's power without work counts for the whole time, of a share its part of it. */
static braid_status find_cost(braid_overlay_region *region, int shares) {
  const braid_overlay_design *design = region->design;
  braid_overlay_simulated simulated;
  BRAID_TRY(braid_overlay_simulate(region->package, design, region->cores, &simulated));
  double images = (double)region->batch;
  region->cost.seconds = braid_package_task_seconds(region->package, design, region->batch, simulated.seconds);
  double working = images * (simulated.joules - simulated.energy.idle);
  region->cost.microjoules = 1e6 * (working + design->idle_watts / shares * region->cost.seconds);
  return BRAID_OK;
}

braid_status braid_overlay_region_create(const braid_allocator *allocator, const braid_overlay_share *share,
                                         const braid_node_desc *node, braid_overlay_region **out) {
  braid_overlay_region *region = braid_zalloc(allocator, sizeof *region);
  *out = NULL;
  if (!region) return BRAID_NO_MEMORY;
  *region = (braid_overlay_region){.allocator = allocator, .design = share->design, .cores = share->cores};
  braid_status status = compile_region(region, node);
  if (status == BRAID_OK) status = find_cost(region, share->shares);
  if (status == BRAID_OK) status = make_simulator(region);
  if (status == BRAID_OK) status = make_image(region);
  if (status == BRAID_OK)
    *out = region;
  else
    braid_overlay_region_destroy(region);
  return status;
}

void braid_overlay_region_destroy(braid_overlay_region *region) {
  if (!region) return;
  braid_functional_destroy(region->simulator);
  braid_free(region->allocator, region->image.ddr);
  braid_free(region->allocator, region->inputs);
  braid_free(region->allocator, region->outputs);
  braid_package_destroy(region->package);
  braid_free(region->allocator, region);
}

uint64_t braid_overlay_region_bytes(const braid_overlay_region *region) {
  uint64_t images = (uint64_t)region->batch - 1; /* beyond the first, whose place is in the image */
  const int64_t *bytes = region->package->bytes;
  return region->image.bytes +
         images * ((uint64_t)bytes[BRAID_SEGMENT_INPUTS] + (uint64_t)bytes[BRAID_SEGMENT_OUTPUTS]);
}

braid_overlay_cost braid_overlay_region_cost(const braid_overlay_region *region) {
  return region->cost;
}

/* --- running -------------------------------------------------------------------------------------------------------
 * Maps lie in planes of 16 channels, operands in the order channel, row, column. */
static uint8_t *line_of(const braid_overlay_region *region, const braid_package_map *map, int32_t channel) {
  int64_t plane = channel / BRAID_OVERLAY_PLANE * (int64_t)map->rows * map->columns;
  return region->image.ddr + region->image.segments[map->segment].first + (map->line + plane) * 16 +
         channel % BRAID_OVERLAY_PLANE;
}

/* QuantizeLinear: to the nearest, halves to the even one, within the bounds; NaN is the lowest. */
static uint8_t quantize(float number, double per_unit, const region_port *port) {
  double q = rint(number * per_unit);
  return (uint8_t)(int8_t)(q > port->low ? (q < port->high ? q : port->high) : port->low);
}

static void put_input(const braid_overlay_region *region, const region_port *port, const void *data) {
  int64_t places = (int64_t)port->map.rows * port->map.columns;
  double per_unit = ldexp(1, -port->map.exponent);
  for (int32_t c = 0; c < port->map.channels; c++) {
    uint8_t *to = line_of(region, &port->map, c);
    const uint8_t *bytes = (const uint8_t *)data + c * places;
    const float *numbers = (const float *)data + c * places;
    for (int64_t p = 0; p < places; p++) to[16 * p] = port->real ? quantize(numbers[p], per_unit, port) : bytes[p];
  }
}

static void get_output(const braid_overlay_region *region, const region_port *port, void *data) {
  int64_t places = (int64_t)port->map.rows * port->map.columns;
  float unit = ldexpf(1, port->map.exponent);
  for (int32_t c = 0; c < port->map.channels; c++) {
    const uint8_t *from = line_of(region, &port->map, c);
    for (int64_t p = 0; p < places; p++) {
      int8_t q = (int8_t)from[16 * p];
      if (port->real)
        ((float *)data)[c * places + p] = (float)q * unit;
      else
        ((int8_t *)data)[c * places + p] = q;
    }
  }
}

static size_t image_bytes(const region_port *port) {
  size_t numbers = (size_t)port->map.channels * (size_t)port->map.rows * (size_t)port->map.columns;
  return numbers * (port->real ? sizeof(float) : 1);
}

braid_status braid_overlay_region_run(braid_overlay_region *region, void *const *operands,
                                      const braid_verdict *verdict) {
  for (size_t i = 0; i < region->input_count; i++)
    if (!operands[region->inputs[i].operand])
      return braid_fail(BRAID_INVALID_ARGUMENT, "input %zu of the region is not given", region->inputs[i].operand);
  for (int64_t n = 0; n < region->batch && !braid_verdict_cancelled(verdict); n++) {
    for (size_t i = 0; i < region->input_count; i++) {
      const region_port *port = &region->inputs[i];
      put_input(region, port, (const uint8_t *)operands[port->operand] + (size_t)n * image_bytes(port));
    }
    BRAID_TRY(braid_functional_run(region->simulator, &region->image, NULL, NULL));
    for (size_t i = 0; i < region->output_count; i++) {
      const region_port *port = &region->outputs[i];
      uint8_t *to = operands[port->operand];
      if (to) get_output(region, port, to + (size_t)n * image_bytes(port));
    }
  }
  return BRAID_OK;
}
