/* Data sets: labelled samples from files, and a loader that prepares batches beside the computation.
 *
 * A data set is described by one string, SPEC = KIND:PATH[,key=value...]:
 *   cifar10:DIR  cifar100:DIR   the binary versions (data_batch_*.bin / train.bin, test_batch.bin / test.bin), and the
 *                               names of the classes from batches.meta.txt / fine_label_names.txt where they are
 *   idx:DIR                     MNIST-format files (train-images-idx3-ubyte ..., t10k-..., .gz too)
 *   images:DIR                  a folder per class of JPEG and PNG files: DIR/train and DIR/test, or DIR alone, where
 *                               every tenth picture of a class is for testing; without size= all take that of the first
 *   npy:IMAGES.npy+LABELS.npy   arrays; images uint8 or float32 of B,C,H,W (or B,H,W) with at most 4 channels, labels
 *                               integers; no splits
 *   builtin:glyphs              32x32 colour images of ten shapes made from a seed: no files
 * Keys, in any order; the last of two counts:
 *   split=train|test            which part (default: by the use)
 *   size=HxW  channels=N        what pictures are turned into: resized (bilinear, antialiased), 1 and 3 channels into
 *                               each other
 *   order=rgb|bgr               of the channels handed over
 *   scale=X mean=A/B/C std=A/B/C
 *                               (pixel * scale - mean) / std; scale is 1/255 (float32 arrays: 1), mean and std are one
 *                               number or one per channel in the order handed over
 *   augment=crop+flip  pad=N    for training only: a window moved by up to N (4) pixels into black, mirrored or not
 *   limit=N                     the first N samples only
 *   seed=N                      of builtin:glyphs
 * Another kind, key or value is INVALID_ARGUMENT, also seed= of another kind; the detail names it and what is allowed.
 */
#ifndef BRAID_DATA_H
#define BRAID_DATA_H

#include "braid/tensor.h"

typedef struct braid_dataset braid_dataset;

typedef struct braid_dataset_info {
  const char *spec;
  int64_t samples;
  int channels, height, width;
  int classes;
  const char *const *class_names; /* `classes` of them */
  bool augments;                  /* SPEC asks for augmentation, which training alone does */
  bool one_part;                  /* npy: its train part and its test part are the same samples */
} braid_dataset_info;

/* default_split: "train" or "test", used where SPEC names none. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_open(const braid_allocator *allocator, const char *spec,
                                                           const char *default_split, braid_dataset **out);
BRAID_API void braid_dataset_close(braid_dataset *dataset);
BRAID_API braid_dataset_info braid_dataset_get_info(const braid_dataset *dataset);
/* Sample `index` after normalization, without augmentation: channels*height*width floats, B,C,H,W order. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_sample(braid_dataset *dataset, int64_t index, float *pixels,
                                                             int32_t *label);
/* Sample `index` as 8-bit RGB (grey repeated), height*width*3 bytes, for showing to people. */
BRAID_API BRAID_MUST_CHECK braid_status braid_dataset_picture(braid_dataset *dataset, int64_t index, uint8_t *rgb);

/* A loader: worker threads that make batches ahead of their use. The order of samples and every augmentation depend
 * only on (seed, epoch, position): a loader started at a step gives the same bits as one that ran up to it. */
typedef struct braid_loader braid_loader;
typedef struct braid_loader_options {
  int64_t batch;
  uint64_t seed;
  bool shuffle, augment;
  bool keep_last; /* give the last, smaller batch padded with its first sample repeated; else drop it */
  int threads;    /* 0: one */
  int depth;      /* batches ahead; 0: 3 */
} braid_loader_options;
typedef struct braid_batch {
  const float *images;    /* batch, C, H, W */
  const int32_t *labels;  /* batch */
  const int64_t *indices; /* batch: which samples */
  int64_t count;          /* valid samples, <= batch */
  int64_t epoch, step;    /* step within the epoch */
} braid_batch;
BRAID_API BRAID_MUST_CHECK braid_status braid_loader_create(braid_dataset *dataset, const braid_loader_options *options,
                                                            int64_t first_epoch, int64_t first_step,
                                                            braid_loader **out);
BRAID_API void braid_loader_destroy(braid_loader *loader);
BRAID_API int64_t braid_loader_steps(const braid_loader *loader); /* per epoch */
/* The next batch, going on into the following epochs without end; valid until the next call. */
BRAID_API BRAID_MUST_CHECK braid_status braid_loader_next(braid_loader *loader, braid_batch *batch);

/* One picture file (JPEG, PNG; "-" is standard input) as floats in C,H,W order, resized (bilinear, antialiased) to
 * height x width (0: as it is), with the keys of SPEC above in `preprocess` ("mean=...,order=bgr", NULL: pixels/255).
 */
BRAID_API BRAID_MUST_CHECK braid_status braid_image_load(const braid_allocator *allocator, const char *path,
                                                         int channels, int height, int width, const char *preprocess,
                                                         braid_tensor **out);

#endif
