/* Data sets: what the kinds (binary files, folders, arrays, glyphs) have in common, and what each hands over. */
#ifndef BRAID_TRAIN_DATASET_H
#define BRAID_TRAIN_DATASET_H

#include "braid/data.h"

/* What comes after KIND:PATH in a SPEC. */
enum { BRAID_SPEC_CHANNELS = 4 };
typedef struct braid_spec {
  char kind[16];
  char *path; /* owned */
  char split[8];
  int means, stds; /* how many are given: 0, 1 (for all channels) or one per channel */
  float mean[BRAID_SPEC_CHANNELS], std[BRAID_SPEC_CHANNELS];
  double scale; /* 0: not given */
  bool bgr;
  int height, width, channels; /* 0: as they are */
  bool crop, flip;
  int pad;
  int64_t limit; /* 0: all */
  uint64_t seed;
} braid_spec;
/* `keys_only`: no KIND:PATH before the keys. NULL or "" is no keys. */
BRAID_MUST_CHECK braid_status braid_spec_parse(const braid_allocator *allocator, const char *text, bool keys_only,
                                               const char *default_split, braid_spec *out);
void braid_spec_deinit(const braid_allocator *allocator, braid_spec *spec);

/* Where samples come from. `find` and `read` may be called by several threads. */
typedef struct braid_source {
  void *self;
  int64_t samples;
  int channels, height, width; /* of every sample as it is stored */
  int classes;
  const char *const *class_names; /* NULL: "0", "1", ... */
  bool is_float;                  /* values as they are, not 0..255 */
  bool one_part;                  /* the same samples for training and for testing */
  /* One of the two; both go channel by channel. `find`: the bytes of a sample where they lie, good until close. `read`:
   * writes channels * height * width floats. */
  const uint8_t *(*find)(void *self, int64_t index, int32_t *label);
  braid_status (*read)(void *self, int64_t index, float *pixels, int32_t *label);
  /* A checksum over the first `samples` as they are stored, all their labels among them; of a set too large to be read
   * at once, over what the source says. NULL: over all that `find` or `read` give. */
  braid_status (*sum)(void *self, int64_t samples, uint32_t *sum);
  void (*close)(void *self);
} braid_source;

/* Each fills *out, or fails and leaves it alone. */
BRAID_MUST_CHECK braid_status braid_source_cifar(const braid_allocator *allocator, const braid_spec *spec,
                                                 braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_idx(const braid_allocator *allocator, const braid_spec *spec,
                                               braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_folder(const braid_allocator *allocator, const braid_spec *spec,
                                                  braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_npy(const braid_allocator *allocator, const braid_spec *spec,
                                               braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_glyphs(const braid_allocator *allocator, const braid_spec *spec,
                                                  braid_source *out);

/* For the loader: a sample as braid_dataset_sample gives it, through `scratch` of braid_dataset_scratch floats, so that
 * several threads may read. `augment` NULL: none. */
typedef struct braid_augment {
  uint64_t seed;
  uint32_t epoch;
  uint64_t position; /* of the sample in the epoch */
} braid_augment;
/* Of the samples as they are stored, for telling whether a data set is the same (braid_source.sum). */
BRAID_MUST_CHECK braid_status braid_dataset_sum(const braid_dataset *dataset, uint32_t *sum);
size_t braid_dataset_scratch(const braid_dataset *dataset);
BRAID_MUST_CHECK braid_status braid_dataset_read(const braid_dataset *dataset, int64_t index,
                                                 const braid_augment *augment, float *scratch, float *pixels,
                                                 int32_t *label);
const braid_allocator *braid_dataset_allocator(const braid_dataset *dataset);
const braid_spec *braid_dataset_spec(const braid_dataset *dataset);

#endif
