/* What a package computes, as braid/overlay.h has it. */
#include "overlay/sim/package_run.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "overlay/compiler/dynamic.h"
#include "overlay/recurrent/rnn_ports.h"
#include "overlay/sim/package_time.h"

/* --- results -------------------------------------------------------------------------------------------------------
 */
size_t braid_overlay_package_port_count(const braid_overlay_package *package, bool outputs) {
  if (package->rnn) return outputs ? package->rnn->output_count : package->rnn->input_count;
  return outputs ? package->output_count : package->input_count;
}

braid_overlay_port_info braid_overlay_package_get_port(const braid_overlay_package *package, bool outputs,
                                                       size_t index) {
  if (package->rnn) return braid_rnn_get_port(package->rnn, outputs, index);
  const braid_package_port *port = outputs ? &package->outputs[index] : &package->inputs[index];
  const braid_package_map *map = &package->maps[port->map];
  return (braid_overlay_port_info){port->name, map->channels, map->rows, map->columns, map->exponent, port->real, 8};
}

/* The byte of a number of a map, in its segment. */
static int64_t byte_of(const braid_package_map *map, int32_t channel, int64_t place) {
  return (map->line + (int64_t)(channel / 16) * map->rows * map->columns + place) * 16 + channel % 16;
}

static bool has_shape(const braid_desc *desc, const braid_package_map *map) {
  const int64_t wanted[] = {map->channels, map->rows, map->columns};
  int64_t all = wanted[0] * wanted[1] * wanted[2];
  if (braid_desc_count(desc) != all) return false;
  int at = 0;
  bool same = true;
  for (int d = 0; d < desc->rank; d++) {
    if (desc->dims[d] == 1) continue;
    if (desc->dims[d] == all) return true;
    while (at < 3 && wanted[at] == 1) at++;
    same = same && at < 3 && desc->dims[d] == wanted[at];
    at++;
  }
  return same;
}

/* The first byte of each segment. */
static void find_segments(const braid_overlay_image *image, uint8_t *out[BRAID_PACKAGE_SEGMENTS]) {
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) out[s] = image->ddr + image->segments[s].first;
}

braid_status braid_package_put_input(const braid_package *package, size_t index, const braid_tensor *tensor,
                                     const braid_overlay_image *image) {
  uint8_t *segments[BRAID_PACKAGE_SEGMENTS];
  find_segments(image, segments);
  if (package->rnn) return braid_rnn_put_input(package->rnn, index, tensor, segments);
  const braid_package_port *port = &package->inputs[index];
  const braid_package_map *map = &package->maps[port->map];
  uint8_t *segment = image->ddr + image->segments[map->segment].first; /* any, in files of others */
  const braid_desc *desc = braid_tensor_desc(tensor);
  char text[128];
  bool bytes = desc->dtype == BRAID_I8;
  if (desc->layout != BRAID_LAYOUT_PLAIN || (!bytes && !(port->real && desc->dtype == BRAID_F32)) ||
      !has_shape(desc, map))
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %s is %s; expected is %s of %d, %d, %d (channels, rows, columns)",
                      port->name, braid_desc_format(desc, text, sizeof text), port->real ? "float32 or int8" : "int8",
                      map->channels, map->rows, map->columns);
  const void *data = braid_tensor_const_data(tensor);
  int64_t places = (int64_t)map->rows * map->columns;
  for (int32_t c = 0; c < map->channels; c++)
    for (int64_t p = 0; p < places; p++) {
      int64_t at = c * places + p;
      double q = bytes ? ((const int8_t *)data)[at] : rint(ldexp((double)((const float *)data)[at], -map->exponent));
      if (isnan(q))
        return braid_fail(BRAID_INVALID_ARGUMENT, "input %s: number %lld is NaN", port->name, (long long)at);
      segment[byte_of(map, c, p)] = (uint8_t)(int8_t)fmax(port->low, fmin(port->high, q));
    }
  return BRAID_OK;
}

braid_status braid_package_get_output(const braid_package *package, size_t index, const braid_overlay_image *image,
                                      const braid_allocator *allocator, braid_tensor **out) {
  uint8_t *segments[BRAID_PACKAGE_SEGMENTS];
  find_segments(image, segments);
  if (package->rnn) return braid_rnn_get_output(package->rnn, index, segments, allocator, out);
  const braid_package_port *port = &package->outputs[index];
  const braid_package_map *map = &package->maps[port->map];
  const uint8_t *segment = image->ddr + image->segments[map->segment].first;
  braid_desc desc;
  const int64_t dims[] = {1, map->channels, map->rows, map->columns};
  BRAID_TRY(braid_desc_init(&desc, port->real ? BRAID_F32 : BRAID_I8, 4, dims));
  BRAID_TRY(braid_tensor_create(allocator, &desc, out));
  void *data = braid_tensor_data(*out);
  int64_t places = (int64_t)map->rows * map->columns;
  for (int32_t c = 0; c < map->channels; c++)
    for (int64_t p = 0; p < places; p++) {
      int8_t q = (int8_t)segment[byte_of(map, c, p)];
      if (port->real)
        ((float *)data)[c * places + p] = ldexpf(q, map->exponent);
      else
        ((int8_t *)data)[c * places + p] = q;
    }
  return BRAID_OK;
}

braid_status braid_package_make_image(const braid_package *package, const braid_allocator *allocator,
                                      braid_overlay_image *image) {
  *image = (braid_overlay_image){0};
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    bool read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    image->segments[s] = (braid_overlay_segment){image->bytes, (uint64_t)package->bytes[s], read_only};
    image->bytes += (uint64_t)package->bytes[s];
  }
  image->ddr = braid_zalloc_array(allocator, image->bytes + 1, 1);
  if (!image->ddr)
    return braid_fail(BRAID_NO_MEMORY, "no memory for %llu bytes of the card's", (unsigned long long)image->bytes);
  if (package->bytes[BRAID_SEGMENT_CONSTANTS])
    memcpy(image->ddr, package->constants, (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  return BRAID_OK;
}

static braid_status put_inputs(const braid_package *package, braid_tensor *const *inputs,
                               const braid_overlay_image *image) {
  size_t count = braid_overlay_package_port_count(package, false);
  for (size_t i = 0; i < count; i++) BRAID_TRY(braid_package_put_input(package, i, inputs[i], image));
  return BRAID_OK;
}

static braid_status compute(const braid_package *package, const braid_overlay_design *design, int cores,
                            const braid_overlay_run_options *options, braid_overlay_image *image) {
  braid_functional_options how = {0};
  if (options) how = (braid_functional_options){.seed = options->seed, .races = options->races};
  braid_overlay_code code[BRAID_OVERLAY_MOST_CORES];
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  braid_status status = braid_programs_make(package, cores, 0, &programs);
  if (status == BRAID_OK) status = braid_programs_gather(&programs);
  for (int c = 0; status == BRAID_OK && c < cores; c++)
    code[c] = (braid_overlay_code){programs.core[c].code, programs.core[c].bytes};
  if (status == BRAID_OK) status = braid_functional_once(design, cores, code, image, &how, NULL, NULL);
  braid_programs_deinit(&programs);
  return status;
}

braid_status braid_overlay_run(const braid_overlay_package *package, const braid_overlay_design *design, int cores,
                               const braid_overlay_run_options *options, braid_tensor *const *inputs,
                               const braid_allocator *allocator, braid_tensor **outputs) {
  braid_overlay_image image = {0};
  size_t count = braid_overlay_package_port_count(package, true);
  for (size_t o = 0; o < count; o++) outputs[o] = NULL;
  BRAID_TRY(braid_package_fits(package, design, cores));
  braid_status status = braid_package_make_image(package, NULL, &image);
  if (status == BRAID_OK) status = put_inputs(package, inputs, &image);
  if (status == BRAID_OK) status = compute(package, design, cores, options, &image);
  for (size_t o = 0; status == BRAID_OK && o < count; o++)
    status = braid_package_get_output(package, o, &image, allocator, &outputs[o]);
  for (size_t o = 0; status != BRAID_OK && o < count; o++) {
    braid_tensor_release(outputs[o]);
    outputs[o] = NULL;
  }
  braid_free(NULL, image.ddr);
  return status;
}
