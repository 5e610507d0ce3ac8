#include "backend/opencl/options.h"

#include <string.h>

#include "launch/cache.h"
#include "launch/options.h"

static braid_status parse_memory(const braid_launch_option *option, const char *value, void *field) {
  bool separate = *(bool *)field = strcmp(value, "separate") == 0;
  if (separate || strcmp(value, "unified") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected unified or separate", option->key, value);
}

#define OWN(name) offsetof(braid_cl_options, name)
#define PATH_BYTES(name) sizeof((braid_cl_options *)NULL)->name

static const braid_launch_option kOptions[] = {
    {"memory", parse_memory, OWN(separate), 0, 0},
    {"arena", braid_launch_parse_bytes, OWN(arena_bytes), 4096, INT64_MAX},
    {"part", braid_launch_parse_number, OWN(part), 0, 1023},
    {"parts", braid_launch_parse_number, OWN(parts), 1, 1024},
    {"deadline_ms", braid_launch_parse_number, OWN(deadline_ms), 1, 86400000},
    {"cache", braid_launch_parse_path, OWN(cache), 0, PATH_BYTES(cache)},
    {"bitstream", braid_launch_parse_path, OWN(bitstream), 0, PATH_BYTES(bitstream)},
    {"manifest", braid_launch_parse_path, OWN(manifest), 0, PATH_BYTES(manifest)},
};

braid_status braid_cl_parse_options(const char *text, braid_cl_options *out) {
  *out = (braid_cl_options){.part = UINT32_MAX};
  const braid_launch_option_table tables[] = {{kOptions, sizeof kOptions / sizeof *kOptions, out},
                                              {braid_launch_knob_options, braid_launch_knob_option_count, &out->knobs}};
  braid_status status = braid_launch_parse_options(text, tables, 2);
  if (status != BRAID_OK) return status;
  if (out->part != UINT32_MAX && !out->parts)
    return braid_fail(BRAID_INVALID_ARGUMENT, "part=%u of how many? expected parts=N too", out->part);
  if (out->parts && out->part >= out->parts)
    return braid_fail(BRAID_INVALID_ARGUMENT, "parts=%u: expected a part from 0 to %u, as in NAME.0:parts=%u",
                      out->parts, out->parts - 1, out->parts);
  if (!out->parts) out->part = 0;
  return BRAID_OK;
}
