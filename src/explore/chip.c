/* Chip files: YAML, each number with its source. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"
#include "explore/files.h"

enum { kNameBytes = 64, kSourceBytes = 512 };
static const double kMostFigure = 1e12;

static const cyaml_schema_field_t kFigureFields[] = {
    CYAML_FIELD_FLOAT("value", CYAML_FLAG_DEFAULT, braid_figure, value),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, braid_figure, source, 1, kSourceBytes - 1),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kBuiltFields[] = {
    CYAML_FIELD_FLOAT("tb", CYAML_FLAG_DEFAULT, braid_built_design, tb),
    CYAML_FIELD_FLOAT("ti", CYAML_FLAG_DEFAULT, braid_built_design, ti),
    CYAML_FIELD_FLOAT("luts", CYAML_FLAG_DEFAULT, braid_built_design, luts),
    CYAML_FIELD_FLOAT("dsps", CYAML_FLAG_DEFAULT, braid_built_design, dsps),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, braid_built_design, source, 1, kSourceBytes - 1),
    CYAML_FIELD_END,
};

/* X(name, whether the file must have it, the least value), in the order of the file. */
#define CHIP_FIGURES(X)                                                                                                \
  X(luts, true, 1)                                                                                                     \
  X(dsps, true, 1)                                                                                                     \
  X(brams, true, 1)                                                                                                    \
  X(bram_bits, true, 1)                                                                                                \
  X(ffs, false, 1)                                                                                                     \
  X(urams, false, 0)                                                                                                   \
  X(bandwidth, false, 1e-6)                                                                                            \
  X(clock, false, 1e-3)                                                                                                \
  X(multiplier_dsps, true, 0)                                                                                          \
  X(adder_dsps, true, 0)                                                                                               \
  X(multiplier_luts, false, 0)                                                                                         \
  X(lane_luts, false, 0)                                                                                               \
  X(fixed_luts, false, 0)                                                                                              \
  X(fixed_dsps, false, 0)                                                                                              \
  X(fixed_brams, false, 0)

/* Every one of them is needed, and at least 0. */
#define KERNEL_FIGURES(X)                                                                                              \
  X(mac_dsps)                                                                                                          \
  X(mac_luts)                                                                                                          \
  X(compare_luts)                                                                                                      \
  X(unit_luts)                                                                                                         \
  X(unit_brams)                                                                                                        \
  X(shell_luts)                                                                                                        \
  X(shell_dsps)                                                                                                        \
  X(shell_brams)                                                                                                       \
  X(fmax_empty)                                                                                                        \
  X(fmax_full)

static const cyaml_schema_field_t kKernelFields[] = {
#define FIELD(figure) CYAML_FIELD_MAPPING_PTR(#figure, CYAML_FLAG_POINTER, braid_kernel_costs, figure, kFigureFields),
    KERNEL_FIGURES(FIELD)
#undef FIELD
        CYAML_FIELD_END,
};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, braid_chip, name, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("board", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_chip, board, 1, kSourceBytes - 1),
    CYAML_FIELD_STRING_PTR("lut_unit", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_chip, lut_unit, 1,
                           kNameBytes - 1),
#define FIELD(figure, required, least)                                                                                 \
  CYAML_FIELD_MAPPING_PTR(#figure, CYAML_FLAG_POINTER | ((required) ? CYAML_FLAG_DEFAULT : CYAML_FLAG_OPTIONAL),       \
                          braid_chip, figure, kFigureFields),
    CHIP_FIGURES(FIELD)
#undef FIELD
        CYAML_FIELD_MAPPING_PTR("built", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_chip, built, kBuiltFields),
    CYAML_FIELD_MAPPING_PTR("kernel", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, braid_chip, kernel, kKernelFields),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t kChip = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, braid_chip, kFields),
};

/* What the schema cannot say. *path: keys to the value that is refused. */
static braid_status check_number(const char *name, double value, double least) {
  if (value >= least && value <= kMostFigure) return BRAID_OK; /* not of NAN */
  return braid_fail(BRAID_INVALID_FILE, "%s is %g, expected a number from %g to %g", name, value, least, kMostFigure);
}

static braid_status check_kernel(const braid_kernel_costs *kernel, const char **path) {
#define CHECK(figure)                                                                                                  \
  *path = "kernel/" #figure "/value";                                                                                  \
  BRAID_TRY(check_number(#figure, kernel->figure->value, 0));
  KERNEL_FIGURES(CHECK)
#undef CHECK
  *path = "kernel/fmax_full/value";
  BRAID_TRY(check_number("fmax_full", kernel->fmax_full->value, 1e-3));
  *path = "kernel/fmax_empty/value";
  return check_number("fmax_empty", kernel->fmax_empty->value, kernel->fmax_full->value);
}

static braid_status chip_check(const braid_chip *chip, const char **path) {
#define CHECK(figure, required, least)                                                                                 \
  *path = #figure "/value";                                                                                            \
  if (chip->figure) BRAID_TRY(check_number(#figure, chip->figure->value, least));
  CHIP_FIGURES(CHECK)
#undef CHECK
  *path = chip->lane_luts ? "lane_luts" : "multiplier_luts";
  if (!chip->multiplier_luts != !chip->lane_luts)
    return braid_fail(BRAID_INVALID_FILE, "%s is given alone: the LUT equation needs multiplier_luts and lane_luts",
                      *path);
  if (chip->kernel) BRAID_TRY(check_kernel(chip->kernel, path));
  if (!chip->built) return BRAID_OK;
  const braid_built_design *built = chip->built;
  *path = "built/tb";
  BRAID_TRY(check_number("tb", built->tb, 1));
  *path = "built/ti";
  BRAID_TRY(check_number("ti", built->ti, 1));
  *path = "built/luts";
  BRAID_TRY(check_number("luts", built->luts, 1));
  *path = "built/dsps";
  return check_number("dsps", built->dsps, 0);
}

braid_status braid_chip_parse(const char *name, const void *text, size_t bytes, braid_chip **out) {
  void *document;
  const char *path;
  *out = NULL;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kChip, &document));
  braid_status status = chip_check(document, &path);
  if (status == BRAID_OK) {
    *out = document;
    return BRAID_OK;
  }
  status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, path));
  braid_chip_destroy(document);
  return status;
}

void braid_chip_destroy(braid_chip *chip) {
  braid_yaml_free(&kChip, chip);
}

/* --- by name ------------------------------------------------------------------------------------------------------ */
size_t braid_chip_count(void) {
  return braid_chip_file_count;
}

const char *braid_chip_name(size_t index) {
  return braid_chip_files[index].name;
}

static bool chip_is(const char *file, const char *name) {
  return strcasecmp(file, name) == 0 || (strncasecmp(file, "xc", 2) == 0 && strcasecmp(file + 2, name) == 0);
}

static braid_status chip_unknown(const char *name) {
  char list[512] = "";
  for (size_t i = 0, used = 0; i < braid_chip_file_count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", braid_chip_files[i].name);
  return braid_fail(BRAID_NOT_FOUND,
                    "there is no chip \"%.100s\"; there are %s, and files of chips whose names end in .yaml", name,
                    list);
}

static bool is_path(const char *name) {
  const char *dot = strrchr(name, '.');
  return strchr(name, '/') || strcmp(name, "-") == 0 || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

braid_status braid_chip_load(const braid_allocator *allocator, const char *path_or_name, braid_chip **out) {
  *out = NULL;
  if (!is_path(path_or_name)) {
    for (size_t i = 0; i < braid_chip_file_count; i++) {
      const braid_explore_file *file = &braid_chip_files[i];
      if (chip_is(file->name, path_or_name)) return braid_chip_parse(file->name, file->text, file->bytes, out);
    }
    return chip_unknown(path_or_name);
  }
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, path_or_name, BRAID_YAML_BYTES, &view));
  braid_status status = braid_chip_parse(path_or_name, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}
