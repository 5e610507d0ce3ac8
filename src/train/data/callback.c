/* Data sets that a program reads itself (braid_dataset_create). */
#include "base/text.h"
#include "base/try.h"
#include "train/data/dataset.h"
#include "train/data/image.h"

typedef struct callback {
  const braid_allocator *allocator;
  braid_dataset_source from;
  const char **class_names; /* copies; NULL: numbers */
  char *name;
  bool owned; /* `close` of the program is to be called */
} callback;

static braid_status callback_read(void *self, int64_t index, const braid_augment *how, float *pixels, void *target) {
  (void)how;
  const callback *c = self;
  braid_status status = c->from.target == BRAID_TARGET_CLASS
                            ? c->from.read(c->from.context, index, pixels, target)
                            : c->from.read_targets(c->from.context, index, pixels, target);
  if (status == BRAID_OK) return BRAID_OK;
  return braid_fail_prefix(status, "%.120s: sample %lld", c->name, (long long)index);
}

static void callback_close(void *self) {
  callback *c = self;
  if (c->owned && c->from.close) c->from.close(c->from.context);
  for (int i = 0; c->class_names && i < c->from.classes; i++) braid_free(c->allocator, (char *)c->class_names[i]);
  braid_free(c->allocator, c->class_names);
  braid_free(c->allocator, c->name);
  braid_free(c->allocator, c);
}

static braid_status check_callback(const braid_dataset_source *from) {
  bool side =
      from->height < 1 || from->height > BRAID_IMAGE_MAX_SIDE || from->width < 1 || from->width > BRAID_IMAGE_MAX_SIDE;
  if (from->channels < 1 || from->channels > BRAID_SPEC_CHANNELS || side)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%.120s: samples are %d x %d x %d; 1 to %d channels and sides of 1 to %d are expected",
                      from->name, from->channels, from->height, from->width, BRAID_SPEC_CHANNELS, BRAID_IMAGE_MAX_SIDE);
  if ((unsigned)from->target > BRAID_TARGET_NUMBERS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: unknown kind of targets: %u", from->name,
                      (unsigned)from->target);
  if (from->target == BRAID_TARGET_CLASS ? !from->read : !from->read_targets)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: has no function that reads samples", from->name);
  if (from->classes < 1 || from->classes > BRAID_MAX_CLASSES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: has %d classes, 1 to %d are expected", from->name, from->classes,
                      BRAID_MAX_CLASSES);
  for (int i = 0; from->class_names && i < from->classes; i++)
    if (!from->class_names[i]) return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: class %d has no name", from->name, i);
  return BRAID_OK;
}

static braid_status copy_names(callback *c) {
  if (!(c->name = braid_strdup(c->allocator, c->from.name))) return BRAID_NO_MEMORY;
  if (!c->from.class_names) return BRAID_OK;
  c->class_names = braid_zalloc_array(c->allocator, (size_t)c->from.classes, sizeof *c->class_names);
  for (int i = 0; c->class_names && i < c->from.classes; i++)
    if (!(c->class_names[i] = braid_strdup(c->allocator, c->from.class_names[i]))) return BRAID_NO_MEMORY;
  return c->class_names ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_source_callback(const braid_allocator *allocator, const braid_dataset_source *from,
                                   braid_source *out) {
  BRAID_TRY(check_callback(from));
  callback *c = braid_zalloc(allocator, sizeof *c);
  if (!c) return BRAID_NO_MEMORY;
  c->allocator = allocator;
  c->from = *from;
  braid_status status = copy_names(c);
  if (status != BRAID_OK) {
    callback_close(c);
    return status;
  }
  *out = (braid_source){.self = c,
                        .samples = from->samples,
                        .channels = from->channels,
                        .height = from->height,
                        .width = from->width,
                        .classes = from->classes,
                        .kind = from->target,
                        .class_names = c->class_names,
                        .is_float = true,
                        .read = callback_read,
                        .close = callback_close};
  return BRAID_OK;
}

void braid_source_callback_own(braid_source *source) {
  ((callback *)source->self)->owned = true;
}
