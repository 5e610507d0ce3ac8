/* Data sets: labelled samples from files, and a loader that prepares batches in the background.
 *
 * A data set is described by one string, SPEC = KIND:PATH[,key=value...]:
 *   cifar10:DIR  cifar100:DIR   the binary versions (data_batch_*.bin / train.bin, test_batch.bin / test.bin); class
 *                               names from batches.meta.txt / fine_label_names.txt if present
 *   idx:DIR                     MNIST-format files (train-images-idx3-ubyte ..., t10k-..., .gz too)
 *   images:DIR                  a folder of JPEG and PNG files per class: DIR/train and DIR/test, or DIR alone, where
 *                               every tenth image of a class is for testing; without size= all images are resized to
 *                               the size of the first
 *   npy:IMAGES.npy+LABELS.npy   arrays: images uint8 or float32 of B,C,H,W (or B,H,W) with at most 4 channels, labels
 *                               integers; no splits
 *   builtin:glyphs              32x32 colour images of ten shapes, generated from a seed; no files
 * Keys, in any order; of a repeated key the last one is used:
 *   split=train|test            which part (default: set by the caller)
 *   size=HxW  channels=N        resizes images (bilinear, antialiased); converts between grey (1) and RGB (3)
 *   order=rgb|bgr               order of the channels of a sample
 *   scale=X mean=A/B/C std=A/B/C
 *                               (pixel * scale - mean) / std; scale is 1/255 (float32 arrays: 1), mean and std are one
 *                               number or one per channel, in the order of order=
 *   augment=A+B...              for training only, any of these:
 *     crop          pad=N       random crop with zero padding of N (4) pixels
 *     resized-crop  area=A/B    a random window of A to B (0.08/1) of the area, sides 3:4 to 4:3, in the sample's size
 *     flip                      horizontal flip, every second time
 *     colour        jitter=B/C/S  brightness, contrast and saturation times 1 - X to 1 + X (0.4/0.4/0.4)
 *     cutout        hole=N      a square of N pixels (half the shorter side) at a random place becomes 0
 *   limit=N                     use only the first N samples
 *   seed=N                      of builtin:glyphs
 * INVALID_ARGUMENT for an unknown kind, key or value, and for seed= with another kind; the detail names it and what is
 * allowed. */
#ifndef BRAID_DATA_H
#define BRAID_DATA_H

#include "braid/tensor.h"

typedef struct braid_dataset braid_dataset;

typedef struct braid_dataset_info {
  const char *spec;
  int64_t samples;
  int channels, height, width;
  int classes;
  const char *const *class_names; /* `classes` names */
  bool augments;                  /* SPEC has augment=, which is used in training only */
  bool one_part;                  /* npy: there are no splits, train and test are the same samples */
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
} braid_dataset_source;
/* `keys`: those of SPEC, separated by commas, except seed= and split=; NULL: none. Without scale= the numbers stay as
 * they are. Names are copied. A trainer with an output directory reads all samples once, for the checksum that --resume
 * compares. On failure `close` is not called. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_create(const braid_allocator *allocator,
                                                             const braid_dataset_source *source, const char *keys,
                                                             braid_dataset **out);
BRAID_API void braid_dataset_close(braid_dataset *dataset);
BRAID_API braid_dataset_info braid_dataset_get_info(const braid_dataset *dataset);
/* Sample `index`, normalized, without augmentation: channels*height*width floats in C,H,W order. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_sample(braid_dataset *dataset, int64_t index, float *pixels,
                                                             int32_t *label);
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
  double label_noise; /* probability that a label is replaced by one of all classes, drawn for each epoch and sample */
  bool
      keep_last; /* return the last, incomplete batch of an epoch, padded by repeating its first sample; else drop it */
  int threads;   /* 0: one */
  int depth;     /* batches prepared ahead; 0: 3 */
} braid_loader_options;
typedef struct braid_batch {
  const float *images;         /* batch, C, H, W */
  const int32_t *labels;       /* batch */
  const int64_t *indices;      /* batch: index of each sample in the data set */
  const int32_t *mixed_labels; /* batch: with mixup, the labels of the other samples; else NULL */
  float mix;                   /* share of `labels`; 1 without mixup */
  int64_t count;               /* valid samples, <= batch */
  int64_t epoch, step;         /* step within the epoch */
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
