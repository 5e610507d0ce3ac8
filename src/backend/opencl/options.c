#include "backend/opencl/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "launch/cache.h"

typedef struct number_option {
  const char *key;
  size_t field; /* a uint32_t */
  int64_t least, most;
} number_option;

static const number_option kNumbers[] = {
    {"part", offsetof(braid_cl_options, part), 0, 1023},
    {"parts", offsetof(braid_cl_options, parts), 1, 1024},
    {"deadline_ms", offsetof(braid_cl_options, deadline_ms), 1, 86400000},
    {"cu", offsetof(braid_cl_options, units), 1, 1024},
    {"simd", offsetof(braid_cl_options, simd), 1, 64},
    {"group", offsetof(braid_cl_options, group), 1, 65536},
    {"unroll", offsetof(braid_cl_options, unroll), 1, 4096},
    {"slices", offsetof(braid_cl_options, slices), 1, 64},
};

static braid_status parse_number(const number_option *option, const char *value, braid_cl_options *out) {
  int64_t number;
  if (!braid_parse_i64(value, &number) || number < option->least || number > option->most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected a number from %" PRId64 " to %" PRId64,
                      option->key, value, option->least, option->most);
  memcpy((char *)out + option->field, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
  return BRAID_OK;
}

static braid_status parse_arena(const char *value, braid_cl_options *out) {
  int64_t bytes;
  if (!braid_parse_i64(value, &bytes) || bytes < 4096)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option arena=%.60s: expected bytes, at least 4096", value);
  out->arena_bytes = (uint64_t)bytes;
  return BRAID_OK;
}

static braid_status parse_memory(const char *value, braid_cl_options *out) {
  out->separate = strcmp(value, "separate") == 0;
  if (out->separate || strcmp(value, "unified") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option memory=%.60s: expected unified or separate", value);
}

static braid_status parse_kind(const char *value, braid_cl_options *out) {
  out->as_cpu = strcmp(value, "cpu") == 0;
  out->as_gpu = strcmp(value, "gpu") == 0;
  out->as_fpga = strcmp(value, "fpga") == 0;
  if (out->as_cpu || out->as_gpu || out->as_fpga) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option as=%.60s: expected cpu, gpu or fpga", value);
}

static braid_status parse_index_bits(const char *value, braid_cl_options *out) {
  out->wide = strcmp(value, "64") == 0;
  if (out->wide || strcmp(value, "32") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option index_bits=%.60s: expected 32 or 64", value);
}

static bool is_work(uint32_t work) {
  return work == 2 || work == 4 || work == 8;
}

/* Work-items of a group load equally many elements, each of one column or of several whole ones. */
static bool is_tile(const braid_launch_tile_sides *t) {
  if (!is_work(t->work_rows) || !is_work(t->work_columns) || t->rows % t->work_rows || t->columns % t->work_columns)
    return false;
  uint32_t group = t->rows / t->work_rows * (t->columns / t->work_columns);
  return group && group <= 1024 && (group & (group - 1)) == 0 && group % t->columns == 0 && t->depth &&
         t->rows * t->depth % group == 0 && t->columns * t->depth % group == 0;
}

static braid_status parse_tile(const char *value, braid_cl_options *out) {
  braid_launch_tile_sides *t = &out->tile;
  uint32_t *const sides[] = {&t->rows, &t->columns, &t->depth, &t->work_rows, &t->work_columns};
  const char *at = value;
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
    char number[8];
    size_t length = strcspn(at, "x");
    int64_t side = 0;
    if (length < sizeof number) {
      memcpy(number, at, length);
      number[length] = '\0';
      if (!braid_parse_i64(number, &side) || side < 1 || side > 256) side = 0;
    }
    *sides[i] = (uint32_t)side;
    at += length + (at[length] == 'x' && i + 1 < sizeof sides / sizeof *sides);
  }
  if (!*at && is_tile(t)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "option tile=%.60s: expected rows x columns x depth x rows and columns of a work-item (2, 4 or 8), "
                    "as in 128x128x8x8x8, for a group of a power of two of work-items, a multiple of the columns, that "
                    "divides rows x depth and columns x depth",
                    value);
}

static braid_status parse_path(const char *key, const char *value, char *path, size_t bytes) {
  size_t length = strlen(value);
  if (!length || length >= bytes)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected a path", key, value);
  memcpy(path, value, length + 1);
  return BRAID_OK;
}

static braid_status parse_cache(const char *value, braid_cl_options *out) {
  out->cache[0] = '\0';
  return strcmp(value, "off") == 0 ? BRAID_OK : parse_path("cache", value, out->cache, sizeof out->cache);
}

/* `option`: "key=value", cut in two here. */
static braid_status parse_option(char *option, braid_cl_options *out) {
  char *value = strchr(option, '=');
  if (value) {
    *value++ = '\0';
    for (size_t i = 0; i < sizeof kNumbers / sizeof *kNumbers; i++)
      if (strcmp(option, kNumbers[i].key) == 0) return parse_number(&kNumbers[i], value, out);
    if (strcmp(option, "arena") == 0) return parse_arena(value, out);
    if (strcmp(option, "memory") == 0) return parse_memory(value, out);
    if (strcmp(option, "as") == 0) return parse_kind(value, out);
    if (strcmp(option, "index_bits") == 0) return parse_index_bits(value, out);
    if (strcmp(option, "tile") == 0) return parse_tile(value, out);
    if (strcmp(option, "cache") == 0) return parse_cache(value, out);
    if (strcmp(option, "bitstream") == 0) return parse_path(option, value, out->bitstream, sizeof out->bitstream);
    if (strcmp(option, "manifest") == 0) return parse_path(option, value, out->manifest, sizeof out->manifest);
  }
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "option \"%.60s\": expected memory=, arena=, part=, parts=, deadline_ms=, cache=, bitstream=, "
                    "manifest=, as=, index_bits=, tile=, slices=, cu=, simd=, group= or unroll=",
                    option);
}

braid_status braid_cl_parse_options(const char *text, braid_cl_options *out) {
  *out = (braid_cl_options){.part = UINT32_MAX};
  if (!braid_launch_cache_default(out->cache, sizeof out->cache)) out->cache[0] = '\0';
  while (text && *text) {
    size_t length = strcspn(text, ",");
    char option[512];
    if (length >= sizeof option) return braid_fail(BRAID_INVALID_ARGUMENT, "option %.60s... is too long", text);
    memcpy(option, text, length);
    option[length] = '\0';
    braid_status status = parse_option(option, out);
    if (status != BRAID_OK) return status;
    text += length;
    if (*text == ',') text++;
  }
  if (out->part != UINT32_MAX && !out->parts)
    return braid_fail(BRAID_INVALID_ARGUMENT, "part=%u of how many? expected parts=N too", out->part);
  if (out->parts && out->part >= out->parts)
    return braid_fail(BRAID_INVALID_ARGUMENT, "parts=%u: expected a part from 0 to %u, as in NAME.0:parts=%u",
                      out->parts, out->parts - 1, out->parts);
  if (!out->parts) out->part = 0;
  return BRAID_OK;
}
