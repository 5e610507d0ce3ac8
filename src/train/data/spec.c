#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "train/data/dataset.h"

enum { kMaxValue = 1024, kMaxSide = 16384 };

static braid_status wrong(const char *key, const char *value, const char *expected) {
  return braid_fail(BRAID_INVALID_ARGUMENT, "data: %.40s=%.80s: %s expected", key, value, expected);
}

static braid_status set_integer(const char *key, const char *value, int64_t least, int64_t most, int64_t *out) {
  char expected[80];
  if (braid_parse_i64(value, out) && *out >= least && *out <= most) return BRAID_OK;
  snprintf(expected, sizeof expected, "a whole number from %lld to %lld is", (long long)least, (long long)most);
  return wrong(key, value, expected);
}

/* "0.5" or "0.5/0.4/0.3" */
static braid_status set_channels(const char *key, char *value, bool positive, float *out, int *count) {
  char shown[kMaxValue];
  snprintf(shown, sizeof shown, "%s", value);
  *count = 0;
  for (char *at = value, *next; at; at = next) {
    next = strchr(at, '/');
    if (next) *next++ = '\0';
    double number;
    if (*count == BRAID_SPEC_CHANNELS || !braid_parse_f64(at, &number) || (positive && !(number > 0)))
      return wrong(key, shown,
                   positive ? "one to four numbers above 0 with / between are"
                            : "one to four numbers with / between are");
    out[(*count)++] = (float)number;
  }
  return BRAID_OK;
}

static braid_status set_size(const char *value, braid_spec *spec) {
  int height, width, used = 0;
  if (sscanf(value, "%5dx%5d%n", &height, &width, &used) == 2 && !value[used] && height > 0 && width > 0 &&
      height <= kMaxSide && width <= kMaxSide) {
    spec->height = height;
    spec->width = width;
    return BRAID_OK;
  }
  return wrong("size", value, "HEIGHTxWIDTH is");
}

/* A word of a list, and what it switches on. */
typedef struct switch_name {
  const char *name;
  bool *on;
} switch_name;

/* Words with + between, each at most once: who gives one twice means something else. */
static braid_status set_switches(const char *key, char *value, const switch_name *names, size_t count,
                                 const char *expected) {
  for (char *at = value, *next; at; at = next) {
    size_t i = 0;
    next = strchr(at, '+');
    if (next) *next++ = '\0';
    while (i < count && strcmp(at, names[i].name) != 0) i++;
    if (i == count) return wrong(key, at, expected);
    if (*names[i].on) return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s: %s is given twice", key, at);
    *names[i].on = true;
  }
  return BRAID_OK;
}

static braid_status set_augment(char *value, braid_spec *spec) {
  const switch_name names[] = {{"crop", &spec->crop},     {"resized-crop", &spec->resized_crop},
                               {"flip", &spec->flip},     {"alternating-flip", &spec->alternating_flip},
                               {"colour", &spec->colour}, {"cutout", &spec->cutout}};
  if (strcmp(value, "none") == 0) return BRAID_OK;
  BRAID_TRY(set_switches(
      "augment", value, names, sizeof names / sizeof *names,
      "crop, resized-crop, flip, alternating-flip, colour, cutout, several of them with + between, or none alone is"));
  if (spec->crop && spec->resized_crop) return wrong("augment", "crop+resized-crop", "one of the two crops is");
  if (spec->flip && spec->alternating_flip) return wrong("augment", "flip+alternating-flip", "one of the two flips is");
  return BRAID_OK;
}

static braid_status set_views(char *value, braid_spec *spec) {
  const switch_name names[] = {{"flip", &spec->view_flipped}, {"shift", &spec->view_shifted}};
  return set_switches("views", value, names, sizeof names / sizeof *names, "flip, shift, or flip+shift is");
}

/* `count` numbers from `least` to `most` with / between. */
static braid_status set_numbers(const char *key, char *value, float least, float most, int count, float *out) {
  char shown[kMaxValue], expected[80];
  float numbers[BRAID_SPEC_CHANNELS];
  int given = 0;
  snprintf(shown, sizeof shown, "%s", value);
  snprintf(expected, sizeof expected, "%d numbers from %g to %g with / between are", count, (double)least,
           (double)most);
  if (set_channels(key, value, false, numbers, &given) != BRAID_OK || given != count)
    return wrong(key, shown, expected);
  for (int i = 0; i < count; i++) {
    if (!(numbers[i] >= least && numbers[i] <= most)) return wrong(key, shown, expected);
    out[i] = numbers[i];
  }
  return BRAID_OK;
}

static braid_status set_area(char *value, braid_spec *spec) {
  BRAID_TRY(set_numbers("area", value, 0, 1, 2, spec->area));
  if (spec->area[0] > 0 && spec->area[0] <= spec->area[1]) return BRAID_OK;
  return wrong("area", "", "a share above 0 and one that is not smaller are");
}

/* Brightness, contrast, saturation, and hue where it is given. */
static braid_status set_jitter(char *value, braid_spec *spec) {
  char *hue = strrchr(value, '/');
  int slashes = 0;
  for (const char *at = value; *at; at++) slashes += *at == '/';
  if (slashes == 3) {
    double number;
    *hue++ = '\0';
    if (!braid_parse_f64(hue, &number) || !(number >= 0 && number <= 0.5))
      return wrong("jitter", hue, "for the hue a number from 0 to 0.5 is");
    spec->jitter[3] = (float)number;
  }
  return set_numbers("jitter", value, 0, 1, 3, spec->jitter);
}

static const char *const kTargets[] = {"class", "labels", "numbers", NULL}, *const kYesNo[] = {"no", "yes", NULL},
                         *const kBorders[] = {"black", "reflect", NULL};

static braid_status set_choice(const char *key, const char *value, const char *const *choices, const char *expected,
                               int *out) {
  for (*out = 0; choices[*out]; ++*out)
    if (strcmp(value, choices[*out]) == 0) return BRAID_OK;
  return wrong(key, value, expected);
}

static braid_status set_text(const char *key, const char *value, char *out, size_t bytes) {
  size_t length = strlen(value);
  if (!length || length >= bytes) return wrong(key, value, "a file, a folder or columns with / between are");
  memcpy(out, value, length + 1);
  return BRAID_OK;
}

static braid_status set_key(const char *key, char *value, braid_spec *spec) {
  int64_t number = 0;
  if (strcmp(key, "mean") == 0) return set_channels(key, value, false, spec->mean, &spec->means);
  if (strcmp(key, "std") == 0) return set_channels(key, value, true, spec->std, &spec->stds);
  if (strcmp(key, "size") == 0) return set_size(value, spec);
  if (strcmp(key, "augment") == 0) return set_augment(value, spec);
  if (strcmp(key, "scale") == 0)
    return braid_parse_f64(value, &spec->scale) && spec->scale > 0 ? BRAID_OK
                                                                   : wrong(key, value, "a number above 0 is");
  if (strcmp(key, "order") == 0) {
    spec->bgr = strcmp(value, "bgr") == 0;
    return spec->bgr || strcmp(value, "rgb") == 0 ? BRAID_OK : wrong(key, value, "rgb or bgr is");
  }
  if (strcmp(key, "split") == 0) {
    if (strcmp(value, "train") != 0 && strcmp(value, "test") != 0 && strcmp(value, "all") != 0)
      return wrong(key, value, "train, test or all is");
    snprintf(spec->split, sizeof spec->split, "%s", value);
    return BRAID_OK;
  }
  if (strcmp(key, "channels") == 0) {
    BRAID_TRY(set_integer(key, value, 1, BRAID_SPEC_CHANNELS, &number));
    spec->channels = (int)number;
    return BRAID_OK;
  }
  if (strcmp(key, "pad") == 0) {
    BRAID_TRY(set_integer(key, value, 0, kMaxSide, &number));
    spec->pad = (int)number;
    return BRAID_OK;
  }
  if (strcmp(key, "border") == 0) return set_choice(key, value, kBorders, "black or reflect is", &spec->reflect);
  if (strcmp(key, "views") == 0) return set_views(value, spec);
  if (strcmp(key, "area") == 0) return set_area(value, spec);
  if (strcmp(key, "jitter") == 0) return set_jitter(value, spec);
  if (strcmp(key, "hole") == 0) {
    BRAID_TRY(set_integer(key, value, 1, kMaxSide, &number));
    spec->hole = (int)number;
    return BRAID_OK;
  }
  if (strcmp(key, "target") == 0) return set_text(key, value, spec->target, sizeof spec->target);
  if (strcmp(key, "columns") == 0) return set_text(key, value, spec->columns, sizeof spec->columns);
  if (strcmp(key, "labels") == 0) return set_text(key, value, spec->labels, sizeof spec->labels);
  if (strcmp(key, "images") == 0) return set_text(key, value, spec->images, sizeof spec->images);
  if (strcmp(key, "targets") == 0)
    return set_choice(key, value, kTargets, "class, labels or numbers is", &spec->targets);
  if (strcmp(key, "header") == 0) return set_choice(key, value, kYesNo, "yes or no is", &spec->header);
  if (strcmp(key, "limit") == 0) return set_integer(key, value, 1, INT64_MAX, &spec->limit);
  if (strcmp(key, "seed") == 0) {
    BRAID_TRY(set_integer(key, value, 0, INT64_MAX, &number));
    spec->seed = (uint64_t)number;
    return BRAID_OK;
  }
  return braid_fail(
      BRAID_INVALID_ARGUMENT,
      "data: unknown key \"%.40s\"; there are split, mean, std, scale, order, size, channels, augment, "
      "pad, border, area, jitter, hole, views, limit, seed, target, targets, columns, header, labels and images",
      key);
}

/* All keys; the first ones say which samples there are, and what training and tests do to them. */
static const char *const kKeys[] = {"split",   "limit", "target", "targets", "columns", "header",  "labels", "images",
                                    "augment", "pad",   "border", "area",    "jitter",  "hole",    "views",  "seed",
                                    "mean",    "std",   "scale",  "order",   "size",    "channels"};
enum { kOfTables = 6, kOfDataSets = 16, kKeyCount = sizeof kKeys / sizeof *kKeys };

static size_t find_key(const char *key) {
  size_t i = 0;
  while (i < kKeyCount && strcmp(key, kKeys[i]) != 0) i++;
  return i;
}

static bool is_given(unsigned given, const char *key) {
  return given >> find_key(key) & 1;
}

/* `given`: a bit for each of kKeys. */
static braid_status set_keys(const char *text, bool keys_only, braid_spec *spec, unsigned *given) {
  while (*text) {
    size_t length = strcspn(text, ",");
    char pair[kMaxValue];
    if (length >= sizeof pair) return braid_fail(BRAID_INVALID_ARGUMENT, "data: \"%.40s...\" is too long", text);
    memcpy(pair, text, length);
    pair[length] = '\0';
    char *equals = strchr(pair, '=');
    if (!equals) return braid_fail(BRAID_INVALID_ARGUMENT, "data: \"%.80s\": key=value is expected", pair);
    *equals = '\0';
    size_t index = find_key(pair);
    if (keys_only && index < kOfDataSets)
      return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s=%s is of data sets and has no effect on one picture", pair,
                        equals + 1);
    BRAID_TRY(set_key(pair, equals + 1, spec));
    if (*given >> index & 1) return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s is given twice", pair);
    *given |= 1u << index;
    text += length + (text[length] == ',');
  }
  return BRAID_OK;
}

/* Keys begin at the first comma that is followed by a name and "=": a path may have commas. */
static size_t path_length(const char *path) {
  for (const char *comma = strchr(path, ','); comma; comma = strchr(comma + 1, ',')) {
    const char *at = comma + 1;
    while (islower((unsigned char)*at)) at++;
    if (at > comma + 1 && *at == '=') return (size_t)(comma - path);
  }
  return strlen(path);
}

/* Of tables no key of pictures counts, of pictures those of what lists them. */
static braid_status check_lists(const braid_spec *spec, unsigned given) {
  bool table = strcmp(spec->kind, "csv") == 0, images = strcmp(spec->kind, "images") == 0;
  bool coco = strcmp(spec->kind, "coco") == 0, rows = table || (images && spec->labels[0]);
  const struct {
    const char *key;
    bool used;
  } rules[] = {{"target", rows},          {"columns", rows},  {"header", rows},
               {"targets", rows || coco}, {"labels", images}, {"images", coco}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (is_given(given, rules[i].key) && !rules[i].used)
      return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s= has no effect on %s%s", rules[i].key, spec->kind,
                        images && strcmp(rules[i].key, "images") != 0 ? " without labels=" : "");
  for (size_t i = kOfTables; table && i < kKeyCount; i++)
    if (given >> i & 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s= has no effect on %s", kKeys[i], spec->kind);
  if (strcmp(spec->split, "all") == 0 && !rows)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: split=all has no effect on %s: it is of tables", spec->kind);
  if (table && !spec->target[0])
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: csv:%.80s: target=COLUMN is expected", spec->path);
  if (coco && !spec->images[0])
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: coco:%.80s: images=DIR is expected", spec->path);
  return BRAID_OK;
}

/* A key that changes nothing here is a mistake of whoever gave it. */
static braid_status check_effects(const braid_spec *spec, unsigned given) {
  BRAID_TRY(check_lists(spec, given));
  if (is_given(given, "seed") && strcmp(spec->kind, "builtin") != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: seed=%llu is of builtin:glyphs and has no effect on %s",
                      (unsigned long long)spec->seed, spec->kind);
  bool one_part =
      strcmp(spec->kind, "npy") == 0 || strcmp(spec->kind, "coco") == 0 || strcmp(spec->kind, BRAID_SPEC_CALLBACK) == 0;
  if (is_given(given, "split") && one_part)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: split=%s has no effect on %s: its samples are one part, not two",
                      spec->split, spec->kind);
  const struct {
    const char *key, *of;
    bool used;
  } parts[] = {{"pad", "crop", spec->crop},
               {"border", "crop", spec->crop},
               {"area", "resized-crop", spec->resized_crop},
               {"jitter", "colour", spec->colour},
               {"hole", "cutout", spec->cutout}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (is_given(given, parts[i].key) && !parts[i].used)
      return braid_fail(BRAID_INVALID_ARGUMENT, "data: %s= is of augment=%s and has no effect without it", parts[i].key,
                        parts[i].of);
  return BRAID_OK;
}

static braid_status parse(const braid_allocator *allocator, const char *text, bool keys_only, braid_spec *out) {
  unsigned given = 0;
  if (keys_only) return set_keys(text ? text : "", true, out, &given);
  const char *colon = strchr(text, ':');
  if (!colon || colon == text || (size_t)(colon - text) >= sizeof out->kind)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: \"%.80s\": KIND:PATH[,key=value...] is expected", text);
  memcpy(out->kind, text, (size_t)(colon - text));
  size_t length = path_length(colon + 1);
  if (length == 0)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: \"%.80s\": a path is expected after %s:", text, out->kind);
  out->path = braid_zalloc(allocator, length + 1);
  if (!out->path) return BRAID_NO_MEMORY;
  memcpy(out->path, colon + 1, length);
  BRAID_TRY(set_keys(colon[1 + length] ? colon + 2 + length : "", false, out, &given));
  return check_effects(out, given);
}

braid_status braid_spec_parse(const braid_allocator *allocator, const char *text, bool keys_only,
                              const char *default_split, braid_spec *out) {
  *out = (braid_spec){.pad = 4, .area = {0.08f, 1}, .jitter = {0.4f, 0.4f, 0.4f}, .targets = -1, .header = -1};
  if (strcmp(default_split, "train") != 0 && strcmp(default_split, "test") != 0)
    return wrong("split", default_split, "train or test is");
  snprintf(out->split, sizeof out->split, "%s", default_split);
  braid_status status = parse(allocator, text, keys_only, out);
  if (status != BRAID_OK) braid_spec_deinit(allocator, out);
  return status;
}

void braid_spec_deinit(const braid_allocator *allocator, braid_spec *spec) {
  braid_free(allocator, spec->path);
  spec->path = NULL;
}
