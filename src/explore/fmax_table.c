/* Fmax of configurations: what was measured or reported, from CSV and YAML files and from reports. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "device/yaml.h"
#include "explore/files.h"
#include "explore/lines.h"

struct braid_fmax_table {
  const braid_allocator *allocator;
  braid_fmax_point *points; /* sorted */
  size_t count;
  char **files; /* names that points refer to */
  size_t file_count, file_capacity;
};

braid_status braid_fmax_table_create(const braid_allocator *allocator, braid_fmax_table **out) {
  *out = braid_zalloc(allocator, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  (*out)->allocator = allocator;
  return BRAID_OK;
}

void braid_fmax_table_destroy(braid_fmax_table *table) {
  if (!table) return;
  for (size_t i = 0; i < table->file_count; i++) braid_free(table->allocator, table->files[i]);
  braid_free(table->allocator, table->files);
  braid_free(table->allocator, table->points);
  braid_free(table->allocator, table);
}

size_t braid_fmax_table_count(const braid_fmax_table *table) {
  return table->count;
}

const braid_fmax_point *braid_fmax_table_get(const braid_fmax_table *table, size_t index) {
  return &table->points[index];
}

static int compare_points(const void *left, const void *right) {
  const braid_fmax_point *a = left, *b = right;
  if (a->units != b->units) return a->units < b->units ? -1 : 1;
  if (a->simd != b->simd) return a->simd < b->simd ? -1 : 1;
  return (a->unroll > b->unroll) - (a->unroll < b->unroll);
}

/* Of one file, points that are the same stay in its order. */
static int compare_lines(const void *left, const void *right) {
  const braid_fmax_point *a = left, *b = right;
  int order = compare_points(a, b);
  return order ? order : (a->line > b->line) - (a->line < b->line);
}

const braid_fmax_point *braid_fmax_table_find(const braid_fmax_table *table, int64_t units, int64_t simd,
                                              int64_t unroll) {
  if (!table->count) return NULL;
  const braid_fmax_point key = {.units = units, .simd = simd, .unroll = unroll};
  return bsearch(&key, table->points, table->count, sizeof key, compare_points);
}

/* --- adding --------------------------------------------------------------------------------------------------------
 */
static braid_status check_point(const braid_fmax_point *point) {
  const struct {
    const char *name;
    int64_t value;
  } sides[] = {{"compute_units", point->units}, {"simd_width", point->simd}, {"unroll", point->unroll}};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
    if (sides[i].value < 1 || sides[i].value > BRAID_KERNEL_MOST)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s is %lld, expected 1 to %d", sides[i].name,
                        (long long)sides[i].value, BRAID_KERNEL_MOST);
  if (isnan(point->mhz) || (point->mhz >= 0.001 && point->mhz <= 1e5)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "fmax_mhz is %g, expected 0.001 to 100000", point->mhz);
}

static bool is_yaml(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && (strcasecmp(dot, ".yaml") == 0 || strcasecmp(dot, ".yml") == 0);
}

/* Two points of one configuration: a report may add what another source does not know. */
static braid_status join_points(braid_fmax_point *into, const braid_fmax_point *point) {
  if (!isnan(into->mhz) && !isnan(point->mhz) && into->mhz != point->mhz)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "compute units %lld, SIMD width %lld, unrolling %lld have %g MHz, and %g MHz by %.200s, %s %zu",
                      (long long)point->units, (long long)point->simd, (long long)point->unroll, point->mhz, into->mhz,
                      into->file, is_yaml(into->file) ? "point" : "line", into->line);
  if (isnan(into->mhz)) into->mhz = point->mhz;
  into->too_large |= point->too_large;
  return BRAID_OK;
}

/* Takes sorted points in, or none. *blamed: the one that does not go with the others. */
static braid_status merge_points(braid_fmax_table *table, const braid_fmax_point *points, size_t count,
                                 const braid_fmax_point **blamed) {
  braid_fmax_point *merged = braid_zalloc_array(table->allocator, table->count + count, sizeof *merged);
  if (!merged) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  size_t old = 0, used = 0;
  for (size_t i = 0; i < count && status == BRAID_OK; i++) {
    *blamed = &points[i];
    while (old < table->count && compare_points(&table->points[old], &points[i]) <= 0)
      merged[used++] = table->points[old++];
    if (used && compare_points(&merged[used - 1], &points[i]) == 0)
      status = join_points(&merged[used - 1], &points[i]);
    else
      merged[used++] = points[i];
  }
  if (status != BRAID_OK) {
    braid_free(table->allocator, merged);
    return status;
  }
  while (old < table->count) merged[used++] = table->points[old++];
  braid_free(table->allocator, table->points);
  table->points = merged;
  table->count = used;
  return BRAID_OK;
}

static braid_status add_file(braid_fmax_table *table, const char *name, const char **out) {
  char **files = braid_grow(table->allocator, table->files, table->file_count, &table->file_capacity, sizeof *files);
  if (!files) return BRAID_NO_MEMORY;
  table->files = files;
  files[table->file_count] = braid_strdup(table->allocator, name);
  if (!files[table->file_count]) return BRAID_NO_MEMORY;
  *out = files[table->file_count++];
  return BRAID_OK;
}

/* The last one, to which no point refers. */
static void drop_file(braid_fmax_table *table) {
  braid_free(table->allocator, table->files[--table->file_count]);
}

braid_status braid_fmax_table_add(braid_fmax_table *table, const braid_fmax_point *point) {
  const braid_fmax_point *blamed;
  braid_fmax_point copy = *point;
  BRAID_TRY(check_point(point));
  BRAID_TRY(add_file(table, point->file ? point->file : "the caller", &copy.file));
  braid_status status = merge_points(table, &copy, 1, &blamed);
  if (status != BRAID_OK) drop_file(table);
  return status;
}

/* --- CSV -----------------------------------------------------------------------------------------------------------
 */
enum { kColumns = 4, kMostCells = 64 };
static const char *const kColumnNames[kColumns] = {"compute_units", "simd_width", "unroll", "fmax_mhz"};

typedef struct csv {
  const braid_allocator *allocator;
  braid_lines lines;
  int column[kColumns]; /* which cell it is */
  braid_fmax_point *points;
  size_t count, capacity;
} csv;

/* Cuts the line at its commas. */
static size_t split_cells(char *line, char *cells[kMostCells]) {
  size_t count = 0;
  for (char *next; line && count < kMostCells; line = next) {
    next = strchr(line, ',');
    if (next) *next++ = '\0';
    cells[count++] = braid_lines_trim(line);
  }
  return count;
}

static braid_status read_head(csv *c) {
  char *cells[kMostCells];
  size_t count = split_cells(c->lines.text, cells);
  for (int i = 0; i < kColumns; i++) {
    c->column[i] = -1;
    for (size_t k = 0; k < count; k++) {
      if (strcasecmp(cells[k], kColumnNames[i]) != 0) continue;
      if (c->column[i] >= 0) return braid_fail(BRAID_INVALID_FILE, "two columns are named %s", kColumnNames[i]);
      c->column[i] = (int)k;
    }
    if (c->column[i] < 0)
      return braid_fail(BRAID_INVALID_FILE,
                        "no column is named %s; expected compute_units, simd_width, unroll and fmax_mhz, separated by "
                        "commas",
                        kColumnNames[i]);
  }
  return BRAID_OK;
}

static braid_status read_row(csv *c, braid_fmax_point *out) {
  char *cells[kMostCells];
  size_t count = split_cells(c->lines.text, cells);
  int64_t *const sides[] = {&out->units, &out->simd, &out->unroll};
  for (int i = 0; i < kColumns; i++) {
    if ((size_t)c->column[i] >= count)
      return braid_fail(BRAID_INVALID_FILE, "%zu cells, and no %s, expected in cell %d", count, kColumnNames[i],
                        c->column[i] + 1);
    const char *cell = cells[c->column[i]];
    bool read = i < 3 ? braid_parse_i64(cell, sides[i]) : braid_parse_f64(cell, &out->mhz);
    if (!read)
      return braid_fail(BRAID_INVALID_FILE, "%s is \"%.40s\", expected a %s", kColumnNames[i], cell,
                        i < 3 ? "whole number" : "number of MHz");
  }
  return check_point(out) == BRAID_OK ? BRAID_OK : BRAID_INVALID_FILE;
}

static braid_status read_csv_lines(csv *c, const char *file) {
  bool head = false;
  while (braid_lines_next(&c->lines)) {
    char *comment = strchr(c->lines.text, '#');
    if (comment) *comment = '\0';
    if (!*braid_lines_trim(c->lines.text)) continue;
    if (!head) {
      BRAID_TRY(read_head(c));
      head = true;
      continue;
    }
    braid_fmax_point point = {.file = file, .line = c->lines.number};
    BRAID_TRY(read_row(c, &point));
    braid_fmax_point *points = braid_grow(c->allocator, c->points, c->count, &c->capacity, sizeof *points);
    if (!points) return BRAID_NO_MEMORY;
    c->points = points;
    c->points[c->count++] = point;
  }
  if (!head)
    return braid_fail(BRAID_INVALID_FILE, "no line names the columns compute_units, simd_width, unroll and "
                                          "fmax_mhz");
  return BRAID_OK;
}

static braid_status parse_csv(braid_fmax_table *table, const char *name, const char *file, const void *text,
                              size_t bytes) {
  const braid_fmax_point *blamed = NULL;
  csv c = {.allocator = table->allocator, .lines = braid_lines_of(text, bytes)};
  braid_status status = read_csv_lines(&c, file);
  size_t line = c.lines.number;
  if (status == BRAID_OK && c.count) {
    qsort(c.points, c.count, sizeof *c.points, compare_lines);
    status = merge_points(table, c.points, c.count, &blamed);
    if (status == BRAID_INVALID_ARGUMENT) status = BRAID_INVALID_FILE;
    if (blamed) line = blamed->line;
  }
  if (status == BRAID_INVALID_FILE) status = braid_fail_prefix(status, "%.200s, line %zu", name, line);
  braid_free(table->allocator, c.points);
  return status;
}

/* --- YAML ----------------------------------------------------------------------------------------------------------
 */
typedef struct yaml_point {
  int64_t units, simd, unroll;
  double mhz;
} yaml_point;

typedef struct yaml_points {
  yaml_point *points;
  uint64_t points_count;
} yaml_points;

static const cyaml_schema_field_t kPointFields[] = {
    CYAML_FIELD_INT("compute_units", CYAML_FLAG_DEFAULT, yaml_point, units),
    CYAML_FIELD_INT("simd_width", CYAML_FLAG_DEFAULT, yaml_point, simd),
    CYAML_FIELD_INT("unroll", CYAML_FLAG_DEFAULT, yaml_point, unroll),
    CYAML_FIELD_FLOAT("fmax_mhz", CYAML_FLAG_DEFAULT, yaml_point, mhz),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kPoint = {CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, yaml_point, kPointFields)};
static const cyaml_schema_field_t kPointsFields[] = {
    CYAML_FIELD_SEQUENCE_COUNT("points", CYAML_FLAG_POINTER, yaml_points, points, points_count, &kPoint, 1,
                               CYAML_UNLIMITED),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t kPoints = {CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, yaml_points, kPointsFields)};

static braid_status copy_yaml(const braid_fmax_table *table, const yaml_points *read, const char *file,
                              braid_fmax_point **out, size_t *blamed) {
  *out = braid_zalloc_array(table->allocator, read->points_count, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < read->points_count; i++) {
    const yaml_point *point = &read->points[i];
    (*out)[i] = (braid_fmax_point){.units = point->units,
                                   .simd = point->simd,
                                   .unroll = point->unroll,
                                   .mhz = point->mhz,
                                   .file = file,
                                   .line = i + 1};
    *blamed = i;
    if (isnan(point->mhz)) return braid_fail(BRAID_INVALID_ARGUMENT, "fmax_mhz is no number");
    BRAID_TRY(check_point(&(*out)[i]));
  }
  qsort(*out, read->points_count, sizeof **out, compare_lines);
  return BRAID_OK;
}

static braid_status parse_yaml(braid_fmax_table *table, const char *name, const char *file, const void *text,
                               size_t bytes) {
  void *document;
  BRAID_TRY(braid_yaml_parse(name, text, bytes, &kPoints, &document));
  const yaml_points *read = document;
  braid_fmax_point *points = NULL;
  const braid_fmax_point *of_merge = NULL;
  size_t blamed = 0;
  braid_status status = copy_yaml(table, read, file, &points, &blamed);
  if (status == BRAID_OK) {
    status = merge_points(table, points, read->points_count, &of_merge);
    if (status != BRAID_OK && of_merge) blamed = of_merge->line - 1;
  }
  if (status == BRAID_INVALID_ARGUMENT) {
    char path[48];
    snprintf(path, sizeof path, "points/%zu", blamed);
    status = braid_fail_prefix(BRAID_INVALID_FILE, "%.200s, line %zu", name, braid_yaml_line(text, bytes, path));
  }
  braid_free(table->allocator, points);
  braid_yaml_free(&kPoints, document);
  return status;
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
braid_status braid_fmax_table_parse(braid_fmax_table *table, const char *name, const void *text, size_t bytes) {
  const char *file;
  BRAID_TRY(add_file(table, name, &file));
  braid_status status =
      is_yaml(name) ? parse_yaml(table, name, file, text, bytes) : parse_csv(table, name, file, text, bytes);
  if (status != BRAID_OK) drop_file(table);
  return status;
}

braid_status braid_fmax_table_load(braid_fmax_table *table, const char *path_or_name) {
  for (size_t i = 0; i < braid_fmax_file_count; i++) {
    const braid_explore_file *file = &braid_fmax_files[i];
    if (strcasecmp(file->name, path_or_name) == 0)
      return braid_fmax_table_parse(table, file->name, file->text, file->bytes);
  }
  braid_file_view view;
  BRAID_TRY(braid_file_open(table->allocator, path_or_name, BRAID_YAML_BYTES, &view));
  braid_status status = braid_fmax_table_parse(table, path_or_name, view.data, view.bytes);
  braid_file_close(&view);
  return status;
}
