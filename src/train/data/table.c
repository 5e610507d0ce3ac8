/* csv:FILE,target=COLUMN: rows of numbers (or names of pictures, for images:DIR,labels=FILE), each with a class, labels
 * or numbers to predict. FILE is a file, of which every tenth row is for testing, or a folder with train.csv and
 * test.csv. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "train/data/csv.h"
#include "train/data/image.h"
#include "train/data/listing.h"

enum { kTestEvery = 10, kMostName = 64 };
static const size_t kMostBytes = (size_t)4 << 30;

typedef struct table {
  const braid_allocator *allocator;
  const braid_spec *spec; /* while it is opened */
  char *path;             /* of the file that is read */
  braid_csv csv;
  bool header;
  size_t *features, *targets; /* columns */
  size_t feature_count, target_count;
  bool pictures;  /* the one feature is the name of a file */
  float *numbers; /* samples x features, unless they are pictures */
  braid_listing list;
} table;

/* --- columns -------------------------------------------------------------------------------------------------------
 */
static bool is_number(const char *text) {
  double value;
  return braid_parse_f64(text, &value);
}

static void find_header(table *t) {
  t->header = t->spec->header > 0;
  if (t->spec->header >= 0) return;
  t->header = true;
  for (size_t c = 0; c < t->csv.columns; c++) t->header &= !is_number(braid_csv_at(&t->csv, 0, c));
}

static size_t first_row(const table *t) {
  return t->header ? 1 : 0;
}

/* By its name in the header, or its number from 1 on. */
static braid_status find_column(const table *t, const char *text, size_t *out) {
  int64_t number;
  for (size_t c = 0; t->header && c < t->csv.columns; c++) {
    if (strcmp(braid_csv_at(&t->csv, 0, c), text) != 0) continue;
    *out = c;
    return BRAID_OK;
  }
  if (braid_parse_i64(text, &number) && number >= 1 && (uint64_t)number <= t->csv.columns) {
    *out = (size_t)number - 1;
    return BRAID_OK;
  }
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s: there is no column \"%.80s\"; columns have the numbers 1 to %zu%s",
                    t->path, text, t->csv.columns, t->header ? ", and names in the first line" : ", and no names");
}

/* Names or numbers with / between. */
static braid_status find_columns(const table *t, const char *list, size_t **out, size_t *count) {
  char *copy = braid_strdup(t->allocator, list);
  *out = braid_zalloc_array(t->allocator, strlen(list) + 1, sizeof **out);
  braid_status status = copy && *out ? BRAID_OK : BRAID_NO_MEMORY;
  for (char *at = copy, *next; status == BRAID_OK && at; at = next) {
    next = strchr(at, '/');
    if (next) *next++ = '\0';
    status = find_column(t, at, &(*out)[*count]);
    for (size_t i = 0; status == BRAID_OK && i < *count; i++)
      if ((*out)[i] == (*out)[*count])
        status = braid_fail(BRAID_INVALID_ARGUMENT, "%s: column \"%.80s\" is given twice", t->path, at);
    if (status == BRAID_OK) ++*count;
  }
  braid_free(t->allocator, copy);
  return status;
}

static bool is_among(const size_t *columns, size_t count, size_t column) {
  for (size_t i = 0; i < count; i++)
    if (columns[i] == column) return true;
  return false;
}

/* All columns that are none of these. */
static braid_status choose_others(const table *t, const size_t *these, size_t count, size_t **out, size_t *found) {
  *out = braid_zalloc_array(t->allocator, t->csv.columns, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  for (size_t c = 0; c < t->csv.columns; c++)
    if (!is_among(these, count, c)) (*out)[(*found)++] = c;
  return BRAID_OK;
}

static braid_status choose_pictures(table *t) {
  const char *file = t->spec->columns[0] ? t->spec->columns : "1";
  BRAID_TRY(find_columns(t, file, &t->features, &t->feature_count));
  if (t->feature_count != 1)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: columns=%.80s: one column with the files of the pictures is expected", t->path, file);
  if (t->spec->target[0])
    BRAID_TRY(find_columns(t, t->spec->target, &t->targets, &t->target_count));
  else
    BRAID_TRY(choose_others(t, t->features, 1, &t->targets, &t->target_count));
  if (t->target_count && !is_among(t->targets, t->target_count, t->features[0])) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: a column beside that of the files is expected", t->path);
}

/* Without columns= all that are no targets. */
static braid_status choose_columns(table *t) {
  find_header(t);
  if (t->pictures) return choose_pictures(t);
  BRAID_TRY(find_columns(t, t->spec->target, &t->targets, &t->target_count));
  if (t->spec->columns[0]) {
    BRAID_TRY(find_columns(t, t->spec->columns, &t->features, &t->feature_count));
    for (size_t i = 0; i < t->feature_count; i++)
      if (is_among(t->targets, t->target_count, t->features[i]))
        return braid_fail(BRAID_INVALID_ARGUMENT, "%s: column %zu is a target, and one of columns=", t->path,
                          t->features[i] + 1);
  } else {
    BRAID_TRY(choose_others(t, t->targets, t->target_count, &t->features, &t->feature_count));
  }
  if (t->feature_count >= 1 && t->feature_count <= BRAID_IMAGE_MAX_SIDE) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: %zu columns beside the target; 1 to %d are expected", t->path,
                    t->feature_count, BRAID_IMAGE_MAX_SIDE);
}

/* --- fields --------------------------------------------------------------------------------------------------------
 */
static braid_status field_fail(const table *t, size_t row, size_t column, const char *what) {
  const char *field = braid_csv_at(&t->csv, row, column), *name = t->header ? braid_csv_at(&t->csv, 0, column) : "";
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu, column %zu%s%.80s%s: \"%.40s\" is %s", t->path,
                    t->csv.lines[row], column + 1, *name ? " (" : "", name, *name ? ")" : "", field,
                    *field ? what : "no value; every field is expected to have one");
}

static braid_status read_number(const table *t, size_t row, size_t column, float *out) {
  double value;
  if (!braid_parse_f64(braid_csv_at(&t->csv, row, column), &value) || fabs(value) > 3.4028234663852886e38)
    return field_fail(t, row, column, "no number that float32 can hold");
  *out = (float)value;
  return BRAID_OK;
}

/* --- targets -------------------------------------------------------------------------------------------------------
 * Several columns are labels where all of their numbers are 0 and 1, else numbers; one column is a class, unless it has
 * numbers with a fraction. targets= says otherwise. */
static void find_kind(table *t) {
  bool binary = t->target_count > 1, fraction = false;
  if (t->spec->targets >= 0) {
    t->list.kind = (braid_target_kind)t->spec->targets;
    return;
  }
  for (size_t row = first_row(t); row < t->csv.rows; row++)
    for (size_t i = 0; i < t->target_count; i++) {
      double value;
      if (!braid_parse_f64(braid_csv_at(&t->csv, row, t->targets[i]), &value)) continue;
      binary &= value == 0 || value == 1;
      fraction |= value != floor(value);
    }
  t->list.kind = binary                            ? BRAID_TARGET_LABELS
                 : t->target_count > 1 || fraction ? BRAID_TARGET_NUMBERS
                                                   : BRAID_TARGET_CLASS;
}

/* Numbers by their value, then text. */
static int by_class(const void *a, const void *b) {
  const char *one = *(const char *const *)a, *other = *(const char *const *)b;
  double x, y;
  bool number = braid_parse_f64(one, &x), another = braid_parse_f64(other, &y);
  if (number != another) return number ? -1 : 1;
  if (number && x != y) return x < y ? -1 : 1;
  return strcmp(one, other);
}

static braid_status copy_name(table *t, const char *name) {
  t->list.names[t->list.name_count] = braid_strdup(t->allocator, name);
  if (!t->list.names[t->list.name_count]) return BRAID_NO_MEMORY;
  t->list.name_count++;
  return BRAID_OK;
}

/* The texts that stand in the target's column. */
static braid_status list_classes(table *t) {
  size_t rows = t->csv.rows - first_row(t), distinct = 0;
  const char **all = braid_zalloc_array(t->allocator, rows, sizeof *all);
  if (!all) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < rows && status == BRAID_OK; i++) {
    all[i] = braid_csv_at(&t->csv, first_row(t) + i, t->targets[0]);
    if (!*all[i]) status = field_fail(t, first_row(t) + i, t->targets[0], "");
  }
  if (status == BRAID_OK) qsort(all, rows, sizeof *all, by_class);
  for (size_t i = 0; i < rows && status == BRAID_OK; i++)
    if (!distinct || strcmp(all[distinct - 1], all[i]) != 0) all[distinct++] = all[i];
  if (status == BRAID_OK && distinct > BRAID_MAX_CLASSES)
    status = braid_fail(BRAID_INVALID_FILE, "%s: %zu classes, at most %d; numbers to predict are targets=numbers",
                        t->path, distinct, BRAID_MAX_CLASSES);
  if (status == BRAID_OK && !(t->list.names = braid_zalloc_array(t->allocator, distinct, sizeof *t->list.names)))
    status = BRAID_NO_MEMORY;
  for (size_t i = 0; i < distinct && status == BRAID_OK; i++) status = copy_name(t, all[i]);
  braid_free(t->allocator, all);
  return status;
}

static braid_status name_targets(table *t) {
  if (t->list.kind == BRAID_TARGET_CLASS && t->target_count > 1)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: targets=class is of one column, %zu are given", t->path,
                      t->target_count);
  if (t->list.kind == BRAID_TARGET_CLASS) return list_classes(t);
  t->list.names = braid_zalloc_array(t->allocator, t->target_count, sizeof *t->list.names);
  if (!t->list.names) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < t->target_count; i++) {
    char number[32];
    snprintf(number, sizeof number, "column %zu", t->targets[i] + 1);
    BRAID_TRY(copy_name(t, t->header ? braid_csv_at(&t->csv, 0, t->targets[i]) : number));
  }
  return BRAID_OK;
}

static braid_status read_class(const table *t, size_t row, int32_t *out) {
  const char *text = braid_csv_at(&t->csv, row, t->targets[0]);
  const char **found = bsearch(&text, t->list.names, t->list.name_count, sizeof *t->list.names, by_class);
  if (!found) return field_fail(t, row, t->targets[0], "no class of the training part");
  *out = (int32_t)(found - t->list.names);
  return BRAID_OK;
}

/* --- samples -------------------------------------------------------------------------------------------------------
 */
static braid_status read_file(table *t, size_t row) {
  const char *file = braid_csv_at(&t->csv, row, t->features[0]);
  if (!*file) return field_fail(t, row, t->features[0], "");
  t->list.files[t->list.samples] = braid_strdup(t->allocator, file);
  return t->list.files[t->list.samples] ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status read_sample(table *t, size_t row) {
  size_t at = t->list.samples;
  if (t->pictures) BRAID_TRY(read_file(t, row));
  for (size_t i = 0; i < t->feature_count && !t->pictures; i++)
    BRAID_TRY(read_number(t, row, t->features[i], &t->numbers[at * t->feature_count + i]));
  if (t->list.kind == BRAID_TARGET_CLASS)
    BRAID_TRY(read_class(t, row, &t->list.labels[at]));
  else
    for (size_t i = 0; i < t->target_count; i++) {
      float *value = &t->list.values[at * t->target_count + i];
      BRAID_TRY(read_number(t, row, t->targets[i], value));
      if (t->list.kind == BRAID_TARGET_LABELS && !(*value >= 0 && *value <= 1))
        return field_fail(t, row, t->targets[i], "no label from 0 to 1");
    }
  t->list.samples++;
  return BRAID_OK;
}

/* `part`: 0 takes the rows that are not for testing, 1 those that are, -1 all. */
static braid_status read_samples(table *t, int part) {
  size_t rows = t->csv.rows - first_row(t), numbers;
  BRAID_TRY(braid_listing_reserve(&t->list, rows, t->pictures));
  if (!t->pictures) {
    if (!braid_mul_size(rows, t->feature_count, &numbers)) return BRAID_NO_MEMORY;
    t->numbers = braid_zalloc_array(t->allocator, numbers, sizeof *t->numbers);
    if (!t->numbers) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < rows; i++)
    if (part < 0 || part == (i % kTestEvery == kTestEvery - 1)) BRAID_TRY(read_sample(t, first_row(t) + i));
  return BRAID_OK;
}

static braid_status parse_file(table *t, const char *path) {
  braid_file_view view;
  char *copy = braid_strdup(t->allocator, path);
  if (!copy) return BRAID_NO_MEMORY;
  braid_free(t->allocator, t->path);
  t->path = copy;
  BRAID_TRY(braid_file_open(t->allocator, path, kMostBytes, &view));
  braid_csv csv;
  braid_status status = braid_csv_parse(t->allocator, path, view.data, view.bytes, &csv);
  braid_file_close(&view);
  BRAID_TRY(status);
  braid_csv_deinit(&t->csv);
  t->csv = csv;
  return BRAID_OK;
}

/* What the columns mean is settled by the training part, also for the test part. */
static braid_status settle_meaning(table *t) {
  BRAID_TRY(choose_columns(t));
  if (t->csv.rows == first_row(t)) return braid_fail(BRAID_INVALID_FILE, "%s: has no rows of numbers", t->path);
  find_kind(t);
  return name_targets(t);
}

/* The other file of a folder: its columns are those of train.csv. */
static braid_status check_columns(const table *t, size_t columns, char **names) {
  if (t->csv.columns != columns)
    return braid_fail(BRAID_INVALID_FILE, "%s: has %zu columns, train.csv has %zu", t->path, t->csv.columns, columns);
  for (size_t c = 0; t->header && c < columns; c++)
    if (strcmp(names[c], braid_csv_at(&t->csv, 0, c)) != 0)
      return braid_fail(BRAID_INVALID_FILE, "%s: column %zu is \"%.60s\", \"%.60s\" in train.csv", t->path, c + 1,
                        braid_csv_at(&t->csv, 0, c), names[c]);
  return BRAID_OK;
}

static braid_status parse_test_file(table *t, const char *path) {
  size_t columns = t->csv.columns;
  char **names = braid_zalloc_array(t->allocator, columns, sizeof *names);
  if (!names) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t c = 0; c < columns && status == BRAID_OK; c++)
    if (!(names[c] = braid_strdup(t->allocator, braid_csv_at(&t->csv, 0, c)))) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = parse_file(t, path);
  if (status == BRAID_OK) status = check_columns(t, columns, names);
  for (size_t c = 0; c < columns; c++) braid_free(t->allocator, names[c]);
  braid_free(t->allocator, names);
  return status;
}

static braid_status table_open(table *t, const braid_spec *spec, const char *from) {
  struct stat about;
  char path[4096];
  t->spec = spec;
  bool test = strcmp(spec->split, "test") == 0;
  if (stat(from, &about) != 0 || !S_ISDIR(about.st_mode)) {
    BRAID_TRY(parse_file(t, from));
    BRAID_TRY(settle_meaning(t));
    return read_samples(t, strcmp(spec->split, "all") == 0 ? -1 : test);
  }
  if (strcmp(spec->split, "all") == 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.200s: split=all is of one file, not of a folder", from);
  if (snprintf(path, sizeof path, "%s/train.csv", from) >= (int)sizeof path)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.80s...: the path is too long", from);
  BRAID_TRY(parse_file(t, path));
  BRAID_TRY(settle_meaning(t));
  if (test) {
    snprintf(path, sizeof path, "%s/test.csv", from);
    BRAID_TRY(parse_test_file(t, path));
  }
  return read_samples(t, -1);
}

/* --- the source ----------------------------------------------------------------------------------------------------
 */
static void table_target(void *self, int64_t index, void *target) {
  braid_listing_target(&((const table *)self)->list, (size_t)index, target);
}

static braid_status table_read(void *self, int64_t index, const braid_augment *how, float *pixels, void *target) {
  (void)how;
  const table *t = self;
  memcpy(pixels, t->numbers + (size_t)index * t->feature_count, t->feature_count * sizeof *pixels);
  table_target(self, index, target);
  return BRAID_OK;
}

static void table_close(void *self) {
  table *t = self;
  braid_csv_deinit(&t->csv);
  braid_listing_deinit(&t->list);
  braid_free(t->allocator, t->path);
  braid_free(t->allocator, t->features);
  braid_free(t->allocator, t->targets);
  braid_free(t->allocator, t->numbers);
  braid_free(t->allocator, t);
}

static braid_status table_create(const braid_allocator *allocator, const braid_spec *spec, const char *path,
                                 bool pictures, table **out) {
  table *t = braid_zalloc(allocator, sizeof *t);
  if (!t) return BRAID_NO_MEMORY;
  t->allocator = t->csv.allocator = t->list.allocator = allocator;
  t->pictures = pictures;
  braid_status status = table_open(t, spec, path);
  t->spec = NULL;
  braid_csv_deinit(&t->csv);
  t->csv.allocator = allocator;
  if (status == BRAID_OK)
    *out = t;
  else
    table_close(t);
  return status;
}

braid_status braid_table_list(const braid_allocator *allocator, const braid_spec *spec, const char *path,
                              braid_listing *out) {
  table *t;
  BRAID_TRY(table_create(allocator, spec, path, true, &t));
  *out = t->list;
  t->list = (braid_listing){.allocator = allocator};
  table_close(t);
  return BRAID_OK;
}

braid_status braid_source_csv(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  table *t;
  BRAID_TRY(table_create(allocator, spec, spec->path, false, &t));
  *out = (braid_source){.self = t,
                        .samples = (int64_t)t->list.samples,
                        .channels = 1,
                        .height = 1,
                        .width = (int)t->feature_count,
                        .classes = (int)t->list.name_count,
                        .kind = t->list.kind,
                        .class_names = t->list.names,
                        .is_float = true,
                        .read = table_read,
                        .target = table_target,
                        .close = table_close};
  return BRAID_OK;
}
