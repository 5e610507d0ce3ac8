/* Data sets: labelled samples from files, and a loader that prepares batches in the background.
 *
 * A data set is described by one string, SPEC = KIND:PATH[,key=value...]:
 *   cifar10:DIR  cifar100:DIR   the binary versions (data_batch_*.bin / train.bin, test_batch.bin / test.bin); class
 *                               names from batches.meta.txt / fine_label_names.txt if present
 *   idx:DIR                     MNIST-format files (train-images-idx3-ubyte ..., t10k-..., .gz too)
 *   images:DIR                  a folder of JPEG and PNG files per class: DIR/train and DIR/test (or DIR/val),
 *                               or DIR alone, where every tenth image of a class is for testing; without size=
 *                               all images are resized to the size of the first
 *   images:DIR,labels=FILE.csv  pictures that a table lists: a column with the files' names below DIR (columns=;
 *                               the first), the others are targets (target=); rows for testing as those of csv
 *   npy:IMAGES.npy+TARGETS.npy  arrays: images uint8 or float32 of B,C,H,W (or B,H,W) with at most 4 channels;
 *                               targets integers of B (classes), bool or uint8 of B,N (1 for each label that a
 *                               sample has) or float32 of B or B,N (numbers); no splits
 *   csv:FILE,target=COLUMN      rows of numbers (RFC 4180), each a sample of 1,1,columns. FILE is a file, of which
 *                               every tenth row is for testing, or a folder with train.csv and test.csv
 *   coco:FILE.json,images=DIR   COCO's annotations of pictures: labels, all categories of a picture's annotations;
 *                               or with targets=class the category of its largest box, without the pictures that
 *                               have none. No splits
 *   builtin:glyphs              32x32 colour images of ten shapes, generated from a seed; no files
 * Keys, in any order; each at most once:
 *   split=train|test            which part (default: set by the caller); split=all: of one table both
 *   size=HxW  channels=N        resizes images (bilinear, antialiased); converts between grey (1) and RGB (3)
 *   order=rgb|bgr               order of the channels of a sample
 *   scale=X mean=A/B/C std=A/B/C
 *                               (pixel * scale - mean) / std; scale is 1/255 (float32 arrays: 1), mean and std are
 *                               one number or one per channel, in the order of order=
 *   augment=A+B...              for training only, any of these:
 *     crop          pad=N border=black|reflect
 *                               random crop with padding of N (4) pixels: black, or the picture mirrored at its edge
 *                               (PyTorch's "reflect"; N is then less than half of the shorter side)
 *     resized-crop  area=A/B    a random window of A to B (0.08/1) of the area, sides 3:4 to 4:3, in the sample's
 *                               size
 *     flip                      horizontal flip, every second time by chance
 *     alternating-flip          horizontal flip in every second epoch, of half of the samples in the first one (Jordan,
 *                               "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024)
 *     colour        jitter=B/C/S[/H]
 *                               brightness, contrast and saturation times 1 - X to 1 + X (0.4/0.4/0.4), the hue
 *                               turned by up to H of a whole turn (0 to 0.5; 0)
 *     cutout        hole=N      a square of N pixels (half the shorter side) at a random place becomes 0
 *   views=A+B                   for testing only: scores are means over several views of a sample, flip: with the
 *                               flipped one; shift: with two that are shifted by a pixel (braid_test)
 *   target=A/B columns=A/B      of tables: what is to be learnt, and from what (all others); names of the first line,
 *                               or numbers from 1 on
 *   targets=class|labels|numbers
 *                               of tables: what several columns are (labels if they hold 0 and 1 only, else numbers),
 *                               and what one is (a class, by name or number; with fractions numbers)
 *   header=yes|no               of tables: whether the first line has names (yes if nothing in it is a number)
 *   limit=N                     use only the first N samples
 *   seed=N                      of builtin:glyphs
 * INVALID_ARGUMENT for an unknown kind, key or value, and for seed= with another kind; the detail names it and what is
 * allowed. */
#ifndef BRAID_DATA_H
#define BRAID_DATA_H

#include "braid/tensor.h"

typedef struct braid_dataset braid_dataset;

/* What is to be learnt of a sample, its target. */
typedef enum braid_target_kind {
  BRAID_TARGET_CLASS,  /* one class: an int32_t below `classes` */
  BRAID_TARGET_LABELS, /* any number of the classes: `classes` floats from 0 to 1, 1 where the sample is of the class */
  BRAID_TARGET_NUMBERS, /* `classes` numbers that are to be predicted, as floats; class_names are their names */
} braid_target_kind;

typedef struct braid_dataset_info {
  const char *spec;
  int64_t samples;
  int channels, height, width;
  int classes;
  const char *const *class_names; /* `classes` names */
  bool augments;                  /* SPEC has augment=, which is used in training only */
  bool one_part;                  /* npy: there are no splits, train and test are the same samples */
  braid_target_kind target;
  bool views; /* SPEC has views=, which is used in testing only */
  bool table; /* csv: rows of numbers with scales of their own (braid_standardize_input) */
} braid_dataset_info;

/* default_split: "train" or "test", used if SPEC has no split=. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_open(const braid_allocator *allocator, const char *spec,
                                                           const char *default_split, braid_dataset **out);
/* A data set of a program's own: `read` gives the samples. */
typedef struct braid_dataset_source {
  const char *name; /* for messages and reports */
  int64_t samples;
  int channels, height, width; /* of what `read` gives: 1 to 4 channels, sides of 1 to 16384 */
  int classes;
  const char *const *class_names; /* NULL: "0", "1", ... */
  /* Writes channels*height*width floats in C,H,W order and the class, below `classes`. Called by several threads, also
   * for the same index, and with the same result whenever it is called. Other statuses than OK end the reading; say why
   * with braid_fail. */
  braid_status (*read)(void *context, int64_t index, float *pixels, int32_t *label);
  void (*close)(void *context); /* by braid_dataset_close; NULL: nothing is to be done */
  void *context;
  /* Other targets than one class are given by `read_targets`, as `classes` floats, instead of `read`. */
  braid_target_kind target;
  braid_status (*read_targets)(void *context, int64_t index, float *pixels, float *targets);
} braid_dataset_source;
/* `keys`: those of SPEC, separated by commas, except seed= and split=; NULL: none. Without scale= the numbers stay as
 * they are. Names are copied. A trainer with an output directory reads all samples once, for the checksum that --resume
 * compares. On failure `close` is not called. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_create(const braid_allocator *allocator,
                                                             const braid_dataset_source *source, const char *keys,
                                                             braid_dataset **out);
BRAID_API void braid_dataset_close(braid_dataset *dataset);
BRAID_API braid_dataset_info braid_dataset_get_info(const braid_dataset *dataset);
/* Sample `index`, normalized, without augmentation: channels*height*width floats in C,H,W order, and its target: an
 * int32_t, or `classes` floats where the targets are labels or numbers (braid_target_kind). */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_sample(braid_dataset *dataset, int64_t index, float *pixels,
                                                             void *target);
/* Sample `index` for display, as 8-bit RGB in H,W,3 order (grey is replicated): height*width*3 bytes. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_picture(braid_dataset *dataset, int64_t index, uint8_t *rgb);

/* A loader: worker threads that prepare batches ahead of their use. The order of samples and the augmentation depend
 * only on (seed, epoch, position in the epoch), so a loader created at a given step returns the same bits as one that
 * ran up to that step. */
typedef struct braid_loader braid_loader;
typedef struct braid_loader_options {
  int64_t batch;
  uint64_t seed;
  bool shuffle, augment;
  double mixup;       /* above 0: sample i of a batch of n becomes s * sample i + (1 - s) * sample n - 1 - i, with s of
                         Beta(mixup, mixup), drawn for each batch */
  double label_noise; /* probability that a class is replaced by one of all classes, drawn for each epoch and sample */
  bool
      keep_last; /* return the last, incomplete batch of an epoch, padded by repeating its first sample; else drop it */
  int threads;   /* 0: one */
  int depth;     /* batches prepared ahead; 0: 3 */
  int64_t slice_first, slice_count; /* of every batch only these samples are read and given, with the same numbers as in
                                       the whole one: for one of several processes. 0 and 0: all */
} braid_loader_options;
typedef struct braid_batch {
  const float *images;         /* batch, C, H, W */
  const int32_t *labels;       /* batch, where targets are classes; else NULL */
  const int64_t *indices;      /* batch: index of each sample in the data set; of a slice with mixup, then those of
                                  the other samples */
  const int32_t *mixed_labels; /* batch: with mixup, the labels of the other samples; else NULL */
  float mix;                   /* share of the first targets; 1 without mixup */
  int64_t count;               /* valid samples, <= batch */
  int64_t epoch, step;         /* step within the epoch */
  const void *targets;         /* batch targets, of int32_t or of floats; the same as `labels` where those are there */
  const void *mixed_targets;   /* with mixup, those of the other samples; else NULL */
} braid_batch;
BRAID_API BRAID_MUST_CHECK braid_status braid_loader_create(braid_dataset *dataset, const braid_loader_options *options,
                                                            int64_t first_epoch, int64_t first_step,
                                                            braid_loader **out);
BRAID_API void braid_loader_destroy(braid_loader *loader);
BRAID_API int64_t braid_loader_steps(const braid_loader *loader); /* per epoch */
/* The next batch; after the last of an epoch, the first of the next epoch, without end. `batch` is valid until the next
 * call. */
BRAID_API BRAID_MUST_CHECK braid_status braid_loader_next(braid_loader *loader, braid_batch *batch);

/* Reads an image file (JPEG, PNG; "-" is standard input) as float32 C,H,W, resized (bilinear, antialiased) to height x
 * width (0: the image's own). `preprocess`: keys of SPEC for normalization ("mean=...,order=bgr"); NULL: pixel / 255.
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_image_load(const braid_allocator *allocator, const char *path,
                                                         int channels, int height, int width, const char *preprocess,
                                                         braid_tensor **out);

#endif
