/* Data sets: the interface of the kinds of data sets (binary files, folders, arrays, glyphs) and what they share. */
#ifndef BRAID_TRAIN_DATASET_H
#define BRAID_TRAIN_DATASET_H

#include "braid/data.h"

#define BRAID_SPEC_CALLBACK "callback" /* the kind of data sets that a program reads itself; none of a SPEC's */

/* A parsed SPEC. */
enum { BRAID_SPEC_CHANNELS = 4, BRAID_MAX_CLASSES = 100000 };
typedef struct braid_spec {
  char kind[16];
  char *path; /* owned */
  char split[8];
  int means, stds; /* number given: 0, 1 (for all channels) or one per channel */
  float mean[BRAID_SPEC_CHANNELS], std[BRAID_SPEC_CHANNELS];
  double scale; /* 0: not given */
  bool bgr;
  int height, width, channels; /* 0: not changed */
  bool crop, flip, alternating_flip, resized_crop, colour, cutout;
  int pad, reflect;                /* of crop; reflect: the border is the picture mirrored at its edge, not black */
  float area[2];                   /* of resized-crop: least and most share of the picture */
  float jitter[4];                 /* of colour: brightness, contrast, saturation, hue */
  int hole;                        /* of cutout; 0: half the shorter side */
  bool view_flipped, view_shifted; /* tests average over these too (views.h) */
  int64_t limit;                   /* 0: all */
  uint64_t seed;
  char target[256], columns[1024]; /* of tables; empty: not given */
  char labels[1024];               /* of images: a table that lists them; empty: not given */
  char images[1024];               /* of coco: the folder of the pictures; empty: not given */
  int targets, header;             /* of tables: a braid_target_kind; whether the first line has names; -1: not given */
} braid_spec;
/* `keys_only`: the text has no KIND:PATH; NULL and "" have no keys. */
BRAID_MUST_CHECK braid_status braid_spec_parse(const braid_allocator *allocator, const char *text, bool keys_only,
                                               const char *default_split, braid_spec *out);
void braid_spec_deinit(const braid_allocator *allocator, braid_spec *spec);

/* What is drawn for a sample: by the seed, the epoch and the position of the sample in it. */
typedef struct braid_augment {
  uint64_t seed;
  uint32_t epoch;
  uint64_t position;
} braid_augment;

/* The interface of a kind of data set. `find` and `read` may be called by several threads. */
typedef struct braid_source {
  void *self;
  int64_t samples;
  int channels, height, width; /* of stored samples */
  int classes;
  braid_target_kind kind;         /* of targets */
  const char *const *class_names; /* NULL: "0", "1", ... */
  bool is_float;                  /* samples are float32, else uint8 */
  bool one_part;                  /* the same samples for training and for testing */
  /* One of the two, in C,H,W order. `find`: returns the address of the stored sample, valid until close. `read`: writes
   * channels * height * width floats; with `windows`, it cuts out the window of augment=resized-crop that `how` (NULL:
   * none) draws itself, before the picture is made smaller. */
  const uint8_t *(*find)(void *self, int64_t index, void *target);
  braid_status (*read)(void *self, int64_t index, const braid_augment *how, float *pixels, void *target);
  bool windows;
  /* The target alone, where it is known without reading the sample. NULL: it comes with `find` or `read`. */
  void (*target)(void *self, int64_t index, void *target);
  /* A checksum of the first `samples` stored samples and their targets; for sets that are too large to be read at once,
   * of a part that the source defines. NULL: the checksum is computed from `find` or `read`. */
  braid_status (*sum)(void *self, int64_t samples, uint32_t *sum);
  void (*close)(void *self);
} braid_source;

/* Each sets *out, or fails and leaves it unchanged. */
BRAID_MUST_CHECK braid_status braid_source_cifar(const braid_allocator *allocator, const braid_spec *spec,
                                                 braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_idx(const braid_allocator *allocator, const braid_spec *spec,
                                               braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_folder(const braid_allocator *allocator, const braid_spec *spec,
                                                  braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_npy(const braid_allocator *allocator, const braid_spec *spec,
                                               braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_csv(const braid_allocator *allocator, const braid_spec *spec,
                                               braid_source *out);
BRAID_MUST_CHECK braid_status braid_source_glyphs(const braid_allocator *allocator, const braid_spec *spec,
                                                  braid_source *out);

/* Not opened by SPEC. `from` is checked and copied. */
BRAID_MUST_CHECK braid_status braid_source_callback(const braid_allocator *allocator, const braid_dataset_source *from,
                                                    braid_source *out);
/* From now on closing the source calls the program's `close`. */
void braid_source_callback_own(braid_source *source);

/* Checksum of the stored samples, to detect whether a data set is the same (braid_source.sum). */
BRAID_MUST_CHECK braid_status braid_dataset_sum(const braid_dataset *dataset, uint32_t *sum);
/* SHA-256 of the stored samples and their targets in their order, each target before its sample; of a source with a
 * checksum of its own, of that. */
BRAID_MUST_CHECK braid_status braid_dataset_hash(const braid_dataset *dataset, uint8_t out[32]);
/* How many samples each class has; targets are classes or labels. */
BRAID_MUST_CHECK braid_status braid_dataset_count_classes(const braid_dataset *dataset, int64_t *counts);
size_t braid_dataset_target_bytes(const braid_dataset *dataset); /* of one sample */
/* As braid_dataset_sample, for several threads: each has a `scratch` of braid_dataset_scratch floats. `augment` NULL:
 * none. */
size_t braid_dataset_scratch(const braid_dataset *dataset);
BRAID_MUST_CHECK braid_status braid_dataset_read(const braid_dataset *dataset, int64_t index,
                                                 const braid_augment *augment, float *scratch, float *pixels,
                                                 void *target);
/* Every sample is of finite numbers, whatever augmentation does with it: those that are stored as bytes are. */
bool braid_dataset_is_finite(const braid_dataset *dataset);
const braid_allocator *braid_dataset_allocator(const braid_dataset *dataset);
const braid_spec *braid_dataset_spec(const braid_dataset *dataset);

/* How many threads read where nobody says it, in training and in tests: half of the processors, since the CPU's kernels
 * need the others and a card needs few, and 1 to 8. */
int braid_loader_usual_threads(void);
/* The memory of all batches of a loader. */
void *braid_loader_memory(const braid_loader *loader, size_t *bytes);

#endif
