#include "launch/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* --- values --------------------------------------------------------------------------------------------------------
 */
braid_status braid_launch_parse_number(const braid_launch_option *option, const char *value, void *field) {
  int64_t number;
  if (!braid_parse_i64(value, &number) || number < option->least || number > option->most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected a number from %" PRId64 " to %" PRId64,
                      option->key, value, option->least, option->most);
  *(uint32_t *)field = (uint32_t)number;
  return BRAID_OK;
}

braid_status braid_launch_parse_bytes(const braid_launch_option *option, const char *value, void *field) {
  int64_t bytes;
  if (!braid_parse_i64(value, &bytes) || bytes < option->least)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected bytes, at least %lld", option->key, value,
                      (long long)option->least);
  *(uint64_t *)field = (uint64_t)bytes;
  return BRAID_OK;
}

braid_status braid_launch_parse_path(const braid_launch_option *option, const char *value, void *field) {
  size_t length = strlen(value);
  if (!length || length >= (size_t)option->most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected a path", option->key, value);
  memcpy(field, value, length + 1);
  return BRAID_OK;
}

static braid_status parse_kind(const braid_launch_option *option, const char *value, void *field) {
  braid_launch_knobs *knobs = field;
  knobs->as_cpu = strcmp(value, "cpu") == 0;
  knobs->as_gpu = strcmp(value, "gpu") == 0;
  knobs->as_fpga = strcmp(value, "fpga") == 0;
  if (knobs->as_cpu || knobs->as_gpu || knobs->as_fpga) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected cpu, gpu or fpga", option->key, value);
}

static braid_status parse_index_bits(const braid_launch_option *option, const char *value, void *field) {
  bool wide = *(bool *)field = strcmp(value, "64") == 0;
  if (wide || strcmp(value, "32") == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "option %s=%.60s: expected 32 or 64", option->key, value);
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

static braid_status parse_tile(const braid_launch_option *option, const char *value, void *field) {
  braid_launch_tile_sides *t = field;
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
                    "option %s=%.60s: expected rows x columns x depth x rows and columns of a work-item (2, 4 or 8), "
                    "as in 128x128x8x8x8, for a group of a power of two of work-items, a multiple of the columns, that "
                    "divides rows x depth and columns x depth",
                    option->key, value);
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
#define KNOB(name) offsetof(braid_launch_knobs, name)

const braid_launch_option braid_launch_knob_options[] = {
    {"as", parse_kind, 0, 0, 0},
    {"index_bits", parse_index_bits, KNOB(wide), 0, 0},
    {"tile", parse_tile, KNOB(tile), 0, 0},
    {"slices", braid_launch_parse_number, KNOB(slices), 1, 64},
    {"cu", braid_launch_parse_number, KNOB(units), 1, 1024},
    {"simd", braid_launch_parse_number, KNOB(simd), 1, 64},
    {"group", braid_launch_parse_number, KNOB(group), 1, 65536},
    {"unroll", braid_launch_parse_number, KNOB(unroll), 1, 4096},
};
const size_t braid_launch_knob_option_count = sizeof braid_launch_knob_options / sizeof *braid_launch_knob_options;

/* "a=, b= or c=" */
static braid_status unknown_option(const char *text, const braid_launch_option_table *tables, size_t table_count) {
  braid_text names;
  size_t left = 0;
  braid_text_init(&names, NULL);
  for (size_t i = 0; i < table_count; i++) left += tables[i].count;
  for (size_t i = 0; i < table_count; i++)
    for (size_t k = 0; k < tables[i].count; k++, left--)
      braid_text_printf(&names, "%s=%s", tables[i].options[k].key, left > 2 ? ", " : left == 2 ? " or " : "");
  (void)braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.60s\": expected %s", text, names.data);
  braid_text_deinit(&names);
  return BRAID_INVALID_ARGUMENT;
}

/* `text`: "key=value", cut in two here. */
static braid_status parse_option(char *text, const braid_launch_option_table *tables, size_t table_count) {
  char *value = strchr(text, '=');
  if (!value) return unknown_option(text, tables, table_count);
  *value++ = '\0';
  for (size_t i = 0; i < table_count; i++)
    for (size_t k = 0; k < tables[i].count; k++) {
      const braid_launch_option *option = &tables[i].options[k];
      if (strcmp(text, option->key) == 0) return option->parse(option, value, (char *)tables[i].out + option->field);
    }
  return unknown_option(text, tables, table_count);
}

braid_status braid_launch_parse_options(const char *text, const braid_launch_option_table *tables, size_t table_count) {
  while (text && *text) {
    size_t length = strcspn(text, ",");
    char option[512];
    if (length >= sizeof option) return braid_fail(BRAID_INVALID_ARGUMENT, "option %.60s... is too long", text);
    memcpy(option, text, length);
    option[length] = '\0';
    braid_status status = parse_option(option, tables, table_count);
    if (status != BRAID_OK) return status;
    text += length;
    if (*text == ',') text++;
  }
  return BRAID_OK;
}
