#include "backend/cuda/options.h"

#include <string.h>

#include "launch/options.h"

static braid_status parse_on(const braid_launch_option *option, const char *value, void *field) {
  bool on = *(bool *)field = strcmp(value, "on") == 0;
  if (on || strcmp(value, "off") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected on or off", option->key, value);
}

static braid_status parse_libraries(const braid_launch_option *option, const char *value, void *field) {
  braid_cuda_options *out = field;
  out->no_libraries = strcmp(value, "off") == 0;
  out->all_libraries = strcmp(value, "all") == 0;
  if (out->no_libraries || out->all_libraries || strcmp(value, "on") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected on, off or all", option->key, value);
}

static braid_status parse_tensor(const braid_launch_option *option, const char *value, void *field) {
  braid_cuda_options *out = field;
  out->no_tensor = strcmp(value, "off") == 0;
  out->warps_only = strcmp(value, "mma") == 0;
  if (out->no_tensor || out->warps_only || strcmp(value, "on") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected on, off or mma", option->key, value);
}

/* For options that are written for any card. */
static braid_status parse_memory(const braid_launch_option *option, const char *value, void *field) {
  (void)field;
  if (strcmp(value, "separate") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: a card's memory is separate", option->key, value);
}

#define OWN(name) offsetof(braid_cuda_options, name)

static const braid_launch_option kOptions[] = {
    {"memory", parse_memory, 0, 0, 0},
    {"arena", braid_launch_parse_bytes, OWN(arena_bytes), 4096, INT64_MAX},
    {"deadline_ms", braid_launch_parse_number, OWN(deadline_ms), 1, 86400000},
    {"tf32", parse_on, OWN(tf32), 0, 0},
    {"libraries", parse_libraries, 0, 0, 0},
    {"tensor", parse_tensor, 0, 0, 0},
    {"cache", braid_launch_parse_path, OWN(cache), 0, sizeof((braid_cuda_options *)NULL)->cache},
};

braid_status braid_cuda_parse_options(const char *text, braid_cuda_options *out) {
  *out = (braid_cuda_options){0};
  const braid_launch_option_table tables[] = {{kOptions, sizeof kOptions / sizeof *kOptions, out},
                                              {braid_launch_knob_options, braid_launch_knob_option_count, &out->knobs}};
  braid_status status = braid_launch_parse_options(text, tables, 2);
  if (status != BRAID_OK) return status;
  if (out->knobs.as_cpu || out->knobs.as_fpga)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option as=: CUDA's devices are GPUs, other kernels are for OpenCL's");
  return BRAID_OK;
}
