/* COCO's annotations ("Microsoft COCO: Common Objects in Context", 2014) as targets of pictures: labels, the categories
 * of a picture's annotations; or with targets=class the category of its largest box, where a picture without a box is
 * left out. Categories stand in the order of their ids, pictures in that of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "base/vector.h"
#include "train/data/json_reader.h"
#include "train/data/listing.h"

enum { kMostText = 1024 };
static const size_t kMostBytes = (size_t)4 << 30;

typedef struct coco_entry { /* a picture or a category */
  int64_t id;
  char *name;
  const char *place; /* in the file, for messages */
  size_t index;
} coco_entry;

typedef struct coco_entries {
  coco_entry *items; /* by their ids, once they are sorted */
  size_t count, capacity;
} coco_entries;

typedef struct coco_annotation {
  int64_t picture, category;
  double area; /* of the box; below 0: it has none */
  const char *place;
} coco_annotation;

typedef struct coco {
  const braid_allocator *allocator;
  braid_json json;
  coco_entries pictures, categories;
  coco_annotation *annotations;
  size_t annotation_count, annotation_capacity;
  bool seen[3];
} coco;

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status add_entry(coco *c, coco_entries *to, const coco_entry *entry, const char *name) {
  coco_entry *grown = braid_grow(c->allocator, to->items, to->count, &to->capacity, sizeof *to->items);
  if (!grown) return BRAID_NO_MEMORY;
  to->items = grown;
  coco_entry *e = &to->items[to->count];
  *e = *entry;
  e->index = to->count;
  e->name = braid_strdup(c->allocator, name);
  if (!e->name) return BRAID_NO_MEMORY;
  to->count++;
  return BRAID_OK;
}

static braid_status read_entry(coco *c, coco_entries *to, const char *name_key) {
  char key[kMostText], name[kMostText] = "";
  bool more = true, has_id = false;
  braid_json *json = &c->json;
  BRAID_TRY(braid_json_enter(json, '{'));
  coco_entry entry = {.place = json->at - 1};
  for (;;) {
    BRAID_TRY(braid_json_key(json, key, sizeof key, &more));
    if (!more) break;
    if (strcmp(key, "id") == 0) {
      BRAID_TRY(braid_json_whole(json, &entry.id));
      has_id = true;
    } else if (strcmp(key, name_key) == 0) {
      BRAID_TRY(braid_json_string(json, name, sizeof name));
    } else {
      BRAID_TRY(braid_json_skip(json));
    }
  }
  if (!has_id || !name[0]) {
    char what[80];
    snprintf(what, sizeof what, "an id and a %s are expected", name_key);
    return braid_json_fail_at(json, entry.place, what);
  }
  return add_entry(c, to, &entry, name);
}

static braid_status read_box(braid_json *json, double *area) {
  double sides[4] = {0};
  int count = 0;
  bool more;
  BRAID_TRY(braid_json_enter(json, '['));
  const char *place = json->at - 1;
  for (;; count++) {
    BRAID_TRY(braid_json_item(json, &more));
    if (!more) break;
    if (count == 4) return braid_json_fail_at(json, place, "a bbox of four numbers is expected");
    BRAID_TRY(braid_json_number(json, &sides[count]));
  }
  if (count != 4 || sides[2] < 0 || sides[3] < 0)
    return braid_json_fail_at(json, place, "a bbox of four numbers is expected, its sides not below 0");
  *area = sides[2] * sides[3];
  return BRAID_OK;
}

static braid_status read_annotation(coco *c) {
  char key[kMostText];
  bool more, has_picture = false, has_category = false;
  braid_json *json = &c->json;
  BRAID_TRY(braid_json_enter(json, '{'));
  coco_annotation a = {.area = -1, .place = json->at - 1};
  for (;;) {
    BRAID_TRY(braid_json_key(json, key, sizeof key, &more));
    if (!more) break;
    if (strcmp(key, "image_id") == 0) {
      BRAID_TRY(braid_json_whole(json, &a.picture));
      has_picture = true;
    } else if (strcmp(key, "category_id") == 0) {
      BRAID_TRY(braid_json_whole(json, &a.category));
      has_category = true;
    } else {
      BRAID_TRY(strcmp(key, "bbox") == 0 ? read_box(json, &a.area) : braid_json_skip(json));
    }
  }
  if (!has_picture || !has_category)
    return braid_json_fail_at(json, a.place, "an image_id and a category_id are expected");
  coco_annotation *grown =
      braid_grow(c->allocator, c->annotations, c->annotation_count, &c->annotation_capacity, sizeof *c->annotations);
  if (!grown) return BRAID_NO_MEMORY;
  c->annotations = grown;
  c->annotations[c->annotation_count++] = a;
  return BRAID_OK;
}

/* `list`: 0 images, 1 categories, 2 annotations. */
static braid_status read_list(coco *c, int list) {
  bool more;
  if (c->seen[list]) return braid_json_fail_at(&c->json, c->json.at, "the list is there twice");
  c->seen[list] = true;
  BRAID_TRY(braid_json_enter(&c->json, '['));
  for (;;) {
    BRAID_TRY(braid_json_item(&c->json, &more));
    if (!more) return BRAID_OK;
    if (list == 0)
      BRAID_TRY(read_entry(c, &c->pictures, "file_name"));
    else if (list == 1)
      BRAID_TRY(read_entry(c, &c->categories, "name"));
    else
      BRAID_TRY(read_annotation(c));
  }
}

static braid_status read_file(coco *c) {
  static const char *const kLists[] = {"images", "categories", "annotations"};
  char key[kMostText];
  bool more;
  BRAID_TRY(braid_json_enter(&c->json, '{'));
  for (;;) {
    int list = 0;
    BRAID_TRY(braid_json_key(&c->json, key, sizeof key, &more));
    if (!more) break;
    while (list < 3 && strcmp(key, kLists[list]) != 0) list++;
    BRAID_TRY(list < 3 ? read_list(c, list) : braid_json_skip(&c->json));
  }
  BRAID_TRY(braid_json_finish(&c->json));
  for (int i = 0; i < 3; i++)
    if (!c->seen[i]) return braid_fail(BRAID_INVALID_FILE, "%s: has no list of %s", c->json.name, kLists[i]);
  if (c->pictures.count && c->categories.count && c->categories.count <= BRAID_MAX_CLASSES) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s: has %zu images and %zu categories; at least one, and 1 to %d are expected",
                    c->json.name, c->pictures.count, c->categories.count, BRAID_MAX_CLASSES);
}

/* --- ids -----------------------------------------------------------------------------------------------------------
 */
static int by_id(const void *a, const void *b) {
  int64_t one = ((const coco_entry *)a)->id, other = ((const coco_entry *)b)->id;
  return (one > other) - (one < other);
}

static braid_status sort_entries(coco *c, coco_entries *entries) {
  qsort(entries->items, entries->count, sizeof *entries->items, by_id);
  for (size_t i = 1; i < entries->count; i++)
    if (entries->items[i].id == entries->items[i - 1].id)
      return braid_json_fail_at(&c->json, entries->items[i].place, "the id is there twice");
  return BRAID_OK;
}

static const coco_entry *find_entry(const coco_entries *entries, int64_t id) {
  return bsearch(&(coco_entry){.id = id}, entries->items, entries->count, sizeof *entries->items, by_id);
}

/* --- targets -------------------------------------------------------------------------------------------------------
 */
/* Of each picture in the file's order: the label of the largest box so far (-1: none) and its area. */
typedef struct coco_best {
  int32_t label;
  double area;
} coco_best;

static braid_status apply_annotation(coco *c, const coco_annotation *a, braid_listing *list, coco_best *best) {
  const coco_entry *picture = find_entry(&c->pictures, a->picture), *category = find_entry(&c->categories, a->category);
  if (!picture) return braid_json_fail_at(&c->json, a->place, "its image_id is of no image");
  if (!category) return braid_json_fail_at(&c->json, a->place, "its category_id is of no category");
  size_t label = (size_t)(category - c->categories.items);
  if (list->kind == BRAID_TARGET_LABELS) {
    list->values[picture->index * list->name_count + label] = 1;
    return BRAID_OK;
  }
  if (a->area < 0) return braid_json_fail_at(&c->json, a->place, "targets=class goes by the largest bbox, it has none");
  coco_best *now = &best[picture->index];
  if (now->label < 0 || a->area > now->area) *now = (coco_best){(int32_t)label, a->area};
  return BRAID_OK;
}

/* Of classes the pictures that have one; of labels all, in the file's order. */
static void keep_pictures(coco *c, braid_listing *list, const coco_best *best, char **names) {
  for (size_t i = 0; i < c->pictures.count; i++) {
    if (best && best[i].label < 0) continue;
    if (best) list->labels[list->samples] = best[i].label;
    list->files[list->samples++] = names[i];
    names[i] = NULL;
  }
}

static braid_status make_targets(coco *c, braid_listing *list, coco_best *best, char **names) {
  for (size_t i = 0; i < c->annotation_count; i++) BRAID_TRY(apply_annotation(c, &c->annotations[i], list, best));
  for (size_t i = 0; i < c->pictures.count; i++) { /* they are sorted by id */
    names[c->pictures.items[i].index] = c->pictures.items[i].name;
    c->pictures.items[i].name = NULL;
  }
  keep_pictures(c, list, list->kind == BRAID_TARGET_CLASS ? best : NULL, names);
  for (size_t i = 0; i < c->pictures.count; i++) braid_free(c->allocator, names[i]);
  return BRAID_OK;
}

static braid_status name_categories(coco *c, braid_listing *list) {
  list->names = braid_zalloc_array(c->allocator, c->categories.count, sizeof *list->names);
  if (!list->names) return BRAID_NO_MEMORY;
  for (; list->name_count < c->categories.count; list->name_count++) {
    coco_entry *category = &c->categories.items[list->name_count];
    list->names[list->name_count] = category->name;
    category->name = NULL;
  }
  return BRAID_OK;
}

static braid_status make_listing(coco *c, braid_listing *list) {
  BRAID_TRY(sort_entries(c, &c->pictures));
  BRAID_TRY(sort_entries(c, &c->categories));
  BRAID_TRY(name_categories(c, list));
  BRAID_TRY(braid_listing_reserve(list, c->pictures.count, true));
  coco_best *best = braid_zalloc_array(c->allocator, c->pictures.count, sizeof *best);
  char **names = braid_zalloc_array(c->allocator, c->pictures.count, sizeof *names);
  for (size_t i = 0; best && i < c->pictures.count; i++) best[i].label = -1;
  braid_status status = best && names ? make_targets(c, list, best, names) : BRAID_NO_MEMORY;
  braid_free(c->allocator, names);
  braid_free(c->allocator, best);
  return status;
}

static void coco_deinit(coco *c) {
  for (size_t i = 0; i < c->pictures.count; i++) braid_free(c->allocator, c->pictures.items[i].name);
  for (size_t i = 0; i < c->categories.count; i++) braid_free(c->allocator, c->categories.items[i].name);
  braid_free(c->allocator, c->pictures.items);
  braid_free(c->allocator, c->categories.items);
  braid_free(c->allocator, c->annotations);
}

braid_status braid_coco_parse(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                              braid_target_kind kind, braid_listing *out) {
  coco c = {.allocator = allocator};
  *out = (braid_listing){.allocator = allocator, .kind = kind};
  braid_json_init(&c.json, name, data, bytes);
  braid_status status = read_file(&c);
  if (status == BRAID_OK) status = make_listing(&c, out);
  coco_deinit(&c);
  if (status != BRAID_OK) braid_listing_deinit(out);
  return status;
}

braid_status braid_coco_list(const braid_allocator *allocator, const braid_spec *spec, braid_listing *out) {
  if (spec->targets == BRAID_TARGET_NUMBERS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: targets=numbers: coco gives labels or class");
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, spec->path, kMostBytes, &view));
  braid_target_kind kind = spec->targets == BRAID_TARGET_CLASS ? BRAID_TARGET_CLASS : BRAID_TARGET_LABELS;
  braid_status status = braid_coco_parse(allocator, spec->path, view.data, view.bytes, kind, out);
  braid_file_close(&view);
  return status;
}
