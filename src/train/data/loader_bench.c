/* How many samples a second a loader makes, with one thread and with one for each processor: CIFAR's size, crop, flip
 * and normalization, batches of 128, over bytes kept in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/thread.h"
#include "braid/data.h"

enum { kSamples = 10000, kBatch = 128, kWarmBatches = 20, kBatches = 500, kRuns = 3, kMost = 16 };

static braid_status save(const char *path, braid_dtype dtype, int rank, const int64_t *dims) {
  braid_desc desc;
  braid_tensor *tensor = NULL;
  braid_status status = braid_desc_init(&desc, dtype, rank, dims);
  if (status == BRAID_OK) status = braid_tensor_create(NULL, &desc, &tensor);
  if (status == BRAID_OK) {
    uint8_t *bytes = braid_tensor_data(tensor);
    for (size_t i = 0; i < braid_desc_bytes(&desc); i++) bytes[i] = (uint8_t)(braid_random_u32(1, 0, 0, i) % 10);
    status = braid_npy_save(path, tensor);
  }
  braid_tensor_release(tensor);
  return status;
}

static braid_status measure(braid_dataset *dataset, int threads, const char *what) {
  const braid_loader_options options = {
      .batch = kBatch, .seed = 1, .shuffle = true, .augment = true, .threads = threads, .depth = 4};
  double best = 0;
  braid_status status = BRAID_OK;
  for (int run = 0; run < kRuns && status == BRAID_OK; run++) {
    braid_loader *loader;
    braid_batch batch;
    int64_t start = 0;
    status = braid_loader_create(dataset, &options, 0, 0, &loader);
    for (int i = 0; i < kWarmBatches + kBatches && status == BRAID_OK; i++) {
      if (i == kWarmBatches) start = braid_now_ns();
      status = braid_loader_next(loader, &batch);
    }
    double rate = kBatches * kBatch * 1e9 / (double)(braid_now_ns() - start);
    braid_loader_destroy(loader);
    if (rate > best) best = rate;
  }
  if (status == BRAID_OK)
    printf("loader, threads: %2d, %-32s %10.0f images/s (best of %d runs)\n", threads, what, best, kRuns);
  return status;
}

static braid_status measure_spec(const char *spec, const char *what) {
  braid_dataset *dataset;
  braid_status status = braid_dataset_open(NULL, spec, "train", &dataset);
  int processors = braid_cpu_count();
  if (status == BRAID_OK) status = measure(dataset, 1, what);
  if (status == BRAID_OK && processors > 1) status = measure(dataset, processors < kMost ? processors : kMost, what);
  braid_dataset_close(dataset);
  return status;
}

int main(void) {
  char folder[] = "/tmp/braid-loader-bench-XXXXXX", images[64], labels[64], spec[256];
  if (!mkdtemp(folder)) {
    perror(folder);
    return 1;
  }
  snprintf(images, sizeof images, "%s/images.npy", folder);
  snprintf(labels, sizeof labels, "%s/labels.npy", folder);
  static const char *const kWays[] = {"crop+flip", "crop+flip+cutout"};
  braid_status status = save(images, BRAID_U8, 4, (int64_t[]){kSamples, 3, 32, 32});
  if (status == BRAID_OK) status = save(labels, BRAID_U8, 1, (int64_t[]){kSamples});
  for (int i = 0; i < 2 && status == BRAID_OK; i++) {
    snprintf(spec, sizeof spec, "npy:%s+%s,augment=%s,mean=0.49/0.48/0.45,std=0.25/0.24/0.26", images, labels,
             kWays[i]);
    status = measure_spec(spec, kWays[i]);
  }
  if (status == BRAID_OK) status = measure_spec("builtin:glyphs,augment=crop+flip", "builtin:glyphs");
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  unlink(images), unlink(labels), rmdir(folder);
  return status != BRAID_OK;
}
